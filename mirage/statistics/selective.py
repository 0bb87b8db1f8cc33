"""Selective classification: let a score decide only items on which its error rate is low.

Decision rules, such as "positive from 0.8 on, negative up to 0.2, undecided between", are checked
on labelled items. The risk is the error rate that the user accepts among the decided items. A rule
is accepted if a significance test shows that its error is below the risk. The tests of several
rules are corrected together, so that the probability of accepting any rule with a larger error is
at most the requested level (Learn then Test: Angelopoulos, Bates, Candès, Jordan & Lei 2021, arXiv
2110.01052; for judges that abstain: Jung, Brahman & Choi 2024, Trust or Escalate, arXiv
2407.18370).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats, Ints
from mirage.statistics.clusters import FEWEST_FOR_MEANS


class Errors(NamedTuple):
    """The errors of a decision rule, converted to effective numbers of independent items.

    Attributes:
        wrong: Effective number of errors.
        decided: Effective number of decided items.
    """

    wrong: float
    decided: float


def errors_of(wrong: Bools, codes: Ints) -> Errors:
    """Return the effective numbers of errors and of decided items, allowing for clusters of items.

    The actual numbers are divided by the design effect if it is above 1. The design effect is the
    variance of the error rate with clusters, divided by its variance if all items were independent.
    The numbers are also corrected by the squared ratio of two quantiles of Student's t, one for the
    number of items and one for the number of clusters (Korn & Graubard 1998, Confidence Intervals
    for Proportions with Small Expected Number of Positive Counts Estimated from Survey Data, Survey
    Methodology 24, 193-201). If fewer than :data:`~mirage.statistics.clusters.FEWEST_FOR_MEANS`
    clusters have an error, the design effect is at least as large as if the items within each
    cluster were identical. There is no correction if each item is its own cluster.

    Args:
        wrong: Whether each decided item is decided wrongly.
        codes: Cluster of each decided item, counted from 0.
    """
    from scipy.special import stdtrit

    items = len(wrong)
    if not items:
        return Errors(0.0, 0.0)
    counts = np.bincount(codes)
    sizes, sums = counts[counts > 0], np.bincount(codes, wrong)[counts > 0]
    groups, rate = len(sizes), float(wrong.mean())
    identical_effect = float((sizes**2).sum() / items)
    if items == groups:
        return Errors(float(wrong.sum()), float(items))
    if groups == 1:  # the variance between clusters is unknown: count one item
        return Errors(rate, 1.0)
    effect = 1.0
    if 0 < rate < 1:
        between = groups / (groups - 1) * float(((sums - rate * sizes) ** 2).sum()) / items**2
        effect = max(effect, between * (items - 1) / (rate * (1 - rate)))
    if np.count_nonzero(sums) < FEWEST_FOR_MEANS:
        effect = max(effect, identical_effect)
    t_ratio = float(stdtrit(items - 1, 0.95) / stdtrit(groups - 1, 0.95)) ** 2
    number = items / effect * t_ratio
    return Errors(rate * number, number)


def risk_p_value(kinds: Sequence[Errors], risk: float) -> float:
    """Return the p-value of the hypothesis that a rule's error rate is at or above the risk.

    For one kind of items, it is the exact binomial p-value of Clopper & Pearson (1934, Biometrika
    26, 404-413): ``(1 - risk) ** n`` if ``n`` items are decided and all are right. With two kinds
    (items decided as positive and items decided as negative), the hypothesis is about the mean of
    their two error rates. Clopper and Pearson's upper bounds at all levels form a distribution for
    each of the two rates. The p-value is then the probability that the mean of one draw from each
    distribution reaches the risk.

    Args:
        kinds: Errors of each kind of decided items: one element for all items together, or two
            elements for the two labels.
        risk: Error rate to rule out, above 0 and below 1.

    Returns:
        The p-value; 1 if, for one of the kinds, no item is decided correctly.
    """
    from scipy.special import betainc, betaincinv

    if any(kind.decided <= kind.wrong for kind in kinds):
        return 1.0
    ends = [(kind.wrong + 1, kind.decided - kind.wrong) for kind in kinds]
    if len(ends) == 1:
        return float(1 - betainc(*ends[0], risk))
    middles = (np.arange(200) + 0.5) / 200
    other = np.clip(2 * risk - betaincinv(*ends[0], middles), 0, 1)
    return float(1 - betainc(*ends[1], other).mean())


def fallback(p_values: Floats, levels: Floats) -> Bools:
    """Return which hypotheses of a sequence are rejected by the fallback procedure.

    A hypothesis is tested at its level in ``levels``. If the previous hypothesis in the sequence
    was rejected, the level at which that hypothesis was tested is added to this level (Wiens 2003,
    A Fixed Sequence Bonferroni Procedure for Testing Multiple Endpoints, Pharmaceutical Statistics
    2, 211-215). The probability of a false rejection is at most the sum of the levels. If only the
    first level is above 0, this is fixed-sequence testing.

    Args:
        p_values: P-value of each hypothesis, in the order of the tests.
        levels: Significance level of each hypothesis.
    """
    rejected, carried = np.zeros(len(p_values), dtype=bool), 0.0
    for index, (p_value, level) in enumerate(zip(p_values, levels, strict=True)):
        carried += level
        rejected[index] = p_value <= carried
        carried = carried if rejected[index] else 0.0
    return rejected
