"""Support by an NLI model and relevance by a reranker; these features need the extra ``neural``.

They are defined in MIRAGE-Bench (arXiv 2410.13716), section 4.1 and appendix A, "Support" and
"Reranker score". Each feature is a mean over pairs of texts. The pairs of many responses are scored
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mirage.executors import Executor
from mirage.features.base import (
    Answered,
    Definition,
    Facts,
    Need,
    NotComputed,
    nothing_to_cite,
    passage_texts,
)
from mirage.neural import NLI, Reranker
from mirage.neural.pairs import Pair
from mirage.text import parse
from mirage.text.sentences import Sentence


def support_entailment(nli: NLI) -> NeuralFeature:
    """Return the feature that measures whether cited passages entail the sentences citing them.

    Its value is the mean probability (softmax) of entailment over all pairs of a sentence and a
    passage that it cites, in [0, 1]. The passage's title and text are the premise and the sentence
    is the hypothesis. Sentences of both sections, reason and answer, count, because MIRAGE-Bench
    asks for citations in the reason. A sentence without citations forms no pair, and a response
    without any pair gets 0. Not computed if no passage answers the query, because a good response
    then cites nothing, or if a cited passage has no text.

    Args:
        nli: The NLI model.

    Raises:
        NeuralError: The model has no label named entailment.
    """
    return _support_feature("entailment", nli)


def support_neutral(nli: NLI) -> NeuralFeature:
    """Return the feature that measures whether cited passages are neutral towards citing sentences.

    A neutral passage neither entails nor contradicts the sentence. The value is the mean
    probability of the label neutral, in [0, 1]; lower is better. Otherwise the feature is computed
    like :func:`support_entailment`.

    Args:
        nli: The NLI model.

    Raises:
        NeuralError: The model has no label named neutral, as is usual for models with two labels.
    """
    return _support_feature("neutral", nli)


def _support_feature(label: str, nli: NLI) -> NeuralFeature:
    """Return the feature for one label of an NLI model."""
    column = nli.column(label)
    return NeuralFeature(
        f"support_{label}",
        _premise_hypothesis_pairs,
        lambda pairs: nli.scores(pairs)[:, column],
        nli,
    )


def reranker_score(reranker: Reranker) -> NeuralFeature:
    """Return the feature that measures the relevance of the cited passages to the query.

    Its value is the mean of the reranker's logits over the cited passages; passages with the same
    title and text count once. Logits are unbounded, because no sigmoid is applied. The value is 0
    if nothing is cited, as in MIRAGE-Bench. Not computed if no passage answers the query, or if a
    cited passage has no text.

    Args:
        reranker: The reranker.
    """
    return NeuralFeature("reranker_score", _query_passage_pairs, reranker.scores, reranker)


@dataclass(frozen=True, slots=True, repr=False)
class NeuralFeature:
    """A feature whose value is the mean score that a model gives to pairs of texts.

    Each pair consists of a cited passage and either the query or a sentence of the response. The
    value is 0 for a response without pairs. :func:`support_entailment`, :func:`support_neutral` and
    :func:`reranker_score` create such features. They run in one process (``n_jobs=1``), but an
    executor's workers can score the pairs.

    Attributes:
        name: The name of the feature.
        pairs: Function that returns the pairs of a response, or the reason why the feature has no
            value.
        score: Function that returns one score per pair.
        scorer: The model that scores the pairs.
    """

    name: str
    pairs: Callable[[Answered], Sequence[Pair] | NotComputed]
    score: Callable[[Sequence[Pair]], NDArray[np.float64]]
    scorer: NLI | Reranker

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """Return one value for each answered query; all pairs are scored together."""
        entries = [self.pairs(item) for item in batch]
        scores = iter(self.score(_flatten_pairs(entries)).tolist())
        return [
            entry
            if isinstance(entry, NotComputed)
            else sum(islice(scores, len(entry))) / max(len(entry), 1)
            for entry in entries
        ]

    def compute_ahead(self, batches: Iterable[Sequence[Answered]], executor: Executor) -> None:
        """Let an executor's workers score the pairs that later calls of :meth:`compute` need.

        Args:
            batches: The batches that will be passed to :meth:`compute`, one per call.
            executor: Executor whose workers run the model.
        """
        pairs = (_flatten_pairs(map(self.pairs, batch)) for batch in batches)
        self.scorer.compute_ahead(pairs, executor)


def _flatten_pairs(entries: Iterable[Sequence[Pair] | NotComputed]) -> list[Pair]:
    return [pair for entry in entries if not isinstance(entry, NotComputed) for pair in entry]


def _premise_hypothesis_pairs(item: Answered) -> list[Pair] | NotComputed:
    """Return pairs of a cited passage (premise) and the sentence that cites it (hypothesis)."""
    gap = nothing_to_cite(item)
    if gap is not None:
        return gap
    reason_sentences = _sentences_of_reason(item.parsed.reason, item.query.language, item.shown)
    pairs: list[Pair] = []
    for sentence in (*reason_sentences, *item.parsed.sentences):
        premises = passage_texts(item, sentence.citations)
        if isinstance(premises, NotComputed):
            return premises
        pairs += ((premise, sentence.text) for premise in premises)
    return pairs


@lru_cache(maxsize=4096)
def _sentences_of_reason(
    reason: str, code: str, passage_ids: tuple[str, ...]
) -> tuple[Sentence, ...]:
    # The parser splits only the answer into sentences. With both headings before it, the whole
    # reason counts as the answer.
    return parse(f"##Reason:\n##Answer: {reason}", code, passage_ids).sentences


def _query_passage_pairs(item: Answered) -> list[Pair] | NotComputed:
    """Return the pairs of the query and each cited passage."""
    passages = nothing_to_cite(item) or passage_texts(item, item.parsed.citations)
    if isinstance(passages, NotComputed):
        return passages
    return [(item.query.text, passage) for passage in passages]


_NLI: tuple[Need, ...] = ("passages", "NLI model")

DEFINITIONS = (
    Definition("support_entailment", support_entailment, Facts("higher", 0, 1, _NLI)),
    Definition("support_neutral", support_neutral, Facts("lower", 0, 1, _NLI)),
    Definition("reranker_score", reranker_score, Facts("higher", needs=("passages", "reranker"))),
)
