"""The paper's experiments on small arenas whose answers are known, and on real outputs."""

from __future__ import annotations

import json
import runpy
from dataclasses import FrozenInstanceError, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import r2_score
from subsets import slow_except

from mirage import (
    BradleyTerry,
    FeatureSuite,
    FeatureTable,
    Judgments,
    MirageDataset,
    MirageError,
    SurrogateRanker,
)
from mirage.errors import DatasetError, FeatureError, SettingError, UnknownNameError
from mirage.llm import LLM
from mirage.papers import (
    GENERATION,
    SENTENCE_JUDGES,
    Arena,
    Result,
    compare_feature_sets,
    compare_regressors,
    compare_with_paper,
    feature_importance,
    fewer_judgments,
    new_models,
    published_table,
    r2_by_tournaments,
    read_arena,
    surrogate_ranking,
    tau_by_language,
    tuned_models,
    tuning_settings,
)
from mirage.papers.judging import _draw_pairs
from mirage.papers.results import FewerJudgmentsRow, TauRow, tau_b
from mirage.papers.surrogates import feature_sets, surrogate_data
from mirage.sources import nomiracl
from mirage.surrogate.simulation import System
from mirage.training import BERGEN_TUNING, MIRAGE_BENCH_TUNING
from mirage.training.recipes import TuningRecipe

ROOT = Path(__file__).parents[1]
MODELS = tuple(f"m{i:02d}" for i in range(10))
FEATURES = ("citation_recall@10", "fluency", "noise")
TOURNAMENTS = 12


@cache
def arena(
    code: str = "en", *, seed: int = 0, queries: int = 40, judge: float = 1.0, noise: float = 0.3
) -> Arena:
    """Ten models of evenly spaced quality.

    The first feature is the quality but for ``noise`` from response to response, the second hangs
    together with it, the third does not. A judge of scale ``judge`` 0 always names the better.
    """
    rng = np.random.default_rng([seed, *code.encode()])
    quality = rng.permutation(np.linspace(-1.5, 1.5, len(MODELS)))
    ids = tuple(f"q{i}" for i in range(queries))
    values = rng.normal(size=(len(MODELS), queries, len(FEATURES)))
    values[:, :, 0] = quality[:, None] + noise * values[:, :, 0]
    values[:, :, 1] += quality[:, None] / 2
    values[:, :, 2] += rng.normal(size=(len(MODELS), 1))
    tables = [
        FeatureTable(model, code, ids, FEATURES, rows)
        for model, rows in zip(MODELS, values, strict=True)
    ]
    a, b = np.triu_indices(len(MODELS), 1)
    apart = quality[a] - quality[b]
    won = apart[:, None] + judge * rng.logistic(size=(len(a), queries)) > 0
    names = np.array(MODELS)
    judgments = Judgments.from_arrays(
        query=np.tile(ids, len(a)),
        model_a=np.repeat(names[a], queries),
        model_b=np.repeat(names[b], queries),
        score=won.ravel().astype(float),
    )
    return Arena.of(tables, judgments, tournaments=TOURNAMENTS, queries=30)


@cache
def perfect(code: str = "en") -> Arena:
    """One feature, which is the quality, and a judge who sees it."""
    return arena(code, judge=0.0, noise=0.0).with_features(FEATURES[:1])


# Tau ----------------------------------------------------------------------------------------------


@given(st.data())
def test_tau_b_is_that_of_scipy(data: st.DataObject) -> None:
    numbers = st.integers(-3, 3).map(float)
    size = data.draw(st.integers(2, 8))
    lists = st.lists(numbers, min_size=size, max_size=size)
    first, second, other = np.array([data.draw(lists) for _ in range(3)])
    for ours, row in zip(tau_b(np.array([first, second]), other), (first, second), strict=True):
        theirs = kendalltau(row, other).statistic
        assert ours == pytest.approx(0 if np.isnan(theirs) else theirs)


def test_a_perfect_feature_gives_a_tau_of_one() -> None:
    found = tau_by_language(
        {code: perfect(code) for code in ("en", "sw")}, estimator="ridge", pooled=False, repeats=5
    )
    assert [row.language for row in found] == ["en", "sw"]
    for row in found:
        assert (row.models, row.tau, row.lower, row.upper, row.tau_train) == (10, 1, 1, 1, 1)


