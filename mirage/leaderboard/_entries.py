"""Entries and notes of the rankings that a leaderboard returns."""

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
from mirage.ranking.judged import confidence_by_name
from mirage.statistics.bootstrap import NO_INTERVAL
from mirage.statistics.rank_sets import first_model, rank_sets, winner_interval
from mirage.statistics.ranks import DECIMALS, ranks

if TYPE_CHECKING:
    from mirage.features import FeatureTable

FEW_SYSTEMS = 30
"""Number of training systems below which a note states the smallest detectable difference."""

EQUAL = 10.0**-DECIMALS
"""Logits that differ by at most this count as equal."""


@dataclass(frozen=True)
class ScoredModel:
    """A model with its logit, before its rank is known.

    The attributes that are not listed here mean the same as in :class:`mirage.ranking.Entry`.

    Attributes:
        draws: Random draws of the logit. The i-th draws of all models form one joint draw.
        assumed: Names of features that have no value on any query. The surrogate uses the mean over
            its training models instead.
        unbound: Whether the logit is unbounded, because the model won or lost every judgment.
    """

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


def judged_entry(run: Run, table: FeatureTable, judged: _judged.JudgedPlacement) -> Entry:
    """Return the row of a ranking for a model that a judge compared with reference models.

    The rank is a placeholder that is replaced later.
    """
    failures = {response.query_id: response.error or "" for response in run.failed}
    return Entry(
        1,
        run.model,
        judged.placement.logit,
        judged.placement.interval,
        features=dict(zip(table.features, table.mean().tolist(), strict=True)),
        answered=len(run) - len(failures),
        failures=failures,
    )


def ranking_title(dataset: MirageDataset) -> str:
    """Return the title of a ranking on this dataset."""
    return f"{dataset.name}: {Language.of(dataset.language).name}, {len(dataset)} queries"


def build_ranking(
    scored: Sequence[ScoredModel],
    dataset: MirageDataset,
    evidence: Evidence,
    agreement: Iterable[HumanAgreement],
    notes: Iterable[str] = (),
    *,
    about: str,
) -> Ranking:
    """Return the ranking of models with known logits, best first.

    Args:
        scored: The models.
        dataset: Queries that the models answered.
        evidence: Data that the ranking stores, such as the responses. Judged models keep the
            confidences of its fit among themselves.
        agreement: Agreement of the judge and of features with people.
        notes: Notes below the table; the notes on single models are added to them.
        about: Explanation of the ranking for readers.

    Raises:
        DatasetError: If there is no model.
    """
    if not scored:
        raise DatasetError(
            "there is no model to rank: no model was passed, and the leaderboard has no anchors"
        )
    logits = np.array([system.logit for system in scored])
    errors = np.stack([system.draws for system in scored], axis=1) - logits
    # Predicted logits have rare large errors, which would widen the rank intervals of all anchors.
    predicted = np.array([not system.anchor for system in scored])
    rank_numbers = ranks(logits)
    rank_ends = rank_sets(logits, errors, alone=predicted).tolist()
    first = scored[first_model(logits)]
    entries = [
        Entry(
            rank=int(rank),
            model=system.model,
            logit=system.logit,
            interval=system.interval,
            rank_interval=None if system.unbound else (best, worst),
            features=system.features,
            anchor=system.anchor,
            answered=system.answered,
            failures=system.failures,
            unfamiliar=system.unfamiliar,
        )
        for system, rank, (best, worst) in zip(scored, rank_numbers, rank_ends, strict=True)
    ]
    return Ranking(
        entries,
        language=dataset.language,
        title=ranking_title(dataset),
        draws={system.model: system.draws for system in scored},
        confidence=None if evidence.fit is None else confidence_by_name(evidence.fit),
        notes=(*notes, *(note for system in scored for note in _notes(system))),
        about=about,
        evidence=evidence,
        agreement=agreement,
        winner_interval=NO_INTERVAL
        if np.isnan(first.interval[0])
        else winner_interval(logits, errors),
    )


def undecided_notes(
    scored: Sequence[ScoredModel], anchors: Sequence[ScoredModel], systems: int
) -> Iterator[str]:
    """Yield notes on differences that the surrogate cannot detect, and on models it cannot rank.

    Args:
        scored: Models that the surrogate ranked.
        anchors: Anchors (reference models) of the leaderboard.
        systems: Number of systems on which the surrogate was trained.
    """
    logits = [anchor.logit for anchor in anchors]
    if scored and len(logits) > 1 and systems < FEW_SYSTEMS:
        gaps = np.abs(np.subtract.outer(logits, logits))[np.triu_indices(len(logits), 1)]
        least = _detectable_difference(scored, anchors)
        yield (
            f"with {systems} training systems, this board detects a difference between a system "
            "that was not judged and another system only if their logits differ by about "
            f"{least:.1f} or more; {np.count_nonzero(gaps > least)} of the {len(gaps)} pairs of "
            "its systems differ by as much"
        )
    for system in scored:
        low, high = system.interval
        if logits and low <= min(logits) and max(logits) <= high:
            yield (
                f"the interval of {system.model} contains the logits of all {len(logits)} systems "
                "of this board: there are too few systems, or their features are not informative "
                "enough, to rank it; have it judged, or add systems"
            )


def _detectable_difference(scored: Sequence[ScoredModel], anchors: Sequence[ScoredModel]) -> float:
    """Return the smallest difference of logits that is typically detected.

    For a pair of a model and an anchor (reference model), this is half the width of the 95 %
    interval of their difference. The result is the median over all pairs.
    """
    differences = np.stack([system.draws - anchor.draws for system in scored for anchor in anchors])
    low, high = np.quantile(differences, [0.025, 0.975], axis=1)
    return float(np.median(high - low) / 2)


def _notes(scored: ScoredModel) -> Iterator[str]:
    """Yield notes with the reasons why the rank of a model is less reliable than it seems."""
    if scored.failures:
        yield (
            f"on each query that {scored.model} failed on, it gets the worst result that a system "
            "of this board had on the query, so that a failure never improves the logit"
        )
    if scored.unfamiliar:
        yield (
            f"{scored.model} is unlike every system that this board learned from "
            f"({scored.unfamiliar}): its interval is wider, and its rank is not reliable"
        )
    for name in scored.assumed:
        yield (
            f"{scored.model} has no value of {name} on any query; the mean of the systems that the "
            "board learned from is used instead"
        )


def feature_agreement(features: Iterable[str], language: str) -> Iterator[HumanAgreement]:
    """Yield the known agreement of features with people in a language."""
    for name in features:
        yield from known_agreement(name, language)
