"""Results of Bradley-Terry fits: logits with intervals, from one fit or from tournaments.

A tournament is a fit to a bootstrap sample of the queries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Bools, Floats, Ints
from mirage._base.tables import RANKED, Table, frame_of, ranked_cells, to_text
from mirage.arena import estimation
from mirage.errors import UnknownNameError
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, draws_covariance, draws_degrees
from mirage.statistics.clusters import FEWEST, multipliers, small_sample
from mirage.statistics.rank_sets import (
    error_draws,
    first_model,
    rank_sets,
    t_scales,
    winner_interval,
)
from mirage.statistics.ranks import confidences_by_t, ranks, t_intervals

if TYPE_CHECKING:
    import pandas as pd

_CELLS = 1 << 18  # array elements of the win matrices of tournaments that are summed together
_MOSTLY = 0.5  # a model is unbound if it is separated in at least this share of tournaments
_MULTIPLIED = 4096  # clusters whose multipliers are in memory at a time


class _Estimate(NamedTuple):
    """Logits, their covariance and degrees of freedom, and the models without an interval."""

    logits: Floats
    covariance: Floats
    degrees: Floats
    unbound: tuple[str, ...]


class LogitEstimates(ABC):
    """Base class of estimated logits; it computes intervals and confidences from their covariance.

    Subclasses provide the logits and their covariance matrix.

    Attributes:
        models: Names of the models, in the order of the logits.
    """

    models: tuple[str, ...]

    @property
    @abstractmethod
    def _estimate(self) -> _Estimate:
        """The logits and their uncertainty."""

    def interval(self, *, level: float = 0.95) -> Floats:
        """Return the lower and upper end of each logit's interval, of shape ``(models, 2)``.

        The interval uses Student's t, the customary correction for few clusters (Cameron & Miller
        2015, A Practitioner's Guide to Cluster-Robust Inference, Journal of Human Resources 50,
        section VI.D). It is NaN if there is only one query, or if related queries form fewer than
        four clusters. It is also NaN for models that were judged on fewer than four queries
        although there are more, and for models whose logit the judgments do not bound
        (:attr:`BradleyTerryFit.unbound`).

        Args:
            level: Confidence level, above 0 and below 1.
        """
        logits, covariance, degrees, unbound = self._estimate
        ends = t_intervals(logits, covariance, degrees, level=level)
        ends[np.isin(self.models, unbound)] = np.nan
        return ends

    def rank_interval(self, *, level: float = 0.95) -> Ints:
        """Return the best and worst plausible rank of each model, of shape ``(models, 2)``.

        With confidence ``level``, these ranges jointly contain the true ranks of all models
        (:func:`mirage.statistics.rank_sets.rank_sets`).
        """
        return rank_sets(self._estimate.logits, self._errors, level=level)

    def winner_interval(self, *, level: float = 0.95) -> Interval:
        """Return an interval for the largest logit, corrected for its selection as the largest.

        A model that is selected because its logit is the largest tends to be overestimated; see
        :func:`mirage.statistics.rank_sets.winner_interval`. The result is NaN if the model with the
        largest logit has no :meth:`interval`.

        Args:
            level: Confidence level, above 0 and below 1.
        """
        logits, _, _, unbound = self._estimate
        if self.models[first_model(logits)] in unbound:
            return NO_INTERVAL
        return winner_interval(logits, self._errors, level=level)

    @property
    def _errors(self) -> Floats:
        """Random draws of the errors of the logits, of shape ``(draws, models)``."""
        logits, covariance, degrees, _ = self._estimate
        # Drawing in the order of the logits makes results independent of the models' names.
        order = np.argsort(logits)
        errors = error_draws(covariance[np.ix_(order, order)], degrees[order])
        return errors[:, np.argsort(order)]

    @property
    def confidences(self) -> Floats:
        """Confidence that model i is better than model j, at ``[i, j]``; see :meth:`p_better`."""
        return confidences_by_t(*self._estimate[:3])

    def p_better(self, a: str, b: str) -> float:
        """Return the confidence that a's logit is larger than b's.

        The confidence is one-sided and uses the same t distribution as the intervals. It includes
        the additional uncertainty of models that won or lost everything. It is 0.5 for a model
        against itself. Otherwise it is NaN if there is only one query, if related queries form
        fewer than four clusters, or if a model was judged on fewer than four queries although there
        are more.

        Args:
            a: Name of a model.
            b: Name of another model.
        """
        return float(self.confidences[_index(self.models, a), _index(self.models, b)])


@dataclass(frozen=True)
class ControlEffect:
    """The effect of a control variable, such as length, on verdicts between equally good models.

    It is an association and need not be causal.

    Attributes:
        name: Name of the control.
        value: Change in the log-odds of winning per unit of the control.
        interval: 95 % interval, computed as for logits; NaN if there is only one query, or if
            related queries form fewer than four clusters.
        caution: Reason why the controlled quantity may itself make an answer better; empty if there
            is none.
    """

    name: str
    value: float
    interval: Interval
    caution: str

    def __str__(self) -> str:
        low, high = self.interval
        why = f" The control may remove quality: {self.caution}." if self.caution else ""
        return (
            f"Controlled for {self.name}, which is associated with {self.value:+.2f} log-odds of "
            f"winning (95 % interval {low:.2f} to {high:.2f}).{why}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class BradleyTerryFit(LogitEstimates):
    """Logits of models, fitted to judgments; prints as a table.

    Use :meth:`mirage.Ranking.from_judgments` for a ranking that also warns about weak evidence.

    Attributes:
        models: Model names. All arrays list the models in this order.
        logits: Natural-log odds that sum to 0, of shape ``(models,)``.
        covariance: Covariance of the logits, of shape ``(models, models)``. It is the sandwich
            estimate (:func:`mirage.arena.estimation.sandwich`), whose clusters are the queries or,
            if queries are related, the clusters of queries. NaN if there is only one cluster.
        queries: Number of queries with judgments.
        separated: Models that won or lost every judgment. Only the ridge keeps their logits finite,
            so the size of these logits has little meaning.
        log_nu: Log of Davidson's tie parameter; ``None`` unless ``ties="davidson"``.
        unbound: Models whose distance from the other models has no finite estimate, because all
            judgments between the two sides went the same way. They are the models outside of the
            largest group of :func:`mirage.arena.estimation.bound_groups`, and include the separated
            models.
        uncertainty: The covariance plus the uncertainty of these distances
            (:func:`mirage.arena.estimation.separation_covariance`).
        query_ids: Ids of the queries with judgments.
        clusters: Cluster name of each of these queries; a query without a cluster is a cluster by
            itself.
        degrees: Degrees of freedom of Student's t: the number of clusters minus the number of fits,
            and fewer if clusters differ in size (:func:`mirage.statistics.clusters.small_sample`).
            It is 0 if related queries form fewer than :data:`mirage.statistics.clusters.FEWEST`
            clusters; intervals and confidences are then NaN.
        degrees_by_model: Degrees of freedom of each logit. They are below :attr:`degrees` if the
            model was judged on fewer queries than other models, and 0 if these are too few for an
            interval.
        influence: First-order influence of each query's judgments on the logits, of shape
            ``(queries, models)`` (:func:`mirage.arena.estimation.influences`); ``None`` if the
            array would be too large.
        fits: Number of fits over which logits are averaged: two (one per half of the queries) if
            pairs were chosen adaptively, else one.
        effects: Effect of each control; empty without controls.
        uncontrolled: The fit without controls; ``None`` if this fit has none.
    """

    models: tuple[str, ...]
    logits: Floats
    covariance: Floats
    queries: int
    separated: tuple[str, ...]
    log_nu: float | None
    unbound: tuple[str, ...]
    uncertainty: Floats
    query_ids: tuple[str, ...]
    clusters: tuple[str, ...]
    degrees: float
    influence: Floats | None
    degrees_by_model: Floats
    fits: int = 1
    effects: tuple[ControlEffect, ...] = ()
    uncontrolled: BradleyTerryFit | None = None

    def __repr__(self) -> str:
        return f"BradleyTerryFit(models={len(self.models)}, queries={self.queries})"

    def __str__(self) -> str:
        title = f"Bradley-Terry: {len(self.models)} models on {self.queries} queries"
        return to_text(_table(title, self.models, self.logits, self.interval(), self.unbound))

    @property
    def _estimate(self) -> _Estimate:
        return _Estimate(self.logits, self.uncertainty, self.degrees_by_model, self.unbound)

    @property
    def ranks(self) -> Ints:
        """Rank of each model, 1 for the largest logit; equal logits share the better rank."""
        return ranks(self.logits)

    def draws(self, n: int, *, seed: int = 0) -> Floats:
        """Draw logits from Student's t with the covariance :attr:`uncertainty`.

        The random numbers of a query depend only on its cluster and the seed. Two fits to
        judgments on the same queries, for instance in two languages, can therefore be compared
        draw by draw: a query has the same random weight in both
        (:func:`mirage.statistics.clusters.multipliers`).

        Args:
            n: Number of draws.
            seed: Random seed.

        Returns:
            The logits, of shape ``(n, models)``; NaN if :attr:`degrees` is 0.
        """
        if not self.degrees:
            return np.full((n, len(self.models)), np.nan)
        rng = np.random.default_rng(seed)
        known = np.where(self.degrees_by_model > 0, self.degrees_by_model, self.degrees)
        scale = t_scales(known, n, rng)
        errors, rest_of_covariance = np.zeros((n, len(self.logits))), self.uncertainty
        if self.influence is not None:
            names, moves = (
                np.unique(self.clusters),
                influence_by_cluster(self.clusters, self.influence),
            )
            for start in range(0, len(names), _MULTIPLIED):
                block = slice(start, start + _MULTIPLIED)
                errors += multipliers(names[block].tolist(), n, seed=seed) @ moves[block]
            # The remaining covariance is due to the ridge and to distances without a finite
            # estimate.
            rest_of_covariance = rest_of_covariance - moves.T @ moves
        values, vectors = np.linalg.eigh(rest_of_covariance)
        normal = rng.standard_normal((n, len(values))) * np.sqrt(np.maximum(values, 0))
        errors += normal @ vectors.T
        return np.asarray(self.logits + errors / scale)

    def win_probability(self, a: str, b: str) -> float:
        """Return the probability that a is preferred to b on a query; a tie is half a win."""
        pair = [_index(self.models, a), _index(self.models, b)]
        return float(estimation.win_probabilities(self.logits[pair], self.log_nu)[0, 1])

    @property
    def win_matrix(self) -> Floats:
        """Probability that model i is preferred to model j on a query, at ``[i, j]``.

        The array has the shape ``(models, models)``. A tie counts half for each model, and the
        diagonal is 0.5.
        """
        return estimation.win_probabilities(self.logits, self.log_nu)

    def to_pandas(self, *, level: float = 0.95) -> pd.DataFrame:
        """Return a DataFrame indexed by model, best first.

        Columns: logit, lower, upper, rank, and separated (whether the model won or lost every
        judgment). ``lower`` and ``upper`` are the ends of :meth:`interval`.

        Args:
            level: Confidence level, above 0 and below 1.
        """
        ends = self.interval(level=level)
        columns = {
            "model": self.models,
            "logit": self.logits,
            "lower": ends[:, 0],
            "upper": ends[:, 1],
            "rank": self.ranks,
            "separated": np.isin(self.models, self.separated),
        }
        frame = frame_of(columns).set_index("model")
        return frame.sort_values("logit", ascending=False, kind="stable")


@dataclass(frozen=True, eq=False, repr=False)
class Tournaments(LogitEstimates):
    """Logits of models in many tournaments (bootstrap samples of the queries); prints as a table.

    Intervals are centred on the :attr:`mean` and use its :attr:`covariance`. Percentiles of the
    tournaments would give intervals that are too narrow with few queries, and too wide if fewer
    queries are drawn than were judged (``validation/coverage/intervals.py``).

    Attributes:
        models: Model names. All arrays list the models in this order.
        query_ids: Ids of the queries that could be drawn, which are those with usable judgments.
        counts: How often each tournament drew each query, as int32 of shape ``(tournaments,
            queries)``.
        logits: Natural-log odds, of shape ``(tournaments, models)``; each row sums to 0.
        separated: Whether a model won every judgment, lost every judgment or had none in a
            tournament, as bool of shape ``(tournaments, models)``. Only the ridge keeps such a
            logit finite.
        log_nu: Log of Davidson's tie parameter, of shape ``(tournaments,)``; ``None`` unless
            ``ties="davidson"``.
        clusters: Cluster of each query if whole clusters were drawn; empty if single queries were
            drawn.
        degrees_by_model: Degrees of freedom of each logit, as in
            :attr:`BradleyTerryFit.degrees_by_model`; ``None`` if all have :attr:`degrees`.
    """

    models: tuple[str, ...]
    query_ids: tuple[str, ...]
    counts: NDArray[np.int32]
    logits: Floats
    separated: NDArray[np.bool_]
    log_nu: Floats | None = None
    clusters: tuple[str, ...] = ()
    degrees_by_model: Floats | None = None

    def __len__(self) -> int:
        return len(self.logits)

    def __repr__(self) -> str:
        return f"Tournaments({len(self)}, models={len(self.models)}, queries={len(self.query_ids)})"

    def __str__(self) -> str:
        title = f"{len(self)} tournaments: {len(self.models)} models, {len(self.query_ids)} queries"
        ends, spans = self.interval(), self.rank_interval().tolist()
        return to_text(_table(title, self.models, self.mean, ends, self.unbound, spans))

    @property
    def _estimate(self) -> _Estimate:
        return _Estimate(self.mean, self.covariance, self._degrees_by_model, self.unbound)

    @property
    def _degrees_by_model(self) -> Floats:
        """Degrees of freedom of each logit, of shape ``(models,)``."""
        most = np.full(len(self.models), self.degrees)
        return most if self.degrees_by_model is None else np.minimum(self.degrees_by_model, most)

    @property
    def mean(self) -> Floats:
        """Mean logit of each model over the tournaments, of shape ``(models,)``."""
        mean: Floats = self.logits.mean(axis=0)
        return mean

    @property
    def ranks(self) -> Ints:
        """Rank of each model in each tournament, of shape ``(tournaments, models)``.

        1 is the largest logit; equal logits share the better rank.
        """
        return ranks(self.logits)

    @property
    def covariance(self) -> Floats:
        """Covariance of the mean logits, of shape ``(models, models)``; NaN for a single query.

        If each tournament draws fewer queries than were judged, the logits vary too much from one
        tournament to the next. The covariance is corrected for this; see
        :func:`mirage.statistics.bootstrap.draws_covariance`. It is also corrected for models that
        were judged on few of the queries.
        """
        covariance = draws_covariance(self.logits, self.counts, self.clusters)
        degrees = self._degrees_by_model
        few = (degrees > 0) & (degrees < self.degrees)
        if not few.any():
            return covariance
        factors = np.ones(len(degrees))
        factors[few] = (1 + 1 / degrees[few]) / (1 + 1 / self.degrees)
        return np.asarray(covariance * np.sqrt(np.outer(factors, factors)))

    @property
    def degrees(self) -> float:
        """Degrees of freedom of Student's t; see :attr:`BradleyTerryFit.degrees`."""
        if self.clusters and len(set(self.clusters)) < FEWEST:
            return 0.0
        return draws_degrees(self.counts, self.clusters)

    @property
    def unbound(self) -> tuple[str, ...]:
        """Models that are separated in at least half of the tournaments.

        A model is separated if it won every judgment, lost every judgment or had none. The logits
        of these models are not reliable.
        """
        return pick_models(self.models, self.separated.mean(axis=0) >= _MOSTLY)

    @property
    def win_matrix(self) -> Floats:
        """Probability that model i is preferred to j on a query, of shape ``(models, models)``.

        It is the mean over the tournaments. A tie counts half for each model, and the diagonal is
        0.5.
        """
        total = np.zeros((len(self.models), len(self.models)))
        size = max(1, _CELLS // total.size)
        for rows in (slice(start, start + size) for start in range(0, len(self), size)):
            nu = None if self.log_nu is None else self.log_nu[rows]
            total += estimation.win_probabilities(self.logits[rows], nu).sum(axis=0)
        return total / len(self)

    def to_pandas(self, *, level: float = 0.95) -> pd.DataFrame:
        """Return a DataFrame indexed by model, best mean logit first.

        Columns: logit (the mean), lower, upper, rank (of the mean), rank_best, rank_worst, and
        separated (the share of tournaments in which the model won every judgment, lost every
        judgment or had none). ``lower`` and ``upper`` are the ends of :meth:`interval`.

        Args:
            level: Confidence level, above 0 and below 1.
        """
        ends, rank_ends = self.interval(level=level), self.rank_interval(level=level)
        columns = {
            "model": self.models,
            "logit": self.mean,
            "lower": ends[:, 0],
            "upper": ends[:, 1],
            "rank": ranks(self.mean),
            "rank_best": rank_ends[:, 0],
            "rank_worst": rank_ends[:, 1],
            "separated": self.separated.mean(axis=0),
        }
        frame = frame_of(columns).set_index("model")
        return frame.sort_values("logit", ascending=False, kind="stable")


def degrees_of_fits(clusters: Sequence[str], fits: int = 1) -> float:
    """Return the degrees of freedom of logits that are the mean of ``fits`` fits.

    The result is 0 if some queries share a cluster and there are fewer than :data:`FEWEST
    <mirage.statistics.clusters.FEWEST>` clusters. ``clusters`` has the cluster of each query.
    """
    sizes = np.unique(clusters, return_counts=True)[1]
    if len(sizes) < FEWEST and len(sizes) < len(clusters):
        return 0.0
    return max(small_sample(sizes).degrees - (fits - 1), 0.0)


def influence_by_cluster(clusters: Sequence[str], influence: Floats) -> Floats:
    """Return the influence of each query cluster's judgments on the logits.

    The result has the shape ``(clusters, models)``, with clusters sorted by name. It includes the
    small-sample correction: the sum of the outer products of the rows is the covariance of the
    logits, apart from the ridge.

    Args:
        clusters: Cluster name of each query.
        influence: Influence of each query's judgments on the logits, of shape ``(queries,
            models)``.
    """
    _, code, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(code, column) for column in influence.T], axis=1)
    return np.asarray(sums * np.sqrt(small_sample(sizes).factors)[:, None])


