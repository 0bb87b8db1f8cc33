"""Labelling in a real browser: by keyboard, killed and resumed, two raters, phone and desktop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsers import CHROMIUM, DESKTOP, FLAGS, NEEDS_CHROMIUM, PHONE, axe, playwright
from labelling_data import answers, pairs, serving

from mirage import MirageDataset, respond

pytestmark = [pytest.mark.slow, NEEDS_CHROMIUM]

SIZES = pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["1280", "390"])
KINDS = pytest.mark.parametrize("items", [answers(), pairs()], ids=["answers", "pairs"])


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="module")
def browser(driver: Any) -> Iterator[Any]:
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    yield browser
    browser.close()


@contextmanager
def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """Open the page; check at the end that there were no errors, and no request elsewhere."""
    context = browser.new_context(**options)
    page, errors, requests = context.new_page(), list[str](), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda message: (
            errors.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("request", lambda request: requests.append(request.url))
    visit(page, url)
    yield page
    context.close()
    assert errors == []
    assert {request for request in requests if not request.startswith(url)} <= {"data:,"}


def visit(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("html[data-ready]")


def labelled(page: Any, count: int) -> None:
    page.wait_for_function(
        "n => Number(document.getElementById('progress').value) === n && "
        "document.getElementById('problem').textContent === ''",
        arg=count,
    )


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# The page -----------------------------------------------------------------------------------------


@SIZES
def test_answers_are_labelled_by_keyboard_alone(
    browser: Any, tmp_path: Path, viewport: dict[str, int]
) -> None:
    path = tmp_path / "labels.jsonl"
    with (
        serving(answers()[:6], path, rater="ann") as server,
        opened(browser, server.url, viewport=viewport) as page,
    ):
        for count in range(1, 4):
            page.keyboard.press(str(count))
            labelled(page, count)
            assert len(rows(path)) == count  # stored before the next item appears
        assert [row["label"] for row in rows(path)] == ["correct", "partly", "wrong"]
        question = page.locator("#question").inner_text()
        page.keyboard.press("ArrowLeft")
        assert page.locator("[aria-pressed=true][data-label]").inner_text().endswith("wrong")
        page.keyboard.press("4")
        page.wait_for_function(
            "text => document.getElementById('question').textContent === text", arg=question
        )
        assert sorted(row["label"] for row in rows(path)) == ["cannot tell", "correct", "partly"]
        page.keyboard.press("Control+1")  # a shortcut of the browser, which is no label
        # Tab and Enter work as well as the digits.
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.dataset.label") == "correct":
                break
        page.keyboard.press("Enter")
        labelled(page, 4)
        for count in (5, 6):
            page.keyboard.press("1")
            labelled(page, count)
        assert page.locator("#count").inner_text().startswith("All 6 items are labelled")


@SIZES
def test_pairs_are_compared_by_keyboard_alone(
    browser: Any, tmp_path: Path, viewport: dict[str, int]
) -> None:
    path = tmp_path / "votes.jsonl"
    with (
        serving(pairs()[:6], path, rater="ann") as server,
        opened(browser, server.url, viewport=viewport) as page,
    ):
        for count in range(1, 7):
            first = page.locator(".answer").first.inner_text()
            page.keyboard.press("1" if "6650" in first else "2")
            labelled(page, count)
    winners = {row["model_a"] if row["verdict"] == "a" else row["model_b"] for row in rows(path)}
    assert winners == {"system-under-test-a"}
    assert {row["verdict"] for row in rows(path)} == {"a", "b"}  # both sides occur


@SIZES
@KINDS
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_and_it_fits(
    browser: Any, tmp_path: Path, items: list, viewport: dict[str, int], scheme: str
) -> None:
    path = tmp_path / "labels.jsonl"
    with (
        serving(items, path, rater="ann") as server,
        opened(
            browser, server.url, viewport=viewport, color_scheme=scheme, bypass_csp=True
        ) as page,
    ):
        page.keyboard.press("1")
        labelled(page, 1)
        page.keyboard.press("ArrowLeft")
        report = axe.Axe().run(page).response  # the page's own policy would keep axe from running
        assert len(report["passes"]) > 20
        assert [fault["id"] for fault in report["violations"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        buttons = page.locator("#labels button")
        assert min(buttons.nth(i).bounding_box()["height"] for i in range(buttons.count())) >= 44


def test_a_label_that_is_not_stored_says_so_and_can_be_repeated(
    browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "labels.jsonl"
    with serving(answers(), path, rater="ann") as server:
        context = browser.new_context()
        page = context.new_page()
        visit(page, server.url)
        context.set_offline(True)
        question = page.locator("#question").inner_text()
        page.keyboard.press("1")
        page.wait_for_function("() => document.getElementById('problem').textContent !== ''")
        assert "This label is not stored" in page.locator("#problem").inner_text()
        assert page.locator("#question").inner_text() == question
        assert rows(path) == []
        context.set_offline(False)
        page.keyboard.press("1")
        labelled(page, 1)
        assert len(rows(path)) == 1
        context.close()


def test_another_page_cannot_store_a_label(browser: Any, tmp_path: Path) -> None:
    with (
        serving(answers(), tmp_path / "a.jsonl", rater="ann") as server,
        serving(answers(), tmp_path / "b.jsonl", rater="eve") as other,
    ):
        page = browser.new_page()
        visit(page, other.url)
        id_ = next(iter(server.session.items))
        message = json.dumps({"item": id_, "label": "wrong"})
        script = """([url, body]) => { const sent = (mode, type) => fetch(url, {method: "POST",
            mode, body, headers: {"Content-Type": type}}).then((a) => a.status, () => "refused");
            return Promise.all([sent("cors", "application/json"), sent("no-cors", "text/plain")]);
        }"""
        page.goto("about:blank")  # a page without a policy of its own
        statuses = page.evaluate(script, [f"{server.url}label", message])
        assert set(statuses) <= {"refused", 0}
        assert server.session.given == {}
        page.close()


# The command --------------------------------------------------------------------------------------


PROGRAM = [sys.executable, "-c", "from mirage.cli import app; app(prog_name='mirage')", "label"]


def finish(*arguments: object) -> None:
    """Run the command to its end."""
    subprocess.run([*PROGRAM, *map(str, arguments)], check=True, capture_output=True)


@contextmanager
def command(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command, and return its process and the address of the page."""
    process = subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = next(line for line in process.stderr if line.startswith("open "))
        yield process, line.split()[1]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def responses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("responses") / "quotes.jsonl"
    dataset = MirageDataset.bundled("en")
    respond(
        lambda q: f"##Answer: {q.passages[0].text} [1]", dataset, "quotes", progress=False
    ).save(path)
    return path


