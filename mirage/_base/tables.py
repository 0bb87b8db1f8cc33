"""Small tables of names and numbers, as plain text, Markdown, LaTeX and HTML."""

from __future__ import annotations

import math
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.cells import cell_len

from mirage._base.quoting import html_text, latex, markdown, markdown_cell, one_line
from mirage.errors import needing

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "RANKED",
    "WIDTH",
    "Printed",
    "Rows",
    "Table",
    "frame_of",
    "parts",
    "ranked_cells",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_text",
]

R = TypeVar("R")

WIDTH = 80
"""Columns of a terminal that a plain-text table fits."""

GAP = "  "
JOINERS = "\u200c\u200d"  # at the end of a name that is cut, they join nothing

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
        texts: other columns that are aligned left.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: tuple[bool, ...] = ()
    notes: tuple[str, ...] = ()
    name: int = 1
    texts: tuple[int, ...] = ()

    @property
    def marks(self) -> tuple[bool, ...]:
        """Whether each row stands out."""
        return self.marked or (False,) * len(self.rows)

    def filled(self) -> Table:
        """The same table without the columns of numbers that are blank in every row."""
        left = {self.name, *self.texts}
        columns = [
            j for j in range(len(self.header)) if j in left or any(row[j] for row in self.rows)
        ]
        if not columns:
            return self
        header, *rows = (tuple(row[j] for j in columns) for row in (self.header, *self.rows))
        name, texts = columns.index(self.name), tuple(map(columns.index, self.texts))
        return replace(self, header=header, rows=tuple(rows), name=name, texts=texts)


class Printed(ABC):
    """A result that is shown as tables: printed, in Markdown, in LaTeX and in notebooks."""

    @abstractmethod
    def _tables(self) -> tuple[Table, ...]:
        """What is shown."""

    def __str__(self) -> str:
        return "\n\n".join(to_text(part) for table in self._tables() for part in parts(table))

    def to_markdown(self) -> str:
        """What is printed, in GitHub's Markdown."""
        return "\n\n".join(map(to_markdown, self._tables()))

    def to_latex(self) -> str:
        """What is printed, for LaTeX's package booktabs."""
        return "\n\n".join(map(to_latex, self._tables()))

    def _repr_html_(self) -> str:
        return "".join(map(to_html, self._tables()))


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
    """Return the table for a terminal of 80 columns; ``*`` marks rows.

    Hidden characters of names, titles and notes are escapes (:mod:`mirage._base.quoting`).
    """
    marks = [" ", *("*" if marked else " " for marked in table.marks)]
    columns = [_column(table, j) for j in range(len(table.header))]
    lines = [
        GAP.join((mark, *cells)).rstrip()
        for mark, cells in zip(marks, zip(*columns, strict=True), strict=True)
    ]
    notes = [line for note in table.notes for line in _wrapped(note)]
    return "\n".join([*_wrapped(table.title), *lines, *notes])


def to_markdown(table: Table) -> str:
    """Return the table in GitHub's Markdown; marked rows have their names in bold.

    Names, titles and notes mark up, link and mention nothing.
    """
    left = {table.name, *table.texts}
    rule = tuple(":--" if j in left else "--:" for j in range(len(table.header)))
    rows = [tuple(map(markdown_cell, table.header)), rule]
    for cells, marked in zip(table.rows, table.marks, strict=True):
        quoted = list(map(markdown_cell, cells))
        name = quoted[table.name].strip()
        if marked and name:
            quoted[table.name] = f"**{name}**"
        rows.append(tuple(quoted))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    paragraphs = [markdown(table.title), "\n".join(lines), *map(markdown, table.notes)]
    return "\n\n".join(filter(None, paragraphs))


def to_html(table: Table) -> str:
    """Return the table as one HTML element; names keep their own direction."""
    left = {table.name, *table.texts}
    head = "".join(_html_cell("th", cell, j in left) for j, cell in enumerate(table.header))
    body = "".join(
        ('<tr class="own">' if marked else "<tr>")
        + "".join(_html_cell("td", cell, j in left) for j, cell in enumerate(cells))
        + "</tr>"
        for cells, marked in zip(table.rows, table.marks, strict=True)
    )
    notes = "".join(f"<p>{_html(note)}</p>" for note in table.notes)
    return (
        f'<div class="mirage-ranking" dir="ltr"><style>{STYLE}</style><table>'
        f"<caption>{_html(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{notes}</div>"
    )


