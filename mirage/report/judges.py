"""Measure the judges behind a ranking and show agreement and biases in tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mirage._base.logs import logger
from mirage.arena import judge_agreement, position_bias, verbosity_bias
from mirage.arena.agreement import JudgeAgreement, PairAgreement
from mirage.arena.biases import PositionBias, SelfPreference, VerbosityBias
from mirage.dataset import clusters_of
from mirage.errors import JudgmentError, MirageError, UnknownNameError
from mirage.languages import Language
from mirage.metaeval import MetaEvaluation
from mirage.metaeval.consistency import LanguageConsistency
from mirage.metaeval.gold import MEAN
from mirage.metaeval.results import JudgeResult
from mirage.models import HumanAgreement, Query, Run, Vote
from mirage.report.drawing import Scale, axis, interval
from mirage.report.elements import label, tag
from mirage.report.sections import scrolling, table
from mirage.statistics.bootstrap import NO_INTERVAL, Interval

_LOG = logger("mirage.report")

_Agreement = JudgeAgreement | PairAgreement
_Bias = PositionBias | VerbosityBias | SelfPreference
_Accuracy = MetaEvaluation | HumanAgreement


class Unmeasured(NamedTuple):
    """A property of the judges that could not be measured.

    Attributes:
        what: The property, such as ``"position bias"``.
        why: The reason.
    """

    what: str
    why: str


JudgeFinding = _Bias | _Agreement | _Accuracy | LanguageConsistency | Unmeasured
"""Any result on judges that a report can show."""

# One table per kind of result, because each has its own scale: type, title and explanation.
_TABLES = (
    (
        _Agreement,
        "Agreement between judges",
        "Kappa is the agreement beyond chance: 1 is full agreement, 0 is chance.",
    ),
    (
        LanguageConsistency,
        "Agreement with itself across languages",
        "1 is the same verdicts on the same items in every language, 0 is chance. A judge that "
        "makes the same errors in all languages also has 1.",
    ),
    (
        _Bias,
        "Biases",
        "0 is no bias. Position: above 0 the judge favours the response shown first. "
        "Self-preference: above 0 the judge favours its own family. Verbosity, in log-odds: above "
        "0 the judge favours the longer answer.",
    ),
    (
        _Accuracy,
        "Agreement with people",
        "Balanced accuracy on sentences labelled by people: 0.5 is random guessing of two labels.",
    ),
)


class _Line(NamedTuple):
    what: str
    value: float
    interval: Interval
    details: str


def measure_judges(
    votes: Iterable[Vote], dataset: Iterable[Query], runs: Iterable[Run]
) -> list[JudgeFinding]:
    """Measure agreement, position bias and verbosity bias of judges from their votes.

    Pass the result to :meth:`mirage.Ranking.write` as ``judges``. If the votes do not suffice to
    measure a property, its result is an ``Unmeasured`` with the reason, and a warning is logged.
    For example, position bias needs votes on pairs that were judged in both orders.

    Args:
        votes: The votes of the judges.
        dataset: The queries that were judged.
        runs: The judged responses, which the verbosity bias needs.

    Example:
        >>> from mirage.report.judges import measure_judges
        >>> measure_judges([], [], [])
        [Unmeasured(what='judges', why='there are no votes')]
    """
    votes, dataset, runs = list(votes), list(dataset), list(runs)
    cluster = clusters_of(dataset)
    measures: dict[str, Callable[[], JudgeFinding]] = {
        "agreement": lambda: judge_agreement(votes, cluster=cluster),
        "position bias": lambda: position_bias(votes, cluster=cluster),
        "verbosity bias": lambda: _verbosity(votes, dataset, runs),
    }
    if not votes:
        measures = {"judges": lambda: Unmeasured("judges", "there are no votes")}
    measured = []
    for what, measure in measures.items():
        try:
            finding = measure()
        except (JudgmentError, UnknownNameError) as error:
            finding = Unmeasured(what, str(error))
        if isinstance(finding, Unmeasured):
            _LOG.warning("left out of the report: %s (%s)", *finding)
        measured.append(finding)
    return measured


def _verbosity(votes: list[Vote], dataset: list[Query], runs: list[Run]) -> JudgeFinding:
    """Return the verbosity bias, or an ``Unmeasured`` if ``runs`` lacks a judged model."""
    judged = dict.fromkeys(model for vote in votes for model in (vote.model_a, vote.model_b))
    missing = [model for model in judged if model not in {run.model for run in runs}]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        why = "runs must contain the judged responses, but has none of "
        return Unmeasured("verbosity bias", f"{why}{', '.join(map(repr, missing[:5]))}{more}")
    return verbosity_bias(votes, dataset, runs)


def findings(judges: Iterable[JudgeFinding]) -> Iterator[Element]:
    """Yield a table for each kind of finding about judges.

    A list of the judges' properties that could not be measured comes last.

    Raises:
        MirageError: If an item is not a finding about judges.
    """
    judges = list(judges)
    for finding in judges:
        if not isinstance(finding, JudgeFinding):
            raise MirageError(
                f"judges must contain results of mirage.arena or mirage.metaeval, such as "
                f"position_bias(votes), not {type(finding).__name__}"
            )
    for kind, title, hint in _TABLES:
        lines = [
            line for finding in judges if isinstance(finding, kind) for line in _lines(finding)
        ]
        if lines:
            yield _table(title, hint, lines)
    if unmeasured := dict.fromkeys(result for result in judges if isinstance(result, Unmeasured)):
        items = (
            tag("li", tag("bdi", f"{what[:1].upper()}{what[1:]}: {why[:600]}"))
            for what, why in unmeasured
        )
        yield tag("div", tag("h3", "Not measured"), tag("ul", items, class_="hint"))


def _lines(finding: JudgeFinding) -> Iterator[_Line]:
    match finding:
        case HumanAgreement(language=language, interval=ends):
            scope = Language.of(language).name if language else "mean over languages"
            name = f"{label(finding.judge)}, {label(finding.task)}, {scope}"
            yield _Line(name, finding.balanced_accuracy, ends or NO_INTERVAL, finding.source)
            return
        case Unmeasured():
            return
        case MetaEvaluation(truth=truth):
            codes = truth.languages if len(truth.languages) > 1 else ()
            yield from (_judge_line(result, codes) for result in finding)
            return
        case LanguageConsistency():
            yield from _consistency_lines(finding)
            return
        case JudgeAgreement(judges=judges):
            name = f"All {len(judges)} judges (Fleiss)"
        case PairAgreement(judges=judges):
            name = f"{' and '.join(map(label, judges))} (Cohen)"
        case PositionBias():
            name = "Position"
        case VerbosityBias():
            name = "Verbosity"
        case SelfPreference(judge=judge, family=family):
            name = f"Self-preference of {label(judge)} for {label(family)}"
    yield _Line(name, finding.value, finding.interval, str(finding))
    for pair in finding.pairs if isinstance(finding, JudgeAgreement) else ():
        yield from _lines(pair)


def _consistency_lines(result: LanguageConsistency) -> Iterator[_Line]:
    summary = (
        f"{result.items} items of {result.queries} queries in {len(result.languages)} languages; "
        f"the same verdict in {100 * result.agreement:.1f} % of the pairs of languages"
    )
    name = f"{label(result.judge)}, all languages (Krippendorff's alpha)"
    yield _Line(name, result.alpha, result.alpha_interval, summary)
    for code in result.languages:
        missing = f"; {result.missing[code]} without a verdict" if result.missing[code] else ""
        yield _Line(
            f"{Language.of(code).name} with the others",
            result.kappas[code],
            result.kappas_intervals[code],
            f"mean of Cohen's kappas{missing}",
        )


def _judge_line(result: JudgeResult, codes: Sequence[str]) -> _Line:
    mean = result[MEAN]
    parts = [f"{mean.sentences} sentences of {mean.queries} queries"]
    shares = [f"{code} {text}" for code in codes if (text := result[code].with_interval)]
    if shares:
        parts.append(f"by language, in % with intervals: {', '.join(shares)}")
    if result.threshold:
        parts.append(result.threshold)
    return _Line(label(result.name), mean.balanced_accuracy, mean.interval, "; ".join(parts))


def _table(title: str, hint: str, lines: list[_Line]) -> Element:
    scale = Scale.over([end for line in lines for end in (0.0, line.value, *line.interval)])
    head = [
        tag("th", "Measure", scope="col"),
        tag("th", "Value", scope="col", class_="number"),
        tag("th", "Interval", axis(scale), scope="col", class_="drawn"),
        tag("th", "Details", scope="col"),
    ]
    rows = []
    for what, value, ends, details in lines:
        number = "—" if math.isnan(value) else f"{value:.3f}".replace("-", "−")
        rows.append(
            tag(
                "tr",
                tag("th", tag("bdi", what), scope="row"),
                tag("td", number, class_="number"),
                tag("td", interval(scale, value, ends), class_="drawn"),
                tag("td", tag("bdi", details[:600]), class_="words"),
            )
        )
    rendered = table(head, rows, class_="judges")
    return tag("div", tag("h3", title), *scrolling(rendered, title, hint))
