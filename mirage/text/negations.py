"""Find sentences that contradict a passage because they add or omit a negation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from mirage._base.memo import Memo
from mirage.languages import Language
from mirage.text import split_sentences
from mirage.text._unicode import any_of
from mirage.text.lexicon import lexicon
from mirage.text.mentions import bare
from mirage.text.words import IN_WORD

__all__ = ["negates", "negation_faults"]

SOURCE_SHARE = 0.6
"""Minimum share of the words of the shorter sentence that a sentence shares with its source."""

LONGEST_DIFFERENCE = 3
"""Maximum length, in tokens, of a difference that is checked for a negation."""


SHORTEST_SENTENCE = 4
"""Minimum length, in words or pairs of characters, of a sentence that is compared."""

SHORTEST_OF_REFERENCE = 3
"""Like :data:`SHORTEST_SENTENCE`, for a sentence that is compared with a reference answer."""

SHORT_SHARE = 0.5
"""Like :data:`SOURCE_SHARE`, for a sentence of three or four words and a reference answer.

A negation may change the forms of two of the words: "silta avattiin" and "siltaa ei avattu".
"""


# Verbs of Swahili begin with the negation: halikufunguliwa, hairuhusiwi.
_SUBJECTS = "tu|wa|u|i|li|ya|ki|vi|zi|ku|pa"
_NEGATIVE_VERBS = {
    "sw": re.compile(
        rf"(?!haikali|hakimiliki)ha(?:(?:{_SUBJECTS}|m)?(?:ku|ja)\w{{3,}}"
        rf"|(?:{_SUBJECTS})(?:ta\w{{3,}}|\w{{3,}}i))"
    )
}


# "Until", which contains a negation: "hold the button until (not) it blinks".
_UNTIL = {"bn": re.compile("যতক্ষণ (?:পর্যন্ত )?না"), "hi": re.compile("जब तक (?:कि )?(?:न|नहीं)")}


class _Token(NamedTuple):
    """A token, its position in the sentence, and whether it belongs to a negation.

    It ``denies`` if it belongs to a negation of a statement, and not only of a noun ("without").
    """

    text: str
    start: int
    end: int
    negates: bool
    denies: bool


_WORD = re.compile(rf"[^\W_][{IN_WORD}]*")
_CHARACTER = re.compile(r"[A-Za-z0-9]+|\w[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*")


def negation_faults(
    text: str,
    places: Sequence[tuple[int, int]],
    passages: Sequence[str],
    code: str,
    *,
    is_reference: bool = False,
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of a text that differs from its source by a negation.

    A word for no at the beginning of a sentence, as in "No, it is not", answers a question and does
    not negate the rest of the sentence.

    Args:
        text: The text to check.
        places: Start and end offset of each sentence of the text.
        passages: The texts from which the sentences may be taken.
        code: ISO 639-1 code of the language.
        is_reference: Whether the passages are reference answers. Shorter and less similar sentences
            are then compared too.
    """
    sources = _index_sentences(tuple(passages), code)
    for start, end in places:
        start += _opening_length(text[start:end], code)
        sentence_words = _word_set(text[start:end], code)
        for sentence in _likely_sources(sentence_words, sources, is_reference):
            tokens, source = _tokens(text[start:end], code), _tokens(sentence, code)
            if not is_reference and not _digits(text[start:end]) <= _digits(sentence):
                continue  # "not in 1931, but in 1932" says the same as "in 1932"
            # Aligning two sentences is slow, so sentences without negations are skipped.
            if any(token.negates for token in (*tokens, *source)):
                for first, last in _negation_differences(tokens, source, code):
                    yield start + first, start + last


def _digits(text: str) -> set[int]:
    """Return the numbers that a text has in digits."""
    return {int(digits) for digits in re.findall(r"\d+", text)}


def negates(text: str, code: str) -> bool:
    """Return whether a text contains a negation, either a word or an affix.

    Words such as "without", which negate a noun only, do not count.
    """
    _, stretches = _negation_patterns(code, of_statements=True)
    table = _token_table(code, of_statements=True)
    if any(table[token][1] for token in _pattern(code).findall(text)):
        return True
    return stretches is not None and stretches.search(text.casefold()) is not None


