"""Read exports of other tools as rows of a log.

LangChain and LlamaIndex write one answered question per row, under their own field names. The other
tools write one row per span (a step of an answer), and the spans of a trace answer one question.
:data:`FORMATS` lists the tools and the fields that are read. The field names come from

- LangChain 1.x (``langchain-core``), its ``dumpd`` and LangSmith's runs;
- LlamaIndex 0.14 (``llama-index-core``);
- OpenTelemetry semantic conventions for GenAI, of November 2026 (in development), in OTLP JSON and
  the JSON of the Python SDK;
- Langfuse, the Observations API v2 and the blob storage exports;
- Phoenix, its REST API and data frames, with OpenInference attributes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from mirage._base.files import rows_of, table_rows, validated
from mirage._base.inputs import read_text
from mirage._base.logs import logger
from mirage._base.passages import plain_text
from mirage._base.rows import is_missing
from mirage.errors import DatasetError

_LOG = logger("mirage.sources")


class Step(NamedTuple):
    """An attribute of spans that may contain a field of a log line, such as the question.

    Attributes:
        kinds: The kinds of spans to read; ``root`` is a span without a parent, and ``any`` means
            every span.
        path: Dotted name of the attribute.
    """

    kinds: tuple[str, ...]
    path: str


class Format(NamedTuple):
    """The fields of the exports of one tool.

    Attributes:
        fields: The names under which the tool writes each field of
            :data:`mirage.monitoring.logs.FIELDS`; empty for exports of spans.
        steps: For exports of spans, the attributes that may contain each field, in order of
            preference; empty for other exports.
    """

    fields: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    steps: Mapping[str, tuple[Step, ...]] = MappingProxyType({})


_AGENT = ("invoke_agent", "invoke_workflow")
_CHAT = ("chat", "generate_content", "text_completion")
_ANY, _ROOT = ("any",), ("root",)
_THREADS = ("session_id", "thread_id", "conversation_id")

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "langchain": Format(
            {
                "question": ("input", "question", "query", "inputs.input", "inputs.question"),
                "passages": (
                    "context",
                    "source_documents",
                    "documents",
                    "outputs.context",
                    "outputs.source_documents",
                    "outputs.documents",
                ),
                "answer": ("answer", "result", "output", "outputs.answer", "outputs.output"),
                "time": ("time", "timestamp", "start_time"),
                # In LangSmith, three keys of the metadata may name the thread.
                "session": (
                    *(f"extra.metadata.{name}" for name in _THREADS),
                    *(f"metadata.{name}" for name in _THREADS),
                    "user",
                    "user_id",
                    "session",
                    *_THREADS,
                ),
            }
        ),
        "llamaindex": Format(
            {
                "question": ("query", "query_str", "question", "input"),
                "passages": ("source_nodes", "response.source_nodes"),
                "answer": ("response", "response.response"),
            }
        ),
        "opentelemetry": Format(
            steps={
                "question": (
                    Step(_AGENT, "gen_ai.input.messages"),
                    # The prompt of a chat may contain the passages, unlike the query of a search.
                    Step(("retrieval",), "gen_ai.retrieval.query.text"),
                    Step(_CHAT, "gen_ai.input.messages"),
                ),
                "answer": (
                    Step(_ROOT, "gen_ai.output.messages"),
                    Step(_AGENT, "gen_ai.output.messages"),
                    Step(_CHAT, "gen_ai.output.messages"),
                ),
                "passages": (Step(("retrieval",), "gen_ai.retrieval.documents"),),
                "model": (
                    Step(_CHAT, "gen_ai.response.model"),
                    Step(_CHAT, "gen_ai.request.model"),
                ),
                "session": (Step(_ANY, "gen_ai.conversation.id"),),
            }
        ),
        "langfuse": Format(
            steps={
                "question": (Step(_ROOT, "input"),),
                "answer": (Step(_ROOT, "output"),),
                "passages": (Step(("retriever",), "output"),),
                "model": (
                    Step(("generation",), "providedModelName"),
                    Step(("generation",), "provided_model_name"),
                    Step(("generation",), "model"),
                ),
                "session": tuple(
                    Step(_ANY, name) for name in ("sessionId", "session_id", "userId", "user_id")
                ),
            }
        ),
        "phoenix": Format(
            steps={
                "question": (Step(_ROOT, "input.value"),),
                "answer": (Step(_ROOT, "output.value"),),
                "passages": (
                    Step(("reranker",), "reranker.output_documents"),
                    Step(("retriever",), "retrieval.documents"),
                ),
                "model": (Step(("llm",), "llm.model_name"),),
                "session": (Step(_ANY, "session.id"), Step(_ANY, "user.id")),
            }
        ),
    }
)
"""The formats of exports that can be read, by name of the tool."""


def export_rows(
    path: Path, form: str, damaged: list[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of an export; all spans of a trace become one row.

    Args:
        path: JSON Lines, Parquet, CSV or TSV, or one JSON document with the suffix ``.json``.
        form: A key of :data:`FORMATS`.
        damaged: List to which the errors of damaged lines are appended; by default they are raised.

    Yields:
        The location of the row, such as ``FILE, line 3``, and the row.
    """
    rows = _items(path, damaged)
    if not FORMATS[form].steps:
        yield from _root_runs(path, rows) if form == "langchain" else rows
        return
    traces: dict[str, list[tuple[str, _Span]]] = {}
    for where, row in rows:
        try:
            span = validated(_Span, row, where)
        except DatasetError as error:
            if damaged is None:
                raise
            damaged.append(str(error))
            continue
        traces.setdefault(span.trace, []).append((where, span))
    ambiguous: list[list[str]] = []
    for trace, located in traces.items():
        spans = _Trace([span for _, span in located], FORMATS[form])
        yield located[0][0], spans.row(trace)
        if spans.is_ambiguous:
            ambiguous.append(spans.chat_models)
    if ambiguous:
        models = sorted({model for models in ambiguous for model in models})
        _LOG.warning(
            "%s: %d of %d traces have several chat spans with an answer (models: %s); the answer "
            "is that of the chat span whose prompt contains the largest number of retrieved "
            "passages, or the last of several such spans; if this is wrong, record the answer as "
            "gen_ai.output.messages of the root span",
            path, len(ambiguous), len(traces), ", ".join(models[:5]) or "unknown",
        )  # fmt: skip


