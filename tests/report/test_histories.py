"""Tests of the page of a history."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser

import numpy as np
from hostile import STRINGS

from mirage.features import FeatureTable
from mirage.monitoring.history import Commit
from mirage.monitoring.page import render_history
from mirage.monitoring.series import CommitChanges, Series, Step
from mirage.testing.baseline import Baseline


def commit_series(
    intervals: list[tuple[float, float, float]], text: str = "rag", worse: int = -1
) -> Series:
    table = FeatureTable(text, "en", ("q0",), (text,), np.ones((1, 1)))
    commits = (
        CommitChanges(
            Commit(f"c{i}", "", Baseline(table, text, "f")),
            (Step(text, *interval, math.nan, i == worse, f"c{i}" if i == worse else ""),),
            "c0",
        )
        for i, interval in enumerate(intervals)
    )
    return Series(tuple(commits), 0.05)


ALONE = (1.0, math.nan, math.nan)


def test_significant_losses_are_marked_in_the_plot_and_the_table() -> None:
    intervals = [(0.9, 0.8, 1.0), (0.5, 0.3, 0.7), (0.9, math.nan, math.nan)]
    page = render_history([commit_series(intervals, worse=1)])
    assert "3 commits, 1 significantly worse" in page
    assert page.count('class="dot alarm"') == page.count('class="alarm"') == 1
    assert "<title>c1: 0.500 [0.300, 0.700]</title>" in page
    assert page.count('class="whisker"') == 2  # the third has no interval
    # On the scale from 0.3 to 1, the mean of 0.5 is at two sevenths of the plotted height.
    (height,) = re.findall(r'class="dot alarm" cx="50.0%" cy="([\d.]+)%"', page)
    assert math.isclose(float(height), 100 - (4 + 92 * 2 / 7), abs_tol=0.1)


def test_a_missing_value_is_not_plotted() -> None:
    page = render_history([commit_series([ALONE, (math.nan,) * 3, ALONE])])
    assert page.count("<circle") == 2
    assert 'class="path"' not in page
    assert 'title="not known"' in page


class Tags(HTMLParser):
    """The names of a page's elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)


def test_hostile_strings_stay_strings() -> None:
    plain_page = render_history([commit_series([ALONE], worse=0)])
    page = render_history([commit_series([ALONE], text, worse=0) for text in STRINGS])
    assert Tags(page).names <= Tags(plain_page).names | {"wbr"}
    assert page.count("<script>") == 1
