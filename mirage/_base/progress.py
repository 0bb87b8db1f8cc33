"""The progress bar of long work."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Self

from mirage._base.quoting import one_line


def progress_bar(total: int, what: str, progress: bool, *, done: int = 0) -> Any:
    """Return a tqdm progress bar for ``total`` steps; it starts at step ``done``.

    The bar is displayed in a notebook, or on stderr if stderr is a terminal. It is not displayed if
    ``progress`` is false. ``what`` is the text before the bar.
    """
    if not progress:
        return _NoBar()
    if _in_notebook():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm warns if ipywidgets is missing
            from tqdm.auto import tqdm as bar

        return bar(total=total, initial=done, desc=one_line(what))
    from tqdm import tqdm

    # disable=None shows the bar on a terminal only.
    return tqdm(total=total, initial=done, desc=one_line(what), disable=None)


class _NoBar:
    """A replacement for a tqdm progress bar that displays nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, n: float = 1) -> None:
        """Do nothing."""

    def set_postfix(self, **_: object) -> None:
        """Do nothing."""

    def refresh(self) -> None:
        """Do nothing."""


def _in_notebook() -> bool:
    """Return whether this is a Jupyter kernel, by the criterion that tqdm uses."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ())
