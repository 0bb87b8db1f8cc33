"""Measuring judges against people's labels: one call, one result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Bools, Floats
from mirage.errors import JudgmentError, SettingError
from mirage.features.base import Feature
from mirage.metaeval._gold import MEAN, Truth
from mirage.metaeval.judges import JudgeLike, Opinion, Score, SentenceJudge, ask, name_of
from mirage.metaeval.labels import LabelledSentences
from mirage.metaeval.results import JudgeFigures, JudgeResult, MetaEvaluation, ThresholdSource
from mirage.statistics import classification as cl
from mirage.statistics.bootstrap import Interval, check_level

__all__ = ["evaluate"]


def evaluate(
    labelled: LabelledSentences,
    judges: JudgeLike | Iterable[JudgeLike],
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> MetaEvaluation:
    """Measure how well judges agree with the labels that people gave sentences.

    Each judge gets the sentences, without their labels, that have one label to measure it on:
    with several annotators the majority's. "Challenging to determine" is left out, and counted.
    With sentences in several languages this is MEMERAG's multilingual task: the mean figure gives
    all languages the same weight. ``labelled.select(languages=["de"])`` makes it a monolingual
    one, and ``select(fine=[...])`` measures on some fine-grained labels only.

    A score (a feature, or a function that returns floats) without a threshold gets one by
    cross-validation: queries are dealt into five folds, and the sentences of one are held against
    the threshold with the best balanced accuracy, in the mean of the languages, on the other four.

    Args:
        labelled: the sentences and their labels.
        judges: judges, scores, features or their names, functions of a sentence.
        draws: bootstrap draws behind each interval; each draws queries within a language.
        level: share of the draws that an interval holds.
        seed: of the draws, and of the folds of cross-validation.

    Raises:
        SettingError: ``draws`` is below 1, or ``level`` no share.
        JudgmentError: no judge or two of one name; a judge did not return one label or score a
            sentence, or none of the labels that people gave; there are not two labels for a score.
        DatasetError: no sentence has a label to measure a judge on.
        FeatureError: a feature has no value on any sentence.
        UnknownNameError: there is no feature of such a name.
    """
    check_level(level)
    if draws < 1:
        raise SettingError(f"an interval takes 1 draw or more, not {draws}")
    truth = Truth.of(labelled)
    judges = _several(judges)
    names = [name_of(judge) for judge in judges]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None or not names:
        raise JudgmentError(
            "there is no judge" if not names else f"two judges are called {repeated!r}; rename one"
        )
    for judge in judges:
        if isinstance(judge, str | Feature | Score):
            truth.positive(name_of(judge))  # an error before anybody is asked
    opinions = [ask(judge, truth.labelled.sentences) for judge in judges]
    labels = [_labels(opinion, truth, seed) for opinion in opinions]
    right = np.stack([_right(by_judge, truth) for by_judge, _ in labels], axis=1)
    basis = _basis(truth, right, draws, seed)
    results = tuple(
        JudgeResult(
            name=opinion.name,
            figures=_figures(opinion, by_judge, column, truth, basis, level),
            labels=by_judge,
            scores=opinion.scores,
            thresholds=thresholds,
            threshold_source=_threshold_source(opinion),
            truth=truth,
        )
        for column, (opinion, (by_judge, thresholds)) in enumerate(
            zip(opinions, labels, strict=True)
        )
    )
    return MetaEvaluation(results, truth, right, basis.draws, level)


def _several(judges: JudgeLike | Iterable[JudgeLike]) -> list[JudgeLike]:
    if isinstance(judges, str | Feature | Score | SentenceJudge) or callable(judges):
        return [judges]
    return list(judges)


# Labels -------------------------------------------------------------------------------------------


def _labels(
    opinion: Opinion, truth: Truth, seed: int
) -> tuple[tuple[str | None, ...], Floats | None]:
    """The label that a judge gives each sentence, and the threshold if it gives scores."""
    if opinion.scores is None:
        labels = opinion.labels or ()
        if any(labels) and not {*labels} & {*truth.names}:
            others = sorted({label for label in labels if label})
            raise JudgmentError(
                f"judge {opinion.name!r} gave none of the labels "
                f"{', '.join(map(repr, truth.names))}, but {', '.join(map(repr, others[:5]))}; "
                "have it use the same names"
            )
        return labels, None
    thresholds = _thresholds(opinion.name, opinion.scores, opinion.threshold, truth, seed)
    (negative,) = {*truth.names} - {truth.labelled.positive}
    labels = tuple(
        None if np.isnan(value) else truth.labelled.positive if value >= threshold else negative
        for value, threshold in zip(opinion.scores, thresholds, strict=True)
    )
    return labels, thresholds


def _thresholds(
    name: str, scores: Floats, threshold: float | None, truth: Truth, seed: int
) -> Floats:
    positive = truth.positive(name)
    if threshold is not None:
        return np.full(len(scores), threshold)
    try:
        return cl.cross_validated_thresholds(
            scores, positive, truth.language, truth.query, seed=seed
        )
    except JudgmentError as error:
        raise JudgmentError(f"score {name!r}: {error}") from None


def _threshold_source(opinion: Opinion) -> ThresholdSource | None:
    if opinion.scores is None:
        return None
    return "cross-validation" if opinion.threshold is None else "given"


def _right(labels: tuple[str | None, ...], truth: Truth) -> Bools:
    codes = [truth.names.index(label) if label in truth.names else -1 for label in labels]
    return np.asarray(np.array(codes) == truth.label)


# Figures ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Basis:
    """What all judges' figures come from, by language."""

    tallies: Mapping[str, cl.Tallies]
    draws: Mapping[str, Floats]


