"""Ranking entries of judged models, with intervals from Student's t or from tournaments.

A tournament is a fit of the logits to a bootstrap sample of the queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mirage._base.arrays import Floats, Ints
from mirage.arena.fits import BradleyTerryFit, Tournaments
from mirage.dataset import Cluster, MirageDataset, clusters_of
from mirage.errors import SettingError
from mirage.models import Run
from mirage.ranking.entries import Entry
from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.ranks import ranks

__all__ = [
    "clusters_by_query",
    "confidence_by_name",
    "estimates_by_t",
    "estimates_by_tournaments",
    "judged_entries",
]


class Estimates(NamedTuple):
    """Logits with their intervals, rank intervals and confidences.

    Attributes:
        logits: Logits in the order of the models of the fit.
        ends: Lower and upper end of the interval of each logit.
        rank_ends: Best and worst plausible rank of each model.
        winner: Interval of the largest logit, corrected for its selection as the largest.
        confidence: Confidence that model a is better than model b, as ``confidence[a][b]``.
    """

    logits: Floats
    ends: Floats
    rank_ends: Ints
    winner: Interval
    confidence: Mapping[str, Mapping[str, float]]


def clusters_by_query(dataset: MirageDataset | None, cluster: Cluster) -> Mapping[str, str]:
    """Return the name of the cluster of each query, by query id.

    Queries that belong to no cluster are left out.

    Raises:
        SettingError: There is no dataset, but ``cluster`` is a key or function of the queries.
    """
    if dataset is not None:
        return clusters_of(dataset, cluster)
    if cluster is None or isinstance(cluster, Mapping):
        return cluster or {}
    raise SettingError(
        "cluster= refers to a key or function of the queries, but no queries were passed; pass "
        "them as dataset=, or pass cluster= as a mapping from query id to cluster"
    )


def estimates_by_t(fit: BradleyTerryFit | Tournaments, logits: Floats, level: float) -> Estimates:
    """Return ``logits`` with intervals, and the confidence that each model beats each other one.

    Both are computed from Student's t distribution.

    Args:
        fit: Fit with the standard errors and the degrees of freedom.
        logits: Logits in the order of ``fit.models``.
        level: Confidence level of the intervals.
    """
    ends, rank_ends = fit.interval(level=level), fit.rank_interval(level=level)
    return Estimates(
        logits, ends, rank_ends, fit.winner_interval(level=level), confidence_by_name(fit)
    )


def confidence_by_name(fit: BradleyTerryFit | Tournaments) -> dict[str, dict[str, float]]:
    """Return the confidence that model a is better than model b, as ``confidence[a][b]``."""
    rows = zip(fit.models, fit.confidences.tolist(), strict=True)
    return {model: dict(zip(fit.models, row, strict=True)) for model, row in rows}


def estimates_by_tournaments(
    tournaments: Tournaments, fit: BradleyTerryFit, level: float
) -> Estimates:
    """Return the mean logits of tournaments (fits to bootstrap samples), with their uncertainty.

    If some models are unbound (they won or lost everything), or were judged on too few queries for
    an interval, intervals and confidences are computed from ``fit``, the fit to all judgments,
    instead. An unbound model wins or loses every tournament, so its rank would look certain. The
    intervals of the other models would be too narrow, because all logits are relative to a mean
    that includes it.
    """
    mean = tournaments.mean
    unknown = fit.unbound or not fit.degrees_by_model.all()
    return estimates_by_t(replace(fit, logits=mean) if unknown else tournaments, mean, level)


def judged_entries(
    fit: BradleyTerryFit,
    estimates: Estimates,
    without_interval: Sequence[str],
    answers: Mapping[str, Run],
) -> Iterator[Entry]:
    """Yield the ranking entry of each judged model, with its logit and interval from ``estimates``.

    ``without_interval`` names the models whose logits get no interval. ``answers`` maps model names
    to runs; without its run, a model's failures are not listed.
    """
    uncontrolled_logits = (
        fit.uncontrolled.logits.tolist() if fit.uncontrolled else [None] * len(fit.models)
    )
    rank_numbers, rank_ends = ranks(estimates.logits).tolist(), estimates.rank_ends.tolist()
    for i, (model, logit, (low, high)) in enumerate(
        zip(fit.models, estimates.logits.tolist(), estimates.ends.tolist(), strict=True)
    ):
        run = answers.get(model)
        failures = {} if run is None else {r.query_id: r.error or "" for r in run.failed}
        yield Entry(
            rank_numbers[i],
            model,
            logit,
            NO_INTERVAL if model in without_interval else (low, high),
            (rank_ends[i][0], rank_ends[i][1]),
            answered=None if run is None else len(run) - len(failures),
            failures=failures,
            uncontrolled=uncontrolled_logits[i],
        )
