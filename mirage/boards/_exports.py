"""Export a board to the schema of Every Eval Ever, version 0.2.2.

The schema is ``every_eval_ever/schemas/eval.schema.json`` of github.com/evaleval/every_eval_ever.
A submission becomes one file. The logit has no bounds, so that ``score_type``, which would need
them, is left out.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mirage._base.files import make_folder
from mirage.boards.folders import BoardFolder, Entry, write_json
from mirage.boards.views import Row, Site
from mirage.languages import Language

SCHEMA = "0.2.2"


def write_exports(site: Site, board: BoardFolder, out: Path) -> None:
    """Write ``every_eval_ever/ID.json`` for each submission with a rank."""
    folder = out / "every_eval_ever"
    make_folder(folder)
    rows = {
        code: {row.id: row for row in site.views[code]}
        for code in site.versions
        if code in site.views
    }
    for entry in board.entries:
        results = [
            _result(site, entry, code, rows[code][entry.id])
            for code in rows
            if entry.id in rows[code]
        ]
        if results:
            write_json(folder / f"{entry.id}.json", _log(site, entry, results))


def _log(site: Site, entry: Entry, results: list[dict[str, Any]]) -> dict[str, Any]:
    record = entry.record
    day = datetime.combine(record.date, time(), UTC)
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{site.title}/{record.model}/{entry.id}",
        "evaluation_timestamp": day.isoformat(),
        # The same board gives the same files, so that this is not the time of the export.
        "retrieved_timestamp": str(int(day.timestamp())),
        "source_metadata": {
            "source_name": site.title,
            "source_type": "evaluation_run",
            "source_organization_name": record.submitter,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "mirage-rag", "version": version("mirage-rag")},
        "model_info": {"name": record.model, "id": record.model},
        "evaluation_results": results,
    }


def _result(site: Site, entry: Entry, code: str, row: Row) -> dict[str, Any]:
    low, high = row.interval
    uncertainty: dict[str, Any] = {"num_samples": len(entry.answers[code])}
    if not math.isnan(low):
        uncertainty["confidence_interval"] = {
            "lower": low,
            "upper": high,
            "confidence_level": site.level,
        }
    details = {"failed": str(row.failed), "judge": site.versions[code].judge}
    if row.ranks is not None:
        details |= {"best_rank": str(row.ranks[0]), "worst_rank": str(row.ranks[1])}
    return {
        "evaluation_result_id": f"{entry.id}/{code}",
        "evaluation_name": f"mirage.{code}",
        "source_data": {
            "dataset_name": f"{site.title} ({Language.of(code).name})",
            "source_type": "other",
            "source_version": site.versions[code].data,
        },
        "metric_config": {
            "evaluation_description": "Bradley-Terry logit among the submissions' systems, "
            "centred per language; differences have a meaning, single values have none.",
            "metric_id": "mirage.logit",
            "metric_name": "logit",
            "metric_unit": "logit",
            "lower_is_better": False,
        },
        "score_details": {"score": row.logit, "details": details, "uncertainty": uncertainty},
    }