def _basis(truth: Truth, right: Bools, draws: int, seed: int) -> _Basis:
    tallies, drawn = {}, {}
    for place, code in enumerate(truth.languages):
        rows = truth.rows(code)
        tallies[code] = cl.tally(truth.query[rows], truth.label[rows], right[rows])
        drawn[code] = cl.draws_of(tallies[code], draws=draws, seed=seed + place)
    drawn[MEAN] = np.mean([drawn[code] for code in truth.languages], axis=0)
    return _Basis(tallies, drawn)


def _figures(
    opinion: Opinion,
    labels: tuple[str | None, ...],
    column: int,
    truth: Truth,
    basis: _Basis,
    level: float,
) -> dict[str, JudgeFigures]:
    """The figures of the judge in this column, by language and of their mean."""
    invalid = np.array([label not in truth.names for label in labels])
    rows = {}
    for code, tallies in basis.tallies.items():
        here = truth.rows(code)
        recall = cl.recalls(tallies)[:, column]
        names = [truth.names[label] for label in np.unique(truth.label[here]).tolist()]
        rows[code] = JudgeFigures(
            judge=opinion.name,
            language=code,
            sentences=int(np.count_nonzero(here)),
            queries=len(tallies.total),
            balanced_accuracy=float(recall.mean()),
            standard_error=float(cl.standard_errors(tallies)[column]),
            interval=cl.interval(basis.draws[code][:, column], len(tallies.total), level),
            recall=dict(zip(names, recall.tolist(), strict=True)),
            invalid=int(np.count_nonzero(invalid[here])),
            roc_auc=_area(opinion, truth, here),
        )
    interval = cl.interval(
        basis.draws[MEAN][:, column], min(row.queries for row in rows.values()), level
    )
    return {**rows, MEAN: _mean(opinion.name, list(rows.values()), interval, truth.names)}


def _area(opinion: Opinion, truth: Truth, rows: Bools) -> float:
    if opinion.scores is None:
        return float("nan")
    return cl.roc_auc(opinion.scores[rows], truth.positive(opinion.name)[rows])


def _mean(
    judge: str, rows: list[JudgeFigures], interval: Interval, names: tuple[str, ...]
) -> JudgeFigures:
    """The mean of languages, whose errors are independent of each other."""
    return JudgeFigures(
        judge=judge,
        language=MEAN,
        sentences=sum(row.sentences for row in rows),
        queries=sum(row.queries for row in rows),
        balanced_accuracy=float(np.mean([row.balanced_accuracy for row in rows])),
        standard_error=float(np.linalg.norm([row.standard_error for row in rows]) / len(rows)),
        interval=interval,
        recall={
            name: float(np.mean([row.recall[name] for row in rows if name in row.recall]))
            for name in names
        },
        invalid=sum(row.invalid for row in rows),
        roc_auc=float(np.mean([row.roc_auc for row in rows])),
    )
