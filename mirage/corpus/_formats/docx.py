"""Parsing of Word documents with python-docx."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage.corpus._structure import Block, Parsed
from mirage.errors import DatasetError, needing

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from docx.table import Table
    from docx.text.paragraph import Paragraph

LARGEST = 1 << 28
"""The largest size of an unpacked document, in bytes; larger documents raise an error."""

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)
_CODE = re.compile(r"code|preformatted|source|macro", re.IGNORECASE)


def parse(content: bytes) -> Parsed:
    """Return the headings, paragraphs, code, list items and tables, without hidden text."""
    with needing("python-docx"):
        import docx
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        raise DatasetError("the file is not a Word document (.docx), or it is damaged") from None
    if size > LARGEST:
        raise DatasetError(
            f"the document has {size} bytes when unpacked, but at most {LARGEST} are allowed; "
            "split the document"
        )
    document = docx.Document(io.BytesIO(content))
    return Parsed([*_merge_code(_blocks(document))], document.core_properties.title or "")


def _blocks(document: WordDocument) -> Iterator[Block]:
    from docx.table import Table

    for element in document.iter_inner_content():
        block = _table(element) if isinstance(element, Table) else _paragraph(element)
        if block.text.strip():
            yield block


def _paragraph(paragraph: Paragraph) -> Block:
    style = (paragraph.style.name if paragraph.style is not None else None) or ""
    text = _visible_text(paragraph)
    heading = _HEADING.fullmatch(style)
    if heading:
        return Block(text, "heading", int(heading[1]))
    if style == "Title":
        return Block(text, "heading", 1)
    if _CODE.search(style):
        return Block(text, "code")
    properties = paragraph._p.pPr
    numbered = properties is not None and properties.numPr is not None
    if numbered or style.startswith("List"):
        return Block(f"- {text}" if text.strip() else "", "item")
    return Block(text)


def _visible_text(paragraph: Paragraph) -> str:
    runs = (
        run
        for part in paragraph.iter_inner_content()
        for run in (part.runs if hasattr(part, "runs") else (part,))
    )
    return "".join(run.text for run in runs if not run.font.hidden)


def _table(table: Table) -> Block:
    lines = []
    for row in table.rows:
        # row.cells repeats a merged cell for each column that it spans.
        cells = list({id(cell._tc): cell for cell in row.cells}.values())
        texts = ("\n".join(map(_visible_text, cell.paragraphs)) for cell in cells)
        lines.append(" | ".join(" ".join(text.split()) for text in texts))
    return Block("\n".join(lines), "table")


def _merge_code(blocks: Iterator[Block]) -> Iterator[Block]:
    """Merge consecutive paragraphs of code into one block; Word stores each line as a paragraph."""
    code: list[str] = []
    for block in blocks:
        if block.kind == "code":
            code.append(block.text)
            continue
        if code:
            yield Block("\n".join(code), "code")
            code = []
        yield block
    if code:
        yield Block("\n".join(code), "code")
