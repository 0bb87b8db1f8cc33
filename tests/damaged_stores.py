"""Damages stores of every kind, and opens and reads each in a process of its own.

Run as a script, it prints one JSON object for each damaged store:

    python tests/damaged_stores.py FOLDER COUNT SEED
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mirage.corpus import Corpus
from mirage.errors import DatasetError, MirageError
from mirage.grids.store import RESPONSES, Node, ResultStore
from mirage.models import Passage, Query, Run
from mirage.retrieval import BM25, DenseRetriever, SparseRetriever, _shards, bm25, dense

MANIFEST = "manifest.json"
PASSAGES = 60
QUERIES = [
    Query(id=f"q{i}", language="en", text=text)
    for i, text in enumerate(["abc bcd", "hgf fed cba", "cab", "ddd hhh aaa"])
]
NODE = Node("generate", "a generator on a dataset")


class Letters:
    """An embedder that counts letters."""

    fingerprint = "letters"

    def __call__(self, texts: Sequence[str], /) -> np.ndarray:
        return np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], float)


class SparseLetters:
    """A sparse model that counts letters."""

    fingerprint = "letters"

    def passages(self, texts: Sequence[str]) -> Any:
        from scipy.sparse import csr_array

        return csr_array(Letters()(texts).astype(np.float32))

    queries = passages


def passages() -> Iterator[Passage]:
    rng = random.Random(0)
    for i in range(PASSAGES):
        words = ["".join(rng.choices("abcdefgh", k=3)) for _ in range(12)]
        yield Passage(id=f"d{i % 7}#{i}", text=" ".join(words), title=words[0])


# Stores -------------------------------------------------------------------------------------------


HAS_GRAPHS = find_spec("usearch") is not None  # the extra retrieval


def build(folder: Path) -> None:
    corpus = Corpus.build(passages(), folder / "corpus", language="en")
    BM25.build(corpus, folder / "bm25", progress=False)
    DenseRetriever.build(corpus, folder / "dense", embedder=Letters(), progress=False)
    if HAS_GRAPHS:
        settings = {"index": "hnsw", "progress": False}
        DenseRetriever.build(corpus, folder / "graph", embedder=Letters(), **settings)
    SparseRetriever.build(corpus, folder / "sparse", embedder=SparseLetters(), progress=False)  # type: ignore[arg-type]
    ResultStore(folder / "grid").make(NODE, RESPONSES, _responses)


def _responses(path: Path) -> dict[str, Any]:
    rows = [{"query_id": f"q{i}", "text": f"It is {i}."} for i in range(9)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"items": 9, "total": 9, "failed": []}


def _read_corpus(folder: Path, _: Path, verify: bool) -> object:
    corpus = Corpus.open(folder, verify=verify)
    rows = [(each.id, each.text, each.title, each.document_id) for each in corpus]
    places = [corpus.row(f"d{i % 7}#{i}") for i in range(PASSAGES)]
    return rows, places, corpus.ids_at(range(len(corpus))), corpus.language, corpus.fingerprint


def _read_bm25(folder: Path, whole: Path, verify: bool) -> object:
    index = BM25.open(folder, Corpus.open(whole / "corpus"), verify=verify)
    runs = []
    for compiled in (10**9, 0):
        bm25.COMPILED = compiled
        runs.append(_hits(index))
    return runs


def _read_dense(folder: Path, whole: Path, verify: bool) -> object:
    corpus = Corpus.open(whole / "corpus")
    index = DenseRetriever.open(folder, corpus, Letters(), verify=verify)
    run = index.retrieve(QUERIES, 10)
    return _hits(index), _plain(index.rerank(run, corpus, QUERIES, 5))


def _read_sparse(folder: Path, whole: Path, verify: bool) -> object:
    corpus = Corpus.open(whole / "corpus")
    return _hits(SparseRetriever.open(folder, corpus, SparseLetters(), verify=verify))  # type: ignore[arg-type]


def _read_grid(folder: Path, *_: object) -> object:
    store = ResultStore(folder)
    path, manifest = store.find(NODE, RESPONSES, 9), store.manifest(NODE)
    if path is None or manifest is None:
        raise DatasetError("the step is to be done again")
    return Run.load(path, language="en", model="m").model_dump(), manifest["failed"]


def _hits(index: Any) -> object:
    return _plain(index.retrieve(QUERIES, 10))


def _plain(run: Any) -> object:
    for hits in run.values():
        assert np.isfinite(hits.scores).all()
    return [(id_, hits.passage_ids, hits.scores.tolist()) for id_, hits in run.items()]


READERS: dict[str, Callable[[Path, Path, bool], object]] = {
    "corpus": _read_corpus,
    "bm25": _read_bm25,
    "dense": _read_dense,
    "graph": _read_dense,
    "sparse": _read_sparse,
    "grid": _read_grid,
}

# Damage -------------------------------------------------------------------------------------------


def _flip(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.randrange(1, 9))


def _overwrite(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at : at + 16] = rng.randbytes(len(data[at : at + 16]))


def _number(data: bytearray, rng: random.Random) -> None:
    """Replace a number of two, four or eight bytes after any header by an extreme one."""
    width = rng.choice([2, 4, 8])
    begin = 128 if data[:6] == b"\x93NUMPY" and len(data) > 136 else 0
    at = begin + rng.randrange((len(data) - begin) // width or 1) * width
    most = 1 << (8 * width)
    value = rng.choice([0, 1, PASSAGES, most - 1, most // 2, most // 2 - 1, rng.randrange(most)])
    data[at : at + width] = value.to_bytes(width, "little")


def _not_finite(data: bytearray, rng: random.Random) -> None:
    dtype = rng.choice(["<f2", "<f4"])
    value = np.array([rng.choice([np.nan, np.inf, -np.inf, -1])], dtype).tobytes()
    at = len(data) - len(value) * rng.randrange(1, len(data) // len(value) // 2 + 2)
    data[at : at + len(value)] = value


def _header(data: bytearray, rng: random.Random) -> None:
    """Change the header of an array; of another file, change its first bytes."""
    changes = [
        (b"<i8", b"|O8"), (b"<i4", b"<f8"), (b"<f2", b"<f8"), (b"<u8", b"<i8"),
        (b"False", b"True "), (b"(", b"(-"), (b"(", b"(9999999999, "), (b",)", b", 1)"),
        (b"{", b"[" * 50), (b"'descr'", b"'descr\\'"), (b"<f4", b"<c8"), (b"(", b"(True, "),
    ]  # fmt: skip
    old, new = rng.choice(changes)
    if data[:6] == b"\x93NUMPY" and rng.random() < 0.2:
        data[6:12] = rng.choice([b"\x02\0\xff\xff\xff\xff", b"\x01\0\xff\xff{'", b"\x09\0\0\0\0\0"])
    data[:] = bytes(data).replace(old, new, 1)


def _pickle(data: bytearray, _: random.Random) -> None:
    data[:] = b"cos\nsystem\n(S'touch PWNED'\ntR."


BYTES = [_flip, _cut, _insert, _overwrite, _number, _not_finite, _header, _pickle]

VALUES: list[Any] = [
    None, True, -1, 0, 10**30, 1.5, float("nan"), "", "x", "../x", "/etc/passwd", [], ["x"], {},
    {"a": 1}, "f" * 64,
]  # fmt: skip
NAMES = ["../x", "/etc/passwd", "..", "", "a/b", "\0", "C:x", "x" * 300, "\ud800"]


def _manifest(manifest: dict[str, Any], rng: random.Random) -> None:
    """Change a value, a type or a name."""
    files = manifest["files"]
    place = rng.choice([manifest, files, rng.choice([*files.values()])])
    name = rng.choice([*place])
    match rng.choice(["value", "value", "name", "drop"]):
        case "value":
            place[name] = rng.choice(VALUES)
        case "name":
            place[rng.choice(NAMES)] = place.pop(name)
        case "drop":
            del place[name]


def _signed(manifest: dict[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in manifest.items() if name != "digest"}
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
    return {**fields, "digest": digest}


def damage(folder: Path, rng: random.Random, *, signed: bool) -> str:
    """Damage one file of a store, and with ``signed`` update the digests; return what was done."""
    path = folder / MANIFEST
    manifest = json.loads(path.read_text())
    names = [name for name in manifest["files"] if (folder / name).stat().st_size]
    names += ["graph.usearch"] * 8 if "graph.usearch" in names else []
    if rng.random() < 0.2:
        _manifest(manifest, rng)
        path.write_text(json.dumps(_signed(manifest) if signed else manifest))
        return MANIFEST
    name = rng.choice(names)
    if rng.random() < 0.1:
        other = rng.choice([*names, MANIFEST])
        data, done = bytearray((folder / other).read_bytes()), f"copy of {other}"
    elif rng.random() < 0.05:
        (folder / name).unlink()
        return f"{name}: deleted"
    else:
        data = bytearray((folder / name).read_bytes())
        change = rng.choice(BYTES)
        change(data, rng)
        done = change.__name__
    (folder / name).write_bytes(data)
    if signed:
        entry = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest["files"][name] = entry
        if name == "passages.jsonl":
            manifest["fingerprint"] = entry["sha256"]
        path.write_text(json.dumps(_signed(manifest)))
    return f"{name}: {done}"


# Trials -------------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """One damaged store.

    Attributes:
        kind: The kind of the store.
        done: What was done to it.
        signed: Whether the digests were fitted to the damage.
        verify: Whether digests are checked.
        outcome: ``error``, ``same``, ``different``, ``foreign`` (an exception of another library)
            or ``crash``.
        detail: The message.
    """

    kind: str
    done: str
    signed: bool
    verify: bool
    outcome: str
    detail: str = ""


def trial(number: int, seed: int, whole: Path, place: Path, expected: dict[str, object]) -> Trial:
    rng = random.Random(f"{seed} {number}")
    kind = [*READERS, "graph", "bm25"][number % (len(READERS) + 2)]
    signed, verify = rng.choice([(False, True), (False, True), (True, True), (False, False)])
    folder = place / f"{kind}{number}"
    shutil.copytree(whole / kind, folder)
    store = ResultStore(folder).place(NODE) if kind == "grid" else folder
    done = damage(store, rng, signed=signed)
    (place / "current").write_text(json.dumps([kind, done, signed, verify]))
    try:
        result = READERS[kind](folder, whole, verify)
        outcome, detail = ("same" if result == expected[kind] else "different"), ""
    except MirageError as error:
        outcome, detail = "error", str(error)
    except Exception:
        outcome, detail = "foreign", traceback.format_exc()
    shutil.rmtree(folder)
    return Trial(kind, done, signed, verify, outcome, detail)


def run(place: Path, count: int, seed: int) -> Iterator[Trial]:
    """Yield the outcomes. A forked process reads; another takes over if it is killed."""
    _shards.SHARD = dense.SHARD = 16
    warnings.simplefilter("error")
    whole = place / "whole"
    build(whole)
    expected = {kind: read(whole / kind, whole, True) for kind, read in READERS.items()}
    number = 0
    while number < count:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                for rest in range(number, count):
                    result = trial(rest, seed, whole, place, expected)
                    out.write(json.dumps(result) + "\n")
                    out.flush()
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            for line in lines:
                number += 1
                yield Trial(*json.loads(line))
        _, status = os.waitpid(child, 0)
        if status:
            facts = json.loads((place / "current").read_text())
            number += 1
            yield Trial(*facts, outcome="crash", detail=f"status {status}")


if __name__ == "__main__":
    for each in run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps(each._asdict()))
