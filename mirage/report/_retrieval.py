"""How good the passages were that responses were made from, in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mirage.errors import SettingError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.ranking import Evidence, Ranking
from mirage.report._elements import Child, tag
from mirage.report._sections import (
    language,
    model_head,
    model_row,
    number,
    scrolling,
    sortable,
    table,
)
from mirage.retrieval import RetrievalRun, evaluate

__all__ = ["checked", "retrieved"]

OF_CONTEXT = ("context_precision", "context_recall")
OF_RUNS = ("nDCG@10", "R@10")

Figures = dict[str, tuple[float, tuple[float, float]]]
"""Means and intervals by name."""


def checked(
    rankings: Mapping[str, Ranking], retrieval: Mapping[str, RetrievalRun]
) -> Mapping[str, RetrievalRun]:
    """The runs, if they are of models of a ranking in one language.

    Raises:
        SettingError: it is in several.
        UnknownNameError: a run is of another model.
    """
    if len(rankings) > 1:
        raise SettingError("retrieval= goes with a ranking in one language: runs are of queries")
    (ranking,) = rankings.values()
    for model in retrieval:
        if model not in ranking.models:
            raise UnknownNameError(
                "model of the ranking, with a retrieval run:", model, ranking.models
            )
    return retrieval


def retrieved(
    code: str,
    ranking: Ranking,
    places: Mapping[str, int],
    retrieval: Mapping[str, RetrievalRun],
) -> Child:
    """A table of the models that retrieve, if any does whose queries have relevant passages."""
    evidence = ranking.evidence
    if evidence is None or evidence.dataset is None:
        return None
    if not any(query.relevant for query in evidence.dataset):
        return None
    figures = {
        model: _figures(evidence, model, retrieval.get(model))
        for model in ranking.models
        if model in evidence.runs and (model in retrieval or _retrieves(evidence, model))
    }
    if not figures:
        return None
    names = [*OF_CONTEXT, *(OF_RUNS if retrieval else ())]
    head = [*model_head("Rank"), *map(sortable, names)]
    rows = [
        model_row(
            number(entry.rank, str(entry.rank)),
            entry.model,
            f"#{code}/{places[entry.model]}",
            not entry.anchor,
            [_cell(figures[entry.model], name) for name in names],
            entry.unfamiliar,
        )
        for entry in ranking
        if entry.model in figures
    ]
    words = (
        "context_precision and context_recall are of the passages that responses were made from; "
        "the others are of the retrieval runs. Beside each is its 95 % interval."
    )
    shown = table(head, rows, id=f"{code}-retrieved", class_="sortable")
    heading = tag("h3", "Retrieval", id=f"{code}-retrieval")
    return tag("section", heading, *scrolling(shown, f"Retrieval, {language(code).name}", words))


def _retrieves(evidence: Evidence, model: str) -> bool:
    return any(response.passages for response in evidence.runs[model])


def _figures(evidence: Evidence, model: str, run: RetrievalRun | None) -> Figures:
    dataset = evidence.dataset
    assert dataset is not None
    scored = FeatureSuite(OF_CONTEXT).score(dataset, evidence.runs[model])
    ends = [(low, high) for low, high in scored.intervals().tolist()]
    means = zip(scored.mean().tolist(), ends, strict=True)
    figures: Figures = dict(zip(OF_CONTEXT, means, strict=True))
    if run is not None:
        found = evaluate(run, dataset, OF_RUNS, query_ids=dataset.query_ids)
        figures |= {row.measure: (row.mean, row.interval) for row in found}
    return figures


def _cell(figures: Figures, name: str) -> Child:
    mean, (low, high) = figures.get(name, (math.nan, (math.nan, math.nan)))
    cell = number(mean, f"{mean:.3f}")
    if not math.isnan(low):
        cell.append(tag("span", f" {low:.3f} to {high:.3f}", class_="hint"))
    return cell
