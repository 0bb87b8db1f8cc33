"""Helper functions that convert samples of other tools and score single responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mirage._base.passages import plain_text
from mirage.dataset import LEVELS, MirageDataset
from mirage.errors import DatasetError, MirageError
from mirage.features import FeatureSuite
from mirage.features.registry import feature
from mirage.languages import LANGUAGES
from mirage.models import Query, Response, Run
from mirage.sources.contexts import Asked, response_to

# Datasets and features by name --------------------------------------------------------------------


def dataset_of(dataset: MirageDataset | str | None) -> MirageDataset | None:
    """Return a dataset, given as an object, a name such as ``bundled-sw``, or a file path.

    If ``dataset`` is ``None``, the result is ``None``.
    """
    if dataset is None or isinstance(dataset, MirageDataset):
        return dataset
    # Language codes alone are accepted too, so the prefix is optional.
    code, _, level = dataset.removeprefix("bundled-").partition("-")
    if code in LANGUAGES and level in ("", *LEVELS):
        return MirageDataset.bundled(code, level=level or "quick")
    if not Path(dataset).is_file():
        raise DatasetError(
            f"there is no dataset {dataset!r}; pass the name of a bundled dataset, such as "
            "bundled-sw, or the path of a file of queries"
        )
    return MirageDataset.load(dataset)


def suite_of(
    features: FeatureSuite | str | Sequence[str] | None,
    dataset: MirageDataset | None,
    language: str,
) -> FeatureSuite:
    """Return the suite of the features that a user passed, as a suite or by name.

    Args:
        features: A suite, a list of feature names, or names separated by commas. ``None`` means
            the offline features that can be computed on ``dataset``.
        dataset: The dataset, or ``None``.
        language: ISO 639-1 code of the language that a new suite is for.
    """
    if isinstance(features, FeatureSuite):
        return features
    if features is None:
        suite = FeatureSuite.default(language)
        return suite if dataset is None else suite.applicable(dataset)
    names = features.split(",") if isinstance(features, str) else features
    return FeatureSuite([name.strip() for name in names], language)


def wanted_names(suite: FeatureSuite) -> list[str] | None:
    """Return the names of a suite's features, or ``None`` if names are not enough to rebuild it.

    A user-defined feature, or a feature with changed settings, cannot be rebuilt from its name.
    """

    def is_described(item: object, name: str) -> bool:
        try:
            # A feature of the user may have the name of a built-in feature.
            return type(item) is type(feature(name))
        except MirageError:
            return False

    are_described = all(is_described(item, item.name) for item in suite)
    return list(suite.names) if are_described else None


# Queries and their responses ----------------------------------------------------------------------


def records_of(
    answers: Iterable[tuple[Asked, str | None]],
    *,
    model: str,
    name: str,
    error: str,
    dataset: MirageDataset | None = None,
) -> tuple[MirageDataset, Run]:
    """Convert samples of another tool to a dataset and a run.

    If ``dataset`` is passed, the function returns it, and the run contains responses to its
    queries. Samples are matched with queries, and their passages with the query's passages, by
    their texts. Passages without a match are stored in the response.

    Args:
        answers: Pairs of a sample's query and the text of its response; the text is ``None`` if
            there is no response.
        model: Name of the run.
        name: Name of the dataset, also used in error messages.
        error: The error to store for queries without a response.
        dataset: The dataset that the samples were made from; ``None`` builds a dataset from their
            queries.
    """
    rows = list(answers)
    if dataset is None:
        dataset = MirageDataset((sample.query for sample, _ in rows), name=name)
    else:
        rows = [
            (_match_query(sample, dataset, f"{name} {n}"), t)
            for n, (sample, t) in enumerate(rows, 1)
        ]
    responses = tuple(_response(sample, text, dataset, error) for sample, text in rows)
    return dataset, Run(model=model, language=dataset.language, responses=responses)


def _response(sample: Asked, text: str | None, dataset: MirageDataset, error: str) -> Response:
    query = dataset[sample.query.id]
    extra = [passage for passage in sample.query.passages if passage.id not in query.passage_ids]
    shown_ids = None if sample.shown in ((), query.passage_ids) else sample.shown
    return response_to(query.id, text, error=error, shown=shown_ids, passages=extra)


def _match_query(sample: Asked, dataset: MirageDataset, where: str) -> Asked:
    """Return a sample in which the query and its passages have their ids in the dataset.

    The ids of passages that the query does not have in the dataset get the prefix ``retrieved-``.
    ``where`` names the sample in the error message.
    """
    same = [query for query in dataset if plain_text(query.text) == plain_text(sample.query.text)]
    if len(same) != 1:
        raise DatasetError(
            f"{where}: {len(same) or 'no'} queries of {dataset.name} have the text "
            f"{sample.query.text!r}; samples are matched with queries by the text of the query, "
            "so exactly one query must have this text"
        )
    ids_by_text = {plain_text(passage.text): passage.id for passage in same[0].passages}
    new_ids = {
        passage.id: ids_by_text.get(plain_text(passage.text), f"retrieved-{passage.id}")
        for passage in sample.query.passages
    }
    passages = (p.model_copy(update={"id": new_ids[p.id]}) for p in sample.query.passages)
    # Two retrieved texts may equal one passage of the query.
    unique = {passage.id: passage for passage in passages}
    query = same[0].model_copy(update={"passages": tuple(unique.values())})
    return Asked(query, tuple(new_ids.get(id_, id_) for id_ in sample.shown))


# One response -------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """The features of one response.

    Attributes:
        values: Values of the computed features by name.
        reasons: Reasons why the other features were not computed, by name.
    """

    values: dict[str, float]
    reasons: dict[str, str]


def score(suite: FeatureSuite, query: Query, response: Response) -> Scores:
    """Return the features of one response, computed as :meth:`mirage.FeatureSuite.score` does."""
    run = Run(model="model", language=query.language, responses=(response,))
    dataset = MirageDataset([query], name=f"query {query.id!r}")
    # A dataset of one query reuses all checks and reasons of the suite.
    table = suite.score(dataset, run, progress=False)
    reasons = {feature: why for (_, feature), why in table.reasons.items()}
    row = zip(table.features, table.values[0].tolist(), strict=True)
    return Scores({name: value for name, value in row if name not in reasons}, reasons)
