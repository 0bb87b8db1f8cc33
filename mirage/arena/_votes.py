"""Votes as columns: what the diagnostics of judges share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Bools, Floats, Ints
from mirage.arena.judgments import Judgments
from mirage.errors import JudgmentError
from mirage.models import Vote
from mirage.statistics.bootstrap import Interval, bootstrap

__all__ = [
    "Drawing",
    "Items",
    "Measured",
    "VoteTable",
    "as_before",
    "items",
    "leftover",
    "measured",
    "tabulate",
]


@dataclass(frozen=True)
class Measured:
    """A statistic of votes, its interval, the interval's level, and how many queries it is of."""

    value: float
    interval: Interval
    level: float
    queries: int

    @property
    def figure(self) -> str:
        """The value with its interval, for a line of text."""
        if np.isnan(self.interval).any():
            return f"{self.value:.3f} (no interval: too few queries, or all say the same)"
        low, high = self.interval
        return f"{self.value:.3f} ({100 * self.level:g} % interval {low:.3f} to {high:.3f})"


class Drawing(NamedTuple):
    """How an interval is drawn: the cluster of each query of a table, and the settings."""

    cluster: Ints
    draws: int
    level: float
    seed: int


def measured(
    query: Ints, values: Floats, statistic: Callable[[Floats], Floats], drawing: Drawing
) -> tuple[float, Interval, float, int]:
    """The fields of :class:`Measured`, by :func:`mirage.statistics.bootstrap.bootstrap`."""
    settings = {**drawing._asdict(), "cluster": drawing.cluster[query]}
    value, interval = bootstrap(query, values, statistic, **settings)
    return value, interval, drawing.level, len(np.unique(query))


@dataclass(frozen=True, eq=False)
class VoteTable:
    """Votes with a verdict, a row each, in an order that does not depend on that of the votes.

    ``query``, ``judge``, ``low`` and ``high`` index into the sorted names; ``low`` is the model
    of the two whose name sorts first, ``low_first`` says whether its response was shown first,
    and ``score`` is what it got: 1, 0, or 0.5 for a tie. Rows are sorted by query, low, high,
    judge and low_first. ``left_out`` counts the votes that are invalid or failed.
    """

    queries: tuple[str, ...]
    models: tuple[str, ...]
    judges: tuple[str, ...]
    query: Ints
    low: Ints
    high: Ints
    judge: Ints
    low_first: Bools
    score: Floats
    left_out: int

    @property
    def again(self) -> Bools:
        """Which rows have the query, models and judge of the row before, in the other order."""
        return as_before(self.query, self.low, self.high, self.judge)


class Items(NamedTuple):
    """What several judges judged: two models' responses to one query, a row each.

    ``score[item, judge]`` is what ``low`` got from each judge, NaN where it did not vote. A judge
    asked in both orders has one verdict: a tie where its two votes differ, and the other one where
    one of them is invalid or failed.
    """

    query: Ints
    low: Ints
    high: Ints
    score: Floats


def tabulate(votes: Iterable[Vote]) -> VoteTable:
    """The columns of these votes; its errors are those of :func:`mirage.arena.position_bias`."""
    everything = list(votes)
    other = next((vote for vote in everything if not isinstance(vote, Vote)), None)
    if other is not None:
        raise JudgmentError(
            f"this takes votes, such as `judged.votes`, and not a {type(other).__name__}"
        )
    verdicts = [vote for vote in everything if vote.verdict not in ("invalid", "failed")]
    if not verdicts:
        raise JudgmentError(
            f"there are no verdicts: of {len(everything)} votes, all are invalid or failed"
        )
    columns = Judgments.from_arrays(
        query=[vote.query_id for vote in verdicts],
        model_a=[vote.model_a for vote in verdicts],
        model_b=[vote.model_b for vote in verdicts],
        verdict=[vote.verdict for vote in verdicts],
    )
    judges, judge = np.unique([vote.judge for vote in verdicts], return_inverse=True)
    low, high = np.minimum(columns.a, columns.b), np.maximum(columns.a, columns.b)
    low_first = columns.a == low
    score = np.where(low_first, columns.score, 1 - columns.score)
    order = np.lexsort((low_first, judge, high, low, columns.query))
    table = VoteTable(
        queries=columns.query_ids,
        models=columns.models,
        judges=tuple(judges.tolist()),
        query=columns.query[order].astype(np.intp),
        low=low[order].astype(np.intp),
        high=high[order].astype(np.intp),
        judge=judge[order],
        low_first=low_first[order],
        score=score[order].astype(np.float64),
        left_out=len(everything) - len(verdicts),
    )
    _check_distinct(table)
    return table


def _check_distinct(table: VoteTable) -> None:
    repeats = np.flatnonzero(table.again & as_before(table.low_first))
    if not len(repeats):
        return
    row = repeats[0]
    pair = [table.models[table.low[row]], table.models[table.high[row]]]
    first, second = pair if table.low_first[row] else pair[::-1]
    raise JudgmentError(
        f"judge {table.judges[table.judge[row]]!r} voted twice on query "
        f"{table.queries[table.query[row]]!r} with the response of {first!r} before that of "
        f"{second!r} ({len(repeats)} such votes in all); keep one of each"
    )


def as_before(*columns: NDArray[np.generic]) -> Bools:
    """Which rows equal the row before in all these columns; the first row does not."""
    equal = np.zeros(len(columns[0]), dtype=bool)
    equal[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return equal


def items(table: VoteTable) -> Items:
    """One row for two models' responses to one query, with the verdict of each judge."""
    again = np.flatnonzero(table.again)
    differ = again[table.score[again] != table.score[again - 1]]
    score = table.score.copy()
    score[differ] = score[differ - 1] = 0.5
    new = ~as_before(table.query, table.low, table.high)
    by_judge = np.full((np.count_nonzero(new), len(table.judges)), np.nan)
    by_judge[np.cumsum(new) - 1, table.judge] = score
    return Items(table.query[new], table.low[new], table.high[new], by_judge)


def leftover(left_out: int) -> str:
    """What a line of text says about votes without a verdict."""
    return f"; {left_out} invalid or failed votes left out" if left_out else ""
