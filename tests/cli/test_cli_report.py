"""mirage report."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import LANGUAGE, mirage, refusal


def test_a_report_needs_a_place(good: Path, tmp_path: Path) -> None:
    assert mirage("report", LANGUAGE, good).exit_code == 2
    message = refusal("report", LANGUAGE, good, "--out", tmp_path / "no" / "x.html")
    assert "there is no folder" in message


def test_the_report_is_one_page_and_tells_what_votes_say_of_judges(
    good: Path, tmp_path: Path
) -> None:
    votes = tmp_path / "votes.jsonl"
    rows = [
        {"query_id": f"q{n:02}", "model_a": a, "model_b": b, "judge": judge, "verdict": "a"}
        for n in range(1, 9)
        for a, b in (("good", "bad"), ("bad", "good"))
        for judge in ("one", "two")
    ]
    votes.write_text("\n".join(map(json.dumps, rows)))
    page = tmp_path / "report.html"
    done = mirage("report", LANGUAGE, good, "--out", page, "--votes", votes)
    assert (done.exit_code, done.stdout) == (0, f"{page}: written\n")
    text = page.read_text("utf-8")
    assert "good" in text
    assert "anchor/uncited" in text
    assert "position bias: 1.000" in text
    assert "not in the report: unknown model among the runs 'bad'" in done.stderr
