"""Descriptions of the facts that a response lost or invented, for messages about regressions."""

from __future__ import annotations

from mirage.features.answer_claims import answer_claims
from mirage.features.base import Answered
from mirage.features.fault_spans import spans

FACTS = ("answer_match", "wrong_answer", "abstention", "invention")
"""Features that check facts: which answers a response states, or whether it abstains.

Messages quote the lost or wrong text beside the values of these features.
"""


def lost_fact(feature: str, item: Answered) -> str:
    """Return a description of the fault that a feature measures in a response.

    Returns:
        A phrase such as ``lost “1969”``; empty if the feature has no description in words.
    """
    query = item.query
    if feature == "answer_match":
        asserted = answer_claims(item).right
        missing = [
            a[0] for a, is_right in zip(query.answers, asserted, strict=True) if not is_right
        ]
        return f"lost {_quote(missing)}" if missing else ""
    if feature == "wrong_answer":
        return _wrong_words(item)
    if feature in ("abstention", "invention") and query.answerable is not None:
        return "no longer answers" if query.answerable else "answers, although no passage does"
    if feature in ("unknown_facts", "support_lexical"):
        made_up = [span.text for span in spans(item) if span.type != "citation"]
        return f"states {_quote(made_up)}, which no shown passage supports" if made_up else ""
    return ""


def _wrong_words(item: Answered) -> str:
    claims, query = answer_claims(item), item.query
    wrong = [
        f[0] for f, asserted in zip(query.wrong_answers, claims.wrong, strict=True) if asserted
    ]
    if wrong:
        return f"says {_quote(wrong)}"
    return f"denies {_quote([query.answers[0][0]])}" if claims.denies_right else ""


def _quote(texts: list[str]) -> str:
    return ", ".join(f"“{text}”" for text in texts[:3])
