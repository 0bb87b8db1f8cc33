"""Sentences, and which citation belongs to which."""

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
    """One sentence of an answer, without its citations, and the ids of the passages it cites."""

    text: str
    citations: tuple[str, ...]


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
    text = nfc(text)
    return [text[start:end] for start, end in sentence_spans(text, Language.of(language))]


def sentence_pieces(text: str, language: str | Language) -> list[str]:
    """The sentences of :func:`split_sentences`, each with what stands between it and the next.

    Joined, they are the text, in NFC; without a sentence there is no piece.

    Raises:
        UnknownNameError: no such language.
    """
    text = nfc(text)
    starts = [start for start, _ in sentence_spans(text, Language.of(language))]
    cuts = [0, *starts[1:], len(text)] if starts else []
    return [text[begin:end] for begin, end in pairwise(cuts)]


_WINDOW = 4000  # sentencex takes time n * n for n brackets
_CLAUSE = 20
_CLAUSE_END = re.compile(r"(?<=[^\x00-\x7f\d])\s+(?=[^\W\d_\x00-\x7fๆฯ])")
_LIST_NUMBER = re.compile(r"[(*_]*\d{1,3}[.)][*_]*")
_WORDLIKE = re.compile(r"[^\W_]")
_CLOSERS = re.compile(r"[\"'*_”’»)）\]】」』]+(?=\s|\Z)")


def cited_sentences(
    text: str, marks: Sequence[tuple[int, tuple[str, ...]]], entry: Language
) -> tuple[Sentence, ...]:
    # A combining mark behind a citation belongs to the letter before it.
    ends = (at for at, _ in marks if not _is_mark(text[at : at + 1]))
    stops = () if entry.sentence_ends == "marks" else tuple(ends)
    spans = sentence_spans(text, entry, stops)
    starts = [start for start, _ in spans]
    breaks = [match.start() for match in BREAK.finditer(text)]
    citations: list[list[str]] = [[] for _ in spans]
    for at, ids in marks if spans else ():
        i = bisect_left(starts, at) - 1
        line = bisect_left(breaks, at)
        opens_line = i < 0 or bisect_left(breaks, spans[i][1]) < line
        if opens_line and i + 1 < len(spans) and bisect_left(breaks, starts[i + 1]) == line:
            i += 1
        citations[max(i, 0)] += ids
    return tuple(
        Sentence(text[start:end], unique(ids))
        for (start, end), ids in zip(spans, citations, strict=True)
    )


def _is_mark(char: str) -> bool:
    return bool(char) and unicodedata.category(char).startswith("M")


def sentence_spans(text: str, entry: Language, stops: Iterable[int] = ()) -> list[tuple[int, int]]:
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
    ends = {match.start() for match in BREAK.finditer(text)} | stops | {len(text)}
    start = 0
    for end in sorted(ends):
        chunk = text[start:end]
        if end in stops:
            if len(chunk.strip()) >= _CLAUSE // 2:
                yield end
        elif not chunk.isspace():
            by_marks = entry.sentence_ends == "marks"
            cuts = _sentencex_cuts(chunk, entry) if by_marks else _clause_cuts(chunk)
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
    start = 0
    while start < len(line):
        window = plain[start : start + _WINDOW]
        pieces = segment(entry.code, window) or [window]
        if start + _WINDOW < len(line) and len(pieces) > 1:
            pieces.pop()  # the end of the window may have cut it short
        for piece in pieces:
            start += len(piece)
            closers = _CLOSERS.match(line, start)
            yield closers.end() if closers else start


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
