"""Endpoints: what may be shown of them in errors and logs, and which certificates they may have."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from ssl import SSLContext
from urllib.parse import urlsplit

from mirage._base.quoting import visible
from mirage.errors import SettingError

__all__ = ["checked_url", "short", "tls"]

_UNSAFE = re.compile(r"[^\w.:%-]")  # in a host; letters may be of any script

_SHOWN = 300  # characters of a server's own message to show


def checked_url(url: str) -> str:
    """The address of an endpoint, if there is no secret in it.

    Raises:
        SettingError: it is no address, or holds a password or a query.
    """
    url = url.strip()
    wrong = SettingError(f"{url!r} is no endpoint; give one such as http://localhost:8000/v1")
    try:
        parts = urlsplit(url)
        _ = parts.port  # which may be no number
    except ValueError:
        raise wrong from None
    if parts.username is not None or parts.password is not None or parts.query:
        raise SettingError(
            "an endpoint's address holds no password and no query, which would end up in logs and "
            "errors: send them in a header, with headers=, or as api_key="
        )
    host = parts.hostname or ""
    # The HTTP client reads such a host otherwise than this function does.
    is_plain = not _UNSAFE.search(host) and (":" in host or "%" not in host)
    if parts.scheme not in ("http", "https") or not host or not is_plain:
        raise wrong
    return url


def short(text: str) -> str:
    """A text of others in one line of at most 300 characters, with nothing invisible in it."""
    text = visible(" ".join(text.split()))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def tls(client: type) -> SSLContext:
    """The certificates that clients of a library (httpx, or httpx2) trust, read once a process.

    Every client would read them anew, for 20 ms, be its endpoint encrypted or not.

    Raises:
        SettingError: the environment names a file of certificates that is none.
    """
    library = import_module(client.__module__.partition(".")[0])
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    try:
        return _context(library.create_ssl_context, file, folder)
    except OSError as error:
        raise SettingError(
            f"SSL_CERT_FILE={file or ''} holds no certificates that can be read ({error}); name "
            "a file in PEM format, or leave it unset"
        ) from None


@cache
def _context(create: Callable[[], SSLContext], *_files: str | None) -> SSLContext:
    return create()
