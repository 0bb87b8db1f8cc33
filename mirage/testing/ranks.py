"""Assert that a model ranks above another one."""

from __future__ import annotations

import math
import warnings

import numpy as np

from mirage._base.quoting import visible
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError
from mirage.features import facts
from mirage.generation import ModelLike
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

__all__ = ["assert_ranks"]


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
    """Assert that a model is better than another one of a ranking, and that this is no luck.

    It holds if :meth:`Ranking.p_better <mirage.Ranking.p_better>` of the model over ``at_least``
    is ``confidence`` or more. So ``at_least`` names a model that yours is to stand above by a
    margin: against one that is as good as yours, it holds at a confidence of 0.5 at best. A
    confidence of 0.5 asks for no more than to be ahead.

    Args:
        system: what :func:`mirage.respond` takes, or a ranking.
        at_least: a model of the ranking, such as ``"anchor/uncited"``.
        confidence: above 0 and below 1.
        on: the leaderboard, or the language code of a bundled one, by default as in
            :func:`assert_feature`. Not for a ranking, which stands as it is.
        model: its name; of a ranking, that of the only model in it that is no anchor.
        allow_failed: queries that the model may fail on.

    A model that is unlike any system that the board knows (:attr:`Entry.unfamiliar
    <mirage.Entry.unfamiliar>`) is said to be so: in the error, and in a warning where it holds.

    Raises:
        FellShortError: it is not; shows the five worst queries. An ``AssertionError``.
        UnknownNameError: no such model in the ranking.
        SettingError: a confidence that is no such share.
        MirageError: whatever else is wrong with the model or the ranking.
    """
    if not 0 < confidence < 1:
        raise SettingError(f"confidence={confidence!r} is to lie above 0 and below 1, as 0.9 does")
    ranking = system if isinstance(system, Ranking) else _ranking(system, on, model)
    entry = ranking[_own(ranking) if model is None else model]
    other = ranking[at_least]
    evidence = ranking.evidence
    if evidence is not None and evidence.dataset is not None and entry.model in evidence.runs:
        check_failed(evidence.runs[entry.model], evidence.dataset, allow_failed)
    p_better = ranking.p_better(entry.model, other.model)
    held = p_better >= confidence
    place = {"model": entry.model, "rank": entry.rank, "of": len(ranking)}
    place["logit"] = entry.logit if math.isfinite(entry.logit) else None
    asked = {"at_least": at_least, "p_better": p_better, "confidence": confidence}
    unlike = {"unfamiliar": entry.unfamiliar} if entry.unfamiliar else {}
    record("mirage.ranks", {**place, **asked, "held": held, **unlike})
    if held and entry.unfamiliar:
        warnings.warn(visible(_unlike(entry)), stacklevel=3)
    if not held:
        raise _ranks_too_low(ranking, entry, other, p_better, confidence)


def _ranking(system: ModelLike, on: str | Leaderboard | None, model: str | None) -> Ranking:
    if isinstance(system, MultilingualRanking):
        raise DatasetError(
            "this ranking is over several languages; give that of one, ranking['sw']"
        )
    if isinstance(on, MirageDataset):
        raise DatasetError(
            f"{on.name} is a dataset, and a rank needs a leaderboard: give on=Leaderboard(...), or "
            "a language code"
        )
    if isinstance(on, Leaderboard):
        board = on
    else:
        board = leaderboard(system.language if on is None and isinstance(system, Run) else on)
    return board.rank(standing_in(system), model, progress=False)


def _own(ranking: Ranking) -> str:
    own = [entry.model for entry in ranking if not entry.anchor]
    if len(own) == 1:
        return own[0]
    if own:
        raise DatasetError(
            f"the ranking has several models ({', '.join(own)}): say which, by model="
        )
    raise DatasetError("the ranking has no model besides its anchors: say which it is, by model=")


def _ranks_too_low(
    ranking: Ranking, entry: Entry, other: Entry, p_better: float, confidence: float
) -> FellShortError:
    rows = [(_row(row), row is entry) for row in sorted((entry, other), key=lambda row: row.rank)]
    evidence = ranking.evidence
    return shortfall_error(
        f"{entry.model} is better than {other.model} with a confidence of {p_better:.2f}, and "
        f"{confidence:g} was asked; it ranks {entry.rank} of {len(ranking)}"
        + (f". {_unlike(entry)}" if entry.unfamiliar else ""),
        ("model", "rank", "logit", "95 % interval"),
        rows,
        () if evidence is None else _below(evidence, entry.model, other),
    )


def _unlike(entry: Entry) -> str:
    return (
        f"{entry.model} is unlike any system that this board knows ({entry.unfamiliar}), so its "
        "rank says little"
    )


def _row(entry: Entry) -> tuple[str, ...]:
    low, high = entry.interval
    return entry.model, str(entry.rank), f"{entry.logit:.2f}", f"[{low:.2f}, {high:.2f}]"


def _below(evidence: Evidence, model: str, other: Entry) -> list[str]:
    """Lines on the queries whose features lie farthest below the other model's means.

    A feature counts in units of its standard deviation over the models that the ranker learnt from.
    A ranking by judgments has no features.
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
