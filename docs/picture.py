"""The picture of the report on the first pages: made from the bundled data, by one command.

    python docs/picture.py

It ranks the system of ``examples/quickstart.py`` in English, writes the report, and has chromium
(``apt-get install chromium``, or the path in ``MIRAGE_CHROMIUM``) take ``docs/assets/report.png``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
PICTURE = DOCS / "assets" / "report.png"
SIZE = "1200,1180"
"""Columns and rows of the picture."""

sys.path.insert(0, str(DOCS.parent / "examples"))

from quickstart import my_rag  # noqa: E402

from mirage import Leaderboard  # noqa: E402


def main() -> None:
    """Write the picture."""
    chromium = os.environ.get("MIRAGE_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium: apt-get install chromium, or name one in MIRAGE_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        Leaderboard.bundled("en").rank(my_rag, model="my-rag").write(page)
        command = [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={folder}/profile", f"--window-size={SIZE}"),
            *(f"--screenshot={PICTURE}", page.as_uri()),
        ]
        subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
