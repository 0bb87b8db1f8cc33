"""Production logs: false alarms and power of drift, and whether a log can be ranked.

The real data that this script reads does not train any part of Mirage.

``--part intervals``: differences between two independent sets of clusters, simulated. Clusters have
skewed sizes (1 to 60 queries; one in twenty is large) and a correlation of 0.5 within. The table
has 5, 20 and 100 clusters, also in unequal numbers. It shows the coverage of 95 % intervals of the
difference for rates of 0.02, 0.1, 0.5 and 0.98, for shares between 0 and 1, and for unbounded
numbers. It also shows how often any of the eight unchanged columns is called changed (alpha 0.05),
if the two sets are alike, and if the later one has larger clusters. A dash means that there is no
interval. The next table shows how often a loss of 0.1 is called no worse than 0.1.

``--part sessions``: the same for users who share their questions. Each user asks one to five
questions. A value depends on the question, the user and noise. With ``few`` shared questions
joining leaves one cluster, so sessions alone are the clusters. With ``many`` questions, a tenth of
the lines comes from a shared pool, and joining often leaves enough clusters. The table shows how
often each rule was used, how often there is an interval, its coverage, the rate of false alarms in
any of three measures, and how often a drop of 0.3 in one measure is detected. Both logs use the
same pool of questions. ``few, new pool`` draws another pool for the later log, which no clustering
by session can account for.

``--part weeks``: the same from end to end, on an LLM's answers to the questions of NoMIRACL
(``MIRAGE_DATA``), each asked by one to five users. The table shows how often a change, or a loss,
is detected in any of the measures if there is none, and if a tenth or three tenths of the questions
are shown the passages of another question.

``--part place``: whether a log can be ranked among the bundled anchors. A surrogate is trained on
the simulated arena with only those features that need no gold data. For whole kinds of fault that
were left out of training, the table has the coverage of 95 % intervals of logits. It also shows how
often a system that lies (another entity, a lie in the passages' words, another number, an
invention) ranks above the same manner without the fault, next to a surrogate with gold data. The
same follows for a left-out language. On questions from other data (``MIRAGE_DATA``), it prints the
rank correlation with the share of right answers of ten LLMs (NoMIRACL), the share of confident
pairs (0.975) that are in the wrong order, and the ranks of answers that people found faithful and
unfaithful (MEMERAG). The last table has the ranks of quotations of passages that answer and of
passages that do not.

    python validation/coverage/logs.py --part intervals
    python validation/coverage/logs.py --part place sw en
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded
from _shared import DATA

from mirage import FeatureSuite, FeatureTable, MirageDataset, Query, Run, SurrogateRanker, respond
from mirage.monitoring.drifts import shifts_between
from mirage.monitoring.lines import Line
from mirage.monitoring.logs import Log, _clusters, _sessions, regroup
from mirage.monitoring.traffic import NEW_WORDS, measure_log, new_words
from mirage.sources import memerag, nomiracl
from mirage.sources.contexts import Asked
from mirage.sources.nomiracl import is_right
from mirage.statistics.clusters import cluster_codes
from mirage.statistics.ranks import kendall_tau
from mirage.statistics.two_sample import MeanDifference, mean_differences
from mirage.surrogate import Prediction
from mirage.surrogate.estimators import LINEAR
from mirage.surrogate.faults import FAULTS
from mirage.surrogate.pretraining import simulated_arena
from mirage.surrogate.simulation import GROUPS
from mirage.surrogate.training import TrainingData, training_data
from mirage.text import split_sentences

CLUSTERS = ((5, 5), (5, 20), (20, 20), (20, 100), (100, 100))
RATES = (0.02, 0.1, 0.5, 0.98)
CORRELATION = 0.5
LOW = np.array([0.0] * 6 + [-np.inf] * 2)
HIGH = np.array([1.0] * 6 + [np.inf] * 2)
NAMES = (*(f"rate {rate}" for rate in RATES), "share", "share, skewed", "number", "skewed number")
MEANS = np.array([*RATES, 0.5, 1 - ndtr(1 / np.sqrt(2)), 0.0, np.exp(0.5)])


def drawn(clusters: int, larger: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the values ``(queries, columns)`` and clusters of one set."""
    sizes = rng.choice([1, 1, 1, 2, 3, 5, 8], clusters)
    sizes[rng.random(clusters) < 0.05] = 60
    sizes = np.ceil(sizes * larger).astype(int)
    codes = np.repeat(np.arange(clusters), sizes)
    shared = rng.normal(size=(clusters, len(MEANS)))[codes]
    seen = np.sqrt(CORRELATION) * shared
    seen += np.sqrt(1 - CORRELATION) * rng.normal(size=shared.shape)
    rates = [seen[:, i] < ndtri(rate) for i, rate in enumerate(RATES)]
    columns = [*rates, ndtr(seen[:, 4]), ndtr(seen[:, 5] - 1), seen[:, 6], np.exp(seen[:, 7])]
    return np.stack(columns, axis=1).astype(float), codes


