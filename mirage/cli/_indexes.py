"""The indexes that `mirage index` writes into a folder, and the models that encode the texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from mirage._base.quoting import shell_word
from mirage.cli._inputs import existing
from mirage.cli._llms import LLMSettings
from mirage.errors import DatasetError, UnknownNameError

if TYPE_CHECKING:
    from mirage.corpus import Corpus
    from mirage.llm import LLM
    from mirage.neural import SparseEmbedder
    from mirage.neural.embedders import Embedder
    from mirage.retrieval import DenseRetriever, Retriever

KINDS = ("dense", "sparse", "bm25")
"""Kinds of index. By default, retrieval uses the first of these that a folder has."""

_ADDED_BY = {"dense": "--encoder", "sparse": "--sparse"}


class Model(NamedTuple):
    """The name or folder of a model, and how to use it.

    Attributes:
        model: Name or folder of the model.
        base_url: Address or addresses of the endpoint that serves the model; ``None`` if it runs on
            this machine.
        query_model: For encoders: another model that encodes queries.
        pooling: For encoders: how the vectors of the tokens become one vector.
        max_length: For encoders: number of tokens after which a text is cut.
    """

    model: str
    base_url: str | Sequence[str] | None = None
    query_model: str | None = None
    pooling: Literal["mean", "cls", "last"] | None = None
    max_length: int | None = None


class LLMOf(Protocol):
    """A function that creates the client of a model at an endpoint."""

    def __call__(self, model: Model, file: Path | None = None) -> LLM:
        """Return the client of ``model``.

        ``file`` is the file that names the endpoint; ``None`` if the user typed the endpoint.
        """


def client_maker(settings: LLMSettings, *, trust: bool = False) -> LLMOf:
    """Return a function that creates LLM clients with the settings of a command.

    If ``trust`` is true, the API key may be sent to an endpoint that is named in a file.
    """

    def create_client(model: Model, file: Path | None = None) -> LLM:
        if file is not None and settings.key_from is not None and not trust:
            from mirage.llm.keys import check_key

            check_key(settings.key_from, model.base_url, file, typed=True)
        return settings.llm(model.model, model.base_url)

    return create_client


def embedder_of(encoder: Model, llm_of: LLMOf, file: Path | None = None) -> Embedder:
    """Return the embedder that encodes texts for a dense index.

    Args:
        encoder: Name and settings of the encoder.
        llm_of: Function that creates the client of an encoder at an endpoint.
        file: File that names the endpoint; ``None`` if the user typed the endpoint.
    """
    from mirage.neural import embedders

    if encoder.base_url is not None:
        return embedders.EndpointEmbedder(llm_of(encoder, file))
    return embedders.embedder_of(
        encoder.model,
        query_model=encoder.query_model,
        pooling=encoder.pooling,
        max_length=encoder.max_length,
    )


def sparse_embedder_of(encoder: Model) -> SparseEmbedder:
    """Return the embedder that computes the learned term weights of a sparse index.

    ``encoder`` is the name of its model, with settings.
    """
    from mirage.neural import SparseEmbedder

    return SparseEmbedder(
        encoder.model, query_model=encoder.query_model, max_length=encoder.max_length
    )


def write_encoder(folder: Path, kind: str, encoder: Model) -> None:
    """Write the name and settings of an index's encoder to ``KIND.json`` in ``folder``."""
    from mirage._base.files import write_text

    query_model = encoder.query_model
    encoder = encoder._replace(
        model=_resolved(encoder.model), query_model=query_model and _resolved(query_model)
    )
    facts = json.dumps(encoder._asdict())
    write_text(_note(folder, kind), facts + "\n", follow=False)


def _resolved(model: str) -> str:
    return str(Path(model).resolve()) if Path(model).is_dir() else model


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
            f"{path} does not name the model of the {kind} index; repeat `mirage index` with "
            f"{_ADDED_BY[kind]}"
        )
    base_url = facts.get("base_url")
    if base_url is not None and not (isinstance(base_url, str) and base_url):
        raise DatasetError(f"{path}: base_url must be the address of an endpoint, got {base_url!r}")
    types = {"query_model": str, "pooling": str, "max_length": int}
    settings: dict[str, Any] = {name: facts.get(name) for name in types}
    for name, value in settings.items():
        if value is not None and type(value) is not types[name]:
            raise DatasetError(
                f"{path}: the setting {name} is damaged ({value!r}); repeat `mirage index`"
            )
    return Model(model, base_url, **settings)


def _note(folder: Path, kind: str) -> Path:
    return folder / f"{kind}.json"


def corpus_of(folder: Path) -> Corpus:
    """Return the passages that `mirage index` wrote into a folder."""
    from mirage.corpus import Corpus

    if existing(folder).is_dir() and not (folder / "corpus").is_dir():
        raise DatasetError(
            f"{folder}: not an index; `mirage index DOCUMENTS {shell_word(str(folder))}` creates "
            "one"
        )
    return Corpus.open(folder / "corpus")


def default_kind(folder: Path) -> str:
    """Return the kind of index that retrieval uses by default in a folder."""
    return next((kind for kind in KINDS if (folder / kind).is_dir()), "bm25")


def retriever_of(folder: Path, corpus: Corpus, kinds: Iterable[str], llm_of: LLMOf) -> Retriever:
    """Return a retriever that searches the indexes of these kinds in a folder.

    The results of several indexes are fused.
    """
    from mirage.retrieval import HybridRetriever

    retrievers = [_retriever(folder, corpus, kind, llm_of) for kind in dict.fromkeys(kinds)]
    return retrievers[0] if len(retrievers) == 1 else HybridRetriever(*retrievers)


def _retriever(folder: Path, corpus: Corpus, kind: str, llm_of: LLMOf) -> Retriever:
    from mirage.retrieval import BM25, SparseRetriever

    if kind not in KINDS:
        raise UnknownNameError("kind of index", kind, KINDS)
    if kind == "dense":
        return dense_of(folder, corpus, llm_of)
    if kind == "sparse":
        _check_added(folder, kind)
        embedder = sparse_embedder_of(_encoder(folder, kind))
        return SparseRetriever.open(folder / kind, corpus, embedder)
    return BM25.open(folder / kind, corpus)


def dense_of(folder: Path, corpus: Corpus, llm_of: LLMOf) -> DenseRetriever:
    """Return the dense retriever that searches the vector index in a folder."""
    from mirage.retrieval import DenseRetriever

    _check_added(folder, "dense")
    encoder = _encoder(folder, "dense")
    embedder = embedder_of(encoder, llm_of, _note(folder, "dense"))
    return DenseRetriever.open(folder / "dense", corpus, embedder)


def _check_added(folder: Path, kind: str) -> None:
    if not (folder / kind).is_dir():
        raise DatasetError(
            f"{folder} has no {kind} index; add one with `mirage index DOCUMENTS "
            f"{shell_word(str(folder))} {_ADDED_BY[kind]} MODEL`"
        )
