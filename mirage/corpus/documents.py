"""Documents from files: folders of text, JSON Lines, Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mirage._base.files import table_rows, validated
from mirage._base.inputs import files_below, matching_files, read_text
from mirage._base.rows import PASSAGE_NAMES
from mirage.corpus.chunking import Spans, Unit, chunk
from mirage.errors import DatasetError
from mirage.models import Passage

__all__ = ["CHUNK", "files", "is_text", "read_documents", "read_file", "read_passages"]

CHUNK = 100
"""Words a passage that text files are cut into."""

TEXT = (".txt", ".text", ".md", ".markdown", ".rst")
"""Endings of files that are one document each."""

ROWS = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
"""Endings of files that hold a document a row."""


def read_documents(source: str | Path) -> Iterator[Passage]:
    """Documents or passages of a file, of a folder, or of all files that a pattern matches.

    A text file (``.txt``, ``.md``, ``.rst`` and the like) is one document: its id is its path below
    the folder, its title a Markdown file's first heading, or else its name. Of JSON Lines
    (``.jsonl``, ``.jsonl.gz``) and Parquet a row is one, with ``id`` (or ``_id``, ``docid``,
    ``wikipedia_id``), ``text`` (or ``contents``, ``content``, ``body``; KILT's list of paragraphs
    is joined) and ``title``; other fields are passed over. Files come in the order of their names.

    Raises:
        DatasetError: there is no such file, a file has another ending, or is not UTF-8, or a row
            lacks an id or a text; names the file and the line.
        MissingPackageError: Parquet needs the extra ``retrieval``.
    """
    paths, root = files(source)
    return (document for path in paths for document in read_file(path, root))


def read_passages(
    source: str | Path, size: int = CHUNK, unit: Unit | Spans = "word", *, overlap: int = 0
) -> Iterator[Passage]:
    """What :func:`read_documents` reads, text files cut into passages by :func:`chunk`.

    Rows of JSON Lines and Parquet are passages as they are.

    Args:
        source: a file, a folder or a pattern.
        size: units a passage.
        unit: ``word``, ``character`` or a function; see :func:`chunk`.
        overlap: units that a passage repeats from the one before it.

    Raises:
        DatasetError: as :func:`read_documents`.
        SettingError: as :func:`chunk`.
    """
    paths, root = files(source)
    for path in paths:
        documents = read_file(path, root)
        yield from chunk(documents, size, unit, overlap=overlap) if is_text(path) else documents


def read_file(path: Path, root: Path) -> Iterator[Passage]:
    """The documents of one file, whose path below ``root`` is the id of a text."""
    if is_text(path):
        yield _document(path, root)
    else:
        for where, row in table_rows(path):
            yield _passage(row, where)


def is_text(path: Path) -> bool:
    """Whether a file is one document, by its ending."""
    return path.name.lower().endswith(TEXT)


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
            f"{path}: documents are files that end in {', '.join(TEXT + ROWS)}; convert it to text"
        )


def _document(path: Path, root: Path) -> Passage:
    text = read_text(path)
    heading = next((line.lstrip("# ") for line in text.split("\n") if line.startswith("# ")), "")
    return Passage(
        id=path.relative_to(root).as_posix(), text=text, title=heading.strip() or path.stem
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
