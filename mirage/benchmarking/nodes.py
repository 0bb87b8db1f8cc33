"""Which steps a cell of a grid takes, and what each starts from: nothing is done here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from mirage.benchmarking.config import NONE, ORACLE, SECTIONS, GridConfig
from mirage.benchmarking.store import Node
from mirage.dataset import MirageDataset
from mirage.features.registry import DEFINITIONS, canonical_name

__all__ = ["Nodes", "Settings", "is_feature"]

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
                texts = (
                    p.model_dump_json() for q in self.dataset(entry.dataset) for p in q.passages
                )
                settings["dataset"] = _digest(texts)
            self._corpora[name] = Node("corpus", name, settings)
        return self._corpora[name]

    def index(self, retriever: str, corpus: str) -> Node:
        """The index of a retriever that has one."""
        key = self._key("retriever", retriever, {})
        settings = {name: value for name, value in key.items() if name != "rewriter"}
        return Node("index", f"{retriever} of {corpus}", settings, (self.corpus(corpus),))

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
        of = f"{name} of {cell['corpus']} for {cell['dataset']}"
        if name == ORACLE:
            asked = {"oracle": self._gold(cell), "k": k}
            return Node("retrieve", of, asked, (self.corpus(cell["corpus"]),))
        entry: Any = self.config.retrievers[name].at(cell)
        settings: dict[str, Any] = {"queries": self._questions(cell), "k": k}
        if entry.kind == "rrf":
            depth = max(k, entry.depth)
            parts = tuple(self.retrieve(cell, each, depth) for each in entry.of)
            return Node("retrieve", of, settings | {"rrf": entry.k}, parts)
        if entry.kind == "run":
            inputs = (self.corpus(cell["corpus"]),)
            return Node(
                "retrieve", of, settings | {"run": self._key("retriever", name, cell)}, inputs
            )
        if entry.rewriter is not None:
            rewriter = self.config.rewriters[entry.rewriter]
            settings["rewriter"] = rewriter.key()
        return Node("retrieve", of, settings, (self.index(name, cell["corpus"]),))

    def rank(self, cell: Settings) -> Node:
        """What a cell retrieves, reranked where it has a reranker."""
        retrieved = self.retrieve(cell)
        if cell["reranker"] == NONE:
            return retrieved
        settings: dict[str, Any] = {"reranker": self._key("reranker", cell["reranker"], cell)}
        settings["k"] = min(int(cell["rerank_k"]), int(cell["retrieve_k"]))
        return Node("rerank", f"{retrieved.name} by {cell['reranker']}", settings, (retrieved,))

    def process(self, cell: Settings) -> Node:
        """What a processor makes of what is shown."""
        settings = {"processor": self._key("processor", cell["processor"], cell)}
        ranked = self.rank(cell)
        name = f"{ranked.name} by {cell['processor']}"
        return Node("process", name, settings | _depths(cell), (ranked,))

    def generate(self, cell: Settings) -> Node:
        """The responses of a cell."""
        generator, prompt = cell["generator"], cell["prompt"]
        settings = {
            "generator": self._key("generator", generator, cell),
            "prompt": None if prompt == NONE else self._key("prompt", prompt, cell),
            "seed": self.config.seed,
            "queries": self._questions(cell),
        }
        if self.config.generators[generator].kind == "oracle-answer":
            settings["gold"] = self._gold(cell)
        name = f"{generator} on {cell['dataset']}"
        if cell["retriever"] == NONE:
            return Node("generate", f"{name}, closed book", settings)
        shown = self.rank(cell) if cell["processor"] == NONE else self.process(cell)
        name += f" from {shown.name.removesuffix(' for ' + cell['dataset'])}"
        return Node("generate", name, settings | _depths(cell), (shown,))

    def score(self, cell: Settings, metrics: Iterable[str], models: Any, responses: str) -> Node:
        """Features of a cell's responses.

        Args:
            cell: the cell.
            metrics: the features.
            models: what they ask, and how.
            responses: SHA-256 of the responses, which may grow.
        """
        settings = {
            "metrics": list(metrics),
            "models": models,
            "responses": responses,
            "gold": self._gold(cell),
        }
        generated = self.generate(cell)
        return Node("score", f"of {generated.name}", settings, (generated,))

    def measure(self, cell: Settings, metrics: Iterable[str]) -> Node:
        """Measures of a cell's retrieval."""
        ranked = self.rank(cell)
        settings = {
            "metrics": list(metrics),
            "level": self.config.level,
            "gold": self._gold(cell),
            "k": int(cell["retrieve_k"]),
        }
        return Node("measure", f"of {ranked.name}", settings, (ranked,))

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


def _depths(cell: Settings) -> dict[str, int]:
    """How many of the passages are shown, which may be more than are found."""
    return {"k": min(int(cell["show_k"]), int(cell["retrieve_k"]))}


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()
