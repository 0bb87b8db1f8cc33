"""Parameters of which a few run in the fast suite, and the rest are marked slow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

from mirage.languages import LANGUAGES

FEW_LANGUAGES = ("ar", "en", "th")
"""Right to left, in Latin letters, and without spaces between words."""


def slow_except(fast: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Return parameters, where those that are not in ``fast`` are marked slow."""
    return [
        value if value in fast else pytest.param(value, marks=pytest.mark.slow) for value in values
    ]


def slow_rows_except(fast: Collection[Any], rows: Iterable[Sequence[Any]]) -> list[Any]:
    """Return rows of parameters, where those that are not in ``fast`` are marked slow."""
    return [row if row in fast else pytest.param(*row, marks=pytest.mark.slow) for row in rows]


# A test of all languages shows the same in each script; the rest of its cases checks their data.
MOSTLY_SLOW_LANGUAGES = slow_except(FEW_LANGUAGES, LANGUAGES)
