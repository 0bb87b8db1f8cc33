"""The correctness measures of a comparison, and the number of queries that each covers.

A measure covers a query if it has a value for the answers of both runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage.features import FeatureTable
from mirage.features.base import Need
from mirage.features.registry import DEFINITIONS, canonical_name, facts

COVERED = 0.5
"""Share of the changed answers that correctness measures must cover for the verdict "no worse"."""

_KINDS: tuple[tuple[str, frozenset[Need]], ...] = (
    ("short answers", frozenset({"answers"})),
    ("references", frozenset({"reference", "answers or reference"})),
    ("relevant passages", frozenset({"relevant passages", "reference or relevant passages"})),
    ("questions without an answer", frozenset({"unanswerable queries"})),
)
_USER_FEATURES = "features of your own"


class Evidence(NamedTuple):
    """The correctness measures that a comparison could compute.

    Attributes:
        kinds: Number of queries that each kind of measure covers, by the name of the kind, such as
            ``"short answers"``.
        covered: Number of changed answers that at least one measure covers.
        changed: Number of answers that differ from the baseline's; all answers if this is not
            known. Queries that the model failed on in either run are not counted.
        queries: Number of queries.
    """

    kinds: dict[str, int]
    covered: int
    changed: int
    queries: int

    @property
    def is_enough(self) -> bool:
        """Whether measures cover enough of the changed answers, at least :data:`COVERED`."""
        return not self.changed or self.covered >= max(COVERED * self.changed, 1)

    def __str__(self) -> str:
        if not self.kinds:
            return "Evidence: nothing measures correctness"
        counts = [f"{kind} on {number}" for kind, number in self.kinds.items()]
        counts[0] += f" of {self.queries} queries"
        line = f"Evidence: {', '.join(counts)}"
        if self.kinds.keys() & {"short answers", "references", _USER_FEATURES}:
            return line
        return f"{line}; add references to detect answers that deny a fact in the same words"

    @property
    def lack(self) -> str:
        """The evidence that is missing, and advice on how to add it to the queries."""
        if self.covered:
            problem = f"correctness was measured on only {self.covered} of {self.changed} answers"
        else:
            problem = "no feature that measures correctness could be computed"
        return f"{problem}; give the queries short answers, references or relevant passages (qrels)"


def evidence_of(
    before: FeatureTable,
    after: FeatureTable,
    lower: Collection[str],
    margin: float,
    identical: NDArray[np.bool_] | None,
    failed: Collection[str],
) -> Evidence:
    """Count the answers that the correctness measures of a comparison cover.

    A feature is a correctness measure if it needs short answers, a reference, relevant passages or
    unanswerable queries, or if a user defined it. A measure counts only if its range is known and
    it can drop by more than the margin: a feature that is at its worst value in both runs cannot
    show a loss.

    Args:
        before: Features of the earlier run.
        after: Features of the later run, with the same queries and features in the same order.
        lower: Features for which smaller is better.
        margin: The loss that "no worse" rules out, as a share of a feature's range.
        identical: Whether each query has the same answer as in the baseline; ``None`` if not known.
        failed: Ids of the queries that the model failed on in either run.
    """
    covers: dict[str, NDArray[np.bool_]] = {}
    for kind, values in _measures(before, after, lower, margin):
        covers[kind] = covers.get(kind, np.zeros(len(before), dtype=bool)) | values
    changed = np.array([id_ not in failed for id_ in before.query_ids])
    if identical is not None:
        changed &= ~identical
    covered = np.logical_or.reduce([*covers.values(), np.zeros(len(before), dtype=bool)])
    order = [kind for kind, _ in _KINDS] + [_USER_FEATURES]
    return Evidence(
        {kind: int(covers[kind].sum()) for kind in order if kind in covers},
        int((covered & changed).sum()),
        int(changed.sum()),
        len(before),
    )


def _measures(
    before: FeatureTable, after: FeatureTable, lower: Collection[str], margin: float
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield the kind of each correctness measure, and a mask of the queries that it covers."""
    table_facts = {**after.facts, **before.facts}
    for j, name in enumerate(before.features):
        feature_facts = facts(name, table_facts)
        width = feature_facts.high - feature_facts.low
        kind = _kind(name, frozenset(feature_facts.needs))
        both = ~np.isnan(before.values[:, j]) & ~np.isnan(after.values[:, j])
        if not kind or not np.isfinite(width) or not both.any():
            continue
        values = np.stack([table.values[both, j] for table in (before, after)])
        # A feature that is at its worst value in both runs would never show a loss.
        if _room(values, feature_facts.low, feature_facts.high, lower=name in lower) > margin:
            yield kind, both


def _kind(name: str, needs: frozenset[Need]) -> str:
    for kind, kind_needs in _KINDS:
        if needs & kind_needs:
            return kind
    stem = canonical_name(name).partition("@")[0]
    return "" if stem in DEFINITIONS else _USER_FEATURES


def _room(values: Floats, low: float, high: float, *, lower: bool) -> float:
    """Return how far the mean of the better run is from the worst value, as a share of the range.

    ``values`` contains one row per run. ``low`` and ``high`` are the ends of the feature's range.
    ``lower`` is true if smaller values are better.
    """
    means = values.mean(axis=1)
    room = high - means if lower else means - low
    return float(room.max() / (high - low))
