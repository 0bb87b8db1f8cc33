"""Assert that a model is no worse than a baseline of it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mirage._base.tables import Table, to_text
from mirage.dataset import Cluster, MirageDataset, clusters_of
from mirage.errors import FeatureError, SettingError, UnknownNameError
from mirage.features import FeatureSuite, FeatureTable, canonical_name
from mirage.features.base import Answered, answered
from mirage.generation import ModelLike
from mirage.leaderboard import Leaderboard
from mirage.models import Run
from mirage.testing._current_test import record
from mirage.testing._inputs import Place, dataset_of, run_of
from mirage.testing._lost_facts import FACTS, lost_fact
from mirage.testing._shortfalls import (
    FellShortError,
    Finding,
    check_lost,
    format_change,
    format_value,
    raise_at_caller,
    shortfall_error,
    worse_queries,
    worst_lines,
)
from mirage.testing._unclear import Unclear, settle_unclear, unclear_action
from mirage.testing.baseline import (
    Baseline,
    digests_of,
    identical_answers,
    read_baseline,
    versions,
)
from mirage.testing.comparison import Change, Comparison, compare
from mirage.testing.gate import GATED, default_names
from mirage.testing.planning import More, what_would_tell

__all__ = [
    "Compared",
    "assert_no_regression",
    "check_compared",
    "compared",
    "identical_line",
    "lost_queries",
    "measured",
    "more_to_tell",
    "summary",
    "table_notes",
    "told",
    "worse_than_before",
]


@raise_at_caller
def assert_no_regression(
    system: ModelLike,
    baseline: Baseline | str | Path,
    alpha: float = 0.05,
    *,
    margin: float = 0.1,
    cannot_tell: Unclear | None = None,
    features: Collection[str] | None = None,
    on: Place = None,
    suite: FeatureSuite | None = None,
    cluster: Cluster = None,
    model: str | None = None,
    allow_failed: int = 0,
) -> Comparison:
    """Assert that no fact, support, citation, abstention or language got lost, but for chance.

    There are three verdicts (:attr:`Comparison.verdict
    <mirage.testing.comparison.Comparison.verdict>`): the model is ``worse``, and the assertion
    fails; it is ``no worse`` than the baseline by more than the margin; or the queries are too few
    for either, and it ``cannot tell``: then pytest shows the test as skipped, unless
    ``cannot_tell`` says otherwise.

    Responses are compared query by query, all features together; see
    :func:`mirage.testing.comparison.compare` for the test. Another wording is no regression:
    overlap with the reference (``answer_bleu``, ``answer_rougeL``) is compared on request alone,
    and what true paraphrases differ by in the other features counts as no difference. Of a true
    answer in other words the gate says nothing, of a false one in the old words it does.

    A system that answers differently each time, and is as good as before, fails with a probability
    of about ``alpha``, mostly less; one that answers the same never does. How small a loss is found
    depends on the number of queries: ``benchmarks/gate.py`` prints it for the bundled ones,
    ``benchmarks/regression.py`` for 5 to 100.

    A query that the model answered for the baseline and fails on now is lost; so is one that has
    no value of a feature any more, the language of a text too short to tell excepted. More than
    ``allow_failed`` lost queries fail the assertion.

    Args:
        system: what :func:`mirage.respond` takes.
        baseline: a file that :func:`save_baseline` wrote, or what it returned.
        alpha: the probability of a false alarm, for all features together, and of ``no worse``
            where more than the margin is lost; above 0 and below 1.
        margin: the loss that ``no worse`` excludes, in every feature: a mean over all queries, as
            a share of the feature's range. By 0.1, less than every tenth answer lost what it had.
            Above 0 and below 1.
        cannot_tell: ``"skip"``, ``"fail"`` or ``"pass"`` where nobody can tell; by default what
            pytest's ini option ``mirage_cannot_tell`` says, or else ``"skip"``. Outside of pytest
            nothing is skipped: ask the comparison for its ``verdict``.
        features: which of the baseline's features to compare, wording among them. By default
            language, citations, support, facts and abstention, as far as the queries provide for
            them, and features of your own and by models that are in the baseline.
        on: the queries that the baseline was saved on: a dataset, or a leaderboard. By default
            the bundled ones of the baseline's language.
        suite: the baseline's features; by default those of a leaderboard, or the library's own by
            the names in the baseline. A baseline with features of your own needs it.
        cluster: what queries hang together by, such as a document that several are about, where
            :attr:`Query.cluster <mirage.Query>` does not say so: a key of their metadata, a
            function of the query, or a mapping from query id. Without it, queries that do hang
            together raise false alarms. Below five clusters there is no alarm, and a warning.
        model: its name in the message.
        allow_failed: queries that may be lost.

    Returns:
        The comparison, where no feature is worse.

    Raises:
        FellShortError: a feature is worse; shows which, and the five worst queries, with the facts
            that they lost. An ``AssertionError``.
        DatasetError: the baseline cannot be read, or is of other queries.
        FeatureError: the baseline has other features.
        UnknownNameError: the baseline lacks one of ``features``.
        MirageError: whatever else is wrong with the model or the queries.
    """
    unclear = unclear_action(cannot_tell)
    runs = compared(
        system,
        baseline,
        alpha,
        margin=margin,
        features=features,
        on=on,
        suite=suite,
        cluster=cluster,
        model=model,
    )
    if runs.comparison.clusters < runs.comparison.fewest:
        warnings.warn(_too_few(runs.comparison), stacklevel=3)
    return check_compared(runs, unclear, allow_failed)


class Compared(NamedTuple):
    """A run and its baseline, compared.

    Attributes:
        comparison: feature by feature.
        baseline: what the run is compared with.
        dataset: the queries.
        run: the later responses.
        clusters: by query id, what a query hangs together with.
    """

    comparison: Comparison
    baseline: Baseline
    dataset: MirageDataset
    run: Run
    clusters: Mapping[str, str]


def compared(
    system: ModelLike,
    baseline: Baseline | str | Path,
    alpha: float = 0.05,
    *,
    margin: float = 0.1,
    features: Collection[str] | None = None,
    on: Place = None,
    suite: FeatureSuite | None = None,
    cluster: Cluster = None,
    model: str | None = None,
) -> Compared:
    """The comparison that :func:`assert_no_regression` makes, whatever it comes to."""
    if not 0 < alpha < 1:
        raise SettingError(f"alpha={alpha!r} is to lie above 0 and below 1, as 0.05 does")
    if not 0 < margin < 1:
        raise SettingError(f"margin={margin!r} is to lie above 0 and below 1, as 0.1 does")
    earlier = baseline if isinstance(baseline, Baseline) else read_baseline(baseline)
    dataset = dataset_of(earlier.table.language if on is None else on, system)
    earlier.check(dataset)
    names = _compared(earlier, features, dataset)
    suite = _suite_like(earlier, names, suite, on)
    run = run_of(system, dataset, model)
    table = suite.score(dataset, run, progress=False)
    clusters = clusters_of(dataset, cluster)
    before = earlier.table.columns(names)
    lower = earlier.lower_is_better
    comparison = compare(
        before,
        table,
        lower,
        clusters=clusters,
        alpha=alpha,
        margin=margin,
        identical=identical_answers(earlier, run),
        failed={*earlier.failed, *(response.query_id for response in run.failed)},
    )
    return Compared(comparison, earlier, dataset, run, clusters)


def measured(runs: Compared) -> Baseline:
    """The later run of a comparison as a baseline, to put into a history."""
    table = replace(runs.comparison.after, clusters=runs.clusters)
    failed = {response.query_id: response.error or "" for response in runs.run.failed}
    return replace(
        runs.baseline,
        table=table,
        failed=failed,
        versions=versions(),
        digests=digests_of(runs.run),
    )


def check_compared(runs: Compared, unclear: str, allow_failed: int) -> Comparison:
    """Fall short where a comparison is for the worse, or lost more queries than it may.

    Args:
        runs: what :func:`compared` returned.
        unclear: ``"skip"``, ``"fail"`` or ``"pass"`` where nobody can tell.
        allow_failed: queries that may be lost.
    """
    comparison, earlier, dataset, run, _ = runs
    check_lost(
        lost_queries(runs),
        "has no features for",
        run,
        dataset,
        allow_failed,
    )
    record("mirage.no_regression", _facts(comparison, earlier, run))
    if comparison.verdict == "worse":
        raise _regressed(comparison, earlier, dataset, run)
    if comparison.verdict == "cannot tell":
        settle_unclear(
            unclear,
            lambda: summary(comparison, more_to_tell(comparison)),
            lambda: told(comparison, more_to_tell(comparison)),
        )
    return comparison


def more_to_tell(comparison: Comparison) -> More | None:
    """Return how many more queries would make a comparison conclusive.

    Returns:
        ``None`` if it is conclusive, or if no number of queries would help: correctness was not
        measured, or a change of style alone is above the margin.
    """
    if comparison.verdict != "cannot tell" or _beyond_queries(comparison):
        return None
    return what_would_tell(comparison)


def _beyond_queries(comparison: Comparison) -> bool:
    """Return whether more queries would leave the comparison inconclusive."""
    return not comparison.evidence.is_enough or bool(_style_above_margin(comparison))


def _style_above_margin(comparison: Comparison) -> list[str]:
    """Return the features whose mean loss is above the margin because of its allowance."""
    losses = dict(zip(comparison.before.features, comparison.losses.mean(axis=0), strict=True))
    return [
        change.feature
        for change in comparison.unclear
        if change.allowance > 0 and losses[change.feature] > comparison.margin
    ]


def _too_few(comparison: Comparison) -> str:
    return (
        f"{len(comparison.before)} queries in {comparison.clusters} clusters are too few for an "
        f"alarm, whatever they say: it takes {comparison.fewest} clusters or more"
    )


def _compared(
    baseline: Baseline, features: Collection[str] | None, dataset: MirageDataset
) -> tuple[str, ...]:
    """The names of the baseline's features to compare."""
    names = baseline.table.features
    if features is None:
        return default_names(names, dataset)
    asked = tuple(dict.fromkeys(map(canonical_name, features)))
    for name in asked:
        if name not in names:
            raise UnknownNameError("feature of the baseline", name, names)
    if not asked:
        raise SettingError("features=() compares nothing: name one, or leave it out")
    return asked


