"""Predict, from features, a judge's verdicts on a model that is compared with anchors.

With better predictions, fewer judgments are needed. Intervals are valid in any case; see
:mod:`mirage.arena.placement`. Results contain the expected score of the model, from 0 (it loses) to
1 (it wins), in arrays of shape ``(queries, anchors)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage._base.arrays import Floats
from mirage.arena.judgments import Judgments
from mirage.features import FeatureTable
from mirage.statistics.prediction_powered import logistic_weights
from mirage.surrogate.ranker import SurrogateRanker

_PENALTY = 1e-3
"""Penalty on the squared weights of standardised features, per verdict."""


def from_logits(
    ranker: SurrogateRanker, own: FeatureTable, anchors: Sequence[FeatureTable]
) -> Floats:
    """Predict a model's score against each anchor on each query, from a surrogate.

    The surrogate gives each response a value (:meth:`mirage.SurrogateRanker.scores`). The
    difference between the values of two responses is the log-odds that the first response wins.

    Args:
        ranker: The surrogate.
        own: Features of the model whose scores are predicted.
        anchors: Features of the anchors (reference models), one table each.

    Returns:
        The expected scores, from 0 (the model loses) to 1 (it wins), of shape ``(queries,
        anchors)``.
    """
    score = ranker.scores(own)
    anchor_scores = np.stack([ranker.scores(table) for table in anchors], axis=1)
    return _chance(score[:, None] - anchor_scores)


def from_verdicts(
    own: FeatureTable,
    anchors: Sequence[FeatureTable],
    judgments: Judgments,
    *,
    form: bool = True,
) -> Floats:
    """Predict a model's score against each anchor on each query, from verdicts on the anchors.

    A logistic regression is fitted to the verdicts on pairs of anchors. For this fit, each anchor
    in turn takes the role of the model. Its scores against the other anchors are predicted from the
    differences of features and, optionally, from the opponent's form: the opponent's score against
    the remaining anchors on this query, minus its mean score over all queries. No verdict on the
    model itself is used.

    Args:
        own: Features of the model whose scores are predicted.
        anchors: Features of the anchors (reference models), one table each.
        judgments: Judgments on the anchors.
        form: Whether to use the form of the opponent.

    Returns:
        The expected scores, from 0 (the model loses) to 1 (it wins), of shape ``(queries,
        anchors)``.
    """
    queries = own.query_ids
    tables = [table.select(queries) for table in anchors]
    model_table = own.columns(tables[0].features).select(queries)
    rows = np.stack([model_table.values, *(table.values for table in tables)])
    scaled = _standardise(rows)
    names = [table.model for table in tables]
    anchor_scores = _mean_scores(judgments, names, queries)
    X, y = [], []
    for held_out in range(len(tables)):
        remaining = [j for j in range(len(tables)) if j != held_out]
        deviations = _score_deviations(anchor_scores[np.ix_(remaining, remaining)]) * form
        for row, other in enumerate(remaining):
            X.append(np.column_stack([scaled[1 + held_out] - scaled[1 + other], deviations[row]]))
            y.append(anchor_scores[held_out, other])
    design, scores = np.concatenate(X), np.concatenate(y)
    has_score = ~np.isnan(scores)
    ridge = np.full(design.shape[1], _PENALTY * np.count_nonzero(has_score))
    weights = logistic_weights(design[has_score], scores[has_score], ridge)
    deviations = _score_deviations(anchor_scores) * form
    return np.stack(
        [
            _chance(np.column_stack([scaled[0] - scaled[1 + j], deviations[j]]) @ weights)
            for j in range(len(tables))
        ],
        axis=1,
    )


def _standardise(rows: Floats) -> Floats:
    """Standardise each feature to mean 0 and standard deviation 1; missing values become 0.

    Argument and result have the shape ``(models, queries, features)``.
    """
    centre = np.nanmean(rows, axis=(0, 1))
    spread = np.nanstd(rows, axis=(0, 1))
    scaled = (rows - centre) / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.nan_to_num(scaled))


def _mean_scores(judgments: Judgments, names: Sequence[str], query_ids: Sequence[str]) -> Floats:
    """Return the mean score of model i against model j on each query, at ``[i, j, query]``.

    The score is NaN if there is no verdict on the responses of the two models to the query.
    """
    model = np.array([names.index(n) if n in names else -1 for n in judgments.models])
    row_of_query = {query: row for row, query in enumerate(query_ids)}
    query = np.array([row_of_query.get(q, -1) for q in judgments.query_ids])[judgments.query]
    a, b = model[judgments.a], model[judgments.b]
    in_table = (a >= 0) & (b >= 0) & (query >= 0)
    total, count = np.zeros((2, len(names), len(names), len(query_ids)))
    for first, second, score in ((a, b, judgments.score), (b, a, 1 - judgments.score)):
        cells = first[in_table], second[in_table], query[in_table]
        np.add.at(total, cells, score[in_table])
        np.add.at(count, cells, 1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _score_deviations(scores: Floats) -> Floats:
    """Return each model's mean score on each query, minus its mean over all judged queries.

    ``scores`` are those of :func:`_mean_scores`. The result has the shape ``(models, queries)``; it
    is 0 if there is no verdict on the model's response to a query.
    """
    has_score = ~np.isnan(scores)
    mean = np.where(has_score, scores, 0).sum(axis=1) / np.maximum(has_score.sum(axis=1), 1)
    judged = has_score.any(axis=1)
    usual = (mean * judged).sum(axis=1) / np.maximum(judged.sum(axis=1), 1)
    return np.asarray(np.where(judged, mean - usual[:, None], 0.0))


def _chance(logits: Floats) -> Floats:
    """Convert log-odds to probabilities."""
    return np.asarray(0.5 + 0.5 * np.tanh(logits / 2))
