"""Surrogates that are trained on single verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from sklearn.linear_model import LogisticRegression

from mirage._base.arrays import Floats
from mirage.arena import BradleyTerry, Judgments, Tournaments
from mirage.errors import ArtifactError, FeatureError, UnknownNameError
from mirage.features import FeatureTable
from mirage.surrogate import SurrogateRanker, artifacts
from mirage.surrogate._verdicts import (
    RIDGE,
    expected_wins,
    fit_scores,
    fit_shares,
    logit_that_wins,
)
from mirage.surrogate.model import ENOUGH, Recipe, evaluate
from mirage.surrogate.training import TrainingData, training_data

FEATURES = ("answer_bleu", "answer_rougeL", "noise")
Arena = tuple[list[FeatureTable], Tournaments, Judgments]


def arena(
    language: str = "sw",
    *,
    models: int = 8,
    queries: int = 40,
    seed: int = 0,
    between: float = 0.3,
    bend: Callable[[Floats], Floats] = lambda values: 2 * values[:, :, 0] + values[:, :, 1],
) -> Arena:
    """Return responses whose quality is about a sum of two features, judged with logistic noise."""
    rng = np.random.default_rng([seed, *language.encode()])
    level = rng.normal(0, between, (models, 1, 3))
    values = level + rng.normal(0, 1, (models, queries, 3))
    quality = bend(values)
    a, b = np.triu_indices(models, 1)
    noise = rng.logistic(size=(len(a), queries))
    names = np.array([f"m{i:02d}" for i in range(models)])
    ids = tuple(f"q{i:02d}" for i in range(queries))
    judgments = Judgments.from_arrays(
        query=np.tile(ids, len(a)),
        model_a=np.repeat(names[a], queries),
        model_b=np.repeat(names[b], queries),
        score=(quality[a] - quality[b] + noise > 0).ravel().astype(float),
    )
    boot = BradleyTerry().bootstrap(judgments, tournaments=20, queries=40, progress=False)
    tables = [
        FeatureTable(str(name), language, ids, FEATURES, rows)
        for name, rows in zip(names, values, strict=True)
    ]
    return tables, boot, judgments


def both_needed(values: Floats) -> Floats:
    """Return a high quality if both features are high, which a linear score cannot express."""
    return np.where((values[:, :, 0] > 0.3) & (values[:, :, 1] > 0.3), 4.0, 0.0)


def data(**settings: Any) -> TrainingData:
    tables, boot, judgments = arena(**settings)
    return training_data(tables, boot, judgments=judgments)["sw"]


# The score of a response --------------------------------------------------------------------------


def test_slopes_are_those_of_logistic_regression() -> None:
    part = data(queries=100)
    scores = fit_scores({"sw": part}, [0, 0, 0], seed=0)
    judged = part.judgments
    assert judged is not None
    Z = np.clip((part.values - part.values.mean((0, 1))) / part.values.std((0, 1)), -3, 3)
    D = Z[judged.a, judged.query] - Z[judged.b, judged.query]
    expected = LogisticRegression(C=1 / (RIDGE * len(D)), fit_intercept=False, tol=1e-8)
    expected.fit(D, judged.score)
    assert scores.slopes == pytest.approx(expected.coef_[0], abs=1e-3)


def test_no_slope_has_the_wrong_sign() -> None:
    slopes = fit_scores({"sw": data()}, [-1, 1, 0], seed=0).slopes
    assert slopes[0] == 0
    assert slopes[1] > 0


def test_what_is_missing_on_a_query_is_no_difference() -> None:
    part = data()
    values = part.values.copy()
    values[:, ::2, 1] = np.nan
    scores = fit_scores({"sw": replace(part, values=values)}, [0, 0, 0], seed=0)
    row = np.array([0.3, np.nan, 0.1])
    mean = np.array([0.3, scores.centres["sw"][1], 0.1])
    assert scores.of("sw", row) == pytest.approx(scores.of("sw", mean))


def test_shares_are_those_that_responses_win() -> None:
    """Check the shares of eight responses per query.

    Only the response of m00 has the feature. It loses one verdict of seven.
    """
    part = data(queries=30)
    judged = part.judgments
    assert judged is not None
    values = np.zeros_like(part.values)
    values[0, :, 0] = 1.0
    score = np.where(judged.a == 0, (judged.b != 7).astype(float), 0.5)
    part = replace(part, values=values, judgments=replace(judged, score=score))
    shares = fit_shares({"sw": part}, part.monotone, seed=0)
    # The others tie six times; six of the seven also lose once, and one wins.
    other_share = (6 * 3.0 + 4.0) / 49
    assert shares.wins("sw", values[:2, 0]) == pytest.approx([6 / 7, other_share], abs=0.01)
    assert shares.of("sw", values[0, 0]) == pytest.approx(np.log(6), abs=0.1)


def test_trees_have_no_wrong_sign() -> None:
    part = data(queries=30)
    values = part.values.copy()
    values[..., 0] *= -1  # although higher is better by the feature's definition
    shares = fit_shares({"sw": replace(part, values=values)}, part.monotone, seed=0)
    rows = np.stack([np.linspace(-3, 3, 50), np.zeros(50), np.zeros(50)], axis=1)
    assert (np.diff(shares.wins("sw", rows)) >= 0).all()


# From scores to logits ----------------------------------------------------------------------------


def test_winning_half_against_equals_gives_their_logit() -> None:
    assert logit_that_wins(np.array([0.5]), np.array([0.7, 0.7])) == pytest.approx([0.7])
    # 1 / (1 + exp(-2)) against a logit of -1 is a logit of 1.
    assert logit_that_wins(np.array([0.880797]), np.array([-1.0])) == pytest.approx([1], abs=1e-4)


def test_logits_are_recovered_from_their_shares() -> None:
    logits = np.array([-2.0, 0.1, 3.0])
    shares = np.array([(1 / (1 + np.exp(logits - x))).mean() for x in (-9.0, 0.0, 4.0)])
    assert logit_that_wins(shares, logits) == pytest.approx([-9.0, 0.0, 4.0], abs=1e-5)


def test_responses_to_the_same_queries_are_compared_query_by_query() -> None:
    scores, other_scores = np.array([0.0, 5.0]), np.array([[0.0, 5.0]])
    assert expected_wins(scores, other_scores, paired=True) == pytest.approx([0.5, 0.5])
    low = (0.5 + 1 / (1 + np.exp(5))) / 2
    assert expected_wins(scores, other_scores, paired=False) == pytest.approx([low, 1 - low])


# The surrogate ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_verdicts_predict_few_models_better_than_means() -> None:
    r2 = {}
    for name in ("verdicts", "ridge"):
        ranker = SurrogateRanker(name).fit(
            *(data_set := arena(models=10))[:2], judgments=data_set[2]
        )
        r2[name] = ranker.cross_validate(2, 45).r2["sw"]
    assert r2["verdicts"] > max(0.8, r2["ridge"])


def test_auto_uses_verdicts_if_there_are_any() -> None:
    tables, boot, judgments = arena()
    assert SurrogateRanker().fit(tables, boot, judgments=judgments).recipe.verdicts
    assert not SurrogateRanker("ridge").fit(tables, boot, judgments=judgments).recipe.verdicts
    with pytest.raises(FeatureError, match=r"learns from judgments; pass the judgments"):
        SurrogateRanker("verdicts").fit(tables, boot)


def test_verdicts_on_a_held_out_model_are_removed() -> None:
    part = data()
    assert part.judgments is not None
    rest = part.without(["m03"])
    assert rest.judgments is not None
    assert len(rest.judgments) == 21 * 40
    pairs = {(j.model_a, j.model_b) for j in part.judgments.to_records()}
    remaining_pairs = {(j.model_a, j.model_b) for j in rest.judgments.to_records()}
    assert remaining_pairs == {pair for pair in pairs if "m03" not in pair}


def test_new_queries_are_compared_with_all_responses() -> None:
    tables, boot, judgments = arena(models=10, queries=200)
    ranker = SurrogateRanker("verdicts").fit(tables, boot, judgments=judgments)
    prediction = ranker.predict(tables[9])
    elsewhere = replace(tables[9], query_ids=tuple(f"x{i}" for i in range(200)))
    assert ranker.predict(elsewhere).logit == pytest.approx(prediction.logit, abs=0.25)
    assert ranker.predict(elsewhere).logit != prediction.logit
    half = tables[9].select(tables[9].query_ids[:100])
    assert ranker.predict(half).logit == pytest.approx(prediction.logit, abs=0.4)


def test_a_stored_surrogate_predicts_the_same(tmp_path: Path) -> None:
    tables, boot, judgments = arena()
    tables = [replace(t, values=t.values.astype(np.float32).astype(float)) for t in tables]
    boot = replace(boot, logits=boot.logits.astype(np.float32).astype(float))
    ranker = SurrogateRanker("verdicts").fit(tables, boot, judgments=judgments)
    ranker.save(tmp_path / "one.npz")
    loaded = SurrogateRanker.load(tmp_path / "one.npz", trust=True)
    assert loaded.recipe == ranker.recipe
    assert loaded.predict(tables[0]).logit == ranker.predict(tables[0]).logit
    assert np.array_equal(loaded.predict(tables[0]).draws, ranker.predict(tables[0]).draws)


@pytest.fixture(scope="module")
def tree_ranker() -> SurrogateRanker:
    """Return a surrogate of trees, selected because quality is not linear in the features.

    The numbers are rounded as in a file.
    """
    tables, boot, judgments = arena(models=20, queries=30, between=1.5, bend=both_needed)
    tables = [replace(t, values=t.values.astype(np.float32).astype(float)) for t in tables]
    return SurrogateRanker().fit(tables, boot, judgments=judgments)


@pytest.mark.slow
def test_trees_are_selected_with_many_models_if_quality_is_not_linear(
    tree_ranker: SurrogateRanker,
) -> None:
    assert tree_ranker.recipe == Recipe(None, None, verdicts=True, trees=True)
    assert str(tree_ranker.recipe) == "verdicts by trees"
    slopes = evaluate(tree_ranker.data, Recipe(None, None, verdicts=True), seed=0)
    unexplained = np.mean(slopes.of_all["sw"] ** 2) / tree_ranker.data["sw"].mean_y.var()
    assert tree_ranker.cross_validate(4, 1).r2["sw"] > max(0.7, 1 - unexplained)
    few = {"sw": tree_ranker.data["sw"].of(f"m{i:02d}" for i in range(ENOUGH - 1))}
    assert not SurrogateRanker().fit_data(few).recipe.trees


@pytest.mark.slow
def test_stored_trees_predict_the_same(tree_ranker: SurrogateRanker, tmp_path: Path) -> None:
    tree_ranker.save(tmp_path / "one.npz")
    loaded = SurrogateRanker.load(tmp_path / "one.npz", trust=True)
    assert loaded.recipe.trees
    table = tree_ranker.data["sw"].table(0)
    assert np.array_equal(loaded.scores(table), tree_ranker.scores(table))


@pytest.mark.slow
def test_trees_are_an_estimator_of_their_own(tree_ranker: SurrogateRanker) -> None:
    ranker = SurrogateRanker("verdict_trees").fit_data(tree_ranker.data)
    assert ranker.recipe == tree_ranker.recipe
    table = tree_ranker.data["sw"].table(0)
    assert np.array_equal(ranker.scores(table), tree_ranker.scores(table))
    tables, boot, _ = arena()
    with pytest.raises(FeatureError, match="'verdict_trees' learns from judgments"):
        SurrogateRanker("verdict_trees").fit(tables, boot)


@pytest.mark.slow
def test_trees_that_are_stored_without_verdicts_predict_and_are_not_refitted(
    tree_ranker: SurrogateRanker, tmp_path: Path
) -> None:
    artifacts.write(tmp_path / "one.npz", tree_ranker.artifact.without_verdicts())
    loaded = SurrogateRanker.load(tmp_path / "one.npz", trust=True)
    table = tree_ranker.data["sw"].table(0)
    # Logits are stored in single precision.
    assert np.allclose(loaded.predict(table).draws, tree_ranker.predict(table).draws, atol=1e-6)
    for measure in (loaded.cross_validate, loaded.importances):
        with pytest.raises(FeatureError, match="saved without its training verdicts"):
            measure()


@pytest.mark.slow
def test_stored_trees_that_fit_no_features_are_refused(
    tree_ranker: SurrogateRanker, tmp_path: Path
) -> None:
    trees = tree_ranker.artifact.trees
    assert trees is not None
    damaged = replace(trees, feature=trees.feature + 3)
    artifacts.write(tmp_path / "one.npz", replace(tree_ranker.artifact, trees=damaged))
    with pytest.raises(ArtifactError, match="trees use features that the file does not list"):
        SurrogateRanker.load(tmp_path / "one.npz", trust=True)


def test_judgments_of_other_models_or_languages_are_refused() -> None:
    tables, boot, judgments = arena()
    renamed_tournaments = replace(boot, models=(*boot.models[:-1], "other"))
    renamed_tables = [*tables[:-1], replace(tables[-1], model="other")]
    with pytest.raises(UnknownNameError, match=r"model 'm07' in the 'sw' tournaments"):
        SurrogateRanker().fit(renamed_tables, renamed_tournaments, judgments=judgments)
    with pytest.raises(FeatureError, match="no judgments for the language 'sw'"):
        SurrogateRanker().fit(tables, boot, judgments={"de": judgments})


def test_importances_of_verdicts_find_what_matters() -> None:
    tables, boot, judgments = arena()
    ranker = SurrogateRanker("verdicts").fit(tables, boot, judgments=judgments)
    assert ranker.recipe == Recipe(None, None, verdicts=True)
    importances = ranker.importances(2, 4)
    assert list(importances) == ["answer_bleu", "answer_rougeL", "noise"]
    assert abs(importances["noise"]) < 0.05


# Languages ----------------------------------------------------------------------------------------


def test_a_language_that_lacks_a_feature_is_left_out_with_the_reason() -> None:
    arenas = {code: arena(code) for code in ("sw", "de", "te")}
    tables = [
        t
        for language_tables, _, _ in arenas.values()
        for t in language_tables
        if t.language != "te"
    ]
    tables += [table.columns(FEATURES[:2]) for table in arenas["te"][0]]
    boots = {code: boot for code, (_, boot, _) in arenas.items()}
    judged = {code: judgments for code, (_, _, judgments) in arenas.items()}
    ranker = SurrogateRanker("verdicts").fit(tables, boots, judgments=judged)
    assert set(ranker.data) == {"sw", "de"}
    assert "(te) has answer_bleu, answer_rougeL" in ranker.left_out["te"]
    with pytest.raises(
        FeatureError, match=r"'te' was left out of this surrogate: all models must have"
    ):
        ranker.predict(arenas["te"][0][0])


def test_a_language_whose_model_has_a_feature_on_no_query_is_left_out() -> None:
    tables, boot, _ = arena()
    german_tables, german_tournaments, _ = arena("de")
    values = german_tables[3].values.copy()
    values[:, 1] = np.nan
    german_tables[3] = replace(german_tables[3], values=values)
    ranker = SurrogateRanker("ridge").fit(
        [*tables, *german_tables], {"sw": boot, "de": german_tournaments}
    )
    assert set(ranker.data) == {"sw"}
    assert "'m03' (de) has no value of 'answer_rougeL' on any query" in ranker.left_out["de"]


def test_the_bisection_rounds_as_with_scipy() -> None:
    """numpy's exponential may differ in the last digit, and with it the last digits of a logit."""

    def expected(shares: np.ndarray, logits: np.ndarray) -> np.ndarray:
        log_odds = scipy.special.logit(np.clip(shares, 1e-9, 1 - 1e-9))
        low, high = log_odds + logits.min(), log_odds + logits.max()
        for _ in range(50):
            middle = (low + high) / 2
            wins = scipy.special.expit(middle[:, None] - logits).mean(axis=1)
            low, high = np.where(wins < shares, middle, low), np.where(wins < shares, high, middle)
        return (low + high) / 2

    rng = np.random.default_rng(0)
    for size, scale in product((1, 3, 200), (0.01, 1, 30)):
        shares = np.append(rng.uniform(size=size), [0, 0.5, 1])
        logits = rng.normal(size=240) * scale
        np.testing.assert_array_equal(logit_that_wins(shares, logits), expected(shares, logits))
