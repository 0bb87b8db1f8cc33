"""The bundled corpus: in every language complete, parallel, in its script, and its qrels true."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib import resources
from pathlib import Path

import pytest

from mirage.dataset import MirageDataset
from mirage.features.language import language_probabilities
from mirage.languages import LANGUAGES
from mirage.models import Query
from mirage.text import ParsedResponse, parse, split_sentences

# How the Unicode names of a script's letters begin, where not with the script's own name. The
# long-vowel mark and the iteration mark of Japanese are letters with names of their own.
NAMES = {
    "Han": ("CJK UNIFIED IDEOGRAPH",),
    "Japanese": ("CJK UNIFIED IDEOGRAPH", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC ITERATION MARK"),
}
# Thai ends no sentence with a mark; the splitter also parts clauses and names at their spaces.
MOST_SENTENCES = {"th": 5}
# Russian writes centuries in Roman numerals.
LATIN_WORDS = {"ru": {"XVI", "XVII"}}
# Decades in words: "the 1940s" is "أربعينيات القرن العشرين" and "20世纪40年代".
DECADES = {("ar", "1008#2"): {1940}, ("zh", "1008#2"): {1940}}

every_language = pytest.mark.parametrize("code", LANGUAGES)


@cache
def corpus(code: str) -> MirageDataset:
    return MirageDataset.bundled(code)


def parsed(query: Query) -> ParsedResponse:
    return parse(query.reference or "", query.language, query.passage_ids)


def answerable(code: str) -> list[Query]:
    return [query for query in corpus(code) if query.answerable]


def right(query: Query) -> list[str]:
    return [form for forms in query.answers for form in forms]


def wrong(query: Query) -> list[str]:
    return [form for forms in query.wrong_answers for form in forms]


def texts(query: Query) -> list[str]:
    """Every text that a reader meets."""
    shown = [text for passage in query.passages for text in (passage.title, passage.text)]
    return [query.text, *shown, query.reference or "", *right(query), *wrong(query)]


def numbers(text: str) -> set[int]:
    """The numbers of three and four digits, such as years, in any script's digits."""
    plain = re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit[0])), text)
    plain = re.sub(r"(?<=\d)[,.٬\s](?=\d{3}(?!\d))", "", plain)
    return {int(number) for number in re.findall(r"\d+", plain) if len(number) in (3, 4)}


# --- Shape


@every_language
def test_there_are_enough_questions(code: str) -> None:
    known = [query.answerable for query in corpus(code)]
    assert known.count(True) >= 12
    assert known.count(False) == 2
    assert corpus(code).language == code


@every_language
def test_a_question_shows_five_passages(code: str) -> None:
    for number, query in enumerate(corpus(code), 1):
        assert query.id == f"q{number:02}"
        assert query.passage_ids == tuple(f"{1000 + number}#{k}" for k in range(5))
        assert all(passage.title and passage.text for passage in query.passages)
        assert len({passage.title for passage in query.passages}) == 5


@every_language
def test_one_or_two_passages_are_relevant(code: str) -> None:
    for query in corpus(code):
        assert len(query.relevant) in ((1, 2) if query.answerable else (0,))
        assert set(query.relevant) <= set(query.passage_ids)


@every_language
def test_the_languages_are_parallel(code: str) -> None:
    assert corpus(code).query_ids == corpus("en").query_ids
    for query, english in zip(corpus(code), corpus("en"), strict=True):
        assert query.passage_ids == english.passage_ids
        assert query.relevant == english.relevant
        assert query.answerable == english.answerable
        assert len(query.answers) == len(english.answers)
        cited = [sentence.citations for sentence in parsed(query).sentences]
        assert cited == [sentence.citations for sentence in parsed(english).sentences]
        assert parsed(query).citations == parsed(english).citations


@every_language
def test_the_languages_state_the_same_numbers(code: str) -> None:
    for query, english in zip(corpus(code), corpus("en"), strict=True):
        for passage, original in zip(query.passages, english.passages, strict=True):
            in_words = DECADES.get((code, passage.id), set())
            assert numbers(passage.text) >= numbers(original.text) - in_words, passage.id


