"""Import the public names of a package when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, names: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: Name of the package.
        names: Public names by the module that defines them. Type checkers read the same names
            from imports under ``if TYPE_CHECKING:``.
    """
    modules = {name: module for module, group in names.items() for name in group}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # later accesses do not call this function
        return value

    def public() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, public
