"""Detection of names in an answer, by the conventions of each script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.features._shown import TextIndex
from mirage.languages import LANGUAGES, Language
from mirage.text.lexicon import lexicon
from mirage.text.mentions import folded
from mirage.text.quantities import word_values
from mirage.text.words import WORD

LONGEST_ACRONYM = 6
"""Maximum number of letters in an acronym, a word in capitals made of the initials of others."""


class Name(NamedTuple):
    """The position of a name in an answer, and whether the evidence contains the name.

    Attributes:
        start: Index of its first character.
        end: Index after its last character.
        in_evidence: Whether the passages, the question or the right answers contain the name.
    """

    start: int
    end: int
    in_evidence: bool


_BEFORE_FIRST = re.compile(
    r"(?:\A|[.!?:;…•·\n—–|/]|(?:\A|\n)\s*(?:\d+[.)]|[-+*]))[\s*_\"'“”„«»‚‘’(\[]*\Z"
)
_TOGETHER = re.compile(r"[ \u00a0'’.·・‐-]{1,2}")
_KANA = re.compile("[ぁ-ゖァ-ヺ]")
_ROMAN = re.compile(r"[IVXLC]+(?:er|e|ème|th|st|nd|rd)?")
_NAME_IN_LATIN = r"[A-Z\u00c0-\u00de][A-Za-z\u00c0-\u024f\u1e00-\u1eff'’.-]+"
_LATIN = re.compile(f"{_NAME_IN_LATIN}(?: {_NAME_IN_LATIN})*")
_QUOTED = re.compile(r"《([^》\n]{2,30})》")
# The characters with which Chinese transcribes foreign names.
_SOUNDS = frozenset(
    "斯尔亚尼拉克特里德罗莱姆卡巴塞维马洛菲伊布格诺埃贝丹利达普鲁基比加萨托哈科弗阿瓦奥"
    "奇列内泽杰乌蒂迪恩兰伦曼夫雷纳娜莉莎娅蒙赫沃琼坦桑韦佩穆谢吉汉森顿茨胡肯查蓬戈"
    "哥根提丁堡威廉波亨翰墨俄乔珍苏逊朗温彼耶凯柯宾鲍彭摩澳敦瑟"
)
_SOUND_RUN = re.compile(f"[{''.join(sorted(_SOUNDS))}·]{{3,}}")


def names(text: str, sentence_starts: Sequence[int], index: TextIndex) -> Iterator[Name]:
    """Yield the names in an answer: words and phrases whose form shows that they are names.

    Adjacent names are merged into one if the evidence contains both of them or neither.

    Args:
        text: The answer.
        sentence_starts: Positions at which the sentences of the answer start; a capital letter
            there does not indicate a name.
        index: The index of the evidence: passages, question and right answers.
    """
    last: Name | None = None
    for name in _single_names(text, sentence_starts, index):
        if (
            last is not None
            and last.in_evidence == name.in_evidence
            and _TOGETHER.fullmatch(text, last.end, name.start)
        ):
            last = Name(last.start, name.end, name.in_evidence)
            continue
        if last is not None:
            yield last
        last = name
    if last is not None:
        yield last


def _single_names(text: str, sentence_starts: Sequence[int], index: TextIndex) -> Iterator[Name]:
    """Yield the names in an answer; unlike in :func:`names`, adjacent names are not merged."""
    entry = index.language
    if entry.capitals == "names":
        yield from _capitalised_names(text, frozenset(sentence_starts), index)
    elif entry.capitals == "nouns":
        yield from _names_among_nouns(text, frozenset(sentence_starts), index)
    else:
        for pattern in (_LATIN, _QUOTED, *_script_patterns(entry)):
            for match in pattern.finditer(text):
                # A bracket after a name often repeats the name in Latin letters.
                glossed = pattern is _LATIN and text[: match.start()].endswith(("(", "（"))
                yield Name(*match.span(), glossed or index.holds(match[0]))


def _script_patterns(entry: Language) -> tuple[re.Pattern[str], ...]:
    if entry.script == "Japanese":
        return (_katakana_names(entry),)
    return (_SOUND_RUN,) if entry.script == "Han" else ()


@lru_cache(maxsize=4)
def _katakana_names(entry: Language) -> re.Pattern[str]:
    """Return a regular expression for names in katakana, the Japanese script for foreign words.

    A name has several parts that are joined by signs such as ``・``, or it is a word before a title
    such as Mr. Any other single word in katakana is usually a loan word.
    """
    titles = sorted(lexicon(entry.code).titles, key=len, reverse=True)
    title = "|".join(re.escape(title) for title in titles if not _KANA.match(title))
    return re.compile(rf"[ァ-ヺー]{{2,}}(?:(?:[・＝=][ァ-ヺー]{{2,}})+|(?={title}))")


def _capitalised_names(text: str, starts: frozenset[int], index: TextIndex) -> Iterator[Name]:
    """Yield the names in an answer in a language that capitalises only names.

    These are the capitalised words that do not begin a sentence.
    """
    for match in WORD.finditer(text):
        if (
            _is_capital(match[0])
            and not _is_first(text, match.start(), starts)
            and not _is_common(match[0], index.language)
        ):
            yield Name(*match.span(), _is_in_evidence(match[0], index))


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
    # These words may be capitalised without being names, as in titles and headings.
    lists = (words.function_words, words.months, words.titles, words.yes, words.no)
    return any(lower in listed for listed in lists) or bool(word_values(lower, entry))


@lru_cache(maxsize=64)
def _passage_words(entry: Language) -> frozenset[str]:
    return frozenset(map(str.casefold, LANGUAGES["en"].passage_words + entry.passage_words))


def _is_in_evidence(word: str, index: TextIndex) -> bool:
    parts = folded(word, index.language).split()
    # "WHO" is supported by "World Health Organization".
    if word.isupper() and len(word) <= LONGEST_ACRONYM and index.initials(word.casefold()):
        return True
    return all(len(part) < 3 or index.word(part) for part in parts) or index.holds(word)


def _names_among_nouns(text: str, starts: frozenset[int], index: TextIndex) -> Iterator[Name]:
    """Yield the names in an answer in a language that capitalises all nouns.

    A capitalised word is a name if it follows a title, is next to another capitalised word, or has
    letters that are unusual in the language.
    """
    entry = index.language
    words = list(WORD.finditer(text))
    capital = [
        _is_capital(word[0])
        and not _is_common(word[0], entry)
        and not _is_first(text, word.start(), starts)
        for word in words
    ]
    in_evidence = [
        not large or _is_in_evidence(word[0], index)
        for word, large in zip(words, capital, strict=True)
    ]
    for position, word in enumerate(words):
        if not capital[position]:
            continue
        near = [
            neighbour
            for neighbour in (position - 1, position + 1)
            if 0 <= neighbour < len(words)
            and _are_together(text, words[min(position, neighbour) :][:2])
        ]
        titled = position - 1 in near and _is_title(words[position - 1][0], entry)
        # If the evidence has only one of two adjacent nouns, it usually measures or describes the
        # other, as in "zwei Liter Milch". Such a pair is not a name.
        beside = any(
            capital[neighbour] and in_evidence[neighbour] == in_evidence[position]
            for neighbour in near
        )
        if titled or beside or _is_odd(word[0], entry):
            yield Name(*word.span(), in_evidence[position])


def _are_together(text: str, pair: Sequence[re.Match[str]]) -> bool:
    return bool(_TOGETHER.fullmatch(text, pair[0].end(), pair[1].start()))


def _is_title(word: str, entry: Language) -> bool:
    return word.casefold() in lexicon(entry.code).titles


def _is_odd(word: str, entry: Language) -> bool:
    """Return whether a word has letters that occur in no function word of the language."""
    return not _usual_letters(entry).issuperset(word.casefold())


@lru_cache(maxsize=4)
def _usual_letters(entry: Language) -> frozenset[str]:
    return frozenset("".join(lexicon(entry.code).function_words)) | frozenset(
        "abcdefghijklmnopqrstuvwxyz-"
    )


UNFAMILIAR_SHARE = 0.6
"""Minimum share of an unfamiliar word's n-grams that do not occur in the evidence."""


