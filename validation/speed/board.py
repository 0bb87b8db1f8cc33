"""The site of a board with 10,000 submissions in 18 languages: size, first view, change of view.

    python validation/speed/board.py

Names, dates and scores are drawn at random, because only the page is measured. With playwright
(extra ``dev``) and Debian's chromium, the site is opened from a local server, nine times. The
first view lasts from the request for the page until its table is drawn. A change of view lasts
from the choice of a language until the first row of its table is drawn, and includes loading its
data. The same is measured for languages whose data are loaded.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage.boards.records import Version
from mirage.boards.site import write_site
from mirage.boards.views import ALL, Listing, Row, Site
from mirage.errors import install_command
from mirage.languages import LANGUAGES

SUBMISSIONS, TIMES = 10_000, 9
CHROMIUM = Path("/usr/bin/chromium")

# Two frames: the first callback comes before a frame is drawn, the second one after it.
DRAWN = "new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(end)))"
FIRST_VIEW = f"""async () => {{
  while (!document.querySelector("#rows tbody tr")) await {DRAWN};
  await {DRAWN};
  return performance.now();
}}"""
SWITCH = f"""async (code) => {{
  const before = document.querySelector("#rows tbody tr"), start = performance.now();
  location.hash = `#view=${{code}}`;
  while (document.querySelector("#rows tbody tr") === before) await {DRAWN};
  await {DRAWN};
  return performance.now() - start;
}}"""


def site(submissions: int, codes: list[str]) -> Site:
    """Return a site with random scores."""
    rng = np.random.default_rng(0)
    listings = [
        Listing(
            f"2026-{number:05}-organisation-{number % 700}-model",
            f"organisation-{number % 700}/Model-{number:05}-Instruct",
            f"organisation-{number % 700}",
            (date(2025, 1, 1) + timedelta(days=number % 600)).isoformat(),
            1 + number // 700,
            1 + (submissions - 1) // 700,
            f"https://example.org/organisation-{number % 700}/model-{number:05}",
            codes,
        )
        for number in range(submissions)
    ]
    strength = rng.normal(size=submissions)
    views = {}
    for view in (ALL, *codes):
        logits = strength + rng.normal(scale=0.3, size=submissions)
        rows = []
        for place, i in enumerate(np.argsort(-logits).tolist()):
            ranks = max(1, place - 400), min(submissions, place + 400)
            interval = (float(logits[i]) - 0.4, float(logits[i]) + 0.4)
            remarks = ["2 responses contain hidden characters"] if i % 50 == 0 else []
            rows.append(Row(listings[i].id, float(logits[i]), interval, ranks, i % 3, remarks))
        views[view] = rows
    versions = {code: Version(data="0" * 64, judge="surrogate 0, mirage 0") for code in codes}
    return Site("Ten thousand submissions", listings, views, versions)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder in a ``with`` block, which receives the address of its page."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


def times(address: str, codes: list[str]) -> tuple[list[float], list[float], list[float]]:
    """Return milliseconds of first views, and of changes of view with and without loading."""
    from playwright.sync_api import sync_playwright

    first, loading, loaded = [], [], []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-quic"]
        )
        for _ in range(TIMES):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(address, wait_until="commit")
            first.append(page.evaluate(FIRST_VIEW))
            loading += [page.evaluate(SWITCH, code) for code in codes]
            loaded += [page.evaluate(SWITCH, code) for code in codes]
            page.close()
        browser.close()
    return first, loading, loaded


def main(submissions: int, codes: list[str]) -> None:
    """Write the site, and open it."""
    with tempfile.TemporaryDirectory() as folder:
        write_site(site(submissions, codes), Path(folder))
        size = (Path(folder) / "index.html").stat().st_size / 1e6
        view = (Path(folder) / "data" / f"{codes[0]}.json").stat().st_size / 1e6
        print(f"{submissions} submissions x {len(codes)} languages: page {size:.2f} MB")
        print(f"each further view: {view:.2f} MB, loaded when it is chosen")
        add_figure(size, "page, MB")
        add_figure(view, "view, MB")
        try:
            with serving(Path(folder)) as address:
                measured = times(address, codes)
        except ImportError:
            print(f"not opened: this needs playwright ({install_command('browser')})")
            return
    names = ("first view", "change of view, loading it", "change of view, loaded before")
    for name, milliseconds in zip(names, measured, strict=True):
        print(
            f"{name}: median {np.median(milliseconds):.0f} ms, at most {max(milliseconds):.0f} ms "
            f"of {len(milliseconds)}"
        )
        add_figure(np.median(milliseconds), f"{name}, ms")
        add_figure(max(milliseconds), f"{name}, at most, ms")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    options = parser.parse_args()
    main(200 if options.quick else SUBMISSIONS, ["en", "sw"] if options.quick else [*LANGUAGES])
    save(parser, options)
