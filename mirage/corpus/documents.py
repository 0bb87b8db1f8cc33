"""Reading documents from folders of text, HTML, PDF, Word, JSON Lines and Parquet files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mirage._base.files import table_rows, validated
from mirage._base.inputs import files_below, matching_files, read_bytes
from mirage._base.logs import logger
from mirage._base.rows import PASSAGE_NAMES
from mirage.corpus._formats import FORMATS, parse_file
from mirage.corpus._structure import assemble
from mirage.corpus.chunking import Spans, Unit, chunk
from mirage.errors import DatasetError
from mirage.models import Passage

_LOG = logger("mirage.corpus")

CHUNK = 100
"""Default words per passage, for text files."""

TEXT = tuple(FORMATS)
"""Extensions of files that are one document each."""

ROWS = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
"""Extensions of files with one document per row."""


def read_documents(source: str | Path) -> Iterator[Passage]:
    """Read the documents or passages of a file, a folder, or all files that match a pattern.

    A file of plain text (``.txt``), Markdown (``.md``), reStructuredText (``.rst``), HTML
    (``.html``), PDF (``.pdf``) or Word (``.docx``) is one document. Its id is its path relative to
    the folder. Its title is its first heading of level 1, otherwise the title in its metadata,
    otherwise its file name. Text that a browser or Word hides is left out.

    Each row of JSON Lines (``.jsonl``, ``.jsonl.gz``) and Parquet is a document, with ``id`` (or
    ``_id``, ``docid``, ``wikipedia_id``), ``text`` (or ``contents``, ``content``, ``body``; the
    list of paragraphs of KILT is joined) and ``title``; other fields are ignored.

    Files are read in the order of their names. Files of other formats in a folder, and PDF pages
    without text, are skipped; a warning counts them.

    Args:
        source: The path of a file or a folder, or a pattern such as ``handbook/*.md``.

    Raises:
        DatasetError: There is no such file, a file has another extension, is damaged, encrypted or
            not UTF-8, or a row lacks an id or a text; the message names the file and the line.
        MissingPackageError: Parquet needs the extra ``retrieval``; RST, HTML, PDF and Word need the
            extra ``documents``.
    """
    paths, root = _sources(source)
    return (document for path in paths for document in _read(path, root, len(paths) == 1))


def read_passages(
    source: str | Path, size: int = CHUNK, unit: Unit | Spans = "word", *, overlap: int = 0
) -> Iterator[Passage]:
    """Read documents as by :func:`read_documents`, and cut text files into passages.

    Text files are cut by :func:`chunk`. Rows of JSON Lines and Parquet are passages already.

    Args:
        source: The path of a file or a folder, or a pattern such as ``handbook/*.md``.
        size: The number of units per passage.
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
    """Yield the documents of one file; the id of a text file is its path relative to ``root``."""
    if not is_text(path):
        yield from (_passage(row, location) for location, row in table_rows(path))
        return
    parsed = parse_file(path, read_bytes(path))
    if parsed.problem and not parsed.blocks and is_alone:
        raise DatasetError(f"{path}: {parsed.problem}")
    if parsed.problem:
        _LOG.warning("%s: content was skipped: %s", path, parsed.problem)
    if parsed.blocks:
        yield assemble(path.relative_to(root).as_posix(), parsed, path.stem)


def is_text(path: Path) -> bool:
    """Return whether a file is one document (a text format) by its extension."""
    return path.name.lower().endswith(TEXT)


def _sources(source: str | Path) -> tuple[list[Path], Path]:
    """Return the files of a source, and log a warning for skipped files in a folder."""
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
    """Return the files of a source, and the folder to which ids of text files are relative."""
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
    fields = {}
    for field, names in PASSAGE_NAMES.items():
        name = next((name for name in names if row.get(name) is not None), None)
        if name is not None:
            fields[field] = row[name]
    if isinstance(fields.get("text"), list):  # paragraphs, as in KILT
        fields["text"] = "".join(map(str, fields["text"]))
    return validated(Passage, fields, location)
