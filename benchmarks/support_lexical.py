"""How well ``sentence_support`` tells supported answer sentences from others, on MEMERAG.

    python benchmarks/support_lexical.py

MEMERAG (in the folder that MIRAGE_DATA names) has real answers in English, German and Spanish
with a human label for each sentence. Each sentence is scored against the five passages of its
query, for the answers cite none; the label "Supported" is set against the two others. Nothing is
trained. The threshold is one constant for all languages. The baseline is the share of a
sentence's tokens that occur in the passages; it gets the threshold that suits these labels best.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from mirage.features import SUPPORTED_AT, sentence_support
from mirage.sources import memerag
from mirage.text import tokenize

DATA = Path(os.environ.get("MIRAGE_DATA", Path(__file__).parents[2] / "shared" / "data"))
LANGUAGES = ("en", "de", "es")
Scores = dict[str, NDArray[np.float64]]


def main() -> None:
    """Print the figures of both scores."""
    labels, support, overlap = measured()
    report("sentence_support", labels, support, SUPPORTED_AT)
    candidates = np.unique(np.concatenate(list(overlap.values())))
    best = max(candidates, key=lambda threshold: mean_accuracy(labels, overlap, threshold))
    report("token overlap, at its best threshold", labels, overlap, float(best))


def measured() -> tuple[dict[str, NDArray[np.bool_]], Scores, Scores]:
    """Labels, support and token overlap of every sentence, by language."""
    labels, support, overlap = {}, {}, {}
    for code in LANGUAGES:
        source = memerag.load(DATA / "memerag" / "memerag" / f"{code}.jsonl", code)
        rows = [
            (
                sentence.text,
                [passage.text for passage in source.dataset[sentence.query_id].passages],
            )
            for sentence in source.sentences
        ]
        labels[code] = np.array([s.factuality == ("Supported",) for s in source.sentences])
        support[code] = np.array([sentence_support(*row, code) for row in rows])
        overlap[code] = np.array([token_overlap(*row, code) for row in rows])
    return labels, support, overlap


def token_overlap(sentence: str, passages: list[str], code: str) -> float:
    """Share of the sentence's tokens that occur in any passage."""
    tokens = tokenize(sentence, code)
    known = {token for passage in passages for token in tokenize(passage, code)}
    return sum(token in known for token in tokens) / max(1, len(tokens))


def mean_accuracy(labels: dict[str, NDArray[np.bool_]], scores: Scores, threshold: float) -> float:
    """Balanced accuracy at one threshold, mean over the languages."""
    return float(
        np.mean([balanced_accuracy_score(labels[c], scores[c] >= threshold) for c in LANGUAGES])
    )


def report(
    name: str, labels: dict[str, NDArray[np.bool_]], scores: Scores, threshold: float
) -> None:
    """Print ROC AUC and balanced accuracy, per language and in the mean."""
    auc = {code: roc_auc_score(labels[code], scores[code]) for code in LANGUAGES}
    print(f"{name} ({threshold:.2f})")
    print(f"  {'':4s} {'sentences':>9s} {'supported':>9s} {'ROC AUC':>8s} {'bal. acc.':>9s}")
    for code in LANGUAGES:
        accuracy = balanced_accuracy_score(labels[code], scores[code] >= threshold)
        print(
            f"  {code:4s} {len(labels[code]):9d} {labels[code].mean():9.1%} "
            f"{auc[code]:8.3f} {accuracy:9.1%}"
        )
    mean = mean_accuracy(labels, scores, threshold)
    print(f"  mean {'':9s} {'':9s} {np.mean(list(auc.values())):8.3f} {mean:9.1%}")


if __name__ == "__main__":
    main()
