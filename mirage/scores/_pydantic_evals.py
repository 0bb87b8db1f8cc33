"""pydantic-evals: an ``EvaluationReport``, in memory or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    check_list,
    check_object,
    check_text,
    finish,
    score_of,
)


def recognises(content: Content) -> bool:
    """Return whether the content is a pydantic-evals report."""
    document = content.document or {}
    return isinstance(document.get("cases"), list) and "failures" in document


def read(content: Content) -> ScoreFile:
    """Read scores and assertions; the name of a case identifies the item.

    Several executions of a case are repeats of the item.

    Raises:
        DatasetError: If a case is not valid.
    """
    return finish(content.source, "pydantic_evals", _entries(content.document or {}, content))


def _entries(document: Mapping[str, Any], content: Content) -> Iterator[Entry]:
    system = str(document.get("name") or "")
    for key in ("cases", "failures"):
        for number, value in enumerate(check_list(document[key], content.source, key), 1):
            where = f"{content.source}, {key}, entry {number}"
            case = check_object(value, where, "a case")
            name = check_text(case, "name", where)
            scores: dict[str, float] = {}
            for kind in ("scores", "assertions"):
                for metric, score in check_object(case.get(kind) or {}, where, kind).items():
                    entry = check_object(score, where, f"the score {metric!r}")
                    scores[metric] = score_of(entry.get("value"), where, metric)
            for failure in check_list(case.get("evaluator_failures") or [], where, "failures"):
                entry = check_object(failure, where, "an evaluator failure")
                scores[check_text(entry, "name", where)] = float("nan")
            failed = str(case.get("error_message") or "the case failed")
            yield Entry(
                where,
                case,
                str(case.get("source_case_name") or name),
                scores,
                system=system,
                repeat=name,
                failure=failed if key == "failures" else "",
                answer=answer_of(case.get("output")),
            )
