"""Agreement of annotators, against irrCAC, krippendorff and published examples."""

from __future__ import annotations

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled import irrcac, query
from profiles import examples

from mirage.errors import JudgmentError
from mirage.metaeval import AnswerSentence, LabelledSentences, annotator_agreement
from mirage.statistics.agreement import ac1_of, alpha_of, terms
from mirage.statistics.bootstrap import draw_queries

properties = settings(max_examples=examples(100), deadline=None)


def annotated(
    labels: list[tuple[str, ...]], code: str = "en", a_query: int = 1
) -> LabelledSentences:
    """Return sentences with these labels, ``a_query`` of them per query."""
    sentences = tuple(
        AnswerSentence(query(f"q{i // a_query}", code), f"s{i}") for i in range(len(labels))
    )
    return LabelledSentences(sentences, tuple(labels), tuple(labels))


def by_irrcac(labels: list[tuple[str, ...]]) -> tuple[float, float]:
    """AC1 and Fleiss' kappa; missing labels are NaN."""
    width = max(map(len, labels))
    code = {label: float(ord(label)) for row in labels for label in row}
    rows = [[*map(code.get, row), *[np.nan] * (width - len(row))] for row in labels]
    # With pandas 3 it would take NaN for a category if they were not named.
    cac = irrcac()(pd.DataFrame(rows), categories=sorted(code.values()), digits=15)
    return tuple(cac_of()["est"]["coefficient_value"] for cac_of in (cac.gwet, cac.fleiss))


def by_krippendorff(labels: list[tuple[str, ...]]) -> float:
    names = sorted({label for row in labels for label in row})
    counts = np.array([[row.count(name) for name in names] for row in labels])
    return float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal"))


# Published examples

# Gwet's example of four raters and 12 units, with the values that irrCAC's documentation prints.
FOUR_RATERS = [
    "aaa",
    "bbcb",
    "cccc",
    "cccc",
    "bbbb",
    "abcd",
    "dddd",
    "aaba",
    "bbbb",
    "eee",
    "aa",
    "c",
]


def test_an_example_with_missing_labels() -> None:
    agreement = annotator_agreement(annotated([tuple(row) for row in FOUR_RATERS]))["en"]
    assert agreement.gwet_ac1 == pytest.approx(0.77544, abs=5e-6)
    assert agreement.fleiss_kappa == pytest.approx(0.76117, abs=5e-6)
    assert agreement.krippendorff_alpha == pytest.approx(0.74342, abs=5e-6)
    assert agreement.agreement == pytest.approx(0.81818, abs=5e-6)
    assert agreement.sentences == 11


# Against others

rows = st.lists(
    st.lists(st.sampled_from("xyz"), min_size=1, max_size=5).map(tuple), min_size=2, max_size=20
)


@properties
@given(rows)
def test_all_three_are_those_of_other_packages(labels: list[tuple[str, ...]]) -> None:
    different = len({label for row in labels for label in row}) > 1
    paired = {label for row in labels if len(row) > 1 for label in row}
    if not different or len(paired) < 2:
        return
    agreement = annotator_agreement(annotated(labels), draws=10)["en"]
    ac1, kappa = by_irrcac(labels)
    assert agreement.gwet_ac1 == pytest.approx(ac1, abs=1e-9)
    assert agreement.fleiss_kappa == pytest.approx(kappa, abs=1e-9)
    assert agreement.krippendorff_alpha == pytest.approx(by_krippendorff(labels), abs=1e-9)


def test_full_agreement_and_one_label() -> None:
    full = annotator_agreement(annotated([("x",) * 3, ("y",) * 3] * 5))["en"]
    assert (full.agreement, full.gwet_ac1, full.fleiss_kappa, full.krippendorff_alpha) == (1,) * 4
    single = annotator_agreement(annotated([("x", "x")] * 5))["en"]
    assert single.agreement == 1
    assert np.isnan([single.gwet_ac1, single.fleiss_kappa, single.krippendorff_alpha]).all()
    assert ac1_of(terms([[2, 0]] * 5).sum(axis=0)) == 1  # there was another label to give


# Intervals


def test_an_interval_is_of_drawn_queries() -> None:
    rng = np.random.default_rng(0)
    labels = [tuple("xy"[int(v)] for v in rng.random(3) < rng.random()) for _ in range(60)]
    agreement = annotator_agreement(annotated(labels, a_query=3), draws=200, level=0.8, seed=4)[
        "en"
    ]
    counts = np.array([[row.count(name) for name in "xy"] for row in labels])
    # np.unique sorts the queries' names as texts: the places of the draws differ from the files'.
    order = np.argsort([f"q{i}" for i in range(20)])
    values = []
    for drawn in draw_queries(20, 20, 200, seed=4):
        of_query = np.empty(20, dtype=int)
        of_query[order] = drawn
        chosen = np.repeat(np.arange(60), np.repeat(of_query, 3))
        sums = terms(counts[chosen]).sum(axis=0)
        values.append([ac1_of(sums), alpha_of(sums)])
    wider = 1.327728 / 1.281552 * np.sqrt(20 / 19)  # Student's t, as for the agreement of judges
    ends = wider * (np.quantile(values, [0.1, 0.9], axis=0) - np.mean(values, axis=0))
    lower, upper = ends + np.array([agreement.gwet_ac1, agreement.krippendorff_alpha])
    np.testing.assert_allclose(agreement.gwet_ac1_interval, (lower[0], upper[0]), rtol=1e-5)
    np.testing.assert_allclose(
        agreement.krippendorff_alpha_interval, (lower[1], upper[1]), rtol=1e-5
    )
    assert (agreement.sentences, agreement.queries) == (60, 20)


def test_one_query_has_no_interval() -> None:
    agreement = annotator_agreement(annotated([("x", "y"), ("x", "x")], a_query=2))["en"]
    assert np.isnan(agreement.gwet_ac1_interval).all()
    assert not np.isnan(agreement.gwet_ac1)


# The result


def test_languages_and_fine_grained_labels() -> None:
    english, german = annotated([("x", "y"), ("x", "x")]), annotated([("x", "x"), ("y", "y")], "de")
    both = LabelledSentences(
        english.sentences + german.sentences,
        english.labels + german.labels,
        (("f", ""), ("f", "f"), ("g", "f"), ("g", "g")),
        source="both",
    )
    agreement = annotator_agreement(both)
    assert [row.language for row in agreement] == ["en", "de"]
    assert (agreement["en"].agreement, agreement["de"].agreement) == (0.5, 1)
    fine = annotator_agreement(both, fine=True)
    assert (fine["en"].sentences, fine["en"].agreement) == (1, 1)  # an empty label is none
    assert fine["de"].agreement == 0.5
    frame = agreement.to_pandas()
    assert frame["gwet_ac1"].tolist() == [row.gwet_ac1 for row in agreement]
    assert {"gwet_ac1_lower", "krippendorff_alpha_upper"} < set(frame.columns)
    lines = str(fine).splitlines()
    assert lines[0] == "Agreement of annotators on both, fine-grained labels"
    assert lines[2].split()[:3] == ["en", "1", "100.0%"]
    assert max(map(len, lines)) <= 80
    with pytest.raises(JudgmentError, match="no sentence in 'fr' has labels from annotators"):
        agreement["fr"]


def test_one_annotator_cannot_agree() -> None:
    with pytest.raises(JudgmentError, match="no sentence in 'en' has labels from two annotators"):
        annotator_agreement(annotated([("x",), ("y",)]))
