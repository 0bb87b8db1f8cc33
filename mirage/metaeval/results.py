"""What comes of measuring judges: figures by judge and language, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from mirage._base.arrays import Bools, Floats
from mirage._base.tables import Table, frame_of, to_text
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.metaeval._gold import MEAN, Truth
from mirage.metaeval.comparisons import Comparisons, Unit, compare
from mirage.metaeval.fine_errors import FineErrors, fine_errors
from mirage.metaeval.judges import Reading
from mirage.models import HumanAgreement
from mirage.statistics import classification as cl
from mirage.statistics.bootstrap import Interval

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["JudgeFigures", "JudgeResult", "MetaEvaluation", "ThresholdSource"]

ThresholdSource = Literal["given", "cross-validation"]
"""Where the threshold of a score comes from."""

LANGUAGES_SHOWN = 9  # side by side in one table


class JudgeFigures(NamedTuple):
    """How well one judge agrees with people in one language, or in the mean of all.

    Attributes:
        sentences: on which it was measured.
        queries: to which these are responses.
        balanced_accuracy: mean over labels of the recall; the mean of the languages' where the
            language is :data:`MEAN`.
        standard_error: of the balanced accuracy, with queries as clusters; NaN with one query.
        interval: interval of the balanced accuracy, lower and upper, from draws of
            queries within each language; NaN with fewer than 14 queries in one.
        recall: of each label; the mean of the languages that have it.
        invalid: sentences to which the judge gave no label, or none of these; they count as wrong.
        roc_auc: area under the ROC curve of a score, in the score's direction, over the sentences
            that have one; the mean of the languages'. NaN for a judge that names labels.
    """

    judge: str
    language: str
    sentences: int
    queries: int
    balanced_accuracy: float
    standard_error: float
    interval: Interval
    recall: Mapping[str, float]
    invalid: int
    roc_auc: float


@dataclass(frozen=True, eq=False, repr=False)
class JudgeResult:
    """One judge: ``result["de"]`` and ``result["mean"]`` are its figures.

    Attributes:
        name: of the judge.
        figures: by language, and of their mean.
        labels: the label that it gave each sentence, ``None`` where there is none.
        scores: the scores behind the labels; ``None`` for a judge that names labels.
        thresholds: the threshold that each sentence's score was held against.
        threshold_source: where the thresholds come from; ``None`` for a judge that names labels.
        reading: which scores speak for the positive label.
    """

    name: str
    figures: Mapping[str, JudgeFigures]
    labels: tuple[str | None, ...]
    scores: Floats | None
    thresholds: Floats | None
    threshold_source: ThresholdSource | None
    reading: Reading
    truth: Truth

    def __getitem__(self, language: str) -> JudgeFigures:
        if language not in self.figures:
            raise UnknownNameError("language of these figures", language, self.figures)
        return self.figures[language]

    def __repr__(self) -> str:
        mean = self[MEAN].balanced_accuracy
        return f"JudgeResult({self.name!r}, balanced_accuracy={mean:.3f})"

    @property
    def threshold(self) -> str:
        """The threshold in words, and how it was chosen; empty for a judge that names labels."""
        if self.thresholds is None:
            return ""
        low, high = float(self.thresholds.min()), float(self.thresholds.max())
        if self.threshold_source == "given":
            return f"threshold {low:.4g}, given"
        span = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return f"threshold {span}, cross-validated over queries in {cl.FOLDS} folds"

    @property
    def direction(self) -> str:
        """Which scores speak for the positive label, in words.

        Empty if the judge declares that higher scores do, or if it names labels.
        """
        if self.scores is None:
            return ""
        return self.reading.note(self.name, self.truth.labelled.positive)

    def agreement(self, task: str = "faithfulness", source: str = "") -> tuple[HumanAgreement, ...]:
        """The balanced accuracies as records, one a language: what a leaderboard can carry.

        Args:
            task: what the labels say.
            source: who measured, on what, and how the judge was asked; by default the name of the
                labels.
        """
        return tuple(
            HumanAgreement(
                judge=self.name,
                language=code,
                task=task,
                balanced_accuracy=round(row.balanced_accuracy, 4),
                roc_auc=None if np.isnan(row.roc_auc) else round(row.roc_auc, 4),
                interval=_known(row.interval),
                sentences=row.sentences,
                source=source or self.truth.labelled.source,
            )
            for code, row in self.figures.items()
            if code != MEAN
        )

    def best_threshold(self, language: str = MEAN) -> cl.Threshold:
        """The threshold that suits the labels of a language, or of all together, best.

        Its balanced accuracy is in-sample: it flatters the score, and is no measure of it. The
        threshold is of use for other data.

        Raises:
            JudgmentError: the judge names labels and has no scores, or its direction depends on
                the language and ``language`` is the mean of several.
            UnknownNameError: there is no sentence in this language.
        """
        rows, evidence, positive = self._scored(language)
        reading = self.reading.select(rows)
        if reading.mixed:
            raise JudgmentError(
                f"score {self.name!r} is better when lower in one language and when higher in "
                "another, so that no threshold suits both; ask for one language"
            )
        weights = cl.sentence_weights(self.truth.language[rows], self.truth.label[rows])
        best = cl.best_threshold(evidence, positive, weights)
        value = reading.turned(np.full(len(evidence), best.value))[0]
        return best._replace(value=float(value))

    def calibration(self, language: str = MEAN, *, bins: int = 10) -> cl.Calibration:
        """Measure how far the scores are probabilities of the positive label.

        All sentences weigh the same. A score that is better when lower counts as the probability
        of the other label.

        Args:
            language: of the sentences; by default all.
            bins: of the same width, as :func:`mirage.statistics.calibration` has them.

        Raises:
            JudgmentError: the judge names labels and has no scores, or one lies outside [0, 1].
            UnknownNameError: there is no sentence in this language.
        """
        _, evidence, positive = self._scored(language)
        return cl.calibration(evidence, positive, bins=bins)

    def _scored(self, language: str) -> tuple[Bools, Floats, Bools]:
        if self.scores is None:
            raise JudgmentError(f"judge {self.name!r} names labels; it has no scores")
        rows, evidence = self.truth.rows(language), self.reading.turned(self.scores)
        return rows, evidence[rows], self.truth.positive(self.name)[rows]


@dataclass(frozen=True, eq=False, repr=False)
class MetaEvaluation:
    """How well judges agree with people; ``result["name"]`` is one of them.

    Prints as a table of at most 80 columns.

    Attributes:
        judges: in the order in which they were given.
        truth: the sentences and their labels.
        right: whether each judge gave a sentence its label, ``(sentences, judges)``.
        draws: bootstrap draws of the balanced accuracies, by language and of their mean,
            ``(draws, judges)``.
        level: of the intervals.
    """

    judges: tuple[JudgeResult, ...]
    truth: Truth
    right: Bools
    draws: Mapping[str, Floats]
    level: float

    def __getitem__(self, judge: str) -> JudgeResult:
        for result in self.judges:
            if result.name == judge:
                return result
        raise UnknownNameError("judge", judge, self.names)

    def __iter__(self) -> Iterator[JudgeResult]:
        return iter(self.judges)

    def __len__(self) -> int:
        return len(self.judges)

    def __repr__(self) -> str:
        return (
            f"MetaEvaluation(judges={list(self.names)!r}, sentences={len(self.truth)}, "
            f"languages={list(self.truth.languages)!r})"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the judges."""
        return tuple(result.name for result in self.judges)

    @property
    def left_out(self) -> Mapping[str, int]:
        """How many sentences no judge was measured on, by the reason."""
        return self.truth.left_out

    def compare(
        self,
        language: str = MEAN,
        *,
        permutations: int = 10_000,
        unit: Unit = "query",
        seed: int = 0,
    ) -> Comparisons:
        """Whether the differences between judges could be chance: every two of them.

        A paired permutation test (as in MEMERAG, appendix D) of the difference of the balanced
        accuracies. Under the null hypothesis what two judges said of a unit may be swapped: they
        are alike, not only equally good. Where two judges give labels in very different shares the
        test is the more cautious, and may not see what the interval of the difference shows.

        Args:
            language: in which to compare; by default in the mean of all.
            permutations: ways to swap that are drawn; all are gone through where there are fewer.
            unit: ``"sentence"`` swaps sentences one by one, as if a judge's errors on sentences of
                one response had nothing to do with each other. By default all sentences of a
                query are swapped together, which holds where they have.
            seed: of the draws.

        Raises:
            JudgmentError: there is one judge only.
            SettingError: ``permutations`` is below 1, or there is no such unit.
            UnknownNameError: there is no sentence in this language.
        """
        if len(self) < 2:
            raise JudgmentError("a comparison takes two judges or more")
        if unit not in get_args(Unit):
            raise SettingError(f"what is swapped is a query or a sentence, not a {unit!r}")
        self.truth.rows(language)  # an unknown language is an error that names the known ones
        none = Comparisons((), language, self.level, permutations, unit)
        return compare(none, self.truth, self.names, self.right, self.draws[language], seed)

    def errors(self, language: str = MEAN) -> FineErrors:
        """How often each judge is wrong, by fine-grained label; by default in all languages.

        Raises:
            UnknownNameError: there is no sentence in this language.
        """
        return fine_errors(self.truth, self.names, self.right, language)

    def to_pandas(self) -> pd.DataFrame:
        """A frame: a row a judge and language, and one of the mean."""
        rows = []
        for result in self.judges:
            for row in result.figures.values():
                plain = row._asdict()
                lower, upper = plain.pop("interval")
                recall = {f"recall {name}": share for name, share in plain.pop("recall").items()}
                ends = {"lower": lower, "upper": upper}
                rows.append({**plain, **ends, **recall, "threshold": result.threshold_source})
        return frame_of(rows)

    def __str__(self) -> str:
        """The means with their errors, then the balanced accuracy in each language."""
        title = f"Balanced accuracy in % on {self.truth.labelled.source}"
        header = ("judge", MEAN, "s.e.", f"{100 * self.level:g} % interval", "ROC AUC", "invalid")
        means = self._table(title, header, [_cells(result[MEAN]) for result in self.judges])
        tables = [replace(means, notes=tuple(self._notes())).filled()]
        codes = self.truth.languages if len(self.truth.languages) > 1 else ()
        for start in range(0, len(codes), LANGUAGES_SHOWN):
            some = codes[start : start + LANGUAGES_SHOWN]
            rows = [
                tuple(f"{100 * result[code].balanced_accuracy:.1f}" for code in some)
                for result in self.judges
            ]
            tables.append(self._table("By language", ("judge", *some), rows))
        return "\n\n".join(map(to_text, tables))

    def _table(self, title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
        lines = tuple((name, *row) for name, row in zip(self.names, rows, strict=True))
        return Table(title, header, lines, (False,) * len(lines), name=0)

    def _notes(self) -> Iterator[str]:
        mean = self.judges[0][MEAN]
        left_out = "; ".join(f"{count} left out: {why}" for why, count in self.left_out.items())
        yield (
            f"{mean.sentences} sentences of {mean.queries} queries in "
            f"{len(self.truth.languages)} languages" + (f"; {left_out}" if left_out else "")
        )
        if any(result[MEAN].invalid for result in self.judges):
            yield "invalid: sentences to which the judge gave no valid label; they count as wrong"
        for result in self.judges:
            if result.threshold:
                yield f"{result.name}: {result.threshold}"
            if result.direction:
                yield result.direction


def _known(interval: Interval) -> tuple[float, float] | None:
    lower, upper = (round(end, 4) for end in interval)
    return None if np.isnan(lower) else (lower, upper)


def _cells(row: JudgeFigures) -> tuple[str, ...]:
    return (
        f"{100 * row.balanced_accuracy:.1f}",
        f"{100 * row.standard_error:.1f}",
        ""
        if np.isnan(row.interval[0])
        else "{:.1f} to {:.1f}".format(*100 * np.array(row.interval)),
        "" if np.isnan(row.roc_auc) else f"{row.roc_auc:.3f}",
        str(row.invalid) if row.invalid else "",
    )
