"""The simulated systems, surrogates and boards of the hard level."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from subsets import slow_except

from mirage import Leaderboard, MirageDataset
from mirage.errors import UnknownNameError
from mirage.languages import LANGUAGES
from mirage.models import Run
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.drafts import bundled_texts
from mirage.surrogate.fault_costs import fault_costs, order_violations
from mirage.surrogate.levels import HARD, HARD_MANNERS, SIMULATED
from mirage.surrogate.reading_faults import CHAINED, HARD_FAULTS, NUMERIC, READING_FAULTS
from mirage.surrogate.simulation import System, simulate
from mirage.surrogate.utilities import LEFT, UTILITIES
from mirage.text import mentioned, parse

CORPORA = {code: MirageDataset.bundled(code, level="hard") for code in LANGUAGES}


def answers(code: str, faults: dict[str, float], manner: str = "reference") -> tuple[Run, list]:
    systems = [System("s", faults, manner)]
    runs, utilities = simulate(CORPORA, code, systems, level="hard", seed=0)
    return runs[0], utilities[0].tolist()


def changed_by(code: str, kind: str, manner: str = "reference") -> dict[str, tuple[str, float]]:
    """Return the changed responses and their utilities, by query."""
    clean, _ = answers(code, {}, manner)
    faulty, utilities = answers(code, {kind: 1.0}, manner)
    return {
        after.query_id: (after.text or "", utility)
        for before, after, utility in zip(clean, faulty, utilities, strict=True)
        if before.text != after.text
    }


@pytest.mark.parametrize("code", slow_except(["th"], ["en", "th", "te"]))
@pytest.mark.parametrize("kind", HARD_FAULTS)
def test_a_fault_changes_texts_and_costs(kind: str, code: str) -> None:
    manner = {"swapped": "contrasting", "truncated": "long"}.get(kind, "reference")
    changed = changed_by(code, kind, manner)
    assert changed
    at_most = UTILITIES.of(())
    # A response of one sentence loses nothing if its headings or half of its sentences are lost.
    assert all(utility <= at_most for _, utility in changed.values())
    assert any(utility < at_most for _, utility in changed.values())


@pytest.mark.parametrize("code", ["en", "zh", "te"])
@pytest.mark.parametrize("kind", ["first-passage", "one-hop", "miscalculating"])
def test_a_careless_reader_never_gives_the_right_answer(kind: str, code: str) -> None:
    """The handwritten lies, which the other kinds use, are checked with the corpus."""
    for id_, (text, _) in changed_by(code, kind).items():
        query = CORPORA[code][id_]
        said = parse(text, code, query.passage_ids).answer_text
        right = [mentioned(forms, said, code) for forms in query.answers]
        assert not query.answers or not all(right), (id_, said)


def test_faults_go_with_the_kinds_of_question_that_they_concern() -> None:
    kinds = {query.metadata["kind"] for query in CORPORA["en"]}
    assert kinds >= CHAINED | NUMERIC
    by_fault = {
        kind: {CORPORA["en"][id_].metadata["kind"] for id_ in changed_by("en", kind)}
        for kind in ("update-ignoring", "one-sided", "hasty", "first-passage")
    }
    assert by_fault["update-ignoring"] == {"update"}
    assert by_fault["one-sided"] == {"conflict"}
    assert by_fault["hasty"] == kinds - {"unanswerable"}
    assert "unanswerable" in by_fault["first-passage"]


def test_a_slip_changes_the_number_and_nothing_else() -> None:
    clean, _ = answers("en", {})
    for id_, (text, _) in changed_by("en", "miscalculating").items():
        before = (clean[id_].text or "").partition("##Answer:")[2]
        after = text.partition("##Answer:")[2]
        differing = [a + b for a, b in zip(before, after, strict=True) if a != b]
        assert differing
        assert all(pair.isdecimal() for pair in differing), (before, after)


def test_the_second_lie_is_another_one() -> None:
    texts = bundled_texts("en", "hard")
    for query in CORPORA["en"]:
        assert bool(texts[query.id].other_false) == query.answerable
        assert texts[query.id].other_false != texts[query.id].false
    assert "h01" not in bundled_texts("en")


def test_systems_of_the_hard_level() -> None:
    names = [system.name for system in HARD.systems]
    assert len(set(names)) == len(names) >= 100  # familiarity needs 100
    assert set(HARD_MANNERS) | set(HARD_FAULTS) - {"swapped", "truncated"} <= set(names)
    assert set(HARD.anchors) <= set(names)
    assert set(HARD_FAULTS) <= set(LEFT)
    assert set(HARD.groups) == set(names)
    assert HARD.groups["hasty-casual"] == HARD.groups["hasty"] == "hasty"
    assert set(SIMULATED) == {"quick", "hard"}


def test_a_level_that_does_not_exist_is_named() -> None:
    with pytest.raises(UnknownNameError, match="quick"):
        Leaderboard.bundled("en", level="easy")
    with pytest.raises(UnknownNameError, match="quick"):
        SurrogateRanker.pretrained("en", level="easy")


@cache
def board(code: str) -> Leaderboard:
    return Leaderboard.bundled(code, level="hard")


@pytest.mark.parametrize("code", slow_except(["en", "th"], LANGUAGES))
def test_truth_outweighs_citations_in_every_surrogate(code: str) -> None:
    costs = fault_costs(board(code).ranker, code)
    assert {cost.kind for cost in costs} >= set(READING_FAULTS)
    assert order_violations(costs) == []


@pytest.mark.parametrize("code", slow_except(("th",), LANGUAGES))
def test_a_careful_system_is_above_hasty_ones(code: str) -> None:
    dataset, texts = board(code).dataset, bundled_texts(code, "hard")
    careful = {query.id: texts[query.id].true[0] for query in dataset}
    hasty = {query.id: texts[query.id].other_false or careful[query.id] for query in dataset}
    ranking = board(code).rank_many({"careful": careful, "hasty": hasty}, progress=False)
    assert ranking.p_better("careful", "hasty") > 0.99
    assert ranking["careful"].rank < ranking["anchor/refusal"].rank
    assert ranking["hasty"].rank > ranking["anchor/refusal"].rank
    assert "invented facts" in ranking.about


def test_questions_on_a_dossier_are_one_cluster_of_the_tournaments() -> None:
    data = board("en").ranker.data["en"]
    assert len(set(data.clusters)) == 12
    drawn = data.counts.reshape(len(data.counts), 12, 5)
    assert np.array_equal(drawn, np.repeat(drawn[:, :, :1], 5, axis=2))
