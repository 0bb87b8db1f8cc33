"""SurrogateRanker: learning, predicting, validating."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import t as student
from sklearn.ensemble import RandomForestRegressor
from subsets import slow_except

from mirage.arena import Tournaments
from mirage.errors import FeatureError, JudgmentError, NotFittedError, UnknownNameError
from mirage.features import FeatureTable
from mirage.statistics.held_out import held_out_tau_interval
from mirage.surrogate import Prediction, SurrogateRanker, model
from mirage.surrogate.estimators import NAMES, fit_regressor, one_thread
from mirage.surrogate.familiarity import ERRORS_PER_DRAW, Familiarity
from mirage.surrogate.model import ROWS, Recipe, _losses, evaluate
from mirage.surrogate.ranker import _Estimate, _fill_with_worst
from mirage.surrogate.training import TrainingData, mean_features, training_data

Array = np.ndarray
FEATURES = ("citation_recall@10", "answer_bleu", "noise")


def arena(
    language: str = "sw",
    models: int = 12,
    slopes: tuple[float, ...] = (2.0, 1.0, 0.0),
    *,
    seed: int = 0,
    tournaments: int = 40,
    queries: int = 30,
) -> tuple[list[FeatureTable], Tournaments]:
    """Return models whose logits are nearly a linear function of their mean features."""
    rng = np.random.default_rng(seed)
    quality = rng.uniform(0.2, 0.8, size=(models, 3))
    values = np.clip(quality[:, None] + rng.normal(0, 0.1, (models, queries, 3)), 0, 1)
    counts = rng.multinomial(queries, np.full(queries, 1 / queries), size=tournaments)
    counts = counts.astype(np.int32)
    X = np.einsum("tq,mqf->tmf", counts, values) / queries
    logits = X @ np.array(slopes) + rng.normal(0, 0.02, (tournaments, models))
    logits -= logits.mean(axis=1, keepdims=True)
    names = tuple(f"m{i:02d}" for i in range(models))
    ids = tuple(f"q{i}" for i in range(queries))
    tables = [
        FeatureTable(name, language, ids, FEATURES, rows)
        for name, rows in zip(names, values, strict=True)
    ]
    separated = np.zeros(logits.shape, dtype=np.bool_)
    return tables, Tournaments(names, ids, counts, logits, separated)


# Training data ------------------------------------------------------------------------------------


def test_rows_are_mean_features_of_each_tournament() -> None:
    tables, boot = arena()
    data = training_data(tables, boot)["sw"]
    for t in (0, 7):
        drawn = np.repeat(np.arange(30), boot.counts[t])
        assert np.allclose(data.X[t, 3], tables[3].values[drawn].mean(axis=0))
    assert np.array_equal(data.y, boot.logits)


def test_a_draw_without_a_value_takes_the_mean_of_all() -> None:
    values = np.array([[1.0], [np.nan], [0.5]])
    counts = np.array([[0, 3, 0], [1, 1, 1], [2, 1, 0]], dtype=np.int32)
    assert mean_features(values, counts).ravel().tolist() == [0.75, 0.75, 1.0]


def test_tables_in_any_order_are_matched_by_model() -> None:
    tables, boot = arena()
    a, b = training_data(tables, boot)["sw"], training_data(tables[::-1], boot)["sw"]
    assert np.array_equal(a.values, b.values)


def test_tables_and_tournaments_that_do_not_match_are_refused() -> None:
    tables, boot = arena()
    with pytest.raises(UnknownNameError, match="'m11'"):
        training_data(tables[:-1], boot)
    renamed = [replace(table, model=f"other-{table.model}") for table in tables]
    with pytest.raises(JudgmentError, match=r"judgments are of 'm00', .* are of 'other-m00'"):
        training_data(renamed, boot)
    with pytest.raises(FeatureError, match="no feature table"):
        training_data([], boot)
    with pytest.raises(FeatureError, match="no tournaments for the language 'sw'"):
        training_data(tables, {"de": boot})
    fewer_features = tables[5].columns(FEATURES[:2])
    with pytest.raises(FeatureError, match=r"'m05'.*has citation_recall@10, answer_b"):
        training_data([*tables[:5], fewer_features, *tables[6:]], boot)


def test_a_feature_on_no_query_is_an_error_that_says_why() -> None:
    tables, boot = arena()
    values = tables[2].values.copy()
    values[:, 0] = np.nan
    reasons = {("q0", FEATURES[0]): "the query has no relevant passage"}
    tables[2] = replace(tables[2], values=values, reasons=reasons)
    with pytest.raises(FeatureError, match=r"'m02' .* on any query \(the query has no relevant"):
        SurrogateRanker("ridge").fit(tables, boot)


# Estimators ---------------------------------------------------------------------------------------

TREES = {"forest", "boosting", "monotone_forest", "monotone_boosting"}
"""Estimators that take seconds to fit; tests/test_papers.py fits boosting, too."""


@pytest.mark.parametrize("name", slow_except(set(NAMES) - TREES, NAMES))
def test_every_estimator_learns_a_plain_relation(name: str) -> None:
    tables, boot = arena(models=20, tournaments=5)
    ranker = SurrogateRanker(name).fit(tables, boot)
    validation = ranker.cross_validate(holdout=5, repeats=3)
    assert validation.tau["sw"] > 0.6
    assert validation.r2["sw"] > 0.4  # ridge shrinks as by ten models, and here are fifteen


@pytest.mark.parametrize("name", ["monotone_forest", "monotone_boosting"])
def test_more_of_a_good_feature_never_costs(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (
        -X[:, 0] + X[:, 2] + rng.normal(0, 0.1, 200)
    )  # recall lowers the logit, which the constraint forbids
    with one_thread():
        regressor = fit_regressor(name, (1, 1, 0), [X[None]], [y[None]], seed=0)
    grid = np.zeros((50, 3))
    grid[:, 0] = np.linspace(-3, 3, 50)
    assert (np.diff(regressor.predict(grid)) >= 0).all()
    grid = np.zeros((50, 3))
    grid[:, 2] = np.linspace(-3, 3, 50)
    assert regressor.predict(grid)[-1] > regressor.predict(grid)[0]  # other features are free


@pytest.mark.slow
def test_the_forest_is_scikit_learns() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("forest", seed=3).fit(tables, boot)
    data = ranker.data["sw"]
    mean, scale = data.mean_X.mean(axis=0), data.mean_X.std(axis=0)
    rows = ((data.X[:10] - mean) / scale).reshape(-1, 3)
    targets = data.y[:10] - data.mean_y.mean()
    forest = RandomForestRegressor(100, random_state=3).fit(rows, targets.ravel())
    expected = forest.predict((data.mean_X - mean) / scale)
    predicted = [ranker.predict(table).logit for table in tables]
    # Trees split between neighbouring values, so rounding in the last bit may move a few splits.
    assert np.allclose(predicted, expected, atol=0.005)


def test_auto_reports_the_selected_recipe() -> None:
    tables, boot = arena(models=8, tournaments=3)
    ranker = SurrogateRanker().fit(tables, boot)
    assert ranker.recipe.shared in ("ridge", "svr", "mlp")  # the relation is smooth
    assert f"recipe={ranker.recipe}" in repr(ranker)


def test_the_number_of_training_rows_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def counting(name: str, monotone: Sequence[int], X: Sequence[Array], *y: Any, seed: int) -> Any:
        rows.append(sum(part.shape[0] * part.shape[1] for part in X))
        return fit_regressor(name, monotone, X, *y, seed=seed)

    monkeypatch.setattr(model, "fit_regressor", counting)
    large_arena = arena(models=20)
    SurrogateRanker("ridge").fit(*large_arena)
    assert rows[-1] == 20 * 10
    codes = [f"l{number}" for number in range(18)]
    tables = [replace(table, language=code) for code in codes for table in large_arena[0]]
    SurrogateRanker("ridge").fit(tables, dict.fromkeys(codes, large_arena[1]))
    assert 0.5 * ROWS < rows[-1] <= ROWS


# Several languages --------------------------------------------------------------------------------


def fit_languages(**slopes: tuple[float, float, float]) -> SurrogateRanker:
    arenas = {
        code: arena(code, 8, slope, seed=i, tournaments=12)
        for i, (code, slope) in enumerate(slopes.items())
    }
    tables = [table for tables, _ in arenas.values() for table in tables]
    return SurrogateRanker("ridge").fit(tables, {code: boot for code, (_, boot) in arenas.items()})


def test_languages_that_agree_share_one_model() -> None:
    ranker = fit_languages(ar=(2, 1, 0), de=(2, 1, 0), es=(2, 1, 0), sw=(2, 1, 0), zh=(2, 1, 0))
    assert ranker.recipe.shared == "ridge"
    alone = SurrogateRanker("ridge").fit_data({"sw": ranker.data["sw"]})
    pooled_tau = ranker.cross_validate(2, 8).tau["sw"]
    assert pooled_tau >= alone.cross_validate(2, 8).tau["sw"]


def test_languages_that_disagree_keep_a_part_of_their_own() -> None:
    ranker = fit_languages(ar=(3, 0, 0), de=(-3, 0, 0), es=(3, 0, 0), sw=(-3, 0, 0))
    assert ranker.recipe.alpha is not None


@pytest.mark.slow
def test_languages_that_disagree_are_predicted_by_their_own_parts() -> None:
    ranker = fit_languages(ar=(3, 0, 0), de=(-3, 0, 0), es=(3, 0, 0), sw=(-3, 0, 0))
    assert min(ranker.cross_validate(2, 28).tau.values()) > 0.5


@pytest.mark.slow
def test_models_are_held_out_in_all_languages_at_once() -> None:
    ranker = fit_languages(ar=(2, 1, 0), de=(2, 1, 0))
    validation = ranker.cross_validate(2, 28)
    assert len(validation.held_out) == 28  # all pairs of 8 models
    assert len(set(validation.held_out)) == 28
    assert validation.predicted["ar"].shape == validation.actual["de"].shape == (28, 2)


def test_a_loss_is_a_share_of_the_variance_in_each_language() -> None:
    (small, boot), (large, _) = arena("sw", 8), arena("de", 8)
    tenfold = replace(boot, logits=10 * boot.logits)
    data = training_data([*small, *large], {"sw": boot, "de": tenfold})
    # If all are predicted to be average, the loss is the whole variance, whatever its unit.
    residuals = {code: part.mean_y - part.mean_y.mean() for code, part in data.items()}
    losses = _losses(data, residuals)
    assert losses.mean() == pytest.approx(1)
    assert losses == pytest.approx(residuals["sw"] ** 2 / np.mean(residuals["sw"] ** 2))


@pytest.mark.parametrize(("apart", "first_selected"), [(1.0, True), (0.6, False)])
def test_the_least_flexible_recipe_that_is_not_significantly_worse_is_selected(
    monkeypatch: pytest.MonkeyPatch, apart: float, first_selected: bool
) -> None:
    tables, boot = arena(models=3)
    data = training_data(tables, boot)
    # Losses 1.5 - apart, 1.5, 1.5 + apart against 0: Student's t is 1.5 * sqrt(3) / apart, 2.60 or
    # 4.33. The table has 2.92 for two degrees of freedom at 5 % on one side.
    losses = np.array([1.5 - apart, 1.5, 1.5 + apart])
    residuals_of_first = {"sw": np.sqrt(losses * data["sw"].mean_y.var())}
    candidates = [
        model.Candidate(Recipe(None, alpha), residuals, residuals)
        for alpha, residuals in ((10.0, residuals_of_first), (3.0, {"sw": np.zeros(3)}))
    ]
    monkeypatch.setattr(model, "_candidates", lambda *_: candidates)
    assert model.select(data, [None], seed=0) is candidates[0 if first_selected else 1]


# Prediction ---------------------------------------------------------------------------------------


def test_a_prediction_has_an_interval_around_it() -> None:
    tables, boot = arena()
    prediction = SurrogateRanker("ridge").fit(tables, boot).predict(tables[4])
    low, high = prediction.interval()
    assert low < prediction.logit < high
    narrow = prediction.interval(level=0.5)
    assert low < narrow[0] < narrow[1] < high
    assert prediction.draws.shape == (ERRORS_PER_DRAW * 40,)


@pytest.mark.slow
@pytest.mark.parametrize("models", [12, 19])
def test_intervals_of_new_models_have_their_coverage(models: int) -> None:
    covered = []
    for seed in range(100):
        tables, boot = arena(models=models + 3, seed=seed)
        # Half of the variance of the logits is in no feature.
        unknown = np.random.default_rng([seed, 1]).normal(0, 0.4, models + 3)
        boot = replace(boot, logits=boot.logits + unknown - unknown.mean())
        data = training_data(tables, boot)["sw"]
        ranker = SurrogateRanker("ridge").fit_data({"sw": data.of(boot.models[3:])})
        for row in range(3):
            low, high = ranker.predict(tables[row]).interval()
            covered.append(low <= data.mean_y[row] <= high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.03 + 1e-9)


def constant_features(row: Array) -> FeatureTable:
    """Return features that are the same on every query, so that drawing queries has no effect."""
    ids = tuple(f"q{i}" for i in range(30))
    return FeatureTable("new", "sw", ids, FEATURES, np.tile(row, (30, 1)))


@pytest.mark.parametrize("languages", [1, 2])
def test_errors_are_students_with_a_degree_less_than_models(languages: int) -> None:
    codes = ("sw", "en")[:languages]
    arenas = {code: arena(code, models=5, seed=seed) for seed, code in enumerate(codes)}
    tables = [table for language_tables, _ in arenas.values() for table in language_tables]
    ranker = SurrogateRanker("ridge").fit(
        tables, {code: boot for code, (_, boot) in arenas.items()}
    )
    prediction = ranker.predict(constant_features(np.full(3, 0.5)))
    errors = np.sort(prediction.draws - prediction.logit)
    residuals = evaluate(ranker.data, ranker.recipe, seed=0).of_all
    squares, profiles = residuals["sw"] ** 2, ranker.data["sw"].mean_X
    spread = profiles.std(axis=0)
    distances = np.sqrt((((profiles - 0.5) / spread) ** 2).mean(axis=1))
    between = np.sqrt((((profiles[:, None] - profiles) / spread) ** 2).mean(axis=2))
    nearest = np.sort(between + np.diag([np.inf] * 5), axis=1)[:, 0]
    # Near models have more weight; the mean over all languages has the weight of five models.
    weights = np.exp(-((distances / np.median(nearest)) ** 2) / 2)
    overall = np.mean(np.concatenate([residuals[code] for code in codes]) ** 2)
    scale = np.sqrt((weights @ squares + 5 * overall) / (weights.sum() + 5))
    scale *= max(1, distances.min() / np.quantile(nearest, 0.9))
    effective = weights.sum() ** 2 / (weights**2).sum() + 5
    df = min(effective, 5 if languages == 1 else 10) - 1
    expected = scale * student.ppf((np.arange(800) + 0.5) / 800, df=df)
    assert errors == pytest.approx(expected, abs=1e-9)


def test_errors_of_many_models_have_the_distribution_of_the_residuals() -> None:
    """One residual in ten is large, so that a t scaled by their squares is too wide inside."""
    rng = np.random.default_rng(0)
    deviations = np.where(rng.random(640) < 0.1, 0.8, 0.1)
    residuals = np.abs(rng.normal(0, deviations))
    profiles = rng.normal(size=(640, 3))
    train, new = slice(0, 240), slice(240, 640)
    gaps = np.sqrt(((profiles[train, None] - profiles[train]) ** 2).mean(axis=2))
    nearest = np.sort(np.sort(gaps, axis=1)[:, 1])
    known = residuals[train]
    near_all = Familiarity(FEATURES, profiles[train], np.ones(3), known, known, nearest, 240)
    draws = np.stack([near_all.errors(profile, 20, [0]).ravel() for profile in profiles[new]])
    for level in (0.5, 0.8, 0.95):
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=1)
        assert low == pytest.approx(-high)
        assert np.mean(residuals[new] <= high) == pytest.approx(level, abs=0.08)
    far = near_all.errors(profiles[0] + 20, 400, [0])
    assert np.std(far) > 5 * np.std(draws, axis=1).max()


def test_a_model_unlike_all_others_is_reported_and_has_a_wider_interval() -> None:
    tables, boot = arena(models=12)
    ranker = SurrogateRanker("linear").fit(tables, boot)
    means = ranker.data["sw"].mean_X
    middle = ranker.predict(constant_features(means.mean(axis=0)))
    away = means.mean(axis=0) + 8 * means.std(axis=0) * np.array([1, 0, 0])
    far = ranker.predict(constant_features(away))
    assert middle.unfamiliar == ""
    assert far.unfamiliar.startswith(f"high {ranker.features[0]}")
    assert np.ptp(far.interval()) > 2 * np.ptp(middle.interval())


def test_features_are_clipped_at_three_deviations() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("ridge").fit(tables, boot)
    means = ranker.data["sw"].mean_X
    near, at_three, far = (
        ranker.predict(constant_features(means.mean(axis=0) + deviations * means.std(axis=0))).logit
        for deviations in (1.5, 3, 100)
    )
    middle = ranker.predict(constant_features(means.mean(axis=0))).logit
    assert at_three - middle == pytest.approx(2 * (near - middle), rel=1e-6)
    assert far == pytest.approx(at_three, rel=1e-9)


def test_an_interval_of_few_draws_is_not_narrower() -> None:
    for draws in (40, 200, 2000):
        evenly = ndtri((np.arange(draws) + 0.5) / draws)
        low, high = Prediction("m", "sw", 0.0, evenly).interval()
        assert high == pytest.approx(1.96, abs=0.06)
        assert low == pytest.approx(-high)


def test_the_interval_widens_with_the_error_of_the_surrogate() -> None:
    sure, unsure = arena(models=30), arena(models=30)
    noisy = np.random.default_rng(1).normal(0, 1, 30)
    unsure = (unsure[0], replace(unsure[1], logits=unsure[1].logits + noisy - noisy.mean()))
    widths = []
    for tables, boot in (sure, unsure):
        low, high = SurrogateRanker("ridge").fit(tables, boot).predict(tables[0]).interval()
        widths.append(high - low)
    assert widths[1] > 5 * widths[0]


def with_failures(table: FeatureTable, failed: Sequence[int]) -> FeatureTable:
    values = table.values.copy()
    values[list(failed)] = np.nan
    return replace(table, values=values)


def test_not_answering_never_improves_the_logit() -> None:
    tables, boot = arena(models=13, seed=3)
    all_data = training_data(tables, boot)["sw"]
    best, worst = int(all_data.mean_y.argmax()), int(all_data.mean_y.argmin())
    for row in (best, worst):
        table, rest = tables[row], all_data.without({all_data.models[row]})
        ranker = SurrogateRanker("linear").fit_data({"sw": rest})
        whole = ranker.predict(table)
        quality = table.values @ [2.0, 1.0, 0.0]
        at_random = np.random.default_rng(0).permutation(30)
        for failed in (at_random[:6], at_random[:25], np.argsort(quality)[: 12 * (row == best)]):
            part = ranker.predict(with_failures(table, failed))
            assert part.logit < whole.logit + 0.01
            if len(failed):
                assert np.ptp(part.interval()) > np.ptp(whole.interval())


def test_a_failed_query_gets_the_worst_values_of_the_training_models() -> None:
    tables, boot = arena(models=13, seed=3)
    all_data = training_data(tables, boot)["sw"]
    best = int(all_data.mean_y.argmax())
    table, rest = tables[best], all_data.without({all_data.models[best]})
    ranker = SurrogateRanker("linear").fit_data({"sw": rest})
    values = table.values.copy()
    values[4, :2] = rest.values[:, 4, :2].min(axis=0)
    values[4, 2] = np.delete(table.values[:, 2], 4).mean()  # it has no direction
    by_hand = ranker.predict(replace(table, values=values)).logit
    assert ranker.predict(with_failures(table, [4])).logit == pytest.approx(by_hand)
    elsewhere = replace(with_failures(table, [4]), query_ids=tuple(f"x{i}" for i in range(30)))
    assert ranker.predict(elsewhere).logit < by_hand  # the worst on any query


def test_a_failed_query_is_no_better_than_the_mean_of_the_others() -> None:
    tables, boot = arena()
    data = training_data(tables, boot)["sw"]
    table = replace(tables[0], values=np.full((30, 3), -1.0))  # worse than all training models
    answered = table.select(table.query_ids[:29])
    filled = _fill_with_worst(table, answered, data)
    assert filled.shape == (30, 3)
    assert filled[-1].tolist() == pytest.approx([-1, -1, np.nan], nan_ok=True)


def test_missing_answers_widen_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """The widest spread and the widest errors count, whichever version of the values has them."""
    tables, boot = arena()
    ranker = SurrogateRanker("linear").fit(tables, boot)
    narrow, wide, profile = np.arange(40) / 100, np.arange(40) / 10, tables[0].values.mean(axis=0)
    for first, second in ((narrow, wide), (wide, narrow)):
        versions = iter(
            [_Estimate(profile, 1.0, first, second), _Estimate(profile, 0.5, second, first)]
        )
        monkeypatch.setattr(ranker, "_estimate", lambda *_, versions=versions: next(versions))
        prediction = ranker.predict(with_failures(tables[0], [4]))
        assert prediction.draws == pytest.approx(0.5 + wide + wide)


def test_a_prediction_needs_five_answered_queries() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("linear").fit(tables, boot)
    assert ranker.predict(with_failures(tables[0], range(25))).draws.shape == (
        ERRORS_PER_DRAW * 40,
    )
    with pytest.raises(FeatureError, match=r"answered 4 of 30 queries \(sw\); at least 5 answered"):
        ranker.predict(with_failures(tables[0], range(26)))


def test_other_queries_than_those_of_training_are_drawn_from_the_table() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("ridge").fit(tables, boot)
    elsewhere = replace(tables[0], query_ids=tuple(f"x{i}" for i in range(30)))
    assert ranker.predict(elsewhere).logit == ranker.predict(tables[0]).logit
    assert ranker.predict(elsewhere).draws.shape == (ERRORS_PER_DRAW * 40,)


def test_the_name_of_a_model_does_not_change_its_prediction() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("ridge").fit(tables, boot)
    draws = ranker.predict(tables[3]).draws
    rounded = replace(tables[3], model="モデル", values=tables[3].values + 1e-14)
    assert ranker.predict(rounded).draws == pytest.approx(draws, abs=1e-9)
    order, other = (np.argsort(ranker.predict(tables[i]).draws) for i in (3, 4))
    assert (order != other).any()  # systems with other features get other random errors


def test_each_draw_of_the_queries_gets_errors_of_all_sizes() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("ridge").fit(tables, boot)
    prediction = ranker.predict(constant_features(np.full(3, 0.5)))
    errors = (prediction.draws - prediction.logit).reshape(ERRORS_PER_DRAW, 40)
    middles = np.sort(errors.ravel()).reshape(ERRORS_PER_DRAW, 40)
    assert (np.sort(errors, axis=0) >= middles.min(axis=1)[:, None] - 1e-9).all()
    assert (np.sort(errors, axis=0) <= middles.max(axis=1)[:, None] + 1e-9).all()


def test_columns_are_matched_by_name_and_none_is_filled_in() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("ridge").fit(tables, boot)
    shuffled = tables[0].columns(FEATURES[::-1])
    assert ranker.predict(shuffled).logit == ranker.predict(tables[0]).logit
    with pytest.raises(FeatureError, match="lack noise, on which this surrogate was trained"):
        ranker.predict(tables[0].columns(FEATURES[:2]))
    empty = tables[0].values.copy()
    empty[:, 1] = np.nan
    with pytest.raises(FeatureError, match="has no value of 'answer_bleu' on any query"):
        ranker.predict(replace(tables[0], values=empty))
    with pytest.raises(UnknownNameError, match="unknown training language 'de'"):
        ranker.predict(replace(tables[0], language="de"))


def test_the_same_seed_gives_the_same_numbers() -> None:
    tables, boot = arena(tournaments=2)
    first, again = (SurrogateRanker("mlp", seed=5).fit(tables, boot) for _ in range(2))
    assert np.array_equal(first.predict(tables[1]).draws, again.predict(tables[1]).draws)


@pytest.mark.slow
def test_the_number_of_processes_changes_no_number() -> None:
    tables, boot = arena(tournaments=2)
    first = SurrogateRanker("mlp", seed=5).fit(tables, boot)
    single_process, two_processes = (first.cross_validate(2, 2, n_jobs=n) for n in (1, 2))
    assert np.array_equal(single_process.predicted["sw"], two_processes.predicted["sw"])


# Validation and importances -----------------------------------------------------------------------


def test_r2_and_tau_by_hand() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("ridge").fit(tables, boot)
    validation = ranker.cross_validate(3, 8)
    predicted, actual = validation.predicted["sw"], validation.actual["sw"]
    part = ranker.data["sw"]
    training_means = [[part.without(models).mean_y.mean()] for models in validation.held_out]
    expected = 1 - np.sum((actual - predicted) ** 2) / np.sum((actual - training_means) ** 2)
    assert validation.r2["sw"] == pytest.approx(expected)
    in_paper = 1 - np.sum((actual - predicted) ** 2) / np.sum((actual - part.mean_y.mean()) ** 2)
    assert validation.r2_in_paper["sw"] == pytest.approx(in_paper)
    pairs = [(0, 1), (0, 2), (1, 2)]
    concordant = [
        np.sign(p[i] - p[j]) * np.sign(a[i] - a[j])
        for p, a in zip(predicted, actual, strict=True)
        for i, j in pairs
    ]
    assert validation.tau["sw"] == pytest.approx(np.mean(concordant))
    names = list(ranker.data["sw"].models)
    rows = np.array([[names.index(name) for name in split] for split in validation.held_out])
    expected_interval = held_out_tau_interval(rows, predicted, actual, level=0.8)
    assert validation.tau_interval(level=0.8)["sw"] == pytest.approx(expected_interval)
    assert expected_interval[0] < validation.tau["sw"] < expected_interval[1]


def test_models_are_held_out_equally_often() -> None:
    tables, boot = arena()
    validation = SurrogateRanker("ridge").fit(tables, boot).cross_validate(4, 6)
    held_out_models = [model for split in validation.held_out for model in split]
    assert {held_out_models.count(model) for model in boot.models} == {2}


def test_importances_find_what_matters() -> None:
    tables, boot = arena(models=20)
    importances = SurrogateRanker("ridge").fit(tables, boot).importances(4, 10)
    assert list(importances) == ["citation_recall@10", "answer_bleu", "noise"]
    assert importances["citation_recall@10"] > 0.5
    assert abs(importances["noise"]) < 0.05


def test_the_importance_of_all_that_matters_is_two() -> None:
    # Logits of two models differ, in the mean square, by twice their variance.
    arenas = {code: arena(code, 30, (2.0, 0.0, 0.0), tournaments=5) for code in ("sw", "de")}
    tables = [table for language_tables, _ in arenas.values() for table in language_tables]
    ranker = SurrogateRanker("ridge").fit(tables, {c: boot for c, (_, boot) in arenas.items()})
    importances = ranker.importances(1, 30)
    assert importances["citation_recall@10"] == pytest.approx(2, abs=0.5)


def test_a_held_out_model_does_not_affect_its_prediction() -> None:
    tables, boot = arena()
    base = SurrogateRanker("ridge").fit(tables, boot).cross_validate(1, 12)
    outlier = boot.logits.copy()
    outlier[:, 0] += 100.0
    spoilt = SurrogateRanker("ridge").fit(tables, replace(boot, logits=outlier))
    after = spoilt.cross_validate(1, 12)
    row = base.held_out.index(("m00",))
    assert after.predicted["sw"][row] == pytest.approx(base.predicted["sw"][row])


def test_too_few_models_are_an_error() -> None:
    tables, boot = arena(models=4)
    ranker = SurrogateRanker("ridge").fit(tables, boot)
    with pytest.raises(FeatureError, match="2 of 4 models cannot be held out"):
        ranker.cross_validate(2)
    tables, boot = arena(models=2)
    with pytest.raises(FeatureError, match="at least three models per language"):
        SurrogateRanker("ridge").fit(tables, boot)


def test_an_unknown_training_language_is_an_error() -> None:
    tables, boot = arena()
    ranker = SurrogateRanker("linear").fit(tables, boot)
    other = replace(tables[0], language="de")
    for use in (ranker.fitted_logits, ranker.predict, ranker.scores):
        argument: Any = "de" if use == ranker.fitted_logits else other
        with pytest.raises(UnknownNameError, match="unknown training language 'de'; known: sw"):
            use(argument)


def test_a_surrogate_that_is_not_fitted_is_an_error() -> None:
    with pytest.raises(NotFittedError, match="is not fitted"):
        SurrogateRanker().predict(arena()[0][0])
    with pytest.raises(UnknownNameError, match="did you mean 'forest'"):
        SurrogateRanker("forests")


def test_recipes_as_text() -> None:
    assert str(Recipe("svr", None)) == "svr"
    assert str(Recipe(None, 10.0)) == "monotone ridge(10) per language"
    assert str(Recipe("forest", 3.0)) == "forest + ridge(3) per language"


def test_a_feature_without_spread_does_no_harm() -> None:
    tables, boot = arena()
    flat = [replace(t, values=np.where([True, True, False], t.values, 1.0)) for t in tables]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        validation = SurrogateRanker("ridge").fit(flat, boot).cross_validate(2, 10)
    assert validation.tau["sw"] > 0.6


def test_training_data_of_some_models() -> None:
    tables, boot = arena()
    data: TrainingData = training_data(tables, boot)["sw"]
    part = data.of(["m03", "m01"])
    assert part.models == ("m01", "m03")
    assert np.array_equal(part.X, data.X[:, [1, 3]])
