"""Facts of a reference, of an answer and of passages: weights by hand, in five scripts."""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.features import NotComputed, answered, feature
from mirage.models import Passage, Query, Response
from mirage.text.alignment import replacements

NUMBER = 4
ONE_OF_THREE = math.log(4 / 1.5) ** 2
"""Weight of a word that one of three passages has."""

NONE_OF_THREE = math.log(4 / 0.5) ** 2
"""Weight of a word that only the reference has."""


class Case(NamedTuple):
    """A question, three passages of which the first answers it, and answers."""

    question: str
    passages: tuple[str, ...]
    reference: str
    reworded: str
    wrong: str
    wrong_number: str
    whole: str
    river: str
    other_river: str
    in_other_words: str


CASES = {
    "en": Case(
        question="Which is the longest river in Africa?",
        passages=(
            "The Nile covers 6,600 kilometres and reaches the sea in Egypt.",
            "The Congo crosses the equator twice on its way.",
            "The Zambezi plunges over Victoria Falls.",
        ),
        reference="The Nile, with 6,600 kilometres.",
        reworded="The river is called the Nile; it has 6600 kilometres.",
        wrong="It is the Congo.",
        wrong_number="The Nile, with 4,700 kilometres.",
        whole="The longest river in Africa is the Nile, with 6,600 kilometres.",
        river="Nile",
        other_river="Congo",
        in_other_words="It is 6600 kilometres from end to end; nothing is longer than the Nile.",
    ),
    "ru": Case(
        question="Какая река самая длинная в Африке?",
        passages=(
            "Нил тянется на 6600 километров и впадает в море в Египте.",
            "Конго дважды пересекает экватор.",
            "Замбези образует водопад Виктория.",
        ),
        reference="Это Нил, 6600 километров.",
        reworded="Длина Нила равна 6600 километрам.",
        wrong="Это Конго.",
        wrong_number="Это Нил, 4700 километров.",
        whole="Самая длинная река в Африке это Нил, 6600 километров.",
        river="Нил",
        other_river="Конго",
        in_other_words="Длиннее всех Нил: от истока до моря 6600 километров.",
    ),
    "ar": Case(
        question="ما أطول نهر في أفريقيا؟",
        passages=(
            "يمتد النيل مسافة 6600 كيلومتر ويصب في البحر في مصر.",
            "يعبر الكونغو خط الاستواء مرتين.",
            "يشكل الزامبيزي شلالات فيكتوريا.",
        ),
        reference="النيل، وطوله 6600 كيلومتر.",
        reworded="إنه النيل ويبلغ ٦٦٠٠ كيلومتر.",
        wrong="إنه الكونغو.",
        wrong_number="النيل، وطوله 4700 كيلومتر.",
        whole="أطول نهر في أفريقيا هو النيل، وطوله 6600 كيلومتر.",
        river="النيل",
        other_river="الكونغو",
        in_other_words="لا نهر هناك يفوق النيل الذي يبلغ 6600 كيلومتر.",
    ),
    "hi": Case(
        question="अफ़्रीका की सबसे लंबी नदी कौन-सी है?",
        passages=(
            "नील 6600 किलोमीटर बहकर मिस्र में समुद्र से मिलती है।",
            "कांगो भूमध्य रेखा को दो बार पार करती है।",
            "ज़ाम्बेज़ी पर विक्टोरिया जलप्रपात है।",
        ),
        reference="नील, जो 6600 किलोमीटर है।",
        reworded="वह नील है, ६६०० किलोमीटर की।",
        wrong="वह कांगो है।",
        wrong_number="नील, जो 4700 किलोमीटर है।",
        whole="अफ़्रीका की सबसे लंबी नदी नील है, जो 6600 किलोमीटर है।",
        river="नील",
        other_river="कांगो",
        in_other_words="6600 किलोमीटर वाली नील से बड़ी कोई नहीं।",
    ),
    "ja": Case(
        question="アフリカで一番長いのはどれですか。",
        passages=(
            "ナイルは6600キロを流れ、エジプトで海に注ぐ。",
            "コンゴは赤道を二度横切る。",
            "ザンベジにはビクトリアの滝がある。",
        ),
        reference="ナイル、6600キロ。",
        reworded="６６００キロのナイル。",
        wrong="コンゴ。",
        wrong_number="ナイル、4700キロ。",
        whole="アフリカで一番長いのはナイルで、長さは6600キロです。",
        river="ナイル",
        other_river="コンゴ",
        in_other_words="6600キロもあるナイルです。",
    ),
}


