"""Split a response into sections: reason, answer, and a preamble before them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text._unicode import BREAKS, SPACE, any_of, nfc


class _Heading(NamedTuple):
    kind: str
    start: int
    end: int
    hashed: bool


@lru_cache(maxsize=64)
def _heading(entry: Language) -> re.Pattern[str]:
    english = LANGUAGES["en"]
    reason = any_of(map(nfc, english.reason_headings + entry.reason_headings))
    answer = any_of(map(nfc, english.answer_headings + entry.answer_headings))
    line_start = rf"(?<![^{BREAKS}]) (?: [{SPACE}>*_【\#] | (?:[-+•]|\d{{1,2}}[.)])[{SPACE}] )*+"
    anywhere = rf"(?<!\#) \#{{1,6}} [{SPACE}*_]{{0,8}}"
    return re.compile(
        rf"(?P<marks> {line_start} | {anywhere} ) (?: (?P<reason>{reason}) | (?:{answer}) )"
        rf"[{SPACE}]{{0,8}} (?P<close>[*_】]{{0,3}}) [{SPACE}]{{0,8}}"
        rf"(?: (?P<colon>[:：]) (?P<late>[*_]{{0,3}}) | (?=[{BREAKS}]|\Z) )",
        re.VERBOSE | re.IGNORECASE,
    )


_LINE_OR_HASH = re.compile(rf"\A|[{BREAKS}]|#")


def _iter_headings(text: str, entry: Language) -> Iterator[re.Match[str]]:
    """Yield the matches of :func:`_heading` from left to right, without overlaps."""
    end = 0
    # A search for a set of characters is fast. A heading begins a line or has a hash.
    for marker in _LINE_OR_HASH.finditer(text):
        start = marker.start() if marker[0] == "#" else marker.end()
        match = _heading(entry).match(text, start) if start >= end else None
        if match is not None:
            end = match.end()
            yield match


def _headings(text: str, entry: Language) -> list[_Heading]:
    headings = []
    for match in _iter_headings(text, entry):
        hashes = match["marks"].count("#")
        bold = not {"*", "_", "【"}.isdisjoint(match["marks"])
        if hashes > 6 or not (match["colon"] or hashes or bold):
            continue
        # In `**Answer:** Nile` the marks after the colon close the heading. In `Answer:*Nile*`
        # they belong to the answer.
        closes_after_colon = bold and not match["close"]
        end = match.end() if closes_after_colon or not match["colon"] else match.start("late")
        kind = "reason" if match["reason"] else "answer"
        headings.append(_Heading(kind, match.start(), end, hashes > 0))
    hashed_kinds = {heading.kind for heading in headings if heading.hashed}
    return [heading for heading in headings if heading.hashed or heading.kind not in hashed_kinds]


def sections(text: str, entry: Language) -> tuple[list[str], list[tuple[str, str]]]:
    """Split a response at its headings.

    The text before the first heading is a ``preamble`` if an answer heading follows, else part of
    the ``answer``.

    Returns:
        The kinds of the headings in order (``reason``, ``answer``), and all parts of the text as
        pairs of a kind and a text.
    """
    headings = _headings(text, entry)
    kinds = [heading.kind for heading in headings]
    ends = [heading.start for heading in headings] + [len(text)]
    bodies = [("preamble" if "answer" in kinds else "answer", text[: ends[0]])]
    bodies += [(h.kind, text[h.end : end]) for h, end in zip(headings, ends[1:], strict=True)]
    return kinds, bodies


def section(bodies: Iterable[tuple[str, str]], kind: str) -> str:
    """Return the text of all parts of one kind, joined by line breaks.

    ``bodies`` are pairs of a kind and a text, as from :func:`sections`.
    """
    parts = (body.strip() for part_kind, body in bodies if part_kind == kind)
    return "\n".join(part for part in parts if part)
