"""Coverage of every kind of interval, and false alarms of the gate.

Six models (two judges in the parts about judges) are compared on 5, 14, 50 and 250 queries. On each
query, a model is better or worse than usual by a normally distributed amount, so verdicts on one
query are correlated. The designs are: no ties; ties that count as half a win (``half``), are
dropped (``drop``) or have a parameter (``davidson``); preferences that no order explains
(``intransitive``); one model that is compared with all others (``star``); and clusters of five
queries whose amounts have a correlation of 0.2 or 0.7. The clusters are passed to the library
(``clusters``) or not (``untold``). The true values are those of 20,000 queries. A row prints:

* ``logit``: 95 % intervals of ``BradleyTerry.fit``, and therefore of a judged ranking; ``rank``: of
  ranks, which are whole numbers and therefore have a higher coverage; ``wrong``: how often
  ``p_better`` is above 0.95 for the worse of two neighbours; ``tourn.``: intervals from 200
  tournaments of at most 100 queries each;
* votes: ``position``, ``verbosity``, ``self``-preference, Fleiss' ``kappa``;
* sentences: balanced accuracy ``b.acc``, a ``diff``erence of two, annotators' ``AC1`` and
  ``alpha``;
* ``gate``: false alarms over three features at a level of 5 % (8 % of 300 may be chance);
* ``surrogate``: intervals of predicted logits of a new model (ridge, 19 models).

``.`` means that there is no interval. Other scripts cover mean ranks over parallel languages
(``rank_sets.py``), surrogates against the jackknife+ (``held_out_intervals.py``), and corrected
means and shares (``powered_means.py``).

    python validation/coverage/intervals.py  # all, 300 replications: half an hour
    python validation/coverage/intervals.py --part votes --replications 60
    python validation/coverage/intervals.py --part gate --replications 2000 --design "clusters 0.7"
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, known_mean, save, script_parser, seeded
from held_out_intervals import NOISES

from mirage import BradleyTerry, FeatureTable, Judgments, SurrogateRanker
from mirage.arena import Tournaments, biases
from mirage.errors import JudgmentError
from mirage.statistics import classification as cl
from mirage.statistics.agreement import ac1_of, alpha_of, fleiss_of, terms
from mirage.statistics.bootstrap import bootstrap, draw_clusters, ratio
from mirage.statistics.clusters import cluster_sums
from mirage.statistics.permutation import single_step_p_values
from mirage.statistics.ranks import ranks, t_intervals
from mirage.statistics.worlds import correlated_deviates
from mirage.statistics.worlds import holds as held
from mirage.testing.comparison import FEWEST_CLUSTERS

Random = np.random.Generator
Row = dict[str, list[float]]
QUERIES = (5, 14, 50, 250)
MODELS, SPREAD, TOGETHER, LARGE = 6, 1.0, 5, 20_000
LOGITS = np.linspace(1, -1, MODELS)
NAMES = np.array([f"m{i}" for i in range(MODELS)])
TIES: dict[str, Any] = {"drop": "drop", "davidson": "davidson"}
DESIGNS = {
    "no ties": 0.0,
    "half": 0.0,
    "drop": 0.0,
    "davidson": 0.0,
    "intransitive": 0.0,
    "star": 0.0,
    "clusters 0.2": 0.2,
    "clusters 0.7": 0.7,
    "untold 0.2": 0.2,
    "untold 0.7": 0.7,
}


def deviates(random: Random, queries: int, columns: int, correlation: float) -> np.ndarray:
    """Return normal deviates; those of five queries in a row are correlated."""
    return correlated_deviates(np.arange(queries) // TOGETHER, correlation, columns, random)


def codes_of(design: str, queries: int) -> np.ndarray:
    """Return the cluster of each query that is passed to the library."""
    together = TOGETHER if design.startswith("clusters") else 1
    return np.arange(queries) // together


# Rankings


def pairs_of(design: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of models that are judged."""
    if design == "star":
        return np.zeros(MODELS - 1, dtype=int), np.arange(1, MODELS)
    a, b = np.triu_indices(MODELS, 1)
    return a, b


def scores(design: str, queries: int, random: Random) -> np.ndarray:
    """Return the score of the first model of each pair, ``(queries, pairs)``."""
    a, b = pairs_of(design)
    own = LOGITS + SPREAD * deviates(random, queries, MODELS, DESIGNS[design])
    ahead = own[:, a] - own[:, b]
    if design == "davidson":
        win, loss = np.exp(ahead / 2), np.exp(-ahead / 2)
        lot = random.random(ahead.shape) * (win + loss + 1)
        return np.where(lot < win, 1.0, np.where(lot < win + loss, 0.0, 0.5))
    if design == "intransitive":
        ahead = ahead + 0.8 * np.where((b - a) % 3 == 0, 1, -0.5)
    score = (random.random(ahead.shape) < 1 / (1 + np.exp(-ahead))).astype(float)
    ties = 0.3 if design in ("half", "drop") else 0.0
    return np.where(random.random(score.shape) < ties, 0.5, score)


