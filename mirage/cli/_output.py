"""Output of commands: results on standard output, everything else on standard error.

Nothing else in this package writes to either. Names, ids and texts reach a terminal as
:mod:`mirage._base.quoting` shows them.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mirage._base.quoting import json_text, visible
from mirage.cli._inputs import named
from mirage.errors import shorten_message

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "drop_output",
    "open_streams",
    "out",
    "out_either",
    "out_json",
    "out_json_text",
    "out_record",
    "print_records",
    "say",
    "say_plainly",
    "summarise",
    "wrapped",
]

# A name that tables set apart because it runs from right to left, so that it moves no other text.
_ISOLATED = re.compile("\u2068([^\u2066-\u2069\n]*)\u2069")


def out(text: object, *, bold_marked: bool = False) -> None:
    """Print a result for people.

    Args:
        text: The result.
        bold_marked: Print the lines that begin with ``*`` in bold, which shows on terminals only.
    """
    lines = _visible(named(str(text))).split("\n")
    if bold_marked:
        lines = [typer.style(line, bold=True) if line.startswith("*") else line for line in lines]
    typer.echo("\n".join(lines), color=_color())


def out_json(value: Any) -> None:
    """Print a result as one line of JSON; numbers that are not finite are null."""
    out_json_text(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def out_record(line: str) -> None:
    """Print a line of a format without escapes, such as a run file of TREC.

    A pipe or a file gets the line as it is, since another program reads it. On a terminal hidden
    characters are escapes.
    """
    line = named(line)
    typer.echo(visible(line) if sys.stdout.isatty() else line, color=True)


def out_json_text(text: str) -> None:
    """Print a line of JSON; characters that a terminal would obey or hide are escapes."""
    typer.echo(json_text(named(text), sys.stdout.encoding or "utf-8"), color=_color())


def _visible(text: str) -> str:
    parts = _ISOLATED.split(text)  # texts around isolated names, and every second one a name
    parts[::2] = map(visible, parts[::2])
    parts[1::2] = [f"\u2068{visible(name)}\u2069" for name in parts[1::2]]
    return "".join(parts)


def out_either(text: object, plain: Any, as_json: bool) -> None:
    """Print a result as text, or as JSON for other programs."""
    if as_json:
        out_json(plain)
    else:
        out(text)


def print_records(records: Iterable[BaseModel]) -> None:
    """Print records as JSON Lines, as in files of them."""
    for record in records:
        out_json_text(record.model_dump_json(exclude_defaults=True))


def summarise(text: str, plain: Any, file: Path | None, as_json: bool) -> None:
    """A summary: a result where the records went to a file, and else beside them."""
    if file is None:
        say(text)
    else:
        out_either(f"{file}: {text}", plain, as_json)


def say(text: str, label: str = "", colour: str = "red") -> None:
    """Print a message on standard error, after a coloured label.

    A standard error that is full or closed takes nothing, which ends no command.
    """
    start = typer.style(label, fg=colour, bold=True) + " " if label else ""
    lines = map(shorten_message, text.split("\n"))  # a table of many lines is shown whole
    message = start + visible(named("\n".join(lines)))
    with suppress(OSError, ValueError):
        typer.echo(message, err=True, color=_color())


def wrapped(text: str, indent: str = "") -> str:
    """A long line as lines of 80 columns, broken at blanks alone."""
    return textwrap.fill(
        text,
        80,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def open_streams() -> None:
    """Give the program standard streams that it was started without.

    Otherwise the first files that it opens would take their numbers, and be taken for them. Using a
    stream that was closed fails, as it does for other programs; messages go nowhere.
    """
    for name, mode, flags in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            stream = os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8")
            setattr(sys, name, stream)


def drop_output() -> None:
    """Lead standard output nowhere, or else the interpreter would write the rest at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_plainly() -> None:
    """Show what an output cannot encode as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _color() -> bool | None:
    """``None`` lets the terminal decide (https://no-color.org)."""
    return False if os.environ.get("NO_COLOR") else None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
