"""Test that foreign text remains text in every language that it is written into."""

from __future__ import annotations

import ast
import csv
import io
import itertools
import json
import os
import re
import subprocess
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import cmarkgfm
import pytest
from cases import each_case
from foreign_texts import CODE, CONTROLS, FOREIGN, FORMULAS, MARKUP, PIECES, REFERENCES, SCRIPTS
from hypothesis import given, settings
from live_markup import COMMONMARK, GITHUB, GITLAB, Page, outside_code
from syntax import nodes, source_of

import mirage
from mirage._base.quoting import (
    csv_text,
    json_text,
    latex,
    markdown,
    one_line,
    python_literal,
    read_csv,
    script_json,
    shell_word,
    utf8_text,
    visible,
    xml_text,
)
from mirage._base.tables import Table, to_html, to_latex, to_markdown, to_text
from mirage.errors import DatasetError

Check = Callable[[str], None]

# Terminals ----------------------------------------------------------------------------------------

# Format characters that are seen: signs that enclose numbers, and joins of hieroglyphs.
SEEN = {*map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))}
SEEN |= {chr(code) for code in range(0x13430, 0x13460)}
JOINERS = "\u200c\u200d"
BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
SELECTORS = {*map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x180B, 0x180C, 0x180D))}
SELECTORS.add("\u180f")


def hidden(text: str, lines: str = "\t\n") -> list[str]:
    """Return the characters of a text that a terminal obeys or that are invisible."""
    return [
        char
        for i, char in enumerate(text)
        if (unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") and char not in lines)
        or char in BLANK
        or (char in SELECTORS and not has_variants(text[max(0, i - 1) : i], text[i + 1 : i + 2]))
        or (char in JOINERS and not joins(text[max(0, i - 2) : i], char, text[i + 1 : i + 2]))
        or (unicodedata.category(char) == "Cf" and char not in SEEN and char not in JOINERS)
    ]


def has_variants(before: str, after: str) -> bool:
    if not before:
        return False
    tone = "\U0001f3fb" <= before <= "\U0001f3ff"
    picture = tone or unicodedata.category(before) in ("So", "Sm", "Cn") or before in "‼⁉〰ℹ"
    words = unicodedata.name(before, "").split()
    return picture or "MONGOLIAN" in words or after == "\u20e3" or words[:1] == ["CJK"]


def joins(before: str, joiner: str, after: str) -> bool:
    last = before[-1:]
    joined = bool(last) and unicodedata.category(last)[0] in "LM" and last not in SELECTORS
    if joiner == "\u200c":
        return joined and not last.isascii() and bool(after) and not after.isascii()
    pictures = before.rstrip("\ufe0f")[-1:]
    return (joined and not last.isascii()) or (bool(pictures) and not pictures.isalnum())


def unescaped(text: str) -> str:
    return re.sub(
        r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))",
        lambda match: chr(int(match[1] or match[2] or match[3], 16)),
        text,
    )


def check_terminal(text: str) -> None:
    displayed = visible(text)
    assert hidden(displayed) == []
    assert unescaped(displayed) == unescaped(text)
    assert visible(displayed) == displayed
    assert hidden(one_line(text), lines="") == []
    table = Table(text, ("name", text), ((text, "1"),), notes=(text,), name=0)
    lines = to_text(table).replace("\u2068", "").replace("\u2069", "")
    assert hidden(lines) == []


def check_json(text: str) -> None:
    plain = json.dumps({text: [text]}, ensure_ascii=False)
    for encoding in ("utf-8", "latin-1", "ascii"):
        displayed = json_text(plain, encoding)
        # JSON has no way to tell two surrogates from the character that they are halves of.
        assert json.loads(displayed) == json.loads(json.dumps({text: [text]}))
        assert hidden(displayed) == []
        displayed.encode(encoding)


# Python and shells --------------------------------------------------------------------------------


