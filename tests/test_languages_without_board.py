"""Italian and Portuguese: what they support, and one clear error for all that needs a board."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from cases import each_case
from subsets import slow_except

from mirage import (
    FeatureSuite,
    Leaderboard,
    MirageDataset,
    Query,
    Response,
    Run,
    SurrogateRanker,
)
from mirage.corpus import chunk
from mirage.errors import UnknownNameError
from mirage.features import spans
from mirage.features.base import answered
from mirage.features.language import language_probabilities
from mirage.features.registry import DEFINITIONS, FOR_BOARDS
from mirage.generation.short_answers import ShortAnswerPrompt
from mirage.languages import ALL_LANGUAGES, LANGUAGES, Language
from mirage.models import Passage
from mirage.retrieval import BM25
from mirage.sources import hub
from mirage.surrogate.drafts import bundled_phrases, bundled_texts
from mirage.testsets import build_test_set
from mirage.text import parse, read_claims, tokenize
from mirage.text.abstentions import abstains
from mirage.text.quantities import dates, quantities

# (question, answer, response, expected token F1, request for the language in prompts)
EXAMPLES = {
    "it": (
        "Chi ha scritto la Divina Commedia?",
        "Dante Alighieri",
        "##Risposta: È stata scritta da Dante Alighieri nel XIV secolo [1].",
        4 / 11,
        "Rispondi in italiano.",
    ),
    "pt": (
        "Quem escreveu Os Lusíadas?",
        "Luís de Camões",
        "##Resposta: Foi escrito por Luís de Camões no século XVI [1].",
        6 / 12,
        "Responda em português.",
    ),
}


CODES = list(EXAMPLES)
each_code = each_case("code", CODES)


def dataset(code: str) -> tuple[MirageDataset, Run]:
    question, answer, text, *_ = EXAMPLES[code]
    passage = Passage(id="p#0", text=answer)
    query = Query(id="q", language=code, text=question, answers=((answer,),), passages=(passage,))
    run = Run(model="m", language=code, responses=[Response(query_id="q", text=text)])
    return MirageDataset([query], name="example"), run


def test_every_language_without_a_board_has_an_example() -> None:
    assert [code for code, entry in ALL_LANGUAGES.items() if not entry.board] == CODES
    assert SENTENCES.keys() >= set(CODES)


def test_some_languages_have_no_board() -> None:
    assert list(ALL_LANGUAGES) == [*LANGUAGES, *CODES]
    assert Language.of("it") is ALL_LANGUAGES["it"]
    assert Language.with_board("sw") is LANGUAGES["sw"]
    with pytest.raises(UnknownNameError, match="unknown language 'xx'"):
        Language.with_board("xx")


@each_case(
    "use",
    [
        Language.with_board,
        MirageDataset.bundled,
        Leaderboard.bundled,
        Leaderboard.published,
        SurrogateRanker.pretrained,
        bundled_texts,
        bundled_phrases,
        lambda code: hub.find(hub.QUERIES, code),
        lambda code: read_claims("Roma", [("Roma",)], code),
        lambda code: abstains("Non lo so.", code),
        lambda code: build_test_set("nowhere", llm="m", language=code, items=1),
        lambda code: spans(answered(dataset(code)[0][0], dataset(code)[1]["q"])),
    ],
)
@each_code
def test_what_needs_a_board_is_one_error(use: Callable[[str], object], code: str) -> None:
    name = re.escape(f"{ALL_LANGUAGES[code].name} ({code}) has no bundled board")
    with pytest.raises(UnknownNameError, match=f"^{name}.*Languages with a board: ar, bn, de, en"):
        use(code)


@each_code
def test_short_answers_have_metrics(code: str) -> None:
    data, run = dataset(code)
    table = FeatureSuite(["qa_match", "qa_f1", "bergen_match"]).score(data, run, progress=False)
    assert table.values[0].tolist() == pytest.approx([1.0, EXAMPLES[code][3], 1.0])


@pytest.mark.parametrize("code", slow_except(["it"], CODES))
def test_other_features_have_a_value_or_a_reason(code: str) -> None:
    data, run = dataset(code)
    suite = FeatureSuite.default().applicable(data)
    assert "answer_match" not in suite.names
    assert "language with a board" in FeatureSuite.default().unmet(data)["support_lexical"]
    for name in FOR_BOARDS:
        table = FeatureSuite([name]).score(data, run, progress=False)
        assert "has no bundled board" in table.unmeasured[name]
    offline = [d.example for d in DEFINITIONS.values() if not d.facts.models]
    names = [name for name in offline if name.partition("@")[0] not in FOR_BOARDS]
    assert FeatureSuite(names).score(data, run, progress=False).values.shape == (1, len(names))


SENTENCES = {
    "it": "La città fu fondata nel XII secolo e ha molti abitanti.",
    "pt": "A cidade foi fundada no século XII e tem muitos habitantes.",
    "es": "La ciudad fue fundada en el siglo XII y tiene muchos habitantes.",
    "fr": "La ville a été fondée au XIIe siècle et compte beaucoup d'habitants.",
    "en": "The city was founded in the 12th century and has many inhabitants.",
}


@each_case("written", SENTENCES)
@each_code
def test_the_language_is_identified(code: str, written: str) -> None:
    entry = ALL_LANGUAGES[code]
    if written in (code, *entry.neighbours, *LANGUAGES):
        assert language_probabilities(SENTENCES[written], code)[written] > 0.9


def test_they_are_no_candidates_if_another_language_is_expected() -> None:
    assert not set(CODES) & set(language_probabilities(SENTENCES["it"], "sw"))


@each_code
def test_prompts_are_in_the_language(code: str) -> None:
    query = dataset(code)[0][0]
    (message,) = ShortAnswerPrompt()(query).messages
    request = EXAMPLES[code][4]
    assert message["content"].endswith(request)
    mixed = ShortAnswerPrompt(language="en")(query).messages[0]["content"]
    assert mixed.endswith(f"Answer in {ALL_LANGUAGES[code].name}. {request}")


@each_code
def test_retrieval(code: str) -> None:
    question, answer, *_ = EXAMPLES[code]
    texts = (f"{question.rstrip('?')}: {answer}.", "Altro testo.", "Outro texto.")
    passages = [Passage(id=str(i), text=text) for i, text in enumerate(texts)]
    index = BM25.build(passages, language=code, progress=False)
    assert [hit.passage.id for hit in index.search(question, 1)] == ["0"]
    assert [piece.id for piece in chunk(passages[:1], 3)][:2] == ["0#0", "0#1"]


def test_words_sentences_and_numbers() -> None:
    assert tokenize("L'acqua dell'Italia", "it") == ["l", "acqua", "dell", "italia"]
    text = "Il sig. Rossi nacque nel 79 d. C. a Roma. Vive qui.\n\nFonti:\n- [1]"
    parsed = parse(text, "it", ["a"], question="?")
    assert [sentence.text for sentence in parsed.sentences] == [
        "Il sig. Rossi nacque nel 79 d. C. a Roma.",
        "Vive qui.",
    ]
    assert parsed.citations == ("a",)
    assert [sorted(q.values) for q in quantities("ventitré persone", "it")] == [[23.0]]
    assert [sorted(q.values) for q in quantities("vinte e três pessoas", "pt")] == [[23.0]]
    assert [(d.day, d.month, d.year) for d in dates("il 15 aprile 1912", "it")] == [(15, 4, 1912)]
    assert [d.month for d in dates("em 3 de março de 1999", "pt")] == [3]
