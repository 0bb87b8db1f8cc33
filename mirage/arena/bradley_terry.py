"""Judgments to logits, with intervals: one fit, or many bootstrapped tournaments."""

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
"""How many models can be fitted together: the covariance has a cell for every two of them."""

_CELLS = 1 << 18  # numbers in the win matrices of the tournaments that are fitted at a time
_MOSTLY = 0.5  # share of tournaments with a model separated, from which they say nothing of it
_DENSE = 1 << 23  # numbers in the win matrices of all queries, beyond which rows are counted

_MULTIPLIED = 4096  # clusters whose multipliers are held at a time


@dataclass(frozen=True)
class BradleyTerry:
    """The Bradley-Terry model: P(a is preferred to b) = 1 / (1 + exp(logit_b - logit_a)).

    Args:
        ties: ``"half"`` counts a tie as half a win for each; ``"drop"`` leaves ties out, as the
            paper's code does; ``"davidson"`` gives them a probability of their own (Davidson
            1970), with one parameter for all pairs.
        ridge: holds back the logits of models that won or lost everything. It is an L2 penalty in
            units of judgments: each model's logit is drawn towards the mean as strongly as by
            that many tied judgments against a model at the mean. The default of a tenth moves the
            logits of ordinary models by about 0.1 % where each has 100 judgments, and by less
            where there are more; one that won 1,800 of 1,800 is put some 9 above the mean. 0 is
            plain maximum likelihood.

        controls: what verdicts may go by beside quality, such as
            :func:`mirage.arena.controls.length`. Logits are then those at equal controls, and the
            fit has those without controls, too. What a control does is an association: it may be
            what makes answers better, and then controlling for it takes quality away.

    Formulas and sources are in :mod:`mirage.arena.estimation`, as functions on arrays.
    """

    ties: Ties = "half"
    ridge: float = 0.1
    controls: Sequence[Control] = ()

    def __post_init__(self) -> None:
        if self.controls and self.ties == "davidson":
            raise SettingError("controls go with ties='half' or 'drop', and not with 'davidson'")
        if self.ties not in get_args(Ties):
            raise UnknownNameError("treatment of ties", self.ties, get_args(Ties))
        if not 0 <= self.ridge < np.inf:
            raise SettingError(f"ridge is a finite number of 0 or more, not {self.ridge}")

    def fit(
        self, judgments: JudgmentsLike, *, clusters: Mapping[str, str] = MappingProxyType({})
    ) -> BradleyTerryFit:
        """Logits of all models from all judgments, with cluster-robust covariance.

        Pairs that were chosen for what verdicts had said (:attr:`Judgments.halves`) are fitted in
        their halves, and logits are the means of both: each half was chosen by the other, so that
        no verdict had a part in what it was compared with. One fit to all stretches logits by 1.2
        to 2 times, and its intervals hold 70 to 90 % (``benchmarks/adaptive_intervals.py``).

        Args:
            judgments: columns, records, or a pandas frame as :meth:`Judgments.from_pandas` takes.
            clusters: by query id, what the query hangs together with; see :attr:`Query.cluster
                <mirage.Query>`. A query that is not there is a cluster by itself.

        Raises:
            JudgmentError: ties are dropped and nothing is left; the models fall into pieces never
                compared with each other, or do so in a half; or, without a ridge, some models won
                or lost everything. The message names the models.
        """
        if self.controls:
            return self._fit_with_controls(judgments, clusters)
        columns = self._counted(judgments)
        halves = _halves(columns)
        if len(halves) > 1:
            return _mean_of_fits([self._fit(half, clusters, where) for where, half in halves])
        return self._fit(columns, clusters)

    def _fit_with_controls(
        self, judgments: JudgmentsLike, clusters: Mapping[str, str]
    ) -> BradleyTerryFit:
        """The fit without controls, and beside it the logits at equal controls."""
        if hasattr(judgments, "columns"):
            judgments = as_judgments(judgments)
        given = judgments.to_records() if isinstance(judgments, Judgments) else list(judgments)
        records = [one for one in given if self.ties != "drop" or one.verdict != "tie"]
        plain = replace(self, controls=()).fit(records, clusters=clusters)
        if plain.fits > 1:
            raise JudgmentError(
                "pairs were chosen for what verdicts had said, which goes without controls: they "
                "would take part of what was chosen for"
            )
        columns = as_judgments(records)
        values = np.array([[control.of(one) for control in self.controls] for one in records])
        names = [control.name for control in self.controls]
        found = with_controls(_by_cluster(columns, clusters), values, names, self.ridge)
        models = len(columns.models)
        covariance = found.covariance[:models, :models]
        ends = t_intervals(found.effects, found.covariance[models:, models:], plain.degrees)
        effects = tuple(
            ControlEffect(control.name, float(value), (float(low), float(high)), control.caution)
            for control, value, (low, high) in zip(self.controls, found.effects, ends, strict=True)
        )
        return replace(
            plain,
            logits=found.logits,
            covariance=covariance,
            uncertainty=covariance + plain.uncertainty - plain.covariance,
            influence=None,
            effects=effects,
            uncontrolled=plain,
        )

    def _fit(
        self, columns: Judgments, clusters: Mapping[str, str], where: str = ""
    ) -> BradleyTerryFit:
        wins = estimation.win_matrix(columns.a, columns.b, columns.score, len(columns.models))
        tied = int(np.count_nonzero(columns.score == 0.5))
        self._check(wins, tied, columns, where)
        logits, log_nu = self._solve(wins, np.float64(tied))
        nu = None if log_nu is None else float(log_nu)
        present = np.flatnonzero(np.bincount(columns.query, minlength=len(columns.query_ids)))
        named = cluster_names((columns.query_ids[i] for i in present.tolist()), clusters)
        _, code, sizes = np.unique(named, return_inverse=True, return_counts=True)
        correction = small_sample(sizes)
        place = np.zeros(len(columns.query_ids), dtype=np.intp)
        place[present] = code
        of_rows = place[columns.query], columns.a, columns.b, columns.score, self.ridge, nu
        covariance = estimation.sandwich(wins, logits, *of_rows, factors=correction.factors)
        groups = estimation.bound_groups(wins)
        information = estimation.information(wins, logits, self.ridge, nu)
        influence = None
        if len(present) * len(wins) <= _DENSE:
            influence = estimation.influences(wins, logits, columns.query, *of_rows[1:])
        return BradleyTerryFit(
            models=columns.models,
            logits=logits,
            covariance=covariance,
            queries=len(present),
            separated=_pick(columns.models, estimation.separated(wins)),
            log_nu=nu,
            unbound=_pick(columns.models, _outside_the_largest(groups, len(wins))),
            uncertainty=covariance + estimation.separation_covariance(information, groups),
            query_ids=tuple(columns.query_ids[i] for i in present.tolist()),
            clusters=tuple(named),
            degrees=_degrees(named),
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
        """Logits from many tournaments, each on queries drawn with replacement.

        As in the paper (MIRAGE-Bench, arXiv 2410.13716): a tournament draws ``queries`` of the
        judged queries, "a maximum of 100" there, and every judgment on a query enters as often as
        the query was drawn. Never are more drawn than were judged: that would be evidence that
        nobody gave. All tournaments are fitted together.
        Where a tournament happens to separate or cut off a model, the ridge decides, and
        :attr:`Tournaments.separated` says so.

        Args:
            judgments: as :meth:`fit` takes them.
            tournaments: how many.
            queries: drawn in each at most; ``None`` for as many as were judged.
            clusters: as :meth:`fit` takes them; whole clusters are drawn, and as many queries as
                these have.
            seed: of the draws.
            progress: show a progress bar on stderr, if that is a terminal.

        Raises:
            JudgmentError: as :meth:`fit`, for all judgments together; without a ridge, also where
                a single tournament has no finite logits.
            SettingError: fewer than one tournament or query.
        """
        if tournaments < 1 or (queries is not None and queries < 1):
            raise SettingError(
                f"a bootstrap needs 1 tournament and 1 query or more, not {tournaments}, {queries}"
            )
        if self.controls:
            raise SettingError("tournaments are fitted without controls; use fit, or controls=()")
        counted = self._counted(judgments)
        parts = [_with_queries_of_rows(part) for _, part in _halves(counted)]
        drawn = _drawn(parts, clusters, queries, tournaments, seed)
        return _mean_of_tournaments(
            [
                self._tournaments(part, counts, named, progress)
                for part, (counts, named) in zip(parts, drawn, strict=True)
            ]
        )

    def _tournaments(
        self, columns: Judgments, counts: NDArray[np.int32], named: tuple[str, ...], progress: bool
    ) -> Tournaments:
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
        alone = np.empty((tournaments, models), dtype=bool)
        for rows in _blocks(tournaments, max(1, _CELLS // models**2), progress):
            wins = sampler.wins(counts[rows])
            ties = counts[rows] @ sampler.ties
            alone[rows] = estimation.separated(wins)
            if self.ridge == 0:
                for i, matrix in enumerate(wins):
                    where = f"tournament {rows.start + i}: "
                    self._check(matrix, int(ties[i]), columns, where)
            logits[rows], nu = self._solve(wins, ties, start)
            if log_nu is not None and nu is not None:
                log_nu[rows] = nu
        return Tournaments(columns.models, columns.query_ids, counts, logits, alone, log_nu, named)

    def _counted(self, records: JudgmentsLike) -> Judgments:
        """Return the judgments that the fit uses: without ties if these are dropped."""
        judgments = as_judgments(records)
        if len(judgments.models) > MOST_MODELS:
            raise JudgmentError(
                f"the judgments name {len(judgments.models)} models, and at most {MOST_MODELS} can "
                "be fitted together, because their covariance has a cell for every two; fit groups "
                "of models"
            )
        if self.ties != "drop":
            return judgments
        decided = judgments.score != 0.5
        if decided.all():
            return judgments
        if not decided.any():
            raise JudgmentError(
                f"all {len(judgments)} judgments are ties and ties='drop' leaves none; "
                "use ties='half'"
            )
        return replace(
            judgments,
            query=judgments.query[decided],
            a=judgments.a[decided],
            b=judgments.b[decided],
            score=judgments.score[decided],
        )

    def _check(self, wins: Floats, tied: int, judgments: Judgments, where: str = "") -> None:
        """That the likelihood, with the ridge, has a maximum worth reporting."""
        pieces = estimation.comparison_pieces(wins)
        if len(pieces) > 1:
            named = "; ".join(_name(judgments.models, piece) for piece in pieces[:10])
            dropped = " (ties were dropped)" if self.ties == "drop" else ""
            raise JudgmentError(
                f"{where}the models fall into {len(pieces)} pieces never compared with each "
                f"other{dropped}: {named}; add judgments between them, or fit each on its own"
            )
        if self.ridge > 0:
            return
        groups = estimation.always_won(wins)
        if groups is not None:
            winners, losers = (_name(judgments.models, group) for group in groups)
            raise JudgmentError(
                f"{where}{winners} won every comparison with {losers}: without a ridge there are "
                "no finite logits; set ridge=0.1"
            )
        if self.ties == "davidson" and tied in (0, wins.sum()):
            every = "all judgments are ties" if tied else "no judgment is a tie"
            raise JudgmentError(
                f"{where}{every}: without a ridge the log of Davidson's tie parameter is infinite; "
                "set ridge=0.1 or ties='half'"
            )

    def _solve(
        self, wins: Floats, tied: Any, start: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        """Logits, and log nu where ties have a probability of their own."""
        if self.ties != "davidson":
            return estimation.fit_bradley_terry(wins, self.ridge, start), None
        return estimation.fit_davidson(wins, tied, self.ridge, start)


@dataclass(frozen=True)
class ControlEffect:
    """What goes with a control, models being equal: an association, and no cause.

    Attributes:
        name: of the control.
        value: log-odds of winning for each unit of it.
        interval: 95 % interval, as those of logits; NaN where there is only one query.
        caution: why the control may be what makes an answer better; empty where it cannot be.
    """

    name: str
    value: float
    interval: Interval
    caution: str

    def __str__(self) -> str:
        low, high = self.interval
        why = f" Control may take away quality: {self.caution}." if self.caution else ""
        return (
            f"Controlled for {self.name}, which goes with {self.value:+.2f} log-odds of winning "
            f"(95 % interval {low:.2f} to {high:.2f}), an association.{why}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class BradleyTerryFit:
    """Logits of models, fitted to judgments; prints as a table.

    :meth:`mirage.Ranking.from_judgments` is the next step: a ranking that says where it tells
    little.

    Attributes:
        models: names, in the order of all arrays here.
        logits: ``(models,)``, natural-log odds that sum to 0.
        covariance: of the logits, ``(models, models)``: the sandwich with queries as clusters, or
            what they hang together by (:func:`mirage.arena.estimation.sandwich`). NaN where there
            is only one of them.
        queries: number of queries with judgments.
        separated: models that won or lost every judgment. The ridge alone keeps their logits
            finite, so the size of these says little.
        log_nu: log of Davidson's tie parameter; ``None`` unless ``ties="davidson"``.
        unbound: the separated models, and all others whose distance to the largest group of models
            the likelihood leaves open (:func:`mirage.arena.estimation.bound_groups`).
        uncertainty: the covariance, and what is not known of the distances that the likelihood
            leaves open (:func:`mirage.arena.estimation.separation_covariance`).
        query_ids: the queries with judgments.
        clusters: the name of each one's cluster; a query by itself is one.
        degrees: of freedom of Student's t: one less than there are clusters for each fit, and
            fewer where these differ in size (:func:`mirage.statistics.clusters.small_sample`). 0,
            with which nothing is sure, where queries hang together in fewer than
            :data:`mirage.statistics.clusters.FEWEST` clusters.
        influence: by how much each query moves the logits, ``(queries, models)``
            (:func:`mirage.arena.estimation.influences`); ``None`` where these are too many numbers.
        fits: how many fits, each to queries of its own, the logits are the mean of: two where
            pairs were chosen adaptively, else one.
        effects: what each control of the fit does, by association; empty without controls.
        uncontrolled: the fit without these controls; ``None`` where there are none.
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
        """Lower and upper end for each logit, ``(models, 2)``; NaN for the unbound models.

        Student's t with :attr:`degrees` of freedom, the customary allowance for few clusters
        (Cameron & Miller 2015, A Practitioner's Guide to Cluster-Robust Inference, Journal of Human
        Resources 50, section VI.D).
        """
        ends = t_intervals(self.logits, self.uncertainty, self.degrees, level=level)
        ends[np.isin(self.models, self.unbound)] = np.nan
        return ends

    def rank_interval(self, *, level: float = 0.95) -> Ints:
        """Best and worst rank of each model, ``(models, 2)``.

        By :func:`mirage.statistics.ranks.rank_intervals_by_confidence` with :attr:`confidences`.
        """
        return rank_intervals_by_confidence(self.confidences, level=level)

    @property
    def confidences(self) -> Floats:
        """:meth:`p_better` of each model over each, ``(models, models)``."""
        return confidences_by_t(self.logits, self.uncertainty, self.degrees)

    def p_better(self, a: str, b: str) -> float:
        """Confidence that a's logit is larger than b's: one-sided, from the same t as intervals.

        With the :attr:`uncertainty`, which counts what is not known of unbound models. 0.5 for a
        model against itself, NaN where there is only one query.
        """
        return float(self.confidences[_index(self.models, a), _index(self.models, b)])

    def draws(self, n: int, *, seed: int = 0) -> Floats:
        """Logits as they may be, ``(n, models)``: Student's t with the :attr:`uncertainty`.

        NaN where there are no :attr:`degrees`. Fits to judgments on the same queries, as in several
        languages, are drawn together: what speaks for a model in one draw is the same queries in
        each fit (:func:`mirage.statistics.clusters.multipliers`).

        Args:
            n: how many.
            seed: of the draws.
        """
        if not self.degrees:
            return np.full((n, len(self.models)), np.nan)
        rng = np.random.default_rng(seed)
        scale: Floats = np.sqrt(rng.chisquare(self.degrees, (n, 1)) / self.degrees)
        errors, rest = np.zeros((n, len(self.logits))), self.uncertainty
        if self.influence is not None:
            names, code, sizes = np.unique(self.clusters, return_inverse=True, return_counts=True)
            moved = np.stack([np.bincount(code, column) for column in self.influence.T], axis=1)
            moved *= np.sqrt(small_sample(sizes).factors)[:, None]
            for start in range(0, len(names), _MULTIPLIED):
                some = slice(start, start + _MULTIPLIED)
                errors += multipliers(names[some].tolist(), n, seed=seed) @ moved[some]
            rest = rest - moved.T @ moved  # the ridge's part
        values, vectors = np.linalg.eigh(rest)
        normal = rng.standard_normal((n, len(values))) * np.sqrt(np.maximum(values, 0))
        errors += normal @ vectors.T
        return np.asarray(self.logits + errors / scale)

    def win_probability(self, a: str, b: str) -> float:
        """Probability that a is preferred to b on a query, half of ties going to each."""
        pair = [_index(self.models, a), _index(self.models, b)]
        return float(estimation.win_probabilities(self.logits[pair], self.log_nu)[0, 1])

    @property
    def win_matrix(self) -> Floats:
        """:meth:`win_probability` of each model over each, ``(models, models)``; diagonal 0.5."""
        return estimation.win_probabilities(self.logits, self.log_nu)

    def to_pandas(self, *, level: float = 0.95) -> pd.DataFrame:
        """A frame indexed by model, best first: logit, lower, upper, rank, separated."""
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
        models: names, in the order of all arrays here.
        query_ids: the queries that could be drawn: those with judgments that count.
        counts: how many times each tournament drew each query, int32 ``(tournaments, queries)``.
        logits: ``(tournaments, models)``, natural-log odds; each row sums to 0.
        separated: bool ``(tournaments, models)``: in this tournament the model won every
            judgment, lost every one, or had none. The ridge alone keeps such a logit finite.
        log_nu: log of Davidson's tie parameter, ``(tournaments,)``; ``None`` unless
            ``ties="davidson"``.
        clusters: the cluster of each query where whole clusters were drawn; empty where queries
            were.
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
        """Covariance of the mean logits, ``(models, models)``; NaN where there is one query.

        That of :func:`mirage.statistics.bootstrap.draws_covariance`: of as many queries as were
        judged, however many a tournament draws.
        """
        return draws_covariance(self.logits, self.counts, self.clusters)

    @property
    def degrees(self) -> float:
        """Of freedom: those of :attr:`BradleyTerryFit.degrees`."""
        if self.clusters and len(set(self.clusters)) < FEWEST:
            return 0.0
        return draws_degrees(self.counts, self.clusters)

    def interval(self, *, level: float = 0.95) -> Floats:
        """Lower and upper end for each logit, ``(models, 2)``.

        Student's t about the mean, with the :attr:`covariance` and :attr:`degrees` of freedom:
        percentiles of tournaments hold a logit too rarely where queries are few, and too often
        where fewer are drawn than were judged
        (``benchmarks/intervals.py``). NaN for models that are separated in half of the tournaments
        or more, and where there is only one query.
        """
        ends = t_intervals(self.mean, self.covariance, self.degrees, level=level)
        ends[np.isin(self.models, self.unbound)] = np.nan
        return ends

    def rank_interval(self, *, level: float = 0.95) -> Ints:
        """Best and worst rank of each model, ``(models, 2)``.

        By :func:`mirage.statistics.ranks.rank_intervals_by_confidence` with :attr:`confidences`.
        """
        return rank_intervals_by_confidence(self.confidences, level=level)

    @property
    def confidences(self) -> Floats:
        """:meth:`p_better` of each model over each, ``(models, models)``."""
        return confidences_by_t(self.mean, self.covariance, self.degrees)

    def p_better(self, a: str, b: str) -> float:
        """Confidence that a's logit is larger than b's: one-sided, from the same t as intervals.

        0.5 for a model against itself, NaN where there is only one query.
        """
        return float(self.confidences[_index(self.models, a), _index(self.models, b)])

    @property
    def unbound(self) -> tuple[str, ...]:
        """Models that are separated in half of the tournaments or more: these tell no distance."""
        return _pick(self.models, self.separated.mean(axis=0) >= _MOSTLY)

    @property
    def win_matrix(self) -> Floats:
        """Probability that each model is preferred to each on a query: ``(models, models)``.

        The mean over the tournaments; half of ties goes to each, and the diagonal is 0.5.
        """
        total = np.zeros((len(self.models), len(self.models)))
        for rows in _blocks(len(self), max(1, _CELLS // total.size), progress=False):
            nu = None if self.log_nu is None else self.log_nu[rows]
            total += estimation.win_probabilities(self.logits[rows], nu).sum(axis=0)
        return total / len(self)

    def to_pandas(self, *, level: float = 0.95) -> pd.DataFrame:
        """A frame indexed by model, best mean logit first.

        Columns: logit (the mean), lower, upper, rank (of the mean), rank_best, rank_worst, and
        separated (share of tournaments).
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
    """Win matrices of tournaments: from those of the queries, or row by row where these are big."""

    judgments: Judgments
    by_query: Floats | None
    pooled: Floats
    ties: NDArray[np.int64]

    @classmethod
    def of(cls, judgments: Judgments) -> _Sampler:
        queries, models = len(judgments.query_ids), len(judgments.models)
        a, b, score = judgments.a, judgments.b, judgments.score
        ties = np.bincount(judgments.query[score == 0.5], minlength=queries)
        if queries * models**2 > _DENSE:
            return cls(judgments, None, estimation.win_matrix(a, b, score, models), ties)
        by_query = estimation.query_win_matrices(judgments.query, a, b, score, queries, models)
        return cls(judgments, by_query, by_query.sum(axis=0), ties)

    def wins(self, counts: NDArray[np.int32]) -> Floats:
        """The win matrix of each row of ``counts``: ``(tournaments, models, models)``."""
        models = len(self.judgments.models)
        if self.by_query is not None:
            flat = self.by_query.reshape(len(self.by_query), -1)
            return (counts.astype(np.float64) @ flat).reshape(-1, models, models)
        j = self.judgments
        return np.stack(
            [estimation.win_matrix(j.a, j.b, j.score, models, row[j.query]) for row in counts]
        )


def _halves(columns: Judgments) -> list[tuple[str, Judgments]]:
    """The judgments of each half, where pairs of one were chosen by verdicts on the other.

    Queries of neither half were not chosen by any verdict; they go to both halves in turn.
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
        where = f"in the {name} half of what was compared adaptively, "
        parts += [(where, replace(columns, halves=None, **part))] if rows.any() else []
    return parts


def _degrees(clusters: Sequence[str], fits: int = 1) -> float:
    """Degrees of freedom of so many fits; none where few clusters hold several queries."""
    sizes = np.unique(clusters, return_counts=True)[1]
    if len(sizes) < FEWEST and len(sizes) < len(clusters):
        return 0.0
    return max(small_sample(sizes).degrees - (fits - 1), 0.0)


def _mean_of_fits(fits: Sequence[BradleyTerryFit]) -> BradleyTerryFit:
    """The fit whose logits are the means of these, which have no query in common."""
    influences = [fit.influence for fit in fits if fit.influence is not None]
    nus = [fit.log_nu for fit in fits if fit.log_nu is not None]
    clusters = tuple(name for fit in fits for name in fit.clusters)
    influence = np.concatenate(influences) / len(fits) if len(influences) == len(fits) else None
    covariance = np.sum([fit.covariance for fit in fits], axis=0) / len(fits) ** 2
    uncertainty = np.sum([fit.uncertainty for fit in fits], axis=0) / len(fits) ** 2
    if influence is not None and len(set(clusters)) < sum(len(set(fit.clusters)) for fit in fits):
        together = _gram(clusters, influence)
        apart = sum(
            _gram(fit.clusters, part / len(fits))
            for fit, part in zip(fits, influences, strict=True)
        )
        covariance, uncertainty = covariance + together - apart, uncertainty + together - apart
    return BradleyTerryFit(
        models=fits[0].models,
        logits=np.mean([fit.logits for fit in fits], axis=0),
        covariance=covariance,
        queries=sum(fit.queries for fit in fits),
        separated=_either(fit.separated for fit in fits),
        log_nu=float(np.mean(nus)) if nus else None,
        unbound=_either(fit.unbound for fit in fits),
        uncertainty=uncertainty,
        query_ids=tuple(query_id for fit in fits for query_id in fit.query_ids),
        clusters=clusters,
        degrees=_degrees(clusters, len(fits)),
        influence=influence,
        fits=len(fits),
    )


def _gram(clusters: Sequence[str], influence: Floats) -> Floats:
    """The sum over clusters of the outer product of what moves the logits with itself."""
    code = np.unique(clusters, return_inverse=True)[1]
    moved = np.stack([np.bincount(code, column) for column in influence.T], axis=1)
    return np.asarray(moved.T @ moved)


def _drawn(
    parts: Sequence[Judgments],
    clusters: Mapping[str, str],
    queries: int | None,
    tournaments: int,
    seed: int,
) -> list[tuple[NDArray[np.int32], tuple[str, ...]]]:
    """How often tournaments have each query of each part, and the clusters of these, if any.

    Parts have no query in common, and share what is drawn at most; a cluster that several of them
    have is drawn for all of them together.
    """
    most = None if queries is None else max(1, queries // len(parts))
    named = [
        tuple(cluster_names(part.query_ids, clusters))
        if any(id_ in clusters for id_ in part.query_ids)
        else ()
        for part in parts
    ]
    if len(set().union(*named)) < sum(len(set(names)) for names in named):
        everyone = [name for names in named for name in names]
        counts = draw_clusters(everyone, queries, tournaments, seed=seed)
        ends = np.cumsum([len(names) for names in named])[:-1]
        return list(zip(np.split(counts, ends, axis=1), named, strict=True))
    drawn = []
    for number, (part, names) in enumerate(zip(parts, named, strict=True)):
        if names:
            counts = draw_clusters(names, most, tournaments, seed=seed + number)
        else:
            judged = len(part.query_ids)
            size = judged if most is None else min(most, judged)
            counts = draw_queries(judged, size, tournaments, seed=seed + number)
        drawn.append((counts, names))
    return drawn


def _mean_of_tournaments(parts: Sequence[Tournaments]) -> Tournaments:
    """Tournaments whose logits are the means of these, which have no query in common."""
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


def _either(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({name for some in names for name in some}))


def _by_cluster(judgments: Judgments, clusters: Mapping[str, str]) -> Judgments:
    """The same judgments, with clusters in the place of queries."""
    names, code = np.unique(cluster_names(judgments.query_ids, clusters), return_inverse=True)
    query = code.astype(np.int32)[judgments.query]
    return replace(judgments, query_ids=tuple(names.tolist()), query=query)


def _with_queries_of_rows(judgments: Judgments) -> Judgments:
    """The same judgments, without the queries that have none of them."""
    present, query = np.unique(judgments.query, return_inverse=True)
    if len(present) == len(judgments.query_ids):
        return judgments
    names = tuple(judgments.query_ids[i] for i in present.tolist())
    return replace(judgments, query_ids=names, query=query.astype(np.int32), halves=None)


def _blocks(length: int, size: int, progress: bool) -> Iterator[slice]:
    with progress_bar(length, "tournaments", progress) as bar:
        for low in range(0, length, size):
            high = min(low + size, length)
            yield slice(low, high)
            bar.update(high - low)


def _outside_the_largest(groups: Sequence[NDArray[np.intp]], models: int) -> NDArray[np.bool_]:
    """The models outside of the largest group; all of them where several are as large."""
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
    notes = [f"No interval, for some judgments went all one way: {', '.join(unbound)}"]
    return Table(
        title, RANKED, tuple(rows), (False,) * len(rows), tuple(notes if unbound else ())
    ).filled()


def _index(models: tuple[str, ...], model: str) -> int:
    if model not in models:
        raise UnknownNameError("model", model, models)
    return models.index(model)


def _pick(models: Sequence[str], chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(models[i] for i in np.flatnonzero(chosen).tolist())


def _name(models: Sequence[str], group: NDArray[np.intp], most: int = 8) -> str:
    """A group of models for a message, such as ``{'x', 'y', ... 12 in all}``."""
    shown = ", ".join(repr(models[i]) for i in group[:most].tolist())
    if len(group) == 1:
        return shown
    return "{" + shown + (f", ... {len(group)} in all" if len(group) > most else "") + "}"
