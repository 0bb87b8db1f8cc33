"""Summarise a file of labels: labels per rater, agreement of raters, and open conflicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage._base.files import read_rows, validated
from mirage.arena import judge_agreement
from mirage.errors import DatasetError, JudgmentError
from mirage.labelling.records import Label
from mirage.labelling.session import Row, conflicts, rater_of
from mirage.metaeval import LabelledSentences, annotator_agreement
from mirage.models import SETTLED, Vote

__all__ = ["LabelSummary", "read_labels", "summarise_labels"]


@dataclass(frozen=True)
class LabelSummary:
    """A summary of a file of labels; prints as text.

    Attributes:
        labels: The number of times that each rater gave each label.
        agreement: The agreement of the raters. ``None`` if there are fewer than two raters, or if
            no item was labelled by two of them.
        open: The number of items with an unsettled disagreement.
        settled: The number of settled items.
    """

    labels: dict[str, Counter[str]]
    agreement: Any
    open: int
    settled: int

    def __str__(self) -> str:
        lines = [
            f"{rater}: {counts.total()} labels ({_counts(counts)})"
            for rater, counts in self.labels.items()
            if rater != SETTLED
        ]
        if self.agreement is not None:
            lines += ["", str(self.agreement), ""]
        if self.open or self.settled:
            lines.append(
                f"conflicts: {self.settled} settled, {self.open} open"
                + ("; settle them with --settle" if self.open else "")
            )
        return "\n".join(lines) or "no labels yet"


def read_labels(path: Path) -> list[Row]:
    """Read a file of labels, or of votes on pairs.

    Raises:
        DatasetError: A line is not valid, or the file has both kinds of rows. The message names
            the file and, if a line is not valid, the line and the field.
    """
    rows: list[Row] = []
    for where, fields in read_rows(path):
        if "verdict" in fields:
            rows.append(validated(Vote, fields, where))
        else:
            rows.append(validated(Label, fields, where))
    if len({type(row) for row in rows}) > 1:
        raise DatasetError(
            f"{path}: the file contains both labels of answers and votes on pairs; use a separate "
            "file for each"
        )
    return rows


def summarise_labels(path: Path) -> LabelSummary:
    """Summarise a file of labels or votes.

    Raises:
        DatasetError: The file cannot be read; see :func:`read_labels`.
    """
    rows = read_labels(path)
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        label = row.verdict if isinstance(row, Vote) else row.label
        counts.setdefault(rater_of(row), Counter())[label] += 1
    settled = sum(counts.get(SETTLED, Counter()).values())
    raters = [rater for rater in counts if rater != SETTLED]
    agreement = _agreement(path, rows) if len(raters) > 1 else None
    return LabelSummary(counts, agreement, len(conflicts(rows)), settled)


def _agreement(path: Path, rows: Sequence[Row]) -> Any:
    """Return the agreement of the raters; ``None`` if no two raters labelled the same item."""
    votes = [row for row in rows if isinstance(row, Vote) and row.judge != SETTLED]
    try:
        if votes:
            return judge_agreement(votes)
        return annotator_agreement(LabelledSentences.from_jsonl(path))
    except JudgmentError:
        return None


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))
