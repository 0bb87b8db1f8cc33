"""A local Ray cluster of two workers, started once for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirage.executors import Executor, LocalExecutor, ray_executor
from mirage.executors.ray import RayExecutor


@pytest.fixture(scope="session")
def ray_of_two() -> Iterator[RayExecutor]:
    pytest.importorskip("ray", reason="needs the extra ray")
    with ray_executor("local", num_cpus=2, log_to_driver=False) as executor:
        yield executor


@pytest.fixture(params=["threads", pytest.param("ray", marks=pytest.mark.slow)])
def executor(request: pytest.FixtureRequest) -> Executor:
    """Return threads in fast tests, and a cluster, to which everything is pickled, in slow ones."""
    if request.param == "threads":
        return LocalExecutor(threads=2)
    ray_executor: Executor = request.getfixturevalue("ray_of_two")
    return ray_executor
