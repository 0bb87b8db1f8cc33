"""Keys and headers: sent, and otherwise seen nowhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pydantic import SecretStr

from mirage.errors import SettingError
from mirage.llm.endpoints import short

__all__ = ["Secrets"]

_SHORTEST = 8  # characters: to hide "1" or "true" would make errors unreadable, and save nothing

# Filters see only what is logged by their own logger, not by those below it.
_LOGGERS = (
    *("openai._base_client", "openai._legacy_response", "openai._response", "httpx", "httpx2"),
    *(f"httpcore{n}.{part}" for n in ("", "2") for part in ("connection", "http11", "proxy")),
)


class Secrets:
    """A key and headers that print as stars, and a text of others without them.

    Servers repeat what they were sent, in errors and in headers. A secret is the key, and each
    word of a header, from 8 characters on.

    Raises:
        SettingError: one holds characters that cannot be sent.
    """

    def __init__(self, key: str | None, headers: Mapping[str, str]) -> None:
        key = _sendable("the key", key) if key else None
        sent = {name: _sendable(f"the header {name!r}", value) for name, value in headers.items()}
        self.key = None if key is None else SecretStr(key)
        self.headers = {name: SecretStr(value) for name, value in sent.items()}
        words = [word for value in (key or "", *sent.values()) for word in value.split()]
        # The longest first: one may be part of another.
        longest = sorted({word for word in words if len(word) >= _SHORTEST}, key=len, reverse=True)
        self._words = [SecretStr(word) for word in longest]

    def redacted(self, text: str) -> str:
        """The text with ``[secret]`` for every secret."""
        for word in self._words:
            text = text.replace(word.get_secret_value(), "[secret]")
        return text

    def excerpt(self, value: object) -> str:
        """What a server sent, for an error: as JSON, without secrets, on one line, and short."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        # Redacted before it is cut, which could leave half of a key.
        return short(self.redacted(text))

    def key_in(self, text: str) -> bool:
        """Whether the key stands in a text."""
        key = "" if self.key is None else self.key.get_secret_value()
        return len(key) >= _SHORTEST and key in text

    @contextmanager
    def out_of_logs(self) -> Iterator[None]:
        """Keep the secrets out of what the libraries below us log (at level DEBUG)."""

        def redact(record: logging.LogRecord) -> bool:
            message = record.getMessage()
            redacted = self.redacted(message)
            if redacted != message:
                record.msg, record.args = redacted, None
            if record.exc_info:
                trace = logging.Formatter().formatException(record.exc_info)
                record.exc_info, record.exc_text = None, self.redacted(trace)
            return True

        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addFilter(redact)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(redact)


def _sendable(what: str, value: str) -> str:
    value = value.strip()  # keys that are read from files end in a newline
    if not value.isascii() or not value.isprintable():
        raise SettingError(f"{what} holds characters that cannot be sent in a header")
    return value
