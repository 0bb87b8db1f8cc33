"""What an answer says that nothing shown carries: where, and of which type.

Everything is found by rules, from the words of a language in its lexicon, with no model. Precision
goes before recall: what a rule cannot tell from a good paraphrase it leaves alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

from mirage.features._foreign import foreign_stretches
from mirage.features._names import names, stranger
from mirage.features._negations import negation_faults
from mirage.features._shown import Shown, evidence, grams_of, holdings, shown_texts
from mirage.features.answer_claims import answer_claims
from mirage.features.base import NOTHING_SHOWN, Answered, Definition, Facts, NotComputed
from mirage.languages import LANGUAGES, Language
from mirage.text import ABSTAINS_AT, abstains
from mirage.text.citations import Citation, Passages, citations
from mirage.text.lexicon import lexicon
from mirage.text.mentions import folded
from mirage.text.quantities import Date, Quantity, dates, quantities, values_in

__all__ = ["Span", "SpanType", "spans", "unknown_facts"]

SpanType = Literal["number", "date", "name", "negation", "language", "citation"]


class Span(NamedTuple):
    """A stretch of an answer that nothing shown carries.

    Attributes:
        start: where it begins, in characters of the answer as written,
            :attr:`ParsedResponse.answer <mirage.text.ParsedResponse.answer>`.
        end: where it ends, exclusive.
        type: what is wrong with it.
        text: the stretch itself, ``answer[start:end]``.
    """

    start: int
    end: int
    type: SpanType
    text: str


class _Fact(NamedTuple):
    start: int
    end: int
    type: SpanType
    known: bool


class _Reading(NamedTuple):
    """An answer, as the rules read it."""

    item: Answered
    answer: str
    plain: str  # the answer with blanks for citations and layout: offsets are the same
    brackets: tuple[Citation, ...]
    sentences: tuple[tuple[int, int, tuple[str, ...]], ...]
    texts: tuple[str, ...]
    shown: Shown


def spans(item: Answered) -> tuple[Span, ...]:
    """The stretches of an answer that nothing shown carries, in order.

    Nothing is found where the texts of the shown passages are not known.
    """
    reading = _reading(item)
    if isinstance(reading, NotComputed):
        return ()
    found = [(f.start, f.end, f.type) for f in _facts(reading) if not f.known]
    found += _wrong_answers(
        reading, {"number" if type_ == "date" else type_ for _, _, type_ in found}
    )
    code, stretches = item.query.language, [place[:2] for place in reading.sentences]
    sources = (item.query.text, *reading.texts)
    found += (
        (start, end, "language")
        for start, end in foreign_stretches(reading.plain, stretches, sources, code)
    )
    found += (
        (start, end, "negation")
        for start, end in negation_faults(reading.plain, stretches, reading.texts, code)
    )
    found += _citation_faults(reading)
    return tuple(
        Span(start, end, type_, reading.answer[start:end]) for start, end, type_ in _apart(found)
    )


def unknown_facts(item: Answered) -> float | NotComputed:
    """Share of the answer's numbers, dates and names that no shown passage holds.

    In [0, 1]; 0 where it states none. Not computed without the texts of the shown passages.
    """
    reading = _reading(item)
    if isinstance(reading, NotComputed):
        return reading
    facts = _facts(reading)
    return sum(not fact.known for fact in facts) / len(facts) if facts else 0.0


def _apart(found: Iterable[tuple[int, int, SpanType]]) -> list[tuple[int, int, SpanType]]:
    """In order, without what overlaps a clause in another language, or an earlier stretch."""
    rows: list[tuple[int, int, SpanType]] = []
    for start, end, type_ in sorted(found, key=lambda row: (row[2] != "language", *row[:2])):
        if all(end <= first or start >= last for first, last, _ in rows):
            rows.append((start, end, type_))
    return sorted(rows)


# The answer ---------------------------------------------------------------------------------------


def _reading(item: Answered) -> _Reading | NotComputed:
    if not item.shown_is_known:
        return NOTHING_SHOWN
    texts = shown_texts(item)
    if isinstance(texts, NotComputed):
        return texts
    entry = Language.of(item.query.language)
    answer = item.parsed.answer
    passages = Passages.of(item.shown, item.query.titles_shown_to(item.response))
    passages = passages.with_footnotes(item.response.text or "", entry)
    plain = item.parsed.content or answer
    # What a list of sources cites carries no sentence.
    brackets = tuple(
        bracket
        for bracket in citations(answer, entry, passages)
        if plain[bracket.start : bracket.end].strip()
    )
    for start, end, _ in brackets:
        plain = plain[:start] + " " * (end - start) + plain[end:]
    places = tuple(_places(plain, item))
    return _Reading(item, answer, plain, brackets, places, texts, evidence(item, texts))


def _places(plain: str, item: Answered) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where the sentences of the parsed answer stand in it, and what they cite."""
    cursor = 0
    positions: list[int] = []
    letters = ""
    for sentence in item.parsed.sentences:
        start = plain.find(sentence.text, cursor)
        end = start + len(sentence.text)
        if start < 0:  # a citation or layout stood within it, or before its full stop
            if not positions:
                positions = [at for at, char in enumerate(plain) if not char.isspace()]
                letters = "".join(plain[at] for at in positions)
            wanted = "".join(sentence.text.split())
            place = letters.find(wanted, bisect_left(positions, cursor))
            if place >= 0:
                start, end = positions[place], positions[place + len(wanted) - 1] + 1
            else:
                start, end = _stretch(plain, sentence.text, cursor)
        yield start, end, sentence.citations
        cursor = end


