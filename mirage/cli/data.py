"""mirage data: describes datasets, builds them and converts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from mirage.cli import _options as options
from mirage.cli._inputs import file_of, is_language, place_of
from mirage.cli._output import out_either, print_records, summarise
from mirage.cli._shell import argument, example, fall_short, flag, group, option
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.models import Run
    from mirage.sources.memerag import Memerag
    from mirage.sources.survey import Survey

SOURCES = ("jsonl", "trec", "nomiracl", "memerag")
TARGETS = ("jsonl", "trec")

TOPICS = option("FILE", "Lines id<TAB>text.")
QRELS = option("FILE", "Lines id Q0 passage-id relevance.")
PASSAGES = option("FILE", "JSON Lines of passages.")

__all__ = ["commands"]

commands = group("data", "Look into datasets, build and convert them.")


# Describe -----------------------------------------------------------------------------------------


@commands.command(epilog=example("mirage data describe queries.jsonl", "mirage data describe sw"))
def describe(
    sources: Annotated[
        list[str],
        argument("LANGUAGE|FILE", "Queries: bundled ones, or JSON Lines; - is standard input."),
    ],
    as_json: options.Json = False,
) -> None:
    """Say what is in datasets, and what is wrong with them.

    Falls short (status 1) where something is wrong.
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
    language: Annotated[str, option("CODE", "Of the queries.")],
    topics: Annotated[Path, TOPICS],
    qrels: Annotated[Path, QRELS],
    passages: Annotated[Path | None, PASSAGES] = None,
    file: Annotated[
        Path | None,
        option("FILE", "The queries as JSON Lines.  [default: standard output]", "--out"),
    ] = None,
    sample: Annotated[
        int | None, option("N", "Draw so many queries.  [default: all]", min=0)
    ] = None,
    relevant_only: Annotated[
        int, option("N", "Also so many of those without a non-relevant passage.", min=0)
    ] = 0,
    miracl: Annotated[bool, flag("Draw what MIRAGE-Bench drew of MIRACL.", "--miracl")] = False,
    seed: options.Seed = 0,
    as_json: options.SummaryJson = False,
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
    reasons = Counter(dropped.values())
    parts = (
        f"{len(dataset)} queries in {code!r}",
        *(f"{n} dropped: {why}" for why, n in reasons.items()),
    )
    plain = {"queries": len(dataset), "language": code, "dropped": dropped}
    summarise("; ".join(parts), plain, file, as_json)


# Convert ------------------------------------------------------------------------------------------


@commands.command(
    epilog=example(
        "mirage data convert nomiracl/ --from nomiracl --language sw --runs runs/ > sw.jsonl",
        "mirage data convert queries.jsonl --to trec --out trec/",
        "mirage data convert --from trec --topics t.tsv --qrels q.txt --language sw > sw.jsonl",
    )
)
def convert(
    source: Annotated[
        Path | None,
        argument(
            "SOURCE",
            "JSON Lines, a folder of NoMIRACL, or a file of MEMERAG; none for --from trec.",
        ),
    ] = None,
    from_: Annotated[str, option("FORM", ", ".join(SOURCES), "--from")] = "jsonl",
    to: Annotated[str, option("FORM", ", ".join(TARGETS))] = "jsonl",
    language: Annotated[str | None, option("CODE", "Of the queries; JSON Lines say it.")] = None,
    file: Annotated[
        Path | None,
        option("PATH", "A file; for trec, a folder.  [default: standard output]", "--out"),
    ] = None,
    runs: Annotated[
        Path | None,
        option("FOLDER", "Write recorded responses here, a file a model (nomiracl, memerag)."),
    ] = None,
    labels: Annotated[
        Path | None,
        option("FILE", "Write the labelled sentences here, for `mirage metaeval` (memerag)."),
    ] = None,
    topics: Annotated[Path | None, TOPICS] = None,
    qrels: Annotated[Path | None, QRELS] = None,
    passages: Annotated[Path | None, PASSAGES] = None,
    as_json: options.SummaryJson = False,
) -> None:
    """Convert a dataset between forms.

    From JSON Lines, TREC, NoMIRACL or MEMERAG, to JSON Lines or TREC.
    """
    from mirage.dataset import write_run

    for form, known in ((from_, SOURCES), (to, TARGETS)):
        if form not in known:
            raise UnknownNameError("form of a dataset", form, known)
    if to == "trec" and file is None:
        raise MirageError("TREC is three files: give --out FOLDER")
    content = _content(source, from_, language, topics, qrels, passages)
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
            write_run(run, runs / f"{name}.jsonl")
    if labels is not None and content.memerag is not None:
        content.memerag.write_labels(labels)
    plain = {"queries": len(dataset), "language": dataset.language, "runs": len(content.runs)}
    summarise(f"{len(dataset)} queries in {dataset.language!r}", plain, file, as_json)


def _file_names(runs: Sequence[Run]) -> list[str]:
    """Return a name for the file of each run, without slashes, and no two the same."""
    from mirage._base.files import file_name

    plain = [file_name(run.model.replace("/", "_")) for run in runs]
    count = Counter(plain)
    return [
        name if count[name] == 1 else file_name(run.model)
        for run, name in zip(runs, plain, strict=True)
    ]


class _Content(NamedTuple):
    """A dataset, with the responses and the labelled sentences that came along."""

    dataset: MirageDataset
    runs: Sequence[Run] = ()
    memerag: Memerag | None = None


def _content(
    source: Path | None,
    form: str,
    language: str | None,
    topics: Path | None,
    qrels: Path | None,
    passages: Path | None,
) -> _Content:
    from mirage.dataset import MirageDataset

    def code() -> str:
        if language is None:
            raise MirageError(
                f"{form} does not say the language of its queries: give --language CODE"
            )
        return language

    if form == "trec":
        if source is not None or topics is None or qrels is None:
            raise MirageError("--from trec takes --topics and --qrels, and no SOURCE")
        texts = None if passages is None else file_of(passages)
        return _Content(
            MirageDataset.from_trec(file_of(topics), file_of(qrels), texts, language=code())
        )
    if source is None or topics or qrels or passages:
        raise MirageError(
            f"--from {form} takes SOURCE; --topics, --qrels and --passages go with --from trec"
        )
    if form == "jsonl":
        return _Content(MirageDataset.from_jsonl(file_of(source)))
    if form == "nomiracl":
        from mirage.sources import nomiracl

        loaded = nomiracl.load(place_of(source), code())
        return _Content(loaded.dataset, tuple(loaded.runs.values()))
    from mirage.sources import memerag

    labelled = memerag.load(file_of(source), code())
    return _Content(labelled.dataset, [labelled.run], labelled)


def _write_queries(dataset: MirageDataset, file: Path | None) -> None:
    if file is None:
        print_records(dataset)
    else:
        dataset.to_jsonl(file)
