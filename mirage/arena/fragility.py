"""Fragility of ranks: the number of queries or verdicts whose removal changes a rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, islice
from typing import Any

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena import estimation
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.judgments import Judgments, JudgmentsLike
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.statistics.ranks import ranks

_PLACES = 3  # largest difference in rank of two models whose order is tested
_ROUNDS = 5  # times that influences are recomputed near the logits at which the order changes
_AROUND = 2  # sizes tried above and below the estimated size of a removal
_TRIES = 1 << 22  # limit on the array elements of all removals that the exhaustive search tries
_AT_ONCE = 1 << 20  # limit on the array elements of removals that are fitted together


@dataclass(frozen=True)
class Removal:
    """Queries or judgments that were dropped, and the rank of a model without them.

    Attributes:
        dropped: Ids of the dropped queries, or row numbers of the dropped judgments.
        of: Total number of queries or judgments before the removal.
        rank: Rank of the model after the removal.
        first: Name of the model in first place after the removal.
    """

    dropped: tuple[str, ...] | tuple[int, ...]
    of: int
    rank: int
    first: str


@dataclass(frozen=True)
class Fragility:
    """The smallest removals that change the rank of a model.

    Attributes:
        model: Name of the model.
        rank: Rank of the model with all judgments.
        queries: The smallest removal of queries that changes the rank; ``None`` if the search found
            none among removals of up to half of the queries.
        verdicts: The smallest removal of judgments that changes the rank; ``None`` if the search
            found none among removals of up to half of the judgments.
    """

    model: str
    rank: int
    queries: Removal | None
    verdicts: Removal | None

    def __str__(self) -> str:
        parts = [
            f"without {len(removal.dropped)} of {removal.of} {kind} {self._outcome_text(removal)}"
            for kind, removal in (
                (f"queries{_example_queries(self.queries)}", self.queries),
                ("verdicts", self.verdicts),
            )
            if removal is not None
        ]
        if not parts:
            parts = ["no removal of up to half of the queries or verdicts was found to change that"]
        return f"{self.model} is {_rank_text(self.rank)}; {'; '.join(parts)}."

    def _outcome_text(self, removal: Removal) -> str:
        if self.rank == 1:
            return f"{removal.first} is"
        return f"it is {_rank_text(removal.rank)}"


def fragility(
    judgments: JudgmentsLike,
    *,
    models: Collection[str] | None = None,
    bradley_terry: BradleyTerry | None = None,
) -> tuple[Fragility, ...]:
    """Find the smallest sets of queries and of verdicts whose removal changes each model's rank.

    Dropping a handful of verdicts can change which model is first (Huang, Shen, Wei & Broderick
    2025, Dropping Just a Handful of Preferences Can Change Top Large Language Model Rankings, arXiv
    2508.11847). As in that paper, the function selects removals by their approximate influence on
    the difference of two logits (to first order; Broderick, Giordano & Meager 2020, An Automatic
    Finite-Sample Robustness Metric, arXiv 2011.14999), and checks them by a new fit. It then
    recomputes the influences at the new logits and selects again, until the selected removal stays
    the same. If there are only a few possible removals of a size, it tries all of them.

    Each returned removal changes the rank in a new fit to the remaining judgments, which still
    connect all models. With few judgments, all smaller removals are tried, so the result is the
    smallest; ``validation/coverage/fragility.py`` compares the results with an exhaustive search.
    19 models on 100 queries take about a second. The time grows with the fourth power of the number
    of models, or with the third power if ``models`` lists only a few of them.

    Args:
        judgments: Judgments, as for :meth:`BradleyTerry.fit`.
        models: Names of the models whose fragility is computed; all by default.
        bradley_terry: The model to fit; ``BradleyTerry()`` by default.

    Returns:
        One result per model, in the order of :attr:`Judgments.models`.

    Raises:
        JudgmentError: As for :meth:`BradleyTerry.fit`; or pairs were chosen adaptively.
        SettingError: The Bradley-Terry model has controls.
        UnknownNameError: A name in ``models`` has no judgments.

    Example:
        >>> from mirage.arena import Judgments, fragility
        >>> judgments = Judgments.from_arrays(
        ...     query=["q1", "q2", "q3", "q4", "q5"],
        ...     model_a=["x"] * 5,
        ...     model_b=["y"] * 5,
        ...     score=[1, 1, 1, 0, 0],
        ... )
        >>> fragility(judgments)[0].verdicts.dropped
        (0, 1)
    """
    model = BradleyTerry() if bradley_terry is None else bradley_terry
    if model.controls:
        raise SettingError("fragility does not support controls; pass a BradleyTerry without them")
    columns = model._judgments_to_fit(judgments)
    if columns.halves is not None:
        raise JudgmentError(
            "fragility does not support adaptively chosen pairs: without the removed verdicts, "
            "other pairs would have been chosen, whose verdicts are not known; judge randomly "
            "chosen pairs"
        )
    wins = estimation.win_matrix(columns.a, columns.b, columns.score, len(columns.models))
    model._check(wins, int(np.count_nonzero(columns.score == 0.5)), columns)
    selected_models = _model_indices(columns.models, models)
    query_search = _run_search(_Units.of_queries(columns), model, columns, selected_models)
    verdict_search = _run_search(_Units.of_verdicts(columns), model, columns, selected_models)
    return tuple(
        Fragility(
            columns.models[index],
            int(query_search.rank[index]),
            query_search.removal(row, lambda kinds: _dropped_queries(columns, kinds)),
            verdict_search.removal(row, lambda kinds: _dropped_rows(columns, kinds)),
        )
        for row, index in enumerate(selected_models.tolist())
    )


def _model_indices(names: Sequence[str], models: Collection[str] | None) -> Ints:
    """Return the sorted indices in ``names`` of the models whose fragility is computed."""
    if models is None:
        return np.arange(len(names))
    for name in models:
        if name not in names:
            raise UnknownNameError("model", name, names)
    return np.array([i for i, name in enumerate(names) if name in models], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class _Units:
    """The queries, or the verdicts, that can be dropped from a fit; each is called a unit.

    Units that have the same effect on the fit form a kind, such as verdicts with the same two
    models and the same outcome.

    Attributes:
        wins: Flattened win matrix of one unit of each kind, as a sparse array of shape ``(kinds,
            models * models)``.
        ties: Number of ties in one unit of each kind.
        counts: Number of units of each kind.
    """

    wins: Any
    ties: Floats
    counts: Ints

    @classmethod
    def of_queries(cls, columns: Judgments) -> _Units:
        """Return the queries as units that can be dropped; each query is a kind by itself."""
        queries = len(columns.query_ids)
        ties = np.bincount(columns.query[columns.score == 0.5], minlength=queries)
        wins = _win_rows(columns, columns.query, queries)
        return cls(wins, ties.astype(np.float64), np.ones(queries, dtype=np.intp))

    @classmethod
    def of_verdicts(cls, columns: Judgments) -> _Units:
        """Return verdicts as units; those with the same models and outcome form a kind."""
        _, first, counts = np.unique(_outcome_kinds(columns), return_index=True, return_counts=True)
        examples = replace(
            columns, a=columns.a[first], b=columns.b[first], score=columns.score[first]
        )
        wins = _win_rows(examples, np.arange(len(first)), len(first))
        return cls(wins, (examples.score == 0.5).astype(np.float64), counts)

    def remaining(self, dropped: Ints) -> tuple[Floats, Floats]:
        """Return the win matrix and the number of ties after each removal.

        Each row of ``dropped`` has the number of dropped queries or verdicts of each kind.
        """
        models = math.isqrt(self.wins.shape[1])
        counts = (self.counts - dropped).astype(np.float64)
        return np.asarray(counts @ self.wins).reshape(-1, models, models), counts @ self.ties

    def influence(self, direction: Floats, expected: Floats) -> Floats:
        """Return the first-order influence of one unit of each kind on a difference of logits.

        A judgment of models a and b moves the difference by ``(score - expected[a, b])
        (direction[a] - direction[b])``.

        Args:
            direction: Inverse information times the contrast vector (1 and -1 for the two models),
                of shape ``(..., models)``.
            expected: Expected score of model i against model j, at ``[..., i, j]``.

        Returns:
            The influences, of shape ``(..., kinds)``.
        """
        steps = direction[:, :, None] - direction[:, None, :]
        moves = (expected.swapaxes(1, 2) * steps).reshape(len(steps), -1)
        return np.asarray((self.wins @ moves.T).T)


class _Search:
    """A search for the smallest removal that changes the rank of each selected model.

    A removal is a set of units (queries or verdicts) that are dropped from the fit. For each model
    of ``selected``, ``size`` and ``dropped`` describe the smallest removal found so far, and
    ``after`` contains the logits after this removal.
    """

    def __init__(
        self, units: _Units, model: BradleyTerry, columns: Judgments, selected: Ints
    ) -> None:
        self.units, self.model, self.columns = units, model, columns
        self.selected = selected
        wins, ties = units.remaining(np.zeros((1, len(units.counts)), dtype=np.intp))
        logits, log_nu = model._solve(wins, ties)
        self.wins, self.ties = wins[0], ties[0]
        self.start = (logits if log_nu is None else np.column_stack([logits, log_nu]))[0]
        self.logits, self.rank = logits[0], ranks(logits[0])
        self.size = np.full(len(selected), int(units.counts.sum()) // 2 + 1)
        self.dropped = np.zeros((len(selected), len(units.counts)), dtype=np.intp)
        self.after = np.tile(self.logits, (len(selected), 1))

    def try_out(self, dropped: Ints, start: Floats) -> Floats:
        """Fit the logits after each removal, and record the smallest removals that change a rank.

        Args:
            dropped: Number of dropped units of each kind, one row per removal.
            start: Parameters at which the fits start, one row per removal.

        Returns:
            The fitted parameters, one row per removal.
        """
        wins, ties = self.units.remaining(dropped)
        if self.model.ridge == 0:
            # Without a ridge, disconnected models have no logits; fit all judgments instead.
            valid = np.array([*map(self._is_valid, wins, ties)], dtype=bool)
            wins[~valid], ties[~valid] = self.wins, self.ties
        logits, log_nu = self.model._solve(wins, ties, start)
        changed, sizes = ranks(logits) != self.rank, dropped.sum(axis=1)
        for i, index in enumerate(self.selected.tolist()):
            smaller = np.flatnonzero(changed[:, index] & (sizes < self.size[i]))
            for row in smaller[np.argsort(sizes[smaller], kind="stable")].tolist():
                if self._is_valid(wins[row], ties[row]):
                    self.size[i], self.dropped[i] = sizes[row], dropped[row]
                    self.after[i] = logits[row]
                    break
        return logits if log_nu is None else np.column_stack([logits, log_nu])

    def removal(
        self, i: int, list_units: Callable[[Ints], tuple[str, ...] | tuple[int, ...]]
    ) -> Removal | None:
        """Return the smallest removal found that changes the rank of a selected model.

        The result is ``None`` if no such removal was found.

        Args:
            i: Index of the model in ``selected``.
            list_units: Function that returns the ids of the dropped queries, or the row numbers of
                the dropped verdicts. Its argument is a row of ``dropped``: the number of dropped
                units of each kind, that is, of each query, or of verdicts with the same models and
                outcome.
        """
        if not self.dropped[i].any():
            return None
        first = self.columns.models[int(self.after[i].argmax())]
        rank = int(ranks(self.after[i])[self.selected[i]])
        total = int(self.units.counts.sum())
        return Removal(list_units(self.dropped[i]), total, rank, first)

    def _is_valid(self, wins: Floats, ties: float) -> bool:
        """Return whether the fit to these wins has finite logits on a common scale."""
        try:
            self.model._check(wins, int(ties), self.columns)
        except JudgmentError:
            return False
        return True


def _run_search(units: _Units, model: BradleyTerry, columns: Judgments, selected: Ints) -> _Search:
    """Search for the smallest removals of ``units``, and return the finished search."""
    search = _Search(units, model, columns, selected)
    _follow_influence(search)
    _try_all_smaller(search)
    return search


def _follow_influence(search: _Search) -> None:
    """Search for removals of the most influential units that swap neighbours in the ranking."""
    units, model = search.units, search.model
    order = np.argsort(-search.logits, kind="stable")
    pairs = np.array([*_neighbours(len(order))])
    pairs = pairs[np.isin(order[pairs], search.selected).any(axis=1)]
    upper, lower = pairs.T
    contrast = np.eye(len(order))[order[upper]] - np.eye(len(order))[order[lower]]
    dropped = np.zeros((len(contrast), len(units.counts)), dtype=np.intp)
    params = np.tile(search.start, (len(contrast), 1))
    for _ in range(_ROUNDS):
        influence = _influences(units, model, dropped, params, contrast)
        # The difference of logits with all judgments, extrapolated from the current parameters.
        gap = (contrast * params[:, : len(order)]).sum(axis=1) + (dropped * influence).sum(axis=1)
        largest = np.argsort(-influence, axis=1, kind="stable")
        sizes = _sizes(influence, largest, units.counts, gap)
        previous, dropped = dropped, _largest_units(largest, units.counts, sizes)
        params = search.try_out(dropped, params)
        changed = (previous != dropped).any(axis=1)
        if not changed.any():
            break
    for extra in range(-_AROUND, _AROUND + 1):
        search.try_out(_largest_units(largest, units.counts, sizes + extra), params)


def _neighbours(models: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of positions in the ranking that are at most :data:`_PLACES` apart."""
    for i in range(models):
        for j in range(i + 1, min(i + _PLACES + 1, models)):
            yield i, j


