"""How few queries, or verdicts, the rank of a model hangs on."""

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

__all__ = ["Fragility", "Removal", "fragility"]

_PLACES = 3  # how far apart in the ranking models are that may change places
_ROUNDS = 5  # of finding removals at logits that are ever nearer to those at which places change
_AROUND = 2  # removals of so many more and fewer are tried, too
_TRIES = 1 << 22  # numbers in the informations of the removals that are tried one by one
_AT_ONCE = 1 << 20  # and of those that are fitted at a time


@dataclass(frozen=True)
class Removal:
    """What was dropped, and what became of a model's rank.

    Attributes:
        dropped: ids of queries, or rows of judgments.
        of: how many queries or judgments there are.
        rank: of the model, without them.
        first: who is first, without them.
    """

    dropped: tuple[str, ...] | tuple[int, ...]
    of: int
    rank: int
    first: str


@dataclass(frozen=True)
class Fragility:
    """On how little the rank of a model hangs.

    Attributes:
        model: its name.
        rank: with all judgments.
        queries: the fewest queries without which it has another rank; ``None`` where no removal
            of up to half of them was found that changes it.
        verdicts: likewise, the fewest judgments.
    """

    model: str
    rank: int
    queries: Removal | None
    verdicts: Removal | None

    def __str__(self) -> str:
        parts = [
            f"without {len(removal.dropped)} of {removal.of} {kind} {self._outcome(removal)}"
            for kind, removal in (
                (f"queries{_shown(self.queries)}", self.queries),
                ("verdicts", self.verdicts),
            )
            if removal is not None
        ]
        if not parts:
            parts = ["no half of the queries, or of the verdicts, was found to change that"]
        return f"{self.model} is {_place(self.rank)}; {'; '.join(parts)}."

    def _outcome(self, removal: Removal) -> str:
        if self.rank == 1:
            return f"{removal.first} is"
        return f"it is {_place(removal.rank)}"


def fragility(
    judgments: JudgmentsLike,
    *,
    models: Collection[str] | None = None,
    bradley_terry: BradleyTerry | None = None,
) -> tuple[Fragility, ...]:
    """How few queries, and how few verdicts, each model's rank hangs on.

    Dropping a handful of verdicts can change who is first (Huang, Shen, Wei & Broderick 2025,
    Dropping Just a Handful of Preferences Can Change Top Large Language Model Rankings, arXiv
    2508.11847). As there, what is dropped is found by its influence on the difference of two
    logits, to first order (Broderick, Giordano & Meager 2020, An Automatic Finite-Sample
    Robustness Metric, arXiv 2011.14999), and then by fitting what is left. Here influences are
    taken again at the logits without what was dropped, near which the two change places, until
    that leads to the same removal; and where there are few removals of a size, all are tried.

    Every removal that is named changes the rank, by a fit to what is left, which holds the models
    together. That there is none smaller is sure where all were tried, as in small arenas;
    ``benchmarks/fragility.py`` compares with all removals. 19 models on 100 queries take a second.
    The time grows with the fourth power of the number of models, and with the third power if
    ``models`` names only a few of them.

    Args:
        judgments: as :meth:`BradleyTerry.fit` takes them.
        models: Names of the models whose fragility is computed; all by default.
        bradley_terry: how they are fitted, ``BradleyTerry()`` by default.

    Returns:
        One per model, in the order of :attr:`Judgments.models`.

    Raises:
        JudgmentError: as :meth:`BradleyTerry.fit`; or pairs were chosen adaptively.
        SettingError: the fit has controls.
        UnknownNameError: a name in ``models`` was not judged.
    """
    model = BradleyTerry() if bradley_terry is None else bradley_terry
    if model.controls:
        raise SettingError("removals are fitted without controls; leave them out here")
    columns = model._counted(judgments)
    if columns.halves is not None:
        raise JudgmentError(
            "pairs were chosen for what verdicts had said: without some of these, others would "
            "have been judged, and nothing says what ranks would be then"
        )
    wins = estimation.win_matrix(columns.a, columns.b, columns.score, len(columns.models))
    model._check(wins, int(np.count_nonzero(columns.score == 0.5)), columns)
    selected = _selected(columns.models, models)
    queries = _searched(_Units.of_queries(columns), model, columns, selected)
    verdicts = _searched(_Units.of_verdicts(columns), model, columns, selected)
    return tuple(
        Fragility(
            columns.models[index],
            int(queries.rank[index]),
            queries.removal(row, lambda kinds: _queries(columns, kinds)),
            verdicts.removal(row, lambda kinds: _rows(columns, kinds)),
        )
        for row, index in enumerate(selected.tolist())
    )


