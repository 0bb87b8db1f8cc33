"""Measures of production logs: the questions, their retrieved passages, and missing answers.

These measures do not rate answers, and most of them are neither good nor bad: longer questions, for
example, are not the system's fault. If answers get worse, the measures show whether the questions
have changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage.dataset import MirageDataset, clusters_of
from mirage.features.abstention import has_abstained
from mirage.features.base import Need, NotComputed, answered
from mirage.features.language import language_probabilities
from mirage.features.log_measures import NEW_WORDS, TRAFFIC
from mirage.features.registry import OFFLINE
from mirage.features.suite import FeatureSuite
from mirage.features.table import FeatureTable
from mirage.models import Query, Response, Run
from mirage.statistics.clusters import cluster_names
from mirage.text import tokenize
from mirage.text.content import best_matches, content_words

__all__ = ["NEW_WORDS", "TRAFFIC", "measure_log", "new_words", "traffic"]

LOG_FEATURES = (*OFFLINE, "support_lexical_all", "answer_length")
"""The features that are measured on a log, if the log contains the data that they need."""

_NO_PASSAGES = NotComputed("the log does not list the passages that were shown")
_NO_WORDS = NotComputed("the question has no words")
_NO_LANGUAGE = NotComputed("the language of the question cannot be identified")


class LogMeasures(NamedTuple):
    """The values that can be measured on a log without ground truth.

    Attributes:
        table: The features and the measures of :func:`traffic`, with one row per question.
        unmet: The features that cannot be measured, each with the data that it lacks.
    """

    table: FeatureTable
    unmet: Mapping[str, tuple[Need, ...]]


def measure_log(
    dataset: MirageDataset,
    run: Run,
    suite: FeatureSuite | None = None,
    *,
    recurring: Collection[str] | None = None,
    n_jobs: int = 1,
    progress: bool = True,
) -> LogMeasures:
    """Compute the measures of :func:`traffic` and all features for which a log has the data.

    Args:
        dataset: The questions; :func:`mirage.monitoring.logs.read` makes one from a log.
        run: The answers.
        suite: The features; by default those of :meth:`mirage.FeatureSuite.default`,
            ``support_lexical_all`` and ``answer_length``.
        recurring: Sentences that are not scored; see :meth:`mirage.FeatureSuite.score`.
        n_jobs: Number of processes that compute features, as in joblib.
        progress: Whether to show a progress bar.

    Raises:
        FeatureError: No feature can be computed, or one fails.
    """
    suite = suite or FeatureSuite(LOG_FEATURES, dataset.language)
    features = suite.applicable(dataset).score(
        dataset, run, recurring=recurring, n_jobs=n_jobs, progress=progress
    )
    rates = traffic(dataset, run)
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
    return LogMeasures(table, suite.unmet(dataset))


def traffic(dataset: MirageDataset, run: Run) -> FeatureTable:
    """Measure the questions, shown passages and missing answers of a log.

    The columns of the returned table, which has one row per question, are:

    - ``failed``: 1 if there is no answer, else 0.
    - ``empty_answer``: 1 if the answer is empty, else 0.
    - ``abstains``: 1 if the answer abstains, else 0; see
      :func:`~mirage.features.abstention.has_abstained`. The log does not show whether the system
      should abstain.
    - ``cites``: 1 if the answer cites a shown passage, else 0. If it cites none,
      ``support_lexical`` and ``relevance_lexical`` are 0 for this reason.
    - ``question_carried``: how well the shown passages match the question's content words, from 0
      to 1. It is a mean over the words, weighted by word length, and 0 if no passage was shown.
    - ``passages_shown``: number of shown passages.
    - ``question_length``: number of words, or of characters if the script has no spaces.
    - ``other_language``: the share of the question that is in another language than expected, by
      :func:`~mirage.features.language.language_probabilities`.

    Missing values are NaN; the table also contains the reasons.

    Args:
        dataset: The questions.
        run: The answers.

    Example:
        >>> from mirage import MirageDataset, Query, Response, Run
        >>> from mirage.monitoring.traffic import traffic
        >>> query = Query(id="q1", language="en", text="When did the bridge open?")
        >>> response = Response(query_id="q1", text="I do not know.")
        >>> run = Run(model="model", language="en", responses=[response])
        >>> table = traffic(MirageDataset([query]), run)
        >>> table["abstains"].tolist(), table["question_length"].tolist()
        ([1.0], [5.0])
    """
    values = np.full((len(dataset), len(TRAFFIC)), np.nan)
    reasons = {}
    for i, query in enumerate(dataset):
        for j, (name, value) in enumerate(question_measures(query, run.get(query.id)).items()):
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
        clusters_of(dataset),
    )


def question_measures(query: Query, response: Response | None) -> Mapping[str, float | NotComputed]:
    """Return the measures of one question by name, in the order of :data:`TRAFFIC`.

    ``response`` is ``None`` if the run has no response to the question.
    """
    texts = None if response is None else _shown_texts(query, response)
    return {
        **_answer_measures(query, response, texts),
        "question_carried": _NO_PASSAGES if texts is None else _question_match(query, texts),
        "passages_shown": _NO_PASSAGES if texts is None else float(len(texts)),
        "question_length": float(len(tokenize(query.text, query.language))),
        "other_language": _other_language_share(query),
    }


def _answer_measures(
    query: Query, response: Response | None, texts: tuple[str, ...] | None
) -> Mapping[str, float | NotComputed]:
    """Return the measures of an answer; ``texts`` are the texts of the shown passages."""
    if response is None or response.text is None:
        reason = "no response to this query"
        if response is not None:
            reason = f"the model failed: {response.error}"
        missing = NotComputed(reason)
        return {"failed": 1.0, "empty_answer": missing, "abstains": missing, "cites": missing}
    item = answered(query, response)
    return {
        "failed": 0.0,
        "empty_answer": float(not item.parsed.answer_text.strip()),
        "abstains": float(has_abstained(item)),
        "cites": _NO_PASSAGES if texts is None else float(bool(item.parsed.citations)),
    }


def _shown_texts(query: Query, response: Response) -> tuple[str, ...] | None:
    """Return the texts of the shown passages, or ``None`` if they are unknown."""
    if response.shown is None and not query.passages:
        return None
    return tuple(passage.titled_text for passage in query.passages_shown_to(response))


def _question_match(query: Query, texts: tuple[str, ...]) -> float | NotComputed:
    """Return how well the shown texts match the words of the question, from 0 to 1."""
    words = content_words(query.text, query.language)
    if not words:
        return _NO_WORDS
    matches = [best_matches(words, text, query.language) for text in texts]
    best = np.array(matches).max(axis=0) if texts else np.zeros(len(words))
    return float(np.average(best, weights=[len(word) for word in words]))


def _other_language_share(query: Query) -> float | NotComputed:
    shares = language_probabilities(query.text, query.language)
    return 1 - shares.get(query.language, 0.0) if shares else _NO_LANGUAGE


def new_words(
    before: MirageDataset,
    after: MirageDataset,
    before_clusters: Mapping[str, str],
    after_clusters: Mapping[str, str],
) -> tuple[Floats, Floats]:
    """Return, for each question, the share of its content words that earlier questions lack.

    Questions on new topics have larger shares. Every second cluster of earlier questions is set
    aside as a reference. The value of each other question, earlier or later, is the share of its
    words that do not occur in the reference. So the values of the earlier and the later questions
    have the same distribution if nothing changed, and they depend on each other only through the
    clusters.

    Args:
        before: The earlier questions.
        after: The later questions.
        before_clusters: The cluster of each earlier question, by query id. A question without an
            entry is a cluster by itself.
        after_clusters: The cluster of each later question, in the same form. A question in a
            cluster that was set aside has no value.

    Returns:
        The values of the earlier questions, NaN for those set aside, and the values of the later
        questions.
    """
    earlier_names = cluster_names(before.query_ids, before_clusters)
    reference_clusters = set(list(dict.fromkeys(earlier_names))[::2])
    reference_words = frozenset().union(
        *(
            _content_word_set(query)
            for query, name in zip(before, earlier_names, strict=True)
            if name in reference_clusters
        )
    )
    later_names = cluster_names(after.query_ids, after_clusters)
    earlier_values = [
        float("nan") if name in reference_clusters else _new_word_share(query, reference_words)
        for query, name in zip(before, earlier_names, strict=True)
    ]
    # A later query that is a cluster by itself may have the same name as an earlier one.
    later_values = [
        float("nan")
        if name in reference_clusters and name.startswith("cluster ")
        else _new_word_share(query, reference_words)
        for query, name in zip(after, later_names, strict=True)
    ]
    return np.array(earlier_values), np.array(later_values)


def _content_word_set(query: Query) -> frozenset[str]:
    return frozenset(content_words(query.text, query.language))


def _new_word_share(query: Query, reference_words: frozenset[str]) -> float:
    words = _content_word_set(query)
    return len(words - reference_words) / len(words) if words else float("nan")