def _stretch(plain: str, text: str, cursor: int) -> tuple[int, int]:
    """The stretch that holds the letters of a text in order, from a place on."""
    head = text[:-1].rstrip()
    start = plain.find(head, cursor)
    if start >= 0:
        stop = plain.find(text[-1], start + len(head))
        return start, max(stop + 1, start + len(head))
    for char in text:
        if char.isspace():
            continue
        place = plain.find(char, cursor)
        if place < 0:
            continue
        start = place if start < 0 else start
        cursor = place + 1
    return max(start, 0), max(cursor, start, 0)


# Facts --------------------------------------------------------------------------------------------


def _facts(reading: _Reading) -> list[_Fact]:
    facts = list(_dates(reading))
    in_dates = {position for date in facts for position in range(date.start, date.end)}
    facts += (fact for fact in _numbers(reading) if fact.start not in in_dates)
    starts = [start for start, _, _ in reading.sentences]
    facts += (
        _Fact(name.start, name.end, "name", name.known)
        for name in names(reading.plain, starts, reading.shown)
    )
    return facts


COMMON = frozenset(map(float, (0, 1, 2, 3, 12, 100)))
"""Numbers that one counts with, and says noon and all with; they are no facts."""

BEFORE = 40
"""Characters before a number among which the word that it goes with is looked for."""

_LIST_NUMBER = re.compile(r"(?:\A|\n)[\s*_#>-]*\Z")
_YEARS = range(1000, 2200)


def _numbers(reading: _Reading) -> Iterator[_Fact]:
    code = reading.item.query.language
    for number in quantities(reading.plain, code):
        if not _is_label(number, reading) and not _is_halved(number, reading):
            known = not COMMON.isdisjoint(number.values) or reading.shown.number(number.values)
            yield _Fact(number.start, number.end, _number_type(number, reading.plain), known)


def _number_type(number: Quantity, text: str) -> SpanType:
    digits = text[number.start : number.end]
    (value, *more) = number.values
    is_year = len(digits) == 4 and digits.isdecimal() and not more and int(value) in _YEARS
    return "date" if is_year else "number"


def _is_label(number: Quantity, reading: _Reading) -> bool:
    """Whether a number counts the lines of a list, or names a passage."""
    text = reading.plain
    if number.spelled:
        return False
    behind = text[number.end : number.end + 1]
    near = max(0, number.start - BEFORE)
    if behind in (".", ")", "、", "）") and _LIST_NUMBER.search(text, near, number.start):
        return True
    if max(number.values) > len(reading.item.shown):
        return False
    return bool(_passage_word(reading.shown.language).search(text, near, number.start))


NEAR = 16
"""Characters from a number in words within which a half or a quarter belongs to it."""


def _is_halved(number: Quantity, reading: _Reading) -> bool:
    """Whether a half or a quarter stands beside a number in words: a time, or half as much more."""
    if not number.spelled:
        return False
    around = reading.plain[max(number.start - NEAR, 0) : number.end + NEAR].casefold()
    return bool(_fraction(reading.shown.language).search(around))


@lru_cache(maxsize=64)
def _fraction(entry: Language) -> re.Pattern[str]:
    words = [word for word, value in lexicon(entry.code).numbers.items() if value != int(value)]
    alternatives = "|".join(map(re.escape, words)) or "(?!)"
    spaced = entry.gram_length > 2
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)" if spaced else alternatives)


@lru_cache(maxsize=64)
def _passage_word(entry: Language) -> re.Pattern[str]:
    words = LANGUAGES["en"].passage_words + entry.passage_words
    return re.compile(rf"(?:{'|'.join(map(re.escape, words))})\w{{0,4}}[^\n.]{{0,12}}\Z", re.I)


def _dates(reading: _Reading) -> Iterator[_Fact]:
    for date in dates(reading.plain, reading.item.query.language):
        yield _Fact(date.start, date.end, "date", _is_known_date(date, reading.shown))


