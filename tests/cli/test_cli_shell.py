"""Properties of all commands: help, errors, statuses, pipes, interrupts."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from command_line import (
    IN_SWAHILI,
    LANGUAGE,
    PROGRAM,
    commands,
    mirage,
    process,
    refusal,
    responses,
)
from llm_server import ChatServer, Reply

from mirage import Run, cli
from mirage.cli._options import complete_feature, complete_language
from mirage.cli._output import out_record
from mirage.cli._shell import SECTIONS
from mirage.dataset import MirageDataset

ROOT = Path(__file__).parents[2]
WRITE_FILES = {
    *("generate", "index", "retrieve", "rerank", "finetune", "baseline"),
    *("tests make", "tests review", "tests write"),
    *("board new", "board submit", "board build"),
    *("data queries", "data build", "data convert"),
}
"""Commands whose result is a file or a stream of records: they have no --json."""
ALL = dict(commands())


def test_every_command_is_a_module_and_is_listed_in_a_section() -> None:
    modules = {path.stem.replace("_", "-") for path in Path(cli.__file__).parent.glob("[!_]*.py")}
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(modules)
    assert {words.split()[0] for words in ALL} == modules
    assert set(ALL) >= WRITE_FILES


def test_every_command_occurs_in_the_documentation() -> None:
    pages = {*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"} - {ROOT / "docs/contributing.md"}
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    names = {words.split()[0] for words in ALL}
    assert {name for name in names if not re.search(rf"mirage {name}\b", text)} == set()


@each_case("words", sorted(ALL))
def test_every_command_has_help_with_an_example(words: str) -> None:
    shown = mirage(*words.split(), "--help")
    assert shown.exit_code == 0
    assert ("--json" in shown.stdout) == (words not in WRITE_FILES)
    assert "Example" in shown.stdout


@each_case("words", sorted(ALL))
def test_the_examples_of_help_are_commands_with_options_that_exist(words: str) -> None:
    epilog = ALL[words].epilog or ""
    lines = [line for line in epilog.splitlines() if "mirage " in line]
    assert lines
    for line in lines:
        parts = shlex.split(line.split("mirage ", 1)[1].split(">")[0])
        called = " ".join(parts[: len(words.split())])
        assert called == words
        known = {name for parameter in ALL[words].params for name in parameter.opts}
        assert {part for part in parts if part.startswith("--")} <= known


def test_help_shows_every_section() -> None:
    shown = mirage("--help").stdout
    assert all(f"{title}:" in shown for title in SECTIONS)


def test_a_shell_completes_languages_and_features() -> None:
    assert complete_language("s") == ["sw"]
    assert complete_feature("citation_r") == ["citation_recall"]


def test_help_names_every_command_without_cutting_what_it_says() -> None:
    shown = mirage("--help").stdout
    assert {words.split()[0] for words in ALL} <= set(shown.split())
    assert "..." not in shown.replace("[ARGS]...", "")
    for group in ("surrogate", "data", "logs", "grid", "tests", "board"):
        assert "..." not in mirage(group, "--help").stdout.replace("[ARGS]...", "")


def test_the_start_imports_nothing_heavy() -> None:
    code = """
import sys
from mirage.cli import app
from mirage.cli._output import out_record
try:
    app(["--help"])
except SystemExit:
    pass
heavy = {"numpy", "pydantic", "httpx", "openai", "sklearn", "rich.console", "asyncio", "pandas"}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "surrogate" in done.stdout


