"""The assertion that a model is no worse than its baseline, an earlier run of the model."""

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
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.base import Answered, answered
from mirage.features.registry import canonical_name
from mirage.generation.responses import ModelLike
from mirage.leaderboard import Leaderboard
from mirage.models import Run
from mirage.statistics.run_noise import FEWEST_RUNS
from mirage.testing._current_test import record
from mirage.testing._inconclusive import OnInconclusive, inconclusive_action, settle_inconclusive
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
from mirage.testing.baseline import (
    Baseline,
    digests_of,
    identical_answers,
    read_baseline,
    versions,
)
from mirage.testing.comparison import Change, Comparison, compare, newly_missing
from mirage.testing.gate import GATED, default_names
from mirage.testing.planning import ExtraQueries, extra_queries_needed


@raise_at_caller
def assert_no_regression(
    system: ModelLike,
    baseline: Baseline | str | Path,
    alpha: float = 0.05,
    *,
    margin: float = 0.1,
    inconclusive: OnInconclusive | None = None,
    features: Collection[str] | None = None,
    on: Place = None,
    suite: FeatureSuite | None = None,
    cluster: Cluster = None,
    model: str | None = None,
    allow_failed: int = 0,
) -> Comparison:
    """Assert that a model got no worse in facts, support, citations, abstention and language.

    There are three verdicts (:attr:`Comparison.verdict
    <mirage.testing.comparison.Comparison.verdict>`):

    * ``worse``: the loss in at least one feature is statistically significant, and the assertion
      fails.
    * ``no worse``: a loss above the margin is ruled out in every feature.
    * ``inconclusive``: neither holds, and pytest shows the test as skipped. The argument
      ``inconclusive`` changes this outcome.

    Responses are compared query by query, all features together; see
    :func:`mirage.testing.comparison.compare` for the test. A change of wording is no regression:
    overlap with the reference (``answer_bleu``, ``answer_rougeL``) is compared only on request, and
    differences that true paraphrases cause in the other features are ignored. A true answer in
    new words rarely raises an alarm; a false answer in the old words does.

    If a system varies its answers but is as good as before, the assertion fails with a probability
    of about ``alpha``, mostly less. If answers also vary between runs, for example from day to day,
    this holds only if the baseline consists of three or more runs. The assertion never fails if the
    answers are identical. The smallest loss that is detected depends on the number of queries:
    ``validation/truth/gate.py`` prints it for the bundled queries,
    ``validation/power/regression.py`` for 5 to 100 queries.

    A query is lost if the model failed on it now but not in the baseline, or if a feature has a
    value in the baseline only. The exception is ``target_language``, which a good answer may lack
    because it is too short; the verdict ``no worse`` then needs more queries. The assertion fails
    if more than ``allow_failed`` queries are lost. Queries that have no answer in the baseline are
    not compared, so the verdict is based on the others.

    Args:
        system: The system, as for :func:`mirage.respond`.
        baseline: A file that :func:`save_baseline` has written, or the function's return value.
        alpha: False positive rate for all features together. It is also the largest probability of
            the verdict ``no worse`` if the true loss is above the margin. Above 0 and below 1.
        margin: The mean loss that ``no worse`` rules out in every feature, as a share of the
            feature's range. With 0.1, fewer than every tenth answer can have dropped from best to
            worst. Above 0 and below 1.
        inconclusive: ``"skip"``, ``"fail"`` or ``"pass"``: the outcome of the test if the
            comparison is inconclusive. The default is pytest's ini option ``mirage_inconclusive``,
            or ``"skip"`` if it is not set. Outside pytest nothing is skipped; check the
            ``verdict`` of the return value.
        features: Names of the baseline's features to compare, such as ``"answer_bleu"``. By
            default, the features that measure language, citations, support, facts and abstention
            are compared, if the queries have the gold data for them. The baseline's features that
            you defined or that need a model are also compared.
        on: The queries that the baseline was saved on: a dataset or a leaderboard. By default
            the bundled queries of the baseline's language.
        suite: The features that the baseline was saved with. By default they are loaded by their
            names, from the leaderboard if ``on`` is one, else from the library. Required if you
            defined some of them.
        cluster: Cluster of each query, such as the document that several queries are about: a key
            of their metadata, a function of the query, or a mapping from query id. The default is
            :attr:`Query.cluster <mirage.Query>`. If related queries are not clustered, false
            alarms are more frequent. With fewer than five clusters there is no alarm, but a
            warning.
        model: Name of the model in the message.
        allow_failed: Number of queries that may be lost. They still count as complete losses for
            the verdict ``no worse``.

    Returns:
        The comparison, if no feature is worse.

    Raises:
        FellShortError: A feature is worse, or too many queries are lost. The message shows the
            five worst queries and the facts that they lost. It is an ``AssertionError``.
        DatasetError: The baseline cannot be read, or has other queries.
        FeatureError: The baseline has other features.
        UnknownNameError: The baseline lacks one of ``features``.
        MirageError: The model or the queries have another fault.

    Example:
        >>> from mirage import MirageDataset, Query
        >>> from mirage.testing.baseline import baseline_of
        >>> queries = MirageDataset(
        ...     Query(id=f"q{i}", language="en", text="Who?", answers=[["Ada"]]) for i in range(20)
        ... )
        >>> earlier = baseline_of(lambda query: "It was Ada.", on=queries)
        >>> assert_no_regression(lambda query: "It was Ada.", earlier, on=queries).verdict
        'no worse'
    """
    action = inconclusive_action(inconclusive)
    runs = compare_with_baseline(
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
        warnings.warn(_cluster_warning(runs.comparison), stacklevel=3)
    return check_comparison(runs, action, allow_failed)


class BaselineComparison(NamedTuple):
    """A comparison of a run with its baseline, and the inputs of the comparison.

    Attributes:
        comparison: The comparison of the two runs.
        baseline: The baseline.
        dataset: The queries.
        run: The responses that are compared with the baseline.
        table: Features of the responses to all queries.
        clusters: Cluster of each query that has one, by query id.
    """

    comparison: Comparison
    baseline: Baseline
    dataset: MirageDataset
    run: Run
    table: FeatureTable
    clusters: Mapping[str, str]


def compare_with_baseline(
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
) -> BaselineComparison:
    """Return the comparison of :func:`assert_no_regression` without asserting anything.

    Args:
        system: The system, as for :func:`mirage.respond`.
        baseline: A file that :func:`save_baseline` has written, or the function's return value.
        alpha: Significance level of each verdict.
        margin: The mean loss that ``no worse`` rules out, as a share of a feature's range.
        features: Names of the baseline's features to compare; the default is described in
            :func:`assert_no_regression`.
        on: The queries that the baseline was saved on; by default the bundled queries of its
            language.
        suite: The features that the baseline was saved with; by default they are loaded by their
            names.
        cluster: Cluster of each query; by default :attr:`Query.cluster <mirage.Query>`.
        model: Name of the model in messages.

    Raises:
        SettingError: ``alpha`` or ``margin`` is not above 0 and below 1.
        MirageError: The baseline, the model or the queries have a fault.
    """
    if not 0 < alpha < 1:
        raise SettingError(f"alpha must be above 0 and below 1, such as 0.05; got {alpha!r}")
    if not 0 < margin < 1:
        raise SettingError(f"margin must be above 0 and below 1, such as 0.1; got {margin!r}")
    earlier = baseline if isinstance(baseline, Baseline) else read_baseline(baseline)
    dataset = dataset_of(earlier.table.language if on is None else on, system)
    earlier.check(dataset)
    names = _names_to_compare(earlier, features, dataset)
    suite = _suite_like(earlier, names, suite, on)
    run = run_of(system, dataset, model)
    table = suite.score(dataset, run, progress=False)
    clusters = clusters_of(dataset, cluster)
    # A query without an answer in the baseline has nothing to lose, so it is no evidence of "no
    # worse".
    before = earlier.table.select(earlier.answered).columns(names)
    comparison = compare(
        before,
        table,
        earlier.lower_is_better,
        clusters=clusters,
        alpha=alpha,
        margin=margin,
        identical=identical_answers(earlier, run),
        failed={*earlier.failed, *(response.query_id for response in run.failed)},
        runs=earlier.runs,
    )
    return BaselineComparison(comparison, earlier, dataset, run, table, clusters)


def later_baseline(runs: BaselineComparison) -> Baseline:
    """Return the later run of a comparison as a baseline, which a history can store."""
    table = replace(runs.table, clusters=runs.clusters)
    failed = {response.query_id: response.error or "" for response in runs.run.failed}
    return replace(
        runs.baseline,
        table=table,
        failed=failed,
        versions=versions(),
        digests=digests_of(runs.run),
        runs=1,
    )


def check_comparison(runs: BaselineComparison, inconclusive: str, allow_failed: int) -> Comparison:
    """Raise an error if the run is worse than its baseline or lost too many queries.

    Args:
        runs: The comparison.
        inconclusive: Outcome of an inconclusive comparison: ``"skip"``, ``"fail"`` or ``"pass"``.
        allow_failed: Number of queries that may be lost, see :func:`assert_no_regression`.

    Raises:
        FellShortError: A feature is worse, too many queries are lost, or the comparison is
            inconclusive and ``inconclusive`` is ``"fail"``.
    """
    comparison, earlier, dataset, run, *_ = runs
    check_lost(
        lost_queries(runs),
        "has no features for",
        run,
        dataset,
        allow_failed,
    )
    # Recorded before any error is raised, so that the JUnit file contains failed comparisons too.
    record("mirage.no_regression", _result_record(comparison, earlier, run))
    if comparison.verdict == "worse":
        raise _regression_error(comparison, earlier, dataset, run)
    if comparison.verdict == "inconclusive":
        # The texts are functions because extra_queries simulates, which takes seconds.
        settle_inconclusive(
            inconclusive,
            lambda: summary(comparison, extra_queries(comparison)),
            lambda: result_table(comparison, extra_queries(comparison)),
        )
    return comparison


def extra_queries(comparison: Comparison) -> ExtraQueries | None:
    """Estimate how many more queries or repeats would make a comparison conclusive.

    Returns:
        The estimate; ``None`` if the comparison is conclusive, or if more queries would not help:
        correctness was not measured, or a change of style alone is above the margin.
    """
    if comparison.verdict != "inconclusive" or _needs_more_than_queries(comparison):
        return None
    return extra_queries_needed(comparison)


def _needs_more_than_queries(comparison: Comparison) -> bool:
    """Return whether the comparison would stay inconclusive with any number of queries."""
    return (
        not comparison.evidence.is_enough
        or bool(_style_above_margin(comparison))
        or bool(_missing_above_margin(comparison))
    )


def _style_above_margin(comparison: Comparison) -> list[str]:
    """Return the features whose mean loss is above the margin but may be due to style alone."""
    losses = dict(zip(comparison.before.features, comparison.losses.mean(axis=0), strict=True))
    return [
        change.feature
        for change in comparison.inconclusive
        if change.allowance > 0 and losses[change.feature] > comparison.margin
    ]


def _missing_above_margin(comparison: Comparison) -> list[str]:
    """Return the features whose share of newly missing values is above the margin."""
    missing = newly_missing(comparison.before, comparison.after).mean(axis=0)
    shares = dict(zip(comparison.before.features, missing, strict=True))
    return [
        change.feature
        for change in comparison.inconclusive
        if change.feature in not_measured(comparison) and shares[change.feature] > comparison.margin
    ]


def _cluster_warning(comparison: Comparison) -> str:
    return (
        f"{len(comparison.before)} queries in {comparison.clusters} clusters are too few for an "
        f"alarm, however large the loss: at least {comparison.fewest} clusters are needed"
    )


def _names_to_compare(
    baseline: Baseline, features: Collection[str] | None, dataset: MirageDataset
) -> tuple[str, ...]:
    """Return the names of the features to compare.

    These are ``features``, all of which the baseline must have. ``None`` selects the default
    features of :func:`assert_no_regression`.
    """
    names = baseline.table.features
    if features is None:
        return default_names(names, dataset)
    requested = tuple(dict.fromkeys(map(canonical_name, features)))
    for name in requested:
        if name not in names:
            raise UnknownNameError("feature", name, names, "in the baseline")
    if not requested:
        raise SettingError("features is empty: name at least one feature, or omit features")
    return requested


def _suite_like(
    baseline: Baseline, names: Sequence[str], suite: FeatureSuite | None, on: Place
) -> FeatureSuite:
    """Return a suite with the features ``names``, to score the later run like the baseline.

    The features are taken from ``suite``, else from ``on`` if it is a leaderboard, else from the
    library.
    """
    saved = baseline.table.features
    if suite is not None and set(suite.names) != set(saved):
        differing = sorted(set(suite.names) ^ set(saved))
        raise FeatureError(
            f"the features {', '.join(differing)} are only in the baseline or only in the suite; "
            "compare with the suite of the baseline, or save the baseline again with this suite"
        )
    # User-defined features must come from the suite, as a baseline contains only their names.
    if suite is None and isinstance(on, Leaderboard):
        suite = on.suite
    by_name = {item.name: item for item in suite or ()}
    try:
        return FeatureSuite([by_name.get(name, name) for name in names])
    except (UnknownNameError, FeatureError) as error:
        raise FeatureError(
            f"a feature of the baseline cannot be loaded by its name ({error}); pass the suite "
            "with which the baseline was saved as suite="
        ) from None


def lost_queries(runs: BaselineComparison) -> list[Finding]:
    """Return the lost queries, each with the reason.

    A query is lost if the model failed on it, or if a feature has a value in the baseline only.
    If the run has repeats, one failure is enough for a query to be lost, unless it failed in the
    baseline too.
    """
    comparison, failed_before = runs.comparison, runs.baseline.failed
    failures = {response.query_id: response.error for response in runs.run.failed}
    missing = newly_missing(comparison.before, comparison.after)
    failed = [id_ in failures for id_ in comparison.before.query_ids]
    may_lack = [name in GATED and GATED[name].may_lack for name in comparison.before.features]
    # A good answer may lack the feature, so only failed responses count as lost for it.
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


def _result_record(comparison: Comparison, baseline: Baseline, run: Run) -> dict[str, Any]:
    """Return the verdict, settings and feature means as a dictionary for the JUnit file."""
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
        "queries": len(comparison.before),
        "left_out": comparison.left_out,
        "repeats": _repeat_count(comparison.after),
        "baseline_runs": comparison.runs,
        "clusters": comparison.clusters,
        "failed": len(run.failed),
        "alpha": comparison.alpha,
        "margin": comparison.margin,
        "features": features,
        "not_compared": comparison.not_compared,
        "not_measured": not_measured(comparison),
        "evidence": comparison.evidence.kinds,
        "worse": worse,
        "verdict": comparison.verdict,
        "held": not worse,
    }


