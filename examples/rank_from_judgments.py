"""From existing verdicts of people or of an LLM to a ranking with intervals.

    python examples/rank_from_judgments.py                # on the verdicts below
    python examples/rank_from_judgments.py verdicts.csv   # columns query_id,model_a,model_b,verdict

A verdict is a, b or tie. Verdicts on the same question are not independent, so intervals are
clustered by question.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

from mirage import Judgments, Ranking

COLUMNS = ("query_id", "model_a", "model_b", "verdict")

# Made up: what people said of pairs on twelve questions, a, b, or = for a tie. Not all pairs need
# to be compared, as long as the comparisons connect all models.
VERDICTS = {
    ("large", "small"): "aa=abaaa=aba",
    ("large", "keyword search"): "aaaaaba=aaaa",
    ("small", "keyword search"): "a=baaab=aaba",
    ("large", "small + reranker"): "ab=ba=abbaa=",
    ("small", "small + reranker"): "b=bbab=bbbab",
}


def rows() -> list[dict[str, str]]:
    """Return the verdicts above as the rows of a file."""
    return [
        dict(zip(COLUMNS, (f"q{n}", a, b, "tie" if said == "=" else said), strict=True))
        for (a, b), all_said in VERDICTS.items()
        for n, said in enumerate(all_said)
    ]


def read(path: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def main(path: str | None = None) -> None:
    """Rank the models, and print the ranking."""
    verdicts = rows() if path is None else read(path)
    columns: list[list[Any]] = [[row.get(name) for row in verdicts] for name in COLUMNS]
    query, model_a, model_b, verdict = columns
    ranking = Ranking.from_judgments(
        Judgments.from_arrays(query=query, model_a=model_a, model_b=model_b, verdict=verdict)
    )
    print(ranking)
    first, second = ranking.models[:2]
    print(f"\nThat {first} is better than {second} is {ranking.p_better(first, second):.0%} sure")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verdicts", nargs="?", help="CSV; made up by default")
    options = parser.parse_args()
    main(options.verdicts)
