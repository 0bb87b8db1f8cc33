"""Train a surrogate on judged systems, and rank a new system with it: no judge, no cost.

    python examples/train_a_surrogate.py

Twenty simulated systems replace the systems that you had judged, and a judge that knows their
faults replaces the judge that you paid. With your own tables and verdicts, use all lines from
``tournaments`` on.
"""

import argparse

from mirage import BradleyTerry, FeatureSuite, Leaderboard, MirageDataset, Query, SurrogateRanker
from mirage.languages import LANGUAGES
from mirage.surrogate.simulation import SYSTEMS, judge, simulate


def my_rag(query: Query) -> str:
    """Answer as a new system without verdicts."""
    words = set(query.text.lower().split())
    best = max(query.passages, key=lambda p: len(words & set(p.text.lower().split())))
    first = best.text.split(". ")[0].rstrip(".")
    return f"##Reason: [{best.id}]\n##Answer: {first} [{best.id}]."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    corpora = {code: MirageDataset.bundled(code) for code in LANGUAGES}
    dataset = corpora["de"]
    runs, utilities = simulate(corpora, "de", SYSTEMS[:200:10], seed=0)
    verdicts = judge(utilities, [run.model for run in runs], dataset.query_ids, seed=0)

    tournaments = BradleyTerry().bootstrap(verdicts, tournaments=200, queries=len(dataset))
    suite = FeatureSuite.default("de")
    tables = [suite.score(dataset, run) for run in runs]
    ranker = SurrogateRanker("ridge").fit(tables, tournaments)  # few systems: the stiffest one

    check = ranker.cross_validate(holdout=2)
    print(f"{len(runs)} systems, {len(verdicts)} verdicts")
    print(f"order of two held-out systems: tau {check.tau['de']:.2f}, from -1 to 1")
    print(f"95 % intervals that hold the judged logit: {check.coverage['de']:.0%}")
    print("what it goes by:", ", ".join(list(ranker.importances())[:3]), "\n")

    print(Leaderboard(dataset, suite, ranker).rank(my_rag, model="my-rag"))
    # ranker.save("mine.npz"), and later SurrogateRanker.load("mine.npz", trust=True)