def _suite_like(
    baseline: Baseline, names: Sequence[str], suite: FeatureSuite | None, on: Place
) -> FeatureSuite:
    """The features to compare, as the baseline was saved with them."""
    saved = baseline.table.features
    if suite is not None and set(suite.names) != set(saved):
        differing = sorted(set(suite.names) ^ set(saved))
        raise FeatureError(
            f"the baseline and the suite differ in the features {', '.join(differing)}; compare "
            "with the suite that the baseline was saved with, or save it anew with this one"
        )
    if suite is None and isinstance(on, Leaderboard):
        suite = on.suite
    own = {item.name: item for item in suite or ()}
    try:
        return FeatureSuite([own.get(name, name) for name in names])
    except (UnknownNameError, FeatureError) as error:
        raise FeatureError(
            f"the baseline has a feature that its name alone does not give ({error}): hand "
            "over the suite that it was saved with, as suite="
        ) from None


def lost_queries(runs: Compared) -> list[Finding]:
    """The queries for which the baseline has a feature, and the run has none.

    Of repeats, those too that failed once, and never in the baseline.
    """
    comparison, failed_before = runs.comparison, runs.baseline.failed
    failures = {one.query_id: one.error for one in runs.run.failed}
    missing = np.isnan(comparison.after.values) & ~np.isnan(comparison.before.values)
    failed = [id_ in failures for id_ in comparison.before.query_ids]
    may_lack = [name in GATED and GATED[name].may_lack for name in comparison.before.features]
    missing &= np.array(failed)[:, None] | ~np.array(may_lack)
    lost = []
    for i, id_ in enumerate(comparison.before.query_ids):
        if id_ in failures and (missing[i].any() or id_ not in failed_before):
            lost.append(Finding(id_, f"failed: {failures[id_]}"))
        elif missing[i].any():
            feature = comparison.before.features[int(missing[i].argmax())]
            why = f"{feature}: {comparison.after.reasons.get((id_, feature), 'no value')}"
            lost.append(Finding(id_, why))
    return lost


