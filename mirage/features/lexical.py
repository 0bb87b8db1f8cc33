"""Support of an answer by the passages it cites, and relevance of these passages to the query.

These features replace the NLI model and the reranker of MIRAGE-Bench (arXiv 2410.13716, section
4.1). They need neither a GPU nor training; the constants below are their only parameters. They
compare character strings instead of words. Therefore they work in every script and with inflected
forms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from mirage.features._shown import index_of_words, shown_texts
from mirage.features.base import (
    Answered,
    Definition,
    Facts,
    NotComputed,
    nothing_to_cite,
)
from mirage.features.overlap import answer_of_reference
from mirage.languages import Language
from mirage.text import tokenize
from mirage.text.content import (
    WordIndex,
    content_words,
    function_words,
    index_words,
    text_words,
)
from mirage.text.forms import text_form
from mirage.text.mentions import bare
from mirage.text.ngrams import Alphabet, code_points, pack
from mirage.text.numbers import numbers

HALF_STRENGTH_BITS = 50.0
"""Information content of a shared sequence of characters that counts as half supported, in bits.

About two words have this information content.
"""

UNKNOWN_NUMBER_FACTOR = 0.5
"""Factor on the wording score if a sentence states a number that occurs in no passage."""

CONTENT_WEIGHT = 0.6
"""Weight of a sentence's content in its support; the rest is the weight of its wording."""

FULL_CONTENT_SHARE = 0.6
"""Minimum share of a sentence's content in the passages for a content score of 1.

The rest may be phrasing, because a paraphrase needs some other words.
"""

PHRASING_WEIGHT, ELSEWHERE_WEIGHT = 0.5, 2.0
"""Weights of a word that no passage contains, and of a word that only uncited passages contain."""

ELSEWHERE_MATCH = 0.75
"""Minimum similarity, from 0 to 1, at which an uncited passage counts as containing a word."""

NUMBER_LETTERS = 10
"""Weight of a number; the weight of a word is its number of letters."""

QUESTION_WORD_FACTOR = 0.5
"""Factor on the weight of a word that occurs in the question."""

WINDOW = 3
"""Number of neighbouring sentences of a passage that are compared together."""

UNCITED_FACTOR = 0.8
"""Factor on the support of a sentence that cites nothing, if its answer has citations elsewhere."""

SUPPORTED_AT = 0.8
"""Minimum support at which a sentence counts as supported.

It is one value for all languages: the multiple of 0.05 with the highest balanced accuracy on the
human labels of MEMERAG, averaged over English, German and Spanish.
"""

GRAM_LENGTHS = (2, 3, 4, 5)
"""Lengths of the character n-grams that compare a query with a passage."""


# Support ------------------------------------------------------------------------------------------


def support_lexical(item: Answered) -> float | NotComputed:
    """Return the weighted mean of :func:`sentence_support` over the answer's sentences.

    The mean is in [0, 1]. Each sentence is compared with the passages that it cites. Its weight is
    the number of its content words and numbers that do not occur in the question. So a sentence
    without content ("Hope that helps!") has a low weight, and a sentence that repeats the question
    has the weight 0. If all weights are 0, all sentences have the same weight.

    A sentence without a citation gets 0.8 times the support by all passages that the answer cites,
    since a citation may also cover neighbouring sentences. An answer without a sentence or without
    a citation gets 0. Not computed if no passage answers the query, because a good response then
    cites nothing.
    """
    return _mean_support(item, cited=True)


def support_lexical_all(item: Answered) -> float | NotComputed:
    """Return the weighted mean support of the answer's sentences by all shown passages.

    The mean is in [0, 1]. It is weighted as in :func:`support_lexical`, but does not depend on
    citations.
    """
    return _mean_support(item, cited=False)


