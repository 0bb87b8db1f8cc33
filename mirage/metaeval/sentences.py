"""Sentences of responses, as judges get them, and from rows of a team's own labels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from mirage._base.files import read_rows, replace_file, validated
from mirage._base.rows import is_missing
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.features.base import answered
from mirage.models import Id, LanguageCode, Name, Passage, Query, Run

__all__ = ["AnswerSentence", "columns_of", "read_sentences", "sentences_of", "write_sentences"]


class AnswerSentence(NamedTuple):
    """One sentence of a response, as a judge gets it: without the labels that people gave it.

    Attributes:
        query: the query that the response answers, with its passages.
        text: the sentence, without its citations.
        citations: ids of the passages that it cites, ``None`` where the response cites none
            throughout, so that all passages of the query may carry it.
    """

    query: Query
    text: str
    citations: tuple[str, ...] | None = None

    @property
    def cited(self) -> tuple[Passage, ...]:
        """The passages that should carry the sentence: those it cites, or all of the query's."""
        if self.citations is None:
            return self.query.passages
        return tuple(self.query[passage] for passage in self.citations)


def sentences_of(dataset: MirageDataset, run: Run) -> tuple[AnswerSentence, ...]:
    """The sentences of all answers of a run, as :func:`mirage.text.parse` splits them.

    Raises:
        UnknownNameError: the run answers a query that the dataset does not have.
    """
    sentences = []
    for response in run:
        if response.error is None:
            query = dataset[response.query_id]
            parsed = answered(query, response).parsed
            for sentence in parsed.sentences:
                cited = sentence.citations if parsed.citations else None
                sentences.append(AnswerSentence(query, sentence.text, cited))
    return tuple(sentences)


def read_sentences(path: str | Path, *, language: str | None = None) -> tuple[AnswerSentence, ...]:
    """Sentences in JSON Lines, with the fields of :meth:`LabelledSentences.from_jsonl` but labels.

    A label that stands there is not looked at.

    Args:
        path: the file.
        language: of all sentences that do not name one.

    Raises:
        DatasetError: names the file, the line and the field.
    """
    default, texts = _default(language), dict[tuple[str, str], str]()
    return tuple(
        _sentence(validated(_Row, {**default, **fields}, where), where, texts)
        for where, fields in read_rows(Path(path))
    )


def write_sentences(sentences: Iterable[AnswerSentence], path: str | Path) -> None:
    """Write sentences for people to label, as :func:`read_sentences` reads them.

    Each has a ``label`` that is null. What is known of the query's truth is not written.

    Args:
        sentences: to be labelled.
        path: the file; an older one is replaced.

    Raises:
        DatasetError: the file cannot be written.
    """
    with replace_file(Path(path)) as file:
        for sentence in sentences:
            query = sentence.query
            row: dict[str, Any] = {
                "query_id": query.id,
                "query": query.text,
                "language": query.language,
                "passages": [one.model_dump(exclude_defaults=True) for one in query.passages],
                "sentence": sentence.text,
                "label": None,
            }
            row |= {} if sentence.citations is None else {"citations": sentence.citations}
            row |= {} if query.cluster is None else {"cluster": query.cluster}
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


_Texts = tuple[tuple[str, ...], ...]  # for each sentence one an annotator


def columns_of(
    rows: Iterable[tuple[str, Mapping[str, Any]]], language: str | None
) -> tuple[tuple[AnswerSentence, ...], _Texts, _Texts]:
    """Sentences, labels and fine-grained labels of :meth:`LabelledSentences.from_jsonl`'s rows.

    Raises:
        DatasetError: names the place of the row, and the field that is wrong.
    """
    default = _default(language)
    sentences, labels, fine = [], [], []
    texts: dict[tuple[str, str], str] = {}
    for where, fields in rows:
        row = validated(_LabelledRow, {**default, **fields}, where)
        sentences.append(_sentence(row, where, texts))
        annotators = [i for i, label in enumerate(row.label) if label]
        labels.append(tuple(row.label[i] for i in annotators))
        fine.append(tuple(row.fine[i] for i in annotators) if any(row.fine) else ())
    return tuple(sentences), tuple(labels), tuple(fine)


def _default(language: str | None) -> dict[str, str]:
    return {} if language is None else {"language": language}


def _sentence(row: _Row, where: str, texts: dict[tuple[str, str], str]) -> AnswerSentence:
    """The sentence of a row; ``texts`` are those of the queries before, and has this one after."""
    names = {"id": row.query_id or row.query, "language": row.language, "text": row.query}
    names |= {"cluster": row.cluster} if row.cluster else {}
    query = validated(Query, {**names, "passages": row.passages}, where)
    if texts.setdefault((query.language, query.id), query.text) != query.text:
        raise DatasetError(
            f"{where}: query {query.id!r} has another text than before; ids are unique"
        )
    return AnswerSentence(query, row.sentence, row.citations)


def _as_passages(value: object) -> object:
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return tuple(
            {"id": number, "text": passage} if isinstance(passage, str) else passage
            for number, passage in enumerate(value, 1)
        )
    return value


def _as_labels(value: object) -> object:
    """One label an annotator, as texts; an annotator without a label has the empty text."""
    many = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return tuple(map(_label, value if many else [value]))  # type: ignore[call-overload]


def _label(value: object) -> object:
    if is_missing(value):
        return ""
    if isinstance(value, bool):
        return str(value)
    # What is no label (a list, an object) stays, and is refused with the place it stands in.
    return f"{value:g}" if isinstance(value, Real) else value


class _Row(BaseModel):
    """A row of a file of sentences."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    query: Name
    passages: Annotated[tuple[Passage, ...], BeforeValidator(_as_passages)]
    sentence: Name
    language: LanguageCode
    query_id: Id | None = None
    citations: tuple[Id, ...] | None = None
    cluster: Id | None = None

    @model_validator(mode="after")
    def _cites_what_is_there(self) -> Self:
        passages = {passage.id for passage in self.passages}
        unknown = next((id_ for id_ in self.citations or () if id_ not in passages), None)
        if unknown is not None:
            raise ValueError(f"the sentence cites {unknown!r}, which is none of its passages")
        return self


class _LabelledRow(_Row):
    """A row of a file of labels."""

    label: Annotated[tuple[str, ...], BeforeValidator(_as_labels)]
    fine: Annotated[tuple[str, ...], BeforeValidator(_as_labels)] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not any(self.label):
            raise ValueError("the sentence has no label; leave it out, or label it")
        if any(self.fine) and len(self.fine) != len(self.label):
            raise ValueError(
                f"{len(self.fine)} fine-grained labels beside {len(self.label)} labels; there has "
                "to be one of each from every annotator"
            )
        return self
