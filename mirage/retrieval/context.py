"""Context processors: edits of a query's passages before the generator sees them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mirage._base.gaps import NotComputed
from mirage.errors import NeuralError, SettingError, during
from mirage.llm.client import estimate_tokens
from mirage.models import Passage, Query
from mirage.neural.embedders import Embedder, embed
from mirage.neural.tokens import TokenScores
from mirage.retrieval._exact import unit
from mirage.text.sentences import sentence_pieces


def compression(before: Sequence[Passage], after: Sequence[Passage]) -> float:
    """Return the share of the passages' characters that a context processor removed.

    Characters in titles count too. The share is below 0 if the passages became longer, and NaN if
    there were no passages.

    Args:
        before: The passages before processing.
        after: The passages after processing.

    Example:
        >>> before = [Passage(id="a", text="Tea is hot. Rum is not.")]
        >>> compression(before, [Passage(id="a", text="Tea is hot.")]).__round__(2)
        0.52
    """
    sizes = [sum(len(passage.titled_text) for passage in part) for part in (before, after)]
    return 1 - sizes[1] / sizes[0] if sizes[0] else math.nan


@runtime_checkable
class PairScorer(Protocol):
    """The interface of models that score pairs of a question and a text (cross-encoders)."""

    def scores(self, pairs: Sequence[tuple[str, str]], /) -> NDArray[np.float64]:
        """Return one score per pair of a question and a text; higher means more relevant."""


@runtime_checkable
class TokenScorer(Protocol):
    """The interface of models that score every token of a text.

    The score is the probability that the token matters for a question, as in Provence.
    """

    def token_scores(self, pairs: Sequence[tuple[str, str]], /) -> Sequence[TokenScores]:
        """Return, for each pair of a question and a text, the scores of the text's tokens."""


SentenceScorer = PairScorer | TokenScorer | Embedder
"""A model that scores sentences by their relevance to a question. There are three kinds:

- A cross-encoder, such as :class:`mirage.neural.Reranker`; its scores are logits.
- A cross-encoder that scores each token, such as :class:`mirage.neural.TokenCrossEncoder`; its
  scores are probabilities.
- An :class:`~mirage.neural.embedders.Embedder`; its scores are cosine similarities.
"""


