"""Split the text of a response into sections, and split these at citations and faults."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text import parse


class Block(NamedTuple):
    """A part of a response.

    Attributes:
        kind: ``heading``, ``reason`` or ``answer``, or ``text`` for a whole response in which no
            such sections were recognised.
        text: The text of the part.
    """

    kind: str
    text: str


def blocks(text: str, code: str, passage_ids: Sequence[str]) -> list[Block]:
    """Split a response into its sections and the headings between them.

    White space around each part is removed. The whole response is one block if
    :func:`mirage.text.parse` finds no answer, or an answer that is not in one piece.

    Args:
        text: The response.
        code: Language code.
        passage_ids: Ids of the shown passages, in order.
    """
    text = unicodedata.normalize("NFC", text)
    parsed = parse(text, code, passage_ids)
    at = text.rfind(parsed.answer) if parsed.answer else -1
    if at < 0 or parsed.answer == text.strip():
        return [Block("text", text)]
    start = text.find(parsed.reason, 0, at) if parsed.reason else -1
    sections = [("answer", at, at + len(parsed.answer))]
    if start >= 0:
        sections.insert(0, ("reason", start, start + len(parsed.reason)))
    parts, cursor = [], 0
    for kind, begin, end in sections:
        parts += [Block("heading", text[cursor:begin]), Block(kind, text[begin:end])]
        cursor = end
    parts.append(Block("heading", text[cursor:]))
    return [Block(kind, part.strip()) for kind, part in parts if part.strip()]


def direction(text: str, code: str) -> str:
    """Return the writing direction of most letters of a text, ``rtl`` or ``ltr``.

    If both directions are equally frequent, return that of the language ``code``.
    """
    kinds: Counter[str] = Counter()
    for char, count in Counter(text).items():
        kinds[unicodedata.bidirectional(char)] += count
    rtl, ltr = kinds["R"] + kinds["AL"], kinds["L"]
    return Language.of(code).direction if rtl == ltr else "rtl" if rtl > ltr else "ltr"


class Cited(NamedTuple):
    """Bracketed text that looks like a citation, and the ids of the passages that it cites."""

    text: str
    ids: tuple[str, ...]


def segments(text: str, code: str, passage_ids: Sequence[str]) -> list[str | Cited]:
    """Split a response into citations and the text between them.

    The joined pieces equal the text. :func:`mirage.text.parse` decides which passages a bracket
    cites.

    Args:
        text: The response or a part of it.
        code: Language code.
        passage_ids: Ids of the shown passages, in order.
    """
    pieces: list[str | Cited] = []
    cursor = 0
    for match in _brackets(Language.of(code)).finditer(text):
        ids = _cited_ids(match[0], code, tuple(passage_ids))
        if ids is not None:
            pieces += [text[cursor : match.start()], Cited(match[0], ids)]
            cursor = match.end()
    return [piece for piece in (*pieces, text[cursor:]) if piece]


@lru_cache(maxsize=4096)
def _cited_ids(bracket: str, code: str, passage_ids: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the ids of the passages that a bracket cites; ``None`` if it is not a citation."""
    # The letter before the bracket keeps the parser from taking it for a heading.
    parsed = parse(f"x {bracket}", code, passage_ids)
    return parsed.citations if parsed.citations or parsed.answer_text == "x" else None


def marked(
    pieces: Iterable[str | Cited], faults: Sequence[tuple[int, int, str]]
) -> Iterator[tuple[str | Cited, str]]:
    """Split the pieces of a text where a fault starts or ends.

    A citation is never split. It is marked as a whole if a fault overlaps it.

    Args:
        pieces: The pieces in order, as :func:`segments` returns them.
        faults: Each fault as (start, end, type) in the joined text, in order, without overlap.

    Yields:
        Each new piece with the type of its fault; ``""`` if it has none.
    """
    at = 0
    for piece in pieces:
        whole = piece if isinstance(piece, str) else piece.text
        inside = [fault for fault in faults if fault[0] < at + len(whole) and fault[1] > at]
        if not isinstance(piece, str):
            yield piece, inside[0][2] if inside else ""
        else:
            yield from _split_at(piece, [(max(0, a - at), b - at, type_) for a, b, type_ in inside])
        at += len(whole)


def _split_at(text: str, faults: Sequence[tuple[int, int, str]]) -> Iterator[tuple[str, str]]:
    cursor = 0
    for start, end, type_ in faults:
        if start > cursor:
            yield text[cursor:start], ""
        yield text[start:end], type_
        cursor = end
    if text[cursor:]:
        yield text[cursor:], ""


@lru_cache(maxsize=64)
def _brackets(entry: Language) -> re.Pattern[str]:
    pairs = {*LANGUAGES["en"].brackets, *entry.brackets}
    opening = "".join(re.escape(pair[0]) for pair in sorted(pairs))
    closing = "".join(re.escape(pair[1]) for pair in sorted(pairs))
    bracket = rf"[{opening}][^{opening}{closing}\n]*[{closing}]"
    return re.compile(rf"[{opening}]{bracket}[{closing}]|{bracket}")
