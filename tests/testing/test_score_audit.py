"""Planted defects in others' files are found, and sound files give no finding."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluations import DEFECTS, TOOLS, sound

from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.testing import audit_scores
from mirage.testing.score_audit import Audit


def audited(tool: str, seed: int, folder: Path, defect: str = "") -> Audit:
    rng = np.random.default_rng([seed, *tool.encode(), *defect.encode()])
    sides = sound(rng)
    if defect:
        DEFECTS[defect][1](sides, rng)
    return audit_scores(*TOOLS[tool](sides, folder))


def missed_defects(tool: str, folder: Path) -> list[str]:
    """Return the planted defects that an audit of a tool's files does not find."""
    missed = []
    for defect, (kind, _) in DEFECTS.items():
        (folder / f"{tool} {defect}").mkdir()
        audit = audited(tool, 0, folder / f"{tool} {defect}", defect)
        if kind not in {finding.kind for finding in audit.findings}:
            missed.append(f"{tool} {defect}")
    return missed


def test_every_planted_defect_of_one_tool_is_found(tmp_path: Path) -> None:
    assert missed_defects("inspect_ai", tmp_path) == []


@pytest.mark.slow  # the same defects in the files of other tools
def test_at_least_38_of_40_planted_defects_are_found(tmp_path: Path) -> None:
    tools = ("ragas", "deepeval", "promptfoo", "inspect_ai")
    missed = [defect for tool in tools for defect in missed_defects(tool, tmp_path)]
    assert len(missed) <= 2, missed


def test_at_most_one_finding_on_20_sound_files(tmp_path: Path) -> None:
    findings = []
    for tool in TOOLS:
        for seed in range(4):
            folder = tmp_path / f"{tool} {seed}"
            folder.mkdir()
            findings += map(str, audited(tool, seed, folder).findings)
    assert len(findings) <= 1, findings


def rows(scores: list[float], **more: object) -> list[dict[str, object]]:
    return [{"item": f"q{i}", "score": score, **more} for i, score in enumerate(scores)]


def test_failures_are_shown_with_both_means() -> None:
    scores = [0.0, 1.0] * 20 + [math.nan] * 10
    [finding] = audit_scores(rows(scores)).findings
    assert str(finding) == (
        "failures (scores 1, score): 10 of 50 scores failed; a mean without them is 0.500; counted "
        "as the worst score (0) it is 0.400"
    )


def test_a_metric_whose_scores_all_failed_is_a_finding() -> None:
    def both(*first: float | None) -> list[dict[str, Any]]:
        scores = [{"score": each, "right": i % 2} for i, each in enumerate(first)]
        return [{"item": f"q{i}"} | row for i, row in enumerate(scores)]

    fields = {"score": ["score", "right"]}
    dead = both(*[None] * 60)
    [finding] = audit_scores(dead, fields=fields).findings
    assert (finding.kind, finding.metric) == ("failures", "score")
    assert str(finding).startswith("failures (scores 1, score): 60 of 60 scores failed; ")
    beside = both(None, None, *[0.1 + i / 100 for i in range(58)])
    problems = [f.problem for f in audit_scores(beside, dead, fields=fields).findings]
    assert {"2 of 60 scores failed", "60 of 60 scores failed"} <= {*problems}


def test_failures_of_a_fault_count_as_the_fault() -> None:
    data = [row | {"metric": "unknown_facts"} for row in rows([0.0, 1.0] * 20 + [math.nan] * 10)]
    [finding] = audit_scores(data).findings
    assert "counted as the worst score (1) it is 0.600" in finding.effect
    long = [row | {"metric": "answer_length"} for row in rows([3.0, 4.0] * 20 + [math.nan] * 10)]
    [finding] = audit_scores(long).findings
    assert finding.effect == "a mean without them is 3.500"


def test_the_interval_with_clusters_is_wider() -> None:
    scores = [float(i // 4 % 2) for i in range(48)]
    data = [row | {"document": f"d{i // 4}"} for i, row in enumerate(rows(scores))]
    [finding] = audit_scores(data).findings
    assert finding.kind == "clusters"
    assert "48 items, 12 groups" in finding.problem
    # Four equal items in each of 12 groups of equal size: sqrt(4 * 12 / 11) times as large.
    assert f"{math.sqrt(4 * 12 / 11):.1f} times as large" in finding.effect
    assert "--field cluster=document" in finding.effect


def test_one_sided_items_change_the_difference() -> None:
    before = rows([1.0, 0.0] * 20 + [1.0] * 10)
    after = rows([1.0, 0.0] * 20)
    kinds = {finding.kind: finding for finding in audit_scores(before, after).findings}
    effect = kinds["one-sided items"].effect
    assert "-0.100 on all items" in effect
    assert "+0.000 on the items that both have" in effect
    assert "40 of 40 items have equal scores" in kinds["ties"].problem


@pytest.mark.parametrize(
    ("lengths", "effect"),
    [
        (
            [5, 50],
            "is 0.000 for the 20 answers of 5 characters or fewer and 1.000 for the 60 others",
        ),
        (
            [50, 5],
            "is 1.000 for the 60 answers of 5 characters or fewer and 0.000 for the 20 others",
        ),
    ],
)
def test_the_effect_of_length_counts_the_answers(lengths: list[int], effect: str) -> None:
    data = [
        row | {"answer": "x" * lengths[number % 4 > 0]}
        for number, row in enumerate(rows([float(i % 4 > 0) for i in range(80)]))
    ]
    findings = {finding.kind: finding for finding in audit_scores(data).findings}
    assert effect in findings["length"].effect


def test_different_scales_are_found() -> None:
    before = rows([0.2, 0.9, 0.4, 0.7] * 10)
    after = rows([20.0, 90.0, 40.0, 70.0] * 10)
    assert "scales" in {finding.kind for finding in audit_scores(before, after).findings}


def test_a_paraphrase_with_another_id_is_a_duplicate() -> None:
    data = [
        {"item": f"q{i}", "question": f"What is {i // 2}?", "score": float(i % 3 == 0)}
        for i in range(60)
    ]
    [finding] = audit_scores(data).findings
    assert "30 items have the question of another item" in finding.problem


def test_nothing_to_check_is_said() -> None:
    with pytest.raises(SettingError, match="at least one file"):
        audit_scores()
    with pytest.raises(UnknownNameError, match="unknown metric 'quality'; known: score"):
        audit_scores(rows([0.0, 1.0]), metrics=["quality"])
    with pytest.raises(UnknownNameError, match="unknown format"):
        audit_scores(rows([0.0, 1.0]), format="x")


def test_an_unknown_metric_beside_a_known_one_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="unknown metric 'scores'; did you mean 'score'"):
        audit_scores(rows([0.0, 1.0]), metrics=["score", "scores"])
    with pytest.raises(UnknownNameError, match="unknown metric 'scores'"):
        audit_scores(rows([0.0, 1.0]), lower_is_better=["scores"])
    with pytest.raises(UnknownNameError, match="unknown metric 'scores'"):
        audit_scores(rows([0.0, 1.0]), scales={"scores": (0.0, 1.0)})


def test_a_metric_over_all_items_cannot_be_checked() -> None:
    file = Path(__file__).parents[1] / "scores" / "files" / "lm_eval-after.jsonl"
    with pytest.raises(DatasetError, match=r"metric .bleu. cannot be checked: .* over all items"):
        audit_scores(file, metrics=["exact_match", "bleu"])
