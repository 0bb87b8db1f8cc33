"""mirage retrieve: the best passages of an index for each query."""

from __future__ import annotations

from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._indexes import client_maker, corpus_of, default_kind, retriever_of
from mirage.cli._inputs import check_folder, queries_of, require_language
from mirage.cli._llms import LLMSettings
from mirage.cli._output import out_record, say
from mirage.cli._shell import app, example, option


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
    file: options.RunFile = None,
    k: Annotated[int, option("N", "Number of passages to retrieve per query.", "-k", min=1)] = 50,
    by: Annotated[
        list[str] | None,
        option(
            "KIND",
            "Index to search: bm25, dense or sparse; repeat the option to fuse the results of "
            "several indexes by reciprocal rank.  [default: dense if the index has it, else "
            "sparse, else bm25]",
        ),
    ] = None,
    language: options.IndexLanguage = None,
    trust: options.TrustIndex = False,
    llm: options.Llm = None,
    budget: options.Budget = None,
) -> None:
    """Write the best passages for each query to a TREC run file.

    A query without results has no line in the file; `mirage eval-run` counts it as 0.
    """
    corpus = corpus_of(index)
    questions = queries_of(queries, language or corpus.language)
    for question in questions[:1]:
        require_language(question.language, language, queries)
    check_folder(file)
    clients = client_maker(LLMSettings(llm, None, budget), trust=trust)
    retriever = retriever_of(index, corpus, by or [default_kind(index)], clients)
    run = retriever.retrieve(questions, k)
    without = [query_id for query_id, hits in run.items() if not hits.passage_ids]
    if file is None:
        for line in run.lines():
            out_record(line)
    else:
        run.write(file)
    say(f"{run.name}: {len(run)} queries, {k} passages at most, {len(without)} without a result")
