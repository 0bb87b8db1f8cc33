"""The simulation study of :func:`mirage.testing.plan`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mirage.dataset import MirageDataset
from mirage.errors import SettingError
from mirage.features import Facts, FeatureTable
from mirage.models import Query
from mirage.statistics.studies import METHODS, Method
from mirage.statistics.worlds import StudyDesign, draw_answers
from mirage.testing.baseline import Baseline, fingerprint
from mirage.testing.planning import plan

_BASELINES = 5  # baselines over which the promised power is averaged
_TIMES = 3  # answers to each query of a baseline


def methods() -> Mapping[str, Method]:
    """Return the method that :func:`mirage.statistics.validate` studies here, by name."""
    return {"plan": METHODS["worse"]._replace(promise=_promised)}


def _promised(design: StudyDesign, level: float, seed: int) -> float:
    """Return the power that :func:`plan` predicts, averaged over several simulated baselines."""
    if not design.effect:
        raise SettingError("a power study needs 'effect', the loss to detect; set it")
    names = tuple(f"measure {j}" for j in range(design.features))
    if design.score == "binary" and not design.cluster_sizes:
        names = ("answer_match", *names[1:])  # a feature that checks facts, as in the study's gate
    ids = tuple(f"q{i}" for i in range(design.queries))
    dataset = MirageDataset(
        [
            Query(id=id_, language="en", text="?", cluster=str(code))
            for id_, code in zip(ids, design.codes.tolist(), strict=True)
        ],
        name="simulated",
    )
    powers = []
    for number in range(_BASELINES):
        answers = draw_answers(design, _TIMES, np.random.default_rng([seed, number]))[:, 0]
        table = FeatureTable(
            "simulated",
            "en",
            ids,
            names,
            answers.mean(axis=0),
            repeats=answers,
            facts=dict.fromkeys(names, Facts("higher", low=0.0, high=1.0)),
        )
        promise = plan(
            design.effect,
            alpha=1 - level,
            baseline=Baseline(table, dataset.name, fingerprint(dataset)),
            on=dataset,
            repeats=[design.repeats],
            calls=design.queries * design.repeats,
            moved=0.0,
            seed=number,
        )
        powers.append(promise.designs[0].chances.detected)
    return float(np.mean(powers))
