"""What is informative in an answer and in its reference: numbers, names, rare words.

For queries without short answers. Phrasing is told from matter by where a word stands: matter is
what passages say, and what few of them say counts most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from mirage.features._alignment import replacements
from mirage.features._content import grams, words
from mirage.features.base import (
    Answered,
    Definition,
    Facts,
    NotComputed,
    passage_texts,
)
from mirage.features.overlap import reference_answer
from mirage.languages import Language
from mirage.models import Query
from mirage.text import tokenize
from mirage.text.lexicon import lexicon
from mirage.text.numbers import numbers
from mirage.text.quantities import values_in

__all__ = [
    "contradiction",
    "fact_agreement",
    "fact_precision",
    "fact_recall",
    "passage_coverage",
]

NUMBER_WEIGHT = 4.0
"""What a number weighs; a word that one of five passages holds weighs 1.9."""

HELD_AT = 0.6
"""The share of a word's n-grams that a text has to hold to hold the word in some form."""

LONGEST_NUMBER = 15
"""Digits of a number that are compared with numbers in words."""

ENOUGH = 0.3
"""The recall of a reference's facts with which an answer agrees: what was asked is seldom more."""

REPLACED_AT = 0.1
"""The share of a reference's facts in whose place something else stands, for a contradiction."""

_NO_RELEVANT = NotComputed("the query has no relevant passage whose text is at hand")
_NOTHING = NotComputed("nothing in the reference is informative: its words are the question's")
_NO_PASSAGES = NotComputed("the query has no texts of passages")


def fact_recall(item: Answered) -> float | NotComputed:
    """Share of what is informative in the reference that the answer tells too.

    In [0, 1]. Informative are numbers, and words that a relevant passage holds, that the question
    does not hold, and that are no function words; each word weighs the square of the logarithm of
    (passages + 1) / (passages that hold it + 0.5), a number 4. A word is held in any form that
    shares 60 % of its n-grams of characters. Not computed without a reference, without relevant
    passages, or where the reference only repeats the question.
    """
    told = _told(item)
    if isinstance(told, NotComputed):
        return told
    answer, language = item.parsed.answer_text, item.query.language
    return _share(told, lambda thing: _holds(answer, thing, language))


def contradiction(item: Answered) -> float | NotComputed:
    """1 where the answer repeats the reference with something else in place of a fact, else 0.

    Reference and answer are aligned word by word, or character by character where nothing parts
    words. A fact is replaced where a few words of the reference, informative as in
    :func:`fact_recall`, stand nowhere in the answer, and in their place, beside words that both
    have, stand others that are no function words. It is a contradiction where more than 10 % of the
    reference's weight is replaced: less is a synonym. Not computed where :func:`fact_recall` is
    not.
    """
    told = _told(item)
    if isinstance(told, NotComputed):
        return told
    answer, language = item.parsed.answer_text, item.query.language
    ordinary = lexicon(language).function_words
    lost: set[str] = set()
    for before, instead in replacements(str(reference_answer(item)), answer, language):
        gone = [thing for thing in before if thing in told and not _holds(answer, thing, language)]
        if gone and not ordinary.issuperset(instead):
            lost.update(gone)
    return float(_share(told, lambda thing: thing in lost) > REPLACED_AT)


def fact_agreement(item: Answered) -> float | NotComputed:
    """How far the answer tells the facts of the reference; 0 where it contradicts them.

    In [0, 1]: :func:`fact_recall` over 0.3, at most 1, for a true answer need not tell all that a
    reference adds to what was asked; 0 where there is a :func:`contradiction`. Not computed where
    these are not.
    """
    contradicted, recall = contradiction(item), fact_recall(item)
    if isinstance(contradicted, NotComputed) or isinstance(recall, NotComputed):
        return recall
    return 0.0 if contradicted else min(1.0, recall / ENOUGH)


def fact_precision(item: Answered) -> float | NotComputed:
    """Share of what is informative in the answer that the reference or a relevant passage holds.

    In [0, 1], with weights as in :func:`fact_recall`; words that no passage and no reference holds
    are phrasing and count for nothing, numbers always count. 1 where nothing is left. Not computed
    without relevant passages.
    """
    sources = _relevant(item.query)
    if not sources:
        return _NO_RELEVANT
    reference = reference_answer(item)
    if not isinstance(reference, NotComputed):
        sources = (*sources, reference)
    told = _matter(item.parsed.answer_text, item.query, (*_passages(item.query), *sources))
    language = item.query.language
    return _share(told, lambda thing: any(_holds(s, thing, language) for s in sources))


