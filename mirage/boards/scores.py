"""Compute the scores of a board's submissions from their responses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from mirage.arena.judgment_files import read_judged
from mirage.boards.folders import BoardFolder
from mirage.boards.records import SURROGATE
from mirage.leaderboard import Leaderboard
from mirage.ranking import MultilingualRanking, Ranking
from mirage.statistics.rank_sets import rank_sets
from mirage.statistics.ranks import ranks


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


def _among(ranking: Ranking, ids: Collection[str]) -> Ranking:
    """Return a ranking of the submissions ``ids`` alone, without the models of the leaderboard.

    The rank intervals hold jointly for all submissions. They are therefore valid even for a
    submission that is singled out because it ranks best.
    """
    entries = [entry for entry in ranking if entry.model in ids]
    drawn = ranking.drawn() or {}
    logits = np.array([entry.logit for entry in entries])
    draws = np.stack([drawn[entry.model] for entry in entries], axis=1)
    intervals = rank_sets(logits, draws - logits, level=ranking.level).tolist()
    return Ranking(
        [
            replace(
                entry,
                rank=int(rank),
                rank_interval=None if np.isnan(entry.interval[0]) else (best, worst),
            )
            for entry, rank, (best, worst) in zip(entries, ranks(logits), intervals, strict=True)
        ],
        language=ranking.language,
        title=ranking.title,
        draws={entry.model: drawn[entry.model] for entry in entries},
        about=ranking.about,
        evidence=ranking.evidence,
        level=ranking.level,
    )
