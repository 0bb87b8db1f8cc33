"""Write files of scores with the real packages of other tools, without a network.

The tests of the adapters write fresh files with them. As a program, it renews the small files that
``tests/scores/files`` keeps::

    python tests/integrations/score_writers.py ragas tests/scores/files
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

ITEMS = 24
SYSTEMS = ("before", "after")


def question(number: int) -> str:
    return f"Which number follows {number}?"


def reference(number: int) -> str:
    return f"{number + 1}"


def answer(system: str, number: int) -> str:
    """Return the answer of a system: the later one errs more often."""
    wrong = number % 6 == 0 if system == "before" else number % 4 == 0
    return "none" if wrong else reference(number)


def fails(system: str, number: int) -> bool:
    """Return whether scoring an answer fails, which happens to the later system alone."""
    return system == "after" and number in (5, 11)


def ragas(folder: Path) -> dict[str, Path]:
    """Write the CSV and the JSON file of an ``EvaluationResult``."""
    files = {}
    for system in SYSTEMS:
        frame = ragas_result(system).to_pandas()
        files[f"{system}.csv"] = folder / f"ragas-{system}.csv"
        frame.to_csv(files[f"{system}.csv"], index=False)
        files[f"{system}.json"] = folder / f"ragas-{system}.json"
        frame.to_json(files[f"{system}.json"], orient="records")
    return files


def ragas_result(system: str) -> Any:
    """Return an ``EvaluationResult`` of two metrics without an LLM, one of which fails at times."""
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas import EvaluationDataset, SingleTurnSample, evaluate
        from ragas.metrics import ExactMatch, StringPresence

    class Flaky(ExactMatch):
        async def _single_turn_ascore(self, sample: SingleTurnSample, callbacks: Any) -> float:
            if fails(system, int(sample.reference or 0) - 1):
                raise ValueError("the judge gave no verdict")
            return await super()._single_turn_ascore(sample, callbacks)

    samples = [
        SingleTurnSample(
            user_input=question(number),
            retrieved_contexts=[f"{reference(number)} comes after {number}."],
            response=answer(system, number),
            reference=reference(number),
        )
        for number in range(ITEMS)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(
            EvaluationDataset(samples),
            metrics=[Flaky(), StringPresence()],
            show_progress=False,
            raise_exceptions=False,
        )


def deepeval(folder: Path) -> dict[str, Path]:
    """Write the file of a test run, as ``DisplayConfig(results_folder=...)`` does."""
    os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import BaseMetric, ExactMatchMetric
    from deepeval.test_case import LLMTestCase

    class Overlap(BaseMetric):  # type: ignore[misc]
        _required_params = ()
        threshold = 0.5
        async_mode = False

        def __init__(self, system: str) -> None:
            self.system = system

        @property
        def __name__(self) -> str:
            return "Overlap"

        def measure(self, case: LLMTestCase, *_: Any, **__: Any) -> float:
            number = int(case.input.rstrip("?").rpartition(" ")[2])
            if fails(self.system, number):
                raise ValueError("the judge gave no verdict")
            shared = set(case.actual_output) & set(case.expected_output)
            self.score = len(shared) / len(set(case.expected_output))
            self.success = self.score >= self.threshold
            return self.score

        def is_successful(self) -> bool:
            return bool(self.success)

    files = {}
    for system in SYSTEMS:
        cases = [
            LLMTestCase(
                name=f"case {number}",
                input=question(number),
                actual_output=answer(system, number),
                expected_output=reference(number),
            )
            for number in range(ITEMS)
        ]
        own = folder / f"deepeval-{system}"
        evaluate(
            cases,
            metrics=[ExactMatchMetric(), Overlap(system)],
            async_config=AsyncConfig(run_async=False),
            display_config=DisplayConfig(
                show_indicator=False, print_results=False, results_folder=str(own)
            ),
            error_config=ErrorConfig(ignore_errors=True),
        )
        [written] = own.glob("test_run_*.json")
        files[f"{system}.json"] = folder / f"deepeval-{system}.json"
        written.replace(files[f"{system}.json"])
        for rest in own.iterdir():
            rest.unlink()
        own.rmdir()
    return files


def inspect_ai(folder: Path) -> dict[str, Path]:
    """Write an ``.eval`` and a ``.json`` log of two epochs per system."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes, match
    from inspect_ai.solver import Generate, TaskState, generate, solver

    samples = [
        Sample(
            id=f"number {number}",
            input=question(number),
            target=reference(number),
            metadata={"document": f"tens {number // 4}"},
        )
        for number in range(ITEMS)
    ]
    files = {}
    for system in SYSTEMS:

        def output(messages: Any, *_: Any, system: str = system) -> ModelOutput:
            number = int(messages[-1].text.rstrip("?").rpartition(" ")[2])
            result = ModelOutput.from_content("mock", answer(system, number))
            result.usage = ModelUsage()
            return result

        @solver
        def failing(system: str = system) -> Any:
            async def solve(state: TaskState, _: Generate) -> TaskState:
                if fails(system, int(str(state.sample_id).rpartition(" ")[2])):
                    raise ValueError("the server is down")
                return state

            return solve

        task = Task(
            name="follows",
            dataset=MemoryDataset(samples, name="numbers"),
            solver=[failing(), generate()],
            scorer=[match(location="any"), includes()],
            epochs=2,
            fail_on_error=False,
        )
        [log] = eval(
            task,
            model=get_model("mockllm/model", custom_outputs=output),
            log_dir=str(folder / "logs"),
            display="none",
        )
        log = read_eval_log(log.location)
        log.eval.model = f"mock/{system}"
        for sample in log.samples or ():
            sample.events = []  # most of the size; not read
            if sample.error is not None:
                sample.error.traceback = sample.error.traceback_ansi = ""
        for kind in ("eval", "json"):
            files[f"{system}.{kind}"] = folder / f"inspect_ai-{system}.{kind}"
            write_eval_log(log, str(files[f"{system}.{kind}"]))
    for rest in (folder / "logs").iterdir():
        rest.unlink()
    (folder / "logs").rmdir()
    return files


