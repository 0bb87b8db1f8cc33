"""From LLM endpoints to a ranking: models answer, an LLM judges, a surrogate learns to do without.

    export OPENAI_API_KEY=...
    ARENA_MODELS=gpt-4o-mini,gpt-4.1-nano ARENA_JUDGE=gpt-4o python examples/arena.py sw

ARENA_MODELS names two models or more, parted by commas, and ARENA_JUDGE the one that judges. A
model is asked at OpenAI, or where OPENAI_BASE_URL says; NAME@URL is a model at an endpoint of its
own that needs no key, such as llama3.2@http://localhost:11434/v1. The argument is a language,
by default en.

A surrogate cannot learn from two or three models. So simulated systems whose faults are known
compete too, and the same judge compares them all. What it says of the simulated systems trains the
surrogate, which then ranks the endpoints by their features, without a verdict on them: put this
ranking beside the judged one to see how far to trust it. Answers are cached, so the same
arena a second time costs nothing.
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
    """Return the LLM that NAME or NAME@URL stands for."""
    name, _, url = model.partition("@http")
    return LLM(name, base_url=f"http{url}" if url else None)


def simulated(dataset: MirageDataset) -> list[Run]:
    """Return what systems with known faults answer."""
    corpora = {code: MirageDataset.bundled(code) for code in LANGUAGES}
    systems = [system for system in SYSTEMS if system.name in SIMULATED]
    runs, _ = simulate(corpora, dataset.language, systems, seed=0)
    return [ReplayGenerator(run, name=f"simulated/{run.model}").run(dataset) for run in runs]


def rank_unjudged(
    dataset: MirageDataset, endpoints: list[Run], others: list[Run], judged: Judged
) -> Ranking:
    """Return the endpoints among the others, by a surrogate that learnt from the others alone."""
    names = {run.model for run in others}
    known = [j for j in judged if {j.model_a, j.model_b} <= names]
    # Few models: the stiffest surrogate.
    board = Leaderboard.from_judgments(known, dataset, others, estimator="ridge")
    return board.rank_many({run.model: run for run in endpoints})


def main(language: str = "en") -> None:
    """Ask, judge, learn, and print both rankings."""
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
