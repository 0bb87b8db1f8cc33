"""Direction and scale of common metrics of other tools."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage.errors import SettingError

_LOWER = (
    *("noise sensitivity", "noise sensitivity relevant", "noise sensitivity irrelevant"),
    *("perplexity", "word perplexity", "byte perplexity", "bits per byte", "nll", "loss"),
    *("wer", "word error rate", "cer", "character error rate", "ter", "error rate", "brier score"),
    *("mse", "mae", "rmse", "edit distance", "levenshtein distance"),
    *("latency", "latencyms", "latency ms", "duration", "cost", "total cost", "total tokens"),
    *("hallucination rate", "failure rate", "refusal rate", "toxicity rate", "bias rate"),
)
_HIGHER = (
    *("score", "value", "accuracy", "acc", "acc norm", "exact match", "exact", "match", "includes"),
    *("f1", "precision", "recall", "bleu", "chrf", "rouge", "rouge score", "meteor", "bleurt"),
    *("mcc", "likelihood", "pass", "pass at 1", "success", "correct", "correctness", "quality"),
    *("faithfulness", "answer relevancy", "answer relevance", "response relevancy", "relevance"),
    *("context precision", "context recall", "context relevance", "context relevancy"),
    *("contextual precision", "contextual recall", "contextual relevancy", "groundedness"),
    *("answer correctness", "factual correctness", "answer similarity", "semantic similarity"),
    *("context entity recall", "answer accuracy", "response groundedness", "context utilization"),
    *("non llm string similarity", "string present", "id based context precision", "overlap"),
    *("id based context recall", "non llm context recall", "summarization", "summary score"),
    *("similarity", "similar", "helpfulness", "coherence", "conciseness", "fluency"),
    *("equalsexpected", "equals expected", "contains", "llmjudge", "g eval", "geval", "choice"),
    *("pattern match", "json correctness", "tool correctness", "task completion"),
    *("prompt alignment", "role adherence", "knowledge retention", "conversation completeness"),
    *("model graded qa", "model graded fact", "pii leakage", "answer match", "citation recall"),
    *("nv accuracy", "nv context relevance", "nv response groundedness", "bleu score"),
    *("chrf score", "llm context precision with reference", "topic adherence"),
    *("llm context precision without reference", "agent goal accuracy", "tool call accuracy"),
    *("tool call f1", "context faithfulness", "llm rubric", "factuality", "em", "mc1", "mc2"),
    *("turn relevancy", "groundedness measure with cot reasons"),
)
_OFTEN_LOWER = re.compile(
    r"(?:^| )(?:errors?|err|loss|latency|perplexity|ppl|cost|time|duration|distance|wer|cer|ter|"
    r"hallucinat\w*|toxic\w*|bias\w*|violations?|harm\w*|refusals?|failures?|tokens?|risk)(?: |$)"
)
_UNLIMITED = re.compile(
    r"(?:^| )(?:latency|latencyms|duration|time|cost|tokens|perplexity|ppl|nll|loss|mse|mae|rmse)"
    r"(?: (?:ms|s|seconds|usd))?$"
)
_SCALES = {"bleu": (0.0, 100.0), "chrf": (0.0, 100.0), "sacrebleu": (0.0, 100.0)}
_PARENTHESES = re.compile(r"\s*[\[(].*?[\])]")


class MetricFacts(NamedTuple):
    """Direction and scale of a metric.

    Attributes:
        lower_is_better: Whether smaller scores are better.
        assumed: Whether the direction is assumed because the metric is unknown.
        low: Lowest possible score; minus infinity if it is unknown.
        high: Highest possible score; infinity if it is unknown.
        has_direction: Whether larger or smaller scores are better at all. The length of an answer,
            for example, has no direction.
    """

    lower_is_better: bool
    assumed: bool
    low: float
    high: float
    has_direction: bool = True

    @property
    def has_scale(self) -> bool:
        """Whether both ends of the scale are known."""
        return math.isfinite(self.high - self.low)

    @property
    def best(self) -> float:
        """The best possible score; infinite if it is not known."""
        return self.low if self.lower_is_better else self.high

    def worst(self, scores: Floats) -> float:
        """Return the worst possible score, or the worst of ``scores`` if the scale is not known."""
        if self.has_scale:
            return self.high if self.lower_is_better else self.low
        return float(np.nanmax(scores) if self.lower_is_better else np.nanmin(scores))


_KNOWN: Mapping[str, bool] = MappingProxyType(
    {**dict.fromkeys(_HIGHER, False), **dict.fromkeys(_LOWER, True)}
)


def metric_facts(
    name: str,
    scores: Floats,
    *,
    lower: Iterable[str] = (),
    higher: Iterable[str] = (),
    scale: tuple[float, float] | None = None,
    by_file: Iterable[bool] = (),
    built_in: MetricFacts | None = None,
) -> MetricFacts:
    """Return the direction and the scale of a metric.

    Without ``scale``, the scale is that of the built-in feature with this name if the scores fit
    it. Otherwise it is 0 to 1 if all scores are in this range, except for metrics without a limit,
    such as latency or cost. For BLEU and chrF it is 0 to 100 if a score is above 1. Otherwise the
    scale is unknown. Other tools have metrics named like a feature, such as fluency, whose scale is
    0 to 1 if all scores are in this range.

    Args:
        name: Name of the metric.
        scores: Scores of the metric in all compared files; NaN if the metric failed.
        lower: Names of the metrics for which the user stated that smaller scores are better. This
            overrides all other sources of the direction.
        higher: Names of the metrics for which the user stated that larger scores are better.
        scale: Lowest and highest possible score; ``None`` if the user passed none.
        by_file: Direction of the metric in each file that shows it: true if smaller is better.
        built_in: Facts of the built-in feature with this name; ``None`` if there is none.
            ``lower``, ``higher`` and ``by_file`` override its direction.

    Raises:
        SettingError: If files disagree on the direction, a score is not on the scale, or the name
            suggests an error rate or a cost but the metric is not known.

    Example:
        >>> metric_facts("perplexity", np.array([0.0, 0.2])).lower_is_better
        True
    """
    stem = metric_words(name)
    assumed, has_direction = False, True
    if name in lower:
        is_lower = True
    elif name in higher:
        is_lower = False
    elif directions := set(by_file):
        if len(directions) > 1:
            raise SettingError(
                f"metric {name!r}: smaller scores are better in one file, but larger scores in "
                "the other; check that both files measure the same metric"
            )
        [is_lower] = directions
    elif built_in is not None:
        is_lower, has_direction = built_in.lower_is_better, built_in.has_direction
    elif stem in _KNOWN:
        is_lower = _KNOWN[stem]
    elif _OFTEN_LOWER.search(stem):
        raise SettingError(
            f"metric {name!r}: its name does not show whether smaller scores are better; give "
            f"--lower-is-better {name!r} or --higher-is-better {name!r}"
        )
    else:
        is_lower, assumed = False, True
    low, high = _scale(name, stem, scores, scale, built_in)
    return MetricFacts(is_lower, assumed, low, high, has_direction)


def metric_words(name: str) -> str:
    """Return the words of a metric's name in lower case, without parameters and filters.

    Example:
        >>> metric_words("factual_correctness(mode=f1)"), metric_words("exact_match,strict-match")
        ('factual correctness', 'exact match')
    """
    # lm-evaluation-harness writes a filter after a comma, as in "exact_match,strict-match".
    title = _PARENTHESES.sub("", name).partition(",")[0]
    words = " ".join(re.split(r"[\s_@/.:-]+", title.casefold().strip()))
    return words.rpartition(" none")[0] or words


def _scale(
    name: str,
    stem: str,
    scores: Floats,
    scale: tuple[float, float] | None,
    built_in: MetricFacts | None,
) -> tuple[float, float]:
    valid = scores[~np.isnan(scores)]
    least, most = (valid.min(), valid.max()) if len(valid) else (0.0, 1.0)
    shares = least >= 0 and most <= 1 and not (len(valid) and _UNLIMITED.search(stem))
    if (
        scale is None
        and built_in is not None
        and built_in.has_scale
        and built_in.low <= least
        and most <= built_in.high
        and not (shares and stem in _KNOWN)
    ):
        return built_in.low, built_in.high
    if scale is None and stem in _SCALES and most > 1:
        scale = _SCALES[stem]
    if scale is not None:
        low, high = scale
        if not low < high:
            raise SettingError(
                f"metric {name!r}: the lowest score of the scale must be below the highest, got "
                f"{low:g}:{high:g}"
            )
        if least < low or most > high:
            raise SettingError(
                f"metric {name!r}: the scores range from {least:g} to {most:g}, so some are "
                f"outside the scale {low:g}:{high:g}"
            )
        return low, high
    return (0.0, 1.0) if shares else (-math.inf, math.inf)
