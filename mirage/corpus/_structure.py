"""The structure of documents: headings, and the code, tables and lists that passages keep whole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple, Self

from pydantic import Field

from mirage.models import Passage

BlockKind = Literal["text", "heading", "code", "table", "item"]
"""The kind of a block. Text may be cut anywhere, other kinds only if they are too long.

A block is too long if it does not fit into one passage.
"""

TITLE_LENGTH = 200
"""Maximum length of a title or heading, in characters; the rest is cut off."""

SEPARATOR = " > "
"""The separator between the headings in the title of a passage."""


class Block(NamedTuple):
    """A heading, paragraph, list item, table or code block of a file.

    Attributes:
        text: The text. Markdown and reStructuredText keep their markup.
        kind: The kind of block.
        level: The depth of a heading, from 1; 0 for other blocks.
        title: The text of a heading without its markup; empty if ``text`` has no markup, and for
            other blocks.
    """

    text: str
    kind: BlockKind = "text"
    level: int = 0
    title: str = ""


class Parsed(NamedTuple):
    """The content of a file.

    Attributes:
        blocks: The blocks, in reading order.
        title: The title in the metadata of the file; empty if there is none.
        problem: Description of content that could not be read; empty if there is none.
    """

    blocks: Sequence[Block]
    title: str = ""
    problem: str = ""


class Part(NamedTuple):
    """A block within a document: its position in the text, its kind, and the headings above it."""

    start: int
    end: int
    kind: BlockKind
    path: tuple[str, ...]


class Document(Passage):
    """A whole document, with the positions of its blocks in the text."""

    parts: tuple[Part, ...] = Field(default=(), exclude=True, repr=False)


def assemble(id_: str, parsed: Parsed, fallback_title: str) -> Document:
    """Return the document with the id ``id_`` that consists of the blocks of a parsed file.

    The title is the first heading of level 1, otherwise the title in the metadata, otherwise
    ``fallback_title``.
    """
    heading = next((b for b in parsed.blocks if b.kind == "heading" and b.level == 1), None)
    candidates = (_heading_title(heading) if heading else "", _as_title(parsed.title))
    title = next(filter(None, candidates), fallback_title)
    # The path of a block begins with the title. A heading of level 1 already is the title.
    root = () if heading else (title,)
    pieces: list[str] = []
    parts: list[Part] = []
    headings: list[tuple[int, str]] = []
    length, previous = 0, None
    for block in parsed.blocks:
        if block.kind == "heading":
            while headings and headings[-1][0] >= block.level:
                headings.pop()
            headings.append((block.level, _heading_title(block)))
        gap = "" if previous is None else "\n" if block.kind == previous == "item" else "\n\n"
        start = length + len(gap)
        pieces += [gap, block.text]
        length = start + len(block.text)
        path = (*root, *(text for _, text in headings if text)) or (title,)
        parts.append(Part(start, length, block.kind, path))
        previous = block.kind
    return Document(id=id_, text="".join(pieces), title=title, parts=tuple(parts))


def _heading_title(heading: Block) -> str:
    return _as_title(heading.title or heading.text)


def _as_title(text: str) -> str:
    return " ".join(text[: 4 * TITLE_LENGTH].split())[:TITLE_LENGTH].strip()


class Layout:
    """The positions at which the passages of a text may begin and end.

    A position is the index of a unit, such as a word.

    Args:
        text: The text of the document.
        starts: The offset of the first character of each unit.
        parts: The blocks of the document; empty if its structure is unknown.
    """

    def __init__(self, text: str, starts: Sequence[int], parts: Sequence[Part]) -> None:
        self._text, self._starts, self._parts = text, starts, parts
        self._first_units = [bisect_left(starts, part.start) for part in parts]
        self._is_inside = bytearray(len(starts) + 1)
        self._is_heading = bytearray(len(starts) + 1)
        for part, first in zip(parts, self._first_units, strict=True):
            self._add(part, first)

    @classmethod
    def of(cls, document: Passage, spans: Sequence[tuple[int, int]]) -> Self:
        """Return the layout of a document.

        ``spans`` are the start and end of each unit, such as a word, in the text.
        """
        parts = document.parts if isinstance(document, Document) else ()
        return cls(document.text, [start for start, _ in spans], parts)

    def _add(self, part: Part, first: int) -> None:
        last = bisect_left(self._starts, part.end)
        if part.kind == "text" or last == first:
            return
        for unit in range(first + 1, last):
            self._is_inside[unit] = 1
        if part.kind == "heading":
            self._is_heading[first] = 1
            self._is_inside[last] = 1  # A heading stays with the text below it.

    def end_of(self, start: int, size: int) -> int:
        """Return the position at which a passage ends: the index of the unit (word) after it.

        A passage that is at least half full ends before a heading.

        Args:
            start: Index of the first unit of the passage.
            size: Maximum number of units in the passage.
        """
        limit = min(start + size, len(self._starts))
        for unit in range(start + max(1, -(-size // 2)), limit):
            if self._is_heading[unit] and not self._is_inside[unit]:
                return unit
        if limit == len(self._starts):
            return limit
        # Search backwards, to make the passage as long as possible.
        candidates = range(limit, start, -1)
        whole = next((unit for unit in candidates if not self._is_inside[unit]), None)
        return whole or next(filter(self._begins_line, candidates), limit)

    def resume(self, start: int, end: int, overlap: int) -> int:
        """Return the position at which the next passage begins: the index of its first unit (word).

        Args:
            start: Index of the first unit of the previous passage.
            end: Index of the unit after the previous passage.
            overlap: Maximum number of units that the next passage repeats.
        """
        if self._is_heading[end]:
            return end
        earliest = max(end - overlap, start + 1)
        return next((u for u in range(earliest, end) if not self._is_inside[u]), end)

    def _begins_line(self, unit: int) -> bool:
        separator = self._text[self._starts[unit - 1] : self._starts[unit]]
        return "\n" in separator

    def text_of(self, start: int, end: int) -> str:
        """Return the text of the units (words) from ``start`` to before ``end``.

        The indentation of the first line is kept if the document has a structure.
        """
        begin = self._starts[start] if start else 0
        stop = self._starts[end] if end < len(self._starts) else len(self._text)
        if not self._parts:
            return self._text[begin:stop].strip()
        line = self._text.rfind("\n", 0, begin) + 1
        if not self._text[line:begin].strip():
            begin = line
        return self._text[begin:stop].strip("\n").rstrip()

    def title_of(self, start: int, end: int, title: str) -> str:
        """Return the title of a passage: the headings that are above all of its blocks.

        Args:
            start: Index of the first unit of the passage.
            end: Index of the unit after the passage.
            title: The title to return if the blocks share no heading.
        """
        first = max(0, bisect_left(self._first_units, start + 1) - 1)
        last = max(first + 1, bisect_left(self._first_units, end))
        return SEPARATOR.join(_common(part.path for part in self._parts[first:last])) or title


def _common(paths: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    levels = zip(*paths, strict=False)
    return tuple(level[0] for level in takewhile(lambda level: len({*level}) == 1, levels))
