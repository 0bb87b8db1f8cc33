"""Agreement of an answer with its reference in informative content: numbers, names and rare words.

These features are for queries without short answers. A reference is enough for
:func:`fact_agreement` and :func:`fact_recall`. If there are passages, :func:`fact_recall` and
:func:`fact_precision` ignore phrasing: only words that occur in passages count, and words that
occur in few passages count most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress

import numpy as np

from mirage._base.memo import cached_by_identity
from mirage.features._shown import index_of_words, shown_texts
from mirage.features.answers import UNANSWERABLE
from mirage.features.base import (
    Answered,
    Definition,
    Facts,
    NotComputed,
    titled_texts,
)
from mirage.features.overlap import reference_answer
from mirage.languages import Language
from mirage.models import Query
from mirage.text import split_sentences
from mirage.text.alignment import replacements
from mirage.text.content import (
    WordIndex,
    best_matches,
    function_words,
    held_words,
    text_words,
    words,
)
from mirage.text.forms import text_form
from mirage.text.lexicon import lexicon
from mirage.text.negations import negates, negation_faults
from mirage.text.ngrams import Alphabet, code_points, distinct, pack
from mirage.text.number_terms import is_number, number_terms, states_number, without_multipliers
from mirage.text.quantities import values_in
from mirage.text.words import WORD

NUMBER_WEIGHT = 4.0
"""Weight of a number; for comparison, a word in one of five passages has the weight 1.9."""

WORD_MATCH_SHARE = 0.6
"""Minimum share of a word's n-grams in a text that contains the word in some form."""

NUMBER_LETTERS = 10.0
"""Weight of a number in languages in which the weight of a word is its number of letters."""

NUMBER_CHARACTERS = 5.0
"""Weight of a number in languages in which the weight of a pair of characters is 1."""

REPLACED_SHARE = 0.1
"""Share of the reference's facts above which replacing them makes the agreement 0.

If the answer replaces a lower share, only a detail is wrong.
"""

LONGEST_NAME = {"word": 3, "character": 8}
"""Maximum length of a name or number that replaces another, by the language's kind of tokens.

The unit is words, or pairs of characters in languages written without spaces.
"""

POLARITY_WEIGHT = 0.1
"""Weight of polarity in the agreement; the rest is the weight of shared facts."""

_SHARED_FACTS_WEIGHT = 1 - POLARITY_WEIGHT

_QUESTION, _REFERENCE = -2, -1  # positions of these texts in the index of words

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")

_NO_RELEVANT = NotComputed("the query has no relevant passage with a text")
_NOTHING = NotComputed("the reference has no informative words: it only repeats the question")
_NO_PASSAGES = NotComputed("no passage was shown")


def fact_recall(item: Answered) -> float | NotComputed:
    """Return the share of the reference's informative content that the answer states, from 0 to 1.

    Numbers and content words are informative if they do not occur in the question. The answer
    states a word if at least 60 % of the word's character n-grams occur in words of the answer.
    Numbers, dates, times and amounts are compared as values: ``2.4 million`` is ``2,400,000``, and
    ``1.5 km`` is ``1,500 metres``.

    If the texts of relevant passages are available, only words that occur in them count. A word
    that occurs in ``d`` of the query's ``n`` passages then has the weight
    ``log((n + 1) / (d + 0.5)) ** 2``, and a number has the weight 4. Without passages, the weights
    are those of :func:`fact_agreement`. Not computed without a reference, if no passage answers the
    query, or if the reference only repeats the question.
    """
    reference = _reference(item)
    if isinstance(reference, NotComputed):
        return reference
    answer, language = item.parsed.answer_text, item.query.language
    weights = _weights_by_passages(item)
    if weights:
        held = _terms_in_answer(answer, weights, reference, language)
        return _share(weights, held.__contains__)
    weights = _content_weights(reference, item.query)
    return _share_in_answer(weights, reference, answer, language) if weights else _NOTHING


