"""Every code block of README and docs runs: Python in one namespace a page, bash in its folder."""

from __future__ import annotations

import json
import math
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases import each_case
from llm_server import ChatServer, last_user_text
from sybil import Document, Example
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser
from typer.main import get_command
from typer.testing import CliRunner

from mirage import Leaderboard, MirageDataset
from mirage.cli import app
from mirage.errors import install_command
from mirage.features import facts
from mirage.features.registry import DEFINITIONS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def answer(request: Mapping[str, Any]) -> str:
    """What a model might say: a verdict where one is asked for, an answer elsewhere."""
    prompt = last_user_text(request)
    if "JSON object" in prompt:
        return json.dumps(item_or_answer(prompt))
    if "[[A]]" in prompt:
        return "Both are fine, the first is clearer.\n[[A]]"
    if "##Answer" in prompt or "##Answer" in json.dumps(request["messages"]):
        return "##Reason: The first passage says so.\n##Answer: It says so [1]."
    return "4"


def item_or_answer(prompt: str) -> Mapping[str, Any]:
    """An item on the first opening in a passage; or when that was, where a passage says so."""
    opened = re.findall(r"(The [A-Z]\w+ \w+) opened in (\d+)", prompt)
    asked = re.search(r"When did the (\w+ \w+) open", prompt)
    if asked and "You answer" in prompt:
        return {"answer": next((year for name, year in opened if asked[1] in name), None)}
    (name, year), *_ = opened
    return {
        "question": f"When did the{name.removeprefix('The')} open?",
        "answers": [[year]],
        "wrong_answers": [[str(int(year) + 1)]],
        "reason": "The passage says when.",
        "answer": f"{name} opened in {year} [1].",
    }


# A line that needs no shell: a command of ours, and perhaps a file for what it prints, or how it
# ends.
COMMAND = re.compile(r"mirage ([^|&;<>$`*(){}\\\n#]+?)(?: > (\S+)|  # exit status (\d))?")


def in_bash(example: Example) -> None:
    """Run a block, in this process where it is commands of ours alone."""
    lines = [COMMAND.fullmatch(line) for line in example.parsed.splitlines()]
    printed = "" if all(lines) else in_shell(example)
    for line in lines if all(lines) else ():
        assert line is not None
        done = CliRunner().invoke(app, shlex.split(line[1]))
        assert done.exit_code == int(line[3] or 0), f"{line[0]}\n{done.output}"
        printed += done.output
        if line[2]:
            Path(line[2]).write_text(done.stdout, encoding="utf-8")
    example.namespace["printed"] = printed


def in_shell(example: Example) -> str:
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", example.parsed],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, f"{example.parsed}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def as_printed(example: Example) -> None:
    """Check the lines of a block against what the command before it printed, in their order."""
    rest = example.namespace["printed"].splitlines()
    for line in example.parsed.splitlines():
        if line == "...":
            continue
        shown = re.compile(".*".join(map(re.escape, line.split("..."))))
        where = next((n for n, real in enumerate(rest) if shown.fullmatch(real)), None)
        assert where is not None, f"not printed: {line}\n{example.namespace['printed']}"
        rest = rest[where + 1 :]


def in_python(example: Example) -> None:
    """Run a block, or write it where its first line names a file: ``# test_my_rag.py``."""
    name = re.match(r"# (\w+\.py)\n", example.parsed)
    if name:
        Path(name[1]).write_text(example.parsed, encoding="utf-8")
    else:
        PythonEvaluator()(example)


# Pages whose blocks of text are what the commands before them print.
PRINTED = {"docs/guides/first-gate.md", "docs/guides/which-system.md"}


def examples(page: Path, *, printed: bool = False) -> list[Example]:
    parsers = [CodeBlockParser("python", in_python), CodeBlockParser("bash", in_bash)]
    if printed:
        parsers.append(CodeBlockParser("text", as_printed))
    document = Document.parse(str(page), *parsers)
    # Setting up from nothing is what .ci/run does, with the very commands of README.
    return [example for example in document.examples() if "-m venv" not in example.parsed]


