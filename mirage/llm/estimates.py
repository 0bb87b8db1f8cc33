"""Estimates of the calls, tokens and money that a list of questions to an LLM will need."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mirage.llm.budget import Price
from mirage.llm.client import LLM, estimate_tokens
from mirage.llm.questions import Question


@dataclass(frozen=True)
class Estimate:
    """An estimate of the calls, tokens and money that questions will need.

    Attributes:
        calls: Number of answers to request. A question with an unreadable answer is asked up to
            five times again; these calls are not included.
        cached: Number of answers that are already in the cache, at no cost.
        prompt_tokens: Approximate tokens of the prompts (see
            :func:`mirage.llm.client.estimate_tokens`).
        completion_tokens: Maximum number of tokens of the answers; ``None`` if an LLM has no limit.
        cost: Maximum cost of prompts and answers; ``None`` if an LLM has no price or no limit.

    Example:
        >>> Estimate(2, 1, prompt_tokens=500, completion_tokens=200, cost=0.01).at_most(2).calls
        2
    """

    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int | None
    cost: float | None

    def __str__(self) -> str:
        most = self.completion_tokens
        answers = "any number" if most is None else f"at most {most:,}"
        cost = "an unknown cost" if self.cost is None else f"{self.cost:,.2f} at most"
        return (
            f"{self.calls:,} calls (and {self.cached:,} answers from the cache): about "
            f"{self.prompt_tokens:,} tokens of prompts and {answers} of answers, {cost}; more "
            "if an answer cannot be read and is requested again"
        )

    def at_most(self, answers: int) -> Estimate:
        """Return the estimate for requesting no more than this number of answers.

        The estimate is cautious: it assumes that as many of these answers as possible are not in
        the cache.

        Args:
            answers: Maximum number of answers. Prompts and answers are assumed to have the average
                length.
        """
        answers = min(answers, self.calls + self.cached)
        calls = min(answers, self.calls)
        share = calls / self.calls if self.calls else 0.0
        most = self.completion_tokens
        return Estimate(
            calls=calls,
            cached=answers - calls,
            prompt_tokens=math.ceil(self.prompt_tokens * share),
            completion_tokens=None if most is None else math.ceil(most * share),
            cost=None if self.cost is None else self.cost * share,
        )


def estimate(llm: LLM, questions: Iterable[Question[Any]]) -> Estimate:
    """Estimate what asking an LLM these questions will need, without sending anything."""
    calls = cached = tokens = 0
    for question in questions:
        messages = question.messages
        if llm.cached(messages):
            cached += 1
        else:
            calls += 1
            tokens += sum(estimate_tokens(message["content"]) for message in messages)
    # Without calls there is no output, so a missing limit does not matter.
    most = None if calls and llm.max_tokens is None else calls * (llm.max_tokens or 0)
    price = llm.price if calls else Price(0, 0)
    cost = None if price is None or most is None else price.cost(tokens, most)
    return Estimate(calls, cached, tokens, most, cost)


def sum_estimates(parts: Iterable[Estimate]) -> Estimate:
    """Return the sum of the estimates for several LLMs."""
    each = list(parts)
    return Estimate(
        calls=sum(part.calls for part in each),
        cached=sum(part.cached for part in each),
        prompt_tokens=sum(part.prompt_tokens for part in each),
        completion_tokens=_sum(part.completion_tokens for part in each),
        cost=_sum(part.cost for part in each),
    )


def _sum(parts: Iterable[Any]) -> Any:
    """Return the sum of the numbers, or ``None`` if one of them is ``None``."""
    numbers = list(parts)
    return None if None in numbers else sum(numbers)
