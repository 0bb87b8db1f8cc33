"""mirage metaeval: how far judges agree with people's labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import file_of, labelled_of, score_of
from mirage.cli._output import out_either
from mirage.cli._shell import app, argument, example, flag, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.metaeval import Comparisons, MetaEvaluation

__all__ = ["metaeval"]


@app.command(
    epilog=example(
        "mirage metaeval labels.jsonl --judge support_lexical",
        "mirage metaeval MEMERAG/data/memerag_ext --judge support_lexical=0.8",
        "mirage metaeval labels.jsonl --judge support_lexical --rest others.jsonl",
    )
)
def metaeval(
    labels: Annotated[
        Path,
        argument("LABELS", "JSON Lines with a labelled sentence a line, or a folder of MEMERAG."),
    ],
    judge: Annotated[
        list[str] | None,
        option(
            "FEATURE[=THRESHOLD]",
            "What is judged; may be repeated. Without a threshold it is cross-validated. "
            " [default: support_lexical]",
        ),
    ] = None,
    language: Annotated[str | None, option("CODE", "Of sentences that do not name theirs.")] = None,
    positive: Annotated[
        str,
        option("LABEL", "The label that a good score speaks for: a high one, or as it declares."),
    ] = "Supported",
    task: Annotated[
        str, option("TASK", "Of MEMERAG: faithfulness, or relevance.")
    ] = "faithfulness",
    compare: Annotated[bool, flag("Test every two judges for a difference.", "--compare")] = False,
    card: Annotated[
        bool, flag("Say of each feature whether these labels let you gate on it.", "--card")
    ] = False,
    rest: Annotated[
        Path | None,
        option(
            "FILE",
            "The sentences that have no label, as LABELS has them: correct what each feature says "
            "of the share of all that is supported.",
        ),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Measure how far judges agree with people's labels.

    A judge here is a feature with a threshold; the library takes LLMs and functions as well.
    With --rest the labels, of sentences drawn at random, correct the features instead.
    """
    if sum((compare, card, rest is not None)) > 1:
        raise MirageError("--compare, --card and --rest each print another table; give one of them")
    from mirage.metaeval import corrected_share, evaluate, read_sentences, transfer_card

    labelled = labelled_of(labels, language, positive, task)
    judges = list(map(score_of, judge or ["support_lexical"]))
    if card:
        told = transfer_card(labelled, judges)
        rows = [row._asdict() | {"advice": row.advice} for row in told]
        out_either(told, {"features": rows}, as_json)
        return
    if rest is not None:
        others = read_sentences(file_of(rest), language=language)
        shares = corrected_share(labelled, judges, others, seed=seed)
        corrected = [row._asdict() | {"corrected": row.corrected._asdict()} for row in shares]
        out_either(shares, {"sentences": shares.sentences, "shares": corrected}, as_json)
        return
    measured = evaluate(labelled, judges, seed=seed)
    compared = measured.compare(seed=seed) if compare else None
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
        plain["comparisons"] = [row._asdict() for row in compared]
    return plain
