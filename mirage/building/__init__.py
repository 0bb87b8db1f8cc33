"""Building: evaluation sets, training sets, and benchmarks for judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.building.evaluation_sets import (
        MIRACL_RECIPE,
        Benchmark,
        DropReason,
        Recipe,
        build_benchmark,
    )
    from mirage.building.judge_benchmark_steps import (
        TimeDependence,
        UnlabelledSentence,
        WithPassages,
        assign_models,
        time_independent,
        unfit_answers,
        unlabelled_sentences,
        with_passages,
    )
    from mirage.building.judge_benchmarks import JudgeBenchmark, build_judge_benchmark
    from mirage.building.training_sets import (
        ChatMessage,
        OmitReason,
        TrainingExample,
        TrainingSet,
        build_training_set,
        check_trainable,
        example_of,
        read_training_set,
        relevant_only,
        write_training_set,
    )

__all__ = [
    "MIRACL_RECIPE",
    "Benchmark",
    "ChatMessage",
    "DropReason",
    "JudgeBenchmark",
    "OmitReason",
    "Recipe",
    "TimeDependence",
    "TrainingExample",
    "TrainingSet",
    "UnlabelledSentence",
    "WithPassages",
    "assign_models",
    "build_benchmark",
    "build_judge_benchmark",
    "build_training_set",
    "check_trainable",
    "example_of",
    "read_training_set",
    "relevant_only",
    "time_independent",
    "unfit_answers",
    "unlabelled_sentences",
    "with_passages",
    "write_training_set",
]

__getattr__, __dir__ = lazy(__name__, __file__)
