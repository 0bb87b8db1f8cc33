"""Results published in the MIRAGE-Bench paper (arXiv 2410.13716, Tables 7 and 8, Figure 4)."""

from __future__ import annotations

import json
import math
from importlib import resources

import numpy as np

from mirage.languages import Language
from mirage.ranking import Entry, Ranking
from mirage.statistics.ranks import ranks


def published_ranking(language: str) -> Ranking:
    """Return the paper's ranking of 19 LLMs; see :meth:`mirage.Leaderboard.published`."""
    code = Language.with_board(language).code
    source = resources.files("mirage") / "data" / "published" / "mirage_bench.json"
    figures = json.loads(source.read_text(encoding="utf-8"))
    models, columns = figures["models"], figures["languages"][code]
    logits = columns.get("logit", [math.nan] * len(models))
    offsets = columns.get("ci95", [(math.nan, math.nan)] * len(models))
    # Some of the paper's ranks contradict its logits, so ranks are used only without logits.
    rank_numbers = ranks(np.array(logits)).tolist() if "logit" in columns else columns["judge_rank"]
    entries = [  # the paper prints the ends of intervals as distances from the logit, rounded
        Entry(rank, model, logit, (round(logit + low, 3), round(logit + high, 3)), anchor=True)
        for model, logit, (low, high), rank in zip(
            models, logits, offsets, rank_numbers, strict=True
        )
    ]
    errata = figures["errata"]
    return Ranking(
        entries,
        language=code,
        title=f"MIRAGE-Bench: {Language.of(code).name}, judged by GPT-4o",
        notes=[f"Source: {figures['source']}.", *([errata[code]] if code in errata else [])],
    )
