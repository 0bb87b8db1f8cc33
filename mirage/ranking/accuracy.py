"""Count a system's right responses, wrong responses and abstentions, by kind of question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from mirage._base.near_names import NearNames
from mirage.statistics.bootstrap import NO_INTERVAL, Interval
from mirage.statistics.bounds import share_interval
from mirage.statistics.clusters import cluster_codes

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.features import FeatureTable
    from mirage.models import Query

__all__ = ["Accuracy", "Outcome", "accuracy_of", "outcome"]

Outcome = Literal["right", "wrong", "declined", "undecided", "failed"]
"""The outcome of a response to a query; see :func:`outcome`."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

KIND = "kind"
"""Key in the metadata of a query under which its kind is stored."""

NAMED_KINDS = 2
"""Largest number of kinds of question that ``str(accuracy)`` lists."""

FEWEST_OF_KIND = 3
"""Smallest number of questions of a kind that ``str(accuracy)`` lists."""


def outcome(query: Query, values: Mapping[str, float]) -> Outcome:
    """Classify a response to a query as right, wrong, declined, undecided or failed.

    - right: the response asserts every short answer of the query and no wrong one. If no passage
      contains an answer, the response says that there is none.
    - wrong: the response asserts an answer that the query lists as wrong, or denies the right one.
      If no passage contains an answer, the response nevertheless gives one.
    - declined: the response gives no answer, although a passage contains one. If no passage does,
      the response is empty.
    - undecided: the features show none of the above. For example, the response gives only part of
      the answer, or an answer that the query does not list, or the query has no short answers. A
      right answer in unforeseen words is therefore undecided and not wrong.
    - failed: there is no response.

    ``validation/truth/outcomes.py`` measures how often "right" and "wrong" are correct.

    Args:
        query: The query.
        values: Features of the response by name: ``answer_match``, ``wrong_answer``,
            ``abstention`` and ``incorrect_attempt``, without which an empty response to an
            unanswerable query counts as wrong. Other features are only used to find out whether
            there is a response.

    Example:
        >>> from mirage import Query
        >>> query = Query(id="q", language="en", text="Who?", answers=["Ada"], answerable=True)
        >>> outcome(query, {"answer_match": 1.0, "wrong_answer": 0.0, "abstention": 1.0})
        'right'
    """
    if all(np.isnan(value) for value in values.values()):
        return "failed"
    as_expected = values.get("abstention", np.nan)
    if query.answerable is False:
        if np.isnan(as_expected):
            return "undecided"
        is_attempt = values.get("incorrect_attempt", 1.0) > 0  # an empty response makes none
        return "right" if as_expected else "wrong" if is_attempt else "declined"
    if values.get("wrong_answer", np.nan) > 0:
        return "wrong"
    if values.get("answer_match", np.nan) == 1:
        return "right"
    return "declined" if as_expected == 0 else "undecided"


