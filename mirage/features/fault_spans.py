"""Fault spans: the parts of an answer that the evidence does not support, with their types.

The evidence consists of the shown passages, the question, the right answers and the reference. All
faults are detected by rules and the word lists of each language's lexicon, without a model. The
rules prefer precision to recall: a part that may be a correct paraphrase is not reported.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import chain, groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from mirage.features._foreign import foreign_stretches
from mirage.features._names import names, unfamiliar_stretch
from mirage.features._shown import TextIndex, evidence, grams_of, index_texts, shown_texts
from mirage.features.answer_claims import answer_claims
from mirage.features.base import NOTHING_SHOWN, Answered, Definition, Facts, NotComputed
from mirage.languages import LANGUAGES, Language
from mirage.text import abstains
from mirage.text.abstentions import ABSTAINS_AT
from mirage.text.citations import Citation, Passages, citations
from mirage.text.lexicon import lexicon
from mirage.text.mentions import folded
from mirage.text.negations import negation_faults
from mirage.text.number_terms import states_converted
from mirage.text.quantities import Date, Quantity, dates, numeric_dates, quantities, values_in

SpanType = Literal["number", "date", "name", "negation", "language", "citation"]


class Span(NamedTuple):
    """A part of an answer that the evidence (passages, question, right answers) does not support.

    Attributes:
        start: Index of its first character in the answer as written, :attr:`ParsedResponse.answer
            <mirage.text.ParsedResponse.answer>`.
        end: Index after its last character.
        type: The kind of fault.
        text: The text of the span, ``answer[start:end]``.
    """

    start: int
    end: int
    type: SpanType
    text: str


class _Fact(NamedTuple):
    """A number, date or name in an answer, and whether the passages or the query support it."""

    start: int
    end: int
    type: SpanType
    in_evidence: bool


class _Reading(NamedTuple):
    """An answer with the data from which its unsupported parts are found.

    Attributes:
        item: The answered query.
        answer: The answer as written.
        plain: The answer with blanks in place of citations and layout, so that the positions of the
            remaining characters do not change.
        brackets: The citations.
        sentences: Start, end and cited passage ids of each sentence.
        texts: The texts of the shown passages.
        text_index: The index of the evidence: shown passages, question, right answers and
            reference.
    """

    item: Answered
    answer: str
    plain: str
    brackets: tuple[Citation, ...]
    sentences: tuple[tuple[int, int, tuple[str, ...]], ...]
    texts: tuple[str, ...]
    text_index: TextIndex


def spans(item: Answered) -> tuple[Span, ...]:
    """Return the parts of an answer that passages and query do not support, in order.

    Return no spans if the texts of the shown passages are unknown.

    Example:
        >>> from mirage import Passage, Query, Response
        >>> from mirage.features import answered, spans
        >>> passage = Passage(id="p1", text="The bridge opened in 1932.")
        >>> query = Query(
        ...     id="q1", language="en", text="When did the bridge open?", passages=(passage,)
        ... )
        >>> response = Response(query_id="q1", text="The bridge opened in 1951 [1].")
        >>> [(span.type, span.text) for span in spans(answered(query, response))]
        [('date', '1951')]
    """
    reading = _read_answer(item)
    if isinstance(reading, NotComputed):
        return ()
    faults = [(f.start, f.end, f.type) for f in _facts(reading) if not f.in_evidence]
    faults += _wrong_answers(
        reading, {"number" if type_ == "date" else type_ for _, _, type_ in faults}
    )
    code, stretches = item.query.language, [row[:2] for row in reading.sentences]
    sources = (item.query.text, *reading.texts)
    faults += (
        (start, end, "language")
        for start, end in foreign_stretches(reading.plain, stretches, sources, code)
    )
    faults += _faults_by_sentence(reading)
    return tuple(
        Span(start, end, type_, reading.answer[start:end])
        for start, end, type_ in _without_overlaps(faults)
    )


def differs_from_source(item: Answered) -> bool:
    """Return whether a sentence of an answer negates a shown passage, or has a wrong citation.

    If the result is false, :func:`spans` returns no span of the types ``negation`` and
    ``citation``. This check takes only a fraction of the time of :func:`spans`.
    """
    reading = _read_answer(item)
    if isinstance(reading, NotComputed):
        return False
    return next(_faults_by_sentence(reading), None) is not None


def _faults_by_sentence(reading: _Reading) -> Iterator[tuple[int, int, SpanType]]:
    """Yield the start, end and type of each negated statement and of each wrong citation.

    A negated statement is a part of the answer that negates a shown passage.
    """
    code, stretches = reading.item.query.language, [row[:2] for row in reading.sentences]
    for start, end in negation_faults(reading.plain, stretches, reading.texts, code):
        yield start, end, "negation"
    yield from _citation_faults(reading)


def unknown_facts(item: Answered) -> float | NotComputed:
    """Return the share of the answer's numbers, dates and names that are not in the evidence.

    The evidence is the texts of the shown passages, the question, the right answers and the
    reference. The share is in [0, 1]. It is 0 if the answer has no number, date or name. Not
    computed if the texts of the shown passages are unknown.
    """
    reading = _read_answer(item)
    if isinstance(reading, NotComputed):
        return reading
    facts = _facts(reading)
    return sum(not fact.in_evidence for fact in facts) / len(facts) if facts else 0.0


def _without_overlaps(
    faults: Iterable[tuple[int, int, SpanType]],
) -> list[tuple[int, int, SpanType]]:
    """Return faults that do not overlap, in the order of the text.

    If faults overlap, the function keeps one: a clause in another language if there is one, and
    otherwise the fault that begins first.
    """
    rows: list[tuple[int, int, SpanType]] = []
    for start, end, type_ in sorted(faults, key=lambda row: (row[2] != "language", *row[:2])):
        if all(end <= first or start >= last for first, last, _ in rows):
            rows.append((start, end, type_))
    return sorted(rows)


# The answer ---------------------------------------------------------------------------------------


def _read_answer(item: Answered) -> _Reading | NotComputed:
    """Return an answer with the data for checking it, or the reason why data are missing."""
    if not item.shown_is_known:
        return NOTHING_SHOWN
    texts = shown_texts(item)
    if isinstance(texts, NotComputed):
        return texts
    entry = Language.with_board(item.query.language)
    answer = item.parsed.answer
    passages = Passages.of(item.shown, item.query.titles_shown_to(item.response))
    passages = passages.with_footnotes(item.response.text or "", entry)
    plain = item.parsed.content or answer
    # Citations in a list of sources belong to no sentence. Lists of sources are blank in ``plain``.
    brackets = tuple(
        bracket
        for bracket in citations(answer, entry, passages)
        if plain[bracket.start : bracket.end].strip()
    )
    for start, end, _ in brackets:
        plain = plain[:start] + " " * (end - start) + plain[end:]
    sentences = tuple(_locate_sentences(plain, item))
    return _Reading(item, answer, plain, brackets, sentences, texts, evidence(item, texts))


def _locate_sentences(plain: str, item: Answered) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield the start, end and cited passage ids of each sentence of the parsed answer.

    The positions are those in ``plain``.
    """
    cursor = 0
    positions: list[int] = []
    letters = ""
    for sentence in item.parsed.sentences:
        start = plain.find(sentence.text, cursor)
        end = start + len(sentence.text)
        if start < 0:  # a citation or layout was removed from within the sentence
            if not positions:
                positions = [at for at, char in enumerate(plain) if not char.isspace()]
                letters = "".join(plain[at] for at in positions)
            wanted = "".join(sentence.text.split())
            first = letters.find(wanted, bisect_left(positions, cursor))
            if first >= 0:
                start, end = positions[first], positions[first + len(wanted) - 1] + 1
            else:
                start, end = _stretch_of_letters(plain, sentence.text, cursor)
        yield start, end, sentence.citations
        cursor = end


