"""inspect_ai: ``.eval`` and ``.json`` logs, and ``EvalLog``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mirage._base.rows import is_missing
from mirage.errors import DatasetError
from mirage.scores._archives import members
from mirage.scores._content import Content
from mirage.scores.records import (
    Entry,
    ScoreFile,
    answer_of,
    check_list,
    check_object,
    finish,
    name_of,
    score_of,
)


def recognises(content: Content) -> bool:
    """Return whether the content is an inspect_ai log."""
    if content.archive is not None:
        return True
    document = content.document or {}
    return "eval" in document and "samples" in document


def read(content: Content) -> ScoreFile:
    """Read the scores; a sample's id identifies the item, and its epoch identifies the repeat.

    A scorer that returns several values gives one metric for each of them.

    Raises:
        DatasetError: If the log or a sample is not valid.
    """
    if content.archive is None:
        header = content.document or {}
        samples = check_list(header["samples"] or [], content.source, "samples")
    else:
        header, samples = _unpack(content.archive)
    about = check_object(header.get("eval"), content.source, "eval")
    model = about.get("model")
    return finish(content.source, "inspect_ai", _entries(samples, content.source, str(model or "")))


def _unpack(path: Path) -> tuple[Mapping[str, Any], list[Any]]:
    header: Mapping[str, Any] | None = None
    samples = []
    for name, data in members(path):
        if name == "header.json":
            header = check_object(_parse(path, name, data), str(path), name)
        elif name.startswith("samples/") and name.endswith(".json"):
            samples.append(_parse(path, name, data))
    if header is None:
        raise DatasetError(
            f"{path}: header.json is missing, so the file is not a log of inspect_ai, or the run "
            "did not finish"
        )
    return header, samples


def _parse(path: Path, name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: {name} is not JSON ({error})") from None


def _entries(samples: Any, source: str, model: str) -> Iterator[Entry]:
    for number, value in enumerate(samples, 1):
        where = f"{source}, sample {number}"
        sample = check_object(value, where, "a sample")
        if is_missing(sample.get("id")):
            raise DatasetError(f"{where}: the sample has no id")
        scores: dict[str, float] = {}
        for name, score in check_object(sample.get("scores") or {}, where, "scores").items():
            entry = check_object(score, where, f"the score {name!r}")
            if "value" not in entry:
                raise DatasetError(f"{where}: the score {name!r} has no value")
            scores |= _values(name, entry["value"], where)
        error = sample.get("error")
        message = error.get("message") if isinstance(error, Mapping) else error
        output = sample.get("output")
        answer = output.get("completion") if isinstance(output, Mapping) else None
        yield Entry(
            where,
            sample,
            name_of(sample["id"]),
            {} if error else scores,
            system=model,
            repeat=name_of(sample.get("epoch", 1)),
            failure=str(message or "the sample failed") if error else "",
            answer=answer_of(answer),
        )


def _values(name: str, value: Any, where: str) -> dict[str, float]:
    """Return the values of the scorer ``name``, by name of the metric.

    ``value`` may be a single value, a list of values, or a mapping with several values.
    """
    if isinstance(value, Mapping):
        return {f"{name}/{key}": score_of(each, where, key) for key, each in value.items()}
    if isinstance(value, list):
        return {f"{name}/{i}": score_of(each, where, name) for i, each in enumerate(value)}
    return {name: score_of(value, where, name)}
