"""mirage tests: test sets from documents, and how many faults tests catch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, dataset_of, file_of, named_numbers, place_of, runs_of
from mirage.cli._llms import llms_of, naming_models
from mirage.cli._output import out_either, say
from mirage.cli._shell import argument, end, example, fall_short, flag, group, keeping, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.building import ItemKind, ItemSet
    from mirage.testing.mutation import MutationScore

Documents = Annotated[
    list[Path],
    argument(
        "DOCUMENTS",
        "Folders or files: text, Markdown, RST, HTML, PDF, Word, JSON Lines, Parquet; or a "
        "corpus' folder.",
    ),
]
OfDocuments = Annotated[str, option("CODE", "Of the documents and the questions.")]
Kinds = Annotated[
    list[str] | None,
    option(
        "KIND=SHARE",
        "single, list, date, two_passages, comparison or near_miss, and its share; may be "
        "repeated.  [default: all of them]",
    ),
]
Size = Annotated[int, option("N", "Words a passage that documents are cut into.", min=1)]
Overlap = Annotated[int, option("N", "Words that a passage repeats from the one before.", min=0)]

OneRun = Annotated[
    Path,
    argument("RESPONSES", 'JSON Lines {"query_id": ..., "text": ...}; - is standard input.'),
]
OfQueries = Annotated[str, option("CODE", "Of the queries, such as sw.")]
Shares = Annotated[
    list[float] | None,
    option(
        "SHARE",
        "Of the queries that can have a fault, how many have it; may be repeated.  [default: 1 and "
        "0.25]",
    ),
]
FaultKinds = Annotated[
    list[str] | None,
    option("KIND", "A kind of fault, such as uncited; may be repeated.  [default: all]"),
]

__all__ = ["commands"]

commands = group("tests", "Make test sets from documents; write tests, and score them.")


@commands.command(
    epilog=example(
        "mirage tests make handbook/ --language sw --model gpt-4o --items 50 --estimate",
        "mirage tests make handbook/ --language sw --model gpt-4o --items 50 --out tests.jsonl",
        "mirage tests make handbook/ --language sw --sheet sheet.csv --review review.html",
    )
)
def make(
    documents: Documents,
    language: OfDocuments,
    model: Annotated[
        str | None, option("NAME", "The LLM that writes and answers; may be missing with --sheet.")
    ] = None,
    file: Annotated[Path, option("FILE", "The dataset, as JSON Lines.", "--out")] = Path(
        "tests.jsonl"
    ),
    items: Annotated[int, option("N", "Items that are wanted.", min=1)] = 50,
    kind: Kinds = None,
    sheet: Annotated[
        Path | None,
        option("FILE", "Take the items from a sheet of `mirage tests skeleton`, filled in."),
    ] = None,
    page: Annotated[
        Path | None, option("FILE", "Also write a page on which to review the items.", "--review")
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
    from mirage.building import build_from_sheet, build_test_set, estimate_test_set, read_sheet

    check_folder(file)
    check_folder(page)
    if model is None and sheet is None:
        raise MirageError("give --model, which writes the items, or --sheet with items by people")
    llms = llms_of(
        [] if model is None else [model],
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
        "llm": llms[0] if llms else None,
        "shown": shown,
        "size": size,
        "overlap": overlap,
    }
    sources = list(map(place_of, documents))
    if sheet is not None:
        with keeping(file, cached=cache), naming_models(llms, key_from):
            made = build_from_sheet(read_sheet(file_of(sheet)), sources, out=file, **settings)
        _tell(made, file, page, as_json)
        return
    settings |= {"items": items, "seed": seed, **_kinds(kind)}
    told = estimate_test_set(sources, **settings)
    if estimate:
        out_either(told, asdict(told), as_json)
        return
    say(str(told))
    with keeping(file, cached=cache), naming_models(llms, key_from):
        made = build_test_set(sources, out=file, **settings)
    _tell(made, file, page, as_json)


def _kinds(texts: Sequence[str] | None) -> dict[str, Mapping[ItemKind, float]]:
    return {"kinds": named_numbers("--kind", texts)} if texts else {}  # type: ignore[dict-item]


def _tell(made: ItemSet, file: Path, page: Path | None, as_json: bool) -> None:
    from mirage.building.test_sets import beside

    out_either(f"{made}\n{file}", made.counts, as_json)
    if made.rejected:
        say(f"{beside(file, 'rejected')}: what was rejected, and why")
    if page is not None:
        _write_page(file, page)
    if made.unasked:
        why = next(f.detail for item in made.rejected for f in item.faults if f.kind == "not asked")
        fall_short([f"{made.unasked} drafts were not asked for ({why}); the same command goes on"])
    if len(made.queries) < made.wanted:
        fall_short([f"{len(made.queries)} of {made.wanted} items passed the checks"])


def _write_page(file: Path, page: Path) -> None:
    from mirage.building import read_rejected
    from mirage.dataset import MirageDataset
    from mirage.report import write_review

    write_review(MirageDataset.from_jsonl(file), page, rejected=read_rejected(file))
    say(f"{page}: the items, to be read and struck")


# By people ----------------------------------------------------------------------------------------


@commands.command(
    epilog=example("mirage tests skeleton handbook/ --language sw --items 50 --out sheet.csv")
)
def skeleton(
    documents: Documents,
    language: OfDocuments,
    file: Annotated[Path, option("FILE", "The sheet: .csv, or JSON Lines.", "--out")] = Path(
        "sheet.csv"
    ),
    items: Annotated[int, option("N", "Rows of the sheet.", min=1)] = 50,
    kind: Kinds = None,
    size: Size = 100,
    overlap: Overlap = 0,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Write an empty sheet: the passages worth asking about, without an LLM.

    Filled in, it goes to `mirage tests make --sheet`. In CSV an answer stands on a line of its
    cell, with its forms parted by |; reference and wrong answers may be missing.
    """
    from mirage.building import item_sheet, write_sheet

    check_folder(file)
    sources = list(map(place_of, documents))
    settings: dict[str, Any] = {"items": items, "size": size, "overlap": overlap, "seed": seed}
    settings |= _kinds(kind)
    rows, askable = item_sheet(sources, language=language, **settings)
    write_sheet(rows, file)
    plain = {
        "rows": len(rows),
        "documents": askable.documents,
        "documents worth asking about": askable.askable_documents,
        "passed over": askable.passed_over,
    }
    words = (
        f"{file}: {len(rows)} rows; of {askable.documents} documents, "
        f"{askable.askable_documents} have a passage worth asking about"
    )
    out_either(words, plain, as_json)
    if len(rows) < items:
        fall_short([f"{len(rows)} of {items} rows: there are no more passages worth asking about"])


