"""Find citations: brackets, superscripts, footnotes and named sources."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from mirage._base.logs import logger
from mirage.languages import LANGUAGES, Language
from mirage.text._trees import packaged_json
from mirage.text._unicode import BREAK, BREAKS, SPACE, any_of, nfc
from mirage.text.lexicon import lexicon
from mirage.text.tokens import tokenize

__all__ = ["cite_by_id"]

_LOG = logger("mirage.citations")


def cite_by_id(text: str, language: str | Language, shown: Sequence[str]) -> tuple[str, bool]:
    """Rewrite each citation of a response as the id of the passage in brackets.

    :func:`mirage.text.parse` describes which texts are citations. A citation of a passage that was
    not shown is removed, and so is the definition of a footnote that the text refers to.

    Args:
        text: Response, as written by a model.
        language: Language that the response should be in.
        shown: Ids of the passages in the prompt, in order.

    Returns:
        The response, and whether every citation refers to a shown passage.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> cite_by_id("It is the Nile [1].", "en", ["nile#0", "congo#1"])
        ('It is the Nile [nile#0].', True)
        >>> cite_by_id("It is the Nile [1][7].", "en", ["nile#0", "congo#1"])
        ('It is the Nile [nile#0].', False)
    """
    text, entry = nfc(text), Language.of(language)
    passages = Passages.of(shown).with_footnotes(text, entry)
    pieces: list[str] = []
    cursor, all_known = 0, True
    for start, end, ids in citations(text, entry, passages):
        all_known &= bool(ids)
        if _only_defines(text, start, end, passages):
            ids = ()
        pieces += (text[cursor:start], *(f"[{id_}]" for id_ in ids))
        cursor = end
    return "".join([*pieces, text[cursor:]]), all_known


def unique(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids without duplicates, in order of first occurrence."""
    return tuple(dict.fromkeys(ids))


class Citation(NamedTuple):
    """A citation in a text.

    Attributes:
        start: Offset of the first character.
        end: Offset after the last character.
        ids: Ids of the cited passages; empty if no shown passage matches the citation.
    """

    start: int
    end: int
    ids: tuple[str, ...]  # empty if it has the form of a citation but no shown passage matches


