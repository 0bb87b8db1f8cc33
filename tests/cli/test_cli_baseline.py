"""mirage baseline."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import LANGUAGE, mirage, refusal

from mirage.testing import read_baseline


def test_a_baseline_is_saved_for_the_plugin(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    done = mirage("baseline", "save", LANGUAGE, good, "--out", path, "--name", "mine")
    assert done.stdout.startswith(f"{path}: ")
    assert "answer_match" in read_baseline(path).table.features
    assert read_baseline(path).table.model == "mine"
    chosen = ("--feature", "answer_bleu", "--json")
    done = mirage("baseline", "save", LANGUAGE, good, "--out", path, *chosen)
    assert json.loads(done.stdout) == {"queries": 14, "features": ["answer_bleu"], "failed": 0}
    assert "there is no folder" in refusal(
        "baseline", "save", LANGUAGE, good, "--out", tmp_path / "no" / "x.json"
    )