@dataclass(frozen=True)
class Accuracy(NearNames):
    """The outcomes of a system's responses.

    Attributes:
        outcomes: Outcome of each query by its id; see :func:`outcome`.
        interval: 95 % confidence interval of the share of right responses. Failed queries count as
            not right. NaN without queries.
        kinds: Accuracy on each kind of question (``kind`` in the metadata of the queries), by
            kind; empty if the queries have no kinds.
    """

    outcomes: Mapping[str, Outcome] = field(hash=False)
    interval: Interval = NO_INTERVAL
    kinds: Mapping[str, Accuracy] = field(default_factory=dict, hash=False)

    @property
    def n(self) -> int:
        """Number of queries."""
        return len(self.outcomes)

    @property
    def right(self) -> int:
        """Number of right responses."""
        return self.count("right")

    @property
    def wrong(self) -> int:
        """Number of wrong responses."""
        return self.count("wrong")

    @property
    def declined(self) -> int:
        """Number of responses that give no answer, although a passage contains one."""
        return self.count("declined")

    @property
    def undecided(self) -> int:
        """Number of responses that are neither right nor wrong nor declined."""
        return self.count("undecided")

    @property
    def failed(self) -> int:
        """Number of queries without a response."""
        return self.count("failed")

    def count(self, of: Outcome) -> int:
        """Return the number of queries with the given outcome."""
        return Counter(self.outcomes.values())[of]

    @property
    def is_known(self) -> bool:
        """Whether at least one response is right, wrong or declined (not undecided or failed)."""
        return any(self.count(name) for name in ("right", "wrong", "declined"))

    def __str__(self) -> str:
        return self.counts + "".join(f"; {text}" for text in self._weak_kinds())

    @property
    def counts(self) -> str:
        """The number of queries with each outcome, as text."""
        low, high = self.interval
        parts = [
            f"right on {self.right} of {self.n} queries "
            f"(95 % interval {100 * low:.0f} to {100 * high:.0f} %)",
            f"wrong on {self.wrong}",
            f"declined {self.declined}",
            *(f"{name} {count}" for name in ("undecided", "failed") if (count := self.count(name))),
        ]
        return ", ".join(parts)

    def _weak_kinds(self) -> Iterator[str]:
        """Yield a text for each kind of question with at most 50 % right responses, worst first."""
        share = {
            kind: part.right / part.n
            for kind, part in self.kinds.items()
            if part.n >= FEWEST_OF_KIND and part.right <= part.n / 2
        }
        for kind in sorted(share, key=share.__getitem__)[:NAMED_KINDS]:
            part = self.kinds[kind]
            yield f"{part.n - part.right} of {part.n} of kind {kind_name(kind)} missed"

    def right_among(self, query_ids: Iterable[str]) -> int:
        """Return the number of the given queries whose responses are right."""
        return sum(self.outcomes.get(id_) == "right" for id_ in query_ids)


def kind_name(kind: str) -> str:
    """Return a kind of question as readers see it, with spaces instead of underscores."""
    return kind.replace("_", " ")


def accuracy_of(dataset: MirageDataset, table: FeatureTable) -> Accuracy:
    """Return the outcomes of a system's responses to the queries of a dataset.

    If the system answered each query several times, a query has the most frequent outcome of its
    responses, and is undecided if two outcomes are equally frequent.

    The interval is that of Clopper and Pearson, or its counterpart for clusters of queries
    (:func:`mirage.statistics.bounds.share_interval`); ``validation/coverage/feature_bounds.py``
    prints its coverage with 5, 20 and 100 queries.

    Args:
        dataset: The queries.
        table: Features of the system's responses.

    Example:
        >>> from mirage import FeatureSuite, MirageDataset, respond
        >>> queries = MirageDataset.bundled("en")
        >>> run = respond({query.id: query.reference for query in queries}, queries, progress=False)
        >>> table = FeatureSuite.default("en").score(queries, run, progress=False)
        >>> accuracy_of(queries, table).right
        40
    """
    repeats = table.values[None] if table.repeats is None else table.repeats
    rows = dict(zip(table.query_ids, np.moveaxis(repeats, 1, 0).tolist(), strict=True))
    queries = [query for query in dataset if query.id in rows]
    outcomes = {
        query.id: _most_frequent(
            [outcome(query, dict(zip(table.features, row, strict=True))) for row in rows[query.id]]
        )
        for query in queries
    }
    by_kind: dict[str, list[str]] = {}
    for query in queries:
        if (kind := query.metadata.get(KIND)) is not None:
            by_kind.setdefault(str(kind), []).append(query.id)
    kinds = {
        kind: _accuracy({id_: outcomes[id_] for id_ in ids}, table.clusters)
        for kind, ids in by_kind.items()
    }
    return _accuracy(outcomes, table.clusters, kinds)


def _accuracy(
    outcomes: Mapping[str, Outcome],
    clusters: Mapping[str, str],
    kinds: Mapping[str, Accuracy] | None = None,
) -> Accuracy:
    hits = np.array([each == "right" for each in outcomes.values()], dtype=np.bool_)
    interval = share_interval(hits, cluster_codes(outcomes, clusters))
    return Accuracy(outcomes, interval, kinds or {})


def _most_frequent(outcomes: Sequence[Outcome]) -> Outcome:
    (first, count), *others = Counter(outcomes).most_common(2)
    return "undecided" if any(other[1] == count for other in others) else first
