"""Production logs: questions, the passages that were shown, and answers; nothing else is known.

JSON Lines (gzipped or not) or Parquet, an answered question a line, with the field names that
people have (:data:`FIELDS`), or any other, which ``fields`` then says. What comes out are a dataset
and a run, so that whatever needs no reference, relevant passage or short answer works on them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

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
"""What is read of a line, and what others call it; the first name that a line has counts."""

PERIODS: Mapping[str, Callable[[datetime], str]] = MappingProxyType(
    {
        "day": lambda time: f"{time:%Y-%m-%d}",
        "week": lambda time: f"{time:%G-W%V}",
        "month": lambda time: f"{time:%Y-%m}",
    }
)
"""What a log is parted by, and how a part is called, such as ``2026-W47`` (ISO 8601, UTC)."""

FEWEST_JOINED = 12
"""If joining equal questions and sessions leaves fewer clusters, sessions alone are clusters."""

Clustering = Literal["field", "questions", "questions and sessions", "sessions"]
"""What makes a cluster of a log: a field of its lines, equal questions, or one user or session."""

_LOG = logger("mirage.sources")
_NO_ANSWER = "the log has no answer"
_MILLISECONDS = 1e11
"""Numbers from here on are milliseconds: as seconds they are in the year 5138."""


class Log(NamedTuple):
    """What a system was asked and answered.

    Attributes:
        dataset: the questions, each asked once: what was asked twice has two ids. ``cluster`` says
            which hang together, and ``metadata`` has the ``model`` of a line that names one.
        run: the answers. A line with an error, or whose answer is null, is a failure.
        times: when each was asked, by query id, in UTC; of lines that say so.
        clustering: What makes a cluster.
        sessions: The cluster of each question by session alone, by query id; empty if no line
            names a session or if lines name their cluster.
        joined: If ``clustering`` is ``"sessions"``, the number of clusters that joining equal
            questions as well would leave.
    """

    dataset: MirageDataset
    run: Run
    times: Mapping[str, datetime]
    clustering: Clustering = "questions"
    sessions: Mapping[str, str] = MappingProxyType({})
    joined: int = 0

    def by(self, period: str) -> dict[str, Log]:
        """The parts of a log by ``day``, ``week`` or ``month`` (ISO 8601, UTC), the oldest first.

        Raises:
            UnknownNameError: there is no such period.
            DatasetError: a line does not say its time.
        """
        if period not in PERIODS:
            raise UnknownNameError("period", period, PERIODS)
        untold = next((id_ for id_ in self.dataset.query_ids if id_ not in self.times), None)
        if untold is not None:
            raise DatasetError(
                f"{self.dataset.name}: question {untold!r} does not say when it was asked; name "
                "the field that does, as in time=created"
            )
        parts = self._parts({id_: PERIODS[period](time) for id_, time in self.times.items()})
        return {name: parts[name] for name in sorted(parts)}

    def last(self, period: str) -> tuple[Log, Log]:
        """All before the last day, week or month that a log has, and that one.

        Raises:
            UnknownNameError: there is no such period.
            DatasetError: a line does not say its time, or all are of one period.
        """
        parts = self.by(period)
        latest = next(reversed(parts))
        if len(parts) == 1:
            raise DatasetError(
                f"{self.dataset.name}: all is of one {period}, {latest}; there is nothing to "
                "compare it with"
            )
        when = {
            id_: latest if PERIODS[period](time) == latest else f"before {latest}"
            for id_, time in self.times.items()
        }
        both = self._parts(when)
        return both[f"before {latest}"], both[latest]

    def by_model(self) -> dict[str, Log]:
        """The part of each model that lines name; the whole where none or one is named."""
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


class _Line(NamedTuple):
    """One line, read."""

    asked: Asked
    response: Response
    time: datetime | None
    cluster: str | None
    session: str | None


def is_log(path: str | Path, fields: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Whether the first line of a file has a question, which a file of responses has not.

    Raises:
        DatasetError: it cannot be read.
        UnknownNameError: ``fields`` names none of :data:`FIELDS`.
    """
    names = _names(fields)["question"]
    rows = islice(table_rows(Path(path)), 1)
    return any(_found(row, name) is not None for _, row in rows for name in names)


