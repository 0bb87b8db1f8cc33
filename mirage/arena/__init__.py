"""Pairwise judgments: LLM judges, Bradley-Terry logits with intervals, and biases of judges."""

from mirage.arena.adaptive import AdaptivePairs
from mirage.arena.agreement import JudgeAgreement, PairAgreement, judge_agreement
from mirage.arena.biases import (
    PositionBias,
    SelfPreference,
    VerbosityBias,
    position_bias,
    self_preference,
    verbosity_bias,
)
from mirage.arena.bradley_terry import (
    BradleyTerry,
    BradleyTerryFit,
    ControlEffect,
    Tournaments,
)
from mirage.arena.controls import Control
from mirage.arena.fragility import Fragility, Removal, fragility
from mirage.arena.judge import PairJudge, PairwiseJudge
from mirage.arena.judgment_files import read_judged, read_votes
from mirage.arena.judgments import Judgments
from mirage.arena.pairs import Pair, Skipped
from mirage.arena.verdicts import Judged, judgments_of

__all__ = [
    "AdaptivePairs",
    "BradleyTerry",
    "BradleyTerryFit",
    "Control",
    "ControlEffect",
    "Fragility",
    "JudgeAgreement",
    "Judged",
    "Judgments",
    "Pair",
    "PairAgreement",
    "PairJudge",
    "PairwiseJudge",
    "PositionBias",
    "Removal",
    "SelfPreference",
    "Skipped",
    "Tournaments",
    "VerbosityBias",
    "fragility",
    "judge_agreement",
    "judgments_of",
    "position_bias",
    "read_judged",
    "read_votes",
    "self_preference",
    "verbosity_bias",
]
