"""Entries of a ranking, and the data from which it was computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mirage._base.near_names import NearNames
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.fits import BradleyTerryFit
from mirage.arena.judgments import Judgments
from mirage.ranking.accuracy import Accuracy
from mirage.statistics.bootstrap import Interval

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.features import FeatureTable
    from mirage.models import Run, Vote
    from mirage.surrogate import SurrogateRanker

__all__ = ["Entry", "Evidence"]


@dataclass(frozen=True)
class Entry(NearNames):
    """One model in a ranking.

    Attributes:
        rank: Rank; 1 is the best, and equal logits share the better rank.
        model: Name of the model.
        logit: Strength of the model in natural-log odds; NaN in a ranking that was published
            without logits.
        interval: Lower and upper end of the confidence interval of the logit, at
            :attr:`Ranking.level` (95 % by default); NaN if there is none.
        rank_interval: Best and worst plausible rank. With the confidence :attr:`Ranking.level`, the
            intervals of all models of the ranking jointly contain their true ranks. ``None`` if
            there is no interval.
        features: Mean of each feature, by name, over the queries for which it has a value; empty
            for published models.
        anchor: Whether the model was ranked before, as a training model or in a published ranking.
        answered: Number of queries with a response; ``None`` for anchors, whose responses are not
            available.
        failures: Reason for each failure, by query id. Failed queries are excluded from the
            features' means.
        unfamiliar: Text on how the model's features differ from those of every training model of
            the surrogate; empty if they do not differ, or if there is no surrogate.
        uncontrolled: The logit of a fit without control variables such as length; ``None`` if the
            ranking has no control variables.
        accuracy: Numbers of right, wrong and declined responses, by kind of question; ``None`` if
            the responses or their features are not available, as for anchors.
        closed_book: The accuracy of answers from memory, that is, without passages. ``None`` if the
            model was not asked without passages.
    """

    rank: int
    model: str
    logit: float
    interval: Interval
    rank_interval: tuple[int, int] | None = None
    features: Mapping[str, float] = field(default_factory=dict, hash=False)
    anchor: bool = False
    answered: int | None = None
    failures: Mapping[str, str] = field(default_factory=dict, hash=False)
    unfamiliar: str = ""
    uncontrolled: float | None = None
    accuracy: Accuracy | None = field(default=None, hash=False)
    closed_book: Accuracy | None = field(default=None, hash=False)

    @property
    def failed(self) -> int:
        """Number of queries on which the model failed."""
        return len(self.failures)


@dataclass(frozen=True)
class Evidence:
    """The data from which a ranking was computed, for further analysis; parts may be missing.

    Attributes:
        dataset: The queries, with their passages.
        runs: Responses of the models that are not anchors, by model name.
        tables: Features of these responses, one row per query, by model name.
        ranker: The surrogate, with the mean features and logits of the anchors.
        provenance: Sources and settings of the surrogate or the fit, if they are known.
        judgments: Verdicts on pairs of models.
        fit: The fit to the judgments. Models of the ranking that were not judged are not in it.
        votes: Votes of each judge, from which these judgments were computed.
        bradley_terry: The Bradley-Terry model that was fitted; ``None`` if the logits are means
            over tournaments (bootstrap samples of the queries).
        closed_book: Accuracy without passages, by model name.
    """

    dataset: MirageDataset | None = None
    runs: Mapping[str, Run] = field(default_factory=dict)
    tables: Mapping[str, FeatureTable] = field(default_factory=dict)
    ranker: SurrogateRanker | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    judgments: Judgments | None = None
    fit: BradleyTerryFit | None = None
    votes: tuple[Vote, ...] = ()
    bradley_terry: BradleyTerry | None = None
    closed_book: Mapping[str, Accuracy] = field(default_factory=dict)
