"""The n-grams of texts as integers, which numpy compares much faster than strings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Alphabet", "code_points", "distinct", "pack"]

Integers = NDArray[np.int64]


def code_points(text: str) -> Integers:
    """Return the code point of each character of a text."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)


def pack(codes: Integers, length: int, bits: int) -> Integers:
    """Return the n-grams of a sequence of characters in order, each as an integer.

    Args:
        codes: The number of each character, such as its code point.
        length: Number of characters of an n-gram.
        bits: Number of bits that one character takes.

    Example:
        >>> pack(np.array([1, 2, 3]), 2, 8).tolist()
        [258, 515]
    """
    values = codes[: max(0, len(codes) - length + 1)]
    for offset in range(1, length):
        values = values << bits | codes[offset : offset + len(values)]
    return values


def distinct(values: Integers) -> Integers:
    """Return the distinct integers in ascending order, faster than :func:`numpy.unique`."""
    values = np.sort(values)
    is_first = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return values[is_first]


class Alphabet:
    """The distinct characters of a text, numbered from 1, so that an n-gram takes few bits.

    Args:
        codes: The code points of the text. The character U+0000 has the number 0.

    Attributes:
        size: Number of different characters.
        bits: Number of bits that one character takes.

    Example:
        >>> Alphabet(code_points("abca")).numbers(code_points("cab?")).tolist()
        [3, 1, 2, 0]
    """

    def __init__(self, codes: Integers) -> None:
        is_used = np.zeros(int(codes.max(initial=0)) + 1, bool)
        is_used[codes] = True
        is_used[0] = False
        used = np.flatnonzero(is_used)
        self.size = len(used)
        self._numbers = np.zeros(len(is_used), np.int64)
        self._numbers[used] = np.arange(1, self.size + 1)
        self.bits = max(1, self.size.bit_length())

    def numbers(self, codes: Integers) -> Integers:
        """Return the number of each character; 0 for a character that the text does not have."""
        if int(codes.max(initial=0)) >= len(self._numbers):
            codes = np.where(codes < len(self._numbers), codes, 0)
        return self._numbers[codes]
