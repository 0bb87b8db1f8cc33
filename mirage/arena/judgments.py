"""Large numbers of judgments, stored as columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Union, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage._base.near_names import NearNames
from mirage.errors import JudgmentError, needing
from mirage.models import Half, Judgment, Verdict

if TYPE_CHECKING:
    import pandas as pd

_SCORES: dict[str, float] = {"a": 1.0, "b": 0.0, "tie": 0.5}
_VERDICTS: dict[float, Verdict] = {1.0: "a", 0.0: "b", 0.5: "tie"}
_HALVES: tuple[Half, ...] = ("first", "second", "")  # indexed by code: 0, 1, or -1 (neither half)
_CHUNK = 1 << 18  # labels turned into Python objects at a time, to save memory


@dataclass(frozen=True, eq=False)
class Judgments(NearNames):
    """Judgments as numpy columns, one row per judgment.

    Create them with :meth:`from_records`, :meth:`from_arrays` or :meth:`from_pandas`, which check
    their input; the constructor does not. These three sort ``query_ids`` and ``models``, so the
    same judgments in another order give the same tournaments (bootstrap samples of the queries).
    Each row takes 16 bytes.

    Attributes:
        query_ids: Sorted query ids.
        models: Sorted model names.
        query: Index into ``query_ids`` of each judgment.
        a: Index into ``models`` of the first model.
        b: Index into ``models`` of the second model.
        score: Score of model a: 1 for a win, 0 for a loss, 0.5 for a tie.
        halves: For each query, the half of the queries to which it belongs, if pairs were chosen by
            :class:`mirage.arena.AdaptivePairs`: 0, 1, or -1 if it is in neither half. ``None`` if
            pairs were not chosen adaptively.

    Example:
        >>> from mirage import Judgments
        >>> judgments = Judgments.from_arrays(
        ...     query=["q1", "q2"], model_a=["x", "y"], model_b=["y", "x"], verdict=["a", "tie"]
        ... )
        >>> judgments.models
        ('x', 'y')
        >>> len(judgments)
        2
    """

    query_ids: tuple[str, ...]
    models: tuple[str, ...]
    query: NDArray[np.int32]
    a: NDArray[np.int32]
    b: NDArray[np.int32]
    score: NDArray[np.float32]
    halves: NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return len(self.score)

    @classmethod
    def from_records(cls, records: Iterable[Judgment]) -> Self:
        """Convert judgments to columns; the names of the judges are dropped.

        Args:
            records: The judgments.

        Raises:
            JudgmentError: There are no judgments, or an object is not a :class:`Judgment`.
        """
        rows = []
        halves: dict[str, Half] = {}
        for number, judgment in enumerate(records):
            if not isinstance(judgment, Judgment):
                raise JudgmentError(
                    f"judgment {number} is of type {type(judgment).__name__}; pass Judgment "
                    "records, a pandas DataFrame, or the result of Judgments.from_arrays"
                )
            rows.append(
                (judgment.query_id, judgment.model_a, judgment.model_b, _SCORES[judgment.verdict])
            )
            if (
                judgment.half
                and halves.setdefault(judgment.query_id, judgment.half) != judgment.half
            ):
                raise JudgmentError(
                    f"judgment {number}: query {judgment.query_id!r} belongs to both the first "
                    "and the second half of the queries, so the judgments come from two adaptive "
                    "comparisons; fit the judgments of each comparison separately"
                )
        columns = np.array(rows, dtype=object).reshape(-1, 4).T
        query, a, b = map(_factorize, columns[:3])
        return cls._build(query, a, b, columns[3].astype(np.float32))._in_halves(halves)

    @classmethod
    def from_arrays(
        cls,
        *,
        query: ArrayLike,
        model_a: ArrayLike,
        model_b: ArrayLike,
        score: ArrayLike | None = None,
        verdict: ArrayLike | None = None,
    ) -> Self:
        """Return judgments from arrays, each of shape ``(judgments,)``.

        Args:
            query: Query ids. Ids and names may have any dtype (text, integers, objects), and are
                converted to text.
            model_a: Name of the first model of each judgment.
            model_b: Name of the second model of each judgment.
            score: Score of the first model: 1, 0, or 0.5 for a tie.
            verdict: ``"a"``, ``"b"`` or ``"tie"``. Pass either this or ``score``.

        Raises:
            JudgmentError: There are no rows, arrays differ in length, a label is missing, a score
                or verdict is not valid, or a model is compared with itself. The message gives the
                row, counting from 0.
        """
        if (score is None) == (verdict is None):
            raise JudgmentError("pass either score= or verdict=, but not both")
        scores = _verdict_scores(_factorize(verdict)) if score is None else _check_scores(score)
        return cls._build(_factorize(query), _factorize(model_a), _factorize(model_b), scores)

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame) -> Self:
        """Convert a DataFrame of judgments to columns.

        Args:
            frame: A pandas DataFrame with the columns ``query_id``, ``model_a``, ``model_b`` and
                ``verdict``.

        Raises:
            JudgmentError: As for :meth:`from_arrays`, or a column is missing.
        """
        names = ("query_id", "model_a", "model_b", "verdict")
        absent = [name for name in names if name not in frame.columns]
        if absent:
            raise JudgmentError(
                f"the DataFrame of judgments lacks {absent}; it needs the columns {list(names)}"
            )
        coded = []
        for name in names:
            codes, labels = frame[name].factorize()
            codes = np.where(codes < 0, len(labels), codes)  # -1 is pandas' code of a missing label
            coded.append(_Labels(codes.astype(np.int32), [*map(_text, labels), ""]))
        query, a, b, verdict = coded
        return cls._build(query, a, b, _verdict_scores(verdict))

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame of categorical columns: query_id, model_a, model_b, verdict.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        with needing("pandas"):
            import pandas as pd

        def column(codes: NDArray[np.int32], labels: Sequence[str]) -> pd.Categorical[str]:
            return pd.Categorical.from_codes(codes, pd.Index(labels))

        verdict = (self.score * 2).astype(np.int32)  # 0, 1, 2: b, tie, a
        return pd.DataFrame(
            {
                "query_id": column(self.query, self.query_ids),
                "model_a": column(self.a, self.models),
                "model_b": column(self.b, self.models),
                "verdict": column(verdict, ("b", "tie", "a")),
            }
        )

    def to_records(self) -> list[Judgment]:
        """Return one record per row, in the order of the rows, with an empty ``judge``."""
        columns = self.query, self.a, self.b, self.score
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [
            Judgment(
                query_id=self.query_ids[query],
                model_a=self.models[a],
                model_b=self.models[b],
                verdict=_VERDICTS[score],
                half="" if self.halves is None else _HALVES[int(self.halves[query])],
            )
            for query, a, b, score in rows
        ]

    def results(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of wins and of ties as two arrays of shape ``(models, models)``.

        Entry ``[i, j]`` of the first array is the number of times that model i beat model j. Entry
        ``[i, j]`` of the second is the number of times that the two tied.
        """
        models = len(self.models)
        cells = self.a.astype(np.intp) * models + self.b
        won, lost, tied = (
            np.bincount(cells[self.score == score], minlength=models**2).reshape(models, models)
            for score in (1.0, 0.0, 0.5)
        )
        return won + lost.T, tied + tied.T

    def _in_halves(self, halves: Mapping[str, Half]) -> Self:
        """Return a copy with :attr:`halves` set; ``halves`` maps each query id to its half."""
        if not halves:
            return self
        half = {"first": 0, "second": 1}
        codes = [half.get(halves.get(query_id, ""), -1) for query_id in self.query_ids]
        return replace(self, halves=np.array(codes, dtype=np.int8))

    @classmethod
    def _build(cls, query: _Labels, a: _Labels, b: _Labels, score: NDArray[np.float32]) -> Self:
        """Check columns of labels and scores, and return them as judgments."""
        columns = {"query": query, "model_a": a, "model_b": b}
        lengths = {name: len(column.codes) for name, column in columns.items()}
        lengths["score or verdict"] = len(score)
        if len(set(lengths.values())) > 1:
            raise JudgmentError(f"columns of judgments differ in length: {lengths}")
        if not len(score):
            raise JudgmentError("there are no judgments; pass at least one")
        for name, column in columns.items():
            row = _first_row(column, [i for i, text in enumerate(column.texts) if not text])
            if row is not None:
                raise JudgmentError(f"row {row}: {name} is missing or empty")
        (queries,), query_ids = _sort_labels(query)
        (codes_a, codes_b), models = _sort_labels(a, b)
        selves = np.flatnonzero(codes_a == codes_b)
        if len(selves):
            row = int(selves[0])
            raise JudgmentError(
                f"row {row} (query {query_ids[queries[row]]!r}): model "
                f"{models[codes_a[row]]!r} is compared with itself"
            )
        return cls(query_ids, models, queries, codes_a, codes_b, score)


