"""mirage logs: measure production logs, and compare two of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import (
    LogReading,
    check_folder,
    dataset_of,
    executor_of,
    file_of,
    input_files,
    language_of,
    log_of,
    log_reading,
)
from mirage.cli._logs import (
    drift_plain,
    each_text,
    log_plain,
    log_text,
    measured_logs,
    model_logs,
    streamed_plain,
    untested_plain,
    watch_plain,
)
from mirage.cli._output import out_either, say
from mirage.cli._shell import argument, end_inconclusive, example, fall_short, flag, group, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.monitoring.drifts import Drift, Shift
    from mirage.monitoring.logs import Log

commands = group("logs", "Measure production logs, and detect drift.")


@commands.command(
    epilog=example(
        "mirage logs features log.jsonl --language sw",
        "mirage logs features log.jsonl --language sw --field answer=output.text",
        "mirage logs features log.parquet --language sw --jobs -1 --out values.parquet",
    )
)
def features(
    logs: Annotated[
        list[str],
        argument(
            "LOGS",
            "Logs as JSON Lines, Parquet or CSV, with a question, its passages and the answer per "
            "line. A log is named after its file; NAME=FILE sets another name.",
        ),
    ],
    language: options.RequiredLanguage = None,
    feature: options.Features = None,
    tests: Annotated[
        Path | None,
        option(
            "FILE",
            "Also list the documents that were retrieved in the log, but are not in this test set.",
        ),
    ] = None,
    cluster: options.LogCluster = None,
    field: options.Fields = None,
    form: options.LogFormat = None,
    skip_damaged: options.SkipDamaged = False,
    out: options.ValueFile = None,
    jobs: options.Jobs = 1,
    executor: options.Executor = None,
    as_json: options.Json = False,
) -> None:
    """Compute features of the answers in logs.

    Features that need a reference answer are not measured, because logs have none. The table gives
    the reason for each feature that could not be measured.
    """
    code = language_of(language)
    reading = log_reading(field, cluster, form, skip_damaged)
    if executor is not None and out is None:
        raise MirageError("--executor needs --out FILE, the file to which the values are written")
    if out is not None:
        if tests is not None:
            raise MirageError(
                "--out cannot be combined with --tests; run a separate command for each"
            )
        _write(code, logs, reading, feature, out, jobs, executor, as_json)
        return
    parts = model_logs(code, input_files(logs), reading)
    sides = measured_logs(parts, feature, jobs)
    texts = [log_text(log, side) for log, side in zip(parts, sides, strict=True)]
    plain = list(map(log_plain, sides))
    if tests is not None:
        from mirage.monitoring.untested import untested_documents

        queries = dataset_of(None, tests)
        results = [untested_documents(part, queries) for part in parts]
        texts += map(str, results)
        plain = [
            side | {"untested": untested_plain(result)}
            for side, result in zip(plain, results, strict=True)
        ]
    out_either("\n\n".join(texts), plain, as_json)


def _write(
    language: str,
    logs: list[str],
    reading: LogReading,
    features: list[str] | None,
    path: Path,
    jobs: int,
    executor: str | None,
    as_json: bool,
) -> None:
    """Write feature values to a file, reading the log block by block, and print the means."""
    from mirage.features import FeatureSuite
    from mirage.monitoring.log_streams import measure_log_file

    if len(logs) != 1:
        raise MirageError(
            f"--out needs a single log, got {len(logs)}; run a separate command for each log"
        )
    check_folder(path)
    ((name, file),) = input_files(logs).items()
    with executor_of(executor) as workers:
        measured = measure_log_file(
            file,
            path,
            language=language,
            **reading._asdict(),
            model=name,
            suite=FeatureSuite(features) if features else None,
            n_jobs=jobs,
            executor=workers,
        )
    text = "\n\n".join(log_text(log, log.measures) for log in measured)
    out_either(text, list(map(streamed_plain, measured)), as_json)


@commands.command(
    epilog=example(
        "mirage logs drift last-week.jsonl this-week.jsonl --language sw",
        "mirage logs drift log.jsonl --language sw --by week --margin 0.1",
        "mirage logs drift log.jsonl --language sw --by week --each",
    )
)
def drift(
    logs: Annotated[
        list[Path],
        argument(
            "BEFORE [AFTER]",
            "Two logs, the earlier one first, or a single log with --by. A log is JSON Lines, with "
            "a question, its passages and the answer per line; - reads standard input.",
        ),
    ],
    language: options.RequiredLanguage = None,
    by: Annotated[
        str | None,
        option(
            "PERIOD",
            "With one log: compare its last period with all earlier periods. PERIOD is day, week "
            "or month.",
        ),
    ] = None,
    each: Annotated[
        bool,
        flag(
            "With --by: compare each period with all the others together. Prints a table of all "
            "periods, and then all measures of each period that differs.",
            "--each",
        ),
    ] = False,
    margin: Annotated[
        float | None,
        option(
            "SHARE",
            "Also test whether a loss above this share of a measure's range can be ruled out.",
        ),
    ] = None,
    alpha: options.Alpha = 0.05,
    feature: options.Features = None,
    cluster: options.LogCluster = None,
    field: options.Fields = None,
    form: options.LogFormat = None,
    skip_damaged: options.SkipDamaged = False,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Compare two periods of a system's logs.

    The questions may differ between the periods, and no reference answers are needed. The command
    compares the features that need no reference, the retrieved passages, failures and abstentions,
    and the questions themselves.

    Each period needs at least four days, because results vary from day to day.

    Exit status: 1 if a measure got significantly worse; 3 if the result is inconclusive, because no
    measure has a confidence interval, significantly fewer questions could be measured or, with
    --margin, a loss above the margin cannot be ruled out; 0 otherwise.
    """
    from mirage.features import FeatureSuite
    from mirage.monitoring import drift as compare_logs

    reading = log_reading(field, cluster, form, skip_damaged)
    if each:
        _compare_each(language, logs, by, margin, reading, feature, alpha, jobs, as_json)
        return
    before, after = _read_two(language_of(language), logs, by, reading)
    result = compare_logs(
        before,
        after,
        suite=FeatureSuite(feature) if feature else None,
        margin=margin,
        alpha=alpha,
        n_jobs=jobs,
    )
    text = str(result)
    if margin is not None and result.verdict == "no worse":
        text += f"\nno worse: no measure lost {margin:g} of its range"
    out_either(text, drift_plain(result), as_json)
    fall_short([_loss(result)] if result.fell else [])
    if result.verdict == "inconclusive":
        end_inconclusive([_inconclusive(result)])


