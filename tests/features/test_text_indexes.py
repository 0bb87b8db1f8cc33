"""Indexes of texts give what a plain reading of one text after the other gives."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from profiles import examples

from mirage.features._shown import LONGEST_ENDING, SHORTEST_STEM, TextIndex, _has_digits
from mirage.features.base import titled_texts
from mirage.features.informative import WORD_MATCH_SHARE, _LongGrams
from mirage.languages import Language
from mirage.models import Passage
from mirage.text import alignment, split_sentences, tokenize
from mirage.text.content import best_matches, grams, index_words, text_words, words
from mirage.text.forms import text_form
from mirage.text.mentions import folded, stems
from mirage.text.negations import _tokens, negates
from mirage.text.numbers import without_numbers
from mirage.text.quantities import values_in

CODES = st.sampled_from(["ar", "de", "en", "hi", "ja", "ko", "th", "zh"])
# Letters with and without marks, digits of several scripts, and all that may stand between them.
TEXTS = st.text("aA.,'’ 5٣५.。！ \n\u0301\u0308é1\u064bก०\u200d_-*()\x1eZßİ河川नि。26", max_size=30)


@settings(max_examples=examples(600), deadline=None)
@given(TEXTS, CODES)
@example("One 1. 000 two\x1e", "en")
@example("5\u0308a. B", "de")
@example("河5。300川", "zh")
def test_a_form_has_the_tokens_and_stems_of_the_text_and_of_its_sentences(
    text: str, code: str
) -> None:
    entry, form = Language.of(code), text_form(text, Language.of(code))

    def plain_stems(part: str) -> list[str]:
        return list(stems(tokenize(without_numbers(part), entry), entry))

    assert form.tokens.split() == tokenize(text, entry)
    assert form.stems.split() == plain_stems(text)
    assert form.by_sentence() == [plain_stems(part) for part in split_sentences(text, entry)]


WORDS = st.lists(st.text("abké河川", min_size=1, max_size=6), max_size=4, unique=True)


@settings(max_examples=examples(400), deadline=None)
@given(WORDS, WORDS, st.lists(TEXTS | st.text("abk é河川.", max_size=30), max_size=4), CODES)
def test_an_index_of_several_texts_has_what_the_index_of_each_has(
    first: list[str], second: list[str], texts: list[str], code: str
) -> None:
    index = index_words((*texts, "ab"), code)
    # The second call finds some words known, and computes the others.
    for some in (first, [*second, *first]):
        every, table = tuple(some), index.sentence_matches(some)
        for number, text in enumerate(texts):
            columns = slice(index.columns[number] + 1, index.columns[number + 1])
            alone = index_words((text,), code).sentence_matches(some)[:, 1:]
            assert table[:, columns].tolist() == alone.tolist()
            best = tuple(index.text_table(some)[:, number].tolist())
            assert best == best_matches(every, text, code)


@settings(max_examples=examples(400), deadline=None)
@given(WORDS, st.lists(TEXTS | st.text("abk é河川.", max_size=30), max_size=4), CODES)
def test_a_text_holds_the_words_whose_ngrams_it_shares(
    terms: list[str], texts: list[str], code: str
) -> None:
    entry = Language.of(code)
    rows = index_words((*texts, "ab"), code).held(terms, WORD_MATCH_SHARE)
    for term, row in zip(terms, rows, strict=True):
        parts = grams(term, entry.gram_length)
        for text, is_held in zip(texts, row, strict=False):
            others = words(text, code)
            assert others == text_words(text, code)
            if entry.tokens == "character":
                shared, is_part = parts & set(others), term in others
            else:
                shared = parts & set().union(*(grams(o, entry.gram_length) for o in others))
                is_part = False
                if len(term) <= entry.gram_length:
                    assert is_held == any(term in other for other in others)
                    continue
            assert is_held == (is_part or len(shared) >= WORD_MATCH_SHARE * len(parts))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.text("ab c", max_size=30), max_size=3), st.text("ab cd", max_size=30), st.booleans()
)
def test_the_recall_of_long_ngrams_is_that_of_sets(
    texts: list[str], answer: str, many: bool
) -> None:
    # With so many characters, an integer has no room for n-grams of five of them.
    every = [*texts, "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))] if many else texts

    def cut(text: str) -> set[str]:
        joined = " ".join(tokenize(text, "en"))
        return {joined[i : i + 5] for i in range(len(joined) - 4)}

    shown = set().union(*map(cut, every))
    expected = len(shown & cut(answer)) / max(1, len(shown))
    assert _LongGrams(every, Language.of("en")).recall(answer) == expected


@settings(max_examples=examples(600), deadline=None)
@given(st.text("0123456789.,: ٣'-", max_size=20), st.integers(0, 10**16))
@example("12,34,567", 34)
@example("12345", 234)
def test_digits_in_a_row_are_a_value_of_the_text(text: str, value: int) -> None:
    runs = [int(run) for run in text.replace("٣", " ").split() if run.isdecimal()]
    for number in (*runs, value):
        assert not _has_digits(text, float(number)) or float(number) in values_in(text, "en")


@pytest.mark.parametrize(("text", "value"), [("in 1932.", 1932.0), ("1,932", 932.0)])
def test_digits_in_a_row_are_found(text: str, value: float) -> None:
    assert _has_digits(text, value)
    assert not _has_digits(text, value + 0.5)
    assert not _has_digits(f"{text}5 7{text}".replace(" ", ""), 93.0)


ENDINGS = st.text("ab", min_size=3, max_size=8)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(ENDINGS, max_size=5).map(" ".join), max_size=3), ENDINGS)
@example(["abab", "ab"], "aba")
def test_an_index_holds_a_word_if_the_set_of_words_has_one_of_its_forms(
    texts: list[str], word: str
) -> None:
    all_words = {other for text in texts for other in text.split()}

    def has_longer(start: str) -> bool:
        is_long = len(start) >= SHORTEST_STEM
        return is_long and any(w.startswith(start) and w != start for w in all_words)

    shortest = max(SHORTEST_STEM, len(word) - LONGEST_ENDING)
    expected = word in all_words or has_longer(word)
    expected |= any(word[:n] in all_words for n in range(shortest, len(word)))
    if len(word) > SHORTEST_STEM + 1:
        expected |= has_longer(word[:shortest])
    elif len(word) >= SHORTEST_STEM:
        expected |= word[:-1] in all_words or any(w[:-1] == word[:-1] for w in all_words)
    assert TextIndex(tuple(texts), Language.of("en")).word(word) == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, max_size=3), TEXTS, CODES)
def test_the_missing_share_of_a_phrase_is_that_of_sets(
    texts: list[str], phrase: str, code: str
) -> None:
    entry = Language.of(code)

    def cut(text: str) -> set[str]:
        length = min(entry.gram_length, len(text))
        return {text[i : i + length] for i in range(len(text) - length + 1)}

    pattern = folded(phrase, entry)
    held = set().union(*(cut(folded(text, entry)) for text in texts))
    expected = len(cut(pattern) - held) / len(cut(pattern))
    assert TextIndex(tuple(texts), entry).missing_share(pattern) == expected


NEGATIONS = st.lists(
    st.sampled_from(["no", "not", "cannot", "kein", "nie", "on", "n't", "ない", "不"])
)


@given(NEGATIONS.map(" ".join), CODES)
def test_a_text_negates_if_one_of_its_tokens_does(text: str, code: str) -> None:
    assert negates(text, code) == any(token.negates for token in _tokens(text, code))


@settings(max_examples=200, deadline=None)
@given(st.text("ab ", max_size=30), st.text("abc ", max_size=30), st.sampled_from(["en", "zh"]))
def test_texts_without_a_common_run_have_no_replacement(first: str, second: str, code: str) -> None:
    find = alignment.replacements.__wrapped__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "_share_context", lambda *_: True)
        expected = find(first, second, code)
    assert find(first, second, code) == expected


@settings(max_examples=50, deadline=None)
@given(st.text(" \na", max_size=5), st.text(" \na", max_size=5))
def test_cached_titled_texts_are_those_of_passages(title: str, text: str) -> None:
    passage = Passage(id="p1", title=title, text=text)
    assert titled_texts([passage]) == (passage.titled_text,)
