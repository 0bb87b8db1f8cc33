"""Phoenix: the runs of an experiment as JSON, from ``GET /v1/experiments/ID/json``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count

from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    check_list,
    check_object,
    check_text,
    finish,
    is_score,
    name_of,
    score_of,
)


def recognises(content: Content) -> bool:
    """Return whether the content is a Phoenix experiment."""
    return {"example_id", "repetition_number", "annotations"} <= content.first_row().keys()


def read(content: Content) -> ScoreFile:
    """Read the annotations; the id of an example identifies the item.

    If an annotation has no score, its label is read as the score, such as ``pass``. The annotation
    is skipped if its label cannot be read as a score.

    Raises:
        DatasetError: If a run or an annotation is not valid.
    """
    skipped: dict[str, str] = {}
    return finish(content.source, "phoenix", list(_entries(content, skipped)), skipped)


def _entries(content: Content, skipped: dict[str, str]) -> Iterator[Entry]:
    for where, row in content.rows:
        scores: dict[str, float] = {}
        for value in check_list(row.get("annotations"), where, "annotations"):
            annotation = check_object(value, where, "an annotation")
            name = check_text(annotation, "name", where)
            score, label = annotation.get("score"), annotation.get("label")
            if score is None and label is not None and not is_score(label):
                skipped[name] = "has labels instead of scores"
                continue
            number = score_of(label if score is None else score, where, name)
            scores[_free(name, scores)] = math.nan if annotation.get("error") else number
        error = row.get("error")
        yield Entry(
            where,
            row,
            check_text(row, "example_id", where),
            {} if error else scores,
            repeat=name_of(row.get("repetition_number", 1)),
            failure=str(error or ""),
            answer=answer_of(row.get("output")),
        )


def _free(name: str, scores: dict[str, float]) -> str:
    """Return the name of a metric, made unique among the names in ``scores``.

    If another annotator has used the name, a number is added to it, as in ``quality (2)``.
    """
    names = (name if number == 1 else f"{name} ({number})" for number in count(1))
    return next(each for each in names if each not in scores)
