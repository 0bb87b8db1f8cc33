"""Which right and wrong answers count as asserted: notations, yes and no, and lists."""

from __future__ import annotations

import pytest

from mirage.features import feature
from mirage.features.base import answered
from mirage.models import Query, Response


def values(query: Query, text: str) -> tuple[object, object]:
    """Return the values of answer_match and wrong_answer."""
    item = answered(query, Response(query_id=query.id, text=text))
    match, wrong = (feature(name).compute([item])[0] for name in ("answer_match", "wrong_answer"))
    return match, wrong


# Notations ----------------------------------------------------------------------------------------

NOTATIONS = [
    ("en", "9 May 1934", "12 May 1934", "It opened on 1934-05-09.", (1, 0)),
    ("en", "9 May 1934", "12 May 1934", "It opened on 12.05.1934.", (0, 1)),
    ("en", "17 metres", "71 metres", "The tower is 17 m high.", (1, 0)),
    ("en", "17 metres", "71 metres", "The tower is 71 m high.", (0, 1)),
    ("en", "3.2 million cubic metres", "2.3 million cubic metres", "3,200,000 m³.", (1, 0)),
    ("en", "60 euros", "90 euros", "The fee is €60 a day.", (1, 0)),
    ("en", "60 euros", "90 euros", "The fee is €90 a day.", (0, 1)),
    ("en", "18 percent", "81 percent", "The share was 18%.", (1, 0)),
    ("en", "Ingrid Halvorsen", "Per Solberg", "The bridge is by I. Halvorsen.", (1, 0)),
    ("de", "9. Mai 1934", "12. Mai 1934", "Eröffnung war am 09.05.1934.", (1, 0)),
    ("de", "3,2 Millionen Kubikmeter", "2,3 Millionen Kubikmeter", "3.200.000 m³.", (1, 0)),
    ("fr", "60 euros", "90 euros", "Le tarif est de 60 € par jour.", (1, 0)),
    (
        "es",
        "3,2 millones de metros cúbicos",
        "2,3 millones de litros",
        "Caben 3.200.000 m³.",
        (1, 0),
    ),
    ("fi", "18 prosenttia", "81 prosenttia", "Osuus oli 18 %.", (1, 0)),
    ("ru", "9 мая 1934 года", "12 мая 1934 года", "Открыта 09.05.1934.", (1, 0)),
    ("ar", "18 بالمئة", "81 بالمئة", "بلغت النسبة 18٪.", (1, 0)),
    ("hi", "17 मीटर", "71 मीटर", "मीनार की ऊँचाई 17 m है।", (1, 0)),
    ("ja", "1934年5月9日", "1934年5月12日", "開業日は1934/05/09です。", (1, 0)),
    ("ja", "1930年", "1935年", "昭和5年に開業しました。", (1, 0)),
    ("ko", "320만 세제곱미터", "230만 세제곱미터", "3,200,000㎥입니다.", (1, 0)),
    ("sw", "asilimia 18", "asilimia 81", "Ilikuwa 18%.", (1, 0)),
    ("th", "พ.ศ. 2477", "พ.ศ. 2480", "เปิดในปี ค.ศ. 1934", (1, 0)),
    ("zh", "百分之18", "百分之81", "比例为18%。", (1, 0)),
]


BEGINNINGS = [
    ("en", "Niger", "Nigeria", "The river rises in Nigeria.", (0, 1)),
    ("en", "Niger", "Nigeria", "The river rises in Niger.", (1, 0)),
    ("en", "Nigeria", "Niger", "The river rises in Nigeria.", (1, 0)),
    ("en", "India", "Indiana", "Not in Indiana but in India.", (1, 0)),
    ("ru", "Рим", "Римини", "Это произошло в Римини.", (0, 1)),
    ("ru", "Рим", "Римини", "Это произошло в Риме.", (1, 0)),
    ("sw", "Kenya", "Kenyatta", "Ni Kenyatta.", (0, 1)),
]


