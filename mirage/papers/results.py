"""Results of experiments: typed rows that print as a table."""

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


MEAN = "mean"
"""Name of the language or dataset in a row that has the mean over all languages or datasets."""


@dataclass(frozen=True)
class Line:
    """One row of a result; values that could not be measured are NaN.

    Attributes:
        over: Name of the field over which :meth:`Result.mean` averages, such as ``language``.
        keys: Names of the other fields that identify a row.
        unprinted: Names of fields that tables leave out, because they have no valid confidence
            interval.
    """

    keys: ClassVar[tuple[str, ...]] = ()
    unprinted: ClassVar[tuple[str, ...]] = ()
    over: ClassVar[str] = "language"


@dataclass(frozen=True)
class Row(Line):
    """A row of a result with one or several rows per language.

    ``language`` is a language code, :data:`MEAN` for a mean over languages, or ``all`` for all
    languages together.
    """

    language: str


R = TypeVar("R", bound=Line)


@dataclass(frozen=True)
class Result(Printed, Generic[R]):
    """The result of an experiment; prints as a table.

    Attributes:
        title: Title of the table.
        rows: The rows, sorted by a value or by language.
        notes: Explanations below the table.
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
        """The values of each field as a list, by name of the field, for plots or JSON."""
        names = [field.name for field in fields(self.rows[0])] if self.rows else []
        return {name: [getattr(row, name) for row in self.rows] for name in names}

    def mean(self) -> Result[R]:
        """Return a result whose rows are averaged over languages or datasets.

        A mean is NaN if any value in it is NaN.
        """
        groups: dict[tuple[Any, ...], list[R]] = {}
        for row in self.rows:
            groups.setdefault(tuple(getattr(row, key) for key in row.keys), []).append(row)
        return replace(self, rows=tuple(map(_mean_row, groups.values())))

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one column for each field of a row.

        Raises:
            MissingPackageError: If pandas is not installed.
        """
        return frame_of(self.columns)

    def _tables(self) -> tuple[Table]:
        unprinted = self.rows[0].unprinted if self.rows else ()
        columns = {name: c for name, c in self.columns.items() if name not in unprinted}
        # Columns with the same text in all rows become a note, to keep the table narrow.
        constant = [name for name in columns if len(self) > 1 and self._is_constant(columns[name])]
        visible = (
            [name for name in columns if name not in constant] or [*columns][:1] or ["language"]
        )
        texts = [name for name in columns if name in visible and isinstance(columns[name][0], str)]
        same = ", ".join(
            f"{_header(name)}: {columns[name][0]}" for name in constant if columns[name][0] != ""
        )
        table = Table(
            title=self.title,
            header=tuple(map(_header, visible)),
            rows=tuple(
                tuple(_format_value(getattr(row, name)) for name in visible) for row in self.rows
            ),
            notes=(*([same] if same else ()), *self.notes),
            name=visible.index(texts[-1]) if texts else 0,
            texts=tuple(map(visible.index, texts[:-1])),
        )
        return (table.filled(),)

    @staticmethod
    def _is_constant(column: Sequence[object]) -> bool:
        """Return whether a column has the same text in all rows; it then becomes a note."""
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


