"""Features of a log that does not fit into memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mirage.executors import Executor
from mirage.features.run_files import Item, check_regular, file_digest
from mirage.features.streams import Measures, score_stream
from mirage.features.suite import FeatureSuite
from mirage.languages import Language
from mirage.monitoring.lines import Line
from mirage.monitoring.logs import (
    FEWEST_JOINED,
    Clustering,
    join_clusters,
    log_lines,
    question_name,
)
from mirage.monitoring.traffic import LOG_FEATURES, TRAFFIC, LogMeasures, question_measures

__all__ = ["MeasuredLog", "measure_log_file"]


class MeasuredLog(NamedTuple):
    """The measures of one model in a log; their values are stored in a file.

    Attributes:
        measures: The values of the measures. In their table, each reason for missing values occurs
            only once; ``missing`` has the counts.
        missing: For each measure, the reasons why values are missing, with their counts.
        clustering: How questions are grouped into clusters, such as ``"sessions"``.
        joined: If ``clustering`` is ``"sessions"``, the number of clusters that would remain if
            equal questions of different sessions were joined too.
    """

    measures: LogMeasures
    missing: Mapping[str, Mapping[str, int]]
    clustering: Clustering
    joined: int


def measure_log_file(
    path: str | Path,
    values_path: str | Path,
    *,
    language: str,
    fields: Mapping[str, str] = MappingProxyType({}),
    model: str = "",
    form: str | None = None,
    skip_damaged: bool = False,
    suite: FeatureSuite | None = None,
    n_jobs: int = 1,
    executor: Executor | None = None,
    progress: bool = True,
) -> list[MeasuredLog]:
    """Compute the measures of each model in a log, and write the values to a file.

    The values are those of :func:`mirage.monitoring.traffic.measure_log`. The log need not fit into
    memory. If a call is interrupted, repeat it: it resumes like
    :func:`mirage.features.streams.score_files`.

    Args:
        path: The log: JSON Lines, CSV or TSV, gzipped or not, or Parquet.
        values_path: The file to write: Parquet if the suffix is ``.parquet``, else JSON Lines,
            compressed if the suffix is ``.gz``.
        language: ISO 639-1 code of the language that the questions should be in.
        fields: Names of fields in the log, such as ``{"answer": "choices.0.message.content"}``. The
            keys are those of :data:`mirage.monitoring.logs.FIELDS`.
        model: Name of the model if all lines are of one model; by default the file's name. It
            replaces the model that the lines name.
        form: Name of the tool that exported the log, such as ``langfuse``. By default each line is
            one answered question.
        skip_damaged: Whether to skip lines that are not valid, with a warning.
        suite: The features; by default the same as for
            :func:`mirage.monitoring.traffic.measure_log`.
        n_jobs: Number of processes, as in joblib.
        executor: Executor whose workers compute the features; by default local processes do.
        progress: Whether to show a progress bar.

    Returns:
        One element per model in the log.

    Raises:
        DatasetError: A line is not valid, or a file cannot be written.
        FeatureError: No feature can be computed, or one fails.
        SettingError: No line has a field that ``fields`` names.
        UnknownNameError: There is no such language, or ``fields`` has an unknown key.
    """
    path, code = Path(path), Language.of(language).code
    lines = partial(log_lines, path, code, fields, form=form, skip_damaged=skip_damaged)
    reading = f"{code} {sorted(fields.items())} {form} {skip_damaged}"
    stream = _LogFile(path, code, lines, reading, model or path.name.partition(".")[0])
    scored = score_stream(
        stream,
        suite or FeatureSuite(LOG_FEATURES, code),
        Path(values_path),
        applicable=True,
        measures=Measures(TRAFFIC, question_measures),
        n_jobs=n_jobs,
        executor=executor,
        progress=progress,
    )
    return [
        MeasuredLog(LogMeasures(run.table, run.unmet), run.missing, stream.clustering, joined)
        for run, joined in zip(scored, stream.joined, strict=True)
    ]


class _LogFile:
    """A log that is read line by line; each model in it is a run.

    Attributes:
        clustering: How questions are grouped into clusters.
        joined: For each run, the number of clusters that would remain if equal questions of
            different sessions were joined too; 0 unless ``clustering`` is ``"sessions"``.
    """

    def __init__(
        self,
        path: Path,
        language: str,
        read_lines: Callable[[], Iterable[Line]],
        reading: str,
        model: str,
    ) -> None:
        check_regular(path)
        self.path = path
        self.language = language
        self._read_lines = read_lines
        self._reading = reading
        self.clustering: Clustering = "questions"
        self.joined: tuple[int, ...] = ()
        self._default = model
        self._models: dict[str, int] = {}
        self._clusters: dict[str, str] | None = None
        self._lines = _LineNames()

    @property
    def runs(self) -> tuple[tuple[str, int], ...]:
        """The model of each run, with the repeat number 0, because a log has no repeats."""
        models = [self._default] if len(self._models) == 1 else self._models
        return tuple((model, 0) for model in models)

    @property
    def answers(self) -> int:
        """The number of answers: the lines of the log that have a question."""
        return len(self._lines.ids)

    @property
    def clusters(self) -> Mapping[str, str]:
        """The cluster of each query, by query id."""
        if self._clusters is None:
            names = zip(self._lines.ids, self._cluster_names(), strict=True)
            self._clusters = {id_: str(name) for id_, name in names if name is not None}
        return self._clusters

    def digest(self) -> str:
        """Return a digest of the log and of the settings with which it is read."""
        return f"{file_digest(self.path)}\n{self._default}\n{self._reading}"

    def items(self) -> Iterator[Item]:
        """Yield the lines in order; the first call also stores their models and clusters."""
        is_first = not self._models
        models: dict[str, int] = {}
        for line in self._read_lines():
            query = line.entry.query
            model = query.metadata.get("model", self._default)
            number = models.setdefault(model, len(models))
            if is_first:
                self._lines.add(line, number)
            yield Item(query, ((number, line.response),))
        self._models = models

    def _cluster_names(self) -> list[object]:
        """Return the cluster of each line; ``None`` for a line that is a cluster by itself.

        The clusters are the same as with :func:`mirage.monitoring.logs.read` and
        :func:`mirage.monitoring.logs.regroup`.
        """
        lines = self._lines
        runs = range(len(self._models))
        if lines.has_clusters:
            self.clustering = "field"
            self.joined = (0,) * len(runs)
            return [None if number < 0 else number for number in lines.clusters]
        sessions = [None if number < 0 else -1 - number for number in lines.sessions]
        names: list[object] = list(join_clusters(list(lines.questions), sessions))
        self.clustering = "questions and sessions" if lines.has_sessions else "questions"
        units = [names[i] if names[i] is not None else (i,) for i in range(len(names))]
        joined = tuple(_count(units, lines.runs, number) for number in runs)
        self.joined = (0,) * len(runs)
        alone = [
            question if session is None else session
            for question, session in zip(lines.questions, sessions, strict=True)
        ]
        if not lines.has_sessions or not any(
            joined[number] < min(FEWEST_JOINED, _count(alone, lines.runs, number))
            for number in runs
        ):
            return names
        self.clustering, self.joined = "sessions", joined
        return list(alone)


class _LineNames:
    """The values that determine the clusters of a log's lines; each list has one element per line.

    Attributes:
        ids: Id of the line's query.
        runs: Index of the line's run.
        questions: Index of the line's question; equal questions have the same index.
        sessions: Index of the line's session; -1 if it has none.
        clusters: Index of the cluster that the line names; -1 if it names none.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.runs, self.questions, self.sessions, self.clusters = (array("q") for _ in range(4))
        self._numbers: tuple[dict[int, int], dict[str, int], dict[str, int]] = ({}, {}, {})

    @property
    def has_sessions(self) -> bool:
        """Whether any line names its session."""
        return bool(self._numbers[1])

    @property
    def has_clusters(self) -> bool:
        """Whether any line names its cluster."""
        return bool(self._numbers[2])

    def add(self, line: Line, run: int) -> None:
        """Add the values of the next line; ``run`` is the index of its run."""
        questions, sessions, clusters = self._numbers
        self.ids.append(line.entry.query.id)
        self.runs.append(run)
        # Among a million hashes of 64 bits, two are equal with a probability of 1 in 37 million.
        name = hash(question_name(line))
        self.questions.append(questions.setdefault(name, len(questions)))
        self.sessions.append(_number(sessions, line.session))
        self.clusters.append(_number(clusters, line.cluster))


def _count(names: Sequence[object], runs: Sequence[int], run: int) -> int:
    """Return the number of different names in a run; ``runs`` has the run of each name."""
    return len({name for name, number in zip(names, runs, strict=True) if number == run})


def _number(numbers: dict[str, int], name: str | None) -> int:
    return -1 if name is None else numbers.setdefault(name, len(numbers))
