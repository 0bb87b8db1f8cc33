"""Written test files: names of files and models in them never run as code."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_mutation import user_data

from mirage import MirageDataset, Run, respond
from mirage.errors import SettingError
from mirage.testing import suites, write_tests
from mirage.testing.mutation import Bound, MutationScore

INJECTION = 'a" if __import__("os").system("touch PWNED") else "b.jsonl'
NAMES = (
    INJECTION,
    "a' if __import__('os').system('touch PWNED') else 'b.jsonl",
    'a""" + str(__import__("os").system("touch PWNED")) + """b.jsonl',
    'a"""\nimport os\nos.system("touch PWNED")\n"""b.jsonl',
    "a\nimport os; os.system('touch PWNED')\n.jsonl",
    "a\r# .jsonl",
    '"',
    "'",
    '"""',
    "a\\.jsonl",
    "a\\",
    "a\\N{BULLET}\\x41\\u0041.jsonl",
    "# -*- coding: utf-7 -*-.jsonl",
    "{__file__}%s.jsonl",
    "a\x0c\x0b\x1cb.jsonl",
    "\ufeffa\u2028b\u2029c\x85.jsonl",
    "\u202elnosj.a\x9b31m\x1b[2J.jsonl",
    "می\u200cخواهم 日本語 🏴\U000e0067\U000e007f.jsonl",
    os.fsdecode(b"a\xff\xed\xa0\x80.jsonl"),
)


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the measurement of bounds, which is slow, by a constant."""
    score = MutationScore((), {}, ())
    suggested = (Bound("citation_recall@10", "the cited passages are relevant", ge=0.5),), score
    monkeypatch.setattr(suites, "suggested_bounds", lambda *_, **__: suggested)


def names_of(file: Path) -> dict[str, Any]:
    """Return the names that a test file defines when it runs."""
    names: dict[str, Any] = {"__file__": str(file)}
    exec(compile(file.read_bytes(), str(file), "exec"), names)
    return names


def without_names(file: Path) -> str:
    """Return the code of a file, with every string replaced by the same one."""
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = "a"
    return ast.dump(tree)


@pytest.mark.usefixtures("bounds")
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_written_file_reads_the_named_files_and_runs_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset, run = user_data(4)
    plain, file = tmp_path / "test_plain.py", tmp_path / "test_written.py"
    write_tests(plain, dataset, run, tmp_path / "r.jsonl", tmp_path / "q.jsonl")
    responses, queries = tmp_path / name, tmp_path / f"q{name}"
    run.save(responses)
    dataset.save(queries)
    model = name.encode("utf-8", "backslashreplace").decode()
    write_tests(file, dataset, run.model_copy(update={"model": model}), responses, queries)
    assert without_names(file) == without_names(plain)
    names = names_of(file)
    assert names["RAG"] == responses
    assert names["QUERIES"].query_ids == dataset.query_ids
    (arguments,) = (names["run"].__wrapped__(lambda *args, **_: args[1:]),)
    assert arguments == (model,)
    assert sorted(tmp_path.iterdir()) == sorted([plain, file, responses, queries])


@pytest.mark.slow
@pytest.mark.usefixtures("bounds")
def test_pytest_collects_no_code_from_a_name(tmp_path: Path) -> None:
    dataset, run = user_data(4)
    responses, queries = tmp_path / INJECTION, tmp_path / f"q{INJECTION}"
    run.save(responses)
    dataset.save(queries)
    write_tests(tmp_path / "test_it.py", dataset, rename_model(run, INJECTION), responses, queries)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout
    assert not (tmp_path / "PWNED").exists()


def rename_model(run: Run, model: str) -> Run:
    return run.model_copy(update={"model": model})


def test_a_dataset_from_a_file_name_that_is_not_unicode_has_a_valid_name(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"a\xff.jsonl")
    dataset, _ = user_data(4)
    dataset.save(path)
    assert MirageDataset.load(path).name == r"a\udcff"


def test_no_tests_are_written_for_responses_that_would_fail_them(tmp_path: Path) -> None:
    dataset = MirageDataset.bundled("ja")
    texts = {query.id: query.reference or "" for query in dataset[:30]}
    run = respond(texts, dataset, "rag", progress=False)
    with pytest.raises(SettingError, match=r"failed on 10 of the 40 queries .*'q31': no response"):
        write_tests(tmp_path / "t.py", dataset, run, tmp_path / "rag.jsonl")
    assert not (tmp_path / "t.py").exists()
