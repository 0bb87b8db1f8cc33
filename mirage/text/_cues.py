"""Words that show how a text takes a statement: negations, attributions, corrections and others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text._folding import fold
from mirage.text._unicode import nfc
from mirage.text.lexicon import lexicon
from mirage.text.words import IN_WORD

__all__ = ["CUES", "Cue", "cues"]

CUES = (
    *("negation", "contrast", "attribution", "falsity", "truth", "exclusion"),
    *("alternative", "retraction", "comparison", "answer_words", "inferiority", "condition"),
)
"""The kinds of cue, as the lexicons name them."""

_COMPARISON, _INFERIORITY = CUES.index("comparison"), CUES.index("inferiority")
_GAP = r"[^.!?。！？।؟\n]{1,40}?"  # what `` ... `` in a phrase stands for
_SHORT_GAP = r"[^.!?。！？।؟\n]{1,14}?"  # the same in a script without spaces


Tokens = tuple[str, ...]


class Cue(NamedTuple):
    """A cue in a folded text."""

    start: int
    end: int
    kind: int  # index in CUES


def cues(folded: str, entry: Language) -> Iterator[Cue]:
    """Find the cues of a folded text, kind by kind. English ones count in every language."""
    english = () if entry is LANGUAGES["en"] or not _has_latin(folded) else cues_of("en")
    for patterns in filter(None, (cues_of(entry.code), english)):
        below = [match.span() for match in patterns[_INFERIORITY].finditer(folded)]
        for kind, pattern in enumerate(patterns):
            for match in pattern.finditer(folded):
                # "Second only to" and "not as long as" compare, with the sides exchanged.
                inside = kind == _COMPARISON and any(
                    start < match.end() and match.start() < end for start, end in below
                )
                if not inside:
                    yield Cue(match.start(), match.end(), kind)


def _has_latin(folded: str) -> bool:
    return re.search(r"[a-z]{2}", folded) is not None


@cache
def cues_of(code: str) -> tuple[re.Pattern[str], ...]:
    """Return a pattern for each kind of cue of a language, in the order of :data:`CUES`."""
    entry, words = Language.of(code), lexicon(code)
    return tuple(_pattern(getattr(words, kind), entry) for kind in CUES)


def _pattern(phrases: Iterable[str], entry: Language) -> re.Pattern[str]:
    return re.compile(_alternation([_phrase(nfc(phrase), entry) for phrase in phrases]))


def _alternation(phrases: Sequence[Tokens]) -> str:
    """One expression for all phrases, with common beginnings written once, which is much faster."""
    if not phrases:
        return "(?!)"
    by_first: dict[str, list[Tokens]] = {}
    for phrase in filter(None, phrases):
        by_first.setdefault(phrase[0], []).append(phrase[1:])
    branches = [first + _alternation(rests) for first, rests in by_first.items()]
    if not branches:
        return ""
    if all(phrases):
        return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return f"(?:{'|'.join(branches)})?"


def _phrase(phrase: str, entry: Language) -> Tokens:
    """The parts of the expression for a phrase: characters, gaps and borders."""
    body, spaced = phrase.strip(), entry.tokens == "word"
    opens, goes_on = body.startswith("*"), body.endswith("*")
    tokens: list[str] = [f"[{IN_WORD}]*" if opens else f"(?<![{IN_WORD}])"] if spaced else []
    for index, part in enumerate(body.strip("*").split("...")):
        if index:
            tokens.append(_GAP if spaced else _SHORT_GAP)
        tokens += [_character(character) for character in " ".join(fold(part).text.split())]
    if spaced:
        tokens.append(f"[{IN_WORD}]*" if goes_on else f"(?![{IN_WORD}])")
    return tuple(tokens)


def _character(character: str) -> str:
    return {" ": r"\s+", "*": f"[{IN_WORD}]*"}.get(character) or re.escape(character)
