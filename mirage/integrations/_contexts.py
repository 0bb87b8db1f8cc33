"""What other harnesses hand over, as records, and one response at a time through a suite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mirage._base.files import validated
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.features import FeatureSuite
from mirage.models import Query, Response, Run

__all__ = ["Scores", "query_of", "records_of", "response_to", "score"]


def records_of(
    answers: Iterable[tuple[Query, str | None]], *, model: str, name: str, error: str
) -> tuple[MirageDataset, Run]:
    """A dataset and a run on it; ``error`` says why there is no text where it is ``None``."""
    rows = list(answers)
    dataset = MirageDataset((query for query, _ in rows), name=name)
    responses = tuple(response_to(query, text, error=error) for query, text in rows)
    return dataset, Run(model=model, language=dataset.language, responses=responses)


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
) -> Query:
    """A query that shows the retrieved texts, in their order.

    Texts without ids get their numbers, from 1, so that ``[1]`` is the first. Relevant are the
    retrieved texts that are among the relevant texts, letter for letter, unless ids say so.
    Relevant texts that were not retrieved count as missed: ``unretrieved-1`` and so on.
    """
    texts = tuple(retrieved or ())
    ids = [str(number) for number in retrieved_ids or range(1, len(texts) + 1)]
    if retrieved_ids and texts and len(ids) != len(texts):
        raise DatasetError(f"{where}: {len(texts)} retrieved texts have {len(ids)} ids")
    row = {
        "id": id,
        "language": language,
        "text": text,
        "passages": [{"id": id_, "text": t} for id_, t in zip(ids, texts, strict=False)],
        "relevant": list(map(str, relevant_ids or ())) or _ids_of(relevant or (), texts, ids),
        "reference": reference,
    }
    return validated(Query, row, where)


def _ids_of(relevant: Sequence[str], texts: Sequence[str], ids: Sequence[str]) -> list[str]:
    id_of = dict(zip(reversed(texts), reversed(ids), strict=True))  # of equal texts, the first
    return [id_of.get(text, f"unretrieved-{n}") for n, text in enumerate(relevant, 1)]


# One response -------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """The features of one response: values of those computed, and why the others were not."""

    values: dict[str, float]
    reasons: dict[str, str]


def response_to(
    query: Query, text: str | None, *, error: str, shown: Sequence[str] | None = None
) -> Response:
    """The response to a query; ``error`` says why there is none, where ``text`` is ``None``.

    ``shown`` are the passage ids in the prompt's order, where that is not the query's.
    """
    return Response(
        query_id=query.id,
        text=text,
        error=error if text is None else None,
        shown=None if shown is None else tuple(shown),
    )


def score(suite: FeatureSuite, query: Query, response: Response) -> Scores:
    """Score one response exactly as :meth:`mirage.FeatureSuite.score` does."""
    run = Run(model="model", language=query.language, responses=(response,))
    dataset = MirageDataset([query], name=f"query {query.id!r}")
    table = suite.score(dataset, run, progress=False)
    reasons = {feature: why for (_, feature), why in table.reasons.items()}
    row = zip(table.features, table.values[0].tolist(), strict=True)
    return Scores({name: value for name, value in row if name not in reasons}, reasons)
