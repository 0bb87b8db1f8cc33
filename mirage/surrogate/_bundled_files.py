"""Read bundled joblib files without importing joblib, because this import is slow.

:func:`mirage.surrogate.artifacts.write_joblib` writes the files. Each is a pickle, compressed by
LZMA, in which the bytes of an array follow the object that describes it. The reader accepts only
arrays of numbers, texts and mappings, so a file cannot run code.
"""

from __future__ import annotations

import io
import lzma
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ArtifactError

_NUMPY = {("numpy", "dtype"): np.dtype, ("numpy", "ndarray"): np.ndarray}
_WRAPPER = ("joblib.numpy_pickle", "NumpyArrayWrapper")


def read_bundled(content: bytes) -> dict[str, Any]:
    """Return the mapping from names to arrays and texts that a bundled file stores.

    Args:
        content: Content of the file.

    Raises:
        ArtifactError: If the file contains anything other than a mapping of arrays and texts.
        lzma.LZMAError: If the file is damaged.
    """
    file = io.BytesIO(lzma.decompress(content))
    payload = _Unpickler(file).load()
    if not isinstance(payload, dict):
        raise ArtifactError("the file does not contain a mapping from names to arrays and texts")
    return {
        name: value.array if isinstance(value, _Array) else value for name, value in payload.items()
    }


class _Array:
    """A stand-in for joblib's array wrapper.

    It reads the array from the bytes that follow the wrapper in the file.
    """

    file: io.BytesIO
    array: NDArray[Any]

    def __setstate__(self, state: dict[str, Any]) -> None:
        dtype, shape = state["dtype"], state["shape"]
        if dtype.hasobject:
            raise ArtifactError("the file contains an array of Python objects")
        # Before the array, there is a byte with the number of padding bytes, and then the padding.
        self.file.read(self.file.read(1)[0])
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        flat = np.frombuffer(self.file.read(size), dtype=dtype).copy()
        self.array = flat.reshape(shape, order=state["order"])


class _Unpickler(pickle.Unpickler):
    """An unpickler that accepts only arrays of numbers, texts and mappings.

    It must not read ahead in the file, because the bytes of an array follow the object that
    describes it, and :class:`_Array` reads them from the same file.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._array = type("_FileArray", (_Array,), {"file": file})

    def find_class(self, module: str, name: str) -> Any:
        """Return a class by name; only the classes that bundled files need are allowed."""
        if (module, name) == _WRAPPER:
            return self._array
        try:
            return _NUMPY[module, name]
        except KeyError:
            raise ArtifactError(
                f"the file contains an object of the class {module}.{name}, which is not allowed"
            ) from None
