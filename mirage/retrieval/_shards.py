"""What an encoder makes of a corpus, on disk in shards, one of which a killed build does again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mirage._base.files import write_bytes
from mirage._base.progress import progress_bar
from mirage.corpus import Corpus
from mirage.errors import DatasetError, during
from mirage.executors import Executor, LocalExecutor, Once
from mirage.models import Passage

__all__ = ["SHARD", "deleting_damaged", "fill_shards", "shard_rows", "shard_starts"]

SHARD = 1024
"""Passages a shard."""


def shard_starts(size: int) -> range:
    """Return the first row of each shard of so many passages."""
    return range(0, size, SHARD)


def shard_rows(corpus: Corpus, start: int) -> range:
    """Return the rows of the passages in the shard that begins at a row."""
    return range(start, min(start + SHARD, len(corpus)))


@contextmanager
def deleting_damaged(path: Path) -> Iterator[None]:
    """Delete a shard that cannot be read, so that the next build writes it again.

    Raises:
        DatasetError: The shard is damaged, and has been deleted.
    """
    try:
        yield
    except DatasetError as error:
        path.unlink()
        message = str(error).partition(";")[0]
        raise DatasetError(f"{message}; it is deleted: build again to go on") from None


def fill_shards(
    corpus: Corpus,
    folder: Path,
    suffix: str,
    encode: Callable[[Sequence[Passage]], bytes],
    embedder: object,
    progress: bool,
    executor: Executor | None = None,
    written: Callable[[Sequence[Passage]], None] | None = None,
) -> list[Path]:
    """Write the shards that are missing, as ``encode`` gives them; return the paths of all of them.

    Passages are read here, and shards are written here; an executor's workers only encode.
    ``written`` is called with the passages of each shard once the shard is on the disk.

    Raises:
        DatasetError: a shard cannot be written; names it.
        NeuralError: ``encode`` fails; names the embedder behind it, and the passages.
    """
    paths = {start: folder / f"{start:012}{suffix}" for start in shard_starts(len(corpus))}
    missing = [start for start, path in paths.items() if not path.is_file()]
    there = sum(len(shard_rows(corpus, start)) for start in paths.keys() - missing)
    shards = ([corpus.at(row) for row in shard_rows(corpus, start)] for start in missing)
    work = partial(_encoded, encode, repr(embedder), str(corpus))
    encoding = (executor or LocalExecutor()).map(Once(partial(_same, work)), shards)
    with progress_bar(len(corpus), "passages encoded", progress, done=there) as bar:
        for number, encoded in encoding:
            write_bytes(paths[missing[number]], encoded, follow=False)
            if written is not None:
                written([corpus.at(row) for row in shard_rows(corpus, missing[number])])
            bar.update(len(shard_rows(corpus, missing[number])))
    return list(paths.values())


def _same(work: Callable[[Sequence[Passage]], bytes]) -> Callable[[Sequence[Passage]], bytes]:
    """What has come to a worker as it is, the model in it loaded."""
    return work


def _encoded(
    encode: Callable[[Sequence[Passage]], bytes],
    embedder: str,
    corpus: str,
    passages: Sequence[Passage],
) -> bytes:
    first, last = passages[0].id, passages[-1].id
    with during(f"{embedder} on passages {first!r} to {last!r} of {corpus}"):
        return encode(passages)
