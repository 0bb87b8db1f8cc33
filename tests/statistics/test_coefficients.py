"""Coefficients of agreement, against scikit-learn, published tables and each other."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from sklearn.metrics import cohen_kappa_score

from mirage.errors import JudgmentError
from mirage.statistics.agreement import ac1_of, alpha_of, cohen_of, fleiss_of, terms

properties = settings(max_examples=examples(100), deadline=None)


def fleiss_kappa(counts):
    return float(fleiss_of(terms(counts).sum(axis=0)))


def gwet_ac1(counts):
    return float(ac1_of(terms(counts).sum(axis=0)))


def krippendorff_alpha(counts):
    return float(alpha_of(terms(counts).sum(axis=0)))


# Gwet's example of four raters and 12 units, with the values that irrCAC's documentation prints.
FOUR_RATERS = ["aaa", "bbcb", "cccc", "cccc", "bbbb", "abcd"]
FOUR_RATERS += ["dddd", "aaba", "bbbb", "eee", "aa", "c"]

# Fleiss (1971), Table 1: 30 patients, each diagnosed by 6 psychiatrists as depression, personality
# disorder, schizophrenia, neurosis or other.
FLEISS_1971 = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006
10050 11040 03300 10050 02031 00501 30012 51000 02040 10203
00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""
# 10 subjects, 14 raters, 5 categories: the worked example of Wikipedia's article Fleiss' kappa.
FOURTEEN_RATERS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def test_fleiss_kappa_of_published_tables():
    table = [[int(count) for count in row] for row in FLEISS_1971.split()]
    assert np.sum(table, axis=0).tolist() == [26, 26, 30, 55, 43]  # the margins he prints
    assert fleiss_kappa(table) == pytest.approx(0.430, abs=5e-4)
    assert fleiss_kappa(FOURTEEN_RATERS) == pytest.approx(0.210, abs=5e-4)


def test_cohen_kappa_of_a_published_table():
    # an example of SAS, which statsmodels tests against too
    assert cohen_of(np.array([0.0, 4, 1, 0, 8, 0, 0, 1, 5])) == pytest.approx(0.4842, abs=5e-5)


labels = st.lists(
    st.tuples(*[st.sampled_from(["good", "bad", "none"])] * 2), min_size=1, max_size=30
)


@properties
@given(labels)
def test_cohen_kappa_is_that_of_sklearn(rows):
    names = ("good", "bad", "none")
    counts = np.array([rows.count((x, y)) for x in names for y in names], float)
    kappa = cohen_of(counts)
    a, b = zip(*rows, strict=True)
    if len({*a, *b}) == 1:
        assert np.isnan(kappa)
        return
    assert kappa == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)


@properties
@given(st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=20))
def test_fleiss_kappa_ignores_the_order_of_items_and_labels(rows):
    counts = np.array([[row.count(label) for label in range(3)] for row in rows])
    kappa = fleiss_kappa(counts)
    if np.count_nonzero(counts.sum(axis=0)) == 1:
        assert np.isnan(kappa)
        return
    assert -1 <= kappa <= 1
    assert fleiss_kappa(counts[::-1, [1, 2, 0]]) == pytest.approx(kappa, abs=1e-12)


@properties
@given(labels)
def test_fleiss_kappa_of_two_judges_is_scotts_pi(rows):
    # Scott's pi is Cohen's kappa of judges who both are, half the time, the one and the other.
    a, b = zip(*rows, strict=True)
    counts = [[(x, y).count(label) for label in ("good", "bad", "none")] for x, y in rows]
    if len({*a, *b}) == 1:
        assert np.isnan(fleiss_kappa(counts))
        return
    pi = cohen_kappa_score([*a, *b], [*b, *a])
    assert fleiss_kappa(counts) == pytest.approx(pi, abs=1e-12)


def test_an_example_with_missing_labels():
    counts = [[row.count(name) for name in "abcde"] for row in FOUR_RATERS]
    assert gwet_ac1(counts) == pytest.approx(0.77544, abs=5e-6)
    assert fleiss_kappa(counts) == pytest.approx(0.76117, abs=5e-6)
    assert krippendorff_alpha(counts) == pytest.approx(0.74342, abs=5e-6)
    unused = [[*row, 0] for row in counts]  # a label that could have been given
    assert gwet_ac1(unused) > gwet_ac1(counts)
    assert krippendorff_alpha(unused) == krippendorff_alpha(counts)
    nobody = [*counts, [0] * 5]
    assert gwet_ac1(nobody) == gwet_ac1(counts)
    assert krippendorff_alpha(nobody) == krippendorff_alpha(counts)


@each_case("counts", [[], [[]], [1, 2], [[1, -1]]])
@each_case("coefficient", [fleiss_kappa, gwet_ac1, krippendorff_alpha])
def test_invalid_counts_are_refused(coefficient, counts):
    with pytest.raises(JudgmentError, match="counts must be a non-empty table"):
        coefficient(counts)