def _stretch_of_letters(plain: str, text: str, cursor: int) -> tuple[int, int]:
    """Locate a sentence that does not occur literally in ``plain``; return its start and end.

    The function searches for one letter of the sentence after the other, from ``cursor`` on.
    """
    head = text[:-1].rstrip()
    start = plain.find(head, cursor)
    if start >= 0:
        stop = plain.find(text[-1], start + len(head))
        return start, max(stop + 1, start + len(head))
    for char in text:
        if char.isspace():
            continue
        position = plain.find(char, cursor)
        if position < 0:
            continue
        start = position if start < 0 else start
        cursor = position + 1
    return max(start, 0), max(cursor, start, 0)


# Facts --------------------------------------------------------------------------------------------


def _facts(reading: _Reading) -> list[_Fact]:
    """Return the numbers, dates and names of an answer.

    If the response mentions a wrong answer without asserting it, as in "not 25 but 23", the facts
    in this wrong answer count as supported by the passages.
    """
    rejected = _rejected_texts(reading.item)

    def is_rejected(fact: _Fact) -> bool:
        return any(reading.plain[fact.start : fact.end] in text for text in rejected)

    return [
        fact._replace(in_evidence=fact.in_evidence or is_rejected(fact))
        for fact in _stated_facts(reading)
    ]