def passage_coverage(item: Answered) -> float | NotComputed:
    """Share of the shown passages that the answer repeats, from 0 to 1.

    The recall of the passages' n-grams of characters, two longer than the language's own length:
    a short answer repeats little, and whoever copies all passages everything.
    """
    passages, language = passage_texts(item, item.shown), item.query.language
    if isinstance(passages, NotComputed):
        return passages
    if not passages:
        return _NO_PASSAGES
    shown = _runs_of(passages, language)
    return len(shown & _runs(item.parsed.answer_text, language)) / max(1, len(shown))


def _passages(query: Query) -> tuple[str, ...]:
    # A system may bring a passage that the query has, under another id.
    return tuple(dict.fromkeys(p.titled_text for p in query.passages))


def _relevant(query: Query) -> tuple[str, ...]:
    return tuple(p.titled_text for p in query.passages if p.id in query.relevant)


def _told(item: Answered) -> dict[str, float] | NotComputed:
    """What is informative in the reference, with its weights."""
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    sources = _relevant(item.query)
    if not sources:
        return _NO_RELEVANT
    return _matter(reference, item.query, sources) or _NOTHING


def _share(weights: dict[str, float], holds: Callable[[str], bool]) -> float:
    total = sum(weights.values())
    return sum(weight for thing, weight in weights.items() if holds(thing)) / total if total else 1


def _matter(text: str, query: Query, sources: tuple[str, ...]) -> dict[str, float]:
    """Numbers and informative words of a text that sources hold, with their weights."""
    language, passages = query.language, _passages(query)
    ordinary = lexicon(language).function_words
    weights = dict.fromkeys(numbers(text) - numbers(query.text), NUMBER_WEIGHT)
    for word in words(text, language):
        if word in ordinary or _holds(query.text, word, language):
            continue
        if any(_holds(source, word, language) for source in sources):
            weights[word] = _weight(word, passages, language)
    return weights


@lru_cache(maxsize=65536)
def _weight(word: str, passages: tuple[str, ...], language: str) -> float:
    holders = sum(_holds(passage, word, language) for passage in passages)
    return math.log((len(passages) + 1) / (holders + 0.5)) ** 2


@lru_cache(maxsize=65536)
def _holds(text: str, thing: str, language: str) -> bool:
    """Whether a text holds a number, in digits or in words, or a word in some form."""
    if thing.isdecimal():
        return thing in numbers(text) or float(thing[:LONGEST_NUMBER]) in values_in(text, language)
    held = _beginnings(text, language)
    if thing in held:
        return True
    parts = grams(thing, Language.of(language).gram_length)
    return len(parts & held) >= HELD_AT * len(parts)


@lru_cache(maxsize=4096)
def _beginnings(text: str, language: str) -> frozenset[str]:
    """The words of a text, and their n-grams up to the language's own length."""
    held = words(text, language)
    if Language.of(language).tokens == "character":
        return frozenset(held)
    lengths = range(1, Language.of(language).gram_length + 1)
    return frozenset(held).union(*(grams(word, n) for word in held for n in lengths))


@lru_cache(maxsize=4096)
def _runs(text: str, language: str) -> frozenset[str]:
    entry = Language.of(language)
    joined, length = " ".join(tokenize(text, entry)), entry.gram_length + 2
    return frozenset(joined[i : i + length] for i in range(len(joined) - length + 1))


@lru_cache(maxsize=4096)
def _runs_of(texts: tuple[str, ...], language: str) -> frozenset[str]:
    return frozenset().union(*(_runs(text, language) for text in texts))


_RECALL = Facts("higher", 0, 1, ("reference", "relevant passages"))

DEFINITIONS = (
    Definition("fact_recall", fact_recall, _RECALL),
    Definition("fact_agreement", fact_agreement, _RECALL),
    Definition("contradiction", contradiction, Facts("lower", 0, 1, _RECALL.needs)),
    Definition("fact_precision", fact_precision, Facts("higher", 0, 1, ("relevant passages",))),
    Definition("passage_coverage", passage_coverage, Facts("none", 0, 1, ("passages",))),
)
