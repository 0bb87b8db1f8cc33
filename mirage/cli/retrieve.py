"""mirage retrieve: passages of an index for each query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, index_of, queries_of
from mirage.cli._output import out, summarise
from mirage.cli._shell import app, example, option

__all__ = ["retrieve"]


@app.command(
    epilog=example(
        "mirage retrieve handbook.index questions.jsonl --out bm25.trec",
        "mirage retrieve wiki.index topics.tsv -k 100 --language sw --out bm25.trec.gz",
    )
)
def retrieve(
    index: options.Index,
    queries: options.Queries,
    file: Annotated[
        Path | None,
        option("FILE", "The run file to write, .gz too.  [default: standard output]", "--out"),
    ] = None,
    k: Annotated[int, option("N", "Passages a query.", "-k", min=1)] = 50,
    language: options.OfQueries = None,
    as_json: options.SummaryJson = False,
) -> None:
    """Find the best passages of an index, as a TREC run file.

    A query without hits has no line: `mirage eval-run` counts it 0 by the qrels.
    """
    bm25 = index_of(index)
    check_folder(file)
    run = bm25.retrieve(queries_of(queries, language or bm25.language), k)
    without = [query_id for query_id, hits in run.items() if not hits.passage_ids]
    if file is None:
        for line in run.lines():
            out(line)
    else:
        run.write(file)
    text = f"{len(run)} queries, up to {k} passages each, {len(without)} without a hit"
    summarise(text, {"queries": len(run), "k": k, "without_hits": without}, file, as_json)
