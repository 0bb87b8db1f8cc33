"""Bradley-Terry fits with intervals, by maximum likelihood or by a bootstrap over queries.

A fit to one bootstrap sample of the queries is called a tournament, as in MIRAGE-Bench.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage._base.near_names import NearNames
from mirage._base.progress import progress_bar
from mirage.arena import estimation
from mirage.arena._controlled import with_controls
from mirage.arena._leverage import Corrected, correct
from mirage.arena.controls import Control
from mirage.arena.fits import (
    BradleyTerryFit,
    ControlEffect,
    Tournaments,
    degrees_of_fits,
    mean_of_fits,
    mean_of_tournaments,
    pick_models,
)
from mirage.arena.judgments import Judgments, JudgmentsLike, as_judgments
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.statistics.bootstrap import (
    draw_clusters,
    draw_queries,
)
from mirage.statistics.clusters import cluster_names, small_sample
from mirage.statistics.ranks import (
    t_intervals,
)

Ties = Literal["half", "drop", "davidson"]

MOST_MODELS = 1000
"""Largest number of models in a fit, because the covariance matrix grows with its square."""

_CELLS = 1 << 18  # array elements of the win matrices of tournaments that are fitted together
_DENSE = 1 << 23  # array elements of all queries' win matrices; above it, judgments are counted


@dataclass(frozen=True)
class BradleyTerry(NearNames):
    """The Bradley-Terry model: P(a is preferred to b) = 1 / (1 + exp(logit_b - logit_a)).

    Formulas and sources are in :mod:`mirage.arena.estimation`, as functions on arrays.

    Args:
        ties: ``"half"`` counts a tie as half a win for each; ``"drop"`` leaves ties out, as the
            code of MIRAGE-Bench does; ``"davidson"`` models the probability of a tie (Davidson
            1970), with one parameter for all pairs.
        ridge: Strength of an L2 penalty that limits the logits of models that won or lost
            everything. Its unit is judgments: a ridge of r pulls each logit towards the mean as
            strongly as r tied judgments against a model at the mean would. The default of 0.1 moves
            the logits of ordinary models by about 0.1 % if each has 100 judgments, and by less if
            there are more. A model that won 1,800 of 1,800 judgments gets a logit about 9 above the
            mean. 0 is plain maximum likelihood.
        controls: Influences on verdicts other than quality, such as
            :func:`mirage.arena.controls.length`. Logits are then estimated for answers with equal
            controls, such as equal length, and the fit also contains the logits without controls.
            The effect of a control is an association. If the control is part of what makes answers
            better, controlling for it removes quality from the logits.

    Example:
        >>> from mirage import BradleyTerry, Judgments
        >>> judgments = Judgments.from_arrays(
        ...     query=["q1", "q2", "q3", "q4"],
        ...     model_a=["x"] * 4,
        ...     model_b=["y"] * 4,
        ...     verdict=["a", "a", "a", "b"],
        ... )
        >>> fit = BradleyTerry().fit(judgments)
        >>> round(fit.win_probability("x", "y"), 2)
        0.75
    """

    ties: Ties = "half"
    ridge: float = 0.1
    controls: Sequence[Control] = ()

    def __post_init__(self) -> None:
        if self.controls and self.ties == "davidson":
            raise SettingError("controls need ties='half' or ties='drop', not ties='davidson'")
        if self.ties not in get_args(Ties):
            raise UnknownNameError("treatment of ties", self.ties, get_args(Ties))
        if not 0 <= self.ridge < np.inf:
            raise SettingError(f"ridge must be a finite number of at least 0, got {self.ridge}")

    def fit(
        self, judgments: JudgmentsLike, *, clusters: Mapping[str, str] = MappingProxyType({})
    ) -> BradleyTerryFit:
        """Fit the logits of all models to all judgments, with cluster-robust covariance.

        If pairs were chosen adaptively (:attr:`Judgments.halves`), each half of the queries is
        fitted separately, and logits are the means of both fits. The pairs of each half were chosen
        by the verdicts on the other half, so no verdict influenced the choice of pairs in its own
        half. A single fit to all of these judgments would exaggerate logits by a factor of 1.2 to
        2, and its 95 % intervals would contain the true logit in only 70 to 90 % of cases
        (``validation/coverage/adaptive_intervals.py``).

        Args:
            judgments: Columns, records, or a pandas DataFrame as for :meth:`Judgments.from_pandas`.
            clusters: Cluster name by query id; see :attr:`Query.cluster <mirage.Query>`. A query
                that is not listed is a cluster by itself.

        Returns:
            The logits with their covariance, which print as a table.

        Raises:
            JudgmentError: All judgments are ties and ``ties="drop"`` leaves none; the models fall
                into groups that were never compared with each other (in all judgments, or in one
                half of the queries); or, without a ridge, some models won or lost everything. The
                message lists the models.
        """
        if self.controls:
            return self._fit_with_controls(judgments, clusters)
        columns = self._judgments_to_fit(judgments)
        halves = _halves(columns)
        if len(halves) > 1:
            return mean_of_fits([self._fit(half, clusters, where) for where, half in halves])
        return self._fit(columns, clusters)

    def _fit_with_controls(
        self, judgments: JudgmentsLike, clusters: Mapping[str, str]
    ) -> BradleyTerryFit:
        """Return the fit with controls, which contains the fit without controls."""
        if hasattr(judgments, "columns"):
            judgments = as_judgments(judgments)
        all_records = (
            judgments.to_records() if isinstance(judgments, Judgments) else list(judgments)
        )
        records = [
            record for record in all_records if self.ties != "drop" or record.verdict != "tie"
        ]
        uncontrolled = replace(self, controls=()).fit(records, clusters=clusters)
        if uncontrolled.fits > 1:
            raise JudgmentError(
                "controls do not support adaptively chosen pairs, because the choice of pairs "
                "depends on the verdicts; fit without controls"
            )
        columns = as_judgments(records)
        values = np.array([[control.of(record) for control in self.controls] for record in records])
        names = [control.name for control in self.controls]
        controlled = with_controls(
            _with_clusters_as_queries(columns, clusters), values, names, self.ridge
        )
        models = len(columns.models)
        covariance = controlled.covariance[:models, :models]
        ends = t_intervals(
            controlled.effects, controlled.covariance[models:, models:], uncontrolled.degrees
        )
        effects = tuple(
            ControlEffect(control.name, float(value), (float(low), float(high)), control.caution)
            for control, value, (low, high) in zip(
                self.controls, controlled.effects, ends, strict=True
            )
        )
        return replace(
            uncontrolled,
            logits=controlled.logits,
            covariance=covariance,
            uncertainty=covariance + uncontrolled.uncertainty - uncontrolled.covariance,
            influence=None,
            effects=effects,
            uncontrolled=uncontrolled,
        )

    def _fit(
        self, columns: Judgments, clusters: Mapping[str, str], where: str = ""
    ) -> BradleyTerryFit:
        """Return the fit to these judgments; error messages begin with the text ``where``."""
        wins = estimation.win_matrix(columns.a, columns.b, columns.score, len(columns.models))
        tied = int(np.count_nonzero(columns.score == 0.5))
        self._check(wins, tied, columns, where)
        logits, log_nu = self._solve(wins, np.float64(tied))
        nu = None if log_nu is None else float(log_nu)
        present = np.flatnonzero(np.bincount(columns.query, minlength=len(columns.query_ids)))
        cluster_by_query = cluster_names((columns.query_ids[i] for i in present.tolist()), clusters)
        _, code, sizes = np.unique(cluster_by_query, return_inverse=True, return_counts=True)
        correction = small_sample(sizes)
        cluster_code = np.zeros(len(columns.query_ids), dtype=np.intp)
        cluster_code[present] = code
        row_arguments = (
            cluster_code[columns.query],
            columns.a,
            columns.b,
            columns.score,
            self.ridge,
            nu,
        )
        covariance = estimation.sandwich(wins, logits, *row_arguments, factors=correction.factors)
        groups = estimation.bound_groups(wins)
        unbound = _outside_largest_group(groups, len(wins))
        information = estimation.information(wins, logits, self.ridge, nu)
        degrees = degrees_of_fits(cluster_by_query)
        corrected = correct(
            columns,
            wins,
            logits,
            cluster_code,
            Corrected(covariance, np.full(len(wins), degrees)),
            unbound,
            ridge=self.ridge,
            log_nu=nu,
        )
        influence = None
        if len(present) * len(wins) <= _DENSE:
            influence = estimation.influences(wins, logits, columns.query, *row_arguments[1:])
        return BradleyTerryFit(
            models=columns.models,
            logits=logits,
            covariance=covariance,
            queries=len(present),
            separated=pick_models(columns.models, estimation.separated(wins)),
            log_nu=nu,
            unbound=pick_models(columns.models, unbound),
            uncertainty=corrected.covariance
            + estimation.separation_covariance(information, groups),
            query_ids=tuple(columns.query_ids[i] for i in present.tolist()),
            clusters=tuple(cluster_by_query),
            degrees=degrees,
            influence=influence,
            degrees_by_model=corrected.degrees,
        )

    def bootstrap(
        self,
        judgments: JudgmentsLike,
        *,
        tournaments: int = 200,
        queries: int | None = 100,
        clusters: Mapping[str, str] = MappingProxyType({}),
        seed: int = 0,
        progress: bool = True,
    ) -> Tournaments:
        """Fit the logits in many tournaments, that is, to bootstrap samples of the queries.

        As in the paper (MIRAGE-Bench, arXiv 2410.13716), a tournament draws ``queries`` of the
        judged queries with replacement ("a maximum of 100" in the paper). Every judgment on a query
        counts as often as the query was drawn. A tournament never draws more queries than were
        judged, because that would overstate the evidence. All tournaments are fitted together.

        A model may win or lose everything in a tournament, or may not be compared at all. Only the
        ridge then bounds its logit in this tournament, and :attr:`Tournaments.separated` marks the
        model.

        Args:
            judgments: Judgments, as for :meth:`fit`.
            tournaments: Number of tournaments.
            queries: Largest number of queries to draw in a tournament; ``None`` for as many as were
                judged.
            clusters: Cluster name by query id, as for :meth:`fit`. If it is given, whole clusters
                of queries are drawn, so the number of queries varies.
            seed: Random seed.
            progress: Show a progress bar on stderr, if stderr is a terminal.

        Returns:
            The tournaments, which print as a table.

        Raises:
            JudgmentError: As for :meth:`fit`, for all judgments together; without a ridge, also if
                a single tournament has no finite logits.
            SettingError: ``tournaments`` or ``queries`` is below 1, or the model has controls.

        Example:
            >>> from mirage import BradleyTerry, Judgments
            >>> judgments = Judgments.from_arrays(
            ...     query=["q1", "q2", "q3"],
            ...     model_a=["x"] * 3,
            ...     model_b=["y"] * 3,
            ...     verdict=["a", "a", "b"],
            ... )
            >>> BradleyTerry().bootstrap(judgments, tournaments=10, progress=False)
            Tournaments(10, models=2, queries=3)
        """
        if tournaments < 1 or (queries is not None and queries < 1):
            raise SettingError(
                "tournaments and queries must be at least 1, got "
                f"tournaments={tournaments}, queries={queries}"
            )
        if self.controls:
            raise SettingError("bootstrap does not support controls; use fit, or controls=()")
        judgments_to_fit = self._judgments_to_fit(judgments)
        parts = [_without_empty_queries(part) for _, part in _halves(judgments_to_fit)]
        draws = _draw_counts(parts, clusters, queries, tournaments, seed)
        tournaments_of_parts = [
            self._tournaments(part, counts, cluster_names_of_queries, progress)
            for part, (counts, cluster_names_of_queries) in zip(parts, draws, strict=True)
        ]
        fits = [self._fit(part, clusters) for part in parts]
        degrees = (mean_of_fits(fits) if len(fits) > 1 else fits[0]).degrees_by_model
        return replace(mean_of_tournaments(tournaments_of_parts), degrees_by_model=degrees)

    def _tournaments(
        self,
        columns: Judgments,
        counts: NDArray[np.int32],
        clusters: tuple[str, ...],
        progress: bool,
    ) -> Tournaments:
        """Fit tournaments (bootstrap samples) in which query q occurs ``counts[t, q]`` times."""
        tournaments = len(counts)
        sampler = _Sampler.of(columns)
        tied = int(sampler.ties.sum())
        self._check(sampler.pooled, tied, columns)
        start, start_nu = self._solve(sampler.pooled, np.float64(tied))
        if start_nu is not None:
            start = np.append(start, start_nu)
        models = len(columns.models)
        logits = np.empty((tournaments, models))
        log_nu = None if start_nu is None else np.empty(tournaments)
        separated = np.empty((tournaments, models), dtype=bool)
        for rows in _row_blocks(tournaments, max(1, _CELLS // models**2), progress):
            wins = sampler.wins(counts[rows])
            ties = counts[rows] @ sampler.ties
            separated[rows] = estimation.separated(wins)
            if self.ridge == 0:
                for i, matrix in enumerate(wins):
                    where = f"tournament {rows.start + i}: "
                    self._check(matrix, int(ties[i]), columns, where)
            logits[rows], nu = self._solve(wins, ties, start)
            if log_nu is not None and nu is not None:
                log_nu[rows] = nu
        return Tournaments(
            columns.models, columns.query_ids, counts, logits, separated, log_nu, clusters
        )

    def _judgments_to_fit(self, records: JudgmentsLike) -> Judgments:
        """Return the judgments that the fit uses: all, or all but ties if ``ties="drop"``."""
        judgments = as_judgments(records)
        if len(judgments.models) > MOST_MODELS:
            raise JudgmentError(
                f"the judgments have {len(judgments.models)} models, but at most {MOST_MODELS} "
                "can be fitted together, because the covariance matrix becomes too large; fit "
                "groups of models separately"
            )
        if self.ties != "drop":
            return judgments
        untied = judgments.score != 0.5
        if untied.all():
            return judgments
        if not untied.any():
            raise JudgmentError(
                f"all {len(judgments)} judgments are ties, and ties='drop' leaves out ties, so "
                "nothing is left to fit; use ties='half'"
            )
        return replace(
            judgments,
            query=judgments.query[untied],
            a=judgments.a[untied],
            b=judgments.b[untied],
            score=judgments.score[untied],
        )

    def _check(self, wins: Floats, tied: int, judgments: Judgments, where: str = "") -> None:
        """Raise an error if judgments and ridge do not determine all logits on a common scale.

        ``wins`` is the win matrix of ``judgments``, and ``tied`` their number of ties. Error
        messages begin with the text ``where``.
        """
        pieces = estimation.comparison_pieces(wins)
        if len(pieces) > 1:
            groups_text = "; ".join(_format_group(judgments.models, piece) for piece in pieces[:10])
            dropped = " (ties were dropped)" if self.ties == "drop" else ""
            raise JudgmentError(
                f"{where}the models fall into {len(pieces)} groups that were never compared with "
                f"each other{dropped}: {groups_text}; add judgments between the groups, or fit "
                "each group separately"
            )
        if self.ridge > 0:
            return
        groups = estimation.always_won(wins)
        if groups is not None:
            winners, losers = (_format_group(judgments.models, group) for group in groups)
            raise JudgmentError(
                f"{where}{winners} won every comparison with {losers}, so the logits are infinite "
                "without a ridge penalty; set ridge=0.1"
            )
        if self.ties == "davidson" and tied in (0, wins.sum()):
            reason = "all judgments are ties" if tied else "no judgment is a tie"
            raise JudgmentError(
                f"{where}{reason}, so the log of Davidson's tie parameter is infinite without a "
                "ridge penalty; set ridge=0.1 or ties='half'"
            )

    def _solve(
        self, wins: Floats, tied: Any, start: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        """Return the logits, and the log of Davidson's tie parameter (``None`` without it).

        ``wins`` has one or several win matrices, ``tied`` the number of ties in each, and ``start``
        the parameters at which the fit starts.
        """
        if self.ties != "davidson":
            return estimation.fit_bradley_terry(wins, self.ridge, start), None
        return estimation.fit_davidson(wins, tied, self.ridge, start)


@dataclass(frozen=True, eq=False)
class _Sampler:
    """A source of the win matrices of tournaments (fits to bootstrap samples of the queries).

    A tournament's win matrix is the sum of the win matrices of the queries that it draws. If
    storing one matrix per query takes too much memory, each tournament's win matrix is computed
    from the judgments instead.

    Attributes:
        judgments: The judgments.
        by_query: Win matrix of each query; ``None`` if these matrices would be too large.
        pooled: Win matrix of all judgments.
        ties: Number of ties on each query.
    """

    judgments: Judgments
    by_query: Floats | None
    pooled: Floats
    ties: NDArray[np.int64]

    @classmethod
    def of(cls, judgments: Judgments) -> _Sampler:
        """Return a sampler that draws bootstrap samples of the queries from these judgments."""
        queries, models = len(judgments.query_ids), len(judgments.models)
        a, b, score = judgments.a, judgments.b, judgments.score
        ties = np.bincount(judgments.query[score == 0.5], minlength=queries)
        if queries * models**2 > _DENSE:
            return cls(judgments, None, estimation.win_matrix(a, b, score, models), ties)
        by_query = estimation.query_win_matrices(judgments.query, a, b, score, queries, models)
        return cls(judgments, by_query, by_query.sum(axis=0), ties)

    def wins(self, counts: NDArray[np.int32]) -> Floats:
        """Return the win matrix of each tournament, of shape ``(tournaments, models, models)``.

        ``counts[t, q]`` is how often tournament t drew query q.
        """
        models = len(self.judgments.models)
        if self.by_query is not None:
            flat = self.by_query.reshape(len(self.by_query), -1)
            return (counts.astype(np.float64) @ flat).reshape(-1, models, models)
        j = self.judgments
        return np.stack(
            [estimation.win_matrix(j.a, j.b, j.score, models, row[j.query]) for row in counts]
        )


def _halves(columns: Judgments) -> list[tuple[str, Judgments]]:
    """Split the judgments into the two halves of the queries if pairs were chosen adaptively.

    Otherwise, return all judgments as a single part. Each part comes with a text that names the
    half, for the start of error messages. Queries in neither half are assigned to the halves in
    turn, because no verdict influenced which pairs were judged on them.
    """
    if columns.halves is None:
        return [("", columns)]
    half = columns.halves.copy()
    free = np.flatnonzero(half < 0)
    half[free] = np.arange(len(free)) % 2
    parts = []
    for number, name in enumerate(("first", "second")):
        rows = half[columns.query] == number
        part = {c: getattr(columns, c)[rows] for c in ("query", "a", "b", "score")}
        where = f"in the {name} half of the adaptive comparison, "
        parts += [(where, replace(columns, halves=None, **part))] if rows.any() else []
    return parts


def _draw_counts(
    parts: Sequence[Judgments],
    clusters: Mapping[str, str],
    queries: int | None,
    tournaments: int,
    seed: int,
) -> list[tuple[NDArray[np.int32], tuple[str, ...]]]:
    """Draw the queries of all tournaments, for each part of the judgments.

    Parts have no query in common, and share the number of queries to draw equally. If a drawn
    cluster has queries in several parts, all of them are drawn.

    Args:
        parts: Parts of the judgments, such as the two halves of an adaptive comparison.
        clusters: Cluster name by query id.
        queries: Number of queries to draw per tournament; ``None`` for as many as were judged.
        tournaments: Number of tournaments.
        seed: Random seed.

    Returns:
        For each part, how often each tournament draws each query, and the cluster of each query.
        The clusters are empty if single queries are drawn.
    """
    queries_per_part = None if queries is None else max(1, queries // len(parts))
    clusters_by_part = [
        tuple(cluster_names(part.query_ids, clusters))
        if any(id_ in clusters for id_ in part.query_ids)
        else ()
        for part in parts
    ]
    if len(set().union(*clusters_by_part)) < sum(len(set(names)) for names in clusters_by_part):
        all_clusters = [name for names in clusters_by_part for name in names]
        counts = draw_clusters(all_clusters, queries, tournaments, seed=seed)
        ends = np.cumsum([len(names) for names in clusters_by_part])[:-1]
        return list(zip(np.split(counts, ends, axis=1), clusters_by_part, strict=True))
    results = []
    for number, (part, names) in enumerate(zip(parts, clusters_by_part, strict=True)):
        if names:
            counts = draw_clusters(names, queries_per_part, tournaments, seed=seed + number)
        else:
            judged = len(part.query_ids)
            size = judged if queries_per_part is None else min(queries_per_part, judged)
            counts = draw_queries(judged, size, tournaments, seed=seed + number)
        results.append((counts, names))
    return results


def _with_clusters_as_queries(judgments: Judgments, clusters: Mapping[str, str]) -> Judgments:
    """Return the same judgments with each query replaced by its cluster."""
    names, code = np.unique(cluster_names(judgments.query_ids, clusters), return_inverse=True)
    query = code.astype(np.int32)[judgments.query]
    return replace(judgments, query_ids=tuple(names.tolist()), query=query)


def _without_empty_queries(judgments: Judgments) -> Judgments:
    """Return the same judgments without the queries that have no judgment."""
    present, query = np.unique(judgments.query, return_inverse=True)
    if len(present) == len(judgments.query_ids):
        return judgments
    names = tuple(judgments.query_ids[i] for i in present.tolist())
    return replace(judgments, query_ids=names, query=query.astype(np.int32), halves=None)


def _row_blocks(length: int, size: int, progress: bool) -> Iterator[slice]:
    """Yield slices of at most ``size`` rows that cover ``length`` rows, and show progress."""
    with progress_bar(length, "tournaments", progress) as bar:
        for low in range(0, length, size):
            high = min(low + size, length)
            yield slice(low, high)
            bar.update(high - low)


def _outside_largest_group(groups: Sequence[NDArray[np.intp]], models: int) -> NDArray[np.bool_]:
    """Return for each model whether it is outside of the largest group of models.

    ``groups`` lists the indices of the models in each group of :func:`estimation.bound_groups`,
    largest group first. If two or more groups are equally large, all models count as outside.
    """
    outside = np.ones(models, dtype=bool)
    if len(groups) == 1 or len(groups[0]) > len(groups[1]):
        outside[groups[0]] = False
    return outside


def _format_group(models: Sequence[str], group: NDArray[np.intp], limit: int = 8) -> str:
    """Return a group of models for a message, such as ``{'x', 'y', ... 12 in all}``."""
    listed = ", ".join(repr(models[i]) for i in group[:limit].tolist())
    if len(group) == 1:
        return listed
    return "{" + listed + (f", ... {len(group)} in all" if len(group) > limit else "") + "}"
