"""mirage data: print, describe, build and convert datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from mirage.cli import _options as options
from mirage.cli._inputs import existing, file_of, is_language, language_of
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


@commands.command(epilog=example("mirage data queries sw > queries.jsonl"))
def queries(
    source: Annotated[
        str, argument("LANGUAGE|FILE", "The bundled queries of a language, or JSON Lines.")
    ],
) -> None:
    """Print queries as a system under test receives them.

    Each line is a query with its passages, without references, answers and relevance.
    """
    from mirage.dataset import MirageDataset
    from mirage.models import GOLD

    if is_language(source):
        dataset = MirageDataset.bundled(source)
    else:
        dataset = MirageDataset.load(file_of(Path(source)))
    for query in dataset:
        out_json_text(query.model_dump_json(exclude=set(GOLD)))


# Describe -----------------------------------------------------------------------------------------


@commands.command(epilog=example("mirage data describe queries.jsonl", "mirage data describe sw"))
def describe(
    sources: Annotated[
        list[str],
        argument("LANGUAGE|FILE", "Queries: bundled ones, or JSON Lines; - is standard input."),
    ],
    as_json: options.Json = False,
) -> None:
    """Count the contents of datasets, and list their problems.

    Falls short (status 1) if there is a problem.
    """
    surveys = list(map(_survey, sources))
    out_either("\n\n".join(map(str, surveys)), [each.to_dict() for each in surveys], as_json)
    fall_short(
        f"{each.name}: {len(each.problems)} problems; --json lists all"
        for each in surveys
        if each.problems
    )


def _survey(source: str) -> Survey:
    from mirage.dataset import MirageDataset
    from mirage.sources.survey import survey, survey_file

    if not is_language(source):
        return survey_file(file_of(Path(source)))
    dataset = MirageDataset.bundled(source)
    return survey(dataset.name, dataset)


# Build --------------------------------------------------------------------------------------------


@commands.command(
    epilog=example(
        "mirage data build --language sw --topics topics.tsv --qrels qrels.txt --passages "
        "passages.jsonl --out benchmark.jsonl"
    )
)
def build(
    topics: Annotated[Path, option("FILE", "Lines id<TAB>text.")],
    qrels: Annotated[Path, option("FILE", "Lines id Q0 passage-id relevance.")],
    language: options.Language = None,
    passages: Annotated[Path | None, option("FILE", "JSON Lines of passages.")] = None,
    file: Annotated[
        Path | None,
        option("FILE", "The queries as JSON Lines.  [default: standard output]", "--out"),
    ] = None,
    sample: Annotated[
        int | None, option("N", "Sample this many queries.  [default: all]", min=0)
    ] = None,
    miracl: Annotated[
        bool, flag("Sample the numbers that MIRAGE-Bench sampled from MIRACL.", "--miracl")
    ] = False,
    seed: options.Seed = 0,
) -> None:
    """Build a benchmark from a retrieval dataset.

    As in MIRAGE-Bench, it has the queries with relevant and non-relevant passages.
    """
    from mirage.testsets import MIRACL_RECIPE, Recipe, build_benchmark

    if miracl and sample is not None:
        raise MirageError("--miracl sets the number to sample; leave out --sample")
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
            "JSON Lines; a folder of NoMIRACL; a file of MEMERAG; or a folder of TREC with "
            "topics.tsv, qrels.txt and, if there are passages, passages.jsonl.",
        ),
    ],
    from_: Annotated[str, option("FORM", ", ".join(SOURCES), "--from")] = "jsonl",
    to: Annotated[str, option("FORM", ", ".join(TARGETS))] = "jsonl",
    language: options.Language = None,
    file: Annotated[
        Path | None,
        option("PATH", "A file; for trec, a folder.  [default: standard output]", "--out"),
    ] = None,
    runs: Annotated[
        Path | None,
        option("FOLDER", "Also write recorded responses, one file per model (nomiracl, memerag)."),
    ] = None,
    labels: Annotated[
        Path | None,
        option("FILE", "Also write the labelled sentences, for `mirage metaeval` (memerag)."),
    ] = None,
) -> None:
    """Convert a dataset to JSON Lines or TREC.

    The source is JSON Lines, TREC, NoMIRACL or MEMERAG.
    """

    for form, forms in ((from_, SOURCES), (to, TARGETS)):
        if form not in forms:
            raise UnknownNameError("form of a dataset", form, forms)
    if to == "trec" and file is None:
        raise MirageError("TREC is three files: give --out FOLDER")
    content = _content(source, from_, language)
    if runs is not None and not content.runs:
        raise MirageError(f"--runs: {from_} holds no responses")
    if labels is not None and content.memerag is None:
        raise MirageError(f"--labels: {from_} holds no labels")
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
    from mirage.dataset import MirageDataset

    if form == "jsonl":
        return _Content(MirageDataset.load(file_of(source)))
    code = language_of(language, f", for {form} does not name it")
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
