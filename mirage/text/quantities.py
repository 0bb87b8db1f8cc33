"""Find the numbers and dates of a text, in digits of any script and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from mirage._base.memo import Memo
from mirage.languages import Language
from mirage.text._unicode import any_of
from mirage.text.lexicon import lexicon
from mirage.text.words import IN_WORD, WORD

__all__ = [
    "HALF",
    "NUMERIC_DATE",
    "Date",
    "Digits",
    "Quantity",
    "dates",
    "days_in",
    "digit_quantities",
    "in_digits",
    "multiplier_at",
    "multiplies",
    "numeric_dates",
    "quantities",
    "values_in",
    "word_values",
]

Values = frozenset[float]
Day = tuple[int, int]  # day and month

_MULTIPLIER = 100  # a number word of at least this value multiplies the number before it
_MARKS = ".,٫٬'’ \u00a0\u2009\u202f"
# A search is fast only if the pattern begins with a set of characters, here with a digit.
_DIGITS = re.compile(
    rf"\d(?:\d?[:：]\d\d(?!\d)|(?:\d{{0,2}}(?:[{_MARKS}]\d{{3}})+(?!\d)|\d*)(?:[.,٫]\d+)*)"
)
_MARK = re.compile(rf"[{_MARKS}]")
_SEPARATOR = re.compile(rf"[{_MARKS}:：]")
_RUNS_OF_DIGITS = re.compile(r"\d++(?:[ \u00a0-]\d++)+")
_IN_A_NAME = re.compile(r"[A-Za-z]-?\Z|\d[A-Za-z]+\Z")
_JOINTS = " \u00a0-"
_HAN = "零〇一二三四五六七八九十百千万萬億亿兆两兩"
_HAN_NUMBER = re.compile(f"[{_HAN}]+")
_HAN_DIGITS = dict(zip("零〇一二三四五六七八九两兩", (0, 0, *range(1, 10), 2, 2), strict=True))
_HAN_POWERS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4} | {
    "億": 10**8,
    "亿": 10**8,
    "兆": 10**12,
}
# Numbers with at least three parts, such as 이천사백; a lexicon has the shorter ones.
_HANGUL_NUMBER = re.compile(
    "(?=[일이삼사오육칠팔구]?[십백천만억][일이삼사오육칠팔구]?[십백천만억])"
    "(?:[일이삼사오육칠팔구]?[십백천만억])+(?:[삼사오육칠팔구]|(?<=[십백])[일이])?"
)
_HANGUL_TO_HAN = str.maketrans("일이삼사오육칠팔구십백천만억", "一二三四五六七八九十百千万億")
_LONGEST_PARTICLE = 3

HOURS = 24

UNMISTAKABLE = 6
"""Minimum number of letters of a month's name that counts as a date without a day or year."""

LONGEST_WORD = 60
"""Maximum number of characters of a number word."""


class Quantity(NamedTuple):
    """A number in a text.

    Attributes:
        start: Offset of the first character.
        end: Offset after the last character.
        values: Values that the number may have.
        spelled: Whether the number is written in words.
    """

    start: int
    end: int
    values: Values
    spelled: bool


class Date(NamedTuple):
    """A date in a text.

    Attributes:
        start: Offset of the first character.
        end: Offset after the last character.
        day: The day; ``None`` if it is not stated.
        month: The month, 1 to 12.
        year: The year; ``None`` if it is not stated.
    """

    start: int
    end: int
    day: int | None
    month: int
    year: int | None


def quantities(text: str, language: str | Language) -> tuple[Quantity, ...]:
    """Return the numbers of a text, in digits and in words, in order.

    Digits in a name (``K2``, ``COVID-19``) are left out. Number words are those of the language's
    lexicon and their compounds. If a script has no spaces between words, only unambiguous number
    words count.

    Args:
        text: Text to search.
        language: Language of the number words.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> [sorted(q.values) for q in quantities("It has 550 seats in three halls.", "en")]
        [[550.0], [3.0]]
    """
    entry = Language.of(language)
    digits = list(digit_quantities(text, entry))
    digit_offsets = {
        offset for quantity in digits for offset in range(quantity.start, quantity.end)
    }
    word_quantities = (
        q for q in _iter_word_quantities(text, entry) if q.start not in digit_offsets
    )
    return tuple(sorted((*digits, *word_quantities)))


