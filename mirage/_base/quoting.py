r"""Quoting of foreign text: the one module that writes it into another language.

Foreign text is whatever this library did not write itself: names of files, models and metrics,
ids, questions, responses, messages of servers. Each function returns a form of such a text that is
shown, or read back, as that text, and in which nothing is live: no code, markup, link or formula,
and nothing that moves or hides text on a terminal.

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
from numbers import Number
from typing import Any

from mirage.errors import DatasetError

__all__ = [
    "csv_text",
    "html_characters",
    "html_text",
    "json_text",
    "latex",
    "markdown",
    "markdown_cell",
    "one_line",
    "python_literal",
    "read_csv",
    "script_json",
    "shell_word",
    "utf8_text",
    "visible",
    "xml_text",
]

# Terminals and logs -------------------------------------------------------------------------------

# Control characters except tab and line feed, line separators, characters that set the direction
# of writing, default-ignorable characters (DerivedCoreProperties.txt of Unicode), surrogates and
# noncharacters. Readers do not see them, or see other characters in another order because of them.
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
    r"""Return a text for a terminal or a log; hidden characters are escapes such as ``\x1b``.

    Tabs and line feeds stay. Joiners stay between letters of the scripts that are written with
    them, and variation selectors behind the characters that have variants. Quoting a text twice
    changes nothing.

    >>> print(visible("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb
    """
    return _escape_hidden(text, _python_escape)


def one_line(text: str) -> str:
    r"""Return what :func:`visible` does, on one line: tabs and line ends become blanks.

    >>> one_line("two\nlines")
    'two lines'
    """
    return visible(_BREAKS.sub(" ", text))


def json_text(text: str, encoding: str = "utf-8") -> str:
    r"""Return JSON for a terminal; it parses to the same value.

    Args:
        text: Any JSON.
        encoding: The encoding of the terminal. If it lacks a character of the text, everything
            outside ASCII is escaped.

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
    """Return whether a hidden character is part of how the word around it is written."""
    char, text, start, end = match[0], match.string, match.start(), match.end()
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    if char == _NON_JOINER:
        return _is_joining(before) and _is_joining(after)
    if char == _JOINER:
        # Behind a last letter it shows the form that the letter has within a word.
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
    r"""Return a text that UTF-8 can hold; surrogates are escapes.

    Python reads bytes of a file's name that are not UTF-8 as surrogates.

    >>> print(utf8_text("a\udcff"))
    a\udcff
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# Python and shells --------------------------------------------------------------------------------


def python_literal(text: str) -> str:
    r"""Return a string literal of Python, in double quotes and on one line.

    Use it in code only. A comment or a docstring has no place for foreign text.

    >>> print(python_literal('a" if f() else "b\n'))
    "a\" if f() else \"b\n"
    """
    # A text with an apostrophe and no quotation mark is one whose repr is in double quotes.
    parts = (repr("'" + part)[2:-1] for part in text.split('"'))
    return '"' + r"\"".join(parts) + '"'


def shell_word(text: str) -> str:
    """Return one word of a POSIX shell, for a command that users are to copy.

    >>> shell_word("my files")
    "'my files'"
    """
    return shlex.quote(text)


# Markdown -----------------------------------------------------------------------------------------

# What GitHub and GitLab turn into something after they have rendered Markdown, so that neither a
# backslash nor an entity stops it: only code is exempt.
_LIVE = re.compile(
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
    r"""Return a text as a paragraph of Markdown, for GitHub, GitLab and other readers.

    Words that these services link, expand or obey after rendering (``@name``, ``#1``, ``GH-1``,
    commits, addresses, ``:tada:``, ``/close``) become code spans. Both services exempt code, and a
    code span shows and copies the same characters. A backslash or an entity is gone before they
    look for references, and a zero-width space would be copied with the name. All other markup is
    escaped by backslashes. Numbers stay as they are.

    >>> print(markdown("my_bot is worse, says @octocat: [0.1, 0.2]"))
    my\_bot is worse, says `@octocat`: [0.1, 0.2]
    """
    quoted = _markdown(text, cell=False)
    digits = re.match(r"\d{0,9}", quoted)
    start = _STARTS_BLOCK.match(quoted, digits.end() if digits else 0)
    return quoted if start is None else f"{quoted[: start.start()]}\\{quoted[start.start() :]}"


def markdown_cell(text: str) -> str:
    r"""Return a text as a cell of a table in Markdown; see :func:`markdown`.

    >>> print(markdown_cell("a|b #1|2"))
    a\|b `#1\|2`
    """
    return _markdown(text, cell=True)


def _markdown(text: str, cell: bool) -> str:
    return " ".join(_markdown_word(word, cell) for word in one_line(text).split(" ")).strip(" ")


def _markdown_word(word: str, cell: bool) -> str:
    if not _LIVE.search(word):
        return _backslashed(word)
    around = _AROUND.fullmatch(word)
    before, code, after = around.groups() if around else ("", word, "")
    if not _LIVE.search(code):
        before, code, after = "", word, ""
    return _backslashed(before) + _code_span(code, cell) + _backslashed(after)


def _backslashed(word: str) -> str:
    return word if _NUMBER.fullmatch(word) else _MARKUP.sub(r"\\\g<0>", word)


def _code_span(word: str, cell: bool) -> str:
    longest = max(map(len, re.findall("`+", word)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if "`" in (word[0], word[-1]) else ""
    # A table is cut at its pipes before code is read, and a backslash is dropped there alone.
    content = word.replace("|", r"\|") if cell else word
    return f"{fence}{padding}{content}{padding}{fence}"


# HTML, XML and LaTeX ------------------------------------------------------------------------------

# What HTML forbids, and what no UTF-8 file can hold.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
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
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def html_text(text: str) -> str:
    """Return a text on one line as text or an attribute of HTML.

    >>> html_text('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(one_line(text))


def html_characters(text: str) -> str:
    """Return a text whose characters HTML and UTF-8 can hold, for a writer that escapes markup.

    Control characters become visible signs, and U+FFFD replaces what is no character. Characters
    that set the direction of writing stay: put them into an element that isolates them.

    >>> html_characters("a\\x00b")
    'a␀b'
    """
    if _UNFIT.search(text) is None:
        return text
    whole = text.replace("\r\n", "\n").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _UNFIT.sub(_sign, whole)


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x7F:
        return "␡"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def script_json(value: Any) -> str:
    """Return JSON for a script element of HTML; no character of it means anything to HTML.

    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    fit = html_characters(text)
    return fit.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def xml_text(text: str) -> str:
    r"""Return a text whose characters XML can hold, for a writer that escapes markup.

    >>> print(xml_text("a\x00b"))
    a\x00b
    """
    return visible(text)  # which escapes everything that section 2.2 of XML 1.0 excludes


def latex(text: str, *, number: bool = False) -> str:
    r"""Return a text on one line as LaTeX.

    Args:
        text: Any text.
        number: Set a hyphen before a digit as a minus sign.

    >>> print(latex("R&D_1 [50%]"))
    R\&D\_1 {[}50\%{]}
    """
    # Brackets are in braces because LaTeX reads one behind the end of a row as its option.
    escaped = "".join(_LATEX.get(char, char) for char in one_line(text))
    return re.sub(r"(?<![\w.])-(?=\d)", "$-$", escaped) if number else escaped


# CSV ----------------------------------------------------------------------------------------------

# What spreadsheet programs take for a formula, at the start of a cell. They skip blanks, quotation
# marks and invisible characters before the sign.
_SIGN = r"""(?:[^\S\t\n\r]|["\x00\u200b-\u200f\u2060\ufeff])*[=+\-@＝＋－＠﹦﹢﹣﹫]"""
# Programs that expect another separator begin cells behind semicolons, tabs and line ends too.
_FORMULA = re.compile(rf"(?:\A(?='*(?:[\t\n\r]|{_SIGN}))|(?<=[;\t\n\r])(?='*{_SIGN}))")
_DEFUSED = re.compile(rf"(?:\A'(?='*(?:[\t\n\r]|{_SIGN}))|(?<=[;\t\n\r])'(?='*{_SIGN}))")


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as comma-separated values; no text in it is a formula of a spreadsheet.

    Texts that begin with ``=``, ``+``, ``-``, ``@``, a tab or a line end get an apostrophe in
    front, also behind blanks and invisible characters, in full width, and wherever a program with
    another separator would begin a cell (OWASP's rule against CSV injection). :func:`read_csv`
    removes it. Numbers stay numbers, and NaN is blank. Surrogates, which UTF-8 cannot hold, are
    escapes.

    >>> print(csv_text(["id", "change"], [["=1+1", -0.12]]), end="")
    "id","change"
    "'=1+1",-0.12
    """
    file = io.StringIO()
    # Python 3.11 and 3.12 leave a carriage return without quotation marks unless all texts have
    # them.
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for row in (header, *rows):
        writer.writerow(map(_csv_cell, row))
    return utf8_text(file.getvalue())


def read_csv(text: str, source: str = "the table") -> list[dict[str, str]]:
    r"""Read comma-separated values, as :func:`csv_text` or a spreadsheet program writes them.

    Args:
        text: The values, with a header.
        source: What errors call it, such as its path.

    Raises:
        DatasetError: The text is not CSV.

    >>> read_csv('"id","change"\n"\'=1+1",-0.12\n')
    [{'id': '=1+1', 'change': '-0.12'}]
    """
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="")
    try:
        rows = list(reader)
    except csv.Error as error:
        raise DatasetError(f"{source}, line {reader.line_num}: is not CSV ({error})") from None
    return [
        {_with_formulas(name): _with_formulas(cell or "") for name, cell in row.items() if name}
        for row in rows
    ]


def _csv_cell(value: Any) -> Any:
    if isinstance(value, Number):
        return "" if isinstance(value, float) and math.isnan(value) else value
    return _FORMULA.sub("'", str(value))


def _with_formulas(cell: str) -> str:
    return _DEFUSED.sub("", cell)