def changed(row: MeanDifference) -> bool:
    """Return whether a difference is called significant, as `mirage.monitoring.drift` does."""
    return (
        row.p <= 0.05
        and not row.interval[0] <= 0 <= row.interval[1]
        and row.interval[0] == row.interval[0]
    )


def intervals(repeats: int, draws: int) -> None:
    """Print the coverage of intervals and the rate of false alarms."""
    print("clusters  larger  " + "  ".join(f"{name:>13}" for name in NAMES) + "  false alarms")
    for before, after in CLUSTERS:
        for larger in (1.0, 3.0):
            rng = seeded([before, after, int(larger)])
            held, shown, alarms = np.zeros(len(MEANS)), np.zeros(len(MEANS)), 0
            for _ in range(repeats):
                sets = (*drawn(before, 1.0, rng), *drawn(after, larger, rng))
                rows = mean_differences(*sets, LOW, HIGH, permutations=draws)
                ends = np.array([row.interval for row in rows])
                shown += ~np.isnan(ends[:, 0])
                held += (ends[:, 0] <= 0) & (ends[:, 1] >= 0)
                alarms += any(map(changed, rows))
            share = [
                f"{h / s:13.3f}" if s else f"{'-':>13}" for h, s in zip(held, shown, strict=True)
            ]
            print(
                f"{before:3} {after:4}  {larger:6}  "
                + "  ".join(share)
                + f"  {alarms / repeats:.3f}",
                flush=True,
            )
            names = "differences", f"{before} and {after} clusters, sizes x {larger:g}"
            for name, hits, count in zip(NAMES, held, shown, strict=True):
                add_figure(hits / count if count else np.nan, *names, f"coverage: {name}")
            add_figure(alarms / repeats, *names, "false positive rate")


def no_worse(repeats: int) -> None:
    """Print how often a loss of the margin, 0.1, is called no worse; the nominal rate is 0.025."""
    print("clusters  called no worse at a loss of 0.1, from " + ", ".join(map(str, (0.5, 0.98))))
    for before, after in CLUSTERS:
        rng = seeded([before, after])
        told = np.zeros(2)
        for _ in range(repeats):
            earlier, codes = drawn(before, 1.0, rng)
            normal, later_codes = drawn(after, 1.0, rng)  # column 6 is a normal deviate
            for i, rate in enumerate((0.5, 0.98)):
                later = (normal[:, 6:7] < ndtri(rate - 0.1)).astype(float)
                sets = (earlier[:, [RATES.index(rate)]], codes, later, later_codes)
                (row,) = mean_differences(*sets, np.zeros(1), np.ones(1), permutations=1)
                told[i] += -row.interval[0] <= 0.1
        print(f"{before:3} {after:4}  " + "  ".join(f"{share:.3f}" for share in told / repeats))
        for rate, share in zip((0.5, 0.98), told / repeats, strict=True):
            add_figure(share, "called no worse", f"{before} and {after} clusters", f"rate {rate}")


# Users who share their questions ------------------------------------------------------------------

POOLS = {"few": (8, 1.0), "many": (200, 0.1), "few, new pool": (8, 1.0)}


