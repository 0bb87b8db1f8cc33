"""inspect_ai, end to end on its mock model, with the same scores as the suite."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import answers, table

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.features import FeatureSuite, NotComputed
from mirage.models import Query, Response

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
from inspect_ai import Task, eval, score
from inspect_ai._util.registry import registry_info
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalScore, read_eval_log
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer._scorer import scorer_create
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from mirage.integrations import inspect_ai as adapter
from mirage.integrations.inspect_ai import (
    bundled,
    feature_scorer,
    mirage_task,
    read_run,
    samples,
)

# inspect_ai calls a newer tenacity than it was written for, and leaves streams to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
]

MOCK = "mockllm/model"


def answers_not(query: Query, response: Response) -> NotComputed:
    """A feature that has no value for any response."""
    return NotComputed(f"nothing is known of {query.id}: {len(response.text or '')}")


def run(task: Task | str, dataset: MirageDataset, failed: str = "", **options: Any) -> EvalLog:
    """Evaluate on the mock model, which answers each query as :func:`answers` does."""

    def output(messages: Sequence[ChatMessage], *_: Any) -> ModelOutput:
        query = next(q for q in dataset if q.text in messages[-1].text)
        error = "out of memory" if query.id == failed else None
        model_output = ModelOutput.from_content(MOCK, answers(dataset)[query.id], error=error)
        model_output.usage = (
            ModelUsage()
        )  # else the mock counts tokens, by a table that it downloads
        return model_output

    model = get_model(MOCK, custom_outputs=output, memoize=False)
    [log] = eval(task, model=model, display="none", log_dir="logs", **options)
    assert log.status == "success", log.error
    return log


def results(log: EvalLog) -> dict[str, EvalScore]:
    assert log.results is not None
    return {score.name: score for score in log.results.scores}


@pytest.mark.parametrize("language", ["sw", "ja", "ar"])
def test_scores_are_those_of_the_suite(language: str) -> None:
    dataset, suite = MirageDataset.bundled(language), FeatureSuite.default(language)
    failed = dataset[5].id
    expected = table(dataset, suite, failed)
    log = run(mirage_task(dataset, suite), dataset, failed)

    scores = results(log)
    assert tuple(scores) == suite.names
    for name, mean in zip(suite.names, expected.mean().tolist(), strict=True):
        column = expected[name][~np.isnan(expected[name])]
        metrics = {key: metric.value for key, metric in scores[name].metrics.items()}
        assert metrics["mean"] == pytest.approx(mean, abs=1e-12)
        assert metrics["stderr"] == pytest.approx(np.std(column, ddof=1) / math.sqrt(len(column)))
        assert scores[name].scored_samples == len(column)
        assert scores[name].unscored_samples == len(dataset) - len(column) > 0

    assert log.samples is not None
    for sample, row in zip(log.samples, expected.values, strict=True):
        value = sample.scores["feature_scorer"].value
        np.testing.assert_array_equal(list(value.values()), row)  # exactly, and NaN for NaN
        reasons = sample.scores["feature_scorer"].metadata["not_computed"]
        assert reasons == {f: why for (q, f), why in expected.reasons.items() if q == sample.id}


def test_a_feature_that_no_sample_has_is_unscored_and_not_0() -> None:
    dataset = MirageDataset.bundled("en")[:3]
    score = results(run(mirage_task(dataset, FeatureSuite([answers_not])), dataset))["answers_not"]
    assert (score.scored_samples, score.unscored_samples) == (0, 3)
    assert math.isnan(score.metrics["mean"].value)
    assert math.isnan(score.metrics["stderr"].value)


def test_samples_carry_prompt_and_query() -> None:
    query = MirageDataset.bundled("th")[0]
    sample = samples(MirageDataset.bundled("th"))[0]
    assert sample.id == query.id
    assert Query.model_validate(sample.metadata["query"]) == query.without_gold()
    assert sorted(sample.metadata["shown"]) == sorted(query.passage_ids)
    [message] = sample.input
    assert query.text in message.text
    places = [message.text.index(f"[{passage}]") for passage in sample.metadata["shown"]]
    assert places == sorted(places)


@solver
def silent() -> Solver:
    """A solver that calls no model."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        return state

    return solve


@solver
def own_order() -> Solver:
    """A solver that shows the passages in the order of the query."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        state.metadata["shown"] = [p["id"] for p in state.metadata["query"]["passages"]]
        return state

    return solve


@solver
def prying(texts: list[str]) -> Solver:
    """A solver that records all that it can read of a sample."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        target = state.target.text
        texts.append(f"{state.input} {state.metadata} {state.messages} {target} {state.store}")
        assert target == ""
        return await generate(state)

    return solve


def test_a_solver_sees_no_gold() -> None:
    plain = MirageDataset.bundled("en")[:2]
    dataset = MirageDataset(
        query.model_copy(update={"reference": f"gold-{query.id}", "answers": (("gold answer",),)})
        for query in plain
    )
    texts: list[str] = []
    log = run(mirage_task(dataset), dataset, solver=prying(texts))
    assert len(texts) == 2
    assert all(query.text in text for query, text in zip(dataset, texts, strict=True))
    assert not any("gold" in text for text in texts)
    for sample in log.samples or ():
        assert sample.metadata["query"] == dataset[str(sample.id)].without_gold().model_dump(
            mode="json"
        )


def test_a_sample_without_an_output_is_unscored() -> None:
    dataset = MirageDataset.bundled("en")[:2]
    log = run(mirage_task(dataset), dataset, solver=silent())
    assert {score.unscored_samples for score in results(log).values()} == {2}
    assert log.samples is not None
    explanation = log.samples[0].scores["feature_scorer"].explanation
    assert "answer_bleu not computed: the model failed: the model gave no output" in explanation


