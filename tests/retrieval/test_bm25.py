"""BM25 over passages, against its formula written out, and against people's judgments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cases import each_case
from full_disk import disk_of
from subsets import slow_except, slow_rows_except

from mirage import MirageDataset
from mirage._base.stores import locked
from mirage.corpus import Corpus
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.models import Passage
from mirage.retrieval import BM25, _columns, bm25
from mirage.retrieval._top import top_rows
from mirage.sources import nomiracl
from mirage.text import tokenize


def corpus(*texts: str) -> list[Passage]:
    return [Passage(id=f"p{i}", text=text) for i, text in enumerate(texts)]


def reference_scores(
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


@pytest.mark.parametrize(
    ("code", "k1", "b"),
    [
        ("ar", 0.9, 0.4),
        *(
            pytest.param(code, 0.9, 0.4, marks=pytest.mark.slow)
            for code in ("fi", "hi", "ja", "ko", "te", "yo", "zh")
        ),
        ("en", 1.5, 1.0),
        ("th", 0.0, 0.0),
    ],
)
def test_scores_are_those_of_the_formula(code: str, k1: float, b: float) -> None:
    dataset = MirageDataset.bundled(code)
    passages = list({p.id: p for query in dataset for p in query.passages}.values())
    index = BM25.build(passages, language=code, k1=k1, b=b)
    assert len(index) == len(passages) > 40
    for query in list(dataset)[:3]:
        expected = reference_scores(passages, query.text, code, k1, b)
        ids = [passage.id for passage in passages]
        scores = dict(zip(ids, index.scores(query.text, ids), strict=True))
        assert list(scores.values()) == pytest.approx(expected, rel=1e-5, abs=1e-6)
        hits = index.search(query.text, 7)
        ranked = sorted(filter(scores.get, scores), key=lambda id_: -scores[id_])[:7]
        assert len(hits) > 2
        assert [(hit.passage.id, hit.score) for hit in hits] == [(i, scores[i]) for i in ranked]


@pytest.mark.parametrize("code", ["ja", "th", "zh"])
def test_questions_find_their_passages_where_words_have_no_spaces(code: str) -> None:
    dataset = MirageDataset.bundled(code)
    index = BM25.build(
        {p.id: p for query in dataset for p in query.passages}.values(), language=code
    )
    best = [(query, index.search(query.text, 1)) for query in dataset]
    is_own = [bool(hits) and hits[0].passage.id in query.passage_ids for query, hits in best]
    assert len(is_own) == 40
    assert sum(is_own) > 26  # at random: 1; in the languages with spaces: 29 to 38


@pytest.mark.parametrize(
    ("code", "least"),
    slow_rows_except(
        [("zh", 0.85), ("sw", 0.6)], [("en", 0.9), ("zh", 0.85), ("sw", 0.6), ("ar", 0.7)]
    ),
)
def test_real_questions_find_the_passages_that_were_pooled_for_them(
    data_dir: Path, code: str, least: float
) -> None:
    dataset = nomiracl.load(data_dir / "nomiracl", code).dataset
    index = BM25.build(
        {p.id: p for query in dataset for p in query.passages}.values(), language=code
    )
    shares = [
        sum(hit.passage.id in query.passage_ids for hit in index.search(query.text, 5)) / 5
        for query in dataset
    ]
    assert len(index) > 1000
    assert sum(shares) / len(shares) > least  # 5 of 1,000 at random: 0.01


def test_only_passages_with_a_shared_word_are_found_and_ties_keep_their_order() -> None:
    index = BM25.build(corpus("the nile", "a lake", "The Nile.", "", "nile the"), language="en")
    assert [hit.passage.id for hit in index.search("Where is the Nile?", 5)] == ["p0", "p2", "p4"]
    assert [hit.passage.id for hit in index.search("NILE", 2)] == ["p0", "p2"]
    assert index.search("unknown words", 5) == []
    assert index.search("?!", 5) == []
    assert index.scores("", ["p3", "p0"]) == [0.0, 0.0]
    assert index.scores("nile", ["p3", "p0"])[0] == 0.0 < index.scores("nile", ["p0"])[0]


def test_the_title_is_searched_too_and_passages_are_found_by_id() -> None:
    passages = [Passage(id="1#0", text="A river.", title="Nile"), *corpus("A river in Africa.")]
    index = BM25.build(passages, language="en")
    assert [hit.passage for hit in index.search("nile", 3)] == [passages[0]]
    with pytest.raises(UnknownNameError, match="1#1"):
        index.scores("nile", ["1#0", "1#1"])
    assert repr(index) == "BM25(2 passages, language='en', k1=0.9, b=0.4)"


def test_invalid_corpora_and_settings_raise_errors() -> None:
    with pytest.raises(DatasetError, match="no passage of the corpus contains a word"):
        BM25.build(corpus("...", ""), language="en")
    with pytest.raises(DatasetError, match="have the id 'p0'"):
        BM25.build([*corpus("a", "b"), *corpus("c")], language="en")
    with pytest.raises(UnknownNameError, match="xx"):
        BM25.build(corpus("a"), language="xx")
    with pytest.raises(SettingError, match="b from 0 to 1"):
        BM25.build(corpus("a"), language="en", b=2)
    for k1 in (-1, float("nan"), float("inf")):
        with pytest.raises(SettingError, match="k1 must be at least 0"):
            BM25.build(corpus("a"), language="en", k1=k1)
    for k in (0, -1):
        with pytest.raises(SettingError, match=f"k must be at least 1, got {k}"):
            BM25.build(corpus("a"), language="en").search("a", k)


@pytest.fixture(scope="module")
def bundled() -> Corpus:
    return Corpus.build(
        {p.id: p for query in MirageDataset.bundled("en") for p in query.passages}.values(),
        language="en",
    )


@pytest.mark.parametrize("code", ["en", "ja"])
def test_the_ranking_is_that_of_bm25s(code: str) -> None:
    bm25s = pytest.importorskip("bm25s", reason="needs the extra test")
    dataset = MirageDataset.bundled(code)
    passages = list({p.id: p for query in dataset for p in query.passages}.values())
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(t, len(numbers)) for t in tokenize(f"{p.title}\n{p.text}", code)]
        for p in passages
    ]
    peer = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
    peer.index((rows, numbers), create_empty_token=False, show_progress=False)
    ids = [passage.id for passage in passages]
    index = BM25.build(passages, language=code)
    for query in dataset:
        terms = [numbers[term] for term in tokenize(query.text, code) if term in numbers]
        assert index.scores(query.text, ids) == pytest.approx(peer.get_scores_from_ids(terms))


@each_case("n", [0, 1, 31, 1000, 1007])
@each_case("k", [1, 5, 40, 2000])
def test_the_highest_come_first_and_of_equal_ones_the_earlier(n: int, k: int) -> None:
    rng = np.random.default_rng(n + k)
    for ties in (2, 50, 10**6):
        scores = rng.integers(0, ties, n).astype(np.float32)
        brute = sorted(range(n), key=lambda row: (-scores[row], row))[:k]
        assert top_rows(scores, k).tolist() == brute


def test_numba_gives_identical_results(bundled: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    index, queries = BM25.build(bundled), MirageDataset.bundled("sw")
    plain = index.retrieve(queries, 10)
    monkeypatch.setattr(_columns, "JOINED", 0)
    assert BM25.build(bundled).retrieve(queries, 10) == plain
    monkeypatch.setattr(bm25, "COMPILED", 0)
    monkeypatch.setattr(_columns, "numpy_sum", None)
    # All columns, three columns or no column have a dense copy.
    for wide, room in ((10**9, 2**26), (10**9, 4 * len(bundled) * 3), (0, 2**26)):
        monkeypatch.setattr(_columns, "WIDE", wide)
        monkeypatch.setattr(_columns, "ROOM", room)
        index = BM25.build(bundled)
        for _ in range(2):
            assert index.retrieve(queries, 10) == plain
        assert list(index.retrieve([], 10)) == []


def test_threads_search_one_index_at_the_same_time(bundled: Corpus) -> None:
    index, queries = BM25.build(bundled), list(MirageDataset.bundled("sw"))
    expected = index.retrieve(queries, 10)
    with ThreadPoolExecutor(8) as pool:
        runs = pool.map(lambda query: index.retrieve([query], 10), queries * 5)
        for query, run in zip(queries * 5, runs, strict=True):
            assert run[query.id].passage_ids == expected[query.id].passage_ids


def test_single_questions_use_numba_after_many(
    bundled: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    index, query = BM25.build(bundled), next(iter(MirageDataset.bundled("sw")))
    monkeypatch.setattr(bm25, "COMPILED", 3 * len(index))
    hits = [index.search(query.text, 10) for _ in range(2)]
    monkeypatch.setattr(bm25, "numpy_sum", None)
    assert index.search(query.text, 10) == hits[0]
    ids = [hit.passage.id for hit in hits[0]]
    assert index.scores(query.text, ids) == [hit.score for hit in hits[1]]


@pytest.mark.parametrize(
    ("starts", "rows", "impacts"),
    [
        ([0, 1, 9], [0, 1], [1.0, 1.0]),
        ([0, 1, 2], [0, 3], [1.0, 1.0]),
        ([0, 1, 2], [0, -1], [1.0, 1.0]),
        ([0, 1, 2], [0, 1], [1.0, np.nan]),
        ([0, 1, 2], [0, 1], [1.0, -1.0]),
        ([0, 1, 2], [0, 1], [1.0, np.inf]),
        ([0, 1, 2], [0], [1.0]),
        ([0, 1, -1], [0, 1], [1.0, 1.0]),
    ],
)
@pytest.mark.parametrize("wide", [0, 8])
@pytest.mark.parametrize("sum_name", ["numpy_sum", "compiled_sum"])
def test_damaged_columns_are_refused(
    starts: list[int],
    rows: list[int],
    impacts: list[float],
    wide: int,
    sum_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sum_name == "compiled_sum":
        pytest.importorskip("numba", reason="numba is not installed")
    monkeypatch.setattr(_columns, "WIDE", wide)
    columns = _columns.Columns(
        np.array(starts), np.array(rows, np.int32), np.array(impacts, np.float32)
    )
    sum_up, scores = getattr(_columns, sum_name)(columns, 3), np.ones(3, np.float32)
    sum_up(scores, [0])
    assert scores.tolist() == [1, 0, 0]
    for numbers in ([0, 1], [1, 0], [1], [0, 0, 1]):
        with pytest.raises(DatasetError, match="column 1 of the BM25 index is damaged"):
            sum_up(scores, numbers)


@pytest.mark.parametrize("sum_name", ["numpy_sum", "compiled_sum"])
@pytest.mark.parametrize("joined", [0, 10**9])
@pytest.mark.parametrize("wide", [0, 1, 2, 10**9])
def test_columns_are_added_in_the_order_of_the_terms(
    sum_name: str, joined: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_columns, "WIDE", wide)
    monkeypatch.setattr(_columns, "JOINED", joined)
    rng, size = np.random.default_rng(0), 40
    entries = [np.flatnonzero(rng.random(size) < share) for share in (1, 0.1, 0.6, 0, 0.1, 0.8)]
    starts = np.cumsum([0, *map(len, entries)])
    impacts = (10.0 ** rng.uniform(-6, 3, starts[-1])).astype(np.float32)
    columns = _columns.Columns(starts, np.concatenate(entries).astype(np.int32), impacts)
    sum_up = getattr(_columns, sum_name)(columns, size)
    scores = np.empty(size, np.float32)
    for _ in range(50):
        numbers = rng.integers(0, len(entries), rng.integers(0, 7)).tolist()
        expected = np.zeros(size, np.float32)
        for number in numbers:
            expected[entries[number]] += impacts[starts[number] : starts[number + 1]]
        sum_up(scores, numbers)
        assert scores.tobytes() == expected.tobytes()


def test_few_terms_of_earlier_questions_are_remembered(
    bundled: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, queries = BM25.build(bundled), list(MirageDataset.bundled("sw"))
    runs = [index.retrieve(queries, 10) for _ in range(2)]
    monkeypatch.setattr(bm25, "KNOWN_TERMS", 5)
    few = BM25.build(bundled)
    for query in [*queries, *queries]:
        assert few.retrieve([query], 10)[query.id].passage_ids == runs[0][query.id].passage_ids
        assert len(few._known_terms) <= 5 + len(few._analysis(query.text))
    assert runs[0] == runs[1]


def test_a_corpus_of_several_languages_is_tokenized_by_script() -> None:
    both = Corpus.build(corpus("東京は首都です。"), language="ja") + Corpus.build(
        [Passage(id="e", text="Tokyo is the capital.")], language="en"
    )
    index = BM25.build(both)
    assert index.language is None
    assert [hit.passage.id for hit in index.search("東京?", 2)] == ["p0"]
    assert [hit.passage.id for hit in index.search("tokyo", 2)] == ["e"]


def test_an_index_is_opened_again_and_not_built_again(bundled: Corpus, tmp_path: Path) -> None:
    queries = MirageDataset.bundled("en")
    run = BM25.build(bundled, tmp_path / "index", progress=False).retrieve(queries, 9)
    inode = (tmp_path / "index" / "rows.npy").stat().st_ino
    again = BM25.build(bundled, tmp_path / "index", progress=False)
    assert (tmp_path / "index" / "rows.npy").stat().st_ino == inode
    assert again.retrieve(queries, 9) == run
    assert BM25.open(tmp_path / "index", bundled).retrieve(queries, 9) == run
    other = BM25.build(bundled, tmp_path / "index", k1=0.5, progress=False)
    assert other.k1 == BM25.open(tmp_path / "index", bundled).k1 == 0.5
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["index"]


def test_an_index_of_another_corpus_is_never_used(bundled: Corpus, tmp_path: Path) -> None:
    BM25.build(bundled, tmp_path / "index", progress=False)
    other = Corpus.build(corpus("the nile"), language="en")
    with pytest.raises(DatasetError, match="built from a different corpus"):
        BM25.open(tmp_path / "index", other)
    assert len(BM25.build(other, tmp_path / "index", progress=False).search("nile", 5)) == 1
    with pytest.raises(DatasetError, match="built from a different corpus"):
        BM25.open(tmp_path / "index", bundled)


@pytest.mark.parametrize("name", ["terms.npy", "starts.npy", "rows.npy", "impacts.npy"])
def test_a_truncated_file_is_named_in_the_error(bundled: Corpus, tmp_path: Path, name: str) -> None:
    BM25.build(bundled, tmp_path / "index", progress=False)
    path = tmp_path / "index" / name
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DatasetError, match=f"{name} has .* build the BM25 index again"):
        BM25.open(tmp_path / "index", bundled)
    assert BM25.build(bundled, tmp_path / "index", progress=False).search("nile", 1)


def test_a_full_disk_is_reported(
    bundled: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bm25, "SHARD", 40)
    whole = BM25.build(bundled, tmp_path / "whole", progress=False)
    most = (whole.folder / "rows.npy").stat().st_size - 1  # shards are smaller, and are kept
    with disk_of(most), pytest.raises(DatasetError, match=r"(rows|terms)\.npy: cannot be written"):
        BM25.build(bundled, tmp_path / "index", progress=False)
    again = BM25.build(bundled, tmp_path / "index", progress=False)
    queries = MirageDataset.bundled("en")
    assert again.retrieve(queries, 20) == whole.retrieve(queries, 20)


def test_an_interrupted_build_continues_with_the_missing_shards(
    bundled: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = BM25.build(bundled, progress=False)
    monkeypatch.setattr("mirage.retrieval.bm25.SHARD", 40)
    starts: list[int] = []
    make = bm25._make_shard

    def stops(folders: object, shards: object, start: int, language: object) -> int:
        if len(starts) == 3:
            raise KeyboardInterrupt
        starts.append(start)
        return make(folders, shards, start, language)  # type: ignore[arg-type]

    monkeypatch.setattr(bm25, "_make_shard", stops)
    with pytest.raises(KeyboardInterrupt):
        BM25.build(bundled, tmp_path / "index", progress=False)
    assert not (tmp_path / "index").exists()
    starts.clear()
    monkeypatch.setattr(bm25, "_make_shard", lambda *args: starts.append(args[2]) or make(*args))
    index = BM25.build(bundled, tmp_path / "index", progress=False)
    assert starts == list(range(120, len(bundled), 40))
    queries = MirageDataset.bundled("en")
    assert index.retrieve(queries, 20) == whole.retrieve(queries, 20)


@pytest.mark.parametrize("block", slow_except({1000}, [1, 100, 1000]))
def test_the_index_does_not_depend_on_shards_and_blocks(
    bundled: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    whole = BM25.build(bundled, tmp_path / "whole", progress=False)
    monkeypatch.setattr(bm25, "SHARD", 40)
    monkeypatch.setattr(bm25, "BLOCK", block)
    index = BM25.build(bundled, tmp_path / "in blocks", progress=False)
    for path in whole.folder.iterdir():
        assert (index.folder / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["terms", "rows", "frequencies", "checksums"])
def test_a_damaged_shard_is_made_again(
    bundled: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bm25, "SHARD", 40)
    merge = bm25.merge_shards

    def damage(shards: Path, *arguments: object) -> None:
        path = shards / f"000000000080.{name}.npy"
        path.write_bytes(path.read_bytes()[:-8] + bytes([255] * 8))
        merge(shards, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bm25, "merge_shards", damage)
    with pytest.raises(DatasetError, match=r"000000000080.* damaged and has been deleted; build"):
        BM25.build(bundled, tmp_path / "index", progress=False)
    monkeypatch.setattr(bm25, "merge_shards", merge)
    index = BM25.build(bundled, tmp_path / "index", progress=False)
    whole = BM25.build(bundled, progress=False)
    assert (index.folder / "rows.npy").read_bytes() == (whole.folder / "rows.npy").read_bytes()


def test_two_builds_at_once_are_refused(bundled: Corpus, tmp_path: Path) -> None:
    with (
        locked(tmp_path / ".index.lock"),
        pytest.raises(DatasetError, match="another process is building in this folder"),
    ):
        BM25.build(bundled, tmp_path / "index", progress=False)
