"""Records from the texts that others keep: a question, what was retrieved, what is right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mirage._base.files import validated
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.integrations._scoring import response_to
from mirage.models import Query, Run

__all__ = ["query_of", "records_of"]


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