JudgmentsLike = Union[Judgments, Iterable[Judgment], "pd.DataFrame"]
"""Judgments as columns, as records, or as a pandas DataFrame."""


def as_judgments(judgments: JudgmentsLike) -> Judgments:
    """Convert judgments to columns, from records, a pandas DataFrame or columns.

    Raises:
        JudgmentError: There are no judgments, an object is not a :class:`Judgment`, or the
            DataFrame lacks a column.
    """
    if isinstance(judgments, Judgments):
        return judgments
    if hasattr(judgments, "columns"):
        return Judgments.from_pandas(cast("pd.DataFrame", judgments))
    return Judgments.from_records(judgments)


class _Labels(NamedTuple):
    """A column of labels: ``texts[codes[i]]`` is the i-th label.

    The texts are not sorted. An empty text stands for a missing label.
    """

    codes: NDArray[np.int32]
    texts: list[str]


def _factorize(values: ArrayLike | None) -> _Labels:
    """Convert a column of labels to integer codes."""
    column = np.asarray(values)
    if column.ndim != 1:
        raise JudgmentError(
            f"a column of judgments must have one dimension, got shape {column.shape}"
        )
    if column.dtype.kind in "iu" and len(column):
        return _factorize_integers(column)
    return _factorize_objects(column)


