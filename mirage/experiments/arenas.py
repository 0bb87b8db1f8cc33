"""What the experiments are made on: the arena of one language, in memory or in files."""

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

__all__ = ["Arena", "read_arena", "read_hub_arena"]


@dataclass(frozen=True, eq=False)
class Arena:
    """What one language has: features of models, judgments on them, and tournaments of these.

    Attributes:
        tables: a table for every model of the judgments, all with the same features.
        judgments: on pairs of these models.
        tournaments: logits of the models in many tournaments.
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
        """The arena of these tables and judgments, with ``tournaments`` of so many queries at most.

        Never are more drawn than were judged (:meth:`mirage.BradleyTerry.bootstrap`).

        Raises:
            JudgmentError: as :meth:`mirage.arena.BradleyTerry.bootstrap`.
        """
        drawn = BradleyTerry().bootstrap(
            judgments, tournaments=tournaments, queries=queries, seed=seed, progress=False
        )
        return cls(tuple(tables), judgments, drawn)

    def with_features(self, features: Sequence[str]) -> Arena:
        """The same arena with some of the features only."""
        return replace(self, tables=tuple(table.columns(features) for table in self.tables))


def read_arena(folder: str | Path, language: str, **options: Any) -> Arena:
    """Read ``folder/{language}/features.jsonl`` and ``folder/{language}/judgments.jsonl``.

    A line of the first holds one response's features, null where one could not be computed:
    ``{"query_id": "q1", "model": "x", "features": {"answer_bleu": 0.3, ...}}``. A line of the
    second is a judgment: ``{"query_id": "q1", "model_a": "x", "model_b": "y", "verdict": "a"}``.
    ``options`` are those of :meth:`Arena.of`.

    Raises:
        DatasetError: names the file, the line and what is wrong with it.
        JudgmentError: the judgments give no logits.
    """
    here = Path(folder) / language
    by_model: dict[str, dict[str, dict[str, float]]] = {}
    for where, row in read_rows(here / "features.jsonl"):
        query_id, model, values = _features(row, where)
        if by_model.setdefault(model, {}).setdefault(query_id, values) is not values:
            raise DatasetError(f"{where}: model {model!r} has query {query_id!r} a second time")
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
        validated(Judgment, row, where) for where, row in read_rows(here / "judgments.jsonl")
    )
    return Arena.of(tables, judgments, **options)


def read_hub_arena(language: str, path: str | Path | None = None, **options: Any) -> Arena:
    """Read the arena of MIRAGE-Bench: its published feature values and GPT-4o's judgments.

    Values and judgments are counted as the paper counts them: a feature without a value is 0, ties
    are left out, and the last of several verdicts on a pair counts.

    Args:
        language: ISO 639-1 code of one of the benchmark's 18 languages.
        path: Folder with copies of the benchmark's datasets, read instead of the hub.
        **options: Options of :meth:`Arena.of`.

    Raises:
        DatasetError: If the hub cannot be reached or a file is damaged.
        MissingPackageError: If the extra ``hub`` is not installed.
        JudgmentError: If the judgments give no logits.
    """
    benchmark = official.load(language, path=path, as_in_paper=True)
    judgments = Judgments.from_records(benchmark.judgments)
    tables = [benchmark.counted[model] for model in judgments.models]
    return Arena.of(tables, judgments, **options)


def _features(row: Mapping[str, Any], where: str) -> tuple[str, str, dict[str, float]]:
    """Query id, model and features of one line."""
    for name in ("query_id", "model"):
        if not isinstance(row.get(name), str):
            raise DatasetError(f"{where}: {name!r} has to be a text")
    values = row.get("features")
    if not isinstance(values, dict) or not all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in values.values()
    ):
        raise DatasetError(f"{where}: 'features' has to be an object of numbers and nulls")
    try:
        numbers = {
            name: np.nan if value is None else float(value) for name, value in values.items()
        }
    except OverflowError:
        raise DatasetError(f"{where}: 'features' holds a number beyond all others") from None
    return row["query_id"], row["model"], numbers
