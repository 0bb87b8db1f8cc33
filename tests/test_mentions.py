"""Test mentions of short phrases, with examples in several scripts."""

from __future__ import annotations

import pytest
from cases import each_case
from hypothesis import given
from hypothesis import strategies as st

from mirage.languages import LANGUAGES
from mirage.text import mention
from mirage.text.mentions import MENTIONED_AT
from mirage.text.numbers import numbers, without_numbers


@each_case(
    ("phrase", "text", "language"),
    [
        ("Nile", "That would be the NILE's own course.", "en"),
        ("Niili", "Se virtaa Niilillä pohjoiseen.", "fi"),
        ("Нил", "по Нилу", "ru"),
        ("Odò Náílì", "odo naili ni", "yo"),  # without its tones
        ("النيل", "يجري في النِّيل", "ar"),  # with its vowels
        ("కైరో", "అది కైరోలో ఉంది", "te"),
        ("尼罗河", "最长的是尼罗河。", "zh"),
        ("ナイル川", "それはﾅｲﾙ川です", "ja"),  # half-width
        ("แม่น้ำไนล์", "คือแม่น้ำไนล์", "th"),
        ("나일강", "나일강입니다", "ko"),
        ("1969", "in July 1969.", "en"),
        ("1969", "১৯৬৯ সালে", "bn"),
        ("6,600 km", "rund 6.600 km lang", "de"),
        ("6600", "6 600 km", "fr"),
        ("100 °C", "at 100 °C", "en"),
        ("Miguel de Cervantes", "Miguel Cervantes wrote it", "en"),
    ],
)
def test_a_phrase_matches_with_other_endings_accents_and_digits(
    phrase: str, text: str, language: str
) -> None:
    assert mention(phrase, text, language) >= MENTIONED_AT


@each_case(
    ("phrase", "text", "language"),
    [
        ("Nile", "It is the Congo.", "en"),
        ("1969", "in 1968, after 19 flights and 69 days", "en"),
        ("6600", "6 km and 600 m", "en"),
        ("70 °C", "7.0 and 700 degrees", "en"),
        ("Jupiter", "J u p i t e r", "en"),
        ("Kilimanjaro", "kilo, lima, man, jar and road", "en"),  # its letters, far apart
        ("尼罗河", "刚果河", "zh"),
        ("Nile", "", "en"),
    ],
)
def test_another_phrase_does_not_match(phrase: str, text: str, language: str) -> None:
    assert mention(phrase, text, language) < MENTIONED_AT


def test_n_grams_count_within_one_stretch_only() -> None:
    # " nile" has the trigrams " ni", "nil", "ile"; "nilo" holds two of them.
    assert mention("Nile", "the Nilo", "en") == pytest.approx(2 / 3)
    # " abra kadabra" has nine: both words are within a stretch of 19 characters, and not of 40.
    whole, far = "Abra Kadabra", "Abra " + "x" * 40 + " Kadabra"
    assert mention(whole, "so Abra, Kadabra!", "en") == 1
    assert mention(whole, far, "en") == pytest.approx(6 / 9)  # of the second word


def test_a_phrase_without_words_scores_0_or_1() -> None:
    assert mention("42", "42 of them", "sw") == 1
    assert mention("42", "24 of them", "sw") == 0
    assert mention("?!", "what?!", "en") == 0


@each_case(
    ("text", "expected"),
    [
        ("In 2010 there were 300 people", {"2010", "300"}),
        ("In 2010 300 people", {"2010", "300"}),
        ("1,234,567.5 or 1.234.567,5", {"1234567.5"}),
        ("6 650 km, 6\u00a0650 km, 6.650 km, 6650 km", {"6650"}),
        ("१९४७ / ١٩٤٧ / ১৯৪৭", {"1947"}),
        ("1788–1792", {"1788", "1792"}),
        ("Apollo 11\n300 hours", {"11", "300"}),
        ("none at all", set()),
    ],
)
def test_numbers(text: str, expected: set[str]) -> None:
    assert numbers(text) == expected


@each_case(
    ("phrase", "text", "language"),
    [
        ("three and a half hours", "for each this gives four and a half hours a week", "en"),
        ("dreieinhalb Stunden", "Es sind viereinhalb Stunden.", "de"),
        ("tres horas y media", "son cuatro horas y media", "es"),
        ("trois heures et demie", "cela fait quatre heures et demie", "fr"),
        ("साढ़े तीन घंटे", "कुल साढ़े चार घंटे लगते हैं", "hi"),
        ("మూడున్నర గంటలు", "మొత్తం నాలుగున్నర గంటలు పడుతుంది", "te"),
    ],
)
def test_a_number_of_words_with_a_half_is_no_other_number(
    phrase: str, text: str, language: str
) -> None:
    assert mention(phrase, text, language) < MENTIONED_AT
    assert mention(phrase, phrase, language) == 1


def test_a_number_of_words_with_a_half_may_have_words_in_between() -> None:
    assert mention("three and a half hours", "three and one half hours", "en") >= MENTIONED_AT


def test_a_text_without_its_numbers() -> None:
    assert without_numbers("a 1,000 b") == "a   b"


@given(st.text(max_size=30), st.text(max_size=80), st.sampled_from(sorted(LANGUAGES)))
def test_every_score_is_between_0_and_1(phrase: str, text: str, language: str) -> None:
    assert 0 <= mention(phrase, text, language) <= 1
    if phrase.strip() and mention(phrase, phrase, language):
        assert mention(phrase, f"{text} {phrase} {text}", language) == 1
