"""The length of an answer, which does not measure its quality but influences LLM judges."""

from __future__ import annotations

import math

from mirage.features.base import Answered, Definition, Facts


def answer_length(item: Answered) -> float:
    """Return ``log(1 + n)`` for an answer of ``n`` characters, not counting citations.

    LLM judges mostly prefer longer answers (Dubois et al. 2024, Length-Controlled AlpacaEval, arXiv
    2404.04475). On a logarithmic scale, doubling a short answer counts as much as doubling a long
    one.
    """
    return math.log1p(len(item.parsed.answer_text))


DEFINITIONS = (Definition("answer_length", answer_length, Facts("none", 0, 20)),)
