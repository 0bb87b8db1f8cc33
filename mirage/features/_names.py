"""Names in an answer, by what a script shows of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.features._shown import Shown
from mirage.languages import LANGUAGES, Language
from mirage.text.lexicon import lexicon
from mirage.text.mentions import folded
from mirage.text.quantities import word_values
from mirage.text.words import WORD

__all__ = ["Name", "names", "stranger"]


LONGEST_ACRONYM = 6
"""Letters of a word in capitals that may be the initials of others."""


class Name(NamedTuple):
    """Where a name stands, and whether the texts hold it."""

    start: int
    end: int
    known: bool


_BEFORE_FIRST = re.compile(
    r"(?:\A|[.!?:;…•·\n—–|/]|(?:\A|\n)\s*(?:\d+[.)]|[-+*]))[\s*_\"'“”„«»‚‘’(\[]*\Z"
)
_TOGETHER = re.compile(r"[ \u00a0'’.·・‐-]{1,2}")
_KANA = re.compile("[ぁ-ゖァ-ヺ]")
_ROMAN = re.compile(r"[IVXLC]+(?:er|e|ème|th|st|nd|rd)?")
_NAME_IN_LATIN = r"[A-Z\u00c0-\u00de][A-Za-z\u00c0-\u024f\u1e00-\u1eff'’.-]+"
_LATIN = re.compile(f"{_NAME_IN_LATIN}(?: {_NAME_IN_LATIN})*")
_QUOTED = re.compile(r"《([^》\n]{2,30})》")
# The characters that Chinese writes foreign names with.
_SOUNDS = frozenset(
    "斯尔亚尼拉克特里德罗莱姆卡巴塞维马洛菲伊布格诺埃贝丹利达普鲁基比加萨托哈科弗阿瓦奥"
    "奇列内泽杰乌蒂迪恩兰伦曼夫雷纳娜莉莎娅蒙赫沃琼坦桑韦佩穆谢吉汉森顿茨胡肯查蓬戈"
    "哥根提丁堡威廉波亨翰墨俄乔珍苏逊朗温彼耶凯柯宾鲍彭摩澳敦瑟"
)
_SOUND_RUN = re.compile(f"[{''.join(sorted(_SOUNDS))}·]{{3,}}")


def names(text: str, sentence_starts: Sequence[int], shown: Shown) -> Iterator[Name]:
    """The names that are surely such; neighbouring words that are both known, or not, are one."""
    last: Name | None = None
    for name in _single(text, sentence_starts, shown):
        if (
            last is not None
            and last.known == name.known
            and _TOGETHER.fullmatch(text, last.end, name.start)
        ):
            last = Name(last.start, name.end, name.known)
            continue
        if last is not None:
            yield last
        last = name
    if last is not None:
        yield last


def _single(text: str, sentence_starts: Sequence[int], shown: Shown) -> Iterator[Name]:
    entry = shown.language
    if entry.capitals == "names":
        yield from _capitalised(text, frozenset(sentence_starts), shown)
    elif entry.capitals == "nouns":
        yield from _among_nouns(text, frozenset(sentence_starts), shown)
    else:
        for pattern in (_LATIN, _QUOTED, *_own_patterns(entry)):
            for match in pattern.finditer(text):
                # In brackets behind a name stands the same name in Latin letters.
                glossed = pattern is _LATIN and text[: match.start()].endswith(("(", "（"))
                yield Name(*match.span(), glossed or shown.holds(match[0]))


def _own_patterns(entry: Language) -> tuple[re.Pattern[str], ...]:
    if entry.script == "Japanese":
        return (_katakana(entry),)
    return (_SOUND_RUN,) if entry.script == "Han" else ()


@lru_cache(maxsize=4)
def _katakana(entry: Language) -> re.Pattern[str]:
    """Foreign names of several parts, or before a title; words from abroad are neither."""
    titles = sorted(lexicon(entry.code).titles, key=len, reverse=True)
    title = "|".join(re.escape(title) for title in titles if not _KANA.match(title))
    return re.compile(rf"[ァ-ヺー]{{2,}}(?:(?:[・＝=][ァ-ヺー]{{2,}})+|(?={title}))")


def _capitalised(text: str, starts: frozenset[int], shown: Shown) -> Iterator[Name]:
    for match in WORD.finditer(text):
        if (
            _is_capital(match[0])
            and not _is_first(text, match.start(), starts)
            and not _is_common(match[0], shown.language)
        ):
            yield Name(*match.span(), _is_known(match[0], shown))


def _is_capital(word: str) -> bool:
    return len(word) > 2 and word[0].isupper()


def _is_first(text: str, start: int, starts: frozenset[int]) -> bool:
    return start in starts or bool(_BEFORE_FIRST.search(text, max(start - 8, 0), start))


@lru_cache(maxsize=1 << 15)
def _is_common(word: str, entry: Language) -> bool:
    words = lexicon(entry.code)
    lower = word.casefold()
    if _ROMAN.fullmatch(word) or lower in _passage_words(entry):
        return True
    lists = (words.function_words, words.months, words.titles, words.yes, words.no)
    return any(lower in known for known in lists) or bool(word_values(lower, entry))


@lru_cache(maxsize=64)
def _passage_words(entry: Language) -> frozenset[str]:
    return frozenset(map(str.casefold, LANGUAGES["en"].passage_words + entry.passage_words))


def _is_known(word: str, shown: Shown) -> bool:
    parts = folded(word, shown.language).split()
    if word.isupper() and len(word) <= LONGEST_ACRONYM and shown.initials(word.casefold()):
        return True
    return all(len(part) < 3 or shown.word(part) for part in parts) or shown.holds(word)


def _among_nouns(text: str, starts: frozenset[int], shown: Shown) -> Iterator[Name]:
    """Where every noun has a capital: what stands behind a title, or beside another such word."""
    entry = shown.language
    words = list(WORD.finditer(text))
    capital = [
        _is_capital(word[0])
        and not _is_common(word[0], entry)
        and not _is_first(text, word.start(), starts)
        for word in words
    ]
    known = [
        not large or _is_known(word[0], shown) for word, large in zip(words, capital, strict=True)
    ]
    for place, word in enumerate(words):
        if not capital[place]:
            continue
        near = [
            other
            for other in (place - 1, place + 1)
            if 0 <= other < len(words) and _are_together(text, words[min(place, other) :][:2])
        ]
        titled = place - 1 in near and _is_title(words[place - 1][0], entry)
        # Of two nouns in a row one that is known measures or describes the other: two Liter Milch.
        beside = any(capital[other] and known[other] == known[place] for other in near)
        if titled or beside or _is_odd(word[0], entry):
            yield Name(*word.span(), known[place])


def _are_together(text: str, pair: Sequence[re.Match[str]]) -> bool:
    return bool(_TOGETHER.fullmatch(text, pair[0].end(), pair[1].start()))


def _is_title(word: str, entry: Language) -> bool:
    return word.casefold() in lexicon(entry.code).titles


def _is_odd(word: str, entry: Language) -> bool:
    """Whether a word has letters that the language's own words have not."""
    return not _own_letters(entry).issuperset(word.casefold())


