"""Decide which of a query's right and wrong answers a response asserts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.features.base import Answered
from mirage.languages import Language
from mirage.text import read_claims
from mirage.text.abstentions import ABSTAINS_AT, abstains
from mirage.text.claims import Claims, Forms, Mention, Stance
from mirage.text.lexicon import lexicon
from mirage.text.verdicts import (
    asserts_phrase,
    implied_verdict,
    mentions_plainly,
    stated_verdict,
)

CLEARLY_WRONG = 0.75
"""Minimum probability at which a wrong answer counts as asserted, or a right answer as denied.

It is high because a false accusation is worse than a missed fault.
"""

OUTWEIGHS_RIGHT = 0.85
"""Minimum probability at which a wrong answer outweighs a right answer that is not denied."""

MOST_DOUBT = 0.6
"""Probability of a denial, report or list below which a mentioned right answer counts as asserted.

The threshold applies if no wrong answer outweighs the right one.
"""

MOST_DOUBT_OF_PART = 0.75
"""The threshold that replaces :data:`MOST_DOUBT` for one of several parts of a right answer."""

MAY_BE_LISTED = 0.2
"""Probability above which a wrong answer counts as possibly listed beside a right one."""

MAY_BE_ITEM = 0.4
"""Minimum probability at which a wrong answer counts as an item of a list with a right answer."""

_ASSERTED = tuple(Stance).index(Stance.ASSERTED)
_DENIED = tuple(Stance).index(Stance.DENIED)
_CONTRASTED = tuple(Stance).index(Stance.CONTRASTED)
_ATTRIBUTED = tuple(Stance).index(Stance.ATTRIBUTED)
_LISTED = tuple(Stance).index(Stance.LISTED)


class AnswerClaims(NamedTuple):
    """The right and wrong answers that a response asserts.

    Attributes:
        right: For each right answer, whether the response asserts it.
        wrong: For each wrong answer, whether the response asserts it in place of a right one.
        denies_right: Whether the response denies a right answer and asserts none.
        mentions: Every mention of a right or wrong answer, with its position in ``answer_text``.
            The attribute ``candidate`` of a mention is the index of the answer in a list of all
            right answers, followed by all wrong ones.
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
    """Return which of the query's right and wrong answers a response asserts.

    :func:`mirage.text.read_claims` treats right and wrong answers alike. This function decides
    doubtful cases in favour of a right answer. A right answer counts as asserted in two cases.
    Either the text commits to it, or the text clearly asserts no wrong answer and does not deny,
    report or merely list the right one. The reason is that true answers often mention a wrong
    answer without asserting it, but false answers rarely mention the right one without denying it.
    """
    query = item.query
    return _read_answer_claims(
        item.parsed.answer_text, query.answers, query.wrong_answers, query.language, query.text
    )


@lru_cache(maxsize=4096)
def _read_answer_claims(
    text: str, right: tuple[Forms, ...], wrong: tuple[Forms, ...], language: str, question: str
) -> AnswerClaims:
    """Return the right and wrong answers that a text asserts.

    The result is cached, because several features use it.
    """
    forms = (*right, *wrong)
    # Forms such as "no" and "not allowed" are also cues for the stance towards other candidates,
    # so they are not read as candidates.
    verdicts = [
        index
        for index, answer_forms in enumerate(forms)
        if _verdict(answer_forms, language) is not None
    ]
    plain = [index for index in range(len(forms)) if index not in verdicts]
    groups = [0 if index < len(right) else index for index in plain]
    candidates = [forms[index] for index in plain]
    claims = read_claims(text, candidates, language, question=question, groups=groups)
    asserted = {
        index
        for index in verdicts
        if _states_verdict(forms[index], text, question, language, is_right=index < len(right))
    }
    verdict = any(index < len(right) for index in asserted)
    # An answer with several parts is naturally a list, and each asserted part makes the other parts
    # more probable.
    has_parts = len(right) > 1
    if has_parts:
        claims = _with_shared_negations(claims, groups, language)
    asserted |= {
        plain[position] for position in _asserted_candidates(claims, groups, has_parts, verdict)
    }
    items = _wrong_items(claims, groups, language) if has_parts else frozenset()
    wrong_items = {plain[position] for position in items}
    mentions = tuple(m._replace(candidate=plain[m.candidate]) for m in claims.mentions)
    rights = tuple(index in asserted for index in range(len(right)))
    # If all right answers are asserted, a wrong one is a mention in another role, unless it is an
    # item of the same list.
    others = set() if right and all(rights) else asserted
    wrongs = tuple(index in others or index in wrong_items for index in range(len(forms)))
    denials = (
        *(m.probabilities[_DENIED] >= CLEARLY_WRONG for m in mentions if m.candidate < len(right)),
        *(_denies_phrase(right[i], text, question, language) for i in verdicts if i < len(right)),
    )
    denied = not any(rights) and any(denials)
    return AnswerClaims(rights, wrongs[len(right) :], denied, mentions)


