"""Rank retrieval-augmented generation (RAG) systems in 18 languages.

The public names are imported at first use, so that ``import mirage`` is fast.

PYTEST_DONT_REWRITE: pytest looks for this word in packages with plugins. Without it, pytest warns
if a program imports this package before it starts pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.arena import BradleyTerry, Judgments, PairwiseJudge
    from mirage.corpus import Corpus
    from mirage.dataset import MirageDataset
    from mirage.errors import MirageError
    from mirage.features import FeatureSuite, FeatureTable
    from mirage.generation import Generator, HTTPGenerator, OpenAIGenerator, respond
    from mirage.leaderboard import Leaderboard, MultilingualLeaderboard
    from mirage.llm import LLM, Budget, Price
    from mirage.models import Judgment, Passage, Query, Response, Run, Vote
    from mirage.pipeline import Pipeline
    from mirage.ranking import MultilingualRanking, Ranking
    from mirage.surrogate import SurrogateRanker

__version__ = "0.2.0"

__all__ = [
    "LLM",
    "BradleyTerry",
    "Budget",
    "Corpus",
    "FeatureSuite",
    "FeatureTable",
    "Generator",
    "HTTPGenerator",
    "Judgment",
    "Judgments",
    "Leaderboard",
    "MirageDataset",
    "MirageError",
    "MultilingualLeaderboard",
    "MultilingualRanking",
    "OpenAIGenerator",
    "PairwiseJudge",
    "Passage",
    "Pipeline",
    "Price",
    "Query",
    "Ranking",
    "Response",
    "Run",
    "SurrogateRanker",
    "Vote",
    "__version__",
    "respond",
]

_NAMES = {
    "mirage.arena": ("BradleyTerry", "Judgments", "PairwiseJudge"),
    "mirage.corpus": ("Corpus",),
    "mirage.dataset": ("MirageDataset",),
    "mirage.errors": ("MirageError",),
    "mirage.features": ("FeatureSuite", "FeatureTable"),
    "mirage.generation": ("Generator", "HTTPGenerator", "OpenAIGenerator", "respond"),
    "mirage.leaderboard": ("Leaderboard", "MultilingualLeaderboard"),
    "mirage.llm": ("LLM", "Budget", "Price"),
    "mirage.models": ("Judgment", "Passage", "Query", "Response", "Run", "Vote"),
    "mirage.pipeline": ("Pipeline",),
    "mirage.ranking": ("MultilingualRanking", "Ranking"),
    "mirage.surrogate": ("SurrogateRanker",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
