"""What tests in a real browser share: Debian's chromium, and playwright and axe (extra ``dev``).

A test module that imports this one is skipped if a package is missing.
"""

from __future__ import annotations

import os
import shutil

import pytest

playwright = pytest.importorskip(
    "playwright.sync_api", reason="the extra dev is not installed: playwright"
)
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="the extra dev is not installed: axe"
)
CHROMIUM = os.environ.get("MIRAGE_CHROMIUM") or shutil.which("chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium (apt-get install chromium)"
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""Flags of chromium; without the last five it makes requests of its own."""
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
