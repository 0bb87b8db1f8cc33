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
        argument("LABELS", "JSON Lines with one labelled sentence per line, or MEMERAG's folder."),
    ],
    feature: Annotated[
        list[str] | None,
        option(
            "FEATURE[=THRESHOLD]",
            "The feature to evaluate as a judge; may be repeated. Without a threshold it is "
            "cross-validated.  [default: support_lexical]",
        ),
    ] = None,
    language: options.Language = None,
    positive: Annotated[
        str, option("LABEL", "The label that a good value of the feature stands for.")
    ] = "Supported",
    task: Annotated[
        str, option("TASK", "With MEMERAG: faithfulness, or relevance.")
    ] = "faithfulness",
    compare: Annotated[
        bool, flag("Also test the difference of every two judges.", "--compare")
    ] = False,
    card: Annotated[
        bool, flag("Print whether the labels justify a gate on each feature.", "--card")
    ] = False,
    rest: Annotated[
        Path | None,
        option(
            "FILE",
            "Sentences without a label, in the form of LABELS: estimate the share of all sentences "
            "that is supported, corrected by the labels.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure how well judges agree with people's labels.

    A judge is a feature with a threshold; in Python also an LLM or a function. --rest needs labels
    of randomly drawn sentences.
    """
    if sum((compare, card, rest is not None)) > 1:
        raise MirageError("--compare, --card and --rest each print another table; give one of them")
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
