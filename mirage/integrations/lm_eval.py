"""lm-evaluation-harness: a dataset as a task, and features as its metrics.

    import lm_eval
    from lm_eval.tasks import TaskManager
    from mirage import FeatureSuite, MirageDataset
    from mirage.integrations.lm_eval import mirage_task

    task = mirage_task(MirageDataset.bundled("sw"), FeatureSuite.offline("sw"))
    none = TaskManager(include_defaults=False)  # saves reading its 13,000 tasks
    results = lm_eval.simple_evaluate(model="dummy", tasks=[task], task_manager=none)
    print(results["results"]["bundled-sw"])

Each feature is a metric, with its mean and standard error over the queries that have it. A feature
that could not be computed for a query is left out of that query's metrics, and one that could not
be computed for any is not in the results: neither is a 0. The documents hold a prompt and no
reference: models get them with each request. Needs the extra ``lm-eval``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirage.dataset import MirageDataset
from mirage.errors import missing_package
from mirage.features import FeatureSuite
from mirage.generation import PromptMaker, RagPrompt
from mirage.generation.prompts import ANSWER_TOKENS
from mirage.integrations._contexts import response_to, score
from mirage.models import Query

try:
    import datasets
    from lm_eval.api.task import ConfigurableTask
except ImportError as error:
    raise missing_package("lm_eval", "lm-eval") from error

__all__ = ["mirage_task"]

Doc = dict[str, Any]


def mirage_task(
    dataset: MirageDataset, suite: FeatureSuite | None = None, prompt: PromptMaker | None = None
) -> ConfigurableTask:
    """A ``generate_until`` task named after the dataset, whose metrics are a suite's features.

    Args:
        dataset: the queries.
        suite: by default :meth:`~mirage.FeatureSuite.offline` for the dataset's language.
        prompt: by default :class:`~mirage.generation.RagPrompt`; its messages become one text.
    """
    suite = suite or FeatureSuite.offline(dataset.language).applicable(dataset)
    prompt = prompt or RagPrompt()
    docs = datasets.Dataset.from_list([_doc(query, prompt) for query in dataset.without_gold()])

    def process_results(doc: Doc, results: Sequence[str]) -> dict[str, float]:
        query = dataset[doc["query_id"]]
        response = response_to(query, results[0], error="", shown=doc["shown"])
        return score(suite, query, response).values

    return ConfigurableTask(
        config={
            "task": dataset.name,
            "custom_dataset": lambda **_: {"test": docs},
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": lambda doc: doc["prompt"],
            "doc_to_target": "",
            "process_results": process_results,
            "metric_list": [
                {
                    "metric": name,
                    "aggregation": "mean",
                    "higher_is_better": facts.higher_is_better(dataset.language),
                }
                for name, facts in suite.facts.items()
            ],
            "generation_kwargs": {"until": [], "do_sample": False, "max_gen_toks": ANSWER_TOKENS},
        }
    )


def _doc(query: Query, prompt: PromptMaker) -> Doc:
    messages, shown = prompt(query)
    return {
        "query_id": query.id,
        "prompt": "\n\n".join(message["content"] for message in messages),
        "shown": list(shown),
    }
