"""How many human labels features save when a share or a win rate is estimated from both.

1. MEMERAG's labels of faithfulness (English, German, Spanish), of one annotator and of the majority
   of five. Some sentences have a label, and all others only the features. The share of supported
   sentences is estimated from the labels alone, and corrected (PPI++). The existing sentences are
   the population: a replication draws 1,500 queries with replacement. The table has the number of
   labels that alone would give an equally narrow interval, divided by the number of labels
   (median), for one feature and for several together, and the coverage of the last 95 % interval.
2. Win rates against one other model, on NoMIRACL and HalluQA, as in ``few_judgments.py``.
3. Simulated data: coverage by number of clusters, with informative and uninformative features, also
   for the interval of an area under the ROC curve.

MEMERAG is for evaluation only. Corrections are fitted only to the labels of a replication. Below
ten labelled clusters, and with fewer than five labels of a kind, there is no interval.

    python validation/power/powered_means.py      # needs MIRAGE_DATA; 6 minutes
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, known_mean, save, script_parser, seeded
from _shared import DATA, require_data
from few_judgments import case_of, worlds

from mirage.metaeval import AnswerSentence, LabelledSentences, score
from mirage.metaeval.judges import ask
from mirage.statistics import powered_mean
from mirage.statistics.classification import roc_auc_interval
from mirage.statistics.prediction_powered import cross_predicted
from mirage.text import tokenize

LABELS = (30, 100, 300)
POOL = 1500  # queries


def brevity(sentence: AnswerSentence) -> float:
    """Return minus the length, because a longer sentence can have more errors."""
    return -math.log1p(len(sentence.text))


def copied(sentence: AnswerSentence) -> float:
    """Return the share of the sentence's token trigrams that occur in its passages."""
    code = sentence.query.language
    known = {
        triple for passage in sentence.cited for triple in triples(tokenize(passage.text, code))
    }
    own = triples(tokenize(sentence.text, code))
    return sum(triple in known for triple in own) / max(1, len(own))


def triples(tokens: list[str]) -> list[tuple[str, ...]]:
    """Return the trigrams of the tokens."""
    return [tuple(tokens[i : i + 3]) for i in range(len(tokens) - 2)]


FEATURES = ("support_lexical", "passage_coverage", "unknown_facts", score(copied), score(brevity))


def memerag(quick: bool) -> None:
    """Print the results for shares of supported sentences."""
    rng = seeded(0)
    for variant in ("memerag_ext",) if quick else ("memerag_ext", "memerag"):
        labelled, _ = LabelledSentences.memerag(
            DATA / "memerag" / variant, ("en",) if quick else ("en", "de", "es")
        ).decided()
        true = np.array([given == "Supported" for (given,) in labelled.labels], dtype=float)
        names = [f"{s.query.language} {s.query.id}" for s in labelled]
        query = np.unique(names, return_inverse=True)[1]
        values = np.stack([ask(one, labelled.sentences).scores for one in FEATURES], axis=1)
        own = [np.flatnonzero(query == q) for q in range(query.max() + 1)]
        print(f"\n{variant}: {len(true)} sentences, {100 * true.mean():.1f} % supported")
        print("labels   worth by support_lexical, by five together; intervals hold, shown; alone")
        for labels in LABELS:
            rows = []
            for seed in range(2 if quick else 300):
                drawn = rng.integers(len(own), size=POOL)
                places = np.concatenate([own[q] for q in drawn])
                cluster = np.repeat(np.arange(POOL), [len(own[q]) for q in drawn])
                some = rng.permutation(len(places))[:labels]
                given = np.full(len(places), np.nan)
                given[some] = true[places][some]
                X = values[places]
                one = powered_mean(given, X[:, 0], cluster=cluster)
                together = cross_predicted(X, given, cluster, seed=seed)
                all_ = powered_mean(given, together, cluster=cluster)
                held = [
                    np.nan if np.isnan(low) else low <= true.mean() <= high
                    for low, high in (one.interval, all_.interval, all_.alone_interval)
                ]
                rows.append((one.worth / labels, all_.worth / labels, *held))
            table = np.array(rows, dtype=float)
            print(
                f"{labels:6}   {np.nanmedian(table[:, 0]):.2f}  {np.nanmedian(table[:, 1]):.2f}   "
                f"{np.nanmean(table[:, 2]):.3f}  {np.nanmean(table[:, 3]):.3f}  "
                f"{np.mean(~np.isnan(table[:, 3])):.2f}   {np.nanmean(table[:, 4]):.3f}",
                flush=True,
            )
            names = "supported sentences", variant, f"{labels} labels"
            add_figure(np.nanmedian(table[:, 0]), *names, "worth: support_lexical")
            add_figure(np.nanmedian(table[:, 1]), *names, "worth: five features")
            add_figure(known_mean(table[:, 3].tolist()), *names, "coverage")
            add_figure(np.mean(~np.isnan(table[:, 3])), *names, "intervals shown")


