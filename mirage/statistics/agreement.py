"""How far judges agree on labels without order, beyond what chance would give.

All coefficients are ``(po - pe) / (1 - pe)``, the agreement beyond chance as a share of what there
could be; they differ in the agreement ``pe`` that they expect by chance. 1 is full agreement, 0
what chance gives, below 0 less. Where one label is far more frequent than the others, kappa and
alpha are low although judges hardly ever differ; AC1 is not.

Counts say how many judges gave an item a label, ``(items, labels)``. Items may have different
numbers of labels, by whomever: those with one say how frequent labels are, but nothing of
agreement; those with none are ignored.

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

__all__ = [
    "Sums",
    "ac1_of",
    "alpha_of",
    "cohen_kappa",
    "cohen_of",
    "fleiss_kappa",
    "fleiss_of",
    "gwet_ac1",
    "krippendorff_alpha",
    "terms",
]


def cohen_kappa(a: ArrayLike, b: ArrayLike) -> float:
    """Cohen's (1960) kappa of two judges' labels, unweighted.

    Args:
        a: one judge's label of each item, of any type.
        b: the other's, in the same order.

    Returns:
        Kappa, NaN where both give one and the same label throughout.

    Raises:
        JudgmentError: the labels are not two columns of the same length, or there are none.
    """
    labels_a, labels_b = np.asarray(a), np.asarray(b)
    if labels_a.ndim != 1 or labels_a.shape != labels_b.shape or not labels_a.size:
        raise JudgmentError(
            "kappa takes two columns with the labels of the same items, not shapes "
            f"{labels_a.shape} and {labels_b.shape}"
        )
    labels, codes = np.unique(np.concatenate([labels_a, labels_b]), return_inverse=True)
    cells = codes[: len(labels_a)] * len(labels) + codes[len(labels_a) :]
    return float(cohen_of(np.bincount(cells, minlength=len(labels) ** 2).astype(np.float64)))


def fleiss_kappa(counts: ArrayLike) -> float:
    """Fleiss' (1971) kappa of any number of judges, as Gwet (2014) has it where that varies.

    ``pe`` is the sum over labels of the squared share, which is the mean over items of the label's
    share of the item's labels.

    Args:
        counts: how many judges gave an item a label, ``(items, labels)``.

    Returns:
        Kappa, NaN where all give one and the same label, and where no item has two labels.

    Raises:
        JudgmentError: the counts are not a table of items by labels.
    """
    return float(fleiss_of(terms(counts).sum(axis=0)))


def gwet_ac1(counts: ArrayLike) -> float:
    """Gwet's (2008) AC1; chance is taken to be the less, the more unequal the labels' shares.

    ``pe`` is the mean over labels of ``share * (1 - share)``, times ``labels / (labels - 1)``. A
    label that nobody gave counts as one that could have been given. NaN with one label only, and
    where no item has two; ``counts`` and errors as in :func:`fleiss_kappa`.
    """
    return float(ac1_of(terms(counts).sum(axis=0)))


def krippendorff_alpha(counts: ArrayLike) -> float:
    """Krippendorff's (2019) alpha for labels without order.

    1 minus the share of pairs of labels of one item that differ, over that of pairs of labels of
    any two items. Items with fewer than two labels are ignored. NaN, ``counts`` and errors as in
    :func:`fleiss_kappa`.
    """
    return float(alpha_of(terms(counts).sum(axis=0)))


# From sums over items, so that a draw of queries is a weighted sum --------------------------------


def cohen_of(cells: Floats) -> Floats:
    """Cohen's kappa of tables of label by label, ``(..., labels * labels)``."""
    size = round(cells.shape[-1] ** 0.5)
    table = cells.reshape(*cells.shape[:-1], size, size)
    total = table.sum(axis=(-1, -2))
    same = np.trace(table, axis1=-2, axis2=-1)
    expected = (table.sum(axis=-1) * table.sum(axis=-2)).sum(axis=-1)
    return ratio(total * same - expected, total**2 - expected)


def terms(counts: ArrayLike) -> Floats:
    """What the other coefficients sum over items, a row an item; :class:`Sums` names them.

    Where all items have equally many labels these are whole numbers, and so sums are exact.

    Raises:
        JudgmentError: the counts are not a table of items by labels.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or not table.size or (table < 0).any():
        raise JudgmentError(f"counts are a table of items by labels, not of shape {table.shape}")
    labels = table.sum(axis=1, keepdims=True)
    several, most = labels > 1, labels.max()
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
    """What sums of :func:`terms` say, ``(...)`` or ``(..., labels)``.

    ``agreement``: mean over items of the share of their pairs of labels that are the same.
    ``pairs``: sum over items of such pairs, each over the item's labels less one. ``shares``: sum
    over items of each label's share, of which the items' sum is the second column. ``paired``:
    number of each label in items with two or more.
    """

    agreement: Floats
    pairs: Floats
    shares: Floats
    paired: Floats

    @classmethod
    def of(cls, sums: Floats) -> Sums:
        """By their names."""
        labels = (sums.shape[-1] - 4) // 2
        agreement = ratio(sums[..., 2], sums[..., 0])
        return cls(agreement, sums[..., 3], *np.split(sums[..., 4:], [labels], axis=-1))


def ac1_of(sums: Floats) -> Floats:
    """AC1 from sums of :func:`terms`."""
    agreement, _, shares, _ = Sums.of(sums)
    labels = shares.shape[-1]
    if labels < 2:
        return np.full(sums.shape[:-1], np.nan)
    shares = ratio(shares, sums[..., 1:2])
    return _beyond(agreement, (shares * (1 - shares)).sum(axis=-1) / (labels - 1))


def fleiss_of(sums: Floats) -> Floats:
    """Fleiss' kappa from sums of :func:`terms`."""
    agreement, _, shares, _ = Sums.of(sums)
    # Shares are divided last, for the squares of whole numbers are exact.
    return _beyond(agreement, ratio(np.square(shares).sum(axis=-1), np.square(sums[..., 1])))


def alpha_of(sums: Floats) -> Floats:
    """Alpha from sums of :func:`terms`."""
    _, pairs, _, paired = Sums.of(sums)
    total = paired.sum(axis=-1)
    expected = (paired * (paired - 1)).sum(axis=-1)
    return _beyond(ratio(pairs, total), ratio(expected, total * (total - 1)))


def _beyond(observed: Floats, expected: Floats) -> Floats:
    return ratio(observed - expected, 1 - expected)
