"""Content words of texts, and how well a passage matches a word in any inflected form."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.languages import Language
from mirage.text import split_sentences, tokenize
from mirage.text.lexicon import lexicon
from mirage.text.mentions import stems
from mirage.text.numbers import without_numbers

__all__ = [
    "best_matches",
    "content_words",
    "function_words",
    "grams",
    "match_table",
    "packed_grams",
    "shared_grams",
    "words",
]

NO_MATCH_SHARE, FULL_MATCH_SHARE = 0.3, 0.7
"""Shares of shared n-grams up to which two words do not match, and from which they match fully."""


@lru_cache(maxsize=4096)
def content_words(text: str, code: str) -> tuple[str, ...]:
    """Return the distinct words of a text without function words.

    If the text consists of function words only, return all its words.

    Numbers are left out and accents removed. In languages that are written without spaces the words
    are pairs of characters.
    """
    every = words(text, code)
    ordinary = function_words(code)
    return tuple(word for word in every if word not in ordinary) or every


@cache
def function_words(code: str) -> frozenset[str]:
    """Return the function words of a language, normalised like the results of :func:`words`."""
    return frozenset(word for text in lexicon(code).function_words for word in words(text, code))


@lru_cache(maxsize=16384)
def best_matches(words: tuple[str, ...], passage: str, code: str) -> tuple[float, ...]:
    """Return for each word how well a passage matches it: the maxima of :func:`match_table`."""
    return tuple(match_table(words, passage, code).max(axis=1, initial=0.0).tolist())


@lru_cache(maxsize=4096)
def match_table(words: tuple[str, ...], passage: str, code: str) -> NDArray[np.float64]:
    """Return how well each sentence of a passage contains each word, from 0 to 1.

    The word of the sentence that is most similar counts. The similarity of two words is the share
    of the first word's character n-grams that occur in the second word; a space before a word
    belongs to its n-grams. A similarity up to 0.3 counts as 0 and one from 0.7 on as 1, with linear
    interpolation between them. A word that the passage contains unchanged matches the sentences
    that contain it, and no others. In languages written without spaces, the words are pairs of
    characters, which match exactly or not at all.

    Returns:
        One row for each word, and one column for each sentence.
    """
    index = _index_passage(passage, code)
    # The last column is for sentences without a word.
    matches = np.zeros((len(words), len(index.numbers) + 1))
    if Language.of(code).tokens == "word" and len(index.grams.values):
        table = _gram_table(words, Language.of(code).gram_length)
        matches[:, :-1] = _similarities(table, len(words), index.grams, len(index.numbers))
    for row, word in enumerate(words):
        if word in index.numbers:
            matches[row] = 0.0
            matches[row, index.numbers[word]] = 1.0
    if not len(index.starts):
        return np.zeros((len(words), 0))
    result: NDArray[np.float64] = np.maximum.reduceat(matches[:, index.order], index.starts, axis=1)
    return result


class _Grams(NamedTuple):
    """The distinct n-grams of each word in a list, sorted by n-gram.

    Attributes:
        values: The n-grams as integers; equal n-grams have equal integers.
        words: The number of the word that each n-gram belongs to.
    """

    values: NDArray[np.int64]
    words: NDArray[np.int64]


class _Index(NamedTuple):
    """An index of the words of a passage.

    Attributes:
        numbers: The number of each word, in order of first occurrence.
        grams: The n-grams of the words; none in languages written without spaces.
        order: The numbers of the words of each sentence, one sentence after the other. Before the
            words of each sentence stands the number -1.
        starts: The position in ``order`` at which each sentence starts.
    """

    numbers: dict[str, int]
    grams: _Grams
    order: NDArray[np.int64]
    starts: NDArray[np.int64]


@lru_cache(maxsize=4096)
def _index_passage(passage: str, code: str) -> _Index:
    numbers: dict[str, int] = {}
    order: list[int] = []
    starts = []
    for sentence in split_sentences(passage, code):
        starts.append(len(order))
        order.append(-1)
        order += [numbers.setdefault(word, len(numbers)) for word in words(sentence, code)]
    entry = Language.of(code)
    spaced = () if entry.tokens == "character" else tuple(numbers)
    return _Index(
        numbers, _gram_table(spaced, entry.gram_length), np.array(order, int), np.array(starts, int)
    )


_CODE_POINT_BITS = 21
_SPACE = ord(" ")


@lru_cache(maxsize=8192)
def _gram_table(words: tuple[str, ...], length: int) -> _Grams:
    """Return the n-grams of words, with the space before each word, as by :func:`grams`.

    A word too short for an n-gram is one itself, with a space in place of the missing character.
    """
    if not words:
        return _Grams(np.zeros(0, np.int64), np.zeros(0, np.int64))
    text = "".join(f" {word}" for word in words)
    codes = _code_points(text)
    is_space = codes == _SPACE
    numbers = np.cumsum(is_space) - 1  # the number of the word at each position
    # An n-gram is within a word if only its first character is a space. A word of a single letter
    # is shorter than an n-gram of three characters; its n-gram ends with a space.
    padded = np.append(is_space, np.ones(length - 1, bool))
    is_inside = ~padded[1 : len(text) + 1]
    if length > 2:
        is_inside &= ~padded[2:] | is_space
    values = packed_grams(text + " " * (length - 1), length)[is_inside]
    numbers = numbers[is_inside]
    order = np.argsort(values, kind="stable")  # the numbers ascend already
    values, numbers = values[order], numbers[order]
    is_first = np.ones(len(values), dtype=bool)
    is_first[1:] = (values[1:] != values[:-1]) | (numbers[1:] != numbers[:-1])
    return _Grams(values[is_first], numbers[is_first])


def packed_grams(text: str, length: int) -> NDArray[np.int64]:
    """Return the n-grams of a text in order, as integers with 21 bits for each character.

    Args:
        text: Text of any length.
        length: Number of characters of an n-gram, 2 or 3.
    """
    codes = _code_points(text)
    values = codes[: len(codes) - length + 1]
    for offset in range(1, length):
        values = values << _CODE_POINT_BITS | codes[offset : offset + len(values)]
    return values


def _code_points(text: str) -> NDArray[np.int64]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int64)


def shared_grams(
    words: tuple[str, ...], others: tuple[str, ...], length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each word how many of its n-grams the other words contain, and how many it has.

    Args:
        words: The words.
        others: The other words, which are taken together.
        length: The number of characters of the n-grams, 2 or 3.
    """
    table, values = _gram_table(words, length), _gram_table(others, length).values
    positions = np.searchsorted(values, table.values)
    is_shared = np.append(values, -1)[positions] == table.values
    totals = np.bincount(table.words, minlength=len(words))
    return np.bincount(table.words[is_shared], minlength=len(words)), totals