def read(
    path: str | Path,
    *,
    language: str,
    fields: Mapping[str, str] = MappingProxyType({}),
    model: str = "",
) -> Log:
    """Read a log.

    Passages are texts, or objects with a ``text`` and perhaps an ``id`` and ``title``, in the order
    in which the prompt showed them; a line without the field does not say what was shown. A
    question without an id gets the number of its line. Those with the same text (but for blanks,
    case and Unicode's form), and those of one user or session, are one cluster, unless a field
    ``cluster`` says what hangs together: then that alone counts. A line with an empty question is
    left out, with a warning.

    Args:
        path: JSON Lines, gzipped or not, or Parquet (extra ``retrieval``).
        language: that the questions should be in.
        fields: by a name of :data:`FIELDS`, what the log calls it; dots lead into objects, and
            numbers into lists: ``{"answer": "choices.0.message.content"}``.
        model: the run's name; by default the only one that lines name, or the file's.

    Raises:
        DatasetError: names the file, the line and the field that is wrong.
        UnknownNameError: no such language, or no such name in ``fields``.
        MissingPackageError: Parquet needs the extra ``retrieval``.
    """
    path, code, names = Path(path), Language.of(language).code, _names(fields)
    lines: list[_Line] = []
    places: dict[str, str] = {}
    empty: list[str] = []
    for where, row in table_rows(path):
        line = _line(where, row, names, code)
        if line is None:
            empty.append(where)
            continue
        first = places.setdefault(line.asked.query.id, where)
        if first != where:
            raise DatasetError(
                f"{where}, field {_name(row, names['id'])!r}: {line.asked.query.id!r} stands in "
                f"{first.rpartition(', ')[2]} too; a line is one answered question, with an id of "
                "its own or none (name another field, as in id=request_id)"
            )
        lines.append(line)
    if empty:
        _LOG.warning(
            "%s: lines left out, for their question is empty: %d, the first %s",
            path, len(empty), empty[0].rpartition(", ")[2],
        )  # fmt: skip
    if not lines:
        raise DatasetError(f"{path}: no answered question in this file")
    _check_given(path, fields, lines)
    clustering = _clustering(lines)
    clusters = _clusters(lines, clustering)
    queries = [
        line.asked.query.model_copy(update={"cluster": cluster})
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
        {line.asked.query.id: line.time for line in lines if line.time is not None},
        clustering,
        _sessions(lines) if clustering == "questions and sessions" else {},
    )


# Fields -------------------------------------------------------------------------------------------


