"""API keys and headers that are sent, but never appear in errors or logs."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from pydantic import SecretStr

from mirage.errors import SettingError
from mirage.llm.endpoints import short

_SHORTEST = 8  # characters; hiding words such as "1" or "true" would make errors unreadable
_LIKE_A_KEY = 12  # characters; parts of header words of at least this length are hidden too
_LOOKED_THROUGH = 4000  # characters of a server's message to redact; 300 of them are quoted

# A filter sees only records of its own logger, not of child loggers, so all are listed.
_LOGGERS = (
    *("openai._base_client", "openai._legacy_response", "openai._response", "httpx", "httpx2"),
    *(f"httpcore{n}.{part}" for n in ("", "2") for part in ("connection", "http11", "proxy")),
)


class Secrets:
    """An API key and header values, with methods that remove them from texts.

    Servers may repeat the key or the headers of a request in their errors. Every word of at least 8
    characters in the key or in a header value is a secret. If the secret is the whole key, or has
    at least 12 characters, its parts of at least 8 letters and digits are removed too. Parts are
    recognized in upper and lower case, with other characters in between, backwards, in base64 and
    in hexadecimal.
    """

    def __init__(self, key: str | None, headers: Mapping[str, str]) -> None:
        if not isinstance(headers, Mapping):  # its value may be a secret
            raise SettingError(f"headers must be a mapping, got {type(headers).__name__}")
        key = _sendable("the key", key) if key else None
        sent = {name: _sendable(f"the header {name!r}", value) for name, value in headers.items()}
        self.key: SecretStr | None = None if key is None else SecretStr(key)
        self.headers: dict[str, SecretStr] = {
            name: SecretStr(value) for name, value in sent.items()
        }
        words = [word for value in (key or "", *sent.values()) for word in value.split()]
        # The longest first, because one word may be part of another.
        longest = sorted({word for word in words if len(word) >= _SHORTEST}, key=len, reverse=True)
        self._words = [SecretStr(word) for word in longest]
        keys = [word for word in longest if word == key or len(word) >= _LIKE_A_KEY]
        self._keys = [SecretStr(form) for word in keys for form in _forms(word)]

    def redacted(self, text: str) -> str:
        """Return the text with ``[secret]`` in place of every secret and every part of a secret."""
        for word in self._words:
            text = text.replace(word.get_secret_value(), "[secret]")
        parts = {part for key in self._keys for part in _parts(key.get_secret_value())}
        return _replace_parts(parts, text) if parts else text

    def excerpt(self, value: object) -> str:
        """Return a server's message, shortened, on one line and without secrets.

        The result can be quoted in an error message. Values that are not strings are written as
        JSON.
        """
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        # Redact before shortening, which could leave half of a key.
        return short(self.redacted(text[:_LOOKED_THROUGH]))

    def key_in(self, text: str) -> bool:
        """Return whether a text contains the key."""
        key = "" if self.key is None else self.key.get_secret_value()
        return len(key) >= _SHORTEST and key in text

    @contextmanager
    def out_of_logs(self) -> Iterator[None]:
        """Context manager that removes secrets from the DEBUG log records of HTTP libraries."""

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
    """Return the forms of a secret to search for, in lower case, with letters and digits only.

    The forms are the secret itself, and the secret backwards, in hexadecimal, and in base64 with
    each of the three possible offsets.
    """
    raw = word.encode()
    written = [word, word[::-1], raw.hex()]
    # Base64 maps 3 bytes to 4 letters, so a secret has three forms, one for each offset. The first
    # letters and the last depend on the neighbouring bytes and are left out.
    for before, depends in ((0, 0), (1, 2), (2, 3)):
        size = (before + len(raw)) // 3 * 4
        written.append(base64.b64encode(b" " * before + raw).decode()[depends:size])
    return ("".join(filter(str.isalnum, form)).lower() for form in written)


def _parts(form: str) -> set[str]:
    return {form[i : i + _SHORTEST] for i in range(len(form) - _SHORTEST + 1)}


def _replace_parts(parts: Collection[str], text: str) -> str:
    """Return the text with ``[secret]`` in place of every span that contains one of the parts.

    Only letters and digits are compared, so a part is also detected if other characters separate
    its letters.
    """
    places = [i for i, char in enumerate(text) if char.isascii() and char.isalnum()]
    bare = "".join(text[i] for i in places).lower()
    pieces: list[str] = []
    cursor = end = 0  # the text before cursor is copied; the last secret ends at end
    for at in range(len(bare) - _SHORTEST + 1):
        if bare[at : at + _SHORTEST] in parts:
            if places[at] >= end:
                pieces += [text[cursor : places[at]], "[secret]"]
            cursor = end = places[at + _SHORTEST - 1] + 1
    return "".join([*pieces, text[cursor:]])


def _sendable(what: str, value: str) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{what} must be a text, got {type(value).__name__}")
    value = value.strip()  # keys that are read from files end in a newline
    if not value.isascii() or not value.isprintable():
        raise SettingError(f"{what} has characters that cannot be sent in an HTTP header")
    return value
