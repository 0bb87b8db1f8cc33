"""Facts in one short sentence in 18 languages: numbers with decimals, wrong numbers, denials."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from mirage.features import NotComputed, answered, feature, spans
from mirage.models import Passage, Query, Response


class Facts(NamedTuple):
    """Sentences about a bridge and a ferry.

    Attributes:
        question: When was the bridge opened?
        opened: The bridge was opened in 1974.
        denied: The bridge was not opened in 1974.
        rate: The rate rose to 12.5 percent.
        banned: Smoking is not permitted on board the ferries.
        no: "No", as an answer begins with it.
        allowed: Smoking is permitted on board the ferries.
        millions: 2.4 million.
    """

    question: str
    opened: str
    denied: str
    rate: str
    banned: str
    no: str
    allowed: str
    millions: str


FACTS = {
    "en": Facts(
        "When was the bridge opened?",
        "The bridge was opened in 1974.",
        "The bridge was not opened in 1974.",
        "The rate rose to 12.5 percent.",
        "Smoking is not permitted on board the ferries.",
        "No",
        "Smoking is permitted on board the ferries.",
        "2.4 million",
    ),
    "de": Facts(
        "Wann wurde die Brücke eröffnet?",
        "Die Brücke wurde 1974 eröffnet.",
        "Die Brücke wurde nicht 1974 eröffnet.",
        "Die Quote stieg auf 12,5 Prozent.",
        "Das Rauchen ist an Bord der Fähren nicht gestattet.",
        "Nein",
        "Das Rauchen ist an Bord der Fähren gestattet.",
        "2,4 Millionen",
    ),
    "fr": Facts(
        "Quand le pont a-t-il été ouvert ?",
        "Le pont a été ouvert en 1974.",
        "Le pont n'a pas été ouvert en 1974.",
        "Le taux a atteint 12,5 pour cent.",
        "Fumer n'est pas autorisé à bord des ferries.",
        "Non",
        "Fumer est autorisé à bord des ferries.",
        "2,4 millions",
    ),
    "es": Facts(
        "¿Cuándo se abrió el puente?",
        "El puente se abrió en 1974.",
        "El puente no se abrió en 1974.",
        "La tasa subió al 12,5 por ciento.",
        "Fumar no está permitido a bordo de los transbordadores.",
        "No",
        "Fumar está permitido a bordo de los transbordadores.",
        "2,4 millones",
    ),
    "fi": Facts(
        "Milloin silta avattiin?",
        "Silta avattiin vuonna 1974.",
        "Siltaa ei avattu vuonna 1974.",
        "Osuus nousi 12,5 prosenttiin.",
        "Tupakointi ei ole sallittua lauttojen kannella.",
        "Ei",
        "Tupakointi on sallittua lauttojen kannella.",
        "2,4 miljoonaa",
    ),
    "ru": Facts(
        "Когда открыли мост?",
        "Мост открыли в 1974 году.",
        "Мост не открыли в 1974 году.",
        "Ставка выросла до 12,5 процента.",
        "Курение на борту паромов не разрешено.",
        "Нет",
        "Курение на борту паромов разрешено.",
        "2,4 миллиона",
    ),
    "ar": Facts(
        "متى افتُتح الجسر؟",
        "افتُتح الجسر عام 1974.",
        "لم يُفتتح الجسر عام 1974.",
        "ارتفع المعدل إلى 12.5 في المئة.",
        "التدخين غير مسموح به على متن العبارات.",
        "لا",
        "التدخين مسموح به على متن العبارات.",
        "2.4 مليون",
    ),
    "fa": Facts(
        "پل چه زمانی افتتاح شد؟",
        "پل در سال 1974 افتتاح شد.",
        "پل در سال 1974 افتتاح نشد.",
        "نرخ به ۱۲٫۵ درصد رسید.",
        "سیگار کشیدن در کشتی‌های مسافربری مجاز نیست.",
        "نه",
        "سیگار کشیدن در کشتی‌های مسافربری مجاز است.",
        "2.4 میلیون",
    ),
    "hi": Facts(
        "पुल कब खुला?",
        "पुल 1974 में खुला।",
        "पुल 1974 में नहीं खुला।",
        "दर बढ़कर 12.5 प्रतिशत हो गई।",
        "नौकाओं पर धूम्रपान की अनुमति नहीं है।",
        "नहीं",
        "नौकाओं पर धूम्रपान की अनुमति है।",
        "2.4 करोड़",
    ),
    "bn": Facts(
        "সেতুটি কবে খোলা হয়?",
        "সেতুটি 1974 সালে খোলা হয়।",
        "সেতুটি 1974 সালে খোলা হয়নি।",
        "হার বেড়ে ১২.৫ শতাংশ হয়।",
        "ফেরিতে ধূমপানের অনুমতি নেই।",
        "না",
        "ফেরিতে ধূমপানের অনুমতি আছে।",
        "2.4 কোটি",
    ),
    "te": Facts(
        "వంతెన ఎప్పుడు తెరిచారు?",
        "వంతెన 1974 లో తెరిచారు.",
        "వంతెన 1974 లో తెరవలేదు.",
        "రేటు 12.5 శాతానికి పెరిగింది.",
        "పడవల్లో ధూమపానానికి అనుమతి లేదు.",
        "లేదు",
        "పడవల్లో ధూమపానానికి అనుమతి ఉంది.",
        "2.4 కోట్లు",
    ),
    "th": Facts(
        "สะพานเปิดเมื่อใด",
        "สะพานเปิดในปี 1974",
        "สะพานไม่ได้เปิดในปี 1974",
        "อัตราเพิ่มขึ้นเป็น 12.5 เปอร์เซ็นต์",
        "ไม่อนุญาตให้สูบบุหรี่บนเรือข้ามฟาก",
        "ไม่ได้",
        "อนุญาตให้สูบบุหรี่บนเรือข้ามฟาก",
        "2.4 ล้าน",
    ),
    "id": Facts(
        "Kapan jembatan itu dibuka?",
        "Jembatan itu dibuka pada tahun 1974.",
        "Jembatan itu tidak dibuka pada tahun 1974.",
        "Angkanya naik menjadi 12,5 persen.",
        "Merokok tidak diizinkan di atas kapal feri.",
        "Tidak",
        "Merokok diizinkan di atas kapal feri.",
        "2,4 juta",
    ),
    "sw": Facts(
        "Daraja lilifunguliwa lini?",
        "Lilifunguliwa mwaka 1974.",
        "Halikufunguliwa mwaka 1974.",
        "Kiwango kilipanda hadi asilimia 12.5.",
        "Hairuhusiwi kuvuta sigara ndani ya kivuko.",
        "Hapana",
        "Inaruhusiwa kuvuta sigara ndani ya kivuko.",
        "milioni 2.4",
    ),
    "yo": Facts(
        "Nígbà wo ni wọ́n ṣí afárá náà?",
        "Wọ́n ṣí afárá náà ní ọdún 1974.",
        "Wọn kò ṣí afárá náà ní ọdún 1974.",
        "Iye náà gòkè dé ìdá 12.5.",
        "Wọn kò gba sìgá mímu láàyè nínú ọkọ̀ ojú omi.",
        "Rárá",
        "Wọ́n gba sìgá mímu láàyè nínú ọkọ̀ ojú omi.",
        "mílíọ̀nù 2.4",
    ),
    "ja": Facts(
        "橋はいつ開通しましたか。",
        "橋は1974年に開通しました。",
        "橋は1974年に開通していません。",
        "割合は12.5パーセントに上がりました。",
        "フェリーの船内での喫煙は認められていません。",
        "いいえ",
        "フェリーの船内での喫煙は認められています。",
        "240万",
    ),
    "ko": Facts(
        "다리는 언제 개통되었나요?",
        "다리는 1974년에 개통되었습니다.",
        "다리는 1974년에 개통되지 않았습니다.",
        "비율은 12.5퍼센트로 올랐습니다.",
        "여객선 안에서 흡연은 허용되지 않습니다.",
        "아니요",
        "여객선 안에서 흡연은 허용됩니다.",
        "240만",
    ),
    "zh": Facts(
        "这座桥什么时候通车的？",
        "这座桥于1974年通车。",
        "这座桥并非于1974年通车。",
        "比例上升到百分之12.5。",
        "渡轮上不允许吸烟。",
        "不",
        "渡轮上允许吸烟。",
        "240万",
    ),
}

DECIMAL_COMMA = ("de", "fr", "es", "fi", "ru", "id")


def value(name: str, text: str, query: Query) -> float:
    """Return the value of a feature for an answer."""
    (result,) = feature(name).compute([answered(query, Response(query_id="q", text=text))])
    assert not isinstance(result, NotComputed)
    return result


def query_of(code: str, reference: str, question: str = "?", *passages: str) -> Query:
    """Return a query with a reference; the first passage, if there is one, is relevant."""
    return Query(
        id="q",
        language=code,
        text=question,
        passages=tuple(Passage(id=str(n), text=text) for n, text in enumerate(passages)),
        relevant=("0",) if passages else (),
        reference=reference,
    )


def negations(text: str, query: Query) -> list[str]:
    """Return the parts of an answer that are said to deny a passage."""
    faults = spans(answered(query, Response(query_id="q", text=text)))
    return [fault.text for fault in faults if fault.type == "negation"]


# Decimals -----------------------------------------------------------------------------------------


def decimal(code: str, number: str) -> str:
    """Return a number with the decimal mark of a language."""
    return number.replace(".", ",") if code in DECIMAL_COMMA else number


@pytest.mark.parametrize("code", FACTS)
def test_a_number_with_decimals_is_a_fact(code: str) -> None:
    rate = FACTS[code].rate.replace("۱۲٫۵", "12.5").replace("১২.৫", "12.5")
    right = decimal(code, "12.5")
    passages = (FACTS[code].rate, FACTS[code].banned)
    for query in (query_of(code, FACTS[code].rate), query_of(code, rate, "?", *passages)):
        for true in (rate, rate.replace(right, decimal(code, "12.50"))):
            assert value("fact_recall", true, query) == pytest.approx(1)
            assert value("fact_agreement", true, query) == pytest.approx(1)
        for false in ("99.9", "5.12", "125", "12"):
            text = rate.replace(right, decimal(code, false))
            assert value("fact_recall", text, query) < 0.8
            assert value("fact_agreement", text, query) == 0
    assert value("fact_precision", rate, query) == pytest.approx(1)
    assert value("fact_precision", rate.replace(right, decimal(code, "99.9")), query) < 0.8


@pytest.mark.parametrize("code", [code for code in FACTS if code not in ("sw", "yo")])
def test_a_multiplied_number_equals_the_same_number_in_digits(code: str) -> None:
    millions = FACTS[code].millions
    digits = "24,000,000" if code in ("hi", "bn", "te") else "2,400,000"
    for reference, answer in ((millions, digits), (digits, millions)):
        query = query_of(code, f"{reference}.")
        assert value("fact_recall", f"{answer}.", query) == pytest.approx(1)
        assert value("fact_agreement", f"{answer}.", query) == pytest.approx(1)
        assert value("fact_recall", "2.4.", query) == 0


@pytest.mark.parametrize(
    ("code", "reference", "true", "false"),
    [
        ("en", "It was lit on 14 March 1887.", "On 14.03.1887.", "On 15.04.1878."),
        ("en", "It was lit on 2011-03-04.", "Lit on 4 March 2011.", "It was lit on 2011-04-03."),
        ("en", "It opens at 10:30.", "At 10.30.", "It opens at 30:10."),
        ("de", "Es wurde am 14.03.1887 entzündet.", "Am 14. März 1887.", "Am 15. April 1878."),
        ("ja", "1887年3月14日に点灯した。", "1887-03-14", "1878-05-15"),
        ("en", "It took 12.5 s.", "12.50 seconds.", "It took 5.12 s."),
        ("en", "It costs 2.40 euros.", "2.4 euros.", "It costs 14.40 euros."),
        ("hi", "बजट 24 लाख रुपये था।", "२४,००,००० रुपये", "2.4 लाख रुपये"),
    ],
)
def test_numbers_are_compared_as_values(code: str, reference: str, true: str, false: str) -> None:
    query = query_of(code, reference)
    assert value("fact_agreement", true, query) > 0.5
    assert value("fact_agreement", false, query) < 0.5
    assert value("fact_recall", true, query) > value("fact_recall", false, query)


# Negations ----------------------------------------------------------------------------------------

COMMAS = {"ja": "、", "zh": "，", "ar": "، ", "fa": "، ", "th": " "}
STOPS = {"hi": "। ", "bn": "। ", "ja": "。", "zh": "。", "th": " "}


def saying_no(code: str, text: str) -> tuple[str, str]:
    """Return a sentence after the word for no and a comma, and after the word and a full stop."""
    no, clause = FACTS[code].no, text[0].lower() + text[1:]
    return f"{no}{COMMAS.get(code, ', ')}{clause}", f"{no}{STOPS.get(code, '. ')}{text}"


@pytest.mark.parametrize("code", FACTS)
def test_no_before_a_negative_statement_is_no_negation_of_it(code: str) -> None:
    facts = FACTS[code]
    query = query_of(code, facts.banned, "?", facts.banned, facts.rate)
    for answer in (facts.banned, *saying_no(code, facts.banned)):
        assert negations(f"{answer} [1]", query) == []
        assert value("fact_agreement", answer, query) == pytest.approx(1)
    for reference in saying_no(code, facts.banned):
        query = query_of(code, reference)
        assert value("fact_agreement", facts.banned, query) == pytest.approx(1)


@pytest.mark.parametrize("code", FACTS)
def test_an_added_or_omitted_negation_is_found_behind_no_too(code: str) -> None:
    facts = FACTS[code]
    for source, answer in ((facts.allowed, facts.banned), (facts.banned, facts.allowed)):
        query = query_of(code, source, "?", source, facts.rate)
        for text in (answer, *saying_no(code, answer)):
            assert negations(f"{text} [1]", query), text
        assert value("fact_agreement", answer, query) == 0


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("No-one was hurt in the fire at the mill.", "No one was hurt in the fire at the mill."),
        ("**No**, it is not open on Mondays.", "It is not open on Mondays."),
        ("No – the bridge is open on Mondays.", "The bridge is open on Mondays."),
        ("No.", "It is not open on Mondays."),
    ],
)
def test_an_opening_no_ends_at_a_mark(answer: str, passage: str) -> None:
    query = query_of("en", passage, "?", passage, "The ferry sails hourly.")
    assert negations(f"{answer} [1]", query) == []


# Short answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", FACTS)
def test_a_wrong_number_or_a_denial_in_a_short_answer_does_not_agree(code: str) -> None:
    facts = FACTS[code]
    query = query_of(code, facts.opened, facts.question)
    assert value("fact_agreement", facts.opened, query) == pytest.approx(1)
    assert value("fact_agreement", facts.opened.replace("1974", "1981"), query) == 0
    assert value("fact_agreement", facts.denied, query) == 0


@pytest.mark.parametrize(
    ("code", "reference", "answer"),
    [
        ("en", "38 metres.", "52 metres."),
        ("en", "38 metres.", "It is 52 metres high."),
        ("en", "It was opened in 1974.", "It opened in 1981."),
        ("ko", "2004년부터 시행되었습니다.", "2011년부터 시행되었습니다."),
        ("zh", "哈松灯塔于1887年3月14日首次点亮。", "哈松灯塔于1885年首次点亮。"),
        ("sw", "Lilibuniwa na Anna Lindqvist.", "Lilibuniwa na Peter Holm."),
        ("id", "Dirancang oleh Anna Lindqvist.", "Dirancang oleh Peter Holm."),
    ],
)
def test_a_short_answer_replaces_a_number_or_a_name(code: str, reference: str, answer: str) -> None:
    query = query_of(code, reference)
    assert value("fact_agreement", answer, query) == 0
    assert value("fact_agreement", reference, query) == pytest.approx(1)


@pytest.mark.parametrize(
    ("code", "reference", "answer"),
    [
        ("en", "About 100 degrees Celsius.", "About 100 °C."),
        ("en", "It needed 55.5 hours.", "55 and a half hours."),
        ("zh", "渡轮16:15开。", "渡轮下午4点15分开。"),
        ("en", "The tower is 38 metres high.", "38 metres, or 52 metres with its mast."),
        ("en", "Penicillin was discovered in 1928 by Fleming.", "Fleming, in 1928."),
    ],
)
def test_a_true_short_answer_replaces_nothing(code: str, reference: str, answer: str) -> None:
    assert value("fact_agreement", answer, query_of(code, reference)) > 0.5
