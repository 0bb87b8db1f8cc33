"""Runs that the tests of one session share, so that each model is asked only once."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mirage._base.files import write_text
from mirage._base.stores import locked
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.generation import respond
from mirage.generation.responses import ModelLike
from mirage.models import Run
from mirage.testing._current_test import record
from mirage.testing._inputs import Place, dataset_of, fingerprint, standing_in
from mirage.testing._shortfalls import raise_at_caller

if TYPE_CHECKING:
    import pytest


class Runs:
    """The value of the fixture ``mirage_run``: a callable that returns a model's run.

    A run (the responses of one model) is created when it is first needed, and cached until the test
    session ends. Under xdist the first worker that needs a run creates it and saves it to a file;
    the other workers wait and read this file. A second file names the function or class of the
    system, because another worker must not read it for another system.

    Args:
        shared: Folder that all workers of the session share; ``None`` if there is one process.
        cache: pytest's cache, which outlasts the session; ``None`` if it is switched off.
    """

    def __init__(self, shared: Path | None, cache: pytest.Cache | None) -> None:
        self._shared, self._cache = shared, cache
        self._stored: list[Path] = []
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
            model: Name of the system; different systems need different names. Between processes of
                xdist, two systems with the same name are an error only if they differ in their
                function, class or arguments of ``functools.partial``, so name objects of one class.
            on: The queries: a language code (for the bundled queries), a dataset or a leaderboard.
            repeats: Number of responses per query. The default is 1, or for recorded responses
                the number that was recorded.
            resume: Whether to store responses in pytest's cache as they arrive, and to reuse
                those that an interrupted session stored under this name. pytest's summary shows
                their number, because they may come from an older version of the system. They are
                deleted when a session ends without an interruption, or by ``pytest --cache-clear``.

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
            raise _name_error(model, repr(first), repr(system))
        return run

    def delete_stored(self) -> None:
        """Delete the responses that this process stored in pytest's cache, so none is reused."""
        for path in self._stored:
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink(missing_ok=True)

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
        if self._shared is None or isinstance(system, Run | Mapping | str | os.PathLike):
            return self._ask(system, model, dataset, repeats, out)
        path = self._shared / file
        origin = path.with_suffix(".origin")
        with locked(path.with_suffix(".lock"), wait=True):
            if not path.exists():
                run = self._ask(system, model, dataset, repeats, out)
                write_text(origin, _origin(system))
                run.save(path)
            first = origin.read_text(encoding="utf-8")
            if first != _origin(system):
                raise _name_error(model, first, _origin(system))
            return Run.load(path, language=dataset.language, model=model)

    def _ask(
        self,
        system: ModelLike,
        model: str,
        dataset: MirageDataset,
        repeats: int | None,
        out: Path | None,
    ) -> Run:
        """Ask the system for the responses that are not stored in ``out``."""
        stored = 0
        if out is not None:
            self._stored.append(out)
            files = [*out.parent.glob(f"{out.name}.repeat-*")] or [out]
            stored = sum(len(file.read_bytes().splitlines()) for file in files if file.exists())
        run = respond(system, dataset, model, repeats=repeats, out=out, progress=False)
        if stored:
            answers = len(run.responses)
            record("mirage.resumed", {"model": model, "stored": stored, "answers": answers})
        return run

    def _cache_path(self, file: str) -> Path:
        if self._cache is None:
            raise DatasetError(
                "resume=True needs pytest's cache, which is switched off: remove "
                "'-p no:cacheprovider' or resume=True"
            )
        return self._cache.mkdir("mirage") / file


def _name_error(name: str, first: str, second: str) -> DatasetError:
    return DatasetError(
        f"two models have the name {name!r}, {first} and {second}: give each its own name, or "
        "create the model once for all tests"
    )


def _origin(system: object) -> str:
    """Return the function or class of a system, in words that are equal in all processes."""
    if isinstance(system, partial):
        arguments = re.sub(r" at 0x[0-9a-fA-F]+", "", repr((system.args, system.keywords)))
        return f"{_origin(system.func)} with {arguments}"
    owner = system if hasattr(system, "__qualname__") else type(system)
    line = getattr(getattr(owner, "__code__", None), "co_firstlineno", "")
    return f"{owner.__module__}.{owner.__qualname__}" + (f" in line {line}" if line else "")


def _file_name(name: str, dataset: MirageDataset, repeats: int | None) -> str:
    """Return a file name that is unique per model, dataset and number of repeats."""
    identity = f"{name}\n{fingerprint(dataset)}" + (f"\n{repeats}" if repeats else "")
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[:40]}-{digest}.jsonl"
