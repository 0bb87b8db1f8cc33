"""Comparison of two systems that were ranked together, query by query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage import (
    Leaderboard,
    MultilingualLeaderboard,
    MultilingualRanking,
    Ranking,
    Response,
    Run,
)
from mirage.errors import MirageError, UnknownNameError
from mirage.features import FeatureTable
from mirage.features.findings import Finding
from mirage.ranking import Evidence
from mirage.ranking.comparison import (
    UNKNOWN,
    QueryComparer,
    QueryGains,
    advantages,
    draw_correlations,
    p_positive,
    p_positive_each,
    without_templates,
)
from mirage.surrogate import SurrogateRanker


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return Leaderboard.bundled("en")


@pytest.fixture(scope="module")
def right(board: Leaderboard) -> dict[str, str]:
    return {query.id: query.reference or "" for query in board.dataset}


@pytest.fixture(scope="module")
def ranking(board: Leaderboard, right: dict[str, str]) -> Ranking:
    cautious = right | dict.fromkeys(("q01", "q03", "q04"), "I do not know.")
    wordy = {
        id_: f"Sure! Here is the answer.\n\n{text}\n\nAnything else?" for id_, text in right.items()
    }
    return board.rank_many({"b": right, "a": cautious, "wordy": wordy}, progress=False)


def test_three_refusals_are_enough_to_be_worse(ranking: Ranking) -> None:
    comparison = ranking.compare("b", "a")
    assert (comparison.better, comparison.worse, comparison.n) == (3, 0, 40)
    assert comparison.p_better >= 0.9
    assert {query.query_id for query in comparison.queries} == {"q01", "q03", "q04"}
    assert all(query.outcomes == ("right", "declined") for query in comparison.queries)


def test_the_probability_of_two_systems_is_that_of_the_comparison(ranking: Ranking) -> None:
    assert ranking.p_better("b", "a") == ranking.compare("b", "a").p_better
    assert ranking.p_better("b", "a") + ranking.p_better("a", "b") == pytest.approx(1)
    # Without the pairing, the shared error of the surrogate hides the difference.
    assert ranking._draws is not None
    assert np.mean(ranking._draws["b"] > ranking._draws["a"]) < 0.85


def test_a_matrix_has_the_probabilities_of_single_pairs(ranking: Ranking) -> None:
    fresh = Ranking(
        ranking.entries,
        language=ranking.language,
        draws=ranking._draws,
        evidence=ranking.evidence,
    )
    rows, columns = ("wordy", "b"), ("a", "anchor/plain", "b")
    matrix = fresh.p_better_matrix(rows, columns)
    expected = [[ranking.p_better(a, b) for b in columns] for a in rows]
    assert matrix.tolist() == expected
    assert matrix[1, 2] == 0.5
    assert fresh.compare("b", "a").p_better == matrix[1, 0]
    with pytest.raises(UnknownNameError):
        fresh.p_better_matrix(("a",), ("c",))


def test_the_order_of_two_systems_does_not_change_their_probability() -> None:
    gains = np.random.default_rng(0).normal(0.1, 0.3, 40)
    for codes in (np.arange(40), np.arange(40) // 4):
        assert p_positive(gains, codes) == pytest.approx(1 - p_positive(-gains, codes), abs=1e-12)


def test_one_language_has_the_probability_of_its_ranking(ranking: Ranking) -> None:
    over = MultilingualRanking({"en": ranking})
    for a, b in (("b", "a"), ("a", "b"), ("wordy", "a")):
        assert over.p_better(a, b) == ranking.p_better(a, b)
    assert over.p_better("a", "a") == 0.5
    assert over.p_better("b", "anchor/plain") == pytest.approx(
        ranking.p_better("b", "anchor/plain")
    )


def test_faults_in_more_languages_give_more_certainty() -> None:
    """One fault in each language: on another question each time, or on the same question."""
    boards = {code: Leaderboard.bundled(code) for code in ("de", "ja", "sw")}
    right = {
        code: {query.id: query.reference or "" for query in board.dataset}
        for code, board in boards.items()
    }
    wrong = {
        code: [query for query in board.dataset if query.wrong_answers]
        for code, board in boards.items()
    }
    faulty = {
        name: {
            code: right[code] | {query.id: query.wrong_answers[0][0]}
            for i, code in enumerate(boards)
            for query in [wrong[code][(i if name == "different" else 0)]]
        }
        for name in ("different", "same")
    }
    ranking = MultilingualLeaderboard(boards).rank_many({"right": right, **faulty}, progress=False)
    each = [ranking[code].p_better("right", "different") for code in boards]
    assert ranking.p_better("right", "different") > max(each) + 0.05
    # Translations of one question are one observation.
    assert ranking.p_better("right", "same") == pytest.approx(each[0], abs=0.01)


def test_languages_have_equal_weight() -> None:
    many = QueryGains(tuple("abcd"), np.array([-0.1, -0.1, -0.1, 0.0]), tuple("abcd"))
    few = QueryGains(("e", "a"), np.array([0.4, 0.2]), ("e", "a"))
    pooled = QueryGains.pooled([many, few])
    assert pooled.query_ids == pooled.clusters == tuple("abcde")
    means = [part.gains.mean() for part in (many, few)]
    assert pooled.gains.sum() / 6 == pytest.approx(np.mean(means))
    assert pooled.gains[0] == pytest.approx(-0.1 * 3 / 4 + 0.2 * 3 / 2)


def test_the_other_direction_is_the_mirror_image(ranking: Ranking) -> None:
    forward, backward = ranking.compare("b", "a"), ranking.compare("a", "b")
    assert forward.difference == -backward.difference > 0
    assert forward.interval == tuple(-end for end in reversed(backward.interval))
    assert [row.query_id for row in forward.queries] == [
        row.query_id for row in reversed(backward.queries)
    ]
    assert backward.queries[0].outcomes == ("declined", "right")


def test_comparisons_have_the_level_of_the_ranking(ranking: Ranking) -> None:
    narrow = Ranking(ranking.entries, language="en", evidence=ranking.evidence, level=0.8)
    comparison, usual = narrow.compare("b", "a"), ranking.compare("b", "a")
    assert usual.interval[0] < comparison.interval[0] < comparison.interval[1] < usual.interval[1]
    assert ", 80 % interval" in str(comparison)
    assert ", 80 % interval" in str(comparison.swapped())
    assert ", 95 % interval" in str(usual)
    assert comparison.to_dict()["level"] == narrow.to_dict()["level"] == 0.8
    assert ranking.to_dict()["level"] == 0.95


def test_courtesies_are_no_difference(ranking: Ranking) -> None:
    comparison = ranking.compare("b", "wordy")
    assert 0.025 < comparison.p_better < 0.975
    assert len(comparison.queries) <= 3


def test_equal_systems_are_equally_good(board: Leaderboard, right: dict[str, str]) -> None:
    ranking = board.rank_many({"x": right, "y": right}, progress=False)
    comparison = ranking.compare("x", "y")
    assert (comparison.p_better, comparison.difference, comparison.queries) == (0.5, 0.0, ())
    assert "better on 0 of 40, worse on 0" in str(comparison)


def test_a_failure_loses_against_any_response(board: Leaderboard, right: dict[str, str]) -> None:
    failing = Run(
        model="failing",
        language="en",
        responses=tuple(
            Response(query_id=id_, text=None, error="timeout")
            if id_ == "q02"
            else Response(query_id=id_, text=text)
            for id_, text in right.items()
        ),
    )
    ranking = board.rank_many({"whole": right, "failing": failing}, progress=False)
    (row,) = ranking.compare("whole", "failing").queries
    assert (row.query_id, row.advantage, row.outcomes) == ("q02", 0.5, ("right", "failed"))


def test_anchors_and_unknown_names_cannot_be_compared(ranking: Ranking) -> None:
    with pytest.raises(MirageError, match="'a' and 'anchor/plain' cannot be compared"):
        ranking.compare("a", "anchor/plain")
    with pytest.raises(UnknownNameError):
        ranking.compare("a", "c")


def test_text_and_json_have_the_comparisons_of_neighbours(ranking: Ranking) -> None:
    systems = [model for model in ranking.models if not ranking[model].anchor]
    pairs = [list(comparison.models) for comparison in ranking.comparisons]
    assert pairs == [systems[:2], systems[1:]]
    parsed = ranking.to_dict()["comparisons"]
    assert [each["models"] for each in parsed] == pairs
    assert set(ranking.standing_notes) <= set(ranking.to_dict()["notes"])
    assert len(ranking.standing_notes) == 3
    assert " ".join(str(ranking).split()).count("query by query: better on") == 2


def test_one_system_has_no_comparison(board: Leaderboard, right: dict[str, str]) -> None:
    ranking = board.rank(right, "alone", progress=False)
    assert ranking.comparisons == ()
    assert "query by query" not in str(ranking)


# Statistics ---------------------------------------------------------------------------------------


def test_the_probability_is_that_of_a_beta_prior() -> None:
    from scipy.stats import beta

    gains = np.zeros(40)
    gains[:3] = 0.3
    assert p_positive(gains, np.arange(40)) == pytest.approx(beta(4.2, 1.2).sf(0.5), abs=0.01)
    assert p_positive(-gains, np.arange(40)) == pytest.approx(beta(1.2, 4.2).sf(0.5), abs=0.01)
    assert p_positive(np.zeros(40), np.arange(40)) == 0.5


def test_many_pairs_have_the_probabilities_of_each() -> None:
    rng = np.random.default_rng(0)
    pairs = []
    for differing in (0, 3, 20, 20, 40):
        gains = rng.normal(0.05, 0.2, 40)
        gains[differing:] = 0
        pairs += [(gains, np.arange(40)), (gains, np.arange(40) // 4)]
    each = [p_positive(gains, codes) for gains, codes in pairs]
    assert p_positive_each(pairs) == pytest.approx(each, abs=1e-12)
    assert p_positive_each([]) == []


def test_queries_of_one_cluster_count_once() -> None:
    gains = np.zeros(40)
    gains[:5] = 0.3
    alone, together = p_positive(gains, np.arange(40)), p_positive(gains, np.arange(40) // 5)
    assert together < 0.9 < alone


def _gains(*per_dossier: int) -> np.ndarray:
    """Return gains on 60 questions of 12 dossiers, by the number of differences in each dossier."""
    gains = np.zeros(60)
    for dossier, count in enumerate(per_dossier):
        gains[5 * dossier : 5 * dossier + abs(count)] = np.sign(count) * 0.3
    return gains


DOSSIERS = np.arange(60) // 5


def test_two_of_three_faults_may_share_a_dossier() -> None:
    apart, pair, together = (
        p_positive(_gains(*counts), DOSSIERS) for counts in ((1, 1, 1), (2, 1), (3,))
    )
    assert together < 0.9 <= pair < apart


def test_clusters_without_two_differences_change_nothing() -> None:
    gains = _gains(1, 1, 1, -1)
    assert p_positive(gains, DOSSIERS) == p_positive(gains, np.arange(60))


def test_a_system_that_misreads_whole_dossiers_is_compared_by_dossier() -> None:
    # Four dossiers against two: 20 questions against 10 would leave no doubt.
    gains = _gains(5, 5, 5, 5, -5, -5)
    assert p_positive(gains, DOSSIERS) < 0.9 < p_positive(gains, np.arange(60))


def test_the_correlation_within_clusters_comes_from_the_data() -> None:
    def correlation(*counts: int) -> float:
        rng = np.random.default_rng(0)
        return float(draw_correlations(_gains(*counts), DOSSIERS, rng).mean())

    spread, mixed, whole = correlation(*[1] * 12), correlation(2, 2, 1, 1), correlation(5, 5)
    assert spread < mixed < 0.2 < 0.5 < whole


@pytest.mark.parametrize("sizes", [(0.4,) * 4, (0.4, 0.3, 0.2, 0.05), (0.4, 0.4, 0.4, 0.01)])
def test_four_differences_of_any_size_are_not_enough_for_an_extreme_probability(
    sizes: tuple[float, ...],
) -> None:
    gains = np.zeros(60)
    gains[::5][: len(sizes)] = sizes
    assert 0.9 < p_positive(gains, DOSSIERS) < 0.975


def test_a_small_difference_against_four_large_ones_adds_no_certainty() -> None:
    gains = np.zeros(40)
    gains[:5] = (0.4, 0.3, 0.3, 0.3, -0.02)
    assert p_positive(gains, np.arange(40)) < 0.975


# Manner -------------------------------------------------------------------------------------------


def _changed(table: FeatureTable, name: str, by: float) -> FeatureTable:
    values = table.values.copy()
    values[:, table.features.index(name)] += by
    return replace(table, values=values)


def test_small_differences_of_wording_do_not_count(ranking: Ranking) -> None:
    evidence = ranking.evidence or Evidence()
    assert evidence.ranker is not None
    table = evidence.tables["b"]
    reworded = _changed(table, "support_lexical", -0.3)
    assert not advantages(evidence.ranker, table, reworded).any()
    assert evidence.ranker.scores(table).sum() != evidence.ranker.scores(reworded).sum()


def test_small_differences_count_if_few_texts_differ(ranking: Ranking) -> None:
    evidence = ranking.evidence or Evidence()
    assert evidence.ranker is not None
    table = evidence.tables["b"]
    worse = _changed(_changed(table, "support_lexical", -0.4), "fact_precision", -0.4)
    assert not advantages(evidence.ranker, table, worse).any()
    assert advantages(evidence.ranker, table, worse, 0.05).any()


class Overlap(SurrogateRanker):
    """A surrogate whose score is the one feature."""

    features = ("answer_rougeL",)

    def scores(self, table: FeatureTable) -> np.ndarray:
        return table.values[:, 0]


def _advantages(gaps: list[float], differing: float = 1.0) -> list[float]:
    ids = tuple(f"q{i}" for i in range(len(gaps)))
    tables = [
        FeatureTable("m", "en", ids, Overlap.features, np.array([[value] for value in values]))
        for values in (gaps, [0.0] * len(gaps))
    ]
    return advantages(Overlap(), *tables, differing).tolist()


def test_limits_by_hand() -> None:
    # The limit of answer_rougeL is 0.2, and shrinks if less than a quarter of the texts differ.
    gain = 0.5 * np.tanh(0.21 / 2)
    assert _advantages([0.19, 0.21, -0.21]) == pytest.approx([0, gain, -gain])
    assert _advantages([0.19, 0.21], differing=0.25) == pytest.approx([0, gain])
    half = _advantages([0.09, 0.11], differing=0.125)
    assert half == pytest.approx([0, 0.5 * np.tanh(0.11 / 2)])


def test_a_negligible_advantage_is_none() -> None:
    gaps = [0.039, 0.041]  # advantages of 0.00975 and 0.01025
    assert _advantages(gaps, differing=0) == pytest.approx([0, 0.01025], abs=1e-5)


def test_the_share_of_differing_texts(ranking: Ranking) -> None:
    assert ranking.evidence is not None
    share = QueryComparer(ranking.evidence, {})._differing_share
    ids = ranking.evidence.tables["b"].query_ids
    assert share("b", "a", ids) == pytest.approx(3 / 40)
    assert share("b", "wordy", ids) == 1
    assert share("b", "b", ids) == 0
    assert QueryComparer(Evidence(), {})._differing_share("b", "b", ids) == 1


def test_white_space_and_the_order_of_repeats_are_no_difference() -> None:
    def run(model: str, *texts: tuple[int, str | None]) -> Run:
        responses = (
            Response(query_id="q", text=text, repeat=i, error=None if text else "timeout")
            for i, text in texts
        )
        return Run(model=model, language="en", responses=tuple(responses))

    first, other = run("a", (0, "Ada. "), (1, "Bo")), run("b", (1, "Bo\n"), (0, "Ada."))
    failing = run("c", (0, "Ada."), (1, None))
    evidence = Evidence(runs={"a": first, "b": other, "c": failing})
    share = QueryComparer(evidence, {})._differing_share
    assert share("a", "b", ["q"]) == 0
    assert share("a", "c", ["q"]) == 1


def test_a_text_that_recurs_is_no_unknown_fact() -> None:
    ids = tuple(f"q{i}" for i in range(5))
    table = FeatureTable("m", "en", ids, (UNKNOWN,), np.array([[0.2], [0.2], [0.2], [0.5], [0.0]]))
    # The signature is in three responses; the fourth has another unknown fact.
    quotes = dict.fromkeys(ids[:2], "Ada 4.0") | {"q2": "1066", "q3": "Ada 4.0 … 1492"}
    finding = Finding("unknown fact", "states", ids[:4], 5, quotes)
    assert without_templates(table, [finding]).values[:, 0].tolist() == [0, 0, 0.2, 0.5, 0]
    assert without_templates(table, []).values.tolist() == table.values.tolist()
