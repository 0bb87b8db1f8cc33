"""Abstention: a response should abstain if no passage answers the query, and answer otherwise."""

from __future__ import annotations

import pytest
from cases import each_case

from mirage.features import NotComputed, answered, feature
from mirage.models import Passage, Query, Response


def value(
    text: str,
    answerable: bool | None,
    name: str = "abstention",
    answers: tuple[tuple[str, ...], ...] = (),
) -> float | NotComputed:
    query = Query(
        id="q1",
        language="de",
        text="Wer baute den Turm?",
        passages=(Passage(id="a", text="Der Turm steht am Hafen."),),
        answerable=answerable,
        answers=answers,
    )
    item = answered(query, Response(query_id="q1", text=text))
    (result,) = feature(name).compute([item])
    return result


@pytest.mark.parametrize(
    ("text", "if_answerable", "if_not"),
    [
        ("##Reason: Im Text steht es [1].\n##Answer: Anna Berg baute ihn [1].", 1, 0),
        ("##Reason: Kein Abschnitt sagt es.\n##Answer: Das steht nicht in den Texten.", 0, 1),
        ("I don't know.", 0, 1),
        ("", 0, 0),
        ("##Reason: Kein Abschnitt sagt es.\n##Answer:", 0, 0),
    ],
)
def test_abstaining_is_right_if_no_passage_answers(
    text: str, if_answerable: int, if_not: int
) -> None:
    assert value(text, True) == if_answerable
    assert value(text, False) == if_not


COURTESY = "Spannende Frage, mal sehen.\n\n{}\n\nAuf Wunsch gehe ich gerne tiefer ins Detail!"


@pytest.mark.parametrize(
    ("text", "abstains"),
    [
        ("Der Text nennt den Erbauer des Turms nicht.", True),
        ("Auf Grundlage der Texte unbekannt; nur der Hafen wird genannt.", True),
        ("Den Turm baute Anna Berg.", False),
        ("Der Text nennt ihn nicht, aber den Turm baute Anna Berg im Jahr 1931.", False),
    ],
)
def test_courtesies_do_not_hide_an_abstention(text: str, abstains: bool) -> None:
    assert value(COURTESY.format(text), False) == abstains
    assert value(COURTESY.format(text), True) == (not abstains)


WILL = "What does she leave to Ida?", "Her will does not mention Ida at all."


@pytest.mark.parametrize(
    ("language", "question", "passage", "text", "expected"),
    [
        ("en", *WILL, "The will doesn't mention Ida [1].", 1),
        ("en", *WILL, "The passages do not mention what she leaves to Ida [1].", 0),
        ("en", "What does she leave to Ida?", "Ida gets her boat.", "It doesn't mention Ida.", 0),
        (
            "es",
            "¿Qué dice la ley de la caza?",
            "La ley no menciona la caza.",
            "No menciona caza.",
            1,
        ),
        (
            "ko",
            "무엇을 찾았나요?",
            "수색대는 발자국을 찾지 못했습니다.",
            "발자국을 찾지 못했습니다.",
            1,
        ),
        ("hi", "क्या बिस्कुट में मेवे हैं?", "इन बिस्कुटों में मेवे नहीं हैं।", "बिस्कुटों में मेवे नहीं हैं।", 1),
    ],
)
def test_a_negative_fact_that_a_passage_states_is_an_answer(
    language: str, question: str, passage: str, text: str, expected: int
) -> None:
    passages = (Passage(id="a", text=passage),)
    query = Query(id="q", language=language, text=question, passages=passages, answerable=True)
    (result,) = feature("abstention").compute([answered(query, Response(query_id="q", text=text))])
    assert result == expected


