"""Simulation studies of intervals and alarms, and the data that they draw."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from cases import each_case
from joblib import parallel_config
from subsets import slow_except

from mirage.errors import SettingError, UnknownNameError
from mirage.statistics import StudyDesign, validate
from mirage.statistics.studies import METHODS, _draw_differences, _draw_labels, _draw_runs
from mirage.statistics.worlds import (
    StudySample,
    correlated_deviates,
    draw_answers,
    draw_traffic,
    holds,
    scores_of,
)

NAMES = (
    *METHODS,
    *("logits", "rank intervals", "winner interval", "drift", "plan"),
)


# The data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["binary", "ordinal", "continuous", "skewed"])
@pytest.mark.parametrize("rate", [0.2, 0.9])
def test_scores_have_the_mean_and_the_range_of_their_kind(score: str, rate: float) -> None:
    deviates = np.random.default_rng(0).normal(size=50_000)
    values = scores_of(deviates, score, rate)  # type: ignore[arg-type]
    assert values.mean() == pytest.approx(rate, abs=4 * values.std() / np.sqrt(len(values)))
    assert values.min() >= 0
    order = np.argsort(deviates)
    assert (np.diff(values[order]) >= 0).all()
    if score == "skewed":
        assert values.max() > 1
    else:
        assert values.max() <= 1
        assert len(np.unique(values)) == {"binary": 2, "ordinal": 5}.get(score, len(values))


def test_queries_of_a_cluster_are_correlated() -> None:
    codes = np.arange(40) // 2
    rng = np.random.default_rng(0)
    draws = np.stack([correlated_deviates(codes, 0.6, 1, rng)[:, 0] for _ in range(3000)])
    correlation = np.corrcoef(draws.T)
    assert correlation[0, 1] == pytest.approx(0.6, abs=0.05)
    assert correlation[1, 2] == pytest.approx(0.0, abs=0.06)
    assert draws.var() == pytest.approx(1, abs=0.02)


def test_answers_to_a_query_are_correlated_and_runs_share_the_noise_of_their_day() -> None:
    design = StudyDesign(
        queries=2, repeats=2, stability=0.5, score="continuous", rate=0.5, day_noise=1.0
    )
    rng = np.random.default_rng(0)
    draws = np.stack([draw_answers(design, 2, rng)[..., 0] for _ in range(4000)])
    correlation = np.corrcoef(draws.reshape(4000, -1).T)  # runs, repeats, queries
    assert correlation[0, 2] == pytest.approx(0.75, abs=0.05)  # a query again in the same run
    assert correlation[0, 1] == pytest.approx(0.5, abs=0.05)  # another query in the same run
    assert correlation[0, 4] == pytest.approx(0.25, abs=0.05)  # a query again in another run
    assert draws.mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("score", ["binary", "skewed"])
@pytest.mark.parametrize("ties", [0.0, 0.6])
def test_the_difference_of_two_systems_is_the_effect(score: str, ties: float) -> None:
    design = StudyDesign(queries=50, score=score, ties=ties, effect=0.15, repeats=2)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    draws = [_draw_differences(design, rng) for _ in range(800)]
    gaps = np.concatenate([values for values, _ in draws])
    assert {effect for _, effect in draws} == {0.15}
    assert gaps.mean() == pytest.approx(0.15, abs=4 * gaps.std() / np.sqrt(len(gaps)))
    assert (gaps == 0).mean() >= ties - 0.02


def test_only_the_first_feature_has_the_effect() -> None:
    design = StudyDesign(queries=4000, features=2, effect=0.2, runs=3)
    answers, _ = _draw_runs(design, np.random.default_rng(0))
    assert answers.shape == (4, 1, 4000, 2)
    losses = answers[:-1].mean(axis=(0, 1)) - answers[-1].mean(axis=0)
    assert losses.mean(axis=0) == pytest.approx([0.2, 0.0], abs=0.03)


def test_judges_are_right_as_often_as_their_accuracy() -> None:
    design = StudyDesign(queries=50_000, labels=0.2, rate=0.8)
    positive, labels = _draw_labels(design, np.random.default_rng(0))
    assert positive.mean() == pytest.approx(0.2, abs=0.01)
    for judge in labels.T:
        recalls = [(judge == positive)[positive == label].mean() for label in (0, 1)]
        assert recalls == pytest.approx([0.8, 0.8], abs=0.02)


def test_traffic_is_autocorrelated_and_days_share_their_noise() -> None:
    rng = np.random.default_rng(0)
    values = draw_traffic(rng, (1000,) * 50, serial=0.8)[:, 0]
    assert np.corrcoef(values[1:], values[:-1])[0, 1] == pytest.approx(0.8, abs=0.02)
    assert values.std() == pytest.approx(1, abs=0.05)
    days = draw_traffic(rng, (500,) * 400, day_noise=0.5)[:, 0].reshape(400, 500).mean(axis=1)
    assert days.std() == pytest.approx(0.5, abs=0.06)
    week = draw_traffic(rng, (2000,) * 7, week=1.0)[:, 0].reshape(7, 2000).mean(axis=1)
    assert week == pytest.approx(np.sin(2 * np.pi * np.arange(7) / 7), abs=0.1)


def test_clusters_repeat_their_sizes_and_can_be_hidden_from_the_method() -> None:
    design = StudyDesign(queries=7, cluster_sizes=(2, 3))
    assert design.codes.tolist() == design.named_codes.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert replace(design, named_clusters=False).named_codes.tolist() == list(range(7))
    assert StudyDesign(queries=3).codes.tolist() == [0, 1, 2]


@each_case(
    ("field", "value", "message"),
    [
        ("queries", 1, "queries must be at least 2, got 1"),
        ("repeats", 0, "repeats must be at least 1, got 0"),
        ("rate", 1.0, "rate must be above 0 and below 1, got 1.0"),
        ("correlation", 1.5, "correlation must be between 0 and 1, got 1.5"),
        ("ties", 1.0, "ties must be at least 0 and below 1, got 1.0"),
        ("effect", -0.1, "effect must be a finite number of at least 0, got -0.1"),
        ("day_noise", math.nan, "day_noise must be a finite number of at least 0, got nan"),
        ("cluster_sizes", (3, 0), r"cluster_sizes must be at least 1 each, got \(3, 0\)"),
        ("score", "binry", "did you mean 'binary'"),
    ],
)
def test_a_design_out_of_range_is_an_error(field: str, value: object, message: str) -> None:
    with pytest.raises((SettingError, UnknownNameError), match=message):
        StudyDesign(**{field: value})  # type: ignore[arg-type]


def test_an_interval_holds_or_not_or_is_missing() -> None:
    ends = [(0.1, 0.3), (0.4, 0.5), (math.nan, math.nan)]
    assert holds(ends, [0.3, 0.3, 0.3]).tolist()[:2] == [1.0, 0.0]
    assert math.isnan(holds(ends, 0.3)[2])
    assert float(holds((0.1, 0.3), 0.2)) == 1.0


# Studies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", slow_except({"gate", "logits"}, NAMES))
def test_every_method_has_its_nominal_rate_in_an_ordinary_design(name: str) -> None:
    effect = {"no worse": 0.1, "plan": 0.2}.get(name, 0.0)
    design = StudyDesign(queries=60, models=4, repeats=2, effect=effect, commits=15)
    study = validate(name, design, simulations=120)
    assert study.method == name
    assert study.missing == 0
    if study.measure == "coverage":
        assert study.nominal == 0.95
        assert study.observed >= 0.95 - 3 * study.standard_error
        assert study.width > 0
    elif study.measure == "false alarms":
        assert study.nominal == pytest.approx(0.05)
        assert study.observed <= 0.05 + 2 * study.standard_error
    else:
        assert (name, study.measure) == ("plan", "power")
        assert study.observed == pytest.approx(study.nominal, abs=0.05 + 2 * study.standard_error)
        assert 0.2 < study.nominal < 1


@pytest.mark.parametrize("name", ["worse", "history", "drift"])
def test_a_large_effect_is_found(name: str) -> None:
    study = validate(name, StudyDesign(queries=140, effect=0.4, commits=20), simulations=20)
    assert study.measure == "power"
    assert math.isnan(study.nominal)
    assert study.observed == 1
    assert 0 < study.standard_error < 0.1


def test_a_study_shows_what_hidden_clusters_and_noise_between_days_do() -> None:
    clusters = StudyDesign(queries=100, cluster_sizes=(5,), correlation=0.8)
    assert validate("mean", clusters, simulations=200).observed > 0.9
    hidden = replace(clusters, named_clusters=False)
    assert validate("mean", hidden, simulations=200).observed < 0.8
    days = StudyDesign(queries=100, day_noise=0.5)
    assert validate("worse", days, simulations=100).observed > 0.15
    assert validate("worse", replace(days, runs=3), simulations=100).observed < 0.12


def test_a_function_is_checked_on_the_data_of_a_method() -> None:
    def everything(sample: StudySample) -> tuple[float, float]:
        assert sample.values.shape == sample.codes.shape == (40,)
        return -1.0, 1.0

    study = validate(everything, simulations=5)
    assert (study.method, study.observed, study.width) == ("everything", 1.0, 2.0)
    wide = validate(everything, StudyDesign(effect=0.2), like="paired difference", simulations=5)
    assert wide.observed == 1.0
    nothing = validate(lambda _: (math.nan, math.nan), simulations=5)
    assert nothing.missing == 1
    assert math.isnan(nothing.observed)
    assert math.isnan(nothing.standard_error)
    wrong = validate(lambda _: (2.0, 3.0), simulations=98)
    assert wrong.observed == 0.0
    assert wrong.standard_error == pytest.approx(np.sqrt(0.01 * 0.99 / 98))


def test_all_joint_intervals_have_to_hold() -> None:
    design = StudyDesign(models=3, queries=10)
    ends = [(1.0, 3.0), (1.0, 3.0), (9.0, 9.0)]
    ranks = validate(lambda _: ends, design, like="rank intervals", simulations=4)
    assert ranks.observed == 0.0
    ends = [(-9.0, 9.0), (-9.0, 9.0), (9.0, 9.0)]
    logits = validate(lambda _: ends, design, like="logits", simulations=4)
    assert logits.observed == pytest.approx(2 / 3)
    assert logits.width == pytest.approx(12)


@pytest.mark.parametrize("backend", slow_except(["threading"], ["threading", "loky"]))
def test_the_result_depends_on_the_seed_and_not_on_the_workers(backend: str) -> None:
    design = StudyDesign(queries=15, rate=0.8)
    first = validate("mean", design, simulations=60, seed=3)
    with parallel_config(backend):
        assert validate("mean", design, simulations=60, seed=3, n_jobs=2) == first
    assert validate("mean", design, simulations=60, seed=4).width != first.width


def test_a_study_prints_its_rate_and_its_design() -> None:
    design = StudyDesign(queries=12, rate=0.9, cluster_sizes=(1, 2))
    text = str(validate("mean", design, simulations=10))
    assert "10 simulations with queries=12, cluster_sizes=(1, 2), rate=0.9" in text
    assert "no interval" in text  # eight clusters are too few
    printed = str(validate("worse", simulations=10))
    assert "false alarms    0.050" in printed
    assert "mean width" not in printed


def test_studies_that_make_no_sense_are_errors() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'rank intervals'"):
        validate("rank interval")
    with pytest.raises(SettingError, match="simulations must be at least 2"):
        validate("mean", simulations=1)
    with pytest.raises(SettingError, match="level"):
        validate("mean", level=95)
    with pytest.raises(SettingError, match="effect must be at most rate"):
        validate("worse", StudyDesign(effect=0.4, ties=0.5))
    with pytest.raises(SettingError, match="not score='skewed'"):
        validate("worse", StudyDesign(score="skewed"))
    with pytest.raises(SettingError, match="needs 'effect'"):
        validate("plan")
