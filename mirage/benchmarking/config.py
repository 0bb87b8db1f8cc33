"""The file of a grid: YAML that is checked before anything is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from mirage._base.inputs import read_text
from mirage.benchmarking._entries import (
    FOLDER,
    UNTRUSTED,
    CorpusEntry,
    DatasetEntry,
    EndpointEntry,
    Entry,
    GeneratorEntry,
    ModelName,
    ProcessorEntry,
    PromptEntry,
    RerankerEntry,
    RetrieverEntry,
    RewriterEntry,
)
from mirage.benchmarking.cells import AXES
from mirage.errors import DatasetError, UnknownNameError

__all__ = ["DEPTHS", "NONE", "ORACLE", "SECTIONS", "GridConfig", "read_config"]

NONE = "none"
"""What stands for a part that a cell does not have."""

ORACLE = "oracle"
"""The retriever that every grid has: the passages that the qrels name."""

SECTIONS = {
    "dataset": "datasets",
    "corpus": "corpora",
    "retriever": "retrievers",
    "reranker": "rerankers",
    "processor": "processors",
    "generator": "generators",
    "prompt": "prompts",
}
"""Where the entries that an axis names stand."""

BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "dataset": (),
    "corpus": (),
    "retriever": (NONE, ORACLE),
}
"""What an axis may name beside the entries of its section, where that is not ``none`` alone."""

DEPTHS = ("retrieve_k", "rerank_k", "show_k")
"""The axes that are numbers of passages."""

Number = Annotated[int, Field(ge=1)]


class AxesEntry(BaseModel):
    """What is combined with what: names of entries by axis, and what to leave out.

    A cell is one of each. Without a retriever (``none``) it is closed book, and has no reranker,
    processor or number of passages, whatever these axes say.
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
        return value if isinstance(value, list | tuple) else [value]

    def combinations(self) -> Iterator[dict[str, str]]:
        """The settings of each cell, once each, in the order of the axes."""
        names = [name for name in type(self).model_fields if name != "exclude"]
        seen = set()
        for values in product(*(getattr(self, name) or (NONE,) for name in names)):
            settings = dict(zip(names, map(str, values), strict=True))
            if any(_matches(settings, rule) for rule in self.exclude):
                continue
            settings = _plain(settings)
            if (identity := tuple(settings.items())) not in seen:
                seen.add(identity)
                yield settings


def _matches(settings: Mapping[str, str], rule: Mapping[str, str | int]) -> bool:
    return all(settings.get(axis) == str(value) for axis, value in rule.items())


def _plain(settings: dict[str, str]) -> dict[str, str]:
    """Without what has no part in the cell."""
    unused: set[str] = set()
    if settings["retriever"] == NONE:
        unused |= {"corpus", "reranker", "processor", *DEPTHS}
    if settings["reranker"] == NONE:
        unused.add("rerank_k")
    if settings["generator"] == NONE:
        unused |= {"prompt", "processor", "show_k"}
    return {axis: NONE if axis in unused else value for axis, value in settings.items()}


class JudgeEntry(BaseModel):
    """How ``llm_eval`` judges; see :func:`mirage.features.llm_eval`.

    ``judge`` names a generator of kind ``openai``, whose endpoint is asked.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: str
    scale: Literal["binary", "graded"] = "binary"
    method: Literal["label", "logprobs"] = "label"
    invalid: Literal["nan", "false"] = "nan"


class ModelsEntry(Entry):
    """The models of features that need one: ``llm`` names a generator of kind ``openai``."""

    llm: str | None = None
    nli: ModelName | None = None
    reranker: ModelName | None = None
    embedder: ModelName | None = None


class GridConfig(BaseModel):
    """What the file of a grid says, checked: sections of entries, axes, and metrics.

    ``level`` says whether retrieval is measured by passages or by documents.
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
    seed: int = 0

    @property
    def endpoints(self) -> dict[str, EndpointEntry]:
        """The entries that may send a key, by section and name."""
        return {
            f"{section}.{name}": entry
            for section in ("rewriters", "retrievers", "rerankers", "generators")
            for name, entry in getattr(self, section).items()
            if isinstance(entry, EndpointEntry)
        }

    @model_validator(mode="after")
    def _names_what_is_there(self) -> Self:
        for section in SECTIONS.values():
            for name in getattr(self, section):
                if name in (NONE, ORACLE) or not name.strip():
                    raise ValueError(f"{section}: {name!r} means something else; take another name")
        for where, kind, name, known in self._references():
            if name not in known:
                raise ValueError(f"{where}: {UnknownNameError(kind, name, known)}")
        if set(self.grid.retriever) != {NONE} and not self.grid.corpus:
            raise ValueError("grid.corpus: retrievers need a corpus; name one of corpora")
        return self

    def _references(self) -> Iterator[tuple[str, str, str, Iterable[str]]]:
        """Every name of something: where it stands, of what, and what there is of that kind."""
        for axis, section in SECTIONS.items():
            known = [*getattr(self, section), *BUILT_IN.get(axis, (NONE,))]
            for name in getattr(self.grid, axis):
                yield f"grid.{axis}", axis, name, known
        plain = [name for name, entry in self.retrievers.items() if entry.kind != "rrf"]
        for name, entry in self.retrievers.items():
            for other in getattr(entry, "of", ()):
                yield f"retrievers.{name}.of", "retriever that is no hybrid", other, plain
            if rewriter := getattr(entry, "rewriter", None):
                yield f"retrievers.{name}.rewriter", "rewriter", rewriter, self.rewriters
        for name, corpus in self.corpora.items():
            if corpus.dataset is not None:
                yield f"corpora.{name}.dataset", "dataset", corpus.dataset, self.datasets
        for rule in self.grid.exclude:
            for axis in rule:
                yield "grid.exclude", "axis", axis, [*AXES, *DEPTHS]
        chats = [name for name, entry in self.generators.items() if entry.kind == "openai"]
        if self.llm_eval is not None:
            yield "llm_eval.judge", "generator of kind openai", self.llm_eval.judge, chats
        if self.models.llm is not None:
            yield "models.llm", "generator of kind openai", self.models.llm, chats


