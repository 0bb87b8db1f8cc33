"""Fault spans: unsupported stretches of an answer are marked and supported ones are not."""

from __future__ import annotations

import pytest
from cases import each_case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from profiles import examples
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.features import NotComputed, Span, answered, feature, spans
from mirage.features.base import Answered
from mirage.features.fault_spans import unknown_facts
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response

SHOWN = {
    "ar": "افتتح الجسر في 12 مايو 1974، ويبلغ طوله 840 مترا. صممه المهندس سامر القاضي.",
    "bn": "সেতুটি ১৯৭৪ সালের ১২ মে চালু হয়। এর দৈর্ঘ্য ৮৪০ মিটার।",
    "de": "Die Brücke wurde am 12. Mai 1974 eröffnet. Sie ist 840 Meter lang.",
    "en": "The bridge was opened on 12 May 1974. It is 840 metres long. Anna Berg designed it.",
    "es": "El puente se inauguró el 12 de mayo de 1974. Mide 840 metros. Lo diseñó Ana Robles.",
    "fa": "این پل در ۱۲ مه ۱۹۷۴ افتتاح شد. طول آن ۸۴۰ متر است.",
    "fi": "Silta avattiin 12. toukokuuta 1974. Se on 840 metriä pitkä. Sen suunnitteli Anna Berg.",
    "fr": "Le pont a été inauguré le 12 mai 1974. Il mesure 840 mètres. Anne Morel l'a dessiné.",
    "hi": "पुल 12 मई 1974 को खुला। इसकी लंबाई 840 मीटर है।",
    "id": "Jembatan itu dibuka pada 12 Mei 1974. Panjangnya 840 meter. Perancangnya Sari Wijaya.",
    "ja": "橋は1974年5月12日に開通した。長さは840メートルである。",
    "ko": "다리는 1974년 5월 12일에 개통되었다. 길이는 840미터이다.",
    "ru": "Мост открыли 12 мая 1974 года. Его длина 840 метров. Его построила Анна Берг.",
    "sw": "Daraja lilifunguliwa tarehe 12 Mei 1974. Lina urefu wa mita 840.",
    "te": "వంతెన 1974 మే 12న ప్రారంభమైంది. దాని పొడవు 840 మీటర్లు.",
    "th": "สะพานเปิดใช้เมื่อวันที่ 12 พฤษภาคม 1974 และยาว 840 เมตร",
    "yo": "Wọ́n ṣí afárá náà ní ọjọ́ 12 oṣù May ọdún 1974. Gígùn rẹ̀ jẹ́ mítà 840.",
    "zh": "大桥于1974年5月12日通车。全长840米。",
}


def item(language: str, text: str, passages: tuple[str, ...] = (), **gold: object) -> Answered:
    texts = passages or (SHOWN[language],)
    query = Query(
        id="q",
        language=language,
        text="?",
        passages=tuple(Passage(id=f"p{i}", text=passage) for i, passage in enumerate(texts)),
        **gold,
    )
    return answered(query, Response(query_id="q", text=text))


def marks(language: str, text: str, *passages: str, **gold: object) -> list[tuple[str, str]]:
    return [(span.type, span.text) for span in spans(item(language, text, passages, **gold))]


@each_case(
    "language, text",
    [
        ("en", "It is 0.84 km long, or about 2,760 feet."),
        ("de", "Sie ist 0,84 Kilometer lang."),
        ("fi", "Se on 0,84 kilometriä pitkä."),
        ("ru", "Его длина 0,84 километра."),
        ("hi", "इसकी लंबाई 0.84 किलोमीटर है।"),
        ("zh", "全长0.84公里。"),
        ("th", "ยาว 0.84 กิโลเมตร"),
    ],
)
def test_an_equal_amount_in_another_unit_is_not_marked(language: str, text: str) -> None:
    assert marks(language, text) == []
    other = text.replace("84", "97").replace("2,760", "3,180")
    assert {type_ for type_, _ in marks(language, other)} == {"number"}


