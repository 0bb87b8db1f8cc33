"""The numbers in a text, whatever their script and marks."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

__all__ = ["numbers", "plain_numbers", "without_numbers"]

# Digits in groups of three, with a space or a mark between them, or in one piece; then decimals.
_NUMBER = re.compile(r"\d(?:\d{0,2}(?:[.,٫٬'’ \u00a0\u2009\u202f]\d{3})+(?!\d)|\d*)(?:[.,٫]\d+)*")


@lru_cache(maxsize=4096)
def numbers(text: str) -> frozenset[str]:
    """The numbers in a text, as ASCII digits without their marks: ``6,600`` is ``6600``."""
    return frozenset(map(_digits, _NUMBER.findall(text)))


def plain_numbers(text: str) -> str:
    """The text with ASCII digits alone for every number, a space on either side."""
    return _NUMBER.sub(lambda match: f" {_digits(match[0])} ", text)


def _digits(number: str) -> str:
    return "".join(str(unicodedata.decimal(char)) for char in number if char.isdecimal())


def without_numbers(text: str) -> str:
    """The text with a space for every number."""
    return _NUMBER.sub(" ", text)
