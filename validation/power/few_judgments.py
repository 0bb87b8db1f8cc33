"""How many judgments a surrogate saves when a judge ranks a new model, and coverage.

The verdicts are real: a right answer beats a wrong one, on NoMIRACL (ten LLMs, eight languages, 120
queries) and HalluQA (24 LLMs, 225 Chinese questions). Each model in turn is new. Predictions come
from the verdicts and responses of the other models (:mod:`mirage.leaderboard`), without the
features that measure whether a query can be answered. The existing queries are the population, and
its logit is the truth. A replication draws queries with replacement, has a number of pairs judged,
and places the model with predictions, without them, and with random numbers as predictions. The
saving is the factor by which more judgments alone would give an equally narrow interval (the median
width, interpolated between numbers of judgments on a log scale), as a mean over models and
languages.

``features alone``: predictions without the verdicts on the anchors on the same query.

Further tables have the coverage on simulated arenas with distant models, and with a stopping rule.

    python validation/power/few_judgments.py       # needs MIRAGE_DATA; 10 minutes
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded
from _shared import DATA, require_data

from mirage import BradleyTerry, FeatureSuite, FeatureTable, Judgments, MirageDataset
from mirage.arena.placement import Anchors, level_of_looks, place, sample
from mirage.leaderboard import predictions
from mirage.models import Passage, Query, Response, Run
from mirage.sources import nomiracl

LANGUAGES = ("ar", "de", "en", "es", "fa", "id", "sw", "zh")
FEATURES = (*nomiracl.FEATURES, "reference_recall")
JUDGMENTS = (15, 25, 40, 65, 100, 160, 250, 400)
AT = (25, 40, 65)  # numbers of judgments at which savings are measured
QUERIES = (5, 20, 100)


class World(NamedTuple):
    """One population: tables of features, and whether each response is right."""

    name: str
    tables: list[FeatureTable]
    right: np.ndarray  # (models, queries)


def worlds(quick: bool) -> Iterator[World]:
    """Yield NoMIRACL's languages, and HalluQA."""
    for code in LANGUAGES[1:2] if quick else LANGUAGES:
        dataset, runs, _ = nomiracl.load(DATA / "nomiracl", code)
        tables = _scored(FEATURES, dataset, runs.values())
        right = [
            [nomiracl.is_right(run[q.id].text or "", bool(q.answerable)) for q in dataset]
            for run in runs.values()
        ]
        yield World(f"NoMIRACL {code}", tables, np.array(right, dtype=float))
    if quick:
        return
    queries: dict[str, Query] = {}
    answers: dict[str, dict[str, Response]] = {}
    correct: dict[str, dict[str, float]] = {}
    for line in (DATA / "halluqa" / "zh.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        id_, model = row["query_id"], row["system"]
        passages = tuple(Passage(**passage) for passage in row["passages"])
        queries[id_] = Query(
            id=id_,
            language="zh",
            text=row["query"],
            passages=passages,
            reference=row["reference"],
        )
        answers.setdefault(model, {})[id_] = Response(query_id=id_, text=row["response"])
        correct.setdefault(model, {})[id_] = row["judgments"]["correct"]
    whole = [id_ for id_ in queries if all(id_ in own for own in answers.values())]
    dataset = MirageDataset((queries[id_] for id_ in whole), name="halluqa")
    runs_of = {
        model: Run(model=model, language="zh", responses=tuple(own[id_] for id_ in whole))
        for model, own in answers.items()
    }
    tables = _scored(FEATURES, dataset, runs_of.values())
    right = [[correct[model][id_] for id_ in whole] for model in runs_of]
    yield World("HalluQA", tables, np.array(right, dtype=float))


def _scored(
    features: Iterable[str], dataset: MirageDataset, runs: Iterable[Run]
) -> list[FeatureTable]:
    """Return the features, including the length of a response."""
    suite = FeatureSuite(features, dataset.language)
    tables = []
    for run in runs:
        table = suite.score(dataset, run, progress=False)
        length = [[np.log1p(len(run[id_].text or ""))] for id_ in dataset.query_ids]
        values = np.hstack([table.values, length])
        tables.append(
            FeatureTable(
                run.model, run.language, table.query_ids, (*table.features, "length"), values
            )
        )
    return tables


class Case(NamedTuple):
    """A new model, its anchors, and the predictions; arrays are ``(queries, anchors)``."""

    got: np.ndarray
    predicted: dict[str, np.ndarray]
    among: np.ndarray  # what each anchor got against each, (anchors, anchors, queries)

    def anchors(self, drawn: np.ndarray) -> Anchors:
        """Return the logits of the anchors on drawn queries."""
        a, b = np.triu_indices(len(self.among), 1)
        n = len(drawn)
        fit = BradleyTerry().fit(
            Judgments(
                tuple(f"{i:04}" for i in range(n)),
                tuple(f"{i:02}" for i in range(len(self.among))),
                np.tile(np.arange(n, dtype=np.int32), len(a)),
                np.repeat(a.astype(np.int32), n),
                np.repeat(b.astype(np.int32), n),
                self.among[a, b][:, drawn].ravel().astype(np.float32),
            )
        )
        return Anchors(fit.logits, fit.influence, np.nan_to_num(fit.uncertainty - fit.covariance))

    @property
    def truth(self) -> float:
        """Return the logit in the population."""
        anchors = self.anchors(np.arange(self.got.shape[0]))
        return place(self.got, self.got, np.ones(self.got.shape), anchors).logit


def case_of(world: World, model: int) -> Case:
    """Return the case in which a model is new."""
    rest = [i for i in range(len(world.right)) if i != model]
    right = world.right[rest]
    among = (1 + right[:, None] - right[None]) / 2
    a, b = np.triu_indices(len(rest), 1)
    queries = world.tables[0].query_ids
    names = np.array([world.tables[i].model for i in rest])
    judgments = Judgments.from_arrays(
        query=np.tile(np.array(queries), len(a)),
        model_a=names[a].repeat(len(queries)),
        model_b=names[b].repeat(len(queries)),
        score=among[a, b].ravel(),
    )
    own, anchors = world.tables[model], [world.tables[i] for i in rest]
    got = (1 + world.right[model] - right).T / 2
    return Case(
        got,
        {
            "with predictions": predictions.from_verdicts(own, anchors, judgments),
            "features alone": predictions.from_verdicts(own, anchors, judgments, form=False),
            "random numbers": seeded(model).random(got.shape),
            "verdicts alone": np.full(got.shape, 0.5),
        },
        among,
    )


Told = dict[tuple[str, int, int], list[tuple[float, float, float]]]


def replicate(case: Case, replications: int, rng: np.random.Generator, told: Told) -> None:
    """Draw queries and pairs, place the model in every way, and record its intervals."""
    truth = case.truth
    for queries in QUERIES:
        for _ in range(replications):
            drawn = rng.integers(len(case.got), size=queries)
            anchors = case.anchors(drawn)
            for pairs in JUDGMENTS:
                if pairs > queries * case.got.shape[1]:
                    continue
                one = sample(
                    np.ones((queries, case.got.shape[1]), dtype=bool),
                    pairs,
                    seed=int(rng.integers(1 << 30)),
                )
                verdicts = np.full((queries, case.got.shape[1]), np.nan)
                verdicts[one.query, one.anchor] = case.got[drawn[one.query], one.anchor]
                for name, predicted in case.predicted.items():
                    if queries < 100 and name == "features alone":
                        continue
                    put = place(verdicts, predicted[drawn], one.probability, anchors)
                    told.setdefault((name, queries, pairs), []).append((*put.interval, truth))


def saved(told: Told, name: str) -> list[float]:
    """Return the factor by which more judgments alone would give an equally narrow interval."""
    widths = {
        key: np.nanmedian([high - low for low, high, _ in rows])
        for key, rows in told.items()
        if key[1] == 100
    }
    many = [n for n in JUDGMENTS if ("verdicts alone", 100, n) in widths]
    alone = np.log([widths["verdicts alone", 100, n] for n in many])
    ratios = []
    for n in AT:
        # Widths fall as judgments grow: as many alone as give this width.
        needed = np.interp(-np.log(widths[name, 100, n]), -alone, np.log(many))
        ratios.append(float(np.exp(needed)) / n)
    return ratios


def held(rows: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Return the coverage of the existing intervals, and the share with an interval."""
    low, high, truth = np.array(rows).T
    shown = ~np.isnan(low)
    inside = (low <= truth) & (truth <= high)
    return (float(inside[shown].mean()) if shown.any() else np.nan), float(shown.mean())


def real(quick: bool) -> None:
    """Print savings and coverage on NoMIRACL and HalluQA."""
    rng = seeded(0)
    by_world: dict[str, dict[str, list[list[float]]]] = {}
    everything: Told = {}
    for world in worlds(quick):
        models = range(len(world.right))
        for model in [0] if quick else list(models)[:: 1 if len(models) < 12 else 2]:
            told: Told = {}
            replicate(case_of(world, model), 1 if quick else 60, rng, told)
            kind = by_world.setdefault(world.name, {})
            for name in ("with predictions", "features alone", "random numbers"):
                kind.setdefault(name, []).append(saved(told, name))
            for key, rows in told.items():
                everything.setdefault(key, []).extend(rows)
        print(world.name, end=" ", flush=True)
    print(f"\n\njudgments saved at equal width, 100 queries: at {AT} judgments, and their mean")
    for name in ("with predictions", "features alone", "random numbers"):
        print(name)
        means = []
        for world_name, kind in by_world.items():
            each = np.mean(kind[name], axis=0)
            means.append(each)
            print(f"  {world_name:14}" + "".join(f"{x:7.2f}" for x in (*each, each.mean())))
            add_figure(each.mean(), "judgments saved", name, world_name)
        mean = np.mean(means[:-1] or means, axis=0)
        print("  NoMIRACL mean " + "".join(f"{x:7.2f}" for x in (*mean, mean.mean())))
        add_figure(mean.mean(), "judgments saved", name, "NoMIRACL mean")
    print("\n95 % intervals that hold the truth (and share shown), by queries and judgments")
    for name in ("with predictions", "random numbers", "verdicts alone"):
        print(name)
        for queries in QUERIES:
            cells = []
            for pairs in JUDGMENTS:
                if (rows := everything.get((name, queries, pairs))) is not None:
                    hit, shown = held(rows)
                    cells.append(f"{pairs:4}: {hit:.3f} ({shown:.2f})")
                    names = name, f"{queries} queries", f"{pairs} judgments"
                    add_figure(hit, "coverage", *names)
                    add_figure(shown, "intervals shown", *names)
            print(f"  {queries:4}  " + "  ".join(cells))


# Drawn arenas -------------------------------------------------------------------------------------


def drawn_case(own: float, spread: float, size: int, rng: np.random.Generator) -> Case:
    """Return a population of 2,000 queries: a model with this logit, and anchors around 0."""
    logits = np.linspace(-2, 2, size)
    effect = rng.normal(0, spread, (2000, size + 1))
    strength = np.append(logits, own) + effect
    chance = expit(strength[:, -1:] - strength[:, :-1])
    got = np.where(rng.random(chance.shape) < 0.2, 0.5, rng.random(chance.shape) < chance)
    gaps = strength[:, :-1]
    among = expit(gaps.T[:, None] - gaps.T[None])
    noise = rng.random(among.shape)
    among = np.triu((noise < among).transpose(2, 0, 1), 1).transpose(1, 2, 0).astype(float)
    among += (1 - among.transpose(1, 0, 2)) * np.tril(np.ones((size, size)), -1)[..., None]
    guess = expit((strength[:, -1:] - strength[:, :-1]) * 0.5 + rng.normal(0, 1, chance.shape))
    return Case(got, {"with predictions": guess}, among)


def far_apart(quick: bool) -> None:
    """Print the coverage if the model is near the anchors' mean, and far above it."""
    print("\ndrawn arenas: 8 anchors, 20 % ties; intervals that hold the truth (and share shown)")
    rng = seeded(1)
    for own in (0.0,) if quick else (0.0, 2.0, 4.0):
        for spread in (0.0, 1.5):
            told: Told = {}
            replicate(drawn_case(own, spread, 8, rng), 1 if quick else 500, rng, told)
            print(f"  logit {own}, spread of queries {spread}")
            for queries in QUERIES:
                cells = []
                for pairs in JUDGMENTS:
                    rows = told.get(("with predictions", queries, pairs))
                    if rows is not None:
                        hit, shown = held(rows)
                        cells.append(f"{pairs:4}: {hit:.3f} ({shown:.2f})")
                        names = f"logit {own}, spread {spread}", f"{queries} queries"
                        add_figure(hit, "far apart", *names, f"coverage, {pairs} judgments")
                print(f"    {queries:4}  " + "  ".join(cells), flush=True)


def stopping(quick: bool) -> None:
    """Print the coverage if judging stops when the model is surely above or below an anchor."""
    print("\nstopping once it is sure whether the model is above an anchor (8 looks, 100 queries)")
    rng = seeded(2)
    looks = [50 * (n + 1) for n in range(8)]
    level = level_of_looks(0.95, looks)
    for own in (0.286, 0.6):
        case = drawn_case(own, 1.0, 8, rng)
        truth, other = case.truth, case.anchors(np.arange(2000)).logits[4]
        tally: Mapping[str, list[float]] = {"plain": [], "widened": []}
        asked, wrong = [], []
        for _ in range(2 if quick else 600):
            drawn = rng.integers(2000, size=100)
            anchors, seed = case.anchors(drawn), int(rng.integers(1 << 30))
            for name, at in (("plain", 0.95), ("widened", level)):
                for pairs in looks:
                    one = sample(np.ones((100, 8), dtype=bool), pairs, seed=seed)
                    verdicts = np.full((100, 8), np.nan)
                    verdicts[one.query, one.anchor] = case.got[drawn[one.query], one.anchor]
                    guess = case.predicted["with predictions"][drawn]
                    low, high = place(verdicts, guess, one.probability, anchors, level=at).interval
                    if high < anchors.logits[4] or low > anchors.logits[4]:
                        break
                tally[name].append(low <= truth <= high)
                if name == "widened":
                    asked.append(pairs)
                    wrong.append(high < other < truth or truth < other < low)
        print(
            f"  logit {truth:.2f}, the anchor's {other:.2f}: 95 % interval holds "
            f"{np.mean(tally['plain']):.3f} as it is, {np.mean(tally['widened']):.3f} widened for "
            f"the looks; {np.mean(asked):.0f} judgments in the mean, order wrong in "
            f"{np.mean(wrong):.3f}"
        )
        names = "stopping", f"logit {own}"
        add_figure(np.mean(tally["plain"]), *names, "coverage: plain")
        add_figure(np.mean(tally["widened"]), *names, "coverage: widened")
        add_figure(np.mean(asked), *names, "judgments")
        add_figure(np.mean(wrong), *names, "order wrong")


def main() -> None:
    """Print everything."""
    parser = script_parser(__doc__, seed=True)
    options = parser.parse_args()
    require_data("nomiracl", "halluqa")
    parts: list[Callable[[bool], None]] = [real, far_apart, stopping]
    for part in parts:
        part(options.quick)
    save(parser, options)


if __name__ == "__main__":
    main()
