"""Words that show how a text takes a statement: negations, attributions, corrections and others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
    alternatives = sorted(map(nfc, phrases), key=len, reverse=True)
    return re.compile("|".join(_phrase(phrase, entry) for phrase in alternatives) or "(?!)")


def _phrase(phrase: str, entry: Language) -> str:
    body, spaced = phrase.strip(), entry.tokens == "word"
    opens, goes_on = body.startswith("*"), body.endswith("*")
    gap = _GAP if spaced else _SHORT_GAP
    parts = (re.escape(fold(part.strip()).text) for part in body.strip("*").split("..."))
    pattern = gap.join(
        part.replace(r"\ ", r"\s+").replace(r"\*", f"[{IN_WORD}]*") for part in parts
    )
    if not spaced:
        return pattern
    before = f"[{IN_WORD}]*" if opens else f"(?<![{IN_WORD}])"
    after = f"[{IN_WORD}]*" if goes_on else f"(?![{IN_WORD}])"
    return f"{before}{pattern}{after}"