def result_table(comparison: Comparison, more: ExtraQueries | None = None) -> str:
    """Return a text table for a comparison whose verdict is ``no worse`` or ``inconclusive``.

    The table is at most 80 characters wide. ``more`` is the estimate of :func:`extra_queries`, to
    be mentioned above the table; ``None`` if there is no estimate.
    """
    rows = tuple(_row(change) for change in comparison.inconclusive or comparison.compared)
    notes = tuple(table_notes(comparison, [_legend(comparison)] if rows else []))
    return to_text(Table(summary(comparison, more), _HEADER, rows, notes=notes, name=0))


def summary(comparison: Comparison, more: ExtraQueries | None = None) -> str:
    """Return one sentence about a comparison whose verdict is ``no worse`` or ``inconclusive``.

    ``more`` is the estimate of :func:`extra_queries`, which the sentence mentions if the verdict is
    ``inconclusive``; ``None`` if there is no estimate.
    """
    model, margin = comparison.after.model, f"{comparison.margin:g}"
    queries = _describe_queries(comparison)
    if comparison.unchanged and comparison.inconclusive:
        return f"{model} is no worse than the baseline: {identical_line(comparison)}"
    if comparison.verdict == "no worse":
        names = ", ".join(change.feature for change in comparison.compared)
        rest = ", ".join(comparison.not_compared)
        missing = f"; not compared: {rest}" if rest else ""
        return (
            f"{model} is no worse than the baseline by more than {margin} in {names}: "
            f"{queries}{missing}"
        )
    why = f"cannot tell whether {model} is worse than the baseline"
    if not comparison.compared:
        return f"{why}: no query has a value of any feature in both runs"
    names = ", ".join(change.feature for change in comparison.inconclusive)
    sentence = f"{why}: on {queries}, a loss above {margin} is not ruled out in {names}"
    rangeless = [c.feature for c in comparison.inconclusive if np.isinf(c.lost_at_most)]
    if rangeless:
        return f"{sentence}; declare the range of {', '.join(rangeless)} (mirage.features.Facts)"
    missing = ", ".join(_missing_above_margin(comparison))
    style = ", ".join(_style_above_margin(comparison))
    if not comparison.evidence.is_enough:
        return f"inconclusive: {comparison.evidence.lack}"
    if style:
        return (
            f"{sentence}; the drop of {style} may come from another style alone: read some "
            "answers, and save a new baseline if the new style is intended"
        )
    if missing:
        return (
            f"{sentence}; too many answers lack a value of {missing} that the baseline has: read "
            "some of them, and save a new baseline if they are intended"
        )
    advice = [str(more)] if more else []
    if comparison.left_out:
        advice.append("save a baseline that has answers to all queries")
    return "; ".join([sentence, *advice])


