"""The comparison of two runs: false positive rate, power, and the changes of features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, binom

from mirage.features import FeatureTable
from mirage.statistics import upper_bounds
from mirage.statistics.permutation import single_step_p_values
from mirage.testing.comparison import Comparison, compare
from mirage.testing.regressions import not_measured, result_table

Floats = NDArray[np.float64]


@pytest.fixture
def few_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a fifth of the usual permutations; a p-value near 0.05 is then off by 0.005."""
    monkeypatch.setitem(single_step_p_values.__kwdefaults__, "permutations", 1999)


def table(values: Floats, names: str = "abcdefgh") -> FeatureTable:
    ids = tuple(f"q{i}" for i in range(len(values)))
    return FeatureTable("m", "sw", ids, tuple(names[: values.shape[1]]), values)


def compared(before: Floats, after: Floats, lower: str = "") -> Comparison:
    return compare(table(before), table(after), lower)


def test_the_same_run_is_no_worse() -> None:
    values = np.random.default_rng(0).random((30, 4))
    comparison = compared(values, values)
    assert [change.p for change in comparison.changes] == [1.0] * 4
    assert comparison.regressed(0.99) == ()


def test_four_queries_that_all_got_worse_are_the_fewest_for_an_alarm() -> None:
    before = np.ones((14, 3))
    for worse, regressed in ((3, ()), (4, ("b",))):
        after = before.copy()
        after[:worse, 1] = 0.0
        comparison = compared(before, after)
        assert tuple(change.feature for change in comparison.regressed(0.05)) == regressed
        # Half the exact probability that all signs are alike.
        assert comparison.changes[1].p == pytest.approx(0.5**worse / 2, abs=0.008)
        assert (comparison.changes[1].worse, comparison.changes[1].better) == (worse, 0)


def test_one_feature_alone_has_the_p_value_of_the_binomial() -> None:
    # All changes have the same size, so only the number of losses matters.
    after = np.zeros((40, 1))
    after[:24], after[24:34] = -0.5, 0.5
    exact = binom.sf(24, 34, 0.5) + binom.pmf(24, 34, 0.5) / 2
    assert compared(np.zeros((40, 1)), after).changes[0].p == pytest.approx(exact, abs=0.004)


def test_losses_that_a_few_gains_outweigh_are_no_regression() -> None:
    before = np.full((40, 1), 0.5)
    after = before - 0.02
    after[:4] = before[:4] + 0.18
    assert compared(before, after).regressed(0.99) == ()  # equal means
    after[4:] -= 0.005
    (change,) = compared(before, after).changes
    assert (change.fell, change.worse, change.better) == (True, 36, 4)
    assert change.p > 0.2


def test_an_increase_is_a_regression_only_if_lower_is_better() -> None:
    before, after = np.zeros((20, 1)), np.full((20, 1), 0.3)
    assert compared(before, after).regressed(0.05) == ()
    (change,) = compared(before, after, lower="a").regressed(0.05)
    assert (change.before, change.after, change.worse) == (0.0, pytest.approx(0.3), 20)


def test_unchanged_features_do_not_raise_the_p_value_of_others() -> None:
    before = np.ones((30, 8))
    after = before.copy()
    after[:6, 2] = 0.0
    alone = compared(before[:, 2:3], after[:, 2:3]).changes[0].p
    assert compared(before, after).changes[2].p == alone


def test_values_missing_in_either_run_are_ignored() -> None:
    before, after = np.ones((12, 2)), np.ones((12, 2))
    after[:8, 0] = 0.0
    before[6:8, 0], after[0, 0], after[:, 1] = np.nan, np.nan, np.nan
    partial, missing = compared(before, after).changes
    assert (partial.queries, partial.worse) == (9, 5)
    assert partial.before == 1.0
    assert partial.after == pytest.approx(4 / 9)
    assert (missing.queries, missing.p, missing.fell) == (0, 1.0, False)
    assert np.isnan(missing.before)


def test_rounding_differences_are_no_change() -> None:
    values = np.random.default_rng(0).random((50, 2))
    for noise in (1e-9, 4e-7, -1e-6):
        assert all(change.p == 1.0 for change in compared(values, values - noise).changes)


def test_order_of_queries_and_features_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.random((25, 3)), rng.random((25, 3)) - 0.1
    turned = table(after).select([f"q{i}" for i in reversed(range(25))]).columns(["c", "a", "b"])
    assert compare(table(before), turned).changes == compared(before, after).changes


# False positive rate and power, by simulation -----------------------------------------------------


