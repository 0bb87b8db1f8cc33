"""Import packages that extras of this library install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mirage.errors import missing_package

__all__ = ["package"]


def package(name: str, extra: str = "neural") -> Any:
    """Import and return a package that an extra installs.

    Args:
        name: Name of the package.
        extra: Extra that installs it.

    Raises:
        MissingPackageError: If the package is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise missing_package(error.name or name, extra) from error
