"""Warnings about weak evidence in a ranking by judgments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mirage._base.arrays import Ints
from mirage.arena.fits import BradleyTerryFit
from mirage.arena.judgments import Judgments
from mirage.arena.pairs import Skipped
from mirage.models import SETTLED, Vote
from mirage.statistics.clusters import FEWEST

FEW_QUERIES = 20
"""Number of judged clusters of queries below which a ranking warns that there are few queries."""

MOSTLY_JUDGED = 0.9
"""Share of the largest number of judged queries below which a model causes a warning."""

_ONE_POSITION = 0.9  # share of verdicts for one position from which a judge causes a warning
_LIKELY = 0.01  # p-value up to which that is not due to chance
_LISTED = 5  # models in the warning about different numbers of queries


def cautions(
    fit: BradleyTerryFit,
    judgments: Judgments,
    votes: Sequence[Vote] = (),
    skipped: Sequence[Skipped] = (),
) -> tuple[str, ...]:
    """Return warnings about judgments that are weak evidence for a ranking.

    Args:
        fit: The fit to the judgments.
        judgments: The judgments.
        votes: The votes of judges from which the judgments were computed, if they are known.
        skipped: The pairs that were not judged.

    Returns:
        One sentence per warning; empty if there is none.
    """
    return (*_judgment_cautions(fit, judgments), *_vote_cautions(votes, skipped))


def nothing_decided(judgments: Judgments) -> bool:
    """Return whether, on each query, the judgments on each two models are ties or cancel out."""
    models = len(judgments.models)
    low, high = np.minimum(judgments.a, judgments.b), np.maximum(judgments.a, judgments.b)
    cell = (judgments.query.astype(np.intp) * models + low) * models + high
    wins_of_low = np.where(judgments.a == low, judgments.score, 1 - judgments.score) - 0.5
    _, code = np.unique(cell, return_inverse=True)
    return not np.bincount(code, wins_of_low).any()


def position_cautions(votes: Iterable[Vote]) -> Iterator[str]:
    """Yield a warning for each judge that prefers one position in nearly all of its verdicts.

    Two responses that a judge saw in both orders count once: for a position if this position won
    both times, and for neither if the same response won both times.
    """
    by_judge: dict[str, dict[tuple[str, frozenset[str]], list[str]]] = {}
    for vote in votes:
        if vote.verdict in ("a", "b"):
            pairs = by_judge.setdefault(vote.judge, {})
            pair = vote.query_id, frozenset((vote.model_a, vote.model_b))
            pairs.setdefault(pair, []).append(vote.verdict)
    for judge, pairs in by_judge.items():
        first, second = (
            sum(set(verdicts) == {verdict} for verdicts in pairs.values()) for verdict in "ab"
        )
        count, position = max((first, "first"), (second, "second"))
        if count < _ONE_POSITION * len(pairs):
            continue
        p = _binomial_p(count, first + second)
        if p <= _LIKELY:
            yield (
                f"{judge} preferred the response shown {position} in {count} of {len(pairs)} pairs "
                f"(p {_p_text(p)} if the order is random), so its verdicts show little about the "
                "models."
            )


def _binomial_p(count: int, total: int) -> float:
    """Return the two-sided p-value of ``count`` in ``total`` for two equally likely outcomes."""
    from scipy.stats import binomtest

    return float(binomtest(count, total).pvalue)


def _p_text(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"= {p:.4f}"


def _judgment_cautions(fit: BradleyTerryFit, judgments: Judgments) -> Iterator[str]:
    if (judgments.score == 0.5).all():
        yield "Every judgment is a tie, so nothing shows which model is better."
    elif nothing_decided(judgments):
        yield (
            "On each query, each model won against each other model as often as it lost, as if a "
            "judge chose by position, so nothing shows which model is better."
        )
    if judgments.halves is not None:
        yield (
            "Pairs were chosen adaptively, most of them of models with similar logits: distances "
            "between dissimilar models depend on the Bradley-Terry model."
        )
    yield from _separation_cautions(fit, judgments)
    yield from _few_query_cautions(fit, judgments)
    yield from _unequal_count_cautions(judgments)
    cluster_count = len(set(fit.clusters))
    if fit.queries == 1:
        yield "All judgments are on one query, so the uncertainty of the order is not known."
    elif not fit.degrees:
        yield (
            f"{fit.queries} queries in {cluster_count} clusters: the uncertainty of the order is "
            f"not known; at least {FEWEST} clusters are needed."
        )
    elif cluster_count < FEW_QUERIES:
        clusters = f" in {cluster_count} clusters" if cluster_count < fit.queries else ""
        yield (
            f"{fit.queries} queries{clusters} are few: intervals are wide, and valid only if these "
            "queries are like those that matter."
        )


def _separation_cautions(fit: BradleyTerryFit, judgments: Judgments) -> Iterator[str]:
    wins, _ = judgments.results()
    for model in fit.separated:
        verb = "won" if wins[fit.models.index(model)].any() else "lost"
        yield (
            f"{model} {verb} every judgment: its distance from the others is not known, and its "
            "logit has no interval."
        )
    unbound = [model for model in fit.unbound if model not in fit.separated]
    if unbound:
        yield (
            f"{', '.join(unbound)}: all judgments against some of the others went the same way, so "
            "the distance is not known, and the logit has no interval."
        )


def _few_query_cautions(fit: BradleyTerryFit, judgments: Judgments) -> Iterator[str]:
    """Yield warnings about logits that have no interval because they depend on few queries."""
    counts = dict(zip(judgments.models, _query_counts(judgments).tolist(), strict=True))
    bound = zip(fit.models, fit.degrees_by_model.tolist(), strict=True)
    unknown = [model for model, degrees in bound if not degrees and model not in fit.unbound]
    if not fit.degrees or not unknown:
        return
    for model in unknown:
        if counts[model] < FEWEST:
            yield (
                f"{model} was judged on {_queries(counts[model])}, which is too few: its logit has "
                f"no interval. At least {FEWEST} are needed."
            )
    linked = [model for model in unknown if counts[model] >= FEWEST]
    if linked:
        yield (
            f"{', '.join(linked)}: the distance from the other models depends on too few queries, "
            "so the logit has no interval."
        )


def _unequal_count_cautions(judgments: Judgments) -> Iterator[str]:
    """Yield a warning if some models were judged on fewer queries than others."""
    # The choice of adaptive pairs depends on the verdicts, so numbers differ by design.
    if judgments.halves is not None:
        return
    counts = dict(zip(judgments.models, _query_counts(judgments).tolist(), strict=True))
    most = max(counts.values())
    fewer = [model for model in counts if counts[model] < MOSTLY_JUDGED * most]
    if fewer:
        fewer.sort(key=lambda model: counts[model])
        texts = [f"{model} on {counts[model]}" for model in fewer[:_LISTED]]
        more = f" and {len(fewer) - _LISTED} more models" if len(fewer) > _LISTED else ""
        yield (
            f"Models were judged on different numbers of queries: {', '.join(texts)}{more}, the "
            f"others on up to {most}. A query without a judgment on a model counts neither as won "
            "nor as lost, so a model that failed on hard queries is ranked too high."
        )


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count} queries"


def _query_counts(judgments: Judgments) -> Ints:
    """Return the number of queries on which each model was judged."""
    models = len(judgments.models)
    query = judgments.query.astype(np.intp)
    rows = np.concatenate([query * models + judgments.a, query * models + judgments.b])
    return np.bincount(np.unique(rows) % models, minlength=models)


def _vote_cautions(votes: Sequence[Vote], skipped: Sequence[Skipped]) -> Iterator[str]:
    for kind, predicate in (("invalid", "have no verdict"), ("failed", "failed")):
        count = sum(vote.verdict == kind for vote in votes)
        if count:
            yield f"{count} of {len(votes)} votes {predicate} and do not count."
    yield from position_cautions(votes)
    judges = sorted({vote.judge for vote in votes} - {SETTLED})
    if len(judges) > 1:
        yield (
            f"Each judgment is the verdict of the majority of {len(judges)} judges, or else a tie: "
            f"{', '.join(judges)}."
        )
    if skipped:
        yield f"{len(skipped)} pairs were not judged; the first is {skipped[0]}."
    presentations = {(vote.query_id, vote.model_a, vote.model_b, vote.judge) for vote in votes}
    if presentations and not any(
        (query, b, a, judge) in presentations for query, a, b, judge in presentations
    ):
        yield (
            "Each pair was shown in one order only, so a judge that favours the first or the "
            "second response adds noise; judge each pair in both orders to cancel it."
        )