def shared_log(
    users: int, share: float, pool: np.ndarray, fall: float, rng: np.random.Generator
) -> tuple[Log, np.ndarray]:
    """Return the questions of some users as a log, and three measures of each line."""
    sessions = np.repeat(np.arange(users), rng.integers(1, 6, size=users))
    drawn_questions = rng.integers(len(pool), size=len(sessions))
    is_shared = rng.random(len(sessions)) < share
    names = [
        f"shared {q}" if common else f"own {i}"
        for i, (q, common) in enumerate(zip(drawn_questions, is_shared, strict=True))
    ]
    of_question = np.where(
        is_shared[:, None], pool[drawn_questions], rng.normal(size=(len(sessions), 3))
    )
    of_user = rng.normal(size=(users, 3))[sessions]
    noise = rng.normal(size=of_user.shape)
    values = ndtr((of_question + of_user + noise) / np.sqrt(3))
    values[:, 1] = values[:, 1] > 0.5
    values[:, 2] = values[:, 2] > 0.1
    values[:, 1] *= rng.random(len(values)) >= fall
    lines = [
        Line(Asked(Query(id=str(i), language="en", text=name), ()), None, None, None, str(user))
        for i, (name, user) in enumerate(zip(names, sessions.tolist(), strict=True))
    ]
    queries = [
        line.entry.query.model_copy(update={"cluster": cluster})
        for line, cluster in zip(lines, _clusters(lines, "questions and sessions"), strict=True)
    ]
    run = Run(model="m", language="en", responses=())
    log = Log(MirageDataset(queries), run, {}, "questions and sessions", _sessions(lines))
    return log, values


def codes_of(log: Log) -> np.ndarray:
    """Return the cluster of each question as a number."""
    clusters = {query.id: query.cluster for query in log.dataset if query.cluster}
    return cluster_codes(log.dataset.query_ids, clusters)


def sessions(repeats: int, draws: int) -> None:
    """Print coverage and false alarms if users share their questions."""
    print("questions       users  by session  shown  holds  false alarm  fall of 0.3 found")
    ends = np.zeros(3), np.ones(3)
    for pools, (size, share) in POOLS.items():
        for users in (5, 20, 100):
            rng = seeded([size, users, len(pools)])
            counts = np.zeros(5)
            for _ in range(repeats):
                pool = rng.normal(size=(size, 3))
                other = rng.normal(size=(size, 3)) if "new" in pools else pool
                before, earlier = shared_log(users, share, pool, 0.0, rng)
                for fall in (0.0, 0.3):
                    after, later = shared_log(users, share, other, fall, rng)
                    first, second = regroup([before, after])
                    sets = (earlier, codes_of(first), later, codes_of(second))
                    rows = mean_differences(*sets, *ends, permutations=draws)
                    if fall:
                        counts[4] += changed(rows[1]) and rows[1].difference < 0
                        continue
                    low, high = np.array([row.interval for row in rows]).T
                    counts[0] += first.clustering == "sessions"
                    counts[1] += 1 - np.isnan(low).mean()
                    counts[2] += ((low <= 0) & (high >= 0)).mean()
                    counts[3] += any(map(changed, rows))
            by_session, shown, held, alarms, found = counts / repeats
            holds = f"{held / shown:.3f}" if shown else "    -"
            print(
                f"{pools:15} {users:5}  {by_session:10.3f}  {shown:.3f}  {holds}  {alarms:11.3f}  "
                f"{found:.3f}",
                flush=True,
            )
            names = "sessions", pools, f"{users} users"
            add_figure(by_session, *names, "clustered by session")
            add_figure(shown, *names, "intervals shown")
            add_figure(held / shown if shown else np.nan, *names, "coverage")
            add_figure(alarms, *names, "false positive rate")
            add_figure(found, *names, "power for a fall of 0.3")


# Weeks of real answers ----------------------------------------------------------------------------


