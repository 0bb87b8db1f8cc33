"""Context processors: edits of a query's passages before the generator sees them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mirage._base.gaps import NotComputed
from mirage.errors import NeuralError, SettingError, during
from mirage.models import Passage, Query
from mirage.neural import Embedder, Reranker
from mirage.neural.embedders import embed
from mirage.retrieval._exact import unit
from mirage.text.sentences import sentence_pieces


class SentencePruner:
    """A context processor that keeps the sentences of each passage that matter for the question.

    The method is that of DSLR (Hwang et al. 2024, arXiv 2407.03627). Every sentence is scored with
    the question, together with the title of its passage only. The kept sentences stay in their
    order and keep their separators, and passages keep their ids. A passage without a kept sentence
    is dropped. If scores are equal, the earlier sentence ranks higher.

    Args:
        scorer: A cross-encoder, :class:`mirage.neural.Reranker`, whose scores are logits, or an
            :class:`~mirage.neural.Embedder`, whose scores are cosine similarities.
        threshold: The minimum score of kept sentences; ``None`` for no minimum.
        share: The share of a query's sentences to keep, above 0 and up to 1. The best sentences
            are kept, and their number is rounded up. If both limits are set, both apply.

    Raises:
        SettingError: Neither ``threshold`` nor ``share`` is set, or ``share`` is out of range.

    Example:
        >>> from mirage.models import Passage, Query
        >>> embedder = lambda texts: [[1.0, "Paris" in text] for text in texts]
        >>> query = Query(id="q", text="Where is Paris?", language="en")
        >>> passages = [Passage(id="a", text="Tea is hot. Paris is in France.")]
        >>> SentencePruner(embedder, share=0.5).process(query, passages)[0].text
        'Paris is in France.'
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
            raise SettingError("set threshold=, share= or both, to select the sentences to keep")
        if share is not None and not 0 < share <= 1:
            raise SettingError(f"share must be above 0 and at most 1, got share={share}")
        self.scorer = scorer
        self.threshold = threshold
        self.share = share

    def __repr__(self) -> str:
        rule = f"threshold={self.threshold}, share={self.share}"
        return f"SentencePruner({self.scorer!r}, {rule})"

    def process(self, query: Query, passages: Sequence[Passage]) -> list[Passage]:
        """Return the passages with their kept sentences, in order.

        Args:
            query: The question; its language determines how text is split into sentences.
            passages: The passages to shorten.

        Raises:
            NeuralError: The scorer fails on a text.
        """
        pieces = [
            (i, piece)
            for i, passage in enumerate(passages)
            for piece in sentence_pieces(passage.text, query.language)
        ]
        texts = [_text_with_title(passages[i], piece) for i, piece in pieces]
        remaining: list[list[str]] = [[] for _ in passages]
        with during(f"{self!r} on query {query.id!r}"):
            scores = self._scores(query, texts)
        for number in self._select(scores):
            i, piece = pieces[number]
            remaining[i].append(piece)
        return [
            passage.model_copy(update={"text": "".join(sentences).strip()})
            for passage, sentences in zip(passages, remaining, strict=True)
            if sentences
        ]

    def _select(self, scores: Sequence[float]) -> list[int]:
        """Return the numbers of the sentences to keep, ascending."""
        best = sorted(range(len(scores)), key=lambda i: -scores[i])  # a stable sort
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
        inputs = [before_query + query.text, *(before_passage + text for text in texts)]
        rows = embed(self.scorer, inputs)
        for text, row in zip(inputs, rows, strict=True):
            if isinstance(row, NotComputed):
                raise NeuralError(f"{text[:80]!r} has no vector: {row.reason}")
        question, *sentences = unit(np.array(rows))
        return [float(sentence @ question) for sentence in sentences]


def _text_with_title(passage: Passage, piece: str) -> str:
    return f"{passage.title}\n{piece.strip()}".strip()
