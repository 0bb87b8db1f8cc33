"""The neighbours of a system in a ranking, and its faults that are rarer in better systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mirage.features.findings import Finding
    from mirage.ranking.entries import Entry

__all__ = ["standing_note"]

NEIGHBOURS = 3
"""Maximum number of better systems with which the faults of a system are compared."""

REASONS = 3
"""Largest number of faults in a note."""

_WITHOUT_MEANS = (*("misplaced citation", "denial", "no response", "empty answer", "not checked"),)
"""Kinds of findings whose frequency cannot be read from the mean of a feature."""


def standing_note(entries: Sequence[Entry], entry: Entry, findings: Sequence[Finding]) -> str:
    """Return a text on a system's neighbours, and on its faults that are rarer in better systems.

    A fault is mentioned if the system has it at least twice as often as the three systems just
    above it, according to the mean of the feature that measures the fault. These may be anchors
    (reference models), whose responses are not available but whose mean features are.

    Args:
        entries: Entries of the ranking, best first.
        entry: Entry of the system.
        findings: Faults in the responses of the system.
    """
    above = [other for other in entries if other.rank < entry.rank]
    below = [other for other in entries if other.rank > entry.rank]
    if not above:
        neighbours = f", just above {below[0].model}" if below else ""
        return f"{entry.model} has the best logit{neighbours}."
    middle = f"between {above[-1].model} and {below[0].model}" if below else ""
    text = f"{entry.model} is {middle or f'last, just below {above[-1].model}'}."
    faults = [finding.counted for finding in _more_often(entry, above[-NEIGHBOURS:], findings)][
        :REASONS
    ]
    if not faults:
        return text
    several = "systems" if len(above) > 1 else "system"
    return f"{text} More often than the {several} just above, it {'; '.join(faults)}."


def _more_often(
    entry: Entry, above: Sequence[Entry], findings: Sequence[Finding]
) -> Iterator[Finding]:
    """Yield the findings on faults that ``entry`` has at least twice as often as systems ``above``.

    The frequency of a fault in these better systems is the mean over them.
    """
    from mirage.features.findings import CHECKS

    features = {check.kind: check.feature for check in CHECKS}
    for finding in findings:
        if finding.kind in _WITHOUT_MEANS:
            continue
        name = features[finding.kind]
        values = [other.features.get(name, np.nan) for other in above]
        if name not in entry.features or np.isnan(values).all():
            continue
        if _loss(name, float(np.nanmean(values))) <= _loss(name, entry.features[name]) / 2:
            yield finding


def _loss(name: str, mean: float) -> float:
    """Return the distance from the mean of the feature ``name`` to its best value, from 0 to 1."""
    from mirage.features import facts

    return 1 - mean if facts(name).direction == "higher" else mean
