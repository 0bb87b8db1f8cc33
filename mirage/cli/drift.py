"""mirage drift: does a system answer worse than it did, by its logs?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import file_of, log_fields, log_of
from mirage.cli._logs import drift_plain
from mirage.cli._output import out_either, say
from mirage.cli._shell import app, argument, end, example, fall_short, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.sources.logs import Log
    from mirage.testing import Drift

__all__ = ["drift"]


@app.command(
    epilog=example(
        "mirage drift sw last-week.jsonl this-week.jsonl",
        "mirage drift sw log.jsonl --by week --margin 0.1",
    )
)
def drift(
    language: options.Language,
    logs: Annotated[
        list[Path],
        argument("BEFORE [AFTER]", "Logs: questions, passages and answers; - is standard input."),
    ],
    by: Annotated[
        str | None,
        option(
            "PERIOD",
            "Of one log: compare its last day, week or month with all before.",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        option("SHARE", "Also say whether more than this may be lost, of each measure's range."),
    ] = None,
    cannot_tell: Annotated[
        int,
        option("STATUS", "Exit status if the result is inconclusive; 0 passes.", min=0, max=125),
    ] = 2,
    alpha: Annotated[float, option("P", "The probability of a false alarm.")] = 0.05,
    feature: options.Features = None,
    cluster: options.Cluster = None,
    field: options.Fields = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Compare two weeks of a system's logs.

    The questions may differ, and no references are needed. The command compares features that need
    no reference, what was retrieved, failures and abstentions, and the questions themselves.

    Exit status: 1 if something got worse by more than chance; 2 if the comparison is inconclusive,
    because no measure has an interval or, with --margin, because more than the margin may be lost;
    0 otherwise.
    """
    from mirage.features import FeatureSuite
    from mirage.testing import drift as compared

    before, after = _two(language, logs, by, log_fields(field, cluster))
    result = compared(
        before,
        after,
        suite=FeatureSuite(feature) if feature else None,
        margin=margin,
        alpha=alpha,
        seed=seed,
        n_jobs=jobs,
    )
    out_either(_format_result(result), drift_plain(result), as_json)
    fall_short([_fell(result)] if result.fell else [])
    if result.verdict == "cannot tell":
        end(cannot_tell)


def _two(
    language: str, paths: list[Path], by: str | None, fields: dict[str, str]
) -> tuple[Log, Log]:
    """The earlier log and the later one."""
    if len(paths) > 2 or (len(paths) == 2) == (by is not None):
        raise MirageError("give two logs, or one with --by day, week or month")
    read = [log_of(language, file_of(path), fields) for path in paths]
    if by is None:
        return read[0], read[1]
    before, after = read[0].last(by)
    say(f"{before.dataset.name}: {len(before.dataset)} questions; then {len(after.dataset)}")
    return before, after


def _fell(result: Drift) -> str:
    changes = ", ".join(
        f"{shift.feature} from {shift.before:.3f} to {shift.after:.3f}" for shift in result.fell
    )
    return f"{result.after} is worse than {result.before}: {changes}"


def _format_result(result: Drift) -> str:
    if not (result.fell or result.measured):
        return f"{result}\ncannot tell: no measure that could get worse has an interval"
    if result.margin is None or result.fell:
        return str(result)
    share = f"{result.margin:g}"
    if result.verdict == "no worse":
        return f"{result}\nno worse: no measure lost {share} of its range"
    unclear = ", ".join(shift.feature for shift in result.unclear)
    return f"{result}\ncannot tell: {unclear} may have lost more than {share} of its range"
