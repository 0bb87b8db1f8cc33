"""mirage finetune."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_llm
from command_line import mirage, refusal

from mirage.dataset import MirageDataset
from mirage.sources import memerag
from mirage.testsets import write_training_set
from mirage.training import training_examples

WHY = "needs the extra 'finetune'"
DATASET = MirageDataset.bundled("en")
GRID = """
name: small
datasets: {train: {form: jsonl, path: train.jsonl}}
corpora: {all: {dataset: train, language: en}}
retrievers: {bm25: {kind: bm25}}
generators: {best: {kind: oracle-answer}}
grid: {dataset: [train], corpus: [all], retriever: [bm25, oracle], generator: [best], show_k: [2]}
metrics: [qa_match]
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Write queries for training and for evaluation."""
    DATASET[:30].save(tmp_path / "train.jsonl")
    DATASET[30:].save(tmp_path / "test.jsonl")
    return tmp_path


def test_queries_become_an_adapter(files: Path) -> None:
    pytest.importorskip("trl", reason=WHY)
    passages = [p for query in DATASET for p in query.passages]
    base = tiny_llm.folder_of(files / "base", [p.text for p in passages])
    rows = "\n".join(p.model_dump_json(exclude_none=True) for p in passages)
    (files / "passages.jsonl").write_text(rows)
    common = ("--model", base, "--set", "steps=2", "--set", "batch_size=2")
    done = mirage(
        *("finetune", files / "train.jsonl", "--out", files / "tuned", *common),
        *("--evaluation", files / "test.jsonl"),
    )
    assert "note:" not in done.stderr
    answerable = [query.id for query in DATASET[:30] if query.answers]
    counts = f"{len(answerable)} examples, {30 - len(answerable)} queries left out, 2 steps"
    assert counts in done.stdout
    manifest = json.loads((files / "tuned" / "manifest.json").read_text())
    assert manifest["recipe"]["batch_size"] == 2
    assert manifest["evaluation"][0]["name"] == "test"
    # The conversations of a training set, by the other paper's settings; nothing to be apart from.
    examples = training_examples(DATASET[:4]).examples
    write_training_set(examples, files / "lessons.jsonl")
    done = mirage(
        *("finetune", files / "lessons.jsonl", "--out", files / "other", *common),
        *("--recipe", "mirage-bench"),
    )
    assert f"{len(examples)} examples" in done.stdout
    assert json.loads((files / "other" / "manifest.json").read_text())["recipe"]["rank"] == 16
    assert "without --evaluation" in done.stderr
    # What a cell of a grid shows.
    (files / "grid.yaml").write_text(GRID)
    cell = ("--cell", "retriever=bm25", "--out", files / "of-grid", *common)
    done = mirage("finetune", files / "grid.yaml", *cell)
    assert f"{len(answerable)} examples" in done.stdout
    told = refusal(
        *("finetune", files / "lessons.jsonl", "--out", files / "third", *common),
        *("--evaluation", files / "train.jsonl"),
    )
    assert "are also in an evaluation set: 'q01' (its id is in train)" in told


def test_what_cannot_be_is_refused(files: Path, data_dir: Path) -> None:
    def said(*arguments: object) -> str:
        return refusal("finetune", *arguments, "--model", "none", "--out", files / "out")

    train = files / "train.jsonl"
    assert "did you mean 'bergen'" in said(train, "--recipe", "bergn")
    assert "did you mean 'rank'" in said(train, "--set", "rnk=8")
    assert "rank=8.5: expected a whole number" in said(train, "--set", "rank=8.5")
    assert "rank and alpha must be above 0" in said(train, "--set", "rank=0")
    assert "did you mean 'reference'" in said(train, "--target", "references")
    assert "must be at least 1" in said(train, "--set", "steps=0")
    write_training_set(training_examples(DATASET[:4]).examples, files / "lessons.jsonl")
    assert "--cell selects a cell (a combination of settings) of a grid" in said(
        train, "--cell", "retriever=bm25"
    )
    (files / "grid.yaml").write_text(GRID)
    assert "also set retriever to one of bm25, oracle" in said(files / "grid.yaml")
    assert "expected AXIS=VALUE" in said(files / "grid.yaml", "--cell", "bm25")
    memerag.load(data_dir / "memerag" / "memerag" / "de.jsonl", "de").dataset.save(
        files / "labelled.jsonl"
    )
    pytest.importorskip("transformers", reason=WHY)
    (files / "empty").mkdir()  # a name would be asked for at the hub
    told = refusal("finetune", train, "--model", files / "empty", "--out", files / "out")
    assert "cannot be loaded" in told
    base = tiny_llm.folder_of(files / "base", ["a"])
    told = refusal("finetune", files / "labelled.jsonl", "--model", base, "--out", files / "out")
    assert "must not be used for training" in told