def test_tau_is_that_of_surrogates_that_have_not_seen_every_model() -> None:
    one = arena()
    (row,) = tau_by_language({"en": one}, estimator="ridge", holdout=1)
    logits = one.tournaments.mean
    taus = []
    for held in MODELS:
        kept = [i for i, model in enumerate(MODELS) if model != held]
        boot = replace(
            one.tournaments,
            models=tuple(MODELS[i] for i in kept),
            logits=one.tournaments.logits[:, kept],
        )
        ranker = SurrogateRanker("ridge").fit([one.tables[i] for i in kept], boot)
        predicted = [ranker.predict(table).logit for table in one.tables]
        taus.append(kendalltau(predicted, logits).statistic)
    assert row.tau == pytest.approx(np.mean(taus))
    assert (row.lower, row.upper) == pytest.approx(tuple(np.quantile(taus, [0.025, 0.975])))
    fitted = SurrogateRanker("ridge").fit(one.tables, one.tournaments)
    predicted = [fitted.predict(table).logit for table in one.tables]
    assert row.tau_train == pytest.approx(kendalltau(predicted, logits).statistic)


# Estimators and features --------------------------------------------------------------------------


def test_estimators_are_compared_on_models_seen_and_held_out() -> None:
    arenas = {code: arena(code) for code in ("en", "sw")}
    found = compare_regressors(arenas, ("ridge", "svr"), pooled=["ridge"], repeats=4)
    assert [(row.name, row.language, row.pooled) for row in found] == [
        ("ridge", "en", True),
        ("ridge", "sw", True),
        ("svr", "en", False),
        ("svr", "sw", False),
    ]
    tables = [table for one in arenas.values() for table in one.tables]
    ranker = SurrogateRanker("ridge").fit(tables, {c: a.tournaments for c, a in arenas.items()})
    validation = ranker.cross_validate(2, 4)
    for row in found.rows[:2]:
        code = row.language
        assert row.r2 == validation.r2[code]
        assert row.tau == validation.tau[code]
        assert (row.lower, row.upper) == pytest.approx(validation.tau_interval()[code], nan_ok=True)
        assert row.coverage == validation.coverage[code]
    for code, row in zip(arenas, found.rows[2:], strict=True):
        alone = SurrogateRanker("svr").fit(arenas[code].tables, arenas[code].tournaments)
        predicted = [alone.predict(table).logit for table in arenas[code].tables]
        actual = arenas[code].tournaments.mean
        assert row.r2_train == pytest.approx(r2_score(actual, predicted))
        assert row.tau_train == pytest.approx(kendalltau(predicted, actual).statistic)
        assert row.r2 == alone.cross_validate(2, 4).r2[code]
    header = str(found).splitlines()[1].split()
    assert header == ["language", "name", "pooled", "tau", "lower", "upper"]


@pytest.mark.slow
def test_a_forest_knows_the_models_it_has_seen_better_than_others() -> None:
    (row,) = compare_regressors({"en": arena()}, ["forest"], repeats=1)
    assert row.r2_train > 0.9
    assert row.r2_train > row.r2


def test_all_estimators_are_compared_by_default() -> None:
    names = compare_regressors.__defaults__
    assert names is not None
    assert {"ridge", "forest", "auto"} <= set(names[0])
    with pytest.raises(UnknownNameError, match="nonsense"):
        compare_regressors({"en": arena()}, ["nonsense"])
    with pytest.raises(UnknownNameError, match="rigde"):
        compare_regressors({"en": arena()}, ["ridge"], pooled=["rigde"])
    with pytest.raises(FeatureError, match="9 of 10 models cannot be held out"):
        compare_regressors({"en": arena()}, ["ridge"], holdout=9)


def test_a_feature_that_tells_beats_one_that_does_not() -> None:
    sets = {"good": FEATURES[:1], "bad": FEATURES[2:]}
    found = compare_feature_sets({"en": arena()}, sets, estimator="ridge", repeats=10)
    good, bad = found
    assert (good.name, bad.name) == ("good", "bad")
    assert good.r2 > 0.5 > bad.r2
    assert good.tau > bad.tau
    with pytest.raises(UnknownNameError, match="flunecy"):
        compare_feature_sets({"en": arena()}, {"typing error": ["flunecy"]})


