"""Which of a dataset's passages the passages of a system are.

A system may cut documents in its own way and call its passages as it likes. Its passage is one of
the dataset's if both have the same id and versions of one text, or the same text, or if one text
holds the other and both are of one document. Markup, signs and case make no difference. If the
text of a passage is not known, its id decides; an id of the dataset without a text may also name
the document of the passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from mirage._base.gaps import NotComputed
from mirage._base.passages import NOTHING_JUDGED, bare_text, document_of, is_other_text
from mirage.languages import LANGUAGES, Language
from mirage.models import Passage, Query, Response
from mirage.text import parse

__all__ = ["NO_GAPS", "CitationGaps", "citation_gaps", "relevant_matches", "same_passage"]


class CitationGaps(NamedTuple):
    """Why the citations of a run cannot be measured; ``None`` if they can.

    Attributes:
        unjudged: the dataset knows none of the passages that the system brought.
        unread: the system cites ids of another form than those of the passages, or in a style
            that :func:`mirage.text.parse` does not read.
    """

    unjudged: NotComputed | None = None
    unread: NotComputed | None = None


NO_GAPS = CitationGaps()


def same_passage(passage: Passage, other: Passage) -> bool:
    """Return whether two passages are the same, by id, text and document."""
    if passage.id == other.id:
        return not is_other_text(passage.text, other.text)
    text, other_text = bare_text(passage.text), bare_text(other.text)
    if not text or not other_text:
        return False
    if text == other_text:
        return True
    return (text in other_text or other_text in text) and _same_document(passage, other)


def _same_document(passage: Passage, other: Passage) -> bool:
    names, others = _document_names(passage), _document_names(other)
    return bool(names & others) or _extends(passage, other) or _extends(other, passage)


def _document_names(passage: Passage) -> set[str]:
    """The document, also without its folder: systems name files by other paths."""
    name = passage.document_id
    return {name, PurePosixPath(name).name} - {""}


def _extends(passage: Passage, other: Passage) -> bool:
    """Whether an id goes on from the other's document, as ``deploy.rst:3`` from ``deploy.rst``."""
    document = other.document_id
    return re.match(rf"{re.escape(document)}[^\w]", passage.id) is not None


# One response -------------------------------------------------------------------------------------


def relevant_matches(query: Query, response: Response) -> dict[str, frozenset[str]]:
    """Return the relevant ids of the query that each shown passage counts as.

    A long passage may hold several relevant ones; passages that count as none are left out.
    """
    relevant = dict.fromkeys(query.relevant)
    own = {passage.id: passage for passage in query.passages}
    brought = {passage.id: passage for passage in response.passages}
    matches = {
        id_: frozenset(name for name in relevant if _is_relevant(id_, brought.get(id_), name, own))
        for id_ in query.shown_to(response)
    }
    return {id_: names for id_, names in matches.items() if names}


def _is_relevant(
    shown: str, passage: Passage | None, relevant: str, own: Mapping[str, Passage]
) -> bool:
    """Whether a shown passage is the relevant one of this id."""
    judged = own.get(relevant)
    if judged is None:
        known = passage or own.get(shown)
        document = document_of(shown) if known is None else known.document_id
        return relevant in (shown, document)
    if passage is None or (shown in own and not is_other_text(passage.text, own[shown].text)):
        return shown == relevant
    return same_passage(passage, judged)


# A whole run --------------------------------------------------------------------------------------


def citation_gaps(
    queries: Iterable[Query], responses: Iterable[Response], *, retrieved: bool = False
) -> CitationGaps:
    """Return why the citations of a run cannot be measured.

    Args:
        queries: the queries of the dataset.
        responses: those of the run.
        retrieved: whether the passages of the queries were retrieved for the run, so that their
            ids are those of the corpus.
    """
    by_id = {query.id: query for query in queries}
    pairs = [
        (by_id[response.query_id], response)
        for response in responses
        if response.text is not None and response.query_id in by_id
    ]
    return CitationGaps(None if retrieved else _unjudged(by_id, pairs), _unread(pairs))


def _unjudged(
    by_id: Mapping[str, Query], pairs: Iterable[tuple[Query, Response]]
) -> NotComputed | None:
    """Why relevance says nothing of the passages that the responses brought."""
    brought = [
        (query, response)
        for query, response in pairs
        if (response.shown or response.passages) and (query.relevant or query.passages)
    ]
    if not brought:
        return None
    texts = dict.fromkeys((id_ for query in by_id.values() for id_ in query.relevant), "")
    for query in by_id.values():
        texts |= {passage.id: passage.text for passage in query.passages}
    plain = {bare_text(text) for text in texts.values() if text}
    if any(_is_known(query, response, texts, plain) for query, response in brought):
        return None
    query, response = brought[0]
    theirs, ours = query.shown_to(response)[0], (*query.relevant, *query.passage_ids)[0]
    return NotComputed(f"{NOTHING_JUDGED} ({theirs!r} was found, {ours!r} is in the dataset)")


def _is_known(query: Query, response: Response, texts: Mapping[str, str], plain: set[str]) -> bool:
    """Whether the dataset knows a passage that a response brought."""
    brought = {passage.id: passage for passage in response.passages}
    for id_ in query.shown_to(response):
        passage = brought.get(id_)
        text = "" if passage is None else passage.text
        if id_ in texts and not is_other_text(text, texts[id_]):
            return True
        if text and bare_text(text) in plain:
            return True
        if passage is not None and any(same_passage(passage, own) for own in query.passages):
            return True
    return bool(relevant_matches(query, response))


