"""Pairwise judgments, tournaments, and Bradley-Terry logits with intervals."""

from mirage.arena.bradley_terry import BradleyTerry, BradleyTerryFit, Tournaments
from mirage.arena.judgments import Judgments

__all__ = ["BradleyTerry", "BradleyTerryFit", "Judgments", "Tournaments"]
