"""From recorded outputs of real LLMs to a ranking: nothing simulated, no judge, no key.

NoMIRACL has outputs of LLMs for real queries whose right answer is known. A right answer beats a
wrong one. Eight of ten models train a surrogate. The other two are ranked among them by features.

    MIRAGE_DATA=../shared/data python examples/nomiracl_arena.py sw
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from mirage import BradleyTerry, FeatureSuite, Judgments, Leaderboard, Ranking, SurrogateRanker
from mirage.arena.fits import BradleyTerryFit
from mirage.sources import nomiracl


def rank_held_out(
    folder: Path, language: str, held_out: tuple[str, ...]
) -> tuple[BradleyTerryFit, Ranking]:
    """Return the judged logits of all models, and the predicted ranks of held-out models."""
    dataset, runs, judgments = nomiracl.load(folder, language)
    judged = BradleyTerry().fit(Judgments.from_records(judgments))

    known = [j for j in judgments if not {j.model_a, j.model_b} & set(held_out)]
    tournaments = BradleyTerry().bootstrap(
        Judgments.from_records(known), tournaments=200, queries=100, seed=0
    )
    suite = FeatureSuite(nomiracl.FEATURES, language)
    tables = [suite.score(dataset, runs[model]) for model in tournaments.models]
    ranker = SurrogateRanker().fit(tables, tournaments)
    leaderboard = Leaderboard(dataset, suite, ranker)
    return judged, leaderboard.rank_many({model: runs[model] for model in held_out})


def main(language: str = "sw") -> None:
    """Print both."""
    folder = Path(os.environ.get("MIRAGE_DATA", "../shared/data")) / "nomiracl"
    held_out = ("Mixtral-8x7B-Instruct-v0.1", "llama-2-7b-chat")
    judged, ranking = rank_held_out(folder, language, held_out)
    for logit, model in sorted(zip(judged.logits, judged.models, strict=True), reverse=True):
        print(f"{logit:6.2f}  {model}")
    print(ranking)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", nargs="?", default="sw")
    options = parser.parse_args()
    main(options.language)