def _root_runs(
    path: Path, rows: Iterator[tuple[str, dict[str, Any]]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows that are no runs of LangSmith, and the runs without a parent run.

    A run with a parent is a step of an answer. The ``session_id`` of a run is left out, because it
    is the id of the project.
    """
    runs = roots = 0
    for where, row in rows:
        if "run_type" not in row or not row.keys() & {"inputs", "outputs"}:
            yield where, row
            continue
        runs += 1
        if not _has_parent(row):
            roots += 1
            yield where, {name: value for name, value in row.items() if name != "session_id"}
    if runs and not roots:
        raise DatasetError(
            f"{path}: all {runs} runs have a parent run, and only runs without one are read as "
            "questions; export the root runs too (is_root=True)"
        )


def _has_parent(run: Mapping[str, Any]) -> bool:
    # The id of a trace is that of its root run.
    if "id" in run and not is_missing(trace := run.get("trace_id")) and trace != run["id"]:
        return True
    parents = (run.get("parent_run_id"), parse_json(run.get("parent_run_ids")))
    return any(not is_missing(parent) and parent not in ("", []) for parent in parents)


# Items --------------------------------------------------------------------------------------------


def _items(path: Path, damaged: list[str] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location and content of each span, observation or row in an exported file.

    An object that contains a list of such items, such as a Langfuse trace or one page of an API's
    results, is replaced by the items. Errors of damaged lines are appended to ``damaged``; if it is
    ``None``, they are raised.
    """
    for where, row in _documents(path, damaged):
        spans = [
            _with_plain_attributes(span)
            for resource in row.get("resourceSpans", ())
            for scope in resource.get("scopeSpans", ())
            for span in scope.get("spans", ())
        ]
        if "resourceSpans" in row:
            yield from ((where, span) for span in spans)
        elif isinstance(row.get("observations"), list):  # a trace of Langfuse
            start = {"trace_id": row.get("id"), "type": "trace", "start_time": row.get("timestamp")}
            yield where, row | start
            for item in row["observations"]:
                parent = item.get("parentObservationId") or row.get("id")
                yield where, {**item, "parentObservationId": parent, "traceId": row.get("id")}
        elif isinstance(page := row.get("data", row.get("runs")), list):  # a page of an API
            yield from ((where, item) for item in page)
        else:
            yield where, row


def log_rows(path: Path, damaged: list[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a JSON Lines, Parquet, CSV or TSV file as pairs of location and row.

    In CSV and TSV, an empty cell is a missing value. Errors of damaged lines are appended to
    ``damaged``; if it is ``None``, they are raised. In CSV and TSV, they are always raised.
    """
    if path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        for where, row in rows_of(path):
            yield where, {name: value or None for name, value in row.items()}
    else:
        yield from table_rows(path, damaged)


def _documents(path: Path, damaged: list[str] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.suffix.lower() != ".json":
        yield from log_rows(path, damaged)
        return
    try:
        document = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise DatasetError(f"{path}, line {line}: not JSON ({error})") from None
    rows = document if isinstance(document, list) else [document]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DatasetError(
                f"{path}, item {number}: expected a JSON object, got {type(row).__name__}"
            )
        yield f"{path}, item {number}", row


def _with_plain_attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return an OTLP span whose list of attributes is converted to a mapping from name to value."""
    attributes = {
        item.get("key", ""): _plain(item.get("value")) for item in span.get("attributes", ())
    }
    return {**span, "attributes": attributes}


def _plain(value: Any) -> Any:
    """Convert an OTLP ``AnyValue`` to a Python value."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [_plain(item) for item in content.get("values", ())]
    if kind == "kvlistValue":
        return {item.get("key"): _plain(item.get("value")) for item in content.get("values", ())}
    return content


# Spans --------------------------------------------------------------------------------------------


def _time_of(value: Any) -> Any:
    """Convert an OTLP time (nanoseconds since 1970) to ISO 8601; return other times unchanged."""
    if isinstance(value, str) and value.isdecimal() and len(value) > 16:
        return datetime.fromtimestamp(int(value) / 1e9, UTC).isoformat()
    return None if is_missing(value) else value


def _text_or_none(value: Any) -> Any:
    return None if is_missing(value) or value == "" else value


_Optional = Annotated[str | None, BeforeValidator(_text_or_none)]


class _Span(BaseModel):
    """One span: an operation in the trace of a request, such as a retrieval or an LLM call.

    The aliases of a field are the names that different tracing tools give it.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    trace: str = Field(
        validation_alias=AliasChoices(
            AliasPath("context", "trace_id"), "context.trace_id", "traceId", "trace_id"
        )
    )
    id: str = Field(
        validation_alias=AliasChoices(
            AliasPath("context", "span_id"), "context.span_id", "spanId", "span_id", "id"
        )
    )
    parent: _Optional = Field(
        None,
        validation_alias=AliasChoices(
            "parent_id",
            "parentSpanId",
            "parent_span_id",
            "parentObservationId",
            "parent_observation_id",
        ),
    )
    kind: _Optional = Field(None, validation_alias=AliasChoices("span_kind", "type"))
    start: Annotated[Any, BeforeValidator(_time_of)] = Field(
        None, validation_alias=AliasChoices("start_time", "startTime", "startTimeUnixNano")
    )
    status: Any = Field(None, validation_alias=AliasChoices("status", "status_code", "level"))
    message: Any = Field(None, validation_alias=AliasChoices("status_message", "statusMessage"))
    attributes: dict[str, Any] = Field(default_factory=dict)

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """The attributes and the other fields of the span; dotted names become nested objects."""
        flat = self.model_extra or {}
        # Data frames of Phoenix have one column per attribute.
        columns = {
            name.removeprefix("attributes."): value
            for name, value in flat.items()
            if name.startswith("attributes.") and not is_missing(value)
        }
        return {**flat, **_nested({**self.attributes, **columns})}

    @cached_property
    def kinds(self) -> set[str]:
        """The kinds of the span in lower case, such as ``retriever``; always includes ``any``."""
        names = (
            self.kind,
            _look_up(self.values, "openinference.span.kind"),
            _look_up(self.values, "gen_ai.operation.name"),
        )
        return {str(name).lower() for name in names if name} | {"any"}

    @property
    def error(self) -> str | None:
        """The reason why the span failed; ``None`` if it did not fail."""
        status = self.status if isinstance(self.status, dict) else {"code": self.status}
        code = status.get("code", status.get("status_code"))
        if str(code).upper() not in ("2", "ERROR", "STATUS_CODE_ERROR"):
            return None
        words = self.message or status.get("message") or status.get("description")
        return str(words or "the span has the status ERROR")


def _nested(values: Any) -> Any:
    """Convert dotted names to nested objects, and objects with numbers as keys to lists."""
    if isinstance(values, list):
        return [_nested(item) for item in values]
    if not isinstance(values, Mapping):
        return values
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *parents, last = str(name).split(".")
        branch: Any = tree
        for part in parents:
            branch = branch.setdefault(part, {}) if isinstance(branch, dict) else None
        if isinstance(branch, dict):
            branch.setdefault(last, _nested(value))
    return _with_lists(tree)


def _with_lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    items = {name: _with_lists(value) for name, value in tree.items()}
    if items and all(name.isdecimal() for name in items):
        return [items[name] for name in sorted(items, key=int)]
    return items


def _look_up(values: Any, path: str) -> Any:
    for part in path.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


_CHECKS = {"guardrail", "evaluator"}
"""Kinds of spans that check an answer, in OpenInference and Langfuse. They contain no answer."""

_PROMPTS = ("gen_ai.input.messages", "gen_ai.system_instructions")
_QUOTE = 60  # characters at the start of a passage by which it is found in a prompt

# Of a long trace, only the end is searched for the answer, because the time is quadratic.
_MOST_CHATS = 50
_MOST_QUOTES = 200


class _Trace:
    """The spans of a trace, in order of time, without those that check an answer."""

    def __init__(self, spans: Sequence[_Span], form: Format) -> None:
        by_id = {span.id: span for span in spans}
        ordered = sorted(spans, key=lambda span: str(span.start or ""))
        self._form = form
        self._root = next((span for span in ordered if span.parent not in by_id), ordered[0])
        self._by_id = by_id
        self._spans = [span for span in ordered if not self._is_check(span)]
        self._documents = next(
            (_documents_of(some) for step in form.steps["passages"] if (some := self._read(step))),
            None,
        )
        self._chats = [span for span in self._spans if span.kinds & {*_CHAT}][-_MOST_CHATS:]

    @property
    def is_ambiguous(self) -> bool:
        """Whether the answer is that of one of several chat spans."""
        return self._answer[1] and len(self._chat_texts) > 1

    @property
    def chat_models(self) -> list[str]:
        """The models of the chat spans that have an answer."""
        models = (self._model_of([span]) for span, _ in self._chat_texts)
        return [model for model in models if model]

    def row(self, trace: str) -> dict[str, Any]:
        """Return a row with the question, its passages and the answer; ``trace`` is its id."""
        steps = self._form.steps
        questions = (
            text_of(some[0], "question") for step in steps["question"] if (some := self._read(step))
        )
        answer, _ = self._answer
        sessions = (some[-1] for step in steps["session"] if (some := self._read(step)))
        return {
            "id": trace,
            "question": next((text for text in questions if text), ""),
            "answer": answer,
            "error": (self._root.error or self._chat_error) if answer is None else None,
            "time": self._root.start,
            "passages": self._documents,
            "model": self._model_of(self._answering_chats[-1:]) or self._model_of(self._spans),
            "session": next((str(session) for session in sessions), None),
        }

    def _ancestors(self, span: _Span) -> Iterator[_Span]:
        seen = {span.id}
        while (parent := self._by_id.get(span.parent or "")) and parent.id not in seen:
            seen.add(parent.id)
            yield parent
            span = parent

    def _is_check(self, span: _Span) -> bool:
        return any(each.kinds & _CHECKS for each in (span, *self._ancestors(span)))

    def _chosen(self, step: Step) -> list[_Span]:
        if step.kinds == _ROOT:
            return [self._root]
        return [span for span in self._spans if span.kinds & {*step.kinds}]

    def _read(self, step: Step) -> list[Any]:
        """Return the values of an attribute in order of time."""
        values = [_look_up(span.values, step.path) for span in self._chosen(step)]
        return [value for value in values if not is_missing(value)]

    @cached_property
    def _answer(self) -> tuple[str | None, bool]:
        """The answer, ``None`` if there is none, and whether it is that of a chat span."""
        for step in self._form.steps["answer"]:
            if step.kinds == _CHAT:
                return next((text for _, text in reversed(self._answering_texts)), None), True
            texts = self._texts(self._chosen(step), step.path)
            if texts:
                return texts[-1][1], False
        return None, False

    def _texts(self, spans: Iterable[_Span], path: str) -> list[tuple[_Span, str]]:
        """Return the answers of spans, without those of spans inside others that have one."""
        values = ((span, _look_up(span.values, path)) for span in spans)
        texts = {
            span.id: (span, text)
            for span, value in values
            if not is_missing(value) and (text := text_of(value, "answer"))
        }
        return [
            (span, text)
            for span, text in texts.values()
            if not any(parent.id in texts for parent in self._ancestors(span))
        ]

    @cached_property
    def _chat_texts(self) -> list[tuple[_Span, str]]:
        """The chat spans that have an answer, with their answers."""
        path = "gen_ai.output.messages"
        spans = [span for span in self._chats if not _calls_tool(_look_up(span.values, path))]
        return self._texts(spans, path)

    @cached_property
    def _answering_chats(self) -> list[_Span]:
        """The chat spans whose prompts contain the largest number of retrieved passages."""
        if len(self._chats) < 2:
            return self._chats
        documents = (self._documents or [])[-_MOST_QUOTES:]
        quotes = [_longest(document)[:_QUOTE].strip() for document in documents]
        counts = [sum(quote in prompt for quote in quotes if quote) for prompt in self._prompts()]
        return [
            span
            for span, count in zip(self._chats, counts, strict=True)
            if count == max(counts, default=0)
        ]

    def _prompts(self) -> Iterator[str]:
        """Yield the prompt of each chat span, without the answers of earlier ones.

        The prompt of a check contains the answer, which may quote a passage.
        """
        texts = {span.id: plain_text(text) for span, text in self._chat_texts}
        earlier: list[str] = []
        for span in self._chats:
            prompt = _prompt(span)
            for text in earlier:
                prompt = prompt.replace(text, " ")
            yield prompt
            if text := texts.get(span.id, ""):
                earlier.append(text)

    @property
    def _answering_texts(self) -> list[tuple[_Span, str]]:
        ids = {span.id for span in self._answering_chats}
        texts = [(span, text) for span, text in self._chat_texts if span.id in ids]
        # If the chat about the passages failed, another chat, such as a check, is no answer.
        return texts if texts or self._chat_error else self._chat_texts

    @property
    def _chat_error(self) -> str | None:
        errors = (span.error for span in reversed(self._answering_chats))
        return next((error for error in errors if error), None)

    def _model_of(self, spans: Sequence[_Span]) -> str | None:
        """Return the model of the last of the spans that names one."""
        for step in self._form.steps["model"]:
            values = [
                _look_up(span.values, step.path) for span in spans if span.kinds & {*step.kinds}
            ]
            models = [str(value) for value in values if not is_missing(value)]
            if models:
                return models[-1]
        return None


def _calls_tool(messages: Any) -> bool:
    content = parse_json(messages)
    last = content[-1] if isinstance(content, list) and content else None
    return isinstance(last, Mapping) and "tool_call" in str(last.get("finish_reason"))


def _strings(value: Any) -> Iterator[str]:
    """Yield all strings in a value, which may be a JSON text."""
    pending = [value]
    while pending:
        content = parse_json(pending.pop())
        if isinstance(content, str):
            yield content
        elif isinstance(content, Mapping | list):
            items = content.values() if isinstance(content, Mapping) else content
            pending += reversed([*items])


def _longest(document: Any) -> str:
    """Return the longest string in a document, which is its text."""
    return plain_text(max(_strings(document), key=len, default=""))


def _prompt(span: _Span) -> str:
    texts = (text for path in _PROMPTS for text in _strings(_look_up(span.values, path)))
    return plain_text(" ".join(texts))


# Texts and passages -------------------------------------------------------------------------------

_KEYS = {
    "question": ("question", "query", "user_input", "input", "inputs", "messages"),
    "answer": ("answer", "response", "result", "output", "outputs", "messages", "choices"),
}
_TEXT_KEYS = ("message", "kwargs", "parts", "content", "text")
_ROLES = {"question": ("user", "human"), "answer": ("assistant", "ai", "model")}
_LISTS = ("documents", "context", "contexts", "passages", "source_nodes", "nodes", "results")


def parse_json(value: Any) -> Any:
    """Parse a text that is a JSON object or array; return other values unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def text_of(value: Any, wanted: Literal["question", "answer"]) -> str | None:
    """Return the question or the answer in the input or output of a span; ``None`` if it has none.

    The input or output may be a text, an object such as ``{"input": "..."}``, or a list of
    messages. In a list, the question is the user's last message, and the answer is the model's last
    message.

    Example:
        >>> text_of('{"messages": [{"role": "user", "content": "Who?"}]}', "question")
        'Who?'
    """
    content = parse_json(value)
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        names = (*_KEYS[wanted], *_TEXT_KEYS)
        texts = (text_of(content[name], wanted) for name in names if name in content)
        text = next((text for text in texts if text), None)
        # JSON without any of the known names is itself the answer.
        return value if text is None and isinstance(value, str) else text
    if not isinstance(content, list) or not content:
        return None
    messages = [
        item
        for item in content
        if isinstance(item, Mapping)
        and str(item.get("role") or item.get("type")).lower() in _ROLES[wanted]
    ]
    if messages:
        return text_of(messages[-1], wanted)
    if isinstance(content[-1], list):
        return text_of(content[-1], wanted)
    parts = [item for item in content if not isinstance(item, Mapping) or _is_text(item)]
    return "".join(text for part in parts if (text := text_of(part, wanted))) or None


def _is_text(part: Mapping[str, Any]) -> bool:
    return part.get("type", "text") == "text" and "role" not in part


def _documents_of(values: Sequence[Any]) -> list[Any]:
    """Return the passages in ``values``, the outputs of retrievers, in their order."""
    documents: list[Any] = []
    for value in map(parse_json, values):
        if isinstance(value, Mapping):
            lists = [value[name] for name in _LISTS if isinstance(value.get(name), list)]
            documents += lists[0] if lists else [value]
        else:
            documents += value if isinstance(value, list) else [value]
    return documents
