"""Selective classification: the share of items that scores can decide with an error below a risk.

Decision rules, such as "positive from 0.8 on, negative up to 0.2, undecided between", are checked
on labelled items, in one of two ways. Conformal risk control (Angelopoulos, Bates, Fisch, Lei &
Schuster 2024, arXiv 2208.02814) holds the error below the risk on average over sets of labels. A
test holds it with a confidence: a rule is valid if the test shows that its error among decided
items is below the risk. The tests are corrected together: the probability of accepting an invalid
rule is at most the requested level (Learn then Test: Angelopoulos, Bates, Candès, Jordan & Lei
2021, arXiv 2110.01052; for judges that abstain: Jung, Brahman & Choi 2024, Trust or Escalate, arXiv
2407.18370).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Bools, Floats, Ints
from mirage.statistics.clusters import FEWEST_FOR_MEANS


class Errors(NamedTuple):
    """Errors of a rule, converted to effective numbers of independent items.

    Attributes:
        wrong: Effective number of errors.
        decided: Effective number of decided items.
    """

    wrong: float
    decided: float


def errors_of(wrong: Bools, codes: Ints) -> Errors:
    """Return the effective number of errors among decided items in clusters.

    Numbers of items are divided by the design effect if it is above 1. The design effect is the
    variance of the error rate between clusters over that of independent items. They are also
    divided by the squared ratio of quantiles of Student's t (Korn & Graubard 1998, Confidence
    Intervals for Proportions with Small Expected Number of Positive Counts Estimated from Survey
    Data, Survey Methodology 24, 193-201). If fewer than
    :data:`~mirage.statistics.clusters.FEWEST_FOR_MEANS` clusters have an error, the design effect
    is at least as large as if the items within each cluster were identical. Without clusters there
    is no correction.
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
    26, 404-413): ``(1 - risk) ** n`` if ``n`` items are decided and all are right. With two
    kinds (items decided as positive and items decided as negative), the hypothesis is about the
    mean of their two error rates. The p-value is then the probability that the mean of one draw
    from each of the two distributions of Clopper and Pearson's upper bounds reaches the risk.

    Args:
        kinds: Errors of each kind of decided items: one for all, or two for the two labels.
        risk: Error rate to rule out, above 0 and below 1.

    Returns:
        The p-value; 1 if no item of a kind is decided correctly.
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


def conformal_error(kinds: Sequence[Errors], sizes: Sequence[int]) -> float:
    """Return a rule's error rate after one more cluster in which every item is decided wrongly.

    If the rule that decides most items with this rate at or below the risk is used, a new cluster
    is wrongly decided at most as often as the risk allows: the rate bounds the one that includes
    the new cluster, in which all clusters are exchangeable (Angelopoulos et al. 2024, proof of
    Theorem 1, with the loss of a decided item less the risk).

    Args:
        kinds: Numbers of errors and of decided items: one for all items, or two for the two labels,
            whose error rates are averaged.
        sizes: Largest number of items of a cluster, for each kind.

    Example:
        >>> conformal_error([Errors(1, 19)], [1])
        0.1
    """
    rates = [
        (kind.wrong + size) / (kind.decided + size) for kind, size in zip(kinds, sizes, strict=True)
    ]
    return float(np.mean(rates))


def fallback(p_values: Floats, levels: Floats) -> Bools:
    """Return the hypotheses of a sequence that are rejected by the fallback procedure.

    A hypothesis is tested at its level. If the one before was rejected, its level is added (Wiens
    2003, A Fixed Sequence Bonferroni Procedure for Testing Multiple Endpoints, Pharmaceutical
    Statistics 2, 211-215). The probability of a false rejection is at most the sum of the levels.
    If only the first level is above 0, this is fixed-sequence testing.
    """
    rejected, carried = np.zeros(len(p_values), dtype=bool), 0.0
    for index, (p_value, level) in enumerate(zip(p_values, levels, strict=True)):
        carried += level
        rejected[index] = p_value <= carried
        carried = carried if rejected[index] else 0.0
    return rejected
