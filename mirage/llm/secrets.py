"""Keys and headers: sent, and otherwise seen nowhere."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from pydantic import SecretStr

from mirage.errors import SettingError
from mirage.llm.endpoints import short

__all__ = ["Secrets"]

_SHORTEST = 8  # characters: to hide "1" or "true" would make errors unreadable, and save nothing
_LIKE_A_KEY = 12  # characters of a header's word from which on its parts are hidden too
_LOOKED_THROUGH = 4000  # characters of what a server sent, of which 300 are shown

# Filters see only what is logged by their own logger, not by those below it.
_LOGGERS = (
    *("openai._base_client", "openai._legacy_response", "openai._response", "httpx", "httpx2"),
    *(f"httpcore{n}.{part}" for n in ("", "2") for part in ("connection", "http11", "proxy")),
)


class Secrets:
    """A key and headers that print as stars, and a text of others without them.

    Servers repeat what they were sent, in errors and in headers. A secret is the key, and each
    word of a header, from 8 characters on. Hidden is also any part of 8 letters and digits or more,
    whatever stands between these, of the key and of words from 12 characters on; in any case,
    backwards, in base64 and in hexadecimal.

    Raises:
        SettingError: one holds characters that cannot be sent.
    """

    def __init__(self, key: str | None, headers: Mapping[str, str]) -> None:
        key = _sendable("the key", key) if key else None
        sent = {name: _sendable(f"the header {name!r}", value) for name, value in headers.items()}
        self.key: SecretStr | None = None if key is None else SecretStr(key)
        self.headers: dict[str, SecretStr] = {
            name: SecretStr(value) for name, value in sent.items()
        }
        words = [word for value in (key or "", *sent.values()) for word in value.split()]
        # The longest first: one may be part of another.
        longest = sorted({word for word in words if len(word) >= _SHORTEST}, key=len, reverse=True)
        self._words = [SecretStr(word) for word in longest]
        keys = [word for word in longest if word == key or len(word) >= _LIKE_A_KEY]
        self._keys = [SecretStr(form) for word in keys for form in _forms(word)]

    def redacted(self, text: str) -> str:
        """The text with ``[secret]`` for every secret and every part of one."""
        for word in self._words:
            text = text.replace(word.get_secret_value(), "[secret]")
        parts = {part for key in self._keys for part in _parts(key.get_secret_value())}
        return _without(parts, text) if parts else text

    def excerpt(self, value: object) -> str:
        """What a server sent, for an error: as JSON, without secrets, on one line, and short."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        # Redacted before it is cut, which could leave half of a key.
        return short(self.redacted(text[:_LOOKED_THROUGH]))

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


def _forms(word: str) -> Iterator[str]:
    """A secret as it stands, and as it may be written: letters and digits only, in lower case."""
    raw = word.encode()
    written = [word, word[::-1], raw.hex()]
    # In base64 three characters are four letters, so it depends on what stands before and after.
    for before, depends in ((0, 0), (1, 2), (2, 3)):
        size = (before + len(raw)) // 3 * 4
        written.append(base64.b64encode(b" " * before + raw).decode()[depends:size])
    return ("".join(filter(str.isalnum, form)).lower() for form in written)


def _parts(form: str) -> set[str]:
    return {form[i : i + _SHORTEST] for i in range(len(form) - _SHORTEST + 1)}


def _without(parts: Collection[str], text: str) -> str:
    """The text with ``[secret]`` for what holds one of these, whatever stands between letters."""
    places = [i for i, char in enumerate(text) if char.isascii() and char.isalnum()]
    bare = "".join(text[i] for i in places).lower()
    pieces: list[str] = []
    cursor = end = 0  # what is written, and where the last secret ends
    for at in range(len(bare) - _SHORTEST + 1):
        if bare[at : at + _SHORTEST] in parts:
            if places[at] >= end:
                pieces += [text[cursor : places[at]], "[secret]"]
            cursor = end = places[at + _SHORTEST - 1] + 1
    return "".join([*pieces, text[cursor:]])


def _sendable(what: str, value: str) -> str:
    value = value.strip()  # keys that are read from files end in a newline
    if not value.isascii() or not value.isprintable():
        raise SettingError(f"{what} holds characters that cannot be sent in a header")
    return value
