"""The published numbers of MIRAGE-Bench (arXiv 2410.13716), and comparisons with them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, ClassVar

from mirage.dataset import MirageDataset
from mirage.errors import SettingError
from mirage.papers.results import Line, R2Row, RankRow, Result, Row, TauRow, ValidationRow

_FIGURE_4 = "Figure 4 (right)"


@dataclass(frozen=True)
class PublishedRow(Row):
    """One number in a table of the MIRAGE-Bench paper (arXiv 2410.13716).

    Attributes:
        setting: Name of a split, an estimator or a set of features, as in this library's results;
            empty if the table has one row per language.
        measure: Name of the measure, as in this library's results.
        value: Value of the measure.
        lower: Lower end of the 95 % interval; NaN if the paper has none.
        upper: Upper end of the interval.
    """

    keys: ClassVar[tuple[str, ...]] = ("setting", "measure")

    setting: str
    measure: str
    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ComparedRow(Row):
    """A number that this library computes, and the same number in the MIRAGE-Bench paper.

    Attributes:
        setting: Name of an estimator, a set of features or a model; empty if there is one row per
            language.
        measure: Name of the measure.
        ours: Number that this library computes.
        paper: Number in the paper.
        difference: ``ours - paper``.
    """

    keys: ClassVar[tuple[str, ...]] = ("setting", "measure")

    setting: str
    measure: str
    ours: float
    paper: float
    difference: float


def published_table(number: int) -> Result[PublishedRow]:
    """Return one of Tables 1 to 5 of the MIRAGE-Bench paper (arXiv 2410.13716).

    Args:
        number: Number of the table: 1 for the numbers of queries, 2 for Kendall's tau by language,
            3 for estimators, 4 for sets of features, 5 for R2 over tournaments
            (bootstrap samples of the queries). :meth:`mirage.Leaderboard.published` returns Tables
            7 and 8. Figures 3 and 5 to 9 are plots without printed numbers.

    Raises:
        SettingError: If there are no numbers for this table.

    Example:
        >>> published_table(2).rows[0]
        PublishedRow(language='ar', setting='', measure='tau', value=0.951, lower=nan, upper=nan)
    """
    tables = _read_published()["tables"]
    if str(number) not in tables:
        raise SettingError(
            f"the numbers of table {number} of the paper are not included; choose one of the "
            f"tables {', '.join(tables)}"
        )
    table = tables[str(number)]
    rows = tuple(
        PublishedRow(code, setting, measure, float(value), _number(lower), _number(upper))
        for code, setting, measure, value, lower, upper in table["rows"]
    )
    return Result(table["title"], rows, (f"MIRAGE-Bench (arXiv 2410.13716), Table {number}.",))


def compare_with_paper(
    ours: Result[Any] | Mapping[str, MirageDataset], table: int | None = None
) -> Result[ComparedRow]:
    """Return the differences between results of this library and the MIRAGE-Bench paper.

    Args:
        ours: Datasets by language (Table 1), or the result of
            :func:`~mirage.papers.tau_by_language` (Table 2),
            :func:`~mirage.papers.compare_regressors` (Table 3),
            :func:`~mirage.papers.compare_feature_sets` (Table 4),
            :func:`~mirage.papers.r2_by_tournaments` (Table 5) or
            :func:`~mirage.papers.surrogate_ranking` (Figure 4, right).
        table: Number of the paper's table for results of estimators or sets of features, 3 or 4. By
            default, the table that contains the names in the result. Set it if both tables contain
            them.

    Returns:
        One row per language, setting and measure that the result and the paper have in common.
        Estimators have the names of this library: ``least_squares`` is the paper's linear
        regression, and ``boosting`` is its XGBoost.

    Raises:
        SettingError: If the paper has no numbers for this result.

    Example:
        >>> from mirage.papers.results import TauRow
        >>> ours = Result("tau", (TauRow("ar", 19, 0.9, 0.8, 1.0, 1.0),))
        >>> round(compare_with_paper(ours).rows[0].difference, 3)
        -0.051
    """
    if isinstance(ours, Mapping):
        values = {(code, "evaluation", "queries"): float(len(d)) for code, d in ours.items()}
        paper, source = _values(published_table(1)), "Table 1"
    else:
        values, paper, source = _both(ours, table)
    rows = tuple(
        ComparedRow(*key, value, paper[key], value - paper[key])
        for key, value in values.items()
        if key in paper
    )
    if not rows:
        raise SettingError(
            f"{source} of the paper has no row with the "
            f"languages {', '.join(sorted({code for code, _, _ in values}))} and the settings "
            f"{', '.join(sorted({setting or measure for _, setting, measure in values}))} of the "
            f"result; it has the languages {', '.join(sorted({code for code, _, _ in paper}))} and "
            "the settings "
            f"{', '.join(sorted({setting or measure for _, setting, measure in paper}))}"
        )
    return Result(f"Ours beside {source} of MIRAGE-Bench", rows)


_Values = dict[tuple[str, str, str], float]


def _both(ours: Result[Any], table: int | None) -> tuple[_Values, _Values, str]:
    """Return this library's values, the paper's values, and the name of the paper's table."""
    rows: tuple[Line, ...] = ours.rows
    kind = type(rows[0]) if rows else Line
    if kind is RankRow:
        return (
            {
                (row.language, row.model, "rank"): row.rank
                for row in rows
                if isinstance(row, RankRow)
            },
            _published_ranks(),
            _FIGURE_4,
        )
    if kind is ValidationRow and table is None:
        names = {row.name for row in rows if isinstance(row, ValidationRow)}
        table = 4 if names <= {row.setting for row in published_table(4)} else 3
    number = {TauRow: 2, R2Row: 5, ValidationRow: table}.get(kind)
    if number is None:
        raise SettingError(
            f"there are no published numbers to compare with {ours.title!r}: Figures 3 and 5 to 9 "
            "of the paper are plots without numbers"
        )
    paper = _values(published_table(number))
    measures = {measure for _, _, measure in paper}
    values = {
        (str(getattr(row, "language", "")), str(getattr(row, "name", "")), measure): float(
            getattr(row, measure)
        )
        for row in rows
        for measure in sorted(measures)
    }
    return values, paper, f"Table {number}"


def _values(table: Iterable[PublishedRow]) -> _Values:
    return {(row.language, row.setting, row.measure): row.value for row in table}


def _published_ranks() -> _Values:
    published = _read_published()
    return {
        (code, model, "rank"): float(rank)
        for code, columns in published["languages"].items()
        for model, rank in zip(published["models"], columns["surrogate_rank"], strict=True)
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


@cache
def _read_published() -> dict[str, Any]:
    source = resources.files("mirage") / "data" / "published" / "mirage_bench.json"
    figures: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    return figures