def test_the_papers_feature_sets() -> None:
    one = arena()
    tau = kendalltau([t.mean()[2] for t in one.tables], one.tournaments.mean).statistic
    sets = feature_sets({"en": one}, least=abs(tau) + 0.01)
    assert sets == {
        "all": FEATURES,
        "without LLM-rated": ("citation_recall@10", "noise"),
        "without low correlation": ("citation_recall@10", "fluency"),
        "LLM-rated only": ("fluency",),
    }
    assert feature_sets({"en": one}, least=abs(tau))["without low correlation"] == FEATURES
    assert list(feature_sets({"en": perfect()})) == [
        "all",
        "without LLM-rated",
        "without low correlation",
    ]
    assert {
        row.name for row in compare_feature_sets({"en": one}, estimator="ridge", repeats=2)
    } == set(sets)


def test_r2_over_tournaments_that_are_all_alike_is_that_over_their_means() -> None:
    one = arena(judge=0.0)
    tables = [replace(t, values=np.tile(t.values[:1], (len(t), 1))) for t in one.tables]
    arenas = {"en": replace(one, tables=tuple(tables))}
    for pooled in (True, False):
        (row,) = r2_by_tournaments(arenas, estimator="svr", pooled=pooled, repeats=3)
        (mean,) = compare_regressors(arenas, ["svr"], pooled=["svr"] if pooled else (), repeats=3)
        assert (row.r2_train, row.r2) == pytest.approx((mean.r2_train, mean.r2))
        assert (row.train_lower, row.lower) == pytest.approx((row.train_upper, row.upper))


def test_r2_over_tournaments_has_an_interval() -> None:
    (row,) = r2_by_tournaments({"en": arena()}, estimator="svr", repeats=5)
    assert row.train_lower < row.r2_train < row.train_upper
    assert row.lower < row.r2 < row.upper
    assert row.r2_train > row.r2


def test_the_feature_that_tells_is_the_most_important() -> None:
    arenas = {code: arena(code) for code in ("en", "sw")}
    found = feature_importance(arenas, estimator="ridge", repeats=5)
    assert found.columns["feature"][0] == "citation_recall@10"
    assert found.columns["importance"] == sorted(found.columns["importance"], reverse=True)
    assert set(found.columns["language"]) == {"all"}
    alone = feature_importance(arenas, estimator="ridge", pooled=False, repeats=5)
    assert [row.language for row in alone] == ["en"] * 3 + ["sw"] * 3
    assert {row.feature for row in alone} == set(FEATURES)
    assert np.isnan(alone.columns["impurity"]).all()  # no forest


@pytest.mark.slow
def test_impurity_importances_are_those_of_scikit_learn() -> None:
    arenas = {"en": arena("en")}
    rows = feature_importance(arenas, estimator="forest", holdout=2, repeats=1)
    data = surrogate_data(arenas)["en"]
    values = data.X.reshape(-1, len(FEATURES))
    forest = RandomForestRegressor(n_estimators=100, random_state=0)
    forest.fit((values - data.mean_X.mean(axis=0)) / values.std(axis=0), data.y.ravel())
    expected = dict(zip(data.features, forest.feature_importances_, strict=True))
    by_feature = dict(zip(rows.columns["feature"], rows.columns["impurity"], strict=True))
    assert by_feature == pytest.approx(expected, abs=0.05)
    assert sum(by_feature.values()) == pytest.approx(1)
    assert max(by_feature, key=lambda name: by_feature[name]) == "citation_recall@10"


# Judgments ----------------------------------------------------------------------------------------


def test_fewer_judgments_never_rank_better_in_the_mean() -> None:
    found = fewer_judgments(
        {"en": arena(judge=2.0)}, queries=(40, 5, 20), pairs=(50, 10, 100), repeats=300
    )
    assert [(row.queries, row.pairs) for row in found] == [
        (5, 100),
        (20, 100),
        (40, 100),
        (40, 10),
        (40, 50),
        (40, 100),
    ]
    for few, some, every in (found.rows[:3], found.rows[3:]):
        assert few.tau < some.tau < every.tau
        assert few.lower < few.tau < few.upper
        assert (every.tau, every.lower, every.upper) == (1, 1, 1)
    # Of 45 pairs on a query 10 percent are 4 and 50 percent 22, rounded to even.
    assert found.columns["judgments"] == [225, 900, 1800, 160, 880, 1800]