@commands.command(epilog=example("mirage logs watch log.jsonl --language sw"))
def watch(
    file: Annotated[
        Path,
        argument(
            "LOG",
            "Log as JSON Lines, with a question, its passages, the answer and the time per line; - "
            "reads standard input.",
        ),
    ],
    language: options.RequiredLanguage = None,
    by: Annotated[
        str, option("PERIOD", "Length of the periods to compare: day, week or month.")
    ] = "day",
    alpha: Annotated[float, option("P", "Probability of any false alarm in all periods.")] = 0.05,
    feature: options.Features = None,
    cluster: options.LogCluster = None,
    field: options.Fields = None,
    form: options.LogFormat = None,
    skip_damaged: options.SkipDamaged = False,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Detect lasting drops in a growing log.

    Run it every day on the whole log: the probability of any false alarm stays below --alpha
    however often you look. The command reports each measure with a lasting drop, and when it began.
    Differences between days of the week raise no alarm.

    A day with few questions counts less than a full day, and so does the current day.

    Exit status: 1 if a measure has dropped; 3 if there are too few periods, no measure that can get
    worse, or a growing share of questions that could not be measured; 0 otherwise.
    """
    from mirage.features import FeatureSuite
    from mirage.monitoring import watch as watch_log
    from mirage.monitoring.drifts import describe_less_measured

    log = log_of(
        language_of(language), file_of(file), log_reading(field, cluster, form, skip_damaged)
    )
    suite = FeatureSuite(feature) if feature else None
    result = watch_log(log, period=by, suite=suite, alpha=alpha, n_jobs=jobs)
    out_either(str(result), watch_plain(result), as_json)
    drops = [f"{trend.feature} is worse since {trend.since}" for trend in result.fell]
    fall_short([f"{result.name}: {', '.join(drops)}"] if drops else [])
    if not result.has_enough:
        end_inconclusive(
            [f"at least {result.needed} periods are needed, got {len(result.periods)}"]
            if result.trends
            else ["no measure that can get worse was measured"]
        )
    if result.less_measured:
        end_inconclusive([describe_less_measured(result.less_measured)])


def _compare_each(
    language: str | None,
    paths: list[Path],
    by: str | None,
    margin: float | None,
    reading: LogReading,
    feature: list[str] | None,
    alpha: float,
    jobs: int,
    as_json: bool,
) -> None:
    """Compare each period of a log with all other periods; see ``mirage logs drift --each``."""
    from mirage.features import FeatureSuite
    from mirage.monitoring.drifts import drift_each

    if len(paths) != 1 or by is None or margin is not None:
        raise MirageError(
            "--each needs one log and --by (day, week or month), and cannot be combined with "
            "--margin"
        )
    log = log_of(language_of(language), file_of(paths[0]), reading)
    suite = FeatureSuite(feature) if feature else None
    results = drift_each(log, by, suite=suite, alpha=alpha, n_jobs=jobs)
    text = each_text(log.dataset.name, by, results)
    plain = {"periods": {name: drift_plain(result) for name, result in results.items()}}
    out_either(text, plain, as_json)
    fall_short([_loss(result) for result in results.values() if result.fell])
    fewer = [result for result in results.values() if result.less_measured]
    if fewer or all(result.verdict == "inconclusive" for result in results.values()):
        end_inconclusive([_inconclusive(each) for each in fewer or [*results.values()][:1]])


def _read_two(
    language: str, paths: list[Path], by: str | None, reading: LogReading
) -> tuple[Log, Log]:
    """Return an earlier and a later log, from two files or from one file split by ``by``.

    ``by`` is a period, such as ``week``: the later log has the last period of the file, and the
    earlier log the periods before it.
    """
    if len(paths) > 2 or (len(paths) == 2) == (by is not None):
        raise MirageError("give two logs, or one log and --by day, week or month")
    logs = [log_of(language, file_of(path), reading) for path in paths]
    if by is None:
        return logs[0], logs[1]
    before, after = logs[0].last(by)
    say(f"{before.dataset.name}: {len(before.dataset)} questions; then {len(after.dataset)}")
    return before, after


def _loss(result: Drift) -> str:
    changes = ", ".join(
        f"{shift.feature} from {shift.before:.3f} to {shift.after:.3f}" for shift in result.fell
    )
    return f"{result.after} is worse than {result.before}: {changes}"


def _inconclusive(result: Drift) -> str:
    from mirage.monitoring.drifts import describe_less_measured

    if result.needed_days:
        return result.needed_days
    if result.less_measured:
        return describe_less_measured(result.less_measured)
    if not result.comparable:
        return "no measure that could get worse has an interval"
    inconclusive = ", ".join(shift.feature for shift in result.inconclusive)
    words = f"{inconclusive} may have lost more than {result.margin:g} of the range"
    fewer = [shift.feature for shift in result.inconclusive if _newly_missing(shift, result)]
    return f"{words}; too few questions have a value of {', '.join(fewer)}" if fewer else words


def _newly_missing(shift: Shift, result: Drift) -> bool:
    """Return whether the share of questions that newly lack a value is above the margin."""
    before, after = (n / total for n, total in zip(shift.queries, result.queries, strict=True))
    return result.margin is not None and 1 - after / before > result.margin
