"""False alarms and coverage for clustered queries, with and without ``cluster=``.

Queries are in clusters of five, or of one to ten, and are correlated within clusters; a correlation
of 0 means no clustering. The tables have 5, 14, 50 and 250 queries, treated as independent
("queries") or as clustered ("clusters"):

* the gate: how often a run is called worse although none of two features is worse, for normal
  differences and for sparse ones (0.15 lost, 0.15 gained); and how often it detects a drop of 0.5
  standard deviations;
* means: the coverage of 95 % intervals of a feature's mean, for binary features (0.5, 0.8 and 0.95
  right), for three levels, and for unbounded numbers;
* judged rankings: the coverage of intervals of logits, also with clusters and 200 tournaments
  (``tournaments=200``);
* judges against labels: the coverage of intervals of balanced accuracy.

A dash means that the library gives no alarm or interval.

    python validation/coverage/clusters.py              # a quarter of an hour
    python validation/coverage/clusters.py --repeats 60
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage import Query, Ranking
from mirage.arena.studies import draw_scores, judgments_of, true_logits
from mirage.metaeval import AnswerSentence, LabelledSentences, evaluate
from mirage.statistics.clusters import cluster_sums, mean_intervals
from mirage.statistics.permutation import single_step_p_values
from mirage.statistics.worlds import correlated_deviates
from mirage.statistics.worlds import holds as hits
from mirage.testing.comparison import FEWEST_CLUSTERS

QUERIES, CORRELATIONS, KINDS = (5, 14, 50, 250), (0.0, 0.2, 0.7), ("fives", "mixed")
SHARES = {"half right": 0.5, "0.8 right": 0.8, "0.95 right": 0.95}
MODELS, SPREAD = 5, 1.0


def dealt(kind: str, queries: int, correlation: float, rng: np.random.Generator) -> np.ndarray:
    """Return the cluster of each query."""
    if correlation == 0:
        return np.arange(queries)
    sizes = np.full(queries, 5) if kind == "fives" else rng.choice([1, 1, 1, 2, 3, 5, 10], queries)
    return np.repeat(np.arange(queries), sizes)[:queries]


def settings() -> Iterator[tuple[str, int, float]]:
    """Yield the kinds of clusters, numbers of queries and correlations."""
    for queries, correlation, kind in product(QUERIES, CORRELATIONS, KINDS):
        if correlation > 0 or kind == KINDS[0]:
            yield kind, queries, correlation


def alarm(differences: np.ndarray) -> bool:
    """Return whether the gate's test calls any of the columns worse."""
    return bool((single_step_p_values(differences, permutations=999) <= 0.05).any())


def gate(kind: str, queries: int, correlation: float, repeats: int) -> list[float]:
    """Return alarm rates by query and by cluster, for normal and sparse losses, and the power."""
    rng = seeded([queries, int(10 * correlation), len(kind)])
    alarms = np.zeros((repeats, 6))
    for row in alarms:
        codes = dealt(kind, queries, correlation, rng)
        normal = correlated_deviates(codes, correlation, 2, rng)
        sparse = (
            np.digitize(ndtr(correlated_deviates(codes, correlation, 2, rng)), [0.15, 0.85]) - 1.0
        )
        fall = normal + np.array([0.5, 0.0])
        few = codes.max() + 1 < min(FEWEST_CLUSTERS, queries)
        for place, values in ((0, normal), (2, sparse), (4, fall)):
            row[place] = alarm(values)
            row[place + 1] = np.nan if few else alarm(cluster_sums(codes, values))
    return share(alarms)


def means(kind: str, queries: int, correlation: float, repeats: int) -> list[float]:
    """Return the coverage for five features, by query and by cluster."""
    rng = seeded([queries, int(10 * correlation), len(kind)])
    held = np.zeros((repeats, 10))
    low, high = np.array([0.0] * 4 + [-np.inf]), np.array([1.0] * 4 + [np.inf])
    true = np.array([*SHARES.values(), 0.75, 0.0])
    for row in held:
        codes = dealt(kind, queries, correlation, rng)
        seen = correlated_deviates(codes, correlation, 5, rng)
        right = [seen[:, i] < ndtri(share) for i, share in enumerate(SHARES.values())]
        levels = np.digitize(ndtr(seen[:, 3]), [0.1, 0.4]) / 2  # 0, 0.5 and 1
        values = np.stack([*right, levels, seen[:, 4]], axis=1).astype(float)
        for place, clusters in ((0, np.arange(queries)), (1, codes)):
            row[place::2] = hits(mean_intervals(values, clusters, low, high), true)
    return share(held)


