"""Whether a text says a name, a number or a short phrase, whatever ending or accent it carries."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterator
from functools import cache, lru_cache

from mirage.languages import Language
from mirage.text._values import form_values, is_marked, plain_values, states_equal
from mirage.text.numbers import numbers, without_numbers
from mirage.text.tokens import tokenize

__all__ = ["MENTIONED_AT", "bare", "folded", "mention", "mentioned", "stem"]

SHORT = 4
"""Of a phrase with so few n-grams or fewer, none may lack."""

MENTIONED_AT = 0.75
"""The recall from which on a phrase counts as mentioned."""

_SAME_LETTERS = str.maketrans("أإآٱىةيك", "اااایهیک")
# Marks that make another letter: vowels of India and Thailand, the voicing of kana.
_KEPT_MARKS = {*range(0x0900, 0x1AB0), 0x3099, 0x309A}


def mention(phrase: str, text: str, language: str | Language) -> float:
    """How much of a short phrase one place of a text holds, from 0 to 1.

    The numbers of the phrase have to stand in the text, in any script's digits and with or without
    marks between them, or as equal values (``5.5 thousand`` for ``5,500``); else it is 0. Of the
    rest it is the share of character n-grams (3, or 2 where a character is a syllable or a word)
    found within one stretch of the text that is half as long again as the phrase. So endings, a
    title left out and small differences of spelling cost little, and letters from all over the text
    count for nothing. A phrase of four n-grams or fewer that is not there whole is at most 0.7.
    Case, width, accents and marks that a script may leave out are folded.

    Args:
        phrase: a name, a number, a few words; only that much is compared well.
        text: an answer.
        language: the language of both.

    Raises:
        UnknownNameError: no such language.
    """
    return _share(phrase, text, Language.of(language), 0.0)


def _share(phrase: str, text: str, entry: Language, least: float) -> float:
    """How much of a phrase a text holds; 0 if that is certainly less than ``least``."""
    stated = numbers(phrase)
    if not stated <= numbers(text) and not _has_values(phrase, text, entry):
        return 0.0
    pattern = folded(phrase, entry)
    if not pattern:
        return float(bool(stated))
    whole = folded(text, entry)
    if pattern in whole:
        return 1.0
    length = min(entry.gram_length, len(pattern))
    grams = {pattern[i : i + length] for i in range(len(pattern) - length + 1)}
    # Most phrases are not there: counting n-grams is much faster than to place them.
    if sum(gram in whole for gram in grams) < least * len(grams):
        return 0.0
    width = len(pattern) + max(4, len(pattern) // 2)
    most = _densest(whole, grams, width)
    share = most / len(grams)
    # Nile and Niger, with their article, differ in one of four.
    return share if most == len(grams) or len(grams) > SHORT else min(share, 0.7)


@lru_cache(maxsize=4096)
def mentioned(forms: tuple[str, ...], text: str, language: str) -> bool:
    """Whether a text mentions something in one of the forms that it may have.

    A form that is a date, a year, an amount with its unit or a person's name is mentioned in any
    equal form too: ``15 April 1912`` by ``15.04.1912``, ``6,600 km`` by ``4,100 miles``, ``Miguel
    de Cervantes`` by ``M. de Cervantes``.

    Raises:
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    if any(_share(form, text, entry, MENTIONED_AT) >= MENTIONED_AT for form in forms):
        return True
    return any(states_equal(value, text, language) for value in form_values(forms, language))


def _has_values(phrase: str, text: str, entry: Language) -> bool:
    """Whether a text has the numbers of a phrase as equal values: ``5.5 thousand`` for 5,500."""
    if not (is_marked(phrase, entry) or is_marked(text, entry)):
        return False  # then equal values have equal digits
    values = plain_values(phrase, entry)
    return (
        bool(values) and len(values) == len(numbers(phrase)) and values <= plain_values(text, entry)
    )


def _densest(text: str, grams: set[str], width: int) -> int:
    """The greatest number of different n-grams that begin within ``width`` characters."""
    window: deque[tuple[int, str]] = deque()
    counts: Counter[str] = Counter()
    most = 0
    for place, gram in sorted((at, one) for one in grams for at in _places(one, text)):
        window.append((place, gram))
        counts[gram] += 1
        while window[0][0] <= place - width:
            old = window.popleft()[1]
            counts[old] -= 1
            if not counts[old]:
                del counts[old]
        most = max(most, len(counts))
    return most


def _places(gram: str, text: str) -> Iterator[int]:
    place = text.find(gram)
    while place >= 0:
        yield place
        place = text.find(gram, place + 1)


@lru_cache(maxsize=4096)
def folded(text: str, entry: Language) -> str:
    """Words without numbers and without what may be left out, a space before each.

    No space stands after a word, so that a phrase is found at the beginning of a longer word: its
    ending costs nothing. Scripts without spaces have none.
    """
    tokens = tokenize(without_numbers(text), entry)
    gap = "" if entry.tokens == "character" else " "
    return "".join(gap + stem(token, entry) for token in tokens)


def stem(token: str, entry: Language) -> str:
    """A token as :func:`bare` leaves it, without what is only written as one with it."""
    word = bare(token)
    return _prefix(entry.prefixes).sub("", word) if entry.prefixes else word


@cache
def _prefix(prefixes: str) -> re.Pattern[str]:
    return re.compile(rf"^(?:{prefixes})(?=\w{{3}})")


@lru_cache(maxsize=1 << 15)
def bare(token: str) -> str:
    """A token without accents and points, with one letter for those that stand for each other."""
    if token.isascii():
        return token
    letters = (
        char
        for char in unicodedata.normalize("NFD", token)
        if unicodedata.category(char) != "Mn" or ord(char) in _KEPT_MARKS
    )
    return unicodedata.normalize("NFC", "".join(letters)).translate(_SAME_LETTERS)
