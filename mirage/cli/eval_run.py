"""mirage eval-run: measure a retrieval run."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import file_of, is_language
from mirage.cli._output import out_either
from mirage.cli._scores import ends
from mirage.cli._shell import app, argument, example, option
from mirage.errors import UnknownNameError

if TYPE_CHECKING:
    from mirage.retrieval.evaluation import RetrievalDifference, RetrievalEvaluation

LEVELS = ("passage", "document")


@app.command(
    name="eval-run",
    epilog=example(
        "mirage eval-run bm25.trec qrels.txt",
        "mirage eval-run bm25.trec questions.jsonl --measure R@5 --level document",
        "mirage eval-run bm25.trec qrels.txt --compare dense.trec",
    ),
)
def eval_run(
    run: options.Run,
    qrels: Annotated[
        str,
        argument(
            "QRELS",
            "Relevance judgments: TREC qrels, queries with relevant passages as JSON Lines, or a "
            "language code, which selects the bundled queries.",
        ),
    ],
    measure: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Measure to compute, named as in the package ir_measures; may be repeated.  [default: "
            "nDCG@10, R@10, RR@10, P@1]",
        ),
    ] = None,
    level: Annotated[
        str,
        option(
            "LEVEL",
            "Unit of evaluation: passage or document. A document has the rank of its best passage.",
        ),
    ] = "passage",
    compare: Annotated[
        Path | None,
        option(
            "FILE",
            "Another TREC run. Also test whether its measures differ from those of RUN. To "
            "compare scores that other tools computed, use `mirage compare`.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure a retrieval run against relevance judgments.

    Prints the mean of each measure with a 95 % confidence interval; --json also prints the value of
    each query. A query that is missing from the run counts as 0. A query without a relevant passage
    is left out. Requires mirage-rag[retrieval].
    """
    from mirage.retrieval import RetrievalRun, evaluate
    from mirage.retrieval.evaluation import MEASURES

    if level not in LEVELS:
        raise UnknownNameError("level", level, LEVELS)
    relevance = _relevance(qrels)
    evaluations = [
        evaluate(
            RetrievalRun.read(file_of(path)),
            relevance,
            measure or MEASURES,
            documents=level == "document",
        )
        for path in (run, compare)
        if path is not None
    ]
    if compare is not None and evaluations[0].name == evaluations[1].name:
        names = run.name, compare.name
        evaluations = [replace(e, name=name) for e, name in zip(evaluations, names, strict=True)]
    parts = list(map(str, evaluations))
    plain: dict[str, Any] = {"runs": list(map(_plain, evaluations))}
    if compare is not None:
        differences = evaluations[0].compare(evaluations[1])
        parts.append(_differences(evaluations[0], evaluations[1], differences))
        plain["differences"] = [
            asdict(row) | {"no_interval": _no_interval(row)} for row in differences
        ]
    out_either("\n\n".join(parts), plain, as_json)


def _relevance(source: str) -> Any:
    from mirage.dataset import MirageDataset

    if is_language(source):
        return MirageDataset.bundled(source)
    path = file_of(Path(source))
    return MirageDataset.load(path) if ".jsonl" in path.suffixes[-2:] else path


def _differences(
    measured: RetrievalEvaluation, other: RetrievalEvaluation, rows: list[RetrievalDifference]
) -> str:
    from mirage._base.tables import Table, no_interval_notes, to_text

    cells = tuple(
        (
            row.measure,
            row.cells[0],
            ends(*row.interval),
            f"{row.p:.4f}",
            f"{row.corrected:.4f}",
        )
        for row in rows
    )
    header = ("measure", "difference", "95 % interval", "p", "Holm")
    title = f"{measured.name} less {other.name}: {rows[0].n} queries"
    notes = [
        "p: paired permutation test, and larger if rare large differences that these queries lack "
        "could outweigh the difference; Holm: corrected for the measures."
    ]
    reasons = {row.measure: why for row in rows if (why := _no_interval(row))}
    notes += no_interval_notes(reasons, [row.measure for row in rows])
    return to_text(Table(title, header, cells, notes=tuple(notes), name=0).filled())


def _no_interval(row: RetrievalDifference) -> str:
    """Return the reason why a difference has no interval; empty if it has one."""
    if row.interval[0] == row.interval[0]:
        return ""
    return "fewer than 10 clusters of queries, or too few differ"


def _plain(measured: RetrievalEvaluation) -> dict[str, Any]:
    import numpy as np

    from mirage.statistics.clusters import cluster_codes, no_interval_reasons

    codes = cluster_codes(measured.query_ids, measured.clusters)
    ends = np.array([row.interval for row in measured])
    reasons = no_interval_reasons(measured.measures, measured.values, codes, ends)
    return {
        "run": measured.name,
        "level": LEVELS[measured.documents],
        "measures": [
            row._asdict() | {"no_interval": reasons.get(row.measure, "")} for row in measured
        ],
        "absent": measured.absent,
        "queries": {
            query_id: dict(zip(measured.measures, row, strict=True))
            for query_id, row in zip(measured.query_ids, measured.values.tolist(), strict=True)
        },
    }
