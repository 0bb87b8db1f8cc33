"""The YAML file of a grid; the whole file is validated before any step runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mirage._base.inputs import read_text
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.grids._entries import (
    FOLDER,
    PARTS,
    UNTRUSTED,
    CorpusEntry,
    DatasetEntry,
    EndpointEntry,
    Entry,
    GeneratorEntry,
    ModelName,
    OwnEntry,
    ProcessorEntry,
    PromptEntry,
    RerankerEntry,
    RetrieverEntry,
    RewriterEntry,
)
from mirage.grids._metrics import check_metric, cutoff_of
from mirage.grids.cells import AXES

NONE = "none"
"""The setting of an axis whose component a cell does not use, as in ``reranker: none``."""

ORACLE = "oracle"
"""The built-in retriever that returns the passages that the qrels mark as relevant."""

SECTIONS = {
    "dataset": "datasets",
    "corpus": "corpora",
    "retriever": "retrievers",
    "reranker": "rerankers",
    "processor": "processors",
    "generator": "generators",
    "prompt": "prompts",
}
"""The section of the file that defines the entries of each axis."""

BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "dataset": (),
    "corpus": (),
    "retriever": (NONE, ORACLE),
}
"""The built-in settings of each axis; axes that are not listed have only ``none``."""

DEPTHS = ("retrieve_k", "rerank_k", "show_k")
"""The axes whose settings are numbers of passages."""

Number = Annotated[int, Field(ge=1)]


class AxesEntry(BaseModel):
    """The section ``grid`` of the file: the settings of each axis, and combinations to exclude.

    A cell is one combination, with one setting of each axis. If its retriever is ``none``, the cell
    is closed book: it uses no passages, so its corpus, reranker, processor and numbers of passages
    are ignored.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: tuple[str, ...] = Field(min_length=1)
    corpus: tuple[str, ...] = ()
    retriever: tuple[str, ...] = (NONE,)
    reranker: tuple[str, ...] = (NONE,)
    processor: tuple[str, ...] = (NONE,)
    generator: tuple[str, ...] = (NONE,)
    prompt: tuple[str, ...] = (NONE,)
    retrieve_k: tuple[Number, ...] = (50,)
    rerank_k: tuple[Number, ...] = (50,)
    show_k: tuple[Number, ...] = (5,)
    exclude: tuple[dict[str, str | int], ...] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _list_of_one(cls, value: object) -> object:
        # A single setting may be written without brackets.
        return value if isinstance(value, list | tuple) else [value]

    def combinations(self) -> Iterator[dict[str, str]]:
        """Yield the settings of each cell, as a mapping from axis to setting.

        Excluded combinations are left out. Combinations that differ only in settings that they do
        not use are yielded once, as one cell.
        """
        names = [name for name in type(self).model_fields if name != "exclude"]
        identities = set()
        for values in product(*(getattr(self, name) or (NONE,) for name in names)):
            settings = dict(zip(names, map(str, values), strict=True))
            if any(_matches(settings, rule) for rule in self.exclude):
                continue
            settings = _without_unused(settings)
            if (identity := tuple(settings.items())) not in identities:
                identities.add(identity)
                yield settings


def _matches(settings: Mapping[str, str], rule: Mapping[str, str | int]) -> bool:
    return all(settings.get(axis) == str(value) for axis, value in rule.items())


def _without_unused(settings: dict[str, str]) -> dict[str, str]:
    """Return the settings of a cell, with ``none`` on each axis that the cell does not use.

    For example, a cell without a reranker does not use ``rerank_k``.
    """
    unused: set[str] = set()
    if settings["retriever"] == NONE:
        unused |= {"corpus", "reranker", "processor", *DEPTHS}
    if settings["reranker"] == NONE:
        unused.add("rerank_k")
    if settings["generator"] == NONE:
        unused |= {"prompt", "processor", "show_k"}
    return {axis: NONE if axis in unused else value for axis, value in settings.items()}


