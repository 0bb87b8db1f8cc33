"""Format small tables of names and numbers as plain text, Markdown, LaTeX and HTML."""

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

R = TypeVar("R")

WIDTH = 80
"""Default width of a plain-text table, in terminal columns."""

GAP = "  "
JOINERS = "\u200c\u200d"  # they have no effect at the end of a truncated name

STYLE = (
    ".mirage-ranking td, .mirage-ranking th {padding: 0.15em 0.7em; text-align: right} "
    ".mirage-ranking .name {text-align: left} "
    ".mirage-ranking tr.own {font-weight: bold}"
)


RANKED = ("rank", "model", "logit", "95 % interval", "rank interval")
"""Header of a table of models by logit."""


@dataclass(frozen=True, eq=False)
class Rows(Generic[R]):
    """A result that consists of rows; iterating over it yields the rows."""

    rows: tuple[R, ...]

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def frame_of(
    rows: Iterable[Any] | Mapping[str, Sequence[Any]], columns: list[str] | None = None
) -> pd.DataFrame:
    """Return a pandas DataFrame made from rows, or from a mapping of column names to values.

    ``columns`` are the names of the columns, if the rows are tuples.
    """
    with needing("pandas"):
        import pandas as pd
    return pd.DataFrame(rows if isinstance(rows, Mapping) else list(rows), columns=columns)


@dataclass(frozen=True)
class Table:
    """The content of a table.

    Attributes:
        title: Line above the table.
        header: Name of each column.
        rows: Cells of each row, in the order of the header.
        marked: For each row, whether it is highlighted. By default, no row is highlighted.
        notes: Lines below the table.
        name: Index of the column that contains names. It is aligned left, and truncated if space is
            short.
        texts: Indices of other text columns, which are aligned left too. All remaining columns
            contain numbers.
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
        """Whether each row is highlighted; one value per row, even if ``marked`` is empty."""
        return self.marked or (False,) * len(self.rows)

    def filled(self) -> Table:
        """Return the table without the number columns that are blank in every row."""
        text_columns = {self.name, *self.texts}
        columns = [
            j
            for j in range(len(self.header))
            if j in text_columns or any(row[j] for row in self.rows)
        ]
        if not columns:
            return self
        header, *rows = (tuple(row[j] for j in columns) for row in (self.header, *self.rows))
        name, texts = columns.index(self.name), tuple(map(columns.index, self.texts))
        return replace(self, header=header, rows=tuple(rows), name=name, texts=texts)


def no_interval_notes(reasons: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return notes below a table on the names without an interval, one note per reason.

    Args:
        reasons: The reason why there is no interval, by name.
        names: All names in the table. If all have the same reason, the note lists no names.
    """
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        by_reason.setdefault(why, []).append(name)
    return [
        f"no interval: {why}"
        if len(those) == len(names)
        else f"no interval, {', '.join(those)}: {why}"
        for why, those in by_reason.items()
    ]


class Printed(ABC):
    """A result that is displayed as tables: as text, Markdown, LaTeX and in notebooks."""

    @abstractmethod
    def _tables(self) -> tuple[Table, ...]:
        """Return the tables to display."""

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, width: int = WIDTH) -> str:
        """Return the tables as plain text.

        Args:
            width: Number of terminal columns to fit into.
        """
        tables = (part for table in self._tables() for part in parts(table, width))
        return "\n\n".join(to_text(table, width) for table in tables)

    def to_markdown(self) -> str:
        """Return the tables in GitHub's Markdown."""
        return "\n\n".join(map(to_markdown, self._tables()))

    def to_latex(self) -> str:
        """Return the tables for the LaTeX package booktabs."""
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
    """Return the cells of a model's row in a table with the header :data:`RANKED`.

    ``interval`` is the confidence interval of the logit, and ``rank_interval`` that of the rank. A
    cell is blank if its number is NaN or ``None``.
    """
    low, high = interval
    return (
        str(rank),
        model,
        "" if math.isnan(logit) else f"{logit:.2f}",
        "" if math.isnan(low) else f"[{low:.2f}, {high:.2f}]",
        "" if rank_interval is None else "{}-{}".format(*rank_interval),
    )


