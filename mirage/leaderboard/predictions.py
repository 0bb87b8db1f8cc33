"""What a judge will say of a model's response and an anchor's, as far as features tell.

Nothing depends on these predictions but how many judgments are needed: see
:mod:`mirage.arena.placement`. Arrays are ``(queries, anchors)``, what the model gets, 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage._base.arrays import Floats
from mirage.arena.judgments import Judgments
from mirage.features import FeatureTable
from mirage.statistics.prediction_powered import logistic_weights
from mirage.surrogate.ranker import SurrogateRanker

__all__ = ["from_logits", "from_verdicts"]

_PENALTY = 1e-3
"""Of the squared weights of standardised features, in units of verdicts."""


def from_logits(
    ranker: SurrogateRanker, own: FeatureTable, anchors: Sequence[FeatureTable]
) -> Floats:
    """By a surrogate that was taught logits: each response scored as if all were like it."""
    score = ranker.scores(own)
    others = np.stack([ranker.scores(table) for table in anchors], axis=1)
    return _chance(score[:, None] - others)


def from_verdicts(
    own: FeatureTable,
    anchors: Sequence[FeatureTable],
    judgments: Judgments,
    *,
    form: bool = True,
) -> Floats:
    """By the verdicts on the anchors: on each query, and on responses with other features.

    Each anchor in turn stands for a model that nobody knows. What it got against another is
    learnt, by logistic regression, from how their features differ and from what the other got
    against the rest on this query, over its mean. No verdict on the model has a part in it.
    Without ``form`` features alone are learnt from.
    """
    queries = own.query_ids
    tables = [table.select(queries) for table in anchors]
    mine = own.columns(tables[0].features).select(queries)
    rows = np.stack([mine.values, *(table.values for table in tables)])
    scaled = _standardised(rows)
    names = [table.model for table in tables]
    got = _got(judgments, names, queries)
    X, y = [], []
    for one in range(len(tables)):
        rest = [j for j in range(len(tables)) if j != one]
        known_form = _form(got[np.ix_(rest, rest)]) * form
        for place, other in enumerate(rest):
            X.append(np.column_stack([scaled[1 + one] - scaled[1 + other], known_form[place]]))
            y.append(got[one, other])
    design, scores = np.concatenate(X), np.concatenate(y)
    known = ~np.isnan(scores)
    ridge = np.full(design.shape[1], _PENALTY * np.count_nonzero(known))
    weights = logistic_weights(design[known], scores[known], ridge)
    known_form = _form(got) * form
    return np.stack(
        [
            _chance(np.column_stack([scaled[0] - scaled[1 + j], known_form[j]]) @ weights)
            for j in range(len(tables))
        ],
        axis=1,
    )


def _standardised(rows: Floats) -> Floats:
    """Features ``(models, queries, features)`` on one scale; what is missing is at the mean."""
    centre = np.nanmean(rows, axis=(0, 1))
    spread = np.nanstd(rows, axis=(0, 1))
    scaled = (rows - centre) / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.nan_to_num(scaled))


def _got(judgments: Judgments, names: Sequence[str], query_ids: Sequence[str]) -> Floats:
    """``[i, j, query]``: what model i got against j, the mean of several; NaN where unknown."""
    model = np.array([names.index(n) if n in names else -1 for n in judgments.models])
    place = {query: row for row, query in enumerate(query_ids)}
    query = np.array([place.get(q, -1) for q in judgments.query_ids])[judgments.query]
    a, b = model[judgments.a], model[judgments.b]
    known = (a >= 0) & (b >= 0) & (query >= 0)
    total, count = np.zeros((2, len(names), len(names), len(query_ids)))
    for first, second, score in ((a, b, judgments.score), (b, a, 1 - judgments.score)):
        cells = first[known], second[known], query[known]
        np.add.at(total, cells, score[known])
        np.add.at(count, cells, 1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _form(got: Floats) -> Floats:
    """How far each model got more on a query than it mostly does: ``(models, queries)``."""
    known = ~np.isnan(got)
    mean = np.where(known, got, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    judged = known.any(axis=1)
    usual = (mean * judged).sum(axis=1) / np.maximum(judged.sum(axis=1), 1)
    return np.asarray(np.where(judged, mean - usual[:, None], 0.0))


def _chance(logits: Floats) -> Floats:
    return np.asarray(0.5 + 0.5 * np.tanh(logits / 2))
