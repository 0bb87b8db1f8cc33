"""Whether a question that was written for a test says, and leads to, what the passages hold.

All of it is told from the texts alone, without a model: the language, where the answers stand,
what the reference cites, and whether two items ask the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import Field

from mirage.building.instructions import plain_sentences
from mirage.features.language import language_probabilities
from mirage.languages import Language
from mirage.models import Forms, Passage, Query, Record
from mirage.text import ABSTAINS_AT, MENTIONED_AT, abstains, cite_by_id, mention, parse, tokenize
from mirage.text.lexicon import lexicon
from mirage.text.mentions import stem
from mirage.text.quantities import Quantity, dates, days_in, quantities, values_in

__all__ = [
    "PAIRS",
    "Draft",
    "Fault",
    "FaultKind",
    "ItemKind",
    "duplicate_of",
    "faults_in",
    "query_of",
    "stands",
]

ItemKind = Literal["single", "list", "date", "two_passages", "comparison", "near_miss"]
"""What an item asks for.

One fact; several facts; a date or a number; what takes two passages; which of two things; and what
the passages seem to answer and do not.
"""

PAIRS: tuple[ItemKind, ...] = ("two_passages", "comparison")
"""The kinds that are about two passages."""

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
"""Why an item is not in a test set, in the order in which it is looked for."""

IN_LANGUAGE = 0.1
"""The share of a text that is probably in the language, at least: a short one may be of names."""

LONGEST_QUESTION = 400
"""Characters."""

SAME, ALIKE = 0.9, 0.5
"""Likeness from which on two questions ask the same, in any case and with the same answers."""


class Draft(Record):
    """An item as somebody wrote it, before anything is known of it.

    ``answers`` and ``wrong_answers`` are as in :class:`mirage.Query`. ``reason`` and ``answer``
    are the two parts of a reference, which cite passages as ``[1]``, in the order in which the
    writer saw them, or by their ids. A draft without a question says in ``reason`` why there is
    none.
    """

    question: str = ""
    answers: tuple[Forms, ...] = ()
    wrong_answers: tuple[Forms, ...] = ()
    reason: str = ""
    answer: str = ""


class Fault(Record):
    """What is wrong with an item; ``detail`` says where."""

    kind: FaultKind
    detail: str = Field(default="")


_NUMERIC_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}")


# Where answers stand ------------------------------------------------------------------------------


def stands(form: str, text: str, language: str | Language) -> bool:
    """Whether a text states a name, a number, a date or a short phrase.

    As :func:`mirage.text.mention` tells; or, where the form has numbers, all of them stand there in
    digits or words, a date's month too, and what the form says beside them is mentioned.

    Raises:
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    held = mention(form, text, entry)
    stated = quantities(form, entry)
    if held == 1 or not stated:
        return held >= MENTIONED_AT
    values = values_in(text, entry)
    if _NUMERIC_DATE.fullmatch(form.strip()):
        years = {value for quantity in stated for value in quantity.values if value > 31}
        return bool(days_in(form, entry)[0] & days_in(text, entry)[0]) and years <= values
    days = dates(form, entry)
    if any(day.month not in {other.month for other in dates(text, entry)} for day in days):
        return False
    if not all(quantity.values & values for quantity in stated):
        return False
    rest = _without(form, [*((day.start, day.end) for day in days), *(q[:2] for q in stated)])
    return not tokenize(rest, entry) or mention(rest, text, entry) >= MENTIONED_AT


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _any_stands(forms: Iterable[str], text: str, entry: Language) -> bool:
    return any(stands(form, text, entry) for form in forms)


def _give_away(question: str, forms: Iterable[str], entry: Language) -> bool:
    """Return whether a question holds the whole of a short answer in one of its forms.

    The words of the answer have to follow each other in the question, in any inflection. An answer
    that shares words with its question, as "Flask-Caching" does with "Which extension provides
    caching for Flask?", is not given away.
    """
    words = tokenize(question, entry)
    return any(
        stands(form, question, entry) and _follow_each_other(form, words, entry) for form in forms
    )