def to_text(table: Table, width: int = WIDTH) -> str:
    """Return a table as plain text for a terminal of ``width`` columns.

    An asterisk precedes highlighted rows. Hidden characters of names, titles and notes are escaped
    (:mod:`mirage._base.quoting`).

    Example:
        >>> print(to_text(Table("Scores", ("rank", "model"), (("1", "a"), ("2", "b")))))
        Scores
           rank  model
              1  a
              2  b
    """
    marks = [" ", *("*" if marked else " " for marked in table.marks)]
    columns = [_format_column(table, j, width) for j in range(len(table.header))]
    lines = [
        GAP.join((mark, *cells)).rstrip()
        for mark, cells in zip(marks, zip(*columns, strict=True), strict=True)
    ]
    notes = [line for note in table.notes for line in _wrap(note, width)]
    return "\n".join([*_wrap(table.title, width), *lines, *notes])


def to_markdown(table: Table) -> str:
    """Return a table in GitHub's Markdown.

    The names of highlighted rows are bold. Markup, links and mentions in names, titles and notes
    are escaped.
    """
    text_columns = {table.name, *table.texts}
    rule = tuple(":--" if j in text_columns else "--:" for j in range(len(table.header)))
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
    """Return a table as one HTML element in which each text keeps its writing direction."""
    text_columns = {table.name, *table.texts}
    head = "".join(_html_cell("th", cell, j in text_columns) for j, cell in enumerate(table.header))
    body = "".join(
        ('<tr class="own">' if marked else "<tr>")
        + "".join(_html_cell("td", cell, j in text_columns) for j, cell in enumerate(cells))
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
    """Return a ``table`` environment for the LaTeX package booktabs, with the title as caption.

    The notes are printed below the table in a smaller font.
    """
    text_columns = {table.name, *table.texts}
    columns = "".join("l" if j in text_columns else "r" for j in range(len(table.header)))
    rows = [
        tuple(latex(cell, number=j not in text_columns) for j, cell in enumerate(cells))
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
            r"\begin{table}",
            *caption,
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *_latex_notes(table.notes),
            r"\end{table}",
        ]
    )


def _latex_notes(notes: Sequence[str]) -> list[str]:
    """Return the lines of a block with one paragraph per note; none if there are no notes."""
    if not notes:
        return []
    start = r"\par\smallskip\parbox{\linewidth}{\footnotesize\raggedright"
    return [start, *(rf"{latex(one_line(note))}\par" for note in notes), "}"]


# Plain text ---------------------------------------------------------------------------------------


def parts(table: Table, width: int = WIDTH) -> tuple[Table, ...]:
    """Split a table into parts that fit a terminal of ``width`` columns.

    Each part has all rows, all text columns and some of the number columns. If the text columns
    leave no space for numbers, a row number replaces the texts of each row, and the notes list the
    texts by row number.
    """
    text_columns = sorted({table.name, *table.texts})
    number_columns = [j for j in range(len(table.header)) if j not in text_columns]
    widths = [
        max(_width(one_line(row[j])) for row in (table.header, *table.rows)) for j in number_columns
    ]
    room = width - 1  # without the column of the marks
    text_width = sum(
        max(_width(one_line(row[j])) for row in (table.header, *table.rows)) + len(GAP)
        for j in text_columns
    )
    if widths and text_width + max(widths) + len(GAP) > room and len(text_columns) > 1:
        return parts(_number_rows(table, text_columns), width)
    # Fill each part with as many columns of numbers as fit; a part has at least one.
    groups: list[list[int]] = [[]]
    line_width = text_width
    for j, column_width in zip(number_columns, widths, strict=True):
        if groups[-1] and line_width + column_width + len(GAP) > room:
            groups.append([])
            line_width = text_width
        groups[-1].append(j)
        line_width += column_width + len(GAP)
    return tuple(
        _part(table, text_columns, group, first=group is groups[0], last=group is groups[-1])
        for group in groups
    )


