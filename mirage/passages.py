"""Match the passages of a system with the passages of a dataset.

A system may split documents in its own way and use its own passage ids. A passage of the system
and a passage of the dataset are the same in any of three cases:

- They have the same id, and their texts are similar. (One text contains the other, or at least
  half of the shorter text's character 5-grams also occur in the other.)
- They have the same text.
- One text contains the other, and both belong to the same document.

Differences of markup, punctuation and case are ignored. If the text of one of the passages is
unknown, only the ids are compared. If the dataset then names the id of a whole document as
relevant, every passage of that document matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from mirage._base.gaps import NotComputed
from mirage._base.passages import NOTHING_JUDGED, bare_text, document_of, is_other_text
from mirage.languages import LANGUAGES, Language
from mirage.models import Passage, Query, Response
from mirage.text import parse
from mirage.text.citations import Passages, unread_source


class CitationGaps(NamedTuple):
    """Reasons why the citations of a run cannot be measured.

    Each attribute contains a message, or ``None`` if its reason does not apply.

    Attributes:
        unjudged: The dataset contains none of the passages that the system retrieved.
        unread: The citations cannot be read. Either the cited ids have another format than the ids
            of the passages, or :func:`mirage.text.parse` does not recognise the style of the
            citations.
        mislabelled: No passage has the id of a relevant passage.
    """

    unjudged: NotComputed | None = None
    unread: NotComputed | None = None
    mislabelled: NotComputed | None = None


NO_GAPS = CitationGaps()


def same_passage(passage: Passage, other: Passage) -> bool:
    """Return whether two passages are the same, although their ids may differ.

    They are the same if they have the same id and similar texts, if they have the same text, or if
    one text contains the other and both belong to the same document. :mod:`mirage.passages`
    explains these rules.

    Example:
        >>> a = Passage(id="nile.md#0", text="The Nile is long. It flows north.")
        >>> same_passage(a, Passage(id="nile.md:1", text="It flows north."))
        True
    """
    if passage.id == other.id:
        return not is_other_text(passage.text, other.text)
    text, other_text = bare_text(passage.text), bare_text(other.text)
    if not text or not other_text:
        return False
    if text == other_text:
        return True
    return (text in other_text or other_text in text) and _same_document(passage, other)


def _same_document(passage: Passage, other: Passage) -> bool:
    names, other_names = _document_names(passage), _document_names(other)
    return bool(names & other_names) or _extends(passage, other) or _extends(other, passage)


def _document_names(passage: Passage) -> set[str]:
    """Return the names of a passage's document: its id, and its id without the folder.

    The id without the folder is needed because systems use different paths for one document.
    """
    name = passage.document_id
    return {name, PurePosixPath(name).name} - {""}


def _extends(passage: Passage, other: Passage) -> bool:
    """Return whether the id of ``passage`` is the document id of ``other`` plus a suffix.

    An example is ``deploy.rst:3`` for the document id ``deploy.rst``.
    """
    document = other.document_id
    return re.match(rf"{re.escape(document)}[^\w]", passage.id) is not None


# One response -------------------------------------------------------------------------------------


def relevant_matches(query: Query, response: Response) -> dict[str, frozenset[str]]:
    """Return, for each shown passage, the ids of the relevant passages that match it.

    Two passages match if they are the same by the rules in :mod:`mirage.passages`. A long passage
    may match several relevant passages. Shown passages that match none are left out.

    Args:
        query: Query with its passages and the ids of the relevant ones.
        response: Response that names the shown passages.

    Returns:
        Ids of relevant passages, by the id of the shown passage.
    """
    relevant = dict.fromkeys(query.relevant)
    query_passages = {passage.id: passage for passage in query.passages}
    response_passages = {passage.id: passage for passage in response.passages}
    matches = {
        id_: frozenset(
            name
            for name in relevant
            if _is_relevant(id_, response_passages.get(id_), name, query_passages)
        )
        for id_ in query.shown_to(response)
    }
    return {id_: names for id_, names in matches.items() if names}


def _is_relevant(
    shown_id: str, passage: Passage | None, relevant: str, query_passages: Mapping[str, Passage]
) -> bool:
    """Return whether a shown passage matches a relevant one by the rules of this module.

    Args:
        shown_id: Id of the shown passage.
        passage: The shown passage, if the response contains it.
        relevant: Id of the relevant passage.
        query_passages: Passages of the query, by id.
    """
    judged = query_passages.get(relevant)
    if judged is None:
        shown_passage = passage or query_passages.get(shown_id)
        document = document_of(shown_id) if shown_passage is None else shown_passage.document_id
        return relevant in (shown_id, document)
    if passage is None or (
        shown_id in query_passages
        and not is_other_text(passage.text, query_passages[shown_id].text)
    ):
        return shown_id == relevant
    return same_passage(passage, judged)


# A whole run --------------------------------------------------------------------------------------


def citation_gaps(
    queries: Iterable[Query], responses: Iterable[Response], *, retrieved: bool = False
) -> CitationGaps:
    """Return the reasons why the citations of a run cannot be measured, if there are any.

    Args:
        queries: Queries of the dataset.
        responses: Responses of the run.
        retrieved: Whether the passages of the queries were retrieved for this run. If so, they are
            the system's own passages, and :attr:`CitationGaps.unjudged` is ``None``.
    """
    by_id = {query.id: query for query in queries}
    pairs = [
        (by_id[response.query_id], response) for response in responses if response.query_id in by_id
    ]
    survey = CitationSurvey(retrieved=retrieved)
    survey.add(by_id.values(), pairs)
    if survey.needs_recount:
        survey.recount(pairs)
    return survey.gaps()


class CitationSurvey:
    """An accumulator that finds the citation gaps of a run whose responses are read in blocks.

    The citation gaps are the reasons why the citations of a run cannot be measured, such as an
    unknown style of citations; see :class:`CitationGaps`.

    Pass each block to :meth:`add`. If :attr:`needs_recount` is true, also pass each block to
    :meth:`recount`. Then call :meth:`gaps`. The passages that a response was made from are compared
    only with the passages of the queries in the same block.

    Args:
        retrieved: Whether the passages of the queries were retrieved for the run; see
            :func:`citation_gaps`.
    """

    def __init__(self, *, retrieved: bool = False) -> None:
        self._retrieved = retrieved
        self._answers = self._bracketed = self._foreign = self._strange = self._recounted = 0
        self._cites = self._is_judged = self._is_relevant_shown = False
        # The reason that the first response of each kind gives, if it turns out to apply.
        self._unjudged_reason = self._foreign_reason = self._strange_reason = ""
        self._mislabelled_reason = ""

    def add(self, queries: Iterable[Query], pairs: Iterable[tuple[Query, Response]]) -> None:
        """Add a block of queries and their responses.

        Args:
            queries: The queries of the block, also those without a response.
            pairs: The responses, each with its query.
        """
        answers = [pair for pair in pairs if pair[1].text is not None]
        self._answers += len(answers)
        if not self._retrieved and not self._is_judged:
            self._survey_judged(queries, answers)
        if not self._retrieved and not self._is_relevant_shown:
            self._survey_relevant(answers)
        self._survey_ids(answers)
        for query, response in answers:
            bracket = _strange_bracket(query, response)
            self._strange += bool(bracket)
            if bracket and not self._strange_reason:
                self._strange_reason = (
                    f"the style of the citations was not recognised: {bracket!r} names no shown "
                    f"passage ({query.shown_to(response)[0]!r} was shown); cite by id or position, "
                    "as in [1]"
                )

    @property
    def needs_recount(self) -> bool:
        """Whether :meth:`recount` must read all responses before :meth:`gaps` is called.

        This is the case if more than half of the responses may have citations in an unknown style.
        """
        return 2 * self._strange > self._answers

    def recount(self, pairs: Iterable[tuple[Query, Response]]) -> None:
        """Count the responses of a block that cite a shown passage in a known style.

        Args:
            pairs: The responses, each with its query, as for :meth:`add`.
        """
        self._recounted += sum(_has_citations(*pair) for pair in pairs if pair[1].text is not None)

    def gaps(self) -> CitationGaps:
        """Return the reasons why the citations of all added responses cannot be measured."""
        reason = self._foreign_ids_reason() or self._unread_style_reason()
        unjudged = "" if self._is_judged else self._unjudged_reason
        mislabelled = "" if self._is_relevant_shown else self._mislabelled_reason
        return CitationGaps(
            *(NotComputed(text) if text else None for text in (unjudged, reason, mislabelled))
        )

    def _survey_judged(
        self, queries: Iterable[Query], pairs: Iterable[tuple[Query, Response]]
    ) -> None:
        """Record whether the prompt of any response showed a passage of the dataset.

        Also store the message that :meth:`gaps` reports if none did.
        """
        pairs_with_passages = [
            (query, response)
            for query, response in pairs
            if (response.shown or response.passages) and (query.relevant or query.passages)
        ]
        if not pairs_with_passages:
            return
        queries = list(queries)
        texts = dict.fromkeys((id_ for query in queries for id_ in query.relevant), "")
        for query in queries:
            texts |= {passage.id: passage.text for passage in query.passages}
        bare_texts = {bare_text(text) for text in texts.values() if text}
        self._is_judged = any(
            _has_dataset_passage(query, response, texts, bare_texts)
            for query, response in pairs_with_passages
        )
        if self._unjudged_reason:
            return
        query, response = pairs_with_passages[0]
        retrieved_id = query.shown_to(response)[0]
        dataset_id = (*query.relevant, *query.passage_ids)[0]
        self._unjudged_reason = (
            f"{NOTHING_JUDGED} ({retrieved_id!r} was found, {dataset_id!r} is in the dataset)"
        )

    def _survey_relevant(self, pairs: Iterable[tuple[Query, Response]]) -> None:
        """Record whether any relevant passage is in the dataset or was shown.

        If none is, the relevant passages have other ids than the passages of the dataset. This
        differs from a system that retrieves no relevant passages although the dataset contains
        them.
        """
        for query, response in pairs:
            if not query.relevant or not query.passages:
                continue
            known = not set(query.relevant).isdisjoint(query.passage_ids)
            if known or relevant_matches(query, response):
                self._is_relevant_shown = True
                return
            if not self._mislabelled_reason:
                self._mislabelled_reason = (
                    f"{NOTHING_JUDGED} ({query.passage_ids[0]!r} is in the dataset, "
                    f"{query.relevant[0]!r} is relevant)"
                )

    def _survey_ids(self, pairs: Iterable[tuple[Query, Response]]) -> None:
        """Count the responses that contain square brackets, which may be citations.

        Also count the responses that cite an id whose format differs from that of all shown ids.
        """
        for query, response in pairs:
            if not _BRACKET.search(response.text or ""):
                continue
            self._bracketed += 1
            self._cites = self._cites or _has_citations(query, response)
            cited_id = next(_foreign_ids(query, response), None)
            self._foreign += cited_id is not None
            if cited_id is not None and not self._foreign_reason:
                shown_id = query.shown_to(response)[0]
                self._foreign_reason = (
                    f"{NOTHING_JUDGED} ({cited_id!r} is cited, {shown_id!r} was shown)"
                )

    def _foreign_ids_reason(self) -> str:
        """Return a reason if the cited ids have another format than the shown ids.

        The formats count as different if no response cites a shown passage, and at least half of
        the responses that contain square brackets cite an id whose format differs from that of all
        shown ids. An example is ``deploy.rst:3`` if the shown ids are like ``deploy.rst#3``. An id
        that has the right format but was not shown is a false citation, not an unknown format. If
        the formats do not differ, the result is an empty string.
        """
        is_foreign = 2 * self._foreign >= self._bracketed and not self._cites
        return self._foreign_reason if is_foreign else ""

    def _unread_style_reason(self) -> str:
        """Return a reason if most responses have citations in an unknown style.

        The result is an empty string if they do not, or if at least a tenth of the responses cite a
        shown passage in a known style.
        """
        if not self.needs_recount or self._recounted >= _RARE_SHARE * self._answers:
            return ""
        return self._strange_reason


def _has_dataset_passage(
    query: Query, response: Response, texts: Mapping[str, str], bare_texts: set[str]
) -> bool:
    """Return whether the prompt of a response showed any passage of the dataset.

    Args:
        query: Query of the response.
        response: The response.
        texts: Text of each passage of the dataset, by id; empty if it is unknown.
        bare_texts: The known texts without markup, punctuation and case.
    """
    response_passages = {passage.id: passage for passage in response.passages}
    for id_ in query.shown_to(response):
        passage = response_passages.get(id_)
        text = "" if passage is None else passage.text
        if id_ in texts and not is_other_text(text, texts[id_]):
            return True
        if text and bare_text(text) in bare_texts:
            return True
        if passage is not None and any(
            same_passage(passage, query_passage) for query_passage in query.passages
        ):
            return True
    return bool(relevant_matches(query, response))


_BRACKET = re.compile(r"[\[【]([^\[\]【】\n]{1,200})[\]】](?!\()")
_ID = re.compile(r"(?=.*[^\W\d_])(?=.*[#:/._-])[^\s\"'†]{2,}\w")
_RUNS = (re.compile(r"\d+"), "9"), (re.compile(r"[^\W\d_]+"), "a")


# Brackets that may be a citation in an unknown style: [Source A], {3}, <doc 3>, (source A).
_SQUARE = re.compile(r"[\[【［]([^\[\]【】［］\n]{1,60})[\]】］](?!\()")
_UNUSUAL = re.compile(r"[{<⟨⟦‹]([^{}<>⟨⟩⟦⟧‹›/\n]{0,30}\d[^{}<>⟨⟩⟦⟧‹›/\n]{0,30})[}>⟩⟧›]")
_ROUND = re.compile(r"[(（]([^()（）\n]{1,60})[)）]")
_REMARKS = frozenset(("sic", "x"))
_LETTER = re.compile(r"[^\W\d_]")
_RARE_SHARE = 0.1


def _strange_bracket(query: Query, response: Response) -> str:
    """Return the first text in brackets or after "Source:" that looks like an unknown citation.

    The result is empty if there is none.
    """
    text, shown_ids = response.text or "", query.shown_to(response)
    if not shown_ids:
        return ""
    entry = Language.of(query.language)
    words = {word.casefold() for word in (*entry.passage_words, *LANGUAGES["en"].passage_words)}
    for pattern in (_SQUARE, _UNUSUAL, _ROUND):
        for match in pattern.finditer(text):
            content = match[1].strip().casefold()
            if pattern is _SQUARE and (not _LETTER.search(content) or content in _REMARKS):
                continue
            if pattern is _ROUND and content.partition(" ")[0] not in words:
                continue
            if match[0][0] == "<" and not (content.isdigit() or content.split()[0] in words):
                continue  # <h2>, <font size=3>: markup
            if not _is_recognised(f"x {match[0]}.", query, response):
                return match[0]
    return unread_source(text, entry, Passages.of(shown_ids, query.titles_shown_to(response)))


def _is_recognised(text: str, query: Query, response: Response) -> bool:
    """Return whether the parser reads text in brackets as a citation of any passage, shown or not.

    Args:
        text: A minimal answer with the text in brackets, such as ``x [1].``. If the parser reads it
            as a citation, it removes the citation and leaves ``x.``.
        query: Query of the response.
        response: Response that contains the text in brackets.
    """
    shown_ids, titles = query.shown_to(response), query.titles_shown_to(response)
    return parse(text, query.language, shown_ids, titles=titles).answer_text == "x."


def _foreign_ids(query: Query, response: Response) -> Iterator[str]:
    """Yield the cited ids whose format differs from that of all shown ids."""
    shown_ids = query.shown_to(response)
    forms = set(map(_id_form, shown_ids))
    for match in _BRACKET.finditer(response.text or ""):
        for item in map(str.strip, re.split("[,;]", match[1])):
            if shown_ids and _ID.fullmatch(item) and _id_form(item) not in forms:
                yield item


def _id_form(id_: str) -> str:
    """Return the format of an id: each number is replaced by ``9``, and each word by ``a``."""
    for pattern, placeholder in _RUNS:
        id_ = pattern.sub(placeholder, id_)
    return id_


def _has_citations(query: Query, response: Response) -> bool:
    shown_ids, titles = query.shown_to(response), query.titles_shown_to(response)
    return bool(parse(response.text or "", query.language, shown_ids, titles=titles).citations)
