"""Compute the scores of a board's submissions from their responses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from mirage.arena.judgment_files import read_judged
from mirage.boards.folders import BoardFolder
from mirage.boards.records import SURROGATE
from mirage.leaderboard import Leaderboard
from mirage.ranking import MultilingualRanking, Ranking
from mirage.statistics.rank_sets import rank_sets
from mirage.statistics.ranks import ranks

MOST_COMPARED = 20
"""Largest number of submissions that are compared query by query.

More submissions need probabilities so near 1 that 10,000 draws cannot estimate them.
"""


def rank_submissions(
    board: BoardFolder, *, n_jobs: int = 1, progress: bool = True
) -> dict[str, Ranking]:
    """Rank the submissions of a board in each language.

    Submissions that answer another version of the queries are left out. A language is left out if
    it has no submission, or if a judge compares the submissions and there is only one.

    Args:
        board: The board, in which :func:`mirage.boards.rules.check_board` finds no problem.
        n_jobs: Number of processes that compute features, as in joblib.
        progress: Whether to show progress bars on stderr, if stderr is a terminal.

    Returns:
        The rankings by language code.

    Raises:
        MirageError: The features of a submission cannot be computed, or the votes are not valid.
    """
    rankings = {}
    for code in board.file.versions:
        runs = {entry.id: entry.run(code) for entry in board.ranked(code)}
        if board.file.judge == SURROGATE and runs:
            leaderboard = Leaderboard.bundled(code)
            ranking = leaderboard.rank_many(runs, n_jobs=n_jobs, progress=progress)
            rankings[code] = _among(ranking, runs)
        elif len(runs) > 1:
            judged = read_judged(board.votes_path(code), judge=board.file.judge)
            rankings[code] = Ranking.from_judgments(
                judged, board.datasets[code], runs.values(), progress=progress
            )
    return rankings


def pooled(rankings: dict[str, Ranking]) -> MultilingualRanking | None:
    """Rank submissions by their mean logit over all languages.

    Submissions without a rank in some language are left out. The result is ``None`` if no
    submission remains, or if there is only one language.

    Args:
        rankings: The rankings by language code, from :func:`rank_submissions`.
    """
    shared = [set(ranking.models) for ranking in rankings.values()]
    if len(shared) < 2 or not set.intersection(*shared):
        return None
    return MultilingualRanking(rankings)


def rank_ranges(
    ranking: Ranking | MultilingualRanking, models: Sequence[str]
) -> Mapping[str, tuple[int, int]] | None:
    """Return the best and worst rank of each submission among all; the ranges hold jointly.

    The responses of each two submissions are compared query by query, as in
    :meth:`mirage.Ranking.p_better`. A submission is ranked above another one if its logit is larger
    and its ``p_better`` is significant. The significance level is divided by the number of
    comparisons (Bonferroni).

    Args:
        ranking: Ranking by a surrogate that contains the submissions.
        models: Ids of the submissions, best first.

    Returns:
        The ranges, or ``None`` with more than :data:`MOST_COMPARED` submissions.
    """
    if len(models) > MOST_COMPARED:
        return None
    best, worst = dict.fromkeys(models, 1), dict.fromkeys(models, len(models))
    limit = 1 - (1 - ranking.level) / max(len(models) * (len(models) - 1), 1)
    for above, below in combinations(models, 2):
        if ranking.p_better(above, below) > limit:
            worst[above] -= 1
            best[below] += 1
    return {model: (best[model], worst[model]) for model in models}


def _among(ranking: Ranking, ids: Collection[str]) -> Ranking:
    """Return a ranking of the submissions ``ids`` alone, without the models of the leaderboard.

    Its rank intervals hold jointly for all submissions (:func:`rank_ranges`). They are therefore
    valid even for a submission that is singled out because it ranks best.
    """
    entries = [entry for entry in ranking if entry.model in ids]
    models = [entry.model for entry in entries]
    drawn = ranking.drawn() or {}
    logits = np.array([entry.logit for entry in entries])
    ranges = rank_ranges(ranking, models)
    if ranges is None:
        draws = np.stack([drawn[model] for model in models], axis=1)
        sets = rank_sets(logits, draws - logits, level=ranking.level).tolist()
        ranges = {model: (best, worst) for model, (best, worst) in zip(models, sets, strict=True)}
    return Ranking(
        [
            replace(
                entry,
                rank=int(rank),
                rank_interval=None if np.isnan(entry.interval[0]) else ranges[entry.model],
            )
            for entry, rank in zip(entries, ranks(logits), strict=True)
        ],
        language=ranking.language,
        title=ranking.title,
        draws={model: drawn[model] for model in models},
        about=ranking.about,
        evidence=ranking.evidence,
        level=ranking.level,
    )
