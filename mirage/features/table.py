"""The numbers that features give: one run's responses by one suite's features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mirage.errors import FeatureError, UnknownNameError, needing
from mirage.features.base import Facts
from mirage.features.registry import facts
from mirage.statistics.bootstrap import check_level
from mirage.statistics.clusters import cluster_codes, mean_intervals

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FeatureTable"]


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTable:
    """One model's features: a row a query, a column a feature.

    ``values`` has shape ``(queries, features)``, float64; NaN stands where a feature could not be
    computed, and ``reasons`` says why, by ``(query id, feature name)``. ``facts`` are those that
    features of your own declare, by name; those of this library's are known by their names.
    ``clusters`` says what queries hang together with, by query id: a query that is not there is by
    itself.

    Raises:
        FeatureError: the values have another shape, or a query or feature is named twice.
    """

    model: str
    language: str
    query_ids: tuple[str, ...]
    features: tuple[str, ...]
    values: NDArray[np.float64]
    reasons: Mapping[tuple[str, str], str] = field(default_factory=dict)
    facts: Mapping[str, Facts] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.query_ids), len(self.features)):
            raise FeatureError(
                f"feature table of {self.model!r}: values have shape {self.values.shape}, expected "
                f"({len(self.query_ids)} queries, {len(self.features)} features)"
            )

        for kind, names in (("query", self.query_ids), ("feature", self.features)):
            if len(set(names)) != len(names):
                twice = next(name for name, count in Counter(names).items() if count > 1)
                raise FeatureError(
                    f"feature table of {self.model!r}: {kind} {twice!r} stands twice"
                )

    def __len__(self) -> int:
        return len(self.query_ids)

    def __repr__(self) -> str:
        return (
            f"FeatureTable({self.model!r}, language={self.language!r}, queries={len(self)}, "
            f"features={list(self.features)!r}, not_computed={int(np.isnan(self.values).sum())})"
        )

    def __getitem__(self, feature: str) -> NDArray[np.float64]:
        """One feature's column, in the order of :attr:`query_ids`."""
        if feature not in self.features:
            raise UnknownNameError("feature", feature, self.features)
        column: NDArray[np.float64] = self.values[:, self.features.index(feature)]
        return column

    def mean(self, counts: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Mean of each feature over the queries that have it; NaN where none has.

        ``counts`` weights the queries: shape ``(queries,)``, or ``(draws, queries)`` for many
        draws at once, which gives shape ``(draws, features)``.
        """
        weights = np.ones(len(self)) if counts is None else np.asarray(counts, dtype=np.float64)
        present = ~np.isnan(self.values)
        total = weights @ np.where(present, self.values, 0.0)
        count = weights @ present.astype(np.float64)
        return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)

    def intervals(self, *, level: float = 0.95) -> NDArray[np.float64]:
        """Lower and upper end for each :meth:`mean`, ``(features, 2)``.

        For the mean over all queries that these may stand for, by
        :func:`mirage.statistics.clusters.mean_intervals`: queries of one cluster count as one. NaN
        where fewer than :data:`mirage.statistics.clusters.FEWEST_FOR_MEANS` clusters have the
        feature.

        Raises:
            SettingError: ``level`` is not between 0 and 1.
        """
        check_level(level)
        known = [facts(name, self.facts) for name in self.features]
        low, high = (np.array([getattr(entry, end) for entry in known]) for end in ("low", "high"))
        codes = cluster_codes(self.query_ids, self.clusters)
        return mean_intervals(self.values, codes, low, high, level=level)

    def select(self, query_ids: Sequence[str]) -> FeatureTable:
        """The rows of these queries, in this order."""
        row = {query_id: i for i, query_id in enumerate(self.query_ids)}
        for query_id in query_ids:
            if query_id not in row:
                raise UnknownNameError(f"query of {self.model!r}", query_id, self.query_ids)
        members = set(query_ids)
        return replace(
            self,
            query_ids=tuple(query_ids),
            values=self.values[[row[query_id] for query_id in query_ids]],
            reasons={key: why for key, why in self.reasons.items() if key[0] in members},
            clusters={id_: name for id_, name in self.clusters.items() if id_ in members},
        )

    def columns(self, features: Sequence[str]) -> FeatureTable:
        """The columns of these features, in this order."""
        return replace(
            self,
            features=tuple(features),
            values=np.stack([self[feature] for feature in features], axis=1),
            reasons={key: why for key, why in self.reasons.items() if key[1] in features},
            facts={name: fact for name, fact in self.facts.items() if name in features},
        )

    def to_pandas(self) -> pd.DataFrame:
        """A frame indexed by query id with a column a feature (needs pandas)."""
        with needing("pandas", "frames"):
            import pandas as pd
        index = pd.Index(self.query_ids, name="query_id")
        return pd.DataFrame(self.values, index=index, columns=list(self.features))

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, *, model: str, language: str) -> FeatureTable:
        """The table of a frame as :meth:`to_pandas` gives it; NaN where the frame has none."""
        return cls(
            model,
            language,
            tuple(str(query_id) for query_id in frame.index),
            tuple(str(column) for column in frame.columns),
            frame.to_numpy(dtype=np.float64, na_value=np.nan),
        )