_BRACKET = re.compile(r"[\[【]([^\[\]【】\n]{1,200})[\]】](?!\()")
_ID = re.compile(r"(?=.*[^\W\d_])(?=.*[#:/._-])[^\s\"'†]{2,}\w")
_RUNS = (re.compile(r"\d+"), "9"), (re.compile(r"[^\W\d_]+"), "a")


def _unread(pairs: Iterable[tuple[Query, Response]]) -> NotComputed | None:
    """Why nothing is known of what the responses cite.

    That is if no response cites a shown passage, and half of those with brackets have an id there
    whose form no shown passage has: ``deploy.rst:3`` if the ids are like ``deploy.rst#3``. An id of
    the right form that was not shown is a false citation.
    """
    pairs = list(pairs)
    return _foreign(pairs) or _unread_style(pairs)


def _foreign(pairs: Sequence[tuple[Query, Response]]) -> NotComputed | None:
    """Why nothing is known if the cited ids have another form than the shown ones."""
    bracketed = [pair for pair in pairs if _BRACKET.search(pair[1].text or "")]
    foreign = [(pair, next(_foreign_ids(*pair), None)) for pair in bracketed]
    unknown = [(query, response, id_) for (query, response), id_ in foreign if id_ is not None]
    if not unknown or 2 * len(unknown) < len(bracketed):
        return None
    if any(_cites(query, response) for query, response in bracketed):
        return None
    query, response, cited = unknown[0]
    shown = query.shown_to(response)[0]
    return NotComputed(f"{NOTHING_JUDGED} ({cited!r} is cited, {shown!r} was shown)")


# Brackets that may hold a citation in a style of its own: [Source A], {3}, <doc 3>, (source A).
_SQUARE = re.compile(r"[\[【［]([^\[\]【】［］\n]{1,60})[\]】］](?!\()")
_ODD = re.compile(r"[{<⟨⟦‹]([^{}<>⟨⟩⟦⟧‹›/\n]{0,30}\d[^{}<>⟨⟩⟦⟧‹›/\n]{0,30})[}>⟩⟧›]")
_ROUND = re.compile(r"[(（]([^()（）\n]{1,60})[)）]")
_REMARKS = frozenset(("sic", "x"))
_LETTER = re.compile(r"[^\W\d_]")
_RARELY = 0.1


def _unread_style(pairs: Sequence[tuple[Query, Response]]) -> NotComputed | None:
    """Why nothing is known if most responses have brackets in a style that is not read.

    Responses that cite a shown passage in another style must be rare: under a tenth.
    """
    strange = [(pair, _strange_bracket(*pair)) for pair in pairs]
    unread = [(query, response, text) for (query, response), text in strange if text]
    if 2 * len(unread) <= len(pairs):
        return None
    if sum(_cites(*pair) for pair in pairs) >= _RARELY * len(pairs):
        return None
    query, response, text = unread[0]
    shown = query.shown_to(response)[0]
    return NotComputed(
        f"the style of the citations was not recognised: {text!r} names no shown passage "
        f"({shown!r} was shown); cite by id or position, as in [1]"
    )


def _strange_bracket(query: Query, response: Response) -> str:
    """The first bracket that looks like a citation but is not read as one; empty if none does."""
    text, shown = response.text or "", query.shown_to(response)
    if not shown:
        return ""
    entry = Language.of(query.language)
    words = {word.casefold() for word in (*entry.passage_words, *LANGUAGES["en"].passage_words)}
    for pattern in (_SQUARE, _ODD, _ROUND):
        for match in pattern.finditer(text):
            content = match[1].strip().casefold()
            if pattern is _SQUARE and (not _LETTER.search(content) or content in _REMARKS):
                continue
            if pattern is _ROUND and content.partition(" ")[0] not in words:
                continue
            if match[0][0] == "<" and not (content.isdigit() or content.split()[0] in words):
                continue  # <h2>, <font size=3>: markup
            if not _is_read(f"x {match[0]}.", query, response):
                return match[0]
    return ""


def _is_read(text: str, query: Query, response: Response) -> bool:
    """Whether the bracket behind a word is made like a citation, also of a passage not shown."""
    shown, titles = query.shown_to(response), query.titles_shown_to(response)
    return parse(text, query.language, shown, titles=titles).answer_text == "x."


def _foreign_ids(query: Query, response: Response) -> Iterator[str]:
    """The cited ids that are of another form than the ids of all shown passages."""
    shown = query.shown_to(response)
    forms = set(map(_form, shown))
    for match in _BRACKET.finditer(response.text or ""):
        for item in map(str.strip, re.split("[,;]", match[1])):
            if shown and _ID.fullmatch(item) and _form(item) not in forms:
                yield item


def _form(id_: str) -> str:
    """An id with its numbers and words each as one sign."""
    for pattern, sign in _RUNS:
        id_ = pattern.sub(sign, id_)
    return id_


def _cites(query: Query, response: Response) -> bool:
    shown, titles = query.shown_to(response), query.titles_shown_to(response)
    return bool(parse(response.text or "", query.language, shown, titles=titles).citations)
