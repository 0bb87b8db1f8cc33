"""Tests of running grids: steps run once, and results equal those of single components."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from full_disk import disk_of
from grid_files import grid_file
from llm_server import ChatServer, Reply

import mirage
from mirage import Pipeline
from mirage.corpus import Corpus
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.generation import OpenAIGenerator, ShortAnswerPrompt
from mirage.grids import Grid, ResultTable
from mirage.grids._nodes import Nodes
from mirage.grids.store import ResultStore
from mirage.llm import LLM, Budget
from mirage.retrieval import BM25, evaluate
from mirage.statistics.bootstrap import NO_INTERVAL
from mirage.text import parse

PROGRAM = """
import sys
from mirage.grids import Grid
print(Grid.read(sys.argv[1]).run(progress=False).to_json())
"""


def last_passage(request: Mapping[str, Any]) -> str:
    """Answer with the end of the prompt, which is short and sometimes right."""
    return str(request["messages"][-1]["content"])[-400:-200]


@pytest.fixture
def chat(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> ChatServer:
    """Serve the grid's generator."""
    server.answer = last_passage
    monkeypatch.setenv("GRID_KEY", "sk-of-the-grid")
    return server


def manifests(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.glob("small.store/*/*/manifest.json")):
        yield path.parent.parent.name, json.loads(path.read_text())


@pytest.mark.slow
def test_a_cell_equals_the_results_of_its_components(tmp_path: Path, chat: ChatServer) -> None:
    table = Grid.read(grid_file(tmp_path, chat.url)).run(progress=False)
    assert [cell.failure for cell in table] == [""] * 9
    dataset = MirageDataset.bundled("sw")
    passages = {p.id: p for query in dataset for p in query.passages}.values()
    corpus = Corpus.build(passages, language="sw")
    llm = LLM("chat", base_url=chat.url)
    generator = OpenAIGenerator(llm, prompt=ShortAnswerPrompt())
    pipeline = Pipeline(BM25.build(corpus), generator=generator, show_k=5)
    cell = table.cell(retriever="bm25", show_k=5)
    scored = FeatureSuite(["qa_match"]).score(pipeline.show(dataset), pipeline.run(dataset))
    np.testing.assert_array_equal(cell.values["qa_match"], scored["qa_match"])
    assert cell.scores["qa_match"].interval == tuple(scored.intervals()[0])
    evaluation = evaluate(pipeline.retrieve(dataset), dataset, ["R@5"])
    np.testing.assert_array_equal(cell.values["R@5"], evaluation.values[:, 0])
    assert cell.scores["R@5"].mean == evaluation["R@5"].mean
    assert (cell.scores["R@5"].n, cell.scores["R@5"].unmeasured) == (30, 10)
    assert table.cell(retriever="oracle", show_k=2).scores["R@5"].mean == 1.0
    assert "R@5" not in table.cell(retriever="none").scores


def test_a_cell_shows_the_passages_of_its_pipeline(tmp_path: Path, chat: ChatServer) -> None:
    grid = Grid.read(grid_file(tmp_path, chat.url))
    queries_of_cell = grid.shown({"retriever": "bm25", "show_k": 5}, progress=False)
    dataset = MirageDataset.bundled("sw")
    passages = {p.id: p for query in dataset for p in query.passages}.values()
    pipeline = Pipeline(BM25.build(Corpus.build(passages, language="sw")), show_k=5)
    assert list(queries_of_cell) == list(pipeline.show(dataset))
    assert queries_of_cell.retrieved
    assert not chat.requests
    with pytest.raises(
        SettingError, match=r"8 cells .* also set retriever to one of bm25, both, flat"
    ):
        grid.shown({"dataset": "sw", "corpus": "sw"})
    with pytest.raises(SettingError, match="no cell of small has"):
        grid.shown({"retriever": "bm52"})
    with pytest.raises(UnknownNameError, match="did you mean 'retriever'"):
        grid.shown({"retriver": "bm25"})


def test_a_cell_without_generator_shows_no_passages(tmp_path: Path) -> None:
    grid = Grid.read(grid_file(tmp_path, generator="  generator: [none]"))
    with pytest.raises(SettingError, match="has no generator, so it shows no passages"):
        grid.shown({"retriever": "bm25"})


def test_steps_are_shared_and_run_only_once(tmp_path: Path, chat: ChatServer) -> None:
    path = grid_file(tmp_path, chat.url)
    first = Grid.read(path).run(limit=5, progress=False)
    request_count = len(chat.requests)
    assert request_count <= 9 * 5
    steps = [step for step, _ in manifests(tmp_path)]
    counts = {step: steps.count(step) for step in dict.fromkeys(steps)}
    # The hybrid shares the rankings of bm25 and flat, because its depth 20 is below 50.
    assert counts == {
        "corpus": 1, "index": 2, "retrieve": 4, "generate": 9, "score": 9, "measure": 4
    }  # fmt: skip
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("small.store/*/*/*")}
    again = Grid.read(path).run(limit=5, progress=False)
    assert len(chat.requests) == request_count
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("small.store/*/*/*")} == before
    assert again.to_json() == first.to_json() == Grid.read(path).table(limit=5).to_json()


