"""Check addresses of endpoints, shorten texts for errors, and load TLS certificates."""

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

_UNSAFE = re.compile(r"[^\w.:%-]")  # in a host name; letters may be of any script

_MOST_SHOWN = 300  # characters of a server's message that an error quotes


def checked_url(url: str) -> str:
    """Return the address of an endpoint without surrounding whitespace.

    Raises:
        SettingError: If the address is not valid, or contains a password or a query string.
    """
    url = url.strip()
    wrong = SettingError(
        f"{url!r} is not the address of an endpoint; an example is http://localhost:8000/v1"
    )
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if the port is not a number
    except ValueError:
        raise wrong from None
    if parts.username is not None or parts.password is not None or parts.query:
        raise SettingError(
            "the address of an endpoint must not contain a password or a query string, because "
            "they would appear in logs and errors; pass them as headers= or api_key="
        )
    host = parts.hostname or ""
    # The HTTP client would read a host with other characters differently from urlsplit.
    is_plain = not _UNSAFE.search(host) and (":" in host or "%" not in host)
    if parts.scheme not in ("http", "https") or not host or not is_plain:
        raise wrong
    return url


def short(text: str) -> str:
    """Return a text on one line of at most 300 characters, without invisible characters."""
    text = visible(" ".join(text.split()))
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


def tls(client: type) -> SSLContext:
    """Return the TLS context (trusted certificates) for an HTTP client.

    ``client`` is the class of the client, and the context comes from the library that defines this
    class. The certificates are those in ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` if one of these
    environment variables is set, otherwise the defaults of the library. Clients of one library
    share a context, because reading the certificates takes 20 ms.
    """
    library = import_module(client.__module__.partition(".")[0])
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    try:
        return _context(library.create_ssl_context, file, folder)
    except OSError as error:
        raise SettingError(
            f"SSL_CERT_FILE={file or ''}: no certificates can be read ({error}); set it to a "
            "file in PEM format, or unset it"
        ) from None


@cache
def _context(create: Callable[[], SSLContext], *_files: str | None) -> SSLContext:
    return create()
