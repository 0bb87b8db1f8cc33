"""From a model's raw text to its sections, citations, sentences and tokens.

A response should read ``##Reason: ... ##Answer: ...`` and cite passages in brackets. Models keep
to that only roughly, so everything here gives a defined result for every string, in time linear
in its length, and the same result every time. Texts come out in Unicode's NFC form.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from sentencex import segment

from mirage.languages import LANGUAGES, Language

__all__ = ["ParsedResponse", "Sentence", "cite_by_id", "parse", "split_sentences", "tokenize"]


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
        sentences: the answer's sentences, as :func:`split_sentences` finds them.
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
    with or without one to six ``#`` and marks (bold, ``【】``). Without ``#`` it has to open a
    line; without a colon it has to end the line and to carry ``#`` or marks. Where a section has
    a heading with ``#``, words that could head it without ``#`` are prose. Sections of one kind
    are joined, in the order of the text. What stands before the first heading is the answer where
    no answer heading follows: so is a text without any heading.

    Citations: brackets with passage ids, positions in ``shown`` (from 1, in any script's digits)
    or ranges of positions, or several of these, each with or without a word such as ``Passage``
    before it. What equals a shown id is that id, even where it could be a position. A bracket
    that names no shown passage is no citation; it still leaves ``answer_text`` if it is made like
    one, of numbers of up to three digits and of ids with a ``#``: ``[17]`` and ``[123#4]`` go,
    ``[1969]`` and ``[sic]`` stay.

    Sentences: a citation belongs to the sentence it stands in or behind, or, where it opens a
    line, to the sentence that follows on that line. In a language that writes no full stop a
    citation ends a sentence.

    Raises:
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    passages = _Passages.of(shown)
    kinds, bodies = _sections(_nfc(text), entry)
    found = (citation for _, body in bodies for citation in _citations(body, entry, passages))
    answer = _section(bodies, "answer")
    answer_text, marks = _without_citations(answer, entry, passages)
    return ParsedResponse(
        reason=_section(bodies, "reason"),
        answer=answer,
        answer_text=answer_text,
        citations=_unique(passage for citation in found for passage in citation.ids),
        sentences=_cited_sentences(answer_text, marks, entry),
        well_formed=kinds == ["reason", "answer"] and bool(answer),
    )


def cite_by_id(text: str, language: str | Language, shown: Sequence[str]) -> tuple[str, bool]:
    """A response with each citation as ``[id]``; and whether every citation names a shown passage.

    Citations are those of :func:`parse`. One that names no shown passage is left out.

    Raises:
        UnknownNameError: no such language.
    """
    text = _nfc(text)
    pieces: list[str] = []
    done, all_known = 0, True
    for start, end, ids in _citations(text, Language.of(language), _Passages.of(shown)):
        all_known &= bool(ids)
        pieces += (text[done:start], *(f"[{id_}]" for id_ in ids))
        done = end
    return "".join([*pieces, text[done:]]), all_known


def split_sentences(text: str, language: str | Language) -> list[str]:
    """Split a text into its sentences, stripped; a line break always ends a sentence.

    sentencex finds the sentences. Where it has no rules for a language (Thai, which writes no
    full stop), a space ends a sentence if it stands between two letters of a script without case
    and has 20 characters or more on both sides, for spaces part clauses, names and numbers too.
    A number such as ``1.`` belongs to what it numbers. A piece without any letter or digit is
    left out.

    Raises:
        UnknownNameError: no such language.
    """
    text = _nfc(text)
    return [text[start:end] for start, end in _spans(text, Language.of(language))]


def tokenize(text: str, language: str | Language) -> list[str]:
    """The tokens that overlap measures count: words, or characters where a script has no spaces.

    Combining marks stay with their letter. In a language of characters, a run of Latin letters
    and digits is one token. Case is folded, every script's digits are ASCII digits, full-width
    letters are plain ones, and punctuation, symbols and characters without a width are left out.

    Raises:
        UnknownNameError: no such language.
    """
    characters = Language.of(language).tokens == "character"
    folded = _LOOSE_MARKS.sub("", _nfc(_nfc(text).translate(_FOLD).casefold()))
    return _CHARACTERS.findall(folded) if characters else folded.split()


# --- Unicode

_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK_RUN = re.compile(r"([^\w\s\x00-\x7f]{30})")


def _nfc(text: str) -> str:
    """NFC, without lone surrogates, which no library in C or Rust takes."""
    if text.isascii():
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # Normalising n combining marks in a row takes time n * n, so longer runs are cut, as in
    # Unicode's Stream-Safe Text Format (UAX 15, section 13). No script writes 30 in a row.
    return "".join(unicodedata.normalize("NFC", part) for part in _MARK_RUN.split(text))


class _Fold(dict[int, str]):
    """What each character becomes in a token, for :meth:`str.translate`; found when first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if 0xFF00 <= code <= 0xFFEF:  # full-width and half-width forms
            char = unicodedata.normalize("NFKC", char)
        category = unicodedata.category(char[0])
        if category == "Nd":
            char = str(unicodedata.decimal(char))
        elif char in _INVISIBLE or (category == "Cf" and char != _ZERO_WIDTH_SPACE):
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


