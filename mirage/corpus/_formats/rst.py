"""Parsing of reStructuredText with docutils."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from mirage.corpus._structure import Block, Parsed
from mirage.errors import DatasetError, needing

LARGEST = 1_000_000
"""The largest length of a file, in characters; docutils takes minutes for longer files."""

_SETTINGS: dict[str, Any] = {
    # Directives that would read other files are disabled, for security.
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "report_level": 5,
    "halt_level": 6,
    "doctitle_xform": False,
    "warning_stream": False,
}
# Elements that are not visible on the page.
_LEFT_OUT = ("comment", "target", "substitution_definition", "pending", "meta", "raw")
_HIDDEN = (".. raw::", ".. include::")
_CODE = ("literal_block", "doctest_block", "math_block")
_LISTS = ("bullet_list", "enumerated_list", "definition_list", "field_list", "option_list")
_TEXT = ("paragraph", "rubric", "attribution", "line", "caption", "term", "footnote", "citation")


def parse(content: bytes) -> Parsed:
    """Return the headings, paragraphs, code, list items and tables, with their inline markup.

    Directives that docutils does not support, such as Sphinx's, are returned as source text.
    """
    with needing("docutils"):
        from docutils.core import publish_doctree
        from docutils.parsers.rst import Parser
        from docutils.parsers.rst.states import Inliner

    text = content.decode("utf-8-sig")
    if len(text) > LARGEST:
        raise DatasetError(
            f"the file has {len(text)} characters, but at most {LARGEST} can be parsed as "
            "reStructuredText; split the file"
        )
    settings = _SETTINGS | {"line_length_limit": len(text) + 1}
    inliner = Inliner()
    # Do not parse inline markup: blocks keep their source, and parsing takes quadratic time in the
    # length of a line.
    inliner.parse = _keep_source  # type: ignore[method-assign,assignment]
    parser = Parser(inliner=inliner)
    document = publish_doctree(text, parser=parser, settings_overrides=settings)
    return Parsed([block for block in _blocks(document, 0) if block.text.strip()])


def _keep_source(text: str, *_: Any) -> Any:
    from docutils.nodes import Text

    return [Text(text)], []


def _blocks(parent: Any, level: int) -> Iterator[Block]:
    for node in parent.children:
        name = node.tagname
        if name in _LEFT_OUT:
            continue
        if name == "section":
            yield from _blocks(node, level + 1)
        elif name in ("title", "subtitle") and level and parent.tagname == "section":
            yield Block(node.astext(), "heading", level, node.astext().replace("`", ""))
        elif name in _CODE:
            yield Block(_code(node), "code")
        elif name == "system_message":
            # docutils attaches the source that it could not parse to its error message.
            sources = [child for child in node.children if child.tagname == "literal_block"]
            hidden = any(child.astext().startswith(_HIDDEN) for child in sources)
            yield from () if hidden else (Block(_code(child), "code") for child in sources)
        elif name in _LISTS:
            yield from _items(node)
        elif name == "table":
            yield Block(_table(node), "table")
        elif name in _TEXT or not node.children or name == "#text":
            yield Block(_source(node))
        else:
            yield from _blocks(node, level)


def _code(node: Any) -> str:
    return textwrap.indent(node.astext().rstrip(), "    ")


def _source(node: Any) -> str:
    """Return the source text of a paragraph, including its markup."""
    return str(getattr(node, "rawsource", "") or node.astext())


def _items(parent: Any) -> Iterator[Block]:
    for number, item in enumerate(parent.children, parent.get("start", 1)):
        mark = {"enumerated_list": f"{number}. ", "bullet_list": "- "}.get(parent.tagname, "")
        texts = [block.text.rstrip() for block in _blocks(item, 0) if block.text.strip()]
        body = textwrap.indent("\n".join(texts), " " * len(mark))
        yield Block(mark + body.lstrip(), "item")


def _table(node: Any) -> str:
    rows = (child for child in node.findall() if child.tagname == "row")
    titles = [child.astext() for child in node.children if child.tagname == "title"]
    lines = (" | ".join(" ".join(cell.astext().split()) for cell in row.children) for row in rows)
    return "\n".join([*titles, *lines])
