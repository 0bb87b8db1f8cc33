"""Find cues: words that show how a text presents a statement, such as "not" and "many say"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text._folding import FoldedText, fold
from mirage.text._unicode import nfc
from mirage.text.lexicon import lexicon
from mirage.text.words import IN_WORD

__all__ = ["CUES", "Cue", "cues", "phrase_pattern"]

CUES = (
    *("negation", "contrast", "attribution", "falsity", "truth", "exclusion"),
    *("alternative", "retraction", "comparison", "answer_words", "inferiority", "condition"),
    *("former", "current"),
)
"""Kinds of cue, named like the fields of a lexicon."""

_COMPARISON, _INFERIORITY = CUES.index("comparison"), CUES.index("inferiority")
_WIDER = {
    "negation": ("truth",),
    "falsity": ("truth",),
    "exclusion": ("truth",),
    "truth": ("falsity",),
}
"""For each kind of cue, the kinds of longer cues that override a cue inside them.

"No myth" and "cannot be denied" affirm a statement, and "not true" denies it.
"""
_ACCENTED = frozenset({"de", "es", "fi", "fr", "yo"})
"""Languages in which an accent can change a word: French "né" (born) and "ne" (not)."""

_GAP = r"[^.!?。！？।؟\n]{1,40}?"  # matches the `` ... `` of a phrase, between words
_WORD_START = f"(?<![{IN_WORD}])"
_WORD_END = f"(?![{IN_WORD}])"
_REST_OF_WORD = f"[{IN_WORD}]*"
# From the start of a word: a search at each of its letters would take quadratic time.
_WORD_TO_HERE = f"{_WORD_START}{_REST_OF_WORD}"
_WORD_GAP = f"{_WORD_END}{_GAP}{_WORD_START}"
_SHORT_GAP = r"[^.!?。！？।؟\n]{1,14}?"  # the same in a script without spaces


Span = tuple[int, int]
Tokens = tuple[str, ...]


class Cue(NamedTuple):
    """The span and the kind of a cue, a word or phrase such as "not", in a folded text."""

    start: int
    end: int
    kind: int  # index in CUES


def cues(folded: FoldedText, text: str, entry: Language) -> Iterator[Cue]:
    """Yield the cues (words such as "not") of a text, ordered by language, kind and position.

    ``folded`` is the folded form of ``text``, to which the spans of the cues refer. If the text
    contains Latin letters, English cues are also found in texts of other languages.
    """
    is_english = entry is LANGUAGES["en"] or not _has_latin(folded.text)
    cue_free_spans: list[Span] = []
    for code in (entry.code,) if is_english else (entry.code, "en"):
        spans = [_spans(pattern, folded.text) for pattern in cues_of(code)]
        # Cue-free words of the language also exclude English cues: French "dont" is not "don't".
        cue_free_spans += _spans(_cue_free_pattern(code), folded.text)
        for kind, matches in enumerate(spans):
            # "Second only to" and "not as long as" also match comparison words, but in them the
            # lesser of the two comes first.
            inferiority_spans = spans[_INFERIORITY] if kind == _COMPARISON else []
            wider_spans = [
                span for other in _WIDER.get(CUES[kind], ()) for span in spans[CUES.index(other)]
            ]
            for span in matches:
                if (
                    not any(start < span[1] and span[0] < end for start, end in inferiority_spans)
                    and not any(_is_wider(other, span) for other in wider_spans)
                    and not any(
                        start <= span[0] and span[1] <= end for start, end in cue_free_spans
                    )
                    and _has_right_accents(folded, text, code, kind, span)
                ):
                    yield Cue(*span, kind)


def _is_wider(span: Span, other: Span) -> bool:
    """Return whether a span contains another one and is longer."""
    return span != other and span[0] <= other[0] and other[1] <= span[1]


def _spans(pattern: re.Pattern[str], folded: str) -> list[Span]:
    return [match.span() for match in pattern.finditer(folded)]


def _has_right_accents(folded: FoldedText, text: str, code: str, kind: int, span: Span) -> bool:
    """Return whether a cue word has no accents in the text, or the same ones as in the lexicon."""
    if code not in _ACCENTED:
        return True
    start, end = folded.offsets[span[0]], folded.offsets[span[1] - 1] + 1
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    original = text[start:end].lower()
    return original.isascii() or _accented_patterns(code)[kind].fullmatch(original) is not None


def _has_latin(folded: str) -> bool:
    return re.search(r"[a-z]{2}", folded) is not None


@cache
def cues_of(code: str) -> tuple[re.Pattern[str], ...]:
    """Return a pattern for each kind of cue word of a language, in the order of :data:`CUES`."""
    entry, words = Language.with_board(code), lexicon(code)
    return tuple(phrase_pattern(getattr(words, kind), entry) for kind in CUES)


@cache
def _accented_patterns(code: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of :func:`cues_of`, but with accents.

    These patterns are used for languages in which accents distinguish a cue from another word.
    """
    entry, words = Language.of(code), lexicon(code)
    return tuple(phrase_pattern(getattr(words, kind), entry, str.lower) for kind in CUES)


