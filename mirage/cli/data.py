"""Commands about datasets: describe, build, convert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirage.cli.inputs import JsonOption, SeedOption, file_of, place_of
from mirage.cli.shell import example, fell_short, out, out_json, print_records, summarise
from mirage.errors import DatasetError, MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.models import Query, Run

__all__ = ["add_to"]

SOURCES = ("jsonl", "trec", "nomiracl", "memerag")
TARGETS = ("jsonl", "trec")
PROBLEMS_SHOWN = 10

TopicsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Lines id<TAB>text.", show_default=False),
]
QrelsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Lines id Q0 passage-id relevance.", show_default=False),
]
PassagesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON Lines of passages.", show_default=False),
]
LanguageOption = Annotated[
    str, typer.Option(metavar="CODE", help="Of the queries.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command(epilog=example("mirage data describe queries.jsonl", "mirage data describe sw"))(
        describe
    )
    group.command(
        epilog=example(
            "mirage data build --language sw --topics topics.tsv --qrels qrels.txt --passages "
            "passages.jsonl --out benchmark.jsonl"
        )
    )(build)
    group.command(
        epilog=example(
            "mirage data convert nomiracl/ --from nomiracl --language sw --runs runs/ > sw.jsonl",
            "mirage data convert queries.jsonl --to trec --out trec/",
            "mirage data convert --from trec --topics t.tsv --qrels q.txt --language sw > sw.jsonl",
        )
    )(convert)
    app.add_typer(group, name="data", help="Look into datasets, build and convert them.")


# Describe -----------------------------------------------------------------------------------------


def describe(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="LANGUAGE|FILE...",
            help="Queries: bundled ones, or JSON Lines; - is standard input.",
            show_default=False,
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Say what is in datasets, and what is wrong with them.

    Falls short (status 1) where something is wrong.
    """
    reports = [_report(source) for source in sources]
    if as_json:
        out_json(reports)
    else:
        out("\n\n".join(map(_described, reports)))
    wrong = [
        f"{report['name']}: {len(report['problems'])} problems"
        for report in reports
        if report["problems"]
    ]
    if wrong:
        fell_short(wrong)


def _report(source: str) -> dict[str, Any]:
    from mirage.dataset import MirageDataset
    from mirage.languages import LANGUAGES, Language

    if source in LANGUAGES:
        dataset = MirageDataset.bundled(source)
        found = [(f"query {query.id}", query) for query in dataset]
        return _figures(dataset.name, found, [])
    path = Path(source)
    if source != "-" and not path.exists() and not path.suffix and len(path.parts) == 1:
        Language.of(source)  # a language that is misspelt, more likely than a file
    found, problems = _read(file_of(path))
    return _figures(source, found, problems)


def _read(path: Path) -> tuple[list[tuple[str, Query]], list[str]]:
    """The queries of a file, each with its place, and the lines that hold none."""
    from mirage._base.files import lines, parse_rows, validated
    from mirage.models import Query

    found, problems = [], []
    for where, line in lines(path):
        try:
            for _, row in parse_rows(line, where):
                found.append((where, validated(Query, row, where)))
        except DatasetError as error:
            # Parsed by itself, the line would be the first.
            problems.append(str(error).replace(f"{where}, line 1", where))
    if not found and not problems:
        problems.append(f"{path}: no query in this file")
    return found, problems


def _figures(name: str, found: list[tuple[str, Query]], problems: list[str]) -> dict[str, Any]:
    queries = [query for _, query in found]
    shown = [len(query.passages) for query in queries]
    return {
        "name": name,
        "languages": dict(Counter(query.language for query in queries)),
        "queries": len(queries),
        "passages": sum(shown),
        "passages_per_query": [min(shown), max(shown)] if shown else None,
        "relevant": sum(len(query.relevant) for query in queries),
        "with_reference": sum(query.reference is not None for query in queries),
        "answerable": sum(query.answerable is True for query in queries),
        "unanswerable": sum(query.answerable is False for query in queries),
        "problems": [*problems, *_problems(found)],
        "remarks": _remarks(queries),
    }


def _problems(found: list[tuple[str, Query]]) -> Iterator[str]:
    """What keeps queries from being used together, or makes no sense."""
    seen: dict[str, str] = {}
    first = found[0][1].language if found else ""
    for where, query in found:
        if query.id in seen:
            yield f"{where}: query {query.id!r} stands here a second time; first: {seen[query.id]}"
        seen.setdefault(query.id, where)
        if query.language != first:
            yield (
                f"{where}: query {query.id!r} is in {query.language!r}, the first one in "
                f"{first!r}; make one file a language"
            )
        blank = [passage.id for passage in query.passages if not passage.text.strip()]
        if blank:
            yield f"{where}: query {query.id!r}: passage {blank[0]!r} has no text"
        if query.answerable is False and query.relevant:
            yield f"{where}: query {query.id!r} is unanswerable, and has relevant passages"