def _names(fields: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    for name in fields:
        if name not in FIELDS:
            raise UnknownNameError("field of a log", name, FIELDS)
    return {**FIELDS, **{name: (theirs,) for name, theirs in fields.items()}}


def _found(row: Mapping[str, Any], name: str) -> Any:
    """What stands under a name, which may lead into objects and lists; ``None`` for nothing."""
    if name in row:  # also one with dots, as attributes of OpenTelemetry have
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


def _name(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first of the names under which something stands, or else the first."""
    return next((name for name in names if _found(row, name) is not None), names[0])


def _value(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return _found(row, _name(row, names))


def _text(where: str, row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    value = _value(row, names)
    if value is None or isinstance(value, str):
        return value
    name, kind = _name(row, names), type(value).__name__
    within = f"; dots lead into it, as in {name}.text" if isinstance(value, dict | list) else ""
    raise DatasetError(f"{where}, field {name!r}: expected a text, found {kind}{within}")


def _label(where: str, row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """A text that names something; numbers are such, too."""
    value = _value(row, names)
    if type(value) is int:
        return str(value)
    return _text(where, row, names) or None


def _line(
    where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]], code: str
) -> _Line | None:
    question = _text(where, row, names["question"])
    if question is None:
        raise DatasetError(
            f"{where}: no field {_listed(names['question'])}; name the one that has the question, "
            f"as in question=input.text; there are {', '.join(map(repr, row)) or 'none'}"
        )
    if not question.strip():
        return None
    texts, ids = _passages(where, row, names["passages"])
    model = _label(where, row, names["model"])
    asked = query_of(
        where,
        id=_label(where, row, names["id"]) or where.rpartition(" ")[2],
        language=code,
        text=question,
        retrieved=texts,
        reference=None,
        relevant=None,
        retrieved_ids=ids,
    )
    query = asked.query.model_copy(update={"metadata": {"model": model} if model else {}})
    text, error = _answer(where, row, names)
    response = response_to(
        query.id,
        text,
        error=error,
        shown=None if texts is None or asked.shown == query.passage_ids != () else asked.shown,
    )
    return _Line(
        asked._replace(query=query),
        response,
        _time(where, row, names["time"]),
        _label(where, row, names["cluster"]),
        _label(where, row, names["session"]),
    )


def _answer(
    where: str, row: Mapping[str, Any], names: Mapping[str, Sequence[str]]
) -> tuple[str | None, str]:
    """The answer, or why there is none."""
    error = _value(row, names["error"])
    if error not in (None, False, "", 0, {}, []):
        return None, error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    text = _text(where, row, names["answer"])
    if text is None and not any(_leads(row, name) for name in names["answer"]):
        raise DatasetError(
            f"{where}: neither an answer ({_listed(names['answer'])}) nor an error; name the field "
            f"that has the answer, as in answer=output.text; there are {', '.join(map(repr, row))}"
        )
    return text, _NO_ANSWER


def _leads(row: Mapping[str, Any], name: str) -> bool:
    """Whether a row has a field, if only with null in it."""
    return name in row or name.partition(".")[0] in row


def _listed(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))


def _passages(
    where: str, row: Mapping[str, Any], names: Sequence[str]
) -> tuple[list[str] | None, list[str] | None]:
    """Texts and ids of the passages that were shown, ``None`` where the line does not say."""
    value = _value(row, names)
    if value is None:
        return None, None
    place = f"{where}, field {_name(row, names)!r}"
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise DatasetError(f"{place}: expected a list of passages, found {type(value).__name__}")
    rows = [_passage(f"{place}, passage {n}", item) for n, item in enumerate(items, 1)]
    if not any(id_ for id_, _ in rows):
        return [text for _, text in rows], None
    known: dict[str, str] = {}
    ids = []
    for n, (id_, text) in enumerate(rows, 1):
        id_ = id_ or str(n)
        # Two texts under one id, such as a document's, are two passages.
        other = next(i for i in _numbered(id_) if known.setdefault(i, text) == text)
        ids.append(other)
    return [text for _, text in rows], ids


def _numbered(id_: str) -> Iterable[str]:
    yield id_
    number = 2
    while True:
        yield f"{id_}~{number}"
        number += 1


def _passage(place: str, item: Any) -> tuple[str | None, str]:
    if isinstance(item, str):
        return None, item
    if not isinstance(item, Mapping):
        raise DatasetError(f"{place}: expected a text or an object, found {type(item).__name__}")
    row = present(item)
    fields = {
        field: next((row[name] for name in names if name in row), None)
        for field, names in PASSAGE_NAMES.items()
    }
    text, title, id_ = fields["text"], fields["title"], fields["id"]
    if not isinstance(text, str):
        raise DatasetError(
            f"{place}: no text; an object has it under {_listed(PASSAGE_NAMES['text'])}"
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
        # What names no zone is in UTC.
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        raise DatasetError(
            f"{where}, field {_name(row, names)!r}: {value!r} is no time; write ISO 8601, such as "
            "2026-11-22T20:00:00Z, or seconds since 1970"
        ) from None


def _check_given(path: Path, fields: Mapping[str, str], lines: Sequence[_Line]) -> None:
    """Refuse a name that no line has: it is misspelt."""
    has: Mapping[str, Callable[[_Line], object]] = {
        "passages": lambda line: line.asked.query.passages or line.response.shown is not None,
        "time": lambda line: line.time,
        "model": lambda line: line.asked.query.metadata,
        "cluster": lambda line: line.cluster,
        "session": lambda line: line.session,
    }
    for name in fields.keys() & has.keys():
        if not any(map(has[name], lines)):
            raise SettingError(f"{path}: no line has the field {fields[name]!r} ({name})")


# Clusters -----------------------------------------------------------------------------------------


def regroup(logs: Sequence[Log]) -> tuple[Log, ...]:
    """Return logs that are compared with each other, all clustered by the same rule.

    Equal questions and the questions of one session are joined to one cluster. When users share
    their questions this may join everything. If it leaves fewer than :data:`FEWEST_JOINED` clusters
    in any of the logs, every log that names sessions is clustered by session alone: its intervals
    then hold for other users who ask the same questions.

    Args:
        logs: The logs; those whose lines name their cluster stay as they are.
    """
    if all(_cluster_count(log) >= FEWEST_JOINED for log in logs if log.sessions):
        return tuple(logs)
    return tuple(_by_session(log) if log.sessions else log for log in logs)


def _cluster_count(log: Log) -> int:
    return len({query.cluster or (query.id,) for query in log.dataset})


def _by_session(log: Log) -> Log:
    if log.clustering == "sessions":
        return log
    queries = [
        query.model_copy(update={"cluster": log.sessions.get(query.id)}) for query in log.dataset
    ]
    dataset = MirageDataset(queries, name=log.dataset.name)
    return log._replace(dataset=dataset, clustering="sessions", joined=_cluster_count(log))


def _clustering(lines: Sequence[_Line]) -> Clustering:
    if any(line.cluster for line in lines):
        return "field"
    named = any(line.session is not None for line in lines)
    return "questions and sessions" if named else "questions"


def _clusters(lines: Sequence[_Line], clustering: Clustering) -> list[str | None]:
    """Return the cluster of each line; ``None`` for a line that is a cluster by itself."""
    if clustering == "field":
        return [line.cluster for line in lines]
    roots: dict[str, str] = {}

    def root(node: str) -> str:
        while roots.setdefault(node, node) != node:
            roots[node] = roots[roots[node]]
            node = roots[node]
        return node

    questions = list(map(_question_name, lines))
    for line, question in zip(lines, questions, strict=True):
        if line.session is not None:
            roots[root(question)] = root(f"session {line.session}")
    names = [root(question) for question in questions]
    sizes = Counter(names)
    return [name if sizes[name] > 1 else None for name in names]


def _sessions(lines: Sequence[_Line]) -> dict[str, str]:
    """Return the cluster of each question by session alone.

    Equal questions of lines without a session are one cluster.
    """
    return {
        line.asked.query.id: (
            _question_name(line) if line.session is None else f"session {line.session}"
        )
        for line in lines
    }


def _question_name(line: _Line) -> str:
    return f"question {plain_text(line.asked.query.text).casefold()}"
