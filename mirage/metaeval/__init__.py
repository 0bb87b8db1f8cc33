"""Judging the judges: how far labels and scores agree with those that people gave sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._lazy import lazy

if TYPE_CHECKING:
    from mirage.metaeval.agreement import (
        AnnotatorAgreement,
        LanguageAgreement,
        annotator_agreement,
        gwet_ac1,
        krippendorff_alpha,
    )
    from mirage.metaeval.building import MetaBenchmark, build_meta_benchmark
    from mirage.metaeval.building_steps import (
        UnlabelledSentence,
        WithPassages,
        assign_models,
        unfit_answers,
        unlabelled_sentences,
        with_passages,
    )
    from mirage.metaeval.comparing import Comparison, Comparisons
    from mirage.metaeval.evaluation import evaluate
    from mirage.metaeval.figures import (
        Calibration,
        Threshold,
        calibration,
        roc_auc,
    )
    from mirage.metaeval.fine_errors import FineError, FineErrors
    from mirage.metaeval.judges import Score, SentenceJudge, score
    from mirage.metaeval.labels import LabelledSentences
    from mirage.metaeval.llm_judge import LLMSentenceJudge
    from mirage.metaeval.permutation import holm, permutation_p_values
    from mirage.metaeval.prompts import STRATEGIES
    from mirage.metaeval.results import JudgeFigures, JudgeResult, MetaEvaluation
    from mirage.metaeval.sentences import AnswerSentence
    from mirage.metaeval.time_dependence import TimeFiltered, time_independent
    from mirage.metaeval.truth import MEAN

_HOME = {
    "MEAN": "truth",
    "STRATEGIES": "prompts",
    "AnnotatorAgreement": "agreement",
    "AnswerSentence": "sentences",
    "Calibration": "figures",
    "Comparison": "comparing",
    "Comparisons": "comparing",
    "FineError": "fine_errors",
    "FineErrors": "fine_errors",
    "JudgeFigures": "results",
    "JudgeResult": "results",
    "LLMSentenceJudge": "llm_judge",
    "LabelledSentences": "labels",
    "LanguageAgreement": "agreement",
    "MetaBenchmark": "building",
    "MetaEvaluation": "results",
    "Score": "judges",
    "SentenceJudge": "judges",
    "Threshold": "figures",
    "TimeFiltered": "time_dependence",
    "UnlabelledSentence": "building_steps",
    "WithPassages": "building_steps",
    "annotator_agreement": "agreement",
    "assign_models": "building_steps",
    "build_meta_benchmark": "building",
    "calibration": "figures",
    "evaluate": "evaluation",
    "gwet_ac1": "agreement",
    "holm": "permutation",
    "krippendorff_alpha": "agreement",
    "permutation_p_values": "permutation",
    "roc_auc": "figures",
    "score": "judges",
    "time_independent": "time_dependence",
    "unfit_answers": "building_steps",
    "unlabelled_sentences": "building_steps",
    "with_passages": "building_steps",
}

__all__ = [
    "MEAN",
    "STRATEGIES",
    "AnnotatorAgreement",
    "AnswerSentence",
    "Calibration",
    "Comparison",
    "Comparisons",
    "FineError",
    "FineErrors",
    "JudgeFigures",
    "JudgeResult",
    "LLMSentenceJudge",
    "LabelledSentences",
    "LanguageAgreement",
    "MetaBenchmark",
    "MetaEvaluation",
    "Score",
    "SentenceJudge",
    "Threshold",
    "TimeFiltered",
    "UnlabelledSentence",
    "WithPassages",
    "annotator_agreement",
    "assign_models",
    "build_meta_benchmark",
    "calibration",
    "evaluate",
    "gwet_ac1",
    "holm",
    "krippendorff_alpha",
    "permutation_p_values",
    "roc_auc",
    "score",
    "time_independent",
    "unfit_answers",
    "unlabelled_sentences",
    "with_passages",
]

__getattr__, __dir__ = lazy(__name__, _HOME)
