"""Experiments with fewer judgments, and with models without judgments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mirage._base.arrays import Floats
from mirage.arena import BradleyTerry, Judgments
from mirage.arena import estimation as est
from mirage.errors import SettingError, UnknownNameError
from mirage.papers.arenas import Arena
from mirage.papers.results import FewerJudgmentsRow, NewModelRow, Result, middle, tau_b
from mirage.papers.surrogates import fit_rankers, surrogate_data
from mirage.statistics.ranks import ranks
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.training import TrainingData


def fewer_judgments(
    arenas: Mapping[str, Arena],
    *,
    queries: Sequence[int] = (10, 25, 50, 75, 100),
    pairs: Sequence[int] = (5, 10, 25, 50, 75),
    repeats: int = 100,
    seed: int = 0,
) -> Result[FewerJudgmentsRow]:
    """Compare rankings from random subsets of the judgments with the ranking from all judgments.

    Figure 6 of MIRAGE-Bench (arXiv 2410.13716) shows the same comparison. The first rows use all
    judgments on a random sample of the queries. The other rows use a random sample of the judgments
    on every query. Samples are drawn without replacement. Within one repeat, a smaller sample is a
    subset of each larger one. For pairs that are chosen by earlier verdicts instead of at random,
    see :mod:`mirage.arena.adaptive`.

    Args:
        arenas: Arenas by language.
        queries: Numbers of queries to use. Numbers above the number of queries in a language are
            left out.
        pairs: Percentages of the judgments on each query to use. At least one judgment per query is
            used.
        repeats: Number of random samples of each size.
        seed: Random seed.

    Returns:
        One row per language and size of the sample.

    Raises:
        SettingError: If a number of queries is below 1, or a percentage is not from 1 to 100.
        JudgmentError: If a fit does not converge.
    """
    if any(number < 1 for number in queries) or any(not 1 <= share <= 100 for share in pairs):
        raise SettingError(
            "queries must be at least 1, and pairs (in percent) from 1 to 100; got "
            f"queries={queries}, pairs={pairs}"
        )
    rows: list[FewerJudgmentsRow] = []
    for code, arena in arenas.items():
        judged = arena.judgments
        rng = np.random.default_rng([seed, *code.encode()])
        exhaustive = BradleyTerry().fit(judged).logits
        total = len(judged.query_ids)
        possible = [number for number in sorted(queries) if number <= total]
        draws = (
            _draw_queries(judged, possible, repeats, rng),
            _draw_pairs(judged, sorted(pairs), repeats, rng),
        )
        settings = [(number, 100) for number in possible]
        settings += [(total, share) for share in sorted(pairs)]
        for (number, share), wins in zip(settings, np.concatenate(draws), strict=True):
            taus = tau_b(est.fit_bradley_terry(wins, BradleyTerry().ridge), exhaustive)
            judgments = float(wins.sum(axis=(1, 2)).mean())
            tau = float(taus.mean())
            rows.append(FewerJudgmentsRow(code, number, share, judgments, tau, *middle(taus)))
    return Result("Tau with the exhaustive ranking from fewer judgments", tuple(rows))


def new_models(
    arenas: Mapping[str, Arena],
    new: Sequence[str],
    *,
    estimator: str = "auto",
    pooled: bool = True,
    seed: int = 0,
) -> Result[NewModelRow]:
    """Compare predicted ranks of new models with their ranks by judgments.

    Figure 8 of MIRAGE-Bench (arXiv 2410.13716) shows the same comparison. A surrogate, which
    predicts logits from features, is trained on the other models. It is trained on as many
    tournaments (fits of logits to the judgments on bootstrap samples of the queries) as the arena
    has, of the same size, without the judgments on new models.

    Args:
        arenas: Arenas by language, each with judgments on all models.
        new: Names of the models that count as new.
        estimator: Name of the surrogate's estimator; see :class:`~mirage.SurrogateRanker`.
        pooled: Whether all languages share one surrogate.
        seed: Random seed.

    Returns:
        One row per language and new model.

    Raises:
        UnknownNameError: If one of the new models is not in every arena.
        FeatureError: If the tables of the models have different features, if a model has no value
            of a feature on any query, or if fewer than three models remain for training.
    """
    for arena in arenas.values():
        for model in new:
            if model not in arena.tournaments.models:
                raise UnknownNameError("model", model, arena.tournaments.models)
    old = {code: _remove_models(arena, new, seed) for code, arena in arenas.items()}
    rows: list[NewModelRow] = []
    for ranker, group in fit_rankers(surrogate_data(old), estimator, pooled, seed):
        for code, data in group.items():
            rows += _rank_new_models(ranker, data, arenas[code], new)
    return Result(
        "New models on an old arena",
        tuple(rows),
        ("Tau compares the orders of all models of the language, old ones included.",),
    )


def _draw_queries(
    judged: Judgments, numbers: Sequence[int], repeats: int, rng: np.random.Generator
) -> Floats:
    """Return win matrices from the judgments on random samples of the queries.

    A win matrix counts how often each model beats each of the others. The result has the shape
    ``(numbers, repeats, models, models)``.

    Args:
        judged: All judgments.
        numbers: Numbers of queries to sample.
        repeats: Number of samples of each size.
        rng: Random number generator.
    """
    total, models = len(judged.query_ids), len(judged.models)
    by_query = est.query_win_matrices(
        judged.query, judged.a, judged.b, judged.score, total, models
    ).reshape(total, -1)
    order = rng.permuted(np.tile(np.arange(total), (repeats, 1)), axis=1)
    # One random order per repeat makes the draws nested: the first 10 queries are among 25.
    wins = [(order < number).astype(np.float64) @ by_query for number in numbers]
    return np.array(wins).reshape(len(numbers), repeats, models, models)


def _draw_pairs(
    judged: Judgments, shares: Sequence[float], repeats: int, rng: np.random.Generator
) -> Floats:
    """Return win matrices from random samples of the judgments on each query.

    A win matrix counts how often each model beats each of the others. The result has the shape
    ``(shares, repeats, models, models)``.

    Args:
        judged: All judgments.
        shares: Percentages of the judgments on each query to sample.
        repeats: Number of samples of each size.
        rng: Random number generator.
    """
    models = len(judged.models)
    size = np.bincount(judged.query, minlength=len(judged.query_ids))
    start = np.cumsum(size) - size
    wins = np.empty((len(shares), repeats, models, models))
    for repeat in range(repeats):
        # Sort judgments by query, in random order within each query.
        order = np.lexsort((rng.random(len(judged)), judged.query))
        query, a, b, score = (
            column[order] for column in (judged.query, judged.a, judged.b, judged.score)
        )
        position = np.arange(len(judged)) - start[query]
        for i, share in enumerate(shares):
            nested = position < np.maximum(np.round(share / 100 * size), 1)[query]
            wins[i, repeat] = est.win_matrix(a[nested], b[nested], score[nested], models)
    return wins


def _remove_models(arena: Arena, models: Sequence[str], seed: int) -> Arena:
    """Return the arena without judgments on some models, and with new tournaments."""
    judged, counts = arena.judgments, arena.tournaments.counts
    names, query_ids = np.array(judged.models), np.array(judged.query_ids)
    a, b = names[judged.a], names[judged.b]
    old = ~(np.isin(a, models) | np.isin(b, models))
    remaining = Judgments.from_arrays(
        query=query_ids[judged.query[old]],
        model_a=a[old],
        model_b=b[old],
        score=judged.score[old],
    )
    # Tournaments of the same number and size as before, so that results are comparable.
    size = int(counts[0].sum())
    tournaments = BradleyTerry().bootstrap(
        remaining, tournaments=len(counts), queries=size, seed=seed, progress=False
    )
    return replace(arena, judgments=remaining, tournaments=tournaments)


def _rank_new_models(
    ranker: SurrogateRanker, old: TrainingData, arena: Arena, new: Sequence[str]
) -> list[NewModelRow]:
    tables = {table.model: table for table in arena.tables}
    predictions = [ranker.predict(tables[model]) for model in new]
    models = (*old.models, *new)
    logits = np.array([*old.mean_y, *(prediction.logit for prediction in predictions)])
    judged_logits = dict(zip(arena.tournaments.models, arena.tournaments.mean, strict=True))
    judged = np.array([judged_logits[model] for model in models])
    # Logits have no fixed origin; the mean of the old models makes both scales comparable.
    judged -= judged[: len(old.models)].mean()
    tau = float(tau_b(logits, judged))
    predicted_ranks, judged_ranks = ranks(logits), ranks(judged)
    return [
        NewModelRow(
            old.language,
            prediction.model,
            int(predicted_ranks[i]),
            int(judged_ranks[i]),
            prediction.logit,
            *prediction.interval(),
            judged=float(judged[i]),
            tau=tau,
        )
        for i, prediction in enumerate(predictions, len(old.models))
    ]
