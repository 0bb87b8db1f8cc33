"""Falling short: the error, and its message with the queries that made a test fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from mirage._base.quoting import visible
from mirage._base.tables import Table, to_text
from mirage.dataset import MirageDataset
from mirage.errors import MirageError
from mirage.features import FeatureTable
from mirage.features.base import answered
from mirage.models import Run
from mirage.testing._current_test import record

__all__ = [
    "FellShortError",
    "Finding",
    "check_failed",
    "check_lost",
    "difference",
    "fell_short",
    "from_here",
    "number",
    "shortened",
    "undecided",
    "worse_queries",
    "worst",
]

P = ParamSpec("P")
T = TypeVar("T")

_MOST = 5  # queries to show
_QUESTION, _RESPONSE = 80, 120  # characters of them


class FellShortError(AssertionError):
    """A model is not as good as a test asked; the message shows the queries that say so."""


FellShortError.__module__ = "mirage.testing"  # where it is imported from, and shorter to read


def from_here(function: Callable[P, T]) -> Callable[P, T]:
    """Let what fell short, and bad input, be shown at the line of the test, without ours below."""

    @wraps(function)
    def shown_here(*args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except (FellShortError, MirageError) as error:
            raise error.with_traceback(None) from error.__cause__

    return shown_here


class Finding(NamedTuple):
    """A query to show, and what is wrong with the response to it."""

    query_id: str
    why: str


def fell_short(
    title: str,
    header: Sequence[str],
    rows: Sequence[tuple[tuple[str, ...], bool]],
    notes: Iterable[str] = (),
) -> FellShortError:
    """What a failed assertion says, in 80 columns; each row comes with whether it stands out."""
    cells, marked = zip(*rows, strict=True)
    table = Table(title, tuple(header), tuple(cells), tuple(marked), tuple(notes), name=0)
    return FellShortError(to_text(table))


def undecided(text: str) -> FellShortError:
    """Return the error of an assertion that the queries cannot decide."""
    return FellShortError(visible(text))


def worst(findings: Sequence[Finding], about: str, dataset: MirageDataset, run: Run) -> list[str]:
    """Lines on the first five of these queries; ``about`` says what all of them have in common."""
    if not findings:
        return []
    more = f", the {_MOST} worst" if len(findings) > _MOST else ""
    return [
        f"{about} ({len(findings)}{more}):",
        *(_line(finding, dataset, run) for finding in findings[:_MOST]),
    ]


def _line(finding: Finding, dataset: MirageDataset, run: Run) -> str:
    question = shortened(dataset[finding.query_id].text)
    line = f"- {finding.query_id} “{question}” {finding.why}"
    response = run.get(finding.query_id)
    if response is None or response.text is None:
        return line
    answer = answered(dataset[finding.query_id], response).parsed.answer
    return f"{line}; answer: {shortened(answer, _RESPONSE)}" if answer else f"{line}; answer: none"


def shortened(text: str, most: int = _QUESTION) -> str:
    """A text on one line, of so many characters at most."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def number(value: float) -> str:
    """A feature's value as messages show it."""
    return f"{value:.3f}"


def difference(before: float, after: float) -> str:
    """A change as messages show it; one that rounds to nothing has no minus."""
    return f"{round(after - before, 3) + 0.0:+.3f}"


def worse_queries(
    worse: NDArray[np.float64],
    table: FeatureTable,
    show: Callable[[int, int], str],
    first: Sequence[int] = (),
    leading: Collection[int] = (),
) -> list[Finding]:
    """The queries with something worse, the worst first, each with up to three features.

    ``worse`` is ``(queries, features)``, above 0 where a value is worse. The features ``first``
    alone decide the order, where there are any, and come first; of them, ``leading`` do.
    """
    amounts = np.nan_to_num(worse, nan=0.0).clip(min=0.0)
    columns = list(first) or list(range(amounts.shape[1]))
    total = amounts[:, columns].sum(axis=1)
    findings = []
    for i in np.argsort(-total, kind="stable")[: np.count_nonzero(total)].tolist():
        order = sorted(
            np.flatnonzero(amounts[i]).tolist(),
            key=lambda j: (j not in columns, j not in leading, -amounts[i, j]),
        )
        findings.append(Finding(table.query_ids[i], ", ".join(show(i, j) for j in order[:3])))
    return findings


def check_failed(run: Run, dataset: MirageDataset, allow_failed: int) -> None:
    """Fall short if the model failed on more queries than this."""
    reasons = {response.query_id: response.error for response in run.failed}
    lost = [Finding(query_id, f"failed: {why}") for query_id, why in reasons.items()]
    check_lost(lost, "failed on", run, dataset, allow_failed)


def check_lost(
    lost: Sequence[Finding], how: str, run: Run, dataset: MirageDataset, allow_failed: int
) -> None:
    """Fall short if more queries than this are lost; ``how`` says how the model lost them."""
    if len(lost) <= allow_failed:
        return
    of = f"{len(lost)} of {len(dataset)}"
    facts = {"model": run.model, "queries": len(dataset), "failed": len(lost)}
    record("mirage.failed", {**facts, "allowed": allow_failed, "held": False})
    raise fell_short(
        f"{run.model} {how} {of} queries of {dataset.name}; allow_failed is {allow_failed}",
        ("model", "queries lost", "allowed"),
        [((run.model, of, str(allow_failed)), True)],
        worst(lost, "Queries", dataset, run),
    )