class Digits(NamedTuple):
    """A text with digits in place of its numbers in words.

    Attributes:
        text: The text with digits.
        changes: Start and end of each changed number in this text, and in the original text.
    """

    text: str
    changes: tuple[tuple[int, int, int, int], ...]

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original text for a span of the text with digits."""
        first, last = start, end
        for start_here, end_here, original_start, original_end in self.changes:
            if start >= start_here:
                inside = start < end_here
                first = original_start if inside else start - end_here + original_end
            if end > start_here:
                last = original_end + max(end - end_here, 0)
        return first, last


@lru_cache(maxsize=4096)
def in_digits(text: str, entry: Language) -> Digits:
    """Write the numbers in words of a text in digits: "45 metres" for "forty-five metres".

    Ambiguous numbers stay as they are, and so do numbers with a half or beside other digits. Words
    for one stay because they may be articles.
    """
    pieces: list[str] = []
    changes: list[tuple[int, int, int, int]] = []
    cursor = length = 0
    for start, end, values, _ in _iter_word_quantities(text, entry):
        if len(values) == 1 and max(values) >= 2 and _stands_alone(text, start, end):
            digits = f"{max(values):.0f}"
            pieces += (text[cursor:start], digits)
            length += start - cursor
            changes.append((length, length + len(digits), start, end))
            cursor, length = end, length + len(digits)
    return (
        Digits("".join([*pieces, text[cursor:]]), tuple(changes)) if changes else Digits(text, ())
    )


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Return whether neither digits nor a half are near a number in words."""
    return not (
        _DIGIT_BEHIND.match(text, end)
        or _DIGIT_BEFORE.search(text, max(start - 2, 0), start)
        or HALF.search(text[max(start - _NEAR, 0) : end + _NEAR].casefold())
    )


_DIGIT_BEHIND = re.compile(r"[\s.,-]?\d")
_DIGIT_BEFORE = re.compile(r"\d[\s.,-]?\Z")
_NEAR = 20

HALF = re.compile(
    "half|halves|halb|puoli|demi|medi[ao]|mezz[ao]|mei[ao]|setengah|половин|nusu|àbọ̀|نصف|نیم|"
    "साढ़े|সাড়ে|న్నర|반|半|ครึ่ง"
)
"""Words for a half, and parts of such words."""


@lru_cache(maxsize=4096)
def values_in(text: str, language: str | Language) -> Values:
    """Return all values that the numbers in a text may have.

    The result contains the values of :func:`quantities`. It also contains the parts of times, dates
    and compound number words, numbers in names, and the hours of times on both the 12- and the
    24-hour clock. Numbers separated by spaces are also read as one number.

    Args:
        text: Text to search.
        language: Language of the number words.

    Raises:
        UnknownNameError: If there is no such language.
    """
    entry = Language.of(language)
    values: set[float] = set()
    for number in set(_DIGITS.findall(text)):
        values |= _digit_values(number) | _parts(number)
    # Each search for digits takes as long as the rest, and many texts have none.
    for quantity in digit_quantities(text, entry) if values else ():
        values |= quantity.values
    for run in _RUNS_OF_DIGITS.findall(text) if values else ():
        values.add(float("".join(filter(str.isdecimal, run))[:15]))
    for quantity in _iter_word_quantities(text, entry, loose=True):
        values |= quantity.values
    return frozenset(values)


@lru_cache(maxsize=4096)
def _digit_values(number: str) -> Values:
    parts = [part[:15] for part in _SEPARATOR.split(number)]
    values = set()
    if ":" in number or "：" in number:
        return _times(int(parts[0]), int(parts[1]))
    if all(len(part) == 3 for part in parts[1:]):
        values.add(float("".join(parts)[:15]))
    if len(parts) == 2:
        values.add(float(f"{parts[0]}.{parts[1]}"))
        if len(parts[1]) == 2 and int(parts[0]) <= HOURS and int(parts[1]) < 60:
            values |= _times(int(parts[0]), int(parts[1]))
    elif len(parts) > 2:
        marks = _MARK.findall(number)
        if marks[-1] != marks[-2]:
            values.add(float(f"{''.join(parts[:-1])[:15]}.{parts[-1]}"))
    return frozenset(values or map(float, parts))


