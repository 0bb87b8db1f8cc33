"""Many judgments as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.models import Judgment

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Judgments"]


@dataclass(frozen=True, eq=False)
class Judgments:
    """Judgments as numpy columns, a row each.

    ``query``, ``a`` and ``b`` (int32) index into ``query_ids`` and ``models``; ``score`` (float32)
    is what model a got: 1 for a win, 0 for a loss, 0.5 for a tie.
    """

    query_ids: tuple[str, ...]
    models: tuple[str, ...]
    query: NDArray[np.int32]
    a: NDArray[np.int32]
    b: NDArray[np.int32]
    score: NDArray[np.float32]
