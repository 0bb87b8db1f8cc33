"""A response parsed: its sections, citations and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirage.languages import Language
from mirage.text._layout import blanked, mask_layout, mask_small_talk, unmasked, unwrapped
from mirage.text._sections import section, sections
from mirage.text._small_talk import Context
from mirage.text._unicode import nfc
from mirage.text.citations import Citation, Passages, citations, unique, without_citations
from mirage.text.sentences import Sentence, cited_sentences, sentence_spans

__all__ = ["ParsedResponse", "parse"]


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """What :func:`parse` finds in one response.

    Attributes:
        reason: the reason section as written, stripped; empty where there is none.
        answer: the answer section as written, stripped; empty where there is none.
        answer_text: the answer's content without citations, also without those that name no
            passage.
        citations: the passage ids that the whole response cites, in order of first occurrence.
        sentences: the answer's sentences, as :func:`split_sentences` finds them.
        well_formed: there is one reason heading, then one answer heading, and an answer.
        content: the answer with a space for each character of layout or small talk, so that
            offsets are the same in both; citations are still there.
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
) -> ParsedResponse:
    """Parse one response to a prompt that showed the passages ``shown``, in this order.

    Sections: a heading is ``Reason`` or ``Answer``, in English or in ``language``, in any case,
    with or without one to six ``#`` and marks (bold, ``【】``). Without ``#`` it has to open a
    line; without a colon it has to end the line and to carry ``#`` or marks. Where a section has
    a heading with ``#``, words that could head it without ``#`` are prose. Sections of one kind
    are joined, in the order of the text. What stands before the first heading is the answer where
    no answer heading follows: so is a text without any heading.

    Citations: brackets with passage ids, positions in ``shown`` (from 1, in any script's digits)
    or ranges of positions, or several of these, each with or without a word such as ``Passage``
    before it. What equals a shown id is that id, even where it could be a position. A bracket
    that names no shown passage is no citation; it still leaves ``answer_text`` if it is made like
    one, of numbers of up to three digits and of ids with a ``#``: ``[17]`` and ``[123#4]`` go,
    ``[1969]`` and ``[sic]`` stay. A bracket with a title in ``titles`` (by id) that one shown
    passage alone has cites that passage. ``(Passage 3)`` and ``(1001#2)`` are citations too;
    ``(1)`` is one at the end of a sentence or a clause, and ``¹`` if it is no power, as in km². A
    line ``[^1]: Passage 3`` defines what ``[^1]`` and ``¹`` cite; without one they are positions.

    Sentences: a citation belongs to the sentence it stands in or behind, or, where it opens a
    line, to the sentence that follows on that line. In a language that writes no full stop a
    citation ends a sentence.

    Content: ``answer_text`` and ``sentences`` leave out layout: Markdown's marks, headings and
    labels that only name what follows, URLs, emoji, lists of sources. A block ``<think>`` is no
    part of the response, and of a JSON object the strings are. If ``question`` or ``passages`` are
    given, sentences that assert nothing ("I hope this helps!"), signatures and "According to
    passage 2," are left out too; a sentence with a number, a name or a word of the question never
    is. What is left out still counts as cited.

    Args:
        text: the response.
        language: the language that it should be in.
        shown: the ids of the passages in the prompt, in order.
        question: what was asked.
        passages: the texts of the passages.

    Raises:
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    known = Passages.of(shown, titles).with_footnotes(text, entry)
    context = Context(entry, nfc(question), tuple(passages)) if question or passages else None
    text, wrapped = unwrapped(nfc(text), entry)
    kinds, bodies = sections(text, entry) if wrapped is None else _sections_of_json(wrapped, entry)
    brackets = (citation for _, body in bodies for citation in citations(body, entry, known))
    answer = section(bodies, "answer")
    masked = _masked(answer, entry, known, context)
    answer_text, marks = without_citations(unmasked(masked, answer), entry, known)
    return ParsedResponse(
        reason=section(bodies, "reason"),
        answer=answer,
        answer_text=answer_text,
        citations=unique(id_ for bracket in brackets for id_ in bracket.ids),
        sentences=cited_sentences(answer_text, marks, entry),
        well_formed=kinds == ["reason", "answer"] and bool(answer),
        content=blanked(masked),
    )


def _sections_of_json(
    parts: list[tuple[str, str]], entry: Language
) -> tuple[list[str], list[tuple[str, str]]]:
    """The sections of a JSON object, whose strings may have headings of their own."""
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


def _masked(answer: str, entry: Language, known: Passages, context: Context | None) -> str:
    """The answer with its layout, and the sentences that assert nothing, masked."""
    brackets = tuple(citations(answer, entry, known))
    masked = mask_layout(answer, entry, brackets, context)
    if context is not None:
        masked = mask_small_talk(masked, _spans(masked, brackets, entry), brackets, context)
    # An answer of layout alone is read as it is: it is no empty answer.
    return masked if blanked(masked).strip() else answer


def _spans(masked: str, brackets: Sequence[Citation], entry: Language) -> list[tuple[int, int]]:
    """Where the sentences of a masked answer stand."""
    pieces: list[str] = []
    cursor = 0
    blank = blanked(masked)
    for start, end, _ in brackets:
        pieces += (blank[cursor:start], " " * (end - start))
        cursor = end
    stops = () if entry.sentence_ends == "marks" else [end for _, end, _ in brackets]
    return sentence_spans("".join([*pieces, blank[cursor:]]), entry, stops)