def _rejected_texts(item: Answered) -> list[str]:
    claims, text = answer_claims(item), item.parsed.answer_text
    return [
        text[mention.start : mention.end]
        for mention in claims.mentions
        if mention.candidate >= len(claims.right)
        and not claims.wrong[mention.candidate - len(claims.right)]
    ]


def _stated_facts(reading: _Reading) -> list[_Fact]:
    facts = list(_dates(reading))
    # A number within a date is part of the date.
    in_dates = {position for date in facts for position in range(date.start, date.end)}
    facts += (fact for fact in _numbers(reading) if fact.start not in in_dates)
    starts = [start for start, _, _ in reading.sentences]
    facts += (
        _Fact(name.start, name.end, "name", name.in_evidence)
        for name in names(reading.plain, starts, reading.text_index)
    )
    return facts


COMMON_NUMBERS = frozenset(map(float, (0, 1, 2, 3, 12, 100)))
"""Numbers that always count as in the evidence, because they are so common.

They occur, for example, in counting, times of day and percentages.
"""

LABEL_WINDOW = 40
"""Maximum number of characters between a word such as "passage" and a number after it.

Within this distance, the number is a label, as in "passage 3", and states no fact.
"""

_LIST_NUMBER = re.compile(r"(?:\A|\n)[\s*_#>-]*\Z")
_YEARS = range(1000, 2200)


def _numbers(reading: _Reading) -> Iterator[_Fact]:
    """Yield the numbers that state a fact, in digits or in words."""
    code = reading.item.query.language
    for number in quantities(reading.plain, code):
        if not _is_label(number, reading) and not _has_fraction(number, reading):
            type_ = _number_type(number, reading.plain)
            yield _Fact(number.start, number.end, type_, _is_number_in_evidence(number, reading))


def _is_number_in_evidence(number: Quantity, reading: _Reading) -> bool:
    index = reading.text_index
    return (
        not COMMON_NUMBERS.isdisjoint(number.values)
        or index.number(number.values)
        or states_converted(number[:2], reading.plain, index.texts, index.language.code)
    )


def _number_type(number: Quantity, text: str) -> SpanType:
    digits = text[number.start : number.end]
    (value, *more) = number.values
    is_year = len(digits) == 4 and digits.isdecimal() and not more and int(value) in _YEARS
    return "date" if is_year else "number"