def test_a_table_contains_only_results_in_the_store(tmp_path: Path, chat: ChatServer) -> None:
    grid = Grid.read(grid_file(tmp_path, chat.url))
    assert {cell.failure.partition(": ")[2] for cell in grid.table()} == {"not run yet"}
    assert not (tmp_path / "small.store").exists()
    assert not chat.requests
    grid.run(limit=3, progress=False)
    assert {cell.failure for cell in grid.table(limit=3)} == {""}
    assert {cell.failure.partition(": ")[2] for cell in grid.table()} == {"not run yet"}
    runs = grid.runs(limit=2)
    assert [len(run or ()) for run in runs] == [2] * 9
    assert [len(run["q01"].passages) for run in runs if run][:5] == [0, 1, 1, 2, 5]


def test_a_higher_limit_reuses_results(tmp_path: Path, chat: ChatServer) -> None:
    path = grid_file(tmp_path, chat.url, chat="  chat: {kind: openai, model: chat, cache: false, "
                     f'base_url: "{chat.url}"}}', show_k="  show_k: [2]")  # fmt: skip
    grid = Grid.read(path)
    grid.run(limit=3, progress=False)
    assert len(chat.requests) == 5 * 3
    part = grid.run(limit=7, progress=False)
    assert len(chat.requests) == 5 * 7
    fewer = grid.run(limit=3, progress=False)
    assert len(chat.requests) == 5 * 7
    np.testing.assert_array_equal(fewer[1].values["qa_match"], part[1].values["qa_match"][:3])
    with pytest.raises(SettingError, match="limit must be at least 1"):
        grid.run(limit=0)


def test_changed_gold_is_scored_again_without_new_requests(
    tmp_path: Path, chat: ChatServer
) -> None:
    queries = MirageDataset.bundled("sw")[:6]
    queries.save(tmp_path / "queries.jsonl")
    changes = {"sw": "  sw: {form: jsonl, path: queries.jsonl}", "show_k": "  show_k: [2]"}
    text = grid_file(tmp_path, chat.url, **changes).read_text()
    text = text.replace("sw: {dataset: sw", "sw: {dataset: full").replace(
        "datasets:", "datasets:\n  full: {form: bundled, language: sw}"
    )
    path = tmp_path / "grid.yaml"
    path.write_text(text.replace(", oracle", ""))
    before = Grid.read(path).run(progress=False)
    request_count = len(chat.requests)
    changed = [query.model_copy(update={"answers": (("na",),)}) for query in queries]
    MirageDataset(changed).save(tmp_path / "queries.jsonl")
    after = Grid.read(path).run(progress=False)
    assert len(chat.requests) == request_count
    assert before[1].scores["qa_match"].mean < after[1].scores["qa_match"].mean
    questions = [query.model_copy(update={"text": query.text + "!"}) for query in changed]
    MirageDataset(questions).save(tmp_path / "queries.jsonl")
    Grid.read(path).run(progress=False)
    assert len(chat.requests) == 2 * request_count


def test_a_changed_corpus_is_indexed_again(tmp_path: Path, chat: ChatServer) -> None:
    handbook = tmp_path / "handbook"
    handbook.mkdir()
    (handbook / "a.md").write_text("# A\nsimba anaishi porini")
    text = grid_file(tmp_path, chat.url, retriever="  retriever: [bm25]").read_text()
    path = tmp_path / "grid.yaml"
    path.write_text(text.replace("sw: {dataset: sw, language: sw}", "sw: {path: handbook}"))
    Grid.read(path).run(limit=2, progress=False)
    (handbook / "b.md").write_text("# B\ntwiga anaishi porini")
    Grid.read(path).run(limit=2, progress=False)
    sizes = [manifest["total"] for step, manifest in manifests(tmp_path) if step == "corpus"]
    assert sorted(sizes) == [1, 2]


def test_a_failed_cell_has_the_reason_and_other_cells_run(tmp_path: Path, chat: ChatServer) -> None:
    text = grid_file(tmp_path, chat.url, generator="  generator: [chat, dead]").read_text()
    (tmp_path / "grid.yaml").write_text(
        text.replace("prompts:", '  dead: {kind: replay, path: "no/such.jsonl"}\nprompts:')
    )
    table = Grid.read(tmp_path / "grid.yaml").run(limit=3, progress=False)
    good, bad = table.where(generator="chat"), table.where(generator="dead")
    assert {cell.failure for cell in good} == {""}
    assert len(bad) == 9
    assert all("no/such.jsonl: the file or folder does not exist" in cell.failure for cell in bad)


