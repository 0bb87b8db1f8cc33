"""The page of a comparison of scores in a real browser: phone, desktop, dark mode, faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsers import CHROMIUM, FLAGS, NEEDS_CHROMIUM, axe, playwright

from mirage.testing import compare_scores
from mirage.testing.score_page import write_comparison

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]


def scores(late: bool) -> list[dict[str, Any]]:
    """Return scores of three metrics: one gets worse, one hardly changes, one has a long name."""
    return [
        {
            "user_input": f"{number}: where does the river end? " * (1 + number % 4),
            "faithfulness": 0.9 - 0.5 * (late and number % 2),
            "answer_relevancy": 0.5 + 0.4 * (number % 3 == late),
            "llm_context_precision_with_reference_and_a_long_name": 1.0,
        }
        for number in range(60)
    ]


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "comparison.html"
    write_comparison(compare_scores(scores(False), scores(True)), path)
    return path


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_and_the_page_fits(page_path: Path, width: int, scheme: str) -> None:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(
            viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True
        )
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(page_path.as_uri())
        report = axe.Axe().run(page).response
        assert len(report["passes"]) > 15
        assert [fault["id"] for fault in report["violations"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.get_by_text("worse", exact=True).first.is_visible()
        assert errors == []
        browser.close()
