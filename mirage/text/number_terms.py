"""Find the numbers of a text as terms, which are equal if the numbers have the same value."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import Language
from mirage.text._values import form_values, states_converted, states_equal
from mirage.text.numbers import decimal_parts
from mirage.text.quantities import (
    HALF,
    NUMERIC_DATE,
    digit_quantities,
    multiplier_at,
    quantities,
    values_in,
)

__all__ = [
    "NumberTerm",
    "is_number",
    "located_numbers",
    "number_terms",
    "states_converted",
    "states_number",
    "without_multipliers",
]

_DIGITS = re.compile(r"\d+")
_WRITTEN = re.compile(r"\d(?:.*\d)?", re.DOTALL)
_DECIMAL = re.compile(r"(\d+)[.,٫](\d+)")
_TIME = re.compile(r"(\d\d?)[:：]\d\d")
_LETTERS = re.compile(r"[^\W\d]")

LONGEST_VALUE = 15
"""Maximum number of digits of a number that is compared by its value."""


class NumberTerm(NamedTuple):
    """A number in a text.

    Attributes:
        start: Offset of the first character.
        end: Offset after the last character, including a word that multiplies the number.
        term: The number in ASCII digits without separators: ``2400000`` for ``2.4 million``. Dates
            in digits and times keep their form.
    """

    start: int
    end: int
    term: str


def is_number(term: str) -> bool:
    """Return whether a term is a number; words do not begin with a digit."""
    return term[:1].isdecimal()


@lru_cache(maxsize=4096)
def number_terms(text: str, code: str) -> frozenset[str]:
    """Return the numbers that a text states in digits, as terms (:attr:`NumberTerm.term`).

    Args:
        text: The text.
        code: ISO 639-1 code of the language.
    """
    return frozenset(number.term for number in located_numbers(text, code))


@lru_cache(maxsize=4096)
def located_numbers(text: str, code: str) -> tuple[NumberTerm, ...]:
    """Return the numbers of a text, written in digits, with their positions, in order.

    A number may have decimals, separators and a word that multiplies it. A date or time in digits
    is one number, and so are the digits in a name such as ``K2``.

    Args:
        text: The text.
        code: ISO 639-1 code of the language.
    """
    if not _DIGITS.search(text):
        return ()
    numbers = [*_dates(text, code)]
    rest = _blank(text, numbers)
    numbers += [
        NumberTerm(start, end, _term(rest[start:end], code))
        for start, end, _, _ in digit_quantities(rest, Language.of(code))
    ]
    rest = _blank(rest, numbers)
    numbers += [NumberTerm(*m.span(), _value(m[0])) for m in _DIGITS.finditer(rest)]
    return tuple(sorted(numbers))


def without_multipliers(text: str, code: str) -> str:
    """Return a text without the words that multiply its numbers, such as "million"."""
    numbers = located_numbers(text, code)
    return _blank(text, [n for n in numbers if _LETTERS.search(text, n.start, n.end)])


def states_number(text: str, term: str, source: str, code: str) -> bool:
    """Return whether a text states a number, in digits or in words and in any notation.

    If the number belongs to an amount, an equal amount in another unit is enough.

    Args:
        text: The text.
        term: The number, a result of :func:`number_terms`.
        source: The text from which the number comes.
        code: ISO 639-1 code of the language.
    """
    if term in number_terms(text, code):
        return True
    if _TIME.fullmatch(term):
        return _states_time(text, term, code)
    if _is_value(term):
        return float(term) in _values(text, code) or any(
            states_converted(number[:2], source, (text,), code)
            for number in located_numbers(source, code)
            if number.term == term
        )
    return any(states_equal(value, text, code) for value in form_values((term,), code))


def _dates(text: str, code: str) -> Iterator[NumberTerm]:
    for match in NUMERIC_DATE.finditer(text):
        term = _ascii("".join(match[0].split()))
        if any(isinstance(value, frozenset) for value in form_values((term,), code)):
            yield NumberTerm(*match.span(), term)


def _blank(text: str, numbers: Sequence[NumberTerm]) -> str:
    """Return a text with spaces in place of some of its numbers."""
    for start, end, _ in numbers:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _term(written: str, code: str) -> str:
    """Return the term of a number as written, with separators and a word that multiplies it."""
    digits = _WRITTEN.search(written)
    number = digits[0] if digits else written
    if not _LETTERS.search(written):
        return _value(number)
    entry = Language.of(code)
    products = next(digit_quantities(written, entry)).values
    if len(products) > 1 and (decimal := _DECIMAL.fullmatch(number)):
        # A mark before a multiplied number's decimals seldom separates thousands: 1.234 million.
        _, factor = multiplier_at(written, written.find(number) + len(number), entry)
        products = frozenset((float(f"{decimal[1]}.{decimal[2]}") * factor,))
    return _canonical(f"{max(products):.15g}")


def _value(number: str) -> str:
    """Return a number as ASCII digits, with a point before its decimals.

    A time, or a number whose marks are not separators (``1.2.3``), keeps its form.
    """
    if _TIME.fullmatch(number):
        return _ascii(number).replace("：", ":")
    parts = decimal_parts(number)
    if parts is None and (decimal := _DECIMAL.fullmatch(number)):
        parts = _ascii(decimal[1]), _ascii(decimal[2])
    return _ascii(number) if parts is None else _canonical(".".join(filter(None, parts)))


def _canonical(number: str) -> str:
    whole, _, decimals = number.partition(".")
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def _ascii(number: str) -> str:
    return "".join(str(unicodedata.decimal(char, char)) for char in number)


@lru_cache(maxsize=4096)
def _values(text: str, code: str) -> frozenset[float]:
    """Return the values of the numbers of a text, in digits or in words.

    Unlike the values of :func:`mirage.text.quantities.values_in`, they include neither the parts of
    a number with decimals or a multiplier nor the parts of a time.
    """
    numbers = located_numbers(text, code)
    values = set(values_in(_blank(text, numbers), code))
    for _, _, term in numbers:
        if _TIME.fullmatch(term):
            values |= _clock_values(term, code)
        elif _is_value(term):
            values.add(float(term))
        elif NUMERIC_DATE.fullmatch(term):
            values |= set(map(float, _DIGITS.findall(term)))
    if numbers and HALF.search(text.casefold()):
        values |= {value + 0.5 for value in values if value.is_integer()}
    return frozenset(values)


def _states_time(text: str, time: str, code: str) -> bool:
    """Return whether a text states a time, on the 12- or 24-hour clock."""
    values = _values(text, code)
    if not _clock_values(time, code).isdisjoint(values):
        return True
    hour, minute = map(int, _DIGITS.findall(time))
    hours = {float(hour), hour % 12.0, hour % 12 + 12.0}
    return not hours.isdisjoint(values) and minute in values  # a quarter past four in words


def _clock_values(time: str, code: str) -> frozenset[float]:
    """Return a time on the 12- and 24-hour clock as decimal numbers: 3.3 and 15.3 for 15:30."""
    return frozenset[float]().union(*(quantity.values for quantity in quantities(time, code)))


def _is_value(term: str) -> bool:
    return len(term) <= LONGEST_VALUE and term.replace(".", "", 1).isdecimal()