def test_unanswered_queries_are_counted_and_retried(tmp_path: Path, chat: ChatServer) -> None:
    dataset = MirageDataset.bundled("sw")
    broken = dataset["q02"].text

    def answer(request: Mapping[str, Any]) -> Reply | str:
        text = str(request["messages"][-1]["content"])
        return Reply(status=400, text="no") if broken in text else last_passage(request)

    chat.answer = answer
    grid = Grid.read(
        grid_file(tmp_path, chat.url, retriever="  retriever: [bm25]", show_k="  show_k: [2]")
    )
    (cell,) = grid.run(limit=4, progress=False)
    score = cell.scores["qa_match"]
    assert (score.n, score.failed, score.unmeasured) == (3, 1, 0)
    assert np.isnan(cell.values["qa_match"][1])
    assert grid.plan(limit=4)["generate"].items == 1
    chat.answer = last_passage
    request_count = len(chat.requests)
    (cell,) = grid.run(limit=4, progress=False)
    assert cell.scores["qa_match"].n == 4
    assert len(chat.requests) == request_count + 1
    assert grid.plan(limit=4).total.items == 0


def test_the_budget_is_kept_and_the_rest_runs_later(tmp_path: Path, chat: ChatServer) -> None:
    grid = Grid.read(grid_file(tmp_path, chat.url, retriever="  retriever: [bm25]"))
    table = grid.run(limit=10, budget=Budget(calls=13), progress=False)
    assert len(chat.requests) == 13
    assert [cell.scores["qa_match"].failed for cell in table] == [0, 7]
    grid.run(limit=10, progress=False)
    assert len(chat.requests) == 20


def test_judgments_without_a_label_are_counted(tmp_path: Path, chat: ChatServer) -> None:
    judgments = iter(["[[yes]]", "Not correct", "nothing to see"])
    labels: dict[str, str] = {}

    def answer(request: Mapping[str, Any]) -> str:
        text = str(request["messages"][-1]["content"])
        if "Judge the text" not in text:
            return "jibu"
        for query in MirageDataset.bundled("sw")[:3]:
            if query.text in text:
                return labels.setdefault(query.id, next(judgments, ""))
        raise AssertionError(text)

    chat.answer = answer
    changes = {
        "retriever": "  retriever: [bm25]",
        "show_k": "  show_k: [2]",
        "metrics": "metrics: [llm_eval]\nllm_eval: {judge: chat}",
    }
    grid = Grid.read(grid_file(tmp_path, chat.url, **changes))
    (cell,) = grid.run(limit=3, progress=False)
    # Neither "Not correct" nor an empty judgment has a label.
    assert cell.scores["llm_eval"][2:] == (1, 0, 2)
    assert "2" in str(ResultStore(tmp_path) and grid.table(limit=3))
    request_count = len(chat.requests)
    grid.run(limit=3, progress=False)
    assert len(chat.requests) == request_count  # the judgments are cache hits


JUDGE = {
    "retriever": "  retriever: [bm25]",
    "show_k": "  show_k: [2]",
    "metrics": 'metrics: [qa_match, llm_eval, "R@5"]\nllm_eval: {judge: chat}',
}


def judge_that_fails(*failing: str) -> Callable[[Mapping[str, Any]], Reply | str]:
    """Return an LLM that answers and judges, but fails to judge some queries."""
    queries = MirageDataset.bundled("sw")
    failing_texts = [queries[query_id].text for query_id in failing]

    def answer(request: Mapping[str, Any]) -> Reply | str:
        text = request["messages"][0]["content"]
        if "Judge the text" not in text:
            return last_passage(request)
        if any(question in text for question in failing_texts):
            return Reply(status=400, text="the judge is out of order")
        label = "yes" if len(text) % 3 else "no"
        return with_logprob(label) if "logprobs" in request else f"[[{label}]]"

    return answer


def with_logprob(label: str) -> Reply:
    """Return a judgment of one token with a high probability."""
    token = {"token": label, "logprob": -0.1, "top_logprobs": [{"token": label, "logprob": -0.1}]}
    message = {"role": "assistant", "content": label}
    choice = {"message": message, "finish_reason": "stop", "logprobs": {"content": [token]}}
    return Reply(body=json.dumps({"choices": [choice], "usage": {}}).encode())


def judge_prompts(requests: list[dict[str, Any]]) -> list[str]:
    texts = [request["messages"][0]["content"] for request in requests]
    return [text for text in texts if "Judge the text" in text]


