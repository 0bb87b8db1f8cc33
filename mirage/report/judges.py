"""What is known of the judges behind a ranking, as a table: agreement and biases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from mirage._base.logs import logger
from mirage.arena import (
    JudgeAgreement,
    PairAgreement,
    PositionBias,
    SelfPreference,
    VerbosityBias,
    judge_agreement,
    position_bias,
    verbosity_bias,
)
from mirage.dataset import clusters_of
from mirage.errors import JudgmentError, MirageError, UnknownNameError
from mirage.languages import Language
from mirage.metaeval import MEAN, JudgeResult, LanguageConsistency, MetaEvaluation
from mirage.models import HumanAgreement, Query, Run, Vote
from mirage.report._drawing import Scale, axis, interval
from mirage.report._elements import label, tag
from mirage.report._sections import scrolling, table
from mirage.statistics.bootstrap import NO_INTERVAL, Interval

__all__ = ["JudgeFinding", "Unmeasured", "findings", "measure_judges"]

_LOG = logger("mirage.report")

_Agreement = JudgeAgreement | PairAgreement
_Bias = PositionBias | VerbosityBias | SelfPreference
_Accuracy = MetaEvaluation | HumanAgreement


class Unmeasured(NamedTuple):
    """What votes could not tell of their judges, and why."""

    what: str
    why: str


JudgeFinding = _Bias | _Agreement | _Accuracy | LanguageConsistency | Unmeasured
"""What a report shows of judges."""

# A table for each scale on which judges are measured: of what, its title, and how to read it.
_TABLES = (
    (
        _Agreement,
        "Agreement between judges",
        "Kappa is the agreement beyond chance: 1 is full agreement, 0 what chance gives.",
    ),
    (
        LanguageConsistency,
        "Agreement with itself across languages",
        "1 is the same verdicts on the same items in every language, 0 what chance gives. A judge "
        "that is wrong alike in all of them has 1, too.",
    ),
    (
        _Bias,
        "Biases",
        "0 is no bias. Position: above 0 the response shown first is favoured. Self-preference:"
        " above 0 the judge favours its own family. Verbosity, in log-odds: above 0 the longer "
        "answer is favoured.",
    ),
    (
        _Accuracy,
        "Agreement with people",
        "Balanced accuracy on sentences that people labelled: 0.5 is guessing between two labels.",
    ),
)


class _Line(NamedTuple):
    what: str
    value: float
    interval: Interval
    words: str


def measure_judges(
    votes: Iterable[Vote], dataset: Iterable[Query], runs: Iterable[Run]
) -> list[JudgeFinding]:
    """What votes say about the judges who cast them, for :func:`mirage.report.write`.

    That is agreement, position bias and verbosity bias, the last by the lengths of the responses in
    ``runs`` to the queries of the ``dataset``. What these votes cannot tell is an
    :class:`Unmeasured` that says why, and a warning: position bias of votes in one order, for
    instance.
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
            _LOG.warning("not in the report: %s (%s)", *finding)
        measured.append(finding)
    return measured


def _verbosity(votes: list[Vote], dataset: list[Query], runs: list[Run]) -> JudgeFinding:
    """Verbosity bias, where the responses are at hand."""
    judged = dict.fromkeys(model for vote in votes for model in (vote.model_a, vote.model_b))
    missing = [model for model in judged if model not in {run.model for run in runs}]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        why = "it takes the responses that were judged, and there are none of "
        return Unmeasured("verbosity bias", f"{why}{', '.join(map(repr, missing[:5]))}{more}")
    return verbosity_bias(votes, dataset, runs)


def findings(judges: Iterable[JudgeFinding]) -> Iterator[Element]:
    """A table for each scale on which judges were measured.

    Raises:
        MirageError: something else than a finding.
    """
    judges = list(judges)
    for finding in judges:
        if not isinstance(finding, JudgeFinding):
            raise MirageError(
                f"judges takes what mirage.arena and mirage.metaeval found out about judges, such "
                f"as position_bias(votes), not {type(finding).__name__}"
            )
    for kind, title, words in _TABLES:
        lines = [
            line for finding in judges if isinstance(finding, kind) for line in _lines(finding)
        ]
        if lines:
            yield _table(title, words, lines)
    if unmeasured := dict.fromkeys(one for one in judges if isinstance(one, Unmeasured)):
        items = (
            tag("li", tag("bdi", f"{what[:1].upper()}{what[1:]}: {why[:600]}"))
            for what, why in unmeasured
        )
        yield tag("div", tag("h3", "Not measured"), tag("ul", items, class_="hint"))


def _lines(finding: JudgeFinding) -> Iterator[_Line]:
    match finding:
        case HumanAgreement(language=language, interval=ends):
            where = Language.of(language).name if language else "mean over languages"
            name = f"{label(finding.judge)}, {label(finding.task)}, {where}"
            yield _Line(name, finding.balanced_accuracy, ends or NO_INTERVAL, finding.source)
            return
        case Unmeasured():
            return
        case MetaEvaluation(truth=truth):
            codes = truth.languages if len(truth.languages) > 1 else ()
            yield from (_judge(result, codes) for result in finding)
            return
        case LanguageConsistency():
            yield from _across_languages(finding)
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


def _across_languages(found: LanguageConsistency) -> Iterator[_Line]:
    words = (
        f"{found.items} items of {found.queries} queries in {len(found.languages)} languages; the "
        f"same verdict in {100 * found.agreement:.1f} % of the pairs of languages"
    )
    name = f"{label(found.judge)}, all languages (Krippendorff's alpha)"
    yield _Line(name, found.alpha, found.alpha_interval, words)
    for code in found.languages:
        lost = f"; {found.missing[code]} without a verdict" if found.missing[code] else ""
        yield _Line(
            f"{Language.of(code).name} with the others",
            found.kappas[code],
            found.kappas_intervals[code],
            f"mean of Cohen's kappas{lost}",
        )


def _judge(result: JudgeResult, codes: Sequence[str]) -> _Line:
    mean = result[MEAN]
    words = [f"{mean.sentences} sentences of {mean.queries} queries"]
    if codes:
        shares = (f"{code} {result[code].balanced_accuracy:.3f}" for code in codes)
        words.append(f"by language: {', '.join(shares)}")
    if result.threshold:
        words.append(result.threshold)
    return _Line(label(result.name), mean.balanced_accuracy, mean.interval, "; ".join(words))


def _table(title: str, words: str, lines: list[_Line]) -> Element:
    scale = Scale.over([end for line in lines for end in (0.0, line.value, *line.interval)])
    head = [
        tag("th", "What was measured", scope="col"),
        tag("th", "Value", scope="col", class_="number"),
        tag("th", "Interval", axis(scale), scope="col", class_="drawn"),
        tag("th", "In words", scope="col"),
    ]
    rows = []
    for what, value, ends, in_words in lines:
        number = "—" if math.isnan(value) else f"{value:.3f}".replace("-", "−")
        rows.append(
            tag(
                "tr",
                tag("th", tag("bdi", what), scope="row"),
                tag("td", number, class_="number"),
                tag("td", interval(scale, value, ends), class_="drawn"),
                tag("td", tag("bdi", in_words[:600]), class_="words"),
            )
        )
    measured = table(head, rows, class_="judges")
    return tag("div", tag("h3", title), *scrolling(measured, title, words))