def test_a_share_of_the_judgments_is_rounded_and_never_empty() -> None:
    judged = Judgments.from_arrays(
        query=["q1"] * 7 + ["q2"] * 3, model_a=["x"] * 10, model_b=["y"] * 10, verdict=["a"] * 10
    )
    wins = _draw_pairs(judged, (1, 25, 50, 100), 2, np.random.default_rng(0))
    # 25 % are 1.75 and 0.75 judgments, 50 % are 3.5 and 1.5.
    assert wins.sum(axis=(2, 3)).tolist() == [[2, 2], [3, 3], [6, 6], [10, 10]]


def test_queries_that_all_say_the_same_need_to_be_asked_once() -> None:
    found = fewer_judgments({"en": perfect()}, queries=(1, 2), pairs=(), repeats=5)
    assert found.columns["tau"] == [1, 1]


def test_fewer_judgments_are_fitted_as_a_tournament_is() -> None:
    one = arena()
    found = fewer_judgments({"en": one}, queries=(1,), pairs=(), repeats=2000)
    exhaustive = BradleyTerry().fit(one.judgments).logits
    taus = []
    for query in range(len(one.judgments.query_ids)):
        kept = one.judgments.query == query
        columns = {
            name: getattr(one.judgments, name)[kept] for name in ("query", "a", "b", "score")
        }
        fit = BradleyTerry().fit(replace(one.judgments, **columns))
        taus.append(kendalltau(np.round(fit.logits, 8), exhaustive).statistic)
    assert found.rows[0].tau == pytest.approx(np.mean(taus), abs=0.02)
    assert found.rows[0].lower >= min(taus) - 1e-9


def test_more_queries_than_there_are_are_left_out() -> None:
    found = fewer_judgments({"en": arena()}, queries=(10, 41), pairs=(), repeats=2)
    assert found.columns["queries"] == [10]


