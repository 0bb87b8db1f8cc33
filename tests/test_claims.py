"""Test claims about candidate answers, in 18 languages."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from cases import each_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from subsets import FEW_LANGUAGES, slow_except

from mirage import MirageDataset
from mirage.features import answered, feature
from mirage.languages import LANGUAGES, Language
from mirage.models import Query, Response
from mirage.surrogate.drafts import bundled_texts
from mirage.text import parse, read_claims
from mirage.text._cues import CUES, cues
from mirage.text._folding import fold
from mirage.text.claims import Stance

DATA = Path(__file__).parent / "data"
QUESTION = "Which is the longest river in Africa?"
RIVERS = (("Nile", "River Nile"), ("Congo",), ("Zambezi",))
DIFFICULT_KINDS = ("abstain_then_answer", "late_lie", "myth_truth", "rhetorical")
UNUSUAL_KINDS = (
    *("anything_but", "crossed_out", "dialogue", "irony", "last_word", "long_chat", "neither_nor"),
    *("not_only", "one_qualifies", "picked", "still_unproven", "swapped_roles", "until"),
    "would_have",
)
MARK = re.compile(r"\{[ADCRLO]\|([^{}|]*)\}")


@each_case(
    ("text", "committed", "stances"),
    [
        ("It is the Nile.", {0}, {0: "asserted"}),
        ("Not the Congo but the Nile.", {0}, {1: "contrasted", 0: "asserted"}),
        ("Many say the Nile; in fact the longest is the Congo.", {1}, {0: "attributed"}),
        (
            "Contrary to popular belief, the Nile is not the longest river in Africa.",
            set(),
            {0: "denied"},
        ),
        ("Nile, Congo, Zambezi", set(), {0: "listed", 1: "listed", 2: "listed"}),
        ("The Congo is longer than the Nile.", {1}, {0: "contrasted"}),
        ("This is wrong. “The Nile is the longest. It is long.”", set(), {0: "denied"}),
        ("This is true: “The Nile is the longest river.”", {0}, {0: "asserted"}),
        ("I do not know.", set(), {}),
        ("", set(), {}),
    ],
)
def test_a_mention_is_not_an_assertion(
    text: str, committed: set[int], stances: dict[int, str]
) -> None:
    claims = read_claims(text, RIVERS, "en", question=QUESTION)
    assert claims.committed == committed
    read = {mention.candidate: mention.stance for mention in claims.mentions}
    assert {candidate: read[candidate] for candidate in stances} == stances


def test_mentions_have_offsets() -> None:
    claims = read_claims("The Congo? No: the **River Nile**, as the Nile is called.", RIVERS, "en")
    words = [(m.candidate, claims.text[m.start : m.end]) for m in claims.mentions]
    assert words == [(1, "Congo"), (0, "River Nile"), (0, "Nile")]


def test_parts_of_one_answer_are_no_rivals() -> None:
    text = "The White Nile and the Blue Nile."
    candidates = (("White Nile",), ("Blue Nile",), ("Congo",))
    assert read_claims(text, candidates, "en", groups=(0, 0, 1)).committed == {0, 1}


def test_parts_of_one_answer_may_share_words() -> None:
    candidates = (("Temp and Warm",), ("Warm",), ("eight seconds",), ("Boil",))
    claims = read_claims(
        "Hold Temp and Warm for eight seconds.", candidates, "en", groups=(0, 0, 0, 1)
    )
    assert claims.committed == {0, 1, 2}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # lexicons load first
@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["Nile", "not", "Congo", ",", "\n", "?"])).map(" ".join),
    st.sampled_from(FEW_LANGUAGES),
)  # fmt: skip
def test_every_text_is_read_consistently(text: str, language: str) -> None:
    claims = read_claims(text, RIVERS, language, question=QUESTION)
    assert claims == read_claims(text, RIVERS, language, question=QUESTION)
    assert len({claims.certainty[index] for index in claims.committed}) <= 1
    ends = [0, *(m.end for m in claims.mentions)]
    for mention, end in zip(claims.mentions, ends, strict=False):
        assert end <= mention.start < mention.end <= len(claims.text)
        assert sum(mention.probabilities) == pytest.approx(1)
        assert mention.stance in Stance


@pytest.mark.parametrize("codes", slow_except([("en", "sw")], [("en", "sw"), tuple(LANGUAGES)]))
def test_held_out_kinds_of_text_are_mostly_read_correctly(codes: tuple[str, ...]) -> None:
    """Test four difficult kinds of text in 18 languages against a rule that looks for mentions."""
    right, mention_rule, turned = 0, 0, Counter[bool]()
    rows = [row for code in codes for row in held_out(code, DIFFICULT_KINDS)]
    for code, row in rows:
        side, mentioned = sides_of_text(code, row)
        right += side == row["commits"]
        mention_rule += mentioned == row["commits"]
        turned[{side, row["commits"]} == {"right", "wrong"}] += 1
    assert right > 0.8 * len(rows)
    assert mention_rule < 0.7 * len(rows)
    assert turned[True] < 0.1 * len(rows)


@pytest.mark.parametrize("codes", slow_except([("en", "sw")], [("en", "sw"), tuple(LANGUAGES)]))
def test_more_unusual_texts_are_read_correctly_than_by_their_mentions(
    codes: tuple[str, ...],
) -> None:
    """Test ironic, crossed-out and other unusual texts, which eight languages have."""
    rows = [row for code in codes for row in held_out(code, UNUSUAL_KINDS)]
    pairs = [(sides_of_text(code, row), row["commits"]) for code, row in rows]
    right = sum(side == commits for (side, _), commits in pairs)
    mention_rule = sum(mentioned == commits for (_, mentioned), commits in pairs)
    assert right > 0.55 * len(rows)
    assert mention_rule < 0.45 * len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "least"),
    [
        *(("fresh_denial", 0.65), ("fresh_lie", 0.85), ("fresh_true", 0.8)),
        *(("ordinary_denial", 0.7), ("ordinary_lie", 0.85), ("ordinary_true", 0.8)),
    ],
)
def test_texts_by_independent_authors_are_mostly_read_correctly(kind: str, least: float) -> None:
    """Test texts whose authors knew neither the training texts nor the lexicons."""
    rows = [row for code in LANGUAGES for row in held_out(code, [kind])]
    sides = [(sides_of_text(code, row)[0], row["commits"]) for code, row in rows]
    assert sum(side == commits for side, commits in sides) > least * len(rows)


@each_case(
    ("code", "text"),
    [
        ("en", "The Nile is not the longest river in Africa."),
        ("en", "Contrary to popular belief, the Nile is not the longest river in Africa."),
        ("ja", "アフリカで最も長い川はナイル川ではありません。"),
        ("ru", "Нил не самая длинная река Африки."),
        ("sw", "Naili si mto mrefu zaidi barani Afrika."),
        ("te", "ఆఫ్రికాలో అతి పొడవైన నది నైలు కాదు."),
    ],
)
def test_a_plain_denial_is_clear(code: str, text: str) -> None:
    query = MirageDataset.bundled(code)["q01"]
    claims = read_claims(text, query.answers, code, question=query.text)
    assert claims.mentions[0].probabilities[tuple(Stance).index(Stance.DENIED)] > 0.8


def held_out(code: str, kinds: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    lines = (DATA / "claims" / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(code, row) for row in map(json.loads, lines) if row["kind"] in kinds]


def sides_of_text(code: str, row: dict[str, str]) -> tuple[str, str]:
    query = MirageDataset.bundled(code)[row["query_id"]]
    answer = parse(MARK.sub(r"\1", row["text"]), code, query.passage_ids).answer_text
    return sides(query, answer)


def sides(query: Query, answer: str) -> tuple[str, str]:
    """Return the side that a text commits to, and the side if every mention were an assertion."""
    groups = (*(0 for _ in query.answers), *range(1, len(query.wrong_answers) + 1))
    candidates = (*query.answers, *query.wrong_answers)
    claims = read_claims(answer, candidates, query.language, question=query.text, groups=groups)
    chosen = {"wrong" if groups[index] else "right" for index in claims.committed}
    mentioned = {groups[mention.candidate] for mention in claims.mentions}
    rule = "right" if 0 in mentioned else "wrong" if mentioned else "none"
    return (chosen.pop() if len(chosen) == 1 else "none"), rule


@pytest.mark.parametrize(
    "code", slow_except(["hi", "ja", "sw"], ["en", "fi", "hi", "ja", "sw", "te"])
)
def test_false_answers_are_detected_and_true_ones_are_not_flagged(code: str) -> None:
    corpus = MirageDataset.bundled(code)
    lines = (DATA / "truth" / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if corpus[row["query_id"]].answerable]
    share = {
        (kind, name): sum(value(name, corpus[row["query_id"]], row[kind]) for row in rows)
        / len(rows)
        for kind in ("true", "false")
        for name in ("answer_match", "wrong_answer")
    }
    assert share["true", "answer_match"] > 0.85
    assert share["true", "wrong_answer"] < 0.07  # two of 30
    assert share["false", "answer_match"] < 0.05
    assert share["false", "wrong_answer"] > 0.7


def test_exchanged_answers_are_detected() -> None:
    """True texts that also mention a wrong answer, with both answers exchanged."""
    verdicts = [
        value("wrong_answer", query, exchanged)
        for code in FEW_LANGUAGES
        for query in MirageDataset.bundled(code)
        for exchanged in exchange(query, bundled_texts(code)[query.id].true)
    ]
    assert len(verdicts) > 25
    assert sum(verdicts) > 0.6 * len(verdicts)


def exchange(query: Query, texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts that state one right and one wrong answer, with the two exchanged."""
    if len(query.answers) != 1:
        return
    right, wrong = (
        "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        for forms in (query.answers[0], [f for forms in query.wrong_answers for f in forms])
    )
    for text in texts:
        here, rival = re.search(right, text), re.search(wrong or "(?!)", text)
        if here and rival:
            other = {True: rival[0], False: here[0]}
            yield re.sub(
                f"({right})|(?:{wrong})",
                lambda match, other=other: other[match[1] is not None],
                text,
            )