def _follow_each_other(form: str, words: Sequence[str], entry: Language) -> bool:
    # Numbers may be written in digits or in words, so `stands` alone compares them.
    numbers = [quantity[:2] for quantity in quantities(form, entry)]
    parts = tokenize(_without(form, numbers), entry)
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
    """What is wrong with a draft, as far as its own text and its passages tell.

    Args:
        draft: the item.
        kind: what it was to be.
        passages: what it was written from, in that order.
        language: what it is to be in.
        complete: whether it needs wrong answers and a reference, as an LLM's draft does. Such a
            draft is also checked for what instructions within the passages may have put into it.

    Raises:
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    question = draft.question.strip()
    if not question:
        return [Fault(kind="skipped", detail=draft.reason)]
    if len(question) > LONGEST_QUESTION or not tokenize(question, entry):
        return [Fault(kind="no question", detail=f"{len(question)} characters")]
    return [
        *_of_language(draft, passages, entry),
        *_of_answers(draft, kind, passages, entry),
        *(_of_grounding(draft, passages, entry) if complete else ()),
        *_of_wrong_answers(draft, kind, entry, complete),
        *_of_reference(draft, kind, passages, entry, complete),
    ]


def _of_language(draft: Draft, passages: Sequence[Passage], entry: Language) -> Iterator[Fault]:
    context = ("", *(passage.titled_text for passage in passages))
    plain = cite_by_id(draft.answer, entry, ())[0]
    texts = {"question": draft.question, "answer": plain, "reason": draft.reason}
    for name, text in texts.items():
        shares = language_probabilities(text, entry, context)
        if shares and shares.get(entry.code, 0.0) < IN_LANGUAGE:
            most = max(shares, key=shares.__getitem__) or "another"
            yield Fault(kind="wrong language", detail=f"the {name} looks like {most!r}")


def _of_answers(
    draft: Draft, kind: ItemKind, passages: Sequence[Passage], entry: Language
) -> Iterator[Fault]:
    if kind == "near_miss":
        if draft.answers:
            yield Fault(kind="another kind", detail="it has answers")
        return
    if not draft.answers:
        yield Fault(kind="no answer")
        return
    text = "\n".join(passage.titled_text for passage in passages)
    for forms in draft.answers:
        if not any(tokenize(form, entry) for form in forms):
            yield Fault(kind="no answer", detail=f"{forms[0]!r} has no letter or digit")
        elif not _any_stands(forms, text, entry):
            yield Fault(kind="answer not in the passages", detail=forms[0])
        elif kind != "comparison" and _give_away(draft.question, forms, entry):
            yield Fault(kind="answer in the question", detail=forms[0])
    if kind == "list" and len(draft.answers) == 1:
        yield Fault(kind="another kind", detail="a list has several answers")
    if kind == "date" and not any(quantities(form, entry) for form in draft.answers[0]):
        yield Fault(kind="another kind", detail="the answer is no date or number")


def _of_grounding(draft: Draft, passages: Sequence[Passage], entry: Language) -> Iterator[Fault]:
    """Yield the faults of a draft that follows its passages instead of asking about them."""
    texts = [passage.titled_text for passage in passages]
    question = tokenize(draft.question, entry)
    if any(_holds(tokenize(text, entry), question) for text in texts):
        yield Fault(kind="copied from the passage", detail=draft.question[:LONGEST_QUESTION])
    facts = "\n".join(sentence for text in texts for sentence in plain_sentences(text))
    whole = "\n".join(texts)
    for forms in draft.answers:
        if _any_stands(forms, whole, entry) and not _any_stands(forms, facts, entry):
            yield Fault(kind="answer not stated as a fact", detail=forms[0])


def _holds(words: Sequence[str], sequence: Sequence[str]) -> bool:
    """Return whether a sequence of words follows each other in a text."""
    return f"\0{chr(0).join(sequence)}\0" in f"\0{chr(0).join(words)}\0"


def _of_wrong_answers(
    draft: Draft, kind: ItemKind, entry: Language, complete: bool
) -> Iterator[Fault]:
    if complete and kind != "near_miss" and not draft.wrong_answers:
        yield Fault(kind="no wrong answer")
    right = [form for forms in draft.answers for form in forms]
    for forms in draft.wrong_answers:
        same = next((w for w in forms for r in right if _overlap(w, r, entry)), None)
        if same is not None:
            yield Fault(kind="wrong answer is right", detail=same)
    if kind == "comparison" and _give_away(draft.question, right, entry):
        wrong = [form for forms in draft.wrong_answers for form in forms]
        if not _any_stands(wrong, draft.question, entry):
            yield Fault(
                kind="answer in the question", detail="without what it is to be compared with"
            )


def _overlap(one: str, other: str, entry: Language) -> bool:
    numbers, others = quantities(one, entry), quantities(other, entry)
    if numbers and others and not (_are_in(numbers, others) and _are_in(others, numbers)):
        return False  # a hundred and twenty holds a hundred, and is another number
    return stands(one, other, entry) or stands(other, one, entry)


def _are_in(numbers: Iterable[Quantity], others: Sequence[Quantity]) -> bool:
    return all(any(one.values & other.values for other in others) for one in numbers)


def _of_reference(
    draft: Draft,
    kind: ItemKind,
    passages: Sequence[Passage],
    entry: Language,
    complete: bool,
) -> Iterator[Fault]:
    if not draft.answer.strip():
        if complete:
            yield Fault(kind="no answer in the reference", detail="there is none")
        return
    told = _reference(draft, passages, entry)
    if not told.known:
        yield Fault(kind="cites what is not shown", detail=draft.answer)
    if kind == "near_miss":
        if abstains(told.answer, entry, question=draft.question) < ABSTAINS_AT:
            yield Fault(kind="no abstention in the reference", detail=draft.answer)
        return
    needed = len(passages) if kind in PAIRS else 1
    if len(told.cited) < needed:
        yield Fault(kind="cites too little", detail=f"{len(told.cited)} of {needed} passages")
    for forms in draft.answers:
        if not _any_stands(forms, told.answer, entry):
            yield Fault(kind="no answer in the reference", detail=forms[0])
    if complete and kind != "comparison":
        for forms in draft.wrong_answers:
            if _any_stands(forms, told.answer, entry):
                yield Fault(kind="wrong answer in the reference", detail=forms[0])


# The query ----------------------------------------------------------------------------------------


class _Reference(NamedTuple):
    """A reference, the text of its answer without citations, and the passages that this cites."""

    text: str
    answer: str
    cited: tuple[str, ...]
    known: bool


def _reference(draft: Draft, passages: Sequence[Passage], entry: Language) -> _Reference:
    reason, known = _cited(draft.reason.strip(), passages, entry)
    answer, also = _cited(draft.answer.strip(), passages, entry)
    ids = [passage.id for passage in passages]
    parsed = parse(answer, entry, ids)
    text = f"##Reason: {reason}\n##Answer: {answer}"
    return _Reference(text, parsed.answer_text, parsed.citations, known and also)


def _cited(text: str, passages: Sequence[Passage], entry: Language) -> tuple[str, bool]:
    """The text with citations by id, whether it had them by position or by id.

    An id such as 2 would be taken for a position, so each goes by a name of its own meanwhile.
    """
    ids = {f"passage_{n}": passage.id for n, passage in enumerate(passages, 1)}
    for name, id_ in ids.items():
        if not id_.isdecimal():
            text = text.replace(f"[{id_}]", f"[{name}]")
    text, known = cite_by_id(text, entry, tuple(ids))
    for name, id_ in ids.items():
        text = text.replace(f"[{name}]", f"[{id_}]")
    return text, known


def query_of(
    draft: Draft,
    kind: ItemKind,
    passages: Sequence[Passage],
    language: str | Language,
    *,
    id: str,
) -> Query:
    """The query that a draft without faults is, showing the passages that it was written from.

    What its reference cites is relevant, or all of them where it has none. Its cluster is the
    document of the first.

    Args:
        draft: the item.
        kind: what it asks for.
        passages: what it was written from, in that order.
        language: of the item.
        id: what to call the query.

    Raises:
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    answerable = kind != "near_miss"
    told = _reference(draft, passages, entry) if draft.answer.strip() else None
    cited = told.cited if told is not None and told.cited else tuple(p.id for p in passages)
    return Query(
        id=id,
        language=entry.code,
        text=draft.question.strip(),
        passages=tuple(passages),
        relevant=cited if answerable else (),
        reference=None if told is None else told.text,
        answerable=answerable,
        answers=draft.answers,
        wrong_answers=draft.wrong_answers,
        cluster=passages[0].document_id,
        metadata={"kind": kind},
    )


