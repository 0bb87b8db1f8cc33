"""The uncertainty of mean logits over several languages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena.fits import BradleyTerryFit, influence_by_cluster
from mirage.ranking.ranking import Ranking
from mirage.statistics.clusters import small_sample
from mirage.statistics.rank_sets import error_draws

__all__ = ["mean_logit_errors"]


def mean_logit_errors(rankings: Sequence[Ranking], models: Sequence[str]) -> Floats | None:
    """Draw random errors of the mean logits over languages, of shape ``(draws, models)``.

    If all rankings come from judgments, the errors are drawn from the covariance of the mean
    logits. In this covariance, a query is one cluster even if it occurs in several languages.
    Otherwise the rankings' own draws are averaged over the languages. In each draw, a query has the
    same weight in all languages.

    Args:
        rankings: Ranking of each language.
        models: Models that all rankings contain.

    Returns:
        The errors; ``None`` if the uncertainty of a ranking is not known.
    """
    fits = [ranking.evidence.fit for ranking in rankings if ranking.evidence is not None]
    judged = [
        fit
        for fit in fits
        if fit is not None
        and fit.influence is not None
        and fit.degrees > 0
        and set(models) <= set(fit.models)
    ]
    if len(judged) == len(rankings):
        return error_draws(*_mean_uncertainty(judged, models))
    errors: list[Floats] = []
    for ranking in rankings:
        draws = ranking.drawn()
        if draws is None:
            return None
        logits = np.array([ranking[model].logit for model in models])
        errors.append(np.stack([draws[model] for model in models], axis=1) - logits)
    length = min(map(len, errors))
    return np.asarray(np.mean([error[:length] for error in errors], axis=0))


def _mean_uncertainty(
    fits: Sequence[BradleyTerryFit], models: Sequence[str]
) -> tuple[Floats, Floats]:
    """Return the covariance of the mean logits over languages, and their degrees of freedom.

    Languages that share queries form a group. Within a group, a query is one cluster. Groups are
    independent of each other, and their degrees of freedom are combined by the formula of Welch
    (1947), The Generalization of Student's Problem when Several Different Population Variances are
    Involved, Biometrika 34, 28-35. A model that has no degrees of freedom in a language has none.
    """
    total, variances, degrees = np.zeros((len(models),) * 2), [], []
    for group in _groups(fits):
        covariance = _group_covariance(group, models) / len(fits) ** 2
        clusters = np.concatenate([fit.clusters for fit in group])
        sizes: Ints = np.unique(clusters, return_counts=True)[1]
        total += covariance
        variances.append(float(np.trace(covariance)))
        # Adaptively chosen pairs have two fits, and each fit uses one degree of freedom.
        all_degrees = small_sample(sizes).degrees - max(fit.fits for fit in group) + 1
        degrees.append(max(all_degrees, 0.0) * _shares_of_degrees(group, models))
    known = np.min(degrees, axis=0) > 0
    if not sum(variances) > 0:
        return total, np.min(degrees, axis=0)
    by_group = zip(variances, degrees, strict=True)
    squares = np.sum([v**2 / np.where(known, d, 1.0) for v, d in by_group], axis=0)
    return total, np.where(known, sum(variances) ** 2 / squares, 0.0)


def _shares_of_degrees(fits: Sequence[BradleyTerryFit], models: Sequence[str]) -> Floats:
    """Return each model's degrees of freedom, divided by those of a model judged on all queries.

    The shares in several fits are combined by a harmonic mean, weighted by the variances of the
    logits. It is 0 if a model has no degrees of freedom in one of the fits.
    """
    columns = [[fit.models.index(model) for model in models] for fit in fits]
    shares = [f.degrees_by_model[c] / f.degrees for f, c in zip(fits, columns, strict=True)]
    weights = [np.diag(f.uncertainty)[c] + 1e-12 for f, c in zip(fits, columns, strict=True)]
    known = np.min(shares, axis=0) > 0
    inverse = np.average([1 / np.where(known, s, 1.0) for s in shares], axis=0, weights=weights)
    return np.where(known, 1 / inverse, 0.0)


def _groups(fits: Sequence[BradleyTerryFit]) -> list[list[BradleyTerryFit]]:
    """Return groups of fits that share clusters of queries, directly or through other fits."""
    groups: list[tuple[set[str], list[BradleyTerryFit]]] = []
    for fit in fits:
        names, members = set(fit.clusters), [fit]
        apart = []
        for other_names, other_members in groups:
            if names.isdisjoint(other_names):
                apart.append((other_names, other_members))
            else:
                names, members = names | other_names, other_members + members
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def _group_covariance(fits: Sequence[BradleyTerryFit], models: Sequence[str]) -> Floats:
    """Return the covariance of the sum of the logits of fits that share clusters of queries."""
    names = sorted({name for fit in fits for name in fit.clusters})
    row_of_cluster = {name: row for row, name in enumerate(names)}
    joint, covariance = np.zeros((len(names), len(models))), np.zeros((len(models),) * 2)
    for fit in fits:
        columns = [fit.models.index(model) for model in models]
        covariance += fit.uncertainty[np.ix_(columns, columns)]
        if fit.influence is not None and len(fits) > 1:
            influence = influence_by_cluster(fit.clusters, fit.influence[:, columns])
            joint[[row_of_cluster[name] for name in sorted(set(fit.clusters))]] += influence
            covariance -= influence.T @ influence
    return covariance + joint.T @ joint
