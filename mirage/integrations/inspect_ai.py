"""inspect_ai: a dataset as a task, features as the scores of its scorer, and logs as runs.

    from inspect_ai import eval
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from mirage import FeatureSuite, Leaderboard, MirageDataset
    from mirage.integrations.inspect_ai import mirage_task, read_run

    output = ModelOutput.from_content("mock", "##Answer: Ni mto Nile [1].")
    output.usage = ModelUsage()  # else the mock downloads a table to count tokens with
    model = get_model("mockllm/model", custom_outputs=lambda *_: output)  # put your own here
    task = mirage_task(MirageDataset.bundled("sw"), FeatureSuite.offline("sw"))
    [log] = eval(task, model=model)
    for score in log.results.scores:
        print(score.name, score.metrics["mean"].value, score.unscored_samples)
    print(Leaderboard.bundled("sw").rank(read_run(log)))

Each feature is a score of its own, with ``mean`` and ``stderr`` over the samples that have it; a
feature that could not be computed is NaN, which inspect_ai counts as unscored, and the sample's
score says why. For the bundled data from the command line, and to score a log anew::

    inspect eval mirage/bundled -T language=sw --model openai/gpt-4o
    inspect score LOG --scorer mirage/feature_scorer -S dataset=bundled-sw \\
        --action append --overwrite

Without ``--action`` and ``--overwrite``, inspect_ai asks on standard input what to do with the
scores that the log has, so a CI job would wait for an answer.
The scorer has to be named: inspect_ai logs its name without the package, and finds none by that.

What responses are measured by (the reference, which passages are relevant, short answers) is with
the scorer alone: no sample has it in its metadata or as its target, which solvers can read. A
solver of your own that shows other passages than the prompt does, or another order, sets
``state.metadata["shown"]`` to their ids. Needs the extra ``inspect``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mirage._base.files import validated
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, missing_package
from mirage.features import FeatureSuite
from mirage.generation import PromptMaker, RagPrompt
from mirage.generation.prompts import prompt_for
from mirage.integrations._contexts import dataset_of, score, suite_of, wanted_names
from mirage.languages import Language
from mirage.models import Query, Response, Run
from mirage.sources.contexts import response_to

try:
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
except ImportError as error:
    raise missing_package("inspect_ai", "inspect") from error

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
    """A task that asks the model each query, and scores the answers by the features of a suite.

    Its version is that of this library, for figures change with that.

    Args:
        dataset: the queries.
        suite: by default :meth:`~mirage.FeatureSuite.offline` for the dataset's language.
        prompt: by default :class:`~mirage.generation.RagPrompt`.
    """
    suite = suite or FeatureSuite.offline(dataset.language).applicable(dataset)
    return Task(
        dataset=MemoryDataset(samples(dataset, prompt), name=dataset.name),
        solver=generate(),
        # By their names where these say it all, for from these a log can be scored anew.
        scorer=feature_scorer(wanted_names(suite) or suite, dataset),
        name=dataset.name,
        version=version("mirage-rag"),
    )


@task
def bundled(language: str) -> Task:
    """The bundled data of a language with the offline features, for ``inspect eval``."""
    return mirage_task(MirageDataset.bundled(language))


def samples(dataset: MirageDataset, prompt: PromptMaker | None = None) -> list[Sample]:
    """A sample a query: the prompt as input, and as metadata the query without gold.

    It has no target; :func:`feature_scorer` knows by the sample's id what is right.
    """
    queries = dataset.without_gold()
    ask = prompt_for(dataset, prompt or RagPrompt())
    prompts = zip(queries, map(ask, queries), strict=True)
    return [
        Sample(
            id=query.id,
            input=[_MESSAGES[message["role"]](content=message["content"]) for message in messages],
            metadata={"query": query.model_dump(mode="json"), "shown": list(shown)},
        )
        for query, (messages, shown) in prompts
    ]


# Scores -------------------------------------------------------------------------------------------


@scorer(metrics={"*": [mean(), stderr()]}, version=version("mirage-rag"))
def feature_scorer(
    features: FeatureSuite | str | Sequence[str] | None = None,
    dataset: MirageDataset | str | None = None,
    language: str | None = None,
) -> Scorer:
    """Scores samples by each feature of a suite, one after the other.

    Without a dataset, samples are your own. A sample's target is then the reference, its input
    the question, and its metadata may say more: ``query`` (the question, where the input is a
    whole prompt), ``passages`` (texts, which are numbered from 1, or ``id``, ``text`` and
    ``title`` of each), ``relevant`` (ids of passages), ``answers``, ``wrong_answers``,
    ``answerable`` and ``shown``, as in :class:`~mirage.Query` and :class:`~mirage.Response`.
    With features and dataset by name, a log says what it was scored by, and can be scored anew.

    Args:
        features: a suite, or names; by default those of :meth:`~mirage.FeatureSuite.offline` that
            can be computed on the dataset.
        dataset: the queries that the samples were made of by :func:`samples`, with what responses
            are measured by; or ``"bundled-sw"``, or the path of a file of queries.
        language: of samples that no dataset is given for.

    Raises:
        DatasetError: neither a dataset nor a language is given, or there is no such file; while
            samples are scored, what is wrong in which.
        UnknownNameError: no such feature or language, or a sample is of no query of the dataset.
    """
    queries = dataset_of(dataset)
    if queries is not None:
        code = queries.language
    elif language is not None:
        code = Language.of(language).code
    else:
        raise DatasetError(
            "feature_scorer needs the dataset= that its samples were made of, or the language= of "
            "samples of your own"
        )
    suite = suite_of(features, queries, code)
    # Features need not be safe to call from several threads, and load their models when first used.
    limiter = anyio.CapacityLimiter(1)

    async def score_state(state: TaskState, target: Target) -> Score:
        id_ = str(state.sample_id)
        query = _own_query(state, target, code) if queries is None else queries[id_]
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
    shown = (metadata or {}).get("shown")
    return response_to(query_id, text, error=output.error or _NO_OUTPUT, shown=shown)


def _own_query(state: TaskState, target: Target, language: str) -> Query:
    """The query of a sample that was not made from a dataset."""
    where, told = f"sample {state.sample_id!r}", state.metadata
    asked = told.get("query", state.input_text)
    row = dict(asked) if isinstance(asked, dict) else {"text": asked, "language": language}
    names = ("passages", "relevant", "answers", "wrong_answers", "answerable")
    row |= {name: told[name] for name in names if name in told}
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
    epoch: int = 1,
) -> Run:
    """The responses of a log, of :func:`mirage_task` or of samples of your own.

    A sample that ended in an error, or without an output, is a failure with its reason.

    Args:
        log: an evaluation log with its samples, or the path of one.
        language: of the queries, where the log does not say.
        model: its name in the run; by default that in the log, such as ``openai/gpt-4o``.
        epoch: which of the answers to a sample, where there are several.

    Raises:
        DatasetError: the log has no sample of this epoch, or does not say the language.
        UnknownNameError: no such language.
    """
    read = log if isinstance(log, EvalLog) else read_eval_log(str(log))
    answers = [sample for sample in read.samples or () if sample.epoch == epoch]
    if not answers:
        raise DatasetError(f"the log of {read.eval.task!r} has no sample of epoch {epoch}")
    code = language or _language(answers[0])
    if code is None:
        raise DatasetError(f"the log of {read.eval.task!r} does not say in which language: give it")
    return Run(
        model=model or read.eval.model,
        language=Language.of(code).code,
        responses=tuple(map(_logged, answers)),
    )


def _language(sample: EvalSample) -> str | None:
    query = sample.metadata.get("query")
    return query.get("language") if isinstance(query, dict) else None


def _logged(sample: EvalSample) -> Response:
    if sample.error is not None:
        return Response(query_id=str(sample.id), text=None, error=sample.error.message)
    return _response(str(sample.id), sample.output, sample.metadata)