def _depth_problem(key: str, setting: str, passages: int, limits: Mapping[str, int]) -> str:
    """Return an error message if a cell ranks fewer passages than a setting needs, else "".

    Args:
        key: The key of the setting in the file.
        setting: The setting, such as ``R@100``.
        passages: The number of passages that it needs.
        limits: The numbers of passages that the retriever and the reranker return, by axis.
    """
    if not (short := [axis for axis, limit in limits.items() if limit < passages]):
        return ""
    fewest = min(limits.values())
    remedy = " and ".join(f"{axis}: {passages}" for axis in short)
    return (
        f"{key}: {setting} needs {passages} passages per query, but the pipeline ranks only "
        f"{fewest} ({', '.join(f'{axis}: {limits[axis]}' for axis in short)}); set {remedy} in the "
        "section grid, or use a smaller number here"
    )


class JudgeEntry(BaseModel):
    """The settings of the metric ``llm_eval``; see :func:`mirage.features.llm_eval`.

    ``judge`` is the name of an entry of ``generators`` of kind ``openai``; the LLM of that entry is
    the judge.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    scale: Literal["binary", "graded"] = "binary"
    method: Literal["label", "logprobs"] = "label"
    invalid: Literal["nan", "false"] = "nan"


class ModelsEntry(Entry):
    """The section ``models`` of the file: the models that metrics use.

    ``llm`` is the name of an entry of ``generators`` of kind ``openai``. ``nli``, ``reranker`` and
    ``embedder`` are names of models on the Hugging Face Hub, or model folders.
    """

    llm: str | None = None
    nli: ModelName | None = None
    reranker: ModelName | None = None
    embedder: ModelName | None = None


class GridConfig(BaseModel):
    """The validated content of a grid file: sections of entries, axes, and metrics.

    ``level`` selects whether retrieval metrics measure rankings of passages or of documents.
    ``order`` is the metric by which the rows of the printed table are sorted. ``seed`` is the
    random seed of prompts and generators.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    datasets: dict[str, DatasetEntry] = Field(min_length=1)
    corpora: dict[str, CorpusEntry] = Field(default_factory=dict)
    rewriters: dict[str, RewriterEntry] = Field(default_factory=dict)
    retrievers: dict[str, RetrieverEntry] = Field(default_factory=dict)
    rerankers: dict[str, RerankerEntry] = Field(default_factory=dict)
    processors: dict[str, ProcessorEntry] = Field(default_factory=dict)
    generators: dict[str, GeneratorEntry] = Field(default_factory=dict)
    prompts: dict[str, PromptEntry] = Field(default_factory=dict)
    grid: AxesEntry
    metrics: tuple[str, ...] = Field(min_length=1)
    llm_eval: JudgeEntry | None = None
    models: ModelsEntry = ModelsEntry()
    level: Literal["passage", "document"] = "passage"
    order: str = ""
    seed: int = 0

    @property
    def endpoints(self) -> dict[str, EndpointEntry]:
        """The entries that may send an API key, by names such as ``generators.gpt``."""
        return {
            f"{section}.{name}": entry
            for section in ("rewriters", "retrievers", "rerankers", "generators")
            for name, entry in getattr(self, section).items()
            if isinstance(entry, EndpointEntry)
        }

    @property
    def own_parts(self) -> dict[str, OwnEntry]:
        """The entries of ``kind: own``, by names such as ``retrievers.mine``."""
        return {
            f"{section}.{name}": entry
            for section in (*SECTIONS.values(), "rewriters")
            for name, entry in getattr(self, section).items()
            if isinstance(entry, OwnEntry)
        }

    @model_validator(mode="after")
    def _bind_parts(self, info: ValidationInfo) -> Self:
        parts: Mapping[str, Any] = (info.context or {}).get(PARTS) or {}
        sections = {name.partition(".")[2]: name.partition(".")[0] for name in self.own_parts}
        for name, entry in self.own_parts.items():
            section, _, key = name.partition(".")
            if sections[key] != section:
                raise ValueError(
                    f"{name}: the section {sections[key]} also has an entry of kind 'own' with "
                    "this name; rename one of them, because objects are passed by the names of "
                    "entries"
                )
            try:
                entry.bind(name, parts)
            except SettingError as error:
                raise ValueError(f"{name}: {error}") from None
        for name in parts:
            if name not in sections:
                raise ValueError(
                    f"parts: {UnknownNameError('entry', name, sections, 'of kind own')}"
                )
        return self

    @model_validator(mode="after")
    def _check_templates(self) -> Self:
        for cell in self.grid.combinations():
            entry = self.prompts.get(cell["prompt"])
            if entry is None or entry.kind != "template":
                continue
            has_slot = "{passages}" in entry.user
            if cell["retriever"] != NONE and not has_slot:
                raise ValueError(
                    f"prompts.{cell['prompt']}: the grid has cells with retrieval, so 'user' needs "
                    "the slot {passages}"
                )
            if cell["retriever"] == NONE and has_slot and not entry.closed_book_user:
                raise ValueError(
                    f"prompts.{cell['prompt']}: the grid has cells without retrieval (closed "
                    "book), so set 'closed_book_user', a template without {passages}"
                )
        return self

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        for section in SECTIONS.values():
            for name in getattr(self, section):
                if name in (NONE, ORACLE) or not name.strip():
                    raise ValueError(
                        f"{section}: the name {name!r} is reserved or empty; rename this entry"
                    )
        for key, kind, name, choices, place in self._references():
            if name not in choices:
                raise ValueError(f"{key}: {UnknownNameError(kind, name, choices, place)}")
        if set(self.grid.retriever) != {NONE} and not self.grid.corpus:
            raise ValueError(
                "grid.corpus: retrievers need a corpus; list an entry of the section corpora here"
            )
        return self

    @model_validator(mode="after")
    def _check_metrics(self) -> Self:
        for i, metric in enumerate(self.metrics):
            try:
                check_metric(metric)
            except (UnknownNameError, SettingError) as error:
                raise ValueError(f"metrics.{i}: {error}") from None
        return self

    @model_validator(mode="after")
    def _check_depths(self) -> Self:
        """Raise an error if a cell would show or measure more passages than it ranks."""
        problems: list[str] = []
        deepest: dict[tuple[str, ...], Mapping[str, int]] = {}
        for cell in self.grid.combinations():
            if cell["retriever"] == NONE:
                continue
            limits = {axis: int(cell[axis]) for axis in DEPTHS[:2] if cell[axis] != NONE}
            if cell["show_k"] != NONE:
                number = int(cell["show_k"])
                problems.append(_depth_problem("grid.show_k", "this setting", number, limits))
            # Cells with a small depth may measure fewer passages, if other cells reach the cutoff.
            axes = tuple(limits)
            deepest[axes] = max(
                limits, deepest.get(axes, limits), key=lambda each: min(each.values())
            )
        for i, metric in enumerate(self.metrics):
            for most in deepest.values():
                cutoff = cutoff_of(metric) or 0
                problems.append(_depth_problem(f"metrics.{i}", metric, cutoff, most))
        if problem := next(filter(None, problems), ""):
            raise ValueError(problem)
        return self

    def _references(self) -> Iterator[tuple[str, str, str, Iterable[str], str]]:
        """Yield every reference in the file to an entry, axis or metric, for validation.

        Yields:
            The key that contains the reference, the kind of its target, such as ``retriever``, the
            name of the target, all valid names, and the place to state in an error message.
        """
        for axis, section in SECTIONS.items():
            choices = [*getattr(self, section), *BUILT_IN.get(axis, (NONE,))]
            for name in getattr(self.grid, axis):
                yield f"grid.{axis}", axis, name, choices, ""
        plain_retrievers = [name for name, entry in self.retrievers.items() if entry.kind != "rrf"]
        for name, entry in self.retrievers.items():
            for other in getattr(entry, "of", ()):
                yield f"retrievers.{name}.of", "non-hybrid retriever", other, plain_retrievers, ""
            if rewriter := getattr(entry, "rewriter", None):
                yield f"retrievers.{name}.rewriter", "rewriter", rewriter, self.rewriters, ""
        for name, corpus in self.corpora.items():
            if corpus.dataset is not None:
                yield f"corpora.{name}.dataset", "dataset", corpus.dataset, self.datasets, ""
            for part in corpus.of:
                plain_corpora = [key for key, each in self.corpora.items() if not each.of]
                yield f"corpora.{name}.of", "corpus", part, plain_corpora, "without 'of'"
        if self.order:
            yield "order", "metric", self.order, self.metrics, "of the grid"
        for rule in self.grid.exclude:
            for axis in rule:
                yield "grid.exclude", "axis", axis, [*AXES, *DEPTHS], ""
        chat_generators = [
            name for name, entry in self.generators.items() if entry.kind == "openai"
        ]
        if self.llm_eval is not None:
            yield (
                "llm_eval.judge",
                "generator",
                self.llm_eval.judge,
                chat_generators,
                "of kind openai",
            )
        if self.models.llm is not None:
            yield "models.llm", "generator", self.models.llm, chat_generators, "of kind openai"


