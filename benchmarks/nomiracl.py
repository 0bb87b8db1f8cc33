"""Held-out models on NoMIRACL: our surrogate against the paper's random forest, in one run.

Ten real LLMs, eight languages. Two models are held out at a time, in all languages at once; all 45
pairs. Ours learns from the eight languages together and selects its recipe anew in every split;
the paper's is a random forest for each language alone. Features, tournaments and splits are the
same. Kendall's tau is the mean over splits, R2 is over all held-out predictions together.

    python benchmarks/nomiracl.py          # needs MIRAGE_DATA; about four minutes on two cores
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import mean

from mirage import BradleyTerry, FeatureSuite, FeatureTable, Judgments, SurrogateRanker, Tournaments
from mirage.sources import nomiracl
from mirage.surrogate import Validation

DATA = Path(os.environ.get("MIRAGE_DATA", "../shared/data")) / "nomiracl"
LANGUAGES = ("ar", "de", "en", "es", "fa", "id", "sw", "zh")
PAIRS = 45


def arena(code: str) -> tuple[list[FeatureTable], Tournaments]:
    """Features and tournaments of one language."""
    dataset, runs, judgments = nomiracl.load(DATA, code)
    suite = FeatureSuite(nomiracl.FEATURES, code)
    tables = [suite.score(dataset, run) for run in runs.values()]
    tournaments = BradleyTerry().bootstrap(
        Judgments.from_records(judgments), tournaments=200, queries=100, seed=0
    )
    return tables, tournaments


def validate(
    estimator: str, arenas: dict[str, tuple[list[FeatureTable], Tournaments]]
) -> Validation:
    """Hold every pair of models out of a surrogate that learns from these languages."""
    tables = [table for tables, _ in arenas.values() for table in tables]
    tournaments = {code: boot for code, (_, boot) in arenas.items()}
    ranker = SurrogateRanker(estimator).fit(tables, tournaments)
    return ranker.cross_validate(holdout=2, repeats=PAIRS, n_jobs=-1)


def main() -> None:
    """Print tau, R2 and coverage by language."""
    arenas = {code: arena(code) for code in LANGUAGES}
    ours = validate("auto", arenas)
    paper = {code: validate("forest", {code: one}) for code, one in arenas.items()}
    print("          Kendall tau        R2              95 % interval holds")
    print("          ours   paper   ours   paper     ours   paper")
    rows = []
    for code in LANGUAGES:
        both = (ours, paper[code])
        row = [getattr(v, what)[code] for what in ("tau", "r2", "coverage") for v in both]
        rows.append(row)
        print(f"  {code:6}" + "".join(f"{value:8.2f}" for value in row))
    print("  mean  " + "".join(f"{mean(column):8.2f}" for column in zip(*rows, strict=True)))
    ahead = [sum(row[i] > row[i + 1] for row in rows) for i in (0, 2)]
    print(f"ours ahead in {ahead[0]} of 8 languages by tau, in {ahead[1]} of 8 by R2")


if __name__ == "__main__":
    main()
