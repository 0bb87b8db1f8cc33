"""How good the passages are that a response was made from: what retrieval gave the generator.

The context precision and recall of RAGAS (Es et al. 2023, arXiv 2309.15217) by relevance judgments
in place of an LLM's: as sets, for the order in which passages are shown is the generator's affair.
How well passages are ranked is measured on the retrieval run (:func:`mirage.retrieval.evaluate`).
"""

from __future__ import annotations

from mirage.features.base import Answered, Definition, Facts, NotComputed

__all__ = ["context_precision", "context_recall"]

_NONE_SHOWN = NotComputed("no passage was shown")


def context_precision(item: Answered) -> float | NotComputed:
    """Share of the passages that the response was made from that are relevant, in [0, 1].

    Not computed where none was shown, as closed book, or where no passage is known to be relevant.
    """
    if item.relevance_gap is not None:
        return item.relevance_gap
    if not item.shown:
        return _NONE_SHOWN
    return sum(bool(item.relevant_in(passage)) for passage in item.shown) / len(item.shown)


def context_recall(item: Answered) -> float | NotComputed:
    """Share of the relevant passages that the response was made from, in [0, 1].

    0 where none was shown; not computed where no passage is known to be relevant.
    """
    if item.relevance_gap is not None:
        return item.relevance_gap
    found = frozenset[str]().union(*map(item.relevant_in, item.shown))
    return len(found) / len(set(item.query.relevant))


_FACTS = Facts("higher", 0, 1, ("passages", "relevant passages"))

DEFINITIONS = (
    Definition("context_precision", context_precision, _FACTS),
    Definition("context_recall", context_recall, _FACTS),
)
