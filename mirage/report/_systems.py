"""Render the accuracy of systems by kind of question, and comparisons of two systems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from mirage.ranking.accuracy import kind_name
from mirage.report._segments import direction
from mirage.report.elements import Child, breakable, cut, label, tag
from mirage.report.sections import column, language, number, scrolling, table

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.ranking import Entry, Ranking
    from mirage.ranking.accuracy import Accuracy
    from mirage.ranking.comparison import QueryDifference, SystemComparison

SYSTEMS = 12
"""Largest number of systems in the table of accuracy by kind of question."""

SHOWN = 10
"""Largest number of queries for which a comparison shows the two answers."""

CHARACTERS = 700
"""Number of characters after which an answer in a comparison is cut."""


def systems(ranking: Ranking) -> list[Entry]:
    """Return the entries whose accuracy is known, best first."""
    return [entry for entry in ranking if entry.accuracy is not None and entry.accuracy.is_known]


def accuracy(code: str, ranking: Ranking, model_indices: Mapping[str, int]) -> Child:
    """Return a section that counts the right and wrong answers of each system.

    Returns ``None`` if no system has a known accuracy.

    Args:
        code: Language code.
        ranking: The ranking in this language.
        model_indices: Position of each model in the page's list of models; links contain it.
    """
    entries = systems(ranking)
    if not entries:
        return None
    closed_book = any(entry.closed_book is not None for entry in entries)
    titles = ["Right", "95 % interval", "Wrong", "Declined", "Undecided", "Failed"]
    if closed_book:
        titles += ["Right without passages", "Same queries with passages"]
    head = [column("System", class_="name"), *(column(t, class_="number") for t in titles)]
    rows = [
        tag("tr", _name(code, entry.model, model_indices), _cells(entry, closed_book))
        for entry in entries
    ]
    name = language(code).name
    hint = (
        "A response is right if it asserts every short answer and no wrong one, or rightly says "
        "that no passage answers. It is undecided if neither was measured."
    )
    if closed_book:
        hint += (
            " Answers without passages show what a system knows by heart, on queries that a "
            "passage answers."
        )
    parts = scrolling(table(head, rows, class_="accuracy"), f"Accuracy, {name}", hint)
    return tag(
        "section",
        tag("h3", "Right and wrong answers", id=f"{code}-accuracy"),
        parts,
        _kinds(code, entries[:SYSTEMS], model_indices),
        tag("ul", (tag("li", tag("bdi", note)) for note in ranking.standing_notes)),
    )


def _name(code: str, model: str, model_indices: Mapping[str, int]) -> Element:
    link = tag("a", tag("bdi", breakable(model)), href=f"#{code}/{model_indices[model]}")
    return tag("th", link, scope="row", class_="name")


def _cells(entry: Entry, closed_book: bool) -> Iterator[Element]:
    result = entry.accuracy
    assert result is not None  # as in systems()
    yield number(result.right, f"{result.right} of {result.n}")
    yield tag("td", _percent(result), class_="number")
    for outcome in ("wrong", "declined", "undecided", "failed"):
        yield number(result.count(outcome), str(result.count(outcome)))
    if closed_book:
        without = entry.closed_book
        if without is None:
            yield from (number(math.nan, "") for _ in range(2))
        else:
            yield number(without.right, f"{without.right} of {without.n} ({_percent(without)})")
            right = result.right_among(without.outcomes)
            yield number(right, f"{right} of {without.n}")


def _percent(result: Accuracy) -> str:
    low, high = result.interval
    return "—" if math.isnan(low) else f"{100 * low:.0f} to {100 * high:.0f} %"


def _kinds(code: str, entries: Sequence[Entry], model_indices: Mapping[str, int]) -> list[Child]:
    """Return the table of right answers by kind of question; empty if there are no kinds."""
    results = [entry.accuracy for entry in entries if entry.accuracy is not None]
    kinds = list(dict.fromkeys(kind for result in results for kind in result.kinds))
    if not kinds:
        return []
    head = [column("Kind of question", class_="name")]
    for entry in entries:
        link = tag(
            "a", tag("bdi", breakable(entry.model)), href=f"#{code}/{model_indices[entry.model]}"
        )
        head.append(column(link, class_="number"))
    rows = [
        tag(
            "tr",
            tag("th", label(kind_name(kind)), scope="row", class_="name"),
            (_kind_cell(result.kinds.get(kind)) for result in results),
        )
        for kind in kinds
    ]
    hint = "Right answers by kind of question, with 95 % intervals."
    title = f"Right answers by kind, {language(code).name}"
    return scrolling(table(head, rows, class_="accuracy"), title, hint)


def _kind_cell(result: Accuracy | None) -> Element:
    if result is None:
        return number(math.nan, "")
    ends = tag("span", _percent(result), class_="hint")
    return tag("td", f"{result.right} of {result.n} ", ends, class_="number")


# Comparisons --------------------------------------------------------------------------------------


def comparisons(code: str, ranking: Ranking) -> Child:
    """Return a section that compares pairs of adjacent systems in the ranking, query by query.

    Returns ``None`` if the ranking has no comparisons or no dataset.
    """
    evidence = ranking.evidence
    if evidence is None or evidence.dataset is None or not ranking.comparisons:
        return None
    dataset = evidence.dataset
    hint = (
        "Systems next to each other in the ranking, query by query. The advantage is the share of "
        "verdicts that the first system is expected to win, minus 0.5."
    )
    parts = [
        _comparison(code, ranking, dataset, each, len(ranking.comparisons) > 1)
        for each in ranking.comparisons
    ]
    heading = tag("h3", "Query by query", id=f"{code}-comparisons")
    return tag("section", heading, tag("p", hint, class_="hint"), parts, class_="comparisons")


def _comparison(
    code: str,
    ranking: Ranking,
    dataset: MirageDataset,
    comparison: SystemComparison,
    collapsed: bool,
) -> Element:
    """Return an HTML element that compares two systems query by query.

    If ``collapsed``, only the title is visible until a reader opens the element.
    """
    a, b = comparison.models
    cards = [
        _card(code, ranking, dataset, comparison.models, row) for row in _most_different(comparison)
    ]
    left_out = len(comparison.queries) - len(cards)
    body: list[Child] = [tag("p", tag("bdi", f"{comparison}.")), *cards]
    if left_out:
        body.append(tag("p", f"{left_out} more queries on which they differ.", class_="hint"))
    title: list[Child] = [tag("bdi", label(a)), " against ", tag("bdi", label(b))]
    if not collapsed:
        return tag("div", tag("h4", title), body)
    probability = f": P(better) = {comparison.p_better:.2f}"
    return tag("details", tag("summary", title, probability), body)


def _most_different(comparison: SystemComparison) -> list[QueryDifference]:
    """Return the queries on which the two systems differ most.

    The queries are sorted from those on which the first system is far better to those on which the
    second system is far better.
    """
    rows = sorted(comparison.queries, key=lambda row: -abs(row.advantage))[:SHOWN]
    return sorted(rows, key=lambda row: -row.advantage)


def _card(
    code: str,
    ranking: Ranking,
    dataset: MirageDataset,
    models: tuple[str, str],
    row: QueryDifference,
) -> Element:
    question = cut(dataset[row.query_id].text, CHARACTERS)[0]
    better = models[0] if row.advantage > 0 else models[1]
    advantage = f"{row.advantage:+.2f}".replace("-", "−")
    facts = ("better: ", tag("bdi", label(better)), f", advantage {advantage}")
    sides = (
        _side(code, ranking, row.query_id, model, outcome)
        for model, outcome in zip(models, row.outcomes, strict=True)
    )
    return tag(
        "div",
        tag("p", tag("code", label(row.query_id)), " ", facts, class_="hint"),
        tag("p", question, lang=code, dir=direction(question, code)),
        tag("div", sides, class_="answers"),
        class_="card",
    )


def _side(code: str, ranking: Ranking, query_id: str, model: str, outcome: str) -> Element:
    assert ranking.evidence is not None  # checked in comparisons()
    response = ranking.evidence.runs[model].get(query_id)
    mark = tag("span", outcome, class_="mark good" if outcome == "right" else "mark warn")
    if outcome == "undecided":
        mark = tag("span", outcome, class_="mark")
    name = tag("p", tag("b", tag("bdi", label(model))), " ", mark)
    if response is None or response.text is None:
        reason = cut((response and response.error) or "no response", CHARACTERS)[0]
        return tag("div", name, tag("p", tag("bdi", reason), class_="error"))
    text, whole = cut(response.text.strip(), CHARACTERS)
    words = tag("p", text, "…" if whole else None, lang=code, dir=direction(text, code))
    return tag("div", name, tag("div", words, class_="response"))
