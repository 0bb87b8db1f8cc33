"""Leaderboards, which rank a model among models that were ranked before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.leaderboard.leaderboard import Leaderboard, MultilingualLeaderboard
    from mirage.leaderboard.leaks import OPTIMISERS, Leak, LeakAudit, leak_audit

__all__ = [
    "OPTIMISERS",
    "Leaderboard",
    "Leak",
    "LeakAudit",
    "MultilingualLeaderboard",
    "leak_audit",
]

__getattr__, __dir__ = lazy(__name__, __file__)
