"""What an assertion is about: a model's run on some queries."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.generation import ModelLike, respond
from mirage.languages import Language
from mirage.leaderboard import Leaderboard
from mirage.models import Run
from mirage.testing._current_test import default_language

__all__ = [
    "STAND_IN",
    "Place",
    "dataset_of",
    "fingerprint",
    "leaderboard",
    "run_of",
    "standing_in",
]

STAND_IN = "MIRAGE_RESPONSES"
"""The environment variable that names responses to read in place of whatever system is tested."""

Place = str | MirageDataset | Leaderboard | None
"""Which queries: a language code for the bundled ones, a dataset, or that of a leaderboard.

``None``: the bundled ones of a run's own language; else those of the running test's marker
``mirage_language`` or of the ini option.
"""


def leaderboard(language: str | None = None) -> Leaderboard:
    """The bundled leaderboard of a language, loaded once a process.

    Raises:
        DatasetError: no language is given, and nothing else says which.
        UnknownNameError: there is no such language.
    """
    return _bundled(Language.of(language or _default()).code)


@cache
def _bundled(code: str) -> Leaderboard:
    return Leaderboard.bundled(code)


def dataset_of(on: Place, model: object) -> MirageDataset:
    """The queries that a model is asked."""
    if on is None:
        on = model.language if isinstance(model, Run) else _default()
    if isinstance(on, MirageDataset):
        return on
    if isinstance(on, Leaderboard):
        return on.dataset
    if isinstance(on, str):
        return MirageDataset.bundled(on)
    raise DatasetError(
        f"on={on!r} has no queries: give a language code such as 'sw', a MirageDataset or a "
        "Leaderboard"
    )


def _default() -> str:
    code = default_language()
    if code is None:
        raise DatasetError(
            "nothing says which queries the model is to answer: give on='sw' for the bundled ones "
            "in Swahili, on=dataset or on=leaderboard; in pytest, set mirage_language = sw among "
            "its options or mark the test with @pytest.mark.mirage_language('sw')"
        )
    return code


def run_of(system: ModelLike, dataset: MirageDataset, model: str | None) -> Run:
    """The system's run; a :class:`~mirage.Run` keeps its own name unless one is given."""
    return respond(standing_in(system), dataset, model, progress=False)


def standing_in(system: ModelLike) -> ModelLike:
    """The system, or the file of responses that ``MIRAGE_RESPONSES`` names in its place."""
    responses = os.environ.get(STAND_IN)
    return Path(responses) if responses else system


def fingerprint(dataset: MirageDataset) -> str:
    """SHA-256 of what the queries hold, but for their order, clusters and the user's metadata."""
    digest = hashlib.sha256()
    for query in sorted(dataset, key=lambda query: query.id):
        text = query.model_dump_json(exclude={"cluster", "metadata"}, exclude_defaults=True)
        digest.update(text.encode())
    return digest.hexdigest()
