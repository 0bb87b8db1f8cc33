"""Models that are loaded from a name or a folder: what is missing is said, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirage.errors import FeatureError

__all__ = ["STAYS", "attempt", "place_of"]

STAYS = (
    "a neural model cannot be sent to another process: it is large, and uses every core or the GPU "
    "already, so use one process (n_jobs=1)"
)
"""Why a model is not pickled."""


def place_of(model: str | Path) -> str:
    """The name of a model on the hub, or the whole path of the folder that holds one."""
    return str(Path(model).resolve()) if Path(model).is_dir() else str(model)


def attempt(name: str, load: Callable[[], Any]) -> Any:
    """What ``load`` gives, where the model ``name`` can be loaded.

    Raises:
        FeatureError: it cannot; says why, and what to do without a network.
    """
    try:
        return load()
    except Exception as error:  # of half a dozen libraries
        why = " ".join(str(error).split()) or type(error).__name__
        raise FeatureError(
            f"model {name!r} cannot be loaded ({why}); give a model's name on the Hugging Face hub "
            "or a folder that holds one. Without a network, fetch it beforehand where there is "
            f"one (hf download {name}) and bring the folder"
        ) from error