# Reading ------------------------------------------------------------------------------------------


def read_config(
    path: str | Path, *, parts: Mapping[str, Any] | None = None, trust: bool = False
) -> GridConfig:
    """Read the YAML file of a grid; paths in it are relative to its folder.

    Reading the file never executes code: tags that would create Python objects are errors. Unknown
    keys are errors too.

    Args:
        path: The path of the file.
        parts: The user's objects for the entries of ``kind: own``, by the name of the entry.
        trust: Whether every API key that the file names may be sent to the addresses in the file.
            By default only ``OPENAI_API_KEY`` is sent, and only to OpenAI and to the host of
            ``OPENAI_BASE_URL``; see :func:`mirage.llm.keys.key_uses`.

    Raises:
        DatasetError: If the file cannot be read or is invalid; the message names the file, the line
            and the problem.
    """
    import yaml

    path = Path(path)
    text = read_text(path, "settings")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        # Must run before safe_load, which expands aliases.
        _check_aliases(path, node)
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DatasetError(
            f"{path}{_line_of(error)}: not valid YAML ({_problem_of(error)})"
        ) from None
    except RecursionError:
        raise DatasetError(f"{path}: the YAML is nested too deeply; simplify it") from None
    if not isinstance(document, dict):
        raise DatasetError(
            f"{path}: expected a YAML mapping with the keys name, datasets, grid and metrics"
        )
    lines = dict(_lines(path, node, ()))
    try:
        folder = path.resolve().parent
        context = {FOLDER: folder, PARTS: parts, UNTRUSTED: None if trust else path}
        return GridConfig.model_validate(document, context=context)
    except ValidationError as error:
        raise DatasetError(_format_error(path, error, lines, document)) from None


