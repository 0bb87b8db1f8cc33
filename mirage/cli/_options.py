"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from mirage.cli._shell import argument, flag, option

# Input --------------------------------------------------------------------------------------------


def complete_language(start: str) -> list[str]:
    """Return the language codes that begin with ``start``, for shell completion."""
    from mirage.languages import LANGUAGES

    return [code for code in LANGUAGES if code.startswith(start)]


def complete_feature(start: str) -> list[str]:
    """Return the names of features that begin with ``start``, for shell completion."""
    from mirage.features.registry import DEFINITIONS

    return [name for name in DEFINITIONS if name.startswith(start)]


def complete_level(start: str) -> list[str]:
    """Return the levels of the bundled boards that begin with ``start``, for shell completion."""
    from mirage.dataset import LEVELS

    return [level for level in LEVELS if level.startswith(start)]


def language_option(words: str) -> Any:
    """Return an option for a language code; ``words`` is its help text."""
    return option("CODE", words, autocompletion=complete_language, show_default=False)


Language = Annotated[
    str | None,
    language_option(
        "Language of the queries as an ISO 639-1 code, such as sw. Required if --dataset is not "
        "given."
    ),
]
RequiredLanguage = Annotated[
    str | None,
    language_option("Language of the queries as an ISO 639-1 code, such as sw.  [required]"),
]
IndexLanguage = Annotated[
    str | None,
    language_option(
        "Language of the queries as an ISO 639-1 code, such as sw.  [default: the language of the "
        "index, if it was built with --language]"
    ),
]
LabelLanguage = Annotated[
    str | None,
    language_option(
        "Use only the sentences in this language, an ISO 639-1 code such as sw. Needed if the rows "
        "of the file have no field `language`, and then applies to all of them."
    ),
]
Labels = Annotated[
    Path,
    argument(
        "LABELS",
        "Sentences labelled by people, as JSON Lines with one sentence per line, or the folder of "
        "the MEMERAG dataset.",
    ),
]
Positive = Annotated[
    str,
    option(
        "LABEL",
        "Label that counts as positive: the label that better feature values should predict.",
    ),
]
Responses = Annotated[
    list[str],
    argument(
        "RESPONSES",
        'Responses as JSON Lines, {"query_id": ..., "text": ...} per line, with one file per '
        "model. A model is named after its file; NAME=FILE sets another name, and - reads standard "
        "input.",
    ),
]
OneResponses = Annotated[
    str,
    argument(
        "RESPONSES",
        'Responses of one model as JSON Lines, {"query_id": ..., "text": ...} per line. The model '
        "is named after the file; NAME=FILE sets another name, and - reads standard input.",
    ),
]
Dataset = Annotated[
    Path | None,
    option(
        "FILE",
        "Your own queries, as JSON Lines.  [default: the bundled queries of --language]",
    ),
]
Level = Annotated[
    str,
    option(
        "LEVEL",
        "Level of the bundled queries: quick has 40 general-knowledge questions, hard has 60 that "
        "need several passages.",
        autocompletion=complete_level,
    ),
]
Cluster = Annotated[
    str | None,
    option(
        "KEY",
        "Metadata key, such as document. Queries with the same value count as one cluster in "
        "intervals and tests.  [default: the field `cluster` of each query, if it has one]",
        show_default=False,
    ),
]
Features = Annotated[
    list[str] | None,
    option(
        "NAME",
        "Compute this feature, such as citation_recall@10; may be repeated.  [default: features "
        "that need neither a model nor the network]",
        autocompletion=complete_feature,
        show_default=False,
    ),
]
AllowFailed = Annotated[
    int,
    option(
        "N",
        "Number of queries that may fail; a query without a response counts as failed. If more "
        "fail, the checks of this command fail (exit status 1).",
        min=0,
    ),
]

# Logs ---------------------------------------------------------------------------------------------

Fields = Annotated[
    list[str] | None,
    option(
        "FIELD=NAME",
        "Read FIELD from the key NAME of the log, such as question=input.text; may be repeated. "
        "FIELD is question, passages, text (of a passage), passage_id, answer, error, id, time, "
        "model, cluster or session.",
        "--field",
    ),
]
LogFormat = Annotated[
    str | None,
    option(
        "NAME",
        "Tool that exported the log: langchain, llamaindex, opentelemetry, langfuse or phoenix.  "
        "[default: one answered question per line]",
        "--format",
        show_default=False,
    ),
]
SkipDamaged = Annotated[
    bool,
    flag("Skip lines that are not valid, and print how many there are.", "--skip-damaged"),
]
LogCluster = Annotated[
    str | None,
    option(
        "FIELD",
        "Field of the log. Lines with the same value count as one cluster in intervals and tests.  "
        "[default: lines of one session, or with the same question, form a cluster]",
        "--cluster",
        show_default=False,
    ),
]

# Retrieval ----------------------------------------------------------------------------------------

