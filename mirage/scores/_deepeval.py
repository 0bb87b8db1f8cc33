"""DeepEval: the JSON file of a test run, and ``EvaluationResult``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mirage.errors import DatasetError
from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    check_list,
    check_object,
    check_text,
    finish,
    name_of,
    score_of,
)

_KEYS = ("testCases", "test_cases", "test_results", "testResults")
_DEFAULT_NAME = re.compile(r"(conversational_)?test_case_\d+")


def recognises(content: Content) -> bool:
    """Return whether the content is a DeepEval test run."""
    return content.document is not None and any(key in content.document for key in _KEYS)


def read(content: Content) -> ScoreFile:
    """Read the scores; the name of a test case, or its input, identifies the item.

    Names are used if they are all different and DeepEval generated none of them.

    Raises:
        DatasetError: If a test case or a metric is not valid.
    """
    document = content.document or {}
    key = next(key for key in _KEYS if key in document)
    cases = list(check_list(document[key], content.source, key))
    key_of_turns = "conversationalTestCases"
    cases += check_list(document.get(key_of_turns, []), content.source, key_of_turns)
    wheres = [f"{content.source}, test case {number}" for number in range(1, len(cases) + 1)]
    rows = [check_object(case, where, key) for case, where in zip(cases, wheres, strict=True)]
    names = [str(row.get("name") or "") for row in rows]
    named = len(set(names)) == len(names) and not any(map(_DEFAULT_NAME.fullmatch, names))
    entries = list(_entries(rows, wheres, named=named))
    return finish(content.source, "deepeval", entries, lower=_directions(rows))


def _directions(rows: list[Mapping[str, Any]]) -> dict[str, bool]:
    """Return, for each metric, whether scores below the threshold pass.

    Metrics whose results contradict each other are left out. The direction is read from the results
    because it differs between versions: the score of hallucination, for example, was once the share
    of violations.
    """
    seen: dict[str, set[bool]] = {}
    for row in rows:
        for metric in row.get("metricsData", row.get("metrics_data")) or ():
            score, threshold = metric.get("score"), metric.get("threshold")
            passed = metric.get("success")
            if None not in (score, threshold, passed) and score != threshold:
                seen.setdefault(metric["name"], set()).add((score < threshold) == passed)
    return {name: min(directions) for name, directions in seen.items() if len(directions) == 1}


def _entries(rows: list[Mapping[str, Any]], wheres: list[str], *, named: bool) -> Iterator[Entry]:
    for row, where in zip(rows, wheres, strict=True):
        scores: dict[str, float] = {}
        metrics = row.get("metricsData", row.get("metrics_data"))
        for part in check_list(metrics or [], where, "metricsData"):
            metric = check_object(part, where, "a metric")
            name = check_text(metric, "name", where)
            if name in scores:
                raise DatasetError(f"{where}: metric {name!r} occurs twice in this test case")
            score = score_of(metric.get("score"), where, name)
            scores[name] = math.nan if metric.get("error") else score
        item = row.get("name") if named else row.get("input") or row.get("turns")
        if not item:
            raise DatasetError(f"{where}: the test case has neither a name nor an input")
        answer = answer_of(row.get("actualOutput", row.get("actual_output")))
        yield Entry(where, row, name_of(item), scores, answer=answer)
