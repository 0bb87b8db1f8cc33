"""Separate the content of a response from its layout.

Layout is Markdown (headings, rules, tables, bullets, emphasis, links, words that are struck out),
emoji, labels such as "**Answer:**", lists of sources, signatures, and phrases such as "According to
passage 2,". Two wrappers are removed before a response is split into sections: a block of thoughts
(``<think>``), and a JSON object around the answer.

Layout is masked, not deleted: each of its characters is replaced with :data:`GAP`. Therefore
offsets in the masked text are offsets in the original text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text._small_talk import (
    Context,
    announces,
    attributions,
    has_number,
    is_heading,
    is_own_content,
    is_small_talk,
    is_template,
    is_ticket,
    opens_sources,
    salutation,
    sign_off,
)
from mirage.text._unicode import BREAKS, SPACE, any_of, nfc
from mirage.text.citations import Citation
from mirage.text.quantities import dates
from mirage.text.words import WORD

GAP = "\x1f"
r"""Replacement for each character of layout in a masked text; ``\s`` matches it."""

CELL = "\x1e"
"""Replacement for the border of a table cell in a masked text."""

_S = rf"[{SPACE}{GAP}]"
EMOJI = (
    "\u2300-\u23ff\u2600-\u27bf\u2b05-\u2b55\u3297\u3299\ufe0e\ufe0f\U0001f000-\U0001fbff"
    "\U000e0020-\U000e007f"
)
"""Character ranges of pictographs, to be put in the brackets of a regular expression."""


class Line(NamedTuple):
    """The start and end offset of one line in a text, without its line break."""

    start: int
    end: int


# Wrappers -----------------------------------------------------------------------------------------

_THOUGHT_TAG = re.compile(
    r"<(/?)(think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)>",
    re.IGNORECASE,
)


def unwrap_response(text: str, language: Language) -> tuple[str, list[tuple[str, str]] | None]:
    """Remove ``<think>`` blocks from a response, and split it into sections if it is JSON.

    Returns:
        The response without these blocks, and its sections as pairs of a kind (``reason``,
        ``answer`` or ``sources``) and a text. The sections are ``None`` if the response is not a
        JSON object with strings.
    """
    text = _remove_thoughts(text)
    return text, _json_sections(text, language)


def _remove_thoughts(text: str) -> str:
    """Return the text without ``<think>`` blocks; an unclosed block extends to the end."""
    pieces: list[str] = []
    cursor = 0
    opened = ""
    for tag in _THOUGHT_TAG.finditer(text):
        name = tag[2].lower()
        if not tag[1] and not opened:
            pieces.append(text[cursor : tag.start()])
            opened = name
        elif tag[1] and (opened == name or not opened):
            # If the prompt opened the block, the response contains only the closing tag.
            pieces = pieces if opened else []
            cursor, opened = tag.end(), ""
    return "".join(pieces if opened else [*pieces, text[cursor:]])


_FENCED_JSON = re.compile(r"```[ \t]*(?:json5?|JSON)?[ \t]*\n?\s*(\{)")
_FENCE_END = re.compile(r"\s*```")
_ANSWER_KEYS = frozenset(
    (
        "answer",
        "final_answer",
        "response",
        "result",
        "output",
        "text",
        "content",
        "reply",
        "message",
    )
)
_REASON_KEYS = frozenset(
    ("reason", "reasons", "reasoning", "rationale", "thought", "thoughts", "thinking", "analysis")
)
_SOURCE_KEYS = frozenset(
    ("source", "sources", "citation", "citations", "reference", "references", "passages",
     "documents", "evidence_ids", "cited", "cited_passages")
)  # fmt: skip
_OTHER_KEYS = frozenset(("confidence", "language", "id", "type", "status", "role", "model"))


def _json_sections(text: str, language: Language) -> list[tuple[str, str]] | None:
    stripped = text.strip()
    if "{" not in stripped:
        return None
    fence = _FENCED_JSON.search(stripped)
    start = fence.start(1) if fence else 0
    if not stripped.startswith("{", start):
        return None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(stripped, start)
    except (ValueError, RecursionError):
        return None
    before = stripped[: fence.start()] if fence else ""
    after = stripped[end:]
    after = _FENCE_END.sub("", after, count=1) if fence else after
    if not isinstance(value, dict):
        return None
    sections = list(_iter_sections(value, language))
    if not any(kind == "answer" and body for kind, body in sections):
        return None
    surrounding = [("answer", body) for body in (before, after) if body.strip()]
    return [*surrounding[:1], *sections, *surrounding[1:]]


def _iter_sections(value: dict[str, Any], language: Language) -> Iterator[tuple[str, str]]:
    answers = _ANSWER_KEYS.union(map(str.casefold, language.answer_headings))
    reasons = _REASON_KEYS.union(map(str.casefold, language.reason_headings))
    keys = {key: key.casefold().replace(" ", "_") for key in value}
    for key, folded in keys.items():
        strings = list(_strings(value[key], scalars=folded in answers | _SOURCE_KEYS))
        if folded in reasons:
            yield from (("reason", text) for text in strings)
        elif folded in _SOURCE_KEYS:
            yield from (("sources", f"[{text.strip('[]')}]") for text in strings)
        elif folded not in _OTHER_KEYS:
            yield from (("answer", text) for text in strings)


def _strings(value: Any, *, scalars: bool) -> Iterator[str]:
    """Yield the strings in a JSON value, in order; if ``scalars`` is true, also its numbers."""
    if isinstance(value, str):
        yield nfc(value)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, scalars=scalars)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item, scalars=scalars)
    elif scalars and isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


# Masks --------------------------------------------------------------------------------------------


class _Page:
    """A text in which layout, such as Markdown, is replaced with :data:`GAP` step by step.

    The length of the text never changes. ``brackets`` are the citations in it. ``context`` is
    ``None`` if question and passages are unknown or the language has no bundled leaderboard.
    """

    def __init__(
        self,
        text: str,
        language: Language,
        brackets: Sequence[Citation],
        context: Context | None,
    ) -> None:
        self.text = text
        self.language = language
        self.context = context
        self._brackets = brackets
        self._starts = [bracket.start for bracket in brackets]
        self._marks: list[tuple[int, int, str]] = []

    def mask(self, start: int, end: int, *, fill: str = GAP) -> None:
        """Schedule a span for masking: :meth:`apply` will replace its characters with ``fill``.

        All scheduled spans are masked together, because each change copies the whole text.
        """
        self._marks.append((start, end, fill))

    def apply(self) -> None:
        """Mask the spans that were scheduled since the last call."""
        if not self._marks:
            return
        pieces: list[str] = []
        cursor = 0
        for start, end, fill in sorted(self._marks):
            start = max(start, cursor)
            if start < end:
                pieces += (self.text[cursor:start], fill * (end - start))
                cursor = end
        self.text = "".join([*pieces, self.text[cursor:]])
        self._marks.clear()

    def mask_all(self, pattern: re.Pattern[str], group: int | str = 0) -> None:
        """Mask a group of each match of a pattern, unless the group overlaps with a citation."""
        for match in pattern.finditer(self.text):
            if not self.has_citation(*match.span(group)):
                self.mask(*match.span(group))
        self.apply()

    @property
    def lines(self) -> list[Line]:
        """The lines of the text."""
        breaks = [match.start() for match in _BREAK.finditer(self.text)]
        return [Line(a + 1, b) for a, b in pairwise([-1, *breaks, len(self.text)])]

    def citations_between(self, start: int, end: int) -> Sequence[Citation]:
        """Return the citations that begin in a span."""
        return self._brackets[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def has_citation(self, start: int, end: int) -> bool:
        """Return whether a citation begins in a span or extends into it."""
        previous = bisect_left(self._starts, start) - 1
        return bool(self.citations_between(start, end)) or (
            previous >= 0 and self._brackets[previous].end > start
        )

    def plain_text(self, start: int, end: int) -> str:
        """Return the text of a span without its masks and citations."""
        pieces: list[str] = []
        cursor = start
        for bracket in self.citations_between(start, end):
            pieces.append(self.text[cursor : bracket.start])
            cursor = min(bracket.end, end)
        return " ".join("".join([*pieces, self.text[cursor:end]]).split())


_BREAK = re.compile(f"[{BREAKS}]")
_SIGNS = re.compile(
    rf"[#*_`|<>~{EMOJI}\u20e3]|https?:|www\.|\]\(|(?:\A|[{BREAKS}]){_S}*(?:[-+•‣▪●◦–—=]|\d{{1,3}}[.)、])"
)


def mask_layout(
    text: str, language: Language, brackets: Sequence[Citation], context: Context | None
) -> str:
    """Return an answer in which each character of layout is replaced with :data:`GAP`.

    The length does not change. The borders of table cells are replaced with :data:`CELL`.

    Args:
        text: The answer.
        language: Language of the answer.
        brackets: Citations in the answer.
        context: Question and passages. If it is ``None``, salutations, signatures, attributions and
            labels without Markdown are not masked.
    """
    page = _Page(text, language, brackets, context)
    for step in _STEPS if _SIGNS.search(text) else _PLAIN_STEPS:
        step(page)
        page.apply()
    return page.text


def blank_layout(text: str) -> str:
    """Replace masked characters with spaces, and the borders of table cells with line breaks.

    The length does not change.
    """
    return text.replace(GAP, " ").replace(CELL, "\n")


def is_struck_out(text: str) -> bool:
    """Return whether all words of a text are struck out."""
    rest = _STRUCK_OUT.sub("", text)
    return rest != text and re.search(r"\w", rest) is None


def remove_layout(text: str, original: str) -> str:
    """Return a masked text without its layout, and without lines that contained only layout.

    Args:
        text: Text in which layout is masked, that is, replaced with :data:`GAP` characters.
        original: The same text before masking; returned if nothing was masked.
    """
    if text == original:
        return original
    text = text.replace(CELL, f"{GAP}\n{GAP}")
    pieces: list[str] = []
    for line in re.split(f"([{BREAKS}])", text):
        if GAP in line:
            line = " ".join(_GAPS.sub(_replace_gap, line).split())
            if not line:
                if pieces:
                    pieces.pop()  # the line break before it
                continue
        pieces.append(line)
    return "".join(pieces)


_GAPS = re.compile(f"{GAP}+")


def _replace_gap(gap: re.Match[str]) -> str:
    """Return the text for a run of masked characters: a space for more than three, else nothing."""
    return " " if len(gap[0]) > 3 else ""


# Lines --------------------------------------------------------------------------------------------

_START = rf"(?<![^{BREAKS}]){_S}*"
_FENCE = re.compile(rf"{_START}(?:```|~~~)[\w+-]*{_S}*(?=[{BREAKS}]|\Z)")
_RULE = re.compile(rf"{_START}(?:(?:[-*_—=]{_S}*){{3,}})(?=[{BREAKS}]|\Z)")
_QUOTE = re.compile(rf"{_START}(?P<mark>>+)(?={_S}|\w|\*)")
_BULLET = re.compile(rf"{_START}(?P<mark>[-+•‣▪●◦*])(?={_S}+\S)")
_NUMBERED = re.compile(rf"{_START}(?P<mark>(?P<number>\d{{1,3}})[.)、])(?={_S}+\S|[^\s\d.,)])")
_HEADING = re.compile(rf"{_START}(?P<mark>#{{1,6}})(?P<text>{_S}+[^{BREAKS}]*)")
_BOLD_LINE = re.compile(
    rf"{_START}(?P<text>(\*\*\*?|__)(?=\S)[^*_{BREAKS}]{{1,80}}\2{_S}*[:：]?){_S}*(?=[{BREAKS}]|\Z)"
)
_LABEL = re.compile(
    rf"{_START}(?P<text>(\*\*\*?|__)(?=\S)[^*_{BREAKS}]{{1,60}}?(?:{_S}*[:：]{_S}*\2|\2{_S}*[:：]))"
)
_PLAIN_LABEL = re.compile(
    rf"{_START}(?P<text>[^{BREAKS}:：.!?。]{{1,40}}[:：])(?={_S}|[{BREAKS}]|[^\x00-\x7f]|\Z)"
)


def _mask_fences(page: _Page) -> None:
    page.mask_all(_FENCE)
    page.mask_all(_RULE)


def _mask_quotes(page: _Page) -> None:
    page.mask_all(_QUOTE, "mark")


def _mask_bullets(page: _Page) -> None:
    page.mask_all(_BULLET, "mark")
    in_dates: set[int] | None = None
    marks: list[tuple[int, int]] = []
    expected = 1
    for match in _NUMBERED.finditer(page.text):
        number = int(match["number"])
        if number == 1:
            expected = 1
        if number != expected:
            continue
        if in_dates is None:
            in_dates = {date.start for date in dates(page.text, page.language.code)}
        if match.start("number") not in in_dates:
            marks.append(match.span("mark"))
            expected += 1
    # A single number may be an ordinal, as in German "1. Weltkrieg", rather than a list item.
    if len(marks) > 1 or r"\d" not in page.language.inner_stops:
        for start, end in marks:
            page.mask(start, end)


def _mask_headings(page: _Page) -> None:
    """Mask headings and bold lines that state nothing about the topic, such as "Key points".

    In all other headings, mask only the ``#`` marks.
    """
    for pattern in (_HEADING, _BOLD_LINE, _LABEL):
        for match in pattern.finditer(page.text):
            start, end = match.span("text")
            label = _label_text(page.text[start:end])
            if not page.has_citation(start, end) and is_heading(
                label, page.language, page.context, loosely=pattern is _HEADING
            ):
                page.mask(match.start(), end)
            elif pattern is _HEADING:
                page.mask(*match.span("mark"))


_LABEL_MARKS = re.compile(rf"[*_#:：{EMOJI}{GAP}]|^\s*\d{{1,2}}[.)]\s")


def _label_text(text: str) -> str:
    return " ".join(_LABEL_MARKS.sub(" ", text.strip()).split())


def _mask_plain_labels(page: _Page) -> None:
    """Mask a label without Markdown at the start of a line, such as "Short answer:"."""
    if page.context is None:
        return
    for match in _PLAIN_LABEL.finditer(page.text):
        label = match["text"][:-1]
        words = len(WORD.findall(label))
        if words and words <= 4 and not opens_sources(label, page.language):
            start, end = match.span("text")
            if not page.has_citation(start, end) and is_heading(label, page.language, page.context):
                page.mask(start, end)


# Tables -------------------------------------------------------------------------------------------

_SEPARATOR = re.compile(rf"{_S}*\|?{_S}*:?-+:?{_S}*(?:\|{_S}*:?-+:?{_S}*)*\|?{_S}*")


def _mask_tables(page: _Page) -> None:
    """Turn each cell of a table into a line, and mask the cells that only label other cells."""
    lines, in_table = page.lines, False
    for index, line in enumerate(lines):
        row = page.text[line.start : line.end]
        if "|" not in row:
            in_table = False
        elif _SEPARATOR.fullmatch(row):
            in_table = True
            page.mask(line.start, line.end)
            header = lines[index - 1]
            if index and "|" in page.text[header.start : header.end]:
                _mask_row(page, header, header=True)
        elif in_table:
            _mask_row(page, line, header=False)


def _mask_row(page: _Page, line: Line, *, header: bool) -> None:
    row = page.text[line.start : line.end].replace("|", " ")
    is_cited = page.has_citation(line.start, line.end)
    if page.context is not None and not is_cited and is_template(row, page.context):
        page.mask(line.start, line.end)
        return
    pipes = [at for at in range(line.start, line.end) if page.text[at] == "|"]
    for at in pipes:
        page.mask(at, at + 1, fill=CELL)
    ends = sorted({line.start - 1, *pipes, line.end})
    cells = [(a + 1, b) for a, b in pairwise(ends) if page.text[a + 1 : b].strip()]
    for start, end in cells if header else cells[:1] if len(cells) > 1 else []:
        label = _label_text(page.text[start:end])
        if not page.has_citation(start, end) and (
            is_heading(label, page.language, page.context)
            or (header and page.context is not None and _asserts_nothing(label, page.context))
        ):
            page.mask(start, end)


# Within lines -------------------------------------------------------------------------------------

_IMAGE = re.compile(rf"!\[[^\]{BREAKS}]*\]\([^){BREAKS}]*\)")
_LINK = re.compile(
    rf"(?P<open>\[)[^\[\]{BREAKS}]+(?P<close>\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?\))"
)
_URL = re.compile(r"<?(?:https?://|www\.)[!-;=?-~]*[A-Za-z0-9/=#&_-]>?")
_TAG = re.compile(
    r"</?(?:b|i|u|p|br|hr|em|strong|sub|sup|small|div|span|ul|ol|li|h[1-6]|details|summary|a|code|pre"
    r"|table|tr|td|th|tbody|thead|answer|response|final|output|result)(?:\s[^<>]{0,200})?/?>",
    re.IGNORECASE,
)
_EMOJI = re.compile(rf"(?:\d\ufe0f?\u20e3|[{EMOJI}](?:\u200d?[{EMOJI}])*)")
_EMPHASIS = re.compile(
    r"(?<![\d\\])\*{1,3}(?=\S)|(?<=[^\s\\])\*{1,3}(?!\d)|(?<!\w)_{1,3}(?=\w)|(?<=[^\s_])_{1,3}(?!\w)"
)
_TICKS = re.compile("`+")
_STRUCK_OUT = re.compile(
    rf"~~(?=\S)[^~{BREAKS}]+~~|<(?P<tag>s|del|strike)>[^<>{BREAKS}]+</(?P=tag)>", re.IGNORECASE
)
# Each pattern, after a set of characters that it needs. A search for a set is fast, and most texts
# have few of these characters.
_MARKS = (
    (re.compile("[~<]"), _STRUCK_OUT),
    (re.compile("<"), _TAG),
    (re.compile("[^\x00-\u20e2]"), _EMOJI),
    (re.compile("[*_]"), _EMPHASIS),
    (re.compile("`"), _TICKS),
)


def _mask_links(page: _Page) -> None:
    page.mask_all(_IMAGE)
    links = [m for m in _LINK.finditer(page.text) if not page.has_citation(m.start(), m.end())]
    for match in links:
        page.mask(*match.span("open"))
        page.mask(*match.span("close"))
    page.mask_all(_URL)


def _mask_marks(page: _Page) -> None:
    for sign, pattern in _MARKS:
        if sign.search(page.text):
            page.mask_all(pattern)


# Sources, signatures, salutations and attributions ------------------------------------------------

_REFERENCE = re.compile(rf"\[\^?\d{{1,3}}\]{_S}*[:：]|https?://|www\.|\]\(")
TITLE_WORDS = 8
"""Maximum number of words of a title in a list of sources."""


def _mask_sources(page: _Page) -> None:
    """Mask lists of sources. The listed passages still count as cited."""
    lines = page.lines
    index = 0
    while index < len(lines):
        start, end = lines[index]
        index += 1
        lead = re.match(rf"[{SPACE}{GAP}*_#>({EMOJI}-]*", page.text[start:end])
        first = start + (lead.end() if lead else 0)
        label = opens_sources(_blank_emphasis(page.text[first:end]), page.language)
        if not label or not _is_reference(page, first + label, end, may_be_empty=True):
            continue
        page.mask(start, end)
        while index < len(lines) and _is_reference(page, *lines[index], may_be_empty=True):
            page.mask(*lines[index])
            index += 1


def _blank_emphasis(text: str) -> str:
    """Return the text with each ``*`` and ``_`` replaced with a space."""
    return re.sub(r"[*_]", " ", text)


def _is_reference(page: _Page, start: int, end: int, *, may_be_empty: bool) -> bool:
    """Return whether a span is an entry in a list of sources: passages, a title or a link.

    Args:
        page: The text.
        start: Start of the span.
        end: End of the span.
        may_be_empty: Whether a span without words counts as an entry.
    """
    raw = page.text[start:end]
    has_link = bool(_REFERENCE.search(raw)) or page.has_citation(start, end)
    rest = _URL.sub(" ", _LINK.sub(lambda m: f" {m[0].partition(']')[0][1:]} ", raw))
    page_without_links = _Page(rest, page.language, (), None)
    words = (
        page.plain_text(start, end) if rest == raw else page_without_links.plain_text(0, len(rest))
    )
    words = re.sub(rf"\[[^\]]{{0,12}}\]|^\W*\d{{1,2}}[.)]\s|[*_`#>|{EMOJI}]", " ", words)
    words = " ".join(words.split()).strip(" -–—•.,;:：()（）、。")
    if not words:
        return may_be_empty
    if _names_passages(words, page.language):
        return True
    if page.context is not None and _is_title(words, page.context):
        return True
    return (
        has_link
        and len(WORD.findall(words)) <= TITLE_WORDS
        and len(words) <= 80
        and _is_title_like(words)
    )


def _is_title_like(words: str) -> bool:
    """Return whether words beside a link look like a title and not like a sentence."""
    return not re.search(r"[.!?。！？।]\s*\S", words) and not has_number(words)


def _is_title(words: str, context: Context) -> bool:
    folded = words.casefold()
    return any(text.casefold().startswith(folded) for text in context.passages)


@lru_cache(maxsize=64)
def _passage_names(language: Language) -> re.Pattern[str]:
    english = LANGUAGES["en"]
    names = any_of((*english.passage_words, *language.passage_words))
    joints = any_of((*english.conjunctions, *language.conjunctions))
    marks = r"[\s,;&#()\[\].:、，-]"
    return re.compile(rf"(?:(?:{names})\w{{0,4}}|\d{{1,3}}|{marks}|{joints})+", re.IGNORECASE)


def _names_passages(words: str, language: Language) -> bool:
    return bool(_passage_names(language).fullmatch(words))


SIGNATURE_LINES = 4
"""Maximum number of lines of a signature."""

_DASHED = re.compile(rf"{_S}*(?:—|–|--|―|―|ー|⸺)+{_S}*(?P<name>\S.*)", re.DOTALL)


def _mask_signature(page: _Page) -> None:
    """Mask a signature at the end, such as "Kind regards, ..." or "— Ticket #48213"."""
    lines = [line for line in page.lines if page.text[line.start : line.end].strip()]
    if page.context is None:
        return
    for count in range(1, min(SIGNATURE_LINES, len(lines) - 1) + 1):
        line = lines[-count]
        if (
            page.has_citation(line.start, line.end)
            or len(line_text := page.plain_text(*line)) > 120
        ):
            return
        if _is_signature(line_text.strip(" *_"), page.context) and all(
            _is_signature_line(page, *other) for other in lines[len(lines) - count + 1 :]
        ):
            page.mask(line.start, page.lines[-1].end)
            return


def _is_signature(text: str, context: Context) -> bool:
    dashed = _DASHED.fullmatch(text)
    if dashed:
        name = dashed["name"]
        return len(WORD.findall(name)) <= 6 and (
            is_ticket(name, context) or _asserts_nothing(name, context)
        )
    return sign_off(text, context) or is_ticket(text, context)


def _is_signature_line(page: _Page, start: int, end: int) -> bool:
    assert page.context is not None
    text = page.plain_text(start, end)
    return len(WORD.findall(text)) <= 6 and _asserts_nothing(text, page.context)


def _asserts_nothing(text: str, context: Context) -> bool:
    """Return whether a text contains no number and no word of the question or the passages.

    Words of up to three letters, and words that are typical of headings, are ignored.
    """
    context_text = " ".join((context.question, *context.passages)).casefold()
    return not has_number(text) and not any(
        len(word) > 3
        and word.casefold() in context_text
        and not is_heading(word, context.language, context)
        for word in WORD.findall(text)
    )


def _mask_salutation(page: _Page) -> None:
    """Mask an opening such as "Hello Anna," and "Sure, here is what I found:"."""
    if page.context is None:
        return
    lead = re.match(rf"[\s{GAP}¡*_]*", page.text)
    start = lead.end() if lead else 0
    end = start + salutation(page.text[start : start + LEAD], page.context)
    colon = _LEAD.match(page.text, end)
    if (
        colon
        and announces(colon[0].strip(), page.context)
        and not page.has_citation(end, colon.end())
    ):
        end = colon.end()
    if end > start and page.text[end:].strip():
        page.mask(0, end)


LEAD = 100
"""Maximum number of characters of an announcement that ends in a colon."""

_LEAD = re.compile(rf"[^{BREAKS}:：]{{1,{LEAD}}}[:：]")


def _mask_polite_clauses(page: _Page) -> None:
    """Mask small talk at the start and at the end of an answer in a language without full stops.

    If every clause is small talk, nothing is masked.
    """
    if page.context is None or page.language.sentence_ends == "marks":
        return
    clauses = [match.span() for match in re.finditer(rf"[^\s{GAP}]+", page.text)]
    if all(is_small_talk(page.plain_text(*clause), page.context) for clause in clauses):
        return
    for edge_clauses in (clauses[:CLAUSES], clauses[: -CLAUSES - 1 : -1]):
        for start, end in edge_clauses:
            if page.has_citation(start, end) or not is_small_talk(
                page.plain_text(start, end), page.context
            ):
                break
            page.mask(start, end)


CLAUSES = 6
"""Maximum number of clauses at either end of a text that are tested for small talk."""

ATTRIBUTION = 60
"""Maximum number of characters of an attribution such as "According to passage 2,"."""

ATTRIBUTION_WORDS = 7
"""Maximum number of words of an attribution."""


def _mask_attributions(page: _Page) -> None:
    """Mask phrases such as "According to passage 2," at the start of a line or sentence."""
    if page.context is None:
        return
    for match in _attribution_pattern(page.language).finditer(page.text):
        start, end = match.span("whole" if match["whole"] else "clause")
        words = re.sub(r"\d+", " ", page.text[start:end])
        is_short = len(WORD.findall(words)) <= ATTRIBUTION_WORDS
        if match["whole"] or (is_short and not _asserts_something(words, page.context)):
            opens_line = not match.start() or bool(_BREAK.match(page.text, match.start()))
            _mask_around_citations(page, start, end, opens_line=opens_line)


def _mask_around_citations(page: _Page, start: int, end: int, *, opens_line: bool) -> None:
    """Mask a span, such as "According to passage 2 [2],", except for the citations in it.

    If the span opens a line (``opens_line``), its citations belong to the next sentence. Elsewhere,
    a span with a citation is not masked.
    """
    brackets = page.citations_between(start, end)
    if brackets and not opens_line:
        return
    for bracket in brackets:
        page.mask(start, bracket.start)
        start = bracket.end
    page.mask(start, end)


def _asserts_something(words: str, context: Context) -> bool:
    """Return whether a clause probably makes a claim: it has two or more words of the question."""
    question = context.question.casefold()
    rest = re.sub(rf"(?:{any_of(attributions(context.language.code)[1])})\w*", " ", words)
    question_words = [w for w in WORD.findall(rest) if len(w) > 3 and w.casefold() in question]
    return len(question_words) > 1


_PASSAGE_NUMBER = r"(?<!\d)\d{1,2}(?![\d.,]\d|\d)"


@lru_cache(maxsize=64)
def _attribution_pattern(language: Language) -> re.Pattern[str]:
    """Return a pattern for attributions such as "According to passage 2,".

    The pattern matches the wordings that Mirage lists for the language (:func:`attributions`), and
    any clause that contains the number of a passage.
    """
    templates, passage_words = attributions(language.code)
    spaced = language.tokens == "word"
    names = rf"(?:{any_of(passage_words)})"
    reference = (
        rf"(?<!\w){names}\w{{0,4}}" if spaced else names
    ) + rf"[{SPACE}.#№º°nNorR-]{{0,4}}{_PASSAGE_NUMBER}"
    if any(re.search(rf"{{n}}\W?\w{{0,5}}\W?{names}", template) for template in templates):
        reference = rf"(?:{reference}|(?<!\w)(?<!\w\s){_PASSAGE_NUMBER}\S{{0,3}}[{SPACE}]?{names})"
    marks = r",،、，:：.!?。！？।\[\]【】()" + BREAKS
    start = rf"(?:\A|[{BREAKS}.!?。！？।]){_S}{{0,9}}"
    inner = rf"[^{marks}\d]{{0,{ATTRIBUTION}}}?"
    ends = rf"[,،、，:：]{_S}*" + (r"|\s" if language.sentence_ends == "spaces" else "")
    whole = "|".join(re.escape(t).replace(r"\{n\}", r"\[?\d{1,2}\]?") for t in templates) or "(?!)"
    return re.compile(
        rf"{start}(?:(?P<whole>(?:{whole}){_S}*)"
        rf"|(?P<clause>{inner}{reference}[^{marks}\d]{{0,{ATTRIBUTION}}}?(?:{ends})))(?=\S)",
        re.IGNORECASE,
    )


# Sentences ----------------------------------------------------------------------------------------


def mask_small_talk(
    text: str, spans: Sequence[tuple[int, int]], brackets: Sequence[Citation], context: Context
) -> str:
    """Return a masked answer in which sentences of small talk are masked too.

    If all sentences are small talk, none is masked. Sentences that recur in most answers are masked
    only if another sentence has content: an answer that consists of them is no template.

    Args:
        text: Answer in which layout is masked.
        spans: Start and end of each sentence.
        brackets: Citations in the answer.
        context: Question and passages.
    """
    if not spans:
        return text
    page = _Page(text, context.language, brackets, context)
    nexts = [start for start, _ in spans[1:]] + [len(text)]
    sentences = [page.plain_text(start, end) for start, end in spans]
    small_talk: list[int] = []
    for position, ((start, _), until) in enumerate(zip(spans, nexts, strict=True)):
        edge = all(index in small_talk for index in range(position)) or position >= len(spans) - 3
        if not page.has_citation(start, until) and is_small_talk(
            sentences[position], context, edge=edge
        ):
            small_talk.append(position)
    if context.recurring and not any(
        is_own_content(sentence, context)
        for position, sentence in enumerate(sentences)
        if position not in small_talk
    ):
        small_talk = [p for p in small_talk if not is_template(sentences[p], context)]
    if len(small_talk) < len(spans):
        for position in small_talk:
            page.mask(*spans[position])
    page.apply()
    return page.text


_PLAIN_STEPS: tuple[Callable[[_Page], None], ...] = (
    _mask_sources,
    _mask_signature,
    _mask_salutation,
    _mask_plain_labels,
    _mask_polite_clauses,
    _mask_attributions,
)
_STEPS: tuple[Callable[[_Page], None], ...] = (
    _mask_fences,
    _mask_tables,
    _mask_quotes,
    _mask_bullets,
    _mask_sources,
    _mask_signature,
    _mask_headings,
    _mask_links,
    _mask_marks,
    _mask_salutation,
    _mask_plain_labels,
    _mask_polite_clauses,
    _mask_attributions,
)
