"""Runs that the tests of one session share, so that a model is asked once."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mirage._base.stores import locked
from mirage.dataset import MirageDataset, read_run, write_run
from mirage.errors import DatasetError
from mirage.generation import ModelLike, respond
from mirage.models import Run
from mirage.testing._inputs import Place, dataset_of, fingerprint, standing_in
from mirage.testing._shortfalls import from_here

if TYPE_CHECKING:
    import pytest

__all__ = ["Runs"]


class Runs:
    """Makes runs, and keeps them for the session; what the fixture ``mirage_run`` gives.

    Under xdist the first worker that wants a run makes it, and the others wait and read it.

    Args:
        shared: a folder that all workers of one session have in common; ``None`` for one process.
        cache: pytest's, which outlasts the session; ``None`` where it is switched off.
    """

    def __init__(self, shared: Path | None, cache: pytest.Cache | None) -> None:
        self._shared, self._cache = shared, cache
        self._known: dict[tuple[str, str, int | None], tuple[ModelLike, Run]] = {}

    @from_here
    def __call__(
        self,
        system: ModelLike,
        model: str = "my-model",
        *,
        on: Place = None,
        repeats: int | None = None,
        resume: bool = False,
    ) -> Run:
        """The system's run on these queries.

        Args:
            system: what :func:`mirage.respond` takes.
            model: its name; systems that differ need names that differ.
            on: the queries, as the assertions take them.
            repeats: how often each query is asked, as for :func:`mirage.respond`.
            resume: keep responses in pytest's cache as they come, and do not ask again for what an
                earlier session kept there under this name. That session may have had an older
                version of the model: clear them with ``pytest --cache-clear``.

        Raises:
            DatasetError: another model was asked under this name, or there is no cache to resume
                from; besides what :func:`mirage.respond` raises.
        """
        dataset = dataset_of(on, system)
        key = (model, fingerprint(dataset), repeats)
        if key not in self._known:
            self._known[key] = (system, self._made(system, model, dataset, repeats, resume))
        first, run = self._known[key]
        if first is not system and first != system:  # a bound method equals itself, and is it not
            raise DatasetError(
                f"two models were asked under the name {model!r}, {first!r} and {system!r}: give "
                "each a name of its own, or make the model once for all tests"
            )
        return run

    def _made(
        self,
        system: ModelLike,
        model: str,
        dataset: MirageDataset,
        repeats: int | None,
        resume: bool,
    ) -> Run:
        replacement = standing_in(system)
        if replacement is not system:  # nothing is asked, so nothing is to be kept
            return respond(replacement, dataset, model, progress=False)
        file = _file_name(model, dataset, repeats)
        out = self._cached(file) if resume else None
        if self._shared is None:
            return respond(system, dataset, model, repeats=repeats, out=out, progress=False)
        done = self._shared / file
        with locked(done.with_suffix(".lock"), wait=True):
            if not done.exists():
                run = respond(system, dataset, model, repeats=repeats, out=out, progress=False)
                write_run(run, done)
            return read_run(done, language=dataset.language, model=model)

    def _cached(self, file: str) -> Path:
        if self._cache is None:
            raise DatasetError(
                "resume=True keeps responses in pytest's cache, which is switched off here: drop "
                "'-p no:cacheprovider', or resume=True"
            )
        return self._cache.mkdir("mirage") / file


def _file_name(name: str, dataset: MirageDataset, repeats: int | None) -> str:
    """A name for the run's file, of its own for each model, dataset and number of repeats."""
    asked = f"{name}\n{fingerprint(dataset)}" + (f"\n{repeats}" if repeats else "")
    digest = hashlib.sha256(asked.encode()).hexdigest()[:16]
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[:40]}-{digest}.jsonl"