def _facts(comparison: Comparison, baseline: Baseline, run: Run) -> dict[str, Any]:
    worse = [change.feature for change in comparison.regressed(comparison.alpha)]
    features = {
        change.feature: {
            "before": change.before,
            "after": change.after,
            "p": change.p,
            "lost_at_most": change.lost_at_most if np.isfinite(change.lost_at_most) else None,
            "allowance": change.allowance,
        }
        for change in comparison.compared
    }
    return {
        "model": run.model,
        "baseline": baseline.table.model,
        "dataset": baseline.dataset,
        "queries": len(baseline.table),
        "repeats": _times(comparison.after),
        "clusters": comparison.clusters,
        "failed": len(run.failed),
        "alpha": comparison.alpha,
        "margin": comparison.margin,
        "features": features,
        "not_compared": comparison.not_compared,
        "evidence": comparison.evidence.kinds,
        "worse": worse,
        "verdict": comparison.verdict,
        "held": not worse,
    }


def told(comparison: Comparison, more: More | None = None) -> str:
    """What a comparison that is not for the worse comes to, in 80 columns, and what would tell."""
    rows = tuple(_row(change) for change in comparison.unclear or comparison.compared)
    notes = tuple(table_notes(comparison, [_legend(comparison)] if rows else []))
    return to_text(Table(summary(comparison, more), _HEADER, rows, notes=notes, name=0))


