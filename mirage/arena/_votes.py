"""Votes as columns, to measure the agreement and the biases of judges."""

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


@dataclass(frozen=True)
class VoteStatistic:
    """Base class of statistics that are computed from votes, such as a bias of judges.

    Attributes:
        value: Value of the statistic.
        interval: Lower and upper end of its confidence interval; NaN if there is none.
        level: Confidence level of the interval.
        queries: Number of queries with votes.
    """

    value: float
    interval: Interval
    level: float
    queries: int

    @property
    def figure(self) -> str:
        """The value and its confidence interval, formatted as text."""
        if np.isnan(self.interval).any():
            return f"{self.value:.3f} (no interval: too few queries, or all have the same result)"
        low, high = self.interval
        return f"{self.value:.3f} ({100 * self.level:g} % interval {low:.3f} to {high:.3f})"


class BootstrapSettings(NamedTuple):
    """Settings of a bootstrap interval.

    Attributes:
        cluster: Integer code of each query's cluster; queries of a cluster are drawn together.
        draws: Number of bootstrap samples.
        level: Confidence level.
        seed: Random seed.
    """

    cluster: Ints
    draws: int
    level: float
    seed: int


def bootstrap_fields(
    query: Ints, values: Floats, statistic: Callable[[Floats], Floats], settings: BootstrapSettings
) -> tuple[float, Interval, float, int]:
    """Return a statistic's value, interval and confidence level, and the number of queries.

    The result can be passed to a :class:`VoteStatistic` as its first four fields. The interval is
    computed by :func:`mirage.statistics.bootstrap.bootstrap`.

    Args:
        query: Index of the query of each row of ``values``.
        values: Numbers of shape ``(rows, columns)``, such as counts of verdicts. Their sums over
            the rows of a bootstrap sample are passed to ``statistic``.
        statistic: Function that computes the statistic from the sums of the columns.
        settings: Settings of the bootstrap.
    """
    arguments = {**settings._asdict(), "cluster": settings.cluster[query]}
    value, interval = bootstrap(query, values, statistic, **arguments)
    return value, interval, settings.level, len(np.unique(query))


@dataclass(frozen=True, eq=False)
class VoteTable:
    """Votes with a verdict as numpy columns, one row per vote.

    The rows are sorted by query, low, high, judge and low_first, so their order does not depend on
    the order of the votes.

    Attributes:
        queries: Sorted query ids.
        models: Sorted model names.
        judges: Sorted judge names.
        query: Index into ``queries``.
        low: Index into ``models`` of the model whose name sorts first.
        high: Index into ``models`` of the other model.
        judge: Index into ``judges``.
        low_first: Whether the response of ``low`` was shown first.
        score: Score of ``low``: 1 for a win, 0 for a loss, 0.5 for a tie.
        left_out: Number of invalid or failed votes.
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
    def both_orders(self) -> Bools:
        """Whether each row and the previous one are one judge's votes on both orders of a pair."""
        return equals_previous(self.query, self.low, self.high, self.judge)


class Items(NamedTuple):
    """Verdicts of several judges, one row per pair of responses to one query.

    If a judge saw the pair in both orders, it still has one verdict: a tie if its two votes differ.
    If one of its votes is invalid or failed, the other vote counts.

    Attributes:
        query: Index of the query.
        low: Index of the model whose name sorts first.
        high: Index of the other model.
        score: Score of ``low`` by each judge, of shape ``(items, judges)``; NaN if the judge did
            not vote.
    """

    query: Ints
    low: Ints
    high: Ints
    score: Floats


def tabulate(votes: Iterable[Vote]) -> VoteTable:
    """Return the votes as a table, without invalid and failed votes.

    Raises:
        JudgmentError: An object is not a vote, no vote has a verdict, or a judge voted twice on the
            same models in the same order.
    """
    all_votes = list(votes)
    stray = next((vote for vote in all_votes if not isinstance(vote, Vote)), None)
    if stray is not None:
        raise JudgmentError(f"expected votes, such as `judged.votes`, got a {type(stray).__name__}")
    verdicts = [vote for vote in all_votes if vote.verdict not in ("invalid", "failed")]
    if not verdicts:
        raise JudgmentError(
            f"there are no verdicts: all {len(all_votes)} votes are invalid or failed; the field "
            "'error' of a vote gives the reason"
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
        left_out=len(all_votes) - len(verdicts),
    )
    _check_distinct(table)
    return table


def _check_distinct(table: VoteTable) -> None:
    repeats = np.flatnonzero(table.both_orders & equals_previous(table.low_first))
    if not len(repeats):
        return
    row = repeats[0]
    pair = [table.models[table.low[row]], table.models[table.high[row]]]
    first, second = pair if table.low_first[row] else pair[::-1]
    raise JudgmentError(
        f"judge {table.judges[table.judge[row]]!r} voted twice on query "
        f"{table.queries[table.query[row]]!r}, both times with the response of {first!r} shown "
        f"before that of {second!r}; there are {len(repeats)} repeated votes in all; keep one "
        "vote of each"
    )


def equals_previous(*columns: NDArray[np.generic]) -> Bools:
    """Return for each row whether it equals the previous row in all these columns.

    The value of the first row is false.
    """
    equal = np.zeros(len(columns[0]), dtype=bool)
    equal[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return equal


def items(table: VoteTable) -> Items:
    """Return one row per pair of responses to one query, with the verdict of each judge."""
    second_rows = np.flatnonzero(table.both_orders)
    differ = second_rows[table.score[second_rows] != table.score[second_rows - 1]]
    score = table.score.copy()
    score[differ] = score[differ - 1] = 0.5
    new = ~equals_previous(table.query, table.low, table.high)
    by_judge = np.full((np.count_nonzero(new), len(table.judges)), np.nan)
    by_judge[np.cumsum(new) - 1, table.judge] = score
    return Items(table.query[new], table.low[new], table.high[new], by_judge)


def left_out_note(left_out: int) -> str:
    """Return a note on the number of votes without a verdict; empty if there are none."""
    return f"; {left_out} invalid or failed votes left out" if left_out else ""
