"""Verdicts of the simulated arena, which several scripts read without its features."""

from __future__ import annotations

from mirage.arena import Judgments
from mirage.surrogate.levels import SIMULATED
from mirage.surrogate.pretraining import _corpora
from mirage.surrogate.simulation import judge, simulate


def simulated_judgments(code: str, *, level: str = "quick", seed: int = 0) -> Judgments:
    """Return the verdicts of :func:`mirage.surrogate.pretraining.simulated_arena`.

    Args:
        code: ISO 639-1 code.
        level: Level of the bundled corpus.
        seed: Random seed.
    """
    corpora, systems = _corpora(level), SIMULATED[level].systems_in(code)
    runs, utilities = simulate(corpora, code, systems, level=level, seed=seed)
    return judge(utilities, [run.model for run in runs], corpora[code].query_ids, seed=seed)