def _similarities(
    grams: _Grams, count: int, other_grams: _Grams, other_count: int
) -> NDArray[np.float64]:
    """Return the similarity of each word of a first list to each word of a second list.

    Args:
        grams: The n-grams of the first list.
        count: The number of words in the first list.
        other_grams: The n-grams of the second list.
        other_count: The number of words in the second list.
    """
    first = np.searchsorted(other_grams.values, grams.values, side="left")
    sizes = np.searchsorted(other_grams.values, grams.values, side="right") - first
    # Each pair of a word's n-gram with the same n-gram of another word adds one to their count.
    before = np.cumsum(sizes) - sizes
    matches = np.arange(sizes.sum()) + np.repeat(first - before, sizes)
    pairs = np.repeat(grams.words, sizes) * other_count + other_grams.words[matches]
    shared = np.bincount(pairs, minlength=count * other_count).reshape(count, other_count)
    totals = np.maximum(np.bincount(grams.words, minlength=count), 1)[:, None]
    share = shared / totals
    return np.clip((share - NO_MATCH_SHARE) / (FULL_MATCH_SHARE - NO_MATCH_SHARE), 0.0, 1.0)


@lru_cache(maxsize=16384)
def words(text: str, code: str) -> tuple[str, ...]:
    """Return the distinct words of a text; pairs of characters if it is written without spaces.

    Numbers are left out. Accents, and short words that a language writes joined to the next word,
    are removed.
    """
    entry = Language.of(code)
    tokens = stems(tokenize(without_numbers(text), entry), entry)
    if entry.tokens == "character":
        joined = "".join(tokens)
        tokens = [joined[i : i + 2] for i in range(max(1, len(joined) - 1))]
    return tuple(dict.fromkeys(token for token in tokens if token))


@lru_cache(maxsize=65536)
def grams(word: str, length: int) -> frozenset[str]:
    """Return the n-grams of a word with a space before it; a shorter word is a single n-gram."""
    padded = f" {word}"
    length = min(length, len(padded))
    return frozenset([padded[i : i + length] for i in range(len(padded) - length + 1)])
