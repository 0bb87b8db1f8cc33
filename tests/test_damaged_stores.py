"""Test that damaged or crafted corpora, indexes and grid steps raise one error and never crash."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damaged_stores import NODE, RESPONSES, Letters, SparseLetters, Trial, build, passages

from mirage._base.stores import ArrayType, mapped_array, read_array, read_arrays
from mirage.corpus import Corpus
from mirage.errors import DatasetError
from mirage.grids.store import ResultStore
from mirage.retrieval import BM25, DenseRetriever, SparseRetriever

SCRIPT = Path(__file__).with_name("damaged_stores.py")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    build(folder)
    return folder


OPENERS: dict[str, Callable[..., Any]] = {
    "corpus": lambda folder, _, **how: Corpus.open(folder, **how),
    "bm25": lambda folder, corpus, **how: BM25.open(folder, corpus, **how),
    "dense": lambda folder, corpus, **how: DenseRetriever.open(folder, corpus, Letters(), **how),
    "graph": lambda folder, corpus, **how: DenseRetriever.open(folder, corpus, Letters(), **how),
    "sparse": lambda folder, corpus, **how: SparseRetriever.open(
        folder, corpus, SparseLetters(), **how
    ),
}


@contextmanager
def holding(path: Path, content: bytes) -> Iterator[None]:
    """Replace the content of a file temporarily."""
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(whole)


def filled(path: Path, value: float) -> bytes:
    """Return the content of an array file with each number replaced by a value."""
    array = np.load(path)
    content = path.read_bytes()
    return content[: len(content) - array.nbytes] + np.full_like(array, value).tobytes()


@pytest.mark.parametrize("kind", OPENERS)
def test_one_flipped_bit_of_any_file_is_noticed_when_a_store_is_opened(
    whole: Path, kind: str
) -> None:
    if kind == "graph":
        pytest.importorskip("usearch", reason="needs the extra retrieval")
    corpus = Corpus.open(whole / "corpus")
    for path in (whole / kind).iterdir():
        flipped = bytearray(path.read_bytes())
        flipped[len(flipped) // 2] ^= 1
        with (
            holding(path, flipped),
            pytest.raises(
                DatasetError, match=rf"{path.name} (is damaged|was changed|is not the manifest)"
            ),
        ):
            OPENERS[kind](whole / kind, corpus)
    OPENERS[kind](whole / kind, corpus)


def test_without_verification_a_flipped_bit_of_an_impact_stays_unnoticed(whole: Path) -> None:
    path = whole / "bm25" / "impacts.npy"
    flipped = bytearray(path.read_bytes())
    flipped[-4] ^= 1
    with holding(path, flipped):
        BM25.open(whole / "bm25", Corpus.open(whole / "corpus"), verify=False)


def test_a_store_of_an_earlier_version_is_named_and_built_again_without_encoding(
    whole: Path, tmp_path: Path
) -> None:
    corpus = Corpus.open(whole / "corpus")
    DenseRetriever.build(corpus, tmp_path / "dense", embedder=Letters(), progress=False)
    path = tmp_path / "dense" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["digest"]
    manifest["files"] = {name: each["bytes"] for name, each in manifest["files"].items()}
    path.write_text(json.dumps(manifest))
    with pytest.raises(DatasetError, match=r"earlier version of mirage wrote it; build .* again"):
        DenseRetriever.open(tmp_path / "dense", corpus, Letters())

    class NeverAsked(Letters):
        def __call__(self, texts: object, /) -> np.ndarray:
            raise AssertionError(texts)

    DenseRetriever.build(corpus, tmp_path / "dense", embedder=NeverAsked(), progress=False)
    assert len(DenseRetriever.open(tmp_path / "dense", corpus, Letters())) == len(corpus)
    path.write_text(json.dumps(manifest))
    (tmp_path / "dense" / "000000000000.npy").write_bytes(b"")
    DenseRetriever.build(corpus, tmp_path / "dense", embedder=Letters(), progress=False)
    assert len(DenseRetriever.open(tmp_path / "dense", corpus, Letters())) == len(corpus)


def test_a_step_of_an_earlier_version_is_done_again_from_what_it_holds(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    counts = {"items": 1, "total": 1, "failed": []}

    def answer(path: Path) -> dict[str, Any]:
        path.write_text('{"query_id": "a", "text": "b"}\n')
        return counts

    path = store.make(NODE, RESPONSES, answer)
    manifest = json.loads((path.parent / "manifest.json").read_text())
    del manifest["digest"]
    manifest["files"] = {RESPONSES: path.stat().st_size}
    (path.parent / "manifest.json").write_text(json.dumps(manifest))
    assert store.find(NODE, RESPONSES) is None

    def go_on(part: Path) -> dict[str, Any]:
        assert part.read_text() == path.read_text()
        return counts

    assert store.make(NODE, RESPONSES, go_on) == path
    assert store.find(NODE, RESPONSES) == path


WHOLE = np.arange(6, dtype=np.float32)
HEADERS = {
    "another type": (b"<f4", b"<i4"),
    "objects": (b"'<f4'", b"'|O' "),
    "negative": (b"(6,)", b"(-6,)"),
    "huge": (b"(6,)", b"(99999999999999999,)"),
    "too many digits": (b"(6,)", b"(" + b"9" * 80 + b",)"),
    "two dimensions": (b"(6,)", b"(2, 3)"),
    "no dimension": (b"(6,)", b"()"),
    "Fortran": (b"False", b"True "),
    "no literal": (b"{", b"["),
    "nested": (b"{'descr'", b"(" * 60),
    "escape": (b"descr", b"\\d\\x"),
    "magic": (b"NUMPY", b"NUMPX"),
    "a header of 4 GB": (b"\x01\x00v\x00", b"\x02\x00\xff\xff\xff\xff"),
}


@pytest.mark.parametrize(("old", "new"), HEADERS.values(), ids=HEADERS)
def test_a_crafted_header_of_an_array_is_one_error(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "a.npy"
    np.save(path, WHOLE)
    content = path.read_bytes()
    assert old in content
    assert read_array(path, ArrayType(np.float32)).tolist() == WHOLE.tolist()
    for damaged in (content.replace(old, new, 1), content[:9], content[:50], content[:-1], b""):
        path.write_bytes(damaged)
        for read in (read_array, mapped_array):
            with pytest.raises(DatasetError, match=r"a\.npy: damaged"):
                read(path, ArrayType(np.float32))
    np.savez(tmp_path / "a.npz", a=WHOLE)
    archive = (tmp_path / "a.npz").read_bytes()
    for damaged in (archive[:40], archive[:-1], archive.replace(old, new, 1), b"PK\x05\x06"):
        (tmp_path / "a.npz").write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"a\.npz: damaged"):
            read_arrays(tmp_path / "a.npz", {"a": ArrayType(np.float32)})


def test_a_packed_archive_is_not_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10**6, np.float32))
    with pytest.raises(DatasetError, match="is compressed"):
        read_arrays(tmp_path / "a.npz", {"a": ArrayType(np.float32)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rows", row) for row in (-1, 60, -(2**31), 2**31 - 1)),
        *(("impacts", impact) for impact in (np.nan, np.inf, -1)),
    ],
)
def test_rows_and_impacts_are_checked_before_scores_are_added(
    whole: Path, name: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = whole / "bm25" / f"{name}.npy"
    question = _question(next(iter(passages())).title)
    with holding(path, filled(path, value)):
        index = BM25.open(whole / "bm25", Corpus.open(whole / "corpus"), verify=False)
        for compiled in (10**9, 0):
            monkeypatch.setattr("mirage.retrieval.bm25.COMPILED", compiled)
            with pytest.raises(DatasetError, match=r"column .* of the BM25 index is damaged"):
                index.retrieve([question], 3)


def _question(text: str) -> Any:
    from mirage.models import Query

    return Query(id="q", language="en", text=text)


def test_no_number_of_a_graph_leads_out_of_it(whole: Path) -> None:
    """Extreme numbers anywhere in a graph raise an error or do not change the keys."""
    pytest.importorskip("usearch", reason="needs the extra retrieval")
    from mirage.retrieval._graph import open_graph

    path = whole / "graph" / "graph.usearch"
    content = path.read_bytes()
    vectors = 8 + 60 * 8 * 2
    faults = 0
    for at in range(vectors, len(content) - 4, 52):
        for value in (2**32 - 1, 2**31 - 1, 60):
            crafted = content[:at] + value.to_bytes(4, "little") + content[at + 4 :]
            with holding(path, crafted):
                try:
                    graph = open_graph(path, 60, 8)
                except DatasetError:
                    faults += 1
                    continue
                matches = graph.search(np.ones(8, np.float16), 5, threads=1)
                assert set(np.asarray(matches.keys).tolist()) <= set(range(60))
    assert faults > 50


def damage_stores(folder: Path, count: int, seed: int) -> list[Trial]:
    command = [sys.executable, str(SCRIPT), str(folder), str(count), str(seed)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [Trial(**json.loads(line)) for line in run.stdout.splitlines()]


@pytest.mark.slow
def test_a_thousand_damaged_stores_end_in_one_error_or_in_the_same_results(tmp_path: Path) -> None:
    """With digests that match the damage, results may differ, but no process crashes."""
    pytest.importorskip("usearch", reason="needs the extra retrieval")
    trials = damage_stores(tmp_path, 1000, 0)
    assert len(trials) == 1000
    assert {each.kind for each in trials} == {*OPENERS, "grid"}
    assert [each for each in trials if each.outcome in ("crash", "foreign")] == []
    unsigned = [each for each in trials if each.verify and not each.signed]
    assert [each for each in unsigned if each.outcome not in ("error", "same")] == []
    assert sum(each.outcome == "error" for each in trials) > 700
    messages = [each.detail for each in trials if each.outcome == "error"]
    assert [message for message in messages if "\n" in message or len(message) > 1000] == []
