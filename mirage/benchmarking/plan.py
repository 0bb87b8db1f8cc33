"""What running a grid will take, before anything is spent."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from mirage._base.tables import Printed, Table
from mirage.benchmarking._nodes import Nodes, Settings
from mirage.benchmarking.config import NONE, ORACLE, GridConfig
from mirage.benchmarking.store import RESPONSES, STEPS, Node, ResultStore
from mirage.corpus import Corpus
from mirage.errors import MirageError
from mirage.generation import RagPrompt
from mirage.llm import estimate_tokens
from mirage.llm.keys import KeyUse
from mirage.retrieval.simple import relevant_passages

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.models import Passage

__all__ = ["Plan", "PlanRow", "make_plan"]

INSTRUCTIONS = 250
"""Tokens of the instructions to a judge, reranker or rewriter, about."""

SAMPLE = 200
"""Passages, or queries, by which the length of all is told."""

ASKED = ("openai", "endpoint", "llm", "http")
"""Kinds of entries that send requests."""


@dataclass
class PlanRow:
    """What the steps of one kind will take.

    ``None`` is what is not known: how many passages a corpus has that is not in the store, tokens
    and money where nothing says how long texts will be or what they cost, time and space where the
    store has no such step yet to go by.

    Attributes:
        step: the kind; see :data:`mirage.benchmarking.STEPS`.
        nodes: how many of them there are.
        done: how many are in the store already, whole.
        items: queries, or passages, that are left to do.
        calls: requests to LLMs and endpoints, retries not counted; at most, for some answers may be
            in the cache.
        tokens: of prompts and answers, about.
        cost: in the currency of the prices in the file.
        seconds: by how long such steps took in this store.
        bytes: by how much space such steps take in this store.
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
    """What running a grid will take; prints as a table.

    Attributes:
        name: of the grid.
        cells: how many there are.
        rows: the steps, in their order.
        stored: bytes that the store holds.
        notes: how to read it.
        keys: Which keys would be sent to which hosts.
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
        """All steps together."""
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
    """What is left to do of the cells of a grid, and what it will take; nothing is sent.

    Args:
        config: the grid.
        cells: its cells.
        store: what is done already.
        nodes: the steps.
        limit: queries of each dataset, the first ones.
    """
    planner = _Planner(config, store, nodes, limit)
    for cell in cells:
        planner.add(cell)
    rows = tuple(planner.rows.values())
    notes = [*planner.warnings(cells), *nodes.order_notes(cells)]
    notes.append("calls and tokens are at most so many: answers in the cache cost nothing")
    if any(row.seconds is None for row in rows):
        notes.append("?: such steps have not been done here yet; --limit 20 tells more")
    keys = dict.fromkeys(use for entry in config.endpoints.values() for use in entry.key_uses)
    notes += map(str, keys)
    return Plan(config.name, len(cells), rows, planner.stored, tuple(notes), tuple(keys))


class _Planner:
    """Counts the steps of cells, each once."""

    def __init__(
        self, config: GridConfig, store: ResultStore, nodes: Nodes, limit: int | None
    ) -> None:
        self.config = config
        self.store = store
        self.nodes = nodes
        self.limit = limit
        self.rows = {step: PlanRow(step) for step in STEPS}
        self.seen: set[Node] = set()
        self.without: dict[str, Mapping[str, str]] = {}
        self.stored = 0
        self.rates: dict[tuple[str, str], list[_Rate]] = {}
        for step, manifest in store.parts():
            self.stored += int(manifest.get("bytes", 0))
            if manifest.get("items"):
                rate = _Rate(manifest["items"], manifest["seconds"], manifest["bytes"])
                self.rates.setdefault((step, _who(manifest["settings"])), []).append(rate)

    def add(self, cell: Settings) -> None:
        """Count the steps of a cell that no other cell had."""
        without = self._without(cell["dataset"])
        groups = [
            possible
            for group in self.nodes.groups
            if (possible := [name for name in group if name not in without])
        ]
        measures = [name for name in self.nodes.measures if name not in without]
        asks = bool(groups) and cell["generator"] != NONE
        if cell["retriever"] != NONE and (measures or asks):
            self._walk(self.nodes.rank(cell), cell)
            if measures:
                self._walk(self.nodes.measure(cell, measures), cell)
        if asks:
            generated = self.nodes.generate(cell)
            self._walk(generated, cell)
            manifest = self._manifest(generated)
            # What is scored is known once it is there: until then its place is its cell's.
            responses = manifest["files"][RESPONSES]["sha256"] if manifest else generated.key
            for group in groups:
                self._walk(self.nodes.score(cell, group, responses), cell)

    def _without(self, name: str) -> Mapping[str, str]:
        """Return the metrics that no query of a dataset can have, and why."""
        if name not in self.without:
            dataset = self.nodes.dataset(name)
            self.without[name] = self.nodes.unmeasurable(dataset[: self.limit])
        return self.without[name]

    def warnings(self, cells: Iterable[Settings]) -> Iterator[str]:
        """Yield what will fail or be empty, as far as it can be known without work."""
        cells = list(cells)
        for name in dict.fromkeys(cell["dataset"] for cell in cells):
            for reason in self._without(name).values():
                yield f"will fail: {name}: {reason}"
        oracles = [cell for cell in cells if cell["retriever"] == ORACLE]
        for name, corpus in dict.fromkeys((cell["dataset"], cell["corpus"]) for cell in oracles):
            if reason := self._oracle_problem(self.nodes.dataset(name)[: self.limit], corpus):
                yield f"will fail: oracle of {corpus} for {name}: {reason}"

    def _oracle_problem(self, dataset: MirageDataset, name: str) -> str:
        """Return why the oracle finds nothing, as far as the store has the corpus."""
        if not any(query.relevant for query in dataset):
            return f"no query of {dataset.name} has qrels"
        node = self.nodes.corpus(name)
        try:
            if self._manifest(node) is not None:
                relevant_passages(dataset, Corpus.open(self.store.place(node) / "data"))
        except MirageError as error:
            return str(error)
        return ""

    def _walk(self, node: Node, cell: Settings) -> None:
        if node in self.seen:
            return
        self.seen.add(node)
        for each in node.inputs:
            self._walk(each, cell)
        row, items = self.rows[node.step], self._items(node)
        row.nodes += 1
        manifest = self._manifest(node)
        if manifest is not None and items is not None:
            items = max(0, items - int(manifest["total"])) + int(manifest.get("again", 0))
            if not items:
                row.done += 1
                return
        row.items = _plus(row.items, items)
        self._take(row, node, items)
        self._ask(row, node, cell, items)

    def _items(self, node: Node) -> int | None:
        """Queries, or passages, that the step goes through, where that is known."""
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
        except MirageError:  # damaged: running it says so
            return None

    def _take(self, row: PlanRow, node: Node, items: int | None) -> None:
        """Add time and space, by what such steps took."""
        rates = self.rates.get((node.step, _who(node.settings)), [])
        done = sum(rate.items for rate in rates)
        if not done or items is None:
            row.seconds = row.bytes = None
            return
        row.seconds = _plus(row.seconds, items * sum(rate.seconds for rate in rates) / done)
        row.bytes = _plus(row.bytes, items * sum(rate.bytes for rate in rates) // done)

    def _ask(self, row: PlanRow, node: Node, cell: Settings, items: int | None) -> None:
        """Add calls, tokens and money, where the step asks somebody."""
        entry = node.entry
        if getattr(entry, "base_url", None) is None and getattr(entry, "kind", "") not in ASKED:
            return
        calls = None if items is None else items * _calls(node)
        row.calls = _plus(row.calls, calls)
        tokens = self._prompt_tokens(node, cell)
        most = getattr(entry, "max_tokens", None)
        if calls is None or tokens is None or most is None:
            row.tokens = row.cost = None
            return
        row.tokens = _plus(row.tokens, calls * (tokens + most))
        price = entry.price
        cost = None if price is None else calls * (tokens * price[0] + most * price[1]) / 1e6
        row.cost = _plus(row.cost, cost)

    def _prompt_tokens(self, node: Node, cell: Settings) -> int | None:
        """Tokens of a prompt, about: what it asks, and passages of mean length."""
        if node.step == "index":
            return self._passage_tokens(node.source)
        tokens = self._bare_tokens(node, cell)
        shown = {"rerank": "rerank_k", "generate": "show_k"}.get(node.step)
        if shown is None or cell["retriever"] == NONE:
            return tokens
        passage = self._passage_tokens(cell["corpus"])
        count = min(int(cell[shown]), getattr(node.entry, "window", int(cell[shown])))
        return None if passage is None else tokens + count * passage

    def _bare_tokens(self, node: Node, cell: Settings) -> int:
        """Tokens of a prompt without its passages."""
        queries = self.nodes.dataset(node.source)[:SAMPLE]
        if node.step == "generate" and node.entry.kind == "openai":
            named = cell["prompt"] != NONE
            ask = (
                self.config.prompts[cell["prompt"]].make(self.config.seed) if named else RagPrompt()
            )
            bare = (query.model_copy(update={"passages": ()}) for query in queries)
            prompts = ["".join(m["content"] for m in ask(query).messages) for query in bare]
        else:
            prompts = [query.text for query in queries]
        tokens = sum(map(estimate_tokens, prompts)) // len(prompts)
        return tokens if node.step == "generate" else tokens + INSTRUCTIONS

    def _passage_tokens(self, name: str) -> int | None:
        """Tokens of a passage of a corpus on average, by the first of them."""
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
    """What so many items of a step took."""

    items: int
    seconds: float
    bytes: int


def _who(settings: Mapping[str, Any]) -> str:
    """What does a step, whatever it does it to: the settings that are no digest of texts."""
    texts = ("queries", "gold", "oracle", "responses", "path", "dataset")
    return json.dumps({n: v for n, v in settings.items() if n not in texts}, sort_keys=True)


def _calls(node: Node) -> int:
    """Calls an item."""
    window = getattr(node.entry, "window", None)
    if node.step == "rerank" and window is not None:
        beyond = max(0, int(node.settings["k"]) - int(window))
        return 1 + math.ceil(beyond / int(node.entry.step))
    metrics: Sequence[str] = node.settings.get("metrics", ())
    return max(1, len(metrics))


def _plus(one: Any, other: Any) -> Any:
    """A sum of which a part may not be known."""
    return None if one is None or other is None else one + other


def _sum(values: Iterable[Any]) -> Any:
    return reduce(_plus, values)


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
