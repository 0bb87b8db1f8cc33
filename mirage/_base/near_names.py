"""Attribute errors that suggest the nearest name."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mirage.errors import nearest_name

SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "chat": ("complete",),
        "evaluate": ("rank", "score", "compare", "run"),
        "feature_importances_": ("importances",),
        "from_csv": ("from_pandas", "load"),
        "from_pandas": ("load",),
        "from_dict": ("from_records", "of"),
        "from_file": ("load",),
        "from_json": ("load", "from_records"),
        "from_jsonl": ("load",),
        "from_list": ("from_records",),
        "from_pretrained": ("pretrained", "load"),
        "generate": ("complete", "run"),
        "head": ("sample",),
        "invoke": ("complete", "run"),
        "load": ("bundled",),
        "logits": ("to_pandas",),
        "predict": ("rank", "complete"),
        "read": ("load",),
        "read_jsonl": ("load",),
        "results": ("to_pandas",),
        "savefig": ("plot",),
        "scores": ("to_pandas",),
        "to_csv": ("to_pandas", "save"),
        "to_df": ("to_pandas",),
        "to_html": ("write",),
        "to_pandas": ("ranking",),
        "to_jsonl": ("save",),
        "top": ("best",),
        "values": ("to_pandas",),
        "where": ("filter", "select"),
        "winner": ("best",),
        "write": ("save",),
    }
)
"""Method names that other libraries use, each with Mirage's names for the same, best first."""

SIMILAR = 0.6
"""Least similarity of a suggested name, as difflib measures it; also the default of difflib."""


def hint(name: str, names: Iterable[str]) -> str:
    """Return the end of a message that suggests the most similar of ``names``, if any is similar.

    Example:
        >>> hint("plott", ["best", "plot"]), hint("evaluate", ["rank"]), hint("x", ["rank"])
        ("; did you mean 'plot'?", "; did you mean 'rank'?", '')
    """
    public = sorted(entry for entry in names if not entry.startswith("_"))
    synonym = next((entry for entry in SYNONYMS.get(name, ()) if entry in public), None)
    suggestion = synonym or nearest_name(name, public, SIMILAR)
    return "" if suggestion is None else f"; did you mean {suggestion!r}?"


class NearNamesMeta(ABCMeta):
    """Metaclass of classes whose errors on missing class attributes suggest similar names."""

    if not TYPE_CHECKING:  # a type checker would otherwise accept every name

        def __getattr__(cls, name: str) -> Any:
            # With a name set, the interpreter adds no suggestion of its own to the message.
            suggestion = "" if name.startswith("_") else hint(name, dir(cls))
            message = f"class {cls.__name__} has no attribute {name!r}{suggestion}"
            raise AttributeError(message, name=name)


class NearNames(metaclass=NearNamesMeta):
    """Base class whose errors on missing attributes suggest the most similar name."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property failed: raise its own error again
                return object.__getattribute__(self, name)
            suggestion = "" if name.startswith("_") else hint(name, dir(self))
            message = f"{type(self).__name__} has no attribute {name!r}{suggestion}"
            raise AttributeError(message, name=name)
