"""Rank several LLMs on the bundled questions, and compare their accuracy.

Any endpoint with the protocol of OpenAI can be used, such as a local server of vLLM, llama.cpp or
Ollama. The maximum cost of the calls is printed before the first call. Answers are stored in
``FOLDER`` as they arrive, so that a run that was killed resumes with the same command. At the end,
the ranking is printed, and ``FOLDER/LANGUAGE-LEVEL.html`` shows it with the answers.

    python validation/papers/llms.py --base-url http://localhost:8000/v1 --model a --model b
    python validation/papers/llms.py --model gpt-4o-mini --key-from OPENAI_API_KEY \\
        --price 0.15,0.60 --most-cost 2 --language sw --closed-book

``--dry-run`` only prints the estimate. With ``--quick``, two made-up models answer at a server in
this process. The script was not tested with a commercial endpoint.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import TESTS  # noqa: F401 - puts tests/ on the path

from mirage import Leaderboard, MirageDataset, OpenAIGenerator, Ranking, Run
from mirage.errors import MirageError
from mirage.generation import ShortAnswerPrompt
from mirage.llm import LLM, Budget, Price
from mirage.llm.estimates import estimate, sum_estimates


def options_of(arguments: Sequence[str] | None = None) -> tuple[Any, Any]:
    """Return the parser and the options of a call."""
    parser = script_parser(__doc__)
    parser.add_argument("--model", action="append", help="name of a model; may be repeated")
    parser.add_argument("--base-url", help="address of the endpoint; OpenAI by default")
    parser.add_argument("--key-from", metavar="VARIABLE", help="environment variable with the key")
    parser.add_argument("--language", default="en", help="code of a language; en by default")
    parser.add_argument("--level", default="hard", choices=("quick", "hard"))
    parser.add_argument("--closed-book", action="store_true", help="ask without passages too")
    parser.add_argument("--price", type=price, help="price of a million tokens: input,output")
    parser.add_argument("--most-cost", type=float, help="stop before the calls cost more")
    parser.add_argument("--max-tokens", type=int, default=1024, help="longest answer")
    parser.add_argument("--concurrency", type=int, default=8, help="calls at a time")
    parser.add_argument("--dry-run", action="store_true", help="only print the estimate")
    parser.add_argument("--folder", type=Path, default=Path("llms"), help="answers and page")
    return parser, parser.parse_args(arguments)


def price(text: str) -> Price:
    """Return the price in a text such as ``0.15,0.60``."""
    try:
        return Price(*map(float, text.split(",")))
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError("two numbers, such as 0.15,0.60") from None


class Study:
    """Some LLMs, asked the bundled questions of a language."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.dataset = MirageDataset.bundled(options.language, level=options.level)
        self.without_passages = MirageDataset(
            (query.model_copy(update={"passages": (), "relevant": ()}) for query in self.dataset),
            name=f"{self.dataset.name} without passages",
        )
        budget = None if options.most_cost is None else Budget(cost=options.most_cost)
        key = None if options.key_from is None else os.environ.get(options.key_from)
        if options.key_from is not None and not key:
            raise MirageError(f"the environment variable {options.key_from} is not set")
        self.llms = [
            LLM(
                model,
                base_url=options.base_url,
                api_key=key,
                max_tokens=options.max_tokens,
                concurrency=options.concurrency,
                price=options.price,
                budget=budget,
                cache=options.folder / "answers.sqlite",
            )
            for model in options.model
        ]

    def jobs(self) -> Iterator[tuple[LLM, OpenAIGenerator, MirageDataset, Path]]:
        """Yield each model with its prompts, with and without passages, and its file."""
        for llm in self.llms:
            name = f"{llm.model.replace('/', '--')}-{self.options.language}-{self.options.level}"
            path = self.options.folder / f"{name}.jsonl"
            yield llm, OpenAIGenerator(llm), self.dataset, path
            if self.options.closed_book:
                by_heart = OpenAIGenerator(llm, prompt=ShortAnswerPrompt())
                yield llm, by_heart, self.without_passages, path.with_suffix(".closed-book.jsonl")

    def estimate(self) -> str:
        """Return what the calls can need at most, as text."""
        parts = []
        for llm, generator, dataset, _ in self.jobs():
            # Answers of earlier runs are in the cache of the folder, and cost nothing.
            parts.append(estimate(llm, map(generator.prompt, dataset.without_gold())))
        return str(sum_estimates(parts))

    def ask(self) -> Ranking:
        """Ask the models what is not answered yet, and rank them."""
        runs: dict[str, Run] = {}
        closed_book: dict[str, Run] = {}
        for llm, generator, dataset, path in self.jobs():
            results = runs if dataset is self.dataset else closed_book
            results[llm.model] = generator.run(dataset, out=path)
        board = Leaderboard.bundled(self.options.language, level=self.options.level)
        return board.rank_many(runs, closed_book=closed_book or False)


def show(ranking: Ranking, page: Path) -> None:
    """Print the ranking, write its page, and record its figures."""
    print(f"\n{ranking}\n\npage: {page}")
    ranking.write(page)
    for entry in ranking:
        if entry.accuracy is not None:
            add_figure(entry.logit, entry.model, "logit")
            add_figure(entry.accuracy.right, entry.model, "right")
            add_figure(entry.accuracy.n, entry.model, "queries")
        if entry.closed_book is not None:
            add_figure(entry.closed_book.right, entry.model, "right without passages")
    for comparison in ranking.comparisons:
        add_figure(comparison.p_better, " against ".join(comparison.models), "P(better)")


def study(options: Any) -> None:
    """Print the estimate, ask the models and print the results."""
    options.folder.mkdir(parents=True, exist_ok=True)
    the_study = Study(options)
    print(the_study.estimate(), flush=True)
    if not options.dry_run:
        page = options.folder / f"{options.language}-{options.level}.html"
        show(the_study.ask(), page)


# Made-up models -----------------------------------------------------------------------------------


def made_up_answer(dataset: MirageDataset, request: Mapping[str, Any]) -> str:
    """Return the answer of a made-up model: the reference, or a hasty one to every fourth query."""
    prompt = request["messages"][-1]["content"]
    turn, query = next((i, query) for i, query in enumerate(dataset) if query.text in prompt)
    has_passages = any(passage.text[:40] in prompt for passage in query.passages)
    if not has_passages or (request["model"] == "hasty" and turn % 4 == 0):
        return query.wrong_answers[0][0] if query.wrong_answers else "It is not stated."
    return query.reference or ""


def quick_study(options: Any) -> None:
    """Run the study with two made-up models at a server in this process."""
    from llm_server import ChatServer

    options.level, options.model, options.closed_book = "quick", ["careful", "hasty"], True
    dataset = MirageDataset.bundled(options.language, level=options.level)
    with ExitStack() as stack:
        options.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(ChatServer(lambda request: made_up_answer(dataset, request)))
        options.base_url = server.url
        study(options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser, options = options_of(arguments)
    if options.quick:
        quick_study(options)
    elif options.model:
        study(options)
    else:
        print("nothing to measure: pass --model and perhaps --base-url")
        return
    if options.quick or options.out:
        save(parser, options)


if __name__ == "__main__":
    main()
