"""Input of commands: files, datasets, runs, surrogates, and numbers by name."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mirage._base.logs import logger
from mirage._base.quoting import utf8_text
from mirage.errors import ArtifactError, DatasetError, MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.dataset import MirageDataset
    from mirage.executors import Executor
    from mirage.leaderboard import Leaderboard
    from mirage.metaeval import AnswerSentence, LabelledSentences
    from mirage.metaeval.judges import Score
    from mirage.models import Query, Run
    from mirage.monitoring.logs import Log
    from mirage.surrogate import SurrogateRanker

_LOG = logger("mirage.cli")
STDIN = "-"
_FILES: list[Path] = []  # the file that holds the content of standard input


# Standard input -----------------------------------------------------------------------------------


def _standard_input() -> Path:
    """Copy standard input to a temporary file, and return its path.

    :func:`forget_standard_input` deletes the file at the end of the command.

    Raises:
        MirageError: If standard input was read before, or cannot be read.
    """
    from tempfile import mkdtemp

    from mirage._base.inputs import chunks

    if _FILES:
        raise MirageError(
            "standard input (-) can be read only once; replace the second - with a file"
        )
    path = Path(mkdtemp(prefix="mirage-")) / "stdin.jsonl"
    _FILES.append(path)
    try:
        content = chunks(sys.stdin.buffer, "standard input")
        with path.open("xb") as file:
            file.writelines(content)
    except OSError as error:
        raise MirageError(f"standard input cannot be read ({error.strerror})") from error
    return path


def with_standard_input(text: str) -> str:
    """In a message, replace the path of the file that holds standard input by "standard input"."""
    for path in _FILES:
        text = text.replace(str(path), "standard input")
    return text


def forget_standard_input() -> None:
    """Delete the file that holds the content of standard input, if there is one."""
    from shutil import rmtree

    while _FILES:
        rmtree(_FILES.pop().parent, ignore_errors=True)


# Files --------------------------------------------------------------------------------------------


def file_of(path: Path) -> Path:
    """Return a file to read: the path itself, or the content of standard input for ``-``."""
    if str(path) == STDIN:
        return _standard_input()
    if existing(path).is_dir():
        files = sorted(file.name for file in path.glob("*.jsonl"))
        hint = f"; did you mean {path / files[0]}?" if len(files) == 1 else ""
        raise DatasetError(f"{path}: expected a file, but this is a folder{hint}")
    return path


def existing(path: Path) -> Path:
    """Return the path of a file or folder; raise an error if the path does not exist."""
    if path.exists():
        return path
    raise DatasetError(f"{path}: no such file{_nearest(path)}")


def check_folder(path: Path | None) -> None:
    """Raise an error if the folder of an output file does not exist; do nothing for ``None``."""
    if path is not None and not path.parent.is_dir():
        raise MirageError(f"{path}: the folder {path.parent} does not exist; create it first")


def check_page(path: Path | None) -> None:
    """Raise an error if an HTML page cannot be written to a file; do nothing for ``None``.

    The command checks this first, because the work before it writes the page may be costly.
    """
    from mirage.ranking.pages import HTML_SUFFIXES

    check_folder(path)
    if path is not None and path.suffix.lower() not in HTML_SUFFIXES:
        raise MirageError(
            f"{path}: --report writes an HTML page, so the file name must end in .html; for other "
            "formats, use the output of the command or of its option --json"
        )


def _nearest(path: Path) -> str:
    """Return a hint for a missing path: the most similar name in the nearest existing folder.

    If no name is similar, the hint says which part of the path is missing, or lists files with the
    same suffix. It may be empty.
    """
    folder, missing = path.parent, path.name
    while not folder.is_dir() and folder != folder.parent:
        folder, missing = folder.parent, folder.name
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return ""
    # Suffixes are left out: files that share theirs would all look similar.
    same_suffix = [name for name in entries if Path(name).suffix == path.suffix]
    by_stem = {Path(name).stem: name for name in (*entries, *same_suffix)}
    close = difflib.get_close_matches(Path(missing).stem, by_stem, n=1)
    if close:
        return f"; did you mean {folder / by_stem[close[0]]}?"
    if folder != path.parent:
        return f"; {folder.absolute()} has no {missing}"
    if not path.suffix or not same_suffix:
        return ""
    return f"; {folder.absolute()} has {', '.join(same_suffix[:5])}"


# Datasets, runs and surrogates --------------------------------------------------------------------


def is_language(source: str) -> bool:
    """Return whether a text is a language code and not the path of a file.

    Raises:
        UnknownNameError: If the text looks like a code, but no language has it.
    """
    from mirage.languages import LANGUAGES, Language

    path = Path(source)
    if source in LANGUAGES:
        return True
    if source != STDIN and not path.exists() and not path.suffix and len(path.parts) == 1:
        Language.with_board(source)
    return False


def language_of(language: str | None, reason: str = "") -> str:
    """Return the language code of the option ``--language``; raise an error if it is missing.

    ``reason`` is added to the error message, and explains why the language is needed.
    """
    from mirage.languages import Language

    if language is None:
        raise MirageError(f"give --language CODE, such as sw{reason}")
    return Language.of(language).code


def dataset_of(
    language: str | None, path: Path | None, form: str | None = None, *, level: str = "quick"
) -> MirageDataset:
    """Return the queries in the file ``path`` or, without a file, the bundled queries.

    Args:
        language: Language of the queries; may be ``None`` for a file that names its language.
        path: File of queries.
        form: Format of the file if it is not Mirage's own; see
            :meth:`~mirage.MirageDataset.from_qa`.
        level: Level of the bundled queries.
    """
    from mirage.dataset import MirageDataset

    if path is None:
        return MirageDataset.bundled(
            language_of(language, ", for the bundled queries, or --dataset FILE"), level=level
        )
    check_level(level, "--dataset")
    if form is not None:
        return MirageDataset.from_qa(file_of(path), form, language=language)
    dataset = MirageDataset.load(file_of(path))
    require_language(dataset.language, language, path)
    return dataset


def require_language(code: str, language: str | None, source: str | Path) -> None:
    """Raise an error if ``--language`` differs from the language of the queries.

    ``code`` is the language of the queries in ``source``.
    """
    if language is not None and code != language_of(language):
        raise DatasetError(
            f"the queries of {source} are in {code!r}, not in {language!r}; leave out --language"
        )


def check_level(level: str, other: str) -> None:
    """Raise an error if ``--level`` was set for queries that are not bundled.

    ``other`` is the option that selects these queries, for the error message.
    """
    if level != "quick":
        raise MirageError(
            f"--level applies only to the bundled queries; leave it out if you give {other}"
        )


def named_files(texts: Sequence[str]) -> dict[str, Path]:
    """Return files of responses by model name, from arguments ``FILE`` or ``NAME=FILE``."""
    files: dict[str, Path] = {}
    for text in texts:
        name, path = _name_and_file(text)
        if name in files:
            raise MirageError(
                f"two files have responses of the same model {name!r}; write NAME=FILE to rename "
                "the model of one of them"
            )
        files[name] = path
    return files


def _name_and_file(text: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if equals and name and file and not Path(text).exists():
        return utf8_text(name), Path(file)
    path = Path(text)
    return ("stdin" if text == STDIN else utf8_text(path.stem)), path


def input_files(texts: Sequence[str]) -> dict[str, Path]:
    """Return files to read by model name, from arguments ``FILE``, ``NAME=FILE`` or ``-``."""
    return {name: file_of(path) for name, path in named_files(texts).items()}


def response_files(texts: Sequence[str]) -> dict[str, Path]:
    """Return files of responses by model name; raise an error if a file is a log.

    The arguments are ``FILE``, ``NAME=FILE`` or ``-`` (standard input).
    """
    from mirage.monitoring.logs import is_log

    files = input_files(texts)
    for file in files.values():
        if is_log(file):
            raise MirageError(
                f"{file}: this file is a log, because its lines contain questions. Logs do not "
                "contain the relevant passages, so they cannot be ranked or compared with "
                "references; use `mirage logs features` or `mirage logs drift`"
            )
    return files


def read_runs(language: str, files: Mapping[str, Path]) -> list[Run]:
    """Return the runs in files of responses, given by model name."""

    from mirage.models import Run

    return [Run.load(file, language=language, model=name) for name, file in files.items()]


def runs_of(language: str, texts: Sequence[str]) -> list[Run]:
    """Return the runs in files of responses, given as ``FILE`` or ``NAME=FILE``."""
    return read_runs(language, input_files(texts))


def run_of(language: str, text: str) -> Run:
    """Return the run in a file of responses, given as ``FILE`` or ``NAME=FILE``."""
    return runs_of(language, [text])[0]


class LogReading(NamedTuple):
    """Settings for reading a log, which :func:`mirage.monitoring.logs.read` accepts.

    Attributes:
        fields: Name of each field in the log, such as ``{"question": "input.text"}``.
        form: Name of the tool that exported the log; ``None`` if each line is a question with its
            answer.
        skip_damaged: Whether to skip invalid lines.
    """

    fields: Mapping[str, str]
    form: str | None
    skip_damaged: bool


def log_reading(
    fields: Iterable[str] | None, cluster: str | None, form: str | None, skip_damaged: bool
) -> LogReading:
    """Return the settings for reading a log from the options of a command.

    Args:
        fields: Values of ``--field``, such as ``question=input.text``.
        cluster: Value of ``--cluster``.
        form: Value of ``--format``.
        skip_damaged: Value of ``--skip-damaged``.
    """
    names = named_texts("--field", fields or (), "FIELD=NAME, such as question=input.text")
    names = names if cluster is None else {**names, "cluster": cluster}
    return LogReading(names, form, skip_damaged)


def log_of(language: str, path: Path, reading: LogReading, name: str = "") -> Log:
    """Read the log in a file.

    ``name`` is the name of the run. If it is empty, the run is named after the model if the lines
    name only one, and otherwise after the file.
    """
    from mirage.monitoring import logs

    return logs.read(path, language=language, model=name, **reading._asdict())


def ranker_of(path: Path, trust: bool) -> SurrogateRanker:
    """Load the surrogate in a file.

    Raises:
        ArtifactError: If the file does not ship with mirage and ``trust`` is False.
    """
    from mirage.surrogate import SurrogateRanker
    from mirage.surrogate.artifacts import ships

    file = file_of(path)
    if not trust and not ships(file):
        raise ArtifactError(
            f"{path}: this surrogate does not ship with mirage. A surrogate decides the ranking, "
            "and a joblib file can run code; give --trust if you trust the author of this file"
        )
    return SurrogateRanker.load(file, trust=trust)


# Retrieval ----------------------------------------------------------------------------------------


def queries_of(source: str, language: str | None) -> Sequence[Query]:
    """Return the bundled queries of a language, or the queries in a file.

    ``source`` is a language code or the path of a file. ``language`` is the language of the file's
    queries. It is required for TREC topics (``.tsv``).
    """
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
        raise MirageError(
            f"{source}: a TREC topics file does not contain the language of its queries; give "
            "--language CODE"
        )
    code = Language.of(language).code
    topics = read_topics(path).items()
    return [Query(id=id_, language=code, text=text) for id_, text in topics]


# Leaderboards -------------------------------------------------------------------------------------


def leaderboard_of(
    language: str | None,
    board: str,
    dataset: Path | None,
    surrogate: Path | None,
    trust: bool,
    level: str = "quick",
) -> Leaderboard:
    """Return the leaderboard that the options of a command select.

    Args:
        language: Language code; ``None`` if ``--language`` is missing.
        board: ``bundled``, ``official``, or a folder with copies of the official datasets.
        dataset: File of the user's own queries; it needs a ``surrogate``.
        surrogate: File of a surrogate that was trained on these queries.
        trust: Whether to accept a surrogate that does not ship with mirage.
        level: Level of the bundled leaderboard.
    """
    from mirage.leaderboard import Leaderboard

    if (dataset is None) != (surrogate is None):
        raise MirageError(
            "give --dataset and --surrogate together, because a surrogate is only valid for the "
            "queries that it was trained on"
        )
    if board != "bundled":
        if dataset is not None:
            raise MirageError(
                "--board selects its own queries and surrogate; leave out --dataset and --surrogate"
            )
        check_level(level, "--board")
        folder = None if board == "official" else existing(Path(board))
        return Leaderboard.from_hub(language_of(language), path=folder)
    if dataset is None or surrogate is None:
        return Leaderboard.bundled(language_of(language), level=level)
    check_level(level, "--dataset")
    from mirage.features import FeatureSuite

    queries = dataset_of(language, dataset)
    ranker = ranker_of(surrogate, trust)
    return Leaderboard(queries, FeatureSuite(ranker.features, queries.language), ranker)


# Executors ----------------------------------------------------------------------------------------


@contextmanager
def executor_of(name: str | None) -> Iterator[Executor | None]:
    """Yield the executor that ``--executor`` names, or ``None`` if the option is not given."""
    if name is None:
        yield None
        return
    if name != "ray":
        raise UnknownNameError("executor", name, ("ray",))
    from mirage.executors import ray_executor

    with ray_executor() as executor:
        yield executor


# Labels of sentences -----------------------------------------------------------------------------

TASKS = ("faithfulness", "relevance")
"""The labels that MEMERAG, a dataset of labelled sentences, has for each sentence."""


def labelled_of(
    path: Path, language: str | None, positive: str, task: str = "faithfulness"
) -> LabelledSentences:
    """Return the labelled sentences in a file, or in the folder of the MEMERAG dataset.

    Args:
        path: Path of the file or folder.
        language: Language of the sentences to select, and of rows that name no language.
        positive: Label that counts as positive; better feature values should predict it. Only used
            for a file.
        task: Which labels of MEMERAG to read, one of ``TASKS``.
    """
    from mirage.metaeval import LabelledSentences

    if path.is_dir():
        if task not in TASKS:
            raise UnknownNameError("MEMERAG task", task, TASKS)
        codes = None if language is None else [language_of(language)]
        return LabelledSentences.memerag(path, codes, task=task)  # type: ignore[arg-type]
    labelled = LabelledSentences.from_jsonl(file_of(path), language=language, positive=positive)
    if language is not None:
        _require_sentences(labelled.languages, language, path)
        labelled = labelled.select(languages=[language_of(language)])
    rest = [name for name in labelled.names if name not in {positive, *labelled.undecided}]
    if len(rest) < 2 or positive not in labelled.names:
        return labelled
    negative = f"not {positive}"
    _LOG.warning("%s: the labels %s are counted as %r", path, ", ".join(map(repr, rest)), negative)
    return labelled.merged(dict.fromkeys(rest, negative), positive)


def sentences_in(path: Path, language: str | None) -> tuple[AnswerSentence, ...]:
    """Return the sentences in a file; if a language is given, only those in this language.

    ``language`` is also the language of rows that name none.
    """
    from mirage.metaeval import read_sentences

    sentences = read_sentences(file_of(path), language=language)
    if language is None:
        return sentences
    _require_sentences({row.query.language for row in sentences}, language, path)
    code = language_of(language)
    return tuple(row for row in sentences if row.query.language == code)


def _require_sentences(codes: Collection[str], language: str, path: Path) -> None:
    """Raise an error if a file has sentences, but none in the language of ``--language``."""
    if codes and language_of(language) not in codes:
        raise DatasetError(
            f"{path}: the file has no sentence in {language!r}, only in "
            f"{', '.join(map(repr, sorted(codes)))}"
        )


def score_of(text: str) -> Score:
    """Parse ``NAME`` or ``NAME=THRESHOLD``: a feature to use as a judge, and its threshold."""
    from mirage.metaeval import score

    name, equals, _ = text.rpartition("=")
    return score(name, named_numbers("--feature", [text])[name]) if equals else score(text)


# Texts and numbers by name ------------------------------------------------------------------------


def named_texts(
    option: str, texts: Iterable[str], expected: str = "AXIS=VALUE, such as retriever=bm25"
) -> dict[str, str]:
    """Return texts by name, from options such as ``retriever=bm25``.

    ``option`` and ``expected`` (the expected form) are used in error messages.
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise MirageError(f"{option} {text!r}: expected {expected}")
        settings[name] = value
    return settings


def named_numbers(option: str, texts: Iterable[str] | None) -> dict[str, float]:
    """Return numbers by name, from options such as ``citation_recall@10=0.6``.

    ``option`` is the name of the option, for error messages.
    """
    numbers = {}
    for text in texts or ():
        name, equals, number = text.rpartition("=")
        try:
            if not name or not equals:
                raise ValueError
            numbers[name] = float(number)
        except ValueError:
            raise MirageError(
                f"{option} {text!r}: expected NAME=NUMBER, such as citation_recall@10=0.6"
            ) from None
    return numbers
