"""inspect_ai: a dataset as a task, and features as the scores of its scorer.

    from inspect_ai import eval
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from mirage import FeatureSuite, MirageDataset
    from mirage.integrations.inspect_ai import mirage_task

    output = ModelOutput.from_content("mock", "##Answer: Ni mto Nile [1].")
    output.usage = ModelUsage()  # else the mock downloads a table to count tokens with
    model = get_model("mockllm/model", custom_outputs=lambda *_: output)  # put your own here
    task = mirage_task(MirageDataset.bundled("sw"), FeatureSuite.offline("sw"))
    [log] = eval(task, model=model)
    for score in log.results.scores:
        print(score.name, score.metrics["mean"].value, score.unscored_samples)

Each feature is a score of its own, with ``mean`` and ``stderr`` over the samples that have it; a
feature that could not be computed is NaN, which inspect_ai counts as unscored, and the sample's
score says why. For the bundled data from the command line::

    inspect eval mirage/integrations/inspect_ai.py@bundled -T language=sw --model openai/gpt-4o

What responses are measured by (the reference, which passages are relevant, short answers) is with
the scorer alone: no sample has it in its metadata or as its target, which solvers can read. A
solver of your own that shows other passages than the prompt does, or another order, sets
``state.metadata["shown"]`` to their ids. Needs the extra ``inspect``.
"""

from __future__ import annotations

import math

from mirage.dataset import MirageDataset
from mirage.errors import missing_package
from mirage.features import FeatureSuite
from mirage.generation import PromptMaker, RagPrompt
from mirage.integrations._contexts import response_to, score
from mirage.models import Query

try:
    import anyio
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState, generate
except ImportError as error:
    raise missing_package("inspect_ai", "inspect") from error

__all__ = ["bundled", "feature_scorer", "mirage_task", "samples"]

_MESSAGES = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def mirage_task(
    dataset: MirageDataset, suite: FeatureSuite | None = None, prompt: PromptMaker | None = None
) -> Task:
    """A task that asks the model each query, and scores the answers by the features of a suite.

    Args:
        dataset: the queries.
        suite: by default :meth:`~mirage.FeatureSuite.offline` for the dataset's language.
        prompt: by default :class:`~mirage.generation.RagPrompt`.
    """
    return Task(
        dataset=MemoryDataset(samples(dataset, prompt), name=dataset.name),
        solver=generate(),
        scorer=feature_scorer(
            suite or FeatureSuite.offline(dataset.language).applicable(dataset), dataset
        ),
        name=dataset.name,
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
    prompts = zip(queries, map(prompt or RagPrompt(), queries), strict=True)
    return [
        Sample(
            id=query.id,
            input=[_MESSAGES[message["role"]](content=message["content"]) for message in messages],
            metadata={"query": query.model_dump(mode="json"), "shown": list(shown)},
        )
        for query, (messages, shown) in prompts
    ]


@scorer(metrics={"*": [mean(), stderr()]})
def feature_scorer(suite: FeatureSuite, dataset: MirageDataset) -> Scorer:
    """Scores samples of :func:`samples` by each feature of a suite, one after the other.

    Args:
        suite: the features.
        dataset: the queries that the samples were made of, with what responses are measured by.
    """
    # Features need not be safe to call from several threads, and load their models when first used.
    limiter = anyio.CapacityLimiter(1)

    async def score_state(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        query = dataset[str(state.sample_id)]
        return await anyio.to_thread.run_sync(_score, suite, query, state, limiter=limiter)

    return score_state


def _score(suite: FeatureSuite, query: Query, state: TaskState) -> Score:
    output = state.output
    text = None if output.error or output.empty else output.completion
    error = output.error or "the model gave no output"
    response = response_to(query, text, error=error, shown=state.metadata["shown"])
    values, reasons = score(suite, query, response)
    return Score(
        value={name: values.get(name, math.nan) for name in suite.names},
        answer=text,
        explanation="\n".join(f"{name} not computed: {why}" for name, why in reasons.items()),
        metadata={"not_computed": reasons},
    )
