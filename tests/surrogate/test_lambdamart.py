"""LambdaMART: needs the extra ``ltr``, but for what happens where that is missing."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from test_ranker import arena

from mirage.errors import MirageError, MissingPackageError
from mirage.surrogate import SurrogateRanker
from mirage.surrogate._lambdamart import LambdaMART, fit_lambdamart
from mirage.surrogate.estimators import fit_regressor


@pytest.fixture
def lightgbm() -> None:
    pytest.importorskip("lightgbm", reason="needs the extra ltr")


def lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return features ``(20, 12, 3)`` and logits of twelve models in twenty tournaments."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 12, 3))
    return X, X @ np.array([1.0, 0.5, -0.7]) + rng.normal(0, 0.1, (20, 12))


@pytest.mark.usefixtures("lightgbm")
def test_scores_are_turned_into_logits_by_least_squares() -> None:
    X, y = lists()
    fitted = fit_lambdamart([X], [y - y.mean()], [0, 0, 0], seed=0)
    predicted = fitted.predict(X.reshape(-1, 3))
    slope = np.polyfit(predicted, y.ravel() - y.mean(), 1)
    assert slope == pytest.approx([1.0, 0.0], abs=1e-9)


@pytest.mark.usefixtures("lightgbm")
def test_only_the_order_within_a_tournament_is_learnt() -> None:
    X, y = lists()
    plain = fit_lambdamart([X], [y], [0, 0, 0], seed=0)
    # Other distances, and another level in each tournament, but the same order in each.
    other = np.sinh(y) + np.arange(20)[:, None]
    scores = [
        fitted.booster.predict(X.reshape(-1, 3))
        for fitted in (plain, fit_lambdamart([X], [other], [0, 0, 0], seed=0))
    ]
    assert np.array_equal(*scores)


@pytest.mark.usefixtures("lightgbm")
def test_languages_may_have_different_numbers_of_models() -> None:
    X, y = lists()
    fitted = fit_lambdamart([X, X[:, :5]], [y, y[:, :5]], [0, 0, 0], seed=0)
    order = fitted.predict(X[0]).argsort().argsort()
    assert np.corrcoef(order, y[0].argsort().argsort())[0, 1] > 0.8


@pytest.mark.usefixtures("lightgbm")
def test_more_of_a_good_feature_never_costs() -> None:
    X, y = lists()
    y = y - 3 * X[:, :, 0]  # recall lowers the logit: not to be learnt
    grid = np.zeros((50, 3))
    grid[:, 0] = np.linspace(-3, 3, 50)
    constrained = fit_regressor("lambdamart", (1, 1, 1), [X], [y], seed=0)
    assert (np.diff(constrained.predict(grid)) >= 0).all()
    free = fit_regressor("lambdamart", (0, 0, 0), [X], [y], seed=0)
    assert (np.diff(free.predict(grid)) < 0).any()


@pytest.mark.usefixtures("lightgbm")
def test_constant_features_predict_the_mean() -> None:
    X, y = lists()
    fitted = fit_lambdamart([np.zeros_like(X)], [y], [0, 0, 0], seed=0)
    assert np.array_equal(fitted.predict(np.ones((4, 3))), np.zeros(4))


@pytest.mark.usefixtures("lightgbm")
def test_the_same_seed_gives_the_same_numbers_here_and_in_another_process() -> None:
    tables, boot = arena(tournaments=8)
    first, again = (SurrogateRanker("lambdamart", seed=3).fit(tables, boot) for _ in range(2))
    assert np.array_equal(first.predict(tables[1]).draws, again.predict(tables[1]).draws)
    single_process, two_processes = (first.cross_validate(2, 4, n_jobs=n) for n in (1, 2))
    assert np.array_equal(single_process.predicted["sw"], two_processes.predicted["sw"])


@pytest.mark.usefixtures("lightgbm")
def test_a_fitted_ranker_can_be_pickled() -> None:
    X, y = lists()
    fitted = fit_lambdamart([X], [y], [0, 0, 0], seed=0)
    again: LambdaMART = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X[0]), fitted.predict(X[0]))


@pytest.mark.usefixtures("lightgbm")
def test_an_artifact_with_lambdamart_comes_back(tmp_path: Path) -> None:
    tables, boot = arena(tournaments=8)
    ranker = SurrogateRanker("lambdamart").fit(tables, boot)
    assert ranker.recipe.shared == "lambdamart"
    path = tmp_path / "ranker.joblib"
    ranker.save(path)
    loaded = SurrogateRanker.load(path, trust=True)
    assert loaded.recipe == ranker.recipe
    assert loaded.predict(tables[2]).logit == pytest.approx(ranker.predict(tables[2]).logit, 1e-5)


@pytest.mark.usefixtures("lightgbm")
def test_several_languages_share_one_ranker() -> None:
    arenas = {code: arena(code, 8, seed=seed, tournaments=8) for seed, code in enumerate("ab")}
    tables = [table for tables, _ in arenas.values() for table in tables]
    ranker = SurrogateRanker("lambdamart")
    ranker.fit(tables, {code: boot for code, (_, boot) in arenas.items()})
    assert min(ranker.cross_validate(2, 10).tau.values()) > 0.3


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    tables, boot = arena(tournaments=3)
    with pytest.raises(
        MissingPackageError, match=r"lightgbm.*pip install 'mirage-rag\[ltr\] @ git"
    ):
        SurrogateRanker("lambdamart").fit(tables, boot)


@pytest.mark.slow
def test_auto_works_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    tables, boot = arena(models=6, tournaments=2)
    assert SurrogateRanker().fit(tables, boot).recipe.shared != "lambdamart"


def test_a_library_of_the_system_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = "raise OSError('libgomp.so.1: cannot open shared object file')\n"
    (tmp_path / "lightgbm.py").write_text(broken)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lightgbm", raising=False)
    with pytest.raises(MirageError, match=r"libgomp\.so\.1.*apt-get install libgomp1"):
        fit_lambdamart([], [], [], seed=0)
