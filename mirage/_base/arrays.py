"""Types of arrays, and checks of arrays that come from files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]


def are_within(numbers: NDArray[Any], size: int) -> bool:
    """Return whether all integers are at least 0 and below ``size``."""
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < size)


def are_ends(ends: NDArray[Any], size: int) -> bool:
    """Return whether integers start at 0, never decrease, and end at ``size``.

    Such integers are the boundaries of consecutive spans.
    """
    return bool(len(ends) and ends[0] == 0 and ends[-1] == size and (ends[1:] >= ends[:-1]).all())


def is_permutation(numbers: NDArray[Any]) -> bool:
    """Return whether each integer from 0 to ``len(numbers) - 1`` occurs exactly once."""
    if not are_within(numbers, len(numbers)):
        return False
    occurs = np.zeros(len(numbers), np.bool_)
    occurs[numbers] = True
    return bool(occurs.all())
