"""Time and memory of a surrogate on as much data as the whole benchmark has.

The input is a feature table of 19 models x 11,195 queries x 13 features (18 languages), and 200
tournaments of 100 queries in each language. The steps are the bootstrap, a fit to every verdict,
validation with two models held out, and the ranking of a new model in every language. Values and
verdicts are random. Every query is judged, so that the surrogate learns from the whole table; the
paper judges 100 in each language (``--judged 100``).

    taskset -c 0,1 python validation/speed/scale.py

CPU time and memory are those of this process; with ``--jobs``, its workers use more.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import BradleyTerry, FeatureTable, Judgments, Ranking, SurrogateRanker
from mirage.arena import Tournaments
from mirage.ranking import Entry
from mirage.statistics.ranks import ranks

# Queries by language, MIRAGE-Bench (arXiv 2410.13716), Table 1.
QUERIES = {
    "ar": 1501, "bn": 411, "de": 304, "en": 787, "es": 617, "fa": 632, "fi": 1183, "fr": 343,
    "hi": 350, "id": 939, "ja": 797, "ko": 213, "ru": 1247, "sw": 481, "te": 150, "th": 730,
    "yo": 119, "zh": 391,
}  # fmt: skip
FEATURES = (
    "target_language", "english_language", "citation_recall@10", "citation_map@10",
    "support_entailment", "support_neutral", "reranker_score", "answer_bleu", "answer_rougeL",
    "answer_overlap", "fluency", "answer_char3", "answer_length",
)  # fmt: skip
MODELS = 19


def tables(code: str, quality: np.ndarray) -> list[FeatureTable]:
    """Return features that are correlated with quality; the last table is a new model's."""
    rng = np.random.default_rng([*code.encode()])
    slopes = rng.uniform(0, 1, size=len(FEATURES))
    ids = tuple(f"{code}-{i}" for i in range(QUERIES[code]))
    found = []
    for number, own in enumerate(quality):
        values = own * slopes + rng.normal(size=(len(ids), len(FEATURES)))
        found.append(FeatureTable(f"model-{number:02d}", code, ids, FEATURES, values))
    return found


def judgments(code: str, quality: np.ndarray, most: int) -> Judgments:
    """Return every pair of models on ``most`` queries."""
    rng = np.random.default_rng([1, *code.encode()])
    a, b = np.triu_indices(len(quality), 1)
    queries = np.arange(min(most, QUERIES[code]))
    won = (quality[a] - quality[b])[:, None] + rng.logistic(size=(len(a), len(queries))) > 0
    names = np.array([f"model-{number:02d}" for number in range(len(quality))])
    return Judgments.from_arrays(
        query=np.tile([f"{code}-{i}" for i in queries], len(a)),
        model_a=np.repeat(names[a], len(queries)),
        model_b=np.repeat(names[b], len(queries)),
        score=won.ravel().astype(float),
    )


def ranking(ranker: SurrogateRanker, table: FeatureTable, boot: Tournaments) -> Ranking:
    """Return the ranking of the new model among the others."""
    new = ranker.predict(table)
    logits = np.array([*boot.mean, new.logit])
    ends = [*boot.interval().tolist(), new.interval()]
    places = ranks(logits).tolist()
    entries = [
        Entry(rank, model, float(logit), (low, high))
        for rank, model, logit, (low, high) in zip(
            places, (*boot.models, table.model), logits, ends, strict=True
        )
    ]
    return Ranking(entries, language=table.language)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print the wall time, the CPU time and the peak memory of a step."""
    start, used = time.perf_counter(), time.process_time()
    yield
    took, used = time.perf_counter() - start, time.process_time() - used
    print(f"{what:42}{took:7.1f} s{used:7.1f} s{peak():7.0f} MiB", flush=True)
    add_figure(took, what, "s")
    add_figure(used, what, "s of CPU")
    add_figure(peak(), what, "peak memory, MiB")


def peak() -> float:
    """Return the peak of resident memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Draw the numbers and run all steps."""
    parser = script_parser(__doc__)
    parser.add_argument("--estimator", default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--judged", type=int, default=max(QUERIES.values()))
    options = parser.parse_args()
    if options.quick:
        options.estimator, options.judged, options.repeats = "linear", 20, 1
    quality = np.random.default_rng(0).normal(size=MODELS + 1)
    scored = {code: tables(code, quality) for code in QUERIES}
    judged = {code: judgments(code, quality[:MODELS], options.judged) for code in QUERIES}
    print(f"{sum(QUERIES.values()):,} queries, estimator {options.estimator}", flush=True)
    print(f"{'':42}{'wall':>9}{'CPU':>9}{'peak':>11}")
    with timed("all"):
        through(options, scored, judged)
    save(parser, options)


def through(
    options: argparse.Namespace,
    scored: dict[str, list[FeatureTable]],
    judged: dict[str, Judgments],
) -> None:
    """Print seconds and peak memory of each step."""
    with timed("200 tournaments in each of 18 languages"):
        boots = {code: BradleyTerry().bootstrap(one) for code, one in judged.items()}
    ranker = SurrogateRanker(options.estimator)
    with timed("fit"):
        learnt = [table for some in scored.values() for table in some[:MODELS]]
        ranker.fit(learnt, boots, judgments=judged)
    print(f"  recipe: {ranker.recipe}", flush=True)
    with timed(f"validation, 2 held out, {options.repeats} splits"):
        validation = ranker.cross_validate(2, options.repeats, n_jobs=options.jobs)
    print(f"  mean tau {np.mean(list(validation.tau.values())):.2f}", flush=True)
    with timed("ranking of a new model in 18 languages"):
        found = [ranking(ranker, scored[code][-1], boots[code]) for code in QUERIES]
    places = [one[f"model-{MODELS:02d}"].rank for one in found]
    print(f"  ranks {min(places)} to {max(places)}")


if __name__ == "__main__":
    main()
