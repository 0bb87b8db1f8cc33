"""Stores: folders with a manifest, which is a JSON file that lists each file with its SHA-256.

The manifest is written last, so an incomplete folder has no manifest.
"""

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
from typing import IO, Any, NamedTuple

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

MANIFEST = "manifest.json"

_LARGEST_MANIFEST = 2**28
"""Maximum size of a manifest in bytes.

The manifest of a dense index has an entry of about 130 bytes per 1,024 passages.
"""

FieldTypes = Mapping[str, type | tuple[type, ...]]
"""Types of the fields of a manifest, by name."""

_ENTRY: FieldTypes = {"bytes": int, "sha256": str}


def write_manifest(folder: Path, kind: str, fields: Mapping[str, Any]) -> None:
    """Write the manifest of a folder: its kind, and the size and SHA-256 of each file in it.

    All files are flushed to the disk before the manifest is written.

    Args:
        folder: The folder.
        kind: Kind of the store, such as ``"corpus"``.
        fields: Further fields of the manifest.
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

    The digests detect damage. They are not a signature: anyone who can write a file into the folder
    can also write a matching manifest. Therefore, check the data again before you pass them to
    compiled code.

    Args:
        folder: Folder to read.
        kind: Required kind of the store.
        fields: Types of the fields that the manifest must have.
        files: Names of files that the manifest must list.
        verify: Whether to check the SHA-256 of each file. If false, only sizes are checked.

    Raises:
        DatasetError: If the folder is not a store of this kind, or is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise DatasetError(f"{folder} is not a {kind}: it has no {MANIFEST}")
    manifest = _load(path)
    if manifest is None or manifest.get("kind") != kind:
        raise DatasetError(f"{path} is not the manifest of a {kind}; {_rebuild_hint(folder, kind)}")
    if "digest" not in manifest:
        raise DatasetError(
            f"{path} has no checksum, because an earlier version of mirage wrote it; build the "
            f"{kind} again with the same settings"
        )
    if manifest["digest"] != _digest(manifest):
        raise DatasetError(
            f"{path} was changed after it was written; {_rebuild_hint(folder, kind)}"
        )
    entries = manifest.get("files")
    if not (
        _has_fields(manifest, fields)
        and isinstance(entries, dict)
        and _are_entries(entries)
        and set(files) <= entries.keys()
    ):
        raise DatasetError(
            f"{path} lacks fields or files that a {kind} must have; {_rebuild_hint(folder, kind)}"
        )
    for name, entry in entries.items():
        check_name(name, f"{path}: the file")
        fault = _find_fault(folder / name, entry, verify)
        if fault:
            raise DatasetError(f"{folder / name} {fault}; {_rebuild_hint(folder, kind)}")
    return manifest


def is_outdated(folder: Path) -> bool:
    """Return whether a folder's manifest lacks digests because an earlier version wrote it."""
    manifest = _load(folder / MANIFEST)
    return manifest is not None and "kind" in manifest and "digest" not in manifest


def stored_key(folder: Path, kind: str) -> object:
    """Return the key in a folder's manifest; the key identifies the content of the folder.

    No files are checked. The result is ``None`` if the folder has no manifest of this kind.
    """
    manifest = _load(folder / MANIFEST)
    return None if manifest is None or manifest.get("kind") != kind else manifest.get("key")


def _rebuild_hint(folder: Path, kind: str) -> str:
    return f"delete {folder} and build the {kind} again"


def _load(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or ``None`` if the file has none or cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_MANIFEST:
            return None
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) else None


def _has_fields(values: Mapping[str, Any], types: FieldTypes) -> bool:
    return all(_has_type(values.get(name, ...), type_) for name, type_ in types.items())


def _has_type(value: object, types: type | tuple[type, ...]) -> bool:
    if isinstance(value, bool):  # a bool is also an int in Python
        return types is bool
    return isinstance(value, types) and not (isinstance(value, float) and not math.isfinite(value))


def _are_entries(entries: Mapping[str, object]) -> bool:
    return all(isinstance(entry, dict) and _has_fields(entry, _ENTRY) for entry in entries.values())