def _mean_support(item: Answered, *, cited: bool) -> float | NotComputed:
    """Return the mean support of the answer's sentences by passages.

    Each sentence is compared with the passages that it cites or, if ``cited`` is false, with all
    shown passages.
    """
    gap = nothing_to_cite(item)
    if gap is not None:
        return gap
    texts = shown_texts(item)
    if isinstance(texts, NotComputed):
        return texts
    texts_by_id = dict(zip(item.shown, texts, strict=True))
    texts, numbers_by_id = (
        tuple(texts_by_id.values()),
        dict(zip(texts_by_id, count(), strict=False)),
    )
    code, question = item.query.language, item.query.text
    index = index_of_words(item.query, texts)
    index.look_up(_words_of_answer_and_reference(item))
    weights, values = [], []
    for sentence in item.parsed.sentences:
        ids = sentence.citations or item.parsed.citations if cited else item.shown
        value = _support(
            sentence.text, texts, tuple([numbers_by_id[id_] for id_ in ids]), index, code, question
        )
        bare_of_citations = cited and not sentence.citations
        values.append(value * (UNCITED_FACTOR if bare_of_citations else 1.0))
        weights.append(_count_new_words(sentence.text, index, len(texts), question, code))
    if not values:
        return 0.0
    return float(np.average(values, weights=weights if any(weights) else None))


def _words_of_answer_and_reference(item: Answered) -> list[str]:
    """Return the words of the answer, of its sentences and of the reference.

    All of them are looked up together in the index of the passages' words, which takes less time
    than several look-ups. The index caches the results, which other features use too.
    """
    code, reference = item.query.language, answer_of_reference(item.query)
    return [
        *chain.from_iterable(content_words(s.text, code) for s in item.parsed.sentences),
        *text_words(item.parsed.answer_text, code),
        *(text_words(reference, code) if isinstance(reference, str) else ()),
    ]


def _count_new_words(text: str, index: WordIndex, column: int, question: str, code: str) -> int:
    """Count the content words and numbers of a sentence that do not occur in the question.

    Args:
        text: The sentence.
        index: An index of the words of the question and of other texts.
        column: The position of the question among the texts of ``index``.
        question: The question.
        code: ISO 639-1 code of the language.
    """
    ordinary = function_words(code)
    words = [word for word in content_words(text, code) if word not in ordinary]
    new = sum(match != 1 for match in index.matches_in(words, column))
    return new + len(_stated_numbers(text) - numbers(question))


def sentence_support(
    sentence_text: str,
    passages: Sequence[str],
    language: str | Language,
    *,
    question: str = "",
    others: Sequence[str] = (),
) -> float:
    """Return how well passages support a sentence, from 0 to 1; 0 without a passage.

    The support is 0.6 times the content score plus 0.4 times the wording score. A faithful
    paraphrase has a high content score, and a quote has both.

    Content score: A content word is one that is not a function word of :mod:`mirage.text.lexicon`.
    It is compared with the most similar word of each passage. The similarity is the share of its
    character n-grams that occur in the other word. The n-grams have 3 characters, or 2 if a
    character is a syllable. A similarity up to 0.3 gives 0 and a similarity from 0.7 on gives 1,
    with linear interpolation between them. In a language without spaces, pairs of characters are
    used instead of words. ``h`` is the mean of two similarities of the word. One is the highest
    similarity anywhere in the passages. The other is the highest similarity within three
    neighbouring sentences of a passage: the three that match the whole sentence best.

    A word of ``l`` letters adds ``l h`` to the numerator of the score and ``l (h + w (1 - h))`` to
    the denominator. The weight ``w`` is 2 if the word occurs in one of the passages in ``others``,
    because its content then comes from there. Otherwise ``w`` is 0.5, because the word may be
    phrasing. ``l`` is halved if the word occurs in the question. A number that the question does
    not state counts as 10 letters and matches exactly or not at all. The ratio is divided by 0.6
    and limited to 1, because the rest of a sentence may be phrasing.

    Wording score: A passage that supports a sentence often shares long runs (sequences of adjacent
    characters) with it. Every character of the sentence outside function words is scored by the
    longest shared run that contains it. Case, punctuation and digits are folded as in
    :func:`mirage.text.tokenize`:

    - A character has ``-log2 p`` bits. ``p`` is its relative frequency in the passages, with one
      added to each count. Therefore a run of few Chinese characters counts as much as a run of many
      Latin letters, and rare characters count more than common characters.
    - A character in a shared run of ``b`` bits scores ``b / (b + 50)``.
    - A passage's score is the mean over the characters, weighted by their bits.
    - The wording score is the mean of two values: the score of the best single passage, and the
      score if each character may use the passage that scores it highest.
    - The wording score is halved if the sentence states a number that occurs in no passage. The
      number of a list item does not count as a number.

    Use :data:`SUPPORTED_AT` as the threshold for calling a sentence supported.

    Args:
        sentence_text: The sentence, without citations.
        passages: Texts of the passages that should support the sentence, such as the cited ones.
        language: Language of the texts.
        question: The question that the sentence answers, if any.
        others: Texts of other passages, from which the sentence may wrongly take its content.

    Example:
        >>> from mirage.features.lexical import sentence_support
        >>> passages = ["The Harbour Bridge was opened to traffic in March 1932."]
        >>> sentences = ["The Harbour Bridge opened in March 1932.", "It often rains in Bergen."]
        >>> [round(float(sentence_support(sentence, passages, "en")), 2) for sentence in sentences]
        [0.82, 0.05]
    """
    texts, code = (*passages, *others), Language.of(language).code
    index = index_words((*texts, question), code)
    return _support(sentence_text, texts, tuple(range(len(passages))), index, code, question)