def fact_agreement(item: Answered) -> float | NotComputed:
    """Return how well the facts of the answer and the reference agree, from 0 to 1.

    The value is ``(0.9 * min(1, a + b) + 0.1 * polarity) * (1 - negated)``:

    - ``a`` is the share of the reference's informative content that occurs in the answer.
    - ``b`` is the share of the answer's informative content that occurs in the reference. A true
      answer may be shorter or longer than the reference. Then ``a`` or ``b`` is low, but seldom
      both.
    - ``polarity`` is 1 if the first sentences of both texts contain a negation or if neither does,
      and otherwise 0.
    - ``negated`` is the share of the reference's sentences that the answer repeats with a negation
      added or removed.

    Numbers and content words are informative if they do not occur in the question. The weight of a
    word is its number of letters, and a number has the weight 10. In languages written without
    spaces, pairs of characters and single Chinese characters have the weight 1, and numbers have
    the weight 5. A word that occurs only in another inflected form gets part of its weight.

    The value is 0 in three cases:

    - The answer is empty.
    - One text begins with yes and the other with no.
    - The answer repeats the reference with another number or name in place of a fact. An answer
      that mentions the fact too is not recognised: "Many say 1974, but it was 1981."

    The feature is not computed without a reference, if no passage answers the query, or if the
    reference only repeats the question.

    Example:
        >>> from mirage import Query, Response
        >>> from mirage.features import answered, feature
        >>> question, reference = "How long is it?", "The Nile is 6,650 km long."
        >>> query = Query(id="q1", language="en", text=question, reference=reference)
        >>> responses = [Response(query_id="q1", text=f"It is {n} km long.") for n in (6650, 900)]
        >>> feature("fact_agreement").compute([answered(query, item) for item in responses])
        [1.0, 0.0]
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
    shared = _share_in_answer(facts, reference, answer, language)
    shared += _share_in_reference(stated, answer, reference, item.query) if stated else 0.0
    value = _SHARED_FACTS_WEIGHT * min(1.0, shared) + POLARITY_WEIGHT * _polarity_agrees(
        answer, reference, language
    )
    return value * (1 - _denied_share(answer, reference, language))


def fact_precision(item: Answered) -> float | NotComputed:
    """Return the share of the answer's informative content that the evidence states, from 0 to 1.

    The evidence is the reference and the relevant passages. The weights are computed as in
    :func:`fact_recall`. Words that occur neither in a passage nor in the reference are phrasing and
    do not count, but numbers always count. If the answer has no content that counts, the value is
    1. Not computed without the text of a relevant passage.
    """
    relevant = _relevant(item.query)
    if not relevant:
        return _NO_RELEVANT
    query, passages = item.query, _passages(item.query)
    answer = item.parsed.answer_text
    weights = _source_weights(answer, query, passages, with_reference=True)
    index = index_of_words(query, passages)
    searched = [*(passages.index(text) for text in relevant), _REFERENCE]
    held = _held_terms(index, weights, answer, query.language, searched)
    return _share(weights, held.__contains__)


def passage_coverage(item: Answered) -> float | NotComputed:
    """Return the share of the shown passages' text that the answer repeats, from 0 to 1.

    It is the recall of the passages' character n-grams. They have 5 characters, or 4 in languages
    in which a character is a syllable or a word. The value is low for a short answer, and 1 for an
    answer that copies all passages.
    """
    passages, language = shown_texts(item), item.query.language
    if isinstance(passages, NotComputed):
        return passages
    if not passages:
        return _NO_PASSAGES
    return _index_long_grams(passages, language).recall(item.parsed.answer_text)


@cached_by_identity
def _passages(query: Query) -> tuple[str, ...]:
    # A system may retrieve a passage of the query under another id.
    return tuple(dict.fromkeys(titled_texts(query.passages)))


def _relevant(query: Query) -> tuple[str, ...]:
    return titled_texts(p for p in query.passages if p.id in query.relevant)


def _reference(item: Answered) -> str | NotComputed:
    """Return the answer part of the query's reference.

    If there is no such answer, the result is a :class:`NotComputed` with the explanation. The same
    holds if no passage answers the query, because the reference then states no facts.
    """
    return UNANSWERABLE if item.query.answerable is False else reference_answer(item)


def _reference_weights(item: Answered) -> dict[str, float] | NotComputed:
    """Return the weight of each informative word and number of the reference.

    If the reference is missing or has no informative content, return the reason why there are no
    weights.
    """
    reference = _reference(item)
    if isinstance(reference, NotComputed):
        return reference
    return _weights_by_passages(item) or _content_weights(reference, item.query) or _NOTHING


def _weights_by_passages(item: Answered) -> dict[str, float]:
    """Return the weights of the reference's numbers, and of its words in relevant passages.

    The result is empty without a reference or without the text of a relevant passage.
    """
    reference, sources = reference_answer(item), _relevant(item.query)
    if isinstance(reference, NotComputed) or not sources:
        return {}
    return _source_weights(reference, item.query, sources)


def _content_weights(text: str, query: Query) -> dict[str, float]:
    """Return the weights of a text's numbers and content words that are not in the question."""
    language = query.language
    is_unspaced = Language.of(language).tokens == "character"
    number = NUMBER_CHARACTERS if is_unspaced else NUMBER_LETTERS
    weights = dict.fromkeys(_new_numbers(text, query), number)
    ordinary = function_words(language)
    words_only = without_multipliers(text, language)
    # A single Chinese character counts even if it is a function word, since some negate.
    content = [
        word
        for word in (*text_words(words_only, language), *_han_characters(words_only))
        if word not in ordinary or len(word) == 1
    ]
    in_question = _matches(content, query, _QUESTION)
    for word in content:
        if _match(word, text, query.text, in_question, language) != 1:
            weights[word] = 1.0 if is_unspaced else float(len(word))
    return weights


