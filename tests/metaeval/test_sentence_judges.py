"""Judges and scores: their input, and the handling of their output."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from labelled import NO, YES, labelled, query, recorded

from mirage.errors import FeatureError, JudgmentError, SettingError, UnknownNameError
from mirage.features import Answered, NotComputed
from mirage.features.base import FunctionFeature
from mirage.features.lexical import sentence_support
from mirage.metaeval import AnswerSentence, score
from mirage.metaeval.judges import Score, SentenceJudge, as_response, ask
from mirage.models import Passage, Query

NILE = Query(
    id="nile",
    language="en",
    text="Where does the Nile end?",
    passages=(
        Passage(id="1#0", text="The Nile ends in the Mediterranean Sea, north of Cairo."),
        Passage(id="2#0", text="The Congo ends in the Atlantic Ocean."),
    ),
)
SENTENCES = labelled([("en", "a", YES), ("en", "a", NO), ("en", "b", YES)]).sentences


@pytest.mark.parametrize("cited", [None, ("1#0",), ("2#0",), ()])
def test_support_of_a_sentence_is_that_by_its_passages(cited: tuple[str, ...] | None) -> None:
    # Two sentences to a parser, and a heading; it is one sentence that annotators labelled.
    text = "Answer: it ends in the Mediterranean Sea. North of Cairo."
    sentence = AnswerSentence(NILE, text, cited)
    texts = [NILE[id_].text for id_ in (NILE.passage_ids if cited is None else cited)]
    opinion = ask("support_lexical", [sentence])
    assert opinion.scores is not None
    other_texts = [passage.text for passage in NILE.passages if passage.text not in texts]
    support = sentence_support(text, texts, "en", question=NILE.text, others=other_texts)
    assert opinion.scores.tolist() == [support]
    assert (opinion.scores[0] == 0) == (cited == ())


def test_a_sentence_as_a_response() -> None:
    answer = as_response(AnswerSentence(NILE, "It ends there.", ("2#0",)))
    assert answer.response.text == "It ends there. [2#0]"
    assert answer.parsed.citations == ("2#0",)
    assert answer.parsed.answer_text == "It ends there."


def length(sentence: AnswerSentence) -> float:
    return float(len(sentence.text))


def test_functions_features_and_objects_are_judges() -> None:
    judge = recorded("me", [YES, None, NO])
    assert isinstance(judge, SentenceJudge)
    assert ask(judge, SENTENCES)[:3] == ("me", (YES, None, NO), None)

    def first_is_good(sentence: AnswerSentence) -> str | None:
        return YES if sentence.text == "s0" else None

    assert ask(first_is_good, SENTENCES)[:3] == ("first_is_good", (YES, None, None), None)
    opinion = ask(length, SENTENCES)
    assert (opinion.name, opinion.labels, opinion.threshold) == ("length", None, None)
    assert opinion.scores is not None
    assert opinion.scores.tolist() == [2, 2, 2]
    opinion = ask(score(length, 1.5, name="long"), SENTENCES)
    assert (opinion.name, opinion.threshold) == ("long", 1.5)
    assert ask(lambda _: np.float32(0.5), SENTENCES).scores.tolist() == [0.5] * 3
    mine = FunctionFeature(lambda _, response: len(response.text or "") / 2, name="mine")
    assert ask(mine, SENTENCES).name == "mine"
    assert ask(score(mine, 3.0), SENTENCES).threshold == 3.0


def test_scores_may_be_missing() -> None:
    def gaps(sentence: AnswerSentence) -> float | None:
        return {"s0": 0.5, "s1": None, "s2": math.nan}[sentence.text]

    opinion = ask(gaps, SENTENCES)
    assert opinion.scores is not None
    np.testing.assert_array_equal(opinion.scores, [0.5, np.nan, np.nan])

    class Half:
        name = "half"

        def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
            return [NotComputed("odd") if i % 2 else 1.0 for i, _ in enumerate(batch)]

    opinion = ask(Half(), SENTENCES)
    assert opinion.scores is not None
    np.testing.assert_array_equal(opinion.scores, [1, np.nan, 1])


def test_other_objects_are_not_judges() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'support_lexical'"):
        ask("suport_lexical", SENTENCES)
    with pytest.raises(
        FeatureError,
        match=r"answer_bleu.*any of the 3 sentences; the first reason is: the query has no ref",
    ):
        ask("answer_bleu", SENTENCES)
    with pytest.raises(FeatureError, match="needs a model, so its name alone is not enough"):
        score("fluency")
    with pytest.raises(JudgmentError, match="3 is not a judge"):
        ask(3, SENTENCES)
    with pytest.raises(JudgmentError, match="is not a judge"):
        ask(AnswerSentence, SENTENCES)
    with pytest.raises(SettingError, match="threshold must be a finite number, got nan"):
        Score("x", lambda sentences: [0.0 for _ in sentences], math.nan)


def test_invalid_outputs_of_a_judge_raise_errors() -> None:
    with pytest.raises(JudgmentError, match=r"returned True for a sentence of query 'a'.*a string"):
        ask(lambda _: True, SENTENCES)
    with pytest.raises(JudgmentError, match="returned inf for a sentence of query 'a'"):
        ask(lambda _: math.inf, SENTENCES)
    with pytest.raises(JudgmentError, match=r"returned 'x' for a sentence of query 'b'.*number"):
        ask(lambda sentence: "x" if sentence.text == "s2" else 1.0, SENTENCES)
    with pytest.raises(JudgmentError, match="'few' returned 1 values for 3 sentences"):
        ask(Score("few", lambda _: [1.0]), SENTENCES)


def test_a_judge_does_not_see_the_labels() -> None:
    assert AnswerSentence._fields == ("query", "text", "citations")
    assert query("a").metadata == {}
