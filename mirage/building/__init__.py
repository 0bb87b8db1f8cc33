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
        UnlabelledSentence,
        WithPassages,
        assign_models,
        unfit_answers,
        unlabelled_sentences,
        with_passages,
    )
    from mirage.building.judge_benchmarks import JudgeBenchmark, build_judge_benchmark
    from mirage.building.time_dependence import TimeDependence, time_independent
    from mirage.building.training_sets import (
        ChatMessage,
        OmitReason,
        TrainingExample,
        TrainingSet,
        build_training_set,
        read_training_set,
        relevant_only,
        write_training_set,
    )

_HOME = {
    "Benchmark": "evaluation_sets",
    "ChatMessage": "training_sets",
    "DropReason": "evaluation_sets",
    "MIRACL_RECIPE": "evaluation_sets",
    "JudgeBenchmark": "judge_benchmarks",
    "OmitReason": "training_sets",
    "Recipe": "evaluation_sets",
    "TimeDependence": "time_dependence",
    "TrainingExample": "training_sets",
    "TrainingSet": "training_sets",
    "UnlabelledSentence": "judge_benchmark_steps",
    "WithPassages": "judge_benchmark_steps",
    "assign_models": "judge_benchmark_steps",
    "build_benchmark": "evaluation_sets",
    "build_judge_benchmark": "judge_benchmarks",
    "build_training_set": "training_sets",
    "read_training_set": "training_sets",
    "relevant_only": "training_sets",
    "time_independent": "time_dependence",
    "unfit_answers": "judge_benchmark_steps",
    "unlabelled_sentences": "judge_benchmark_steps",
    "with_passages": "judge_benchmark_steps",
    "write_training_set": "training_sets",
}

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
    "read_training_set",
    "relevant_only",
    "time_independent",
    "unfit_answers",
    "unlabelled_sentences",
    "with_passages",
    "write_training_set",
]

__getattr__, __dir__ = lazy(__name__, _HOME)
