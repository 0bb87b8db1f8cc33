"""Stores: folders with a manifest, written last, that lists each file with its SHA-256."""

from __future__ import annotations

import hashlib
import io
import json
import math
import mmap
import os
import re
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
    "ArrayType",
    "FieldTypes",
    "array_bytes",
    "build_folder",
    "check_place",
    "is_outdated",
    "locked",
    "mapped_array",
    "mapped_bytes",
    "move_into_place",
    "read_array",
    "read_arrays",
    "read_manifest",
    "save_array",
    "stored_key",
    "temporary",
    "write_manifest",
]

MANIFEST = "manifest.json"

_LARGEST_MANIFEST = 2**28
"""Bytes. A dense index has one entry of about 130 bytes for each 1,024 passages."""

FieldTypes = Mapping[str, type | tuple[type, ...]]
"""The types of the fields of a manifest, by name."""

_ENTRY: FieldTypes = {"bytes": int, "sha256": str}


def write_manifest(folder: Path, kind: str, fields: Mapping[str, Any]) -> None:
    """Write the manifest of a folder: what it is, and the size and SHA-256 of each file in it.

    All files are on the disk before the manifest is written.

    Raises:
        DatasetError: It cannot be written.
    """
    with writing(folder):
        paths = sorted(path for path in folder.iterdir() if path.is_file())
        paths = [path for path in paths if path.name != MANIFEST]
        for path in paths:
            with path.open("rb") as file:
                os.fsync(file.fileno())
        files = {
            path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in paths
        }
    manifest = {"kind": kind, **fields, "files": files}
    manifest["digest"] = _digest(manifest)
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n", follow=False)


def read_manifest(
    folder: Path,
    kind: str,
    fields: FieldTypes,
    *,
    files: Iterable[str] = (),
    verify: bool = True,
) -> dict[str, Any]:
    """Return the manifest of a folder after checking the files that it lists.

    The digests find damage. They are no signature: whoever can write a file into the folder can
    also write a manifest that fits. Whatever is handed to compiled code is therefore checked again
    by whoever reads it.

    Args:
        folder: The folder.
        kind: What the folder must be.
        fields: The types of the fields that the manifest must have.
        files: The names of files that the manifest must list.
        verify: Check the SHA-256 of each file. If false, only sizes are checked.

    Raises:
        DatasetError: The folder is no store of this kind, an earlier version wrote it, or a file is
            missing or is not as it was written; the message names the file.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise DatasetError(f"{folder} is no {kind}: it has no {MANIFEST}")
    manifest = _load(path)
    if manifest is None or manifest.get("kind") != kind:
        raise DatasetError(f"{path} is no manifest of a {kind}; {_anew(folder, kind)}")
    if "digest" not in manifest:
        raise DatasetError(
            f"{path} lists no SHA-256 of its files: an earlier version of mirage wrote it; build "
            f"the {kind} again with the same settings"
        )
    if manifest["digest"] != _digest(manifest):
        raise DatasetError(f"{path} is not as it was written; {_anew(folder, kind)}")
    entries = manifest.get("files")
    if not (
        _has(manifest, fields)
        and isinstance(entries, dict)
        and _are_entries(entries)
        and set(files) <= entries.keys()
    ):
        raise DatasetError(f"{path} lacks what a {kind} has; {_anew(folder, kind)}")
    for name, entry in entries.items():
        check_name(name, f"{path}: the file")
        fault = _fault(folder / name, entry, verify)
        if fault:
            raise DatasetError(f"{folder / name} {fault}; {_anew(folder, kind)}")
    return manifest


def is_outdated(folder: Path) -> bool:
    """Return whether an earlier version, which wrote no digests, wrote the manifest of a folder."""
    manifest = _load(folder / MANIFEST)
    return manifest is not None and "kind" in manifest and "digest" not in manifest


def stored_key(folder: Path, kind: str) -> object:
    """Return the key of a store, checked or not; ``None`` if there is no store of this kind."""
    manifest = _load(folder / MANIFEST)
    return None if manifest is None or manifest.get("kind") != kind else manifest.get("key")


def _anew(folder: Path, kind: str) -> str:
    return f"delete {folder} and build the {kind} anew"


def _load(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or ``None`` if there is none that can be read."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_MANIFEST:
            return None
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) else None


def _has(values: Mapping[str, Any], types: FieldTypes) -> bool:
    return all(_is(values.get(name, ...), type_) for name, type_ in types.items())


def _is(value: object, types: type | tuple[type, ...]) -> bool:
    if isinstance(value, bool):  # which is an int, too
        return types is bool
    return isinstance(value, types) and not (isinstance(value, float) and not math.isfinite(value))


def _are_entries(entries: Mapping[str, object]) -> bool:
    return all(isinstance(entry, dict) and _has(entry, _ENTRY) for entry in entries.values())


def _fault(path: Path, entry: Mapping[str, Any], verify: bool) -> str:
    """Return how a file differs from its entry in the manifest; empty if it does not."""
    try:
        if not path.is_file():
            return "is missing"
        size = path.stat().st_size
        if size != entry["bytes"]:
            return f"has {size} bytes in place of {entry['bytes']}"
        if verify and _sha256(path) != entry["sha256"]:
            return "is damaged: its SHA-256 is not the one in the manifest"
    except (OSError, ValueError) as error:
        return f"cannot be read ({error})"
    return ""


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all of a manifest but its own digest."""
    fields = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def check_place(folder: Path, kind: str) -> None:
    """Refuse to build where something else is.

    Raises:
        DatasetError: There is a file, or a folder that is not empty and no store of this kind.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    manifest = _load(folder / MANIFEST)
    if manifest is None or manifest.get("kind") != kind:
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


class ArrayType(NamedTuple):
    """The type and the shape that an array on disk must have.

    Attributes:
        dtype: The type of its numbers.
        shape: One or two lengths; ``None`` allows any.
    """

    dtype: DTypeLike
    shape: tuple[int | None, ...] = (None,)


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array, for :func:`mapped_array`.

    Raises:
        DatasetError: It cannot be written. By itself, numpy ignores a full disk.
    """
    header = np.lib.format.header_data_from_array_1_0(array)
    with replace_file(path, follow=False) as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)


