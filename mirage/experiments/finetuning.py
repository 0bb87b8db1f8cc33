"""Experiments on fine-tuned models: where they are placed, and how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mirage.errors import SettingError, UnknownNameError
from mirage.experiments.arenas import Arena
from mirage.experiments.results import Result, SettingRow, TunedModelRow
from mirage.experiments.surrogates import ALL, surrogate_data, surrogate_groups
from mirage.features import FeatureTable
from mirage.statistics.ranks import ranks
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.training import TrainingData
from mirage.training import MIRAGE_BENCH_TUNING, TuningRecipe

__all__ = ["tuned_models", "tuning_settings"]


def tuned_models(
    arenas: Mapping[str, Arena],
    tables: Mapping[str, Sequence[FeatureTable]],
    backbones: Mapping[str, str],
    *,
    estimator: str = "auto",
    pooled: bool = True,
    seed: int = 0,
) -> Result[TunedModelRow]:
    """Place fine-tuned models, which nobody judged, among the models of an arena (Figure 7).

    The surrogate learns from the arena, and predicts the logit of a tuned model from its features
    (appendix C of the paper). The difference to its backbone is of a predicted logit to a judged
    one; where the intervals of two models overlap, the order of the two says little.

    Args:
        arenas: by language; of the models that were judged, backbones and teachers among them.
        tables: by language, the features of the tuned models, those of the arena's tables.
        backbones: the judged model that each tuned one was made from, by the tuned one's name.
        estimator: as ``pooled`` and ``seed``, those of
            :func:`mirage.experiments.tau_by_language`.

    Raises:
        UnknownNameError: a language has no arena, a tuned model no backbone, or an arena does not
            have the backbone.
        SettingError: a tuned model has the name of one that was judged.
        FeatureError: features and tournaments do not fit together, or models are too few.
    """
    for code, tuned in tables.items():
        if code not in arenas:
            raise UnknownNameError("arena", code, arenas)
        _check_names(arenas[code].tournaments.models, tuned, backbones)
    rows: list[TunedModelRow] = []
    for group in surrogate_groups(surrogate_data(arenas), pooled):
        ranker = SurrogateRanker(estimator, seed=seed).fit_data(group)
        for code, data in group.items():
            if code in tables:
                rows += _placed(ranker, data, tables[code], backbones)
    return Result(
        "Fine-tuned models among those that were judged",
        tuple(rows),
        ("Tuned models are placed by predicted logits, the others by judged ones.",),
    )


def tuning_settings(recipe: TuningRecipe = MIRAGE_BENCH_TUNING) -> Result[SettingRow]:
    """The settings of fine-tuning, as the papers list them (Table 6; BERGEN's Table 8).

    Attention is no setting here: MIRAGE-Bench computes it by FlashAttention-2, which gives the
    same but for rounding; here it is computed as ``transformers`` does by default.

    Args:
        recipe: :data:`mirage.training.MIRAGE_BENCH_TUNING`,
            :data:`mirage.training.BERGEN_TUNING`, or one of your own.
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
            raise SettingError(f"model {table.model!r} was judged; give the tuned one another name")
        if table.model not in backbones:
            raise UnknownNameError("tuned model with a backbone", table.model, backbones)
        if backbones[table.model] not in judged:
            raise UnknownNameError("model", backbones[table.model], judged)


def _placed(
    ranker: SurrogateRanker,
    judged: TrainingData,
    tuned: Sequence[FeatureTable],
    backbones: Mapping[str, str],
) -> list[TunedModelRow]:
    predictions = [ranker.predict(table) for table in tuned]
    logits = np.array([*judged.mean_y, *(prediction.logit for prediction in predictions)])
    places, models = ranks(logits), list(judged.models)
    rows = []
    for place, prediction in zip(places[len(models) :], predictions, strict=True):
        backbone = backbones[prediction.model]
        old = models.index(backbone)
        rows.append(
            TunedModelRow(
                judged.language,
                prediction.model,
                backbone,
                int(place),
                int(places[old]),
                prediction.logit,
                *prediction.interval(),
                backbone_logit=float(logits[old]),
            )
        )
    return rows
