"""Where the steps of grids are kept: a folder a step, found by what goes into it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mirage._base.files import writing
from mirage._base.stores import (
    MANIFEST,
    FieldTypes,
    build_folder,
    is_outdated,
    read_manifest,
    write_manifest,
)
from mirage.errors import DatasetError

__all__ = ["RESPONSES", "STEPS", "Node", "ResultStore"]

KIND = "step of a grid"

_FIELDS: FieldTypes = {"key": str, "seconds": (int, float), "total": int}
_FIELDS_OF: Mapping[str, FieldTypes] = {"generate": {"failed": list}}

RESPONSES = "responses.jsonl"
"""The file of what a generator answered."""

_FILES_OF = {"generate": (RESPONSES,)}

STEPS: Mapping[str, int] = {
    "corpus": 1,
    "index": 1,
    "retrieve": 1,
    "rerank": 1,
    "process": 1,
    "generate": 1,
    "score": 1,
    "measure": 1,
}
"""The steps, in their order, and the version of each: a higher one does all of it anew."""


@dataclass(frozen=True)
class Node:
    """One step with its settings and what it starts from: what it gives depends on nothing else.

    Attributes:
        step: one of :data:`STEPS`.
        name: what messages call it.
        settings: all that changes what comes of it, as JSON has it.
        inputs: the nodes that it starts from.
        entry: the entry of the file that does it, where one does.
        source: the dataset or the corpus whose queries or passages are gone through.
    """

    step: str
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Node, ...] = ()
    entry: Any = None
    source: str = ""

    @cached_property
    def key(self) -> str:
        """SHA-256 of the step, its version, its settings, and the keys of what it starts from."""
        facts = [self.step, STEPS[self.step], self.settings, [node.key for node in self.inputs]]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.step} {self.name}"

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.key == other.key


class ResultStore:
    """A folder that holds what steps of grids gave; any number of grids and processes may share it.

    A step is written beside its place and moved there once it is whole, with a manifest that says
    its settings, what it took, and the SHA-256 of its file; what a killed process left is gone on
    from. Nothing in it is ever taken for something else: a step is found by its
    :attr:`Node.key` alone.

    Args:
        folder: where; made when something is written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"ResultStore({str(self.folder)!r})"

    def place(self, node: Node) -> Path:
        """The folder of a node, there or not."""
        return self.folder / node.step / node.key[:32]

    def manifest(self, node: Node) -> dict[str, Any] | None:
        """Return what a node took and holds, or ``None`` if it is not there.

        A node that an earlier version wrote, without digests, counts as not there: :meth:`make`
        starts from what it holds.

        Raises:
            DatasetError: A file of it is missing or damaged; the message names it.
        """
        place = self.place(node)
        if not (place / MANIFEST).exists() or is_outdated(place):
            return None
        try:
            fields = {**_FIELDS, **_FIELDS_OF.get(node.step, {})}
            manifest = read_manifest(place, KIND, fields, files=_FILES_OF.get(node.step, ()))
        except DatasetError as error:
            raise _to_delete(error, place, node) from None
        return manifest

    def find(self, node: Node, name: str, size: int = 0, *, final: bool = True) -> Path | None:
        """Return the file or folder of a node, or ``None`` if it is not there or has too little.

        Args:
            node: The node.
            name: The name of the file or folder.
            size: The number of items that are needed.
            final: Accept items that are to be tried again.

        Raises:
            DatasetError: As :meth:`manifest`.
        """
        manifest = self.manifest(node)
        if manifest is None or manifest["total"] < size:
            return None
        # With more than is wanted, whoever wants all of it tries again.
        if manifest.get("again") and manifest["total"] == size and not final:
            return None
        path = self.place(node) / name
        if name not in manifest["files"] and not path.is_dir():
            raise _to_delete(DatasetError(f"{path} is missing"), self.place(node), node)
        return path

    def make(
        self,
        node: Node,
        name: str,
        fill: Callable[[Path], Mapping[str, Any]],
        size: int = 0,
    ) -> Path:
        """The file or folder of a node, which ``fill`` writes where :meth:`find` does not find it.

        Another process that makes it is waited for.

        Args:
            node: the node.
            name: of the file, or of a folder that checks itself when it is opened, as a corpus and
                an index do.
            fill: writes it, going on from what is there; gives more for the manifest: ``items``
                are what was done, by which a plan reckons time and space, ``total`` what there is,
                ``again`` what is to be tried again.
            size: items that are wanted of it.

        Raises:
            DatasetError: it cannot be written, or is damaged.
        """
        path = self.place(node) / name

        def found() -> bool:
            return self.find(node, name, size, final=False) is not None

        def fill_part(part: Path) -> None:
            (part / MANIFEST).unlink(missing_ok=True)
            if path.exists() and not (part / name).exists():  # what is there, and too little
                with writing(part):
                    copy = shutil.copytree if path.is_dir() else shutil.copy2
                    copy(path, part / name)
            start = time.monotonic()
            more = fill(part / name)
            self._finish(part, node, time.monotonic() - start, more)

        if not found():
            build_folder(self.place(node), KIND, node.key, fill_part, whole=found, wait=True)
        return path

    def parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The manifest of each node that is whole, after its step."""
        for step in STEPS:
            for path in sorted((self.folder / step).glob(f"*/{MANIFEST}")):
                try:
                    yield step, json.loads(path.read_text(encoding="utf-8"))
                except (OSError, ValueError):  # it is being replaced, or damaged
                    continue

    def _finish(self, part: Path, node: Node, seconds: float, more: Mapping[str, Any]) -> None:
        fields = {
            "key": node.key,
            "name": str(node),
            "settings": node.settings,
            "inputs": [each.key for each in node.inputs],
            "version": STEPS[node.step],
            "python": sys.version.split()[0],
            "seconds": round(seconds, 3),
            "peak_mib": _peak_mib(),
            "bytes": sum(path.stat().st_size for path in part.rglob("*") if path.is_file()),
            **more,
        }
        write_manifest(part, KIND, fields)


def _to_delete(error: DatasetError, place: Path, node: Node) -> DatasetError:
    """Return an error that says how to have a node done again."""
    reason = str(error).partition(";")[0]
    return DatasetError(f"{reason}; delete {place} to have {node} done again")


def _peak_mib() -> int | None:
    """The most memory that this process has held, where the system says so."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit)
