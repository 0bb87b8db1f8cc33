"""Comparison of two systems of one ranking query by query, by the faults of their responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.dataset import clusters_of
from mirage.errors import MirageError
from mirage.statistics.bootstrap import Interval
from mirage.statistics.clusters import cluster_codes, cluster_sums
from mirage.statistics.paired import paired_means
from mirage.surrogate.utilities import UTILITIES

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.features.findings import Finding, Kind
    from mirage.ranking.entries import Evidence

__all__ = ["QueryDifference", "SystemComparison", "compare_systems"]

FAULTS: Mapping[Kind, str] = MappingProxyType(
    {
        "wrong fact": "lying",
        "invention": "answered-anyway",
        "refusal": "refusal",
        "language": "wrong-language",
        "missing answer": "undecided",
        "part of the answer": "half-right",
        "nothing of the reference": "off-topic",
        "no citation": "uncited",
        "wrong citation": "wrongly-cited",
        "misplaced citation": "over-cited",
        "denial": "hallucinated",
        "unknown fact": "hallucinated",
        "no response": "garbled",
    }
)
"""The fault of :mod:`mirage.surrogate.utilities` that has the cost of each kind of finding."""

MISTAKEN = 0.01
"""Share of responses in which a fault is reported by mistake, in one of two manners of writing.

``python validation/coverage/compared_systems.py`` shows how often two manners of the same texts
are taken for systems of different quality.
"""

_DRAWS = 10_000


@dataclass(frozen=True)
class QueryDifference:
    """A query on which two systems differ in their faults.

    Attributes:
        query_id: Id of the query.
        advantage: Expected share of the simulated judge's verdicts for the first system, minus 0.5;
            from -0.5 to 0.5.
        faults: Descriptions of the faults of the first system's response, and of the second's.
    """

    query_id: str
    advantage: float
    faults: tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class SystemComparison:
    """The difference between two systems on the same queries.

    Attributes:
        models: Names of the two systems.
        p_better: Probability that the first system is better, from 0 to 1.
        difference: Mean advantage of the first system over all queries, from -0.5 to 0.5.
        interval: 95 % confidence interval of the difference; NaN with too few clusters of queries.
        queries: The queries on which the systems differ, those with the largest advantage of the
            first system first.
        n: Number of queries that were compared.
    """

    models: tuple[str, str]
    p_better: float
    difference: float
    interval: Interval
    queries: tuple[QueryDifference, ...]
    n: int

    def __str__(self) -> str:
        better = sum(query.advantage > 0 for query in self.queries)
        low, high = self.interval
        ends = "" if np.isnan(low) else f", 95 % interval [{low:.3f}, {high:.3f}]"
        return (
            f"{self.models[0]} is better than {self.models[1]} on {better} of {self.n} queries and "
            f"worse on {len(self.queries) - better}: P(better) = {self.p_better:.2f}, difference "
            f"{self.difference:.3f}{ends}"
        )


def compare_systems(
    evidence: Evidence, findings: Mapping[str, tuple[Finding, ...]], a: str, b: str
) -> SystemComparison:
    """Compare two systems by the faults of their responses to the same queries.

    See :meth:`mirage.ranking.Ranking.compare`.

    Raises:
        MirageError: The responses of a system are not known, or the systems share no query.
    """
    for model in (a, b):
        if evidence.dataset is None or model not in findings:
            raise MirageError(
                f"the responses of {model!r} are not in the ranking, so it cannot be compared "
                "query by query; compare systems whose responses were ranked in one call"
            )
    dataset = evidence.dataset
    assert dataset is not None  # checked above
    ids = _shared_ids(dataset, evidence, a, b)
    faults = [_faults_by_query(findings[model]) for model in (a, b)]
    gains = np.array([_advantage(faults[0].get(id_, {}), faults[1].get(id_, {})) for id_ in ids])
    queries = [query for query in dataset if query.id in set(ids)]
    codes = cluster_codes(ids, clusters_of(queries))
    result = paired_means(gains[:, None], codes)[0]
    rows = [
        QueryDifference(
            id_, float(gain), (tuple(faults[0].get(id_, ())), tuple(faults[1].get(id_, ())))
        )
        for id_, gain in zip(ids, gains, strict=True)
        if gain
    ]
    rows.sort(key=lambda row: -row.advantage)
    return SystemComparison(
        (a, b), _p_better(gains, codes), result.difference, result.interval, tuple(rows), len(ids)
    )


def _shared_ids(dataset: MirageDataset, evidence: Evidence, a: str, b: str) -> list[str]:
    shared = set(evidence.tables[a].query_ids) & set(evidence.tables[b].query_ids)
    ids = [query.id for query in dataset if query.id in shared]
    if not ids:
        raise MirageError(f"{a!r} and {b!r} answered no query in common, so they are not compared")
    return ids


def _faults_by_query(findings: tuple[Finding, ...]) -> dict[str, dict[str, Kind]]:
    """Return the faults on each query, as kinds by description."""
    faults: dict[str, dict[str, Kind]] = {}
    for finding in findings:
        for id_ in finding.query_ids:
            faults.setdefault(id_, {})[finding.words] = finding.kind
    return faults


def _advantage(first: Mapping[str, Kind], second: Mapping[str, Kind]) -> float:
    """Return the share of verdicts that a response with the first faults wins, minus 0.5."""
    utilities = [
        UTILITIES.of(map(FAULTS.__getitem__, faults.values())) for faults in (first, second)
    ]
    return 0.5 * float(np.tanh((utilities[0] - utilities[1]) / 2))


def _p_better(gains: Floats, codes: Ints) -> float:
    """Return the probability that the mean gain over all queries of this kind is above 0.

    It is the share of draws of a Bayesian bootstrap over clusters (Rubin 1981, Annals of Statistics
    9, 130-134) in which the mean is above 0. Two further clusters, with the largest gain and its
    negative, stand for what was not observed. Without clusters and with equal gains, the result is
    that of a uniform prior for the share of differing queries on which the first system is better:
    0.94 for three of three. The weight of the added clusters grows with the number of queries, since
    some faults are reported by mistake.
    """
    sums = cluster_sums(codes, gains[:, None])[:, 0]
    sums = sums[sums != 0]
    if not len(sums):
        return 0.5
    largest = np.abs(sums).max()
    unseen = 1 + MISTAKEN * len(gains)
    shapes = np.append(np.ones(len(sums)), [unseen, unseen])
    weights = np.random.default_rng(0).gamma(shapes, size=(_DRAWS, len(shapes)))
    means = weights @ np.append(sums, [largest, -largest])
    return float(np.mean(means > 0))
