"""Leaderboards, which rank a model among models that were ranked before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.leaderboard.leaderboard import Leaderboard, MultilingualLeaderboard
    from mirage.leaderboard.leaks import OPTIMISERS, leak_audit

__all__ = [
    "OPTIMISERS",
    "Leaderboard",
    "MultilingualLeaderboard",
    "leak_audit",
]

_NAMES = {
    "mirage.leaderboard.leaderboard": ("Leaderboard", "MultilingualLeaderboard"),
    "mirage.leaderboard.leaks": ("OPTIMISERS", "leak_audit"),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
