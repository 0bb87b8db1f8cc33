"""Placement of a model among anchors by verdicts of a judge and predictions of the surrogate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena.cautions import position_cautions
from mirage.arena.fits import BradleyTerryFit
from mirage.arena.pairs import Contest, Pair, Skipped
from mirage.arena.placement import (
    Anchors,
    Placement,
    Sample,
    joint_covariance,
    level_of_looks,
    place,
    sample,
)
from mirage.arena.verdicts import Judged
from mirage.dataset import MirageDataset, clusters_of
from mirage.leaderboard._settings import RankSettings
from mirage.models import Run
from mirage.statistics.clusters import cluster_codes, cluster_names, cluster_sums, multipliers
from mirage.statistics.prediction_powered import FEWEST
from mirage.statistics.ranks import confidences_by_draws, p_better_by_t

DRAWS = 1000
"""Number of draws of the logits of judged anchors."""

LEVEL = 0.95
"""Confidence level of the intervals."""

LOOKS = 8
"""Largest number of times that a stopping rule is checked."""


class AnchorSet(NamedTuple):
    """The anchors of a leaderboard: reference models with known logits.

    Attributes:
        runs: Responses of the anchors, by the names that the ranking shows.
        anchors: Logits of the anchors with their uncertainty. The attribute ``influence`` has one
            row per cluster of queries.
        query_ids: Ids of the dataset's queries, followed by ids of other queries on which anchors
            were judged.
        cluster: Index of each query's cluster in ``clusters``.
        clusters: Names of the clusters; a query without related queries is a cluster by itself.
        confidence: Confidence that anchor i is better than anchor j, at ``[i, j]``.
        degrees: Degrees of freedom of the t-distribution from which ``confidence`` is computed;
            infinite if it is computed from draws.
        draws: Draws of the logits, of shape ``(draws, anchors)``; NaN if the uncertainty is not
            known.
    """

    runs: Mapping[str, Run]
    anchors: Anchors
    query_ids: tuple[str, ...]
    cluster: Ints
    clusters: tuple[str, ...]
    confidence: Floats
    degrees: float
    draws: Floats


@dataclass(frozen=True)
class JudgedPlacement:
    """The result of judging a model against anchors (reference models).

    Attributes:
        placement: Logit of the model on the anchors' scale, with its uncertainty.
        judged: Votes and verdicts of the judge.
        widened: Factor by which the interval is widened because the stopping rule was checked
            several times.
        notes: Notes on the placement, for the ranking.
    """

    placement: Placement
    judged: Judged
    widened: float
    notes: tuple[str, ...] = field(default=())


# The anchors --------------------------------------------------------------------------------------


def anchors_from_fit(
    runs: Mapping[str, Run], dataset: MirageDataset, fit: BradleyTerryFit
) -> AnchorSet:
    """Return anchors (reference models) with logits and uncertainty from a fit to judgments."""
    query_ids = tuple(dict.fromkeys((*dataset.query_ids, *fit.query_ids)))
    cluster, names = _cluster_codes(dataset, query_ids)
    rows = np.zeros((len(query_ids), len(fit.models)))
    remaining_covariance = fit.uncertainty
    if fit.influence is not None:
        row_of_query = _positions(query_ids)
        rows[[row_of_query[query_id] for query_id in fit.query_ids]] = fit.influence
        remaining_covariance = fit.uncertainty - fit.covariance
    columns = [fit.models.index(name) for name in runs]
    anchors = Anchors(
        fit.logits[columns],
        cluster_sums(cluster, rows[:, columns]),
        np.nan_to_num(remaining_covariance[np.ix_(columns, columns)]),
    )
    confidence = fit.confidences[np.ix_(columns, columns)]
    draws = fit.draws(DRAWS)[:, columns]
    return AnchorSet(runs, anchors, query_ids, cluster, names, confidence, fit.degrees, draws)


def anchors_from_draws(
    runs: Mapping[str, Run], dataset: MirageDataset, logits: Floats, draws: Floats
) -> AnchorSet:
    """Return reference models (anchors) whose uncertainty is known only from draws of their logits.

    Args:
        runs: Responses of the anchors by name.
        dataset: Queries of the leaderboard.
        logits: Logits in the order of the runs.
        draws: Random draws of the logits, of shape ``(draws, anchors)``.
    """
    query_ids = dataset.query_ids
    cluster, names = _cluster_codes(dataset, query_ids)
    influence = np.zeros((len(names), len(logits)))
    covariance = np.atleast_2d(np.cov(draws.T)) if len(draws) > 1 else np.zeros((len(logits),) * 2)
    anchors, confidence = Anchors(logits, influence, covariance), confidences_by_draws(draws)
    return AnchorSet(runs, anchors, query_ids, cluster, names, confidence, np.inf, draws)


def _cluster_codes(
    dataset: MirageDataset, query_ids: Sequence[str]
) -> tuple[Ints, tuple[str, ...]]:
    """Return the index of each query's cluster, and the names of the clusters in this order."""
    clusters = clusters_of(dataset)
    names = dict.fromkeys(cluster_names(query_ids, clusters))
    return cluster_codes(query_ids, clusters), tuple(names)