def lm_eval(folder: Path) -> dict[str, Path]:
    """Write the samples of a generation task, as ``--log_samples`` does."""
    os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"
    import lm_eval as harness
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Fixed(LM):
        def __init__(self, system: str) -> None:
            super().__init__()
            self.system = system

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:  # noqa: ARG002
            numbers = [int(each.args[0].rstrip("?").rpartition(" ")[2]) for each in requests]
            return [answer(self.system, number) for number in numbers]

        def loglikelihood(self, requests: Any) -> Any:
            raise AssertionError(requests)

        def loglikelihood_rolling(self, requests: Any) -> Any:
            raise AssertionError(requests)

    rows = [{"question": question(n), "answer": reference(n)} for n in range(ITEMS)]
    data = folder / "numbers.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "numbers.yaml").write_text(
        "task: numbers\ndataset_path: json\n"
        f"dataset_kwargs:\n  data_files:\n    test: {data}\n"
        "test_split: test\noutput_type: generate_until\n"
        'doc_to_text: "{{question}}"\ndoc_to_target: "{{answer}}"\n'
        "generation_kwargs:\n  until: ['###']\n"
        "metric_list:\n"
        "  - metric: exact_match\n    aggregation: mean\n    higher_is_better: true\n"
        "  - metric: bleu\n    aggregation: bleu\n    higher_is_better: true\n"
    )
    files = {}
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    for system in SYSTEMS:
        tracker = EvaluationTracker(output_path=str(folder / "out"))
        results = harness.simple_evaluate(
            model=Fixed(system),
            tasks=["numbers"],
            task_manager=manager,
            evaluation_tracker=tracker,
            bootstrap_iters=0,
        )
        assert results is not None
        tracker.general_config_tracker.model_name_sanitized = system
        tracker.date_id = "2026-11-28T00-00-00"
        tracker.save_results_samples("numbers", results["samples"]["numbers"])
        [written] = (folder / "out").rglob(f"{system}/samples_*.jsonl")
        files[f"{system}.jsonl"] = folder / f"lm_eval-{system}.jsonl"
        written.replace(files[f"{system}.jsonl"])
    data.unlink()
    (folder / "numbers.yaml").unlink()
    return files