def alarms(before: Floats, after: Floats) -> float:
    """Return how often ``after`` is called worse; runs are ``(repeats, queries, features)``."""
    pairs = zip(before, after, strict=True)
    return float(np.mean([bool(compared(*pair).regressed(0.05)) for pair in pairs]))


def noisy_runs(rng: np.random.Generator, repeats: int, queries: int) -> Floats:
    """Return runs of one system with three features, of which two are correlated."""
    easy = np.random.default_rng(9).random((queries, 1))
    hits = (rng.random((repeats, queries, 1)) < easy).astype(np.float64)
    near = hits - 0.3 * rng.random((repeats, queries, 1))
    other = rng.normal(easy, 0.2, (repeats, queries, 1))
    return np.concatenate([hits, near, other], axis=2)


@pytest.mark.usefixtures("few_permutations")
@pytest.mark.parametrize("queries", [14, pytest.param(60, marks=pytest.mark.slow)])
def test_a_second_run_of_the_same_system_rarely_raises_an_alarm(queries: int) -> None:
    rng = np.random.default_rng(11)
    runs = noisy_runs(rng, 600, queries)
    # 0.05 at most; 0.07 is 2.2 standard errors of 300 repeats away from it.
    assert alarms(runs[:300], runs[300:]) <= 0.07


@pytest.mark.slow  # tests/statistics/test_permutation.py checks the formula against skewness
@pytest.mark.parametrize("queries", [20, 100])
def test_skewed_changes_without_a_mean_loss_rarely_raise_an_alarm(queries: int) -> None:
    # Three of four queries lose 0.2, one gains 0.6: signed ranks call 20 to 40 % of that worse.
    rng = np.random.default_rng(13)
    before = np.zeros((300, queries, 2))
    after = np.where(rng.random((300, queries, 1)) < 0.25, 0.6, -0.2) + before
    assert alarms(before, after) <= 0.07


@pytest.mark.usefixtures("few_permutations")
def test_a_loss_of_a_tenth_is_detected_with_120_queries_and_not_with_14() -> None:
    rng = np.random.default_rng(12)
    power = {}
    for queries in (14, 120):
        before = np.repeat(noisy_runs(rng, 1, queries), 100, axis=0)
        lost = rng.random((100, queries, 1)) < 0.1
        power[queries] = alarms(before, before - lost * np.array([1.0, 1.0, 0.0]))
    assert power[120] >= 0.8
    assert power[14] <= 0.1


# Three verdicts -----------------------------------------------------------------------------------


def shares(lost: int, queries: int) -> Comparison:
    """Return a comparison in which queries dropped from 1 to 0 in the first of two features."""
    before = np.ones((queries, 2))
    after = before.copy()
    after[:lost, 0] = 0.0
    names = ("abstention", "citation_map@10")
    ids = tuple(f"q{i}" for i in range(queries))
    return compare(*(FeatureTable("m", "sw", ids, names, values) for values in (before, after)))


def test_the_upper_bound_of_a_binary_loss_is_that_of_clopper_and_pearson() -> None:
    for lost, queries in ((0, 28), (0, 40), (1, 60), (3, 40)):
        exact = beta.ppf(0.95, lost + 1, queries - lost)
        assert shares(lost, queries).changes[0].lost_at_most == pytest.approx(exact, abs=0.004)


def test_the_three_verdicts_by_number_of_lost_queries() -> None:
    assert shares(0, 31).verdict == "no worse"
    assert shares(0, 27).verdict == "inconclusive"
    assert [change.feature for change in shares(2, 40).inconclusive] == ["abstention"]
    assert shares(2, 40).verdict == "inconclusive"
    assert shares(4, 40).verdict == "worse"
    assert shares(5, 1000).verdict == "worse"  # below the margin, but significant


@pytest.mark.parametrize(
    ("queries", "lost", "verdict"),
    [(12, 0.1, "inconclusive"), (20, 0.1, "inconclusive"), (30, 0.1, "worse"), (4, 1.0, "worse")],
)
def test_losses_that_one_unseen_gain_would_balance_are_inconclusive(
    queries: int, lost: float, verdict: str
) -> None:
    before = np.ones((queries, 1))
    ids = tuple(f"q{i}" for i in range(queries))
    runs = [FeatureTable("m", "sw", ids, ("answer_match",), v) for v in (before, before - lost)]
    comparison = compare(*runs)
    # One more query that gains 1 has a random weight; the bound of the gain has twice the level.
    unseen = (1 / (1 + lost)) ** queries / 2
    assert comparison.changes[0].p == pytest.approx(max(unseen, 0.5**queries / 2), abs=0.007)
    assert comparison.verdict == verdict


