"""What of HTML and Markdown is live: for the tests of what is written from foreign text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import cmarkgfm
from cmarkgfm.cmark import Options
from markdown_it import MarkdownIt

# In text that is not code, as the documentation of GitHub and of GitLab has them.
GITHUB = re.compile(
    r"""@[a-z0-9] | \#\d | \bgh-\d | \b[0-9a-f]{7,40}\b | \w+://\S | \bwww\.\S | \bmailto:
    | :[\w+-]+: | \$ | \bGHSA-\w | \bCVE-\d""",
    re.VERBOSE | re.IGNORECASE,
)
GITLAB = re.compile(
    r"""[@~%][\w"{] | [\#!&$%~]\d | \bgl-\d | \b[A-Z][A-Z0-9_]+-\d | \[\[ | \]\] | \[[a-z_]+:
    | \[(?i:toc)\] | \*[a-z]+: | \{\+ | \+\} | \[\+\s | \[-\s | -\](?!\d)""",
    re.VERBOSE,
)
IN_A_LINE = {"text", "text_special", "code_inline", "strong_open", "strong_close"}
TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
BLOCKS = {"paragraph", *TABLE}
COMMONMARK = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class Page(HTMLParser):
    """The elements, attributes and texts of HTML; code apart from all other text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.blocks: list[str] = []
        self.texts: list[str] = []
        self._code = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._code = tag == "code"
        if tag in ("p", "th", "td", "bdi"):
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self._code = self._code and tag != "code"

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.texts.append(data)
        if self.blocks:
            self.blocks[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def outside_code(markdown_text: str) -> Iterator[str]:
    """The texts that GitHub and GitLab look at, after checks that there is no markup."""
    for block in COMMONMARK.parse(markdown_text):
        assert block.type.rpartition("_")[0] in BLOCKS or block.type == "inline", block.type
        run = ""
        for token in block.children or ():
            assert token.type in IN_A_LINE, token.type
            if token.type in ("text", "text_special"):
                run += token.content
                continue
            yield run
            run = ""
        yield run
    html = cmarkgfm.github_flavored_markdown_to_html(
        markdown_text, Options.CMARK_OPT_FOOTNOTES | Options.CMARK_OPT_UNSAFE
    )
    page = Page(html)
    assert {*page.tags} <= {"p", "code", "strong", *TABLE}, page.tags
    yield from page.texts
