"""Formatting a comparison with a baseline as a comment on a pull request, or as JUnit XML."""

from __future__ import annotations

import hashlib
from xml.etree import ElementTree

import numpy as np

from mirage._base.quoting import xml_text
from mirage._base.tables import Table, to_markdown
from mirage.dataset import MirageDataset
from mirage.features.registry import facts
from mirage.statistics.paired import gap_interval
from mirage.testing._shortfalls import Finding, format_change, format_value, shorten
from mirage.testing.planning import ExtraQueries
from mirage.testing.regressions import (
    BaselineComparison,
    lost_queries,
    summary,
    table_notes,
    worse_than_before,
)
from mirage.testing.score_changes import ScoreComparison

_MOST = 10  # queries to show


def comment(
    runs: BaselineComparison, *, allow_failed: int = 0, more: ExtraQueries | None = None
) -> str:
    """Return Markdown for a pull request: the verdict, a table of changes and the worst queries.

    The first line identifies the model and the dataset, so that a later run can find the comment
    and replace it. Names, ids and texts are escaped: they create no mentions, links or markup on
    GitHub and GitLab. The same comparison gives the same text.

    Args:
        runs: The comparison.
        allow_failed: Number of queries that may be lost, for example because the model failed on
            them; see :func:`assert_no_regression <mirage.testing.assert_no_regression>`.
        more: The additional queries that would make an inconclusive comparison conclusive, if
            known.
    """
    comparison = runs.comparison
    lost = lost_queries(runs)
    worse = {change.feature for change in comparison.regressed(comparison.alpha)}
    changes = Table(
        _verdict_sentence(runs, lost, allow_failed, more),
        ("feature", "before", "now", "change", "95 % interval", "p", "lost ≤"),
        tuple(
            (
                change.feature,
                format_value(change.before),
                format_value(change.after),
                format_change(change.before, change.after),
                _interval(runs, change.feature),
                f"{change.p:.4f}",
                format_value(change.lost_at_most) if np.isfinite(change.lost_at_most) else "any",
            )
            for change in comparison.compared
        ),
        tuple(change.feature in worse for change in comparison.compared),
        notes=tuple(table_notes(comparison)),
        name=0,
    )
    names = [change.feature for change in comparison.compared]
    # If no feature is worse, the worst queries over all features are shown.
    names = [name for name in names if name in worse] or names
    findings = worse_than_before(comparison, names, runs.dataset, runs.run) if names else []
    parts = [
        to_markdown(changes),
        _query_table("Queries without a value that the baseline has", lost, runs.dataset),
        _query_table("Worst queries", findings, runs.dataset),
    ]
    text = "\n\n".join(filter(None, parts))
    verdict = "queries lost" if len(lost) > allow_failed else runs.comparison.verdict
    return f"{marker(runs)}\n### Mirage: {verdict}\n\n{text}\n"


def score_comment(result: ScoreComparison) -> str:
    """Return a comparison of scores as a Markdown comment for a pull request.

    The comment contains the verdict, a table of the metrics, and the items with the largest losses.
    Its first line identifies the two systems, as in :func:`comment`.
    """
    about = hashlib.sha256(f"{result.before}\n{result.after}".encode()).hexdigest()[:16]
    parts = [result.to_markdown()]
    for change in result.changes:
        if change.verdict == "worse" and change.losses:
            rows = tuple(
                (shorten(item), format_value(before), format_value(after))
                for item, before, after in change.losses
            )
            title = f"Largest losses in {change.metric}"
            parts.append(to_markdown(Table(title, ("item", "before", "after"), rows, name=0)))
    text = "\n\n".join(parts)
    return f"<!-- mirage compare {about} -->\n### Mirage: {result.verdict}\n\n{text}\n"


def marker(runs: BaselineComparison) -> str:
    """Return the first line of a comment, which identifies its model and dataset."""
    about = f"{runs.run.model}\n{runs.dataset.name}\n{runs.baseline.table.language}"
    return f"<!-- mirage check {hashlib.sha256(about.encode()).hexdigest()[:16]} -->"