def check_python(text: str) -> None:
    literal = python_literal(text)
    assert ast.literal_eval(literal) == text
    assert literal.isprintable()
    names: dict[str, object] = {}
    exec(f"a = {literal}  # {literal}\nb = [{literal}, 1]", names)
    assert (names["a"], names["b"]) == (text, [text, 1])


# Markdown -----------------------------------------------------------------------------------------


def check_markdown(text: str) -> None:
    table = Table(text, (text, "n"), ((text, "1"), (text, "2")), (True, False), (text,), name=0)
    source = to_markdown(table)
    assert hidden(source) == []
    for outside in outside_code(source):
        assert GITHUB.search(outside) is None, outside
        assert GITLAB.search(outside) is None, outside
    for line in source.split("\n"):
        assert re.match(r"/\w|\s*::include|---$|\+\+\+$|;;;$", line) is None
    # Everything is there, and can be copied.
    displayed = one_line(text).strip()
    # Markdown drops a paragraph of blanks, and keeps one of other spaces.
    paragraphs = [displayed] if one_line(text).strip(" ") else []
    want = [*paragraphs, displayed, "n", displayed, "1", displayed, "2", *paragraphs]
    for html in (COMMONMARK.render(source), cmarkgfm.github_flavored_markdown_to_html(source)):
        assert [block.strip() for block in Page(html).blocks] == want


# HTML, XML and LaTeX ------------------------------------------------------------------------------


def check_html(text: str) -> None:
    table = Table(text, (text, "n"), ((text, "1"),), notes=(text,), name=0)
    page = Page(to_html(table))
    plain = Page(to_html(Table("a", ("a", "n"), (("a", "1"),), notes=("a",), name=0)))
    assert (page.tags, page.attributes) == (plain.tags, plain.attributes)
    assert page.blocks[0] == one_line(text)
    inside = script_json([text])
    assert not set("<>&") & set(inside)


def check_xml(text: str) -> None:
    element = ElementTree.Element("a", {"b": xml_text(text)})
    element.text = xml_text(text)
    read = ElementTree.fromstring(ElementTree.tostring(element))
    assert (read.text or "", read.get("b")) == (xml_text(text), xml_text(text))
    assert unescaped(read.text or "") == unescaped(text)


LATEX = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textbar{}": "|",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textasciigrave{}": "`",
    "{[}": "[",
    "{]}": "]",
    **{f"\\{sign}": sign for sign in "&%$#_{}"},
}
LATEX_TOKEN = re.compile("|".join(map(re.escape, LATEX)) + r"|[^\\{}$&#^_~%]")


NOTES = r"\par\smallskip\parbox{\linewidth}{\footnotesize\raggedright"


def check_latex(text: str) -> None:
    source = latex(text)
    tokens = LATEX_TOKEN.findall(source)
    assert "".join(tokens) == source
    assert "".join(LATEX.get(token, token) for token in tokens) == one_line(text)
    lines = to_latex(Table("", ("a",), (("b",),), notes=(text,), name=0)).split("\n")
    assert lines[0] == r"\begin{table}"
    assert lines[-4:] == [NOTES, rf"{source}\par", "}", r"\end{table}"]


# CSV ----------------------------------------------------------------------------------------------

SKIPPED = '"\x00\u200b\u200c\u200d\u200e\u200f\u2060\ufeff'


def check_csv(text: str) -> None:
    source = csv_text(["id", "text", "n"], [[text, "a", -0.5], ["b", text, float("nan")]])
    source.encode("utf-8")
    want = utf8_text(text)
    assert read_csv(source) == [
        {"id": want, "text": "a", "n": "-0.5"},
        {"id": "b", "text": want, "n": ""},
    ]
    for separator in ",;\t":
        for row in csv.reader(io.StringIO(source, newline=""), delimiter=separator):
            for cell in row:
                sign = re.sub(rf"\A[\s{SKIPPED}]+", "", cell)[:1]
                assert separator != "," or cell[:1] not in tuple("\t\r\n")
                assert cell == "-0.5" or sign not in tuple("=+-@＝＋－＠﹦﹢﹣﹫")


