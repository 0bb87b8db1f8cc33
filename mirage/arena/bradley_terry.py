"""Bradley-Terry fits with intervals, by maximum likelihood or by bootstrapped tournaments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage._base.progress import progress_bar
from mirage._base.tables import RANKED, Table, frame_of, ranked_cells, to_text
from mirage.arena import estimation
from mirage.arena._controlled import with_controls
from mirage.arena.controls import Control
from mirage.arena.judgments import Judgments, JudgmentsLike, as_judgments
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.statistics.bootstrap import (
    NO_INTERVAL,
    Interval,
    draw_clusters,
    draw_queries,
    draws_covariance,
    draws_degrees,
)
from mirage.statistics.clusters import FEWEST, cluster_names, multipliers, small_sample
from mirage.statistics.ranks import (
    confidences_by_t,
    rank_intervals_by_confidence,
    ranks,
    t_intervals,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BradleyTerry", "BradleyTerryFit", "ControlEffect", "Ties", "Tournaments"]

Ties = Literal["half", "drop", "davidson"]

MOST_MODELS = 1000
"""Largest number of models in a fit: the covariance has a cell for every two of them."""

_CELLS = 1 << 18  # array elements of the win matrices of tournaments that are fitted together
_MOSTLY = 0.5  # share of tournaments in which a model is separated, from which it is unbound
_DENSE = 1 << 23  # array elements of all queries' win matrices, above which rows are counted

_MULTIPLIED = 4096  # clusters whose multipliers are in memory at a time


@dataclass(frozen=True)
class BradleyTerry:
    """The Bradley-Terry model: P(a is preferred to b) = 1 / (1 + exp(logit_b - logit_a)).

    Formulas and sources are in :mod:`mirage.arena.estimation`, as functions on arrays.

    Args:
        ties: ``"half"`` counts a tie as half a win for each; ``"drop"`` leaves ties out, as the
            paper's code does; ``"davidson"`` models the probability of a tie (Davidson 1970), with
            one parameter for all pairs.
        ridge: Strength of an L2 penalty that limits the logits of models that won or lost
            everything. Its unit is judgments: each model's logit is drawn towards the mean as
            strongly as by that many tied judgments against a model at the mean. The default of 0.1
            moves the logits of ordinary models by about 0.1 % if each has 100 judgments, and by
            less if there are more. A model that won 1,800 of 1,800 gets a logit about 9 above the
            mean. 0 is plain maximum likelihood.
        controls: Influences on verdicts other than quality, such as
            :func:`mirage.arena.controls.length`. Logits are then those at equal controls, and the
            fit also holds the logits without controls. The effect of a control is an association.
            If the control is part of what makes answers better, controlling for it removes quality.

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
        fitted separately, and logits are the means of both fits. Pairs of each half were chosen by
        verdicts on the other half, so no verdict influenced its own comparisons. A single fit to
        all of these judgments would stretch logits by a factor of 1.2 to 2, and its 95 % intervals
        would cover only 70 to 90 % (``benchmarks/adaptive_intervals.py``).

        Args:
            judgments: Columns, records, or a pandas DataFrame as for :meth:`Judgments.from_pandas`.
            clusters: Cluster name by query id; see :attr:`Query.cluster <mirage.Query>`. A query
                that is not listed is a cluster by itself.

        Raises:
            JudgmentError: Ties are dropped and nothing is left; the models fall into groups that
                were never compared with each other, or do so in a half; or, without a ridge, some
                models won or lost everything. The message lists the models.
        """
        if self.controls:
            return self._fit_with_controls(judgments, clusters)
        columns = self._judgments_to_fit(judgments)
        halves = _halves(columns)
        if len(halves) > 1:
            return _mean_of_fits([self._fit(half, clusters, where) for where, half in halves])
        return self._fit(columns, clusters)

    def _fit_with_controls(
        self, judgments: JudgmentsLike, clusters: Mapping[str, str]
    ) -> BradleyTerryFit:
        """Return the logits at equal controls, together with the fit without controls."""
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
        """Return the fit to these judgments; ``where`` begins error messages."""
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
        information = estimation.information(wins, logits, self.ridge, nu)
        influence = None
        if len(present) * len(wins) <= _DENSE:
            influence = estimation.influences(wins, logits, columns.query, *row_arguments[1:])
        return BradleyTerryFit(
            models=columns.models,
            logits=logits,
            covariance=covariance,
            queries=len(present),
            separated=_pick(columns.models, estimation.separated(wins)),
            log_nu=nu,
            unbound=_pick(columns.models, _outside_largest_group(groups, len(wins))),
            uncertainty=covariance + estimation.separation_covariance(information, groups),
            query_ids=tuple(columns.query_ids[i] for i in present.tolist()),
            clusters=tuple(cluster_by_query),
            degrees=_degrees(cluster_by_query),
            influence=influence,
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
        """Fit the logits in many tournaments, each on queries drawn with replacement.

        As in the paper (MIRAGE-Bench, arXiv 2410.13716), a tournament draws ``queries`` of the
        judged queries ("a maximum of 100" in the paper), and every judgment on a query counts as
        often as the query was drawn. A tournament never draws more queries than were judged,
        because that would invent evidence. All tournaments are fitted together. If a tournament
        happens to separate a model (it won or lost everything) or to disconnect it (it was never
        compared), only the ridge bounds its logit, and
        :attr:`Tournaments.separated` marks it.

        Args:
            judgments: Judgments, as for :meth:`fit`.
            tournaments: Number of tournaments.
            queries: Largest number of queries to draw in each; ``None`` for as many as were judged.
            clusters: Cluster name by query id, as for :meth:`fit`. If it is given, whole clusters
                are drawn, and as many queries as these have.
            seed: Random seed.
            progress: Show a progress bar on stderr, if stderr is a terminal.

        Returns:
            The tournaments, which print as a table.

        Raises:
            JudgmentError: As for :meth:`fit`, for all judgments together; without a ridge, also if
                a single tournament has no finite logits.
            SettingError: There is less than one tournament or query, or the model has controls.

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
        return _mean_of_tournaments(
            [
                self._tournaments(part, counts, cluster_names_of_queries, progress)
                for part, (counts, cluster_names_of_queries) in zip(parts, draws, strict=True)
            ]
        )

    def _tournaments(
        self,
        columns: Judgments,
        counts: NDArray[np.int32],
        clusters: tuple[str, ...],
        progress: bool,
    ) -> Tournaments:
        """Return the fits of all tournaments; ``counts`` holds how often each drew each query."""
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
        """Return the judgments that the fit uses: without ties if ``ties="drop"``.

        Raises:
            JudgmentError: There are too many models, or all judgments are dropped ties.
        """
        judgments = as_judgments(records)
        if len(judgments.models) > MOST_MODELS:
            raise JudgmentError(
                f"the judgments have {len(judgments.models)} models, and at most {MOST_MODELS} can "
                "be fitted together, because their covariance has a cell for every two; fit groups "
                "of models separately"
            )
        if self.ties != "drop":
            return judgments
        untied = judgments.score != 0.5
        if untied.all():
            return judgments
        if not untied.any():
            raise JudgmentError(
                f"all {len(judgments)} judgments are ties and ties='drop' leaves none; "
                "use ties='half'"
            )
        return replace(
            judgments,
            query=judgments.query[untied],
            a=judgments.a[untied],
            b=judgments.b[untied],
            score=judgments.score[untied],
        )

    def _check(self, wins: Floats, tied: int, judgments: Judgments, where: str = "") -> None:
        """Raise an error if the likelihood, with the ridge, has no maximum worth reporting."""
        pieces = estimation.comparison_pieces(wins)
        if len(pieces) > 1:
            groups_text = "; ".join(_format_group(judgments.models, piece) for piece in pieces[:10])
            dropped = " (ties were dropped)" if self.ties == "drop" else ""
            raise JudgmentError(
                f"{where}the models fall into {len(pieces)} groups that were never compared with "
                f"each other{dropped}: {groups_text}; add judgments between them, or fit each "
                "separately"
            )
        if self.ridge > 0:
            return
        groups = estimation.always_won(wins)
        if groups is not None:
            winners, losers = (_format_group(judgments.models, group) for group in groups)
            raise JudgmentError(
                f"{where}{winners} won every comparison with {losers}: without a ridge there are "
                "no finite logits; set ridge=0.1"
            )
        if self.ties == "davidson" and tied in (0, wins.sum()):
            reason = "all judgments are ties" if tied else "no judgment is a tie"
            raise JudgmentError(
                f"{where}{reason}: without a ridge the log of Davidson's tie parameter is "
                "infinite; set ridge=0.1 or ties='half'"
            )

    def _solve(
        self, wins: Floats, tied: Any, start: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        """Return the logits, and log nu with Davidson's ties (else ``None``)."""
        if self.ties != "davidson":
            return estimation.fit_bradley_terry(wins, self.ridge, start), None
        return estimation.fit_davidson(wins, tied, self.ridge, start)


@dataclass(frozen=True)
class ControlEffect:
    """The effect of a control when models are equal: an association, not a cause.

    Attributes:
        name: Name of the control.
        value: Log-odds of winning per unit of the control.
        interval: 95 % interval, computed as for logits; NaN if there is only one query.
        caution: Why the control may itself make an answer better; empty if it cannot.
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
class BradleyTerryFit:
    """Logits of models, fitted to judgments; prints as a table.

    Use :meth:`mirage.Ranking.from_judgments` for a ranking that also warns about weak evidence.

    Attributes:
        models: Model names, in the order of all arrays here.
        logits: Natural-log odds that sum to 0, ``(models,)``.
        covariance: Covariance of the logits, ``(models, models)``: the sandwich with queries, or
            clusters of queries, as clusters (:func:`mirage.arena.estimation.sandwich`). NaN if
            there is only one cluster.
        queries: Number of queries with judgments.
        separated: Models that won or lost every judgment. Only the ridge keeps their logits finite,
            so the size of these logits has little meaning.
        log_nu: Log of Davidson's tie parameter; ``None`` unless ``ties="davidson"``.
        unbound: The separated models, and all others whose distance to the largest group of models
            the likelihood does not bound (:func:`mirage.arena.estimation.bound_groups`).
        uncertainty: The covariance plus the uncertainty of the distances that the likelihood does
            not bound (:func:`mirage.arena.estimation.separation_covariance`).
        query_ids: Ids of the queries with judgments.
        clusters: Cluster name of each of these queries; a query without a cluster is its own.
        degrees: Degrees of freedom of Student's t: the number of clusters minus the number of fits,
            and fewer if clusters differ in size (:func:`mirage.statistics.clusters.small_sample`).
            0, with which every order is uncertain, if related queries form fewer than
            :data:`mirage.statistics.clusters.FEWEST` clusters.
        influence: How far each query moves the logits, ``(queries, models)``
            (:func:`mirage.arena.estimation.influences`); ``None`` if the array would be too large.
        fits: Number of fits to separate queries whose mean the logits are: two if pairs were chosen
            adaptively, else one.
        effects: Effect of each control, an association; empty without controls.
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
    fits: int = 1
    effects: tuple[ControlEffect, ...] = ()
    uncontrolled: BradleyTerryFit | None = None

    def __repr__(self) -> str:
        return f"BradleyTerryFit(models={len(self.models)}, queries={self.queries})"

    def __str__(self) -> str:
        title = f"Bradley-Terry: {len(self.models)} models on {self.queries} queries"
        return to_text(_table(title, self.models, self.logits, self.interval(), self.unbound))

    @property
    def ranks(self) -> Ints:
        """Rank of each model, 1 for the largest logit; equal logits share the better rank."""
        return ranks(self.logits)

    def interval(self, *, level: float = 0.95) -> Floats:
        """Return the lower and upper end of each logit's interval, ``(models, 2)``.

        The interval uses Student's t with :attr:`degrees` of freedom, the customary correction for
        few clusters (Cameron & Miller 2015, A Practitioner's Guide to Cluster-Robust Inference,
        Journal of Human Resources 50, section VI.D). It is NaN for the :attr:`unbound` models.

        Args:
            level: Confidence level.
        """
        ends = t_intervals(self.logits, self.uncertainty, self.degrees, level=level)
        ends[np.isin(self.models, self.unbound)] = np.nan
        return ends

    def rank_interval(self, *, level: float = 0.95) -> Ints:
        """Return the best and worst rank of each model, ``(models, 2)``.

        They come from :func:`mirage.statistics.ranks.rank_intervals_by_confidence` with
        :attr:`confidences`.

        Args:
            level: Confidence level.
        """
        return rank_intervals_by_confidence(self.confidences, level=level)

    @property
    def confidences(self) -> Floats:
        """:meth:`p_better` of each model over each, ``(models, models)``."""
        return confidences_by_t(self.logits, self.uncertainty, self.degrees)

    def p_better(self, a: str, b: str) -> float:
        """Return the confidence that a's logit is larger than b's.

        It is one-sided, from the same t distribution as the intervals but with the
        :attr:`uncertainty`, which includes that of unbound models. It is 0.5 for a model against
        itself, and NaN if there is only one query.
        """
        return float(self.confidences[_index(self.models, a), _index(self.models, b)])

    def draws(self, n: int, *, seed: int = 0) -> Floats:
        """Draw logits from Student's t with the :attr:`uncertainty`, ``(n, models)``.

        The draws are NaN if there are no :attr:`degrees` of freedom. Fits to judgments on the same
        queries, for instance in several languages, share their random numbers. A query that favours
        a model in one fit's draw then has the same weight in the other fits
        (:func:`mirage.statistics.clusters.multipliers`).

        Args:
            n: Number of draws.
            seed: Random seed.
        """
        if not self.degrees:
            return np.full((n, len(self.models)), np.nan)
        rng = np.random.default_rng(seed)
        scale: Floats = np.sqrt(rng.chisquare(self.degrees, (n, 1)) / self.degrees)
        errors, rest_of_covariance = np.zeros((n, len(self.logits))), self.uncertainty
        if self.influence is not None:
            names, code, sizes = np.unique(self.clusters, return_inverse=True, return_counts=True)
            cluster_influence = np.stack(
                [np.bincount(code, column) for column in self.influence.T], axis=1
            )
            cluster_influence *= np.sqrt(small_sample(sizes).factors)[:, None]
            for start in range(0, len(names), _MULTIPLIED):
                block = slice(start, start + _MULTIPLIED)
                errors += (
                    multipliers(names[block].tolist(), n, seed=seed) @ cluster_influence[block]
                )
            # What remains is due to the ridge and to unbound distances.
            rest_of_covariance = rest_of_covariance - cluster_influence.T @ cluster_influence
        values, vectors = np.linalg.eigh(rest_of_covariance)
        normal = rng.standard_normal((n, len(values))) * np.sqrt(np.maximum(values, 0))
        errors += normal @ vectors.T
        return np.asarray(self.logits + errors / scale)

    def win_probability(self, a: str, b: str) -> float:
        """Return the probability that a is preferred to b on a query; half of ties count for a."""
        pair = [_index(self.models, a), _index(self.models, b)]
        return float(estimation.win_probabilities(self.logits[pair], self.log_nu)[0, 1])

    @property
    def win_matrix(self) -> Floats:
        """:meth:`win_probability` of each model over each, ``(models, models)``; diagonal 0.5."""
        return estimation.win_probabilities(self.logits, self.log_nu)

    def to_pandas(self, *, level: float = 0.95) -> pd.DataFrame:
        """Return a DataFrame indexed by model, best first: logit, lower, upper, rank, separated.

        Args:
            level: Confidence level of lower and upper.
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
class Tournaments:
    """Logits of models in many tournaments, each on its own draw of queries; prints as a table.

    Attributes:
        models: Model names, in the order of all arrays here.
        query_ids: Queries that could be drawn: those whose judgments are used.
        counts: How often each tournament drew each query, int32 ``(tournaments, queries)``.
        logits: Natural-log odds, ``(tournaments, models)``; each row sums to 0.
        separated: Whether, in this tournament, the model won every judgment, lost every one, or had
            none; bool ``(tournaments, models)``. Only the ridge keeps such a logit finite.
        log_nu: Log of Davidson's tie parameter, ``(tournaments,)``; ``None`` unless
            ``ties="davidson"``.
        clusters: Cluster of each query if whole clusters were drawn; empty if queries were.
    """

    models: tuple[str, ...]
    query_ids: tuple[str, ...]
    counts: NDArray[np.int32]
    logits: Floats
    separated: NDArray[np.bool_]
    log_nu: Floats | None = None
    clusters: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.logits)

    def __repr__(self) -> str:
        return f"Tournaments({len(self)}, models={len(self.models)}, queries={len(self.query_ids)})"

    def __str__(self) -> str:
        title = f"{len(self)} tournaments: {len(self.models)} models, {len(self.query_ids)} queries"
        ends, spans = self.interval(), self.rank_interval().tolist()
        return to_text(_table(title, self.models, self.mean, ends, self.unbound, spans))

    @property
    def mean(self) -> Floats:
        """Mean logit of each model over the tournaments, ``(models,)``."""
        mean: Floats = self.logits.mean(axis=0)
        return mean

    @property
    def ranks(self) -> Ints:
        """Rank of each model in each tournament, ``(tournaments, models)``.

        1 is the largest logit; equal logits share the better rank.
        """
        return ranks(self.logits)

    @property
    def covariance(self) -> Floats:
        """Covariance of the mean logits, ``(models, models)``; NaN if there is one query.

        It is computed by :func:`mirage.statistics.bootstrap.draws_covariance` for the number of
        judged queries, regardless of how many each tournament draws.
        """
        return draws_covariance(self.logits, self.counts, self.clusters)

    @property
    def degrees(self) -> float:
        """Degrees of freedom, as for :attr:`BradleyTerryFit.degrees`."""
        if self.clusters and len(set(self.clusters)) < FEWEST:
            return 0.0
        return draws_degrees(self.counts, self.clusters)

    def interval(self, *, level: float = 0.95) -> Floats:
        """Return the lower and upper end of each logit's interval, ``(models, 2)``.

        The interval is centred on the mean and uses Student's t with the :attr:`covariance` and
        :attr:`degrees` of freedom. Percentiles of tournaments would cover a logit too rarely if
        queries are few, and too often if fewer are drawn than were judged
        (``benchmarks/intervals.py``). The interval is NaN for models that are separated in at least
        half of the tournaments, and if there is only one query.

        Args:
            level: Confidence level.
        """
        ends = t_intervals(self.mean, self.covariance, self.degrees, level=level)
        ends[np.isin(self.models, self.unbound)] = np.nan
        return ends

    def rank_interval(self, *, level: float = 0.95) -> Ints:
        """Return the best and worst rank of each model, ``(models, 2)``.

        They come from :func:`mirage.statistics.ranks.rank_intervals_by_confidence` with
        :attr:`confidences`.

        Args:
            level: Confidence level.
        """
        return rank_intervals_by_confidence(self.confidences, level=level)

    @property
    def confidences(self) -> Floats:
        """:meth:`p_better` of each model over each, ``(models, models)``."""
        return confidences_by_t(self.mean, self.covariance, self.degrees)

    def p_better(self, a: str, b: str) -> float:
        """Return the confidence that a's logit is larger than b's.

        It is one-sided, from the same t distribution as the intervals. It is 0.5 for a model
        against itself, and NaN if there is only one query.
        """
        return float(self.confidences[_index(self.models, a), _index(self.models, b)])

    @property
    def unbound(self) -> tuple[str, ...]:
        """Models separated in at least half of the tournaments, whose logits are not reliable."""
        return _pick(self.models, self.separated.mean(axis=0) >= _MOSTLY)

    @property
    def win_matrix(self) -> Floats:
        """Probability that each model is preferred to each on a query: ``(models, models)``.

        It is the mean over the tournaments. Half of ties counts for each model, and the diagonal is
        0.5.
        """
        total = np.zeros((len(self.models), len(self.models)))
        for rows in _row_blocks(len(self), max(1, _CELLS // total.size), progress=False):
            nu = None if self.log_nu is None else self.log_nu[rows]
            total += estimation.win_probabilities(self.logits[rows], nu).sum(axis=0)
        return total / len(self)

    def to_pandas(self, *, level: float = 0.95) -> pd.DataFrame:
        """Return a DataFrame indexed by model, best mean logit first.

        Columns: logit (the mean), lower, upper, rank (of the mean), rank_best, rank_worst, and
        separated (share of tournaments).

        Args:
            level: Confidence level of the intervals.
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


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Win matrices of tournaments, from those of queries or, if these are large, from rows."""

    judgments: Judgments
    by_query: Floats | None
    pooled: Floats
    ties: NDArray[np.int64]

    @classmethod
    def of(cls, judgments: Judgments) -> _Sampler:
        """Return a sampler of these judgments."""
        queries, models = len(judgments.query_ids), len(judgments.models)
        a, b, score = judgments.a, judgments.b, judgments.score
        ties = np.bincount(judgments.query[score == 0.5], minlength=queries)
        if queries * models**2 > _DENSE:
            return cls(judgments, None, estimation.win_matrix(a, b, score, models), ties)
        by_query = estimation.query_win_matrices(judgments.query, a, b, score, queries, models)
        return cls(judgments, by_query, by_query.sum(axis=0), ties)

    def wins(self, counts: NDArray[np.int32]) -> Floats:
        """Return the win matrix of each row of ``counts``: ``(tournaments, models, models)``."""
        models = len(self.judgments.models)
        if self.by_query is not None:
            flat = self.by_query.reshape(len(self.by_query), -1)
            return (counts.astype(np.float64) @ flat).reshape(-1, models, models)
        j = self.judgments
        return np.stack(
            [estimation.win_matrix(j.a, j.b, j.score, models, row[j.query]) for row in counts]
        )


def _halves(columns: Judgments) -> list[tuple[str, Judgments]]:
    """Return the judgments of each half of the queries if pairs were chosen adaptively.

    Each part comes with a text that begins error messages. Queries of neither half were not chosen
    by any verdict; they alternate between both halves.
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


def _degrees(clusters: Sequence[str], fits: int = 1) -> float:
    """Return the degrees of freedom of the mean of ``fits`` fits.

    It is 0 if queries share clusters and there are too few clusters.
    """
    sizes = np.unique(clusters, return_counts=True)[1]
    if len(sizes) < FEWEST and len(sizes) < len(clusters):
        return 0.0
    return max(small_sample(sizes).degrees - (fits - 1), 0.0)


def _mean_of_fits(fits: Sequence[BradleyTerryFit]) -> BradleyTerryFit:
    """Return the fit whose logits are the means of these fits, which have no query in common."""
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
        degrees=_degrees(clusters, len(fits)),
        influence=influence,
        fits=len(fits),
    )


