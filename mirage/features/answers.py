"""Whether an answer asserts the query's short answers or the facts of its reference.

The features compare facts instead of wording, and assertions instead of mentions. Short answers are
located by n-gram recall, as in BERGEN (Rau et al. 2024, arXiv 2407.01102, section 4). In BERGEN the
n-grams may occur anywhere in the response; here they have to occur together, see
:func:`mirage.text.mention`.
"""

from __future__ import annotations

from functools import lru_cache

from mirage.features.answer_claims import answer_claims
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.languages import Language
from mirage.text import tokenize

NO_ANSWERS = NotComputed("the query has no short answers")
_NO_WRONG_ANSWERS = NotComputed("the query has no wrong answers to look for")
UNANSWERABLE = NotComputed("no passage answers the query, so there is no right answer")


def answer_match(item: Answered) -> float | NotComputed:
    """Return the share of the query's right short answers that the response asserts.

    The share is in [0, 1]. The response has to assert the short answer, in any of its spellings. A
    short answer does not count if the response denies it, reports it as the belief of someone else,
    or lists it among other candidates (see :func:`mirage.text.read_claims`). Not computed if the
    query has no :attr:`~mirage.Query.answers`.
    """
    if item.query.answerable is False:
        return UNANSWERABLE
    if not item.query.answers:
        return NO_ANSWERS
    asserted = answer_claims(item).right
    return sum(asserted) / len(asserted)


def wrong_answer(item: Answered) -> float | NotComputed:
    """Return 1 if the response asserts a wrong answer or denies the right one, else 0.

    A wrong answer does not count if the response denies it, contrasts it with the right one,
    mentions it only in passing, or also commits to a right answer. Not computed if the query has no
    :attr:`~mirage.Query.wrong_answers`. Not computed either if no passage answers the query, since
    an abstention may mention other statements of the passages.
    """
    if item.query.answerable is False:
        return UNANSWERABLE
    if not item.query.wrong_answers:
        return _NO_WRONG_ANSWERS
    claims = answer_claims(item)
    return float(any(claims.wrong) or claims.denies_right)


def reference_recall(item: Answered) -> float | NotComputed:
    """Return the share of the reference's new content that the answer repeats, from 0 to 1.

    It is the recall of those character n-grams of the reference that do not occur in the question.
    The length of n-grams depends on the language. In scripts where a character is a syllable or a
    word, all shorter n-grams count too. Not computed without a reference.
    """
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    language = item.query.language
    reference_grams = _grams(reference, language)
    new = reference_grams - _grams(item.query.text, language) or reference_grams
    return len(new & _grams(item.parsed.answer_text, language)) / len(new) if new else 0.0


@lru_cache(maxsize=4096)
def _grams(text: str, language: str) -> frozenset[str]:
    entry = Language.of(language)
    longest = entry.gram_length
    words = tokenize(text, entry)
    if entry.tokens == "character":
        words = ["".join(words)]
    lengths = range(1, 3) if longest == 2 else (longest,)
    padded = [f" {word} " if longest > 2 else word for word in words]
    return frozenset(
        word[i : i + n] for word in padded for n in lengths for i in range(len(word) - n + 1)
    )


_FACTS = Facts("higher", 0, 1, ("answers",))

DEFINITIONS = (
    Definition("answer_match", answer_match, _FACTS),
    Definition("wrong_answer", wrong_answer, Facts("lower", 0, 1, ("wrong answers",))),
    Definition("reference_recall", reference_recall, Facts("higher", 0, 1, ("reference",))),
)
