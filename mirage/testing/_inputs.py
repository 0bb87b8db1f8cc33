"""The queries and the run that an assertion checks."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.generation import respond
from mirage.generation.responses import ModelLike
from mirage.languages import Language
from mirage.leaderboard import Leaderboard
from mirage.models import Run
from mirage.testing._current_test import default_language

STAND_IN = "MIRAGE_RESPONSES"
"""Name of the environment variable with the path of a file of responses.

If the variable is set, tests read this file instead of asking the system.
"""

Place = str | MirageDataset | Leaderboard | None
"""The queries: a language code (for the bundled queries), a dataset or a leaderboard.

``None`` selects the bundled queries of a language. If the model is a run, this is the language of
the run. Otherwise the marker ``mirage_language`` of the running test, or the ini option with this
name, sets the language.
"""


def leaderboard(language: str | None = None, *, level: str = "quick") -> Leaderboard:
    """Return a bundled leaderboard of a language, which each process loads once.

    Args:
        language: Language code; by default that of the running test's marker ``mirage_language``,
            or of the ini option with this name.
        level: ``"quick"`` or ``"hard"``, as for :meth:`mirage.Leaderboard.bundled`.

    Raises:
        DatasetError: No language is given, and neither the marker nor the ini option is set.
        UnknownNameError: There is no such language.
    """
    return _bundled(Language.of(language or _default()).code, level)


@cache
def _bundled(code: str, level: str) -> Leaderboard:
    return Leaderboard.bundled(code, level=level)


def dataset_of(on: Place, model: object) -> MirageDataset:
    """Return the queries that a model answers.

    Args:
        on: A dataset, a leaderboard, or the language code of bundled queries. ``None`` for the
            default language of bundled queries, see :data:`Place`.
        model: The model. If it is a run, its language is the default.

    Raises:
        DatasetError: ``on`` is none of the types of :data:`Place`, or it is ``None`` and there is
            no default, or the model is a run on other queries than the default.
    """
    if on is None and isinstance(model, Run):
        dataset = MirageDataset.bundled(model.language)
        if not {response.query_id for response in model.responses} <= {*dataset.query_ids}:
            raise DatasetError(
                f"the run {model.model!r} has responses to other queries than the bundled ones, "
                f"{dataset.name}; pass its queries with on=dataset"
            )
        return dataset
    if on is None:
        on = _default()
    if isinstance(on, MirageDataset):
        return on
    if isinstance(on, Leaderboard):
        return on.dataset
    if isinstance(on, str):
        if Path(on).suffix or os.sep in on:
            raise DatasetError(
                f"on={on!r} is a path; load the queries with on=MirageDataset.load({on!r})"
            )
        return MirageDataset.bundled(on)
    if isinstance(on, os.PathLike):
        raise DatasetError(
            f"on={os.fspath(on)!r} is a path; load the queries with "
            f"on=MirageDataset.load({os.fspath(on)!r})"
        )
    raise DatasetError(
        f"on= is of the type {type(on).__name__}: give a language code such as 'sw', a "
        "MirageDataset or a Leaderboard; MirageDataset.load(path) reads the queries of a file, and "
        "MirageDataset(queries) takes a list of them"
    )


def _default() -> str:
    code = default_language()
    if code is None:
        raise DatasetError(
            "no queries were specified; give on='sw' for the bundled queries in Swahili, "
            "on=dataset or on=leaderboard; in pytest, set the ini option mirage_language = sw or "
            "mark the test with @pytest.mark.mirage_language('sw')"
        )
    return code


def run_of(system: ModelLike, dataset: MirageDataset, model: str | None) -> Run:
    """Return the system's responses to the queries as a run.

    Args:
        system: The system, as for :func:`mirage.respond`. A path in the environment variable
            ``MIRAGE_RESPONSES`` replaces it.
        dataset: The queries.
        model: Name of the run; by default that of the system if it is a run or a generator,
            otherwise ``"my-model"``.
    """
    return respond(standing_in(system), dataset, model, progress=False)


def standing_in(system: ModelLike) -> ModelLike:
    """Return the path in the environment variable ``MIRAGE_RESPONSES``, if set, else the system."""
    responses = os.environ.get(STAND_IN)
    return Path(responses) if responses else system


def fingerprint(dataset: MirageDataset) -> str:
    """Return the SHA-256 digest of the queries, ignoring their order, clusters and metadata."""
    digest = hashlib.sha256()
    # Clusters and metadata change no feature, so a baseline stays valid when they are edited.
    for query in sorted(dataset, key=lambda query: query.id):
        text = query.model_dump_json(exclude={"cluster", "metadata"}, exclude_defaults=True)
        digest.update(text.encode())
    return digest.hexdigest()
