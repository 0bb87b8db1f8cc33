"""Probabilities of languages from the trigrams of a text.

The n-gram frequencies and the rules are those of lingua (https://github.com/pemistahl/lingua-py,
Apache-2.0) in its low accuracy mode, and the results equal those of lingua 2.1. That package has 75
languages and takes 96 to 292 MB; ``mirage/data/trigrams.npz`` has the 26 that Mirage distinguishes.
``corpora/trigrams.py`` builds it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage.languages import ALL_LANGUAGES

__all__ = ["languages_by_script", "trigram_logs"]

_LETTERS = r"[^\W\d_]+"
_WORD = re.compile(_LETTERS)
_WORD_WITH_VOWEL_SIGNS = re.compile(rf"[\u0900-\u0950\u0955-\u0963\u0971-\u097f]+|{_LETTERS}")

# Letters that only one of the languages uses.
_UNIQUE_LETTERS = {
    letter: code
    for letters, code in {"ï": "ca", "ß": "de", "ळ": "mr", "ґєї": "uk", "ṣ": "yo"}.items()
    for letter in letters
}
# Letters that few of the languages use. If half of the words have one, only these languages remain.
_SHARED_LETTERS = {
    letter: tuple(codes.split())
    for letters, codes in {
        "ã": "pt",
        "îû": "fr",
        "ñ": "es",
        "āēīōūẹọ": "yo",
        "ë": "fr nl",
        "âêô": "fr pt",
        "ç": "ca fr pt",
        "é": "ca es fr it pt yo",
        "áíóú": "ca es pt yo",
        "à": "ca fr it pt",
        "èù": "fr it yo",
        "ì": "it yo",
        "ò": "ca it yo",
        "õ": "et pt",
        "äö": "de et fi",
        "ü": "ca de es et",
        "åæø": "da",
        "і": "be uk",
        "ёыэ": "be ru",
        "щъ": "bg ru",
    }.items()
    for letter in letters
}
_SPECIAL_LETTERS = frozenset(_UNIQUE_LETTERS) | frozenset(_SHARED_LETTERS)


def trigram_logs(text: str, script: str, languages: Sequence[str]) -> Mapping[str, float]:
    """Return the log probability of each language, from the trigrams of a text.

    Args:
        text: Words in one script.
        script: Name of the script, a key of :func:`languages_by_script`.
        languages: ISO 639-1 codes of the possible languages.

    Returns:
        The natural logarithm of each language's probability. It is ``-inf`` if the letters of the
        text rule the language out. The result is empty if no trigram of the text occurs in the data
        of any language.

    Example:
        >>> logs = trigram_logs("the language of an answer", "Latin", ("de", "en", "fr"))
        >>> max(logs, key=logs.__getitem__)
        'en'
    """
    text = text.lower()
    words = (_WORD_WITH_VOWEL_SIGNS if script == "Devanagari" else _WORD).findall(text)
    possible = _possible_languages(words, languages) if words else ()
    if len(possible) > 1:
        sums = _sum_logs(words, script, possible)
        if not sums:
            return {}
        largest = max(sums.values())
        total = largest + math.log(sum(math.exp(log - largest) for log in sums.values()))
        logs = {code: log - total for code, log in sums.items()}
    elif possible:
        logs = dict.fromkeys(possible, 0.0)
    else:
        return {}
    return {code: logs.get(code, -math.inf) for code in languages}


def languages_by_script() -> Mapping[str, tuple[str, ...]]:
    """Return the codes of the languages that trigrams distinguish, by the name of their script.

    These are the supported languages, and the languages that are easily mistaken for them. A script
    that only one of these languages uses is left out.
    """
    codes: dict[str, set[str]] = {}
    for entry in ALL_LANGUAGES.values():
        codes.setdefault(entry.script, set()).update((entry.code, *entry.neighbours))
    return {script: tuple(sorted(group)) for script, group in codes.items() if len(group) > 1}


def _possible_languages(words: Sequence[str], languages: Sequence[str]) -> Sequence[str]:
    """Return those of ``languages`` that are possible, given the special letters in the words.

    A special letter, such as ß or ñ, is used in only one or a few languages. If few words have
    special letters, all languages are possible. Otherwise only those that use these letters are.
    """
    # All special letters are outside of ASCII.
    marked = [word for word in words if not word.isascii()]
    special = [word for word in marked if not _SPECIAL_LETTERS.isdisjoint(word)]
    if not special:
        return languages
    language = _language_by_unique_letters(special, len(words), languages)
    if language:
        return (language,)
    counts: Counter[str] = Counter()
    for word in special:
        for letter in set(word):
            counts.update(_SHARED_LETTERS.get(letter, ()))
    return [code for code in languages if counts[code] >= len(words) / 2] or languages


def _language_by_unique_letters(
    special: Sequence[str], size: int, languages: Sequence[str]
) -> str | None:
    """Return the language whose unique letters occur in most words; ``None`` if there is none.

    Args:
        special: The words with special letters.
        size: Total number of words. The result is ``None`` if at least half of them have no letter
            that is unique to a language.
        languages: The possible languages.
    """
    counts: Counter[str] = Counter()
    for word in special:
        code = _most_common(
            Counter(
                _UNIQUE_LETTERS[letter]
                for letter in word
                if _UNIQUE_LETTERS.get(letter) in languages
            )
        )
        if code:
            counts[code] += 1
    return None if size - counts.total() >= size / 2 else _most_common(counts)


def _most_common(counts: Counter[str]) -> str | None:
    """Return the most frequent language; ``None`` if two are equally frequent, or there is none."""
    ranked = counts.most_common(2)
    tied = len(ranked) == 2 and ranked[0][1] == ranked[1][1]
    return ranked[0][0] if ranked and not tied else None


# Tables -------------------------------------------------------------------------------------------


class _Table(NamedTuple):
    """The log probabilities of the n-grams of a script.

    Attributes:
        rows: The row in ``logs`` of each n-gram of one to three letters. Row 0 belongs to no
            n-gram; its values are 0.
        columns: The column in ``logs`` of each language.
        logs: The log probability of the last letter of each n-gram, given the letters before it. If
            a language has no data on an n-gram, the value is that of the n-gram without its last
            letter.
    """

    rows: Mapping[str, int]
    columns: Mapping[str, int]
    logs: Floats


def _sum_logs(words: Sequence[str], script: str, languages: Sequence[str]) -> Mapping[str, float]:
    """Return, for each language, the sum of the log probabilities of the words' trigrams.

    Each distinct trigram counts once. Languages without data on any of the letters are left out.
    """
    trigrams = dict.fromkeys(
        [word[start : start + 3] for word in words for start in range(len(word) - 2)]
    )
    if not trigrams:
        return {}
    table = _table(script)
    row = table.rows.get
    rows = [row(gram) or row(gram[:2]) or row(gram[0], 0) for gram in trigrams]
    sums = table.logs[rows].sum(axis=0).tolist()
    logs = ((code, sums[table.columns[code]]) for code in languages if code in table.columns)
    return {code: log for code, log in logs if log < 0}


@cache
def _table(script: str) -> _Table:
    """Read the n-grams of a script from the data file, with a column for each of its languages.

    Languages that are not in the file are left out, as it may not have been rebuilt yet.
    """
    source = resources.files("mirage") / "data" / "trigrams.npz"
    with source.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        codes = [
            code
            for code in languages_by_script()[script]
            if f"{script}.{code}.{_COLUMN[0]}" in arrays
        ]
        if not codes:
            return _Table({}, {}, np.zeros((1, 0)))
        grams = _split_grams(
            arrays[f"{script}.grams"], sizes := arrays[f"{script}.counts"].tolist()
        )
        parents = arrays[f"{script}.parents"].astype(np.intp)
        logs = np.stack(
            [
                _column([arrays[f"{script}.{code}.{name}"] for name in _COLUMN], len(grams) + 1)
                for code in codes
            ],
            axis=1,
        )
    start = 1 + sizes[0]
    for size in sizes[1:]:  # pairs before trigrams, which may need the filled-in value of a pair
        block = slice(start, start + size)
        logs[block] = np.where(np.isnan(logs[block]), logs[parents[block]], logs[block])
        start += size
    return _Table(
        dict(zip(grams, range(1, len(grams) + 1), strict=True)),
        {code: column for column, code in enumerate(codes)},
        np.nan_to_num(logs),
    )


_COLUMN = ("steps", "values", "numerators", "denominators")


def _column(arrays: Sequence[Floats], size: int) -> Floats:
    """Return the log probability of each n-gram in one language; NaN without data on the n-gram.

    Args:
        arrays: The language's arrays in the data file, in the order of ``_COLUMN``.
        size: Number of rows of the table.
    """
    steps, values, numerators, denominators = arrays
    column = np.full(size, np.nan)
    column[np.cumsum(steps, dtype=np.intp)] = np.log(numerators / denominators)[values]
    return column


def _split_grams(letters: NDArray[np.uint16], sizes: Sequence[int]) -> list[str]:
    """Split letters into n-grams: first those of one letter, then of two, then of three.

    Args:
        letters: Code points of the letters of all n-grams, one after another.
        sizes: Number of n-grams of each length.
    """
    grams: list[str] = []
    start = 0
    for length, size in enumerate(sizes, start=1):
        end = start + length * size
        grams += letters[start:end].astype(np.uint32).view(f"U{length}").tolist()
        start = end
    return grams
