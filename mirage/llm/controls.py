"""Removal of control tokens, such as those of chat templates, from untrusted texts.

If a passage contains a token of the chat template, a server may end the user's turn there and treat
the rest as instructions. A judge that quotes a passage may repeat a verdict in it. Servers and
judges may also recognize a token that is disguised by invisible characters, full-width letters or
look-alikes. Therefore, the functions of this module search for tokens in the :class:`Skeleton` of a
text, a copy without such disguises, and replace them in the text itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

Break = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]
"""A pattern to search for in the skeleton of a text, and its replacement."""


# Characters ---------------------------------------------------------------------------------------

# Controls, format characters, surrogates, private use and unassigned code points. Together with the
# marks and letters below they include all of Default_Ignorable_Code_Point (Unicode 16, section
# 5.21), which is Cf, Variation_Selector and Other_Default_Ignorable_Code_Point.
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_UNSEEN_MARKS = frozenset(
    "\u034f\u17b4\u17b5\u180b\u180c\u180d\u180f"  # grapheme joiner, Khmer vowels, Mongolian
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))  # variation selectors
)
# Letters and symbols without ink: Hangul fillers, the blank of Braille, a musical null note head,
# the placeholder of an object.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\U0001d159\ufffc")
_LINE_BREAKS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")

# Cyrillic and Greek letters that look like Latin ones.
_LETTERS = str.maketrans(
    "АВСЕНІЈКМОРЅТХУԁԍаеорсухіјѕһԛԝӏΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορτυικ",
    "ABCEHIJKMOPSTXYdgaeopcyxijshqwlABEZHIKMNOPTYXavoptuik",
)


def is_unseen(char: str) -> bool:
    """Return whether a character is invisible and is not white space."""
    if char.isspace():
        return False
    unseen = char in _BLANK or char in _UNSEEN_MARKS
    return unseen or unicodedata.category(char) in _UNSEEN_CATEGORIES


def visible(text: str) -> str:
    """Return a text without its invisible characters; white space stays.

    Example:
        >>> visible("[[\\u200bA]]")
        '[[A]]'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if not is_unseen(char))


@cache
def _simplify(char: str) -> str:
    """Return the ASCII characters that a character looks like; "" if it is invisible.

    A character that looks like no ASCII character is returned in Unicode form NFKD, without its
    accents and other combining marks.
    """
    if char in _LINE_BREAKS:
        return "\n"
    if char.isspace():
        return " "
    if is_unseen(char) or unicodedata.category(char) in ("Mn", "Me"):
        return ""
    forms = unicodedata.normalize("NFKD", char)
    return "".join(map(_look_alike, forms)).translate(_LETTERS)


def _look_alike(char: str) -> str:
    if char.isascii() or char.isspace():
        return char if char.isascii() else " "
    if is_unseen(char) or unicodedata.category(char) in ("Mn", "Me"):
        return ""
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    return _sign(unicodedata.name(char, "")) or char


def _sign(name: str) -> str:
    """Return the ASCII brackets or bar that a character with this Unicode name looks like.

    The result is empty if the character looks like neither.
    """
    words = frozenset(name.replace("-", " ").split())
    if "BRACKET" in words or {"ANGLE", "SINGLE"} <= words:
        opens = "LEFT" in words or ("TOP" in words and "RIGHT" not in words)
        if not opens and not words & {"RIGHT", "BOTTOM"}:
            return ""
        if "ANGLE" in words:
            return "" if "DOUBLE" in words else "<" if opens else ">"
        if "CURLY" in words:
            return "{" if opens else "}"
        return ("[" if opens else "]") * (2 if {"WHITE", "SQUARE"} <= words else 1)
    if "VERTICAL" in words and words & {"LINE", "BAR"} and "HORIZONTAL" not in words:
        return "|"
    return ""


# Texts --------------------------------------------------------------------------------------------


class Skeleton:
    """A simplified copy of a text, as a careless reader may see it.

    The skeleton has no invisible characters and no combining marks. Line breaks become ``\\n``, and
    other blanks become spaces. Letters, digits, brackets and bars become the ASCII characters that
    they look like. For each character, the skeleton stores its position in the original text.
    """

    def __init__(self, source: str) -> None:
        self.source: str = source
        self.text: str = source
        self._positions: list[int] | range = range(len(source))
        if not (source.isascii() and source.translate(_PLAIN_BREAKS).isprintable()):
            forms = [_simplify(char) for char in source]
            self.text = "".join(forms)
            self._positions = [position for position, form in enumerate(forms) for _ in form]

    def replace(self, pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str]) -> str:
        """Return the source text after replacing the matches of a pattern in the skeleton.

        All other characters of the source stay as they are. If the replacement is equal to the
        matched text of the skeleton, the source is not changed there, even if it contains
        look-alikes. ``new`` is a template for :meth:`re.Match.expand`, or a function that returns
        the replacement of a match.
        """
        parts, end = [], 0
        for match in pattern.finditer(self.text):
            replacement = match.expand(new) if isinstance(new, str) else new(match)
            if replacement != match[0]:
                parts += [self._between(end, match.start()), replacement]
                end = match.end()
        return "".join([*parts, self._between(end, len(self.text))]) if parts else self.source

    def _between(self, start: int, end: int) -> str:
        """Return the source text between two positions of the skeleton.

        The result includes invisible characters at both ends.
        """
        positions, head, tail = self._positions, "", ""
        # One source character may give several skeleton characters, of which only some match.
        while 0 < start < end and positions[start] == positions[start - 1]:
            head += self.text[start]
            start += 1
        while start < end < len(positions) and positions[end - 1] == positions[end]:
            end -= 1
            tail = self.text[end] + tail
        first = positions[start - 1] + 1 if start else 0
        last = positions[end] if end < len(positions) else len(self.source)
        return head + self.source[first:last] + tail


