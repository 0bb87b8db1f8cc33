"""Measuring judges against people's labels: one call, one result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from mirage._base.arrays import Bools, Floats
from mirage._base.rows import first_duplicate
from mirage.dataset import Cluster
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
    cluster: Cluster = None,
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
    If a feature is better when lower, a lower score speaks for the positive label; a score that
    declares no direction is taken to be better when higher, and the table says so.

    Args:
        labelled: the sentences and their labels.
        judges: judges, scores, features or their names, functions of a sentence.
        cluster: what queries hang together by, such as a document that several are about, where
            :attr:`Query.cluster <mirage.Query>` does not say so: a key of their metadata, a
            function of the query, or a mapping from query id. Languages may share clusters, as
            parallel questions do.
        draws: behind each interval (:func:`mirage.statistics.classification.draws_of`); what
            languages share is drawn once for all of them.
        level: share of the draws that an interval holds.
        seed: of the draws, and of the folds of cross-validation.

    Raises:
        SettingError: ``draws`` is below 1, or ``level`` no share.
        JudgmentError: no judge, something else, or two of one name; a judge did not return one
            label or score a sentence, or none of the labels that people gave; a score does not find
            two labels, one of them positive; all sentences of a language have the same label.
        DatasetError: no sentence has a label to measure a judge on.
        FeatureError: a feature has no value on any sentence.
        UnknownNameError: there is no feature of such a name.
    """
    check_level(level)
    if draws < 1:
        raise SettingError(f"an interval takes 1 draw or more, not {draws}")
    truth = Truth.of(labelled, cluster)
    if isinstance(judges, str | Feature | Score | SentenceJudge) or callable(judges):
        judges = [judges]
    judges = list(judges)
    names = [name_of(judge) for judge in judges]
    repeated = first_duplicate(names)
    if repeated is not None or not names:
        raise JudgmentError(
            "there is no judge" if not names else f"two judges are called {repeated!r}; rename one"
        )
    for judge in judges:
        if isinstance(judge, str | Feature | Score):
            truth.positive(name_of(judge))  # an error before anybody is asked
    opinions = [ask(judge, truth.labelled.sentences) for judge in judges]
    labels = [_labels(opinion, truth, seed) for opinion in opinions]
    codes: dict[str | None, int] = {name: code for code, name in enumerate(truth.names)}
    choices = np.array([[codes.get(label, -1) for label in own] for own, _ in labels]).T
    right = choices == truth.label[:, None]
    tallies, drawn = {}, {}
    together = None
    if truth.shares_clusters:  # one draw for all languages
        size = draws, int(truth.cluster.max()) + 1
        together = np.random.default_rng(seed).standard_normal(size)
    for place, code in enumerate(truth.languages):
        here = truth.rows(code)
        tallies[code] = cl.tally(truth.cluster[here], truth.label[here], right[here])
        chosen = None if together is None else together[:, np.unique(truth.cluster[here])]
        drawn[code] = cl.draws_of(tallies[code], draws=draws, seed=seed + place, deviates=chosen)
    drawn[MEAN] = np.mean(list(drawn.values()), axis=0)
    results = []
    for column, (opinion, (own, thresholds)) in enumerate(zip(opinions, labels, strict=True)):
        draws_of_judge = {code: of_all[:, column] for code, of_all in drawn.items()}
        invalid = choices[:, column] < 0
        figures = _figures(opinion, invalid, column, truth, tallies, draws_of_judge, level)
        source: ThresholdSource | None = None
        if opinion.scores is not None:
            source = "cross-validation" if opinion.threshold is None else "given"
        scores = opinion.scores, thresholds, source, opinion.reading
        results.append(JudgeResult(opinion.name, figures, own, *scores, truth))
    return MetaEvaluation(tuple(results), truth, right, drawn, level)


# Labels -------------------------------------------------------------------------------------------


def _labels(
    opinion: Opinion, truth: Truth, seed: int
) -> tuple[tuple[str | None, ...], Floats | None]:
    """Return the label that a judge gives each sentence, and the thresholds of its scores."""
    evidence = opinion.evidence
    if evidence is None:
        labels = opinion.labels or ()
        if any(labels) and not {*labels} & {*truth.names}:
            others = sorted({label for label in labels if label})
            raise JudgmentError(
                f"judge {opinion.name!r} gave none of the labels "
                f"{', '.join(map(repr, truth.names))}, but {', '.join(map(repr, others[:5]))}; "
                "have it use the same names"
            )
        return labels, None
    limits = opinion.reading.turned(np.full(len(truth), opinion.threshold or 0.0))
    if opinion.threshold is None:
        where = truth.positive(opinion.name), truth.language, truth.cluster
        try:
            limits = cl.cross_validated_thresholds(evidence, *where, seed=seed)
        except JudgmentError as error:
            raise JudgmentError(f"score {opinion.name!r}: {error}") from None
    (negative,) = {*truth.names} - {truth.labelled.positive}
    labels = tuple(
        None if np.isnan(value) else truth.labelled.positive if value >= limit else negative
        for value, limit in zip(evidence, limits, strict=True)
    )
    return labels, opinion.reading.turned(limits)


# Figures ------------------------------------------------------------------------------------------


def _figures(
    opinion: Opinion,
    invalid: Bools,
    column: int,
    truth: Truth,
    by_language: Mapping[str, cl.Tallies],
    draws: Mapping[str, Floats],
    level: float,
) -> dict[str, JudgeFigures]:
    """The figures of the judge in this column, by language and of their mean."""
    rows = {}
    for code, tallies in by_language.items():
        here = truth.rows(code)
        recall = cl.recalls(tallies)[:, column]
        names = [truth.names[label] for label in np.unique(truth.label[here]).tolist()]
        area = np.nan
        if opinion.evidence is not None:
            area = cl.roc_auc(opinion.evidence[here], truth.positive(opinion.name)[here])
        rows[code] = JudgeFigures(
            judge=opinion.name,
            language=code,
            sentences=int(np.count_nonzero(here)),
            queries=len(np.unique(truth.query[here])),
            balanced_accuracy=float(recall.mean()),
            standard_error=float(cl.standard_errors(tallies)[column]),
            interval=cl.interval(draws[code], float(recall.mean()), len(tallies.total), level),
            recall=dict(zip(names, recall.tolist(), strict=True)),
            invalid=int(np.count_nonzero(invalid[here])),
            roc_auc=area,
        )
    value = float(np.mean([row.balanced_accuracy for row in rows.values()]))
    fewest = min(len(tallies.total) for tallies in by_language.values())
    interval = cl.interval(draws[MEAN], value, fewest, level)
    mean = _mean(opinion.name, list(rows.values()), interval, truth.names)
    if truth.shares_clusters:  # languages are not independent of each other
        mean = mean._replace(standard_error=float(np.nanstd(draws[MEAN])))
    return {**rows, MEAN: mean}


def _mean(
    judge: str, rows: list[JudgeFigures], interval: Interval, names: tuple[str, ...]
) -> JudgeFigures:
    """The mean of languages, as if their errors were independent of each other."""
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
