"""Parsers of file formats, which split a file into blocks such as headings and paragraphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from mirage.corpus._structure import Parsed
from mirage.errors import DatasetError, MirageError

__all__ = ["FORMATS", "parse_file"]

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        ".txt": "plain",
        ".text": "plain",
        ".md": "markdown",
        ".markdown": "markdown",
        ".rst": "rst",
        ".html": "html",
        ".htm": "html",
        ".xhtml": "html",
        ".pdf": "pdf",
        ".docx": "docx",
    }
)
"""The name of the module that parses the files, by file extension."""


def parse_file(path: Path, content: bytes) -> Parsed:
    """Parse the content of a file, in the format that the file's extension names.

    Raises:
        DatasetError: If the file is damaged or not UTF-8; the message names the file.
        MissingPackageError: If the package that parses this format is not installed.
    """
    ending = next(ending for ending in FORMATS if path.name.lower().endswith(ending))
    module = import_module(f"{__name__}.{FORMATS[ending]}")
    parse: Callable[[bytes], Parsed] = module.parse
    try:
        return parse(content)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DatasetError(f"{path}, line {line}: not UTF-8; save the file as UTF-8") from None
    except DatasetError as error:
        raise DatasetError(f"{path}: {error}") from None
    except MirageError:
        raise
    except Exception as error:
        # Third-party parsers raise errors of any type if a file is damaged.
        reason = f"{type(error).__name__}: {error}"[:200]
        raise DatasetError(
            f"{path}: cannot be read as {ending[1:].upper()} ({reason}); check whether the file "
            "is damaged"
        ) from None
