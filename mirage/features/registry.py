"""Features by name, and the names that others give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType

from mirage.errors import FeatureError, UnknownNameError
from mirage.features.base import Answered, AnsweredFeature, Feature, NotComputed
from mirage.features.citations import citation_map, citation_recall
from mirage.features.language import english_language, target_language
from mirage.features.lexical import relevance_lexical, support_lexical, support_lexical_all
from mirage.features.overlap import answer_bleu, answer_rouge_l

__all__ = ["ALIASES", "OFFLINE", "canonical_name", "feature", "feature_names"]

_PLAIN: Mapping[str, Callable[[Answered], float | NotComputed]] = {
    "target_language": target_language,
    "english_language": english_language,
    "answer_bleu": answer_bleu,
    "answer_rougeL": answer_rouge_l,
    "support_lexical": support_lexical,
    "support_lexical_all": support_lexical_all,
    "relevance_lexical": relevance_lexical,
}

# These take the cutoff as k.
_WITH_CUTOFF: Mapping[str, Callable[..., float | NotComputed]] = {
    "citation_recall": citation_recall,
    "citation_map": citation_map,
}

# These take an LLM: they are functions of mirage.features.
_RATED = ("answer_overlap", "fluency", "nugget_recall")

OFFLINE = (
    "target_language",
    "english_language",
    "citation_recall@10",
    "citation_map@10",
    "answer_bleu",
    "answer_rougeL",
    "support_lexical",
    "relevance_lexical",
)
"""The features that need no model and no network."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        # The columns of the benchmark's data on the hub.
        "citation_MAP@10": "citation_map@10",
        "citation_Recall@10": "citation_recall@10",
        "citation_MAP": "citation_map",
        "citation_Recall": "citation_recall",
        "answer_overlap_score": "answer_overlap",
        "fluency_score": "fluency",
        # The columns of its older data.
        "language_detection": "target_language",
        "en_detection": "english_language",
        "xlni_context_entailment": "support_entailment",
        "xlni_context_neutral": "support_neutral",
        "bge-reranker-v2-m3-score": "reranker_score",
        "Meta-Llama-3-8B-Instruct-answer-eval": "answer_overlap",
        "Meta-Llama-3-8B-Instruct-fluency": "fluency",
    }
)
"""Column names of MIRAGE-Bench's published data, and this library's.

``citation_MAP`` and ``citation_Recall`` stand for any cutoff ``@k``.
"""


def canonical_name(name: str) -> str:
    """This library's name of what the published data calls ``name``; other names stay.

    ``citation_MAP@10`` is ``citation_map@10``, ``fluency_score`` is ``fluency``.
    """
    stem, at, cutoff = name.partition("@")
    return ALIASES.get(stem, stem) + at + cutoff


def feature_names() -> tuple[str, ...]:
    """The names that :func:`feature` knows, with a cutoff of 10 for any cutoff."""
    return (*_PLAIN, *(f"{stem}@10" for stem in _WITH_CUTOFF))


@lru_cache(maxsize=256)
def feature(name: str) -> Feature:
    """The feature of this name or alias: ``feature("citation_recall@5")``.

    Raises:
        UnknownNameError: there is no such feature; the message names the nearest.
        FeatureError: the feature needs an LLM; the message says what to write instead.
    """
    ours = canonical_name(name)
    if ours in _PLAIN:
        return AnsweredFeature(ours, _PLAIN[ours])
    if ours in _RATED:
        raise FeatureError(
            f"feature {name!r} is rated by an LLM, which a name cannot say: write "
            f"mirage.features.{ours}(LLM(...)) instead"
        )
    stem, _, cutoff = ours.partition("@")
    if stem in _WITH_CUTOFF and re.fullmatch(r"[1-9][0-9]{0,8}", cutoff):
        return AnsweredFeature(ours, partial(_WITH_CUTOFF[stem], k=int(cutoff)))
    raise UnknownNameError("feature", name, feature_names())
