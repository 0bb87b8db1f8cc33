"""What judges are measured against, as columns: a row a sentence that has one label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Bools, Ints
from mirage.dataset import Cluster, clusters_of
from mirage.errors import JudgmentError, UnknownNameError
from mirage.metaeval.labels import LabelledSentences

__all__ = ["MEAN", "Truth", "clusters_of_sentences"]

MEAN = "mean"
"""In the place of a language: the mean of all languages, each of the same weight."""


def clusters_of_sentences(labelled: LabelledSentences, cluster: Cluster) -> Ints:
    """What the query of each sentence hangs together by, counted in the order of the names."""
    queries = [sentence.query for sentence in labelled]
    if isinstance(cluster, Mapping):  # of all languages together
        by_id = cluster
        return clusters_of_sentences(labelled, lambda query: by_id.get(query.id))
    names: list[tuple[str, str]] = []
    named = {
        code: clusters_of((query for query in queries if query.language == code), cluster)
        for code in labelled.languages
    }
    for query in queries:
        own = named[query.language].get(query.id)
        names.append((query.language, query.id) if own is None else ("", own))
    place = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([place[name] for name in names])


@dataclass(frozen=True, eq=False)
class Truth:
    """Sentences with one label each.

    ``language``, ``query``, ``cluster`` and ``label`` index into the languages, the queries (those
    of two languages are never the same), what queries hang together by (a query by itself is one;
    languages may share them) and the label names. ``left_out`` counts the sentences without such a
    label, by the reason.
    """

    labelled: LabelledSentences
    language: Ints
    query: Ints
    cluster: Ints
    label: Ints
    left_out: Mapping[str, int]

    @classmethod
    def of(cls, labelled: LabelledSentences, cluster: Cluster = None) -> Truth:
        """The columns of labelled sentences; its errors are those of :func:`evaluate`."""
        decided, left_out = labelled.decided()
        queries = [(sentence.query.language, sentence.query.id) for sentence in decided]
        # Sorted, so that what is drawn by these numbers does not depend on the order of the rows.
        place = {query: number for number, query in enumerate(sorted(set(queries)))}
        codes = sorted(decided.languages)
        truth = cls(
            decided,
            np.array([codes.index(language) for language, _ in queries]),
            np.array([place[query] for query in queries]),
            clusters_of_sentences(decided, cluster),
            np.array([decided.names.index(label) for (label,) in decided.labels]),
            left_out,
        )
        for code in truth.languages:
            labels = np.unique(truth.label[truth.rows(code)])
            if len(labels) == 1:
                raise JudgmentError(
                    f"{labelled.source}: all sentences in {code!r} are labelled "
                    f"{truth.names[labels[0]]!r}; balanced accuracy takes two labels or more in "
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

    @property
    def shares_clusters(self) -> bool:
        """Whether something hangs together across languages."""
        pairs = np.unique(np.stack([self.cluster, self.language]), axis=1)
        return bool(pairs.shape[1] > len(np.unique(self.cluster)))

    def rows(self, language: str) -> Bools:
        """Which sentences are in a language, if there are any; all of them for :data:`MEAN`."""
        if language == MEAN:
            return np.ones(len(self), dtype=bool)
        if language not in self.languages:
            raise UnknownNameError("language of these labels", language, (*self.languages, MEAN))
        return np.asarray(self.language == self.languages.index(language))

    def positive(self, name: str) -> Bools:
        """Which of two labels is the positive one in each sentence, for the score of this name."""
        positive = self.labelled.positive
        if len(self.names) != 2 or positive not in self.names:
            raise JudgmentError(
                f"score {name!r} can tell two labels apart, and the positive one has to be known; "
                f"here the labels are {', '.join(map(repr, self.names))}, and the positive one is "
                f"{positive!r}: name another, or make two labels of them with `merged`"
            )
        return np.asarray(self.label == self.names.index(positive))
