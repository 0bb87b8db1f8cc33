"""The program: how commands are added, how they end, and how errors are printed."""

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

FELL_SHORT, BAD_INPUT, INCONCLUSIVE, INTERRUPTED, BROKEN_PIPE = 1, 2, 3, 130, 141
"""Exit statuses of commands. Shells use the last two for SIGINT and SIGPIPE."""

SECTIONS = {
    "Rank and score": ("rank", "features", "generate"),
    "Judge": ("judge", "fit", "label", "metaeval", "decide"),
    "Test": ("baseline", "check", "compare", "audit", "plan", "history", "tests"),
    "Monitor": ("logs",),
    "Share": ("board",),
    "Build pipelines": ("index", "retrieve", "rerank", "eval-run", "grid", "finetune"),
    "Data and set-up": ("data", "surrogate", "hub", "doctor"),
}
"""The names of the commands, by the section of the help in which they are listed."""


class _Warnings(logging.Handler):
    """A log handler that prints the library's warnings on standard error, like other messages."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), "warning:", "yellow")


@contextmanager
def _visible_usage_errors() -> Iterator[None]:
    """Context manager that escapes hidden characters in errors of the command-line parser."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "message"):
            error.message = visible(error.message)
        raise


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_SQLITE_NO_ROOM = (10, 13)  # SQLITE_IOERR, SQLITE_FULL


class Shell(TyperGroup):
    """A program whose commands report an error with one message and an exit status."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in their sections."""
        for title, names in SECTIONS.items():
            commands = [command for name in names if (command := self.get_command(ctx, name))]
            width = formatter.width - 6 - max(map(len, names))
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(width))
                        for name, command in zip(names, commands, strict=True)
                    ],
                    col_max=12,
                )

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the program, and end it with a message if standard output cannot be written."""
        open_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:
            # An error with a file name comes from a file, and the command reports it.
            if error.filename is not None or error.errno not in (*_NO_ROOM, errno.EBADF):
                raise
            drop_output()
            say(
                f"an output cannot be written ({error.strerror}); is the disk full, or standard "
                "output closed?",
                "error:",
            )
            sys.exit(FELL_SHORT)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Parse the options of the program itself."""
        with _visible_usage_errors():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and turn its errors into messages and exit statuses."""
        with _visible_usage_errors():
            return self._invoke(ctx)

    def _invoke(self, ctx: Any) -> Any:
        logger, handler = logging.getLogger("mirage"), _Warnings(logging.WARNING)
        logger.addHandler(handler)
        try:
            return super().invoke(ctx)
        except (GenerationError, NoJudgmentError) as error:  # no call was answered
            fall_short([str(error)])
        except MirageError as error:
            _error(str(error), FELL_SHORT if _is_no_room(error) else BAD_INPUT)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            drop_output()  # the reader has closed the pipe
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
    """Return whether an error comes from a full or broken disk instead of the input."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return True
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_NO_ROOM:
            return True
        error = error.__cause__ or error.__context__
    return False


# Commands -----------------------------------------------------------------------------------------

# Without a markup mode, typer does not import rich, which is slow.
_typer = partial(typer.Typer, no_args_is_help=True, rich_markup_mode=None)

app = _typer(
    cls=Shell,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def group(name: str, words: str) -> typer.Typer:
    """Add a group of commands, such as ``surrogate``; ``words`` is its help text."""
    commands = _typer()
    app.add_typer(commands, name=name, help=words)
    return commands


def example(*commands: str) -> str:
    """Format example commands for the end of a command's help."""
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join(("\b", title, *(f"  {command}" for command in commands)))


def argument(metavar: str, words: str) -> Any:
    """Return an argument of a command; ``words`` is its help text."""
    return typer.Argument(metavar=metavar, help=words)


def option(metavar: str, words: str, *names: str, **settings: Any) -> Any:
    """Return an option with a value; ``words`` is its help text.

    Without ``names``, such as ``--out``, the option is named after its parameter.
    """
    return typer.Option(*names, metavar=metavar, help=words, **settings)


def flag(words: str, *names: str) -> Any:
    """Return an option without a value; ``words`` is its help text."""
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

    Exit status: 0 on success; 1 if a check fails, if every call to an LLM fails, or if an output
    cannot be written; 2 if the input is invalid; 3 if a result is inconclusive.
    """
    say_plainly()


# Ends ---------------------------------------------------------------------------------------------


def fall_short(reasons: Iterable[str]) -> None:
    """Print the reasons and end the command with status 1; do nothing if there are no reasons."""
    _end(reasons, "fell short:", FELL_SHORT)


def end_inconclusive(reasons: Iterable[str]) -> None:
    """Print the reasons and end the command with status 3; do nothing if there are no reasons."""
    _end(reasons, "inconclusive:", INCONCLUSIVE)


def _end(reasons: Iterable[str], label: str, status: int) -> None:
    reasons = list(reasons)
    for reason in reasons:
        say(reason, label, "yellow")
    if reasons:
        raise typer.Exit(status)


def shortfalls(assertions: Iterable[Callable[[], None]]) -> list[str]:
    """Run assertions of :mod:`mirage.testing` and return the messages of those that fail."""
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
    """Context manager that prints where results are stored if the user interrupts the command.

    Args:
        path: File to which results are appended as they arrive, if any.
        cached: Whether answers are stored in the cache.
    """
    try:
        yield
    except KeyboardInterrupt:
        if path is not None:
            say(f"stopped; results so far are in {path}: repeat the command to resume")
        elif cached:
            say("stopped; the answers so far are in the cache: repeat the command to resume")
        else:
            say("stopped; nothing was kept: --out FILE keeps results as they arrive")
        raise
