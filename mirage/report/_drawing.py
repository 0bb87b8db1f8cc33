"""Intervals and bars as inline SVG. Positions are percentages, so a drawing fits any width."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from mirage.report._elements import tag

__all__ = ["Scale", "axis", "bar", "interval"]

MARGIN = 0.04
"""Of the width, left free on both sides, so that no dot is cut."""


@dataclass(frozen=True)
class Scale:
    """A range of numbers on the width of a drawing."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Scale:
        """The scale of all these numbers; those that are not finite do not count."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        if low == high:
            low, high = low - 1, high + 1
        return cls(low, high)

    def at(self, value: float) -> str:
        """Where a number stands, in percent of the width."""
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * (MARGIN + min(max(share, 0.0), 1.0) * (1 - 2 * MARGIN)):.1f}%"

    @property
    def ticks(self) -> list[float]:
        """Two to five round numbers of the range."""
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]


def axis(scale: Scale) -> Element:
    """The round numbers of a scale, for the head of a column of drawings."""
    marks = [
        tag("text", f"{tick:.4g}".replace("-", "−"), x=scale.at(tick), y="11", class_="tick")
        for tick in scale.ticks
    ]
    return tag("svg", marks, class_="axis", aria_hidden="true", focusable="false")


def interval(scale: Scale, value: float, ends: tuple[float, float]) -> Element:
    """A dot at a value, and a line from end to end; the numbers stand beside it for all readers."""
    parts = []
    if scale.low <= 0 <= scale.high:
        zero = scale.at(0.0)
        parts.append(tag("line", x1=zero, x2=zero, y1="0", y2="100%", class_="zero"))
    if all(map(math.isfinite, ends)):
        left, right = map(scale.at, ends)
        parts.append(tag("line", x1=left, x2=right, y1="50%", y2="50%", class_="whisker"))
    if math.isfinite(value):
        parts.append(tag("circle", cx=scale.at(value), cy="50%", r="4", class_="dot"))
    return tag("svg", parts, class_="interval", aria_hidden="true", focusable="false")


def bar(scale: Scale, value: float) -> Element:
    """A bar from 0 to a value."""
    left, right = sorted(float(scale.at(end)[:-1]) for end in (0.0, value))
    x, width = f"{left:.1f}%", f"{max(right - left, 0.5):.1f}%"
    side = "bar" if value >= 0 else "bar below"
    part = tag("rect", x=x, width=width, y="25%", height="50%", rx="2", class_=side)
    return tag("svg", part, class_="interval", aria_hidden="true", focusable="false")
