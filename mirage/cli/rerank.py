"""mirage rerank: rerank the passages of a retrieval run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._indexes import Model, client_maker, corpus_of, dense_of
from mirage.cli._inputs import check_folder, file_of, queries_of, require_language
from mirage.cli._llms import LLMSettings, naming_models
from mirage.cli._output import out_record, say
from mirage.cli._shell import app, example, option
from mirage.errors import DatasetError, MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.llm import LLM
    from mirage.retrieval import Reranker

KINDS = ("cross-encoder", "dense", "jina", "tei", "llm")


@app.command(
    epilog=example(
        "mirage rerank bm25.trec wiki.index questions.jsonl --out reranked.trec",
        "mirage rerank bm25.trec wiki.index sw --kind jina --model bge-reranker-v2-m3 "
        "--base-url http://localhost:8000 --out reranked.trec",
    )
)
def rerank(
    run: options.Run,
    index: options.Index,
    queries: options.Queries,
    file: options.RunFile = None,
    depth: Annotated[
        int, option("N", "Passages to rerank per query; later ones are dropped.", min=1)
    ] = 50,
    kind: Annotated[
        str,
        option(
            "KIND",
            "Kind of reranker: cross-encoder (needs mirage-rag[neural]); dense (similarity of the "
            "vectors in INDEX); jina or tei (an HTTP service with the /rerank API of Jina or of "
            "Text Embeddings Inference); or llm (an LLM that sorts lists of passages).",
        ),
    ] = "cross-encoder",
    model: Annotated[
        str | None,
        option(
            "NAME",
            "For cross-encoder, a Hugging Face name or folder; for jina, tei and llm, the name "
            "that the endpoint gives its model.  [default: the cross-encoder of MIRAGE-Bench]",
        ),
    ] = None,
    language: options.IndexLanguage = None,
    trust: options.TrustIndex = False,
    base_url: options.BaseUrl = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
) -> None:
    """Rerank the top-ranked passages of a retrieval run with a model.

    If a query cannot be reranked, its passages keep their order, and the command prints a message
    on standard error.
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
    questions = queries_of(queries, language or corpus.language)
    for question in questions[:1]:
        require_language(question.language, language, queries)
    first = RetrievalRun.read(file_of(run), query_ids=[query.id for query in questions])
    if first.keys() > {query.id for query in questions} and not any(
        first[query.id].passage_ids for query in questions
    ):
        raise DatasetError(
            f"{run}: the run ranks no passage for any query of {queries}; check that both files "
            "use the same query ids"
        )
    check_folder(file)
    settings = LLMSettings(llm, base_url, budget)
    create_client = client_maker(settings, trust=trust)
    llms: list[LLM] = []
    reranker: Reranker
    if kind == "cross-encoder":
        reranker = CrossEncoderReranker(model)
    elif kind == "dense":
        reranker = dense_of(index, corpus, create_client)
    elif model is None:
        raise MirageError(
            f"--kind {kind} needs --model NAME, the name of the model at the endpoint"
        )
    else:
        llms = [create_client(Model(model, base_url))]
        if kind == "llm":
            reranker = LLMReranker(llms[0])
        else:
            reranker = EndpointReranker(llms[0], form="tei" if kind == "tei" else "jina")
    with naming_models(llms, settings):
        reranked = reranker.rerank(first, corpus, questions, depth)
    if file is None:
        for line in reranked.lines():
            out_record(line)
    else:
        reranked.write(file)
    unchanged = len(getattr(reranker, "failures", ()))
    say(f"{len(reranked)} queries, {unchanged} of which keep their order")
