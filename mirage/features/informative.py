"""What is informative in an answer and in its reference: numbers, names, rare words.

For queries without short answers. Phrasing is told from matter by where a word stands: matter is
what passages say, and what few of them say counts most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from mirage.features.base import (
    Answered,
    Definition,
    Facts,
    NotComputed,
    passage_text,
    passage_texts,
)
from mirage.features.overlap import reference_answer
from mirage.languages import Language
from mirage.models import Query
from mirage.text import tokenize
from mirage.text.lexicon import lexicon
from mirage.text.mentions import stem
from mirage.text.numbers import numbers, without_numbers

__all__ = ["fact_precision", "fact_recall", "passage_coverage"]

NUMBER_WEIGHT = 4.0
"""What a number weighs; a word that one of five passages holds weighs 1.9."""

HELD_AT = 0.6
"""The share of a word's n-grams that a text has to hold to hold the word in some form."""

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
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    if not _relevant(item.query):
        return _NO_RELEVANT
    told = _matter(reference, item.query, _relevant(item.query))
    if not told:
        return _NOTHING
    answer, language = item.parsed.answer_text, item.query.language
    return _share(told, lambda thing: _holds(answer, thing, language))


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
    return tuple(map(passage_text, query.passages))


def _relevant(query: Query) -> tuple[str, ...]:
    return tuple(passage_text(p) for p in query.passages if p.id in query.relevant)


def _share(weights: dict[str, float], holds: Callable[[str], bool]) -> float:
    total = sum(weights.values())
    return sum(weight for thing, weight in weights.items() if holds(thing)) / total if total else 1


def _matter(text: str, query: Query, sources: tuple[str, ...]) -> dict[str, float]:
    """Numbers and informative words of a text that sources hold, with their weights."""
    language, passages = query.language, _passages(query)
    ordinary = lexicon(language).function_words
    weights = dict.fromkeys(numbers(text) - numbers(query.text), NUMBER_WEIGHT)
    for word in _words(text, language):
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
    """Whether a text holds a number, or a word in some form."""
    if thing.isdecimal():
        return thing in numbers(text)
    held = _beginnings(text, language)
    if thing in held:
        return True
    grams = _grams(thing, Language.of(language).gram_length)
    return len(grams & held) >= HELD_AT * len(grams)


@lru_cache(maxsize=4096)
def _words(text: str, language: str) -> tuple[str, ...]:
    """Different words of a text without numbers; pairs of characters where nothing parts words."""
    entry = Language.of(language)
    tokens = [stem(token, entry) for token in tokenize(without_numbers(text), entry)]
    if entry.tokens == "character":
        joined = "".join(tokens)
        tokens = [joined[i : i + 2] for i in range(len(joined) - 1)]
    return tuple(dict.fromkeys(token for token in tokens if token))


@lru_cache(maxsize=4096)
def _beginnings(text: str, language: str) -> frozenset[str]:
    """The words of a text, and their n-grams up to the language's own length."""
    words = _words(text, language)
    if Language.of(language).tokens == "character":
        return frozenset(words)
    lengths = range(1, Language.of(language).gram_length + 1)
    return frozenset(words).union(*(_grams(word, n) for word in words for n in lengths))


@lru_cache(maxsize=65536)
def _grams(word: str, length: int) -> frozenset[str]:
    padded = f" {word}"
    length = min(length, len(padded))
    return frozenset(padded[i : i + length] for i in range(len(padded) - length + 1))


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
    Definition("fact_precision", fact_precision, Facts("higher", 0, 1, ("relevant passages",))),
    Definition("passage_coverage", passage_coverage, Facts("none", 0, 1, ("passages",))),
)
