"""Biases of judges: for a position, for long answers, and for models of their own family.

These are the three biases of LLM judges that MIRAGE-Bench lists (arXiv 2410.13716, section 4.2).
Each function takes the votes of one or several judges. Position bias and verbosity bias are
measured for all judges together. To measure a single judge, pass only its votes: ``[vote for vote
in votes if vote.judge == name]``. Invalid and failed votes are left out, and counted.

Intervals of shares come from a bootstrap that draws queries with replacement
(:func:`mirage.statistics.bootstrap.bootstrap`). There is no interval with fewer than 14 queries, or
if all queries have the same result, for example because a judge always prefers the first response.
Related queries count as one cluster: ``cluster`` maps a query id to its cluster, such as a
document. A query that is not in the mapping is a cluster by itself.
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
from mirage.arena._votes import BootstrapSettings, Items, VoteStatistic, VoteTable, bootstrap_fields
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.estimation import newton, penalised_information
from mirage.dataset import Cluster, clusters_of
from mirage.errors import JudgmentError, UnknownNameError
from mirage.models import Query, Run, Vote
from mirage.statistics.bootstrap import ratio
from mirage.statistics.clusters import cluster_codes, small_sample
from mirage.statistics.ranks import t_intervals

_PENALTY = BradleyTerry.ridge / 4  # the curvature of a ridge, as in `fit_bradley_terry`
_CELLS = 1 << 16  # rows of jackknife fits at a time, small enough for the processor's cache


# --- Position


@dataclass(frozen=True)
class PositionBias(VoteStatistic):
    """The extent to which verdicts follow the position of a response instead of its content.

    Attributes:
        value: ``first - second``: 1 if the first response always wins, -1 if the second always
            does, 0 if neither position is favoured.
        interval: Lower and upper end of the confidence interval of ``value`` at ``level``; NaN with
            fewer than 14 queries, or if all have the same result.
        first: Share of pairs of responses in which the response shown first won in both orders.
        second: Share of pairs in which the response shown second won in both orders.
        consistent: Share of pairs with the same verdict in both orders. In the remaining pairs, one
            order was a tie and the other was not.
        pairs: Number of pairs of responses that one judge saw in both orders, summed over judges.
        one_order: Number of votes without a vote in the other order; they are not used.
        left_out: Number of votes that are invalid or failed.
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
            + _votes.left_out_note(self.left_out)
        )


