"""Find problems in evaluation results from any tool."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mirage._base.tables import WIDTH
from mirage.errors import SettingError
from mirage.scores.reading import FieldNames, read_scores
from mirage.scores.records import ScoreFile
from mirage.testing._audit_checks import PAIR_CHECKS, SIDE_CHECKS
from mirage.testing._audit_sides import Finding, Side
from mirage.testing._score_pairs import check_metric_names, choose_metrics, facts_of, scores_of


@dataclass(frozen=True, eq=False)
class Audit:
    """The findings of :func:`audit_scores`; prints as a list.

    Attributes:
        findings: The defects, in the order of files and metrics.
        sides: Names of the systems or files that were checked.
        metrics: Names of the metrics that were checked.
        skipped: Metrics that were not checked, each with the reason.
    """

    findings: tuple[Finding, ...]
    sides: tuple[str, ...]
    metrics: tuple[str, ...]
    skipped: Mapping[str, str]

    def __str__(self) -> str:
        count = len(self.findings)
        number = f"{count} finding{'' if count == 1 else 's'}" if count else "nothing found"
        paragraphs = [f"{', '.join(self.sides)}; {', '.join(self.metrics)}: {number}"]
        paragraphs += [f"{i}. {finding}" for i, finding in enumerate(self.findings, 1)]
        paragraphs += [f"not checked, {name}: {why}" for name, why in self.skipped.items()]
        return "\n".join(
            textwrap.fill(text, WIDTH, subsequent_indent="   ", break_long_words=False)
            for text in paragraphs
        )

    def plain(self) -> dict[str, Any]:
        """Return the audit as a dictionary that can be written as JSON."""
        return {
            "findings": [vars(finding) for finding in self.findings],
            "sides": list(self.sides),
            "metrics": list(self.metrics),
            "skipped": dict(self.skipped),
        }


def audit_scores(
    *scores: Any,
    metrics: Sequence[str] | None = None,
    fields: FieldNames | None = None,
    format: str | None = None,
    lower_is_better: Collection[str] = (),
    higher_is_better: Collection[str] = (),
    scales: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> Audit:
    """Find defects in an evaluation that make its scores misleading.

    The scores of each system in each metric are checked for these defects:

    - Some scores are missing because the metric failed. Most tools leave them out of their means.
    - Some items occur twice.
    - Items with the same value of a field such as ``document`` have similar scores. Intervals that
      ignore the field are then too narrow.
    - Most items have the best score, or most have the worst.
    - All items have the same score.
    - There are too few items to rule out a loss of 10 % of the scale.
    - The repeats of an item disagree.
    - Scores are correlated with the length of the answers.

    Each pair of systems is checked for items that only one of them has, for equal scores on nearly
    all items, and for different scales.

    Args:
        scores: Files or objects with scores: results of an evaluation tool such as ragas, tables,
            DataFrames or lists of rows. :func:`compare_scores` lists all formats.
        metrics: Names of the metrics to check; by default all.
        fields: Names of fields, such as ``{"cluster": "metadata.document"}``. The keys are those
            of :func:`compare_scores`.
        format: Name of the format, such as ``ragas``; by default it is detected from the content.
        lower_is_better: Metrics for which smaller is better.
        higher_is_better: Metrics for which larger is better. This is also assumed for metrics that
            are not known.
        scales: Lowest and highest possible score by metric.

    Returns:
        The findings.

    Raises:
        DatasetError: A file cannot be read.
        UnknownNameError: There is no such metric, field or format.
        SettingError: There are no files, or the direction of a metric is not known.

    Example:
        >>> rows = [{"item": f"q{i}", "score": 1} for i in range(40)]
        >>> [finding.kind for finding in audit_scores(rows).findings]
        ['one label']
    """
    if not scores:
        raise SettingError("audit_scores needs at least one file")
    files = [
        read_scores(data, fields=fields, format=format, name=f"scores {number}")
        for number, data in enumerate(scores, 1)
    ]
    parts = [file.of_system(name) for file in files for name in file.systems]
    labels = _labels(parts)
    names = list(dict.fromkeys(name for part in parts for name in part.metrics))
    skipped = {name: why for part in parts for name, why in part.skipped.items()}
    chosen = choose_metrics(names, skipped, metrics, "checked")
    check_metric_names(names, lower_is_better, higher_is_better, scales)
    findings: list[Finding] = []
    for name in chosen:
        rows = [scores_of(part, name) for part in parts]
        facts = facts_of(
            name, parts, rows, lower=lower_is_better, higher=higher_is_better, scales=scales
        )
        sides = [
            Side(label, part, name, row, facts)
            for label, part, row in zip(labels, parts, rows, strict=True)
            if name in part.metrics
        ]
        findings += _check(sides)
    return Audit(tuple(_merged(findings)), tuple(labels), tuple(chosen), skipped)


def _labels(parts: Sequence[ScoreFile]) -> list[str]:
    """Return a label for each system: its name or, if that is not enough, its file.

    Each of ``parts`` has the scores of one system. Files are used if a system has no name, or if
    two systems have the same one. If two systems share a file as well, the labels consist of the
    file and the name.
    """
    systems = [part.systems[0] for part in parts]
    if all(systems) and len(set(systems)) == len(systems):
        return systems
    stems = [Path(part.source).name for part in parts]
    sources = stems if len(set(stems)) == len(stems) else [part.source for part in parts]
    if len(set(sources)) == len(sources):
        return sources
    return [f"{source} {system}".strip() for source, system in zip(sources, systems, strict=True)]


def _check(sides: Sequence[Side]) -> Iterator[Finding]:
    for side in sides:
        for check in SIDE_CHECKS:
            if side.means or check is SIDE_CHECKS[0]:
                yield from check(side)
    for before, after in combinations([side for side in sides if side.means], 2):
        for pair_check in PAIR_CHECKS:
            yield from pair_check(before, after)


def _merged(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings, with one finding for a problem that occurs in several metrics."""
    metrics: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        metrics.setdefault((finding.kind, finding.where, finding.problem), []).append(finding)
    for same in metrics.values():
        names = ", ".join(dict.fromkeys(finding.metric for finding in same))
        first = same[0]
        differ = len({finding.effect for finding in same}) > 1
        effect = f"in {first.metric}, {first.effect}" if differ else first.effect
        yield Finding(first.kind, first.where, names, first.problem, effect)