def _is_known_date(date: Date, shown: Shown) -> bool:
    if date.year is not None and not shown.number(frozenset((float(date.year),))):
        return False
    if date.day is not None:
        return (date.day, date.month) in shown.days
    return date.month in shown.months


# Right and wrong answers --------------------------------------------------------------------------


def _wrong_answers(reading: _Reading, faults: Set[SpanType]) -> Iterator[tuple[int, int, SpanType]]:
    """Wrong answers that are asserted; where there is none, what seems to stand in their place."""
    item = reading.item
    query, entry = item.query, reading.shown.language
    claims = answer_claims(item)
    if query.answerable is False or not query.answers or all(claims.right):
        return
    text = item.parsed.answer_text
    stated = [
        form
        for mention in claims.asserted_wrong()
        if _has_number(reading.plain, form := text[mention.start : mention.end], entry)
    ]
    for form in stated:
        type_ = _answer_type(form, entry)
        # Where something unknown stands there itself, the wrong answer is only mentioned.
        if type_ not in faults and (place := _place(form, reading.plain)):
            yield *place, type_
    if stated or faults or any(claims.wrong):
        return
    if abstains(reading.plain, query.language, question=query.text) >= ABSTAINS_AT:
        return
    lacking = [f for f, held in zip(query.answers, claims.right, strict=True) if not held]
    if any(values_in(form, entry) for forms in lacking for form in forms):
        return
    if place := stranger(reading.plain, [place[0] for place in reading.sentences], reading.shown):
        yield *place, "name"


def _has_number(text: str, form: str, entry: Language) -> bool:
    """Whether a text has the numbers of a form too, where these are in words."""
    said = values_in(text, entry)
    return all(not said.isdisjoint(number.values) for number in quantities(form, entry))


def _answer_type(form: str, entry: Language) -> SpanType:
    words = lexicon(entry.code)
    if form.casefold().strip(" ,、.") in {*words.yes, *words.no}:
        return "negation"
    return "number" if quantities(form, entry) else "name"


def _place(form: str, text: str) -> tuple[int, int] | None:
    """Where a text states a form, or as much of its beginning as it states."""
    low = text.casefold()
    if len(low) != len(text):
        low = text.lower() if len(text.lower()) == len(text) else text
    form = form.casefold()
    for length in range(len(form), max(2 * len(form) // 3, 1), -1):
        start = low.find(form[:length].rstrip())
        if start >= 0:
            return start, start + len(form[:length].rstrip())
    return None


# Citations ----------------------------------------------------------------------------------------


ELSEWHERE = 10
"""N-grams of a sentence that only another passage has, for its citation to be wrong, at least."""

NOT_HERE = 0.4
"""How many of its own a cited passage has, at most, as a share of those."""


def _citation_faults(reading: _Reading) -> Iterator[tuple[int, int, SpanType]]:
    yield from ((start, end, "citation") for start, end, ids in reading.brackets if not ids)
    nexts = [start for start, _, _ in reading.sentences[1:]] + [len(reading.answer)]
    for (start, end, ids), until in zip(reading.sentences, nexts, strict=False):
        if ids and _is_elsewhere(reading, start, end, ids):
            for bracket in reading.brackets:
                if start <= bracket.start < until and bracket.ids:
                    yield bracket.start, bracket.end, "citation"


def _is_elsewhere(reading: _Reading, start: int, end: int, ids: Sequence[str]) -> bool:
    """Whether another passage than those cited holds what a sentence says, and they do not.

    What counts is n-grams of which one passage alone has them, and the question not.
    """
    entry = reading.shown.language
    said = grams_of(folded(reading.plain[start:end], entry), entry)
    own = _own_grams(reading.texts, reading.item.query.text, entry.code)
    order = reading.item.shown
    shared = {id_: len(said & grams) for id_, grams in zip(order, own, strict=True)}
    here = max((shared[id_] for id_ in ids if id_ in shared), default=0)
    elsewhere = max(shared.values(), default=0)
    return elsewhere >= ELSEWHERE and here < NOT_HERE * elsewhere


@lru_cache(maxsize=512)
def _own_grams(texts: tuple[str, ...], question: str, code: str) -> tuple[frozenset[str], ...]:
    """The n-grams of each text that neither another nor the question has."""
    asked = holdings((question,), code).grams
    each = [holdings((text,), code).grams - asked for text in texts]
    shared = {gram for gram, count in Counter(chain(*each)).items() if count > 1}
    return tuple(grams - shared for grams in each)


DEFINITIONS = (Definition("unknown_facts", unknown_facts, Facts("lower", 0, 1, ("passages",))),)
