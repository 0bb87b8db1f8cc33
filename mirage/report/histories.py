"""A page of what was measured over commits: a plot of each metric, and a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mirage.report._drawing import Scale
from mirage.report._elements import Child, breakable, cut, label, tag
from mirage.report._file import save, whole
from mirage.report._sections import column, number, scrolling, sortable, table

__all__ = ["Moment", "Point", "Timeline", "render_history", "write_history"]

_SHOWN = 10  # characters of a commit's name
_DENSE = 60  # commits from which dots are small


class Point(NamedTuple):
    """A metric at a commit; all but the mean may be NaN, and the mean where nothing is measured.

    Attributes:
        mean: over queries.
        low: lower end of its interval.
        high: its upper end.
        p: of the test against the reference.
    """

    mean: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan


class Moment(NamedTuple):
    """A commit.

    Attributes:
        commit: its name.
        time: when it was measured.
        label: what somebody called it.
        rank: the place in a ranking, where one was made.
        accepted: whether later ones are compared with it.
        against: the commit that it is compared with; empty where it is not compared.
        worse: the metrics that got worse, told from noise.
    """

    commit: str
    time: str = ""
    label: str = ""
    rank: int | None = None
    accepted: bool = False
    against: str = ""
    worse: Sequence[str] = ()


class Timeline(NamedTuple):
    """One model over commits.

    Attributes:
        title: of what.
        notes: how to read it.
        moments: the commits, in order.
        metrics: a point a commit, by metric.
    """

    title: str
    notes: Sequence[str]
    moments: Sequence[Moment]
    metrics: Mapping[str, Sequence[Point]]


def write_history(timelines: Iterable[Timeline], path: str | Path) -> None:
    """Write how metrics moved over commits as one HTML file that needs nothing else.

    Args:
        timelines: of each model, such as :meth:`mirage.testing.Series.timeline` gives.
        path: the file to write.

    Raises:
        MirageError: the file cannot be written.
    """
    save(render_history(timelines), path)


def render_history(timelines: Iterable[Timeline]) -> str:
    """The text of the file that :func:`write_history` writes."""
    shown = list(timelines)
    alarms = sum(bool(moment.worse) for one in shown for moment in one.moments)
    commits = len({moment.commit for one in shown for moment in one.moments})
    links = (
        tag("li", tag("a", tag("bdi", label(one.title)), href=f"#series-{place}"))
        for place, one in enumerate(shown)
    )
    main = tag(
        "main",
        tag("div", (_section(place, one) for place, one in enumerate(shown)), id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )
    navigation = tag("nav", tag("ul", links), aria_label="Sections")
    words = f"{_count(commits, 'commit')}, {alarms or 'none'} told to be worse"
    return whole("History", words, navigation, main, {})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _section(place: int, one: Timeline) -> Element:
    plots = (_figure(name, one.moments, points) for name, points in one.metrics.items())
    notes = (tag("li", tag("bdi", cut(note, 1000)[0])) for note in one.notes)
    return tag(
        "section",
        tag("h2", tag("bdi", label(one.title)), id=f"series-{place}"),
        tag("div", plots, class_="timelines"),
        *scrolling(_table(one), label(one.title), "In brackets are 95 % intervals of the mean."),
        tag("ul", notes, class_="hint"),
    )


# Plots --------------------------------------------------------------------------------------------


def _figure(name: str, moments: Sequence[Moment], points: Sequence[Point]) -> Element:
    """The means, a line from each to the next, their intervals, and where it got worse."""
    up = _scale(points)
    across = Scale(0.0, max(len(points) - 1, 1))
    ticks = [
        tag("text", f"{tick:.4g}".replace("-", "−"), x="100%", y=_height(up, tick), dy="4")
        for tick in up.ticks
    ]
    plot = tag("svg", _drawn(name, moments, points, across, up), aria_hidden="true")
    ends = [tag("span", tag("bdi", _short(moments[0].commit)))]
    if len(moments) > 1:
        ends.append(tag("span", tag("bdi", _short(moments[-1].commit))))
    return tag(
        "figure",
        tag("figcaption", tag("b", breakable(name)), _summary(name, moments)),
        tag("svg", ticks, class_="ticks", aria_hidden="true"),
        plot,
        tag("div", ends, class_="ends hint"),
        class_="timeline",
    )


def _scale(points: Iterable[Point]) -> Scale:
    """Of all that is drawn; where that is one number, it is the upper end, and 0 the lower one."""
    values = [value for point in points for value in point[:3] if math.isfinite(value)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return Scale(low, high) if low < high else Scale(low - 0.1 * (low != 0), low + 0.1 * (low == 0))


def _height(up: Scale, value: float) -> str:
    return f"{100 - float(up.at(value)[:-1]):.1f}%"


def _drawn(
    name: str, moments: Sequence[Moment], points: Sequence[Point], across: Scale, up: Scale
) -> Iterator[Element]:
    for tick in up.ticks:
        y = _height(up, tick)
        yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="level")
    for place, (left, right) in enumerate(pairwise(points)):
        if math.isfinite(left.mean) and math.isfinite(right.mean):
            yield tag(
                "line",
                x1=across.at(place),
                x2=across.at(place + 1),
                y1=_height(up, left.mean),
                y2=_height(up, right.mean),
                class_="path",
            )
    for place, (moment, point) in enumerate(zip(moments, points, strict=True)):
        if math.isfinite(point.mean):
            small = len(points) >= _DENSE
            yield _mark(across.at(place), up, moment, point, name in moment.worse, small)


def _mark(x: str, up: Scale, moment: Moment, point: Point, worse: bool, small: bool) -> Element:
    parts: list[Child] = [tag("title", f"{_short(moment.commit)}: {_value(point)}{_ends(point)}")]
    if worse:
        parts.append(tag("line", x1=x, x2=x, y1="0", y2="100%", class_="alarm"))
    if math.isfinite(point.low) and math.isfinite(point.high):
        ends = {"y1": _height(up, point.low), "y2": _height(up, point.high)}
        parts.append(tag("line", x1=x, x2=x, class_="whisker", **ends))
    radius = "6" if worse else "2" if small else "3.5"
    at = {"cx": x, "cy": _height(up, point.mean)}
    parts.append(tag("circle", r=radius, class_="dot alarm" if worse else "dot", **at))
    return tag("g", parts)


def _summary(name: str, moments: Sequence[Moment]) -> Child:
    worse = [_short(moment.commit) for moment in moments if name in moment.worse]
    if not worse:
        return None
    more = f" and {len(worse) - 3} more" if len(worse) > 3 else ""
    words = f"worse at {', '.join(worse[:3])}{more}"
    return tag("span", tag("bdi", words), class_="mark warn")


# The table ----------------------------------------------------------------------------------------


def _table(one: Timeline) -> Element:
    ranked = any(moment.rank is not None for moment in one.moments)
    head = [column("Commit", class_="name"), sortable("Time", numeric=False, first="down")]
    head += [column(words, class_="name") for words in ("Label", "Against", "Worse")]
    head += [sortable("Rank", first="up")] if ranked else []
    head += [sortable(metric) for metric in one.metrics]
    rows = (
        _row(moment, [points[place] for points in one.metrics.values()], ranked, [*one.metrics])
        for place, moment in enumerate(one.moments)
    )
    return table(head, rows, class_="sortable grid history")


def _row(moment: Moment, points: Sequence[Point], ranked: bool, metrics: Sequence[str]) -> Element:
    accepted = tag("span", "accepted", class_="mark good") if moment.accepted else None
    worse = ", ".join(moment.worse) or ("no" if moment.against else "not compared")
    cells: list[Child] = [
        tag("th", tag("code", _short(moment.commit)), accepted, scope="row", title=moment.commit),
        tag("td", label(moment.time[:16].replace("T", " ")), class_="time", data_v=moment.time),
        tag("td", tag("bdi", label(moment.label) if moment.label else "")),
        tag("td", tag("code", _short(moment.against)) if moment.against else "—"),
        tag("td", tag("bdi", cut(worse, 300)[0]), class_="error" if moment.worse else None),
    ]
    if ranked:
        place = math.nan if moment.rank is None else float(moment.rank)
        cells.append(number(place, str(moment.rank)))
    for metric, point in zip(metrics, points, strict=True):
        cell = number(point.mean, _value(point), class_="error" * (metric in moment.worse))
        if not math.isnan(point.mean):
            cell.append(tag("span", _ends(point), class_="hint"))
        cells.append(cell)
    return tag("tr", cells)


def _short(commit: str) -> str:
    return label(commit)[:_SHOWN]


def _value(point: Point) -> str:
    return f"{point.mean:.3f}".replace("-", "−")


def _ends(point: Point) -> str:
    if math.isnan(point.low):
        return ""
    return f" [{point.low:.3f}, {point.high:.3f}]".replace("-", "−")
