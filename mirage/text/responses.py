"""Parse a response into its sections, citations and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mirage.languages import Language
from mirage.text._layout import (
    blank_layout,
    is_struck_out,
    mask_layout,
    mask_small_talk,
    remove_layout,
    unwrap_response,
)
from mirage.text._sections import section, sections
from mirage.text._small_talk import Context
from mirage.text._unicode import nfc
from mirage.text.citations import Citation, Passages, citations, unique, without_citations
from mirage.text.sentences import Sentence, cited_sentences, sentence_spans

__all__ = ["ParsedResponse", "parse"]


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """The sections, citations and sentences of a response, as :func:`parse` returns them.

    Attributes:
        reason: Reason section as written, stripped; empty if there is none.
        answer: Answer section as written, stripped; empty if there is none.
        answer_text: The answer without layout, small talk and citations. Citations of passages that
            were not shown are removed too.
        citations: Passage ids that the whole response cites, in order of first occurrence.
        sentences: Sentences of the answer, split as :func:`split_sentences` does.
        well_formed: Whether the response has one reason heading, then one answer heading, and an
            answer that is not empty.
        content: Answer in which each character of layout or small talk is replaced with a space. It
            still contains the citations, and its offsets equal those of ``answer``.
    """

    reason: str
    answer: str
    answer_text: str
    citations: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    well_formed: bool
    content: str = ""


def parse(
    text: str,
    language: str | Language,
    shown: Sequence[str],
    *,
    titles: Mapping[str, str] | None = None,
    question: str = "",
    passages: Sequence[str] = (),
    recurring: frozenset[str] = frozenset(),
) -> ParsedResponse:
    """Parse a response of a model into its sections, citations and sentences.

    Sections: A heading is ``Reason`` or ``Answer``, in English or in ``language``. Case does not
    matter. A heading may have one to six ``#`` and marks (bold, ``【】``). Without ``#``, it must
    begin a line. Without a colon, it must end the line and have ``#`` or marks. If some heading of
    a section has ``#``, the same word without ``#`` is ordinary text. Sections of one kind are
    joined in the order of the text. The text before the first heading belongs to the answer if no
    answer heading follows. Therefore a text without headings is an answer.

    Citations: A bracket may contain passage ids, positions in ``shown`` (from 1, in any script's
    digits), ranges of positions, or several of these. Each may follow a word such as ``Passage``. A
    number that is both an id and a position is read as the id. A bracket with a title in ``titles``
    cites the passage with that title, unless several shown passages share it. A bracket that
    matches no shown passage is not a citation. It is still removed from ``answer_text`` if it has
    the form of a citation (numbers of up to three digits, ids with ``#``): ``[17]`` and ``[123#4]``
    are removed, ``[1969]`` and ``[sic]`` are not. ``(Passage 3)`` and ``(1001#2)`` are citations
    too. ``(1)`` is a citation at the end of a sentence or clause, and ``¹`` is a citation if it is
    not a power as in km². A line ``[^1]: Passage 3`` defines the passages of ``[^1]`` and ``¹``.
    Without such a line, these numbers are positions. A line ``[1] nile#0`` defines ``[1]`` too. An
    id or a title after a label such as "Source:" or after words such as "according to" is also a
    citation.

    Sentences: A citation belongs to the sentence that contains or precedes it. If it begins a line,
    it belongs to the next sentence on that line. In a language without full stops, a citation ends
    a sentence. If no sentence has a citation, sources listed at the end belong to all sentences.

    Content: ``answer_text`` and ``sentences`` exclude layout: Markdown marks, headings and labels
    that only announce the next text, URLs, emoji, lists of sources. A ``<think>`` block is removed
    first. If the response is a JSON object, its strings are parsed. If ``question`` or ``passages``
    are given, sentences without a claim ("I hope this helps!"), signatures and "According to
    passage 2," are excluded too. A sentence with a number, a name or a word of the question is
    never excluded. Excluded citations still count in ``citations``. In a language without a bundled
    leaderboard, headings without content and small talk are not recognised.

    Args:
        text: Response, as written by a model.
        language: Language that the response should be in.
        shown: Ids of the passages in the prompt, in order.
        titles: Titles of passages by id. By default no titles are recognised as citations.
        question: Question. If it is given, it helps to recognise small talk.
        passages: Texts of the passages. If they are given, they help to recognise small talk.
        recurring: Sentences that most answers of the system contain
            (:func:`mirage.text.recurring.recurring_sentences`). They are small talk too, unless
            they deny or refuse an answer or share a word with the question. By default, none.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> text = "##Reason: Passage 1 is about it. ##Answer: It is the Nile [1]."
        >>> parsed = parse(text, "en", ["nile#0", "congo#1"])
        >>> parsed.answer_text, parsed.citations, parsed.well_formed
        ('It is the Nile.', ('nile#0',), True)
    """
    named = tuple(titles.items()) if titles else ()
    entry = Language.of(language)
    return _parse(text, entry, tuple(shown), named, question, tuple(passages), recurring)


@lru_cache(maxsize=2048)
def _parse(
    text: str,
    entry: Language,
    shown: tuple[str, ...],
    titles: tuple[tuple[str, str], ...],
    question: str,
    passages: tuple[str, ...],
    recurring: frozenset[str],
) -> ParsedResponse:
    """Compute the result of :func:`parse`, and cache it for other features."""
    # Footnotes may be defined anywhere in the response, so they are read before its sections.
    passage_index = Passages.of(shown, dict(titles)).with_footnotes(text, entry)
    context = (
        Context(entry, nfc(question), passages, recurring)
        if entry.board and (question or passages)
        else None
    )
    text, json_sections = unwrap_response(nfc(text), entry)
    kinds, bodies = (
        sections(text, entry) if json_sections is None else _sections_of_json(json_sections, entry)
    )
    brackets = (
        citation for _, body in bodies for citation in citations(body, entry, passage_index)
    )
    answer = section(bodies, "answer")
    masked = _mask_answer(answer, entry, passage_index, context)
    answer_text, marks = without_citations(remove_layout(masked, answer), entry, passage_index)
    sentences = cited_sentences(answer_text, marks, entry)
    is_cited = any(sentence.citations for sentence in sentences)
    if not is_cited and (listed := _listed_ids(answer, entry, passage_index)):
        sentences = tuple(Sentence(sentence.text, listed) for sentence in sentences)
    return ParsedResponse(
        reason=section(bodies, "reason"),
        answer=answer,
        answer_text=answer_text,
        citations=unique(id_ for bracket in brackets for id_ in bracket.ids),
        sentences=sentences,
        well_formed=kinds == ["reason", "answer"] and bool(answer),
        content=blank_layout(masked),
    )


def _listed_ids(answer: str, entry: Language, passage_index: Passages) -> tuple[str, ...]:
    """Return the ids in lists of sources, which support every sentence without other citations."""
    return unique(
        id_ for citation in citations(answer, entry, passage_index) for id_ in citation.ids
    )


def _sections_of_json(
    parts: list[tuple[str, str]], entry: Language
) -> tuple[list[str], list[tuple[str, str]]]:
    """Split the strings of a JSON object further, because they may contain headings.

    Returns:
        The kinds of the headings and the parts of the text, as :func:`sections` returns them.
    """
    kinds: list[str] = []
    bodies: list[tuple[str, str]] = []
    for kind, body in parts:
        if kind != "answer":
            bodies.append((kind, body))
            continue
        inner_kinds, inner = sections(body, entry)
        kinds += inner_kinds
        bodies += inner
    return kinds, bodies


def _mask_answer(
    answer: str, entry: Language, passage_index: Passages, context: Context | None
) -> str:
    """Mask the layout and the small talk of an answer, without changing its length.

    If ``context`` is ``None``, small talk is not masked.
    """
    brackets = tuple(citations(answer, entry, passage_index))
    masked = mask_layout(answer, entry, brackets, context)
    if context is not None:
        masked = mask_small_talk(
            masked, _masked_sentence_spans(masked, brackets, entry), brackets, context
        )
    # An answer that consists of layout only, such as an emoji, is not an empty answer.
    only_layout = not blank_layout(masked).strip() and not is_struck_out(answer)
    return answer if only_layout else masked


def _masked_sentence_spans(
    masked: str, brackets: Sequence[Citation], entry: Language
) -> list[tuple[int, int]]:
    """Return the start and end offset of each sentence of a masked answer."""
    pieces: list[str] = []
    cursor = 0
    blank = blank_layout(masked)
    for start, end, _ in brackets:
        # A full stop inside of a citation does not end a sentence.
        pieces += (blank[cursor:start], " " * (end - start))
        cursor = end
    stops = () if entry.sentence_ends == "marks" else [end for _, end, _ in brackets]
    return sentence_spans("".join([*pieces, blank[cursor:]]), entry, stops)
