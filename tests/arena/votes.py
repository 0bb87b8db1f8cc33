"""Votes for tests of the diagnostics of judges."""

from __future__ import annotations

from mirage.models import Vote


def vote(query: str, a: str, b: str, judge: str, verdict: str) -> Vote:
    """Return a vote of a judge that saw a's response first."""
    error = "no verdict" if verdict in ("invalid", "failed") else None
    return Vote(query_id=query, model_a=a, model_b=b, judge=judge, verdict=verdict, error=error)


def other_order(vote: Vote) -> Vote:
    """Return the same opinion from a judge that saw the responses in the other order."""
    verdict = {"a": "b", "b": "a"}.get(vote.verdict, vote.verdict)
    swapped = {"model_a": vote.model_b, "model_b": vote.model_a, "verdict": verdict}
    return vote.model_copy(update=swapped)


def rename_models(vote: Vote, models: dict[str, str]) -> Vote:
    """Return the same vote with models renamed."""
    update = {"model_a": models[vote.model_a], "model_b": models[vote.model_b]}
    return vote.model_copy(update=update)