def summary(comparison: Comparison, more: More | None = None) -> str:
    """What a comparison that is not for the worse comes to, in a sentence."""
    model, margin = comparison.after.model, f"{comparison.margin:g}"
    counted = _counted(comparison)
    if comparison.unchanged and comparison.unclear:
        return f"{model} is no worse than the baseline: {identical_line(comparison)}"
    if comparison.verdict == "no worse":
        names = ", ".join(change.feature for change in comparison.compared)
        rest = ", ".join(comparison.not_compared)
        missing = f"; not compared: {rest}" if rest else ""
        return (
            f"{model} is no worse than the baseline by more than {margin} in {names}: "
            f"{counted}{missing}"
        )
    why = f"cannot tell whether {model} is worse than the baseline"
    if not comparison.compared:
        return f"{why}: no query has any of the features in both runs"
    names = ", ".join(change.feature for change in comparison.unclear)
    said = f"{why}: on {counted}, more than {margin} may be lost in {names}"
    rangeless = [c.feature for c in comparison.unclear if np.isinf(c.lost_at_most)]
    if rangeless:
        return f"{said}; declare the range of {', '.join(rangeless)} (mirage.features.Facts)"
    style = ", ".join(_style_above_margin(comparison))
    if not comparison.evidence.is_enough:
        return f"inconclusive: {comparison.evidence.lack}"
    if style:
        return (
            f"{said}; {style} fell as it does with another style, which is no alarm and no proof: "
            "read some answers, and save a new baseline if the style is meant"
        )
    return f"{said}; {more}" if more else said


def table_notes(comparison: Comparison, legend: Sequence[str] = ()) -> list[str]:
    """Return the lines below a table of features: evidence, style and what is not compared.

    Args:
        comparison: The comparison.
        legend: Lines that explain the columns.
    """
    identical = identical_line(comparison)
    return [
        str(comparison.evidence),
        *([identical] if identical else []),
        *_allowances(comparison),
        *legend,
        *_not_compared(comparison),
    ]


def identical_line(comparison: Comparison) -> str:
    """Return how many answers are identical to the baseline's; empty if that is not known."""
    if comparison.identical is None:
        return ""
    same, queries = int(comparison.identical.sum()), len(comparison.identical)
    return f"{same} of {queries} answers are identical to the baseline's"


def _allowances(comparison: Comparison) -> list[str]:
    """Return a line on each feature of whose loss a part counts as style."""
    lines = []
    for change in comparison.compared:
        allowance = format_value(change.allowance)
        if float(allowance) > 0:
            lines.append(
                f"{change.feature}: {allowance} of its loss counts as style and raises no alarm; "
                f"the loss beyond style is at most {format_value(change.beyond_at_most)}, the whole "
                f"loss at most {format_value(change.lost_at_most)}, and “no worse” takes the whole"
            )
    return lines


