"""The steps that the cells of a grid need, and how they depend on each other.

A cell is one RAG pipeline on one dataset, given by a setting on each axis, such as ``retriever``.
Nothing is executed in this module.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from mirage.dataset import MirageDataset
from mirage.features.base import GIVEN
from mirage.features.registry import facts
from mirage.features.registry import needs as feature_needs
from mirage.grids._entries import OwnEntry
from mirage.grids._metrics import is_feature, is_measure
from mirage.grids.cells import COMPRESSION
from mirage.grids.config import NONE, ORACLE, SECTIONS, GridConfig
from mirage.grids.store import Node

DEFAULT_ORDER = "rank"
"""The order of passages in a prompt if the cell names no prompt; see :class:`mirage.RagPrompt`."""

Settings = Mapping[str, str]
"""The settings of one cell, by axis."""


class Nodes:
    """The nodes of a grid; each node describes a step and the steps whose results it uses.

    If several cells need the same step, they get equal nodes, so the step is executed only once.

    Args:
        config: The content of the grid file.
    """

    def __init__(self, config: GridConfig) -> None:
        self.config = config
        self._datasets: dict[str, MirageDataset] = {}
        self._grades: dict[str, Mapping[str, Mapping[str, int]]] = {}
        self._corpora: dict[str, Node] = {}
        self._digest_of: dict[str, tuple[str, str]] = {}
        self._entries: dict[tuple[str, str, tuple[str, ...]], dict[str, Any]] = {}

    def dataset(self, name: str) -> MirageDataset:
        """Return the queries of a dataset."""
        if name not in self._datasets:
            self._datasets[name] = self.config.datasets[name].dataset()
        return self._datasets[name]

    def grades(self, name: str) -> Mapping[str, Mapping[str, int]]:
        """Return the relevance grades of a dataset, by query id and passage id.

        The result is empty if all grades are 0 or 1, or if the dataset has no file of qrels.
        """
        if name not in self._grades:
            self._grades[name] = self.config.datasets[name].grades()
        return self._grades[name]

    def corpus(self, name: str) -> Node:
        """Return the node that builds a corpus; its key depends on the contents of the files."""
        if name not in self._corpora:
            entry = self.config.corpora[name]
            settings = entry.key()
            if entry.dataset is not None:
                queries = self.dataset(entry.dataset)
                texts = (passage.model_dump_json() for q in queries for passage in q.passages)
                settings["dataset"] = _digest(texts)
            parts = tuple(map(self.corpus, entry.of))
            self._corpora[name] = Node("corpus", name, settings, parts, entry, name)
        return self._corpora[name]

    def index(self, retriever: str, corpus: str) -> Node:
        """Return the node that builds a retriever's index of a corpus."""
        key = self._key("retriever", retriever, {})
        settings = {name: value for name, value in key.items() if name != "rewriter"}
        entry = self.config.retrievers[retriever]
        name = f"{retriever} of {corpus}"
        return Node("index", name, settings, (self.corpus(corpus),), entry, corpus)

    def retrieve(self, cell: Settings, retriever: str = "", depth: int = 0) -> Node:
        """Return the node that retrieves passages for the queries of a cell.

        If the retriever fuses others (``kind: rrf``), their retrieval nodes are the inputs of this
        node.

        Args:
            cell: The settings of the cell, by axis.
            retriever: The name of a retriever; by default the retriever of the cell.
            depth: The number of passages per query; by default the largest ``retrieve_k`` of the
                grid. Cells with a smaller ``retrieve_k`` then share the step, and use only the
                first passages of its result.
        """
        name = retriever or cell["retriever"]
        k = depth or max(self.config.grid.retrieve_k)
        corpus = self.corpus(cell["corpus"])
        entry: Any = None if name == ORACLE else self.config.retrievers[name].at(cell)
        settings: dict[str, Any] = {"k": k}
        if entry is None:
            # Earlier versions ignored qrels with document ids; the setting "names" prevents their
            # results from being reused.
            settings |= {"oracle": self._gold_digest(cell), "names": "passages or documents"}
        else:
            settings["queries"] = self._questions_digest(cell)
        inputs: tuple[Node, ...] = (corpus,)
        calling_entry = entry
        match entry and entry.kind:
            case "rrf":
                settings["rrf"] = entry.k
                inputs = tuple(self.retrieve(cell, each, max(k, entry.depth)) for each in entry.of)
            case "run" | "own":
                settings[entry.kind] = self._key("retriever", name, cell)
            case "bm25" | "dense" | "sparse":
                inputs = (self.index(name, cell["corpus"]),)
                if entry.rewriter is not None:
                    calling_entry = self.config.rewriters[entry.rewriter]
                    settings["rewriter"] = calling_entry.key()
        node_name = f"{name} of {cell['corpus']} for {cell['dataset']}"
        return Node("retrieve", node_name, settings, inputs, calling_entry, cell["dataset"])

    def rank(self, cell: Settings) -> Node:
        """Return the node whose result is the final ranking of a cell.

        It is the reranking node if the cell has a reranker, else the retrieval node.
        """
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
        """Return the node in which the context processor of a cell edits the passages to show.

        The cell must have a context processor.
        """
        settings = {
            "processor": self._key("processor", cell["processor"], cell),
            **_shown_depth(cell),
        }
        ranked = self.rank(cell)
        entry = self.config.processors[cell["processor"]]
        name = f"{ranked.name} by {cell['processor']}"
        return Node("process", name, settings, (ranked,), entry, cell["dataset"])

    def generate(self, cell: Settings) -> Node:
        """Return the node that generates the responses of a cell."""
        generator, prompt, dataset = cell["generator"], cell["prompt"], cell["dataset"]
        entry: Any = self.config.generators[generator]
        settings: dict[str, Any] = {
            "generator": self._key("generator", generator, cell),
            "prompt": None if prompt == NONE else self._key("prompt", prompt, cell),
            "seed": self.config.seed,
            "queries": self._questions_digest(cell),
        }
        if entry.kind == "oracle-answer":
            settings["gold"] = self._gold_digest(cell)
        name, inputs = f"{generator} on {dataset}, closed book", tuple[Node, ...]()
        if cell["retriever"] != NONE:
            passages = self.rank(cell) if cell["processor"] == NONE else self.process(cell)
            settings |= _shown_depth(cell)
            # Earlier versions shuffled passages by default; the setting "prompt" prevents their
            # results from being reused.
            if entry.PROMPTED and prompt == NONE:
                settings["prompt"] = {"order": DEFAULT_ORDER}
            name = f"{generator} on {dataset} from {passages.name.replace(f' for {dataset}', '')}"
            inputs = (passages,)
        return Node("generate", name, settings, inputs, entry, dataset)

    def passage_order(self, cell: Settings) -> str | None:
        """Describe the order of the passages in a cell's prompt, such as "in rank order".

        The result is ``None`` if the cell shows no passages, or if its generator or prompt is the
        user's own code, which may order them in any way.
        """
        generator, prompt = cell["generator"], cell["prompt"]
        if NONE in (generator, cell["retriever"]):
            return None
        if not self.config.generators[generator].PROMPTED:
            return None
        entry = self.config.prompts.get(prompt)
        if isinstance(entry, OwnEntry):
            return None
        order = DEFAULT_ORDER if entry is None else entry.order
        return f"shuffled (seed {self.config.seed})" if order == "shuffled" else "in rank order"

    def order_notes(self, cells: Iterable[Settings]) -> list[str]:
        """Return messages that state the order of the passages in the prompts of cells.

        There is one message if all prompts use the same order, and otherwise one per prompt.
        """
        orders = {cell["prompt"]: order for cell in cells if (order := self.passage_order(cell))}
        if len(set(orders.values())) == 1:
            return [f"prompts show passages {next(iter(orders.values()))}"]
        return [f"prompt {name} shows passages {order}" for name, order in orders.items()]

    def score(self, cell: Settings, metrics: Iterable[str], responses: str) -> Node:
        """Return the node that computes features of a cell's responses.

        Args:
            cell: The settings of the cell, by axis.
            metrics: The names of the features; all of them must need the same models.
            responses: The SHA-256 of the responses. It is part of the key, so that changed
                responses are scored again.
        """
        metrics = list(metrics)
        llm_entry, settings = self._models_of(metrics[0])
        # Qrels and answers are part of the key, so that a correction of them has an effect.
        settings |= {"metrics": metrics, "responses": responses, "gold": self._gold_digest(cell)}
        generated = self.generate(cell)
        name = f"of {generated.name}"
        return Node("score", name, settings, (generated,), llm_entry, cell["dataset"])

    def measure(self, cell: Settings, metrics: Iterable[str]) -> Node:
        """Return the node that computes the given retrieval metrics of a cell's ranking."""
        ranked = self.rank(cell)
        settings = {
            "metrics": list(metrics),
            "level": self.config.level,
            "gold": self._gold_digest(cell),
            "k": int(cell["retrieve_k"]),
        }
        # Earlier versions ignored grades; binary qrels keep their keys.
        if grades := self.grades(cell["dataset"]):
            settings["grades"] = _digest([json.dumps(grades, sort_keys=True)])
        return Node("measure", f"of {ranked.name}", settings, (ranked,), None, cell["dataset"])

    def compression(self, cell: Settings) -> Node:
        """Return the node that measures how much a cell's context processor shortens passages."""
        processed = self.process(cell)
        settings = {"metrics": [COMPRESSION]}
        name = f"of {processed.name}"
        return Node("measure", name, settings, (processed,), None, cell["dataset"])

    def unmeasurable(self, dataset: MirageDataset) -> dict[str, str]:
        """Return the metrics that cannot be computed on a dataset, each with the reason.

        For example, ``R@5`` needs queries with relevant passages. A metric is included only if no
        query of the dataset has the data that it needs.
        """
        reasons = {}
        for name in [*filter(is_feature, self.config.metrics), *self.measures]:
            needs = feature_needs(name) if is_feature(name) else ("relevant passages",)
            missing = [
                need
                for need in needs
                if need in GIVEN and need != "passages" and not any(map(GIVEN[need], dataset))
            ]
            if missing:
                reasons[name] = (
                    f"metric {name!r} needs {missing[0]}, and no query of {dataset.name} has any; "
                    "use a dataset that has them, or remove the metric"
                )
        return reasons

    @property
    def measures(self) -> list[str]:
        """The retrieval metrics of the grid."""
        return [name for name in self.config.metrics if is_measure(name)]

    @property
    def groups(self) -> list[list[str]]:
        """The features of the grid, grouped by the kinds of models that they need."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in filter(is_feature, self.config.metrics):
            groups.setdefault(_needed_models(name), []).append(name)
        return list(groups.values())

    def _models_of(self, metric: str) -> tuple[Any, dict[str, Any]]:
        """Return the LLM entry that a feature uses, and the settings of all models of the feature.

        The entry is ``None`` if the feature calls no LLM. The settings become part of the key of
        the result; they are empty if the feature needs no model.
        """
        needs, models, judge = _needed_models(metric), self.config.models, self.config.llm_eval
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
        """Return the values that identify an entry: its settings and the digests of its files.

        The values are cached, so that each file is read only once.
        """
        entry = getattr(self.config, SECTIONS[axis])[name]
        cell_entry = entry.at(cell)
        cache_key = (axis, name, tuple(cell.values()) if cell_entry is not entry else ())
        if cache_key not in self._entries:
            self._entries[cache_key] = cell_entry.key()
        return self._entries[cache_key]

    def _questions_digest(self, cell: Settings) -> str:
        """Return the SHA-256 of a cell's queries as systems see them: ids, languages and texts."""
        return self._digests(cell["dataset"])[0]

    def _gold_digest(self, cell: Settings) -> str:
        """Return the SHA-256 of a cell's complete queries, which include qrels and answers."""
        return self._digests(cell["dataset"])[1]

    def _digests(self, name: str) -> tuple[str, str]:
        if name not in self._digest_of:
            queries = self.dataset(name)
            self._digest_of[name] = (
                _digest(repr((query.id, query.language, query.text)) for query in queries),
                _digest(query.model_dump_json() for query in queries),
            )
        return self._digest_of[name]


def _needed_models(metric: str) -> tuple[str, ...]:
    """Return the kinds of models that a feature needs, such as ``("LLM",)``.

    For ``llm_eval``, whose judge is set separately, the result is ``("llm_eval",)``.
    """
    return (metric,) if metric == "llm_eval" else tuple(map(str, facts(metric).models))


def _shown_depth(cell: Settings) -> dict[str, int]:
    """Return ``{"k": N}``, where N is the number of passages that a cell shows.

    N is ``show_k``, or ``retrieve_k`` if that is smaller.
    """
    return {"k": min(int(cell["show_k"]), int(cell["retrieve_k"]))}


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()