@pytest.mark.parametrize(("language", "right", "wrong", "text", "expected"), BEGINNINGS)
def test_an_answer_that_begins_with_another_is_not_that_answer(
    language: str, right: str, wrong: str, text: str, expected: tuple[int, int]
) -> None:
    query = Query(id="q", language=language, text="?", answers=[[right]], wrong_answers=[[wrong]])
    assert values(query, text) == expected


@pytest.mark.parametrize(("language", "right", "wrong", "text", "expected"), NOTATIONS)
def test_another_notation_of_a_value_is_the_same_answer(
    language: str, right: str, wrong: str, text: str, expected: tuple[int, int]
) -> None:
    query = Query(id="q", language=language, text="?", answers=[[right]], wrong_answers=[[wrong]])
    assert values(query, text) == expected


# Yes and no ---------------------------------------------------------------------------------------

DOGS = Query(
    id="q",
    language="en",
    text="Are dogs allowed on the beach?",
    answers=[["no"]],
    wrong_answers=[["yes"]],
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No, they have to stay at home.", (1, 0)),
        ("Sorry, no: the beach is for people.", (1, 0)),
        ("**Short answer:** no.", (1, 0)),
        ("Dogs are not allowed on the beach.", (1, 0)),
        ("Yes, all year round.", (0, 1)),
        ("Dogs are allowed on the beach.", (0, 0)),
        ("Some say no, but dogs are allowed on the beach.", (0, 0)),
        ("No passage mentions dogs on the beach.", (0, 0)),
        ("The passages do not say whether dogs are allowed on the beach.", (0, 0)),
        ("Nothing is known of it.", (0, 0)),
    ],
)
def test_no_is_an_answer_only_as_a_clause_of_its_own_or_if_a_sentence_implies_it(
    text: str, expected: tuple[int, int]
) -> None:
    assert values(DOGS, text) == expected


FORBIDDEN = (
    (
        *("en", "Is smoking permitted in the garden?", "yes", "no", "forbidden"),
        ("Smoking is strictly forbidden there, without exception.", (1, 0)),
        ("Smoking is not forbidden there.", (0, 1)),
        ("It is a myth that smoking is forbidden there.", (0, 1)),
        ("Many believe that smoking is forbidden, but you may smoke.", (0, 0)),
    ),
    (
        *("de", "Darf man im Garten rauchen?", "ja", "nein", "verboten"),
        ("Rauchen ist dort verboten.", (1, 0)),
        ("Rauchen ist dort nicht verboten.", (0, 1)),
        ("Viele glauben, Rauchen sei verboten, aber man darf es.", (0, 0)),
    ),
    (
        *("ja", "庭で喫煙できますか。", "はい", "いいえ", "禁止"),
        ("庭での喫煙は禁止されています。", (1, 0)),
        ("庭での喫煙は禁止されていません。", (0, 1)),
    ),
    (
        *("fi", "Saako puutarhassa tupakoida?", "kyllä", "ei", "kielletty"),
        ("Tupakointi on siellä kielletty.", (1, 0)),
        ("Tupakointi ei ole siellä kielletty.", (0, 1)),
    ),
)


@pytest.mark.parametrize(
    ("language", "question", "yes", "no", "phrase", "text", "expected"),
    [(*row[:5], *case) for row in FORBIDDEN for case in row[5:]],
)
def test_a_denied_or_reported_phrase_for_no_does_not_answer_no(
    language: str,
    question: str,
    yes: str,
    no: str,
    phrase: str,
    text: str,
    expected: tuple[int, int],
) -> None:
    answers = {"answers": [[no, phrase]], "wrong_answers": [[yes]]}
    query = Query(id="q", language=language, text=question, **answers)
    assert values(query, text) == expected


