"""Baselines and later runs of the simulated arena, through the functions that users call."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mirage import FeatureSuite, MirageDataset, Run
from mirage.languages import LANGUAGES
from mirage.models import Response
from mirage.surrogate.simulation import System, simulate
from mirage.testing import FellShortError, assert_no_regression, save_baseline

COPIES = 3  # 120 queries: the bundled 40, each asked three times
CITED = FeatureSuite(["citation_recall@10", "citation_map@10"])
VARYING = System(
    "varying", dict.fromkeys(("truncated", "over-cited", "wrongly-cited", "padded"), 1 / 7)
)
CORPORA = {code: MirageDataset.bundled(code) for code in LANGUAGES}


def copy_id(id_: str, copy: int) -> str:
    return f"{id_}.{copy}"


DATASET = MirageDataset(
    (
        query.model_copy(update={"id": copy_id(query.id, copy)})
        for copy in range(COPIES)
        for query in CORPORA["sw"]
    ),
    name="simulated",
)


def generate(seed: int) -> Run:
    """Return the system's answers to the 120 queries; the faults depend on the seed."""
    responses = []
    for copy in range(COPIES):
        (run,), _ = simulate(CORPORA, "sw", [VARYING], seed=seed * COPIES + copy)
        responses += [
            Response(query_id=copy_id(item.query_id, copy), text=item.text) for item in run
        ]
    return Run(model="varying", language="sw", responses=tuple(responses))


def uncited(run: Run, seed: int) -> Run:
    """Return the run with the citations removed from one in ten responses."""
    rng = np.random.default_rng(seed)
    responses = tuple(
        Response(
            query_id=item.query_id,
            text=re.sub(r"\s?\[[^\]]+\]", "", item.text or "") if rng.random() < 0.1 else item.text,
        )
        for item in run
    )
    return Run(model=run.model, language="sw", responses=responses)


def is_called_worse(before: Run, after: Run, path: Path) -> bool:
    save_baseline(before, path, on=DATASET, suite=CITED)
    try:
        assert_no_regression(after, path, on=DATASET)
    except FellShortError:
        return True
    return False


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [generate(seed) for seed in range(20)]


@pytest.mark.slow
def test_a_loss_of_ten_percent_of_citations_is_detected(runs: list[Run], tmp_path: Path) -> None:
    detections = [
        is_called_worse(run, uncited(run, seed), tmp_path / "b.json")
        for seed, run in enumerate(runs)
    ]
    assert sum(detections) >= 0.8 * len(runs)


@pytest.mark.slow
def test_the_same_system_raises_no_alarm(runs: list[Run], tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert not any(is_called_worse(run, run, path) for run in runs[:3])
    alarms = [is_called_worse(a, b, path) for a, b in pairwise(runs)]
    assert sum(alarms) <= 2
