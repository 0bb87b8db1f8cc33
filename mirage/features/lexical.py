"""How far an answer is carried by the passages it cites, and how near those are to the query.

CPU stand-ins for the NLI model and the reranker of MIRAGE-Bench (arXiv 2410.13716, section 4.1).
Both compare strings of characters rather than words, so that they work in every script and with
inflected forms. Nothing in them is trained; their few constants are stated below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mirage.features._content import content_words, function_words, held, held_by_sentence
from mirage.features.base import (
    Answered,
    Definition,
    Facts,
    NotComputed,
    nothing_to_cite,
    passage_texts,
)
from mirage.languages import Language
from mirage.text import tokenize
from mirage.text.mentions import bare
from mirage.text.numbers import numbers

__all__ = [
    "SUPPORTED_AT",
    "relevance_lexical",
    "sentence_support",
    "support_lexical",
    "support_lexical_all",
]

HALF_STRENGTH_BITS = 50.0
"""Information of a shared run of characters that counts as half carried: about two words."""

UNKNOWN_NUMBER_FACTOR = 0.5
"""What is left of the wording's share when a sentence states a number that no passage holds."""

MATTER_SHARE = 0.6
"""The share of what the sentence says in its support; the rest is how it says it."""

ENOUGH_MATTER = 0.6
"""The share of a sentence's words that passages hold from which on all of it is theirs.

The rest is phrasing: whoever tells something in their own words needs words of their own.
"""

PHRASING, ELSEWHERE = 0.5, 2.0
"""What a word weighs that no passage holds, and one that only passages beside these hold."""

HELD_AT = 0.75
"""How far a passage has to hold a word for the word to be its own."""

NUMBER_LENGTH = 10
"""The letters that a number counts for."""

ASKED_FACTOR = 0.5
"""What is left of the weight of a word that the question holds."""

WINDOW = 3
"""Sentences of a passage that are read together."""

UNCITED_FACTOR = 0.8
"""What is left of the support of a sentence that cites nothing, by what its answer cites."""

SUPPORTED_AT = 0.8
"""Support from which on to call a sentence supported.

Chosen once for all languages: the multiple of 0.05 with the highest balanced accuracy on the human
labels of MEMERAG, in the mean of English, German and Spanish.
"""

GRAM_LENGTHS = (2, 3, 4, 5)
"""Lengths in characters of the n-grams that compare a query with a passage."""


# Support ------------------------------------------------------------------------------------------


def support_lexical(item: Answered) -> float | NotComputed:
    """Mean over the answer's sentences of :func:`sentence_support` by the passages each cites.

    In [0, 1]. A sentence weighs as many words and numbers as it has that are neither function
    words nor the question's, so that one that says nothing ("Hope that helps!") weighs little and
    one that repeats the question nothing; if all weigh nothing, they weigh the same. One that
    cites nothing gets 0.8 times the support by all that the answer cites, for a citation may
    stand for its neighbours too. An answer without a sentence, or without a citation, counts 0.
    Not computed where no passage answers the query: there a good response cites nothing.
    """
    return _mean_support(item, cited=True)


def support_lexical_all(item: Answered) -> float | NotComputed:
    """As :func:`support_lexical`, but each sentence against all shown passages, cited or not."""
    return _mean_support(item, cited=False)


def _mean_support(item: Answered, *, cited: bool) -> float | NotComputed:
    gap = nothing_to_cite(item)
    if gap is not None:
        return gap
    texts = passage_texts(item, item.shown)
    if isinstance(texts, NotComputed):
        return texts
    shown = dict(zip(item.shown, texts, strict=True))
    code, question = item.query.language, item.query.text
    weights, values = [], []
    for sentence in item.parsed.sentences:
        ids = sentence.citations or item.parsed.citations if cited else item.shown
        value = _support(
            sentence.text,
            tuple(shown[id_] for id_ in ids),
            code,
            question,
            tuple(text for id_, text in shown.items() if id_ not in ids),
        )
        bare_of_citations = cited and not sentence.citations
        values.append(value * (UNCITED_FACTOR if bare_of_citations else 1.0))
        weights.append(_said(sentence.text, question, code))
    if not values:
        return 0.0
    return float(np.average(values, weights=weights if any(weights) else None))


@lru_cache(maxsize=16384)
def _said(text: str, question: str, code: str) -> int:
    """How many words and numbers a sentence has that say something that the question does not."""
    ordinary = function_words(code)
    words = [word for word in content_words(text, code) if word not in ordinary]
    new = sum(not _asked(word, question, code) for word in words)
    return new + len(_stated(text) - numbers(question))


