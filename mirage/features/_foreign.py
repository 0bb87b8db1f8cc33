"""Detection of the parts of a text that are not in the expected language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache

from mirage.features.language import language_probabilities
from mirage.languages import Language
from mirage.text.lexicon import codes_with_lexicon, lexicon
from mirage.text.words import WORD

_SCRIPTS = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff",
    "Cyrillic": "\u0400-\u052f",
    "Arabic": "\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u200c",
    "Devanagari": "\u0900-\u0963\u0971-\u097f\u200d",
    "Bengali": "\u0980-\u09e3\u09f0-\u09ff",
    "Telugu": "\u0c00-\u0c63",
    "Thai": "\u0e01-\u0e4e",
    "Hangul": "\uac00-\ud7a3\u1100-\u11ff",
    "Kana": "\u3041-\u30fa\u30fd-\u30ff",
    "Han": "\u3400-\u9fff",
}
_OF_LANGUAGE = {"Japanese": ("Kana", "Han"), "Hangul": ("Hangul", "Han")}

FEWEST_LATIN_WORDS = 4
"""Minimum number of Latin words that form a clause within another script; fewer may be a name."""

FEWEST_LETTERS = 6
"""Minimum number of letters in a clause in a foreign script other than Latin."""

SHORTEST_SENTENCE = 3
"""Minimum length, in words, of a sentence that is checked for another language."""

OWN_WORD_SHARE = 0.15
"""Share of the expected language's function words above which a sentence is in that language."""

FOREIGN_BELOW = 0.1
"""Probability of the expected language below which a sentence is in another language."""

FEWEST_FUNCTION_WORDS = 3
"""Minimum number of function words of another language in a clause in that language."""


def foreign_stretches(
    text: str, places: Sequence[tuple[int, int]], sources: Sequence[str], code: str
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of a text that is not in the expected language.

    Such a part is in another script or consists of words of another language. Text in another
    script is not reported if one of the sources contains it, because it may be a quote.

    Args:
        text: The text to check.
        places: Start and end of each sentence of the text.
        sources: The question and the passages, from which the text may quote. The first is in the
            expected language.
        code: ISO 639-1 code of the expected language.
    """
    entry = Language.of(code)
    for match in _other_script(entry).finditer(text):
        stretch = match[0]
        is_latin = stretch[0].isascii() or _is_latin(stretch[0])
        if (_is_clause(stretch) if is_latin else len(stretch) >= FEWEST_LETTERS) and not any(
            stretch in source for source in sources
        ):
            yield match.span()
    for start, end in places:
        yield from _other_language(text, start, end, entry, sources)


def _is_latin(char: str) -> bool:
    return bool(re.match(f"[{_SCRIPTS['Latin']}]", char))


def _is_clause(stretch: str) -> bool:
    """Return whether a text in Latin script is a clause rather than a name.

    A clause has several words, and at least half of them begin with a lower-case letter.
    """
    words = stretch.split()
    small = [word for word in words if word[:1].islower()]
    return len(words) >= FEWEST_LATIN_WORDS and 2 * len(small) >= len(words)


@lru_cache(maxsize=64)
def _other_script(entry: Language) -> re.Pattern[str]:
    """Return a regular expression for text in scripts that the language does not use."""
    own_scripts = _OF_LANGUAGE.get(entry.script, (entry.script,))
    foreign = [letters for name, letters in _SCRIPTS.items() if name not in (*own_scripts, "Latin")]
    latin = _SCRIPTS["Latin"]
    runs = [rf"[{''.join(foreign)}](?:[{''.join(foreign)}\s]*[{''.join(foreign)}])?"]
    if "Latin" not in own_scripts:
        runs.insert(0, rf"[{latin}](?:[{latin}0-9\s,'’()\"%:;.-]*[{latin}][.!?]?)?")
    return re.compile("|".join(runs))


def _other_language(
    text: str, start: int, end: int, entry: Language, sources: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of a sentence, or of a clause in it, in another language.

    The sentence is ``text[start:end]``, and ``entry`` is the expected language. The decision is
    based on function words. Words that also occur in ``sources`` count as evidence for the expected
    language, and names copied from ``sources`` are ignored.
    """
    # Capitalised words may belong to a foreign title or name, which is not a fault.
    words = [
        (match.start(), match.end(), match[0].casefold())
        for match in WORD.finditer(text, start, end)
        if match.start() == start or not match[0][0].isupper()
    ]
    languages_by_word = _languages_by_word()
    own_count = 0
    counts: Counter[str] = Counter()
    for _, _, word in words:
        codes = languages_by_word.get(word, ())
        if entry.code in codes:
            own_count += 1
        else:
            counts.update(codes)
    if len(words) < SHORTEST_SENTENCE or entry.tokens == "character":
        return
    if own_count <= OWN_WORD_SHARE * len(words):
        probabilities = language_probabilities(text[start:end], entry, sources)
        if probabilities and probabilities.get(entry.code, 0.0) < FOREIGN_BELOW:
            yield start, end
            return
    if not counts:
        return
    other, count = counts.most_common(1)[0]
    if count < FEWEST_FUNCTION_WORDS:
        return
    # If the other language clearly dominates, the whole sentence is reported instead of a clause.
    if count >= 0.25 * len(words) and own_count <= count / 2:
        yield start, end
        return
    yield from _clause(words, other, entry, languages_by_word)


def _clause(
    words: Sequence[tuple[int, int, str]],
    other: str,
    entry: Language,
    languages_by_word: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the longest clause in another language, if there is one.

    The clause has at least :data:`FEWEST_FUNCTION_WORDS` function words of the other language, and
    none that belong only to the expected language.

    Args:
        words: Start, end and text of each word of the sentence.
        other: ISO 639-1 code of the other language.
        entry: The expected language.
        languages_by_word: Languages of each function word.
    """
    first = last = None
    count = 0
    best: tuple[int, int, int] = (0, 0, 0)
    for start, end, word in words:
        codes = languages_by_word.get(word, ())
        if entry.code in codes:
            # A word of both languages, such as "in", does not end a clause.
            if other in codes and first is not None:
                continue
            first, count = None, 0
        elif other in codes:
            first = start if first is None else first
            last, count = end, count + 1
            best = max(best, (count, first, last))
    if best[0] >= FEWEST_FUNCTION_WORDS:
        yield best[1], best[2]


@cache
def _languages_by_word() -> Mapping[str, tuple[str, ...]]:
    """Return a mapping from each function word to the codes of the languages that use it."""
    codes: dict[str, tuple[str, ...]] = {}
    for code in codes_with_lexicon():
        for word in lexicon(code).function_words:
            if " " not in word:
                codes[word] = (*codes.get(word, ()), code)
    return codes
