"""What a response lost or made up, in words, for the messages of the gate."""

from __future__ import annotations

from mirage.features.answer_claims import answer_claims
from mirage.features.base import Answered
from mirage.features.fault_spans import spans

__all__ = ["FACTS", "lost_fact"]

FACTS = ("answer_match", "wrong_answer", "abstention", "invention")
"""Features of which words say more than numbers: what was lost, or is said in its place."""


def lost_fact(feature: str, item: Answered) -> str:
    """What is wrong with a response by this feature; empty where numbers say it all."""
    query = item.query
    if feature == "answer_match":
        asserted = answer_claims(item).right
        missing = [a[0] for a, held in zip(query.answers, asserted, strict=True) if not held]
        return f"lost {_quoted(missing)}" if missing else ""
    if feature == "wrong_answer":
        return _wrong_words(item)
    if feature in ("abstention", "invention") and query.answerable is not None:
        return "no longer answers" if query.answerable else "answers, and no passage does"
    if feature in ("unknown_facts", "support_lexical"):
        made_up = [span.text for span in spans(item) if span.type != "citation"]
        return f"nothing shown carries {_quoted(made_up)}" if made_up else ""
    return ""


def _wrong_words(item: Answered) -> str:
    claims, query = answer_claims(item), item.query
    wrong = [
        f[0] for f, asserted in zip(query.wrong_answers, claims.wrong, strict=True) if asserted
    ]
    if wrong:
        return f"says {_quoted(wrong)}"
    return f"denies {_quoted([query.answers[0][0]])}" if claims.denies_right else ""


def _quoted(texts: list[str]) -> str:
    return ", ".join(f"“{text}”" for text in texts[:3])
