"""Features of more responses than fit into memory: files are read and written block by block.

:func:`score_files` computes the same values as :meth:`mirage.FeatureSuite.score_all`, with one
exception. To decide whether the dataset has the passages that a system retrieved, it compares these
passages only with those of the same block of 1,000 queries.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from mirage._base.block_file import BlockFile, check_writable
from mirage._base.garbage import rare_collection
from mirage._base.progress import progress_bar
from mirage.dataset import DatasetLike, MirageDataset, as_dataset
from mirage.errors import FeatureError, SettingError
from mirage.executors import Executor
from mirage.executors.base import in_order
from mirage.features._scoring import BATCH, Pair, in_processes, log_exclusions, score_job
from mirage.features.base import GIVEN, Facts, Feature, Need, NotComputed
from mirage.features.registry import facts
from mirage.features.run_files import Item, RunFiles
from mirage.features.suite import FeatureSuite, average_repeats
from mirage.features.table import FeatureTable
from mirage.models import Query, Response
from mirage.passages import CitationGaps, CitationSurvey
from mirage.text.recurring import RecurringSurvey

__all__ = ["Measures", "RunFiles", "ScoredRun", "Stream", "score_files", "score_stream"]

T = TypeVar("T")

_SURVEY = 1000  # queries of a block when the data about a whole run are collected
_MOST_REASONS = 100  # different reasons for missing values that are kept for each feature
_FIXED = ("query_id", "model", "repeat", "not_computed")


class Stream(Protocol):
    """Protocol of objects whose queries and responses can be read any number of times."""

    @property
    def runs(self) -> Sequence[tuple[str, int]]:
        """The model and the repeat number of each run; complete once all items have been read."""

    @property
    def clusters(self) -> Mapping[str, str]:
        """The name of each query's cluster by query id; complete once all items have been read."""

    @property
    def language(self) -> str | None:
        """ISO 639-1 code of the queries' language; known once all items have been read."""

    @property
    def answers(self) -> int:
        """The number of responses; known once all items have been read."""

    def items(self) -> Iterator[Item]:
        """Yield the queries in order, each with its responses."""

    def digest(self) -> str:
        """Return a text that changes if anything that the items depend on changes."""


class Measures(NamedTuple):
    """Additional columns of the output, which also have values for queries without a response.

    Attributes:
        facts: The direction and range of each column, by name.
        function: Function that takes a query and its response (``None`` if there is none), and
            returns the value of each column by name.
    """

    facts: Mapping[str, Facts]
    function: Callable[[Query, Response | None], Mapping[str, float | NotComputed]]


class ScoredRun(NamedTuple):
    """The features of one model, read from the file that :func:`score_files` writes.

    Attributes:
        table: The features, with one row per query. Its ``reasons`` contain only one example
            of each different reason.
        missing: The number of missing values by feature name and reason.
        failed: Ids of the queries that the model failed on.
        responses: Number of responses.
        unmet: The unmet needs of each feature that cannot be computed for any query, by feature
            name.
    """

    table: FeatureTable
    missing: Mapping[str, Mapping[str, int]]
    failed: tuple[str, ...]
    responses: int
    unmet: Mapping[str, tuple[Need, ...]]


