"""mirage metaeval: measure how well judges agree with people's labels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import file_of, labelled_of, score_of
from mirage.cli._output import out_either
from mirage.cli._shell import app, argument, example, flag, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.metaeval import MetaEvaluation
    from mirage.metaeval.comparisons import Comparisons


@app.command(
    epilog=example(
        "mirage metaeval labels.jsonl --feature support_lexical",
        "mirage metaeval MEMERAG/data/memerag_ext --feature support_lexical=0.8",
        "mirage metaeval labels.jsonl --feature support_lexical --rest others.jsonl",
    )
)
def metaeval(
    labels: Annotated[
        Path,
        argument(
            "LABELS",
            "Sentences labelled by people, as JSON Lines with one sentence per line, or the folder "
            "of the MEMERAG dataset.",
        ),
    ],
    feature: Annotated[
        list[str] | None,
        option(
            "FEATURE[=THRESHOLD]",
            "Feature to evaluate as a judge; may be repeated. Without a threshold, one is selected "
            "by cross-validation.  [default: support_lexical]",
        ),
    ] = None,
    language: options.LabelLanguage = None,
    positive: Annotated[
        str, option("LABEL", "The label that a good value of the feature predicts.")
    ] = "Supported",
    task: Annotated[
        str, option("TASK", "With MEMERAG: which labels to read, faithfulness or relevance.")
    ] = "faithfulness",
    compare: Annotated[
        bool, flag("Also test the difference between each pair of judges.", "--compare")
    ] = False,
    card: Annotated[
        bool,
        flag(
            "Print instead whether each feature agrees with the labels well enough to use it in a "
            "gate, a check that fails a build.",
            "--card",
        ),
    ] = False,
    rest: Annotated[
        Path | None,
        option(
            "FILE",
            "Sentences without labels, in the format of LABELS. Print instead the estimated share "
            "of supported sentences, labelled or not, corrected for the judges' errors. The "
            "labelled sentences must be a random sample.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure how well judges agree with people's labels.

    A judge is a feature with a threshold, which decides for each sentence whether it is supported
    by the passages. In Python, an LLM or any function can be a judge too.
    """
    if sum((compare, card, rest is not None)) > 1:
        raise MirageError(
            "--compare, --card and --rest each print a different table; give only one of them"
        )
    from mirage.metaeval import corrected_share, evaluate, read_sentences, transfer_card

    labelled = labelled_of(labels, language, positive, task)
    judges = list(map(score_of, feature or ["support_lexical"]))
    if card:
        table = transfer_card(labelled, judges)
        rows = [row._asdict() | {"advice": row.advice} for row in table]
        out_either(table, {"features": rows}, as_json)
        return
    if rest is not None:
        unlabelled = read_sentences(file_of(rest), language=language)
        shares = corrected_share(labelled, judges, unlabelled)
        corrected = [row._asdict() | {"corrected": row.corrected._asdict()} for row in shares]
        out_either(shares, {"sentences": shares.sentences, "shares": corrected}, as_json)
        return
    measured = evaluate(labelled, judges)
    compared = measured.compare() if compare else None
    text = measured if compared is None else f"{measured}\n\n{compared}"
    out_either(text, _plain(measured, compared), as_json)


def _plain(measured: MetaEvaluation, compared: Comparisons | None) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "judges": {
            result.name: {
                "threshold": result.threshold,
                "figures": {code: row._asdict() for code, row in result.figures.items()},
            }
            for result in measured
        },
        "left_out": measured.left_out,
    }
    if compared is not None:
        plain["comparisons"] = [asdict(row) for row in compared]
    return plain