def test_no_value_if_answerable_is_not_set() -> None:
    result = value("Anna Berg.", None)
    assert isinstance(result, NotComputed)
    assert "unknown whether a passage answers" in result.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("##Reason: Kein Abschnitt sagt es.\n##Answer: Anna Berg baute ihn [1].", 1),
        ("##Reason: Anna Berg.\n##Answer: Das steht nicht in den Texten.", 0),
        ("I don't know.", 0),
        ("", 1),
    ],
)
def test_an_invention_is_an_answer_that_no_passage_gives(text: str, expected: int) -> None:
    assert value(text, False, "invention") == expected


@pytest.mark.parametrize(
    ("answerable", "reason"),
    [(True, "a passage answers the query"), (None, "it is unknown whether a passage answers")],
)
def test_inventions_have_no_value_if_a_passage_answers(
    answerable: bool | None, reason: str
) -> None:
    result = value("Anna Berg.", answerable, "invention")
    assert isinstance(result, NotComputed)
    assert reason in result.reason


@each_case(
    ("text", "if_answerable", "if_not"),
    [
        ("##Reason: Anna Berg.\n##Answer: Das steht nicht in den Texten.", 0, 0),
        ("", 0, 0),
        ("##Answer: Anna Berg baute ihn im Jahr 1901 [1].", 0, 1),
        ("##Answer: Anna Berg baute ihn [1].", 0.5, 1),
        ("##Answer: Karl Weber baute ihn [1].", 1, 1),
        ("##Answer: Nicht Anna Berg baute ihn, sondern Karl Weber [1].", 1, 1),
    ],
)
def test_an_attempt_is_incorrect_by_the_missing_share(
    text: str, if_answerable: float, if_not: float
) -> None:
    answers = (("Anna Berg",), ("1901",))
    assert value(text, True, "incorrect_attempt", answers) == if_answerable
    assert value(text, None, "incorrect_attempt", answers) == if_answerable
    assert value(text, False, "incorrect_attempt") == if_not


def test_attempts_have_no_value_without_answers() -> None:
    result = value("Anna Berg.", True, "incorrect_attempt")
    assert isinstance(result, NotComputed)
    assert "no short answers" in result.reason


SUMMARIES = [
    (
        "en",
        "How high is the tower?",
        "The tower stands at the old harbour.",
        "More than that I cannot say about your question.",
    ),
    (
        "de",
        "Wie hoch ist der Turm?",
        "Der Turm steht am alten Hafen.",
        "Dazu findet sich in den Dokumenten nichts.",
    ),
    ("ru", "Какова высота башни?", "Башня стоит в гавани.", "Об остальном документы молчат."),
    ("zh", "塔有多高？", "塔位于旧港口。", "至于您的问题，文中没有任何信息。"),
    ("ar", "كم ارتفاع البرج؟", "يقع البرج في الميناء القديم.", "أما سؤالك فلا تجيب عنه الوثائق."),
    ("te", "గోపురం ఎత్తు ఎంత?", "గోపురం పాత రేవులో ఉంది.", "దాని గురించి పత్రాలు ఏమీ చెప్పవు."),
]


@each_case(("language", "question", "fact", "refusal"), SUMMARIES)
def test_a_refusal_after_facts_of_the_passages_is_no_invention(
    language: str, question: str, fact: str, refusal: str
) -> None:
    query = Query(
        id="q1",
        language=language,
        text=question,
        passages=(Passage(id="a", text=fact),),
        answerable=False,
    )
    items = [
        answered(query, Response(query_id="q1", text=text))
        for text in (f"{fact} {refusal}", f"{fact} [1]\n\n{refusal}", fact)
    ]
    assert feature("abstention").compute(items) == [1, 1, 0]


@pytest.mark.parametrize(
    ("text", "abstains"),
    [
        ("Das lässt sich nicht beantworten: Am Hafen gab es keinen Baumeister.", True),
        ("Das ist nicht ganz sicher: Den Turm baute Anna Berg.", False),
    ],
)
def test_an_explanation_after_a_refusal_is_no_answer(text: str, abstains: bool) -> None:
    assert value(text, False) == abstains
