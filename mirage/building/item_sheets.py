"""Sheets for people who write test items: the passages worth asking about, and room beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mirage._base.files import read_rows, validated, write_bytes, write_records
from mirage._base.inputs import read_text
from mirage._base.journal import Journal
from mirage._base.logs import logger
from mirage._base.quoting import csv_text, read_csv
from mirage.building.askable import Askable, askable_passages, corpus_of
from mirage.building.item_checks import Draft, Fault, ItemKind
from mirage.building.item_questions import Asker, Slot, Told
from mirage.building.test_sets import (
    ITEM_KINDS,
    ItemSet,
    Making,
    Plan,
    RejectedItem,
    beside,
    check_plan,
    clustered,
    prepared,
    quota_of,
)
from mirage.corpus import Corpus
from mirage.corpus.documents import CHUNK
from mirage.errors import DatasetError
from mirage.languages import Language
from mirage.llm import LLM
from mirage.models import Forms, Id, Passage
from mirage.retrieval import BM25

__all__ = ["SheetRow", "build_from_sheet", "item_sheet", "read_sheet", "write_sheet"]

_LOG = logger("mirage.building")


class SheetRow(Draft):
    """Passages to ask about, and an item once somebody has written it.

    Attributes:
        id: of the item.
        kind: what to ask for.
        passages: the ids of the passages; a citation ``[1]`` is the first of them.
        text: the passages, to read; it is not read back.
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
    """An empty sheet, with the passages that :func:`build_test_set` would ask about; no LLM.

    Args:
        documents: see :func:`~mirage.building.corpus_of`.
        language: of the documents and of the items.
        items: rows of the sheet; fewer where there are fewer passages worth asking about.
        kinds: the share of each kind of item.
        size: words a passage.
        overlap: words that a passage repeats from the one before it.
        seed: of the order of documents.
        progress: show a progress bar on stderr, if that is a terminal.

    Raises:
        DatasetError: as :func:`build_test_set`.
        SettingError: as :func:`build_test_set`.
        UnknownNameError: as :func:`build_test_set`.
    """
    check_plan(items, kinds, 2)
    entry = Language.of(language)
    index, askable = prepared(documents, entry, size, overlap, seed, progress)
    rows = (
        SheetRow(
            id=slot.id,
            kind=slot.kind,
            passages=tuple(passage.id for passage in slot.passages),
            text="\n\n".join(
                f"[{n}] {passage.titled_text}" for n, passage in enumerate(slot.passages, 1)
            ),
        )
        for slot in Plan(askable, index).wave(quota_of(kinds, items))
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
    """Check the items of a sheet as :func:`build_test_set` checks those of an LLM.

    Rows that nobody filled in are listed among the rejected items and are not counted as wanted.
    Wrong answers and a reference may be missing; all passages of such a row are relevant. If there
    is an LLM, it answers each question with the shown passages and without them.

    Args:
        rows: the sheet.
        documents: those that the sheet was made from.
        language: of the documents and of the items.
        llm: answers the questions; ``None`` leaves that check out.
        shown: passages an item shows.
        size: words a passage, as when the sheet was made.
        overlap: words that a passage repeats, as when the sheet was made.
        out: the file of the dataset; see :func:`build_test_set`.
        progress: show progress bars on stderr, if that is a terminal.

    Raises:
        DatasetError: a row names a passage that the documents do not have, two rows have the same
            id, or a row is half filled in; and as :func:`build_test_set`.
        LLMError: there is no key for OpenAI.
        UnknownNameError: no such language.
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
    with Journal(journal_path, Told) as journal:
        asker = None if llm is None else Asker(llm, journal, progress)
        made = Making(asker, index, entry, shown, complete=False)
        made.check(drafts)
    result = ItemSet(
        clustered(made.queries),
        (*made.rejected, *empty),
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
            f"row {row.id!r} of the sheet has {problem}; fill in what is missing, or empty the row "
            "to leave it out"
        )


def _is_filled(cell: str | tuple[Forms, ...]) -> bool:
    return bool(cell.strip() if isinstance(cell, str) else cell)


def _slots(rows: Sequence[SheetRow], corpus: Corpus) -> Iterable[Slot]:
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise DatasetError(f"the sheet holds row {row.id!r} twice; ids are unique")
        seen.add(row.id)
        missing = next((id_ for id_ in row.passages if id_ not in corpus), None)
        if missing is not None or not row.passages:
            raise DatasetError(
                f"row {row.id!r} of the sheet is about passage {missing!r}, which the documents do "
                "not have; give those, and the --size and --overlap, that the sheet was made with"
            )
        yield Slot(row.id, row.kind, tuple(corpus.get_many(row.passages)))


# Files --------------------------------------------------------------------------------------------

_COLUMNS = ("id", "kind", "passages", "text", *Draft.model_fields)
_FORMS = ("answers", "wrong_answers")


def write_sheet(rows: Iterable[SheetRow], path: str | Path) -> None:
    """Write a sheet: CSV, for spreadsheet programs, if the name ends in it, and else JSON Lines.

    In CSV each line of a cell is one answer, whose forms are separated by ``|``. A text that a
    spreadsheet program would take for a formula, such as ``=1+1``, has an apostrophe in front, also
    behind a semicolon, a tab or a line end; :func:`read_sheet` removes it.

    Args:
        rows: The rows of the sheet.
        path: The file to write.

    Raises:
        DatasetError: The file cannot be written, or exists already: it may be filled in.
    """
    place = Path(path)
    if place.exists():
        raise DatasetError(f"{place}: is there already, and may be filled in; name another file")
    if place.suffix.lower() != ".csv":
        write_records(rows, place)
        return
    text = csv_text(_COLUMNS, map(_cells, rows))
    # Excel reads UTF-8 as such only behind a byte order mark.
    write_bytes(place, text.encode("utf-8-sig"))


def _cells(row: SheetRow) -> list[str]:
    cells = {name: getattr(row, name) for name in _COLUMNS}
    forms = {name: "\n".join(" | ".join(each) for each in cells[name]) for name in _FORMS}
    return list((cells | forms | {"passages": "\n".join(row.passages)}).values())


def read_sheet(path: str | Path) -> tuple[SheetRow, ...]:
    """Read a sheet that :func:`write_sheet` wrote and somebody filled in.

    Rows of a CSV file whose cells are all empty are skipped; a warning says how many there were.

    Raises:
        DatasetError: The file cannot be read; the message names the row and the field.
    """
    place = Path(path)
    if place.suffix.lower() != ".csv":
        return tuple(validated(SheetRow, row, where) for where, row in read_rows(place))
    rows, blank = [], 0
    for number, cells in enumerate(read_csv(read_text(place), str(place)), 1):
        where = f"{place}, row {number}"
        if not any(cell.strip() for cell in cells.values()):
            blank += 1
            continue
        try:
            known = {name: cells[name] for name in _COLUMNS}
        except KeyError as error:
            raise DatasetError(f"{where}: there is no column {error}") from None
        forms = {
            name: [
                [form.strip() for form in line.split("|") if form.strip()]
                for line in known[name].splitlines()
                if line.strip(" |")
            ]
            for name in _FORMS
        }
        ids = [line for line in known["passages"].splitlines() if line]
        rows.append(validated(SheetRow, known | forms | {"passages": ids}, where))
    if blank:
        _LOG.warning("%s: skipped %d blank rows", place, blank)
    return tuple(rows)
