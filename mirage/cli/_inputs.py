"""What commands are given: files, datasets, runs, surrogates and numbers by name."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mirage._base.quoting import utf8_text
from mirage._base.rows import first_duplicate
from mirage.errors import ArtifactError, DatasetError, MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.leaderboard import Leaderboard
    from mirage.metaeval import LabelledSentences, Score
    from mirage.models import Query, Run
    from mirage.ranking import Ranking
    from mirage.sources.logs import Log
    from mirage.surrogate import SurrogateRanker

__all__ = [
    "check_folder",
    "dataset_of",
    "file_of",
    "forget_standard_input",
    "is_language",
    "is_log",
    "labelled_of",
    "leaderboard_of",
    "log_fields",
    "log_of",
    "named",
    "named_numbers",
    "named_texts",
    "place_of",
    "queries_of",
    "ranked",
    "ranker_of",
    "run_names",
    "runs_of",
    "score_of",
]

STDIN = "-"
_FILES: list[Path] = []  # what stood on standard input


# Standard input -----------------------------------------------------------------------------------


def _standard_input() -> Path:
    """Return a file with the content of standard input; it is gone when the command ends."""
    from tempfile import mkdtemp

    from mirage._base.inputs import chunks

    if _FILES:
        raise MirageError("standard input (-) can be read once only; give a file for the other")
    path = Path(mkdtemp(prefix="mirage-")) / "stdin.jsonl"
    _FILES.append(path)
    try:
        content = chunks(sys.stdin.buffer, "standard input")
        with path.open("xb") as file:  # in a folder of its own
            file.writelines(content)
    except OSError as error:
        raise MirageError(f"standard input cannot be read ({error.strerror})") from error
    return path


def named(text: str) -> str:
    """A text in which standard input is called so, and not by the file it is kept in."""
    for path in _FILES:
        text = text.replace(str(path), "standard input")
    return text


def forget_standard_input() -> None:
    """Remove the file."""
    from shutil import rmtree

    while _FILES:
        rmtree(_FILES.pop().parent, ignore_errors=True)


# Files --------------------------------------------------------------------------------------------


def file_of(path: Path) -> Path:
    """A file to read: the path itself, or what stands on standard input for ``-``."""
    if str(path) == STDIN:
        return _standard_input()
    if place_of(path).is_dir():
        inside = sorted(file.name for file in path.glob("*.jsonl"))
        which = f"; did you mean {path / inside[0]}?" if len(inside) == 1 else ""
        raise DatasetError(f"{path}: is a folder, and a file is needed{which}")
    return path


def place_of(path: Path) -> Path:
    """A file or folder that is there."""
    if path.exists():
        return path
    raise DatasetError(f"{path}: no such file{_nearest(path)}")


def check_folder(path: Path | None) -> None:
    """Refuse, before the work is done, a file to write in a folder that is not there."""
    if path is not None and not path.parent.is_dir():
        raise MirageError(f"{path}: there is no folder {path.parent}; make it first")


def _nearest(path: Path) -> str:
    """A hint at the entry of the nearest folder that comes nearest to what is missing there."""
    folder, missing = path.parent, path.name
    while not folder.is_dir() and folder != folder.parent:
        folder, missing = folder.parent, folder.name
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return ""
    # Endings are left out: most files here share theirs, and would look alike for it.
    alike = [name for name in entries if Path(name).suffix == path.suffix]
    by_stem = {Path(name).stem: name for name in (*entries, *alike)}
    close = difflib.get_close_matches(Path(missing).stem, by_stem, n=1)
    if close:
        return f"; did you mean {folder / by_stem[close[0]]}?"
    if folder != path.parent:
        return f"; {folder.absolute()} has no {missing}"
    if not path.suffix or not alike:
        return ""
    return f"; {folder.absolute()} has {', '.join(alike[:5])}"


# Datasets, runs and surrogates --------------------------------------------------------------------


def is_language(source: str) -> bool:
    """Whether a language is meant, and no file; one that is misspelt is an error."""
    from mirage.languages import LANGUAGES, Language

    path = Path(source)
    if source in LANGUAGES:
        return True
    if source != STDIN and not path.exists() and not path.suffix and len(path.parts) == 1:
        Language.of(source)
    return False


def dataset_of(language: str, path: Path | None) -> MirageDataset:
    """The queries in a file, or the bundled ones."""
    from mirage.dataset import MirageDataset
    from mirage.languages import Language

    code = Language.of(language).code
    if path is None:
        return MirageDataset.bundled(code)
    dataset = MirageDataset.from_jsonl(file_of(path))
    if dataset.language != code:
        raise DatasetError(
            f"{path} is in {dataset.language!r}, and not in {code!r}; write the command with "
            f"{dataset.language}"
        )
    return dataset


def run_names(paths: Sequence[Path], names: Sequence[str] | None) -> list[str]:
    """A name for the model behind each file."""
    if names and len(names) != len(paths):
        raise MirageError(
            f"there are {len(names)} names for {len(paths)} files of responses; give --name once "
            "a file, or not at all"
        )
    models = list(
        names or ("stdin" if str(path) == STDIN else utf8_text(path.stem) for path in paths)
    )
    twice = first_duplicate(models)
    if twice is not None:
        raise MirageError(f"two models are called {twice!r}; give --name once a file")
    return models


def runs_of(language: str, paths: Sequence[Path], names: Sequence[str] | None) -> list[Run]:
    """The runs in files of responses."""
    from mirage.dataset import read_run

    return [
        read_run(file_of(path), language=language, model=name)
        for path, name in zip(paths, run_names(paths, names), strict=True)
    ]


def log_fields(texts: Iterable[str] | None, cluster: str | None = None) -> dict[str, str]:
    """What a log calls its fields, from ``--field question=input.text`` and ``--cluster``."""
    fields = named_texts("--field", texts or (), "FIELD=NAME, such as question=input.text")
    return fields if cluster is None else {**fields, "cluster": cluster}


def is_log(path: Path, fields: Mapping[str, str]) -> bool:
    """Whether a file is a log, and not one of responses."""
    from mirage.sources import logs

    return bool(fields) or logs.is_log(path, fields)


def log_of(language: str, path: Path, fields: Mapping[str, str], name: str = "") -> Log:
    """The log in a file."""
    from mirage.sources import logs

    return logs.read(path, language=language, fields=fields, model=name)


def ranker_of(path: Path, trust: bool) -> SurrogateRanker:
    """The surrogate in a file."""
    from mirage.surrogate import SurrogateRanker
    from mirage.surrogate.artifacts import ships

    file = file_of(path)
    if not trust and not ships(file):
        raise ArtifactError(
            f"{path}: is none of the surrogates that ship; say --trust if you made it or trust who "
            "did, for it decides which model stands above which, and one in joblib runs code"
        )
    return SurrogateRanker.load(file, trust=trust)


# Retrieval ----------------------------------------------------------------------------------------


def queries_of(source: str, language: str | None) -> Sequence[Query]:
    """The bundled queries of a language, or those of a file."""
    from mirage.dataset import MirageDataset
    from mirage.languages import Language
    from mirage.models import Query
    from mirage.sources.trec import read_topics

    if is_language(source):
        return MirageDataset.bundled(source)
    path = file_of(Path(source))
    if path.suffix != ".tsv":
        return MirageDataset.from_qa(path, language=language)
    if language is None:
        raise MirageError(f"{source}: topics do not say their language; give --language CODE")
    code = Language.of(language).code
    topics = read_topics(path).items()
    return [Query(id=id_, language=code, text=text) for id_, text in topics]


# Leaderboards -------------------------------------------------------------------------------------


def leaderboard_of(
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
    ranker = ranker_of(surrogate, trust)
    return Leaderboard(queries, FeatureSuite(ranker.features, queries.language), ranker)


def ranked(
    board: Leaderboard, paths: Sequence[Path], names: Sequence[str] | None, jobs: int
) -> Ranking:
    """The models behind files of responses, ranked."""
    models = dict(zip(run_names(paths, names), map(file_of, paths), strict=True))
    return board.rank_all(models, n_jobs=jobs)


# Labels of sentences -----------------------------------------------------------------------------

TASKS = ("faithfulness", "relevance")
"""What MEMERAG's annotators were asked."""


