"""Commands about rankings: rank, report, published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirage.cli.inputs import (
    AllowFailedOption,
    DatasetOption,
    JobsOption,
    JsonOption,
    LanguageArgument,
    NamesOption,
    ResponsesArgument,
    check_folder,
    dataset_of,
    file_of,
    place_of,
    run_names,
)
from mirage.cli.shell import example, fell_short, out, say
from mirage.errors import ArtifactError, MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.leaderboard import Leaderboard
    from mirage.models import Run
    from mirage.ranking import Ranking
    from mirage.report.judges import JudgeFinding
    from mirage.surrogate import SurrogateRanker

__all__ = ["TrustOption", "add_to", "loaded"]

OfficialOption = Annotated[
    bool,
    typer.Option(
        "--official",
        help="Rank among the 19 LLMs of MIRAGE-Bench, on its queries (extra hub; downloads).",
    ),
]
CopiesOption = Annotated[
    Path | None,
    typer.Option(
        "--copies",
        metavar="FOLDER",
        help="With --official: copies of the benchmark's datasets, in place of the hub.",
        show_default=False,
    ),
]
SurrogateOption = Annotated[
    Path | None,
    typer.Option(
        "--surrogate",
        metavar="FILE",
        help="With --dataset: a surrogate that `mirage surrogate train` wrote.",
        show_default=False,
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust", help="Read a surrogate that no manifest names; such a file can run code."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog=example(
            "mirage rank sw my-rag.jsonl --at-least anchor/uncited",
            "my-pipeline | mirage rank sw - --name my-rag --json",
        )
    )(rank)
    app.command(epilog=example("mirage report sw my-rag.jsonl --out report.html"))(report)
    app.command(epilog=example("mirage published sw"))(published)


def rank(
    language: LanguageArgument,
    responses: ResponsesArgument,
    name: NamesOption = None,
    at_least: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="Fall short (status 1) where a model is not better than this one, with the "
            "confidence below; may be repeated.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="P", help="Of --at-least; 0.5 asks to be ahead, no more.")
    ] = 0.9,
    allow_failed: AllowFailedOption = 0,
    dataset: DatasetOption = None,
    surrogate: SurrogateOption = None,
    trust: TrustOption = False,
    official: OfficialOption = False,
    copies: CopiesOption = None,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Rank models by their responses, with 95 % intervals.

    They stand among models that were ranked before. The queries are, by default, the bundled
    ones of a language, which `mirage queries` prints.
    """
    board = _board(language, dataset, surrogate, trust, official, copies)
    names = run_names(responses, name)
    known = [*(board.prefix + anchor for anchor in board.anchors), *names]
    for other in at_least or ():
        if other not in known:
            raise UnknownNameError("model of this ranking", other, known)
    ranking = _ranked(board, responses, name, jobs)
    out(ranking.to_json() if as_json else _emphasised(str(ranking)))
    reasons = [
        _not_above(ranking, model, other, confidence, allow_failed)
        for other in at_least or ()
        for model in names
    ]
    if any(reasons):
        fell_short(list(filter(None, reasons)))


def report(
    language: LanguageArgument,
    responses: ResponsesArgument,
    file: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The page to write.", show_default=False)
    ],
    name: NamesOption = None,
    dataset: DatasetOption = None,
    surrogate: SurrogateOption = None,
    trust: TrustOption = False,
    official: OfficialOption = False,
    copies: CopiesOption = None,
    votes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Votes of judges: shows how far they agree, and their biases.",
            show_default=False,
        ),
    ] = None,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Rank models, and write all about it as one HTML page."""
    from mirage.report import write

    check_folder(file)
    board = _board(language, dataset, surrogate, trust, official, copies)
    ranking = _ranked(board, responses, name, jobs)
    runs = ranking.evidence.runs.values() if ranking.evidence else ()
    findings = _findings(votes, board.dataset, runs) if votes is not None else ()
    write(ranking, file, judges=findings)
    out(ranking.to_json() if as_json else f"{file}: written")


def published(language: LanguageArgument, as_json: JsonOption = False) -> None:
    """Print the MIRAGE-Bench paper's ranking of 19 LLMs."""
    from mirage.leaderboard import Leaderboard

    ranking = Leaderboard.published(language)
    out(ranking.to_json() if as_json else str(ranking))


def _board(
    language: str,
    dataset: Path | None,
    surrogate: Path | None,
    trust: bool,
    official: bool,
    copies: Path | None,
) -> Leaderboard:
    """The leaderboard that the options name."""
    from mirage.leaderboard import Leaderboard

    if (dataset is None) != (surrogate is None):
        raise MirageError(
            "--dataset and --surrogate go together: a surrogate knows the queries that it was "
            "trained on"
        )
    if official and dataset is not None:
        raise MirageError("--official brings its own queries; leave out --dataset")
    if copies is not None and not official:
        raise MirageError("--copies goes with --official")
    if official:
        return Leaderboard.from_hub(language, path=None if copies is None else place_of(copies))
    if dataset is None or surrogate is None:
        return Leaderboard.bundled(language)
    from mirage.features import FeatureSuite

    queries = dataset_of(language, dataset)
    ranker = loaded(surrogate, trust)
    return Leaderboard(queries, FeatureSuite(ranker.features, queries.language), ranker)


def loaded(path: Path, trust: bool) -> SurrogateRanker:
    """The surrogate in a file.

    Raises:
        ArtifactError: it cannot be read, or is in no manifest and not trusted.
    """
    from mirage.surrogate import SurrogateRanker
    from mirage.surrogate.artifacts import MANIFEST

    file = file_of(path)
    if not trust and not (file.parent / MANIFEST).is_file():
        raise ArtifactError(
            f"{path}: reading a surrogate runs code that the file brings along; say --trust if you "
            "made it or trust who did"
        )
    return SurrogateRanker.load(file, trust=trust)


def _ranked(
    board: Leaderboard, paths: Sequence[Path], names: Sequence[str] | None, jobs: int
) -> Ranking:
    models = dict(zip(run_names(paths, names), map(file_of, paths), strict=True))
    return board.rank_all(models, n_jobs=jobs)


def _not_above(
    ranking: Ranking, model: str, other: str, confidence: float, allow_failed: int
) -> str | None:
    """Why a model is not known to be better than another one, if it is not."""
    from mirage.testing import FellShortError, assert_ranks

    try:
        assert_ranks(ranking, other, confidence, name=model, allow_failed=allow_failed)
    except FellShortError as error:
        return str(error)
    return None


def _findings(path: Path, dataset: MirageDataset, runs: Iterable[Run]) -> list[JudgeFinding]:
    """What votes say about the judges who cast them, as far as they do."""
    from mirage._base.files import read_rows, validated
    from mirage.arena import judge_agreement, position_bias, verbosity_bias
    from mirage.errors import JudgmentError
    from mirage.models import Vote

    votes = [validated(Vote, row, where) for where, row in read_rows(file_of(path))]
    found: list[JudgeFinding] = []
    measures = (
        judge_agreement,
        position_bias,
        lambda votes: verbosity_bias(votes, dataset, runs),
    )
    for measure in measures:
        try:
            found.append(measure(votes))
        except (JudgmentError, UnknownNameError) as error:
            say(f"not in the report: {error}")
    return found


def _emphasised(text: str) -> str:
    """A table with the rows that it marks in bold, which shows on terminals only."""
    return "\n".join(
        typer.style(line, bold=True) if line.startswith("*") else line for line in text.split("\n")
    )
