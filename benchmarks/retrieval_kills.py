"""Indexing, encoding, retrieving and reranking, killed at random moments and started again.

    python benchmarks/retrieval_kills.py [KILLS]

Each of the four is killed (SIGKILL) at a random moment of the time that it takes whole, a quarter
of the kills (20 by default), and started again until it ends; then its files have to be those of
one that nobody killed, byte for byte. What stands at the place of a result meanwhile is nothing or
the whole. Shards of words are of 500 passages, those of vectors of 1,024; the embedder counts
words, slowly.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mirage import Corpus, MirageDataset, Passage
from mirage.retrieval import BM25, DenseRetriever, bm25

SHARD, PASSAGES, DEPTH = 500, 12_000, 50
DATASET = MirageDataset.bundled("en")


class Words:
    """The words of a text, folded into 64 numbers, at a fifth of a millisecond a text."""

    fingerprint = "words"

    def __call__(self, texts: Sequence[str], /) -> np.ndarray:
        """The vectors of these texts."""
        time.sleep(len(texts) / 5000)
        rows = np.zeros((len(texts), 64))
        for row, text in zip(rows, texts, strict=True):
            for word in text.encode().split():
                row[sum(word) % 64] += 1
        return rows


def passages() -> list[Passage]:
    """Sentences of the bundled passages, put together anew."""
    rng = random.Random(0)
    texts = [s for query in DATASET for p in query.passages for s in p.text.split(". ")]
    return [Passage(id=f"d{i}#0", text=". ".join(rng.sample(texts, 5))) for i in range(PASSAGES)]


def index(corpus: Corpus, folder: Path) -> None:
    """The index of BM25."""
    BM25.build(corpus, folder / "bm25", progress=False)


def encode(corpus: Corpus, folder: Path) -> None:
    """The vectors of all passages."""
    DenseRetriever.build(corpus, folder / "dense", embedder=Words(), progress=False)


def retrieve(corpus: Corpus, folder: Path) -> None:
    """A run file by BM25."""
    index(corpus, folder)
    for _ in range(20):  # so that it takes its time
        BM25.open(folder / "bm25", corpus).retrieve(DATASET, DEPTH).write(folder / "bm25.trec")


def rerank(corpus: Corpus, folder: Path) -> None:
    """A run file by vectors of what BM25 found."""
    index(corpus, folder)
    encode(corpus, folder)
    found = BM25.open(folder / "bm25", corpus).retrieve(DATASET, DEPTH)
    near = DenseRetriever.open(folder / "dense", corpus, Words())
    for _ in range(5):
        near.rerank(found, corpus, DATASET, DEPTH).write(folder / "near.trec", tag="near")


Work = Callable[[Corpus, Path], None]


def started(work: Work, corpus: Path, folder: Path) -> int:
    """A process that does the work."""
    pid = os.fork()
    if not pid:
        try:
            work(Corpus.open(corpus), folder)
        except BaseException as error:
            print(f"{work.__name__}: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return pid


def ended(pid: int, wait_s: float) -> bool:
    """Whether a process ended by itself in that time; it is killed otherwise."""
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if status:
                raise SystemExit(f"failed with status {status}")
            return True
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def files(folder: Path) -> dict[str, bytes]:
    """What is in the results, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(p.startswith(".") for p in path.relative_to(folder).parts)
    }


def main(kills: int = 20) -> None:
    """Print a line for each kind of work."""
    bm25.SHARD = SHARD
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as top:
        place = Path(top)
        Corpus.build(passages(), place / "corpus", language="en")
        for work in (index, encode, retrieve, rerank):
            (place / f"{work.__name__}-whole").mkdir()
            start = time.monotonic()
            ended(started(work, place / "corpus", place / f"{work.__name__}-whole"), 600)
            seconds = time.monotonic() - start
            whole = files(place / f"{work.__name__}-whole")
            killed = runs = partial = 0
            while killed < kills // 4:
                folder = place / f"{work.__name__}-{runs}"
                folder.mkdir()
                while not ended(
                    started(work, place / "corpus", folder),
                    rng.uniform(0, seconds) if killed < kills // 4 else 600,
                ):
                    killed += 1
                    partial += any(whole.get(name) != data for name, data in files(folder).items())
                runs += 1
                assert files(folder) == whole, f"{work.__name__} differs"
            print(
                f"{work.__name__:9} {seconds:5.1f} s whole; {killed} kills in {runs} runs: "
                f"{partial} left a partial result in its place, 0 results differ",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