def win_rates(quick: bool) -> None:
    """Print the results for win rates of each model against the middle one."""
    rng = seeded(1)
    print("\nwin rates against one model: worth of predictions; intervals hold, shown")
    for world in worlds(quick):
        order = np.argsort(world.right.mean(axis=1))
        middle, worth, held = int(order[len(order) // 2]), [], []
        models = [m for m in range(len(order)) if m != middle]
        for model in models[:: 8 if quick else 1]:
            case = case_of(world, model)
            place = middle - (model < middle)
            got, guess = case.got[:, place], case.predicted["with predictions"][:, place]
            for _ in range(2 if quick else 20):
                drawn = rng.integers(len(got), size=1000)
                given = np.full(1000, np.nan)
                given[:60] = got[drawn[:60]]
                mean = powered_mean(given, guess[drawn])
                if not np.isnan(mean.interval[0]):
                    worth.append(mean.worth / 60)
                held.append(
                    np.nan
                    if np.isnan(mean.interval[0])
                    else mean.interval[0] <= got.mean() <= mean.interval[1]
                )
        print(
            f"  {world.name:14} {np.median(worth):.2f}   {np.nanmean(held):.3f}  "
            f"{np.mean(~np.isnan(held)):.2f}",
            flush=True,
        )
        add_figure(np.median(worth), "win rates", world.name, "worth")
        add_figure(known_mean(held), "win rates", world.name, "coverage")
        add_figure(np.mean(~np.isnan(held)), "win rates", world.name, "intervals shown")


def drawn_data(quick: bool) -> None:
    """Print the coverage of intervals of shares and areas."""
    rng = seeded(2)
    times = 10 if quick else 2000
    print("\ndrawn shares, sentences in threes alike: intervals that hold, and share shown")
    for share in (0.5, 0.8, 0.95):
        for useful in (0.0, 1.5):
            cells = []
            for clusters in (5, 10, 20, 30, 100):
                hits = [share_held(share, useful, clusters, rng) for _ in range(times)]
                shown = ~np.isnan(hits)
                hit = np.nanmean(hits) if shown.any() else np.nan
                cells.append(f"{clusters}: {hit:.3f} ({shown.mean():.2f})")
                names = f"share {share}, worth {useful}", f"{clusters} clusters"
                add_figure(hit, "drawn shares", *names, "coverage")
                add_figure(shown.mean(), "drawn shares", *names, "intervals shown")
            print(f"  share {share}, features worth {useful}:  " + "  ".join(cells), flush=True)
    print("drawn areas, sentences in threes alike: intervals that hold, and share shown")
    for distance in (0.0, 1.0, 2.0):
        cells = []
        for clusters in (5, 10, 20, 100):
            hits = [area_held(distance, clusters, rng) for _ in range(times)]
            shown = ~np.isnan(hits)
            hit = np.nanmean(hits) if shown.any() else np.nan
            cells.append(f"{clusters}: {hit:.3f} ({shown.mean():.2f})")
            names = f"area {0.5 * math.erfc(-distance / 2):.2f}", f"{clusters} clusters"
            add_figure(hit, "drawn areas", *names, "coverage")
            add_figure(shown.mean(), "drawn areas", *names, "intervals shown")
        print(f"  area {0.5 * math.erfc(-distance / 2):.2f}:  " + "  ".join(cells), flush=True)


def share_held(share: float, useful: float, labelled: int, rng: np.random.Generator) -> float:
    """Return whether an interval contains the share, NaN if there is none."""
    queries = 4 * labelled
    alike = np.repeat(rng.normal(0, math.sqrt(0.5), (queries, 2)), 3, axis=0)
    parts = alike + rng.normal(0, math.sqrt(0.5), alike.shape)
    hidden = (useful * parts[:, 0] + parts[:, 1]) / math.hypot(useful, 1)
    edge = math.sqrt(2) * _erfinv(2 * share - 1)
    true = (hidden < edge).astype(float)
    cluster = np.repeat(np.arange(queries), 3)
    given = np.where(cluster < labelled, true, np.nan)
    low, high = powered_mean(given, -parts[:, 0], cluster=cluster).interval
    return np.nan if np.isnan(low) else float(low <= share <= high)


def area_held(distance: float, queries: int, rng: np.random.Generator) -> float:
    """Return whether an interval contains the area, NaN if there is none."""
    cluster = np.repeat(np.arange(queries), 3)
    alike = rng.normal(0, math.sqrt(0.5), queries)[cluster]
    positive = rng.random(len(cluster)) < 0.6
    scores = distance * positive + alike + rng.normal(0, math.sqrt(0.5), len(cluster))
    low, high = roc_auc_interval(scores, positive, cluster)
    return np.nan if np.isnan(low) else float(low <= 0.5 * math.erfc(-distance / 2) <= high)


def _erfinv(value: float) -> float:
    from scipy.special import erfinv

    return float(erfinv(value))


def main() -> None:
    """Print everything."""
    parser = script_parser(__doc__, seed=True)
    options = parser.parse_args()
    require_data("memerag", "nomiracl", "halluqa")
    for part in (drawn_data, memerag, win_rates):
        part(options.quick)
    save(parser, options)


if __name__ == "__main__":
    main()