@commands.command(
    epilog=example(
        "mirage tests review tests.jsonl --out review.html",
        "mirage tests review tests.jsonl --decisions tests.decisions.json --out reviewed.jsonl",
    )
)
def review(
    dataset: Annotated[Path, argument("DATASET", "Items that `mirage tests make` wrote.")],
    file: Annotated[Path, option("FILE", "The page; with --decisions, the dataset.", "--out")],
    decisions: Annotated[
        Path | None, option("FILE", "What the page saved: leave out the items that it strikes.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a page on which to read and strike items, or apply what was decided on it."""
    from mirage.building import strike
    from mirage.dataset import MirageDataset

    check_folder(file)
    source = file_of(dataset)
    items = MirageDataset.from_jsonl(source)
    if decisions is None:
        _write_page(source, file)
        if as_json:
            out_either("", {"items": len(items)}, as_json)
        return
    kept = strike(items, file_of(decisions))
    kept.to_jsonl(file)
    words = f"{file}: {len(kept)} of {len(items)} items"
    out_either(words, {"items": len(items), "kept": len(kept)}, as_json)


# How many faults tests catch ---------------------------------------------------------------------


@commands.command(
    epilog=example(
        "mirage tests score responses.jsonl --language sw --tests test_rag.py",
        "mirage tests score responses.jsonl --language sw",
    )
)
def score(
    responses: OneRun,
    language: OfQueries,
    tests: Annotated[
        Path | None,
        option(
            "FILE",
            "A file of pytest tests.  [default: the assertions that `mirage tests write` writes]",
        ),
    ] = None,
    kind: FaultKinds = None,
    share: Shares = None,
    minimum: Annotated[
        float | None,
        option(
            "SHARE", "Fall short (status 1) if no seed catches as many kinds of fault.", "--min"
        ),
    ] = None,
    cannot_tell: Annotated[
        int,
        option(
            "STATUS",
            "With --min: exit status if some seeds reach the share and some do not; 0 passes.",
            min=0,
            max=125,
        ),
    ] = 2,
    dataset: options.Dataset = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Do known faults to responses, and say which of them a test suite catches.

    What it misses comes with the assertion that would catch it. Tests that use mirage.testing read
    the faulty responses in place of the system that they name, so that it is asked nothing. Faults
    are drawn with five random seeds, and the score is the mean over them.

    Exit status with --min: 0 if every seed reaches the share, 1 if none does, else 2.
    """
    from mirage.testing.mutation import SHARES, suggested_bounds
    from mirage.testing.suites import score_tests

    queries = dataset_of(language, dataset)
    (run,) = runs_of(queries.language, [responses], None)
    settings: dict[str, Any] = {"kinds": kind, "shares": share or SHARES, "seed": seed}
    if tests is None:
        _, counted = suggested_bounds(queries, run, **settings)
    else:
        counted = score_tests(place_of(tests), queries, run, **settings)
    out_either(counted, _score_plain(counted), as_json)
    if minimum is None:
        return
    verdict = counted.verdict(minimum)
    if verdict == "broken":
        fall_short([f"{counted.score:.0%} of the kinds of fault are caught, not {minimum:.0%}"])
    if verdict == "cannot tell":
        scores = ", ".join(f"{score:.0%}" for score in counted.by_seed(max(counted.shares)))
        say(f"the seeds disagree on {minimum:.0%}: {scores}", "inconclusive:", "yellow")
        end(cannot_tell)


@commands.command(
    epilog=example("mirage tests write responses.jsonl --language sw --out test_rag.py")
)
def write(
    responses: Annotated[Path, argument("RESPONSES", "JSON Lines, which the tests will read.")],
    language: OfQueries,
    file: Annotated[Path, option("FILE", "The tests.", "--out")] = Path("test_rag.py"),
    kind: FaultKinds = None,
    share: Shares = None,
    dataset: options.Dataset = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Write a file of pytest tests that pass on responses, and say which faults it catches."""
    from mirage.testing.mutation import SHARES
    from mirage.testing.suites import write_tests

    check_folder(file)
    queries = dataset_of(language, dataset)
    (run,) = runs_of(queries.language, [place_of(responses)], None)
    settings: dict[str, Any] = {"kinds": kind, "shares": share or SHARES, "seed": seed}
    counted = write_tests(file, queries, run, responses, dataset, **settings)
    out_either(f"{counted}\n{file}", {"file": str(file), **_score_plain(counted)}, as_json)


def _score_plain(score: MutationScore) -> dict[str, Any]:
    return {
        "score": {f"{share:g}": score.at(share) for share in score.shares},
        "score_by_seed": {f"{share:g}": score.by_seed(share) for share in score.shares},
        "mutants": [fate._asdict() for fate in score.fates],
        "untried": dict(score.untried),
        "fallen": list(score.fallen),
        "not_measured": dict(score.unmeasured),
    }