def _new_numbers(text: str, query: Query) -> frozenset[str]:
    """Return the numbers of a text that are not in the question."""
    return number_terms(text, query.language) - number_terms(query.text, query.language)


def _han_characters(text: str) -> tuple[str, ...]:
    """Return the distinct Chinese characters of a text; each may be a word, such as a negation."""
    return tuple(dict.fromkeys(_HAN.findall(text)))


def _matched_share(
    weights: dict[str, float], source: str, text: str, matches: Mapping[str, float], language: str
) -> float:
    """Return the weighted share of terms that occur in a text.

    A word that occurs only in another inflected form gets part of its weight.

    Args:
        weights: The weight of each term.
        source: The text from which the terms come.
        text: The text to search.
        matches: How well the text contains each term that is a word, from 0 to 1.
        language: ISO 639-1 code of the language.
    """
    shares = (
        weight * _match(term, source, text, matches, language) for term, weight in weights.items()
    )
    return sum(shares) / sum(weights.values())


def _share_in_answer(
    weights: dict[str, float], reference: str, answer: str, language: str
) -> float:
    """Return the weighted share of the reference's terms that occur in an answer."""
    words_of_text = _words_among(weights)
    matches = best_matches(tuple(words_of_text), answer, language)
    table = dict(zip(words_of_text, matches, strict=True))
    return _matched_share(weights, reference, answer, table, language)


def _share_in_reference(
    weights: dict[str, float], answer: str, reference: str, query: Query
) -> float:
    """Return the weighted share of the answer's terms that occur in the reference."""
    matches = _matches(weights, query, _REFERENCE)
    return _matched_share(weights, answer, reference, matches, query.language)


def _words_among(terms: Iterable[str]) -> list[str]:
    """Return the terms that are neither numbers nor Chinese characters."""
    return [
        term for term in terms if not (is_number(term) or (len(term) == 1 and _HAN.match(term)))
    ]


def _matches(terms: Iterable[str], query: Query, position: int) -> Mapping[str, float]:
    """Return how well a text contains each word among ``terms``, from 0 to 1.

    ``position`` is the position of the text in the index of :func:`index_of_words`. Numbers and
    single Chinese characters among ``terms`` are left out.
    """
    words_of_text = _words_among(terms)
    index = index_of_words(query, _passages(query))
    return dict(zip(words_of_text, index.matches_in(words_of_text, position), strict=True))


def _match(term: str, source: str, text: str, matches: Mapping[str, float], language: str) -> float:
    """Return how well a text contains a number, a Chinese character or a word, from 0 to 1.

    Args:
        term: The number, character or word.
        source: The text from which the term comes.
        text: The text to search.
        matches: How well the text contains each term that is a word, from 0 to 1.
        language: ISO 639-1 code of the language.
    """
    if term in matches:
        return matches[term]
    if is_number(term):
        return float(states_number(text, term, source, language))
    return float(bool(_HAN.match(term)) and term in text)


# Polarity and replaced facts ----------------------------------------------------------------------


def _polarity_agrees(answer: str, reference: str, language: str) -> bool:
    return _opening_negates(answer, language) == _opening_negates(reference, language)


@lru_cache(maxsize=4096)
def _opening_negates(text: str, language: str) -> bool:
    """Return whether the first sentence of a text contains a negation."""
    return any(negates(sentence, language) for sentence in split_sentences(text, language)[:1])


def _denied_share(answer: str, reference: str, language: str) -> float:
    """Return the share of the reference's sentences that the answer negates.

    The answer negates a sentence if it repeats it with a negation added or removed.
    """
    bounds = _sentence_bounds(answer, language)
    denials = negation_faults(answer, bounds, [reference], language, is_reference=True)
    return min(1.0, sum(1 for _ in denials) / max(1, len(split_sentences(reference, language))))


