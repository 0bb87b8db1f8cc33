"""Meta-evaluation: measure how well judges of sentences agree with labels from people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.metaeval.abstaining import AbstainingJudge, cascade
    from mirage.metaeval.agreement import annotator_agreement
    from mirage.metaeval.consistency import language_consistency, pair_verdicts, sentence_verdicts
    from mirage.metaeval.correction import corrected_share, transfer_card
    from mirage.metaeval.evaluation import evaluate
    from mirage.metaeval.judge_benchmarks import build_judge_benchmark
    from mirage.metaeval.judges import score
    from mirage.metaeval.labels import LabelledSentences
    from mirage.metaeval.llm_judge import LLMSentenceJudge
    from mirage.metaeval.prompts import STRATEGIES
    from mirage.metaeval.results import MetaEvaluation
    from mirage.metaeval.sentences import (
        AnswerSentence,
        read_sentences,
        sentences_of,
        write_sentences,
    )

__all__ = [
    "STRATEGIES",
    "AbstainingJudge",
    "AnswerSentence",
    "LLMSentenceJudge",
    "LabelledSentences",
    "MetaEvaluation",
    "annotator_agreement",
    "build_judge_benchmark",
    "cascade",
    "corrected_share",
    "evaluate",
    "language_consistency",
    "pair_verdicts",
    "read_sentences",
    "score",
    "sentence_verdicts",
    "sentences_of",
    "transfer_card",
    "write_sentences",
]

_NAMES = {
    "mirage.metaeval.abstaining": ("AbstainingJudge", "cascade"),
    "mirage.metaeval.agreement": ("annotator_agreement",),
    "mirage.metaeval.consistency": ("language_consistency", "pair_verdicts", "sentence_verdicts"),
    "mirage.metaeval.correction": ("corrected_share", "transfer_card"),
    "mirage.metaeval.evaluation": ("evaluate",),
    "mirage.metaeval.judge_benchmarks": ("build_judge_benchmark",),
    "mirage.metaeval.judges": ("score",),
    "mirage.metaeval.labels": ("LabelledSentences",),
    "mirage.metaeval.llm_judge": ("LLMSentenceJudge",),
    "mirage.metaeval.prompts": ("STRATEGIES",),
    "mirage.metaeval.results": ("MetaEvaluation",),
    "mirage.metaeval.sentences": (
        "AnswerSentence",
        "read_sentences",
        "sentences_of",
        "write_sentences",
    ),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)
