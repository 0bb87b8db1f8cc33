"""mirage tests: create test sets from documents, and score tests on known faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import (
    check_folder,
    check_page,
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
    from mirage.testsets.item_checks import ItemKind
    from mirage.testsets.item_sets import ItemSet

FaultKinds = Annotated[
    list[str] | None,
    option(
        "KIND",
        "Insert only this kind of fault, such as uncited; may be repeated.  [default: all kinds]",
    ),
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
            "Documents to ask about: files (text, Markdown, RST, HTML, PDF, Word, JSON Lines or "
            "Parquet), folders of them, or the folder of a corpus.",
        ),
    ],
    language: Annotated[
        str | None,
        options.language_option(
            "Language of the documents as an ISO 639-1 code, such as sw; the questions are "
            "written in it.  [required]"
        ),
    ] = None,
    model: Annotated[
        str | None,
        option(
            "NAME",
            "LLM that writes the items, and answers them as a check. Required unless --sheet or "
            "--skeleton is given.",
        ),
    ] = None,
    skeleton: Annotated[
        Path | None,
        option(
            "FILE",
            "Write a sheet (.csv or JSON Lines) of passages that are worth asking about, and let "
            "people fill it in. No LLM is called.",
        ),
    ] = None,
    sheet: Annotated[
        Path | None,
        option("FILE", "Read the items from a sheet that --skeleton wrote and people filled in."),
    ] = None,
    file: Annotated[
        Path, option("FILE", "Write the test set to this file, as JSON Lines.", "--out")
    ] = Path("tests.jsonl"),
    items: Annotated[int, option("N", "Number of items to create.", min=1)] = 50,
    kind: Annotated[
        list[str] | None,
        option(
            "KIND=SHARE",
            "Relative share of a kind of item; may be repeated. The kinds differ in what the "
            "question asks for. single: one fact; list: several facts; date: a date or number; "
            "two_passages: a fact that needs two passages; comparison: which of two is larger or "
            "earlier; near_miss: something that the documents only seem to answer.  [default: all "
            "kinds]",
        ),
    ] = None,
    page: Annotated[
        Path | None, option("FILE", "Also write an HTML page for reviewing the items.", "--report")
    ] = None,
    shown: Annotated[int, option("N", "Number of passages to show with each question.", min=2)] = 5,
    size: Annotated[
        int, option("N", "Maximum length of a passage in words, as for `mirage index`.", min=1)
    ] = 100,
    dry_run: options.DryRun = False,
    base_url: options.BaseUrl = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
    seed: options.Seed = 0,
) -> None:
    """Create a test set from documents.

    An LLM writes the items, which are questions with answers; with --sheet, people write them.
    Checks reject bad items.

    Two more files are written next to the --out file: *.rejected.jsonl lists the rejected items
    with reasons, and *.journal.jsonl lets the same command resume an interrupted run. The exit
    status is 1 if fewer items pass the checks than requested.

    In a CSV sheet, put each answer on its own line in the cell "answers", and separate alternative
    spellings with |. The reference and the wrong answers can be left empty.
    """
    from mirage.testsets import build_from_sheet, build_test_set, estimate_test_set, read_sheet

    check_page(page)
    for output in (file, skeleton):
        check_folder(output)
    code = language_of(language)
    sources = list(map(existing, documents))
    drawn = {"items": items, "seed": seed, **_kinds(kind)}
    if skeleton is not None:
        _write_skeleton(sources, skeleton, {"language": code, "size": size, **drawn})
        return
    if model is None and sheet is None:
        raise MirageError(
            "give --model NAME to let an LLM write the items, or --sheet FILE to read items that "
            "people wrote"
        )
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
        fall_short([f"{created.unasked} items were not requested ({reason}); repeat the command"])
    if len(created.queries) < created.wanted:
        fall_short([f"{len(created.queries)} of {created.wanted} items passed the checks"])


def _write_page(file: Path, page: Path) -> None:
    from mirage.dataset import MirageDataset
    from mirage.report import write_review
    from mirage.testsets.item_sets import read_rejected

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
    dataset: Annotated[Path, argument("DATASET", "Test set written by `mirage tests make`.")],
    file: Annotated[
        Path,
        option(
            "FILE",
            "Write the HTML page to this file; with --decisions, write the reviewed test set to "
            "it.",
            "--out",
        ),
    ],
    decisions: Annotated[
        Path | None,
        option(
            "FILE",
            "File saved from the review page; the items that were struck out there are removed.",
        ),
    ] = None,
) -> None:
    """Write a page for reviewing items, or apply a review.

    Without --decisions, writes an HTML page on which people strike out bad items. With
    --decisions, writes the test set without the struck items.
    """
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
        option(
            "FILE",
            "File of pytest tests to score.  [default: the tests that `mirage tests write` would "
            "write]",
        ),
    ] = None,
    kind: FaultKinds = None,
    minimum: Annotated[
        float | None,
        option(
            "SHARE",
            "Require the tests to catch at least this share of the kinds of fault, from 0 to 1.",
            "--min",
            min=0,
            max=1,
        ),
    ] = None,
    dataset: options.Dataset = None,
    as_json: options.Json = False,
) -> None:
    """Count how many known faults your tests catch.

    Inserts faults into the recorded responses and runs the tests on the result. The tests must use
    mirage.testing, which then reads these responses instead of calling your system. For each missed
    fault, the command prints an assertion that would catch it. The score is the share of the kinds
    of fault that are caught, averaged over five random seeds.

    Exit status with --min: 0 if the share is reached with every seed, 1 if it is reached with no
    seed, and 3 otherwise.
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
        end_inconclusive(
            [f"the share of caught faults reaches {minimum:.0%} with some seeds only: {scores}"]
        )


@commands.command(
    epilog=example("mirage tests write responses.jsonl --language sw --out test_rag.py")
)
def write(
    responses: options.OneResponses,
    language: options.Language = None,
    file: Annotated[Path, option("FILE", "Write the tests to this file.", "--out")] = Path(
        "test_rag.py"
    ),
    kind: FaultKinds = None,
    dataset: options.Dataset = None,
) -> None:
    """Write pytest tests that pass on a model's responses.

    Also inserts known faults, such as removed citations, into the responses, and prints how many of
    them the tests catch.
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