def _factorize_integers(column: NDArray[Any]) -> _Labels:
    """Convert integer labels to codes; a lookup table is used if the labels are close together."""
    low, high = int(column.min()), int(column.max())
    if high - low > 4 * len(column) + 1024 or high > np.iinfo(np.int64).max:
        labels, codes = np.unique(column, return_inverse=True)
        return _Labels(codes.astype(np.int32), [str(label) for label in labels.tolist()])
    shifted = column.astype(np.int64) - low  # in the column's own type this could overflow
    present = np.zeros(high - low + 1, dtype=bool)
    present[shifted] = True
    table = np.cumsum(present, dtype=np.int32) - np.int32(1)
    texts = [str(label) for label in (np.flatnonzero(present) + low).tolist()]
    return _Labels(table[shifted], texts)


def _factorize_objects(column: NDArray[Any]) -> _Labels:
    """Convert labels of any type to codes with a dictionary, because sorting texts is slow."""
    code_of_label: defaultdict[Hashable, int] = defaultdict()
    code_of_label.default_factory = code_of_label.__len__
    codes = np.empty(len(column), dtype=np.int32)
    for start in range(0, len(column), _CHUNK):
        chunk = column[start : start + _CHUNK].tolist()
        codes[start : start + len(chunk)] = np.fromiter(
            map(code_of_label.__getitem__, chunk), dtype=np.int32, count=len(chunk)
        )
    return _Labels(codes, [_text(label) for label in code_of_label])


def _text(label: object) -> str:
    """Return a label as text; empty if it is missing (None, NaN, pandas.NA)."""
    if isinstance(label, bytes):
        return label.decode()
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return ""
    return "" if label != label else str(label)  # only NaN differs from itself


def _first_row(column: _Labels, codes: list[int]) -> int | None:
    """Return the index of the first row with one of these codes; ``None`` if there is none."""
    rows = np.flatnonzero(np.isin(column.codes, codes)).tolist() if codes else []
    return int(rows[0]) if rows else None


def _sort_labels(*columns: _Labels) -> tuple[list[NDArray[np.int32]], tuple[str, ...]]:
    """Return the codes of several columns as indices into one sorted tuple, and this tuple."""
    shared = tuple(sorted({text for column in columns for text in column.texts if text}))
    code_of_text = {text: code for code, text in enumerate(shared)}
    tables = [np.array([code_of_text.get(t, -1) for t in c.texts], dtype=np.int32) for c in columns]
    return [table[c.codes] for table, c in zip(tables, columns, strict=True)], shared


def _check_scores(values: ArrayLike) -> NDArray[np.float32]:
    """Return scores as float32; raise an error unless all are 0, 0.5 or 1."""
    scores = np.asarray(values)
    if scores.ndim != 1 or scores.dtype.kind not in "biuf":
        raise JudgmentError(
            f"scores must be a column of numbers, got shape {scores.shape} of dtype {scores.dtype}"
        )
    bad = np.flatnonzero((scores != 0) & (scores != 0.5) & (scores != 1))
    if len(bad):
        row = int(bad[0])
        raise JudgmentError(f"row {row}: score {scores[row]} is not 0, 0.5 (a tie) or 1")
    return scores.astype(np.float32)


def _verdict_scores(column: _Labels) -> NDArray[np.float32]:
    """Return the score of each verdict: 1 for ``a``, 0 for ``b``, 0.5 for ``tie``."""
    row = _first_row(column, [i for i, text in enumerate(column.texts) if text not in _SCORES])
    if row is not None:
        text = column.texts[column.codes[row]]
        raise JudgmentError(f"row {row}: verdict {text!r} is not 'a', 'b' or 'tie'")
    table = np.array([_SCORES.get(text, np.nan) for text in column.texts], dtype=np.float32)
    return table[column.codes]
