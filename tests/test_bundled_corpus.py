"""The bundled benchmark: in every language whole, parallel, and told apart by its own answers."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.languages import LANGUAGES
from mirage.models import Query
from mirage.surrogate.drafts import bundled_texts
from mirage.text import mention, parse
from mirage.text.mentions import MENTIONED_AT

CORPORA = Path(__file__).parents[1] / "corpora"
TRUTH = Path(__file__).parent / "data" / "truth"
BUNDLED = resources.files("mirage") / "data"

# How the Unicode names of a script's letters begin, where not with the script's own name. The
# long-vowel mark and the iteration mark of Japanese are letters with names of their own.
NAMES = {
    "Han": ("CJK UNIFIED IDEOGRAPH",),
    "Japanese": ("CJK UNIFIED IDEOGRAPH", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC ITERATION MARK"),
}

every_language = each_case("code", LANGUAGES)


@cache
def corpus(code: str) -> MirageDataset:
    return MirageDataset.bundled(code)


@cache
def source(code: str) -> list[dict[str, Any]]:
    """The sources as records, by the script that ships are made with."""
    return list(_script("build").build(code))


@cache
def _script(name: str) -> Any:
    sys.path.insert(0, str(CORPORA))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(CORPORA))


def test_set(code: str) -> dict[str, dict[str, str]]:
    lines = (TRUTH / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    return {row.pop("query_id"): row for row in map(json.loads, lines)}


test_set.__test__ = False  # type: ignore[attr-defined]


def answer(query: Query, text: str) -> str:
    return parse(text, query.language, query.passage_ids).answer_text


def stated(query: Query, text: str, answers: tuple[tuple[str, ...], ...]) -> list[bool]:
    said = answer(query, text)
    return [any(mention(f, said, query.language) >= MENTIONED_AT for f in fs) for fs in answers]


# --- Shape


@every_language
def test_forty_questions_of_which_passages_answer_thirty(code: str) -> None:
    known = [query.answerable for query in corpus(code)]
    assert (known.count(True), known.count(False)) == (30, 10)
    assert corpus(code).language == code
    for number, query in enumerate(corpus(code), 1):
        assert query.id == f"q{number:02}"
        assert query.passage_ids == tuple(f"{1000 + number}#{k}" for k in range(5))
        assert all(passage.title and passage.text for passage in query.passages)
        assert len(query.relevant) in (range(1, 5) if query.answerable else (0,))
        assert set(query.relevant) <= set(query.passage_ids)
        assert bool(query.answers) == query.answerable
        assert query.wrong_answers


@every_language
def test_the_languages_are_parallel(code: str) -> None:
    assert corpus(code).query_ids == corpus("en").query_ids
    for query, english in zip(corpus(code), corpus("en"), strict=True):
        assert query.relevant == english.relevant
        assert query.answerable == english.answerable
        assert len(query.answers) == len(english.answers)
        assert query.metadata["kind"] == english.metadata["kind"]


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_the_sources_keep_their_rules(code: str) -> None:
    violations, _ = _script("check").check(code)
    assert violations == []


@every_language
def test_what_ships_is_made_from_the_sources(code: str, tmp_path: Path) -> None:
    _script("build").write(code, package=tmp_path, tests=tmp_path / "truth")
    for folder in ("mini", "responses"):
        made = (tmp_path / folder / f"{code}.jsonl").read_bytes()
        assert made == (BUNDLED / folder / f"{code}.jsonl").read_bytes()
    assert (tmp_path / "truth" / f"{code}.jsonl").read_bytes() == (
        TRUTH / f"{code}.jsonl"
    ).read_bytes()


# --- Script


@every_language
def test_texts_are_clean_and_in_the_script(code: str) -> None:
    script = LANGUAGES[code].script
    names = NAMES.get(script, (script.upper(),))
    for query in corpus(code):
        texts = [query.text, query.reference or "", *(p.text for p in query.passages)]
        for text in texts:
            assert unicodedata.is_normalized("NFC", text)
            assert text == text.strip()
            assert not re.search(r" {2}|[\t\r\x00-\x09\ufffd\ufeff]", text)
        letters = [char for p in query.passages for char in p.text if char.isalpha()]
        inside = sum(unicodedata.name(char).startswith(names) for char in letters)
        assert inside / len(letters) >= 0.9, query.id


# --- Answers


@every_language
def test_references_cite_relevant_passages_only(code: str) -> None:
    for query in corpus(code):
        reference = parse(query.reference or "", code, query.passage_ids)
        assert reference.well_formed
        cited = {id_ for sentence in reference.sentences for id_ in sentence.citations}
        assert cited <= set(query.relevant) or not query.answerable, query.id


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_true_texts_state_every_answer_and_lies_not_all(code: str) -> None:
    tests = test_set(code)
    for query in corpus(code):
        if not query.answerable:
            continue
        texts = bundled_texts(code)[query.id]
        for text in (query.reference or "", *texts.true, texts.terse, tests[query.id]["true"]):
            assert all(stated(query, text, query.answers)), (query.id, text)
        for text in (texts.false, tests[query.id]["false"]):
            assert not all(stated(query, text, query.answers)), (query.id, text)


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_the_test_set_is_worded_apart_from_what_ships(code: str) -> None:
    grams = _script("check").overlap
    for row in source(code):
        ours = [
            text
            for texts in row["responses"].values()
            for text in ([texts] if isinstance(texts, str) else texts)
        ]
        for text in row["test"].values():
            assert all(grams(text, other) < 0.7 for other in ours), (row["id"], text)