def array_bytes(array: NDArray[Any]) -> bytes:
    """Return the content of a file that holds an array."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def mapped_array(path: Path, expected: ArrayType) -> NDArray[Any]:
    """Map an array on disk into memory; its pages are read when they are used.

    Raises:
        DatasetError: The file is damaged, or holds an array of another type or shape.
    """
    with _intact(path):
        shape, offset = _layout(path, expected)
        # A plain view: indexing np.memmap is slow.
        return np.asarray(np.memmap(path, expected.dtype, "r", offset, shape))


def read_array(path: Path, expected: ArrayType) -> NDArray[Any]:
    """Read an array whole and at once, which is faster than page by page.

    Raises:
        DatasetError: The file is damaged, or holds an array of another type or shape.
    """
    with _intact(path):
        shape, offset = _layout(path, expected)
        return np.fromfile(path, expected.dtype, math.prod(shape), offset=offset).reshape(shape)


def read_arrays(path: Path, expected: Mapping[str, ArrayType]) -> dict[str, NDArray[Any]]:
    """Read arrays by name from a file of ``np.savez``.

    Raises:
        DatasetError: The file is damaged, or an array is missing or of another type or shape.
    """
    with _intact(path):
        try:
            with zipfile.ZipFile(path) as archive:
                members = {name: _member(archive, f"{name}.npy") for name in expected}
        except Exception as error:  # damaged archives raise errors of many unrelated classes
            raise DatasetError(f"{type(error).__name__}: {error}") from None
        arrays = {}
        for name, data in members.items():
            shape, offset = _parse_header(data[:_LONGEST_HEADER], len(data), expected[name])
            flat = np.frombuffer(data, expected[name].dtype, math.prod(shape), offset)
            arrays[name] = flat.reshape(shape)
        return arrays


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:  # nothing here unpacks to more than its size
        raise DatasetError(f"{name} is compressed")
    return archive.read(member)


_LONGEST_HEADER = 512
# What numpy writes for an array of one or two dimensions. Its own parser accepts any Python
# literal, and fails on damaged ones with errors of many classes.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)"
    rb"(\{'descr': '([<>|][a-z]\d)', 'fortran_order': False, "
    rb"'shape': \((?:(\d{1,18}),|(\d{1,18}), (\d{1,18}))\), \} *\n)",
    re.DOTALL,
)


def _layout(path: Path, expected: ArrayType) -> tuple[tuple[int, ...], int]:
    with path.open("rb") as file:
        return _parse_header(file.read(_LONGEST_HEADER), os.fstat(file.fileno()).st_size, expected)


def _parse_header(start: bytes, size: int, expected: ArrayType) -> tuple[tuple[int, ...], int]:
    """Return the shape of an array in the format of numpy, and where its numbers begin.

    Args:
        start: The first bytes of the file.
        size: The size of the file.
        expected: The type and shape that the array must have.
    """
    header = _HEADER.match(start)
    if header is None or int.from_bytes(header[1], "little") != len(header[2]):
        raise DatasetError("it does not begin as an array of numbers does")
    shape = tuple(int(length) for length in header.groups()[3:] if length is not None)
    dtype = np.dtype(expected.dtype)
    if header[3].decode() != dtype.str:
        raise DatasetError(f"its numbers are {header[3].decode()}, not {dtype.str}")
    fits = len(shape) == len(expected.shape) and all(
        wanted in (None, length) for length, wanted in zip(shape, expected.shape, strict=True)
    )
    if not fits:
        raise DatasetError(f"its shape is {shape}, not {expected.shape}")
    if header.end() + math.prod(shape) * dtype.itemsize != size:
        raise DatasetError(f"{size} bytes are not what an array of shape {shape} takes")
    return shape, header.end()


def mapped_bytes(path: Path) -> mmap.mmap:
    """Map a file that is not empty into memory; its pages are read when they are used.

    Raises:
        DatasetError: It cannot be read, or is empty.
    """
    with _intact(path), path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _intact(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, OverflowError, MemoryError) as error:  # DatasetError, too
        raise DatasetError(
            f"{path}: damaged ({error}); delete {path.parent} and build it anew"
        ) from None


def temporary(prefix: str) -> tuple[Path, Callable[[object], None]]:
    """Return a temporary folder, and a function that deletes it together with an object."""
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
    """Return a folder that ``fill`` has filled, and a function that deletes a temporary one.

    ``fill`` works in a folder beside it, goes on from what a killed process left there, and the
    result is moved into place when it is whole. A whole folder with this key stays as it is, after
    its digests have been checked; a damaged one, or one with another key, is replaced. The caller
    needs to check no digest again.

    Args:
        folder: The folder; ``None`` makes a temporary one.
        kind: The name of its kind in manifests and errors.
        key: The ``key`` of its manifest, which identifies the content.
        fill: Writes what is missing into a folder, the manifest last.
        whole: Returns whether the existing folder stays; by default whether it is whole and has
            this key.
        wait: Wait for another process that builds it.

    Raises:
        DatasetError: Something else is there, it cannot be written, or another process builds it.
    """
    if folder is None:
        place, goes_with = temporary(kind.replace(" ", "-"))
        fill(place)
        return place, goes_with
    place = Path(folder)
    check_place(place, kind)
    part = place.with_name(f".{place.name}.{key[:16]}.part")
    with locked(place.with_name(f".{place.name}.lock"), wait=wait):
        if is_outdated(place):
            _add_digests(place, kind, key)
        if not (_is_whole(place, kind, key) if whole is None else whole()):
            make_folder(part)
            delete_temporaries(part)
            fill(part)
            move_into_place(part, place)
    return place, lambda _: None


def _is_whole(folder: Path, kind: str, key: str) -> bool:
    try:
        return bool(read_manifest(folder, kind, {"key": str})["key"] == key)
    except DatasetError:
        return False


def _add_digests(folder: Path, kind: str, key: str) -> None:
    """Write the manifest of an earlier version anew, if all files have the sizes that it lists.

    Encoding a corpus again may cost days. A folder with folders in it is left alone: these have
    manifests of their own.
    """
    manifest = _load(folder / MANIFEST) or {}
    sizes = manifest.get("files")
    if manifest.get("kind") != kind or manifest.get("key") != key or not isinstance(sizes, dict):
        return
    with writing(folder):
        paths = [path for path in folder.iterdir() if path.name != MANIFEST]
        if {path.name: path.stat().st_size for path in paths if path.is_file()} != sizes:
            return
        if any(path.is_dir() for path in paths):
            return
    fields = {name: value for name, value in manifest.items() if name not in ("kind", "files")}
    write_manifest(folder, kind, fields)
