"""Build the sections of the report that need no script: tables for one and for all languages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element

from mirage.languages import ALL_LANGUAGES, Language
from mirage.report.drawing import Scale, axis, bar, interval
from mirage.report.elements import Child, breakable, cut, label, tag

if TYPE_CHECKING:
    from mirage.arena import Fragility, Judgments
    from mirage.ranking import Entry, MultilingualRanking, Ranking
    from mirage.surrogate.fault_costs import FaultCost

SHADES = 10
SIDEWAYS = "There is more to the right: scroll sideways →"


def language(code: str) -> Language:
    """Return the language with a code, or a placeholder if the code is unknown.

    For judgments without a language, the code is empty.
    """
    return ALL_LANGUAGES.get(code) or Language(code, "Language not known", "")


def scrolling(rows: Element, name: str, hint: str) -> list[Child]:
    """Return a hint and, below it, the table ``rows`` in a scrollable region.

    If the table is too wide, the region scrolls by mouse or keyboard, its edge fades, and a
    second line asks the reader to scroll. ``name`` describes the table for screen readers.
    """
    rows.set("aria-label", name)
    region = tag("div", rows, class_="scroll", role="region", aria_label=name, tabindex="0")
    sideways = tag("p", SIDEWAYS, class_="hint sideways")
    return [tag("p", hint, class_="hint"), sideways, region]


def filtering(target: str, count: int, both_kinds: bool) -> Element:
    """Return the controls that filter the rows of a table; a script makes them visible.

    Args:
        target: The id of the table.
        count: Number of models.
        both_kinds: Whether the table has both new and other models. If so, a checkbox to show only
            new models is included.
    """
    new_only = None
    if both_kinds:
        new_only = tag("label", tag("input", type="checkbox", class_="only"), " Only new models")
    return tag(
        "div",
        tag(
            "label",
            tag("span", "Filter models", class_="unseen"),
            tag("input", type="search", placeholder="Filter models", autocomplete="off"),
        ),
        new_only,
        tag("output", f"{count} models", class_="count", aria_live="polite"),
        class_="filter",
        data_for=target,
    )


def sortable(name: str, *, numeric: bool = True, first: str = "down", **more: str) -> Element:
    """Return the header cell of a column by which the table can be sorted.

    Args:
        name: Title of the column.
        numeric: Whether the column holds numbers. True by default.
        first: Order after the first click, ``"up"`` or ``"down"`` (the default).
        **more: Further attributes of the cell.
    """
    return tag(
        "th",
        tag("button", breakable(name), type="button", data_first=first),
        scope="col",
        class_=f"{'number' if numeric else 'name'} {more.pop('class_', '')}".strip(),
        **more,
    )


def number(value: float, text: str, **more: str) -> Element:
    """Return a cell that shows ``text`` and is sorted by ``value``; NaN is shown as a dash."""
    if math.isnan(value):
        return tag("td", tag("span", "—", title="not known"), class_="number")
    more["class_"] = f"number {more.pop('class_', '')}".strip()
    return tag("td", text, data_v=f"{value:.6g}", **more)


def table(head: Iterable[Child], rows: Iterable[Child], **attributes: str) -> Element:
    """Return a table with these column heads and rows."""
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", rows), **attributes)


def column(*children: Child, class_: str) -> Element:
    """Return the header cell of a column without a sort button; ``children`` are its content."""
    return tag("th", *children, scope="col", class_=class_)


def model_head(first: str) -> list[Child]:
    """Return the header cells of the first two columns of a table of models.

    ``first`` is the title of the first column, by which the table is sorted. The second column has
    the names of the models.
    """
    name = sortable("Model", numeric=False, first="up")
    return [sortable(first, first="up", aria_sort="ascending"), name]


def model_row(
    first: Element,
    model: str,
    href: str,
    new: bool,
    cells: Iterable[Child],
    unfamiliar: str = "",
) -> Element:
    """Return a row of a table of models: the first cell, a link to ``href``, and ``cells``.

    ``new`` marks the model as one that was added to the leaderboard. If the model is unlike those
    of the leaderboard, ``unfamiliar`` explains the difference; otherwise it is empty.
    """
    link = tag("a", tag("bdi", breakable(model)), href=href)
    mark = tag("span", "new", class_="mark") if new else None
    strange = tag("span", "unfamiliar", class_="mark warn", title=unfamiliar)
    name = tag(
        "th",
        link,
        mark,
        strange if unfamiliar else None,
        scope="row",
        class_="name",
        data_v=label(model).casefold(),
    )
    return tag("tr", first, name, cells, class_="new" if new else None)


# Leaderboard --------------------------------------------------------------------------------------


def leaderboard(
    code: str,
    ranking: Ranking,
    model_indices: Mapping[str, int],
    new: set[str],
    failures_shown: int,
) -> Element:
    """Return a section with the leaderboard of one language, best model first.

    Args:
        code: Language code.
        ranking: The ranking in this language.
        model_indices: Position of each model in the page's list of models; links contain it.
        new: Names of the models to mark as new.
        failures_shown: Maximum number of failed queries to list for each model.
    """
    has_logits = any(not math.isnan(entry.logit) for entry in ranking)
    has_ranks = any(entry.rank_interval for entry in ranking)
    scale = Scale.over(end for entry in ranking for end in (entry.logit, *entry.interval))
    head = model_head("Rank")
    if has_logits:
        level = tag("span", f"{100 * ranking.level:g} % interval")
        head += [sortable("Logit"), column(level, axis(scale), class_="drawn")]
        head.append(column("Lower to upper", class_="number wide"))
    controlled = any(entry.uncontrolled is not None for entry in ranking)
    if controlled:
        head.append(sortable("Logit without controls"))
    if has_ranks:
        head.append(column("Rank interval", class_="number wide"))
    if ranking.fragility:
        head.append(column("Rank changes without", class_="number wide"))
    rows = []
    for entry in ranking:
        cells: list[Child] = []
        if has_logits:
            cells += [
                number(entry.logit, _signed(entry.logit)),
                tag("td", interval(scale, entry.logit, entry.interval), class_="drawn"),
                tag("td", _ends(entry.interval), class_="number wide"),
            ]
        if controlled:
            plain = math.nan if entry.uncontrolled is None else entry.uncontrolled
            cells.append(number(plain, _signed(plain)))
        if has_ranks:
            ends = "—" if entry.rank_interval is None else "{} to {}".format(*entry.rank_interval)
            cells.append(tag("td", ends, class_="number wide"))
        if ranking.fragility:
            cells.append(tag("td", _removals(ranking.fragility.get(entry.model)), class_="wide"))
        rank, href = number(entry.rank, str(entry.rank)), f"#{code}/{model_indices[entry.model]}"
        is_new = entry.model in new
        rows.append(model_row(rank, entry.model, href, is_new, cells, entry.unfamiliar))
    id_ = f"{code}-table"
    board = table(head, rows, id=id_, class_="sortable leaderboard")
    return tag(
        "section",
        tag("h3", "Leaderboard", id=f"{code}-leaderboard"),
        filtering(id_, len(ranking), bool(new) and len(new) < len(ranking)),
        *scrolling(board, f"Leaderboard, {language(code).name}", _hint(ranking, bool(new))),
        notes(ranking),
        failures(ranking, failures_shown),
    )


def _hint(ranking: Ranking, new: bool) -> str:
    sentences = [
        "Logits are natural-log odds." if any(not math.isnan(e.logit) for e in ranking) else "",
        "Models marked new were added by this ranking; the others were on the leaderboard before."
        if new
        else "",
    ]
    return " ".join(filter(None, sentences)) or "Best first."


def _signed(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}".replace("-", "−")


def _ends(ends: tuple[float, float]) -> str:
    return "—" if any(map(math.isnan, ends)) else f"{_signed(ends[0])} to {_signed(ends[1])}"


def _removals(fragility: Fragility | None) -> str:
    """Return, as text, how few queries or verdicts must be removed to change a model's rank.

    If no removal that changes the rank was found, the text is a dash.
    """
    removals = (fragility.queries, fragility.verdicts) if fragility else (None, None)
    parts = [
        f"{len(removal.dropped)} of {removal.of} {kind}"
        for kind, removal in zip(("queries", "verdicts"), removals, strict=True)
        if removal is not None
    ]
    return ", ".join(parts) or "—"


def notes(ranking: Ranking) -> Element | None:
    """Return the notes on a ranking as an HTML list, warnings first; ``None`` if there are none.

    Notes on fragility come last. They state the smallest number of queries or verdicts whose
    removal would change which system ranks first.
    """
    lines = [
        *ranking.unanswered_notes,
        *ranking.winner_notes,
        *ranking.notes,
        *ranking.fragility_notes,
    ]
    if not lines:
        return None
    return tag("ul", (tag("li", tag("bdi", cut(note, 1000)[0])) for note in lines))


def failures(ranking: Ranking, most: int) -> Element | None:
    """Return the queries on which each model failed, with reasons; ``None`` if there are none.

    ``most`` is the largest number of queries to list for each model.
    """
    lists = [_model_failures(entry, most) for entry in ranking if entry.failures]
    if len(lists) < 2:
        return lists[0] if lists else None
    summary = tag("summary", f"{len(lists)} models failed on some queries")
    return tag("details", summary, lists, class_="failures")


def _model_failures(entry: Entry, most: int) -> Element:
    failures = list(entry.failures.items())[:most]
    rows = (
        tag("li", tag("bdi", tag("code", label(id_))), ": ", tag("bdi", cut(why, 300)[0]))
        for id_, why in failures
    )
    more = entry.failed - len(failures)
    total = (entry.answered or 0) + entry.failed
    return tag(
        "details",
        tag(
            "summary",
            tag("bdi", label(entry.model)),
            f" failed on {entry.failed} of {total} queries",
        ),
        tag("ul", rows, tag("li", f"and {more} more") if more else None),
    )


# All languages ------------------------------------------------------------------------------------


def heat_map(
    rankings: MultilingualRanking,
    model_indices: Mapping[str, int],
    new: set[str],
) -> Element:
    """Return a section with the rank of each model in each language (Figure 4 of MIRAGE-Bench).

    Args:
        rankings: The rankings by language.
        model_indices: Position of each model in the page's list of models; links contain it.
        new: Names of the models to mark as new.
    """
    head, means = model_head("Rank"), rankings.mean_ranks
    intervals = _interval_columns(rankings)
    head += [column(title, class_="number") for title in intervals]
    head.append(sortable("Mean rank", first="up"))
    head += map(_language_head, rankings)
    rows = []
    for model in rankings.models:
        hrefs = {code: f"#{code}/{model_indices[model]}" for code in rankings}
        cells = [tag("td", ends[model], class_="number") for ends in intervals.values()]
        cells.append(number(means[model], f"{means[model]:.1f}"))
        cells += [
            _rank_cell(part[model], len(part), hrefs[code]) for code, part in rankings.items()
        ]
        first, href = (
            number(rankings.ranks[model], str(rankings.ranks[model])),
            next(iter(hrefs.values())),
        )
        rows.append(model_row(first, model, href, model in new, cells))
    ranks = table(head, rows, id="ranks-table", class_="sortable heat")
    hint = (
        f"Rank of each model in each of {len(rankings)} languages (1 is the best), and the mean of "
        "its ranks. A stronger colour is a better rank."
    )
    if intervals:
        hint += (
            " The first column is the rank by mean logit. Intervals are those of the mean logit; "
            "for them, the same question in several languages counts once."
        )
    hint = " ".join((hint, *rankings.winner_notes))
    return tag(
        "section",
        tag("h2", "Ranks in every language", id="ranks"),
        filtering("ranks-table", len(means), bool(new) and len(new) < len(means)),
        *scrolling(ranks, "Ranks in every language", hint),
        *(
            tag("p", cut(note, 1000)[0], class_="hint")
            for note in (*rankings.without_logits_notes, *rankings.left_out_notes)
        ),
    )


def _interval_columns(rankings: MultilingualRanking) -> dict[str, dict[str, str]]:
    """Return the columns of the heat map with mean logits, their intervals and the rank intervals.

    Returns:
        For each column title, the text of each model's cell. Empty columns are left out.
    """
    logits = {model: _signed(logit) for model, logit in rankings.mean_logits.items()}
    means = {
        model: "" if math.isnan(ends[0]) else _ends(ends)
        for model, ends in rankings.intervals.items()
    }
    ranks = {
        model: "" if ends is None else "{} to {}".format(*ends)
        for model, ends in rankings.rank_intervals.items()
    }
    columns = {
        "Mean logit": logits,
        f"{100 * rankings.level:g} % interval": means,
        "Rank interval": ranks,
    }
    return {title: cells for title, cells in columns.items() if any(cells.values())}


def _language_head(code: str) -> Element:
    head = sortable(code, first="up")
    head[0].set("title", language(code).name)
    head[0].append(tag("span", f", {language(code).name}", class_="unseen"))
    return head


def _rank_cell(entry: Entry, models: int, href: str) -> Element:
    share = 1 - (entry.rank - 1) / max(models - 1, 1)
    return tag(
        "td",
        tag("a", str(entry.rank), href=href, tabindex="-1"),
        data_v=str(entry.rank),
        class_=f"number {shade(share)}",
    )


def shade(share: float) -> str:
    """Return the CSS class of a shade; ``share`` is from 0 (lightest) to 1 (darkest)."""
    return f"h{min(int(share * SHADES), SHADES - 1)}"


# Features -----------------------------------------------------------------------------------------


def features(code: str, ranking: Ranking, model_indices: Mapping[str, int], new: set[str]) -> Child:
    """Return a section with the mean features of each model (Figure 3 of MIRAGE-Bench).

    Returns ``None`` if no model has features.

    Args:
        code: Language code.
        ranking: The ranking in this language.
        model_indices: Position of each model in the page's list of models; links contain it.
        new: Names of the models to mark as new.
    """
    names = list(dict.fromkeys(name for entry in ranking for name in entry.features))
    if not names:
        return None
    ends = {name: _range(ranking, name) for name in names}
    rows = []
    for entry in ranking:
        cells = [_feature_cell(entry.features.get(name, math.nan), ends[name]) for name in names]
        rank, href = number(entry.rank, str(entry.rank)), f"#{code}/{model_indices[entry.model]}"
        rows.append(model_row(rank, entry.model, href, entry.model in new, cells))
    head = [*model_head("Rank"), *map(sortable, names)]
    means = table(head, rows, class_="sortable features")
    hint = (
        "Mean of each feature over the queries that have a value. The highest value of a column "
        "has the strongest colour."
    )
    heading = tag("h3", "Features by model", id=f"{code}-features")
    return tag(
        "section", heading, *scrolling(means, f"Features by model, {language(code).name}", hint)
    )


def _range(ranking: Ranking, name: str) -> tuple[float, float]:
    values = [entry.features.get(name, math.nan) for entry in ranking]
    finite = [value for value in values if math.isfinite(value)]
    return min(finite, default=0.0), max(finite, default=1.0)


def _feature_cell(value: float, ends: tuple[float, float]) -> Element:
    if not math.isfinite(value):
        return number(math.nan, "")
    low, high = ends
    share = (value - low) / (high - low) if high > low else 0.0
    return number(value, f"{value:.3f}".replace("-", "−"), class_=shade(share))


def fault_costs(code: str, costs: Sequence[FaultCost], queries: int) -> Element:
    """Return a section with the cost of each kind of fault, in logits.

    The costs come from a surrogate, a regression that was trained on simulated systems.

    Args:
        code: Language code.
        costs: The cost of each kind of fault if it occurs on all queries.
        queries: Number of queries.
    """
    scale = Scale.over([0.0, *(cost.logit for cost in costs)])
    rows = [
        tag(
            "tr",
            tag("th", cost.kind, scope="row", class_="name"),
            number(cost.logit, f"{cost.logit:.2f}"),
            number(cost.logit / queries, f"{cost.logit / queries:.3f}"),
            tag("td", bar(scale, cost.logit), class_="drawn"),
        )
        for cost in costs
    ]
    head = [
        column("Fault", class_="name"),
        column("On all queries", class_="number"),
        column("On one", class_="number"),
        column(axis(scale), tag("span", "drawn", class_="unseen"), class_="drawn"),
    ]
    hint = (
        "How much the logit of a simulated system without faults falls if its responses have the "
        f"fault, on all {queries} queries or on one of them."
    )
    bars = scrolling(table(head, rows, class_="plain"), "Cost of a fault", hint)
    return tag("section", tag("h3", "Cost of a fault", id=f"{code}-costs"), *bars)


def pairwise(code: str, why_not: str) -> Element:
    """Return the section that the page's script fills with win probabilities.

    If there are no win probabilities, the section contains the reason, ``why_not``, instead.
    """
    body = [tag("p", why_not, class_="hint")]
    if not why_not:
        hint = "This table needs JavaScript; Ranking.p_better gives the same numbers."
        body = [tag("div", class_="pairs", data_language=code), tag("noscript", tag("p", hint))]
    return tag("section", tag("h3", "Pairwise win probabilities", id=f"{code}-pairs"), body)


def verdicts(
    code: str,
    ranking: Ranking,
    judgments: Judgments,
    columns: Sequence[str],
    model_indices: Mapping[str, int],
) -> Element:
    """Return a section with the wins, ties and losses of each model against those in ``columns``.

    Args:
        code: Language code.
        ranking: The ranking in this language.
        judgments: The judgments to count.
        columns: Names of the models that have a column.
        model_indices: Position of each model in the page's list of models; links contain it.
    """
    wins, ties = judgments.results()
    at = {model: index for index, model in enumerate(judgments.models)}

    def cell(model: str, other: str) -> Element:
        if model == other:
            return tag("td", class_="number")
        i, j = at[model], at[other]
        won, tied, lost = int(wins[i, j]), int(ties[i, j]), int(wins[j, i])
        count = won + tied + lost
        text = f"{won} / {tied} / {lost}" if count else "—"
        share = (won + tied / 2) / count if count else math.nan
        mark = "number" if math.isnan(share) else f"number p{min(int(share * 10), 9)}"
        return tag("td", text, class_=mark, title=f"{count} judgments")

    head = [column("Won / tied / lost against →", class_="name")]
    for model in columns:
        unseen = tag("span", f", {label(model)}", class_="unseen")
        head.append(column(str(ranking[model].rank), unseen, class_="number"))
        head[-1].set("title", label(model))
    rows = []
    for entry in ranking:
        href = f"#{code}/{model_indices[entry.model]}"
        link = tag("a", tag("bdi", breakable(entry.model)), href=href)
        name = tag("th", f"{entry.rank} ", link, scope="row", class_="name")
        rows.append(tag("tr", name, (cell(entry.model, other) for other in columns)))
    matrix = table(head, rows, class_="matrix verdicts")
    ties_in_all = int(ties.sum()) // 2
    hint = (
        f"Judgments of the model in the row against the model in the column: {len(judgments)} in "
        f"total, {ties_in_all} of them ties. Columns are numbered by rank."
    )
    heading = tag("h3", "Judgments by pair", id=f"{code}-verdicts")
    return tag("section", heading, *scrolling(matrix, "Judgments by pair", hint))


def definitions(rows: Sequence[tuple[str, str]]) -> Element:
    """Return an HTML definition list of ``rows``, which are pairs of a name and a value."""
    terms = ((tag("dt", tag("bdi", name)), tag("dd", tag("bdi", value))) for name, value in rows)
    return tag("dl", chain.from_iterable(terms))
