"""Rank retrieval-augmented generation (RAG) systems in 18 languages.

The public names are imported at first use, so that ``import mirage`` is fast.

PYTEST_DONT_REWRITE: pytest looks for this word in packages with plugins. Without it, pytest warns
if a program imports this package before it starts pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.arena import BradleyTerry, Judgments, PairwiseJudge, Tournaments
    from mirage.corpus import Corpus
    from mirage.dataset import MirageDataset, read_run, write_run
    from mirage.errors import (
        ArtifactError,
        BudgetError,
        DatasetError,
        ExecutorError,
        FeatureError,
        GenerationError,
        JudgmentError,
        LLMError,
        MirageError,
        MissingPackageError,
        NeuralError,
        NoJudgmentError,
        NotFittedError,
        SettingError,
        UnknownNameError,
    )
    from mirage.features import FeatureSuite, FeatureTable
    from mirage.generation import (
        CallableGenerator,
        Generator,
        HTTPGenerator,
        OpenAIGenerator,
        ReplayGenerator,
        TransformersGenerator,
        VLLMGenerator,
        respond,
    )
    from mirage.leaderboard import Leaderboard, MultilingualLeaderboard
    from mirage.llm import LLM, Budget, Price
    from mirage.models import (
        HumanAgreement,
        Judgment,
        Passage,
        Query,
        Response,
        Run,
        Vote,
    )
    from mirage.pipeline import Pipeline
    from mirage.ranking import MultilingualRanking, Ranking
    from mirage.surrogate import SurrogateRanker

__version__ = "0.2.0"

__all__ = [
    "LLM",
    "ArtifactError",
    "BradleyTerry",
    "Budget",
    "BudgetError",
    "CallableGenerator",
    "Corpus",
    "DatasetError",
    "ExecutorError",
    "FeatureError",
    "FeatureSuite",
    "FeatureTable",
    "GenerationError",
    "Generator",
    "HTTPGenerator",
    "HumanAgreement",
    "Judgment",
    "JudgmentError",
    "Judgments",
    "LLMError",
    "Leaderboard",
    "MirageDataset",
    "MirageError",
    "MissingPackageError",
    "MultilingualLeaderboard",
    "MultilingualRanking",
    "NeuralError",
    "NoJudgmentError",
    "NotFittedError",
    "OpenAIGenerator",
    "PairwiseJudge",
    "Passage",
    "Pipeline",
    "Price",
    "Query",
    "Ranking",
    "ReplayGenerator",
    "Response",
    "Run",
    "SettingError",
    "SurrogateRanker",
    "Tournaments",
    "TransformersGenerator",
    "UnknownNameError",
    "VLLMGenerator",
    "Vote",
    "__version__",
    "read_run",
    "respond",
    "write_run",
]

__getattr__, __dir__ = lazy(__name__, __file__)
