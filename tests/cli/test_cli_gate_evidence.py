"""How `mirage check` ends if nothing measures correctness."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import mirage

from mirage import MirageDataset
from mirage.models import Response, Run

SWAHILI = MirageDataset.bundled("sw")
REFERENCES = {query.id: query.reference or "" for query in SWAHILI}
BESIDE = dict.fromkeys(REFERENCES, "Hii ni sentensi isiyojibu swali lolote hapa [1].")
HIDDEN = ("reference", "relevant", "answers", "wrong_answers", "answerable")


def test_nothing_that_measures_correctness_ends_with_the_inconclusive_status(
    tmp_path: Path,
) -> None:
    rows = [query.model_dump_json(exclude={*HIDDEN}) for query in SWAHILI]
    (tmp_path / "queries.jsonl").write_text("\n".join(rows), encoding="utf-8")
    for name, texts in (
        ("before", REFERENCES),
        ("after", BESIDE),
    ):
        responses = tuple(Response(query_id=id_, text=text) for id_, text in texts.items())
        Run(model="m", language="sw", responses=responses).save(tmp_path / f"{name}.jsonl")
    given = ["--dataset", tmp_path / "queries.jsonl"]
    baseline = tmp_path / "baseline.json"
    mirage("baseline", "--language", "sw", tmp_path / "before.jsonl", "--out", baseline, *given)
    check = ["check", "--language", "sw", tmp_path / "after.jsonl", "--baseline", baseline, *given]
    ended = mirage(*check, "--json")
    plain = json.loads(ended.stdout)
    assert (ended.exit_code, plain["verdict"], plain["evidence"]) == (3, "inconclusive", {})
    assert plain["reason"].startswith("inconclusive: no feature that measures correctness")


def test_allowed_failures_are_shown(tmp_path: Path) -> None:
    for name, failed in (("before", 0), ("after", 4)):
        responses = tuple(
            Response(query_id=id_, text=None, error="429")
            if position < failed
            else Response(query_id=id_, text=text)
            for position, (id_, text) in enumerate(REFERENCES.items())
        )
        Run(model="m", language="sw", responses=responses).save(tmp_path / f"{name}.jsonl")
    baseline = tmp_path / "baseline.json"
    mirage("baseline", "--language", "sw", tmp_path / "before.jsonl", "--out", baseline)
    check = ["check", tmp_path / "after.jsonl", "--baseline", baseline, "--allow-failed", 4]
    ended = mirage(*check)
    assert "The model failed on 4 of 40 queries" in " ".join(ended.stdout.split())
    plain = json.loads(mirage(*check, "--json").stdout)
    assert (ended.exit_code, plain["verdict"], plain["failed"]) == (3, "inconclusive", 4)
    assert all(row["p"] == 1 for row in plain["features"])
