"""Fine-tuning of language models on retrieved passages (extra ``finetune``).

Training examples are conversations: a prompt with passages, and the answer that the model should
give. They are made from queries with short answers or references (:func:`training_examples`), or
from the responses of a teacher model (:func:`mirage.testsets.build_training_set`). :func:`finetune`
trains on them with TRL and PEFT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.training.examples import evaluation_overlap, training_examples
    from mirage.training.recipes import BERGEN_TUNING, MIRAGE_BENCH_TUNING
    from mirage.training.tuning import finetune, prompt_of

__all__ = [
    "BERGEN_TUNING",
    "MIRAGE_BENCH_TUNING",
    "evaluation_overlap",
    "finetune",
    "prompt_of",
    "training_examples",
]

_NAMES = {
    "mirage.training.examples": ("evaluation_overlap", "training_examples"),
    "mirage.training.recipes": ("BERGEN_TUNING", "MIRAGE_BENCH_TUNING"),
    "mirage.training.tuning": ("finetune", "prompt_of"),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
