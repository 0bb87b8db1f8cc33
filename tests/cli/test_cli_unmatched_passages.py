"""Commands and gates on a system with other passage ids than the dataset."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import mirage

from mirage import Leaderboard
from mirage._base.passages import NOTHING_JUDGED
from mirage.dataset import MirageDataset
from mirage.errors import FeatureError
from mirage.features import FeatureSuite
from mirage.models import Run
from mirage.testing import baseline, comments, save_baseline
from mirage.testing.baseline import read_baseline
from mirage.testing.mutation import suggested_bounds
from mirage.testing.regressions import compare_with_baseline, result_table, summary
from mirage.testing.suites import write_tests

DATASET = MirageDataset.bundled("en")
NAMES = ("citation_recall@10", "citation_map@10", "support_lexical")


def renamed(text: str) -> str:
    """Return a response whose citations have the passage ids of another index."""
    for query in DATASET:
        for passage in query.passages:
            text = text.replace(f"[{passage.id}]", f"[{passage.id.replace('#', '.rst:')}]")
    return text


GOOD = Run(
    model="good",
    language="en",
    responses=tuple(
        {"query_id": query.id, "text": query.reference}  # type: ignore[misc]
        for query in DATASET
    ),
)
STRANGE = GOOD.model_copy(
    update={
        "model": "strange",
        "responses": tuple(
            response.model_copy(update={"text": renamed(response.text or "")})
            for response in GOOD.responses
        ),
    }
)


def test_features_of_a_run_with_other_ids_are_not_zero() -> None:
    suite = FeatureSuite(NAMES)
    assert not suite.score(DATASET, GOOD, progress=False).unmeasured
    table = suite.score(DATASET, STRANGE, progress=False)
    assert table.unmeasured.keys() == set(NAMES)
    assert all(why.startswith(NOTHING_JUDGED) for why in table.unmeasured.values())


def test_a_gate_never_says_no_worse_of_what_was_not_measured(tmp_path: Path) -> None:
    save_baseline(STRANGE, tmp_path / "baseline.json", on=DATASET)
    saved = read_baseline(tmp_path / "baseline.json")
    assert set(NAMES) <= saved.table.unmeasured.keys()
    runs = compare_with_baseline(STRANGE, saved, on=DATASET)
    verdict = summary(runs.comparison)
    assert runs.comparison.verdict == "no worse"
    head, _, rest = verdict.partition("; not compared: ")
    assert all(name in rest and name not in head for name in NAMES)
    assert f"not compared, citation_recall@10: {NOTHING_JUDGED}" in " ".join(
        result_table(runs.comparison).split()
    )
    assert "not compared" in comments.comment(runs)
    cases = ElementTree.fromstring(comments.junit(runs))
    skipped = [case for case in cases if case.find("skipped") is not None]
    assert {case.get("name") for case in skipped} >= set(NAMES)
    assert int(cases.get("skipped", "0")) == len(skipped)
    assert int(cases.get("tests", "0")) == len(cases)


def test_a_gate_is_inconclusive_if_nothing_is_left_to_compare() -> None:
    saved = baseline.baseline_of(STRANGE, on=DATASET, suite=FeatureSuite(NAMES))
    runs = compare_with_baseline(STRANGE, saved, on=DATASET)
    assert runs.comparison.verdict == "inconclusive"
    assert runs.comparison.not_compared.keys() == set(NAMES)
    assert NOTHING_JUDGED in " ".join(result_table(runs.comparison).split())


def test_tests_are_not_written_on_what_was_not_measured(tmp_path: Path) -> None:
    bounds, score = suggested_bounds(DATASET, STRANGE, kinds=["wrong-language"])
    assert not {bound.feature for bound in bounds} & {*NAMES}
    assert {"citation_recall@10", "support_lexical"} <= score.unmeasured.keys()
    reason = "Not measured, citation_recall@10: the qrels contain none of"
    assert reason in " ".join(str(score).split())
    STRANGE.save(tmp_path / "strange.jsonl")
    file = tmp_path / "test_rag.py"
    write_tests(file, DATASET, STRANGE, tmp_path / "strange.jsonl", kinds=["wrong-language"])
    assert "Not measured: " in file.read_text("utf-8")


def test_a_rank_is_refused_with_the_reason() -> None:
    with pytest.raises(FeatureError, match="the qrels contain none of the retrieved passages"):
        Leaderboard.bundled("en").rank(STRANGE, progress=False)


def test_commands_say_why(tmp_path: Path) -> None:
    responses, saved = tmp_path / "strange.jsonl", tmp_path / "baseline.json"
    STRANGE.save(responses)
    reason = "not measured, citation_recall@10: the qrels contain none of the retrieved passages"
    assert reason in " ".join(mirage("features", "--language", "en", responses).stdout.split())
    save = mirage("baseline", "--language", "en", responses, "--out", saved)
    assert reason in " ".join(save.stdout.split())
    check = mirage("check", "--language", "en", responses, "--baseline", saved, "--json")
    assert "citation_recall@10" in json.loads(check.stdout)["not_compared"]
    assert "citation_recall@10" not in [
        row["feature"] for row in json.loads(check.stdout)["features"]
    ]