# All of them --------------------------------------------------------------------------------------

CHECKS: dict[str, Check] = {
    "Python": check_python,
    "Markdown": check_markdown,
    "CSV": check_csv,
    "HTML": check_html,
    "a terminal": check_terminal,
    "JSON": check_json,
    "XML": check_xml,
    "LaTeX": check_latex,
}


@pytest.mark.parametrize("language", CHECKS)
@pytest.mark.parametrize(
    "forms",
    [
        ("{}", "a {} b"),
        pytest.param(("{} {}", "x{}", "({})", "{}.", "{}x"), marks=pytest.mark.slow),
    ],
)
def test_no_piece_of_an_attack_is_live(language: str, forms: tuple[str, ...]) -> None:
    for form, piece in itertools.product(forms, PIECES):
        CHECKS[language](form.replace("{}", piece))


@pytest.mark.parametrize("language", CHECKS)
@settings(deadline=None)
@given(text=FOREIGN)
def test_any_text_stays_that_text(language: str, text: str) -> None:
    CHECKS[language](text)


# MIRAGE_EXAMPLES=20000 tries 100,000 texts in the five languages, which takes six minutes.
EXAMPLES = int(os.environ.get("MIRAGE_EXAMPLES", "1000"))


@pytest.mark.slow
@pytest.mark.parametrize("language", list(CHECKS)[:5])
@settings(max_examples=EXAMPLES, deadline=None)
@given(text=FOREIGN)
def test_none_of_many_texts_escapes(language: str, text: str) -> None:
    CHECKS[language](text)


# What it looks like -------------------------------------------------------------------------------


@each_case(
    ("text", "quoted"),
    [
        (
            "no worse in answer_match (ours, alpha 0.05).",
            r"no worse in answer\_match (ours, alpha 0.05).",
        ),
        ("[0.12, 0.40], -0.3, 95 %, 1,000", "[0.12, 0.40], -0.3, 95 %, 1,000"),
        ("meta-llama/Llama-3-8B and gpt-4o", "meta-llama/Llama-3-8B and gpt-4o"),
        ("worse in citation_recall@10, R@5.", "worse in `citation_recall@10`, `R@5`."),
        ("# model", r"\# model"),
        ("1. model", r"1\. model"),
        ("- model", r"\- model"),
        ("/close", "`/close`"),
        ("a`b@c", "``a`b@c``"),
        ("`@c`", "`` `@c` ``"),
        ("R&D <b> [x](y)", r"R\&D \<b\> \[x\](y)"),
    ],
)
def test_markdown_quotes_the_words_that_need_it_and_no_other(text: str, quoted: str) -> None:
    assert markdown(text) == quoted


@each_case("text", SCRIPTS)
def test_words_that_are_written_with_joiners_keep_them(text: str) -> None:
    assert visible(text) == text
    assert json_text(text) == text


@each_case("text", [*CONTROLS, "ad\u200cmin", "a\u200d", "\u200cمن", "a\ufe0f"])
def test_hidden_characters_are_escapes(text: str) -> None:
    assert visible(text).isprintable()
    assert unescaped(visible(text)) == text


@each_case("text", [*REFERENCES, *MARKUP])
def test_only_hidden_characters_are_escapes(text: str) -> None:
    assert visible(text) == text


