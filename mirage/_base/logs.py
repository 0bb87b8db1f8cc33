"""Loggers whose messages cannot control a terminal."""

from __future__ import annotations

import logging

from mirage._base.quoting import visible


def logger(name: str) -> logging.Logger:
    """Return the logger with this name; the logger escapes hidden characters in its messages."""
    escaping_logger = logging.getLogger(name)
    escaping_logger.addFilter(_make_visible)  # a filter is added once only
    return escaping_logger


def _make_visible(record: logging.LogRecord) -> bool:
    message = record.getMessage()
    quoted = visible(message)
    if quoted != message:
        record.msg, record.args = quoted, None
    return True
