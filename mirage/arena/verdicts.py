"""Judgments on pairs from the votes of judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirage.arena.pairs import Skipped
from mirage.models import SETTLED, Judgment, Verdict, Vote


@dataclass(frozen=True, repr=False)
class Judged:
    """Votes of judges, and the judgments that combine them.

    Iterating over it yields the judgments, so ``BradleyTerry`` accepts it directly.

    Attributes:
        votes: Vote of each judge on each pair, one for each order in which the judge saw it.
        judgments: Judgments that follow from the votes.
        skipped: Pairs that cannot be judged on a query, each with the reason.
    """

    votes: tuple[Vote, ...]
    judgments: tuple[Judgment, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def invalid(self) -> tuple[Vote, ...]:
        """Votes for which the judge's output had no verdict; ``error`` quotes the output."""
        return tuple(vote for vote in self.votes if vote.verdict == "invalid")

    @property
    def failed(self) -> tuple[Vote, ...]:
        """Votes for which the call of the judge failed; ``error`` contains the reason."""
        return tuple(vote for vote in self.votes if vote.verdict == "failed")

    def __iter__(self) -> Iterator[Judgment]:
        return iter(self.judgments)

    def __len__(self) -> int:
        return len(self.judgments)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={count}" for name, count in self.describe().items())
        return f"Judged({counts})"

    def describe(self) -> dict[str, int]:
        """Return the numbers of judgments, ties, votes, failures and skipped pairs, by name."""
        return {
            "judgments": len(self.judgments),
            "ties": sum(judgment.verdict == "tie" for judgment in self.judgments),
            "votes": len(self.votes),
            "invalid": len(self.invalid),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
        }


def judgments_of(votes: Iterable[Vote]) -> tuple[Judgment, ...]:
    """Combine votes into judgments, in the same way as :class:`PairwiseJudge`.

    A judge that saw two responses in both orders has one verdict on them. It is a tie if the two
    votes do not agree. There is no verdict if one of the votes is invalid or failed. The verdicts
    of several judges become one judgment, by majority; without a majority it is a tie. Votes of
    the judge ``settled`` are final decisions on conflicts between raters: if it voted on a pair,
    its verdict replaces the majority.

    Args:
        votes: Votes of one or several judges, at most one per judge on two responses in each order.

    Returns:
        The judgments, in the order of the first vote on each pair. The model that this vote shows
        first is ``model_a``. With several judges, the field ``judge`` is ``majority of``, followed
        by their names.

    Example:
        >>> from mirage.arena.verdicts import judgments_of
        >>> from mirage.models import Vote
        >>> votes = [
        ...     Vote(query_id="q1", model_a="x", model_b="y", judge=judge, verdict=verdict)
        ...     for judge, verdict in (("j1", "a"), ("j2", "a"), ("j3", "b"))
        ... ]
        >>> judgments_of(votes)[0].verdict
        'a'
    """
    by_pair: dict[tuple[str, frozenset[str]], dict[str, list[Vote]]] = {}
    judges: dict[str, None] = {}  # an ordered set
    for vote in votes:
        pair = by_pair.setdefault((vote.query_id, frozenset((vote.model_a, vote.model_b))), {})
        pair.setdefault(vote.judge, []).append(vote)
        judges[vote.judge] = None
    majority_name = f"majority of {', '.join(judges)}"
    judgments = []
    for (query_id, _), by_judge in by_pair.items():
        first = next(iter(by_judge.values()))[0]
        verdicts = {
            judge: verdict
            for judge, judge_votes in by_judge.items()
            if (verdict := _verdict(judge_votes, first.model_a)) is not None
        }
        if len(judges) > 1 and verdicts:
            final = verdicts.get(SETTLED) or _majority(verdicts.values())
            verdicts = {majority_name: final}
        names = {"query_id": query_id, "model_a": first.model_a, "model_b": first.model_b}
        judgments += [
            Judgment(**names, verdict=v, judge=name, half=first.half)
            for name, v in verdicts.items()
        ]
    return tuple(judgments)


# Verdict on the pair for each vote; invalid and failed votes have none.
_AS_SHOWN: dict[str, Verdict] = {"a": "a", "b": "b", "tie": "tie"}
_SWAPPED: dict[str, Verdict] = {"a": "b", "b": "a", "tie": "tie"}


def _verdict(votes: Iterable[Vote], model_a: str) -> Verdict | None:
    """Return one judge's verdict on a pair from the judge's votes on it.

    The verdict is ``None`` if one of the votes is invalid or failed.
    """
    verdicts = {
        (_AS_SHOWN if vote.model_a == model_a else _SWAPPED).get(vote.verdict) for vote in votes
    }
    if None in verdicts:
        return None
    return verdicts.pop() if len(verdicts) == 1 else "tie"


def _majority(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict of more than half of the judges, or else a tie."""
    counts = Counter(verdicts)
    verdict, count = counts.most_common(1)[0]
    return verdict if 2 * count > counts.total() else "tie"
