"""How many queries, and repeats of each, tell whether a loss worth finding is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from mirage._base.arrays import Floats
from mirage._base.tables import Table, to_text
from mirage.dataset import Cluster, clusters_of
from mirage.errors import SettingError
from mirage.features.registry import facts
from mirage.statistics.clusters import cluster_codes
from mirage.statistics.power import simulated_verdicts
from mirage.statistics.variance import variance_components
from mirage.testing._inputs import Place, dataset_of
from mirage.testing._noise import Noise, assumed, measured, observed, simulated
from mirage.testing.baseline import Baseline, read_baseline
from mirage.testing.comparison import Comparison
from mirage.testing.gate import default_names

__all__ = ["Chances", "Design", "More", "Plan", "plan", "what_would_tell"]

REPEATS = (1, 2, 3, 5)
"""How often a query may be asked, of which a plan names the cheapest."""

MOST = 2000
"""Queries above which nobody plans."""

_ROUGH, _FINE = 200, 600  # simulated comparisons, while a number is looked for and at its end
_AT_ONCE = 500_000  # numbers in an array of simulated comparisons
_SLACK = 0.03  # by which a chance may be off, of those


class Chances(NamedTuple):
    """How often a gate of some size says what is true.

    Attributes:
        found: how often a loss of the margin is called worse.
        cleared: how often a system that lost nothing is called no worse.
    """

    found: float
    cleared: float


class Design(NamedTuple):
    """So many queries, asked so often.

    Attributes:
        queries: how many.
        repeats: how often each is asked.
        calls: answers of the system that a run takes; the baseline takes as many once.
        cost: of the calls of a run, and of writing the queries.
        chances: how often it says what is true.
        enough: whether both chances reach the power asked for.
    """

    queries: int
    repeats: int
    calls: int
    cost: float
    chances: Chances
    enough: bool


@dataclass(frozen=True)
class Plan:
    """What it takes to tell whether a loss is there.

    Attributes:
        loss: the mean loss worth finding, as a share of a feature's range.
        power: the chance that is asked for.
        alpha: the level of each verdict.
        feature: in which the loss is hardest to see; empty where no baseline says.
        taken: what was taken for granted, in words.
        designs: one for each number of repeats.
        best: the cheapest that is enough, or of a budget the surest; ``None`` where none is enough.
    """

    loss: float
    power: float
    alpha: float
    feature: str
    taken: str
    designs: tuple[Design, ...]
    best: Design | None

    def __str__(self) -> str:
        where = f" in {self.feature}" if self.feature else ""
        title = f"To tell a loss of {self.loss:g}{where} from none, at alpha {self.alpha:g}"
        header = ("repeats", "queries", "calls a run", "cost", "found", "cleared")
        rows = tuple(_cells(design) for design in self.designs)
        marked = tuple(design == self.best for design in self.designs)
        notes = [
            f"found, cleared: how often the loss is called worse, and none no worse; asked for is "
            f"{self.power:g} of each, give or take {_SLACK:g}. The baseline takes a run's calls "
            "once",
            f"Taken for granted: {self.taken}",
        ]
        if self.best is None:
            notes.insert(0, "None of these is enough")
        return to_text(Table(title, header, rows, marked, tuple(notes), name=0).filled())


def _cells(design: Design) -> tuple[str, ...]:
    cost = f"{design.cost:,.2f}" if design.cost else ""
    chances = (f"{chance:.2f}" for chance in design.chances)
    return str(design.repeats), str(design.queries), f"{design.calls:,}", cost, *chances


def plan(
    loss: float = 0.1,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    baseline: Baseline | str | Path | None = None,
    on: Place = None,
    cluster: Cluster = None,
    repeats: Sequence[int] = REPEATS,
    queries: int | None = None,
    calls: int | None = None,
    cost: float | None = None,
    call_cost: float = 0.0,
    query_cost: float = 0.0,
    unstable: float = 0.1,
    moved: float = 0.1,
    cluster_size: int = 1,
    correlation: float = 0.2,
    seed: int = 0,
) -> Plan:
    """How many queries, asked how often, tell a loss worth finding from none.

    Comparisons are simulated and given the gate's verdicts, with its count of answers that turned
    from right to wrong; all answers count as reworded. Where a loss is, so many queries lose
    all that they have of a feature, in every repeat, that its mean loses ``loss``. What differs
    without a loss is drawn from a baseline with repeats: by how much two answers to one query
    differ. Without repeats it is taken that a share ``unstable`` of the answers is another one, as
    often better as worse, if the query is asked again. In both, a share ``moved`` of the queries
    gets better or worse, in all repeats, by any change of the system. More repeats make the first
    smaller, and not the second. ``benchmarks/power.py`` prints how far such predictions come true.

    Args:
        loss: the mean loss in a feature, as a share of its range; also the margin of ``no worse``.
        power: how often the loss is to be called worse, and none of it no worse.
        alpha: the level of each verdict.
        baseline: what :func:`save_baseline` wrote, or returned, of repeats if there are any.
        on: the queries of the baseline, which say what hangs together; as for
            :func:`assert_no_regression`.
        cluster: what queries hang together by, where they do not say so; likewise.
        repeats: how often a query may be asked.
        queries: as many as there are at most; by default as many as it takes.
        calls: answers that a run may take, of which the surest split is looked for.
        cost: likewise the money for a run's calls and the queries.
        call_cost: money for one answer.
        query_cost: money for writing one query.
        unstable: share of answers that change when a query is asked again, where no baseline says.
        moved: share of the queries that a change of the system moves either way.
        cluster_size: queries that hang together, where there is no baseline.
        correlation: of what happens to two queries of one cluster, 0 to 1.
        seed: of the simulation.

    Raises:
        SettingError: a setting that makes no sense, or no feature can lose so much.
        DatasetError: the baseline cannot be read, or is of other queries.
    """
    _check(loss, power, alpha, unstable, moved, correlation, cluster_size, repeats)
    if cost is not None and not (call_cost or query_cost):
        raise SettingError("a budget of money needs to know what an answer or a query costs")
    told = _Told(unstable, moved, cluster_size, correlation)
    noise, feature, taken = (
        (assumed(*told), "", told.words())
        if baseline is None
        else _of_baseline(baseline, on, cluster, loss, told)
    )
    gate = _Gate(noise, loss, alpha, seed)
    designs = []
    for times in sorted(set(repeats)):
        each = query_cost + times * call_cost
        most: list[int | None] = [MOST, queries]
        most += [None if calls is None else calls // times]
        most += [None if cost is None else int(cost / each)]
        number = max(1, min(one for one in most if one is not None))
        if calls is None and cost is None:
            number = min(number, gate.enough(times, power))
        chances = gate.chances(number, times, _FINE)
        sure = min(chances) >= power - _SLACK
        designs.append(Design(number, times, number * times, number * each, chances, sure))
    return Plan(loss, power, alpha, feature, taken, tuple(designs), _best(designs, calls, cost))


class _Told(NamedTuple):
    """What is taken for granted where nothing was measured."""

    unstable: float
    moved: float
    cluster_size: int
    correlation: float

    def words(self, measured: str = "") -> str:
        size = f"clusters of {self.cluster_size}" if self.cluster_size > 1 else "no clusters"
        if not measured:
            measured = (
                f"{self.unstable:g} of the answers are others when asked again, {size}; the loss "
                "is in a feature that reads facts"
            )
        return (
            f"{measured}; a change of the system moves {self.moved:g} of the queries either way, "
            f"with a correlation of {self.correlation:g} within clusters if there are any; all "
            "answers are reworded"
        )


def _of_baseline(
    baseline: Baseline | str | Path, on: Place, cluster: Cluster, loss: float, told: _Told
) -> tuple[Noise, str, str]:
    """What a baseline says of the noise, and the feature in which a loss is hardest to see."""
    known = baseline if isinstance(baseline, Baseline) else read_baseline(baseline)
    dataset = dataset_of(known.table.language if on is None else on, None)
    known.check(dataset)
    table, clusters = known.table, clusters_of(dataset, cluster)
    if table.repeats is None:
        codes = cluster_codes(table.query_ids, clusters)
        size = max(1, round(len(codes) / (int(codes.max()) + 1)))
        told = told._replace(cluster_size=size)
        return assumed(*told), "", f"the baseline has no repeats; {told.words()}"
    rooms = _rooms(known, default_names(table.features, dataset))
    can_lose = {name: float(room.mean()) for name, room in rooms.items()}
    if max(can_lose.values(), default=0.0) < loss:
        raise SettingError(
            f"no feature of the baseline of {table.model!r} can lose {loss:g} on average; ask for "
            "a smaller loss"
        )
    each = np.stack([*rooms.values()], axis=1)
    noise = measured(table.columns([*rooms]), each, clusters, told.moved, told.correlation)
    spread = np.square(noise.pairs).mean(axis=(0, 1))
    spread[[room < loss for room in can_lose.values()]] = -1.0
    column = int(spread.argmax())
    noise = noise.without_twins(column)
    source = f"answers vary as in the {len(table.repeats)} repeats of the baseline"
    return noise, [*can_lose][column], told.words(source)


def _rooms(baseline: Baseline, names: Sequence[str]) -> dict[str, Floats]:
    """How much each query can lose of each feature with a range, as a share of it."""
    rooms = {}
    for name in names:
        known = facts(name, baseline.table.facts)
        width, values = known.high - known.low, baseline.table[name]
        if np.isfinite(width):
            lower = name in baseline.lower_is_better
            room = (known.high - values if lower else values - known.low) / width
            rooms[name] = np.nan_to_num(room)
    return rooms


class _Gate(NamedTuple):
    """A gate that is simulated; a loss is in the first feature."""

    noise: Noise
    loss: float
    alpha: float
    seed: int

    def chances(self, queries: int, repeats: int, simulations: int) -> Chances:
        """How often a gate of this size says what is true."""
        clusters = self.noise.clusters(queries)
        some = max(1, min(simulations, _AT_ONCE // (clusters * self.noise.pairs.shape[2])))
        found = cleared = 0
        for start in range(0, simulations, some):
            lost, kept = (
                simulated_verdicts(
                    *simulated(
                        self.noise,
                        clusters,
                        repeats,
                        min(some, simulations - start),
                        loss=loss,
                        seed=self.seed + start,
                    ),
                    alpha=self.alpha,
                    margin=self.loss,
                    facts=np.flatnonzero(self.noise.facts).tolist(),
                )
                for loss in (self.loss, 0.0)
            )
            found += int(lost.worse.sum())
            cleared += int((kept.no_worse & ~kept.worse).sum())
        return Chances(found / simulations, cleared / simulations)

    def enough(self, repeats: int, power: float) -> int:
        """The queries that it takes; more than :data:`MOST` if it takes more than these.

        Sought by steps as of a normal test, until there are too few and enough; then between them.
        """
        number, asked, at_level = 60.0, float(ndtri(power)), -float(ndtri(self.alpha))
        few: tuple[float, float] | None = None
        many: tuple[float, float] | None = None
        for simulations in (_ROUGH, _ROUGH, _ROUGH, _FINE, _FINE):
            chance = min(self.chances(round(number), repeats, simulations))
            there = float(ndtri(np.clip(chance, 0.02, 0.98)))
            if there < asked:
                few = np.log(number), there
            else:
                many = np.log(number), there
            if few and many:
                share = (asked - few[1]) / (many[1] - few[1])
                number = float(np.exp(few[0] + share * (many[0] - few[0])))
            else:
                step = ((asked + at_level) / max(there + at_level, 0.3)) ** 2
                number *= float(np.clip(step, 0.25, 4.0))
            if number > MOST:
                return MOST + 1
        return int(np.ceil(number))


def _best(designs: Sequence[Design], calls: int | None, cost: float | None) -> Design | None:
    """The cheapest that is enough; of a budget, the surest."""
    if calls is not None or cost is not None:
        return max(designs, key=lambda design: (min(design.chances), -design.repeats))
    enough = [design for design in designs if design.enough]
    return min(enough, key=lambda design: (design.cost, design.calls), default=None)


def _check(
    loss: float,
    power: float,
    alpha: float,
    unstable: float,
    moved: float,
    correlation: float,
    cluster_size: int,
    repeats: Sequence[int],
) -> None:
    shares = {"loss": loss, "power": power, "alpha": alpha}
    for name, value in shares.items():
        if not 0 < value < 1:
            raise SettingError(f"{name}={value!r} is to lie above 0 and below 1")
    for name, value in {"unstable": unstable, "moved": moved, "correlation": correlation}.items():
        if not 0 <= value <= 1:
            raise SettingError(f"{name}={value!r} is to lie from 0 to 1")
    if cluster_size < 1 or not repeats or min(repeats) < 1:
        raise SettingError("cluster_size and repeats are 1 or more")


class More(NamedTuple):
    """What would tell where nobody can.

    Attributes:
        queries: how many more queries like these; ``None`` where it takes more than :data:`MOST`.
        repeats: how often to ask each of these instead; ``None`` where that is not known, for the
            model was asked once, or not enough.
        power: how often the loss is then called worse, and none of it no worse.
    """

    queries: int | None
    repeats: int | None
    power: float

    def __str__(self) -> str:
        if self.queries is None:
            return f"{MOST} queries like these would not tell either"
        again = f", or to ask each of these {self.repeats} times" if self.repeats else ""
        return (
            f"to tell takes about {self.queries} more queries like these{again} (power "
            f"{self.power:g})"
        )


def what_would_tell(comparison: Comparison, *, power: float = 0.8, seed: int = 0) -> More:
    """How many queries more, or which number of repeats, would tell whether a margin is lost.

    Queries are drawn from those compared, with what they differ by turned either way: what was
    gained or lost on the whole is not taken for true. See :func:`plan`.

    Args:
        comparison: in which nobody can tell.
        power: how often a loss of the margin is to be called worse, and none of it no worse.
        seed: of the simulation.
    """
    compared = [change in comparison.compared for change in comparison.changes]
    losses = comparison.losses[:, compared]
    names = [change.feature for change in comparison.compared]
    if not any(compared) or not np.isfinite(losses).all():
        return More(None, None, power)
    margin, alpha = comparison.margin, comparison.alpha
    column = int(np.square(losses).sum(axis=0).argmax())

    def gate(shrink: Floats) -> _Gate:
        noise = observed(losses, comparison.codes, shrink, names).without_twins(column)
        return _Gate(noise, margin, alpha, seed)

    one = np.ones(losses.shape[1])
    needed = gate(one).enough(1, power)
    queries = max(needed - len(losses), 1) if needed <= MOST else None
    within = _within(comparison)[compared]
    if np.isnan(within).any():
        return More(queries, None, power)
    total = np.square(losses).mean(axis=0)
    share = np.divide(within, total, out=np.zeros_like(total), where=total > 0).clip(0, 1)
    times = len(comparison.after.repeats)  # type: ignore[arg-type]
    for repeats in (once for once in (2, 3, 5, 10) if once > times):
        shrink = np.sqrt(1 - share + share * times / repeats)
        if min(gate(shrink).chances(len(losses), 1, _FINE)) >= power:
            return More(queries, repeats, power)
    return More(queries, None, power)


def _within(comparison: Comparison) -> Floats:
    """The variance of differences that is owed to answers that vary; NaN if not known."""
    parts = []
    for table in (comparison.before, comparison.after):
        if table.repeats is None:
            return np.full(len(table.features), np.nan)
        parts.append(variance_components(table.repeats).within / len(table.repeats))
    return np.nan_to_num(parts[0] + parts[1])