@lru_cache(maxsize=4)
def _own_letters(entry: Language) -> frozenset[str]:
    return frozenset("".join(lexicon(entry.code).function_words)) | frozenset(
        "abcdefghijklmnopqrstuvwxyz-"
    )


UNLIKE = 0.6
"""Share of a word's n-grams that stand nowhere in what was shown, for it to be a stranger."""


def stranger(text: str, sentence_starts: Sequence[int], shown: Shown) -> tuple[int, int] | None:
    """The stretch of a text that is least like anything shown: a name, where there must be one."""
    entry = shown.language
    of_characters = entry.tokens == "character"
    starts = frozenset(sentence_starts) if entry.capitals == "nouns" else frozenset[int]()
    stretches = _strange_runs(text, shown) if of_characters else _strange_words(text, starts, shown)
    best = max(stretches, key=lambda row: row[2], default=None)
    return None if best is None else best[:2]


def _strange_words(
    text: str, starts: frozenset[int], shown: Shown
) -> Iterator[tuple[int, int, float]]:
    first = last = 0
    score = 0.0
    for match in WORD.finditer(text):
        weight = 0.0 if match.start() in starts else _strangeness(match[0], shown)
        if score and not (weight and _TOGETHER.fullmatch(text, last, match.start())):
            yield first, last, score
            score = 0.0
        if weight:
            first, last = (first if score else match.start()), match.end()
            score += weight
    if score:
        yield first, last, score


def _strangeness(word: str, shown: Shown) -> float:
    entry = shown.language
    pattern = folded(word, entry)
    capital = entry.capitals != "none" and word[0].isupper()
    if len(word) < 3 or _is_common(word, entry) or (entry.capitals == "nouns" and not capital):
        return 0.0
    unlike = shown.unlike(pattern)
    return (
        0.0
        if unlike < UNLIKE or shown.word(pattern.strip())
        else len(pattern) * unlike * (1 + capital)
    )


def _strange_runs(text: str, shown: Shown) -> Iterator[tuple[int, int, float]]:
    """Runs of characters of which no neighbouring two stand together in what was shown."""
    entry = shown.language
    sounds = _SOUNDS if entry.script == "Han" else frozenset()
    common = lexicon(entry.code).function_words
    for match in WORD.finditer(text):
        run, start = match[0], match.start()
        first = None
        for i in range(len(run) + 1):
            pair = run[i : i + 2]  # "ẖ" is one letter, and two where it is folded
            low = pair.casefold()
            strange = len(pair) == 2 and low not in shown.grams and low not in common
            if strange and first is None:
                first = i
            elif not strange and first is not None:
                weight = sum(1 + 4 * (c in sounds or "ァ" <= c <= "ヺ") for c in run[first : i + 1])
                yield start + first, start + i + 1, weight
                first = None