def mean_of_fits(fits: Sequence[BradleyTerryFit]) -> BradleyTerryFit:
    """Combine fits to judgments on different queries; the resulting logits are means over fits."""
    influences = [fit.influence for fit in fits if fit.influence is not None]
    nus = [fit.log_nu for fit in fits if fit.log_nu is not None]
    clusters = tuple(name for fit in fits for name in fit.clusters)
    influence = np.concatenate(influences) / len(fits) if len(influences) == len(fits) else None
    covariance = np.sum([fit.covariance for fit in fits], axis=0) / len(fits) ** 2
    uncertainty = np.sum([fit.uncertainty for fit in fits], axis=0) / len(fits) ** 2
    # A cluster with queries in several fits makes their errors correlated.
    if influence is not None and len(set(clusters)) < sum(len(set(fit.clusters)) for fit in fits):
        joint_gram = _cluster_gram(clusters, influence)
        separate_gram = sum(
            _cluster_gram(fit.clusters, part / len(fits))
            for fit, part in zip(fits, influences, strict=True)
        )
        covariance, uncertainty = (
            covariance + joint_gram - separate_gram,
            uncertainty + joint_gram - separate_gram,
        )
    degrees = degrees_of_fits(clusters, len(fits))
    return BradleyTerryFit(
        models=fits[0].models,
        logits=np.mean([fit.logits for fit in fits], axis=0),
        covariance=covariance,
        queries=sum(fit.queries for fit in fits),
        separated=_union(fit.separated for fit in fits),
        log_nu=float(np.mean(nus)) if nus else None,
        unbound=_union(fit.unbound for fit in fits),
        uncertainty=uncertainty,
        query_ids=tuple(query_id for fit in fits for query_id in fit.query_ids),
        clusters=clusters,
        degrees=degrees,
        influence=influence,
        degrees_by_model=np.minimum(_degrees_of_means(fits), degrees),
        fits=len(fits),
    )


