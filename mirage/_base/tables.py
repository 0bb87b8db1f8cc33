"""Small tables of names and numbers, as plain text, Markdown and HTML."""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.cells import cell_len

from mirage.errors import needing

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "RANKED",
    "WIDTH",
    "Rows",
    "Table",
    "frame_of",
    "ranked_cells",
    "to_html",
    "to_markdown",
    "to_text",
]

R = TypeVar("R")

WIDTH = 80
"""Columns of a terminal that a plain-text table fits."""

GAP = "  "
JOINERS = "\u200c\u200d"  # part of how Persian and Indic words are written

STYLE = (
    ".mirage-ranking td, .mirage-ranking th {padding: 0.15em 0.7em; text-align: right} "
    ".mirage-ranking .name {text-align: left} "
    ".mirage-ranking tr.own {font-weight: bold}"
)


RANKED = ("rank", "model", "logit", "95 % interval", "rank interval")
"""The header of a table of models by logit."""


@dataclass(frozen=True, eq=False)
class Rows(Generic[R]):
    """A result that is rows; iterates over them."""

    rows: tuple[R, ...]

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def frame_of(
    rows: Iterable[Any] | Mapping[str, Sequence[Any]], columns: list[str] | None = None
) -> pd.DataFrame:
    """A frame of these rows, or of columns by name.

    Raises:
        MissingPackageError: pandas is not installed.
    """
    with needing("pandas", "frames"):
        import pandas as pd
    return pd.DataFrame(rows if isinstance(rows, Mapping) else list(rows), columns=columns)


@dataclass(frozen=True)
class Table:
    """What a table shows.

    Attributes:
        title: the line above it.
        header: a word for each column.
        rows: the cells, in the order of the header.
        marked: for each row, whether it stands out; by default none does.
        notes: lines below it.
        name: the column of names; it is aligned left and cut where space is short. All others
            are numbers.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: tuple[bool, ...] = ()
    notes: tuple[str, ...] = ()
    name: int = 1

    @property
    def marks(self) -> tuple[bool, ...]:
        """Whether each row stands out."""
        return self.marked or (False,) * len(self.rows)

    def filled(self) -> Table:
        """The same table without the columns that are blank in every row."""
        columns = [j for j in range(len(self.header)) if any(row[j] for row in self.rows)]
        header, *rows = (tuple(row[j] for j in columns) for row in (self.header, *self.rows))
        return replace(self, header=header, rows=tuple(rows), name=columns.index(self.name))


def ranked_cells(
    rank: int,
    model: str,
    logit: float,
    interval: Sequence[float],
    rank_interval: Sequence[int] | None,
) -> tuple[str, ...]:
    """The cells of one model below :data:`RANKED`; blank where a number is NaN or not there."""
    low, high = interval
    return (
        str(rank),
        model,
        "" if math.isnan(logit) else f"{logit:.2f}",
        "" if math.isnan(low) else f"[{low:.2f}, {high:.2f}]",
        "" if rank_interval is None else "{}-{}".format(*rank_interval),
    )


def to_text(table: Table) -> str:
    """The table for a terminal of 80 columns, whatever scripts it holds; ``*`` marks rows."""
    marks = [" ", *("*" if marked else " " for marked in table.marks)]
    columns = [_column(table, j) for j in range(len(table.header))]
    lines = [
        GAP.join((mark, *cells)).rstrip()
        for mark, cells in zip(marks, zip(*columns, strict=True), strict=True)
    ]
    notes = [line for note in table.notes for line in _wrapped(note)]
    return "\n".join([*_wrapped(table.title), *lines, *notes])


def to_markdown(table: Table) -> str:
    """The table in GitHub's Markdown; marked rows have their names in bold."""
    rule = tuple(":--" if j == table.name else "--:" for j in range(len(table.header)))
    rows = [table.header, rule]
    for cells, marked in zip(table.rows, table.marks, strict=True):
        name = _markdown(cells[table.name])
        name = f"**{name}**" if marked else name
        rows.append((*cells[: table.name], name, *cells[table.name + 1 :]))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    paragraphs = [_markdown(table.title), "\n".join(lines), *map(_markdown, table.notes)]
    return "\n\n".join(filter(None, paragraphs))


def to_html(table: Table) -> str:
    """The table as one HTML element that needs no other; names keep their own direction."""
    head = "".join(_html_cell("th", cell, j == table.name) for j, cell in enumerate(table.header))
    body = "".join(
        ('<tr class="own">' if marked else "<tr>")
        + "".join(_html_cell("td", cell, j == table.name) for j, cell in enumerate(cells))
        + "</tr>"
        for cells, marked in zip(table.rows, table.marks, strict=True)
    )
    notes = "".join(f"<p>{_html(note)}</p>" for note in table.notes)
    return (
        f'<div class="mirage-ranking" dir="ltr"><style>{STYLE}</style><table>'
        f"<caption>{_html(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{notes}</div>"
    )


# Plain text ---------------------------------------------------------------------------------------


def _column(table: Table, j: int) -> list[str]:
    """The padded cells of a column, header first."""
    cells = [_clean(table.header[j]), *(_clean(row[j]) for row in table.rows)]
    width = max(map(_width, cells))
    if j != table.name:
        return [" " * (width - _width(cell)) + cell for cell in cells]
    others = [k for k in range(len(table.header)) if k != j]
    taken = sum(max(_width(row[k]) for row in (table.header, *table.rows)) for k in others)
    room = WIDTH - 1 - len(GAP) * len(table.header) - taken
    width = min(width, room)
    cut = [_cut(cell, width) for cell in cells]
    return [_isolated(cell) + " " * (width - _width(cell)) for cell in cut]


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    start = ""
    for c in text:
        if _width(start + c) > width - 1:
            break
        start += c
    return start.rstrip() + "…"


def _width(text: str) -> int:
    """Columns of a terminal; unlike rich, most give vowel signs that stand beside a letter one."""
    return cell_len(text) + sum(unicodedata.category(c) == "Mc" for c in text)


def _clean(text: str) -> str:
    """One line of visible characters: control, line-end and direction characters are blanks."""
    return "".join(
        " " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in JOINERS else c
        for c in text
    )


def _isolated(text: str) -> str:
    """The text, isolated where it runs right to left, so that it moves no number beside it."""
    return f"\u2068{text}\u2069" if _leftward(text) else text


def _leftward(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def _wrapped(note: str) -> Iterator[str]:
    """The lines of a note, broken at blanks; the second and later ones are indented."""
    line = ""
    for word in _clean(note).split():
        if line.strip() and _width(line) + 1 + _width(word) > WIDTH:
            yield _isolated_words(line)
            line = GAP + _cut(word, WIDTH - len(GAP))
        else:
            line = f"{line} {word}" if line else _cut(word, WIDTH)
    if line:
        yield _isolated_words(line)


def _isolated_words(line: str) -> str:
    runs = groupby(line.split(" "), key=_leftward)
    return " ".join(_isolated(" ".join(words)) for _, words in runs)


# Markup -------------------------------------------------------------------------------------------


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~&])", r"\\\1", _clean(text))


def _html(text: str) -> str:
    return f"<bdi>{html.escape(_clean(text))}</bdi>"


def _html_cell(tag: str, text: str, name: bool) -> str:
    opening = f'<{tag} class="name">' if name else f"<{tag}>"
    return f"{opening}{_html(text)}</{tag}>"