def _remarks(queries: list[Query]) -> list[str]:
    """What the features will lack."""
    kinds = {
        "show no passage, so nothing supports a response": [q for q in queries if not q.passages],
        "have no relevant passage, so citations are not measured": [
            q for q in queries if q.passages and not q.relevant
        ],
        "name a relevant passage that they do not show": [
            q for q in queries if q.passages and not set(q.relevant) <= set(q.passage_ids)
        ],
        "have no reference, so overlap with it is not measured": [
            q for q in queries if q.reference is None
        ],
    }
    return [f"{len(some)} of {len(queries)} queries {what}" for what, some in kinds.items() if some]


def _described(report: dict[str, Any]) -> str:
    languages = ", ".join(f"{code} ({n})" for code, n in report["languages"].items()) or "none"
    fewest, most = report["passages_per_query"] or (0, 0)
    lines = [
        f"{report['name']}",
        f"  languages      {languages}",
        f"  queries        {report['queries']}",
        f"  passages       {report['passages']} ({fewest} to {most} a query)",
        f"  relevant       {report['relevant']}",
        f"  references     {report['with_reference']}",
        f"  answerable     {report['answerable']}, unanswerable {report['unanswerable']}",
    ]
    lines += [f"  remark: {remark}" for remark in report["remarks"]]
    problems = report["problems"]
    lines += [f"  problem: {problem}" for problem in problems[:PROBLEMS_SHOWN]]
    if len(problems) > PROBLEMS_SHOWN:
        lines.append(f"  ... and {len(problems) - PROBLEMS_SHOWN} more (--json has all)")
    return "\n".join(lines)


# Build --------------------------------------------------------------------------------------------


def build(
    language: LanguageOption,
    topics: Annotated[
        Path, typer.Option(metavar="FILE", help="Lines id<TAB>text.", show_default=False)
    ],
    qrels: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Lines id Q0 passage-id relevance.", show_default=False),
    ],
    passages: PassagesOption = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The queries as JSON Lines.  [default: standard output]",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Draw so many queries.  [default: all]", show_default=False
        ),
    ] = None,
    relevant_only: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Also so many of those without a non-relevant passage."
        ),
    ] = 0,
    miracl: Annotated[
        bool, typer.Option("--miracl", help="Draw what MIRAGE-Bench drew of MIRACL.")
    ] = False,
    seed: SeedOption = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --out: print a summary as JSON.")
    ] = False,
) -> None:
    """Build a benchmark from a retrieval dataset.

    As MIRAGE-Bench was built: a query is kept if it has relevant and non-relevant passages.
    """
    from mirage.building import MIRACL_RECIPE, Recipe, build_benchmark
    from mirage.languages import Language

    if miracl and (sample is not None or relevant_only):
        raise MirageError("--miracl says how much to draw; leave out --sample and --relevant-only")
    code = Language.of(language).code
    recipe = MIRACL_RECIPE[code] if miracl else Recipe(sample, relevant_only)
    dataset, dropped = build_benchmark(
        file_of(topics),
        file_of(qrels),
        None if passages is None else file_of(passages),
        language=code,
        recipe=recipe,
        seed=seed,
    )
    _write_queries(dataset, file)
    reasons = dict(Counter(dropped.values()))
    shown = "; ".join(f"{n} dropped: {why}" for why, n in reasons.items())
    text = f"{len(dataset)} queries in {code!r}" + (f"; {shown}" if shown else "")
    plain = {"queries": len(dataset), "language": code, "dropped": dropped}
    summarise(text, plain, file, as_json)


# Convert ------------------------------------------------------------------------------------------


