"""Regular expressions for written words; ``tokens`` has the units that metrics count."""

from __future__ import annotations

import re

__all__ = ["IN_WORD", "WORD"]

IN_WORD = (
    r"\w\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0963\u0971-\u0dff\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    r"\u200c\u200d"
)
r"""Characters of words: letters, digits, and the marks that Python's ``\w`` leaves out."""

WORD = re.compile(rf"[^\W\d_][{IN_WORD}]*(?:['’ʼ‐-][^\W\d_][{IN_WORD}]*)*")
"""A word, with apostrophes and hyphens inside; in a script without spaces, a run of letters."""
