"""Tests of the report in a real browser: Debian's chromium and playwright (extra ``dev``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsers import CHROMIUM, DESKTOP, FLAGS, NEEDS_CHROMIUM, PHONE, axe, playwright
from cells import TABLE, dataset, run
from hostile import STRINGS
from rankings import ranking

from mirage import Leaderboard, MultilingualRanking, Ranking
from mirage.features import FeatureTable
from mirage.languages import LANGUAGES
from mirage.monitoring.history import Commit
from mirage.monitoring.page import write_history
from mirage.monitoring.series import CommitChanges, Series, Step
from mirage.report import write_grid
from mirage.testing.baseline import Baseline

expect = playwright.expect

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]

OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
WIDE = {"width": 1600, "height": 1000}


@dataclass
class Visit:
    """The errors and requests of a page while it was open."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def arabic_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report on Arabic with all its parts."""
    path = tmp_path_factory.mktemp("one") / "report.html"
    ranking("ar", ["mine/first", "mine/second"], notes=["A note."]).write(path)
    return path


@pytest.fixture(scope="module")
def published_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report on the paper's rankings in 18 languages."""
    path = tmp_path_factory.mktemp("several") / "report.html"
    MultilingualRanking({code: Leaderboard.published(code) for code in LANGUAGES}).write(path)
    return path


