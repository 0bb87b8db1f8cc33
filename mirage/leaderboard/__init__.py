"""Leaderboards, which rank a model among reference models whose logits are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.leaderboard.leaderboard import Leaderboard
    from mirage.leaderboard.leaks import OPTIMISERS, leak_audit
    from mirage.leaderboard.multilingual import MultilingualLeaderboard

__all__ = [
    "OPTIMISERS",
    "Leaderboard",
    "MultilingualLeaderboard",
    "leak_audit",
]

_NAMES = {
    "mirage.leaderboard.leaderboard": ("Leaderboard",),
    "mirage.leaderboard.leaks": ("OPTIMISERS", "leak_audit"),
    "mirage.leaderboard.multilingual": ("MultilingualLeaderboard",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
