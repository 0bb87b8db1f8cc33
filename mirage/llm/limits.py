"""How long the answer of a server may be, unpacked."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from mirage.errors import LLMError, SettingError
from mirage.llm.retries import TransientError

__all__ = ["MOST_BYTES", "PACKING", "limited"]

MOST_BYTES = 8 * 2**20
"""The bytes of an answer that are taken by default: some eight times the longest of today."""

PACKING = {"Accept-Encoding": "gzip"}
"""The header that asks for answers as :func:`limited` unpacks them."""

_PACKED = (["gzip"], ["x-gzip"], ["deflate"])
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def limited(most: int) -> Callable[[Any], Awaitable[None]]:
    """A hook for responses of httpx (or httpx2) that ends an answer of more than ``most`` bytes.

    The library by itself unpacks whatever comes, and a megabyte may unpack to a gigabyte. Reading
    the answer then raises :class:`~mirage.errors.LLMError`, and a
    :class:`~mirage.llm.retries.TransientError` where it is no gzip though it says so.

    Raises:
        SettingError: ``most`` is below 1.
    """
    if most < 1:
        raise SettingError(f"max_bytes={most} is to be 1 or more")

    async def limit(response: Any) -> None:
        response.aiter_bytes = partial(_unpacked, response, most)

    return limit


async def _unpacked(response: Any, most: int) -> AsyncIterator[bytes]:
    """The answer in parts, none of which is unpacked beyond the limit."""
    named = response.headers.get("content-encoding", "").lower().replace("identity", "")
    packing = [name.strip() for name in named.split(",") if name.strip()]
    if packing and packing not in _PACKED:
        raise LLMError(f"the answer is packed as {', '.join(packing)[:40]!r}, and not as gzip")
    unpacker = zlib.decompressobj(_GZIP_OR_ZLIB) if packing else None
    size = 0
    async for raw in response.aiter_raw():
        rest = raw
        while rest:
            try:
                part = rest if unpacker is None else unpacker.decompress(rest, most - size + 1)
            except zlib.error as error:
                raise TransientError(f"the answer is not packed as it says ({error})") from None
            rest = b"" if unpacker is None else unpacker.unconsumed_tail
            size += len(part)
            if size > most:
                raise LLMError(
                    f"the answer has more than {most} bytes, and is not read on; if it may be so "
                    "long, give max_bytes="
                )
            yield part
