"""lm-evaluation-harness: datasets as tasks, features as metrics, and logged samples as runs.

    import lm_eval
    from lm_eval.tasks import TaskManager
    from mirage import FeatureSuite, Leaderboard, MirageDataset
    from mirage.integrations.lm_eval import mirage_task, read_run

    task = mirage_task(MirageDataset.bundled("sw"), FeatureSuite.default("sw"))
    none = TaskManager(include_defaults=False)  # does not read the harness's 13,000 tasks
    results = lm_eval.simple_evaluate(model="dummy", tasks=[task], task_manager=none)
    print(results["results"]["bundled-sw"])
    run = read_run(results["samples"]["bundled-sw"], model="dummy")
    print(Leaderboard.bundled("sw").rank(run))

Each feature is a metric. The results contain its mean and standard error over the queries for which
it can be computed. If a feature cannot be computed for a query, the query's metrics do not contain
it, so it never counts as 0. A feature without a value for any query is missing from the results.
The harness passes a document to the model with each request, so documents contain a prompt and no
ground truth.

On the command line, ``mirage_ar`` to ``mirage_zh`` are the bundled datasets, and ``mirage`` is all
of them::

    TASKS=$(python -c "from mirage.integrations.lm_eval import TASKS; print(TASKS)")
    lm-eval run --include_path $TASKS --tasks mirage_sw --model hf \\
        --model_args pretrained=Qwen/Qwen3-0.6B --log_samples --output_path results

:func:`read_run` reads the file that ``--log_samples`` writes. To use your own queries, write a
YAML file::

    task: my_queries
    class: !function mirage.integrations.lm_eval.DatasetTask
    metadata:
      dataset: /data/queries.jsonl
      features: [citation_recall@10, support_lexical]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mirage._base.files import read_rows
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, needing
from mirage.features import FeatureSuite
from mirage.generation import RagPrompt
from mirage.generation.prompts import ANSWER_TOKENS, PromptMaker, prompt_for
from mirage.integrations._contexts import dataset_of, score, suite_of
from mirage.languages import Language
from mirage.models import Query, Response, Run
from mirage.sources.contexts import response_to

with needing("lm_eval"):
    import datasets
    from lm_eval.api.task import ConfigurableTask

__all__ = ["TASKS", "DatasetTask", "mirage_task", "read_run"]

TASKS = Path(__file__).parent / "lm_eval_tasks"
"""The folder with the tasks on the bundled data, for ``--include_path``."""

Doc = dict[str, Any]

_NEVER = "<|endoftext|>"
"""The only stop sequence. It has no effect, but some servers require at least one.

A text ends at this token in any case.
"""


def mirage_task(
    dataset: MirageDataset, suite: FeatureSuite | None = None, prompt: PromptMaker | None = None
) -> ConfigurableTask:
    """Return a task that asks a model each query and uses a suite's features as metrics.

    The task is of lm-eval's type ``generate_until`` and is named after the dataset. Its version is
    the version of this library, because scores may change between versions.

    Args:
        dataset: The queries.
        suite: The features; by default the features of :meth:`~mirage.FeatureSuite.default` that
            can be computed on the dataset.
        prompt: A function that returns the prompt for a query; its messages are joined to one text.
            The default is a :class:`~mirage.generation.RagPrompt`.
    """
    suite = suite or FeatureSuite.default(dataset.language).applicable(dataset)
    return ConfigurableTask(config=_config(dataset.name, dataset, suite, prompt or RagPrompt(), {}))


class DatasetTask(ConfigurableTask):
    """A task that a YAML file of the harness defines with ``class: !function ...DatasetTask``.

    Args:
        config: The content of the YAML file. ``task`` is the name of the task. ``metadata.dataset``
            is a name such as ``bundled-sw`` or the path of a file of queries. ``metadata.features``
            are names of features, by default those of :meth:`~mirage.FeatureSuite.default` that can
            be computed on the dataset.

    Raises:
        DatasetError: If there is no ``metadata.dataset``, or its file is not valid.
        UnknownNameError: If there is no such feature or language.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        metadata = dict(config.get("metadata") or {})
        dataset = dataset_of(metadata.get("dataset"))
        if dataset is None:
            raise DatasetError(
                f"task {config.get('task')!r}: 'metadata' does not name a dataset; add a line "
                "such as 'dataset: bundled-sw' or the path of a file of queries"
            )
        suite = suite_of(metadata.get("features"), dataset, dataset.language)
        super().__init__(config=_config(config["task"], dataset, suite, RagPrompt(), metadata))


