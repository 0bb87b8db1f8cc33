"""What makes a ranking by judgments say little, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirage.arena.bradley_terry import BradleyTerryFit
from mirage.arena.judgments import Judgments
from mirage.arena.pairs import Skipped
from mirage.models import Vote
from mirage.statistics.clusters import FEWEST

__all__ = ["FEW_QUERIES", "cautions"]

FEW_QUERIES = 20
"""Judged queries below which a ranking says that they are few."""


def cautions(
    fit: BradleyTerryFit,
    judgments: Judgments,
    votes: Sequence[Vote] = (),
    skipped: Sequence[Skipped] = (),
) -> tuple[str, ...]:
    """A sentence for each reason why these judgments say little.

    Args:
        fit: to the judgments.
        judgments: all of them, ties included.
        votes: from which they follow, where that is known.
        skipped: pairs that were not judged.
    """
    return (*_of_judgments(fit, judgments), *_of_votes(votes, skipped))


def _of_judgments(fit: BradleyTerryFit, judgments: Judgments) -> Iterator[str]:
    if (judgments.score == 0.5).all():
        yield "Every judgment is a tie: nothing says which model is better."
    if judgments.halves is not None:
        yield (
            "Pairs were chosen for what verdicts had said, most of them of models near each other: "
            "how far models apart are from each other rests on the Bradley-Terry model."
        )
    yield from _separation(fit, judgments)
    together = len(set(fit.clusters))
    if fit.queries == 1:
        yield "All judgments are on one query: nothing says how sure the order is."
    elif not fit.degrees:
        yield (
            f"{fit.queries} queries in {together} clusters: nothing says how sure the order is; it "
            f"takes {FEWEST} clusters or more."
        )
    elif together < FEW_QUERIES:
        clusters = f" in {together} clusters" if together < fit.queries else ""
        yield (
            f"{fit.queries} queries{clusters} are few: intervals are wide, and hold only if these "
            "queries are like those that matter."
        )


def _separation(fit: BradleyTerryFit, judgments: Judgments) -> Iterator[str]:
    wins, _ = judgments.results()
    for model in fit.separated:
        did = "won" if wins[fit.models.index(model)].any() else "lost"
        yield (
            f"{model} {did} every judgment: how far it is from the others is not known, and its "
            "logit has no interval."
        )
    others = [model for model in fit.unbound if model not in fit.separated]
    if others:
        yield (
            f"{', '.join(others)}: judgments against some of the others went all one way, so the "
            "distance is not known, and the logit has no interval."
        )


def _of_votes(votes: Sequence[Vote], skipped: Sequence[Skipped]) -> Iterator[str]:
    for kind, words in (("invalid", "name no verdict"), ("failed", "failed")):
        lost = sum(vote.verdict == kind for vote in votes)
        if lost:
            yield f"{lost} of {len(votes)} votes {words} and do not count."
    if skipped:
        yield f"{len(skipped)} pairs were not judged; the first: {skipped[0]}."
    shown = {(vote.query_id, vote.model_a, vote.model_b, vote.judge) for vote in votes}
    if shown and not any((query, b, a, judge) in shown for query, a, b, judge in shown):
        yield (
            "Each pair was shown in one order only: a judge that favours the first response, or "
            "the second, adds chance to the verdicts; both_orders=True asks twice."
        )
