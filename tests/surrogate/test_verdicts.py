"""What single verdicts teach a surrogate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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
    """Responses whose quality is a sum of two features, or so, judged with logistic noise."""
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
    """Good where both features are high, else bad: what no sum of slopes tells."""
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
    theirs = LogisticRegression(C=1 / (RIDGE * len(D)), fit_intercept=False, tol=1e-8)
    theirs.fit(D, judged.score)
    assert scores.slopes == pytest.approx(theirs.coef_[0], abs=1e-3)


def test_no_slope_has_the_wrong_sign() -> None:
    slopes = fit_scores({"sw": data()}, [-1, 1, 0], seed=0).slopes
    assert slopes[0] == 0
    assert slopes[1] > 0


def test_what_is_missing_on_a_query_is_no_difference() -> None:
    part = data()
    values = part.values.copy()
    values[:, ::2, 1] = np.nan
    scores = fit_scores({"sw": replace(part, values=values)}, [0, 0, 0], seed=0)
    one = np.array([0.3, np.nan, 0.1])
    mean = np.array([0.3, scores.centres["sw"][1], 0.1])
    assert scores.of("sw", one) == pytest.approx(scores.of("sw", mean))


def test_shares_are_those_that_responses_win() -> None:
    """Eight responses a query: m00's one has the feature, loses one verdict of seven, wins six."""
    part = data(queries=30)
    judged = part.judgments
    assert judged is not None
    values = np.zeros_like(part.values)
    values[0, :, 0] = 1.0
    score = np.where(judged.a == 0, (judged.b != 7).astype(float), 0.5)
    part = replace(part, values=values, judgments=replace(judged, score=score))
    shares = fit_shares({"sw": part}, part.monotone, seed=0)
    # The others tie six times; six of the seven lose once more, and one wins.
    rest = (6 * 3.0 + 4.0) / 49
    assert shares.wins("sw", values[:2, 0]) == pytest.approx([6 / 7, rest], abs=0.01)
    assert shares.of("sw", values[0, 0]) == pytest.approx(np.log(6), abs=0.1)


def test_trees_have_no_wrong_sign() -> None:
    part = data(queries=30)
    values = part.values.copy()
    values[..., 0] *= -1  # higher is better, the definition says
    shares = fit_shares({"sw": replace(part, values=values)}, part.monotone, seed=0)
    rows = np.stack([np.linspace(-3, 3, 50), np.zeros(50), np.zeros(50)], axis=1)
    assert (np.diff(shares.wins("sw", rows)) >= 0).all()


# From scores to logits ----------------------------------------------------------------------------


def test_who_wins_half_against_equals_is_their_equal() -> None:
    assert logit_that_wins(np.array([0.5]), np.array([0.7, 0.7])) == pytest.approx([0.7])
    # 1 / (1 + exp(-2)) against a logit of -1 is a logit of 1.
    assert logit_that_wins(np.array([0.880797]), np.array([-1.0])) == pytest.approx([1], abs=1e-4)


def test_a_logit_wins_what_it_was_made_from() -> None:
    logits = np.array([-2.0, 0.1, 3.0])
    shares = np.array([(1 / (1 + np.exp(logits - x))).mean() for x in (-9.0, 0.0, 4.0)])
    assert logit_that_wins(shares, logits) == pytest.approx([-9.0, 0.0, 4.0], abs=1e-5)


def test_responses_to_the_same_queries_are_compared_query_by_query() -> None:
    scores, others = np.array([0.0, 5.0]), np.array([[0.0, 5.0]])
    assert expected_wins(scores, others, paired=True) == pytest.approx([0.5, 0.5])
    low = (0.5 + 1 / (1 + np.exp(5))) / 2
    assert expected_wins(scores, others, paired=False) == pytest.approx([low, 1 - low])


# The surrogate ------------------------------------------------------------------------------------


def test_verdicts_tell_more_than_the_means_of_few_models() -> None:
    r2 = {}
    for name in ("verdicts", "ridge"):
        ranker = SurrogateRanker(name).fit(*(one := arena(models=10))[:2], judgments=one[2])
        r2[name] = ranker.cross_validate(2, 45).r2["sw"]
    assert r2["verdicts"] > max(0.8, r2["ridge"])


def test_auto_learns_from_verdicts_where_there_are_any() -> None:
    tables, boot, judgments = arena()
    assert SurrogateRanker().fit(tables, boot, judgments=judgments).recipe.verdicts
    assert not SurrogateRanker("ridge").fit(tables, boot, judgments=judgments).recipe.verdicts
    with pytest.raises(FeatureError, match=r"learns from judgments: give those"):
        SurrogateRanker("verdicts").fit(tables, boot)


def test_a_model_held_out_has_no_say_in_the_verdicts() -> None:
    part = data()
    assert part.judgments is not None
    rest = part.without(["m03"])
    assert rest.judgments is not None
    assert len(rest.judgments) == 21 * 40
    pairs = {(j.model_a, j.model_b) for j in part.judgments.to_records()}
    left = {(j.model_a, j.model_b) for j in rest.judgments.to_records()}
    assert left == {pair for pair in pairs if "m03" not in pair}


