"""What a surrogate learns from: features and logits of one language's models, per tournament."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage.arena import Tournaments
from mirage.errors import FeatureError, UnknownNameError
from mirage.features import Facts, FeatureTable, facts
from mirage.statistics.bootstrap import widened

__all__ = ["TrainingData", "training_data"]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """One language's models, with what their features and logits were in each tournament.

    Attributes:
        language: ISO 639-1 code.
        models: names, in the order of all arrays here.
        features: names, in the order of the last axis of ``values`` and ``X``.
        query_ids: the queries that tournaments draw from.
        values: each feature of each response, ``(models, queries, features)``, NaN where missing.
        counts: how many times each tournament drew each query, ``(tournaments, queries)``.
        y: logits, ``(tournaments, models)``.
        facts: of features that are not this library's, by name; see :class:`FeatureTable`.
        groups: what models have in common, such as a kind of fault, a name a model; models of one
            group are held out together. Empty where every model stands for itself.
    """

    language: str
    models: tuple[str, ...]
    features: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: Floats
    counts: NDArray[np.int32]
    y: Floats
    facts: Mapping[str, Facts] = field(default_factory=dict)
    groups: tuple[str, ...] = ()

    @cached_property
    def monotone(self) -> list[int]:
        """1 for a feature that must not lower the logit as it rises, -1 for one that must not
        raise it, 0 for any other."""
        signs = {True: 1, False: -1, None: 0}
        known = (facts(name, self.facts) for name in self.features)
        return [signs[entry.higher_is_better(self.language)] for entry in known]

    def group(self, row: int) -> str:
        """What a model is held out with; itself by default."""
        return self.groups[row] if self.groups else self.models[row]

    @cached_property
    def X(self) -> Floats:
        """Mean features over the queries of each tournament, ``(tournaments, models, features)``.

        With :attr:`y` these are the rows that Algorithm 1 of the paper (MIRAGE-Bench, arXiv
        2410.13716) learns from.
        """
        return np.stack([mean_features(values, self.counts) for values in self.values], axis=1)

    @cached_property
    def mean_X(self) -> Floats:
        """Mean features over all queries, ``(models, features)``."""
        return np.asarray(np.nanmean(self.values, axis=1))

    @cached_property
    def mean_y(self) -> Floats:
        """Mean logits over the tournaments, ``(models,)``."""
        return np.asarray(self.y.mean(axis=0))

    @cached_property
    def draws(self) -> Floats:
        """Logits whose percentiles are intervals, ``(tournaments, models)``.

        Those of the tournaments, by :func:`mirage.statistics.bootstrap.widened`.
        """
        return widened(self.y, self.counts)

    def table(self, row: int) -> FeatureTable:
        """The features of one model, as a table."""
        names, values = (self.query_ids, self.features), self.values[row]
        return FeatureTable(self.models[row], self.language, *names, values, facts=self.facts)

    def of(self, models: Iterable[str]) -> TrainingData:
        """The same data with some of the models only."""
        members = set(models)
        rows = [i for i, model in enumerate(self.models) if model in members]
        part = replace(
            self,
            models=tuple(self.models[i] for i in rows),
            values=self.values[rows],
            y=self.y[:, rows],
            groups=tuple(self.groups[i] for i in rows) if self.groups else (),
        )
        # What was computed once is not computed again for each part.
        part.__dict__.update(X=np.ascontiguousarray(self.X[:, rows]), mean_X=self.mean_X[rows])
        return part

    def without(self, models: Iterable[str]) -> TrainingData:
        """The same data without some of the models."""
        return self.of(set(self.models).difference(models))


def training_data(
    tables: Sequence[FeatureTable],
    tournaments: Tournaments | Mapping[str, Tournaments],
    groups: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, TrainingData]:
    """Put tables and ``tournaments`` together, language by language.

    What is taken and raised is as for :meth:`mirage.SurrogateRanker.fit`.
    """
    by_language: dict[str, list[FeatureTable]] = {}
    for table in tables:
        by_language.setdefault(table.language, []).append(table)
    if not by_language:
        raise FeatureError("no feature table to learn from")
    if isinstance(tournaments, Tournaments):
        if len(by_language) > 1:
            raise FeatureError(
                f"the tables are of the languages {', '.join(by_language)}: "
                "give a mapping from language to tournaments"
            )
        tournaments = dict.fromkeys(by_language, tournaments)
    missing = [code for code in by_language if code not in tournaments]
    if missing:
        raise FeatureError(f"no tournaments for the language {missing[0]!r} of the feature tables")
    features = next(iter(by_language.values()))[0].features
    return {
        code: _of_one_language(code, of_language, tournaments[code], features, groups)
        for code, of_language in by_language.items()
    }


def _of_one_language(
    code: str,
    tables: Sequence[FeatureTable],
    tournaments: Tournaments,
    features: tuple[str, ...],
    groups: Mapping[str, str],
) -> TrainingData:
    by_model = {table.model: table for table in tables}
    values = []
    own: dict[str, Facts] = {}
    for model in tournaments.models:
        if model not in by_model:
            raise UnknownNameError(f"feature table of language {code!r} for model", model, by_model)
        table = by_model[model]
        if table.features != features:
            raise FeatureError(
                f"model {model!r} ({code}) has the features {', '.join(table.features)}; "
                f"the first table has {', '.join(features)}"
            )
        require_values(table)
        values.append(table.select(tournaments.query_ids).values)
        own |= table.facts
    return TrainingData(
        code,
        tournaments.models,
        features,
        tournaments.query_ids,
        np.stack(values),
        tournaments.counts,
        tournaments.logits,
        own,
        tuple(groups.get(model, model) for model in tournaments.models) if groups else (),
    )


def require_values(table: FeatureTable) -> None:
    """Refuse a model that has some feature on no query; the error says which, and why."""
    for feature, mean in zip(table.features, table.mean(), strict=True):
        if np.isnan(mean):
            why = next((w for (_, name), w in table.reasons.items() if name == feature), "")
            raise FeatureError(
                f"model {table.model!r} ({table.language}) has {feature!r} on no query"
                + (f" ({why})" if why else "")
                + "; leave this feature out of the suite, or give what it needs"
            )


def mean_features(values: Floats, counts: NDArray[np.int32]) -> Floats:
    """Means ``(draws, features)`` of ``values (queries, features)``, given ``counts``.

    ``counts (draws, queries)`` says how often a draw holds each query. Where a draw happens to
    hold no query that has a feature, the mean over all queries stands in.
    """
    present = ~np.isnan(values)
    total = counts @ np.where(present, values, 0.0)
    count = counts @ present.astype(np.float64)
    overall = np.broadcast_to(np.nanmean(values, axis=0), total.shape)
    return np.asarray(np.divide(total, count, out=overall.copy(), where=count > 0))