def position_bias(
    votes: Iterable[Vote],
    *,
    cluster: Mapping[str, str] = MappingProxyType({}),
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> PositionBias:
    """Measure how much judges prefer the response that they see first.

    The measure needs pairs of responses that a judge saw in both orders.

    Consistency and the bias toward the first response are defined as in Zheng et al. 2023 (arXiv
    2306.05685, Table 2). The result is the bias toward the first response minus the bias toward the
    second.

    Args:
        votes: Votes of one or several judges. Only pairs of votes that one judge gave on the same
            two responses in both orders are used.
        cluster: Cluster name by query id; a query that is not listed is a cluster by itself.
        draws: Number of bootstrap samples of queries for the interval.
        level: Confidence level of the interval.
        seed: Random seed of the bootstrap.

    Returns:
        The bias with its interval, and the shares from which the bias is computed.

    Raises:
        JudgmentError: No pair was judged in both orders, no vote has a verdict, or a judge voted
            twice on the same models in the same order.

    Example:
        >>> from mirage.arena import position_bias
        >>> from mirage.models import Vote
        >>> votes = [
        ...     Vote(query_id=f"q{i}", model_a=a, model_b=b, judge="judge", verdict=verdict)
        ...     for i, verdict in enumerate(["a", "a", "a", "tie"] * 5)
        ...     for a, b in (("x", "y"), ("y", "x"))
        ... ]
        >>> position_bias(votes).first
        0.75
    """
    table = _votes.tabulate(votes)
    second_rows = np.flatnonzero(table.both_orders)
    if not len(second_rows):
        raise JudgmentError(
            "position bias needs votes on the same responses in both orders, and there are none; "
            "judge each pair in both orders"
        )
    # Rows are sorted, so `low` was shown second in the first row of a pair and first in the next.
    shown_second, shown_first = table.score[second_rows - 1], table.score[second_rows]
    outcomes = np.stack(
        [
            (shown_first == 1) & (shown_second == 0),
            (shown_first == 0) & (shown_second == 1),
            shown_first == shown_second,
            np.ones(len(second_rows)),
        ],
        axis=1,
    ).astype(np.float64)
    first, second, consistent, _ = outcomes.mean(axis=0).tolist()
    settings = BootstrapSettings(cluster_codes(table.queries, cluster), draws, level, seed)
    return PositionBias(
        *bootstrap_fields(table.query[second_rows], outcomes, _difference, settings),
        first=first,
        second=second,
        consistent=consistent,
        pairs=len(second_rows),
        one_order=len(table.query) - 2 * len(second_rows),
        left_out=table.left_out,
    )


def _difference(sums: Floats) -> Floats:
    """Return the difference of two means: ``(first sum - second sum) / number of values``.

    Args:
        sums: Along the last axis, the first sum, the second sum and, at the end, the number of
            values.
    """
    return ratio(sums[..., 0] - sums[..., 1], sums[..., -1])


# --- Verbosity


@dataclass(frozen=True)
class VerbosityBias(VoteStatistic):
    """The extent to which longer answers win more often than the quality of their models explains.

    Attributes:
        value: Change in the log-odds of winning per unit of the length difference ``(own length -
            other's length) / (own length + other's length)``. This difference is 0 for answers of
            equal length, 1/3 for an answer twice as long as the other, and near 1 for an answer
            many times as long. If the value is positive, the longer answer is favoured; if it is
            negative, the shorter.
        interval: Lower and upper end of the confidence interval of ``value`` at ``level``; NaN with
            fewer than two clusters of queries.
        votes: Number of votes with a verdict, on ``queries`` queries.
        left_out: Number of votes that are invalid or failed.
    """

    votes: int
    left_out: int

    @property
    def odds_twice_as_long(self) -> float:
        """The odds of winning for an answer twice as long, divided by the odds at equal length."""
        return float(np.exp(self.value / 3))

    def __str__(self) -> str:
        return (
            f"verbosity bias: log-odds {self.figure}; an answer twice as long has "
            f"{self.odds_twice_as_long:.2f} times the odds of winning; {self.votes} votes on "
            f"{self.queries} queries" + _votes.left_out_note(self.left_out)
        )


def verbosity_bias(
    votes: Iterable[Vote],
    dataset: Iterable[Query],
    runs: Iterable[Run],
    *,
    cluster: Cluster = None,
    level: float = 0.95,
) -> VerbosityBias:
    """Measure the preference for longer answers by a Bradley-Terry model that includes length.

    The log-odds that a wins over b are ``logit_a - logit_b + value * (length_a - length_b) /
    (length_a + length_b)``. The logits describe the overall quality of the models, and the last
    term the additional effect of length. Chatbot Arena (Li et al. 2024, Does Style Matter?) and
    AlpacaEval (Dubois et al. 2024, arXiv 2404.04475) control for length in this way, each on its
    own scale. Lengths are in tokens of the answer (:func:`mirage.text.tokenize`), without its
    reason section and its citations. A tie is half a win for both. The ridge penalty of
    :class:`BradleyTerry` shrinks the logits and ``value``, and keeps them finite if the longer
    answer always wins.

    With few votes, the estimate of ``value`` is biased away from 0. The jackknife reduces this bias
    (Quenouille 1956, Notes on Bias in Estimation, Biometrika 43, 353-360) by leaving out one query,
    or cluster of queries, at a time. The interval is based on the jackknife's variance of the value
    (Tukey 1958; Efron & Stein 1981, Annals of Statistics 9, 586-596), plus a term for the penalty,
    which would otherwise make the interval too narrow. It uses Student's t with one degree of
    freedom less than there are clusters, or fewer if clusters differ in size
    (:func:`mirage.statistics.clusters.small_sample`).

    The result is an association and not necessarily an effect of length: a model's longer answers
    may also be its better ones.

    Args:
        votes: Votes of one or several judges. The bias is measured for all of them together.
        dataset: The queries that were answered; their passages resolve the citations.
        runs: The runs that were judged, one per model; other runs are ignored.
        cluster: Groups of related queries: a key of the queries' metadata, a function of the query,
            or a mapping from query id. By default :attr:`Query.cluster <mirage.Query>`.
        level: Confidence level of the interval.

    Returns:
        The bias with its interval.

    Raises:
        UnknownNameError: A query with votes is not in the dataset, a model has no run, or a run has
            no response to such a query.
        JudgmentError: A response to such a query failed; two runs have the same model; no vote has
            a verdict; or a judge voted twice on the same models in the same order. Also if votes
            cannot separate length from quality: in every pair of models one model always wins, or
            the answers of one are always longer by about the same factor.
    """
    table, queries = _votes.tabulate(votes), list(dataset)
    rows = _PairVotes.of(table, _lengths(table, queries, runs))
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


def _jackknife(rows: _PairVotes, codes: Ints) -> tuple[float, float, float]:
    """Return the bias-corrected verbosity bias, its variance, and its degrees of freedom.

    ``codes`` are the clusters of queries. With a single cluster the value is not corrected and its
    variance is NaN.
    """
    sizes = np.bincount(codes[np.unique(rows.query)])
    cluster = np.unique(codes[rows.query], return_inverse=True)[1]
    clusters = int(cluster.max()) + 1
    fit = _fit(rows, np.ones((1, len(cluster))), np.zeros(rows.models + 1))
    value = float(fit[0, -1])
    if clusters < 2:
        return value, np.nan, 0.0
    size = max(1, _CELLS // len(cluster))
    batches = [np.arange(low, min(low + size, clusters)) for low in range(0, clusters, size)]
    left_out_values = np.concatenate(
        [
            _fit(rows, (left_out[:, None] != cluster).astype(np.float64), fit[0])[:, -1]
            for left_out in batches
        ]
    )
    variance = (clusters - 1) * float(left_out_values.var()) + _variance_of_ridge(rows, fit)
    degrees = small_sample(sizes[sizes > 0]).degrees
    return clusters * value - (clusters - 1) * float(left_out_values.mean()), variance, degrees


@dataclass(frozen=True, eq=False)
class _PairVotes:
    """Votes summed over judges and orders, one row per pair of answers to one query.

    Rows with the same two models are adjacent. The rows from ``starts[k]`` on compare the models
    ``low[k]`` and ``high[k]``, which are indices of models. The low model is the one with the lower
    index.

    Attributes:
        models: Number of models.
        query: Query of each row.
        votes: Number of votes of each row.
        won: Sum of the low model's scores over the votes.
        longer: Length of the low model's answer minus the other's, divided by their sum.
        starts: First row of each pair of models.
        low: Index of the low model of each pair of models.
        high: Index of the other model of each pair of models.
    """

    models: int
    query: Ints
    votes: Floats
    won: Floats
    longer: Floats
    starts: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, table: VoteTable, length: Floats) -> _PairVotes:
        """Sum the votes of a table over judges and orders.

        ``length[query, model]`` is the length of an answer in tokens.
        """
        order = np.lexsort((table.query, table.high, table.low))
        query, low, high = table.query[order], table.low[order], table.high[order]
        first = np.flatnonzero(~_votes.equals_previous(low, high, query))
        votes = np.diff(first, append=len(query)).astype(np.float64)
        won = np.add.reduceat(table.score[order], first)
        query, low, high = query[first], low[first], high[first]
        low_length, high_length = length[query, low], length[query, high]
        longer = np.nan_to_num(ratio(low_length - high_length, low_length + high_length))
        starts = np.flatnonzero(~_votes.equals_previous(low, high))
        models = len(table.models)
        return cls(models, query, votes, won, longer, starts, low[starts], high[starts])

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Expand values per pair of models to one value per row, that is, per pair of answers.

        ``values`` has the shape ``(..., pairs of models)``, and the result ``(..., rows)``.
        """
        return np.repeat(values, np.diff(self.starts, append=len(self.query)), axis=-1)

    def sums(self, values: Floats) -> Floats:
        """Sum values per row, that is, per pair of answers, to one value per pair of models.

        ``values`` has the shape ``(..., rows)``, and the result ``(..., pairs of models)``.
        """
        return np.add.reduceat(values, self.starts, axis=-1)

    def slopes(self, values: Floats) -> Floats:
        """Convert derivatives with respect to log-odds to derivatives with respect to parameters.

        ``values`` contains the derivatives with respect to the log-odds of each row. The parameters
        are the logits of the models, followed by the verbosity bias.
        """
        sides = np.eye(self.models)[self.low] - np.eye(self.models)[self.high]
        by_length = self.sums(values * self.longer).sum(axis=-1, keepdims=True)
        return np.concatenate([self.sums(values) @ sides, by_length], axis=-1)

    def information(self, curvature: Floats, penalty: float) -> Floats:
        """Return the information matrices of logits and bias, one per row of ``curvature``.

        ``curvature`` has the negative second derivative of the log-likelihood with respect to the
        log-odds of each row of votes. ``penalty`` is the second derivative of the ridge penalty.
        """
        models = self.models
        between = np.zeros((len(curvature), models, models))
        between[:, self.low, self.high] = between[:, self.high, self.low] = self.sums(curvature)
        information_matrix = np.empty((len(curvature), models + 1, models + 1))
        information_matrix[:, :models, :models] = penalised_information(between, penalty)
        information_matrix[:, models] = information_matrix[:, :, models] = self.slopes(
            curvature * self.longer
        )
        information_matrix[:, models, models] += penalty
        return information_matrix


def _fit(rows: _PairVotes, weights: Floats, start: Floats) -> Floats:
    """Fit logits and verbosity bias to differently weighted votes.

    Each row of ``weights`` gives one fit, and has one weight per row of votes. All fits begin at
    the parameters ``start``. The result has one row per fit: the logits of the models, then the
    bias.
    """
    votes, won = weights * rows.votes, weights * rows.won

    def derivatives(params: Floats, live: Ints) -> tuple[Floats, Floats]:
        chance = _chances(rows, params)
        expected = votes[live] * chance
        gradient = rows.slopes(won[live] - expected) - _PENALTY * params
        expected *= 1 - chance
        return gradient, rows.information(expected, _PENALTY)

    return newton(derivatives, np.tile(start, (len(weights), 1)), rows.models)


def _chances(rows: _PairVotes, params: Floats) -> Floats:
    """Return the probability that the model with the lower index wins, for each fit and row."""
    from scipy.special import expit

    log_odds = rows.spread(params[:, rows.low] - params[:, rows.high])
    log_odds += params[:, -1:] * rows.longer
    return np.asarray(expit(log_odds, out=log_odds))


def _variance_of_ridge(rows: _PairVotes, fit: Floats) -> float:
    """Return the part of the variance of the verbosity bias that is due to the ridge penalty.

    The penalty is treated as additional random observations. ``fit`` contains the fitted logits
    and the bias, as one row.
    """
    chance = _chances(rows, fit)
    information = rows.information(rows.votes * chance * (1 - chance), _PENALTY)[0]
    return float(_PENALTY * np.square(np.linalg.inv(information)[-1]).sum())


def _check_lengths_vary(rows: _PairVotes) -> None:
    """Raise an error if the votes contain too little information about the verbosity bias.

    The information about the bias that is left after estimating the logits must exceed the
    information that the ridge penalty adds. Votes on two models do not count if one of them always
    wins, because the logits alone can explain such votes.
    """
    won, votes = rows.sums(rows.won), rows.sums(rows.votes)
    contested = rows.spread((won > 0) & (won < votes))
    information = rows.information((rows.votes * contested / 4)[None], 0.0)[0]
    # Schur complement: the information about the bias once the logits are estimated.
    cross = information[:-1, -1]
    conditional = information[-1, -1] - cross @ np.linalg.pinv(information[:-1, :-1]) @ cross
    if conditional <= _PENALTY:
        raise JudgmentError(
            f"the {int(rows.votes.sum())} votes cannot separate length from quality: in every pair "
            "of models, either one model always wins, or the answers of one model are longer by "
            "about the same factor on every query; add queries or models"
        )


def _lengths(table: VoteTable, dataset: Iterable[Query], runs: Iterable[Run]) -> Floats:
    """Return the number of tokens of each answer on which a judge voted, and 0 for other answers.

    The shape of the result is ``(queries, models)``.

    Raises:
        UnknownNameError: A query is not in the dataset, or a model has no run.
        JudgmentError: Two runs have the same model.
    """
    queries = {query.id: query for query in dataset}
    for query_id in table.queries:
        if query_id not in queries:
            raise UnknownNameError("query id", query_id, queries)
    by_model: dict[str, Run] = {}
    for run in runs:
        if run.model in by_model:
            raise JudgmentError(
                f"two runs have the model {run.model!r}; pass only the run that was judged"
            )
        by_model[run.model] = run
    length = np.zeros((len(table.queries), len(table.models)))
    for model, name in enumerate(table.models):
        if name not in by_model:
            raise UnknownNameError("model", name, by_model, "in the runs")
        voted = (table.low == model) | (table.high == model)
        for query in np.unique(table.query[voted]).tolist():
            length[query, model] = answer_tokens(by_model[name], queries[table.queries[query]])
    return length


# --- Self-preference


@dataclass(frozen=True)
class SelfPreference(VoteStatistic):
    """The difference between a judge's scores for its own model family and those of neutral judges.

    Attributes:
        judge: Name of the judge.
        family: Family of the judge.
        value: ``family_score - neutral_score``, from -1 to 1; above 0 the judge favours its
            family. NaN if no neutral judge judged the same responses.
        interval: Lower and upper end of the confidence interval of ``value`` at ``level``; NaN with
            fewer than 14 queries, or if all have the same result.
        family_score: Mean score that the judge gave to its family's models against models of
            other families: 1 for a win, 0.5 for a tie, 0 for a loss.
        neutral_score: Mean score that neutral judges gave to the same models against the same
            opponents on the same queries. A judge is neutral if it belongs to neither model's
            family.
        pairs: Number of pairs of responses over which the means are taken, on ``queries`` queries.
        left_out: Number of votes of all judges that are invalid or failed.
    """

    judge: str
    family: str
    family_score: float
    neutral_score: float
    pairs: int
    left_out: int

    def __str__(self) -> str:
        line = f"self-preference of {self.judge} for {self.family}: "
        if not self.pairs:
            return line + "undefined, because no neutral judge judged the same responses"
        return (
            f"{line}{self.figure}; mean score {self.family_score:.3f}, from neutral judges "
            f"{self.neutral_score:.3f}, on {self.pairs} pairs of responses to {self.queries} "
            "queries" + _votes.left_out_note(self.left_out)
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
    """Measure how much each judge favours models of its own family, compared with neutral judges.

    A judge has self-preference if it scores its own outputs above equally good outputs of others
    (Panickssery et al. 2024, arXiv 2404.13076). Here the scores of neutral judges, which belong to
    neither model's family, measure quality. A preference that all judges share, or a family that is
    simply better, is therefore not self-preference. Each pair of responses with one response from
    the family counts once. If a judge saw both orders and its votes differ, its verdict is a tie.

    Args:
        votes: Votes of judges of at least two families, on the same queries and models. With only
            two models and a judge from the family of each, no judge is neutral: add a third judge.
        families: Family of each judge and each model by name, such as ``{"gpt-4o": "openai",
            "gpt-4o-mini": "openai"}``. A name that is not listed is a family by itself.
        cluster: Cluster name by query id; a query that is not listed is a cluster by itself.
        draws: Number of bootstrap samples.
        level: Confidence level of the intervals.
        seed: Random seed of the bootstrap.

    Returns:
        One result for each judge that compared models of its family with others, sorted by the name
        of the judge.

    Raises:
        JudgmentError: There is only one judge; no judge judged its own family; no neutral judge
            judged the same responses; no vote has a verdict; or a judge voted twice on the same
            models in the same order.

    Example:
        >>> from mirage.arena import self_preference
        >>> from mirage.models import Vote
        >>> names = {"model_a": "gpt-4o-mini", "model_b": "llama"}
        >>> votes = [
        ...     Vote(query_id=f"q{i}", **names, judge=judge, verdict=verdict)
        ...     for i in range(20)
        ...     for judge, verdict in (("gpt-4o", "a"), ("command", "ab"[i % 2]))
        ... ]
        >>> families = {"gpt-4o": "openai", "gpt-4o-mini": "openai"}
        >>> self_preference(votes, families)[0].value
        0.5
    """
    table = _votes.tabulate(votes)
    if len(table.judges) < 2:
        raise JudgmentError(
            f"self-preference compares judges, and all votes are from {table.judges[0]!r}; add "
            f"votes of a judge of another family on the same responses"
        )
    judge_families, model_families = (
        np.array([families.get(name, name) for name in names], dtype=object)
        for names in (table.judges, table.models)
    )
    items = _votes.items(table)
    settings = BootstrapSettings(cluster_codes(table.queries, cluster), draws, level, seed)
    results = []
    for judge, family in enumerate(judge_families.tolist()):
        scores, opponent = _scores_of_family(items, model_families == family)
        if np.isnan(scores[:, judge]).all():
            continue
        neutral = (judge_families != family) & (judge_families != model_families[opponent, None])
        peers = np.where(neutral, scores, np.nan)
        query, means = _paired_means(items.query, scores[:, judge], peers)
        family_score, neutral_score, _ = means.mean(axis=0).tolist() if len(query) else [np.nan] * 3
        results.append(
            SelfPreference(
                *bootstrap_fields(query, means, _difference, settings),
                judge=table.judges[judge],
                family=family,
                family_score=family_score,
                neutral_score=neutral_score,
                pairs=len(query),
                left_out=table.left_out,
            )
        )
    _check_family_judged(results, dict(zip(table.judges, judge_families, strict=True)))
    return tuple(results)


def _paired_means(query: Ints, judge_scores: Floats, peers: Floats) -> tuple[Ints, Floats]:
    """Compare the scores of a judge with the mean scores of neutral judges on the same items.

    Args:
        query: Query of each item.
        judge_scores: Scores of the judge, of shape ``(items,)``; NaN if the judge has no verdict.
        peers: Scores of neutral judges, of shape ``(items, judges)``; NaN for judges that are not
            neutral or have no verdict.

    Returns:
        The query of each item that the judge and a neutral judge judged; and for each of these
        items, a row with the judge's score, the mean score of neutral judges, and 1 (for counting
        items).
    """
    voted = ~np.isnan(peers)
    common = ~np.isnan(judge_scores) & voted.any(axis=1)
    peer_scores = np.nansum(peers[common], axis=1) / np.count_nonzero(voted[common], axis=1)
    return query[common], np.stack(
        [judge_scores[common], peer_scores, np.ones(len(peer_scores))], axis=1
    )


def _scores_of_family(items: Items, member: Bools) -> tuple[Floats, Ints]:
    """Return, for each item, the scores of the model from a family, and the index of its opponent.

    The scores have the shape ``(items, judges)``. They are NaN unless exactly one of the two models
    is from the family. ``member`` has one value per model, which is true for the models of the
    family.
    """
    low, high = member[items.low], member[items.high]
    score = np.where(low[:, None], items.score, 1 - items.score)
    return np.where((low != high)[:, None], score, np.nan), np.where(low, items.high, items.low)


def _check_family_judged(results: list[SelfPreference], family_by_judge: Mapping[str, str]) -> None:
    """Raise an error if no judge judged its own family, or no neutral judge saw the same pairs.

    ``family_by_judge`` has the family of each judge, for the error message."""
    judges = ", ".join(f"{judge!r} ({family!r})" for judge, family in family_by_judge.items())
    if not results:
        raise JudgmentError(
            "no judge compared a model of its own family with another model; the judges are "
            f"{judges}; pass the families of judges and models as families="
        )
    if not any(result.pairs for result in results):
        raise JudgmentError(
            "no neutral judge (of neither model's family) voted on the comparisons in which a "
            f"judge saw a model of its own family; the judges are {judges}; let a neutral judge "
            "vote on the same responses"
        )