def _support(
    text: str,
    texts: tuple[str, ...],
    cited: tuple[int, ...],
    index: WordIndex,
    code: str,
    question: str,
) -> float:
    """Return how well the cited passages support a sentence, as :func:`sentence_support` does.

    Args:
        text: The sentence.
        texts: The passages, including those that are not cited.
        cited: The indices of the cited passages in ``texts``.
        index: An index of the words of the texts and of the question, in this order.
        code: ISO 639-1 code of the language.
        question: The question.
    """
    if not _join_tokens(text, code):
        return 0.0
    runs = _index_runs(texts, code)
    passages = tuple([number for number in cited if runs.texts[number]])
    if not passages:
        return 0.0
    others = [number for number in range(len(texts)) if number not in cited]
    content = min(
        1.0,
        _content_score(text, texts, passages, others, index, code, question) / FULL_CONTENT_SHARE,
    )
    wording = _wording_by_index(text, texts, passages, code)
    return CONTENT_WEIGHT * content + (1 - CONTENT_WEIGHT) * wording


_LIST_NUMBER = re.compile(r"\W*\d{1,2}[.)]\s")


@lru_cache(maxsize=4096)
def _stated_numbers(text: str) -> frozenset[str]:
    """Return the numbers that a sentence states, except the number of a list item at its start."""
    return numbers(_LIST_NUMBER.sub("", text) if _LIST_NUMBER.match(text) else text)


def _content_score(
    text: str,
    texts: tuple[str, ...],
    cited: Sequence[int],
    others: Sequence[int],
    index: WordIndex,
    code: str,
    question: str,
) -> float:
    """Return the content score of a sentence, as defined in :func:`sentence_support`.

    It is the weighted share of the sentence's words and numbers that occur in the cited texts.
    ``cited`` and ``others`` are positions in ``texts``.
    """
    new_numbers = _stated_numbers(text) - numbers(question)
    matched_numbers = len(new_numbers & frozenset().union(*(numbers(texts[n]) for n in cited)))
    matched, total = (
        float(NUMBER_LETTERS * matched_numbers),
        float(NUMBER_LETTERS * len(new_numbers)),
    )
    words = content_words(text, code)
    if not words:
        return matched_numbers / len(new_numbers) if new_numbers else 1.0
    matches = index.text_table(words)
    factors = np.where(matches[:, len(texts)] == 1, QUESTION_WORD_FACTOR, 1.0)
    letters = factors * [*map(len, words)]
    is_elsewhere = np.any(matches[:, others] >= ELSEWHERE_MATCH, axis=1).tolist()
    shares = _passage_matches(words, letters, cited, index)
    for length, share, is_other in zip(letters.tolist(), shares, is_elsewhere, strict=True):
        weight = ELSEWHERE_WEIGHT if is_other else PHRASING_WEIGHT
        matched += length * share
        total += length * (share + (1 - share) * weight)
    return matched / total if total else 1.0


def _passage_matches(
    words: tuple[str, ...], letters: NDArray[np.float64], cited: Sequence[int], index: WordIndex
) -> list[float]:
    """Return how well the passages match each word: the value ``h`` of :func:`sentence_support`.

    ``letters`` are the weights of the words, and ``cited`` are the positions of the passages among
    the texts of ``index``.
    """
    table, windows = index.sentence_matches(words), []
    for number in cited:
        first, last = index.columns[number] + 1, index.columns[number + 1]
        # Each row has to be contiguous, because BLAS adds in another order otherwise.
        by_sentence = np.ascontiguousarray(table[:, first:last].T)
        if len(by_sentence) < WINDOW:
            windows.append(by_sentence.max(axis=0))
        else:
            count = len(by_sentence) - WINDOW + 1
            parts = [by_sentence[start : start + count] for start in range(WINDOW)]
            windows.extend(np.maximum.reduce(parts))
    anywhere = np.maximum.reduce(windows)
    best = max(windows, key=lambda window: float(window @ letters))
    shares: list[float] = ((anywhere + best) / 2).tolist()
    return shares


