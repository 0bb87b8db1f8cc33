"""From a model's raw text to its sections, citations, sentences and tokens.

A response should read ``##Reason: ... ##Answer: ...`` and cite passages in brackets. Models keep
to that only roughly, so everything here gives a defined result for every string, in time linear
in its length, and the same result every time.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.languages import language as _language

__all__ = ["ParsedResponse", "Sentence", "parse", "split_sentences", "tokenize"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of an answer, without its citations, and the ids of the passages it cites."""

    text: str
    citations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """What :func:`parse` finds in one response.

    Attributes:
        reason: the reason section as written, stripped; empty where there is none.
        answer: the answer section as written, stripped; empty where there is none.
        answer_text: the answer without its citations, also without those that name no passage.
        citations: the passage ids that the whole response cites, in order of first occurrence.
        sentences: the answer's sentences; a piece without any letter or digit is none.
        well_formed: there is one reason heading, then one answer heading, and an answer.
    """

    reason: str
    answer: str
    answer_text: str
    citations: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    well_formed: bool


def parse(text: str, language: str | Language, shown: Sequence[str]) -> ParsedResponse:
    """Parse one response to a prompt that showed the passages ``shown``, in this order.

    Sections: a heading is ``Reason`` or ``Answer``, in English or in ``language``, in any case,
    with or without ``#`` and bold marks. Without ``#`` it has to open a line; without a colon it
    has to end the line and to carry marks. Where a section has a heading with ``#``, those of
    that section without ``#`` are prose. Sections of one kind are joined, in the order of the
    text. What stands before the first heading is the reason, unless a reason heading follows.
    Without any heading all of it is the answer.

    Citations: brackets with passage ids, positions in ``shown`` (from 1, in any script's digits)
    or ranges of positions, or several of these, each with or without a word such as ``Passage``
    before it. What equals a shown id is that id, even where it could be a position. A bracket
    that names no shown passage is no citation; it still leaves ``answer_text`` if it is made like
    one, of numbers of up to three digits and of ids with a ``#``: ``[17]`` and ``[123#4]`` go,
    ``[1969]`` and ``[sic]`` stay.

    Sentences: a citation belongs to the sentence it stands in or behind, or, where it opens a
    line, to the sentence that follows on that line.

    Texts come out in Unicode's NFC form.

    Raises:
        UnknownNameError: no such language.
    """
    entry = _language(language)
    passages = _Passages.of(shown)
    kinds, bodies = _sections(_nfc(text), entry)
    cited = (
        passage
        for _, body in bodies
        for citation in _citations(body, entry, passages)
        for passage in citation.ids
    )
    answer = _section(bodies, "answer")
    answer_text, marks = _without_citations(answer, entry, passages)
    return ParsedResponse(
        reason=_section(bodies, "reason"),
        answer=answer,
        answer_text=answer_text,
        citations=tuple(dict.fromkeys(cited)),
        sentences=_cited_sentences(answer_text, marks, entry),
        well_formed=kinds == ("reason", "answer") and bool(answer),
    )


def split_sentences(text: str, language: str | Language) -> list[str]:
    """Split a text into its sentences, stripped; a line break always ends a sentence.

    sentencex finds the sentences. Where a language has no splitter (Thai, which writes no full
    stop), a space ends a sentence if it stands between two letters of the language's own script
    with at least 20 characters on both sides, for spaces part clauses, names and numbers as well.
    A number such as ``1.`` belongs to what it numbers. A piece without any letter or digit is no
    sentence.

    Raises:
        UnknownNameError: no such language.
    """
    text = _nfc(text)
    return [text[start:end] for start, end in _sentence_spans(text, _language(language))]


def tokenize(text: str, language: str | Language) -> list[str]:
    """The tokens that overlap measures count: words, or characters where a script has no spaces.

    Combining marks stay with their letter. In a language of characters, a run of Latin letters
    and digits is one token. Case is folded, every script's digits are ASCII digits, full-width
    letters are plain ones, and punctuation, symbols and characters without a width are left out.

    Raises:
        UnknownNameError: no such language.
    """
    characters = _language(language).tokens == "character"
    folded = _nfc(_nfc(text).translate(_FOLD).casefold())
    folded = _LOOSE_MARKS.sub("", folded)
    return _CHARACTERS.findall(folded) if characters else folded.split()


# Unicode ------------------------------------------------------------------------------------------

_MARK_RUN = re.compile(r"([^\w\s\x00-\x7f]{30})")


