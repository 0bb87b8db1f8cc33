"""Covariates of a Bradley-Terry fit: influences on verdicts other than quality.

Each control assigns a number to a verdict, such as the difference in length of the two answers. The
number is positive if the quantity is larger for the response of ``model_a``. With controls x, the
log-odds that a wins are ``logit_a - logit_b`` plus the sum of each x times its coefficient (Li et
al. 2024, Does Style Matter?, lmsys.org/blog/2024-08-28-style-control, for Chatbot Arena; Dubois et
al. 2024, Length-Controlled AlpacaEval, arXiv 2404.04475). As in these papers, lengths and
formatting marks are compared by difference divided by sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from mirage.arena._lengths import answer_tokens
from mirage.errors import UnknownNameError
from mirage.models import Judgment, Query, Run

_MARKS = re.compile(
    r"^[^\S\n]*(?:#{1,6}\s|[-*+]\s|\d+[.)]\s)|\*\*[^*\n]+\*\*|__[^_\n]+__", re.MULTILINE
)


@dataclass(frozen=True)
class Control:
    """A covariate of verdicts, such as the difference in length of the two answers.

    Attributes:
        name: Name of the quantity that is controlled for.
        of: Function that returns the value of the control for a judgment. The sign of the value
            changes if the two models are swapped.
        caution: Reason why the controlled quantity may itself make an answer better; empty if there
            is none.
    """

    name: str
    of: Callable[[Judgment], float]
    caution: str = ""


def length(dataset: Iterable[Query], runs: Iterable[Run]) -> Control:
    """Return a control for the length of answers.

    Its value is ``(length_a - length_b) / (length_a + length_b)``, with the lengths of both answers
    in tokens. The reason section and citations are not counted.

    Args:
        dataset: The queries that were answered.
        runs: The responses that were judged, one run per model.

    Returns:
        A control for :class:`BradleyTerry`. The fit raises ``UnknownNameError`` if a verdict is on
        a query that is not in ``dataset``, or on a model without a run.

    Example:
        >>> from mirage import BradleyTerry, MirageDataset
        >>> from mirage.arena.controls import length
        >>> BradleyTerry(controls=[length(MirageDataset.bundled("en"), [])]).controls[0].name
        'length'
    """
    return Control(
        "length",
        _relative_difference(dataset, runs, answer_tokens),
        "an answer may be longer because it answers the question more fully",
    )


def formatting(dataset: Iterable[Query], runs: Iterable[Run]) -> Control:
    """Return a control for the number of Markdown headings, list items and bold texts.

    The three numbers of an answer are added. The value of the control is ``(count_a - count_b) /
    (count_a + count_b)``, or 0 if both counts are 0.

    Args:
        dataset: The queries that were answered.
        runs: The responses that were judged, one run per model.

    Returns:
        A control for :class:`BradleyTerry`. The fit raises ``UnknownNameError`` if a verdict is on
        a query that is not in ``dataset``, or on a model without a run.
    """

    def marks(run: Run, query: Query) -> int:
        text = (run[query.id].text or "").replace("##Reason:", "").replace("##Answer:", "")
        return len(_MARKS.findall(text))

    return Control(
        "formatting",
        _relative_difference(dataset, runs, marks),
        "a list or a heading may make an answer easier to read",
    )


def position() -> Control:
    """Return a control for the position of responses.

    Its value is always 1, because the response of ``model_a`` is always shown first. The control is
    not needed if pairs were judged in both orders.

    Example:
        >>> from mirage.arena.controls import position
        >>> position().name
        'position'
    """
    return Control("position", lambda _: 1.0)


def same_family(families: Mapping[str, str]) -> Control:
    """Return a control for the preference of judges for models of their own family.

    Its value is 1 if only ``model_a`` is of the judge's family, -1 if only ``model_b`` is, and 0
    otherwise.

    Args:
        families: Family of each judge and model by name. A name that is not listed is a family by
            itself. Judgments without the name of their judge get the value 0.

    Returns:
        A control for :class:`BradleyTerry`.

    Example:
        >>> from mirage.arena.controls import same_family
        >>> from mirage.models import Judgment
        >>> control = same_family({"gpt-4o": "openai", "gpt-4o-mini": "openai"})
        >>> control.of(
        ...     Judgment(
        ...         query_id="q1",
        ...         model_a="llama",
        ...         model_b="gpt-4o-mini",
        ...         verdict="a",
        ...         judge="gpt-4o",
        ...     )
        ... )
        -1.0
    """

    def favours(judgment: Judgment) -> float:
        judge, a, b = (
            families.get(name, name)
            for name in (judgment.judge, judgment.model_a, judgment.model_b)
        )
        return float(judge == a) - float(judge == b)

    return Control(
        "same family", favours, "a judge may best recognise what its own family does well"
    )


def _relative_difference(
    dataset: Iterable[Query], runs: Iterable[Run], count: Callable[[Run, Query], int]
) -> Callable[[Judgment], float]:
    """Return a function that compares the two responses of a judgment by a count.

    The function returns the difference of the two counts divided by their sum, or 0 if both counts
    are 0. ``count`` returns the count for a run's response to a query, for example of tokens.
    """
    queries = {query.id: query for query in dataset}
    by_model = {run.model: run for run in runs}

    @cache
    def count_of(model: str, query_id: str) -> int:
        if query_id not in queries:
            raise UnknownNameError("query id", query_id, queries)
        if model not in by_model:
            raise UnknownNameError("model", model, by_model, "in the runs")
        return count(by_model[model], queries[query_id])

    def compare(judgment: Judgment) -> float:
        count_a = count_of(judgment.model_a, judgment.query_id)
        count_b = count_of(judgment.model_b, judgment.query_id)
        return (count_a - count_b) / max(count_a + count_b, 1)

    return compare