def value(name: str, query: Query, text: str) -> float:
    return float(
        feature(name).compute([answered(query, Response(query_id=query.id, text=text))])[0]
    )


@pytest.mark.parametrize(
    ("language", "question", "text", "answer"),
    [
        ("th", "ใครเป็นผู้แต่งนวนิยายเรื่องดอนกิโฆเต้", "ผู้แต่งนวนิยายเรื่องดอนกิโฆเต้คือเซร์บันเตส", "เซร์บันเตส"),
        (
            "ru",
            "Какова глубина озера Байкал?",
            "Глубина озера Байкал составляет 1642 метра.",
            "1642",
        ),
    ],
)
def test_words_that_only_contain_a_cue_deny_nothing(
    language: str, question: str, text: str, answer: str
) -> None:
    """The Thai word for a novel contains that for fiction; Baikal begins like a tall story."""
    assert read_claims(text, [(answer,)], language, question=question).committed == {0}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("id", "Notulen 8 April menyebut angka itu."),  # holds "not ... but"
        ("ru", "Некоторая свобода разрешена."),  # holds "не ... а"
        ("fr", "Le vaccin dont on parle est daté de 1928."),  # "dont" is no "don't"
    ],
)
def test_parts_of_words_are_no_cues(code: str, text: str) -> None:
    folded = fold(text)
    kinds = {CUES[cue.kind] for cue in cues(folded, text, Language.of(code))}
    assert kinds.isdisjoint({"negation", "exclusion"})