def _degrees_of_means(fits: Sequence[BradleyTerryFit]) -> Floats:
    """Return the degrees of freedom of the mean logit of each model over independent fits.

    The formula is that of Welch (1947), The Generalization of Student's Problem when Several
    Different Population Variances are Involved, Biometrika 34, 28-35. The result is 0 if a fit has
    no degrees of freedom.
    """
    variances = np.array([np.diag(fit.uncertainty) for fit in fits])
    degrees = np.array([fit.degrees_by_model for fit in fits])
    # Fits that judge the same pairs on every query have equal variances, apart from chance.
    if all((row == row[0]).all() for row in degrees):
        return np.asarray(degrees.sum(axis=0) * (degrees > 0).all(axis=0))
    known: Bools = (np.minimum(degrees, variances) > 0).all(axis=0)
    # The variance of a model that won everything is huge, so shares are squared instead.
    totals = variances.sum(axis=0)
    shares = np.divide(variances, totals, out=np.zeros(variances.shape), where=totals > 0)
    inverse = (np.square(shares) / np.where(known, degrees, 1.0)).sum(axis=0)
    return np.asarray(np.divide(1.0, inverse, out=np.zeros(len(inverse)), where=known))


def _cluster_gram(clusters: Sequence[str], influence: Floats) -> Floats:
    """Return the sum over clusters of the outer product of a cluster's influence with itself.

    ``clusters`` has the cluster of each query, and ``influence`` one row per query.
    """
    code = np.unique(clusters, return_inverse=True)[1]
    cluster_influence = np.stack([np.bincount(code, column) for column in influence.T], axis=1)
    return np.asarray(cluster_influence.T @ cluster_influence)


