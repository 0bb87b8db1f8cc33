"""Production logs: questions, the passages that were shown, and answers, but no labels.

Logs are JSON Lines (gzipped or not) or Parquet, with one answered question per line. Usual field
names are recognised (:data:`FIELDS`); the argument ``fields`` sets other names. :func:`read`
returns a dataset and a run. So all features that need no reference, relevant passages or short
answers can be computed on a log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from mirage._base.files import table_rows
from mirage._base.logs import logger
from mirage._base.passages import plain_text
from mirage._base.rows import PASSAGE_NAMES, is_missing, present
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.languages import Language
from mirage.models import Response, Run
from mirage.sources.contexts import Asked, query_of, response_to

__all__ = ["FEWEST_JOINED", "FIELDS", "PERIODS", "Clustering", "Log", "is_log", "read", "regroup"]

FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "question": ("question", "query", "user_input", "input"),
        "passages": ("passages", "contexts", "retrieved_contexts", "context", "retrieval_context"),
        "answer": ("answer", "response", "output", "actual_output"),
        "error": ("error",),
        "id": ("id", "query_id"),
        "time": ("time", "timestamp", "created_at"),
        "model": ("model",),
        "cluster": ("cluster",),
        "session": ("user", "user_id", "session", "session_id", "conversation_id", "thread_id"),
    }
)
"""The fields that are read, with their usual names; the first name that a line has is used."""

PERIODS: Mapping[str, Callable[[datetime], str]] = MappingProxyType(
    {
        "day": lambda time: f"{time:%Y-%m-%d}",
        "week": lambda time: f"{time:%G-W%V}",
        "month": lambda time: f"{time:%Y-%m}",
    }
)
"""The periods that split a log, with the names of parts, such as ``2026-W47`` (ISO 8601, UTC)."""

FEWEST_JOINED = 12
"""Fewest clusters that joining equal questions and sessions may leave.

If it leaves fewer, the questions are clustered by session alone (:func:`regroup`).
"""

Clustering = Literal["field", "questions", "questions and sessions", "sessions"]
"""How questions are grouped into clusters: by a field, by equal text, or by user or session."""

N = TypeVar("N")

_LOG = logger("mirage.sources")
_NO_ANSWER = "the log has no answer"
_MILLISECONDS = 1e11
"""Times from this number on are in milliseconds: in seconds they would be in the year 5138."""


class Log(NamedTuple):
    """A log in memory: the questions to a system, and its answers.

    Attributes:
        dataset: The questions. A question that was asked twice occurs under two ids. Each query's
            ``cluster`` names the group of dependent questions that it belongs to, and its
            ``metadata`` has the ``model`` if the line names one.
        run: The answers. A line with an error, or whose answer is null, is a failure.
        times: The time of each question in UTC by query id, for the lines that have a time.
        clustering: How questions are grouped into clusters.
        sessions: The cluster that each question would have if only sessions counted, by query id.
            Empty if no line names a session, or if lines name their cluster.
        joined: If ``clustering`` is ``"sessions"``, the number of clusters that would remain if
            equal questions of different sessions were joined too.
    """

    dataset: MirageDataset
    run: Run
    times: Mapping[str, datetime]
    clustering: Clustering = "questions"
    sessions: Mapping[str, str] = MappingProxyType({})
    joined: int = 0

    def by(self, period: str) -> dict[str, Log]:
        """Split the log into one log per day, week or month, by the name of the period.

        The oldest period comes first.

        Args:
            period: ``day``, ``week`` or ``month`` (ISO 8601, UTC).

        Raises:
            UnknownNameError: If there is no such period.
            DatasetError: If a line has no time.
        """
        if period not in PERIODS:
            raise UnknownNameError("period", period, PERIODS)
        undated = next((id_ for id_ in self.dataset.query_ids if id_ not in self.times), None)
        if undated is not None:
            raise DatasetError(
                f"{self.dataset.name}: question {undated!r} has no time; name the field with the "
                "time, as in time=created"
            )
        parts = self._parts({id_: PERIODS[period](time) for id_, time in self.times.items()})
        return {name: parts[name] for name in sorted(parts)}

    def last(self, period: str) -> tuple[Log, Log]:
        """Split the log into the last day, week or month and everything before it.

        Args:
            period: ``day``, ``week`` or ``month`` (ISO 8601, UTC).

        Returns:
            The log before the last period, and the log of the last period.

        Raises:
            UnknownNameError: If there is no such period.
            DatasetError: If a line has no time, or all lines are of one period.
        """
        parts = self.by(period)
        latest = next(reversed(parts))
        if len(parts) == 1:
            raise DatasetError(
                f"{self.dataset.name}: all questions are of one {period}, {latest}; there is no "
                f"earlier {period} to compare it with"
            )
        when = {
            id_: latest if PERIODS[period](time) == latest else f"before {latest}"
            for id_, time in self.times.items()
        }
        both = self._parts(when)
        return both[f"before {latest}"], both[latest]

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
        queries = MirageDataset(
            (self.dataset[id_] for id_ in ids), name=f"{self.dataset.name} {name}"
        )
        run = self.run.model_copy(update={"responses": tuple(self.run[id_] for id_ in ids)})
        return self._replace(
            dataset=queries,
            run=run,
            times={id_: self.times[id_] for id_ in ids if id_ in self.times},
            sessions={id_: self.sessions[id_] for id_ in ids if id_ in self.sessions},
        )


class LogLine(NamedTuple):
    """One line of a log, after parsing.

    Attributes:
        entry: The question, with the passages that were shown.
        response: The answer.
        time: When the question was asked.
        cluster: Name of its cluster, if the line has one.
        session: Name of its user or session, if the line has one.
    """

    entry: Asked
    response: Response
    time: datetime | None
    cluster: str | None
    session: str | None


def is_log(path: str | Path, fields: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Return whether a file is a log, that is, its first line contains a question.

    Files of responses contain no questions.

    Args:
        path: The file.
        fields: Names of fields, as in :func:`read`.

    Raises:
        DatasetError: If the file cannot be read.
        UnknownNameError: If ``fields`` has a key that is not in :data:`FIELDS`.
    """
    names = _names(fields)["question"]
    rows = islice(table_rows(Path(path)), 1)
    return any(_look_up(row, name) is not None for _, row in rows for name in names)


