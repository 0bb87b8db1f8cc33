"""mirage index: documents become a corpus and an index."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import place_of
from mirage.cli._output import out_either
from mirage.cli._shell import app, argument, example, option
from mirage.errors import DatasetError, UnknownNameError

__all__ = ["index"]

UNITS = ("word", "character")


@app.command(
    epilog=example(
        "mirage index handbook/ faq.jsonl handbook.index --language en",
        "mirage index wiki.jsonl.gz wiki.index --language ja --jobs 2",
    )
)
def index(
    documents: Annotated[
        list[Path],
        argument("DOCUMENTS", "Folders or files: text, Markdown, JSON Lines, Parquet."),
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
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Index documents for retrieval by words (BM25).

    Text files are cut into passages, handbook/leave.md into leave.md#0, leave.md#1, ...; rows of
    JSON Lines and Parquet are passages as they are. The same command goes on where it was stopped.
    """
    from mirage.corpus import Corpus, read_passages
    from mirage.retrieval import BM25

    if unit not in UNITS:
        raise UnknownNameError("unit", unit, UNITS)
    if place.exists() and (not place.is_dir() or _foreign(place)):
        raise DatasetError(f"{place}: is there, and is no index; give another place")
    for source in documents:
        place_of(source)
    passages = chain.from_iterable(
        read_passages(source, size, unit, overlap=overlap)  # type: ignore[arg-type]
        for source in documents
    )
    corpus = Corpus.build(passages, place / "corpus", language=language)
    bm25 = BM25.build(corpus, place / "bm25", language=language, k1=k1, b=b, n_jobs=jobs)
    plain = {"passages": len(bm25), "language": bm25.language, "fingerprint": bm25.fingerprint}
    out_either(f"{place}: {len(bm25)} passages", plain, as_json)


def _foreign(place: Path) -> bool:
    """Whether a folder holds something, and no corpus."""
    return any(place.iterdir()) and not any(
        path.name.lstrip(".").startswith("corpus") for path in place.iterdir()
    )
