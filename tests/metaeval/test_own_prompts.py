"""Users' prompts for judges: checked fields, and digests in what was measured with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cases import each_case
from injections import marked
from labelled import NO, YES, labelled
from llm_server import ChatServer, last_user_text

from mirage import LLM, PairwiseJudge
from mirage.arena._prompt import FIELDS
from mirage.errors import JudgmentError, MirageError, SettingError
from mirage.features import FeatureSuite, answer_overlap, answered, facts, fluency, llm_eval
from mirage.llm.templates import template_of
from mirage.metaeval import AnswerSentence, LLMSentenceJudge, cascade, evaluate, score
from mirage.models import Passage, Query, Response

PAIR = "{marks}\nQ: {question}\n{passages}\nOne: {answer_a}\nTwo: {answer_b}\n{form}"
SENTENCE = "{passages}\nIs this so? {sentence}\n{form}"
QUERY = Query(id="q", language="sw", text="Nini?", passages=(Passage(id="1#0", text="Ziwa."),))


@each_case(
    ("prompt", "message"),
    [
        ("{question} {answer_a} {form}", r"lacks \{answer_b\}; its fields are \{question\}, "),
        (PAIR + "{answer}", r"unknown field \{answer\}"),
        (PAIR + "{question.__class__}", r"unknown field \{question.__class__\}"),
        (PAIR + "{question[0]}", r"unknown field \{question\[0\]\}"),
        (PAIR + "{question!r}", r"unknown field \{question!r\}"),
        (PAIR + "{question:>{form}}", r"unknown field \{question:>\{form\}\}"),
        (PAIR + '{"verdict": 1}', r'unknown field \{"verdict": 1\}'),
        (PAIR + "{}", r"unknown field \{\}"),
        (PAIR + "{0}", r"unknown field \{0\}"),
        (PAIR + "{", "single brace"),
        (PAIR + "}", "single brace"),
        (PAIR.replace("{form}", ""), r"does not mention the verdicts \[\[A\]\], \[\[B\]\]"),
        ("{typo} {form}", r"\{typo\} and lacks \{question\}, \{answer_a\}, \{answer_b\}"),
    ],
)
def test_a_wrong_prompt_is_refused_before_the_first_call(prompt: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        PairwiseJudge("gpt-4o", prompt=prompt)


@each_case(
    "make",
    [
        lambda: LLMSentenceJudge("gpt-4o", prompt="{sentence} {form}"),
        lambda: LLMSentenceJudge("gpt-4o", task="relevance", prompt="{passages}{sentence}{form}"),
        lambda: LLMSentenceJudge("gpt-4o", prompt="{passages} {sentence} Supported?"),
        lambda: fluency("gpt-4o", prompt="{answer} {form}"),
        lambda: answer_overlap("gpt-4o", prompt="{answer} {form}"),
        lambda: llm_eval("gpt-4o", prompt="{reference} {answer} yes or no"),
        lambda: PairwiseJudge("gpt-4o", prompt=Path("prompt.txt")),  # type: ignore[arg-type]
    ],
)
def test_each_judge_checks_its_own_fields(make: Callable[[], object]) -> None:
    with pytest.raises(SettingError, match="prompt"):
        make()


def test_agreement_that_was_measured_with_another_prompt_is_marked(server: ChatServer) -> None:
    server.answer = lambda _: f"<answer>{YES}</answer>"
    sentences = labelled([("en", f"q{i}", [YES, NO][i % 2]) for i in range(8)])
    judge = LLMSentenceJudge(LLM("judge", base_url=server.url), prompt=SENTENCE)
    assert judge.name == f"judge zero-shot prompt {judge.prompt_digest[:8]}"
    (figure,) = evaluate(sentences, judge)[judge.name].agreement()
    assert figure.prompt_digest == judge.prompt_digest != ""
    (marked_figure,) = PairwiseJudge("x", agreement=[figure]).agreement
    assert "measured with another prompt" in marked_figure.source
    shipped = figure.model_copy(update={"prompt_digest": ""})
    assert PairwiseJudge("x", agreement=[shipped]).agreement == (shipped,)
    (stale,) = PairwiseJudge("x", agreement=[shipped], prompt=PAIR).agreement
    assert "measured with another prompt" in stale.source


def test_a_calibration_with_another_prompt_is_refused() -> None:
    sentences = labelled([("en", f"q{i}", [YES, NO][i % 2]) for i in range(80)])
    values = {s.text: float(i % 2 == 0) for i, s in enumerate(sentences.sentences)}

    def of(digest: str) -> object:
        cheap = score(lambda sentence: values[sentence.text], 0.5, name="cheap")
        return replace(cheap, prompt_digest=digest)

    judge = cascade(of("aa"), None, sentences)  # type: ignore[arg-type]
    assert judge.abstaining.prompt_digest == "aa"
    with pytest.raises(
        JudgmentError, match=r"has prompt bb, but .* with prompt aa; calibrate the rule"
    ):
        replace(judge, cheap=of("bb"))  # type: ignore[arg-type]
    combined = cascade([of("aa"), of("")], None, sentences)  # type: ignore[list-item]
    assert combined.abstaining.prompt_digest == "aa"


def test_a_rated_feature_is_named_by_its_prompt(server: ChatServer) -> None:
    server.answer = lambda _: "##Rating: 4\n##Explanation: x"
    feature = fluency(LLM("rater", base_url=server.url), prompt="{language}: {response} {form}")
    assert feature.name == f"fluency@{feature.prompt_digest[:8]}"
    assert facts(feature.name).direction == "higher"
    item = answered(QUERY, Response(query_id="q", text="##Answer: Ziwa."))
    assert feature.compute([item]) == [4.0]
    assert last_user_text(server.requests[0]).startswith("Swahili: \n<response ")
    assert score(feature).prompt_digest == feature.prompt_digest
    suite = FeatureSuite([feature, fluency(LLM("rater", base_url=server.url))])
    assert suite.names == (feature.name, "fluency")


def test_llm_eval_with_an_own_prompt_reads_its_labels(server: ChatServer) -> None:
    server.answer = lambda _: "[[yes]]"
    query = QUERY.model_copy(update={"answers": (("ziwa",),)})
    item = answered(query, Response(query_id="q", text="##Answer: Ziwa."))
    prompt = "{reference} = {answer}? [[yes]] or [[no]]"
    feature = llm_eval(LLM("rater", base_url=server.url), prompt=prompt)
    assert feature.compute([item]) == [1.0]
    names = [name for name, _ in marked(last_user_text(server.requests[0]))[0]]
    assert names == ["reference", "answer"]


def test_a_prompt_may_ask_for_the_label_in_its_own_words(server: ChatServer) -> None:
    server.answer = lambda _: YES
    prompt = "{passages}\n{sentence}\nWrite Supported or Not Supported."
    judge = LLMSentenceJudge(LLM("judge", base_url=server.url), prompt=prompt)
    assert judge.label([AnswerSentence(QUERY, "Ni ziwa.", ("1#0",))]) == [YES]
    names = [name for name, _ in marked(last_user_text(server.requests[0]))[0]]
    assert names == ["passage-1", "sentence"]


def test_errors_of_prompts_are_errors_of_the_library() -> None:
    with pytest.raises(MirageError):
        template_of("{x}", FIELDS, "a judge")
