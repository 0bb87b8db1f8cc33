"""Delay the imports of a package's names (PEP 562) or of a function until they are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, names: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package that imports its names at first use.

    ``names`` maps each module to the public names that it defines. Type checkers read the same
    names from imports under ``if TYPE_CHECKING:``.
    """
    modules = {name: module for module, group in names.items() for name in group}

    def get(name: str) -> Any:
        # pytest loads this module in every run, so further imports wait until they are needed.
        from mirage._base.garbage import no_collection

        if name not in modules:
            from mirage._base.near_names import hint

            raise AttributeError(
                f"module {package!r} has no attribute {name!r}{hint(name, modules)}"
            )
        with no_collection():
            value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # later accesses do not call this function
        return value

    def public() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, public


def imported_when_called(module: str, name: str) -> Callable[..., Any]:
    """Return a function that calls the function ``name`` of another module.

    The other module is imported at the first call. Use this for a method whose code is in a package
    that the module of the class must not import. ``tests/test_layers.py`` lists the few functions
    that are called in this way.
    """

    def call(*args: Any, **keywords: Any) -> Any:
        return getattr(import_module(module), name)(*args, **keywords)

    return call
