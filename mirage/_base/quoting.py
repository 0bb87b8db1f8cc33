"""Quote foreign text to write it safely into code, markup or another format.

Foreign text is any text that does not come from this library: names of files, models and metrics,
ids, questions, responses, messages of servers. Each function returns a quoted form of such a text.
When the quoted form is displayed or read back, it gives the original text. Nothing in it is active:
no code, markup, link or formula, and nothing that moves or hides text on a terminal. No other
module writes foreign text into other formats.

======================  ===========================================================
into                    function
======================  ===========================================================
terminals and logs      :func:`visible`, :func:`one_line`
JSON on a terminal      :func:`json_text`
Python                  :func:`python_literal`
shell commands          :func:`shell_word`
Markdown                :func:`markdown`, :func:`markdown_cell`
HTML                    :func:`html_text`, :func:`html_characters`, :func:`script_json`
XML                     :func:`xml_text`
LaTeX                   :func:`latex`
CSV                     :func:`csv_text`, read back by :func:`read_csv`
UTF-8                   :func:`utf8_text`, for the names of files
======================  ===========================================================
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from numbers import Number
from typing import Any

from mirage.errors import DatasetError

# Terminals and logs -------------------------------------------------------------------------------

# Control characters except tab and line feed, line separators, characters that set the direction
# of writing, default-ignorable characters (DerivedCoreProperties.txt of Unicode), surrogates and
# noncharacters. They are invisible, or change the order in which other characters are displayed.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_NON_JOINER, _JOINER = "\u200c", "\u200d"
# Blocks of scripts whose letters join, or form clusters: Arabic to Arabic Extended, Indic, Tibetan,
# Myanmar, Khmer, Mongolian, Balinese to Batak, Devanagari Extended, Javanese, Meetei Mayek, Brahmi
# to Gunjala Gondi, Hanifi Rohingya, Adlam.
_JOINING = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1b00-\u1bff\ua8e0-\ua8ff\ua980-\ua9df"
    "\uaae0-\uaaff\uabc0-\uabff\U00010d00-\U00010d3f\U00011000-\U00011daf\U0001e900-\U0001e95f]"
)
_MONGOLIAN = re.compile("[\u1820-\u1878\u1880-\u18aa]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_EMOJI = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf"
    "\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_BREAKS = re.compile("\r\n|[\t\n\r]")


def visible(text: str) -> str:
    r"""Return a text in which hidden characters are escaped, for a terminal or a log.

    Escapes look like ``\x1b``. Tabs and line feeds are kept. Joiners are kept between letters of
    scripts that need them, and variation selectors after characters that have variants. Applying
    the function to its result changes nothing.

    Example:
        >>> print(visible("a\x1b[2J\u202eb"))
        a\x1b[2J\u202eb
    """
    return _escape_hidden(text, _python_escape)


def one_line(text: str) -> str:
    r"""Return a text as :func:`visible` does, but on one line: tabs and line ends become spaces.

    Example:
        >>> one_line("two\nlines")
        'two lines'
    """
    return visible(_BREAKS.sub(" ", text))


def json_text(text: str, encoding: str = "utf-8") -> str:
    r"""Escape hidden characters in JSON for a terminal; the parsed value stays the same.

    Args:
        text: JSON.
        encoding: Encoding of the terminal. If it lacks a character of the text, all characters
            outside ASCII are escaped.

    Example:
        >>> print(json_text('{"id": "a\u202eb"}'))
        {"id": "a\u202eb"}
    """
    quoted = _escape_hidden(text, _json_escape)
    try:
        quoted.encode(encoding)
    except UnicodeEncodeError:
        return re.sub("[^\x00-\x7f]", lambda match: _json_escape(match[0]), quoted)
    return quoted


def _escape_hidden(text: str, escape: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(lambda match: match[0] if _is_needed(match) else escape(match[0]), text)


def _python_escape(char: str) -> str:
    return ascii(char)[1:-1] if char not in "\r" else r"\x0d"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _is_needed(match: re.Match[str]) -> bool:
    """Return whether a matched hidden character is part of the correct spelling of its word."""
    char, text, start, end = match[0], match.string, match.start(), match.end()
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    if char == _NON_JOINER:
        return _is_joining(before) and _is_joining(after)
    if char == _JOINER:
        # After a last letter, a joiner displays the form that the letter has within a word.
        return _is_joining(before) or (_is_emoji(before, text, start) and _in(_EMOJI, after))
    if char in "\ufe0e\ufe0f":
        return _in(_EMOJI, before) or (after == "\u20e3" and before in tuple("0123456789#*"))
    if "\ufe00" <= char <= "\ufe02" or "\U000e0100" <= char <= "\U000e01ef":
        return _in(_HAN, before)
    return char in "\u180b\u180c\u180d\u180f" and _in(_MONGOLIAN, before)


def _is_joining(char: str) -> bool:
    letter = _in(_JOINING, char) and unicodedata.category(char)[0] in "LM"
    return letter and not _in(_HIDDEN, char)


def _is_emoji(char: str, text: str, end: int) -> bool:
    return _in(_EMOJI, char) or (
        char == "\ufe0f" and end > 1 and _in(_EMOJI, text[end - 2 : end - 1])
    )


def _in(characters: re.Pattern[str], char: str) -> bool:
    return characters.fullmatch(char) is not None


def utf8_text(text: str) -> str:
    r"""Return a text in which escapes replace surrogates, which UTF-8 cannot encode.

    Python decodes bytes of a file name that are not UTF-8 as surrogates.

    Example:
        >>> print(utf8_text("a\udcff"))
        a\udcff
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# Python and shells --------------------------------------------------------------------------------


def python_literal(text: str) -> str:
    r"""Return a text as a Python string literal, in double quotes and on one line.

    Use it only in code. Never write foreign text into a comment or a docstring.

    Example:
        >>> print(python_literal('a" if f() else "b\n'))
        "a\" if f() else \"b\n"
    """
    # repr uses double quotes for a text with an apostrophe and without quotation marks.
    parts = (repr("'" + part)[2:-1] for part in text.split('"'))
    return '"' + r"\"".join(parts) + '"'


def shell_word(text: str) -> str:
    """Return a text as one word of a POSIX shell, for a command that users copy.

    Example:
        >>> shell_word("my files")
        "'my files'"
    """
    return shlex.quote(text)


# Markdown -----------------------------------------------------------------------------------------

# Text that GitHub and GitLab expand after they have rendered Markdown. Backslashes and entities do
# not prevent it; only code is exempt.
_EXPANDED = re.compile(
    r"""
      [@$] | [#~%] (?=[\w"{]) | [!&] (?=\d)             # mentions, references, labels, math
    | :// | (?:mailto|xmpp): | (?<![0-9A-Za-z]) (?i:www)\.  # addresses
    | : [\w+-]+ :                                       # emoji
    | (?<![0-9A-Za-z]) [0-9A-Fa-f]{7,} (?![0-9A-Za-z])  # commits
    | (?<![0-9A-Za-z]) (?: (?i:gh|gl) | [A-Z][A-Z0-9_]+ ) - (?=\d)  # GH-1, GL-1, JIRA-1
    | GHSA-                                             # advisories
    | \[\[ | \]\] | \[ (?i:_?toc_?) \]                  # pages of a wiki, tables of contents
    | \[ (?=[^\W\d][\w-]*:) | \* (?=\w+:)               # [issue:1], *iteration:1
    | \{ [+-] | [+-] \} | \[ [+-] (?!\d) | [+-] \]      # inline differences
    | ^/ (?=[^\W\d])                                    # commands such as /close
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"[(\[“]?[-+±]?\d[\d.,]*%?[)\]”]?[,;.]?")
_MARKUP = re.compile(r"[\\`*_\[\]<>|~&]")
# Headings, lists, rules, front matter of files and GitLab's ::include.
_STARTS_BLOCK = re.compile(r"[#=:;]|[+-](?=[+\- ]|$)|(?<=\d)[.)](?= |$)")
_AROUND = re.compile(r"([(“‘]*)(.*?)([)”’.,:;!?…]*)", re.DOTALL)


def markdown(text: str) -> str:
    r"""Return a text escaped as a paragraph of Markdown, for GitHub, GitLab and other services.

    These services expand some words after rendering: ``@name``, ``#1``, ``GH-1``, commits,
    addresses, ``:tada:``, ``/close``. Such words become code spans, which the services do not
    expand and which display and copy the same characters. Backslashes or entities would not help,
    because they are removed before this expansion; a zero-width space would be copied with the
    name. All other markup is escaped with backslashes. Numbers are unchanged.

    Example:
        >>> print(markdown("my_bot is worse, says @octocat: [0.1, 0.2]"))
        my\_bot is worse, says `@octocat`: [0.1, 0.2]
    """
    quoted = _markdown(text, cell=False)
    digits = re.match(r"\d{0,9}", quoted)
    start = _STARTS_BLOCK.match(quoted, digits.end() if digits else 0)
    return quoted if start is None else f"{quoted[: start.start()]}\\{quoted[start.start() :]}"


def markdown_cell(text: str) -> str:
    r"""Return a text as a table cell in Markdown; see :func:`markdown`.

    Example:
        >>> print(markdown_cell("a|b #1|2"))
        a\|b `#1\|2`
    """
    return _markdown(text, cell=True)


def _markdown(text: str, cell: bool) -> str:
    return " ".join(_markdown_word(word, cell) for word in one_line(text).split(" ")).strip(" ")


def _markdown_word(word: str, cell: bool) -> str:
    if not _EXPANDED.search(word):
        return _escape_markup(word)
    parts = _AROUND.fullmatch(word)
    before, code, after = parts.groups() if parts else ("", word, "")
    if not _EXPANDED.search(code):
        before, code, after = "", word, ""
    return _escape_markup(before) + _code_span(code, cell) + _escape_markup(after)


def _escape_markup(word: str) -> str:
    return word if _NUMBER.fullmatch(word) else _MARKUP.sub(r"\\\g<0>", word)


def _code_span(word: str, cell: bool) -> str:
    longest = max(map(len, re.findall("`+", word)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if "`" in (word[0], word[-1]) else ""
    # A table is split at its pipes before code is parsed. Only there, the backslash is removed.
    content = word.replace("|", r"\|") if cell else word
    return f"{fence}{padding}{content}{padding}{fence}"


# HTML, XML and LaTeX ------------------------------------------------------------------------------

# Characters that HTML forbids, or that UTF-8 cannot encode.
_INVALID_IN_HTML = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",
    "]": "{]}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def html_text(text: str) -> str:
    """Return a text on one line, escaped for use as text or attribute value in HTML.

    Example:
        >>> html_text('<b title="x">')
        '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(one_line(text))


def html_characters(text: str) -> str:
    r"""Return a text without characters that are invalid in HTML; the caller must escape markup.

    Control characters become visible symbols, and invalid characters become U+FFFD. Characters that
    set the direction of writing are kept: put them into an element that isolates them.

    Example:
        >>> html_characters("a\x00b")
        'a␀b'
    """
    if _INVALID_IN_HTML.search(text) is None:
        return text
    valid_text = (
        text.replace("\r\n", "\n").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
    return _INVALID_IN_HTML.sub(_visible_character, valid_text)


def _visible_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x7F:
        return "␡"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def script_json(value: Any) -> str:
    r"""Return a value as JSON for an HTML script element; special characters of HTML are escaped.

    Example:
        >>> print(script_json("</script>"))
        "\u003c/script\u003e"
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    valid_text = html_characters(text)
    return valid_text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def xml_text(text: str) -> str:
    r"""Return a text without characters that are invalid in XML; the caller must escape markup.

    Example:
        >>> print(xml_text("a\x00b"))
        a\x00b
    """
    return visible(text)  # escapes everything that section 2.2 of XML 1.0 excludes


def latex(text: str, *, number: bool = False) -> str:
    r"""Return a text on one line, escaped for LaTeX; with ``number``, ``-`` becomes a minus sign.

    Example:
        >>> print(latex("R&D_1 [50%]"))
        R\&D\_1 {[}50\%{]}
    """
    # Brackets are in braces, because LaTeX parses one after the end of a row as its option.
    escaped = "".join(_LATEX.get(char, char) for char in one_line(text))
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped) if number else escaped


# CSV ----------------------------------------------------------------------------------------------

# The start of a cell that spreadsheet programs parse as a formula. They skip blanks, quotation
# marks and invisible characters before the first symbol.
_FORMULA_START = r"""(?:[^\S\t\n\r]|["\x00\u200b-\u200f\u2060\ufeff])*[=+\-@＝＋－＠﹦﹢﹣﹫]"""
# Programs that expect another separator also begin cells after semicolons, tabs and line ends.
_FORMULA = re.compile(
    rf"(?:\A(?='*(?:[\t\n\r]|{_FORMULA_START}))|(?<=[;\t\n\r])(?='*{_FORMULA_START}))"
)
_ESCAPED_FORMULA = re.compile(
    rf"(?:\A'(?='*(?:[\t\n\r]|{_FORMULA_START}))|(?<=[;\t\n\r])'(?='*{_FORMULA_START}))"
)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV, escaped so that spreadsheet programs run no formulas.

    Texts that begin with ``=``, ``+``, ``-``, ``@``, a tab or a line end get an apostrophe in front
    (OWASP's rule against CSV injection). So do full-width symbols, and symbols after blanks,
    invisible characters, or a character that some programs treat as a cell separator.
    :func:`read_csv` removes the apostrophe. Numbers remain numbers, and NaN is blank. Surrogates,
    which UTF-8 cannot encode, are escaped.

    Args:
        header: The column names.
        rows: The cells of each row, in the order of the header.

    Example:
        >>> print(csv_text(["id", "change"], [["=1+1", -0.12]]), end="")
        "id","change"
        "'=1+1",-0.12
    """
    file = io.StringIO()
    # All texts are quoted, because Python 3.11 and 3.12 otherwise do not quote a carriage return.
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for row in (header, *rows):
        writer.writerow(map(_csv_cell, row))
    return utf8_text(file.getvalue())


def read_csv(text: str, source: str = "the table") -> list[dict[str, str]]:
    r"""Read comma-separated values, as :func:`csv_text` or a spreadsheet program writes them.

    The apostrophe that :func:`csv_text` writes before formulas is removed. If the first row has no
    comma between columns, semicolons and tabs are recognised too: spreadsheet programs write them
    in languages with a decimal comma, such as French and German.

    Args:
        text: The table as text. The first row has the column names.
        source: Name of the source in error messages, such as its path.

    Returns:
        One dict per row, which maps column names to cells.

    Raises:
        DatasetError: If the text is not valid CSV.

    Example:
        >>> read_csv('"id","change"\n"\'=1+1",-0.12\n')
        [{'id': '=1+1', 'change': '-0.12'}]
    """
    file = io.StringIO(text, newline="")
    reader = csv.DictReader(file, restkey="", delimiter=_separator(text))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise DatasetError(f"{source}, line {reader.line_num}: not valid CSV ({error})") from None
    return [
        {_restore_formula(name): _restore_formula(cell or "") for name, cell in row.items() if name}
        for row in rows
    ]


def _separator(text: str) -> str:
    """Return the character that separates the columns of a table: a comma, semicolon or tab."""
    with suppress(csv.Error, StopIteration):
        if len(next(csv.reader(io.StringIO(text, newline="")))) == 1:
            header = text.lstrip("\r\n").splitlines()[0]
            return csv.Sniffer().sniff(header, delimiters=",;\t").delimiter
    return ","


def _csv_cell(value: Any) -> Any:
    if isinstance(value, Number):
        return "" if isinstance(value, float) and math.isnan(value) else value
    return _FORMULA.sub("'", str(value))


def _restore_formula(cell: str) -> str:
    return _ESCAPED_FORMULA.sub("", cell)
