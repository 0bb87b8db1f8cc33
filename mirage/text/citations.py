"""Citations: brackets that name passages."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text._unicode import BREAK, BREAKS, SPACE, any_of, nfc
from mirage.text.tokens import tokenize

__all__ = ["cite_by_id"]


def cite_by_id(text: str, language: str | Language, shown: Sequence[str]) -> tuple[str, bool]:
    """A response with each citation as ``[id]``; and whether every citation names a shown passage.

    Citations are those of :func:`parse`. One that names no shown passage is left out.

    Raises:
        UnknownNameError: no such language.
    """
    text = nfc(text)
    pieces: list[str] = []
    cursor, all_known = 0, True
    for start, end, ids in citations(text, Language.of(language), Passages.of(shown)):
        all_known &= bool(ids)
        pieces += (text[cursor:start], *(f"[{id_}]" for id_ in ids))
        cursor = end
    return "".join([*pieces, text[cursor:]]), all_known


def unique(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


class Citation(NamedTuple):
    start: int
    end: int
    ids: tuple[str, ...]  # empty where it is made like a citation but names no shown passage


class Passages(NamedTuple):
    """The shown passages by position, and by id, both as it stands and folded by :func:`_key`."""

    ids: Sequence[str]
    by_id: Mapping[str, str]
    numbers: Sequence[int]  # that name a passage, as a position or an id, from the lowest on
    memory: dict[str, tuple[str, ...] | None]  # what the brackets met so far cite

    @classmethod
    def of(cls, shown: Sequence[str]) -> Passages:
        folded = {_key(passage): passage for passage in reversed(shown)}
        by_id = folded | {passage: passage for passage in shown}
        named = {int(id_) for id_ in by_id if _NUMBER.fullmatch(id_) and str(int(id_)) == id_}
        numbers = sorted(named.union(range(1, len(shown) + 1)))
        return cls(shown, by_id, numbers, {})

    def numbered(self, number: int) -> list[str]:
        """The passage that a number names, an id before a position; or none."""
        if str(number) in self.by_id:
            return [self.by_id[str(number)]]
        return [self.ids[number - 1]] if 1 <= number <= len(self.ids) else []


class _Forms(NamedTuple):
    """How a language writes citations."""

    bracket: re.Pattern[str]
    word: re.Pattern[str]  # what may stand before an id or number: passage, context
    conjunctions: frozenset[str]
    glued: re.Pattern[str]  # a conjunction right between two digits, as in 1和3


_DIGIT = re.compile(r"[^\D0-9]")  # any script's but ASCII's
_SEPARATOR = re.compile(r"[,;،؛、]")
_DASH = re.compile(r"(?<=\d)\s*[-‐–—−~〜]\s*(?=\d)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_UNKNOWN_ID = re.compile(r"[\w.-]+#\d+")
_AROUND_ID = "\"'`*_^()\\“”‘’:#"


def _key(text: str) -> str:
    """Fold what may differ between an id and its citation: digits, width, case, spaces."""
    text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=64)
def _forms(entry: Language) -> _Forms:
    english = LANGUAGES["en"]
    pairs = english.brackets + entry.brackets
    opening = "".join(re.escape(pair[0]) for pair in pairs)
    closing = "".join(re.escape(pair[1]) for pair in pairs)
    bracket = rf"\\?[{opening}]([^{opening}{closing}{BREAKS}]*)[{closing}]"
    link = rf"(?:\((?:https?:|www\.|\#)[^\s(){opening}{closing}]*\))?"
    conjunctions = frozenset(map(_key, english.conjunctions + entry.conjunctions))
    # Latin ones are written with spaces; without, they may be part of an id such as 1e3f.
    glued, never = (word for word in conjunctions if not word.isascii()), "(?!)"
    return _Forms(
        bracket=re.compile(rf"(?:\\?[{opening}]{bracket}\\?[{closing}]|{bracket}){link}"),
        word=re.compile(
            rf"(?:{any_of(map(_key, english.passage_words + entry.passage_words))})[.:#_-]*"
        ),
        conjunctions=conjunctions,
        glued=re.compile(rf"(?<=\d)\s*(?:{any_of(glued) or never})\s*(?=\d)"),
    )


def citations(text: str, entry: Language, passages: Passages) -> Iterator[Citation]:
    """Every bracket that is made like a citation, in order."""
    forms = _forms(entry)
    for match in forms.bracket.finditer(text):
        content = match[1] or match[2] or ""
        if content not in passages.memory:
            passages.memory[content] = _ids_in(content, forms, passages)
        ids = passages.memory[content]
        if ids is not None:
            yield Citation(match.start(), match.end(), ids)


def _ids_in(content: str, forms: _Forms, passages: Passages) -> tuple[str, ...] | None:
    """The passages named between two brackets; ``None`` where that is not made like a citation."""
    if content.strip() in passages.by_id:
        return (passages.by_id[content.strip()],)
    ids: list[str] = []
    items = 0
    numbers = list(passages.numbers)  # those that no range has named yet: a second one adds nothing
    for token in _tokens(_key(content), forms, passages):
        if token not in passages.by_id:
            token = token.strip(_AROUND_ID)
        if token not in passages.by_id and (word := forms.word.match(token)):
            token = token[word.end() :]
        if token in forms.conjunctions or not token:
            continue
        passage_ids = _ids_of(token, passages, numbers)
        if passage_ids is None:
            return None
        items += 1
        ids += passage_ids
    return unique(ids) if items else None


def _tokens(key: str, forms: _Forms, passages: Passages) -> Iterator[str]:
    """A bracket's content in its parts; an id with commas or spaces in it stays whole."""
    parts = [key] if key in passages.by_id else _SEPARATOR.split(forms.glued.sub(",", key))
    for part in map(str.strip, parts):
        if part in passages.by_id:
            yield part
        else:
            yield from _DASH.sub("-", part).split()