def junit(runs: BaselineComparison, *, allow_failed: int = 0) -> str:
    """Return JUnit XML of a comparison: a test case per feature, and one for lost queries.

    The case of a feature fails if the feature is worse. It is skipped if a loss above the margin
    cannot be ruled out, or if the feature was not measured. If too few answers are covered by
    correctness measures for a verdict, an additional case is skipped. The case of lost queries
    fails if there are more than ``allow_failed``; :func:`~mirage.testing.assert_no_regression`
    defines when a query is lost.
    """
    comparison = runs.comparison
    worse = {change.feature for change in comparison.regressed(comparison.alpha)}
    inconclusive = {change.feature for change in comparison.inconclusive} - worse
    lost = lost_queries(runs)
    fell = len(lost) > allow_failed
    unmeasured = comparison.verdict == "inconclusive" and not comparison.evidence.is_enough
    cases = {
        "name": f"mirage check {runs.run.model}",
        "tests": str(len(comparison.changes) + 1 + unmeasured),
        "failures": str(len(worse) + fell),
        "errors": "0",
        "skipped": str(len(inconclusive) + len(comparison.not_compared) + unmeasured),
    }
    suite = ElementTree.Element("testsuite", {key: xml_text(value) for key, value in cases.items()})
    for change in comparison.compared:
        case = _case(suite, runs, change.feature)
        values = f"{change.before:.6f} to {change.after:.6f}, p {change.p:.4f}"
        if change.feature in worse:
            findings = worse_than_before(comparison, [change.feature], runs.dataset, runs.run)
            failure = ElementTree.SubElement(case, "failure", {"message": f"worse: {values}"})
            failure.text = xml_text("\n".join(f"{id_}: {why}" for id_, why in findings[:_MOST]))
        elif change.feature in inconclusive:
            at_most = f"inconclusive: the loss is at most {change.lost_at_most:.3f}"
            ElementTree.SubElement(case, "skipped", {"message": at_most})
    for name, why in comparison.not_compared.items():
        case = _case(suite, runs, name)
        ElementTree.SubElement(case, "skipped", {"message": xml_text(f"not compared: {why}")})
    if unmeasured:
        case = _case(suite, runs, "correctness")
        message = f"inconclusive: {comparison.evidence.lack}"
        ElementTree.SubElement(case, "skipped", {"message": xml_text(message)})
    case = _case(suite, runs, "queries that were lost")
    if fell:
        failure = ElementTree.SubElement(case, "failure", {"message": f"{len(lost)} queries"})
        failure.text = xml_text("\n".join(f"{id_}: {why}" for id_, why in lost[:_MOST]))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=False) + "\n"


def score_junit(result: ScoreComparison) -> str:
    """Return JUnit XML of a comparison of scores, with one test case per metric.

    The case of a metric fails if the metric is worse. It is skipped if the result is inconclusive,
    or if the metric was not compared.
    """
    verdicts = [change.verdict for change in result.changes]
    cases = {
        "name": f"mirage compare {result.before} {result.after}",
        "tests": str(len(verdicts) + len(result.not_compared)),
        "failures": str(verdicts.count("worse")),
        "errors": "0",
        "skipped": str(verdicts.count("inconclusive") + len(result.not_compared)),
    }
    suite = ElementTree.Element("testsuite", {key: xml_text(value) for key, value in cases.items()})
    for change in result.changes:
        case = _named_case(suite, result.after, change.metric)
        values = f"{change.before:.6f} to {change.after:.6f}, p {change.p:.4f}"
        if change.verdict == "worse":
            failure = ElementTree.SubElement(case, "failure", {"message": f"worse: {values}"})
            losses = (f"{item}: {old:g} to {new:g}" for item, old, new in change.losses)
            failure.text = xml_text("\n".join(losses))
        elif change.verdict == "inconclusive":
            at_most = f"inconclusive: the loss is at most {change.lost_at_most:.3f}"
            ElementTree.SubElement(case, "skipped", {"message": at_most})
    for name, why in result.not_compared.items():
        case = _named_case(suite, result.after, name)
        ElementTree.SubElement(case, "skipped", {"message": xml_text(f"not compared: {why}")})
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=False) + "\n"


def _case(suite: ElementTree.Element, runs: BaselineComparison, name: str) -> ElementTree.Element:
    return _named_case(suite, runs.dataset.name, name)


def _named_case(suite: ElementTree.Element, group: str, name: str) -> ElementTree.Element:
    about = {"classname": f"mirage.{group}", "name": name}
    return ElementTree.SubElement(suite, "testcase", {k: xml_text(v) for k, v in about.items()})


def _verdict_sentence(
    runs: BaselineComparison, lost: list[Finding], allow_failed: int, more: ExtraQueries | None
) -> str:
    comparison = runs.comparison
    if comparison.verdict != "worse":
        sentence = summary(comparison, more)
    else:
        names = ", ".join(change.feature for change in comparison.regressed(comparison.alpha))
        sentence = f"{runs.run.model} is worse than the baseline in {names}"
    if len(lost) > allow_failed:
        sentence += (
            f"; {len(lost)} of {len(runs.dataset)} queries lack a value that the baseline has"
        )
    return f"{sentence} ({runs.dataset.name}, alpha {comparison.alpha:g})."


def _interval(runs: BaselineComparison, feature: str) -> str:
    """Return the 95 % interval of the mean change as text; empty if too few queries changed."""
    comparison = runs.comparison
    column = comparison.worsening[:, comparison.before.features.index(feature)]
    is_value = ~np.isnan(column)
    gaps = column[is_value] if feature in comparison.lower else -column[is_value]
    entry = facts(feature, {**comparison.after.facts, **comparison.before.facts})
    width = entry.high - entry.low
    low, high = gap_interval(gaps, comparison.codes[is_value], most=width)
    return "" if np.isnan(low) else f"[{low:+.3f}, {high:+.3f}]"


def _query_table(title: str, findings: list[Finding], dataset: MirageDataset) -> str:
    if not findings:
        return ""
    more = f" (the first {_MOST} of {len(findings)})" if len(findings) > _MOST else ""
    rows = tuple((id_, shorten(dataset[id_].text), why) for id_, why in findings[:_MOST])
    header = ("query", "question", "problem")
    return to_markdown(Table(f"{title}{more}", header, rows, name=0, texts=(1, 2)))