@pytest.mark.parametrize("language", MOSTLY_SLOW_LANGUAGES)
def test_supported_facts_are_not_marked(language: str) -> None:
    assert marks(language, f"{SHOWN[language]} [1]") == []


@each_case("language", LANGUAGES)
def test_unsupported_numbers_and_years_are_marked(language: str) -> None:
    digits = {"bn": ("৮৪০", "৬১০"), "fa": ("۸۴۰", "۶۱۰")}.get(language, ("840", "617"))
    year = {"bn": ("১৯৭৪", "১৯৫৯"), "fa": ("۱۹۷۴", "۱۹۵۹")}.get(language, ("1974", "1959"))
    false = SHOWN[language].replace(*digits)
    assert marks(language, false) == [("number", digits[1])]
    ((kind, text),) = marks(language, SHOWN[language].replace(*year))
    assert kind == "date"
    assert year[1] in text


@each_case(
    ("language", "passage", "answer"),
    [
        ("en", "It has 6,600 km and eleven locks.", "It has 6600 km and 11 locks."),
        (
            "de",
            "Es sind 6.600 km und 27 Schleusen.",
            "Es sind 6600 km, siebenundzwanzig Schleusen.",
        ),
        ("fr", "Il y a 6 600 km.", "Il y a 6.600 km."),
        ("en", "3.5 million people, 40 per cent", "3,500,000 people, 40%"),
        ("en", "The boat leaves at 16:15.", "It leaves at 4.15 pm."),
        ("de", "Das Schiff fährt um 17.30 Uhr.", "Es fährt um halb sechs."),
        ("en", "Opened in 1886, rebuilt in 1901.", "Built in the 19th century, in the 1880s."),
        ("en", "It took 298 days.", "It took about 300 days."),
        ("en", "Founded in 1901, closed in 1934.", "It was open for 33 years."),
        ("ja", "人口は3億5000万人である。", "人口は350000000人です。"),
        ("zh", "二十五个人来了。", "来了25个人。"),
        ("hi", "यहाँ पच्चीस लोग थे।", "२५ लोग थे।"),
        ("ar", "حضر ٢٥ شخصا.", "حضر خمسة وعشرون شخصا."),
        ("sw", "Watu elfu tatu walikuja.", "Walikuja watu 3,000."),
        ("fi", "Taloja on 25.", "Taloja on kaksikymmentäviisi."),
        ("ko", "참가자는 35만 명이다.", "참가자는 350,000명이다."),
        ("th", "มีคน ๒๕ คน", "มีคนยี่สิบห้าคน"),
        ("ru", "Пришло двадцать пять человек.", "Пришло 25 человек."),
        (
            "en",
            "The K2 kettle has a lid.",
            "1. Lift the lid.\n2. See passage 1 for the K2.\n4. Done.",
        ),
    ],
)
def test_a_number_may_be_written_in_another_way(language: str, passage: str, answer: str) -> None:
    assert marks(language, answer, passage) == []


def test_an_age_follows_from_two_years_whether_the_birthday_has_passed_or_not() -> None:
    passage = "Anna Berg (14 December 1918 - 3 September 1994) designed the bridge."
    assert marks("en", "Anna Berg was 75 years old when she died.", passage) == []
    assert marks("en", "Anna Berg was 76 years old when she died.", passage) == []
    assert marks("en", "Anna Berg was 74 years old when she died.", passage) == [("number", "74")]


def test_number_words_are_numbers() -> None:
    assert marks("en", "It has seventeen arches.") == [("number", "seventeen")]
    assert marks("ru", "У моста семнадцать опор.") == [("number", "семнадцать")]
    assert marks("zh", "桥有十七个拱。") == [("number", "十七")]