def _asserted_candidates(
    claims: Claims, groups: Sequence[int], parts: bool, verdict: bool
) -> frozenset[int]:
    """Return the indices of the candidates (right and wrong answers) that a text asserts.

    Doubtful cases are decided in favour of the right answers.

    Args:
        claims: The certainty of each candidate, and its mentions in the text.
        groups: The group of each candidate: 0 for the right answers, other numbers for wrong ones.
        parts: Whether the right answer has several parts.
        verdict: Whether the text asserts a yes or a no that is part of the right answer.
    """
    present = [index for index, value in enumerate(claims.certainty) if value]
    right = max((claims.certainty[i] for i in present if not groups[i]), default=0)
    wrong = max((claims.certainty[i] for i in present if groups[i]), default=0)
    # The text commits to a right answer, and not more strongly to a wrong one.
    if 0.5 <= right >= wrong:
        return frozenset(index for index in present if not groups[index])
    right_mentions = [m for m in claims.mentions if not groups[m.candidate]]
    partly = parts and any(m.stance is Stance.ASSERTED for m in right_mentions)
    lists = any(
        groups[m.candidate] and m.probabilities[_LISTED] > MAY_BE_LISTED for m in claims.mentions
    )
    # The negations of a verdict deny no other part: "No. It is lent for 14 days and cannot be
    # renewed."
    doubts = [
        (m.candidate, m.probabilities[_CONTRASTED] if verdict else _doubt(m, partly, lists))
        for m in right_mentions
    ]
    most = MOST_DOUBT_OF_PART if parts else MOST_DOUBT
    unopposed = {candidate for candidate, doubt in doubts if doubt < most}
    unopposed -= {candidate for candidate, doubt in doubts if doubt >= most}
    if unopposed and wrong < OUTWEIGHS_RIGHT:
        mentioned_parts = {m.candidate for m in claims.mentions}
        shared = {i for i in present if not groups[i] and i not in mentioned_parts}
        return frozenset(unopposed | shared)
    least = OUTWEIGHS_RIGHT if partly or verdict else CLEARLY_WRONG
    return frozenset(i for i in present if groups[i] and claims.certainty[i] >= least)


def _doubt(mention: Mention, partly: bool, lists: bool) -> float:
    """Return the probability that a text mentions a right answer without asserting it.

    Args:
        mention: A mention of a right answer. It may be denied, contrasted, attributed or listed.
        partly: Whether the text asserts another part of the answer. Then only a denial or contrast
            counts.
        lists: Whether a list counts as doubt, because the text may list a wrong answer too.
    """
    denied = mention.probabilities[_DENIED] + mention.probabilities[_CONTRASTED]
    if partly:
        return denied
    listed = mention.probabilities[_LISTED] if lists else 0.0
    return denied + mention.probabilities[_ATTRIBUTED] + listed


def _lists(claims: Claims, language: str) -> Iterator[list[Mention]]:
    """Yield the lists in a text: successive mentions with no word except "and" between them.

    A single mention is a list of its own.
    """
    entry = Language.of(language)
    words = {word.casefold() for word in (*entry.conjunctions, *entry.articles, "and", "&")}
    items: list[Mention] = []
    for mention in claims.mentions:
        gap = claims.text[items[-1].end : mention.start].casefold() if items else ""
        if items and not words.issuperset(re.findall(r"\w+|&", gap)):
            yield items
            items = []
        items.append(mention)
    if items:
        yield items