def _any_of(words: Iterable[str]) -> str:
    """A pattern for any of these words, the longer ones first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _unique(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


# --- Sections

_BREAKS = r"\n\r\v\f\x85\u2028\u2029"
_BREAK = re.compile(f"[{_BREAKS}]")
# With the marks of no width that models write: direction of writing, byte order.
_SPACE = r" \t\xa0\u3000\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff"


class _Heading(NamedTuple):
    kind: str
    start: int
    end: int
    hashed: bool


@lru_cache(maxsize=64)
def _heading(entry: Language) -> re.Pattern[str]:
    english = LANGUAGES["en"]
    reason = _any_of(map(_nfc, english.reason_headings + entry.reason_headings))
    answer = _any_of(map(_nfc, english.answer_headings + entry.answer_headings))
    line_start = rf"(?<![^{_BREAKS}]) (?: [{_SPACE}>*_【\#] | (?:[-+•]|\d{{1,2}}[.)])[{_SPACE}] )*+"
    anywhere = rf"(?<!\#) \#{{1,6}} [{_SPACE}*_]{{0,8}}"
    return re.compile(
        rf"(?P<marks> {line_start} | {anywhere} ) (?: (?P<reason>{reason}) | (?:{answer}) )"
        rf"[{_SPACE}]{{0,8}} (?P<close>[*_】]{{0,3}}) [{_SPACE}]{{0,8}}"
        rf"(?: (?P<colon>[:：]) (?P<late>[*_]{{0,3}}) | (?=[{_BREAKS}]|\Z) )",
        re.VERBOSE | re.IGNORECASE,
    )


def _headings(text: str, entry: Language) -> list[_Heading]:
    found = []
    for match in _heading(entry).finditer(text):
        hashes = match["marks"].count("#")
        bold = not {"*", "_", "【"}.isdisjoint(match["marks"])
        if hashes > 6 or not (match["colon"] or hashes or bold):
            continue
        # In `**Answer:** Nile` the marks behind the colon close the heading; in `Answer:*Nile*`
        # they belong to the answer.
        still_open = bold and not match["close"]
        end = match.end() if still_open or not match["colon"] else match.start("late")
        kind = "reason" if match["reason"] else "answer"
        found.append(_Heading(kind, match.start(), end, hashes > 0))
    hashed_kinds = {heading.kind for heading in found if heading.hashed}
    return [heading for heading in found if heading.hashed or heading.kind not in hashed_kinds]


def _sections(text: str, entry: Language) -> tuple[list[str], list[tuple[str, str]]]:
    """The kinds of the headings; and the whole text in parts, each with its kind, in order."""
    headings = _headings(text, entry)
    kinds = [heading.kind for heading in headings]
    ends = [heading.start for heading in headings] + [len(text)]
    bodies = [("preamble" if "answer" in kinds else "answer", text[: ends[0]])]
    bodies += [(h.kind, text[h.end : end]) for h, end in zip(headings, ends[1:], strict=True)]
    return kinds, bodies


def _section(bodies: Iterable[tuple[str, str]], kind: str) -> str:
    parts = (body.strip() for of_kind, body in bodies if of_kind == kind)
    return "\n".join(part for part in parts if part)


# --- Citations


class _Citation(NamedTuple):
    start: int
    end: int
    ids: tuple[str, ...]  # empty where it is made like a citation but names no shown passage


class _Passages(NamedTuple):
    """The shown passages by position, and by id, both as it stands and folded by :func:`_key`."""

    ids: Sequence[str]
    by_id: Mapping[str, str]
    read: dict[str, tuple[str, ...] | None]  # what the brackets met so far cite

    @classmethod
    def of(cls, shown: Sequence[str]) -> _Passages:
        folded = {_key(passage): passage for passage in reversed(shown)}
        return cls(shown, folded | {passage: passage for passage in shown}, {})

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
    one = rf"\\?[{opening}]([^{opening}{closing}{_BREAKS}]*)[{closing}]"
    link = rf"(?:\((?:https?:|www\.|\#)[^\s(){opening}{closing}]*\))?"
    conjunctions = frozenset(map(_key, english.conjunctions + entry.conjunctions))
    # Latin ones are written with spaces; without, they may be part of an id such as 1e3f.
    glued, never = (word for word in conjunctions if not word.isascii()), "(?!)"
    return _Forms(
        bracket=re.compile(rf"(?:\\?[{opening}]{one}\\?[{closing}]|{one}){link}"),
        word=re.compile(
            rf"(?:{_any_of(map(_key, english.passage_words + entry.passage_words))})[.:#_-]*"
        ),
        conjunctions=conjunctions,
        glued=re.compile(rf"(?<=\d)\s*(?:{_any_of(glued) or never})\s*(?=\d)"),
    )


def _citations(text: str, entry: Language, passages: _Passages) -> Iterator[_Citation]:
    """Every bracket that is made like a citation, in order."""
    forms = _forms(entry)
    for match in forms.bracket.finditer(text):
        content = match[1] or match[2] or ""
        if content not in passages.read:
            passages.read[content] = _cited(content, forms, passages)
        ids = passages.read[content]
        if ids is not None:
            yield _Citation(match.start(), match.end(), ids)


def _cited(content: str, forms: _Forms, passages: _Passages) -> tuple[str, ...] | None:
    """The passages named between two brackets; ``None`` where that is not made like a citation."""
    if content.strip() in passages.by_id:
        return (passages.by_id[content.strip()],)
    ids: list[str] = []
    items = 0
    for token in _tokens(_key(content), forms, passages):
        if token not in passages.by_id:
            token = token.strip(_AROUND_ID)
        if token not in passages.by_id and (word := forms.word.match(token)):
            token = token[word.end() :]
        if token in forms.conjunctions or not token:
            continue
        named = _named(token, passages)
        if named is None:
            return None
        items += 1
        ids += named
    return _unique(ids) if items else None


def _tokens(key: str, forms: _Forms, passages: _Passages) -> Iterator[str]:
    """A bracket's content in its parts; an id with commas or spaces in it stays whole."""
    parts = [key] if key in passages.by_id else _SEPARATOR.split(forms.glued.sub(",", key))
    for part in map(str.strip, parts):
        if part in passages.by_id:
            yield part
        else:
            yield from _DASH.sub("-", part).split()


