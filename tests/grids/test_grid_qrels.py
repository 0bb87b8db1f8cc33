"""Retrieval measures of a grid use the grades of the qrels, and enough passages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirage.grids import Grid
from mirage.retrieval import evaluate

MEASURES = ("nDCG@10", "R(rel=2)@2", "RR(rel=2)@3")

GRADED = """\
name: graded
datasets: {{d: {dataset}}}
corpora: {{c: {{path: passages.jsonl, language: en}}}}
retrievers: {{r: {{kind: run, path: graded.trec}}}}
grid: {{dataset: d, corpus: c, retriever: r}}
metrics: ["nDCG@10", "R(rel=2)@2", "RR(rel=2)@3"]
"""


def graded_files(folder: Path) -> None:
    """Write queries with a passage of grade 3 and one of grade 1, and a run that swaps them."""
    files: dict[str, list[str]] = {}
    for i in range(12):
        question = f"question number {i}"
        row = {"id": f"q{i}", "question": question, "answers": ["yes"]}
        passages = [{"id": f"{letter}{i}", "text": f"text {letter} of {i}"} for letter in "ab"]
        lines = {
            "topics.tsv": [f"q{i}\t{question}"],
            "answers.jsonl": [json.dumps(row)],
            "beir/queries.jsonl": [json.dumps({"_id": f"q{i}", "text": question})],
            "graded.qrels": [f"q{i} 0 a{i} 3", f"q{i} 0 b{i} 1"],
            "beir/qrels/test.tsv": [f"q{i}\ta{i}\t3", f"q{i}\tb{i}\t1"],
            "graded.trec": [f"q{i} Q0 b{i} 1 2.0 X", f"q{i} Q0 a{i} 2 1.0 X"],
            "passages.jsonl": list(map(json.dumps, passages)),
        }
        for name, new in lines.items():
            files.setdefault(name, []).extend(new)
    files["beir/qrels/test.tsv"].insert(0, "query-id\tcorpus-id\tscore")
    for name, rows in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize(
    "dataset",
    [
        "{form: trec, path: topics.tsv, qrels: graded.qrels, language: en}",
        "{form: answers, path: answers.jsonl, qrels: graded.qrels, language: en}",
        "{form: beir, path: beir, language: en}",
        "{form: beir, path: beir, qrels: graded.qrels, language: en}",
    ],
)
def test_measures_use_the_grades_of_the_qrels(tmp_path: Path, dataset: str) -> None:
    graded_files(tmp_path)
    (tmp_path / "grid.yaml").write_text(GRADED.format(dataset=dataset))
    (cell,) = Grid.read(tmp_path / "grid.yaml").run(progress=False)
    expected = evaluate(tmp_path / "graded.trec", tmp_path / "graded.qrels", MEASURES)
    assert cell.failure == ""
    means = {name: cell.scores[name].mean for name in MEASURES}
    assert means == pytest.approx({name: expected[name].mean for name in MEASURES})
    assert means["nDCG@10"] == pytest.approx(0.797, abs=0.001)
    assert means["R(rel=2)@2"] == 1.0


def test_results_with_binary_qrels_keep_their_keys(tmp_path: Path) -> None:
    graded_files(tmp_path)
    qrels = tmp_path / "graded.qrels"
    dataset = "{form: trec, path: topics.tsv, qrels: graded.qrels, language: en}"
    (tmp_path / "grid.yaml").write_text(GRADED.format(dataset=dataset))
    for text, has_grades in (("1", False), ("0", False), ("3", True), ("-1", True)):
        qrels.write_text("".join(f"q{i} 0 a{i} 1\nq{i} 0 b{i} {text}\n" for i in range(12)))
        grid = Grid.read(tmp_path / "grid.yaml")
        grid.run(tmp_path / f"store{text}", progress=False)
        (path,) = (tmp_path / f"store{text}" / "measure").glob("*/manifest.json")
        assert ("grades" in json.loads(path.read_text())["settings"]) is has_grades
