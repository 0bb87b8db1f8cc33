"""Checks of test items against their passages.

All checks use only the texts, without a model: the language, whether the passages contain the
answers, the citations of the reference, and whether two items ask the same question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import Field

from mirage.features.language import language_probabilities
from mirage.languages import Language
from mirage.models import Forms, Passage, Query, Record
from mirage.testsets.instructions import plain_sentences
from mirage.text import abstains, mention, parse, tokenize
from mirage.text.abstentions import ABSTAINS_AT
from mirage.text.citations import cite_by_id
from mirage.text.lexicon import lexicon
from mirage.text.mentions import MENTIONED_AT, stems
from mirage.text.quantities import NUMERIC_DATE, Quantity, dates, days_in, quantities, values_in

ItemKind = Literal["single", "list", "date", "two_passages", "comparison", "near_miss"]
"""The kind of a test item.

``single`` asks for one fact, ``list`` for several facts, ``date`` for a date or number, and
``two_passages`` for a fact that no single passage states. ``comparison`` asks which of two things
is larger, earlier, etc. ``near_miss`` asks a question that the passages seem to answer but do not.
"""

PAIRS: tuple[ItemKind, ...] = ("two_passages", "comparison")
"""The kinds that need two passages."""

FaultKind = Literal[
    "not asked",
    "unreadable",
    "skipped",
    "instructions in the passage",
    "not filled in",
    "no question",
    "wrong language",
    "no answer",
    "answer in the question",
    "answer not in the passages",
    "copied from the passage",
    "answer not stated as a fact",
    "named by instructions alone",
    "no wrong answer",
    "wrong answer is right",
    "another kind",
    "cites what is not shown",
    "cites too little",
    "no answer in the reference",
    "wrong answer in the reference",
    "no abstention in the reference",
    "duplicate",
    "not answered from the passages",
    "answered by a passage",
]
"""The reason why an item is not in a test set, in the order of the checks."""

MAYBE_IN_LANGUAGE = 0.1
"""The smallest probability of the expected language that a text must have.