def test_the_entry_point_starts() -> None:
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mirage ")


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Swahili", "Kiswahili", "swahili", "SW", "sw-KE"])
@pytest.mark.parametrize(
    "command",
    [
        ["data", "queries"],
        ["rank", "x.jsonl", "--language"],
        ["features", "x.jsonl", "--language"],
        ["hub", "--language"],
    ],
)
def test_a_languages_name_leads_to_its_code(
    name: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    responses(tmp_path / "x.jsonl")
    assert refusal(*command, name) == f"unknown language {name!r}; did you mean 'sw'?"


def test_a_wrong_path_leads_to_the_nearest_file(tmp_path: Path) -> None:
    near = responses(tmp_path / "responses.jsonl")
    (tmp_path / "queries.jsonl").write_text("")
    wrong = tmp_path / "respones.jsonl"
    for command in ("rank", "features"):
        message = refusal(command, *IN_SWAHILI, wrong)
        assert message == f"{wrong}: no such file; did you mean {near}?"
    folder = tmp_path.parent / (tmp_path.name[:-1] + "x") / "responses.jsonl"
    assert f"did you mean {tmp_path.parent}/" in refusal("fit", folder)
    assert refusal("fit", tmp_path / "zzz.jsonl").endswith("has queries.jsonl, responses.jsonl")
    assert "expected a file, but this is a folder" in refusal("fit", tmp_path)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["rnk"], "Did you mean 'rank'"),
        (["surrogate", "shwo"], "Did you mean 'show'?"),
        (["rank", "--language", "sw", "x.jsonl", "--at-leats", "y"], "--at-least"),
    ],
)
def test_a_mistyped_command_or_option_leads_to_the_nearest(typed: list[str], meant: str) -> None:
    result = mirage(*typed)
    assert result.exit_code == 2
    assert meant in result.stderr
    assert result.stdout == ""


def test_a_message_has_no_control_characters_of_a_file_name(tmp_path: Path) -> None:
    message = refusal("fit", tmp_path / "a\x1b[31mb\x07.jsonl")
    assert "\x1b" not in message
    assert "\x07" not in message


def test_a_file_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    MirageDataset.bundled(LANGUAGE).save(queries)
    message = refusal("data", "convert", queries, "--out", tmp_path / "no" / "such" / "x.jsonl")
    assert "No such file or directory" in message


# Outputs ------------------------------------------------------------------------------------------


def test_standard_input_is_read_once_named_so_and_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    piped = responses(tmp_path / "x.jsonl").read_text("utf-8")
    scored = mirage("features", *IN_SWAHILI, "mine=-", stdin=piped)
    assert scored.stdout.startswith("mine: 40 queries")
    assert refusal("fit", "-", stdin='{"a": 1').startswith("standard input, line 1: not JSON")
    twice = refusal("features", *IN_SWAHILI, "a=-", "b=-", stdin=piped)
    assert "can be read only once" in twice
    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]


def test_colour_is_for_terminals_alone_and_not_with_no_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in mirage("data", "queries", "xx").stderr
    assert "\x1b[31m" in mirage("data", "queries", "xx", color=True).stderr
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in mirage("data", "queries", "xx", color=True).stderr


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    with process("data", "queries", LANGUAGE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait() == 141


def test_an_output_that_lacks_letters_gets_escapes() -> None:
    done = subprocess.run(
        [*PROGRAM, "data", "queries", "zh"],
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "latin-1", "PYTHONPATH": ":".join(sys.path)},
    )
    assert len(done.stdout.splitlines()) == 40
    assert b"\\u" in done.stdout


def test_json_has_null_where_there_is_no_number(tmp_path: Path) -> None:
    path = responses(tmp_path / "x.jsonl")
    result = mirage("features", *IN_SWAHILI, path, "--feature", "citation_recall@10", "--json")
    (table,) = json.loads(result.stdout, parse_constant=pytest.fail)
    unanswerable = [query.id for query in MirageDataset.bundled(LANGUAGE) if not query.relevant]
    assert table["queries"][unanswerable[0]] == {"citation_recall@10": None}
    assert {gap["query_id"] for gap in table["not_computed"]} == set(unanswerable)


@pytest.mark.slow
def test_nothing_is_written_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = responses(tmp_path / "x.jsonl")
    for words in (
        ["rank", *IN_SWAHILI, path],
        ["features", *IN_SWAHILI, path],
        ["data", "describe", LANGUAGE],
        ["surrogate", "show", LANGUAGE],
        ["doctor"],
    ):
        assert mirage(*words).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]


# Interrupts ---------------------------------------------------------------------------------------


def interrupted(server: ChatServer, *options: Any) -> subprocess.Popen[str]:
    """Run a command that gets Ctrl-C after its first answer, while it waits for the second."""
    server.answer = lambda _: "ok" if len(server.requests) == 1 else Reply(when=lambda: False)
    endpoint = ("--model", "m", "--base-url", server.url, "--llm", "concurrency=1")
    running = process(*options, *endpoint)
    while len(server.requests) < 2:
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    return running


