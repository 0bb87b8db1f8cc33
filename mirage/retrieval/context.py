"""What is made of a query's passages before the generator sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mirage._base.gaps import NotComputed
from mirage.errors import NeuralError, SettingError, during
from mirage.models import Passage, Query
from mirage.neural import Embedder, Reranker, embed
from mirage.retrieval._exact import unit
from mirage.text import sentence_pieces

__all__ = ["SentencePruner"]


class SentencePruner:
    """Leaves of each passage the sentences that bear on the question.

    As DSLR (Hwang et al. 2024, arXiv 2407.03627): every sentence is scored with the question, by
    itself but for the passage's title, and those that remain keep their order and what stands
    between them. Ids stay; a passage that no sentence is left of is dropped. Of equal scores the
    earlier sentence counts as better.

    Args:
        scorer: a cross-encoder, :class:`mirage.neural.Reranker`, of which scores are logits; or an
            :class:`~mirage.neural.Embedder`, of which they are cosines.
        threshold: the least score that remains.
        share: the share, above 0 and up to 1, of all sentences of a query that remains: the best,
            rounded up. Give one of the two, or both for what meets both.

    Raises:
        SettingError: neither is given, or ``share`` is not in its range.
    """

    name = "sentence pruner"

    def __init__(
        self,
        scorer: Reranker | Embedder,
        *,
        threshold: float | None = None,
        share: float | None = None,
    ) -> None:
        if threshold is None and share is None:
            raise SettingError("a pruner needs to know what remains: give threshold= or share=")
        if share is not None and not 0 < share <= 1:
            raise SettingError(f"share={share} is to be above 0 and at most 1")
        self.scorer = scorer
        self.threshold = threshold
        self.share = share

    def __repr__(self) -> str:
        rule = f"threshold={self.threshold}, share={self.share}"
        return f"SentencePruner({self.scorer!r}, {rule})"

    def process(self, query: Query, passages: Sequence[Passage]) -> list[Passage]:
        """The passages with the sentences that remain, in order; see :class:`SentencePruner`.

        Args:
            query: the question; its language says where sentences end.
            passages: those to shorten.

        Raises:
            NeuralError: the scorer fails on a text.
        """
        pieces = [
            (place, piece)
            for place, passage in enumerate(passages)
            for piece in sentence_pieces(passage.text, query.language)
        ]
        texts = [_titled(passages[place], piece) for place, piece in pieces]
        remaining: list[list[str]] = [[] for _ in passages]
        with during(f"{self!r} on query {query.id!r}"):
            scores = self._scores(query, texts)
        for number in self._remaining(scores):
            place, piece = pieces[number]
            remaining[place].append(piece)
        return [
            passage.model_copy(update={"text": "".join(left).strip()})
            for passage, left in zip(passages, remaining, strict=True)
            if left
        ]

    def _remaining(self, scores: Sequence[float]) -> list[int]:
        """Which of the sentences remain, ascending."""
        best = sorted(range(len(scores)), key=lambda i: -scores[i])  # stable
        if self.share is not None:
            best = best[: math.ceil(self.share * len(scores))]
        least = -math.inf if self.threshold is None else self.threshold
        return sorted(i for i in best if scores[i] >= least)

    def _scores(self, query: Query, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        if isinstance(self.scorer, Reranker):
            scores: list[float] = self.scorer.scores([(query.text, t) for t in texts]).tolist()
            return scores
        prefixes = (getattr(self.scorer, f"{name}_prefix", "") for name in ("query", "passage"))
        before_query, before_passage = prefixes
        asked = [before_query + query.text, *(before_passage + text for text in texts)]
        rows = embed(self.scorer, asked)
        for text, row in zip(asked, rows, strict=True):
            if isinstance(row, NotComputed):
                raise NeuralError(f"{text[:80]!r} has no vector: {row.reason}")
        question, *sentences = unit(np.array(rows))
        return [float(sentence @ question) for sentence in sentences]


def _titled(passage: Passage, piece: str) -> str:
    return f"{passage.title}\n{piece.strip()}".strip()
