"""Questions with short answers, in the formats of published datasets.

The formats are ``answers`` (JSON Lines with a question and its answers), ``kilt``
(:mod:`mirage.sources.kilt`), ``mkqa``, ``xor-tydi`` and ``beir``. All answers that a row lists are
accepted spellings (forms) of one answer; each of them is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

from mirage._base.files import rows_of, table_rows, validated
from mirage._base.logs import logger
from mirage._base.rows import check_new_query, list_in_text, value_at
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.languages import Language
from mirage.models import Query
from mirage.sources import kilt
from mirage.sources.trec import read_qrels

__all__ = ["FORMS", "answers", "beir", "mkqa", "queries", "xor_tydi"]

_LOG = logger("mirage.sources")

IDS = ("id", "query_id", "_id", "qid", "question_id", "example_id")
QUESTIONS = ("question", "query", "text", "input")
ANSWERS = ("answers", "answer", "golden_answers", "possible_answers", "labels")
LANGUAGE = ("language", "lang")

CONTEXTS = ("passages", "passage", "contexts", "context")
"""Fields that often contain passages; they are only read if ``fields`` names them."""

FIELDS = {
    "id": IDS,
    "question": QUESTIONS,
    "answers": ANSWERS,
    "language": LANGUAGE,
    "reference": ("reference",),
    "choices": (),
    "passages": (),
}
"""Names that each field of a query may have in rows of the format ``answers``, by field."""


def queries(
    path: str | Path | Sequence[Path],
    form: str,
    *,
    language: str | None = None,
    qrels: str | Path | None = None,
    fields: Mapping[str, str] | None = None,
    where: Mapping[str, object] | None = None,
    paragraphs: bool = False,
    judged: bool = False,
) -> Iterator[Query]:
    """Yield the queries of a file or of a BEIR folder.

    Args:
        path: File (JSON Lines, gzipped or not, or Parquet; for ``answers`` also CSV or TSV), or
            several files. For BEIR, the folder.
        form: Name of the format, one of :data:`FORMS`.
        language: ISO 639-1 code of the queries that name no language. If a file of the format
            ``mkqa`` or ``xor-tydi`` has several languages, only queries in this language are read.
        qrels: File of relevance judgments, which are used instead of those in ``path``. It has
            lines in the format of TREC or BEIR, or is a KILT file (``.jsonl``). For example, the
            judgments in KILT's Natural Questions apply to MKQA, which has the same query ids.
        fields: Names of fields in the rows, such as ``{"answers": "correct_answers"}``; see
            :func:`answers`.
        where: Values that the fields of a row must have for the row to be read, such as
            ``{"label": 1}``; see :func:`answers`.
        paragraphs: Whether to read the relevant paragraphs of KILT files instead of pages; see
            :func:`mirage.sources.kilt.queries`.
        judged: Whether to leave out queries that do not occur in ``qrels``, as BERGEN does with
            MKQA.

    Raises:
        DatasetError: If a row is not valid; the message names the file and the line.
        SettingError: If the format requires a language, if ``fields`` or ``where`` is passed for
            another format than ``answers``, if ``paragraphs`` is set without a KILT file, or if
            ``judged`` is set without ``qrels``.
        UnknownNameError: If there is no such format, language or field.
    """
    if form not in FORMS:
        raise UnknownNameError("format", form, FORMS, "of questions and answers")
    code = None if language is None else Language.of(language).code
    # Files in these formats do not name a language, or have several.
    if code is None and form in ("mkqa", "xor-tydi", "beir"):
        raise SettingError(f"queries in the format {form!r} need a language")
    if (fields or where) and form != "answers":
        raise SettingError(
            "fields= and where= can only be used with the format 'answers', got the format "
            f"{form!r}"
        )
    if judged and qrels is None:
        raise SettingError(
            "judged=True leaves out queries that are not in the qrels, so pass qrels="
        )
    is_kilt = form == "kilt" if qrels is None else _is_kilt(Path(qrels))
    if paragraphs and not is_kilt:
        raise SettingError(
            "paragraphs=True needs relevant passages from a KILT file; use the format 'kilt', or "
            "pass a KILT file as qrels="
        )
    relevance = None if qrels is None else relevance_grades(Path(qrels), paragraphs)
    paths = [Path(path)] if isinstance(path, str | Path) else path
    if form == "answers":
        rows = answers(paths, code, fields, where)
    elif form == "kilt":
        rows = chain.from_iterable(
            kilt.queries(each, code or "en", paragraphs=paragraphs and qrels is None)
            for each in paths
        )
    else:
        rows = chain.from_iterable(FORMS[form](each, code) for each in paths)
    for query in rows:
        if relevance is None:
            yield query
        elif not judged or query.id in relevance:
            grades = relevance.get(query.id, {})
            relevant = tuple(id_ for id_, grade in grades.items() if grade > 0)
            yield query.model_copy(update={"relevant": relevant})


def answers(
    path: str | Path | Sequence[Path],
    language: str | None = None,
    fields: Mapping[str, str] | None = None,
    where: Mapping[str, object] | None = None,
) -> Iterator[Query]:
    """Yield the queries of plain rows with an id, a question and its answers.

    Fields may have any of several common names: ``id`` (or ``query_id``, ``_id``, ``qid``,
    ``question_id``, ``example_id``), ``question`` (or ``query``, ``text``, ``input``) and
    ``answers`` (or ``answer``, ``golden_answers``, ``possible_answers``, ``labels``). Answers are a
    text, a list of forms of one answer, or a list of such lists for several answers. A text that is
    a list in the notation of JSON or Python is read as this list; an example is
    ``possible_answers`` of PopQA (Mallen et al. 2023, arXiv 2212.10511).

    Other names are passed as ``fields``. A name with dots, such as ``qa_pairs.short_answers``, is a
    path into nested objects; in a list of objects, it selects the field of each object. A name with
    braces joins fields, such as ``{title}: {question}``. If ``fields`` is set and rows have no id,
    the id is the number of the row, counted from 0.

    If ``where`` is set, rows with the same id become one query, and their answers become forms of
    one answer. In WikiQA, for example, such rows contain the sentences that answer one question.

    If ``fields`` has ``choices``, the query is a multiple-choice question, as in MMLU (Hendrycks et
    al. 2021, arXiv 2009.03300): the choices follow the question, one per line. The field of the
    answer contains the right choice as its number, counted from 0, as its letter, or as its text.
    The other choices become wrong answers of the query.

    If ``fields`` has ``passages``, such as ``{"passages": "context"}``, the query shows these
    passages: a text, a list of texts, or a list of objects with the fields of
    :class:`~mirage.Passage`. Passages without an id are named after the query and numbered, as
    ``q7#0``. A warning names a field ``context`` or ``passages`` that is not read.

    A row may name its language in ``language`` or ``lang``. If ``fields`` is not set, a row with
    ``language`` and ``text`` is read as a query in the format of this library. In that format, a
    flat list means several answers, and a warning says so.

    Args:
        path: File of JSON Lines, Parquet, CSV or TSV (with a header), or several files.
        language: ISO 639-1 code of rows that name no language.
        fields: Names of fields in the rows. The keys are ``id``, ``question``, ``answers``,
            ``language``, ``reference`` (a complete answer), ``choices`` and ``passages``.
        where: Values that the fields of a row must have for the row to be read. A text with ``*``
            is a pattern as for file names, such as ``{"id": "arabic-*"}``.

    Raises:
        DatasetError: If a row is not valid or has no language; the message names the file and the
            line.
        UnknownNameError: If ``fields`` has an unknown key.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "qa.jsonl")
        ...     _ = path.write_text('{"id": "1", "question": "Who?", "answers": ["Ada", "A. L."]}')
        ...     [query.answers for query in answers(path, "en")]
        [(('Ada', 'A. L.'),)]
    """
    for name in fields or {}:
        if name not in FIELDS:
            raise UnknownNameError("query field", name, FIELDS)
    paths = [Path(path)] if isinstance(path, str | Path) else path
    rows = chain.from_iterable(map(rows_of, paths))
    if where is None:
        places: dict[str, str] = {}
        for number, (place, row) in enumerate(rows):
            query = _query(place, row, number, language, fields)
            check_new_query(query.id, places, place, _field_of(row, "id", fields))
            yield query
        return
    merged: dict[str, Query] = {}
    for number, (place, row) in enumerate(rows):
        if all(_matches(value_at(row, name, place), value) for name, value in where.items()):
            query = _query(place, row, number, language, fields)
            earlier = merged.setdefault(query.id, query)
            if earlier.text != query.text:
                raise DatasetError(
                    f"{place}: query {query.id!r} has a different text in an earlier row; query "
                    "ids must be unique"
                )
            forms = dict.fromkeys(form for each in (earlier, query) for form in _forms(each))
            if earlier is not query and forms:
                merged[query.id] = earlier.model_copy(update={"answers": (tuple(forms),)})
    yield from merged.values()


def _forms(query: Query) -> Iterator[str]:
    return chain.from_iterable(query.answers)


def _matches(value: object, pattern: object) -> bool:
    """Return whether a field's value equals ``pattern``.

    If ``pattern`` is a text with ``*``, the value must match it, as for file names.
    """
    if isinstance(pattern, str) and "*" in pattern:
        return isinstance(value, str) and fnmatchcase(value, pattern)
    return value == pattern


def _query(
    where: str,
    row: Mapping[str, Any],
    number: int,
    language: str | None,
    fields: Mapping[str, str] | None,
) -> Query:
    """Convert a row of the format ``answers`` to a query.

    ``number`` is the index of the row, which becomes the id of the query if the row has none.
    """
    if not fields and {"language", "text"} <= row.keys():
        return validated(Query, dict(row), where)

    def value(name: str, default: Any = None) -> Any:
        if fields and name in fields:
            return value_at(row, fields[name], where)
        return _first_value(row, FIELDS[name], where, default)

    if number == 0 and "passages" not in (fields or {}):
        _warn_of_contexts(where, row)
    names = {name: _field_of(row, name, fields) for name in FIELDS}
    content = {
        "id": value("id", str(number) if fields else None),
        "language": value("language", language),
        "text": value("question"),
    }
    if fields and "choices" in fields:
        content |= _choice_question(
            content["text"], value("choices"), value("answers"), where, names
        )
    else:
        content["answers"] = _answers(value("answers", []), where, names["answers"])
    if fields and "reference" in fields:
        content["reference"] = value("reference")
    if fields and "passages" in fields:
        content["passages"] = _passages(
            value("passages"), content["id"], f"{where}, field {names['passages']!r}"
        )
    return validated(Query, content, where, names | {"text": names["question"]})


def _warn_of_contexts(where: str, row: Mapping[str, Any]) -> None:
    name = next((name for name in CONTEXTS if isinstance(row.get(name), str | list)), None)
    if name is not None:
        _LOG.warning(
            "%s: the field %r is not read; MirageDataset.from_qa reads passages from it with "
            "fields={'passages': %r}",
            where,
            name,
            name,
        )


def _passages(value: Any, query_id: Any, where: str) -> list[dict[str, Any]]:
    """Return the passages of a row as dictionaries; ``value`` is the content of their field."""
    listed = list_in_text(value, str | dict)
    passages = [listed] if isinstance(listed, str) else listed or []
    if not isinstance(passages, list) or not all(isinstance(p, str | dict) for p in passages):
        raise DatasetError(f"{where}: expected a text, a list of texts or a list of passages")
    texts = [{"text": p} if isinstance(p, str) else p for p in passages if p]
    return [{"id": f"{query_id}#{i}", **text} for i, text in enumerate(texts)]


def _field_of(row: Mapping[str, Any], name: str, fields: Mapping[str, str] | None) -> str:
    """Return the name that a field of a query has in a row of the format ``answers``."""
    if fields and name in fields:
        return fields[name]
    return next((each for each in FIELDS[name] if row.get(each) is not None), name)


def _choice_question(
    question: Any, choices: Any, answer: Any, where: str, names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the text, the answers and the wrong answers of a multiple-choice question.

    ``answer`` names the right choice by its number, counted from 0, its letter or its text.
    ``names`` are the names of the fields in the file, for error messages.
    """
    if not isinstance(choices, list) or not all(isinstance(each, str) for each in choices):
        raise DatasetError(f"{where}: field {names['choices']!r}: expected a list of texts")
    number = answer
    if isinstance(answer, str):
        letters = [chr(ord("A") + index) for index in range(len(choices))]
        forms = choices if answer in choices else letters
        number = forms.index(answer) if answer in forms else None
    if not isinstance(number, int) or not 0 <= number < len(choices):
        raise DatasetError(
            f"{where}: field {names['answers']!r}: expected one of the {len(choices)} choices, "
            f"given by its number (from 0), letter or text; got {answer!r}"
        )
    right = choices[number]
    return {
        "text": "\n".join((str(question), *(f"- {choice}" for choice in choices))),
        "answers": [[right]],
        "wrong_answers": [[each] for each in dict.fromkeys(choices) if each != right],
    }