def read(
    path: str | Path,
    *,
    language: str,
    fields: Mapping[str, str] = MappingProxyType({}),
    model: str = "",
) -> Log:
    """Read a log.

    Passages are texts, or objects with a ``text`` and perhaps an ``id`` and ``title``, in the order
    of the prompt. If a line has no such field, its passages are unknown. A question without an id
    gets the number of its line. Lines with an empty question are skipped with a warning.

    Questions are dependent, and form one cluster, if their texts are equal (apart from white space,
    case and Unicode normalization) or they are of one user or session. If lines have a field
    ``cluster``, only that field counts.

    Args:
        path: JSON Lines, gzipped or not, or Parquet (extra ``retrieval``).
        language: ISO 639-1 code of the language that the questions should be in.
        fields: Names of fields in the log, by their names in :data:`FIELDS`. A dot leads into an
            object, and a number into a list: ``{"answer": "choices.0.message.content"}``.
        model: Name of the run; by default the model that all lines name, or else the file's name.

    Raises:
        DatasetError: If a line is not valid; the message names the file, the line and the field.
        UnknownNameError: If there is no such language, or ``fields`` has an unknown key.
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
    lines = list(log_lines(path, code, fields))
    clustering = clustering_of(lines)
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
    )


def log_lines(
    path: Path, language: str, fields: Mapping[str, str] = MappingProxyType({})
) -> Iterator[LogLine]:
    """Yield the lines of a log that have a question; see :func:`read`."""
    names = _names(fields)
    unseen = set(fields)
    first_lines: dict[str, int] = {}
    empty: list[str] = []
    for where, row in table_rows(path):
        line = _line(where, row, names, language)
        part, _, number = where.rpartition(", ")[2].rpartition(" ")
        if line is None:
            empty.append(f"{part} {number}")
            continue
        first = first_lines.setdefault(line.entry.query.id, int(number))
        if first != int(number):
            raise DatasetError(
                f"{where}, field {_used_name(row, names['id'])!r}: {line.entry.query.id!r} is also "
                f"the id of {part} {first}; each line needs its own id or none (name another "
                "field, as in id=request_id)"
            )
        unseen = {name for name in unseen if not _has_value(line, name)}
        yield line
    if empty:
        _LOG.warning(
            "%s: %d lines were skipped because their question is empty; the first is %s",
            path, len(empty), empty[0],
        )  # fmt: skip
    if not first_lines:
        raise DatasetError(
            f"{path}: no line has a question; give a file with one answered question per line"
        )
    # A field that the user named and that is in no line may be misspelt.
    for name in fields:
        if name in unseen:
            raise SettingError(
                f"{path}: no line has the field {fields[name]!r}, which was given for {name!r}"
            )


# Fields -------------------------------------------------------------------------------------------


def _names(fields: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    for name in fields:
        if name not in FIELDS:
            raise UnknownNameError("field of a log", name, FIELDS)
    return {**FIELDS, **{name: (log_name,) for name, log_name in fields.items()}}


def _look_up(row: Mapping[str, Any], name: str) -> Any:
    """Return the value at a dotted name such as ``choices.0.text``; ``None`` if missing."""
    if name in row:  # a name with dots may be a plain key, as attributes of OpenTelemetry are
        return None if is_missing(row[name]) else row[name]
    value: Any = row
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return None if is_missing(value) else value


def _used_name(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first name under which a row has a value; the first of all if none has one."""
    return next((name for name in names if _look_up(row, name) is not None), names[0])


