"""Runs that the tests of one session share, so that each model is asked only once."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mirage._base.stores import locked
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.generation import respond
from mirage.generation.responses import ModelLike
from mirage.models import Run
from mirage.testing._inputs import Place, dataset_of, fingerprint, standing_in
from mirage.testing._shortfalls import raise_at_caller

if TYPE_CHECKING:
    import pytest


class Runs:
    """The value of the fixture ``mirage_run``: a callable that returns a model's run.

    A run (the responses of one model) is created when it is first needed, and cached until the test
    session ends. Under xdist the first worker that needs a run creates it and saves it to a file;
    the other workers wait and read this file.

    Args:
        shared: Folder that all workers of the session share; ``None`` if there is one process.
        cache: pytest's cache, which outlasts the session; ``None`` if it is switched off.
    """

    def __init__(self, shared: Path | None, cache: pytest.Cache | None) -> None:
        self._shared, self._cache = shared, cache
        self._runs: dict[tuple[str, str, int | None], tuple[ModelLike, Run]] = {}

    @raise_at_caller
    def __call__(
        self,
        system: ModelLike,
        model: str = "my-model",
        *,
        on: Place = None,
        repeats: int | None = None,
        resume: bool = False,
    ) -> Run:
        """Return the system's responses to the queries, from the cache if it has them.

        Args:
            system: The system, as for :func:`mirage.respond`.
            model: Name of the system; different systems need different names.
            on: The queries: a language code (for the bundled queries), a dataset or a leaderboard.
            repeats: Number of responses per query. The default is 1, or for recorded responses
                the number that was recorded.
            resume: Whether to store responses in pytest's cache as they arrive, and to reuse
                those that an earlier session stored under this name. They may come from an older
                version of the system; ``pytest --cache-clear`` deletes them.

        Raises:
            DatasetError: Another system already has this name, or ``resume`` is set although
                pytest's cache is switched off. :func:`mirage.respond` raises further errors.
        """
        dataset = dataset_of(on, system)
        key = (model, fingerprint(dataset), repeats)
        if key not in self._runs:
            self._runs[key] = (system, self._make_run(system, model, dataset, repeats, resume))
        first, run = self._runs[key]
        # Each access to a bound method creates a new object, so `is` alone would not do.
        if first is not system and first != system:
            raise DatasetError(
                f"two models have the name {model!r}, {first!r} and {system!r}: give each its own "
                "name, or create the model once for all tests"
            )
        return run

    def _make_run(
        self,
        system: ModelLike,
        model: str,
        dataset: MirageDataset,
        repeats: int | None,
        resume: bool,
    ) -> Run:
        replacement = standing_in(system)
        if replacement is not system:  # reading a file is cheap, so the run is not stored
            return respond(replacement, dataset, model, progress=False)
        file = _file_name(model, dataset, repeats)
        out = self._cache_path(file) if resume else None
        if self._shared is None:
            return respond(system, dataset, model, repeats=repeats, out=out, progress=False)
        path = self._shared / file
        with locked(path.with_suffix(".lock"), wait=True):
            if not path.exists():
                run = respond(system, dataset, model, repeats=repeats, out=out, progress=False)
                run.save(path)
            return Run.load(path, language=dataset.language, model=model)

    def _cache_path(self, file: str) -> Path:
        if self._cache is None:
            raise DatasetError(
                "resume=True needs pytest's cache, which is switched off: remove "
                "'-p no:cacheprovider' or resume=True"
            )
        return self._cache.mkdir("mirage") / file


def _file_name(name: str, dataset: MirageDataset, repeats: int | None) -> str:
    """Return a file name that is unique per model, dataset and number of repeats."""
    identity = f"{name}\n{fingerprint(dataset)}" + (f"\n{repeats}" if repeats else "")
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[:40]}-{digest}.jsonl"
