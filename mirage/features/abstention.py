"""Whether a response abstains when it should, and whether it is wrong when it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import fmean, mean

import numpy as np

from mirage.features.answer_claims import answer_claims
from mirage.features.answers import NO_ANSWERS
from mirage.features.base import Answered, Definition, Facts, NotComputed, titled_texts
from mirage.text import abstains, split_sentences
from mirage.text.abstentions import ABSTAINS_AT
from mirage.text.content import best_matches, content_words
from mirage.text.negations import negates
from mirage.text.numbers import numbers
from mirage.text.quantities import values_in

RELATED_SHARE = 0.25
"""Share of a sentence's content words above which the sentence is related to the question.

It is the share of words that occur in the question or in any passage.
"""

CLEAR_ABSTENTION = 0.9
"""Minimum certainty of an abstention in a response that also asserts a known wrong answer."""

ABSTENTION_IF_UNANSWERABLE = 0.33
"""Like :data:`~mirage.text.abstentions.ABSTAINS_AT`, if no passage answers the query.

Abstentions are then more probable. An answer with a number that neither the question nor a passage
has still needs the usual probability.
"""

STATED_SHARE = 0.8
"""Mean match of a sentence's content words from which a passage states the same sentence."""

SUMMARY_SHARE = 0.7
"""Like :data:`STATED_SHARE`, for a sentence that summarizes a passage before a refusal."""

SHORTEST_STATEMENT = 2
"""Minimum number of content words of a sentence that is compared with the passages."""

_UNKNOWN = NotComputed(
    "the query's field 'answerable' is not set, so it is unknown whether a passage answers it"
)
_ANSWERABLE = NotComputed("a passage answers the query, so answering it is no invention")


def abstention(item: Answered) -> float | NotComputed:
    """Return 1 if the response abstains when it should and answers when it should, else 0.

    A response should abstain if no passage answers the query (:attr:`~mirage.Query.answerable`).
    :func:`mirage.text.abstains` detects abstentions. A response that asserts every right answer of
    the query never counts as an abstention, and neither does a negative fact that a passage states
    too, such as "They could not find any defects". An empty answer gets 0 for every query, since it
    does not even state that there is no answer. Not computed if ``answerable`` is not set.
    """
    query, answer = item.query, item.parsed.answer_text
    if query.answerable is None:
        return _UNKNOWN
    if not answer.strip():
        return 0.0
    return float(has_abstained(item) is not query.answerable)


def has_abstained(item: Answered) -> bool:
    """Return whether the answer abstains.

    An answer to an answerable query that asserts all right answers does not abstain, although a
    sentence such as "Not the Congo, as one reads, but the Nile" resembles an abstention. If the
    answer asserts a wrong answer, as in "it is not known for certain, but the Congo, I think", the
    certainty that it abstains must be at least :data:`CLEAR_ABSTENTION`. A negative fact such as
    "They could not find any defects" also resembles an abstention. An answer to an answerable query
    does not abstain if passages state all such sentences in it.
    """
    query = item.query
    claims = answer_claims(item)
    if query.answerable and claims.right and all(claims.right):
        return False
    doubtful = query.answerable and any(claims.wrong)
    least = CLEAR_ABSTENTION if doubtful else ABSTAINS_AT
    if query.answerable is False and not _has_new_numbers(item):
        least = ABSTENTION_IF_UNANSWERABLE
    readings = (_whole, _core, _without_summary, _without_explanation)
    seems_to_abstain = any(
        bool(text := reading(item)) and _certainty(item, text) >= least for reading in readings
    )
    return seems_to_abstain and (query.answerable is False or not _quotes_negative_facts(item))


def _whole(item: Answered) -> str:
    return item.parsed.answer_text


def _has_new_numbers(item: Answered) -> bool:
    query, code = item.query, item.query.language
    values = values_in(item.parsed.answer_text, code) - values_in(query.text, code)
    return not values <= frozenset[float]().union(
        *(values_in(text, code) for text in titled_texts(query.passages))
    )


def _quotes_negative_facts(item: Answered) -> bool:
    """Return whether passages state every sentence of the answer that seems to abstain."""
    sentences = [sentence.text for sentence in item.parsed.sentences]
    abstentions = [text for text in sentences if _certainty(item, text) >= ABSTAINS_AT]
    return bool(abstentions) and all(_is_stated(item, text) for text in abstentions)


def _is_stated(item: Answered, sentence: str) -> bool:
    """Return whether a passage states ``sentence``: nearly the same words, and a negation."""
    return any(
        negates(statement, item.query.language) or _certainty(item, statement) >= ABSTAINS_AT
        for statement in _similar_statements(item, sentence, STATED_SHARE)
    )