@pytest.mark.parametrize(
    ("scale", "method"),
    [
        ("binary", "label"),
        ("graded", "logprobs"),
        pytest.param("binary", "logprobs", marks=pytest.mark.slow),
        pytest.param("graded", "label", marks=pytest.mark.slow),
    ],
)
def test_a_second_run_retries_only_failed_judgments(
    tmp_path: Path, chat: ChatServer, scale: str, method: str
) -> None:
    judge = f"judge: chat, scale: {scale}, method: {method}"
    metrics = JUDGE["metrics"].replace("judge: chat", judge)
    path = grid_file(tmp_path, chat.url, **JUDGE | {"metrics": metrics})
    chat.answer = judge_that_fails("q02", "q05")
    first = Grid.read(path).run(progress=False)
    assert [cell.failure for cell in first] == [""] * len(first)
    # Ten of the bundled queries have no short answer, and two are not judged.
    assert first[0].scores["llm_eval"][2:] == (28, 0, 12)
    before = len(judge_prompts(chat.requests))
    second = Grid.read(path).run(progress=False)
    assert second.to_json() == first.to_json()
    again = judge_prompts(chat.requests)[before:]
    texts = [MirageDataset.bundled("sw")[query_id].text for query_id in ("q02", "q05")]
    assert again
    assert all(any(text in prompt for text in texts) for prompt in again)
    chat.answer = judge_that_fails()
    healed = Grid.read(path).run(progress=False)
    assert {cell.scores["llm_eval"].n for cell in healed} == {30}
    assert Grid.read(path).plan()["score"].items == 0


