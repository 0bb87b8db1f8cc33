"""Commands that print queries, ask models, and have an LLM judge their answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirage.cli.endpoints import naming_models
from mirage.cli.inputs import (
    DatasetOption,
    LanguageArgument,
    NamesOption,
    ResponsesArgument,
    SeedOption,
    check_folder,
    dataset_of,
    named_numbers,
    runs_of,
)
from mirage.cli.shell import (
    bad_input,
    example,
    fell_short,
    keeping,
    out,
    out_json,
    print_records,
    say,
    summarise,
)
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.generation import Generator
    from mirage.llm import LLM, Budget, Price

__all__ = ["add_to"]

BUDGETS = ("calls", "tokens", "cost")

BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="An endpoint that speaks OpenAI's protocol, such as http://localhost:8000/v1.  "
        "[default: OPENAI_BASE_URL, or OpenAI]",
        show_default=False,
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key-from",
        metavar="VARIABLE",
        help="The environment variable with the key.  [default: OPENAI_API_KEY without "
        "--base-url, none with it]",
        show_default=False,
    ),
]
MaxTokensOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="The longest answer, in tokens.")
]
TemperatureOption = Annotated[float, typer.Option(metavar="T", help="Sampling temperature.")]
ConcurrencyOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="Calls under way at a time.")
]
BudgetOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WHAT=NUMBER",
        help="Spend no more than calls=N, tokens=N or cost=N; may be repeated.",
        show_default=False,
    ),
]
PriceOption = Annotated[
    str | None,
    typer.Option(
        metavar="IN,OUT",
        help="What a million tokens cost, of input and of output.",
        show_default=False,
    ),
]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="Keep answers on disk, so that none is paid for twice; `mirage doctor` says where.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog=example("mirage queries sw > queries.jsonl"))(queries)
    app.command(
        epilog=example(
            "mirage generate sw --model gpt-4o-mini --out gpt-4o-mini.jsonl",
            "mirage generate sw --model llama3.2 --base-url http://localhost:11434/v1",
            "mirage generate sw --service http://localhost:8080/ask --answer result.text",
        )
    )(generate)
    app.command(
        epilog=example(
            "mirage judge sw a.jsonl b.jsonl --model gpt-4o --dry-run",
            "mirage judge sw a.jsonl b.jsonl --model gpt-4o --out votes.jsonl",
        )
    )(judge)


def queries(
    language: LanguageArgument,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON array, and not a line a query.")
    ] = False,
) -> None:
    """Print the bundled queries of a language as JSON Lines.

    Each has its passages, and neither its reference nor which passages are relevant.
    """
    hidden = {"reference", "relevant", "metadata"}
    asked = dataset_of(language, None)
    if as_json:
        out_json([query.model_dump(exclude=hidden) for query in asked])
        return
    for query in asked:
        out(query.model_dump_json(exclude=hidden))


def generate(
    language: LanguageArgument,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the endpoint calls the model.", show_default=False),
    ] = None,
    base_url: BaseUrlOption = None,
    service: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Instead of --model: an HTTP service that gets {query, language, passages} as "
            "JSON and gives JSON.",
            show_default=False,
        ),
    ] = None,
    answer: Annotated[
        str,
        typer.Option(
            metavar="KEYS",
            help="With --service: where in its JSON the text is, such as choices.0.text.",
        ),
    ] = "answer",
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What messages call the model.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Append responses to this file as they come; the same command goes on from it.  "
            "[default: standard output]",
            show_default=False,
        ),
    ] = None,
    dataset: DatasetOption = None,
    key_from: KeyOption = None,
    max_tokens: MaxTokensOption = 1024,
    temperature: TemperatureOption = 0.0,
    concurrency: ConcurrencyOption = 8,
    budget: BudgetOption = None,
    price: PriceOption = None,
    cache: CacheOption = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --out: print a summary as JSON.")
    ] = False,
) -> None:
    """Ask an LLM, or a service of your own, to answer queries.

    Falls short (status 1) where a query has no answer after its retries; the same command asks
    those again.
    """
    if (model is None) == (service is None):
        raise MirageError("give either --model (an LLM's name) or --service (a URL), and not both")
    asked = dataset_of(language, dataset)
    generator: Generator
    llms: list[LLM] = []
    with bad_input():
        if service is not None:
            generator = _service(service, answer, name, key_from, concurrency)
        else:
            from mirage.generation import OpenAIGenerator

            llms = [
                _llm(
                    str(model),
                    base_url,
                    key_from,
                    max_tokens=max_tokens,
                    temperature=temperature,
                    concurrency=concurrency,
                    cache=cache,
                    budget=_budget(budget),
                    price=_price(price),
                )
            ]
            generator = OpenAIGenerator(llms[0], name=name)
    check_folder(file)
    with keeping(file, cached=cache and service is None), _naming_models(llms, key_from):
        run = generator.run(asked, out=file)
    if file is None:
        print_records(run.responses)
    failures = {response.query_id: response.error or "" for response in run.failed}
    summary = {"model": run.model, "queries": len(run), "failed": len(failures)}
    summarise(
        f"{run.model}: {len(run) - len(failures)} of {len(run)} queries answered",
        {**summary, "failures": failures},
        file,
        as_json,
    )
    if failures:
        fell_short([f"{len(failures)} of {len(run)} queries have no answer"])


def judge(
    language: LanguageArgument,
    responses: ResponsesArgument,
    model: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="The judge; several make a jury.", show_default=False),
    ],
    base_url: BaseUrlOption = None,
    name: NamesOption = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Append votes to this file as they come; the same command goes on from it.  "
            "[default: standard output]",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", "--estimate", help="Say what it would take, and ask nothing."),
    ] = False,
    dataset: DatasetOption = None,
    queries: Annotated[int, typer.Option(metavar="N", min=1, help="Queries to draw.")] = 100,
    pairs: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of them on which a pair is judged.")
    ] = 1.0,
    both_orders: Annotated[
        bool, typer.Option("--both-orders", help="Ask twice, with either response first.")
    ] = False,
    seed: SeedOption = 0,
    key_from: KeyOption = None,
    max_tokens: MaxTokensOption = 1024,
    temperature: TemperatureOption = 0.0,
    concurrency: ConcurrencyOption = 8,
    budget: BudgetOption = None,
    price: PriceOption = None,
    cache: CacheOption = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --out or --dry-run: print a summary as JSON.")
    ] = False,
) -> None:
    """Have an LLM judge pairs of models' responses.

    Says on standard error what that may take, before the first call. `mirage fit` turns the votes
    into a ranking. Falls short (status 1) where a vote failed or named no verdict.
    """
    from mirage.arena import PairwiseJudge

    asked = dataset_of(language, dataset)
    runs = runs_of(asked.language, responses, name)
    with bad_input():
        shared = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "concurrency": concurrency,
            "cache": cache,
            "budget": _budget(budget),
            "price": _price(price),
        }
        judges = [_llm(one, base_url, key_from, **shared) for one in model]
    arena = PairwiseJudge(judges, both_orders=both_orders)
    plan: Any = {"queries": queries, "pairs": pairs, "seed": seed}
    estimate = arena.estimate(asked, runs, **plan)
    if dry_run:
        from dataclasses import asdict

        if as_json:
            out_json(asdict(estimate))
        else:
            out(str(estimate))
        return
    say(str(estimate))
    check_folder(file)
    with keeping(file, cached=cache), _naming_models(judges, key_from):
        judged = arena.compare(asked, runs, out=file, **plan)
    if file is None:
        print_records(judged.votes)
    counts = judged.describe()
    shown = ", ".join(f"{count} {what}" for what, count in counts.items())
    summarise(shown, counts, file, as_json)
    lost = len(judged.failed) + len(judged.invalid)
    if lost:
        fell_short([f"{lost} of {len(judged.votes)} votes failed or name no verdict"])


# LLMs and services --------------------------------------------------------------------------------


def _llm(model: str, base_url: str | None, key_from: str | None, **settings: Any) -> LLM:
    from mirage.llm import LLM

    return LLM(model, base_url=base_url, api_key=_key(key_from), **settings)


def _naming_models(llms: Sequence[LLM], key_from: str | None) -> AbstractContextManager[None]:
    if not llms:
        return nullcontext()
    return naming_models(llms[0].endpoint, [llm.model for llm in llms], _key(key_from))


def _service(
    url: str, answer: str, name: str | None, key_from: str | None, concurrency: int
) -> Generator:
    from mirage.generation import HTTPGenerator

    key = _key(key_from)
    headers = None if key is None else {"Authorization": f"Bearer {key}"}
    return HTTPGenerator(url, response=answer, name=name, headers=headers, concurrency=concurrency)


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if key:
        return key
    alike = [name for name in os.environ if name.upper().endswith(("KEY", "TOKEN"))]
    if alike:
        raise UnknownNameError("environment variable with a key:", variable, sorted(alike))
    raise MirageError(f"the environment variable {variable} is not set; set it to the key")


def _budget(texts: Iterable[str] | None) -> Budget | None:
    caps: dict[str, Any] = dict(named_numbers("--budget", texts or ()))
    for name in caps:
        if name not in BUDGETS:
            raise UnknownNameError("kind of budget", name, BUDGETS)
    if not caps:
        return None
    from mirage.llm import Budget

    whole = {name: int(cap) for name, cap in caps.items() if name != "cost"}
    return Budget(**{**caps, **whole})


def _price(text: str | None) -> Price | None:
    if text is None:
        return None
    from mirage.llm import Price

    try:
        of_input, of_output = map(float, text.split(","))
    except ValueError:
        raise MirageError(
            f"--price {text!r}: expected two numbers, of input and of output, such as 2.5,10"
        ) from None
    return Price(of_input, of_output)
