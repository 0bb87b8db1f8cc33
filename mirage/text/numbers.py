"""Find the numbers in a text, in the digits of any script and with any separators."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

__all__ = ["decimal_parts", "numbers", "without_numbers"]

# Digits in groups of three separated by a space or a mark, or without groups; then decimals.
_NUMBER = re.compile(r"\d(?:\d{0,2}(?:[.,٫٬'’ \u00a0\u2009\u202f]\d{3})+(?!\d)|\d*)(?:[.,٫]\d+)*")


_MARK = re.compile(r"[^\d]")
_HOURS, _MINUTES = 24, 60


@lru_cache(maxsize=4096)
def numbers(text: str) -> frozenset[str]:
    """Return the numbers in a text, as ASCII digits without separators: ``6,600`` is ``6600``.

    The decimal mark is a point, and trailing zeros of decimals are removed: ``130,50`` is
    ``130.5``.
    """
    return frozenset(map(_canonical, _NUMBER.findall(text)))


def _canonical(number: str) -> str:
    """Return a number as ASCII digits, with a point before its decimals."""
    if number.isdecimal():
        return _digits(number)
    parts = decimal_parts(number)
    if parts is None:
        return _digits(number)
    decimals = parts[1].rstrip("0")
    return f"{parts[0]}.{decimals}" if decimals else parts[0]


def decimal_parts(number: str) -> tuple[str, str] | None:
    """Split a number at its decimal mark, and return the digits before and after it.

    A single mark before three digits separates thousands: 5,500 and 5.500 are 5500.

    Returns:
        The two parts as ASCII digits, the second one empty if there are no decimals. ``None`` if
        the marks are ambiguous, such as in ``15.00``, which may be a time.
    """
    marks = [char for char in number if not char.isdecimal()]
    groups = [_digits(part) for part in _MARK.split(number)]
    if not marks:
        return groups[0], ""
    is_mixed = len(set(marks)) > 1 and marks.count(marks[-1]) == 1
    is_single = (
        len(marks) == 1 and marks[0] in ".,٫" and (len(groups[1]) != 3 or not int(groups[0]))
    )
    decimals = groups.pop() if is_mixed or is_single else ""
    if is_single and len(decimals) == 2 and int(groups[0]) <= _HOURS and int(decimals) < _MINUTES:
        return None
    if len(groups) > 1 and not _is_grouped(groups):
        return None
    return "".join(groups), decimals


def _is_grouped(groups: list[str]) -> bool:
    """Return whether digits are in groups of three, or grouped as in India: 12,34,567."""
    return len(groups[0]) <= 3 and len(groups[-1]) == 3 and {len(g) for g in groups[1:]} <= {2, 3}


def _digits(number: str) -> str:
    if number.isascii() and number.isdecimal():
        return number
    return "".join(str(unicodedata.decimal(char)) for char in number if char.isdecimal())


def without_numbers(text: str) -> str:
    """Return the text with a space in place of every number."""
    return _NUMBER.sub(" ", text)