def score_files(
    dataset: str | Path | DatasetLike,
    runs: Mapping[str, str | Path],
    values_path: str | Path,
    *,
    suite: FeatureSuite | None = None,
    cluster: str | None = None,
    n_jobs: int = 1,
    executor: Executor | None = None,
    progress: bool = True,
) -> list[ScoredRun]:
    """Compute every feature for every response in files, and write the values to a file.

    Neither the dataset nor the responses need to fit into memory. If a call is interrupted, repeat
    it: it resumes after the last finished block of 64 queries and writes the same file.

    Args:
        dataset: Path of the queries, as for :meth:`mirage.MirageDataset.load`, or the queries.
        runs: Paths of responses by model name, as for :meth:`mirage.Run.load`.
        values_path: The file to write: Parquet (extra ``retrieval``) if the suffix is
            ``.parquet``, else JSON Lines, compressed if the suffix is ``.gz``. It has one row per
            query and model.
        suite: The features. By default those of :meth:`mirage.FeatureSuite.default` that the
            dataset has the data for.
        cluster: Metadata key under which each query has the name of its cluster; by default
            :attr:`Query.cluster <mirage.Query>`.
        n_jobs: Number of processes, as in joblib. The file does not depend on it.
        executor: Executor whose workers compute the features instead of local processes; the file
            is the same.
        progress: Whether to show a progress bar.

    Returns:
        The features of each model, in the order of ``runs``.

    Raises:
        SettingError: ``n_jobs`` is 0.
        DatasetError: A file is invalid or cannot be written, or ``values_path`` has the unfinished
            results of other responses, queries or features.
        FeatureError: A run answers a query that the dataset does not have, no feature can be
            computed, or a feature fails.
        UnknownNameError: No query has the key ``cluster`` in its metadata.

    Example:
        >>> import tempfile
        >>> from mirage import MirageDataset, Query
        >>> dataset = MirageDataset([Query(id="q", language="en", text="Who wrote Emma?")])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     responses = Path(folder, "run.jsonl")
        ...     _ = responses.write_text('{"query_id": "q", "text": "Jane Austen"}')
        ...     (scored,) = score_files(dataset, {"model": responses}, Path(folder, "out.jsonl"))
        ...     scored.table["target_language"].size, Path(folder, "out.jsonl").exists()
        (1, True)
    """
    source = Path(dataset) if isinstance(dataset, Path) else _dataset_of(dataset)
    files = {model: Path(path) for model, path in runs.items()}
    with RunFiles(source, files, cluster=cluster) as stream:
        return score_stream(
            stream, suite, Path(values_path), n_jobs=n_jobs, executor=executor, progress=progress
        )


def _dataset_of(dataset: str | DatasetLike) -> Path | MirageDataset:
    if isinstance(dataset, str) and Path(dataset).suffix:
        return Path(dataset)
    return as_dataset(dataset)


@rare_collection()
def score_stream(
    stream: Stream,
    suite: FeatureSuite | None,
    path: Path,
    *,
    applicable: bool = False,
    measures: Measures | None = None,
    n_jobs: int = 1,
    executor: Executor | None = None,
    progress: bool = True,
) -> list[ScoredRun]:
    """Compute the features of a stream, and write the values to a file; see :func:`score_files`.

    Args:
        stream: The queries and responses.
        suite: The features; by default those of :meth:`mirage.FeatureSuite.default` that the
            queries have the data for.
        path: The file to write.
        applicable: Whether to leave out the features of ``suite`` that the queries lack data for.
        measures: Additional columns.
        n_jobs: Number of processes.
        executor: Executor whose workers compute the features.
        progress: Whether to show a progress bar.

    Returns:
        The features of each model.
    """
    if n_jobs == 0:
        raise SettingError("n_jobs must be a number of processes, or -1 for one per core, got 0")
    check_writable(path)
    contexts = _survey(stream)
    features, unmet = _applicable(suite, contexts, applicable or suite is None)
    names = (*(item.name for item in features), *(measures.facts if measures else ()))
    if wrong := [name for name in names if name in _FIXED]:
        raise FeatureError(
            f"a feature cannot be named {wrong[0]!r}, because the output file has another column "
            "with this name; rename the feature"
        )
    work = partial(_score_items, features, measures, contexts)
    label = contexts[0].model if len(contexts) == 1 else f"{len(contexts)} models"
    with BlockFile(path, _digest(stream, names)) as file:
        items = islice(stream.items(), BATCH * file.blocks, None)
        done = sum(1 for _ in file.rows())
        with progress_bar(stream.answers, f"features of {label}", progress, done=done) as bar:
            for data in _results(features, work, _blocks(items, BATCH), n_jobs, executor):
                file.add(data)
                bar.update(data.count(b"\n"))
        values = _collect(stream, contexts, names, file.rows())
        declared_facts = {item.name: facts(item) for item in features}
        declared_facts |= measures.facts if measures else {}
        summaries = _summaries(stream, contexts, values, names, unmet, declared_facts)
        file.finish(_columns(names, contexts))
    return summaries


