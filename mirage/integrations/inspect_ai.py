"""inspect_ai: datasets as tasks, features as scores, and evaluation logs as runs.

    from inspect_ai import eval
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from mirage import FeatureSuite, Leaderboard, MirageDataset
    from mirage.integrations.inspect_ai import mirage_task, read_run

    output = ModelOutput.from_content("mock", "##Answer: Ni mto Nile [1].")
    output.usage = ModelUsage()  # else the mock downloads a table to count tokens with
    model = get_model("mockllm/model", custom_outputs=lambda *_: output)  # put your own here
    task = mirage_task(MirageDataset.bundled("sw"), FeatureSuite.default("sw"))
    [log] = eval(task, model=model)
    for score in log.results.scores:
        print(score.name, score.metrics["mean"].value, score.unscored_samples)
    print(Leaderboard.bundled("sw").rank(read_run(log)))

Each feature is a separate score, with ``mean`` and ``stderr`` over the samples for which it can be
computed. If a feature cannot be computed, its score is NaN, which inspect_ai counts as unscored,
and the sample's explanation has the reason. To use the bundled data from the command line, or to
score a log again::

    inspect eval mirage/bundled -T language=sw --model openai/gpt-4o
    inspect score LOG --scorer mirage/feature_scorer -S dataset=bundled-sw \\
        --action append --overwrite

Without ``--action`` and ``--overwrite``, inspect_ai asks on standard input whether to keep the
earlier scores of the log, so a CI job would wait forever. ``--scorer`` is required: the log has the
scorer's name without its package, and inspect_ai cannot load the scorer by that name.

Only the scorer has the ground truth (reference, relevant passages, short answers). It is not in the
metadata or target of samples, because solvers can read these. If your solver shows other passages
than the prompt, or shows them in another order, it must set ``state.metadata["shown"]`` to their
ids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mirage._base.files import validated
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, needing
from mirage.features import FeatureSuite
from mirage.generation import RagPrompt
from mirage.generation.prompts import PromptMaker, prompt_for
from mirage.integrations._contexts import dataset_of, score, suite_of, wanted_names
from mirage.languages import Language
from mirage.models import Query, Response, Run
from mirage.sources.contexts import response_to

with needing("inspect_ai"):
    import anyio
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import EvalLog, EvalSample, read_eval_log
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        ModelOutput,
    )
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState, generate

__all__ = ["bundled", "feature_scorer", "mirage_task", "read_run", "samples"]

_MESSAGES = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}
_NO_OUTPUT = "the model gave no output"


def mirage_task(
    dataset: MirageDataset, suite: FeatureSuite | None = None, prompt: PromptMaker | None = None
) -> Task:
    """Return a task that asks a model each query and scores the answers with a suite's features.

    The version of the task is the version of this library, because scores may change between
    versions.

    Args:
        dataset: The queries.
        suite: The features; by default the features of :meth:`~mirage.FeatureSuite.default` that
            can be computed on the dataset.
        prompt: A function that returns the prompt for a query; by default a
            :class:`~mirage.generation.RagPrompt`.
    """
    suite = suite or FeatureSuite.default(dataset.language).applicable(dataset)
    return Task(
        dataset=MemoryDataset(samples(dataset, prompt), name=dataset.name),
        solver=generate(),
        # Names are stored in the log if they describe all features, so that it can be scored again.
        scorer=feature_scorer(wanted_names(suite) or suite, dataset),
        name=dataset.name,
        version=version("mirage-rag"),
    )


@task
def bundled(language: str, *, level: str = "quick") -> Task:
    """Return a task on the bundled queries of a language, scored with features that need no model.

    ``inspect eval`` calls this function from the command line.

    Args:
        language: ISO 639-1 code.
        level: ``"quick"`` or ``"hard"``.
    """
    return mirage_task(MirageDataset.bundled(language, level=level))


def samples(dataset: MirageDataset, prompt: PromptMaker | None = None) -> list[Sample]:
    """Return one sample per query: its input is the prompt, and its metadata contain the query.

    The query in the metadata has no ground truth, and a sample has no target.
    :func:`feature_scorer` looks up the ground truth by the sample's id.

    Args:
        dataset: The queries.
        prompt: A function that returns the prompt for a query; by default a
            :class:`~mirage.generation.RagPrompt`.
    """
    queries = dataset.without_gold()
    ask = prompt_for(dataset, prompt or RagPrompt())
    prompts = zip(queries, map(ask, queries), strict=True)
    return [
        Sample(
            id=query.id,
            input=[_MESSAGES[message["role"]](content=message["content"]) for message in messages],
            metadata={"query": query.model_dump(mode="json"), "shown": list(shown_ids)},
        )
        for query, (messages, shown_ids) in prompts
    ]


# Scores -------------------------------------------------------------------------------------------


@scorer(metrics={"*": [mean(), stderr()]}, version=version("mirage-rag"))
def feature_scorer(
    features: FeatureSuite | str | Sequence[str] | None = None,
    dataset: MirageDataset | str | None = None,
    language: str | None = None,
) -> Scorer:
    """Return a scorer that computes each feature of a suite on a sample.

    If no dataset is passed, samples need not come from :func:`samples`. A sample's target is then
    the reference answer and its input is the question. Its metadata may contain ``query`` (the
    question, if the input is a whole prompt), ``passages`` (a list of texts, which get ids from 1,
    or of objects with ``id``, ``text`` and ``title``), ``relevant`` (ids of passages), ``answers``,
    ``wrong_answers``, ``answerable`` and ``shown``, as in :class:`~mirage.Query` and
    :class:`~mirage.Response`.

    If features and dataset are passed by name, the log contains the names, so ``inspect score`` can
    score it again.

    Args:
        features: A suite, or names of features; by default the features of
            :meth:`~mirage.FeatureSuite.default` that can be computed on the dataset.
        dataset: The dataset that :func:`samples` was called with, which has the ground truth. It
            may also be a name such as ``"bundled-sw"`` or the path of a file of queries.
        language: ISO 639-1 code of the samples, if there is no dataset.

    Raises:
        DatasetError: If there is neither a dataset nor a language, or the file of the dataset does
            not exist. The scorer raises it if a sample is not valid.
        UnknownNameError: If there is no such feature or language. The scorer raises it if the
            dataset has no query with the sample's id.
    """
    queries = dataset_of(dataset)
    if queries is not None:
        code = queries.language
    elif language is not None:
        code = Language.of(language).code
    else:
        raise DatasetError(
            "feature_scorer needs dataset=, the dataset from which the samples were created, or "
            "language=, the language of your own samples"
        )
    suite = suite_of(features, queries, code)
    # Features may not be thread-safe, and load their models at first use, so one thread at a time.
    limiter = anyio.CapacityLimiter(1)

    async def score_state(state: TaskState, target: Target) -> Score:
        id_ = str(state.sample_id)
        query = _query_of_sample(state, target, code) if queries is None else queries[id_]
        return await anyio.to_thread.run_sync(_score, suite, query, state, limiter=limiter)

    return score_state


def _score(suite: FeatureSuite, query: Query, state: TaskState) -> Score:
    response = _response(query.id, state.output, state.metadata)
    values, reasons = score(suite, query, response)
    return Score(
        value={name: values.get(name, math.nan) for name in suite.names},
        answer=response.text,
        explanation="\n".join(f"{name} not computed: {why}" for name, why in reasons.items()),
        metadata={"not_computed": reasons},
    )


def _response(query_id: str, output: ModelOutput, metadata: dict[str, Any] | None) -> Response:
    text = None if output.error or output.empty else output.completion
    shown_ids = (metadata or {}).get("shown")
    return response_to(query_id, text, error=output.error or _NO_OUTPUT, shown=shown_ids)


def _query_of_sample(state: TaskState, target: Target, language: str) -> Query:
    """Return a query made from a sample that does not come from :func:`samples`."""
    where, metadata = f"sample {state.sample_id!r}", state.metadata
    query = metadata.get("query", state.input_text)
    row = dict(query) if isinstance(query, dict) else {"text": query, "language": language}
    names = ("passages", "relevant", "answers", "wrong_answers", "answerable")
    row |= {name: metadata[name] for name in names if name in metadata}
    row["passages"] = [
        {"id": str(number), "text": passage} if isinstance(passage, str) else passage
        for number, passage in enumerate(row.get("passages", ()), 1)
    ]
    reference = {"reference": target.text} if target.text else {}
    return validated(Query, {"id": str(state.sample_id), **row, **reference}, where)


# Runs ---------------------------------------------------------------------------------------------


def read_run(
    log: EvalLog | str | Path,
    *,
    language: str | None = None,
    model: str | None = None,
) -> Run:
    """Return the responses in an evaluation log as a run.

    The log may come from :func:`mirage_task` or contain your own samples. Only the first epoch is
    read. A sample that ended in an error or has no output becomes a failed response with the
    reason.

    Args:
        log: An evaluation log with its samples, or the path of one.
        language: ISO 639-1 code, if the log does not contain the language.
        model: Name of the model in the run; by default the name in the log, such as
            ``openai/gpt-4o``.

    Raises:
        DatasetError: If the log has no sample of the first epoch, or the language is missing.
        UnknownNameError: If there is no such language.
    """
    read = log if isinstance(log, EvalLog) else read_eval_log(str(log))
    answers = [sample for sample in read.samples or () if sample.epoch == 1]
    if not answers:
        raise DatasetError(f"the log of {read.eval.task!r} has no sample in epoch 1")
    code = language or _language(answers[0])
    if code is None:
        raise DatasetError(
            f"the log of {read.eval.task!r} does not contain the language: pass language="
        )
    return Run(
        model=model or read.eval.model,
        language=Language.of(code).code,
        responses=tuple(map(_logged_response, answers)),
    )


def _language(sample: EvalSample) -> str | None:
    query = sample.metadata.get("query")
    return query.get("language") if isinstance(query, dict) else None


def _logged_response(sample: EvalSample) -> Response:
    if sample.error is not None:
        return Response(query_id=str(sample.id), text=None, error=sample.error.message)
    return _response(str(sample.id), sample.output, sample.metadata)
