"""Passages from documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from mirage.errors import SettingError
from mirage.models import Passage
from mirage.text.tokens import UNSPACED

__all__ = ["Spans", "Unit", "chunk"]

Unit = Literal["word", "character"]
"""What the size of a passage counts."""

Spans = Callable[[str], Sequence[tuple[int, int]]]
"""Where the units of a text begin and end, in order, such as the offsets of a tokenizer."""

# A sign of a script without spaces is a word by itself, with the marks above and below it.
_WORD = re.compile(rf"[{UNSPACED}]\W*?(?=[\w\s]|$)|[^\s{UNSPACED}]+")
_CHARACTER = re.compile(r"\S")


def chunk(
    documents: Iterable[Passage],
    size: int = 100,
    unit: Unit | Spans = "word",
    *,
    overlap: int = 0,
    title: bool = True,
) -> Iterator[Passage]:
    """Cut documents into passages of at most ``size`` units, in order.

    The passages of a document ``d`` are ``d#0``, ``d#1``, ...: their ids depend on that document
    alone, not on which others there are or in which order. Texts are pieces of the document's text
    as it stands there, so that nothing is joined by blanks where a language writes none. A document
    without a unit gives no passage.

    Args:
        documents: whole texts, each with its id and title.
        size: units a passage; the last one of a document may have fewer.
        unit: ``word``: what stands between blanks, and each sign of a script that parts no words
            (Han, kana, Thai), as in BERGEN (Rau et al. 2024, arXiv 2407.01102, appendix C);
            ``character``: whatever is no blank; or a function that gives the spans of a text's
            units, such as ``lambda text: tokenizer(text, return_offsets_mapping=True,
            add_special_tokens=False)["offset_mapping"]`` of a fast tokenizer of transformers.
        overlap: units that a passage repeats from the one before it.
        title: whether each passage carries the title of its document.

    Raises:
        SettingError: ``size`` is below 1, ``overlap`` is not below it, or there is no such unit.
    """
    if size < 1 or not 0 <= overlap < size:
        raise SettingError(
            f"a passage has 1 unit or more and overlaps by fewer, not size {size}, overlap "
            f"{overlap}"
        )
    spans = _spans(unit) if isinstance(unit, str) else unit
    return (
        passage
        for document in documents
        for passage in _passages(document, spans(document.text), size, overlap, title)
    )


def _spans(unit: str) -> Spans:
    patterns = {"word": _WORD, "character": _CHARACTER}
    if unit not in patterns:
        raise SettingError(f"units are {', '.join(patterns)} or a function, not {unit!r}")
    return lambda text: [match.span() for match in patterns[unit].finditer(text)]


def _passages(
    document: Passage, spans: Sequence[tuple[int, int]], size: int, overlap: int, title: bool
) -> Iterator[Passage]:
    starts = range(0, max(1, len(spans) - overlap), size - overlap) if spans else ()
    for number, start in enumerate(starts):
        # Up to the next unit, so that what stands between two is lost nowhere.
        end = spans[start + size][0] if start + size < len(spans) else len(document.text)
        begin = spans[start][0] if start else 0
        yield Passage(
            id=f"{document.id}#{number}",
            text=document.text[begin:end].strip(),
            title=document.title if title else "",
            document=document.id if "#" in document.id else None,
        )
