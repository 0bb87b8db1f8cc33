"""BM25 over passages, against its formula written out, and against people's judgments."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirage import MirageDataset
from mirage.errors import DatasetError, MissingPackageError, SettingError, UnknownNameError
from mirage.models import Passage
from mirage.retrieval import BM25
from mirage.sources import nomiracl
from mirage.text import tokenize


@pytest.fixture
def _bm25s() -> None:
    pytest.importorskip("bm25s", reason="needs the extra retrieval")


needs_bm25s = pytest.mark.usefixtures("_bm25s")


def corpus(*texts: str) -> list[Passage]:
    return [Passage(id=f"p{i}", text=text) for i, text in enumerate(texts)]


def written_out(
    passages: Sequence[Passage], question: str, code: str, k1: float, b: float
) -> list[float]:
    """Table 1 of Kamphuis et al. 2020 ("Which BM25 do you mean?"), Lucene with exact lengths."""
    bags = [Counter(tokenize(f"{p.title} {p.text}", code)) for p in passages]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for term in tokenize(question, code):
            if not bag[term]:
                continue
            df = sum(term in other for other in bags)
            idf = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
            score += idf * bag[term] / (bag[term] + k1 * (1 - b + b * bag.total() / mean))
        scores.append(score)
    return scores


@needs_bm25s
@pytest.mark.parametrize("code", ["ar", "en", "fi", "hi", "ja", "ko", "te", "th", "yo", "zh"])
@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.5, 1.0), (0.0, 0.0)])
def test_scores_are_those_of_the_formula(code: str, k1: float, b: float) -> None:
    dataset = MirageDataset.bundled(code)
    passages = list({p.id: p for query in dataset for p in query.passages}.values())
    index = BM25(passages, code, k1=k1, b=b)
    assert len(index) == len(passages) > 40
    for query in list(dataset)[:3]:
        expected = written_out(passages, query.text, code, k1, b)
        ids = [passage.id for passage in passages]
        found = dict(zip(ids, index.scores(query.text, ids), strict=True))
        assert list(found.values()) == pytest.approx(expected, rel=1e-5, abs=1e-6)
        hits = index.search(query.text, 7)
        ranked = sorted(filter(found.get, found), key=lambda id_: -found[id_])[:7]
        assert len(hits) > 2
        assert [(hit.passage.id, hit.score) for hit in hits] == [(i, found[i]) for i in ranked]


@needs_bm25s
@pytest.mark.parametrize("code", ["ja", "th", "zh"])
def test_questions_find_their_passages_where_words_have_no_spaces(code: str) -> None:
    dataset = MirageDataset.bundled(code)
    index = BM25({p.id: p for query in dataset for p in query.passages}.values(), code)
    best = [(query, index.search(query.text, 1)) for query in dataset]
    own = [bool(hits) and hits[0].passage.id in query.passage_ids for query, hits in best]
    assert len(own) == 40
    assert sum(own) > 26  # at random: 1; in the languages with spaces: 29 to 38


@needs_bm25s
@pytest.mark.parametrize(("code", "least"), [("en", 0.9), ("zh", 0.85), ("sw", 0.6), ("ar", 0.7)])
def test_real_questions_find_the_passages_that_were_pooled_for_them(
    data_dir: Path, code: str, least: float
) -> None:
    dataset = nomiracl.load(data_dir / "nomiracl", code).dataset
    index = BM25({p.id: p for query in dataset for p in query.passages}.values(), code)
    own = [
        sum(hit.passage.id in query.passage_ids for hit in index.search(query.text, 5)) / 5
        for query in dataset
    ]
    assert len(index) > 1000
    assert sum(own) / len(own) > least  # 5 of 1,000 at random: 0.01


@needs_bm25s
def test_only_what_shares_a_word_is_found_and_ties_keep_their_order() -> None:
    index = BM25(corpus("the nile", "a lake", "The Nile.", "", "nile the"), "en")
    assert [hit.passage.id for hit in index.search("Where is the Nile?", 5)] == ["p0", "p2", "p4"]
    assert [hit.passage.id for hit in index.search("NILE", 2)] == ["p0", "p2"]
    assert index.search("unknown words", 5) == []
    assert index.search("?!", 5) == []
    assert index.scores("", ["p3", "p0"]) == [0.0, 0.0]
    assert index.scores("nile", ["p3", "p0"])[0] == 0.0 < index.scores("nile", ["p0"])[0]


@needs_bm25s
def test_the_title_is_searched_too_and_passages_are_found_by_id() -> None:
    passages = [Passage(id="1#0", text="A river.", title="Nile"), *corpus("A river in Africa.")]
    index = BM25(passages, "en")
    assert [hit.passage for hit in index.search("nile", 3)] == [passages[0]]
    assert index["1#0"] is passages[0]
    assert "1#0" in index
    assert "1#1" not in index
    with pytest.raises(DatasetError, match="passage '1#1' is not in the corpus"):
        index["1#1"]
    with pytest.raises(DatasetError, match="passage '1#1' is not in the corpus"):
        index.scores("nile", ["1#0", "1#1"])
    assert repr(index) == "BM25(2 passages, language='en', k1=0.9, b=0.4)"


@needs_bm25s
def test_a_corpus_that_cannot_be_searched() -> None:
    with pytest.raises(DatasetError, match="no passage with a word"):
        BM25([], "en")
    with pytest.raises(DatasetError, match="no passage with a word"):
        BM25(corpus("...", ""), "en")
    with pytest.raises(DatasetError, match="passage 'p0' twice"):
        BM25([*corpus("a", "b"), *corpus("c")], "en")
    with pytest.raises(UnknownNameError, match="xx"):
        BM25(corpus("a"), "xx")
    with pytest.raises(SettingError, match="b from 0 to 1"):
        BM25(corpus("a"), "en", b=2)
    for k1 in (-1, float("nan"), float("inf")):
        with pytest.raises(SettingError, match="k1 is 0 or more"):
            BM25(corpus("a"), "en", k1=k1)
    for k in (0, -1):
        with pytest.raises(SettingError, match=f"1 passage or more, not {k}"):
            BM25(corpus("a"), "en").search("a", k)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'mirage-rag\[retrieval\]'"):
        BM25(corpus("a"), "en")