def _cluster_gram(clusters: Sequence[str], influence: Floats) -> Floats:
    """Return the sum over clusters of the outer product of their influence on the logits."""
    code = np.unique(clusters, return_inverse=True)[1]
    cluster_influence = np.stack([np.bincount(code, column) for column in influence.T], axis=1)
    return np.asarray(cluster_influence.T @ cluster_influence)


def _draw_counts(
    parts: Sequence[Judgments],
    clusters: Mapping[str, str],
    queries: int | None,
    tournaments: int,
    seed: int,
) -> list[tuple[NDArray[np.int32], tuple[str, ...]]]:
    """Return how often tournaments draw each query of each part, with the clusters of the part.

    Parts have no query in common, and share the number of queries to draw. A cluster with queries
    in several parts is drawn for all of them together.
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


def _mean_of_tournaments(parts: Sequence[Tournaments]) -> Tournaments:
    """Return tournaments whose logits are the means of these, which have no query in common."""
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


def _with_clusters_as_queries(judgments: Judgments, clusters: Mapping[str, str]) -> Judgments:
    """Return the same judgments with clusters in place of queries."""
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
    """Yield slices of at most ``size`` rows, and show progress."""
    with progress_bar(length, "tournaments", progress) as bar:
        for low in range(0, length, size):
            high = min(low + size, length)
            yield slice(low, high)
            bar.update(high - low)


def _outside_largest_group(groups: Sequence[NDArray[np.intp]], models: int) -> NDArray[np.bool_]:
    """Return which models are outside of the largest group; all if several are equally large."""
    outside = np.ones(models, dtype=bool)
    if len(groups) == 1 or len(groups[0]) > len(groups[1]):
        outside[groups[0]] = False
    return outside


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
    return Table(
        title, RANKED, tuple(rows), (False,) * len(rows), tuple(notes if unbound else ())
    ).filled()


def _index(models: tuple[str, ...], model: str) -> int:
    if model not in models:
        raise UnknownNameError("model", model, models)
    return models.index(model)


def _pick(models: Sequence[str], chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(models[i] for i in np.flatnonzero(chosen).tolist())


def _format_group(models: Sequence[str], group: NDArray[np.intp], limit: int = 8) -> str:
    """Return a group of models for a message, such as ``{'x', 'y', ... 12 in all}``."""
    listed = ", ".join(repr(models[i]) for i in group[:limit].tolist())
    if len(group) == 1:
        return listed
    return "{" + listed + (f", ... {len(group)} in all" if len(group) > limit else "") + "}"
