"""Parsing of HTML with selectolax, whose parser follows the rules of browsers."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirage.corpus._structure import Block, BlockKind, Parsed
from mirage.errors import DatasetError, needing

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_CHARSET = re.compile(
    rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)|encoding=[\"']([\w.:-]+)", re.I
)
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}

# Elements that a browser does not show, or that repeat on every page of a site.
_LEFT_OUT = (
    "script, style, noscript, template, svg, iframe, object, head, nav, footer, select, "
    "[hidden], [aria-hidden=true], input, textarea"
)
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?!\.?\d*[1-9])|"
    r"opacity\s*:\s*0(?!\.?\d*[1-9])",
    re.IGNORECASE,
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
# Elements within a line of text; all other elements begin a new block.
_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q|rp|rt"
    "|ruby|s|samp|small|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
_CELL = re.compile("td|th")
_SPACE = re.compile(r"\s+")

DEEPEST = 2000
"""The maximum nesting depth of a page; parsing time grows with the square of the depth."""

INDENTED = 8
"""The maximum number of levels by which nested list items are indented."""

_NESTING = re.compile(
    r"<(/?)(?:div|span|section|article|main|ul|ol|dl|table|tbody|blockquote|font|a|b|i|em|strong|u|s"
    r"|details|center|form|fieldset|figure|button|small|big|sub|sup|code|pre)\b",
    re.IGNORECASE,
)


def parse(content: bytes) -> Parsed:
    """Return the blocks of the main part of a page, without its navigation and hidden text."""
    with needing("selectolax"):
        from selectolax.lexbor import LexborHTMLParser

    source = _decode(content)
    _check_depth(source)
    tree = LexborHTMLParser(source)
    title = tree.css_first("title")
    metadata = _flat(title.text()) if title is not None else ""
    body = tree.body
    if body is None:
        return Parsed([], metadata)
    for node in body.css(_LEFT_OUT):
        node.decompose()
    for node in body.css("[style]"):
        if _HIDDEN_STYLE.search(node.attributes.get("style") or ""):
            node.decompose()
    return Parsed([*_Walk(_main_part(body)).blocks()], metadata)


def _check_depth(source: str) -> None:
    depth = 0
    for tag in _NESTING.finditer(source):
        depth = max(0, depth - 1) if tag[1] else depth + 1
        if depth > DEEPEST:
            raise DatasetError(
                f"HTML elements are nested more than {DEEPEST} levels deep; simplify the page"
            )


def _decode(content: bytes) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding)
    declared = _CHARSET.search(content[:2048])
    name = (declared[1] or declared[2]).decode("ascii").lower() if declared else "utf-8"
    # Browsers read these labels as windows-1252.
    name = "cp1252" if name in ("iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii") else name
    try:
        return content.decode(name)
    except LookupError:
        return content.decode("utf-8")


def _main_part(body: LexborNode) -> LexborNode:
    for selector in ("main, [role=main]", "article"):
        matches = body.css(selector)
        if len(matches) == 1:
            return matches[0]
    return body


def _flat(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


class _Walk:
    """A walk over the tree of an HTML page in reading order, which collects text into blocks.

    It uses a stack instead of recursion, because a page may nest elements deeper than Python can
    recurse.
    """

    def __init__(self, root: LexborNode) -> None:
        self._root = root
        self._pieces: list[str] = []
        self._lists = 0  # number of list items that enclose the current position

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks, in reading order."""
        stack: list[tuple[LexborNode, bool]] = [(self._root, False)]
        while stack:
            node, is_left = stack.pop()
            if is_left:
                yield from self._leave(node)
            elif node.tag == "-text":
                self._add(_SPACE.sub(" ", node.text_content or ""))
            elif node.is_element_node:
                yield from self._enter(node, stack)
        yield from self._flush("text")

    def _enter(self, node: LexborNode, stack: list[tuple[LexborNode, bool]]) -> Iterator[Block]:
        tag = node.tag or ""
        whole = self._whole(node, tag)
        if whole is not None:
            yield from self._flush("text")
            if whole.text.strip():
                yield whole
            return
        if tag == "br":
            self._pieces.append("\n")
            return
        if tag == "pre":  # within a list item
            self._pieces += ["\n", node.text().strip("\n"), "\n"]
            return
        if not _INLINE.fullmatch(tag):
            if self._lists:
                self._begin_line()
            elif tag != "dd":
                yield from self._flush("text")
        if tag == "li":
            self._pieces.append(f"{'  ' * min(self._lists, INDENTED)}- ")
            self._lists += 1
        if _CELL.fullmatch(tag):  # of a table for layout
            self._pieces.append(" ")
        stack.append((node, True))
        children = list(node.iter(include_text=True))
        stack += ((child, False) for child in reversed(children))

    def _whole(self, node: LexborNode, tag: str) -> Block | None:
        """Return a heading, a preformatted text or a table as one block.

        For other elements, tables for layout, and elements in a list item, return ``None``.
        """
        if self._lists:
            return None
        if tag in _HEADINGS:
            return Block(_flat(node.text()), "heading", _HEADINGS[tag])
        if tag == "pre":
            return Block(node.text().strip("\n").rstrip(), "code")
        if tag == "table" and node.css_first("table table, pre, h1, h2, h3, ul, ol") is None:
            rows = (
                " | ".join(_flat(cell.text()) for cell in row.css("th, td"))
                for row in node.css("tr")
            )
            caption = node.css_first("caption")
            lines = [_flat(caption.text())] if caption is not None else []
            return Block("\n".join([*lines, *rows]), "table")
        return None

    def _leave(self, node: LexborNode) -> Iterator[Block]:
        tag = node.tag or ""
        if tag == "li":
            self._lists -= 1
            if not self._lists:
                yield from self._flush("item")
        elif _INLINE.fullmatch(tag):
            return
        elif self._lists or tag == "dt":
            self._pieces.append("\n")
        else:
            yield from self._flush("item" if tag == "dd" else "text")

    def _begin_line(self) -> None:
        if not self._pieces[-1].endswith("- "):
            self._pieces.append("\n")

    def _add(self, text: str) -> None:
        last = self._pieces[-1] if self._pieces else "\n"
        self._pieces.append(text.lstrip(" ") if last[-1:].isspace() else text)

    def _flush(self, kind: BlockKind) -> Iterator[Block]:
        lines = "".join(self._pieces).split("\n")
        text = "\n".join(line.rstrip() for line in lines if line.strip())
        self._pieces = []
        if text.strip(" -"):
            yield Block(text if kind == "item" else text.strip(), kind)