def weeks(code: str, repeats: int) -> None:
    """Print how often drift is detected in answers of LLMs, with and without a real change.

    A week has questions drawn from NoMIRACL in one language, each asked by one to five users in the
    same words, with the output of an LLM. In the faulty week, a share of the questions has the same
    answers but was shown the passages of another question.
    """
    dataset, runs, _ = nomiracl.load(DATA / "nomiracl", code)
    model, run = max(runs.items(), key=lambda item: len(item[1]))
    sound = measure_log(dataset.without_gold(), run, progress=False).table
    queries = list(dataset.without_gold())
    moved = MirageDataset(
        [
            query.model_copy(update={"passages": other.passages})
            for query, other in zip(queries, [*queries[1:], queries[0]], strict=True)
        ]
    )
    broken = measure_log(moved, run, progress=False).table
    for clusters in (5, 20, 100):
        for share in (0.0, 0.1, 0.3):
            rng = seeded([clusters, int(10 * share)])
            told = [
                _fell(
                    dataset, *(_week(sound, broken, clusters, amount, rng) for amount in (0, share))
                )
                for _ in range(repeats)
            ]
            seen, fell, held = np.mean(told, axis=0)
            print(
                f"{code}, {model}: {clusters} clusters, other passages for {share:.0%}: "
                f"a change is seen {seen:.3f}, a loss {fell:.3f}"
                + (f"; intervals hold {held:.3f}" if not share else ""),
                flush=True,
            )
            names = "weeks", f"{code}, {clusters} clusters", f"{share:.0%} with other passages"
            add_figure(seen, *names, "changed")
            add_figure(fell, *names, "worse")
            if not share:
                add_figure(held, *names, "coverage")


def _week(
    sound: FeatureTable, broken: FeatureTable, clusters: int, share: float, rng: np.random.Generator
) -> FeatureTable:
    """Return one week of questions; an id names its question."""
    rows = rng.integers(len(sound), size=clusters)
    values = np.where(
        rng.random(clusters)[:, None] < share, broken.values[rows], sound.values[rows]
    )
    times = rng.integers(1, 6, size=clusters)
    ids = [
        f"{sound.query_ids[row]} {n} {k}"
        for n, (row, often) in enumerate(zip(rows.tolist(), times.tolist(), strict=True))
        for k in range(often)
    ]
    return replace(
        sound,
        query_ids=tuple(ids),
        values=np.repeat(values, times, axis=0),
        reasons={},
        clusters={id_: id_.split()[1] for id_ in ids},
    )


def _fell(
    dataset: MirageDataset, before: FeatureTable, after: FeatureTable
) -> tuple[bool, bool, float]:
    """Return whether a change and a loss are detected, and the coverage of 0 by the intervals."""
    asked = [
        MirageDataset(dataset[id_.split()[0]].model_copy(update={"id": id_}) for id_ in t.query_ids)
        for t in (before, after)
    ]
    new = new_words(*asked, before.clusters, after.clusters)
    tables = [
        replace(
            table,
            features=(*table.features, *NEW_WORDS),
            values=np.column_stack([table.values, column]),
            facts={**table.facts, **NEW_WORDS},
        )
        for table, column in zip((before, after), new, strict=True)
    ]
    shifts = shifts_between(*tables, alpha=0.05, level=0.95, permutations=999, seed=0)
    moved = [shift for shift in shifts if shift.changed]
    ends = np.array([shift.interval for shift in shifts])
    ends = ends[~np.isnan(ends[:, 0])]
    held = float(np.mean((ends[:, 0] <= 0) & (ends[:, 1] >= 0))) if len(ends) else float("nan")
    return bool(moved), any(shift.worse for shift in moved), held


# A place on the board ----------------------------------------------------------------------------

UNGOLD = (
    "target_language",
    "english_language",
    "support_lexical",
    "support_lexical_all",
    "relevance_lexical",
    "unknown_facts",
    "passage_coverage",
    "answer_length",
)
LIES = ("wrong-entity", "lying", "wrong-number", "hallucinated", "answered-anyway")


def ungold(code: str) -> TrainingData:
    """Return training data without anything that a log does not contain."""
    blind = MirageDataset.bundled(code).without_gold()
    tables, tournaments, _ = simulated_arena(code, FeatureSuite(UNGOLD, code), scored_on=blind)
    return training_data(tables, tournaments, GROUPS)[code]


