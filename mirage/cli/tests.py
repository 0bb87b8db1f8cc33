"""mirage tests: test sets from documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, named_numbers, place_of
from mirage.cli._llms import llms_of, naming_models
from mirage.cli._output import out_either, say
from mirage.cli._shell import argument, example, fall_short, flag, group, keeping, option

if TYPE_CHECKING:
    from mirage.building import ItemKind, ItemSet

Documents = Annotated[
    list[Path],
    argument(
        "DOCUMENTS", "Folders or files: text, Markdown, JSON Lines, Parquet; or a corpus' folder."
    ),
]
OfDocuments = Annotated[str, option("CODE", "Of the documents and the questions.")]
Size = Annotated[int, option("N", "Words a passage that documents are cut into.", min=1)]
Overlap = Annotated[int, option("N", "Words that a passage repeats from the one before.", min=0)]

__all__ = ["commands"]

commands = group("tests", "Make test sets from documents.")


@commands.command(
    epilog=example(
        "mirage tests make handbook/ --language sw --model gpt-4o --items 50 --estimate",
        "mirage tests make handbook/ --language sw --model gpt-4o --items 50 --out tests.jsonl",
    )
)
def make(
    documents: Documents,
    language: OfDocuments,
    model: Annotated[str, option("NAME", "The LLM that writes and answers.")],
    file: Annotated[Path, option("FILE", "The dataset, as JSON Lines.", "--out")] = Path(
        "tests.jsonl"
    ),
    items: Annotated[int, option("N", "Items that are wanted.", min=1)] = 50,
    kind: Annotated[
        list[str] | None,
        option(
            "KIND=SHARE",
            "single, list, date, two_passages, comparison or near_miss, and its share; may be "
            "repeated.  [default: all of them]",
        ),
    ] = None,
    shown: Annotated[int, option("N", "Passages an item shows.", min=2)] = 5,
    size: Size = 100,
    overlap: Overlap = 0,
    estimate: Annotated[
        bool, flag("Say what it would take, and ask nothing.", "--estimate", "--dry-run")
    ] = False,
    base_url: options.BaseUrl = None,
    key_from: options.KeyFrom = None,
    max_tokens: options.MaxTokens = 2048,
    temperature: options.Temperature = 0.0,
    concurrency: options.Concurrency = 8,
    budget: options.Budget = None,
    price: options.Price = None,
    cache: options.Cache = True,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Make a test set from documents: an LLM writes the items, checks keep what is sound.

    Beside FILE come NAME.rejected.jsonl, with what failed and why, and NAME.journal.jsonl, from
    which the same command goes on. Falls short (status 1) where fewer items passed than are wanted.
    """
    from mirage.building import build_test_set, estimate_test_set

    check_folder(file)
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
    settings: dict[str, Any] = {
        "language": language,
        "llm": llms[0],
        "items": items,
        "shown": shown,
        "size": size,
        "overlap": overlap,
        "seed": seed,
        **_kinds(kind),
    }
    sources = list(map(place_of, documents))
    told = estimate_test_set(sources, **settings)
    if estimate:
        out_either(told, asdict(told), as_json)
        return
    say(str(told))
    with keeping(file, cached=cache), naming_models(llms, key_from):
        made = build_test_set(sources, out=file, **settings)
    _tell(made, file, as_json)


def _kinds(texts: Sequence[str] | None) -> dict[str, Mapping[ItemKind, float]]:
    return {"kinds": named_numbers("--kind", texts)} if texts else {}  # type: ignore[dict-item]


def _tell(made: ItemSet, file: Path, as_json: bool) -> None:
    from mirage.building.test_sets import beside

    out_either(f"{made}\n{file}", made.counts, as_json)
    if made.rejected:
        say(f"{beside(file, 'rejected')}: what was rejected, and why")
    if made.unasked:
        why = next(f.detail for item in made.rejected for f in item.faults if f.kind == "not asked")
        fall_short([f"{made.unasked} drafts were not asked for ({why}); the same command goes on"])
    if len(made.queries) < made.wanted:
        fall_short([f"{len(made.queries)} of {made.wanted} items passed the checks"])