@cache
def _cue_free_pattern(code: str) -> re.Pattern[str]:
    return phrase_pattern(lexicon(code).cue_free, Language.of(code))


def _fold_phrase(phrase: str) -> str:
    return fold(phrase).text


def phrase_pattern(
    phrases: Iterable[str], entry: Language, form: Callable[[str], str] = _fold_phrase
) -> re.Pattern[str]:
    """Return a pattern that matches any of the phrases in a text folded by ``form``.

    In a phrase, ``*`` matches the rest of a word, and `` ... `` a few words.
    """
    return re.compile(_alternation([_phrase(nfc(phrase), entry, form) for phrase in phrases]))


def _alternation(phrases: Sequence[Tokens]) -> str:
    """Return one regular expression that matches any of the phrases.

    Common prefixes of the phrases are written once, which makes matching much faster. The pattern
    for the end of a word is also written once, because compiling its many characters takes most of
    the time.
    """
    if not phrases:
        return "(?!)"
    ends = {phrase[-1] if phrase else "" for phrase in phrases}
    if len(phrases) > 1 and ends == {_WORD_END}:
        return _ordered_alternation([phrase[:-1] for phrase in phrases]) + _WORD_END
    if ends == {_WORD_END, _REST_OF_WORD}:
        # Empty groups mark the phrases that may end inside a word. All other phrases must end where
        # a word ends.
        body = _ordered_alternation(
            [
                (*phrase[:-1], "()") if phrase[-1] == _REST_OF_WORD else phrase[:-1]
                for phrase in phrases
            ]
        )
        end = _WORD_END
        for group in range(body.count("()"), 0, -1):
            end = f"(?({group})|{end})"
        return body + end + _REST_OF_WORD
    by_first: dict[str, list[Tokens]] = {}
    for phrase in filter(None, phrases):
        by_first.setdefault(phrase[0], []).append(phrase[1:])
    branches = [first + _alternation(rests) for first, rests in by_first.items()]
    if not branches:
        return ""
    if all(phrases):
        return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return f"(?:{'|'.join(branches)})?"


def _ordered_alternation(phrases: Sequence[Tokens]) -> str:
    """Return a regular expression that tries the phrases in their order; one of them may be empty.

    Phrases that begin with the same words are grouped at the position of the first of them.
    """
    by_first: dict[str, list[Tokens]] = {}
    for phrase in phrases:
        by_first.setdefault(phrase[0] if phrase else "", []).append(phrase[1:])
    branches = [
        first + _ordered_alternation(rests) if first else "" for first, rests in by_first.items()
    ]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _phrase(phrase: str, entry: Language, form: Callable[[str], str]) -> Tokens:
    """Convert a phrase to parts of a regular expression.

    There is one part for each character, each gap between words and each border of a word. ``form``
    folds the phrase in the same way as the text to be searched.
    """
    body, spaced = phrase.strip(), entry.tokens == "word"
    starts_inside_word, ends_inside_word = body.startswith("*"), body.endswith("*")
    tokens = [_WORD_TO_HERE if starts_inside_word else _WORD_START] if spaced else []
    for index, part in enumerate(body.strip("*").split("...")):
        if index:
            tokens.append(_WORD_GAP if spaced else _SHORT_GAP)
        tokens += [_character(character) for character in " ".join(form(part).split())]
    if spaced:
        tokens.append(_REST_OF_WORD if ends_inside_word else _WORD_END)
    return tuple(tokens)


def _character(character: str) -> str:
    return {" ": r"\s+", "*": _REST_OF_WORD}.get(character) or re.escape(character)
