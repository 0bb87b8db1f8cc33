"""Planning how many queries, and repeats of each query, are needed to detect a loss.

The loss is detected by a gate: a test with :func:`mirage.testing.assert_no_regression`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from mirage._base.arrays import Floats
from mirage._base.progress import progress_bar
from mirage._base.tables import Table, to_text
from mirage.dataset import Cluster, clusters_of
from mirage.errors import SettingError
from mirage.features.registry import facts
from mirage.statistics.clusters import cluster_codes
from mirage.statistics.power import simulated_verdicts
from mirage.statistics.variance import variance_components
from mirage.testing._inputs import Place, dataset_of
from mirage.testing._noise import (
    Noise,
    assumed_noise,
    measured_noise,
    observed_noise,
    simulate_comparisons,
)
from mirage.testing.baseline import Baseline, read_baseline
from mirage.testing.comparison import Comparison
from mirage.testing.gate import default_names

REPEATS = (1, 2, 3, 5)
"""Numbers of repeats per query that a plan compares."""

MOST = 2000
"""The largest number of queries that a plan considers."""

_ROUGH, _FINE = 200, 600  # simulated comparisons during the search, and for its result
_AT_ONCE = 500_000  # numbers in an array of simulated comparisons
_SHARED = 50  # comparisons that share random permutations, whose errors they share as well
_SLACK = 0.03  # tolerance for the random error of _FINE simulations


class Chances(NamedTuple):
    """The probabilities that a regression test gives the right verdict.

    Attributes:
        detected: Probability of the verdict ``worse`` if the loss is as large as the margin.
        cleared: Probability of the verdict ``no worse`` if there is no loss.
    """

    detected: float
    cleared: float


class Design(NamedTuple):
    """A number of queries and a number of repeats per query, with their cost and power.

    Attributes:
        queries: Number of queries.
        repeats: Number of answers per query.
        calls: Number of answers that each run needs, and that the baseline needs once.
        cost: Cost of the calls of one run and of writing the queries, in the currency of
            ``call_cost`` and ``query_cost`` (see :func:`plan`).
        chances: Probabilities that the regression test gives the right verdict.
        enough: Whether both probabilities reach the target power.
    """

    queries: int
    repeats: int
    calls: int
    cost: float
    chances: Chances
    enough: bool


@dataclass(frozen=True)
class Plan:
    """The designs that :func:`plan` compares, and the best of them.

    Attributes:
        loss: The mean loss to detect, as a share of a feature's range.
        power: Target power.
        alpha: Significance level of each verdict.
        feature: The feature in which the loss is hardest to detect; empty unless there is a
            baseline with repeats.
        assumptions: The assumptions of the simulation, in words.
        designs: One design for each number of repeats.
        best: The cheapest design with enough power, or ``None`` if no design has enough. With a
            budget it is the design with the highest power.
    """

    loss: float
    power: float
    alpha: float
    feature: str
    assumptions: str
    designs: tuple[Design, ...]
    best: Design | None

    def __str__(self) -> str:
        where = f" in {self.feature}" if self.feature else ""
        title = f"Detecting a loss of {self.loss:g}{where} at alpha {self.alpha:g}"
        header = ("repeats", "queries", "calls per run", "cost", "detected", "cleared")
        rows = tuple(_cells(design) for design in self.designs)
        highlights = tuple(design == self.best for design in self.designs)
        notes = [
            "detected: share of comparisons with the loss in which the verdict is “worse”; "
            "cleared: share of comparisons without a loss in which the verdict is “no worse”; the "
            f"target is {self.power:g} for both, within {_SLACK:g}. Saving the baseline "
            "takes the calls of one more run",
            f"Assumptions: {self.assumptions}",
        ]
        if self.best is None:
            notes.insert(0, "None of these designs has enough power")
        return to_text(Table(title, header, rows, highlights, tuple(notes), name=0).filled())


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
    features: int = 4,
    seed: int = 0,
) -> Plan:
    """Estimate how many queries and repeats are needed to detect a loss.

    The function simulates runs with and without a loss, and applies the test of
    :func:`assert_no_regression`, the gate, to them. The simulation has three parts:

    * Loss: random queries drop to their worst value of a feature, in every repeat, until its mean
      has dropped by ``loss``.
    * Random variation of answers: drawn from the repeats of the baseline. Without repeats, a share
      ``unstable`` of the answers changes when a query is repeated, half for the better. More
      repeats reduce this part.
    * Changes of the system: in each feature, a share ``moved`` of the queries gets better or worse,
      in all repeats. More repeats do not reduce this part.

    All features that the gate compares are simulated, because the gate corrects its p-values for
    their number. Noise between the runs of a baseline is not simulated.

    The gate also counts answers that turned from right to wrong. The more answers have a new
    wording, the more must turn wrong for an alarm. The simulation assumes that the wording of all
    answers changed. ``validation/power/power.py`` compares such predictions with real outcomes.

    Args:
        loss: Mean loss in a feature, as a share of its range. It is also the margin: the loss that
            the verdict ``no worse`` rules out.
        power: Target probability of two events: the verdict is ``worse`` if there is a loss, and
            ``no worse`` if there is none.
        alpha: Significance level of each verdict.
        baseline: A file that :func:`save_baseline` has written, or the function's return value,
            preferably with repeats.
        on: The queries that the baseline was saved on, which define the clusters: a dataset or a
            leaderboard. By default the bundled queries of the baseline's language.
        cluster: Cluster of each query: a key of their metadata, a function of the query, or a
            mapping from query id. The default is :attr:`Query.cluster <mirage.Query>`.
        repeats: Numbers of repeats to compare.
        queries: Maximum number of queries, at most :data:`MOST`, which is the default.
        calls: Maximum number of answers per run. Each design then uses as many of them as it can,
            and the best design is the one with the highest power.
        cost: Maximum cost of the calls of a run and of writing the queries. The best design is then
            chosen as with ``calls``.
        call_cost: Cost of one answer, in any currency.
        query_cost: Cost of writing one query, in the same currency.
        unstable: Share of answers that change when a query is repeated, if the baseline has no
            repeats.
        moved: Share of queries that a change of the system makes better or worse.
        cluster_size: Number of queries per cluster, if there is no baseline.
        correlation: Correlation of changes between two queries of one cluster, from 0 to 1. It is
            also the correlation of changes between features, unless the baseline has repeats.
        features: Number of features that the gate compares and that can change, if the baseline
            has no repeats. The more features, the stronger the correction for their number.
        seed: Random seed.

    Returns:
        One design for each number of repeats, and the best of them.

    Raises:
        SettingError: A setting is out of range, or no feature can drop by ``loss``.
        DatasetError: The baseline cannot be read, or has other queries.

    Example:
        >>> plan(0.3, unstable=0.0, moved=0.0, repeats=[1], calls=40).best.enough
        True
    """
    _check(loss, power, alpha, unstable, moved, correlation, min(cluster_size, features), repeats)
    if cost is not None and not (call_cost or query_cost):
        raise SettingError(
            "cost= needs call_cost=, the cost of an answer, or query_cost=, the cost of a query"
        )
    assumptions = _Assumptions(unstable, moved, cluster_size, correlation, features)
    noise, feature, description = (
        (assumed_noise(*assumptions), "", assumptions.describe())
        if baseline is None
        else _baseline_noise(baseline, on, cluster, loss, assumptions)
    )
    gate = _SimulatedGate(noise, loss, alpha, seed)
    designs, numbers = [], sorted(set(repeats))
    with progress_bar(len(numbers), "simulating numbers of repeats", True) as bar:
        for times in numbers:
            each = query_cost + times * call_cost
            limits: list[int | None] = [MOST, queries]
            limits += [None if calls is None else calls // times]
            limits += [None if cost is None else int(cost / each)]
            number = max(1, min(limit for limit in limits if limit is not None))
            if calls is None and cost is None:
                number = min(number, gate.queries_needed(times, power))
            chances = gate.chances(number, times, _FINE)
            enough = min(chances) >= power - _SLACK
            designs.append(Design(number, times, number * times, number * each, chances, enough))
            bar.update()
    return Plan(
        loss, power, alpha, feature, description, tuple(designs), _best_design(designs, calls, cost)
    )


class _Assumptions(NamedTuple):
    """The settings of a simulation that apply if the baseline does not determine them.

    Attributes:
        unstable: Share of answers that change when a query is repeated.
        moved: Share of queries that a change of the system makes better or worse.
        cluster_size: Number of queries per cluster.
        correlation: Correlation of changes between two queries of one cluster, and between two
            features.
        features: Number of features that the gate compares.
    """

    unstable: float
    moved: float
    cluster_size: int
    correlation: float
    features: int

    def describe(self, measurement: str = "") -> str:
        """Return the assumptions in words.

        ``measurement`` describes the noise that was measured; empty if all noise is assumed.
        """
        size = f"clusters of {self.cluster_size}" if self.cluster_size > 1 else "no clusters"
        if not measurement:
            measurement = (
                f"{self.unstable:g} of the answers change when a query is repeated, {size}; the "
                f"gate compares {self.features} features with a correlation of "
                f"{self.correlation:g}, and the loss is in one that checks facts"
            )
        return (
            f"{measurement}; a change of the system makes {self.moved:g} of the queries better or "
            f"worse, with a correlation of {self.correlation:g} within clusters if there are any; "
            "all answers are reworded"
        )


def _baseline_noise(
    baseline: Baseline | str | Path,
    on: Place,
    cluster: Cluster,
    loss: float,
    assumptions: _Assumptions,
) -> tuple[Noise, str, str]:
    """Return the noise of a baseline, a feature's name, and the assumptions in words.

    The named feature is the one in which a loss is hardest to detect: it varies most among the
    features that can drop by ``loss``. If the baseline has no repeats, the noise is assumed, and
    the name is empty.
    """
    earlier = baseline if isinstance(baseline, Baseline) else read_baseline(baseline)
    dataset = dataset_of(earlier.table.language if on is None else on, None)
    earlier.check(dataset)
    table, clusters = earlier.table, clusters_of(dataset, cluster)
    if table.repeats is None:
        codes = cluster_codes(table.query_ids, clusters)
        size = max(1, round(len(codes) / (int(codes.max()) + 1)))
        assumptions = assumptions._replace(cluster_size=size)
        return (
            assumed_noise(*assumptions),
            "",
            f"the baseline has no repeats; {assumptions.describe()}",
        )
    possible_losses = _possible_losses(earlier, default_names(table.features, dataset))
    can_lose = {name: float(losses.mean()) for name, losses in possible_losses.items()}
    if max(can_lose.values(), default=0.0) < loss:
        raise SettingError(
            f"no feature of the baseline of {table.model!r} can get worse by {loss:g} on average; "
            "choose a smaller loss"
        )
    each = np.stack([*possible_losses.values()], axis=1)
    noise = measured_noise(
        table.columns([*possible_losses]),
        each,
        clusters,
        assumptions.moved,
        assumptions.correlation,
    )
    spread = np.square(noise.pairs).mean(axis=(0, 1))
    # Features that cannot drop by the loss must not be selected.
    spread[[largest < loss for largest in can_lose.values()]] = -1.0
    column = int(spread.argmax())
    noise = noise.without_duplicates(column)
    source = f"answers vary as in the {len(table.repeats)} repeats of the baseline"
    return noise, [*can_lose][column], assumptions.describe(source)


def _possible_losses(baseline: Baseline, names: Sequence[str]) -> dict[str, Floats]:
    """Return the largest possible loss of each query, for each feature with a known range.

    Losses are shares of the feature's range.
    """
    possible_losses = {}
    for name in names:
        feature_facts = facts(name, baseline.table.facts)
        width, values = feature_facts.high - feature_facts.low, baseline.table[name]
        if np.isfinite(width):
            lower = name in baseline.lower_is_better
            losses = (feature_facts.high - values if lower else values - feature_facts.low) / width
            possible_losses[name] = np.nan_to_num(losses)
    return possible_losses


class _SimulatedGate(NamedTuple):
    """The test of ``assert_no_regression``, applied to simulated comparisons.

    Only the first feature has a simulated loss; differences in all other features are noise.
    """

    noise: Noise
    loss: float
    alpha: float
    seed: int

    def chances(self, queries: int, repeats: int, simulations: int) -> Chances:
        """Estimate the probabilities of right verdicts with this number of queries and repeats."""
        clusters = self.noise.clusters(queries)
        batch = max(1, min(_SHARED, _AT_ONCE // (clusters * self.noise.pairs.shape[2])))
        detections = clearances = 0
        for start in range(0, simulations, batch):
            with_loss, without_loss = (
                simulated_verdicts(
                    *simulate_comparisons(
                        self.noise,
                        clusters,
                        repeats,
                        min(batch, simulations - start),
                        loss=loss,
                        seed=self.seed + start,
                    ),
                    alpha=self.alpha,
                    margin=self.loss,
                    seed=self.seed + start,
                    facts=np.flatnonzero(self.noise.facts).tolist(),
                )
                for loss in (self.loss, 0.0)
            )
            detections += int(with_loss.worse.sum())
            clearances += int((without_loss.no_worse & ~without_loss.worse).sum())
        return Chances(detections / simulations, clearances / simulations)

    def queries_needed(self, repeats: int, power: float) -> int:
        """Estimate the number of queries that are needed to reach the power.

        The size of the first steps is based on a normal approximation of the power. Once the search
        has tried a number with too little power and one with enough, it interpolates between them.

        Returns:
            The number of queries; ``MOST + 1`` if :data:`MOST` queries are too few.
        """
        number, target, at_level = 60.0, float(ndtri(power)), -float(ndtri(self.alpha))
        few: tuple[float, float] | None = None
        many: tuple[float, float] | None = None
        for simulations in (_ROUGH, _ROUGH, _ROUGH, _FINE, _FINE):
            chance = min(self.chances(round(number), repeats, simulations))
            quantile = float(ndtri(np.clip(chance, 0.02, 0.98)))
            if quantile < target:
                few = np.log(number), quantile
            else:
                many = np.log(number), quantile
            if few and many:
                share = (target - few[1]) / (many[1] - few[1])
                number = float(np.exp(few[0] + share * (many[0] - few[0])))
            else:
                step = ((target + at_level) / max(quantile + at_level, 0.3)) ** 2
                number *= float(np.clip(step, 0.25, 4.0))
            if number > MOST:
                return MOST + 1
        return int(np.ceil(number))


def _best_design(designs: Sequence[Design], calls: int | None, cost: float | None) -> Design | None:
    """Return the cheapest design with enough power or, with a budget, the one with most power.

    ``calls`` and ``cost`` are the budgets; ``None`` if there is none.
    """
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
    counts: int,
    repeats: Sequence[int],
) -> None:
    shares = {"loss": loss, "power": power, "alpha": alpha}
    for name, value in shares.items():
        if not 0 < value < 1:
            raise SettingError(f"{name} must be above 0 and below 1, got {value!r}")
    for name, value in {"unstable": unstable, "moved": moved, "correlation": correlation}.items():
        if not 0 <= value <= 1:
            raise SettingError(f"{name} must be between 0 and 1, got {value!r}")
    if counts < 1 or not repeats or min(repeats) < 1:
        raise SettingError(
            "cluster_size, features and each of repeats must be at least 1, got "
            f"repeats={list(repeats)}, and {counts} as the smaller of the other two"
        )


class ExtraQueries(NamedTuple):
    """The additional queries or repeats that make an inconclusive comparison conclusive.

    Attributes:
        queries: Number of additional queries, if they are like those of the comparison; ``None`` if
            more than :data:`MOST` queries are needed in total.
        repeats: Number of repeats per query that is enough instead. ``None`` if repeats are not
            enough, or if the runs have none, so that their effect is not known.
        power: Probability of a right verdict with these numbers: ``worse`` if the loss is as large
            as the margin, and ``no worse`` if there is no loss.
    """

    queries: int | None
    repeats: int | None
    power: float

    def __str__(self) -> str:
        if self.queries is None:
            return f"even {MOST} queries like these would be inconclusive"
        again = f", or {self.repeats} repeats of each query" if self.repeats else ""
        return (
            f"a verdict needs about {self.queries} more queries like these{again} (power "
            f"{self.power:g})"
        )


def extra_queries_needed(
    comparison: Comparison, *, power: float = 0.8, seed: int = 0
) -> ExtraQueries:
    """Estimate how many more queries or repeats would make a comparison conclusive.

    The function simulates comparisons as :func:`plan` does. It samples queries from this
    comparison and flips the sign of their differences at random, so that the observed mean change
    does not influence the estimate.

    Args:
        comparison: An inconclusive comparison.
        power: Target probability of two events: the verdict is ``worse`` if the loss is as large as
            the margin, and ``no worse`` if there is no loss.
        seed: Random seed of the simulation.
    """
    compared = [change in comparison.compared for change in comparison.changes]
    losses = comparison.losses[:, compared]
    names = [change.feature for change in comparison.compared]
    if not any(compared) or not np.isfinite(losses).all():
        return ExtraQueries(None, None, power)
    margin, alpha = comparison.margin, comparison.alpha
    column = int(np.square(losses).sum(axis=0).argmax())

    def gate(shrink: Floats) -> _SimulatedGate:
        noise = observed_noise(losses, comparison.codes, shrink, names).without_duplicates(column)
        return _SimulatedGate(noise, margin, alpha, seed)

    unscaled = np.ones(losses.shape[1])
    needed = gate(unscaled).queries_needed(1, power)
    queries = max(needed - len(losses), 1) if needed <= MOST else None
    within = _repeat_variance(comparison)[compared]
    if np.isnan(within).any():
        return ExtraQueries(queries, None, power)
    total = np.square(losses).mean(axis=0)
    share = np.divide(within, total, out=np.zeros_like(total), where=total > 0).clip(0, 1)
    times = len(comparison.after.repeats)  # type: ignore[arg-type]
    for repeats in (number for number in (2, 3, 5, 10) if number > times):
        # Repeats reduce only the variance within queries, by the ratio of their numbers.
        shrink = np.sqrt(1 - share + share * times / repeats)
        if min(gate(shrink).chances(len(losses), 1, _FINE)) >= power:
            return ExtraQueries(queries, repeats, power)
    return ExtraQueries(queries, None, power)


def _repeat_variance(comparison: Comparison) -> Floats:
    """Return the part of the variance between two runs that more repeats would reduce.

    Returns:
        One variance per feature; NaN if one of the runs has no repeats.
    """
    parts = []
    for table in (comparison.before, comparison.after):
        if table.repeats is None:
            return np.full(len(table.features), np.nan)
        parts.append(variance_components(table.repeats).within / len(table.repeats))
    return np.nan_to_num(parts[0] + parts[1])