def _find_fault(path: Path, entry: Mapping[str, Any], verify: bool) -> str:
    """Return a description of the fault of a file, or an empty string if it has none.

    The size of the file must equal the size in its entry in the manifest. If ``verify`` is true,
    the SHA-256 must be equal too.
    """
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
    """Return the SHA-256 of a manifest's fields, without its field ``digest``."""
    fields = {name: value for name, value in manifest.items() if name != "digest"}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def check_place(folder: Path, kind: str) -> None:
    """Raise an error if a folder contains something other than a store of this kind."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    manifest = _load(folder / MANIFEST)
    if manifest is None or manifest.get("kind") != kind:
        raise DatasetError(
            f"{folder} is neither empty nor a {kind}; delete it, or choose another folder"
        )


def move_into_place(part: Path, folder: Path) -> None:
    """Move the complete folder ``part`` to its final path ``folder``.

    A folder that was at the final path before is deleted.
    """
    with writing(folder):
        if not folder.exists():
            part.rename(folder)
            return
        # Two renames instead of deleting first: a crash leaves a complete folder somewhere.
        old_parent = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
        folder.rename(old_parent / folder.name)
        part.rename(folder)
    shutil.rmtree(old_parent, ignore_errors=True)


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock a file for a ``with`` block; only one process at a time can hold the lock.

    The file is created if it is missing.

    Args:
        path: Path of the file.
        wait: Whether to wait if another process holds the lock. If false, an error is raised.
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
                f"{path}: another process is building in this folder; wait until it has finished, "
                "or choose another folder"
            ) from None
        yield


class ArrayType(NamedTuple):
    """The type and the shape that an array on disk must have.

    Attributes:
        dtype: Type of the numbers.
        shape: Lengths of the one or two dimensions. ``None`` in place of a length allows any
            length.
    """

    dtype: DTypeLike
    shape: tuple[int | None, ...] = (None,)


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array to a file that :func:`mapped_array` and :func:`read_array` can read."""
    header = np.lib.format.header_data_from_array_1_0(array)
    with replace_file(path, follow=False) as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)


@contextmanager
def writing_array(path: Path, dtype: DTypeLike, size: int) -> Iterator[IO[bytes]]:
    """Open a file for an array of ``size`` numbers of the type ``dtype``.

    The complete file equals the one that :func:`save_array` would write.

    Yields:
        The file, to which the caller writes the bytes of the numbers.
    """
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": descr, "fortran_order": False, "shape": (size,)}
    with replace_file(path, follow=False) as file:
        np.lib.format.write_array_header_1_0(file, header)
        yield file


