"""Pairwise judgments: asking judges, Bradley-Terry logits with intervals, and biases of judges."""

from mirage.arena.adaptive import AdaptivePairs, compare_adaptively
from mirage.arena.agreement import (
    JudgeAgreement,
    PairAgreement,
    cohen_kappa,
    fleiss_kappa,
    judge_agreement,
)
from mirage.arena.biases import (
    PositionBias,
    SelfPreference,
    VerbosityBias,
    position_bias,
    self_preference,
    verbosity_bias,
)
from mirage.arena.bradley_terry import BradleyTerry, BradleyTerryFit, Tournaments
from mirage.arena.judge import Judged, PairwiseJudge, Skipped
from mirage.arena.judgment_files import read_judgments, read_votes
from mirage.arena.judgments import Judgments

__all__ = [
    "AdaptivePairs",
    "BradleyTerry",
    "BradleyTerryFit",
    "JudgeAgreement",
    "Judged",
    "Judgments",
    "PairAgreement",
    "PairwiseJudge",
    "PositionBias",
    "SelfPreference",
    "Skipped",
    "Tournaments",
    "VerbosityBias",
    "cohen_kappa",
    "compare_adaptively",
    "fleiss_kappa",
    "judge_agreement",
    "position_bias",
    "read_judgments",
    "read_votes",
    "self_preference",
    "verbosity_bias",
]