def _digest(stream: Stream, names: Sequence[str]) -> str:
    version = sys.modules["mirage"].__version__  # another version may compute other values
    parts = [version, *names, stream.digest()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _blocks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block


def _results(
    features: Sequence[Feature],
    work: Callable[[Sequence[Item]], bytes],
    blocks: Iterable[Sequence[Item]],
    n_jobs: int,
    executor: Executor | None,
) -> Iterator[bytes]:
    if executor is not None:
        return in_order(executor, work, blocks)
    return map(work, blocks) if n_jobs == 1 else in_processes(features, work, blocks, n_jobs)


# Data that depend on all responses of a run ------------------------------------------------------


class _Context(NamedTuple):
    """The data about a whole run that the features of each response depend on.

    Attributes:
        model: Name of the model.
        repeat: Repeat number; 0 if there is one response per query.
        gaps: Reasons why the citations of the run cannot be measured.
        recurring: Sentences that recur in the run.
        needs: Data that at least one query of the run has, such as a reference.
        failed: Ids of the queries that the model failed on.
        responses: Number of responses.
    """

    model: str
    repeat: int
    gaps: CitationGaps
    recurring: frozenset[str]
    needs: frozenset[Need]
    failed: tuple[str, ...]
    responses: int


class _Survey:
    """The data for one run's :class:`_Context`, collected in one or two passes over the items."""

    def __init__(self) -> None:
        self.citations = CitationSurvey()
        self.recurring = RecurringSurvey()
        self.needs: set[Need] = set()
        self.failed: list[str] = []
        self.responses = 0

    def add(self, queries: Sequence[Query], responses: Sequence[Response | None]) -> None:
        """Add a block of queries and their responses in the first pass."""
        pairs = _answer_pairs(queries, responses)
        self.responses += len(pairs)
        self.citations.add(queries, pairs)
        self.recurring.add(response.text for _, response in pairs if response.text)
        self.failed += [response.query_id for _, response in pairs if response.text is None]
        for need, has in GIVEN.items():
            if need not in self.needs and any(map(has, queries)):
                self.needs.add(need)

    @property
    def needs_recount(self) -> bool:
        """Whether a second pass over all responses is needed.

        The second pass counts the sentences that may occur in at least half of the responses, and
        the responses with citations in a known style.
        """
        return self.citations.needs_recount or self.recurring.needs_recount

    def recount(self, queries: Sequence[Query], responses: Sequence[Response | None]) -> None:
        """Add a block of queries and their responses in the second pass."""
        pairs = _answer_pairs(queries, responses)
        if self.citations.needs_recount:
            self.citations.recount(pairs)
        if self.recurring.needs_recount:
            self.recurring.recount(response.text for _, response in pairs if response.text)


def _answer_pairs(
    queries: Sequence[Query], responses: Sequence[Response | None]
) -> list[tuple[Query, Response]]:
    pairs = zip(queries, responses, strict=True)
    return [(query, response) for query, response in pairs if response is not None]


def _survey(stream: Stream) -> list[_Context]:
    """Read all items once, or twice if necessary, and return the context of each run."""
    surveys: dict[int, _Survey] = {}
    for number, queries, responses in _run_blocks(stream):
        surveys.setdefault(number, _Survey()).add(queries, responses)
    if any(survey.needs_recount for survey in surveys.values()):
        for number, queries, responses in _run_blocks(stream):
            surveys[number].recount(queries, responses)
    contexts = []
    for number, (model, repeat) in enumerate(stream.runs):
        survey = surveys[number]
        gaps, recurring = survey.citations.gaps(), survey.recurring.recurring()
        log_exclusions(model, gaps, recurring)
        needs, failed = frozenset(survey.needs), tuple(survey.failed)
        contexts.append(_Context(model, repeat, gaps, recurring, needs, failed, survey.responses))
    return contexts


def _run_blocks(
    stream: Stream,
) -> Iterator[tuple[int, Sequence[Query], Sequence[Response | None]]]:
    """Yield the index, the queries and the responses of each run, block by block.

    A block has at most :data:`_SURVEY` queries.
    """
    for items in _blocks(stream.items(), _SURVEY):
        by_run: dict[int, tuple[list[Query], list[Response | None]]] = {}
        for query, responses in items:
            for number, response in responses:
                queries, answers = by_run.setdefault(number, ([], []))
                queries.append(query)
                answers.append(response)
        for number, (queries, answers) in by_run.items():
            yield number, queries, answers


def _applicable(
    suite: FeatureSuite | None, contexts: Sequence[_Context], applicable: bool
) -> tuple[tuple[Feature, ...], list[dict[str, tuple[Need, ...]]]]:
    """Return the features to compute, and for each run the features that its queries lack data for.

    Args:
        suite: The features; by default those of :meth:`FeatureSuite.default`.
        contexts: The context of each run.
        applicable: Whether to leave out the features that all runs lack data for.
    """
    suite = suite or FeatureSuite.default()
    if not applicable:
        return suite.features, [{} for _ in contexts]
    unmet = [suite.unmet_by(context.needs) for context in contexts]
    features = tuple(item for item in suite if any(item.name not in lacking for lacking in unmet))
    if not features:
        raise FeatureError(
            f"none of the features {', '.join(suite.names)} can be computed: they need data that "
            "none of the queries has, such as relevant passages, a reference or short answers"
        )
    return features, unmet


# Rows ---------------------------------------------------------------------------------------------


@rare_collection()
def _score_items(
    features: Sequence[Feature],
    measures: Measures | None,
    contexts: Sequence[_Context],
    items: Sequence[Item],
) -> bytes:
    """Score a block of queries, and return their rows of the output file as JSON Lines."""
    pairs: dict[int, list[Pair]] = {}
    for query, responses in items:
        for number, response in responses:
            if response is not None and response.text is not None:
                context = contexts[number]
                pair = query, response, context.gaps, context.recurring
                pairs.setdefault(number, []).append(pair)
    job = [(number, contexts[number].model, pairs[number]) for number in sorted(pairs)]
    rows = score_job(features, job)
    has_repeats = any(context.repeat for context in contexts)
    lines = []
    for query, responses in items:
        for number, response in responses:
            missing = NotComputed(
                "no response to this query"
                if response is None
                else f"the model failed: {response.error}"
            )
            row = rows.get((number, query.id)) or [missing] * len(features)
            values = dict(zip((item.name for item in features), row, strict=True))
            if measures is not None:
                values |= measures.function(query, response)
            lines.append(_line(query.id, contexts[number], has_repeats, values))
    return "".join(lines).encode()


def _line(
    query_id: str,
    context: _Context,
    has_repeats: bool,
    values: Mapping[str, float | NotComputed],
) -> str:
    row: dict[str, Any] = {"query_id": query_id, "model": context.model}
    if has_repeats:
        row["repeat"] = context.repeat
    reasons = {}
    for name, value in values.items():
        if isinstance(value, NotComputed):
            reasons[name] = value.reason
            row[name] = None
        else:
            row[name] = value
    if reasons:
        row["not_computed"] = reasons
    # JSON may contain a lone surrogate, which cannot be written as UTF-8.
    text = json.dumps(row, ensure_ascii=False)
    return (text if text.isascii() or _is_unicode(text) else json.dumps(row)) + "\n"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _columns(names: Sequence[str], contexts: Sequence[_Context]) -> dict[str, str]:
    """Return the data type of each column of the output file by name, for Parquet files."""
    repeat = {"repeat": "int64"} if any(context.repeat for context in contexts) else {}
    columns = {"query_id": "string", "model": "string", **repeat}
    return columns | dict.fromkeys(names, "float64") | {"not_computed": "texts"}


# Summaries ----------------------------------------------------------------------------------------


class _Values:
    """The values of one run, and the reasons for missing values."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.values = array("d")
        self.missing: dict[str, Counter[str]] = {}
        self.examples: dict[tuple[str, str], str] = {}

    def add(self, row: Mapping[str, Any], names: Sequence[str], query_id: str) -> None:
        """Add the values and reasons of a row of the file.

        ``names`` are the columns with values. ``query_id`` equals the row's query id; all runs
        share one object per id, which saves memory.
        """
        self.ids.append(query_id)
        self.values.extend(np.nan if row[name] is None else row[name] for name in names)
        for name, why in row.get("not_computed", {}).items():
            counts = self.missing.setdefault(name, Counter())
            if why in counts or len(counts) < _MOST_REASONS:
                if why not in counts:
                    self.examples.setdefault((query_id, name), why)
                counts[why] += 1

    def reasons(self, names: Sequence[str]) -> dict[tuple[str, str], str]:
        """Return one example of each reason for a missing value, by ``(query id, feature name)``.

        If a column has no value at all, only its most frequent reason is returned.
        """
        values = np.frombuffer(self.values).reshape(-1, len(names))
        empty = {
            name for name, column in zip(names, values.T, strict=True) if np.isnan(column).all()
        }
        examples = {key: why for key, why in self.examples.items() if key[1] not in empty}
        for name in empty & self.missing.keys():
            examples[self.ids[0], name] = self.missing[name].most_common(1)[0][0]
        return examples


def _collect(
    stream: Stream,
    contexts: Sequence[_Context],
    names: Sequence[str],
    rows: Iterable[Mapping[str, Any]],
) -> list[_Values]:
    """Return the values of each run, from the rows of the file."""
    numbers = {(context.model, context.repeat): n for n, context in enumerate(contexts)}
    collected = [_Values() for _ in stream.runs]
    ids: dict[str, str] = {}  # all runs share one object per id, which saves memory
    for row in rows:
        number = numbers[row["model"], row.get("repeat", 0)]
        collected[number].add(row, names, ids.setdefault(row["query_id"], row["query_id"]))
    return collected


def _summaries(
    stream: Stream,
    contexts: Sequence[_Context],
    collected: Sequence[_Values],
    names: Sequence[str],
    unmet: Sequence[Mapping[str, tuple[Need, ...]]],
    declared_facts: Mapping[str, Facts],
) -> list[ScoredRun]:
    """Return the features of each model; each value is the mean over the model's repeats."""
    by_model: dict[str, list[int]] = {}
    for number, context in enumerate(contexts):
        by_model.setdefault(context.model, []).append(number)
    scored = []
    for model, numbers in by_model.items():
        lacking = unmet[numbers[0]]
        tables = [
            _table(stream, model, collected[number], names, declared_facts) for number in numbers
        ]
        if lacking:
            measured = [name for name in names if name not in lacking]
            tables = [table.columns(measured) for table in tables]
        table = average_repeats(tables)
        missing: dict[str, Counter[str]] = {}
        for number in numbers:
            for name, counts in collected[number].missing.items():
                missing.setdefault(name, Counter()).update(counts)
        failed = tuple(id_ for number in numbers for id_ in contexts[number].failed)
        responses = sum(contexts[number].responses for number in numbers)
        scored.append(ScoredRun(table, missing, failed, responses, lacking))
    return scored


def _table(
    stream: Stream,
    model: str,
    values: _Values,
    names: Sequence[str],
    declared_facts: Mapping[str, Facts],
) -> FeatureTable:
    ids = tuple(values.ids)
    clusters = stream.clusters
    return FeatureTable(
        model,
        stream.language or "",
        ids,
        tuple(names),
        np.frombuffer(values.values).reshape(-1, len(names)),
        values.reasons(names),
        {name: entry for name, entry in declared_facts.items() if entry != facts(name)},
        {id_: clusters[id_] for id_ in ids if id_ in clusters} if clusters else {},
    )
