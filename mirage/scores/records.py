"""Records of scores per item, and the checks that all readers share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mirage._base.rows import is_missing
from mirage.errors import DatasetError, UnknownNameError

_WORDS = {
    **dict.fromkeys(("true", "pass", "passed", "yes", "correct", "c"), 1.0),
    **dict.fromkeys(("false", "fail", "failed", "no", "incorrect", "i", "n"), 0.0),
    **dict.fromkeys(("partial", "p"), 0.5),
    **dict.fromkeys(("", "nan", "null", "none", "na", "n/a", "<na>", "error"), math.nan),
}
"""Scores by their texts. Single letters are the grades of inspect_ai; NaN is a missing score."""

_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")


class Entry(NamedTuple):
    """The scores of one answer of one system to one item.

    Attributes:
        where: Location in the file, for errors.
        raw: The entry as it is in the file.
        item: Name of the item. Two systems are compared on items with equal names.
        scores: Scores by metric; NaN if a score is missing or its metric failed.
        system: Name of the system; empty if the file does not name it.
        cluster: Name of the cluster of dependent items; ``None`` if the file names none.
        repeat: Name of the repeat; empty if the file does not name it.
        failure: Reason why the whole item failed; empty if it did not fail. If it failed, metrics
            without a score count as failed.
        answer: The system's answer, if the file has it.
    """

    where: str
    raw: Mapping[str, Any]
    item: str
    scores: Mapping[str, float]
    system: str = ""
    cluster: str | None = None
    repeat: str = ""
    failure: str = ""
    answer: str | None = None


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """The scores in one file or object.

    Attributes:
        source: Name of the file or object.
        format: Name of the format.
        entries: The scores, one entry for each answer.
        skipped: Reasons why metrics are not compared, by metric.
        lower: Mapping from a metric to whether smaller scores are better. It has only the metrics
            whose direction the file shows.
    """

    source: str
    format: str
    entries: tuple[Entry, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    lower: Mapping[str, bool] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of first occurrence."""
        return tuple(dict.fromkeys(name for entry in self.entries for name in entry.scores))

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems, in the order of first occurrence."""
        return tuple(dict.fromkeys(entry.system for entry in self.entries))

    def of_system(self, name: str | None) -> ScoreFile:
        """Return the scores of one system.

        Args:
            name: Name of the system; ``None`` if the file has only one.

        Raises:
            DatasetError: If the file has several systems, and ``name`` is ``None``.
            UnknownNameError: If the file has no such system.
        """
        if name is None:
            if len(self.systems) > 1:
                names = ", ".join(self.systems[:5]) + (", ..." if len(self.systems) > 5 else "")
                raise DatasetError(
                    f"{self.source}: the file has scores of {len(self.systems)} systems "
                    f"({names}); choose one with --before-system or --after-system"
                )
            return self
        if name not in self.systems:
            raise UnknownNameError("system", name, self.systems, f"in {self.source}")
        entries = tuple(entry for entry in self.entries if entry.system == name)
        return replace(self, entries=entries)


def score_of(value: Any, where: str, name: str) -> float:
    """Return a score as a number; NaN if it is missing.

    Args:
        value: A number, a truth value, or a text such as ``0.5``, ``true``, ``pass`` or ``C``.
        where: Location of the entry, for errors.
        name: Name of the metric, for errors.

    Raises:
        DatasetError: If the value is not a score, or is infinite.

    Example:
        >>> score_of("pass", "file, line 2", "quality"), score_of(0.5, "file, line 2", "quality")
        (1.0, 0.5)
    """
    if is_missing(value):
        return math.nan
    if isinstance(value, str):
        text = value.strip().casefold()
        if text in _WORDS:
            return _WORDS[text]
    try:
        number = math.nan if isinstance(value, list | dict | set) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        hint = ""
        if has_decimal_comma(value):
            hint = f"; use a decimal point, {value.strip().replace(',', '.')}"
        raise DatasetError(f"{where}: {name!r} must be a number, got {shortened(value)}{hint}")
    return number


def has_decimal_comma(value: Any) -> bool:
    """Return whether a value is a text with a number that has a decimal comma, such as ``0,5``."""
    return isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value) is not None


def is_score(value: Any) -> bool:
    """Return whether :func:`score_of` accepts a value."""
    try:
        score_of(value, "", "")
    except DatasetError:
        return False
    return True


def shortened(value: Any) -> str:
    """Return a value as text of at most 60 characters, for an error message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def name_of(value: Any) -> str:
    """Return the name of an item, system or cluster from a text, a number or a JSON object."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # pandas reads a column of integers with gaps as floats
    if isinstance(value, bool | int | float):
        return str(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def check_object(value: Any, where: str, name: str) -> Mapping[str, Any]:
    """Check that a value is a JSON object, and return it.

    Args:
        value: The value.
        where: Location of the entry, for errors.
        name: Name of the value, for errors.

    Raises:
        DatasetError: If the value is not a JSON object.
    """
    if not isinstance(value, Mapping):
        raise DatasetError(f"{where}: {name} must be an object, got {shortened(value)}")
    return value


def check_list(value: Any, where: str, name: str) -> Sequence[Any]:
    """Check that a value is a JSON array, and return it.

    Args:
        value: The value.
        where: Location of the entry, for errors.
        name: Name of the value, for errors.

    Raises:
        DatasetError: If the value is not a JSON array.
    """
    if not isinstance(value, list | tuple):
        raise DatasetError(f"{where}: {name} must be a list, got {shortened(value)}")
    return value


def check_text(row: Mapping[str, Any], key: str, where: str) -> str:
    """Return the value of a field of an entry, as text.

    Args:
        row: The entry.
        key: Name of the field.
        where: Location of the entry, for errors.

    Raises:
        DatasetError: If the field is missing or empty, or contains an array or an object.
    """
    value = row.get(key)
    if is_missing(value) or value == "" or isinstance(value, list | dict):
        raise DatasetError(f"{where}: field {key!r} must be a text, got {shortened(value)}")
    return name_of(value)


def answer_of(value: Any) -> str | None:
    """Return the answer of a system, or ``None`` if the value is not a text."""
    return value if isinstance(value, str) else None


def finish(
    source: str,
    form: str,
    entries: Iterable[Entry],
    skipped: Mapping[str, str] | None = None,
    lower: Mapping[str, bool] | None = None,
) -> ScoreFile:
    """Return a score file with these entries, after checking that at least one has a score.

    Args:
        source: Name of the file or object.
        form: Name of the format.
        entries: The scores of each answer.
        skipped: Reasons why metrics are not compared, by metric.
        lower: Mapping from a metric to whether smaller scores are better. It has only the metrics
            whose direction the file shows.

    Raises:
        DatasetError: If there is no entry, or no entry has a score.
    """
    file = ScoreFile(source, form, tuple(entries), skipped or {}, lower or {})
    if not file.entries:
        raise DatasetError(f"{source}: the file has no items")
    if not any(math.isfinite(value) for entry in file.entries for value in entry.scores.values()):
        reasons = [f"{name}: {why}" for name, why in file.skipped.items()][:3]
        hint = f" ({'; '.join(reasons)})" if reasons else ""
        raise DatasetError(f"{source}: none of the {len(file.entries)} items has a score{hint}")
    return file
