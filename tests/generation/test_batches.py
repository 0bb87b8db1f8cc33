"""Runs in batches: a batch that fails is split in halves, down to single queries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples

from mirage.dataset import MirageDataset
from mirage.errors import GenerationError
from mirage.generation.base import answered, run_in_batches
from mirage.models import Query, Response, Run

QUERIES = MirageDataset(
    (Query(id=f"q{i:02d}", language="en", text="?") for i in range(20)), name="twenty"
)


class Machine:
    """A machine that fails on batches above a size, and on some queries."""

    def __init__(self, room: int, broken: Sequence[str] = ()) -> None:
        self.room, self.broken = room, broken
        self.sizes: list[int] = []

    def __call__(self, queries: Sequence[Query]) -> list[Response]:
        self.sizes.append(len(queries))
        if len(queries) > self.room:
            raise MemoryError("out of memory")
        for query in queries:
            if query.id in self.broken:
                raise ValueError(query.id)
        return [answered(query, query.id, ()) for query in queries]

    def run(self, batch_size: int) -> Run:
        return run_in_batches("m", QUERIES, self, batch_size, None, False)


def test_batches_have_the_requested_size() -> None:
    machine = Machine(room=8)
    assert [r.text for r in machine.run(8)] == list(QUERIES.query_ids)
    assert machine.sizes == [8, 8, 4]


def test_a_size_that_is_too_large_is_not_tried_again() -> None:
    machine = Machine(room=3)
    assert not machine.run(8).failed
    assert machine.sizes == [8, 4] + [2] * 10


def test_a_failing_query_does_not_shrink_later_batches() -> None:
    machine = Machine(room=8, broken=["q05"])
    assert [r.error for r in machine.run(8).failed] == ["ValueError: q05"]
    assert machine.sizes == [8, 4, 4, 2, 1, 1, 8, 6]


def test_every_query_fails_if_not_even_one_fits() -> None:
    with pytest.raises(GenerationError, match=r"all 20 .*'q00': MemoryError: out of memory"):
        Machine(room=0).run(8)


@settings(max_examples=examples(200), deadline=None)
@given(
    room=st.integers(1, 25),
    batch_size=st.integers(1, 25),
    broken=st.sets(st.sampled_from(QUERIES.query_ids), max_size=19),
)
def test_whatever_fails_all_others_are_answered(
    room: int, batch_size: int, broken: set[str]
) -> None:
    run = Machine(room, sorted(broken)).run(batch_size)
    assert {r.query_id for r in run.failed} == broken
    assert [r.query_id for r in run] == list(QUERIES.query_ids)
