"""How well a response's citations find the relevant passages.

MIRAGE-Bench (arXiv 2410.13716), section 4.1 and appendix A, "Citation quality": the cited
passages, in the order in which the response first cites them, are a ranking, and the query's
relevant passages are its qrels. A passage that the system brought itself counts as the relevant
passages that it is or holds (:mod:`mirage.passages`).
"""

from __future__ import annotations

from mirage.features.base import Answered, Definition, Facts, NotComputed

__all__ = ["citation_map", "citation_recall"]


def citation_recall(item: Answered, k: int) -> float | NotComputed:
    """Share of the relevant passages among the first ``k`` cited ones; TREC's ``R@k``."""
    hits = _hits(item, k)
    return hits if isinstance(hits, NotComputed) else sum(hits) / len(set(item.query.relevant))


def citation_map(item: Answered, k: int) -> float | NotComputed:
    """Average precision of the first ``k`` cited passages; TREC's ``AP@k``.

    The sum of the precisions at each relevant cited passage, over the number of all relevant
    passages; over queries its mean is MAP.
    """
    hits = _hits(item, k)
    if isinstance(hits, NotComputed):
        return hits
    positions = [position for position, hit in enumerate(hits, 1) if hit]
    total = sum(found / position for found, position in enumerate(positions, 1))
    return total / len(set(item.query.relevant))


def _hits(item: Answered, k: int) -> list[bool] | NotComputed:
    """Return a ranking from the first ``k`` citations: whether each passage is relevant.

    A passage that holds several relevant ones is a hit for each; another part of a relevant passage
    that was cited before is left out.
    """
    if item.relevance_gap is not None:
        return item.relevance_gap
    hits, found = list[bool](), set[str]()
    for passage in item.parsed.citations[:k]:
        relevant = item.relevant_in(passage)
        hits += [True] * len(relevant - found) if relevant else [False]
        found |= relevant
    return hits


_FACTS = Facts("higher", 0, 1, ("passages", "relevant passages"))

DEFINITIONS = (
    Definition("citation_recall", citation_recall, _FACTS, cutoff=True),
    Definition("citation_map", citation_map, _FACTS, cutoff=True),
)
