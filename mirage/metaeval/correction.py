"""What a few labels make of a feature on one's own data: its mean corrected, and its use.

A feature that says that half of the sentences are supported may be wrong about the half and right
about which: then some labels correct the share, and the feature makes them worth more. Or it may
be wrong about both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage._base.tables import Rows, Table, frame_of, to_text
from mirage.errors import JudgmentError
from mirage.features.base import Feature
from mirage.human_agreement import known_agreement
from mirage.metaeval._gold import MEAN
from mirage.metaeval.judges import JudgeLike, Opinion, Score, SentenceJudge, ask
from mirage.metaeval.labels import LabelledSentences
from mirage.metaeval.sentences import AnswerSentence
from mirage.statistics.bootstrap import Interval
from mirage.statistics.classification import roc_auc, roc_auc_interval
from mirage.statistics.prediction_powered import PoweredMean, cross_predicted, powered_mean

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CorrectedShare",
    "CorrectedShares",
    "Transfer",
    "TransferCard",
    "corrected_share",
    "transfer_card",
]

TOGETHER = "together"
"""In the place of a judge: all scores, as the labels teach to weigh them."""


class CorrectedShare(NamedTuple):
    """The share of sentences with the positive label, as one judge helps to tell it.

    Attributes:
        judge: its name.
        said: what the judge says by itself: the mean of its scores, or the share that its threshold
            or its labels call positive. Scores that are better when lower are turned round.
        corrected: what labels make of it; see :class:`~mirage.statistics.PoweredMean`.
    """

    judge: str
    said: float
    corrected: PoweredMean


@dataclass(frozen=True, eq=False)
class CorrectedShares(Rows[CorrectedShare]):
    """A row a judge; iterates over them, prints as a table."""

    sentences: int
    level: float
    notes: tuple[str, ...] = ()

    def __getitem__(self, judge: str) -> CorrectedShare:
        for row in self:
            if row.judge == judge:
                return row
        raise JudgmentError(f"no share was corrected by {judge!r}")

    def to_pandas(self) -> pd.DataFrame:
        """A frame, a row a judge."""
        return frame_of(
            {"judge": row.judge, "said": row.said} | _ends(row.corrected) for row in self
        )

    def __str__(self) -> str:
        header = ("judge", "says", "share", f"{100 * self.level:g} % interval", "labels", "worth")
        rows: list[tuple[str, ...]] = [
            (
                row.judge,
                f"{100 * row.said:.1f}",
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
                (False,) * len(rows),
                (
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
    """The share of all sentences that people would give the positive label, from labels of some.

    :func:`~mirage.statistics.powered_mean` with queries as clusters: unbiased whatever the judges
    are worth, and surer than labels alone as far as they agree with people. The labelled sentences
    have to be drawn at random; ``worth`` says how many labels alone would tell as much. With two
    judges or more a last row has them together, weighed by what the labels teach (cross-prediction,
    :func:`mirage.statistics.prediction_powered.cross_predicted`); that takes a hundred labels or
    more to be better than the best of them.

    Args:
        labelled: sentences with labels; those that nothing can be measured on are left out.
        judges: scores, features or their names, judges, functions of a sentence.
        unlabelled: the other sentences.
        level: of the intervals.
        seed: of the parts of the labels that predict each other.

    Raises:
        JudgmentError: no judge, or what it says is no label or score.
        SettingError: fewer than two labels, or no such level.
        DatasetError: no sentence has a label.
    """
    decided, _ = labelled.decided()
    sentences = [*decided.sentences, *unlabelled]
    labels = np.full(len(sentences), np.nan)
    labels[: len(decided)] = [given == labelled.positive for (given,) in decided.labels]
    queries = [f"{sentence.query.language} {sentence.query.id}" for sentence in sentences]
    cluster = np.unique(queries, return_inverse=True)[1]
    opinions = [ask(judge, sentences) for judge in _several(judges)]
    scores = [_scores(opinion, labelled.positive) for opinion in opinions]
    rows = []
    for opinion, score in zip(opinions, scores, strict=True):
        corrected = powered_mean(labels, score, cluster=cluster, level=level)
        said = float(np.mean(_positive_parts(opinion, score)[~np.isnan(score)]))
        rows.append(CorrectedShare(opinion.name, said, corrected))
    if len(scores) > 1:
        together = cross_predicted(np.stack(scores, axis=1), labels, cluster, seed=seed)
        corrected = powered_mean(labels, together, cluster=cluster, level=level)
        rows.append(CorrectedShare(TOGETHER, corrected.predicted, corrected))
    notes = tuple(filter(None, (opinion.note(labelled.positive) for opinion in opinions)))
    return CorrectedShares(tuple(rows), len(sentences), level, notes)


class Transfer(NamedTuple):
    """How far one feature agrees with these labels, and with MEMERAG's.

    Attributes:
        judge: its name.
        sentences: with a label and a score.
        queries: that they are on.
        roc_auc: how often a positive sentence has the better score: the higher one, or the lower
            one if the feature declares that lower is better.
        interval: of that; NaN where there are too few queries or labels of either kind.
        known: the same on MEMERAG's labels, by language; empty where that was not measured.
        gate: whether the labels show that it tells them apart: the interval is above 0.5.
        direction: which scores speak for the positive label, in words; empty if the feature
            declares that the higher ones do.
    """

    judge: str
    sentences: int
    queries: int
    roc_auc: float
    interval: Interval
    known: tuple[tuple[str, float], ...]
    gate: bool
    direction: str = ""

    @property
    def advice(self) -> str:
        """Whether to gate on the feature, in words."""
        low, high = self.interval
        if np.isnan(low):
            return "do not gate on it: too few labels to tell"
        if not self.gate:
            chance = "do not gate on it: no better than chance, as far as these labels tell"
            other_way = "; its other values agree better: is its direction right?"
            return chance + (other_way if high < 0.5 else "")
        known = [area for _, area in self.known]
        if known and high < min(known):
            return "tells them apart, less than it did on MEMERAG"
        return "tells them apart"


@dataclass(frozen=True, eq=False)
class TransferCard(Rows[Transfer]):
    """A row a feature; iterates over them, prints as a table."""

    source: str
    level: float

    def __getitem__(self, judge: str) -> Transfer:
        for row in self:
            if row.judge == judge:
                return row
        raise JudgmentError(f"{judge!r} was not measured on {self.source}")

    def to_pandas(self) -> pd.DataFrame:
        """A frame, a row a feature."""
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
                " ".join(f"{code} {area:.2f}" for code, area in row.known),
            )
            for row in self
        )
        advice = (f"{row.judge}: {row.advice}" for row in self)
        notes = (*advice, *(row.direction for row in self if row.direction))
        title = f"How features agree with {self.source}"
        return to_text(Table(title, header, rows, (False,) * len(rows), notes, name=0))


def transfer_card(
    labelled: LabelledSentences, judges: JudgeLike | Iterable[JudgeLike], *, level: float = 0.95
) -> TransferCard:
    """Whether features that agree with MEMERAG's labels agree with yours.

    Labels of one's own, some hundred or more, say whether a feature is worth a gate on these data:
    it is not where the interval of its area under the ROC curve
    (:func:`mirage.statistics.classification.roc_auc_interval`) reaches down to 0.5. What is known
    of MEMERAG's labels is ``benchmarks/metaeval.py``'s. If a feature is better when lower, the area
    is that of its lower values. A score that declares no direction is taken to be better when
    higher, and the card says so.

    Args:
        labelled: your labels.
        judges: scores, features or their names, functions of a sentence.
        level: of the intervals.

    Raises:
        JudgmentError: no judge, one that names labels and has no scores, or labels that are not
            two, one of them positive.
        SettingError: no such level.
        DatasetError: no sentence has a label.
    """
    decided, _ = labelled.decided()
    positive = np.array([given == labelled.positive for (given,) in decided.labels])
    if len(decided.names) > 2 or not positive.any() or positive.all():
        raise JudgmentError(
            f"{labelled.source}: the labels are {', '.join(map(repr, decided.names))}; a score is "
            f"measured on two, of which {labelled.positive!r} is one: make two with `merged`"
        )
    queries = [f"{sentence.query.language} {sentence.query.id}" for sentence in decided]
    cluster = np.unique(queries, return_inverse=True)[1]
    rows = []
    for judge in _several(judges):
        opinion = ask(judge, decided.sentences)
        evidence = opinion.evidence
        if evidence is None:
            raise JudgmentError(f"judge {opinion.name!r} names labels; a card is of scores")
        known = ~np.isnan(evidence)
        interval = roc_auc_interval(evidence, positive, cluster, level=level)
        rows.append(
            Transfer(
                opinion.name,
                int(np.count_nonzero(known)),
                len(np.unique(cluster[known])),
                roc_auc(evidence, positive),
                interval,
                tuple(_known(opinion.name)),
                bool(interval[0] > 0.5),
                opinion.note(labelled.positive),
            )
        )
    return TransferCard(tuple(rows), labelled.source, level)


def _several(judges: JudgeLike | Iterable[JudgeLike]) -> list[JudgeLike]:
    if isinstance(judges, str | Feature | Score | SentenceJudge) or callable(judges):
        return [judges]
    several = list(judges)
    if not several:
        raise JudgmentError("there is no judge")
    return several


def _positive_parts(opinion: Opinion, scores: Floats) -> Floats:
    """Return how far the judge calls each sentence positive: 0 or 1 if it has a threshold."""
    if opinion.threshold is None:
        return scores
    limits = opinion.reading.turned(np.full(len(scores), opinion.threshold))
    return np.asarray(scores >= limits, dtype=np.float64)


def _scores(opinion: Opinion, positive: str) -> Floats:
    """Return a number for each sentence, high for the positive label; NaN if there is none."""
    if opinion.evidence is not None:
        return opinion.evidence
    labels: Sequence[str | None] = opinion.labels or ()
    return np.array([np.nan if label is None else float(label == positive) for label in labels])


def _known(name: str) -> Iterator[tuple[str, float]]:
    for figure in known_agreement(name):
        if figure.roc_auc is not None:
            yield figure.language or MEAN, figure.roc_auc


def _ends(mean: PoweredMean) -> dict[str, object]:
    """A mean as columns; an interval is two."""
    plain = mean._asdict()
    for name in ("interval", "alone_interval"):
        ends = plain.pop(name)
        stem = name.removesuffix("interval")
        plain |= {f"{stem}lower": ends[0], f"{stem}upper": ends[1]}
    return plain


def _span(interval: Interval, scale: float, decimals: int) -> str:
    if np.isnan(interval[0]):
        return "-"
    return " to ".join(f"{scale * end:.{decimals}f}" for end in interval)
