"""Simulated verdicts agree with the logits that are called true."""

from __future__ import annotations

import numpy as np
import pytest

from mirage import BradleyTerry
from mirage.arena.studies import draw_scores, judgments_of, true_logits


@pytest.mark.parametrize("ties", [0.0, 0.3])
def test_the_true_logits_are_those_of_many_queries(ties: float) -> None:
    logits, spread = np.array([0.9, 0.0, -0.9]), 1.5
    rng = np.random.default_rng(0)
    strengths = logits + rng.normal(0, spread, (40_000, 3))
    scores = draw_scores(strengths, ties, rng)
    assert (scores == 0.5).mean() == pytest.approx(ties, abs=0.01)
    fit = BradleyTerry(ridge=0.0).fit(judgments_of(scores, ["a", "b", "c"]))
    truth = true_logits(logits, spread, ties)
    assert fit.logits == pytest.approx(truth, abs=0.03)
    assert 0.3 < truth[0] < 0.7  # models that differ by query are closer together


def test_without_spread_and_ties_the_true_logits_are_those_of_one_query() -> None:
    logits = np.array([1.0, 0.2, -1.2])
    assert true_logits(logits, 0.0, 0.0) == pytest.approx(logits, abs=1e-6)


def test_judgments_have_every_pair_on_every_query() -> None:
    table = judgments_of(np.array([[1.0, 0.5, 0.0]]), ["a", "b", "c"], ["query"])
    records = [(r.query_id, r.model_a, r.model_b, r.verdict) for r in table.to_records()]
    assert records == [
        ("query", "a", "b", "a"),
        ("query", "a", "c", "tie"),
        ("query", "b", "c", "b"),
    ]
