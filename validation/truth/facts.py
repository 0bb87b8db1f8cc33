"""How well features with a reference separate right answers from wrong ones.

    python validation/truth/facts.py                        # about two minutes on one core
    python validation/truth/facts.py --half odd             # every other query
    python validation/truth/facts.py --features fact_agreement,reference_recall,answer_bleu

HalluQA has the answers of 24 LLMs to 225 Chinese questions, which GPT-4 judged right or wrong.
MTRAG has the answers of two LLMs in 159 turns of English conversations; an answer counts as right
if the mean human grades of its faithfulness and completeness are both 3 or more, of 4. Both are in
the folder that MIRAGE_DATA names. The figure is the area under the ROC curve, with the reference
alone and with passages, and the share of answers on which the feature is computed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage.features import NotComputed, answered, feature
from mirage.models import Passage, Query, Response
from mirage.statistics.classification import roc_auc

HALVES = {"all": (0, 1), "even": (0,), "odd": (1,)}
GOOD = 3
"""The grade from which on an answer of MTRAG counts as right."""


class Labelled(NamedTuple):
    """A judged answer."""

    query: Query
    text: str
    is_right: bool


def read(name: str, half: str) -> Iterator[Labelled]:
    """Yield the answers of a data set, without those that are the reference itself."""
    path = DATA / name / ("zh.jsonl" if name == "halluqa" else "en.jsonl")
    positions: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row: dict[str, Any] = json.loads(line)
        position = positions.setdefault(row["query_id"], len(positions) + 1)
        if row["system"] != "reference" and position % 2 in HALVES[half]:
            yield Labelled(query_of(row), row["response"], is_right(row["judgments"]))


def query_of(row: dict[str, Any]) -> Query:
    """Return the query of a row, with all its passages as relevant ones."""
    passages = tuple(Passage(**passage) for passage in row["passages"])
    return Query(
        id=row["query_id"],
        language=row["language"],
        text=row["query"],
        passages=passages,
        relevant=tuple(passage.id for passage in passages),
        reference=row["reference"],
    )


def is_right(judgments: dict[str, Any]) -> bool:
    """Return whether people, or GPT-4, call an answer right."""
    if "correct" in judgments:
        return bool(judgments["correct"])
    return min(judgments["faithfulness"], judgments["completeness"]) >= GOOD


def values(name: str, rows: list[Labelled]) -> np.ndarray:
    """Return a feature's values, the higher the better; NaN if it is not computed."""
    entry = feature(name)
    items = [answered(row.query, Response(query_id=row.query.id, text=row.text)) for row in rows]
    return np.array(
        [np.nan if isinstance(value, NotComputed) else value for value in entry.compute(items)]
    )


def main() -> None:
    """Print a line for each data set, evidence and feature."""
    parser = script_parser(__doc__)
    parser.add_argument("--features", default="fact_agreement,fact_recall,reference_recall")
    parser.add_argument("--half", choices=HALVES, default="all")
    options = parser.parse_args()
    require_data("halluqa", "mtrag")
    for data in ("halluqa", "mtrag"):
        rows = list(read(data, options.half))[: 20 if options.quick else None]
        bare = {"passages": (), "relevant": ()}
        alone = [row._replace(query=row.query.model_copy(update=bare)) for row in rows]
        for evidence, given in (("reference alone", alone), ("with passages", rows)):
            labels = np.array([row.is_right for row in given])
            for name in options.features.split(","):
                scores = values(name, given)
                computed = ~np.isnan(scores)
                area = roc_auc(scores[computed], labels[computed]) if computed.any() else np.nan
                share = f"computed {computed.mean():4.0%}"
                print(f"{data:8} {evidence:16} {name:18} {share}  AUC {area:.3f}", flush=True)
                add_figure(area, data, evidence, name, "AUC")
                add_figure(computed.mean(), data, evidence, name, "computed")
    save(parser, options)


if __name__ == "__main__":
    main()