# Judging ------------------------------------------------------------------------------------------


def pairs_for(
    dataset: MirageDataset, run: Run, runs: Mapping[str, Run], judgments: int | None, seed: int
) -> tuple[list[Pair], Sample, tuple[Skipped, ...]]:
    """Draw the pairs of responses that a judge compares.

    Each pair consists of a response of the model, and a response of an anchor to the same query.

    Args:
        dataset: Queries of the leaderboard.
        run: Responses of the model.
        runs: Responses of the anchors by name.
        judgments: Number of pairs; ``None`` for all.
        seed: Random seed of the choice of pairs.

    Returns:
        The pairs in the order of judging; the record of how they were drawn, with the probability
        of each pair; and the pairs that cannot be judged.
    """
    contest = Contest(dataset, [run, *runs.values()])
    all_pairs = [Pair(id_, run.model, name) for id_ in dataset.query_ids for name in runs]
    possible, skipped = contest.sort_out(all_pairs)
    can_be_judged = np.zeros((len(dataset), len(runs)), dtype=bool)
    rows, columns = _positions(dataset.query_ids), _positions(runs)
    for pair in possible:
        can_be_judged[rows[pair.query_id], columns[pair.model_b]] = True
    pair_sample = sample(
        can_be_judged, can_be_judged.size if judgments is None else judgments, seed=seed
    )
    swaps = np.random.default_rng([seed, 1]).random(can_be_judged.shape) < 0.5
    names = list(runs)
    pairs = []
    for query, anchor in zip(pair_sample.query.tolist(), pair_sample.anchor.tolist(), strict=True):
        pair = Pair(dataset.query_ids[query], run.model, names[anchor])
        pairs.append(pair.swapped if swaps[query, anchor] else pair)
    return pairs, pair_sample, skipped