def test_a_solver_may_report_other_passages() -> None:
    dataset, suite = MirageDataset.bundled("en")[1:2], FeatureSuite(["citation_map@10"])
    first, *rest = dataset[0].passage_ids
    assert first in dataset[0].relevant
    assert samples(dataset)[0].metadata["shown"][0] in rest  # the prompt shows another one first
    task = Task(
        dataset=samples(dataset),
        solver=[own_order(), generate()],
        scorer=feature_scorer(suite, dataset),
    )
    model_output = ModelOutput.from_content(MOCK, "##Answer: It is so [1].")
    model_output.usage = ModelUsage()
    model = get_model(MOCK, custom_outputs=[model_output], memoize=False)
    [log] = eval(task, model=model, display="none", log_dir="logs")
    assert results(log)["citation_map@10"].metrics["mean"].value == 0.5


def test_samples_without_a_dataset_are_scored() -> None:
    metadata = {"passages": ["The Congo.", "The Nile."], "relevant": ["2"]}
    custom_samples = [
        Sample(id=1, input="Which river?", target="The Nile [2].", metadata=metadata),
        Sample(id=2, input="Which river?"),
    ]
    task = Task(
        dataset=custom_samples,
        solver=generate(),
        scorer=feature_scorer(["citation_recall@10", "answer_bleu"], language="en"),
    )
    model_output = ModelOutput.from_content(MOCK, "The Nile [2].")
    model_output.usage = ModelUsage()
    model = get_model(MOCK, custom_outputs=lambda *_: model_output, memoize=False)
    [log] = eval(task, model=model, display="none", log_dir="logs")
    assert log.status == "success", log.error
    scores = results(log)
    assert scores["citation_recall@10"].metrics["mean"].value == 1
    assert scores["answer_bleu"].metrics["mean"].value > 0.99
    assert {score.unscored_samples for score in scores.values()} == {1}
    assert read_run(log, language="en")["1"].text == "The Nile [2]."
    with pytest.raises(DatasetError, match="does not contain the language"):
        read_run(log)
    with pytest.raises(DatasetError, match="feature_scorer needs dataset="):
        feature_scorer(["answer_bleu"])


def test_a_log_can_be_scored_again_and_read_as_a_run() -> None:
    dataset, names = MirageDataset.bundled("sw"), ["citation_recall@10", "answer_bleu"]
    first = run(mirage_task(dataset, FeatureSuite(names)), dataset, dataset[5].id)
    log = read_eval_log(first.location)
    assert log.eval.task_version == version("mirage-rag")
    [entry] = log.eval.scorers or ()
    assert entry.options == {"features": names, "dataset": "bundled-sw"}
    new_scorer = scorer_create(registry_info(feature_scorer).name, **(entry.options or {}))
    again = score(log, new_scorer, action="overwrite")
    for name in names:
        before, after = results(first)[name], results(again)[name]
        assert after.metrics["mean"].value == before.metrics["mean"].value
        assert after.scored_samples == before.scored_samples

    read = read_run(first.location, model="mine")
    assert (read.model, len(read), len(read.failed)) == ("mine", len(dataset), 1)
    np.testing.assert_array_equal(
        FeatureSuite(names).score(dataset, read).values,
        table(dataset, FeatureSuite(names), dataset[5].id).values,
    )
    assert read_run(log).model == MOCK


def test_the_bundled_task_is_found_by_its_name() -> None:
    [entry] = entry_points(group="inspect_ai", name="mirage")
    assert entry.load() is adapter
    if registry_info(bundled).name == "bundled":
        pytest.skip("inspect_ai gives no name of a package to what is installed in place")
    dataset = MirageDataset.bundled("yo")
    log = run("mirage/bundled", dataset, task_args={"language": "yo"})
    assert tuple(results(log)) == FeatureSuite.default().names


def test_the_command_of_the_guide_scores_a_log_again() -> None:
    if registry_info(feature_scorer).name == "feature_scorer":
        pytest.skip("inspect_ai gives no name of a package to what is installed in place")
    guide = Path(__file__).parents[2] / "docs" / "guides" / "harnesses.md"
    [command] = re.findall(r"^inspect score LOG (.*)$", guide.read_text("utf-8"), re.MULTILINE)
    dataset = MirageDataset.bundled("sw")
    first = run(mirage_task(dataset, FeatureSuite(["citation_recall@10"])), dataset)
    inspect = [sys.executable, "-c", "from inspect_ai._cli.main import main; main()"]
    score = [*inspect, "score", first.location]
    # Nobody answers on this standard input, as in a CI job: a question would wait forever.
    reader, writer = os.pipe()
    try:
        subprocess.run([*score, *command.split()], check=True, stdin=reader, timeout=120)
    finally:
        os.close(reader)
        os.close(writer)
    assert set(FeatureSuite.default().names) <= set(results(read_eval_log(first.location)))
    unnamed = [*score, "--action", "append", "--overwrite"]
    alone = subprocess.run(unnamed, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    assert b"couldn't be loaded" in b" ".join((alone.stdout + alone.stderr).split())


def test_the_bundled_task_is_found_by_its_file() -> None:
    dataset = MirageDataset.bundled("yo")
    log = run(f"{adapter.__file__}@bundled", dataset, task_args={"language": "yo"})
    assert tuple(results(log)) == FeatureSuite.default().names
    assert len(bundled("yo").dataset) == len(dataset) == len(log.samples or ())
