"""Vectors or term weights of a corpus, stored in files (shards) of 1,024 passages each.

Shards are written one by one, so an interrupted build loses at most one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from mirage._base.files import write_bytes
from mirage._base.progress import progress_bar
from mirage.corpus import Corpus
from mirage.errors import DatasetError, during
from mirage.executors import Executor, LocalExecutor
from mirage.executors.base import Once
from mirage.models import Passage

SHARD = 1024
"""The number of passages per shard."""


def shard_starts(size: int) -> range:
    """Return the corpus row at which each shard begins.

    Args:
        size: The number of passages in the corpus.
    """
    return range(0, size, SHARD)


def shard_rows(corpus: Corpus, start: int) -> range:
    """Return the corpus rows of the shard that begins at row ``start``."""
    return range(start, min(start + SHARD, len(corpus)))


@contextmanager
def deleting_damaged(path: Path) -> Iterator[None]:
    """Return a context manager that deletes a shard's file if reading it raises an error.

    Only a ``DatasetError`` has this effect. It is raised again with the advice to repeat the build,
    which then writes the deleted shard again.
    """
    try:
        yield
    except DatasetError as error:
        path.unlink()
        message = str(error).partition(";")[0]
        raise DatasetError(
            f"{message}; this part of the index was deleted, so build the index again to continue"
        ) from None


def fill_shards(
    corpus: Corpus,
    folder: Path,
    suffix: str,
    encode: Callable[[Sequence[Passage]], bytes],
    embedder: object,
    progress: bool,
    executor: Executor | None = None,
    on_written: Callable[[Sequence[Passage]], None] | None = None,
) -> list[Path]:
    """Write the shards whose files are missing, and return the paths of all shards.

    This process reads the passages and writes the files; the workers of an executor only encode.

    Args:
        corpus: The passages.
        folder: The folder of the shards.
        suffix: The file name extension of the shards, with its dot.
        encode: A function that encodes the passages of a shard, and returns the content of its
            file.
        embedder: The embedder that ``encode`` uses, for error messages.
        progress: Whether to show a progress bar.
        executor: The executor whose workers encode; by default this process encodes.
        on_written: A function that is called with the passages of each shard after the shard is on
            disk.
    """
    paths = {start: folder / f"{start:012}{suffix}" for start in shard_starts(len(corpus))}
    missing = [start for start, path in paths.items() if not path.is_file()]
    existing = sum(len(shard_rows(corpus, start)) for start in paths.keys() - missing)
    shards = ([corpus.at(row) for row in shard_rows(corpus, start)] for start in missing)
    work = partial(_encode_shard, encode, repr(embedder), str(corpus))
    encoding = (executor or LocalExecutor()).map(Once(partial(_identity, work)), shards)
    with progress_bar(len(corpus), "passages encoded", progress, done=existing) as bar:
        for number, encoded in encoding:
            write_bytes(paths[missing[number]], encoded, follow=False)
            if on_written is not None:
                on_written([corpus.at(row) for row in shard_rows(corpus, missing[number])])
            bar.update(len(shard_rows(corpus, missing[number])))
    return list(paths.values())


def _identity(work: Callable[[Sequence[Passage]], bytes]) -> Callable[[Sequence[Passage]], bytes]:
    """Return the function unchanged.

    :class:`~mirage.executors.base.Once` requires a function that loads what a worker needs. This
    function loads nothing, because a worker loads the model when it unpickles ``work``.
    """
    return work


def _encode_shard(
    encode: Callable[[Sequence[Passage]], bytes],
    embedder: str,
    corpus: str,
    passages: Sequence[Passage],
) -> bytes:
    first, last = passages[0].id, passages[-1].id
    with during(f"{embedder} on passages {first!r} to {last!r} of {corpus}"):
        return encode(passages)
