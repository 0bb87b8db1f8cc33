"""Rank your own system on the bundled Swahili leaderboard.

    python examples/quickstart.py

It needs no network, no key and no GPU.
"""

import argparse

from mirage import Leaderboard, Query


def my_rag(query: Query) -> str:
    """Quote the passage with most words in common with the question. Put your own system here."""
    words = set(query.text.lower().split())
    best = max(query.passages, key=lambda p: len(words & set(p.text.lower().split())))
    first = best.text.split(". ")[0].rstrip(".")
    return f"##Reason: [{best.id}]\n##Answer: {first} [{best.id}]."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    ranking = Leaderboard.bundled("sw").rank(my_rag, model="my-rag")
    print(ranking)
    print(f"P(my-rag is better than uncited) = {ranking.p_better('my-rag', 'anchor/uncited'):.2f}")