@each_case(
    ("language", "text", "mark"),
    [
        ("en", "It was opened on 14 May 1974.", "14 May 1974"),
        ("en", "It was opened on June 12, 1974.", "June 12, 1974"),
        ("es", "Se inauguró el 12 de junio de 1974.", "12 de junio de 1974"),
        ("ru", "Его открыли 12 июня 1974 года.", "12 июня 1974"),
        ("ja", "開通は1974年6月12日です。", "1974年6月12日"),
        ("ko", "1974년 6월 12일에 개통되었다.", "1974년 6월 12일"),
    ],
)
def test_an_unsupported_day_is_marked(language: str, text: str, mark: str) -> None:
    assert marks(language, text) == [("date", mark)]


@each_case("language", sorted(SHOWN))
def test_a_date_in_digits_is_one_fact_in_any_order(language: str) -> None:
    for right in ("12.05.1974", "12. 5. 1974", "12/05/1974", "5/12/1974", "1974-05-12"):
        assert marks(language, f"{right} [1]") == []
    for wrong in ("12.05.1947", "12.06.1974", "15/05/1974", "1974-05-21"):
        assert marks(language, f"{wrong} [1]") == [("date", wrong)]


def test_a_date_in_digits_is_evidence_of_the_same_date_in_words() -> None:
    passage = "다리는 1974. 5. 12. 개통되었다."
    assert marks("ko", "1974년 5월 12일에 개통되었다.", passage) == []
    assert marks("ko", "1974년 5월 21일에 개통되었다.", passage) == [("date", "1974년 5월 21일")]


@pytest.mark.parametrize(
    ("language", "text", "mark"),
    [
        ("en", "Its designer was Mary Whitlock.", "Mary Whitlock"),
        ("ru", "Автором была Мария Соколова.", "Мария Соколова"),
        ("id", "Perancangnya adalah Budi Santoso.", "Budi Santoso"),
        ("fi", "Sen on suunnitellut Liisa Korhonen.", "Liisa Korhonen"),
        ("zh", "设计者是克里斯托弗。", "克里斯托弗"),
    ],
)
def test_an_unsupported_name_is_marked(language: str, text: str, mark: str) -> None:
    assert marks(language, text) == [("name", mark)]


def test_a_name_with_an_ending_is_supported() -> None:
    assert marks("ru", "Это проект Анны Берг.") == []
    assert marks("fi", "Se on Anna Bergin työ.") == []


def test_a_wrong_answer_is_marked_without_a_right_one() -> None:
    gold = {"answers": [["Anna Berg"]], "wrong_answers": [["Carl Holm"], ["1980"]]}
    assert marks("en", "carl holm designed it.", **gold) == [("name", "carl holm")]
    assert marks("en", "anna berg designed it, not carl holm.", **gold) == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Not 1959, as many think: it opened in 1974."),
        ("de", "Nicht 1959, sondern 1974 wurde sie eröffnet."),
        ("fr", "Ce n'est pas en 1959, mais en 1974."),
        ("id", "Bukan tahun 1959, melainkan tahun 1974."),
    ],
)
def test_a_rejected_wrong_answer_is_no_unknown_fact(language: str, text: str) -> None:
    gold = {"answers": [["1974"]], "wrong_answers": [["1959"]]}
    rejecting = item(language, text, **gold)
    assert spans(rejecting) == ()
    assert unknown_facts(rejecting) == 0
    assert marks(language, text.replace("1974", "1981"), **gold) != []


def test_a_negation_that_the_passage_lacks_is_marked() -> None:
    passage = "Visitors may swim in the lake between June and August. Dogs are not allowed there."
    answer = "Visitors may not swim in the lake between June and August [1]."
    assert marks("en", answer, passage) == [("negation", "not")]
    ((kind, text),) = marks("en", "Dogs are allowed there [1].", passage)
    assert kind == "negation"
    assert "are allowed" in text


@pytest.mark.parametrize(
    ("code", "answer", "passage"),
    [
        ("en", "The mill was built without nails in 1874.", "The mill was built in 1874."),
        ("fr", "Le moulin fut construit sans clous en 1874.", "Le moulin fut construit en 1874."),
        ("ru", "Мельницу построили без гвоздей в 1874 году.", "Мельницу построили в 1874 году."),
    ],
)
def test_an_added_without_is_no_negation_of_a_passage(code: str, answer: str, passage: str) -> None:
    assert "negation" not in [kind for kind, _ in marks(code, answer, passage)]


