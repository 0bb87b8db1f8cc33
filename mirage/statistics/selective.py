"""Which share of items can be decided by their scores with an error below a stated risk.

Rules, such as "positive from 0.8 on, negative up to 0.2, undecided between", are tried on labelled
items, and one is good where its error among what it decides is shown to be below the risk. The
tests hold together: that a rule called good is not is as improbable as was asked for (Learn then
Test: Angelopoulos, Bates, Candès, Jordan & Lei 2021, arXiv 2110.01052; for judges that abstain:
Jung, Brahman & Choi 2024, Trust or Escalate, arXiv 2407.18370).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats, Ints
from mirage.statistics.clusters import FEWEST_FOR_MEANS

__all__ = ["Errors", "errors_of", "fallback", "risk_p_value"]


class Errors(NamedTuple):
    """Errors of a rule, as if what it decides were independent.

    Attributes:
        wrong: effective number of errors.
        decided: effective number of decided items.
    """

    wrong: float
    decided: float


def errors_of(wrong: Bools, codes: Ints) -> Errors:
    """The effective errors among decided items that hang together in clusters.

    Their number is divided by the design effect, the variance of the error rate between clusters
    over that of independent items, where it is above 1, and by the squared ratio of Student's t
    (Korn & Graubard 1998, Confidence Intervals for Proportions with Small Expected Number of
    Positive Counts Estimated from Survey Data, Survey Methodology 24, 193-201). Where fewer than
    :data:`~mirage.statistics.clusters.FEWEST_FOR_MEANS` clusters have an error the effect is no
    less than if all that is in a cluster were alike. Without clusters nothing is divided.

    Args:
        wrong: whether each decided item is.
        codes: its cluster, counted from 0.
    """
    from scipy.special import stdtrit

    items = len(wrong)
    if not items:
        return Errors(0.0, 0.0)
    counts = np.bincount(codes)
    sizes, sums = counts[counts > 0], np.bincount(codes, wrong)[counts > 0]
    groups, rate = len(sizes), float(wrong.mean())
    alike = float((sizes**2).sum() / items)
    if items == groups:
        return Errors(float(wrong.sum()), float(items))
    if groups == 1:
        return Errors(rate, 1.0)
    effect = 1.0
    if 0 < rate < 1:
        between = groups / (groups - 1) * float(((sums - rate * sizes) ** 2).sum()) / items**2
        effect = max(effect, between * (items - 1) / (rate * (1 - rate)))
    if np.count_nonzero(sums) < FEWEST_FOR_MEANS:
        effect = max(effect, alike)
    few = float(stdtrit(items - 1, 0.95) / stdtrit(groups - 1, 0.95)) ** 2
    number = items / effect * few
    return Errors(rate * number, number)


def risk_p_value(errors: Errors | tuple[Errors, Errors], risk: float) -> float:
    """How well the errors of a rule go with an error above the risk.

    Of one kind it is that of Clopper & Pearson (1934, Biometrika 26, 404-413): ``(1 - risk) ** n``
    where ``n`` are decided and all right. Of two, the decided items of either label, the risk is
    of the mean of the two error rates, and the p-value is the share in which the mean of draws
    from the two distributions behind Clopper and Pearson's upper bounds reaches it.

    Args:
        errors: of all that is decided, or of that with either label.
        risk: above 0 and below 1.

    Returns:
        The p-value, 1 where nothing is decided of a kind.
    """
    from scipy.special import betainc, betaincinv

    kinds = (errors,) if isinstance(errors, Errors) else errors
    if any(kind.decided <= kind.wrong for kind in kinds):
        return 1.0
    ends = [(kind.wrong + 1, kind.decided - kind.wrong) for kind in kinds]
    if len(ends) == 1:
        return float(1 - betainc(*ends[0], risk))
    middles = (np.arange(200) + 0.5) / 200
    other = np.clip(2 * risk - betaincinv(*ends[0], middles), 0, 1)
    return float(1 - betainc(*ends[1], other).mean())


def fallback(p_values: Floats, levels: Floats) -> Bools:
    """Which hypotheses of a sequence are rejected; one wrongly as rarely as the levels' sum.

    A hypothesis is tested at its own level and, where the one before was rejected, at that one's
    too (Wiens 2003, A Fixed Sequence Bonferroni Procedure for Testing Multiple Endpoints,
    Pharmaceutical Statistics 2, 211-215). One level above 0, the first, is fixed-sequence testing.

    Args:
        p_values: in the order of the sequence.
        levels: of each by itself.
    """
    rejected, carried = np.zeros(len(p_values), dtype=bool), 0.0
    for place, (p_value, level) in enumerate(zip(p_values, levels, strict=True)):
        carried += level
        rejected[place] = p_value <= carried
        carried = carried if rejected[place] else 0.0
    return rejected
