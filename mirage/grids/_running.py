"""Execution of the steps of a grid; each step runs once, and its result is stored.

If a step was interrupted, the next run resumes it.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from mirage._base.calls import Call, recording_calls
from mirage._base.files import read_rows, validated, writing
from mirage._base.journal import Journal
from mirage.corpus import Corpus
from mirage.dataset import MirageDataset, clusters_of
from mirage.errors import FeatureError, MirageError, SettingError
from mirage.features import FeatureSuite, llm_eval
from mirage.features.base import MODELS
from mirage.features.rated import RatedFeature
from mirage.features.registry import DEFINITIONS, canonical_name, facts, feature
from mirage.generation import OpenAIGenerator, respond
from mirage.generation.processes import close_process
from mirage.generation.prompts import prompt_for
from mirage.grids._nodes import Nodes, Settings
from mirage.grids.cells import COMPRESSION, NOT_RUN, RESOURCES, Cell, Score
from mirage.grids.config import NONE, ORACLE, GridConfig
from mirage.grids.store import RESPONSES, Node, ResultStore
from mirage.llm.budget import Usage
from mirage.llm.client import cached_amounts
from mirage.models import Passage, Query, Response, Run
from mirage.pipeline import Pipeline
from mirage.retrieval import (
    CrossEncoderReranker,
    OracleRetriever,
    RetrievalRun,
    Retriever,
    RewritingRetriever,
    RunRetriever,
    compression,
    evaluate,
)
from mirage.retrieval.run import Hits
from mirage.retrieval.simple import relevant_passages
from mirage.statistics.bootstrap import NO_INTERVAL

if TYPE_CHECKING:
    from mirage.executors import Executor
    from mirage.features.base import Feature
    from mirage.llm import LLM, Budget

BATCH = 64
"""The number of queries that a step processes at a time; each batch is then written to disk."""

DATA = "data"
RANKING = "ranking.jsonl"
PASSAGES = "passages.jsonl"
CALLS = "calls.jsonl"
SCORES = "scores.jsonl"


class RankingRow(BaseModel):
    """One row of a ranking file: the passages retrieved for a query, best first.

    If reranking failed, ``error`` is the reason, and the passages keep the order of the retriever.
    """

    query_id: str
    passage_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    error: str = ""


class PassagesRow(BaseModel):
    """One row of a passages file: a query's passages as the context processor returned them.

    The next run processes the query again if ``error`` is not empty.
    """

    query_id: str
    passages: tuple[Passage, ...] = ()
    error: str = ""


class ScoreRow(BaseModel):
    """One row of a scores file: the values of one query by metric.

    ``reasons`` maps each metric without a value to the reason. The next run scores the query again
    if ``error`` is not empty.
    """

    query_id: str
    values: dict[str, float] = Field(default_factory=dict)
    reasons: dict[str, str] = Field(default_factory=dict)
    error: str = ""


class _Measurement(NamedTuple):
    """The result of measuring some metrics of a cell.

    Attributes:
        values: An array with one value per query, by metric.
        bounds: The lowest and highest possible value, by metric.
        failed: The ids of the queries without a response.
        problems: The reasons why many values are missing, such as a judge that always fails.
    """

    values: dict[str, NDArray[np.float64]]
    bounds: Mapping[str, tuple[float, float]]
    failed: Sequence[str] = ()
    problems: Sequence[str] = ()


_LOCAL = ("transformers", "vllm")
"""The kinds of generators that run a model on this machine."""

_UNSENT = re.compile(r"the call was not sent\b.*\bbudget of\b")
"""The part of an error message that names a spent budget."""

_LARGER_BUDGET = "because the budget is spent; run the grid again with a larger budget"


class Runner:
    """A runner, which executes the steps of cells or reads their results from the store.

    Args:
        config: The content of the grid file.
        store: The store of results.
        nodes: The steps of the cells.
        limit: The number of queries to use from the start of each dataset; all by default.
        budget: The budget of all LLM calls together; unlimited by default.
        executor: The executor whose workers do the work; by default the calling process does it.
        progress: Whether to show progress bars.
        stored_only: Whether a step whose result is not in the store fails instead of running.
    """

    def __init__(
        self,
        config: GridConfig,
        store: ResultStore,
        nodes: Nodes,
        *,
        limit: int | None = None,
        budget: Budget | None = None,
        executor: Executor | None = None,
        progress: bool = True,
        stored_only: bool = False,
    ) -> None:
        self.config = config
        self.store = store
        self.nodes = nodes
        self.limit = limit
        self.budget = budget
        self.executor = executor
        self.progress = progress
        self.stored_only = stored_only
        self.steps: dict[Node, Path] = {}
        self._manifests: dict[Node, Mapping[str, Any]] = {}
        self._cache: dict[tuple[str, str], Any] = {}
        self._failures: dict[Node, str] = {}
        self._empty: dict[Node, str] = {}
        self._unranked: dict[Node, int] = {}
        self._unmeasured: dict[tuple[str, str], dict[str, dict[Node, tuple[int, int]]]] = {}

    def close(self) -> None:
        """End the child process of vLLM, if the grid has a generator of kind ``vllm``."""
        if any(entry.kind == "vllm" for entry in self.config.generators.values()):
            close_process()

    def dataset(self, name: str) -> MirageDataset:
        """Return the queries of a dataset, or only the first ``limit`` queries if this is set."""
        whole = self.nodes.dataset(name)
        return whole if self.limit is None else whole[: self.limit]

    # Results of steps ----------------------------------------------------------------------------

    def corpus(self, name: str) -> Corpus:
        """Return a corpus; if it is not in the store, it is built there first."""
        entry = self.config.corpora[name]

        def passages() -> Iterable[Passage]:
            if entry.of:
                return (with_prefix(part, p) for part in entry.of for p in self.corpus(part))
            if entry.dataset is None:
                return entry.passages()
            all_passages = (
                p for query in self.nodes.dataset(entry.dataset) for p in query.passages
            )
            # Several queries may have the same passage.
            return {passage.id: passage for passage in all_passages}.values()

        def with_prefix(part: str, passage: Passage) -> Passage:
            document = None if passage.document is None else f"{part}/{passage.document}"
            return passage.model_copy(update={"id": f"{part}/{passage.id}", "document": document})

        def fill(folder: Path) -> dict[str, int]:
            size = len(Corpus.build(passages(), folder, language=entry.language))
            return {"items": size, "total": size}

        node = self.nodes.corpus(name)
        folder = self._step(node, DATA, fill)
        corpus: Corpus = self._get_or_create("corpus", name, lambda: Corpus.open(folder))
        return corpus

    def ranking(self, cell: Settings) -> RetrievalRun:
        """Return the final ranking of a cell: the reranked one if the cell has a reranker."""
        retrieved = self._retrieve(cell)
        if cell["reranker"] == NONE:
            return retrieved
        node = self.nodes.rank(cell)
        depth = int(node.settings["k"])

        def rerank(queries: Sequence[Query]) -> Iterable[RankingRow]:
            reranker: Any = self._component("reranker", cell["reranker"])
            corpus = self.corpus(cell["corpus"])
            is_cross_encoder = isinstance(reranker, CrossEncoderReranker)
            options = {"executor": self.executor} if is_cross_encoder else {}
            run = reranker.rerank(retrieved, corpus, queries, depth, **options)
            return _ranking_rows(run, getattr(reranker, "failures", {}))

        return self._rows_to_run(node, cell, rerank)

    def queries_with_passages(self, cell: Settings) -> MirageDataset:
        """Return the queries of a cell with the passages to show to its generator."""
        dataset = self.dataset(cell["dataset"])
        if cell["retriever"] == NONE:
            return Pipeline(None).show(dataset)
        unprocessed = self._unprocessed(cell)
        if cell["processor"] == NONE:
            return unprocessed

        def process(queries: Sequence[Query]) -> Iterable[PassagesRow]:
            processor: Any = self._component("processor", cell["processor"])
            for query in queries:
                # A processor must not see answers or qrels.
                passages = processor.process(query.without_gold(), unprocessed[query.id].passages)
                yield PassagesRow(query_id=query.id, passages=tuple(passages))

        rows = self._rows(self.nodes.process(cell), PASSAGES, PassagesRow, dataset, process)
        return MirageDataset(
            (query.model_copy(update={"passages": rows[query.id].passages}) for query in dataset),
            name=dataset.name,
            retrieved=True,
        )

    def _unprocessed(self, cell: Settings) -> MirageDataset:
        """Return a cell's queries with the passages that the context processor gets."""
        show_k = min(int(cell["show_k"]), int(cell["retrieve_k"]))
        retriever = RunRetriever(self.ranking(cell), self.corpus(cell["corpus"]))
        pipeline = Pipeline(retriever, retrieve_k=show_k, show_k=show_k)
        return pipeline.show(self.dataset(cell["dataset"]), retriever.run)

    def responses(self, cell: Settings) -> Run:
        dataset = self.dataset(cell["dataset"])
        path, _ = self._generate(cell)
        whole = Run.load(path, language=dataset.language, model=cell["generator"])
        return _restrict_run(whole, dataset)

    def _generate(self, cell: Settings) -> tuple[Path, Mapping[str, Any]]:
        """Return the file with a cell's responses, and the manifest of the generation step.

        Responses that are not in the store are generated first.
        """
        node = self.nodes.generate(cell)
        entry: Any = self.config.generators[cell["generator"]]

        def answer(path: Path) -> dict[str, Any]:
            queries = self.queries_with_passages(cell)
            generator: Any = self._generator(cell)
            usage = replace(generator.usage) if entry.kind in _LOCAL else None
            answered = _answered_ids(path)
            start = time.monotonic()
            with self._recording_calls(node, path) as calls:
                # `respond` hides the gold answers from the generator, but the oracle needs them.
                if entry.kind == "oracle-answer":
                    run = generator.run(queries, out=path, progress=self.progress)
                else:
                    run = respond(
                        generator,
                        queries,
                        generator.name,
                        out=path,
                        executor=self.executor,
                        progress=self.progress,
                    )
                if usage is not None and self.executor is None:
                    new = [response for response in run if response.query_id not in answered]
                    seconds = time.monotonic() - start
                    calls |= _local_calls(new, seconds, usage, generator.usage)
            failed = [response.query_id for response in run.failed]
            again = len(failed) if entry.RETRIES else 0
            work: dict[str, Any] = {}
            given = {query.id: len(query.passages) for query in queries}
            shown = [
                (r.query_id, r.shown) for r in run if r.shown is not None and r.text is not None
            ]
            truncated = sum(len(ids) < given[id_] for id_, ids in shown)
            # If the grid builds no prompt, `shown` contains all passages that the system was given.
            if entry.has_prompt or truncated:
                work |= {"prompts": len(shown), "truncated": truncated}
            return {
                "items": len(run), "total": len(run), "again": again, "failed": failed, "work": work
            }  # fmt: skip

        path = self._step(node, RESPONSES, answer, len(self.dataset(cell["dataset"])))
        if node not in self._manifests:
            self._manifests[node] = self.store.manifest(node) or {}
        return path, self._manifests[node]

    @contextmanager
    def _recording_calls(self, node: Node, path: Path) -> Iterator[dict[str, Call]]:
        """Record the time and tokens of each answer in a file beside the responses.

        Args:
            node: The step that generates the responses.
            path: The path of the file of responses.

        Yields:
            The calls by query id, with those of earlier runs; calls may be added.
        """
        file, old = path.with_name(CALLS), self.store.place(node) / CALLS
        if old.exists() and not file.exists():
            with writing(file):
                shutil.copy2(old, file)
        with Journal(file, Call) as journal:
            calls = {call.query_id: call for call in journal.earlier}

            def record(call: Call) -> None:
                journal.add(call)
                calls[call.query_id] = call

            with recording_calls(record):
                yield calls
            journal.finish(calls.values())

    def cell(self, cell: Settings) -> Cell:
        """Run the steps of a cell, and return the cell with its scores.

        If a step fails, ``failure`` contains the step and the reason. Metrics that do not need this
        step are still computed.
        """
        dataset = self.dataset(cell["dataset"])
        ids, clusters = dataset.query_ids, clusters_of(dataset)
        parts: list[Cell] = []
        failures: dict[str, None] = {}
        for measure in self._measurements(cell):
            try:
                values, bounds, failed, problems = measure()
            except MirageError as error:
                failures[str(error)] = None
                continue
            failures |= dict.fromkeys(problems)
            if problems:  # a metric without any value has failed
                values = {name: x for name, x in values.items() if not np.isnan(x).all()}
            parts.append(
                Cell.measured(cell, ids, values, failed=failed, bounds=bounds, clusters=clusters)
            )
        scores = {name: score for part in parts for name, score in part.scores.items()}
        if cell["generator"] != NONE and not RESOURCES.keys().isdisjoint(self.config.metrics):
            try:
                scores |= self._resources(cell)
            except MirageError as error:
                failures[str(error)] = None
        failures |= dict.fromkeys(self._unsent(cell))
        columns = {name: column for part in parts for name, column in part.values.items()}
        measured = [name for name in self.config.metrics if name in scores]
        return Cell(
            cell,
            {name: scores[name] for name in measured},
            _join_failures(failures),
            query_ids=ids,
            values={name: columns[name] for name in measured if name in columns},
            clusters=clusters,
            bounds={name: ends for part in parts for name, ends in part.bounds.items()},
        )

    def _resources(self, cell: Settings) -> dict[str, Score]:
        """Return the resource use of a cell: time, tokens, cost and truncated prompts.

        Time, tokens and cost are means over the answered queries for which they are known.
        ``truncated`` is the share of prompts that lack a passage because the context is full.
        Values that were not recorded are left out of the result.
        """
        path, manifest = self._generate(cell)
        entry: Any = self.config.generators[cell["generator"]]
        failed = set(manifest["failed"])
        query_ids = self.dataset(cell["dataset"]).query_ids
        answered = [id_ for id_ in query_ids if id_ not in failed]
        is_old = not path.with_name(CALLS).exists()
        recorded = _calls(path)
        if missing := set(answered).difference(recorded):
            recorded |= self._cached_calls(cell, missing)
        calls = [recorded.get(id_) for id_ in answered]
        price = getattr(entry, "price", None)
        # Manifests of versions before 0.2 do not have this field.
        work: Mapping[str, Any] = manifest.get("work") or {}
        scores = {}
        for name, amount in _AMOUNTS.items():
            known = (amount(call, price) for call in calls if call is not None)
            values = [value for value in known if value is not None]
            if values:
                counts = len(values), len(query_ids) - len(answered), len(calls) - len(values)
                scores[name] = Score(sum(values) / len(values), NO_INTERVAL, *counts)
            if name in self.config.metrics and name in entry.MEASURED:
                gaps = (_unmeasured_reason(call, name, price, entry.kind, is_old) for call in calls)
                self._note_unmeasured(cell, name, gaps)
        if number := work.get("prompts"):
            scores["truncated"] = Score(work["truncated"] / number, n=number)
        return scores

    def _cached_calls(self, cell: Settings, query_ids: Collection[str]) -> dict[str, Call]:
        """Return the calls that answered some queries of a cell, from the cache of the LLM.

        Earlier versions recorded no single calls, and workers of an executor do not. Responses that
        are not in the cache are left out, and so are all of them if the LLM cannot be set up.
        """
        if self.config.generators[cell["generator"]].kind != "openai":
            return {}
        try:
            generator: OpenAIGenerator = self._generator(cell)
        except MirageError:  # for example, its API key is not set
            return {}
        if generator.llm.cache is None:
            return {}
        queries = self.queries_with_passages(cell)
        make_prompt = prompt_for(queries, generator.prompt)
        calls = {}
        for response in self.responses(cell):
            if response.query_id in query_ids and response.text is not None:
                messages = make_prompt(queries[response.query_id].without_gold()).messages
                seconds, tokens = cached_amounts(generator.llm, messages, response.text)
                if seconds is not None or tokens is not None:
                    calls[response.query_id] = Call(
                        query_id=response.query_id,
                        seconds=seconds,
                        prompt_tokens=tokens and tokens[0],
                        completion_tokens=tokens and tokens[1],
                    )
        return calls

    def _note_unmeasured(self, cell: Settings, metric: str, reasons: Iterable[str]) -> None:
        """Count the answers of a cell without a value of a metric of resource use, by reason.

        ``reasons`` has one text per answer, which is empty if the answer has a value.
        """
        counts = Counter(reasons)
        for reason, number in counts.items():
            if reason:
                key = (cell["generator"], reason)
                by_node = self._unmeasured.setdefault(key, {}).setdefault(metric, {})
                by_node[self.nodes.generate(cell)] = (number, counts.total())

    def resource_notes(self) -> Iterator[str]:
        """Yield a note for each generator without the time, tokens or cost of some answers."""
        for (generator, reason), by_metric in self._unmeasured.items():
            counts = next(iter(by_metric.values())).values()
            missing, total = (sum(column) for column in zip(*counts, strict=True))
            number = f"{missing} of {total}" if missing < total else f"all {total}"
            yield f"no {', '.join(by_metric)} for {number} answers of {generator}: {reason}"

    def _unsent(self, cell: Settings) -> Iterator[str]:
        """Yield the steps of a cell that sent no request for some queries, as the budget was spent.

        Only steps whose results are known already are read.
        """
        if cell["retriever"] != NONE and (node := self.nodes.rank(cell)) in self._unranked:
            yield f"{node}: {self._unranked[node]} queries were not reranked, {_LARGER_BUDGET}"
        if cell["generator"] == NONE or (node := self.nodes.generate(cell)) not in self.steps:
            return
        if self._generate(cell)[1]["failed"]:
            run = self.responses(cell)
            unsent = sum(bool(_UNSENT.search(response.error or "")) for response in run.failed)
            if unsent:
                yield f"{node}: {unsent} of {len(run)} queries were not answered, {_LARGER_BUDGET}"

    def _measurements(self, cell: Settings) -> Iterator[Callable[[], _Measurement]]:
        """Yield functions that compute the metrics of a cell, one per group of related metrics.

        If the dataset lacks the data for a metric, the metric has a separate function, which only
        raises an error. No LLM is called for such a metric.
        """
        unmeasurable = self._get_or_create(
            "unmeasurable",
            cell["dataset"],
            lambda: self.nodes.unmeasurable(self.dataset(cell["dataset"])),
        )
        groups: list[tuple[Callable[[Settings, Sequence[str]], _Measurement], list[str]]] = []
        if cell["retriever"] != NONE:
            groups.append((self._measure_retrieval, self.nodes.measures))
        if cell["processor"] != NONE and COMPRESSION in self.config.metrics:
            groups.append((self._measure_compression, [COMPRESSION]))
        if cell["generator"] != NONE:
            groups += [(self._measure_responses, group) for group in self.nodes.groups]
        for measure, names in groups:
            if measurable := [name for name in names if name not in unmeasurable]:
                yield partial(measure, cell, measurable)
            for name in names:
                if name in unmeasurable:
                    yield partial(_raise_setting_error, unmeasurable[name])

    def _measure_retrieval(self, cell: Settings, names: Sequence[str]) -> _Measurement:
        values = self._measure(cell, names)
        # If a measure has a value above 1, such as a count, its upper bound is unknown.
        bounds = {n: (0.0, 1.0) for n, column in values.items() if not (column > 1).any()}
        return _Measurement(values, bounds)

    def _measure_compression(self, cell: Settings, names: Sequence[str]) -> _Measurement:
        def measure(queries: Sequence[Query]) -> Iterable[ScoreRow]:
            before, after = self._unprocessed(cell), self.queries_with_passages(cell)
            for query in queries:
                share = compression(before[query.id].passages, after[query.id].passages)
                values = {} if math.isnan(share) else {COMPRESSION: share}
                yield ScoreRow(query_id=query.id, values=values)

        columns, _ = self._columns(self.nodes.compression(cell), cell, names, measure)
        # A user's processor may make passages longer, so there is no lower bound.
        return _Measurement(columns, {COMPRESSION: (-math.inf, 1.0)})

    def _measure_responses(self, cell: Settings, group: Sequence[str]) -> _Measurement:
        values, problems = self._score(cell, group)
        bounds = {name: (facts(name).low, facts(name).high) for name in group}
        return _Measurement(values, bounds, self._generate(cell)[1]["failed"], problems)

    def shortfalls(self) -> Iterator[tuple[Node, str]]:
        """Yield the steps that had problems with some queries, each with a note for users.

        These are retrieval steps in which the retriever ``oracle`` found no passage for a query,
        and reranking steps that failed for a query.
        """
        yield from self._empty.items()
        for node in self.steps:
            again = (self.store.manifest(node) or {}).get("again") if node.step == "rerank" else 0
            if again:
                yield node, f"reranking failed for {again} queries, which keep their original order"

    # Retrieval -----------------------------------------------------------------------------------

    def _retrieve(self, cell: Settings, name: str = "", depth: int = 0) -> RetrievalRun:
        node = self.nodes.retrieve(cell, name, depth)
        name = name or cell["retriever"]
        k = int(node.settings["k"])
        entry: Any = None if name == ORACLE else self.config.retrievers[name].at(cell)

        def retrieve(queries: Sequence[Query]) -> Iterable[RankingRow]:
            if entry is not None and entry.kind == "rrf":
                first_run, *other_runs = (
                    self._retrieve(cell, part, max(k, entry.depth)) for part in entry.of
                )
                run = first_run.fuse(*other_runs, k=entry.k, name=name).top(k)
                return _ranking_rows(RetrievalRun({q.id: run[q.id] for q in queries}, name))
            retriever = self._retriever(name, cell)
            if entry is None:  # needs all qrels to decide whether they are passage or document ids
                run = retriever.retrieve(self.dataset(cell["dataset"]), k)
                return _ranking_rows(RetrievalRun({q.id: run[q.id] for q in queries}, name))
            return _ranking_rows(retriever.retrieve(queries, k))

        # Process all queries at once for the oracle, so that the qrels are read only once.
        batch = len(self.dataset(cell["dataset"])) if entry is None else BATCH
        run = self._rows_to_run(node, cell, retrieve, batch)
        if entry is None:
            self._note_empty(node, cell, run)
        return run.top(k if depth else int(cell["retrieve_k"]))

    def _note_empty(self, node: Node, cell: Settings, run: RetrievalRun) -> None:
        judged = [query.id for query in self.dataset(cell["dataset"]) if query.relevant]
        empty = [id_ for id_ in judged if not run[id_].passage_ids]
        if empty:
            self._empty[node] = (
                f"{len(empty)} of {len(judged)} queries with qrels have no relevant passage in the "
                f"corpus, such as {empty[0]!r}: they are answered without passages"
            )

    def _retriever(self, name: str, cell: Settings) -> Retriever:
        corpus = self.corpus(cell["corpus"])
        if name == ORACLE:
            return OracleRetriever(corpus)
        entry: Any = self.config.retrievers[name].at(cell)
        if entry.kind == "run":
            return RunRetriever(entry.path, corpus)
        if entry.kind == "own":
            key = f"{name} {cell['corpus']}"
            own: Retriever = self._get_or_create("own", key, lambda: entry.make(corpus=corpus))
            return own

        def open_index() -> Retriever:
            embedder = self._get_or_create("embedder", name, lambda: entry.embedder(self.budget))

            def build(folder: Path) -> Retriever:
                context = {"embedder": embedder, "executor": self.executor}
                retriever: Retriever = entry.build(corpus, folder, **context)
                return retriever

            def fill(folder: Path) -> dict[str, int]:
                build(folder)
                return {"items": len(corpus), "total": len(corpus)}

            return build(self._step(self.nodes.index(name, cell["corpus"]), DATA, fill))

        retriever: Retriever = self._get_or_create("index", f"{name} {cell['corpus']}", open_index)
        if entry.rewriter is None:
            return retriever
        rewriter = self.config.rewriters[entry.rewriter].make(budget=self.budget)
        return RewritingRetriever(retriever, rewriter)

    def _rows_to_run(
        self,
        node: Node,
        cell: Settings,
        work: Callable[[Sequence[Query]], Iterable[RankingRow]],
        batch: int = BATCH,
    ) -> RetrievalRun:
        dataset = self.dataset(cell["dataset"])
        rows = self._rows(node, RANKING, RankingRow, dataset, work, batch=batch)
        if unsent := sum(bool(_UNSENT.search(rows[id_].error)) for id_ in dataset.query_ids):
            self._unranked[node] = unsent
        hits = {
            id_: Hits(rows[id_].passage_ids, np.array(rows[id_].scores, dtype=float))
            for id_ in dataset.query_ids
        }
        return RetrievalRun(hits, node.name)

    # Components ----------------------------------------------------------------------------------

    def _component(self, axis: str, name: str) -> Any:
        """Return the reranker or processor with this name; the first call creates it."""
        if axis == "processor":
            return self._get_or_create(axis, name, self.config.processors[name].make)
        entry = self.config.rerankers[name]
        return self._get_or_create(axis, name, lambda: entry.make(budget=self.budget))

    def _generator(self, cell: Settings) -> Any:
        seed, name = self.config.seed, cell["prompt"]
        prompt = None if name == NONE else self.config.prompts[name].make(seed=seed)
        entry: Any = self.config.generators[cell["generator"]].at(cell)
        return self._get_or_create(
            "generator",
            f"{cell['generator']} {entry!r} {name}",
            lambda: entry.make(prompt=prompt, budget=self.budget, seed=seed),
        )

    def _llm(self, name: str) -> LLM:
        entry: Any = self.config.generators[name]
        llm: LLM = self._get_or_create("llm", name, lambda: entry.llm(self.budget))
        return llm

    # Metrics -------------------------------------------------------------------------------------

    def _measure(self, cell: Settings, metrics: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        dataset = self.dataset(cell["dataset"])

        def measure(queries: Sequence[Query]) -> Iterable[ScoreRow]:
            self._check_level(cell)
            evaluation = evaluate(
                self.ranking(cell),
                self.nodes.grades(cell["dataset"]) or dataset,
                metrics,
                documents=self.config.level == "document",
                query_ids=[query.id for query in queries],
            )
            return _score_rows(evaluation.query_ids, metrics, evaluation.values)

        return self._columns(self.nodes.measure(cell, metrics), cell, metrics, measure)[0]

    def _check_level(self, cell: Settings) -> None:
        """Raise an error if retrieval metrics rank passages, but all qrels are document ids."""
        if self.config.level == "document":
            return
        dataset, corpus = self.dataset(cell["dataset"]), self.corpus(cell["corpus"])
        relevant = relevant_passages(dataset, corpus)
        if not any(id_ in corpus for query in dataset for id_ in query.relevant):
            passage = next(ids[0] for ids in relevant.values() if ids)
            raise SettingError(
                f"the qrels of {cell['dataset']} name documents, but the corpus {cell['corpus']} "
                f"has passages, such as {passage!r}; set 'level: document' in the grid file"
            )

    def _score(
        self, cell: Settings, names: Sequence[str]
    ) -> tuple[dict[str, NDArray[np.float64]], list[str]]:
        """Compute the named features of a cell's responses.

        All of these features must need the same models.

        Returns:
            For each feature, an array with the value of each query; and the reasons why many
            values are missing.
        """
        _, manifest = self._generate(cell)
        node = self.nodes.score(cell, names, manifest["files"][RESPONSES]["sha256"])

        def score(queries: Sequence[Query]) -> Iterable[ScoreRow]:
            suite = FeatureSuite([self._feature(name) for name in names])
            with_passages = self.queries_with_passages(cell)
            pending = MirageDataset(
                [with_passages[q.id] for q in queries], name=with_passages.name, retrieved=True
            )
            run = _restrict_run(self.responses(cell), pending)
            table = suite.score(pending, run, executor=self.executor, progress=self.progress)
            # The suite adds settings to names: for example, llm_eval becomes llm_eval_graded.
            name_of = dict(zip(suite.names, names, strict=True))
            reasons = {(id_, name_of[name]): why for (id_, name), why in table.reasons.items()}
            again = {query_id for query_id, _ in table.retry}
            return _score_rows(table.query_ids, names, table.values, reasons, again)

        # With an LLM, write the values batch by batch, so that an interrupted run keeps them.
        batch = len(self.dataset(cell["dataset"])) if node.entry is None else BATCH
        return self._columns(node, cell, names, score, batch)

    def _feature(self, name: str) -> Feature:
        if name == "llm_eval":
            return self._llm_eval()
        entry = DEFINITIONS[canonical_name(name).partition("@")[0]]
        if not entry.facts.models:
            return feature(name)
        result: Feature = entry.function(self._model(entry.facts.models[0], name))
        return result

    def _llm_eval(self) -> RatedFeature:
        judge = self.config.llm_eval
        if judge is None:
            raise SettingError(
                "metric llm_eval needs a judge; in the section llm_eval, set 'judge' to the name "
                "of a generator"
            )
        return llm_eval(
            self._llm(judge.judge), scale=judge.scale, method=judge.method, invalid=judge.invalid
        )

    def _model(self, need: str, name: str) -> Any:
        """Return the model that a feature needs.

        Args:
            need: The kind of model: ``"LLM"``, ``"NLI model"``, ``"reranker"`` or ``"embedder"``.
            name: The name of the feature, for error messages.
        """
        from mirage import neural

        models = self.config.models
        match need:
            case "LLM" if models.llm is not None:
                return self._llm(models.llm)
            case "NLI model":
                return self._get_or_create("nli", "", lambda: neural.NLI(models.nli))
            case "reranker":
                return self._get_or_create("pairs", "", lambda: neural.Reranker(models.reranker))
            case "embedder" if models.embedder is not None:
                model = models.embedder
                return self._get_or_create("embedder", "", lambda: neural.embedder_of(model))
        model_name, _ = MODELS[need]  # type: ignore[index]
        raise FeatureError(
            f"metric {name!r} needs a model ({model_name}); set it in the section 'models' of the "
            "grid file"
        )

    def _columns(
        self,
        node: Node,
        cell: Settings,
        metrics: Sequence[str],
        work: Callable[[Sequence[Query]], Iterable[ScoreRow]],
        batch: int | None = None,
    ) -> tuple[dict[str, NDArray[np.float64]], list[str]]:
        dataset = self.dataset(cell["dataset"])
        by_query = self._rows(node, SCORES, ScoreRow, dataset, work, batch=batch or len(dataset))
        rows = [by_query[id_] for id_ in dataset.query_ids]
        columns = {
            name: np.array([row.values.get(name, np.nan) for row in rows]) for name in metrics
        }
        return columns, [f"{node}: {problem}" for problem in _problems(rows, metrics)]

    # Steps ---------------------------------------------------------------------------------------

    def _rows(
        self,
        node: Node,
        name: str,
        record: type[Any],
        dataset: MirageDataset,
        work: Callable[[Sequence[Query]], Iterable[Any]],
        *,
        batch: int = BATCH,
    ) -> dict[str, Any]:
        """Return the row that a step computes for each query of a dataset, by query id.

        Rows that are in the store and have no error are reused.

        Args:
            node: The step.
            name: The name of the file in which rows are stored.
            record: The class of the rows.
            dataset: The queries.
            work: A function that takes some queries and yields their rows.
            batch: The number of queries that ``work`` gets at a time. Each row is written to disk
                as soon as ``work`` yields it.
        """

        def rows_of(path: Path) -> dict[str, Any]:
            rows = (validated(record, row, where) for where, row in read_rows(path))
            return {row.query_id: row for row in rows}

        def fill(path: Path) -> dict[str, int]:
            with Journal(path, record) as journal:
                # Rows with an error are computed again.
                rows = {row.query_id: row for row in journal.earlier if not row.error}
                pending = [query for query in dataset if query.id not in rows]
                for start in range(0, len(pending), batch):
                    for row in work(pending[start : start + batch]):
                        journal.add(row)
                        rows[row.query_id] = row
                # Put rows in the order of the dataset, even if earlier runs computed some of them.
                dataset_rows = [rows.pop(id_) for id_ in dataset.query_ids]
                journal.finish([*dataset_rows, *rows.values()])
            again = sum(bool(row.error) for row in (*dataset_rows, *rows.values()))
            return {"items": len(pending), "total": len(dataset_rows) + len(rows), "again": again}

        return rows_of(self._step(node, name, fill, len(dataset)))

    def _step(
        self,
        node: Node,
        name: str,
        fill: Callable[[Path], Mapping[str, Any]],
        size: int = 0,
    ) -> Path:
        """Return the file or folder with the result of a step; if it is missing, the step runs.

        Each step is tried at most once per run, even if it fails and several cells need it.

        Args:
            node: The step.
            name: The name of the file or folder.
            fill: A function that writes the file or folder; see :meth:`ResultStore.make`.
            size: The minimum number of items, such as queries, in a complete result.
        """
        if node in self._failures:
            raise MirageError(self._failures[node])
        if node not in self.steps:
            try:
                self.steps[node] = self._make_or_find(node, name, fill, size)
            except Exception as error:
                is_expected = isinstance(error, MirageError)
                reason = str(error) if is_expected else f"{type(error).__name__}: {error}"
                # If a step failed because of one of its inputs, report the failure of the input.
                is_repeated = any(reason.startswith(step) for step in self._failures.values())
                self._failures[node] = reason if is_repeated else f"{node}: {reason}"
                raise MirageError(self._failures[node]) from error
        return self.steps[node]

    def _make_or_find(
        self,
        node: Node,
        name: str,
        fill: Callable[[Path], Mapping[str, Any]],
        size: int,
    ) -> Path:
        if not self.stored_only:
            return self.store.make(node, name, fill, size)
        path = self.store.find(node, name, size)
        if path is None:
            raise MirageError(NOT_RUN)
        return path

    def _get_or_create(self, kind: str, name: str, make: Callable[[], Any]) -> Any:
        if (kind, name) not in self._cache:
            self._cache[kind, name] = make()
        return self._cache[kind, name]


def _problems(rows: Sequence[ScoreRow], metrics: Sequence[str]) -> Iterator[str]:
    """Yield the reasons why many values are missing, because calls to a judge failed."""
    if unsent := sum(bool(_UNSENT.search(row.error)) for row in rows):
        yield f"{unsent} of {len(rows)} answers were not judged, {_LARGER_BUDGET}"
        return
    for name in metrics:
        reasons = [row.reasons[name] for row in rows if row.error and name in row.reasons]
        # Some answers, such as empty ones, have a value although no call succeeded.
        if len(reasons) > sum(name in row.values for row in rows):
            yield f"{name} failed for {len(reasons)} of {len(rows)} answers; first: {reasons[0]}"


def _raise_setting_error(reason: str) -> _Measurement:
    raise SettingError(reason)


def _local_calls(
    responses: Sequence[Response], seconds: float, before: Usage, after: Usage
) -> dict[str, Call]:
    """Return the mean time and tokens of the queries that a local model has just answered.

    Args:
        responses: The new responses.
        seconds: The time of all of them together.
        before: The usage of the generator before it answered them.
        after: Its usage afterwards.
    """
    number = after.calls - before.calls
    if not number:
        return {}
    mean = Call(
        query_id="",
        seconds=round(seconds / len(responses), 6),
        prompt_tokens=(after.prompt_tokens - before.prompt_tokens) / number,
        completion_tokens=(after.completion_tokens - before.completion_tokens) / number,
    )
    ids = (response.query_id for response in responses if response.text is not None)
    return {id_: mean.model_copy(update={"query_id": id_}) for id_ in ids}


_AMOUNTS: Mapping[str, Callable[[Call, tuple[float, float] | None], float | None]] = {
    "seconds": lambda call, _: call.seconds,
    "tokens": lambda call, _: _cost(call, (1e6, 1e6)),
    "cost": lambda call, price: None if price is None else _cost(call, price),
}
"""Functions of a call and the price of a million tokens, by metric."""


def _cost(call: Call, price: tuple[float, float]) -> float | None:
    if call.prompt_tokens is None or call.completion_tokens is None:
        return None
    return (call.prompt_tokens * price[0] + call.completion_tokens * price[1]) / 1e6


def _unmeasured_reason(
    call: Call | None, metric: str, price: object, kind: str, is_old: bool
) -> str:
    """Return why an answer has no value of a metric of resource use, or "" if it has one.

    Args:
        call: The call that was recorded for the answer; ``None`` if there is none.
        metric: The metric: seconds, tokens or cost.
        price: The price in the entry of the generator, if there is one.
        kind: The kind of the generator.
        is_old: Whether an earlier version generated the answers.
    """
    if metric == "cost" and price is None:
        return "set 'price' in its entry"
    if call is None and is_old:
        return "an earlier version did not record single answers"
    if call is None and kind == "own":
        return "a generator with its own method 'run' is not measured"
    if call is None:
        return "calls of an executor's workers are not measured"
    if metric == "seconds":
        return "" if call.seconds is not None else "an earlier version did not record times"
    return "" if call.prompt_tokens is not None else "its server does not report token counts"


def _calls(responses: Path) -> dict[str, Call]:
    """Return the calls that were recorded beside a file of responses, by query id.

    Results of earlier versions have no such file.
    """
    path = responses.with_name(CALLS)
    if not path.exists():
        return {}
    rows = (validated(Call, row, where) for where, row in read_rows(path))
    return {row.query_id: row for row in rows}


def _answered_ids(path: Path) -> set[str]:
    """Return the ids of the queries that have an answer in a file of responses.

    The file may come from an interrupted run, or not exist.
    """
    if not path.exists():
        return set()
    return {str(row.get("query_id")) for _, row in read_rows(path) if row.get("text") is not None}


def _join_failures(reasons: Collection[str]) -> str:
    """Join the reasons why metrics of a cell are missing, with "not run yet" at most once."""
    not_run = [reason for reason in reasons if reason.endswith(NOT_RUN)]
    return "; ".join(reason for reason in reasons if reason not in not_run[1:])


def _restrict_run(run: Run, dataset: MirageDataset) -> Run:
    """Return the responses of a run to the queries of a dataset."""
    ids = set(dataset.query_ids)
    responses = tuple(response for response in run if response.query_id in ids)
    return run.model_copy(update={"responses": responses})


def _ranking_rows(run: RetrievalRun, failures: Mapping[str, str] = {}) -> Iterable[RankingRow]:
    for query_id, (ids, scores) in run.items():
        error = failures.get(query_id, "")
        yield RankingRow(
            query_id=query_id, passage_ids=ids, scores=tuple(scores.tolist()), error=error
        )


def _score_rows(
    query_ids: Sequence[str],
    metrics: Sequence[str],
    values: NDArray[np.float64],
    reasons: Mapping[tuple[str, str], str] = {},
    again: Iterable[str] = (),
) -> Iterable[ScoreRow]:
    retried = set(again)
    for query_id, row in zip(query_ids, values.tolist(), strict=True):
        measured = {name: x for name, x in zip(metrics, row, strict=True) if x == x}
        missing = {name: reasons[query_id, name] for name in metrics if (query_id, name) in reasons}
        error = "; ".join(missing.values()) if query_id in retried else ""
        yield ScoreRow(query_id=query_id, values=measured, reasons=missing, error=error)