class _SentenceSelector(ABC):
    """The base class of processors that keep some sentences of each passage and remove the rest.

    Sentences keep their order and the white space between them, and passages keep their ids. A
    passage is dropped if none of its sentences is kept.

    Args:
        scorer: The model that scores sentences: a cross-encoder, a :class:`TokenScorer` or an
            embedder; see :data:`SentenceScorer`.
    """

    def __init__(self, scorer: SentenceScorer) -> None:
        self.scorer = scorer

    def process(self, query: Query, passages: Sequence[Passage]) -> list[Passage]:
        """Return the passages, each shortened to the sentences that are kept.

        Args:
            query: The query.
            passages: The passages to shorten.

        Raises:
            NeuralError: The model fails, or does not return one score per sentence.
        """
        sentences = [sentence_pieces(passage.text, query.language) for passage in passages]
        pieces = [(i, piece) for i, parts in enumerate(sentences) for piece in parts]
        with during(f"{self!r} on query {query.id!r}"):
            if isinstance(self.scorer, TokenScorer):
                scores = _token_means(self.scorer, query, passages, sentences)
            else:
                texts = [_text_with_title(passages[i], piece) for i, piece in pieces]
                scores = self._scores(query, texts)
        remaining: list[list[str]] = [[] for _ in passages]
        for number in self._select(pieces, scores):
            i, piece = pieces[number]
            remaining[i].append(piece)
        return [
            passage.model_copy(update={"text": "".join(kept_pieces).strip()})
            for passage, kept_pieces in zip(passages, remaining, strict=True)
            if kept_pieces
        ]

    @abstractmethod
    def _select(self, pieces: Sequence[tuple[int, str]], scores: Sequence[float]) -> list[int]:
        """Return the positions in ``pieces`` of the sentences to keep, ascending.

        Args:
            pieces: One pair of passage index and sentence for each sentence of all passages.
            scores: The score of each sentence.
        """

    def _scores(self, query: Query, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        if isinstance(self.scorer, PairScorer):
            scores = np.asarray(self.scorer.scores([(query.text, text) for text in texts]))
            if scores.shape != (len(texts),):
                raise NeuralError(
                    f"expected one score per sentence, but the scores have shape {scores.shape}"
                )
            return [float(score) for score in scores]
        assert not isinstance(self.scorer, TokenScorer)
        prefixes = (getattr(self.scorer, f"{name}_prefix", "") for name in ("query", "passage"))
        before_query, before_passage = prefixes
        inputs = [before_query + query.text, *(before_passage + text for text in texts)]
        rows = embed(self.scorer, inputs)
        for text, row in zip(inputs, rows, strict=True):
            if isinstance(row, NotComputed):
                raise NeuralError(f"the text {text[:80]!r} has no vector: {row.reason}")
        question, *sentences = unit(np.array(rows))
        return [float(sentence @ question) for sentence in sentences]


class SentencePruner(_SentenceSelector):
    """A context processor that keeps the sentences of each passage that matter for the question.

    With a cross-encoder or an embedder, the method follows DSLR (Hwang et al. 2024, arXiv
    2407.03627): the model scores each sentence by itself, together with the title of the passage.
    With a :class:`TokenScorer`, the method follows Provence (Chirkova et al. 2025, arXiv
    2501.16214): the model reads the question and the whole passage, and predicts for each token the
    probability that it should be kept. The score of a sentence is the mean of the probabilities of
    its tokens.

    Sentences keep their order and the white space between them, and passages keep their ids. A
    passage is dropped if none of its sentences is kept. If scores are equal, the earlier sentence
    ranks higher.

    Args:
        scorer: The model that scores sentences: a cross-encoder, a :class:`TokenScorer` or an
            embedder; see :data:`SentenceScorer`.
        threshold: The minimum score of the sentences to keep; ``None`` for no minimum.
        share: The share of the sentences to keep, counted over all passages of a query; above 0 and
            at most 1. Those with the highest scores are kept, and their number is rounded up.
            ``None`` for no limit. If ``threshold`` is set too, a sentence must meet both
            conditions.

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
        scorer: SentenceScorer,
        *,
        threshold: float | None = None,
        share: float | None = None,
    ) -> None:
        super().__init__(scorer)
        if threshold is None and share is None:
            raise SettingError("no sentences are selected; set threshold=, share= or both")
        if share is not None and not 0 < share <= 1:
            raise SettingError(f"share must be above 0 and at most 1, got share={share}")
        self.threshold = threshold
        self.share = share

    def __repr__(self) -> str:
        rule = f"threshold={self.threshold}, share={self.share}"
        return f"SentencePruner({self.scorer!r}, {rule})"

    def _select(
        self,
        pieces: Sequence[tuple[int, str]],  # noqa: ARG002
        scores: Sequence[float],
    ) -> list[int]:
        best = _by_score(scores)
        if self.share is not None:
            best = best[: math.ceil(self.share * len(scores))]
        least = -math.inf if self.threshold is None else self.threshold
        return sorted(i for i in best if scores[i] >= least)


class ExtractiveCompressor(_SentenceSelector):
    """A context processor that keeps the sentences most similar to the question, within a budget.

    The sentences of all passages of a query are ranked by their score. From the best to the worst,
    each sentence is kept if it still fits into the budget. Sentences are scored together with the
    title of their passage; a :class:`TokenScorer` reads the whole passage. Sentences keep their
    order, and a passage is dropped if none of its sentences is kept. With an embedder and the limit
    ``sentences``, the method follows the extractive compressor of RECOMP (Xu et al. 2024, arXiv
    2310.04408).

    Args:
        scorer: The model that scores sentences: an embedder, a cross-encoder or a
            :class:`TokenScorer`; see :data:`SentenceScorer`.
        tokens: The maximum number of tokens to keep per query, over all its passages; ``None`` for
            no limit.
        sentences: The maximum number of sentences to keep per passage; ``None`` for no limit. If
            both limits are set, both apply.
        count: A function that returns the number of tokens of a text; by default an estimate.

    Raises:
        SettingError: Neither ``tokens`` nor ``sentences`` is set, or one of them is below 1.

    Example:
        >>> from mirage.models import Passage, Query
        >>> embedder = lambda texts: [[1.0, "Paris" in text] for text in texts]
        >>> query = Query(id="q", text="Where is Paris?", language="en")
        >>> passages = [Passage(id="a", text="Tea is hot. Paris is in France. Rum is not.")]
        >>> ExtractiveCompressor(embedder, tokens=8).process(query, passages)[0].text
        'Tea is hot. Paris is in France.'
    """

    name = "extractive compressor"

    def __init__(
        self,
        scorer: SentenceScorer,
        *,
        tokens: int | None = None,
        sentences: int | None = None,
        count: Callable[[str], int] = estimate_tokens,
    ) -> None:
        super().__init__(scorer)
        limits = [limit for limit in (tokens, sentences) if limit is not None]
        if not limits or min(limits) < 1:
            raise SettingError(
                "set tokens=, sentences= or both, to at least 1; got "
                f"tokens={tokens}, sentences={sentences}"
            )
        self.tokens = tokens
        self.sentences = sentences
        self.count = count

    def __repr__(self) -> str:
        limits = f"tokens={self.tokens}, sentences={self.sentences}"
        return f"ExtractiveCompressor({self.scorer!r}, {limits})"

    def _select(self, pieces: Sequence[tuple[int, str]], scores: Sequence[float]) -> list[int]:
        space = math.inf if self.tokens is None else self.tokens
        free = [math.inf if self.sentences is None else self.sentences] * len(pieces)
        selected = []
        for number in _by_score(scores):
            passage, piece = pieces[number]
            size = self.count(piece.strip())
            if size <= space and free[passage]:
                selected.append(number)
                space -= size
                free[passage] -= 1
        return sorted(selected)


def _by_score(scores: Sequence[float]) -> list[int]:
    """Return the positions of the scores, highest score first; equal scores keep their order."""
    return sorted(range(len(scores)), key=lambda number: -scores[number])  # a stable sort


def _token_means(
    scorer: TokenScorer,
    query: Query,
    passages: Sequence[Passage],
    sentences: Sequence[Sequence[str]],
) -> list[float]:
    """Return the mean token score of each sentence, for the sentences of all passages in order.

    ``sentences`` are the sentences of each passage. The mean is 0 for a sentence without tokens.
    """
    heads = [f"{passage.title}\n" if passage.title else "" for passage in passages]
    texts = [head + "".join(parts) for head, parts in zip(heads, sentences, strict=True)]
    read = [i for i, parts in enumerate(sentences) if parts]
    rows = scorer.token_scores([(query.text, texts[i]) for i in read]) if read else ()
    means = []
    for i, (starts, scores) in zip(read, rows, strict=True):
        begin = len(heads[i])
        for piece in sentences[i]:
            end = begin + len(piece)
            values = scores[(starts >= begin) & (starts < end)]
            means.append(float(values.mean()) if len(values) else 0.0)
            begin = end
    return means


def _text_with_title(passage: Passage, piece: str) -> str:
    return f"{passage.title}\n{piece.strip()}".strip()
