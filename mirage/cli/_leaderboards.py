"""The leaderboard that options name, and models ranked on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli._inputs import dataset_of, file_of, place_of, ranker_of, run_names
from mirage.cli._shell import flag, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.leaderboard import Leaderboard
    from mirage.ranking import Ranking

__all__ = ["Copies", "Official", "Surrogate", "leaderboard_of", "ranked"]

Official = Annotated[
    bool,
    flag(
        "Rank among the 19 LLMs of MIRAGE-Bench, on its queries (extra hub; downloads).",
        "--official",
    ),
]
Copies = Annotated[
    Path | None,
    option("FOLDER", "With --official: copies of the benchmark's datasets, in place of the hub."),
]
Surrogate = Annotated[
    Path | None, option("FILE", "With --dataset: a surrogate that `mirage surrogate train` wrote.")
]


def leaderboard_of(
    language: str,
    dataset: Path | None,
    surrogate: Path | None,
    trust: bool,
    official: bool,
    copies: Path | None,
) -> Leaderboard:
    """The leaderboard that the options name."""
    from mirage.leaderboard import Leaderboard

    if (dataset is None) != (surrogate is None):
        raise MirageError(
            "--dataset and --surrogate go together: a surrogate knows the queries that it was "
            "trained on"
        )
    if official and dataset is not None:
        raise MirageError("--official brings its own queries; leave out --dataset")
    if copies is not None and not official:
        raise MirageError("--copies goes with --official")
    if official:
        return Leaderboard.from_hub(language, path=None if copies is None else place_of(copies))
    if dataset is None or surrogate is None:
        return Leaderboard.bundled(language)
    from mirage.features import FeatureSuite

    queries = dataset_of(language, dataset)
    ranker = ranker_of(surrogate, trust)
    return Leaderboard(queries, FeatureSuite(ranker.features, queries.language), ranker)


def ranked(
    board: Leaderboard, paths: Sequence[Path], names: Sequence[str] | None, jobs: int
) -> Ranking:
    """The models behind files of responses, ranked."""
    models = dict(zip(run_names(paths, names), map(file_of, paths), strict=True))
    return board.rank_all(models, n_jobs=jobs)
