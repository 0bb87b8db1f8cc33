"""Test the language table against Unicode's data."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import pytest
from cases import each_case

from mirage.errors import UnknownNameError
from mirage.languages import LANGUAGES, Language

CODES = ["ar", "bn", "de", "en", "es", "fa", "fi", "fr", "hi", "id", "ja", "ko", "ru", "sw", "te",
         "th", "yo", "zh"]  # fmt: skip
ENTRIES = [LANGUAGES[code] for code in LANGUAGES]

each_language = each_case("entry", ENTRIES)

# What the names of a script's characters begin with in Unicode, where that is not its own name.
NAMES = {"Han": ("CJK",), "Japanese": ("CJK", "HIRAGANA", "KATAKANA")}


def in_script(char: str, script: str) -> bool:
    return unicodedata.name(char).startswith(NAMES.get(script, (script.upper(),)))


def test_the_18_languages_in_order() -> None:
    assert list(LANGUAGES) == CODES
    assert [entry.code for entry in ENTRIES] == CODES


@each_language
def test_native_name_and_headings_are_in_the_script(entry: Language) -> None:
    texts = (entry.native_name, *entry.reason_headings, *entry.answer_headings)
    for text in texts:
        letters = [char for char in text if unicodedata.category(char)[0] == "L"]
        assert letters
        assert all(in_script(char, entry.script) for char in letters), text


@each_language
def test_direction_is_that_of_the_native_name(entry: Language) -> None:
    rtl = any(unicodedata.bidirectional(char) in ("R", "AL") for char in entry.native_name)
    assert entry.direction == ("rtl" if rtl else "ltr")


@each_language
def test_digits_are_zero_to_nine_in_the_script(entry: Language) -> None:
    if not entry.digits:
        assert entry.script in ("Latin", "Cyrillic", "Hangul", "Han", "Japanese")
        return
    assert [unicodedata.decimal(digit) for digit in entry.digits] == list(range(10))
    assert all(entry.script.upper() in unicodedata.name(digit) for digit in entry.digits)


@each_language
def test_brackets_open_and_close(entry: Language) -> None:
    assert {"[]", "［］", "【】"} <= set(entry.brackets)
    for pair in entry.brackets:
        assert [unicodedata.category(char) for char in pair] == ["Ps", "Pe"]


@each_language
def test_terminators_are_punctuation(entry: Language) -> None:
    assert "." in entry.terminators
    assert len(set(entry.terminators)) == len(entry.terminators)
    assert {unicodedata.category(char) for char in entry.terminators} == {"Po"}


@each_language
def test_words_are_told_apart(entry: Language) -> None:
    """No word is empty, decomposed, listed twice, or has two meanings."""
    english = LANGUAGES["en"]

    def of(*fields: str) -> list[str]:
        sources = [entry] if entry is english else [entry, english]
        return [word for source in sources for field in fields for word in getattr(source, field)]

    reason, answer = of("reason_headings"), of("answer_headings")
    assert entry.reason_headings
    assert entry.answer_headings
    assert entry.passage_words
    assert entry.conjunctions
    for words in (reason, answer, of("passage_words"), of("conjunctions")):
        folded = [word.casefold() for word in words]
        assert len(set(folded)) == len(folded)
        assert all(word and unicodedata.is_normalized("NFC", word) for word in words)
    headings = {word.casefold() for word in reason + answer}
    assert not {word.casefold() for word in reason} & {word.casefold() for word in answer}
    assert not headings & {word.casefold() for word in of("passage_words")}


@each_language
def test_inner_stops_are_an_expression_that_needs_a_character(entry: Language) -> None:
    assert not entry.inner_stops or not re.fullmatch(entry.inner_stops, "")


def test_character_tokens_are_for_scripts_without_spaces() -> None:
    assert [entry.code for entry in ENTRIES if entry.tokens == "character"] == ["ja", "th", "zh"]


def test_a_language_is_returned_as_it_is() -> None:
    assert Language.of("sw") is LANGUAGES["sw"]
    assert Language.of(LANGUAGES["sw"]) is LANGUAGES["sw"]


@each_case(
    ("wrong", "nearest"),
    [
        ("en-US", "en"),
        ("zh_TW", "zh"),
        ("EN", "en"),
        ("Kiswahili", "sw"),
        ("swahilli", "sw"),
        ("русский", "ru"),
        ("engl", "en"),
        ("日本", "ja"),
    ],
)
def test_unknown_language_names_the_nearest(wrong: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=f"^unknown language {wrong!r}.*mean '{nearest}'"):
        Language.of(wrong)


@pytest.mark.parametrize("wrong", ["xx", "", None, [1], 3])
def test_unknown_language_without_a_near_one_lists_all(wrong: Any) -> None:
    with pytest.raises(UnknownNameError) as caught:
        Language.of(wrong)
    assert "known: ar, bn, de" in str(caught.value)
    assert "zh" in str(caught.value)
