"""Whether an answer asserts what is right: the short answers of a query, or its reference's facts.

What is compared is facts, not wording, and what is asserted, not what is mentioned. The n-gram
recall comes from BERGEN (Rau et al. 2024, arXiv
2407.01102, section 4), whose metric takes the n-grams from anywhere in the response; here they have
to stand together, see :func:`mirage.text.mention`.
"""

from __future__ import annotations

from functools import lru_cache

from mirage.features.answer_claims import answer_claims
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.languages import Language
from mirage.text import tokenize

__all__ = [
    "NO_ANSWERS",
    "UNANSWERABLE",
    "answer_match",
    "reference_recall",
    "wrong_answer",
]

NO_ANSWERS = NotComputed("the query has no short answers")
_NO_WRONG_ANSWERS = NotComputed("the query has no wrong answers to look for")
UNANSWERABLE = NotComputed("no passage answers the query, so that there is no right answer")


def answer_match(item: Answered) -> float | NotComputed:
    """Return the share of the query's short answers that the response asserts.

    In [0, 1]. An answer counts in any of its forms, if the response gives it as the answer: not if
    it denies it, reports it as a belief of others, or lists it among other candidates (see
    :func:`mirage.text.read_claims`). Not computed if the query has no
    :attr:`~mirage.Query.answers`.
    """
    if item.query.answerable is False:
        return UNANSWERABLE
    if not item.query.answers:
        return NO_ANSWERS
    asserted = answer_claims(item).right
    return sum(asserted) / len(asserted)


def wrong_answer(item: Answered) -> float | NotComputed:
    """Return 1 if the response asserts a wrong answer or denies the right one, else 0.

    A wrong answer that the response denies, contrasts with the right one or mentions in another
    role is no fault, and neither is one beside a right answer that the response commits to. Not
    computed if the query has no :attr:`~mirage.Query.wrong_answers`, and if no passage answers it:
    an abstention may then mention what else the passages state.
    """
    if item.query.answerable is False:
        return UNANSWERABLE
    if not item.query.wrong_answers:
        return _NO_WRONG_ANSWERS
    claims = answer_claims(item)
    return float(any(claims.wrong) or claims.denies_right)


def reference_recall(item: Answered) -> float | NotComputed:
    """Share of what the reference tells, and the question does not, that the answer tells too.

    In [0, 1]: the recall of the reference's n-grams of characters that the question does not hold,
    over lengths from one to the language's own n-gram length where a character is a syllable or a
    word, and of that length alone elsewhere. Not computed without a reference.
    """
    reference = reference_answer(item)
    if isinstance(reference, NotComputed):
        return reference
    language = item.query.language
    told = _grams(reference, language)
    new = told - _grams(item.query.text, language) or told
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
