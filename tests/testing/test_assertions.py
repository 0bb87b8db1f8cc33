"""The assertions outside pytest's plugin: when they hold, when they fail, and their messages."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage import FeatureSuite, Leaderboard, MirageDataset, MirageError, respond
from mirage.errors import (
    DatasetError,
    FeatureError,
    GenerationError,
    SettingError,
    UnknownNameError,
)
from mirage.features import Facts, FeatureTable
from mirage.features.base import FunctionFeature
from mirage.models import Query, Response
from mirage.ranking import Entry, MultilingualRanking, Ranking
from mirage.testing import (
    FellShortError,
    assert_feature,
    assert_no_regression,
    assert_ranks,
    save_baseline,
)
from mirage.testing._shortfalls import Finding, format_change, worse_queries
from mirage.testing.baseline import Baseline
from mirage.testing.gate import gated, more_than_wording

CITED = FeatureSuite(["citation_recall@10", "citation_map@10"])
SWAHILI = MirageDataset.bundled("sw")
Texts = dict[str, str]


def without_citations(text: str) -> str:
    return re.sub(r"\s?\[[^\]]+\]", "", text)


@pytest.fixture
def good() -> Texts:
    return {query.id: query.reference or "" for query in SWAHILI}


@pytest.fixture
def uncited(good: Texts) -> Texts:
    """Return the good responses, of which the first seven have lost their citations."""
    return {id_: without_citations(t) if id_ < "q08" else t for id_, t in good.items()}


@pytest.fixture
def baseline(good: Texts, tmp_path: Path) -> Baseline:
    return save_baseline(good, tmp_path / "b.json", on="sw", suite=CITED)


def length(_: Query, response: Response) -> float:
    return float(len(response.text or ""))


def flat(message: str) -> str:
    """Return a message on one line."""
    return " ".join(message.split())


def failure_message(assertion: Callable[..., None], *args: Any, **options: Any) -> str:
    with pytest.raises(FellShortError) as caught:
        assertion(*args, **options)
    return str(caught.value)


# Features -----------------------------------------------------------------------------------------


def test_a_feature_within_its_bounds_holds(good: Texts) -> None:
    strict = {"inconclusive": "fail"}
    assert_feature(good, "citation_recall@10", ge=0.9, le=1, on="sw", **strict, alpha=0.1)
    assert_feature(good, "citation_recall@10", ge=0.8, le=1, on=SWAHILI, **strict)
    assert_feature(good, "citation_Recall@10", ge=0.9, on=Leaderboard.bundled("sw"), **strict)
    assert_feature(lambda query: good[query.id], length, ge=50, on="sw", **strict)
    run = respond(good, SWAHILI)  # which knows its language
    assert assert_feature(run, "citation_map@10", ge=0.9, **strict).verdict == "holds"


def test_a_feature_that_falls_short_shows_the_five_worst_queries(uncited: Texts) -> None:
    message = failure_message(
        assert_feature, uncited, "citation_recall@10", ge=0.95, on="sw", model="my-rag"
    )
    assert message.startswith("citation_recall@10 of my-rag is 0.767 on bundled-sw, not >= 0.95\n")
    assert "30 of 40" in message
    assert "not in the mean: 10, such as q13: the query has no relevant" in flat(message)
    query_ids = re.findall(r"^- (q\d\d) “", message, re.MULTILINE)
    assert query_ids == ["q01", "q02", "q03", "q04", "q05"]
    assert SWAHILI["q01"].text in message
    assert "answer: Mto mrefu" in flat(message)
    assert all(len(line) <= 80 for line in message.splitlines())


def test_a_broken_upper_bound_shows_the_highest_values(good: Texts) -> None:
    longest = max(good, key=lambda id_: len(good[id_]))
    message = failure_message(assert_feature, good, length, le=10, on="sw")
    assert re.findall(r"^- (q\d\d) “", message, re.MULTILINE)[0] == longest


def test_failed_queries_fail_the_assertion_unless_allowed(good: Texts) -> None:
    def fails_twice(query: Query) -> str:
        if query.id in ("q02", "q05"):
            raise TimeoutError("no answer arrived within 5 s")
        return good[query.id]

    message = failure_message(assert_feature, fails_twice, "citation_recall@10", ge=0, on="sw")
    assert message.startswith("my-model failed on 2 of 40 queries of bundled-sw")
    assert "TimeoutError: no answer arrived within 5 s" in message
    assert_feature(fails_twice, "citation_recall@10", ge=0.8, on="sw", allow_failed=2)


def test_control_characters_of_responses_are_escaped(good: Texts) -> None:
    hostile = dict.fromkeys(good, "\x1b[2J\u202e##Answer: a\x07b\r\n\n" + "y" * 5000)
    message = failure_message(assert_feature, hostile, "citation_recall@10", ge=1, on="sw")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", message)
    assert len(message) < 4000


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, SettingError, "needs a lower bound"),
        ({"ge": "high"}, SettingError, "ge='high' is not a finite number"),
        ({"ge": float("nan")}, SettingError, "ge=nan is not a finite number"),
        ({"ge": 1, "on": "xx"}, UnknownNameError, "unknown language 'xx'"),
        ({"ge": 1, "on": 7}, DatasetError, "on= is of the type int"),
        ({"ge": 1, "on": [1]}, DatasetError, "on= is of the type list"),
        ({"ge": 1, "on": [1]}, DatasetError, "MirageDataset(queries) takes a list of them"),
        ({"ge": 1, "on": "q.jsonl"}, DatasetError, "on=MirageDataset.load('q.jsonl')"),
        ({"ge": 1, "on": Path("q")}, DatasetError, "on=MirageDataset.load('q')"),
        ({"ge": 1, "feature": "citation_recal@10"}, UnknownNameError, "did you mean 'citation_"),
        ({"ge": 1, "model": 7}, DatasetError, "7 cannot answer queries"),
        ({"ge": 1, "model": {}}, GenerationError, "failed on all 40 queries"),
        ({"ge": 1, "model": {"q99": ""}}, UnknownNameError, "unknown query 'q99' in bundled-sw"),
    ],
)
def test_bad_input_is_one_clear_error(
    good: Texts, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {"model": good, "feature": "citation_recall@10", "on": "sw"} | options
    with pytest.raises(error, match=re.escape(message)):
        assert_feature(arguments.pop("model"), arguments.pop("feature"), **arguments)


def test_the_error_without_a_language_names_the_ways_to_set_one(
    good: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirage.testing._inputs.default_language", lambda: None)
    with pytest.raises(DatasetError, match=r"give on='sw'.*mirage_language = sw"):
        assert_feature(good, "citation_recall@10", ge=1)


def test_a_feature_that_no_response_has_is_an_error(good: Texts) -> None:
    bare = MirageDataset(query.model_copy(update={"relevant": ()}) for query in SWAHILI)
    with pytest.raises(FeatureError, match=r"no value for any response.*no relevant passage"):
        assert_feature(good, "citation_recall@10", ge=0, on=bare)


def test_only_the_line_of_the_test_is_in_the_traceback(good: Texts) -> None:
    for options, error in (({"ge": 2}, SettingError), ({"ge": 0, "on": "xx"}, MirageError)):
        with pytest.raises(error) as caught:
            assert_feature(good, "citation_recall@10", **{"on": "sw", **options})
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert names == ["test_only_the_line_of_the_test_is_in_the_traceback", "wrapper"]


def test_an_exception_of_the_system_is_the_cause_of_the_error() -> None:
    def broken(_: Query) -> str:
        raise ZeroDivisionError("in the user's code")

    with pytest.raises(GenerationError) as caught:
        assert_feature(broken, "citation_recall@10", ge=0, on="sw")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# Rankings -----------------------------------------------------------------------------------------


def test_a_model_ranks_above_a_worse_one_and_not_above_a_better_one(
    good: Texts, uncited: Texts
) -> None:
    assert_ranks(good, "anchor/uncited", on="sw")
    message = failure_message(assert_ranks, uncited, "anchor/reference", on="sw", model="my-rag")
    assert re.match(r"my-rag is better than anchor/reference with a confidence of 0\.\d\d", message)
    assert "0.9 is required" in flat(message)
    query_ids = re.findall(r"^- (q\d\d) “", message, re.MULTILINE)
    assert set(query_ids) <= {f"q0{i}" for i in range(1, 8)}  # those without citations
    assert len(query_ids) == 5
    assert "Means of anchor/reference: target_language " in message


def test_the_confidence_is_p_better(uncited: Texts) -> None:
    board = Leaderboard.bundled("sw")
    ranking = board.rank(uncited, model="my-rag")
    # Seven of thirty answers without citations are surely better than thirty, and worse than none.
    assert ranking.p_better("my-rag", "anchor/uncited") > 0.9
    assert ranking.p_better("my-rag", "anchor/reference") < 0.5
    for other in ("anchor/reference", "anchor/verbose", "anchor/over-cited"):
        p_better = ranking.p_better("my-rag", other)
        assert 0 < p_better < 1
        assert_ranks(ranking, other, p_better)
        assert_ranks(uncited, other, p_better - 0.01, on=board, model="my-rag")
        with pytest.raises(FellShortError):
            assert_ranks(ranking, other, p_better + 0.001)
        message = flat(failure_message(assert_ranks, ranking, other, p_better + 1e-5))
        stated = re.search(r"a confidence of ([\d.]+), but ([\d.]+) is required", message)
        assert stated
        assert float(stated[1]) < float(stated[2])


def test_a_published_ranking_needs_a_name() -> None:
    published = Leaderboard.published("sw")
    best, worst = published.models[0], published.models[-1]
    assert_ranks(published, worst, model=best)
    message = flat(failure_message(assert_ranks, published, best, model=worst))
    assert f"{worst} is better than {best} with a confidence of 0.00" in message
    with pytest.raises(DatasetError, match=r"has only anchors.*model="):
        assert_ranks(published, worst)


def test_bad_input_for_a_rank_is_one_clear_error(good: Texts) -> None:
    two = Ranking([Entry(1, "a", 1.0, (0, 2)), Entry(2, "b", 0.0, (-1, 1))], language="sw")
    for model, at_least, options, message in (
        (good, "uncited", {"on": "sw"}, "did you mean 'anchor/uncited'"),
        (good, "anchor/uncited", {"on": SWAHILI}, "is a dataset, but a rank needs a leaderboard"),
        (good, "anchor/uncited", {"on": "sw", "confidence": 90}, "above 0 and below 1, got 90"),
        (good, "anchor/uncited", {"on": "xx"}, "unknown language 'xx'"),
        (two, "b", {}, r"several models \(a, b\); choose one with model="),
        (
            MultilingualRanking({"sw": two}),
            "b",
            {},
            r"pass the ranking of one language.*ranking\['sw'\]",
        ),
    ):
        with pytest.raises(MirageError, match=message):
            assert_ranks(model, at_least, **options)


def test_a_ranked_model_may_not_fail_on_more_than_is_allowed(good: Texts) -> None:
    some = dict(list(good.items())[3:])
    assert "failed on 3 of 40" in failure_message(assert_ranks, some, "anchor/garbled", on="sw")
    assert_ranks(some, "anchor/garbled", on="sw", allow_failed=3)


# Regressions --------------------------------------------------------------------------------------


def test_the_run_of_the_baseline_is_no_regression(good: Texts, baseline: Baseline) -> None:
    assert_no_regression(good, baseline)
    assert_no_regression(lambda query: good[query.id], baseline, on=SWAHILI, suite=CITED)


def test_a_better_run_is_no_regression(good: Texts, uncited: Texts, tmp_path: Path) -> None:
    save_baseline(uncited, tmp_path / "b.json", on="sw", suite=CITED)
    assert_no_regression(good, tmp_path / "b.json")


@pytest.mark.usefixtures("baseline")
def test_the_error_on_a_worse_run_shows_the_worst_queries(uncited: Texts, tmp_path: Path) -> None:
    message = failure_message(assert_no_regression, uncited, tmp_path / "b.json", model="my-rag")
    assert message.startswith(
        "my-rag is worse than the baseline in citation_recall@10, citation_map"
    )
    assert re.search(r"\* +citation_recall@10 +1\.000 +0\.767 +-0\.233 +7 +0 +0\.00\d\d", message)
    assert "(7, the 5 worst)" in message
    assert len(re.findall(r"^- q0[1-7] “", message, re.MULTILINE)) == 5
    assert "citation_recall@10 1.000 → 0.000" in flat(message)
    assert "Since the baseline" not in message


@pytest.mark.usefixtures("baseline")
def test_the_error_names_packages_with_another_version_than_the_baseline(
    uncited: Texts, tmp_path: Path
) -> None:
    file = tmp_path / "b.json"
    text = re.sub(r'"sacrebleu": "[^"]+"', '"sacrebleu": "1.0"', file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8")
    message = flat(failure_message(assert_no_regression, uncited, file))
    assert "Since the baseline: sacrebleu 1.0 → " in message


# What the gate compares ---------------------------------------------------------------------------


def paraphrases(fact: Callable[[Query], str]) -> Texts:
    """Return a cited sentence per answerable query, in other words than the reference."""
    return {
        query.id: f"Kulingana na vifungu, ni {fact(query)} [{', '.join(query.relevant)}]."
        for query in SWAHILI
        if query.answerable
    }


@pytest.fixture
def true(good: Texts) -> Texts:
    return good | paraphrases(lambda query: ", ".join(forms[0] for forms in query.answers))


@pytest.fixture
def false(good: Texts) -> Texts:
    return good | paraphrases(lambda query: query.wrong_answers[0][0])


def test_a_lie_is_a_regression_and_its_words_are_quoted(
    true: Texts, false: Texts, tmp_path: Path
) -> None:
    save_baseline(true, tmp_path / "b.json", on="sw")
    message = flat(failure_message(assert_no_regression, false, tmp_path / "b.json"))
    assert "answer_match, wrong_answer" in message.partition(", on bundled-sw")[0]
    wrong, right = SWAHILI["q01"].wrong_answers[0][0], SWAHILI["q01"].answers[0][0]
    assert f"(lost “{right}”)" in message
    assert f"(says “{wrong}”" in message


def test_a_true_answer_in_other_words_is_no_regression(
    good: Texts, true: Texts, tmp_path: Path
) -> None:
    earlier = save_baseline(good, tmp_path / "b.json", on="sw")
    comparison = assert_no_regression(true, earlier)
    compared = [change.feature for change in comparison.changes if change.queries]
    assert compared[:4] == [
        "target_language",
        "citation_recall@10",
        "citation_map@10",
        "support_lexical",
    ]
    assert {"answer_match", "wrong_answer"} <= set(compared)
    assert not {"answer_bleu", "answer_rougeL", "relevance_lexical", "fact_agreement"} & set(
        compared
    )
    message = failure_message(assert_no_regression, true, earlier, features=["answer_bleu"])
    assert "worse than the baseline in answer_bleu" in flat(message)


def test_a_baseline_with_features_of_wording_alone_compares_them(
    good: Texts, true: Texts, tmp_path: Path
) -> None:
    suite = FeatureSuite(["answer_rougeL"])
    earlier = save_baseline(good, tmp_path / "b.json", on="sw", suite=suite)
    assert "in answer_rougeL" in flat(failure_message(assert_no_regression, true, earlier))


def test_requested_features_must_be_in_the_baseline(good: Texts, baseline: Baseline) -> None:
    (change,) = assert_no_regression(good, baseline, features=["citation_MAP@10"]).changes
    assert change.feature == "citation_map@10"
    with pytest.raises(UnknownNameError, match=r"feature 'answer_bleu' in the baseline"):
        assert_no_regression(good, baseline, features=["answer_bleu"])
    with pytest.raises(SettingError, match="features is empty"):
        assert_no_regression(good, baseline, features=[])


def test_without_short_answers_features_of_the_reference_are_compared() -> None:
    plain = [query.model_copy(update={"answers": ()}) for query in SWAHILI]
    with_answers, without = gated(SWAHILI), gated(MirageDataset(plain))
    assert "answer_match" in with_answers
    assert not {"fact_agreement", "fact_precision"} & set(with_answers)
    substitutes = {"fact_agreement", "fact_precision"} & set(FeatureSuite.available())
    assert set(without) == {*with_answers, *substitutes}


def test_an_answer_too_short_for_its_language_is_not_lost(good: Texts, tmp_path: Path) -> None:
    suite = FeatureSuite(["target_language", "answer_match"])
    earlier = save_baseline(good, tmp_path / "b.json", on="sw", suite=suite)
    assert_no_regression(good | {"q01": "##Answer: Nile."}, earlier)


def test_the_allowances_for_wording_and_style_are_subtracted() -> None:
    names = ["target_language", "citation_recall@10", "support_lexical", "own"]
    worse = np.array([[0.2, 0.5, 0.6, 0.1], [0.9, 1.0, 0.4, 0.1], [0.0, 0.0, 0.9, np.nan]])
    remaining = more_than_wording(worse[None], names)
    assert remaining[:, 0].tolist() == [0.0, 0.9, 0.0]
    assert remaining[:, 1].tolist() == [0.0, 1.0, 0.0]
    assert remaining[:, 2] == pytest.approx([0.0, 0.0, 0.4])  # less 0.5 (style), 0.1 (wording)
    np.testing.assert_array_equal(remaining[:, 3], worse[:, 3])
    better = more_than_wording(-worse[None], names)
    assert better[:, 2] == pytest.approx([-0.6, -0.4, -0.9])
    # The allowance for wording applies to each repeat, not to the mean of two repeats.
    assert more_than_wording(np.stack([worse, worse * 0]), names)[1, 1] == 0.5


def test_alpha_is_the_level(good: Texts, baseline: Baseline) -> None:
    three = {id_: without_citations(t) if id_ < "q04" else t for id_, t in good.items()}
    assert_no_regression(three, baseline)  # p is half of 1/8: one of 8 ways to draw three signs
    assert "at alpha 0.1" in flat(failure_message(assert_no_regression, three, baseline, 0.1))
    for alpha in (0, 1, 5):
        with pytest.raises(SettingError, match=f"alpha must be above 0 .* got {alpha}"):
            assert_no_regression(good, baseline, alpha)


def test_a_feature_can_declare_that_smaller_is_better(good: Texts, tmp_path: Path) -> None:
    suite = FeatureSuite([FunctionFeature(length, facts=Facts("lower"))])
    longer = {id_: text * 2 for id_, text in good.items()}
    save_baseline(good, tmp_path / "b", on="sw", suite=suite)
    assert "worse than the baseline in length" in failure_message(
        assert_no_regression, longer, tmp_path / "b", suite=suite
    )
    suite = FeatureSuite([length])
    save_baseline(good, tmp_path / "b", on="sw", suite=suite)
    assert_no_regression(longer, tmp_path / "b", suite=suite)


def test_lost_queries_fail_the_assertion_unless_allowed(good: Texts, baseline: Baseline) -> None:
    some = dict(list(good.items())[2:])
    message = failure_message(assert_no_regression, some, baseline)
    assert message.startswith("my-model has no features for 2 of 40 queries of bundled-sw")
    assert "failed: no response to this query" in flat(message)
    assert_no_regression(some, baseline, allow_failed=2)


def test_a_query_that_failed_in_the_baseline_may_fail_again(good: Texts, tmp_path: Path) -> None:
    some = dict(list(good.items())[2:])
    earlier = save_baseline(some, tmp_path / "b.json", on="sw", suite=CITED)
    assert_no_regression(some, earlier)
    assert_no_regression(good, earlier)


def test_a_feature_that_neither_run_has_is_left_out(
    good: Texts, uncited: Texts, tmp_path: Path
) -> None:
    def with_citations(_: Query, response: Response) -> float:
        return float("[" in (response.text or ""))

    bare = MirageDataset(query.model_copy(update={"relevant": ()}) for query in SWAHILI)
    suite = CITED + with_citations
    earlier = save_baseline(good, tmp_path / "b.json", on=bare, suite=suite)
    assert_no_regression(good, earlier, on=bare, suite=suite)
    message = failure_message(assert_no_regression, uncited, earlier, on=bare, suite=suite)
    assert "worse than the baseline in with_citations" in flat(message)
    assert "not compared, citation_recall@10: the query has no relevant passage" in flat(message)


def test_a_baseline_of_other_queries_or_features_is_one_clear_error(
    good: Texts, baseline: Baseline, tmp_path: Path
) -> None:
    with pytest.raises(DatasetError, match="35 queries are missing"):
        assert_no_regression(good, baseline, on=SWAHILI[:5])
    with pytest.raises(FeatureError, match="the features citation_map@10, length are only in"):
        assert_no_regression(good, baseline, suite=FeatureSuite(["citation_recall@10", length]))
    assert_no_regression(good, baseline, on=Leaderboard.bundled("sw"))
    user_defined = save_baseline(good, tmp_path / "own", on="sw", suite=FeatureSuite([length]))
    with pytest.raises(FeatureError, match=r"unknown feature 'length'.*suite="):
        assert_no_regression(good, user_defined)


def test_worse_features_come_first_in_the_description_of_a_query() -> None:
    table = FeatureTable("m", "en", ("q1", "q2"), ("a", "b", "c", "d"), np.zeros((2, 4)))
    worse = np.array([[9.0, 8.0, 1.0, 7.0], [0.0, 0.0, 2.0, np.nan]])
    findings = worse_queries(worse, table, lambda i, j: f"{table.features[j]}{i}", first=[2])
    assert findings == [Finding("q2", "c1"), Finding("q1", "c0, a0, b0")]
    leading = worse_queries(worse, table, lambda i, j: f"{table.features[j]}{i}", [0, 1, 2], [2])
    assert leading[0] == Finding("q1", "c0, a0, b0")
    assert format_change(0.5, 0.4999) == format_change(0.4999, 0.5) == "+0.000"
    assert format_change(0.5, 0.25) == "-0.250"
    assert [finding.query_id for finding in worse_queries(worse, table, lambda *_: "")] == [
        "q1",
        "q2",
    ]
