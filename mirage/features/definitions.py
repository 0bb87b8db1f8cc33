"""Definitions: the name of a feature, the function behind it and its facts, once and together.

Every feature of this library is defined in its own file, in its ``DEFINITIONS``; whoever needs to
know something of a feature reads it from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mirage.features.base import Facts

__all__ = ["Definition"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A feature of this library.

    Attributes:
        name: its name, without a cutoff.
        function: computes it from an :class:`~mirage.features.Answered`, and a cutoff ``k`` if it
            has one; of a feature that needs a model, makes the feature from that model.
        facts: what is known of it.
        cutoff: whether its name ends in one, such as ``@10``.
    """

    name: str
    function: Callable[..., Any]
    facts: Facts
    cutoff: bool = False

    @property
    def example(self) -> str:
        """The name as it is used, with a cutoff of 10 for any."""
        return f"{self.name}@10" if self.cutoff else self.name

    @property
    def summary(self) -> str:
        """What it measures, in a line."""
        return re.sub(r":\w+:|`", "", (self.function.__doc__ or "").partition("\n")[0])
