"""How many queries were left out for each reason, in a line of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


def reason_counts(reasons: Mapping[str, str]) -> str:
    """Such as ``no judgment: 3, not sampled: 2``, the most frequent first."""
    return ", ".join(f"{reason}: {n}" for reason, n in Counter(reasons.values()).most_common())