def _named(token: str, passages: _Passages) -> list[str] | None:
    """The passages of one id, number or range; ``None`` where it is none of these."""
    if token in passages.by_id:
        return [passages.by_id[token]]
    numbers = _NUMBERS.fullmatch(token)
    if numbers is None:
        return [] if _UNKNOWN_ID.fullmatch(token) else None
    written = [number for number in numbers.groups() if number]
    shown = len(passages.ids)
    if any(len(number) > 3 and int(number) > shown for number in written):
        return None  # rather a year
    if len(written) == 1:
        return passages.numbered(int(written[0]))
    span = range(int(written[0]), int(written[1]) + 1)
    return [passage for number in span for passage in passages.numbered(number)]


_CONNECTED = re.compile(rf"[{_SPACE},;،؛、，；]*")
_SPACES = re.compile(rf"[{_SPACE}]*")
_OPENED = ("(", "（")
_CLOSED = (")", "）")
_CLOSING = frozenset(".,;:!?…。．！？،؛؟۔।॥、，；：)]}）］】〕」』”’»")


def _without_citations(
    text: str, entry: Language, passages: _Passages
) -> tuple[str, list[tuple[int, tuple[str, ...]]]]:
    """The text without its citations, tidied where they stood; and offsets with the ids cited."""
    pieces: list[str] = []
    marks: list[tuple[int, tuple[str, ...]]] = []
    length = done = 0
    before = ""
    for start, end, ids in _groups(text, entry, passages):
        behind = _spaces_end(text, end)
        kept = text[done:start].rstrip(" \t\xa0\u3000")
        before = kept[-1:] or before
        spaced = behind > end or len(kept) < start - done
        joint = " " if _parted(before, text[behind : behind + 1], spaced, entry) else ""
        pieces += (kept, joint)
        marks.append((length + len(kept), ids))
        length += len(kept) + len(joint)
        done = behind
    whole = "".join([*pieces, text[done:]])
    lead = len(whole) - len(whole.lstrip())
    tidy = whole.strip()
    return tidy, [(min(max(at - lead, 0), len(tidy)), ids) for at, ids in marks]


