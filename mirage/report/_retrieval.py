"""How good the passages were that responses were made from, in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mirage.errors import SettingError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.ranking import Evidence, MultilingualRanking, Ranking
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

__all__ = ["retrieved", "runs_by_language"]

OF_CONTEXT = ("context_precision", "context_recall")
OF_RUNS = ("nDCG@10", "R@10")

Figures = dict[str, tuple[float, tuple[float, float]]]
"""Means and intervals by name."""


def runs_by_language(
    ranking: Ranking | MultilingualRanking,
    retrieval: Mapping[str, RetrievalRun | Mapping[str, RetrievalRun]],
) -> dict[str, dict[str, RetrievalRun]]:
    """The runs by language and model, if they are of models of the ranking.

    Raises:
        SettingError: the ranking is in several languages, and a run does not say its own.
        UnknownNameError: a run is of another model or language.
    """
    if isinstance(ranking, Ranking):
        rankings: Mapping[str, Ranking] = {ranking.language: ranking}
        left_out: Mapping[str, str] = {}
    else:
        rankings, left_out = ranking, ranking.left_out
    found: dict[str, dict[str, RetrievalRun]] = {code: {} for code in rankings}
    for model, runs in retrieval.items():
        if isinstance(runs, RetrievalRun):
            if len(rankings) > 1:
                raise SettingError(
                    f"the ranking is in {len(rankings)} languages, and runs are of queries in one: "
                    f"give those of {model!r} by language, such as {{{model!r}: {{'sw': run}}}}"
                )
            runs = dict.fromkeys(rankings, runs)
        for code, run in runs.items():
            if code in left_out:
                continue
            if code not in rankings:
                raise UnknownNameError("language of the ranking, with a run:", code, rankings)
            if model not in rankings[code].models:
                known = rankings[code].models
                raise UnknownNameError("model of the ranking, with a retrieval run:", model, known)
            found[code][model] = run
    return found


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
