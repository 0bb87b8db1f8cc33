"""Whether an answer asserts what is right: the short answers of a query, or its reference's facts.

What is compared is facts, not wording, and what is asserted, not what is mentioned. The n-gram
recall comes from BERGEN (Rau et al. 2024, arXiv
2407.01102, section 4), whose metric takes the n-grams from anywhere in the response; here they have
to stand together, see :func:`mirage.text.mention`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.languages import Language
from mirage.text import mentioned, tokenize
from mirage.text.claims import Forms, Mention, Stance, read_claims
from mirage.text.lexicon import lexicon

__all__ = [
    "NO_ANSWERS",
    "UNANSWERABLE",
    "AnswerClaims",
    "answer_claims",
    "answer_match",
    "reference_recall",
    "wrong_answer",
]

CLEARLY_WRONG = 0.7
"""The probability from which on a response asserts a wrong answer; an accusation has to be sure."""

DENIED = tuple(Stance).index(Stance.DENIED)

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


class AnswerClaims(NamedTuple):
    """What a response asserts of the answers of its query.

    Attributes:
        right: For each right answer, whether the response asserts it.
        wrong: For each wrong answer, whether the response asserts it in place of a right one.
        denies_right: Whether the response denies a right answer and asserts none.
        mentions: Every mention of an answer, with its place in ``answer_text``. Candidates are the
            right answers, then the wrong ones.
    """

    right: tuple[bool, ...]
    wrong: tuple[bool, ...]
    denies_right: bool
    mentions: tuple[Mention, ...]

    def asserted_wrong(self) -> tuple[Mention, ...]:
        """Return the mentions that assert a wrong answer in place of a right one."""
        return tuple(
            mention
            for mention in self.mentions
            if mention.candidate >= len(self.right)
            and self.wrong[mention.candidate - len(self.right)]
            and mention.stance is Stance.ASSERTED
        )


def answer_claims(item: Answered) -> AnswerClaims:
    """Return what a response asserts of the right and wrong answers of its query."""
    query = item.query
    return _claims(
        item.parsed.answer_text, query.answers, query.wrong_answers, query.language, query.text
    )


@lru_cache(maxsize=4096)
def _claims(
    text: str, right: tuple[Forms, ...], wrong: tuple[Forms, ...], language: str, question: str
) -> AnswerClaims:
    forms = (*right, *wrong)
    # Forms such as "no" and "not allowed" are themselves what other candidates are read by.
    plain = [index for index, each in enumerate(forms) if not _is_polarity(each, language)]
    candidates = tuple(forms[index] for index in plain)
    groups = tuple(0 if index < len(right) else index for index in plain)
    claims = read_claims(text, candidates, language, question=question, groups=groups)
    asserted = {plain[index] for index in claims.committed}
    mentions = tuple(m._replace(candidate=plain[m.candidate]) for m in claims.mentions)
    asserted |= {
        index
        for index, each in enumerate(forms)
        if index not in plain and mentioned(each, text, language)
    }
    rights = tuple(index in asserted for index in range(len(right)))
    if all(rights) and right:
        return AnswerClaims(rights, (False,) * len(wrong), False, mentions)
    certain = {plain[index] for index, p in enumerate(claims.certainty) if p >= CLEARLY_WRONG}
    certain |= asserted - set(plain)
    wrongs = tuple(index in certain for index in range(len(right), len(forms)))
    denied = not any(rights) and any(
        m.probabilities[DENIED] >= CLEARLY_WRONG and m.candidate < len(right) for m in mentions
    )
    return AnswerClaims(rights, wrongs, denied, mentions)


@lru_cache(maxsize=4096)
def _is_polarity(forms: Forms, language: str) -> bool:
    """Whether an answer says yes or no."""
    words = lexicon(language)
    verdicts = {*words.yes, *words.no}
    return any(form.casefold().strip(" ,、.") in verdicts for form in forms)


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
