"""Helpers that load models by name or folder, and that run them in batches."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mirage._base.packages import package
from mirage._base.quoting import shell_word
from mirage.errors import NeuralError
from mirage.executors.base import driver_host

T = TypeVar("T")
U = TypeVar("U")


def reduce_model(make: Callable[..., Any], *args: Any) -> Any:
    """Return the value of ``__reduce__`` for a model.

    Only an executor (:mod:`mirage.executors`) may pickle a model, to send it to its workers. A
    worker calls ``make(*args)`` to create the model again.

    Raises:
        NeuralError: The model is being pickled for any other process, such as one of joblib.
    """
    if not driver_host():
        raise NeuralError(
            "a neural model cannot be sent to another process, because it is large and already "
            "uses all cores or the GPU; use one process (n_jobs=1), or an executor whose workers "
            "load it once (executor=)"
        )
    return make, args


def model_location(model: str | Path) -> str:
    """Return the absolute path of a model folder, or the unchanged name of a model on the hub."""
    return str(Path(model).resolve()) if Path(model).is_dir() else str(model)


def encodable(text: str) -> str:
    """Return a text with question marks instead of lone surrogates (invalid characters).

    Texts from files may contain lone surrogates, but tokenizers reject them.
    """
    return text.encode("utf-8", "replace").decode()


def attempt(name: str, load: Callable[[], Any]) -> Any:
    """Return the result of ``load``, and convert any error into a NeuralError.

    Args:
        name: The name or folder of the model, for error messages.
        load: A function that loads the model or a part of it.
    """
    try:
        return load()
    except Exception as error:  # several libraries are involved, each with its own errors
        why = " ".join(str(error).split()) or type(error).__name__
        if "trust_remote_code" in why:
            raise NeuralError(
                f"model {name!r} needs code from its repository, which mirage never runs. Use a "
                "model without such code or, if you trust the code, serve the model and give "
                "base_url, or load it in Python and pass the object"
            ) from error
        raise NeuralError(
            f"model {name!r} cannot be loaded ({why}); give the name of a model on the Hugging "
            "Face hub, or the folder of a model. Without a network, download the model on a "
            f"computer with one (hf download {shell_word(name)}) and copy the folder"
        ) from error


def compute_in_halves(batch: Sequence[T], compute: Callable[[Sequence[T]], list[U]]) -> list[U]:
    """Call ``compute`` on a batch, and return its results.

    If the batch does not fit in memory, it is split in two, and each half is computed in the same
    way.
    """
    try:
        return compute(batch)
    except Exception as error:
        if len(batch) < 2 or not _is_out_of_memory(error):
            raise
        # The frames of the traceback would keep the tensors that fill the memory alive.
        traceback.clear_frames(error.__traceback__)
    half = len(batch) // 2
    return [*compute_in_halves(batch[:half], compute), *compute_in_halves(batch[half:], compute)]


def compute_longest_first(
    texts: Sequence[str], batch_size: int, compute: Callable[[Sequence[str]], list[U]]
) -> list[U]:
    """Return the result of ``compute`` for each text, in the order of the texts.

    ``compute`` is called with batches of texts of similar length, the longest texts first, to
    minimize padding. A batch that does not fit in memory is split by :func:`compute_in_halves`.
    """
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    results: list[U] = []
    for start in range(0, len(order), batch_size):
        batch = [texts[i] for i in order[start : start + batch_size]]
        results += compute_in_halves(batch, compute)
    positions = sorted(range(len(order)), key=order.__getitem__)
    return [results[position] for position in positions]


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means that torch ran out of memory.

    On a GPU, the type of the error shows this; on a CPU, only its message may.
    """
    by_type = type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError)
    return by_type or "not enough memory" in str(error)


def weights_digest(model: Any) -> str:
    """Return the SHA-256 of a torch module's weights, with their names, types and shapes."""
    torch, digest = package("torch"), hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