# Pages that run pytest take long: it loads the models of languages anew each time.
RUN_PYTEST = {"docs/guides/ci.md", "docs/guides/first-gate.md"}
NEED_EXTRAS = {"docs/guides/official-board.md", "docs/guides/finetuning.md"}
TAKE_SECONDS = {
    f"docs/{name}.md"
    for name in (
        "guides/board",
        "guides/dataset",
        "guides/feature",
        "guides/features",
        "guides/few-judgments",
        "guides/grids",
        "guides/intervals",
        "guides/judge",
        "guides/label",
        "guides/logs",
        "guides/pipeline",
        "guides/scaling",
        "guides/which-judge",
        "guides/which-system",
        "science",
        "start",
    )
}
SLOW = RUN_PYTEST | NEED_EXTRAS | TAKE_SECONDS
MARKED = [
    pytest.param(page, marks=[pytest.mark.slow] if name in SLOW else [])
    for page, name in zip(PAGES, IDS, strict=True)
]


@pytest.mark.parametrize("page", MARKED, ids=IDS)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ChatServer
) -> None:
    server.answer = answer
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as where one runs `python` in that folder
    if page.stem == "official-board":
        pytest.importorskip("datasets", reason="the extra hub is not installed")
        import hub_copy

        hub_copy.make_arena().write(tmp_path / "copies")
    if page.stem == "finetuning":
        pytest.importorskip("trl", reason="the extra finetune is not installed")
        import tiny_llm

        texts = [
            passage.text for query in MirageDataset.bundled("en") for passage in query.passages
        ]
        tiny_llm.folder_of(tmp_path / "base", texts)
    if page.stem == "first-gate":
        stand_in = runpy.run_path(str(ROOT / "examples" / "from_documents.py"))
        stand_in["write_handbook"](tmp_path / "handbook")
        server.answer = stand_in["reply"]
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    try:
        for example in examples(page, printed=str(page.relative_to(ROOT)) in PRINTED):
            example.evaluate()
    except pytest.skip.Exception as skipped:  # the rest of the page would not be run
        pytest.fail(f"skipped: {skipped}")


