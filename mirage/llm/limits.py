"""A limit on the length of a server's response after decompression."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from mirage._base.settings import check_number
from mirage.errors import LLMError
from mirage.llm.retries import TransientError

MOST_BYTES = 8 * 2**20
"""The default limit in bytes: about eight times the longest answer of current models."""

PACKING = {"Accept-Encoding": "gzip"}
"""The header that requests compression in a format that :func:`limited` can decompress."""

_PACKED = (["gzip"], ["x-gzip"], ["deflate"])
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def limited(most: int) -> Callable[[Any], Awaitable[None]]:
    """Return a response hook for httpx (or httpx2) that limits a response to ``most`` bytes.

    Without the hook, httpx decompresses a response of any length, and a megabyte may expand to a
    gigabyte. With the hook, reading a longer response raises :class:`~mirage.errors.LLMError`. If a
    response is not compressed in the format that its header names, reading it raises
    :class:`~mirage.llm.retries.TransientError`.
    """
    check_number("max_bytes", most, 1, whole=True)

    async def limit(response: Any) -> None:
        response.aiter_bytes = partial(_decompress, response, most)

    return limit


async def _decompress(response: Any, most: int) -> AsyncIterator[bytes]:
    """Yield the decompressed parts of a response; raise an error before they exceed the limit."""
    header = response.headers.get("content-encoding", "").lower().replace("identity", "")
    packing = [name.strip() for name in header.split(",") if name.strip()]
    if packing and packing not in _PACKED:
        raise LLMError(
            f"the response is compressed as {', '.join(packing)[:40]!r}, but only gzip is supported"
        )
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB) if packing else None
    size = 0
    async for raw in response.aiter_raw():
        rest = raw
        while rest:
            try:
                # One byte above the limit is enough to see that the response is too long.
                part = rest if unpacker is None else unpacker.decompress(rest, most - size + 1)
            except zlib.error as error:
                raise TransientError(
                    "the response cannot be decompressed as its header content-encoding states "
                    f"({error})"
                ) from None
            rest = b"" if unpacker is None else unpacker.unconsumed_tail
            size += len(part)
            if size > most:
                raise LLMError(
                    f"the response is longer than {most} bytes, so reading was stopped; increase "
                    "max_bytes if you expect longer responses"
                )
            yield part