def _wording_by_index(
    text: str, texts: tuple[str, ...], cited: tuple[int, ...], code: str
) -> float:
    """Return the wording score of a sentence, as defined in :func:`sentence_support`.

    ``cited`` are the positions in ``texts`` of the texts with which the sentence is compared.
    """
    folded, index = _join_tokens(text, code), _index_runs(texts, code)
    ranks = index.ranks(folded)
    bits = _information(ranks, index, cited)
    runs = _run_bits(index.run_ends(folded, ranks, cited), bits)
    support = runs / (runs + HALF_STRENGTH_BITS)
    weights = bits * _content_characters(text, code)
    # Averaging with the best single passage favours sentences that one passage supports as a whole.
    best = (support * weights).sum(axis=1).max()
    together = (support.max(axis=0) * weights).sum()
    score = float(best + together) / (2 * float(weights.sum()))
    unknown = _stated_numbers(text).difference(*(numbers(texts[number]) for number in cited))
    return score * (UNKNOWN_NUMBER_FACTOR if unknown else 1.0)


@lru_cache(maxsize=4096)
def _content_characters(text: str, code: str) -> NDArray[np.bool_]:
    """Return a mask of the characters of a text that are not part of a function word.

    If all characters are part of function words, the mask is true for all of them.
    """
    folded, ordinary = _join_tokens(text, code), function_words(code)
    if Language.of(code).tokens == "character":
        counts = np.zeros(len(folded), dtype=bool)
        for i in range(len(folded) - 1):
            if folded[i : i + 2] not in ordinary:
                counts[i : i + 2] = True
    else:
        # The characters of words that count are marked in a copy of the text.
        marks = [(" " if bare(word) in ordinary else "*") * len(word) for word in folded.split()]
        counts = code_points(f" {' '.join(marks)} " if marks else "") == ord("*")
    return counts if counts.any() else ~counts


