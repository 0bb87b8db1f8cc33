"""How far annotators agree: Gwet's AC1, Fleiss' kappa, Krippendorff's alpha, with intervals.

All three are ``(po - pe) / (1 - pe)``, the agreement beyond chance as a share of what there could
be; they differ in the agreement ``pe`` that they expect by chance. 1 is full agreement, 0 what
chance gives. Labels have no order. Where one label is far more frequent than the others, kappa and
alpha are low although annotators hardly ever differ, which is why MEMERAG (arXiv 2502.17163, Table
2) reports AC1 beside kappa.

Sources: Gwet (2008), Computing inter-rater reliability and its variance in the presence of high
agreement, British Journal of Mathematical and Statistical Psychology 61, 29-48. Gwet (2014),
Handbook of Inter-Rater Reliability, 4th edition, chapter 5, for sentences with different numbers of
labels. Fleiss (1971), Psychological Bulletin 76, 378-382. Krippendorff (2019), Content Analysis,
4th edition, chapter 12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Floats
from mirage._base.tables import Table, to_text
from mirage.errors import JudgmentError, needing
from mirage.metaeval.labels import LabelledSentences
from mirage.statistics.bootstrap import Interval, bootstrap, ratio

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "AnnotatorAgreement",
    "LanguageAgreement",
    "annotator_agreement",
    "gwet_ac1",
    "krippendorff_alpha",
]


def gwet_ac1(counts: ArrayLike) -> float:
    """Gwet's (2008) AC1; chance is taken to be the less, the more unequal the labels' shares.

    ``pe`` is the mean over labels of ``share * (1 - share)``, times ``labels / (labels - 1)``.

    Args:
        counts: how many annotators gave a sentence a label, ``(sentences, labels)``. A label that
            nobody gave counts as one that could have been given. Sentences with one label say
            how frequent labels are, but nothing of agreement; those with none are ignored.

    Returns:
        AC1, NaN with one label only, and where no sentence has two.

    Raises:
        JudgmentError: the counts are not such a table.
    """
    return float(_ac1(_values(counts).sum(axis=0)))


def krippendorff_alpha(counts: ArrayLike) -> float:
    """Krippendorff's (2019) alpha for labels without order.

    1 minus the share of pairs of labels of one sentence that differ, over that of pairs of labels
    of any two sentences. Sentences with fewer than two labels are ignored.

    Args:
        counts: as :func:`gwet_ac1` takes them.

    Returns:
        Alpha, NaN where all give one and the same label, and where no sentence has two.

    Raises:
        JudgmentError: the counts are not such a table.
    """
    return float(_alpha(_values(counts).sum(axis=0)))


class LanguageAgreement(NamedTuple):
    """How far the annotators of one language agree.

    Attributes:
        language: its code.
        sentences: with two labels or more.
        queries: to which these are responses.
        agreement: share of the pairs of annotators that gave the same label, mean over sentences.
        gwet_ac1: with the labels that occur in the language.
        fleiss_kappa: NaN where all labels are the same.
        krippendorff_alpha: NaN where all labels are the same.
        gwet_ac1_interval: lower and upper, from draws of queries; NaN with one query, and where
            the value is not defined for a draw.
        fleiss_kappa_interval: likewise.
        krippendorff_alpha_interval: likewise.
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
class AnnotatorAgreement:
    """The agreement of annotators, a row a language; iterates over them, prints as a table."""

    rows: tuple[LanguageAgreement, ...]
    level: float
    source: str

    def __getitem__(self, language: str) -> LanguageAgreement:
        for row in self.rows:
            if row.language == language:
                return row
        raise JudgmentError(f"{self.source}: no labels of annotators in {language!r}")

    def __iter__(self) -> Iterator[LanguageAgreement]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self) -> pd.DataFrame:
        """A frame, a row a language; an interval is two columns, ``..._lower`` and ``_upper``."""
        with needing("pandas", "frames"):
            import pandas as pd
        return pd.DataFrame([dict(_flat(row)) for row in self.rows])

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
            for row in self.rows
        )
        title = f"Agreement of annotators on {self.source}"
        notes = (
            "Gwet's AC1, Fleiss' kappa, Krippendorff's alpha, each with its "
            f"{100 * self.level:g} % interval",
        )
        return to_text(Table(title, header, rows, (False,) * len(rows), notes, name=0))


def _flat(row: LanguageAgreement) -> Iterator[tuple[str, object]]:
    for name, value in row._asdict().items():
        if isinstance(value, tuple):
            stem = name.removesuffix("_interval")
            yield from zip((f"{stem}_lower", f"{stem}_upper"), value, strict=True)
        else:
            yield name, value


def _cells(value: float, interval: Interval) -> tuple[str, str]:
    return f"{value:.3f}", f"{interval[0]:.2f}-{interval[1]:.2f}"


