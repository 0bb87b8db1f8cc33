"""Evaluation of judges against labels from people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mirage._base.arrays import Bools, Floats
from mirage._base.rows import first_duplicate
from mirage.dataset import Cluster
from mirage.errors import JudgmentError, NoJudgmentError
from mirage.features.base import Feature
from mirage.metaeval.gold import MEAN, Truth
from mirage.metaeval.judges import (
    JudgeLike,
    Opinion,
    Score,
    ask,
    judge_list,
    name_of,
    other_labels,
)
from mirage.metaeval.labels import LabelledSentences
from mirage.metaeval.results import JudgeFigures, JudgeResult, MetaEvaluation, ThresholdSource
from mirage.statistics import classification as cl
from mirage.statistics.bootstrap import Interval, check_level


def evaluate(
    labelled: LabelledSentences,
    judges: JudgeLike | Iterable[JudgeLike],
    *,
    cluster: Cluster = None,
    level: float = 0.95,
    seed: int = 0,
) -> MetaEvaluation:
    """Measure how well judges agree with labels that people gave to sentences.

    Each judge gets the labelled sentences, without their labels. If a sentence has several
    annotators, the label of the majority is used. Sentences labelled "Challenging to determine" are
    left out and counted. The mean over languages gives all languages the same weight, as in the
    multilingual task of MEMERAG (arXiv 2502.17163). To evaluate on some sentences only, pass
    ``labelled.select(languages=["de"])`` or ``labelled.select(fine=[...])``, which selects by
    fine-grained label.

    A score (a feature, or a function that returns floats) without a threshold gets one by
    cross-validation. The clusters of queries are split into five folds. The threshold for the
    sentences of a fold is the one with the best balanced accuracy, averaged over languages, on the
    other four folds. If lower values of a feature are better, a lower score means the positive
    label. If a score declares no direction, higher is assumed to be better, and the table contains
    a note.

    Args:
        labelled: The sentences and their labels.
        judges: Judges, scores, features or their names, or functions of a sentence.
        cluster: The clusters of queries that are not independent, such as queries about one
            document. The default is :attr:`Query.cluster <mirage.Query>`. Otherwise pass a key of
            the queries' metadata, a function of a query, or a mapping from query id. Languages may
            share clusters, as parallel questions do.
        level: The confidence level of the intervals
            (:func:`mirage.statistics.classification.intervals`).
        seed: Random seed of the folds.

    Returns:
        The agreement of each judge with the labels, by language and averaged over languages.

    Raises:
        SettingError: ``level`` is not between 0 and 1.
        JudgmentError: There is no judge, an object is not a judge, or two judges have the same
            name; a judge did not return one label or score per sentence, or none of its labels
            occurs in ``labelled``; a judge is a score, but ``labelled`` does not have exactly two
            labels, one of them the positive label; or all sentences of a language have the same
            label.
        NoJudgmentError: A judge gave no label, or a score has no number, for any sentence.
        DatasetError: No sentence has a decided majority label.
        FeatureError: A feature has no value for any sentence.
        UnknownNameError: A name among ``judges`` is not the name of a feature.

    Example:
        >>> from mirage import Query
        >>> from mirage.metaeval import AnswerSentence, LabelledSentences
        >>> query = Query(id="q", text="Where is Paris?", language="en")
        >>> texts = "Paris is in France.", "Paris is in Peru."
        >>> sentences = tuple(AnswerSentence(query, text) for text in texts)
        >>> labels = ("Supported",), ("Not Supported",)
        >>> labelled = LabelledSentences(sentences, labels, fine=((), ()))
        >>> def judge(sentence: AnswerSentence) -> str:
        ...     return "Supported" if "France" in sentence.text else "Not Supported"
        >>> evaluate(labelled, judge)["judge"]["en"].balanced_accuracy
        1.0
    """
    check_level(level)
    truth = Truth.of(labelled, cluster)
    judges = judge_list(judges)
    names = [name_of(judge) for judge in judges]
    repeated = first_duplicate(names)
    if repeated is not None:
        raise JudgmentError(f"two judges have the name {repeated!r}; rename one of them")
    for judge in judges:
        if isinstance(judge, str | Feature | Score):
            truth.positive(name_of(judge))  # raise errors before any judge is run
    opinions = [ask(judge, truth.labelled.sentences) for judge in judges]
    labels = [_labels(opinion, truth, seed) for opinion in opinions]
    codes: dict[str | None, int] = {name: code for code, name in enumerate(truth.names)}
    # A missing or unknown label has code -1, which never equals the true label.
    choices = np.array([[codes.get(label, -1) for label in column] for column, _ in labels]).T
    right = choices == truth.label[:, None]
    tallies = {}
    for code in truth.languages:
        in_language = truth.rows(code)
        tallies[code] = cl.tally(
            truth.cluster[in_language], truth.label[in_language], right[in_language]
        )
    results = []
    for column, (opinion, (chosen_labels, thresholds)) in enumerate(
        zip(opinions, labels, strict=True)
    ):
        invalid = choices[:, column] < 0
        figures = _figures(opinion, invalid, column, truth, tallies, level)
        source: ThresholdSource | None = None
        if opinion.scores is not None:
            source = "cross-validation" if opinion.threshold is None else "given"
        scores = opinion.scores, thresholds, source, opinion.reading
        digest = opinion.prompt_digest
        results.append(JudgeResult(opinion.name, figures, chosen_labels, *scores, truth, digest))
    return MetaEvaluation(tuple(results), truth, right, tallies, level)


# Labels -------------------------------------------------------------------------------------------


def _labels(
    opinion: Opinion, truth: Truth, seed: int
) -> tuple[tuple[str | None, ...], Floats | None]:
    """Return a judge's label for each sentence, and the threshold for each sentence's score.

    A score without a threshold gets one by cross-validation on ``truth``. The thresholds are
    ``None`` if the judge returns labels.
    """
    _check_any_value(opinion, truth)
    evidence = opinion.evidence
    if evidence is None:
        return opinion.labels or (), None
    limits = opinion.reading.turned(np.full(len(truth), opinion.threshold or 0.0))
    if opinion.threshold is None:
        columns = truth.positive(opinion.name), truth.language, truth.cluster
        try:
            limits = cl.cross_validated_thresholds(evidence, *columns, seed=seed)
        except JudgmentError as error:
            raise JudgmentError(f"score {opinion.name!r}: {error}") from None
    (negative,) = {*truth.names} - {truth.labelled.positive}
    labels = tuple(
        None if np.isnan(value) else truth.labelled.positive if value >= limit else negative
        for value, limit in zip(evidence, limits, strict=True)
    )
    return labels, opinion.reading.turned(limits)


def _check_any_value(opinion: Opinion, truth: Truth) -> None:
    """Raise an error if a judge has no valid label, or a score no number, for any sentence."""
    every = f"any of the {len(truth)} sentences"
    if opinion.scores is not None:
        if np.isnan(opinion.scores).all():
            raise NoJudgmentError(f"score {opinion.name!r} has no value for {every}")
        return
    labels = opinion.labels or ()
    if {*labels} & {*truth.names}:
        return
    if others := other_labels(labels, truth.names):
        raise JudgmentError(f"judge {opinion.name!r} {others}; let the judge return the same names")
    raise NoJudgmentError(
        f"judge {opinion.name!r} gave no label to {every}; people's labels are "
        f"{', '.join(map(repr, truth.names))}"
    )


# Figures ------------------------------------------------------------------------------------------


def _figures(
    opinion: Opinion,
    invalid: Bools,
    column: int,
    truth: Truth,
    by_language: Mapping[str, cl.Tallies],
    level: float,
) -> dict[str, JudgeFigures]:
    """Return the agreement of one judge with people, in each language and averaged over all.

    ``column`` is the index of the judge. ``invalid`` marks the sentences to which the judge gave no
    valid label. The keys of the result are language codes and :data:`MEAN`.
    """
    rows = {}
    judge = np.eye(1, len(by_language[truth.languages[0]].right[0, 0]), column)
    for code, tallies in by_language.items():
        in_language = truth.rows(code)
        recall = cl.recalls(tallies)[:, column]
        names = [truth.names[label] for label in np.unique(truth.label[in_language]).tolist()]
        area = np.nan
        if opinion.evidence is not None:
            area = cl.roc_auc(
                opinion.evidence[in_language], truth.positive(opinion.name)[in_language]
            )
        rows[code] = JudgeFigures(
            judge=opinion.name,
            language=code,
            sentences=int(np.count_nonzero(in_language)),
            queries=len(np.unique(truth.query[in_language])),
            balanced_accuracy=float(recall.mean()),
            standard_error=float(cl.standard_errors([tallies])[column]),
            interval=_interval([tallies], judge, level),
            recall=dict(zip(names, recall.tolist(), strict=True)),
            invalid=int(np.count_nonzero(invalid[in_language])),
            roc_auc=area,
        )
    parts = list(by_language.values())
    error, interval = float(cl.standard_errors(parts)[column]), _interval(parts, judge, level)
    return {**rows, MEAN: _mean(opinion.name, list(rows.values()), error, interval, truth.names)}


def _interval(tallies: list[cl.Tallies], judge: Floats, level: float) -> Interval:
    lower, upper = cl.intervals(tallies, judge, level=level)[0].tolist()
    return lower, upper


def _mean(
    judge: str,
    rows: list[JudgeFigures],
    standard_error: float,
    interval: Interval,
    names: tuple[str, ...],
) -> JudgeFigures:
    """Average a judge's figures over languages, and add the given standard error and interval."""
    return JudgeFigures(
        judge=judge,
        language=MEAN,
        sentences=sum(row.sentences for row in rows),
        queries=sum(row.queries for row in rows),
        balanced_accuracy=float(np.mean([row.balanced_accuracy for row in rows])),
        standard_error=standard_error,
        interval=interval,
        recall={
            name: float(np.mean([row.recall[name] for row in rows if name in row.recall]))
            for name in names
        },
        invalid=sum(row.invalid for row in rows),
        roc_auc=float(np.mean([row.roc_auc for row in rows])),
    )
