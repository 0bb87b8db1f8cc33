"""What other harnesses hand over, as records and back, and one response through a suite."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mirage._base.files import validated
from mirage._base.logs import logger
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, MirageError
from mirage.features import FeatureSuite
from mirage.features.registry import feature
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response, Run

__all__ = [
    "Asked",
    "Scores",
    "dataset_of",
    "query_of",
    "records_of",
    "response_to",
    "score",
    "suite_of",
    "wanted_names",
]

_LOG = logger("mirage.integrations")


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


class Asked(NamedTuple):
    """A query, and the ids of what was retrieved by position; some may be there twice."""

    query: Query
    shown: tuple[str, ...]


def query_of(
    where: str,
    *,
    id: str,
    language: str,
    text: object,
    retrieved: Sequence[str] | None,
    reference: str | None,
    relevant: Sequence[str] | None,
    retrieved_ids: Sequence[str | int] | None = None,
    relevant_ids: Sequence[str | int] | None = None,
) -> Asked:
    """A query that shows the retrieved texts, in their order.

    Texts without ids get their numbers, from 1, so that ``[1]`` is the first. A text that was
    retrieved twice is one passage, whichever of its positions is cited. Texts are equal that
    differ in blanks or Unicode's form alone (NFKC).

    Relevant are the retrieved texts that are among the relevant ones, unless ids say so. Relevant
    texts that were not retrieved count as missed: ``unretrieved-1`` and so on. A warning is logged
    where it is not clear which text is meant.
    """
    texts = tuple(retrieved or ())
    ids = [str(number) for number in retrieved_ids or range(1, len(texts) + 1)]
    if retrieved_ids and texts and len(ids) != len(texts):
        raise DatasetError(f"{where}: {len(texts)} retrieved texts have {len(ids)} ids")
    shown = tuple(ids) if retrieved_ids else _by_text(texts, ids)
    passages = dict(zip(reversed(shown), reversed(texts), strict=False))  # of one id, the first
    row = {
        "id": id,
        "language": language,
        "text": text,
        "passages": [{"id": id_, "text": passages[id_]} for id_ in dict.fromkeys(shown) if texts],
        "relevant": list(map(str, relevant_ids or ()))
        or _ids_of(relevant or (), texts, shown, where),
        "reference": reference,
    }
    return Asked(validated(Query, row, where), shown)


def _by_text(texts: Sequence[str], ids: Sequence[str]) -> tuple[str, ...]:
    """The id of each text; of equal texts, that of the first."""
    first: dict[str, str] = {}
    return tuple(first.setdefault(_plain(t), id_) for t, id_ in zip(texts, ids, strict=True))


def _ids_of(
    relevant: Sequence[str], texts: Sequence[str], ids: Sequence[str], where: str
) -> list[str]:
    ids_by_text: dict[str, list[str]] = defaultdict(list)
    for text, id_ in zip(texts, ids, strict=False):
        if id_ not in ids_by_text[_plain(text)]:
            ids_by_text[_plain(text)].append(id_)
    found = []
    for number, text in enumerate(map(_plain, relevant), 1):
        same = ids_by_text.get(text, [])
        if len(same) > 1:
            _LOG.warning(
                "%s: relevant text %d was retrieved under the ids %s; the first is taken for it",
                where, number, ", ".join(same),
            )  # fmt: skip
        elif not same and any(text in other or other in text for other in ids_by_text if other):
            _LOG.warning(
                "%s: relevant text %d is no retrieved text, but a part of one or one of it; it "
                "counts as missed (give ids to say which passages are relevant)",
                where, number,
            )  # fmt: skip
        found.append(same[0] if same else f"unretrieved-{number}")
    return list(dict.fromkeys(found))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def response_to(
    query_id: str,
    text: str | None,
    *,
    error: str,
    shown: Sequence[str] | None = None,
    passages: Sequence[Passage] = (),
) -> Response:
    """The response to a query; ``error`` says why there is none, where ``text`` is ``None``.

    ``shown`` are the passage ids in the prompt's order, where that is not the query's, and
    ``passages`` those of them that the query lacks.
    """
    return Response(
        query_id=query_id,
        text=text,
        error=error if text is None else None,
        shown=None if shown is None else tuple(shown),
        passages=tuple(passages),
    )


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
    same = [query for query in dataset if _plain(query.text) == _plain(asked.query.text)]
    if len(same) != 1:
        raise DatasetError(
            f"{where}: {len(same) or 'no'} queries of {dataset.name} ask {asked.query.text!r}; "
            "samples are matched with queries by their texts"
        )
    known = {_plain(passage.text): passage.id for passage in same[0].passages}
    new = {
        passage.id: known.get(_plain(passage.text), f"retrieved-{passage.id}")
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