def annotator_agreement(
    labelled: LabelledSentences,
    *,
    fine: bool = False,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> AnnotatorAgreement:
    """How far annotators agree on sentences, in each language.

    Undecided labels ("Challenging to determine") are labels like others here: annotators may agree
    that a sentence cannot be decided.

    Args:
        labelled: sentences with several labels, one an annotator; they need not be the same
            annotators throughout, nor the same number.
        fine: whether to compare fine-grained labels.
        draws: bootstrap draws, of queries, behind each interval.
        level: share of the draws that an interval holds.
        seed: of the draws.

    Raises:
        JudgmentError: in some language no sentence has labels of two annotators.
    """
    columns = labelled.fine if fine else labelled.labels
    rows = []
    for code in labelled.languages:
        chosen = [
            (sentence.query.id, [label for label in given if label])
            for sentence, given in zip(labelled.sentences, columns, strict=True)
            if sentence.query.language == code
        ]
        if not any(len(given) > 1 for _, given in chosen):
            raise JudgmentError(
                f"{labelled.source}: no sentence in {code!r} has labels of two annotators, so "
                "there is no agreement to measure"
            )
        rows.append(_of_language(code, chosen, draws, level, seed))
    kind = "fine-grained labels" if fine else "labels"
    return AnnotatorAgreement(tuple(rows), level, f"{labelled.source}, {kind}")


def _of_language(
    code: str, chosen: Sequence[tuple[str, Sequence[str]]], draws: int, level: float, seed: int
) -> LanguageAgreement:
    counts = _counts([given for _, given in chosen])
    query = np.unique([query_id for query_id, _ in chosen], return_inverse=True)[1]
    values = _values(counts)
    (ac1, ac1_interval), (kappa, kappa_interval), (alpha, alpha_interval) = (
        bootstrap(query, values, statistic, draws, level, seed)
        for statistic in (_ac1, _kappa, _alpha)
    )
    several = counts.sum(axis=1) > 1
    return LanguageAgreement(
        language=code,
        sentences=int(np.count_nonzero(several)),
        queries=len(np.unique(query[several])),
        agreement=float(_Sums.of(values.sum(axis=0)).agreement),
        gwet_ac1=ac1,
        fleiss_kappa=kappa,
        krippendorff_alpha=alpha,
        gwet_ac1_interval=ac1_interval,
        fleiss_kappa_interval=kappa_interval,
        krippendorff_alpha_interval=alpha_interval,
    )


def _counts(labels: Sequence[Sequence[str]]) -> Floats:
    names = sorted({label for given in labels for label in given})
    counted = [Counter(given) for given in labels]
    return np.array([[count[name] for name in names] for count in counted], dtype=np.float64)


# From sums over sentences, so that a draw of queries is a weighted sum ----------------------------


def _values(counts: ArrayLike) -> Floats:
    """What the coefficients sum over sentences, a row a sentence; :class:`_Sums` names them."""
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or not table.size or (table < 0).any():
        raise JudgmentError(
            f"counts are a table of sentences by labels, not of shape {table.shape}"
        )
    given = table.sum(axis=1, keepdims=True)
    several = given > 1
    same = (table * (table - 1)).sum(axis=1, keepdims=True)
    share = np.nan_to_num(ratio(table, np.broadcast_to(given, table.shape)))
    return np.concatenate(
        [
            several,
            given > 0,
            np.where(several, same / np.maximum(given * (given - 1), 1), 0),
            np.where(several, same / np.maximum(given - 1, 1), 0),
            share,
            np.where(several, table, 0),
        ],
        axis=1,
        dtype=np.float64,
    )


class _Sums(NamedTuple):
    """Sums over sentences; all but the first two are ``(...)`` or ``(..., labels)``.

    ``agreement``: mean over sentences of the share of their pairs of labels that are the same.
    ``pairs``: sum over sentences of such pairs, each over the sentence's labels less one.
    ``shares``: mean over sentences of each label's share. ``paired``: number of each label in
    sentences with two or more.
    """

    agreement: Floats
    pairs: Floats
    shares: Floats
    paired: Floats

    @classmethod
    def of(cls, sums: Floats) -> _Sums:
        labels = (sums.shape[-1] - 4) // 2
        shares = sums[..., 4 : 4 + labels]
        return cls(
            ratio(sums[..., 2], sums[..., 0]),
            sums[..., 3],
            ratio(shares, np.broadcast_to(sums[..., 1:2], shares.shape)),
            sums[..., 4 + labels :],
        )


def _beyond(observed: Floats, expected: Floats) -> Floats:
    return ratio(observed - expected, 1 - expected)


def _ac1(sums: Floats) -> Floats:
    agreement, _, shares, _ = _Sums.of(sums)
    labels = shares.shape[-1]
    if labels < 2:
        return np.full(sums.shape[:-1], np.nan)
    return _beyond(agreement, (shares * (1 - shares)).sum(axis=-1) / (labels - 1))


def _kappa(sums: Floats) -> Floats:
    """Fleiss' kappa, for different numbers of labels a sentence as in Gwet (2014)."""
    agreement, _, shares, _ = _Sums.of(sums)
    return _beyond(agreement, np.square(shares).sum(axis=-1))


def _alpha(sums: Floats) -> Floats:
    _, pairs, _, paired = _Sums.of(sums)
    total = paired.sum(axis=-1)
    expected = (paired * (paired - 1)).sum(axis=-1)
    return _beyond(ratio(pairs, total), ratio(expected, total * (total - 1)))
