"""Commands on a full disk, with full or closed streams, and with endless input."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from command_line import (
    IN_SWAHILI,
    LANGUAGE,
    PROGRAM,
    commands,
    first_passage,
    json_lines,
    mirage,
    responses,
)
from full_disk import disk_of
from llm_server import ChatServer
from tiny_models import cross_encoder

from mirage.dataset import MirageDataset
from mirage.retrieval import RetrievalRun

DATASET = MirageDataset.bundled(LANGUAGE)
GRID = """\
name: gold
datasets:
  sw: {form: bundled, language: sw}
corpora:
  sw: {dataset: sw, language: sw}
retrievers:
  bm25: {kind: bm25}
generators:
  gold: {kind: oracle-answer}
grid:
  dataset: sw
  corpus: sw
  retriever: [none, bm25]
  generator: gold
metrics: [qa_match]
"""


class Inputs(NamedTuple):
    """Files that commands read."""

    folder: Path
    server: str

    def __getitem__(self, name: str) -> Path:  # type: ignore[override]
        return self.folder / name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inputs]:
    """Return inputs of all commands, which commands write."""
    folder = tmp_path_factory.mktemp("inputs")
    responses(folder / "good.jsonl")
    responses(folder / "bad.jsonl", first_passage)
    DATASET.save(folder / "queries.jsonl")
    handbook = folder / "handbook"
    handbook.mkdir()
    for number, query in enumerate(DATASET):
        text = "\n\n".join(passage.text for passage in query.passages)
        (handbook / f"{number}.md").write_text(f"# {query.passages[0].title}\n\n{text}\n")
    votes = [
        {"query_id": query.id, "model_a": a, "model_b": b, "verdict": "ab"[number % 2]}
        for number, query in enumerate(DATASET)
        for a, b in pairwise(["good", "bad", "worst", "good"])
    ]
    json_lines(folder / "judgments.jsonl", votes)
    rows = [
        {
            "query": query.text,
            "language": LANGUAGE,
            "passages": [query.passages[0].text],
            "sentence": (query.passages[0].text, "Mbwa wawili walilala.")[kind],
            "label": ("Supported", "Not Supported")[kind],
        }
        for query in DATASET
        for kind in (0, 1)
    ]
    json_lines(folder / "labels.jsonl", rows)
    json_lines(
        folder / "new.jsonl", [{k: v for k, v in row.items() if k != "label"} for row in rows]
    )
    scores = [{"item": query.id, "score": 1} for query in DATASET]
    json_lines(folder / "scores.jsonl", scores)
    json_lines(folder / "log.jsonl", [{"question": "Nani?", "answer": "Asha."}] * 3)
    (folder / "grid.yaml").write_text(GRID)
    for name, text in BERGEN.items():
        (folder / "bergen" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "bergen" / name).write_text(text)
    run = RetrievalRun.of(
        {q.id: {p: 1 / n for n, p in enumerate(q.passage_ids, 1)} for q in DATASET}
    )
    run.write(folder / "run.trec")
    passages = {p.id: p.model_dump(exclude_none=True) for q in DATASET for p in q.passages}
    json_lines(folder / "passages.jsonl", passages.values())
    (folder / "topics.tsv").write_text("".join(f"{q.id}\t{q.text}\n" for q in DATASET))
    qrels = (f"{q.id} 0 {p} {int(p in q.relevant)}\n" for q in DATASET for p in q.passage_ids)
    (folder / "qrels.txt").write_text("".join(qrels))
    with ChatServer() as server:
        yield Inputs(folder, server.url)


@pytest.fixture(autouse=True)
def _commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a commit for the history, because a source archive has none."""
    monkeypatch.setenv("MIRAGE_COMMIT", "first")


def ready(made: Inputs, name: str) -> Path:
    """Return an input that a command writes when it is first needed."""
    path = made[name]
    if not path.exists():
        done = {
            "x.index": lambda: mirage("index", made["passages.jsonl"], path, "--language", "sw"),
            "baseline.json": lambda: mirage(
                "baseline", *IN_SWAHILI, made["good.jsonl"], "--out", path
            ),
            "sheet.csv": lambda: sheet(made, path),
            "history.sqlite": lambda: mirage(
                *("check", *IN_SWAHILI, made["good.jsonl"], "--history", path),
                *("--baseline", ready(made, "baseline.json")),
            ),
            "gold.store": lambda: mirage("grid", "run", made["grid.yaml"], "--limit", 9),
        }[name]()
        assert done is None or done.exit_code == 0, done.stderr
    return path