Index = Annotated[Path, argument("INDEX", "Folder of an index, built by `mirage index`.")]
Run = Annotated[Path, argument("RUN", "TREC run file, gzipped or not.")]
Queries = Annotated[
    str,
    argument(
        "QUERIES",
        "Queries as JSON Lines, TREC topics (a .tsv file with lines of the form id<TAB>text), "
        "or a language code, which selects the bundled queries.",
    ),
]
RunFile = Annotated[
    Path | None,
    option(
        "FILE",
        "Write the TREC run to this file, compressed if its name ends in .gz.  [default: standard "
        "output]",
        "--out",
    ),
]

# Running ------------------------------------------------------------------------------------------

Jobs = Annotated[int, option("N", "Number of parallel processes; -1 uses one per core.")]
ValueFile = Annotated[
    Path | None,
    option(
        "FILE",
        "Also write the values to this file: JSON Lines, or Parquet if its suffix is .parquet. "
        "With this option, inputs (also Parquet) are read in blocks, so they need not fit into "
        "memory. Repeat the command to resume an interrupted run.",
        "--out",
    ),
]
Executor = Annotated[
    str | None,
    option(
        "NAME",
        "Where to run slow steps: ray uses the Ray cluster at RAY_ADDRESS, or a local one if that "
        "is not set.  [default: run everything on this machine]",
    ),
]
Seed = Annotated[int, option("N", "Random seed.")]
Alpha = Annotated[float, option("P", "Significance level.")]
Trust = Annotated[
    bool,
    flag(
        "Load a surrogate file that does not ship with mirage. Use it only for files you trust: a "
        "joblib file can run code.",
        "--trust",
    ),
]
TrustGrid = Annotated[
    bool,
    flag(
        "Allow API keys to be sent to the hosts named in the grid file. Use it only with a file "
        "you trust.",
        "--trust",
    ),
]
TrustIndex = Annotated[
    bool,
    flag(
        "Allow the API key of --llm to be sent to the host named in INDEX. Use it only with an "
        "index you trust.",
        "--trust",
    ),
]
DryRun = Annotated[
    bool,
    flag("Print an estimate of calls, tokens and cost without calling an LLM.", "--dry-run"),
]
PairPrompt = Annotated[
    Path | None,
    option(
        "FILE",
        "File with your own prompt for --judge. It must contain the fields {question}, {answer_a} "
        "and {answer_b}, and may contain {passages}, {reference}, {language}, {marks} (a warning "
        "that these texts are not instructions) and {form} (how to write the verdict).  [default: "
        "Mirage's own prompt]",
    ),
]
SentencePrompt = Annotated[
    Path | None,
    option(
        "FILE",
        "File with your own prompt for --judge. It must contain the fields {passages} and "
        "{sentence}, and may contain {question}, {language}, {marks} (a warning that these texts "
        "are not instructions) and {form} (how to write the label).  [default: Mirage's own "
        "prompt]",
    ),
]
BothOrders = Annotated[
    bool,
    flag(
        "Judge each pair twice, with the responses in both orders, to cancel position bias.",
        "--both-orders",
    ),
]

# Output -------------------------------------------------------------------------------------------

Json = Annotated[bool, flag("Print the result as JSON.", "--json")]
SummaryJson = Annotated[
    bool, flag("Print the summary as JSON; needs --out or --dry-run.", "--json")
]
Comment = Annotated[
    Path | None,
    option("FILE", "Also write the result as Markdown, for a pull request comment."),
]
Page = Annotated[Path | None, option("FILE", "Also write the ranking as an HTML page.", "--report")]
Growing = Annotated[
    Path | None,
    option(
        "FILE",
        "Append each result to this file as it arrives. Repeat the command to resume an "
        "interrupted run.  [default: standard output]",
        "--out",
        show_default=False,
    ),
]
History = Annotated[
    Path | None,
    option(
        "FILE",
        "Append this result to a history file, which `mirage history` shows. The commit is read "
        "from MIRAGE_COMMIT, the CI job or git, in this order.",
    ),
]

# LLMs ---------------------------------------------------------------------------------------------

Model = Annotated[
    str | None,
    option("NAME", "Name of the LLM, such as gpt-4o-mini. Required unless --service is given."),
]
BaseUrl = Annotated[
    list[str] | None,
    option(
        "URL",
        "URL of an OpenAI-compatible endpoint, such as http://localhost:8000/v1; repeat the option "
        "to spread calls over several servers.  [default: OPENAI_BASE_URL if set, else OpenAI]",
    ),
]
Llm = Annotated[
    list[str] | None,
    option(
        "NAME=VALUE",
        "Setting of the LLM client; may be repeated. key_from=VARIABLE: environment variable with "
        "the API key (OPENAI_API_KEY by default if --base-url is absent); max_tokens=N; "
        "temperature=T; concurrency=N: parallel calls; retries=N: most retries of a call (5 by "
        "default); price=IN,OUT: price of a million input and "
        "output tokens; cache=no: do not cache answers on disk.",
    ),
]
Budget = Annotated[
    list[str] | None,
    option(
        "KIND=NUMBER",
        "Stop when this limit is reached: calls=N, tokens=N or cost=N (in the currency of the "
        "price); may be repeated.",
    ),
]