def _nfc(text: str) -> str:
    """NFC, without lone surrogates, which no library in C or Rust takes."""
    if text.isascii():
        return text
    if any("\ud800" <= c <= "\udfff" for c in text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # Normalising n combining marks in a row takes time n * n, so longer runs are cut, as in
    # Unicode's Stream-Safe Text Format (UAX 15, section 13). No script writes 30 in a row.
    return "".join(unicodedata.normalize("NFC", part) for part in _MARK_RUN.split(text))


class _Fold(dict[int, str]):
    """What a character becomes in a token, found out once for each character that occurs."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if 0xFF00 <= code <= 0xFFEF:  # full-width and half-width forms
            char = unicodedata.normalize("NFKC", char)
        category = unicodedata.category(char[0])
        if category == "Nd":
            char = str(unicodedata.decimal(char))
        elif category == "Cf" and char != _ZERO_WIDTH_SPACE or char in _INVISIBLE:
            char = ""
        elif category[0] not in "LMN":
            char = " "
        self[code] = char
        return char


_ZERO_WIDTH_SPACE = "\u200b"  # parts words in Thai
_INVISIBLE = "\u0640\u20e3\ufe0e\ufe0f"  # Arabic tatweel, keycap, emoji and text presentation
_FOLD = _Fold()
_LOOSE_MARKS = re.compile(r"(?<!\S)[^\w\s]+")
_CHARACTERS = re.compile(r"(?:[0-9a-z\u00df-\u024f\u1e00-\u1eff][^\w\s]*)+|\w[^\w\s]*")


# Sections -----------------------------------------------------------------------------------------

_BREAKS = r"\n\r\v\f\x85\u2028\u2029"
_LINE_BREAK = re.compile(f"[{_BREAKS}]+")
# Spaces and marks without a width: writing direction and byte order.
_SPACE = r"[ \t\xa0\u3000\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]"


@lru_cache(maxsize=64)
def _heading_pattern(entry: Language) -> re.Pattern[str]:
    english = LANGUAGES["en"]

    def any_of(words: Iterable[str]) -> str:
        longest_first = sorted(map(_nfc, words), key=len, reverse=True)
        return "|".join(re.escape(word).replace(r"\ ", _SPACE + "+") for word in longest_first)

    return re.compile(
        rf"""
        (?P<marks>
          (?<![^{_BREAKS}]) (?:{_SPACE[:-1]}>*_\#]|(?:[-+•]|\d{{1,2}}[.)]){_SPACE})*+  # opens a line
          | (?<!\#)\#{{1,6}} {_SPACE}{{0,8}} [*_]{{0,3}} {_SPACE}{{0,8}}
        )
        (?: (?P<reason>{any_of(english.reason_headings + entry.reason_headings)})
          | (?P<answer>{any_of(english.answer_headings + entry.answer_headings)}) )
        {_SPACE}{{0,8}} (?P<close>[*_]{{0,3}}) {_SPACE}{{0,8}}
        (?: (?P<colon>[:：]) (?P<late>[*_]{{0,3}}) | (?=[{_BREAKS}]|\Z) )
        """,
        re.VERBOSE | re.IGNORECASE,
    )


class _Heading(NamedTuple):
    kind: str
    start: int
    end: int
    hashed: bool


def _headings(text: str, entry: Language) -> list[_Heading]:
    found = []
    for match in _heading_pattern(entry).finditer(text):
        hashed = 1 <= match["marks"].count("#") <= 6
        bold = "*" in match["marks"] or "_" in match["marks"]
        if not (match["colon"] or hashed or bold):
            continue
        # In `**Answer:** Nile` the marks behind the colon close the heading; in `Answer:*Nile*`
        # they belong to the answer.
        late = bool(match["late"]) and not (bold and not match["close"])
        kind = "reason" if match["reason"] else "answer"
        end = match.start("late") if late else match.end()
        found.append(_Heading(kind, match.start(), end, hashed))
    hashed_kinds = {heading.kind for heading in found if heading.hashed}
    return [heading for heading in found if heading.hashed or heading.kind not in hashed_kinds]


def _sections(text: str, entry: Language) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """The kinds of the headings, and every stretch of the text with its kind, in order."""
    headings = _headings(text, entry)
    kinds = tuple(heading.kind for heading in headings)
    if not kinds:
        return kinds, [("answer", text)]
    before = "preamble" if "reason" in kinds else "reason"
    ends = [heading.start for heading in headings[1:]] + [len(text)]
    bodies = [(before, text[: headings[0].start])]
    bodies += [(h.kind, text[h.end : end]) for h, end in zip(headings, ends, strict=True)]
    return kinds, bodies


def _section(bodies: Iterable[tuple[str, str]], kind: str) -> str:
    parts = (body.strip() for of_kind, body in bodies if of_kind == kind)
    return "\n".join(part for part in parts if part)


# Citations ----------------------------------------------------------------------------------------


class _Citation(NamedTuple):
    start: int
    end: int
    ids: tuple[str, ...]  # empty where it is made like a citation but names no shown passage


class _Passages(NamedTuple):
    """The shown passages by position, and by id, both as it stands and folded by :func:`_key`."""

    ids: Sequence[str]
    by_id: Mapping[str, str]

    @classmethod
    def of(cls, shown: Sequence[str]) -> _Passages:
        folded: dict[str, str] = {}
        for passage in shown:
            folded.setdefault(_key(passage), passage)
        return cls(shown, folded | {passage: passage for passage in shown})

    def numbered(self, first: int, last: int) -> list[str]:
        """The passages that these numbers name: by id where there is such an id, or position."""
        numbers = range(max(first, 0), min(last, len(self.ids)) + 1) if first != last else [first]
        named = (
            self.by_id.get(str(n)) or (self.ids[n - 1] if 1 <= n <= len(self.ids) else None)
            for n in numbers
        )
        return [passage for passage in named if passage is not None]


class _Forms(NamedTuple):
    """How a language writes citations."""

    bracket: re.Pattern[str]
    word: re.Pattern[str]  # what may stand before an id or number: passage, context
    conjunctions: frozenset[str]
    glued: re.Pattern[str]  # a conjunction right between two digits, as in 1和3


_DIGIT = re.compile(r"[^\D0-9]")  # any script's but ASCII's
_SEPARATOR = re.compile(r"[,;،؛、]")
_DASH = re.compile(r"(?<=\d)\s*[-‐–—−~〜]\s*(?=\d)")
_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_UNKNOWN_ID = re.compile(r"[\w.-]+#\d+")
_TRIMMED = "\"'`*_^<>()\\“”‘’.:#"


def _key(text: str) -> str:
    """Fold what may differ between an id and its citation: digits, width, case, spaces."""
    text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=64)
def _forms(entry: Language) -> _Forms:
    pairs = LANGUAGES["en"].brackets + entry.brackets
    opening = "".join(re.escape(pair[0]) for pair in pairs)
    closing = "".join(re.escape(pair[1]) for pair in pairs)
    one = rf"\\?[{opening}]([^{opening}{closing}{_BREAKS}]*)[{closing}]"
    link = rf"(?:\((?:https?:|www\.|\#)[^\s(){opening}{closing}]*\))?"
    words = map(_key, LANGUAGES["en"].passage_words + entry.passage_words)
    conjunctions = frozenset(map(_key, LANGUAGES["en"].conjunctions + entry.conjunctions))
    return _Forms(
        bracket=re.compile(rf"(?:\\?[{opening}]{one}\\?[{closing}]|{one}){link}"),
        word=re.compile(rf"(?:{_any_of(words)})[.:#_-]*"),
        conjunctions=conjunctions,
        glued=re.compile(rf"(?<=\d)\s*(?:{_any_of(conjunctions)})\s*(?=\d)"),
    )


def _any_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _citations(text: str, entry: Language, passages: _Passages) -> Iterator[_Citation]:
    """Every bracket that is made like a citation, in order."""
    for match in _forms(entry).bracket.finditer(text):
        ids = _cited(match[1] or match[2] or "", _forms(entry), passages)
        if ids is not None:
            yield _Citation(match.start(), match.end(), ids)


def _cited(content: str, forms: _Forms, passages: _Passages) -> tuple[str, ...] | None:
    """The passages named between two brackets; ``None`` where that is not made like a citation."""
    key = _key(content)
    exact = passages.by_id.get(content.strip()) or passages.by_id.get(key)
    if exact is not None:
        return (exact,)
    ids: list[str] = []
    items = 0
    worded = False
    for token in _tokens_of(key, forms, passages):
        if token in forms.conjunctions:
            continue
        bare = token if token in passages.by_id else token.strip(_TRIMMED)
        word = None if bare in passages.by_id else forms.word.match(bare)
        if word is not None:
            worded, bare = True, bare[word.end() :]
            if not bare:
                continue
        named = _named(bare, passages, worded)
        if named is None:
            return None
        items += 1
        ids += named
    return tuple(dict.fromkeys(ids)) if items else None


def _tokens_of(key: str, forms: _Forms, passages: _Passages) -> Iterator[str]:
    """A bracket's content in its parts; an id with spaces in it stays whole."""
    for part in map(str.strip, _SEPARATOR.split(forms.glued.sub(",", key))):
        if part in passages.by_id:
            yield part
        else:
            yield from _DASH.sub("-", part).split()


def _named(token: str, passages: _Passages, worded: bool) -> list[str] | None:
    """The passages of one id, number or range; ``None`` where it is none of these."""
    if token in passages.by_id:
        return [passages.by_id[token]]
    numbers = _NUMBERS.fullmatch(token)
    if numbers is None:
        return [] if _UNKNOWN_ID.fullmatch(token) else None
    first, last = numbers[1], numbers[2] or numbers[1]
    if not worded and any(len(n) > 3 and int(n) > len(passages.ids) for n in (first, last)):
        return None  # rather a year
    return passages.numbered(int(first), int(last))


def _without_citations(
    text: str, entry: Language, passages: _Passages
) -> tuple[str, dict[int, list[str]]]:
    """The text without its citations, and the ids cited at each of its offsets."""
    kept = _Kept(entry)
    marks: dict[int, list[str]] = {}
    done = 0
    for start, end, ids in _citations(text, entry, passages):
        kept.add(text[done:start], after_citation=done > 0)
        kept.cut(text, end)
        marks.setdefault(kept.length, []).extend(ids)
        done = end
    kept.add(text[done:], after_citation=done > 0)
    return kept.text(), marks
