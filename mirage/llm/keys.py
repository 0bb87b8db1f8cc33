"""Rules that decide which API key may be sent to which address."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from mirage.errors import SettingError
from mirage.llm.endpoints import checked_url

KEY_VARIABLE = "OPENAI_API_KEY"
"""The environment variable whose key is sent to the default address."""

_OPENAI = "https://api.openai.com/v1"
_PORTS = {"http": 80, "https": 443}


class KeyUse(NamedTuple):
    """An API key and an address that would receive it.

    Attributes:
        variable: The environment variable that holds the key.
        host: The address without its path: scheme, host and, if it is not the default, port.
        trusted: Whether the key may be sent there without ``--trust``.
    """

    variable: str
    host: str
    trusted: bool

    def __str__(self) -> str:
        note = "" if self.trusted else ", if the file is trusted (--trust)"
        return f"the key in {self.variable} goes to {self.host}{note}"


def default_address() -> str:
    """Return ``OPENAI_BASE_URL`` of the environment, or the address of OpenAI."""
    return os.environ.get("OPENAI_BASE_URL") or _OPENAI


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address.

    The port is left out if it is the default of the scheme. The host is in lower case.
    """
    parts = urlsplit(checked_url(url))
    host = (parts.hostname or "").rstrip(".")
    # Brackets keep the colons of an IPv6 address apart from the port.
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def is_openai(url: str) -> bool:
    """Return whether an address is OpenAI's, reached over an encrypted connection."""
    scheme, _, host = origin_of(url).partition("://")
    return scheme == "https" and (host == "api.openai.com" or host.endswith(".api.openai.com"))


def key_uses(
    variable: str | None, urls: str | Iterable[str] | None, *, typed: bool = False
) -> tuple[KeyUse, ...]:
    """Return which API key each address in a settings file would receive.

    ``OPENAI_API_KEY`` may be sent to OpenAI and to the host of ``OPENAI_BASE_URL``. The same holds
    for the key in a variable whose name the user typed. Any other address, and any other variable
    that a file names, requires that the user trusts the file. Scheme and port are part of the host:
    a key for ``https://host`` does not go to ``http://host``.

    Args:
        variable: The environment variable with the key. ``None`` means ``OPENAI_API_KEY`` if
            ``urls`` is ``None`` too, and otherwise that no key is sent.
        urls: The address or addresses in the file; ``None`` for the default address.
        typed: Whether the user typed the name of the variable. It is false if the name comes from
            the file.

    Returns:
        One entry per address; empty if no key is sent.
    """
    if variable is None:
        if urls is not None or not os.environ.get(KEY_VARIABLE):
            return ()
        variable = KEY_VARIABLE
    # A file that names another variable could send any secret of the environment away.
    is_own = typed or variable == KEY_VARIABLE
    addresses = [default_address()] if urls is None else [urls] if isinstance(urls, str) else urls
    home = origin_of(default_address())
    return tuple(
        KeyUse(variable, origin_of(url), is_own and (is_openai(url) or origin_of(url) == home))
        for url in addresses
    )


def check_key(
    variable: str | None, urls: str | Iterable[str] | None, file: Path, *, typed: bool = False
) -> None:
    """Raise an error if a settings file would send a key to an address that must not receive it.

    :func:`key_uses` lists the rules.

    Args:
        variable: The environment variable with the key. ``None`` means ``OPENAI_API_KEY`` if
            ``urls`` is ``None`` too, and otherwise that no key is sent.
        urls: The address or addresses in the file; ``None`` for the default address.
        file: The file that names the address or the variable.
        typed: Whether the user typed the name of the variable. It is false if the name comes from
            the file.

    Raises:
        SettingError: If the user must trust the file first; the message names the option.
    """
    for use in key_uses(variable, urls, typed=typed):
        if not use.trusted:
            what = "the address" if typed else "this variable and address"
            raise SettingError(
                f"{file}: the API key in {use.variable} would be sent to {use.host}, but {what} "
                "comes from this file; if you trust the file, pass --trust (trust=True in Python)"
            )
