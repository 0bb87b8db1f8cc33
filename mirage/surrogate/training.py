"""What a surrogate learns from: features and logits of one language's models, per tournament."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats
from mirage.arena import Judgments, Tournaments
from mirage.arena.judgments import JudgmentsLike, as_judgments
from mirage.errors import FeatureError, JudgmentError, UnknownNameError
from mirage.features import Facts, FeatureTable, facts
from mirage.statistics.bootstrap import widened

__all__ = ["TrainingData", "data_and_left_out", "placed_judgments", "training_data"]


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
        clusters: the cluster of each query where tournaments draw whole clusters, as in
            :class:`mirage.Tournaments`; empty where every query is by itself.
        groups: what models have in common, such as a kind of fault, a name a model; models of one
            group are held out together. Empty where every model stands for itself.
        judgments: the verdicts behind the tournaments, with the same models and queries in the same
            order; ``None`` where they are not at hand.
        unbound: models of which the tournaments tell no distance
            (:attr:`mirage.Tournaments.unbound`).
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
    clusters: tuple[str, ...] = ()
    judgments: Judgments | None = None
    unbound: tuple[str, ...] = ()

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
        return widened(self.y, self.counts, self.clusters)

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
            judgments=None if self.judgments is None else _between(self.judgments, rows),
            unbound=tuple(model for model in self.unbound if model in members),
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
    judgments: JudgmentsLike | Mapping[str, JudgmentsLike] | None = None,
) -> dict[str, TrainingData]:
    """Put tables, ``tournaments`` and judgments together, language by language.

    What is taken and raised is as for :meth:`mirage.SurrogateRanker.fit`, but a language whose
    features do not fit is an error too.
    """
    data, left_out = data_and_left_out(tables, tournaments, groups, judgments)
    for why in left_out.values():
        raise FeatureError(why)
    return data


def data_and_left_out(
    tables: Sequence[FeatureTable],
    tournaments: Tournaments | Mapping[str, Tournaments],
    groups: Mapping[str, str] = MappingProxyType({}),
    judgments: JudgmentsLike | Mapping[str, JudgmentsLike] | None = None,
) -> tuple[dict[str, TrainingData], dict[str, str]]:
    """The data of every language, and why a language is left out, by its code.

    It is where its tables do not have the features that most languages have, or a model has one of
    these on no query.
    """
    by_language: dict[str, list[FeatureTable]] = {}
    for table in tables:
        by_language.setdefault(table.language, []).append(table)
    if not by_language:
        raise FeatureError("no feature table to learn from")
    drawn = _by_language(tournaments, Tournaments, "tournaments", by_language)
    judged = {} if judgments is None else _judged(judgments, by_language)
    features = _features_of_most(by_language)
    data: dict[str, TrainingData] = {}
    left_out: dict[str, FeatureError] = {}
    for code, of_language in by_language.items():
        try:
            part = _of_one_language(code, of_language, drawn[code], features, groups)
        except FeatureError as error:
            left_out[code] = error
        else:
            data[code] = replace(
                part, judgments=placed_judgments(judged[code], part) if judged else None
            )
    if not data:
        raise next(iter(left_out.values()))
    return data, {code: str(error) for code, error in left_out.items()}


def _judged(
    judgments: JudgmentsLike | Mapping[str, JudgmentsLike], by_language: Mapping[str, object]
) -> dict[str, Judgments]:
    if not isinstance(judgments, Mapping):
        judgments = as_judgments(judgments)
    given = _by_language(judgments, Judgments, "judgments", by_language)
    return {code: as_judgments(given[code]) for code in by_language}


def _by_language(
    given: Any, kind: type, what: str, by_language: Mapping[str, object]
) -> Mapping[str, Any]:
    """What is given for one language, or by language, for every language of the tables."""
    if isinstance(given, kind):
        if len(by_language) > 1:
            raise FeatureError(
                f"the tables are of the languages {', '.join(by_language)}: "
                f"give a mapping from language to {what}"
            )
        given = dict.fromkeys(by_language, given)
    missing = [code for code in by_language if code not in given]
    if missing:
        raise FeatureError(f"no {what} for the language {missing[0]!r} of the feature tables")
    return cast("Mapping[str, Any]", given)


def _features_of_most(by_language: Mapping[str, Sequence[FeatureTable]]) -> tuple[str, ...]:
    """The features of the first table of most languages, in the order of the first of these."""
    first = [tables[0].features for tables in by_language.values()]
    (most, _), *_ = Counter(map(frozenset, first)).most_common()
    return next(names for names in first if frozenset(names) == most)


def placed_judgments(judgments: Judgments, part: TrainingData) -> Judgments:
    """Judgments with the models and queries of the data, in its order."""
    models = _places(judgments.models, part.models, f"model of the {part.language!r} tournaments")
    queries = _places(
        judgments.query_ids, part.query_ids, f"query of the {part.language!r} tournaments"
    )
    return replace(
        judgments,
        models=part.models,
        query_ids=part.query_ids,
        query=queries[judgments.query],
        a=models[judgments.a],
        b=models[judgments.b],
    )


def _places(names: Sequence[str], among: Sequence[str], what: str) -> NDArray[np.int32]:
    place = {name: i for i, name in enumerate(among)}
    for name in names:
        if name not in place:
            raise UnknownNameError(what, name, among)
    return np.array([place[name] for name in names], dtype=np.int32)


def _between(judgments: Judgments, rows: Sequence[int]) -> Judgments:
    """The judgments between some of the models, with their places among these."""
    place = np.full(len(judgments.models), -1, dtype=np.int32)
    place[rows] = np.arange(len(rows))
    a, b = place[judgments.a], place[judgments.b]
    both = (a >= 0) & (b >= 0)
    return replace(
        judgments,
        models=tuple(judgments.models[i] for i in rows),
        query=judgments.query[both],
        a=a[both],
        b=b[both],
        score=judgments.score[both],
    )


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
    require_models(tournaments.models, tuple(by_model), f"{code!r} feature table")
    for model in tournaments.models:
        table = by_model[model]
        if set(table.features) == set(features):
            table = table.columns(features)
        else:
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
        tournaments.clusters,
        unbound=tournaments.unbound,
    )


def require_models(judged: Sequence[str], given: Sequence[str], what: str) -> None:
    """Refuse models that were judged, and of which nothing is given.

    Raises:
        JudgmentError: no name of the one is among the other; names both.
        UnknownNameError: one model has none.
    """
    missing = [model for model in judged if model not in given]
    if missing and len(missing) == len(judged):
        raise JudgmentError(
            f"the names of models do not match: judged were {_listed(judged)}, and the {what}s are "
            f"of {_listed(given)}; name these as the judgments do (--name on the command line)"
        )
    if missing:
        raise UnknownNameError(f"{what} of the judged model", missing[0], given)


def _listed(names: Sequence[str], most: int = 10) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return (", ".join(map(repr, names[:most])) or "none") + more


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
