"""Determine which of several candidate answers a text gives as its answer.

A text may mention a candidate answer without asserting it. "Contrary to popular belief, the Nile is
not the longest river" denies the candidate Nile. "Many say 1969" only reports a candidate, and
"Nile, Congo, Niger" lists candidates without a choice. The way in which a text presents a mentioned
candidate is called the stance of the mention.

Numeric features describe the words around each mention: negations, attributions, corrections,
comparisons, other candidates, and repeated words of the question. From these features, boosted
trees predict the stance of the mention. A second set of trees uses the stances of all mentions to
decide which candidate the text commits to, that is, gives as its answer. The trees use no words and
are the same for all languages; ``corpora/claims.py`` trains them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import cache, lru_cache
from typing import NamedTuple

from mirage.languages import Language
from mirage.text._candidates import Forms, locate, select_occurrences
from mirage.text._claim_signs import MENTION_SIGNS, Mentioned, mention_signs
from mirage.text._trees import Forest, forest, packaged_json
from mirage.text._unicode import nfc

__all__ = [
    "COMMITS_AT",
    "COMMIT_SIGNS",
    "Claims",
    "Forms",
    "Mention",
    "Stance",
    "commit_signs",
    "read_claims",
]

COMMITS_AT = 0.5
"""Minimum probability at which a text commits to a candidate."""

CLEARLY = 0.2
"""Minimum lead in probability that a candidate needs over every rival."""

LONGEST = 4000
"""Maximum number of characters of a text that are read."""

COMMIT_SIGNS = (
    *("most_asserted", "first_asserted", "last_asserted", "doubted", "mentions"),
    *("denied", "contrasted", "attributed", "listed", "other", "last_denied", "last_attributed"),
    *("rivals", "rival_asserted", "rival_last_asserted", "rival_listed", "rival_denied"),
    *("rival_contrasted", "rival_attributed", "asserted_rivals", "lead"),
    *("is_first", "is_last", "after_rival", "best_after_rival"),
)
"""Names of the features (signs) of the second set of trees, in their order."""


class Stance(StrEnum):
    """How a text presents a candidate answer that it mentions.

    Attributes:
        ASSERTED: The text gives the candidate as the answer.
        DENIED: The text states that the candidate is wrong.
        CONTRASTED: The text rejects the candidate in favour of another one, as with Congo in "not
            the Congo but the Nile".
        ATTRIBUTED: The text reports what others believe or what held before ("many say 1969").
        LISTED: The text lists the candidate among others, without a choice.
        OTHER: The text mentions the candidate in another role, such as in passing or in a
            hypothetical case.
    """

    ASSERTED = "asserted"
    DENIED = "denied"
    CONTRASTED = "contrasted"
    ATTRIBUTED = "attributed"
    LISTED = "listed"
    OTHER = "other"


STANCES = tuple(Stance)


class Mention(NamedTuple):
    """One mention of a candidate answer in a text.

    Attributes:
        candidate: Index of the candidate.
        start: Offset of the first character in the text.
        end: Offset after the last character.
        stance: Most probable stance.
        probabilities: Probability of each stance, in the order of :class:`Stance`.
    """

    candidate: int
    start: int
    end: int
    stance: Stance
    probabilities: tuple[float, ...]


class Claims(NamedTuple):
    """The claims of a text about candidate answers.

    Attributes:
        text: Text in NFC, cut to 4,000 characters; offsets of mentions refer to it.
        mentions: All mentions of candidates, in the order of the text.
        certainty: For each candidate, the probability that the text gives it as the answer; 0 if it
            is not mentioned.
        committed: Indices of the candidates that the text gives as the answer. If there are
            several, all of them belong to one group of candidates that can be true together.
    """

    text: str
    mentions: tuple[Mention, ...]
    certainty: tuple[float, ...]
    committed: frozenset[int]

    def with_mentions(self, mentions: Sequence[Mention], groups: Sequence[int]) -> Claims:
        """Return the claims of the same text with other stances of its mentions.

        Args:
            mentions: The mentions of this record, with other stances and probabilities.
            groups: Group number of each candidate, as in :func:`read_claims`.
        """
        present = frozenset(index for index, value in enumerate(self.certainty) if value)
        certainty = _certainty(mentions, groups, present)
        return Claims(self.text, tuple(mentions), certainty, _select_committed(certainty, groups))


def read_claims(
    text: str,
    candidates: Sequence[Forms],
    language: str | Language,
    *,
    question: str = "",
    groups: Sequence[int] | None = None,
) -> Claims:
    """Determine which candidate answers a text asserts.

    If a text asserts several candidates that cannot be true together, none of them counts as its
    answer.

    Args:
        text: Answer without its citations. Its first 4,000 characters are read.
        candidates: Candidate answers, each as a tuple of its spellings.
        language: Language of the text and the candidates. English cue words, such as "not", are
            recognised in every language.
        question: Question. It helps to recognise sentences that repeat its words.
        groups: Group number of each candidate. Candidates of one group can be true together. By
            default each candidate is its own group.

    Returns:
        The mentions of the candidates, and the candidates that the text gives as the answer.

    Raises:
        UnknownNameError: If there is no such language, or it has no bundled leaderboard.

    Example:
        >>> claims = read_claims("Not the Congo but the Nile.", [("Nile",), ("Congo",)], "en")
        >>> [(m.candidate, str(m.stance)) for m in claims.mentions], sorted(claims.committed)
        ([(1, 'contrasted'), (0, 'asserted')], [0])
    """
    code = Language.with_board(language).code
    groups = tuple(groups) if groups is not None else tuple(range(len(candidates)))
    return _read(nfc(text)[:LONGEST], tuple(map(tuple, candidates)), groups, code, question)


@lru_cache(maxsize=4096)
def _read(
    text: str, candidates: tuple[Forms, ...], groups: tuple[int, ...], code: str, question: str
) -> Claims:
    spans = located(text, candidates, code)
    if not spans:
        return Claims(text, (), (0.0,) * len(candidates), frozenset())
    mentions_with_groups = [Mentioned(start, end, groups[index]) for start, end, index in spans]
    signs = mention_signs(text, mentions_with_groups, code, question)
    mentions = tuple(
        _mention(index, start, end, _stance_probabilities(row))
        for (start, end, index), row in zip(spans, signs, strict=True)
    )
    present = _find_present(text, candidates, groups, mentions, code)
    certainty = _certainty(mentions, groups, present)
    return Claims(text, mentions, certainty, _select_committed(certainty, groups))


def located(text: str, candidates: Sequence[Forms], code: str) -> list[tuple[int, int, int]]:
    """Return the start, end and candidate index of each mention of a candidate.

    The mentions are in the order of the text and do not overlap.

    Args:
        text: Text in NFC.
        candidates: The candidates, each as a tuple of its spellings.
        code: ISO 639-1 code of the language of the text.
    """
    occurrences = [
        occurrence._replace(candidate=index)
        for index, forms in enumerate(candidates)
        for occurrence in locate(forms, text, code)
    ]
    return [
        (occurrence.start, occurrence.end, occurrence.candidate)
        for occurrence in select_occurrences(occurrences)
    ]


def _mention(candidate: int, start: int, end: int, probabilities: tuple[float, ...]) -> Mention:
    stance = STANCES[max(range(len(STANCES)), key=probabilities.__getitem__)]
    return Mention(candidate, start, end, stance, probabilities)


def _stance_probabilities(signs: Sequence[float]) -> tuple[float, ...]:
    margins = [forest.margin(signs) for forest in _models()[0]]
    highest = max(margins)  # subtracted below, because exp of a large margin overflows
    weights = [math.exp(margin - highest) for margin in margins]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def _find_present(
    text: str,
    candidates: Sequence[Forms],
    groups: Sequence[int],
    mentions: Sequence[Mention],
    code: str,
) -> frozenset[int]:
    """Return the indices of the candidates that a text mentions.

    If candidates overlap in the text, only one of them is in ``mentions``. Another one also counts
    as mentioned if it belongs to the same group, because candidates of one group can be true
    together.
    """
    present = {mention.candidate for mention in mentions}
    spans = {(m.start, m.end, groups[m.candidate]) for m in mentions}
    for index, forms in enumerate(candidates):
        if index not in present and groups.count(groups[index]) > 1:
            overlaps = (
                occurrence.start < end and start < occurrence.end and group == groups[index]
                for occurrence in locate(forms, text, code)
                for start, end, group in spans
            )
            if any(overlaps):
                present.add(index)
    return frozenset(present)


def _certainty(
    mentions: Sequence[Mention], groups: Sequence[int], present: frozenset[int]
) -> tuple[float, ...]:
    """Return for each candidate the probability that the text gives it as the answer.

    A mentioned candidate has the probability of its group of compatible candidates; any other has
    0.
    """
    numbers = sorted({groups[mention.candidate] for mention in mentions})
    group_probability = {
        number: _sigmoid(_models()[1].margin(signs))
        for number, signs in zip(numbers, commit_signs(mentions, groups), strict=True)
    }
    return tuple(
        group_probability[group] if index in present else 0.0 for index, group in enumerate(groups)
    )


def _select_committed(certainty: Sequence[float], groups: Sequence[int]) -> frozenset[int]:
    """Return the indices of the candidates that the text gives as its answer.

    They are the mentioned candidates of the most probable group of compatible candidates. The set
    is empty if the probability of this group is low, or close to that of another group.
    """
    by_group: dict[int, float] = {}
    for group, value in zip(groups, certainty, strict=True):
        by_group[group] = max(value, by_group.get(group, 0.0))
    # Zeros are added, so that there are always a first and a second group.
    first, second, *_ = *sorted(by_group.values(), reverse=True), 0.0, 0.0
    if first < COMMITS_AT or first - second < CLEARLY:
        return frozenset()
    return frozenset(index for index, value in enumerate(certainty) if value == first)


def _sigmoid(margin: float) -> float:
    return 1 / (1 + math.exp(-margin))


def commit_signs(mentions: Sequence[Mention], groups: Sequence[int]) -> list[tuple[float, ...]]:
    """Return one feature vector for each group of candidate answers that a text mentions.

    From such a vector, a model of boosted trees predicts whether the text gives a candidate of the
    group as its answer. The vectors are sorted by group number, and their features are in the order
    of :data:`COMMIT_SIGNS`.

    Args:
        mentions: The mentions of candidates in the text.
        groups: The group number of each candidate. Candidates of one group can be true together.
    """
    numbers = sorted({groups[mention.candidate] for mention in mentions})
    return [_commit_signs(mentions, groups, number) for number in numbers]


def _commit_signs(
    mentions: Sequence[Mention], groups: Sequence[int], group: int
) -> tuple[float, ...]:
    group_mentions = [m for m in mentions if groups[m.candidate] == group]
    rivals = [m for m in mentions if groups[m.candidate] != group]
    asserted = [m.probabilities[0] for m in group_mentions]
    # The stances are in the order of Stance: 0 is the probability of an assertion.
    best = max(group_mentions, key=lambda m: m.probabilities[0])
    best_rival = max(rivals, key=lambda m: m.probabilities[0], default=None)
    rival_asserted = best_rival.probabilities[0] if best_rival else 0.0
    by_rival: dict[int, float] = {}
    for m in rivals:
        number = groups[m.candidate]
        by_rival[number] = max(by_rival.get(number, 0.0), m.probabilities[0])
    # In the order of COMMIT_SIGNS.
    return (
        max(asserted),
        asserted[0],
        asserted[-1],
        min(asserted),
        float(min(len(group_mentions), 4)),
        *(max(m.probabilities[i] for m in group_mentions) for i in range(1, len(STANCES))),
        group_mentions[-1].probabilities[1],
        group_mentions[-1].probabilities[3],
        float(len(by_rival)),
        rival_asserted,
        rivals[-1].probabilities[0] if rivals else 0.0,
        *(max((m.probabilities[i] for m in rivals), default=0.0) for i in (4, 1, 2, 3)),
        sum(value for value in by_rival.values()),
        max(asserted) - rival_asserted,
        float(mentions[0] in group_mentions),
        float(mentions[-1] in group_mentions),
        float(bool(rivals) and group_mentions[-1].start > rivals[-1].start),
        float(best_rival is not None and best.start > best_rival.start),
    )


@cache
def _models() -> tuple[tuple[Forest, ...], Forest]:
    model = packaged_json("claim_trees.json")
    stances = tuple(
        forest(model["stances"][stance], model["stance_signs"], MENTION_SIGNS) for stance in STANCES
    )
    return stances, forest(model["commits"], model["commit_signs"], COMMIT_SIGNS)
