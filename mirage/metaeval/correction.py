"""Use a few labels to correct the mean of a feature, or to test the feature on your own data.

A feature may report a wrong share of supported sentences although it gives supported sentences
higher scores than others. In this case, a few labels are enough to correct the share
(:func:`corrected_share`). Without the feature, more labels would be needed. To find out whether a
feature separates supported sentences from others at all, use :func:`transfer_card`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import Rows, Table, frame_of, to_text
from mirage.errors import JudgmentError
from mirage.human_agreement import known_agreement
from mirage.metaeval.gold import MEAN
from mirage.metaeval.judges import JudgeLike, Opinion, ask, judge_list, other_labels
from mirage.metaeval.labels import LabelledSentences
from mirage.metaeval.sentences import AnswerSentence
from mirage.statistics.bootstrap import Interval
from mirage.statistics.classification import roc_auc, roc_auc_interval
from mirage.statistics.prediction_powered import PoweredMean, cross_predicted, powered_mean

if TYPE_CHECKING:
    import pandas as pd

TOGETHER = "together"
"""The name of the row that combines all judges, with weights learnt from the labels."""


class CorrectedShare(NamedTuple):
    """The share of sentences with the positive label, as estimated from labels and one judge.

    Attributes:
        judge: The name of the judge.
        judge_share: The share according to the judge alone. This is the mean of its scores or, if
            it has a threshold or returns labels, the share of sentences that it calls positive. If
            lower scores are better, they are reversed first. Sentences without a verdict are left
            out.
        corrected: The corrected estimate; see :class:`~mirage.statistics.PoweredMean`.
    """

    judge: str
    judge_share: float
    corrected: PoweredMean


@dataclass(frozen=True, eq=False)
class CorrectedShares(Rows[CorrectedShare]):
    """Corrected shares of positive sentences, one row per judge; prints as a table.

    Attributes:
        sentences: The number of sentences, with and without a label.
        level: The confidence level of the intervals.
        notes: Notes on the direction of the judges' scores, and on sentences without a verdict.
    """

    sentences: int
    level: float
    notes: tuple[str, ...] = ()

    def __getitem__(self, judge: str) -> CorrectedShare:
        for row in self:
            if row.judge == judge:
                return row
        raise JudgmentError(
            f"there is no corrected share for judge {judge!r}; pass the name of a judge that was "
            "given to corrected_share"
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per judge."""
        return frame_of(
            {"judge": row.judge, "judge_share": row.judge_share} | _ends(row.corrected)
            for row in self
        )

    def __str__(self) -> str:
        header = ("judge", "says", "share", f"{100 * self.level:g} % interval", "labels", "worth")
        rows: list[tuple[str, ...]] = [
            (
                row.judge,
                f"{100 * row.judge_share:.1f}",
                f"{100 * row.corrected.estimate:.1f}",
                _span(row.corrected.interval, 100, 1),
                str(row.corrected.labels),
                f"{row.corrected.worth:.0f}",
            )
            for row in self
        ]
        first = self.rows[0].corrected
        alone = ("labels alone", "", f"{100 * first.alone:.1f}")
        rows.append((*alone, _span(first.alone_interval, 100, 1), *[str(first.labels)] * 2))
        return to_text(
            Table(
                f"Share of {self.sentences} sentences with the positive label, in %",
                header,
                tuple(rows),
                notes=(
                    *dict.fromkeys(row.corrected.why for row in self if row.corrected.why),
                    *self.notes,
                ),
                name=0,
            )
        )


