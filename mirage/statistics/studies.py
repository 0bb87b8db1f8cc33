"""Simulation studies: how often an interval contains the truth, and how often an alarm is false."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats
from mirage._base.lazy import imported_when_called
from mirage._base.tables import Printed, Table
from mirage.errors import SettingError, UnknownNameError
from mirage.statistics.agreement import fleiss_of, terms
from mirage.statistics.alarms import rise_evidence
from mirage.statistics.bootstrap import bootstrap, check_level
from mirage.statistics.classification import intervals, tally
from mirage.statistics.clusters import cluster_sums, mean_intervals
from mirage.statistics.paired import paired_means
from mirage.statistics.power import SimulatedVerdicts, simulated_verdicts
from mirage.statistics.run_noise import FEWEST_RUNS, run_noise
from mirage.statistics.worlds import (
    StudyDesign,
    StudySample,
    correlated_deviates,
    draw_answers,
    holds,
    lose_answers,
)

Estimate = Callable[[StudySample], ArrayLike]
Draws = tuple[Floats, ArrayLike]


class Method(NamedTuple):
    """A statistical method that a study can check.

    Attributes:
        draw: Function that takes a design and a random generator, draws random values, and returns
            them with the true values that the method estimates.
        estimate: Function that takes a :class:`~mirage.statistics.worlds.StudySample` and returns
            intervals, of shape ``(truths, 2)``, or whether there is an alarm.
        kind: The kind of result: ``interval`` if each interval is checked by itself, ``joint
            intervals`` if all intervals together must contain their true values, or ``alarm``.
        is_false: Function that returns whether an alarm would be false in a design. By default an
            alarm is false if the design has no effect.
        promise: Function that returns the rate that the method promises for a design, a level and a
            seed. By default an interval promises coverage at its confidence level, and an alarm
            promises false alarms at its significance level.
    """

    draw: Callable[[StudyDesign, np.random.Generator], Draws]
    estimate: Estimate
    kind: Literal["interval", "joint intervals", "alarm"] = "interval"
    is_false: Callable[[StudyDesign], bool] = lambda design: design.effect == 0
    promise: Callable[[StudyDesign, float, int], float] | None = None


@dataclass(frozen=True)
class Study(Printed):
    """The result of a simulation study; prints as a table.

    Attributes:
        method: Name of the method.
        design: The design that was simulated.
        simulations: Number of simulations.
        measure: The rate that was observed: ``coverage`` of an interval, or ``false alarms`` or
            ``power`` of an alarm.
        nominal: The rate that the method promises; NaN if it promises none, as is usual for power.
        observed: The observed rate; NaN if no simulation gave an interval.
        standard_error: Standard error of the observed rate. It is computed with one more success
            and one more failure, so that it is above 0 even if all simulations agree.
        width: Mean width of an interval; NaN for alarms.
        missing: Share of the simulations without an interval.
    """

    method: str
    design: StudyDesign
    simulations: int
    measure: str
    nominal: float
    observed: float
    standard_error: float
    width: float
    missing: float

    def _tables(self) -> tuple[Table, ...]:
        header = (self.method, "nominal", "observed", "standard error", "mean width", "no interval")
        numbers = (self.nominal, self.observed, self.standard_error, self.width)
        cells = ["" if math.isnan(number) else f"{number:.3f}" for number in numbers]
        row = (self.measure, *cells, f"{self.missing:.3f}" if self.missing else "")
        defaults = StudyDesign()
        settings = [
            f"{field.name}={getattr(self.design, field.name)!r}"
            for field in fields(StudyDesign)
            if field.name == "queries"
            or getattr(self.design, field.name) != getattr(defaults, field.name)
        ]
        title = f"{self.simulations} simulations with {', '.join(settings)}"
        return (Table(title, header, (row,), name=0).filled(),)


def validate(
    method: str | Estimate,
    design: StudyDesign | None = None,
    *,
    level: float = 0.95,
    simulations: int = 500,
    like: str = "mean",
    seed: int = 0,
    n_jobs: int = 1,
) -> Study:
    """Estimate by simulation how often a statistical method is right on data like your own.

    Each simulation draws data with known true values, and applies the method to them. If the method
    returns an interval, the study counts how often it contains the true value. If the method is an
    alarm, the study counts how often the alarm is raised. Alarms are false if the design has no
    effect; otherwise their rate is the power. The methods are:

    * ``mean``: interval of a mean score (:func:`mirage.statistics.clusters.mean_intervals`).
    * ``paired difference``: interval of the difference of two systems on the same queries
      (:func:`mirage.statistics.paired_means`).
    * ``worse``, ``no worse``: verdicts of the regression test
      (:func:`mirage.testing.assert_no_regression`). ``no worse`` is false if the effect is the
      margin or more.
    * ``history``: an alarm at any commit (:func:`mirage.monitoring.compare_commits`).
    * ``drift``: a change between two periods of a log (:func:`mirage.monitoring.drift`).
    * ``logits``, ``rank intervals``, ``winner interval``: intervals of a judged ranking
      (:meth:`mirage.Ranking.from_judgments`). All rank intervals of a table must hold together.
    * ``balanced accuracy``: interval of the balanced accuracy of a judge
      (:mod:`mirage.statistics.classification`).
    * ``agreement``: interval of Fleiss' kappa of two judges (:mod:`mirage.statistics.agreement`).
    * ``plan``: the power that :func:`mirage.testing.plan` predicts for a loss as large as the
      effect. The study compares it with the rate of the verdict ``worse``.

    Args:
        method: Name of a method, or a function that takes a sample
            (:class:`~mirage.statistics.worlds.StudySample`) and returns the lower and the upper end
            of an interval.
        design: Sizes and kind of the data.
        level: Confidence level of intervals. The significance level of alarms is ``1 - level``.
        simulations: Number of simulations.
        like: If ``method`` is a function, the name of a method above. The data for the function are
            drawn in the same way as for this method. For ``mean`` and ``paired difference``, the
            data are one score or difference for each query.
        seed: Random seed.
        n_jobs: Number of processes, as in joblib. The result does not depend on it.

    Returns:
        The observed and the promised rate, which print as a table.

    Raises:
        SettingError: ``simulations`` is below 2, or a setting of the design does not suit the
            method.
        UnknownNameError: There is no such method.

    Example:
        >>> from mirage.statistics import StudyDesign, validate
        >>> study = validate("mean", StudyDesign(queries=30, rate=0.9), simulations=100)
        >>> study.nominal, study.observed > 0.85
        (0.95, True)
    """
    check_level(level)
    if simulations < 2:
        raise SettingError(f"simulations must be at least 2, got {simulations}")
    design = StudyDesign() if design is None else design
    entry = _method(like if callable(method) else method)
    name = getattr(method, "__name__", "method") if callable(method) else method
    if callable(method):
        entry = entry._replace(estimate=method)
    jobs = range(simulations)
    if n_jobs == 1:
        outcomes = [_simulate(entry, design, level, seed, i) for i in jobs]
    else:
        from joblib import Parallel, delayed

        outcomes = Parallel(n_jobs=n_jobs)(
            delayed(_simulate)(entry, design, level, seed, i) for i in jobs
        )
    hits, widths = np.array(outcomes, dtype=np.float64).T
    hits, widths = hits[~np.isnan(hits)], widths[~np.isnan(widths)]
    measure, nominal = "coverage", level
    if entry.kind == "alarm":
        is_false = entry.is_false(design)
        measure, nominal = ("false alarms", 1 - level) if is_false else ("power", math.nan)
    if entry.promise is not None:
        nominal = entry.promise(design, level, seed)
    return Study(
        method=name,
        design=design,
        simulations=simulations,
        measure=measure,
        nominal=nominal,
        observed=float(hits.mean()) if len(hits) else math.nan,
        standard_error=float(np.std([*hits, 0, 1]) / np.sqrt(len(hits))) if len(hits) else math.nan,
        width=float(widths.mean()) if len(widths) else math.nan,
        missing=1 - len(hits) / simulations,
    )


def _simulate(
    method: Method, design: StudyDesign, level: float, seed: int, number: int
) -> tuple[float, float]:
    """Run simulation ``number``; return its success (0 to 1) and the mean width of its intervals.

    The success is the share of the intervals that contain their true value. For joint intervals, it
    is 1 if all of them do, else 0. For an alarm, it is 1 if the alarm is raised, and the width is
    NaN.
    """
    rng = np.random.default_rng([seed, number])
    values, truth = method.draw(design, rng)
    codes, truth = design.named_codes, np.asarray(truth, dtype=np.float64)
    sample = StudySample(values, codes, truth, design, level, int(rng.integers(2**31)))
    estimate = np.asarray(method.estimate(sample), dtype=np.float64)
    if method.kind == "alarm":
        return float(estimate), math.nan
    ends = estimate.reshape(-1, 2)
    hits = holds(ends, truth)
    present = ~np.isnan(hits)
    if not present.any():
        return math.nan, math.nan
    hit = hits[present].mean() if method.kind == "interval" else hits[present].all()
    return float(hit), float(np.ptp(ends[present], axis=1).mean())


# Scores -------------------------------------------------------------------------------------------


def _draw_scores(design: StudyDesign, rng: np.random.Generator) -> Draws:
    return draw_answers(design, 1, rng)[0].mean(axis=0)[:, 0], design.rate


def _mean(sample: StudySample) -> Floats:
    high = np.inf if sample.design.score == "skewed" else 1.0
    ends = np.array([0.0 if high == 1 else -np.inf]), np.array([high])
    return mean_intervals(sample.values[:, None], sample.codes, *ends, level=sample.level)


def _draw_runs(design: StudyDesign, rng: np.random.Generator) -> Draws:
    """Simulate the scores of several baseline runs and one later run, and return the true loss.

    The later run comes last in the array of scores. The true loss is the effect that the design
    sets.
    """
    answers = draw_answers(design, design.runs + 1, rng)
    answers[-1] = lose_answers(answers[-1], design, rng)
    tied = rng.random(design.queries) < design.ties
    answers[1:, :, tied] = answers[0][:, tied]
    return answers, design.effect


def _draw_differences(design: StudyDesign, rng: np.random.Generator) -> Draws:
    answers, effect = _draw_runs(design, rng)
    return (answers[:-1].mean(axis=(0, 1)) - answers[-1].mean(axis=0))[:, 0], effect


def _paired_difference(sample: StudySample) -> Sequence[float]:
    gaps = sample.values[:, None]
    most = math.inf if sample.design.score == "skewed" else 1.0
    (row,) = paired_means(
        gaps, sample.codes, most=most, level=sample.level, permutations=2000, seed=sample.seed
    )
    return row.interval


def _gate(sample: StudySample) -> SimulatedVerdicts:
    """Return the verdicts of :func:`mirage.testing.assert_no_regression` on simulated runs.

    The verdicts are computed by :func:`simulated_verdicts`. ``tests/testing/test_planning.py``
    checks that both functions return equal verdicts.
    """
    design, codes = sample.design, sample.codes
    if design.score == "skewed":
        raise SettingError(
            "the regression test needs a score with a finite range, not score='skewed'"
        )
    earlier = sample.values[:-1]
    losses = earlier.mean(axis=(0, 1)) - sample.values[-1].mean(axis=0)
    noise = None
    if design.runs >= FEWEST_RUNS:
        noise = run_noise(earlier.reshape(-1, *losses.shape), codes, design.runs)
        noise = noise._replace(between=noise.between[None], within=noise.within[None])
    single = len(np.unique(codes)) == len(codes)
    return simulated_verdicts(
        cluster_sums(codes, losses)[None],
        np.bincount(codes)[None].astype(np.float64),
        alpha=1 - sample.level,
        margin=design.margin,
        permutations=999,
        seed=sample.seed,
        facts=[0] if single and design.score == "binary" else [],
        noise=noise,
    )


def _worse(sample: StudySample) -> bool:
    return bool(_gate(sample).worse[0])


def _no_worse(sample: StudySample) -> bool:
    verdicts = _gate(sample)
    return bool(verdicts.no_worse[0] and not verdicts.worse[0])


def _draw_history(design: StudyDesign, rng: np.random.Generator) -> Draws:
    """Simulate a history of commits, whose scores drop after half of them.

    Returns:
        The mean loss of each commit (its negative mean score), of shape ``(commits, features)``,
        and the size of the drop.
    """
    answers, half = draw_answers(design, design.commits, rng), design.commits // 2
    answers[half:] = lose_answers(answers[half:], design, rng)
    return -answers.mean(axis=(1, 2)), design.effect


def _history(sample: StudySample) -> bool:
    features = sample.values.shape[1]
    queries, clusters = len(sample.codes), int(sample.codes.max()) + 1
    smallest = np.full(features, 1 / (np.sqrt(clusters * queries) * sample.design.repeats))
    evidence = rise_evidence(sample.values, smallest=smallest).evidence
    return bool((evidence >= features / (1 - sample.level)).any())


# Judges -------------------------------------------------------------------------------------------


def _draw_labels(design: StudyDesign, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Simulate the true labels of items and the labels that two judges give them.

    The arrays have the shapes ``(items,)`` and ``(items, 2)``.
    """
    from scipy.special import ndtri

    label, *right = correlated_deviates(design.codes, design.correlation, 3, rng).T
    positive = label < ndtri(design.labels)
    correct = np.stack(right, axis=1) < ndtri(design.rate)
    return positive.astype(np.float64), (correct == positive[:, None]).astype(np.float64)


