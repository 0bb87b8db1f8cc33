"""Experiments on fine-tuned models: their ranks, and the settings of their training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mirage.errors import SettingError, UnknownNameError
from mirage.features import FeatureTable
from mirage.papers.arenas import Arena
from mirage.papers.results import Result, SettingRow, TunedModelRow
from mirage.papers.surrogates import ALL, fit_rankers, surrogate_data
from mirage.statistics.ranks import ranks
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.training import TrainingData
from mirage.training import MIRAGE_BENCH_TUNING
from mirage.training.recipes import TuningRecipe


def tuned_models(
    arenas: Mapping[str, Arena],
    tables: Mapping[str, Sequence[FeatureTable]],
    backbones: Mapping[str, str],
    *,
    estimator: str = "auto",
    pooled: bool = True,
    seed: int = 0,
) -> Result[TunedModelRow]:
    """Rank fine-tuned models, which were not judged, among the judged models of an arena.

    The method is that of Figure 7 and appendix C of MIRAGE-Bench (arXiv 2410.13716). A surrogate is
    trained on the arena, and predicts the logit of a tuned model from its features. The backbone of
    a tuned model is the model before fine-tuning; its logit comes from judgments. If the intervals
    of two models overlap, their order is uncertain.

    Args:
        arenas: Arenas of the judged models by language. They contain the backbones, and the
            teachers (the models on whose answers the tuned models were trained).
        tables: Feature tables of the tuned models by language, with the features of the arena.
        backbones: Name of each tuned model's backbone, by name of the tuned model.
        estimator: Name of the surrogate's estimator; see :class:`~mirage.SurrogateRanker`.
        pooled: Whether all languages share one surrogate.
        seed: Random seed.

    Returns:
        One row per language and tuned model.

    Raises:
        UnknownNameError: If a language has no arena, if ``backbones`` lacks a tuned model, or if a
            backbone is not a model of the arena.
        SettingError: If a tuned model has the same name as a judged model.
        FeatureError: If the tables of the models have different features, if a model has no value
            of a feature on any query, or if fewer than three models remain for training.
    """
    for code, tuned in tables.items():
        if code not in arenas:
            raise UnknownNameError("arena", code, arenas)
        _check_names(arenas[code].tournaments.models, tuned, backbones)
    rows: list[TunedModelRow] = []
    for ranker, group in fit_rankers(surrogate_data(arenas), estimator, pooled, seed):
        for code, data in group.items():
            if code in tables:
                rows += _rank_tuned_models(ranker, data, tables[code], backbones)
    return Result(
        "Fine-tuned models among judged models",
        tuple(rows),
        ("Tuned models are ranked by predicted logits, the others by judged ones.",),
    )


def tuning_settings(recipe: TuningRecipe = MIRAGE_BENCH_TUNING) -> Result[SettingRow]:
    """Return the settings of fine-tuning as a table, as in the papers of MIRAGE-Bench and BERGEN.

    The papers list them in Table 6 (MIRAGE-Bench) and Table 8 (BERGEN). The result leaves out the
    implementation of attention: MIRAGE-Bench uses FlashAttention-2, and this library uses the
    default of ``transformers``. The two implementations differ only by rounding.

    Args:
        recipe: :data:`mirage.training.MIRAGE_BENCH_TUNING`, :data:`mirage.training.BERGEN_TUNING`,
            or your own recipe.

    Example:
        >>> tuning_settings().rows[0].choice
        '32'
    """
    layers = recipe.layers if isinstance(recipe.layers, str) else ", ".join(recipe.layers)
    choices = {
        "batch size": f"{recipe.batch_size}",
        "epochs": f"{recipe.epochs:g}",
        "learning rate": f"{recipe.learning_rate:g}",
        "schedule": recipe.schedule,
        "warm-up": f"{recipe.warmup:g}",
        "weight decay": f"{recipe.weight_decay:g}",
        "maximum length": f"{recipe.max_length}",
        "LoRA rank": f"{recipe.rank}",
        "LoRA alpha": f"{recipe.alpha}",
        "LoRA dropout": f"{recipe.dropout:g}",
        "LoRA layers": layers,
    }
    return Result(
        "Settings of fine-tuning",
        tuple(SettingRow(ALL, setting, choice) for setting, choice in choices.items()),
    )


def _check_names(
    judged: Sequence[str], tuned: Sequence[FeatureTable], backbones: Mapping[str, str]
) -> None:
    for table in tuned:
        if table.model in judged:
            raise SettingError(
                f"the arena already has a model {table.model!r}; choose another name for the "
                "fine-tuned model"
            )
        if table.model not in backbones:
            raise UnknownNameError("tuned model", table.model, backbones, "in backbones")
        if backbones[table.model] not in judged:
            raise UnknownNameError("model", backbones[table.model], judged)


def _rank_tuned_models(
    ranker: SurrogateRanker,
    judged: TrainingData,
    tuned: Sequence[FeatureTable],
    backbones: Mapping[str, str],
) -> list[TunedModelRow]:
    predictions = [ranker.predict(table) for table in tuned]
    logits = np.array([*judged.mean_y, *(prediction.logit for prediction in predictions)])
    # The judged models come first, so that the tuned ones start at index len(models).
    model_ranks, models = ranks(logits), list(judged.models)
    rows = []
    for rank, prediction in zip(model_ranks[len(models) :], predictions, strict=True):
        backbone = backbones[prediction.model]
        backbone_index = models.index(backbone)
        rows.append(
            TunedModelRow(
                judged.language,
                prediction.model,
                backbone,
                int(rank),
                int(model_ranks[backbone_index]),
                prediction.logit,
                *prediction.interval(),
                backbone_logit=float(logits[backbone_index]),
            )
        )
    return rows