def _groups(text: str, entry: Language, passages: _Passages) -> list[_Citation]:
    """The citations, adjoining ones as one, with the parentheses around them."""
    groups: list[tuple[int, int, list[str]]] = []
    for start, end, ids in _citations(text, entry, passages):
        if groups and _CONNECTED.fullmatch(text, groups[-1][1], start):
            first, _, together = groups.pop()
            together += ids
            groups.append((first, end, together))
        else:
            groups.append((start, end, list(ids)))
    return [_with_parentheses(text, *group) for group in groups]


def _with_parentheses(text: str, start: int, end: int, ids: Iterable[str]) -> _Citation:
    behind = _spaces_end(text, end)
    if text.startswith(_OPENED, max(start - 1, 0), start) and text.startswith(_CLOSED, behind):
        start, end = start - 1, behind + 1
    return _Citation(start, end, _unique(ids))


def _spaces_end(text: str, start: int) -> int:
    match = _SPACES.match(text, start)
    return match.end() if match else start


def _parted(before: str, after: str, spaced: bool, entry: Language) -> bool:
    """Whether a space has to part what stood on both sides of a citation."""
    if not before or not after or before.isspace() or after in _CLOSING or _BREAK.match(after):
        return False
    starts_word = after.isalnum() and (before.isalnum() or before in entry.terminators)
    return spaced or (starts_word and entry.tokens == "word")


# --- Sentences

_WINDOW = 4000  # sentencex takes time n * n for n brackets
_CLAUSE = 20
_CLAUSE_END = re.compile(r"(?<=[^\x00-\x7f\d])\s+(?=[^\W\d_\x00-\x7fๆฯ])")
_LIST_NUMBER = re.compile(r"[(*_]*\d{1,3}[.)][*_]*")
_WORDLIKE = re.compile(r"[^\W_]")
_CLOSERS = re.compile(r"[\"'*_”’»)）\]】」』]+(?=\s|\Z)")


