"""Assertions about RAG systems for use in tests, and the pytest plugin of this package.

If the package is installed, pytest loads the plugin in every run. To load quickly, this module and
:mod:`mirage.testing.plugin` import only the standard library, pytest and a few small modules of
this package. The assertions are imported when they are first used; they work without pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.testing._shortfalls import FellShortError
    from mirage.testing.baseline import read_baseline, save_baseline
    from mirage.testing.feature_bounds import assert_feature
    from mirage.testing.mutation import mutation_score
    from mirage.testing.planning import plan
    from mirage.testing.ranks import assert_ranks
    from mirage.testing.regressions import assert_no_regression
    from mirage.testing.score_audit import audit_scores
    from mirage.testing.score_comparison import compare_scores
    from mirage.testing.suites import write_tests

__all__ = [
    "FellShortError",
    "assert_feature",
    "assert_no_regression",
    "assert_ranks",
    "audit_scores",
    "compare_scores",
    "mutation_score",
    "plan",
    "read_baseline",
    "save_baseline",
    "write_tests",
]

_NAMES = {
    "mirage.testing._shortfalls": ("FellShortError",),
    "mirage.testing.baseline": ("read_baseline", "save_baseline"),
    "mirage.testing.feature_bounds": ("assert_feature",),
    "mirage.testing.mutation": ("mutation_score",),
    "mirage.testing.planning": ("plan",),
    "mirage.testing.ranks": ("assert_ranks",),
    "mirage.testing.regressions": ("assert_no_regression",),
    "mirage.testing.score_audit": ("audit_scores",),
    "mirage.testing.score_comparison": ("compare_scores",),
    "mirage.testing.suites": ("write_tests",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
