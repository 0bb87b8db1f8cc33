"""Graphs for approximate search with the library usearch; files are checked before they are used.

usearch trusts the offsets and counts in a file. A damaged or malicious file can therefore crash the
process or make it read memory outside the graph. :func:`open_graph` first checks the whole
structure of the file with numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import are_within, is_permutation
from mirage._base.files import writing
from mirage._base.packages import package
from mirage._base.stores import mapped_bytes
from mirage.errors import DatasetError
from mirage.retrieval._exact import Shard

_NODE_BATCH = 2**14
"""The number of nodes that are checked at a time."""

Bytes = NDArray[np.uint8]


def write_graph(shards: Sequence[Shard], path: Path, dimensions: int, threads: int) -> None:
    """Build a graph of the vectors of all shards, and write it to a file.

    Args:
        shards: The files of the vectors.
        path: The file to write.
        dimensions: The number of dimensions of the vectors.
        threads: The number of threads that build the graph.
    """
    graph = package("usearch.index").Index(ndim=dimensions, metric="ip", dtype="f16")
    start = 0
    for shard in shards:
        graph.add(
            np.arange(start, start + shard.rows, dtype=np.uint64), shard.read(), threads=threads
        )
        start += shard.rows
    with writing(path):
        graph.save(str(path))


def open_graph(path: Path, size: int, dimensions: int) -> Any:
    """Check a graph file by reading it once, and return the graph, mapped into memory.

    Args:
        path: The file.
        size: The number of vectors that the graph must have.
        dimensions: The number of dimensions that they must have.

    Raises:
        DatasetError: The file is damaged.
    """
    index = package("usearch.index").Index
    fault = _fault(np.frombuffer(mapped_bytes(path), np.uint8), size, dimensions)
    if not fault:
        try:
            graph = index.restore(str(path), view=True)
        except (OSError, RuntimeError, ValueError) as error:
            fault = f"usearch cannot read it: {error}"
        else:
            if graph is not None and len(graph) == size:
                return graph
            fault = "usearch cannot read it"
    raise DatasetError(f"{path}: damaged ({fault}); delete {path.parent} and build it again")


# The format ---------------------------------------------------------------------------------------
#
# A file of usearch 2 contains, in this order:
#   the number of vectors and the number of bytes of each (uint32), and the vectors;
#   a header of 64 bytes: see _HEAD;
#   the number of nodes, the maximum numbers of neighbours on upper levels and on level 0, the
#   highest level, and the node at which a search begins (uint64);
#   the level of each node (int16);
#   each node: its key (uint64), its level (int16), and for each level from 0 up the number of its
#   neighbours, followed by one slot for each neighbour that it can have (uint32).

_HEAD = np.dtype(
    [
        ("magic", "S7"),
        ("version", "<u2", 3),
        ("metric", "u1"),
        ("scalar", "u1"),
        ("key", "u1"),
        ("slot", "u1"),
        ("present", "<u8"),
        ("deleted", "<u8"),
        ("dimensions", "<u8"),
        ("multi", "u1"),
        ("padding", "u1", 22),
    ]
)
_NODE_HEAD = 10  # bytes of key and level
_KINDS = {"metric": ord("i"), "scalar": 12, "key": 14, "slot": 15, "multi": 0}
"""The codes in the header of the files that this module writes.