YES_OR_NO = [
    (
        ("de", "Darf man am Seeufer grillen?", "nein", "ja"),
        ("Nein, das ist verboten.", "Manche sagen nein, aber man darf dort grillen."),
    ),
    (
        ("es", "¿Se puede acampar junto al lago?", "no", "sí"),
        ("No, está prohibido.", "Algunos dicen que no, pero se puede acampar junto al lago."),
    ),
    (
        ("fr", "Peut-on camper près du lac ?", "non", "oui"),
        ("Non, c'est interdit.", "Certains disent non, mais on peut camper près du lac."),
    ),
    (
        ("ru", "Можно ли разбивать палатки у озера?", "нет", "да"),
        ("Нет, это запрещено.", "Некоторые говорят «нет», но палатки у озера разбивать можно."),
    ),
    (
        ("id", "Bolehkah berkemah di tepi danau?", "tidak", "ya"),
        ("Tidak, itu dilarang.", "Ada yang bilang tidak, tetapi boleh berkemah di tepi danau."),
    ),
    (
        ("ja", "湖畔でキャンプできますか。", "いいえ", "はい"),
        ("いいえ、禁止されています。", "いいえと言う人もいますが、湖畔でキャンプできます。"),
    ),
    (
        ("ko", "호숫가에서 야영할 수 있나요?", "아니요", "네"),
        (
            "아니요, 금지되어 있습니다.",
            "아니라고 하는 사람도 있지만 호숫가에서 야영할 수 있습니다.",
        ),
    ),
    (
        ("zh", "湖边可以露营吗？", "不可以", "可以"),
        ("不可以，那里禁止露营。", "有人说不可以，但湖边其实能露营。"),
    ),
]


@pytest.mark.parametrize(("fields", "texts"), YES_OR_NO)
def test_a_no_that_others_say_is_not_the_answer(
    fields: tuple[str, str, str, str], texts: tuple[str, str]
) -> None:
    (language, question, right, wrong), (true, lie) = fields, texts
    query = Query(
        id="q", language=language, text=question, answers=[[right]], wrong_answers=[[wrong]]
    )
    assert values(query, true) == (1, 0)
    assert values(query, lie)[0] == 0


# Lists --------------------------------------------------------------------------------------------

LISTS = [
    ("en", "Which instruments does the band use?", ["harp", "flute", "cello"], ["drum", "tuba"]),
    ("de", "Welche Instrumente spielt die Gruppe?", ["Harfe", "Flöte"], ["Trommel", "Tuba"]),
    ("es", "¿Qué instrumentos usa el grupo?", ["arpa", "flauta"], ["tambor", "tuba"]),
    ("ru", "На каких инструментах играет группа?", ["арфа", "флейта"], ["барабан", "туба"]),
    ("id", "Alat musik apa yang dipakai grup itu?", ["harpa", "seruling"], ["gendang", "tuba"]),
    ("sw", "Bendi hutumia ala gani?", ["kinubi", "filimbi"], ["ngoma", "tuba"]),
    ("ja", "楽団はどの楽器を使いますか。", ["ハープ", "フルート"], ["太鼓", "チューバ"]),
    ("zh", "乐队使用哪些乐器？", ["竖琴", "长笛"], ["大鼓", "大号"]),
]


@pytest.mark.parametrize(("language", "question", "right", "wrong"), LISTS)
def test_wrong_items_of_a_list_are_claims(
    language: str, question: str, right: list[str], wrong: list[str]
) -> None:
    query = Query(
        id="q",
        language=language,
        text=question,
        answers=[[item] for item in right],
        wrong_answers=[[item] for item in wrong],
    )
    comma = "、" if language in ("ja", "zh") else ", "
    assert values(query, comma.join(right) + ".") == (1, 0)
    assert values(query, comma.join([*right, *wrong]) + ".")[1] == 1
    assert values(query, "\n".join(f"- **{item}**" for item in wrong)) == (0, 1)


def test_a_negation_before_a_list_holds_for_all_of_its_items() -> None:
    language, question, right, wrong = LISTS[0]
    query = Query(
        id="q",
        language=language,
        text=question,
        answers=[[item] for item in right],
        wrong_answers=[[item] for item in wrong],
    )
    assert values(query, "Not harp, flute and cello, but drum and tuba.") == (0, 1)
    assert values(query, "Harp, flute and cello, but not the drum.") == (1, 0)