def judgments(design: str, queries: int, random: Random) -> Judgments:
    """Return verdicts on all pairs of a design."""
    a, b = pairs_of(design)
    score = scores(design, queries, random)
    return Judgments.from_arrays(
        query=np.repeat(np.arange(queries), len(a)),
        model_a=np.tile(NAMES[a], queries),
        model_b=np.tile(NAMES[b], queries),
        score=score.ravel(),
    )


def rankings(design: str) -> Callable[[int, Random, Row], None]:
    """Return a function that measures logits, ranks and confidence."""
    model = BradleyTerry(ties=TIES.get(design, "half"))
    true = model.fit(judgments(design, LARGE, seeded(1))).logits
    places = ranks(true)
    order = np.argsort(-true)

    def once(queries: int, random: Random, row: Row) -> None:
        data = judgments(design, queries, random)
        codes = codes_of(design, queries).tolist()
        together = {} if codes[-1] == queries - 1 else {str(q): str(c) for q, c in enumerate(codes)}
        try:
            fit = model.fit(data, clusters=together)
        except JudgmentError:
            return  # too few decided verdicts to join all models
        add(row, "logit", held(fit.interval(), true))
        add(row, "rank", held(fit.rank_interval(), places))
        sure = fit.confidences > 0.95
        add(row, "wrong", sure[order[1:], order[:-1]])
        seed = int(random.integers(2**31))
        drawn = model.bootstrap(data, clusters=together, seed=seed, progress=False)
        add(row, "tourn.", held(drawn.interval(), true))

    return once


# Votes