def _sentence_bounds(text: str, language: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence of a text."""
    bounds, cursor = [], 0
    for sentence in split_sentences(text, language):
        start = text.find(sentence, cursor)
        if start >= 0:
            cursor = start + len(sentence)
            bounds.append((start, cursor))
    return bounds


def _are_opposite(answer: str, reference: str, language: str) -> bool:
    return _opening_verdict(answer, language) * _opening_verdict(reference, language) < 0


@lru_cache(maxsize=4096)
def _opening_verdict(text: str, language: str) -> int:
    """Return 1 if a text begins with yes, -1 if it begins with no, 0 otherwise."""
    entry, beginning = lexicon(language), text.lstrip(" *_#>-\"'“”").casefold()
    is_spaced = Language.of(language).tokens == "word"
    verdicts = [
        (len(form), verdict)
        for verdict, forms in ((1, entry.yes), (-1, entry.no))
        for form in forms
        if beginning.startswith(form)
        and not (is_spaced and beginning[len(form) : len(form) + 1].isalnum())
    ]
    # The longest form decides, since a short one may be the beginning of another word.
    return max(verdicts, default=(0, 0))[1]


def _replaces_fact(item: Answered, reference: str) -> bool:
    """Return whether the answer replaces a fact of the reference with another number or name.

    Both texts are aligned word by word, or by characters in languages written without spaces.
    """
    answer, language = item.parsed.answer_text, item.query.language
    longest = LONGEST_NAME[Language.of(language).tokens]
    pairs = [
        (before, instead)
        for before, instead in replacements(reference, answer, language)
        if max(len(before), len(instead)) <= longest
    ]
    # Most answers replace nothing, so the weights are computed last.
    weights = _reference_weights(item) if pairs else _NOTHING
    if isinstance(weights, NotComputed):
        return False
    lacking = weights.keys() - _terms_in_answer(answer, weights, reference, language)
    replaced: set[str] = set()
    for before, instead in pairs:
        missing = lacking.intersection(before)
        if missing and _are_same_type(missing, instead, reference, item):
            replaced |= missing
    return _share(weights, replaced.__contains__) > REPLACED_SHARE


def _are_same_type(
    missing: set[str], instead: Sequence[str], reference: str, item: Answered
) -> bool:
    """Return whether a number was replaced by another number, or a name by another name.

    The result is false for all other words, because their replacements may be synonyms. In scripts
    without capitals, a word that occurs in a passage is assumed to be a name.

    Args:
        missing: Words or numbers of the reference that the answer lacks.
        instead: Words or numbers at the same position in the answer.
        reference: Answer part of the query's reference.
        item: The answered query.
    """
    entry, answer = Language.of(item.query.language), item.parsed.answer_text
    passages = _passages(item.query)
    index = index_of_words(item.query, passages)
    numerals = [term for term in instead if values_in(term, entry.code)]
    if any(values_in(term, entry.code) for term in missing) and numerals:
        return not _held_terms(index, numerals, answer, entry.code, [_REFERENCE])
    if entry.capitals != "none":
        familiar = words(f"{item.query.text}\n{reference}", entry.code)
        strange = _capitalised_words(answer, entry).difference(familiar)
        return not (
            _capitalised_words(reference, entry).isdisjoint(missing) or strange.isdisjoint(instead)
        )
    ordinary = lexicon(entry.code).function_words
    names = [term for term in instead if term not in ordinary and term not in numerals]
    return bool(_held_terms(index, names, answer, entry.code, range(len(passages))))


@lru_cache(maxsize=4096)
def _capitalised_words(text: str, entry: Language) -> frozenset[str]:
    """Return the capitalised content words of a text, in lower case."""
    capitalised = " ".join(match[0] for match in WORD.finditer(text) if match[0][0].isupper())
    return frozenset(words(capitalised, entry.code)) - function_words(entry.code)


def _share(weights: dict[str, float], holds: Callable[[str], bool]) -> float:
    """Return the weighted share of terms for which ``holds`` is true; 1 if there are no terms."""
    total = sum(weights.values())
    return sum(weight for term, weight in weights.items() if holds(term)) / total if total else 1


def _source_weights(
    text: str, query: Query, sources: tuple[str, ...], *, with_reference: bool = False
) -> dict[str, float]:
    """Return the weights of a text's numbers, and of its content words that occur in a source.

    Numbers and words that occur in the question are left out.

    Args:
        text: The text.
        query: The query.
        sources: Texts of some of the query's passages.
        with_reference: Whether the answer part of the query's reference is one more source.
    """
    language, passages = query.language, _passages(query)
    ordinary = lexicon(language).function_words
    weights = dict.fromkeys(_new_numbers(text, query), NUMBER_WEIGHT)
    words_only = without_multipliers(text, language)
    words_of_text = [word for word in text_words(words_only, language) if word not in ordinary]
    rows = index_of_words(query, passages).held(words_of_text, WORD_MATCH_SHARE)
    searched = [passages.index(source) for source in sources]
    searched += [_REFERENCE] if with_reference else []
    for word, held in zip(words_of_text, rows, strict=True):
        if not held[_QUESTION] and any(held[number] for number in searched):
            # A word is informative if it occurs in few passages.
            holders = sum(held[: len(passages)])
            weights[word] = math.log((len(passages) + 1) / (holders + 0.5)) ** 2
    return weights


def _terms_in_answer(
    answer: str, terms: Collection[str], reference: str, language: str
) -> set[str]:
    """Return the reference's terms that occur in an answer, by the rules of :func:`_held_terms`."""
    plain = [term for term in terms if not is_number(term)]
    held = set(compress(plain, held_words(plain, answer, language, WORD_MATCH_SHARE)))
    return held.union(
        term
        for term in terms
        if is_number(term) and states_number(answer, term, reference, language)
    )


def _held_terms(
    index: WordIndex, terms: Collection[str], source: str, language: str, searched: Sequence[int]
) -> set[str]:
    """Return the terms that occur in at least one of the searched texts of an index.

    A number occurs in a text if the text contains it in digits or in words, or contains the same
    amount in another unit. A word occurs if the
    text contains at least :data:`WORD_MATCH_SHARE` of its character n-grams, as most inflected
    forms of the word do; see :func:`mirage.text.content.held_words`. A word that is not longer than
    an n-gram occurs if it is part of a word in the text.

    Args:
        index: The index.
        terms: Words and numbers.
        source: The text from which the terms come.
        language: ISO 639-1 code of the language.
        searched: The positions of the searched texts in the index.
    """
    plain = [term for term in terms if not is_number(term)]
    rows = index.held(plain, WORD_MATCH_SHARE)
    held = {term for term, row in zip(plain, rows, strict=True) if any(row[n] for n in searched)}
    texts = [index.texts[position] for position in searched]
    return held.union(
        term
        for term in terms
        if is_number(term) and any(states_number(text, term, source, language) for text in texts)
    )


@lru_cache(maxsize=1024)
def _index_long_grams(texts: tuple[str, ...], language: str) -> _LongGrams:
    return _LongGrams(texts, Language.of(language))


class _LongGrams:
    """The set of the character n-grams that occur in some texts, for :func:`passage_coverage`.

    Args:
        texts: The texts.
        entry: The language of the texts.
    """

    def __init__(self, texts: Sequence[str], entry: Language) -> None:
        self._entry = entry
        self._length = entry.gram_length + 2
        joined = [text_form(text, entry).tokens for text in texts]
        # The border between two texts has the number 0, so n-grams across it can be left out.
        codes = code_points("\0".join(joined))
        self._alphabet = Alphabet(codes)
        self._strings: set[str] | None = None
        if self._length * self._alphabet.bits >= 63:  # too many characters for an integer
            self._strings = set[str]().union(*map(self._cut, joined))
            return
        numbers = self._alphabet.numbers(codes)
        is_inside = np.ones(max(0, len(numbers) - self._length + 1), dtype=bool)
        for border in np.flatnonzero(numbers == 0).tolist():
            is_inside[max(0, border - self._length + 1) : border + 1] = False
        self._values = distinct(pack(numbers, self._length, self._alphabet.bits)[is_inside])

    def _cut(self, joined: str) -> set[str]:
        starts = range(len(joined) - self._length + 1)
        return {joined[start : start + self._length] for start in starts}

    def recall(self, text: str) -> float:
        """Return the share of all indexed n-grams that ``text`` contains; 0 if there are none."""
        joined = text_form(text, self._entry).tokens
        if self._strings is not None:
            return len(self._strings & self._cut(joined)) / max(1, len(self._strings))
        if not len(self._values):
            return 0.0
        # An unknown character has the number 0, so an n-gram with it equals no indexed n-gram.
        numbers = self._alphabet.numbers(code_points(joined))
        grams = distinct(pack(numbers, self._length, self._alphabet.bits))
        positions = self._values.searchsorted(grams)
        positions[positions == len(self._values)] = 0
        return int(np.count_nonzero(self._values[positions] == grams)) / len(self._values)


_RECALL = Facts("higher", 0, 1, ("reference",))

DEFINITIONS = (
    Definition("fact_recall", fact_recall, _RECALL),
    Definition("fact_agreement", fact_agreement, _RECALL),
    Definition("fact_precision", fact_precision, Facts("higher", 0, 1, ("relevant passages",))),
    Definition("passage_coverage", passage_coverage, Facts("none", 0, 1, ("passages",))),
)