def _value(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return _look_up(row, _used_name(row, names))


def _text(where: str, row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    value = _value(row, names)
    if value is None or isinstance(value, str):
        return value
    name, kind = _used_name(row, names), type(value).__name__
    hint = f"; dots lead into it, as in {name}.text" if isinstance(value, dict | list) else ""
    raise DatasetError(f"{where}, field {name!r}: expected a string, got {kind}{hint}")


def _label(where: str, row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return a field's value as a label: a text, or an integer converted to text."""
    value = _value(row, names)
    # Not isinstance(): True and False are no names.
    if type(value) is int:
        return str(value)
    return _text(where, row, names) or None


def _line(
    where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]], code: str
) -> LogLine | None:
    question = _text(where, row, names["question"])
    if question is None:
        raise DatasetError(
            f"{where}: there is no field {_alternatives(names['question'])}; name the field with "
            f"the question, as in question=input.text; the line has "
            f"{', '.join(map(repr, row)) or 'no fields'}"
        )
    if not question.strip():
        return None
    texts, ids = _passages(where, row, names["passages"])
    model = _label(where, row, names["model"])
    entry = query_of(
        where,
        id=_label(where, row, names["id"]) or where.rpartition(" ")[2],
        language=code,
        text=question,
        retrieved=texts,
        reference=None,
        relevant=None,
        retrieved_ids=ids,
    )
    query = entry.query.model_copy(update={"metadata": {"model": model} if model else {}})
    text, error = _answer(where, row, names)
    response = response_to(
        query.id,
        text,
        error=error,
        shown=None if texts is None or entry.shown == query.passage_ids != () else entry.shown,
    )
    return LogLine(
        entry._replace(query=query),
        response,
        _time(where, row, names["time"]),
        _label(where, row, names["cluster"]),
        _label(where, row, names["session"]),
    )


def _answer(
    where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]]
) -> tuple[str | None, str]:
    """Return the answer of a line, and the reason to record as the error if the answer is None."""
    error = _value(row, names["error"])
    # Many loggers write an empty error into every line.
    if error not in (None, False, "", 0, {}, []):
        return None, error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    text = _text(where, row, names["answer"])
    if text is None and not any(_has_field(row, name) for name in names["answer"]):
        raise DatasetError(
            f"{where}: there is neither an answer ({_alternatives(names['answer'])}) nor an error; "
            "name the field with the answer, as in answer=output.text; the line has "
            f"{', '.join(map(repr, row))}"
        )
    return text, _NO_ANSWER


def _has_field(row: Mapping[str, Any], name: str) -> bool:
    """Return whether a row has a field, even if its value is null."""
    return name in row or name.partition(".")[0] in row


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))


