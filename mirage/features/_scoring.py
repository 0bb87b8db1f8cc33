"""Compute the features of responses in batches, in this process or in other processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from numbers import Real
from pickle import PicklingError
from typing import Any, TypeVar

from mirage._base.logs import logger
from mirage.dataset import MirageDataset
from mirage.errors import FeatureError
from mirage.executors import Executor
from mirage.executors.base import in_order
from mirage.features.base import Answered, Feature, NotComputed, answered
from mirage.features.neural import NeuralFeature
from mirage.features.similarity import SimilarityFeature
from mirage.models import Query, Response, Run
from mirage.passages import CitationGaps, citation_gaps
from mirage.text.recurring import recurring_sentences

_LOG = logger("mirage.features")

# Large enough for a model behind a feature to batch, small enough to show progress.
BATCH = 64

_WORDS_OF_A_HEADING = 3  # a recurring text with at most this number of words is not logged
_CHARACTERS_OF_A_HEADING = 12  # the same for a text without spaces

T = TypeVar("T")
R = TypeVar("R")
Pair = tuple[Query, Response, CitationGaps, frozenset[str]]
Row = Sequence[float | NotComputed]  # one query's values, in the order of the features
Job = Sequence[tuple[int, str, Sequence[Pair]]]  # index, model and pairs of each run
Rows = dict[tuple[int, str], Row]  # by index of the run and query id


def missing_responses(dataset: MirageDataset, run: Run) -> dict[str, str]:
    """Return the ids of the queries without a response text, each mapped to the reason."""
    failed = {response.query_id: f"the model failed: {response.error}" for response in run.failed}
    missing = {id_: "no response to this query" for id_ in dataset.query_ids if not run.get(id_)}
    return missing | failed


def pairs_of(
    dataset: MirageDataset,
    run: Run,
    gaps: Container[str],
    recurring: frozenset[str] | None = None,
) -> dict[str, Pair]:
    """Return the input of the features by query id, for each query that has a response.

    This input is the query, the response, the reasons why citations cannot be measured, and the
    sentences that recur in most responses.

    Args:
        dataset: The queries.
        run: The responses.
        gaps: Ids of the queries without a response text, which are left out.
        recurring: Sentences that count as part of a template; by default those that recur in the
            responses.
    """
    cited = citation_gaps(dataset, run, retrieved=dataset.retrieved)
    if recurring is None:
        recurring = recurring_sentences(response.text for response in run if response.text)
    log_exclusions(run.model, cited, recurring)
    return {
        query.id: (query, run[query.id], cited, recurring)
        for query in dataset
        if query.id not in gaps
    }


@lru_cache(maxsize=256)
def _warn_once(model: str, reason: str) -> None:
    """Log why a run's citations are not measured; the same message is logged only once."""
    _LOG.warning("%s: citation features are not computed: %s", model, reason)


def log_exclusions(model: str, gaps: CitationGaps, recurring: frozenset[str]) -> None:
    """Log why a run's citations are not measured, and how many recurring sentences are ignored.

    Sentences that recur in most answers, such as headings, count as layout.

    Args:
        model: Name of the model.
        gaps: Reasons why the run's citations cannot be measured, if any.
        recurring: The sentences that recur in most answers.
    """
    gap = gaps.unread or gaps.mislabelled
    if gap is not None:
        _warn_once(model, gap.reason)
    sentences = [text for text in recurring if _is_longer_than_a_heading(text)]
    if sentences:
        _note_recurring(model, len(sentences), max(sentences, key=lambda text: (len(text), text)))


def _is_longer_than_a_heading(text: str) -> bool:
    if " " in text:
        return len(text.split()) > _WORDS_OF_A_HEADING
    return len(text) > _CHARACTERS_OF_A_HEADING


@lru_cache(maxsize=256)
def _note_recurring(model: str, number: int, sentence: str) -> None:
    """Log how many sentences recur; the same message is logged only once."""
    _LOG.warning(
        "%s: at least half of the answers contain %r%s; such sentences are not scored, unless they "
        "deny or refuse an answer or concern the question; if one states a fact, check it yourself",
        model,
        sentence[:80],
        f" and {number - 1} other sentences" if number > 1 else "",
    )


def jobs_of(
    dataset: MirageDataset, models: Sequence[str], pairs: Sequence[Mapping[str, Pair]]
) -> list[Job]:
    """Return one job for each block of :data:`BATCH` queries.

    A job has the responses of all runs to the queries of its block. Jobs are the same for any
    number and kind of workers, so that the results are the same too.

    Args:
        dataset: The queries.
        models: Name of the model of each run.
        pairs: The queries and responses of each run by query id, from :func:`pairs_of`.
    """
    ids = dataset.query_ids
    blocks = [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]
    return [
        [
            (number, models[number], [by_id[id_] for id_ in block if id_ in by_id])
            for number, by_id in enumerate(pairs)
        ]
        for block in blocks
    ]


