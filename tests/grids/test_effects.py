"""Tests of component effects: shares of variance and means of settings, with intervals."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest

from mirage.errors import SettingError, UnknownNameError
from mirage.grids import Cell, ResultTable, component_effects
from mirage.grids.cells import Score

IDS = tuple(f"q{i}" for i in range(60))


def published(means: dict[tuple[str, str], float]) -> ResultTable:
    """Return a table of cells with two axes and only a mean each."""
    cells = tuple(
        Cell({"retriever": a, "generator": b}, {"m": Score(mean)}) for (a, b), mean in means.items()
    )
    return ResultTable("published", cells, ("m",))


def test_a_full_grid_has_the_shares_of_the_analysis_of_variance() -> None:
    # Effects of retrievers: 0, 6; of generators: 0, 1, 2; interaction of the last pair: 2.
    means = [0.0, 1.0, 2.0, 6.0, 7.0, 10.0]
    combinations = list(product(("none", "bm25"), "abc"))
    effects = component_effects(published(dict(zip(combinations, means, strict=True))), "m")
    grand = np.mean(means)
    table = np.reshape(means, (2, 3))
    rows = 3 * np.square(table.mean(axis=1) - grand).sum()
    columns = 2 * np.square(table.mean(axis=0) - grand).sum()
    total = np.square(table - grand).sum()
    assert [row.axis for row in effects] == ["retriever", "generator", "interactions"]
    assert effects["retriever"].share == pytest.approx(rows / total)
    assert effects["generator"].share == pytest.approx(columns / total)
    assert effects["interactions"].share == pytest.approx(1 - (rows + columns) / total)
    by_setting = {(row.axis, row.setting): row.mean for row in effects.settings}
    assert by_setting["retriever", "bm25"] == pytest.approx(23 / 3)
    assert by_setting["generator", "c"] == pytest.approx(6)
    assert all(math.isnan(row.interval[0]) for row in effects)
    assert "Published figures" in str(effects)


def test_missing_cells_do_not_bias_the_means() -> None:
    # Effects add up: bm25 adds 4, and b adds 1. The plain mean of bm25 would be 5.
    effects = component_effects(
        published({("none", "a"): 0.0, ("none", "b"): 1.0, ("bm25", "b"): 5.0}), "m"
    )
    by_setting = {(row.axis, row.setting): row.mean for row in effects.settings}
    assert by_setting["retriever", "none"] == pytest.approx(0.5)
    assert by_setting["retriever", "bm25"] == pytest.approx(4.5)
    # Added first, retrievers explain 13.5 of 14 squares; added second, 8.
    assert effects["retriever"].share == pytest.approx((13.5 + 8) / 2 / 14)
    assert effects["interactions"].share == pytest.approx(0)


def test_a_missing_setting_is_not_a_separate_setting() -> None:
    """A closed-book cell has no show_k; its difference is an effect of the retriever."""
    settings = [("none", "", 0.0), ("bm25", "5", 4.0), ("bm25", "10", 6.0)]
    cells = tuple(
        Cell({"retriever": a, "show_k": k}, {"m": Score(mean)}) for a, k, mean in settings
    )
    effects = component_effects(ResultTable("published", cells, ("m",)), "m")
    total = np.square(np.array([0, 4, 6]) - 10 / 3).sum()
    assert effects["show_k"].share == pytest.approx(2 / total)
    assert effects["retriever"].share == pytest.approx(1 - 2 / total)
    assert [(row.setting, row.cells) for row in effects.settings if row.axis == "show_k"] == [
        ("5", 1),
        ("10", 1),
    ]


def test_shares_are_means_over_the_orders_of_axes() -> None:
    """Compare with least squares that add three axes in all six orders; one cell is missing."""
    rng = np.random.default_rng(4)
    combinations = [
        combination
        for combination in product("ab", "cde", "fg")
        if combination not in {("a", "c", "f")}
    ]
    means = rng.random(len(combinations))
    axes = ("retriever", "reranker", "generator")
    cells = tuple(
        Cell(dict(zip(axes, combination, strict=True)), {"m": Score(float(mean))})
        for combination, mean in zip(combinations, means, strict=True)
    )
    effects = component_effects(ResultTable("part", cells, ("m",)), "m")

    def residual(axis_numbers: tuple[int, ...]) -> float:
        columns = [
            [combination[i] == v for combination in combinations]
            for i in axis_numbers
            for v in "abcdefg"
        ]
        X = np.column_stack([np.ones(len(combinations)), *np.array(columns, dtype=float)])
        return float(np.square(means - X @ np.linalg.lstsq(X, means)[0]).sum())

    for i, axis in enumerate(axes):
        gains = []
        for order in permutations(range(3)):
            before = order[: order.index(i)]
            gains.append(residual(before) - residual((*before, i)))
        assert effects[axis].share == pytest.approx(np.mean(gains) / residual(()))
    assert sum(row.share for row in effects) == pytest.approx(1)


def test_sampling_error_is_subtracted() -> None:
    values = np.arange(40) % 2
    other = 1 - values
    other[0] = 0
    cells = tuple(
        Cell.measured({"retriever": name}, IDS[:40], {"m": column * 1.0})
        for name, column in (("none", values), ("bm25", other))
    )
    effects = component_effects(ResultTable("alike", cells, ("m",)), "m")
    assert math.isnan(effects["retriever"].share)
    assert "do not differ by more than the choice of queries explains" in str(effects).replace(
        "\n  ", " "
    )


def test_settings_of_confounded_axes_have_no_means() -> None:
    effects = component_effects(published({("none", "a"): 0.0, ("bm25", "b"): 1.0}), "m")
    assert all(math.isnan(row.mean) for row in effects.settings)
    assert effects["retriever"].share == pytest.approx(0.5)  # the other half goes to the generator


def grid(seed: int, queries: int, gain: float, *, clusters: int = 0) -> ResultTable:
    rng = np.random.default_rng(seed)
    difficulty = rng.random((queries, 1))
    shifts = np.array([gain * (a == "bm25") + 0.0 * (b == "b") for a, b in product(PAIRS, "ab")])
    right = rng.random((queries, 4)) < np.clip(0.6 * difficulty + shifts, 0, 1)
    if clusters:
        right = np.repeat(right[: queries // clusters], clusters, axis=0)
    names = {id_: f"c{i // clusters}" for i, id_ in enumerate(IDS)} if clusters else {}
    cells = tuple(
        Cell.measured(
            {"retriever": a, "generator": b},
            IDS[:queries],
            {"m": right[:, j] * 1.0},
            clusters=names,
        )
        for j, (a, b) in enumerate(product(PAIRS, "ab"))
    )
    return ResultTable("grid", cells, ("m",))


PAIRS = ("none", "bm25")


def test_large_effects_have_large_shares() -> None:
    strong = component_effects(grid(0, 60, 0.4), "m")
    assert strong["retriever"].share > 0.8
    low, high = strong["retriever"].interval
    assert 0.4 < low < high <= 1
    assert strong["generator"].interval[0] == 0
    assert "95 % interval" in str(strong)
    assert strong.to_markdown().count("| axis |") == 2
    assert list(strong.to_pandas().columns) == ["axis", "share", "lower", "upper"]
    few = component_effects(grid(0, 5, 0.4), "m")
    assert all(math.isnan(row.interval[0]) for row in (*few, *few.settings))
    assert "5 clusters of queries are too few" in str(few)


def test_shares_exclude_the_variance_of_sampling_error() -> None:
    table = grid(4, 60, 0.15)
    values = np.array([cell.values["m"] for cell in table])
    means, covariance = values.mean(axis=1), np.cov(values) / 60
    contrasts = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]) / 2
    squares = [(row @ means) ** 2 - row @ covariance @ row for row in contrasts]
    effects = component_effects(table, "m", draws=10)
    assert effects["retriever"].share == pytest.approx(squares[0] / sum(squares))
    assert effects["generator"].share == pytest.approx(squares[1] / sum(squares))


def test_intervals_of_shares_without_effects_rarely_exclude_0() -> None:
    """Cells are equal, so at most a few lower ends are above 0."""
    false_positives = 0
    for seed in range(40):
        effects = component_effects(grid(seed, 40, 0.0), "m", draws=200)
        false_positives += sum(row.interval[0] > 0 for row in effects)
    assert false_positives <= 8  # of 120


def test_a_cluster_counts_as_one_observation() -> None:
    alone = component_effects(grid(3, 60, 0.3), "m")
    twice = component_effects(grid(3, 60, 0.3, clusters=3), "m")
    width = [np.ptp(effects.settings[1].interval) for effects in (alone, twice)]
    assert width[1] > 1.4 * width[0]


def test_the_interval_of_a_setting_mean_is_that_of_the_query_means() -> None:
    table = grid(5, 30, 0.3)
    effects = component_effects(table, "m")
    values = np.mean([cell.values["m"] for cell in table.where(retriever="bm25")], axis=0)
    error = 2.0452 * values.std(ddof=1) / np.sqrt(30)  # Student's t of 29 degrees of freedom
    (row,) = (row for row in effects.settings if row.setting == "bm25")
    assert row.mean == pytest.approx(values.mean())
    assert row.interval == pytest.approx((row.mean - error, row.mean + error), abs=1e-4)
    assert row.cells == 2


def test_tables_without_effects_raise_errors() -> None:
    table = published({("none", "a"): 0.0, ("bm25", "b"): 1.0})
    with pytest.raises(UnknownNameError, match="unknown metric"):
        component_effects(table, "n")
    with pytest.raises(UnknownNameError, match="did you mean 'retriever'"):
        component_effects(table, "m", axes=["retreiver"])
    with pytest.raises(SettingError, match="the cells with a mean of m do not differ"):
        component_effects(table.where(retriever="none"), "m")
    alike = component_effects(published({("none", "a"): 1.0, ("bm25", "a"): 1.0}), "m")
    assert math.isnan(alike["retriever"].share)
    assert "do not differ" in str(alike)


@pytest.mark.parametrize("wrong", [0, 1])
def test_the_interval_of_a_setting_respects_the_bounds_as_that_of_its_cells(wrong: int) -> None:
    ids = tuple(f"q{i}" for i in range(12))
    bm25, dense = np.tile([0.0, 1.0], 6), np.r_[np.zeros(wrong), np.ones(12 - wrong)]
    cells = tuple(
        Cell.measured(
            {"retriever": retriever, "generator": generator},
            ids,
            {"acc": values},
            bounds={"acc": (0, 1)},
        )
        for retriever, values in (("bm25", bm25), ("dense", dense))
        for generator in ("llama", "gpt")
    )
    effects = component_effects(ResultTable("t", cells, ("acc",)), "acc")
    by_setting = {row.setting: row.interval for row in effects.settings}
    # Both generators give the same answers, so the mean of the setting is that of its cells.
    assert by_setting["dense"] == pytest.approx(cells[2].scores["acc"].interval)
    assert all(0 <= low < high <= 1 for low, high in by_setting.values())


def test_the_mean_of_a_setting_is_never_beyond_the_bounds() -> None:
    # One combination is missing: the linear model predicts a value below 0 for it.
    ids = tuple(f"q{i}" for i in range(20))
    rates = {("none", "a"): 10, ("none", "b"): 0, ("bm25", "a"): 1}
    cells = tuple(
        Cell.measured(
            {"retriever": a, "prompt": b}, ids, {"m": np.arange(20.0) < hits}, bounds={"m": (0, 1)}
        )
        for (a, b), hits in rates.items()
    )
    effects = component_effects(ResultTable("t", cells, ("m",)), "m")
    rows = [(*row.interval, row.mean) for row in effects.settings]
    assert all(0 <= low <= mean <= high <= 1 for low, high, mean in rows)


def rare_failures(seed: int, highest: float = 1.0) -> ResultTable:
    """Return a table in which a retriever gains 0.02, and a prompt fails on 2 % of 40 queries."""
    rng = np.random.default_rng(seed)
    quality, fails = rng.beta(12, 4, 40), rng.random((40, 3)) < 0.02
    cells = []
    for retriever, prompt in product(range(3), range(2)):
        values = (quality + 0.02 * retriever).clip(0, 1)
        values[fails[:, retriever] & (prompt == 1)] = 0.0
        settings = {"retriever": str(retriever), "prompt": str(prompt)}
        cells.append(Cell.measured(settings, IDS[:40], {"m": highest * values}))
    return ResultTable("rare", tuple(cells), ("m",))


def test_intervals_of_shares_allow_for_rare_failures_that_the_queries_lack() -> None:
    # The means differ by 0.02 and 0.04 between retrievers and by 0.015 between prompts.
    variances = {"retriever": 0.02**2 * 2 / 3, "prompt": 0.015**2 / 4}
    share = variances["prompt"] / sum(variances.values())
    hits = []
    for seed in range(40):
        low, high = component_effects(rare_failures(seed), "m", draws=200)["prompt"].interval
        hits.append(low <= share <= high)
    assert np.mean(hits) >= 0.95
    assert "Assumed range of the metric" in str(component_effects(rare_failures(0), "m"))
    assert "No range of the metric" in str(component_effects(rare_failures(0, 5.0), "m"))