def place_by_judge(
    settings: RankSettings,
    dataset: MirageDataset,
    run: Run,
    anchor_set: AnchorSet,
    predicted: Floats,
) -> JudgedPlacement:
    """Have the judge compare a model with reference models, and estimate its logit.

    Args:
        settings: Settings of the ranking, such as the judge and the stopping rule.
        dataset: Queries of the leaderboard.
        run: Responses of the model.
        anchor_set: The reference models (anchors).
        predicted: Predicted scores of the model against the anchors, of shape ``(queries,
            anchors)``.

    Returns:
        The logit of the model on the anchors' scale, with the votes of the judge.
    """
    pairs, _, skipped = pairs_for(dataset, run, anchor_set.runs, settings.judgments, settings.seed)
    rows, columns = _positions(anchor_set.query_ids), _positions(anchor_set.runs)
    # Queries on which the model failed are not judged, because a failure loses to any response.
    lost = np.zeros(predicted.shape, dtype=bool)
    unusable = np.isnan(predicted)
    failed_ids = {id_ for id_ in dataset.query_ids if not _answers(run, id_)}
    for query_id, _, anchor, _ in map(astuple, skipped):
        model_failed = query_id in failed_ids and _answers(anchor_set.runs[anchor], query_id)
        (lost if model_failed else unusable)[rows[query_id], columns[anchor]] = True
    predicted = np.where(unusable, np.nan, np.where(lost, 0.0, predicted))
    looks = _look_sizes(len(pairs)) if settings.stops else [len(pairs)]
    level = level_of_looks(LEVEL, looks)
    judged = Judged((), (), skipped)
    placement = None
    for start, end in zip([0, *looks], looks, strict=False):
        more = settings.pair_judge.judge(
            dataset,
            [run, *anchor_set.runs.values()],
            pairs[start:end],
            out=settings.out,
            progress=settings.progress,
        )
        judged = Judged(
            (*judged.votes, *more.votes), (*judged.judgments, *more.judgments), judged.skipped
        )
        _, pair_sample, _ = pairs_for(dataset, run, anchor_set.runs, end, settings.seed)
        verdicts = np.where(lost, 0.0, _verdicts(judged, run.model, rows, columns))
        probability = np.zeros(verdicts.shape)
        # Some votes fail, so a pair is less likely to have a verdict than it is to be sampled.
        vote_rate = np.count_nonzero(~np.isnan(verdicts) & ~lost) / end
        probability[: len(dataset)] = pair_sample.probability * vote_rate
        probability[lost] = 1.0
        placement = place(
            verdicts,
            predicted,
            probability,
            anchor_set.anchors,
            cluster=anchor_set.cluster,
            level=level,
        )
        if settings.stops and _can_stop(settings, placement, anchor_set, level):
            break
    assert placement is not None
    widened = _t_quantile(level, placement.degrees) / _t_quantile(LEVEL, placement.degrees)
    judgment_counts = placement.judgments - int(np.count_nonzero(lost)), end
    return JudgedPlacement(
        placement,
        judged,
        widened,
        (
            *_notes(run.model, placement, judgment_counts, len(looks), len(failed_ids)),
            *position_cautions(judged.votes),
        ),
    )


def _positions(names: Iterable[str]) -> dict[str, int]:
    """Return the index of each name."""
    return {name: position for position, name in enumerate(names)}


