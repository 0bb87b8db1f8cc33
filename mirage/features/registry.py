"""The registry of the library's features by name, and their aliases in published data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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
from mirage.features.base import (
    MODELS,
    Answered,
    AnsweredFeature,
    Definition,
    Facts,
    Feature,
    FunctionFeature,
    Need,
    NotComputed,
)
from mirage.languages import Language

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
"""The features without a model that :meth:`FeatureSuite.default` includes."""

_BOARD_FILES = (abstention, answers, fault_spans, informative, lexical)

FOR_BOARDS = frozenset(definition.name for file in _BOARD_FILES for definition in file.DEFINITIONS)
"""Names of the features that need word lists.

Only the languages with a bundled leaderboard have these word lists.
"""

_NO_BOARD = NotComputed(
    "this language has no bundled board and lacks the word lists that the feature needs; use the "
    "qa_* metrics instead"
)

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        # The columns of MIRAGE-Bench's data on the Hugging Face Hub.
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
        # The usual names of the measures.
        "bleu": "answer_bleu",
        "rougeL": "answer_rougeL",
    }
)
"""The library's feature names by alias, such as a column name of MIRAGE-Bench's published data.

``citation_MAP`` and ``citation_Recall`` cover every cutoff ``@k``.
"""


def canonical_name(name: str) -> str:
    """Return this library's name of a feature, given an alias in :data:`ALIASES`.

    An alias is, for example, the name of a column in the published data of MIRAGE-Bench. Other
    names are returned unchanged.

    Example:
        >>> from mirage.features.registry import canonical_name
        >>> canonical_name("citation_MAP@10"), canonical_name("fluency_score")
        ('citation_map@10', 'fluency')
    """
    stem, at, cutoff = name.partition("@")
    return ALIASES.get(stem, stem) + at + cutoff


def needs(feature: str | Feature) -> tuple[Need, ...]:
    """Return the requirements of a feature, such as a reference or an LLM.

    Features in :data:`FOR_BOARDS` also require a language with a bundled leaderboard, because only
    these languages have word lists.
    """
    name = feature if isinstance(feature, str) else feature.name
    is_for_boards = not isinstance(feature, FunctionFeature) and name in FOR_BOARDS
    declared = facts(feature).needs
    return (*declared, "language with a board") if is_for_boards else declared


def _with_board(
    function: Callable[[Answered], float | NotComputed], item: Answered
) -> float | NotComputed:
    """Return the value of a feature that needs word lists, or a reason if the language has none."""
    return function(item) if Language.of(item.query.language).board else _NO_BOARD


def facts(feature: str | Feature, own: Mapping[str, Facts] = MappingProxyType({})) -> Facts:
    """Return the direction, range and requirements of a feature.

    The feature's own attribute ``facts`` comes first, then the library's definition for its name.
    Without either, the direction is unknown, the range is unlimited and there are no requirements.

    Args:
        feature: The feature or its name.
        own: Facts that user-defined features declared, by name, such as :attr:`FeatureTable.facts
            <mirage.FeatureTable.facts>`. They override the library's definitions.

    Raises:
        FeatureError: The feature's attribute ``facts`` is not a :class:`Facts`.

    Example:
        >>> from mirage.features import facts
        >>> facts("support_entailment").direction, facts("support_entailment").models
        ('higher', ('NLI model',))
    """
    declared = None if isinstance(feature, str) else getattr(feature, "facts", None)
    if isinstance(declared, Facts):
        return declared
    name = feature if isinstance(feature, str) else feature.name
    if name in own:
        return own[name]
    if declared is not None:
        raise FeatureError(
            f"the attribute 'facts' of feature {name!r} must be a mirage.features.Facts, got "
            f"{declared!r}"
        )
    stem = canonical_name(name).partition("@")[0]
    return DEFINITIONS[stem].facts if stem in DEFINITIONS else Facts()


# Cached so that a name always gives the same object: partial objects equal only themselves.
@lru_cache(maxsize=256)
def feature(name: str) -> Feature:
    """Return the feature with this name or alias, such as ``feature("citation_recall@5")``.

    Raises:
        UnknownNameError: No feature has this name; the message suggests the nearest names.
        FeatureError: The feature needs a model. The message gives the code to write instead and the
            extra to install.

    Example:
        >>> from mirage.features import feature
        >>> feature("citation_Recall@5")
        citation_recall@5
    """
    stem, at, cutoff = canonical_name(name).partition("@")
    entry = DEFINITIONS.get(stem)
    if entry is None or not re.fullmatch("@[1-9][0-9]{0,8}" if entry.cutoff else "", at + cutoff):
        raise UnknownNameError("feature", name, [entry.example for entry in DEFINITIONS.values()])
    if entry.facts.models:
        model, extra = MODELS[entry.facts.models[0]]
        install = f"; it needs: {install_command(extra)}" if extra else ""
        raise FeatureError(
            f"feature {name!r} needs a model, so its name alone is not enough: write "
            f"mirage.features.{entry.function.__name__}({model}) instead{install}"
        )
    function = partial(entry.function, k=int(cutoff)) if entry.cutoff else entry.function
    if entry.name in FOR_BOARDS:
        function = partial(_with_board, entry.function)
    return AnsweredFeature(stem + at + cutoff, function)
