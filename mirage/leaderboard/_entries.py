"""What a ranking has of a model, and what it says of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mirage._base.arrays import Floats
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.human_agreement import known_agreement
from mirage.languages import Language
from mirage.leaderboard import _judged
from mirage.models import HumanAgreement, Run
from mirage.ranking import Entry, Evidence, Ranking
from mirage.statistics.ranks import (
    DECIMALS,
    confidences_by_draws,
    rank_intervals_by_confidence,
    ranks,
)

if TYPE_CHECKING:
    from mirage.features import FeatureTable

__all__ = ["EQUAL", "Scored", "agreement_of", "judged_entry", "ranking_of", "title_of", "undecided"]

FEW_SYSTEMS = 30
"""Systems learnt from below which a ranking says what a board of so many can tell apart."""

EQUAL = 10.0**-DECIMALS
"""Logits that are no farther apart are equal."""


@dataclass(frozen=True)
class Scored:
    """A model with its logit, before it is known who else is in the ranking."""

    model: str
    logit: float
    interval: tuple[float, float]
    draws: Floats
    features: Mapping[str, float]
    anchor: bool = False
    answered: int | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    unfamiliar: str = ""
    assumed: tuple[str, ...] = ()
    unbound: bool = False


def judged_entry(run: Run, table: FeatureTable, told: _judged.Told) -> Entry:
    """A model that a judge placed; its rank is not known yet."""
    failures = {response.query_id: response.error or "" for response in run.failed}
    return Entry(
        1,
        run.model,
        told.placement.logit,
        told.placement.interval,
        features=dict(zip(table.features, table.mean().tolist(), strict=True)),
        answered=len(run) - len(failures),
        failures=failures,
    )


def title_of(dataset: MirageDataset) -> str:
    """The title of a ranking on it."""
    return f"{dataset.name}: {Language.of(dataset.language).name}, {len(dataset)} queries"


def ranking_of(
    scored: Sequence[Scored],
    dataset: MirageDataset,
    evidence: Evidence,
    agreement: Iterable[HumanAgreement],
    notes: Iterable[str] = (),
    *,
    about: str,
) -> Ranking:
    """The ranking of these models, the best first.

    Raises:
        DatasetError: there is none.
    """
    if not scored:
        raise DatasetError("nothing to rank: there is no model, and the leaderboard has no anchors")
    places = ranks(np.array([one.logit for one in scored]))
    confidence = confidences_by_draws(np.stack([one.draws for one in scored], axis=1))
    between = rank_intervals_by_confidence(confidence).tolist()
    entries = [
        Entry(
            rank=int(rank),
            model=one.model,
            logit=one.logit,
            interval=one.interval,
            rank_interval=None if one.unbound else (best, worst),
            features=one.features,
            anchor=one.anchor,
            answered=one.answered,
            failures=one.failures,
            unfamiliar=one.unfamiliar,
        )
        for one, rank, (best, worst) in zip(scored, places, between, strict=True)
    ]
    return Ranking(
        entries,
        language=dataset.language,
        title=title_of(dataset),
        draws={one.model: one.draws for one in scored},
        notes=(*notes, *(note for one in scored for note in _notes(one))),
        about=about,
        evidence=evidence,
        agreement=agreement,
    )


def undecided(scored: Sequence[Scored], anchors: Sequence[Scored], systems: int) -> Iterator[str]:
    """What the surrogate cannot tell, of a board that learnt from so many systems."""
    logits = [anchor.logit for anchor in anchors]
    if scored and len(logits) > 1 and systems < FEW_SYSTEMS:
        gaps = np.abs(np.subtract.outer(logits, logits))[np.triu_indices(len(logits), 1)]
        least = _told_apart(scored, anchors)
        yield (
            f"having learnt from {systems} systems, this board tells one that was not judged from "
            f"another only where their logits are some {least:.1f} or more apart, as those of "
            f"{np.count_nonzero(gaps > least)} of the {len(gaps)} pairs of its systems are"
        )
    for one in scored:
        low, high = one.interval
        if logits and low <= min(logits) and max(logits) <= high:
            yield (
                f"the interval of {one.model} holds the logits of all {len(logits)} systems of "
                "this board: they are too few, or their features tell too little, to say where it "
                "stands; have it judged, or more systems"
            )


def _told_apart(scored: Sequence[Scored], anchors: Sequence[Scored]) -> float:
    """How far the logit of a scored model has to be from an anchor's, in the median, for a
    rank interval to tell them apart: half the middle 95 % of the draws of their difference."""
    between = np.stack([one.draws - anchor.draws for one in scored for anchor in anchors])
    low, high = np.quantile(between, [0.025, 0.975], axis=1)
    return float(np.median(high - low) / 2)


def _notes(scored: Scored) -> Iterator[str]:
    """What makes the place of a model say less than it seems to."""
    if scored.failures:
        yield (
            f"a query that {scored.model} failed on counts in its logit as the worst that a system "
            "of this board had on it, so that not to answer never helps"
        )
    if scored.unfamiliar:
        yield (
            f"{scored.model} is unlike any system that this board knows ({scored.unfamiliar}): its "
            "interval is wider, and its rank says little"
        )
    for name in scored.assumed:
        yield (
            f"{scored.model} has {name} on no query; it is taken at the mean of the systems that "
            "the board learnt from"
        )


def agreement_of(features: Iterable[str], language: str) -> Iterator[HumanAgreement]:
    """How far people agree with those features of which that is known in a language."""
    for name in features:
        yield from known_agreement(name, language)
