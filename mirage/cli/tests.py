"""mirage tests: create test sets from documents, and score tests on known faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import (
    check_folder,
    dataset_of,
    existing,
    file_of,
    language_of,
    named_files,
    named_numbers,
    run_of,
)
from mirage.cli._llms import LLMSettings, naming_models
from mirage.cli._output import out, out_either, say
from mirage.cli._shell import (
    argument,
    end_inconclusive,
    example,
    fall_short,
    group,
    keeping,
    option,
)
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.testing.mutation import MutationScore
    from mirage.testsets import ItemSet
    from mirage.testsets.item_checks import ItemKind

FaultKinds = Annotated[
    list[str] | None,
    option("KIND", "A kind of fault, such as uncited; may be repeated.  [default: all]"),
]

commands = group("tests", "Create test sets from documents; write and score tests.")


@commands.command(
    epilog=example(
        "mirage tests make handbook/ --language sw --model gpt-4o --items 50 --dry-run",
        "mirage tests make handbook/ --language sw --model gpt-4o --items 50 --out tests.jsonl",
        "mirage tests make handbook/ --language sw --skeleton sheet.csv",
        "mirage tests make handbook/ --language sw --sheet sheet.csv --report review.html",
    )
)
def make(
    documents: Annotated[
        list[Path],
        argument(
            "DOCUMENTS",
            "Folders or files: text, Markdown, RST, HTML, PDF, Word, JSON Lines, Parquet; or the "
            "folder of a corpus.",
        ),
    ],
    language: options.Language = None,
    model: Annotated[
        str | None, option("NAME", "The LLM that writes and answers; optional with --sheet.")
    ] = None,
    skeleton: Annotated[
        Path | None,
        option(
            "FILE",
            "Instead of asking an LLM, write an empty sheet (.csv or JSON Lines) of passages worth "
            "asking about.",
        ),
    ] = None,
    sheet: Annotated[
        Path | None, option("FILE", "Read the items from such a sheet, filled in by people.")
    ] = None,
    file: Annotated[Path, option("FILE", "The dataset, as JSON Lines.", "--out")] = Path(
        "tests.jsonl"
    ),
    items: Annotated[int, option("N", "Items to create.", min=1)] = 50,
    kind: Annotated[
        list[str] | None,
        option(
            "KIND=SHARE",
            "A kind of item with its share: single, list, date, two_passages, comparison or "
            "near_miss; may be repeated.  [default: all]",
        ),
    ] = None,
    page: Annotated[
        Path | None, option("FILE", "Also write an HTML page for reviewing the items.", "--report")
    ] = None,
    shown: Annotated[int, option("N", "Passages that an item shows.", min=2)] = 5,
    size: Annotated[int, option("N", "Words in a passage of a document.", min=1)] = 100,
    dry_run: options.DryRun = False,
    base_url: options.BaseUrl = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
    seed: options.Seed = 0,
) -> None:
    """Create a test set from documents.

    An LLM writes the items, and checks reject bad ones.

    FILE.rejected.jsonl lists rejected items with reasons. FILE.journal.jsonl lets the same command
    resume. Falls short (status 1) if fewer items pass than requested.

    In a CSV sheet each line of the answers' cell is one answer, with its forms separated by |. The
    reference and wrong answers may be empty.
    """
    from mirage.testsets import build_from_sheet, build_test_set, estimate_test_set, read_sheet

    for output in (file, page, skeleton):
        check_folder(output)
    code = language_of(language)
    sources = list(map(existing, documents))
    drawn = {"items": items, "seed": seed, **_kinds(kind)}
    if skeleton is not None:
        _write_skeleton(sources, skeleton, {"language": code, "size": size, **drawn})
        return
    if model is None and sheet is None:
        raise MirageError("give --model, which writes the items, or --sheet with items by people")
    clients = LLMSettings(llm, base_url, budget, max_tokens=2048)
    llms = [] if model is None else [clients.llm(model)]
    settings: dict[str, Any] = {
        "language": code,
        "llm": llms[0] if llms else None,
        "shown": shown,
        "size": size,
    }
    if sheet is not None:
        with keeping(file, cached=clients.cache), naming_models(llms, clients):
            created = build_from_sheet(read_sheet(file_of(sheet)), sources, out=file, **settings)
        _print_items(created, file, page)
        return
    settings |= drawn
    estimate = estimate_test_set(sources, **settings)
    if dry_run:
        out(estimate)
        return
    say(str(estimate))
    with keeping(file, cached=clients.cache), naming_models(llms, clients):
        created = build_test_set(sources, out=file, **settings)
    _print_items(created, file, page)


def _kinds(texts: Sequence[str] | None) -> dict[str, Mapping[ItemKind, float]]:
    return {"kinds": named_numbers("--kind", texts)} if texts else {}  # type: ignore[dict-item]


def _print_items(created: ItemSet, file: Path, page: Path | None) -> None:
    from mirage.testsets.item_sets import beside

    out(f"{created}\n{file}")
    if created.rejected:
        say(f"{beside(file, 'rejected')}: rejected items, with reasons")
    if page is not None:
        _write_page(file, page)
    if created.unasked:
        reason = next(
            fault.detail
            for item in created.rejected
            for fault in item.faults
            if fault.kind == "not asked"
        )
        fall_short([f"{created.unasked} drafts were not requested ({reason}); repeat the command"])
    if len(created.queries) < created.wanted:
        fall_short([f"{len(created.queries)} of {created.wanted} items passed the checks"])


def _write_page(file: Path, page: Path) -> None:
    from mirage.dataset import MirageDataset
    from mirage.report import write_review
    from mirage.testsets import read_rejected

    write_review(MirageDataset.load(file), page, rejected=read_rejected(file))
    say(f"{page}: page for reviewing the items")


def _write_skeleton(sources: list[Path], file: Path, settings: Mapping[str, Any]) -> None:
    from mirage.testsets import item_sheet, write_sheet

    rows, askable = item_sheet(sources, **settings)
    write_sheet(rows, file)
    text = (
        f"{file}: {len(rows)} rows; {askable.askable_documents} of {askable.documents} documents "
        "have a passage worth asking about"
    )
    out(text)
    if len(rows) < settings["items"]:
        fall_short(
            [f"{len(rows)} of {settings['items']} rows: no more passages are worth asking about"]
        )


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
        Path | None,
        option("FILE", "Remove the items that were struck on the page; its saved file."),
    ] = None,
) -> None:
    """Write a page for reviewing items, or apply a review."""
    from mirage.dataset import MirageDataset
    from mirage.testsets import strike

    check_folder(file)
    source = file_of(dataset)
    items = MirageDataset.load(source)
    if decisions is None:
        _write_page(source, file)
        return
    accepted = strike(items, file_of(decisions))
    accepted.save(file)
    text = f"{file}: {len(accepted)} of {len(items)} items"
    out(text)


# Scoring tests on known faults -------------------------------------------------------------------


@commands.command(
    epilog=example(
        "mirage tests score responses.jsonl --language sw --tests test_rag.py",
        "mirage tests score responses.jsonl --language sw",
    )
)
def score(
    responses: options.OneResponses,
    language: options.Language = None,
    tests: Annotated[
        Path | None,
        option("FILE", "A file of pytest tests.  [default: the tests of `mirage tests write`]"),
    ] = None,
    kind: FaultKinds = None,
    minimum: Annotated[
        float | None,
        option("SHARE", "Fall short (status 1) if fewer kinds of fault are caught.", "--min"),
    ] = None,
    dataset: options.Dataset = None,
    as_json: options.Json = False,
) -> None:
    """Count the known faults that tests catch.

    Faults are inserted into the responses, which the tests read instead of asking the system if
    they use mirage.testing. Each missed fault comes with an assertion that would catch it. The
    score is the mean over five random seeds.

    Exit status with --min: 0 if all seeds reach the share, 1 if none does, 3 otherwise.
    """
    from mirage.testing.mutation import suggested_bounds
    from mirage.testing.suites import score_tests

    queries = dataset_of(language, dataset)
    run = run_of(queries.language, responses)
    settings: dict[str, Any] = {"kinds": kind}
    if tests is None:
        _, result = suggested_bounds(queries, run, **settings)
    else:
        result = score_tests(existing(tests), queries, run, **settings)
    out_either(result, _score_plain(result), as_json)
    if minimum is None:
        return
    verdict = result.verdict(minimum)
    if verdict == "broken":
        fall_short([f"{result.score:.0%} of the kinds of fault are caught, not {minimum:.0%}"])
    if verdict == "inconclusive":
        scores = ", ".join(f"{score:.0%}" for score in result.by_seed(max(result.shares)))
        end_inconclusive([f"the seeds disagree on {minimum:.0%}: {scores}"])


@commands.command(
    epilog=example("mirage tests write responses.jsonl --language sw --out test_rag.py")
)
def write(
    responses: options.OneResponses,
    language: options.Language = None,
    file: Annotated[Path, option("FILE", "The tests.", "--out")] = Path("test_rag.py"),
    kind: FaultKinds = None,
    dataset: options.Dataset = None,
) -> None:
    """Write pytest tests that pass on responses.

    Prints how many known faults they catch.
    """
    from mirage.testing.suites import write_tests

    check_folder(file)
    queries = dataset_of(language, dataset)
    (path,) = named_files([responses]).values()
    run = run_of(queries.language, responses)
    settings: dict[str, Any] = {"kinds": kind}
    result = write_tests(file, queries, run, existing(path), dataset, **settings)
    out(f"{result}\n{file}")


def _score_plain(score: MutationScore) -> dict[str, Any]:
    return {
        "score": {f"{share:g}": score.at(share) for share in score.shares},
        "score_by_seed": {f"{share:g}": score.by_seed(share) for share in score.shares},
        "mutants": [fate._asdict() for fate in score.fates],
        "untried": dict(score.untried),
        "fallen": list(score.fallen),
        "not_measured": dict(score.unmeasured),
    }