def mkqa(path: str | Path, language: str) -> Iterator[Query]:
    """Yield the queries of MKQA (Longpre et al. 2021, arXiv 2007.15207) in one language.

    The texts and aliases of all answers to a question are forms of one answer. A question is not
    answerable if all of its answers have the type ``unanswerable``. If the answer is a long text,
    which MKQA does not provide, the query has no answers and ``answerable`` is ``None``.

    Args:
        path: Path of the file ``mkqa.jsonl.gz``.
        language: ISO 639-1 code.

    Raises:
        DatasetError: If a row is not valid or lacks the language; the message names the file and
            the line.
    """
    places: dict[str, str] = {}
    for where, row in table_rows(Path(path)):
        texts, answers_by_language = row.get("queries"), row.get("answers")
        if not isinstance(texts, dict) or not isinstance(answers_by_language, dict):
            raise DatasetError(
                f"{where}: fields 'queries' and 'answers' must be objects whose keys are languages"
            )
        # Chinese has the keys zh_cn, zh_hk and zh_tw.
        keys = [key for key in sorted(texts) if key.split("_")[0] == language]
        if not keys:
            raise DatasetError(
                f"{where}: the row has no query in {language!r}, only in {', '.join(texts)}"
            )
        entries = answers_by_language.get(keys[0])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise DatasetError(f"{where}: field 'answers.{keys[0]}': expected a list of objects")
        forms_by_entry = [[entry.get("text"), *(entry.get("aliases") or ())] for entry in entries]
        forms = list(dict.fromkeys(form for texts in forms_by_entry for form in texts if form))
        fields = {
            "id": row.get("example_id"),
            "language": language,
            "text": texts[keys[0]],
            "answers": [forms] if forms else [],
            "answerable": False if _is_unanswerable(entries) else None,
        }
        names = {"id": "example_id", "text": f"queries.{keys[0]}"}
        query = validated(Query, fields, where, names)
        check_new_query(query.id, places, where, "example_id")
        yield query


