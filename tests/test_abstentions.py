"""Test whether abstentions are detected, with texts that are not in the training data."""

from __future__ import annotations

import time

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st

from mirage.errors import UnknownNameError
from mirage.languages import LANGUAGES
from mirage.text import abstains
from mirage.text.abstentions import ABSTAINS_AT, SIGNS, signs

ABSTENTIONS = [
    ("en", "Who built the lighthouse?", "I don't know."),
    ("en", "Who built the lighthouse?", "I don’t know."),
    ("en", "Who built the lighthouse?", "The passages tell when it was built, but not by whom."),
    ("en", "Who built the lighthouse?", "Sorry, none of the documents mention the architect."),
    ("en", "Who built the lighthouse?", "That information is not available in the given context."),
    ("de", "Wer baute den Leuchtturm?", "Wer den Leuchtturm gebaut hat, wird nicht erwähnt."),
    ("de", "Wer baute den Leuchtturm?", "Dazu kann ich leider keine Angaben machen."),
    ("es", "¿Quién construyó el faro?", "No se menciona quién construyó el faro."),
    ("es", "¿Quién construyó el faro?", "Lo siento, no dispongo de esa información."),
    (
        "fr",
        "Qui a construit le phare ?",
        "Les documents ne précisent pas qui a construit le phare.",
    ),
    ("fr", "Qui a construit le phare ?", "Je n'ai pas la réponse à cette question."),
    ("fi", "Kuka rakensi majakan?", "En valitettavasti tiedä, kuka majakan rakensi."),
    ("id", "Siapa yang membangun mercusuar?", "Maaf, saya tidak menemukan jawabannya."),
    ("ru", "Кто построил маяк?", "В тексте не говорится, кто построил маяк."),
    ("ru", "Кто построил маяк?", "К сожалению, ответа я не нашёл."),
    ("ru", "Кто сочинил вальс?", "Автор вальса остаётся за кадром."),
    (
        "en",
        "Who set the poem to music?",
        "Its metre is discussed at length, the composer is not.",
    ),
    ("fr", "Qui a mis le poème en musique ?", "On y parle du mètre, jamais du compositeur."),
    ("sw", "Nani alijenga mnara?", "Samahani, vifungu havisemi nani alijenga mnara."),
    ("yo", "Ta ló kọ́ ilé iná?", "Mi ò mọ ẹni tó kọ́ ọ; àwọn àyọkà kò sọ ọ́."),
    ("yo", "Ta ló kọ́ ilé iná?", "Ma binu, mi o mo idahun si ibeere yii."),
    ("ar", "من بنى المنارة؟", "عذرًا، لا تذكر النصوص من بنى المنارة."),
    ("ar", "من بنى المنارة؟", "لا يمكنني الإجابة عن هذا السؤال."),
    ("fa", "چه کسی فانوس را ساخت؟", "متأسفانه در متن‌ها نامی از سازندهٔ فانوس نیامده است."),
    ("hi", "प्रकाशस्तंभ किसने बनाया?", "माफ़ कीजिए, अनुच्छेदों में यह नहीं बताया गया है।"),
    ("bn", "বাতিঘর কে বানিয়েছিলেন?", "দুঃখিত, অনুচ্ছেদে এ বিষয়ে কোনো তথ্য নেই।"),
    ("te", "లైట్‌హౌస్ ఎవరు కట్టారు?", "క్షమించండి, ఆ వివరం ఎక్కడా చెప్పలేదు."),
    ("ko", "등대는 누가 지었습니까?", "죄송합니다. 누가 지었는지는 문서에 나와 있지 않습니다."),
    (
        "ja",
        "灯台を建てたのは誰ですか。",
        "申し訳ありませんが、建てた人の名前は記載されていません。",
    ),
    ("zh", "灯塔是谁建的？", "很抱歉，文中没有提到灯塔的建造者。"),
    ("th", "ใครสร้างประภาคาร", "ขออภัย ข้อความไม่ได้ระบุว่าใครเป็นผู้สร้างประภาคาร"),
    ("ar", "أي نهر هو؟", "لا أملك جوابًا عن هذا."),
    ("bn", "কোন নদী?", "এটা আমার কাছে থাকা নথির আওতার বাইরে।"),
    ("de", "Wer baute den Turm?", "Das liegt außerhalb der Dokumente, die ich erhalten habe."),
    ("fa", "کدام رود است؟", "از پاسخ دادن به این پرسش ناتوانم."),
    ("fi", "Mikä joki se on?", "Sellaista ei tästä aineistosta löydy."),
    ("fi", "Mikä joki se on?", "Kysymys jää vaille vastausta, mutta"),
    ("fr", "Quel fleuve est-ce ?", "Cela sort du cadre des documents que l'on m'a remis."),
    ("hi", "कौन सी नदी है?", "यह मुझे दिए गए दस्तावेज़ों के दायरे से बाहर है।"),
    ("sw", "Ni mto gani?", "Jibu lake silijui."),
]