def votes(design: str) -> Callable[[int, Random, Row], None]:
    """Return a function that measures biases and kappa; judges prefer long and first answers."""
    pairs = MODELS * (MODELS - 1) // 2
    correlation = DESIGNS[design]

    def outcomes(queries: int, random: Random) -> np.ndarray:
        """Return sums for a pair asked in both orders: first won both, second won both, and 1."""
        lean = 0.5 + deviates(random, queries, 1, correlation)
        first = random.random((2, queries, pairs)) < 1 / (1 + np.exp(-lean))
        both, neither = first.all(axis=0), ~first.any(axis=0)
        return np.stack([both, neither, np.ones(both.shape)], axis=-1).astype(float)

    def preference(queries: int, random: Random) -> np.ndarray:
        own = deviates(random, queries, pairs, correlation) * 0.7
        chance = 1 / (1 + np.exp(-own[..., None] - np.array([0.6, 0.0])))
        score = (random.random(chance.shape) < chance).astype(float)
        return np.concatenate([score, np.ones((*score.shape[:2], 1))], axis=-1)

    def labels(queries: int, random: Random) -> np.ndarray:
        """Return the terms of kappa, with either model of each item first."""
        sure = 1 / (1 + np.exp(-1 - deviates(random, queries, 1, correlation)))[..., None]
        shape = (queries, pairs, 3)
        shares = (0.5, 0.0, 0.5) if design == "no ties" else (0.4, 0.2, 0.4)
        truth = random.choice(3, p=shares, size=(*shape[:2], 1))
        given = np.where(random.random(shape) < sure, truth, random.choice(3, p=shares, size=shape))
        counts = np.eye(3)[given].sum(axis=2).reshape(-1, 3)
        both = terms(counts) + terms(counts[:, ::-1])
        return both.reshape(queries, pairs, -1)

    kinds: dict[str, tuple[Any, Any]] = {
        "position": (outcomes, difference),
        "self": (preference, difference),
        "kappa": (labels, fleiss_of),
    }
    true = {
        name: float(of(make(LARGE, seeded(2)).sum(axis=(0, 1))))
        for name, (make, of) in kinds.items()
    }
    long = slope(compared(design, LARGE // 4, seeded(3)))

    def once(queries: int, random: Random, row: Row) -> None:
        for name, (make, of) in kinds.items():
            values = make(queries, random)
            query = np.repeat(np.arange(queries), values.shape[1])
            flat = values.reshape(len(query), -1)
            seed = int(random.integers(2**31))
            cluster = codes_of(design, queries)[query]
            _, ends = bootstrap(query, flat, of, cluster=cluster, draws=400, seed=seed)
            add(row, name, held(np.array([ends]), np.array([true[name]])))
        rows = compared(design, queries, random)
        value, variance, degrees = biases._jackknife(rows, codes_of(design, queries))
        ends = t_intervals(np.array([value]), np.array([[variance]]), degrees)
        add(row, "verbosity", held(ends, np.array([long])))

    return once


def difference(sums: np.ndarray) -> np.ndarray:
    """Return the difference of two means; the last sum is the number of values."""
    return ratio(sums[..., 0] - sums[..., 1], sums[..., -1])


def compared(design: str, queries: int, random: Random) -> biases._PairVotes:
    """Return verdicts on answers of different length by a judge that prefers the longer one."""
    a, b = pairs_of(design)
    length = random.poisson(30 * np.exp(random.normal(0, 0.5, (queries, MODELS)))) + 1.0
    longer = (length[:, a] - length[:, b]) / (length[:, a] + length[:, b])
    own = LOGITS + 0.5 * deviates(random, queries, MODELS, DESIGNS[design])
    ahead = own[:, a] - own[:, b] + 2.0 * longer
    score = (random.random(ahead.shape) < 1 / (1 + np.exp(-ahead))).astype(float)
    if design in ("half", "davidson"):
        score = np.where(random.random(score.shape) < 0.3, 0.5, score)
    size = queries * len(a)
    table = biases.VoteTable(
        tuple(map(str, range(queries))),
        tuple(NAMES.tolist()),
        ("judge",),
        np.repeat(np.arange(queries), len(a)),
        np.tile(a, queries),
        np.tile(b, queries),
        np.zeros(size, dtype=int),
        np.ones(size, dtype=bool),
        score.ravel(),
        0,
    )
    return biases._PairVotes.of(table, length)


def slope(rows: biases._PairVotes) -> float:
    """Return the fitted verbosity bias."""
    return float(biases._fit(rows, np.ones((1, len(rows.query))), np.zeros(rows.models + 1))[0, -1])


# Sentences


def sentences(design: str) -> Callable[[int, Random, Row], None]:
    """Return a function that measures judges which are right on 93 and 80 % of sentences."""
    correlation = DESIGNS[design]

    def draw(queries: int, random: Random) -> tuple[np.ndarray, np.ndarray]:
        easy = deviates(random, queries, 2, correlation)
        truth = random.random((queries, 3)) < 1 / (1 + np.exp(-0.85 - 0.7 * easy[:, :1]))
        skill = np.log([0.93 / 0.07, 0.8 / 0.2]) + 0.8 * easy[:, 1:2]
        right = random.random((queries, 3, 2)) < 1 / (1 + np.exp(-skill))[:, None]
        return truth, right

    def tallied(queries: int, random: Random) -> cl.Tallies:
        truth, right = draw(queries, random)
        query = np.repeat(codes_of(design, queries), 3)
        return cl.tally(query, truth.ravel().astype(int), right.reshape(-1, 2))

    def given(queries: int, random: Random) -> np.ndarray:
        sure = 1 / (1 + np.exp(-1.2 - deviates(random, queries, 1, correlation)))[..., None]
        shape, shares = (queries, 3, 3), (0.7, 0.2, 0.1)
        truth = random.choice(3, p=shares, size=(queries, 3, 1))
        label = np.where(random.random(shape) < sure, truth, random.choice(3, p=shares, size=shape))
        return terms(np.eye(3)[label].sum(axis=2).reshape(-1, 3))

    accuracy = cl.recalls(tallied(LARGE, seeded(4))).mean(axis=0)
    sums = given(LARGE, seeded(5)).sum(axis=0)
    true = {"AC1": float(ac1_of(sums)), "alpha": float(alpha_of(sums))}

    def once(queries: int, random: Random, row: Row) -> None:
        tallies, seed = tallied(queries, random), int(random.integers(2**31))
        if tallies.total.shape[1] == 2:
            ends = cl.intervals([tallies], [[1, 0], [0, 1], [1, -1]])
            add(row, "b.acc", held(ends[:2], accuracy))
            add(row, "diff", held(ends[2:], np.array([accuracy[0] - accuracy[1]])))
        values = given(queries, random)
        query = np.repeat(codes_of(design, queries), 3)
        for name, of in (("AC1", ac1_of), ("alpha", alpha_of)):
            _, ends = bootstrap(query, values, of, draws=400, seed=seed)
            add(row, name, held(np.array([ends]), np.array([true[name]])))

    return once


# The gate and the surrogate


def gate(design: str) -> Callable[[int, Random, Row], None]:
    """Return a function that measures the gate on two runs of one system, with binary features."""
    correlation = DESIGNS[design]

    def once(queries: int, random: Random, row: Row) -> None:
        before, after = (
            (deviates(random, queries, 3, correlation) > -0.5).astype(float) for _ in range(2)
        )
        worsening = before - after
        if design in ("half", "drop", "davidson"):
            worsening[random.random(queries) < 0.5] = 0.0
        if design == "star":
            worsening[random.random(worsening.shape) < 0.5] = np.nan  # not computed
        if design == "intransitive":  # a few large losses, many small gains
            worsening = random.exponential(size=worsening.shape) - 1
        codes = codes_of(design, queries)
        if codes[-1] + 1 < min(FEWEST_CLUSTERS, queries):
            return
        sums, seed = cluster_sums(codes, worsening), int(random.integers(2**31))
        p = single_step_p_values(sums, permutations=999, seed=seed)
        fell = np.nansum(worsening, axis=0) > 0
        row.setdefault("gate", []).append(float((fell & (p <= 0.05)).any()))

    return once


def surrogate(design: str) -> Callable[[int, Random, Row], None]:
    """Return a function that measures predicted logits, which depend on features and noise."""
    correlation, noise = DESIGNS[design], NOISES["normal"]
    known, count = 19, 40

    def once(queries: int, random: Random, row: Row) -> None:
        quality = random.normal(size=(known + 1, 3))
        slopes = np.array([1.0, 0.5, 0.0])
        off = np.stack([deviates(random, queries, 3, correlation) for _ in quality])
        values = quality[:, None] + 0.3 * off
        codes = codes_of(design, queries)
        clusters = tuple(map(str, codes.tolist())) if codes[-1] + 1 < queries else ()
        counts = draw_clusters(clusters or range(queries), None, count, seed=random.integers(2**31))
        unknown = noise(random, known + 1)
        true = quality @ slopes + unknown
        logits = np.einsum("tq,mqf->tmf", counts, values) @ slopes / queries + unknown
        shift = logits[:, :known].mean(axis=1, keepdims=True)
        names = [f"m{i:02d}" for i in range(known + 1)]
        ids = tuple(f"q{i}" for i in range(queries))
        features = ("citation_recall@10", "answer_bleu", "other")
        tables = [
            FeatureTable(n, "sw", ids, features, v) for n, v in zip(names, values, strict=True)
        ]
        seen = logits[:, :known] - shift
        separated = np.zeros(seen.shape, bool)
        drawn = Tournaments(tuple(names[:known]), ids, counts, seen, separated, None, clusters)
        ranker = SurrogateRanker("ridge").fit(tables[:known], drawn)
        ends = ranker.predict(tables[known]).interval()
        add(row, "surrogate", held(np.array([ends]), true[-1:] - true[:known].mean()))

    return once


# Printing

ALONE = (
    "no ties",
    "clusters 0.2",
    "clusters 0.7",
    "untold 0.2",
    "untold 0.7",
)  # where no pairs are judged
PARTS = {
    "rankings": (rankings, ("logit", "rank", "wrong", "tourn."), tuple(DESIGNS)),
    "votes": (votes, ("position", "verbosity", "self", "kappa"), tuple(DESIGNS)),
    "sentences": (sentences, ("b.acc", "diff", "AC1", "alpha"), ALONE),
    "gate": (gate, ("gate",), tuple(DESIGNS)),
    "surrogate": (surrogate, ("surrogate",), ALONE),
}


def add(row: Row, name: str, values: np.ndarray) -> None:
    """Record the results of one replication."""
    row.setdefault(name, []).extend(np.asarray(values, dtype=float).tolist())


def lines(
    part: str, replications: int, chosen: Sequence[str], sizes: Sequence[int]
) -> Iterator[str]:
    """Yield the table of a part, row by row."""
    make, columns, designs = PARTS[part]
    yield f"{part}, {replications} replications"
    yield f"{'design':14}{'queries':>8}" + "".join(f"{name:>11}" for name in columns)
    for number, design in enumerate(DESIGNS):
        if design not in designs or design not in chosen:
            continue
        once = make(design)
        for queries in sizes:
            row: Row = {}
            for replication in range(replications):
                once(queries, seeded([number, queries, replication]), row)
            yield f"{design:14}{queries:8}" + "".join(f"{cell(row, name):>11}" for name in columns)
            for name in columns:
                add_figure(known_mean(row.get(name, [])), part, design, f"{queries} queries", name)


def cell(row: Row, name: str) -> str:
    """Return the coverage of the existing intervals, or a dot."""
    shown = np.array(row.get(name, []))
    shown = shown[~np.isnan(shown)]
    return f"{shown.mean():.3f}" if len(shown) else "."


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--design", choices=DESIGNS, action="append")
    parser.add_argument("--replications", type=int, default=300)
    options = parser.parse_args()
    replications, designs, sizes = options.replications, options.design or [*DESIGNS], QUERIES
    if options.quick:
        replications, designs, sizes = 2, ["no ties", "clusters 0.7"], QUERIES[:2]
    for part in options.part or PARTS:
        for line in lines(part, replications, designs, sizes):
            print(line, flush=True)
    save(parser, options)


if __name__ == "__main__":
    main()