def _times(hour: int, minute: int) -> Values:
    """Return a time as decimal numbers on the 12- and 24-hour clock: 3:30 as 3.3 and 15.3.

    A full hour is also included as a whole number of hours.
    """
    hours = {hour, hour % 12, hour % 12 + 12} if hour <= HOURS else {hour}
    times = {round(hour + minute / 100, 2) for hour in hours}
    return frozenset(times | (set(map(float, hours)) if minute == 0 else set()))


@lru_cache(maxsize=4096)
def _parts(number: str) -> Values:
    parts = [float(part[:15]) for part in _SEPARATOR.split(number)]
    hours = {parts[0] % 12, parts[0] % 12 + 12} if len(parts) == 2 and parts[0] <= HOURS else set()
    return frozenset({*parts, *hours})


def digit_quantities(text: str, entry: Language) -> Iterator[Quantity]:
    """Yield the numbers of a text that are written in digits, as :func:`quantities` does."""
    until = 0
    for match in _DIGITS.finditer(text):
        start, end = match.span()
        if start < until or _IN_A_NAME.search(text, max(start - 4, 0), start):
            continue
        values = _digit_values(match[0])
        end, values = _apply_multiplier(text, end, values, entry)
        until = end
        yield Quantity(start, end, values, False)


def _apply_multiplier(text: str, end: int, values: Values, entry: Language) -> tuple[int, Values]:
    """Multiply a number in digits by the word after it, as in ``3 million`` and ``35万``.

    Returns:
        The offset after the word, and the possible values of the product.
    """
    match = _multiplier_pattern(entry).match(text, end)
    if match is None:
        return end, values
    factor = _factor(match[1], entry)
    products = frozenset(round(value * factor, 3) for value in values)
    rest = _DIGITS.match(text, match.end())
    if rest is None or not _allows_number_inside_run(entry):
        return match.end(), products
    end, remainder = _apply_multiplier(text, rest.end(), _digit_values(rest[0]), entry)
    return end, frozenset(a + b for a in products for b in remainder)


@lru_cache(maxsize=64)
def _multiplier_pattern(entry: Language) -> re.Pattern[str]:
    words = [word for word, value in lexicon(entry.code).numbers.items() if value >= _MULTIPLIER]
    if entry.script in ("Han", "Japanese"):
        return re.compile("[ \u00a0]?([百千万萬億亿兆]+)")
    end = "" if _allows_number_inside_run(entry) else f"(?![{IN_WORD}])"
    return re.compile(rf"[\s-]?({any_of(words) or '(?!)'}){end}", re.IGNORECASE)


def multiplier_at(text: str, end: int, entry: Language) -> tuple[int, int]:
    """Return the end and the factor of a word that multiplies the number before it.

    In "3 million" the factor is 1,000,000. If there is no such word, return ``end`` and the factor
    1.

    Args:
        text: Text with the number.
        end: Offset after the number.
        entry: Language of the text.
    """
    match = _multiplier_pattern(entry).match(text, end)
    return (end, 1) if match is None else (match.end(), int(_factor(match[1], entry)))


def multiplies(text: str, entry: Language) -> bool:
    """Return whether a word in a text multiplies the number before it, as in "3 million"."""
    return _multiplied_number_pattern(entry).search(text) is not None


@lru_cache(maxsize=64)
def _multiplied_number_pattern(entry: Language) -> re.Pattern[str]:
    multiplier = _multiplier_pattern(entry)
    return re.compile(rf"\d{multiplier.pattern}", multiplier.flags)


def _factor(word: str, entry: Language) -> float:
    if entry.script in ("Han", "Japanese"):
        return math.prod(_HAN_POWERS[char] for char in word)
    return lexicon(entry.code).numbers[word.casefold()]


def _allows_number_inside_run(entry: Language) -> bool:
    """Return whether the language may write number words without spaces around them."""
    return entry.gram_length == 2


# Words --------------------------------------------------------------------------------------------


def _iter_word_quantities(text: str, entry: Language, loose: bool = False) -> Iterator[Quantity]:
    if entry.script in ("Han", "Japanese"):
        yield from _iter_han_quantities(text, loose)
    elif entry.script == "Thai":
        yield from _iter_thai_quantities(text, entry, loose)
    else:
        yield from _iter_spaced_quantities(text, entry, loose)


