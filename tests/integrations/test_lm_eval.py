"""lm-evaluation-harness, end to end on a test model, with the same scores as the suite."""

from __future__ import annotations

import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import answers, table

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.features import FeatureSuite, NotComputed
from mirage.languages import LANGUAGES
from mirage.models import Query, Response

pytest.importorskip("lm_eval", reason="lm_eval is not installed")
import lm_eval
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

from mirage.integrations.lm_eval import TASKS, DatasetTask, mirage_task, read_run


class Recorded(LM):
    """A model that finds the query in the prompt and answers it as :func:`answers` does."""

    def __init__(self, dataset: MirageDataset) -> None:
        super().__init__()
        self.dataset = dataset
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:  # noqa: ARG002
        self.asked += [request.args for request in requests]
        texts = [request.args[0] for request in requests]
        return [
            answers(self.dataset)[next(q.id for q in self.dataset if q.text in text)]
            for text in texts
        ]

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        raise AssertionError(requests)

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        raise AssertionError(requests)


def run(
    dataset: MirageDataset, suite: FeatureSuite | None = None, model: LM | str | None = None
) -> dict[str, Any]:
    results = lm_eval.simple_evaluate(
        model=model or Recorded(dataset),
        tasks=[mirage_task(dataset, suite)],
        task_manager=TaskManager(include_defaults=False),
    )
    assert results is not None
    return results


@pytest.mark.parametrize("language", ["sw", "ja", "ar"])
def test_scores_are_those_of_the_suite(language: str) -> None:
    dataset, suite = MirageDataset.bundled(language), FeatureSuite.default(language)
    expected = table(dataset, suite)
    output = run(dataset, suite)

    results = output["results"][dataset.name]
    for name, mean in zip(suite.names, expected.mean().tolist(), strict=True):
        column = expected[name][~np.isnan(expected[name])]
        error = np.std(column, ddof=1) / math.sqrt(len(column))
        assert results[f"{name},none"] == pytest.approx(mean, abs=1e-12)
        assert results[f"{name}_stderr,none"] == pytest.approx(error)

    by_query = {sample["doc"]["query_id"]: sample for sample in output["samples"][dataset.name]}
    for query_id, row in zip(expected.query_ids, expected.values, strict=True):
        sample = by_query[query_id]
        values = [sample.get(name, math.nan) for name in suite.names]
        np.testing.assert_array_equal(values, row)  # exactly, and nothing where there is NaN


def test_each_metric_declares_its_direction() -> None:
    suite = FeatureSuite.default() + length
    for language, english in (("sw", False), ("en", True)):
        dataset = MirageDataset.bundled(language)
        better = run(dataset, suite)["higher_is_better"][dataset.name]
        expected = dict.fromkeys(suite.names, True)
        lower = ("incorrect_attempt", "invention", "unknown_facts", "wrong_answer")
        expected |= dict.fromkeys(lower, False)
        expected |= {"english_language": english, "passage_coverage": None, "length": None}
        assert better == expected


def length(_: Query, response: Response) -> float:
    return float(len(response.text or ""))


def test_a_feature_that_no_query_has_is_not_in_the_results() -> None:
    def never(query: Query, response: Response) -> NotComputed:
        return NotComputed(f"{query.id} {response.text}")

    dataset = MirageDataset.bundled("en")[:3]
    results = run(dataset, FeatureSuite([never, "answer_bleu"]))
    keys = {key.partition(",")[0] for key in results["results"][dataset.name]}
    assert "answer_bleu" in keys
    assert "never" not in keys


def test_the_model_gets_the_prompt_and_no_stop_sequence_that_an_answer_holds() -> None:
    dataset = MirageDataset.bundled("fi")
    model = Recorded(dataset)
    run(dataset, model=model)
    assert len(model.asked) == len(dataset)
    for query, (text, options) in zip(dataset, model.asked, strict=True):
        assert query.text in text
        assert all(f"[{passage}]" in text for passage in query.passage_ids)
        assert options == {"until": ["<|endoftext|>"], "do_sample": False, "max_gen_toks": 1024}


def test_the_model_sees_no_gold() -> None:
    dataset = MirageDataset(
        query.model_copy(update={"reference": f"gold-{query.id}", "answers": (("gold answer",),)})
        for query in MirageDataset.bundled("en")[:3]
    )
    texts: list[str] = []

    class Prying(Recorded):
        def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
            texts.extend(str(vars(request)) for request in requests)
            return super().generate_until(requests, disable_tqdm)

    run(dataset, model=Prying(dataset))
    assert len(texts) == 3
    assert not any("gold" in text or "relevant" in text for text in texts)


def test_the_bundled_languages_are_tasks(tmp_path: Path) -> None:
    manager = TaskManager(include_path=str(TASKS), include_defaults=False)
    assert sorted(manager.all_subtasks) == [f"mirage_{code}" for code in sorted(LANGUAGES)]
    dataset = MirageDataset.bundled("sw")
    tracker = EvaluationTracker(output_path=str(tmp_path))
    results = lm_eval.simple_evaluate(
        model=Recorded(dataset),
        tasks=["mirage_sw"],
        task_manager=manager,
        evaluation_tracker=tracker,
    )
    assert results is not None
    assert results["versions"]["mirage_sw"] == version("mirage-rag")
    expected = run(dataset)["results"]["bundled-sw"]
    measured = {k: v for k, v in results["results"]["mirage_sw"].items() if "," in k}
    assert measured == {k: v for k, v in expected.items() if k in measured}
    assert measured["answer_bleu,none"] > 0

    tracker.general_config_tracker.model_name_sanitized = "recorded"
    tracker.date_id = "2026"
    tracker.save_results_samples("mirage_sw", results["samples"]["mirage_sw"])
    [file] = tmp_path.rglob("samples_*.jsonl")
    read = read_run(file)
    assert (read.model, read.language) == ("recorded", "sw")
    assert {r.query_id: r.text for r in read} == answers(dataset)
    suite = FeatureSuite.default("sw")
    np.testing.assert_array_equal(suite.score(dataset, read).values, table(dataset, suite).values)


def test_a_yaml_names_a_dataset_and_features(tmp_path: Path) -> None:
    MirageDataset.bundled("de")[:2].save(tmp_path / "mine.jsonl")
    (tmp_path / "mine.yaml").write_text(
        "task: mine\nclass: !function mirage.integrations.lm_eval.DatasetTask\n"
        f"metadata:\n  dataset: {tmp_path / 'mine.jsonl'}\n  features: [answer_bleu]\n"
    )
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    results = lm_eval.simple_evaluate(model="dummy", tasks=["mine"], task_manager=manager)
    assert results is not None
    assert results["n-samples"]["mine"]["original"] == 2
    assert "answer_bleu,none" in results["results"]["mine"]
    with pytest.raises(DatasetError, match="task 'x': 'metadata' does not name a dataset"):
        DatasetTask({"task": "x"})


def test_samples_of_other_tasks_are_refused() -> None:
    with pytest.raises(DatasetError, match="sample 0: not a logged sample of a task"):
        read_run([{"doc": {"question": "?"}, "filtered_resps": ["x"]}])
    with pytest.raises(DatasetError, match="the file has no samples"):
        read_run([])


def test_the_dummy_model_of_the_harness_is_scored() -> None:
    dataset = MirageDataset.bundled("de")
    results = run(dataset, model="dummy")
    assert results["results"]["bundled-de"]["citation_recall@10,none"] == 0
    assert results["n-samples"]["bundled-de"] == {"original": 40, "effective": 40}