class Passages(NamedTuple):
    """The passages of a prompt, indexed by position, id, title and footnote."""

    ids: Sequence[str]
    by_id: Mapping[str, str]  # by the id as written, and folded by :func:`_fold_key`
    numbers: Sequence[int]  # positions of passages and ids that are numbers, in ascending order
    memory: dict[str, tuple[str, ...] | None]  # cache: ids cited by the content of a bracket
    by_title: Mapping[str, str]  # by folded titles that belong to one passage only
    footnotes: Mapping[str, tuple[str, ...]]  # by folded labels, such as ``^1``
    referenced: frozenset[str]  # the footnotes that the text refers to
    names: Sequence[tuple[str, str]]  # folded titles and ids with a letter, and the ids

    @classmethod
    def of(cls, shown_ids: Sequence[str], titles: Mapping[str, str] | None = None) -> Passages:
        """Index the shown passages.

        Args:
            shown_ids: Ids in the order of the prompt.
            titles: Titles by id; passages without a title may be missing. By default there are no
                titles.
        """
        folded = {_fold_key(passage): passage for passage in reversed(shown_ids)}
        by_id = folded | {passage: passage for passage in shown_ids}
        numeric_ids = {int(id_) for id_ in by_id if _is_number(id_)}
        numbers = sorted(numeric_ids.union(range(1, len(shown_ids) + 1)))
        by_title = _by_title(shown_ids, titles or {})
        names = by_title | {_fold_key(id_): id_ for id_ in shown_ids if _LETTER.search(id_)}
        longest_first = sorted(names.items(), key=lambda name: -len(name[0]))
        return cls(shown_ids, by_id, numbers, {}, by_title, {}, frozenset(), longest_first)

    def with_footnotes(self, text: str, entry: Language) -> Passages:
        """Return a copy that also contains the footnotes of a text, such as ``[^1]: Passage 3``.

        Ids that are numbers are left out if the citations show that numbers in the text are
        positions (:meth:`_reading_numbers_of`).

        Args:
            text: Text that defines footnotes and refers to them.
            entry: Language of the text.
        """
        passages = self._reading_numbers_of(text, entry)
        return passages._with_footnotes(nfc(text), entry) if "]" in text else passages

    def _with_footnotes(self, text: str, entry: Language) -> Passages:
        notes: dict[str, tuple[str, ...]] = {}
        for match in _DEFINITION.finditer(text) if "]:" in text else ():
            ids = _defined_ids(match, entry, self)
            if ids:
                notes.setdefault(_fold_key(match[1]), ids)
        for label, _, id_ in _listed_sources(text, self):
            notes.setdefault(label, (id_,))
        if not notes:
            return self
        references = {_fold_key(match[1]) for match in _REFERENCE.finditer(text)}
        references |= {f"^{_fold_key(match[0])}" for match in _SUPERSCRIPT.finditer(text)}
        return self._replace(
            footnotes=notes, referenced=frozenset(references & notes.keys()), memory={}
        )

    def _reading_numbers_of(self, text: str, entry: Language) -> Passages:
        """Return a copy that reads the numbers in a text as positions if they cannot be ids.

        Passages may have ids such as 0, 1 and 2, so that ``[1]`` may mean the second passage (by
        its id) or the first one (by its position). With these ids, a citation ``[0]`` shows that a
        text cites ids, and ``[3]`` shows that it cites positions. If neither occurs, the numbers
        are read as ids, with a warning.
        """
        positions = range(1, len(self.ids) + 1)
        ids = {int(id_) for id_ in self.by_id if _is_number(id_)}
        ambiguous = {n for n in ids if n in positions and self.ids[n - 1] != self.by_id[str(n)]}
        if not ambiguous:
            return self
        cited = {
            int(number)
            for start, end, _ in citations(text, entry, self)
            for number in re.findall(r"\d{1,9}", _fold_key(text[start:end]))
        }
        cites_ids = any(number in ids and number not in positions for number in cited)
        cites_positions = any(number in positions and number not in ids for number in cited)
        if cites_positions and not cites_ids:
            named = {name: id_ for name, id_ in self.by_id.items() if not _is_number(name)}
            return self._replace(by_id=named, numbers=positions, memory={})
        if not cites_ids and not ambiguous.isdisjoint(cited):
            _warn_of_numeric_ids()
        return self

    def by_title_or_label(self, token: str) -> tuple[str, ...] | None:
        """Return the ids that a title of a passage or the label of a footnote refers to.

        Args:
            token: Title or label, folded. If no passage has this title and no footnote this label,
                the result is ``None``.
        """
        if token in self.by_title and token not in self.by_id:
            return (self.by_title[token],)
        return self.footnotes.get(token)

    def has(self, name: str) -> bool:
        """Return whether a folded text is the id or the title of a passage."""
        return name in self.by_id or name in self.by_title

    def numbered(self, number: int) -> list[str]:
        """Return a list with the id of the passage that a number refers to, or an empty list.

        The number is the id of the passage or, if no passage has this id, its position from 1.
        """
        if str(number) in self.by_id:
            return [self.by_id[str(number)]]
        return [self.ids[number - 1]] if 1 <= number <= len(self.ids) else []


@lru_cache(maxsize=1)  # once only
def _warn_of_numeric_ids() -> None:
    _LOG.warning(
        "passages have numbers as ids, so a citation such as [1] may mean the id 1 or the first "
        "passage of the prompt; it is read as the id. If your system cites positions, give the "
        "passages ids that are not numbers, such as p0, p1 and p2"
    )


def _is_number(id_: str) -> bool:
    return _NUMBER.fullmatch(id_) is not None and str(int(id_)) == id_


def _by_title(shown_ids: Sequence[str], titles: Mapping[str, str]) -> dict[str, str]:
    keys = {id_: _fold_key(titles[id_]) for id_ in dict.fromkeys(shown_ids) if titles.get(id_)}
    counts = Counter(keys.values())
    return {key: id_ for id_, key in keys.items() if counts[key] == 1 and _LETTER.search(key)}


class _Forms(NamedTuple):
    """The patterns of citations in a language."""

    citation: re.Pattern[str]  # a bracket, a parenthesis or a superscript
    first: re.Pattern[str]  # the first character of a citation
    word: re.Pattern[str]  # a word that may precede an id or number: passage, context
    reference: re.Pattern[str]  # such a word with its id or number
    conjunctions: frozenset[str]
    glued: re.Pattern[str]  # a conjunction right between two digits, as in 1和3