def labelled_of(
    path: Path, language: str | None, positive: str, task: str = "faithfulness"
) -> LabelledSentences:
    """The labelled sentences of a file, or of a folder of MEMERAG."""
    from mirage.metaeval import LabelledSentences

    if path.is_dir():
        if task not in TASKS:
            raise UnknownNameError("task of MEMERAG", task, TASKS)
        return LabelledSentences.memerag(path, task=task)  # type: ignore[arg-type]
    return LabelledSentences.from_jsonl(file_of(path), language=language, positive=positive)


def score_of(text: str) -> Score:
    """A feature as a judge, from ``support_lexical`` or ``support_lexical=0.8``."""
    from mirage.metaeval import score

    name, equals, _ = text.rpartition("=")
    return score(name, named_numbers("--judge", [text])[name]) if equals else score(text)


# Texts and numbers by name ------------------------------------------------------------------------


def named_texts(
    option: str, texts: Iterable[str], expected: str = "AXIS=VALUE, such as retriever=bm25"
) -> dict[str, str]:
    """The settings that options of the form AXIS=VALUE give."""
    settings = {}
    for text in texts:
        axis, equals, value = text.partition("=")
        if not equals:
            raise MirageError(f"{option} {text!r}: expected {expected}")
        settings[axis] = value
    return settings


def named_numbers(option: str, texts: Iterable[str] | None) -> dict[str, float]:
    """Numbers by name, from texts such as ``citation_recall@10=0.6``."""
    numbers = {}
    for text in texts or ():
        name, equals, number = text.rpartition("=")
        try:
            if not name or not equals:
                raise ValueError
            numbers[name] = float(number)
        except ValueError:
            raise MirageError(
                f"{option} {text!r}: expected a name, = and a number, such as "
                "citation_recall@10=0.6"
            ) from None
    return numbers