def _config(
    name: str,
    dataset: MirageDataset,
    suite: FeatureSuite,
    prompt: PromptMaker,
    metadata: Mapping[str, Any],
) -> dict[str, Any]:
    ask = prompt_for(dataset, prompt)
    docs = datasets.Dataset.from_list([_doc(query, ask) for query in dataset.without_gold()])

    def process_results(doc: Doc, results: Sequence[str]) -> dict[str, float]:
        query = dataset[doc["query_id"]]
        response = response_to(query.id, results[0], error="", shown=doc["shown"])
        # The harness leaves missing metrics out of its means, which 0 or NaN would distort.
        return score(suite, query, response).values

    return {
        "task": name,
        "custom_dataset": lambda **_: {"test": docs},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": lambda doc: doc["prompt"],
        "doc_to_target": "",
        "process_results": process_results,
        "metric_list": [
            {
                "metric": metric,
                "aggregation": "mean",
                "higher_is_better": facts.higher_is_better(dataset.language),
            }
            for metric, facts in suite.facts.items()
        ],
        "generation_kwargs": {
            "until": [_NEVER],
            "do_sample": False,
            "max_gen_toks": ANSWER_TOKENS,
        },
        "metadata": {**metadata, "version": version("mirage-rag")},
    }


def _doc(query: Query, prompt: PromptMaker) -> Doc:
    messages, shown_ids = prompt(query)
    return {
        "query_id": query.id,
        "language": query.language,
        "prompt": "\n\n".join(message["content"] for message in messages),
        "shown": list(shown_ids),
    }


def read_run(samples: str | Path | Iterable[Mapping[str, Any]], *, model: str | None = None) -> Run:
    """Return the run whose samples were logged by a task of this module.

    Args:
        samples: A file ``samples_TASK_DATE.jsonl`` that ``--log_samples`` wrote, or a task's entry
            under ``samples`` in the result of ``simple_evaluate``.
        model: Name of the model in the run; by default the name of the file's folder, which the
            harness names after the model.

    Raises:
        DatasetError: If there is no sample, a sample belongs to a task of another module (the
            message names the sample), or samples are in several languages.
    """
    if isinstance(samples, str | Path):
        rows = list(read_rows(Path(samples)))
        model = model or Path(samples).resolve().parent.name
    else:
        rows = [(f"sample {number}", dict(row)) for number, row in enumerate(samples)]
    if not rows:
        raise DatasetError(f"{samples}: the file has no samples")
    answers = [_logged_response(where, row) for where, row in rows]
    languages = {language for language, _ in answers}
    if len(languages) > 1:
        raise DatasetError(
            f"the samples are in several languages ({', '.join(sorted(languages))}); pass the "
            "samples of a single task, which has one language"
        )
    return Run(
        model=model or "model",
        language=languages.pop(),
        responses=tuple(response for _, response in answers),
    )


def _logged_response(where: str, row: Mapping[str, Any]) -> tuple[str, Response]:
    try:
        doc, text = row["doc"], row["filtered_resps"][0]
        language = Language.of(doc["language"]).code
        return language, response_to(doc["query_id"], text, error="", shown=doc["shown"])
    # Rows of other tasks have other documents.
    except (KeyError, IndexError, TypeError) as error:
        raise DatasetError(
            f"{where}: not a logged sample of a task of mirage.integrations.lm_eval "
            f"({type(error).__name__}: {error})"
        ) from None