def launch(driver: Any, folder: Path) -> Any:
    return driver.chromium.launch_persistent_context(
        folder, executable_path=CHROMIUM, args=FLAGS, viewport=PHONE
    )


def kill(folder: Path) -> None:
    """Kill the browser that uses this profile, and its processes, with SIGKILL."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in words and b"chrom" in words:
                os.kill(int(entry.name), signal.SIGKILL)


def test_the_browser_and_the_command_are_killed_and_resumed_with_two_raters(
    driver: Any, tmp_path: Path, responses: Path
) -> None:
    path, profile = tmp_path / "labels.jsonl", tmp_path / "profile"
    options = (responses, "--language", "en", "--items", 20, "--out", path)
    with command(*options, "--rater", "ann") as (process, url):
        page = launch(driver, profile).new_page()
        visit(page, url)
        for count in range(1, 6):
            page.keyboard.press("1")
            labelled(page, count)
        kill(profile)
        assert len(rows(path)) == 5
        context = launch(driver, tmp_path / "second")
        page = context.new_page()
        visit(page, url)
        labelled(page, 5)
        page.keyboard.press("1")
        labelled(page, 6)
        context.close()
        process.kill()
    assert len(rows(path)) == 6
    with command(*options, "--rater", "ann") as (process, url):
        context = launch(driver, tmp_path / "third")
        page = context.new_page()
        visit(page, url)
        labelled(page, 6)
        for count in range(7, 21):
            page.keyboard.press("1")
            labelled(page, count)
        context.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert "ann: 20 labels (20 correct)" in process.stdout.read()
    with command(*options, "--rater", "ben") as (process, url):
        context = launch(driver, tmp_path / "fourth")
        page = context.new_page()
        visit(page, url)
        for count in range(1, 21):
            page.keyboard.press("1" if count > 4 else "3")
            labelled(page, count)
        context.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        text = process.stdout.read()
    assert "Agreement of annotators" in text
    assert "conflicts: 0 settled, 4 open" in text
    with command(*options, "--settle") as (_, url):
        context = launch(driver, tmp_path / "fifth")
        page = context.new_page()
        visit(page, url)
        assert "Labels so far: correct, wrong" in page.locator("#item").inner_text()
        for count in range(1, 5):
            page.keyboard.press("3")
            labelled(page, count)
        context.close()
    assert len(rows(path)) == 44


def test_a_page_without_a_server_keeps_its_labels_when_it_is_killed(
    driver: Any, tmp_path: Path, responses: Path
) -> None:
    page_path, path, profile = tmp_path / "p.html", tmp_path / "labels.jsonl", tmp_path / "profile"
    options = (responses, "--language", "en", "--items", 5, "--rater", "ann", "--out", path)
    finish(*options, "--page", page_path)
    page = launch(driver, profile).new_page()
    visit(page, page_path.as_uri())
    for count in range(1, 4):
        page.keyboard.press("2")
        labelled(page, count)
    kill(profile)
    context = launch(driver, profile)
    page = context.new_page()
    visit(page, page_path.as_uri())
    labelled(page, 3)
    for count in (4, 5):
        page.keyboard.press("1")
        labelled(page, count)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the labels").click()
    saved = tmp_path / "ann.labels.jsonl"
    download.value.save_as(saved)
    context.close()
    finish(*options, "--import", saved)
    assert sorted(row["label"] for row in rows(path)) == ["correct"] * 2 + ["partly"] * 3
    assert len({row["query_id"] for row in rows(path)}) == 5
