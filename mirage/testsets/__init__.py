"""Building of test sets from documents, evaluation sets and training sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.testsets.evaluation_sets import MIRACL_RECIPE, Recipe, build_benchmark
    from mirage.testsets.item_sets import ItemSet, read_rejected, strike
    from mirage.testsets.item_sheets import build_from_sheet, item_sheet, read_sheet, write_sheet
    from mirage.testsets.test_sets import build_test_set, estimate_test_set
    from mirage.testsets.training_sets import (
        TrainingExample,
        TrainingSet,
        build_training_set,
        read_training_set,
        write_training_set,
    )

__all__ = [
    "MIRACL_RECIPE",
    "ItemSet",
    "Recipe",
    "TrainingExample",
    "TrainingSet",
    "build_benchmark",
    "build_from_sheet",
    "build_test_set",
    "build_training_set",
    "estimate_test_set",
    "item_sheet",
    "read_rejected",
    "read_sheet",
    "read_training_set",
    "strike",
    "write_sheet",
    "write_training_set",
]

_NAMES = {
    "mirage.testsets.evaluation_sets": ("MIRACL_RECIPE", "Recipe", "build_benchmark"),
    "mirage.testsets.item_sets": ("ItemSet", "read_rejected", "strike"),
    "mirage.testsets.item_sheets": ("build_from_sheet", "item_sheet", "read_sheet", "write_sheet"),
    "mirage.testsets.test_sets": ("build_test_set", "estimate_test_set"),
    "mirage.testsets.training_sets": (
        "TrainingExample",
        "TrainingSet",
        "build_training_set",
        "read_training_set",
        "write_training_set",
    ),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