def test_without_in_place_of_with_is_a_negation() -> None:
    passage = "The bread of this region is always made with yeast and salt."
    assert marks("en", passage.replace("with ", "without "), passage) == [("negation", "without")]


@pytest.mark.parametrize(
    ("language", "text", "passage"),
    [
        (
            "en",
            "The museum did not open in 1931, as often said, but in March 1987.",
            "The museum opened in March 1987.",
        ),
        (
            "en",
            "The last ferry leaves at 16:15 from the north pier; the one at 17:30 no longer runs.",
            "The last ferry leaves at 16:15 and not at 17:30 from the north pier.",
        ),
        ("bn", "বোতামটি চেপে থাকুন যতক্ষণ না আলো জ্বলে।", "বোতামটি চেপে থাকুন আলো জ্বলে উঠলে ছাড়ুন।"),
        (
            "ru",
            "Зал не 900 метров (это склад), зал музея занимает 2400 метров.",
            "Зал музея занимает 2400 метров.",
        ),
    ],
)
def test_other_words_for_the_statement_of_a_passage_are_no_negation(
    language: str, text: str, passage: str
) -> None:
    assert "negation" not in dict(marks(language, text, passage))


def test_a_statement_beyond_the_passage_is_no_negation_of_it() -> None:
    answer = "Anna Berg designed the old bridge across the river"
    assert marks("en", f"{answer}, not the city.", f"{answer}.", answers=[["Anna Berg"]]) == []


@pytest.mark.parametrize(
    ("language", "text", "clause"),
    [
        ("hi", "लंबाई 840 मीटर है। The bridge is the longest in the country.", "The bridge is"),
        ("sw", "Lina urefu wa mita 840. The bridge is the longest in the country.", "The bridge"),
        ("en", "It is 840 metres long. Il est le plus long de tout le pays.", "Il est"),
        ("ru", "Его длина 840 метров. 这座桥是全国最长的。", "这座桥是全国最长的"),
    ],
)
def test_a_clause_in_another_language_is_marked(language: str, text: str, clause: str) -> None:
    ((kind, mark),) = marks(language, text)
    assert kind == "language"
    assert mark.startswith(clause)


def test_a_citation_of_an_unknown_passage_is_marked() -> None:
    assert marks("en", "It is 840 metres long [9].") == [("citation", "[9]")]


def test_a_citation_of_the_wrong_passage_is_marked() -> None:
    other = "The museum in the old harbour shows ships and is closed on Mondays."
    text = "The museum in the old harbour is closed on Mondays"
    assert marks("en", f"{text} [2].", SHOWN["en"], other) == []
    assert marks("en", f"{text} [1].", SHOWN["en"], other) == [("citation", "[1]")]


@pytest.mark.parametrize(
    ("language", "text", "mark"),
    [
        ("de", "Entworfen hat sie Helene Brückner aus Ulm.", "Helene Brückner"),
        ("hi", "इसे रोहन सक्सेना ने बनाया।", "रोहन सक्सेना"),
        ("te", "దీన్ని వెంకటేశ్ రూపొందించారు.", "వెంకటేశ్"),
    ],
)
def test_without_a_right_answer_the_most_unfamiliar_words_are_marked(
    language: str, text: str, mark: str
) -> None:
    ((kind, marked),) = marks(language, text, answers=[["Zzyzx"]])
    assert kind == "name"
    assert set(mark.split()) & set(marked.split())
    assert marks(language, text, f"{SHOWN[language]} {text}", answers=[[mark]]) == []


