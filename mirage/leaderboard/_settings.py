"""The keyword arguments that several methods of leaderboards have in common."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypedDict, TypeVar

from mirage.arena.judge import JudgeLike, PairJudge, as_judge
from mirage.errors import SettingError

P = ParamSpec("P")
T = TypeVar("T")


class RankOptions(TypedDict, total=False):
    """Keyword arguments of :meth:`mirage.Leaderboard.rank`; its docstring describes them."""

    judge: JudgeLike | None
    judgments: int | None
    until_width: float | None
    until_against: str | None
    out: str | Path | None
    seed: int
    progress: bool
    n_jobs: int
    concurrency: int
    timeout: float | None
    closed_book: Any


@dataclass(frozen=True)
class RankSettings:
    """Validated values of :class:`RankOptions`.

    Raises:
        SettingError: If settings contradict each other, a value is out of range, or ``judge`` is
            neither an LLM nor an object with a method ``judge``.
    """

    judge: JudgeLike | None = None
    judgments: int | None = None
    until_width: float | None = None
    until_against: str | None = None
    out: str | Path | None = None
    seed: int = 0
    progress: bool = True
    n_jobs: int = 1
    concurrency: int = 8
    timeout: float | None = None
    closed_book: Any = False

    def __post_init__(self) -> None:
        if self.judge is not None:
            object.__setattr__(self, "judge", as_judge(self.judge))
        elif self.judgments:
            raise SettingError(
                f"judgments={self.judgments} needs a judge: pass judge=PairwiseJudge(...)"
            )
        if self.judgments is not None and self.judgments < 0:
            raise SettingError(f"judgments must be at least 0, got {self.judgments}")
        if not self.asks_judge and (self.stops or self.out is not None):
            raise SettingError(
                "until_width=, until_against= and out= need a judge: pass judge=, with judgments "
                f"None or at least 1, got judgments={self.judgments}"
            )
        if not isinstance(self.closed_book, bool | Mapping):
            raise SettingError(
                "closed_book must be True or False or, for rank_many, a mapping from the name of "
                f"each system to the system without passages, got {reprlib.repr(self.closed_book)}"
            )
        if self.until_width is not None and not self.until_width > 0:
            raise SettingError(f"until_width must be above 0 (in logits), got {self.until_width}")

    @property
    def asks_judge(self) -> bool:
        """Whether a judge compares pairs of responses."""
        return self.judge is not None and self.judgments != 0

    @property
    def pair_judge(self) -> PairJudge:
        """The judge, if :attr:`asks_judge` is true."""
        return as_judge(self.judge)

    @property
    def stops(self) -> bool:
        """Whether there is a stopping rule."""
        return self.until_width is not None or self.until_against is not None


def with_named_closed_book(options: RankOptions, model: str) -> RankOptions:
    """Return options in which ``closed_book`` is a mapping from model name to system.

    Methods that rank a single system accept the system itself as ``closed_book``. The mapping then
    contains this system under the name ``model``. If ``closed_book`` is ``True`` or ``False``, the
    options are returned unchanged.
    """
    closed_book = options.get("closed_book", False)
    return (
        options
        if isinstance(closed_book, bool)
        else {**options, "closed_book": {model: closed_book}}
    )


def systems_by_name(models: Mapping[str, T]) -> Mapping[str, T]:
    """Check that ``models`` is a mapping, and return it.

    Raises:
        SettingError: If ``models`` is not a mapping.
    """
    if not isinstance(models, Mapping):
        raise SettingError(
            f"rank_many needs a mapping from name to system, such as {{'first': f, 'second': g}}, "
            f"got {reprlib.repr(models)}"
        )
    return models


def with_rank_options(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method so that its signature lists all options, and its calls are checked.

    The options are the keyword arguments of :class:`RankOptions`. A call with a missing, unknown or
    surplus argument raises a :class:`~mirage.errors.SettingError`.

    Args:
        method: A method with ``**options: Unpack[RankOptions]``.
    """
    signature = inspect.signature(method)
    named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
        )
        for field in fields(RankSettings)
    ]
    signature = signature.replace(parameters=[*named, *options])
    first = named[1].name

    @wraps(method)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        try:
            signature.bind(*args, **keywords)
        except TypeError as error:
            raise SettingError(
                f"{method.__name__}: {error}; its arguments are {', '.join(signature.parameters)}; "
                f"pass the system to rank as {first}, and its name as model="
            ) from None
        return method(*args, **keywords)

    shown: Any = call
    shown.__signature__ = signature
    return call
