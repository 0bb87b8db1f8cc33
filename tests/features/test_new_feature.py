"""A feature declares its facts in one place, and all parts of the library use them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.arena import Tournaments
from mirage.dataset import MirageDataset
from mirage.features import (
    Answered,
    Definition,
    Facts,
    FeatureSuite,
    FeatureTable,
    NotComputed,
    facts,
    feature,
    registry,
)
from mirage.features.registry import DEFINITIONS
from mirage.models import Run
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.training import training_data
from mirage.testing import assert_no_regression, save_baseline

ENGLISH = MirageDataset.bundled("en")
TEXTS = {query.id: query.reference or "" for query in ENGLISH}
SHOUTED = {id_: text.upper() for id_, text in TEXTS.items()}


def capitals(item: Answered) -> float | NotComputed:
    """Share of capitals among the letters of the answer."""
    letters = [char for char in item.parsed.answer_text if char.isalpha()]
    return sum(map(str.isupper, letters)) / len(letters) if letters else NotComputed("no letter")


class Calm:
    """A user's feature: the share of an answer that is not in capitals."""

    name = "calm"
    facts = Facts("higher", 0, 1)

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        shares = map(capitals, batch)
        return [share if isinstance(share, NotComputed) else 1 - share for share in shares]


class Shouted(Calm):
    name = "shouted"
    facts = Facts("lower", 0, 1, direction_by_language={"ja": "none"})

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        return list(map(capitals, batch))


def scored(suite: FeatureSuite, texts: dict[str, str] = TEXTS) -> FeatureTable:
    responses = tuple({"query_id": id_, "text": text} for id_, text in texts.items())
    run = Run.model_validate({"model": "m", "language": "en", "responses": responses})
    return suite.score(ENGLISH, run)


def test_suites_and_tables_have_the_declared_facts() -> None:
    suite = FeatureSuite(["answer_rougeL", Calm(), Shouted()])
    assert suite.facts == {"answer_rougeL": facts("answer_rougeL"), "calm": Calm.facts} | {
        "shouted": Shouted.facts
    }
    table = scored(suite)
    assert table.facts == {"calm": Calm.facts, "shouted": Shouted.facts}
    part = table.columns(["shouted", "answer_rougeL"]).select(ENGLISH.query_ids[:3])
    assert part.facts == {"shouted": Shouted.facts}
    assert suite.facts["shouted"].higher_is_better("en") is False
    assert suite.facts["shouted"].higher_is_better("ja") is None


def arena(
    features: tuple[str, ...], declared: dict[str, Facts]
) -> tuple[list[FeatureTable], Tournaments]:
    """Return twelve models that win less often the higher their first feature is."""
    rng = np.random.default_rng(0)
    ids = tuple(f"q{number}" for number in range(10))
    levels = np.linspace(0.2, 0.8, 12)
    values = np.clip(levels[:, None, None] + rng.normal(0, 0.02, (12, 10, len(features))), 0, 1)
    names = tuple(f"m{number:02d}" for number in range(12))
    tables = [
        FeatureTable(name, "en", ids, features, rows, facts=declared)
        for name, rows in zip(names, values, strict=True)
    ]
    logits = np.tile(levels.mean() - levels, (5, 1))
    counts = np.ones((5, 10), dtype=np.int32)
    return tables, Tournaments(names, ids, counts, logits, np.zeros((5, 12), dtype=np.bool_))


@pytest.mark.slow
def test_a_surrogate_is_monotone_in_the_declared_direction(tmp_path: Path) -> None:
    tables, tournaments = arena(("calm",), {"calm": Calm.facts})
    assert training_data(tables, tournaments)["en"].monotone == [1]
    ranker = SurrogateRanker("monotone_forest").fit(tables, tournaments)
    lowest, highest = (ranker.predict(tables[i]).logit for i in (0, -1))
    assert lowest <= highest  # though the winners of these tournaments had less of it

    ranker.save(tmp_path / "own.joblib")
    loaded = SurrogateRanker.load(tmp_path / "own.joblib", trust=True)
    assert loaded.data["en"].facts == {"calm": Calm.facts}
    assert loaded.predict(tables[0]).logit == pytest.approx(lowest)

    unknown, _ = arena(("calm",), {})
    assert training_data(unknown, tournaments)["en"].monotone == [0]
    free = SurrogateRanker("monotone_forest").fit(unknown, tournaments)
    assert free.predict(tables[0]).logit > free.predict(tables[-1]).logit
    for declared, monotone in ((Shouted.facts, [-1]), (Facts("none"), [0]), (Facts("higher"), [1])):
        turned = [replace(table, facts={"calm": declared}) for table in tables]
        assert training_data(turned, tournaments)["en"].monotone == monotone


def test_a_gate_uses_the_declared_direction(tmp_path: Path) -> None:
    suite = FeatureSuite([Calm(), Shouted()])
    path = tmp_path / "baseline.json"
    baseline = save_baseline(TEXTS, path, on="en", suite=suite)
    assert baseline.lower_is_better == ("shouted",)
    assert_no_regression(TEXTS, path, on="en", suite=suite)
    with pytest.raises(AssertionError, match=r"(?s)calm.*shouted|shouted.*calm"):
        assert_no_regression(SHOUTED, path, on="en", suite=suite)
    loud = save_baseline(SHOUTED, path, on="en", suite=suite)
    assert loud.table["shouted"].mean() > 0.9
    assert_no_regression(TEXTS, path, on="en", suite=suite)  # less of it is better


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="lm_eval is not installed")
def test_an_adapter_reports_the_declared_direction() -> None:
    from mirage.integrations.lm_eval import mirage_task

    task = mirage_task(ENGLISH, FeatureSuite([Calm(), Shouted()]))
    assert task.higher_is_better() == {"calm": True, "shouted": False}


def test_a_definition_is_all_that_a_feature_of_the_library_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One more entry in ``DEFINITIONS`` makes a feature known in all parts of the library."""
    new = Definition("capitals", capitals, Facts("higher", 0, 1))
    monkeypatch.setattr(registry, "DEFINITIONS", {**DEFINITIONS, "capitals": new})
    assert "capitals" in FeatureSuite.available()
    assert new.summary == "Share of capitals among the letters of the answer."
    assert facts("capitals") == facts(feature("capitals")) == new.facts
    table = scored(FeatureSuite(["capitals"]), SHOUTED)
    assert table["capitals"].tolist() == [1.0] * len(ENGLISH)
    assert table.facts == {}  # the name says it
    assert training_data(*arena(("capitals",), {}))["en"].monotone == [1]
