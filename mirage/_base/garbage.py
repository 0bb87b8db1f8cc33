"""Run Python's garbage collector less often while many long-lived objects are created.

The collector visits all objects again and again to find reference cycles. Importing this package,
parsing texts and rendering pages create many objects and almost no cycles, so the collector takes a
fifth to a third of their time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# Python 3.11 has the thresholds 700, 10 and 10. This many objects take a few megabytes.
_THRESHOLD = 50_000

_lock = Lock()
_depth = 0
_before: tuple[int, int, int] = (0, 0, 0)


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector in a ``with`` block.

    The objects that exist when the block ends are moved to the oldest generation, which the
    collector rarely visits.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            # Together, these calls move all objects to the oldest generation.
            gc.freeze()
            gc.unfreeze()
        gc.enable()


@contextmanager
def rare_collection() -> Iterator[None]:
    """Run the garbage collector only after every 50,000 new objects in a ``with`` block.

    By default, Python 3.11 runs it after 700 new objects. The function also works as a decorator.

    Example:
        >>> import gc
        >>> with rare_collection():
        ...     inside = gc.get_threshold()
        >>> inside[0], inside[0] > gc.get_threshold()[0]
        (50000, True)
    """
    global _depth, _before
    with _lock:
        _depth += 1
        if _depth == 1:
            _before = gc.get_threshold()
            # 0 means that the user has disabled the collector.
            if 0 < _before[0] < _THRESHOLD:
                gc.set_threshold(_THRESHOLD, *_before[1:])
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                gc.set_threshold(*_before)
