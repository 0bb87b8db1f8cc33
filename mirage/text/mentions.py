"""Decide whether a text mentions a name, number or short phrase, with any ending or accents."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from mirage._base.memo import Memo
from mirage.languages import Language
from mirage.text._values import form_values, is_marked, plain_values, states_equal
from mirage.text.lexicon import lexicon
from mirage.text.numbers import numbers, without_numbers
from mirage.text.quantities import HALF
from mirage.text.tokens import tokenize

__all__ = ["MENTIONED_AT", "bare", "folded", "mention", "mentioned", "stem", "stems"]

SHORT = 4
"""Maximum number of n-grams of a phrase that counts as mentioned only if all n-grams match."""

MENTIONED_AT = 0.75
"""Minimum recall at which a phrase counts as mentioned."""

_SAME_LETTERS = str.maketrans("أإآٱىةيك", "اااایهیک")
# Marks that change a letter into another: vowels of Indian scripts and Thai, voicing of kana.
_KEPT_MARKS = {*range(0x0900, 0x1AB0), 0x3099, 0x309A}


def mention(phrase: str, text: str, language: str | Language) -> float:
    """Return the share of a short phrase that occurs within a short span of a text, from 0 to 1.

    If a number of the phrase is not in the text, the result is 0. Numbers may be written in the
    digits of any script, with or without separators, or as equal values (``5.5 thousand`` for
    ``5,500``).

    For the rest of the phrase, the result is the share of its character n-grams that occur within
    one window of the text, which is about 1.5 times as long as the phrase. An n-gram has 3
    characters, or 2 if a character is a syllable or a word. Endings, an omitted title and small
    differences of spelling therefore lower the result only a little, and letters that are scattered
    over the text do not count. If a phrase has at most four n-grams and does not occur completely,
    the result is at most 0.7. Differences of case, character width, accents and optional marks are
    ignored.

    Args:
        phrase: Name, number or a few words; longer phrases are not compared reliably.
        text: Text to search, such as an answer.
        language: Language of the phrase and the text.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> mention("Nile", "The river Nile's length is unknown.", "en")
        1.0
        >>> mention("Nile", "It is the Congo.", "en") < MENTIONED_AT
        True
    """
    return _mention_score(phrase, text, Language.of(language), 0.0)


def _mention_score(phrase: str, text: str, entry: Language, minimum: float) -> float:
    """Return the score of :func:`mention`, or 0 if the score is certainly less than ``minimum``."""
    phrase_numbers = numbers(phrase)
    if not phrase_numbers <= numbers(text) and not _has_values(phrase, text, entry):
        return 0.0
    pattern = folded(phrase, entry)
    if not pattern:
        return float(bool(phrase_numbers))
    folded_text = folded(text, entry)
    if pattern in folded_text:
        return 1.0
    if _has_other_half(phrase, text, entry):
        return 0.0
    length = min(entry.gram_length, len(pattern))
    grams = {pattern[i : i + length] for i in range(len(pattern) - length + 1)}
    # Most phrases are not mentioned. Counting n-grams is much faster than locating them.
    if sum(gram in folded_text for gram in grams) < minimum * len(grams):
        return 0.0
    width = len(pattern) + max(4, len(pattern) // 2)
    best_count = _most_ngrams_in_window(folded_text, grams, width)
    share = best_count / len(grams)
    # Every n-gram of a short phrase must match, because "Nile" and "Niger" differ in few n-grams.
    return share if best_count == len(grams) or len(grams) > SHORT else min(share, 0.7)


@lru_cache(maxsize=4096)
def mentioned(forms: tuple[str, ...], text: str, language: str) -> bool:
    """Return whether a text mentions an answer in one of its accepted spellings.

    If a spelling is a date, a year, an amount with its unit or a person's name, other ways to write
    the same value count too: ``15.04.1912`` for ``15 April 1912``, ``4,100 miles`` for ``6,600
    km``, ``M. de Cervantes`` for ``Miguel de Cervantes``.

    Args:
        forms: Accepted spellings of one answer.
        text: Answer of a system.
        language: Language of the spellings and the text.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> mentioned(("15 April 1912",), "It sank on 15.04.1912.", "en")
        True
    """
    entry = Language.of(language)
    if any(_mention_score(form, text, entry, MENTIONED_AT) >= MENTIONED_AT for form in forms):
        return True
    return any(states_equal(value, text, language) for value in form_values(forms, language))


def _has_values(phrase: str, text: str, entry: Language) -> bool:
    """Return whether a text contains all numbers of a phrase, possibly in another notation.

    For example, a text with "5.5 thousand" contains the number of the phrase "5,500 km".
    """
    if not (is_marked(phrase, entry) or is_marked(text, entry)):
        return False  # without marks and multipliers, equal values have equal digits
    values = plain_values(phrase, entry)
    return (
        bool(values) and len(values) == len(numbers(phrase)) and values <= plain_values(text, entry)
    )


def _has_other_half(phrase: str, text: str, entry: Language) -> bool:
    """Return whether phrase and text state different numbers with a half, both in words.

    Such numbers need a separate check, because "three and a half hours" and "four and a half hours"
    have most n-grams in common.
    """
    if entry.tokens == "character" or not HALF.search(phrase) or not HALF.search(text):
        return False
    wanted, stated = _word_values(phrase, entry), _word_values(text, entry)
    return bool(wanted and stated) and not wanted & stated


@lru_cache(maxsize=4096)
def _word_values(text: str, entry: Language) -> frozenset[float]:
    """Return the numbers above 1 that a text states in words, such as 3 in ``dreieinhalb``."""
    values = lexicon(entry.code).numbers
    words = []
    for token in tokenize(text, entry):
        ends = range(len(token), 2, -1) if HALF.search(token) else (len(token),)
        words.append(next((values[token[:end]] for end in ends if token[:end] in values), 0))
    return frozenset(value for value in words if value > 1)


def _most_ngrams_in_window(text: str, grams: set[str], width: int) -> int:
    """Return the largest number of different n-grams that begin within one window of a text.

    Args:
        text: The text.
        grams: The n-grams to count.
        width: Number of characters of the window.
    """
    window: deque[tuple[int, str]] = deque()
    counts: Counter[str] = Counter()
    best_count = 0
    for position, gram in sorted(
        (offset, ngram) for ngram in grams for offset in _find_all(ngram, text)
    ):
        window.append((position, gram))
        counts[gram] += 1
        while window[0][0] <= position - width:
            expired = window.popleft()[1]
            counts[expired] -= 1
            if not counts[expired]:
                del counts[expired]
        best_count = max(best_count, len(counts))
    return best_count


def _find_all(gram: str, text: str) -> Iterator[int]:
    position = text.find(gram)
    while position >= 0:
        yield position
        position = text.find(gram, position + 1)


@lru_cache(maxsize=4096)
def folded(text: str, entry: Language) -> str:
    """Return the stems of a text's words, without numbers, each with a space before it.

    No space follows the last word. Therefore a phrase also matches if its last word has an ending
    in the text. In scripts without spaces, no spaces are added.
    """
    tokens = tokenize(without_numbers(text), entry)
    gap = "" if entry.tokens == "character" else " "
    return "".join([gap + token for token in stems(tokens, entry)])


def stems(tokens: Sequence[str], entry: Language) -> Sequence[str]:
    """Return the results of :func:`stem` for several tokens."""
    table = _stem_table(entry)
    if entry.prefixes:
        return [table[token] for token in tokens]
    # A word in ASCII has no accents, so it is not looked up in the table.
    return [token if token.isascii() else table[token] for token in tokens]


@cache
def _stem_table(entry: Language) -> Memo[str, str]:
    return Memo(lambda token: stem(token, entry))


def stem(token: str, entry: Language) -> str:
    """Return a token without accents and without an attached prefix such as an article."""
    word = bare(token)
    return _prefix(entry.prefixes).sub("", word) if entry.prefixes else word


@cache
def _prefix(prefixes: str) -> re.Pattern[str]:
    return re.compile(rf"^(?:{prefixes})(?=\w{{3}})")


@lru_cache(maxsize=1 << 15)
def bare(token: str) -> str:
    """Return a token without accents and vowel points.

    Letters that are interchangeable in Arabic scripts become one letter.
    """
    return bare_text(token)


def bare_text(text: str) -> str:
    """Return a text without accents and vowel points, like :func:`bare`, but without a cache."""
    if text.isascii():
        return text
    letters = unicodedata.normalize("NFD", text).translate(_LETTERS)
    return unicodedata.normalize("NFC", letters).translate(_SAME_LETTERS)


class _Letters(dict[int, int | None]):
    """A table for :meth:`str.translate` that drops accents; filled as characters are looked up."""

    def __missing__(self, code: int) -> int | None:
        is_dropped = unicodedata.category(chr(code)) == "Mn" and code not in _KEPT_MARKS
        self[code] = None if is_dropped else code
        return self[code]


_LETTERS = _Letters()
