"""Indexing, encoding, retrieving and reranking, killed at random moments and started again.

    python benchmarks/retrieval_kills.py [KILLS]

Each of the four is killed (SIGKILL) at a random moment of the time that it takes whole, a quarter
of the kills (20 by default), and started again until it ends; then its files have to be those of
one that nobody killed, byte for byte. What stands at the place of a result meanwhile is nothing or
the whole. Shards of words are of 500 passages, those of vectors of 1,024; the embedder counts
words, slowly.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from kills import ended, start

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


def index(corpus: Path, folder: Path) -> None:
    """The index of BM25."""
    BM25.build(Corpus.open(corpus), folder / "bm25", progress=False)


def encode(corpus: Path, folder: Path) -> None:
    """The vectors of all passages."""
    DenseRetriever.build(Corpus.open(corpus), folder / "dense", embedder=Words(), progress=False)


def retrieve(corpus: Path, folder: Path) -> None:
    """A run file by BM25."""
    index(corpus, folder)
    opened = Corpus.open(corpus)
    for _ in range(20):  # so that it takes its time
        BM25.open(folder / "bm25", opened).retrieve(DATASET, DEPTH).write(folder / "bm25.trec")


def rerank(corpus: Path, folder: Path) -> None:
    """A run file by vectors of what BM25 found."""
    index(corpus, folder)
    encode(corpus, folder)
    opened = Corpus.open(corpus)
    found = BM25.open(folder / "bm25", opened).retrieve(DATASET, DEPTH)
    near = DenseRetriever.open(folder / "dense", opened, Words())
    for _ in range(5):
        near.rerank(found, opened, DATASET, DEPTH).write(folder / "near.trec", tag="near")


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
            began = time.monotonic()
            ended(start(work, place / "corpus", place / f"{work.__name__}-whole"), 600)
            seconds = time.monotonic() - began
            whole = files(place / f"{work.__name__}-whole")
            killed = runs = partial = 0
            while killed < kills // 4:
                folder = place / f"{work.__name__}-{runs}"
                folder.mkdir()
                while not ended(
                    start(work, place / "corpus", folder),
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
