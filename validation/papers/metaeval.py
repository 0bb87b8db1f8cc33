"""Judges of sentences on MEMERAG, compared with the paper, and the time of the figures.

    python validation/papers/metaeval.py

MEMERAG (in the folder that MIRAGE_DATA names) has real answers in English, German and Spanish with
human labels for each sentence. It is for evaluation only: nothing is trained on it. The threshold
0.8 of ``support_lexical`` (:data:`mirage.features.SUPPORTED_AT`) was chosen on these labels, so it
suits them. The thresholds by cross-validation are measured on other sentences than they were chosen
on. Agreement is also computed with the packages krippendorff and irrCAC (pip install --no-deps
irrCAC). The paper's Table 2 was computed from other labels: no choice of annotators in the files
reproduces it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pandas as pd
from irrCAC.raw import CAC

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage.errors import FeatureError
from mirage.features import FeatureSuite
from mirage.features.lexical import SUPPORTED_AT
from mirage.metaeval import (
    AnswerSentence,
    LabelledSentences,
    MetaEvaluation,
    annotator_agreement,
    evaluate,
    score,
)
from mirage.metaeval.gold import MEAN
from mirage.models import Passage, Query
from mirage.statistics.classification import sentence_weights
from mirage.statistics.permutation import permutation_p_values
from mirage.text import tokenize

LANGUAGES = ("en", "de", "es")
LABELS = ("Supported", "Not Supported", "Challenging to determine")


def main(quick: bool) -> None:
    """Print everything."""
    labels()
    agreement(200 if quick else 10_000)
    judges(("support_lexical",) if quick else FeatureSuite.default().names)
    false_positives(20 if quick else 2000)
    if not quick:
        duration()


@cache
def published() -> Any:
    """Return the figures that the paper prints."""
    return json.loads((DATA / "published" / "memerag.json").read_text())


def load(variant: str, task: str = "faithfulness") -> LabelledSentences:
    """Return one variant of the files."""
    return LabelledSentences.memerag(DATA / "memerag" / variant, LANGUAGES, task=task)


def labels() -> None:
    """Print the numbers of sentences and shares of labels next to Tables 1 and 3."""
    print("sentences, and supported / not supported / challenging in %; in brackets the paper's")
    for code, counts in load("memerag").counts().items():
        shares = " / ".join(f"{100 * counts[label] / counts.total():.1f}" for label in LABELS)
        theirs = " / ".join(map(str, published()["faithfulness_percent_table3"][code]))
        sentences = published()["sentences_table1"][code]
        add_figure(counts.total(), "labels", code, "sentences")
        for label in LABELS:
            add_figure(counts[label] / counts.total(), "labels", code, label)
        print(f"  {code}  {counts.total()} ({sentences})  {shares} ({theirs})")


def agreement(draws: int) -> None:
    """Print the agreement of the five annotators next to Table 2 and to two other packages."""
    for task, fine in (("faithfulness", False), ("relevance", False), ("faithfulness", True)):
        labelled = load("memerag_ext", task)
        found = annotator_agreement(labelled, fine=fine, draws=draws)
        print(f"\n{found}")
        columns = labelled.fine if fine else labelled.labels
        furthest = max(
            abs(ours - theirs)
            for row in found
            for ours, theirs in zip(row[4:7], others(labelled, columns, row.language), strict=True)
        )
        print(f"Furthest from irrCAC and krippendorff: {furthest:.1e}")
        names = "agreement", f"{task}, fine" if fine else task
        add_figure(furthest, *names, "largest difference from irrCAC and krippendorff")
        for row in found:
            for column, value in zip(("AC1", "kappa", "alpha"), row[4:7], strict=True):
                add_figure(value, *names, row.language, column)
        if not fine:
            table = published()["iaa_table2"]
            print("The paper's Table 2 (AC1, kappa), of other labels than these:", end=" ")
            print(
                ", ".join(f"{c} {' '.join(map(str, table[c][task].values()))}" for c in LANGUAGES)
            )


def others(
    labelled: LabelledSentences, columns: Sequence[tuple[str, ...]], code: str
) -> tuple[float, float, float]:
    """Return AC1, kappa and alpha according to other packages."""
    rows = [
        given
        for sentence, given in zip(labelled, columns, strict=True)
        if sentence.query.language == code
    ]
    codes = np.unique(rows, return_inverse=True)[1].reshape(len(rows), -1)
    cac = CAC(pd.DataFrame(codes), digits=15)
    alpha = krippendorff.alpha(reliability_data=codes.T, level_of_measurement="nominal")
    ac1, kappa = (found["est"]["coefficient_value"] for found in (cac.gwet(), cac.fleiss()))
    return ac1, kappa, float(alpha)


# Judges -------------------------------------------------------------------------------------------


def judges(names: Sequence[str]) -> None:
    """Print features as judges of faithfulness next to the LLM judges of Table 5."""
    labelled = load("memerag")
    usable = []
    print()
    for name in names:
        try:
            feature_scores(labelled, name)
        except FeatureError as error:
            print(error)
        else:
            usable.append(name)
    measured = [
        *usable,
        score(
            remembered(labelled, "support_lexical"),
            SUPPORTED_AT,
            name=f"support_lexical at {SUPPORTED_AT}",
        ),
        token_overlap,
    ]
    result = evaluate(labelled, measured)
    print(f"\n{result}\n")
    print("ROC AUC, and in-sample the best threshold with its balanced accuracy (it flatters)")
    for judge in result:
        areas = "  ".join(f"{code} {judge[code].roc_auc:.3f}" for code in (*LANGUAGES, MEAN))
        best = judge.best_threshold()
        print(f"  {judge.name:23s} {areas}   {best.value:.3f} {100 * best.balanced_accuracy:.1f}")
        for code in (*LANGUAGES, MEAN):
            row = judge[code]
            add_figure(row.balanced_accuracy, "balanced accuracy", judge.name, code)
            add_figure(row.roc_auc, "ROC AUC", judge.name, code)
    calibrated = result["support_lexical"].calibration()
    print(
        f"\nsupport_lexical as a probability: expected calibration error {calibrated.error:.3f}, "
        f"Brier score {calibrated.brier:.3f}"
    )
    add_figure(calibrated.error, "support_lexical", "expected calibration error")
    add_figure(calibrated.brier, "support_lexical", "Brier score")
    print(f"\n{result.compare()}\n\n{result.errors()}")
    print("\nBalanced accuracy of LLM judges in the paper's Table 5, mean of en de es fr hi")
    for prompt, row in published()["balanced_accuracy_table5"].items():
        print(f"  {prompt:10s}", "  ".join(f"{name} {value}" for name, value in row.items()))


def feature_scores(labelled: LabelledSentences, name: str) -> Sequence[object]:
    """Return the values of a feature on sentences."""
    return score(name).function(labelled.sentences)


def remembered(labelled: LabelledSentences, name: str) -> Callable[[AnswerSentence], float]:
    """Return a function that looks up the value of a feature for a sentence."""
    values = feature_scores(labelled, name)
    known = {(s.query.id, s.text): v for s, v in zip(labelled, values, strict=True)}
    return lambda sentence: float(known[sentence.query.id, sentence.text])


def token_overlap(sentence: AnswerSentence) -> float:
    """Return the share of the sentence's tokens that occur in its passages."""
    code = sentence.query.language
    tokens = tokenize(sentence.text, code)
    known = {token for passage in sentence.cited for token in tokenize(passage.text, code)}
    return sum(token in known for token in tokens) / max(1, len(tokens))