def array_bytes(array: NDArray[Any]) -> bytes:
    """Return the content of a ``.npy`` file for an array."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def mapped_array(path: Path, expected: ArrayType) -> NDArray[Any]:
    """Map an array on disk into memory; its numbers are read when they are used.

    Raises:
        DatasetError: If the file is damaged, or does not have the ``expected`` type and shape.
    """
    with _reporting_damage(path):
        shape, offset = _read_layout(path, expected)
        # Convert to a plain array, because indexing np.memmap is slow.
        return np.asarray(np.memmap(path, expected.dtype, "r", offset, shape))


def read_array(path: Path, expected: ArrayType) -> NDArray[Any]:
    """Read a whole array at once; faster than :func:`mapped_array` if all numbers are used.

    Raises:
        DatasetError: If the file is damaged, or does not have the ``expected`` type and shape.
    """
    with _reporting_damage(path):
        shape, offset = _read_layout(path, expected)
        return np.fromfile(path, expected.dtype, math.prod(shape), offset=offset).reshape(shape)


def read_arrays(path: Path, expected: Mapping[str, ArrayType]) -> dict[str, NDArray[Any]]:
    """Read arrays from a file that ``np.savez`` wrote.

    Args:
        path: Path of the file.
        expected: Required type and shape of each array to read, by name.
    """
    with _reporting_damage(path):
        try:
            with zipfile.ZipFile(path) as archive:
                members = {name: _read_member(archive, f"{name}.npy") for name in expected}
        except Exception as error:  # damaged archives raise errors of many unrelated classes
            raise DatasetError(
                f"the archive of arrays cannot be read: {type(error).__name__}: {error}"
            ) from None
        arrays = {}
        for name, data in members.items():
            shape, offset = _parse_header(data[:_LONGEST_HEADER], len(data), expected[name])
            flat = np.frombuffer(data, expected[name].dtype, math.prod(shape), offset)
            arrays[name] = flat.reshape(shape)
        return arrays


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:  # so that no member expands beyond its size
        raise DatasetError(
            f"the array {name} is compressed, but only arrays that numpy.savez wrote can be read"
        )
    return archive.read(member)


_LONGEST_HEADER = 512
# The header that numpy writes for an array of one or two dimensions. numpy's own parser accepts any
# Python literal, and raises errors of many classes for damaged ones.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)"
    rb"(\{'descr': '([<>|][a-z]\d)', 'fortran_order': False, "
    rb"'shape': \((?:(\d{1,18}),|(\d{1,18}), (\d{1,18}))\), \} *\n)",
    re.DOTALL,
)


def _read_layout(path: Path, expected: ArrayType) -> tuple[tuple[int, ...], int]:
    with path.open("rb") as file:
        return _parse_header(file.read(_LONGEST_HEADER), os.fstat(file.fileno()).st_size, expected)


def _parse_header(start: bytes, size: int, expected: ArrayType) -> tuple[tuple[int, ...], int]:
    """Return the shape of an array and the offset in bytes at which its numbers begin.

    Args:
        start: First bytes of the file.
        size: Size of the file in bytes.
        expected: Required type and shape.
    """
    header = _HEADER.match(start)
    if header is None or int.from_bytes(header[1], "little") != len(header[2]):
        raise DatasetError("the header of the numpy array is missing or damaged")
    shape = tuple(int(length) for length in header.groups()[3:] if length is not None)
    dtype = np.dtype(expected.dtype)
    if header[3].decode() != dtype.str:
        raise DatasetError(f"the array in it has dtype {header[3].decode()}, expected {dtype.str}")
    fits = len(shape) == len(expected.shape) and all(
        wanted in (None, length) for length, wanted in zip(shape, expected.shape, strict=True)
    )
    if not fits:
        raise DatasetError(f"the array in it has shape {shape}, expected {expected.shape}")
    if header.end() + math.prod(shape) * dtype.itemsize != size:
        raise DatasetError(
            f"the file has {size} bytes, which is not the size of an array of shape {shape}"
        )
    return shape, header.end()


def mapped_bytes(path: Path) -> mmap.mmap:
    """Map a non-empty file into memory; its content is read when it is used."""
    with _reporting_damage(path), path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _reporting_damage(path: Path) -> Iterator[None]:
    try:
        yield
    # A DatasetError is a ValueError, so it also gets the path and the advice.
    except (OSError, ValueError, OverflowError, MemoryError) as error:
        raise DatasetError(
            f"{path}: damaged ({error}); delete {path.parent} and build it again"
        ) from None


def temporary(prefix: str) -> tuple[Path, Callable[[object], None]]:
    """Create a temporary folder whose name contains ``prefix``.

    Returns:
        The folder, and a function that ties the folder to an object: after the call, the folder is
        deleted when the object is garbage collected.
    """
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
    """Build a store in a folder, unless a complete store with this key is there.

    ``fill`` writes to a temporary folder beside the final path. If a killed process left files in
    the temporary folder, they are reused. The complete result is then moved to the final path. The
    digests of an existing store are checked, so the caller does not need to check them again.

    Args:
        folder: Final path; ``None`` for a temporary folder.
        kind: Kind of the store, for the manifest and error messages.
        key: Identifier of the content; the manifest stores it in the field ``key``.
        fill: Function that writes the missing files into a folder, the manifest last.
        whole: Function that returns whether to keep the existing folder. By default, the folder is
            kept if it is complete and has this key.
        wait: Whether to wait if another process is building the folder. If false, an error is
            raised.

    Returns:
        The folder, and a function that ties a temporary folder to an object: after the call, the
        folder is deleted when the object is garbage collected. If the folder is not temporary, the
        function does nothing.
    """
    if folder is None:
        target, delete_with = temporary(kind.replace(" ", "-"))
        fill(target)
        return target, delete_with
    target = Path(folder)
    check_place(target, kind)
    part = target.with_name(f".{target.name}.{key[:16]}{_PART}")
    with locked(target.with_name(f".{target.name}.lock"), wait=wait):
        if is_outdated(target):
            _add_digests(target, kind, key)
        if not (_is_whole(target, kind, key) if whole is None else whole()):
            make_folder(part)
            delete_temporaries(part)
            fill(part)
            move_into_place(part, target)
    return target, lambda _: None


_PART = ".part"


def is_part(folder: Path) -> bool:
    """Return whether a folder is the temporary folder of a store that is being built."""
    return folder.name.startswith(".") and folder.name.endswith(_PART)


def _is_whole(folder: Path, kind: str, key: str) -> bool:
    try:
        return bool(read_manifest(folder, kind, {"key": str})["key"] == key)
    except DatasetError:
        return False


def _add_digests(folder: Path, kind: str, key: str) -> None:
    """Add digests to a manifest that an earlier version wrote without them.

    The digests are added only if all files have the sizes that the manifest lists. This avoids
    encoding a corpus again, which may take days. A folder with subfolders is not changed, because
    the subfolders have their own manifests.
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
