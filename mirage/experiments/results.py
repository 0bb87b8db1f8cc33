"""What the experiments find: typed rows, and a result that prints as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import Printed, Table, frame_of
from mirage.statistics.ranks import kendall_tau

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FewerJudgmentsRow",
    "ImportanceRow",
    "Line",
    "NewModelRow",
    "R2Row",
    "Result",
    "Row",
    "SettingRow",
    "TauRow",
    "TunedModelRow",
    "ValidationRow",
    "middle",
    "tau_b",
]


MEAN = "mean"
"""What stands for a language, or a dataset, in a mean over them."""


@dataclass(frozen=True)
class Line:
    """One line of a result: what was measured in one place, NaN where nothing could be.

    ``over`` is the field with the place, such as the language, over which means are taken;
    ``keys`` are the others that say what a line is about.
    """

    keys: ClassVar[tuple[str, ...]] = ()
    over: ClassVar[str] = "language"


@dataclass(frozen=True)
class Row(Line):
    """One line of a result by language."""

    language: str


R = TypeVar("R", bound=Line)


@dataclass(frozen=True)
class Result(Printed, Generic[R]):
    """What an experiment found; prints as a table.

    Attributes:
        title: what was measured.
        rows: the findings, best or first language first.
        notes: how to read them.
    """

    title: str
    rows: tuple[R, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The rows as columns, by name: plain lists, ready to plot or to write as JSON."""
        names = [field.name for field in fields(self.rows[0])] if self.rows else []
        return {name: [getattr(row, name) for row in self.rows] for name in names}

    def mean(self) -> Result[R]:
        """The mean over languages, or datasets; where a number of one is NaN, so is its mean."""
        groups: dict[tuple[Any, ...], list[R]] = {}
        for row in self.rows:
            groups.setdefault(tuple(getattr(row, key) for key in row.keys), []).append(row)
        return replace(self, rows=tuple(map(_mean_row, groups.values())))

    def to_pandas(self) -> pd.DataFrame:
        """A frame with a column for each field of a row.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        return frame_of(self.columns)

    def _tables(self) -> tuple[Table]:
        columns = self.columns
        alike = [name for name in columns if len(self) > 1 and self._says_nothing(columns[name])]
        shown = [name for name in columns if name not in alike] or [*columns][:1] or ["language"]
        texts = [name for name in columns if name in shown and isinstance(columns[name][0], str)]
        same = ", ".join(
            f"{_header(name)}: {columns[name][0]}" for name in alike if columns[name][0] != ""
        )
        table = Table(
            title=self.title,
            header=tuple(map(_header, shown)),
            rows=tuple(tuple(_shown(getattr(row, name)) for name in shown) for row in self.rows),
            marked=(False,) * len(self),
            notes=(*([same] if same else ()), *self.notes),
            name=shown.index(texts[-1]) if texts else 0,
            texts=tuple(map(shown.index, texts[:-1])),
        )
        return (table.filled(),)

    @staticmethod
    def _says_nothing(column: Sequence[object]) -> bool:
        """Whether all rows have the same words here; such a column goes below the table."""
        return isinstance(column[0], str | bool) and all(value == column[0] for value in column)


def _mean_row(rows: Sequence[R]) -> R:
    means: dict[str, Any] = {
        field.name: float(np.mean([getattr(row, field.name) for row in rows]))
        for field in fields(rows[0])
        if field.name not in (rows[0].over, *rows[0].keys)
    }
    return replace(rows[0], **{rows[0].over: MEAN}, **means)


def _header(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if np.isnan(value) else f"{value:.3f}"


@dataclass(frozen=True)
class TauRow(Row):
    """How near the surrogate's order of one language's models is to the judge's.

    Attributes:
        models: how many models are ordered.
        tau: Kendall's tau-b between the surrogate's order of all models, some of which it has not
            seen, and that of their Bradley-Terry logits; mean over splits.
        lower: as ``upper``, an end of the middle 95 % over splits.
        tau_train: the same tau of a surrogate that has seen all models.
    """

    models: float
    tau: float
    lower: float
    upper: float
    tau_train: float


@dataclass(frozen=True)
class ValidationRow(Row):
    """How well one way to make a surrogate does in one language.

    Attributes:
        name: the estimator, or the set of features.
        pooled: whether it learns from all languages together, or from this one alone.
        r2_train: share of the variance of logits that it predicts, of models it has seen.
        tau_train: Kendall's tau-b of these.
        r2: as :attr:`mirage.surrogate.Validation.r2`, of models held out.
        tau: as :attr:`mirage.surrogate.Validation.tau`, of models held out.
        coverage: share of held-out logits inside their 95 % interval.
        r2_in_paper: as :attr:`mirage.surrogate.Validation.r2_in_paper`, of models held out.
    """

    keys: ClassVar[tuple[str, ...]] = ("name", "pooled")

    name: str
    pooled: bool
    r2_train: float
    tau_train: float
    r2: float
    tau: float
    coverage: float
    r2_in_paper: float


@dataclass(frozen=True)
class R2Row(Row):
    """Share of the variance of a tournament's logits that is predicted, over tournaments.

    Attributes:
        r2_train: mean over tournaments, for models that the surrogate has seen.
        train_lower: as ``train_upper``, an end of the middle 95 % over tournaments.
        r2: mean over tournaments, for models held out, those of all splits together.
        lower: as ``upper``, an end of the middle 95 % over tournaments.
        r2_in_paper: as ``r2``, but about the mean of all models, as the paper's Table 5 has it.
    """

    r2_train: float
    train_lower: float
    train_upper: float
    r2: float
    lower: float
    upper: float
    r2_in_paper: float


@dataclass(frozen=True)
class ImportanceRow(Row):
    """How much a feature tells: see :meth:`mirage.surrogate.SurrogateRanker.importances`."""

    keys: ClassVar[tuple[str, ...]] = ("feature",)

    feature: str
    importance: float


@dataclass(frozen=True)
class FewerJudgmentsRow(Row):
    """How near the ranking from fewer judgments comes to the exhaustive one.

    Attributes:
        queries: how many queries are judged.
        pairs: how many of the judgments on each of these queries are made, in percent.
        judgments: how many judgments that is, mean over repeats.
        tau: Kendall's tau-b with the exhaustive ranking, mean over repeats.
        lower: as ``upper``, an end of the middle 95 % over repeats.
    """

    keys: ClassVar[tuple[str, ...]] = ("queries", "pairs")

    queries: int
    pairs: int
    judgments: float
    tau: float
    lower: float
    upper: float


@dataclass(frozen=True)
class NewModelRow(Row):
    """Where a model that nobody judged is placed, and where the judge would have put it.

    Attributes:
        model: its name.
        rank: its rank by its predicted logit, among the judged logits of the old models and the
            predicted ones of the other new models.
        judged_rank: its rank in the arena where all were judged.
        logit: predicted.
        lower: as ``upper``, an end of its 95 % interval.
        judged: its logit in the arena where all were judged, on the scale of ``logit``: the mean
            of the old models is 0.
        tau: Kendall's tau-b between the two orders of all models, old ones included.
    """

    keys: ClassVar[tuple[str, ...]] = ("model",)

    model: str
    rank: float
    judged_rank: float
    logit: float
    lower: float
    upper: float
    judged: float
    tau: float


@dataclass(frozen=True)
class TunedModelRow(Row):
    """Where a fine-tuned model is placed by its features, and where what it was tuned from stands.

    Attributes:
        model: its name.
        backbone: the model that it was tuned from.
        rank: its rank by its predicted logit, among the judged logits of the old models and the
            predicted ones of the other tuned models.
        backbone_rank: the backbone's in the same order.
        logit: predicted; the mean of the old models is 0.
        lower: as ``upper``, an end of its 95 % interval.
        backbone_logit: judged.
    """

    keys: ClassVar[tuple[str, ...]] = ("model", "backbone")

    model: str
    backbone: str
    rank: float
    backbone_rank: float
    logit: float
    lower: float
    upper: float
    backbone_logit: float


@dataclass(frozen=True)
class SettingRow(Row):
    """One setting, in words; the same for all languages."""

    keys: ClassVar[tuple[str, ...]] = ("setting", "choice")

    setting: str
    choice: str


def tau_b(logits: Floats, others: Floats) -> Floats:
    """Kendall's tau-b of each row of ``logits (..., models)`` with ``others (models,)``.

    As :func:`mirage.statistics.ranks.kendall_tau`, but 0 where all are equal in one of the orders.
    """
    return np.nan_to_num(kendall_tau(logits, others))


def middle(values: Floats | Sequence[float]) -> tuple[float, float]:
    """The ends of the middle 95 % of some values."""
    lower, upper = np.quantile(values, [0.025, 0.975]).tolist()
    return lower, upper