ANSWERS = [
    ("en", "Which river is it?", "It is the Nile; passage 2 says nothing about its length."),
    ("en", "Which river is it?", "The passages do not give the year, but the river is the Nile."),
    ("en", "Is swimming allowed?", "No, swimming is not allowed in the harbour."),
    ("en", "Who lives there?", "Nobody: the last family moved away in 1931."),
    ("en", "Which river is it?", "Nile"),
    ("de", "Wer baute den Turm?", "Anna Berg baute ihn. Ein genaues Jahr wird nicht genannt."),
    ("de", "Darf man baden?", "Nein, im Hafen darf man nicht baden."),
    ("es", "¿Qué río es?", "Es el Nilo, aunque los textos no indican su longitud."),
    ("fr", "Quel fleuve est-ce ?", "C'est le Nil ; sa longueur n'est pas indiquée."),
    ("fi", "Mikä joki se on?", "Joki on Niili. Pituutta ei mainita."),
    ("id", "Sungai apa itu?", "Sungai Nil, meskipun panjangnya tidak disebutkan."),
    ("ru", "Что это за река?", "Это Нил, а не Конго."),
    ("sw", "Ni mto gani?", "Ni mto Naili, si mto Kongo."),
    ("yo", "Odò wo ni?", "Odò Náílì ni, kì í ṣe Odò Kóńgò."),
    ("ar", "أي نهر هو؟", "إنه نهر النيل وليس الكونغو."),
    ("fa", "کدام رود است؟", "رود نیل است، نه کنگو."),
    ("hi", "कौन सी नदी है?", "यह नील नदी है, कांगो नहीं।"),
    ("bn", "কোন নদী?", "এটা নীল নদ, কঙ্গো নয়।"),
    ("te", "ఏ నది?", "అది నైలు నది, కాంగో కాదు."),
    ("ko", "어느 강입니까?", "콩고강이 아니라 나일강입니다."),
    ("ja", "どの川ですか。", "コンゴ川ではなくナイル川です。"),
    ("zh", "是哪条河？", "是尼罗河，不是刚果河。"),
    ("th", "แม่น้ำอะไร", "แม่น้ำไนล์ ไม่ใช่แม่น้ำคองโก"),
]


@each_case(("language", "question", "text"), ABSTENTIONS)
def test_abstentions_are_detected(language: str, question: str, text: str) -> None:
    assert abstains(text, language, question=question) >= ABSTAINS_AT


@each_case(("language", "question", "text"), ANSWERS)
def test_an_answer_with_a_negation_or_a_caveat_is_no_abstention(
    language: str, question: str, text: str
) -> None:
    assert abstains(text, language, question=question) < ABSTAINS_AT


@each_case("language", LANGUAGES)
def test_english_is_understood_in_every_language(language: str) -> None:
    for text in ("I don't know.", "The passages do not mention who painted it."):
        assert abstains(text, language) >= ABSTAINS_AT
    assert abstains("It was painted by Anna Berg in 1931.", language) < ABSTAINS_AT


def test_a_repeated_question_is_ignored() -> None:
    text = "Who built the lighthouse?\n\n{}"
    assert abstains(text.format("I don't know."), "en") >= ABSTAINS_AT
    assert abstains(text.format("Anna Berg built it in 1931."), "en") < ABSTAINS_AT


def test_marks_letters_and_apostrophes_are_folded() -> None:
    assert abstains("Je ne sais pas.", "fr") == abstains("JE NE SAIS PAS", "fr")
    assert abstains("I can't say.", "en") == abstains("I can’t say.", "en")
    assert abstains("نمی‌دانم", "fa") == abstains("نمي‌دانم", "fa")
    assert abstains("Mi ò mọ̀.", "yo") >= ABSTAINS_AT
    assert abstains("Mi o mo.", "yo") >= ABSTAINS_AT


def test_text_after_a_contrast_word_is_a_separate_piece() -> None:
    text = "The passages say nothing of its age but it is 3 m high."
    values = dict(zip(SIGNS, signs(text, "en"), strict=True))
    assert values["plain_figures"] == 1
    assert values["plain_turns"] > 0


def test_words_of_the_question_before_a_cue_belong_to_the_cue() -> None:
    text, full_question = "When the old harbour café closes, nobody says.", "When does it close?"
    for question_text, kinds in ((full_question, 1), (f"{full_question} The old harbour café.", 2)):
        assert (
            dict(zip(SIGNS, signs(text, "en", question=question_text), strict=True))["cues"]
            == kinds
        )


@pytest.mark.parametrize("text", ["1. {}", "1) {}\n2) Please ask the town hall."])
def test_the_number_of_a_list_item_is_no_sentence(text: str) -> None:
    abstention = text.format("The passages do not say when the bridge was built.")
    assert abstains(abstention, "en", question="When was the bridge built?") >= ABSTAINS_AT
    answer = text.format("The bridge was built in 1951.")
    assert abstains(answer, "en", question="When was the bridge built?") < ABSTAINS_AT


def test_a_text_without_words_has_no_signs() -> None:
    for text in ("", "...", " \n"):
        assert abstains(text, "en") == 0
        assert not any(signs(text, "en"))
    with pytest.raises(UnknownNameError):
        abstains("I don't know.", "xx")


@given(st.text(max_size=300), st.sampled_from(sorted(LANGUAGES)), st.text(max_size=60))
def test_every_text_has_a_probability(text: str, language: str, question: str) -> None:
    assert 0 <= abstains(text, language, question=question) <= 1
    assert len(signs(text, language, question=question)) == len(SIGNS)


def test_long_texts_take_no_longer_than_their_beginning() -> None:
    start = time.perf_counter()
    abstains("no answer, " * 100_000, "en")
    assert time.perf_counter() - start < 1