def to_latex(table: Table) -> str:
    """Return a ``table`` for LaTeX's package booktabs, with the title as its caption.

    Notes are comments above it.
    """
    left = {table.name, *table.texts}
    columns = "".join("l" if j in left else "r" for j in range(len(table.header)))
    rows = [
        tuple(latex(cell, number=j not in left) for j, cell in enumerate(cells))
        for cells in (table.header, *table.rows)
    ]
    for row, marked in enumerate(table.marks, 1):
        cells = rows[row]
        bold = f"\\textbf{{{cells[table.name]}}}" if marked else cells[table.name]
        rows[row] = (*cells[: table.name], bold, *cells[table.name + 1 :])
    head, *body = (" & ".join(row) + r" \\" for row in rows)
    caption = [f"\\caption{{{latex(table.title)}}}"] if table.title else []
    return "\n".join(
        [
            *(f"% {one_line(note)}" for note in table.notes),
            r"\begin{table}",
            *caption,
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


# Plain text ---------------------------------------------------------------------------------------


def parts(table: Table) -> tuple[Table, ...]:
    """The table in parts that fit a terminal, each with all rows and some columns of numbers.

    Where the columns on the left leave no room for numbers, rows have numbers instead, and what
    they stand for is in the notes.
    """
    left = sorted({table.name, *table.texts})
    right = [j for j in range(len(table.header)) if j not in left]
    widths = [max(_width(one_line(row[j])) for row in (table.header, *table.rows)) for j in right]
    room = WIDTH - 1
    taken = sum(
        max(_width(one_line(row[j])) for row in (table.header, *table.rows)) + len(GAP)
        for j in left
    )
    if widths and taken + max(widths) + len(GAP) > room and len(left) > 1:
        return parts(_numbered(table, left))
    groups: list[list[int]] = [[]]
    used = taken
    for j, width in zip(right, widths, strict=True):
        if groups[-1] and used + width + len(GAP) > room:
            groups.append([])
            used = taken
        groups[-1].append(j)
        used += width + len(GAP)
    return tuple(
        _part(table, left, group, first=group is groups[0], last=group is groups[-1])
        for group in groups
    )


def _part(table: Table, left: list[int], right: list[int], *, first: bool, last: bool) -> Table:
    columns = [*left, *right]
    return replace(
        table,
        title=table.title if first else "",
        header=tuple(table.header[j] for j in columns),
        rows=tuple(tuple(row[j] for j in columns) for row in table.rows),
        notes=table.notes if last else (),
        name=left.index(table.name),
        texts=tuple(range(len(left))),
    )


def _numbered(table: Table, left: list[int]) -> Table:
    """The table with a number for each row's columns on the left, and what it is in the notes."""
    names = [" | ".join(row[j] for j in left if row[j]) for row in table.rows]
    right = [j for j in range(len(table.header)) if j not in left]
    return replace(
        table,
        header=("row", *(table.header[j] for j in right)),
        rows=tuple((str(i), *(row[j] for j in right)) for i, row in enumerate(table.rows, 1)),
        notes=(*(f"{i}: {name}" for i, name in enumerate(names, 1)), *table.notes),
        name=0,
        texts=(),
    )


def _column(table: Table, j: int) -> list[str]:
    """The padded cells of a column, header first."""
    cells = [one_line(row[j]) for row in (table.header, *table.rows)]
    width = max(map(_width, cells))
    if j != table.name and j not in table.texts:
        return [" " * (width - _width(cell)) + cell for cell in cells]
    if j in table.texts:
        return [_isolated(cell) + " " * (width - _width(cell)) for cell in cells]
    others = [k for k in range(len(table.header)) if k != j]
    taken = sum(
        max(_width(one_line(row[k])) for row in (table.header, *table.rows)) for k in others
    )
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
    return start.rstrip().rstrip(JOINERS) + "…"


def _width(text: str) -> int:
    """Columns of a terminal; unlike rich, most give vowel signs that stand beside a letter one."""
    return cell_len(text) + sum(unicodedata.category(c) == "Mc" for c in text)


def _isolated(text: str) -> str:
    """The text, isolated where it runs right to left, so that it moves no number beside it."""
    return f"\u2068{text}\u2069" if _leftward(text) else text


def _leftward(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def _wrapped(note: str) -> Iterator[str]:
    """The lines of a note, broken at blanks; the second and later ones are indented."""
    line = ""
    for word in one_line(note).split():
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


# HTML ---------------------------------------------------------------------------------------------


def _html(text: str) -> str:
    return f"<bdi>{html_text(text)}</bdi>"


def _html_cell(tag: str, text: str, name: bool) -> str:
    opening = f'<{tag} class="name">' if name else f"<{tag}>"
    return f"{opening}{_html(text)}</{tag}>"
