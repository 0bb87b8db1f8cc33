"""Scores that the packages installed here write are read, from files and from memory."""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "scores"))
sys.path.append(str(Path(__file__).parents[2] / "validation" / "truth"))
from formats import CASES, ITEMS, Case, counts, expected
from metric_agreement import make_rows, measure_agreement
from score_writers import (
    MODULES,
    SYSTEMS,
    WRITERS,
    answer,
    langfuse_result,
    question,
    ragas_result,
    reference,
)

from mirage.scores.reading import read_scores
from mirage.testing import compare_scores
from mirage.testing.score_changes import ScoreComparison

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def need(tool: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(tool)
        importlib.import_module(tool)


@pytest.mark.parametrize("tool", WRITERS)
def test_a_fresh_file_is_read(tool: str, tmp_path: Path) -> None:
    need(MODULES[tool])
    files = WRITERS[tool](tmp_path)
    case: Case = next(case for case in CASES if case.format == tool)
    for name, path in files.items():
        file = read_scores(path)
        assert file.format == tool
        assert counts(file, case.metric) == expected(name.partition(".")[0], case)
    kinds = {name.partition(".")[2] for name in files}
    for kind in kinds:
        result = compare_scores(*(files[f"{system}.{kind}"] for system in SYSTEMS))
        assert result.only_before == result.only_after == ()
        assert {change.items for change in result.changes} == {ITEMS}
        assert result.verdict == "inconclusive"


def test_an_evaluation_result_of_ragas_is_compared_in_memory() -> None:
    need("ragas")
    before, after = map(ragas_result, SYSTEMS)
    result = compare_scores(before, after)
    change = next(change for change in result.changes if change.metric == "exact_match")
    # ragas leaves two failed scores out of its mean of 16 right ones of 22; here they count as 0.
    assert float(np.nanmean(after["exact_match"])) == pytest.approx(16 / 22)
    assert change.after == pytest.approx(16 / 24)
    assert change.failed == (0, 2)


def test_logs_of_inspect_ai_are_compared_in_memory(tmp_path: Path) -> None:
    need("inspect_ai")
    from inspect_ai.log import read_eval_log

    files = WRITERS["inspect_ai"](tmp_path)
    logs = [read_eval_log(str(files[f"{system}.eval"])) for system in SYSTEMS]
    check_equal(compare_scores(*logs), [files[f"{system}.eval"] for system in SYSTEMS])


def test_reports_of_pydantic_evals_are_compared_in_memory(tmp_path: Path) -> None:
    need("pydantic_evals")
    from pydantic_evals.reporting import EvaluationReportAdapter

    files = [WRITERS["pydantic_evals"](tmp_path)[f"{system}.json"] for system in SYSTEMS]
    reports = [EvaluationReportAdapter.validate_json(file.read_bytes()) for file in files]
    check_equal(compare_scores(*reports), files)


def test_results_of_deepeval_are_compared_in_memory() -> None:
    need("deepeval")
    from deepeval import evaluate
    from deepeval.evaluate import CacheConfig, DisplayConfig
    from deepeval.metrics import ExactMatchMetric
    from deepeval.test_case import LLMTestCase

    results = [
        evaluate(
            [
                LLMTestCase(
                    input=question(number),
                    actual_output=answer(system, number),
                    expected_output=reference(number),
                )
                for number in range(ITEMS)
            ],
            metrics=[ExactMatchMetric()],
            display_config=DisplayConfig(print_results=False, show_indicator=False),
            cache_config=CacheConfig(write_cache=False),
        )
        for system in SYSTEMS
    ]
    [change] = compare_scores(*results).changes
    assert (change.metric, change.items) == ("Exact Match", ITEMS)
    assert (change.before, change.after) == (20 / 24, 18 / 24)


def check_equal(result: ScoreComparison, files: list[Path]) -> None:
    """Check that a comparison of objects has the figures of the files."""
    expected = compare_scores(*files).plain()["metrics"]
    assert len(expected) > 1
    assert result.plain()["metrics"] == expected


def test_an_experiment_result_of_langfuse_is_compared_in_memory() -> None:
    need("langfuse")
    result = compare_scores(*map(langfuse_result, SYSTEMS))
    [change] = result.changes
    assert (change.metric, change.items, change.failed) == ("exact", ITEMS, (0, 2))
    assert (change.before, change.after) == (20 / 24, 16 / 24)


@pytest.mark.parametrize(
    ("tool", "least", "equal"),
    [
        (
            "ragas",
            {
                "context_recall": 0.65,
                "faithfulness": 0.75,
                "factual_correctness(mode=f1)": 0.7,
                "answer_correctness": 0.75,
                "bleu_score": 0.8,
                "rouge_score(mode=fmeasure)": 0.99,
                "chrf_score": 0.9,
            },
            ["id_based_context_recall", "id_based_context_precision"],
        ),
        ("deepeval", {"FaithfulnessMetric": 0.75, "ContextualRecallMetric": 0.65}, []),
    ],
)
def test_metrics_agree_with_features_as_the_guide_says(
    tool: str, least: dict[str, float], equal: list[str]
) -> None:
    need(tool)
    measured = measure_agreement(tool, make_rows())
    correlations = {name: figures.correlation for name, figures in measured.items()}
    assert {name for name, bound in least.items() if not correlations[name] >= bound} == set()
    assert {name for name in equal if measured[name].gap > 1e-9} == set()
