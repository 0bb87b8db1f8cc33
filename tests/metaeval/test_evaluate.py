"""Evaluation of judges with known figures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from labelled import NO, YES, by_number, labelled, query, recorded

from mirage import metaeval
from mirage.errors import (
    DatasetError,
    FeatureError,
    JudgmentError,
    NoJudgmentError,
    UnknownNameError,
)
from mirage.metaeval import AnswerSentence, LabelledSentences, MetaEvaluation, evaluate, score
from mirage.metaeval.gold import MEAN
from mirage.statistics.classification import cross_validated_thresholds

# en: 4 supported, 2 not; de: 2 and 4. Two sentences a query.
ROWS = [
    *(("en", f"q{i // 2}", label) for i, label in enumerate([YES, YES, YES, YES, NO, NO])),
    *(("de", f"q{i // 2}", label) for i, label in enumerate([YES, NO, NO, YES, NO, NO])),
]
TRUTH = [label for _, _, label in ROWS]
SENTENCES = labelled(ROWS)
OTHER = {YES: NO, NO: YES}


def wrong_at(*places: int) -> list[str | None]:
    return [OTHER[label] if i in places else label for i, label in enumerate(TRUTH)]


def judge(name: str, *places: int) -> Any:
    """A judge that is wrong on these sentences."""
    return recorded(name, wrong_at(*places))


# Known answers


def test_balanced_accuracy_by_hand() -> None:
    silent: list[str | None] = [YES, *[None] * 11]
    result = evaluate(
        SENTENCES,
        [
            judge("right"),
            judge("wrong", *range(12)),
            recorded("yes", [YES] * 12),
            recorded("silent", silent),
            judge("some", 0, 4, 7),
        ],
    )
    for name, en, de in (
        ("right", 1, 1),
        ("wrong", 0, 0),
        ("yes", 1 / 2, 1 / 2),
        ("silent", 1 / 8, 0),
        ("some", (3 / 4 + 1 / 2) / 2, (1 + 3 / 4) / 2),
    ):
        figures = result[name]
        assert figures["en"].balanced_accuracy == en
        assert figures["de"].balanced_accuracy == de
        assert figures[MEAN].balanced_accuracy == (en + de) / 2
    assert result["some"]["en"].recall == {YES: 3 / 4, NO: 1 / 2}
    assert result["some"][MEAN].recall == {YES: (3 / 4 + 1) / 2, NO: (1 / 2 + 3 / 4) / 2}
    assert result["silent"]["de"].invalid == 6
    assert result["silent"][MEAN].invalid == 11
    assert result["some"]["en"][2:4] == (6, 3)  # sentences, queries
    assert result["some"][MEAN][2:4] == (12, 6)
    assert np.isnan(result["some"][MEAN].roc_auc)
    assert result["right"][MEAN].standard_error == 0
    assert result.right.sum(axis=0).tolist() == [12, 0, 6, 1, 9]


def test_an_unknown_label_is_wrong_and_named() -> None:
    answers: list[str | None] = ["perhaps", "so", *wrong_at()[2:11], None]
    answers[4] = "so"
    result = evaluate(SENTENCES, recorded("me", answers))
    figures = result["me"]
    assert figures["en"].balanced_accuracy == (2 / 4 + 1 / 2) / 2
    assert (figures["en"].invalid, figures["de"].invalid) == (3, 1)
    text = " ".join(str(result).split())
    assert (
        "me returned 'so' (2), 'perhaps' (1), but people's labels are 'Not Supported', 'Supported'"
    ) in text


def test_other_labels_are_not_named_if_a_judge_returns_none() -> None:
    assert "returned" not in str(evaluate(SENTENCES, recorded("me", [YES, *[None] * 11])))


def test_a_judge_without_a_valid_label_raises_an_error() -> None:
    with pytest.raises(
        JudgmentError,
        match=r"'me' returned 'no' \(6\), 'yes' \(5\), but people's labels are 'Not Supported', "
        r"'Supported'; let the judge return the same names",
    ):
        evaluate(SENTENCES, recorded("me", [*["yes", "no"] * 5, None, "no"]))
    silent = "gave no label to any of the 12 sentences; people's labels are 'Not Supported', 'Supp"
    with pytest.raises(NoJudgmentError, match=f"judge 'me' {silent}"):
        evaluate(SENTENCES, [judge("right"), recorded("me", [None] * 12)])
    with pytest.raises(NoJudgmentError, match="score 'me' has no value for any of the 12 sentenc"):
        evaluate(SENTENCES, score(by_number([None] * 12), 0.5, name="me"))
    with pytest.raises(NoJudgmentError, match="score 'me' has no value for any of the 12 sentenc"):
        evaluate(SENTENCES, score(by_number([None] * 12), name="me"))


def test_three_labels_and_a_language_that_lacks_one() -> None:
    rows = [("en", f"q{i}", label) for i, label in enumerate("aabbcc")]
    rows += [("de", f"q{i}", label) for i, label in enumerate("aabb")]
    figures = evaluate(labelled(rows), recorded("me", "abbbca" + "abbb"))["me"]
    assert figures["en"].recall == {"a": 1 / 2, "b": 1, "c": 1 / 2}
    assert figures["en"].balanced_accuracy == pytest.approx(2 / 3)
    assert figures["de"].balanced_accuracy == 3 / 4
    assert figures[MEAN].recall == {"a": 1 / 2, "b": 1, "c": 1 / 2}


def test_undecided_sentences_are_counted_and_never_judged() -> None:
    rows = [*ROWS, ("en", "q9", "Challenging to determine")]
    result = evaluate(labelled(rows), judge("right"))  # it does not know the last sentence
    assert result.left_out == {"Challenging to determine": 1}
    assert len(result["right"].labels) == 12
    assert "1 left out: Challenging to determine" in str(result)


def test_several_annotators_are_their_majority() -> None:
    sentences = LabelledSentences(
        SENTENCES.sentences,
        (*((label, OTHER[label], label) for label in TRUTH[:-1]), (YES, NO)),
        ((),) * 12,
    )
    result = evaluate(sentences, judge("right"))
    assert result["right"][MEAN].balanced_accuracy == 1
    assert result.left_out == {"no majority": 1}


# Errors and intervals


def noisy(seed: int, queries: int = 60) -> tuple[LabelledSentences, np.random.Generator]:
    rng = np.random.default_rng(seed)
    rows = [
        (code, f"q{q}", YES if rng.random() < 0.7 else NO)
        for code in ("en", "de", "es")
        for q in range(queries)
        for _ in range(rng.integers(1, 4))
    ]
    return labelled(rows), rng


def accurate(sentences: LabelledSentences, rng: np.random.Generator, share: float) -> list[str]:
    return [label if rng.random() < share else OTHER[label] for (label,) in sentences.labels]


def test_the_mean_has_the_error_of_independent_languages() -> None:
    sentences, rng = noisy(0)
    me = recorded("me", accurate(sentences, rng, 0.75))
    figures = evaluate(sentences, me)["me"]
    errors = [figures[code].standard_error for code in ("en", "de", "es")]
    assert figures[MEAN].standard_error == pytest.approx(np.linalg.norm(errors) / 3)
    for code in ("en", "de", "es", MEAN):
        row = figures[code]
        half = (row.interval[1] - row.interval[0]) / 2
        assert half == pytest.approx(1.96 * row.standard_error, rel=0.1)
        assert row.interval[0] < row.balanced_accuracy < row.interval[1]
    lower, upper = figures[MEAN].interval
    inner = evaluate(sentences, me, level=0.5)["me"][MEAN].interval
    assert lower < inner[0] < inner[1] < upper


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    covered = 0
    for seed in range(200):
        sentences, rng = noisy(seed, queries=40)
        me = recorded("me", accurate(sentences, rng, 0.8))
        result = evaluate(sentences, me, level=0.8)
        lower, upper = result["me"][MEAN].interval
        covered += lower <= 0.8 <= upper
    assert 0.72 <= covered / 200 <= 0.88


def test_the_seed_changes_the_folds_of_thresholds() -> None:
    sentences, rng = noisy(0, queries=20)
    me = recorded("me", accurate(sentences, rng, 0.8))
    scores = by_number(rng.random(len(sentences)).tolist())
    results = [evaluate(sentences, [me, score(scores, name="x")], seed=seed) for seed in (0, 0, 1)]
    assert results[0]["me"][MEAN].interval == results[2]["me"][MEAN].interval
    assert results[0]["x"].labels == results[1]["x"].labels
    assert not np.array_equal(results[0]["x"].thresholds, results[2]["x"].thresholds)


# Scores


def test_the_order_of_sentences_and_languages_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = [(code, f"q{n // 2}", YES if n % 3 else NO) for code in ("en", "de") for n in range(40)]
    numbers = [float(label == YES) + rng.normal(0, 0.7) for _, _, label in rows]
    other_numbers = [float(label == YES) + rng.normal(0, 0.7) for _, _, label in rows]
    outputs = set()
    for order in (range(80), range(79, -1, -1), rng.permutation(80).tolist()):
        sentences = labelled([rows[i] for i in order])
        result = evaluate(
            sentences,
            [
                score(by_number([numbers[i] for i in order]), name="one"),
                score(by_number([other_numbers[i] for i in order]), name="other"),
            ],
        )
        (comparison,) = result.compare(permutations=500)
        outputs.add(f"{result}\n{comparison.p:.12f}")
    assert len(outputs) == 1


def test_a_score_with_a_given_threshold() -> None:
    numbers = [0.9, 0.5, 0.4, None, 0.1, 0.5, 1.0, 0.0, 0.2, 0.5, 0.7, 0.3]
    result = evaluate(SENTENCES, score(by_number(numbers), 0.5, name="x"))["x"]
    assert result.labels == (YES, YES, NO, None, NO, YES, YES, NO, NO, YES, YES, NO)
    assert result["en"].balanced_accuracy == (2 / 4 + 1 / 2) / 2
    assert result["de"].balanced_accuracy == (2 / 2 + 3 / 4) / 2
    assert result[MEAN].invalid == 1
    # en: of 3 scored supported and 2 not, 0.9 > both, 0.5 > 0.1 and = 0.5, 0.4 > 0.1
    assert result["en"].roc_auc == (2 + 1.5 + 1) / 6
    assert (result.threshold_source, result.threshold) == ("given", "threshold 0.5, given")
    assert result.best_threshold("de") == (pytest.approx(0.4), (1 + 3 / 4) / 2)
    assert result.calibration("de").brier == pytest.approx(
        np.mean(np.square(np.array([0, 0, 0.2, 0.5, 0.7, 0.3])))
    )
    assert sum(bin.sentences for bin in result.calibration().bins) == 11


def test_a_score_without_a_threshold_gets_it_from_other_queries() -> None:
    rng = np.random.default_rng(0)
    sentences, _ = noisy(1)
    good = np.array([label == YES for (label,) in sentences.labels])
    numbers = (good * 1.0 + rng.normal(0, 0.3, len(good))).tolist()
    result = evaluate(sentences, score(by_number(numbers), name="x"))["x"]
    assert result.threshold_source == "cross-validation"
    assert result.threshold.endswith("cross-validated over queries in 5 folds")
    assert result.thresholds is not None
    expected = cross_validated_thresholds(
        np.array(numbers), good, result.truth.language, result.truth.query, seed=0
    )
    assert np.array_equal(result.thresholds, expected)
    assert 0.9 < result[MEAN].balanced_accuracy <= result.best_threshold().balanced_accuracy
    assert result[MEAN].roc_auc > 0.97


def test_one_language_alone_has_a_threshold_of_its_own() -> None:
    rng = np.random.default_rng(0)
    sentences, _ = noisy(2)
    offset = {"en": 0.0, "de": 5.0, "es": 10.0}
    numbers = [
        offset[s.query.language] + (label == YES) + rng.normal(0, 0.2)
        for s, (label,) in zip(sentences.sentences, sentences.labels, strict=True)
    ]
    x = score(by_number(numbers), name="x")
    together = evaluate(sentences, x)["x"]
    assert together[MEAN].balanced_accuracy < 0.7
    alone = evaluate(sentences.select(languages=["es"]), x)["x"]
    assert alone[MEAN].balanced_accuracy > 0.95


def test_a_score_takes_two_labels_one_of_them_positive() -> None:
    rows = [("en", f"q{i}", label) for i, label in enumerate("abc" * 4)]
    numbers = by_number([float(i % 3) for i in range(12)])
    sentences = labelled(rows, positive="b")
    with pytest.raises(
        JudgmentError, match=r"the labels are 'a', 'b', 'c'.*LabelledSentences.merged"
    ):
        evaluate(sentences, score(numbers, 0.5, name="x"))
    two = sentences.merged({"c": "b"}, positive="b")
    assert evaluate(two, score(numbers, 0.5, name="x"))["x"][MEAN].balanced_accuracy == 1
    with pytest.raises(JudgmentError, match="the positive label is 'B'"):
        evaluate(sentences.merged({"c": "b"}, positive="B"), score(numbers, 0.5, name="x"))
    with pytest.raises(JudgmentError, match=r"score 'x': too few queries .*; pass a threshold"):
        evaluate(labelled(rows[:2], positive="b"), score(numbers, name="x"))


# Comparisons


def test_p_values_by_hand() -> None:
    # One sentence a query: a is right on 8 sentences on which b is wrong, b on none.
    rows = [("en", f"q{i}", YES if i % 2 else NO) for i in range(20)]
    truth = [label for _, _, label in rows]
    a = recorded("a", truth)
    b = recorded("b", [OTHER[label] if i < 8 else label for i, label in enumerate(truth)])
    result = evaluate(labelled(rows), [b, a, recorded("c", truth)])
    comparisons = result.compare()
    first = comparisons["a", "b"]
    assert first.judges == ("a", "b")
    assert first.difference == pytest.approx(0.4)
    assert first.interval[0] < 0.4 < first.interval[1]
    assert (first.p, first.differing) == (2 / 2**8, 8)
    assert comparisons["c", "a"].p == 1
    assert comparisons["b", "c"].p == 2 / 2**8
    assert first.corrected == comparisons["b", "c"].corrected == 3 * 2 / 2**8
    assert (first.mark, comparisons["a", "c"].mark) == ("*", "")
    assert [c.p for c in result.compare("en")] == [c.p for c in comparisons]
    assert [c.p for c in result.compare(permutations=100)] != [c.p for c in comparisons]


def test_sentences_of_a_query_are_swapped_together() -> None:
    # a is right on both sentences of 6 queries on which b is wrong.
    rows = [("en", f"q{i // 2}", (YES, NO)[i % 2]) for i in range(20)]
    truth = [label for _, _, label in rows]
    b = recorded("b", [OTHER[label] if i < 12 else label for i, label in enumerate(truth)])
    result = evaluate(labelled(rows), [recorded("a", truth), b])
    assert result.compare()["a", "b"].p == 2 / 2**6
    assert result.compare()["a", "b"].differing == 12


def test_languages_weigh_the_same_in_a_comparison() -> None:
    # a is better on all three queries of en, b on all six of de, which has twice the sentences.
    rows = [("en", f"q{i}", (YES, NO)[i % 2]) for i in range(4)]
    rows += [("de", f"q{i}", (YES, NO)[i % 2]) for i in range(8)]
    truth = [label for _, _, label in rows]
    a = recorded("a", truth[:4] + [OTHER[label] for label in truth[4:]])
    b = recorded("b", [OTHER[label] for label in truth[:4]] + truth[4:])
    result = evaluate(labelled(rows), [a, b])
    assert result.compare()["a", "b"].difference == pytest.approx(0, abs=1e-12)
    assert result.compare()["a", "b"].p == 1
    assert result.compare("en")["a", "b"].judges == ("a", "b")
    assert result.compare("en")["a", "b"].p == 2 / 2**4
    assert result.compare("de")["a", "b"].judges == ("b", "a")
    assert result.compare("de")["a", "b"].p == 2 / 2**8


def test_invalid_comparisons_raise_errors() -> None:
    single = evaluate(SENTENCES, judge("right"))
    with pytest.raises(JudgmentError, match="at least two judges"):
        single.compare()
    two = evaluate(SENTENCES, [judge("a", 0), judge("b", 1)])
    with pytest.raises(UnknownNameError, match="unknown language 'fr'"):
        two.compare("fr")
    with pytest.raises(JudgmentError, match="'a' and 'x' were not compared"):
        two.compare()["a", "x"]


# Fine-grained labels


def with_fine() -> LabelledSentences:
    fine = ["copy", "copy", "conclusion", "", "new", "wrong"] * 2
    return LabelledSentences(
        SENTENCES.sentences,
        SENTENCES.labels,
        tuple((name,) for name in fine),
    )


def test_errors_by_fine_grained_label() -> None:
    result = evaluate(with_fine(), [judge("a", 0, 1, 4), judge("b")])
    errors = {(row.label, row.fine, row.judge): row[3:] for row in result.errors()}
    assert errors[YES, "copy", "a"] == (3, 2)
    assert errors[NO, "new", "a"] == (2, 1)
    assert errors[NO, "new", "b"] == (2, 0)
    assert (YES, "", "a") not in errors
    assert {key for key in errors if key[2] == "a"} == {
        (YES, "copy", "a"), (YES, "conclusion", "a"), (NO, "new", "a"), (NO, "wrong", "a"),
        (NO, "copy", "a"), (NO, "conclusion", "a"),
    }  # fmt: skip
    in_german = {(row.label, row.fine, row.judge): row[3:] for row in result.errors("de")}
    assert in_german[YES, "copy", "a"] == (1, 0)
    frame = result.errors().to_pandas()
    assert frame["wrong"].sum() == 3
    assert frame["share"].max() == pytest.approx(2 / 3)


def test_a_subset_by_fine_grained_label() -> None:
    some = with_fine().select(languages=["en"], fine=["copy", "new"])
    result = evaluate(some, judge("a", 0, 4))
    assert result["a"]["en"].recall == {YES: 1 / 2, NO: 0}


# The result


def long_result() -> MetaEvaluation:
    codes = ("ar", "bn", "de", "en", "es", "fa", "fi", "fr", "hi", "id", "ja", "ko")
    rows = [(code, f"q{i}", (YES, NO)[i % 2]) for code in codes for i in range(16)]
    numbers = by_number([100 * float(i % 2 == 0) for i in range(len(rows))])
    judges = [
        recorded(f"a judge whose name is long, number {n}, for a test", [YES, NO, None, NO] * 48)
        for n in range(14)
    ]
    sentences = labelled(rows)
    fine = tuple((f"a fine-grained label of some length {i % 4}",) for i in range(len(rows)))
    sentences = LabelledSentences(sentences.sentences, sentences.labels, fine)
    return evaluate(sentences, [score(numbers, 50.0, name="x"), *judges])


def test_tables_fit_80_columns() -> None:
    result = long_result()
    for table in (result, result.compare(permutations=10), result.errors()):
        lines = str(table).splitlines()
        assert len(lines) > 10
        assert max(map(len, lines)) <= 80
    text = str(result)
    assert " ko" in text
    assert "x: threshold 50, given" in text
    assert "invalid: sentences to which" in text


def test_a_table_by_eye() -> None:
    rows = [(code, f"{q} {n}", label) for n in range(6) for code, q, label in ROWS]
    answers = [label for _ in range(6) for label in wrong_at(0)]
    result = evaluate(labelled(rows), [recorded("mine", answers), recorded("yes", [YES] * 72)])
    lower, upper = (100 * end for end in result["mine"][MEAN].interval)
    error = 100 * result["mine"][MEAN].standard_error
    least, most = (100 * end for end in result["yes"][MEAN].interval)
    shown = {
        (name, code): f"{100 * row.balanced_accuracy:.1f} "
        f"({100 * row.interval[0]:.0f}-{100 * row.interval[1]:.0f})"
        for name in ("mine", "yes")
        for code, row in result[name].figures.items()
    }
    assert (
        str(result)
        == f"""\
