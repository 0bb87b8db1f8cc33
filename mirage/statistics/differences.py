"""Base classes for the difference between two means, such as the mean scores of two runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.statistics.bootstrap import Interval


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference between two means, with its interval and its test.

    Attributes:
        difference: The difference; NaN if there is no value.
        interval: Lower and upper end of the confidence interval; NaN if there is none, for example
            because there are fewer than ten clusters of queries.
        p: Two-sided p-value of the hypothesis that the means are equal.
    """

    difference: float
    interval: Interval
    p: float

    @property
    def cells(self) -> tuple[str, str]:
        """The difference and its interval as text; the interval is empty if there is none."""
        low, high = self.interval
        return f"{self.difference:+.3f}", "" if np.isnan(low) else f"[{low:+.3f}, {high:+.3f}]"


@dataclass(frozen=True, kw_only=True)
class CorrectedDifference(Difference):
    """One of several differences that are tested together.

    Attributes:
        corrected: The p-value, corrected for the number of comparisons by Holm's method, unless the
            caller chose another method.
    """

    corrected: float

    @property
    def mark(self) -> str:
        """Stars for ``corrected``: ``***`` up to 0.001, ``**`` up to 0.01, ``*`` up to 0.05."""
        return "*" * sum(self.corrected <= at for at in (0.05, 0.01, 0.001))
