"""The numbers that features give: one run's responses by one suite's features."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.rows import first_duplicate
from mirage._base.tables import Table, to_html
from mirage.errors import FeatureError, UnknownNameError, needing
from mirage.features.base import Facts
from mirage.features.registry import facts
from mirage.statistics.bootstrap import check_level
from mirage.statistics.clusters import cluster_codes, mean_intervals
from mirage.statistics.variance import variance_components

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FeatureTable", "Stability"]

SAME = 1e-6
"""Values that differ by no more are the same: files and platforms round."""


class Stability(NamedTuple):
    """How far a feature is the same each time that a model is asked.

    Attributes:
        feature: its name.
        within: variance of the values of one query, over the times that it was asked.
        between: variance of the queries' means that is not owed to the former.
        queries: how many have the feature.
        changing: ids of those whose values differ from one time to another.
    """

    feature: str
    within: float
    between: float
    queries: int
    changing: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTable:
    """One model's features: a row a query, a column a feature.

    ``values`` has shape ``(queries, features)``, float64; NaN stands where a feature could not be
    computed, and ``reasons`` says why, by ``(query id, feature name)``. ``facts`` are those that
    features of your own declare, by name; those of this library's are known by their names.
    ``clusters`` says what queries hang together with, by query id: a query that is not there is by
    itself. ``repeats`` are the values of each time that a model was asked, where it was asked
    several times, ``(repeats, queries, features)``; ``values`` are then their means, and a query
    counts once. ``retry`` lists the missing values, by ``(query id, feature name)``, that may be
    there if they are computed again, as after a failed call to a judge.

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
            twice = first_duplicate(names)
            if twice is not None:
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

    @property
    def unmeasured(self) -> dict[str, str]:
        """The features that no query has, and the most frequent reason for each."""
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

    def stability(self) -> tuple[Stability, ...]:
        """How far a model that was asked several times answers the same; a row a feature.

        Of a table without repeats, nothing is known: variances are NaN, and no query changes.
        """
        repeats = self.values[None] if self.repeats is None else self.repeats
        within, between = variance_components(repeats)
        spread = np.where(np.isnan(repeats), -np.inf, repeats).max(axis=0)
        spread -= np.where(np.isnan(repeats), np.inf, repeats).min(axis=0)
        return tuple(
            Stability(
                name,
                float(within[j]),
                float(between[j]),
                int((~np.isnan(repeats[:, :, j])).any(axis=0).sum()),
                tuple(self.query_ids[i] for i in np.flatnonzero(spread[:, j] > SAME)),
            )
            for j, name in enumerate(self.features)
        )

    def select(self, query_ids: Sequence[str]) -> FeatureTable:
        """The rows of these queries, in this order."""
        row = {query_id: i for i, query_id in enumerate(self.query_ids)}
        for query_id in query_ids:
            if query_id not in row:
                raise UnknownNameError(f"query of {self.model!r}", query_id, self.query_ids)
        members = set(query_ids)
        places = [row[query_id] for query_id in query_ids]
        return replace(
            self,
            query_ids=tuple(query_ids),
            values=self.values[places],
            repeats=None if self.repeats is None else self.repeats[:, places],
            reasons={key: why for key, why in self.reasons.items() if key[0] in members},
            retry=frozenset(key for key in self.retry if key[0] in members),
            clusters={id_: name for id_, name in self.clusters.items() if id_ in members},
        )

    def columns(self, features: Sequence[str]) -> FeatureTable:
        """The columns of these features, in this order."""
        for feature in features:
            if feature not in self.features:
                raise UnknownNameError("feature", feature, self.features)
        places = [self.features.index(feature) for feature in features]
        return replace(
            self,
            features=tuple(features),
            repeats=None if self.repeats is None else self.repeats[:, :, places],
            values=self.values[:, places],
            reasons={key: why for key, why in self.reasons.items() if key[1] in features},
            retry=frozenset(key for key in self.retry if key[1] in features),
            facts={name: fact for name, fact in self.facts.items() if name in features},
        )

    def to_pandas(self) -> pd.DataFrame:
        """A frame indexed by query id with a column a feature (needs pandas).

        Model, language and reasons are in its ``attrs``, which pandas keeps where it can.
        """
        with needing("pandas", "frames"):
            import pandas as pd
        index = pd.Index(self.query_ids, name="query_id")
        frame = pd.DataFrame(self.values, index=index, columns=list(self.features))
        reasons: dict[str, dict[str, str]] = {}
        for (query_id, feature), why in self.reasons.items():
            reasons.setdefault(query_id, {})[feature] = why
        told = {"model": self.model, "language": self.language, "not_computed": reasons}
        frame.attrs["mirage"] = told
        return frame

    def _repr_html_(self) -> str:
        """For notebooks: the mean of each feature, and how many queries have it."""
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
        """The table of a frame as :meth:`to_pandas` gives it; NaN where the frame has none.

        Args:
            frame: its index are query ids, its columns features.
            model: by default that of the frame's ``attrs``.
            language: by default that of the frame's ``attrs``.

        Raises:
            FeatureError: neither says the model or the language, or a column is no numbers.
        """
        told = frame.attrs.get("mirage", {})
        model, language = model or told.get("model"), language or told.get("language")
        if model is None or language is None:
            raise FeatureError(
                "the frame does not say of which model, or in which language, the features are; "
                "give model= and language="
            )
        try:
            values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise FeatureError(f"features of {model!r}: a column is no numbers ({error})") from None
        ids = tuple(str(query_id) for query_id in frame.index)
        features = tuple(str(column) for column in frame.columns)
        reasons = {
            (query_id, feature): why
            for i, query_id in enumerate(ids)
            for feature, why in told.get("not_computed", {}).get(query_id, {}).items()
            if feature in features and np.isnan(values[i, features.index(feature)])
        }
        return cls(model, language, ids, features, values, reasons)