def _iter_han_quantities(text: str, loose: bool) -> Iterator[Quantity]:
    for match in _HAN_NUMBER.finditer(text):
        if len(match[0]) > 1 or loose:
            values = _han_values(match[0])
            if loose:
                values = values.union(*map(_han_values, match[0]))
            yield Quantity(match.start(), match.end(), values, True)


@lru_cache(maxsize=4096)
def _han_values(number: str) -> Values:
    if all(char in _HAN_DIGITS for char in number):
        if len(number) == 2:  # 七八 is seven or eight
            return frozenset(float(_HAN_DIGITS[char]) for char in number)
        return frozenset((float("".join(str(_HAN_DIGITS[char]) for char in number)[:15]),))
    total = section = digit = 0
    for char in number[:30]:
        power = _HAN_POWERS.get(char, 0)
        if not power:
            digit = _HAN_DIGITS[char]
        elif power < 10**4:
            section += (digit or 1) * power
            digit = 0
        else:
            total += ((section + digit) or 1) * power
            section = digit = 0
    return frozenset((float(total + section + digit),))


@lru_cache(maxsize=4)
def _thai_number_pattern(entry: Language) -> re.Pattern[str]:
    words = [
        word for word, value in lexicon(entry.code).numbers.items() if value == int(value) != 0
    ]
    alternatives = any_of(word for word in words if not any(map(str.isdecimal, word)))
    return re.compile(f"(?:{alternatives})+")


def _iter_thai_quantities(text: str, entry: Language, loose: bool) -> Iterator[Quantity]:
    pattern = _thai_number_pattern(entry)
    single_number = re.compile(pattern.pattern[:-1])
    for match in pattern.finditer(text):
        parts = [
            float(lexicon(entry.code).numbers[word]) for word in single_number.findall(match[0])
        ]
        values = _compose_values(parts, entry)
        if loose:
            values |= set(parts)
        elif len(parts) == 1 and parts[0] < 10:
            continue
        yield Quantity(match.start(), match.end(), values, True)


def _iter_spaced_quantities(text: str, entry: Language, loose: bool) -> Iterator[Quantity]:
    conjunctions, table = _conjunctions(entry), _word_table(entry)
    words = _located_words(text)
    word_numbers = [table[word] for _, _, word in words]
    if not any(word_numbers):
        return
    if entry.code in _WITH_PAIRS:
        words, word_numbers = _join_pairs(words, word_numbers, entry)
    run: list[Sequence[float]] = []
    start = end = 0
    joined = True
    for (word_start, word_end, word), values in zip(words, word_numbers, strict=True):
        if not run:
            if values:
                start, end = word_start, word_end
                run.append(values)
                joined = True
            continue
        gap = text[end:word_start]
        is_close = len(gap) < 3 and not gap.strip(_JOINTS)
        if is_close and joined and word in conjunctions:
            joined = False
            end, end_before_conjunction = word_end, end
            continue
        if not (values and is_close):
            yield _run_quantity(run, start, end if joined else end_before_conjunction, entry, loose)
            run, joined = [], True
        if values:
            start = start if run else word_start
            run.append(values)
            joined = True
        end = word_end
    if run:
        yield _run_quantity(run, start, end if joined else end_before_conjunction, entry, loose)


_WITH_PAIRS = frozenset(("ar", "id"))


def _join_pairs(
    words: Sequence[tuple[int, int, str]], word_numbers: list[tuple[float, ...]], entry: Language
) -> tuple[list[tuple[int, int, str]], list[tuple[float, ...]]]:
    """Join two words that are one number only together, such as 14, "empat belas"."""
    number_values = lexicon(entry.code).numbers
    words, word_numbers = list(words), list(word_numbers)
    for position in range(len(words) - 2, -1, -1):
        (start, _, first), (_, end, second) = words[position : position + 2]
        if word_numbers[position] and not word_numbers[position + 1]:
            value = number_values.get(f"{first} {second}")
            if value is not None and value == int(value):
                words[position : position + 2] = [(start, end, f"{first} {second}")]
                word_numbers[position : position + 2] = [(float(value),)]
    return words, word_numbers


