"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli._shell import argument, flag, option

# What is asked and answered -----------------------------------------------------------------------

Language = Annotated[str, argument("LANGUAGE", "ISO 639-1 code, such as sw.")]
Responses = Annotated[
    list[Path],
    argument(
        "RESPONSES",
        'JSON Lines {"query_id": ..., "text": ...}, a file a model, or a log with questions, '
        "passages and answers; - is standard input.",
    ),
]
Names = Annotated[
    list[str] | None,
    option("NAME", "What to call a model, once a file in their order.  [default: the file's name]"),
]
Dataset = Annotated[
    Path | None, option("FILE", "Queries as JSON Lines.  [default: the bundled ones]")
]
Cluster = Annotated[
    str | None,
    option(
        "KEY",
        "What queries hang together by, such as a document: a key of their metadata, or a field of "
        "a log.  [default: their own cluster, if they name one]",
        show_default=False,
    ),
]
Fields = Annotated[
    list[str] | None,
    option(
        "FIELD=NAME",
        "What a log calls its question, passages, answer, error, id, time, model, cluster or "
        "session, such as question=input.text; may be repeated.",
        "--field",
    ),
]
Features = Annotated[
    list[str] | None,
    option("NAME", "A feature; may be repeated.  [default: the eight that need no model]"),
]
AllowFailed = Annotated[int, option("N", "Queries that a model may fail on before that.", min=0)]

# What is retrieved --------------------------------------------------------------------------------

Index = Annotated[Path, argument("INDEX", "A folder that `mirage index` wrote.")]
Queries = Annotated[
    str,
    argument(
        "QUERIES",
        "Queries as JSON Lines, TREC topics (lines id<TAB>text, .tsv), or a language code for the "
        "bundled ones.",
    ),
]
OfQueries = Annotated[
    str | None,
    option("CODE", "Of queries that do not name theirs.  [default: that of the index]"),
]

# What is done -------------------------------------------------------------------------------------

Jobs = Annotated[int, option("N", "Processes to use; -1 is one a core.")]
Seed = Annotated[int, option("N", "Of everything random.")]
Trust = Annotated[bool, flag("Read a surrogate that is none of those that ship.", "--trust")]
TrustKeys = Annotated[
    bool,
    flag(
        "Send keys to the addresses that the file names; only for a file that you trust.",
        "--trust",
    ),
]
Validate = Annotated[bool, flag("Also predict models that are held out.", "--validate")]

# What is printed ----------------------------------------------------------------------------------

Json = Annotated[bool, flag("Print JSON, for machines.", "--json")]
SummaryJson = Annotated[bool, flag("With --out: print a summary as JSON.", "--json")]
Page = Annotated[
    Path | None, option("FILE", "Also write the ranking, and all about it, as HTML.", "--report")
]
Growing = Annotated[
    Path | None,
    option(
        "FILE",
        "Append to this file what comes, as it comes; the same command goes on from it. "
        " [default: standard output]",
        "--out",
    ),
]

# Leaderboards -------------------------------------------------------------------------------------

Official = Annotated[
    bool,
    flag(
        "Rank among the 19 LLMs of MIRAGE-Bench, on its queries (extra hub; downloads).",
        "--official",
    ),
]
Copies = Annotated[
    Path | None,
    option("FOLDER", "With --official: copies of the benchmark's datasets, in place of the hub."),
]
Surrogate = Annotated[
    Path | None, option("FILE", "With --dataset: a surrogate that `mirage surrogate train` wrote.")
]

# Endpoints ----------------------------------------------------------------------------------------

BaseUrl = Annotated[
    list[str] | None,
    option(
        "URL",
        "An endpoint that speaks OpenAI's protocol, such as http://localhost:8000/v1; repeated, "
        "servers that share the work.  [default: OPENAI_BASE_URL, or OpenAI]",
    ),
]
KeyFrom = Annotated[
    str | None,
    option(
        "VARIABLE",
        "The environment variable with the key.  [default: OPENAI_API_KEY without --base-url, "
        "none with it]",
    ),
]
MaxTokens = Annotated[int, option("N", "The longest answer, in tokens.", min=1)]
Temperature = Annotated[float, option("T", "Sampling temperature.")]
Concurrency = Annotated[int, option("N", "Calls under way at a time.", min=1)]
Budget = Annotated[
    list[str] | None,
    option("WHAT=NUMBER", "Spend no more than calls=N, tokens=N or cost=N; may be repeated."),
]
Price = Annotated[
    str | None, option("IN,OUT", "What a million tokens cost, of input and of output.")
]
Cache = Annotated[
    bool,
    flag(
        "Keep answers on disk, so that none is paid for twice; `mirage doctor` says where.",
        "--cache/--no-cache",
    ),
]
