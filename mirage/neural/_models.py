"""Models that are loaded from a name or a folder: what is missing is said, with what to do."""

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

__all__ = [
    "attempt",
    "encodable",
    "in_halves",
    "in_longest_first",
    "place_of",
    "remade",
    "weights_digest",
]

T = TypeVar("T")
U = TypeVar("U")


def remade(make: Callable[..., Any], *args: Any) -> Any:
    """How a model is pickled: it goes to the workers of an executor, and nowhere else.

    There ``make(*args)`` makes it anew: from its name, or else from its weights, which are sent.

    Raises:
        NeuralError: it is not an executor that sends it.
    """
    if not driver_host():
        raise NeuralError(
            "a neural model cannot be sent to another process: it is large, and uses every core or "
            "the GPU already, so use one process (n_jobs=1), or workers that load it once "
            "(executor=)"
        )
    return make, args


def place_of(model: str | Path) -> str:
    """The name of a model on the hub, or the whole path of the folder that holds one."""
    return str(Path(model).resolve()) if Path(model).is_dir() else str(model)


def encodable(text: str) -> str:
    """A text without lone surrogates, which files may hold and no tokenizer takes."""
    return text.encode("utf-8", "replace").decode()


def attempt(name: str, load: Callable[[], Any]) -> Any:
    """What ``load`` gives, where the model ``name`` can be loaded.

    Raises:
        NeuralError: it cannot; says why, and what to do without a network.
    """
    try:
        return load()
    except Exception as error:  # of half a dozen libraries
        why = " ".join(str(error).split()) or type(error).__name__
        raise NeuralError(
            f"model {name!r} cannot be loaded ({why}); give a model's name on the Hugging Face hub "
            "or a folder that holds one. Without a network, fetch it beforehand where there is "
            f"one (hf download {shell_word(name)}) and bring the folder"
        ) from error


def in_halves(batch: Sequence[T], compute: Callable[[Sequence[T]], list[U]]) -> list[U]:
    """What ``compute`` gives for a batch; one that does not fit in memory is done in halves.

    Raises:
        Exception: what ``compute`` raised for another reason, or for a single item.
    """
    try:
        return compute(batch)
    except Exception as error:
        if len(batch) < 2 or not _is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # they hold the memory that ran out
    half = len(batch) // 2
    return [*in_halves(batch[:half], compute), *in_halves(batch[half:], compute)]


def in_longest_first(
    texts: Sequence[str], batch_size: int, compute: Callable[[Sequence[str]], list[U]]
) -> list[U]:
    """What ``compute`` gives for each text, in their order, by :func:`in_halves` of batches.

    Texts of about one length are computed together, which takes little padding.
    """
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    results: list[U] = []
    for start in range(0, len(order), batch_size):
        batch = [texts[i] for i in order[start : start + batch_size]]
        results += in_halves(batch, compute)
    places = sorted(range(len(order)), key=order.__getitem__)
    return [results[place] for place in places]


def _is_out_of_memory(error: Exception) -> bool:
    """As torch says it on a GPU (an error of its own) and on a CPU (in words)."""
    named = type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError)
    return named or "not enough memory" in str(error)


def weights_digest(model: Any) -> str:
    """SHA-256 of the weights of a torch module and of their names."""
    torch, digest = package("torch"), hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
