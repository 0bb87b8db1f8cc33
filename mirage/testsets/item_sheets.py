"""Sheets for people who write test items: each row has passages and empty fields for an item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mirage._base.files import read_rows, validated, write_bytes, write_records
from mirage._base.inputs import read_text
from mirage._base.journal import Journal
from mirage._base.logs import logger
from mirage._base.quoting import csv_text, read_csv
from mirage.corpus import Corpus
from mirage.corpus.documents import CHUNK
from mirage.errors import DatasetError
from mirage.languages import Language
from mirage.llm import LLM
from mirage.models import Forms, Id, Passage
from mirage.retrieval import BM25
from mirage.testsets.askable import Askable, askable_passages, corpus_of
from mirage.testsets.item_checks import Draft, Fault, ItemKind
from mirage.testsets.item_questions import Asker, LLMReply, Slot
from mirage.testsets.item_sets import ItemSet, RejectedItem, beside
from mirage.testsets.test_sets import (
    ITEM_KINDS,
    ItemBuilder,
    SlotQueue,
    assign_clusters,
    check_plan,
    prepare_index,
    quota_of,
)

_LOG = logger("mirage.testsets")


class SheetRow(Draft):
    """A row of a sheet: passages to ask about, and the item that somebody writes about them.

    Attributes:
        id: The id of the item.
        kind: The kind of item to write.
        passages: The ids of the passages; a citation ``[1]`` refers to the first of them.
        text: The text of the passages, for the writer. Changes to it are ignored.
    """

    id: Id
    kind: ItemKind = "single"
    passages: tuple[Id, ...]
    text: str = ""


def item_sheet(
    documents: Corpus | str | Path | Iterable[Passage] | Sequence[str | Path],
    *,
    language: str,
    items: int = 50,
    kinds: Mapping[ItemKind, float] = ITEM_KINDS,
    size: int = CHUNK,
    overlap: int = 0,
    seed: int = 0,
    progress: bool = True,
) -> tuple[tuple[SheetRow, ...], Askable]:
    """Return an empty sheet with the passages that :func:`build_test_set` would ask about.

    Args:
        documents: The documents: a corpus, paths of files, or passages; see
            :func:`~mirage.testsets.corpus_of`.
        language: ISO 639-1 code of the documents and of the items.
        items: Number of rows; fewer if there are fewer passages worth asking about.
        kinds: Relative share of each kind of item; the shares need not add up to 1.
        size: Number of words per passage, if documents are split.
        overlap: Number of words that a passage repeats from the previous one.
        seed: Random seed for the order of documents.
        progress: Whether to show a progress bar on stderr, if stderr is a terminal.

    Returns:
        The rows of the sheet, and the passages worth asking about.

    Raises:
        DatasetError: If the documents cannot be read, or no passage is worth asking about.
        SettingError: If ``items`` is out of range, or no kind has a share.
        UnknownNameError: If the language or a kind is unknown.
    """
    check_plan(items, kinds, 2)
    entry = Language.of(language)
    index, askable = prepare_index(documents, entry, size, overlap, seed, progress)
    rows = (
        SheetRow(
            id=slot.id,
            kind=slot.kind,
            passages=tuple(passage.id for passage in slot.passages),
            text="\n\n".join(
                f"[{n}] {passage.titled_text}" for n, passage in enumerate(slot.passages, 1)
            ),
        )
        for slot in SlotQueue(askable, index).next_slots(quota_of(kinds, items))
    )
    return tuple(rows), askable


def build_from_sheet(
    rows: Iterable[SheetRow],
    documents: Corpus | str | Path | Iterable[Passage] | Sequence[str | Path],
    *,
    language: str,
    llm: LLM | None = None,
    shown: int = 5,
    size: int = CHUNK,
    overlap: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> ItemSet:
    """Build a test set from a sheet, with the checks of :func:`build_test_set`.

    Empty rows are listed among the rejected items and do not count as requested. Wrong answers and
    a reference are optional. Without a reference, all passages of the row are relevant. If an LLM
    is given, it answers each question twice: from the passages that the item shows, and without
    passages.

    Args:
        rows: The rows of the sheet.
        documents: The documents that the sheet was created from.
        language: ISO 639-1 code of the documents and of the items.
        llm: The LLM that answers the questions; ``None`` skips this check.
        shown: Number of passages that an item shows.
        size: Number of words per passage; must be the value that the sheet was created with.
        overlap: Number of words that a passage repeats from the previous one; must be the value
            that the sheet was created with.
        out: The file of the dataset. The rejected items and, if an LLM is given, its replies are
            written to files beside it. With ``None``, nothing is written.
        progress: Whether to show progress bars on stderr, if stderr is a terminal.

    Raises:
        DatasetError: If the documents do not have a passage of a row, two rows have the same id, a
            row is incomplete, no item passed, or a file cannot be written.
        LLMError: If OpenAI is called without an API key.
        UnknownNameError: If the language is unknown.
    """
    entry = Language.of(language)
    corpus = corpus_of(documents, entry, size=size, overlap=overlap)
    index = BM25.build(corpus, language=entry.code, progress=progress)
    sheet = list(rows)
    _check_half_filled(sheet)
    drafts, empty = [], []
    for row, slot in zip(sheet, _slots(sheet, corpus), strict=True):
        if row.question.strip():
            draft = Draft.model_validate(row.model_dump(include=set(Draft.model_fields)))
            drafts.append((slot, draft))
        else:
            fault = Fault(kind="not filled in")
            empty.append(
                RejectedItem(id=row.id, kind=row.kind, faults=(fault,), passages=row.passages)
            )
    journal_path = None if out is None or llm is None else beside(Path(out), "journal")
    with Journal(journal_path, LLMReply) as journal:
        asker = None if llm is None else Asker(llm, journal, progress)
        builder = ItemBuilder(asker, index, entry, shown, complete=False)
        builder.check(drafts)
    result = ItemSet(
        assign_clusters(builder.queries),
        (*builder.rejected, *empty),
        askable_passages(corpus, entry),
        len(drafts),
        entry.code,
    )
    if out is not None:
        result.write(out)
    return result


def _check_half_filled(rows: Iterable[SheetRow]) -> None:
    for row in rows:
        filled = [name for name in Draft.model_fields if _is_filled(getattr(row, name))]
        if filled and "question" not in filled:
            problem = f"{' and '.join(filled)} but no question"
        elif filled and "answers" not in filled and row.kind != "near_miss":
            problem = "a question but no answers"
        else:
            continue
        raise DatasetError(
            f"row {row.id!r} of the sheet has {problem}; complete the row, or clear all of its "
            "cells to leave it out"
        )


def _is_filled(cell: str | tuple[Forms, ...]) -> bool:
    return bool(cell.strip() if isinstance(cell, str) else cell)


def _slots(rows: Sequence[SheetRow], corpus: Corpus) -> Iterable[Slot]:
    ids: set[str] = set()
    for row in rows:
        if row.id in ids:
            raise DatasetError(
                f"the sheet has two rows with the id {row.id!r}; give each row its own id"
            )
        ids.add(row.id)
        missing = next((id_ for id_ in row.passages if id_ not in corpus), None)
        if missing is not None or not row.passages:
            raise DatasetError(
                f"row {row.id!r} of the sheet is about passage {missing!r}, which the documents "
                "do not contain; use the same documents, size and overlap as for creating the "
                "sheet"
            )
        yield Slot(row.id, row.kind, tuple(corpus.get_many(row.passages)))


# Files --------------------------------------------------------------------------------------------

_COLUMNS = ("id", "kind", "passages", "text", *Draft.model_fields)
_FORMS = ("answers", "wrong_answers")


def write_sheet(rows: Iterable[SheetRow], path: str | Path) -> None:
    """Write a sheet as CSV if the file name ends in ``.csv``, or else as JSON Lines.

    In CSV, the cells for answers and wrong answers have one answer per line; ``|`` separates
    alternative spellings of an answer. A text that a spreadsheet program would read as a formula,
    such as ``=1+1``, gets an apostrophe in front. So does such a text within a cell, after a
    semicolon, a tab or a line end. :func:`read_sheet` removes the apostrophes.

    Args:
        rows: The rows of the sheet.
        path: The file to write.

    Raises:
        DatasetError: If the file cannot be written, or exists already. An existing sheet may
            contain entries of people, so it is not replaced.
    """
    file = Path(path)
    if file.exists():
        raise DatasetError(
            f"{file}: the file exists already and may contain entries of people; use another file "
            "name"
        )
    if file.suffix.lower() != ".csv":
        write_records(rows, file)
        return
    text = csv_text(_COLUMNS, map(_csv_cells, rows))
    # Excel recognizes UTF-8 only if the file starts with a byte order mark.
    write_bytes(file, text.encode("utf-8-sig"))


def _csv_cells(row: SheetRow) -> list[str]:
    cells = {name: getattr(row, name) for name in _COLUMNS}
    forms = {name: "\n".join(" | ".join(each) for each in cells[name]) for name in _FORMS}
    return list((cells | forms | {"passages": "\n".join(row.passages)}).values())


def read_sheet(path: str | Path) -> tuple[SheetRow, ...]:
    """Read a sheet that :func:`write_sheet` wrote and somebody filled in.

    The columns of CSV may be separated by commas, semicolons or tabs. CSV rows whose cells are all
    empty are skipped; a warning says how many.

    Args:
        path: The file of the sheet: CSV if its name ends in ``.csv``, otherwise JSON Lines.

    Raises:
        DatasetError: If the file cannot be read; the message names the row and the field.
    """
    file = Path(path)
    if file.suffix.lower() != ".csv":
        return tuple(validated(SheetRow, row, where) for where, row in read_rows(file))
    rows, blank_count = [], 0
    for number, cells in enumerate(read_csv(read_text(file), str(file)), 1):
        where = f"{file}, row {number}"
        if not any(cell.strip() for cell in cells.values()):
            blank_count += 1
            continue
        try:
            columns = {name: cells[name] for name in _COLUMNS}
        except KeyError as error:
            raise DatasetError(f"{where}: column {error} is missing") from None
        forms = {
            name: [
                [form.strip() for form in line.split("|") if form.strip()]
                for line in columns[name].splitlines()
                if line.strip(" |")
            ]
            for name in _FORMS
        }
        ids = [line for line in columns["passages"].splitlines() if line]
        rows.append(validated(SheetRow, columns | forms | {"passages": ids}, where))
    if blank_count:
        _LOG.warning("%s: %d blank rows were skipped", file, blank_count)
    return tuple(rows)
