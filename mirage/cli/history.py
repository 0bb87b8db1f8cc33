"""mirage history: features and rank of a model over commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import check_page, existing
from mirage.cli._output import out_either, say
from mirage.cli._shell import app, argument, example, option
from mirage.errors import UnknownNameError

if TYPE_CHECKING:
    from mirage.monitoring.history import Commit
    from mirage.monitoring.judges import JudgeSeries
    from mirage.monitoring.series import Series


@app.command(
    epilog=example(
        "mirage history history.sqlite",
        "mirage history history.sqlite --accept 4f2c91a",
        "mirage history history.sqlite --report history.html",
    )
)
def history(
    file: Annotated[
        Path,
        argument(
            "FILE",
            "History file, written with the option --history of `mirage check`, `mirage judge`, "
            "`mirage rank` or `mirage grid run`.",
        ),
    ],
    model: Annotated[str | None, option("NAME", "Show only this model.")] = None,
    feature: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Show and compare this feature; may be repeated.  [default: the features that `mirage "
            "check` compares]",
        ),
    ] = None,
    alpha: Annotated[float, option("P", "Probability of any false alarm over all commits.")] = 0.05,
    accept: Annotated[
        str | None, option("SHA", "Accept this commit: compare later commits with it from now on.")
    ] = None,
    page: Annotated[
        Path | None,
        option(
            "FILE",
            "Also write an HTML page with a chart of each feature over the commits, and a table "
            "of the values.",
            "--report",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show the features and the rank of a model over commits.

    Marks the commits at which a feature has dropped and stayed lower. Each commit is compared, on
    the same queries, with the first commit or, after --accept, with the last accepted one. Commits
    on at least four earlier days are needed, because the commits of one day count as one value.

    The exit status is 0 even if commits are marked. To fail a build, use `mirage check`.

    If the file has results of `mirage judge --anchors`, the command also shows whether the judge
    has changed on its anchor pairs. It then attributes a drop of a judged score to the judge or to
    the system.
    """
    from mirage.monitoring import History, compare_commits
    from mirage.monitoring.judges import compare_judge_runs, explain_drops

    check_page(page)
    store = History(existing(file))
    if accept:
        store.accept(accept)
        say(f"accepted {accept}: later commits are compared with it")
    all_runs = store.series()
    models = list(dict.fromkeys(runs[0].baseline.table.model for runs in all_runs))
    if model is not None and model not in models:
        raise UnknownNameError("model", model, models, "in this history")
    of_model = [runs for runs in all_runs if model in (None, runs[0].baseline.table.model)]
    all_series = [
        compare_commits(runs, alpha=alpha, features=feature or ())
        for runs in [r for r in of_model if _has_features(r, feature or ())] or of_model
    ]
    if page is not None:
        from mirage.monitoring.page import write_history

        write_history(all_series, page)
    judges = [compare_judge_runs(runs, alpha=alpha) for runs in store.judge_runs()]
    explanations = [explain_drops(series, judges) for series in all_series]
    plain = {
        "series": [
            _plain(series) | {"explanations": list(lines)}
            for series, lines in zip(all_series, explanations, strict=True)
        ],
        "judges": list(map(_judge_plain, judges)),
    }
    parts = [
        "\n".join((str(series), *lines))
        for series, lines in zip(all_series, explanations, strict=True)
    ]
    out_either("\n\n".join((*parts, *map(str, judges))), plain, as_json)


def _has_features(commits: Sequence[Commit], features: Iterable[str]) -> bool:
    """Return whether all commits of a series have all of these features."""
    tables = [commit.baseline.table for commit in commits]
    return all(name in table.features for name in features for table in tables)


def _plain(series: Series) -> dict[str, Any]:
    first = series.commits[0].commit.baseline
    return {
        "model": first.table.model,
        "language": first.table.language,
        "dataset": first.dataset,
        "fingerprint": first.fingerprint,
        "alpha": series.alpha,
        "commits": [
            {
                "sha": row.commit.sha,
                "time": row.commit.time,
                "rank": row.commit.rank,
                "accepted": row.commit.accepted,
                "reference": row.reference or None,
                "worse": row.worse,
                "features": [step._asdict() for step in row.steps],
            }
            for row in series.commits
        ],
    }


def _judge_plain(series: JudgeSeries) -> dict[str, Any]:
    return {
        "judge": series.judge,
        "pairs": len(series.steps[-1].run.verdicts.counts),
        "shift": series.shift,
        "runs": [
            {
                "sha": step.run.sha,
                "time": step.run.time,
                "accepted": step.run.accepted,
                "self_agreement": step.agreement,
                "interval": step.interval,
                "same_as_reference": step.same,
                "p": step.p,
                "moved": step.moved,
                "since": step.since or None,
                "changed": step.changed,
            }
            for step in series.steps
        ],
    }
