"""Standard input as a file, which is what the library reads."""

from __future__ import annotations

import sys
from pathlib import Path

from mirage.errors import MirageError

__all__ = ["forget_standard_input", "named", "standard_input"]

_FILES: list[Path] = []


def standard_input() -> Path:
    """A file with what stands on standard input; it is gone when the command ends."""
    from tempfile import mkdtemp

    if _FILES:
        raise MirageError("standard input (-) can be read once only; give a file for the other")
    path = Path(mkdtemp(prefix="mirage-")) / "stdin.jsonl"
    _FILES.append(path)
    path.write_bytes(sys.stdin.buffer.read())
    return path


def named(text: str) -> str:
    """A text in which standard input is called so, and not by the file it is kept in."""
    for path in _FILES:
        text = text.replace(str(path), "standard input")
    return text


def forget_standard_input() -> None:
    """Remove the file."""
    from shutil import rmtree

    while _FILES:
        rmtree(_FILES.pop().parent, ignore_errors=True)