Balanced accuracy in % on labelled sentences
   judge  mean  s.e.  95 % interval
   mine   93.8   {error:.1f}   {lower:.1f} to {upper:.1f}
   yes    50.0   0.0   {least:.1f} to {most:.1f}
72 sentences of 36 queries in 2 languages

By language, with 95 % intervals
   judge              de            en
   mine   {shown["mine", "de"]}  {shown["mine", "en"]}
   yes      {shown["yes", "de"]}  {shown["yes", "en"]}"""
    )


def test_a_missing_interval_has_a_reason() -> None:
    result = evaluate(SENTENCES, judge("a", 0))
    text = str(result)
    assert "interval  " not in text
    assert "no interval: too few queries (3; at least 14 are needed) in 'de'" in text
    assert "no interval" not in str(long_result())


def test_a_language_without_an_interval_is_not_shown() -> None:
    assert "By language" not in str(evaluate(SENTENCES, judge("a")))
    assert evaluate(SENTENCES, judge("a"))["a"]["de"].with_interval == ""


def test_to_pandas() -> None:
    result = evaluate(SENTENCES, [judge("a", 0), score(by_number([0.5] * 12), 0.1, name="x")])
    frame = result.to_pandas()
    assert frame["language"].tolist() == ["de", "en", MEAN] * 2
    row = frame.iloc[1]
    assert (row["judge"], row["balanced_accuracy"], row[f"recall {YES}"]) == ("a", 0.875, 0.75)
    assert (row["sentences"], row["queries"], row["invalid"]) == (6, 3, 0)
    assert {"standard_error", "lower", "upper", "roc_auc", f"recall {NO}"} < set(frame)
    assert frame["threshold"].isna().tolist() == [True] * 3 + [False] * 3
    assert set(frame["threshold"].dropna()) == {"given"}
    pairs = result.compare().to_pandas()
    assert pairs.loc[0, ["better", "other"]].tolist() == ["a", "x"]
    assert pairs.loc[0, "p"] == result.compare()["a", "x"].p


def test_names_are_looked_up() -> None:
    result = evaluate(SENTENCES, [judge("mine"), judge("yours", 1)])
    assert [row.name for row in result] == list(result.names) == ["mine", "yours"]
    with pytest.raises(UnknownNameError, match="unknown judge 'mien'; did you mean 'mine'"):
        result["mien"]
    with pytest.raises(UnknownNameError, match="unknown language 'fr'"):
        result["mine"]["fr"]
    with pytest.raises(JudgmentError, match="'mine' returns labels, not scores"):
        result["mine"].best_threshold()
    assert repr(result).startswith("MetaEvaluation(judges=['mine', 'yours'], sentences=12")
    assert repr(result["mine"]) == "JudgeResult('mine', balanced_accuracy=1.000)"


# What cannot be measured


@pytest.mark.parametrize(
    ("judges", "message"),
    [
        ([], "no judge was passed"),
        ([judge("a"), judge("a")], "two judges have the name 'a'"),
    ],
)
def test_judges_need_unique_names(judges: Sequence[Any], message: str) -> None:
    with pytest.raises(JudgmentError, match=message):
        evaluate(SENTENCES, judges)


def test_names_are_checked_before_any_judge_is_run() -> None:
    def costly(_: AnswerSentence) -> str:
        raise AssertionError("was asked")

    with pytest.raises(UnknownNameError, match="did you mean 'support_lexical'"):
        evaluate(SENTENCES, [costly, "suport_lexical"])
    with pytest.raises(JudgmentError, match="two judges have the name 'costly'"):
        evaluate(SENTENCES, [costly, costly])
    with pytest.raises(JudgmentError, match="score 'support_lexical' needs exactly two labels"):
        evaluate(SENTENCES.merged({YES: "yes"}, positive=YES), [costly, "support_lexical"])


def test_a_language_with_one_label_only() -> None:
    rows = [*ROWS, ("es", "q0", YES), ("es", "q1", YES)]
    with pytest.raises(JudgmentError, match="all sentences in 'es' have the label 'Supported'"):
        evaluate(labelled(rows), judge("a"))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        evaluate(SENTENCES, judge("a"), level=95)
    with pytest.raises(
        FeatureError, match="'answer_bleu' has no value for any of the 12 sentences"
    ):
        evaluate(SENTENCES, "answer_bleu")
    with pytest.raises(DatasetError, match="no sentence has a usable label"):
        evaluate(labelled([("en", "q", "Challenging to determine")]), judge("a"))


def test_one_query_has_no_interval() -> None:
    rows = [("en", "q", YES), ("en", "q", NO)]
    figures = evaluate(labelled(rows), recorded("a", [YES, NO]))["a"][MEAN]
    assert figures.balanced_accuracy == 1
    assert np.isnan([figures.standard_error, *figures.interval]).all()


@pytest.mark.parametrize("queries", [14, 40])
def test_a_judge_that_hardly_errs_does_not_look_certain(queries: int) -> None:
    covered = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        rows = [("en", f"q{q}", NO if rng.random() < 0.3 or q < 2 else YES) for q in range(queries)]
        sentences = labelled(rows)
        lower, upper = evaluate(sentences, recorded("a", accurate(sentences, rng, 0.95)))["a"][
            "en"
        ].interval
        covered.append(lower <= 0.95 <= upper)
    assert np.mean(covered) >= 0.9
    few = labelled([("en", f"q{i}", NO if i % 2 else YES) for i in range(13)])
    result = evaluate(few, recorded("a", [YES] * 13))
    assert np.isnan(result["a"][MEAN].interval).all()
    assert "nan" not in str(result)


def test_any_feature_or_its_name() -> None:
    rows = [("en", f"q{i}", (YES, NO)[i % 2]) for i in range(8)]
    sentences = LabelledSentences(
        tuple(
            AnswerSentence(query(q), query(q).passages[0].text if label == YES else "Bananas rot.")
            for _, q, label in rows
        ),
        tuple((label,) for _, _, label in rows),
        ((),) * 8,
    )
    result = evaluate(sentences, "support_lexical")
    assert result["support_lexical"][MEAN].balanced_accuracy == 1


# The package


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys; import mirage.metaeval; "
        "print({'numpy', 'sklearn', 'pandas', 'scipy', 'openai'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_every_public_name_can_be_imported() -> None:
    for name in metaeval.__all__:
        assert getattr(metaeval, name) is not None
    assert set(metaeval.__all__) <= set(dir(metaeval))
    misspelt = "evaluat"
    with pytest.raises(AttributeError, match=r"'mirage\.metaeval' has no attribute 'evaluat'"):
        getattr(metaeval, misspelt)