def test_a_feature_without_a_range_has_no_bound_of_the_loss() -> None:
    same = compared(np.ones((100, 1)), np.ones((100, 1)))
    assert (same.verdict, same.changes[0].lost_at_most) == ("inconclusive", np.inf)


def test_a_value_missing_in_the_later_run_counts_as_lost() -> None:
    before, after = np.ones((60, 1)), np.ones((60, 1))
    after[:9] = np.nan
    ids = tuple(f"q{i}" for i in range(60))
    for name, why in (
        ("citation_map@10", "no citation"),
        ("target_language", "the answer is too short to identify its language"),
    ):
        reasons = dict.fromkeys(((id_, name) for id_ in ids[:9]), why)
        earlier = FeatureTable("m", "sw", ids, (name,), before)
        later = FeatureTable("m", "sw", ids, (name,), after, reasons)
        comparison = compare(earlier, later)
        assert comparison.inconclusive
        assert comparison.changes[0].p == 1
        assert not_measured(comparison) == {name: {why: 9}}
        text = " ".join(result_table(comparison).split())
        assert f"{name}: 9 of 60 queries have a value in the baseline only" in text
        assert f"{why} (9)" in text


def test_allowed_failures_do_not_lower_the_p_value() -> None:
    before, after = np.ones((60, 1)), np.ones((60, 1))
    after[:12] = np.nan
    ids = tuple(f"q{i}" for i in range(60))
    tables = (FeatureTable("m", "sw", ids, ("answer_match",), v) for v in (before, after))
    comparison = compare(*tables, failed=ids[:12])
    assert (comparison.verdict, comparison.changes[0].p) == ("inconclusive", 1)


@pytest.mark.parametrize("size", [1, 4])
def test_a_loss_of_the_margin_is_rarely_called_no_worse(size: int) -> None:
    rng = np.random.default_rng(size)
    codes = np.repeat(np.arange(100 // size), size)
    wrong = 0
    for _ in range(400):  # a tenth of the clusters lost all
        lost = (rng.random((100 // size, 1)) < 0.1)[codes].astype(np.float64)
        wrong += bool(upper_bounds(lost, codes, weightings=999) <= 0.1)
    assert wrong / 400 < 0.075


# Noise between runs -------------------------------------------------------------------------------


def day_table(days: Floats, queries: int, rng: np.random.Generator) -> FeatureTable:
    """Return a table with one repeat per day, whose queries all shift by the noise of the day."""
    base = np.random.default_rng(3).uniform(0.3, 0.7, queries)
    repeats = base + days[:, None] + rng.normal(0, 0.02, (len(days), queries))
    ids = tuple(f"q{i}" for i in range(queries))
    several = repeats[:, :, None] if len(days) > 1 else None
    return FeatureTable(
        "m", "sw", ids, ("citation_map@10",), repeats.mean(axis=0)[:, None], repeats=several
    )


@pytest.mark.slow
def test_noise_between_three_runs_keeps_the_false_positive_rate() -> None:
    rng = np.random.default_rng(0)
    alarms = {1: 0, 3: 0}
    for _ in range(100):
        days = rng.normal(0, 0.06, 4)
        before, after = day_table(days[:3], 60, rng), day_table(days[3:], 60, rng)
        for runs in alarms:
            alarms[runs] += compare(before, after, runs=runs).verdict == "worse"
    assert alarms[1] >= 20  # the noise is real, and one run cannot include it
    assert alarms[3] <= 9  # 0.05, and two standard errors of 100 repeats


def test_a_loss_beyond_the_noise_between_runs_is_found() -> None:
    rng = np.random.default_rng(0)
    before = day_table(np.array([-0.01, 0.0, 0.01]), 60, rng)
    changes = {}
    for loss in (0.02, 0.25):
        for runs in (1, 3):
            after = day_table(np.array([-loss]), 60, np.random.default_rng(1))
            comparison = compare(before, after, runs=runs)
            changes[loss, runs] = comparison.changes[0]
    assert compare(before, day_table(np.array([-0.25]), 60, rng), runs=3).verdict == "worse"
    assert changes[0.02, 3].p > 0.05
    assert changes[0.02, 3].lost_at_most > changes[0.02, 1].lost_at_most
    steady = day_table(np.zeros(1), 60, rng)
    thrice = replace(steady, repeats=np.stack([steady.values] * 3))
    later = replace(steady, values=steady.values - 0.05)
    # Runs that do not differ add nothing.
    assert compare(thrice, later, runs=3).changes == compare(steady, later).changes
