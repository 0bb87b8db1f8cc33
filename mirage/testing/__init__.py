"""Assertions about models for test suites, and the pytest plugin of this package.

pytest loads the plugin in every run if the package is installed. So this module and
:mod:`mirage.testing.plugin` import only the standard library and pytest. The assertions are
imported when they are first used; they work without pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.testing._shortfalls import FellShortError
    from mirage.testing.baseline import Baseline, read_baseline, save_baseline
    from mirage.testing.drifts import Drift, Shift, drift
    from mirage.testing.feature_bounds import assert_feature
    from mirage.testing.history import Commit, History
    from mirage.testing.mutation import (
        Bound,
        Fate,
        Mutant,
        Mutants,
        MutationScore,
        mutants,
        mutation_score,
        suggested_bounds,
    )
    from mirage.testing.planning import Chances, Design, More, Plan, plan, what_would_tell
    from mirage.testing.ranks import assert_ranks
    from mirage.testing.regressions import assert_no_regression
    from mirage.testing.series import Moved, Series, Step, moved
    from mirage.testing.suites import score_tests, write_tests

__all__ = [
    "Baseline",
    "Bound",
    "Chances",
    "Commit",
    "Design",
    "Drift",
    "Fate",
    "FellShortError",
    "History",
    "More",
    "Moved",
    "Mutant",
    "Mutants",
    "MutationScore",
    "Plan",
    "Series",
    "Shift",
    "Step",
    "assert_feature",
    "assert_no_regression",
    "assert_ranks",
    "drift",
    "moved",
    "mutants",
    "mutation_score",
    "plan",
    "read_baseline",
    "save_baseline",
    "score_tests",
    "suggested_bounds",
    "what_would_tell",
    "write_tests",
]

__getattr__, __dir__ = lazy(__name__, __file__)
