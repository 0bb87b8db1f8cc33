"""The program: how commands join it, how they end, and how their errors read."""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from mirage._base.quoting import visible
from mirage.cli._inputs import forget_standard_input
from mirage.cli._output import drop_output, open_streams, out, say, say_plainly
from mirage.errors import GenerationError, MirageError, NoJudgmentError

__all__ = [
    "app",
    "argument",
    "end",
    "example",
    "fall_short",
    "flag",
    "group",
    "keeping",
    "option",
    "shortfalls",
]

FELL_SHORT, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
"""Exit statuses; the last two are what shells give for SIGINT and SIGPIPE."""


class _Warnings(logging.Handler):
    """Says what the library warns of, as everything else is said."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), "warning:", "yellow")


@contextmanager
def _visible_usage_errors() -> Iterator[None]:
    """Quote what the parser's own errors repeat of the command line, such as a file's name."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "message"):
            error.message = visible(error.message)
        raise


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_SQLITE_NO_ROOM = (10, 13)  # SQLITE_IOERR, SQLITE_FULL


class Shell(TyperGroup):
    """A program that turns what goes wrong in a command into one message and an exit status."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the program, and end it if standard output takes nothing more."""
        open_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:
            # Files that cannot be written are errors of ours.
            if error.filename is not None or error.errno not in (*_NO_ROOM, errno.EBADF):
                raise
            drop_output()
            say(
                f"an output cannot be written ({error.strerror}); is the disk full, or what "
                "standard output leads to?",
                "error:",
            )
            sys.exit(FELL_SHORT)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Parse the options of the program itself."""
        with _visible_usage_errors():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _visible_usage_errors():
            return self._invoke(ctx)

    def _invoke(self, ctx: Any) -> Any:
        logger, handler = logging.getLogger("mirage"), _Warnings(logging.WARNING)
        logger.addHandler(handler)
        try:
            return super().invoke(ctx)
        except (GenerationError, NoJudgmentError) as error:  # whoever was asked gave nothing
            fall_short([str(error)])
        except MirageError as error:
            _error(str(error), FELL_SHORT if _is_no_room(error) else BAD_INPUT)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            drop_output()  # who reads has seen enough
            raise typer.Exit(BROKEN_PIPE) from None
        except OSError as error:
            if error.filename is None:
                raise
            status = FELL_SHORT if _is_no_room(error) else BAD_INPUT
            _error(f"{error.filename}: {error.strerror}", status)
        finally:
            logger.removeHandler(handler)
            forget_standard_input()


def _error(message: str, status: int) -> NoReturn:
    say(message, "error:")
    raise typer.Exit(status)


def _is_no_room(error: BaseException | None) -> bool:
    """Return whether an error comes from a disk that is full or broken, and not from the input."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return True
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_NO_ROOM:
            return True
        error = error.__cause__ or error.__context__
    return False


# Commands -----------------------------------------------------------------------------------------

# Plain help (no markup mode): rich's takes longer to import than to read.
_typer = partial(typer.Typer, no_args_is_help=True, rich_markup_mode=None)

app = _typer(
    cls=Shell,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def group(name: str, words: str) -> typer.Typer:
    """A group of commands, such as ``surrogate``, with what help says of it."""
    commands = _typer()
    app.add_typer(commands, name=name, help=words)
    return commands


def example(*commands: str) -> str:
    """The epilog of a command's help."""
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join(("\b", title, *(f"  {command}" for command in commands)))


def argument(metavar: str, words: str) -> Any:
    """An argument of a command, with what help says of it."""
    return typer.Argument(metavar=metavar, help=words)


def option(metavar: str, words: str, *names: str, **settings: Any) -> Any:
    """An option that takes a value, called as its parameter is unless by other names."""
    return typer.Option(*names, metavar=metavar, help=words, **settings)


def flag(words: str, *names: str) -> Any:
    """An option that is given or not."""
    return typer.Option(*names, help=words)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        out(f"mirage {metadata.version('mirage-rag')}")
        raise typer.Exit


@app.callback()
def main(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Rank retrieval-augmented generation systems in 18 languages, offline.

    Exit status: 0 what was asked for holds, 1 it fell short, nobody answered or an output cannot
    be written, 2 the input was bad, or `check`, `drift`, `features --min` or `tests score --min`
    is inconclusive.
    """
    say_plainly()


# Ends ---------------------------------------------------------------------------------------------


def fall_short(reasons: Iterable[str]) -> None:
    """End the command with status 1 after saying why, where there is a reason."""
    reasons = list(reasons)
    for reason in reasons:
        say(reason, "fell short:", "yellow")
    if reasons:
        raise typer.Exit(FELL_SHORT)


def end(status: int) -> None:
    """End the command with a status that an option names."""
    raise typer.Exit(status)


def shortfalls(assertions: Iterable[Callable[[], None]]) -> list[str]:
    """Why assertions of :mod:`mirage.testing` do not hold, those that do not."""
    from mirage.testing import FellShortError

    reasons = []
    for assertion in assertions:
        try:
            assertion()
        except FellShortError as error:
            reasons.append(str(error))
    return reasons


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
