"""Estimates of the cost of a grid before it runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from mirage._base.tables import Printed, Table
from mirage.corpus import Corpus
from mirage.errors import MirageError
from mirage.generation import RagPrompt
from mirage.grids._nodes import Nodes, Settings
from mirage.grids.cells import COMPRESSION, RESOURCES
from mirage.grids.config import NONE, ORACLE, GridConfig
from mirage.grids.store import RESPONSES, STEPS, Node, ResultStore
from mirage.llm.client import estimate_tokens
from mirage.llm.keys import KeyUse
from mirage.retrieval.simple import relevant_passages

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.models import Passage

INSTRUCTION_TOKENS = 250
"""Approximate number of tokens in the instructions to a judge, reranker or rewriter."""

SAMPLE = 200
"""Number of passages or queries from which their mean length is estimated."""

REQUESTING_KINDS = ("openai", "endpoint", "llm", "http")
"""Kinds of entries that send requests to an endpoint."""


@dataclass
class PlanRow:
    """The estimated cost of all steps of one kind, such as all steps that generate responses.

    A value is ``None`` if it is unknown. The number of passages is unknown if the corpus is not in
    the store yet. Tokens and cost are unknown if the entry in the grid file sets no token limit.
    The cost is also unknown if the entry sets no price. Time and disk space are unknown if the
    store has no similar step from which to estimate them.

    Attributes:
        step: The kind of step; see :data:`mirage.grids.store.STEPS`.
        nodes: The number of steps of this kind that the cells need.
        done: The number of these steps that are already complete in the store.
        items: The number of queries or passages that remain to be processed.
        calls: The maximum number of requests to LLMs and endpoints, without retries. There are
            fewer requests if some answers are in the cache.
        tokens: The approximate number of tokens in the prompts and answers of these requests.
        cost: The cost of these tokens, in the currency of the prices in the grid file.
        seconds: The time in seconds that the remaining items will take, estimated from similar
            steps in the store.
        bytes: The disk space in bytes that the remaining items will need, estimated from similar
            steps in the store.
    """

    step: str
    nodes: int = 0
    done: int = 0
    items: int | None = 0
    calls: int | None = 0
    tokens: int | None = 0
    cost: float | None = 0.0
    seconds: float | None = 0.0
    bytes: int | None = 0


@dataclass(frozen=True, eq=False)
class Plan(Printed):
    """The estimated cost of running a grid; prints as a table.

    Attributes:
        name: The name of the grid.
        cells: The number of cells.
        rows: One row per kind of step, in the order of execution.
        stored: The present size of the store in bytes.
        notes: Warnings and explanations that are printed below the table.
        keys: The API keys that :meth:`mirage.grids.Grid.run` would send, each with the host that
            would receive it.
    """

    name: str
    cells: int
    rows: tuple[PlanRow, ...]
    stored: int
    notes: tuple[str, ...] = ()
    keys: tuple[KeyUse, ...] = ()

    def __iter__(self) -> Iterator[PlanRow]:
        return iter(self.rows)

    def __getitem__(self, step: str) -> PlanRow:
        return next(row for row in self.rows if row.step == step)

    @property
    def total(self) -> PlanRow:
        """The sums over all kinds of steps, as a row; a sum is ``None`` if a summand is unknown."""
        return PlanRow(
            "all",
            sum(row.nodes for row in self),
            sum(row.done for row in self),
            _sum(row.items for row in self),
            _sum(row.calls for row in self),
            _sum(row.tokens for row in self),
            _sum(row.cost for row in self),
            _sum(row.seconds for row in self),
            _sum(row.bytes for row in self),
        )

    def _tables(self) -> tuple[Table]:
        rows = [row for row in self if row.nodes]
        header = ("step", "steps", "done", "to do", "calls", "tokens", "cost", "time", "disk")
        cells = tuple(
            (
                row.step,
                str(row.nodes),
                str(row.done),
                *("?" if n is None else f"{n:,}" for n in (row.items, row.calls, row.tokens)),
                "?" if row.cost is None else f"{row.cost:,.2f}",
                _time(row.seconds),
                _size(row.bytes),
            )
            for row in (*rows, self.total)
        )
        title = f"{self.name}: {self.cells} cells; the store holds {_size(self.stored)}"
        return (Table(title, header, cells, notes=self.notes, name=0),)


def make_plan(
    config: GridConfig,
    cells: Sequence[Settings],
    store: ResultStore,
    nodes: Nodes,
    *,
    limit: int | None = None,
) -> Plan:
    """Estimate the steps of a grid that are not in the store yet, and their cost.

    Nothing is executed and no request is sent.

    Args:
        config: The content of the grid file.
        cells: The settings of each cell.
        store: The store with the results of earlier runs.
        nodes: The steps of the cells.
        limit: The number of queries of each dataset that the run would use; all by default.
    """
    planner = _Planner(config, store, nodes, limit)
    for cell in cells:
        planner.add(cell)
    rows = tuple(planner.rows.values())
    notes = [*planner.warnings(cells), *nodes.order_notes(cells)]
    notes.append("calls and tokens are upper limits: answers in the cache cost nothing")
    if any(row.seconds is None for row in rows):
        notes.append(
            "?: unknown, because the store has no such step yet; run with --limit 20 to estimate it"
        )
    keys = dict.fromkeys(use for entry in config.endpoints.values() for use in entry.key_uses)
    notes += map(str, keys)
    return Plan(config.name, len(cells), rows, planner.stored, tuple(notes), tuple(keys))


class _Planner:
    """The steps of cells and their estimated cost; a step that cells share counts once."""

    def __init__(
        self, config: GridConfig, store: ResultStore, nodes: Nodes, limit: int | None
    ) -> None:
        self.config = config
        self.store = store
        self.nodes = nodes
        self.limit = limit
        self.rows = {step: PlanRow(step) for step in STEPS}
        self.counted: set[Node] = set()
        self.unmeasurable: dict[str, Mapping[str, str]] = {}
        self.stored = 0
        self.rates: dict[tuple[str, str], list[_Rate]] = {}
        for step, manifest in store.parts():
            self.stored += int(manifest.get("bytes", 0))
            if manifest.get("items"):
                rate = _Rate(manifest["items"], manifest["seconds"], manifest["bytes"])
                self.rates.setdefault(
                    (step, _comparable_settings(manifest["settings"])), []
                ).append(rate)

    def add(self, cell: Settings) -> None:
        """Count the steps of a cell, except steps that it shares with an earlier cell."""
        unmeasurable = self._unmeasurable_of(cell["dataset"])
        groups = [
            measurable
            for group in self.nodes.groups
            if (measurable := [name for name in group if name not in unmeasurable])
        ]
        measures = [name for name in self.nodes.measures if name not in unmeasurable]
        # Time, tokens and cost are recorded when responses are generated.
        needs_responses = bool(groups) or not RESOURCES.keys().isdisjoint(self.config.metrics)
        is_answered = needs_responses and cell["generator"] != NONE
        if cell["retriever"] != NONE and (measures or is_answered):
            self._count(self.nodes.rank(cell), cell)
            if measures:
                self._count(self.nodes.measure(cell, measures), cell)
        if COMPRESSION in self.config.metrics and cell["processor"] != NONE:
            self._count(self.nodes.compression(cell), cell)
        if is_answered:
            generated = self.nodes.generate(cell)
            self._count(generated, cell)
            manifest = self._manifest(generated)
            # The key of a score step contains the digest of the responses. Until these exist, the
            # key of the generation step replaces it.
            responses = manifest["files"][RESPONSES]["sha256"] if manifest else generated.key
            for group in groups:
                self._count(self.nodes.score(cell, group, responses), cell)

    def _unmeasurable_of(self, name: str) -> Mapping[str, str]:
        """Return the metrics that cannot be computed on a dataset, each with the reason.

        Only the queries up to the limit are examined.
        """
        if name not in self.unmeasurable:
            dataset = self.nodes.dataset(name)
            self.unmeasurable[name] = self.nodes.unmeasurable(dataset[: self.limit])
        return self.unmeasurable[name]

    def warnings(self, cells: Iterable[Settings]) -> Iterator[str]:
        """Yield a warning for each metric and ``oracle`` retriever that will certainly fail."""
        cells = list(cells)
        for name in dict.fromkeys(cell["dataset"] for cell in cells):
            for reason in self._unmeasurable_of(name).values():
                yield f"will fail: {name}: {reason}"
        oracles = [cell for cell in cells if cell["retriever"] == ORACLE]
        for name, corpus in dict.fromkeys((cell["dataset"], cell["corpus"]) for cell in oracles):
            if reason := self._oracle_problem(self.nodes.dataset(name)[: self.limit], corpus):
                yield f"will fail: oracle of {corpus} for {name}: {reason}"

    def _oracle_problem(self, dataset: MirageDataset, name: str) -> str:
        """Return why the retriever ``oracle`` will fail on a dataset, or "" if it will not fail.

        ``name`` is the name of the corpus.
        """
        if not any(query.relevant for query in dataset):
            return f"no query of {dataset.name} has qrels"
        node = self.nodes.corpus(name)
        try:
            if self._manifest(node) is not None:
                relevant_passages(dataset, Corpus.open(self.store.place(node) / "data"))
        except MirageError as error:
            return str(error)
        return ""

    def _count(self, node: Node, cell: Settings) -> None:
        if node in self.counted:
            return
        self.counted.add(node)
        for each in node.inputs:
            self._count(each, cell)
        row, items = self.rows[node.step], self._items(node)
        row.nodes += 1
        manifest = self._manifest(node)
        if manifest is not None and items is not None:
            items = max(0, items - int(manifest["total"])) + int(manifest.get("again", 0))
            if not items:
                row.done += 1
                return
        row.items = _add(row.items, items)
        self._add_resources(row, node, items)
        self._add_requests(row, node, cell, items)

    def _items(self, node: Node) -> int | None:
        """Return the number of queries or passages that a step processes in total.

        The result is ``None`` if the passages come from files that are not in the store yet.
        """
        if node.source in self.config.datasets and node.step not in ("corpus", "index"):
            size = len(self.nodes.dataset(node.source))
            return size if self.limit is None else min(size, self.limit)
        manifest = self._manifest(self.nodes.corpus(node.source))
        if manifest is not None:
            return int(manifest["total"])
        dataset = self.config.corpora[node.source].dataset
        if dataset is None:
            return None
        return len({p.id for query in self.nodes.dataset(dataset) for p in query.passages})

    def _manifest(self, node: Node) -> dict[str, Any] | None:
        try:
            return self.store.manifest(node)
        except MirageError:  # a damaged step is reported when the grid runs
            return None

    def _add_resources(self, row: PlanRow, node: Node, items: int | None) -> None:
        """Add a step's time and disk space to a row, estimated from similar steps in the store."""
        rates = self.rates.get((node.step, _comparable_settings(node.settings)), [])
        stored_items = sum(rate.items for rate in rates)
        if not stored_items or items is None:
            row.seconds = row.bytes = None
            return
        row.seconds = _add(row.seconds, items * sum(rate.seconds for rate in rates) / stored_items)
        row.bytes = _add(row.bytes, items * sum(rate.bytes for rate in rates) // stored_items)

    def _add_requests(self, row: PlanRow, node: Node, cell: Settings, items: int | None) -> None:
        """Add a step's calls, tokens and cost to a row, if the step sends requests."""
        entry = node.entry
        if (
            getattr(entry, "base_url", None) is None
            and getattr(entry, "kind", "") not in REQUESTING_KINDS
        ):
            return
        calls = None if items is None else items * _calls_per_item(node)
        row.calls = _add(row.calls, calls)
        tokens = self._prompt_tokens(node, cell)
        max_tokens = getattr(entry, "max_tokens", None)
        if calls is None or tokens is None or max_tokens is None:
            row.tokens = row.cost = None
            return
        row.tokens = _add(row.tokens, calls * (tokens + max_tokens))
        price = entry.price
        cost = None if price is None else calls * (tokens * price[0] + max_tokens * price[1]) / 1e6
        row.cost = _add(row.cost, cost)

    def _prompt_tokens(self, node: Node, cell: Settings) -> int | None:
        """Estimate the number of tokens in one prompt of a step, assuming passages of mean length.

        The result is ``None`` if the length of the passages is unknown.
        """
        if node.step == "index":
            return self._passage_tokens(node.source)
        tokens = self._base_tokens(node, cell)
        depth_axis = {"rerank": "rerank_k", "generate": "show_k"}.get(node.step)
        if depth_axis is None or cell["retriever"] == NONE:
            return tokens
        passage = self._passage_tokens(cell["corpus"])
        count = min(int(cell[depth_axis]), getattr(node.entry, "window", int(cell[depth_axis])))
        return None if passage is None else tokens + count * passage

    def _base_tokens(self, node: Node, cell: Settings) -> int:
        """Estimate the number of tokens in one prompt of a step, not counting the passages."""
        queries = self.nodes.dataset(node.source)[:SAMPLE]
        is_chat = node.step == "generate" and node.entry.kind == "openai"
        entry = self.config.prompts.get(cell["prompt"])
        # A prompt of the user's own is not called before the run, and may be missing.
        if is_chat and (entry is None or entry.kind != "own"):
            prompt = RagPrompt() if entry is None else entry.make(seed=self.config.seed)
            without_passages = (query.model_copy(update={"passages": ()}) for query in queries)
            prompts = [
                "".join(m["content"] for m in prompt(query).messages) for query in without_passages
            ]
        else:
            prompts = [query.text for query in queries]
        tokens = sum(map(estimate_tokens, prompts)) // len(prompts)
        return tokens if node.step == "generate" else tokens + INSTRUCTION_TOKENS

    def _passage_tokens(self, name: str) -> int | None:
        """Estimate the mean number of tokens per passage of a corpus from its first passages.

        The result is ``None`` if the corpus comes from files that are not in the store yet.
        """
        node = self.nodes.corpus(name)
        dataset = self.config.corpora[name].dataset
        passages: list[Passage]
        if self._manifest(node) is not None:
            corpus = Corpus.open(self.store.place(node) / "data")
            passages = next(corpus.iter_batches(SAMPLE), [])
        elif dataset is not None:
            passages = [p for query in self.nodes.dataset(dataset) for p in query.passages]
        else:
            return None
        sizes = [estimate_tokens(passage.titled_text) for passage in passages]
        return math.ceil(sum(sizes) / max(1, len(sizes)))


class _Rate(NamedTuple):
    """The number of items (queries or passages) of a stored step, and the resources that they took.

    ``seconds`` is the time, and ``bytes`` the disk space, of all items together.
    """

    items: int
    seconds: float
    bytes: int


def _comparable_settings(settings: Mapping[str, Any]) -> str:
    """Return the settings of a step as JSON, without the digests of the texts that it processed.

    Steps for which this function returns the same text take a similar time per item.
    """
    texts = ("queries", "gold", "oracle", "responses", "path", "dataset")
    return json.dumps({n: v for n, v in settings.items() if n not in texts}, sort_keys=True)


def _calls_per_item(node: Node) -> int:
    """Return the number of requests that a step sends for each query or passage."""
    window = getattr(node.entry, "window", None)
    if node.step == "rerank" and window is not None:
        # A listwise reranker moves its window over the list, with one call per position.
        outside_window = max(0, int(node.settings["k"]) - int(window))
        return 1 + math.ceil(outside_window / int(node.entry.step))
    metrics: Sequence[str] = node.settings.get("metrics", ())
    return max(1, len(metrics))


def _add(first: Any, second: Any) -> Any:
    """Return the sum of two values, or ``None`` if one of them is ``None`` (unknown)."""
    return None if first is None or second is None else first + second


def _sum(values: Iterable[Any]) -> Any:
    return reduce(_add, values)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _size(size: int | None) -> str:
    if size is None:
        return "?"
    return f"{size / 1e3:,.0f} kB" if size < 1e6 else f"{size / 1e6:,.1f} MB"