@pytest.mark.parametrize("wrong", [{"queries": (0,)}, {"pairs": (0,)}, {"pairs": (101,)}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        MirageError, match=r"queries must be at least 1, and pairs .* from 1 to 100"
    ):
        fewer_judgments({"en": arena()}, **wrong)


def test_new_models_are_placed_among_the_judged_logits_of_the_old() -> None:
    one, new = arena(), ("m03", "m07")
    found = new_models({"en": one}, new, estimator="ridge")
    known = [j for j in one.judgments.to_records() if not {j.model_a, j.model_b} & set(new)]
    old = BradleyTerry().bootstrap(known, tournaments=TOURNAMENTS, queries=30)
    ranker = SurrogateRanker("ridge").fit(one.tables, old)
    logits = dict(zip(old.models, old.mean, strict=True))
    for row in found:
        prediction = ranker.predict(one.tables[MODELS.index(row.model)])
        assert (row.logit, row.lower, row.upper) == (prediction.logit, *prediction.interval())
        logits[row.model] = prediction.logit
    full = dict(zip(one.tournaments.models, one.tournaments.mean, strict=True))
    for row in found:
        assert row.rank == 1 + sum(logit > row.logit for logit in logits.values())
        assert row.judged_rank == 1 + sum(logit > full[row.model] for logit in full.values())
        apart = full[row.model] - np.mean([full[model] for model in old.models])
        assert row.judged == pytest.approx(apart)
        both = [logits[model] for model in MODELS], [full[model] for model in MODELS]
        assert row.tau == pytest.approx(kendalltau(*both).statistic)
    assert found.rows[0].tau > 0.8


def test_no_judgment_on_a_new_model_is_learnt_from() -> None:
    one = arena()
    place = one.judgments.models.index("m03")
    touched = (one.judgments.a == place) | (one.judgments.b == place)
    turned = np.where(touched, 1 - one.judgments.score, one.judgments.score).astype(np.float32)
    other = Arena.of(
        one.tables, replace(one.judgments, score=turned), tournaments=TOURNAMENTS, queries=30
    )
    (before,), (after,) = (
        new_models({"en": each}, ["m03"], estimator="ridge").rows for each in (one, other)
    )
    assert (before.logit, before.lower, before.rank) == (after.logit, after.lower, after.rank)
    assert before.judged != pytest.approx(after.judged)


def test_a_new_model_has_to_be_in_the_arena() -> None:
    with pytest.raises(UnknownNameError, match="m3"):
        new_models({"en": arena()}, ["m3"])


def tuned(one: Arena, model: str, name: str, gain: float) -> FeatureTable:
    """A model's features where its quality has risen so far."""
    table = one.tables[MODELS.index(model)]
    better = table.values + np.array([gain, gain / 2, 0])  # the second has half of the first
    return FeatureTable(name, table.language, table.query_ids, FEATURES, better)


def test_tuned_models_are_placed_beside_their_backbones() -> None:
    arenas = {"en": arena(), "sw": arena("sw")}
    order = {
        code: dict(zip(a.tournaments.models, a.tournaments.mean, strict=True))
        for code, a in arenas.items()
    }
    worst, best = (pick(order["en"], key=order["en"].__getitem__) for pick in (min, max))
    tables = {
        code: [tuned(a, worst, "taught", 3.0), tuned(a, worst, "same", 0.0)]
        for code, a in arenas.items()
    }
    found = tuned_models(arenas, tables, {"taught": worst, "same": worst}, estimator="ridge")
    assert [(row.language, row.model) for row in found] == [
        (code, model) for code in arenas for model in ("taught", "same")
    ]
    ranker = SurrogateRanker("ridge").fit(
        [table for a in arenas.values() for table in a.tables],
        {code: a.tournaments for code, a in arenas.items()},
        judgments={code: a.judgments for code, a in arenas.items()},
    )
    for row in found:
        (table,) = (each for each in tables[row.language] if each.model == row.model)
        prediction = ranker.predict(table)
        assert (row.logit, row.lower, row.upper) == (prediction.logit, *prediction.interval())
        assert row.backbone_logit == order[row.language][worst]
        new = [other.logit for other in found if other.language == row.language]
        logits = [*order[row.language].values(), *new]
        assert row.rank == 1 + sum(logit > row.logit for logit in logits)
        assert row.backbone_rank == 1 + sum(logit > row.backbone_logit for logit in logits)
    taught, same = found.rows[:2]
    assert taught.rank <= 2 < same.rank
    assert taught.lower > same.upper
    assert order["en"][best] - same.logit > 1
    mean = found.mean()
    assert [(row.language, row.model) for row in mean] == [("mean", "taught"), ("mean", "same")]


def test_a_tuned_model_has_a_name_of_its_own_and_a_backbone() -> None:
    arenas = {"en": arena()}

    def placed(name: str, backbones: dict[str, str], code: str = "en") -> object:
        tables = {code: [tuned(arenas["en"], "m03", name, 1.0)]}
        return tuned_models(arenas, tables, backbones, estimator="ridge")

    with pytest.raises(
        SettingError,
        match="already has a model 'm03'; choose another name for the fine-tuned model",
    ):
        placed("m03", {"m03": "m03"})
    with pytest.raises(UnknownNameError, match="unknown tuned model 'm03-tuned' in backbones"):
        placed("m03-tuned", {})
    with pytest.raises(UnknownNameError, match="did you mean 'm03'"):
        placed("m03-tuned", {"m03-tuned": "m3"})
    with pytest.raises(UnknownNameError, match="unknown arena 'de'"):
        placed("m03-tuned", {"m03-tuned": "m03"}, "de")


def test_the_settings_are_those_that_the_papers_print() -> None:
    def printed(recipe: TuningRecipe) -> dict[str, str]:
        return {row.setting: row.choice for row in tuning_settings(recipe)}

    # MIRAGE-Bench, Table 6.
    assert printed(MIRAGE_BENCH_TUNING) | {
        "batch size": "32",
        "epochs": "1",
        "learning rate": "0.0002",
        "maximum length": "6144",
        "LoRA rank": "16",
        "LoRA alpha": "16",
        "LoRA dropout": "0.05",
        "LoRA layers": "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
    } == printed(MIRAGE_BENCH_TUNING)
    # BERGEN, Table 8.
    assert printed(BERGEN_TUNING) | {
        "epochs": "1",
        "learning rate": "0.0001",
        "schedule": "linear",
        "warm-up": "0.05",
        "weight decay": "0.1",
        "LoRA rank": "32",
        "LoRA alpha": "64",
        "LoRA dropout": "0.1",
        "LoRA layers": "all-linear",
    } == printed(BERGEN_TUNING)
    assert "learning rate   0.0002" in str(tuning_settings())


# Results ------------------------------------------------------------------------------------------


def test_a_result_prints_as_a_table_of_a_terminals_width() -> None:
    found = compare_regressors(
        {code: arena(code) for code in ("en", "sw")}, ("ridge", "svr"), repeats=2
    )
    printed = str(found)
    assert "language" in printed
    assert printed.count("ridge") == 2
    assert "pooled: False" in printed  # what all rows share is said once
    assert max(map(len, printed.splitlines())) <= 80
    assert "| ridge |" in found.to_markdown()
    assert "<bdi>ridge</bdi>" in found._repr_html_()


def test_a_result_is_columns_a_frame_and_a_mean() -> None:
    rows = (TauRow("en", 10, 0.5, 0.4, 0.6, 0.8), TauRow("sw", 12, 0.7, 0.6, 0.8, np.nan))
    found = Result("taus", rows)
    assert len(found) == 2
    assert found.columns["tau"] == [0.5, 0.7]
    assert json.loads(json.dumps(found.columns["language"])) == ["en", "sw"]
    assert found.to_pandas()["models"].tolist() == [10, 12]
    (mean,) = found.mean()
    assert (mean.language, mean.models) == ("mean", 11)
    assert mean.tau == pytest.approx(0.6)
    assert np.isnan(mean.tau_train)
    with pytest.raises(FrozenInstanceError):
        rows[0].tau = 1.0  # type: ignore[misc]


def test_means_are_taken_by_what_a_row_is_about() -> None:
    def row(code: str, queries: int, tau: float) -> FewerJudgmentsRow:
        return FewerJudgmentsRow(code, queries, 100, 45.0, tau, tau, tau)

    found = Result("x", (row("en", 1, 0.2), row("en", 2, 0.4), row("sw", 1, 0.6)))
    assert [(r.queries, r.tau) for r in found.mean()] == [(1, pytest.approx(0.4)), (2, 0.4)]


def test_an_empty_result_still_prints() -> None:
    found = fewer_judgments({"en": arena()}, queries=(), pairs=())
    assert len(found) == 0
    assert "exhaustive" in str(found)
    assert found.columns == {}


# Files --------------------------------------------------------------------------------------------


def write(folder: Path, one: Arena) -> None:
    folder.mkdir(parents=True)
    with (folder / "features.jsonl").open("w", encoding="utf-8") as file:
        for table in one.tables:
            for query_id, values in zip(table.query_ids, table.values.tolist(), strict=True):
                numbers = {
                    name: None if np.isnan(value) else value
                    for name, value in zip(table.features, values, strict=True)
                }
                row = {"query_id": query_id, "model": table.model, "features": numbers}
                file.write(json.dumps(row) + "\n")
    with (folder / "judgments.jsonl").open("w", encoding="utf-8") as file:
        for record in one.judgments.to_records():
            file.write(record.model_dump_json(exclude_defaults=True) + "\n")


def test_an_arena_is_read_from_files(tmp_path: Path) -> None:
    one = arena.__wrapped__()  # not that of other tests
    one.tables[0].values[3, 1] = np.nan
    write(tmp_path / "en", one)
    read = read_arena(tmp_path, "en", tournaments=TOURNAMENTS, queries=30)
    for ours, theirs in zip(one.tables, read.tables, strict=True):
        assert (ours.model, ours.features) == (theirs.model, theirs.features)
        np.testing.assert_array_equal(ours.values, theirs.values)
    np.testing.assert_array_equal(one.tournaments.logits, read.tournaments.logits)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            '{"query_id": "q0", "model": "m00", "features": {"noise": 1}}',
            "query 'q0' of model .* occurs a second time",
        ),
        ('{"query_id": 1, "model": "m00", "features": {}}', "'query_id' must be a string"),
        ('{"query_id": "q0", "features": {}}', "'model' must be a string"),
        ('{"query_id": "q0", "model": "x", "features": {"noise": "1"}}', "numbers or null"),
        ('{"query_id": "q0", "model": "x"}', "'features' must be an object"),
        ("[]", "expected a JSON object"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, line: str, what: str) -> None:
    write(tmp_path / "en", arena())
    path = tmp_path / "en" / "features.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=rf"features.jsonl, line 401: .*{what}"):
        read_arena(tmp_path, "en")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"features.jsonl: cannot be read"):
        read_arena(tmp_path, "en")