def fitted(part: TrainingData, models: Iterable[str]) -> SurrogateRanker:
    """Return a surrogate that was trained on these models."""
    return SurrogateRanker(LINEAR).fit_data({part.language: part.of(models)})


def holds(prediction: Prediction, logit: float) -> bool:
    """Return whether the interval contains the value."""
    low, high = prediction.interval()
    return low <= logit <= high


def kinds(name: str, part: TrainingData) -> None:
    """Print the results for kinds of fault that were left out of training."""
    actual = dict(zip(part.models, part.mean_y.tolist(), strict=True))
    place = {model: row for row, model in enumerate(part.models)}
    covered, above = [], {kind: [] for kind in LIES}
    for kind in FAULTS:
        held = [m for m in part.models if GROUPS[m] == kind]
        seen = [m for m in part.models if kind not in GROUPS[m].split("+")]
        ranker = fitted(part, seen)
        for model in held:
            prediction = ranker.predict(part.table(place[model]))
            covered.append(holds(prediction, actual[model]))
            if kind in LIES:
                manner = model.removeprefix(f"{kind}-") if model != kind else "reference"
                truth = ranker.predict(part.table(place[manner]))
                above[kind].append(prediction.logit >= truth.logit)
    lies = ", ".join(f"{kind} {sum(some)} of {len(some)}" for kind, some in above.items())
    print(f"{part.language}, {name}: intervals hold {np.mean(covered):.3f}; above truth: {lies}")
    names = "place", part.language, f"unseen kinds of fault, {name}"
    add_figure(np.mean(covered), *names, "coverage")
    for kind, flags in above.items():
        add_figure(np.mean(flags), *names, f"above truth: {kind}")


def quoted(query: Query, *, relevant: bool) -> str:
    """Return a sentence of a relevant or irrelevant passage as an answer, cited word for word."""
    chosen = next(
        (one for one in query.passages if (one.id in query.relevant) is relevant), query.passages[0]
    )
    return f"##Answer: {split_sentences(chosen.text, query.language)[0].strip()} [{chosen.id}]"


def quotations(part: TrainingData) -> None:
    """Print the ranks of true and of false answers that both quote a passage."""
    dataset = MirageDataset.bundled(part.language)
    ranker, suite = fitted(part, part.models), FeatureSuite(UNGOLD, part.language)
    asked = MirageDataset([query for query in dataset if query.relevant], name="answerable")
    texts = []
    for relevant in (True, False):
        answers = {query.id: quoted(query, relevant=relevant) for query in asked}
        run = respond(answers, asked, "quoting", progress=False)
        prediction = ranker.predict(suite.score(asked.without_gold(), run, progress=False))
        low, high = prediction.interval()
        better = 100 * np.mean(part.mean_y < prediction.logit)
        texts.append(f"{prediction.logit:.2f} [{low:.2f}, {high:.2f}], above {better:.0f} %")
        source = "relevant" if relevant else "irrelevant"
        names = "place", part.language, f"quotation of a passage that is {source}"
        add_figure(prediction.logit, *names, "logit")
        add_figure(better, *names, "percent of systems below")
    print(
        f"{part.language}: a passage that answers quoted {texts[0]}; one that does not {texts[1]}"
    )


def languages(learnt: TrainingData, unseen: TrainingData) -> None:
    """Print the coverage in a language that was not in the training data."""
    ranker = fitted(replace(learnt, language=unseen.language), learnt.models)
    held = [
        holds(ranker.predict(unseen.table(row)), logit)
        for row, logit in enumerate(unseen.mean_y.tolist())
    ]
    share = f"intervals hold {np.mean(held):.3f}"
    print(f"{unseen.language} from {learnt.language}: {share} of {len(held)} systems")
    add_figure(np.mean(held), "place", unseen.language, f"from {learnt.language}: coverage")