def _part(
    table: Table, text_columns: list[int], number_columns: list[int], *, first: bool, last: bool
) -> Table:
    columns = [*text_columns, *number_columns]
    return replace(
        table,
        title=table.title if first else "",
        header=tuple(table.header[j] for j in columns),
        rows=tuple(tuple(row[j] for j in columns) for row in table.rows),
        notes=table.notes if last else (),
        name=text_columns.index(table.name),
        texts=tuple(range(len(text_columns))),
    )


def _number_rows(table: Table, text_columns: list[int]) -> Table:
    """Return the table with a row number instead of the texts of each row.

    The notes list the number and the texts of each row. ``text_columns`` contains the indices of
    the columns with texts.
    """
    names = [" | ".join(row[j] for j in text_columns if row[j]) for row in table.rows]
    number_columns = [j for j in range(len(table.header)) if j not in text_columns]
    return replace(
        table,
        header=("row", *(table.header[j] for j in number_columns)),
        rows=tuple(
            (str(i), *(row[j] for j in number_columns)) for i, row in enumerate(table.rows, 1)
        ),
        notes=(*(f"{i}: {name}" for i, name in enumerate(names, 1)), *table.notes),
        name=0,
        texts=(),
    )


def _format_column(table: Table, j: int, table_width: int) -> list[str]:
    """Return the cells of column ``j``, header first, padded to equal width.

    Names are truncated if the table would otherwise be wider than ``table_width`` terminal columns.
    """
    cells = [one_line(row[j]) for row in (table.header, *table.rows)]
    width = max(map(_width, cells))
    if j != table.name and j not in table.texts:
        return [" " * (width - _width(cell)) + cell for cell in cells]
    if j in table.texts:
        return [_isolate(cell) + " " * (width - _width(cell)) for cell in cells]
    other_columns = [k for k in range(len(table.header)) if k != j]
    other_width = sum(
        max(_width(one_line(row[k])) for row in (table.header, *table.rows)) for k in other_columns
    )
    room = table_width - 1 - len(GAP) * len(table.header) - other_width
    width = min(width, room)
    truncated = [_truncate(cell, width) for cell in cells]
    return [_isolate(cell) + " " * (width - _width(cell)) for cell in truncated]


def _truncate(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    start = ""
    for character in text:
        if _width(start + character) > width - 1:
            break
        start += character
    return start.rstrip().rstrip(JOINERS) + "…"


def _width(text: str) -> int:
    """Return the number of terminal columns that a text takes.

    A spacing vowel sign counts as one column, as in most terminals. The package rich does not count
    it.
    """
    return cell_len(text) + sum(unicodedata.category(c) == "Mc" for c in text)


def _isolate(text: str) -> str:
    """Enclose a text in Unicode isolates if it has letters that are written right to left.

    Without the isolates, such letters would move the numbers beside the text.
    """
    return f"\u2068{text}\u2069" if _has_right_to_left(text) else text


def _has_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)


def _wrap(note: str, width: int) -> Iterator[str]:
    """Yield the lines of a note, broken at blanks; all lines but the first are indented."""
    line = ""
    for word in one_line(note).split():
        if line.strip() and _width(line) + 1 + _width(word) > width:
            yield _isolate_words(line)
            line = GAP + _truncate(word, width - len(GAP))
        else:
            line = f"{line} {word}" if line else _truncate(word, width)
    if line:
        yield _isolate_words(line)


def _isolate_words(line: str) -> str:
    runs = groupby(line.split(" "), key=_has_right_to_left)
    return " ".join(_isolate(" ".join(words)) for _, words in runs)


# HTML ---------------------------------------------------------------------------------------------


def _html(text: str) -> str:
    return f"<bdi>{html_text(text)}</bdi>"


def _html_cell(tag: str, text: str, name: bool) -> str:
    opening = f'<{tag} class="name">' if name else f"<{tag}>"
    return f"{opening}{_html(text)}</{tag}>"
