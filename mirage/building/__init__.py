"""Building of evaluation sets, training sets, test sets from documents, and judge benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.building.askable import Askable, askable_passages, corpus_of
    from mirage.building.evaluation_sets import (
        MIRACL_RECIPE,
        Benchmark,
        DropReason,
        Recipe,
        build_benchmark,
    )
    from mirage.building.item_checks import (
        Draft,
        Fault,
        FaultKind,
        ItemKind,
        duplicate_of,
        faults_in,
        query_of,
        stands,
    )
    from mirage.building.item_sheets import (
        SheetRow,
        build_from_sheet,
        item_sheet,
        read_sheet,
        write_sheet,
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
    from mirage.building.test_sets import (
        ITEM_KINDS,
        ItemSet,
        RejectedItem,
        build_test_set,
        estimate_test_set,
        read_rejected,
        strike,
    )
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
    "ITEM_KINDS",
    "MIRACL_RECIPE",
    "Askable",
    "Benchmark",
    "ChatMessage",
    "Draft",
    "DropReason",
    "Fault",
    "FaultKind",
    "ItemKind",
    "ItemSet",
    "JudgeBenchmark",
    "OmitReason",
    "Recipe",
    "RejectedItem",
    "SheetRow",
    "TimeDependence",
    "TrainingExample",
    "TrainingSet",
    "UnlabelledSentence",
    "WithPassages",
    "askable_passages",
    "assign_models",
    "build_benchmark",
    "build_from_sheet",
    "build_judge_benchmark",
    "build_test_set",
    "build_training_set",
    "check_trainable",
    "corpus_of",
    "duplicate_of",
    "estimate_test_set",
    "example_of",
    "faults_in",
    "item_sheet",
    "query_of",
    "read_rejected",
    "read_sheet",
    "read_training_set",
    "relevant_only",
    "stands",
    "strike",
    "time_independent",
    "unfit_answers",
    "unlabelled_sentences",
    "with_passages",
    "write_sheet",
    "write_training_set",
]

__getattr__, __dir__ = lazy(__name__, __file__)
