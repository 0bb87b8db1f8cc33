"""BLEU against sacrebleu and ROUGE-L against rouge_score, on real texts of every language."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import sacrebleu
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.features import NotComputed, answered, feature
from mirage.features.overlap import _sentence_bleu, rouge_l
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response
from mirage.text import parse, tokenize


class Tokenizer:
    """The package's tokenizer in the form that rouge_score takes."""

    def __init__(self, code: str) -> None:
        self.code = code

    def tokenize(self, text: str) -> list[str]:
        return tokenize(text, self.code)


def rouge_score_l(code: str, reference: str, prediction: str) -> float:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], tokenizer=Tokenizer(code))
    return float(scorer.score(reference, prediction)["rougeL"].fmeasure)


def cases(code: str) -> list[tuple[Query, str, str]]:
    """Return queries with the reference's answer, and answers of varying similarity."""
    rows = []
    for query in MirageDataset.bundled(code)[:4]:
        reference = parse(query.reference or "", code, query.passage_ids).answer_text
        relevant = query[query.relevant[0]].text if query.relevant else query.text
        for answer in (reference, relevant, reference[len(reference) // 3 :], query.text, "", "?!"):
            rows.append((query, reference, answer))
    return rows


def value(name: str, query: Query, answer: str) -> float | NotComputed:
    response = Response(query_id=query.id, text=f"##Reason: so.\n##Answer: {answer}")
    return feature(name).compute([answered(query, response)])[0]


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_bleu_equals_sacrebleu(code: str) -> None:
    tokenizer = LANGUAGES[code].bleu_tokenizer
    for query, reference, answer in cases(code):
        parsed = parse(f"##Answer: {answer}", code, query.passage_ids).answer_text
        expected = sacrebleu.sentence_bleu(
            parsed, [reference], tokenize=tokenizer, use_effective_order=True
        ).score
        assert value("answer_bleu", query, answer) == pytest.approx(expected / 100, abs=1e-12)


@settings(max_examples=examples(200), deadline=None)
@given(*[st.text("a1.,-(「中一，。 \n", min_size=1, max_size=25)] * 2)
def test_chinese_bleu_of_any_text_equals_sacrebleu(reference: str, answer: str) -> None:
    expected = sacrebleu.sentence_bleu(
        answer, [reference], tokenize="zh", use_effective_order=True
    ).score
    assert _sentence_bleu(answer, reference, "zh") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_rouge_l_equals_rouge_score(code: str) -> None:
    for query, reference, answer in cases(code):
        parsed = parse(f"##Answer: {answer}", code, query.passage_ids).answer_text
        assert value("answer_rougeL", query, answer) == rouge_score_l(code, reference, parsed)


@settings(max_examples=examples(200), deadline=None)
@given(*[st.lists(st.sampled_from("abcdef"), max_size=90)] * 2)
def test_rouge_l_of_any_tokens(reference: Sequence[str], prediction: Sequence[str]) -> None:
    expected = rouge_score_l("en", " ".join(reference), " ".join(prediction))
    assert rouge_l(reference, prediction) == expected


def test_the_reference_itself_scores_one() -> None:
    for code in ("en", "hi", "th", "zh"):
        query, reference, _ = cases(code)[0]
        assert value("answer_bleu", query, reference) == pytest.approx(1)
        assert value("answer_rougeL", query, reference) == 1


@pytest.mark.parametrize("answer", ["Nile", "the Nile", "the long Nile"])
def test_bleu_of_a_short_answer_counts_the_orders_that_it_has(answer: str) -> None:
    # All n-grams of an answer equal to the reference are in it, however few orders there are.
    query = Query(id="q", language="en", text="Which river?", reference=f"##Answer: {answer}")
    assert value("answer_bleu", query, answer) == pytest.approx(1)


@pytest.mark.parametrize("name", ["answer_bleu", "answer_rougeL"])
def test_without_a_reference_nothing_is_computed(name: str) -> None:
    bare = Query(id="q", language="en", text="Where?")
    missing = value(name, bare, "There.")
    assert isinstance(missing, NotComputed)
    assert "no reference" in missing.reason
    empty = value(name, bare.model_copy(update={"reference": "##Reason: so\n##Answer: "}), "There.")
    assert isinstance(empty, NotComputed)
    assert "empty answer" in empty.reason


@pytest.mark.parametrize("name", ["answer_bleu", "answer_rougeL"])
def test_an_empty_answer_scores_zero(name: str) -> None:
    query = Query(id="q", language="en", text="Where?", reference="##Answer: In the north.")
    assert value(name, query, "") == 0


# Character 3-grams, length and form ---------------------------------------------------------------


@each_case(
    ("reference", "answer", "share"),
    [
        ("Abcde", "xx abcd", 2 / 3),  # abc, bcd, not cde
        ("ababab", "aba", 1 / 2),  # aba and bab, however often
        ("Oslo.", "Oslo.", 1.0),
        ("ab", "ab", 1.0),
        ("ab", "abc", 0.0),  # a shorter one is one run, which is none of three
        ("ab\u0928\u0926\u0940", "\u0928\u0926\u0940", 1 / 3),
    ],
)
def test_char3_is_the_share_of_the_references_runs(
    reference: str, answer: str, share: float
) -> None:
    query = Query(id="q", language="en", text="?", reference=reference)
    item = answered(query, Response(query_id="q", text=answer))
    assert feature("answer_char3").compute([item]) == [pytest.approx(share)]


def test_length_is_the_logarithm_of_the_characters_without_citations() -> None:
    query = Query(id="q", language="en", text="?", passages=(Passage(id="p#1", text="x"),))
    texts = ("", "Oslo", "Oslo [p#1]")
    items = [answered(query, Response(query_id="q", text=text)) for text in texts]
    values = feature("answer_length").compute(items)
    assert values[:2] == [0.0, pytest.approx(math.log(5))]
    assert values[2] == pytest.approx(values[1], abs=0.2)


def test_a_well_formed_response_has_a_reason_and_then_an_answer() -> None:
    query = Query(id="q", language="en", text="?")
    texts = ("##Reason: r\n##Answer: Oslo.", "Oslo.", "##Answer: Oslo.", "##Answer: a ##Reason: r")
    items = [answered(query, Response(query_id="q", text=text)) for text in texts]
    assert feature("well_formed").compute(items) == [1, 0, 0, 0]