def query_of(code: str) -> Query:
    case = CASES[code]
    return Query(
        id="q",
        language=code,
        text=case.question,
        passages=tuple(Passage(id=str(n), text=text) for n, text in enumerate(case.passages)),
        relevant=("0",),
        reference=f"##Reason: [0].\n##Answer: {case.reference} [0]",
    )


def value(name: str, text: str, query: Query) -> float | NotComputed:
    response = Response(query_id=query.id, text=f"##Reason: So.\n##Answer: {text}")
    return feature(name).compute([answered(query, response)])[0]


@each_case(("code", "manner"), [*product(CASES, ("reference", "reworded"))])
def test_facts_count_in_any_wording(code: str, manner: str) -> None:
    text, query = getattr(CASES[code], manner), query_of(code)
    assert value("fact_recall", text, query) == pytest.approx(1)
    assert value("fact_precision", text, query) == pytest.approx(1)


@pytest.mark.parametrize("code", CASES)
def test_facts_of_irrelevant_passages_do_not_count(code: str) -> None:
    text, query = CASES[code].wrong, query_of(code)
    assert value("fact_recall", text, query) == 0
    assert value("fact_precision", text, query) == 0


@pytest.mark.parametrize("code", ["en", "ru", "hi"])
def test_a_wrong_number_costs_the_weight_of_a_number(code: str) -> None:
    # Two words, the river and its kilometres, are right; the number is not.
    text, query = CASES[code].wrong_number, query_of(code)
    share = 2 * ONE_OF_THREE / (2 * ONE_OF_THREE + NUMBER)
    assert value("fact_recall", text, query) == pytest.approx(share)
    assert value("fact_precision", text, query) == pytest.approx(share)


def test_a_word_of_only_the_reference_counts_only_for_precision() -> None:
    text, query = CASES["ar"].wrong_number, query_of("ar")
    words = 2 * ONE_OF_THREE
    assert value("fact_recall", text, query) == pytest.approx(words / (words + NUMBER))
    words += NONE_OF_THREE  # "and its length"
    assert value("fact_precision", text, query) == pytest.approx(words / (words + NUMBER))


def test_phrasing_counts_for_nothing_and_numbers_always_count() -> None:
    query = query_of("en")
    assert value("fact_precision", "Happily delighted, my friend: Nile!", query) == 1
    assert value("fact_precision", "Nile, 12.", query) == pytest.approx(
        ONE_OF_THREE / (ONE_OF_THREE + NUMBER)
    )
    assert value("fact_recall", "The longest river in Africa.", query) == 0  # the question again


@pytest.mark.parametrize("code", CASES)
def test_an_empty_answer_has_full_precision_and_no_coverage(code: str) -> None:
    query = query_of(code)
    assert value("fact_recall", "", query) == 0
    assert value("fact_precision", "", query) == 1
    assert value("passage_coverage", "", query) == 0


@pytest.mark.parametrize("code", CASES)
def test_only_a_copy_of_all_passages_has_full_coverage(code: str) -> None:
    query, case = query_of(code), CASES[code]
    assert value("passage_coverage", "\n".join(case.passages), query) == 1
    assert value("fact_recall", "\n".join(case.passages), query) == pytest.approx(1)
    short = value("passage_coverage", case.reference, query)
    assert isinstance(short, float)
    assert short < 0.25


def test_coverage_worked_by_hand() -> None:
    # English n-grams have 3 + 2 characters: "abcdef ghij" has seven of them, "abcdef g" four.
    query = Query(id="q", language="en", text="x", passages=(Passage(id="0", text="abcdef ghij"),))
    assert value("passage_coverage", "Abcdef g", query) == 4 / 7
    assert value("passage_coverage", "abcdef ghij klmnop", query) == 1


def test_coverage_counts_only_shown_passages() -> None:
    passages = (Passage(id="0", text="abcdef ghij"), Passage(id="1", text="klmnop qrst"))
    query = Query(id="q", language="en", text="x", passages=passages)
    item = answered(query, Response(query_id="q", text="abcdef ghij", shown=("0",)))
    assert feature("passage_coverage").compute([item]) == [1]
    strange = answered(query, Response(query_id="q", text="abcdef ghij", shown=("2",)))
    (gap,) = feature("passage_coverage").compute([strange])
    assert isinstance(gap, NotComputed)
    assert "'2'" in gap.reason


