"""The indexes that `mirage index` writes into a folder, and the models that made them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirage.cli._inputs import place_of
from mirage.cli._llms import llms_of
from mirage.errors import DatasetError, UnknownNameError

if TYPE_CHECKING:
    from mirage.corpus import Corpus
    from mirage.llm import LLM
    from mirage.neural import Embedder
    from mirage.retrieval import DenseRetriever, Retriever

__all__ = [
    "KINDS",
    "LLMOf",
    "Model",
    "asking",
    "corpus_of",
    "default_kind",
    "dense_of",
    "embedder_of",
    "retriever_of",
    "write_encoder",
]

KINDS = ("dense", "sparse", "bm25")
"""Of indexes; the first that a folder has is the one to retrieve by."""

_ADDED_BY = {"dense": "--encoder", "sparse": "--sparse"}


class Model(NamedTuple):
    """A model by its name or folder, and its endpoint or endpoints, where it has any."""

    model: str
    base_url: str | Sequence[str] | None = None


LLMOf = Callable[[Model], "LLM"]
"""How a model at an endpoint is asked."""


def asking(key_from: str | None, **settings: Any) -> LLMOf:
    """Asks models at endpoints as the options of a command say."""
    return lambda encoder: llms_of([encoder.model], encoder.base_url, key_from, **settings)[0]


def embedder_of(encoder: Model, llm_of: LLMOf) -> Embedder:
    """The embedder of a dense index."""
    from mirage import neural

    if encoder.base_url is not None:
        return neural.EndpointEmbedder(llm_of(encoder))
    return neural.embedder_of(encoder.model)


def write_encoder(folder: Path, kind: str, encoder: Model) -> None:
    """Note beside an index which model made it."""
    is_folder = Path(encoder.model).is_dir()
    model = str(Path(encoder.model).resolve()) if is_folder else encoder.model
    from mirage._base.files import write_text

    facts = json.dumps(encoder._replace(model=model)._asdict())
    write_text(_note(folder, kind), facts + "\n", follow=False)


def _encoder(folder: Path, kind: str) -> Model:
    from mirage._base.inputs import read_text

    path = _note(folder, kind)
    try:
        facts = json.loads(read_text(path, "settings"))
    except ValueError:
        facts = None
    model = facts.get("model") if isinstance(facts, dict) else None
    if not isinstance(model, str):
        raise DatasetError(
            f"{path}: does not say which model made the {kind} index; repeat `mirage index` with "
            f"{_ADDED_BY[kind]}"
        )
    return Model(model, facts.get("base_url"))


def _note(folder: Path, kind: str) -> Path:
    return folder / f"{kind}.json"


def corpus_of(folder: Path) -> Corpus:
    """The passages that `mirage index` wrote into a folder."""
    from mirage.corpus import Corpus

    if place_of(folder).is_dir() and not (folder / "corpus").is_dir():
        raise DatasetError(f"{folder}: is no index; `mirage index DOCUMENTS {folder}` makes one")
    return Corpus.open(folder / "corpus")


def default_kind(folder: Path) -> str:
    """The kind of index to retrieve by where none is named."""
    return next((kind for kind in KINDS if (folder / kind).is_dir()), "bm25")


def retriever_of(folder: Path, corpus: Corpus, kinds: Iterable[str], llm_of: LLMOf) -> Retriever:
    """What finds passages by indexes of these kinds, fused where there are several."""
    from mirage.retrieval import HybridRetriever

    retrievers = [_one_of(folder, corpus, kind, llm_of) for kind in dict.fromkeys(kinds)]
    return retrievers[0] if len(retrievers) == 1 else HybridRetriever(*retrievers)


def _one_of(folder: Path, corpus: Corpus, kind: str, llm_of: LLMOf) -> Retriever:
    from mirage.retrieval import BM25, SparseRetriever

    if kind not in KINDS:
        raise UnknownNameError("kind of index", kind, KINDS)
    if kind == "dense":
        return dense_of(folder, corpus, llm_of)
    if kind == "sparse":
        _check_added(folder, kind)
        return SparseRetriever.open(folder / kind, corpus, _encoder(folder, kind).model)
    return BM25.open(folder / kind, corpus)


def dense_of(folder: Path, corpus: Corpus, llm_of: LLMOf) -> DenseRetriever:
    """The index of vectors in a folder."""
    from mirage.retrieval import DenseRetriever

    _check_added(folder, "dense")
    embedder = embedder_of(_encoder(folder, "dense"), llm_of)
    return DenseRetriever.open(folder / "dense", corpus, embedder)


def _check_added(folder: Path, kind: str) -> None:
    if not (folder / kind).is_dir():
        raise DatasetError(
            f"{folder}: has no {kind} index; `mirage index DOCUMENTS {folder} {_ADDED_BY[kind]} "
            "MODEL` adds one"
        )
