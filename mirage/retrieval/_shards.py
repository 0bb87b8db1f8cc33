"""What an encoder makes of a corpus, on disk in shards, one of which a killed build does again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mirage._base.files import replacing
from mirage._base.progress import progress_bar
from mirage.corpus import Corpus
from mirage.errors import during
from mirage.models import Passage

__all__ = ["SHARD", "fill_shards", "shard_starts"]

SHARD = 1024
"""Passages a shard."""


def shard_starts(size: int) -> range:
    """The first row of each shard of so many passages."""
    return range(0, size, SHARD)


def fill_shards(
    corpus: Corpus,
    folder: Path,
    suffix: str,
    encode: Callable[[Sequence[Passage]], bytes],
    embedder: object,
    progress: bool,
) -> Iterator[Path]:
    """Write the shards that are missing, as ``encode`` gives them; the path of each that is there.

    Raises:
        DatasetError: a shard cannot be written; names it.
        NeuralError: ``encode`` fails; names the embedder behind it, and the passages.
    """
    with progress_bar(len(corpus), "passages encoded", progress) as bar:
        for start in shard_starts(len(corpus)):
            path = folder / f"{start:012}{suffix}"
            rows = range(start, min(start + SHARD, len(corpus)))
            if not path.is_file():
                passages = [corpus.at(row) for row in rows]
                first, last = passages[0].id, passages[-1].id
                with during(f"{embedder!r} on passages {first!r} to {last!r} of {corpus}"):
                    encoded = encode(passages)
                with replacing(path) as part:
                    part.write_bytes(encoded)
            bar.update(len(rows))
            yield path
