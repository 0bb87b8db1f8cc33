"""The steps of a grid, done: each once, kept in a store, and gone on from where it was stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from mirage._base.files import read_rows, validated
from mirage._base.journal import Journal
from mirage.benchmarking._nodes import Nodes, Settings
from mirage.benchmarking.cells import Cell
from mirage.benchmarking.config import NONE, ORACLE, GridConfig
from mirage.benchmarking.store import RESPONSES, Node, ResultStore
from mirage.corpus import Corpus
from mirage.dataset import MirageDataset, clusters_of, read_run
from mirage.errors import FeatureError, MirageError, SettingError
from mirage.features import FeatureSuite, LLMEval, llm_eval
from mirage.features.base import MODELS
from mirage.features.registry import DEFINITIONS, canonical_name, facts, feature
from mirage.generation import respond
from mirage.models import Passage, Query, Run
from mirage.pipeline import Pipeline
from mirage.retrieval import (
    CrossEncoderReranker,
    OracleRetriever,
    RetrievalRun,
    Retriever,
    RewritingRetriever,
    RunRetriever,
    evaluate,
)
from mirage.retrieval.run import Hits
from mirage.retrieval.simple import relevant_passages

if TYPE_CHECKING:
    from mirage.executors import Executor
    from mirage.features.base import Feature
    from mirage.llm import LLM, Budget

__all__ = ["Runner"]

BATCH = 64
"""Queries that are retrieved for, reranked or processed before they are written."""

NOT_RUN = "not run yet"

DATA = "data"
RANKING = "ranking.jsonl"
PASSAGES = "passages.jsonl"
SCORES = "scores.jsonl"


class Ranked(BaseModel):
    """What was found for one query, best first; ``error`` says why a reranker left it as it was."""

    query_id: str
    passage_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    error: str = ""


class Shown(BaseModel):
    """What a processor made of the passages of one query."""

    query_id: str
    passages: tuple[Passage, ...] = ()
    error: str = ""


class Scored(BaseModel):
    """The metrics of one query; ``reasons`` say why one has no number."""

    query_id: str
    values: dict[str, float] = Field(default_factory=dict)
    reasons: dict[str, str] = Field(default_factory=dict)
    error: str = ""


_Measurement = tuple[
    dict[str, NDArray[np.float64]], Mapping[str, tuple[float, float]], Sequence[str]
]
"""Values by metric, bounds by metric, and the ids of queries without a response."""


class Runner:
    """Does the steps of cells, or takes them from the store.

    Args:
        config: the grid.
        store: where steps are kept.
        nodes: which steps there are.
        limit: queries of each dataset, the first ones; all by default.
        budget: what LLMs may spend together.
        executor: whose workers encode, rerank, answer and compute features.
        progress: show bars.
        done: take what is in the store alone; what is not there fails.
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
        done: bool = False,
    ) -> None:
        self.config = config
        self.store = store
        self.nodes = nodes
        self.limit = limit
        self.budget = budget
        self.executor = executor
        self.progress = progress
        self.done = done
        self.steps: dict[Node, Path] = {}
        self._manifests: dict[Node, Mapping[str, Any]] = {}
        self._made: dict[tuple[str, str], Any] = {}
        self._failures: dict[Node, str] = {}
        self._empty: dict[Node, str] = {}

    def dataset(self, name: str) -> MirageDataset:
        """The queries of a dataset, within the limit."""
        whole = self.nodes.dataset(name)
        return whole if self.limit is None else whole[: self.limit]

    # What steps give -----------------------------------------------------------------------------

    def corpus(self, name: str) -> Corpus:
        """A corpus, written into the store or opened there."""
        entry = self.config.corpora[name]

        def passages() -> Iterable[Passage]:
            if entry.dataset is None:
                return entry.passages()
            shown = (p for query in self.nodes.dataset(entry.dataset) for p in query.passages)
            return {passage.id: passage for passage in shown}.values()

        def fill(folder: Path) -> dict[str, int]:
            size = len(Corpus.build(passages(), folder, language=entry.language))
            return {"items": size, "total": size}

        node = self.nodes.corpus(name)
        folder = self._step(node, DATA, fill)
        corpus: Corpus = self._once("corpus", name, lambda: Corpus.open(folder))
        return corpus

    def ranking(self, cell: Settings) -> RetrievalRun:
        """What a cell retrieves, reranked where it has a reranker."""
        retrieved = self._retrieved(cell)
        if cell["reranker"] == NONE:
            return retrieved
        node = self.nodes.rank(cell)
        depth = int(node.settings["k"])

        def rerank(queries: Sequence[Query]) -> Iterable[Ranked]:
            reranker: Any = self._part("reranker", cell["reranker"])
            corpus = self.corpus(cell["corpus"])
            pairs = isinstance(reranker, CrossEncoderReranker)
            elsewhere = {"executor": self.executor} if pairs else {}
            run = reranker.rerank(retrieved, corpus, queries, depth, **elsewhere)
            return _ranked(run, getattr(reranker, "failures", {}))

        return self._run(node, cell, rerank)

    def shown(self, cell: Settings) -> MirageDataset:
        """The queries of a cell, showing what was found for them."""
        dataset = self.dataset(cell["dataset"])
        if cell["retriever"] == NONE:
            return Pipeline(None).show(dataset)
        show_k = min(int(cell["show_k"]), int(cell["retrieve_k"]))
        retriever = RunRetriever(self.ranking(cell), self.corpus(cell["corpus"]))
        plain = Pipeline(retriever, retrieve_k=show_k, show_k=show_k).show(dataset, retriever.run)
        if cell["processor"] == NONE:
            return plain

        def process(queries: Sequence[Query]) -> Iterable[Shown]:
            processor: Any = self._part("processor", cell["processor"])
            for query in queries:
                passages = processor.process(query.without_gold(), plain[query.id].passages)
                yield Shown(query_id=query.id, passages=tuple(passages))

        rows = self._rows(self.nodes.process(cell), PASSAGES, Shown, dataset, process)
        return MirageDataset(
            (query.model_copy(update={"passages": rows[query.id].passages}) for query in dataset),
            name=dataset.name,
            retrieved=True,
        )

    def responses(self, cell: Settings) -> Run:
        """Return the responses of a cell."""
        dataset = self.dataset(cell["dataset"])
        path, _ = self._generated(cell)
        whole = read_run(path, language=dataset.language, model=cell["generator"])
        return _part_of(whole, dataset)

    def _generated(self, cell: Settings) -> tuple[Path, Mapping[str, Any]]:
        """The file of the responses of a cell, and its manifest."""
        node = self.nodes.generate(cell)
        entry: Any = self.config.generators[cell["generator"]]

        def answer(path: Path) -> dict[str, Any]:
            shown = self.shown(cell)
            generator: Any = self._generator(cell)
            # The oracle looks at the gold, which `respond` takes away from whatever is examined.
            if entry.kind == "oracle-answer":
                run = generator.run(shown, out=path, progress=self.progress)
            else:
                run = respond(
                    generator,
                    shown,
                    generator.name,
                    out=path,
                    executor=self.executor,
                    progress=self.progress,
                )
            failed = [response.query_id for response in run.failed]
            again = len(failed) if entry.RETRIES else 0
            return {"items": len(run), "total": len(run), "again": again, "failed": failed}

        path = self._step(node, RESPONSES, answer, len(self.dataset(cell["dataset"])))
        if node not in self._manifests:
            self._manifests[node] = self.store.manifest(node) or {}
        return path, self._manifests[node]

    def cell(self, cell: Settings) -> Cell:
        """Measure a cell; a step that fails is in its ``failure``, and other metrics stay."""
        dataset = self.dataset(cell["dataset"])
        ids, clusters = dataset.query_ids, clusters_of(dataset)
        parts: list[Cell] = []
        failures: dict[str, None] = {}
        for measure in self._measurements(cell):
            try:
                values, bounds, failed = measure()
            except MirageError as error:
                failures[str(error)] = None
                continue
            parts.append(
                Cell.measured(cell, ids, values, failed=failed, bounds=bounds, clusters=clusters)
            )
        scores = {name: score for part in parts for name, score in part.scores.items()}
        columns = {name: column for part in parts for name, column in part.values.items()}
        measured = [name for name in self.config.metrics if name in scores]
        return Cell(
            cell,
            {name: scores[name] for name in measured},
            _failure(failures),
            query_ids=ids,
            values={name: columns[name] for name in measured},
            clusters=clusters,
        )

    def _measurements(self, cell: Settings) -> Iterator[Callable[[], _Measurement]]:
        """Yield a function for each group of metrics that a cell has, to be computed alone.

        Metrics that no query can have are left out, so that nobody is paid for them.
        """
        without = self._once(
            "unmeasurable",
            cell["dataset"],
            lambda: self.nodes.unmeasurable(self.dataset(cell["dataset"])),
        )
        groups: list[tuple[Callable[[Settings, Sequence[str]], _Measurement], list[str]]] = []
        if cell["retriever"] != NONE:
            groups.append((self._measure_retrieval, self.nodes.measures))
        if cell["generator"] != NONE:
            groups += [(self._measure_responses, group) for group in self.nodes.groups]
        for measure, names in groups:
            if possible := [name for name in names if name not in without]:
                yield partial(measure, cell, possible)
            for name in names:
                if name in without:
                    yield partial(_refuse, without[name])

    def _measure_retrieval(self, cell: Settings, names: Sequence[str]) -> _Measurement:
        values = self._measured(cell, names)
        return values, {n: (0.0, 1.0) for n, column in values.items() if not (column > 1).any()}, ()

    def _measure_responses(self, cell: Settings, group: Sequence[str]) -> _Measurement:
        values = self._scored(cell, group)
        bounds = {name: (facts(name).low, facts(name).high) for name in group}
        return values, bounds, self._generated(cell)[1]["failed"]

    def shortfalls(self) -> Iterator[tuple[Node, str]]:
        """Yield the steps that found or reranked less than they should, and by how much."""
        yield from self._empty.items()
        for node in self.steps:
            again = (self.store.manifest(node) or {}).get("again") if node.step == "rerank" else 0
            if again:
                yield node, f"{again} queries keep the order that they had"

    # Retrieval -----------------------------------------------------------------------------------

    def _retrieved(self, cell: Settings, name: str = "", depth: int = 0) -> RetrievalRun:
        node = self.nodes.retrieve(cell, name, depth)
        name = name or cell["retriever"]
        k = int(node.settings["k"])
        entry: Any = None if name == ORACLE else self.config.retrievers[name].at(cell)

        def retrieve(queries: Sequence[Query]) -> Iterable[Ranked]:
            if entry is not None and entry.kind == "rrf":
                first, *others = (
                    self._retrieved(cell, part, max(k, entry.depth)) for part in entry.of
                )
                run = first.fuse(*others, k=entry.k, name=name).top(k)
                return _ranked(RetrievalRun({q.id: run[q.id] for q in queries}, name))
            retriever = self._retriever(name, cell)
            if entry is None:  # all qrels together say whether they name passages or documents
                run = retriever.retrieve(self.dataset(cell["dataset"]), k)
                return _ranked(RetrievalRun({q.id: run[q.id] for q in queries}, name))
            return _ranked(retriever.retrieve(queries, k))

        # The oracle reads the qrels once.
        batch = len(self.dataset(cell["dataset"])) if entry is None else BATCH
        found = self._run(node, cell, retrieve, batch)
        if entry is None:
            self._note_empty(node, cell, found)
        return found.top(k if depth else int(cell["retrieve_k"]))

    def _note_empty(self, node: Node, cell: Settings, found: RetrievalRun) -> None:
        judged = [query.id for query in self.dataset(cell["dataset"]) if query.relevant]
        empty = [id_ for id_ in judged if not found[id_].passage_ids]
        if empty:
            self._empty[node] = (
                f"{len(empty)} of {len(judged)} queries with qrels have no relevant passage in the "
                f"corpus, such as {empty[0]!r}: they are closed book"
            )

    def _retriever(self, name: str, cell: Settings) -> Retriever:
        corpus = self.corpus(cell["corpus"])
        if name == ORACLE:
            return OracleRetriever(corpus)
        entry: Any = self.config.retrievers[name].at(cell)
        if entry.kind == "run":
            return RunRetriever(entry.path, corpus)

        def open_index() -> Retriever:
            embedder = self._once("embedder", name, lambda: entry.embedder(self.budget))

            def fill(folder: Path) -> dict[str, int]:
                entry.build(corpus, folder, embedder, self.executor)
                return {"items": len(corpus), "total": len(corpus)}

            folder = self._step(self.nodes.index(name, cell["corpus"]), DATA, fill)
            retriever: Retriever = entry.build(corpus, folder, embedder, self.executor)
            return retriever

        retriever: Retriever = self._once("index", f"{name} {cell['corpus']}", open_index)
        if entry.rewriter is None:
            return retriever
        rewriter = self.config.rewriters[entry.rewriter].make(self.budget)
        return RewritingRetriever(retriever, rewriter)

    def _run(
        self,
        node: Node,
        cell: Settings,
        work: Callable[[Sequence[Query]], Iterable[Ranked]],
        batch: int = BATCH,
    ) -> RetrievalRun:
        dataset = self.dataset(cell["dataset"])
        rows = self._rows(node, RANKING, Ranked, dataset, work, batch=batch)
        hits = {
            id_: Hits(rows[id_].passage_ids, np.array(rows[id_].scores, dtype=float))
            for id_ in dataset.query_ids
        }
        return RetrievalRun(hits, node.name)

    # Parts ---------------------------------------------------------------------------------------

    def _part(self, axis: str, name: str) -> Any:
        """A reranker or a processor, made once."""
        if axis == "processor":
            return self._once(axis, name, self.config.processors[name].make)
        entry = self.config.rerankers[name]
        return self._once(axis, name, lambda: entry.make(self.budget))

    def _generator(self, cell: Settings) -> Any:
        seed = self.config.seed
        prompt = None if cell["prompt"] == NONE else self.config.prompts[cell["prompt"]].make(seed)
        entry: Any = self.config.generators[cell["generator"]].at(cell)
        return self._once(
            "generator",
            f"{entry!r} {cell['prompt']}",
            lambda: entry.make(prompt, self.budget, seed),
        )

    def _llm(self, name: str) -> LLM:
        entry: Any = self.config.generators[name]
        made: LLM = self._once("llm", name, lambda: entry.llm(self.budget))
        return made

    # Metrics -------------------------------------------------------------------------------------

    def _measured(self, cell: Settings, metrics: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        dataset = self.dataset(cell["dataset"])

        def measure(queries: Sequence[Query]) -> Iterable[Scored]:
            self._check_level(cell)
            found = evaluate(
                self.ranking(cell),
                dataset,
                metrics,
                documents=self.config.level == "document",
                query_ids=[query.id for query in queries],
            )
            return _scored(found.query_ids, metrics, found.values)

        return self._columns(self.nodes.measure(cell, metrics), cell, metrics, measure)

    def _check_level(self, cell: Settings) -> None:
        """Refuse to measure passages by qrels that name documents."""
        if self.config.level == "document":
            return
        dataset, corpus = self.dataset(cell["dataset"]), self.corpus(cell["corpus"])
        found = relevant_passages(dataset, corpus)
        if not any(id_ in corpus for query in dataset for id_ in query.relevant):
            passage = next(ids[0] for ids in found.values() if ids)
            raise SettingError(
                f"the qrels of {cell['dataset']} name documents and not passages, such as "
                f"{passage!r} of {cell['corpus']}: give level: document"
            )

    def _scored(self, cell: Settings, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        """Features that ask the same models."""
        _, manifest = self._generated(cell)
        node = self.nodes.score(cell, names, manifest["files"][RESPONSES]["sha256"])

        def score(queries: Sequence[Query]) -> Iterable[Scored]:
            suite = FeatureSuite([self._feature(name) for name in names])
            shown = self.shown(cell)
            pending = MirageDataset([shown[q.id] for q in queries], name=shown.name, retrieved=True)
            run = _part_of(self.responses(cell), pending)
            table = suite.score(pending, run, executor=self.executor, progress=self.progress)
            # The suite names a feature by its settings too: llm_eval_graded is the grid's llm_eval.
            name_of = dict(zip(suite.names, names, strict=True))
            reasons = {(id_, name_of[name]): why for (id_, name), why in table.reasons.items()}
            again = {query_id for query_id, _ in table.retry}
            return _scored(table.query_ids, names, table.values, reasons, again)

        # An LLM's answers are written batch by batch, so that a killed run keeps them.
        batch = len(self.dataset(cell["dataset"])) if node.entry is None else BATCH
        return self._columns(node, cell, names, score, batch)

    def _feature(self, name: str) -> Feature:
        if name == "llm_eval":
            return self._llm_eval()
        entry = DEFINITIONS[canonical_name(name).partition("@")[0]]
        if not entry.facts.models:
            return feature(name)
        made: Feature = entry.function(self._model(entry.facts.models[0], name))
        return made

    def _llm_eval(self) -> LLMEval:
        judge = self.config.llm_eval
        if judge is None:
            raise SettingError("metric llm_eval needs to know who judges: give llm_eval.judge")
        return llm_eval(
            self._llm(judge.judge), scale=judge.scale, method=judge.method, invalid=judge.invalid
        )

    def _model(self, need: str, name: str) -> Any:
        """The model that a feature needs."""
        from mirage import neural

        models = self.config.models
        match need:
            case "LLM" if models.llm is not None:
                return self._llm(models.llm)
            case "NLI model":
                return self._once("nli", "", lambda: neural.NLI(models.nli))
            case "reranker":
                return self._once("pairs", "", lambda: neural.Reranker(models.reranker))
            case "embedder" if models.embedder is not None:
                model = models.embedder
                return self._once("embedder", "", lambda: neural.embedder_of(model))
        raise FeatureError(
            f"metric {name!r} needs a model, {MODELS[need][0]}: name one below models"  # type: ignore[index]
        )

    def _columns(
        self,
        node: Node,
        cell: Settings,
        metrics: Sequence[str],
        work: Callable[[Sequence[Query]], Iterable[Scored]],
        batch: int | None = None,
    ) -> dict[str, NDArray[np.float64]]:
        dataset = self.dataset(cell["dataset"])
        rows = self._rows(node, SCORES, Scored, dataset, work, batch=batch or len(dataset))
        return {
            name: np.array([rows[id_].values.get(name, np.nan) for id_ in dataset.query_ids])
            for name in metrics
        }

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
        """A row for each query of a dataset, those done before among them."""

        def rows_of(path: Path) -> dict[str, Any]:
            rows = (validated(record, row, where) for where, row in read_rows(path))
            return {row.query_id: row for row in rows}

        def fill(path: Path) -> dict[str, int]:
            with Journal(path, record) as journal:
                rows = {row.query_id: row for row in journal.earlier if not row.error}
                pending = [query for query in dataset if query.id not in rows]
                for start in range(0, len(pending), batch):
                    for row in work(pending[start : start + batch]):
                        journal.add(row)
                        rows[row.query_id] = row
                # In the order of the dataset, whatever was done first.
                first = [rows.pop(id_) for id_ in dataset.query_ids]
                journal.finish([*first, *rows.values()])
            again = sum(bool(row.error) for row in (*first, *rows.values()))
            return {"items": len(pending), "total": len(first) + len(rows), "again": again}

        return rows_of(self._step(node, name, fill, len(dataset)))

    def _step(
        self,
        node: Node,
        name: str,
        fill: Callable[[Path], Mapping[str, Any]],
        size: int = 0,
    ) -> Path:
        """The file or folder of a step, done once; what failed is not tried again.

        Raises:
            MirageError: it cannot be done; says which step.
        """
        if node in self._failures:
            raise MirageError(self._failures[node])
        if node not in self.steps:
            try:
                self.steps[node] = self._found(node, name, fill, size)
            except Exception as error:
                own = isinstance(error, MirageError)
                reason = str(error) if own else f"{type(error).__name__}: {error}"
                # A step that failed because one below it did has that one's reason.
                below = any(reason.startswith(step) for step in self._failures.values())
                self._failures[node] = reason if below else f"{node}: {reason}"
                raise MirageError(self._failures[node]) from error
        return self.steps[node]

    def _found(
        self,
        node: Node,
        name: str,
        fill: Callable[[Path], Mapping[str, Any]],
        size: int,
    ) -> Path:
        if not self.done:
            return self.store.make(node, name, fill, size)
        path = self.store.find(node, name, size)
        if path is None:
            raise MirageError(NOT_RUN)
        return path

    def _once(self, kind: str, name: str, make: Callable[[], Any]) -> Any:
        if (kind, name) not in self._made:
            self._made[kind, name] = make()
        return self._made[kind, name]


def _refuse(reason: str) -> _Measurement:
    raise SettingError(reason)


def _failure(reasons: Collection[str]) -> str:
    """Join the reasons for which metrics of a cell are missing; "not run yet" is said once."""
    waiting = [reason for reason in reasons if reason.endswith(NOT_RUN)]
    return "; ".join(reason for reason in reasons if reason not in waiting[1:])


def _part_of(run: Run, dataset: MirageDataset) -> Run:
    """Return the responses of a run to the queries of a dataset."""
    ids = set(dataset.query_ids)
    responses = tuple(response for response in run if response.query_id in ids)
    return run.model_copy(update={"responses": responses})


def _ranked(run: RetrievalRun, failures: Mapping[str, str] = {}) -> Iterable[Ranked]:
    for query_id, (ids, scores) in run.items():
        error = failures.get(query_id, "")
        yield Ranked(query_id=query_id, passage_ids=ids, scores=tuple(scores.tolist()), error=error)


def _scored(
    query_ids: Sequence[str],
    metrics: Sequence[str],
    values: NDArray[np.float64],
    reasons: Mapping[tuple[str, str], str] = {},
    again: Iterable[str] = (),
) -> Iterable[Scored]:
    told = set(again)
    for query_id, row in zip(query_ids, values.tolist(), strict=True):
        known = {name: x for name, x in zip(metrics, row, strict=True) if x == x}
        why = {name: reasons[query_id, name] for name in metrics if (query_id, name) in reasons}
        error = "; ".join(why.values()) if query_id in told else ""
        yield Scored(query_id=query_id, values=known, reasons=why, error=error)
