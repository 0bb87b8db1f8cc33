"""Agreement between annotators: Gwet's AC1, Fleiss' kappa, Krippendorff's alpha, with intervals.

MEMERAG (arXiv 2502.17163, Table 2) reports both AC1 and kappa; :mod:`mirage.statistics.agreement`
explains how they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mirage._base.tables import Rows, Table, frame_of, to_text
from mirage.dataset import Cluster
from mirage.errors import JudgmentError
from mirage.metaeval.gold import clusters_of_sentences
from mirage.metaeval.labels import LabelledSentences
from mirage.statistics.agreement import Sums, ac1_of, alpha_of, fleiss_of, terms
from mirage.statistics.bootstrap import Interval, bootstrap

if TYPE_CHECKING:
    import pandas as pd


class LanguageAgreement(NamedTuple):
    """The agreement of the annotators of one language.

    Attributes:
        language: The language code.
        sentences: The number of sentences with at least two labels.
        queries: The number of queries that these sentences answer.
        agreement: For each sentence, the share of pairs of its annotators that gave it the same
            label; averaged over sentences.
        gwet_ac1: Gwet's AC1. Labels that never occur in the language do not count as possible
            labels.
        fleiss_kappa: Fleiss' kappa; NaN if all labels are the same.
        krippendorff_alpha: Krippendorff's alpha; NaN if all labels are the same.
        gwet_ac1_interval: The two ends of the confidence interval of AC1, from a bootstrap over
            clusters of queries. By default each query is a cluster. The interval is NaN with fewer
            than 14 clusters, or if AC1 is undefined for some bootstrap sample, or equal for all of
            them.
        fleiss_kappa_interval: The bootstrap interval of Fleiss' kappa; NaN under the same
            conditions.
        krippendorff_alpha_interval: The bootstrap interval of Krippendorff's alpha; NaN under the
            same conditions.
    """

    language: str
    sentences: int
    queries: int
    agreement: float
    gwet_ac1: float
    fleiss_kappa: float
    krippendorff_alpha: float
    gwet_ac1_interval: Interval
    fleiss_kappa_interval: Interval
    krippendorff_alpha_interval: Interval


@dataclass(frozen=True, eq=False)
class AnnotatorAgreement(Rows[LanguageAgreement]):
    """The agreement of annotators, one row per language; can be iterated, and prints as a table.

    Attributes:
        level: The confidence level of the intervals.
        source: The name of the labelled sentences in tables.
    """

    level: float
    source: str

    def __getitem__(self, language: str) -> LanguageAgreement:
        for row in self:
            if row.language == language:
                return row
        raise JudgmentError(
            f"{self.source}: no sentence in {language!r} has labels from annotators"
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per language.

        An interval becomes two columns that end in ``_lower`` and ``_upper``.
        """
        rows = []
        for row in self:
            fields = row._asdict()
            for name in ("gwet_ac1", "fleiss_kappa", "krippendorff_alpha"):
                fields[f"{name}_lower"], fields[f"{name}_upper"] = fields.pop(f"{name}_interval")
            rows.append(fields)
        return frame_of(rows)

    def __str__(self) -> str:
        header = ("", "sentences", "same", "AC1", "", "kappa", "", "alpha", "")
        rows = tuple(
            (
                row.language,
                str(row.sentences),
                f"{100 * row.agreement:.1f}%",
                *_cells(row.gwet_ac1, row.gwet_ac1_interval),
                *_cells(row.fleiss_kappa, row.fleiss_kappa_interval),
                *_cells(row.krippendorff_alpha, row.krippendorff_alpha_interval),
            )
            for row in self
        )
        title = f"Agreement of annotators on {self.source}"
        notes = (
            "Gwet's AC1, Fleiss' kappa, Krippendorff's alpha, each with its "
            f"{100 * self.level:g} % interval",
        )
        return to_text(Table(title, header, rows, notes=notes, name=0))


def _cells(value: float, interval: Interval) -> tuple[str, str]:
    return f"{value:.3f}", "" if np.isnan(interval[0]) else "{:.2f}-{:.2f}".format(*interval)


def annotator_agreement(
    labelled: LabelledSentences,
    *,
    fine: bool = False,
    cluster: Cluster = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> AnnotatorAgreement:
    """Measure the agreement of annotators on sentences, for each language.

    Undecided labels ("Challenging to determine") count like other labels here, because annotators
    may agree that a sentence cannot be decided.

    Args:
        labelled: Sentences with several labels, one per annotator. The annotators and their number
            may differ between sentences.
        fine: Whether to measure the agreement on the fine-grained labels instead of the labels.
        cluster: The clusters of queries that are not independent, such as queries about one
            document. The default is :attr:`Query.cluster <mirage.Query>`. Otherwise pass a key of
            the queries' metadata, a function of a query, or a mapping from query id.
        draws: The number of bootstrap samples behind each interval.
        level: The confidence level of the intervals.
        seed: Random seed.

    Returns:
        The agreement, with one row per language.

    Raises:
        JudgmentError: A language has no sentence with labels from two annotators.
    """
    columns = labelled.fine if fine else labelled.labels
    rows, clusters = [], clusters_of_sentences(labelled, cluster).tolist()
    for code in labelled.languages:
        sentences = [
            (sentence.query.id, group, [label for label in labels if label])
            for sentence, group, labels in zip(labelled.sentences, clusters, columns, strict=True)
            if sentence.query.language == code
        ]
        if not any(len(labels) > 1 for *_, labels in sentences):
            raise JudgmentError(
                f"{labelled.source}: no sentence in {code!r} has labels from two annotators, so "
                "agreement cannot be measured; have a second annotator label some sentences"
            )
        rows.append(_language_agreement(code, sentences, draws, level, seed))
    kind = "fine-grained labels" if fine else "labels"
    return AnnotatorAgreement(tuple(rows), level, f"{labelled.source}, {kind}")


def _language_agreement(
    code: str,
    sentences: Sequence[tuple[str, int, Sequence[str]]],
    draws: int,
    level: float,
    seed: int,
) -> LanguageAgreement:
    names = sorted({label for *_, labels in sentences for label in labels})
    counts = np.array([[labels.count(name) for name in names] for *_, labels in sentences])
    query = np.unique([query_id for query_id, *_ in sentences], return_inverse=True)[1]
    cluster = np.array([group for _, group, _ in sentences])
    values = terms(counts)
    coefficients, intervals = zip(
        *(
            bootstrap(cluster, values, coefficient, draws=draws, level=level, seed=seed)
            for coefficient in (ac1_of, fleiss_of, alpha_of)
        ),
        strict=True,
    )
    several = counts.sum(axis=1) > 1
    # The bootstrap resamples clusters, but the result reports queries.
    queries = len(np.unique(query[several]))
    agreement = float(Sums.of(values.sum(axis=0)).agreement)
    return LanguageAgreement(
        code, int(np.count_nonzero(several)), queries, agreement, *coefficients, *intervals
    )
