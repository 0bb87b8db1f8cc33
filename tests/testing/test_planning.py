"""Plans: simulated verdicts equal those of the gate, and the predicted power is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mirage import MirageDataset, Query
from mirage.errors import SettingError
from mirage.features import FeatureTable
from mirage.statistics import upper_bounds
from mirage.statistics.bounds import weighted_means
from mirage.statistics.clusters import cluster_sums
from mirage.statistics.flips import SHARED_LEVEL
from mirage.statistics.permutation import single_step_p_values
from mirage.statistics.power import simulated_verdicts
from mirage.statistics.run_noise import RunNoise, run_noise
from mirage.testing import plan
from mirage.testing.baseline import Baseline, fingerprint
from mirage.testing.comparison import Comparison, compare
from mirage.testing.planning import extra_queries_needed

Floats = NDArray[np.float64]
NAMES = ("abstention", "citation_map@10")
DATASET = MirageDataset(
    [Query(id=f"q{i}", language="sw", text="?", cluster=f"c{i // 4}") for i in range(40)], name="d"
)


def table(values: Floats, repeats: Floats | None = None) -> FeatureTable:
    ids = tuple(f"q{i}" for i in range(len(values)))
    return FeatureTable("m", "sw", ids, NAMES, values, repeats=repeats)


def baseline(flips: float, repeats: int = 3) -> Baseline:
    """Return a baseline with a share of wrong answers in the first of two features."""
    right = np.random.default_rng(1).random((repeats, 40, 2)) >= [flips, 0.0]
    values = right.astype(np.float64)
    each = values if repeats > 1 else None
    return Baseline(table(values.mean(axis=0), each), "d", fingerprint(DATASET))


# Verdicts without noise are those of test_simulated_verdicts_count_flips_as_the_gate_does.
@pytest.mark.parametrize("noise", [pytest.param(0.0, marks=pytest.mark.slow), 0.02])
def test_simulated_verdicts_equal_those_of_the_gate(noise: float) -> None:
    rng = np.random.default_rng(2)
    names = ("citation_recall@10", "citation_map@10")
    worse, no_worse, sums, sizes, each = [], [], [], [], []
    for _ in range(60):
        counts = rng.integers(1, 4, 50)
        codes = np.repeat(np.arange(50), counts)
        losses = rng.choice([1.0, 0.0, -1.0], (50, 2), p=[0.1, 0.88, 0.02])[codes]
        ids = tuple(f"q{i}" for i in range(len(codes)))
        clusters = {id_: str(code) for id_, code in zip(ids, codes.tolist(), strict=True)}
        before = (losses >= 0).astype(float)
        # The noise is in the table alone, so that the losses are the same with it.
        repeats = before + np.array([-noise, 0.0, noise])[:, None, None]
        earlier = FeatureTable("m", "sw", ids, names, before, repeats=repeats)
        later = FeatureTable("m", "sw", ids, names, before - losses)
        if not noise:
            earlier = replace(earlier, repeats=None)
        comparison = compare(earlier, later, clusters=clusters, margin=0.25, runs=3)
        worse.append(bool(comparison.regressed(0.05)))
        no_worse.append(not comparison.inconclusive)
        sums.append(cluster_sums(codes, losses))
        sizes.append(counts.astype(float))
        each.append(run_noise(repeats, codes, 3))
    between, within = (np.stack(parts) for parts in list(zip(*each, strict=True))[1:])
    verdicts = simulated_verdicts(
        np.stack(sums),
        np.stack(sizes),
        margin=0.25,
        permutations=1999,
        noise=RunNoise(3, between, within) if noise else None,
    )
    assert 5 < sum(worse) < 55
    assert 5 < sum(no_worse) < 55
    assert np.mean(verdicts.worse == worse) >= 0.95  # p-values at the level may differ
    assert np.mean(verdicts.no_worse == no_worse) >= 0.95


def test_without_noise_the_number_of_queries_is_that_of_the_binomial() -> None:
    # At least four losses are significant, and 29 unchanged queries rule out a loss of 0.1. By the
    # binomial distribution, 54 queries have four or more losses with a probability of 0.8.
    (design,) = plan(0.1, unstable=0.0, moved=0.0, repeats=[1], seed=1).designs
    assert 50 <= design.queries <= 58
    assert design.chances.cleared == 1.0
    assert design.enough
    few = plan(0.1, unstable=0.0, moved=0.0, repeats=[1], queries=20)
    assert few.designs[0].chances.cleared == 0.0
    assert few.best is None
    assert "None of these designs has enough power" in str(few)


@pytest.mark.slow
def test_repeats_replace_queries_if_only_answers_vary() -> None:
    noisy = plan(0.1, unstable=0.4, moved=0.0, repeats=[1, 3], calls=120).designs
    assert noisy[0].chances.detected > noisy[1].chances.detected  # 120 queries, or 40 three times
    costly = plan(0.1, unstable=0.4, moved=0.0, repeats=[1, 3], query_cost=1.0, call_cost=0.01)
    once, thrice = costly.designs
    assert once.queries > 1.5 * thrice.queries
    assert costly.best == thrice
    assert once.cost == pytest.approx(once.queries * 1.01)


def test_a_plan_uses_the_variation_between_repeats_of_the_baseline() -> None:
    steady, shaky = (
        plan(0.1, baseline=baseline(flips), on=DATASET, repeats=[1]) for flips in (0.0, 0.2)
    )
    assert shaky.feature == "abstention"
    assert shaky.designs[0].queries > 1.2 * steady.designs[0].queries
    assert "in the 3 repeats of the baseline" in shaky.assumptions
    once = plan(0.1, baseline=baseline(0.0, repeats=1), on=DATASET, repeats=[1], calls=40)
    assert "the baseline has no repeats; 0.1 of the answers" in once.assumptions
    assert "clusters of 4" in once.assumptions  # the clusters of its queries


def test_invalid_settings_of_a_plan_are_errors() -> None:
    with pytest.raises(SettingError, match="loss must be above 0 and below 1, got 0"):
        plan(0)
    with pytest.raises(SettingError, match="cost= needs call_cost="):
        plan(cost=10)
    nothing_to_lose = replace(baseline(0.3), lower_is_better=NAMES[1:])
    with pytest.raises(SettingError, match=r"can get worse by 0\.9 on average"):
        plan(0.9, baseline=nothing_to_lose, on=DATASET)
    with pytest.raises(SettingError, match="cluster_size, features and each of repeats"):
        plan(repeats=[])
    with pytest.raises(SettingError, match="cluster_size, features and each of repeats"):
        plan(features=0)


def compared(flips: float, queries: int, times: int) -> Comparison:
    rng = np.random.default_rng(4)
    runs = []
    for _ in range(2):
        right = (rng.random((times, queries, 2)) >= [flips, 0.0]).astype(np.float64)
        runs.append(table(right.mean(axis=0), right if times > 1 else None))
    return compare(*runs)


def test_an_inconclusive_comparison_recommends_more_queries_or_repeats() -> None:
    few = compared(0.05, 20, 1)
    assert few.verdict == "inconclusive"
    more = extra_queries_needed(few)
    assert more.repeats is None  # the variation between repeats is not known
    assert more.queries is not None
    assert 30 < more.queries < 200
    assert f"about {more.queries} more queries like these (power 0.8)" in str(more)
    shaky = compared(0.3, 80, 2)
    assert shaky.verdict == "inconclusive"
    assert extra_queries_needed(shaky, power=0.7).repeats in (3, 5, 10)
    hopeless = compare(*(table(np.ones((9, 2))) for _ in range(2)), margin=0.001)
    assert extra_queries_needed(hopeless).queries is None
    assert "2000 queries like these would be inconclusive" in str(extra_queries_needed(hopeless))


def test_simulated_verdicts_count_flips_as_the_gate_does() -> None:
    rng = np.random.default_rng(3)
    agree = []
    for queries in (20, 60):
        flips = rng.choice([1.0, 0.0, -1.0], (20, queries, 1), p=[0.1, 0.88, 0.02])
        noise = rng.choice([0.3, -0.3], (20, queries, 1))
        losses = np.concatenate([flips, noise], axis=2)
        simulated = simulated_verdicts(losses, np.ones((20, queries)), facts=[0], permutations=999)
        for sums, worse in zip(losses, simulated.worse, strict=True):
            before, after = np.full((queries, 2), 0.5), np.full((queries, 2), 0.5)
            before[:, 0] = sums[:, 0] >= 0
            after[:, 0] = before[:, 0] - sums[:, 0]
            before[:, 1], after[:, 1] = 0.65, 0.65 - sums[:, 1]
            agree.append(bool(compare(table(before), table(after)).regressed(0.05)) == worse)
    assert np.mean(agree) >= 0.97  # p-values at the level may differ


@pytest.mark.slow
@pytest.mark.parametrize("features", [1, 4])
def test_the_predicted_power_is_that_of_simulated_runs(features: int) -> None:
    settings = {"unstable": 0.2, "moved": 0.1, "correlation": 0.0, "features": features}
    predicted = plan(0.15, **settings, repeats=[2], calls=160).designs[0].chances  # type: ignore[arg-type]
    rng = np.random.default_rng(5)
    shape, codes = (80, features), np.arange(80)

    def changes(share: float, *sizes: int) -> Floats:
        return np.where(rng.random(sizes) < share, rng.choice([-1.0, 1.0], sizes), 0.0)

    detections = clearances = 0
    for _ in range(200):
        # Two answers per query, of which a fifth differs. A tenth of the queries is moved by the
        # change of the system. The loss of 0.15 is present in the first feature or not.
        base = changes(0.1, *shape)
        no_loss = np.where(base != 0, base, changes(0.2, 2, *shape).mean(axis=0))
        loss = no_loss.copy()
        loss[rng.random(80) < 0.15, 0] = 1.0
        # The first feature reads facts, so the level is shared with the test of flips.
        p_values = single_step_p_values(loss, permutations=499) * SHARED_LEVEL
        gains = (weighted_means(-loss, codes, weightings=499) >= 0).mean(axis=0)
        detections += bool((np.maximum(p_values, gains / 2) <= 0.05).any())
        clearances += bool((upper_bounds(no_loss, codes, weightings=499) <= 0.15).all())
    assert predicted.detected == pytest.approx(detections / 200, abs=0.1)
    assert predicted.cleared == pytest.approx(clearances / 200, abs=0.1)
