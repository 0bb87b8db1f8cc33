"""Folders that several scripts read; importing it puts ``tests/`` and ``corpora/`` on the path.

Only this folder is on the path. ``validation/`` must not be, because numba would mistake its folder
``coverage`` for the package of that name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPORA = ROOT / "corpora"
TESTS = ROOT / "tests"
DATA = Path(os.environ.get("MIRAGE_DATA", ROOT.parent / "shared" / "data"))
"""Real data, which the repository does not hold."""

# Before installed packages: one of them is called `build`, as a script in corpora/ is.
sys.path[1:1] = [str(TESTS), str(CORPORA)]


def require_data(*names: str) -> None:
    """End the script with status 0 and a message if a part of the real data is missing.

    Args:
        names: Paths within the folder of real data.
    """
    missing = [name for name in names if not (DATA / name).exists()]
    if missing:
        print(f"nothing to measure: {', '.join(missing)} not in {DATA}; set MIRAGE_DATA")
        sys.exit(0)