@pytest.mark.slow
def test_a_killed_grid_with_a_judge_resumes_to_the_same_table(
    tmp_path: Path, chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = judge_that_fails("q02", "q05")

    def slowly(request: Mapping[str, Any]) -> Reply:
        answer = reply(request)
        return replace(answer if isinstance(answer, Reply) else Reply(text=answer), delay=0.01)

    chat.answer = slowly
    part, whole = tmp_path / "part", tmp_path / "whole"
    for folder in (part, whole):
        folder.mkdir()
    path = grid_file(part, chat.url, **JUDGE)
    for moment in np.random.default_rng(1).uniform(1.0, 3.0, 4):
        with start(path) as process:
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
    table = wait_for_output(start(path))
    assert wait_for_output(start(path)) == table
    monkeypatch.setenv("MIRAGE_CACHE", str(tmp_path / "other"))
    assert wait_for_output(start(grid_file(whole, chat.url, **JUDGE))) == table


def test_a_cell_with_one_failed_metric_keeps_the_others(tmp_path: Path, chat: ChatServer) -> None:
    metrics = 'metrics: [qa_match, fluency, "R@5"]'  # fluency has no LLM
    path = grid_file(tmp_path, chat.url, metrics=metrics, retriever="  retriever: [bm25, flat]",
                     show_k="  show_k: [2]")  # fmt: skip
    table = Grid.read(path).run(limit=6, progress=False)
    for cell in table:
        assert "'fluency' needs a model" in cell.failure
        assert set(cell.scores) == {"qa_match", "R@5"}
        assert cell.scores["R@5"].n > 3
    text = str(table)
    assert "failed" in text
    assert f"{table[0].scores['R@5'].mean:.3f}" in text
    again = ResultTable.from_json(table.to_json())
    assert [cell.failure for cell in again] == [cell.failure for cell in table]
    assert len(table.compare("R@5")) == 1
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [row["metric"] for row in rows if row["failure"]] == ["fluency"] * 2


ORDERS = """\
prompts:
  cited: {kind: rag}
  mixed: {kind: rag, order: shuffled}
"""


def shown_ids(request: Mapping[str, Any]) -> list[str]:
    """Return the ids of the passages that a prompt for cited answers shows, in its order."""
    heads = re.findall(r"^\[(\S+#\d+)\]", request["messages"][0]["content"], re.MULTILINE)
    return [str(id_) for id_ in heads]


def test_prompts_show_passages_in_rank_order_by_default(tmp_path: Path, chat: ChatServer) -> None:
    chat.answer = lambda request: f"##Reason: [2]\n##Answer: {shown_ids(request)[1]} [2]."
    path = grid_file(tmp_path, chat.url, retriever="  retriever: [bm25]", show_k="  show_k: [5]",
                     prompt="  prompt: [none, cited, mixed]")  # fmt: skip
    text = path.read_text().replace("prompts:\n", ORDERS)
    path.write_text(text.replace("  short: {kind: short-answer}\n", ""))
    grid = Grid.read(path)
    table = grid.run(limit=8, progress=False)
    assert [cell.failure for cell in table] == [""] * 3
    ranked = grid.shown({"prompt": "cited"}, limit=8, progress=False)
    orders = {
        cell.settings["prompt"]: [response.shown for response in run or ()]
        for cell, run in zip(table, grid.runs(limit=8), strict=True)
    }
    in_rank_order = [query.passage_ids for query in ranked]
    assert orders["none"] == orders["cited"] == in_rank_order
    assert sum(a == b for a, b in zip(orders["mixed"], in_rank_order, strict=True)) <= 2
    assert [sorted(ids) for ids in orders["mixed"] if ids] == [sorted(i) for i in in_rank_order]
    # A citation counts positions in the prompt that was sent.
    for run in grid.runs(limit=8):
        for response in run or ():
            assert response.text is not None
            assert response.shown is not None
            cited = parse(response.text, "sw", response.shown).citations
            assert cited == (response.shown[1],)
            assert response.shown[1] in response.text
    notes = (
        "prompt none shows passages in rank order",
        "prompt cited shows passages in rank order",
        "prompt mixed shows passages shuffled (seed 0)",
    )
    assert table.notes == notes
    assert grid.plan().notes[:3] == notes


def test_shuffled_and_ranked_prompts_have_different_keys(tmp_path: Path, chat: ChatServer) -> None:
    path = grid_file(tmp_path, chat.url, prompt="  prompt: [mixed, cited, none]")
    text = path.read_text().replace("prompts:\n", ORDERS)
    path.write_text(text.replace("  short: {kind: short-answer}\n", ""))
    grid = Grid.read(path)
    nodes = Nodes(grid.config)
    cell = dict(next(cell for cell in grid.cells if cell["retriever"] == "bm25"))
    mixed, cited, none = (
        nodes.generate(cell | {"prompt": name}) for name in grid.config.grid.prompt
    )
    # Stores of earlier versions have shuffled responses under this key.
    assert mixed.settings["prompt"] == {
        "kind": "rag", "passage_tokens": None, "context_tokens": None, "answer_tokens": None
    }  # fmt: skip
    assert none.settings["prompt"] is not None
    assert len({mixed.key, cited.key, none.key}) == 3


KILT = """\
name: pages
datasets:
  nq: {{form: kilt, path: nq.jsonl}}
corpora:
  wiki: {{path: wiki.jsonl, language: en}}
retrievers:
  bm25: {{kind: bm25}}
generators:
  chat: {{kind: openai, model: chat, base_url: "{url}"}}
prompts:
  short: {{kind: short-answer}}
grid: {{dataset: nq, corpus: wiki, retriever: [none, oracle, bm25], generator: chat, prompt: short,
       show_k: 3}}
metrics: [qa_match, "R@5"]
level: document
"""


def kilt_grid(folder: Path, url: str, pages: str = "page{}") -> Path:
    """Write a grid on questions of KILT, whose qrels name pages, and passages ``page#0``."""
    rows = [
        {
            "id": f"n{i}",
            "input": f"Which word is secret in number {i}?",
            "output": [{"answer": f"word{i}", "provenance": [{"wikipedia_id": pages.format(i)}]}],
        }
        for i in range(12)
    ]
    passages = [
        {"id": f"page{i}#{n}", "text": f"Part {n} of number {i}. The secret is word{i}."}
        for i in range(12)
        for n in range(4)
    ]
    for name, lines in (("nq", rows), ("wiki", passages)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    path = folder / "grid.yaml"
    path.write_text(KILT.format(url=url))
    return path


def test_the_oracle_shows_the_passages_of_relevant_pages(tmp_path: Path, chat: ChatServer) -> None:
    grid = Grid.read(kilt_grid(tmp_path, chat.url), trust=True)
    table = grid.run(progress=False)
    assert [cell.failure for cell in table] == [""] * 3
    cell = table.cell(retriever="oracle")
    assert cell.scores["R@5"].mean == 1.0
    queries_of_cell = grid.shown({"retriever": "oracle"}, progress=False)
    assert [query.passage_ids for query in queries_of_cell] == [
        tuple(f"page{i}#{n}" for n in range(3)) for i in range(12)
    ]


def test_qrels_of_documents_cannot_measure_passages(tmp_path: Path, chat: ChatServer) -> None:
    path = kilt_grid(tmp_path, chat.url)
    path.write_text(path.read_text().replace("level: document\n", ""))
    table = Grid.read(path, trust=True).run(limit=4, progress=False)
    cell = table.cell(retriever="bm25")
    assert "set 'level: document'" in cell.failure
    assert set(cell.scores) == {"qa_match"}


def test_an_oracle_without_passages_fails_before_any_request(
    tmp_path: Path, chat: ChatServer
) -> None:
    path = kilt_grid(tmp_path, chat.url, pages="other{}")
    grid = Grid.read(path, trust=True)
    table = grid.run(progress=False)
    oracle = table.cell(retriever="oracle")
    assert "has none of the 12 passages or documents that the qrels name" in oracle.failure
    assert not oracle.scores
    assert len(chat.requests) == 24  # closed book and bm25
    assert any("will fail: oracle of wiki for nq" in note for note in grid.plan().notes)


def test_a_note_counts_queries_without_oracle_passages(tmp_path: Path, chat: ChatServer) -> None:
    path = kilt_grid(tmp_path, chat.url)
    text = (tmp_path / "nq.jsonl").read_text()
    (tmp_path / "nq.jsonl").write_text(text.replace('"page7"', '"lost"'))
    table = Grid.read(path, trust=True).run(progress=False)
    (note,) = [note for note in table.notes if "oracle" in note]
    assert "1 of 12 queries with qrels have no relevant passage in the corpus, such as 'n7'" in note


def test_impossible_metrics_fail_before_any_request(tmp_path: Path, chat: ChatServer) -> None:
    path = kilt_grid(tmp_path, chat.url)
    path.write_text(path.read_text().replace("form: kilt", "form: answers, language: en"))
    rows = [{"id": i, "question": f"Question {i}?", "unknown": "x"} for i in range(12)]
    (tmp_path / "nq.jsonl").write_text("\n".join(map(json.dumps, rows)))
    grid = Grid.read(path, trust=True)
    notes = " ".join(grid.plan().notes)
    assert "will fail: nq: metric 'qa_match' needs answers, and no query of" in notes
    assert "will fail: nq: metric 'R@5' needs relevant passages" in notes
    assert grid.plan().total.calls == 0
    table = grid.run(progress=False)
    assert not chat.requests
    for cell in table:
        assert "metric 'qa_match' needs answers" in cell.failure
    path.write_text(path.read_text().replace("[qa_match, ", "[correct_language, qa_match, "))
    table = Grid.read(path, trust=True).run(limit=10, progress=False)
    for cell in table:
        assert cell.failure
        assert ("correct_language" in cell.scores) == (cell.settings["retriever"] != "oracle")


@pytest.mark.parametrize("metrics", ["[seconds]", '["R@5", cost]', "[truncated, qa_match]"])
def test_a_plan_counts_the_calls_for_time_and_cost(
    tmp_path: Path, chat: ChatServer, metrics: str
) -> None:
    one_cell = {"retriever": "  retriever: [bm25]", "show_k": "  show_k: [2]"}
    grid = Grid.read(grid_file(tmp_path, chat.url, metrics=f"metrics: {metrics}", **one_cell))
    assert grid.plan(limit=3).total.calls == 3
    grid.run(limit=3, progress=False)
    assert len(chat.requests) == 3
    assert grid.plan(limit=3).total.calls == 0


def test_a_plan_predicts_requests_and_cost(tmp_path: Path, chat: ChatServer) -> None:
    priced = (
        "  chat: {kind: openai, model: chat, max_tokens: 64, price: [1, 10], cache: false, "
        f'base_url: "{chat.url}"}}'
    )
    grid = Grid.read(grid_file(tmp_path, chat.url, chat=priced))
    plan = grid.plan()
    assert (plan.cells, plan["generate"].nodes, plan["generate"].calls) == (9, 9, 360)
    assert plan["index"].items == 2 * plan["corpus"].items == 400
    assert plan["generate"].seconds is None
    assert not chat.requests
    assert plan.total.cost == plan["generate"].cost
    assert plan.total.cost == pytest.approx(
        (plan["generate"].tokens - 360 * 64) / 1e6 + 360 * 64 * 10 / 1e6  # type: ignore[operator]
    )
    grid.run(limit=10, progress=False)
    assert len(chat.requests) == 90
    remaining = grid.plan()
    assert remaining["generate"].calls == 270
    assert remaining["generate"].seconds is not None
    assert remaining["corpus"].done == 1
    sent_tokens = sum(len(r["messages"][0]["content"].encode()) / 4 for r in chat.requests)
    assert plan["generate"].tokens == pytest.approx(4 * sent_tokens + 360 * 64, rel=0.1)
    assert "360" in str(plan)


def test_failed_rerankings_are_reported_and_retried(tmp_path: Path, chat: ChatServer) -> None:
    down = True

    def answer(request: Mapping[str, Any]) -> Reply | str:
        if "documents" not in request:
            return last_passage(request)
        if down and MirageDataset.bundled("sw")["q02"].text == request["query"]:
            return Reply(status=400, text="too long")
        scores = [
            {"index": i, "relevance_score": float(i)} for i in range(len(request["documents"]))
        ]
        return Reply(body=json.dumps({"results": scores}).encode())

    chat.answer = answer
    path = grid_file(tmp_path, chat.url, retriever="  retriever: [bm25]\n  reranker: [last]")
    reranker = f'  last: {{kind: endpoint, model: m, base_url: "{chat.root}"}}'
    path.write_text(path.read_text().replace("prompts:", f"rerankers:\n{reranker}\nprompts:"))
    grid = Grid.read(path)
    table = grid.run(limit=3, progress=False)
    assert [cell.failure for cell in table] == ["", ""]
    order, note = table.notes
    assert order == "prompts show passages in rank order"
    assert "reranking failed for 1 queries" in note
    down = False
    assert grid.run(limit=3, progress=False).notes == (order,)
    reranked_queries = [request["query"] for request in chat.requests if "documents" in request]
    first, second, _ = MirageDataset.bundled("sw")[:3]
    assert reranked_queries.count(first.text) == 2  # 50 passages, in two batches
    assert set(reranked_queries[-2:]) == {second.text}


@pytest.mark.slow
def test_pipelines_are_ranked_by_a_judge_and_on_the_bundled_leaderboard(
    tmp_path: Path, chat: ChatServer
) -> None:
    grid = Grid.read(grid_file(tmp_path, chat.url, show_k="  show_k: [2]"))
    with pytest.raises(SettingError, match="has been run on sw"):
        grid.leaderboard()
    grid.run(progress=False)
    names = {run.model for run in grid.runs() if run}
    open_book_names = {f"{name} + chat" for name in ("oracle", "bm25", "flat", "both")}
    assert names == {"closed book + chat", *open_book_names}
    chat.answer = lambda request: "[[A]]" if "[[A]]" in str(request) else "ok"
    judge = mirage.PairwiseJudge(LLM("judge", base_url=chat.url))
    ranking = grid.leaderboard("sw", judge=judge, limit=8, progress=False)
    assert {row.model for row in ranking} == names
    board = grid.leaderboard(progress=False)
    assert {row.model for row in board} & names == open_book_names  # the leaderboard needs passages
    with pytest.raises(UnknownNameError, match="dataset"):
        grid.leaderboard("ws")


def test_servers_of_one_model_share_requests_and_results(tmp_path: Path, chat: ChatServer) -> None:
    single = f'  chat: {{kind: openai, model: chat, cache: false, base_url: "{chat.url}"}}'
    changes = {"retriever": "  retriever: [bm25]", "show_k": "  show_k: [2]"}
    alone = Grid.read(grid_file(tmp_path, chat.url, chat=single, **changes))
    alone.run(limit=8, progress=False)
    with ChatServer(last_passage) as other:
        both = single.replace(f'"{chat.url}"', f'["{chat.url}", "{other.url}"]')
        grid = Grid.read(grid_file(tmp_path, chat.url, chat=both, **changes))
        grid.run(limit=8, progress=False)
        assert (len(chat.requests), len(other.requests)) == (8, 0)
        grid.run(progress=False)
        assert len(chat.requests) + len(other.requests) == 40
        assert other.requests


def test_the_oracle_ignores_queries_without_qrels(tmp_path: Path, chat: ChatServer) -> None:
    queries = MirageDataset.bundled("sw")
    without_qrels = [
        query.model_copy(update={"id": f"a{i}-{query.id}"})
        for i in range(8)
        for query in queries
        if not query.relevant
    ]
    MirageDataset([*without_qrels, *queries[:4]]).save(tmp_path / "queries.jsonl")
    path = grid_file(tmp_path, chat.url, sw="  sw: {form: jsonl, path: queries.jsonl}",
                     retriever="  retriever: [oracle]", generator="  generator: [none]",
                     metrics='metrics: ["R@5"]')  # fmt: skip
    text = path.read_text().replace("sw: {dataset: sw", "sw: {dataset: whole")
    path.write_text(text.replace("datasets:", "datasets:\n  whole: {form: bundled, language: sw}"))
    (cell,) = Grid.read(path).run(progress=False)
    assert not cell.failure
    assert (cell.scores["R@5"].mean, cell.scores["R@5"].n) == (1.0, 4)
    assert not chat.requests


def test_keys_are_not_written_to_files(tmp_path: Path, chat: ChatServer) -> None:
    entry = f'{{kind: openai, model: chat, base_url: "{chat.url}", api_key: "${{ENV:GRID_KEY}}"}}'
    generator = f"  chat: {entry}"
    Grid.read(grid_file(tmp_path, chat=generator), trust=True).run(limit=2, progress=False)
    assert chat.headers[0]["authorization"] == "Bearer sk-of-the-grid"
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"sk-of-the-grid" not in path.read_bytes()


def test_a_damaged_step_names_its_file(tmp_path: Path, chat: ChatServer) -> None:
    grid = Grid.read(grid_file(tmp_path, chat.url))
    grid.run(limit=3, progress=False)
    responses = next(tmp_path.glob("small.store/generate/*/responses.jsonl"))
    whole = responses.read_bytes()
    for broken, message in ((whole[:-9], "bytes in place of"), (whole.swapcase(), "is damaged")):
        responses.write_bytes(broken)
        failures = [cell.failure for cell in grid.run(limit=3, progress=False) if cell.failure]
        assert len(failures) == 1
        assert all(text in failures[0] for text in (str(responses), message, "delete"))
    shutil.rmtree(responses.parent)
    assert {cell.failure for cell in grid.run(limit=3, progress=False)} == {""}


def test_a_grid_resumes_after_a_full_disk(tmp_path: Path, chat: ChatServer) -> None:
    grid = Grid.read(grid_file(tmp_path, chat.url, retriever="  retriever: [none]"))
    with disk_of(1500):
        (cell,) = grid.run(progress=False)
    assert "cannot be written" in cell.failure
    (cell,) = grid.run(progress=False)
    assert not cell.failure
    assert cell.scores["qa_match"].n == 30


@pytest.mark.slow
def test_two_processes_share_a_grid(tmp_path: Path, chat: ChatServer) -> None:
    path = grid_file(tmp_path, chat.url, show_k="  show_k: [2]")
    chat.answer = lambda request: Reply(text=last_passage(request), delay=0.01)
    both = [start(path) for _ in range(2)]
    first, second = map(wait_for_output, both)
    assert first == second
    prompts = [request["messages"][0]["content"] for request in chat.requests]
    # Equal prompts of different retrievers are cache hits.
    assert len(prompts) == len(set(prompts))


@pytest.mark.slow
def test_a_killed_grid_resumes(
    tmp_path: Path, chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.answer = lambda request: Reply(text=last_passage(request), delay=0.005)
    part, whole = tmp_path / "part", tmp_path / "whole"
    for folder in (part, whole):
        folder.mkdir()
    path = grid_file(part, chat.url)
    moments = np.random.default_rng(0).uniform(0.5, 4.0, 8)
    for moment in moments:
        with start(path) as process:
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
    table = wait_for_output(start(path))
    prompts = [json.dumps(request["messages"]) for request in chat.requests if request]
    # Only requests that were running when the process was killed are repeated.
    assert len(prompts) - len(set(prompts)) <= 8 * len(moments)
    monkeypatch.setenv("MIRAGE_CACHE", str(tmp_path / "other"))
    assert wait_for_output(start(grid_file(whole, chat.url))) == table


def start(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(mirage.__file__).parents[1],
    )


def wait_for_output(process: subprocess.Popen[str]) -> str:
    with process:
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return text


def test_a_union_of_corpora_keeps_passages_apart(tmp_path: Path) -> None:
    for name in ("ab", "cd"):
        rows = [{"id": f"{n}", "text": f"simba {letter}"} for n, letter in enumerate(name)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpora = "{ab: {path: ab.jsonl}, cd: {path: cd.jsonl}, all: {of: [ab, cd]}}"
    path = grid_file(
        tmp_path,
        sw="  sw: {form: bundled, language: sw}",
        corpus="  corpus: all",
        retriever="  retriever: bm25",
        generator="  generator: none",
        metrics='metrics: ["R@5"]',
    )
    text = path.read_text()
    start, end = text.index("corpora:"), text.index("retrievers:")
    path.write_text(f"{text[:start]}corpora: {corpora}\n{text[end:]}")
    grid = Grid.read(path)
    grid.run(limit=2, progress=False)
    (union,) = (
        Corpus.open(folder.parent / "data")
        for folder in grid.store().folder.glob("corpus/*/manifest.json")
        if json.loads(folder.read_text())["total"] == 4
    )
    assert [passage.id for passage in union] == ["ab/0", "ab/1", "cd/0", "cd/1"]
    path.write_text(path.read_text().replace("of: [ab, cd]", "of: [ab, all]"))
    with pytest.raises(
        DatasetError, match=r"corpora\.all\.of: unknown corpus '[^']+' without 'of'"
    ):
        Grid.read(path)


def test_time_tokens_cost_and_truncation_are_columns(tmp_path: Path, chat: ChatServer) -> None:
    chat.answer = lambda _: Reply(
        body=json.dumps(
            {
                "choices": [{"message": {"role": "assistant", "content": "jibu"}}],
                "usage": {"prompt_tokens": 90, "completion_tokens": 10},
            }
        ).encode()
    )
    generator = f'kind: openai, model: chat, base_url: "{chat.url}", price: [1, 10], cache: false'
    changes = {
        "chat": f"  chat: {{{generator}}}",
        "short": "  short: {kind: short-answer, context_tokens: 700, passage_tokens: 200}",
        "retriever": "  retriever: [none, bm25]",
        "generator": "  generator: [chat]",
        "metrics": "metrics: [qa_match, seconds, tokens, cost, truncated]\norder: tokens",
    }
    grid = Grid.read(grid_file(tmp_path, chat.url, **changes))
    table = grid.run(limit=4, progress=False)
    for cell in table:
        assert cell.scores["tokens"] == (100, NO_INTERVAL, 4, 0, 0)
        assert cell.scores["cost"].mean == pytest.approx((90 + 100) / 1e6)
        assert 0 < cell.scores["seconds"].mean < 60
    short, long = table.where(retriever="bm25")
    assert short.scores["truncated"].mean <= long.scores["truncated"].mean
    assert long.scores["truncated"].mean > 0
    assert table.cell(retriever="none").scores["truncated"].mean == 0
    assert table.compare("qa_match")  # amounts are not compared
    assert {row.metric for row in table.compare()} == {"qa_match"}
    again = grid.run(limit=6, progress=False)
    assert again[0].scores["tokens"] == (100, NO_INTERVAL, 6, 0, 0)
    assert again[0].scores["seconds"].n == 6
    with pytest.raises(DatasetError, match="order: unknown metric 'tokns' of the grid"):
        Grid.read(grid_file(tmp_path, chat.url, metrics="metrics: [tokens]\norder: tokns"))