_DIGIT = re.compile(r"[^\D0-9]")  # a digit of any script except ASCII
_SEPARATOR = re.compile(r"[,;،؛、]")
_DASH = re.compile(r"(?<=\d)\s*[-‐–—−~〜]\s*(?=\d)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_UNKNOWN_ID = re.compile(r"[\w.-]+#\d+")
_AROUND_ID = "\"'`*_^()\\“”‘’:#"
_LETTER = re.compile(r"[^\W\d_\u00b2\u00b3\u00b9\u2070-\u2089]")
_SOURCE = re.compile(r"†[^,;，；]*")  # ChatGPT's 【3†source】

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPT = re.compile(rf"[{_RAISED}]{{1,9}}(?:[,⁻–-][{_RAISED}]{{1,9}}){{0,9}}")
_ROUND = rf"[(（]([^()（）\[\]【】［］{BREAKS}]{{1,80}})[)）]"

_SUP_TAG = r"<sup>\s?(\d{1,3}(?:\s?[,–-]\s?\d{1,3}){0,9})\s?</sup>"
_TO_RAISED = str.maketrans("0123456789-–", f"{_RAISED}⁻⁻", " ")

_DEFINITION = re.compile(
    rf"(?:^|(?<=[{BREAKS}]))[ \t]*\\?\[(\^[\w-]{{1,20}}|\d{{1,3}})\\?\]:([^{BREAKS}]*)"
)
_LISTED = re.compile(
    rf"(?:^|(?<=[{BREAKS}]))[ \t]*(?:[-*•][ \t]+)?"
    rf"\\?\[(\^[\w-]{{1,20}}|\d{{1,3}})\\?\][ \t]+([^{BREAKS}]{{1,200}})"
)
_REFERENCE = re.compile(r"\[(\^[\w-]{1,20}|\d{1,3})\\?\](?!:)")


def _fold_key(text: str) -> str:
    """Normalise the digits, character width, case and spaces of an id, title or citation."""
    if not text.isascii():
        text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


@lru_cache(maxsize=64)
def _citation_forms(entry: Language) -> _Forms:
    english = LANGUAGES["en"]
    pairs = english.brackets + entry.brackets
    opening = "".join(re.escape(pair[0]) for pair in pairs)
    closing = "".join(re.escape(pair[1]) for pair in pairs)
    bracket = rf"\\?[{opening}]([^{opening}{closing}{BREAKS}]*)[{closing}]"
    link = rf"(?:\((?:https?:|www\.|\#)[^\s(){opening}{closing}]*\))?"
    conjunctions = frozenset(map(_fold_key, english.conjunctions + entry.conjunctions))
    # Latin conjunctions have spaces around them. Without spaces, such letters may be part of an
    # id such as 1e3f.
    glued, never = (word for word in conjunctions if not word.isascii()), "(?!)"
    word = any_of(map(_fold_key, english.passage_words + entry.passage_words))
    brackets = rf"(?:\\?[{opening}]{bracket}\\?[{closing}]|{bracket}){link}"
    return _Forms(
        citation=re.compile(rf"{brackets}|{_ROUND}|({_SUPERSCRIPT.pattern})|{_SUP_TAG}"),
        first=re.compile(rf"[\\{opening}(（{_RAISED}]|<(?=sup>)"),
        word=re.compile(rf"(?:{word})[.:#_-]*"),
        reference=re.compile(rf"(?<!\w)(?:{word})[.:#_-]*\s?[\w.-]*#?\d{{1,9}}|[\w.-]+#\d{{1,9}}"),
        conjunctions=conjunctions,
        glued=re.compile(rf"(?<=\d)\s*(?:{any_of(glued) or never})\s*(?=\d)"),
    )


def citations(text: str, entry: Language, passages: Passages) -> Iterator[Citation]:
    """Yield every span of a text that looks like a citation, in order.

    A citation may be in brackets or parentheses, or be a superscript or a footnote mark. The
    definition of a footnote, such as ``[^1]: Passage 3``, is also a citation of the passages that
    it names. So is an id or a title after a label such as "Source:" or after words such as
    "according to".

    Args:
        text: The text.
        entry: The language of the text.
        passages: The passages that may be cited.
    """
    position = 0
    for definition in _definitions(text, passages):
        yield from _citations_between(text, position, definition.start, entry, passages)
        yield definition
        position = definition.end
    yield from _citations_between(text, position, len(text), entry, passages)


def _definitions(text: str, passages: Passages) -> list[Citation]:
    """Return the lines that define a footnote or a source (``[1] doc-01``), as citations."""
    if not passages.footnotes:
        return []
    matches = ((m, passages.footnotes.get(_fold_key(m[1]))) for m in _DEFINITION.finditer(text))
    defined = [Citation(match.start(), match.end(), ids) for match, ids in matches if ids]
    listed = [Citation(*match.span(), (id_,)) for _, match, id_ in _listed_sources(text, passages)]
    return sorted(defined + listed)


def _listed_sources(text: str, passages: Passages) -> Iterator[tuple[str, re.Match[str], str]]:
    """Yield the label, match and passage id of each line such as ``[1] doc-01``."""
    for match in _LISTED.finditer(text):
        name = _fold_key(match[2].strip(_AROUND_NAME))
        id_ = passages.by_id.get(name) or passages.by_title.get(name)
        if id_ is not None:
            yield _fold_key(match[1]), match, id_


def _citations_between(
    text: str, start: int, end: int, entry: Language, passages: Passages
) -> Iterator[Citation]:
    named = _named_sources(text, start, end, entry, passages)
    for citation in named:
        yield from _marked_citations(text, start, citation.start, entry, passages)
        yield citation
        start = citation.end
    yield from _marked_citations(text, start, end, entry, passages)


def _named_sources(
    text: str, start: int, end: int, entry: Language, passages: Passages
) -> list[Citation]:
    """Return the sources that a text names after "Source:" or "according to", as citations."""
    has_label = text.find(":", start, end) >= 0 or text.find("：", start, end) >= 0
    labels = _source_labels(entry).finditer(text, start, end) if has_label else ()
    spans = [span for label in labels for span in _sources_after(label, text, end, entry, passages)]
    folded = _fold_key(text[start:end])
    if any(name in folded for name, _ in passages.names):
        before, after = _attributions(entry)
        for match in before.finditer(text, start, end):
            spans += _name_from(match, end, passages)
        for match in after.finditer(text, start, end):
            spans += _name_until(match, start, passages)
    named: list[Citation] = []
    for span, ids in sorted(spans):
        if not named or span[0] >= named[-1].end:
            named.append(Citation(*span, ids))
    return named


def _sources_after(
    label: re.Match[str], text: str, end: int, entry: Language, passages: Passages
) -> Iterator[tuple[tuple[int, int], tuple[str, ...]]]:
    """Yield the span and the ids of each entry after a label such as "Sources:".

    The entries are on the same line or, if nothing else is there, on the next lines.
    """
    position, forms = label.end(), _citation_forms(entry)
    while position < end and (line := _ENTRY.match(text, position, end)) is not None:
        is_same_line = position == label.end() and not BREAK.match(text, position)
        content = line["content"].strip(_AROUND_NAME)
        ids = None if "[" in content else _ids_in(content, forms, passages)
        if not ids:
            return
        first = label.start("label") if is_same_line else line.start("content")
        yield (first, line.end()), ids
        if is_same_line:
            return
        position = line.end()


@cache
def _phrases(code: str, kind: str) -> tuple[str, ...]:
    """Return a language's words for sources (``sources``) or for naming them (``according_to``)."""
    return tuple(packaged_json("small_talk.json").get(code, {}).get(kind, ()))


@lru_cache(maxsize=64)
def _source_labels(entry: Language, most: int | None = None) -> re.Pattern[str]:
    """Return a pattern for labels such as "Source:" at the start of a line or sentence.

    Args:
        entry: Language of the text.
        most: Maximum number of words for sources per language. By default all of them count, and
            words for passages too.
    """
    words = [word for code in ("en", entry.code) for word in _phrases(code, "sources")[:most]]
    words += entry.passage_words if most is None else ()
    opening = rf"(?:^|(?<=[{BREAKS}])|(?<=[.!?。！？।॥؟۔][ \t]))[ \t*_>#-]*"
    label = rf"(?P<label>{any_of(map(nfc, words))})[ \t*_]*[:：][ \t*_]*"
    return re.compile(opening + label, re.IGNORECASE)


def unread_source(text: str, entry: Language, passages: Passages) -> str:
    """Return the first line such as "Source: manual" that names no shown passage.

    The result is empty if there is none. Lines with links are ignored.
    """
    text = nfc(text)
    for label in _source_labels(entry, 2).finditer(text):
        line = _ENTRY.match(text, label.end())
        content = line["content"] if line else ""
        if not _LETTER.search(content) or "://" in content or "www." in content:
            continue
        if not any(part.ids for part in citations(label[0] + content, entry, passages)):
            return (label[0].strip() + " " + content.strip())[:60]
    return ""


_ENTRY = re.compile(
    rf"[{BREAKS}]?[ \t]*(?:[-*•][ \t]+|\d{{1,2}}[.)][ \t]+)?(?P<content>[^{BREAKS}]*)"
)
_AROUND_NAME = " \t*_.`\"'“”„«»()"


@lru_cache(maxsize=64)
def _attributions(entry: Language) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns of phrases such as "according to" before a source's name, and after it."""
    codes = dict.fromkeys(("en", entry.code))
    phrases = [nfc(phrase) for code in codes for phrase in _phrases(code, "according_to")]
    before = any_of(phrase for phrase in phrases if "..." not in phrase)
    after = any_of(phrase.removeprefix("...").strip() for phrase in phrases if "..." in phrase)
    border = r"(?<!\w)" if entry.tokens == "word" else ""
    return (
        re.compile(rf"{border}(?:{before})[ \t]*[{_QUOTES}]{{0,3}}", re.IGNORECASE),
        re.compile(rf"[{_QUOTES}]{{0,3}}[ \t]*(?:{after or '(?!)'})", re.IGNORECASE),
    )


_QUOTES = "\"'`*_“”„«»"
_Span = tuple[tuple[int, int], tuple[str, ...]]


def _name_from(match: re.Match[str], end: int, passages: Passages) -> list[_Span]:
    """Return the span and id of the passage whose id or title follows the phrase in ``match``.

    If the phrase, such as "according to", opens a line, the span includes it.
    """
    text, start = match.string, match.end()
    for name, id_ in passages.names:
        stop = start + len(name)
        is_name = stop <= end and _fold_key(text[start:stop]) == name
        if is_name and not _WORD_CHARACTER.match(text, stop):
            return [(_with_phrase(match, start, stop), (id_,))]
    return []


def _name_until(match: re.Match[str], start: int, passages: Passages) -> list[_Span]:
    """Return the span and id of the passage whose id or title precedes the phrase in ``match``."""
    text, end = match.string, match.start()
    for name, id_ in passages.names:
        first = end - len(name)
        is_name = first >= start and _fold_key(text[first:end]) == name
        if is_name and not (first and _WORD_CHARACTER.match(text, first - 1)):
            return [(_with_phrase(match, first, end), (id_,))]
    return []


def _with_phrase(match: re.Match[str], start: int, end: int) -> tuple[int, int]:
    text, first = match.string, min(match.start(), start)
    if BREAK.split(text[max(first - 20, 0) : first])[-1].strip(_AROUND_NAME + ">#-"):
        return start, end
    tail = _AFTER_PHRASE.match(text, max(match.end(), end))
    return first, tail.end() if tail else end


_AFTER_PHRASE = re.compile(r"[\"'`*_”»]{0,3}[,،、，:：]?")
_WORD_CHARACTER = re.compile(r"[\w#]")


def _marked_citations(
    text: str, start: int, end: int, entry: Language, passages: Passages
) -> Iterator[Citation]:
    forms = _citation_forms(entry)
    # A search for a set of characters is fast, so the whole pattern is tried only after it.
    while first := forms.first.search(text, start, end):
        start = first.end()
        match = forms.citation.match(text, first.start(), end)
        if match is None:
            continue
        start = match.end()
        if match[3] is not None:
            ids = _ids_in_parentheses(match, entry, passages)
        elif match[4] is not None:
            ids = _ids_of_superscript(match, match[4], entry, passages)
        elif match[5] is not None:
            raised = match[5].translate(_TO_RAISED)
            ids = _ids_of_superscript(match, raised, entry, passages)
        else:
            ids = _cached_ids(match[1] or match[2] or "", forms, passages)
        if ids is not None:
            yield Citation(match.start(), match.end(), ids)


def _cached_ids(content: str, forms: _Forms, passages: Passages) -> tuple[str, ...] | None:
    if content not in passages.memory:
        passages.memory[content] = _ids_in(content, forms, passages)
    return passages.memory[content]


def _defined_ids(
    match: re.Match[str], entry: Language, passages: Passages
) -> tuple[str, ...] | None:
    """Return the ids of the passages that a footnote line such as ``[^1]: Passage 3`` cites.

    The result is ``None`` or empty if the line does not define a footnote.
    """
    label, content = match[1], match[2].strip().strip("*_. ")
    forms = _citation_forms(entry)
    ids = _ids_in(content, forms, passages)
    if ids or not label.startswith("^"):
        # "[1]: The Congo, unlike [3], ..." is prose about passage 1, not a definition.
        return ids if _LETTER.search(content) or "#" in content else None
    inner = next((part.ids for part in citations(content, entry, passages) if part.ids), None)
    if inner:
        return inner
    names = (
        _ids_in(name[0], forms, passages) for name in forms.reference.finditer(_fold_key(content))
    )
    return next(filter(None, names), None)


def _only_defines(text: str, start: int, end: int, passages: Passages) -> bool:
    """Return whether a citation only defines a footnote, as in ``[^1]: Passage 3``.

    The text must also refer to the footnote.
    """
    if not passages.referenced:
        return False
    match = _DEFINITION.match(text, start, end)
    return match is not None and _fold_key(match[1]) in passages.referenced


# Parentheses and superscripts ---------------------------------------------------------------------

_BARE_NUMBERS = re.compile(r"[\d\s,;،؛、]+")
_NUMBER_OR_HASH = re.compile(r"[\d#]")
_LIST_LABEL = re.compile(r"(?:[\s*_>#-]|\d{1,3}[.)])*")
_CLAUSE_END = re.compile(
    rf"[*_{SPACE}]*(?:[.,;:!?…。．！？،؛؟۔।॥、，；：\"”’»」』)）]|[{BREAKS}]|\Z)"
)
_ENDS_IN_DIGIT_OR_LETTER = re.compile(r"\d\Z|\b[A-Za-z]\Z")
_LINE_END = re.compile(rf"[({{（]\d{{1,3}}[)）][*_{SPACE}]*(?:[{BREAKS}]|\Z)")
_NEXT = re.compile(rf"(?:[{SPACE},;،、]{{0,3}}[(（\[][\d ,;،、]{{1,30}}[)）\]]){{1,9}}")
_LAST_WORD = re.compile(r"([^\W\d_]+)[*_\s]*\Z")
_LONGEST_LINE = 2000  # looking further for every pair of parentheses would take time n * n
_FIRST_YEAR, _LAST_YEAR = 1000, 2100


def _ids_in_parentheses(
    match: re.Match[str], entry: Language, passages: Passages
) -> tuple[str, ...] | None:
    """Return the ids of the passages that ``(1)`` or ``(Passage 3)`` cites.

    The result is ``None`` if the content of the parentheses is not a citation.
    """
    content = match[3]
    if not _NUMBER_OR_HASH.search(content):
        return None
    bare = _BARE_NUMBERS.fullmatch(content) is not None
    if not bare and _DASH.search(content) and not _LETTER.search(content) and "#" not in content:
        return None  # more likely a score or a range of years
    ids = _cached_ids(content, _citation_forms(entry), passages)
    if not ids:
        return ids if ids is not None and "#" in content else None
    return ids if not bare or _is_used_as_citation(match, entry) else None


def _is_used_as_citation(match: re.Match[str], entry: Language) -> bool:
    """Return whether numbers in parentheses are a citation and not a label, a year or a value.

    They are a citation only at the end of a sentence or a clause.
    """
    text, start, end = match.string, match.start(), match.end()
    if any(_FIRST_YEAR <= int(n) <= _LAST_YEAR for n in re.findall(r"\d{1,9}", match[3])):
        return False
    line = BREAK.split(text[max(start - 200, 0) : start])[-1]
    before = line.rstrip()
    if _LIST_LABEL.fullmatch(line) or (
        before == line and _ENDS_IN_DIGIT_OR_LETTER.search(line[-2:])
    ):
        return False  # the label of a list item, or 5(1), or f(2)
    if before[-1] in ":：" or _repeats_word_before(before, match[3], entry):
        return False
    if following := _NEXT.match(text, end):
        end = following.end()
    if _CLAUSE_END.match(text, end):
        return True
    # "So it is. (3) Next." has a citation if another one ends the line. Otherwise (3) may be the
    # label of the next item.
    is_boundary = before[-1] in entry.terminators or entry.sentence_ends == "spaces"
    return is_boundary and _ends_its_line(text, end)


def _ends_its_line(text: str, position: int) -> bool:
    stop = BREAK.search(text, position, position + _LONGEST_LINE)
    end = stop.start() if stop else min(len(text), position + _LONGEST_LINE)
    return _LINE_END.search(text, max(position, end - 20), end + 1) is not None


def _repeats_word_before(before: str, content: str, entry: Language) -> bool:
    """Return whether the word before a number in parentheses is the same number or a conjunction.

    Examples are "three (3)" and "(1) or (2)".
    """
    word = _LAST_WORD.search(before[-40:])
    if word is None:
        return False
    key = word[1].casefold()
    if key in entry.conjunctions or key in LANGUAGES["en"].conjunctions:
        return True
    number = _fold_key(content).strip()
    return number.isdecimal() and lexicon(entry.code).numbers.get(key) == int(number)


_UNIT_NAMES = """
km m cm mm dm nm µm ft mi in yd mil mile miles kg g s sec h min w v j n pa mol k ha
км м см мм дм фут миль с кг كم م سم مم کم متر
किमी मी सेमी कि.मी वर्गमी কিমি মি সেমি మీ కిమీ సెమీ กม ม ซม ตร
米 公里 千米 厘米 毫米 公分 キロ メートル センチ 킬로미터 미터 ㎞ ㎝ ㎜ ㎡
"""
_UNITS = frozenset(map(_fold_key, _UNIT_NAMES.split()))
_NUMBER_BEFORE = re.compile(r"\d+\Z")
_OPERATORS = "⁻⁺+=^/"
_NOT_OF_UNIT = re.compile(r"[\s\d/·*()（）\"'”’»」』\]]")
_POWERS = "¹²³"


def _ids_of_superscript(
    match: re.Match[str], raised: str, entry: Language, passages: Passages
) -> tuple[str, ...] | None:
    """Return the ids of the passages that ``¹`` or ``¹,³`` (``raised``) cites.

    The result is ``None`` if the superscript is not a citation, such as a power, or if no passage
    matches.
    """
    text, start, end = match.string, match.start(), match.end()
    if not BREAK.split(text[max(start - 20, 0) : start])[-1].strip():
        return None  # it opens the line, so there is no statement before it
    if _LETTER.match(text, end) and (start == 0 or not text[start - 1].isalnum()):
        return None  # ¹⁴C
    if _is_power(text[max(start - 20, 0) : start], raised, entry):
        return None
    key = _fold_key(raised)
    if passages.footnotes:
        labels = (label.removeprefix("^") for label in passages.footnotes)
        key = re.sub(rf"(?<!\d)(?:{any_of(labels)})(?!\d)", r"^\g<0>", key)
    ids = _cached_ids(key, _citation_forms(entry), passages)
    if not ids and key.isdecimal():  # ¹³ may be two citations
        digits = [passages.numbered(int(digit)) for digit in key]
        ids = unique(id_ for matches in digits for id_ in matches) if all(digits) else None
    return ids or None


def _is_power(before: str, superscript: str, entry: Language) -> bool:
    """Return whether a superscript is a power of a unit, a number or a variable: km², 10³, x²."""
    if number := _NUMBER_BEFORE.search(before):  # except after a year, as in 1912³
        return len(number[0]) != 4 or not _FIRST_YEAR <= int(number[0]) <= _LAST_YEAR
    if before[-1] in _OPERATORS:
        return True
    word = _NOT_OF_UNIT.split(before.rstrip("."))[-1]
    if len(superscript) == 1 and superscript in _POWERS and _fold_key(word) in _UNITS:
        return True
    if entry.tokens == "character" and not word.isascii():
        # Without spaces, a unit cannot be split from the words before it.
        return superscript in _POWERS and any(
            word.endswith(unit) for unit in _UNITS if len(unit) > 1
        )
    # x² and mc²: a cited statement seldom ends in a word of two letters.
    return len(word) == 1 or (len(word) == 2 and word.isascii() and superscript in "²³")


def _ids_in(content: str, forms: _Forms, passages: Passages) -> tuple[str, ...] | None:
    """Return the ids that the content of a bracket cites; ``None`` if it is not a citation."""
    if content.strip() in passages.by_id:
        return (passages.by_id[content.strip()],)
    if "†" in content:
        content = _SOURCE.sub("", content)
    ids: list[str] = []
    items = 0
    # Each range removes its numbers from this list, because a second range adds no new passage.
    numbers = list(passages.numbers)
    for token in _split_bracket(_fold_key(content), forms, passages):
        matches = passages.by_title_or_label(token)
        if matches is not None:
            items += 1
            ids += matches
            continue
        if token not in passages.by_id:
            token = token.strip(_AROUND_ID)
        if token not in passages.by_id and (word := forms.word.match(token)):
            token = token[word.end() :]
        if token in forms.conjunctions or not token:
            continue
        passage_ids = _ids_of(token, passages, numbers)
        if passage_ids is None:
            return None
        items += 1
        ids += passage_ids
    return unique(ids) if items else None


def _split_bracket(key: str, forms: _Forms, passages: Passages) -> Iterator[str]:
    """Yield the parts of a bracket's content, such as ids and numbers.

    ``key`` is the normalised content. An id or title is one part even if it contains commas or
    spaces.
    """
    parts = [key] if passages.has(key) else _SEPARATOR.split(forms.glued.sub(",", key))
    for part in map(str.strip, parts):
        if passages.has(part):
            yield part
        else:
            yield from _DASH.sub("-", part).split()


def _ids_of(token: str, passages: Passages, numbers: list[int]) -> list[str] | None:
    """Return the ids of the passages that one part of a bracket cites.

    The result is ``None`` if the part is not an id, a number or a range of numbers.

    Args:
        token: The part.
        passages: The passages of the prompt.
        numbers: Sorted passage numbers, without those in earlier ranges of this bracket. If the
            part is a range, the function removes the numbers in this range from the list.
    """
    if token in passages.by_id:
        return [passages.by_id[token]]
    match = _NUMBERS.fullmatch(token)
    if match is None:
        return [] if _UNKNOWN_ID.fullmatch(token) else None
    ends = [number for number in match.groups() if number]
    if any(len(number) > 3 and int(number) > len(passages.ids) for number in ends):
        return None  # more likely a year
    first, last = int(ends[0]), int(ends[-1])
    if len(ends) == 1:
        return passages.numbered(first)
    span = slice(bisect_left(numbers, first), bisect_right(numbers, last))
    cited = [passage for number in numbers[span] for passage in passages.numbered(number)]
    del numbers[span]
    return cited


_CONNECTED = re.compile(rf"[{SPACE},;،؛、，；]*")
_SPACES = re.compile(rf"[{SPACE}]*")
_OPENED = ("(", "（")
_CLOSED = (")", "）")
_CLOSING = frozenset(".,;:!?…。．！？،؛؟۔।॥、，；：)]}）］】〕」』”’»")


def without_citations(
    text: str, entry: Language, passages: Passages
) -> tuple[str, list[tuple[int, tuple[str, ...]]]]:
    """Remove the citations from a text, and tidy the spaces around them.

    Args:
        text: The text.
        entry: The language of the text.
        passages: The passages that may be cited.

    Returns:
        The text, and for each group of adjacent citations its offset in the returned text and the
        cited ids.
    """
    pieces: list[str] = []
    marks: list[tuple[int, tuple[str, ...]]] = []
    length = cursor = 0
    before = ""
    for start, end, ids in _group_citations(text, entry, passages):
        after = _spaces_end(text, end)
        piece = text[cursor:start].rstrip(" \t\xa0\u3000")
        before = piece[-1:] or before
        had_space = after > end or len(piece) < start - cursor
        joint = " " if _needs_space(before, text[after : after + 1], had_space, entry) else ""
        pieces += (piece, joint)
        marks.append((length + len(piece), ids))
        length += len(piece) + len(joint)
        cursor = after
    whole = "".join([*pieces, text[cursor:]])
    lead = len(whole) - len(whole.lstrip())
    tidy = whole.strip()
    return tidy, [(min(max(offset - lead, 0), len(tidy)), ids) for offset, ids in marks]


def _group_citations(text: str, entry: Language, passages: Passages) -> list[Citation]:
    """Return the citations of a text, each merged with the citations directly beside it.

    The spans include parentheses that enclose a citation.
    """
    groups: list[tuple[int, int, list[str]]] = []
    for start, end, ids in citations(text, entry, passages):
        if _only_defines(text, start, end, passages):
            ids = ()
        if groups and _CONNECTED.fullmatch(text, groups[-1][1], start):
            first, _, group_ids = groups.pop()
            group_ids += ids
            groups.append((first, end, group_ids))
        else:
            groups.append((start, end, list(ids)))
    return [_with_parentheses(text, *group) for group in groups]


def _with_parentheses(text: str, start: int, end: int, ids: Iterable[str]) -> Citation:
    after = _spaces_end(text, end)
    if text.startswith(_OPENED, max(start - 1, 0), start) and text.startswith(_CLOSED, after):
        start, end = start - 1, after + 1
    return Citation(start, end, unique(ids))


def _spaces_end(text: str, start: int) -> int:
    match = _SPACES.match(text, start)
    return match.end() if match else start


def _needs_space(before: str, after: str, had_space: bool, entry: Language) -> bool:
    """Return whether a space is needed between the texts before and after a removed citation."""
    if not before or not after or before.isspace() or after in _CLOSING or BREAK.match(after):
        return False
    if had_space or not after.isalnum():
        return had_space
    if entry.tokens == "word":
        return before.isalnum() or before in entry.terminators
    return before.isalnum() and len(tokenize(before + after, entry)) == 1  # digits, Latin letters
