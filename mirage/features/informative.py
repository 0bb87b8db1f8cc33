"""What is informative in an answer and in its reference: numbers, names, rare words.

For queries without short answers. A reference is enough for :func:`fact_agreement` and
:func:`fact_recall`. With passages, :func:`fact_recall` and :func:`fact_precision` ignore phrasing:
only words that passages hold count, and those that few passages hold count most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from mirage.features._alignment import replacements
from mirage.features._content import function_words, grams, held, words
from mirage.features._negations import negates, negation_faults
from mirage.features.answers import UNANSWERABLE
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
from mirage.text import split_sentences, tokenize
from mirage.text.lexicon import lexicon
from mirage.text.numbers import numbers
from mirage.text.quantities import values_in
from mirage.text.words import WORD

__all__ = [
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

NUMBER_LETTERS = 10.0
"""The letters that a number counts for if there are no passages."""

NUMBER_CHARACTERS = 5.0
"""The pairs of characters that a number counts for if there are no passages."""

REPLACED_AT = 0.1
"""The share of a reference's facts from which on their replacement counts; less is a detail."""

LONGEST_NAME = {"word": 3, "character": 8}
"""Words, or pairs of characters, of a name or number that replaces another, at most."""

POLARITY = 0.1
"""The part of the agreement that is polarity, and not shared facts."""

_SHARED = 1 - POLARITY

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")

_NO_RELEVANT = NotComputed("the query has no relevant passage whose text is at hand")
_NOTHING = NotComputed("nothing in the reference is informative: its words are the question's")
_NO_PASSAGES = NotComputed("the query has no texts of passages")


def fact_recall(item: Answered) -> float | NotComputed:
    """Return the share of what is informative in the reference that the answer states too.

    The share is in [0, 1]. Numbers and content words are informative if the question does not hold
    them. If the text of a relevant passage is available, only words that a relevant passage holds
    count; each word weighs the square of the logarithm of (passages + 1) / (passages that hold it +
    0.5), and a number weighs 4. A word is held in any form that shares 60 % of its n-grams of
    characters. Otherwise words and numbers weigh as in :func:`fact_agreement`. The feature
    is not computed without a reference, or if the reference only repeats the question.
    """
    weights = _reference_weights(item)
    if isinstance(weights, NotComputed):
        return weights
    answer, language = item.parsed.answer_text, item.query.language
    if _of_passages(item):
        return _share(weights, lambda thing: _holds(answer, thing, language))
    return _held_share(weights, answer, language)


def fact_agreement(item: Answered) -> float | NotComputed:
    """Return how far the answer and the reference state the same facts, from 0 to 1.

    Nine tenths of the value are the sum of two shares, at most 1: how much of what is informative
    in the reference the answer holds, and the reverse. A true answer may be shorter than the
    reference or longer, and is seldom both. Informative are numbers and content words that the
    question does not hold. Words weigh as much as they have letters, and numbers 10; in languages
    of characters, pairs of characters and single Chinese characters weigh 1, and numbers 5. A form
    of a word counts in part.

    The last tenth is polarity: whether both first sentences have a negation, or neither has. The
    value falls by the share of the reference's sentences that the answer repeats with a negation
    more, or one less. It is 0 for an empty answer, if one text begins with yes and the other with
    no, and if the answer repeats the reference with another number or name in place of a fact. Not
    computed without a reference, if no passage answers the query, or if the reference only repeats
    the question.
    """
    reference = _reference(item)
    if isinstance(reference, NotComputed):
        return reference
    answer, language = item.parsed.answer_text, item.query.language
    facts, stated = _content_weights(reference, item.query), _content_weights(answer, item.query)
    if not facts:
        return _NOTHING
    if not answer.strip() or _are_opposite(answer, reference, language):
        return 0.0
    if _replaces_fact(item, reference):
        return 0.0
    shared = _held_share(facts, answer, language)
    shared += _held_share(stated, reference, language) if stated else 0.0
    value = _SHARED * min(1.0, shared) + POLARITY * _polarity_agrees(answer, reference, language)
    return value * (1 - _denied_share(answer, reference, language))


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


def _reference(item: Answered) -> str | NotComputed:
    """The reference's answer; none if no passage answers, for then it states no facts."""
    return UNANSWERABLE if item.query.answerable is False else reference_answer(item)


def _reference_weights(item: Answered) -> dict[str, float] | NotComputed:
    """What is informative in the reference, with its weights."""
    reference = _reference(item)
    if isinstance(reference, NotComputed):
        return reference
    return _of_passages(item) or _content_weights(reference, item.query) or _NOTHING


def _of_passages(item: Answered) -> dict[str, float]:
    """What is informative in the reference and held by a relevant passage, with its weights."""
    reference, sources = reference_answer(item), _relevant(item.query)
    if isinstance(reference, NotComputed) or not sources:
        return {}
    return _matter(reference, item.query, sources)


def _content_weights(text: str, query: Query) -> dict[str, float]:
    """Numbers and content words of a text that the question does not hold, with their weights."""
    language = query.language
    of_characters = Language.of(language).tokens == "character"
    number = NUMBER_CHARACTERS if of_characters else NUMBER_LETTERS
    weights = dict.fromkeys(numbers(text) - numbers(query.text), number)
    ordinary = function_words(language)
    for word in (*words(text, language), *_han(text)):
        is_content = word not in ordinary or len(word) == 1
        if is_content and not _is_asked(word, query.text, language):
            weights[word] = 1.0 if of_characters else float(len(word))
    return weights


