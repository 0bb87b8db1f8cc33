"""Exact nearest-neighbour search among vectors on disk, which are read block by block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.stores import ArrayType, mapped_array, read_array
from mirage.errors import DatasetError

_QUESTION_BATCH = 1024  # number of questions that are multiplied with a block at a time
_PRODUCT_BATCH = 4096  # number of products that are computed in float64 at a time

Vectors = NDArray[Any]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class Shard(NamedTuple):
    """A file that contains the vectors of some passages in float16.

    Attributes:
        path: The path of the file.
        rows: The number of vectors.
        dimensions: The length of each vector; ``None`` if it is not known yet.
    """

    path: Path
    rows: int
    dimensions: int | None

    @property
    def _type(self) -> ArrayType:
        return ArrayType(np.float16, (self.rows, self.dimensions))

    def read(self) -> NDArray[np.float16]:
        """Read all vectors into memory, and check them.

        Raises:
            DatasetError: The file is damaged.
        """
        vectors = read_array(self.path, self._type)
        if not np.isfinite(vectors).all():
            raise DatasetError(
                f"{self.path}: damaged (a number is not finite); delete {self.path.parent} and "
                "build it again"
            )
        return vectors

    def map(self) -> NDArray[np.float16]:
        """Map the file into memory; only the vectors that are used are read from disk."""
        return mapped_array(self.path, self._type)


class Nearest(NamedTuple):
    """The vectors nearest to one question: their row numbers and dot products, highest first."""

    rows: Rows
    scores: Floats

    def top(self, k: int) -> Nearest:
        """Return the ``k`` vectors with the highest scores; for equal scores, lower rows first."""
        order = np.lexsort((self.rows, -self.scores))[:k]
        return Nearest(self.rows[order], self.scores[order])


def unit(vectors: Floats) -> Floats:
    """Return vectors (one per row) scaled to norm 1; vectors of zeros stay unchanged."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms == 0, 1, norms)


def products(vectors: Vectors, questions: Floats) -> Floats:
    """Return the dot product of each vector with the question in the same row, in float64.

    Each product is computed independently of the other rows, so it does not depend on the batch.
    BLAS does not guarantee this for a matrix product.
    """
    parts = [
        (
            vectors[i : i + _PRODUCT_BATCH].astype(np.float64) * questions[i : i + _PRODUCT_BATCH]
        ).sum(axis=1)
        for i in range(0, len(vectors), _PRODUCT_BATCH)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def nearest(shards: Sequence[Shard], questions: Floats, k: int, longest: float) -> list[Nearest]:
    """Find the ``k`` vectors with the highest dot products for each question.

    All products are first computed in float32 to select candidates. The products of the candidates
    are then computed in float64. The result is the same as if all products were computed in
    float64.

    Args:
        shards: The files of the vectors of the corpus, in order.
        questions: The vectors of the questions, one per row.
        k: The number of vectors to return for each question, at least 1.
        longest: An upper bound on the norm of the vectors of the corpus.

    Returns:
        The row numbers and dot products of the nearest vectors, one entry per question. There are
        fewer than ``k`` if the corpus has fewer vectors.
    """
    from threadpoolctl import threadpool_limits

    results: list[Nearest] = []
    for begin in range(0, len(questions), _QUESTION_BATCH):
        search = _Search(questions[begin : begin + _QUESTION_BATCH], k, longest)
        start = 0
        # Products of such small blocks are faster in one thread than in several.
        with threadpool_limits(1, "blas"):
            for shard in shards:
                block = shard.read().astype(np.float32)
                search.add_block(block, start)
                start += len(block)
        results += search.results()
    return results


class _Search:
    """A search for the ``k`` vectors with the highest dot products, for each of several questions.

    The vectors of the corpus are added block by block.

    Args:
        questions: The vectors of the questions, one per row.
        k: The number of vectors to find for each question.
        longest: An upper bound on the norm of the vectors of the corpus.
    """

    def __init__(self, questions: Floats, k: int, longest: float) -> None:
        self.questions, self.k = questions, k
        self.rough = questions.astype(np.float32)
        # The error of a dot product of n terms in float32 is at most n/2^24 times the product of
        # the norms (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1). The
        # two vectors are rounded to float32 too, which counts as 2 more terms.
        terms = questions.shape[1] + 2
        self.slack = 2 * terms * 2.0**-24 * longest * np.linalg.norm(questions, axis=1)
        self.floor = np.full(len(questions), -np.inf)
        self.candidates: list[tuple[NDArray[np.intp], Rows, Floats]] = []
        self.size = 0

    def add_block(self, block: NDArray[np.float32], start: int) -> None:
        """Search a block of vectors, and keep those that may be among the best ``k``.

        Args:
            block: The vectors, one per row.
            start: The corpus row of the block's first vector.
        """
        scores = self.rough @ block.T
        least = self.floor - self.slack
        if len(block) > self.k and not np.isfinite(self.floor).all():
            kth = np.partition(scores, -self.k, axis=1)[:, -self.k]
            least = np.maximum(least, kth - self.slack)
        question, row = np.nonzero(scores >= least[:, None].astype(np.float32))
        exact = products(block[row], self.questions[question])
        self.candidates.append((question, row + start, exact))
        self.size += len(row)
        if self.size > 2 * self.k * len(self.questions) or not np.isfinite(self.floor).all():
            self._prune()

    def _prune(self) -> None:
        """Keep only the ``k`` candidates with the highest products for each question.

        Once a question has ``k`` candidates, later candidates must reach the lowest product of
        these ``k``.
        """
        question, rows, scores = map(np.concatenate, zip(*self.candidates, strict=True))
        order = np.lexsort((rows, -scores, question))
        question, rows, scores = question[order], rows[order], scores[order]
        firsts = np.searchsorted(question, np.arange(len(self.questions)))
        high = np.arange(len(question)) - firsts[question] < self.k
        self.candidates = [(question[high], rows[high], scores[high])]
        self.size = int(high.sum())
        counts = np.bincount(question[high], minlength=len(self.questions))
        full = counts == self.k
        lasts = np.cumsum(counts) - 1
        self.floor[full] = scores[high][lasts[full]]

    def results(self) -> list[Nearest]:
        """Return the vectors nearest to each question, among all blocks that were added."""
        self._prune()
        question, rows, scores = self.candidates[0]
        ends = np.searchsorted(question, np.arange(1, len(self.questions)))
        return [
            Nearest(*each)
            for each in zip(np.split(rows, ends), np.split(scores, ends), strict=True)
        ]
