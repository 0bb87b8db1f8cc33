"""mirage report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from command_line import LANGUAGE, json_lines, mirage, refusal, responses

from mirage import Ranking
from mirage.cli._inputs import ranked


def test_a_report_needs_a_place(good: Path, tmp_path: Path) -> None:
    assert mirage("report", LANGUAGE, good).exit_code == 2
    message = refusal("report", LANGUAGE, good, "--out", tmp_path / "no" / "x.html")
    assert "there is no folder" in message


@pytest.fixture(scope="module")
def page_with(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[str, str]]:
    """From votes to the page of a report on one file of responses, and what was said meanwhile.

    Its ranking is made once.
    """
    folder = tmp_path_factory.mktemp("report")
    good, made = responses(folder / "good.jsonl"), []

    def ranked_once(*arguments: Any) -> Ranking:
        made.extend([] if made else [ranked(*arguments)])
        return made[0]

    def page_of(rows: list[dict[str, str]]) -> tuple[str, str]:
        votes = json_lines(folder / "votes.jsonl", rows)
        page = folder / "report.html"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mirage.cli.report.ranked", ranked_once)
            done = mirage("report", LANGUAGE, good, "--out", page, "--votes", votes)
        assert (done.exit_code, done.stdout) == (0, f"{page}: written\n")
        return page.read_text("utf-8"), done.stderr

    return page_of


def votes_of(judges: Iterable[str], *orders: tuple[str, str]) -> list[dict[str, str]]:
    return [
        {"query_id": f"q{n:02}", "model_a": a, "model_b": b, "judge": judge, "verdict": "a"}
        for n in range(1, 9)
        for a, b in orders
        for judge in judges
    ]


def test_the_report_is_one_page_and_tells_what_votes_say_of_judges(
    page_with: Callable[..., tuple[str, str]],
) -> None:
    text, said = page_with(votes_of(("one", "two"), ("good", "bad"), ("bad", "good")))
    assert "good" in text
    assert "anchor/uncited" in text
    assert "position bias: 1.000" in text
    why = "it takes the responses that were judged, and there are none of 'bad'"
    assert f"not in the report: verbosity bias ({why})" in said
    assert f"Verbosity bias: {why}" in text


def test_a_report_says_what_votes_do_not_tell_of_judges(
    page_with: Callable[..., tuple[str, str]],
) -> None:
    text, _ = page_with(votes_of(["one"], ("good", "bad")))
    judges = text[text.index('id="judges"') :]
    for why in ("agreement takes two judges or more", "in both orders", "there are none of 'bad'"):
        assert why in judges
    text, said = page_with([])
    assert "Judges: there are no votes" in text[text.index('id="judges"') :]
    assert "there are no votes" in said
