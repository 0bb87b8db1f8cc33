"""Split answers into sentences, and assign citations to them."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from sentencex import segment

from mirage.languages import Language
from mirage.text._unicode import BREAK, nfc
from mirage.text.citations import unique

__all__ = ["Sentence", "sentence_pieces", "split_sentences"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an answer.

    Attributes:
        text: The sentence, without its citations.
        citations: The ids of the passages that the sentence cites.
    """

    text: str
    citations: tuple[str, ...]


def split_sentences(text: str, language: str | Language) -> list[str]:
    """Split a text into its sentences, stripped; a line break always ends a sentence.

    The sentencex library finds the sentences. It has no rules for Thai, which has no full stop. In
    Thai, a space between two Thai letters ends a sentence if the texts on both sides have at least
    20 characters; shorter texts are often clauses, names and numbers. A number such as ``1.``
    belongs to the list item after it. Texts without any letter or digit are left out.

    Args:
        text: Text to split.
        language: Language of the text.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> split_sentences("Dr. Livingstone came. He saw 1.5 km of rapids.", "en")
        ['Dr. Livingstone came.', 'He saw 1.5 km of rapids.']
    """
    text = nfc(text)
    return [text[start:end] for start, end in all_sentence_spans(text, Language.of(language))]


@lru_cache(maxsize=4096)
def all_sentence_spans(text: str, entry: Language) -> Sequence[tuple[int, int]]:
    """Return the start and end of each sentence of a text in NFC."""
    return sentence_spans(text, entry)


def sentence_pieces(text: str, language: str | Language) -> list[str]:
    """Split a text into its sentences, each with the text up to the next sentence.

    The sentences are those of :func:`split_sentences`. The joined pieces equal the text in NFC. A
    text without a sentence has no pieces.

    Args:
        text: Text to split.
        language: Language of the text.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> sentence_pieces("One. Two!", "en")
        ['One. ', 'Two!']
    """
    text = nfc(text)
    starts = [start for start, _ in sentence_spans(text, Language.of(language))]
    cuts = [0, *starts[1:], len(text)] if starts else []
    return [text[begin:end] for begin, end in pairwise(cuts)]


_WINDOW = 4000  # characters per call, because sentencex takes time n * n for n brackets
_CLAUSE = 20
_CLAUSE_END = re.compile(r"(?<=[^\x00-\x7f\d])\s+(?=[^\W\d_\x00-\x7fๆฯ])")
_LIST_NUMBER = re.compile(r"[(*_]*\d{1,3}[.)][*_]*")
_WORDLIKE = re.compile(r"[^\W_]")
_CLOSING = frozenset("\"'*_”’»)）]】」』")
_CLOSERS = re.compile(r"[\"'*_”’»)）\]】」』]+(?=\s|\Z)")


def cited_sentences(
    text: str, marks: Sequence[tuple[int, tuple[str, ...]]], entry: Language
) -> tuple[Sentence, ...]:
    """Split a text into sentences, and assign the citations to them.

    A citation belongs to the sentence before it. If it begins a line, it belongs to the sentence
    after it.

    Args:
        text: Text without its citations.
        marks: Offset of each citation in the text, with the cited ids.
        entry: Language of the text.
    """
    # A sentence cannot end before a combining mark, which belongs to the letter before it.
    ends = (offset for offset, _ in marks if not _is_mark(text[offset : offset + 1]))
    stops = () if entry.sentence_ends == "marks" else tuple(ends)
    spans = sentence_spans(text, entry, stops) if stops else all_sentence_spans(text, entry)
    starts = [start for start, _ in spans]
    breaks = [match.start() for match in BREAK.finditer(text)]
    citations: list[list[str]] = [[] for _ in spans]
    for offset, ids in marks if spans else ():
        index = bisect_left(starts, offset) - 1
        line = bisect_left(breaks, offset)
        opens_line = index < 0 or bisect_left(breaks, spans[index][1]) < line
        if opens_line and index + 1 < len(spans) and bisect_left(breaks, starts[index + 1]) == line:
            index += 1
        citations[max(index, 0)] += ids
    return tuple(
        Sentence(text[start:end], unique(ids))
        for (start, end), ids in zip(spans, citations, strict=True)
    )


