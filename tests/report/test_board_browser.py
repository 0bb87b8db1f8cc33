"""Tests of a board's site in a real browser, over HTTP."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from boards.board_folders import CODE, edit, edit_lines, new_board, quote, submit
from browsers import CHROMIUM, DESKTOP, FLAGS, NEEDS_CHROMIUM, PHONE, axe, playwright
from hostile import STRINGS

from mirage.boards.folders import BoardFolder
from mirage.boards.records import Version
from mirage.boards.scores import rank_submissions
from mirage.boards.site import write_board, write_site
from mirage.boards.views import ALL, Listing, Row, Site

expect = playwright.expect

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]

# JSON files of records have only valid Unicode.
HOSTILE = [text for text in STRINGS if text.encode(errors="ignore").decode() == text]
LARGE = ("sw", "ar", "bn", "de", "en")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with hostile responses, a failure, a removal and an unranked submission."""
    folder = tmp_path_factory.mktemp("small")
    board = new_board(folder)
    attack = submit(board, quote(2), "attack", "carl", date(2026, 11, 6))
    edit_lines(
        attack / f"{CODE}.jsonl",
        lambda n, row: (
            {"query_id": row["query_id"], "text": None, "error": HOSTILE[0]}
            if n == 39
            else row | {"text": "\n".join(HOSTILE[5 * n : 5 * n + 5]) or "x"}
        ),
    )
    edit(submit(board, quote(3), "quiet") / "submission.json", show_responses=False)
    edit(submit(board, quote(4), "old") / "submission.json", data={CODE: "0" * 64})
    gone = {"id": "gone", "model": "gone", "submitter": "carl", "date": "2026-11-02"}
    earlier = {"language": CODE, "data": "0" * 64, "judge": "j", "until": "2026-12-01"}
    edit(
        board / "board.json",
        title=HOSTILE[0],
        rules=[HOSTILE[1]],
        removed=[gone | {"reason": HOSTILE[2]}],
        earlier=[earlier | {"reason": "new queries"}],
    )
    content = BoardFolder(board)
    write_board(content, rank_submissions(content, progress=False), folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site whose views are too large for the page: 10,000 rows in six views."""
    folder = tmp_path_factory.mktemp("large")
    listings = [
        Listing(
            f"s{n:05}",
            f"model-{n}",
            f"team-{n % 90}",
            str(date(2026, 1, 1) + timedelta(n % 9)),
            1,
            2,
        )
        for n in range(10_000)
    ]
    views = {
        view: [
            Row(
                f"s{(n + turn) % 10_000:05}",
                -n / 1000,
                (-n / 1000 - 1, -n / 1000 + 1),
                (n + 1, n + 9),
            )
            for n in range(10_000)
        ]
        for turn, view in enumerate((ALL, *LARGE))
    }
    version = Version(data="0" * 64, judge="a judge")
    write_site(Site("Large", listings, views, dict.fromkeys(LARGE, version)), folder)
    return folder


@contextmanager
def open_site(browser: Any, folder: Path, hash_: str = "", **options: Any) -> Iterator[Any]:
    """Open a site; check at the end that no script failed or was smuggled in."""
    context = browser.new_context(**{"viewport": DESKTOP, **options})
    page, errors, requests = context.new_page(), [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("dialog", lambda dialog: (errors.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
    with serving(folder) as address:
        page.goto(address + hash_)
        page.wait_for_selector("#rows tbody tr, #page h2", state="attached")
        yield page
        assert page.evaluate("window.pwned") is None
        context.close()
    assert errors == []
    root = address.removesuffix("index.html")
    assert all(url.startswith((root, "data:,")) for url in requests)


def models(page: Any) -> list[str]:
    return list(page.locator("#rows tbody th a").all_inner_texts())


# What a board shows ------------------------------------------------------------------------------


def test_a_row_leads_to_its_responses(browser: Any, small: Path) -> None:
    with open_site(browser, small) as page:
        assert sorted(models(page)) == ["attack", "first", "quiet", "second"]
        heads = page.locator("#rows thead th").all_inner_texts()
        assert heads[:2] == ["Ranks", "95 % interval of the logit"]
        page.get_by_role("link", name="first").first.click()
        page.wait_for_selector("#responses .card")
        assert page.url.endswith(f"#view={CODE}&row=2026-11-03-anna-first")
        assert page.locator("#page h2").inner_text() == "first"
        assert page.locator("#responses .card").count() == 20
        assert "Mfumo wa 0 unasema" in page.locator(".response").first.inner_text()
        page.get_by_role("button", name="Show 20 more").click()
        assert page.locator("#responses .card").count() == 40
        facts = page.locator(".facts").inner_text()
        assert "Submission 1 of 3 of this submitter" in " ".join(facts.split())
        page.go_back()
        expect(page.locator("#rows")).to_be_visible()


def test_hostile_texts_stay_texts(browser: Any, small: Path) -> None:
    with open_site(browser, small, f"#view={CODE}&row=2026-11-06-carl-attack") as page:
        page.wait_for_selector("#responses .card")
        page.get_by_role("button", name="more").click()
        assert HOSTILE[0] in page.locator(".response").first.inner_text()
        assert page.locator(".error").last.inner_text() == HOSTILE[0]
        remarks = page.locator(".faults").inner_text()
        assert "failed on 1 queries, which count as the worst result" in remarks
        assert "hidden characters" in remarks
        page.get_by_role("link", name="← Board").click()
        expect(page.locator("#overview")).to_be_visible()
        assert HOSTILE[1] in page.locator("#overview").inner_text()


def test_removed_unranked_and_unshown_submissions_are_listed(browser: Any, small: Path) -> None:
    with open_site(browser, small) as page:
        assert HOSTILE[2] in page.locator("section", has_text="Removed").last.inner_text()
        unranked = page.locator("section", has_text="Not ranked").first.inner_text()
        assert "answers an earlier version of the queries, 000000000000" in unranked
        page.get_by_role("link", name="quiet").click()
        expect(page.locator("#responses")).to_contain_text("does not show the responses")


def test_numbers_stand_beside_their_version(browser: Any, small: Path) -> None:
    with open_site(browser, small) as page:
        words = page.locator("#rows tbody td.words").all_inner_texts()
        assert len(words) == 4
        assert set(words) == {words[0]}
        assert "surrogate" in words[0]
        assert words[0] in page.locator("#version").inner_text()


def test_the_rank_over_time_counts_earlier_submissions(browser: Any, large: Path) -> None:
    with open_site(browser, large, "#view=all&row=s00001") as page:
        steps = page.locator("h3", has_text="Rank over time").locator("xpath=following::ul[1]/li")
        # s00000, of 1 January, is the only better one; the days after it add worse ones.
        assert steps.all_inner_texts() == ["2026-01-02: 2 of 2223"]


# Ten thousand rows -------------------------------------------------------------------------------


def test_views_filters_and_pages_have_addresses(browser: Any, large: Path) -> None:
    with open_site(browser, large) as page:
        assert len(models(page)) == 50
        page.get_by_label("View").select_option("sw")
        expect(page.locator("#rows th a").first).to_have_text("model-1")
        page.get_by_role("link", name="worse →").click()
        expect(page.locator("#rows th a").first).to_have_text("model-51")
        assert page.url.endswith("#view=sw&from=50")
        page.get_by_role("searchbox").fill("TEAM-77")
        expect(page.locator("#count")).to_have_text("111 of 10,000 submissions")
        assert models(page)[:2] == ["model-77", "model-167"]
        hash_ = page.evaluate("location.hash")
    with open_site(browser, large, hash_) as page:
        assert models(page)[:2] == ["model-77", "model-167"]
        assert page.get_by_role("searchbox").input_value().strip() == "TEAM-77"
        assert page.get_by_label("View").input_value() == "sw"


@pytest.mark.parametrize(
    "hash_", ["#view=xx", "#row=none", "#view=__proto__&row=constructor", "#from=-1", "#%00", "#x="]
)
def test_an_unknown_address_shows_the_board(browser: Any, large: Path, hash_: str) -> None:
    with open_site(browser, large, hash_) as page:
        assert models(page)[0] == "model-0"


def test_a_far_page_is_the_last_one(browser: Any, large: Path) -> None:
    with open_site(browser, large, "#from=999999999") as page:
        assert models(page)[-1] == "model-9999"


def test_a_copy_on_disk_shows_its_first_view(browser: Any, large: Path) -> None:
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    page.goto((large / "index.html").as_uri())
    assert len(models(page)) == 50
    page.get_by_label("View").select_option("sw")
    expect(page.locator("#version")).to_contain_text("http.server")
    context.close()


# Screens, keyboard, accessibility ----------------------------------------------------------------


@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("hash_", ["", f"#view={CODE}&row=2026-11-06-carl-attack"])
def test_no_violation_of_accessibility_rules(
    browser: Any, small: Path, screen: dict[str, int], scheme: str, hash_: str
) -> None:
    with open_site(browser, small, hash_, viewport=screen, color_scheme=scheme) as page:
        if hash_:
            page.wait_for_selector("#responses .card")
        assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
        found = axe.Axe().run(page)
        assert [violation["id"] for violation in found.response["violations"]] == []


def test_a_phone_shows_ranks_interval_and_model(browser: Any, large: Path) -> None:
    with open_site(browser, large, viewport=PHONE, is_mobile=True, has_touch=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        cells = page.locator("#rows tbody tr").first.locator("th:visible, td:visible")
        assert cells.count() == 3
        last = cells.last.bounding_box()
        assert last["x"] + last["width"] <= PHONE["width"]
        assert "1 of 2" in cells.last.inner_text()


def test_everything_can_be_done_by_keyboard(browser: Any, small: Path) -> None:
    with open_site(browser, small) as page:
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "search":
                break
        page.keyboard.type("first")
        expect(page.locator("#rows tbody th a")).to_have_text(["first"])
        for _ in range(4):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('#rows a')"):
                break
        page.keyboard.press("Enter")
        page.wait_for_selector("#responses .card")
        assert page.evaluate("document.activeElement.tagName") == "H2"
