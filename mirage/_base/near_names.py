"""Attribute errors that suggest the nearest name."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mirage.errors import nearest_name

SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Board": ("Leaderboard",),
        "a": ("models",),
        "add": ("rank",),
        "add_model": ("rank",),
        "anchors": ("entries",),
        "answer": ("text", "run"),
        "answers": ("responses",),
        "ask": ("complete", "run"),
        "b": ("models",),
        "best": ("models",),
        "by_kind": ("kinds",),
        "call": ("complete",),
        "chat": ("complete",),
        "ci": ("interval",),
        "compare": ("rank_many", "p_better", "Leaderboard"),
        "compute": ("score",),
        "confidence_interval": ("interval",),
        "content": ("text",),
        "contexts": ("passages",),
        "cost": ("usage",),
        "declined": ("accuracy",),
        "description": ("words",),
        "entries": ("models",),
        "evaluate": ("rank", "score", "compare", "run", "Leaderboard"),
        "explain": ("findings", "importances"),
        "feature_importances_": ("importances",),
        "feature_names": ("names",),
        "fit_transform": ("fit",),
        "from_csv": ("from_pandas", "from_qa", "load", "from_judgments"),
        "from_dict": ("from_records", "of"),
        "from_file": ("load",),
        "from_json": ("load", "from_records"),
        "from_jsonl": ("load", "from_judgments"),
        "from_list": ("from_records",),
        "from_pandas": ("load", "from_judgments"),
        "from_pretrained": ("pretrained", "load"),
        "generate": ("complete", "run"),
        "head": ("sample", "to_pandas"),
        "invoke": ("complete", "run"),
        "judge_pairs": ("judge",),
        "keys": ("names", "models"),
        "languages": ("language", "keys"),
        "load": ("bundled",),
        "load_dataset": ("MirageDataset",),
        "logit": ("fit",),
        "logits": ("to_pandas", "fit"),
        "lower": ("interval",),
        "mean": ("difference", "features"),
        "mean_difference": ("difference",),
        "name": ("model",),
        "names": ("models",),
        "order": ("models",),
        "p": ("p_better",),
        "p_value": ("p_better",),
        "p_values": ("p_better",),
        "predict": ("rank", "complete", "fit"),
        "predict_logits": ("predict",),
        "queries": ("dataset", "query_ids"),
        "question": ("text",),
        "questions": ("query_ids",),
        "rank": ("models", "Leaderboard"),
        "ranks": ("entries",),
        "rate": ("right", "count"),
        "ratings": ("fit",),
        "read": ("load",),
        "read_jsonl": ("load",),
        "results": ("to_pandas",),
        "right": ("accuracy",),
        "run": ("score", "compare"),
        "save": ("write",),
        "savefig": ("plot",),
        "score": ("logit", "rank"),
        "scores": ("to_pandas",),
        "share": ("right", "count"),
        "show": ("to_text",),
        "shuffle": ("sample",),
        "significance": ("p_better",),
        "significant": ("p_better",),
        "sort": ("to_pandas",),
        "split": ("filter", "sample"),
        "summary": ("to_text",),
        "systems": ("models",),
        "table": ("to_text",),
        "text": ("words", "to_text"),
        "tie": ("p_better",),
        "to_csv": ("to_pandas", "save"),
        "to_dataframe": ("to_pandas",),
        "to_df": ("to_pandas",),
        "to_html": ("write",),
        "to_json": ("save",),
        "to_jsonl": ("save",),
        "to_pandas": ("ranking", "queries"),
        "top": ("best", "models"),
        "total": ("n", "of"),
        "train": ("fit", "from_judgments"),
        "upper": ("interval",),
        "values": ("to_pandas",),
        "vote": ("compare",),
        "where": ("filter", "select"),
        "why": ("findings",),
        "winner": ("best", "p_better"),
        "write": ("save",),
        "wrong": ("accuracy",),
    }
)
"""Names of other libraries, each with similar names of Mirage, the most similar first."""

SIMILAR = 0.7
"""Smallest similarity (by difflib) of a suggested name; 0.6 would suggest "drawn" for "rank"."""


def hint(name: str, names: Iterable[str]) -> str:
    """Return the end of an error message that suggests one of ``names`` instead of ``name``.

    Names that :data:`SYNONYMS` lists for ``name``, such as ``rank`` for ``evaluate``, are preferred
    to names with a similar spelling. The result is empty if there is neither.

    Example:
        >>> hint("plott", ["best", "plot"]), hint("evaluate", ["rank"]), hint("x", ["rank"])
        ("; did you mean 'plot'?", "; did you mean 'rank'?", '')
    """
    public = sorted(entry for entry in names if not entry.startswith("_"))
    synonym = next((entry for entry in SYNONYMS.get(name, ()) if entry in public), None)
    suggestion = synonym or nearest_name(name, public, SIMILAR)
    return "" if suggestion is None else f"; did you mean {suggestion!r}?"


class _Suggestion:
    """An error message that searches for a similar name only when it is displayed.

    The search takes half a millisecond, and pydantic and ``hasattr`` look up many missing names
    without displaying the error.
    """

    def __init__(self, start: str, name: str, owner: object) -> None:
        self._start = start
        self._name = name
        self._owner = owner

    def __str__(self) -> str:
        suggestion = "" if self._name.startswith("_") else hint(self._name, dir(self._owner))
        return f"{self._start} has no attribute {self._name!r}{suggestion}"

    def __repr__(self) -> str:
        return repr(str(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class NearNamesMeta(ABCMeta):
    """Metaclass: the error for a missing class attribute suggests the most similar name."""

    if not TYPE_CHECKING:  # a type checker would otherwise accept every name

        def __getattr__(cls, name: str) -> Any:
            # With a name set, the interpreter adds no suggestion of its own to the message.
            raise AttributeError(_Suggestion(f"class {cls.__name__}", name, cls), name=name)


class NearNames(metaclass=NearNamesMeta):
    """Base class: the error for a missing attribute suggests the most similar name."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property failed: raise its own error again
                return object.__getattribute__(self, name)
            raise AttributeError(_Suggestion(type(self).__name__, name, self), name=name)
