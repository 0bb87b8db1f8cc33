"""Pairwise judgments: LLM judges, Bradley-Terry logits with intervals, and biases of judges."""

from __future__ import annotations

from mirage.arena.adaptive import AdaptivePairs
from mirage.arena.agreement import judge_agreement
from mirage.arena.biases import position_bias, self_preference, verbosity_bias
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.controls import Control
from mirage.arena.fits import Tournaments
from mirage.arena.fragility import Fragility, fragility
from mirage.arena.judge import PairwiseJudge
from mirage.arena.judgment_files import read_judged, read_votes
from mirage.arena.judgments import Judgments
from mirage.arena.verdicts import Judged

__all__ = [
    "AdaptivePairs",
    "BradleyTerry",
    "Control",
    "Fragility",
    "Judged",
    "Judgments",
    "PairwiseJudge",
    "Tournaments",
    "fragility",
    "judge_agreement",
    "position_bias",
    "read_judged",
    "read_votes",
    "self_preference",
    "verbosity_bias",
]