def _information(
    ranks: NDArray[np.int64], index: _RunIndex, cited: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return the information content, in bits, of each character of a text.

    It is ``-log2 p``. ``p`` is the relative frequency of the character in the cited texts, with one
    added to each count.
    """
    counts = index.counts[list(cited)].sum(axis=0)
    total = int(counts.sum()) + int(np.count_nonzero(counts)) + 1
    bits = np.zeros(len(counts))
    for rank in np.bincount(ranks).nonzero()[0].tolist():
        bits[rank] = math.log2(total / (int(counts[rank]) + 1))
    return bits[ranks]


def _run_bits(ends: NDArray[np.int64], bits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each character, the number of bits of the most informative run around it.

    Args:
        ends: For each position of the text, the end of the longest run that starts there and also
            occurs in a compared text; one row for each compared text.
        bits: The bits of each character.

    Returns:
        One row for each row of ``ends``; 0 for a character in no run.
    """
    until = np.concatenate(([0.0], np.cumsum(bits)))
    start = np.arange(len(bits))
    run_bits = np.zeros((len(ends), len(bits) + 1))
    run_bits[:, :-1] = until[ends] - until[start]
    # The ends are in ascending order. Therefore the first run around a character is the first run
    # that ends after it, and the last one is the run that starts at it.
    first = np.array([row.searchsorted(start, side="right") for row in ends])
    borders = np.empty((*first.shape, 2), np.int64)
    borders[..., 0], borders[..., 1] = first, start + 1
    # The rows are joined, as this takes less time than a call for each row.
    borders += np.arange(len(ends))[:, None, None] * run_bits.shape[1]
    best = np.maximum.reduceat(run_bits.ravel(), borders.ravel())[::2].reshape(first.shape)
    return np.where(first <= start, best, 0.0)


# Shared runs --------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _index_runs(texts: tuple[str, ...], code: str) -> _RunIndex:
    """Build a :class:`_RunIndex` of several texts, folded as by :func:`mirage.text.tokenize`."""
    entry = Language.of(code)
    return _RunIndex([_join(text_form(text, entry).tokens, entry) for text in texts])


class _RunIndex:
    """An index of the n-grams of several texts, for finding the runs that they share with a text.

    A shared run is a sequence of adjacent characters of a text that also occurs in an indexed text.

    Args:
        texts: Texts without the character U+0000.

    Attributes:
        texts: The texts.
        counts: Number of occurrences of each character in each text, of shape ``(texts,
            characters)``. The column of a character is called its rank. Rank 0 is for characters
            that occur in no text, and its count is 0.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        # The gaps between texts are as long as an n-gram, so no n-gram is in two texts.
        codes = code_points("".join([f"{text}{_GAP}" for text in texts]))
        number = np.arange(len(texts)).repeat([len(text) + len(_GAP) for text in texts])
        self._alphabet = Alphabet(codes)
        ranks, kinds = self._alphabet.numbers(codes), self._alphabet.size + 1
        counts = np.bincount(number * kinds + ranks, minlength=len(texts) * kinds)
        self.counts = counts.reshape(len(texts), kinds)
        self.counts[:, 0] = 0
        self._length = min(max(GRAM_LENGTHS), (62 - len(texts).bit_length()) // self._alphabet.bits)
        # The index of a text and an n-gram of it are packed into one integer.
        keys = np.sort(number << self._length * self._alphabet.bits | self._pack(ranks))
        # The first and the last key occur twice, so that every position has two neighbours.
        self._padded_keys = np.concatenate((keys[:1], keys, keys[-1:]))
        self._steps = 1 << self._alphabet.bits * np.arange(self._length)

    def _pack(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the n-gram that starts at each position, packed into an integer.

        N-grams that extend beyond the end of the text are padded with zeros.
        """
        padded = np.concatenate((ranks, np.zeros(self._length - 1, np.int64)))
        return pack(padded, self._length, self._alphabet.bits)

    def ranks(self, text: str) -> NDArray[np.int64]:
        """Return the rank of each character of a text, its column in :attr:`counts`."""
        return self._alphabet.numbers(code_points(text))

    def run_lengths(self, ranks: NDArray[np.int64], numbers: Sequence[int]) -> NDArray[np.int64]:
        """Return the length of the longest shared run from each position of a text, up to a limit.

        The limit is the length of the n-grams, which is 5 unless the texts have very many different
        characters.

        Args:
            ranks: The ranks of the characters of the text.
            numbers: The indices of the indexed texts to compare with.

        Returns:
            One row for each of these indexed texts.
        """
        keys = np.array(numbers)[:, None] << self._length * self._alphabet.bits | self._pack(ranks)
        after = self._padded_keys[1:-1].searchsorted(keys)
        # One of the two neighbours in the sorted list has the longest common beginning. The first
        # character that differs determines the magnitude of the exclusive or.
        neighbours = self._padded_keys[after], self._padded_keys[after + 1]
        difference = np.minimum(neighbours[0] ^ keys, neighbours[1] ^ keys)
        lengths = self._length - self._steps.searchsorted(difference, side="right")
        # Gaps between texts and unknown characters both have rank 0, but they must not match.
        position = np.arange(len(ranks))
        unknown: NDArray[np.int64] | int = len(ranks)
        if not ranks.all():
            unknown = np.where(ranks == 0, position, len(ranks))
            unknown = np.minimum.accumulate(unknown[::-1])[::-1]
        known = unknown - position
        result: NDArray[np.int64] = np.minimum(lengths, known)
        return result

    def run_ends(
        self, text: str, ranks: NDArray[np.int64], numbers: Sequence[int]
    ) -> NDArray[np.int64]:
        """Return the end of the longest shared run that starts at each position of a text.

        A shared run is a sequence of adjacent characters that also occurs in an indexed text. If no
        run starts at a position, the result is the position itself.

        Args:
            text: The text.
            ranks: The rank of each character of the text; see :meth:`ranks`.
            numbers: The indices of the indexed texts to compare with.

        Returns:
            One row for each of these indexed texts.
        """
        lengths = self.run_lengths(ranks, numbers)
        ends = lengths + np.arange(len(ranks))
        # A run that is as long as an n-gram may continue after the n-gram.
        is_long = np.zeros((len(lengths), len(ranks) + 2), dtype=bool)
        is_long[:, 1:-1] = lengths == self._length
        rows, borders = (is_long[:, 1:] != is_long[:, :-1]).nonzero()
        for row, first, last in zip(
            rows[::2].tolist(), borders[::2].tolist(), borders[1::2].tolist(), strict=True
        ):
            self._lengthen(text, self.texts[numbers[row]], ends[row], first, last)
        result: NDArray[np.int64] = np.maximum.accumulate(ends, axis=1)
        return result

    def _lengthen(
        self, text: str, source: str, ends: NDArray[np.int64], first: int, last: int
    ) -> None:
        """Set ``ends`` for the shared runs that start at positions ``first`` to ``last - 1``.

        The n-gram that starts at each of these positions must occur in ``source``.

        Args:
            text: The text.
            source: The indexed text with which it is compared.
            ends: The end of the run that starts at each position of ``text``.
            first: The first position.
            last: The position after the last one.
        """
        # All n-grams of a run occur in the source, so the run ends with the last such n-gram.
        limit = last - 1 + self._length
        if text[first:limit] in source:
            ends[first:last] = limit
            return
        end = first + self._length
        for start in range(first, last):
            # The longest run from a position does not end before the run from the previous one.
            end = max(end, start + self._length)
            while end < limit and text[start : end + 1] in source:
                end += 1
            ends[start] = end


_GAP = "\0" * max(GRAM_LENGTHS)


# Relevance ----------------------------------------------------------------------------------------


def relevance_lexical(item: Answered) -> float | NotComputed:
    """Return the mean relevance of the cited passages to the query, from 0 to 1.

    The relevance of a passage is the weighted share of the query's n-grams that the passage
    contains, divided by the share of the best shown passage. Therefore the best passage has
    relevance 1. The n-grams have 2 to 5 characters, folded as in :func:`mirage.text.tokenize`. The
    weight of an n-gram is its inverse document frequency as in BM25 (Robertson and Zaragoza 2009).
    It is ``log(1 + (n - d + 0.5) / (d + 0.5))`` if ``d`` of the ``n`` shown passages contain the
    n-gram.

    If no shown passage shares an n-gram with the query, all passages have relevance 0. If nothing
    is cited, the value is 0. Not computed if no passage answers the query.
    """
    gap = nothing_to_cite(item)
    if gap is not None:
        return gap
    citations = item.parsed.citations
    if not citations:
        return 0.0
    texts = shown_texts(item)
    if isinstance(texts, NotComputed):
        return texts
    relevance = _relative_relevance(item.query.text, texts, item.query.language)
    return sum(relevance[item.shown.index(passage)] for passage in citations) / len(citations)


@lru_cache(maxsize=4096)
def _relative_relevance(query: str, passages: tuple[str, ...], code: str) -> tuple[float, ...]:
    """Return the relevance of each passage to the query, as in :func:`relevance_lexical`."""
    text, index = _join_tokens(query, code), _index_runs(passages, code)
    shared = index.run_ends(text, index.ranks(text), range(len(passages))) - np.arange(len(text))
    # Each distinct n-gram counts once, at the last position where it occurs.
    positions = [
        [*{text[i : i + n]: i for i in range(len(text) - n + 1)}.values()] for n in GRAM_LENGTHS
    ]
    start = np.array([*chain.from_iterable(positions)], dtype=np.int64)
    length = np.repeat(GRAM_LENGTHS, [*map(len, positions)])
    holds = shared[:, start] >= length  # shape (passages, n-grams)
    holders = holds.sum(axis=0)
    weight = np.log(1 + (len(passages) - holders + 0.5) / (holders + 0.5))
    relevance = (holds * weight).sum(axis=1)
    return (
        tuple((relevance / relevance.max()).tolist()) if relevance.any() else (0.0,) * len(passages)
    )


@lru_cache(maxsize=4096)
def _join_tokens(text: str, code: str) -> str:
    """Return the tokens of a text as one string, with spaces if the language separates words."""
    entry = Language.of(code)
    return _join(" ".join(tokenize(text, entry)), entry)


def _join(tokens: str, entry: Language) -> str:
    """Convert a text of tokens with spaces between them to the form of :func:`_join_tokens`."""
    if entry.tokens == "character":
        return tokens.replace(" ", "")
    return f" {tokens} " if tokens else ""


_FACTS = Facts("higher", 0, 1, ("passages",))

DEFINITIONS = (
    Definition("support_lexical", support_lexical, _FACTS),
    Definition("support_lexical_all", support_lexical_all, _FACTS),
    Definition("relevance_lexical", relevance_lexical, _FACTS),
)