@every_language
def test_a_passage_has_two_to_four_sentences(code: str) -> None:
    for query in corpus(code):
        for passage in query.passages:
            sentences = split_sentences(passage.text, code)
            assert 2 <= len(sentences) <= MOST_SENTENCES.get(code, 4), sentences


@every_language
def test_the_files_are_as_the_library_writes_them(code: str, tmp_path: Path) -> None:
    path = tmp_path / f"{code}.jsonl"
    corpus(code).to_jsonl(path)
    bundled = resources.files("mirage") / "data" / "mini" / f"{code}.jsonl"
    assert bundled.read_bytes() == path.read_bytes()
    assert list(MirageDataset.from_jsonl(path)) == list(corpus(code))


# --- Script and language


@every_language
def test_texts_are_clean(code: str) -> None:
    for query in corpus(code):
        for text in texts(query):
            assert unicodedata.is_normalized("NFC", text)
            assert text == text.strip()
            assert not re.search(r" {2}|[\t\r\x00-\x09\ufffd\ufeff]", text)


@every_language
def test_passages_are_in_the_script(code: str) -> None:
    script = LANGUAGES[code].script
    names = NAMES.get(script, (script.upper(),))
    least = 0.99 if script == "Latin" else 0.95
    for query in corpus(code):
        for passage in query.passages:
            letters = [char for char in passage.text if char.isalpha()]
            inside = sum(unicodedata.name(char).startswith(names) for char in letters)
            assert inside / len(letters) >= least, passage.id


@pytest.mark.parametrize(
    "code", [code for code, entry in LANGUAGES.items() if entry.script != "Latin"]
)
def test_no_word_is_left_in_latin_letters(code: str) -> None:
    found = set()
    for query in corpus(code):
        for text in texts(query):
            without_headings = re.sub(r"^##(Reason|Answer):", "", text, flags=re.MULTILINE)
            found |= set(re.findall(r"[A-Za-z\u00c0-\u024f]+", without_headings))
    assert found == LATIN_WORDS.get(code, set())


@every_language
def test_the_identifier_names_the_language(code: str) -> None:
    for query in corpus(code):
        passages = " ".join(passage.text for passage in query.passages)
        for text in (passages, parsed(query).answer_text):
            odds = language_probabilities(text, code)
            assert max(odds, key=odds.__getitem__) == code, (query.id, text)


# --- References and qrels


@every_language
def test_references_are_well_formed_and_cite_relevant_passages_only(code: str) -> None:
    for query in corpus(code):
        reference = parsed(query)
        assert reference.well_formed
        assert reference.reason
        assert set(reference.citations) == set(query.relevant)
        assert len(reference.sentences) >= 2
        for sentence in reference.sentences:
            assert bool(sentence.citations) == bool(query.answerable), sentence


@every_language
def test_the_answer_stands_once_in_the_reference_and_the_wrong_one_never(code: str) -> None:
    for query in answerable(code):
        text = parsed(query).answer_text
        assert [text.count(form) for form in right(query)] == [1], (query.id, text)
        assert not any(form in text for form in wrong(query)), (query.id, text)
        assert not any(form in query.text for form in right(query)), query.id


@every_language
def test_relevant_passages_hold_the_answer_and_no_others(code: str) -> None:
    for query in answerable(code):
        for passage in query.passages:
            (answer,) = right(query)
            holds = answer in f"{passage.title}\n{passage.text}"
            in_text = answer in passage.text
            assert holds == in_text == (passage.id in query.relevant), passage.id


@every_language
def test_a_misleading_passage_holds_the_wrong_answer(code: str) -> None:
    for query in answerable(code):
        misleading = [p.text for p in query.passages if p.id not in query.relevant]
        assert any(form in text for form in wrong(query) for text in misleading), query.id


@every_language
def test_unanswerable_questions_have_no_answer_on_record(code: str) -> None:
    for query in corpus(code):
        assert len(right(query)) == len(wrong(query)) == int(bool(query.answerable))