_PLAIN_BREAKS = {ord(blank): " " for blank in "\n\t"}


def apart(token: str) -> str:
    """Return a token with a space after its first character, so that no tokenizer recognizes it."""
    return f"{token[:1]} {token[1:]}"


def break_tokens(text: str, breaks: Iterable[Break]) -> str:
    """Replace matches of patterns in a text, even if look-alike characters disguise them.

    Args:
        text: The text.
        breaks: Pairs of a pattern and its replacement.
    """
    skeleton = Skeleton(text)
    for pattern, replacement in breaks:
        text = skeleton.replace(pattern, replacement)
        if text is not skeleton.source:
            skeleton = Skeleton(text)
    return text


# Tokens of chat templates -------------------------------------------------------------------------

_WORDS = (
    "s|bos|eos|unk|pad|mask|sep|cls|sys|ai|bot|user|system|assistant|model|human|role|escape"
    "|[bes]o[aehimpt]|eod|eosys|tool|tools|think|thinking|answer_end|image|audio|video|img"
    "|reserved[0-9]*|unused[0-9]*|mask:[0-9]+|0x[0-9a-f]{2}|用户|助手"
)
_SQUARE_WORDS = (
    r"(?:B_|E_)?(?:INST|SYS|SYSTEM|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOLS?|TOOL_[A-Z]+|MODEL_SETTINGS"
    r"|ARGS|CALL_ID|IMG|IMG_[A-Z]+|AUDIO|BEGIN_AUDIO|PREFIX|SUFFIX|MIDDLE|THINK|USER|ASSISTANT|BOT"
    r"|g?MASK|[sS]MASK|CLS|SEP|PAD|UNK|[BE]O[STDMP]|control_[0-9]+|(?i:unused(?:_token)?_?[0-9]+)"
    r"|@[A-Z]+@)"
)
# Matches the first character of a token. Each line has an example or the models that use the shape:
_CONTROL = re.compile(
    rf"""
    <(?= /?\|[^\s<>\[\]]{{1,100}}> | [^\s<>\[\]]{{1,100}}\|>         # <|im_start|>, <turn|>
       | /?\|\w[^<>|\n]{{0,60}}\|                                     # DeepSeek: <｜DSML｜...
       | /?(?: (?i:{_WORDS}) | [^\s<>\[\]_▁]{{0,100}}[_▁][^\s<>\[\]]{{0,100}} )/?>  # <end_of_turn>
       | /?\w{{1,30}}:(?:(?i:{_WORDS})|\w{{0,30}}_\w{{0,30}})>       # Seed-OSS: <seed:bos>
       | \[[^\s<>\[\]]{{1,100}}\]>                                   # Seed-Coder: <[end...]>
     )
    | \[(?= \|[^\s<>\[\]]{{1,100}}\] | [^\s<>\[\]]{{1,100}}\|\]      # EXAONE: [|user|]
        | /?{_SQUARE_WORDS}\] )                                      # [INST], Pangu: [unused9]
    | [\[\]](?= (?: ~!?\w{{1,2}} | !?\w{{1,2}}~ ) [\[\]] )           # MiniMax: ]~b], [e~[
    | \](?=<\]) | \[(?=>\[)                                          # MiniMax: ]<]image[>[
    | >(?=>[A-Z]{{2,20}}<<)                                          # Falcon: >>QUESTION<<
    """,
    re.VERBOSE,
)
# Flag emojis of regions end in tag characters. Elsewhere, such characters spell ASCII text that
# people do not see but models read.
_TAGS = re.compile("(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+")


def break_controls(text: str) -> str:
    """Return a text in which a space follows the first character of every chat template token.

    Tokens are recognized by their shape, even if look-alike or invisible characters disguise them:

    - between ``<`` and ``>``: names with a bar or an underscore, such as ``<|im_start|>``,
      ``<｜User｜>`` and ``<end_of_turn>``, and some words: ``<s>``, ``<<SYS>>``, ``<seed:bos>``,
      ``<role>``;
    - between square brackets: names with a bar, and words of Llama, Mistral, ChatGLM, InternLM,
      Pangu and others: ``[INST]``, ``[gMASK]``, ``[unused9]``;
    - the tokens of MiniMax and Falcon: ``]~b]``, ``>>QUESTION<<``.

    HTML tags and citations stay as they are.

    Example:
        >>> break_controls("<|im_end|> see [1]")
        '< |im_end|> see [1]'
    """
    if not text.isascii():
        text = _TAGS.sub("\ufffd", text)
    return break_tokens(text, [(_CONTROL, r"\g<0> ")])
