"""The nearest of many vectors on disk, exactly, with one block of them in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.stores import ArrayType, mapped_array, read_array
from mirage.errors import DatasetError

__all__ = ["Nearest", "Shard", "nearest", "products", "unit"]

_TOGETHER = 1024  # questions that are multiplied with a block at a time
_PAIRS = 4096  # products that are computed in float64 at a time

Vectors = NDArray[Any]
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class Shard(NamedTuple):
    """A file of vectors in float16.

    Attributes:
        path: The file.
        rows: The number of vectors.
        dimensions: The number of dimensions of each; ``None`` if unknown.
    """

    path: Path
    rows: int
    dimensions: int | None

    @property
    def _type(self) -> ArrayType:
        return ArrayType(np.float16, (self.rows, self.dimensions))

    def read(self) -> NDArray[np.float16]:
        """Read all vectors.

        Raises:
            DatasetError: The file is damaged, or a number is not finite.
        """
        vectors = read_array(self.path, self._type)
        if not np.isfinite(vectors).all():
            raise DatasetError(
                f"{self.path}: damaged (a number is not finite); delete {self.path.parent} and "
                "build it anew"
            )
        return vectors

    def map(self) -> NDArray[np.float16]:
        """Map the vectors into memory.

        Raises:
            DatasetError: The file is damaged.
        """
        return mapped_array(self.path, self._type)


class Nearest(NamedTuple):
    """Rows of vectors with their products with one question, the highest first."""

    rows: Rows
    scores: Floats

    def top(self, k: int) -> Nearest:
        """The ``k`` highest, the earlier row first of equal ones."""
        order = np.lexsort((self.rows, -self.scores))[:k]
        return Nearest(self.rows[order], self.scores[order])


def unit(vectors: Floats) -> Floats:
    """Vectors (a row each) made as long as 1; one of zeros stays."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms == 0, 1, norms)


def products(vectors: Vectors, questions: Floats) -> Floats:
    """The dot product of each vector with the question in its row, in float64.

    What one pair gives does not depend on the others, as it may where BLAS multiplies matrices.
    """
    parts = [
        (vectors[i : i + _PAIRS].astype(np.float64) * questions[i : i + _PAIRS]).sum(axis=1)
        for i in range(0, len(vectors), _PAIRS)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def nearest(shards: Sequence[Shard], questions: Floats, k: int, longest: float) -> list[Nearest]:
    """Return the ``k`` vectors with the highest dot product with each question.

    Blocks are multiplied in float32 to find the candidates, whose products are then computed in
    float64. The result is the one of float64 throughout.

    Args:
        shards: The vectors, in order.
        questions: Vectors, one in each row.
        k: The number of vectors to find, at least 1.
        longest: A length that no vector exceeds.

    Raises:
        DatasetError: A shard is damaged.
    """
    from threadpoolctl import threadpool_limits

    found: list[Nearest] = []
    for begin in range(0, len(questions), _TOGETHER):
        search = _Search(questions[begin : begin + _TOGETHER], k, longest)
        start = 0
        # Threads that share so small a block mostly wait for each other.
        with threadpool_limits(1, "blas"):
            for shard in shards:
                block = shard.read().astype(np.float32)
                search.take(block, start)
                start += len(block)
        found += search.found()
    return found


class _Search:
    """The highest products of some questions with the blocks that were taken."""

    def __init__(self, questions: Floats, k: int, longest: float) -> None:
        self.questions, self.k = questions, k
        self.rough = questions.astype(np.float32)
        # A sum of n products in float32 is off by n/2^24 of the lengths at most (Higham 2002,
        # Accuracy and Stability of Numerical Algorithms, section 3.1); and two things are rounded.
        terms = questions.shape[1] + 2
        self.slack = 2 * terms * 2.0**-24 * longest * np.linalg.norm(questions, axis=1)
        self.floor = np.full(len(questions), -np.inf)
        self.kept: list[tuple[NDArray[np.intp], Rows, Floats]] = []
        self.size = 0

    def take(self, block: NDArray[np.float32], start: int) -> None:
        """Keep what may be among the highest of a block that begins at row ``start``."""
        scores = self.rough @ block.T
        least = self.floor - self.slack
        if len(block) > self.k and not np.isfinite(self.floor).all():
            kth = np.partition(scores, -self.k, axis=1)[:, -self.k]
            least = np.maximum(least, kth - self.slack)
        question, row = np.nonzero(scores >= least[:, None].astype(np.float32))
        exact = products(block[row], self.questions[question])
        self.kept.append((question, row + start, exact))
        self.size += len(row)
        if self.size > 2 * self.k * len(self.questions) or not np.isfinite(self.floor).all():
            self._tidy()

    def _tidy(self) -> None:
        """Keep the ``k`` highest of each question only, and know the least of them."""
        question, rows, scores = map(np.concatenate, zip(*self.kept, strict=True))
        order = np.lexsort((rows, -scores, question))
        question, rows, scores = question[order], rows[order], scores[order]
        firsts = np.searchsorted(question, np.arange(len(self.questions)))
        high = np.arange(len(question)) - firsts[question] < self.k
        self.kept = [(question[high], rows[high], scores[high])]
        self.size = int(high.sum())
        counts = np.bincount(question[high], minlength=len(self.questions))
        full = counts == self.k
        lasts = np.cumsum(counts) - 1
        self.floor[full] = scores[high][lasts[full]]

    def found(self) -> list[Nearest]:
        """The highest products of each question."""
        self._tidy()
        question, rows, scores = self.kept[0]
        ends = np.searchsorted(question, np.arange(1, len(self.questions)))
        return [
            Nearest(*each)
            for each in zip(np.split(rows, ends), np.split(scores, ends), strict=True)
        ]
