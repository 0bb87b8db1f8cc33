"""Bounds on features: the interval of the mean gives one of three verdicts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from subsets import slow_except

from mirage import MirageDataset, Query, Response
from mirage.errors import SettingError
from mirage.features import Facts
from mirage.statistics.bounds import mean_bounds
from mirage.testing import FellShortError, assert_feature
from mirage.testing.feature_bounds import compare_with_bounds


class Score:
    """A feature whose value is the response."""

    name = "score"
    facts = Facts("higher", 0, 1)

    def __call__(self, _: Query, response: Response) -> float:
        return float(response.text or "nan")


def unbounded(_: Query, response: Response) -> float:
    return float(response.text or "nan")


def arguments_for(*values: float, cluster: int = 1) -> dict[str, Any]:
    """Return arguments of ``assert_feature`` with responses that have these values."""
    queries = [
        Query(id=f"q{i}", language="en", text=f"What is {i}?", cluster=f"c{i // cluster}")
        for i in range(len(values))
    ]
    texts = {f"q{i}": str(value) for i, value in enumerate(values)}
    return {"system": texts, "on": MirageDataset(queries, name="mine"), "inconclusive": "pass"}


def verdict(*values: float, feature: Any = None, cluster: int = 1, **bounds: float) -> str:
    arguments = arguments_for(*values, cluster=cluster)
    try:
        return assert_feature(feature=feature or Score(), **arguments, **bounds).verdict
    except FellShortError:
        return "broken"


def test_the_verdict_depends_on_the_interval_not_the_mean() -> None:
    assert verdict(*[1.0] * 5, ge=0.8) == "inconclusive"
    assert verdict(*[1.0] * 13, ge=0.8) == "inconclusive"
    assert verdict(*[1.0] * 14, ge=0.8) == "holds"
    assert verdict(*[0.0] * 5, ge=0.8) == "broken"
    assert verdict(0.0, *[1.0] * 4, ge=0.9) == "inconclusive"
    assert verdict(*[0.0] * 10, *[1.0] * 30, ge=0.8) == "inconclusive"
    assert verdict(*[0.0] * 15, *[1.0] * 25, ge=0.8) == "broken"
    assert verdict(*[0.0] * 5, le=0.2) == "inconclusive"
    assert verdict(*[0.0] * 14, le=0.2) == "holds"
    assert verdict(*[1.0] * 5, le=0.2) == "broken"


def test_equal_values_at_the_end_of_the_range_have_an_interval_with_a_width() -> None:
    low, high = assert_feature(feature=Score(), **arguments_for(*[1.0] * 5), ge=0.5).interval
    assert (low, high) == (pytest.approx(0.05 ** (1 / 5), abs=0.01), 1.0)
    low, high = assert_feature(feature=Score(), **arguments_for(*[0.0] * 5), le=0.5).interval
    assert (low, high) == (0.0, pytest.approx(1 - 0.05 ** (1 / 5), abs=0.01))
    assert assert_feature(feature=Score(), **arguments_for(*[1.0] * 20), ge=0.5).interval == (
        pytest.approx(0.05 ** (1 / 20), abs=0.005),
        1.0,
    )


def test_bounds_at_the_end_of_the_range() -> None:
    assert verdict(*[1.0] * 5, le=1, ge=0) == "holds"
    assert verdict(*[1.0] * 50, ge=1) == "inconclusive"


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ({"ge": -5}, "Score >= -5: the range of Score is 0 to 1$"),
        ({"le": 50}, r"Score <= 50: the range of Score is 0 to 1; did you mean 0\.5\?"),
        ({"ge": 1.01}, "the range of Score is 0 to 1$"),
    ],
)
def test_a_bound_outside_the_range_is_an_error(bound: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        verdict(*[1.0] * 50, **bound)


def test_a_cluster_counts_once() -> None:
    values = [1.0] * 40
    assert verdict(*values, ge=0.8) == "holds"
    assert verdict(*values, ge=0.8, cluster=10) == "inconclusive"
    arguments = arguments_for(*values)
    together = assert_feature(feature=Score(), **arguments, ge=0.8, cluster=lambda _: "one")
    assert (together.clusters, together.queries, together.verdict) == (1, 40, "inconclusive")


def test_a_feature_without_a_range_needs_ten_clusters_that_differ() -> None:
    spread = [0.9 + 0.01 * i for i in range(10)]
    assert verdict(*spread, feature=unbounded, ge=0.5) == "holds"
    assert verdict(*spread, feature=unbounded, ge=1.5) == "broken"
    assert verdict(*spread[:9], feature=unbounded, ge=0.5) == "inconclusive"
    arguments = arguments_for(*[0.9] * 20) | {"inconclusive": "fail"}
    with pytest.raises(FellShortError, match=r"declare the range of unbounded \(mirage"):
        assert_feature(feature=unbounded, **arguments, ge=0.5)


def test_the_recommended_number_of_queries_gives_a_verdict() -> None:
    arguments = arguments_for(*[1.0] * 5) | {"inconclusive": "fail"}
    with pytest.raises(FellShortError) as caught:
        assert_feature(feature=Score(), **arguments, ge=0.8, model="bot")
    message = str(caught.value)
    assert message.startswith("cannot tell whether Score of bot is >= 0.8: its mean is 1.000 on 5 ")
    assert "with a 90 % interval of [0.5" in message
    assert message.endswith("a verdict needs about 15 queries with the same mean")
    assert verdict(*[1.0] * 15, ge=0.8) == "holds"
    with pytest.raises(FellShortError, match="the mean is at the bound"):
        assert_feature(feature=Score(), **arguments, ge=1)


def test_the_recommended_number_of_queries_counts_clusters() -> None:
    # The second cluster has no value, because the feature is not computed on its queries.
    values = [1.0] * 3 + [math.nan] * 3 + [1.0] * 12
    arguments = arguments_for(*values, cluster=3) | {"inconclusive": "fail"}
    with pytest.raises(FellShortError) as caught:
        assert_feature(feature=Score(), **arguments, ge=0.6)
    message = str(caught.value)
    assert message.endswith("a verdict needs about 30 queries in 10 clusters with the same mean")
    assert verdict(*[1.0] * 30, ge=0.6, cluster=3) == "holds"


def test_two_sides_share_alpha() -> None:
    arguments = arguments_for(*[0.0, 1.0] * 20)
    lower = assert_feature(feature=Score(), **arguments, ge=0.3)
    both = assert_feature(feature=Score(), **arguments, ge=0.3, le=0.7)
    assert (lower.level, both.level) == (0.9, 0.95)
    assert both.interval[0] < lower.interval[0] < lower.interval[1] < both.interval[1]
    with pytest.raises(SettingError, match=r"alpha must be above 0 and below 0\.5, got 0\.5"):
        assert_feature(feature=Score(), **arguments, ge=0.3, alpha=0.5)


def test_an_unknown_end_of_an_interval_is_inconclusive() -> None:
    assert compare_with_bounds({"ge": 0.5}, (math.nan, math.nan)) == "inconclusive"
    assert compare_with_bounds({"ge": 0.5}, (math.nan, 0.4)) == "broken"


@pytest.mark.parametrize("queries", slow_except([20], [5, 20, 100]))
@pytest.mark.parametrize("cluster", [1, 4])
def test_a_verdict_is_wrong_no_more_often_than_alpha(queries: int, cluster: int) -> None:
    repeats, rate, ends = 400, 0.8, (np.zeros(1), np.ones(1))
    rng = np.random.default_rng([queries, cluster])
    codes = np.arange(queries) // cluster
    shared = rng.random((repeats, codes.max() + 1)) < rate
    values = shared[:, codes].T.astype(float)  # alike within a cluster
    columns = np.tile(ends[0], repeats), np.tile(ends[1], repeats)
    low, high = mean_bounds(values, codes, *columns).T
    # 0.05, and three standard errors of the share that is counted.
    assert np.mean(high < rate) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)
    assert np.mean(low > rate) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)
