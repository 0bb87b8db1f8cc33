"""The features that the gate compares, and the differences that it attributes to wording.

The gate is the test of :func:`~mirage.testing.assert_no_regression`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite
from mirage.features.base import GIVEN, Need
from mirage.testing._evidence import COVERED


class Gated(NamedTuple):
    """A feature that the regression test compares, and the differences that the test ignores.

    Attributes:
        name: Name of the feature.
        wording: A difference up to this value on one query is ignored, because another wording
            can cause it.
        style: The largest loss that is attributed to a change of style. Most answers share such a
            loss, so the median query's loss is subtracted from all losses, up to this limit.
        substitute_for: Kinds of gold data that make this feature unnecessary. The feature is
            compared only if each of them is available for fewer than half of the answerable
            queries.
        may_lack: Whether a good answer can lack a value of the feature. The query of such an answer
            is not lost, but the verdict ``no worse`` then needs more queries.
    """

    name: str
    wording: float = 0.0
    style: float = 0.0
    substitute_for: tuple[Need, ...] = ()
    may_lack: bool = False


GATED: Mapping[str, Gated] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            # The language of a short answer is less certain than that of a long one.
            Gated("target_language", wording=0.2, may_lack=True),
            # If two passages state the same fact, citing one of them is enough.
            Gated("citation_recall@10", wording=0.5),
            Gated("citation_map@10"),
            # Quotations score higher than paraphrases, and terse answers higher than long ones.
            # A heading or a signature in a few answers changes the value by less than 0.1.
            Gated("support_lexical", wording=0.1, style=0.5),
            Gated("answer_match"),
            Gated("wrong_answer"),
            Gated("fact_agreement", style=0.2, substitute_for=("answers",)),
            Gated("fact_precision", style=0.2, substitute_for=("answers",)),
            # True answers may share few words with a reference, but rarely lose all of them.
            Gated("reference_recall", style=1.0, substitute_for=("answers", "relevant passages")),
            Gated("unknown_facts", style=0.2),
            Gated("abstention"),
            Gated("invention"),
        )
    }
)
"""The features that :func:`~mirage.testing.assert_no_regression` compares by default, in order.

They measure language, citations, support, facts and abstention. Features of wording, such as
``answer_bleu``, are compared only on request. A feature is left out if the dataset lacks the gold
data that it needs.
"""


def gated(dataset: MirageDataset) -> tuple[str, ...]:
    """Return the names of the features that the gate compares by default on these queries.

    The gate is the regression test. Features are left out if the queries have gold data that make
    them unnecessary (``Gated.substitute_for``).
    """
    answerable = [query for query in dataset if query.answerable is not False]
    common = {
        need
        for need in ("answers", "relevant passages")
        if sum(map(GIVEN[need], answerable)) >= max(COVERED * len(answerable), 1)
    }
    return tuple(entry.name for entry in GATED.values() if common.isdisjoint(entry.substitute_for))


def default_names(names: Iterable[str], dataset: MirageDataset) -> tuple[str, ...]:
    """Return the features of a baseline that are compared by default.

    These are the features of :func:`gated`, user-defined features, and features that need a model.
    If the baseline has none of them, all features are compared.
    """
    names, library_names = tuple(names), set(FeatureSuite.available())
    gate_names = set(gated(dataset))
    return tuple(name for name in names if name in gate_names or name not in library_names) or names


def more_than_wording(worsening: Floats, names: Iterable[str]) -> Floats:
    """Return how much worse each value got, ignoring what wording or style can explain.

    A change of style affects most queries alike. The median worsening over the queries, at most
    ``Gated.style``, is therefore attributed to style and subtracted. Then a remaining change of at
    most ``Gated.wording``, for better or worse, is attributed to wording and counts as 0. The
    second rule applies to each pair of responses, so it does not depend on the number of repeats.

    Args:
        worsening: How much worse the later response is than the earlier one, of shape ``(pairs of
            responses, queries, features)``; NaN if a value is missing.
        names: Names of the features.

    Returns:
        Means over the pairs of responses, of shape ``(queries, features)``.
    """
    names = tuple(names)
    means = mean_of_pairs(worsening)
    allowances = np.zeros(len(names))
    for j, entry in enumerate(map(GATED.get, names)):
        if entry is not None and entry.style and not np.isnan(means[:, j]).all():
            # Subtract style before wording. Otherwise a loss that most answers share would be
            # ignored in some of them and counted in the others.
            allowances[j] = np.clip(np.nanmedian(means[:, j]), 0.0, entry.style)
    return beyond_wording(worsening - allowances, names)


def beyond_wording(worsening: Floats, names: Iterable[str]) -> Floats:
    """Return how much worse each value got, ignoring what wording can explain.

    A change of at most ``Gated.wording`` between two responses, for better or worse, counts as 0.
    Unlike :func:`more_than_wording`, this function does not subtract what style can explain.

    Args:
        worsening: How much worse the later response is than the earlier one, of shape ``(pairs of
            responses, queries, features)``; NaN if a value is missing.
        names: Names of the features.

    Returns:
        Means over the pairs of responses, of shape ``(queries, features)``.
    """
    entries = [GATED.get(name) for name in names]
    wording = np.array([0.0 if entry is None else entry.wording for entry in entries])
    return mean_of_pairs(np.where(np.abs(worsening) <= wording + 1e-9, worsening * 0.0, worsening))


def mean_of_pairs(values: Floats) -> Floats:
    """Return the means along the first axis, ignoring NaN; NaN if there is no value."""
    is_value = ~np.isnan(values)
    counts = is_value.sum(axis=0)
    totals = np.where(is_value, values, 0.0).sum(axis=0)
    means: Floats = np.full_like(totals, np.nan)
    np.divide(totals, counts, out=means, where=counts > 0)
    return means
