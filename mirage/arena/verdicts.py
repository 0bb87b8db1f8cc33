"""From the votes of judges to verdicts on pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from mirage.arena.pairs import Skipped
from mirage.models import Judgment, Verdict, Vote

__all__ = ["Judged", "Votes", "judgments_of"]

Votes = Literal["majority", "all"]
"""What a jury brings on a pair: one judgment, or one of every judge."""


@dataclass(frozen=True, repr=False)
class Judged:
    """What judges said; iterates over the judgments, so that ``BradleyTerry`` takes it as it is.

    Attributes:
        votes: what each judge said about each pair, in each order in which it was shown it.
        judgments: what follows from the votes.
        skipped: pairs that were not judged on a query.
    """

    votes: tuple[Vote, ...]
    judgments: tuple[Judgment, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def invalid(self) -> tuple[Vote, ...]:
        """The votes in which a judge named no verdict, with what it wrote instead."""
        return tuple(vote for vote in self.votes if vote.verdict == "invalid")

    @property
    def failed(self) -> tuple[Vote, ...]:
        """The votes that a judge was asked for and did not cast, with the reasons."""
        return tuple(vote for vote in self.votes if vote.verdict == "failed")

    def __iter__(self) -> Iterator[Judgment]:
        return iter(self.judgments)

    def __len__(self) -> int:
        return len(self.judgments)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={count}" for name, count in self.describe().items())
        return f"Judged({counts})"

    def describe(self) -> dict[str, int]:
        """How many there are of each."""
        return {
            "judgments": len(self.judgments),
            "ties": sum(judgment.verdict == "tie" for judgment in self.judgments),
            "votes": len(self.votes),
            "invalid": len(self.invalid),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
        }


def judgments_of(votes: Iterable[Vote], how: Votes = "majority") -> tuple[Judgment, ...]:
    """The judgments that follow from votes, as :class:`PairwiseJudge` counts them.

    A judge that was asked about two responses in both orders has one verdict on them: a tie where
    its two votes differ, and none where one of them is invalid or failed.

    Args:
        votes: of one judge or several, at most one of each on two responses in each order. Pairs
            come in the order of their first votes, each with the model that was shown first there
            as ``model_a``.
        how: what several judges bring: see :class:`PairwiseJudge`.
    """
    by_pair: dict[tuple[str, frozenset[str]], dict[str, list[Vote]]] = {}
    judges: dict[str, None] = {}  # a set in order
    for vote in votes:
        pair = by_pair.setdefault((vote.query_id, frozenset((vote.model_a, vote.model_b))), {})
        pair.setdefault(vote.judge, []).append(vote)
        judges[vote.judge] = None
    everyone = f"majority of {', '.join(judges)}"
    judgments = []
    for (query_id, _), by_judge in by_pair.items():
        first = next(iter(by_judge.values()))[0]
        verdicts = {
            judge: verdict
            for judge, own in by_judge.items()
            if (verdict := _verdict(own, first.model_a)) is not None
        }
        if how == "majority" and len(judges) > 1 and verdicts:
            verdicts = {everyone: _majority(verdicts.values())}
        on = {"query_id": query_id, "model_a": first.model_a, "model_b": first.model_b}
        judgments += [
            Judgment(**on, verdict=v, judge=name, half=first.half) for name, v in verdicts.items()
        ]
    return tuple(judgments)


# What a vote means for the pair; invalid and failed ones mean nothing.
_AS_SHOWN: dict[str, Verdict] = {"a": "a", "b": "b", "tie": "tie"}
_SWAPPED: dict[str, Verdict] = {"a": "b", "b": "a", "tie": "tie"}


def _verdict(votes: Iterable[Vote], model_a: str) -> Verdict | None:
    """One judge's verdict on a pair, ``None`` where a vote for it is invalid or failed."""
    verdicts = {
        (_AS_SHOWN if vote.model_a == model_a else _SWAPPED).get(vote.verdict) for vote in votes
    }
    if None in verdicts:
        return None
    return verdicts.pop() if len(verdicts) == 1 else "tie"


def _majority(verdicts: Iterable[Verdict]) -> Verdict:
    counts = Counter(verdicts)
    verdict, count = counts.most_common(1)[0]
    return verdict if 2 * count > counts.total() else "tie"