def iterate_rows(
    features: Sequence[Feature], jobs: Sequence[Job], n_jobs: int, executor: Executor | None
) -> Iterator[Rows]:
    """Compute the features of all jobs, and yield blocks of values as they become available.

    A block has the values of one job. If ``n_jobs`` is 1 and there is no executor, a block has only
    the values of one of the job's runs.

    Args:
        features: The features.
        jobs: The queries and responses, from :func:`jobs_of`.
        n_jobs: Number of processes, as in joblib.
        executor: Executor whose workers compute the features instead of local processes.
    """
    if executor is not None:
        yield from _iterate_rows_on(executor, features, jobs)
        return
    if n_jobs == 1:
        yield from (score_job(features, [part]) for job in jobs for part in job)
        return
    yield from in_processes(features, partial(score_job, features), jobs, n_jobs)


def in_processes(
    features: Sequence[Feature], work: Callable[[T], R], items: Iterable[T], n_jobs: int
) -> Iterator[R]:
    """Apply a function to items in several processes, and yield the results in order.

    Only a few items are taken from the iterable ahead of time.

    Args:
        features: The features that the function computes; an error message names them.
        work: The function.
        items: The arguments of the function, one per call.
        n_jobs: Number of processes.

    Raises:
        FeatureError: The features cannot be pickled.
    """
    from joblib import Parallel, delayed

    try:
        yield from Parallel(n_jobs=n_jobs, return_as="generator")(map(delayed(work), items))
    except PicklingError as error:
        # joblib gives the original error only as the text of a traceback. Its last line has the
        # message.
        cause = str(error.__cause__ or error).strip('"\n').rpartition("\n")[2]
        raise FeatureError(
            f"the suite {[item.name for item in features]} cannot be sent to other processes "
            f"({cause}); compute the features with n_jobs=1"
        ) from error


def _iterate_rows_on(
    executor: Executor, features: Sequence[Feature], jobs: Sequence[Job]
) -> Iterator[Rows]:
    """Let an executor's workers compute the features, and yield the values of one job at a time.

    Features that cache the results of a model are computed in this process.
    """
    # A cache is useful only if all jobs share it, so features with one stay in this process.
    local_features = [
        item for item in features if isinstance(item, NeuralFeature | SimilarityFeature)
    ]
    remote_features = [item for item in features if item not in local_features]
    for item in local_features:
        if isinstance(item, NeuralFeature):
            parts = (_parse_batch(pairs) for job in jobs for _, _, pairs in job)
            item.compute_ahead(parts, executor)
    work = partial(score_job, remote_features)
    rows = in_order(executor, work, jobs) if remote_features else map(work, jobs)
    for job, remote_rows in zip(jobs, rows, strict=True):
        local_rows = score_job(local_features, job)
        yield {
            key: _merge_rows(features, local_features, local_rows[key], remote_rows[key])
            for key in remote_rows
        }


def _merge_rows(
    features: Sequence[Feature], local_features: Sequence[Feature], local_row: Row, remote_row: Row
) -> Row:
    local, remote = iter(local_row), iter(remote_row)
    return [next(local) if item in local_features else next(remote) for item in features]


def _parse_batch(pairs: Iterable[Pair]) -> list[Answered]:
    return [
        answered(query, response, gaps, recurring=recurring)
        for query, response, gaps, recurring in pairs
    ]


def score_job(features: Sequence[Feature], job: Job) -> Rows:
    rows: Rows = {}
    for number, model, pairs in job:
        batch = _parse_batch(pairs)
        columns = [_feature_column(item, model, batch) for item in features] if batch else []
        keys = [(number, query.id) for query, *_ in pairs]
        values = zip(*columns, strict=True) if columns else ((),) * len(keys)
        rows |= zip(keys, values, strict=True)
    return rows


def _feature_column(
    item: Feature, model: str, batch: Sequence[Answered]
) -> list[float | NotComputed]:
    try:
        values = list(item.compute(batch))
    except Exception as error:
        query = _describe_failing_query(item, batch)
        raise FeatureError(
            f"feature {item.name!r} failed on {query} of model {model!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if len(values) != len(batch):
        raise FeatureError(
            f"feature {item.name!r} returned {len(values)} values for {len(batch)} responses of "
            f"model {model!r}, queries {batch[0].query.id!r} to {batch[-1].query.id!r}; it must "
            "return one value per response"
        )
    return [
        _check_value(value, item.name, answer.query.id, model)
        for value, answer in zip(values, batch, strict=True)
    ]


def _describe_failing_query(item: Feature, batch: Sequence[Answered]) -> str:
    """Return a text that names the query on which a feature fails.

    To find this query, the feature is computed again for one query of the batch at a time.
    """
    for answer in batch:
        try:
            list(item.compute([answer]))
        except Exception:
            return f"query {answer.query.id!r}"
    return f"queries {batch[0].query.id!r} to {batch[-1].query.id!r} together"


def _check_value(value: Any, name: str, query_id: str, model: str) -> float | NotComputed:
    if isinstance(value, NotComputed):
        return value
    if not isinstance(value, Real) or math.isinf(value):
        raise FeatureError(
            f"feature {name!r} returned {value!r} for query {query_id!r} of model {model!r}; it "
            "must return a finite number, or NotComputed(reason)"
        )
    return NotComputed("the feature returned NaN") if math.isnan(value) else float(value)
