"""The input of an audit: one system's scores in one metric, and fields that group the items."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.scores.metrics import MetricFacts
from mirage.scores.records import ScoreFile, name_of

_GROUPS = re.compile(
    r"(?:^|[._ ])(?:clusters?|groups?|doc|docs|documents?|document_?id|doc_?id|source|sources|file|"
    r"filename|url|title|session|session_?id|user|user_?id|conversation|conversation_?id|thread|"
    r"thread_?id|topic|subject|chapter|article|template|paraphrase_of|parent|parent_?id|seed|page|"
    r"passage|passage_?id|product|customer|(?:retrieved_|reference_)?contexts?|ground_truth_id)$",
    re.IGNORECASE,
)
_TEXTS = ("user_input", "question", "query", "input", "inputs", "prompt")


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with an evaluation.

    Attributes:
        kind: Kind of defect, such as ``"ceiling"``.
        where: Name of the system or file; both names if the finding is about two of them.
        metric: Name of the metric; empty if all are affected.
        problem: The defect with its numbers.
        effect: How the mean, the interval or the conclusion changes.
    """

    kind: str
    where: str
    metric: str
    problem: str
    effect: str

    def __str__(self) -> str:
        about = f"{self.where}, {self.metric}" if self.metric else self.where
        return f"{self.kind} ({about}): {self.problem}; {self.effect}"


@dataclass(frozen=True, eq=False)
class Side:
    """One system's scores in one metric.

    Attributes:
        label: Name of the system or file.
        file: The file with the scores.
        metric: Name of the metric.
        scores: The scores of each item, one per repeat; NaN for a failed score.
        facts: Direction and scale of the metric.
    """

    label: str
    file: ScoreFile
    metric: str
    scores: Mapping[str, Sequence[float]]
    facts: MetricFacts

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean score of each item that has one."""
        means = {}
        for item, row in self.scores.items():
            present = [score for score in row if not math.isnan(score)]
            if present:
                means[item] = math.fsum(present) / len(present)
        return means

    @cached_property
    def values(self) -> Floats:
        """The mean scores as an array, in the order of :attr:`means`."""
        return np.array([*self.means.values()], dtype=float)

    @property
    def mean(self) -> float:
        """The mean score of the items that have one."""
        return float(self.values.mean())

    def codes(self, groups: Mapping[str, str]) -> Ints:
        """Return the index of each item's group, in the order of :attr:`means`.

        ``groups`` maps items to the names of groups. An item without a group is its own group.
        """
        numbers: dict[str, int] = {}
        names = (groups.get(item, f"item {item}") for item in self.means)
        return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)


def group_fields(file: ScoreFile) -> dict[str, dict[str, str]]:
    """Return the fields that group items, such as ``document``, and the group of each item.

    Items of one group may be dependent. A field groups items if it has a name like ``document`` or
    ``session`` and more than half of the items have it. It must have at least two distinct values,
    and at least two items must share a value.

    Returns:
        A mapping from field name to a mapping from item to group.
    """
    fields: dict[str, dict[str, str]] = {}
    for entry in file.entries:
        values = dict(_flatten(entry.raw))
        if entry.cluster is not None:
            values["cluster"] = entry.cluster
        for name, value in values.items():
            fields.setdefault(name, {}).setdefault(entry.item, name_of(value))
    items = {entry.item for entry in file.entries}
    return {
        name: groups
        for name, groups in fields.items()
        if 1 < len(set(groups.values())) < len(groups) and len(groups) > len(items) / 2
    }


def _flatten(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            for inner, part in value.items():
                if _GROUPS.search(f"{name}.{inner}") and isinstance(part, str | int | list):
                    yield f"{name}.{inner}", part
        elif _GROUPS.search(name) and isinstance(value, str | int | list) and value != "":
            yield name, value


def texts_of(file: ScoreFile) -> dict[str, str]:
    """Return the questions in lower case and with single spaces, keyed by item.

    Items without a question are left out.
    """
    texts: dict[str, str] = {}
    for entry in file.entries:
        for owner in (entry.raw, entry.raw.get("vars"), entry.raw.get("doc")):
            if isinstance(owner, Mapping):
                text = next((owner[key] for key in _TEXTS if owner.get(key)), None)
                if text is not None:
                    texts.setdefault(entry.item, " ".join(name_of(text).split()).casefold())
                    break
    return texts
