"""Passages from documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from mirage.corpus._structure import Layout
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
    alone. Texts are slices of the document's text, so that nothing is joined by blanks in languages
    that write none. A document without units gives no passage.

    Documents that :func:`~mirage.corpus.read_documents` read from Markdown, HTML and the like are
    cut by their structure. A code block, a table or a list item is cut only if it is longer than
    ``size``, and then between lines if possible. A heading stays with what follows it, and ends a
    passage that is at least half full. The title of a passage is the path of headings that all of
    it is under, such as ``Handbook > Leave``.

    Args:
        documents: whole texts, each with its id and title.
        size: units a passage; the last one of a document may have fewer.
        unit: ``word``: what stands between blanks, and each sign of a script that parts no words
            (Han, kana, Thai), as in BERGEN (Rau et al. 2024, arXiv 2407.01102, appendix C);
            ``character``: whatever is no blank; or a function that gives the spans of a text's
            units, such as ``lambda text: tokenizer(text, return_offsets_mapping=True,
            add_special_tokens=False)["offset_mapping"]`` of a fast tokenizer of transformers.
        overlap: units that a passage repeats from the one before it; fewer if the repetition would
            begin within code, a table or a list item, and none after a heading.
        title: whether each passage carries a title.

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
    layout = Layout.of(document, spans)
    start = number = 0
    while start < len(spans):
        end = layout.end_of(start, size)
        yield Passage(
            id=f"{document.id}#{number}",
            text=layout.text_of(start, end),
            title=layout.title_of(start, end, document.title) if title else "",
            document=document.id if "#" in document.id else None,
        )
        if end == len(spans):
            return
        start = layout.resume(start, end, overlap)
        number += 1