def xor_tydi(path: str | Path, language: str) -> Iterator[Query]:
    """Yield the queries of XOR-TyDi QA (Asai et al. 2021, arXiv 2010.11856) in one language.

    Test sets have no answers.

    Args:
        path: Path of the file, such as ``xor_dev_full_v1_1.jsonl``.
        language: ISO 639-1 code.

    Raises:
        DatasetError: If a row is not valid; the message names the file and the line.
    """
    places: dict[str, str] = {}
    for where, row in table_rows(Path(path)):
        if _first_value(row, ("lang",), where) == language:
            fields = {
                "id": _first_value(row, ("id",), where),
                "language": language,
                "text": _first_value(row, ("question",), where),
                "answers": _answers(row.get("answers", []), where),
            }
            query = validated(Query, fields, where, {"text": "question"})
            check_new_query(query.id, places, where)
            yield query


def beir(folder: str | Path, language: str) -> Iterator[Query]:
    """Yield the queries of the test set in a BEIR folder (Thakur et al. 2021, arXiv 2104.08663).

    The queries and their relevance judgments are in the files ``queries.jsonl`` and
    ``qrels/test.tsv``. Queries without a judgment are left out. :meth:`mirage.Corpus.build` reads
    the file ``corpus.jsonl``.

    Args:
        folder: Path of the folder.
        language: ISO 639-1 code of the queries.

    Raises:
        DatasetError: If a row is not valid; the message names the file and the line.
    """
    folder = Path(folder)
    judged = read_qrels(folder / "qrels" / "test.tsv")
    path = next((p for p in sorted(folder.glob("queries.jsonl*"))), folder / "queries.jsonl")
    places: dict[str, str] = {}
    for where, row in table_rows(path):
        query_id = str(_first_value(row, ("_id", "id"), where))
        if query_id in judged:
            relevant = [id_ for id_, grade in judged[query_id].items() if grade > 0]
            text = _first_value(row, ("text",), where)
            fields = {"id": query_id, "language": language, "text": text, "relevant": relevant}
            query = validated(Query, fields, where)
            check_new_query(query.id, places, where, "_id")
            yield query


