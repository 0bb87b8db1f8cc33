"""Test the language table against Unicode's data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import each_case

import mirage
from mirage.errors import SettingError, UnknownNameError
from mirage.generation import short_answers
from mirage.languages import ALL_LANGUAGES, LANGUAGES, Language, _by_code

PACKAGE = Path(mirage.__file__).parent
ENTRIES = list(LANGUAGES.values())

each_language = each_case("entry", ENTRIES)

# What the names of a script's characters begin with in Unicode, where that is not its own name.
NAMES = {"Han": ("CJK",), "Japanese": ("CJK", "HIRAGANA", "KATAKANA")}


def in_script(char: str, script: str) -> bool:
    return unicodedata.name(char).startswith(NAMES.get(script, (script.upper(),)))


def test_languages_are_in_order() -> None:
    assert list(LANGUAGES) == sorted(LANGUAGES)
    assert list(ALL_LANGUAGES) == [*LANGUAGES, *sorted(ALL_LANGUAGES.keys() - LANGUAGES.keys())]


def test_a_code_that_is_listed_twice_is_an_error() -> None:
    pt = ALL_LANGUAGES["pt"]
    with pytest.raises(SettingError, match="'pt' is listed twice"):
        _by_code((pt, LANGUAGES["sw"], replace(pt, board=True)))


def test_neighbours_have_no_board() -> None:
    """A language with a board is compared with all others anyway."""
    neighbours = {entry.code: {*entry.neighbours} & LANGUAGES.keys() for entry in ENTRIES}
    assert {code: codes for code, codes in neighbours.items() if codes} == {}


# Data ---------------------------------------------------------------------------------------------


def missing_data(entry: Language) -> Iterator[str]:
    """Yield everything that a language lacks, but similar languages have."""
    similar = "en" if entry.board else "it"
    name = re.compile(rf"((?:.*_)?){similar}(-hard)?\.(\w+)")
    for path in sorted(PACKAGE.rglob(f"*{similar}*.*")):
        if match := name.fullmatch(path.name):
            file = path.with_name(f"{match[1]}{entry.code}{match[2] or ''}.{match[3]}")
            if not file.exists():
                yield f"mirage/{file.relative_to(PACKAGE)}"
    names = ["small_talk.json", *(["abstentions.json"] if entry.board else [])]
    for file_name in names:
        if entry.code not in json.loads((PACKAGE / "data" / file_name).read_text("utf-8")):
            yield f"mirage/data/{file_name}: the key {entry.code!r}"
    if entry.code not in short_answers._WORDS:
        yield f"mirage/generation/short_answers.py: an entry {entry.code!r} of _WORDS"


def missing_trigrams() -> Iterator[str]:
    scripts: dict[str, set[str]] = {}
    for entry in ALL_LANGUAGES.values():
        scripts.setdefault(entry.script, set()).update((entry.code, *entry.neighbours))
    with np.load(PACKAGE / "data" / "trigrams.npz", allow_pickle=False) as arrays:
        tables = {name.rpartition(".")[0] for name in arrays.files}
    for script, codes in scripts.items():
        for code in sorted(codes) if len(codes) > 1 else ():
            if f"{script}.{code}" not in tables:
                yield f"mirage/data/trigrams.npz: {script}.{code} (run corpora/trigrams.py)"


def test_no_data_of_a_language_is_missing() -> None:
    missing = [line for entry in ALL_LANGUAGES.values() for line in missing_data(entry)]
    missing += missing_trigrams()
    assert not missing, "missing:\n" + "\n".join(missing)


HALF_ADDED = """
from dataclasses import replace
import mirage.languages as languages
dutch = replace(languages.LANGUAGES["de"], code="{code}", neighbours=("{neighbour}",))
languages.ALL_LANGUAGES = {{**languages.ALL_LANGUAGES, dutch.code: dutch}}
languages.LANGUAGES = {{**languages.LANGUAGES, dutch.code: dutch}}
from mirage.features._foreign import foreign_stretches
from mirage.features.language import language_probabilities
text = "The bridge is open and it is the longest in the city. Il est ouvert depuis dix ans."
print(language_probabilities(text, "en")["en"] > 0.5)
print(len(list(foreign_stretches(text, [(0, 53), (54, len(text))], ["?"], "en"))))
"""


@pytest.mark.parametrize(("code", "neighbour"), [("nl", "da"), ("xx", "yy")])
def test_a_language_without_its_files_does_not_affect_others(code: str, neighbour: str) -> None:
    program = HALF_ADDED.format(code=code, neighbour=neighbour)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "True\n1\n", done.stderr


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