def sheet(made: Inputs, path: Path) -> None:
    """Write a sheet of items that people have filled in."""
    mirage("tests", "make", made["handbook"], "--language", "sw", "--kind", "single=1",
           "--items", 4, "--skeleton", path)  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    for row in rows:
        row["question"] = "Nani alianzisha kampuni?"
        row["answers"] = row["text"].split(".")[0]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


BERGEN = {
    "retriever/bm25.yaml": "init_args: {_target_: models.retrievers.bm25.BM25, model_name: bm25}\n",
    "generator/small.yaml": "init_args: {_target_: models.generators.vllm.VLLM, model_name: m/s}\n",
    "prompt/basic.yaml": 'user: f"{docs} {question}"\n',
    "dataset/popqa.yaml": """\
dev:
  doc: {init_args: {_target_: modules.dataset_processor.KILT100w, split: full}}
  query: {init_args: {_target_: modules.dataset_processor.POPQA, split: test}}
""",
}


def grid_in(folder: Path) -> Path:
    """Write the grid into a folder of its own, next to which its store is created."""
    path = folder / ".grid" / "grid.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(GRID)
    return path


# By command, its words, where ``out`` is a folder for what it writes.
WRITERS: dict[str, Callable[[Inputs, Path], tuple[Any, ...]]] = {
    "rank": lambda of, out: (*IN_SWAHILI, of["good.jsonl"], "--report", out / "x.html"),
    "features": lambda of, out: (*IN_SWAHILI, of["good.jsonl"], "--out", out / "x.jsonl"),
    "logs features": lambda of, out: (*IN_SWAHILI, of["log.jsonl"], "--out", out / "x.jsonl"),
    "generate": lambda of, out: (
        *(*IN_SWAHILI, "--model", "m", "--base-url", of.server),
        *("--llm", "cache=no", "--out", out / "x.jsonl"),
    ),
    "judge": lambda of, out: (
        *(*IN_SWAHILI, of["good.jsonl"], of["bad.jsonl"], "--judge", "j", "--base-url", of.server),
        *("--llm", "cache=no", "--queries", 6, "--out", out / "x.jsonl"),
    ),
    "fit": lambda of, out: (of["judgments.jsonl"], "--report", out / "x.html"),
    "index": lambda of, out: (of["passages.jsonl"], out / "x", *IN_SWAHILI),
    "retrieve": lambda of, out: (ready(of, "x.index"), LANGUAGE, "--out", out / "x.trec.gz"),
    "rerank": lambda of, out: (
        *(of["run.trec"], ready(of, "x.index"), LANGUAGE, "--out", out / "x.trec"),
        *("--model", of["encoder"], "--depth", 2),
    ),
    "decide": lambda of, out: (
        *(of["labels.jsonl"], of["new.jsonl"], "--feature", "support_lexical=0.6"),
        *("--risk", 0.2, "--out", out / "x.jsonl", "--rest", out / "left.jsonl"),
    ),
    "check": lambda of, out: (
        *(of["good.jsonl"], "--baseline", ready(of, "baseline.json")),
        *("--comment", out / "x.md", "--junit", out / "x.xml"),
    ),
    "compare": lambda of, out: (
        *(of["scores.jsonl"], of["scores.jsonl"]),
        *("--comment", out / "x.md", "--junit", out / "x.xml", "--report", out / "x.html"),
    ),
    "label": lambda of, out: (
        *(*IN_SWAHILI, of["good.jsonl"], "--rater", "ann", "--items", 5),
        *("--page", out / "x.html", "--out", out / ".labels.jsonl"),
    ),
    "history": lambda of, out: (ready(of, "history.sqlite"), "--report", out / "x.html"),
    "grid run": lambda _, out: (grid_in(out), "--limit", 9, "--out", out / "x.md"),
    "grid from-bergen": lambda of, out: (of["bergen"], "--out", out / "x.yaml"),
    "grid table": lambda of, out: (
        *(ready(of, "gold.store").with_name("grid.yaml"), "--limit", 9),
        *("--out", out / "x.md", "--report", out / "x.html"),
    ),
    "baseline": lambda of, out: (*IN_SWAHILI, of["good.jsonl"], "--out", out / "x.json"),
    "data build": lambda of, out: (
        *("--topics", of["topics.tsv"], "--qrels", of["qrels.txt"], *IN_SWAHILI),
        *("--passages", of["passages.jsonl"], "--out", out / "x.jsonl"),
    ),
    "data convert": lambda of, out: (of["queries.jsonl"], "--to", "trec", "--out", out / "x"),
    "tests make": lambda of, out: (
        *(of["handbook"], *IN_SWAHILI, "--sheet", ready(of, "sheet.csv")),
        *("--out", out / "x.jsonl", "--report", out / "x.html"),
    ),
    "tests review": lambda of, out: (of["queries.jsonl"], "--out", out / "x.html"),
    "tests write": lambda of, out: (
        *(of["bad.jsonl"], *IN_SWAHILI, "--out", out / "test_x.py"),
        *("--kind", "uncited"),
    ),
}
ELSEWHERE = {
    "data queries": "it writes to standard output alone",
    "board build": "its pages and files are written as every other",
    "finetune": "training a model takes long; its files go to a folder that index is made like",
    "surrogate train": "its file is written as every other",
    "surrogate rebuild": "a surrogate for each of 18 languages takes long",
}
GROW = {"generate": "x.jsonl", "judge": "x.jsonl"}
"""Files that grow while work goes on: a full disk leaves whole lines in them."""

