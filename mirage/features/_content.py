"""Words that say something, and how far a passage holds them in whatever form."""

from __future__ import annotations

from collections import Counter
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from mirage.languages import Language
from mirage.text import split_sentences, tokenize
from mirage.text.lexicon import lexicon
from mirage.text.mentions import stem
from mirage.text.numbers import without_numbers

__all__ = ["content_words", "function_words", "grams", "held", "held_by_sentence", "words"]

UNLIKE, ALIKE = 0.3, 0.7
"""Shares of a word's n-grams in another word up to which, and from which on, they are one word."""


@lru_cache(maxsize=4096)
def content_words(text: str, code: str) -> tuple[str, ...]:
    """The different words of a text without numbers and function words; all words if no other.

    Without accents. In a language of characters they are pairs of characters.
    """
    every = words(text, code)
    ordinary = function_words(code)
    return tuple(word for word in every if word not in ordinary) or every


@cache
def function_words(code: str) -> frozenset[str]:
    """The function words of a language, in the form that words of a text have here."""
    return frozenset(word for text in lexicon(code).function_words for word in words(text, code))


@lru_cache(maxsize=65536)
def held(word: str, passage: str, code: str) -> float:
    """How far a passage holds a word, from 0 to 1; see :func:`held_by_sentence`."""
    index = _index(passage, code)
    if word in index.numbers:
        return 1.0
    parts = _parts(word, code)
    most = max(_shared(parts, index).values(), default=0)
    return _likeness(most, parts)


@lru_cache(maxsize=65536)
def held_by_sentence(word: str, passage: str, code: str) -> tuple[float, ...]:
    """How far each sentence of a passage holds a word, in some form, from 0 to 1.

    The likeness of two words is the share of the first one's n-grams of characters, with a space
    before it, that the other holds; up to 0.3 it counts 0, from 0.7 on 1, and between in
    proportion. Pairs of characters are the same or not.
    """
    index = _index(passage, code)
    values = [0.0] * index.sentences
    if word in index.numbers:
        for place in index.places[index.numbers[word]]:
            values[place] = 1.0
        return tuple(values)
    parts = _parts(word, code)
    for number, count in _shared(parts, index).items():
        value = _likeness(count, parts)
        if value:
            for place in index.places[number]:
                values[place] = max(values[place], value)
    return tuple(values)


class _Index(NamedTuple):
    """A passage: its words' numbers, the sentences each is in, and the words that hold a gram."""

    sentences: int
    numbers: dict[str, int]
    places: list[list[int]]
    holders: dict[str, list[int]]


@lru_cache(maxsize=4096)
def _index(passage: str, code: str) -> _Index:
    sentences = split_sentences(passage, code)
    index = _Index(len(sentences), {}, [], {})
    for place, sentence in enumerate(sentences):
        for word in words(sentence, code):
            if word not in index.numbers:
                index.numbers[word] = len(index.places)
                for gram in _parts(word, code):
                    index.holders.setdefault(gram, []).append(len(index.places))
                index.places.append([])
            index.places[index.numbers[word]].append(place)
    return index


def _shared(grams: frozenset[str], index: _Index) -> Counter[int]:
    """How many of a word's grams each word of a passage holds, by the number of that word."""
    none: list[int] = []
    return Counter(chain.from_iterable(index.holders.get(gram, none) for gram in grams))


def _likeness(shared: int, grams: frozenset[str]) -> float:
    share = shared / len(grams) if grams else 0.0
    return min(1.0, max(0.0, (share - UNLIKE) / (ALIKE - UNLIKE)))


def _parts(word: str, code: str) -> frozenset[str]:
    """Grams that may stand for a word; none where only the word itself is like it."""
    entry = Language.of(code)
    return frozenset() if entry.tokens == "character" else grams(word, entry.gram_length)


@lru_cache(maxsize=16384)
def words(text: str, code: str) -> tuple[str, ...]:
    """The different words of a text without numbers; pairs of characters where nothing parts words.

    Without accents, and without short words that are only written as one with them.
    """
    entry = Language.of(code)
    tokens = [stem(token, entry) for token in tokenize(without_numbers(text), entry)]
    if entry.tokens == "character":
        joined = "".join(tokens)
        tokens = [joined[i : i + 2] for i in range(max(1, len(joined) - 1))]
    return tuple(dict.fromkeys(token for token in tokens if token))


@lru_cache(maxsize=65536)
def grams(word: str, length: int) -> frozenset[str]:
    """The n-grams of a word with a space before it; a shorter word is one."""
    padded = f" {word}"
    length = min(length, len(padded))
    return frozenset([padded[i : i + length] for i in range(len(padded) - length + 1)])