@pytest.mark.slow
def test_the_example_runs_every_experiment_on_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for code in ("en", "sw"):
        write(tmp_path / "arena" / code, arena(code))
    example = ROOT / "examples" / "reproduce_paper.py"
    arguments = ["--files", str(tmp_path / "arena"), "--out", str(tmp_path / "out"), "--quick"]
    runpy.run_path(str(example))["main"](arguments)
    printed = capsys.readouterr().out
    numbers = ["Table 2", "Table 3", "Table 4", "Table 5", "Figure 5", "Figure 6", "Figure 8"]
    for number in numbers:
        assert f"\n{number}" in printed
    assert printed.count("mean over languages") == 11  # importances are of all languages already
    written = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "out").iterdir()]
    assert len(written) == 12
    for columns in written:
        assert set(columns["language"]) <= {"en", "sw", "all"}
        assert len({len(column) for name, column in columns.items() if name != "title"}) == 1


def test_the_example_makes_the_papers_tables_from_copies_in_the_hubs_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets", reason="the extra hub is not installed")
    import hub_copy

    # Table 3 holds four models out and learns from three or more.
    for name, faults in {"model-x": {"off-topic": 0.4}, "model-y": {"truncated": 0.3}}.items():
        monkeypatch.setitem(hub_copy.SYSTEMS, name, System(name, faults))
    for code in ("en", "sw"):
        hub_copy.make_arena().write(tmp_path / "copies", code)
    example = runpy.run_path(str(ROOT / "examples" / "reproduce_paper.py"))
    example["main"](["--hub", str(tmp_path / "copies"), "--quick"])
    printed = capsys.readouterr().out
    for number in ("Table 2", "Table 3", "Table 4", "Table 5", "Figure 5", "Figure 6", "Figure 8"):
        assert f"\n{number}" in printed
    assert "\n   sw " in printed
    assert "nan" not in printed.lower()