def _influences(
    units: _Units, model: BradleyTerry, dropped: Ints, params: Floats, contrast: Floats
) -> Floats:
    """Return the influence of a unit of each kind (see :class:`_Units`) on a logit difference.

    Args:
        units: The queries or verdicts that can be dropped.
        model: The Bradley-Terry model.
        dropped: Number of removed units of each kind, with one row per pair of models.
        params: Parameters fitted after this removal, with one row per pair of models.
        contrast: For each pair of models, a row with 1 for the first model and -1 for the second.
    """
    models = contrast.shape[1]
    logits, nus = (
        params[:, :models],
        [*params[:, models]] if params.shape[1] > models else [None] * len(params),
    )
    wins, _ = units.remaining(dropped)
    information = np.array(
        [
            estimation.information(w, x, model.ridge, nu)[:models, :models]
            for w, x, nu in zip(wins, logits, nus, strict=True)
        ]
    )
    direction = np.linalg.solve(information, contrast[:, :, None])[:, :, 0]
    log_nu = params[:, models] if params.shape[1] > models else None
    return units.influence(direction, estimation.win_probabilities(logits, log_nu))


def _sizes(influence: Floats, largest: Ints, counts: Ints, gap: Floats) -> Ints:
    """Return how many queries or verdicts (units) must be dropped to close a gap of logits.

    The units with the largest influence are dropped first. The result is 0 if all units together do
    not suffice.

    Args:
        influence: Influence of one unit of each kind, with one row per pair of models.
        largest: Kinds in descending order of influence, with one row per pair of models.
        counts: Number of units of each kind.
        gap: Difference in logits of each pair of models.
    """
    largest_influence = np.maximum(np.take_along_axis(influence, largest, axis=1), 0)
    unit_counts = counts[largest]
    total_influence = (largest_influence * unit_counts).cumsum(axis=1)
    # Number of kinds needed in full; of the next kind only a part is needed.
    full_kinds = (total_influence <= gap[:, None]).sum(axis=1)
    last_kind = np.minimum(full_kinds, len(counts) - 1)[:, None]
    last_influence, last_count, total_by_then, units_by_then = (
        np.take_along_axis(x, last_kind, axis=1)[:, 0]
        for x in (largest_influence, unit_counts, total_influence, unit_counts.cumsum(axis=1))
    )
    units_of_last_kind = (
        np.floor(
            (gap - (total_by_then - last_influence * last_count))
            / np.where(last_influence > 0, last_influence, 1)
        )
        + 1
    )
    enough = (full_kinds < len(counts)) & (last_influence > 0)
    sizes = np.where(
        enough, units_by_then - last_count + np.clip(units_of_last_kind, 0, last_count), 0
    )
    return np.asarray(sizes, dtype=np.intp)