def convert(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="JSON Lines, a folder of NoMIRACL, or a file of MEMERAG; none for --from trec.",
            show_default=False,
        ),
    ] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="FORM", help=", ".join(SOURCES))
    ] = "jsonl",
    to: Annotated[str, typer.Option(metavar="FORM", help=", ".join(TARGETS))] = "jsonl",
    language: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Of the queries; JSON Lines say it.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="A file; for trec, a folder.  [default: standard output]",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write recorded responses here, a file a model (nomiracl, memerag).",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the labelled sentences here, for `mirage metaeval` (memerag).",
            show_default=False,
        ),
    ] = None,
    topics: TopicsOption = None,
    qrels: QrelsOption = None,
    passages: PassagesOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --out: print a summary as JSON.")
    ] = False,
) -> None:
    """Convert a dataset between forms.

    From JSON Lines, TREC, NoMIRACL or MEMERAG, to JSON Lines or TREC.
    """
    for form, known in ((from_, SOURCES), (to, TARGETS)):
        if form not in known:
            raise UnknownNameError("form of a dataset", form, known)
    if to == "trec" and file is None:
        raise MirageError("TREC is three files: give --out FOLDER")
    trec_files = (topics, qrels, passages)
    dataset, recorded, labelled = _converted(source, from_, language, trec_files)
    if runs is not None and not recorded:
        raise MirageError(f"--runs: {from_} holds no responses")
    if labels is not None and not labelled:
        raise MirageError(f"--labels: {from_} holds no labels")
    if to == "trec" and file is not None:
        _write_trec(dataset, file)
    else:
        _write_queries(dataset, file)
    if runs is not None:
        _write_runs(recorded, runs)
    if labels is not None:
        _write_labels(labelled, labels)
    plain = {"queries": len(dataset), "language": dataset.language, "runs": len(recorded)}
    summarise(f"{len(dataset)} queries in {dataset.language!r}", plain, file, as_json)


Labelled = list[dict[str, Any]]


def _converted(
    source: Path | None,
    form: str,
    language: str | None,
    trec_files: tuple[Path | None, Path | None, Path | None],
) -> tuple[MirageDataset, list[Run], Labelled]:
    """A dataset, with what responses and labelled sentences came along."""
    from mirage.dataset import MirageDataset

    if form == "trec":
        topics, qrels, passages = trec_files
        if source is not None or topics is None or qrels is None:
            raise MirageError("--from trec takes --topics and --qrels, and no SOURCE")
        texts = None if passages is None else file_of(passages)
        return (
            MirageDataset.from_trec(
                file_of(topics), file_of(qrels), texts, language=_needed(language, form)
            ),
            [],
            [],
        )
    if source is None or any(trec_files):
        raise MirageError(
            f"--from {form} takes SOURCE; --topics, --qrels and --passages go with --from trec"
        )
    if form == "jsonl":
        return MirageDataset.from_jsonl(file_of(source)), [], []
    if form == "nomiracl":
        from mirage.sources import nomiracl

        read = nomiracl.load(place_of(source), _needed(language, form))
        return read.dataset, list(read.runs.values()), []
    from mirage.sources import memerag

    known = memerag.load(file_of(source), _needed(language, form))
    return known.dataset, [known.run], _labels(known)


def _needed(language: str | None, form: str) -> str:
    if language is None:
        raise MirageError(f"{form} does not say the language of its queries: give --language CODE")
    return language


def _labels(read: Any) -> Labelled:
    """Labelled sentences as `LabelledSentences.from_jsonl` reads them."""
    rows = []
    for sentence in read.sentences:
        query = read.dataset[sentence.query_id]
        row = {
            "query_id": query.id,
            "query": query.text,
            "language": query.language,
            "passages": [passage.model_dump() for passage in query.passages],
            "sentence": sentence.text,
            "label": list(sentence.factuality),
        }
        if any(sentence.fine):
            row["fine"] = list(sentence.fine)
        rows.append(row)
    return rows


# Writing ------------------------------------------------------------------------------------------


def _write_queries(dataset: MirageDataset, file: Path | None) -> None:
    if file is None:
        print_records(dataset)
    else:
        dataset.to_jsonl(file)


def _write_trec(dataset: MirageDataset, folder: Path) -> None:
    from mirage._base.files import write_records
    from mirage.integrations import trec

    passages: dict[str, Any] = {}
    for query in dataset:
        for passage in query.passages:
            if passages.setdefault(passage.id, passage) != passage:
                raise DatasetError(
                    f"query {query.id!r}: passage {passage.id!r} has another text than in a query "
                    "before; in TREC's files an id names one passage"
                )
    for query in dataset:
        if {"\t", "\n", "\r"} & {*query.id, *query.text} or " " in query.id:
            raise DatasetError(
                f"query {query.id!r}: TREC's topics are lines id<TAB>text, with no room "
                "for its tabs, line ends or blanks in the id"
            )
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{query.id}\t{query.text}\n" for query in dataset)
    (folder / "topics.tsv").write_text(text, encoding="utf-8")
    trec.write_qrels(trec.qrels(dataset), folder / "qrels.txt")
    write_records(passages.values(), folder / "passages.jsonl")


def _write_runs(runs: Iterable[Run], folder: Path) -> None:
    from mirage.dataset import write_run

    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        write_run(run, folder / f"{run.model.replace('/', '_')}.jsonl")


def _write_labels(rows: Labelled, path: Path) -> None:
    import json

    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
