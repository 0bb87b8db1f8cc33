"""Build the report's table of retrieval quality."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mirage.errors import SettingError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.ranking import Evidence, MultilingualRanking, Ranking
from mirage.report.elements import Child, tag
from mirage.report.sections import (
    language,
    model_head,
    model_row,
    number,
    scrolling,
    sortable,
    table,
)
from mirage.retrieval import RetrievalRun, evaluate

CONTEXT_FEATURES = ("context_precision", "context_recall")
RUN_MEASURES = ("nDCG@10", "R@10")

Figures = dict[str, tuple[float, tuple[float, float]]]
"""Mean and interval of each measure, by name."""


def runs_by_language(
    ranking: Ranking | MultilingualRanking,
    retrieval: Mapping[str, RetrievalRun | Mapping[str, RetrievalRun]],
) -> dict[str, dict[str, RetrievalRun]]:
    """Return retrieval runs by language and model.

    Args:
        ranking: Ranking in one language or in several.
        retrieval: For each model one run, or its runs by language. Runs in languages that the
            ranking leaves out are skipped.

    Raises:
        SettingError: If the ranking has several languages and a run is not given by language.
        UnknownNameError: If a model or a language is not in the ranking.
    """
    if isinstance(ranking, Ranking):
        rankings: Mapping[str, Ranking] = {ranking.language: ranking}
        left_out: Mapping[str, str] = {}
    else:
        rankings, left_out = ranking, ranking.left_out
    by_language: dict[str, dict[str, RetrievalRun]] = {code: {} for code in rankings}
    for model, runs in retrieval.items():
        if isinstance(runs, RetrievalRun):
            if len(rankings) > 1:
                raise SettingError(
                    f"the ranking has {len(rankings)} languages, but a retrieval run has only "
                    f"one; give the runs of {model!r} by language, such as {{{model!r}: {{'sw': "
                    "run}}"
                )
            runs = dict.fromkeys(rankings, runs)
        for code, run in runs.items():
            if code in left_out:
                continue
            if code not in rankings:
                raise UnknownNameError("language", code, rankings, "in the ranking")
            if model not in rankings[code].models:
                models = rankings[code].models
                raise UnknownNameError("model", model, models, "in the ranking")
            by_language[code][model] = run
    return by_language


def retrieved(
    code: str,
    ranking: Ranking,
    model_indices: Mapping[str, int],
    retrieval: Mapping[str, RetrievalRun],
) -> Child:
    """Return a section with a table of retrieval quality by model.

    Returns ``None`` if no query has relevant passages, or if no model retrieves passages.

    Args:
        code: Language code.
        ranking: The ranking in this language.
        model_indices: Position of each model in the page's list of models; links contain it.
        retrieval: Retrieval runs by model.
    """
    evidence = ranking.evidence
    if evidence is None or evidence.dataset is None:
        return None
    if not any(query.relevant for query in evidence.dataset):
        return None
    figures = {
        model: _measure(evidence, model, retrieval.get(model))
        for model in ranking.models
        if model in evidence.runs and (model in retrieval or _retrieves(evidence, model))
    }
    if not figures:
        return None
    names = [*CONTEXT_FEATURES, *(RUN_MEASURES if retrieval else ())]
    head = [*model_head("Rank"), *map(sortable, names)]
    rows = [
        model_row(
            number(entry.rank, str(entry.rank)),
            entry.model,
            f"#{code}/{model_indices[entry.model]}",
            not entry.anchor,
            [_cell(figures[entry.model], name) for name in names],
            entry.unfamiliar,
        )
        for entry in ranking
        if entry.model in figures
    ]
    hint = (
        "context_precision and context_recall measure the passages in the prompts; the other "
        "measures are of the retrieval runs. Each mean is followed by its 95 % interval."
    )
    rendered = table(head, rows, id=f"{code}-retrieved", class_="sortable")
    heading = tag("h3", "Retrieval", id=f"{code}-retrieval")
    return tag("section", heading, *scrolling(rendered, f"Retrieval, {language(code).name}", hint))


def _retrieves(evidence: Evidence, model: str) -> bool:
    return any(response.passages for response in evidence.runs[model])


def _measure(evidence: Evidence, model: str, run: RetrievalRun | None) -> Figures:
    dataset = evidence.dataset
    assert dataset is not None
    scored = FeatureSuite(CONTEXT_FEATURES).score(dataset, evidence.runs[model])
    ends = [(low, high) for low, high in scored.intervals().tolist()]
    means = zip(scored.mean().tolist(), ends, strict=True)
    figures: Figures = dict(zip(CONTEXT_FEATURES, means, strict=True))
    if run is not None:
        results = evaluate(run, dataset, RUN_MEASURES, query_ids=dataset.query_ids)
        figures |= {row.measure: (row.mean, row.interval) for row in results}
    return figures


def _cell(figures: Figures, name: str) -> Child:
    mean, (low, high) = figures.get(name, (math.nan, (math.nan, math.nan)))
    cell = number(mean, f"{mean:.3f}")
    if not math.isnan(low):
        cell.append(tag("span", f" {low:.3f} to {high:.3f}", class_="hint"))
    return cell
