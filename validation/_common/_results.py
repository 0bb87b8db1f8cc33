"""Options that all validation scripts have, and the file of figures that each one writes."""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
from _pages import SIMULATIONS
from _shared import ROOT

RESULTS = ROOT / "validation" / "results"
SEED = "MIRAGE_VALIDATION_SEED"
"""The environment variable that carries ``--seed`` to worker processes."""

_FIGURES: dict[str, Any] = {}


def script_parser(doc: str | None, *, seed: bool = False) -> argparse.ArgumentParser:
    """Return a parser with ``--quick`` and ``--out``, and with ``--seed`` for :func:`seeded`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small run, to try the script")
    parser.add_argument(
        "--out",
        type=Path,
        help="JSON file of figures; a run without options writes validation/results/NAME.json",
    )
    if seed:
        parser.add_argument("--seed", type=_set_seed, default=0, help="random seed; 0 by default")
    return parser


def _set_seed(text: str) -> int:
    os.environ[SEED] = text
    return int(text)


def seeded(entropy: int | Sequence[int]) -> np.random.Generator:
    """Return a generator that depends on its arguments and on ``--seed``."""
    seed = int(os.environ.get(SEED, "0"))
    if not seed:
        return np.random.default_rng(entropy)
    return np.random.default_rng([*np.atleast_1d(entropy).tolist(), seed])


def add_figure(value: SupportsFloat, *names: object) -> None:
    """Record a figure under its names, from the table down to the cell, and only once.

    NaN and infinities become null, as JSON has no other way to write them.
    """
    *path, last = (str(name) for name in names)
    level = _FIGURES
    for name in path:
        level = level.setdefault(name, {})
    if last in level:
        raise ValueError(f"{' / '.join((*path, last))} is recorded already")
    number = float(value)
    level[last] = float(f"{number:.6g}") if math.isfinite(number) else None


def known_mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN, or NaN if there is none."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


def save(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Write the figures to ``--out``, or to ``validation/results/`` after a run without options."""
    script = Path(sys.argv[0]).resolve()
    changed = {
        name: value
        for name, value in vars(options).items()
        # No arguments are an empty list, whose default is None.
        if name != "out" and (value or None) != (parser.get_default(name) or None)
    }
    path = options.out or (None if changed else RESULTS / f"{script.stem}.json")
    if path is None:
        return
    report = {
        "script": script.relative_to(ROOT).as_posix(),
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"python": platform.python_version(), **_versions()},
        "seed": getattr(options, "seed", None),
        "quick": options.quick,
        "arguments": {
            name: value
            for name, value in vars(options).items()
            if name in SIMULATIONS or (name in changed and name not in ("quick", "seed"))
        },
        "figures": _FIGURES,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=1, ensure_ascii=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")


def _versions() -> dict[str, str]:
    """Return the versions of the installed packages that the script has imported."""
    owners = packages_distributions()
    loaded = {name.partition(".")[0] for name in sys.modules} & set(owners)
    names = sorted({owners[name][0] for name in loaded if not name.startswith("_")})
    return {name: version(name) for name in names}


def _commit() -> str | None:
    """Return the commit of the working tree, with ``-dirty`` if it has changes."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # no Git on this machine
        return None
    return done.stdout.strip() or None
