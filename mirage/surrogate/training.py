"""Training data of a surrogate: features and logits of models in tournaments.

A tournament is a bootstrap sample of the queries. The logits of a tournament are fitted to the
judgments on its queries.
"""

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


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The features of models in one language, and their logits in each tournament.

    A tournament is a bootstrap sample of the queries.

    Attributes:
        language: ISO 639-1 code.
        models: Names of the models, in the order of all arrays.
        features: Names of the features, in the order of the last axis of ``values`` and of
            :attr:`X`.
        query_ids: Ids of the queries from which tournaments are drawn.
        values: Each feature of each response, of shape ``(models, queries, features)``; NaN if
            missing.
        counts: Number of times that each tournament drew each query, of shape ``(tournaments,
            queries)``.
        y: Logit of each model in each tournament, of shape ``(tournaments, models)``.
        facts: Range, direction and requirements of user-defined features by name; see
            :class:`FeatureTable`.
        groups: Group of each model, such as a kind of fault; models of one group are held out
            together. Empty if every model is its own group.
        clusters: Cluster of each query if tournaments draw whole clusters, as in
            :class:`mirage.arena.Tournaments`; empty if every query is its own cluster.
        judgments: Verdicts to which the logits were fitted, with the same models and queries in the
            same order; ``None`` if they are not available.
        unbound: Names of models whose logits are not reliable. In at least half of the
            tournaments, these models won every judgment, lost every judgment or had none; see
            :attr:`mirage.arena.Tournaments.unbound`.
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
        """The sign of each feature's effect on the logit.

        1 means that a higher value of the feature must not lower the logit, and -1 that it must not
        raise the logit. 0 means that the sign is unknown.
        """
        signs = {True: 1, False: -1, None: 0}
        feature_facts = (facts(name, self.facts) for name in self.features)
        return [signs[entry.higher_is_better(self.language)] for entry in feature_facts]

    def group(self, row: int) -> str:
        """Return the group of a model, which is its name if models have no groups.

        Models of one group are held out together.

        Args:
            row: Index of the model.
        """
        return self.groups[row] if self.groups else self.models[row]

    @cached_property
    def X(self) -> Floats:
        """Mean features of each model over the queries of each tournament.

        The array has the shape ``(tournaments, models, features)``. Together with :attr:`y`, it has
        the training rows of Algorithm 1 of MIRAGE-Bench (arXiv 2410.13716).
        """
        return np.stack([mean_features(values, self.counts) for values in self.values], axis=1)

    @cached_property
    def mean_X(self) -> Floats:
        """Mean features over all queries, of shape ``(models, features)``."""
        return np.asarray(np.nanmean(self.values, axis=1))

    @cached_property
    def mean_y(self) -> Floats:
        """Mean logits over the tournaments, of shape ``(models,)``."""
        return np.asarray(self.y.mean(axis=0))

    @cached_property
    def draws(self) -> Floats:
        """Random draws of the logits, of shape ``(tournaments, models)``.

        They are the logits in the tournaments, spread further apart to correct for small samples
        (:func:`mirage.statistics.bootstrap.widened`). The ends of a confidence interval are
        percentiles of these draws.
        """
        return widened(self.y, self.counts, self.clusters)

    def table(self, row: int) -> FeatureTable:
        """Return the feature table of the model with the index ``row``."""
        names, values = (self.query_ids, self.features), self.values[row]
        return FeatureTable(self.models[row], self.language, *names, values, facts=self.facts)

    def of(self, models: Iterable[str]) -> TrainingData:
        """Return a copy with only the given models, in the order of this object."""
        members = set(models)
        rows = [i for i, model in enumerate(self.models) if model in members]
        part = replace(
            self,
            models=tuple(self.models[i] for i in rows),
            values=self.values[rows],
            y=self.y[:, rows],
            groups=tuple(self.groups[i] for i in rows) if self.groups else (),
            judgments=None if self.judgments is None else _restrict_judgments(self.judgments, rows),
            unbound=tuple(model for model in self.unbound if model in members),
        )
        # Copy cached properties, because computing them again for each fold is slow.
        part.__dict__.update(X=np.ascontiguousarray(self.X[:, rows]), mean_X=self.mean_X[rows])
        return part

    def without(self, models: Iterable[str]) -> TrainingData:
        """Return a copy without the given models."""
        return self.of(set(self.models).difference(models))


