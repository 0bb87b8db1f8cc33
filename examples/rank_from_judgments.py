"""From verdicts that you have already, of people or of an LLM, to a ranking with intervals.

    python examples/rank_from_judgments.py                # on the verdicts below
    python examples/rank_from_judgments.py verdicts.csv   # columns query_id,model_a,model_b,verdict

A verdict is a, b or tie. Verdicts on the same question are not independent of each other: questions
are what is counted, and drawn, for the intervals.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from mirage import BradleyTerry, Judgments

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
    """The verdicts above as the rows of a file."""
    return [
        dict(zip(COLUMNS, (f"q{n}", a, b, "tie" if said == "=" else said), strict=True))
        for (a, b), all_said in VERDICTS.items()
        for n, said in enumerate(all_said)
    ]


def read(path: str) -> list[dict[str, str]]:
    """The rows of a file, as a spreadsheet program writes it."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def main(path: str | None = None) -> None:
    """Fit, draw, and print."""
    found = rows() if path is None else read(path)
    query, model_a, model_b, verdict = ([row.get(name) for row in found] for name in COLUMNS)
    judgments = Judgments.from_arrays(
        query=query, model_a=model_a, model_b=model_b, verdict=verdict
    )
    fit = BradleyTerry().fit(judgments)
    drawn = BradleyTerry().bootstrap(judgments, tournaments=1000, queries=None).rank_interval()
    best_first = (-fit.logits).argsort()
    print(f"{len(judgments)} verdicts on {fit.queries} questions")
    print("rank  logit   95 % interval  rank interval")
    for i in best_first:
        low, high = fit.interval()[i]
        interval = f"[{low:.2f}, {high:.2f}]"
        ranks = "{}-{}".format(*drawn[i])
        print(f"{fit.ranks[i]:4}{fit.logits[i]:7.2f}{interval:>16}{ranks:>15}  {fit.models[i]}")
    first, second = (fit.models[i] for i in best_first[:2])
    print(f"\n{first} is preferred to {second} on {fit.win_probability(first, second):.0%} of")
    print(f"questions; that it is better at all is {fit.p_better(first, second):.0%} sure")


if __name__ == "__main__":
    main(*sys.argv[1:])