def _format_value(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if np.isnan(value) else f"{value:.3f}"


@dataclass(frozen=True)
class TauRow(Row):
    """Agreement between the surrogate's and the judge's order of the models in one language.

    Attributes:
        models: Number of models.
        tau: Kendall's tau-b, averaged over splits (choices of the held-out models). In each split,
            a surrogate is trained without the held-out models. Tau compares the logits that it
            predicts for all models with the logits fitted to the judge's verdicts.
        lower: Lower end of the range that contains the middle 95 % of the splits.
        upper: Upper end of this range.
        tau_train: Kendall's tau-b for a surrogate that was trained on all models.
    """

    models: float
    tau: float
    lower: float
    upper: float
    tau_train: float


@dataclass(frozen=True)
class RankRow(Row):
    """Rank of a model according to the surrogate, and according to the judge.

    Attributes:
        model: Name of the model.
        rank: Rank of the model by ``logit``.
        judge_rank: Rank of the model by ``judged``.
        logit: Predicted logit, averaged over splits (choices of the held-out models).
        lower: Lower end of the range that contains the middle 95 % of the predicted logits.
        upper: Upper end of this range.
        judged: Logit fitted to the judge's verdicts.
    """

    keys: ClassVar[tuple[str, ...]] = ("model",)

    model: str
    rank: float
    judge_rank: float
    logit: float
    lower: float
    upper: float
    judged: float


@dataclass(frozen=True)
class ValidationRow(Row):
    """Accuracy of one kind of surrogate in one language.

    Only ``tau`` has a valid confidence interval, and only ``tau`` is printed. The other figures can
    be compared with those of the MIRAGE-Bench paper (:func:`mirage.papers.compare_with_paper`).

    Attributes:
        name: Name of the estimator or of the set of features.
        pooled: Whether one surrogate is trained on all languages.
        tau: Kendall's tau-b on held-out models (:attr:`mirage.surrogate.ranker.Validation.tau`).
        lower: Lower end of the 95 % interval of ``tau``; NaN with fewer than eight models.
        upper: Upper end of this interval.
        r2_train: R2 on the training models: the share of the variance of their logits that the
            surrogate explains.
        tau_train: Kendall's tau-b on training models.
        r2: R2 on the held-out models (:attr:`mirage.surrogate.ranker.Validation.r2`).
        coverage: Share of the logits of held-out models that lie inside their predicted 95 %
            interval.
        r2_in_paper: The same as ``r2``, but as the MIRAGE-Bench paper defines it
            (:attr:`mirage.surrogate.ranker.Validation.r2_in_paper`).
    """

    keys: ClassVar[tuple[str, ...]] = ("name", "pooled")

    unprinted: ClassVar[tuple[str, ...]] = (
        *("r2_train", "tau_train", "r2", "coverage", "r2_in_paper"),
    )

    name: str
    pooled: bool
    tau: float
    lower: float
    upper: float
    r2_train: float
    tau_train: float
    r2: float
    coverage: float
    r2_in_paper: float


@dataclass(frozen=True)
class R2Row(Row):
    """R2 of the surrogate in one language, averaged over tournaments.

    R2 is the share of the variance of the logits that the surrogate explains. A tournament is a fit
    of the logits to the judgments on a bootstrap sample of the queries.

    Attributes:
        r2_train: R2 on the training models, averaged over tournaments.
        train_lower: Lower end of the range that contains the middle 95 % of the tournaments, for
            training models.
        train_upper: Upper end of this range.
        r2: R2 on the held-out models of all splits together, averaged over tournaments.
        lower: Lower end of the range that contains the middle 95 % of the tournaments, for held-out
            models.
        upper: Upper end of this range.
        r2_in_paper: The same as ``r2``, but with the variance around the mean of all models instead
            of the training models, as in Table 5 of the MIRAGE-Bench paper.
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
    """Importance of a feature for a surrogate's predictions on held-out models.

    Attributes:
        feature: Name of the feature.
        importance: Increase of the squared error if the feature is permuted, divided by the
            variance of the logits.
        impurity: Mean decrease in impurity, as in Figure 5 of the MIRAGE-Bench paper; NaN unless
            the surrogate is a forest. The values of all features add up to 1.
    """

    keys: ClassVar[tuple[str, ...]] = ("feature",)

    feature: str
    importance: float
    impurity: float = float("nan")


@dataclass(frozen=True)
class FewerJudgmentsRow(Row):
    """Agreement between a ranking from fewer judgments and the ranking from all judgments.

    Attributes:
        queries: Number of queries whose judgments are used.
        pairs: Percentage of each query's judgments that are used.
        judgments: Number of judgments that are used, averaged over repeats.
        tau: Kendall's tau-b with the ranking from all judgments, averaged over repeats.
        lower: Lower end of the range that contains the middle 95 % of the repeats.
        upper: Upper end of this range.
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
    """Predicted rank of a model without judgments, and its rank by the judge.

    Attributes:
        model: Name of the model.
        rank: Rank of the predicted logit, among the judged logits of the old models and the
            predicted logits of the other new models.
        judged_rank: Rank in the arena with judgments on all models.
        logit: Predicted logit. The mean logit of the old models is 0.
        lower: Lower end of the 95 % interval of the predicted logit.
        upper: Upper end of this interval.
        judged: Logit in the arena with judgments on all models, shifted so that the mean of the old
            models is 0.
        tau: Kendall's tau-b between the predicted and the judged order of all models, including old
            ones.
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
    """Predicted rank of a fine-tuned model, and the rank of its backbone.

    Attributes:
        model: Name of the model.
        backbone: Name of the model before fine-tuning.
        rank: Rank of the predicted logit, among the logits of the judged models and the predicted
            logits of the other tuned models.
        backbone_rank: Rank of the backbone in the same order.
        logit: Predicted logit. The mean logit of the judged models is 0.
        lower: Lower end of the 95 % interval of the predicted logit.
        upper: Upper end of this interval.
        backbone_logit: Logit of the backbone, from judgments.
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
    """The name of a setting and its value as text, which are the same for all languages."""

    keys: ClassVar[tuple[str, ...]] = ("setting", "choice")

    setting: str
    choice: str


def tau_b(logits: Floats, others: Floats) -> Floats:
    """Return Kendall's tau-b between each row of ``logits`` and ``others``.

    ``logits`` has the shape ``(..., models)``, ``others`` the shape ``(models,)``, and the result
    the shape ``(...)``. If all values of a row or all ``others`` are equal, tau is 0, and not NaN
    as in :func:`mirage.statistics.ranks.kendall_tau`.
    """
    return np.nan_to_num(kendall_tau(logits, others))


def middle(values: Floats | Sequence[float]) -> tuple[float, float]:
    """Return the 2.5 % and 97.5 % quantiles of values, between which the middle 95 % lie."""
    lower, upper = np.quantile(values, [0.025, 0.975]).tolist()
    return lower, upper