def with_whole_sentence(code: str) -> Query:
    """Return the query with a whole sentence as its reference."""
    return query_of(code).model_copy(update={"reference": f"##Answer: {CASES[code].whole} [0]"})


def without_passages(query: Query) -> Query:
    """Return the query without its passages."""
    return query.model_copy(update={"passages": (), "relevant": ()})


@pytest.mark.parametrize("code", CASES)
def test_a_false_answer_in_the_words_of_the_reference_does_not_agree(code: str) -> None:
    case, query = CASES[code], with_whole_sentence(code)
    for wrong in (
        case.whole.replace(case.river, case.other_river),
        case.whole.replace("6,600", "4,700").replace("6600", "4700"),
    ):
        assert wrong != case.whole
        assert value("fact_agreement", wrong, query) == 0
        recall = value("fact_recall", wrong, query)
        assert isinstance(recall, float)
        assert recall > 0  # which other features take for a good deal of truth


@pytest.mark.parametrize("code", CASES)
def test_true_answers_agree_in_any_words_with_and_without_passages(code: str) -> None:
    case, query = CASES[code], with_whole_sentence(code)
    for text in (case.whole, case.reference, case.reworded, case.in_other_words):
        for variant in (query, without_passages(query)):
            agreement = value("fact_agreement", text, variant)
            assert isinstance(agreement, float)
            assert agreement > 0.5


@pytest.mark.parametrize("code", CASES)
def test_a_reference_alone_is_enough(code: str) -> None:
    case, query = CASES[code], without_passages(with_whole_sentence(code))
    true = value("fact_agreement", case.reworded, query)
    lie = value("fact_agreement", case.wrong, query)
    assert isinstance(true, float)
    assert isinstance(lie, float)
    assert true - lie > 0.3
    assert value("fact_recall", case.whole, query) == pytest.approx(1)


def query_with_reference(reference: str, question: str, language: str = "en") -> Query:
    """Return a query with only a reference."""
    return Query(id="q", language=language, text=question, reference=f"##Answer: {reference}")


@pytest.mark.parametrize(
    ("language", "question", "reference", "true", "false"),
    [
        (
            "en",
            "Can goldfish learn?",
            "Yes, they can learn.",
            "Yes, they learn.",
            "No, they learn.",
        ),
        ("zh", "你是哪国人？", "我没有国籍。", "我没有具体的国籍。", "我有中国国籍。"),
        ("de", "Schläft der Hai?", "Der Hai schläft nicht tief.", "Nicht tief.", "Sehr tief."),
    ],
)
def test_polarity_counts(
    language: str, question: str, reference: str, true: str, false: str
) -> None:
    query = query_with_reference(reference, question, language)
    agreement, other = (value("fact_agreement", text, query) for text in (true, false))
    assert isinstance(agreement, float)
    assert isinstance(other, float)
    assert agreement - other > 0.09


@pytest.mark.parametrize(
    ("code", "affirmed", "denied"),
    [("en", " is ", " is not "), ("hi", " है", " नहीं है"), ("zh", "是", "不是")],
)
def test_a_denial_in_the_words_of_the_reference_does_not_agree(
    code: str, affirmed: str, denied: str
) -> None:
    texts = {
        "en": "The longest river in Africa is the Nile.",
        "hi": "अफ़्रीका की सबसे लंबी नदी नील है।",
        "zh": "非洲最长的河流是尼罗河。",
    }
    query = query_with_reference(texts[code], "?", code)
    assert value("fact_agreement", texts[code], query) == pytest.approx(1)
    assert value("fact_agreement", texts[code].replace(affirmed, denied, 1), query) == 0


def test_longer_and_shorter_answers_agree() -> None:
    query = query_with_reference(
        "Penicillin was discovered in 1928 by Fleming.", "Who discovered it, when?"
    )
    for true in (
        "Fleming, in 1928.",
        "Fleming.",
        "Penicillin, the first antibiotic that doctors ever used widely, was discovered by the "
        "Scottish bacteriologist Fleming, at his London hospital, in the year 1928.",
    ):
        assert value("fact_agreement", true, query) == pytest.approx(1)
    assert value("fact_agreement", "Penicillin was discovered in 1932 by Fleming.", query) == 0
    assert value("fact_agreement", "Penicillin was discovered in 1928 by Pasteur.", query) == 0
    assert value("fact_agreement", "", query) == 0


