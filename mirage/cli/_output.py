"""Output of commands: results on standard output, everything else on standard error.

No other module of this package writes to these streams. :mod:`mirage._base.quoting` escapes names,
ids and texts for the terminal.
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
from mirage.cli._inputs import with_standard_input
from mirage.errors import shorten_message

if TYPE_CHECKING:
    from pydantic import BaseModel

# A right-to-left name, which tables isolate so that it does not reorder the text around it.
_ISOLATED = re.compile("\u2068([^\u2066-\u2069\n]*)\u2069")


def out(text: object, *, bold_marked: bool = False) -> None:
    """Print a result as text for people.

    With ``bold_marked``, lines that begin with ``*`` are printed in bold.
    """
    lines = _visible(with_standard_input(str(text))).split("\n")
    if bold_marked:
        lines = [typer.style(line, bold=True) if line.startswith("*") else line for line in lines]
    typer.echo("\n".join(lines), color=_color())


def out_json(value: Any) -> None:
    """Print a result as one line of JSON, with null for numbers that are not finite."""
    out_json_text(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def out_record(line: str) -> None:
    """Print a line of a file format that has no escape characters, such as a TREC run.

    A pipe or a file gets the line unchanged, because another program reads it. On a terminal,
    hidden characters are escaped.
    """
    line = with_standard_input(line)
    typer.echo(visible(line) if sys.stdout.isatty() else line, color=True)


def out_json_text(text: str) -> None:
    """Print a line of JSON; characters that a terminal would interpret or hide are escaped."""
    typer.echo(json_text(with_standard_input(text), sys.stdout.encoding or "utf-8"), color=_color())


def _visible(text: str) -> str:
    parts = _ISOLATED.split(text)  # isolated names at odd positions, other text at even ones
    parts[::2] = map(visible, parts[::2])
    parts[1::2] = [f"\u2068{visible(name)}\u2069" for name in parts[1::2]]
    return "".join(parts)


def out_either(text: object, plain: Any, as_json: bool) -> None:
    """Print ``text``, or print ``plain`` as JSON if ``as_json`` is true."""
    if as_json:
        out_json(plain)
    else:
        out(text)


def print_records(records: Iterable[BaseModel]) -> None:
    """Print records as JSON Lines."""
    for record in records:
        out_json_text(record.model_dump_json(exclude_defaults=True))


def summarise(
    text: str, file: Path | None, plain: Any | None = None, *, as_json: bool = False
) -> None:
    """Print a summary of records that a command wrote to ``file`` or to standard output.

    The summary goes to standard output if there is a file, else to standard error. ``plain`` is the
    summary as JSON data; it is printed instead of the text if ``as_json`` is true.
    """
    if file is None:
        say(text)
    else:
        out_either(f"{file}: {text}", plain, as_json)


def say(text: str, label: str = "", colour: str = "red") -> None:
    """Print a message on standard error, after a coloured label.

    If standard error is full or closed, the message is dropped and the command continues.
    """
    start = typer.style(label, fg=colour, bold=True) + " " if label else ""
    lines = map(shorten_message, text.split("\n"))  # a table keeps all its lines
    message = start + visible(with_standard_input("\n".join(lines)))
    with suppress(OSError, ValueError):
        typer.echo(message, err=True, color=_color())


def wrapped(text: str, indent: str = "") -> str:
    """Wrap a long line at spaces, to lines of at most 80 characters that begin with ``indent``."""
    return textwrap.fill(
        text,
        80,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def open_streams() -> None:
    """Open each standard stream that was closed when the program started.

    Otherwise the first files that the program opens would get the streams' descriptors and be used
    in their place. Reading or writing such a stream fails, as in other programs. Messages to a
    closed standard error are dropped.
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
    """Discard the rest of standard output, which Python would otherwise try to write at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_plainly() -> None:
    """Make standard output and standard error escape characters that they cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _color() -> bool | None:
    """Return whether to use colours; ``None`` lets the terminal decide (https://no-color.org)."""
    return False if os.environ.get("NO_COLOR") else None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
