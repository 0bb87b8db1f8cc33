"""Default features for leaderboards whose anchors are real systems."""

from __future__ import annotations

from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite

TASTES = ("reference_recall", "answer_char3", "answer_length")
"""Features that influence real judges in addition to quality, such as the length of an answer.

The simulated judge of the bundled boards ignores them.
"""


def offline_suite(dataset: MirageDataset) -> FeatureSuite:
    """Return a suite of features that need no neural model, including wording and length.

    Features that cannot be computed on the dataset are left out.
    """
    suite = FeatureSuite.default(dataset.language)
    for name in TASTES:
        suite += name
    return suite.applicable(dataset)
