"""Compare dates, years, amounts and names that two texts state in different forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from mirage.languages import Language
from mirage.text._trees import packaged_json
from mirage.text._unicode import any_of
from mirage.text.numbers import decimal_parts
from mirage.text.quantities import dates, in_digits, multiplier_at, multiplies, numeric_dates
from mirage.text.words import IN_WORD, WORD

__all__ = [
    "equal_spans",
    "form_values",
    "is_marked",
    "plain_values",
    "states_converted",
    "states_equal",
]

Span = tuple[int, int]

Day = tuple[int | None, int, int | None]
"""Day, month and year; ``None`` for a part that is not stated."""


class _Amount(NamedTuple):
    """A number in a text, with its unit and its rounding."""

    start: int
    end: int
    value: Decimal
    unit: str  # empty if there is none
    step: Decimal  # value of one unit of the last stated digit: 0.01 for 5.50


_NumberValue = frozenset[Day] | int | _Amount
FormValue = _NumberValue | re.Pattern[str]
"""A date in each of its readings, a year, a pattern for a name with initials, or an amount."""


def states_equal(value: FormValue, text: str, language: str) -> bool:
    """Return whether a text states a value of :func:`form_values`; see :func:`equal_spans`."""
    return next(equal_spans(value, text, language), None) is not None


def equal_spans(value: FormValue, text: str, language: str) -> Iterator[Span]:
    """Yield the spans of a text that state a date, year, amount or name equal to the given value.

    A date in the text equals the given date if each part (day, month, year) of the given date is
    the same. For example, ``15.04.1912`` states ``April 1912``, but ``April 1912`` does not state
    ``15.04.1912``. Amounts with different units are converted. Metric and non-metric amounts count
    as equal if they agree within the rounding of the stated digits. A first name may be abbreviated
    to an initial: ``M. de Cervantes``. Numbers may be written in words: ``forty-five metres``.

    Args:
        value: Value of one spelling of an answer, from :func:`form_values`.
        text: Text to search.
        language: ISO 639-1 code of the text.
    """
    entry = Language.of(language)
    if isinstance(value, re.Pattern):
        yield from (match.span() for match in value.finditer(text))
    else:
        digits = in_digits(text, entry)
        for start, end in _equal_spans(value, digits.text, entry):
            yield digits.original_span(start, end)


def _equal_spans(value: _NumberValue, text: str, entry: Language) -> Iterator[Span]:
    if isinstance(value, _Amount):
        for amount in _amounts(text, entry):
            if _is_equal(value, amount):
                yield amount.start, amount.end
    elif isinstance(value, int):
        yield from (span for span, year in _years(text, entry) if year == value)
    else:
        for span, day in _days(text, entry):
            if any(_covers(day, wanted) for wanted in value):
                yield span


def states_converted(span: Span, source: str, texts: Iterable[str], language: str) -> bool:
    """Return whether one of some texts states an amount of another text, in any unit.

    For example, a text with ``1,500 metres`` states the amount ``1.5 km``.

    Args:
        span: Start and end of the amount's number in its text.
        source: The text with the amount.
        texts: The texts to search.
        language: ISO 639-1 code of all texts.
    """
    entry, (first, last) = Language.of(language), span
    stated = [a for a in _amounts(source, entry) if a.unit and a.start < last and first < a.end]
    return any(
        wanted.unit and _is_equal(wanted, amount)
        for amount in stated
        for text in texts
        for wanted in _amounts(in_digits(text, entry).text, entry)
    )


@lru_cache(maxsize=1 << 14)
def form_values(forms: tuple[str, ...], language: str) -> tuple[FormValue, ...]:
    """Return the values of the spellings that are a date, a year, an amount or a person's name.

    ``forms`` are the spellings of one answer. Spellings with other words are left out.
    """
    entry = Language.of(language)
    values = (_form_value(form, entry) for form in forms)
    return tuple(dict.fromkeys(value for value in values if value is not None))


@lru_cache(maxsize=4096)
def is_marked(text: str, entry: Language) -> bool:
    """Return whether a text has a number with a separator or multiplier: 5,500 or 3 million."""
    return _MARKED.search(text) is not None or multiplies(text, entry)


_MARKED = re.compile(r"\d[.,٫]\d")


@lru_cache(maxsize=4096)
def plain_values(text: str, entry: Language) -> frozenset[Decimal]:
    """Return the values of the numbers that a text states in digits, without dates.

    A number is multiplied by a word after it: ``5.5 thousand`` is 5500, like ``5,500.00`` and
    ``5500``. Digits that are part of a name or code (``K2``) are left out.
    """
    return frozenset(value for _, _, value, _ in _plain_amounts(text, entry))


def _form_value(form: str, entry: Language) -> FormValue | None:
    """Parse a spelling of an answer as a date, year, amount or name; ``None`` for other texts."""
    name, form = form, in_digits(form, entry).text
    if not _DIGIT.search(form):
        return _initials(name) if entry.capitals != "none" and " " in name else None
    year = _YEAR_FORM.fullmatch(_gregorian(form, entry).strip())
    if year and _FIRST_YEAR <= int(year[1]) <= _LAST_YEAR:
        return int(year[1])
    amounts = _amounts(form, entry)
    # Numbers without a unit are compared together with the words beside them, in mention().
    if len(amounts) == 1 and (amounts[0].unit or multiplies(form, entry)):
        start, end = amounts[0].start, amounts[0].end
        if not _LETTER_OR_DIGIT.search(form[:start] + form[end:]):
            return amounts[0]
    days = frozenset(day for _, day in _days(form, entry))
    return days if days and _is_only_date(form, entry) else None


# Dates --------------------------------------------------------------------------------------------

_DIGIT = re.compile(r"\d")
_LETTER_OR_DIGIT = re.compile(r"\w")
_FIRST_YEAR, _LAST_YEAR = 1000, 2100
_YEAR_FORM = re.compile(r"(?:ปี|ค\.ศ\.|سنة|سال)?\s*(\d{4})\s?[年년]?")
_YEAR = re.compile(r"(?<![\d.,])\d{4}(?!\d|[.,]\d)")
_BUDDHIST = re.compile(r"(?:พ\.\s?ศ\.|พุทธศักราช|ปี(?:\sพ\.ศ\.)?)\s*([๐-๙\d]{4})")
_BUDDHIST_OFFSET = 543
_BUDDHIST_YEARS = range(2300, 2700)
_ERAS = {"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018, "民国": 1911}
_ERA = re.compile(rf"({any_of(_ERAS)})(元|\d{{1,2}})年")
_PERSIAN_NAMES = "فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند"
_PERSIAN_MONTHS = {name: number for number, name in enumerate(_PERSIAN_NAMES.split(), 1)}
_PERSIAN_DAY = re.compile(
    rf"(\d{{1,2}})\s({any_of(_PERSIAN_MONTHS)})(?:\s?ماه)?\s(1[2-4]\d\d|۱[۲-۴]\d\d)"
)
_PERSIAN_OFFSET = 621  # right for all but the last 80 days of a Persian year
_PERSIAN_YEAR = re.compile(r"(?<!\d)(\d{4})\s?(?:هجری\s)?(?:خورشیدی|شمسی)")
_SMALL = (
    "the of on in de del el le la les am den der das im tarehe mwezi wa ya mwaka tahun tanggal "
    "года год году г ปี วันที่ ค.ศ ค ศ พ ที่ سال في سنة عام من"
)
_SMALL_WORDS = frozenset(_SMALL.split())


def _gregorian(text: str, entry: Language) -> str:
    """Convert years of Japanese eras and of the Buddhist calendar in a text to Gregorian years.

    All offsets in the text stay the same.
    """
    if entry.script in ("Han", "Japanese"):
        return _ERA.sub(_year_of_era, text)
    if entry.script == "Thai":
        return _BUDDHIST.sub(lambda m: str(_common_year(int(m[1]), entry)).rjust(len(m[0])), text)
    return text


def _year_of_era(match: re.Match[str]) -> str:
    """Return the Gregorian year of a match such as 昭和5年, cut to the length of the match."""
    year = _ERAS[match[1]] + (1 if match[2] == "元" else int(match[2]))
    return f"{year}年"[: len(match[0])]


def _common_year(year: int, entry: Language) -> int:
    is_buddhist = entry.script == "Thai" and year in _BUDDHIST_YEARS
    return year - _BUDDHIST_OFFSET if is_buddhist else year


@lru_cache(maxsize=4096)
def _days(text: str, entry: Language) -> tuple[tuple[Span, Day], ...]:
    """Return the span of every date in a text, and the date.

    If a date in digits can be read in two ways, such as 4/5/1912, both dates are returned.
    """
    text = _gregorian(text, entry)
    days: list[tuple[Span, Day]] = list(_numeric_days(text, entry))
    for date in dates(text, entry):
        year = None if date.year is None else _common_year(date.year, entry)
        days.append(((date.start, date.end), (date.day, date.month, year)))
    if entry.script == "Arabic":
        days += _persian_days(text)
    return tuple(days)


def _persian_days(text: str) -> Iterator[tuple[Span, Day]]:
    for match in _PERSIAN_DAY.finditer(text):
        day, month, year = int(match[1]), _PERSIAN_MONTHS[match[2]], int(match[3])
        if 1 <= day <= 31:
            yield match.span(), _from_persian(year, month, day)


def _numeric_days(text: str, entry: Language) -> Iterator[tuple[Span, Day]]:
    for start, end, day, month, year in numeric_dates(text):
        yield (start, end), (day, month, year and _common_year(year, entry))


def _from_persian(year: int, month: int, day: int) -> Day:
    """Convert a day of the Persian solar calendar, using its 33-year cycle of leap years.

    The arithmetic algorithm of the library jdf (Tizhoosh and Keshavarz) is used. It is correct for
    the Persian years 1178 to 1633.

    Returns:
        Day, month and year of the Gregorian calendar.
    """
    from datetime import date, timedelta

    months = month - 1
    days = months * 31 if months < 7 else months * 30 + 6
    years = year + 1595
    days += 365 * years + years // 33 * 8 + (years % 33 + 3) // 4 - 355668 + day
    # The count begins with the first day of the common year 0, which has 366 days.
    common = date(1, 1, 1) + timedelta(days - 366)
    return common.day, common.month, common.year


@lru_cache(maxsize=4096)
def _years(text: str, entry: Language) -> tuple[tuple[Span, int], ...]:
    """Return the span of every year in a text, alone or in a date in digits, and the year."""
    text = _gregorian(text, entry)
    days = list(_numeric_days(text, entry))
    years = [(match.span(), int(match[0])) for match in _YEAR.finditer(text)]
    if entry.script == "Arabic":
        days += _persian_days(text)
        years += [
            (match.span(), int(match[1]) + _PERSIAN_OFFSET)
            for match in _PERSIAN_YEAR.finditer(text)
        ]
    return (*years, *((span, day[2]) for span, day in days if day[2] is not None))


def _covers(day: Day, wanted: Day) -> bool:
    """Return whether a date is the same as ``wanted`` in each part that ``wanted`` states.

    The parts are day, month and year.
    """
    return all(
        wanted_part is None or wanted_part == day_part
        for day_part, wanted_part in zip(day, wanted, strict=True)
    )


def _is_only_date(form: str, entry: Language) -> bool:
    """Return whether a text consists of a date without other words."""
    if entry.gram_length == 2:  # 月, ม.ค.: letters are written right beside their numbers
        return len(re.findall(r"[^\W\d_]", form)) <= 16
    words = [match[0].casefold() for match in WORD.finditer(form)]
    rest = [word for word in words if word not in _SMALL_WORDS and len(word) > 2]
    return len(rest) <= 1 or (entry.script == "Arabic" and len(rest) <= 2)


# Amounts ------------------------------------------------------------------------------------------


_NUMBER = re.compile(
    r"(?<![A-Za-z_#\d])\d+(?:[ \u00a0\u2009\u202f'’]\d{3}(?!\d))*(?:[.,٫٬]\d+)*"
    r"(?![\d:：/]|[.,]?\d|-\d)"
)
_MOST_DIGITS = 18
_DISTINCTIVE = 10_000  # whole numbers from here on count without their unit


@lru_cache(maxsize=4096)
def _amounts(text: str, entry: Language) -> tuple[_Amount, ...]:
    amounts = []
    for first, last, value, step in _plain_amounts(text, entry):
        start, end, unit = _unit_at(text, first, last, entry)
        amounts.append(_Amount(start, end, value, unit, step))
    return tuple(amounts)


def _plain_amounts(text: str, entry: Language) -> Iterator[tuple[int, int, Decimal, Decimal]]:
    """Yield the start, end, value and rounding step of each number in a text.

    The step is the value of one unit of the last stated digit.
    """
    for match in _NUMBER.finditer(text):
        parsed = _decimal(match[0])
        if parsed is None or text[max(match.start() - 1, 0) : match.start()] in ("-", "/", ":"):
            continue
        end, factor = multiplier_at(text, match.end(), entry)
        if text[end : end + 1].isdecimal():
            continue  # 3万5千 is one number, whose first part alone would be wrong
        value, step = parsed
        yield match.start(), end, value * factor, step * factor


def _decimal(number: str) -> tuple[Decimal, Decimal] | None:
    """Parse a number; return its value and rounding step, or ``None`` if it is ambiguous.

    The rounding step is the value of one unit of the last stated digit: 0.01 for 5.50. Zeros at the
    end of a whole number count as rounding, except within its first two digits: 1500 has the step
    100, and 10 the step 1.
    """
    if len(number) > _MOST_DIGITS:
        return None
    parts = decimal_parts(number)
    if parts is None:
        return _time_or_decimal(number)
    whole, decimals = parts
    value = Decimal(f"{whole}.{decimals or 0}")
    zeros = min(len(whole) - len(whole.rstrip("0")), max(len(whole) - 2, 0))
    return value, Decimal(10) ** (-len(decimals) if decimals else zeros)


def _time_or_decimal(number: str) -> tuple[Decimal, Decimal] | None:
    """Parse a number with two decimals that may also be a time; return value and rounding step.

    ``5.50`` is read as a number. For ``15.00``, which is more likely a time, the result is
    ``None``.
    """
    match = re.fullmatch(r"(\d{1,2})[.,٫](\d{2})", number)
    if match is None or not int(match[2]):
        return None
    return Decimal(f"{int(match[1])}.{int(match[2]):02d}"), Decimal("0.01")


class _Units(NamedTuple):
    """Patterns that find a unit after or before a number, and the unit that each name means.

    The units before a number are names in Swahili and Yoruba (``kilomita 6,600``) and, in all
    languages, the signs under "before" in ``units.json`` (``€25``, ``百分之25``).
    """

    after: re.Pattern[str]
    before: re.Pattern[str]
    names: Mapping[str, str]


_UNIT_FIRST = frozenset(("sw", "yo"))  # kilomita 6,600
_OF = dict.fromkeys(("es", "it", "pt"), r"(?:de\s|di\s)?") | {"fr": r"(?:de\s|d['’])?"}
"""A word between number and unit, by language: ``3 millones de metros``."""

_KINDS_BEFORE = {"摂氏": "C", "摄氏": "C", "섭씨": "C", "華氏": "F", "华氏": "F", "화씨": "F"}
_DEGREES_OF_KIND = re.compile(r"\s?[度도]")
_LONG_WORD = 4


def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = packaged_json("units.json")
    return table


@lru_cache(maxsize=64)
def _units(entry: Language) -> _Units:
    names: dict[str, str] = {}
    for unit, row in _table().items():
        words: Mapping[str, list[str]] = row["names"]
        written = (*words["*"], *words.get(entry.code, ()))
        names |= {word.rstrip("."): unit for word in written}
    unspaced_names = [name for name in names if not name.isascii() and entry.gram_length == 2]
    long_names = [name for name in names if name not in unspaced_names and len(name) >= _LONG_WORD]
    short_names = [name for name in names if name not in unspaced_names and name not in long_names]
    parts = [rf"(?:{any_of(unspaced_names)})"] if unspaced_names else []
    longest = 8 if entry.script == "Telugu" else 4
    ending = f"[{IN_WORD}]{{0,{longest}}}(?![{IN_WORD}])"
    parts += [rf"(?:(?i:{any_of(long_names)})){ending}"] if long_names else []
    parts += [rf"(?:{any_of(short_names)})(?![{IN_WORD}²³/])"]
    signs = {
        sign: unit
        for unit, row in _table().items()
        for code in ("*", entry.code)
        for sign in row.get("before", {}).get(code, ())
    }
    words_before = long_names if entry.code in _UNIT_FIRST else []
    before = rf"(?<![{IN_WORD}])(?:{any_of(words_before) or '(?!)'})(?=\s\Z)|{any_of(signs)}"
    return _Units(
        re.compile(rf"[\s\u00a0-]?{_OF.get(entry.code, '')}(?P<name>{'|'.join(parts)})"),
        re.compile(rf"({before})\s?\Z", re.IGNORECASE),
        {**names, **{sign.casefold(): unit for sign, unit in signs.items()}},
    )


_MINUTES = re.compile(r"\s?\d")


def _unit_at(text: str, start: int, end: int, entry: Language) -> tuple[int, int, str]:
    """Find the unit of a number.

    Returns:
        Start and end of the number together with its unit, and the unit, which is empty if missing.
    """
    if entry.gram_length == 2 and (degrees := _DEGREES_OF_KIND.match(text, end)):
        for kind, unit in _KINDS_BEFORE.items():
            if text[max(start - 4, 0) : start].rstrip().endswith(kind):
                return text.rfind(kind, 0, start), degrees.end(), unit
    units = _units(entry)
    match = units.after.match(text, end)
    if match is None:
        before = units.before.search(text, max(start - 20, 0), start)
        return (
            (before.start(), end, units.names[before[1].casefold()]) if before else (start, end, "")
        )
    written = match["name"]
    name = next(
        n for n in sorted(units.names, key=len, reverse=True) if _starts_with_name(written, n)
    )
    unit = units.names[name]
    if unit == "h" and _MINUTES.match(text, match.end()):
        return start, end, ""  # a time, 16 h 15
    return start, match.end(), unit


def _starts_with_name(written: str, name: str) -> bool:
    return written.startswith(name) or written.casefold().startswith(name.casefold())


def _is_equal(wanted: _Amount, stated: _Amount) -> bool:
    if wanted.unit in ("", stated.unit):
        return wanted.value == stated.value
    if not stated.unit:
        return wanted.value == stated.value and _is_distinctive(wanted.value)
    rows = _table()
    first, second = rows[wanted.unit], rows[stated.unit]
    if first["dimension"] != second["dimension"]:
        return False
    difference = abs(_base(wanted) - _base(stated))
    if not {wanted.unit, stated.unit} & {"mi", "ft", "F"}:
        return difference < 1e-9 * max(1.0, abs(_base(wanted)))
    return any(
        difference <= float(amount.step) / 2 * _scale(amount.unit) * (1 + 1e-9)
        for amount in (wanted, stated)
    )


def _is_distinctive(value: Decimal) -> bool:
    """Return whether a number can be compared without its unit: if it is large or has decimals."""
    return value != int(value) or value >= _DISTINCTIVE


def _scale(unit: str) -> float:
    return 5 / 9 if unit == "F" else float(str(_table()[unit]["factor"]))


def _base(amount: _Amount) -> float:
    value = float(amount.value) - (32 if amount.unit == "F" else 0)
    return value * _scale(amount.unit)


# Names --------------------------------------------------------------------------------------------

_PARTICLES = frozenset(
    ("de", "del", "da", "di", "du", "van", "von", "der", "den", "la", "le", "el")
)
_SHORTEST_NAME = 4


def _initials(form: str) -> re.Pattern[str] | None:
    """Return a pattern that matches a person's name with initials.

    For ``Miguel de Cervantes``, it matches ``M. de Cervantes`` and ``Cervantes, M.``. The result is
    ``None`` if the spelling does not look like a person's name.
    """
    words = form.split()
    name_words = [word for word in words if word.casefold() not in _PARTICLES]
    if not 2 <= len(name_words) <= 4 or not all(
        word[0].isupper() and word.isalpha() for word in name_words
    ):
        return None
    last = re.escape(name_words[-1])
    if len(name_words[-1]) < _SHORTEST_NAME:
        return None
    letters = "".join(rf"{word[0]}\.[\s-]?" for word in name_words[:-1])
    initials = rf"{name_words[0][0]}\.\s?(?:[^\W\d_]\.\s?){{0,2}}"
    particles = rf"(?:(?:{'|'.join(_PARTICLES)})\s)*"
    return re.compile(
        rf"(?<!\w)(?:{letters}|{initials}){particles}{last}|(?<!\w){last},\s{name_words[0][0]}\.",
        re.UNICODE,
    )
