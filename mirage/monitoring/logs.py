"""Production logs: questions, the passages that were shown, and answers, but no labels.

Logs are JSON Lines, Parquet or CSV, with one answered question per line. Usual field names are
recognised (:data:`FIELDS`); the argument ``fields`` sets other names. :func:`read` returns a
dataset and a run. So all features that need no reference, relevant passages or short answers can be
computed on a log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar

from mirage._base.logs import logger
from mirage._base.passages import plain_text
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, UnknownNameError
from mirage.languages import Language
from mirage.models import Run
from mirage.monitoring.exports import export_rows, log_rows
from mirage.monitoring.lines import (
    FIELDS,
    Line,
    NamedFields,
    check_id,
    field_names,
    look_up,
    parse_line,
)

__all__ = ["FEWEST_JOINED", "FIELDS", "PERIODS", "Clustering", "Log", "is_log", "read", "regroup"]

PERIODS: Mapping[str, Callable[[datetime], str]] = MappingProxyType(
    {
        "day": lambda time: f"{time:%Y-%m-%d}",
        "week": lambda time: f"{time:%G-W%V}",
        "month": lambda time: f"{time:%Y-%m}",
    }
)
"""Functions from a time to the name of its day, week or month, such as ``2026-W47`` (ISO 8601)."""

FEWEST_JOINED = 12
"""The smallest number of clusters that joining equal questions and sessions may leave.

