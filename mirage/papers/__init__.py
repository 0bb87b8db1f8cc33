"""Experiments of MIRAGE-Bench (arXiv 2410.13716), on any arena.

An arena is the data of one language: a feature table for every model, judgments on the models'
responses, and tournaments. A tournament is a fit of the models' logits to the judgments on a
bootstrap sample of the queries. The argument of an experiment is a mapping from language code to
arena, and its result is a :class:`Result` with typed rows.

Some experiments use a surrogate: a regression that predicts the logits of models from features,
without a judge. Its ``estimator`` is a name that :class:`~mirage.surrogate.SurrogateRanker`
accepts. With ``pooled=True``, one surrogate is trained on all languages, as in the rest of this
library. With ``pooled=False``, each language has its own surrogate, as in the paper. The paper's
surrogate is ``estimator="forest", pooled=False``.

To generate and judge responses with the LLM settings of the papers, use ``LLM(model,
**GENERATION)`` and ``LLM(model, **SENTENCE_JUDGES)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.papers.arenas import Arena, read_arena, read_hub_arena
    from mirage.papers.finetuning import tuned_models, tuning_settings
    from mirage.papers.judging import fewer_judgments, new_models
    from mirage.papers.published import compare_with_paper, published_table
    from mirage.papers.results import Result
    from mirage.papers.settings import GENERATION, SENTENCE_JUDGES
    from mirage.papers.surrogates import (
        compare_feature_sets,
        compare_regressors,
        feature_importance,
        r2_by_tournaments,
        surrogate_ranking,
        tau_by_language,
    )

__all__ = [
    "GENERATION",
    "SENTENCE_JUDGES",
    "Arena",
    "Result",
    "compare_feature_sets",
    "compare_regressors",
    "compare_with_paper",
    "feature_importance",
    "fewer_judgments",
    "new_models",
    "published_table",
    "r2_by_tournaments",
    "read_arena",
    "read_hub_arena",
    "surrogate_ranking",
    "tau_by_language",
    "tuned_models",
    "tuning_settings",
]

_NAMES = {
    "mirage.papers.arenas": ("Arena", "read_arena", "read_hub_arena"),
    "mirage.papers.finetuning": ("tuned_models", "tuning_settings"),
    "mirage.papers.judging": ("fewer_judgments", "new_models"),
    "mirage.papers.published": ("compare_with_paper", "published_table"),
    "mirage.papers.results": ("Result",),
    "mirage.papers.settings": ("GENERATION", "SENTENCE_JUDGES"),
    "mirage.papers.surrogates": (
        "compare_feature_sets",
        "compare_regressors",
        "feature_importance",
        "r2_by_tournaments",
        "surrogate_ranking",
        "tau_by_language",
    ),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