def _look_sizes(pairs: int) -> list[int]:
    """Return the numbers of judged pairs at which a stopping rule is checked, up to ``pairs``."""
    step = max(FEWEST, -(-pairs // LOOKS))
    return [*range(step, pairs, step), pairs]


def _verdicts(
    judged: Judged, model: str, rows: Mapping[str, int], columns: Mapping[str, int]
) -> Floats:
    """Return the model's score against each anchor on each query, averaged over judges.

    It is 1 for a win, 0.5 for a tie, 0 for a loss, and NaN if there is no verdict. ``rows`` and
    ``columns`` map query ids and names of anchors to indices.
    """
    total, count = np.zeros((2, len(rows), len(columns)))
    for judgment in judged:
        is_model_a = judgment.model_a == model
        other = judgment.model_b if is_model_a else judgment.model_a
        score = 0.5 if judgment.verdict == "tie" else float((judgment.verdict == "a") == is_model_a)
        total[rows[judgment.query_id], columns[other]] += score
        count[rows[judgment.query_id], columns[other]] += 1
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _can_stop(
    settings: RankSettings, placement: Placement, anchor_set: AnchorSet, level: float
) -> bool:
    """Return whether one of the stopping rules of the settings is met."""
    low, high = placement.interval
    if settings.until_width is not None and high - low <= settings.until_width:
        return True
    if settings.until_against is None or placement.clusters < FEWEST:
        return False
    other = list(anchor_set.runs).index(settings.until_against)
    p_better = joint_confidence(anchor_set, [JudgedPlacement(placement, Judged((), ()), 1.0)])[
        -1, other
    ]
    return bool(max(p_better, 1 - p_better) > (1 + level) / 2)


def _t_quantile(level: float, degrees: float) -> float:
    """Return the quantile of Student's t-distribution for a two-sided interval at a level."""
    from scipy.special import stdtrit

    return float(stdtrit(max(degrees, 1), (1 + level) / 2))


def _answers(run: Run, query_id: str) -> bool:
    """Return whether the run has a response without an error to the query."""
    response = run.get(query_id)
    return response is not None and response.error is None


def _notes(
    model: str, placement: Placement, judgment_counts: tuple[int, int], looks: int, failed: int
) -> Iterator[str]:
    """Yield notes on the placement of a model.

    Args:
        model: Name of the model.
        placement: The placement.
        judgment_counts: Numbers of judgments that were received and requested.
        looks: Largest number of times that the stopping rule is checked.
        failed: Number of queries on which the model failed.
    """
    received, requested = judgment_counts
    more = f" (of {requested} requested)" if received < requested else ""
    worth = (
        f"; with the surrogate's predictions, they are as precise as {placement.worth:.0f}"
        if placement.tuning > 0
        else ""
    )
    yield (
        f"{model} is placed by {received} judgments{more} on {placement.queries - failed} "
        f"queries{worth}"
    )
    if failed:
        yield f"{model}: {failed} queries without an answer count as lost to every anchor"
    if looks > 1:
        yield (
            f"{model}: the interval is wider because the stopping rule is checked up to {looks} "
            "times"
        )
    if placement.clusters < FEWEST:
        unit = "clusters of " * (placement.clusters < placement.queries)
        yield f"{model}: no interval, because fewer than {FEWEST} {unit}queries were judged"
    elif placement.open_variance:
        yield (
            f"{model}: all judgments went one way, so its distance from the others is not known, "
            "and its logit has no interval"
        )


# Results ------------------------------------------------------------------------------------------


def joint_confidence(anchor_set: AnchorSet, judged_placements: Sequence[JudgedPlacement]) -> Floats:
    """Return a matrix with the confidence that model i is better than model j, at ``[i, j]``.

    The models are the anchors, followed by the placed models.
    """
    count, placed = (
        len(anchor_set.anchors.logits),
        [_widened_placement(placement) for placement in judged_placements],
    )
    logits = np.array([*anchor_set.anchors.logits, *(placement.logit for placement in placed)])
    covariance = joint_covariance(anchor_set.anchors, placed)
    variances = np.diag(covariance)
    errors = np.sqrt(np.maximum(variances[:, None] + variances - 2 * covariance, 0))
    degrees_by_model = np.array(
        [anchor_set.degrees] * count + [placement.degrees for placement in placed], dtype=np.float64
    )
    degrees = np.minimum(degrees_by_model[:, None], degrees_by_model)
    p = p_better_by_t(logits[:, None] - logits, errors, degrees)
    p[:count, :count] = anchor_set.confidence
    np.fill_diagonal(p, 0.5)
    return p


def joint_draws(anchor_set: AnchorSet, judged_placements: Sequence[JudgedPlacement]) -> Floats:
    """Draw the logits of the anchors (reference models) and the placed models jointly.

    The result has the shape ``(draws, models)``. Rankings in several languages may have the same
    queries. Their draws then use the same random numbers for each query
    (:func:`mirage.statistics.clusters.multipliers`), as in
    :meth:`mirage.arena.BradleyTerryFit.draws`.
    """
    anchor_errors = anchor_set.draws - anchor_set.anchors.logits
    columns = [anchor_set.draws]
    cluster_multipliers = multipliers(anchor_set.clusters, len(anchor_errors), seed=0)
    for number, placement in enumerate(map(_widened_placement, judged_placements)):
        rng = np.random.default_rng([0, number])
        scale = np.sqrt(
            rng.chisquare(max(placement.degrees, 1), len(anchor_errors)) / max(placement.degrees, 1)
        )
        open_errors = rng.standard_normal(len(anchor_errors)) * np.sqrt(placement.open_variance)
        own_errors = (cluster_multipliers @ placement.errors + open_errors) / scale
        columns.append((placement.logit + anchor_errors @ placement.leverage + own_errors)[:, None])
    return np.concatenate(columns, axis=1)


def _widened_placement(judged: JudgedPlacement) -> Placement:
    """Return the placement with its errors multiplied by the factor that widened its interval."""
    return judged.placement._replace(
        errors=judged.placement.errors * judged.widened,
        open_variance=judged.placement.open_variance * judged.widened**2,
    )