def _han(text: str) -> tuple[str, ...]:
    """The different Chinese characters of a text: each may be a word, and some of them negate."""
    return tuple(dict.fromkeys(_HAN.findall(text)))


def _is_asked(word: str, question: str, language: str) -> bool:
    return word in question if _HAN.fullmatch(word) else held(word, question, language) == 1


def _held_share(weights: dict[str, float], text: str, language: str) -> float:
    """The share of the weights that a text holds; forms of a word count in part."""
    total = sum(weights.values())
    return sum(w * _likeness(text, thing, language) for thing, w in weights.items()) / total


def _likeness(text: str, thing: str, language: str) -> float:
    if thing.isdecimal():
        return float(_holds(text, thing, language))
    return float(thing in text) if _HAN.fullmatch(thing) else held(thing, text, language)


# Polarity and replaced facts ----------------------------------------------------------------------


def _polarity_agrees(answer: str, reference: str, language: str) -> bool:
    return _opening_negates(answer, language) == _opening_negates(reference, language)


@lru_cache(maxsize=4096)
def _opening_negates(text: str, language: str) -> bool:
    """Whether the first sentence has a negation; later ones may deny something else."""
    return any(negates(sentence, language) for sentence in split_sentences(text, language)[:1])


def _denied_share(answer: str, reference: str, language: str) -> float:
    """The share of the reference's sentences that the answer repeats with the opposite polarity."""
    denials = sum(
        1 for _ in negation_faults(answer, _places(answer, language), [reference], language)
    )
    return min(1.0, denials / max(1, len(split_sentences(reference, language))))


def _places(text: str, language: str) -> list[tuple[int, int]]:
    """Where the sentences of a text start and end."""
    places, cursor = [], 0
    for sentence in split_sentences(text, language):
        start = text.find(sentence, cursor)
        if start >= 0:
            cursor = start + len(sentence)
            places.append((start, cursor))
    return places


def _are_opposite(answer: str, reference: str, language: str) -> bool:
    return _opening_verdict(answer, language) * _opening_verdict(reference, language) < 0


@lru_cache(maxsize=4096)
def _opening_verdict(text: str, language: str) -> int:
    """1 if a text begins with yes, -1 if it begins with no, 0 otherwise."""
    words_, beginning = lexicon(language), text.lstrip(" *_#>-\"'“”").casefold()
    is_spaced = Language.of(language).tokens == "word"
    verdicts = [
        (len(form), verdict)
        for verdict, forms in ((1, words_.yes), (-1, words_.no))
        for form in forms
        if beginning.startswith(form)
        and not (is_spaced and beginning[len(form) : len(form) + 1].isalnum())
    ]
    return max(verdicts, default=(0, 0))[1]


def _replaces_fact(item: Answered, reference: str) -> bool:
    """Whether the answer has another number or name where the reference has a fact.

    Both texts are aligned word by word, or character by character in languages of characters.
    """
    weights = _reference_weights(item)
    if isinstance(weights, NotComputed):
        return False
    answer, language = item.parsed.answer_text, item.query.language
    lost: set[str] = set()
    for before, instead in replacements(reference, answer, language):
        gone = {thing for thing in before if thing in weights}
        gone = {thing for thing in gone if not _holds(answer, thing, language)}
        is_short = max(len(before), len(instead)) <= LONGEST_NAME[Language.of(language).tokens]
        if gone and is_short and _are_of_one_type(gone, instead, reference, item):
            lost |= gone
    return _share(weights, lambda thing: thing in lost) > REPLACED_AT


def _are_of_one_type(
    gone: set[str], instead: Sequence[str], reference: str, item: Answered
) -> bool:
    """Whether a number replaces a number, or a name a name; other words may be synonyms.

    Without capitals, a word that some passage holds is taken for a name.
    """
    entry, answer = Language.of(item.query.language), item.parsed.answer_text
    numerals = [thing for thing in instead if values_in(thing, entry.code)]
    if any(values_in(thing, entry.code) for thing in gone) and numerals:
        return not any(_holds(reference, thing, entry.code) for thing in numerals)
    if entry.capitals != "none":
        strange = _capitalised(answer, entry).difference(words(item.query.text, entry.code))
        return not (_capitalised(reference, entry).isdisjoint(gone) or strange.isdisjoint(instead))
    ordinary = lexicon(entry.code).function_words
    names = [thing for thing in instead if thing not in ordinary and thing not in numerals]
    passages = _passages(item.query)
    return any(_holds(passage, name, entry.code) for name in names for passage in passages)


@lru_cache(maxsize=4096)
def _capitalised(text: str, entry: Language) -> frozenset[str]:
    """The content words of a text that begin with a capital, as the alignment has them."""
    capitalised = " ".join(match[0] for match in WORD.finditer(text) if match[0][0].isupper())
    return frozenset(words(capitalised, entry.code)) - function_words(entry.code)


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


_RECALL = Facts("higher", 0, 1, ("reference",))

DEFINITIONS = (
    Definition("fact_recall", fact_recall, _RECALL),
    Definition("fact_agreement", fact_agreement, _RECALL),
    Definition("fact_precision", fact_precision, Facts("higher", 0, 1, ("relevant passages",))),
    Definition("passage_coverage", passage_coverage, Facts("none", 0, 1, ("passages",))),
)
