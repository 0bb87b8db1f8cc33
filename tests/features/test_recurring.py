"""Sentences that recur in most answers of a run are layout, unless they change what it asserts."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from subsets import FEW_LANGUAGES, slow_except

from mirage import FeatureSuite, FeatureTable, MirageDataset, Query, respond
from mirage.features.findings import findings_of
from mirage.languages import LANGUAGES
from mirage.text._small_talk import Context, is_small_talk
from mirage.text.recurring import is_recurring, recurring_sentences

FOOTERS = {
    "en": "\n\n---\n*Compiled by the Atlas research desk. Zebra-grade sourcing, nightly.*",
    "sw": "\n\nImeandaliwa na kitengo cha utafiti cha Zawadi Media.",
    "zh": "\n\n本内容由云雀研究小组整理，仅供内部参考。",
}


# Footers of support systems and, for comparison, denials, in 18 languages.
SENTENCES: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "footers.json").read_text(encoding="utf-8")
)


def features(language: str, ending: str, queries: int = 40) -> FeatureTable:
    """Return the features of a system that answers with the references and an ending."""
    dataset = MirageDataset(list(MirageDataset.bundled(language))[:queries])
    texts = {query.id: f"{query.reference}{ending}" for query in dataset}
    run = respond(texts, dataset, model="references", progress=False)
    return FeatureSuite.default(language).score(dataset, run, progress=False)


def mean(table: FeatureTable, feature: str) -> float:
    return float(np.nanmean(table[feature]))


@pytest.mark.parametrize("language", FOOTERS)
def test_a_footer_under_every_answer_changes_no_feature(language: str) -> None:
    plain, with_footer = features(language, ""), features(language, FOOTERS[language])
    columns = [i for i, name in enumerate(plain.features) if not name.endswith("_language")]
    np.testing.assert_allclose(with_footer.values[:, columns], plain.values[:, columns], atol=0.02)


def test_a_footer_under_a_few_answers_is_not_recognised() -> None:
    unknown = mean(features("en", FOOTERS["en"], 9), "unknown_facts")
    assert unknown > 0.2
    assert mean(features("en", FOOTERS["en"], 10), "unknown_facts") == 0


def test_a_footer_is_no_finding() -> None:
    dataset = MirageDataset.bundled("en")
    texts = {query.id: f"{query.reference}{FOOTERS['en']}" for query in dataset}
    assert findings_of(dataset, respond(texts, dataset, progress=False)) == ()


@pytest.mark.parametrize(
    "ending",
    [" But all of that is wrong.", " That is a myth.", " In reality, this is a popular error."],
)
def test_a_recurring_denial_counts_as_in_a_single_answer(ending: str) -> None:
    recurring, single = features("en", ending), features("en", ending, 9)
    assert mean(recurring, "answer_match") < 0.5
    np.testing.assert_array_equal(recurring.values[:9], single.values)


@pytest.mark.parametrize("language", slow_except(FEW_LANGUAGES, SENTENCES))
def test_disclaimers_and_contacts_under_every_answer_change_no_feature(language: str) -> None:
    sentences = SENTENCES[language]
    ending = "\n\n".join(["", *sentences["disclaimers"], *sentences["contact"]])
    plain, with_footer = features(language, "", 12), features(language, ending, 12)
    for feature in ("answer_match", "unknown_facts", "support_lexical", "abstention"):
        assert mean(with_footer, feature) == pytest.approx(mean(plain, feature), abs=0.06), feature


def test_a_table_under_every_answer_changes_no_feature() -> None:
    table = "\n\n| Contact | Hours |\n|---|---|\n| Chat | 9–17 h |\n"
    plain, with_table = features("en", "", 12), features("en", table, 12)
    for feature in ("answer_match", "unknown_facts", "support_lexical"):
        assert mean(with_table, feature) == pytest.approx(mean(plain, feature), abs=0.02), feature


@pytest.mark.parametrize("language", SENTENCES)
def test_a_single_disclaimer_denies_nothing(language: str) -> None:
    query = MirageDataset.bundled(language)[0]
    context = Context(LANGUAGES[language], query.text, tuple(p.text for p in query.passages))
    sentences = [unicodedata.normalize("NFC", s) for s in SENTENCES[language]["disclaimers"]]
    claims = [sentence for sentence in sentences if not is_small_talk(sentence, context)]
    assert len(claims) <= 1, claims


@pytest.mark.parametrize("language", SENTENCES)
def test_a_recurring_denial_or_refusal_is_no_footer(language: str) -> None:
    query = MirageDataset.bundled(language)[0]
    for sentence in map(str.lower, SENTENCES[language]["denials"]):
        text = unicodedata.normalize("NFC", sentence)
        recurring = recurring_sentences([text] * 10)
        context = Context(LANGUAGES[language], query.text, (), recurring)
        assert not is_small_talk(text, context), text


def test_a_disclaimer_that_answers_the_question_is_a_claim() -> None:
    text = "The seller gives no guarantee."
    question = Context(LANGUAGES["en"], "Which guarantee does the seller give?", ())
    passage = Context(LANGUAGES["en"], "What about defects?", ("The seller gives no guarantee.",))
    assert not is_small_talk(text, question)
    assert not is_small_talk(text, passage)


def test_a_refusal_of_every_question_stays_a_refusal() -> None:
    dataset = MirageDataset.bundled("en")
    text = "The passages do not contain the answer. Please contact the Atlas help desk."
    run = respond(lambda _: text, dataset, progress=False)
    table = FeatureSuite(["abstention"]).score(dataset, run, progress=False)
    assert mean(table, "abstention") == pytest.approx(0.25)  # a quarter has no answer


def test_a_recurring_answer_to_the_question_stays() -> None:
    queries = [
        Query(
            id=f"q{i}", language="en", text=f"Who led team {i} in the final?", answers=["Ada Fox"]
        )
        for i in range(12)
    ]
    dataset = MirageDataset(queries)
    run = respond(lambda _: "Ada Fox led it. That is all I know.", dataset, progress=False)
    table = FeatureSuite(["answer_match"]).score(dataset, run, progress=False)
    assert mean(table, "answer_match") == 1


def test_short_sentences_recur_by_chance() -> None:
    assert recurring_sentences(["Yes. It is the Nile."] * 3 + ["Yes. It is 7."] * 9) == frozenset()
    assert recurring_sentences(["It is the Nile."] * 12) == {"it is the nile"}
    assert not is_recurring("Yes.", frozenset(("it is the nile",)))


@given(st.lists(st.text(max_size=40), max_size=30))
def test_a_recurring_sentence_is_in_half_of_the_answers(answers: list[str]) -> None:
    recurring = recurring_sentences(answers)
    for sentence in recurring:
        assert 2 * sum(is_in(sentence, answer) for answer in answers) >= len(answers)
    assert len(answers) >= 10 or not recurring


def is_in(sentence: str, answer: str) -> bool:
    return sentence in recurring_sentences([answer] * 10)


STUCK = "Gladly! You can exchange the product within 90 days in every store of MediaMarkt."


def test_an_answer_that_recurs_as_a_whole_is_scored() -> None:
    dataset = MirageDataset(list(MirageDataset.bundled("en"))[:20])
    run = respond(dict.fromkeys(dataset.query_ids, STUCK), dataset, model="stuck", progress=False)
    table = FeatureSuite.default("en").score(dataset, run, progress=False)
    assert mean(table, "unknown_facts") > 0.9
    assert mean(table, "target_language") > 0.9


def test_the_caller_may_decide_what_is_a_template() -> None:
    dataset = MirageDataset(list(MirageDataset.bundled("en"))[:20])
    texts = {query.id: f"{query.reference}{FOOTERS['en']}" for query in dataset}
    run = respond(texts, dataset, model="references", progress=False)
    suite = FeatureSuite("unknown_facts")
    assert mean(suite.score(dataset, run, progress=False), "unknown_facts") == 0
    table = suite.score(dataset, run, recurring=(), progress=False)
    assert mean(table, "unknown_facts") > 0.2


def test_sentences_that_are_not_scored_are_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    dataset = MirageDataset(list(MirageDataset.bundled("en"))[:20])
    promise = "We also give you a voucher for 25 euros."
    texts = {query.id: f"{query.reference} {promise}" for query in dataset}
    run = respond(texts, dataset, model="promises", progress=False)
    for _ in range(2):
        FeatureSuite("unknown_facts").score(dataset, run, progress=False)
    (message,) = [record.message for record in caplog.records if "not scored" in record.message]
    assert "voucher for 25 euros" in message
