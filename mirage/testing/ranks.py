"""The assertion that a model ranks above another one."""

from __future__ import annotations

import math
import warnings

import numpy as np

from mirage._base.quoting import visible
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError
from mirage.features import facts
from mirage.generation.responses import ModelLike
from mirage.leaderboard import Leaderboard
from mirage.models import Run
from mirage.ranking import Entry, Evidence, MultilingualRanking, Ranking
from mirage.testing._current_test import record
from mirage.testing._inputs import leaderboard, standing_in
from mirage.testing._shortfalls import (
    FellShortError,
    check_failed,
    format_value,
    raise_at_caller,
    shortfall_error,
    worse_queries,
    worst_lines,
)


@raise_at_caller
def assert_ranks(
    system: ModelLike | Ranking,
    at_least: str,
    confidence: float = 0.9,
    *,
    on: str | Leaderboard | None = None,
    model: str | None = None,
    allow_failed: int = 0,
) -> None:
    """Assert that a model is better than another model of a ranking, with high confidence.

    The assertion holds if the model is better than the model ``at_least`` with a probability of
    ``confidence`` or more (:meth:`Ranking.p_better <mirage.Ranking.p_better>`). If both are equally
    good, this probability is about 0.5. So choose a model that yours must beat clearly. With a
    confidence of 0.5, the assertion only requires a better rank.

    If the model is unlike all systems that the ranker was trained on (:attr:`Entry.unfamiliar
    <mirage.Entry.unfamiliar>`), the error message mentions it. If the assertion holds, a warning
    mentions it instead.

    Args:
        system: The system, as for :func:`mirage.respond`, or a ranking.
        at_least: Name of a model of the ranking, such as ``"anchor/uncited"``.
        confidence: Required probability that the model is better; above 0 and below 1.
        on: The leaderboard, or the language code of a bundled one. The default language is chosen
            as in :func:`assert_feature`. Ignored if ``system`` is a ranking.
        model: Name of the model. If ``system`` is a ranking, the default is its only model that is
            not an anchor (one of the leaderboard's reference models).
        allow_failed: Number of queries that the model may fail on.

    Raises:
        FellShortError: The probability is below ``confidence``; the message shows the five worst
            queries. It is an ``AssertionError``.
        UnknownNameError: The ranking has no such model.
        SettingError: ``confidence`` is not above 0 and below 1.
        MirageError: The model or the ranking has another fault.
    """
    if not 0 < confidence < 1:
        raise SettingError(f"confidence must be above 0 and below 1, got {confidence!r}")
    ranking = system if isinstance(system, Ranking) else _rank_system(system, on, model)
    entry = ranking[_only_model(ranking) if model is None else model]
    other = ranking[at_least]
    evidence = ranking.evidence
    if evidence is not None and evidence.dataset is not None and entry.model in evidence.runs:
        check_failed(evidence.runs[entry.model], evidence.dataset, allow_failed)
    p_better = ranking.p_better(entry.model, other.model)
    holds = p_better >= confidence
    position = {"model": entry.model, "rank": entry.rank, "of": len(ranking)}
    position["logit"] = entry.logit if math.isfinite(entry.logit) else None
    requirement = {"at_least": at_least, "p_better": p_better, "confidence": confidence}
    unfamiliar = {"unfamiliar": entry.unfamiliar} if entry.unfamiliar else {}
    record("mirage.ranks", {**position, **requirement, "held": holds, **unfamiliar})
    if holds and entry.unfamiliar:
        warnings.warn(visible(_unfamiliar_warning(entry)), stacklevel=3)
    if not holds:
        raise _rank_error(ranking, entry, other, p_better, confidence)


def _rank_system(system: ModelLike, on: str | Leaderboard | None, model: str | None) -> Ranking:
    if isinstance(system, MultilingualRanking):
        raise DatasetError(
            "this ranking covers several languages; pass the ranking of one language, such as "
            "ranking['sw']"
        )
    if isinstance(on, MirageDataset):
        raise DatasetError(
            f"{on.name} is a dataset, but a rank needs a leaderboard: give on=Leaderboard(...) or "
            "a language code"
        )
    if isinstance(on, Leaderboard):
        board = on
    else:
        board = leaderboard(system.language if on is None and isinstance(system, Run) else on)
    return board.rank(standing_in(system), model, progress=False)


def _only_model(ranking: Ranking) -> str:
    """Return the only model of a ranking that is not an anchor (reference model)."""
    models = [entry.model for entry in ranking if not entry.anchor]
    if len(models) == 1:
        return models[0]
    if models:
        raise DatasetError(
            f"the ranking has several models ({', '.join(models)}); choose one with model="
        )
    raise DatasetError("the ranking has only anchors; choose one of them with model=")


def _rank_error(
    ranking: Ranking, entry: Entry, other: Entry, p_better: float, confidence: float
) -> FellShortError:
    rows = [(_row(row), row is entry) for row in sorted((entry, other), key=lambda row: row.rank)]
    evidence = ranking.evidence
    return shortfall_error(
        f"{entry.model} is better than {other.model} with a confidence of "
        f"{_format_below(p_better, confidence)}, but "
        f"{confidence:g} is required; it ranks {entry.rank} of {len(ranking)}"
        + (f". {_unfamiliar_warning(entry)}" if entry.unfamiliar else ""),
        ("model", "rank", "logit", "95 % interval"),
        rows,
        () if evidence is None else _worse_query_lines(evidence, entry.model, other),
    )


def _format_below(value: float, limit: float) -> str:
    """Return a number below ``limit`` with two decimals, or with more if it would look equal."""
    texts = (f"{value:.{decimals}f}" for decimals in range(2, 17))
    return next((text for text in texts if float(text) < limit), repr(value))


def _unfamiliar_warning(entry: Entry) -> str:
    return (
        f"{entry.model} is unlike all systems that this leaderboard was trained on "
        f"({entry.unfamiliar}), so its rank is unreliable"
    )


def _row(entry: Entry) -> tuple[str, ...]:
    low, high = entry.interval
    return entry.model, str(entry.rank), f"{entry.logit:.2f}", f"[{low:.2f}, {high:.2f}]"


def _worse_query_lines(evidence: Evidence, model: str, other: Entry) -> list[str]:
    """Return lines that show the queries on which features are worse than the other model's means.

    The queries with the largest differences come first. A difference is divided by the feature's
    standard deviation over the models that the ranker was trained on. The list is empty for a
    ranking by judgments, which has no features.
    """
    dataset, ranker = evidence.dataset, evidence.ranker
    if dataset is None or ranker is None or model not in evidence.tables:
        return []
    table, data = evidence.tables[model], ranker.data[dataset.language]
    names = [name for name in data.features if math.isfinite(other.features.get(name, math.nan))]
    lower = [facts(name, table.facts).direction_in(table.language) == "lower" for name in names]
    signs = np.where(lower, 1.0, -1.0)
    means = np.array([other.features[name] for name in names])
    spread = data.mean_X[:, [data.features.index(name) for name in names]].std(axis=0)
    values = table.columns(names).values
    below = signs * (values - means) / np.where(spread > 0, spread, np.inf)
    findings = worse_queries(below, table, lambda i, j: f"{names[j]} {format_value(values[i, j])}")
    means_text = ", ".join(
        f"{name} {format_value(mean)}" for name, mean in zip(names, means, strict=True)
    )
    about = f"Queries with features worse than the means of {other.model}"
    lines = worst_lines(findings, about, dataset, evidence.runs[model])
    return [*lines, f"Means of {other.model}: {means_text}"] if lines else []