def table_notes(comparison: Comparison, legend: Sequence[str] = ()) -> list[str]:
    """Return the notes below a table of changes.

    They state how many queries the correctness measures cover, how many answers are identical,
    whether noise between runs is included, how much loss counts as style, how many values are
    missing now, and which features were not compared. ``legend`` contains further notes, which
    explain the columns.
    """
    identical = identical_line(comparison)
    return [
        *([_left_out_line(comparison)] if comparison.left_out else []),
        str(comparison.evidence),
        *([identical] if identical else []),
        *_run_noise_lines(comparison),
        *_allowance_lines(comparison),
        *_missing_lines(comparison),
        *legend,
        *(f"not compared, {name}: {why}" for name, why in comparison.not_compared.items()),
    ]


def _left_out_line(comparison: Comparison) -> str:
    number = comparison.left_out
    return (
        f"{number} {'query is' if number == 1 else 'queries are'} not compared, because the "
        "baseline has no answer to them"
    )


def identical_line(comparison: Comparison) -> str:
    """Return a line with the number of answers that equal the baseline's; empty if unknown."""
    if comparison.identical is None:
        return ""
    same, queries = int(comparison.identical.sum()), len(comparison.identical)
    return f"{same} of {queries} answers are identical to the baseline's"


def _run_noise_lines(comparison: Comparison) -> list[str]:
    """Return a line that states whether the verdict allows for noise between runs.

    The list is empty if all answers are identical to the baseline's.
    """
    if comparison.unchanged:
        return []
    if comparison.runs >= FEWEST_RUNS:
        return [f"Noise between runs is estimated from the {comparison.runs} runs of the baseline"]
    return [
        f"Noise between runs is not included; save a baseline of {FEWEST_RUNS} runs to include it"
    ]


