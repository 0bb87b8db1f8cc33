"""Documents are split without loss, and ids depend on the document alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage import MirageDataset, Passage
from mirage.corpus import chunk
from mirage.errors import SettingError
from mirage.text import tokenize


def document(text: str, id_: str = "d") -> Passage:
    return Passage(id=id_, text=text, title="T")


def joined(texts: list[str]) -> str:
    """Return a text without blanks, some of which a split may remove."""
    return "".join("".join(texts).split())


@pytest.mark.parametrize("language", MOSTLY_SLOW_LANGUAGES)
@pytest.mark.parametrize("unit", ["word", "character"])
def test_the_text_is_recoverable_and_ids_do_not_depend_on_the_rest(
    language: str, unit: str
) -> None:
    texts = [p.text for query in MirageDataset.bundled(language)[:4] for p in query.passages]
    documents = [document(text, f"d{i}") for i, text in enumerate(texts)]
    cut = list(chunk(documents, 12, unit))  # type: ignore[arg-type]
    for source in documents:
        passages = [p for p in cut if p.document_id == source.id]
        assert joined([p.text for p in passages]) == joined([source.text])
        assert passages == list(chunk([source], 12, unit))  # type: ignore[arg-type]
        assert [p.id for p in passages] == [f"{source.id}#{n}" for n in range(len(passages))]
    assert {p.title for p in cut} == {"T"}
    assert max(len(tokenize(p.text, None)) for p in cut) <= 12 * 2  # a hyphen parts two tokens


def test_characters_are_words_in_scripts_without_spaces() -> None:
    assert [p.text for p in chunk([document("東京はABC日本の首都。")], 3)] == [
        "東京は",
        "ABC日本",
        "の首都。",
    ]
    assert [p.text for p in chunk([document("ที่นี่ กา")], 2)] == ["ที่นี่", "กา"]


def test_passages_overlap_by_the_requested_units() -> None:
    cut = [p.text for p in chunk([document("a b c d e f g")], 3, overlap=1)]
    assert cut == ["a b c", "c d e", "e f g"]
    assert [p.text for p in chunk([document("a b")], 3, overlap=1)] == ["a b"]
    assert [p.text for p in chunk([document("a b c d")], 3, overlap=1)] == ["a b c", "c d"]


def test_a_function_defines_the_units() -> None:
    def pairs(text: str) -> list[tuple[int, int]]:
        return [(i, min(i + 2, len(text))) for i in range(0, len(text), 2)]

    assert [p.text for p in chunk([document("abcdefg")], 2, pairs)] == ["abcd", "efg"]


def test_a_text_without_words_gives_no_passage() -> None:
    assert list(chunk([document(" \n ")])) == []


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (3, 3), (3, -1)])
def test_invalid_sizes_raise_errors(size: int, overlap: int) -> None:
    with pytest.raises(SettingError, match="size must be at least 1"):
        list(chunk([document("a")], size, overlap=overlap))


def test_unknown_units_raise_an_error() -> None:
    with pytest.raises(SettingError, match="'sentence'"):
        list(chunk([document("a")], 3, "sentence"))  # type: ignore[arg-type]


@given(st.text(max_size=80), st.integers(1, 9), st.data())
def test_any_text_is_recoverable(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    cut = list(chunk([document(text)], size, overlap=0))
    if cut:
        assert joined([p.text for p in cut]) == joined([text])
    overlapping = list(chunk([document(text)], size, overlap=overlap))
    assert bool(cut) == bool(overlapping)
