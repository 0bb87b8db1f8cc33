"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mirage.cli._inputs import named

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "out",
    "out_either",
    "out_json",
    "print_records",
    "say",
    "say_plainly",
    "summarise",
    "wrapped",
]

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def out(text: object) -> None:
    """Print a result."""
    typer.echo(named(str(text)), color=_color())


def out_json(value: Any) -> None:
    """Print a result as one line of JSON; what is not a number there is null."""
    out(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def out_either(text: object, plain: Any, as_json: bool) -> None:
    """Print a result for people, or the same for machines."""
    if as_json:
        out_json(plain)
    else:
        out(text)


def print_records(records: Iterable[BaseModel]) -> None:
    """Print records as JSON Lines, as files of them are written."""
    for record in records:
        out(record.model_dump_json(exclude_defaults=True))


def summarise(text: str, plain: Any, file: Path | None, as_json: bool) -> None:
    """A summary: a result where the records went to a file, and else beside them."""
    if file is None:
        say(text)
    else:
        out_either(f"{file}: {text}", plain, as_json)


def say(text: str, label: str = "", colour: str = "red") -> None:
    """Print what is no result, on standard error, after a coloured label."""
    start = typer.style(label, fg=colour, bold=True) + " " if label else ""
    typer.echo(start + _CONTROLS.sub(" ", named(text)), err=True, color=_color())


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


def say_plainly() -> None:
    """Let what an output cannot encode show as an escape, and not end the command."""
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