def test_ctrl_c_keeps_what_came_and_the_same_command_goes_on(
    tmp_path: Path, server: ChatServer
) -> None:
    path = tmp_path / "run.jsonl"
    with interrupted(server, "generate", *IN_SWAHILI, "--out", path) as running:
        stdout, stderr = running.communicate()
    assert (running.returncode, stdout) == (130, "")
    assert stderr.strip() == f"stopped; results so far are in {path}: repeat the command to resume"
    assert len(Run.load(path, language=LANGUAGE)) == 1
    server.answer = lambda _: "ok"
    asked = len(server.requests)
    options = ("--model", "m", "--base-url", server.url, "--out", path)
    assert mirage("generate", *IN_SWAHILI, *options).exit_code == 0
    assert len(server.requests) == asked + 39
    assert len(Run.load(path, language=LANGUAGE)) == 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "kept"),
    [
        ("cache=yes", "are in the cache"),
        ("cache=no", "nothing was kept"),
    ],
)
def test_ctrl_c_says_what_is_kept_without_a_file(
    server: ChatServer, option: str, kept: str
) -> None:
    with interrupted(server, "generate", *IN_SWAHILI, "--llm", option) as running:
        _, stderr = running.communicate()
    assert running.returncode == 130
    assert kept in stderr


def test_a_bug_is_no_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str, **_settings: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("mirage.dataset.MirageDataset.bundled", broken)
    with pytest.raises(ZeroDivisionError):
        mirage("data", "queries", LANGUAGE)


# Foreign names ------------------------------------------------------------------------------------

FOREIGN_NAME = "a\x1b]0;owned\x07\x9b31m\u202e\u2066\u2028\U000e0041\u200b"


def foreign_characters(text: str) -> set[str]:
    hidden = {char for char in FOREIGN_NAME if not char.isprintable()}
    return hidden & set(text)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_control_of_a_name_reaches_a_terminal(tmp_path: Path, options: list[str]) -> None:
    path = responses(tmp_path / f"{FOREIGN_NAME}.jsonl")
    for command in (
        ["rank", *IN_SWAHILI, path],
        ["features", *IN_SWAHILI, path],
    ):
        result = mirage(*command, *options, color=True)
        assert result.exit_code == 0
        shown = result.stdout.replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert foreign_characters(shown + result.stderr) == set()
        if options:
            assert json.dumps(FOREIGN_NAME)[1:-1] in json.dumps(json.loads(result.stdout))
        else:
            assert r"a\x1b]0;owned\x07\x9b31m" in shown


def test_no_control_of_an_argument_reaches_a_terminal(tmp_path: Path) -> None:
    for words in (
        ["rank", *IN_SWAHILI, tmp_path / FOREIGN_NAME],
        ["rank", *IN_SWAHILI, "x.jsonl", f"--{FOREIGN_NAME}"],
        [FOREIGN_NAME],
        ["data", "queries", LANGUAGE, FOREIGN_NAME],
        ["data", "queries", FOREIGN_NAME],
    ):
        result = mirage(*words)
        assert result.exit_code == 2
        assert foreign_characters(result.stdout + result.stderr) == set(), words


@pytest.mark.slow
def test_json_is_json_where_an_output_lacks_letters(tmp_path: Path) -> None:
    path = responses(tmp_path / "می\u200cخواهم 🜁.jsonl")
    done = subprocess.run(
        [*PROGRAM, "features", *IN_SWAHILI, path, "--json"],
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path), "PYTHONUTF8": "1"},
    )
    assert json.loads(done.stdout)[0]["model"] == "می\u200cخواهم 🜁"


def test_a_run_file_in_a_pipe_has_the_ids_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out_record("q1 Q0 a\u00adb\x9b#1 1 1.0 run")
    assert capsys.readouterr().out == "q1 Q0 a\u00adb\x9b#1 1 1.0 run\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out_record("q1 Q0 a\u00adb\x9b#1 1 1.0 run")
    assert capsys.readouterr().out == "q1 Q0 a\\xadb\\x9b#1 1 1.0 run\n"
