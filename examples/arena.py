"""From LLM endpoints to a ranking: models answer, an LLM judges, and a surrogate predicts.

    export OPENAI_API_KEY=...
    ARENA_MODELS=gpt-4o-mini,gpt-4.1-nano ARENA_JUDGE=gpt-4o python examples/arena.py sw

ARENA_MODELS names two or more models, separated by commas, and ARENA_JUDGE names the judge. Models
are called at OpenAI, or at OPENAI_BASE_URL. NAME@URL is a model at its own endpoint without a key,
such as llama3.2@http://localhost:11434/v1. The argument is a language, by default en.

A surrogate needs more than two or three models. Therefore simulated systems with known faults
compete too, and the same judge compares them all. The verdicts on the simulated systems train the
surrogate. It then ranks the endpoints by their features, without a verdict on them. Compare this
ranking with the judged one to see how reliable it is. Answers are cached, so a second run is free.
"""

from __future__ import annotations

import argparse
import os
import sys

from mirage import LLM, Leaderboard, MirageDataset, OpenAIGenerator, Ranking, Run
from mirage.arena import Judged, PairwiseJudge
from mirage.generation.callables import ReplayGenerator
from mirage.languages import LANGUAGES
from mirage.surrogate.simulation import SYSTEMS, simulate

SIMULATED = ("reference", "quoting", "uncited", "wrong-language", "refusal", "off-topic")


def llm(model: str) -> LLM:
    """Return the LLM for NAME or NAME@URL."""
    name, _, url = model.partition("@http")
    return LLM(name, base_url=f"http{url}" if url else None)


def simulated(dataset: MirageDataset) -> list[Run]:
    """Return the responses of systems with known faults."""
    corpora = {code: MirageDataset.bundled(code) for code in LANGUAGES}
    systems = [system for system in SYSTEMS if system.name in SIMULATED]
    runs, _ = simulate(corpora, dataset.language, systems, seed=0)
    return [ReplayGenerator(run, name=f"simulated/{run.model}").run(dataset) for run in runs]


def rank_unjudged(
    dataset: MirageDataset, endpoints: list[Run], others: list[Run], judged: Judged
) -> Ranking:
    """Return the ranking of the endpoints by a surrogate that was trained on the other systems."""
    names = {run.model for run in others}
    known = [j for j in judged if {j.model_a, j.model_b} <= names]
    # Few models: the stiffest surrogate.
    board = Leaderboard.from_judgments(known, dataset, others, estimator="ridge")
    return board.rank_many({run.model: run for run in endpoints})


def main(language: str = "en") -> None:
    """Ask, judge, train, and print both rankings."""
    models, judge = os.environ.get("ARENA_MODELS"), os.environ.get("ARENA_JUDGE")
    if not models or not judge:
        sys.exit(__doc__)
    dataset = MirageDataset.bundled(language)
    generators = [
        OpenAIGenerator(llm(model), name=model) for model in map(str.strip, models.split(","))
    ]
    endpoints = [generator.run(dataset) for generator in generators]
    others = simulated(dataset)

    arena = PairwiseJudge(llm(judge))
    print(f"The judge: {arena.estimate(dataset, [*endpoints, *others])}\n")
    judged = arena.compare(dataset, [*endpoints, *others])
    print(f"Judged by {judge}:")
    print(Ranking.from_judgments(judged, dataset))

    print("\nBy features alone, the endpoints unjudged:")
    print(rank_unjudged(dataset, endpoints, others, judged))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", nargs="?", default="en")
    options = parser.parse_args()
    main(options.language)
