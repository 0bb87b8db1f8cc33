"""Options of the commands that read scores computed by other tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from mirage.cli._shell import option
from mirage.errors import MirageError

Fields = Annotated[
    list[str] | None,
    option(
        "FIELD=NAME",
        "Read FIELD from the key NAME, such as cluster=metadata.document; may be repeated. FIELD "
        "is item, system, cluster or repeat, and in a table also score (may be repeated), metric, "
        "error or answer.",
        "--field",
    ),
]
Format = Annotated[
    str | None,
    option(
        "NAME",
        "Format of the files: inspect_ai, lm_eval, ragas, deepeval, promptfoo, pydantic_evals, "
        "phoenix, langfuse, trulens, otel or table (CSV, JSON, JSON Lines or Parquet).  [default: "
        "detected from their content]",
        "--format",
        show_default=False,
    ),
]
Metrics = Annotated[
    list[str] | None,
    option("NAME", "Metric to use; may be repeated.  [default: all]", "--metric"),
]
Lower = Annotated[
    list[str] | None,
    option(
        "NAME",
        "Metric for which lower values are better; may be repeated. Not needed for common "
        "metrics, whose direction Mirage knows.",
        "--lower-is-better",
    ),
]
Higher = Annotated[
    list[str] | None,
    option(
        "NAME",
        "Metric for which higher values are better (the default for most metrics that Mirage does "
        "not know); may be repeated.",
        "--higher-is-better",
    ),
]
Scale = Annotated[
    list[str] | None,
    option(
        "NAME=LOW:HIGH",
        "Lowest and highest possible score of a metric, such as quality=1:5; may be repeated. The "
        "range of Mirage's features is known.  [default: 0:1 if all scores are in this range, but "
        "not for metrics such as latency or cost]",
        "--scale",
        show_default=False,
    ),
]


def score_fields(texts: Iterable[str] | None) -> dict[str, list[str]]:
    """Parse the values of ``--field``; return, for each field, its names in the file.

    Only ``score`` may have several names.
    """
    fields: dict[str, list[str]] = {}
    for text in texts or ():
        field, equals, name = text.partition("=")
        if not (field and equals and name):
            raise MirageError(f"--field {text}: expected FIELD=NAME, such as item=question_id")
        if field in fields and field != "score":
            raise MirageError(f"--field {field} is given twice; only --field score may be repeated")
        fields.setdefault(field, []).append(name)
    return fields


def score_scales(texts: Iterable[str] | None) -> dict[str, tuple[float, float]]:
    """Parse the values of ``--scale``; return the lowest and highest score of each metric."""
    scales = {}
    for text in texts or ():
        name, _, ends = text.rpartition("=")
        low, colon, high = ends.partition(":")
        try:
            scales[name] = (float(low), float(high))
        except ValueError:
            colon = ""
        if not (name and colon):
            raise MirageError(f"--scale {text}: expected NAME=LOW:HIGH, such as quality=1:5")
    return scales
