"""mirage generate: responses of an LLM, or of a service, to queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, dataset_of
from mirage.cli._llms import key_in, llms_of, naming_models
from mirage.cli._output import print_records, say, summarise
from mirage.cli._shell import app, example, fall_short, keeping, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.generation import Generator
    from mirage.llm import LLM

__all__ = ["generate"]


@app.command(
    epilog=example(
        "mirage generate sw --model gpt-4o-mini --out gpt-4o-mini.jsonl",
        "mirage generate sw --model gpt-4o-mini --repeats 3 --out gpt-4o-mini.jsonl",
        "mirage generate sw --model llama3.2 --base-url http://localhost:11434/v1",
        "mirage generate sw --service http://localhost:8080/ask --answer result.text",
    )
)
def generate(
    language: options.Language,
    model: Annotated[str | None, option("NAME", "What the endpoint calls the model.")] = None,
    base_url: options.BaseUrl = None,
    service: Annotated[
        str | None,
        option(
            "URL",
            "Instead of --model: an HTTP service that gets {query, language, passages} as JSON "
            "and gives JSON.",
        ),
    ] = None,
    answer: Annotated[
        str,
        option("KEYS", "With --service: where in its JSON the text is, such as choices.0.text."),
    ] = "answer",
    name: Annotated[str | None, option("NAME", "What messages call the model.")] = None,
    repeats: Annotated[
        int, option("N", "How often to ask each query; features, gate and ranks read all.", min=1)
    ] = 1,
    file: options.Growing = None,
    dataset: options.Dataset = None,
    key_from: options.KeyFrom = None,
    max_tokens: options.MaxTokens = 1024,
    temperature: options.Temperature = 0.0,
    concurrency: options.Concurrency = 8,
    budget: options.Budget = None,
    price: options.Price = None,
    cache: options.Cache = True,
    as_json: options.SummaryJson = False,
) -> None:
    """Ask an LLM, or a service of your own, to answer queries.

    Falls short (status 1) where a query has no answer after its retries; the same command asks
    those again.
    """
    from mirage.generation import respond

    queries = dataset_of(language, dataset)
    llms: list[LLM] = []
    generator: Generator
    if service is None and model is not None:
        from mirage.generation import OpenAIGenerator

        llms = llms_of(
            [model],
            base_url,
            key_from,
            max_tokens=max_tokens,
            temperature=temperature,
            concurrency=concurrency,
            cache=cache,
            budget=budget,
            price=price,
        )
        generator = OpenAIGenerator(llms[0], name=name)
    elif service is not None and model is None:
        from mirage.generation import HTTPGenerator

        key = key_in(key_from)
        headers = None if key is None else {"Authorization": f"Bearer {key}"}
        generator = HTTPGenerator(
            service, response=answer, name=name, headers=headers, concurrency=concurrency
        )
    else:
        raise MirageError("give either --model (an LLM's name) or --service (a URL), and not both")
    check_folder(file)
    is_cached = cache and service is None
    if file is None and not is_cached:
        say("a run that is killed loses its answers; --out FILE keeps each as it comes", "note:")
    with keeping(file, cached=is_cached), naming_models(llms, key_from):
        run = respond(generator, queries, repeats=repeats, out=file)
    if file is None:
        print_records(run.responses)
    times = f", {repeats} times each" if repeats > 1 else ""
    failures = {response.query_id: response.error or "" for response in run.failed}
    counts = {"queries": len(run), "repeats": repeats, "failed": len(failures)}
    plain = {"model": run.model, **counts}
    text = f"{run.model}: {len(run) - len(failures)} of {len(run)} queries answered{times}"
    summarise(text, plain | {"failures": failures}, file, as_json)
    if failures:
        fall_short([f"{len(failures)} of {len(run)} queries have no answer"])