The threshold is low, because a short text may consist of names only.
"""

LONGEST_QUESTION = 400
"""The largest length of a question, in characters."""

DUPLICATE_AT, SIMILAR_AT = 0.9, 0.5
"""The smallest similarity of duplicate questions: without answers, and with the same answers."""


class Draft(Record):
    """A test item before it is checked.

    ``answers`` and ``wrong_answers`` have the format of :class:`mirage.Query`. ``reason`` and
    ``answer`` are the two parts of a reference. They cite passages by id, or by position:
    ``[1]`` is the first passage that the writer saw. If a draft has no question, ``reason``
    explains why.
    """

    question: str = ""
    answers: tuple[Forms, ...] = ()
    wrong_answers: tuple[Forms, ...] = ()
    reason: str = ""
    answer: str = ""


class Fault(Record):
    """A fault of an item; ``detail`` quotes the text at fault, or describes the fault."""

    kind: FaultKind
    detail: str = Field(default="")


# Answers in texts ---------------------------------------------------------------------------------


def stands(form: str, text: str, language: str | Language) -> bool:
    """Return whether a text states a name, a number, a date or a short phrase.

    The text is searched as in :func:`mirage.text.mention`. A phrase with numbers also matches if
    the text contains all its numbers, in digits or words, the months of its dates, and its other
    words.

    Args:
        form: The name, number, date or phrase.
        text: The text.
        language: The language of the form and the text.

    Example:
        >>> stands("12 members", "The council has twelve members.", "en")
        True
        >>> stands("20 members", "The council has twelve members.", "en")
        False
    """
    entry = Language.of(language)
    mention_score = mention(form, text, entry)
    numbers = quantities(form, entry)
    if mention_score == 1 or not numbers:
        return mention_score >= MENTIONED_AT
    values = values_in(text, entry)
    # The order of day and month in a numeric date is ambiguous, so all readings are compared.
    if NUMERIC_DATE.fullmatch(form.strip()):
        years = {value for quantity in numbers for value in quantity.values if value > 31}
        return bool(days_in(form, entry)[0] & days_in(text, entry)[0]) and years <= values
    days = dates(form, entry)
    if any(day.month not in {other.month for other in dates(text, entry)} for day in days):
        return False
    if not all(quantity.values & values for quantity in numbers):
        return False
    other_words = _blank_out(
        form, [*((day.start, day.end) for day in days), *(q[:2] for q in numbers)]
    )
    return not tokenize(other_words, entry) or mention(other_words, text, entry) >= MENTIONED_AT


def _blank_out(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _any_stated(forms: Iterable[str], text: str, entry: Language) -> bool:
    return any(stands(form, text, entry) for form in forms)


def _gives_away(question: str, forms: Iterable[str], entry: Language) -> bool:
    """Return whether a question contains a short answer in one of its spellings.

    The words of the answer must be consecutive in the question, in any inflection. Shared words
    alone do not count: "Which extension provides caching for Flask?" does not contain the answer
    "Flask-Caching".
    """
    words = tokenize(question, entry)
    return any(
        stands(form, question, entry) and _has_consecutive_words(form, words, entry)
        for form in forms
    )


def _has_consecutive_words(form: str, words: Sequence[str], entry: Language) -> bool:
    # Numbers may be written in digits or in words, so `stands` alone compares them.
    numbers = [quantity[:2] for quantity in quantities(form, entry)]
    parts = tokenize(_blank_out(form, numbers), entry)
    return any(
        all(
            mention(part, word, entry) >= MENTIONED_AT
            for part, word in zip(parts, words[start:], strict=False)
        )
        for start in range(len(words) - len(parts) + 1)
    )


# One item -----------------------------------------------------------------------------------------


def faults_in(
    draft: Draft,
    kind: ItemKind,
    passages: Sequence[Passage],
    language: str | Language,
    *,
    complete: bool = True,
) -> list[Fault]:
    """Return the faults of a draft that can be detected from its text and its passages.

    Args:
        draft: The draft.
        kind: The kind of item that was requested.
        passages: The passages that the draft was written from.
        language: The language that the draft should be in.
        complete: If true, wrong answers and a reference are required, and the draft must neither
            copy a passage nor obey instructions in it.

    Example:
        >>> from mirage import Passage
        >>> passage = Passage(id="a", text="The tower in Paris was built in 1889.")
        >>> draft = Draft(question="When was the tower in Paris built?", answers=[["1890"]])
        >>> faults_in(draft, "date", [passage], "en", complete=False)[0].kind
        'answer not in the passages'
    """
    entry = Language.of(language)
    question = draft.question.strip()
    if not question:
        return [Fault(kind="skipped", detail=draft.reason)]
    if len(question) > LONGEST_QUESTION or not tokenize(question, entry):
        return [Fault(kind="no question", detail=f"{len(question)} characters")]
    return [
        *_language_faults(draft, passages, entry),
        *_answer_faults(draft, kind, passages, entry),
        *(_grounding_faults(draft, passages, entry) if complete else ()),
        *_wrong_answer_faults(draft, kind, entry, complete),
        *_reference_faults(draft, kind, passages, entry, complete),
    ]


def _language_faults(draft: Draft, passages: Sequence[Passage], entry: Language) -> Iterator[Fault]:
    context = ("", *(passage.titled_text for passage in passages))
    answer_text = cite_by_id(draft.answer, entry, ())[0]
    texts = {"question": draft.question, "answer": answer_text, "reason": draft.reason}
    for name, text in texts.items():
        shares = language_probabilities(text, entry, context)
        if shares and shares.get(entry.code, 0.0) < MAYBE_IN_LANGUAGE:
            likely_language = max(shares, key=shares.__getitem__) or "another"
            yield Fault(kind="wrong language", detail=f"the {name} looks like {likely_language!r}")


def _answer_faults(
    draft: Draft, kind: ItemKind, passages: Sequence[Passage], entry: Language
) -> Iterator[Fault]:
    if kind == "near_miss":
        if draft.answers:
            yield Fault(kind="another kind", detail="a near miss must have no answers")
        return
    if not draft.answers:
        yield Fault(kind="no answer")
        return
    text = "\n".join(passage.titled_text for passage in passages)
    for forms in draft.answers:
        if not any(tokenize(form, entry) for form in forms):
            yield Fault(kind="no answer", detail=f"{forms[0]!r} has no letter or digit")
        elif not _any_stated(forms, text, entry):
            yield Fault(kind="answer not in the passages", detail=forms[0])
        elif kind != "comparison" and _gives_away(draft.question, forms, entry):
            yield Fault(kind="answer in the question", detail=forms[0])
    if kind == "list" and len(draft.answers) == 1:
        yield Fault(kind="another kind", detail="a list needs several answers")
    if kind == "date" and not any(quantities(form, entry) for form in draft.answers[0]):
        yield Fault(kind="another kind", detail="the answer is not a date or number")


def _grounding_faults(
    draft: Draft, passages: Sequence[Passage], entry: Language
) -> Iterator[Fault]:
    """Yield the faults of a draft that copies its passages or obeys instructions in them."""
    texts = [passage.titled_text for passage in passages]
    question = tokenize(draft.question, entry)
    if any(_contains_sequence(tokenize(text, entry), question) for text in texts):
        yield Fault(kind="copied from the passage", detail=draft.question[:LONGEST_QUESTION])
    # An answer that occurs only in questions or suspicious sentences may be planted.
    facts = "\n".join(sentence for text in texts for sentence in plain_sentences(text))
    whole = "\n".join(texts)
    for forms in draft.answers:
        if _any_stated(forms, whole, entry) and not _any_stated(forms, facts, entry):
            yield Fault(kind="answer not stated as a fact", detail=forms[0])


def _contains_sequence(words: Sequence[str], sequence: Sequence[str]) -> bool:
    """Return whether a list of words contains all words of ``sequence``, consecutively."""
    return f"\0{chr(0).join(sequence)}\0" in f"\0{chr(0).join(words)}\0"


def _wrong_answer_faults(
    draft: Draft, kind: ItemKind, entry: Language, complete: bool
) -> Iterator[Fault]:
    if complete and kind != "near_miss" and not draft.wrong_answers:
        yield Fault(kind="no wrong answer")
    right = [form for forms in draft.answers for form in forms]
    for forms in draft.wrong_answers:
        overlapping = next((w for w in forms for r in right if _overlap(w, r, entry)), None)
        if overlapping is not None:
            yield Fault(kind="wrong answer is right", detail=overlapping)
    if kind == "comparison" and _gives_away(draft.question, right, entry):
        wrong = [form for forms in draft.wrong_answers for form in forms]
        if not _any_stated(wrong, draft.question, entry):
            yield Fault(
                kind="answer in the question", detail="the thing to compare it with is missing"
            )


def _overlap(form: str, other_form: str, entry: Language) -> bool:
    numbers, other_numbers = quantities(form, entry), quantities(other_form, entry)
    if (
        numbers
        and other_numbers
        and not (_all_included(numbers, other_numbers) and _all_included(other_numbers, numbers))
    ):
        return False  # "a hundred and twenty" contains "a hundred", but is another number
    return stands(form, other_form, entry) or stands(other_form, form, entry)


def _all_included(numbers: Iterable[Quantity], other_numbers: Sequence[Quantity]) -> bool:
    return all(
        any(number.values & other_number.values for other_number in other_numbers)
        for number in numbers
    )


def _reference_faults(
    draft: Draft,
    kind: ItemKind,
    passages: Sequence[Passage],
    entry: Language,
    complete: bool,
) -> Iterator[Fault]:
    if not draft.answer.strip():
        if complete:
            yield Fault(kind="no answer in the reference", detail="there is no reference")
        return
    reference = _parse_reference(draft, passages, entry)
    if not reference.all_resolved:
        yield Fault(kind="cites what is not shown", detail=draft.answer)
    if kind == "near_miss":
        if abstains(reference.answer, entry, question=draft.question) < ABSTAINS_AT:
            yield Fault(kind="no abstention in the reference", detail=draft.answer)
        return
    needed = len(passages) if kind in PAIRS else 1
    if len(reference.cited) < needed:
        yield Fault(kind="cites too little", detail=f"{len(reference.cited)} of {needed} passages")
    for forms in draft.answers:
        if not _any_stated(forms, reference.answer, entry):
            yield Fault(kind="no answer in the reference", detail=forms[0])
    if complete and kind != "comparison":
        for forms in draft.wrong_answers:
            if _any_stated(forms, reference.answer, entry):
                yield Fault(kind="wrong answer in the reference", detail=forms[0])


# The query ----------------------------------------------------------------------------------------


class _Reference(NamedTuple):
    """The parts of a reference.

    Attributes:
        text: The whole text, with citations by passage id.
        answer: The answer without citations.
        cited: The ids of the passages that the answer cites.
        all_resolved: Whether every citation names a passage of the item.
    """

    text: str
    answer: str
    cited: tuple[str, ...]
    all_resolved: bool


def _parse_reference(draft: Draft, passages: Sequence[Passage], entry: Language) -> _Reference:
    reason, reason_resolved = _cite_by_ids(draft.reason.strip(), passages, entry)
    answer, answer_resolved = _cite_by_ids(draft.answer.strip(), passages, entry)
    ids = [passage.id for passage in passages]
    parsed = parse(answer, entry, ids)
    text = f"##Reason: {reason}\n##Answer: {answer}"
    return _Reference(
        text, parsed.answer_text, parsed.citations, reason_resolved and answer_resolved
    )


def _cite_by_ids(text: str, passages: Sequence[Passage], entry: Language) -> tuple[str, bool]:
    """Rewrite the citations in a text as passage ids, and return whether all could be resolved.

    Ids are replaced by unique names during the conversion, because an id such as 2 could be
    confused with a position.
    """
    ids = {f"passage_{n}": passage.id for n, passage in enumerate(passages, 1)}
    for name, id_ in ids.items():
        if not id_.isdecimal():
            text = text.replace(f"[{id_}]", f"[{name}]")
    text, all_resolved = cite_by_id(text, entry, tuple(ids))
    for name, id_ in ids.items():
        text = text.replace(f"[{name}]", f"[{id_}]")
    return text, all_resolved


def query_of(
    draft: Draft,
    kind: ItemKind,
    passages: Sequence[Passage],
    language: str | Language,
    *,
    id: str,
) -> Query:
    """Convert a draft to a query that shows the passages that the draft was written from.

    The passages that the reference cites are relevant. If it cites none, or there is no reference,
    all passages are relevant. A query of the kind ``near_miss``, which the passages do not answer,
    has no relevant passages. The cluster of the query is the document of the first passage.

    Args:
        draft: The draft.
        kind: The kind of item.
        passages: The passages that the draft was written from.
        language: The language of the draft.
        id: The id of the query.
    """
    entry = Language.of(language)
    answerable = kind != "near_miss"
    reference = _parse_reference(draft, passages, entry) if draft.answer.strip() else None
    cited = (
        reference.cited
        if reference is not None and reference.cited
        else tuple(p.id for p in passages)
    )
    return Query(
        id=id,
        language=entry.code,
        text=draft.question.strip(),
        passages=tuple(passages),
        relevant=cited if answerable else (),
        reference=None if reference is None else reference.text,
        answerable=answerable,
        answers=draft.answers,
        wrong_answers=draft.wrong_answers,
        cluster=passages[0].document_id,
        metadata={"kind": kind},
    )


# Two items ----------------------------------------------------------------------------------------


def duplicate_of(query: Query, others: Iterable[Query]) -> Query | None:
    """Return the first of ``others`` that asks the same question, or ``None``.

    Two questions are duplicates if one of these conditions holds:

    - They are equal except for case and punctuation.
    - Half of their content words and all their answers are the same.
    - They share a relevant passage and all their answers are the same.
    - Neither has an answer, and nearly all of their words are the same.

    The similarity of words is the Dice coefficient. In scripts without spaces between words, pairs
    of characters are compared instead of words.

    Example:
        >>> first = Query(id="a", language="en", text="When was the bridge built?")
        >>> second = Query(id="b", language="en", text="when was the bridge built")
        >>> duplicate_of(second, [first]).id
        'a'
    """
    return next((other for other in others if _is_duplicate(query, other)), None)


def _is_duplicate(query: Query, other: Query) -> bool:
    entry = Language.of(query.language)
    if _tokens(query.text, entry) == _tokens(other.text, entry):
        return True
    if not query.answers and not other.answers:
        return _similarity(query, other, frozenset()) >= DUPLICATE_AT
    if len(query.answers) != len(other.answers):
        return False
    function_words = lexicon(entry.code).function_words
    similar = _similarity(query, other, function_words) >= SIMILAR_AT or bool(
        set(query.relevant) & set(other.relevant)
    )
    # Answers are compared last, because this comparison takes a hundred times as long.
    return similar and all(
        any(_any_stated(forms, "\n".join(other_forms), entry) for other_forms in other.answers)
        for forms in query.answers
    )


def _similarity(query: Query, other: Query, common: frozenset[str]) -> float:
    """Return the Dice coefficient of the words of two questions, ignoring ``common`` words."""
    entry = Language.of(query.language)
    a, b = (_word_set(each.text, entry, common) for each in (query, other))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0


# Every item is compared with all earlier items, so the words of questions are cached.
_CACHE_SIZE = 4096


@lru_cache(maxsize=_CACHE_SIZE)
def _tokens(text: str, entry: Language) -> tuple[str, ...]:
    return tuple(tokenize(text, entry))


@lru_cache(maxsize=_CACHE_SIZE)
def _word_set(text: str, entry: Language, common: frozenset[str]) -> frozenset[str]:
    tokens = stems(_tokens(text, entry), entry)
    if entry.tokens == "character":
        return frozenset(map("".join, pairwise(tokens))) or frozenset(tokens)
    return frozenset(tokens) - common or frozenset(tokens)