# Reading ------------------------------------------------------------------------------------------


def read_config(path: str | Path, *, trust: bool = False) -> GridConfig:
    """Read the YAML file of a grid; paths in it are relative to its folder.

    Nothing in the file is run: tags that would make Python objects are errors, and so are keys that
    mean nothing.

    Args:
        path: The file.
        trust: Send the keys that the file names to the addresses that it names.

    Raises:
        DatasetError: names the file, the line, and what is wrong there.
    """
    import yaml

    path = Path(path)
    text = read_text(path, "settings")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _check_aliases(path, node)
        plain = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DatasetError(f"{path}{_place(error)}: not YAML ({_problem(error)})") from None
    except RecursionError:
        raise DatasetError(f"{path}: is nested too deeply for a grid") from None
    if not isinstance(plain, dict):
        raise DatasetError(f"{path}: a grid is a mapping with name, datasets, grid and metrics")
    lines = dict(_lines(path, node, ()))
    try:
        context = {FOLDER: path.resolve().parent, UNTRUSTED: None if trust else path}
        return GridConfig.model_validate(plain, context=context)
    except ValidationError as error:
        raise DatasetError(_told(path, error, lines, plain)) from None


def _place(error: Any) -> str:
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}" if mark is not None else ""


def _problem(error: Any) -> str:
    return str(getattr(error, "problem", None) or error).partition("\n")[0]


_MOST_VALUES = 100_000


def _check_aliases(path: Path, node: Any) -> None:
    """Refuse a document whose aliases lead in a circle, or grow a few lines to many values.

    Raises:
        DatasetError: it is such a document.
    """
    sizes: dict[int, int | None] = {}

    def size_of(node: Any) -> int:
        known = sizes.get(id(node), 0)
        if known is None:
            raise DatasetError(f"{path}: an alias in it stands for something that it is part of")
        if not known:
            sizes[id(node)] = None
            parts = node.value if isinstance(node.value, list) else []
            flat = (
                each for part in parts for each in (part if isinstance(part, tuple) else [part])
            )
            known = 1 + sum(map(size_of, flat))
            sizes[id(node)] = known
        return known

    if node is not None and size_of(node) > _MOST_VALUES:
        raise DatasetError(
            f"{path}: its aliases stand for more than {_MOST_VALUES:,} values; write out fewer"
        )


_Path = tuple[str | int, ...]


def _lines(path: Path, node: Any, at: _Path) -> Iterator[tuple[_Path, int]]:
    """The line, from 1, of each key and item of a document.

    Raises:
        DatasetError: a key stands twice, of which YAML would take the last.
    """
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                raise DatasetError(f"{path}, line {line}: key {key.value!r} stands here twice")
            seen.add(key.value)
            yield (*at, key.value), line
            yield from _lines(path, value, (*at, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield (*at, i), value.start_mark.line + 1
            yield from _lines(path, value, (*at, i))


def _told(path: Path, error: ValidationError, lines: Mapping[_Path, int], plain: Any) -> str:
    """The first thing that is wrong, with its line; and how many more."""
    # A key that is misspelt is the cause where another is missing.
    details = sorted(
        error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden"
    )
    first = details[0]
    message = first["msg"].removeprefix("Value error, ")
    at = _within(plain, first["loc"] or tuple(message.partition(":")[0].split(".")))
    line = next((lines[at[:n]] for n in range(len(at), 0, -1) if at[:n] in lines), 1)
    where = ".".join(map(str, at)) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        message = str(UnknownNameError("key", at[-1], _keys_at(first["loc"][:-1])))
    elif first["type"] == "missing":
        message = f"{first['loc'][-1]!r} is missing"
    more = f"; and {len(details) - 1} more" if len(details) > 1 else ""
    place = f"{path}, line {line}" if at else str(path)
    return f"{place}: {f'{where}: ' if where else ''}{message}{more}"


def _within(plain: Any, loc: tuple[str | int, ...]) -> _Path:
    """The place in the document of an error, of which pydantic's also names the kinds of unions."""
    at: list[str | int] = []
    here = plain
    for part in loc:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            continue  # the kind of a union
        at.append(part)
    return tuple(at)


def _keys_at(loc: tuple[str | int, ...]) -> list[str]:
    """The keys that may stand at a place, from the models' own fields."""
    model: Any = GridConfig
    for part in loc:
        model = _step(model, part)
    return list(getattr(model, "model_fields", {}))


def _step(annotation: Any, part: str | int) -> Any:
    """The type behind one part of a place: a field, an item, or the kind of a union."""
    fields = getattr(annotation, "model_fields", None)
    if fields is not None:
        return _bare(fields[part].annotation) if str(part) in fields else annotation
    args = get_args(annotation)
    kinds = [each for each in map(_bare, args) if hasattr(each, "model_fields")]
    for kind in kinds:
        named = kind.model_fields.get("kind")
        if named is not None and part in get_args(named.annotation):
            return kind
    return _bare(args[-1]) if get_origin(annotation) in (dict, tuple, list) and args else annotation


def _bare(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    some = [each for each in get_args(annotation) if each is not type(None)]
    return some[0] if type(None) in get_args(annotation) and len(some) == 1 else annotation
