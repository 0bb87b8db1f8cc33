"""Functions that run commands in this process, or in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from mirage.cli import app
from mirage.dataset import MirageDataset
from mirage.models import Query

LANGUAGE = "sw"
IN_SWAHILI = ("--language", LANGUAGE)
PROGRAM = [sys.executable, "-c", "from mirage.cli import app; app(prog_name='mirage')"]


def mirage(*arguments: object, stdin: str | bytes | None = None, **options: Any) -> Any:
    """Run a command in this process; the result has ``exit_code``, ``stdout`` and ``stderr``."""
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin, **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Run a command in a process of its own, with pipes for its outputs."""
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def refusal(*arguments: object, stdin: str | bytes | None = None) -> str:
    """Return the error message of a command with invalid input, which prints nothing else."""
    result = mirage(*arguments, stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    message = str(result.stderr).strip()
    assert message.startswith("error: ")
    assert "Traceback" not in message
    assert "\n" not in message
    return message.removeprefix("error: ")


def best(query: Query) -> str:
    """Return the reference, the best possible answer."""
    return query.reference or ""


def first_passage(query: Query) -> str:
    """Return a bad answer: the first passage, whatever it contains."""
    return f"##Reason: -\n##Answer: {query.passages[0].text} [{query.passages[0].id}]"


def responses(
    path: Path, answer: Callable[[Query], str] = best, dataset: MirageDataset | None = None
) -> Path:
    """Write a file of responses to the bundled queries."""
    return json_lines(
        path,
        [
            {"query_id": query.id, "text": answer(query)}
            for query in dataset or MirageDataset.bundled(LANGUAGE)
        ],
    )


def json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write a JSON Lines file with these rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its words, such as ``surrogate train``."""

    def below(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, (*words, name))
            else:
                yield " ".join((*words, name)), command

    yield from below(get_command(app), ())