def _largest_units(largest: Ints, counts: Ints, sizes: Ints) -> Ints:
    """Return how many queries or verdicts (units) of each kind to drop, the most influential first.

    Args:
        largest: Kinds in descending order of influence, one row per removal.
        counts: Number of units of each kind.
        sizes: Number of units to drop in each removal.
    """
    unit_counts = counts[largest]
    dropped_counts = np.clip(
        sizes[:, None] - (unit_counts.cumsum(axis=1) - unit_counts), 0, unit_counts
    )
    dropped = np.zeros(largest.shape, dtype=np.intp)
    np.put_along_axis(dropped, largest, dropped_counts, axis=1)
    return dropped


def _try_all_smaller(search: _Search) -> None:
    """Try all removals that are smaller than the ones found so far, unless there are too many.

    All removals of a single query or verdict are tried first, then all removals of two, and so on.
    """
    kinds, counts = len(search.units.counts), search.units.counts
    cost = len(search.rank) ** 3
    budget = _TRIES
    size = 1
    while size < search.size.max():
        budget -= math.comb(kinds + size - 1, size) * cost
        if budget < 0:
            break
        combinations = combinations_with_replacement(range(kinds), size)
        while chunk := list(islice(combinations, max(1, _AT_ONCE // max(cost, kinds)))):
            dropped = np.zeros((len(chunk), kinds), dtype=np.intp)
            np.add.at(dropped, (np.arange(len(chunk))[:, None], np.array(chunk)), 1)
            dropped = dropped[(dropped <= counts).all(axis=1)]
            search.try_out(dropped, np.tile(search.start, (len(dropped), 1)))
        size += 1


def _win_rows(columns: Judgments, row: Any, rows: int) -> Any:
    """Return win matrices as a sparse array of shape ``(rows, models * models)``.

    Each row is a flattened win matrix. ``row`` is the index of the row in which each judgment is
    counted.
    """
    from scipy.sparse import csr_array

    models = len(columns.models)
    a, b, scores = columns.a.astype(np.intp), columns.b.astype(np.intp), columns.score.astype(float)
    cells = np.concatenate([a * models + b, b * models + a])
    entries = np.concatenate([scores, 1 - scores])
    return csr_array((entries, (np.concatenate([row, row]), cells)), shape=(rows, models**2))


def _outcome_kinds(columns: Judgments) -> Ints:
    """Return an integer for each judgment that identifies its pair of models and its outcome."""
    a, b = columns.a.astype(np.intp), columns.b.astype(np.intp)
    scores = np.where(a < b, columns.score, 1 - columns.score)
    pair = np.minimum(a, b) * len(columns.models) + np.maximum(a, b)
    return np.asarray(3 * pair + 2 * scores, dtype=np.intp)


def _dropped_rows(columns: Judgments, dropped: Ints) -> tuple[int, ...]:
    """Return the row numbers of judgments to drop, sorted.

    They are the first ``dropped[k]`` judgments of the k-th kind. Judgments with the same two models
    and the same outcome form a kind.
    """
    kind = np.unique(_outcome_kinds(columns), return_inverse=True)[1]
    rows = [np.flatnonzero(kind == k)[: dropped[k]] for k in np.flatnonzero(dropped)]
    return tuple(np.sort(np.concatenate(rows)).tolist()) if rows else ()


def _dropped_queries(columns: Judgments, dropped: Ints) -> tuple[str, ...]:
    """Return the ids of the queries for which ``dropped`` is not 0."""
    return tuple(columns.query_ids[query] for query in np.flatnonzero(dropped).tolist())


def _example_queries(removal: Removal | None, limit: int = 5) -> str:
    """Return the ids of the first few dropped queries as text in parentheses."""
    if removal is None:
        return ""
    more = ", ..." if len(removal.dropped) > limit else ""
    return f" ({', '.join(map(str, removal.dropped[:limit]))}{more})"


def _rank_text(rank: int) -> str:
    """Return a rank as text, such as ``first`` or ``at rank 2``."""
    return "first" if rank == 1 else f"at rank {rank}"
