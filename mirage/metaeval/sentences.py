"""Sentences of responses: from runs, or from files of sentences to label."""

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
from mirage.models import SETTLED, Id, LanguageCode, Name, Passage, Query, Run


class AnswerSentence(NamedTuple):
    """One sentence of a response, without labels, as a judge gets it.

    Attributes:
        query: The query that the response answers, with its passages.
        text: The sentence, without its citations.
        citations: The ids of the passages that the sentence cites. ``None`` if the whole response
            cites nothing, so that any passage of the query may support the sentence.

    Example:
        >>> passages = (Passage(id="1", text="Paris is in France."), Passage(id="2", text="Tea"))
        >>> query = Query(id="q", text="Where is Paris?", language="en", passages=passages)
        >>> [passage.id for passage in AnswerSentence(query, "In France.", ("1",)).cited]
        ['1']
    """

    query: Query
    text: str
    citations: tuple[str, ...] | None = None

    @property
    def cited(self) -> tuple[Passage, ...]:
        """The passages that should support the sentence.

        These are the cited passages or, if ``citations`` is ``None``, all passages of the query.
        """
        if self.citations is None:
            return self.query.passages
        return tuple(self.query[passage] for passage in self.citations)


def sentences_of(dataset: MirageDataset, run: Run) -> tuple[AnswerSentence, ...]:
    """Return the sentences of all answers of a run, as :func:`mirage.text.parse` splits them.

    Args:
        dataset: The dataset with the queries that the run answers.
        run: The responses of one model.

    Raises:
        UnknownNameError: The run answers a query that the dataset does not have.

    Example:
        >>> from mirage import MirageDataset, Query, Response, Run
        >>> dataset = MirageDataset([Query(id="q", text="Where is Paris?", language="en")])
        >>> responses = (Response(query_id="q", text="In France. It is old."),)
        >>> run = Run(model="m", language="en", responses=responses)
        >>> [sentence.text for sentence in sentences_of(dataset, run)]
        ['In France.', 'It is old.']
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
    """Read sentences from JSON Lines with the fields of :meth:`LabelledSentences.from_jsonl`.

    Labels are ignored.

    Args:
        path: The path of the file.
        language: The language of all sentences whose row has none.

    Raises:
        DatasetError: A row is invalid; the message names the file, the line and the field.
    """
    default, texts = _default(language), dict[tuple[str, str], str]()
    sentences = []
    for location, fields in read_rows(Path(path)):
        _check_format(fields, location)
        row = validated(_Row, {**default, **fields}, location)
        sentences.append(_sentence(row, location, texts))
    return tuple(sentences)


def write_sentences(sentences: Iterable[AnswerSentence], path: str | Path) -> None:
    """Write sentences for people to label, in the format that :func:`read_sentences` reads.

    Each row has a ``label`` that is null, for people to fill in. The ground truth of the query,
    such as its relevant passages, is not written.

    Args:
        sentences: The sentences to label.
        path: The path of the file; an existing file is replaced.

    Raises:
        DatasetError: The file cannot be written.
    """
    with replace_file(Path(path)) as file:
        for sentence in sentences:
            query = sentence.query
            row: dict[str, Any] = {
                "query_id": query.id,
                "query": query.text,
                "language": query.language,
                "passages": [
                    passage.model_dump(exclude_defaults=True) for passage in query.passages
                ],
                "sentence": sentence.text,
                "label": None,
            }
            row |= {} if sentence.citations is None else {"citations": sentence.citations}
            row |= {} if query.cluster is None else {"cluster": query.cluster}
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


_Texts = tuple[tuple[str, ...], ...]  # for each sentence, one text per annotator


class Columns(NamedTuple):
    """Sentences with their labels, one element per sentence.

    Attributes:
        sentences: The sentences.
        labels: The labels of each sentence, one per annotator.
        fine: The fine-grained labels of each sentence, one per annotator.
        settled: For each sentence, the label that settles a conflict between annotators; empty if
            there is none.
    """

    sentences: tuple[AnswerSentence, ...]
    labels: _Texts
    fine: _Texts
    settled: tuple[str, ...]


def columns_of(rows: Iterable[tuple[str, Mapping[str, Any]]], language: str | None) -> Columns:
    """Return sentences with their labels from rows of a file or a DataFrame.

    A row that names a rater has one label. Rows of several raters on the same sentence are joined.

    Args:
        rows: Pairs of the location of a row, for error messages, and its fields.
        language: The language of rows that name none; ``None`` if all rows must name one.

    Raises:
        DatasetError: A row is invalid; the message names its location and the field.
    """
    default = _default(language)
    sentences, fine = list[AnswerSentence](), list[tuple[str, ...]]()
    labels: list[dict[str, str]] = []  # by annotator
    texts: dict[tuple[str, str], str] = {}
    positions: dict[tuple[object, ...], int] = {}
    for location, fields in rows:
        _check_format(fields, location)
        row = validated(_LabelledRow, {**default, **fields}, location)
        if row.rater:
            position = positions.setdefault(row.content, len(sentences))
            if position < len(sentences):
                labels[position][row.rater] = row.label[0]
                continue
        sentences.append(_sentence(row, location, texts))
        names = [row.rater] if row.rater else map(str, range(len(row.label)))
        labels.append({name: text for name, text in zip(names, row.label, strict=True) if text})
        annotators = [i for i, label in enumerate(row.label) if label]
        fine.append(tuple(row.fine[i] for i in annotators) if any(row.fine) else ())
    settled = tuple(by_name.pop(SETTLED, "") for by_name in labels)
    return Columns(
        tuple(sentences), tuple(tuple(by_name.values()) for by_name in labels), tuple(fine), settled
    )


def _check_format(fields: Mapping[str, Any], location: str) -> None:
    """Raise an error if a row is from a file of MEMERAG, whose rows contain whole answers."""
    if {"context", "answer"} <= fields.keys() and "sentence" not in fields:
        raise DatasetError(
            f"{location}: this is a row of MEMERAG with a whole answer; pass the folder of the "
            "file (in Python LabelledSentences.memerag), or convert the file with `mirage data "
            "convert FILE --from memerag --labels FILE`"
        )


def _default(language: str | None) -> dict[str, str]:
    return {} if language is None else {"language": language}


def _sentence(row: _Row, location: str, texts: dict[tuple[str, str], str]) -> AnswerSentence:
    """Return the sentence of a row.

    The text of its query is added to ``texts``, which serves to detect different queries with the
    same id.
    """
    names = {"id": row.query_id or row.query, "language": row.language, "text": row.query}
    names |= {"cluster": row.cluster} if row.cluster else {}
    query = validated(Query, {**names, "passages": row.passages}, location)
    if texts.setdefault((query.language, query.id), query.text) != query.text:
        raise DatasetError(
            f"{location}: query {query.id!r} has a different text in an earlier row; ids must be "
            "unique"
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
    """Return a tuple with one label per annotator; a missing label is an empty string."""
    many = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return tuple(map(_label, value if many else [value]))  # type: ignore[call-overload]


def _label(value: object) -> object:
    if is_missing(value):
        return ""
    if isinstance(value, bool):
        return str(value)
    # Other values (a list, an object) stay, so that validation rejects them with their location.
    return f"{value:g}" if isinstance(value, Real) else value


class _Row(BaseModel):
    """A row of a file of sentences; see :meth:`LabelledSentences.from_jsonl` for its fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    query: Name
    passages: Annotated[tuple[Passage, ...], BeforeValidator(_as_passages)]
    sentence: Name
    language: LanguageCode
    query_id: Id | None = None
    citations: tuple[Id, ...] | None = None
    cluster: Id | None = None

    @model_validator(mode="after")
    def _check_citations(self) -> Self:
        passages = {passage.id for passage in self.passages}
        unknown = next((id_ for id_ in self.citations or () if id_ not in passages), None)
        if unknown is not None:
            raise ValueError(f"the sentence cites {unknown!r}, which is not one of its passages")
        return self


class _LabelledRow(_Row):
    """A row of a file of labels; see :meth:`LabelledSentences.from_jsonl` for its fields."""

    label: Annotated[tuple[str, ...], BeforeValidator(_as_labels)]
    fine: Annotated[tuple[str, ...], BeforeValidator(_as_labels)] = ()
    rater: str = ""
    model: str = ""

    @property
    def content(self) -> tuple[object, ...]:
        """The values that identify the labelled sentence, without the label and the rater."""
        passages = tuple((passage.id, passage.title, passage.text) for passage in self.passages)
        query = self.language, self.query_id or self.query, self.query
        return (*query, self.model, self.sentence, self.citations, passages)

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        if self.rater and (len(self.label) != 1 or self.fine):
            raise ValueError(
                f"the row of rater {self.rater!r} has {len(self.label)} labels; a row with a rater "
                "needs exactly one, and no fine-grained label"
            )
        if not any(self.label):
            raise ValueError("the sentence has no label; add one, or delete the row")
        if any(self.fine) and len(self.fine) != len(self.label):
            raise ValueError(
                f"the sentence has {len(self.fine)} fine-grained labels, but {len(self.label)} "
                "labels; every annotator needs one of each"
            )
        return self
