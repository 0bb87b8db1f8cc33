"""What a surrogate learns from: features and logits of one language's models, per tournament."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mirage.arena import Tournaments
from mirage.errors import FeatureError, UnknownNameError
from mirage.features import FeatureTable

__all__ = ["TrainingData", "training_data"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """One language's models: ``X`` (tournaments, models, features), ``y`` (tournaments, models).

    A row of ``X`` is a model's mean features over the queries of one tournament, the matching
    entry of ``y`` its logit in that tournament (Algorithm 1 of the paper).
    """

    language: str
    models: tuple[str, ...]
    features: tuple[str, ...]
    X: Array
    y: Array

    def of(self, models: Iterable[str]) -> TrainingData:
        """The same data with some of the models only."""
        kept = set(models)
        rows = [i for i, model in enumerate(self.models) if model in kept]
        return replace(
            self,
            models=tuple(self.models[i] for i in rows),
            X=self.X[:, rows],
            y=self.y[:, rows],
        )

    def thinned(self, tournaments: int) -> TrainingData:
        """The same data with at most so many tournaments."""
        return replace(self, X=self.X[:tournaments], y=self.y[:tournaments])


def training_data(
    tables: Sequence[FeatureTable], tournaments: Tournaments | Mapping[str, Tournaments]
) -> dict[str, TrainingData]:
    """Put tables and tournaments together, language by language.

    ``tables`` may be of several languages; ``tournaments`` then is a mapping by language.

    Raises:
        FeatureError: a language without tournaments, tables with different features, or a feature
            that some model has on no query.
        UnknownNameError: a model of a tournament, or one of its queries, has no features.
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
        code: _of_one_language(code, group, tournaments[code], features)
        for code, group in by_language.items()
    }


def _of_one_language(
    code: str,
    tables: Sequence[FeatureTable],
    tournaments: Tournaments,
    features: tuple[str, ...],
) -> TrainingData:
    by_model = {table.model: table for table in tables}
    columns = []
    for model in tournaments.models:
        if model not in by_model:
            raise UnknownNameError(f"feature table of language {code!r} for model", model, by_model)
        table = by_model[model].select(tournaments.query_ids)
        if table.features != features:
            raise FeatureError(
                f"model {model!r} ({code}) has the features {', '.join(table.features)}; "
                f"the first table has {', '.join(features)}"
            )
        columns.append(mean_features(table, tournaments.counts))
    return TrainingData(
        code, tournaments.models, features, np.stack(columns, axis=1), tournaments.logits
    )


def mean_features(table: FeatureTable, counts: NDArray[np.int32]) -> Array:
    """Mean features ``(draws, features)`` over the drawn queries, for ``counts (draws, queries)``.

    Where a draw happens to hold no query that has a feature, the mean over all queries stands in.

    Raises:
        FeatureError: the model has some feature on no query at all; says why.
    """
    overall = table.mean()
    for feature, value in zip(table.features, overall, strict=True):
        if np.isnan(value):
            why = next((w for (_, name), w in table.reasons.items() if name == feature), "")
            raise FeatureError(
                f"model {table.model!r} ({table.language}) has {feature!r} on no query"
                + (f": {why}" if why else "")
                + "; leave this feature out of the suite, or give what it needs"
            )
    drawn = table.mean(counts)
    return np.where(np.isnan(drawn), overall, drawn)