def test_an_abstention_is_not_searched_for_names() -> None:
    text = "The passages do not mention who designed it, unfortunately."
    assert marks("en", text, answers=[["Anna Berg"]]) == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ja", "1974年にオープンし、シンボルとしてツーリストに人気がある橋です。"),
        ("hi", "इस पुल (Harbour Bridge) की लंबाई 840 मीटर है।"),
        ("fr", "Le pont date de la fin du XXe siècle, selon le Contexte."),
        ("en", "The Passages say that it has 840 metres."),
    ],
)
def test_loan_words_glosses_and_roman_numerals_are_no_names(language: str, text: str) -> None:
    assert marks(language, text) == []


def test_katakana_names_of_several_parts_are_names() -> None:
    assert marks("ja", "設計者はジョン・スミスです。") == [("name", "ジョン・スミス")]


def test_initials_stand_for_the_words_they_begin() -> None:
    passage = "It belongs to the Northern Bridge Authority."
    assert marks("en", "It belongs to the NBA.", passage) == []
    assert marks("en", "It belongs to the KQX.", passage) == [("name", "KQX")]


def test_a_title_in_another_language_is_no_clause() -> None:
    passage = "La canción fue un éxito en 1974."
    answer = "La canción fue un éxito en 1974, y se llama «Love Is All You Need for the Night»."
    assert "language" not in dict(marks("es", answer, passage))


def test_span_offsets_refer_to_the_answer_as_written() -> None:
    answered_query = item(
        "en", "##Reason: It is 77 [1].\n##Answer: It is 840 [1] or 617 metres long [1]."
    )
    (span,) = spans(answered_query)
    assert answered_query.parsed.answer[span.start : span.end] == span.text == "617"
    assert span == Span(17, 20, "number", "617")


def test_unknown_facts_is_the_share_of_marked_facts() -> None:
    share = feature("unknown_facts").compute
    assert share([item("en", "It has 840 metres and 17 arches.")]) == [0.5]
    assert share([item("en", "It is long.")]) == [0.0]
    query = Query(id="q", language="en", text="?")
    (gap,) = share([answered(query, Response(query_id="q", text="17 arches"))])
    assert isinstance(gap, NotComputed)
    assert spans(answered(query, Response(query_id="q", text="17 arches"))) == ()


TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [
            "[1]",
            "[9]",
            "17",
            "1959",
            "6,600",
            "12. Mai",
            "5月3日",
            "not",
            "ない",
            "Nile",
            " ",
            "\n",
            "two and",
            "twenty-",
            "خمسة و",
            "́",
            "क्",
            "##Answer:",
            "(",
            "Ⅻ",
            "٣٫٥",
            "十百千",
            "16:75",
        ]
    ),
    max_size=12,
).map(" ".join)


@settings(max_examples=examples(300), deadline=None)
@given(language=st.sampled_from(sorted(LANGUAGES)), text=TEXTS, passage=TEXTS)
@example(language="th", text="ẖ", passage="")  # longer where it is folded
def test_spans_of_any_text_lie_in_the_answer(language: str, text: str, passage: str) -> None:
    answered_query = item(
        language, text, (passage, "Nile 17"), answers=[["Nil"]], wrong_answers=[["17"]]
    )
    end = 0
    for span in spans(answered_query):
        assert end <= span.start < span.end <= len(answered_query.parsed.answer)
        assert answered_query.parsed.answer[span.start : span.end] == span.text
        end = span.end


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("Cyclists may use the bridge.", [["yes"]]),
        ("Many visitors believe that it grew quickly.", [["Anna Berg"]]),
    ],
)
def test_only_names_are_marked_in_place_of_a_right_answer(
    text: str, answers: list[list[str]]
) -> None:
    assert marks("en", text, answers=answers) == []


def test_a_number_of_the_cited_passage_alone_outweighs_the_words_of_another() -> None:
    passages = (
        "Tolmin holds 2.4 million cubic metres of water.",
        "The larger Bovec reservoir has a maximum storage capacity of 4.2 million cubic metres.",
    )
    text = "The maximum storage capacity is {} million cubic metres [1]."
    assert marks("en", text.format("2.4"), *passages) == []
    assert marks("en", text.format("4.2"), *passages) == [("citation", "[1]")]