def pydantic_evals(folder: Path) -> dict[str, Path]:
    """Write reports as JSON; each case is run twice."""
    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import EqualsExpected, Evaluator, EvaluatorContext
    from pydantic_evals.reporting import EvaluationReportAdapter

    class Overlap(Evaluator[str, str, Any]):
        def evaluate(self, ctx: EvaluatorContext[str, str, Any]) -> float:
            expected = set(ctx.expected_output or "")
            return len(set(ctx.output) & expected) / len(expected)

    cases = [
        Case(
            name=f"case {number}",
            inputs=question(number),
            expected_output=reference(number),
            metadata={"document": f"tens {number // 4}"},
        )
        for number in range(ITEMS)
    ]
    dataset = Dataset(name="numbers", cases=cases, evaluators=[EqualsExpected(), Overlap()])
    files = {}
    for system in SYSTEMS:

        async def task(text: str, system: str = system) -> str:
            number = int(text.rstrip("?").rpartition(" ")[2])
            if fails(system, number):
                raise ValueError("the server is down")
            return answer(system, number)

        report = asyncio.run(dataset.evaluate(task, name=system, progress=False, repeat=2))
        for failure in report.failures:
            failure.error_stacktrace = ""  # names files of this machine; not read
        files[f"{system}.json"] = folder / f"pydantic_evals-{system}.json"
        files[f"{system}.json"].write_bytes(EvaluationReportAdapter.dump_json(report))
    return files


def otel(folder: Path) -> dict[str, Path]:
    """Write spans with evaluation events as OTLP JSON."""
    from google.protobuf.json_format import MessageToJson
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    files = {}
    for system in SYSTEMS:
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        for number in range(ITEMS):
            message = {"role": "user", "parts": [{"type": "text", "content": question(number)}]}
            with provider.get_tracer("app").start_as_current_span("chat") as span:
                span.set_attribute("gen_ai.request.model", system)
                span.set_attribute("gen_ai.input.messages", json.dumps([message]))
                outcome: dict[str, str | float] = {
                    "gen_ai.evaluation.score.value": float(
                        answer(system, number) == reference(number)
                    )
                }
                if fails(system, number):
                    outcome = {"error.type": "timeout"}
                span.add_event(
                    "gen_ai.evaluation.result", {"gen_ai.evaluation.name": "exact", **outcome}
                )
        text = MessageToJson(encode_spans(exporter.get_finished_spans()), indent=None)
        files[f"{system}.json"] = folder / f"otel-{system}.json"
        files[f"{system}.json"].write_text(text)
    return files


def langfuse_result(system: str) -> Any:
    """Return an ``ExperimentResult`` of Langfuse, without a server; failed scores are missing."""
    from langfuse import Evaluation, Langfuse

    client = Langfuse(
        public_key="pk-lf-none",
        secret_key="sk-lf-none",
        base_url="http://127.0.0.1:9",
        tracing_enabled=False,
    )

    def task(*, item: Any, **_: Any) -> str:
        return answer(system, int(item["input"].rstrip("?").rpartition(" ")[2]))

    def exact(*, input: str, output: str, expected_output: str, **_: Any) -> Any:
        if fails(system, int(input.rstrip("?").rpartition(" ")[2])):
            raise ValueError("the judge gave no verdict")
        return Evaluation(name="exact", value=float(output == expected_output))

    return client.run_experiment(
        name="numbers",
        run_name=system,
        data=[{"input": question(n), "expected_output": reference(n)} for n in range(ITEMS)],
        task=task,
        evaluators=[exact],
    )


WRITERS: Mapping[str, Callable[[Path], dict[str, Path]]] = {
    "ragas": ragas,
    "deepeval": deepeval,
    "inspect_ai": inspect_ai,
    "lm_eval": lm_eval,
    "pydantic_evals": pydantic_evals,
    "otel": otel,
}
PACKAGES: Mapping[str, str] = {
    **{name: name.replace("_", "-") for name in WRITERS},
    "otel": "opentelemetry-sdk",
}
MODULES: Mapping[str, str] = {
    **{name: name for name in WRITERS},
    "otel": "opentelemetry.exporter.otlp.proto.common",
}


if __name__ == "__main__":
    name, target = sys.argv[1], Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    for path in WRITERS[name](target).values():
        print(path, path.stat().st_size, f"{name} {version(PACKAGES[name])}")
