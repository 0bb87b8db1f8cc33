"""mirage generate: responses of an LLM or a service to queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, dataset_of
from mirage.cli._llms import LLMSettings, naming_models
from mirage.cli._output import print_records, say, summarise
from mirage.cli._shell import app, example, fall_short, keeping, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.generation import Generator
    from mirage.llm import LLM


@app.command(
    epilog=example(
        "mirage generate --language sw --model gpt-4o-mini --out gpt-4o-mini.jsonl",
        "mirage generate --language sw --model gpt-4o-mini --repeats 3 --out gpt-4o-mini.jsonl",
        "mirage generate --language sw --model llama3.2 --base-url http://localhost:11434/v1",
        "mirage generate --language sw --service http://localhost:8080/ask --answer result.text",
    )
)
def generate(
    language: options.Language = None,
    model: options.Model = None,
    service: Annotated[
        str | None,
        option(
            "URL",
            "Ask this HTTP service instead of an LLM. It receives a POST request with the JSON "
            "object {query, language, passages}, and must return JSON; --answer gives the path to "
            "the answer in this JSON.",
        ),
    ] = None,
    answer: Annotated[
        str,
        option(
            "KEYS",
            "With --service: path to the answer's text in the returned JSON, such as "
            "choices.0.text.",
        ),
    ] = "answer",
    repeats: Annotated[
        int,
        option(
            "N",
            "Number of responses to request for each query. Repeats show how stable the model is, "
            "and later commands use all of them.",
            min=1,
        ),
    ] = 1,
    file: options.Growing = None,
    dataset: options.Dataset = None,
    level: options.Level = "quick",
    base_url: options.BaseUrl = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
) -> None:
    """Ask an LLM or your own service to answer queries.

    Failed calls are retried. The exit status is 1 if a query still has no answer; repeat the
    command to ask only these queries again. Use another --out FILE for each model and setting:
    FILE.settings records them and the questions, and answers of others are not reused.
    """
    from mirage.generation import respond

    queries = dataset_of(language, dataset, level=level)
    settings = LLMSettings(llm, base_url, budget)
    generator, llms = _generator(settings, model, service, answer)
    check_folder(file)
    is_cached = settings.cache and service is None
    if file is None and not is_cached:
        say("an interrupted run loses its answers; --out FILE keeps each as it arrives", "note:")
    with keeping(file, cached=is_cached), naming_models(llms, settings):
        run = respond(generator, queries, repeats=repeats, out=file)
    if file is None:
        print_records(run.responses)
    times = f", {repeats} times each" if repeats > 1 else ""
    failed = len(run.failed)
    summarise(f"{run.model}: {len(run) - failed} of {len(run)} queries answered{times}", file)
    fall_short([f"{failed} of {len(run)} queries have no answer"] if failed else [])


def _generator(
    settings: LLMSettings, model: str | None, service: str | None, answer: str
) -> tuple[Generator, list[LLM]]:
    """Return the generator, and the LLMs that it asks."""
    if service is None and model is not None:
        from mirage.generation import OpenAIGenerator

        llm = settings.llm(model)
        return OpenAIGenerator(llm), [llm]
    if service is None or model is not None:
        raise MirageError("give either --model NAME (an LLM) or --service URL, and not both")
    from mirage.generation import HTTPGenerator

    key = settings.key()
    headers = None if key is None else {"Authorization": f"Bearer {key}"}
    generator = HTTPGenerator(
        service,
        response=answer,
        headers=headers,
        concurrency=settings.concurrency,
        retries=settings.retries,
    )
    return generator, []
