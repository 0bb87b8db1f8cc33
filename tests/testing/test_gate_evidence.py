"""The evidence behind the gate's verdicts: coverage, allowances, identical answers, flips."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from subsets import slow_rows_except

from mirage import MirageDataset
from mirage.features import FeatureSuite, FeatureTable
from mirage.languages import LANGUAGES
from mirage.models import Response, Run
from mirage.statistics.flips import FEWEST_UNITS, flip_p_value
from mirage.surrogate.drafts import bundled_texts
from mirage.testing._evidence import COVERED
from mirage.testing.baseline import baseline_of, from_text, identical_answers, to_text
from mirage.testing.comments import comment, junit
from mirage.testing.comparison import Comparison, compare
from mirage.testing.gate import gated
from mirage.testing.regressions import (
    BaselineComparison,
    compare_with_baseline,
    extra_queries,
    later_baseline,
    result_table,
    summary,
)
from mirage.text import split_sentences

Texts = dict[str, str]
SWAHILI = MirageDataset.bundled("sw")
REFERENCES: Texts = {query.id: query.reference or "" for query in SWAHILI}
CITED = FeatureSuite(["citation_recall@10", "citation_map@10"])
UNLABELLED: dict[str, Any] = {"answers": (), "wrong_answers": (), "answerable": None}


def flat(text: str) -> str:
    return " ".join(text.split())


def without(dataset: MirageDataset, **fields: Any) -> MirageDataset:
    """Return the same queries with other values of these fields."""
    return MirageDataset((query.model_copy(update=fields) for query in dataset), name="ours")


def irrelevant(dataset: MirageDataset) -> Texts:
    """Return the first sentence of an irrelevant passage for each query, with its citation."""
    texts = {}
    for query in dataset:
        passage = next(p for p in query.passages if p.id not in query.relevant)
        texts[query.id] = f"{split_sentences(passage.text, query.language)[0]} [{passage.id}]"
    return texts


def compare_texts(
    before: Texts, after: Texts, dataset: MirageDataset, **options: Any
) -> BaselineComparison:
    saved = baseline_of(before, on=dataset, suite=FeatureSuite(gated(dataset)))
    return compare_with_baseline(after, saved, on=dataset, **options)


# Evidence -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", [c if c == "ja" else pytest.param(c, marks=pytest.mark.slow) for c in LANGUAGES]
)
@pytest.mark.parametrize("reference", [True, False])
def test_without_qrels_and_answers_nonsense_is_never_no_worse(code: str, reference: bool) -> None:
    full = MirageDataset.bundled(code)
    dataset = without(full, relevant=(), **UNLABELLED)
    if not reference:
        dataset = without(dataset, reference=None)
    before = {query.id: query.reference or "" for query in full}
    saved = baseline_of(before, on=dataset, suite=FeatureSuite(gated(dataset)))
    for texts in (dict.fromkeys(before, "xxxx yyyy [1]"), irrelevant(full)):
        comparison = compare_with_baseline(texts, saved, on=dataset).comparison
        assert comparison.verdict != "no worse"
    if not reference:
        assert summary(comparison).startswith(
            "inconclusive: no feature that measures correctness could be computed; give the "
            "queries short answers, references or relevant passages"
        )


def test_a_comment_and_junit_report_missing_evidence() -> None:
    dataset = without(SWAHILI, reference=None, relevant=(), **UNLABELLED)
    runs = compare_texts(REFERENCES, irrelevant(SWAHILI), dataset)
    assert "### Mirage: inconclusive" in comment(runs)
    assert "inconclusive: no feature that measures correctness" in comment(runs)
    assert 'name="correctness"' in junit(runs)
    assert extra_queries(runs.comparison) is None


def test_every_table_lists_its_evidence() -> None:
    false_answers = {id_: bundled_texts("sw")[id_].false for id_ in REFERENCES}
    for dataset, evidence in (
        (
            SWAHILI,
            "Evidence: short answers on 30 of 40 queries, relevant passages on 30, questions "
            "without an answer on 10",
        ),
        (
            without(SWAHILI, relevant=(), **UNLABELLED),
            "Evidence: references on 40 of 40 queries",
        ),
        (
            without(SWAHILI, reference=None, **UNLABELLED),
            "Evidence: relevant passages on 30 of 40 queries; add references to detect answers "
            "that deny a fact in the same words",
        ),
        (
            without(SWAHILI, **UNLABELLED),
            "Evidence: references on 40 of 40 queries, relevant passages on 30",
        ),
    ):
        runs = compare_texts(REFERENCES, REFERENCES | {"q01": false_answers["q01"]}, dataset)
        assert evidence in flat(result_table(runs.comparison))
        assert "39 of 40 answers are identical" in flat(result_table(runs.comparison))
        assert evidence in flat(comment(runs))


def table(values: Iterable[Iterable[float]], names: tuple[str, ...]) -> FeatureTable:
    rows = np.array([*values], dtype=float)
    return FeatureTable("m", "sw", tuple(f"q{i}" for i in range(len(rows))), names, rows)


def columns(
    before: NDArray[np.float64], after: NDArray[np.float64], name: str = "answer_match"
) -> Comparison:
    return compare(*(table(values[:, None], (name,)) for values in (before, after)))


@pytest.mark.parametrize(("measured", "verdict"), [(29, "inconclusive"), (30, "no worse")])
def test_a_measure_must_cover_half_of_the_answers(measured: int, verdict: str) -> None:
    assert COVERED == 0.5
    values = np.ones(60)
    values[measured:] = np.nan
    assert columns(values, values).verdict == verdict


def test_a_measure_at_its_worst_value_in_both_runs_is_no_evidence() -> None:
    none, some = np.zeros(60), np.zeros(60)
    some[:7] = 1.0
    assert columns(none, none).verdict == "inconclusive"
    assert columns(some, some).verdict == "no worse"
    assert columns(none, np.ones(60)).verdict == "no worse"


def test_language_and_support_alone_are_no_evidence() -> None:
    for name in ("target_language", "support_lexical", "unknown_facts", "wrong_answer"):
        assert columns(np.ones(60), np.ones(60), name).verdict == "inconclusive"


# The allowance for style --------------------------------------------------------------------------


def test_a_loss_that_counts_as_style_is_inconclusive() -> None:
    names = ("answer_match", "support_lexical")
    before = table([[1.0, 0.9]] * 60, names)
    after = table([[1.0, 0.5]] * 60, names)
    comparison = compare(before, after)
    assert comparison.verdict == "inconclusive"
    change = comparison.changes[1]
    assert change.allowance == pytest.approx(0.4)
    assert change.beyond_at_most < 0.1 < 0.4 <= change.lost_at_most
    assert extra_queries(comparison) is None
    text = flat(result_table(comparison))
    assert "support_lexical: 0.400 of its loss counts as style and raises no alarm" in text
    assert f"which “no worse” tests, is at most {change.lost_at_most:.3f}" in text
    assert "save a new baseline if the new style is intended" in text


def test_the_upper_bound_of_the_loss_is_at_least_the_loss() -> None:
    rng = np.random.default_rng(2)
    names = ("target_language", "citation_recall@10", "support_lexical", "reference_recall")
    for _ in range(20):
        before = rng.random((40, 4))
        after = np.clip(before - rng.random(4) * rng.random((40, 4)), 0, 1)
        for change in compare(table(before, names), table(after, names)).changes:
            assert change.lost_at_most >= change.before - change.after
            assert change.beyond_at_most <= change.lost_at_most + 1e-9


# Identical answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("clusters", [1, 10])
def test_identical_answers_pass_at_any_number_of_clusters(clusters: int) -> None:
    ids = [query.id for query in SWAHILI]
    runs = compare_texts(
        REFERENCES,
        dict(REFERENCES),
        SWAHILI,
        cluster={id_: str(i % clusters) for i, id_ in enumerate(ids)},
    )
    assert runs.comparison.verdict == "no worse"
    assert "40 of 40 answers are identical to the baseline's" in flat(result_table(runs.comparison))
    assert "40 of 40 answers are identical" in comment(runs)


def test_identical_answers_pass_whatever_is_measured() -> None:
    dataset = without(SWAHILI, reference=None, relevant=(), **UNLABELLED)[:5]
    texts = {query.id: REFERENCES[query.id] for query in dataset}
    runs = compare_texts(texts, dict(texts), dataset)
    assert runs.comparison.verdict == "no worse"
    assert "5 of 5 answers are identical" in flat(result_table(runs.comparison))


@pytest.mark.parametrize("code", ["en", "ja", "te"])
@pytest.mark.parametrize("answered", [10, 38])
def test_queries_without_an_answer_in_the_baseline_are_not_compared(
    code: str, answered: int
) -> None:
    dataset = MirageDataset.bundled(code)
    ids = dataset.query_ids
    references = {query.id: query.reference or "" for query in dataset}
    partial = {id_: references[id_] for id_ in ids[:answered]}
    for later in (partial, partial | dict.fromkeys(ids[answered:], "xxxx")):
        runs = compare_texts(partial, later, dataset)
        comparison = runs.comparison
        assert comparison.verdict == ("inconclusive" if answered == 10 else "no worse")
        assert (len(comparison.before), comparison.left_out) == (answered, 40 - answered)
        assert comparison.evidence.queries == answered
        table = flat(result_table(comparison))
        assert f"{answered} of 40 queries" in table
        assert f"{40 - answered} queries are not compared, because the baseline has no" in table
        assert ("save a baseline that has answers to all queries" in table) == (answered == 10)
        assert "not compared, because" in comment(runs)
        assert later_baseline(runs).table.query_ids == ids


def test_repeats_are_identical_in_any_order() -> None:
    def run(*texts: str) -> Run:
        responses = [
            Response(query_id=query.id, text=text, repeat=i)
            for query in SWAHILI
            for i, text in enumerate(texts)
        ]
        return Run(model="m", language="sw", responses=tuple(responses))

    def identical(before: Run, after: Run) -> bool:
        same = identical_answers(baseline_of(before, on=SWAHILI, suite=CITED), after)
        return same is not None and bool(same.all())

    assert identical(run("Nile.", "Congo."), run("Congo.", "Nile."))
    assert identical(run("Nile.", "Nile."), run("Nile."))
    assert not identical(run("Nile.", "Congo."), run("Nile."))
    assert not identical(run("Nile.", "Nile.", "Congo."), run("Nile.", "Congo.", "Congo."))


def test_a_baseline_without_digests_is_still_read() -> None:
    saved = baseline_of(REFERENCES, on=SWAHILI, suite=CITED)
    assert from_text(to_text(saved), "b.json").digests == saved.digests
    content = json.loads(to_text(saved))
    del content["digests"]
    old = from_text(json.dumps(content), "b.json")
    runs = compare_with_baseline(REFERENCES, old, on=SWAHILI)
    assert runs.comparison.identical is None
    assert runs.comparison.verdict == "no worse"
    assert "identical" not in result_table(runs.comparison)


# Answers that turned from right to wrong ----------------------------------------------------------


@pytest.mark.parametrize("queries", [FEWEST_UNITS, 30, 100])
def test_three_answers_that_turned_wrong_are_found_if_nothing_else_changed(queries: int) -> None:
    right, wrong = np.ones(queries), np.ones(queries)
    wrong[:3] = 0.0
    comparison = columns(right, wrong)
    assert comparison.verdict == "worse"
    assert comparison.changes[0].p == flip_p_value(queries, 3) <= 0.05
    assert columns(right[1:], wrong[1:]).verdict != "worse"  # two
    before = right.copy()
    before[5] = 0.0  # and one that turned right
    assert columns(before, wrong).verdict != "worse"
    few = slice(0, FEWEST_UNITS - 1)
    assert columns(right[few], wrong[few]).verdict != "worse"


def reworded(queries: int, wrong: int, right: int = 0) -> Comparison:
    """Compare runs with reworded answers, of which some turned wrong and some turned right."""
    names = ("answer_match", "wrong_answer", "support_lexical")
    rng = np.random.default_rng(0)
    before, after = (
        np.stack([np.ones(queries), np.zeros(queries), rng.uniform(0.5, 0.8, queries)], axis=1)
        for _ in range(2)
    )
    for i in range(wrong):
        after[i, i % 2] = float(i % 2)  # in turn, a right answer is missing or a wrong one is added
    before[wrong : wrong + right, 0] = 0.0
    return compare(table(before, names), table(after, names), ["wrong_answer"])


@pytest.mark.parametrize(("queries", "fewest"), [(30, 3), (40, 3), (60, 4), (100, 6)])
def test_flips_are_found_beside_reworded_answers_above_their_base_rate(
    queries: int, fewest: int
) -> None:
    assert reworded(queries, fewest).verdict == "worse"
    assert reworded(queries, fewest - 1).verdict != "worse"
    assert reworded(queries, 3, right=1).verdict != "worse"


def test_changes_that_are_no_flips_do_not_hide_three_flips() -> None:
    names = ("answer_match", "citation_map@10")
    before, after = np.ones((40, 2)), np.ones((40, 2))
    after[:3, 0] = 0.0
    assert compare(table(before, names), table(after, names)).verdict == "worse"
    after[20, 1], before[21, 1] = 0.5, 0.5
    assert compare(table(before, names), table(after, names)).verdict == "worse"


def test_a_gain_in_one_of_three_repeats_counts_as_a_flip() -> None:
    before, after = np.ones((40, 1)), np.ones((40, 1))
    after[:3] = 0.0
    names = ("answer_match",)
    assert compare(table(before, names), table(after, names)).verdict == "worse"
    before[10] = 2 / 3
    assert compare(table(before, names), table(after, names)).verdict != "worse"


def test_identical_answers_are_not_reworded() -> None:
    right, wrong = np.ones(100), np.ones(100)
    wrong[:3] = 0.0
    names = ("answer_match",)
    tables = table(right[:, None], names), table(wrong[:, None], names)
    for identical, verdict in ((wrong == 1, "worse"), (np.zeros(100, bool), "no worse")):
        assert compare(*tables, identical=identical).verdict == verdict


@pytest.mark.parametrize(
    ("queries", "moved"),
    slow_rows_except([(5, 0.5), (30, 0.12)], [(5, 0.5), (20, 0.2), (30, 0.12), (100, 0.04)]),
)
def test_flips_both_ways_keep_the_false_positive_rate(queries: int, moved: float) -> None:
    rate = 0.0
    for flips in range(3, int(binom.ppf(0.995, queries, moved)) + 1):
        for worse in range(flips // 2 + 1, flips + 1):
            before, after = np.ones(queries), np.ones(queries)
            after[:worse], before[worse:flips] = 0.0, 0.0
            if columns(before, after).regressed(0.05):
                rate += binom.pmf(flips, queries, moved) * binom.pmf(worse, flips, 0.5)
    assert rate <= 0.0505


@pytest.mark.parametrize("kind", ["wrong answer", "refusal", "invention"])
def test_three_bundled_answers_that_turned_wrong_are_found(kind: str) -> None:
    answerable = [query.id for query in SWAHILI if query.answerable]
    open_questions = [query.id for query in SWAHILI if not query.answerable]
    ids = (open_questions if kind == "invention" else answerable)[:3]
    written = bundled_texts("sw")
    refusal = written[open_questions[0]].terse
    lies = {id_: refusal if kind == "refusal" else written[id_].false for id_ in ids}
    true = {id_: texts.true[0] for id_, texts in written.items()}
    assert compare_texts(true, true | lies, SWAHILI).comparison.verdict == "worse"
