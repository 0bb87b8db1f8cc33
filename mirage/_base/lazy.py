"""Import the public names of a package when they are first used (PEP 562)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["lazy"]


def lazy(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    The public names and their modules are read from the imports for the type checker in the
    package's own ``file``, under ``if TYPE_CHECKING:``. So each name is written only once.

    Args:
        package: Name of the package.
        file: Path of its ``__init__.py``.
    """
    modules = _imported_for_types(file)

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # later accesses do not call this function
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names


def _imported_for_types(file: str) -> dict[str, str]:
    """Return the names that a file imports under ``if TYPE_CHECKING:``, each with its module."""
    return {
        alias.name: statement.module
        for block in ast.parse(Path(file).read_text(encoding="utf-8")).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
