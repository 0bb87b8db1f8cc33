"""What other harnesses hand over, as records and back, and one response through a suite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mirage._base.passages import plain_text
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, MirageError
from mirage.features import FeatureSuite
from mirage.features.registry import feature
from mirage.languages import LANGUAGES
from mirage.models import Query, Response, Run
from mirage.sources.contexts import Asked, response_to

__all__ = [
    "Scores",
    "dataset_of",
    "records_of",
    "score",
    "suite_of",
    "wanted_names",
]

# What settings of other harnesses name ------------------------------------------------------------


def dataset_of(dataset: MirageDataset | str | None) -> MirageDataset | None:
    """A dataset that is there, or that a name (``bundled-sw``) or the path of a file stands for."""
    if dataset is None or isinstance(dataset, MirageDataset):
        return dataset
    if dataset.removeprefix("bundled-") in LANGUAGES:
        return MirageDataset.bundled(dataset.removeprefix("bundled-"))
    if not Path(dataset).is_file():
        raise DatasetError(
            f"there is no dataset {dataset!r}: name one that is bundled, such as bundled-sw, or "
            "the path of a file of queries"
        )
    return MirageDataset.from_jsonl(dataset)


def suite_of(
    features: FeatureSuite | str | Sequence[str] | None,
    dataset: MirageDataset | None,
    language: str,
) -> FeatureSuite:
    """A suite that is there, or of names, which may be parted by commas, or the offline one."""
    if isinstance(features, FeatureSuite):
        return features
    if features is None:
        suite = FeatureSuite.offline(language)
        return suite if dataset is None else suite.applicable(dataset)
    names = features.split(",") if isinstance(features, str) else features
    return FeatureSuite([name.strip() for name in names], language)


def wanted_names(suite: FeatureSuite) -> list[str] | None:
    """The names that say which features these are; ``None`` where one is somebody's own."""

    def named(item: object, name: str) -> bool:
        try:
            return type(item) is type(feature(name))
        except MirageError:
            return False

    ours = all(named(item, item.name) for item in suite)
    return list(suite.names) if ours else None


# Queries and their responses ----------------------------------------------------------------------


def records_of(
    answers: Iterable[tuple[Asked, str | None]],
    *,
    model: str,
    name: str,
    error: str,
    dataset: MirageDataset | None = None,
) -> tuple[MirageDataset, Run]:
    """A dataset and a run on it; ``error`` says why there is no text where it is ``None``.

    With ``dataset``, that is it: a query is the one of the same text there, and what was retrieved
    are its passages of the same texts, or else passages of the response's own.
    """
    rows = list(answers)
    if dataset is None:
        dataset = MirageDataset((asked.query for asked, _ in rows), name=name)
    else:
        rows = [(_placed(asked, dataset, f"{name} {n}"), t) for n, (asked, t) in enumerate(rows, 1)]
    responses = tuple(_response(asked, text, dataset, error) for asked, text in rows)
    return dataset, Run(model=model, language=dataset.language, responses=responses)


def _response(asked: Asked, text: str | None, dataset: MirageDataset, error: str) -> Response:
    query = dataset[asked.query.id]
    own = [passage for passage in asked.query.passages if passage.id not in query.passage_ids]
    shown = None if asked.shown in ((), query.passage_ids) else asked.shown
    return response_to(query.id, text, error=error, shown=shown, passages=own)


def _placed(asked: Asked, dataset: MirageDataset, where: str) -> Asked:
    """A query and what was shown for it, by the ids of a dataset."""
    same = [query for query in dataset if plain_text(query.text) == plain_text(asked.query.text)]
    if len(same) != 1:
        raise DatasetError(
            f"{where}: {len(same) or 'no'} queries of {dataset.name} ask {asked.query.text!r}; "
            "samples are matched with queries by their texts"
        )
    known = {plain_text(passage.text): passage.id for passage in same[0].passages}
    new = {
        passage.id: known.get(plain_text(passage.text), f"retrieved-{passage.id}")
        for passage in asked.query.passages
    }
    passages = (p.model_copy(update={"id": new[p.id]}) for p in asked.query.passages)
    once = {passage.id: passage for passage in passages}
    query = same[0].model_copy(update={"passages": tuple(once.values())})
    return Asked(query, tuple(new.get(id_, id_) for id_ in asked.shown))


# One response -------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """The features of one response: values of those computed, and why the others were not."""

    values: dict[str, float]
    reasons: dict[str, str]


def score(suite: FeatureSuite, query: Query, response: Response) -> Scores:
    """Score one response exactly as :meth:`mirage.FeatureSuite.score` does."""
    run = Run(model="model", language=query.language, responses=(response,))
    dataset = MirageDataset([query], name=f"query {query.id!r}")
    table = suite.score(dataset, run, progress=False)
    reasons = {feature: why for (_, feature), why in table.reasons.items()}
    row = zip(table.features, table.values[0].tolist(), strict=True)
    return Scores({name: value for name, value in row if name not in reasons}, reasons)