@lru_cache(maxsize=128)
def _located_words(text: str) -> list[tuple[int, int, str]]:
    """Return the start, end and lower-case form of each word of a text."""
    return [(*match.span(), match[0].casefold()) for match in WORD.finditer(text)]


@cache
def _conjunctions(entry: Language) -> frozenset[str]:
    return frozenset(map(str.casefold, entry.conjunctions))


def _run_quantity(
    run: Sequence[Sequence[float]], start: int, end: int, entry: Language, loose: bool
) -> Quantity:
    parts = [part for values in run for part in values]
    values = _compose_values(parts, entry)
    if loose or (len(run) > 1 and not any(part >= 10 for part in parts)):
        values |= set(parts)  # digits in a row may be several numbers
    return Quantity(start, end, values, True)


def word_values(word: str, entry: Language) -> tuple[float, ...]:
    """Return the value of each number word in a word: 7 and 20 for ``siebenundzwanzig``.

    The word must be in lower case. The result is empty if the word is not a number.
    """
    return _word_table(entry)[word]


@cache
def _word_table(entry: Language) -> Memo[str, tuple[float, ...]]:
    return Memo(lambda word: _parse_word(word, entry))


def _parse_word(word: str, entry: Language) -> tuple[float, ...]:
    number_values = lexicon(entry.code).numbers
    value = number_values.get(word)
    if value is not None:
        return (float(value),) if value == int(value) else ()
    if entry.script == "Hangul":
        compound = _HANGUL_NUMBER.match(word)
        if compound and len(word) - compound.end() <= _LONGEST_PARTICLE:
            return tuple(_han_values(compound[0].translate(_HANGUL_TO_HAN)))
        key = next((word[:n] for n in range(4, 1, -1) if word[:n] in number_values), None)
        fits = (
            key is not None
            and len(word) - len(key) <= _LONGEST_PARTICLE
            and number_values[key] == int(number_values[key])
        )
        return (float(number_values[key]),) if fits and key else ()
    pattern, single_number = _compound_patterns(entry)
    if len(word) > LONGEST_WORD or not pattern.fullmatch(word):
        return ()
    return tuple(float(number_values[part]) for part in single_number.findall(word))


