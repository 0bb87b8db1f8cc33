"""Draw intervals and bars as inline SVG.

Positions are percentages, so that a drawing fits any width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from mirage.report.elements import tag

MARGIN = 0.04
"""Share of the width that stays free on each side, so that no dot is cut off."""


@dataclass(frozen=True)
class Scale:
    """A mapping from a range of numbers to the width of a drawing.

    Attributes:
        low: Lowest number of the range.
        high: Highest number of the range.
    """

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Scale:
        """Return the scale from the smallest to the largest finite number."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        if low == high:  # a scale needs a width above zero
            low, high = low - 1, high + 1
        return cls(low, high)

    def at(self, value: float) -> str:
        """Return the position of a number as a percentage of the width, such as ``"50.0%"``.

        A number outside of the range is placed at the nearer end of the scale.
        """
        share = (value - self.low) / (self.high - self.low)
        return f"{100 * (MARGIN + min(max(share, 0.0), 1.0) * (1 - 2 * MARGIN)):.1f}%"

    @property
    def ticks(self) -> list[float]:
        """Between two and five round numbers in the range, for an axis."""
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]


def axis(scale: Scale) -> Element:
    """Return the SVG of the axis above a column of charts, with labels at round numbers."""
    marks = [
        tag("text", f"{tick:.4g}".replace("-", "−"), x=scale.at(tick), y="11", class_="tick")
        for tick in scale.ticks
    ]
    return tag("svg", marks, class_="axis", aria_hidden="true", focusable="false")


def interval(scale: Scale, value: float, ends: tuple[float, float]) -> Element:
    """Return the SVG of a dot at a value and of a line between the ends of its interval.

    Screen readers skip the drawing, because the table also contains the numbers.
    """
    parts = []
    if scale.low <= 0 <= scale.high:
        zero = scale.at(0.0)
        parts.append(tag("line", x1=zero, x2=zero, y1="0", y2="100%", class_="zero"))
    if all(map(math.isfinite, ends)):
        start, end = map(scale.at, ends)
        parts.append(tag("line", x1=start, x2=end, y1="50%", y2="50%", class_="whisker"))
    if math.isfinite(value):
        parts.append(tag("circle", cx=scale.at(value), cy="50%", r="4", class_="dot"))
    return tag("svg", parts, class_="interval", aria_hidden="true", focusable="false")


def bar(scale: Scale, value: float) -> Element:
    """Return the SVG of a bar from 0 to a value."""
    start, end = sorted(float(scale.at(number)[:-1]) for number in (0.0, value))
    x, width = f"{start:.1f}%", f"{max(end - start, 0.5):.1f}%"
    side = "bar" if value >= 0 else "bar below"
    part = tag("rect", x=x, width=width, y="25%", height="50%", rx="2", class_=side)
    return tag("svg", part, class_="interval", aria_hidden="true", focusable="false")
