"""mirage compare and mirage audit: exit statuses, outputs and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from command_line import mirage, refusal

FILES = Path(__file__).parents[1] / "scores" / "files"


def write(path: Path, scores: list[Any], **more: Any) -> Path:
    rows = [{"item": f"q{i}", "score": score} | more for i, score in enumerate(scores)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("after", "status", "label"),
    [
        ([0.8] * 40, 0, ""),
        ([0.3] * 40, 1, "fell short: after.jsonl is worse than before.jsonl in score"),
        ([0.8] * 34 + [0.1] * 3 + [1.0] * 3, 3, "inconclusive: score of after.jsonl may have lost"),
    ],
)
def test_the_exit_status_is_the_verdict(
    after: list[float], status: int, label: str, tmp_path: Path
) -> None:
    before = write(tmp_path / "before.jsonl", [0.8] * 40)
    result = mirage("compare", before, write(tmp_path / "after.jsonl", after))
    assert result.exit_code == status
    assert result.stderr.startswith(label)
    assert "score" in result.stdout


def test_a_lost_metric_is_never_no_worse(tmp_path: Path) -> None:
    def ragas(name: str, score: str) -> Path:
        head = "user_input,relevancy" + (",faithfulness" if score else "")
        rows = [f"q{i},0.9" + (f',"{score}"' if score else "") for i in range(60)]
        (tmp_path / name).write_text("\n".join([head, *rows]))
        return tmp_path / name

    before = ragas("before.csv", "0.8")
    result = mirage("compare", before, ragas("missing.csv", ""))
    assert result.exit_code == 3
    assert "faithfulness was not compared (missing.csv has no score of it)" in result.stderr
    assert mirage("compare", before, tmp_path / "missing.csv", "--metric=relevancy").exit_code == 0
    message = refusal("compare", before, ragas("comma.csv", "0,8"))
    assert "comma.csv, line 2: 'faithfulness' must be a number, got '0,8'; use a" in message
    assert refusal("audit", tmp_path / "comma.csv") == message


def test_all_outputs_are_written(tmp_path: Path) -> None:
    files = FILES / "ragas-before.csv", FILES / "ragas-after.csv"
    outputs = ("--comment", tmp_path / "c.md", "--report", tmp_path / "r.html", "--json")
    result = mirage("compare", *files, *outputs)
    assert result.exit_code == 3
    plain = json.loads(result.stdout)
    assert [metric["metric"] for metric in plain["metrics"]] == ["exact_match", "string_present"]
    assert "exact" in (tmp_path / "c.md").read_text()
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_junit_has_one_case_per_metric(tmp_path: Path) -> None:
    before = write(tmp_path / "before.jsonl", [0.8] * 40, metric="right")
    after = write(tmp_path / "after.jsonl", [0.3] * 40, metric="right")
    with before.open("a") as old, after.open("a") as new:
        for i, score in enumerate([0.8] * 34 + [0.1] * 3 + [1.0] * 3):
            row = {"item": f"q{i}", "metric": "short", "score": 0.8}
            old.write(json.dumps(row) + "\n")
            new.write(json.dumps(row | {"score": score}) + "\n")
    assert mirage("compare", before, after, "--junit", tmp_path / "x.xml").exit_code == 1
    suite = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    cases = {case.get("name"): case for case in suite}
    failure = cases["right"].find("failure")
    assert failure is not None
    assert str(failure.get("message")).startswith("worse: 0.800000 to 0.300000, p 0.00")
    assert "q0: 0.8 to 0.3" in str(failure.text)
    skipped = cases["short"].find("skipped")
    assert skipped is not None
    assert "inconclusive: the loss is at most" in str(skipped.get("message"))


def test_fields_scales_and_systems_are_options(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    rows = ["qid,sys,grade,doc"]
    for system, grade in (("old", 4), ("new", 2)):
        rows += [f"{i},{system},{grade + i % 2},d{i // 2}" for i in range(40)]
    path.write_text("\n".join(rows) + "\n")
    fields = [f"--field={field}" for field in ("item=qid", "system=sys", "score=grade")]
    options = ("--before-system", "old", "--after-system", "new", "--scale", "grade=1:5")
    result = mirage("compare", path, path, *fields, "--field=cluster=doc", *options, "--json")
    assert result.exit_code == 1
    [metric] = json.loads(result.stdout)["metrics"]
    assert (metric["items"], metric["clusters"], metric["scale"]) == (40, 20, [1.0, 5.0])
    assert (metric["before"], metric["after"]) == (4.5, 2.5)


def test_failures_can_be_skipped(tmp_path: Path) -> None:
    before = write(tmp_path / "before.jsonl", [0.8] * 60)
    after = write(tmp_path / "after.jsonl", [None] * 12 + [0.8] * 48)
    assert mirage("compare", before, after).exit_code == 1
    assert mirage("compare", before, after, "--failures", "skip").exit_code == 0


def test_bad_options_get_one_message(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [0.8] * 40)
    assert "expected FIELD=NAME" in refusal("compare", path, path, "--field", "item")
    assert "is given twice" in refusal(
        "compare", path, path, "--field", "item=a", "--field", "item=b"
    )
    assert "expected NAME=LOW:HIGH" in refusal("compare", path, path, "--scale", "score=5")
    assert "must be worst or skip" in refusal("compare", path, path, "--failures", "zero")
    assert "unknown format" in refusal("compare", path, path, "--format", "ragass")
    names = ("--metric", "score", "--metric", "scores")
    unknown = refusal("compare", path, path, *names)
    assert "unknown metric 'scores'; did you mean 'score'?" in unknown
    assert refusal("audit", path, *names) == unknown
    missing = refusal("compare", path, tmp_path / "none.jsonl")
    assert "none.jsonl: no such file" in missing


def test_an_audit_ends_with_1_if_anything_was_found(tmp_path: Path) -> None:
    sound = [0.2, 0.9, 0.5, 0.7] * 10
    assert mirage("audit", write(tmp_path / "a.jsonl", sound)).exit_code == 0
    result = mirage("audit", write(tmp_path / "b.jsonl", [*sound, None, None]))
    assert result.exit_code == 1
    assert "2 of 42 scores failed" in result.stdout
    assert "fell short: failures" in result.stderr
    found = json.loads(mirage("audit", tmp_path / "b.jsonl", "--json").stdout)["findings"]
    assert [finding["kind"] for finding in found] == ["failures"]


def test_help_tells_the_commands_that_compare_apart() -> None:
    text = " ".join(mirage("compare", "--help").stdout.split())
    assert "use `mirage check`" in text
    assert "`mirage grid compare`" in text
    assert "`mirage compare`" in " ".join(mirage("check", "--help").stdout.split())
