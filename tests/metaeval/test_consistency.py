"""Consistency across languages: rules with a known kappa, and recorded verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from direct_llm import DirectLLM, DirectServer
from injections import marked
from llm_server import last_user_text
from sklearn.metrics import cohen_kappa_score

from mirage import MirageDataset, respond
from mirage.arena import PairwiseJudge
from mirage.arena.pairs import Pair
from mirage.errors import JudgmentError
from mirage.languages import LANGUAGES
from mirage.metaeval import (
    AnswerSentence,
    LLMSentenceJudge,
    language_consistency,
    pair_verdicts,
    sentence_verdicts,
)
from mirage.models import Judgment, Passage, Query

CODES = tuple(LANGUAGES)
YES, NO = "Supported", "Not Supported"


def sentences(codes: tuple[str, ...] = CODES, queries: int = 20) -> list[AnswerSentence]:
    """Return two sentences per query; their first words differ, so that a rule can judge them."""
    passages = (Passage(id="1", text="-"),)
    return [
        AnswerSentence(Query(id=f"q{n}", language=code, text="-", passages=passages), text)
        for code in codes
        for n in range(queries)
        for text in (f"true {n}", f"false {n}")
    ]


@pytest.fixture
def server() -> DirectServer:
    return DirectServer()


def judge_at(server: DirectServer) -> LLMSentenceJudge:
    return LLMSentenceJudge(DirectLLM("judge", server, backoff=0.0))


def test_a_rule_without_a_language_has_kappa_1_in_18(server: DirectServer) -> None:
    server.answer = lambda request: answer("true" in sentence_in(request))
    consistency = language_consistency(sentence_verdicts(judge_at(server), sentences(queries=3)))
    assert len(consistency.languages) == 18
    assert len(consistency.rows) == 18 * 17 / 2
    assert (consistency.items, consistency.queries) == (6, 3)
    assert consistency.alpha == consistency.kappa == consistency.agreement == 1
    assert {row.kappa for row in consistency} == {1}
    assert np.isnan(consistency.alpha_interval[0])


def sentence_in(request: Mapping[str, Any]) -> str:
    return dict(marked(last_user_text(request))[0])["sentence"]


def answer(supported: bool) -> str:
    return f"<answer>{YES if supported else NO}</answer>"


def test_a_rule_that_depends_on_the_language_has_the_kappa_of_its_table(
    server: DirectServer,
) -> None:
    """In German false sentences on every other query pass: 20, 10 and 10 of 40 in the cells."""

    def rule(request: Mapping[str, Any]) -> str:
        word, number = sentence_in(request).split()
        text = last_user_text(request)
        lenient = "is in German" in text and int(number) % 2 == 0
        return answer(word == "true" or lenient)

    server.answer = rule
    items = sentences(("en", "de", "sw"))
    consistency = language_consistency(sentence_verdicts(judge_at(server), items), judge="lenient")
    # Agreement 3/4; by chance 3/4 * 1/2 + 1/4 * 1/2 = 1/2.
    assert consistency.pair("de", "en").kappa == pytest.approx(0.5)
    assert consistency.pair("en", "sw").kappa == 1
    assert consistency.kappas["de"] == pytest.approx(0.5)
    assert consistency.kappas["sw"] == pytest.approx(0.75)
    lower, upper = consistency.pair("en", "de").interval
    assert lower < 0.5 < upper
    assert consistency.agreement == pytest.approx((0.75 + 0.75 + 1) / 3)
    assert "Agreement of lenient with itself in 3 languages, on 40 items of 20" in str(consistency)
    assert "lowest: en and de, 0.50" in str(consistency)


def test_recorded_verdicts_have_the_figures_of_other_libraries() -> None:
    krippendorff = pytest.importorskip("krippendorff")
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=60)
    codes = np.where(rng.random((4, 60)) < 0.7, truth, rng.integers(3, size=(4, 60)))
    verdicts = {
        code: {(f"q{n // 2}", str(n)): int(verdict) for n, verdict in enumerate(row)}
        for code, row in zip(("en", "de", "fr", "ja"), codes, strict=True)
    }
    consistency = language_consistency(verdicts)
    alpha = krippendorff.alpha(codes, level_of_measurement="nominal", value_domain=[0, 1, 2])
    assert consistency.alpha == pytest.approx(alpha)
    expected = cohen_kappa_score(codes[0], codes[3])
    assert consistency.pair("en", "ja").kappa == pytest.approx(expected)
    assert consistency.queries == 30
    assert len(consistency.to_pandas()) == 6
    alone = {
        code: {(str(n), "-"): by_item[item] for n, item in enumerate(by_item)}
        for code, by_item in verdicts.items()
    }
    assert language_consistency(alone).alpha_interval != consistency.alpha_interval


def test_missing_verdicts_are_counted_and_left_out() -> None:
    both = {(f"q{n}",): n % 2 for n in range(20)}
    consistency = language_consistency({"en": both, "de": {**both, ("q0",): None, ("q9",): None}})
    assert consistency.missing == {"en": 0, "de": 2}
    assert (consistency.items, consistency.alpha) == (18, 1)
    with pytest.raises(JudgmentError, match="no item has a verdict in two"):
        language_consistency({"en": {("a",): 1}, "de": {("b",): 1}})
    with pytest.raises(JudgmentError, match="at least two languages, got 1"):
        language_consistency({"en": both})
    with pytest.raises(JudgmentError, match="2 sentences in 'en' and 1 in 'de'"):
        sentence_verdicts(None, sentences(("en", "de"), 1)[:3])  # type: ignore[arg-type]


@pytest.mark.parametrize(("apart", "has_interval"), [(4, False), (5, True)])
def test_an_interval_takes_five_queries_on_which_verdicts_differ(
    apart: int, has_interval: bool
) -> None:
    verdicts = {(f"q{n}",): n % 2 for n in range(40)}
    other = verdicts | {(f"q{n}",): 1 - n % 2 for n in range(apart)}
    consistency = language_consistency({"en": verdicts, "de": other})
    assert consistency.kappa < 1
    for ends in (
        consistency.alpha_interval,
        consistency.rows[0].interval,
        consistency.kappas_intervals["de"],
    ):
        assert np.isnan(ends[0]) != has_interval


def test_a_language_has_an_interval_where_it_is_the_one_that_differs() -> None:
    base = {(f"q{n}",): n % 2 for n in range(40)}
    verdicts = {code: dict(base) for code in ("ar", "de", "en", "fi", "sw")}
    verdicts["sw"] |= {(f"q{n}",): 1 - n % 2 for n in range(8)}
    intervals = language_consistency(verdicts).kappas_intervals
    assert [code for code, (low, _) in intervals.items() if not np.isnan(low)] == ["sw"]


class SwappingJudge:
    """A judge that prefers the model ``long``, and returns the two models in reverse order."""

    def judge(self, *columns: Any, **_: Any) -> Any:
        return [
            Judgment(query_id=q, model_a=b, model_b=a, verdict="a" if b == "long" else "b")
            for q, a, b in columns[2]
        ]


def test_a_verdict_is_of_the_pair_that_was_asked_about() -> None:
    dataset = MirageDataset(list(MirageDataset.bundled("en"))[:1])
    pairs = [Pair(next(iter(dataset)).id, "long", "x")]
    verdicts = pair_verdicts(SwappingJudge(), {"en": (dataset, [])}, pairs=pairs)
    assert [*verdicts["en"].values()] == ["a"]


def test_a_judge_of_pairs_on_the_bundled_corpus(server: DirectServer) -> None:
    parallel = {}
    for code in ("en", "sw"):
        whole = MirageDataset.bundled(code)
        dataset = MirageDataset(list(whole)[:6], name=code)
        runs = [
            respond(lambda query: f"##Answer: {query.passages[0].text} [1]", dataset, "long"),
            respond(lambda _: "##Answer: ?", dataset, "short"),
        ]
        parallel[code] = dataset, runs
    judge = PairwiseJudge(DirectLLM("judge", server, backoff=0.0), both_orders=True)
    server.answer = lambda _: "[[A]]"  # the first: a tie in both orders
    assert set(pair_verdicts(judge, parallel, progress=False)["sw"].values()) == {"tie"}
    judge = PairwiseJudge(DirectLLM("judge", server, backoff=0.0))
    verdicts = pair_verdicts(judge, parallel, progress=False)
    assert set(verdicts["en"].values()) == {"a"}
    assert len({pair[1] for pair in verdicts["en"]}) == 2  # either response comes first
    assert language_consistency(verdicts).agreement == 1
    with pytest.raises(JudgmentError, match="6 queries and 1 models"):
        pair_verdicts(
            judge, {code: (dataset, runs[:1]) for code, (dataset, runs) in parallel.items()}
        )
