"""The experiments of MIRAGE-Bench (arXiv 2410.13716), on any arena.

An arena is what one language has: a feature table for every model, the judgments on their
responses, and the tournaments that follow from these. Each experiment takes arenas by language
and returns a :class:`Result`, whose rows are typed.

Where an experiment has a surrogate, ``estimator`` is a name that
:class:`~mirage.surrogate.SurrogateRanker` takes. ``pooled=True`` learns from all languages
together, as this library does; ``pooled=False`` makes a surrogate for each language alone, as the
paper does. The paper's own is ``estimator="forest", pooled=False``.

Runs and judgments for an arena of one's own come from LLMs set as the papers set theirs with
``LLM(model, **GENERATION)`` and ``LLM(model, **SENTENCE_JUDGES)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.experiments.arenas import Arena, read_arena, read_hub_arena
    from mirage.experiments.finetuning import tuned_models, tuning_settings
    from mirage.experiments.judging import fewer_judgments, new_models
    from mirage.experiments.results import (
        FewerJudgmentsRow,
        ImportanceRow,
        NewModelRow,
        R2Row,
        Result,
        Row,
        SettingRow,
        TauRow,
        TunedModelRow,
        ValidationRow,
        tau_b,
    )
    from mirage.experiments.settings import GENERATION, SENTENCE_JUDGES
    from mirage.experiments.surrogates import (
        compare_feature_sets,
        compare_regressors,
        feature_importance,
        feature_sets,
        r2_by_tournaments,
        tau_by_language,
    )

__all__ = [
    "GENERATION",
    "SENTENCE_JUDGES",
    "Arena",
    "FewerJudgmentsRow",
    "ImportanceRow",
    "NewModelRow",
    "R2Row",
    "Result",
    "Row",
    "SettingRow",
    "TauRow",
    "TunedModelRow",
    "ValidationRow",
    "compare_feature_sets",
    "compare_regressors",
    "feature_importance",
    "feature_sets",
    "fewer_judgments",
    "new_models",
    "r2_by_tournaments",
    "read_arena",
    "read_hub_arena",
    "tau_b",
    "tau_by_language",
    "tuned_models",
    "tuning_settings",
]

__getattr__, __dir__ = lazy(__name__, __file__)
