"""mirage rerank: a retrieval run in a better order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._indexes import Model, asking, corpus_of, dense_of
from mirage.cli._inputs import check_folder, file_of, queries_of
from mirage.cli._llms import naming_models
from mirage.cli._output import out_record, summarise
from mirage.cli._shell import app, argument, example, option
from mirage.errors import DatasetError, MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.llm import LLM
    from mirage.retrieval import Reranker

__all__ = ["rerank"]

KINDS = ("cross-encoder", "dense", "jina", "tei", "llm")


@app.command(
    epilog=example(
        "mirage rerank bm25.trec wiki.index questions.jsonl --out reranked.trec",
        "mirage rerank bm25.trec wiki.index sw --kind jina --model bge-reranker-v2-m3 "
        "--base-url http://localhost:8000 --out reranked.trec",
    )
)
def rerank(
    run: Annotated[Path, argument("RUN", "A TREC run file, .gz too.")],
    index: options.Index,
    queries: options.Queries,
    file: Annotated[
        Path | None,
        option("FILE", "The run file to write, .gz too.  [default: standard output]", "--out"),
    ] = None,
    depth: Annotated[int, option("N", "Passages to rerank; others are left out.", min=1)] = 50,
    kind: Annotated[
        str,
        option(
            "KIND",
            "cross-encoder (extra neural), the vectors of a dense index, an endpoint /rerank in "
            "the form of jina or tei, or an llm that puts lists in order.",
        ),
    ] = "cross-encoder",
    model: Annotated[
        str | None,
        option(
            "NAME",
            "A cross-encoder on the hub or in a folder, or what the endpoint calls its model. "
            " [default: the cross-encoder of MIRAGE-Bench]",
        ),
    ] = None,
    base_url: options.BaseUrl = None,
    language: options.OfQueries = None,
    key_from: options.KeyFrom = None,
    trust: options.TrustKeys = False,
    max_tokens: options.MaxTokens = 1024,
    concurrency: options.Concurrency = 8,
    budget: options.Budget = None,
    price: options.Price = None,
    cache: options.Cache = True,
    as_json: options.SummaryJson = False,
) -> None:
    """Rerank the first passages of a run by a model that reads them.

    A query that no model could rerank keeps its order, which is said on standard error.
    """
    from mirage.retrieval import (
        CrossEncoderReranker,
        EndpointReranker,
        LLMReranker,
        RetrievalRun,
    )

    if kind not in KINDS:
        raise UnknownNameError("kind of reranker", kind, KINDS)
    corpus = corpus_of(index)
    asked = queries_of(queries, language or corpus.language)
    found = RetrievalRun.read(file_of(run), query_ids=[query.id for query in asked])
    if found.keys() > {query.id for query in asked} and not any(
        found[query.id].passage_ids for query in asked
    ):
        raise DatasetError(f"{run}: ranks no passage for any query of {queries}, but for others")
    check_folder(file)
    ask = asking(
        key_from,
        trust=trust,
        max_tokens=max_tokens,
        concurrency=concurrency,
        cache=cache,
        budget=budget,
        price=price,
    )
    llms: list[LLM] = []
    reranker: Reranker
    if kind == "cross-encoder":
        reranker = CrossEncoderReranker(model)
    elif kind == "dense":
        reranker = dense_of(index, corpus, ask)
    elif model is None:
        raise MirageError(f"--kind {kind} asks an endpoint: give --model, what it calls its model")
    else:
        llms = [ask(Model(model, base_url))]
        if kind == "llm":
            reranker = LLMReranker(llms[0])
        else:
            reranker = EndpointReranker(llms[0], form="tei" if kind == "tei" else "jina")
    with naming_models(llms, key_from):
        reranked = reranker.rerank(found, corpus, asked, depth)
    if file is None:
        for line in reranked.lines():
            out_record(line)
    else:
        reranked.write(file)
    kept = len(getattr(reranker, "failures", ()))
    text = f"{len(reranked)} queries, {kept} of which keep their order"
    plain = {"queries": len(reranked), "depth": depth, "kept": kept}
    summarise(text, plain, file, as_json)
