"""Profiles of hypothesis: the same few examples in every run, or many and others each time."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fast")
_SHARE = 8 if PROFILE == "fast" else 1


def examples(number: int) -> int:
    """Return how many of a test's examples to draw: an eighth in the profile that is used daily."""
    return number // _SHARE


def load() -> None:
    """Load the profile that the environment names."""
    # A busy machine is slow, which is no error.
    settings.register_profile(
        "fast",
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile(PROFILE)