They mean inner products of float16 vectors, uint64 keys, uint32 slots, and one vector per key.
"""

_MOST_LEVELS = 64
_MOST_NEIGHBOURS = 4096


class _Sizes(NamedTuple):
    """The numbers in a graph file that describe the graph.

    Attributes:
        nodes: The number of nodes.
        upper: The maximum number of neighbours of a node on each upper level.
        base: The maximum number of neighbours of a node on level 0.
        top: The highest level.
        entry: The node at which a search begins.
    """

    nodes: int
    upper: int
    base: int
    top: int
    entry: int


def _fault(data: Bytes, size: int, dimensions: int) -> str:
    """Describe the damage in a graph file; return an empty string if there is none.

    Args:
        data: The content of the file.
        size: The number of vectors that the graph must have.
        dimensions: The number of dimensions of the vectors.
    """
    vectors_end = 8 + size * dimensions * 2
    levels_start = vectors_end + _HEAD.itemsize + 8 * len(_Sizes._fields)
    nodes_start = levels_start + 2 * size
    if len(data) < nodes_start:
        return "it is too short"
    if data[:8].view("<u4").tolist() != [size, dimensions * 2]:
        return f"it does not hold {size} vectors of {dimensions} dimensions"
    head = data[vectors_end : vectors_end + _HEAD.itemsize].view(_HEAD)[0]
    expected = _KINDS | {"present": size, "deleted": 0, "dimensions": dimensions}
    if head["magic"] != b"usearch" or head["version"][0] != 2:
        return "it was not written by usearch 2"
    if any(head[name] != value for name, value in expected.items()):
        return "its header does not match the index"
    sizes = _Sizes(*data[vectors_end + _HEAD.itemsize : levels_start].view("<u8").tolist())
    levels = data[levels_start:nodes_start].view("<i2").astype(np.int64)
    fault = _sizes_fault(sizes, levels)
    if fault:
        return fault
    widths = _NODE_HEAD + 4 * (1 + sizes.base) + levels * 4 * (1 + sizes.upper)
    starts = nodes_start + np.cumsum(widths) - widths
    if starts[-1] + widths[-1] != len(data):
        return "its length does not match its nodes"
    if not _are_finite(data[8:vectors_end]):
        return "a vector is not finite"
    keys = [_numbers(data, rows, "<u8") for rows in _batches(starts)]
    if not is_permutation(np.concatenate(keys)[:, 0].astype(np.int64)):
        return "its keys are not the rows of the index"
    return _links_fault(data, sizes, levels, starts)


def _sizes_fault(sizes: _Sizes, levels: NDArray[np.int64]) -> str:
    if sizes.nodes != len(levels):
        return "its number of nodes differs from its number of vectors"
    if not (0 < sizes.upper <= _MOST_NEIGHBOURS and 0 < sizes.base <= _MOST_NEIGHBOURS):
        return "its nodes have too many neighbours"
    if not are_within(levels, _MOST_LEVELS):
        return "the level of a node is out of range"
    if sizes.entry >= sizes.nodes or not sizes.top == levels.max() == levels[sizes.entry]:
        return "its entry node is not on the highest level"
    return ""


def _links_fault(
    data: Bytes, sizes: _Sizes, levels: NDArray[np.int64], starts: NDArray[np.int64]
) -> str:
    """Describe invalid levels or neighbours of nodes; return an empty string if all are valid.

    Args:
        data: The content of the file.
        sizes: The numbers that describe the graph.
        levels: The level of each node.
        starts: The offset of each node in the file.
    """
    for rows in _batches(np.arange(len(starts))):
        if (_numbers(data, starts[rows] + 8, "<i2")[:, 0] != levels[rows]).any():
            return "the level of a node differs from the list of levels"
    for level in range(sizes.top + 1):
        most = sizes.upper if level else sizes.base
        offset = _NODE_HEAD + (4 * (1 + sizes.base) + (level - 1) * 4 * (1 + sizes.upper)) * (
            level > 0
        )
        for rows in _batches(np.flatnonzero(levels >= level)):
            lists = _numbers(data, starts[rows] + offset, "<u4", 1 + most).astype(np.int64)
            counts, slots = lists[:, 0], lists[:, 1:]
            neighbours = slots[np.arange(most) < counts[:, None]]
            if (counts > most).any() or not are_within(neighbours, len(levels)):
                return "a neighbour of a node is out of range"
            # A node has no list of neighbours above its own level.
            if (levels[neighbours] < level).any():
                return "a neighbour of a node is not on its level"
    return ""


def _are_finite(vectors: Bytes) -> bool:
    return all(np.isfinite(part.view("<f2")).all() for part in _batches(vectors, 2**22))


def _batches(array: NDArray[Any], size: int = _NODE_BATCH) -> Iterator[NDArray[Any]]:
    return (array[start : start + size] for start in range(0, len(array), size))


def _numbers(data: Bytes, starts: NDArray[np.int64], dtype: str, count: int = 1) -> NDArray[Any]:
    """Return ``count`` consecutive numbers from each offset in a file, one row per offset.

    The offsets ``starts`` are in bytes and need not be aligned.
    """
    width = np.dtype(dtype).itemsize * count
    numbers: NDArray[Any] = data[starts[:, None] + np.arange(width)].view(dtype)
    return numbers