def _draw_judge(design: StudyDesign, rng: np.random.Generator) -> Draws:
    positive, labels = _draw_labels(design, rng)
    return np.stack([positive, labels[:, 0]], axis=1), design.rate


def _balanced_accuracy(sample: StudySample) -> Sequence[float]:
    positive, label = sample.values.T
    tallies = tally(sample.codes, positive.astype(np.intp), (positive == label)[:, None])
    if len(tallies.total.T) < 2:
        return math.nan, math.nan
    low, high = intervals([tallies], np.eye(1), level=sample.level)[0]
    return low, high


def _draw_judges(design: StudyDesign, rng: np.random.Generator) -> Draws:
    same = design.rate**2 + (1 - design.rate) ** 2
    share = design.labels * design.rate + (1 - design.labels) * (1 - design.rate)
    chance = share**2 + (1 - share) ** 2
    return _draw_labels(design, rng)[1], (same - chance) / (1 - chance)


def _agreement(sample: StudySample) -> Sequence[float]:
    counts = np.stack([(sample.values == label).sum(axis=1) for label in (0, 1)], axis=1)
    return bootstrap(
        np.arange(len(counts)),
        terms(counts),
        fleiss_of,
        cluster=sample.codes,
        level=sample.level,
        seed=sample.seed,
    )[1]


METHODS: Mapping[str, Method] = {
    "mean": Method(_draw_scores, _mean),
    "paired difference": Method(_draw_differences, _paired_difference),
    "worse": Method(_draw_runs, _worse, "alarm"),
    "no worse": Method(
        _draw_runs, _no_worse, "alarm", lambda design: design.effect >= design.margin
    ),
    "history": Method(_draw_history, _history, "alarm"),
    "balanced accuracy": Method(_draw_judge, _balanced_accuracy),
    "agreement": Method(_draw_judges, _agreement),
}

# Methods of packages that this package may not import.
_rankings = imported_when_called("mirage.arena.studies", "methods")
_drifts = imported_when_called("mirage.monitoring._studies", "methods")
_plans = imported_when_called("mirage.testing._studies", "methods")
_HIGHER: Mapping[str, Callable[[], Mapping[str, Method]]] = {
    "logits": _rankings,
    "rank intervals": _rankings,
    "winner interval": _rankings,
    "drift": _drifts,
    "plan": _plans,
}


def _method(name: str) -> Method:
    if name in METHODS:
        return METHODS[name]
    if name not in _HIGHER:
        raise UnknownNameError("method", name, (*METHODS, *_HIGHER))
    return _HIGHER[name]()[name]