def sentence_support(
    sentence_text: str,
    passages: Sequence[str],
    language: str | Language,
    *,
    question: str = "",
    others: Sequence[str] = (),
) -> float:
    """How far a sentence is carried by passages, from 0 to 1; 0 without a passage.

    The support is 0.6 times that of the matter and 0.4 times that of the wording. A faithful
    paraphrase has the first, a quote has both.

    Matter. A word that is no function word (of :mod:`mirage.text.lexicon`) is held, from 0 to 1,
    by the word of a passage that has most of its n-grams of characters (3, or 2 where a character
    is a syllable): up to 0.3 of them count 0, from 0.7 on 1. In a language without spaces pairs of
    characters stand for words. ``h`` is the mean of how far the passages hold a word, and of how
    far the three neighbouring sentences do that hold most of the sentence. With ``l`` letters a
    word counts ``l h`` of ``l (h + w (1 - h))``, with a weight ``w`` of 2 if ``others`` hold it,
    which makes it matter of those, and of 0.5 if none does, which may be phrasing; ``l`` is halved
    if the question holds it. A number that the question does not state counts 10 letters, and is
    held or not. A share of 0.6 counts in full: the rest is phrasing.

    Wording. What a passage carries it says in long stretches of the same characters, so every
    character of the sentence that is in no function word is weighed by the longest run around it
    that also stands in the passage. With case, punctuation and digits folded as in
    :func:`mirage.text.tokenize`:

    - a character holds ``-log2 p`` bits, ``p`` being its relative frequency in the passages (with
      one added to each count), so that a run of few Chinese characters counts like one of many
      Latin letters, and rare letters and digits count more than common ones;
    - a character in a shared run of ``b`` bits in all is carried to ``b / (b + 50)``;
    - a passage's score is the mean of that over the characters, weighted by their bits;
    - the score is the mean of the best single passage's score and of the score with every
      character taken from the passage that carries it best;
    - it is halved if the sentence states a number that stands in no passage. The number of an item
      in a list is none that the sentence states.

    A sentence (given without its citations) is best called supported from :data:`SUPPORTED_AT` on.

    Args:
        sentence_text: the sentence.
        passages: the texts that are to carry it.
        language: the language of all.
        question: what was asked; its words say less.
        others: the passages shown beside these.

    Raises:
        UnknownNameError: no such language.
    """
    return _support(
        sentence_text, tuple(passages), Language.of(language).code, question, tuple(others)
    )


def _support(
    text: str, passages: tuple[str, ...], code: str, question: str, others: tuple[str, ...]
) -> float:
    passages = tuple(passage for passage in passages if _folded(passage, code))
    if not _folded(text, code) or not passages:
        return 0.0
    matter = min(1.0, _matter(text, passages, code, question, others) / ENOUGH_MATTER)
    return MATTER_SHARE * matter + (1 - MATTER_SHARE) * _wording(text, passages, code)


_LIST_NUMBER = re.compile(r"\W*\d{1,2}[.)]\s")


@lru_cache(maxsize=4096)
def _stated(text: str) -> frozenset[str]:
    """The numbers of a sentence, without that of an item in a list."""
    return numbers(_LIST_NUMBER.sub("", text) if _LIST_NUMBER.match(text) else text)


def _asked(word: str, question: str, code: str) -> bool:
    return held(word, question, code) == 1


def _matter(
    text: str, passages: tuple[str, ...], code: str, question: str, others: tuple[str, ...]
) -> float:
    """The share of a sentence's words and numbers that passages hold, by their letters."""
    new = _stated(text) - numbers(question)
    known = len(new & frozenset().union(*map(numbers, passages)))
    holding, total = float(NUMBER_LENGTH * known), float(NUMBER_LENGTH * len(new))
    words = content_words(text, code)
    letters = np.array(
        [len(word) * (ASKED_FACTOR if _asked(word, question, code) else 1.0) for word in words]
    )
    for word, letter, share in zip(
        words, letters, _held(words, letters, passages, code), strict=True
    ):
        missing = 1 - share
        if missing:
            elsewhere = any(held(word, other, code) >= HELD_AT for other in others)
            missing *= ELSEWHERE if elsewhere else PHRASING
        holding += letter * share
        total += letter * (share + missing)
    return holding / total if total else 1.0


def _held(
    words: tuple[str, ...], letters: NDArray[np.float64], passages: tuple[str, ...], code: str
) -> list[float]:
    """How far passages hold each word: the mean of anywhere and in the best window."""
    if not words:
        return []
    anywhere, windows = np.zeros(len(words)), []
    for passage in passages:
        by_sentence = np.array([held_by_sentence(word, passage, code) for word in words])
        anywhere = np.maximum(anywhere, by_sentence.max(axis=1, initial=0.0))
        last = max(0, by_sentence.shape[1] - WINDOW)
        windows += [by_sentence[:, i : i + WINDOW].max(axis=1) for i in range(last + 1)]
    best = max(windows, key=lambda window: float(window @ letters))
    return [float(share) for share in (anywhere + best) / 2]


def _wording(text: str, passages: tuple[str, ...], code: str, *, whole: bool = False) -> float:
    """How far a sentence's wording is that of passages, from 0 to 1; or that of the whole of it."""
    folded, sources = _folded(text, code), [_folded(passage, code) for passage in passages]
    bits = _bits(folded, sources)
    runs = np.stack([_run_bits(folded, source, bits) for source in sources])
    carried = runs / (runs + HALF_STRENGTH_BITS)
    counted = bits if whole else bits * _in_content(text, code)
    best = (carried * counted).sum(axis=1).max()
    together = (carried.max(axis=0) * counted).sum()
    score = float(best + together) / (2 * float(counted.sum()))
    unknown = _stated(text).difference(*map(numbers, passages))
    return score * (UNKNOWN_NUMBER_FACTOR if unknown else 1.0)