@lru_cache(maxsize=64)
def _compound_patterns(entry: Language) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return a pattern for compounds of number words, and one for a single number word.

    A compound is, for example, ``siebenundzwanzig``; it may begin with an attached "and".
    """
    words = [
        word
        for word, value in lexicon(entry.code).numbers.items()
        if WORD.fullmatch(word) and len(word) > 2 and value == int(value)
    ]
    number = any_of(words) or "(?!)"
    glued = any_of(map(str.casefold, entry.conjunctions)) or "(?!)"
    more = rf"(?:-?(?:{glued})?(?:{number}))*"
    # "neljäsataa" is 4 and 100; "neljäs" is a number too, but the rest is none.
    return re.compile(rf"(?:{glued})?(?:{number}){more}"), re.compile(rf"({number})(?={more}\Z)")


_MULTIPLIER_FIRST = frozenset(("sw",))  # elfu tatu is 3,000
_EITHER_ORDER = frozenset(("yo",))
_TENS_ADDED = frozenset(("ar",))  # 3 and 10 are 13, elsewhere 30


def _compose_values(parts: Sequence[float], entry: Language) -> Values:
    """Return the values of consecutive number words, such as 300 for 3 and 100.

    In Yoruba there may be two values, because a multiplier may come first or last.
    """
    values = set()
    if entry.code not in _MULTIPLIER_FIRST:
        values.add(_compose(parts, entry))
    if entry.code in _MULTIPLIER_FIRST | _EITHER_ORDER:
        values.add(_compose_backwards(parts))
    return frozenset(values)


def _compose(parts: Sequence[float], entry: Language) -> float:
    total = current = 0.0
    tens = entry.code not in _TENS_ADDED
    for part in parts:
        if part >= 1000:
            total += (current or 1) * part
            current = 0
        elif part == _MULTIPLIER or (tens and part == 10 and 1 < current < 10):
            current = (current or 1) * part
        else:
            current += part
    return total + current


def _compose_backwards(parts: Sequence[float]) -> float:
    """Compose number words with the multiplier first: elfu tatu is 3,000."""
    total, scale = 0.0, 0.0
    for part in parts:
        if part >= _MULTIPLIER:
            total, scale = total + scale, part
        elif scale:
            total, scale = total + scale * part, 0
        else:
            total += part
    return total + scale


# Dates --------------------------------------------------------------------------------------------


_DAY_BEFORE = re.compile(r"(?<!\d)(?<!\d[.,:])(\d{1,2})(?:[^\W\d]{0,3}|[.ºª°])[^\d.;!?\n]{0,6}\Z")
_IN_MONTH = re.compile(r"\s(?:in|im|en|em|au|в|pada|mnamo|katika|ní|في|در)\s\Z", re.IGNORECASE)
_DAY_BEHIND = re.compile(r"[\s,]{0,3}(?:the\s)?(?<!\d)(\d{1,2})(?![\d.:]\d|\d|[^\W\d]{3})")
_YEAR_BEHIND = re.compile(r"[^\d;!?\n]{0,12}?(?<!\d)(\d{4})(?!\d)")
_YEAR_BEFORE = re.compile(r"(?<!\d)(\d{4})[^\d.;!?\n]{0,4}\Z")
_JOINED_DIGITS = re.compile(r"\d[./-]\s?\d")
# Accepts more than ``NUMERIC_DATE``, so that no day of the evidence is missed.
_NUMERIC = re.compile(r"(?<!\d)(\d{1,4})([./-])\s?(\d{1,2})\2\s?(\d{1,4})(?!\d)")
NUMERIC_DATE = re.compile(r"(?<![\d./-])(\d{1,4})([./-])\s?(\d{1,2})\2\s?(\d{1,4})(?![\d/-]|\.\d)")
"""A date in digits, such as ``15.04.1912`` and ``1912-04-15``."""


def dates(text: str, language: str | Language) -> tuple[Date, ...]:
    """Return the dates that contain the name of a month, or its number as in ``5月3日``.

    A short name counts only with a day or a year beside it, because March, may and mars are words
    too.

    Args:
        text: Text to search.
        language: Language of the names of months.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> [(d.day, d.month, d.year) for d in dates("It sank on 15 April 1912.", "en")]
        [(15, 4, 1912)]
    """
    entry = Language.of(language)
    matches = []
    for start, end, month in _months(text, entry):
        first, last, year = start, end, None
        first, last, day = _day_beside(text, start, end, entry)
        if year_after := _YEAR_BEHIND.match(text, last, last + 18):
            year, last = int(year_after[1]), year_after.end()
        elif year_before := _YEAR_BEFORE.search(text, max(first - 10, 0), first):
            year, first = int(year_before[1]), year_before.start()
        if day is not None and not 1 <= day <= 31:
            day = None
        if day or year or _numbers_months(entry) or end - start >= UNMISTAKABLE:
            matches.append(Date(first, last, day, month, year))
    return tuple(matches)


def numeric_dates(text: str) -> Iterator[Date]:
    """Yield the dates in digits, such as ``15.04.1912``.

    If a date can be read in two ways, such as 4/5/1912, both are returned, with the same offsets.

    Args:
        text: Text to search.

    Example:
        >>> [(d.day, d.month, d.year) for d in numeric_dates("It sank on 15/04/1912.")]
        [(15, 4, 1912)]
    """
    for match in NUMERIC_DATE.finditer(text):
        first, middle, last = int(match[1]), int(match[3]), int(match[4])
        if len(match[1]) == 4 and len(match[4]) <= 2:
            orders = [(last, middle, first)]
        elif len(match[4]) == 4 and len(match[1]) <= 2:
            # "4/5/1912" and "4-5-1912" may have the month first, "4.5.1912" may not.
            orders = [(first, middle, last)]
            orders += [(middle, first, last)] if match[2] != "." else []
        else:
            continue
        for day, month, year in orders:
            if 1 <= day <= 31 and 1 <= month <= _MONTHS:
                yield Date(*match.span(), day, month, year)


def _day_beside(text: str, start: int, end: int, entry: Language) -> tuple[int, int, int | None]:
    """Find the day before or after the name of a month.

    Args:
        text: Text with the month.
        start: Start of the month.
        end: End of the month.
        entry: Language of the text.

    Returns:
        Start and end of the month together with the day, and the day; ``None`` if there is no day.
    """
    if _numbers_months(entry):
        after = _HAN_DAY.match(text, end)
        return (start, after.end(), _parse_small_number(after[1])) if after else (start, end, None)
    before = _DAY_BEFORE.search(text, max(start - 14, 0), start)
    if before and not _IN_MONTH.search(before[0]):  # Apollo 11 in July
        return before.start(), end, int(before[1])
    if after := _DAY_BEHIND.match(text, end):
        return start, after.end(), int(after[1])
    return start, end, None


def _numbers_months(entry: Language) -> bool:
    return entry.script in ("Han", "Japanese", "Hangul")


def _parse_small_number(number: str) -> int:
    return int(number) if number.isdecimal() else int(max(_han_values(number)))


@lru_cache(maxsize=4096)
def days_in(text: str, language: str | Language) -> tuple[frozenset[Day], frozenset[int]]:
    """Return all days and all months that a text may state.

    The first set contains pairs ``(day, month)``, and the second set contains months. If a date can
    be read in several ways, all of them are included: 4/5/1912 may be in April or in May.

    Args:
        text: Text to search.
        language: Language of the names of months.

    Raises:
        UnknownNameError: If there is no such language.
    """
    entry = Language.of(language)
    pairs: set[tuple[int, int]] = set()
    months = set()
    for start, end, month in _months(text, entry):
        months.add(month)
        nearby_numbers = re.findall(r"(?<!\d)\d{1,2}(?!\d)", text[max(start - 24, 0) : end + 24])
        pairs |= {(int(day), month) for day in nearby_numbers}
    # The search for digits with a mark between them is fast, and most texts have none.
    for match in _NUMERIC.finditer(text) if _JOINED_DIGITS.search(text) else ():
        a, b, c = int(match[1]), int(match[3]), int(match[4])
        pairs |= {(a, b), (b, a), (c, b), (b, c)}
        months |= {a, b}
    return frozenset(pairs), frozenset(months)


_MONTH_NUMBER = re.compile(r"(?<![\d.])(\d{1,2}|[一二三四五六七八九十]{1,2})\s?(?:月(?!間)|월)")
_HAN_DAY = re.compile(r"份?\s?(\d{1,2}|[一二三四五六七八九十]{1,3})\s?[日号號일]")
_MONTHS = 12


def _months(text: str, entry: Language) -> Iterator[tuple[int, int, int]]:
    if _numbers_months(entry):
        for match in _MONTH_NUMBER.finditer(text):
            month = _parse_small_number(match[1])
            if 1 <= month <= _MONTHS:
                yield match.start(), match.end(), month
    elif entry.script == "Thai":
        for match in _month_names_pattern(entry).finditer(text):
            yield match.start(), match.end(), lexicon(entry.code).months[match[0]]
    else:
        yield from _month_words(text, entry)


@lru_cache(maxsize=4)
def _month_names_pattern(entry: Language) -> re.Pattern[str]:
    return re.compile(any_of(lexicon(entry.code).months))


def _month_words(text: str, entry: Language) -> Iterator[tuple[int, int, int]]:
    months, openers = lexicon(entry.code).months, _first_month_words(entry)
    table = _month_table(entry)
    previous_word: tuple[int, str] | None = None
    for start, end, word in _located_words(text):
        two_word_month = months.get(f"{previous_word[1]} {word}") if previous_word else None
        if previous_word and two_word_month:
            yield previous_word[0], end, two_word_month
        elif month := table[word]:
            yield start, end, month
        previous_word = (start, word) if word in openers else None


@cache
def _month_table(entry: Language) -> Memo[str, int]:
    return Memo(lambda word: _month(word, entry))


@lru_cache(maxsize=64)
def _first_month_words(entry: Language) -> frozenset[str]:
    """Return the first word of each name of a month that has two words."""
    return frozenset(name.split()[0] for name in lexicon(entry.code).months if " " in name)


def _month(word: str, entry: Language) -> int:
    months = lexicon(entry.code).months
    if word in months:
        return months[word]
    # Endings: syyskuussa, సెప్టెంబరులో, সেপ্টেম্বরে.
    stems = (word[:n] for n in range(len(word) - 1, max(4, len(word) - 5), -1))
    return next((months[stem] for stem in stems if stem in months), 0)
