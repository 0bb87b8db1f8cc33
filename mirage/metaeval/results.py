"""Results of measuring judges: figures by judge and language, and comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats
from mirage._base.tables import Table, frame_of, to_text
from mirage.errors import JudgmentError, UnknownNameError
from mirage.metaeval.comparisons import Comparisons, compare
from mirage.metaeval.fine_errors import FineErrors, fine_errors
from mirage.metaeval.gold import MEAN, Truth
from mirage.metaeval.judges import Reading, other_labels
from mirage.models import HumanAgreement
from mirage.statistics import classification as cl
from mirage.statistics.bootstrap import FEWEST_QUERIES, Interval
from mirage.statistics.clusters import few_clusters

if TYPE_CHECKING:
    import pandas as pd

ThresholdSource = Literal["given", "cross-validation"]
"""The origin of a score's threshold: the user, or cross-validation."""

LANGUAGES_SHOWN = 4  # columns of languages in one table


class JudgeFigures(NamedTuple):
    """The agreement of one judge with people in one language, or averaged over all languages.

    Attributes:
        judge: The name of the judge.
        language: The language code, or :data:`MEAN`. For :data:`MEAN`, counts are sums over
            languages, and the other figures are means of the figures by language.
        sentences: The number of sentences.
        queries: The number of queries that these sentences answer.
        balanced_accuracy: The mean of the recalls of the labels.
        standard_error: The clustered standard error of the balanced accuracy; NaN if a language has
            fewer than two clusters of queries.
        interval: The confidence interval of the balanced accuracy, as its two ends. NaN if a
            language has fewer than 14 clusters of queries.
        recall: The recall of each label. For :data:`MEAN`, it is averaged over the languages that
            have the label.
        invalid: The number of sentences to which the judge gave no valid label; these count as
            wrong.
        roc_auc: The area under the ROC curve of a score, over the sentences that have a score; if
            lower is better, scores are reversed first. NaN for a judge that returns labels.
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

    @property
    def with_interval(self) -> str:
        """The balanced accuracy and its interval in percent; empty without an interval."""
        if np.isnan(self.interval[0]):
            return ""
        low, high = (100 * end for end in self.interval)
        return f"{100 * self.balanced_accuracy:.1f} ({low:.0f}-{high:.0f})"


@dataclass(frozen=True, eq=False, repr=False)
class JudgeResult:
    """The result of one judge; ``result["de"]`` and ``result["mean"]`` are its figures.

    Attributes:
        name: The name of the judge.
        figures: The agreement by language, and its mean over languages.
        labels: The label that the judge gave each sentence; ``None`` if it gave none.
        scores: The scores behind the labels; ``None`` for a judge that returns labels.
        thresholds: The threshold that was applied to each sentence's score; ``None`` for a judge
            that returns labels.
        threshold_source: ``given`` if the user set the threshold, or ``cross-validation``; ``None``
            for a judge that returns labels.
        reading: The orientation of the scores: whether high or low scores mean the positive label.
        truth: The sentences and their labels.
        prompt_digest: The digest (hash) of the user's own prompt, if an LLM judged with one; else
            empty.
    """

    name: str
    figures: Mapping[str, JudgeFigures]
    labels: tuple[str | None, ...]
    scores: Floats | None
    thresholds: Floats | None
    threshold_source: ThresholdSource | None
    reading: Reading
    truth: Truth
    prompt_digest: str = ""

    def __getitem__(self, language: str) -> JudgeFigures:
        if language not in self.figures:
            raise UnknownNameError("language", language, self.figures)
        return self.figures[language]

    def __repr__(self) -> str:
        mean = self[MEAN].balanced_accuracy
        return f"JudgeResult({self.name!r}, balanced_accuracy={mean:.3f})"

    @property
    def threshold(self) -> str:
        """The threshold and how it was chosen, as text; empty for a judge that returns labels."""
        if self.thresholds is None:
            return ""
        low, high = float(self.thresholds.min()), float(self.thresholds.max())
        if self.threshold_source == "given":
            return f"threshold {low:.4g}, given"
        span = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        return f"threshold {span}, cross-validated over queries in {cl.FOLDS} folds"

    @property
    def direction(self) -> str:
        """A note on which scores mean the positive label.

        It is empty if the score itself declares that high scores do, or if the judge returns
        labels.
        """
        if self.scores is None:
            return ""
        return self.reading.note(self.name, self.truth.labelled.positive)

    def agreement(self, task: str = "faithfulness", source: str = "") -> tuple[HumanAgreement, ...]:
        """Return the judge's agreement with the labels, as one record per language.

        Leaderboards can show these records.

        Args:
            task: The property that the labels describe.
            source: Description of the measurement: who made it, on which data and with which
                prompt. The default is the name of the labelled sentences.
        """
        return tuple(
            HumanAgreement(
                judge=self.name,
                language=code,
                task=task,
                balanced_accuracy=round(row.balanced_accuracy, 4),
                roc_auc=None if np.isnan(row.roc_auc) else round(row.roc_auc, 4),
                interval=_rounded(row.interval),
                sentences=row.sentences,
                source=source or self.truth.labelled.source,
                prompt_digest=self.prompt_digest,
            )
            for code, row in self.figures.items()
            if code != MEAN
        )

    def best_threshold(self, language: str = MEAN) -> cl.Threshold:
        """Return the threshold with the best balanced accuracy in one language or in all languages.

        Its balanced accuracy is in-sample and therefore optimistic. Use the threshold on other
        data.

        Args:
            language: The language; by default all.

        Raises:
            JudgmentError: The judge returns labels instead of scores; or higher scores are better
                in one language and lower ones in another, and ``language`` selects both.
            UnknownNameError: There is no sentence in this language.
        """
        rows, evidence, positive = self._evidence(language)
        reading = self.reading.select(rows)
        if reading.mixed:
            raise JudgmentError(
                f"score {self.name!r} is better when lower in one language and better when higher "
                "in another, so no threshold suits both; select one language"
            )
        weights = cl.sentence_weights(self.truth.language[rows], self.truth.label[rows])
        best = cl.best_threshold(evidence, positive, weights)
        value = reading.turned(np.full(len(evidence), best.value))[0]
        return best._replace(value=float(value))

    def calibration(self, language: str = MEAN, *, bins: int = 10) -> cl.Calibration:
        """Measure the calibration of the scores as probabilities of the positive label.

        All sentences have the same weight. If lower scores are better, a score is treated as the
        probability of the other label.

        Args:
            language: The language of the sentences; by default all.
            bins: The number of bins of equal width, as for :func:`mirage.statistics.calibration`.

        Raises:
            JudgmentError: The judge returns labels instead of scores, or a score is outside [0, 1].
            UnknownNameError: There is no sentence in this language.
        """
        _, evidence, positive = self._evidence(language)
        return cl.calibration(evidence, positive, bins=bins)

    def _evidence(self, language: str) -> tuple[Bools, Floats, Bools]:
        if self.scores is None:
            raise JudgmentError(
                f"judge {self.name!r} returns labels, not scores; pass a score or a feature to "
                "evaluate()"
            )
        rows, evidence = self.truth.rows(language), self.reading.turned(self.scores)
        return rows, evidence[rows], self.truth.positive(self.name)[rows]


@dataclass(frozen=True, eq=False, repr=False)
class MetaEvaluation:
    """The agreement of judges with people; ``result["name"]`` is the result of one judge.

    It prints as a table of at most 80 columns.

    Attributes:
        judges: The results, in the order of the input.
        truth: The sentences and their labels.
        right: Whether each judge labelled each sentence correctly, of shape ``(sentences,
            judges)``.
        tallies: For each language, the number of sentences, and the number that each judge labelled
            correctly.
        level: The confidence level of the intervals.
    """

    judges: tuple[JudgeResult, ...]
    truth: Truth
    right: Bools
    tallies: Mapping[str, cl.Tallies]
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
        """The number of sentences that were left out of the evaluation, by reason."""
        return self.truth.left_out

    def compare(
        self, language: str = MEAN, *, permutations: int = 10_000, seed: int = 0
    ) -> Comparisons:
        """Test each pair of judges for a difference in balanced accuracy.

        The test is a paired permutation test, as in MEMERAG, appendix D. Unlike there, all
        sentences of a cluster (by default, of a query) are swapped together, because their errors
        are not independent. The null hypothesis is that the two judges' labels can be swapped
        without changing their distribution. This is a stronger hypothesis than equal accuracy: both
        judges must also give each label equally often, for instance. If two judges give labels in
        very different proportions, the test is conservative, and may miss a difference that the
        interval shows.

        Args:
            language: The language; by default the mean of all languages.
            permutations: The number of random permutations to draw. If no more than this number
                exist, all of them are used.
            seed: Random seed.

        Returns:
            One comparison per pair of judges, with p-values corrected by Holm's method.

        Raises:
            JudgmentError: There is only one judge.
            SettingError: ``permutations`` is below 1.
            UnknownNameError: There is no sentence in this language.
        """
        if len(self) < 2:
            raise JudgmentError(
                f"a comparison needs at least two judges, got {len(self.judges)}; evaluate the "
                "judges together"
            )
        self.truth.rows(language)  # raises an error for an unknown language
        none = Comparisons((), language, self.level, permutations)
        languages = self.truth.languages if language == MEAN else (language,)
        tallies = [self.tallies[code] for code in languages]
        return compare(none, self.truth, self.names, self.right, tallies, seed)

    def errors(self, language: str = MEAN) -> FineErrors:
        """Return the error rates of each judge by fine-grained label.

        Args:
            language: The language of the sentences; by default all.

        Raises:
            UnknownNameError: There is no sentence in this language.
        """
        return fine_errors(self.truth, self.names, self.right, language)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per judge and language, and one for each judge's mean."""
        rows = []
        for result in self.judges:
            for row in result.figures.values():
                fields = row._asdict()
                lower, upper = fields.pop("interval")
                recall = {f"recall {name}": share for name, share in fields.pop("recall").items()}
                ends = {"lower": lower, "upper": upper}
                rows.append({**fields, **ends, **recall, "threshold": result.threshold_source})
        return frame_of(rows)

    def __str__(self) -> str:
        """Return two tables: means with standard errors, and intervals by language.

        Languages without an interval are left out of the second table.
        """
        title = f"Balanced accuracy in % on {self.truth.labelled.source}"
        header = ("judge", MEAN, "s.e.", f"{100 * self.level:g} % interval", "ROC AUC", "invalid")
        means = self._table(title, header, [_cells(result[MEAN]) for result in self.judges])
        tables = [replace(means, notes=tuple(self._notes())).filled()]
        codes = [
            code
            for code in self.truth.languages
            if len(self.truth.languages) > 1 and not np.isnan(self.judges[0][code].interval[0])
        ]
        title = f"By language, with {100 * self.level:g} % intervals"
        for start in range(0, len(codes), LANGUAGES_SHOWN):
            shown_codes = codes[start : start + LANGUAGES_SHOWN]
            rows = [
                tuple(result[code].with_interval for code in shown_codes) for result in self.judges
            ]
            tables.append(self._table(title, ("judge", *shown_codes), rows))
        return "\n\n".join(map(to_text, tables))

    def _table(self, title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
        lines = tuple((name, *row) for name, row in zip(self.names, rows, strict=True))
        return Table(title, header, lines, name=0)

    def _notes(self) -> Iterator[str]:
        mean = self.judges[0][MEAN]
        left_out = "; ".join(f"{count} left out: {why}" for why, count in self.left_out.items())
        yield (
            f"{mean.sentences} sentences of {mean.queries} queries in "
            f"{len(self.truth.languages)} languages" + (f"; {left_out}" if left_out else "")
        )
        if reason := no_interval_reason(self, MEAN):
            yield f"no interval: {reason}"
        if any(result[MEAN].invalid for result in self.judges):
            yield "invalid: sentences to which the judge gave no valid label; they count as wrong"
        for result in self.judges:
            if others := other_labels(result.labels, self.truth.names):
                yield f"{result.name} {others}"
            if result.threshold:
                yield f"{result.name}: {result.threshold}"
            if result.direction:
                yield result.direction


def no_interval_reason(measured: MetaEvaluation, language: str) -> str:
    """Return the reason why balanced accuracies have no interval; empty if they have one.

    Args:
        measured: The evaluation of the judges.
        language: The language, or :data:`MEAN`.
    """
    languages = measured.truth.languages if language == MEAN else (language,)
    counts = {code: len(measured.tallies[code].total) for code in languages}
    code = min(counts, key=counts.__getitem__)
    queries = len(np.unique(measured.truth.query[measured.truth.rows(code)]))
    reason = few_clusters(counts[code], queries, FEWEST_QUERIES)
    return f"{reason} in {code!r}" if reason and len(counts) > 1 else reason


def _rounded(interval: Interval) -> tuple[float, float] | None:
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
