"""Agreement of judges on nominal labels (labels without an order), corrected for chance.

All coefficients are ``(po - pe) / (1 - pe)``. Here ``po`` is the observed agreement, and ``pe`` is
the agreement that would be expected by chance. The coefficient is the observed agreement beyond
chance, as a share of the largest possible agreement beyond chance. The coefficients differ in the
formula for ``pe``. 1 is full agreement, 0 is chance level, and values below 0 are worse than
chance. If one label is far more frequent than the others, kappa and alpha are low even if judges
hardly ever differ. AC1 remains high in this case.

The argument ``counts`` of :func:`terms` is a table of shape ``(items, labels)``, which contains the
number of judges that gave each label to each item. Items may have different numbers of labels, from
different judges. An item with one label contributes to the frequencies of labels but not to the
agreement. An item without labels is ignored.

Sources: Cohen (1960), A Coefficient of Agreement for Nominal Scales, Educational and Psychological
Measurement 20, 37-46. Fleiss (1971), Measuring Nominal Scale Agreement Among Many Raters,
Psychological Bulletin 76, 378-382. Gwet (2008), Computing inter-rater reliability and its variance
in the presence of high agreement, British Journal of Mathematical and Statistical Psychology 61,
29-48. Gwet (2014), Handbook of Inter-Rater Reliability, 4th edition, chapter 5, for items with
different numbers of labels. Krippendorff (2019), Content Analysis, 4th edition, chapter 12.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats
from mirage.errors import JudgmentError
from mirage.statistics.bootstrap import ratio

# Coefficients from sums over items: a bootstrap draw of queries is then a weighted sum ------------


def cohen_of(cells: Floats) -> Floats:
    """Return Cohen's kappa of two judges; NaN if all labels are the same.

    Args:
        cells: Contingency tables, flattened to the shape ``(..., labels ** 2)``. The cells of a
            table count the items by the label of the first judge and the label of the second judge.
    """
    size = round(cells.shape[-1] ** 0.5)
    table = cells.reshape(*cells.shape[:-1], size, size)
    total = table.sum(axis=(-1, -2))
    same = np.trace(table, axis1=-2, axis2=-1)
    expected = (table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1)
    return ratio(total * same - expected, total**2 - expected)


def terms(counts: ArrayLike) -> Floats:
    """Return one row of numbers per item; sums of these rows determine the agreement coefficients.

    Sum the rows over items, and pass the sums to :func:`ac1_of`, :func:`fleiss_of` or
    :func:`alpha_of`. Cohen's kappa is computed from contingency tables instead (:func:`cohen_of`).
    If all items have the same number of labels, the numbers are whole, so their sums are exact.

    Args:
        counts: Number of judges that gave each label to each item, of shape ``(items, labels)``.

    Returns:
        The numbers, of shape ``(items, 4 + 2 * labels)``. :class:`Sums` computes named totals from
        their sums.

    Raises:
        JudgmentError: If ``counts`` is not a table of items by labels.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or not table.size or (table < 0).any():
        raise JudgmentError(
            "counts must be a non-empty table of items by labels, none below 0; "
            f"got shape {table.shape}"
        )
    labels = table.sum(axis=1, keepdims=True)
    several, most = labels > 1, labels.max()
    # Common factors keep the terms whole numbers if all items have the same number of labels.
    same = np.where(several, table * (table - 1), 0).sum(axis=1, keepdims=True)
    pairs, all_pairs = np.where(several, labels * (labels - 1), 1), most * (most - 1)
    return np.concatenate(
        [
            several * all_pairs,
            (labels > 0) * most,
            same * (all_pairs / pairs),
            same / np.maximum(labels - 1, 1),
            table * (most / np.maximum(labels, 1)),
            np.where(several, table, 0),
        ],
        axis=1,
    )


class Sums(NamedTuple):
    """Totals over items, from which the agreement coefficients are computed.

    :meth:`of` creates them from the summed rows of :func:`terms`. The sums may have further
    dimensions, such as one for bootstrap draws. The dots in the shapes below stand for them.

    Attributes:
        agreement: Share of an item's pairs of judges who gave the same label, averaged over items
            with two or more labels; of shape ``(...)``.
        pairs: Number of ordered pairs of an item's judges who gave the same label, divided by the
            item's number of labels minus one, and summed over items; of shape ``(...)``.
        shares: Share of each label among the labels of an item, summed over items, and multiplied
            by the largest number of labels of any item; of shape ``(..., labels)``.
        paired: Number of times that each label occurs in items with two or more labels; of shape
            ``(..., labels)``.
    """

    agreement: Floats
    pairs: Floats
    shares: Floats
    paired: Floats

    @classmethod
    def of(cls, sums: Floats) -> Sums:
        """Return the totals, given the sum over items of the rows of :func:`terms`."""
        labels = (sums.shape[-1] - 4) // 2
        agreement = ratio(sums[..., 2], sums[..., 0])
        return cls(agreement, sums[..., 3], *np.split(sums[..., 4:], [labels], axis=-1))


def ac1_of(sums: Floats) -> Floats:
    """Return Gwet's (2008) AC1; NaN if there is only one possible label.

    The agreement by chance is the sum over labels of ``share * (1 - share)``, divided by
    ``labels - 1``. The share of a label is computed among the labels of each item, and then
    averaged over items. A label that no judge gave still counts as one of the possible labels.

    Args:
        sums: Sums over items of the rows of :func:`terms`.
    """
    agreement, _, shares, _ = Sums.of(sums)
    labels = shares.shape[-1]
    if labels < 2:  # chance agreement is undefined with a single label
        return np.full(sums.shape[:-1], np.nan)
    shares = ratio(shares, sums[..., 1:2])
    return _chance_corrected(agreement, (shares * (1 - shares)).sum(axis=-1) / (labels - 1))


def fleiss_of(sums: Floats) -> Floats:
    """Return Fleiss' (1971) kappa; NaN if all labels are the same.

    The agreement by chance is the sum of the squared label shares. The share of a label is computed
    among the labels of each item, and then averaged over items. If the number of labels varies
    between items, the formula of Gwet (2014) is used.

    Args:
        sums: Sums over items of the rows of :func:`terms`.

    Example:
        >>> round(float(fleiss_of(terms([[2, 0], [0, 2], [1, 1], [2, 0]]).sum(axis=0))), 3)
        0.467
    """
    agreement, _, shares, _ = Sums.of(sums)
    # Divide last, because squares of whole numbers are exact.
    return _chance_corrected(
        agreement, ratio(np.square(shares).sum(axis=-1), np.square(sums[..., 1]))
    )


def alpha_of(sums: Floats) -> Floats:
    """Return Krippendorff's (2019) alpha; NaN if all labels are the same.

    Alpha is ``1 - a / b``. Here ``a`` is the probability that two labels of the same item differ,
    and ``b`` is the probability that any two labels differ. Items with fewer than two labels are
    ignored.

    Args:
        sums: Sums over items of the rows of :func:`terms`.
    """
    _, pairs, _, paired = Sums.of(sums)
    total = paired.sum(axis=-1)
    expected = (paired * (paired - 1)).sum(axis=-1)
    return _chance_corrected(ratio(pairs, total), ratio(expected, total * (total - 1)))


def _chance_corrected(observed: Floats, expected: Floats) -> Floats:
    return ratio(observed - expected, 1 - expected)
