"""Scores of any tool are compared: verdicts, failures, gaps, clusters, repeats, directions."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import each_case
from subsets import slow_except

from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.features.log_measures import NEW_WORDS, TRAFFIC
from mirage.features.registry import DEFINITIONS
from mirage.scores.metrics import metric_facts
from mirage.statistics.permutation import holm
from mirage.testing import audit_scores, compare_scores
from mirage.testing._score_pairs import built_in_facts
from mirage.testing.comments import score_comment
from mirage.testing.score_changes import ScoreComparison
from mirage.testing.score_page import write_comparison

FILES = Path(__file__).parents[1] / "scores" / "files"


def rows(scores: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"item": f"q{i}", "score": each} | more for i, each in enumerate(scores)]


def noisy(seed: int, items: int = 80, shift: float = 0.0) -> list[float]:
    rng = np.random.default_rng(seed)
    return (np.linspace(0.3, 0.8, items) + rng.normal(0, 0.05, items) - shift).tolist()


# Verdicts -----------------------------------------------------------------------------------------


def test_the_three_verdicts() -> None:
    before = rows(noisy(0))
    assert compare_scores(before, rows(noisy(1))).verdict == "no worse"
    assert compare_scores(before, rows(noisy(1, shift=0.2))).verdict == "worse"
    few = compare_scores(before[:12], rows(noisy(1, 80))[:12], margin=0.01)
    assert few.verdict == "inconclusive"
    assert few.needed is not None
    assert few.needed.items is not None
    assert few.needed.items > 12


def test_an_interval_excludes_0_only_if_its_test_is_significant() -> None:
    rng = np.random.default_rng(5)
    excluded = 0
    for items in [14] * 20 + [40] * 10:
        before = rng.random(items)
        after = (before + rng.choice([-0.3, -0.25, -0.2, -0.1, 0.05, 0.0], items)).clip(0, 1)
        [change] = compare_scores(rows(before.tolist()), rows(after.tolist())).changes
        low, high = change.interval
        assert high >= 0 or change.p <= 0.05
        assert low <= 0 or change.p_better <= 0.05
        excluded += high < 0
    assert excluded > 0


def test_a_gain_is_no_loss_and_is_said() -> None:
    result = compare_scores(rows(noisy(0)), rows(noisy(1, shift=-0.15)))
    [change] = result.changes
    assert (result.verdict, change.is_better) == ("no worse", True)
    assert change.difference == pytest.approx(0.15, abs=0.02)
    assert change.interval[0] < 0.15 < change.interval[1]
    assert result.summary.endswith("and better in score")


def test_where_lower_is_better_a_rise_is_a_loss() -> None:
    before, after = rows(noisy(0)), rows(noisy(1, shift=-0.15))
    assert compare_scores(before, after, lower_is_better=["score"]).verdict == "worse"
    named = [
        [{"item": row["item"], "wer": row["score"]} for row in side] for side in (before, after)
    ]
    result = compare_scores(*named, fields={"score": "wer"})
    assert result.verdict == "worse"
    assert "lower is better: wer" in result.notes


def test_p_values_are_corrected_for_the_metrics() -> None:
    rng = np.random.default_rng(1)
    sides: list[list[dict[str, Any]]] = [[], []]
    for i in range(40):
        for side, shift in zip(sides, (0.0, 0.045), strict=True):
            values = (rng.normal(0.5, 0.1, 6) - shift).tolist()
            side.append({"item": i, **dict(zip("abcdef", values, strict=True))})
    fields = {"score": list("abcdef")}
    alone = [compare_scores(*sides, fields={"score": name}).changes[0].p for name in "abcdef"]
    together = [change.p for change in compare_scores(*sides, fields=fields).changes]
    assert together == pytest.approx(holm(alone).tolist())
    assert max(together) > max(alone) or together == alone
    assert together != alone


# Failures and gaps --------------------------------------------------------------------------------


def test_a_system_that_fails_more_often_does_not_rise() -> None:
    before = rows([0.0] * 15 + [0.8] * 45)
    after = rows([None] * 15 + [0.8] * 45)  # a mean of the rest would rise from 0.6 to 0.8
    [change] = compare_scores(before, after).changes
    assert (change.before, change.after) == (pytest.approx(0.6), pytest.approx(0.6))
    assert change.failed == (0, 15)
    failing = compare_scores(rows([0.8] * 60), rows([None] * 12 + [0.8] * 48))
    assert failing.verdict == "worse"
    assert "score: failed scores count as the worst score (0): 0 before, 12 after" in failing.notes


@pytest.mark.parametrize("absent", [False, True], ids=["failed", "without a score"])
def test_failures_before_do_not_hide_a_loss(absent: bool) -> None:
    rng = np.random.default_rng(3)
    scores = rng.uniform(0.6, 1.0, 60)
    failed: list[Any] = [None if i % 3 == 0 else score for i, score in enumerate(scores)]
    before = rows(failed)
    if absent:  # the metric does not apply to these items before
        before = [row | {"metric": "m"} for row in before if row["score"] is not None]
        before += [{"item": f"q{i}", "metric": "other", "score": 1} for i in range(60)]
    more = {"metric": "m"} if absent else {}
    result = compare_scores(before, rows(scores - 0.2, **more), metrics=["m"] if absent else None)
    [change] = result.changes
    assert (result.verdict, change.is_better, result.needed) == ("inconclusive", False, None)
    assert change.lost_at_most > 0.2
    assert change.left_out == 20
    assert any("20 items left out, mean of the other 40" in note for note in result.notes)
    # Failures that the later version does not have are a gain if the other scores did not drop.
    fixed = compare_scores(rows(failed), rows(scores))
    assert (fixed.verdict, fixed.changes[0].is_better) == ("no worse", True)


def test_repeats_that_failed_before_do_not_hide_a_loss() -> None:
    before = rows([0.9] * 40, repeat=1) + rows([None, 0.9] * 20, repeat=2)
    after = rows([0.7] * 40, repeat=1) + rows([0.7] * 40, repeat=2)
    [change] = compare_scores(before, after).changes
    assert change.lost_at_most > 0.2
    assert change.verdict != "no worse"


def test_failures_can_be_left_out_which_is_said() -> None:
    result = compare_scores(rows([0.8] * 60), rows([None] * 12 + [0.8] * 48), failures="skip")
    assert result.verdict == "no worse"
    assert result.changes[0].items == 48
    assert "score: failed scores are left out: 0 before, 12 after" in result.notes


def test_items_of_one_side_are_listed_and_rule_out_no_worse() -> None:
    before = rows([0.8] * 60)
    result = compare_scores(before, before[:45])
    assert result.only_before == tuple(f"q{i}" for i in range(45, 60))
    assert result.verdict == "inconclusive"  # 15 of 60 may be lost
    assert any(note.startswith("only in before: 15 items: q45, ") for note in result.notes)
    assert compare_scores(before, before[:45], failures="skip").verdict == "no worse"
    more = compare_scores(before[:45], before)
    assert (more.verdict, more.only_after) == ("no worse", result.only_before)


def test_a_metric_that_applies_to_neither_side_is_not_counted() -> None:
    def long(scores: list[float | None]) -> list[dict[str, Any]]:
        return [
            {"item": f"q{i}", "metric": name, "score": value}
            for i, score in enumerate(scores)
            for name, value in (("a", 1.0), ("b", score))
            if name == "a" or i < 40
        ]

    result = compare_scores(long([0.5] * 60), long([0.5] * 60))
    by_name = {change.metric: change for change in result.changes}
    assert (by_name["a"].items, by_name["b"].items, by_name["b"].unscored) == (60, 40, 20)


def test_without_a_scale_a_loss_is_found_but_never_ruled_out() -> None:
    before, after = ([5 * score for score in noisy(seed)] for seed in (0, 1))
    result = compare_scores(rows(before), rows(after))
    assert result.verdict == "inconclusive"
    assert any("needs its scale, --scale score=LOW:HIGH" in note for note in result.notes)
    scaled = compare_scores(rows(before), rows(after), scales={"score": (0, 5)})
    assert scaled.verdict == "no worse"
    worse = compare_scores(rows(before), rows([score - 1 for score in after]))
    assert worse.verdict == "worse"


# Clusters and repeats -----------------------------------------------------------------------------


def test_clusters_count_once() -> None:
    rng = np.random.default_rng(4)
    drops = np.repeat(rng.choice([0.3, -0.1], 12), 8)
    before = [{"item": i, "score": 0.6, "doc": i // 8} for i in range(96)]
    after = [row | {"score": 0.6 - float(drops[row["item"]])} for row in before]
    alone = compare_scores(before, after)
    clustered = compare_scores(before, after, fields={"cluster": "doc"})
    assert clustered.changes[0].clusters == 12
    assert clustered.changes[0].p > alone.changes[0].p
    assert clustered.changes[0].lost_at_most > alone.changes[0].lost_at_most


def test_an_item_in_two_clusters_is_refused() -> None:
    before = [{"item": i, "score": 0.5, "cluster": "a"} for i in range(5)]
    after = [row | {"cluster": "b"} for row in before]
    with pytest.raises(
        DatasetError, match="item '0' has the cluster 'b' here, but the cluster 'a'"
    ):
        compare_scores(before, after)


def test_repeats_of_an_item_are_averaged() -> None:
    before = rows([0.5] * 40, repeat=1) + rows([0.9] * 40, repeat=2)
    after = rows([0.7] * 40)
    [change] = compare_scores(before, after).changes
    assert change.before == pytest.approx(0.7)
    assert (change.items, change.worse, change.better) == (40, 0, 0)


def test_unnamed_repeats_are_said() -> None:
    result = compare_scores(rows([0.5] * 30) * 2, rows([0.5] * 30))
    assert any("30 items occur more than once" in note for note in result.notes)


# Settings -----------------------------------------------------------------------------------------


def test_what_cannot_be_compared_is_refused() -> None:
    good = rows([0.5] * 10)
    with pytest.raises(
        DatasetError, match="have no item in common; their items are, for example, 'q0' and 'x'"
    ):
        compare_scores(good, [{"item": "x", "score": 1}])
    with pytest.raises(DatasetError, match="no metric in common: before has score; after has a"):
        compare_scores(good, [{"item": "q1", "metric": "a", "score": 1}])
    with pytest.raises(UnknownNameError, match="metric 'scor'; did you mean 'score'"):
        compare_scores(good, good, metrics=["scor"])
    with pytest.raises(UnknownNameError, match="metric 'x'"):
        compare_scores(good, good, lower_is_better=["x"])
    with pytest.raises(SettingError, match="failures must be worst or skip, got 'zero'"):
        compare_scores(good, good, failures="zero")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="margin must be above 0 and below 1, got"):
        compare_scores(good, good, margin=0)
    with pytest.raises(SettingError, match=r"scores range from 0.5 to 0.5, so some are outside"):
        compare_scores(good, good, scales={"score": (1, 5)})


def test_an_unknown_metric_whose_name_suggests_errors_needs_its_direction() -> None:
    data = [{"item": i, "my_error": 0.1} for i in range(10)]
    with pytest.raises(SettingError, match="does not show whether smaller scores are better"):
        compare_scores(data, data, fields={"score": "my_error"})
    result = compare_scores(data, data, fields={"score": "my_error"}, lower_is_better=["my_error"])
    assert result.changes[0].facts.lower_is_better


@pytest.mark.parametrize("name", ["word_perplexity,none", "bits_per_byte,none", "ter,none"])
def test_a_filter_of_lm_eval_does_not_hide_that_lower_is_better(name: str) -> None:
    facts = metric_facts(name, np.array([0.2, 0.9]))
    assert (facts.lower_is_better, facts.assumed) == (True, False)


@each_case(
    "name",
    [
        *("acc,none", "exact_match,strict-match", "nv_accuracy", "nv_context_relevance"),
        *("nv_response_groundedness", "bleu_score", "chrf_score(mode=fmeasure)"),
        *("llm_context_precision_with_reference", "factual_correctness(mode=f1)"),
        *("tool_call_accuracy", "context-faithfulness", "llm-rubric", "factuality"),
    ],
)
def test_directions_of_common_metrics_are_known(name: str) -> None:
    facts = metric_facts(name, np.array([0.2, 0.9]))
    assert (facts.lower_is_better, facts.assumed) == (False, False)


def test_thresholds_show_the_direction_of_a_metric() -> None:
    def run(scores: list[float], lower: bool) -> dict[str, Any]:
        def metric(score: float) -> dict[str, Any]:
            passed = score <= 0.5 if lower else score >= 0.5
            return {"name": "Hallucination", "score": score, "threshold": 0.5, "success": passed}

        return {
            "testCases": [
                {"name": f"c{i}", "input": f"{i}", "metricsData": [metric(score)]}
                for i, score in enumerate(scores)
            ]
        }

    low, high = [0.1] * 40, [0.9] * 40
    assert compare_scores(run(low, True), run(high, True)).verdict == "worse"
    assert compare_scores(run(low, False), run(high, False)).verdict == "no worse"
    with pytest.raises(SettingError, match="both files measure the same metric"):
        compare_scores(run(low, True), run(high, False))


# Features of this library ------------------------------------------------------------------------


def metric_rows(name: str, scores: Any) -> list[dict[str, Any]]:
    return [{"item": f"q{i}", "metric": name, "score": each} for i, each in enumerate(scores)]


def test_every_feature_has_the_direction_and_range_of_the_registry() -> None:
    declared = {
        **{d.example: d.facts for d in DEFINITIONS.values()},
        **TRAFFIC,
        **NEW_WORDS,
    }
    for name, facts in declared.items():
        middle = np.array([0.5 if math.isinf(facts.high) else (facts.low + facts.high) / 2])
        compared = metric_facts(name, middle, built_in=built_in_facts(name))
        assert compared.has_direction == (facts.direction in ("higher", "lower")), name
        assert compared.lower_is_better == (facts.direction == "lower"), name
        assert not compared.assumed
        if math.isfinite(facts.high - facts.low) and name not in ("answer_similarity",):
            assert (compared.low, compared.high) == (facts.low, facts.high), name


@pytest.mark.parametrize(
    "name",
    [
        *("unknown_facts", "wrong_answer", "invention", "incorrect_attempt", "english_language"),
        *("failed", "empty_answer", "feature_scorer/unknown_facts", "unknown_facts,none"),
    ],
)
def test_a_rise_of_a_fault_of_this_library_is_worse(name: str) -> None:
    few, many = [0.0] * 57 + [1.0] * 3, [0.0] * 20 + [1.0] * 40
    assert compare_scores(metric_rows(name, few), metric_rows(name, many)).verdict == "worse"
    fixed = compare_scores(metric_rows(name, many), metric_rows(name, few))
    assert fixed.verdict == "no worse"
    assert fixed.changes[0].is_better
    assert f"lower is better: {name}" in fixed.notes


def test_a_failed_score_of_a_fault_counts_as_the_fault() -> None:
    before = metric_rows("unknown_facts", [0.0] * 60)
    after = metric_rows("unknown_facts", [None] * 30 + [0.0] * 30)
    result = compare_scores(before, after)
    assert (result.verdict, result.changes[0].after) == ("worse", 0.5)
    assert "unknown_facts: failed scores count as the worst score (1): 0 before, 30 after" in (
        result.notes
    )


def test_the_users_direction_overrides_the_registry() -> None:
    low, high = metric_rows("invention", [0.1] * 60), metric_rows("invention", [0.9] * 60)
    assert compare_scores(low, high).verdict == "worse"
    assert compare_scores(low, high, higher_is_better=["invention"]).verdict == "no worse"
    assert compare_scores(high, low, higher_is_better=["invention"]).verdict == "worse"


def test_a_feature_without_a_direction_is_compared_only_if_the_user_states_one() -> None:
    before = metric_rows("answer_length", [3.0] * 60) + metric_rows("abstention", [1.0] * 60)
    after = metric_rows("answer_length", [4.0] * 60) + metric_rows("abstention", [1.0] * 60)
    result = compare_scores(before, after)
    assert [change.metric for change in result.changes] == ["abstention"]
    assert result.verdict == "no worse"
    assert result.not_compared["answer_length"].startswith("neither higher nor lower scores")
    with pytest.raises(SettingError, match=r"'answer_length': neither higher nor lower .*--lower"):
        compare_scores(before, after, metrics=["answer_length"])
    chosen = compare_scores(before, after, lower_is_better=["answer_length"])
    assert chosen.changes[0].facts[:4] == (True, False, 0, 20)


def test_a_metric_of_another_tool_that_is_named_like_a_feature_keeps_its_scale() -> None:
    def scale(name: str, *scores: float) -> tuple[float, float]:
        facts = metric_facts(name, np.array(scores), built_in=built_in_facts(name))
        return facts.low, facts.high

    assert scale("fluency", 1, 3) == (1, 5)
    assert scale("fluency", 0.2, 1) == scale("fluency", 1, 1) == (0, 1)
    assert scale("fluency", 20, 90) == (-math.inf, math.inf)
    assert scale("answer_similarity", -0.2, 0.9) == (-1, 1)
    assert scale("answer_similarity", 0.2, 0.9) == (0, 1)


# Metrics of one file -----------------------------------------------------------------------------


def ragas_rows(**columns: list[Any]) -> list[dict[str, Any]]:
    rows = zip(*columns.values(), strict=True)
    return [
        {"user_input": f"q{i}", **dict(zip(columns, row, strict=True))}
        for i, row in enumerate(rows)
    ]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_metric_that_one_file_lacks_makes_the_result_inconclusive(swapped: bool) -> None:
    both = ragas_rows(faithfulness=[0.8] * 60, relevancy=[0.9] * 60)
    one = ragas_rows(relevancy=[0.9] * 60)
    result = compare_scores(one, both) if swapped else compare_scores(both, one)
    assert [change.verdict for change in result.changes] == ["no worse"]
    assert result.verdict == "inconclusive"
    name = "before" if swapped else "after"
    assert result.summary == (
        f"inconclusive: faithfulness was not compared ({name} has no score of it); if this is "
        "intended, choose the metrics with --metric"
    )
    assert result.plain()["verdict"] == "inconclusive"
    three = ragas_rows(faithfulness=[0.8] * 60, relevancy=[0.9] * 60, recall=[0.7] * 60)
    assert "faithfulness, recall were not compared (faithfulness: after has no score of it)" in (
        compare_scores(three, one).summary
    )
    chosen = compare_scores(both, one, metrics=["relevancy"])
    assert chosen.verdict == "no worse"
    worse = compare_scores(both, ragas_rows(relevancy=[0.2] * 60))
    assert worse.verdict == "worse"


def test_a_metric_without_a_common_score_makes_the_result_inconclusive() -> None:
    before = ragas_rows(faithfulness=[0.8] * 60, relevancy=[0.9] * 60)
    after = ragas_rows(faithfulness=[None] * 60, relevancy=[0.9] * 60)
    assert compare_scores(before, after).verdict == "worse"
    result = compare_scores(before, after, failures="skip")
    assert result.verdict == "inconclusive"
    assert "faithfulness was not compared (no item has a score from both" in result.summary


def test_a_value_that_is_no_number_is_shown_with_its_place() -> None:
    before = ragas_rows(faithfulness=[0.8] * 60, relevancy=[0.9] * 60)
    after = ragas_rows(faithfulness=["0.8 / 1"] * 60, relevancy=[0.9] * 60)
    result = compare_scores(before, after)
    assert result.verdict == "inconclusive"
    assert result.not_compared["faithfulness"] == (
        "after has no score of it; after, entry 1: 'faithfulness' is '0.8 / 1', which is no number"
    )


@pytest.mark.parametrize("name", ["ragas.csv", "table.csv", "table.json"])
def test_decimal_commas_are_one_clear_error(name: str, tmp_path: Path) -> None:
    item = "user_input" if name == "ragas.csv" else "item"
    header = [item, "faithfulness", "relevancy"]
    scores = [(f"q{i}", f"0,{81 + i % 9}", "0.9") for i in range(60)]
    path = tmp_path / name
    if name.endswith("csv"):
        lines = [",".join(header), *(f'{q},"{score}",{more}' for q, score, more in scores)]
        path.write_text("\n".join(lines))
        where = "line 2"
    else:
        path.write_text(json.dumps([dict(zip(header, row, strict=True)) for row in scores]))
        where = "entry 1"
    fields = None if name == "ragas.csv" else {"score": ["faithfulness", "relevancy"]}
    good = [{item: q, "faithfulness": 0.8, "relevancy": 0.9} for q, *_ in scores]
    message = re.escape(
        f"{name}, {where}: 'faithfulness' must be a number, got '0,81'; use a decimal point, 0.81"
    )
    with pytest.raises(DatasetError, match=message):
        compare_scores(good, path, fields=fields)
    with pytest.raises(DatasetError, match=message):
        audit_scores(path, fields=fields)


# Metrics without a scale -------------------------------------------------------------------------


def latencies(seed: int, items: int, *, timeouts: float = 0.0) -> tuple[list[float], list[float]]:
    """Return latencies in seconds before and after a change.

    ``timeouts`` is the probability of a timeout after 30 seconds before the change. There are no
    timeouts after it, but all answers take longer, so that both means are equal.
    """
    rng = np.random.default_rng(seed)
    usual = rng.lognormal(0.5, 0.4, items)
    before = np.where(rng.random(items) < timeouts, 30.0, usual)
    slower = timeouts * (30 - math.exp(0.58))
    return before.tolist(), (usual * np.exp(0.05 * rng.normal(size=items)) + slower).tolist()


def compare_latencies(before: list[float], after: list[float], **settings: Any) -> ScoreComparison:
    sides = [[{"item": i, "latency": x} for i, x in enumerate(each)] for each in (before, after)]
    return compare_scores(*sides, fields={"score": "latency"}, **settings)


@pytest.mark.parametrize("items", slow_except([20], [20, 50, 100]))
def test_rare_gains_that_a_sample_lacks_are_not_called_worse(items: int) -> None:
    pairs = [latencies(seed, items, timeouts=0.02) for seed in range(20)]
    verdicts = [compare_latencies(*pair).verdict for pair in pairs]
    assert verdicts.count("worse") <= 1
    assert "no worse" not in verdicts
    # Exchanged, the later system is as fast on average, although most of its answers are faster.
    assert sum(compare_latencies(b, a).changes[0].is_better for a, b in pairs) <= 1


def test_the_reason_is_given_if_rare_gains_could_outweigh_a_loss() -> None:
    before, _ = latencies(0, 50)
    after = [each + 0.3 for each in before]
    result = compare_latencies(before, after)
    [change] = result.changes
    assert change.verdict == "inconclusive"
    assert change.p > 0.05
    assert result.summary == "inconclusive: the scale of latency is not known"
    limit = 5 * (max(after) - min(before))
    [note] = [note for note in result.notes if "could outweigh" in note]
    assert note == (
        f"latency: the loss on these items is significant, but rare gains of up to {limit:.3g} (5 "
        "times the range of the scores) could outweigh it; state the largest possible score with "
        "--scale"
    )
    assert compare_latencies(before, after, scales={"latency": (0, 6)}).verdict == "worse"
    assert compare_latencies(before, after, scales={"latency": (0, 60)}).verdict != "worse"


@pytest.mark.parametrize(
    "name", ["latency", "cost", "response_time_s", "total_tokens", "loss,none"]
)
def test_small_scores_without_a_limit_have_no_scale(name: str) -> None:
    assert not metric_facts(name, np.array([0.002, 0.004]), lower=[name]).has_scale
    assert metric_facts(name, np.array([0.2]), scale=(0, 9), lower=[name]).high == 9
    assert metric_facts("token_f1", np.array([0.2]), higher=["token_f1"]).has_scale


@pytest.mark.parametrize(("factor", "items"), [(3.0, 100), (2.0, 200), (1.5, 400)])
def test_a_large_or_well_measured_loss_without_a_scale_is_worse(factor: float, items: int) -> None:
    before, after = latencies(0, items)
    slower = [factor * each for each in after]
    assert compare_latencies(before, slower).verdict == "worse"
    assert compare_latencies(slower, before).changes[0].is_better


# Output -------------------------------------------------------------------------------------------


def real() -> ScoreComparison:
    return compare_scores(FILES / "ragas-before.csv", FILES / "ragas-after.csv")


def test_text_markdown_json_and_page_have_the_same_facts(tmp_path: Path) -> None:
    result = real()
    assert result.verdict == "inconclusive"
    plain = json.loads(json.dumps(result.plain()))
    assert plain["metrics"][0]["failed_after"] == 2
    assert plain["needed"]["metric"] == "exact_match"
    comment = score_comment(result)
    assert comment.startswith("<!-- mirage compare ")
    assert "### Mirage: inconclusive" in comment
    write_comparison(result, tmp_path / "page.html")
    page = re.sub(r"<[^>]+>", "", (tmp_path / "page.html").read_text(encoding="utf-8"))
    for text in (str(result), comment.replace("\\", ""), html.unescape(page)):
        assert "exact_match" in text
        assert "failed scores count as the worst score (0): 0 before, 2 after" in " ".join(
            text.split()
        )


def test_a_comment_lists_the_largest_losses_of_a_worse_metric() -> None:
    result = compare_scores(rows([0.9] * 40), rows([0.1, 0.3] + [0.6] * 38))
    assert "Largest losses in score" in score_comment(result)
    assert [loss.item for loss in result.changes[0].losses[:2]] == ["q0", "q1"]


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    name = "<script>alert(1)</script> @team [x](http://y)"
    before = [{"item": name, "metric": name, "score": 1.0}] * 1
    before += [{"item": f"q{i}", "metric": name, "score": 1.0} for i in range(30)]
    after = [row | {"score": 0.0} for row in before]
    result = compare_scores(before, after)
    assert "<script>alert" not in score_comment(result).replace("`<script>alert", "")
    write_comparison(result, tmp_path / "page.html")
    assert "<script>alert" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_nan_never_reaches_json() -> None:
    from mirage.cli._output import _plain

    plain = _plain(compare_scores(rows([0.5] * 3), rows([0.5] * 3)).plain())
    assert not any(
        isinstance(value, float) and not math.isfinite(value)
        for value in plain["metrics"][0].values()
    )
