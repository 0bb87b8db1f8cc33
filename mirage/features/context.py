"""The quality of the retrieval, measured on the passages in the prompt of a response.

These are the context precision and recall of RAGAS (Es et al. 2023, arXiv 2309.15217), but with the
relevance judgments of the dataset instead of an LLM's verdicts. They ignore the order of passages,
because the generator may change the order for its prompt. :func:`mirage.retrieval.evaluate`
measures the ranking itself on a retrieval run.
"""

from __future__ import annotations

from mirage.features.base import Answered, Definition, Facts, NotComputed

_NONE_SHOWN = NotComputed("no passage was shown")


def context_precision(item: Answered) -> float | NotComputed:
    """Return the share of the passages in the prompt that are relevant, from 0 to 1.

    Not computed if no passage was in the prompt, as in closed-book answering, or if no passage is
    known to be relevant.
    """
    if item.relevance_gap is not None:
        return item.relevance_gap
    if not item.shown:
        return _NONE_SHOWN
    return sum(bool(item.relevant_in(passage)) for passage in item.shown) / len(item.shown)


def context_recall(item: Answered) -> float | NotComputed:
    """Return the share of the relevant passages that were in the prompt, from 0 to 1.

    It is 0 if the prompt had no passage. Not computed if no passage is known to be relevant.
    """
    if item.relevance_gap is not None:
        return item.relevance_gap
    shown_relevant = frozenset[str]().union(*map(item.relevant_in, item.shown))
    return len(shown_relevant) / len(set(item.query.relevant))


_FACTS = Facts("higher", 0, 1, ("passages", "relevant passages"))

DEFINITIONS = (
    Definition("context_precision", context_precision, _FACTS),
    Definition("context_recall", context_recall, _FACTS),
)
