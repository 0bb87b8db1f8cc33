"""Biases of judges: for a position, for long answers, for models of their own family.

They are the three biases that MIRAGE-Bench (arXiv 2410.13716, section 4.2) names of LLM judges.
Each function takes the votes of one judge or of several; where it does not tell judges apart, give
it those of one, ``[vote for vote in votes if vote.judge == name]``, to learn about that one.
Invalid and failed votes are left out, and counted.

Intervals of shares come from a bootstrap that draws queries with replacement
(:func:`mirage.statistics.bootstrap.bootstrap`). Where every query says the same, as with a judge
that always names the first, and below 14 queries there is none. Queries that hang together count
as one: ``cluster`` says by query id what each hangs together with, such as a document; a query that
is not there is a cluster by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Bools, Floats, Ints
from mirage.arena import _votes
from mirage.arena._lengths import answer_tokens
from mirage.arena._votes import Drawing, Items, Measured, VoteTable, measured
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.estimation import newton, penalised_information
from mirage.dataset import Cluster, clusters_of
from mirage.errors import JudgmentError, UnknownNameError
from mirage.models import Query, Run, Vote
from mirage.statistics.bootstrap import ratio
from mirage.statistics.clusters import cluster_codes, small_sample
from mirage.statistics.ranks import t_intervals

__all__ = [
    "PositionBias",
    "SelfPreference",
    "VerbosityBias",
    "position_bias",
    "self_preference",
    "verbosity_bias",
]

_PENALTY = BradleyTerry.ridge / 4  # the curvature of a ridge, as in `fit_bradley_terry`
_CELLS = 1 << 16  # rows of the draws that are fitted at a time: what stays in the cache


# --- Position


@dataclass(frozen=True)
class PositionBias(Measured):
    """How far verdicts follow the position of a response rather than the response.

    Attributes:
        value: ``first - second``: 1 where the first always wins, -1 where the second does, 0
            where neither position is favoured.
        interval: lower and upper end for it, at ``level``; NaN with fewer than 14 queries,
            and where all say the same.
        first: share of pairs of responses in which the one shown first won in both orders.
        second: share in which the one shown second won in both orders.
        consistent: share with the same verdict on the responses in both orders. In what is left
            of the whole, one order was a tie and the other was not.
        pairs: pairs of responses to these ``queries`` asked in both orders, of each judge.
        one_order: votes whose pair has no vote in the other order, and which say nothing here.
        left_out: votes that are invalid or failed.
    """

    first: float
    second: float
    consistent: float
    pairs: int
    one_order: int
    left_out: int

    def __str__(self) -> str:
        return (
            f"position bias: {self.figure}; of {self.pairs} pairs of responses to {self.queries} "
            f"queries the first won both orders in {self.first:.1%}, the second in "
            f"{self.second:.1%}, and {self.consistent:.1%} are consistent"
            + _votes.leftover(self.left_out)
        )


def position_bias(
    votes: Iterable[Vote],
    *,
    cluster: Mapping[str, str] = MappingProxyType({}),
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> PositionBias:
    """How far verdicts follow the position, from pairs of responses judged in both orders.

    Consistency, and the bias toward the first, are those of Zheng et al. 2023 (arXiv 2306.05685,
    Table 2); the value is the bias toward the first less that toward the second.

    Args:
        votes: some of them on the same two models and query in both orders.
        cluster: by query id, what the query hangs together with.
        draws: bootstrap samples, of queries, behind the interval.
        level: share of the draws that the interval holds.
        seed: of the draws.

    Raises:
        JudgmentError: no pair was judged in both orders, no vote has a verdict, or a judge voted
            twice on the same models in the same order.
    """
    table = _votes.tabulate(votes)
    again = np.flatnonzero(table.again)
    if not len(again):
        raise JudgmentError(
            "position bias takes votes on the same responses in both orders, and there are none: "
            "let the judge compare with both_orders=True"
        )
    # Of two rows, the response of `low` was shown second in the one, and first in the next.
    shown_second, shown_first = table.score[again - 1], table.score[again]
    outcomes = np.stack(
        [
            (shown_first == 1) & (shown_second == 0),
            (shown_first == 0) & (shown_second == 1),
            shown_first == shown_second,
            np.ones(len(again)),
        ],
        axis=1,
    ).astype(np.float64)
    first, second, consistent, _ = outcomes.mean(axis=0).tolist()
    drawing = Drawing(cluster_codes(table.queries, cluster), draws, level, seed)
    return PositionBias(
        *measured(table.query[again], outcomes, _difference, drawing),
        first=first,
        second=second,
        consistent=consistent,
        pairs=len(again),
        one_order=len(table.query) - 2 * len(again),
        left_out=table.left_out,
    )


def _difference(sums: Floats) -> Floats:
    """The difference of two means, of which the last sum is the number of values."""
    return ratio(sums[..., 0] - sums[..., 1], sums[..., -1])


# --- Verbosity


@dataclass(frozen=True)
class VerbosityBias(Measured):
    """How far the longer answer wins, beyond what the quality of its model explains.

    Attributes:
        value: log-odds of winning, for each unit of ``(own length - other's length) / (own +
            other's)``: 0 for answers of equal length, 1/3 for one twice as long, near 1 for one
            many times as long. Above 0 the longer is favoured, below 0 the shorter.
        interval: lower and upper end for it, at ``level``; NaN with fewer than two queries.
        votes: with a verdict, on these ``queries``.
        left_out: votes that are invalid or failed.
    """

    votes: int
    left_out: int

    @property
    def odds_twice_as_long(self) -> float:
        """The factor on the odds of winning for an answer twice as long as the other."""
        return float(np.exp(self.value / 3))

    def __str__(self) -> str:
        return (
            f"verbosity bias: log-odds {self.figure}; an answer twice as long has "
            f"{self.odds_twice_as_long:.2f} times the odds of winning; {self.votes} votes on "
            f"{self.queries} queries" + _votes.leftover(self.left_out)
        )


def verbosity_bias(
    votes: Iterable[Vote],
    dataset: Iterable[Query],
    runs: Iterable[Run],
    *,
    cluster: Cluster = None,
    level: float = 0.95,
) -> VerbosityBias:
    """How far the longer answer wins, from a Bradley-Terry model that knows lengths.

    The log-odds that a wins over b are ``logit_a - logit_b + value * (length_a - length_b) /
    (length_a + length_b)``: the logits take up how good each model is, on the whole, and the last
    term what length does beyond that. Chatbot Arena (Li et al. 2024, Does Style Matter?) and
    AlpacaEval (Dubois et al. 2024, arXiv 2404.04475) control for length so, each on a scale of its
    own. Lengths are in tokens of the answer (:func:`mirage.text.tokenize`), without its reason
    section and its citations. A tie is half a win to both. The ridge of :class:`BradleyTerry`
    holds back logits and value, and keeps them finite where the longer answer always wins. What
    it settles for want of votes, the interval counts as open.

    Logits that are fitted to few votes are too far apart, and the value with them. The jackknife
    takes out what it sees of that (Quenouille 1956, Notes on Bias in Estimation, Biometrika 43,
    353-360), leaving out one query, or cluster of queries, at a time; its variance (Tukey 1958;
    Efron & Stein 1981, Annals of Statistics 9, 586-596), and the ridge's, are those of the
    interval, by Student's t with one degree of freedom less than there are of these, or fewer where
    clusters differ in size (:func:`mirage.statistics.clusters.small_sample`).

    What it finds is an association: a model's longer answers may be its better ones.

    Args:
        votes: of one judge or of several, who are not told apart.
        dataset: the queries that were answered, which say what a citation can name.
        runs: the runs that were judged, one a model; others are not looked at.
        cluster: what queries hang together by, where :attr:`Query.cluster <mirage.Query>` does not
            say so, as :meth:`Ranking.from_judgments <mirage.Ranking.from_judgments>` takes it.
        level: share of such intervals that hold the truth.

    Raises:
        UnknownNameError: a query voted on is not in the dataset, a model has no run, or a run has
            no response to such a query.
        JudgmentError: such a response failed; two runs are of one model; lengths hardly vary
            beyond what tells the models apart, or of every two models one always wins; no vote
            has a verdict; or a judge voted twice on the same models in the same order.
    """
    table, queries = _votes.tabulate(votes), list(dataset)
    rows = _Compared.of(table, _lengths(table, queries, runs))
    _check_lengths_vary(rows)
    codes = cluster_codes(table.queries, clusters_of(queries, cluster))
    value, variance, degrees = _jackknife(rows, codes)
    ends = t_intervals(np.array([value]), np.array([[variance]]), degrees, level=level)
    return VerbosityBias(
        value=value,
        interval=(float(ends[0, 0]), float(ends[0, 1])),
        level=level,
        votes=len(table.query),
        queries=len(np.unique(table.query)),
        left_out=table.left_out,
    )


def _jackknife(rows: _Compared, codes: Ints) -> tuple[float, float, float]:
    """The bias with its own bias taken out, its variance, and degrees of freedom.

    ``codes`` are the clusters of queries. Of one cluster, the bias is as it is, and its variance
    not known.
    """
    sizes = np.bincount(codes[np.unique(rows.query)])
    cluster = np.unique(codes[rows.query], return_inverse=True)[1]
    clusters = int(cluster.max()) + 1
    fit = _fit(rows, np.ones((1, len(cluster))), np.zeros(rows.models + 1))
    value = float(fit[0, -1])
    if clusters < 2:
        return value, np.nan, 0.0
    size = max(1, _CELLS // len(cluster))
    blocks = [np.arange(low, min(low + size, clusters)) for low in range(0, clusters, size)]
    without = np.concatenate(
        [_fit(rows, (out[:, None] != cluster).astype(np.float64), fit[0])[:, -1] for out in blocks]
    )
    variance = (clusters - 1) * float(without.var()) + _variance_of_ridge(rows, fit)
    degrees = small_sample(sizes[sizes > 0]).degrees
    return clusters * value - (clusters - 1) * float(without.mean()), variance, degrees


@dataclass(frozen=True, eq=False)
class _Compared:
    """Votes, added up over judges and orders: a row for two models' answers to one query.

    Rows with the same two models stand together. Their model ``low[k]`` and ``high[k]`` are those
    of the rows from ``starts[k]``.
    """

    models: int
    query: Ints
    votes: Floats
    won: Floats  # by low
    longer: Floats  # low's length less high's, over their sum
    starts: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, table: VoteTable, length: Floats) -> _Compared:
        """``length[query, model]`` is that of the answer."""
        order = np.lexsort((table.query, table.high, table.low))
        query, low, high = table.query[order], table.low[order], table.high[order]
        first = np.flatnonzero(~_votes.as_before(low, high, query))
        votes = np.diff(first, append=len(query)).astype(np.float64)
        won = np.add.reduceat(table.score[order], first)
        query, low, high = query[first], low[first], high[first]
        own, other = length[query, low], length[query, high]
        longer = np.nan_to_num(ratio(own - other, own + other))
        starts = np.flatnonzero(~_votes.as_before(low, high))
        models = len(table.models)
        return cls(models, query, votes, won, longer, starts, low[starts], high[starts])

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value for each two models as one for each of their rows: ``(..., rows)``."""
        return np.repeat(values, np.diff(self.starts, append=len(self.query)), axis=-1)

    def sums(self, values: Floats) -> Floats:
        """Sums over the rows with the same two models, from ``(..., rows)``."""
        return np.add.reduceat(values, self.starts, axis=-1)

    def slopes(self, values: Floats) -> Floats:
        """What ``values``, derivatives by low's log-odds, are by the logits and the bias."""
        sides = np.eye(self.models)[self.low] - np.eye(self.models)[self.high]
        by_length = self.sums(values * self.longer).sum(axis=-1, keepdims=True)
        return np.concatenate([self.sums(values) @ sides, by_length], axis=-1)

    def information(self, curvature: Floats, penalty: float) -> Floats:
        """The information about logits and bias, from the curvature of each row."""
        models = self.models
        between = np.zeros((len(curvature), models, models))
        between[:, self.low, self.high] = between[:, self.high, self.low] = self.sums(curvature)
        whole = np.empty((len(curvature), models + 1, models + 1))
        whole[:, :models, :models] = penalised_information(between, penalty)
        whole[:, models] = whole[:, :, models] = self.slopes(curvature * self.longer)
        whole[:, models, models] += penalty
        return whole


def _fit(rows: _Compared, weights: Floats, start: Floats) -> Floats:
    """Logits, and last the bias, for each row of ``weights``: how often votes are counted."""
    votes, won = weights * rows.votes, weights * rows.won

    def derivatives(params: Floats, live: Ints) -> tuple[Floats, Floats]:
        chance = _chances(rows, params)
        expected = votes[live] * chance
        gradient = rows.slopes(won[live] - expected) - _PENALTY * params
        expected *= 1 - chance
        return gradient, rows.information(expected, _PENALTY)

    return newton(derivatives, np.tile(start, (len(weights), 1)), rows.models)


def _chances(rows: _Compared, params: Floats) -> Floats:
    """That low is preferred, by logits and bias."""
    from scipy.special import expit

    log_odds = rows.spread(params[:, rows.low] - params[:, rows.high])
    log_odds += params[:, -1:] * rows.longer
    return np.asarray(expit(log_odds, out=log_odds))


def _variance_of_ridge(rows: _Compared, fit: Floats) -> float:
    """What the ridge, taken as observations of its own, adds to the variance of the bias."""
    chance = _chances(rows, fit)
    information = rows.information(rows.votes * chance * (1 - chance), _PENALTY)[0]
    return float(_PENALTY * np.square(np.linalg.inv(information)[-1]).sum())


def _check_lengths_vary(rows: _Compared) -> None:
    """That the votes say more of the bias than the ridge does, once logits are accounted for.

    Votes on two models of which one always wins do not count: their logits can explain them all.
    """
    won, votes = rows.sums(rows.won), rows.sums(rows.votes)
    contested = rows.spread((won > 0) & (won < votes))
    whole = rows.information((rows.votes * contested / 4)[None], 0.0)[0]
    cross = whole[:-1, -1]
    left = whole[-1, -1] - cross @ np.linalg.pinv(whole[:-1, :-1]) @ cross
    if left <= _PENALTY:
        raise JudgmentError(
            f"the {int(rows.votes.sum())} votes cannot tell length from quality: of every two "
            "models, one always wins, or its answers are about as much longer on every query; add "
            "queries or models"
        )


def _lengths(table: VoteTable, dataset: Iterable[Query], runs: Iterable[Run]) -> Floats:
    """Tokens of the answers that were voted on, ``(queries, models)``; 0 for the others."""
    queries = {query.id: query for query in dataset}
    for query_id in table.queries:
        if query_id not in queries:
            raise UnknownNameError("query of the dataset", query_id, queries)
    by_model: dict[str, Run] = {}
    for run in runs:
        if run.model in by_model:
            raise JudgmentError(
                f"two runs are of model {run.model!r}; give the one that was judged"
            )
        by_model[run.model] = run
    length = np.zeros((len(table.queries), len(table.models)))
    for model, name in enumerate(table.models):
        if name not in by_model:
            raise UnknownNameError("model among the runs", name, by_model)
        voted = (table.low == model) | (table.high == model)
        for query in np.unique(table.query[voted]).tolist():
            length[query, model] = answer_tokens(by_model[name], queries[table.queries[query]])
    return length


# --- Self-preference


@dataclass(frozen=True)
class SelfPreference(Measured):
    """How much better one judge scores models of its own family than other judges score them.

    Attributes:
        judge: its name.
        family: its family.
        value: ``own - others``, from -1 to 1; above 0 the judge favours its family. NaN where no
            neutral judge judged the same.
        interval: lower and upper end for it, at ``level``; NaN with fewer than 14 queries,
            and where all say the same.
        own: mean score that the judge gave to its family's models against models of others: 1 for
            a win, 0.5 for a tie, 0 for a loss.
        others: mean score that judges of neither family gave to the same models, on the same
            queries against the same opponents.
        pairs: pairs of responses to these ``queries`` behind the means.
        left_out: votes that are invalid or failed, of all judges.
    """

    judge: str
    family: str
    own: float
    others: float
    pairs: int
    left_out: int

    def __str__(self) -> str:
        line = f"self-preference of {self.judge} for {self.family}: "
        if not self.pairs:
            return line + "undefined, for no neutral judge judged the same responses"
        return (
            f"{line}{self.figure}; mean score {self.own:.3f}, from neutral judges "
            f"{self.others:.3f}, on {self.pairs} pairs of responses to {self.queries} queries"
            + _votes.leftover(self.left_out)
        )


def self_preference(
    votes: Iterable[Vote],
    families: Mapping[str, str],
    *,
    cluster: Mapping[str, str] = MappingProxyType({}),
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[SelfPreference, ...]:
    """How much each judge favours the models of its own family, as other judges see them.

    Self-preference is that a judge scores its own outputs above others' where they are of equal
    quality (Panickssery et al. 2024, arXiv 2404.13076). Neutral judges, those of neither model's
    family, stand in for quality here: what all judges share, or a family that is simply better,
    is none. Each pair of responses, one of them by the family, counts once; a judge asked in both
    orders whose votes differ says: a tie.

    Args:
        votes: of judges of two families or more, on the same queries and models. Two judges
            that are each of the family of one of the only two models see nothing: add a third.
        families: the family of each judge and of each model, by name, such as ``{"gpt-4o":
            "openai", "gpt-4o-mini": "openai"}``. A name that is not there is a family by itself.
        cluster: as ``draws``, ``level`` and ``seed``, that of :func:`position_bias`.

    Returns:
        One result for each judge that judged models of its family against others, by name.

    Raises:
        JudgmentError: there is one judge only; none judged its own family; nothing that such a
            judge judged was judged by a neutral one; no vote has a verdict; or a judge voted
            twice on the same models in the same order.
    """
    table = _votes.tabulate(votes)
    if len(table.judges) < 2:
        raise JudgmentError(
            f"self-preference is seen beside other judges, and all votes are of "
            f"{table.judges[0]!r}; add votes of a judge of another family on the same responses"
        )
    of_judge, of_model = (
        np.array([families.get(name, name) for name in names], dtype=object)
        for names in (table.judges, table.models)
    )
    items = _votes.items(table)
    drawing = Drawing(cluster_codes(table.queries, cluster), draws, level, seed)
    results = []
    for judge, family in enumerate(of_judge.tolist()):
        scores, opponent = _scores_of_family(items, of_model == family)
        if np.isnan(scores[:, judge]).all():
            continue
        neutral = (of_judge != family) & (of_judge != of_model[opponent, None])
        peers = np.where(neutral, scores, np.nan)
        query, means = _own_and_others(items.query, scores[:, judge], peers)
        own, others, _ = means.mean(axis=0).tolist() if len(query) else [np.nan] * 3
        results.append(
            SelfPreference(
                *measured(query, means, _difference, drawing),
                judge=table.judges[judge],
                family=family,
                own=own,
                others=others,
                pairs=len(query),
                left_out=table.left_out,
            )
        )
    _check_family_judged(results, dict(zip(table.judges, of_judge, strict=True)))
    return tuple(results)


def _own_and_others(query: Ints, own: Floats, peers: Floats) -> tuple[Ints, Floats]:
    """The query of each item with a score of the judge and of a peer; the scores, and a 1."""
    voted = ~np.isnan(peers)
    common = ~np.isnan(own) & voted.any(axis=1)
    others = np.nansum(peers[common], axis=1) / np.count_nonzero(voted[common], axis=1)
    return query[common], np.stack([own[common], others, np.ones(len(others))], axis=1)


def _scores_of_family(items: Items, member: Bools) -> tuple[Floats, Ints]:
    """What each judge gave the family's model, and which model it was compared with.

    The scores are NaN where both models are of the family, or neither.
    """
    low, high = member[items.low], member[items.high]
    score = np.where(low[:, None], items.score, 1 - items.score)
    return np.where((low != high)[:, None], score, np.nan), np.where(low, items.high, items.low)


def _check_family_judged(results: list[SelfPreference], of_judge: Mapping[str, str]) -> None:
    families = ", ".join(f"{judge!r} of {family!r}" for judge, family in of_judge.items())
    if not results:
        raise JudgmentError(
            f"no judge judged models of its own family against others; judges are {families}: "
            "name the families of judges and models in families="
        )
    if not any(result.pairs for result in results):
        raise JudgmentError(
            f"judges are {families}: what one of them judged of its own family was judged by none "
            "that is of neither model's family; let such a judge vote on the same responses"
        )