def _allowance_lines(comparison: Comparison) -> list[str]:
    """Return a line for each feature whose loss may partly be due to style."""
    lines = []
    for change in comparison.compared:
        allowance = format_value(change.allowance)
        if float(allowance) > 0:
            lines.append(
                f"{change.feature}: {allowance} of its loss counts as style and raises no alarm; "
                f"the loss beyond style is at most {format_value(change.beyond_at_most)}; the "
                f"whole loss, which “no worse” tests, is at most "
                f"{format_value(change.lost_at_most)}"
            )
    return lines


def not_measured(comparison: Comparison) -> dict[str, dict[str, int]]:
    """Count the values that only the baseline has, by feature and reason.

    Queries that the model failed on are not counted.
    """
    before, after = comparison.before, comparison.after
    missing = newly_missing(before, after)
    missing &= np.array([id_ not in comparison.failed for id_ in before.query_ids])[:, None]
    counts: dict[str, dict[str, int]] = {}
    for i, j in np.argwhere(missing):
        name = before.features[j]
        why = after.reasons.get((before.query_ids[i], name), "no value")
        reasons = counts.setdefault(name, {})
        reasons[why] = reasons.get(why, 0) + 1
    return counts


def _missing_lines(comparison: Comparison) -> list[str]:
    """Return a line for failed queries, and one for each feature that lacks other values."""
    lines = _failure_lines(comparison)
    for name, reasons in not_measured(comparison).items():
        number, queries = sum(reasons.values()), len(comparison.before)
        why = "; ".join(f"{reason} ({count})" for reason, count in reasons.items())
        lines.append(
            f"{name}: {number} of {queries} queries have a value in the baseline only and count as "
            f"complete losses in “lost ≤”: {why}"
        )
    return lines


