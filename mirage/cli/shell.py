"""What all commands share: where text goes, how a command ends, and how errors read."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from mirage.errors import MirageError

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "Shell",
    "bad_input",
    "example",
    "fell_short",
    "keeping",
    "out",
    "out_json",
    "print_records",
    "say",
    "say_plainly",
    "standard_input",
    "summarise",
    "version",
    "wrapped",
]

FELL_SHORT, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
"""Exit statuses; the last two are what shells give for SIGINT and SIGPIPE."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_spooled: list[Path] = []


# Text ---------------------------------------------------------------------------------------------


def out(text: str) -> None:
    """Print a result."""
    typer.echo(_renamed(text), color=_color())


def out_json(value: Any) -> None:
    """Print a result as one line of JSON; what is not a number there is null."""
    out(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def print_records(records: Iterable[BaseModel]) -> None:
    """Print records as JSON Lines, as files of them are written."""
    for record in records:
        out(record.model_dump_json(exclude_defaults=True))


def summarise(text: str, plain: Any, file: Path | None, as_json: bool) -> None:
    """A summary: a result where the records went to a file, and else beside them."""
    if file is None:
        say(text)
    elif as_json:
        out_json(plain)
    else:
        out(f"{file}: {text}")


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


def say(text: str, label: str = "", colour: str = "red") -> None:
    """Print what is no result, on standard error, after a coloured label."""
    shown = typer.style(label, fg=colour, bold=True) + " " if label else ""
    typer.echo(shown + _CONTROLS.sub(" ", _renamed(text)), err=True, color=_color())


def example(*commands: str) -> str:
    """The epilog of a command's help."""
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join(("\b", title, *(f"  {command}" for command in commands)))


def _color() -> bool | None:
    """``None`` lets the terminal decide (https://no-color.org)."""
    return False if os.environ.get("NO_COLOR") else None


def say_plainly() -> None:
    """Let what an output cannot encode show as an escape, and not end the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def version(wanted: bool) -> None:
    """Print the version and end, where that is asked for."""
    if wanted:
        from importlib import metadata

        out(f"mirage {metadata.version('mirage-rag')}")
        raise typer.Exit


# Ends ---------------------------------------------------------------------------------------------


def fell_short(reasons: Sequence[str]) -> NoReturn:
    """End the command with status 1, after saying why."""
    for reason in reasons:
        say(reason, "fell short:", "yellow")
    raise typer.Exit(FELL_SHORT)


@contextmanager
def bad_input() -> Iterator[None]:
    """Let a ``ValueError`` about a setting end the command as bad input does."""
    try:
        yield
    except MirageError:
        raise
    except ValueError as error:
        raise MirageError(str(error)) from None


@contextmanager
def keeping(path: Path | None, cached: bool) -> Iterator[None]:
    """Say what is kept, where the work is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        if path is not None:
            say(f"stopped; what came so far is in {path}: the same command goes on from there")
        elif cached:
            say("stopped; the answers that came are in the cache: the same command takes them")
        else:
            say("stopped; nothing was kept: --out FILE keeps what comes")
        raise


class Shell(TyperGroup):
    """Turns what goes wrong in a command into one message and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except MirageError as error:
            _error(str(error))
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Who reads has seen enough. The interpreter must not try to write the rest at its end.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        except OSError as error:
            if error.filename is None:
                raise
            _error(f"{error.filename}: {error.strerror}")
        finally:
            _forget_standard_input()


def _error(message: str) -> NoReturn:
    say(message, "error:")
    raise typer.Exit(BAD_INPUT)


# Standard input -----------------------------------------------------------------------------------


def standard_input() -> Path:
    """A file with what stands on standard input; it is gone when the command ends.

    Raises:
        MirageError: it was read already.
    """
    from tempfile import mkdtemp

    if _spooled:
        raise MirageError("standard input (-) can be read once only; give a file for the other")
    path = Path(mkdtemp(prefix="mirage-")) / "stdin.jsonl"
    _spooled.append(path)
    path.write_bytes(sys.stdin.buffer.read())
    return path


def _renamed(text: str) -> str:
    """A text in which standard input is called so, and not by the file it is kept in."""
    for path in _spooled:
        text = text.replace(str(path), "standard input")
    return text


def _forget_standard_input() -> None:
    from shutil import rmtree

    while _spooled:
        rmtree(_spooled.pop().parent, ignore_errors=True)
