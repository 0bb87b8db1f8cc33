"""Arenas, which are the input of the experiments, and readers of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mirage._base.files import read_rows, validated
from mirage.arena import BradleyTerry, Judgments, Tournaments
from mirage.errors import DatasetError
from mirage.features import FeatureTable
from mirage.leaderboard import official
from mirage.models import Judgment


@dataclass(frozen=True, eq=False)
class Arena:
    """The features of models in one language, judgments on these models, and tournaments.

    Attributes:
        tables: One table for every judged model, all with the same features.
        judgments: Judgments on pairs of these models.
        tournaments: Logits of the models in many tournaments. A tournament is a fit to the
            judgments on a bootstrap sample of the queries.
    """

    tables: tuple[FeatureTable, ...]
    judgments: Judgments
    tournaments: Tournaments

    @classmethod
    def of(
        cls,
        tables: Sequence[FeatureTable],
        judgments: Judgments,
        *,
        tournaments: int = 200,
        queries: int | None = 100,
        seed: int = 0,
    ) -> Arena:
        """Create an arena from tables and judgments, and draw its tournaments at random.

        Args:
            tables: One table for every judged model.
            judgments: Judgments on pairs of these models.
            tournaments: Number of tournaments (fits to the judgments on random samples of queries).
            queries: Largest number of queries per tournament; ``None`` for as many as were judged
                (:meth:`mirage.BradleyTerry.bootstrap`).
            seed: Random seed.

        Raises:
            JudgmentError: If no logits can be fitted to the judgments.
        """
        drawn_tournaments = BradleyTerry().bootstrap(
            judgments, tournaments=tournaments, queries=queries, seed=seed, progress=False
        )
        return cls(tuple(tables), judgments, drawn_tournaments)

    def with_features(self, features: Sequence[str]) -> Arena:
        """Return this arena with only the features that have these names."""
        return replace(self, tables=tuple(table.columns(features) for table in self.tables))


def read_arena(folder: str | Path, language: str, **options: Any) -> Arena:
    """Read an arena from ``{language}/features.jsonl`` and ``{language}/judgments.jsonl``.

    A line of the first file contains the features of one response: ``{"query_id": "q1", "model":
    "x", "features": {"answer_bleu": 0.3, ...}}``. A feature that could not be computed is null. A
    line of the second file is a judgment: ``{"query_id": "q1", "model_a": "x", "model_b": "y",
    "verdict": "a"}``.

    Args:
        folder: Folder with one subfolder per language.
        language: Language code.
        **options: Keyword arguments of :meth:`Arena.of`.

    Raises:
        DatasetError: If a line is invalid; the message names the file, the line and the problem.
        JudgmentError: If no logits can be fitted to the judgments.
    """
    language_folder = Path(folder) / language
    by_model: dict[str, dict[str, dict[str, float]]] = {}
    for where, row in read_rows(language_folder / "features.jsonl"):
        query_id, model, values = _features(row, where)
        # setdefault returns an earlier object if the query was read before.
        if by_model.setdefault(model, {}).setdefault(query_id, values) is not values:
            raise DatasetError(
                f"{where}: query {query_id!r} of model {model!r} occurs a second time"
            )
    names = tuple(
        dict.fromkeys(
            name for rows in by_model.values() for values in rows.values() for name in values
        )
    )
    tables = []
    for model, rows in by_model.items():
        matrix = [[values.get(name, np.nan) for name in names] for values in rows.values()]
        tables.append(FeatureTable(model, language, tuple(rows), names, np.array(matrix)))
    judgments = Judgments.from_records(
        validated(Judgment, row, where)
        for where, row in read_rows(language_folder / "judgments.jsonl")
    )
    return Arena.of(tables, judgments, **options)


def read_hub_arena(language: str, path: str | Path | None = None, **options: Any) -> Arena:
    """Read the arena of MIRAGE-Bench: its published feature values and GPT-4o's judgments.

    As in the paper (arXiv 2410.13716), missing feature values count as 0, and ties are left out. If
    a query has several verdicts on the same two models in the same order, only the last one counts.

    Args:
        language: ISO 639-1 code of one of the benchmark's 18 languages.
        path: Folder with copies of the benchmark's datasets, to read instead of
            downloading them from the hub.
        **options: Keyword arguments of :meth:`Arena.of`.

    Raises:
        DatasetError: If the hub cannot be reached, or if a file is damaged.
        MissingPackageError: If the extra ``hub`` is not installed.
        JudgmentError: If no logits can be fitted to the judgments.
    """
    benchmark = official.load(language, path=path, as_in_paper=True)
    judgments = Judgments.from_records(benchmark.judgments)
    tables = [benchmark.counted[model] for model in judgments.models]
    return Arena.of(tables, judgments, **options)


def _features(row: Mapping[str, Any], where: str) -> tuple[str, str, dict[str, float]]:
    """Return the query id, the model and the features in a row of ``features.jsonl``."""
    for name in ("query_id", "model"):
        if not isinstance(row.get(name), str):
            raise DatasetError(f"{where}: {name!r} must be a string")
    values = row.get("features")
    # True and False are instances of int, but not numbers of a feature.
    if not isinstance(values, dict) or not all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in values.values()
    ):
        raise DatasetError(
            f"{where}: 'features' must be an object whose values are numbers or null"
        )
    try:
        numbers = {
            name: np.nan if value is None else float(value) for name, value in values.items()
        }
    except OverflowError:
        raise DatasetError(
            f"{where}: 'features' has a number that is too large for a float"
        ) from None
    return row["query_id"], row["model"], numbers
