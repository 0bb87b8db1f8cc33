"""mirage data: print, describe, build and convert datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from mirage.cli import _options as options
from mirage.cli._inputs import dataset_of, existing, file_of, is_language, language_of
from mirage.cli._output import out_either, out_json_text, print_records, summarise
from mirage.cli._shell import argument, example, fall_short, flag, group, option
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.models import Run
    from mirage.sources.memerag import Memerag
    from mirage.sources.survey import Survey

SOURCES = ("jsonl", "trec", "nomiracl", "memerag")
TARGETS = ("jsonl", "trec")

commands = group("data", "Print, describe, build and convert datasets.")


# Queries ------------------------------------------------------------------------------------------


@commands.command(epilog=example("mirage data queries sw --level hard > queries.jsonl"))
def queries(
    source: Annotated[
        str,
        argument(
            "LANGUAGE|FILE",
            "Language code, which selects the bundled queries, or a JSON Lines file of queries; - "
            "reads standard input.",
        ),
    ],
    level: options.Level = "quick",
) -> None:
    """Print queries, as JSON Lines, for a system under test.

    Each line has a query with its passages, but no reference, answers or relevance judgments.
    """
    from mirage.dataset import MirageDataset
    from mirage.models import GOLD

    if is_language(source):
        dataset = MirageDataset.bundled(source, level=level)
    else:
        dataset = MirageDataset.load(file_of(Path(source)))
    for query in dataset:
        out_json_text(query.model_dump_json(exclude=set(GOLD)))


# Describe -----------------------------------------------------------------------------------------


@commands.command(epilog=example("mirage data describe queries.jsonl", "mirage data describe sw"))
def describe(
    sources: Annotated[
        list[str],
        argument(
            "LANGUAGE|FILE",
            "Language codes, which select the bundled queries, or JSON Lines files of queries; - "
            "reads standard input.",
        ),
    ],
    level: options.Level = "quick",
    as_json: options.Json = False,
) -> None:
    """Count queries, passages and labels, and list problems.

    Problems are errors in a dataset, such as a repeated query id or an empty passage. The exit
    status is 1 if a dataset has a problem.
    """
    surveys = [_survey(source, level) for source in sources]
    out_either("\n\n".join(map(str, surveys)), [each.to_dict() for each in surveys], as_json)
    fall_short(
        f"{each.name}: {len(each.problems)} problems; --json lists all"
        for each in surveys
        if each.problems
    )


def _survey(source: str, level: str) -> Survey:
    from mirage.dataset import MirageDataset
    from mirage.sources.survey import survey, survey_file

    if not is_language(source):
        return survey_file(file_of(Path(source)))
    dataset = MirageDataset.bundled(source, level=level)
    return survey(dataset.name, dataset)


# Build --------------------------------------------------------------------------------------------


@commands.command(
    epilog=example(
        "mirage data build --language sw --topics topics.tsv --qrels qrels.txt --passages "
        "passages.jsonl --out benchmark.jsonl"
    )
)
def build(
    topics: Annotated[Path, option("FILE", "TREC topics: one query per line, as id<TAB>text.")],
    qrels: Annotated[
        Path, option("FILE", "TREC qrels: lines of the form id Q0 passage relevance.")
    ],
    language: options.RequiredLanguage = None,
    passages: Annotated[
        Path | None,
        option(
            "FILE",
            'Texts of the passages as JSON Lines, {"id": ..., "text": ...} per line.  [default: '
            "the queries get no passages]",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the queries to this file, as JSON Lines.  [default: standard output]",
            "--out",
        ),
    ] = None,
    sample: Annotated[
        int | None, option("N", "Number of queries to sample.  [default: all]", min=0)
    ] = None,
    miracl: Annotated[
        bool,
        flag(
            "For MIRACL topics: sample as many queries as MIRAGE-Bench did in this language.",
            "--miracl",
        ),
    ] = False,
    seed: options.Seed = 0,
) -> None:
    """Build a benchmark from TREC topics and qrels.

    As in MIRAGE-Bench, the benchmark consists of the queries that have both relevant and
    non-relevant passages.
    """
    from mirage.testsets import MIRACL_RECIPE, build_benchmark
    from mirage.testsets.evaluation_sets import Recipe

    if miracl and sample is not None:
        raise MirageError("--miracl already sets the number of sampled queries; leave out --sample")
    code = language_of(language)
    recipe = MIRACL_RECIPE[code] if miracl else Recipe(sample)
    dataset, dropped = build_benchmark(
        file_of(topics),
        file_of(qrels),
        None if passages is None else file_of(passages),
        language=code,
        recipe=recipe,
        seed=seed,
    )
    _write_queries(dataset, file)
    reasons = Counter(dropped.values())
    parts = (
        f"{len(dataset)} queries in {code!r}",
        *(f"{n} dropped: {why}" for why, n in reasons.items()),
    )
    summarise("; ".join(parts), file)


# Convert ------------------------------------------------------------------------------------------


@commands.command(
    epilog=example(
        "mirage data convert nomiracl/ --from nomiracl --language sw --runs runs/ > sw.jsonl",
        "mirage data convert queries.jsonl --to trec --out trec/",
        "mirage data convert trec/ --from trec --language sw > sw.jsonl",
    )
)
def convert(
    source: Annotated[
        Path,
        argument(
            "SOURCE",
            "A JSON Lines file, a NoMIRACL folder, a MEMERAG file, or a folder with the TREC "
            "files topics.tsv, qrels.txt and, optionally, passages.jsonl.",
        ),
    ],
    from_: Annotated[
        str, option("FORMAT", f"Format of SOURCE: {', '.join(SOURCES)}.", "--from")
    ] = ("jsonl"),
    to: Annotated[str, option("FORMAT", f"Format to write: {' or '.join(TARGETS)}.")] = "jsonl",
    language: Annotated[
        str | None,
        options.language_option(
            "Language of the queries as an ISO 639-1 code, such as sw. Required unless SOURCE is "
            "JSON Lines."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        option(
            "PATH",
            "Write the dataset to this file or, with --to trec, to this folder.  [default: "
            "standard output]",
            "--out",
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        option(
            "FOLDER",
            "With --from nomiracl or memerag: also write the recorded responses into this folder, "
            "with one file per model.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        option(
            "FILE",
            "With --from memerag: also write the labelled sentences, for `mirage metaeval`.",
        ),
    ] = None,
) -> None:
    """Convert a dataset to JSON Lines or to TREC files.

    The command reads JSON Lines, TREC files and the published datasets NoMIRACL and MEMERAG.
    """

    for form, forms in ((from_, SOURCES), (to, TARGETS)):
        if form not in forms:
            raise UnknownNameError("dataset format", form, forms)
    if to == "trec" and file is None:
        raise MirageError(
            "--to trec writes several files; give a folder for them with --out FOLDER"
        )
    content = _content(source, from_, language)
    if runs is not None and not content.runs:
        raise MirageError(
            f"a dataset in the format {from_} has no recorded responses; leave out --runs"
        )
    if labels is not None and content.memerag is None:
        raise MirageError(f"a dataset in the format {from_} has no labels; leave out --labels")
    dataset = content.dataset
    if to == "trec" and file is not None:
        from mirage.integrations import trec

        trec.write_dataset(dataset, file)
    else:
        _write_queries(dataset, file)
    if runs is not None:
        runs.mkdir(parents=True, exist_ok=True)
        for run, name in zip(content.runs, _file_names(content.runs), strict=True):
            run.save(runs / f"{name}.jsonl")
    if labels is not None and content.memerag is not None:
        content.memerag.write_labels(labels)
    summarise(f"{len(dataset)} queries in {dataset.language!r}", file)


def _file_names(runs: Sequence[Run]) -> list[str]:
    """Return a unique file name for each run, without slashes."""
    from mirage._base.files import file_name

    plain = [file_name(run.model.replace("/", "_")) for run in runs]
    count = Counter(plain)
    return [
        name if count[name] == 1 else file_name(run.model)
        for run, name in zip(runs, plain, strict=True)
    ]


class _Content(NamedTuple):
    """A dataset, with its recorded responses and labelled sentences, if any."""

    dataset: MirageDataset
    runs: Sequence[Run] = ()
    memerag: Memerag | None = None


def _content(source: Path, form: str, language: str | None) -> _Content:
    if form == "jsonl":
        return _Content(dataset_of(language, source))
    code = language_of(language, f", because {form} files do not name their language")
    if form == "trec":
        return _Content(_read_trec(source, code))
    if form == "nomiracl":
        from mirage.sources import nomiracl

        loaded = nomiracl.load(existing(source), code)
        return _Content(loaded.dataset, tuple(loaded.runs.values()))
    from mirage.sources import memerag

    labelled = memerag.load(file_of(source), code)
    return _Content(labelled.dataset, [labelled.run], labelled)


def _read_trec(folder: Path, language: str) -> MirageDataset:
    from mirage.dataset import MirageDataset

    passages = existing(folder) / "passages.jsonl"
    return MirageDataset.from_trec(
        existing(folder / "topics.tsv"),
        existing(folder / "qrels.txt"),
        passages if passages.exists() else None,
        language=language,
    )


def _write_queries(dataset: MirageDataset, file: Path | None) -> None:
    if file is None:
        print_records(dataset)
    else:
        dataset.save(file)
