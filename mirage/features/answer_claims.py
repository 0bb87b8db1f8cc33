"""What a response asserts of the right and wrong answers of its query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.features.base import Answered
from mirage.text import Claims, Mention, Stance, mentioned, read_claims
from mirage.text.claims import Forms
from mirage.text.lexicon import lexicon

__all__ = ["AnswerClaims", "answer_claims"]

CLEARLY_WRONG = 0.7
"""The probability from which on a response asserts a wrong answer; an accusation has to be sure."""

OUTWEIGHED = 0.8
"""The probability of a wrong answer from which on it outweighs a right one that nothing denies."""

SET_ASIDE = 0.4
"""The probability up to which a mention of a right answer counts as neither denied nor reported."""

SET_ASIDE_PART = 0.75
"""The same for one part of an answer that has several."""

_ASSERTED = tuple(Stance).index(Stance.ASSERTED)
_DENIED = tuple(Stance).index(Stance.DENIED)
_OTHER = tuple(Stance).index(Stance.OTHER)


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
    """Return what a response asserts of the right and wrong answers of its query.

    :func:`mirage.text.read_claims` does not know which candidate is right. Here a right answer
    gets the benefit of the doubt: it is asserted if the text commits to it, and also if nothing
    denies, reports or merely lists it and no wrong answer is clearly asserted. True answers that
    mention a wrong answer in another role are far more common than lies that mention the right
    answer without denying it.
    """
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
    verdicts = [index for index, each in enumerate(forms) if _is_verdict(each, language)]
    plain = [index for index in range(len(forms)) if index not in verdicts]
    groups = [0 if index < len(right) else index for index in plain]
    candidates = [forms[index] for index in plain]
    claims = read_claims(text, candidates, language, question=question, groups=groups)
    asserted = {index for index in verdicts if mentioned(forms[index], text, language)}
    asserted |= {plain[place] for place in _asserted(claims, groups)}
    mentions = tuple(m._replace(candidate=plain[m.candidate]) for m in claims.mentions)
    rights = tuple(index in asserted for index in range(len(right)))
    wrongs = tuple(index in asserted and not (right and all(rights)) for index in range(len(forms)))
    denied = not any(rights) and any(
        m.probabilities[_DENIED] >= CLEARLY_WRONG for m in mentions if m.candidate < len(right)
    )
    return AnswerClaims(rights, wrongs[len(right) :], denied, mentions)


def _asserted(claims: Claims, groups: Sequence[int]) -> frozenset[int]:
    """The candidates that a text asserts, with the benefit of the doubt for group 0."""
    right = max(
        (p for p, group in zip(claims.certainty, groups, strict=True) if not group), default=0
    )
    wrong = max((p for p, group in zip(claims.certainty, groups, strict=True) if group), default=0)
    own = [m for m in claims.mentions if not groups[m.candidate]]
    if 0.5 <= right >= wrong:
        return frozenset(m.candidate for m in own)
    # An answer of several parts is a list by nature.
    most = SET_ASIDE if groups.count(0) == 1 else SET_ASIDE_PART
    unopposed = {m.candidate for m in own if _set_aside(m) < most}
    unopposed -= {m.candidate for m in own if _set_aside(m) >= most}
    if unopposed and wrong < OUTWEIGHED:
        return frozenset(unopposed)
    return frozenset(i for i, p in enumerate(claims.certainty) if groups[i] and p >= CLEARLY_WRONG)


def _set_aside(mention: Mention) -> float:
    """The probability that a mention is denied, contrasted, attributed or listed."""
    return 1 - mention.probabilities[_ASSERTED] - mention.probabilities[_OTHER]


@lru_cache(maxsize=4096)
def _is_verdict(forms: Forms, language: str) -> bool:
    """Whether an answer says yes or no."""
    words = lexicon(language)
    verdicts = {*words.yes, *words.no}
    return any(form.casefold().strip(" ,、.") in verdicts for form in forms)
