"""Folders that are either whole or not there: a manifest, written last, says what is in them."""

from __future__ import annotations

import io
import json
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage._base.files import (
    check_name,
    delete_temporaries,
    make_folder,
    open_append,
    replace_file,
    write_text,
    writing,
)
from mirage.errors import DatasetError

__all__ = [
    "MANIFEST",
    "array_bytes",
    "build_folder",
    "check_place",
    "locked",
    "mapped_array",
    "mapped_bytes",
    "move_into_place",
    "read_array",
    "read_manifest",
    "save_array",
    "temporary",
    "write_manifest",
]

MANIFEST = "manifest.json"


def write_manifest(folder: Path, kind: str, fields: Mapping[str, Any]) -> None:
    """Write what a folder is, and the size of each file in it, after all of them are on the disk.

    Raises:
        DatasetError: it cannot be written.
    """
    with writing(folder):
        paths = sorted(path for path in folder.iterdir() if path.is_file())
        for path in paths:
            with path.open("rb") as file:
                os.fsync(file.fileno())
        sizes = {path.name: path.stat().st_size for path in paths}
        manifest = {"kind": kind, **fields, "files": sizes}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n", follow=False)


def read_manifest(folder: Path, kind: str, fields: Iterable[str]) -> dict[str, Any]:
    """What a folder is, once every file in it is known to be as long as it was.

    Raises:
        DatasetError: it is no such folder, of another format, or a file is missing or has another
            size; names it.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise DatasetError(f"{folder} is no {kind}: it has no {MANIFEST}") from None
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        raise DatasetError(f"{path} is no manifest of a {kind}; build it anew")
    if not {*fields, "files"} <= manifest.keys() or not isinstance(manifest["files"], dict):
        raise DatasetError(f"{path} lacks what a {kind} of this version says; build it anew")
    for name, size in manifest["files"].items():
        check_name(name, f"{path}: the file")
        file = folder / name
        with _intact(path):
            found = file.stat().st_size if file.is_file() else None
        if found != size:
            what = "is missing" if found is None else f"has {found} bytes in place of {size}"
            raise DatasetError(f"{file} {what}; build the {kind} anew")
    return manifest


def check_place(folder: Path, kind: str) -> None:
    """Refuse to build where something else is.

    Raises:
        DatasetError: there is a file, or a folder that is not empty and no such thing.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        raise DatasetError(
            f"{folder} is no {kind} and not empty; delete it, or choose another folder"
        )


def move_into_place(part: Path, folder: Path) -> None:
    """Put a whole folder where another may be, which is deleted then.

    Raises:
        DatasetError: the file system refuses.
    """
    with writing(folder):
        if not folder.exists():
            part.rename(folder)
            return
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
        folder.rename(old / folder.name)
        part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a file that one process at a time can hold.

    Args:
        path: the file, which is made where it is not there.
        wait: wait for a process that holds it.

    Raises:
        DatasetError: another process holds it, or it cannot be written.
    """
    import portalocker

    flags = portalocker.LOCK_EX if wait else portalocker.LOCK_EX | portalocker.LOCK_NB

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open_append(path)
    with file:
        try:
            portalocker.lock(file, flags)
        except portalocker.LockException:
            raise DatasetError(
                f"{path}: another process is building this; wait for it, or build elsewhere"
            ) from None
        yield


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array, for :func:`mapped_array`.

    Raises:
        DatasetError: it cannot be written; by itself numpy says nothing of a full disk.
    """
    header = np.lib.format.header_data_from_array_1_0(array)
    with replace_file(path, follow=False) as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)


def array_bytes(array: NDArray[Any]) -> bytes:
    """What a file that holds an array consists of."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def mapped_array(path: Path) -> NDArray[Any]:
    """An array on disk, read as it is used.

    Raises:
        DatasetError: it is damaged.
    """
    with _intact(path):
        return np.asarray(np.load(path, mmap_mode="r"))  # a plain view: np.memmap is slow to index


def read_array(path: Path) -> NDArray[Any]:
    """An array on disk, read whole and at once, which is quicker than page by page.

    Raises:
        DatasetError: it is damaged.
    """
    with _intact(path):
        return np.asarray(np.load(path))


def mapped_bytes(path: Path) -> mmap.mmap:
    """A file that is not empty, read as it is used.

    Raises:
        DatasetError: it is damaged.
    """
    with _intact(path), path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _intact(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, TypeError, EOFError, SyntaxError) as error:  # numpy's and mmap's
        raise DatasetError(f"{path}: damaged ({error}); build it anew") from None


def temporary(prefix: str) -> tuple[Path, Any]:
    """A temporary folder, and a function that has it go with an object."""
    folder = Path(tempfile.mkdtemp(prefix=f"mirage-{prefix}-"))

    def with_object(owner: object) -> None:
        weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)

    return folder, with_object


def build_folder(
    folder: str | Path | None,
    kind: str,
    key: str,
    fill: Callable[[Path], None],
    *,
    whole: Callable[[], bool] | None = None,
    wait: bool = False,
) -> tuple[Path, Callable[[object], None]]:
    """A folder that ``fill`` fills, and a function that has a temporary one go with an object.

    It is filled beside its place, where it goes on from what is there already, and moved when it is
    whole. A whole one of this key stays as it is; one of another key is replaced.

    Args:
        folder: where to; ``None`` is a temporary folder.
        kind: what it is called in manifests and errors.
        key: says what will be in it; the ``key`` of its manifest.
        fill: writes what is missing into a folder, its manifest last.
        whole: whether what is there stays; by default whether it is a whole one of this key.
        wait: wait for another process that builds it.

    Raises:
        DatasetError: something else is there, it cannot be written, or another process builds it.
    """
    if folder is None:
        place, goes_with = temporary(kind.replace(" ", "-"))
        fill(place)
        return place, goes_with
    place = Path(folder)
    check_place(place, kind)
    part = place.with_name(f".{place.name}.{key[:16]}.part")
    with locked(place.with_name(f".{place.name}.lock"), wait=wait):
        if not (_is_whole(place, kind, key) if whole is None else whole()):
            make_folder(part)
            delete_temporaries(part)
            fill(part)
            move_into_place(part, place)
    return place, lambda _: None


def _is_whole(folder: Path, kind: str, key: str) -> bool:
    try:
        return bool(read_manifest(folder, kind, ("key",))["key"] == key)
    except DatasetError:
        return False