def _with_shared_negations(claims: Claims, groups: Sequence[int], language: str) -> Claims:
    """Return claims in which negating one right answer of a list negates all right answers in it.

    In "not barley, flax and lentils, but wheat", the negation is next to the first item only. The
    rule applies only to texts that mention a wrong answer too.
    """
    if not any(groups[mention.candidate] for mention in claims.mentions):
        return claims
    mentions = list(claims.mentions)
    for items in _lists(claims, language):
        rights = [item for item in items if not groups[item.candidate]]
        rejected = max(rights, key=_rejected, default=None)
        if rejected is not None and _rejected(rejected) >= CLEARLY_WRONG:
            for item in rights:
                shared = item._replace(stance=rejected.stance, probabilities=rejected.probabilities)
                mentions[mentions.index(item)] = shared
    if mentions == list(claims.mentions):
        return claims
    return claims.with_mentions(mentions, groups)


def _rejected(mention: Mention) -> float:
    return mention.probabilities[_DENIED] + mention.probabilities[_CONTRASTED]


def _wrong_items(claims: Claims, groups: Sequence[int], language: str) -> frozenset[int]:
    """Return the indices of the wrong answers that a text gives as items of a list.

    An item counts only if its list contains a right answer, or if the text mentions none.
    """
    has_right = any(not groups[mention.candidate] for mention in claims.mentions)
    wrong: set[int] = set()
    for items in _lists(claims, language):
        rights = [_in_list(item) for item in items if not groups[item.candidate]]
        if rights or not has_right:
            # Next to a right item that the text gives, less certainty is enough.
            least = MAY_BE_ITEM if max(rights, default=0) >= CLEARLY_WRONG else CLEARLY_WRONG
            wrong.update(
                item.candidate
                for item in items
                if groups[item.candidate] and _in_list(item) >= least
            )
    return frozenset(wrong)


def _in_list(item: Mention) -> float:
    return item.probabilities[_ASSERTED] + item.probabilities[_LISTED]


def _states_verdict(
    forms: Forms, text: str, question: str, language: str, *, is_right: bool
) -> bool:
    """Return whether a text answers with the yes or no that the spellings ``forms`` express.

    A yes or no that is a clause of its own decides. Without one, longer spellings, such as "not
    allowed", count wherever they are mentioned, unless the text abstains. A right answer
    (``is_right``) also counts if a sentence implies it. A wrong one does not, because a true
    sentence about a part of the question may imply it too.
    """
    yes = _verdict(forms, language)
    stated = stated_verdict(text, language)
    if stated is not None:
        return stated == yes
    words, phrases = _words_and_phrases(forms, language)
    phrase = asserts_phrase(phrases, text, language)
    if is_right and phrase is not False and implied_verdict(text, question, language) == yes:
        return True
    if abstains(text, language, question=question) >= ABSTAINS_AT:
        return False
    return phrase is True or mentions_plainly(
        tuple(word for word in words if not _is_short(word, language)), text, language
    )


def _words_and_phrases(forms: Forms, language: str) -> tuple[Forms, Forms]:
    """Return the spellings that are words for yes or no, and all others, such as "forbidden"."""
    words = tuple(form for form in forms if _verdict((form,), language) is not None)
    return words, tuple(form for form in forms if form not in words)


def _denies_phrase(forms: Forms, text: str, question: str, language: str) -> bool:
    """Return whether a text denies a spelling such as "forbidden", and says no yes or no itself."""
    _, phrases = _words_and_phrases(forms, language)
    return (
        stated_verdict(text, language) is None
        and asserts_phrase(phrases, text, language) is False
        and abstains(text, language, question=question) < ABSTAINS_AT
    )


def _is_short(word: str, language: str) -> bool:
    """Return whether a word for yes or no is short, such as Spanish "no", which also means "not".

    Such a word counts only as a clause of its own.
    """
    longest = 2 if Language.of(language).tokens == "character" else 4
    return len(word.strip(" ,、.")) <= longest


@lru_cache(maxsize=4096)
def _verdict(forms: Forms, language: str) -> bool | None:
    """Return ``True`` if a spelling of the short answer is a word for yes, ``False`` if for no.

    The result is ``None`` for any other answer.
    """
    words = lexicon(language)
    spellings = {form.casefold().strip(" ,、.") for form in forms}
    if spellings.intersection(words.yes):
        return True
    return False if spellings.intersection(words.no) else None