def _line_of(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}" if mark is not None else ""


def _problem_of(error: Any) -> str:
    return str(getattr(error, "problem", None) or error).partition("\n")[0]


# A few lines of nested aliases can expand to billions of values ("YAML bomb").
_MOST_VALUES = 100_000


def _check_aliases(path: Path, node: Any) -> None:
    """Raise an error if YAML aliases of a document form a cycle or expand to too many values."""
    sizes: dict[int, int | None] = {}

    def size_of(node: Any) -> int:
        size = sizes.get(id(node), 0)
        if size is None:
            raise DatasetError(
                f"{path}: a YAML alias refers to a value that contains the alias itself; remove it"
            )
        if not size:
            sizes[id(node)] = None
            parts = node.value if isinstance(node.value, list) else []
            flat = (
                each for part in parts for each in (part if isinstance(part, tuple) else [part])
            )
            size = 1 + sum(map(size_of, flat))
            sizes[id(node)] = size
        return size

    if node is not None and size_of(node) > _MOST_VALUES:
        raise DatasetError(
            f"{path}: the YAML aliases expand to more than {_MOST_VALUES:,} values; use fewer "
            "aliases"
        )


_Path = tuple[str | int, ...]


def _lines(path: Path, node: Any, prefix: _Path) -> Iterator[tuple[_Path, int]]:
    """Yield the location of each key and list item of a YAML document.

    Args:
        path: The path of the file, for error messages.
        node: A node of the parsed document.
        prefix: The path of the node in the document.

    Yields:
        The path in the document, such as ``("grid", "retriever", 0)``, and the line, counted from
        1.
    """
    import yaml

    if isinstance(node, yaml.MappingNode):
        earlier_keys: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in earlier_keys:
                raise DatasetError(
                    f"{path}, line {line}: key {key.value!r} occurs twice; remove one"
                )
            earlier_keys.add(key.value)
            yield (*prefix, key.value), line
            yield from _lines(path, value, (*prefix, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield (*prefix, i), value.start_mark.line + 1
            yield from _lines(path, value, (*prefix, i))


def _format_error(
    path: Path, error: ValidationError, lines: Mapping[_Path, int], plain: Any
) -> str:
    """Return a message about the first validation error and the number of other errors.

    Args:
        path: The path of the file.
        error: The validation errors.
        lines: The line of each key and list item, by its path in the document.
        plain: The parsed document.
    """
    # A misspelt key is reported first, because it explains why another key is missing.
    details = sorted(
        error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden"
    )
    first = details[0]
    message = first["msg"].removeprefix("Value error, ")
    key_path = _document_path(plain, first["loc"] or tuple(message.partition(":")[0].split(".")))
    line = next(
        (lines[key_path[:n]] for n in range(len(key_path), 0, -1) if key_path[:n] in lines), 1
    )
    key = ".".join(map(str, key_path)) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        message = str(UnknownNameError("key", key_path[-1], _keys_at(first["loc"][:-1])))
    elif first["type"] == "missing":
        message = f"{first['loc'][-1]!r} is missing"
    rest = f"; and {len(details) - 1} more" if len(details) > 1 else ""
    location = f"{path}, line {line}" if key_path else str(path)
    return f"{location}: {f'{key}: ' if key else ''}{message}{rest}"


def _document_path(plain: Any, loc: tuple[str | int, ...]) -> _Path:
    """Return the path of an error in the parsed document, from its location in pydantic's error.

    Pydantic's location also contains the kind of the entry, which is not a key of the document.
    """
    key_path: list[str | int] = []
    value = plain
    for part in loc:
        if isinstance(value, list) and str(part).isdigit():
            part = int(part)
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            continue  # the kind of a union
        key_path.append(part)
    return tuple(key_path)


def _keys_at(loc: tuple[str | int, ...]) -> list[str]:
    """Return the keys that are valid at a location of the file, such as ``("grid",)``."""
    model: Any = GridConfig
    for part in loc:
        model = _type_at(model, part)
    return list(getattr(model, "model_fields", {}))


def _type_at(annotation: Any, part: str | int) -> Any:
    """Return the type of an inner value, such as a field, from the type of the outer value.

    Args:
        annotation: The type of the outer value.
        part: The part of a path that leads to the inner value: the name of a field, the index of a
            list item, or the kind of an entry.
    """
    fields = getattr(annotation, "model_fields", None)
    if fields is not None:
        return _strip_optional(fields[part].annotation) if str(part) in fields else annotation
    args = get_args(annotation)
    kinds = [each for each in map(_strip_optional, args) if hasattr(each, "model_fields")]
    for kind in kinds:
        kind_field = kind.model_fields.get("kind")
        if kind_field is not None and part in get_args(kind_field.annotation):
            return kind
    return (
        _strip_optional(args[-1])
        if get_origin(annotation) in (dict, tuple, list) and args
        else annotation
    )


def _strip_optional(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    alternatives = [each for each in get_args(annotation) if each is not type(None)]
    return (
        alternatives[0]
        if type(None) in get_args(annotation) and len(alternatives) == 1
        else annotation
    )
