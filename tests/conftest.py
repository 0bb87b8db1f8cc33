"""Shared fixtures."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

# Small arrays: threads of BLAS and OpenMP would wait for each other, and for those of xdist.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import profiles
import pytest
from llm_server import ChatServer

from mirage.dataset import MirageDataset

# Tests start hundreds of processes: without compiled files, each would compile the library anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The same examples in every run, an eighth of those that hypothesis would have;
# HYPOTHESIS_PROFILE=default looks further, for others each time.
profiles.load()


def share_bundled_datasets() -> None:
    """Read each bundled dataset only once, because hundreds of tests use them."""
    read = functools.cache(MirageDataset.bundled.__func__)  # type: ignore[attr-defined]

    @functools.wraps(MirageDataset.bundled.__func__)  # type: ignore[attr-defined]
    def bundled(cls: type[MirageDataset], language: str, *, level: str = "quick") -> MirageDataset:
        return read(cls, language, level=level)

    MirageDataset.bundled = classmethod(bundled)  # type: ignore[assignment, method-assign]


share_bundled_datasets()
gc.disable()  # until all modules are imported and all tests are made: they are no garbage


def pytest_collection_finish() -> None:
    """Exclude modules and tests, a million objects, from garbage collection."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of real data; skip the test if there is none."""
    folder = Path(os.environ.get("MIRAGE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set MIRAGE_DATA to run this test")
    return folder


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield names of new folders, which are not created, because few tests need them."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _private_cache(_caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep answers of test servers out of the user's cache, and the user's keys out of tests."""
    monkeypatch.setenv("MIRAGE_CACHE", str(next(_caches)))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture(scope="session", autouse=True)
def many_removals() -> int:
    """Lower the number of removals that printed rankings try, and return the usual number.

    The usual number takes half a second for each ranking of judged models; the tests of fragility
    itself set it again.
    """
    fragility: Any = import_module("mirage.arena.fragility")
    usual: int = fragility._TRIES
    fragility._TRIES = 1 << 16
    return usual


@pytest.fixture(autouse=True)
def few_simulations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the number of comparisons that a plan simulates, except in slow tests.

    Every inconclusive comparison of the gate prints a plan; the usual numbers take half a second.
    """
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("mirage.testing.planning._ROUGH", 50)
        monkeypatch.setattr("mirage.testing.planning._FINE", 200)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Start a chat-completions endpoint on loopback that answers ``ok`` by default."""
    with ChatServer() as server:
        yield server
