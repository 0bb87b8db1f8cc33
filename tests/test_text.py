"""Test parsing with tables of forms that models write, properties of any text, and real outputs."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from profiles import examples
from subsets import slow_except

import mirage
from mirage.errors import UnknownNameError
from mirage.languages import LANGUAGES
from mirage.text import parse, split_sentences, tokenize
from mirage.text._layout import EMOJI
from mirage.text.citations import Passages, _warn_of_numeric_ids, citations, cite_by_id
from mirage.text.responses import ParsedResponse
from mirage.text.sentences import Sentence

MINI = Path(mirage.__file__).parent / "data" / "mini"
SHOWN = ("1001#0", "1001#1", "1001#2", "1001#3", "1001#4")
CODES = list(LANGUAGES)


def ids(*positions: int) -> tuple[str, ...]:
    """Return the shown ids at these positions, counted from 1."""
    return tuple(SHOWN[position - 1] for position in positions)


# --- Sections

R, A = "It says so [2].", "The Nile is long."
WELL_FORMED = [
    ("en", f"##Reason: {R}\n##Answer: {A}"),
    ("en", f"##Reason:{R} ##Answer:{A}"),
    ("en", f"## Reason: {R}\n\n## Answer: {A}\n"),
    ("en", f"# REASON : {R}\n###### answer :{A}"),
    ("en", f"##Reason\n{R}\n##Answer\n{A}"),
    ("en", f"## **Reason**:\n{R}\n## **Answer**:\n{A}"),
    ("en", f"**##Reason:** {R}\n**##Answer:** {A}"),
    ("en", f"**Reason:** {R}\n\n**Answer:** {A}"),
    ("en", f"**Reason**: {R}\n\n**Answer**: {A}"),
    ("en", f"__Reason__\n{R}\n_Answer_\n{A}"),
    ("en", f"Reason: {R}\nAnswer: {A}"),
    ("en", f"  reason:  {R}\r\n  ANSWER:  {A}\r\n"),
    ("en", f"> Reason: {R}\n> Answer: {A}"),
    ("en", f"- Reason: {R}\n- Answer: {A}"),
    ("en", f"1. Reason: {R}\n2. Final Answer: {A}"),
    ("en", f"\ufeff##Reason: {R}\u2028##Answer: {A}"),
    ("en", f"##Reasoning: {R}\n##Answer: {A}"),
    ("en", f"Sure, here it is:\n##Reason: {R}\n##Answer: {A}"),
    ("sw", f"##Sababu: {R}\n##Jibu: {A}"),
    ("sw", f"##Reason: {R}\n##Answer: {A}"),
    ("yo", f"##Ìdí: {R}\n##Ìdáhùn: {A}"),
    ("yo", unicodedata.normalize("NFD", f"##Ìdí: {R}\n##ÌDÁHÙN: {A}")),
    ("de", f"**Begründung:** {R}\n**Antwort:** {A}"),
    ("hi", f"##कारण: {R}\n##उत्तर: {A}"),
    ("ar", f"\u200f##السبب: {R}\n\u200f##الإجابة: {A}"),
    ("fa", f"##دلیل: {R}\n##پاسخ: {A}"),
    ("zh", f"##理由：{R}\n##答案：{A}"),
    ("zh", f"【理由】{R}\n【答案】{A}".replace("】", "】：")),
    ("ja", f"## 理由\n{R}\n## 回答\n{A}"),
    ("ko", f"이유: {R}\n답변: {A}"),
    ("th", f"##เหตุผล: {R}\n##คำตอบ: {A}"),
    ("te", f"##కారణం: {R}\n##సమాధానం: {A}"),
]


@each_case(("code", "text"), WELL_FORMED)
def test_headings(code: str, text: str) -> None:
    parsed = parse(text, code, SHOWN)
    assert (parsed.reason, parsed.answer, parsed.well_formed) == (R, A, True)
    assert parsed.citations == ids(2)


ILL_FORMED = [
    # text, reason, answer
    ("", "", ""),
    ("  \n ", "", ""),
    (A, "", A),
    (f"##Answer: {A}", "", A),
    (f"{R}\n##Answer: {A}", "", A),
    (f"##Reason: {R}", R, ""),
    (f"{A}\n##Reason: {R}", R, A),
    (f"##Answer: {A}\n##Reason: {R}", R, A),
    (f"##Reason: {R}\n##Answer:", R, ""),
    ("##Reason:##Answer:", "", ""),
    (f"##Reason: {R}\n##Answer: {A}\n##Answer: So.", R, f"{A}\nSo."),
    (f"##Reason: {R}\n##Reason: So.\n##Answer: {A}", f"{R}\nSo.", A),
    (f"##Reason: {R}\n##Answer: {A}\n##Reason: So.\n##Answer: Yes.", f"{R}\nSo.", f"{A}\nYes."),
]


@each_case(("text", "reason", "answer"), ILL_FORMED)
def test_sections_that_are_missing_swapped_or_repeated(text: str, reason: str, answer: str) -> None:
    parsed = parse(text, "en", SHOWN)
    assert (parsed.reason, parsed.answer, parsed.well_formed) == (reason, answer, False)


@each_case(
    "prose",
    [
        "So the answer: 5 metres.",
        "The reason: it rains.",
        "Answer",
        "Answer the question.\nReason",
        "The answer is **Answer**.",
        "####### Answer: five",
        "Jibu: tano",  # Swahili, where the language is English
        "Reasonable: yes",
    ],
)
def test_a_heading_word_in_prose_is_no_heading(prose: str) -> None:
    parsed = parse(prose, "en", SHOWN)
    assert (parsed.reason, parsed.answer) == ("", prose)
    inside = parse(f"##Reason: a\n##Answer: {prose}", "en", SHOWN)
    assert (inside.answer, inside.well_formed) == (prose, True)


def test_a_heading_word_without_marks_is_prose_if_another_has_marks() -> None:
    text = "##Reason: It follows.\nReason: rain.\n##Answer: Two things.\n原因：雨。"
    parsed = parse(text, "zh", SHOWN)
    assert parsed.reason == "It follows.\nReason: rain."
    assert parsed.answer == "Two things.\n原因：雨。"
    assert parsed.well_formed


def test_bold_of_the_answer_is_not_taken_for_the_headings() -> None:
    assert parse("Reason: x\nAnswer:**Nile** it is", "en", ()).answer == "**Nile** it is"
    assert parse("**Reason:**x\n**Answer:**Nile", "en", ()).answer == "Nile"
    assert parse("**Reason**: x\n**Answer**: **Nile**", "en", ()).answer == "**Nile**"


# --- Citations

CITATIONS = [
    # language, citation, what it cites
    ("en", "[1001#2]", ids(3)),
    ("en", "[1001#2][1001#0]", ids(3, 1)),
    ("en", "[1001#2, 1001#0]", ids(3, 1)),
    ("en", "[1001#2 1001#0]", ids(3, 1)),
    ("en", "[1001#2; 1001#0; 1001#2]", ids(3, 1)),
    ("en", "[ 1001#2 ]", ids(3)),
    ("en", "[1]", ids(1)),
    ("en", "[1, 3]", ids(1, 3)),
    ("en", "[3,1]", ids(3, 1)),
    ("en", "[1][3]", ids(1, 3)),
    ("en", "[1], [3]", ids(1, 3)),
    ("en", "[1;3]", ids(1, 3)),
    ("en", "[1 3]", ids(1, 3)),
    ("en", "[1-3]", ids(1, 2, 3)),
    ("en", "[1–3]", ids(1, 2, 3)),
    ("en", "[1 — 3, 5]", ids(1, 2, 3, 5)),
    ("en", "[4-17]", ids(4, 5)),
    ("en", "[0-2]", ids(1, 2)),
    ("en", "[1 and 3]", ids(1, 3)),
    ("en", "[1, 2, and 3]", ids(1, 2, 3)),
    ("en", "[1 & 3]", ids(1, 3)),
    ("en", "[1001#4, 2]", ids(5, 2)),
    ("en", "[Context 2]", ids(2)),
    ("en", "[Passage 2]", ids(2)),
    ("en", "[Document 2]", ids(2)),
    ("en", "[Doc 2]", ids(2)),
    ("en", "[doc2]", ids(2)),
    ("en", "[passage #2]", ids(2)),
    ("en", "[Context: 2]", ids(2)),
    ("en", "[citation:2]", ids(2)),
    ("en", "[Passage 1001#2]", ids(3)),
    ("en", "[ID: 1001#2]", ids(3)),
    ("en", "[Context 1, Context 3]", ids(1, 3)),
    ("en", "[Passages 1 and 3]", ids(1, 3)),
    ("en", "[#2]", ids(2)),
    ("en", "[^2]", ids(2)),
    ("en", "[`1001#2`]", ids(3)),
    ("en", "【1】", ids(1)),
    ("en", "［1］", ids(1)),
    ("en", "［１００１＃２］", ids(3)),
    ("en", "[[1]]", ids(1)),
    ("en", r"\[1\]", ids(1)),
    ("en", r"\[1\]\[3\]", ids(1, 3)),
    ("en", "[1](#passage-1)", ids(1)),
    ("en", "[1](https://example.org/1)", ids(1)),
    ("en", "([1])", ids(1)),
    ("en", "([1], [1001#2])", ids(1, 3)),
    ("en", "[2, 17]", ids(2)),
    ("en", "(1)", ids(1)),
    ("en", "(1)(3)", ids(1, 3)),
    ("en", "(1), (3)", ids(1, 3)),
    ("en", "(1, 3)", ids(1, 3)),
    ("en", "(1001#2)", ids(3)),
    ("en", "(Passage 3)", ids(3)),
    ("en", "(Passages 1 and 3)", ids(1, 3)),
    ("en", "¹", ids(1)),
    ("en", "¹,³", ids(1, 3)),
    ("en", "¹³", ids(1, 3)),
    ("en", "¹⁻³", ids(1, 2, 3)),
    ("en", "[^1]", ids(1)),
    ("en", "[^1][^3]", ids(1, 3)),
    ("en", "【3†source】", ids(3)),
    ("en", "【3†L5-L9】【1†source】", ids(3, 1)),
    ("de", "(Kontext 2)", ids(2)),
    ("hi", "(३)", ids(3)),
    ("ar", "(٣)", ids(3)),
    ("zh", "（3）", ids(3)),
    ("zh", "（文档2）", ids(2)),
    ("en", "(1001#5)", ()),
    ("en", "[१]", ids(1)),  # any script's digits, whatever the language
    ("hi", "[१]", ids(1)),
    ("hi", "[१००१#२]", ids(3)),
    ("hi", "[संदर्भ २]", ids(2)),
    ("hi", "[१ और ३]", ids(1, 3)),
    ("bn", "[১, ৩]", ids(1, 3)),
    ("ar", "[١]", ids(1)),
    ("ar", "[١، ٣]", ids(1, 3)),
    ("ar", "[١ و٣]", ids(1, 3)),
    ("ar", "[المقطع ٢]", ids(2)),
    ("fa", "[۱-۳]", ids(1, 2, 3)),
    ("th", "[๒]", ids(2)),
    ("th", "[เอกสาร 2]", ids(2)),
    ("te", "[౨]", ids(2)),
    ("ja", "〔1〕", ids(1)),
    ("ja", "【1、3】", ids(1, 3)),
    ("ja", "［１～３］", ids(1, 2, 3)),
    ("zh", "【1】【3】", ids(1, 3)),
    ("zh", "[1，3]", ids(1, 3)),
    ("zh", "[1和3]", ids(1, 3)),
    ("zh", "[文档2]", ids(2)),
    ("ko", "[문서 2]", ids(2)),
    ("ru", "[Отрывок 2]", ids(2)),
    ("ru", "[1 и 3]", ids(1, 3)),
    ("de", "[Kontext 2]", ids(2)),
    ("es", "[1 y 3]", ids(1, 3)),
    ("fr", "[Passage 2 et 3]", ids(2, 3)),
    ("fi", "[1 ja 3]", ids(1, 3)),
    ("id", "[Konteks 2]", ids(2)),
    ("sw", "[1 na 3]", ids(1, 3)),
    ("yo", "[Àyọkà 2]", ids(2)),
    ("ar", "[مرجع ٢]", ids(2)),
    ("bn", "[সূত্র ২]", ids(2)),
    ("bn", "(তথ্যসূত্র: ২)", ids(2)),
    ("de", "[Referenz 2]", ids(2)),
    ("fa", "[مرجع ۲]", ids(2)),
    ("fi", "[Viite 2]", ids(2)),
    ("fr", "[Référence 2]", ids(2)),
    ("hi", "[परिच्छेद 2]", ids(2)),
    ("sw", "(Rejea 2)", ids(2)),
    ("te", "[ఆధారం 2]", ids(2)),
    ("th", "[แหล่งข้อมูล 2]", ids(2)),
    # made like a citation, but it points nowhere
    ("en", "[17]", ()),
    ("en", "[0]", ()),
    ("en", "[123#4]", ()),
    ("en", "[1001#5]", ()),
    ("en", "[3-1]", ()),
    ("en", "[12-15]", ()),
    ("en", "[Context 9]", ()),
]


@each_case(("code", "citation", "cited"), CITATIONS)
def test_citation_forms(code: str, citation: str, cited: tuple[str, ...]) -> None:
    parsed = parse(f"##Reason: So.\n##Answer: Nile longa {citation}. Nova.", code, SHOWN)
    assert parsed.citations == cited
    assert parsed.answer_text == "Nile longa. Nova."
    assert parsed.sentences[0].citations == cited


@each_case(
    "bracket",
    [
        "[sic]",
        "[2019]",
        "[1990-1995]",
        "[Context]",
        "[see 2]",
        "[Figure 2]",
        "[Source 1984]",
        "[1, Smith]",
        "[1.5]",
        "[-1]",
        "[...]",
        "[]",
        "[ ]",
        "[and]",
        "[" + "9" * 5000 + "]",
        "(2)",
        "(17)",
        "(3 km)",
        "(1-3)",
        "(1969)",
        "(see 2)",
        "(Passage)",
        "(Passage 9)",
        "km²",
        "m³",
        "10³",
        "x²",
        "⁹",
        "¹⁴C",
        "【4:0†source】",
        "{2}",
        "[2",
        "2]",
    ],
)
def test_ordinary_brackets_stay_in_the_text(bracket: str) -> None:
    parsed = parse(f"The Nile {bracket} is long.", "en", SHOWN)
    assert parsed.citations == ()
    assert parsed.answer_text == f"The Nile {bracket} is long."


@each_case(
    ("code", "text"),
    [
        ("en", "(1) The Nile is long, (2) the Congo is deep."),
        ("en", "Two rivers: (1) the Nile; (2) the Congo."),
        ("en", "(1) Nile\n(2) Congo"),
        ("en", "(1)\n(2)"),
        ("en", "Either (1) or the others, or options (1) and (2)."),
        ("en", "It has three (3), as Article 5(1) says of f(2)."),
        ("en", "They won 3-1 (1-3). It sank long ago (1912)."),
        ("en", "It covers 5 km², or 5,000,000 m², at 3 m/s², and E = mc²."),
        ("de", "Die Fläche beträgt 300 km². Es gibt drei (3)."),
        ("ru", "Площадь 300 км². В объёме 5 м³."),
        ("hi", "क्षेत्रफल 300 किमी² है।"),
        ("ja", "面積は300平方キロ²。"),
        ("zh", "（1）尼罗河；（2）刚果河。"),
        ("th", "มี (1) แม่น้ำไนล์ (2) แม่น้ำคองโก"),
    ],
)
def test_labels_values_and_powers_are_no_citations(code: str, text: str) -> None:
    parsed = parse(text, code, SHOWN)
    assert parsed.citations == ()
    assert parsed.answer_text == text


def test_positions_in_parentheses_end_a_clause() -> None:
    parsed = parse("Long (1), though not wide (2); and so on (3) it goes. (4)", "en", SHOWN)
    assert parsed.citations == ids(1, 2, 4)
    assert parsed.answer_text == "Long, though not wide; and so on (3) it goes."


def test_positions_behind_sentences_are_citations_if_the_line_ends_with_one() -> None:
    cited = parse("The Nile is long. (3) The Congo is deep. (1)", "en", SHOWN)
    assert [sentence.citations for sentence in cited.sentences] == [ids(3), ids(1)]
    assert parse("There are two. (1) The Nile. (2) The Congo.", "en", SHOWN).citations == ()


TITLES = dict(zip(SHOWN, ("Congo River", "Zambezi", "Nile", "Niger", "Niger"), strict=True))


@pytest.mark.parametrize(
    ("bracket", "cited"),
    [
        ("[Nile]", ids(3)),
        ("[nile]", ids(3)),
        ("【Congo River】", ids(1)),
        ("[Nile, Congo River]", ids(3, 1)),
        ("[Zambezi; 4]", ids(2, 4)),
    ],
)
def test_the_title_of_one_shown_passage_cites_it(bracket: str, cited: tuple[str, ...]) -> None:
    parsed = parse(f"It is long {bracket}.", "en", SHOWN, titles=TITLES)
    assert (parsed.citations, parsed.answer_text) == (cited, "It is long.")
    assert parse(f"It is long {bracket}.", "en", SHOWN[3:], titles=TITLES).citations in (
        (),
        SHOWN[3:4],
    )


@pytest.mark.parametrize("bracket", ["[Niger]", "[Amazon]", "(Nile)", "[the Nile]"])
def test_other_names_in_brackets_are_no_citations(bracket: str) -> None:
    parsed = parse(f"It is long {bracket}.", "en", SHOWN, titles=TITLES)
    assert (parsed.citations, parsed.answer_text) == ((), f"It is long {bracket}.")


@each_case(
    "notes",
    [
        "[^1]: Passage 3\n[^2]: [1001#0]",
        "[^1]: 1001#2\n[^2]: Passage 1: The Congo is deep.",
        "[^1]: Nile\n[^2]: The Congo is deep [1].",
        "[^1]: **[3]**\r\n\r\n[^2]: See Passage 1, on the Congo.",
    ],
)
@each_case("marks", [("[^1]", "[^2]"), ("¹", "²")])
def test_footnotes_cite_what_they_are_defined_as(notes: str, marks: tuple[str, str]) -> None:
    text = f"The Nile is long.{marks[0]} The Congo is deep.{marks[1]}\n\n{notes}"
    parsed = parse(text, "en", SHOWN, titles=TITLES)
    assert parsed.citations == ids(3, 1)
    assert parsed.answer_text == "The Nile is long. The Congo is deep."
    assert [sentence.citations for sentence in parsed.sentences] == [ids(3), ids(1)]


def test_a_footnote_that_nothing_refers_to_is_a_citation() -> None:
    parsed = parse("The Nile is long.\n\n[^1]: Passage 3", "en", SHOWN)
    assert parsed.sentences[0].citations == ids(3)


def test_a_footnote_that_names_no_passage_leaves_positions() -> None:
    assert parse("Long.[^1]\n\n[^1]: as was said", "en", SHOWN).citations == ids(1)
    assert parse("[1]: The Congo, unlike [3], is deep.", "en", SHOWN).citations == ids(1, 3)


def test_cite_by_id_writes_footnotes_once() -> None:
    text = "The Nile is long.[^1]\n\n[^1]: Passage 3"
    assert cite_by_id(text, "en", SHOWN) == ("The Nile is long.[1001#2]\n\n", True)


def test_a_bracket_of_another_language_is_no_citation() -> None:
    assert parse("Nile 〔1〕.", "en", SHOWN).citations == ()


def test_an_id_wins_over_a_position() -> None:
    passage_ids = ("3", "1", "2", "2019", "9")
    assert parse("a [1] b [3] c [2019] d [4] e [1-3]", "en", passage_ids).citations == (
        "1",
        "3",
        "2019",
        "2",
    )
    assert parse("[1-3]", "en", ("a", "1-3", "c")).citations == ("1-3",)
    assert parse("[101-102, 1]", "en", ("101", "102", "103")).citations == ("101", "102")


def test_ids_of_any_shape() -> None:
    passage_ids = ("Nile, the (river)", "Congo River", "doc-7", "B", "uuid:9f-1", "Ñandú")
    text = "a [Nile, the (river)] b [doc-7; Congo River] c [b] d [UUID:9F-1] e [Ñandú]"
    assert parse(text, "en", passage_ids).citations == (
        *passage_ids[:1],
        "doc-7",
        "Congo River",
        *passage_ids[3:],
    )


def test_an_exact_id_wins_over_one_that_differs_by_case() -> None:
    assert parse("[Ab] [ab]", "en", ("AB", "Ab")).citations == ("Ab", "AB")


def test_an_id_is_not_taken_apart_at_a_conjunction() -> None:
    assert parse("a [3e1; 1y2]", "es", ("1y2", "b", "3e1")).citations == ("3e1", "1y2")


def test_positions_above_999_are_positions() -> None:
    passage_ids = [f"p{i}" for i in range(1, 1201)]
    assert parse("[1100] and [1990]", "en", passage_ids).citations == ("p1100",)


def test_without_shown_passages_nothing_is_cited() -> None:
    parsed = parse("The Nile [1] is long [1001#2].", "en", ())
    assert parsed.citations == ()
    assert parsed.answer_text == "The Nile is long."


def test_citations_are_those_of_the_whole_response_in_its_order() -> None:
    text = "Intro [5].\n##Reason: See [3] and [1].\n##Answer: A thing [2]. Another [1]."
    parsed = parse(text, "en", SHOWN)
    assert parsed.citations == ids(5, 3, 1, 2)
    assert [sentence.citations for sentence in parsed.sentences] == [ids(2), ids(1)]
    swapped = parse("##Answer: A thing [2].\n##Reason: See [3] and [2].", "en", SHOWN)
    assert swapped.citations == ids(2, 3)


@each_case(
    ("code", "answer", "text"),
    [
        ("en", "Long [1] .", "Long."),
        ("en", "Long[1].", "Long."),
        ("en", "Long [1], wide [2]; deep [3]!", "Long, wide; deep!"),
        ("en", "Long [1][2] and wide", "Long and wide"),
        ("en", "Long[1]wide", "Long wide"),
        ("en", "Long.[1]Wide.", "Long. Wide."),
        ("en", "Long. [1] Wide.", "Long. Wide."),
        ("en", "Long ([1], [2]), wide", "Long, wide"),
        ("en", "Long (see [1]).", "Long (see)."),
        ("en", "[1] Long\n[2] Wide", "Long\nWide"),
        ("en", "Long [1]\nWide", "Long\nWide"),
        ("en", "foo() is [1] (or not)", "foo() is (or not)"),
        ("en", "[1]", ""),
        ("zh", "尼罗河[1]很长【2】。", "尼罗河很长。"),
        ("ja", "ナイル川は長い [1] 。", "ナイル川は長い。"),
        ("hi", "नील लंबी है [१] ।", "नील लंबी है।"),
        ("ar", "هل هو طويل [١] ؟", "هل هو طويل؟"),
        ("th", "แม่น้ำ[1]ไนล์", "แม่น้ำไนล์"),
    ],
)
def test_answer_text_is_tidy(code: str, answer: str, text: str) -> None:
    assert parse(answer, code, SHOWN).answer_text == text


# --- Sentences


@each_case(
    ("code", "answer", "sentences"),
    [
        (
            "en",
            "It ends in Egypt [1]. It rises there. [2] Next one.[3]",
            [("It ends in Egypt.", (1,)), ("It rises there.", (2,)), ("Next one.", (3,))],
        ),
        (
            "en",
            "[1] It is long.\n[2]: It is wide.\n- [3] It is deep.\nIt ends\n[4]",
            [
                ("It is long.", (1,)),
                (": It is wide.", (2,)),
                ("It is deep.", (3,)),
                ("It ends", (4,)),
            ],
        ),
        (
            "en",
            "Two rivers:\n1. The Nile [1]\n2. The Niger [2][3]\n\n---\n",
            [("Two rivers:", ()), ("The Nile", (1,)), ("The Niger", (2, 3))],
        ),
        ("en", "Dr. Smith paid 3.5 m [1].", [("Dr. Smith paid 3.5 m.", (1,))]),
        ("en", "**It is long.** It is [1] wide.", [("It is long.", ()), ("It is wide.", (1,))]),
        ("en", "[1][2]", []),
        ("en", "...", []),
        ("zh", "尼罗河很长[1]。1908年发现[2]。它向北流。[3]", [
            ("尼罗河很长。", (1,)), ("1908年发现。", (2,)), ("它向北流。", (3,)),
        ]),
        ("hi", "नील लंबी है [१]। डॉ. राव ने लिखा [२]।", [
            ("नील लंबी है।", (1,)), ("डॉ. राव ने लिखा।", (2,)),
        ]),
        ("ar", "هل هو طويل؟ [١] نعم هو طويل [٢].", [
            ("هل هو طويل؟", (1,)), ("نعم هو طويل.", (2,)),
        ]),
        ("de", "Es entstand im 17. Jahrhundert [1]. 1914 endete alles [2].", [
            ("Es entstand im 17. Jahrhundert.", (1,)), ("1914 endete alles.", (2,)),
        ]),
        ("th", "แม่น้ำไนล์ยาวที่สุด ในแอฟริกา [1] ไหลไปทางทิศเหนือ [2]", [
            ("แม่น้ำไนล์ยาวที่สุด ในแอฟริกา", (1,)), ("ไหลไปทางทิศเหนือ", (2,)),
        ]),
        ("th", "ใช่ [1]", [("ใช่", (1,))]),
        ("th", "ตาม [1] แม่น้ำไนล์ยาวที่สุดในแอฟริกา", [
            ("ตาม แม่น้ำไนล์ยาวที่สุดในแอฟริกา", (1,)),
        ]),
    ],
)  # fmt: skip
def test_sentences_and_their_citations(
    code: str, answer: str, sentences: Sequence[tuple[str, tuple[int, ...]]]
) -> None:
    expected = tuple(Sentence(text, ids(*cited)) for text, cited in sentences)
    assert parse(answer, code, SHOWN).sentences == expected


def test_thai_is_split_at_spaces_between_long_clauses() -> None:
    long = "แม่น้ำไนล์เป็นแม่น้ำที่ยาวที่สุดในทวีปแอฟริกา"
    assert split_sentences(f"{long} {long}\nสั้น มาก", "th") == [long, long, "สั้น มาก"]
    number = f"{long} 6,600 กิโลเมตร"
    assert split_sentences(number, "th") == [number]
    repeated = f"{long}ยาวมาก ๆ ยาวที่สุด"
    assert split_sentences(repeated, "th") == [repeated]


@pytest.mark.parametrize(("before", "after", "parted"), [(20, 20, 1), (19, 20, 0), (20, 19, 0)])
def test_a_thai_sentence_has_twenty_characters(before: int, after: int, parted: int) -> None:
    text = "\u0e01" * before + " " + "\u0e02" * after
    assert len(split_sentences(text, "th")) == 1 + parted


@pytest.mark.parametrize(("length", "parted"), [(10, 1), (9, 0)])
def test_a_citation_ends_a_thai_sentence_of_ten_characters(length: int, parted: int) -> None:
    text = "\u0e01" * length + " [1] " + "\u0e02" * 30 + " [2]"
    assert len(parse(f"##Answer: {text}", "th", ("p1", "p2")).sentences) == 1 + parted


def test_sentences_of_any_length_are_found() -> None:
    sentences = [f"Sentence number {n} is about the Nile." for n in range(1000)]
    assert split_sentences(" ".join(sentences), "en") == sentences


@pytest.mark.parametrize("space", ["\xa0", "\x85", "\u2028", "\u3000", "\t"])
def test_odd_spaces_before_a_full_stop(space: str) -> None:
    """sentencex itself panics on these texts."""
    assert tokenize(" ".join(split_sentences(f"Z{space}. Nile", "fi")), "fi") == ["z", "nile"]


# --- Tokens


@each_case(
    ("code", "text", "tokens"),
    [
        ("en", "The Nile's 6,600 km!", ["the", "nile", "s", "6", "600", "km"]),
        ("en", "STRASSE Straße", ["strasse", "strasse"]),
        ("en", "snake_case **bold** ❤️ €5 ½", ["snake", "case", "bold", "5", "½"]),
        ("hi", "हिन्दी में १९१४ है।", ["हिन्दी", "में", "1914", "है"]),
        ("te", "తెలుగు, భాష", ["తెలుగు", "భాష"]),
        ("yo", "Ọjọ́ rere", ["ọjọ́", "rere"]),
        ("yo", unicodedata.normalize("NFD", "Ọjọ́ rere"), ["ọjọ́", "rere"]),
        ("ar", "العـــربية ١٢٣", ["العربية", "123"]),
        ("fa", "می‌رود ۱۲", ["میرود", "12"]),
        ("ko", "나일강은 길다.", ["나일강은", "길다"]),
        ("zh", "尼罗河长6650km。", ["尼", "罗", "河", "长", "6650km"]),
        ("zh", "ＮＡＳＡ２号", ["nasa2", "号"]),
        ("ja", "ﾅｲﾙ川、Café", ["ナ", "イ", "ル", "川", "café"]),
        ("ja", "カ\u3099ス", ["ガ", "ス"]),
        ("th", "น้ำ ๑๒", ["น้", "ำ", "12"]),
        ("en", "zero\u200bwidth soft\xadhyphen", ["zero", "width", "softhyphen"]),
        ("en", "", []),
        ("zh", "。！\u0301", []),
    ],
)
def test_tokens(code: str, text: str, tokens: list[str]) -> None:
    assert tokenize(text, code) == tokens


# --- Any text at all

SNIPPETS = st.sampled_from(
    ["##Reason:", "##Answer:", "\n**Answer**:", "\nJibu:", "[", "]", "[1]", "[1, 9]", "【2】", "(",
     ")", "[1001#2]", "[1-3]", "[7]", "〔1〕", "(1)", "（3）", "(Passage 2)", "¹", "²³", "[^1]",
     "[^1]: 2", "【2†source】", ". ", "。", "। ", "\n", "\r\n", " ", "-", ",", "1. ",
     "Nile", "नील", "尼罗河", "แม่น้ำไนล์", "نهر", "\ud800", "\u0301", "\xa0", "\u200f", "A\x85."]
)  # fmt: skip
CHARACTERS = st.characters(exclude_categories=())
TEXTS = st.lists(SNIPPETS | st.text(CHARACTERS, max_size=8), max_size=25).map("".join)
any_code = st.sampled_from(CODES)
modest = settings(max_examples=examples(400), deadline=None)


@modest
@example("〔1〕Nile000[1]\u0301", "th", [])
@example("##Answer:\n**Answer**:0[1001#2]0", "th", [])
@given(TEXTS, any_code, st.lists(st.sampled_from(SHOWN) | st.text(max_size=4), max_size=6))
def test_any_text_gives_a_consistent_result(text: str, code: str, shown: list[str]) -> None:
    parsed = parse(text, code, shown)
    assert parse(text, code, tuple(shown)) == parsed
    assert set(parsed.citations) <= set(shown)
    assert len(set(parsed.citations)) == len(parsed.citations)
    for sentence in parsed.sentences:
        assert set(sentence.citations) <= set(parsed.citations)
        assert len(set(sentence.citations)) == len(sentence.citations)
        assert sentence.text == sentence.text.strip()
        assert sentence.text in parsed.answer_text
        assert any(char.isalnum() for char in sentence.text)
    joined = " ".join(sentence.text for sentence in parsed.sentences)
    assert tokenize(joined, code) == tokenize(parsed.answer_text, code)
    if parsed.well_formed:
        assert parsed.answer


@modest
@given(TEXTS, any_code)
def test_any_text_splits_without_loss(text: str, code: str) -> None:
    sentences = split_sentences(text, code)
    assert tokenize(" ".join(sentences), code) == tokenize(text, code)


@modest
@given(TEXTS, any_code)
def test_tokens_are_words(text: str, code: str) -> None:
    tokens = tokenize(text, code)
    assert tokenize(" ".join(tokens), code) == tokens
    for token in tokens:
        assert token[0].isalnum()
        assert not any(char.isspace() for char in token)


@modest
@given(st.text(CHARACTERS, max_size=40))
def test_without_brackets_and_headings_an_answer_stays(text: str) -> None:
    text = re.sub(rf"[\[\]［］【】()（）:：#*_¹²³⁰⁴-⁹`<>|~=+•‣▪●◦–—{EMOJI}-]", "", text)
    parsed = parse(text, "en", SHOWN)
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert parsed.answer == parsed.answer_text == unicodedata.normalize("NFC", clean).strip()


# Ways to write the citation of some positions, each over ids() of the same positions.
FORMS: dict[str, Callable[[Sequence[int], str], str]] = {
    "ids": lambda at, _: "".join(f"[{SHOWN[n - 1]}]" for n in at),
    "ids in one": lambda at, _: f"[{', '.join(SHOWN[n - 1] for n in at)}]",
    "numbers": lambda at, _: "".join(f"[{n}]" for n in at),
    "numbers in one": lambda at, _: f"[{', '.join(map(str, at))}]",
    "own digits": lambda at, digits: f"[{'; '.join(digits[n] for n in at)}]",
    "lenticular": lambda at, _: f"【{'，'.join(map(str, at))}】",
    "full width": lambda at, _: f"［{'、'.join(chr(0xFF10 + n) for n in at)}］",
    "context": lambda at, _: f"[{', '.join(f'Context {n}' for n in at)}]",
    "passage": lambda at, _: " ".join(f"[passage {n}]" for n in at),
    "ranges": lambda at, _: f"[{', '.join(f'{n}–{n}' for n in at)}]",
    "mixed": lambda at, _: f"[{', '.join([SHOWN[at[0] - 1], *map(str, at[1:])])}]",
    "escaped": lambda at, _: rf"\[{', '.join(map(str, at))}\]",
    "and": lambda at, _: f"[{' and '.join(map(str, at))}]",
    "parentheses": lambda at, _: f"({', '.join(f'Passage {n}' for n in at)})",
    "ids in parentheses": lambda at, _: "".join(f"({SHOWN[n - 1]})" for n in at),
    "superscripts": lambda at, _: ",".join("⁰¹²³⁴⁵"[n] for n in at),
    "footnotes": lambda at, _: "".join(f"[^{n}]" for n in at),
    "source": lambda at, _: "".join(f"【{n}†source】" for n in at),
}  # fmt: skip

PLAIN = {
    "en": ("The Nile flows north", "Egypt lies on its banks", "Its water is brown"),
    "es": ("El Nilo fluye al norte", "Egipto está en sus orillas", "Su agua es parda"),
    "ru": ("Нил течёт на север", "Египет лежит на его берегах", "Вода в нём бурая"),
    "yo": ("Odò Náílì ń ṣàn lọ sí àríwá", "Íjíbítì wà ní etí rẹ̀", "Omi rẹ̀ pọ̀"),
    "hi": ("नील उत्तर की ओर बहती है", "मिस्र उसके किनारे बसा है", "उसका पानी भूरा है"),
    "ar": ("يجري النيل شمالا", "تقع مصر على ضفافه", "ماؤه بني اللون"),
    "te": ("నైలు ఉత్తరానికి ప్రవహిస్తుంది", "ఈజిప్టు దాని ఒడ్డున ఉంది", "దాని నీరు గోధుమ రంగు"),
    "zh": ("尼罗河向北流", "埃及位于河岸", "河水呈褐色"),
    "ja": ("ナイル川は北へ流れる", "エジプトは岸辺にある", "水は茶色い"),
    "th": ("แม่น้ำไนล์ไหลไปทางทิศเหนือ", "อียิปต์ตั้งอยู่ริมฝั่งแม่น้ำ", "น้ำมีสีน้ำตาลเข้มมาก"),
}
FULL_STOPS = {"hi": "। ", "zh": "。", "ja": "。", "th": " "}

cited_sentences = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True),
        st.sampled_from(sorted(FORMS)),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@modest
@given(st.sampled_from(sorted(PLAIN)), cited_sentences, cited_sentences)
def test_generated_citations_are_parsed(code: str, reason: Any, answer: Any) -> None:
    digits = LANGUAGES[code].digits or "0123456789"
    stop = FULL_STOPS.get(code, ". ")

    def written(parts: Any) -> str:
        texts = []
        for sentence, positions, form, behind in parts:
            citation = FORMS[form](positions, digits)
            plain = PLAIN[code][sentence]
            texts.append(f"{plain}{stop}{citation} " if behind else f"{plain} {citation}{stop}")
        return "".join(texts)

    parsed = parse(f"##Reason: {written(reason)}\n##Answer: {written(answer)}", code, SHOWN)
    assert parsed.well_formed
    assert parsed.citations == tuple(
        dict.fromkeys(SHOWN[n - 1] for _, positions, _, _ in [*reason, *answer] for n in positions)
    )
    assert [sentence.citations for sentence in parsed.sentences] == [
        ids(*positions) for _, positions, _, _ in answer
    ]
    plain = " ".join(PLAIN[code][sentence] for sentence, _, _, _ in answer)
    assert tokenize(parsed.answer_text, code) == tokenize(plain, code)


GARBAGE = ["[", "[1,", "[1]", "[[1]]", "[1] a", "[1-999]", "([1])", "[1](#", "[context", "#", "# ",
           "##Answer:", "\nAnswer:", "**Answer", "*", "> ", "1. ", "\n", "x. [1] - ", "(“",
           "「あ。", "a\u0301\u0323", "\u0323\u0301", "\ud800", "\\", "Z\xa0. ", "กก ",
           "ﷺ", "(1)", "(1) a", "(", "²", "a²", "²,", "[^1]", "[^1]: 3\n", "[^1]: "]  # fmt: skip


@pytest.mark.parametrize("unit", GARBAGE)
@pytest.mark.parametrize("code", slow_except({"th"}, ["en", "th"]))
def test_long_garbage_has_a_defined_result(unit: str, code: str) -> None:
    text = "##Answer: " + unit * (10_000 // len(unit.encode("utf-8", "surrogatepass")))
    assert set(parse(text, code, SHOWN).citations) <= set(SHOWN)
    some = text[:2_000]
    assert parse(some, code, SHOWN) == parse(some, code, SHOWN)
    assert all(piece.strip() for piece in split_sentences(text, code))
    assert all(tokenize(text, code))


@pytest.mark.parametrize("digits", ["9" * 60_000, "1-" * 30_000, "1 " * 30_000, "1 and " * 10_000])
def test_one_huge_bracket(digits: str) -> None:
    assert set(parse(f"a [{digits}1] b", "en", SHOWN).citations) <= set(SHOWN)


# --- Errors


def test_unknown_language() -> None:
    calls: list[Callable[[], object]] = [
        lambda: parse("a", "xx", ()),
        lambda: split_sentences("a", "xx"),
        lambda: tokenize("a", "xx"),
    ]
    for call in calls:
        with pytest.raises(UnknownNameError, match="unknown language 'xx'"):
            call()


# --- The bundled corpus and real outputs


def bundled(code: str) -> list[dict[str, Any]]:
    lines = (MINI / f"{code}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def parsed_reference(query: dict[str, Any]) -> ParsedResponse:
    passage_ids = [passage["id"] for passage in query["passages"]]
    return parse(query["reference"], query["language"], passage_ids)


@each_case("path", sorted(MINI.glob("*.jsonl")))
def test_bundled_references(path: Path) -> None:
    for query in bundled(path.stem):
        parsed = parsed_reference(query)
        assert parsed.well_formed, query["id"]
        assert "[" not in parsed.answer_text
        cited = [sentence.citations for sentence in parsed.sentences]
        # Every language says it in sentences of its own, and cites all that answers the question.
        assert {id_ for ids_ in cited for id_ in ids_} == set(query.get("relevant", ()))


def nomiracl(data_dir: Path) -> Iterator[tuple[str, list[str], str]]:
    for path in sorted((data_dir / "nomiracl").glob("*/*.jsonl")):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line:
                row = json.loads(line)
                for output in row["results"].values():
                    yield path.stem, row["docids"], output


@pytest.mark.slow
def test_real_outputs_of_nomiracl(data_dir: Path) -> None:
    cited = 0
    for code, docids, output in nomiracl(data_dir):
        parsed = parse(output, code, docids)
        assert set(parsed.citations) <= set(docids)
        joined = " ".join(sentence.text for sentence in parsed.sentences)
        assert tokenize(joined, code) == tokenize(parsed.answer_text, code)
        brackets = re.findall(r"\[.*?\]", output)
        if brackets and all(re.fullmatch(r"\[(10|[1-9])\]", bracket) for bracket in brackets):
            numbers = [int(bracket[1:-1]) for bracket in brackets]
            assert parsed.citations == tuple(dict.fromkeys(docids[n - 1] for n in numbers))
            cited += 1
    assert cited > 500


def test_sentences_of_memerag_are_those_its_annotators_saw(data_dir: Path) -> None:
    same, answers = 0, 0
    for path in sorted((data_dir / "memerag" / "memerag").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line:
                theirs = [part["sentence"] for part in json.loads(line)["answer"]]
                ours = split_sentences(" ".join(theirs), path.stem)
                answers += 1
                same += len(ours) == len(theirs)
    assert same / answers > 0.97


def test_ranges_cite_each_passage_once_however_often_they_name_it() -> None:
    passage_ids = [f"{i}#0" for i in range(999)]
    ranges = ",".join(f"{i}-998" for i in range(1, 900))
    looked_up = 0

    class Counted(list):  # type: ignore[type-arg]
        def __getitem__(self, index: Any) -> Any:
            nonlocal looked_up
            looked_up += isinstance(index, int)
            return super().__getitem__(index)

    passages = Passages.of(Counted(passage_ids))
    (cited,) = citations(f"Yes [{ranges}].", LANGUAGES["en"], passages)
    assert cited.ids == tuple(passage_ids[:998])
    assert looked_up < 2000
    assert parse("Yes [1-999,1-999,950-960,9-1].", "en", ["a", "955"]).citations == ("a", "955")


NAMED_SOURCES = (
    ("ar", "المدة ثلاثون يوما.\n\nالمصدر: {id}", "وفقا ل {id}، المدة ثلاثون يوما."),
    ("bn", "সময় ত্রিশ দিন।\n\nউৎস: {id}", "{id} অনুসারে সময় ত্রিশ দিন।"),
    ("de", "Du hast 30 Tage Zeit.\n\n**Quelle:** {id}", "Laut {id} hast du 30 Tage Zeit."),
    ("en", "You have 30 days.\n\nSource: {id}", "According to {id}, you have 30 days."),
    ("es", "Tienes 30 días.\n\nFuente: {id}", "Según {id}, tienes 30 días."),
    ("fa", "مهلت سی روز است.\n\nمنبع: {id}", "طبق {id}، مهلت سی روز است."),
    ("fi", "Aikaa on 30 päivää.\n\nLähde: {id}", "{id} mukaan aikaa on 30 päivää."),
    ("fr", "Vous avez 30 jours.\n\nSource : {id}", "Selon {id}, vous avez 30 jours."),
    ("hi", "समय तीस दिन है।\n\nस्रोत: {id}", "{id} के अनुसार समय तीस दिन है।"),
    ("id", "Waktunya 30 hari.\n\nSumber: {id}", "Menurut {id}, waktunya 30 hari."),
    ("ja", "期間は三十日です。\n\n出典：{id}", "{id}によると、期間は三十日です。"),
    ("ko", "기간은 30일입니다.\n\n출처: {id}", "{id}에 따르면 기간은 30일입니다."),
    ("ru", "У вас 30 дней.\n\nИсточник: {id}", "Согласно {id}, у вас 30 дней."),
    ("sw", "Una siku thelathini.\n\nChanzo: {id}", "Kwa mujibu wa {id}, una siku thelathini."),
    ("te", "గడువు ముప్పై రోజులు.\n\nమూలం: {id}", "{id} ప్రకారం గడువు ముప్పై రోజులు."),
    ("th", "มีเวลาสามสิบวัน\n\nแหล่งที่มา: {id}", "ตาม {id} มีเวลาสามสิบวัน"),
    ("yo", "Ọjọ́ ọgbọ̀n ni.\n\nOrísun: {id}", "Gẹ́gẹ́ bí {id}, ọjọ́ ọgbọ̀n ni."),
    ("zh", "期限为三十天。\n\n来源：{id}", "根据{id}，期限为三十天。"),
)


@pytest.mark.parametrize("name", ["doc-01", "Returns"])
@pytest.mark.parametrize(("code", *"ab"), NAMED_SOURCES)
def test_named_sources_are_citations(code: str, a: str, b: str, name: str) -> None:
    shown, titles = ("doc-00", "doc-01"), {"doc-01": "Returns"}
    for text in (a, b):
        parsed = parse(text.format(id=name), code, shown, titles=titles, question="?")
        assert parsed.citations == ("doc-01",)
        assert {sentence.citations for sentence in parsed.sentences} == {("doc-01",)}, text


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("It is 30 days [1].\n\nSources:\n[1] doc-01", ("doc-01",)),
        ("It is 30 days.\n\nSources:\n- doc-01\n- doc-00", ("doc-01", "doc-00")),
        ("It is 30 days. Source: doc-01", ("doc-01",)),
        ("It is 30 days<sup>2</sup>.", ("doc-01",)),
        ("It is 30 km<sup>2</sup>.", ()),
        ("It is 30 days. Source: the internet", ()),
        ("According to doc-010, it is 30 days.", ()),
        ("[1] The first of them.", ("doc-00",)),
    ],
)
def test_lists_of_sources_and_superscript_tags(text: str, cited: tuple[str, ...]) -> None:
    assert parse(text, "en", ("doc-00", "doc-01")).citations == cited


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("A [1]. B [3].", ("0", "2")),  # there is no id 3, so these are positions
        ("A [0]. B [1].", ("0", "1")),  # there is no position 0, so these are ids
        ("A [1-3].", ("0", "1", "2")),
        ("A [Passage 1]. B [^3].", ("0", "2")),
    ],
)
def test_numbers_that_can_only_be_ids_or_positions_decide(
    text: str, cited: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    _warn_of_numeric_ids.cache_clear()
    assert parse(text, "en", ["0", "1", "2"]).citations == cited
    assert not caplog.messages


def test_numbers_that_may_be_ids_or_positions_cause_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _warn_of_numeric_ids.cache_clear()
    for ids in (["1", "2"], ["10", "11"], ["a", "b"]):
        assert parse("A [1].", "en", ids).citations == (ids[0],)
    assert not caplog.messages
    for _ in range(2):
        assert parse("A [1].", "en", ["0", "1", "2"]).citations == ("1",)
    (message,) = caplog.messages
    assert "it is read as the id" in message