def _is_kilt(path: Path) -> bool:
    return path.name.endswith((".jsonl", ".jsonl.gz"))


def relevance_grades(path: Path, paragraphs: bool = False) -> Mapping[str, Mapping[str, int]]:
    """Return the grades in a file of relevance judgments, by query id and passage id.

    Args:
        path: Path of a file in the format of TREC or BEIR, or of a KILT file.
        paragraphs: Whether a KILT file names paragraphs instead of pages.

    Raises:
        DatasetError: If a row is not valid; the message names the file and the line.
    """
    return kilt.qrels(path, paragraphs=paragraphs) if _is_kilt(path) else read_qrels(path)


def _first_value(
    row: Mapping[str, Any], names: tuple[str, ...], where: str, default: Any = None
) -> Any:
    """Return the value of the first field in ``names`` that a row has.

    Raises:
        DatasetError: If the row has none of the fields, and there is no default.
    """
    value = next((row[name] for name in names if row.get(name) is not None), default)
    if value is None:
        raise DatasetError(
            f"{where}: field {names[0]!r} is missing; the row has the fields {', '.join(row)}"
        )
    return value


def _answers(value: Any, where: str, field: str = "answers") -> list[list[str]]:
    """Return the answers, each as a list of its forms; a text or a flat list is one answer.

    ``field`` is the name of the field in the file, for error messages.
    """
    value = list_in_text(value, str | list)
    if isinstance(value, str) and not value.strip():
        return []  # an empty cell of a CSV file
    listed = [value] if isinstance(value, str | int | float) else value
    if not isinstance(listed, list):
        raise DatasetError(f"{where}: field {field!r}: expected a text or a list of texts")
    nested = listed if any(isinstance(each, list) for each in listed) else [listed]
    forms = [[str(form) for form in each if form is not None] for each in nested]
    return [each for each in forms if each]


def _is_unanswerable(entries: list[dict[str, Any]]) -> bool:
    return bool(entries) and all(entry.get("type") == "unanswerable" for entry in entries)


def _kilt(path: Path, language: str | None) -> Iterator[Query]:
    return kilt.queries(path, language or "en")


FORMS: Mapping[str, Callable[[Path, Any], Iterator[Query]]] = {
    "answers": answers,
    "kilt": _kilt,
    "mkqa": mkqa,
    "xor-tydi": xor_tydi,
    "beir": beir,
}
"""Functions that read the formats, by name; their arguments are a path and an ISO 639-1 code."""
