"""How far an answer is carried by the passages it cites, and how near those are to the query.

CPU stand-ins for the NLI model and the reranker of MIRAGE-Bench (arXiv 2410.13716, section 4.1).
Both compare strings of characters rather than words, so that they work in every script and with
inflected forms. Nothing in them is trained; their few constants are stated below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

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
"""What is left of a sentence's support when it states a number that no passage holds."""

SUPPORTED_AT = 0.5
"""Support from which on to call a sentence supported.

Chosen once for all languages, on the human labels of MEMERAG in English, German and Spanish. Where
a character is a syllable or a word (Japanese, Korean, Chinese) like sentences get about 0.1 less.
"""

GRAM_LENGTHS = (2, 3, 4, 5)
"""Lengths in characters of the n-grams that compare a query with a passage."""


# Support ------------------------------------------------------------------------------------------


def support_lexical(item: Answered) -> float | NotComputed:
    """Mean over the answer's sentences of :func:`sentence_support` by the passages each cites.

    In [0, 1]. A sentence that cites nothing counts 0, and so does an answer without a sentence.
    Not computed where no passage answers the query: there a good response cites nothing.
    """
    return _mean_support(item, None)


def support_lexical_all(item: Answered) -> float | NotComputed:
    """As :func:`support_lexical`, but each sentence against all shown passages, cited or not."""
    return _mean_support(item, item.shown)


def _mean_support(item: Answered, passages: Sequence[str] | None) -> float | NotComputed:
    gap = nothing_to_cite(item)
    if gap is not None:
        return gap
    sentences = item.parsed.sentences
    if not sentences:
        return 0.0
    total = 0.0
    for sentence in sentences:
        texts = passage_texts(item, sentence.citations if passages is None else passages)
        if isinstance(texts, NotComputed):
            return texts
        total += sentence_support(sentence.text, texts, item.query.language)
    return total / len(sentences)


def sentence_support(
    sentence_text: str, passages: Sequence[str], language: str | Language
) -> float:
    """How far a sentence is carried by passages, from 0 to 1; 0 without a passage.

    What a passage carries it says in long stretches of the same characters, so every character
    of the sentence is weighed by the longest run around it that also stands in the passage. With
    case, punctuation and digits folded as in :func:`mirage.text.tokenize`:

    - a character holds ``-log2 p`` bits, ``p`` being its relative frequency in the passages (with
      one added to each count), so that a run of few Chinese characters counts like one of many
      Latin letters, and rare letters and digits count more than common ones;
    - a character in a shared run of ``b`` bits in all is carried to ``b / (b + 50)``;
    - a passage's score is the mean of that over the characters, weighted by their bits;
    - the support is the mean of the best single passage's score and of the score with every
      character taken from the passage that carries it best;
    - it is halved if the sentence states a number that stands in no passage.

    The value grows with the length of what is shared: it nears 1 only for long copies, and a
    sentence (given without its citations) is best called supported from :data:`SUPPORTED_AT` on.

    Raises:
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    folded = _folded(sentence_text, entry)
    sources = [source for passage in passages if (source := _folded(passage, entry))]
    if not folded or not sources:
        return 0.0
    bits = _bits(folded, sources)
    runs = np.stack([_run_bits(folded, source, bits) for source in sources])
    carried = runs / (runs + HALF_STRENGTH_BITS)
    best = (carried * bits).sum(axis=1).max()
    together = (carried.max(axis=0) * bits).sum()
    support = float(best + together) / (2 * float(bits.sum()))
    unknown = numbers(sentence_text).difference(*map(numbers, passages))
    return support * (UNKNOWN_NUMBER_FACTOR if unknown else 1.0)


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
    entry = Language.of(code)
    text = _folded(query, entry)
    runs = [_run_ends(text, _folded(passage, entry)) for passage in passages]
    shared = np.stack(runs) - np.arange(len(text))
    place = {text[i : i + n]: (i, n) for n in GRAM_LENGTHS for i in range(len(text) - n + 1)}
    start, length = np.array([*place.values()], dtype=np.int64).reshape(-1, 2).T
    holds = shared[:, start] >= length  # a row a passage, a column an n-gram
    holders = holds.sum(axis=0)
    weight = np.log(1 + (len(passages) - holders + 0.5) / (holders + 0.5))
    near = (holds * weight).sum(axis=1)
    return tuple((near / near.max()).tolist()) if near.any() else (0.0,) * len(passages)


@lru_cache(maxsize=4096)
def _folded(text: str, entry: Language) -> str:
    """The tokens of a text as one string, spaces around words where the script has them."""
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
