"""Loggers that write nothing a terminal would obey."""

from __future__ import annotations

import logging

from mirage._base.quoting import visible

__all__ = ["logger"]


def logger(name: str) -> logging.Logger:
    """Return the logger of this name; hidden characters in its messages are escapes."""
    named = logging.getLogger(name)
    named.addFilter(_make_visible)  # a filter is added once only
    return named


def _make_visible(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    quoted = visible(message)
    if quoted != message:
        record.msg, record.args = quoted, None
    return True
