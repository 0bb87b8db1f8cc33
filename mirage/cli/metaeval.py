"""mirage metaeval: measure how well judges agree with people's labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._calibrations import require_fresh, sentence_judge
from mirage.cli._inputs import check_folder, labelled_of, score_of, sentences_in
from mirage.cli._llms import LLMSettings, prompt_of
from mirage.cli._output import out_either, say
from mirage.cli._shell import app, example, flag, keeping, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.metaeval import LabelledSentences, MetaEvaluation
    from mirage.metaeval.comparisons import Comparisons
    from mirage.metaeval.judges import Score, SentenceJudge
    from mirage.metaeval.sentences import AnswerSentence


@app.command(
    epilog=example(
        "mirage metaeval labels.jsonl --feature support_lexical",
        "mirage metaeval MEMERAG/data/memerag_ext --feature support_lexical=0.8",
        "mirage metaeval labels.jsonl --feature support_lexical --rest others.jsonl",
        "mirage metaeval labels.jsonl --positive correct --judge gpt-4o --calibration gpt-4o.json",
    )
)
def metaeval(
    labels: options.Labels,
    feature: Annotated[
        list[str] | None,
        option(
            "FEATURE[=THRESHOLD]",
            "Feature to evaluate as a judge; may be repeated. Without a threshold, one is selected "
            "by cross-validation.  [default: support_lexical]",
        ),
    ] = None,
    language: options.LabelLanguage = None,
    positive: options.Positive = "Supported",
    task: Annotated[
        str, option("TASK", "With MEMERAG: which labels to read, faithfulness or relevance.")
    ] = "faithfulness",
    compare: Annotated[
        bool, flag("Also test the difference between each pair of judges.", "--compare")
    ] = False,
    card: Annotated[
        bool,
        flag(
            "Instead of the agreement, print whether each feature agrees with the labels well "
            "enough to be used in a gate, which is a check that can fail a build.",
            "--card",
        ),
    ] = False,
    model: Annotated[
        str | None,
        option(
            "NAME",
            "LLM to evaluate as a judge, instead of features.  [default: none]",
            "--judge",
        ),
    ] = None,
    prompt: options.SentencePrompt = None,
    calibration: Annotated[
        Path | None,
        option(
            "FILE",
            "With --judge: file of the judge's verdicts on LABELS. It is written if it does not "
            "exist; if it does, the judge is not asked again. If model, prompt, parameters or "
            "labels have changed since, the command ends with status 3.",
        ),
    ] = None,
    base_url: options.BaseUrl = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
    rest: Annotated[
        Path | None,
        option(
            "FILE",
            "Sentences without labels, in the format of LABELS. Instead of the agreement, print "
            "the estimated share of supported sentences among all sentences, labelled or not, "
            "corrected for the judges' errors. The labelled sentences must be a random sample.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure how well judges agree with people's labels.

    A judge decides for each sentence whether the passages support it. The judge is either a
    feature, which accepts the sentences whose value reaches a threshold, or, with --judge, an LLM.
    In Python, any function can be a judge. With --judge, an estimate of the cost is printed on
    standard error before the first call.
    """
    if model is None and (prompt, calibration, base_url, llm, budget) != (None,) * 5:
        raise MirageError("--prompt, --calibration, --base-url, --llm and --budget need --judge")
    if model is not None and (card or feature):
        raise MirageError("--judge cannot be combined with --feature or --card")
    check_folder(calibration)
    if sum((compare, card, rest is not None)) > 1:
        raise MirageError(
            "--compare, --card and --rest each print a different table; give only one of them"
        )
    from mirage.metaeval import corrected_share, evaluate, transfer_card

    labelled = labelled_of(labels, language, positive, task)
    unlabelled = () if rest is None else sentences_in(rest, language)
    judges: list[Score] | list[SentenceJudge]
    if model is None:
        judges = scores = list(map(score_of, feature or ["support_lexical"]))
    else:
        settings = LLMSettings(llm, base_url, budget)
        judges = [_llm_judge(labelled, unlabelled, model, settings, prompt, calibration)]
    if card:
        table = transfer_card(labelled, scores)
        rows = [row._asdict() | {"advice": row.advice} for row in table]
        out_either(table, {"features": rows}, as_json)
        return
    if rest is not None:
        shares = corrected_share(labelled, judges, unlabelled)
        corrected = [row._asdict() | {"corrected": row.corrected._asdict()} for row in shares]
        out_either(shares, {"sentences": shares.sentences, "shares": corrected}, as_json)
        return
    measured = evaluate(labelled, judges)
    compared = measured.compare() if compare else None
    text = measured if compared is None else f"{measured}\n\n{compared}"
    out_either(text, _plain(measured, compared), as_json)


def _llm_judge(
    labelled: LabelledSentences,
    unlabelled: Sequence[AnswerSentence],
    model: str,
    settings: LLMSettings,
    prompt: Path | None,
    calibration: Path | None,
) -> SentenceJudge:
    """Return the LLM as a judge, with the verdicts of a calibration if there is one.

    An estimate of the cost of labelling all sentences without a verdict is printed first.
    """
    from mirage.metaeval.calibration import Calibration, calibrate

    judge = sentence_judge(settings.llm(model), labelled, prompt_of(prompt))
    is_calibrated = calibration is not None and calibration.exists()
    say(str(judge.estimate([*(() if is_calibrated else labelled.sentences), *unlabelled])))
    if calibration is None:
        return judge
    if is_calibrated:
        require_fresh(calibration, judge, labelled)
        return Calibration.load(calibration).recorded(judge)
    with keeping(None, cached=settings.cache):
        verdicts = calibrate(judge, labelled)
    verdicts.save(calibration)
    say(f"{calibration}: {len(verdicts.verdicts)} verdicts of {model}")
    return verdicts.recorded(judge)


def _plain(measured: MetaEvaluation, compared: Comparisons | None) -> dict[str, Any]:
    from mirage.metaeval.results import no_interval_reason

    plain: dict[str, Any] = {
        "judges": {
            result.name: {
                "threshold": result.threshold,
                "figures": {
                    code: row._asdict() | {"no_interval": no_interval_reason(measured, code)}
                    for code, row in result.figures.items()
                },
            }
            for result in measured
        },
        "left_out": measured.left_out,
    }
    if compared is not None:
        plain["comparisons"] = [asdict(row) for row in compared]
    return plain
