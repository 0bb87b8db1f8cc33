"""Parsing of Markdown with markdown-it-py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

import yaml
from markdown_it import MarkdownIt

from mirage.corpus._structure import TITLE_LENGTH, Block, BlockKind, Parsed

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_KINDS: Mapping[str, BlockKind] = {"fence": "code", "code_block": "code", "table_open": "table"}
_LITERAL = ("text", "code_inline", "softbreak")
_LISTS = ("bullet_list_open", "ordered_list_open")


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    # Only blocks are needed, and inline markup is the slow part.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def parse(content: bytes) -> Parsed:
    """Return the blocks of a file as source text, with their markup.

    Front matter, comments and link definitions are left out, because they are not visible on the
    page.
    """
    text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    front = _FRONT_MATTER.match(text)
    body = text[front.end() :] if front else text
    # markdown-it replaces NUL characters without changing line numbers.
    return Parsed([*_blocks(body)], _front_title(front[1] or "") if front else "")


def _front_title(source: str) -> str:
    try:
        fields = yaml.safe_load(source)
    except (yaml.YAMLError, RecursionError, ValueError):
        return ""
    title = fields.get("title") if isinstance(fields, dict) else None
    return title if isinstance(title, str) else ""


def _blocks(text: str) -> Iterator[Block]:
    lines = text.split("\n")
    tokens = _parser().parse(text)
    for number, token in enumerate(tokens):
        is_item = token.type == "list_item_open" and token.level == 1
        if token.map is None or not (is_item or (token.level == 0 and token.type not in _LISTS)):
            continue
        source = "\n".join(lines[token.map[0] : token.map[1]]).strip("\n").rstrip()
        if token.type == "heading_open":
            title = _without_markup(tokens[number + 1].content[: 4 * TITLE_LENGTH])
            yield Block(source, "heading", int(token.tag[1]), title)
            continue
        if token.type == "html_block":
            source = _COMMENT.sub("", source).strip()
        if source.strip():
            yield Block(source, "item" if is_item else _KINDS.get(token.type, "text"))


def _without_markup(source: str) -> str:
    (line,) = MarkdownIt("commonmark").parseInline(source)
    texts = (child.content for child in line.children or () if child.type in _LITERAL)
    return "".join(texts)
