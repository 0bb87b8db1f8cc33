"""What asking an LLM will take, before it is asked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mirage.llm.budget import Price
from mirage.llm.client import LLM, estimate_tokens
from mirage.llm.questions import Question

__all__ = ["Estimate", "estimate", "sum_estimates"]


@dataclass(frozen=True)
class Estimate:
    """What asking will take, as far as that can be told before.

    Attributes:
        calls: answers to ask for. An answer that cannot be read is asked for again, up to five
            times, which is not counted here.
        cached: answers that are in the cache already, and cost nothing.
        prompt_tokens: tokens of the prompts of these calls, about
            (:func:`mirage.llm.estimate_tokens`).
        completion_tokens: tokens of the answers at most; ``None`` where an LLM has no limit.
        cost: of prompts and answers, at most; ``None`` where it is not known what an LLM's
            tokens cost, or it has no limit.
    """

    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int | None
    cost: float | None

    def __str__(self) -> str:
        most = self.completion_tokens
        answers = "any number" if most is None else f"at most {most:,}"
        cost = "a cost that is not known" if self.cost is None else f"{self.cost:,.2f} at most"
        return (
            f"{self.calls:,} calls (and {self.cached:,} answers from the cache): about "
            f"{self.prompt_tokens:,} tokens of prompts and {answers} of answers, {cost}; more "
            "where an answer cannot be read and is asked for again"
        )

    def at_most(self, answers: int) -> Estimate:
        """The same for so many of these answers at most, of average length, not cached first."""
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
    """What it will take to ask an LLM these questions; nothing is sent."""
    calls = cached = tokens = 0
    for question in questions:
        messages = question.messages
        if llm.cached(messages):
            cached += 1
        else:
            calls += 1
            tokens += sum(estimate_tokens(message["content"]) for message in messages)
    most = None if calls and llm.max_tokens is None else calls * (llm.max_tokens or 0)
    price = llm.price if calls else Price(0, 0)
    cost = None if price is None or most is None else price.cost(tokens, most)
    return Estimate(calls, cached, tokens, most, cost)


def sum_estimates(parts: Iterable[Estimate]) -> Estimate:
    """What several LLMs will take together."""
    each = list(parts)
    return Estimate(
        calls=sum(part.calls for part in each),
        cached=sum(part.cached for part in each),
        prompt_tokens=sum(part.prompt_tokens for part in each),
        completion_tokens=_sum(part.completion_tokens for part in each),
        cost=_sum(part.cost for part in each),
    )


def _sum(parts: Iterable[Any]) -> Any:
    """Their sum, ``None`` where a part is not known."""
    known = list(parts)
    return None if None in known else sum(known)