def _ids_of(token: str, passages: Passages, numbers: list[int]) -> list[str] | None:
    """The passages of one id, number or range; ``None`` where it is none of these.

    A range takes its own out of ``numbers``.
    """
    if token in passages.by_id:
        return [passages.by_id[token]]
    match = _NUMBERS.fullmatch(token)
    if match is None:
        return [] if _UNKNOWN_ID.fullmatch(token) else None
    ends = [number for number in match.groups() if number]
    if any(len(number) > 3 and int(number) > len(passages.ids) for number in ends):
        return None  # rather a year
    first, last = int(ends[0]), int(ends[-1])
    if len(ends) == 1:
        return passages.numbered(first)
    span = slice(bisect_left(numbers, first), bisect_right(numbers, last))
    cited = [passage for number in numbers[span] for passage in passages.numbered(number)]
    del numbers[span]
    return cited


_CONNECTED = re.compile(rf"[{SPACE},;،؛、，；]*")
_SPACES = re.compile(rf"[{SPACE}]*")
_OPENED = ("(", "（")
_CLOSED = (")", "）")
_CLOSING = frozenset(".,;:!?…。．！？،؛؟۔।॥、，；：)]}）］】〕」』”’»")


def without_citations(
    text: str, entry: Language, passages: Passages
) -> tuple[str, list[tuple[int, tuple[str, ...]]]]:
    """The text without its citations, tidied where they stood; and offsets with the ids cited."""
    pieces: list[str] = []
    marks: list[tuple[int, tuple[str, ...]]] = []
    length = cursor = 0
    before = ""
    for start, end, ids in _groups(text, entry, passages):
        behind = _spaces_end(text, end)
        piece = text[cursor:start].rstrip(" \t\xa0\u3000")
        before = piece[-1:] or before
        spaced = behind > end or len(piece) < start - cursor
        joint = " " if _parted(before, text[behind : behind + 1], spaced, entry) else ""
        pieces += (piece, joint)
        marks.append((length + len(piece), ids))
        length += len(piece) + len(joint)
        cursor = behind
    whole = "".join([*pieces, text[cursor:]])
    lead = len(whole) - len(whole.lstrip())
    tidy = whole.strip()
    return tidy, [(min(max(at - lead, 0), len(tidy)), ids) for at, ids in marks]


def _groups(text: str, entry: Language, passages: Passages) -> list[Citation]:
    """The citations, adjoining ones as one, with the parentheses around them."""
    groups: list[tuple[int, int, list[str]]] = []
    for start, end, ids in citations(text, entry, passages):
        if groups and _CONNECTED.fullmatch(text, groups[-1][1], start):
            first, _, together = groups.pop()
            together += ids
            groups.append((first, end, together))
        else:
            groups.append((start, end, list(ids)))
    return [_with_parentheses(text, *group) for group in groups]


def _with_parentheses(text: str, start: int, end: int, ids: Iterable[str]) -> Citation:
    behind = _spaces_end(text, end)
    if text.startswith(_OPENED, max(start - 1, 0), start) and text.startswith(_CLOSED, behind):
        start, end = start - 1, behind + 1
    return Citation(start, end, unique(ids))


def _spaces_end(text: str, start: int) -> int:
    match = _SPACES.match(text, start)
    return match.end() if match else start


def _parted(before: str, after: str, spaced: bool, entry: Language) -> bool:
    """Whether a space has to part what stood on both sides of a citation."""
    if not before or not after or before.isspace() or after in _CLOSING or BREAK.match(after):
        return False
    if spaced or not after.isalnum():
        return spaced
    if entry.tokens == "word":
        return before.isalnum() or before in entry.terminators
    return before.isalnum() and len(tokenize(before + after, entry)) == 1  # digits, Latin letters