def _failure_lines(comparison: Comparison) -> list[str]:
    """Return a line with the number of failed queries that have values in the baseline."""
    before = comparison.before
    missing = newly_missing(before, comparison.after).any(axis=1)
    failed = [id_ in comparison.failed for id_ in before.query_ids]
    number = int((missing & np.array(failed)).sum())
    if not number:
        return []
    return [
        f"The model failed on {number} of {len(before)} queries that have values in the baseline; "
        "they count as complete losses in “lost ≤” only"
    ]


def _regression_error(
    comparison: Comparison, baseline: Baseline, dataset: MirageDataset, run: Run
) -> FellShortError:
    alpha = comparison.alpha
    worse = comparison.regressed(alpha)
    names = [change.feature for change in worse]
    findings = worse_than_before(comparison, names, dataset, run)
    worst_run = _worst_repeats(comparison, run, names)
    return shortfall_error(
        f"{run.model} is worse than the baseline in {', '.join(names)}, on {dataset.name} at "
        f"alpha {alpha:g}",
        _HEADER,
        [(_row(change), change in worse) for change in comparison.compared],
        [
            *table_notes(comparison, [_legend(comparison)]),
            *_version_lines(baseline),
            *worst_lines(findings, f"Queries with worse {' or '.join(names)}", dataset, worst_run),
        ],
    )


