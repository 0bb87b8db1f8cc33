"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# What is asked and answered -----------------------------------------------------------------------

Language = Annotated[str, typer.Argument(metavar="LANGUAGE", help="ISO 639-1 code, such as sw.")]
Responses = Annotated[
    list[Path],
    typer.Argument(
        metavar="RESPONSES",
        help='JSON Lines {"query_id": ..., "text": ...}, a file a model; - is standard input.',
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="What to call a model, once a file in their order.  [default: the file's name]",
    ),
]
Dataset = Annotated[
    Path | None,
    typer.Option(
        "--dataset", metavar="FILE", help="Queries as JSON Lines.  [default: the bundled ones]"
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="NAME",
        help="A feature; may be repeated.  [default: the eight that need no model]",
    ),
]
AllowFailed = Annotated[
    int,
    typer.Option(
        "--allow-failed", metavar="N", min=0, help="Queries that a model may fail on before that."
    ),
]

# What is done -------------------------------------------------------------------------------------

Jobs = Annotated[
    int, typer.Option("--jobs", metavar="N", help="Processes to use; -1 is one a core.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Of everything random.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Read a surrogate that no manifest names; such a file can run code."
    ),
]
Validate = Annotated[
    bool, typer.Option("--validate", help="Also predict models that are held out.")
]

# What is printed ----------------------------------------------------------------------------------

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
SummaryJson = Annotated[bool, typer.Option("--json", help="With --out: print a summary as JSON.")]
Page = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE", help="Also write the ranking, and all about it, as HTML."
    ),
]
Growing = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Append to this file what comes, as it comes; the same command goes on from it.  "
        "[default: standard output]",
    ),
]

# Endpoints ----------------------------------------------------------------------------------------

BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="An endpoint that speaks OpenAI's protocol, such as http://localhost:8000/v1.  "
        "[default: OPENAI_BASE_URL, or OpenAI]",
    ),
]
KeyFrom = Annotated[
    str | None,
    typer.Option(
        "--key-from",
        metavar="VARIABLE",
        help="The environment variable with the key.  [default: OPENAI_API_KEY without "
        "--base-url, none with it]",
    ),
]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", metavar="N", min=1, help="The longest answer, in tokens.")
]
Temperature = Annotated[
    float, typer.Option("--temperature", metavar="T", help="Sampling temperature.")
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", metavar="N", min=1, help="Calls under way at a time.")
]
Budget = Annotated[
    list[str] | None,
    typer.Option(
        "--budget",
        metavar="WHAT=NUMBER",
        help="Spend no more than calls=N, tokens=N or cost=N; may be repeated.",
    ),
]
Price = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="IN,OUT",
        help="What a million tokens cost, of input and of output.",
    ),
]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="Keep answers on disk, so that none is paid for twice; `mirage doctor` says where.",
    ),
]
