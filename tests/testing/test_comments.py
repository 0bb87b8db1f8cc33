"""A comparison as a comment on a pull request, and as JUnit XML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from live_markup import COMMONMARK, GITHUB, GITLAB, Page, outside_code

from mirage.dataset import MirageDataset
from mirage.models import Query, Response, Run
from mirage.testing import save_baseline
from mirage.testing.comments import comment, junit
from mirage.testing.planning import ExtraQueries
from mirage.testing.regressions import BaselineComparison, compare_with_baseline

HOSTILE = (
    '# <img src=x> @octocat #12 GH-1 4f2c91a :tada: %"next" https://evil.example | `x` **b** [l](u)'
    "\n# big \x00\u202e --> $x$ [[wiki]]"
)
DATASET = MirageDataset(
    [
        Query(
            id=f"q{i} @team <b>" if i == 3 else f"q{i}",
            language="en",
            text="Which town?",
            answers=((f"Town{i}",),),
        )
        for i in range(40)
    ],
    name="ours",
)


def run(text: Callable[[int], str | None], model: str = "rag") -> Run:
    return Run(
        model=model,
        language="en",
        responses=tuple(
            Response(query_id=query.id, text=text(i))
            if text(i) is not None
            else Response(query_id=query.id, text=None, error=f"down {HOSTILE}")
            for i, query in enumerate(DATASET)
        ),
    )


def right(i: int) -> str:
    return f"##Answer: It is Town{i}."


@pytest.fixture
def against(tmp_path: Path) -> Callable[[Run], BaselineComparison]:
    path = tmp_path / "baseline.json"
    save_baseline(run(right), path, on=DATASET)
    return lambda later: compare_with_baseline(later, path, features=["answer_match"], on=DATASET)


def test_a_comment_contains_the_verdict_and_the_lost_facts(
    against: Callable[[Run], BaselineComparison],
) -> None:
    later = run(lambda i: right(i) if i > 11 else "##Answer: It is Elsewhere.")
    text = comment(against(later))
    assert "### Mirage: worse" in text
    assert r"| **answer\_match** | 1.000 | 0.700 | -0.300 | [-" in text
    assert "lost “Town0”" in text
    assert text.count("| Which town? |") == text.count("lost “Town") == 10
    assert text == comment(against(later))
    first = text.split("\n")[0]
    assert first == comment(against(run(right))).split("\n")[0]
    assert first != comment(against(run(right, "other"))).split("\n")[0]
    assert "### Mirage: no worse" in comment(against(run(right)))


def test_an_inconclusive_comment_contains_the_number_of_queries_needed(
    against: Callable[[Run], BaselineComparison],
) -> None:
    more = ExtraQueries(17, None, 0.8)
    inconclusive = against(run(lambda i: right(i) if i > 1 else "##Answer: It is Elsewhere."))
    advice = "; a verdict needs about 17 more queries like these"
    assert advice in comment(inconclusive, more=more)
    assert advice not in comment(inconclusive)


def test_hostile_strings_create_no_markup(against: Callable[[Run], BaselineComparison]) -> None:
    runs = against(run(lambda i: None if i == 3 else right(i), HOSTILE))
    text = comment(runs)
    assert "### Mirage: queries lost" in text
    assert "queries lost" not in comment(runs, allow_failed=1)
    first, heading, body = text.split("\n", 2)
    assert (first.startswith("<!-- mirage check "), heading) == (True, "### Mirage: queries lost")
    for outside in outside_code(body):
        assert GITHUB.search(outside) is None, outside
        assert GITLAB.search(outside) is None, outside
    rendered = " ".join(Page(COMMONMARK.render(body)).blocks)
    assert r"# <img src=x> @octocat #12 GH-1 4f2c91a :tada: %" in rendered
    assert r"[l](u) # big \x00\u202e --> $x$ [[wiki]]" in rendered
    assert "q3 @team <b>" in rendered


def test_junit_has_one_case_per_feature(against: Callable[[Run], BaselineComparison]) -> None:
    later = run(
        lambda i: None if i == 3 else right(i) if i > 11 else f"##Answer: {HOSTILE}", HOSTILE
    )
    suite = ElementTree.fromstring(junit(against(later)))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "2", "0")
    feature, lost = suite.findall("testcase")
    assert feature.get("name") == "answer_match"
    assert "q0: " in (feature.findtext("failure") or "")
    assert "q3 @team <b>: failed: down # <img" in (lost.findtext("failure") or "")
    assert r"big \x00\u202e -->" in (lost.findtext("failure") or "")
    few = against(run(lambda i: right(i) if i > 1 else "##Answer: It is Elsewhere."))
    suite = ElementTree.fromstring(junit(few))
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
