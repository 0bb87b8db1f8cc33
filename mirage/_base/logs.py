"""Loggers that write nothing a terminal would obey."""

from __future__ import annotations

import logging
import re

__all__ = ["logger", "visible"]

# Control characters, and those that turn the direction of what stands around them.
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""A text of others for a terminal: what would move its cursor is written as ``\x1b``.

    Tabs and line feeds stay.
    """
    return _ODD.sub(lambda match: ascii(match[0])[1:-1], text)


def logger(name: str) -> logging.Logger:
    """The logger of this name; names, ids and messages of others are visible in what it writes."""
    named = logging.getLogger(name)
    named.addFilter(_cleaned)  # which it takes once
    return named


def _cleaned(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    clean = visible(message)
    if clean != message:
        record.msg, record.args = clean, None
    return True
