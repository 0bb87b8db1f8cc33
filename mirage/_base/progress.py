"""The progress bar of everything that takes long."""

from __future__ import annotations

from typing import Any

__all__ = ["progress_bar"]


def progress_bar(total: int, what: str, progress: bool, *, done: int = 0) -> Any:
    """A bar of tqdm on stderr, if ``progress`` is true and that is a terminal."""
    from tqdm import tqdm

    # None: on a terminal only.
    return tqdm(total=total, initial=done, desc=what, disable=None if progress else True)
