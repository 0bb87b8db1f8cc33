"""Export a board to the schema of Every Eval Ever, version 0.3.0.

The schema is ``every_eval_ever/schemas/eval.schema.json`` of github.com/evaleval/every_eval_ever.
Each submission becomes one file, at the path that the data store of Every Eval Ever requires. A
board does not know whether a model is open, so the file states "unknown".
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime, time
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

from mirage._base.files import make_folder
from mirage.boards.folders import BoardFolder, Entry, write_json
from mirage.boards.views import Row, Site
from mirage.languages import Language

SCHEMA = "0.3.0"
_RESERVED = re.compile(r"(?:data|unknown|(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?)", re.IGNORECASE)
"""Names that the data store refuses in a path, such as the reserved device names of Windows."""


def write_exports(site: Site, board: BoardFolder, out: Path) -> None:
    """Write one file in the schema of Every Eval Ever for each submission that has a rank.

    Its path in the folder is ``every_eval_ever/data/COLLECTION/DEVELOPER/MODEL/UUID.json``.

    Args:
        site: The content of the board's page, with the scores.
        board: The board.
        out: Folder of the site.
    """
    collection = out / "every_eval_ever" / "data" / path_part(site.title)
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
            folder = collection / _model_id(entry)
            make_folder(folder)
            write_json(folder / f"{_uuid(site, entry)}.json", _log(site, entry, results))


def path_part(text: str) -> str:
    """Convert a text to a valid part of a path in the data store of Every Eval Ever.

    Invalid characters are replaced with underscores.

    Example:
        >>> path_part("my rag (v2)")
        'my_rag_v2'
    """
    part = re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("._-") or "unnamed"
    return f"_{part}" if _RESERVED.fullmatch(part) else part


def _model_id(entry: Entry) -> str:
    """Return ``DEVELOPER/MODEL``; if the model's name has no developer, use the submitter."""
    developer, slash, model = entry.record.model.partition("/")
    names = (developer, model) if slash else (entry.record.submitter, entry.record.model)
    return "/".join(map(path_part, names))


def _uuid(site: Site, entry: Entry) -> UUID:
    """Return a UUID that depends only on the title of the board and the id of the submission."""
    digest = hashlib.sha256(f"{site.title}\0{entry.id}".encode()).digest()
    return UUID(bytes=digest[:16], version=4)


def _log(site: Site, entry: Entry, results: list[dict[str, Any]]) -> dict[str, Any]:
    record = entry.record
    day = datetime.combine(record.date, time(), UTC)
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{site.title}/{_model_id(entry)}/{entry.id}",
        "evaluation_timestamp": day.isoformat(),
        # Not the time of the export, so that two exports of a board give identical files.
        "retrieved_timestamp": str(int(day.timestamp())),
        "source_metadata": {
            "source_name": site.title,
            "source_type": "evaluation_run",
            "source_organization_name": record.submitter,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "mirage-rag", "version": version("mirage-rag")},
        "model_info": {
            "name": record.model,
            "id": _model_id(entry),
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
            },
        },
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
            "additional_details": {"queries": site.versions[code].data},
        },
        "metric_config": {
            "evaluation_description": "Bradley-Terry logit among the submissions' systems, "
            "centred per language; differences have a meaning, single values have none.",
            "metric_id": "mirage.logit",
            "metric_name": "logit",
            "metric_unit": "logit",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": "-Infinity",
            "max_score": "Infinity",
        },
        "score_details": {"score": row.logit, "details": details, "uncertainty": uncertainty},
    }