def test_the_example_says_that_a_folder_has_no_copies(tmp_path: Path) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "reproduce_paper.py"))
    with pytest.raises(SystemExit, match="no folder of a language"):
        example["main"](["--hub", str(tmp_path)])


# Real outputs -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_experiments_run_on_nomiracl(data_dir: Path) -> None:
    arenas = {}
    for code in ("es", "id"):
        dataset, runs, judgments = nomiracl.load(data_dir / "nomiracl", code)
        suite = FeatureSuite(["answer_rougeL", "support_lexical"], code)
        tables = [suite.score(dataset, run) for run in runs.values()]
        arenas[code] = Arena.of(tables, Judgments.from_records(judgments), tournaments=20)
    taus = tau_by_language(arenas, estimator="ridge", repeats=5)
    assert all(0 < row.tau <= 1 for row in taus)
    alone = compare_regressors(arenas, ["svr"], repeats=5).mean().rows[0]
    shared = compare_regressors(arenas, ["ridge"], pooled=["ridge"], repeats=5).mean().rows[0]
    assert alone.r2_train > shared.r2_train > 0
    assert shared.r2 > alone.r2
    fewer = fewer_judgments(arenas, queries=(10, 50), pairs=(), repeats=20).mean()
    assert fewer.rows[0].tau < fewer.rows[1].tau
    placed = new_models(arenas, ["llama-2-7b-chat"], estimator="ridge")
    assert [row.language for row in placed] == ["es", "id"]
    assert all(row.tau > 0.5 for row in placed)


def test_the_papers_settings_are_what_an_llm_sends() -> None:
    def sent(**settings: Any) -> Any:
        return LLM("m", base_url="http://127.0.0.1:9", api_key="k", **settings).parameters

    assert sent()["temperature"] == 0
    assert sent(**GENERATION)["temperature"] == 0.1
    judging = sent(**SENTENCE_JUDGES)
    assert (judging["temperature"], judging["top_p"]) == (0.1, 0.1)


