"""Default features of a leaderboard of real systems."""

from __future__ import annotations

from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite

TASTES = ("reference_recall", "answer_char3", "answer_length")
"""Features that influence judges beside quality; the bundled boards were judged without them."""


def offline_suite(dataset: MirageDataset) -> FeatureSuite:
    """Return a suite of the features that need no neural model, including wording and length.

    Features that cannot be computed on this dataset are left out.
    """
    suite = FeatureSuite.default(dataset.language)
    for name in TASTES:
        suite += name
    return suite.applicable(dataset)
