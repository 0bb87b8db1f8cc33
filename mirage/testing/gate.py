"""The gate: which features a run is compared with its baseline in, and what of them is wording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage.dataset import MirageDataset
from mirage.features import feature_names
from mirage.features.base import GIVEN, Need
from mirage.testing._evidence import COVERED

__all__ = [
    "GATED",
    "beyond_wording",
    "default_names",
    "gated",
    "mean_of_pairs",
    "more_than_wording",
]


class Gated(NamedTuple):
    """A feature that the gate compares.

    Attributes:
        name: the feature's.
        wording: a difference up to this on one query raises no alarm.
        manner: what all answers may lose alike, by the median query, without an alarm, as they do
            when they are written in another manner.
        stands_in: what it stands in for: it is compared only if fewer than half of the queries
            have any of these.
        may_lack: whether an answer that is good may have no value.
    """

    name: str
    wording: float = 0.0
    manner: float = 0.0
    stands_in: tuple[Need, ...] = ()
    may_lack: bool = False


GATED: Mapping[str, Gated] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            # The probability of a short answer's language is less than that of a long one's.
            Gated("target_language", wording=0.2, may_lack=True),
            # Of two passages that say the same, it will do to cite one.
            Gated("citation_recall@10", wording=0.5),
            Gated("citation_map@10"),
            # Quotations have more of it than paraphrases, terse answers more than long ones.
            # A heading or a signature in a few answers moves it by less than a tenth.
            Gated("support_lexical", wording=0.1, manner=0.5),
            Gated("answer_match"),
            Gated("wrong_answer"),
            Gated("fact_agreement", manner=0.2, stands_in=("answers",)),
            Gated("fact_precision", manner=0.2, stands_in=("answers",)),
            # True answers may share little with a reference; what they share seldom vanishes.
            Gated("reference_recall", manner=1.0, stands_in=("answers", "relevant passages")),
            Gated("unknown_facts", manner=0.2),
            Gated("abstention"),
            Gated("invention"),
        )
    }
)
"""What :func:`~mirage.testing.assert_no_regression` compares, in order.

Language, citations, support, facts, abstention; wording is compared on request alone. A feature
that a dataset cannot have is left out.
"""


def gated(dataset: MirageDataset) -> tuple[str, ...]:
    """The names of the features that the gate compares on these queries."""
    asked = [query for query in dataset if query.answerable is not False]
    common = {
        need
        for need in ("answers", "relevant passages")
        if sum(map(GIVEN[need], asked)) >= max(COVERED * len(asked), 1)
    }
    return tuple(entry.name for entry in GATED.values() if common.isdisjoint(entry.stands_in))


def default_names(names: Iterable[str], dataset: MirageDataset) -> tuple[str, ...]:
    """Those of a baseline's features that are compared if nobody asks for others.

    They are those of the gate, and what somebody put there who wanted it: features of their own
    and features that need a model. Where there is nothing else, wording is what was wanted.
    """
    names, ours = tuple(names), set(feature_names())
    compared = set(gated(dataset))
    return tuple(name for name in names if name in compared or name not in ours) or names


def more_than_wording(worsening: Floats, names: Iterable[str]) -> Floats:
    """How much worse each value is than another wording alone makes it.

    What a wording may change holds for two responses, and so does not depend on how many repeats
    there are; what all answers lose alike is taken off the means.

    Args:
        worsening: how much worse each value is, ``(pairs of repeats, queries, features)``; NaN
            where there is none.
        names: of the features.

    Returns:
        Means over the pairs, ``(queries, features)``.
    """
    names = tuple(names)
    means = mean_of_pairs(worsening)
    allowances = np.zeros(len(names))
    for j, entry in enumerate(map(GATED.get, names)):
        if entry is not None and entry.manner and not np.isnan(means[:, j]).all():
            # Taken off first: a loss that most answers share must not hide below `wording` in some
            # and stand out in the others.
            allowances[j] = np.clip(np.nanmedian(means[:, j]), 0.0, entry.manner)
    return beyond_wording(worsening - allowances, names)


def beyond_wording(worsening: Floats, names: Iterable[str]) -> Floats:
    """As :func:`more_than_wording`, with what all answers lose alike left in."""
    entries = [GATED.get(name) for name in names]
    wording = np.array([0.0 if entry is None else entry.wording for entry in entries])
    return mean_of_pairs(np.where(np.abs(worsening) <= wording + 1e-9, worsening * 0.0, worsening))


def mean_of_pairs(values: Floats) -> Floats:
    """Means along the first axis of what is known; NaN where nothing is."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    totals = np.where(known, values, 0.0).sum(axis=0)
    means: Floats = np.full_like(totals, np.nan)
    np.divide(totals, counts, out=means, where=counts > 0)
    return means
