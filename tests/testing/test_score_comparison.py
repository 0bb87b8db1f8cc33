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

from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.scores.metrics import metric_facts
from mirage.statistics.permutation import holm
from mirage.testing import compare_scores
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
    assert any("needs its scale, such as --scale score=1:5" in note for note in result.notes)
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
