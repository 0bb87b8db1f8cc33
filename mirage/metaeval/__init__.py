"""Meta-evaluation: measure how well judges of sentences agree with labels from people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.metaeval._gold import MEAN
    from mirage.metaeval.abstaining import AbstainingJudge, Cascade, Decision, cascade
    from mirage.metaeval.agreement import (
        AnnotatorAgreement,
        LanguageAgreement,
        annotator_agreement,
    )
    from mirage.metaeval.comparisons import Comparison, Comparisons
    from mirage.metaeval.consistency import (
        ConsistencyOfPair,
        LanguageConsistency,
        language_consistency,
        pair_verdicts,
        sentence_verdicts,
    )
    from mirage.metaeval.correction import (
        CorrectedShare,
        CorrectedShares,
        Transfer,
        TransferCard,
        corrected_share,
        transfer_card,
    )
    from mirage.metaeval.evaluation import evaluate
    from mirage.metaeval.fine_errors import FineError, FineErrors
    from mirage.metaeval.judges import Score, SentenceJudge, score
    from mirage.metaeval.labels import LabelledSentences
    from mirage.metaeval.llm_judge import LLMSentenceJudge
    from mirage.metaeval.prompts import STRATEGIES
    from mirage.metaeval.results import JudgeFigures, JudgeResult, MetaEvaluation
    from mirage.metaeval.sentences import (
        AnswerSentence,
        read_sentences,
        sentences_of,
        write_sentences,
    )

__all__ = [
    "MEAN",
    "STRATEGIES",
    "AbstainingJudge",
    "AnnotatorAgreement",
    "AnswerSentence",
    "Cascade",
    "Comparison",
    "Comparisons",
    "ConsistencyOfPair",
    "CorrectedShare",
    "CorrectedShares",
    "Decision",
    "FineError",
    "FineErrors",
    "JudgeFigures",
    "JudgeResult",
    "LLMSentenceJudge",
    "LabelledSentences",
    "LanguageAgreement",
    "LanguageConsistency",
    "MetaEvaluation",
    "Score",
    "SentenceJudge",
    "Transfer",
    "TransferCard",
    "annotator_agreement",
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

__getattr__, __dir__ = lazy(__name__, __file__)
