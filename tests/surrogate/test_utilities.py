"""Utilities of the simulated judge: the order of faults, and numbers of users."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from subsets import slow_except

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.languages import LANGUAGES
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.drafts import MANNERS
from mirage.surrogate.fault_costs import (
    CITATION_FAULTS,
    FALSEHOODS,
    FaultCost,
    fault_costs,
    order_violations,
)
from mirage.surrogate.faults import ARENA_FAULTS
from mirage.surrogate.simulation import System, simulate
from mirage.surrogate.utilities import LEFT, UTILITIES, Utilities, read_utilities

CORPORA = {code: MirageDataset.bundled(code) for code in LANGUAGES}

HALF_RIGHT = ("half-right", "hallucinated")
NO_ANSWER = ("refusal", "listing", "undecided")
FALSE = (*(kind for kind in FALSEHOODS if kind in ARENA_FAULTS), "off-topic")
ORDER = (CITATION_FAULTS, HALF_RIGHT, NO_ANSWER, FALSE)
"""Classes of faults from the best to the worst."""


def test_every_fault_has_its_row() -> None:
    assert set(ARENA_FAULTS) <= set(LEFT)
    assert all(UTILITIES.cost(kind) > 0 for kind in set(ARENA_FAULTS) - {"truncated"})


def test_the_order_of_faults() -> None:
    least = 0.0
    for kinds in ORDER:
        costs = [UTILITIES.cost(kind) for kind in kinds]
        assert min(costs) > least, kinds
        least = max(costs)
    assert max(UTILITIES.cost(kind) for kind in FALSE) < UTILITIES.cost("garbled")
    assert UTILITIES.cost("refusal") <= min(map(UTILITIES.cost, ("listing", "undecided")))


def test_faults_of_citations_and_form_never_outweigh_the_answer() -> None:
    together = UTILITIES.cost("uncited", "wrongly-cited", "over-cited", "format-broken", "padded")
    assert together < UTILITIES.cost("refusal")
    for falsehood in FALSE:  # a lie with all its citations is worse than a wrong abstention
        assert UTILITIES.cost(falsehood) - UTILITIES.cost("refusal", "uncited") > 1.0


@pytest.mark.parametrize(
    ("code", "step"), [("en", 8), pytest.param("sw", 1, marks=[pytest.mark.slow])]
)
def test_the_order_holds_on_every_query_in_every_manner(code: str, step: int) -> None:
    corpora = {**CORPORA, code: CORPORA[code][::step]}
    names = [(kind, manner) for kind in ARENA_FAULTS for manner in MANNERS]
    systems = [System(f"{kind}-{manner}", {kind: 1.0}, manner) for kind, manner in names]
    _, utilities = simulate(corpora, code, systems, seed=0)
    best = UTILITIES.of(())
    costs = {name: best - row[row < best] for name, row in zip(names, utilities, strict=True)}
    for better, worse in pairwise(ORDER):
        least, most = (
            [costs[kind, manner] for kind in kinds for manner in MANNERS]
            for kinds in (better, worse)
        )
        assert np.concatenate(least).max() < np.concatenate(most).min()


def test_numbers_of_users_replace_some(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("weights:\n  grounded: 3.0\nfaults:\n  listing: {correct: 0.2}\n")
    mine = read_utilities(file)
    assert mine.weights.grounded == 3.0
    assert mine.weights.correct == UTILITIES.weights.correct
    assert mine.left["listing"].correct == 0.2
    assert mine.left["listing"].complete == UTILITIES.left["listing"].complete
    assert mine.cost("uncited") > UTILITIES.cost("uncited")
    file.write_text('{"weights": {"grounded": 3.0}, "faults": {"listing": {"correct": 0.2}}}')
    assert read_utilities(file) == mine
    runs = simulate(CORPORA, "en", [System("s", {"uncited": 1.0})], utilities=mine, seed=0)
    assert runs[1].min() == pytest.approx(mine.of(["uncited"]))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("weight: {correct: 1}", UnknownNameError, "did you mean 'weights'"),
        ("weights: {corect: 1}", UnknownNameError, "did you mean 'correct'"),
        ("faults: {uncitd: {grounded: 0}}", UnknownNameError, "did you mean 'uncited'"),
        ("faults: {uncited: {grounded: 2}}", SettingError, "between 0 and 1"),
        ("faults: {uncited: 0.5}", SettingError, "faults: uncited: expected a mapping"),
        ("weights: {correct: -1}", SettingError, "between 0 and 100"),
        ("weights: {correct: high}", SettingError, "'high'"),
        ("weights: {correct: .nan}", SettingError, "nan"),
        ("", SettingError, "expected a mapping"),
        ("a: [", SettingError, "not valid YAML or JSON"),
    ],
)
def test_invalid_utilities_are_refused(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(error, match=message):
        read_utilities(file)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read"):
        read_utilities(tmp_path / "none.yaml")


def test_unchanged_utilities_are_equal() -> None:
    assert Utilities() == UTILITIES
    assert UTILITIES.changed({}) == UTILITIES


@pytest.mark.parametrize("code", slow_except(["ar", "ja"], LANGUAGES))
def test_in_every_bundled_surrogate_truth_outweighs_citations(code: str) -> None:
    costs = fault_costs(SurrogateRanker.pretrained(code), code)
    assert {"uncited", "lying", "wrong-entity"} <= {cost.kind for cost in costs}
    assert order_violations(costs) == []


def test_a_falsehood_that_is_too_cheap_is_reported() -> None:
    costs = [FaultCost("uncited", 1.0, 30, 2.0), FaultCost("lying", 6.0, 30, 1.5)]
    assert order_violations(costs) == [
        "lying costs 1.50 per query, but should cost more than uncited (2.00)"
    ]
    costs = [FaultCost("refusal", 2.4, 30, 1.8), FaultCost("lying", 6.0, 30, 1.5)]
    assert order_violations(costs) == [
        "lying costs 1.50 per query, but should cost more than refusal (1.80)"
    ]