@contextmanager
def open_page(browser: Any, path: Path, hash_: str = "", **options: Any) -> Iterator[Visit]:
    """Open a page; check at the end that there were no errors and that nothing else loaded."""
    context = browser.new_context(**{"viewport": DESKTOP, **options})
    visit = Visit(context.new_page())
    visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
    visit.page.on(
        "console",
        lambda message: (
            visit.errors.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    visit.page.on("dialog", lambda dialog: (visit.errors.append("dialog"), dialog.dismiss()))
    visit.page.on("request", lambda request: visit.requests.append(request.url))
    visit.page.goto(path.as_uri() + hash_)
    yield visit
    context.close()
    assert visit.errors == []
    assert {url.split("#")[0] for url in visit.requests} <= {path.as_uri(), "data:,"}


def names(page: Any, table: str = "#ar-table") -> list[str]:
    return list(page.locator(f"{table} tbody tr:visible th a").all_inner_texts())


def column(page: Any, position: int) -> list[float]:
    cells = page.locator(f"#ar-table tbody tr td:nth-child({position})").all_inner_texts()
    return [float(cell.replace("−", "-")) for cell in cells]


# Sorting, filtering, pages ------------------------------------------------------------------------


def test_a_click_sorts_and_another_turns_the_order(browser: Any, arabic_report: Path) -> None:
    with open_page(browser, arabic_report) as visit:
        page = visit.page
        page.get_by_role("button", name="Rank").first.click()
        assert column(page, 1) == [8, 7, 6, 5, 4, 3, 2, 1]
        head = page.locator("#ar-table th", has_text="Logit")
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert column(page, 3) == sorted(column(page, 3), reverse=True)
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert column(page, 3) == sorted(column(page, 3))
        assert page.locator("#ar-table [aria-sort]").count() == 1
        page.locator("#ar-table").get_by_role("button", name="Model").click()
        assert names(page) == sorted(names(page))


def test_filters_hide_rows_and_say_how_many_are_left(browser: Any, arabic_report: Path) -> None:
    with open_page(browser, arabic_report) as visit:
        page = visit.page
        page.get_by_role("searchbox").fill("ANCHOR-1")
        assert names(page) == ["anchor-1"]
        assert page.locator("output").inner_text() == "1 of 8 models"
        page.get_by_role("searchbox").fill("")
        page.get_by_label("Only new models").check()
        assert names(page) == ["mine/first", "mine/second"]
        page.get_by_label("Only new models").uncheck()
        assert page.locator("output").inner_text() == "8 models"


def test_the_page_of_a_model_has_its_responses(browser: Any, arabic_report: Path) -> None:
    with open_page(browser, arabic_report) as visit:
        page = visit.page
        page.get_by_role("link", name="mine/first").first.click()
        expect(page.locator("#page h2")).to_have_text("mine/first")
        assert page.title().startswith("mine/first")
        assert not page.locator("#overview").is_visible()
        headings = page.locator("#page h3").all_inner_texts()
        assert headings == ["Findings", "Features", "Best responses", "Worst responses", "Failed"]
        card = page.locator("#page .card").first
        assert card.locator("h4").get_attribute("dir") == "rtl"
        answer = card.locator(".answer")
        assert answer.evaluate("e => getComputedStyle(e).direction") == "rtl"
        assert card.locator(".cite.wrong").inner_text().startswith("[9]")
        card.get_by_role("button", name="[2] cites passage 2").click()
        cited = card.locator("li.cited")
        assert cited.count() == 1
        assert cited.is_visible()
        assert "النيل" in cited.inner_text()
        assert cited.evaluate("e => e === document.activeElement")
        assert "TimeoutError" in page.locator(".error").first.inner_text()
        page.go_back()
        expect(page.locator("#overview")).to_be_visible()
        assert page.locator("#page").inner_text() == ""


def test_a_finding_leads_to_its_response(browser: Any, arabic_report: Path) -> None:
    with open_page(browser, arabic_report) as visit:
        page = visit.page
        link = page.locator("#overview .findings a").nth(1)
        id_ = link.inner_text()
        link.click()
        card = page.locator("#page .card:focus")
        expect(card).to_have_count(1)
        assert card.locator("code").first.inner_text() == id_
        assert card.is_visible()
        assert card.locator(".faults").inner_text()
        page.locator("#page .findings a").last.click()
        expect(page.locator("#page .card:focus details.passages[open]")).to_have_count(1)


def test_faults_in_a_response_are_marked_and_explained(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    texts = [f"##Answer: It is 6,6{n} km long, I know from a book [2]." for n in range(10, 22)]
    ranking(texts=texts, models=list("abcdef")).write(path)
    with open_page(browser, path, "#en/5") as visit:
        card = visit.page.locator("#page .card").first
        (words,) = card.locator(".response mark").all_inner_texts()
        assert re.fullmatch(r"6,6\d\d\s\(a number that is wrong, or .*\)", words)
        assert card.locator(".legend li").count() == 1


def test_languages_can_be_changed(browser: Any, published_report: Path) -> None:
    with open_page(browser, published_report) as visit:
        page = visit.page
        assert page.locator(".panel:visible").count() == 1
        page.get_by_role("combobox", name="Language").select_option("fa")
        expect(page.locator(".panel:visible")).to_have_attribute("id", "fa")
        page.locator("#ranks-table tbody tr").first.locator("td a").nth(3).click()
        expect(page).to_have_url(re.compile("#en/0$"))
        page.get_by_role("link", name="Yoruba").click()
        expect(page).to_have_url(re.compile("#yo/0$"))
        expect(page.locator(".facts")).to_contain_text("not known")
        page.get_by_role("link", name="← Leaderboard").click()
        expect(page.locator(".panel:visible")).to_have_attribute("id", "yo")
        page.locator("#ranks-table").get_by_role("button", name="bn").click()
        titles = [text.strip() for text in page.locator("#ranks-table th").all_inner_texts()]
        position = 1 + next(i for i, text in enumerate(titles) if text.startswith("bn"))
        ranks = page.locator(f"#ranks-table tbody tr td:nth-child({position})").all_inner_texts()
        assert ranks == [str(rank) for rank in range(1, 20)]


def test_an_unknown_address_shows_the_ranking(browser: Any, arabic_report: Path) -> None:
    for hash_ in ("#ar/99", "#xx/0", "#__proto__/0", "#constructor", "#%00", "#ar-nothing", "#/"):
        with open_page(browser, arabic_report, hash_) as visit:
            assert visit.page.locator("#ar-table").is_visible()


# Keyboard, screens, colours -----------------------------------------------------------------------


def tab_to(page: Any, selector: str, most: int = 60) -> None:
    """Press Tab until an element has the focus, which has to be visible there."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
            return
    pytest.fail(f"{selector} cannot be reached with {most} times Tab")


def test_everything_can_be_done_by_keyboard(browser: Any, arabic_report: Path) -> None:
    with open_page(browser, arabic_report) as visit:
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the table"
        tab_to(page, "#theme")
        page.keyboard.press("Space")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        tab_to(page, "input[type=search]")
        page.keyboard.type("mine")
        assert names(page) == ["mine/first", "mine/second"]
        tab_to(page, "input.only")
        page.keyboard.press("Space")
        assert page.locator("input.only").is_checked()
        tab_to(page, "#ar-table th:nth-child(3) button")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert names(page) == ["mine/second", "mine/first"]
        assert "ascending" in page.locator("#said").inner_text()
        tab_to(page, "#ar-table tbody a")
        page.keyboard.press("Enter")
        expect(page.locator("#page h2")).to_have_text("mine/second")
        assert page.evaluate("document.activeElement.tagName") == "H2"
        tab_to(page, "details.opponents summary")
        page.keyboard.press("Enter")
        assert page.locator("details.opponents table").is_visible()
        tab_to(page, "button.cite")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.className") == "cited"


@pytest.mark.parametrize("hash_", ["", "#ar/0"])
def test_a_phone_shows_it_without_scrolling_sideways(
    browser: Any, arabic_report: Path, hash_: str
) -> None:
    with open_page(
        browser, arabic_report, hash_, viewport=PHONE, is_mobile=True, has_touch=True
    ) as visit:
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"]
        if not hash_:
            dot = visit.page.locator("#ar-table .dot").first.bounding_box()
            assert 0 < dot["x"] < PHONE["width"]


def test_eighteen_languages_fit_a_phone(browser: Any, published_report: Path) -> None:
    with open_page(
        browser, published_report, viewport=PHONE, is_mobile=True, has_touch=True
    ) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_phone_shows_the_intervals_over_languages(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    MultilingualRanking({code: ranking(code) for code in ("ar", "en")}).write(path)
    with open_page(browser, path, viewport=PHONE, is_mobile=True, has_touch=True) as visit:
        for title in ("Mean logit", "95 % interval", "Rank interval"):
            head = visit.page.locator("#ranks-table thead th").filter(has_text=title)
            assert head.is_visible()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


SIGHT = """table => {
  const cells = [...document.querySelectorAll(`${table} tbody tr:first-child > *`)];
  const last = cells.at(-1).getBoundingClientRect();
  const name = document.querySelector(`${table} tbody th`).getBoundingClientRect();
  const region = document.querySelector(table).parentElement;
  return {
    last: last.right,
    name: name.left - region.getBoundingClientRect().left,
    hint: getComputedStyle(region.previousElementSibling).display,
    fade: getComputedStyle(region).maskImage,
  };
}"""


@pytest.mark.parametrize("table", ["#ranks-table", "table.matrix"])
def test_a_phone_says_that_a_table_goes_on_and_keeps_names_in_sight(
    browser: Any, published_report: Path, table: str
) -> None:
    with open_page(
        browser, published_report, viewport=PHONE, is_mobile=True, has_touch=True
    ) as visit:
        page = visit.page
        start = page.evaluate(SIGHT, table)
        assert start["last"] > PHONE["width"]
        assert start["hint"] == "block"
        assert "gradient" in start["fade"]
        scroll = "table => { document.querySelector(table).parentElement.scrollLeft = 99999; }"
        page.evaluate(scroll, table)
        page.wait_for_timeout(100)
        end = page.evaluate(SIGHT, table)
        assert end["last"] <= PHONE["width"]
        assert end["name"] == 0
        assert end["fade"] == "none"


def test_the_features_of_a_phone_go_on_sideways(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    features = {f"a_feature_{n}": n / 20 for n in range(20)}
    entries = [replace(entry, features=features) for entry in ranking("en")]
    Ranking(entries, language="en").write(path)
    with open_page(browser, path, viewport=PHONE, is_mobile=True, has_touch=True) as visit:
        sight = visit.page.evaluate(SIGHT, "table.features")
        assert sight["last"] > PHONE["width"]
        assert (sight["hint"], "gradient" in sight["fade"]) == ("block", True)


def test_tables_use_the_width_of_a_wide_screen(browser: Any, published_report: Path) -> None:
    with open_page(browser, published_report, viewport=WIDE) as visit:
        page = visit.page
        for table in ("#ranks-table", "table.matrix"):
            sight = page.evaluate(SIGHT, table)
            assert (sight["hint"], sight["fade"]) == ("none", "none")
        box = page.locator("table.leaderboard:visible").bounding_box()
        assert box["width"] > 0.9 * WIDE["width"]
        assert page.evaluate(SIGHT, "#ranks-table")["last"] > 0.8 * WIDE["width"]


def test_the_language_that_was_asked_for_is_shown(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    codes = ("sw", "en", "ar")
    MultilingualRanking({code: Leaderboard.published(code) for code in codes}).write(path)
    with open_page(browser, path) as visit:
        page = visit.page
        assert page.locator(".panel:visible").get_attribute("id") == "sw"  # the first
        page.get_by_role("combobox", name="Language").select_option("en")
        expect(page.locator(".panel:visible")).to_have_attribute("id", "en")
        page.reload()
        assert page.locator(".panel:visible").get_attribute("id") == "en"
    with open_page(browser, path, "#ar") as visit:
        assert visit.page.locator(".panel:visible").get_attribute("id") == "ar"
        assert visit.page.get_by_role("combobox", name="Language").input_value() == "ar"


def test_dark_follows_the_system_until_it_is_chosen(browser: Any, arabic_report: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    with open_page(browser, arabic_report, color_scheme="dark") as visit:
        assert visit.page.evaluate(paper) == "rgb(17, 21, 26)"
        button = visit.page.get_by_role("button", name="Dark")
        assert button.get_attribute("aria-pressed") == "true"
        button.click()
        assert visit.page.evaluate(paper) == "rgb(255, 255, 255)"
        visit.page.reload()
        assert visit.page.evaluate(paper) == "rgb(255, 255, 255)"


def test_without_scripts_the_tables_can_be_read(browser: Any, published_report: Path) -> None:
    with open_page(browser, published_report, java_script_enabled=False) as visit:
        page = visit.page
        assert page.locator("#ranks-table tbody tr:visible").count() == 19
        assert page.locator("table.leaderboard:visible").count() == 18
        assert not page.get_by_role("searchbox").first.is_visible()
        assert "need JavaScript" in page.locator("noscript").first.inner_text()


@pytest.mark.parametrize(
    ("viewport", "scheme", "hash_"),
    [*product((DESKTOP, PHONE), ("light", "dark"), ("", "#ar/0"))],
)
def test_axe_finds_no_serious_fault(
    browser: Any, arabic_report: Path, viewport: dict[str, int], scheme: str, hash_: str
) -> None:
    # The page's own policy would keep axe from running.
    options = {"viewport": viewport, "color_scheme": scheme, "bypass_csp": True}
    with open_page(browser, arabic_report, hash_, **options) as visit:
        visit.page.evaluate(OPEN_ALL)
        assert serious_faults(visit.page) == []


def test_axe_finds_no_serious_fault_in_many_languages(browser: Any, published_report: Path) -> None:
    with open_page(browser, published_report, bypass_csp=True) as visit:
        assert serious_faults(visit.page) == []


def serious_faults(page: Any) -> list[str]:
    report = axe.Axe().run(page).response
    assert len(report["passes"]) > 20
    return [
        f"{fault['id']}: {node['html'][:200]} {node['failureSummary']}"
        for fault in report["violations"]
        for node in fault["nodes"][:3]
        if fault["impact"] in ("serious", "critical")
    ]


# Attacks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_two_hundred_hostile_strings(browser: Any, tmp_path: Path, start: int) -> None:
    some = STRINGS[start : start + 20]
    path = tmp_path / "report.html"
    hostile_ranking = ranking("ar", some, texts=some, title=some[0], notes=some)
    hostile_ranking.write(path, details=dict(pairwise(some)))
    with open_page(browser, path) as visit:
        page = visit.page
        assert page.locator("#ar-table tbody tr").count() == 26
        assert page.locator(".matrix tbody tr").count() == 26
        for model_index in range(26):
            page.evaluate("place => { location.hash = `#ar/${place}`; }", model_index)
            page.wait_for_function(
                "place => !document.getElementById('page').hidden"
                " && location.hash === `#ar/${place}`"
                " && document.querySelector('#page h2').textContent"
                "   === JSON.parse(document.getElementById('data').textContent).models[place]",
                arg=model_index,
            )
            page.evaluate("document.querySelectorAll('button.cite').forEach((one) => one.click())")
            page.evaluate(OPEN_ALL)
        assert page.locator("#page .card").count() == 0  # the last page is an anchor's
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.querySelectorAll('script').length") == 2
        assert page.evaluate("document.querySelectorAll('img, iframe, object, embed').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_policy_holds_even_if_markup_got_in(browser: Any, arabic_report: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    requests: list[Any] = []
    page.on("request", lambda request: requests.append(request))
    page.goto(arabic_report.as_uri())
    attempts = (
        "const e = document.createElement('script'); e.text = 'window.pwned = 1';"
        " document.body.append(e);",
        "document.body.innerHTML = '<img src=x onerror=window.pwned=1>';",
        "document.body.setAttribute('onclick', 'window.pwned = 1'); document.body.click();",
        "document.body.append(Object.assign(document.createElement('img'),"
        " { src: 'https://example.invalid/x.png' }));",
        "fetch('https://example.invalid/').catch(() => {});",
        "eval('window.pwned = 1');",
    )
    for attempt in attempts:
        # Later, for what a driver runs itself may do what the page may not.
        page.evaluate(f"setTimeout(() => {{ try {{ {attempt} }} catch {{ }} }})")
    page.wait_for_timeout(200)
    assert page.evaluate("window.pwned") is None
    outside = [request for request in requests if request.url.startswith("http")]
    assert outside
    assert {request.failure for request in outside} == {"csp"}
    context.close()


# Grids --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a grid of three cells; one of them failed."""
    path = tmp_path_factory.mktemp("grid") / "grid.html"
    write_grid(TABLE, path, runs=[run("solar"), run("llama"), None], datasets={"nq": dataset()})
    return path


def test_behind_a_cell_are_its_responses_in_any_order(browser: Any, grid: Path) -> None:
    with open_page(browser, grid) as visit:
        page = visit.page
        page.get_by_role("link", name="2", exact=True).click()
        expect(page.locator("#page h2")).to_contain_text("llama")
        assert page.locator("#page .card").count() == 12
        page.locator("#page .card .cite").first.click()
        assert "A passage that llama found." in page.locator("li.cited:visible").first.inner_text()
        page.get_by_label("Order").select_option(label="qa_match, lowest first")
        expect(page).to_have_url(re.compile("#cell/1/[0-9]+/[0-9]+$"))
        expect(page.locator("#page .card code").first).to_have_text("q0")
        assert "the server is down" in page.locator("#page .card").last.inner_text()
        page.get_by_role("link", name="All cells").click()
        expect(page.locator("#cells")).to_be_visible()
        page.get_by_role("button", name="generator").click()
        rows = page.locator("#cells tbody tr").all_inner_texts()
        assert "llama" in rows[0]


@pytest.mark.parametrize("hash_", ["", "#cell/1", "#cell/7/x"])
def test_a_grid_fits_a_phone(browser: Any, grid: Path, hash_: str) -> None:
    options = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    with open_page(browser, grid, hash_, **options) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize(("viewport", "hash_"), [*product((DESKTOP, PHONE), ("", "#cell/0"))])
def test_axe_finds_no_serious_fault_in_a_grid(
    browser: Any, grid: Path, viewport: dict[str, int], hash_: str
) -> None:
    with open_page(browser, grid, hash_, viewport=viewport, bypass_csp=True) as visit:
        visit.page.evaluate(OPEN_ALL)
        assert serious_faults(visit.page) == []


# Histories ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the history of a model over forty commits with hostile names, alarms and gaps."""
    names = ("answer_match", STRINGS[0], "long_" * 20)
    table = FeatureTable(STRINGS[1], "en", ("q0",), names, np.ones((1, 3)))
    commits = []
    for i in range(40):
        measured = (0.9 - i / 100, 0.5, 0.95) if i < 39 else (math.nan,) * 3
        steps = [Step(name, *measured, 0.2, i == 20, f"c{i}" * (i == 20)) for name in names[:2]]
        steps.append(Step(names[2], 1.0, math.nan, math.nan, math.nan, False, ""))
        commit = Commit(
            f"{i:040x}",
            "2026-01-01T00:00:00",
            Baseline(table, STRINGS[2], "f"),
            i or None,
            i == 3,
        )
        commits.append(CommitChanges(commit, tuple(steps), "a" * (i > 0)))
    path = tmp_path_factory.mktemp("history") / "history.html"
    write_history([Series(tuple(commits), 0.05)], path)
    return path


def test_a_history_fits_a_phone(browser: Any, history: Path) -> None:
    options = {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    with open_page(browser, history, **options) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert visit.page.evaluate("window.pwned") is None


def test_a_history_is_sorted_and_axe_finds_no_serious_fault(browser: Any, history: Path) -> None:
    with open_page(browser, history, viewport=DESKTOP, bypass_csp=True) as visit:
        assert serious_faults(visit.page) == []
        visit.page.get_by_role("button", name="answer_match").click()
        last = visit.page.locator("tbody tr").last.inner_text()
        assert "—" in last  # missing values come last