@each_case("page", PAGES)
def test_no_code_of_a_page_is_left_out(page: Path) -> None:
    fences = re.findall(r"^```(\w*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    known = {"python", "bash", "text", "json", "yaml", "toml", "ini", "diff", ""}
    assert set(fences) <= known
    setting_up = page.read_text(encoding="utf-8").count("-m venv")
    assert len(examples(page)) == fences.count("python") + fences.count("bash") - setting_up


@pytest.mark.slow
def test_the_additions_that_contributors_are_shown_work(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "mirage", tmp_path / "mirage")
    for path, lines in re.findall(r"^\+\+\+ (\S+)\n((?:\+.*\n)+)", page, re.MULTILINE):
        (tmp_path / path).write_text(re.sub(r"^\+", "", lines, flags=re.MULTILINE), "utf-8")
    changes = {
        "mirage/cli/_shell.py": ('"generate")', '"generate", "count")'),
        "mirage/features/registry.py": ("    rated,", "    questions,\n    rated,"),
        "mirage/retrieval/__init__.py": (
            '    "mirage.retrieval.run"',
            '    "mirage.retrieval.first": ("FirstPassages",),\n    "mirage.retrieval.run"',
        ),
        "mirage/grids/_entries.py": (
            "RetrieverEntry = Annotated[\n",
            f"{entry_in(page)}RetrieverEntry = Annotated[\n    FirstPassagesEntry | ",
        ),
    }
    for path, (old, new) in changes.items():
        text = (tmp_path / path).read_text("utf-8")
        assert old in text
        (tmp_path / path).write_text(text.replace(old, new), "utf-8")
    (tmp_path / "r.jsonl").write_text('{"query_id": "q01", "text": "Which one?"}\n', "utf-8")
    (tmp_path / "grid.yaml").write_text(FIRST_PASSAGES, "utf-8")
    printed = [
        subprocess.run(
            [sys.executable, "-c", "from mirage.cli import app; app()", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command in (
            ["count", "--language", "sw", "--json", "r.jsonl"],
            ["features", "--language", "sw", "--feature", "asks_back", "r.jsonl"],
            ["grid", "run", "--json", "grid.yaml"],
        )
    ]
    assert printed[0] == '{"responses": 1}\n'
    assert "asks_back  1.000" in printed[1]
    (cell,) = json.loads(printed[2])["cells"]
    assert cell["scores"]["R@5"]["n"] == 30


FIRST_PASSAGES = """
name: first
datasets:
  sw: {form: bundled, language: sw}
corpora:
  sw: {dataset: sw, language: sw}
retrievers:
  first: {kind: first}
grid:
  dataset: [sw]
  corpus: [sw]
  retriever: [first]
  retrieve_k: [5]
metrics: ["R@5"]
"""


def entry_in(page: str) -> str:
    """Return the entry of the retriever that the page shows, with the blank lines after it."""
    lines = re.findall(r"^(\+class FirstPassagesEntry.*\n(?:\+.*\n)+)", page, re.MULTILINE)
    return re.sub(r"^\+", "", lines[0], flags=re.MULTILINE)


# A job's command, on one line or several, without what it is written to.
IN_A_JOB = re.compile(r"^mirage (.+)$", re.MULTILINE)


def texts_in(value: Any) -> Iterator[str]:
    """The texts in a document of YAML, at any depth."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_in(inner)
    elif isinstance(value, str):
        yield value


@each_case("page", PAGES)
def test_jobs_are_yaml_and_their_commands_have_these_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for script in texts_in(yaml.load(block, yaml.BaseLoader)):
            for words in map(shlex.split, IN_A_JOB.findall(script)):
                command: Any = get_command(app)
                while words and hasattr(command, "commands"):
                    command = command.commands[words.pop(0)]
                command.make_context("job", words)  # or what is wrong with them


@each_case("page", PAGES)
def test_links_lead_to_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [
        target.partition("#")[0]
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
        if "://" not in target
    ]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_the_pages_show_every_way_to_use_a_leaderboard() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES if page.parent.name != "api")
    ways = [
        way
        for way, value in vars(Leaderboard).items()
        if type(value) not in (cached_property, property)
    ]
    assert [way for way in ways if not way.startswith("_") and f".{way}(" not in text] == []


# The guide to features ----------------------------------------------------------------------------

# The other scores of nuggets are named below the table.
LISTED = [entry for name, entry in DEFINITIONS.items() if not name.startswith("nugget_recall_")]


def table_row(name: str) -> tuple[str, ...]:
    """Return the expected cells of a feature: its range, its direction and its needs."""
    row = facts(name)
    span = f"{row.low:g} to {row.high:g}" if math.isfinite(row.high) else "a logit"
    better = row.direction.replace("none", "neither")
    exceptions = (f" (in {code}: {way})" for code, way in row.direction_by_language.items())
    alternative = ", or your own function" if "embedder" in row.needs else ""
    extra = f" (extra `{row.extra}`{alternative})" if row.extra else ""
    return span, better + "".join(exceptions), (", ".join(row.needs) or "nothing") + extra


def test_the_table_of_features_agrees_with_their_definitions() -> None:
    text = (ROOT / "docs" / "guides" / "features.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    table = {name: tuple(cells) for name, *cells in rows}
    assert table == {entry.example: table_row(entry.example) for entry in LISTED}


def test_every_feature_has_an_entry() -> None:
    text = (ROOT / "docs" / "guides" / "features.md").read_text(encoding="utf-8")
    named = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^### .*", text, re.MULTILINE)))
    assert set(named) == {entry.example for entry in LISTED}


@each_case("page", PAGES)
def test_a_page_installs_the_package_from_where_it_is_published(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    requirements = re.findall(r"""pip install[^\n]*?(mirage-rag[^'"\n]*)""", text)
    for requirement in requirements:
        extra = re.match(r"mirage-rag(?:\[([\w,-]+)\])?", requirement)
        assert extra is not None
        assert f"'{requirement}'" in install_command(extra[1] or "")


def test_every_test_that_the_security_page_names_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"tests/[\w/]+(?:\.py)?", page)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.slow  # needs an extra
def test_the_reference_shows_no_note_to_pytest() -> None:
    griffe = pytest.importorskip("griffe", reason="the extra dev is not installed")
    roles = griffe.load_extensions({str(ROOT / "docs" / "roles.py"): {}})
    package = griffe.load("mirage", extensions=roles, search_paths=[str(ROOT)])
    assert "The public names" in package.docstring.value
    assert "PYTEST_DONT_REWRITE" not in package.docstring.value