# Simulations --------------------------------------------------------------------------------------


def false_positives(simulations: int) -> None:
    """Print how often equal judges are called different."""
    print(f"\nshare of p <= 0.05 in {simulations} comparisons of judges that are alike")
    for alike, words in ((0.0, "independent errors"), (0.5, "errors that go together in a query")):
        rng = np.random.default_rng(0)
        p = [
            permutation_p_values(null_differences(rng, alike), permutations=999, seed=seed)
            for seed in range(simulations)
        ]
        by_sentence, by_query = np.mean(np.array(p) <= 0.05, axis=0)
        print(f"  {words}: {by_query:.1%} swapping queries, {by_sentence:.1%} swapping sentences")
        add_figure(by_query, "false positive rate", words, "swapping queries")
        add_figure(by_sentence, "false positive rate", words, "swapping sentences")


def null_differences(rng: np.random.Generator, alike: float) -> np.ndarray:
    """Return weighted differences of two judges on 360 sentences of 180 queries.

    With probability ``alike``, a judge's verdict on the second sentence of a query is as good or
    bad as on the first.
    """
    language, label = np.repeat(np.arange(180) % 3, 2), (rng.random(360) < 0.3).astype(int)
    right = (rng.random((180, 2, 2)) < 0.65).astype(float)
    same = rng.random((180, 2)) < alike
    right[:, 1][same] = right[:, 0][same]
    gaps = sentence_weights(language, label) * (right[..., 0] - right[..., 1]).ravel()
    by_query = np.stack([gaps.reshape(180, 2).sum(axis=1), np.zeros(180)], axis=1).ravel()
    return np.stack([gaps, by_query], axis=1)


def duration() -> None:
    """Print the time of all figures of six judges, at the sizes of the paper in five languages."""
    rng = np.random.default_rng(0)
    labelled = constructed(rng)
    codes = {
        (s.query.language, s.query.id, s.text): (given == ("Supported",)) + rng.normal(0, 1, 6)
        for s, given in zip(labelled, labelled.labels, strict=True)
    }

    def number(column: int) -> Callable[[AnswerSentence], float]:
        return lambda s: float(codes[s.query.language, s.query.id, s.text][column])

    measured = [score(number(column), name=f"judge {column}") for column in range(6)]
    start = time.perf_counter()
    result = evaluate(labelled, measured)
    figures(result)
    seconds = time.perf_counter() - start
    print(
        f"\nall figures of 6 judges on {len(labelled)} sentences, 10,000 permutations: "
        f"{seconds:.1f} s"
    )
    add_figure(seconds, "all figures of 6 judges, s")


def figures(result: MetaEvaluation) -> None:
    """Compute all figures of a result: tables, comparisons by language, calibration."""
    for language in (*result.truth.languages, MEAN):
        str(result.compare(language, permutations=10_000))
        str(result.errors(language))
        for judge in result:
            judge.best_threshold(language)
    str(result)
    result.to_pandas()


def constructed(rng: np.random.Generator) -> LabelledSentences:
    """Return as many sentences as in the paper's Table 1, of 250 queries in each language."""
    passages = (Passage(id="1", text="-"),)
    sentences, labels = [], []
    for code, total in published()["sentences_table1"].items():
        numbers = [*range(250), *rng.integers(250, size=total - 250).tolist()]
        queries = [
            Query(id=str(number), language=code, text="-", passages=passages)
            for number in range(250)
        ]
        for place, number in enumerate(islice(numbers, total)):
            sentences.append(AnswerSentence(queries[number], str(place)))
            labels.append((LABELS[int(rng.random() > 0.68)],))
    fine = tuple((f"{label}, kind {rng.integers(5)}",) for (label,) in labels)
    return LabelledSentences(tuple(sentences), tuple(labels), fine, source="constructed")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    options = parser.parse_args()
    require_data("memerag", "published")
    main(options.quick)
    save(parser, options)