def test_new_queries_are_compared_with_all_responses() -> None:
    tables, boot, judgments = arena(models=10, queries=200)
    ranker = SurrogateRanker("verdicts").fit(tables, boot, judgments=judgments)
    own = ranker.predict(tables[9])
    elsewhere = replace(tables[9], query_ids=tuple(f"x{i}" for i in range(200)))
    assert ranker.predict(elsewhere).logit == pytest.approx(own.logit, abs=0.25)
    assert ranker.predict(elsewhere).logit != own.logit
    half = tables[9].select(tables[9].query_ids[:100])
    assert ranker.predict(half).logit == pytest.approx(own.logit, abs=0.4)


def test_a_stored_surrogate_says_the_same(tmp_path: Path) -> None:
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
def of_trees() -> SurrogateRanker:
    """Selected where no sum of slopes tells what is good; of numbers as they are stored."""
    tables, boot, judgments = arena(models=20, queries=30, between=1.5, bend=both_needed)
    tables = [replace(t, values=t.values.astype(np.float32).astype(float)) for t in tables]
    return SurrogateRanker().fit(tables, boot, judgments=judgments)


def test_trees_are_selected_where_slopes_do_not_tell_and_models_are_many(
    of_trees: SurrogateRanker,
) -> None:
    assert of_trees.recipe == Recipe(None, None, verdicts=True, trees=True)
    assert str(of_trees.recipe) == "verdicts by trees"
    slopes = evaluate(of_trees.data, Recipe(None, None, verdicts=True), seed=0)
    left = np.mean(slopes.of_all["sw"] ** 2) / of_trees.data["sw"].mean_y.var()
    assert of_trees.cross_validate(4, 1).r2["sw"] > max(0.7, 1 - left)
    few = {"sw": of_trees.data["sw"].of(f"m{i:02d}" for i in range(ENOUGH - 1))}
    assert not SurrogateRanker().fit_data(few).recipe.trees


def test_stored_trees_say_the_same(of_trees: SurrogateRanker, tmp_path: Path) -> None:
    of_trees.save(tmp_path / "one.npz")
    loaded = SurrogateRanker.load(tmp_path / "one.npz", trust=True)
    assert loaded.recipe.trees
    one = of_trees.data["sw"].table(0)
    assert np.array_equal(loaded.scores(one), of_trees.scores(one))


def test_trees_are_an_estimator_of_their_own(of_trees: SurrogateRanker) -> None:
    ranker = SurrogateRanker("verdict_trees").fit_data(of_trees.data)
    assert ranker.recipe == of_trees.recipe
    one = of_trees.data["sw"].table(0)
    assert np.array_equal(ranker.scores(one), of_trees.scores(one))
    tables, boot, _ = arena()
    with pytest.raises(FeatureError, match="'verdict_trees' learns from judgments"):
        SurrogateRanker("verdict_trees").fit(tables, boot)


def test_trees_that_are_stored_without_verdicts_predict_and_are_not_refitted(
    of_trees: SurrogateRanker, tmp_path: Path
) -> None:
    artifacts.write(tmp_path / "one.npz", of_trees.artifact.without_verdicts())
    loaded = SurrogateRanker.load(tmp_path / "one.npz", trust=True)
    one = of_trees.data["sw"].table(0)
    # Logits are stored in single precision.
    assert np.allclose(loaded.predict(one).draws, of_trees.predict(one).draws, atol=1e-6)
    for measure in (loaded.cross_validate, loaded.importances):
        with pytest.raises(FeatureError, match="stored without the verdicts"):
            measure()


def test_stored_trees_that_fit_no_features_are_refused(
    of_trees: SurrogateRanker, tmp_path: Path
) -> None:
    trees = of_trees.artifact.trees
    assert trees is not None
    damaged = replace(trees, feature=trees.feature + 3)
    artifacts.write(tmp_path / "one.npz", replace(of_trees.artifact, trees=damaged))
    with pytest.raises(ArtifactError, match="its trees do not fit its features"):
        SurrogateRanker.load(tmp_path / "one.npz", trust=True)


def test_judgments_that_do_not_belong_are_an_error() -> None:
    tables, boot, judgments = arena()
    fewer = replace(boot, models=(*boot.models[:-1], "other"))
    others = [*tables[:-1], replace(tables[-1], model="other")]
    with pytest.raises(UnknownNameError, match=r"model of the 'sw' tournaments.*'m07'"):
        SurrogateRanker().fit(others, fewer, judgments=judgments)
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
    tables = [t for of_language, _, _ in arenas.values() for t in of_language if t.language != "te"]
    tables += [table.columns(FEATURES[:2]) for table in arenas["te"][0]]
    boots = {code: boot for code, (_, boot, _) in arenas.items()}
    judged = {code: judgments for code, (_, _, judgments) in arenas.items()}
    ranker = SurrogateRanker("verdicts").fit(tables, boots, judgments=judged)
    assert set(ranker.data) == {"sw", "de"}
    assert "(te) has the features answer_bleu, answer_rougeL" in ranker.left_out["te"]
    with pytest.raises(FeatureError, match=r"'te' was left out of this surrogate: model"):
        ranker.predict(arenas["te"][0][0])


def test_a_language_whose_model_has_a_feature_on_no_query_is_left_out() -> None:
    tables, boot, _ = arena()
    others, other, _ = arena("de")
    values = others[3].values.copy()
    values[:, 1] = np.nan
    others[3] = replace(others[3], values=values)
    ranker = SurrogateRanker("ridge").fit([*tables, *others], {"sw": boot, "de": other})
    assert set(ranker.data) == {"sw"}
    assert "'m03' (de) has 'answer_rougeL' on no query" in ranker.left_out["de"]
