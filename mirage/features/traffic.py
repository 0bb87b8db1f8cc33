"""What is asked, what is retrieved for it, and how often no answer comes: measures of a log.

They are no features of answers, and say of most of them nothing good or bad: that questions grow
longer is no fault of the system. Where answers are worse, they tell whether the questions are
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage.dataset import Cluster, MirageDataset, clusters_of
from mirage.features._content import content_words, held
from mirage.features.base import Facts, Need, NotComputed
from mirage.features.language import language_probabilities
from mirage.features.registry import OFFLINE
from mirage.features.suite import FeatureSuite
from mirage.features.table import FeatureTable
from mirage.models import Query, Response, Run
from mirage.statistics.clusters import cluster_names
from mirage.text import ABSTAINS_AT, ParsedResponse, abstains, parse, tokenize

__all__ = ["NEW_WORDS", "TRAFFIC", "Measured", "measured", "new_words", "traffic"]

LOGGED = (*OFFLINE, "support_lexical_all", "answer_length")
"""The features that a log is measured by, as far as it has what they need."""

TRAFFIC: Mapping[str, Facts] = MappingProxyType(
    {
        "failed": Facts("lower", 0, 1),
        "empty_answer": Facts("lower", 0, 1),
        "abstains": Facts("none", 0, 1),
        "cites": Facts("none", 0, 1),
        "question_carried": Facts("higher", 0, 1),
        "passages_shown": Facts("none", 0),
        "question_length": Facts("none", 0),
        "other_language": Facts("none", 0, 1),
    }
)
"""The columns of :func:`traffic`."""

NEW_WORDS: Mapping[str, Facts] = MappingProxyType({"new_words": Facts("none", 0, 1)})
"""The column of :func:`new_words`."""

_UNTOLD = NotComputed("the log does not say which passages were shown")
_NO_WORDS = NotComputed("the question has no words")
_NO_LANGUAGE = NotComputed("the question leaves its language open")


class Measured(NamedTuple):
    """What a log says without gold.

    Attributes:
        table: features and measures of :func:`traffic`, a row a question.
        unmet: the features that cannot be measured, and what each lacks.
    """

    table: FeatureTable
    unmet: Mapping[str, tuple[Need, ...]]


def measured(
    dataset: MirageDataset,
    run: Run,
    suite: FeatureSuite | None = None,
    *,
    cluster: Cluster = None,
    n_jobs: int = 1,
    progress: bool = True,
) -> Measured:
    """What can be measured of questions and answers as they come, and what cannot.

    Args:
        dataset: the questions; :func:`mirage.sources.logs.read` makes one of a log.
        run: the answers.
        suite: the features; by default those of :meth:`mirage.FeatureSuite.offline`,
            ``support_lexical_all`` and ``answer_length``.
        cluster: what questions hang together by, where :attr:`mirage.Query.cluster` does not say.
        n_jobs: processes that compute features, as in joblib.
        progress: show a progress bar.

    Raises:
        FeatureError: no feature can be computed, or one fails.
        UnknownNameError: no query has such a key of metadata.
    """
    suite = suite or FeatureSuite(LOGGED, dataset.language)
    features = suite.applicable(dataset).score(
        dataset, run, cluster=cluster, n_jobs=n_jobs, progress=progress
    )
    rates = traffic(dataset, run, cluster=cluster)
    table = FeatureTable(
        run.model,
        dataset.language,
        dataset.query_ids,
        (*features.features, *rates.features),
        np.hstack([features.values, rates.values]),
        {**features.reasons, **rates.reasons},
        {**features.facts, **rates.facts},
        features.clusters,
    )
    return Measured(table, suite.unmet(dataset))


def traffic(dataset: MirageDataset, run: Run, *, cluster: Cluster = None) -> FeatureTable:
    """What was asked, what was retrieved and how often no answer came; a row a question.

    ``failed``: 1 where no answer came, else 0. ``empty_answer``: 1 where it is empty. ``abstains``:
    1 where :func:`mirage.text.abstains` takes it for an abstention; nobody knows whether it should
    be one. ``cites``: 1 where it cites a passage that was shown; where none does,
    ``support_lexical`` and ``relevance_lexical`` are 0 for that. ``question_carried``: how far the
    passages that were shown hold the words of the question, a mean over its words that are no
    function words, by their letters, 0 where none was shown. ``passages_shown``: how many.
    ``question_length``: in words, or in characters where a script has no spaces.
    ``other_language``: about which share of the question is in another language than it should be,
    by :func:`~mirage.features.language.language_probabilities`. NaN, with the reason, where there
    is none.

    Args:
        dataset: the questions.
        run: the answers.
        cluster: what questions hang together by, where they do not say so themselves.

    Raises:
        UnknownNameError: no query has such a key of metadata.
    """
    values = np.full((len(dataset), len(TRAFFIC)), np.nan)
    reasons = {}
    for i, query in enumerate(dataset):
        for j, (name, value) in enumerate(_traffic(query, run.get(query.id)).items()):
            match value:
                case NotComputed(reason):
                    reasons[query.id, name] = reason
                case number:
                    values[i, j] = number
    return FeatureTable(
        run.model,
        dataset.language,
        dataset.query_ids,
        tuple(TRAFFIC),
        values,
        reasons,
        TRAFFIC,
        clusters_of(dataset, cluster),
    )


def _traffic(query: Query, response: Response | None) -> Mapping[str, float | NotComputed]:
    """The values of one question, in the order of :data:`TRAFFIC`."""
    shown = None if response is None else _shown(query, response)
    parsed = _parsed(query, response)
    said: Mapping[str, float | NotComputed]
    if isinstance(parsed, NotComputed):
        said = dict.fromkeys(("empty_answer", "abstains", "cites"), parsed)
    else:
        said = {
            "empty_answer": float(not parsed.answer_text.strip()),
            "abstains": _abstains(query, parsed.answer_text),
            "cites": _UNTOLD if shown is None else float(bool(parsed.citations)),
        }
    return {
        "failed": float(isinstance(parsed, NotComputed)),
        **said,
        "question_carried": _UNTOLD if shown is None else _carried(query, shown),
        "passages_shown": _UNTOLD if shown is None else float(len(shown)),
        "question_length": float(len(tokenize(query.text, query.language))),
        "other_language": _other_language(query),
    }


def _shown(query: Query, response: Response) -> tuple[str, ...] | None:
    """The texts of the passages that were shown, ``None`` where nothing says which."""
    if response.shown is None and not query.passages:
        return None
    return tuple(passage.titled_text for passage in query.passages_shown_to(response))


def _parsed(query: Query, response: Response | None) -> ParsedResponse | NotComputed:
    if response is None:
        return NotComputed("no response to this query")
    if response.text is None:
        return NotComputed(f"the model failed: {response.error}")
    shown, titles = query.shown_to(response), query.titles_shown_to(response)
    return parse(response.text, query.language, shown, titles=titles)


def _abstains(query: Query, answer: str) -> float:
    return float(abstains(answer, query.language, question=query.text) >= ABSTAINS_AT)


def _carried(query: Query, shown: tuple[str, ...]) -> float | NotComputed:
    words = content_words(query.text, query.language)
    if not words:
        return _NO_WORDS
    best = [
        max((held(word, text, query.language) for text in shown), default=0.0) for word in words
    ]
    return float(np.average(best, weights=[len(word) for word in words]))


def _other_language(query: Query) -> float | NotComputed:
    shares = language_probabilities(query.text, query.language)
    return 1 - shares.get(query.language, 0.0) if shares else _NO_LANGUAGE


def new_words(
    before: MirageDataset,
    after: MirageDataset,
    before_clusters: Mapping[str, str],
    after_clusters: Mapping[str, str],
) -> tuple[Floats, Floats]:
    """The share of a question's words that earlier questions do not have; new topics have more.

    Words are those that are no function words. Every other earlier cluster is set apart: all other
    questions, earlier and later, are compared with these, so that they have the same distribution
    where nothing changed, and hang together by nothing but their clusters.

    Args:
        before: the earlier questions.
        after: the later ones.
        before_clusters: by query id, what an earlier question hangs together with; one that is not
            there is by itself.
        after_clusters: the same of the later ones: what is in a cluster that was set apart has no
            value.

    Returns:
        The values of the earlier questions, NaN of those set apart, and of the later ones.
    """
    names = cluster_names(before.query_ids, before_clusters)
    apart = set(list(dict.fromkeys(names))[::2])
    known = frozenset().union(
        *(_words(query) for query, name in zip(before, names, strict=True) if name in apart)
    )
    later = cluster_names(after.query_ids, after_clusters)
    earlier_values = [
        float("nan") if name in apart else _share_new(query, known)
        for query, name in zip(before, names, strict=True)
    ]
    later_values = [
        float("nan") if name in apart and name.startswith("cluster ") else _share_new(query, known)
        for query, name in zip(after, later, strict=True)
    ]
    return np.array(earlier_values), np.array(later_values)


def _words(query: Query) -> frozenset[str]:
    return frozenset(content_words(query.text, query.language))


def _share_new(query: Query, known: frozenset[str]) -> float:
    own = _words(query)
    return len(own - known) / len(own) if own else float("nan")