NO_NEGATIONS = (
    ("ar", "لا يزال المتحف مفتوحا، وكلا الفريقين هنا"),
    ("bn", "এ ছাড়া দুটি জাদুঘর আছে"),
    ("de", "Du hast noch 30 Tage Zeit"),
    ("en", "It opens no later than Friday"),
    ("es", "Hace falta un billete"),
    ("fa", "امور خیر در بی‌بی‌سی"),
    ("fi", "Se on ei vain pitkä"),
    ("fr", "Une personne par billet, non seulement le lundi"),
    ("hi", "न केवल दिल्ली"),
    ("id", "Panjangnya kurang lebih 30 km"),
    ("ja", "少なくとも三十日、かならず"),
    ("ko", "모르타르"),
    ("ru", "Не менее 30 дней"),
    ("sw", "Bila shaka ni mto"),
    ("te", "అంతే కాకుండా నది"),
    ("th", "อย่างน้อย 30 วัน"),
    ("yo", "AI ati Airbus"),
    ("zh", "不超过三十天，区别，无锡"),
)


HOMOGRAPHS = (
    ("fi", "Luento alkaa yhdeksältä, ja pelto-ala on suuri"),  # no "älkää", no "älä"
    ("ko", "성 안 우물 옆에 있습니다"),  # "inside"
    ("yo", "Adé ló kọ́ afárá yìí"),  # "built"
    ("en", "It left without a guide, for lack of time"),  # negates a noun
    ("ru", "Башню построили без лесов"),
    ("th", "สร้างเสร็จโดยไม่ใช้เหล็ก"),
)


