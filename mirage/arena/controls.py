"""What verdicts may go by beside quality, as covariates of a Bradley-Terry fit.

Each control is a number for a verdict, in favour of the response of ``model_a``. With controls x
the log-odds that a wins are ``logit_a - logit_b`` and a coefficient times each x (Li et al. 2024,
Does Style Matter?, lmsys.org/blog/2024-08-28-style-control, for Chatbot Arena; Dubois et al. 2024,
Length-Controlled AlpacaEval, arXiv 2404.04475). Lengths and marks are compared as there, by
difference over sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from mirage.arena._lengths import answer_tokens
from mirage.errors import UnknownNameError
from mirage.models import Judgment, Query, Run

__all__ = ["Control", "formatting", "length", "position", "same_family"]

_MARKS = re.compile(r"^\s*(?:#{1,6}\s|[-*+]\s|\d+[.)]\s)|\*\*[^*\n]+\*\*|__[^_\n]+__", re.MULTILINE)


@dataclass(frozen=True)
class Control:
    """A covariate of verdicts.

    Attributes:
        name: of what is controlled for.
        of: the number for a verdict; its sign turns where the two models are swapped.
        caution: why it may be what makes an answer better, in words; empty where it cannot be.
    """

    name: str
    of: Callable[[Judgment], float]
    caution: str = ""


def length(dataset: Iterable[Query], runs: Iterable[Run]) -> Control:
    """Tokens of the answer, without its reason and citations: ``(own - other) / (own + other)``.

    Args:
        dataset: the queries that were answered.
        runs: the responses that were judged, one run a model.

    Raises:
        UnknownNameError: from the fit: a verdict is on a query, or a model, that is not there.
    """
    return Control(
        "length",
        _compared(dataset, runs, answer_tokens),
        "an answer may be longer because it says more of what was asked",
    )


def formatting(dataset: Iterable[Query], runs: Iterable[Run]) -> Control:
    """Markdown's headings, items of lists and bold words, compared as :func:`length` does."""

    def marks(run: Run, query: Query) -> int:
        text = (run[query.id].text or "").replace("##Reason:", "").replace("##Answer:", "")
        return len(_MARKS.findall(text))

    return Control(
        "formatting",
        _compared(dataset, runs, marks),
        "a list or a heading may make an answer easier to read",
    )


def position() -> Control:
    """1 for the response that was shown first, that of ``model_a``.

    Where pairs were judged in both orders, verdicts are rid of it without a control.
    """
    return Control("position", lambda _: 1.0)


def same_family(families: Mapping[str, str]) -> Control:
    """1 where the judge is of the family of ``model_a`` alone, -1 where of that of ``model_b``.

    Args:
        families: the family of each judge and model, by name, as
            :func:`mirage.arena.self_preference` takes them. Verdicts name their judge.
    """

    def favours(judgment: Judgment) -> float:
        judge, a, b = (
            families.get(name, name)
            for name in (judgment.judge, judgment.model_a, judgment.model_b)
        )
        return float(judge == a) - float(judge == b)

    return Control("same family", favours, "a judge may know best what its own family does well")


def _compared(
    dataset: Iterable[Query], runs: Iterable[Run], count: Callable[[Run, Query], int]
) -> Callable[[Judgment], float]:
    """The difference over the sum of a count of both responses; 0 where both have none."""
    queries = {query.id: query for query in dataset}
    by_model = {run.model: run for run in runs}

    @cache
    def counted(model: str, query_id: str) -> int:
        if query_id not in queries:
            raise UnknownNameError("query of the dataset", query_id, queries)
        if model not in by_model:
            raise UnknownNameError("model among the runs", model, by_model)
        return count(by_model[model], queries[query_id])

    def compare(judgment: Judgment) -> float:
        own = counted(judgment.model_a, judgment.query_id)
        other = counted(judgment.model_b, judgment.query_id)
        return (own - other) / max(own + other, 1)

    return compare
