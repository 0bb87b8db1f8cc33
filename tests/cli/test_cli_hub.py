"""mirage hub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import mirage

from mirage.sources.hub import JUDGMENTS, QUERIES

pytest.importorskip("datasets", reason="the extra hub is not installed: pip install '.[hub]'")
from hub_copy import CODE, NUMBER, Arena, make_arena


def test_what_is_found_is_said_in_a_minute(tmp_path: Path) -> None:
    arena = make_arena()
    bad = [{**arena.prompts[0], "query_id": "bad", "prompt": "?"}]
    Arena(arena.prompts + bad, arena.outputs, arena.judgments).write(tmp_path)
    done = mirage("hub", "--language", CODE, "--copies", tmp_path)
    assert done.exit_code == 0
    assert f"{NUMBER + 1} rows: {NUMBER} queries" in done.stdout
    assert "row 30: the prompt lacks one of the sections 'Question:'" in " ".join(
        done.stdout.split()
    )
    assert "gpt-4o" in done.stdout
    assert "models: Qwen/Qwen2-1.5B-Instruct, cohereforai" in " ".join(done.stdout.split())
    shutil.rmtree(tmp_path / "mirage-bench-pairwise-judgments")
    short = mirage("hub", "--language", CODE, "--copies", tmp_path, "--json")
    assert short.exit_code == 1
    parts = {part["dataset"]: part for part in json.loads(short.stdout)}
    assert "download them with: hf download" in parts[JUDGMENTS]["problem"]
    assert parts[QUERIES]["found"]["queries"] == NUMBER
    assert len(parts[QUERIES]["left_out"]) == 1
