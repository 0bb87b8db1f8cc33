"""Support by an NLI model, and relevance by a reranker: what needs the extra ``neural``.

MIRAGE-Bench (arXiv 2410.13716), section 4.1 and appendix A, "Support" and "Reranker score". Both
are means over pairs of texts, and the pairs of many responses are scored together.
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
from mirage.neural import NLI, Pair, Reranker
from mirage.text import Sentence, parse

__all__ = ["NeuralFeature", "reranker_score", "support_entailment", "support_neutral"]


def support_entailment(nli: NLI) -> NeuralFeature:
    """How probable it is that the cited passages entail the sentences that cite them.

    The mean over the pairs of a sentence and a passage that it cites of the probability (softmax)
    of entailment, with the passage as the premise and the sentence as the hypothesis; in [0, 1].
    Sentences of the whole response count, of its reason as well as of its answer: it is in the
    reason that the benchmark asks for citations. A sentence that cites nothing makes no pair, and
    a response without any pair has 0. The premise is the passage's title and text. Not computed
    where no passage answers the query (there a good response cites nothing), and where a cited
    passage has no text.

    Raises:
        NeuralError: the model does not name a label entailment.
    """
    return _support("entailment", nli)


def support_neutral(nli: NLI) -> NeuralFeature:
    """As :func:`support_entailment`, with the probability that the two have no bearing.

    Raises:
        NeuralError: the model does not name a label neutral, as those with two labels do not.
    """
    return _support("neutral", nli)


def _support(label: str, nli: NLI) -> NeuralFeature:
    column = nli.column(label)
    return NeuralFeature(
        f"support_{label}", _supported_pairs, lambda pairs: nli.scores(pairs)[:, column], nli
    )


def reranker_score(reranker: Reranker) -> NeuralFeature:
    """How relevant to the query the cited passages are: the mean of the reranker's logits.

    Each cited passage counts once, by its title and text. Logits have no bounds, and no sigmoid is
    applied. 0 where nothing is cited, as in the benchmark. Not computed where no passage answers
    the query, and where a cited passage has no text.
    """
    return NeuralFeature("reranker_score", _cited_pairs, reranker.scores, reranker)


@dataclass(frozen=True, slots=True, repr=False)
class NeuralFeature:
    """The mean score of the pairs of texts in a response; 0 for a response without any.

    Made by :func:`support_entailment`, :func:`support_neutral` and :func:`reranker_score`. It
    stays in one process (``n_jobs=1``), and has an executor's workers score pairs.
    """

    name: str
    pairs: Callable[[Answered], Sequence[Pair] | NotComputed]
    score: Callable[[Sequence[Pair]], NDArray[np.float64]]
    scorer: NLI | Reranker

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """One value for each answered query; the pairs of all of them are scored together."""
        entries = [self.pairs(item) for item in batch]
        scores = iter(self.score(_all_of(entries)).tolist())
        return [
            entry
            if isinstance(entry, NotComputed)
            else sum(islice(scores, len(entry))) / max(len(entry), 1)
            for entry in entries
        ]

    def compute_ahead(self, batches: Iterable[Sequence[Answered]], executor: Executor) -> None:
        """Have workers score what :meth:`compute` of each of these batches will ask for."""
        asked = (_all_of(map(self.pairs, batch)) for batch in batches)
        self.scorer.compute_ahead(asked, executor)


def _all_of(entries: Iterable[Sequence[Pair] | NotComputed]) -> list[Pair]:
    return [pair for entry in entries if not isinstance(entry, NotComputed) for pair in entry]


def _supported_pairs(item: Answered) -> list[Pair] | NotComputed:
    gap = nothing_to_cite(item)
    if gap is not None:
        return gap
    of_reason = _sentences_of_reason(item.parsed.reason, item.query.language, item.shown)
    pairs: list[Pair] = []
    for sentence in (*of_reason, *item.parsed.sentences):
        premises = passage_texts(item, sentence.citations)
        if isinstance(premises, NotComputed):
            return premises
        pairs += ((premise, sentence.text) for premise in premises)
    return pairs


@lru_cache(maxsize=4096)
def _sentences_of_reason(reason: str, code: str, shown: tuple[str, ...]) -> tuple[Sentence, ...]:
    # With both headings before it, all of it is read as an answer.
    return parse(f"##Reason:\n##Answer: {reason}", code, shown).sentences


def _cited_pairs(item: Answered) -> list[Pair] | NotComputed:
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