def nomiracl_order(part: TrainingData) -> None:
    """Print the order of ten LLMs next to their shares of right answers on NoMIRACL."""
    dataset, runs, _ = nomiracl.load(DATA / "nomiracl", part.language)
    ranker, suite = fitted(part, part.models), FeatureSuite(UNGOLD, part.language)
    blind = dataset.without_gold()
    right, places = {}, {}
    for model, run in runs.items():
        told = [is_right(one.text or "", bool(dataset[one.query_id].answerable)) for one in run]
        right[model] = float(np.mean(told))
        places[model] = ranker.predict(suite.score(blind, run, progress=False))
    tau = kendall_tau(
        np.array([places[model].logit for model in runs]), np.array(list(right.values()))
    )
    sure = wrong = 0
    for a, b in permutations(runs, 2):
        if (places[a].draws > places[b].draws).mean() >= 0.975:
            sure += 1
            wrong += right[a] < right[b] - 0.05
    unlike = sum(bool(place.unfamiliar) for place in places.values())
    print(
        f"{part.language}, NoMIRACL: tau {tau:.2f}; sure of {sure} pairs of 45, {wrong} of them "
        f"the other way round; {unlike} of {len(runs)} unlike any system it knows"
    )
    add_figure(tau, "place", part.language, "NoMIRACL", "tau")
    add_figure(sure, "place", part.language, "NoMIRACL", "sure pairs")
    add_figure(wrong, "place", part.language, "NoMIRACL", "sure pairs that are wrong")


def memerag_places(part: TrainingData) -> None:
    """Print the ranks of answers that people found faithful, and of others."""
    dataset, run, sentences = memerag.load(
        DATA / "memerag" / "memerag" / f"{part.language}.jsonl", part.language
    )
    unfaithful = {one.query_id for one in sentences if "Not Supported" in one.factuality}
    ranker, suite = fitted(part, part.models), FeatureSuite(UNGOLD, part.language)
    for name, faithful in (("faithful", True), ("unfaithful", False)):
        ids = [id_ for id_ in dataset.query_ids if (id_ not in unfaithful) is faithful]
        some = run.model_copy(update={"responses": tuple(run[id_] for id_ in ids)})
        queries = MirageDataset([dataset[id_] for id_ in ids], name=name)
        prediction = ranker.predict(suite.score(queries, some, progress=False))
        low, high = prediction.interval()
        better = np.mean(part.mean_y < prediction.logit)
        print(
            f"{part.language}, MEMERAG, {len(ids)} {name} answers: {prediction.logit:.2f} "
            f"[{low:.2f}, {high:.2f}], above {100 * better:.0f} % of the simulated systems"
            + (f"; unlike any: {prediction.unfamiliar}" if prediction.unfamiliar else "")
        )
        add_figure(prediction.logit, "place", part.language, "MEMERAG", name, "logit")


def place(codes: Sequence[str]) -> None:
    """Print whether a surrogate without gold data ranks systems correctly."""
    parts = [ungold(code) for code in codes]
    for part in parts:
        kinds("without gold", part)
        kinds("with gold", SurrogateRanker.pretrained(part.language).data[part.language])
        quotations(part)
        if (DATA / "nomiracl" / "relevant" / f"{part.language}.jsonl").is_file():
            nomiracl_order(part)
        if (DATA / "memerag" / "memerag" / f"{part.language}.jsonl").is_file():
            memerag_places(part)
    for learnt, unseen in pairwise([*parts, parts[0]]):
        if learnt is not unseen:
            languages(learnt, unseen)


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("languages", nargs="*", default=["en", "de", "sw"])
    parser.add_argument(
        "--part", choices=("intervals", "sessions", "weeks", "place", "all"), default="all"
    )
    options = parser.parse_args()
    if options.part in ("intervals", "all"):
        intervals(3 if options.quick else 1000, 99 if options.quick else 999)
        no_worse(20 if options.quick else 2000)
    if options.part in ("sessions", "all"):
        sessions(2 if options.quick else 1000, 99 if options.quick else 999)
    codes = options.languages[:1] if options.quick else options.languages
    if options.part in ("weeks", "all"):
        for code in codes:
            if (DATA / "nomiracl" / "relevant" / f"{code}.jsonl").is_file():
                weeks(code, 1 if options.quick else 300)
    if options.part in ("place", "all") and not options.quick:
        place(codes)
    save(parser, options)


if __name__ == "__main__":
    main()