def _cited_sentences(
    text: str, marks: Sequence[tuple[int, tuple[str, ...]]], entry: Language
) -> tuple[Sentence, ...]:
    # A combining mark behind a citation belongs to the letter before it.
    ends = (at for at, _ in marks if not _is_mark(text[at : at + 1]))
    stops = () if entry.splitter else tuple(ends)
    spans = _spans(text, entry, stops)
    starts = [start for start, _ in spans]
    breaks = [match.start() for match in _BREAK.finditer(text)]
    cited: list[list[str]] = [[] for _ in spans]
    for at, ids in marks if spans else ():
        i = bisect_left(starts, at) - 1
        line = bisect_left(breaks, at)
        opens_line = i < 0 or bisect_left(breaks, spans[i][1]) < line
        if opens_line and i + 1 < len(spans) and bisect_left(breaks, starts[i + 1]) == line:
            i += 1
        cited[max(i, 0)] += ids
    return tuple(
        Sentence(text[start:end], _unique(ids))
        for (start, end), ids in zip(spans, cited, strict=True)
    )


def _is_mark(char: str) -> bool:
    return bool(char) and unicodedata.category(char).startswith("M")


def _spans(text: str, entry: Language, stops: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Where sentences start and end; at ``stops`` one ends, if it is not a mere word or two."""
    spans = []
    start = 0
    stripped = len(text.rstrip())
    for cut in _cuts(text, entry, frozenset(stops)):
        piece = text[start:cut]
        if cut < stripped and _LIST_NUMBER.fullmatch(piece.strip()):
            continue
        if _WORDLIKE.search(piece):
            lead = len(piece) - len(piece.lstrip())
            spans.append((start + lead, start + len(piece.rstrip())))
        start = cut
    return spans


def _cuts(text: str, entry: Language, stops: frozenset[int]) -> Iterator[int]:
    """The offsets at which a sentence ends and the next may begin, its last one too."""
    ends = {match.start() for match in _BREAK.finditer(text)} | stops | {len(text)}
    start = 0
    for end in sorted(ends):
        chunk = text[start:end]
        if end in stops:
            if len(chunk.strip()) >= _CLAUSE // 2:
                yield end
        elif not chunk.isspace():
            cuts = _sentencex_cuts(chunk, entry) if entry.splitter else _clause_cuts(chunk)
            yield from (start + cut for cut in cuts)
        start = end
    yield len(text)


def _clause_cuts(line: str) -> Iterator[int]:
    last = 0
    for space in _CLAUSE_END.finditer(line):
        if space.start() - last >= _CLAUSE and len(line) - space.end() >= _CLAUSE:
            last = space.end()
            yield last
    yield len(line)


def _sentencex_cuts(line: str, entry: Language) -> Iterator[int]:
    plain = _for_sentencex(line, entry)
    done = 0
    while done < len(line):
        window = plain[done : done + _WINDOW]
        pieces = segment(entry.splitter, window) or [window]
        if done + _WINDOW < len(line) and len(pieces) > 1:
            pieces.pop()  # the end of the window may have cut it short
        for piece in pieces:
            done += len(piece)
            closers = _CLOSERS.match(line, done)
            yield closers.end() if closers else done


_ODD_SPACE = re.compile(r"[^\S ]")
_DIGIT_AFTER_STOP = re.compile(r"(?<=[。！？｡।॥؟۔])\d|(?<=[^\W\d_]{5}[.!?]\s)\d")


@lru_cache(maxsize=64)
def _inner_stop(entry: Language) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{entry.inner_stops})\.(?=[\s-])")


def _for_sentencex(line: str, entry: Language) -> str:
    """The line, changed where sentencex 1.0 errs, and as long as it was."""
    # It panics at a capital, a space other than ASCII's and a full stop.
    line = _ODD_SPACE.sub(" ", line)
    if entry.inner_stops:
        line = _inner_stop(entry).sub(lambda stop: stop[0].replace(".", ","), line)
    # It ends no sentence before a digit: without a space (。1908年), and in German and Finnish.
    return _DIGIT_AFTER_STOP.sub("A", line)
