"""How long an answer is: neither good nor bad in itself, but judges have a taste."""

from __future__ import annotations

import math

from mirage.features.base import Answered, Definition, Facts

__all__ = ["answer_length"]


def answer_length(item: Answered) -> float:
    """Natural logarithm of one more than the answer's characters, without its citations.

    LLM judges mostly prefer longer answers (Dubois et al. 2024, Length-Controlled AlpacaEval, arXiv
    2404.04475); the logarithm, for twice as long is as much more of a short answer as of a long
    one.
    """
    return math.log1p(len(item.parsed.answer_text))


DEFINITIONS = (Definition("answer_length", answer_length, Facts("none", 0, 20)),)