def rankings(kind: str, queries: int, correlation: float, repeats: int) -> list[float]:
    """Return the coverage for logits: by query, by cluster, and from tournaments."""
    rng = seeded([queries, int(10 * correlation), len(kind)])
    logits = np.linspace(1, -1, MODELS)
    true, names = true_logits(logits, SPREAD, 0.2), np.array([f"m{i}" for i in range(MODELS)])
    held = []
    for _ in range(repeats):
        codes = dealt(kind, queries, correlation, rng)
        own = logits + SPREAD * correlated_deviates(codes, correlation, MODELS, rng)
        judgments = judgments_of(draw_scores(own, 0.2, rng), names)
        clusters = {str(query): str(code) for query, code in enumerate(codes.tolist())}
        made = (
            Ranking.from_judgments(judgments),
            Ranking.from_judgments(judgments, cluster=clusters),
            Ranking.from_judgments(judgments, cluster=clusters, tournaments=200, progress=False),
        )
        held.append(
            [
                [hits([one[m].interval], t)[0] for m, t in zip(names, true, strict=True)]
                for one in made
            ]
        )
    return share(np.array(held).transpose(0, 2, 1).reshape(-1, 3))


def judges(kind: str, queries: int, correlation: float, repeats: int) -> list[float]:
    """Return the coverage for balanced accuracy, by query and by cluster."""
    rng = seeded([queries, int(10 * correlation), len(kind)])
    held = np.zeros((repeats, 2))
    for row in held:
        codes = np.repeat(dealt(kind, queries, correlation, rng), 3)
        right = correlated_deviates(codes, correlation, 1, rng)[:, 0] < ndtri(0.75)
        labels = rng.random(len(codes)) < 0.6
        said = labels == right
        if labels.all() or not labels.any():
            row[:] = np.nan
            continue
        sentences = tuple(
            AnswerSentence(Query(id=i // 3, language="en", text="?"), str(i))
            for i in range(len(codes))
        )
        labelled = LabelledSentences(
            sentences, tuple((str(label),) for label in labels), ((),) * len(codes)
        )
        clusters = {str(i // 3): str(code) for i, code in enumerate(codes.tolist())}
        for place, cluster in ((0, None), (1, clusters)):
            (result,) = evaluate(labelled, Recorded(said), cluster=cluster)
            row[place] = hits([result["en"].interval], 0.75)[0]
    return share(held)


class Recorded:
    """A judge that returns recorded labels."""

    name = "recorded"

    def __init__(self, said: np.ndarray) -> None:
        self.said = said

    def label(self, sentences: Iterable[AnswerSentence]) -> list[str]:
        """Return the recorded labels of sentences, whose texts are their numbers."""
        return [str(self.said[int(one.text)]) for one in sentences]


def share(rows: np.ndarray) -> list[float]:
    """Return the means of columns over rows that are not NaN; NaN if there are few."""
    known = ~np.isnan(rows)
    totals = np.where(known, rows, 0).sum(axis=0)
    enough = known.mean(axis=0) > 0.5
    return np.where(enough, totals / np.maximum(known.sum(axis=0), 1), np.nan).tolist()


PARTS = {
    "gate: normal, sparse, fall of 0.5; each by query, by cluster": gate,
    "means: 0.5, 0.8, 0.95 right, three levels, no ends; each by query, by cluster": means,
    "judged rankings: by query, by cluster, by cluster from tournaments": rankings,
    "judges against labels: by query, by cluster": judges,
}

BY = ("by query", "by cluster")
COLUMNS = {
    "gate": [f"{kind}, {by}" for kind in ("normal", "sparse", "fall of 0.5") for by in BY],
    "means": [
        f"{kind}, {by}"
        for kind in (*map(str, SHARES.values()), "three levels", "no ends")
        for by in BY
    ],
    "rankings": [*BY, "by cluster from tournaments"],
    "judges": [*BY],
}


def main() -> None:
    """Print a table for each part."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--part", choices=[one.__name__ for one in PARTS.values()])
    options = parser.parse_args()
    for title, part in PARTS.items():
        if options.part not in (None, part.__name__):
            continue
        columns = COLUMNS[part.__name__]
        print(f"{title}\nclusters  correlation  queries")
        for kind, queries, correlation in settings():
            if options.quick and queries > 14:
                continue
            cells = part(kind, queries, correlation, 5 if options.quick else options.repeats)
            shown = "  ".join("    -" if np.isnan(cell) else f"{cell:.3f}" for cell in cells)
            name = kind if correlation else "none"
            print(f"{name:8}  {correlation:11.1f}  {queries:7}  {shown}", flush=True)
            row = f"clusters {name}, correlation {correlation}", f"{queries} queries"
            for column, cell in zip(columns, cells, strict=True):
                add_figure(cell, part.__name__, *row, column)
    save(parser, options)


if __name__ == "__main__":
    main()
