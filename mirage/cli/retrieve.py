"""mirage retrieve: passages of an index for each query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._indexes import asking, corpus_of, default_kind, retriever_of
from mirage.cli._inputs import check_folder, queries_of
from mirage.cli._output import out_record, summarise
from mirage.cli._shell import app, example, option

__all__ = ["retrieve"]


@app.command(
    epilog=example(
        "mirage retrieve handbook.index questions.jsonl --out bm25.trec",
        "mirage retrieve wiki.index topics.tsv -k 100 --language sw --out bm25.trec.gz",
        "mirage retrieve wiki.index topics.tsv --by bm25 --by dense --out hybrid.trec",
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
    by: Annotated[
        list[str] | None,
        option(
            "KIND",
            "bm25, dense or sparse; may be repeated, and is fused then by reciprocal rank. "
            " [default: dense or sparse where the index has it, else bm25]",
        ),
    ] = None,
    language: options.OfQueries = None,
    key_from: options.KeyFrom = None,
    trust: options.TrustKeys = False,
    concurrency: options.Concurrency = 8,
    budget: options.Budget = None,
    price: options.Price = None,
    cache: options.Cache = True,
    as_json: options.SummaryJson = False,
) -> None:
    """Find the best passages of an index, as a TREC run file.

    A query without hits has no line: `mirage eval-run` counts it 0 by the qrels.
    """
    corpus = corpus_of(index)
    asked = queries_of(queries, language or corpus.language)
    check_folder(file)
    ask = asking(
        key_from, trust=trust, budget=budget, price=price, concurrency=concurrency, cache=cache
    )
    retriever = retriever_of(index, corpus, by or [default_kind(index)], ask)
    run = retriever.retrieve(asked, k)
    without = [query_id for query_id, hits in run.items() if not hits.passage_ids]
    if file is None:
        for line in run.lines():
            out_record(line)
    else:
        run.write(file)
    text = f"{run.name}: {len(run)} queries, up to {k} passages each, {len(without)} without a hit"
    plain = {"by": run.name, "queries": len(run), "k": k, "without_hits": without}
    summarise(text, plain, file, as_json)