def worse_than_before(
    comparison: Comparison, names: Sequence[str], dataset: MirageDataset, run: Run
) -> list[Finding]:
    """Return the queries that got worse in the features ``names``, the worst first."""
    features = comparison.before.features
    worsening = comparison.tested
    # Features have different units, so losses are divided by their root mean square.
    size = np.sqrt(np.nan_to_num(worsening**2).mean(axis=0))
    before, after = comparison.before.values, comparison.after.values
    run = _worst_repeats(comparison, run, names)
    return worse_queries(
        worsening / np.where(size > 0, size, 1.0),
        comparison.before,
        lambda i, j: _append_words(
            f"{features[j]} {format_value(before[i, j])} → {format_value(after[i, j])}",
            lost_fact(features[j], _item(comparison.before.query_ids[i], dataset, run)),
        ),
        [features.index(name) for name in names],
        [features.index(name) for name in features if name in FACTS],
    )


_HEADER = ("feature", "before", "now", "change", "worse", "better", "p", "lost ≤")


def _legend(comparison: Comparison) -> str:
    return (
        f"worse, better: number of the {_describe_queries(comparison)}; p: p-value after the "
        "allowance for another wording, corrected for the number of features; lost ≤: upper bound "
        "of the mean loss over all queries, as a share of the feature's range, at the level "
        f"{1 - comparison.alpha:g}"
    )


def _worst_repeats(comparison: Comparison, run: Run, names: Sequence[str]) -> Run:
    """Return a run that contains, for each query, only the repeat that is worst in ``names``."""
    table = comparison.after
    if table.repeats is None:
        return run
    columns = [table.features.index(name) for name in names]
    sign = np.array([1.0 if name in comparison.lower else -1.0 for name in names])
    badness = np.nan_to_num(sign * table.repeats[:, :, columns]).sum(axis=2)
    worst_repeat = dict(zip(table.query_ids, badness.argmax(axis=0).tolist(), strict=True))
    responses = (
        run.repeats[worst_repeat[response.query_id]].get(response.query_id) or response
        for response in run
    )
    return run.model_copy(update={"responses": tuple(responses)})


def _describe_queries(comparison: Comparison) -> str:
    """Return the number of queries, repeats and clusters in words."""
    queries = f"{len(comparison.before)} queries"
    if comparison.left_out:
        queries = (
            f"{len(comparison.before)} of {len(comparison.before) + comparison.left_out} queries"
        )
    times = _repeat_count(comparison.before), _repeat_count(comparison.after)
    if times != (1, 1):
        before, now = ("once" if number == 1 else f"{number} times" for number in times)
        queries += f", each asked {before}" + (f" before and {now} now" if now != before else "")
    if comparison.clusters == len(comparison.before):
        return queries
    return f"{queries}, in {comparison.clusters} clusters that count as one each"


def _repeat_count(table: FeatureTable) -> int:
    return 1 if table.repeats is None else len(table.repeats)


def _item(query_id: str, dataset: MirageDataset, run: Run) -> Answered:
    return answered(dataset[query_id], run[query_id])


def _append_words(numbers: str, words: str) -> str:
    return f"{numbers} ({words})" if words else numbers


def _row(change: Change) -> tuple[str, ...]:
    before, after = change.before, change.after
    means = format_value(before), format_value(after), format_change(before, after)
    counts = str(change.worse), str(change.better)
    at_most = format_value(change.lost_at_most) if np.isfinite(change.lost_at_most) else "any"
    return change.feature, *means, *counts, f"{change.p:.4f}", at_most


def _version_lines(baseline: Baseline) -> list[str]:
    """Return a line that lists the packages whose version changed since the baseline was saved.

    The list is empty if no version changed.
    """
    current = versions()
    changed = [
        f"{package} {baseline.versions.get(package, 'none')} → {current.get(package, 'none')}"
        for package in sorted({*current, *baseline.versions})
        if baseline.versions.get(package) != current.get(package)
    ]
    if not changed:
        return []
    return [f"Since the baseline: {', '.join(changed)}; this alone can change feature values"]
