"""The store of grid results: one folder per step, named by a digest of the step's inputs."""

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

KIND = "step of a grid"

_FIELDS: FieldTypes = {"key": str, "seconds": (int, float), "total": int}
_FIELDS_OF: Mapping[str, FieldTypes] = {"generate": {"failed": list}}

RESPONSES = "responses.jsonl"
"""The name of the file that contains the responses of a generator."""

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
"""The kinds of steps in the order of execution, and the version of each.

If the version of a step increases, results of earlier versions are no longer used.
"""


@dataclass(frozen=True)
class Node:
    """One step of a grid; its result depends only on its settings and inputs.

    Attributes:
        step: The kind of step, one of :data:`STEPS`.
        name: The name of the step in messages.
        settings: All settings that affect the result, as JSON values.
        inputs: The nodes whose results the step uses.
        entry: The entry of the grid file that defines the component of the step, such as a
            retriever; ``None`` if there is none.
        source: The name of the dataset or corpus whose queries or passages the step processes.
    """

    step: str
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Node, ...] = ()
    entry: Any = None
    source: str = ""

    @cached_property
    def key(self) -> str:
        """The SHA-256 of the step's kind, its version, its settings and the keys of its inputs."""
        facts = [self.step, STEPS[self.step], self.settings, [node.key for node in self.inputs]]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.step} {self.name}"

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.key == other.key


class ResultStore:
    """A folder that contains the results of steps; many grids and processes may share it.

    The result of a step is written to a temporary folder, which is moved to its final path when the
    step is complete. A manifest in the same folder contains the step's settings, the time and disk
    space that it took, and the SHA-256 of the result file. If a process is killed, the next one
    resumes from the temporary folder. Results are looked up only by :attr:`Node.key`, a digest of
    all settings and inputs, so that a result is never used for other settings.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"ResultStore({str(self.folder)!r})"

    def place(self, node: Node) -> Path:
        """Return the path of the folder for a step's result, whether or not the folder exists."""
        return self.folder / node.step / node.key[:32]

    def manifest(self, node: Node) -> dict[str, Any] | None:
        """Return the manifest of a step's result, or ``None`` if the result is not in the store.

        A result that an earlier version wrote without digests of its files counts as missing;
        :meth:`make` then reuses these files.

        Args:
            node: The step.

        Raises:
            DatasetError: If the files of the result are damaged.
        """
        folder = self.place(node)
        if not (folder / MANIFEST).exists() or is_outdated(folder):
            return None
        try:
            fields = {**_FIELDS, **_FIELDS_OF.get(node.step, {})}
            manifest = read_manifest(folder, KIND, fields, files=_FILES_OF.get(node.step, ()))
        except DatasetError as error:
            raise _with_delete_hint(error, folder, node) from None
        return manifest

    def find(self, node: Node, name: str, size: int = 0, *, final: bool = True) -> Path | None:
        """Return the result file or folder of a step, or ``None`` if it is missing or incomplete.

        Args:
            node: The step.
            name: The name of the file or folder.
            size: The minimum number of items, such as queries, in a complete result.
            final: Whether to accept a result in which some items failed. If false, such a result
                counts as incomplete, so that the failed items are tried again.

        Raises:
            DatasetError: If the result is damaged or its file is missing.
        """
        manifest = self.manifest(node)
        if manifest is None or manifest["total"] < size:
            return None
        # If the result has more items than needed, the failed items may be among the others. They
        # are tried again when all items are needed.
        if manifest.get("again") and manifest["total"] == size and not final:
            return None
        path = self.place(node) / name
        if name not in manifest["files"] and not path.is_dir():
            raise _with_delete_hint(DatasetError(f"{path} is missing"), self.place(node), node)
        return path

    def make(
        self,
        node: Node,
        name: str,
        fill: Callable[[Path], Mapping[str, Any]],
        size: int = 0,
    ) -> Path:
        """Return the result file or folder of a step; ``fill`` writes it first if necessary.

        ``fill`` is called if the result is missing or has fewer than ``size`` items. If the result
        has exactly ``size`` items and some of them failed, ``fill`` is called to try them again. If
        another process is writing the result, this process waits until it is complete.

        Args:
            node: The step.
            name: The name of the file, or of a folder such as a corpus or an index. The store does
                not verify the files in a folder; the corpus or index does when it is opened.
            fill: A function that takes a path and writes the file or folder there, or adds what is
                missing if it exists. It returns a mapping with keys for the manifest. The key
                ``items`` is the number of items that this call processed; plans use it to estimate
                time and disk space. The key ``total`` is the number of items in the result. The key
                ``again`` is the number of items that failed and should be tried again.
            size: The minimum number of items, such as queries, in a complete result.
        """
        path = self.place(node) / name

        def exists() -> bool:
            return self.find(node, name, size, final=False) is not None

        def fill_part(part: Path) -> None:
            # Without a manifest, the folder counts as incomplete until it is filled.
            (part / MANIFEST).unlink(missing_ok=True)
            # Extend a copy of an incomplete result, so that readers can use the old one meanwhile.
            if path.exists() and not (part / name).exists():
                with writing(part):
                    copy = shutil.copytree if path.is_dir() else shutil.copy2
                    copy(path, part / name)
            start = time.monotonic()
            counts = fill(part / name)
            self._finish(part, node, time.monotonic() - start, counts)

        if not exists():
            build_folder(self.place(node), KIND, node.key, fill_part, whole=exists, wait=True)
        return path

    def parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the kind of step and the manifest of each complete result in the store."""
        for step in STEPS:
            for path in sorted((self.folder / step).glob(f"*/{MANIFEST}")):
                try:
                    yield step, json.loads(path.read_text(encoding="utf-8"))
                except (OSError, ValueError):  # the result is being replaced, or is damaged
                    continue

    def _finish(self, part: Path, node: Node, seconds: float, counts: Mapping[str, Any]) -> None:
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
            **counts,
        }
        write_manifest(part, KIND, fields)


def _with_delete_hint(error: DatasetError, folder: Path, node: Node) -> DatasetError:
    """Return the error with the advice to delete the damaged folder and run the step again."""
    reason = str(error).partition(";")[0]
    return DatasetError(f"{reason}; delete {folder} to run {node} again")


def _peak_mib() -> int | None:
    """Return the peak memory of this process in MiB, or ``None`` if it is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    # ru_maxrss is in bytes on macOS and in KiB on Linux.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit)
