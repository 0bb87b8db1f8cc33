"""Import packages that extras of this library install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mirage.errors import EXTRAS, missing_package


def package(name: str, extra: str | None = None) -> Any:
    """Import and return a module that an extra installs, by default the one in :data:`EXTRAS`."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        root = name.partition(".")[0]
        extra = extra or next(key for key, names in EXTRAS.items() if root in names)
        raise missing_package(error.name or name, extra) from error