def _is_label(number: Quantity, reading: _Reading) -> bool:
    """Return whether a number states no fact, because it numbers a list item or a passage."""
    text = reading.plain
    if number.spelled:
        return False
    following = text[number.end : number.end + 1]
    start = max(0, number.start - LABEL_WINDOW)
    if following in (".", ")", "、", "）") and _LIST_NUMBER.search(text, start, number.start):
        return True
    # "Passage 3" is a label, but a number above the number of shown passages cannot be one.
    if max(number.values) > len(reading.item.shown):
        return False
    return bool(_passage_word(reading.text_index.language).search(text, start, number.start))


FRACTION_WINDOW = 16
"""Maximum distance, in characters, between a number in words and its half or quarter."""


def _has_fraction(number: Quantity, reading: _Reading) -> bool:
    """Return whether a half or a quarter is next to a number in words, as in "half past two".

    The value of such a number is uncertain, so it is not checked.
    """
    if not number.spelled:
        return False
    around = reading.plain[
        max(number.start - FRACTION_WINDOW, 0) : number.end + FRACTION_WINDOW
    ].casefold()
    return bool(_fraction(reading.text_index.language).search(around))


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
        yield _Fact(date.start, date.end, "date", _is_date_in_evidence(date, reading.text_index))
    for (start, end), readings in groupby(numeric_dates(reading.plain), key=itemgetter(0, 1)):
        in_evidence = any(_is_date_in_evidence(date, reading.text_index) for date in readings)
        yield _Fact(start, end, "date", in_evidence)


def _is_date_in_evidence(date: Date, index: TextIndex) -> bool:
    if date.year is not None and not index.number(frozenset((float(date.year),))):
        return False
    if date.day is not None:
        return index.day(date.day, date.month)
    return index.month(date.month)


# Right and wrong answers --------------------------------------------------------------------------


def _wrong_answers(reading: _Reading, faults: Set[SpanType]) -> Iterator[tuple[int, int, SpanType]]:
    """Yield the start, end and type of each asserted wrong answer.

    The query's list of wrong answers may not contain the one in the response. If no wrong answer is
    asserted, the name least similar to the passages and the query is yielded instead, on three
    conditions: there is no other fault, the response does not abstain, and the missing right answer
    is neither a number nor a yes or no.

    ``faults`` are the types of the faults that other rules have reported.
    """
    item = reading.item
    query, entry = item.query, reading.text_index.language
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
        # If a fault of this type is already reported, the wrong answer is only a mention beside it.
        if type_ not in faults and (stretch := _find_form(form, reading.plain)):
            yield *stretch, type_
    if stated or faults or any(claims.wrong):
        return
    if abstains(reading.plain, query.language, question=query.text) >= ABSTAINS_AT:
        return
    lacking = [forms for forms, right in zip(query.answers, claims.right, strict=True) if not right]
    # The rule for numbers has already checked answers with a number, and a yes or no is no name.
    if any(_answer_type(form, entry) != "name" for forms in lacking for form in forms):
        return
    if stretch := unfamiliar_stretch(
        reading.plain, [row[0] for row in reading.sentences], reading.text_index
    ):
        yield *stretch, "name"


def _has_number(text: str, form: str, entry: Language) -> bool:
    """Return whether a text states all numbers of a short answer, in digits or in words.

    The result is ``True`` if the short answer has no number.
    """
    values = values_in(text, entry)
    return all(not values.isdisjoint(number.values) for number in quantities(form, entry))


def _answer_type(form: str, entry: Language) -> SpanType:
    words = lexicon(entry.code)
    if form.casefold().strip(" ,、.") in {*words.yes, *words.no}:
        return "negation"
    return "number" if quantities(form, entry) else "name"


