"""mirage history: how a model moved over commits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, place_of
from mirage.cli._output import out_either
from mirage.cli._shell import app, argument, example, option
from mirage.errors import UnknownNameError

if TYPE_CHECKING:
    from mirage.testing import Series

__all__ = ["history"]


@app.command(
    epilog=example(
        "mirage history history.sqlite",
        "mirage history history.sqlite --accept 4f2c91a",
        "mirage history history.sqlite --html history.html",
    )
)
def history(
    file: Annotated[
        Path, argument("FILE", "What --history of `mirage check`, `rank` or `bench run` wrote.")
    ],
    model: Annotated[str | None, option("NAME", "One model alone.")] = None,
    feature: Annotated[
        list[str] | None,
        option("NAME", "A feature to show and compare; may be repeated.  [default: the gate's]"),
    ] = None,
    alpha: Annotated[
        float, option("P", "The probability of any false alarm among the commits below.")
    ] = 0.05,
    commits: Annotated[
        int, option("N", "How many after a reference are compared with it.", min=1)
    ] = 30,
    accept: Annotated[
        str | None, option("SHA", "Compare later commits with this one, from now on.")
    ] = None,
    html: Annotated[
        Path | None, option("FILE", "Write a page: each feature over the commits, and a table.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show how a model moved over commits.

    And where it got worse by more than noise: each commit is compared with the first, or the last
    that was accepted, on the same queries.
    """
    from mirage.testing import History, moved

    check_folder(html)
    store = History(place_of(file))
    if accept:
        store.accept(accept)
    runs = store.series()
    models = list(dict.fromkeys(one[0].baseline.table.model for one in runs))
    if model is not None and model not in models:
        raise UnknownNameError("model of this history", model, models)
    shown = [
        moved(one, alpha=alpha, length=commits, features=feature or ())
        for one in runs
        if model in (None, one[0].baseline.table.model)
    ]
    if html is not None:
        from mirage.report import write_history

        write_history((one.timeline() for one in shown), html)
    out_either("\n\n".join(map(str, shown)), {"series": list(map(_plain, shown))}, as_json)


def _plain(series: Series) -> dict[str, Any]:
    first = series.commits[0].commit.baseline
    return {
        "model": first.table.model,
        "language": first.table.language,
        "dataset": first.dataset,
        "fingerprint": first.fingerprint,
        "alpha": series.alpha,
        "length": series.length,
        "commits": [
            {
                "sha": one.commit.sha,
                "time": one.commit.time,
                "label": one.commit.label,
                "rank": one.commit.rank,
                "accepted": one.commit.accepted,
                "reference": one.reference or None,
                "worse": one.worse,
                "features": [step._asdict() for step in one.steps],
            }
            for one in series.commits
        ],
    }