If it leaves fewer, the questions are clustered by session alone (:func:`regroup`).
"""

Clustering = Literal["field", "questions", "questions and sessions", "sessions"]
"""How questions are grouped into clusters: by a field, by equal text, or by user or session."""

N = TypeVar("N")

_LOG = logger("mirage.sources")


class Log(NamedTuple):
    """A log in memory: the questions to a system, and its answers.

    Attributes:
        dataset: The questions. A question that was asked twice occurs under two ids. Each query's
            ``cluster`` names the group of dependent questions that it belongs to. Its ``metadata``
            contains the ``model`` if the line names one.
        run: The answers. A line with an error, or whose answer is null, is a failure.
        times: The time of each question in UTC by query id, for the lines that have a time.
        clustering: How questions are grouped into clusters, such as ``"sessions"``.
        sessions: The cluster that each question would have if only sessions counted, by query id.
            Empty if no line names a session, or if lines name their cluster.
        joined: If ``clustering`` is ``"sessions"``, the number of clusters that would remain if
            equal questions of different sessions were joined too.
        undated: The location of each line without a time, such as ``log.jsonl, line 3``, by query
            id.
        skip_undated: Whether :meth:`by`, :meth:`last` and :meth:`each` leave out lines without a
            time, with a warning. By default they raise an error.
    """

    dataset: MirageDataset
    run: Run
    times: Mapping[str, datetime]
    clustering: Clustering = "questions"
    sessions: Mapping[str, str] = MappingProxyType({})
    joined: int = 0
    undated: Mapping[str, str] = MappingProxyType({})
    skip_undated: bool = False

    def dated(self) -> Log:
        """Return the log without the lines that have no time.

        Raises:
            DatasetError: If no line has a time, or if a line has none and :attr:`skip_undated` is
                False.
        """
        ids = [id_ for id_ in self.dataset.query_ids if id_ in self.times]
        missing = len(self.dataset) - len(ids)
        if not missing:
            return self
        undated = next(id_ for id_ in self.dataset.query_ids if id_ not in self.times)
        if not ids:
            raise DatasetError(
                f"{self.dataset.name}: question {undated!r} has no time, nor has any other; name "
                "the field that contains the time, as in time=created"
            )
        where = self.undated.get(undated, f"{self.dataset.name}, question {undated!r}")
        if not self.skip_undated:
            raise DatasetError(
                f"{where}: the line has no time, but {len(ids)} of {len(self.dataset)} lines have "
                "one; add the time, or skip such lines (--skip-damaged, or skip_damaged=True)"
            )
        _LOG.warning(
            "%s: %d %s skipped because the time is missing; the first is %s",
            self.dataset.name, missing, "line was" if missing == 1 else "lines were",
            where.rpartition(", ")[2],
        )  # fmt: skip
        return self._select(ids, self.dataset.name)

    def by(self, period: str) -> dict[str, Log]:
        """Split the log into one log per day, week or month.

        The keys are names of periods, such as ``2026-W47``; the oldest period comes first.

        Args:
            period: ``day``, ``week`` or ``month`` (ISO 8601, UTC).

        Raises:
            UnknownNameError: If ``period`` is not one of the three names.
            DatasetError: If a line has no time and :attr:`skip_undated` is False.
        """
        if period not in PERIODS:
            raise UnknownNameError("period", period, PERIODS)
        log = self.dated()
        parts = log._parts({id_: PERIODS[period](time) for id_, time in log.times.items()})
        return {name: parts[name] for name in sorted(parts)}

    def last(self, period: str) -> tuple[Log, Log]:
        """Split the log into the last day, week or month and everything before it.

        Args:
            period: ``day``, ``week`` or ``month`` (ISO 8601, UTC).

        Returns:
            The log before the last period, and the log of the last period.

        Raises:
            UnknownNameError: If ``period`` is not one of the three names.
            DatasetError: If a line has no time, or all lines are from the same period.
        """
        log = self.dated()
        parts = log.by(period)
        latest = next(reversed(parts))
        if len(parts) == 1:
            raise DatasetError(
                f"{self.dataset.name}: all questions are from the same {period} ({latest}), so "
                f"there is no earlier {period} to compare it with"
            )
        when = {
            id_: latest if PERIODS[period](time) == latest else f"before {latest}"
            for id_, time in log.times.items()
        }
        both = log._parts(when)
        return both[f"before {latest}"], both[latest]

    def each(self, period: str) -> dict[str, tuple[Log, Log]]:
        """Return two logs for each day, week or month: the lines outside it, and the lines in it.

        The questions of all logs are clustered by the same rule (:func:`regroup`).

        Args:
            period: ``day``, ``week`` or ``month`` (ISO 8601, UTC).

        Returns:
            A mapping from the name of each day, week or month, such as ``2026-W47``, to two logs.
            The first log has the lines of all other days, weeks or months, and the second log has
            the lines of this one.

        Raises:
            UnknownNameError: If ``period`` is not one of the three names.
            DatasetError: If a line has no time, or all lines are from the same period.
        """
        log = self.dated()
        log.last(period)  # raises an error if there is only one period
        log = regroup([log, *log.by(period).values()])[0]
        pairs = {}
        for name, part in log.by(period).items():
            own = set(part.dataset.query_ids)
            others = [id_ for id_ in log.dataset.query_ids if id_ not in own]
            pairs[name] = log._part(f"other {period}s", others), part
        return pairs

    def by_model(self) -> dict[str, Log]:
        """Split the log by model.

        Returns:
            The lines of each model as a log, by model name. If there is only one model, its log is
            the whole log.
        """
        # Lines without a model belong to the run's model.
        names = {query.id: query.metadata.get("model", self.run.model) for query in self.dataset}
        if len(set(names.values())) == 1:
            return {self.run.model: self}
        parts = self._parts(names)
        return {
            name: part._replace(run=part.run.model_copy(update={"model": name}))
            for name, part in parts.items()
        }

    def _parts(self, names: Mapping[str, str]) -> dict[str, Log]:
        ids: dict[str, list[str]] = {}
        for id_ in self.dataset.query_ids:
            ids.setdefault(names[id_], []).append(id_)
        return {name: self._part(name, some) for name, some in ids.items()}

    def _part(self, name: str, ids: Sequence[str]) -> Log:
        return self._select(ids, f"{self.dataset.name} {name}")

    def _select(self, ids: Sequence[str], name: str) -> Log:
        queries = MirageDataset((self.dataset[id_] for id_ in ids), name=name)
        run = self.run.model_copy(update={"responses": tuple(self.run[id_] for id_ in ids)})
        return self._replace(
            dataset=queries,
            run=run,
            times={id_: self.times[id_] for id_ in ids if id_ in self.times},
            sessions={id_: self.sessions[id_] for id_ in ids if id_ in self.sessions},
        )


def is_log(path: str | Path) -> bool:
    """Return whether a file is a log, that is, its first line contains a question.

    Files of responses contain no questions.

    Args:
        path: The file.

    Raises:
        DatasetError: If the file cannot be read.
    """
    names = field_names({})["question"]
    rows = islice(log_rows(Path(path)), 1)
    return any(look_up(row, name) is not None for _, row in rows for name in names)


def read(
    path: str | Path,
    *,
    language: str,
    fields: Mapping[str, str] = MappingProxyType({}),
    model: str = "",
    form: str | None = None,
    skip_damaged: bool = False,
) -> Log:
    """Read a log.

    Passages are texts, or objects with a ``text`` and perhaps an ``id`` and ``title``, in the order
    of the prompt. LangChain documents, LlamaIndex nodes and OpenInference documents are such
    objects too; if they have no id, the id of their source is used. If a line has no field with
    passages, its passages are unknown. A question without an id gets the number of its line. Lines
    with an empty question are skipped with a warning.

    Questions are dependent, and form one cluster, if their texts are equal (apart from white space,
    case and Unicode normalization) or if they come from the same user or session. If lines have a
    field ``cluster``, only that field counts.

    Args:
        path: JSON Lines, CSV or TSV, gzipped or not, or Parquet (extra ``retrieval``).
        language: ISO 639-1 code of the language that the questions should be in.
        fields: Names of fields in the log, such as ``{"answer": "choices.0.message.content"}``. The
            keys are those of :data:`FIELDS`. Dots separate the names of nested fields, and a number
            is a position in a list.
        model: Name of the run. By default it is the model, if the lines name only one, or else the
            file's name.
        form: Name of the tool that exported the log: ``langchain``, ``llamaindex``,
            ``opentelemetry``, ``langfuse`` or ``phoenix``. By default each line is one answered
            question.
        skip_damaged: Whether to skip lines that are not valid, with a warning that states how many.
            By default the first invalid line raises an error. The same holds for lines without a
            time if the log is split by time, and other lines have one.

    Raises:
        DatasetError: If a line is not valid; the message names the file, the line and the field.
        SettingError: If no line has a field that ``fields`` names.
        UnknownNameError: If there is no such language or format, or ``fields`` has an unknown key.
        MissingPackageError: If the file is Parquet and the extra ``retrieval`` is not installed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "bot.jsonl")
        ...     _ = path.write_text('{"question": "Who?", "answer": "Ada."}')
        ...     log = read(path, language="en")
        >>> [response.text for response in log.run], log.run.model
        (['Ada.'], 'bot')
    """
    path, code = Path(path), Language.of(language).code
    undated: dict[str, str] = {}
    lines = list(
        log_lines(path, code, fields, form=form, skip_damaged=skip_damaged, undated=undated)
    )
    clustering = _clustering(lines)
    clusters = _clusters(lines, clustering)
    queries = [
        line.entry.query.model_copy(update={"cluster": cluster})
        for line, cluster in zip(lines, clusters, strict=True)
    ]
    models = {query.metadata.get("model") for query in queries} - {None}
    only = models.pop() if len(models) == 1 else None
    stem = path.name.partition(".")[0]
    return Log(
        MirageDataset(queries, name=stem),
        Run(
            model=model or only or stem,
            language=code,
            responses=tuple(line.response for line in lines),
        ),
        {line.entry.query.id: line.time for line in lines if line.time is not None},
        clustering,
        _sessions(lines) if clustering == "questions and sessions" else {},
        undated=undated,
        skip_undated=skip_damaged,
    )


def log_lines(
    path: Path,
    language: str,
    fields: Mapping[str, str] = MappingProxyType({}),
    *,
    form: str | None = None,
    skip_damaged: bool = False,
    undated: dict[str, str] | None = None,
) -> Iterator[Line]:
    """Yield the lines of a log that have a question.

    Args:
        path: JSON Lines, CSV or TSV, gzipped or not, or Parquet.
        language: ISO 639-1 code of the language that the questions should be in.
        fields: Names of fields in the log; the keys are those of :data:`FIELDS`.
        form: Name of the tool that exported the log; ``None`` if no tool did.
        skip_damaged: Whether to skip lines that are not valid, with a warning.
        undated: If given, the function adds the location of each line without a time, by query id.
    """
    names = field_names(fields, form)
    named = NamedFields(fields, names)
    first_places: dict[str, str] = {}
    empty: list[str] = []
    damaged: list[str] | None = [] if skip_damaged else None
    rows = log_rows(path, damaged) if form is None else export_rows(path, form, damaged)
    for where, row in rows:
        named.add(row)
        try:
            line = parse_line(where, row, names, language)
            if line is not None:
                check_id(where, row, names, line, first_places)
                if undated is not None and line.time is None:
                    undated[line.entry.query.id] = where
        except DatasetError as error:
            if damaged is None:
                raise
            damaged.append(str(error))
            continue
        if line is None:
            empty.append(where)
            continue
        yield line
    if damaged:
        _LOG.warning(
            "%s: %d damaged %s skipped, and %d were read; the first is: %s",
            path, len(damaged), "line was" if len(damaged) == 1 else "lines were",
            len(first_places), damaged[0],
        )  # fmt: skip
    if empty:
        _LOG.warning(
            "%s: %d %s skipped because the question is empty; the first is %s",
            path, len(empty), "line was" if len(empty) == 1 else "lines were",
            empty[0].rpartition(", ")[2],
        )  # fmt: skip
    named.check(path)
    if not first_places:
        raise DatasetError(
            f"{path}: no line has a question; give a file with one answered question per line"
        )


# Clusters -----------------------------------------------------------------------------------------


def regroup(logs: Sequence[Log]) -> tuple[Log, ...]:
    """Cluster the questions of several logs by one rule, so that the logs can be compared.

    By default, equal questions are put into one cluster, and so are the questions of one session.
    If many users ask the same questions, this rule may put all questions into one cluster. If it
    leaves fewer than :data:`FEWEST_JOINED` clusters in any of the logs, and there are more sessions
    than that, all logs with sessions are clustered by session alone. Confidence intervals are then
    valid only for other users who ask the same questions.

    Args:
        logs: The logs. Logs without sessions, or whose lines name their cluster, are not changed.

    Returns:
        The logs with their new clusters, in the same order.
    """
    if not any(map(_needs_sessions, logs)):
        return tuple(logs)
    return tuple(_cluster_by_session(log) if log.sessions else log for log in logs)


def _needs_sessions(log: Log) -> bool:
    """Return whether joining equal questions leaves few clusters, and sessions alone leave more."""
    joined = _cluster_count(log)
    return joined < FEWEST_JOINED and joined < len(set(log.sessions.values()))


def _cluster_count(log: Log) -> int:
    return len({query.cluster or (query.id,) for query in log.dataset})


def _cluster_by_session(log: Log) -> Log:
    if log.clustering == "sessions":
        return log
    queries = [
        query.model_copy(update={"cluster": log.sessions.get(query.id)}) for query in log.dataset
    ]
    dataset = MirageDataset(queries, name=log.dataset.name)
    return log._replace(dataset=dataset, clustering="sessions", joined=_cluster_count(log))


def _clustering(lines: Sequence[Line]) -> Clustering:
    if any(line.cluster for line in lines):
        return "field"
    has_sessions = any(line.session is not None for line in lines)
    return "questions and sessions" if has_sessions else "questions"


def _clusters(lines: Sequence[Line], clustering: Clustering) -> list[str | None]:
    """Return the cluster of each line; ``None`` for a line that is a cluster by itself."""
    if clustering == "field":
        return [line.cluster for line in lines]
    sessions = [None if line.session is None else f"session {line.session}" for line in lines]
    return join_clusters(list(map(question_name, lines)), sessions)


def join_clusters(questions: Sequence[N], sessions: Sequence[N | None]) -> list[N | None]:
    """Return the cluster of each line; ``None`` for a line that is a cluster by itself.

    Lines with the same question or the same session are in one cluster.

    Args:
        questions: Name of each line's question.
        sessions: Name of each line's session; ``None`` if it has none. A question and a session
            must not have the same name.
    """
    # Union-find: questions and sessions are nodes, and a root names the cluster.
    roots: dict[N, N] = {}

    def root(node: N) -> N:
        while roots.setdefault(node, node) != node:
            roots[node] = roots[roots[node]]
            node = roots[node]
        return node

    for question, session in zip(questions, sessions, strict=True):
        if session is not None:
            roots[root(question)] = root(session)
    names = [root(question) for question in questions]
    # A cluster of one line needs no name.
    sizes = Counter(names)
    return [name if sizes[name] > 1 else None for name in names]


def _sessions(lines: Sequence[Line]) -> dict[str, str]:
    """Return the cluster that each question would have if only sessions counted, by query id.

    Equal questions of lines without a session form one cluster.
    """
    return {
        line.entry.query.id: (
            question_name(line) if line.session is None else f"session {line.session}"
        )
        for line in lines
    }


def question_name(line: Line) -> str:
    """Return a name for the question of a line; equal questions have the same name."""
    return f"question {plain_text(line.entry.query.text).casefold()}"