UNFINISHED = (".part", ".journal")
"""Ends of the names of files with complete blocks, with which the next run continues."""


def test_every_command_that_writes_is_tried() -> None:
    writing = {
        words
        for words, command in commands()
        if any(
            option in ("--out", "--html", "--report", "--comment", "--junit", "--history")
            for parameter in command.params
            for option in parameter.opts
        )
    }
    assert writing - set(ELSEWHERE) <= set(WRITERS)


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


LONG = ("rank", "fit", "check", "decide", "tests write")
TAKE_SECONDS = (
    *("rank", "rerank", "fit", "judge", "generate", "check", "history", "retrieve"),
    *("grid run", "grid table", "baseline", "tests make", "tests write"),
)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[pytest.mark.slow] if words in TAKE_SECONDS else [])
        for words in WRITERS
    ],
)
def test_a_full_disk_leaves_no_half_file_and_the_next_run_mends_it(
    words: str, made: Inputs, tmp_path: Path
) -> None:
    if words == "rerank" and not made["encoder"].exists():
        made["encoder"].symlink_to(cross_encoder(tmp_path / "model"))
        ready(made, "x.index")
    sound, full = tmp_path / "sound", tmp_path / "full"
    sound.mkdir()
    full.mkdir()
    arguments = WRITERS[words]
    first = mirage(*words.split(), *arguments(made, sound))
    assert first.exit_code in (0, 1), first.stderr  # 1: it falls short of what was wanted
    whole = {name: data for name, data in files_in(sound).items() if not _is_private(name)}
    size = max(map(len, whole.values()))
    for most in (size - 1,) if words in LONG else (0, size // 2, size - 1):
        given = arguments(made, full)
        with disk_of(most):
            done = mirage(*words.split(), *given)
        assert done.exit_code == 1, (most, done.stderr)
        assert "cannot be" in done.stderr  # written, or used if it is a database
        assert "Traceback" not in done.stderr
        for name, data in files_in(full).items():
            if name == GROW.get(words):
                assert data == b"" or data.endswith(b"\n")
                assert all(json.loads(line) for line in data.splitlines())
            elif not _is_private(name) and not name.endswith(UNFINISHED):
                assert name in whole
                assert len(data) == len(whole[name]) or words == "grid run"
    again = mirage(*words.split(), *arguments(made, full))
    assert again.exit_code == first.exit_code, again.stderr
    left = files_in(full)
    assert {name for name in left if not _is_private(name)} == set(whole)
    assert not any(name.rpartition("/")[2].startswith(".mirage-") for name in left)
    for name, data in whole.items():
        lines = sorted(data.replace(bytes(sound), b"").splitlines())
        assert (
            sorted(left[name].replace(bytes(full), b"").splitlines()) == lines
            or name.endswith("manifest.json")  # it says how long the work took
        ), name


def _is_private(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


@pytest.mark.slow
def test_a_history_on_a_full_disk_stays_sound(
    made: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: tuple[object, ...] = ("check", made["good.jsonl"])
    words += ("--baseline", ready(made, "baseline.json"))
    words += ("--history", tmp_path / "history.sqlite")
    monkeypatch.setenv("MIRAGE_COMMIT", "first")
    assert mirage(*words).exit_code == 0
    monkeypatch.setenv("MIRAGE_COMMIT", "second")
    with disk_of(4096):
        full = mirage(*words)
    assert full.exit_code == 1
    assert "history.sqlite: cannot be" in full.stderr
    assert mirage(*words).exit_code == 0
    (series,) = json.loads(mirage("history", tmp_path / "history.sqlite", "--json").stdout)[
        "series"
    ]
    assert [commit["sha"] for commit in series["commits"]] == ["first", "second"]


# Streams ------------------------------------------------------------------------------------------


def shell(redirection: str, *words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that redirects its streams."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *PROGRAM, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        **settings,
    )


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@needs_full
@pytest.mark.parametrize("buffered", ["", pytest.param("1", marks=pytest.mark.slow)])
@pytest.mark.parametrize("words", [["data", "queries", LANGUAGE], ["--help"], ["--version"]])
def test_a_full_output_is_one_line_and_status_1(words: list[str], buffered: str) -> None:
    done = shell(">/dev/full", *words, env={**os.environ, "PYTHONUNBUFFERED": buffered})
    assert done.returncode == 1
    assert done.stderr.startswith("error: an output cannot be written (No space left on device)")
    assert done.stderr.count("\n") == 1


def test_a_closed_output_is_one_line_and_status_1() -> None:
    done = shell(">&-", "data", "queries", LANGUAGE)
    assert done.returncode == 1
    assert done.stderr.startswith("error: an output cannot be written")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_closed_input_is_an_error_if_it_is_read_and_else_nothing(tmp_path: Path) -> None:
    done = shell("<&-", "fit", "-")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: standard input cannot be read")
    assert done.stderr.count("\n") == 1
    path = tmp_path / "x.jsonl"
    path.write_text("")
    assert shell("<&-", "data", "queries", LANGUAGE).stdout.count("\n") == len(DATASET)


@pytest.mark.slow
@pytest.mark.parametrize(
    "redirection",
    ["2>&-", pytest.param("2>/dev/full", marks=needs_full)],
)
def test_messages_that_nobody_takes_change_no_status(redirection: str) -> None:
    done = shell(redirection, "fit", "none.jsonl")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    done = shell(redirection, "data", "queries", LANGUAGE)
    assert (done.returncode, done.stdout.count("\n")) == (0, len(DATASET))


def test_files_do_not_take_the_numbers_of_closed_streams(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    queries = tmp_path / "queries.jsonl"
    DATASET.save(queries)
    done = shell("<&- >&- 2>&-", "data", "convert", queries, "--out", out)
    assert done.returncode == 1  # the summary has no place to go
    assert out.read_bytes() == queries.read_bytes()


# Endless input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["fit"], ["rank", *IN_SWAHILI], ["eval-run"], ["data", "describe"]]
)
def test_a_device_is_refused_at_once(words: list[str]) -> None:
    more = [LANGUAGE] if words == ["eval-run"] else []
    done = mirage(*words, "/dev/zero", *more)
    assert done.exit_code == 2
    assert "/dev/zero: this is a device" in done.stderr


def test_an_endless_standard_input_ends_within_bounded_memory() -> None:
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
{PROGRAM[-1]}
"""
    with open("/dev/zero", "rb") as endless:
        done = subprocess.run(
            [sys.executable, "-c", code, "fit", "-"],
            stdin=endless,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "MIRAGE_READ_LIMIT": "32M"},
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard input: the input has more than 32 MiB")
    assert done.stderr.count("\n") == 1


def test_a_pipe_with_a_name_is_read(tmp_path: Path) -> None:
    pipe, content = tmp_path / "pipe", responses(tmp_path / "x.jsonl").read_bytes()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    done = mirage("baseline", *IN_SWAHILI, f"m={pipe}", "--out", tmp_path / "b.json")
    writer.join()
    assert done.exit_code == 0


def test_messages_of_commands_are_bounded(tmp_path: Path) -> None:
    rows = [{"query_id": "x" * 100_000, "text": "y"}]
    done = mirage("rank", *IN_SWAHILI, json_lines(tmp_path / "x.jsonl", rows))
    assert done.exit_code == 2
    assert len(done.stderr) < 1100