def test_accents_do_not_hide_a_replaced_name() -> None:
    query = query_with_reference("El planeta más grande es Júpiter.", "¿Cuál es el mayor?", "es")
    assert value("fact_agreement", "El planeta más grande es Saturno.", query) == 0


def test_a_fact_stated_elsewhere_or_in_number_words_is_not_replaced() -> None:
    query = Query(
        id="q",
        language="en",
        text="What does a night on the green cost?",
        passages=(Passage(id="0", text="Owners of caravans pay 35 pounds a night to the parish."),),
        relevant=("0",),
        reference="##Answer: A night on the green costs owners 35 pounds.",
    )
    for true in (
        "A night on the green costs owners thirty-five pounds.",
        "A night on the green costs everybody 35 pounds, owners too.",
        "A night on the green costs owners a sum of 35 pounds.",
    ):
        assert value("fact_agreement", true, query) == pytest.approx(1)
        assert value("fact_recall", true, query) == pytest.approx(1)
    assert value("fact_agreement", "A night on the green costs owners fifty pounds.", query) == 0


def test_replacements_are_short_and_have_words_around() -> None:
    assert replacements("one and two or three", "one and six or three", "en") == (
        (("two",), ("six",)),
    )
    assert replacements("the two are", "or the six", "en") == ()
    assert replacements("38 metres", "52 metres", "en") == ((("38",), ("52",)),)
    long = "one and six or seven or eight and nine or three"
    assert replacements("one and two or three", long, "en") == ()
    # Of characters, every pair that one of them is in: 長 and 短 between い and さ.
    assert replacements("一番いい長さは六百です", "一番いい短さは六百です", "ja") == (
        (("い長", "長さ"), ("い短", "短さ")),
    )


@each_case(
    ("name", "changes", "reason"),
    [
        ("fact_recall", {"reference": None}, "reference"),
        ("fact_recall", {"answerable": False}, "no passage answers"),
        ("fact_agreement", {"reference": None}, "reference"),
        ("fact_agreement", {"answerable": False}, "no passage answers"),
        ("fact_precision", {"relevant": ()}, "no relevant passage"),
        ("fact_recall", {"reference": "##Answer: The longest river."}, "only repeats the question"),
        ("passage_coverage", {"passages": (), "relevant": ()}, "no passage was shown"),
    ],
)
def test_missing_values_have_a_reason(name: str, changes: dict[str, object], reason: str) -> None:
    result = value(name, "The Nile.", query_of("en").model_copy(update=changes))
    assert isinstance(result, NotComputed)
    assert reason in result.reason


def test_precision_needs_no_reference() -> None:
    query = query_of("en").model_copy(update={"reference": None})
    assert value("fact_precision", "The Nile, 6600 kilometres.", query) == pytest.approx(1)
    assert value("fact_precision", "The Congo.", query) == 0


@settings(deadline=None)
@given(st.sampled_from([*CASES]), st.text(max_size=60))
def test_values_of_any_text_are_between_0_and_1(code: str, text: str) -> None:
    query = query_of(code)
    names = ("fact_recall", "fact_agreement", "fact_precision", "passage_coverage")
    for name in names:
        share = value(name, text, query)
        assert isinstance(share, (int, float))
        assert 0 <= share <= 1 + 1e-12


@each_case(
    "language, fact, answer",
    [
        ("en", "The dam is 1,500 metres wide.", "The dam is 1.5 km wide."),
        ("de", "Der Damm ist 1.500 Meter breit.", "Der Damm ist 1,5 km breit."),
        ("ru", "Ширина плотины 1500 метров.", "Ширина плотины 1,5 километра."),
        ("ko", "댐의 너비는 1500미터이다.", "댐의 너비는 1.5킬로미터이다."),
        ("zh", "大坝宽1500米。", "大坝宽1.5公里。"),
    ],
)
def test_an_equal_amount_in_another_unit_agrees(language: str, fact: str, answer: str) -> None:
    passage = Passage(id="p", text=fact)
    query = Query(
        id="q", language=language, text="?", passages=[passage], relevant=["p"], reference=fact
    )
    texts = [answer, answer.replace("5", "8")]
    items = [answered(query, Response(query_id="q", text=text)) for text in texts]
    for name in ("fact_recall", "fact_agreement", "fact_precision"):
        same, other = feature(name).compute(items)
        assert same > 0.85
        assert other < 0.6
