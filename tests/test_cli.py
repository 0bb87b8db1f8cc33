"""The command line, as a process and in this one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from mirage.cli import app
from mirage.dataset import MirageDataset

run = CliRunner()


def test_queries_become_responses_become_a_ranking(tmp_path: Path) -> None:
    listed = run.invoke(app, ["queries", "sw"])
    assert listed.exit_code == 0
    queries = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [query["id"] for query in queries] == list(MirageDataset.bundled("sw").query_ids)
    assert not any("reference" in query or "relevant" in query for query in queries)

    path = tmp_path / "my-rag.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for query in queries:
            passage = query["passages"][0]
            text = f"##Reason: x\n##Answer: {passage['text']} [{passage['id']}]"
            file.write(json.dumps({"query_id": query["id"], "text": text}) + "\n")
    ranked = run.invoke(app, ["rank", "sw", str(path)])
    assert ranked.exit_code == 0
    assert "my-rag" in ranked.stdout
    assert "anchor/uncited" in ranked.stdout
    as_json = run.invoke(app, ["rank", "sw", str(path), "--name", "other", "--json"])
    assert "other" in json.dumps(json.loads(as_json.stdout))


def test_errors_are_one_message_and_a_status() -> None:
    for arguments in (["rank", "Kiswahili", "x.jsonl"], ["queries", "xx"], ["rank", "sw", "no"]):
        result = run.invoke(app, arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
    assert "no such file" in " ".join(result.output.lower().split())


def test_the_module_of_the_entry_point_starts() -> None:
    code = "from mirage.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True
    )
    assert "surrogate" in done.stdout
