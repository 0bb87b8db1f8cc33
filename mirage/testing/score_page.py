"""Write a comparison of scores as an HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from mirage.report.drawing import Scale, axis, interval
from mirage.report.elements import Child, breakable, cut, label, tag
from mirage.report.file import save, whole
from mirage.report.sections import column, number, scrolling, table
from mirage.testing.score_changes import MetricChange, ScoreComparison

_ITEM = 300  # most characters of an item's name


def write_comparison(result: ScoreComparison, path: str | Path) -> None:
    """Write a comparison as one self-contained HTML file."""
    save(render_comparison(result), path)


def render_comparison(result: ScoreComparison) -> str:
    """Return the HTML page that :func:`write_comparison` writes, as a string."""
    changes = [change for change in result.changes if change.losses]
    links = [("metrics", "Metrics"), ("notes", "Notes")]
    links += [(f"losses-{i}", f"Largest losses: {label(c.metric)}") for i, c in enumerate(changes)]
    navigation = tag(
        "nav",
        tag("ul", (tag("li", tag("a", tag("bdi", text), href=f"#{to}")) for to, text in links)),
        aria_label="Sections",
    )
    sections = (_losses(i, change) for i, change in enumerate(changes))
    main = tag(
        "main",
        tag("div", _overview(result), _notes(result), sections, id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )
    title = f"{label(result.after)} against {label(result.before)}"
    return whole(title, label(result.summary), navigation, main, {})


def _overview(result: ScoreComparison) -> Element:
    scale = Scale.over(
        [0.0, *(end for c in result.changes for end in (c.difference, *c.interval) if end == end)]
    )
    head = [column("Metric", class_="name"), column("Verdict", class_="name")]
    head += [column(title, class_="number") for title in ("Before", "After", "Change")]
    head += [tag("th", "95 % interval", axis(scale), scope="col", class_="drawn")]
    head += [column(title, class_="number") for title in ("p (worse)", "Lost ≤", "Items")]
    rows = (_row(change, scale) for change in result.changes)
    hint = (
        f"Change is after minus before. Lost ≤: upper bound of the mean loss as a share of the "
        f"scale; the margin is {result.margin:g}. P-values are corrected for the number of metrics."
    )
    return tag(
        "section",
        tag("h2", "Metrics", id="metrics"),
        *scrolling(table(head, rows, class_="judges"), "Metrics", hint),
    )


def _row(change: MetricChange, scale: Scale) -> Element:
    kind = {"worse": "mark warn", "no worse": "mark good"}.get(change.verdict, "mark")
    cells: list[Child] = [
        tag("th", tag("bdi", breakable(change.metric)), scope="row"),
        tag(
            "td", tag("span", change.verdict, class_=kind), " better" if change.is_better else None
        ),
        *(_number(value, ".3f") for value in (change.before, change.after)),
        _number(change.difference, "+.3f"),
        tag("td", interval(scale, change.difference, change.interval), class_="drawn"),
        _number(change.p, ".4f"),
        _number(change.lost_at_most, ".3f"),
        number(change.items, str(change.items)),
    ]
    return tag("tr", cells)


def _number(value: float, form: str) -> Element:
    text = format(value, form).replace("-", "−") if math.isfinite(value) else "—"
    return number(value if math.isfinite(value) else math.nan, text)


def _notes(result: ScoreComparison) -> Element:
    items = (tag("li", tag("bdi", cut(note, 1000)[0])) for note in result.notes)
    body = tag("ul", items) if result.notes else tag("p", "None.")
    return tag("section", tag("h2", "Notes", id="notes"), body)


def _losses(index: int, change: MetricChange) -> Element:
    title = f"Largest losses: {label(change.metric)}"
    head = [column("Item", class_="name")]
    head += [column(title, class_="number") for title in ("Before", "After")]
    rows = table(head, _loss_rows(change), class_="judges")
    hint = f"{change.worse} of {change.items} items got worse, {change.better} better."
    return tag(
        "section",
        tag("h2", tag("bdi", title), id=f"losses-{index}"),
        *scrolling(rows, title, hint),
    )


def _loss_rows(change: MetricChange) -> Iterator[Element]:
    for item, before, after in change.losses:
        name = tag("th", tag("bdi", cut(item, _ITEM)[0]), scope="row")
        yield tag("tr", name, _number(before, ".3f"), _number(after, ".3f"))