def _similar_statements(item: Answered, sentence: str, least: float) -> Iterator[str]:
    """Yield the sentences of passages that have most content words of ``sentence``.

    ``least`` is the minimum mean match of the content words.
    """
    code = item.query.language
    words = content_words(sentence, code)
    if len(words) < SHORTEST_STATEMENT:
        return
    for passage in item.query.passages:
        for statement in split_sentences(passage.titled_text, code):
            if fmean(best_matches(words, statement, code)) >= least:
                yield statement


def _certainty(item: Answered, text: str) -> float:
    return abstains(text, item.query.language, question=item.query.text)


def _without_summary(item: Answered) -> str:
    """Return the answer without sentences that passages state, if these cannot be the answer.

    Many models summarize the passages before they decline to answer. Such a summary is no answer
    if no passage answers the query, or if it asserts none of the known answers. The result is empty
    if all or none of the sentences are stated by passages, or if they may be the answer.
    """
    query, claims = item.query, answer_claims(item)
    if query.answerable is not False and (not claims.right or any(claims.right)):
        return ""
    sentences = [sentence.text for sentence in item.parsed.sentences]
    others = [text for text in sentences if not _is_copied(item, text)]
    return " ".join(others) if len(others) < len(sentences) else ""


def _is_copied(item: Answered, sentence: str) -> bool:
    """Return whether a passage has the words and numbers of a sentence that does not abstain."""
    code = item.query.language
    return _certainty(item, sentence) < ABSTAINS_AT and any(
        values_in(sentence, code) <= values_in(statement, code)
        for statement in _similar_statements(item, sentence, SUMMARY_SHARE)
    )


_COLON = re.compile("[:：]")


def _without_explanation(item: Answered) -> str:
    """Return the text before a colon, if a negation after it explains why there is no answer.

    An example is "It cannot be answered: they had no thermometer" on an unanswerable query. The
    result is empty for other texts.
    """
    head, *rest = _COLON.split(item.parsed.answer_text, maxsplit=1)
    explains = item.query.answerable is False and any(
        negates(text, item.query.language) and not numbers(text) for text in rest
    )
    return head if explains else ""


def _core(item: Answered) -> str:
    """Return the answer without sentences that are unrelated to the question.

    An abstention is hard to recognise if the answer also contains an unusual polite phrase or
    disclaimer. A sentence is related to the question if it abstains itself, states a number, or
    shares more than a quarter of its content words with the question and the passages. The result
    is empty if all or none of the sentences are related.
    """
    sentences = [sentence.text for sentence in item.parsed.sentences]
    core = [text for text in sentences if _is_related(item, text)]
    return " ".join(core) if len(core) < len(sentences) else ""


def _is_related(item: Answered, sentence: str) -> bool:
    query, code = item.query, item.query.language
    if numbers(sentence) or _certainty(item, sentence) >= ABSTAINS_AT:
        return True
    words = content_words(sentence, code)
    texts = (query.text, *titled_texts(query.passages))
    matches = np.array([best_matches(words, text, code) for text in texts]).max(axis=0)
    return bool(matches.mean() > RELATED_SHARE)


def invention(item: Answered) -> float | NotComputed:
    """Return 1 if no passage answers the query but the response answers it nevertheless, else 0.

    A high mean identifies a system that makes up answers; :func:`abstention` also counts the
    queries that should be answered. Not computed for queries that a passage answers.
    """
    if item.query.answerable is not False:
        return _ANSWERABLE if item.query.answerable else _UNKNOWN
    right = abstention(item)
    return right if isinstance(right, NotComputed) else 1 - right


def incorrect_attempt(item: Answered) -> float | NotComputed:
    """Return the share of an attempted answer that is not right.

    The share is in [0, 1]. A response that abstains or is empty makes no attempt and gets 0. Any
    other response gets 1 if no passage answers the query. Otherwise it gets the share of the
    query's short answers that it does not assert. Unlike
    :func:`~mirage.features.answers.wrong_answer`, this feature needs no list of wrong answers. It
    follows SimpleQA, which grades answers as "correct", "incorrect" or "not attempted" (Wei et al.
    2024, arXiv 2411.04368). Not computed if a passage may answer the query and the query has no
    :attr:`~mirage.Query.answers`.
    """
    query = item.query
    if query.answerable is not False and not query.answers:
        return NO_ANSWERS
    if not item.parsed.answer_text.strip() or has_abstained(item):
        return 0.0
    if query.answerable is False:
        return 1.0
    return 1 - mean(answer_claims(item).right)


DEFINITIONS = (
    Definition("abstention", abstention, Facts("higher", 0, 1, ("answerable",))),
    Definition("invention", invention, Facts("lower", 0, 1, ("unanswerable queries",))),
    Definition("incorrect_attempt", incorrect_attempt, Facts("lower", 0, 1, ("answers",))),
)