# The published tables -----------------------------------------------------------------------------


def test_published_tables_are_those_of_the_paper(data_dir: Path) -> None:
    path = data_dir / "published" / "mirage_bench.json"
    paper = json.loads(path.read_text(encoding="utf-8"))
    queries = {(row.language, row.setting): row.value for row in published_table(1)}
    for split in ("evaluation", "training"):
        for code, number in paper[f"{split}_queries"].items():
            assert queries.get((code, split)) == number
    assert {r.language: r.value for r in published_table(2)} == paper["kendall_tau_table2"]
    values = {(r.language, r.setting, r.measure): r.value for r in published_table(3)}
    assert values["te", "least_squares", "r2_in_paper"] == 0.31
    assert values["ko", "boosting", "r2_in_paper"] == -0.09
    assert values["te", "svr", "r2_train"] == 0.39
    assert len(values) == 2 * 5 * 7
    ours = sorted(row.value for row in published_table(4))
    theirs = [v for row in paper["feature_ablation_tau_table4"].values() for v in row.values()]
    assert ours == sorted(theirs)
    for row in published_table(5):
        printed = paper["surrogate_r2_table5"][row.language]
        ends = [round(end - row.value, 3) for end in (row.lower, row.upper)]
        assert (row.value, ends) == (printed["mean"], printed["ci95"])
    with pytest.raises(
        SettingError,
        match="choose one of the tables 1, 2, 3, 4, 5",
    ):
        published_table(6)


def test_results_are_compared_with_their_table() -> None:
    arenas = {"ar": arena("ar")}
    settings: dict[str, Any] = {"estimator": "ridge", "repeats": 2}
    taus = tau_by_language(arenas, **settings)
    (row,) = compare_with_paper(taus)
    assert (row.ours, row.paper) == (taus.rows[0].tau, 0.951)
    assert row.difference == pytest.approx(row.ours - 0.951)
    (row,) = compare_with_paper(r2_by_tournaments(arenas, **settings))
    assert (row.measure, row.paper) == ("r2_in_paper", 0.916)
    rows = compare_with_paper(compare_regressors(arenas, ["svr", "ridge"], repeats=2)).rows
    assert [(r.setting, r.measure, r.paper) for r in rows] == [
        ("svr", "r2_in_paper", -0.03),
        ("svr", "r2_train", 0.75),
    ]  # the paper has no ridge regression
    sets = {"all": FEATURES, "LLM-rated only": FEATURES[1:2]}
    rows = compare_with_paper(compare_feature_sets(arenas, sets, **settings)).rows
    assert [(r.setting, r.paper) for r in rows] == [("all", 0.938), ("LLM-rated only", 0.948)]
    (row,) = compare_with_paper({"sw": MirageDataset.bundled("sw")})
    assert (row.measure, row.paper) == ("queries", 481)
    with pytest.raises(SettingError, match="plots without numbers"):
        compare_with_paper(feature_importance(arenas, **settings))
    with pytest.raises(SettingError, match="has no row with the languages"):
        compare_with_paper(compare_regressors({"en": arena()}, ["svr"], repeats=1))


def test_a_surrogate_ranks_the_models_of_an_arena() -> None:
    arenas = {"ar": arena("ar", noise=0.01)}
    found = surrogate_ranking(arenas, estimator="ridge", repeats=3)
    assert [row.rank for row in found] == list(range(1, 11))
    assert np.mean([abs(row.rank - row.judge_rank) for row in found]) < 1
    assert all(row.lower <= row.logit <= row.upper for row in found)
    with pytest.raises(SettingError, match="has no row with the languages"):
        compare_with_paper(found)  # other models than those of the paper
    renamed = Result(found.title, (replace(found.rows[0], model="gpt-4-azure", rank=3.0),))
    (row,) = compare_with_paper(renamed)
    assert (row.setting, row.ours, row.paper, row.difference) == ("gpt-4-azure", 3, 1, 2)


@pytest.mark.parametrize("name", slow_except(["least_squares"], ["least_squares", "boosting"]))
def test_the_regressors_of_the_paper_fit_training_models_best(name: str) -> None:
    (row,) = compare_regressors({"en": arena()}, [name], repeats=1)
    assert row.r2_train > 0.95
    assert row.r2_train > row.r2
