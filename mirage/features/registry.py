"""Features by name, and the names that others give them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from types import MappingProxyType

from mirage.errors import FeatureError, UnknownNameError, install_command
from mirage.features import (
    abstention,
    answers,
    citations,
    context,
    fault_spans,
    form,
    informative,
    judged,
    language,
    length,
    lexical,
    neural,
    nuggets,
    overlap,
    rated,
    short_answers,
    similarity,
)
from mirage.features.base import MODELS, AnsweredFeature, Definition, Facts, Feature

__all__ = [
    "ALIASES",
    "DEFINITIONS",
    "OFFLINE",
    "canonical_name",
    "facts",
    "feature",
    "feature_names",
]

DEFINITIONS: Mapping[str, Definition] = MappingProxyType(
    {
        definition.name: definition
        for file in (
            language,
            citations,
            context,
            lexical,
            neural,
            overlap,
            answers,
            fault_spans,
            abstention,
            informative,
            length,
            form,
            rated,
            judged,
            nuggets,
            short_answers,
            similarity,
        )
        for definition in file.DEFINITIONS
    }
)
"""Every feature of this library, by its name without a cutoff."""

OFFLINE = (
    "target_language",
    "english_language",
    "citation_recall@10",
    "citation_map@10",
    "answer_bleu",
    "answer_rougeL",
    "support_lexical",
    "relevance_lexical",
    "answer_match",
    "wrong_answer",
    "fact_agreement",
    "fact_precision",
    "abstention",
    "invention",
    "incorrect_attempt",
    "unknown_facts",
    "passage_coverage",
)
"""Those that :meth:`FeatureSuite.offline` takes of the features without a model."""

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
    """The names that :func:`feature` makes a feature of, with a cutoff of 10 for any cutoff."""
    return tuple(entry.example for entry in DEFINITIONS.values() if not entry.facts.models)


def facts(feature: str | Feature, own: Mapping[str, Facts] = MappingProxyType({})) -> Facts:
    """What is known of a feature: its direction, its range and its needs.

    They are what the feature itself declares as its ``facts``, or else what this library knows of
    its name, or else nothing: an unknown direction, any number, no needs.

    Args:
        feature: the feature or its name.
        own: what features of one's own declared, by name, such as
            :attr:`FeatureTable.facts <mirage.FeatureTable.facts>`; it goes before the rest.

    Raises:
        FeatureError: the feature has an attribute ``facts`` that is something else.
    """
    declared = None if isinstance(feature, str) else getattr(feature, "facts", None)
    if isinstance(declared, Facts):
        return declared
    name = feature if isinstance(feature, str) else feature.name
    if name in own:
        return own[name]
    if declared is not None:
        raise FeatureError(
            f"feature {name!r} declares {declared!r} as its facts; make it mirage.features.Facts"
        )
    stem = canonical_name(name).partition("@")[0]
    return DEFINITIONS[stem].facts if stem in DEFINITIONS else Facts()


@lru_cache(maxsize=256)
def feature(name: str) -> Feature:
    """The feature of this name or alias: ``feature("citation_recall@5")``.

    Raises:
        UnknownNameError: there is no such feature; the message names the nearest.
        FeatureError: the feature needs a model; the message says what to write instead, and which
            extra to install.
    """
    stem, at, cutoff = canonical_name(name).partition("@")
    entry = DEFINITIONS.get(stem)
    if entry is None or not re.fullmatch("@[1-9][0-9]{0,8}" if entry.cutoff else "", at + cutoff):
        raise UnknownNameError("feature", name, [entry.example for entry in DEFINITIONS.values()])
    if entry.facts.models:
        model, extra = MODELS[entry.facts.models[0]]
        install = f"; it needs: {install_command(extra)}" if extra else ""
        raise FeatureError(
            f"feature {name!r} is computed by a model, which a name cannot say: write "
            f"mirage.features.{entry.function.__name__}({model}) instead{install}"
        )
    function = partial(entry.function, k=int(cutoff)) if entry.cutoff else entry.function
    return AnsweredFeature(stem + at + cutoff, function)
