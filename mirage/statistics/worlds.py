"""Simulated scores and logs with known true means, to study the coverage of intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats, Ints
from mirage.errors import SettingError, UnknownNameError

Score = Literal["binary", "ordinal", "continuous", "skewed"]
"""The kind of score: ``binary`` (0 or 1), ``ordinal`` (five levels from 0 to 1), ``continuous``
(any number from 0 to 1) or ``skewed`` (log-normal).
"""


@dataclass(frozen=True, kw_only=True)
class StudyDesign:
    """The sizes of a simulation study, and the kind of data that it draws.

    A method uses the fields that apply to it, and ignores the others.

    Attributes:
        queries: Number of queries or items; for the method ``drift``, the number in each period.
        cluster_sizes: Sizes of clusters of dependent queries. They repeat until each query has a
            cluster, so ``(5,)`` means that all clusters have five queries. By default queries are
            independent.
        correlation: Correlation of the scores of two queries in the same cluster.
        named_clusters: Whether the clusters are passed to the method under study. If not, it treats
            queries as independent.
        repeats: Number of answers of a system to each query.
        stability: Correlation of the scores of two answers of a system to the same query.
        score: Kind of score.
        rate: Mean score, such as the share of right answers. For a judge, its accuracy.
        ties: Share of queries on which two systems give the same answers; for rankings, share of
            verdicts that are ties.
        effect: Size of the true difference; 0 means no difference. For scores, it is the difference
            of the means, or the loss of the later run or period; it is caused by random queries
            whose scores drop to 0. For rankings, it is the distance in logits between the best and
            the worst model.
        margin: Largest acceptable loss. The regression test gives the verdict ``no worse`` if it
            rules out a loss this large.
        features: Number of features that are compared. Only the first has the effect.
        models: Number of models in a ranking.
        spread: Standard deviation of the logit of a model between queries.
        labels: Share of truly positive items among those that a judge labels.
        runs: Number of runs of the unchanged system, made at different times, that form the
            baseline of a regression test.
        day_noise: Standard deviation of a shift that all answers of a run or a day share. The unit
            is the standard deviation of the answers of one run.
        days: Number of days in each period, for the method ``drift``.
        serial: Correlation of the scores of successive answers in a log.
        commits: Number of commits in a history. An effect begins after half of them.

    Raises:
        SettingError: A field is out of range.
        UnknownNameError: There is no kind of score with the name ``score``.

    Example:
        >>> StudyDesign(queries=10, cluster_sizes=(3, 1)).codes.tolist()
        [0, 0, 0, 1, 2, 2, 2, 3, 4, 4]
    """

    queries: int = 40
    cluster_sizes: tuple[int, ...] = ()
    correlation: float = 0.3
    named_clusters: bool = True
    repeats: int = 1
    stability: float = 0.7
    score: Score = "binary"
    rate: float = 0.7
    ties: float = 0.0
    effect: float = 0.0
    margin: float = 0.1
    features: int = 1
    models: int = 8
    spread: float = 1.5
    labels: float = 0.5
    runs: int = 1
    day_noise: float = 0.0
    days: int = 7
    serial: float = 0.0
    commits: int = 50

    def __post_init__(self) -> None:
        for name in ("repeats", "features", "runs", "days"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("queries", "models", "commits"):
            self._check(name, getattr(self, name) >= 2, "at least 2")
        for name in ("rate", "margin", "labels"):
            self._check(name, 0 < getattr(self, name) < 1, "above 0 and below 1")
        for name in ("correlation", "stability"):
            self._check(name, 0 <= getattr(self, name) <= 1, "between 0 and 1")
        for name in ("ties", "serial"):
            self._check(name, 0 <= getattr(self, name) < 1, "at least 0 and below 1")
        for name in ("effect", "spread", "day_noise"):
            self._check(name, 0 <= getattr(self, name) < np.inf, "a finite number of at least 0")
        self._check("cluster_sizes", min(self.cluster_sizes, default=1) >= 1, "at least 1 each")
        if self.score not in get_args(Score):
            raise UnknownNameError("kind of score", self.score, get_args(Score))

    def _check(self, name: str, valid: bool, condition: str) -> None:
        if not valid:
            raise SettingError(f"{name} must be {condition}, got {getattr(self, name)!r}")

    @property
    def codes(self) -> Ints:
        """Cluster of each query, numbered from 0."""
        sizes = self.cluster_sizes or (1,)
        cycle = np.repeat(np.arange(len(sizes)), sizes)
        position = np.arange(self.queries)
        return np.asarray(position // len(cycle) * len(sizes) + cycle[position % len(cycle)])

    @property
    def named_codes(self) -> Ints:
        """The cluster of each query, as passed to the method.

        Without ``named_clusters``, each query is its own cluster.
        """
        return self.codes if self.named_clusters else np.arange(self.queries)

    @property
    def lost(self) -> float:
        """Share of the queries without a tie whose scores must drop to 0 to produce the effect.

        Raises:
            SettingError: The effect is too large: even dropping all of these scores to 0 does not
                produce it.
        """
        share = self.effect / (self.rate * (1 - self.ties))
        if share > 1:
            raise SettingError(
                f"effect must be at most rate * (1 - ties), which is "
                f"{self.rate * (1 - self.ties):g}; got {self.effect:g}"
            )
        return share


class StudySample(NamedTuple):
    """The data of one simulation, which a method gets as its argument.

    Attributes:
        values: The data; the shape depends on the method.
        codes: Cluster index of each query; in simulated production logs, the day of each query.
        truth: The true values that intervals should contain.
        design: The design from which the data were drawn.
        level: Confidence level. The significance level of an alarm is ``1 - level``.
        seed: Random seed for the method.
    """

    values: Floats
    codes: Ints
    truth: Floats
    design: StudyDesign
    level: float
    seed: int


def holds(ends: ArrayLike, truth: ArrayLike) -> Floats:
    """Return 1 if an interval contains the true value, 0 if not, and NaN if its ends are NaN.

    Args:
        ends: Lower and upper ends, of shape ``(..., 2)``.
        truth: True values, of shape ``(...)``.

    Example:
        >>> holds([(0.1, 0.3), (0.4, 0.5)], 0.2).tolist()
        [1.0, 0.0]
    """
    low, high = np.moveaxis(np.asarray(ends, dtype=np.float64), -1, 0)
    return np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high))


def correlated_deviates(
    codes: Ints, correlation: float, columns: int, rng: np.random.Generator
) -> Floats:
    """Return normal deviates that are correlated within clusters.

    The result has the shape ``(queries, columns)``.

    Args:
        codes: Cluster of each query, counted from 0.
        correlation: Correlation of two queries in the same cluster.
        columns: Number of independent columns.
        rng: Random generator.
    """
    shared = rng.normal(size=(codes.max() + 1, columns))[codes]
    single = rng.normal(size=(len(codes), columns))
    return np.asarray(np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * single)


def scores_of(deviates: Floats, score: Score, rate: float) -> Floats:
    """Return scores with a known mean from standard normal deviates.

    Args:
        deviates: Standard normal deviates of any shape. A larger deviate gives a higher score.
        score: Kind of score.
        rate: Mean score.
    """
    from scipy.special import bdtrc, betaincinv, ndtr, ndtri

    if score == "binary":
        return (deviates > -ndtri(rate)).astype(np.float64)
    if score == "ordinal":
        levels = -ndtri(bdtrc(np.arange(4), 4, rate))
        return np.asarray((deviates[..., None] > levels).mean(axis=-1))
    if score == "continuous":
        return np.asarray(betaincinv(4 * rate, 4 * (1 - rate), ndtr(deviates)))
    return np.asarray(rate * np.exp(deviates - 0.5))


def draw_answers(design: StudyDesign, runs: int, rng: np.random.Generator) -> Floats:
    """Draw the scores of several runs of one system.

    The result has the shape ``(runs, repeats, queries, features)``.

    Args:
        design: The design.
        runs: Number of runs.
        rng: Random generator.
    """
    codes, features = design.codes, design.features
    deviates = np.sqrt(design.stability) * correlated_deviates(
        codes, design.correlation, features, rng
    )
    columns = runs * design.repeats * features
    single = correlated_deviates(codes, design.correlation, columns, rng)
    single = np.moveaxis(single.reshape(len(codes), runs, design.repeats, features), 0, 2)
    deviates = deviates + np.sqrt(1 - design.stability) * single
    if design.day_noise:
        shifts = rng.normal(0, design.day_noise, (runs, 1, 1, features))
        # The sum has a variance of 1, so that the mean over all days is the rate.
        deviates = (deviates + shifts) / np.sqrt(1 + design.day_noise**2)
    return scores_of(deviates, design.score, design.rate)


def lose_answers(answers: Floats, design: StudyDesign, rng: np.random.Generator) -> Floats:
    """Return a copy of the scores in which the first feature is 0 on randomly chosen queries.

    The same queries are chosen in all runs. Each is chosen with the probability
    :attr:`StudyDesign.lost`.

    Args:
        answers: Scores of shape ``(..., queries, features)``, such as the result of
            :func:`draw_answers`.
        design: The design, which gives the size of the loss.
        rng: Random generator.
    """
    lost = rng.random(answers.shape[-2]) < design.lost
    after = answers.copy()
    after[..., lost, 0] = 0.0
    return after


def draw_traffic(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    *,
    serial: float = 0.0,
    day_noise: float = 0.0,
    week: float = 0.0,
    columns: int = 1,
) -> Floats:
    """Draw measures of successive answers in a log, of shape ``(answers, columns)``.

    Each measure is a first-order autoregression with a variance of 1, to which a random shift of
    each day and a weekly cycle are added.

    Args:
        rng: Random generator.
        sizes: Number of answers on each day.
        serial: Correlation of successive answers.
        day_noise: Standard deviation of a shift that all answers of a day share.
        week: Amplitude of a sine with a period of seven days.
        columns: Number of independent measures.
    """
    from scipy.signal import lfilter

    noise = rng.normal(size=(sum(sizes) + 200, columns)) * np.sqrt(1 - serial**2)
    answers = lfilter([1.0], [1.0, -serial], noise, axis=0)[200:]
    days = np.repeat(np.arange(len(sizes)), sizes)
    of_days = day_noise * rng.normal(size=(len(sizes), columns))
    of_days += week * np.sin(2 * np.pi * np.arange(len(sizes)) / 7)[:, None]
    return np.asarray(answers + of_days[days])
