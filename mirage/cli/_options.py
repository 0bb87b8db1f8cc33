"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli._shell import argument, flag, option

# Input --------------------------------------------------------------------------------------------


def complete_language(start: str) -> list[str]:
    """Return the codes that a shell may complete."""
    from mirage.languages import LANGUAGES

    return [code for code in LANGUAGES if code.startswith(start)]


def complete_feature(start: str) -> list[str]:
    """Return the names of features that a shell may complete."""
    from mirage.features.registry import DEFINITIONS

    return [name for name in DEFINITIONS if name.startswith(start)]


Language = Annotated[
    str | None,
    option(
        "CODE",
        "Language of the queries, such as sw (ISO 639-1).  [default: that of the dataset]",
        autocompletion=complete_language,
        show_default=False,
    ),
]
Responses = Annotated[
    list[str],
    argument(
        "RESPONSES",
        'JSON Lines {"query_id": ..., "text": ...}, one file per model: FILE or NAME=FILE; - is '
        "standard input. The default name is the file's.",
    ),
]
OneResponses = Annotated[
    str,
    argument(
        "RESPONSES",
        'JSON Lines {"query_id": ..., "text": ...}: FILE or NAME=FILE; - is standard input.',
    ),
]
Dataset = Annotated[
    Path | None,
    option("FILE", "Queries as JSON Lines.  [default: the bundled queries of the language]"),
]
Cluster = Annotated[
    str | None,
    option(
        "KEY",
        "Queries with an equal value of this key of their metadata, such as a document, form a "
        "cluster.  [default: the cluster that a query names, if any]",
        show_default=False,
    ),
]
Features = Annotated[
    list[str] | None,
    option(
        "NAME",
        "A feature; may be repeated.  [default: the offline features]",
        autocompletion=complete_feature,
        show_default=False,
    ),
]
AllowFailed = Annotated[
    int, option("N", "Failed queries that a model may have without falling short.", min=0)
]

# Logs ---------------------------------------------------------------------------------------------

Fields = Annotated[
    list[str] | None,
    option(
        "FIELD=NAME",
        "The log's name of a field, such as question=input.text; may be repeated. Fields: "
        "question, passages, answer, error, id, time, model, cluster, session.",
        "--field",
    ),
]
LogCluster = Annotated[
    str | None,
    option(
        "FIELD",
        "Lines with an equal value of this field form a cluster.  [default: sessions, and equal "
        "questions]",
        "--cluster",
        show_default=False,
    ),
]

# Retrieval ----------------------------------------------------------------------------------------

Index = Annotated[Path, argument("INDEX", "A folder that `mirage index` wrote.")]
Queries = Annotated[
    str,
    argument(
        "QUERIES",
        "Queries as JSON Lines, TREC topics (lines id<TAB>text, .tsv), or a language code for the "
        "bundled ones.",
    ),
]
RunFile = Annotated[
    Path | None,
    option(
        "FILE", "The TREC run file to write; .gz compresses.  [default: standard output]", "--out"
    ),
]

# Running ------------------------------------------------------------------------------------------

Jobs = Annotated[int, option("N", "Processes; -1 means one per core.")]
Seed = Annotated[int, option("N", "Random seed.")]
Trust = Annotated[bool, flag("Load a surrogate that does not ship with mirage.", "--trust")]
TrustKeys = Annotated[
    bool,
    flag("Send API keys to the addresses that the file names. Trust the file first.", "--trust"),
]
DryRun = Annotated[
    bool, flag("Print the estimate of calls, tokens and cost, and stop.", "--dry-run")
]
BothOrders = Annotated[
    bool, flag("Ask the judge twice, with each response first once.", "--both-orders")
]

# Output -------------------------------------------------------------------------------------------

Json = Annotated[bool, flag("Print JSON.", "--json")]
Page = Annotated[Path | None, option("FILE", "Also write the ranking as an HTML page.", "--report")]
Growing = Annotated[
    Path | None,
    option(
        "FILE",
        "Append results to this file as they arrive; the same command resumes.  [default: "
        "standard output]",
        "--out",
        show_default=False,
    ),
]
History = Annotated[
    Path | None,
    option(
        "FILE",
        "Add this run to a history, for `mirage history`. The commit is MIRAGE_COMMIT, or that of "
        "the CI job or of git.",
    ),
]

# LLMs ---------------------------------------------------------------------------------------------

Model = Annotated[str | None, option("NAME", "The LLM.")]
BaseUrl = Annotated[
    list[str] | None,
    option(
        "URL",
        "An OpenAI-compatible endpoint, such as http://localhost:8000/v1; repeat it to share the "
        "work among servers.  [default: OPENAI_BASE_URL, or OpenAI]",
    ),
]
Llm = Annotated[
    list[str] | None,
    option(
        "NAME=VALUE",
        "A setting of the LLM; may be repeated: key_from=VARIABLE (with the API key; "
        "OPENAI_API_KEY if --base-url is absent), max_tokens=N, temperature=T, concurrency=N, "
        "price=IN,OUT (of a million tokens), cache=no.",
    ),
]
Budget = Annotated[
    list[str] | None,
    option("KIND=NUMBER", "Stop at calls=N, tokens=N or cost=N; may be repeated."),
]
