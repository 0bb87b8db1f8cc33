"""The simulation study of :func:`mirage.monitoring.drift`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mirage._base.arrays import Floats
from mirage.features import Facts, FeatureTable
from mirage.monitoring.drifts import LogDays, shifts_between
from mirage.statistics.studies import Method
from mirage.statistics.worlds import StudyDesign, StudySample, draw_traffic, lose_answers, scores_of


def methods() -> Mapping[str, Method]:
    """Return the method that :func:`mirage.statistics.validate` studies here, by name."""
    return {"drift": Method(_draw, _drift, "alarm")}


def _sizes(design: StudyDesign) -> tuple[int, ...]:
    """Return the number of questions on each simulated day.

    The questions are divided as evenly as possible.
    """
    return tuple(np.diff(np.arange(design.days + 1) * design.queries // design.days).tolist())


def _draw(design: StudyDesign, rng: np.random.Generator) -> tuple[Floats, float]:
    deviates = draw_traffic(
        rng,
        _sizes(design) * 2,
        serial=design.serial,
        day_noise=design.day_noise,
        columns=design.features,
    ) / np.sqrt(1 + design.day_noise**2)
    values = scores_of(deviates, design.score, design.rate)
    values[design.queries :] = lose_answers(values[design.queries :], design, rng)
    return values, design.effect


def _drift(sample: StudySample) -> bool:
    design = sample.design
    names = tuple(f"measure {j}" for j in range(design.features))
    high = np.inf if design.score == "skewed" else 1.0
    facts = {name: Facts(low=0.0, high=high) for name in names}
    ids = tuple(map(str, range(design.queries)))
    tables = [
        FeatureTable("m", "en", ids, names, values, facts=facts)
        for values in np.split(sample.values, 2)
    ]
    days = np.repeat(np.arange(design.days), _sizes(design))
    period = LogDays(np.arange(design.queries), days)
    shifts = shifts_between(
        *tables,
        times=(period, period),
        alpha=1 - sample.level,
        level=sample.level,
        permutations=999,
        seed=sample.seed,
    )
    return any(shift.changed for shift in shifts)
