"""Rank an async system that fails on some questions, then ask only those questions again.

    python examples/async_with_failures.py

A failure counts neither as zero nor as an empty answer. It is listed below the table, with its
reason. Responses are appended to the file ``out`` when they arrive. A second run with this file
only asks the questions that failed, or were not asked because the first run was killed.
"""

import argparse
import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from mirage import Leaderboard, Query, respond

asked: list[str] = []
overloaded_on = {"q03", "q11"}


async def my_rag(query: Query) -> str:
    """Answer a question; put your own system here. Several calls run at the same time."""
    asked.append(query.id)
    await asyncio.sleep(0.01)  # the index and the LLM at work
    if query.id in overloaded_on:
        raise TimeoutError("the index gave no passages in 2 s")
    words = set(query.text.lower().split())
    best = max(query.passages, key=lambda p: len(words & set(p.text.lower().split())))
    return f"##Reason: {best.title}\n##Answer: {best.text.split('. ')[0].rstrip('.')} [{best.id}]."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    leaderboard = Leaderboard.bundled("en")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "responses.jsonl"
        run = respond(my_rag, leaderboard.dataset, "my-rag", out=out, concurrency=4)
        print(f"{len(asked)} questions asked, {len(run.failed)} failed\n")
        print(leaderboard.rank(run, model="my-rag"))

        asked.clear()
        overloaded_on.clear()  # the index has recovered
        run = respond(my_rag, leaderboard.dataset, "my-rag", out=out)
        print(f"\n{len(asked)} questions asked, {len(run.failed)} failed")
        place = leaderboard.rank(run, model="my-rag")["my-rag"]
        print(f"my-rag: rank {place.rank}, logit {place.logit:.2f}")