@lru_cache(maxsize=4096)
def _in_content(text: str, code: str) -> NDArray[np.bool_]:
    """Which characters of the folded text stand in no function word; all if that leaves none."""
    folded, ordinary = _folded(text, code), function_words(code)
    counts = np.zeros(len(folded), dtype=bool)
    if Language.of(code).tokens == "character":
        for i in range(len(folded) - 1):
            if folded[i : i + 2] not in ordinary:
                counts[i : i + 2] = True
    else:
        end = 0
        for word in folded.split():
            start = end + 1
            end = start + len(word)
            counts[start:end] = bare(word) not in ordinary
    return counts if counts.any() else ~counts


def _bits(text: str, sources: Sequence[str]) -> NDArray[np.float64]:
    """Information of each character of the text by the characters of the sources, add-one."""
    total = sum(map(len, sources)) + len(set().union(*sources)) + 1
    bits = {
        char: math.log2(total / (sum(source.count(char) for source in sources) + 1))
        for char in set(text)
    }
    return np.array([bits[char] for char in text])


def _run_bits(text: str, source: str, bits: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each character, the information of the best run around it that the source shares."""
    until = np.concatenate(([0.0], np.cumsum(bits)))
    start = np.arange(len(text))
    end = _run_ends(text, source)
    worth = np.append(until[end] - until[start], 0.0)
    # Ends ascend, so the runs around a character are those from the first that ends behind it to
    # the one that starts at it.
    first = np.searchsorted(end, start, side="right")
    best = np.maximum.reduceat(worth, np.stack((first, start + 1), axis=1).ravel())[::2]
    return np.where(first <= start, best, 0.0)


def _run_ends(text: str, source: str) -> NDArray[np.int64]:
    """For each position, where the longest run ends that starts there and stands in the source."""
    ends, end = np.empty(len(text), dtype=np.int64), 0
    for start in range(len(text)):
        end = max(end, start)
        while end < len(text) and text[start : end + 1] in source:
            end += 1
        ends[start] = end
    return ends


# Relevance ----------------------------------------------------------------------------------------


def relevance_lexical(item: Answered) -> float | NotComputed:
    """Mean nearness to the query of the cited passages, from 0 to 1; 0 where none is cited.

    The nearness of a passage is the share of the query that it holds, over the same share for
    the best shown passage, which therefore has nearness 1. The query is the set of its character
    n-grams (2 to 5 characters, folded as in :func:`mirage.text.tokenize`); each weighs
    ``log(1 + (n - d + 0.5) / (d + 0.5))`` where ``d`` of the ``n`` shown passages hold it, the
    inverse document frequency of BM25 (Robertson and Zaragoza 2009). If no shown passage shares
    anything with the query, all have nearness 0. Not computed where no passage answers the query.
    """
    gap = nothing_to_cite(item)
    if gap is not None:
        return gap
    citations = item.parsed.citations
    if not citations:
        return 0.0
    texts = passage_texts(item, item.shown)
    if isinstance(texts, NotComputed):
        return texts
    near = _nearness(item.query.text, texts, item.query.language)
    return sum(near[item.shown.index(passage)] for passage in citations) / len(citations)


@lru_cache(maxsize=4096)
def _nearness(query: str, passages: tuple[str, ...], code: str) -> tuple[float, ...]:
    """Nearness of each passage to the query, the best being 1."""
    text = _folded(query, code)
    runs = [_run_ends(text, _folded(passage, code)) for passage in passages]
    shared = np.stack(runs) - np.arange(len(text))
    place = {text[i : i + n]: (i, n) for n in GRAM_LENGTHS for i in range(len(text) - n + 1)}
    start, length = np.array([*place.values()], dtype=np.int64).reshape(-1, 2).T
    holds = shared[:, start] >= length  # a row a passage, a column an n-gram
    holders = holds.sum(axis=0)
    weight = np.log(1 + (len(passages) - holders + 0.5) / (holders + 0.5))
    near = (holds * weight).sum(axis=1)
    return tuple((near / near.max()).tolist()) if near.any() else (0.0,) * len(passages)


@lru_cache(maxsize=4096)
def _folded(text: str, code: str) -> str:
    """The tokens of a text as one string, spaces around words where the script has them."""
    entry = Language.of(code)
    tokens = tokenize(text, entry)
    if not tokens:
        return ""
    return "".join(tokens) if entry.tokens == "character" else f" {' '.join(tokens)} "


_FACTS = Facts("higher", 0, 1, ("passages",))

DEFINITIONS = (
    Definition("support_lexical", support_lexical, _FACTS),
    Definition("support_lexical_all", support_lexical_all, _FACTS),
    Definition("relevance_lexical", relevance_lexical, _FACTS),
)
