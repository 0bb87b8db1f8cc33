"""Ground truth as arrays, with one element per sentence that has exactly one label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Bools, Ints
from mirage.dataset import Cluster, clusters_of
from mirage.errors import JudgmentError, UnknownNameError
from mirage.metaeval.labels import LabelledSentences

MEAN = "mean"
"""Used in place of a language code for the mean over all languages, with equal weights."""


def clusters_of_sentences(labelled: LabelledSentences, cluster: Cluster) -> Ints:
    """Return, for each sentence, an integer that identifies its cluster.

    A cluster is a group of queries that are not independent. A query without a cluster is a cluster
    by itself. The integers are in the order of the sorted cluster names.

    Args:
        labelled: The sentences.
        cluster: The clusters: a key of the queries' metadata, a function of a query, or a mapping
            from query id. The default is :attr:`Query.cluster <mirage.Query>`.
    """
    queries = [sentence.query for sentence in labelled]
    if isinstance(cluster, Mapping):  # one mapping for all languages
        by_id = cluster
        return clusters_of_sentences(labelled, lambda query: by_id.get(query.id))
    names: list[tuple[str, str]] = []
    clusters_by_language = {
        code: clusters_of((query for query in queries if query.language == code), cluster)
        for code in labelled.languages
    }
    for query in queries:
        name = clusters_by_language[query.language].get(query.id)
        names.append((query.language, query.id) if name is None else ("", name))
    codes = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([codes[name] for name in names])


@dataclass(frozen=True, eq=False)
class Truth:
    """Sentences with one label each, as arrays with one element per sentence.

    Attributes:
        labelled: The sentences and their labels.
        language: The index of each sentence's language in ``languages``.
        query: An integer that identifies each sentence's query. Queries in different languages have
            different integers, even if they have the same id.
        cluster: An integer that identifies each sentence's cluster of dependent queries; a query
            without a cluster is a cluster by itself. Languages may share clusters.
        label: The index of each sentence's label in ``names``.
        left_out: The number of sentences that were left out for each reason, such as an undecided
            label.
    """

    labelled: LabelledSentences
    language: Ints
    query: Ints
    cluster: Ints
    label: Ints
    left_out: Mapping[str, int]

    @classmethod
    def of(cls, labelled: LabelledSentences, cluster: Cluster = None) -> Truth:
        """Select the sentences that have a decided majority label.

        Args:
            labelled: The sentences and their labels; see :meth:`LabelledSentences.decided`.
            cluster: The clusters of queries: a key of the queries' metadata, a function of a query,
                or a mapping from query id. The default is :attr:`Query.cluster <mirage.Query>`.

        Raises:
            DatasetError: No sentence is left.
            JudgmentError: All sentences of a language have the same label.
        """
        decided, left_out = labelled.decided()
        queries = [(sentence.query.language, sentence.query.id) for sentence in decided]
        # Sorted, so that random draws by these numbers do not depend on the order of the rows.
        codes_by_query = {query: number for number, query in enumerate(sorted(set(queries)))}
        codes = sorted(decided.languages)
        truth = cls(
            decided,
            np.array([codes.index(language) for language, _ in queries]),
            np.array([codes_by_query[query] for query in queries]),
            clusters_of_sentences(decided, cluster),
            np.array([decided.names.index(label) for (label,) in decided.labels]),
            left_out,
        )
        for code in truth.languages:
            labels = np.unique(truth.label[truth.rows(code)])
            if len(labels) == 1:
                raise JudgmentError(
                    f"{labelled.source}: all sentences in {code!r} have the label "
                    f"{truth.names[labels[0]]!r}; balanced accuracy needs at least two labels in "
                    "every language"
                )
        return truth

    def __len__(self) -> int:
        return len(self.label)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages, sorted."""
        return tuple(sorted(self.labelled.languages))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the labels, sorted."""
        return self.labelled.names

    def rows(self, language: str) -> Bools:
        """Return a mask of the sentences in a language, or of all of them for :data:`MEAN`."""
        if language == MEAN:
            return np.ones(len(self), dtype=bool)
        if language not in self.languages:
            raise UnknownNameError("language", language, (*self.languages, MEAN))
        return np.asarray(self.language == self.languages.index(language))

    def positive(self, name: str) -> Bools:
        """Return a mask of the sentences with the positive label.

        ``name`` is the name of the score that needs the mask, for error messages.
        """
        positive = self.labelled.positive
        if len(self.names) != 2 or positive not in self.names:
            raise JudgmentError(
                f"score {name!r} needs exactly two labels, one of them the positive label; here "
                f"the labels are {', '.join(map(repr, self.names))}, and the positive label is "
                f"{positive!r}: set another positive label, or merge labels with "
                "LabelledSentences.merged"
            )
        return np.asarray(self.label == self.names.index(positive))