def _selected(names: Sequence[str], models: Collection[str] | None) -> Ints:
    """Return the sorted indices in ``names`` of the models whose fragility is wanted."""
    if models is None:
        return np.arange(len(names))
    for name in models:
        if name not in names:
            raise UnknownNameError("model", name, names)
    return np.array([i for i, name in enumerate(names) if name in models], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class _Units:
    """What may be dropped: so many of each kind, with the wins and ties of one such.

    ``wins`` is a sparse matrix ``(kinds, models * models)`` of win matrices.
    """

    wins: Any
    ties: Floats
    counts: Ints

    @classmethod
    def of_queries(cls, columns: Judgments) -> _Units:
        """Queries, each of a kind of its own."""
        queries = len(columns.query_ids)
        ties = np.bincount(columns.query[columns.score == 0.5], minlength=queries)
        wins = _win_rows(columns, columns.query, queries)
        return cls(wins, ties.astype(np.float64), np.ones(queries, dtype=np.intp))

    @classmethod
    def of_verdicts(cls, columns: Judgments) -> _Units:
        """Verdicts; those with the same models and outcome are of one kind."""
        _, first, counts = np.unique(_kinds(columns), return_index=True, return_counts=True)
        one_each = replace(
            columns, a=columns.a[first], b=columns.b[first], score=columns.score[first]
        )
        wins = _win_rows(one_each, np.arange(len(first)), len(first))
        return cls(wins, (one_each.score == 0.5).astype(np.float64), counts)

    def left(self, dropped: Ints) -> tuple[Floats, Floats]:
        """Win matrices, and numbers of ties, without what each row of ``dropped`` counts."""
        models = math.isqrt(self.wins.shape[1])
        kept = (self.counts - dropped).astype(np.float64)
        return np.asarray(kept @ self.wins).reshape(-1, models, models), kept @ self.ties

    def influence(self, direction: Floats, expected: Floats) -> Floats:
        """How far one of each kind moves a contrast of logits, to first order: ``(..., kinds)``.

        ``direction (..., models)`` is the inverse information times the contrast. A judgment of
        a and b moves it by ``(score - expected[a, b]) (direction[a] - direction[b])``.
        """
        steps = direction[:, :, None] - direction[:, None, :]
        moves = (expected.swapaxes(1, 2) * steps).reshape(len(steps), -1)
        return np.asarray((self.wins @ moves.T).T)


class _Search:
    """The smallest removal tried so far that changes the rank of each selected model.

    ``size``, ``dropped`` and ``after`` have one row per model of ``selected``.
    """

    def __init__(
        self, units: _Units, model: BradleyTerry, columns: Judgments, selected: Ints
    ) -> None:
        self.units, self.model, self.columns = units, model, columns
        self.selected = selected
        wins, ties = units.left(np.zeros((1, len(units.counts)), dtype=np.intp))
        logits, log_nu = model._solve(wins, ties)
        self.wins, self.ties = wins[0], ties[0]
        self.start = (logits if log_nu is None else np.column_stack([logits, log_nu]))[0]
        self.logits, self.rank = logits[0], ranks(logits[0])
        self.size = np.full(len(selected), int(units.counts.sum()) // 2 + 1)
        self.dropped = np.zeros((len(selected), len(units.counts)), dtype=np.intp)
        self.after = np.tile(self.logits, (len(selected), 1))

    def try_out(self, dropped: Ints, start: Floats) -> Floats:
        """Logits by what each of these removals leaves; the smallest that change ranks are kept.

        ``start`` is where the fits start: logits, and log nu where ties have one.
        """
        wins, ties = self.units.left(dropped)
        if self.model.ridge == 0:  # there are no logits for what falls into pieces
            whole = np.array([*map(self._holds, wins, ties)], dtype=bool)
            wins[~whole], ties[~whole] = self.wins, self.ties
        logits, log_nu = self.model._solve(wins, ties, start)
        changed, sizes = ranks(logits) != self.rank, dropped.sum(axis=1)
        for i, index in enumerate(self.selected.tolist()):
            better = np.flatnonzero(changed[:, index] & (sizes < self.size[i]))
            for row in better[np.argsort(sizes[better], kind="stable")].tolist():
                if self._holds(wins[row], ties[row]):
                    self.size[i], self.dropped[i] = sizes[row], dropped[row]
                    self.after[i] = logits[row]
                    break
        return logits if log_nu is None else np.column_stack([logits, log_nu])

    def removal(
        self, i: int, named: Callable[[Ints], tuple[str, ...] | tuple[int, ...]]
    ) -> Removal | None:
        """Return the smallest removal for row ``i`` of ``selected``, ``None`` if there is none."""
        if not self.dropped[i].any():
            return None
        first = self.columns.models[int(self.after[i].argmax())]
        rank = int(ranks(self.after[i])[self.selected[i]])
        of = int(self.units.counts.sum())
        return Removal(named(self.dropped[i]), of, rank, first)

    def _holds(self, wins: Floats, ties: float) -> bool:
        try:
            self.model._check(wins, int(ties), self.columns)
        except JudgmentError:
            return False
        return True


def _searched(units: _Units, model: BradleyTerry, columns: Judgments, selected: Ints) -> _Search:
    search = _Search(units, model, columns, selected)
    _follow_influence(search)
    _try_all_smaller(search)
    return search


def _follow_influence(search: _Search) -> None:
    """For neighbours in the ranking, drop what has most influence on their difference."""
    units, model = search.units, search.model
    order = np.argsort(-search.logits, kind="stable")
    pairs = np.array([*_neighbours(len(order))])
    pairs = pairs[np.isin(order[pairs], search.selected).any(axis=1)]
    upper, lower = pairs.T
    contrast = np.eye(len(order))[order[upper]] - np.eye(len(order))[order[lower]]
    dropped = np.zeros((len(contrast), len(units.counts)), dtype=np.intp)
    at = np.tile(search.start, (len(contrast), 1))
    for _ in range(_ROUNDS):
        influence = _influences(units, model, dropped, at, contrast)
        # What the difference would be with everything, as seen from here.
        gap = (contrast * at[:, : len(order)]).sum(axis=1) + (dropped * influence).sum(axis=1)
        largest = np.argsort(-influence, axis=1, kind="stable")
        sizes = _sizes(influence, largest, units.counts, gap)
        before, dropped = dropped, _first(largest, units.counts, sizes)
        at = search.try_out(dropped, at)
        moved = (before != dropped).any(axis=1)
        if not moved.any():
            break
    for more in range(-_AROUND, _AROUND + 1):
        search.try_out(_first(largest, units.counts, sizes + more), at)


def _neighbours(models: int) -> Iterator[tuple[int, int]]:
    for i in range(models):
        for j in range(i + 1, min(i + _PLACES + 1, models)):
            yield i, j


def _influences(
    units: _Units, model: BradleyTerry, dropped: Ints, at: Floats, contrast: Floats
) -> Floats:
    """How far one of each kind moves each contrast, without what a row says is dropped."""
    models = contrast.shape[1]
    logits, nus = at[:, :models], [*at[:, models]] if at.shape[1] > models else [None] * len(at)
    wins, _ = units.left(dropped)
    information = np.array(
        [
            estimation.information(w, x, model.ridge, nu)[:models, :models]
            for w, x, nu in zip(wins, logits, nus, strict=True)
        ]
    )
    direction = np.linalg.solve(information, contrast[:, :, None])[:, :, 0]
    log_nu = at[:, models] if at.shape[1] > models else None
    return units.influence(direction, estimation.win_probabilities(logits, log_nu))


def _sizes(influence: Floats, largest: Ints, counts: Ints, gap: Floats) -> Ints:
    """How many units, of most influence first, together have more than ``gap``; 0 if none do."""
    most = np.maximum(np.take_along_axis(influence, largest, axis=1), 0)
    many = counts[largest]
    together = (most * many).cumsum(axis=1)
    kind = (together <= gap[:, None]).sum(axis=1)  # the first that is not needed in full
    at = np.minimum(kind, len(counts) - 1)[:, None]
    last, some, by_then, so_far = (
        np.take_along_axis(x, at, axis=1)[:, 0] for x in (most, many, together, many.cumsum(axis=1))
    )
    part = np.floor((gap - (by_then - last * some)) / np.where(last > 0, last, 1)) + 1
    enough = (kind < len(counts)) & (last > 0)
    sizes = np.where(enough, so_far - some + np.clip(part, 0, some), 0)
    return np.asarray(sizes, dtype=np.intp)


def _first(largest: Ints, counts: Ints, sizes: Ints) -> Ints:
    """So many units of those that come first in each row, by kind."""
    many = counts[largest]
    taken = np.clip(sizes[:, None] - (many.cumsum(axis=1) - many), 0, many)
    dropped = np.zeros(largest.shape, dtype=np.intp)
    np.put_along_axis(dropped, largest, taken, axis=1)
    return dropped


def _try_all_smaller(search: _Search) -> None:
    """All removals of one unit, of two, and so on, as far as they are few."""
    kinds, counts = len(search.units.counts), search.units.counts
    each = len(search.rank) ** 3
    budget = _TRIES
    size = 1
    while size < search.size.max():
        budget -= math.comb(kinds + size - 1, size) * each
        if budget < 0:
            break
        some = combinations_with_replacement(range(kinds), size)
        while chunk := list(islice(some, max(1, _AT_ONCE // max(each, kinds)))):
            dropped = np.zeros((len(chunk), kinds), dtype=np.intp)
            np.add.at(dropped, (np.arange(len(chunk))[:, None], np.array(chunk)), 1)
            dropped = dropped[(dropped <= counts).all(axis=1)]
            search.try_out(dropped, np.tile(search.start, (len(dropped), 1)))
        size += 1


def _win_rows(columns: Judgments, row: Any, rows: int) -> Any:
    """Win matrices of judgments, added up by ``row``: sparse, ``(rows, models * models)``."""
    from scipy.sparse import csr_array

    models = len(columns.models)
    a, b, got = columns.a.astype(np.intp), columns.b.astype(np.intp), columns.score.astype(float)
    cells = np.concatenate([a * models + b, b * models + a])
    entries = np.concatenate([got, 1 - got])
    return csr_array((entries, (np.concatenate([row, row]), cells)), shape=(rows, models**2))


def _kinds(columns: Judgments) -> Ints:
    """A number for what two models were compared, and what came of it."""
    a, b = columns.a.astype(np.intp), columns.b.astype(np.intp)
    got = np.where(a < b, columns.score, 1 - columns.score)
    pair = np.minimum(a, b) * len(columns.models) + np.maximum(a, b)
    return np.asarray(3 * pair + 2 * got, dtype=np.intp)


def _rows(columns: Judgments, dropped: Ints) -> tuple[int, ...]:
    """Rows of judgments of which ``dropped`` says how many there are of each kind."""
    kind = np.unique(_kinds(columns), return_inverse=True)[1]
    rows = [np.flatnonzero(kind == k)[: dropped[k]] for k in np.flatnonzero(dropped)]
    return tuple(np.sort(np.concatenate(rows)).tolist()) if rows else ()


def _queries(columns: Judgments, dropped: Ints) -> tuple[str, ...]:
    return tuple(columns.query_ids[query] for query in np.flatnonzero(dropped).tolist())


def _shown(removal: Removal | None, most: int = 5) -> str:
    """The first of the queries, for a line of text."""
    if removal is None:
        return ""
    more = ", ..." if len(removal.dropped) > most else ""
    return f" ({', '.join(map(str, removal.dropped[:most]))}{more})"


def _place(rank: int) -> str:
    return "first" if rank == 1 else f"at rank {rank}"