def corrected_share(
    labelled: LabelledSentences,
    judges: JudgeLike | Iterable[JudgeLike],
    unlabelled: Iterable[AnswerSentence],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> CorrectedShares:
    """Estimate the share of sentences that people would label positive, from a labelled sample.

    The estimate is computed by :func:`~mirage.statistics.powered_mean` with queries as clusters. It
    is unbiased even if the judges are bad. If the judges agree with people, it is more precise than
    an estimate from the labels alone. The labelled sentences must be a random sample of all
    sentences. In the printed table, the column ``worth`` is the number of labels that would give
    the same precision without a judge.

    With two or more judges, a last row combines all of them
    (:func:`mirage.statistics.prediction_powered.cross_predicted`). The weights of the combination
    are learnt from the labels. About a hundred labels are needed for the combination to be better
    than the best judge.

    Args:
        labelled: Sentences with labels; those without a decided majority label are left out.
        judges: Scores, features or their names, judges, or functions of a sentence.
        unlabelled: The sentences that have no label from people.
        level: The confidence level of the intervals.
        seed: Random seed of the split of labels for cross-prediction.

    Returns:
        The corrected shares, with one row per judge.

    Raises:
        JudgmentError: There is no judge, or one returns neither labels nor scores.
        SettingError: There are fewer than two labels, or ``level`` is not between 0 and 1.
        DatasetError: No sentence has a label.

    Example:
        >>> from mirage import Query
        >>> from mirage.metaeval import LabelledSentences
        >>> queries = [Query(id=str(n), text="Where is Paris?", language="en") for n in range(40)]
        >>> sentences = [AnswerSentence(q, "In France." if int(q.id) % 2 else "?") for q in queries]
        >>> names = "Not Supported", "Supported"
        >>> labels = [[names[int(query.id) % 2]] for query in queries]
        >>> labelled = LabelledSentences(tuple(sentences[:20]), labels[:20], [()] * 20)
        >>> shares = corrected_share(labelled, lambda s: float(len(s.text) > 5), sentences[20:])
        >>> shares.rows[0].corrected.estimate
        0.5
    """
    decided, _ = labelled.decided()
    sentences = [*decided.sentences, *unlabelled]
    labels = np.full(len(sentences), np.nan)
    # The labelled sentences come first; NaN marks the others.
    labels[: len(decided)] = [label == labelled.positive for (label,) in decided.labels]
    queries = [f"{sentence.query.language} {sentence.query.id}" for sentence in sentences]
    cluster = np.unique(queries, return_inverse=True)[1]
    opinions = [ask(judge, sentences) for judge in judge_list(judges)]
    scores = [_scores(opinion, labelled.positive) for opinion in opinions]
    rows = []
    for opinion, score in zip(opinions, scores, strict=True):
        corrected = powered_mean(labels, score, cluster=cluster, level=level)
        raw_share = float(np.mean(_positive_parts(opinion, score)[~np.isnan(score)]))
        rows.append(CorrectedShare(opinion.name, raw_share, corrected))
    if len(scores) > 1:
        combined = cross_predicted(np.stack(scores, axis=1), labels, cluster, seed=seed)
        corrected = powered_mean(labels, combined, cluster=cluster, level=level)
        rows.append(CorrectedShare(TOGETHER, corrected.predicted, corrected))
    notes = tuple(
        note
        for opinion, score in zip(opinions, scores, strict=True)
        for note in (*_notes(opinion, decided), *_gap_notes(opinion.name, score))
    )
    return CorrectedShares(tuple(rows), len(sentences), level, notes)


def _gap_notes(judge: str, score: Floats) -> Iterator[str]:
    """Yield a note on the sentences without a verdict of a judge; nothing if there are none."""
    missing = np.count_nonzero(np.isnan(score))
    if missing:
        yield (
            f"{judge}: 'says' is a share of the {len(score) - missing} sentences with a verdict; "
            f"{missing} have none"
        )


class Transfer(NamedTuple):
    """The agreement of one feature with the user's labels and with MEMERAG's labels.

    Attributes:
        judge: The name of the feature.
        sentences: The number of sentences with a label and a score.
        queries: The number of queries of these sentences.
        roc_auc: The area under the ROC curve: the probability that a positive sentence has a better
            score than a negative one (higher, or lower if the feature declares that lower is
            better).
        interval: The confidence interval of ``roc_auc``; NaN with fewer than ten queries, if fewer
            than five queries have a positive sentence, if fewer than five have a negative one, or
            if the area is 0 or 1.
        memerag_areas: The area under the ROC curve on MEMERAG's labels, by language; empty if it
            was not measured for this feature.
        gate: Whether the feature can serve as a gate, which accepts or rejects responses. It can if
            the interval, corrected for the number of features (Bonferroni), is above 0.5, so that
            it separates positive from negative sentences better than chance.
        direction: A note on whether high or low scores mean the positive label; empty if the
            feature itself declares that high scores do.
    """

    judge: str
    sentences: int
    queries: int
    roc_auc: float
    interval: Interval
    memerag_areas: tuple[tuple[str, float], ...]
    gate: bool
    direction: str = ""

    @property
    def advice(self) -> str:
        """Advice on whether to accept or reject responses by this feature, as a short text."""
        low, high = self.interval
        if np.isnan(low):
            return "do not gate on it: too few labels to tell"
        if not self.gate:
            chance = "do not gate on it: no better than chance on these labels"
            reversed_hint = "; its reversed values agree better, so check its direction"
            return chance + (reversed_hint if high < 0.5 else "")
        areas = [area for _, area in self.memerag_areas]
        if areas and high < min(areas):
            return "separates the two labels, but less well than on MEMERAG"
        return "separates the two labels"


@dataclass(frozen=True, eq=False)
class TransferCard(Rows[Transfer]):
    """The agreement of features with labels, one row per feature; prints as a table.

    Attributes:
        source: The name of the labelled sentences in tables.
        level: The confidence level of the intervals.
    """

    source: str
    level: float

    def __getitem__(self, judge: str) -> Transfer:
        for row in self:
            if row.judge == judge:
                return row
        raise JudgmentError(
            f"judge {judge!r} was not measured on {self.source}; pass the name of a judge that was "
            "given to transfer_card"
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per feature."""
        return frame_of(
            {
                "judge": row.judge,
                "sentences": row.sentences,
                "queries": row.queries,
                "roc_auc": row.roc_auc,
                "lower": row.interval[0],
                "upper": row.interval[1],
                "gate": row.gate,
                "advice": row.advice,
                "direction": row.direction,
            }
            for row in self
        )

    def __str__(self) -> str:
        header = ("feature", "sentences", "ROC AUC", f"{100 * self.level:g} % interval", "MEMERAG")
        rows = tuple(
            (
                row.judge,
                str(row.sentences),
                f"{row.roc_auc:.3f}",
                _span(row.interval, 1, 2),
                " ".join(f"{code} {area:.2f}" for code, area in row.memerag_areas),
            )
            for row in self
        )
        advice = (f"{row.judge}: {row.advice}" for row in self)
        notes = (*advice, *(row.direction for row in self if row.direction))
        title = f"How features agree with {self.source}"
        return to_text(Table(title, header, rows, notes=notes, name=0))


def transfer_card(
    labelled: LabelledSentences, judges: JudgeLike | Iterable[JudgeLike], *, level: float = 0.95
) -> TransferCard:
    """Test whether features that agree with MEMERAG's labels also agree with the user's labels.

    MEMERAG is a public data set of labelled sentences. A gate accepts or rejects responses by the
    value of a feature. On the user's data, a feature can serve as a gate if the interval of its
    area under the ROC curve (:func:`mirage.statistics.classification.roc_auc_interval`), corrected
    for the number of features (Bonferroni), is above 0.5. About a hundred labels are enough to find
    out. The areas on MEMERAG's labels were computed by ``validation/papers/metaeval.py``. If lower
    values of a feature are better, they are reversed first. If a score declares no direction,
    higher is assumed to be better, and the card contains a note.

    Args:
        labelled: The user's labels.
        judges: Scores, features or their names, or functions of a sentence.
        level: The confidence level of the intervals.

    Returns:
        The agreement, with one row per feature.

    Raises:
        JudgmentError: There is no judge, one returns labels instead of scores, or there are not
            two labels, one of them positive.
        SettingError: ``level`` is not between 0 and 1.
        DatasetError: No sentence has a label.
    """
    decided, _ = labelled.decided()
    positive = np.array([label == labelled.positive for (label,) in decided.labels])
    if len(decided.names) > 2 or not positive.any() or positive.all():
        raise JudgmentError(
            f"{labelled.source}: the labels are {', '.join(map(repr, decided.names))}; a score "
            f"needs exactly two labels, one of them {labelled.positive!r}; merge labels with "
            "LabelledSentences.merged"
        )
    queries = [f"{sentence.query.language} {sentence.query.id}" for sentence in decided]
    cluster = np.unique(queries, return_inverse=True)[1]
    rows, judges = [], judge_list(judges)
    corrected = 1 - (1 - level) / max(len(judges), 1)
    for judge in judges:
        opinion = ask(judge, decided.sentences)
        evidence = opinion.evidence
        if evidence is None:
            raise JudgmentError(
                f"judge {opinion.name!r} returns labels, but a transfer card needs scores; pass a "
                "feature, or a function that returns floats"
            )
        has_score = ~np.isnan(evidence)
        interval, wide = (
            roc_auc_interval(evidence, positive, cluster, level=probability)
            for probability in (level, corrected)
        )
        rows.append(
            Transfer(
                opinion.name,
                int(np.count_nonzero(has_score)),
                len(np.unique(cluster[has_score])),
                roc_auc(evidence, positive),
                interval,
                tuple(_memerag_areas(opinion.name)),
                bool(wide[0] > 0.5),
                opinion.note(labelled.positive),
            )
        )
    return TransferCard(tuple(rows), labelled.source, level)


def _positive_parts(opinion: Opinion, scores: Floats) -> Floats:
    """Return a number per sentence; the mean of these numbers is the judge's share of positives.

    The number is the score of the sentence. If the judge has a threshold, it is 1 for scores at or
    above the threshold, and 0 for others.
    """
    if opinion.threshold is None:
        return scores
    limits = opinion.reading.turned(np.full(len(scores), opinion.threshold))
    return np.asarray(scores >= limits, dtype=np.float64)


def _scores(opinion: Opinion, positive: str) -> Floats:
    """Return the score of each sentence, reversed if lower is better; NaN if it has none.

    If a judge returns labels, the score is 1 for the positive label and 0 for another label.
    """
    if opinion.evidence is not None:
        return opinion.evidence
    labels: Sequence[str | None] = opinion.labels or ()
    return np.array([np.nan if label is None else float(label == positive) for label in labels])


def _notes(opinion: Opinion, labelled: LabelledSentences) -> Iterator[str]:
    """Return notes on the direction of a score, and on labels that people did not use."""
    if direction := opinion.note(labelled.positive):
        yield direction
    if others := other_labels(opinion.labels or (), labelled.names):
        yield f"{opinion.name} {others}"


def _memerag_areas(name: str) -> Iterator[tuple[str, float]]:
    for figure in known_agreement(name):
        if figure.roc_auc is not None:
            yield figure.language or MEAN, figure.roc_auc


def _ends(mean: PoweredMean) -> dict[str, object]:
    """Return the fields of a mean as table columns; each interval becomes two columns."""
    columns = mean._asdict()
    for name in ("interval", "alone_interval"):
        ends = columns.pop(name)
        stem = name.removesuffix("interval")
        columns |= {f"{stem}lower": ends[0], f"{stem}upper": ends[1]}
    return columns


def _span(interval: Interval, scale: float, decimals: int) -> str:
    if np.isnan(interval[0]):
        return "-"
    return " to ".join(f"{scale * end:.{decimals}f}" for end in interval)
