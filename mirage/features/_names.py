"""Names in an answer, by what a script shows of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.features._shown import Shown
from mirage.languages import Language
from mirage.text.lexicon import lexicon
from mirage.text.mentions import folded
from mirage.text.quantities import word_values
from mirage.text.words import WORD

__all__ = ["Name", "names", "stranger"]


class Name(NamedTuple):
    """Where a name stands, and whether the texts hold it."""

    start: int
    end: int
    known: bool


_BEFORE_FIRST = re.compile(
    r"(?:\A|[.!?:;…•·\n—–|/]|(?:\A|\n)\s*(?:\d+[.)]|[-+*]))[\s*_\"'“”„«»‚‘’(\[]*\Z"
)
_TOGETHER = re.compile(r"[ \u00a0'’.·・‐-]{1,2}")
_KATAKANA = re.compile(r"[ァ-ヺー]{2,}(?:[・＝=][ァ-ヺー]+)*")
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
    """The names that are surely such."""
    entry = shown.language
    if entry.capitals == "names":
        yield from _capitalised(text, frozenset(sentence_starts), shown)
    elif entry.capitals == "nouns":
        yield from _among_nouns(text, frozenset(sentence_starts), shown)
    else:
        for pattern in (_LATIN, _QUOTED, *_own_patterns(entry)):
            for match in pattern.finditer(text):
                yield Name(*match.span(), shown.holds(match[0]))


def _own_patterns(entry: Language) -> tuple[re.Pattern[str], ...]:
    return {"Japanese": (_KATAKANA,), "Han": (_SOUND_RUN,)}.get(entry.script, ())


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
    lists = (words.function_words, words.months, words.titles, words.yes, words.no)
    return any(lower in known for known in lists) or bool(word_values(lower, entry))


def _is_known(word: str, shown: Shown) -> bool:
    parts = folded(word, shown.language).split()
    return all(len(part) < 3 or shown.word(part) for part in parts) or shown.holds(word)


def _among_nouns(text: str, starts: frozenset[int], shown: Shown) -> Iterator[Name]:
    """Where every noun has a capital: what stands behind a title, or beside another capital."""
    entry = shown.language
    before: re.Match[str] | None = None
    for match in WORD.finditer(text):
        word = match[0]
        if _is_capital(word) and not _is_first(text, match.start(), starts):
            beside = before is not None and _TOGETHER.fullmatch(text, before.end(), match.start())
            titled = beside and before is not None and _is_title(before[0], entry)
            if titled or (_is_odd(word, entry) and not _is_common(word, entry)):
                yield Name(*match.span(), _is_known(word, shown))
        before = match


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


def stranger(text: str, shown: Shown) -> tuple[int, int] | None:
    """The stretch of a text that is least like anything shown: a name, where there must be one."""
    entry = shown.language
    of_characters = entry.tokens == "character"
    stretches = (_strange_runs if of_characters else _strange_words)(text, shown)
    best = max(stretches, key=lambda row: row[2], default=None)
    return None if best is None else best[:2]


def _strange_words(text: str, shown: Shown) -> Iterator[tuple[int, int, float]]:
    first = last = 0
    score = 0.0
    for match in WORD.finditer(text):
        weight = _strangeness(match[0], shown)
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
            pair = run[i : i + 2].casefold()
            strange = len(pair) == 2 and pair not in shown.grams and pair not in common
            if strange and first is None:
                first = i
            elif not strange and first is not None:
                weight = sum(1 + 4 * (c in sounds or "ァ" <= c <= "ヺ") for c in run[first : i + 1])
                yield start + first, start + i + 1, weight
                first = None