def _passages(
    where: str, row: Mapping[str, Any], names: Sequence[str]
) -> tuple[list[str] | None, list[str] | None]:
    """Return texts and ids of the passages that were shown; ``None`` if the line has none."""
    value = _value(row, names)
    if value is None:
        return None, None
    where = f"{where}, field {_used_name(row, names)!r}"
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise DatasetError(f"{where}: expected a list of passages, got {type(value).__name__}")
    rows = [_passage(f"{where}, passage {n}", item) for n, item in enumerate(items, 1)]
    if not any(id_ for id_, _ in rows):
        return [text for _, text in rows], None
    texts_by_id: dict[str, str] = {}
    ids = []
    for n, (id_, text) in enumerate(rows, 1):
        id_ = id_ or str(n)
        # Two texts with one id, such as that of their document, are two passages.
        unique = next(i for i in _id_variants(id_) if texts_by_id.setdefault(i, text) == text)
        ids.append(unique)
    return [text for _, text in rows], ids


def _id_variants(id_: str) -> Iterable[str]:
    """Yield an id and then variants of it: ``a``, ``a~2``, ``a~3``, ..."""
    yield id_
    number = 2
    while True:
        yield f"{id_}~{number}"
        number += 1


def _passage(where: str, item: Any) -> tuple[str | None, str]:
    if isinstance(item, str):
        return None, item
    if not isinstance(item, Mapping):
        raise DatasetError(f"{where}: expected a string or an object, got {type(item).__name__}")
    row = present(item)
    fields = {
        field: next((row[name] for name in names if name in row), None)
        for field, names in PASSAGE_NAMES.items()
    }
    text, title, id_ = fields["text"], fields["title"], fields["id"]
    if not isinstance(text, str):
        raise DatasetError(
            f"{where}: no text; an object needs a field {_alternatives(PASSAGE_NAMES['text'])}"
        )
    titled = f"{title}\n{text}" if isinstance(title, str) and title else text
    return None if id_ is None else str(id_), titled


def _time(where: str, row: Mapping[str, Any], names: Sequence[str]) -> datetime | None:
    value = _value(row, names)
    if value is None:
        return None
    try:
        if isinstance(value, datetime):
            time = value
        elif isinstance(value, str):
            time = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        else:
            seconds = float(value) / (1000 if float(value) >= _MILLISECONDS else 1)
            time = datetime.fromtimestamp(seconds, UTC)
        # Times without a zone are taken as UTC.
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise DatasetError(
            f"{where}, field {_used_name(row, names)!r}: {value!r} is not a time; use ISO 8601, "
            "such as 2026-11-22T20:00:00Z, or seconds since 1970"
        ) from None


def _has_value(line: LogLine, name: str) -> bool:
    """Return whether a line has a value for a field, or the field is checked elsewhere."""
    match name:
        case "passages":
            return bool(line.entry.query.passages) or line.response.shown is not None
        case "model":
            return bool(line.entry.query.metadata)
        case "time" | "cluster" | "session":
            return getattr(line, name) is not None
        case _:
            return True


# Clusters -----------------------------------------------------------------------------------------


def regroup(logs: Sequence[Log]) -> tuple[Log, ...]:
    """Cluster the questions of several logs by one rule, so that the logs can be compared.

    By default, equal questions and the questions of one session are joined to one cluster. If many
    users ask the same questions, this rule may join everything. If it leaves fewer than
    :data:`FEWEST_JOINED` clusters in any of the logs, all logs with sessions are clustered by
    session alone. Their intervals are then valid for other users who ask the same questions.

    Args:
        logs: The logs. Logs whose lines name their cluster are not changed.
    """
    if all(_cluster_count(log) >= FEWEST_JOINED for log in logs if log.sessions):
        return tuple(logs)
    return tuple(_cluster_by_session(log) if log.sessions else log for log in logs)


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


def clustering_of(lines: Sequence[LogLine]) -> Clustering:
    """Return how the questions of these lines are grouped into clusters."""
    if any(line.cluster for line in lines):
        return "field"
    has_sessions = any(line.session is not None for line in lines)
    return "questions and sessions" if has_sessions else "questions"


def _clusters(lines: Sequence[LogLine], clustering: Clustering) -> list[str | None]:
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
        sessions: Name of each line's session, if it has one; no question has this name.
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


def _sessions(lines: Sequence[LogLine]) -> dict[str, str]:
    """Return the cluster that each question would have if only sessions counted, by query id.

    Equal questions of lines without a session form one cluster.
    """
    return {
        line.entry.query.id: (
            question_name(line) if line.session is None else f"session {line.session}"
        )
        for line in lines
    }


def question_name(line: LogLine) -> str:
    """Return a name that equal questions share."""
    return f"question {plain_text(line.entry.query.text).casefold()}"
