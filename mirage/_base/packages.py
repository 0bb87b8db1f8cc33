"""Import optional packages, which the extras of Mirage install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mirage.errors import MissingPackageError, extra_of, missing_package


def package(name: str, extra: str | None = None) -> Any:
    """Import and return a module of an optional package.

    Args:
        name: Name of the module.
        extra: Extra that installs the package, for the error message. By default, it is looked up
            in :data:`mirage.errors.EXTRAS`.

    Raises:
        MissingPackageError: If the package is not installed. The message gives the pip command.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        extra = extra or extra_of(name.partition(".")[0])
        raise missing_package(error.name or name, extra) from error


def check_bitsandbytes(purpose: str) -> None:
    """Raise an error if a package for loading models in 4 or 8 bits is missing.

    Args:
        purpose: The setting that requires the packages, such as ``"load_in='4bit'"``, for the
            error message.

    Raises:
        MissingPackageError: If bitsandbytes or accelerate is not installed.
    """
    for name in ("bitsandbytes", "accelerate"):
        try:
            import_module(name)
        except ModuleNotFoundError:
            raise MissingPackageError(
                f"{purpose} needs the package {name}; install it with: pip install {name}"
            ) from None