def _likely_sources(
    sentence_words: frozenset[str], sources: _SentenceIndex, is_reference: bool
) -> list[str]:
    """Return up to two sentences in ``sources`` from which a sentence may have been copied.

    Most words of the shorter of both sentences must also occur in the longer one.
    """
    shortest = SHORTEST_OF_REFERENCE if is_reference else SHORTEST_SENTENCE
    holders = (sources.holders.get(word, ()) for word in sentence_words)
    near = []
    for number, shared in Counter(chain.from_iterable(holders)).items():
        words, sentence = sources.sentences[number]
        shorter = min(len(words), len(sentence_words))
        is_short = is_reference and shorter <= SHORTEST_SENTENCE
        share = SHORT_SHARE if is_short else SOURCE_SHARE
        if shorter >= shortest and shared >= share * shorter:
            near.append((shared, sentence))
    return [sentence for _, sentence in sorted(near, reverse=True)[:2]]


def _negation_differences(
    tokens: Sequence[_Token], source: Sequence[_Token], code: str
) -> Iterator[tuple[int, int]]:
    """Yield the spans of a sentence that differ from a source sentence by a negation.

    Such a span takes the place of about as many tokens of the source, not counting the negation.
    The words before and after it are the same in both sentences.
    """
    # autojunk would ignore frequent words in long sentences, and negations are frequent.
    matcher = SequenceMatcher(
        None, [t.text for t in tokens], [t.text for t in source], autojunk=False
    )
    steps = matcher.get_opcodes()
    scale = 2 if Language.of(code).tokens == "character" else 1
    one_negates = any(t.negates for t in tokens) != any(t.negates for t in source)
    surplus = sum(t.negates for t in tokens) - sum(t.negates for t in source)
    shortest, longest = 2 * scale, LONGEST_DIFFERENCE * scale
    for step, (tag, a, b, c, d) in enumerate(steps):
        if tag == "equal" or b - a > longest or d - c > longest:
            continue
        before = steps[step - 1][2] - steps[step - 1][1] if step else 0
        after = steps[step + 1][2] - steps[step + 1][1] if step + 1 < len(steps) else 0
        # In a short sentence, it is enough if all other words are the same.
        others = min(len(tokens) - (b - a), len(source) - (d - c))
        is_same = one_negates and before + after >= max(others, shortest)
        if not is_same and (before + after < 2 * shortest or 0 < before < shortest - 1):
            continue
        # "Without" in place of "with" is a contradiction, but not "without a ceremony" in place of
        # other words.
        changed = (*tokens[a:b], *source[c:d])
        if not any(token.denies for token in changed) and (b - a, d - c) != (scale, scale):
            continue
        negations = sum(token.negates for token in tokens[a:b])
        source_negations = sum(token.negates for token in source[c:d])
        # Apart from the negation, the sentence and the source must have about the same number of
        # tokens here. At the start or end of a sentence, the text with the negation may not have
        # more tokens than the other one.
        more, less = (
            (b - a - negations, d - c - source_negations)
            if negations
            else (d - c - source_negations, b - a - negations)
        )
        fits = more <= less + (1 if before and after else 0) * scale
        # If the other sentence has as many negations, the statement is only worded differently.
        fits = fits and (surplus > 0 if negations else surplus < 0)
        if fits and bool(negations) != bool(source_negations):
            first, last = (a, b) if negations else (max(a - 1, 0), min(b + 1, len(tokens)))
            yield tokens[first].start, tokens[last - 1].end


class _SentenceIndex(NamedTuple):
    """The sentences of some passages, indexed by their words.

    Attributes:
        sentences: The words and the text of each sentence.
        holders: For each word, the indices of the sentences that contain it.
    """

    sentences: Sequence[tuple[frozenset[str], str]]
    holders: dict[str, list[int]]


@lru_cache(maxsize=512)
def _index_sentences(passages: tuple[str, ...], code: str) -> _SentenceIndex:
    sentences = [row for passage in passages for row in _sentences(passage, code)]
    holders: dict[str, list[int]] = {}
    for number, (words, _) in enumerate(sentences):
        for word in words:
            holders.setdefault(word, []).append(number)
    return _SentenceIndex(sentences, holders)