def unfamiliar_stretch(
    text: str, sentence_starts: Sequence[int], index: TextIndex
) -> tuple[int, int] | None:
    """Return the start and end of the part of a text that is least similar to the evidence.

    If an answer is wrong but no rule found the wrong part, this part is reported. The result is
    ``None`` if every word is familiar from the evidence.

    Args:
        text: The answer.
        sentence_starts: Positions at which the sentences of the answer start.
        index: The index of the evidence: passages, question and right answers.
    """
    entry = index.language
    is_unspaced = entry.tokens == "character"
    starts = frozenset(sentence_starts)
    stretches = (
        _unfamiliar_runs(text, index) if is_unspaced else _unfamiliar_words(text, starts, index)
    )
    best = max(stretches, key=lambda row: row[2], default=None)
    return None if best is None else best[:2]


def _unfamiliar_words(
    text: str, starts: frozenset[int], index: TextIndex
) -> Iterator[tuple[int, int, float]]:
    """Yield the start, end and score of each sequence of adjacent unfamiliar words.

    The score is the sum of :func:`_unfamiliarity` over the words.
    """
    first = last = 0
    score = 0.0
    for match in WORD.finditer(text):
        weight = 0.0 if match.start() in starts else _unfamiliarity(match[0], index)
        if score and not (weight and _TOGETHER.fullmatch(text, last, match.start())):
            yield first, last, score
            score = 0.0
        if weight:
            first, last = (first if score else match.start()), match.end()
            score += weight
    if score:
        yield first, last, score


def _unfamiliarity(word: str, index: TextIndex) -> float:
    """Return how unfamiliar a word is: 0 if the indexed texts contain it, otherwise above 0.

    A long word, a capitalised word, and a word with many n-grams that do not occur in these texts
    get a higher value.
    """
    entry = index.language
    pattern = folded(word, entry)
    capital = entry.capitals != "none" and word[0].isupper()
    if len(word) < 3 or _is_common(word, entry) or (entry.capitals != "none" and not capital):
        return 0.0
    missing_share = index.missing_share(pattern)
    return (
        0.0
        if missing_share < UNFAMILIAR_SHARE or index.word(pattern.strip())
        else len(pattern) * missing_share * (1 + capital)
    )


def _unfamiliar_runs(text: str, index: TextIndex) -> Iterator[tuple[int, int, float]]:
    """Yield runs of characters of which no two adjacent ones occur together in the indexed texts.

    Each result is the start, the end and the score of a run. Longer runs have higher scores.
    """
    entry = index.language
    sounds = _SOUNDS if entry.script == "Han" else frozenset()
    common = lexicon(entry.code).function_words
    for match in WORD.finditer(text):
        run, start = match[0], match.start()
        first = None
        for i in range(len(run) + 1):
            pair = run[i : i + 2]  # one letter such as "ẖ" may become two when folded
            low = pair.casefold()
            strange = len(pair) == 2 and low not in index.grams and low not in common
            if strange and first is None:
                first = i
            elif not strange and first is not None:
                weight = sum(1 + 4 * (c in sounds or "ァ" <= c <= "ヺ") for c in run[first : i + 1])
                yield start + first, start + i + 1, weight
                first = None