@pytest.mark.parametrize(("language", "text"), [*NO_NEGATIONS, *HOMOGRAPHS])
def test_words_that_only_look_like_negations_are_none(language: str, text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    found = cues(fold(text), text, Language.of(language))
    assert not [cue for cue in found if CUES[cue.kind] == "negation"]


def test_still_does_not_deny_an_answer() -> None:
    claims = read_claims("Du kannst es noch 30 Tage lang zurückgeben.", [["30 Tage"]], "de")
    assert claims.mentions[0].stance is Stance.ASSERTED


NEGATED_ASIDES = [
    ("en", "When was the mill built?", "1874", "The mill was built in 1874 without a single nail."),
    ("en", "When was the mill built?", "1874", "It was built in 1874 and has never been rebuilt."),
    ("fi", "Milloin mylly rakennettiin?", "1874", "Mylly rakennettiin vuonna 1874 ilman nauloja."),
    ("fi", "Milloin luento alkaa?", "klo 9", "Luento alkaa klo 9."),
    ("fr", "Quand le moulin a-t-il été construit ?", "1874", "Il date de 1874 et n'a pas brûlé."),
    ("id", "Kapan kincir dibangun?", "1874", "Kincir dibangun pada 1874 tanpa paku."),
    (
        "ru",
        "Когда построили мельницу?",
        "1874",
        "Её построили в 1874 году и больше не перестраивали.",
    ),
    ("yo", "Ta ni ó kọ́ afárá náà?", "Adé", "Adé ni ó kọ́ afárá náà."),
]


@pytest.mark.parametrize(("language", "question", "answer", "text"), NEGATED_ASIDES)
def test_a_negation_of_something_else_denies_no_answer(
    language: str, question: str, answer: str, text: str
) -> None:
    claims = read_claims(text, [(answer,)], language, question=question)
    assert claims.mentions[0].stance is Stance.ASSERTED


@each_case(
    ("text", "language"),
    [
        ("A frost killed the vines. The documents do not go into detail.", "en"),
        ("A frost killed the vines. The cellar is cold.", "en"),
        ("It was a frost (or hoar frost). Do not hesitate to write again.", "en"),
    ],
)
def test_a_right_answer_that_is_mentioned_twice_is_no_denial(text: str, language: str) -> None:
    answers = [("frost",), ("vines", "hoar frost")]
    claims = read_claims(text, answers, language, question="What happened?", groups=[0, 0])
    assert {mention.stance for mention in claims.mentions} == {Stance.ASSERTED}


UNLISTED_RIVALS = [
    ("en", "Milan", "The workshop is in Milan, not in Turin."),
    (
        "de",
        "Mailand",
        "Die Werkstatt ist nicht in Turin, wie oft zu lesen ist, sondern in Mailand.",
    ),
    ("ko", "밀라노", "공방이 있는 도시는 토리노가 아니라 밀라노입니다."),
    ("zh", "米兰", "工坊不在都灵，而是在米兰。"),
]


@pytest.mark.parametrize(("language", "answer", "text"), UNLISTED_RIVALS)
def test_a_correction_of_an_unlisted_belief_asserts_the_answer(
    language: str, answer: str, text: str
) -> None:
    assert read_claims(text, [(answer,)], language).committed == {0}
