"""Render the findings at the top of the page, each with links to its responses.

A finding is one kind of fault in a model's responses, with the queries on which it occurs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

from mirage.report._segments import direction
from mirage.report.elements import Child, breakable, cut, label, tag

if TYPE_CHECKING:
    from mirage.features.findings import Finding, PooledFinding
    from mirage.ranking import MultilingualRanking, Ranking

MARKS = {
    "number": "a number that is wrong, or that no shown passage contains",
    "date": "a date that is wrong, or that no shown passage contains",
    "name": "a name that is wrong, or that no shown passage contains",
    "negation": "the opposite of what a passage says",
    "language": "another language",
    "citation": "a passage that does not contain this, or that was not shown",
}
"""Explanation of each type of fault that is marked in a response."""

LINKED = 30
"""Largest number of queries that a finding links to."""

OPEN = 3
"""Largest number of models for which findings are not collapsed when the page opens."""

UNLIKE = "is unlike every system of this leaderboard, so that its rank is unreliable: "
"""Text in front of :attr:`Entry.unfamiliar <mirage.ranking.Entry.unfamiliar>`."""

_UNQUOTED = ("no citation", "wrong citation")  # there is no text to quote for a missing citation


def about(rankings: Iterable[Ranking]) -> Iterator[Element]:
    """Yield one paragraph for each distinct text in the attribute ``about`` of the rankings."""
    for words in dict.fromkeys(ranking.about for ranking in rankings if ranking.about):
        yield tag("p", words, class_="about")


def findings(
    code: str,
    ranking: Ranking,
    model_indices: Mapping[str, int],
    positions: Mapping[str, Mapping[str, int]],
) -> Child:
    """Return a section with the findings about each model's responses in one language.

    Returns ``None`` if there are no findings.

    Args:
        code: Language code.
        ranking: The ranking in this language.
        model_indices: Position of each model in the page's list of models; links contain it.
        positions: For each model, the positions of queries in the dataset, by query id. Only
            queries whose response the page shows have a position.
    """
    if not ranking.findings:
        return None
    parts = []
    for model, model_findings in ranking.findings.items():
        page = f"#{code}/{model_indices[model]}"
        items = [_item(code, finding, page, positions.get(model, {})) for finding in model_findings]
        if strange := ranking[model].unfamiliar:
            items.insert(0, tag("li", UNLIKE, tag("bdi", cut(strange, 500)[0]), class_="strange"))
        parts.append(_model_part(model, page, model_findings, items, len(ranking.findings)))
    heading = tag("h3", "Findings", id=f"{code}-findings")
    return tag("section", heading, parts, class_="findings")


def pooled_findings(
    ranking: MultilingualRanking, model_indices: Mapping[str, int], names: Mapping[str, str]
) -> Child:
    """Return a section with each model's findings over all languages; ``None`` if there are none.

    Args:
        ranking: The ranking in several languages.
        model_indices: Position of each model in the page's list of models; links contain it.
        names: English names of the languages, by code.
    """
    if not ranking.findings:
        return None
    parts = []
    for model, model_findings in ranking.findings.items():
        # The page of a model needs a language: take the first that ranks the model.
        first = next(code for code, part in ranking.items() if model in part)
        items = [_pooled_item(finding, model_indices[model], names) for finding in model_findings]
        parts.append(
            _model_part(
                model,
                f"#{first}/{model_indices[model]}",
                model_findings,
                items,
                len(ranking.findings),
            )
        )
    return tag("section", tag("h2", "Findings", id="findings"), parts, class_="findings")


def _model_part(
    model: str,
    page: str,
    model_findings: Sequence[Finding | PooledFinding],
    items: Sequence[Element],
    models: int,
) -> Element:
    """Return a part of the page with the findings about one model.

    Args:
        model: Name of the model.
        page: Link to the page of the model.
        model_findings: The findings, which are counted in the title of a collapsed part.
        items: The findings as list items.
        models: Number of models on the page. If it exceeds ``OPEN``, the part is collapsed.
    """
    body: Child = tag("ul", items)
    if not items:
        body = tag("p", "The features of its responses show no fault.", class_="hint")
    name = tag("a", tag("bdi", breakable(model)), href=page)
    if models <= OPEN:
        return tag("div", tag("h4", name), body)
    count = f": {len(model_findings)} findings" if len(model_findings) != 1 else ": 1 finding"
    summary = tag("summary", tag("bdi", label(model)), count)
    return tag("details", summary, tag("p", name, class_="hint"), body)


def _item(code: str, finding: Finding, page: str, positions: Mapping[str, int]) -> Element:
    links = (
        tag("a", tag("bdi", label(id_)), href=f"{page}/{positions[id_]}")
        if id_ in positions
        else tag("bdi", label(id_))
        for id_ in finding.query_ids[:LINKED]
    )
    more = finding.count - LINKED
    return tag(
        "li",
        _finding_count(finding, f" of {finding.of} queries{_interval(finding)}: "),
        _join_with_commas(links),
        f" and {more} more" if more > 0 else None,
        _quote(code, finding),
    )


def _pooled_item(finding: PooledFinding, model_index: int, names: Mapping[str, str]) -> Element:
    links = (
        tag("a", f"{names[code]} {count}", href=f"#{code}/{model_index}")
        for code, count in finding.counts.items()
    )
    return tag("li", _finding_count(finding, f" {finding.unit}: "), _join_with_commas(links))


def _interval(finding: Finding) -> str:
    """Return, as text, the 95 % interval of the share of queries on which the fault occurs.

    The text is empty if the finding has no interval, as for failed responses.
    """
    low, high = finding.interval
    return "" if math.isnan(low) else f" (95 % interval {100 * low:.0f} to {100 * high:.0f} %)"


def _finding_count(finding: Finding | PooledFinding, after: str) -> list[Child]:
    return [f"{finding.words} on ", tag("b", str(finding.count)), after]


def _join_with_commas(links: Iterable[Element]) -> list[Child]:
    parts: list[Child] = []
    for link in links:
        parts += [", ", link]
    return parts[1:]


def _quote(code: str, finding: Finding) -> Element | None:
    """Return a quotation from the first response with the fault.

    Returns ``None`` if there is nothing to quote, as for a missing citation.
    """
    quote = cut(finding.quotes.get(finding.query_ids[0], ""), 200)[0]
    if finding.kind in _UNQUOTED or not quote:
        return None
    words = tag("q", quote, lang=code, dir=direction(quote, code))
    if finding.kind == "no response":
        words = tag("bdi", quote, class_="error")
    return tag("span", tag("bdi", label(finding.query_ids[0])), ": ", words, class_="quote")


def plain_findings(
    model_findings: Sequence[Finding], positions: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return findings as JSON data for the page's script.

    Args:
        model_findings: The findings about one model.
        positions: The positions of queries in the dataset, by query id. Only queries whose response
            the page shows have a position.
    """
    return [
        {
            "words": finding.words,
            "count": finding.count,
            "of": finding.of,
            "queries": [[label(id_), positions.get(id_)] for id_ in finding.query_ids[:LINKED]],
        }
        for finding in model_findings
    ]
