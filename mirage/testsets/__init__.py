"""Build test sets from documents, evaluation sets from retrieval datasets, and training sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.testsets.evaluation_sets import MIRACL_RECIPE, build_benchmark
    from mirage.testsets.item_sets import strike
    from mirage.testsets.item_sheets import build_from_sheet, item_sheet, read_sheet, write_sheet
    from mirage.testsets.test_sets import build_test_set, estimate_test_set
    from mirage.testsets.training_sets import (
        build_training_set,
        write_training_set,
    )

__all__ = [
    "MIRACL_RECIPE",
    "build_benchmark",
    "build_from_sheet",
    "build_test_set",
    "build_training_set",
    "estimate_test_set",
    "item_sheet",
    "read_sheet",
    "strike",
    "write_sheet",
    "write_training_set",
]

_NAMES = {
    "mirage.testsets.evaluation_sets": ("MIRACL_RECIPE", "build_benchmark"),
    "mirage.testsets.item_sets": ("strike",),
    "mirage.testsets.item_sheets": ("build_from_sheet", "item_sheet", "read_sheet", "write_sheet"),
    "mirage.testsets.test_sets": ("build_test_set", "estimate_test_set"),
    "mirage.testsets.training_sets": (
        "build_training_set",
        "write_training_set",
    ),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
