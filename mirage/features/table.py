"""A table of feature values, with one row per response of a model and one column per feature."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.near_names import NearNames
from mirage._base.rows import first_duplicate
from mirage._base.tables import Table, to_html
from mirage.errors import FeatureError, UnknownNameError, needing
from mirage.features.base import Facts
from mirage.features.registry import facts
from mirage.statistics.bootstrap import NO_INTERVAL, Interval, check_level
from mirage.statistics.bounds import share_interval
from mirage.statistics.clusters import cluster_codes, mean_intervals
from mirage.statistics.variance import variance_components

if TYPE_CHECKING:
    import pandas as pd

TOLERANCE = 1e-6
"""Maximum difference between values that count as equal.

Rounding differs between file formats and between platforms.
"""


class Stability(NamedTuple):
    """The variation of a feature between repeated responses to the same query.

    Attributes:
        feature: The name of the feature.
        within: Variance of a query's values over the repeats, averaged over queries.
        between: Variance of the queries' means, minus the part that is due to ``within``.
        queries: Number of queries for which the feature has a value.
        changing: Ids of the queries whose values differ between repeats.
        interval: 95 % confidence interval of the share of queries whose values differ between the
            repeats; NaN without repeats. The share depends on the number of repeats.
    """

    feature: str
    within: float
    between: float
    queries: int
    changing: tuple[str, ...]
    interval: Interval


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTable(NearNames):
    """The features of one model's responses, with one row per query and one column per feature.

    Attributes:
        model: The name of the model.
        language: ISO 639-1 code of the language of the queries.
        query_ids: The id of the query of each row.
        features: The name of the feature of each column.
        values: float64 values of shape ``(queries, features)``; NaN if a feature could not be
            computed.
        reasons: Why values are missing, by ``(query id, feature name)``.
        facts: The :class:`~mirage.features.Facts` that user-defined features declare, by feature
            name.
        clusters: The name of each query's cluster, by query id. A query without an entry is a
            cluster by itself.
        repeats: The values of each repeat if the model answered several times, of shape ``(repeats,
            queries, features)``. ``values`` are then their means, and a query still counts once.
            ``None`` if the model answered once.
        retry: The missing values that are worth computing again, for example because a call to a
            judge failed. Each is given as ``(query id, feature name)``.

    Raises:
        FeatureError: ``values`` or ``repeats`` has the wrong shape, or a query or feature occurs
            twice.

    Example:
        >>> import numpy as np
        >>> from mirage import FeatureTable
        >>> values = np.array([[1.0], [0.5]])
        >>> table = FeatureTable("model", "en", ("q1", "q2"), ("answer_match",), values)
        >>> table.mean().tolist()
        [0.75]
    """

    model: str
    language: str
    query_ids: tuple[str, ...]
    features: tuple[str, ...]
    values: NDArray[np.float64]
    reasons: Mapping[tuple[str, str], str] = field(default_factory=dict)
    facts: Mapping[str, Facts] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    repeats: NDArray[np.float64] | None = None
    retry: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.query_ids), len(self.features)):
            raise FeatureError(
                f"feature table of {self.model!r}: values have shape {self.values.shape}, expected "
                f"({len(self.query_ids)} queries, {len(self.features)} features)"
            )
        if self.repeats is not None and self.repeats.shape[1:] != self.values.shape:
            raise FeatureError(
                f"feature table of {self.model!r}: repeats have shape {self.repeats.shape}, "
                f"expected (repeats, {len(self.query_ids)} queries, {len(self.features)} features)"
            )
        for kind, names in (("query", self.query_ids), ("feature", self.features)):
            duplicate = first_duplicate(names)
            if duplicate is not None:
                raise FeatureError(
                    f"feature table of {self.model!r}: {kind} {duplicate!r} occurs twice"
                )

    def __len__(self) -> int:
        return len(self.query_ids)

    def __repr__(self) -> str:
        return (
            f"FeatureTable({self.model!r}, language={self.language!r}, queries={len(self)}, "
            f"features={list(self.features)!r}, not_computed={int(np.isnan(self.values).sum())})"
        )

    def __getitem__(self, feature: str) -> NDArray[np.float64]:
        """Return one feature's column, in the order of :attr:`query_ids`."""
        if feature not in self.features:
            raise UnknownNameError("feature", feature, self.features)
        column: NDArray[np.float64] = self.values[:, self.features.index(feature)]
        return column

    @property
    def unmeasured(self) -> dict[str, str]:
        """The features without a value for any query, with the most frequent reason for each."""
        reasons: dict[str, Counter[str]] = {
            name: Counter()
            for name, column in zip(self.features, self.values.T, strict=True)
            if np.isnan(column).all()
        }
        for (_, name), why in self.reasons.items():
            if name in reasons:
                reasons[name][why] += 1
        return {
            name: counts.most_common(1)[0][0] if counts else "no query has a value"
            for name, counts in reasons.items()
        }

    def mean(self, counts: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Return each feature's mean over the queries for which it has a value; NaN without any.

        Args:
            counts: Weights of the queries, of shape ``(queries,)``. For several resamples, the
                shape is ``(resamples, queries)`` and that of the result ``(resamples, features)``.
                By default all queries have the same weight.
        """
        weights = np.ones(len(self)) if counts is None else np.asarray(counts, dtype=np.float64)
        present = ~np.isnan(self.values)
        total = weights @ np.where(present, self.values, 0.0)
        count = weights @ present.astype(np.float64)
        return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)

    def intervals(self, *, level: float = 0.95) -> NDArray[np.float64]:
        """Return the confidence interval of each :meth:`mean`, of shape ``(features, 2)``.

        The interval is for the mean over the population from which the queries are sampled. It is
        computed by :func:`mirage.statistics.clusters.mean_intervals`, which counts the queries of
        one cluster as one. The ends are NaN if the feature has values in fewer than
        :data:`mirage.statistics.clusters.FEWEST_FOR_MEANS` clusters.

        Args:
            level: Confidence level.

        Raises:
            SettingError: ``level`` is not between 0 and 1.
        """
        check_level(level)
        entries = [facts(name, self.facts) for name in self.features]
        low, high = (
            np.array([getattr(entry, end) for entry in entries]) for end in ("low", "high")
        )
        codes = cluster_codes(self.query_ids, self.clusters)
        return mean_intervals(self.values, codes, low, high, level=level)

    def stability(self) -> tuple[Stability, ...]:
        """Return the stability of each feature between repeated responses of the model.

        In a table without repeats, the variances are NaN and ``changing`` is empty.
        """
        repeats = self.values[None] if self.repeats is None else self.repeats
        within, between = variance_components(repeats)
        spread = np.where(np.isnan(repeats), -np.inf, repeats).max(axis=0)
        spread -= np.where(np.isnan(repeats), np.inf, repeats).min(axis=0)
        codes = cluster_codes(self.query_ids, self.clusters)
        rows = []
        for j, name in enumerate(self.features):
            present, changing = (~np.isnan(repeats[:, :, j])).any(axis=0), spread[:, j] > TOLERANCE
            interval = NO_INTERVAL
            if self.repeats is not None:
                interval = share_interval(changing[present], codes[present])
            ids = tuple(self.query_ids[i] for i in np.flatnonzero(changing))
            variances = float(within[j]), float(between[j])
            rows.append(Stability(name, *variances, int(present.sum()), ids, interval))
        return tuple(rows)

    def select(self, query_ids: Sequence[str]) -> FeatureTable:
        """Return the table with only the rows of these queries, in this order."""
        row = {query_id: i for i, query_id in enumerate(self.query_ids)}
        for query_id in query_ids:
            if query_id not in row:
                raise UnknownNameError(
                    "query", query_id, self.query_ids, f"in the table of model {self.model!r}"
                )
        members = set(query_ids)
        rows = [row[query_id] for query_id in query_ids]
        return replace(
            self,
            query_ids=tuple(query_ids),
            values=self.values[rows],
            repeats=None if self.repeats is None else self.repeats[:, rows],
            reasons={key: why for key, why in self.reasons.items() if key[0] in members},
            retry=frozenset(key for key in self.retry if key[0] in members),
            clusters={id_: name for id_, name in self.clusters.items() if id_ in members},
        )

    def columns(self, features: Sequence[str]) -> FeatureTable:
        """Return the table with only the columns of these features, in this order."""
        for feature in features:
            if feature not in self.features:
                raise UnknownNameError("feature", feature, self.features)
        indices = [self.features.index(feature) for feature in features]
        return replace(
            self,
            features=tuple(features),
            repeats=None if self.repeats is None else self.repeats[:, :, indices],
            values=self.values[:, indices],
            reasons={key: why for key, why in self.reasons.items() if key[1] in features},
            retry=frozenset(key for key in self.retry if key[1] in features),
            facts={name: fact for name, fact in self.facts.items() if name in features},
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per query id and one column per feature.

        This method needs pandas. The DataFrame's ``attrs`` contain the model, the language and the
        reasons for missing values. Most pandas operations preserve ``attrs``.
        """
        with needing("pandas"):
            import pandas as pd
        index = pd.Index(self.query_ids, name="query_id")
        frame = pd.DataFrame(self.values, index=index, columns=list(self.features))
        reasons: dict[str, dict[str, str]] = {}
        for (query_id, feature), why in self.reasons.items():
            reasons.setdefault(query_id, {})[feature] = why
        attributes = {"model": self.model, "language": self.language, "not_computed": reasons}
        frame.attrs["mirage"] = attributes
        return frame

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks: each feature's mean and number of queries."""
        means, counts = self.mean(), (~np.isnan(self.values)).sum(axis=0)
        rows = zip(self.features, means.tolist(), counts.tolist(), strict=True)
        title = f"{self.model}: features of {len(self)} queries ({self.language})"
        cells = tuple(
            (name, "" if math.isnan(mean) else f"{mean:.3f}", str(count))
            for name, mean, count in rows
        )
        return to_html(Table(title, ("feature", "mean", "queries"), cells, name=0))

    @classmethod
    def from_pandas(
        cls, frame: pd.DataFrame, *, model: str | None = None, language: str | None = None
    ) -> FeatureTable:
        """Return the feature table for a DataFrame like those that :meth:`to_pandas` returns.

        Missing values of the DataFrame are NaN in the table.

        Args:
            frame: The DataFrame. Its index has the query ids, and its columns are the features.
            model: Name of the model; by default the one in the DataFrame's ``attrs``.
            language: ISO 639-1 code of the language; by default the one in the DataFrame's
                ``attrs``.

        Raises:
            FeatureError: Neither the arguments nor ``attrs`` give the model and the language, or a
                column is not numeric.
        """
        attributes = frame.attrs.get("mirage", {})
        model, language = model or attributes.get("model"), language or attributes.get("language")
        if model is None or language is None:
            raise FeatureError(
                "the DataFrame's attrs do not contain both the model and the language; pass "
                "model= and language="
            )
        try:
            values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise FeatureError(
                f"features of {model!r}: the DataFrame has a column that is not numeric ({error}); "
                "pass only its numeric columns"
            ) from None
        ids = tuple(str(query_id) for query_id in frame.index)
        features = tuple(str(column) for column in frame.columns)
        reasons = {
            (query_id, feature): why
            for i, query_id in enumerate(ids)
            for feature, why in attributes.get("not_computed", {}).get(query_id, {}).items()
            if feature in features and np.isnan(values[i, features.index(feature)])
        }
        return cls(model, language, ids, features, values, reasons)
