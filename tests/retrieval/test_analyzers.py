"""Analyzers of BM25: stop words, stems and bigrams."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path

import pytest
from cases import each_case

from mirage.corpus import Corpus
from mirage.errors import DatasetError, MissingPackageError, SettingError
from mirage.grids._entries import BM25Entry
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query
from mirage.retrieval import BM25
from mirage.text import analyzers, tokenize
from mirage.text.analyzers import Analysis, analysis


def passages(*texts: str) -> list[Passage]:
    return [Passage(id=f"p{i}", text=text) for i, text in enumerate(texts)]


@each_case(
    ("language", "text", "terms"),
    [
        ("ja", "東京タワー。", ["東", "京", "タ", "ワ", "ー", "東京", "京タ", "タワ", "ワー"]),
        ("zh", "北京, 2008年", ["北", "京", "北京", "2008", "年"]),
        ("th", "น้ำ", ["น้", "ำ", "น้ำ"]),
        ("ko", "서울은 크다 KTX", ["서", "울", "은", "서울", "울은", "크", "다", "크다", "ktx"]),
        ("en", "Two words", ["two", "words"]),
        (None, "東京 tower", ["東", "京", "東京", "tower"]),
    ],
)
def test_bigrams_end_at_spaces_punctuation_and_other_scripts(
    language: str | None, text: str, terms: list[str]
) -> None:
    assert Analysis("bigrams", language)(text) == terms


def test_stop_words_are_left_out_unless_nothing_else_is_there() -> None:
    assert Analysis("stop", "en")("The source of the Nile") == ["source", "nile"]
    assert Analysis("stop", "en")("to be or not to be")[:2] == ["to", "be"]
    assert Analysis("stop", "de")("Wo ist der Nil?") == ["nil"]
    assert Analysis("stop", "zh")("他是") == ["他", "是"]


def test_trigrams_leave_out_function_words_and_keep_short_words() -> None:
    assert Analysis("trigrams", "en")("Is the Nile at Qus or Om?") == ["nil", "ile", "qus", "om"]
    assert analysis("best", "te").analyzer == "trigrams"


def test_stems_join_spelling_variants_of_hindi() -> None:
    pytest.importorskip("Stemmer", reason="needs PyStemmer of the extra retrieval")
    stems = analysis("stems", "hi")
    assert stems("हिंदी ज़मीन") == stems("हिँदि जमिन")
    assert stems("नदी") != stems("नाद")


def test_stems_join_the_forms_of_a_word(tmp_path: Path) -> None:
    pytest.importorskip("Stemmer", reason="needs PyStemmer of the extra retrieval")
    corpus = Corpus.build(passages("Joet virtaavat", "Järvi"), language="fi")
    index = BM25.build(corpus, tmp_path / "i", analyzer="stems", progress=False)
    assert [hit.passage.id for hit in index.search("järvet", 5)] == ["p1"]
    assert BM25.build(corpus, progress=False).search("järvet", 5) == []
    assert analysis("stems", "en")("The running runners")[0] == "run"
    for code, language in LANGUAGES.items():
        if language.stemmer:
            assert analysis("stems", code)("x 1") == ["x", "1"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    analyzers._stemmer.cache_clear()
    with pytest.raises(MissingPackageError, match=r"Stemmer; install it with: .*retrieval"):
        analysis("stems", "fi")


@pytest.mark.parametrize(
    ("analyzer", "language", "message"),
    [
        (
            "bigram",
            "ja",
            "analyzer must be one of words, stop, stems, trigrams, bigrams, best, got",
        ),
        ("stems", "sw", "no stemmer for sw, only for ar, de, en, es, fi, fr, hi, id, ru; use"),
        ("stop", None, "needs the language"),
        ("trigrams", None, "needs the language"),
        ("stems", None, "needs the language"),
    ],
)
def test_impossible_analyzers_are_refused(
    analyzer: str, language: str | None, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        analysis(analyzer, language)


def test_an_index_keeps_its_analyzer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus.build(passages("東京タワー", "京都の東"), language="ja")
    words = BM25.build(corpus, progress=False)
    index = BM25.build(corpus, tmp_path / "i", analyzer="best", progress=False)
    assert (words.analyzer, index.analyzer) == ("words", "bigrams")
    assert words.fingerprint != index.fingerprint
    assert len(words.search("東京", 5)) == 2
    again = BM25.open(tmp_path / "i", corpus)
    assert again.analyzer == "bigrams"
    query = Query(id="q", language="ja", text="東京")
    for each in (index, again):
        assert each.retrieve([query], 5)["q"].passage_ids == ("p0", "p1")
    english = Corpus.build(passages("The Nile", "It is long"), language="en")
    BM25.build(english, tmp_path / "e", analyzer="stop", progress=False)
    monkeypatch.setattr(analyzers, "_stop_words", lambda _: frozenset({"nile"}))
    with pytest.raises(DatasetError, match="with different stems or stop words"):
        BM25.open(tmp_path / "e", english)


def test_the_default_is_the_one_of_earlier_versions(tmp_path: Path) -> None:
    corpus = Corpus.build(passages("The Nile", "Tea"), language="en")
    plain = BM25.build(corpus, tmp_path / "i", progress=False)
    assert "analyzer" not in (tmp_path / "i" / "manifest.json").read_text()
    assert plain.fingerprint == BM25.build(corpus, analyzer="words", progress=False).fingerprint
    assert Analysis("words", "en")("The Nile") == tokenize("The Nile", "en")
    assert analysis("best", None).analyzer == "words"
    assert "analyzer" not in BM25Entry(kind="bm25").key()
    assert BM25Entry(kind="bm25", analyzer="best").key()["analyzer"] == "best"


def _search(folder: str) -> tuple[str, ...]:
    corpus = Corpus.open(Path(folder, "corpus"))
    index = BM25.open(Path(folder, "index"), corpus)
    query = Query(id="q", language="en", text="the nile")
    return index.retrieve([query], 5)["q"].passage_ids


def test_processes_search_one_index_at_the_same_time(tmp_path: Path) -> None:
    corpus = Corpus.build(passages("Tea", "The Nile", "A nile"), tmp_path / "corpus", language="en")
    index = BM25.build(corpus, tmp_path / "index", progress=False)
    with pytest.raises(ValueError, match="read-only"):
        index._columns.rows[0] = 7
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        waiting = pool.map_async(_search, [str(tmp_path)] * 4, chunksize=1)
        here = _search(str(tmp_path))
        results = waiting.get()
    assert results == [here] * 4 == [("p1", "p2")] * 4