def mean_of_tournaments(parts: Sequence[Tournaments]) -> Tournaments:
    """Combine the tournaments of several parts of the judgments.

    The resulting logits are means over the parts, which have no query in common.
    """
    if len(parts) == 1:
        return parts[0]
    nus = [part.log_nu for part in parts if part.log_nu is not None]
    return Tournaments(
        models=parts[0].models,
        query_ids=tuple(query_id for part in parts for query_id in part.query_ids),
        counts=np.concatenate([part.counts for part in parts], axis=1),
        logits=np.mean([part.logits for part in parts], axis=0),
        separated=np.any([part.separated for part in parts], axis=0),
        log_nu=np.mean(nus, axis=0) if nus else None,
        clusters=tuple(name for part in parts for name in part.clusters or part.query_ids)
        if any(part.clusters for part in parts)
        else (),
    )


def _union(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the sorted union of several groups of names."""
    return tuple(sorted({name for group in names for name in group}))


def _table(
    title: str,
    models: Sequence[str],
    logits: Floats,
    ends: Floats,
    unbound: Sequence[str],
    spans: Sequence[Sequence[int]] | None = None,
) -> Table:
    rows = [
        ranked_cells(
            int(rank),
            models[i],
            logits[i],
            NO_INTERVAL if models[i] in unbound else ends[i],
            None if spans is None else spans[i],
        )
        for i, rank in enumerate(ranks(logits))
    ]
    rows.sort(key=lambda row: (int(row[0]), row[1]))
    notes = [f"No interval, because all judgments on some pairs went one way: {', '.join(unbound)}"]
    return Table(title, RANKED, tuple(rows), notes=tuple(notes if unbound else ())).filled()


def _index(models: tuple[str, ...], model: str) -> int:
    if model not in models:
        raise UnknownNameError("model", model, models)
    return models.index(model)


def pick_models(models: Sequence[str], chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    """Return the names of the models for which ``chosen`` is true."""
    return tuple(models[i] for i in np.flatnonzero(chosen).tolist())
