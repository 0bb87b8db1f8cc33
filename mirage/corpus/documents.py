"""Documents from files: folders of text, HTML, PDF, Word, JSON Lines, Parquet."""

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

__all__ = ["CHUNK", "files", "is_text", "read_documents", "read_passages"]

_LOG = logger("mirage.corpus")

CHUNK = 100
"""Words a passage that text files are cut into."""

TEXT = tuple(FORMATS)
"""Endings of files that are one document each."""

ROWS = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
"""Endings of files that hold a document a row."""


def read_documents(source: str | Path) -> Iterator[Passage]:
    """Read the documents or passages of a file, a folder, or all files that match a pattern.

    A file of plain text (``.txt``), Markdown (``.md``), reStructuredText (``.rst``), HTML
    (``.html``), PDF (``.pdf``) or Word (``.docx``) is one document. Its id is its path below the
    folder. Its title is its first heading of level 1, else the title in its metadata, else its
    name. Text that a browser or Word hides is left out.

    Each row of JSON Lines (``.jsonl``, ``.jsonl.gz``) and Parquet is a document, with ``id`` (or
    ``_id``, ``docid``, ``wikipedia_id``), ``text`` (or ``contents``, ``content``, ``body``; KILT's
    list of paragraphs is joined) and ``title``; other fields are ignored.

    Files come in the order of their names. Files of other formats in a folder, and PDF pages
    without text, are skipped with a warning that counts them.

    Raises:
        DatasetError: there is no such file, a file has another ending, is damaged, encrypted or not
            UTF-8, or a row lacks an id or a text; names the file and the line.
        MissingPackageError: Parquet needs the extra ``retrieval``; RST, HTML, PDF and Word need the
            extra ``documents``.
    """
    paths, root = _sources(source)
    return (document for path in paths for document in _read(path, root, len(paths) == 1))


def read_passages(
    source: str | Path, size: int = CHUNK, unit: Unit | Spans = "word", *, overlap: int = 0
) -> Iterator[Passage]:
    """Read documents as :func:`read_documents` does and cut them into passages by :func:`chunk`.

    Rows of JSON Lines and Parquet are passages as they are.

    Args:
        source: a file, a folder or a pattern.
        size: units a passage.
        unit: ``word``, ``character`` or a function; see :func:`chunk`.
        overlap: units that a passage repeats from the one before it.

    Raises:
        DatasetError: as :func:`read_documents`.
        MissingPackageError: as :func:`read_documents`.
        SettingError: as :func:`chunk`.
    """
    paths, root = _sources(source)
    for path in paths:
        documents = _read(path, root, len(paths) == 1)
        yield from chunk(documents, size, unit, overlap=overlap) if is_text(path) else documents


def _read(path: Path, root: Path, is_alone: bool) -> Iterator[Passage]:
    """Yield the documents of one file, whose path below ``root`` is the id of a text."""
    if not is_text(path):
        yield from (_passage(row, where) for where, row in table_rows(path))
        return
    parsed = parse_file(path, read_bytes(path))
    if parsed.problem and not parsed.blocks and is_alone:
        raise DatasetError(f"{path}: {parsed.problem}")
    if parsed.problem:
        _LOG.warning("%s: skipped what has %s", path, parsed.problem)
    if parsed.blocks:
        yield assemble(path.relative_to(root).as_posix(), parsed, path.stem)


def is_text(path: Path) -> bool:
    """Return whether a file is one document, by its ending."""
    return path.name.lower().endswith(TEXT)


def _sources(source: str | Path) -> tuple[list[Path], Path]:
    """Return the files of a source, and warn of those in a folder that are not read."""
    paths, root = files(source)
    if Path(source).is_dir():
        skipped = Counter(
            path.suffix.lower() or "no ending"
            for path in Path(source).rglob("*")
            if path.is_file() and not _is_hidden(path.relative_to(source)) and not _is_read(path)
        )
        if skipped:
            counts = ", ".join(f"{ending} ({n})" for ending, n in skipped.most_common())
            _LOG.warning(
                "%s: skipped %d files of formats that are not read: %s",
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
    """The files of a source, and the folder that ids of text files are relative to."""
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
            f"{source}: no documents here; a file, a folder or a pattern of files that end in "
            f"{', '.join(TEXT + ROWS)}"
        )
    return paths, root


def _check(path: Path) -> None:
    # A file that is named may be JSON Lines called .json, as KILT's knowledge source is.
    if not path.name.lower().endswith((*TEXT, *ROWS, ".json")):
        raise DatasetError(
            f"{path}: documents are files that end in {', '.join(TEXT + ROWS)}; convert it to one "
            "of these"
        )


def _passage(row: Mapping[str, Any], where: str) -> Passage:
    fields = {}
    for field, names in PASSAGE_NAMES.items():
        name = next((name for name in names if row.get(name) is not None), None)
        if name is not None:
            fields[field] = row[name]
    if isinstance(fields.get("text"), list):  # paragraphs, as in KILT
        fields["text"] = "".join(map(str, fields["text"]))
    return validated(Passage, fields, where)
