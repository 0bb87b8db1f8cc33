"""Content words of texts, and how well a passage matches a word in any inflected form."""

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

__all__ = [
    "content_words",
    "function_words",
    "grams",
    "word_match",
    "word_match_by_sentence",
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


@lru_cache(maxsize=65536)
def word_match(word: str, passage: str, code: str) -> float:
    """Return how well a passage matches a word, from 0 to 1.

    It is the maximum of :func:`word_match_by_sentence`.
    """
    index = _index_passage(passage, code)
    if word in index.numbers:
        return 1.0
    parts = _word_grams(word, code)
    most = max(_count_shared_grams(parts, index).values(), default=0)
    return _similarity(most, parts)


@lru_cache(maxsize=65536)
def word_match_by_sentence(word: str, passage: str, code: str) -> tuple[float, ...]:
    """Return for each sentence of a passage how well it contains a word, from 0 to 1.

    The word of the sentence that is most similar counts. The similarity of two words is the share
    of the first word's character n-grams that occur in the second word; a space before a word
    belongs to its n-grams. A similarity up to 0.3 counts as 0 and one from 0.7 on as 1, with linear
    interpolation between them. In languages written without spaces, the words are pairs of
    characters, which match exactly or not at all.
    """
    index = _index_passage(passage, code)
    values = [0.0] * index.sentences
    if word in index.numbers:
        for sentence in index.places[index.numbers[word]]:
            values[sentence] = 1.0
        return tuple(values)
    parts = _word_grams(word, code)
    for number, count in _count_shared_grams(parts, index).items():
        value = _similarity(count, parts)
        if value:
            for sentence in index.places[number]:
                values[sentence] = max(values[sentence], value)
    return tuple(values)


class _Index(NamedTuple):
    """An index of the words of a passage.

    Attributes:
        sentences: Number of sentences.
        numbers: The number of each word, in order of first occurrence.
        places: Sentences that contain each word, by word number.
        holders: Numbers of the words that contain each n-gram.
    """

    sentences: int
    numbers: dict[str, int]
    places: list[list[int]]
    holders: dict[str, list[int]]


@lru_cache(maxsize=4096)
def _index_passage(passage: str, code: str) -> _Index:
    sentences = split_sentences(passage, code)
    index = _Index(len(sentences), {}, [], {})
    for sentence, sentence_text in enumerate(sentences):
        for word in words(sentence_text, code):
            if word not in index.numbers:
                index.numbers[word] = len(index.places)
                for gram in _word_grams(word, code):
                    index.holders.setdefault(gram, []).append(len(index.places))
                index.places.append([])
            index.places[index.numbers[word]].append(sentence)
    return index


def _count_shared_grams(grams: frozenset[str], index: _Index) -> Counter[int]:
    """Return how many of these n-grams occur in each word of a passage, by word number."""
    none: list[int] = []
    return Counter(chain.from_iterable(index.holders.get(gram, none) for gram in grams))


def _similarity(shared: int, grams: frozenset[str]) -> float:
    """Return the similarity of two words from their number of shared n-grams, from 0 to 1.

    Args:
        shared: Number of the first word's n-grams that occur in the second word.
        grams: The n-grams of the first word.
    """
    share = shared / len(grams) if grams else 0.0
    return min(1.0, max(0.0, (share - NO_MATCH_SHARE) / (FULL_MATCH_SHARE - NO_MATCH_SHARE)))


def _word_grams(word: str, code: str) -> frozenset[str]:
    """Return the character n-grams by which inflected forms of a word are matched.

    The result is empty for a pair of characters, in languages written without spaces.
    """
    entry = Language.of(code)
    return frozenset() if entry.tokens == "character" else grams(word, entry.gram_length)


@lru_cache(maxsize=16384)
def words(text: str, code: str) -> tuple[str, ...]:
    """Return the distinct words of a text; pairs of characters if it is written without spaces.

    Numbers are left out. Accents, and short words that a language writes joined to the next word,
    are removed.
    """
    entry = Language.of(code)
    tokens = [stem(token, entry) for token in tokenize(without_numbers(text), entry)]
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
