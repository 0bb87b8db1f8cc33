"""What opens the page: findings in words, each with links to the responses that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element

from mirage.report._elements import Child, breakable, cut, label, tag
from mirage.report._responses import direction

if TYPE_CHECKING:
    from mirage.findings import Finding, PooledFinding
    from mirage.ranking import MultilingualRanking, Ranking

__all__ = ["MARKS", "about", "findings", "plain_findings", "pooled_findings"]

MARKS = {
    "number": "a number that is wrong, or that no shown passage holds",
    "date": "a date that is wrong, or that no shown passage holds",
    "name": "a name that is wrong, or that no shown passage holds",
    "negation": "the opposite of what a passage says",
    "language": "another language",
    "citation": "not where this stands, or not shown",
}
"""What each type of marked place is, in words."""

LINKED = 30
"""Queries that a finding links to, at most."""

OPEN = 3
"""Models whose findings are shown without being asked for, at most."""

UNLIKE = "is unlike any system that this board knows, so that its rank says little: "
"""What comes before the words of :attr:`Entry.unfamiliar <mirage.ranking.Entry.unfamiliar>`."""

_UNQUOTED = ("no citation", "wrong citation")  # what is missing cannot be quoted


def about(rankings: Iterable[Ranking]) -> Iterator[Element]:
    """What the models of these rankings are, and what a rank says; each line once."""
    for words in dict.fromkeys(ranking.about for ranking in rankings if ranking.about):
        yield tag("p", words, class_="about")


def findings(
    code: str,
    ranking: Ranking,
    places: Mapping[str, int],
    shown: Mapping[str, Mapping[str, int]],
) -> Child:
    """What is wrong with the responses of the models of one language.

    ``shown`` has the places of queries in the dataset, by model and id, where the page has the
    response.
    """
    if not ranking.findings:
        return None
    parts = []
    for model, some in ranking.findings.items():
        page = f"#{code}/{places[model]}"
        items = [_item(code, one, page, shown.get(model, {})) for one in some]
        if strange := ranking[model].unfamiliar:
            items.insert(0, tag("li", UNLIKE, tag("bdi", cut(strange, 500)[0]), class_="strange"))
        parts.append(_part(model, page, some, items, len(ranking.findings)))
    heading = tag("h3", "Findings", id=f"{code}-findings")
    return tag("section", heading, parts, class_="findings")


def pooled_findings(
    ranking: MultilingualRanking, places: Mapping[str, int], names: Mapping[str, str]
) -> Child:
    """What is wrong with the responses of models in all languages, most of it first."""
    if not ranking.findings:
        return None
    parts = []
    for model, some in ranking.findings.items():
        first = next(code for code, own in ranking.items() if model in own)
        items = [_pooled_item(one, places[model], names) for one in some]
        parts.append(_part(model, f"#{first}/{places[model]}", some, items, len(ranking.findings)))
    return tag("section", tag("h2", "Findings", id="findings"), parts, class_="findings")


def _part(
    model: str,
    page: str,
    some: Sequence[Finding | PooledFinding],
    items: Sequence[Element],
    models: int,
) -> Element:
    """One model's findings; behind a click where models are many."""
    body: Child = tag("ul", items)
    if not items:
        body = tag("p", "No fault was found by the features of its responses.", class_="hint")
    name = tag("a", tag("bdi", breakable(model)), href=page)
    if models <= OPEN:
        return tag("div", tag("h4", name), body)
    count = f": {len(some)} findings" if len(some) != 1 else ": 1 finding"
    summary = tag("summary", tag("bdi", label(model)), count)
    return tag("details", summary, tag("p", name, class_="hint"), body)


def _item(code: str, finding: Finding, page: str, shown: Mapping[str, int]) -> Element:
    links = (
        tag("a", tag("bdi", label(id_)), href=f"{page}/{shown[id_]}")
        if id_ in shown
        else tag("bdi", label(id_))
        for id_ in finding.query_ids[:LINKED]
    )
    more = finding.count - LINKED
    return tag(
        "li",
        _counted(finding, f" of {finding.of} queries: "),
        _separated(links),
        f" and {more} more" if more > 0 else None,
        _quote(code, finding),
    )


def _pooled_item(finding: PooledFinding, place: int, names: Mapping[str, str]) -> Element:
    links = (
        tag("a", f"{names[code]} {count}", href=f"#{code}/{place}")
        for code, count in finding.counts.items()
    )
    return tag("li", _counted(finding, f" {finding.unit}: "), _separated(links))


def _counted(finding: Finding | PooledFinding, after: str) -> list[Child]:
    return [f"{finding.words} on ", tag("b", str(finding.count)), after]


def _separated(links: Iterable[Element]) -> list[Child]:
    parts: list[Child] = []
    for link in links:
        parts += [", ", link]
    return parts[1:]


def _quote(code: str, finding: Finding) -> Element | None:
    """What the first of the responses says."""
    quote = cut(finding.quotes.get(finding.query_ids[0], ""), 200)[0]
    if finding.kind in _UNQUOTED or not quote:
        return None
    words = tag("q", quote, lang=code, dir=direction(quote, code))
    if finding.kind == "no response":
        words = tag("bdi", quote, class_="error")
    return tag("span", tag("bdi", label(finding.query_ids[0])), ": ", words, class_="quote")


def plain_findings(some: Sequence[Finding], shown: Mapping[str, int]) -> list[dict[str, Any]]:
    """The same for the page's script: the words, and the queries with their places."""
    return [
        {
            "words": one.words,
            "count": one.count,
            "of": one.of,
            "queries": [[label(id_), shown.get(id_)] for id_ in one.query_ids[:LINKED]],
        }
        for one in some
    ]
