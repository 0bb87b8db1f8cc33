"""Chunking: cut documents into passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from mirage.corpus._structure import Layout
from mirage.errors import SettingError
from mirage.models import Passage
from mirage.text.tokens import UNSPACED

Unit = Literal["word", "character"]
"""The unit in which the size of a passage is measured."""

Spans = Callable[[str], Sequence[tuple[int, int]]]
"""A function that returns the start and end of each unit of a text, such as token offsets."""

# In a script without spaces, each character is a word, together with its combining marks.
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

    The passages of document ``d`` have the ids ``d#0``, ``d#1`` and so on, so ids do not depend on
    other documents. The text of a passage is a slice of the document's text, so no spaces are added
    in languages that are written without them. A document without units yields no passage.

    Documents that :func:`~mirage.corpus.read_documents` read from Markdown, HTML and similar
    formats are cut along their structure. A code block, a table or a list item is cut only if it
    has more than ``size`` units, and then between lines if possible. A heading stays with the text
    below it. If the passage before a heading is at least half full, it ends there. The title of a
    passage is the path of the headings above all of its text, such as ``Handbook > Leave``.

    Args:
        documents: Whole texts, each with its id and title.
        size: Maximum number of units per passage. A passage has fewer if it is the last of its
            document or ends early to respect the structure.
        unit: ``"word"`` counts strings between spaces, and in scripts without spaces (Han, kana,
            Thai) each character, as in BERGEN (Rau et al. 2024, arXiv 2407.01102, appendix C).
            ``"character"`` counts all characters except white space. A function takes a text and
            returns the start and end of each unit, such as ``lambda text: tokenizer(text,
            return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]`` with a fast
            tokenizer of transformers.
        overlap: The number of units that a passage repeats from the passage before it. Fewer units
            are repeated if the repetition would begin within code, a table or a list item, and none
            if the passage begins with a heading.
        title: Whether passages have titles. If the structure of a document is not known, all of its
            passages have the title of the document.

    Raises:
        SettingError: If ``size`` is below 1, ``overlap`` is not below ``size``, or ``unit`` is
            unknown.

    Example:
        >>> documents = [Passage(id="d", text="one two three four five")]
        >>> [(passage.id, passage.text) for passage in chunk(documents, size=3)]
        [('d#0', 'one two three'), ('d#1', 'four five')]
    """
    if size < 1 or not 0 <= overlap < size:
        raise SettingError(
            f"size must be at least 1, and overlap at least 0 and below size; got size={size}, "
            f"overlap={overlap}"
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
        raise SettingError(f"unit must be one of {', '.join(patterns)} or a function, got {unit!r}")
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
