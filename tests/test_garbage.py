"""Python's search for cyclic garbage is paused and made rarer, and is as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mirage import Leaderboard
from mirage._base.garbage import no_collection, rare_collection


@pytest.fixture(autouse=True)
def _own_settings() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_a_pause_ends_after_an_error_too() -> None:
    with no_collection():
        with pytest.raises(ZeroDivisionError), no_collection():
            _ = 1 / 0
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), no_collection():
        _ = 1 / 0
    assert gc.isenabled()


def test_a_search_that_the_user_switched_off_stays_off() -> None:
    gc.disable()
    try:
        with no_collection(), rare_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.set_threshold(0)
    with rare_collection():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0


def test_rare_searches_end_with_the_last_of_several_uses() -> None:
    with rare_collection():
        with pytest.raises(ZeroDivisionError), rare_collection():
            _ = 1 / 0
        assert gc.get_threshold() == (50_000, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_a_ranking_leaves_the_thresholds_as_they_were() -> None:
    Leaderboard.bundled("en").rank(lambda _: "No.", model="no", progress=False)
    assert gc.get_threshold() == (700, 10, 10)