@lru_cache(maxsize=2048)
def _sentences(passage: str, code: str) -> tuple[tuple[frozenset[str], str], ...]:
    sentences = split_sentences(passage, code)
    clauses = [sentence[_opening_length(sentence, code) :] for sentence in sentences]
    return tuple((_word_set(clause, code), clause) for clause in clauses)


def _word_set(text: str, code: str) -> frozenset[str]:
    """Return the words of a sentence, or pairs of characters in languages without spaces."""
    parts = _pattern(code).findall(text.casefold())
    if Language.of(code).tokens == "character":
        return frozenset(map("".join, pairwise(parts)))
    return frozenset(parts)


def _pattern(code: str) -> re.Pattern[str]:
    return _CHARACTER if Language.of(code).tokens == "character" else _WORD


@lru_cache(maxsize=1024)
def _tokens(text: str, code: str) -> tuple[_Token, ...]:
    kinds = [
        (_token_table(code, of_statements=chosen), _negated_spans(text, code, of_statements=chosen))
        for chosen in (False, True)
    ]
    until = [m.span() for m in _UNTIL[code].finditer(text)] if code in _UNTIL else []
    tokens = []
    for match in _pattern(code).finditer(text):
        first, last = match.span()
        is_until = any(start <= first < end for start, end in until)
        negates, denies = (
            not is_until
            and (table[match[0]][1] or any(start < last and first < end for start, end in spans))
            for table, spans in kinds
        )
        tokens.append(_Token(kinds[0][0][match[0]][0], first, last, negates, denies))
    return tuple(tokens)


def _negated_spans(text: str, code: str, *, of_statements: bool) -> list[tuple[int, int]]:
    """Return the start and end of each negation of several words."""
    _, stretches = _negation_patterns(code, of_statements=of_statements)
    return [match.span() for match in stretches.finditer(text.casefold())] if stretches else []


def _opening_length(sentence: str, code: str) -> int:
    """Return the length of a word for no at the beginning of a sentence: "No, it is not".

    The result is 0 if there is none, or if nothing follows it.
    """
    match = _opening_pattern(code).match(sentence.casefold())
    return match.end() if match and _pattern(code).search(sentence, match.end()) else 0


@lru_cache(maxsize=64)
def _opening_pattern(code: str) -> re.Pattern[str]:
    """Return a pattern for a word for no before a punctuation mark or, in Thai, before a space."""
    marks = r"\s" if Language.of(code).script == "Thai" else r"\s*[^\w\s'’\"-]|\s+[-–—]\s"
    return re.compile(rf"\W*(?:{any_of(lexicon(code).no)})(?:{marks})")


@cache
def _token_table(code: str, *, of_statements: bool = False) -> Memo[str, tuple[str, bool]]:
    """Return a table from a token to its folded form and whether it is a negation by itself."""
    whole, _ = _negation_patterns(code, of_statements=of_statements)

    def read_token(token: str) -> tuple[str, bool]:
        folded = token.casefold()
        patterns = filter(None, (whole, _NEGATIVE_VERBS.get(code)))
        return bare(folded), any(pattern.fullmatch(folded) for pattern in patterns)

    return Memo(read_token)


@lru_cache(maxsize=64)
def _negation_patterns(
    code: str, *, of_statements: bool = False
) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    """Return two patterns of negations: words with their affixes, and phrases of several words.

    In a script without spaces only the second pattern exists.

    Args:
        code: ISO 639-1 code of the language.
        of_statements: Whether words that negate only a noun, such as "without", are left out.
    """
    words = lexicon(code)
    absence = () if of_statements else words.absence
    forms = (*words.negation, *words.prohibition, *absence)
    by_length = sorted(forms, key=len, reverse=True)
    if Language.of(code).tokens == "character":
        return None, re.compile("|".join(re.escape(form.strip("*")) for form in by_length))
    single = [form for form in forms if " " not in form]
    alternatives = "|".join(re.escape(form).replace(r"\*", f"[{IN_WORD}]*") for form in single)
    phrases = "|".join(
        rf"(?<![{IN_WORD}]){re.escape(form)}(?![{IN_WORD}])".replace(r"\*", f"[{IN_WORD}]*")
        for form in forms
        if " " in form
    )
    return re.compile(alternatives), re.compile(phrases) if phrases else None