def _regressed(
    comparison: Comparison, baseline: Baseline, dataset: MirageDataset, run: Run
) -> FellShortError:
    alpha = comparison.alpha
    worse = comparison.regressed(alpha)
    names = [change.feature for change in worse]
    findings = worse_than_before(comparison, names, dataset, run)
    shown = _worst_times(comparison, run, names)
    return shortfall_error(
        f"{run.model} is worse than the baseline in {', '.join(names)}, on {dataset.name} at "
        f"alpha {alpha:g}",
        _HEADER,
        [(_row(change), change in worse) for change in comparison.compared],
        [
            *table_notes(comparison, [_legend(comparison)]),
            *_newer(baseline),
            *worst_lines(findings, f"Queries with worse {' or '.join(names)}", dataset, shown),
        ],
    )


def worse_than_before(
    comparison: Comparison, names: Sequence[str], dataset: MirageDataset, run: Run
) -> list[Finding]:
    """The queries that got worse in these features, the worst first, and what they lost."""
    features = comparison.before.features
    worsening = comparison.tested
    size = np.sqrt(np.nan_to_num(worsening**2).mean(axis=0))  # root mean square
    before, after = comparison.before.values, comparison.after.values
    run = _worst_times(comparison, run, names)
    return worse_queries(
        worsening / np.where(size > 0, size, 1.0),
        comparison.before,
        lambda i, j: _told(
            f"{features[j]} {format_value(before[i, j])} → {format_value(after[i, j])}",
            lost_fact(features[j], _item(comparison.before.query_ids[i], dataset, run)),
        ),
        [features.index(name) for name in names],
        [features.index(name) for name in features if name in FACTS],
    )


_HEADER = ("feature", "before", "now", "change", "worse", "better", "p", "lost ≤")


def _legend(comparison: Comparison) -> str:
    return (
        f"worse, better: of the {_counted(comparison)}; p: corrected for all features, after what "
        "another wording changes; lost ≤: the mean loss over all queries, as a share of the "
        f"feature's range, is no more, at the level {1 - comparison.alpha:g}"
    )


def _not_compared(comparison: Comparison) -> list[str]:
    """A line on each feature that was not measured, and why."""
    return [f"not compared, {name}: {why}" for name, why in comparison.not_compared.items()]


def _worst_times(comparison: Comparison, run: Run, names: Sequence[str]) -> Run:
    """Of a run with repeats the worst response to each query in these features."""
    table = comparison.after
    if table.repeats is None:
        return run
    columns = [table.features.index(name) for name in names]
    sign = np.array([1.0 if name in comparison.lower else -1.0 for name in names])
    badness = np.nan_to_num(sign * table.repeats[:, :, columns]).sum(axis=2)
    worst_time = dict(zip(table.query_ids, badness.argmax(axis=0).tolist(), strict=True))
    responses = (run.repeats[worst_time[one.query_id]].get(one.query_id) or one for one in run)
    return run.model_copy(update={"responses": tuple(responses)})


def _counted(comparison: Comparison) -> str:
    queries = f"{len(comparison.before)} queries"
    times = _times(comparison.before), _times(comparison.after)
    if times != (1, 1):
        before, now = ("once" if number == 1 else f"{number} times" for number in times)
        queries += f", each asked {before}" + (f" before and {now} now" if now != before else "")
    if comparison.clusters == len(comparison.before):
        return queries
    return f"{queries}, in {comparison.clusters} clusters that count as one each"


def _times(table: FeatureTable) -> int:
    return 1 if table.repeats is None else len(table.repeats)


def _item(query_id: str, dataset: MirageDataset, run: Run) -> Answered:
    return answered(dataset[query_id], run[query_id])


def _told(numbers: str, words: str) -> str:
    return f"{numbers} ({words})" if words else numbers


def _row(change: Change) -> tuple[str, ...]:
    before, after = change.before, change.after
    means = format_value(before), format_value(after), format_change(before, after)
    counts = str(change.worse), str(change.better)
    at_most = format_value(change.lost_at_most) if np.isfinite(change.lost_at_most) else "any"
    return change.feature, *means, *counts, f"{change.p:.4f}", at_most


def _newer(baseline: Baseline) -> list[str]:
    """A line on the packages that are not the ones that the baseline was computed with."""
    now = versions()
    changed = [
        f"{package} {baseline.versions.get(package, 'none')} → {now.get(package, 'none')}"
        for package in sorted({*now, *baseline.versions})
        if baseline.versions.get(package) != now.get(package)
    ]
    if not changed:
        return []
    return [f"Since the baseline: {', '.join(changed)}; this alone may change features"]
