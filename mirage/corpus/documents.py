"""Reading documents from folders of text, HTML, PDF, Word, JSON Lines and Parquet files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from mirage._base.files import table_rows, validated
from mirage._base.inputs import files_below, matching_files, read_bytes
from mirage._base.logs import logger
from mirage._base.rows import PASSAGE_NAMES, value_at
from mirage.corpus._formats import FORMATS, parse_file
from mirage.corpus._structure import assemble
from mirage.corpus.chunking import Spans, Unit, chunk
from mirage.errors import DatasetError, UnknownNameError
from mirage.models import Passage

_LOG = logger("mirage.corpus")

CHUNK = 100
"""Default number of words per passage of a text file."""

TEXT = tuple(FORMATS)
"""Extensions of files that contain one document each."""

ROWS = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
"""Extensions of files with one document per row."""


def read_documents(source: str | Path, *, paragraphs: bool = False) -> Iterator[Passage]:
    """Read the documents or passages of a file, a folder, or all files that match a pattern.

    A file of plain text (``.txt``), Markdown (``.md``), reStructuredText (``.rst``), HTML
    (``.html``), PDF (``.pdf``) or Word (``.docx``) is one document. Its id is its path relative to
    the folder. Its title is its first heading of level 1, otherwise the title in its metadata,
    otherwise its file name. Text that a browser or Word hides is left out.

    Each row of JSON Lines (``.jsonl``, ``.jsonl.gz``) and Parquet is a document, with ``id`` (or
    ``_id``, ``docid``, ``wikipedia_id``), ``text`` (or ``contents``, ``content``, ``body``) and
    ``title``; other fields are ignored. A text may also be a list of paragraphs, as in KILT; the
    paragraphs are then joined to one text. KILT's list items (``BULLET::::``) are left out, as in
    BERGEN, and the mark ``Section::::`` is removed from headings.

    Files are read in the order of their names. Files of other formats in a folder, and PDF pages
    without text, are skipped; a warning states how many.

    Args:
        source: The path of a file or a folder, or a pattern such as ``handbook/*.md``.
        paragraphs: Whether each paragraph of a text that is a list becomes a separate passage. The
            id of the passage, such as ``290#3``, consists of the id of the page and the number of
            the paragraph, counted from 0. KILT's relevance judgments (provenance) count in the same
            way. List items are included.

    Raises:
        DatasetError: If there is no such file; a file has another extension, is damaged, encrypted
            or not UTF-8; or a row lacks an id or a text. The message names the file and the line.
        MissingPackageError: If an extra is not installed. Parquet needs the extra ``retrieval``;
            RST, HTML, PDF and Word need the extra ``documents``.
    """
    paths, root = _sources(source)
    if paragraphs:
        return (passage for path in paths for passage in _read_paragraphs(path))
    return (document for path in paths for document in _read(path, root, len(paths) == 1))


def read_rows(paths: Sequence[Path], fields: Mapping[str, str] | None = None) -> Iterator[Passage]:
    """Read the rows of JSON Lines or Parquet files as documents; see :func:`read_documents`.

    Args:
        paths: The files.
        fields: Names of the fields for ``id``, ``text``, ``title`` and ``document`` if they are not
            the usual names. A name with dots, such as ``page.body``, is a path into nested objects.
            A name with braces joins fields, such as ``{title}: {abstract}``. If ``fields`` is set
            and a row has no id, its number, counted from 0, is the id.

    Raises:
        DatasetError: If a row lacks an id or a text; the message names the file and the line.
        UnknownNameError: If ``fields`` has another key.
    """
    for name in fields or {}:
        if name not in PASSAGE_NAMES:
            raise UnknownNameError("passage field", name, PASSAGE_NAMES)
    rows = chain.from_iterable(map(table_rows, paths))
    for number, (location, row) in enumerate(rows):
        content = dict(row)
        for name, theirs in (fields or {}).items():
            content[name] = value_at(row, theirs, location)
        if fields and not any(content.get(name) is not None for name in PASSAGE_NAMES["id"]):
            content["id"] = str(number)
        yield _passage(content, location)


def read_passages(
    source: str | Path, size: int = CHUNK, unit: Unit | Spans = "word", *, overlap: int = 0
) -> Iterator[Passage]:
    """Read documents with :func:`read_documents`, and cut text files into passages.

    Text files are cut by :func:`chunk`. Rows of JSON Lines and Parquet are used as passages.

    Args:
        source: The path of a file or a folder, or a pattern such as ``handbook/*.md``.
        size: Maximum number of units per passage.
        unit: ``"word"``, ``"character"`` or a function; see :func:`chunk`.
        overlap: The number of units that a passage repeats from the one before it.

    Raises:
        DatasetError: As for :func:`read_documents`.
        MissingPackageError: As for :func:`read_documents`.
        SettingError: As for :func:`chunk`.
    """
    paths, root = _sources(source)
    for path in paths:
        documents = _read(path, root, len(paths) == 1)
        yield from chunk(documents, size, unit, overlap=overlap) if is_text(path) else documents


def _read(path: Path, root: Path, is_alone: bool) -> Iterator[Passage]:
    """Yield the documents of one file; the id of a text file is its path relative to ``root``.

    A file without readable text raises an error if ``is_alone`` is true; otherwise it is skipped.
    """
    if not is_text(path):
        yield from (_passage(row, location) for location, row in table_rows(path))
        return
    parsed = parse_file(path, read_bytes(path))
    if parsed.problem and not parsed.blocks and is_alone:
        raise DatasetError(f"{path}: {parsed.problem}")
    if parsed.problem:
        _LOG.warning("%s: some of the content was skipped: %s", path, parsed.problem)
    if parsed.blocks:
        yield assemble(path.relative_to(root).as_posix(), parsed, path.stem)


def is_text(path: Path) -> bool:
    """Return whether a file has the extension of a format with one document per file."""
    return path.name.lower().endswith(TEXT)


def _sources(source: str | Path) -> tuple[list[Path], Path]:
    """Return the files of a source and their folder, like :func:`files`; warn of skipped files."""
    paths, root = files(source)
    if Path(source).is_dir():
        skipped = Counter(
            path.suffix.lower() or "no extension"
            for path in Path(source).rglob("*")
            if path.is_file() and not _is_hidden(path.relative_to(source)) and not _is_read(path)
        )
        if skipped:
            counts = ", ".join(f"{ending} ({n})" for ending, n in skipped.most_common())
            _LOG.warning(
                "%s: skipped %d files in formats that cannot be read: %s",
                source,
                skipped.total(),
                counts,
            )
    return paths, root


def _is_read(path: Path) -> bool:
    return path.name.lower().endswith(TEXT + ROWS)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def files(source: str | Path) -> tuple[list[Path], Path]:
    """Return the files of a source, and the folder to which the ids of text files are relative.

    A source is a file, a folder or a pattern.
    """
    path = Path(source)
    if path.is_file():
        paths, root = [path], path.parent
        _check(path)
    elif path.is_dir():
        paths = files_below(path, lambda each: each.name.lower().endswith(TEXT + ROWS))
        root = path
    else:
        paths, root = matching_files(path)
        for each in paths:
            _check(each)
    if not paths:
        raise DatasetError(
            f"{source}: no documents found; give a file, a folder or a pattern of files with the "
            f"extensions {', '.join(TEXT + ROWS)}"
        )
    return paths, root


def _check(path: Path) -> None:
    # A file that is passed by name may be JSON Lines called .json, as in the KILT release.
    if not path.name.lower().endswith((*TEXT, *ROWS, ".json")):
        raise DatasetError(
            f"{path}: unknown extension; convert the file to one of {', '.join(TEXT + ROWS)}"
        )


def _passage(row: Mapping[str, Any], location: str) -> Passage:
    fields = _passage_fields(row)
    paragraphs = _paragraphs(fields.get("text"))
    if paragraphs is not None:
        fields["text"] = "".join(
            each.removeprefix(_SECTION) for each in paragraphs if _BULLET not in each
        )
    return validated(Passage, fields, location)


_BULLET, _SECTION = "BULLET::::", "Section::::"
"""KILT's marks of list items and headings, at the start of a paragraph."""


def _passage_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for field, names in PASSAGE_NAMES.items():
        name = next((name for name in names if row.get(name) is not None), None)
        if name is not None:
            fields[field] = row[name]
    return fields


def _paragraphs(text: object) -> list[str] | None:
    """Return the paragraphs of a page of KILT, or ``None`` if the text is not a list.

    In the copy of KILT on the Hugging Face hub, the text is a mapping instead, and the list is the
    value of its key ``paragraph``.
    """
    listed = text.get("paragraph") if isinstance(text, Mapping) else text
    return list(map(str, listed)) if isinstance(listed, list) else None


def has_paragraphs(path: Path) -> bool:
    """Return whether the first row of a file has a list of paragraphs as its text."""
    if is_text(path):
        return False
    rows = (row for _, row in table_rows(path))
    return _paragraphs(_passage_fields(next(rows, {})).get("text")) is not None


def _read_paragraphs(path: Path) -> Iterator[Passage]:
    """Yield each non-empty paragraph of the pages in a file as a passage."""
    for location, row in table_rows(path):
        fields = _passage_fields(row)
        paragraphs = _paragraphs(fields.get("text"))
        if paragraphs is None or fields.get("id") is None:
            raise DatasetError(
                f"{location}: expected an id and a list of paragraphs as the text, as in KILT's "
                "kilt_knowledgesource.json"
            )
        for number, paragraph in enumerate(paragraphs):
            text = re.sub(rf"(?:{_BULLET}|{_SECTION})", "", paragraph).strip()
            if text:
                content = {**fields, "id": f"{fields['id']}#{number}", "text": text}
                yield validated(Passage, content, location)
