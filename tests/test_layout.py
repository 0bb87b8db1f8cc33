"""Test layout and small talk: headings, tables, JSON, greetings, lists of sources."""

from __future__ import annotations

import pytest
from cases import each_case
from mannered_texts import MANNERS, PHRASES, Page, false_texts, phrases_of, true_texts
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.features import answered
from mirage.models import Response
from mirage.text import parse
from mirage.text.responses import ParsedResponse

QUESTION = "Which is the longest river in Africa?"
PASSAGES = (
    "Nile\nThe Nile covers more than 6,600 kilometres; nowhere else does water travel so far.",
    "Congo River\nThe Congo crosses the equator twice.",
)


def parsed(text: str) -> ParsedResponse:
    return parse(text, "en", ("a", "b"), question=QUESTION, passages=PASSAGES)


@each_case(
    ("text", "content"),
    [
        ("### Key points\n\nThe Nile [1].", "The Nile."),
        ("**Short answer**\nThe Nile [1].", "The Nile."),
        ("- **Result:** The Nile [1].", "The Nile."),
        ("* The Nile\n* 6,600 km", "The Nile\n6,600 km"),
        ("1. The Nile\n2. 6,600 km", "The Nile\n6,600 km"),
        ("The **Nile**, *really*.", "The Nile, really."),
        ("✅ The Nile 👉🏽 6,600 km 🚀", "The Nile 6,600 km"),
        ("~~Congo~~ The Nile, <del>6,000</del> 6,600 km.", "The Nile, 6,600 km."),
        ("~~The Congo~~", ""),
        ("The Nile, ~6,600 ~ 6,700 km.", "The Nile, ~6,600 ~ 6,700 km."),
        ("See [the page](https://x.org/a_(b)?c=1) on the Nile.", "See the page on the Nile."),
        ("The Nile, https://x.org/1969.", "The Nile, ."),
        ("```text\nThe Nile.\n```", "The Nile."),
        ("The Nile.\n\n---\n\nIt covers 6,600 km.", "The Nile.\n\n\nIt covers 6,600 km."),
        ("| Aspect | Detail |\n|---|:-:|\n| Answer | The Nile [1]. |", "The Nile."),
        ("The Nile [1].\n\nSources:\n- [Nile](https://x.org)\n- [2] Congo River", "The Nile."),
        ("According to passage 1, the Nile.", "the Nile."),
        ("Hello Marta,\nthe Nile.", "the Nile."),
        ("Sure, here is what I found: the Nile.", "the Nile."),
        ("The Nile.\n\nBest regards,\nyour support team", "The Nile."),
        ("The Nile.\n— Ticket #48213", "The Nile."),
        ("Great question! The Nile. I hope this helps.", "The Nile."),
        ("<think>Congo? 1969?</think>The Nile.", "The Nile."),
        ("Congo? 1969?\n</think>\nThe Nile.", "The Nile."),
        ("<think>Congo? It goes on and on", ""),
        ('{"answer": "The Nile [1].", "confidence": "high"}', "The Nile."),
        ('```json\n{"reasoning": "So it is.", "answer": "The Nile."}\n```', "The Nile."),
    ],
)
def test_layout_is_removed_from_the_content(text: str, content: str) -> None:
    assert parsed(text).answer_text == content


@each_case(
    "text",
    [
        "The Congo is the longest river.",
        "I am sure that it is the Congo!",
        "It is the Congo, I hope.",
        "Sure, go ahead.",
        "I looked for it but did not find it.",
        "Sorry, the documents do not answer this question.",
        "That is simply wrong.",
        "2 * 3 = 6, and snake_case_names stay.",
        "1969 was the year.",
        "A passage says that it sank on 15 April 1912.",
        "For 2023 the passages contain only the programme.",
    ],
)
def test_claims_are_never_removed(text: str) -> None:
    assert parsed(f"{text} The Nile covers 6,600 km.").answer_text.startswith(text)


def test_a_greeting_stays_if_there_is_nothing_else() -> None:
    assert parsed("Great question! I hope this helps.").answer_text


@pytest.mark.parametrize("text", ["🙂", "## Summary", "https://x.org"])
def test_an_answer_of_layout_alone_stays(text: str) -> None:
    assert parse(text, "en", ()).answer_text == text


def test_sources_are_cited_but_carry_no_sentence() -> None:
    result = parsed("The Nile [1].\n\nSources: [2]")
    assert result.citations == ("a", "b")
    assert [sentence.citations for sentence in result.sentences] == [("a",)]


def test_content_has_the_offsets_of_the_answer() -> None:
    result = parsed("## Summary\n**The Nile** [1].")
    assert len(result.content) == len(result.answer)
    assert result.content.index("The Nile") == result.answer.index("The Nile")


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_wrapped_texts_are_read_like_plain_ones(code: str) -> None:
    phrases = phrases_of(code, PHRASES)
    assert phrases is not None
    corpus = MirageDataset.bundled(code)
    texts = true_texts(code)[::25] + false_texts(code)[::25]
    for turn, (query_id, text) in enumerate(texts):
        query = corpus[query_id]
        plain = answered(query, Response(query_id=query_id, text=text)).parsed
        for manner in ("JSON", "think", "code fence", "bold"):
            wrapped = MANNERS[manner](Page(text, query, phrases, turn))
            result = answered(query, Response(query_id=query_id, text=wrapped)).parsed
            assert result.answer_text.split() == plain.answer_text.split(), (manner, text)