def _is_mark(char: str) -> bool:
    return bool(char) and unicodedata.category(char).startswith("M")


def sentence_spans(text: str, entry: Language, stops: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Return the start and end of each sentence.

    Args:
        text: Text in NFC.
        entry: Language of the text.
        stops: Further offsets at which a sentence ends, unless this sentence would have fewer than
            10 characters.
    """
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


def _cuts(text: str, entry: Language, stops: frozenset[int]) -> list[int]:
    """Return the offsets at which a sentence may end; the last one is the end of the text."""
    offsets: list[int] = []
    # Line breaks are not printable, and most texts are.
    breaks = () if text.isprintable() else BREAK.finditer(text)
    ends = {match.start() for match in breaks} | stops | {len(text)}
    start = 0
    for end in sorted(ends):
        chunk = text[start:end]
        if end in stops:
            if len(chunk.strip()) >= _CLAUSE // 2:
                offsets.append(end)
        elif not chunk.isspace():
            by_marks = entry.sentence_ends == "marks"
            cuts = _sentencex_cuts(chunk, entry) if by_marks else _clause_cuts(chunk)
            offsets += [start + cut for cut in cuts]
        start = end
    offsets.append(len(text))
    return offsets


def _clause_cuts(line: str) -> Iterator[int]:
    last = 0
    for space in _CLAUSE_END.finditer(line):
        if space.start() - last >= _CLAUSE and len(line) - space.end() >= _CLAUSE:
            last = space.end()
            yield last
    yield len(line)


def _sentencex_cuts(line: str, entry: Language) -> Iterator[int]:
    plain = _for_sentencex(line, entry)
    start = 0
    while start < len(line):
        window = plain[start : start + _WINDOW]
        pieces = segment(entry.code, window) or [window]
        if start + _WINDOW < len(line) and len(pieces) > 1:
            pieces.pop()  # the window may have cut the last sentence, so it is read again
        for piece in pieces:
            start += len(piece)
            is_closed = line[start : start + 1] in _CLOSING
            closers = _CLOSERS.match(line, start) if is_closed else None
            yield closers.end() if closers else start


_ODD_SPACE = re.compile(r"[^\S ]")
# A search for a set of characters is fast, so the letters before a stop are checked after it.
_STOP_AND_DIGIT = re.compile(
    r"[.!?。！？｡।॥؟۔](?=\s?\d)(?:(?<=[。！？｡।॥؟۔])|(?<=[^\W\d_]{5}[.!?])\s)\d"
)


_JOINED = re.compile(r"[\w.-]")


@lru_cache(maxsize=64)
def _inner_stop(entry: Language) -> re.Pattern[str]:
    """Return a pattern for texts whose full stop does not end a sentence, such as titles.

    The pattern does not check the character before a match. If it is one of :data:`_JOINED`, the
    stop may end the sentence. The caller checks this, because a search is fast only if the pattern
    begins with a set of characters.
    """
    stops = entry.inner_stops.replace(r"\d{1,2}", r"\d\d?")
    return re.compile(rf"(?:{stops})\.(?=[\s-])")


def _without_stop(match: re.Match[str]) -> str:
    start = match.start()
    is_joined = start > 0 and _JOINED.match(match.string, start - 1)
    return match[0] if is_joined else match[0].replace(".", ",")


def _for_sentencex(line: str, entry: Language) -> str:
    """Replace characters at which sentencex 1.0 fails, without changing the length of the line."""
    # sentencex panics at a capital followed by a non-ASCII space and a full stop. All spaces except
    # the ASCII space are not printable.
    line = line if line.isprintable() else _ODD_SPACE.sub(" ", line)
    if entry.inner_stops and "." in line:
        line = _inner_stop(entry).sub(_without_stop, line)
    # sentencex never ends a sentence before a digit if there is no space (。1908年), nor in German
    # and Finnish. A letter in place of the digit makes it do so.
    return _STOP_AND_DIGIT.sub(lambda match: f"{match[0][:-1]}A", line)