def _find_form(form: str, text: str) -> tuple[int, int] | None:
    """Return the start and end of a short answer in a text, or ``None`` if it does not occur.

    If the text does not contain the whole short answer, the function searches for the longest
    beginning of it. This beginning must be longer than two thirds of the short answer.
    """
    low = text.casefold()
    # Case folding may change the length ("ß"), but offsets have to stay the same.
    if len(low) != len(text):
        low = text.lower() if len(text.lower()) == len(text) else text
    form = form.casefold()
    for length in range(len(form), max(2 * len(form) // 3, 1), -1):
        start = low.find(form[:length].rstrip())
        if start >= 0:
            return start, start + len(form[:length].rstrip())
    return None


# Citations ----------------------------------------------------------------------------------------


FEWEST_GRAMS_ELSEWHERE = 10
"""Minimum number of n-grams that a sentence with a wrong citation shares with an uncited passage.

Only n-grams that no other passage contains are counted.
"""

MOST_CITED_SHARE = 0.4
"""Ratio of shared n-grams below which the cited passage counts as wrong.

The number of n-grams that the sentence shares with the cited passage is divided by the number that
it shares with the best passage.
"""


def _citation_faults(reading: _Reading) -> Iterator[tuple[int, int, SpanType]]:
    """Yield the start, end and type of each citation of a wrong or unknown passage.

    An unknown passage is one that was not shown.
    """
    yield from ((start, end, "citation") for start, end, ids in reading.brackets if not ids)
    next_starts = [start for start, _, _ in reading.sentences[1:]] + [len(reading.answer)]
    for (start, end, ids), until in zip(reading.sentences, next_starts, strict=False):
        if ids and _is_supported_elsewhere(reading, start, end, ids):
            for bracket in reading.brackets:
                if start <= bracket.start < until and bracket.ids:
                    yield bracket.start, bracket.end, "citation"


def _is_supported_elsewhere(reading: _Reading, start: int, end: int, ids: Sequence[str]) -> bool:
    """Return whether an uncited passage supports a sentence, and the cited ones (``ids``) do not.

    Support is measured by shared n-grams. An n-gram counts only if it occurs in a single passage,
    and not in the question.
    """
    entry = reading.text_index.language
    sentence_grams = grams_of(folded(reading.plain[start:end], entry), entry)
    unique_grams = _unique_grams(reading.texts, reading.item.query.text, entry.code)
    order = reading.item.shown
    counts = {
        id_: len(sentence_grams & grams) for id_, grams in zip(order, unique_grams, strict=True)
    }
    cited_count = max((counts[id_] for id_ in ids if id_ in counts), default=0)
    best_count = max(counts.values(), default=0)
    return (
        best_count >= FEWEST_GRAMS_ELSEWHERE
        and cited_count < MOST_CITED_SHARE * best_count
        and not _has_number_of(reading, start, end, ids)
    )


def _has_number_of(reading: _Reading, start: int, end: int, ids: Sequence[str]) -> bool:
    """Return whether a sentence states a number that only its cited passages (``ids``) have."""
    entry = reading.text_index.language
    values = values_in(reading.plain[start:end], entry)
    cited: frozenset[float] = frozenset()
    uncited = frozenset(values_in(reading.item.query.text, entry))
    for id_, text in zip(reading.item.shown, reading.texts, strict=True):
        if id_ in ids:
            cited |= values_in(text, entry)
        else:
            uncited |= values_in(text, entry)
    return bool(values & cited - uncited - COMMON_NUMBERS)


@lru_cache(maxsize=512)
def _unique_grams(texts: tuple[str, ...], question: str, code: str) -> tuple[frozenset[str], ...]:
    """Return the n-grams of each text that occur neither in another text nor in the question."""
    question_grams = index_texts((question,), code).grams
    grams_by_text = [index_texts((text,), code).grams - question_grams for text in texts]
    shared = {gram for gram, count in Counter(chain(*grams_by_text)).items() if count > 1}
    return tuple(grams - shared for grams in grams_by_text)


DEFINITIONS = (Definition("unknown_facts", unknown_facts, Facts("lower", 0, 1, ("passages",))),)
