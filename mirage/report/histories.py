"""Write a page on metrics over commits: a plot of each metric and a table."""

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

_HASH_LENGTH = 10  # displayed characters of a commit's name
_DENSE = 60  # number of commits from which dots are small


class Point(NamedTuple):
    """The value of a metric at a commit.

    Attributes:
        mean: Mean over queries; NaN if the metric was not measured.
        low: Lower end of the interval of the mean; NaN (the default) if unknown.
        high: Upper end of the interval of the mean; NaN (the default) if unknown.
        p: p-value of the test against the reference commit; NaN (the default) if not tested.
    """

    mean: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan


class Moment(NamedTuple):
    """A measured commit.

    Attributes:
        commit: Name of the commit.
        time: Time of the measurement, in ISO format.
        label: Label given by a user.
        rank: Rank of the model; ``None`` if it was not ranked.
        accepted: Whether later commits are compared with this one.
        against: The commit that this one is compared with; empty if it is not compared.
        worse: Metrics that got significantly worse.
    """

    commit: str
    time: str = ""
    label: str = ""
    rank: int | None = None
    accepted: bool = False
    against: str = ""
    worse: Sequence[str] = ()


class Timeline(NamedTuple):
    """The metrics of one model over commits.

    Attributes:
        title: Title of the section, such as the name of the model.
        notes: Notes below the table.
        moments: The commits, in order.
        metrics: For each metric, one point per commit.
    """

    title: str
    notes: Sequence[str]
    moments: Sequence[Moment]
    metrics: Mapping[str, Sequence[Point]]


def write_history(timelines: Iterable[Timeline], path: str | Path) -> None:
    """Write the metrics of models over commits as one self-contained HTML file.

    Args:
        timelines: One timeline per model, such as those of
            :meth:`mirage.testing.Series.timeline`.
        path: Path of the file.

    Raises:
        MirageError: If the file cannot be written.
    """
    save(render_history(timelines), path)


def render_history(timelines: Iterable[Timeline]) -> str:
    """Return the text of the file that :func:`write_history` writes.

    Args:
        timelines: As in :func:`write_history`.

    Example:
        >>> from mirage.report.histories import Moment, Point, Timeline, render_history
        >>> moments = [Moment("4f2a91c"), Moment("b81d03e", worse=["recall"])]
        >>> points = [Point(0.81, 0.78, 0.84), Point(0.70, 0.66, 0.74)]
        >>> timeline = Timeline("my-rag", [], moments, {"recall": points})
        >>> "1 significantly worse" in render_history([timeline])
        True
    """
    timelines = list(timelines)
    alarms = sum(bool(moment.worse) for timeline in timelines for moment in timeline.moments)
    commits = len({moment.commit for timeline in timelines for moment in timeline.moments})
    links = (
        tag("li", tag("a", tag("bdi", label(timeline.title)), href=f"#series-{index}"))
        for index, timeline in enumerate(timelines)
    )
    main = tag(
        "main",
        tag("div", (_section(index, part) for index, part in enumerate(timelines)), id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )
    navigation = tag("nav", tag("ul", links), aria_label="Sections")
    lead = f"{_count(commits, 'commit')}, {alarms or 'none'} significantly worse"
    return whole("History", lead, navigation, main, {})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _section(index: int, timeline: Timeline) -> Element:
    plots = (_figure(name, timeline.moments, points) for name, points in timeline.metrics.items())
    notes = (tag("li", tag("bdi", cut(note, 1000)[0])) for note in timeline.notes)
    return tag(
        "section",
        tag("h2", tag("bdi", label(timeline.title)), id=f"series-{index}"),
        tag("div", plots, class_="timelines"),
        *scrolling(
            _table(timeline), label(timeline.title), "Brackets contain 95 % intervals of the mean."
        ),
        tag("ul", notes, class_="hint"),
    )


# Plots --------------------------------------------------------------------------------------------


def _figure(name: str, moments: Sequence[Moment], points: Sequence[Point]) -> Element:
    """Plot the means of a metric with their intervals, and mark the commits that got worse."""
    up = _scale(points)
    across = Scale(0.0, max(len(points) - 1, 1))
    ticks = [
        tag("text", f"{tick:.4g}".replace("-", "−"), x="100%", y=_height(up, tick), dy="4")
        for tick in up.ticks
    ]
    plot = tag("svg", _plot_elements(name, moments, points, across, up), aria_hidden="true")
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
    """Return the scale of the plotted numbers.

    If they are all equal, the scale extends 0.1 below that number, or 0.1 above it if it is 0.
    """
    values = [value for point in points for value in point[:3] if math.isfinite(value)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return Scale(low, high) if low < high else Scale(low - 0.1 * (low != 0), low + 0.1 * (low == 0))


def _height(up: Scale, value: float) -> str:
    return f"{100 - float(up.at(value)[:-1]):.1f}%"


def _plot_elements(
    name: str, moments: Sequence[Moment], points: Sequence[Point], across: Scale, up: Scale
) -> Iterator[Element]:
    for tick in up.ticks:
        y = _height(up, tick)
        yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="level")
    for index, (point, following) in enumerate(pairwise(points)):
        if math.isfinite(point.mean) and math.isfinite(following.mean):
            yield tag(
                "line",
                x1=across.at(index),
                x2=across.at(index + 1),
                y1=_height(up, point.mean),
                y2=_height(up, following.mean),
                class_="path",
            )
    for index, (moment, point) in enumerate(zip(moments, points, strict=True)):
        if math.isfinite(point.mean):
            small = len(points) >= _DENSE
            yield _mark(across.at(index), up, moment, point, name in moment.worse, small)


def _mark(x: str, up: Scale, moment: Moment, point: Point, worse: bool, small: bool) -> Element:
    parts: list[Child] = [
        tag("title", f"{_short(moment.commit)}: {_format_mean(point)}{_format_interval(point)}")
    ]
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
    summary = f"worse at {', '.join(worse[:3])}{more}"
    return tag("span", tag("bdi", summary), class_="mark warn")


# The table ----------------------------------------------------------------------------------------


def _table(timeline: Timeline) -> Element:
    ranked = any(moment.rank is not None for moment in timeline.moments)
    head = [column("Commit", class_="name"), sortable("Time", numeric=False, first="down")]
    head += [column(title, class_="name") for title in ("Label", "Compared with", "Worse")]
    head += [sortable("Rank", first="up")] if ranked else []
    head += [sortable(metric) for metric in timeline.metrics]
    rows = (
        _row(
            moment,
            [points[index] for points in timeline.metrics.values()],
            ranked,
            [*timeline.metrics],
        )
        for index, moment in enumerate(timeline.moments)
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
        rank = math.nan if moment.rank is None else float(moment.rank)
        cells.append(number(rank, str(moment.rank)))
    for metric, point in zip(metrics, points, strict=True):
        cell = number(point.mean, _format_mean(point), class_="error" * (metric in moment.worse))
        if not math.isnan(point.mean):
            cell.append(tag("span", _format_interval(point), class_="hint"))
        cells.append(cell)
    return tag("tr", cells)


def _short(commit: str) -> str:
    return label(commit)[:_HASH_LENGTH]


def _format_mean(point: Point) -> str:
    return f"{point.mean:.3f}".replace("-", "−")


def _format_interval(point: Point) -> str:
    if math.isnan(point.low):
        return ""
    return f" [{point.low:.3f}, {point.high:.3f}]".replace("-", "−")