@each_case("text", sorted({*FORMULAS} - {"a,=1"}))
def test_every_formula_has_an_apostrophe_and_numbers_have_none(text: str) -> None:
    assert "'" in csv_text(["a"], [[text]])
    assert csv_text(["a"], [[-0.12]]).endswith("\n-0.12\n")
    assert read_csv(csv_text(["a"], [[text]])) == [{"a": text}]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_separators_of_spreadsheet_programs_are_recognised(
    separator: str, quoting: Literal[0, 1]
) -> None:
    rows = [["id", "text", "answers"], ["q1", "a;b, c\td\n1,5", "x | y"], ["q2", "", "'=1+1;"]]
    file = io.StringIO()
    csv.writer(file, delimiter=separator, quoting=quoting).writerows(rows)
    cells = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    cells[1]["answers"] = "=1+1;"
    assert read_csv(file.getvalue()) == cells


def test_invalid_csv_raises_one_error() -> None:
    with pytest.raises(DatasetError, match=r"sheet.csv, line \d: not valid CSV"):
        read_csv(f"a\n{'x' * (csv.field_size_limit() + 1)}\n", "sheet.csv")


@each_case("text", sorted({*CODE} - {"\ud83d\ude00"}))  # no name of a file
def test_a_shell_reads_one_word(text: str) -> None:
    completed = subprocess.run(
        ["sh", "-c", f"printf %s {shell_word(text)}"], capture_output=True, check=True
    )
    assert os.fsdecode(completed.stdout) == text


# No other module quotes ---------------------------------------------------------------------------

PACKAGE = Path(mirage.__file__).parent
QUOTING = "mirage/_base/quoting.py"
# Modules and functions of the standard library and pandas that quote, or that show text.
QUOTERS = {"csv", "html", "shlex", "xml.sax", "xml.sax.saxutils", "markupsafe", "pipes"}
CALLS = {
    "ascii",
    "print",
    "html.escape",
    "shlex.quote",
    "csv.writer",
    "csv.DictWriter",
    "typer.echo",
}
METHODS = {"writerow", "secho", "to_csv"}
ERRORS = {"backslashreplace", "xmlcharrefreplace", "namereplace", "unicode_escape"}
# `ResultTable.to_csv` calls its rendering, and one module of the CLI writes to terminals.
ALLOWED = {
    ("mirage/_base/files.py", "csv"),  # it reads, and writes nothing
    ("mirage/grids/tables.py", "to_csv"),
    ("mirage/cli/_output.py", "typer.echo"),
    ("mirage/cli/_output.py", "backslashreplace"),
    # A prompt, in which quotation marks are for the LLM.
    ("mirage/metaeval/prompts.py", 'quotation marks around a value: "{}"'),
}


def quoting_in(module: Iterable[ast.AST]) -> Iterator[str]:
    """Return the names with which a module quotes text itself."""
    for node in module:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in QUOTERS)
        elif isinstance(node, ast.ImportFrom) and node.module in QUOTERS:
            yield node.module
        elif isinstance(node, ast.Call):
            name = source_of(node.func)
            if name in CALLS:
                yield name
            elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
                yield node.func.attr
        elif isinstance(node, ast.Constant) and node.value in ERRORS:
            yield str(node.value)
        elif isinstance(node, ast.JoinedStr) and re.search(r"\"\{|\{[^}]*\}\"", literal_of(node)):
            yield f"quotation marks around a value: {literal_of(node)}"


def literal_of(node: ast.JoinedStr) -> str:
    """Return an f-string with ``{}`` for its values."""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
    )


def test_the_reader_of_quoting_sees_it() -> None:
    source = (
        "import csv\nfrom html import escape\nprint(ascii(x))\nf'x = \"{y}\"'\ntable.to_csv()\n"
    )
    uses = {use.partition(":")[0] for use in quoting_in(ast.walk(ast.parse(source)))}
    assert uses == {"csv", "html", "print", "ascii", "to_csv", "quotation marks around a value"}


def test_one_module_alone_quotes_text() -> None:
    faults = [
        (name, use)
        for path in sorted(PACKAGE.rglob("*.py"))
        if (name := path.relative_to(PACKAGE.parent).as_posix()) != QUOTING
        for use in quoting_in(nodes(path))
        if (name, use) not in ALLOWED
    ]
    assert faults == []