def training_data(
    tables: Sequence[FeatureTable],
    tournaments: Tournaments | Mapping[str, Tournaments],
    groups: Mapping[str, str] = MappingProxyType({}),
    judgments: JudgmentsLike | Mapping[str, JudgmentsLike] | None = None,
) -> dict[str, TrainingData]:
    """Combine feature tables, tournaments and judgments into training data for each language.

    Args:
        tables: One table of features for every model of the tournaments.
        tournaments: Tournaments, or a mapping from language to tournaments.
        groups: Group of each model, such as its kind of fault. Models of one group are held out
            together. By default every model is its own group.
        judgments: Verdicts to which the tournaments were fitted, or a mapping from language to
            verdicts.

    Returns:
        The training data of each language, by ISO 639-1 code.

    Raises:
        FeatureError: If the tables do not all have the same features, or a model has no value of
            some feature on any query. (:meth:`mirage.SurrogateRanker.fit` leaves out the language
            instead.) Also if the tables are in several languages, but tournaments or judgments are
            not passed by language.
        JudgmentError: If none of the models of the tournaments has a table.
        UnknownNameError: If a model or query of the tournaments has no features, or if a judgment
            is on a model or query that the tournaments do not have.
    """
    data, left_out = data_and_left_out(tables, tournaments, groups, judgments)
    for reason in left_out.values():
        raise FeatureError(reason)
    return data


def data_and_left_out(
    tables: Sequence[FeatureTable],
    tournaments: Tournaments | Mapping[str, Tournaments],
    groups: Mapping[str, str] = MappingProxyType({}),
    judgments: JudgmentsLike | Mapping[str, JudgmentsLike] | None = None,
) -> tuple[dict[str, TrainingData], dict[str, str]]:
    """Return the training data by language, and the reasons why other languages are left out.

    A language is left out if its tables do not have exactly the features that are most common among
    the languages. It is also left out if a model has no value of some feature on any query. Both
    results are mappings whose keys are language codes.

    Args:
        tables: One table of features for every model of the tournaments.
        tournaments: Tournaments, or a mapping from language to tournaments.
        groups: Group of each model, such as its kind of fault.
        judgments: Verdicts to which the tournaments were fitted, or a mapping from language to
            verdicts.

    Raises:
        FeatureError: If every language is left out, or if the tables are in several languages, but
            tournaments or judgments are not passed by language.
        JudgmentError: If none of the models of the tournaments has a table.
        UnknownNameError: If a model or query of the tournaments has no features, or if a judgment
            is on a model or query that the tournaments do not have.
    """
    by_language: dict[str, list[FeatureTable]] = {}
    for table in tables:
        by_language.setdefault(table.language, []).append(table)
    if not by_language:
        raise FeatureError("no feature table was passed; training needs one per model")
    tournaments_by_language = _require_by_language(
        tournaments, Tournaments, "tournaments", by_language
    )
    judgments_by_language = (
        {} if judgments is None else _judgments_by_language(judgments, by_language)
    )
    features = _most_common_features(by_language)
    data: dict[str, TrainingData] = {}
    left_out: dict[str, FeatureError] = {}
    for code, language_tables in by_language.items():
        try:
            part = _language_data(
                code, language_tables, tournaments_by_language[code], features, groups
            )
        except FeatureError as error:
            left_out[code] = error
        else:
            data[code] = replace(
                part,
                judgments=placed_judgments(judgments_by_language[code], part)
                if judgments_by_language
                else None,
            )
    if not data:
        raise next(iter(left_out.values()))
    return data, {code: str(error) for code, error in left_out.items()}


def _judgments_by_language(
    judgments: JudgmentsLike | Mapping[str, JudgmentsLike], by_language: Mapping[str, object]
) -> dict[str, Judgments]:
    if not isinstance(judgments, Mapping):
        judgments = as_judgments(judgments)
    mapping = _require_by_language(judgments, Judgments, "judgments", by_language)
    return {code: as_judgments(mapping[code]) for code in by_language}


def _require_by_language(
    value: Any, kind: type, noun: str, by_language: Mapping[str, object]
) -> Mapping[str, Any]:
    """Return a mapping from language to value; raise an error if a language has no value.

    A single value is accepted if all tables are in one language.

    Args:
        value: The value, or a mapping from language to value.
        kind: Type of a single value.
        noun: Name of the values in error messages.
        by_language: Mapping whose keys are the languages of the tables.
    """
    if isinstance(value, kind):
        if len(by_language) > 1:
            raise FeatureError(
                f"the tables are in several languages ({', '.join(by_language)}): "
                f"pass a mapping from language to {noun}"
            )
        value = dict.fromkeys(by_language, value)
    missing = [code for code in by_language if code not in value]
    if missing:
        raise FeatureError(
            f"no {noun} for the language {missing[0]!r} of the feature tables; pass {noun} for "
            "each of their languages"
        )
    return cast("Mapping[str, Any]", value)


def _most_common_features(by_language: Mapping[str, Sequence[FeatureTable]]) -> tuple[str, ...]:
    """Return the most common set of feature names among the languages.

    The features of a language are those of its first table. The names are in the order of the first
    language with the most common set.
    """
    first = [tables[0].features for tables in by_language.values()]
    # As sets, because the order of features may differ between languages.
    (most, _), *_ = Counter(map(frozenset, first)).most_common()
    return next(names for names in first if frozenset(names) == most)


