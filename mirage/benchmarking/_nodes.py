"""Which steps a cell of a grid takes, and what each starts from: nothing is done here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from mirage.benchmarking.config import NONE, ORACLE, SECTIONS, GridConfig
from mirage.benchmarking.store import Node
from mirage.dataset import MirageDataset
from mirage.features.base import GIVEN
from mirage.features.registry import DEFINITIONS, canonical_name, facts

__all__ = ["Nodes", "Settings", "is_feature"]

DEFAULT_ORDER = "rank"
"""How a generator without a prompt in the file orders passages; see :class:`mirage.RagPrompt`."""

Settings = Mapping[str, str]
"""The settings of one cell, by axis."""


def is_feature(metric: str) -> bool:
    """Whether a metric is of responses, and not of retrieval."""
    return canonical_name(metric).partition("@")[0] in DEFINITIONS


class Nodes:
    """The nodes of the cells of a grid. Cells that share a step share its node.

    Args:
        config: the grid.
    """

    def __init__(self, config: GridConfig) -> None:
        self.config = config
        self._datasets: dict[str, MirageDataset] = {}
        self._corpora: dict[str, Node] = {}
        self._digest_of: dict[str, tuple[str, str]] = {}
        self._entries: dict[tuple[str, str, tuple[str, ...]], dict[str, Any]] = {}

    def dataset(self, name: str) -> MirageDataset:
        """The queries of a dataset.

        Raises:
            DatasetError: its file cannot be read.
        """
        if name not in self._datasets:
            self._datasets[name] = self.config.datasets[name].dataset()
        return self._datasets[name]

    def corpus(self, name: str) -> Node:
        """A corpus, from what its files hold."""
        if name not in self._corpora:
            entry = self.config.corpora[name]
            settings = entry.key()
            if entry.dataset is not None:
                queries = self.dataset(entry.dataset)
                texts = (passage.model_dump_json() for q in queries for passage in q.passages)
                settings["dataset"] = _digest(texts)
            self._corpora[name] = Node("corpus", name, settings, (), entry, name)
        return self._corpora[name]

    def index(self, retriever: str, corpus: str) -> Node:
        """The index of a retriever that has one."""
        key = self._key("retriever", retriever, {})
        settings = {name: value for name, value in key.items() if name != "rewriter"}
        entry = self.config.retrievers[retriever]
        name = f"{retriever} of {corpus}"
        return Node("index", name, settings, (self.corpus(corpus),), entry, corpus)

    def retrieve(self, cell: Settings, retriever: str = "", depth: int = 0) -> Node:
        """What a retriever finds; of a hybrid, from what each of its parts finds.

        It finds as many passages as the cell of the grid with the most: the first of them serve
        the others.

        Args:
            cell: the cell.
            retriever: in place of the cell's own.
            depth: passages a query.
        """
        name = retriever or cell["retriever"]
        k = depth or max(self.config.grid.retrieve_k)
        corpus = self.corpus(cell["corpus"])
        entry: Any = None if name == ORACLE else self.config.retrievers[name].at(cell)
        settings: dict[str, Any] = {"k": k}
        if entry is None:
            # Earlier versions found passages alone, and nothing if qrels name documents.
            settings |= {"oracle": self._gold(cell), "names": "passages or documents"}
        else:
            settings["queries"] = self._questions(cell)
        inputs: tuple[Node, ...] = (corpus,)
        asked = entry
        match entry and entry.kind:
            case "rrf":
                settings["rrf"] = entry.k
                inputs = tuple(self.retrieve(cell, each, max(k, entry.depth)) for each in entry.of)
            case "run":
                settings["run"] = self._key("retriever", name, cell)
            case "bm25" | "dense" | "sparse":
                inputs = (self.index(name, cell["corpus"]),)
                if entry.rewriter is not None:
                    asked = self.config.rewriters[entry.rewriter]
                    settings["rewriter"] = asked.key()
        of = f"{name} of {cell['corpus']} for {cell['dataset']}"
        return Node("retrieve", of, settings, inputs, asked, cell["dataset"])

    def rank(self, cell: Settings) -> Node:
        """What a cell retrieves, reranked where it has a reranker."""
        retrieved = self.retrieve(cell)
        if cell["reranker"] == NONE:
            return retrieved
        settings = {
            "reranker": self._key("reranker", cell["reranker"], cell),
            "k": min(int(cell["rerank_k"]), int(cell["retrieve_k"])),
        }
        entry = self.config.rerankers[cell["reranker"]]
        name = f"{retrieved.name} by {cell['reranker']}"
        return Node("rerank", name, settings, (retrieved,), entry, cell["dataset"])

    def process(self, cell: Settings) -> Node:
        """What a processor makes of what is shown."""
        settings = {"processor": self._key("processor", cell["processor"], cell), **_depth(cell)}
        ranked = self.rank(cell)
        entry = self.config.processors[cell["processor"]]
        name = f"{ranked.name} by {cell['processor']}"
        return Node("process", name, settings, (ranked,), entry, cell["dataset"])

    def generate(self, cell: Settings) -> Node:
        """The responses of a cell."""
        generator, prompt, dataset = cell["generator"], cell["prompt"], cell["dataset"]
        entry: Any = self.config.generators[generator]
        settings: dict[str, Any] = {
            "generator": self._key("generator", generator, cell),
            "prompt": None if prompt == NONE else self._key("prompt", prompt, cell),
            "seed": self.config.seed,
            "queries": self._questions(cell),
        }
        if entry.kind == "oracle-answer":
            settings["gold"] = self._gold(cell)
        name, inputs = f"{generator} on {dataset}, closed book", tuple[Node, ...]()
        if cell["retriever"] != NONE:
            shown = self.rank(cell) if cell["processor"] == NONE else self.process(cell)
            settings |= _depth(cell)
            if entry.PROMPTED and prompt == NONE:
                settings["prompt"] = {"order": DEFAULT_ORDER}
            name = f"{generator} on {dataset} from {shown.name.replace(f' for {dataset}', '')}"
            inputs = (shown,)
        return Node("generate", name, settings, inputs, entry, dataset)

    def passage_order(self, cell: Settings) -> str | None:
        """Return how the prompt of a cell orders passages; ``None`` if it shows none of ours."""
        generator, prompt = cell["generator"], cell["prompt"]
        if NONE in (generator, cell["retriever"]):
            return None
        if not self.config.generators[generator].PROMPTED:
            return None
        order = DEFAULT_ORDER if prompt == NONE else self.config.prompts[prompt].order
        return f"shuffled (seed {self.config.seed})" if order == "shuffled" else "in rank order"

    def order_notes(self, cells: Iterable[Settings]) -> list[str]:
        """Return notes that say how the prompts of some cells order passages."""
        orders = {cell["prompt"]: order for cell in cells if (order := self.passage_order(cell))}
        if len(set(orders.values())) == 1:
            return [f"prompts show passages {next(iter(orders.values()))}"]
        return [f"prompt {name} shows passages {order}" for name, order in orders.items()]

    def score(self, cell: Settings, metrics: Iterable[str], responses: str) -> Node:
        """Features of a cell's responses.

        Args:
            cell: the cell.
            metrics: the features, all of one of :meth:`groups`.
            responses: SHA-256 of the responses, which may grow.
        """
        metrics = list(metrics)
        asked, settings = self._asked(metrics[0])
        settings |= {"metrics": metrics, "responses": responses, "gold": self._gold(cell)}
        generated = self.generate(cell)
        name = f"of {generated.name}"
        return Node("score", name, settings, (generated,), asked, cell["dataset"])

    def measure(self, cell: Settings, metrics: Iterable[str]) -> Node:
        """Measures of a cell's retrieval."""
        ranked = self.rank(cell)
        settings = {
            "metrics": list(metrics),
            "level": self.config.level,
            "gold": self._gold(cell),
            "k": int(cell["retrieve_k"]),
        }
        return Node("measure", f"of {ranked.name}", settings, (ranked,), None, cell["dataset"])

    def unmeasurable(self, dataset: MirageDataset) -> dict[str, str]:
        """Return why metrics have no value on any query of a dataset, by their names."""
        reasons = {}
        for name in self.config.metrics:
            needs = facts(name).needs if is_feature(name) else ("relevant passages",)
            lacking = [
                need
                for need in needs
                if need in GIVEN and need != "passages" and not any(map(GIVEN[need], dataset))
            ]
            if lacking:
                reasons[name] = (
                    f"metric {name!r} needs {lacking[0]}, and no query of {dataset.name} has any; "
                    "give a dataset that has them, or leave the metric out"
                )
        return reasons

    @property
    def measures(self) -> list[str]:
        """The metrics that are of retrieval."""
        return [name for name in self.config.metrics if not is_feature(name)]

    @property
    def groups(self) -> list[list[str]]:
        """The metrics that are of responses, those together that ask the same models."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in filter(is_feature, self.config.metrics):
            groups.setdefault(_needs(name), []).append(name)
        return list(groups.values())

    def _asked(self, metric: str) -> tuple[Any, dict[str, Any]]:
        """The LLM that a feature asks, if one, and what identifies its models."""
        needs, models, judge = _needs(metric), self.config.models, self.config.llm_eval
        if not needs:
            return None, {}
        if judge is not None and needs == ("llm_eval",):
            llm = self.config.generators[judge.judge]
            return llm, {"models": judge.model_dump(), "llm": llm.key()}
        if models.llm is not None and "LLM" in needs:
            llm = self.config.generators[models.llm]
            return llm, {"llm": llm.key()}
        return None, {"models": models.key()}

    def _key(self, axis: str, name: str, cell: Settings) -> dict[str, Any]:
        """What identifies an entry, of which a large file is read once."""
        entry = getattr(self.config, SECTIONS[axis])[name]
        own = entry.at(cell)
        place = (axis, name, tuple(cell.values()) if own is not entry else ())
        if place not in self._entries:
            self._entries[place] = own.key()
        return self._entries[place]

    def _questions(self, cell: Settings) -> str:
        """SHA-256 of what systems see of the queries."""
        return self._digests(cell["dataset"])[0]

    def _gold(self, cell: Settings) -> str:
        """SHA-256 of all of the queries."""
        return self._digests(cell["dataset"])[1]

    def _digests(self, name: str) -> tuple[str, str]:
        if name not in self._digest_of:
            queries = self.dataset(name)
            self._digest_of[name] = (
                _digest(repr((query.id, query.language, query.text)) for query in queries),
                _digest(query.model_dump_json() for query in queries),
            )
        return self._digest_of[name]


def _needs(metric: str) -> tuple[str, ...]:
    """The models that a feature needs."""
    return (metric,) if metric == "llm_eval" else tuple(map(str, facts(metric).models))


def _depth(cell: Settings) -> dict[str, int]:
    """How many of the passages are shown, which may be more than are found."""
    return {"k": min(int(cell["show_k"]), int(cell["retrieve_k"]))}


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()