# Two items ----------------------------------------------------------------------------------------


def duplicate_of(query: Query, others: Iterable[Query]) -> Query | None:
    """The first of ``others`` that asks the same, if one does.

    Two questions ask the same where they are the same but for case and marks; where half of their
    words are, and the answers; where one passage gives both the same answers; and, of questions
    without an answer, where nearly all of their words are. Likeness is the Dice coefficient of the
    words (of pairs of characters, where a script parts no words); with answers, of those that say
    something of the matter.
    """
    return next((other for other in others if _same(query, other)), None)


def _same(one: Query, other: Query) -> bool:
    entry = Language.of(one.language)
    if _tokens(one.text, entry) == _tokens(other.text, entry):
        return True
    if not one.answers and not other.answers:
        return _likeness(one, other, frozenset()) >= SAME
    if len(one.answers) != len(other.answers):
        return False
    common = lexicon(entry.code).function_words
    near = _likeness(one, other, common) >= ALIKE or bool(set(one.relevant) & set(other.relevant))
    # Answers are compared last, because that takes a hundred times as long.
    return near and all(
        any(_any_stands(forms, "\n".join(known), entry) for known in other.answers)
        for forms in one.answers
    )


def _likeness(one: Query, other: Query, common: frozenset[str]) -> float:
    """The Dice coefficient of what two questions consist of, without ``common`` words."""
    entry = Language.of(one.language)
    a, b = (_parts(query.text, entry, common) for query in (one, other))
    return 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0


# Every item is compared with all before it, so its words are kept between the comparisons.
_KEPT = 4096


@lru_cache(maxsize=_KEPT)
def _tokens(text: str, entry: Language) -> tuple[str, ...]:
    return tuple(tokenize(text, entry))


@lru_cache(maxsize=_KEPT)
def _parts(text: str, entry: Language, common: frozenset[str]) -> frozenset[str]:
    tokens = [stem(token, entry) for token in _tokens(text, entry)]
    if entry.tokens == "character":
        return frozenset(map("".join, pairwise(tokens))) or frozenset(tokens)
    return frozenset(tokens) - common or frozenset(tokens)
