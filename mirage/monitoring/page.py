"""Write an HTML page that shows metrics over commits: a plot of each metric and a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import Element

from mirage.monitoring.series import CommitChanges, Series, Step
from mirage.report.drawing import Scale
from mirage.report.elements import Child, breakable, cut, label, tag
from mirage.report.file import save, whole
from mirage.report.sections import column, number, scrolling, sortable, table

_HASH_LENGTH = 10  # displayed characters of a commit's name
_DENSE = 60  # with at least this number of commits, dots are small


def write_history(all_series: Iterable[Series], path: str | Path) -> None:
    """Write series of commits as one self-contained HTML file.

    Raises:
        MirageError: If the file cannot be written.
    """
    save(render_history(all_series), path)


def render_history(all_series: Iterable[Series]) -> str:
    """Return the HTML page that :func:`write_history` writes to a file, as a string."""
    all_series = list(all_series)
    alarms = sum(bool(entry.worse) for series in all_series for entry in series.commits)
    commits = len({entry.commit.sha for series in all_series for entry in series.commits})
    links = (
        tag("li", tag("a", tag("bdi", label(series.title)), href=f"#series-{index}"))
        for index, series in enumerate(all_series)
    )
    main = tag(
        "main",
        tag("div", (_section(index, part) for index, part in enumerate(all_series)), id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )
    navigation = tag("nav", tag("ul", links), aria_label="Sections")
    lead = f"{_count(commits, 'commit')}, {alarms or 'none'} significantly worse"
    return whole("History", lead, navigation, main, {})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _section(index: int, series: Series) -> Element:
    metrics = zip(*(entry.steps for entry in series.commits), strict=True)
    return tag(
        "section",
        tag("h2", tag("bdi", label(series.title)), id=f"series-{index}"),
        tag("div", (_figure(series.commits, steps) for steps in metrics), class_="timelines"),
        *scrolling(
            _table(series), label(series.title), "Brackets contain 95 % intervals of the mean."
        ),
        tag("ul", tag("li", tag("bdi", cut(series.note, 1000)[0])), class_="hint"),
    )


# Plots --------------------------------------------------------------------------------------------


def _figure(commits: Sequence[CommitChanges], steps: Sequence[Step]) -> Element:
    """Plot the means of a metric with intervals, and mark the commits at which it got worse."""
    up = _scale(steps)
    across = Scale(0.0, max(len(steps) - 1, 1))
    ticks = [
        tag("text", f"{tick:.4g}".replace("-", "−"), x="100%", y=_height(up, tick), dy="4")
        for tick in up.ticks
    ]
    plot = tag("svg", _plot_elements(commits, steps, across, up), aria_hidden="true")
    ends = [tag("span", tag("bdi", _short(commits[0].commit.sha)))]
    if len(commits) > 1:
        ends.append(tag("span", tag("bdi", _short(commits[-1].commit.sha))))
    return tag(
        "figure",
        tag("figcaption", tag("b", breakable(steps[0].feature)), _summary(commits, steps)),
        tag("svg", ticks, class_="ticks", aria_hidden="true"),
        plot,
        tag("div", ends, class_="ends hint"),
        class_="timeline",
    )


def _scale(steps: Sequence[Step]) -> Scale:
    """Return the range of the plot's vertical axis, from the lowest to the highest plotted number.

    If all numbers equal x, the range is from x - 0.1 to x, or from 0 to 0.1 if x is 0. Without
    finite numbers, it is from 0 to 1.
    """
    values = [value for step in steps for value in step[1:4] if math.isfinite(value)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    return Scale(low, high) if low < high else Scale(low - 0.1 * (low != 0), low + 0.1 * (low == 0))


def _height(up: Scale, value: float) -> str:
    return f"{100 - float(up.at(value)[:-1]):.1f}%"


def _plot_elements(
    commits: Sequence[CommitChanges], steps: Sequence[Step], across: Scale, up: Scale
) -> Iterator[Element]:
    for tick in up.ticks:
        y = _height(up, tick)
        yield tag("line", x1="0", x2="100%", y1=y, y2=y, class_="level")
    for index, (step, following) in enumerate(pairwise(steps)):
        if math.isfinite(step.mean) and math.isfinite(following.mean):
            yield tag(
                "line",
                x1=across.at(index),
                x2=across.at(index + 1),
                y1=_height(up, step.mean),
                y2=_height(up, following.mean),
                class_="path",
            )
    for index, (entry, step) in enumerate(zip(commits, steps, strict=True)):
        if math.isfinite(step.mean):
            yield _mark(across.at(index), up, entry.commit.sha, step, len(steps) >= _DENSE)


def _mark(x: str, up: Scale, sha: str, step: Step, small: bool) -> Element:
    parts: list[Child] = [
        tag("title", f"{_short(sha)}: {_format_mean(step)}{_format_interval(step)}")
    ]
    if step.worse:
        parts.append(tag("line", x1=x, x2=x, y1="0", y2="100%", class_="alarm"))
    if math.isfinite(step.low) and math.isfinite(step.high):
        ends = {"y1": _height(up, step.low), "y2": _height(up, step.high)}
        parts.append(tag("line", x1=x, x2=x, class_="whisker", **ends))
    radius = "6" if step.worse else "2" if small else "3.5"
    at = {"cx": x, "cy": _height(up, step.mean)}
    parts.append(tag("circle", r=radius, class_="dot alarm" if step.worse else "dot", **at))
    return tag("g", parts)


def _summary(commits: Sequence[CommitChanges], steps: Sequence[Step]) -> Child:
    worse = [
        _short(entry.commit.sha) for entry, step in zip(commits, steps, strict=True) if step.worse
    ]
    if not worse:
        return None
    more = f" and {len(worse) - 3} more" if len(worse) > 3 else ""
    summary = f"worse at {', '.join(worse[:3])}{more}"
    return tag("span", tag("bdi", summary), class_="mark warn")


# The table ----------------------------------------------------------------------------------------


def _table(series: Series) -> Element:
    ranked = any(entry.commit.rank is not None for entry in series.commits)
    head = [column("Commit", class_="name"), sortable("Time", numeric=False, first="down")]
    head += [column(title, class_="name") for title in ("Compared with", "Worse")]
    head += [sortable("Rank", first="up")] if ranked else []
    head += [sortable(step.feature) for step in series.commits[0].steps]
    rows = (_row(entry, ranked) for entry in series.commits)
    return table(head, rows, class_="sortable grid history")


def _row(entry: CommitChanges, ranked: bool) -> Element:
    commit = entry.commit
    accepted = tag("span", "accepted", class_="mark good") if commit.accepted else None
    cells: list[Child] = [
        tag("th", tag("code", _short(commit.sha)), accepted, scope="row", title=commit.sha),
        tag("td", label(commit.time[:16].replace("T", " ")), class_="time", data_v=commit.time),
        tag("td", tag("code", _short(entry.reference)) if entry.reference else "—"),
        tag("td", tag("bdi", cut(entry.summary, 300)[0]), class_="error" if entry.worse else None),
    ]
    if ranked:
        rank = math.nan if commit.rank is None else float(commit.rank)
        cells.append(number(rank, str(commit.rank)))
    for step in entry.steps:
        cell = number(step.mean, _format_mean(step), class_="error" * step.worse)
        if not math.isnan(step.mean):
            cell.append(tag("span", _format_interval(step), class_="hint"))
        cells.append(cell)
    return tag("tr", cells)


def _short(commit: str) -> str:
    return label(commit)[:_HASH_LENGTH]


def _format_mean(step: Step) -> str:
    return f"{step.mean:.3f}".replace("-", "−")


def _format_interval(step: Step) -> str:
    if math.isnan(step.low):
        return ""
    return f" [{step.low:.3f}, {step.high:.3f}]".replace("-", "−")