def placed_judgments(judgments: Judgments, part: TrainingData) -> Judgments:
    """Return a copy of the judgments whose indices refer to the training data's models and queries.

    Raises:
        UnknownNameError: If the training data lacks a model or query of the judgments.
    """
    place = f"in the {part.language!r} tournaments"
    models = _indices_of(judgments.models, part.models, "model", place)
    queries = _indices_of(judgments.query_ids, part.query_ids, "query", place)
    return replace(
        judgments,
        models=part.models,
        query_ids=part.query_ids,
        query=queries[judgments.query],
        a=models[judgments.a],
        b=models[judgments.b],
    )


def _indices_of(
    names: Sequence[str], among: Sequence[str], noun: str, place: str
) -> NDArray[np.int32]:
    index = {name: i for i, name in enumerate(among)}
    for name in names:
        if name not in index:
            raise UnknownNameError(noun, name, among, place)
    return np.array([index[name] for name in names], dtype=np.int32)


def _restrict_judgments(judgments: Judgments, rows: Sequence[int]) -> Judgments:
    """Return the judgments between the models at the indices ``rows``.

    In the result, these models are numbered from 0 in the order of ``rows``.
    """
    new_index = np.full(len(judgments.models), -1, dtype=np.int32)
    new_index[rows] = np.arange(len(rows))
    a, b = new_index[judgments.a], new_index[judgments.b]
    both = (a >= 0) & (b >= 0)
    return replace(
        judgments,
        models=tuple(judgments.models[i] for i in rows),
        query=judgments.query[both],
        a=a[both],
        b=b[both],
        score=judgments.score[both],
    )


def _language_data(
    code: str,
    tables: Sequence[FeatureTable],
    tournaments: Tournaments,
    features: tuple[str, ...],
    groups: Mapping[str, str],
) -> TrainingData:
    by_model = {table.model: table for table in tables}
    values = []
    user_facts: dict[str, Facts] = {}
    require_models(tournaments.models, tuple(by_model), f"{code!r} feature table")
    for model in tournaments.models:
        table = by_model[model]
        if set(table.features) == set(features):
            table = table.columns(features)
        else:
            raise FeatureError(
                f"all models must have the same features; model {model!r} ({code}) has "
                f"{', '.join(table.features)}, expected {', '.join(features)}"
            )
        require_values(table)
        values.append(table.select(tournaments.query_ids).values)
        user_facts |= table.facts
    return TrainingData(
        code,
        tournaments.models,
        features,
        tournaments.query_ids,
        np.stack(values),
        tournaments.counts,
        tournaments.logits,
        user_facts,
        tuple(groups.get(model, model) for model in tournaments.models) if groups else (),
        tournaments.clusters,
        unbound=tournaments.unbound,
    )


def require_models(judged: Sequence[str], available: Sequence[str], noun: str) -> None:
    """Raise an error if a judged model is missing.

    Args:
        judged: Names of the judged models.
        available: Names of the models that are available.
        noun: Noun that the error message uses for the missing data, such as ``feature table``.

    Raises:
        JudgmentError: If none of the judged models is available.
        UnknownNameError: If some of the judged models are not available.
    """
    missing = [model for model in judged if model not in available]
    if missing and len(missing) == len(judged):
        raise JudgmentError(
            f"the names of models do not match: the judgments are of {_format_names(judged)}, but "
            f"the {noun}s are of {_format_names(available)}; use the model names of the judgments "
            "(NAME=FILE on the command line)"
        )
    if missing:
        raise UnknownNameError("judged model", missing[0], available, f"among the {noun}s")


def _format_names(names: Sequence[str], most: int = 10) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return (", ".join(map(repr, names[:most])) or "none") + more


def require_values(table: FeatureTable) -> None:
    """Raise a FeatureError, with the reason, if a feature of a model has no value on any query."""
    for feature, mean in zip(table.features, table.mean(), strict=True):
        if np.isnan(mean):
            reason = next(
                (text for (_, name), text in table.reasons.items() if name == feature), ""
            )
            raise FeatureError(
                f"model {table.model!r} ({table.language}) has no value of {feature!r} on any query"
                + (f" ({reason})" if reason else "")
                + "; remove this feature from the suite, or provide the data that it needs"
            )


def mean_features(values: Floats, counts: NDArray[np.int32]) -> Floats:
    """Return the mean of each feature in each draw of queries, of shape ``(draws, features)``.

    If a feature has no value on any query of a draw, its mean over all queries is used.

    Args:
        values: Features of one model's responses, of shape ``(queries, features)``; NaN if missing.
        counts: Number of times that each draw contains each query, of shape ``(draws, queries)``.
    """
    present = ~np.isnan(values)
    total = counts @ np.where(present, values, 0.0)
    count = counts @ present.astype(np.float64)
    overall = np.broadcast_to(np.nanmean(values, axis=0), total.shape)
    return np.asarray(np.divide(total, count, out=overall.copy(), where=count > 0))
