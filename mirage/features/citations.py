"""How well a response's citations cover the relevant passages.

MIRAGE-Bench (arXiv 2410.13716), section 4.1 and appendix A, "Citation quality": the cited passages,
in the order of their first citation, form a ranking, and the query's relevant passages are its
qrels. A passage that the system retrieved itself counts as the relevant passages that it contains
or equals (:mod:`mirage.passages`).
"""

from __future__ import annotations

from mirage.features.base import Answered, Definition, Facts, NotComputed


def citation_recall(item: Answered, k: int) -> float | NotComputed:
    """Return the share of relevant passages that are among the first ``k`` cited ones (``R@k``).

    Not computed if it is unknown which passages are relevant.
    """
    hits = _hits(item, k)
    return hits if isinstance(hits, NotComputed) else sum(hits) / len(set(item.query.relevant))


def citation_map(item: Answered, k: int) -> float | NotComputed:
    """Return the average precision of the first ``k`` cited passages, TREC's ``AP@k``.

    It is the sum of the precisions at each relevant cited passage, divided by the number of all
    relevant passages. Its mean over queries is MAP. Not computed if it is unknown which passages
    are relevant.
    """
    hits = _hits(item, k)
    if isinstance(hits, NotComputed):
        return hits
    positions = [position for position, hit in enumerate(hits, 1) if hit]
    total = sum(count / position for count, position in enumerate(positions, 1))
    return total / len(set(item.query.relevant))


def _hits(item: Answered, k: int) -> list[bool] | NotComputed:
    """Return for each of the first ``k`` cited passages whether it is relevant.

    If a cited passage contains several relevant passages, it counts as one hit for each of them. If
    it only contains relevant passages that an earlier citation already covered, it is left out.
    """
    if item.relevance_gap is not None:
        return item.relevance_gap
    hits, cited_relevant = list[bool](), set[str]()
    for passage in item.parsed.citations[:k]:
        relevant = item.relevant_in(passage)
        hits += [True] * len(relevant - cited_relevant) if relevant else [False]
        cited_relevant |= relevant
    return hits


_FACTS = Facts("higher", 0, 1, ("passages", "relevant passages"))

DEFINITIONS = (
    Definition("citation_recall", citation_recall, _FACTS, cutoff=True),
    Definition("citation_map", citation_map, _FACTS, cutoff=True),
)
