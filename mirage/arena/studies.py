"""Simulated verdicts on models with known logits, to study how reliable rankings are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats
from mirage.arena import estimation
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.fits import BradleyTerryFit
from mirage.arena.judgments import Judgments
from mirage.errors import JudgmentError
from mirage.statistics.rank_sets import first_model
from mirage.statistics.ranks import ranks
from mirage.statistics.studies import Method
from mirage.statistics.worlds import StudyDesign, StudySample, correlated_deviates


def true_logits(logits: Floats, spread: float, ties: float) -> Floats:
    """Return the logits that a fit to all possible queries would give.

    If models are better on some queries than on others, logits fitted to many queries are closer
    together than the logits on one query.

    Args:
        logits: Mean logit of each model over the queries.
        spread: Standard deviation of a model's logit from query to query.
        ties: Share of tied verdicts.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    difference = (logits[:, None] - logits)[..., None] + np.sqrt(2) * spread * nodes
    chance = (weights / weights.sum() / (1 + np.exp(-difference))).sum(axis=-1)
    wins = (1 - ties) * chance + ties / 2
    np.fill_diagonal(wins, 0)
    return estimation.fit_bradley_terry(wins)


def draw_scores(strengths: Floats, ties: float, rng: np.random.Generator) -> Floats:
    """Draw the score of the first model of each pair on each query: 1, 0, or 0.5 for a tie.

    The result has the shape ``(queries, pairs)``.

    Args:
        strengths: Logit of each model on each query, of shape ``(queries, models)``.
        ties: Share of tied verdicts, whose score is 0.5.
        rng: Random generator.
    """
    a, b = np.triu_indices(strengths.shape[1], 1)
    chances = 1 / (1 + np.exp(strengths[:, b] - strengths[:, a]))
    score = rng.random(chances.shape) < chances
    return np.where(rng.random(score.shape) < ties, 0.5, score)


def judgments_of(scores: Floats, names: ArrayLike, query_ids: ArrayLike | None = None) -> Judgments:
    """Return judgments of every pair on every query.

    Args:
        scores: Score of the first model of each pair, of shape ``(queries, pairs)``, as from
            :func:`draw_scores`.
        names: Name of each model.
        query_ids: Id of each query; by default its index, counted from 0.
    """
    queries, pairs = scores.shape
    models = np.asarray(names)
    a, b = np.triu_indices(len(models), 1)
    ids = np.arange(queries) if query_ids is None else np.asarray(query_ids)
    return Judgments.from_arrays(
        query=np.repeat(ids, pairs),
        model_a=np.tile(models[a], queries),
        model_b=np.tile(models[b], queries),
        score=scores.ravel(),
    )


def methods() -> Mapping[str, Method]:
    """Return the methods for intervals of logits, of ranks and of the best model's logit, by name.

    :func:`mirage.statistics.validate` measures how often these intervals contain the truth.
    """
    return {
        "logits": Method(_draw, _logits),
        "rank intervals": Method(_draw_ranks, _ranks, "joint intervals"),
        "winner interval": Method(_draw, _winner),
    }


@lru_cache
def _truth(design: StudyDesign) -> Floats:
    return true_logits(_steps(design), design.spread, design.ties)


def _steps(design: StudyDesign) -> Floats:
    return np.linspace(design.effect / 2, -design.effect / 2, design.models)


def _draw(design: StudyDesign, rng: np.random.Generator) -> tuple[Floats, Floats]:
    deviates = correlated_deviates(design.codes, design.correlation, design.models, rng)
    scores = draw_scores(_steps(design) + design.spread * deviates, design.ties, rng)
    return scores, _truth(design)


def _draw_ranks(design: StudyDesign, rng: np.random.Generator) -> tuple[Floats, Floats]:
    scores, truth = _draw(design, rng)
    return scores, ranks(truth).astype(np.float64)


def _fit(sample: StudySample) -> BradleyTerryFit | None:
    width = len(str(sample.design.models))
    names = [f"m{i:0{width}}" for i in range(sample.design.models)]  # fits sort names
    clusters = {}
    if len(np.unique(sample.codes)) < len(sample.codes):
        clusters = {str(i): str(code) for i, code in enumerate(sample.codes.tolist())}
    try:
        return BradleyTerry().fit(judgments_of(sample.values, names), clusters=clusters)
    except JudgmentError:  # too few verdicts to connect the models
        return None


def _no_intervals(sample: StudySample) -> Floats:
    return np.full((sample.design.models, 2), np.nan)


def _logits(sample: StudySample) -> Floats:
    fit = _fit(sample)
    return _no_intervals(sample) if fit is None else fit.interval(level=sample.level)


def _ranks(sample: StudySample) -> Floats:
    fit = _fit(sample)
    if fit is None:
        return _no_intervals(sample)
    return fit.rank_interval(level=sample.level).astype(np.float64)


def _winner(sample: StudySample) -> Floats:
    """Return the winner interval in the row of the largest logit; all other rows are NaN."""
    fit, ends = _fit(sample), _no_intervals(sample)
    if fit is not None:
        ends[first_model(fit.logits)] = fit.winner_interval(level=sample.level)
    return ends
