"""A significance test that counts flips.

A flip is an answer that turned from right to wrong, or from wrong to right. Any feature that checks
facts can show a flip.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Floats, Ints
from mirage.statistics.clusters import cluster_sums
from mirage.statistics.flips import FEWEST_UNITS, SHARED_LEVEL, flips_p_value
from mirage.testing._lost_facts import FACTS

_FLIPPED = 0.5
"""An answer has turned from right to wrong if it loses at least this share of a feature's range."""


def with_flips(
    p_values: Floats,
    gain_p_values: Floats,
    losses: Floats,
    codes: Ints,
    names: Sequence[str],
    changed: NDArray[np.bool_],
) -> Floats:
    """Combine a permutation test, a bootstrap and a test of flips into p-values of a loss.

    A loss in a feature is significant if the permutation test and the bootstrap are both
    significant (the larger of their p-values counts), or if the test of flips is significant.

    The permutation test is conservative if few answers flip. For example, if three answers turn
    from right to wrong and none turns from wrong to right, the p-value of this test is at least
    ``0.5 ** 3 / 2``, although three such flips are rare without a loss. Therefore the flips in all
    features that check facts are tested together. Their p-value is the larger of two: one assumes
    that flips in both directions are equally likely, the other that features misread reworded
    answers at their usual rate (:mod:`mirage.statistics.flips`).

    Args:
        p_values: P-values of the permutation test, one per feature.
        gain_p_values: Bootstrap p-values of the hypothesis that the mean did not drop, one per
            feature.
        losses: Loss of each query as a share of a feature's range, of shape ``(queries,
            features)``, without differences that another wording can explain. A loss is NaN or
            infinite if it is unknown; it then counts as 0.
        codes: Index of the cluster of each query.
        names: Names of the features.
        changed: Whether the answer to each query changed.

    Returns:
        One p-value per feature.
    """
    losses = np.where(np.isfinite(losses), losses, 0.0)
    columns = np.array([name in FACTS for name in names], dtype=bool)
    if int(codes.max(initial=-1)) + 1 < FEWEST_UNITS or not columns.any():
        return np.maximum(p_values, gain_p_values)
    lost = (losses[:, columns] >= _FLIPPED).any(axis=1)
    # Any gain counts as a flip the other way, such as an answer right in one more of three repeats.
    gained = (losses[:, columns] < 0).any(axis=1)
    flips = np.stack([lost, gained, changed], axis=1).astype(np.float64)
    lost_sums, gained_sums, reworded = cluster_sums(codes, flips).T
    net = lost_sums - gained_sums
    worse, better = int((net > 0).sum()), int((net < 0).sum())
    p = flips_p_value(len(net), worse, better, int((reworded > 0).sum()))
    flipped = columns & (losses >= _FLIPPED).any(axis=0)
    shared = np.maximum(np.minimum(p_values * SHARED_LEVEL, 1.0), gain_p_values)
    return np.where(flipped, np.minimum(shared, p), shared)
