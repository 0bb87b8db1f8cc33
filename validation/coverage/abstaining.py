"""Judges that abstain: accuracy on decided items, and whether errors exceed the allowed share.

1. MEMERAG's labels of faithfulness (English, German, Spanish), without an LLM. A logistic
   regression and boosted trees combine features of sentences. They are trained on four of five
   parts of the queries. The distance from 0.5 at which a probability counts as decided is chosen on
   the same parts. The table has the balanced accuracy by the share of sentences that is decided:
   the mean over languages, with the range of a bootstrap over queries. The labels are those of one
   annotator, or the majority of five.
2. The same probabilities in 1,000 random splits of the queries. One half calibrates the risk, and
   the error is measured on the other half. The other half is itself a sample, so if the true error
   equals the risk, the measured error exceeds it in half of the splits. Therefore the error in the
   population is measured too: all sentences, from which queries for the calibration are drawn with
   replacement.
3. Simulated data, with and without clusters, with 50, 100 and 250 labels: how often the true error
   exceeds the risk, how much is decided, and how often the labels are too few. In the worst case,
   scores are uninformative and the true error is the risk itself.
4. `mirage decide` without a threshold. A regression on the labels converts scores to a
   probability, and is calibrated on parts that it was not fitted to. The simulated data are those
   of 3, with one informative score (or one that errs on every fifth item) and two scores that are
   noise. With `--decide-memerag`, MEMERAG is used instead, language by language: half of the
   queries have labels and the others are decided.
MEMERAG is for evaluation only: no part of Mirage is fitted to it.

    python validation/coverage/abstaining.py             # 1 and 2 need MIRAGE_DATA; 8 minutes
    python validation/coverage/abstaining.py --decide     # only 4
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded
from _shared import DATA

from mirage.errors import JudgmentError
from mirage.metaeval import AbstainingJudge, AnswerSentence, LabelledSentences, cascade, score
from mirage.metaeval.judges import Score, ask
from mirage.models import Query
from mirage.text import tokenize

LANGUAGES = ("en", "de", "es")
NAMED = ("support_lexical", "passage_coverage", "unknown_facts")
COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
FOLDS = 5


# Features ------------------------------------------------------------------------------------


def own_features(sentence: AnswerSentence) -> list[float]:
    """Return features that compare a sentence with its passages."""
    code = sentence.query.language
    tokens = tokenize(sentence.text, code)
    passages = [tokenize(passage.text, code) for passage in sentence.cited]
    question = set(tokenize(sentence.query.text, code))
    words, known = set(tokens), set().union(*map(set, passages))
    new = words - question
    pieces = [
        set(tokenize(piece, code))
        for passage in sentence.cited
        for piece in re.split(r"(?<=[.!?])\s+", passage.text)
    ]
    values = [len(words & known) / max(1, len(words)), len(new & known) / max(1, len(new))]
    values.append(max((len(words & piece) / max(1, len(words)) for piece in pieces), default=0))
    for size in (2, 3, 4):
        grams = {gram for passage in passages for gram in runs(passage, size)}
        own = runs(tokens, size)
        values.append(sum(gram in grams for gram in own) / max(1, len(own)))
    letters = {text[i : i + 5] for text in [sentence.text.lower()] for i in range(len(text) - 4)}
    source = " ".join(passage.text for passage in sentence.cited)
    low = source.lower()
    values.append(sum(piece in low for piece in letters) / max(1, len(letters)))
    values.append(sum(number not in source for number in re.findall(r"\d+", sentence.text)))
    names = re.findall(r"\b[A-ZÄÖÜÁÉÍÓÚÑ][\w-]+", sentence.text[1:])
    values.append(sum(name not in source for name in names) / max(1, len(names)))
    values += [math.log1p(len(tokens)), len(words & question) / max(1, len(words))]
    return values


def runs(tokens: list[str], size: int) -> list[tuple[str, ...]]:
    """Return all n-grams of the tokens."""
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


class World:
    """One variant of MEMERAG as columns, with probabilities predicted from other queries."""

    def __init__(self, variant: str) -> None:
        everything = LabelledSentences.memerag(DATA / "memerag" / variant, LANGUAGES)
        labelled, _ = everything.decided()
        self.positive = np.array([given == "Supported" for (given,) in labelled.labels])
        self.language = np.array([LANGUAGES.index(s.query.language) for s in labelled])
        names = [f"{s.query.language} {s.query.id}" for s in labelled]
        self.query = np.unique(names, return_inverse=True)[1]
        columns = [ask(name, labelled.sentences).scores for name in NAMED]
        X = np.column_stack([*columns, [own_features(sentence) for sentence in labelled]])
        of_answer = np.stack(  # the mean over the sentences of the answer
            [(np.bincount(self.query, x) / np.bincount(self.query))[self.query] for x in X.T[:7]]
        )
        place = np.array(self._places(everything, labelled))
        self.X = np.column_stack([X, of_answer.T, place, np.eye(3)[self.language]])

    @staticmethod
    def _places(everything: LabelledSentences, labelled: LabelledSentences) -> list[list[float]]:
        """Return the position of each sentence in its answer, and the length of the answer."""
        answers: dict[tuple[str, str], list[str]] = {}
        for s in everything:
            answers.setdefault((s.query.language, s.query.id), []).append(s.text)
        own = [(answers[s.query.language, s.query.id], s.text) for s in labelled]
        return [[float(all_.index(text)), float(len(all_))] for all_, text in own]

    def folds(self, seed: int) -> np.ndarray:
        """Return the part of each sentence's query."""
        rng = seeded(seed)
        return (rng.permutation(self.query.max() + 1) % FOLDS)[self.query]

    def probabilities(self, kind: str, fold: np.ndarray) -> np.ndarray:
        """Return the probability that a sentence is supported, from other queries."""
        given = np.empty(len(fold))
        for part in range(FOLDS):
            own = fold == part
            if kind == "support_lexical":
                given[own] = self.scaled(own)
                continue
            fitted = [model(name) for name in (("lr", "trees") if kind == "both" else (kind,))]
            values = [
                one.fit(self.X[~own], self.positive[~own]).predict_proba(self.X[own])[:, 1]
                for one in fitted
            ]
            given[own] = np.mean(values, axis=0)
        return given

    def scaled(self, own: np.ndarray) -> np.ndarray:
        """Return ``support_lexical`` alone, converted to a probability."""
        single = LogisticRegression(class_weight="balanced")
        return single.fit(self.X[~own, :1], self.positive[~own]).predict_proba(self.X[own, :1])[
            :, 1
        ]

    def balanced(self, right: np.ndarray, chosen: np.ndarray, weight: np.ndarray) -> float:
        """Return the balanced accuracy on the chosen sentences, as the mean over languages."""
        cells = [
            chosen & (self.language == code) & (self.positive == label)
            for code in range(3)
            for label in (True, False)
        ]
        return float(np.mean([weight[cell] @ right[cell] / weight[cell].sum() for cell in cells]))


def model(name: str):
    """Return one of the two models, with settings that were fixed before the measurement."""
    if name == "lr":
        fitted = LogisticRegression(C=0.02, class_weight="balanced", max_iter=500)
        return make_pipeline(StandardScaler(), fitted)
    return ExtraTreesClassifier(
        300, min_samples_leaf=8, class_weight="balanced", random_state=0, n_jobs=1
    )


# Tables --------------------------------------------------------------------------------------


def against_coverage(variant: str, quick: bool) -> tuple[World, np.ndarray]:
    """Print balanced accuracy by the share decided; return the columns and the labels."""
    world = World(variant)
    print(
        f"\n{variant}: {len(world.positive)} sentences of {world.query.max() + 1} queries, "
        f"{100 * world.positive.mean():.1f} % supported; balanced accuracy in %"
    )
    print("decided    " + "".join(f"{100 * share:>13.0f} %" for share in COVERAGES))
    fold, rng = world.folds(0), seeded(0)
    weights = rng.multinomial(
        world.query.max() + 1, np.ones(world.query.max() + 1) / (world.query.max() + 1), 400
    )[:, world.query].astype(float)
    for kind in ("lr",) if quick else ("support_lexical", "lr", "trees", "both"):
        given = world.probabilities(kind, fold)
        right, cells = (given >= 0.5) == world.positive, []
        for share in COVERAGES:
            chosen = np.zeros(len(fold), dtype=bool)
            for part in range(FOLDS):
                others = np.abs(given - 0.5)[fold != part]
                chosen |= (fold == part) & (np.abs(given - 0.5) >= np.quantile(others, 1 - share))
            value = world.balanced(right, chosen, np.ones(len(fold)))
            drawn = [world.balanced(right, chosen, weight) for weight in weights]
            low, high = np.nanquantile(drawn, [0.025, 0.975])
            cells.append(f"{100 * value:5.1f} ({100 * low:.0f}-{100 * high:.0f})")
            for name, number in ("value", value), ("low", low), ("high", high):
                add_figure(number, "balanced accuracy", variant, kind, f"{share:.0%} decided", name)
        print(f"{kind:16}" + "  ".join(f"{cell:>13}" for cell in cells), flush=True)
    return world, given


def splits(world: World, given: np.ndarray, number: int, variant: str) -> None:
    """Print how often a stated risk is exceeded if some of the queries calibrate it."""
    queries = world.query.max() + 1
    own = [np.flatnonzero(world.query == query) for query in range(queries)]
    for balanced, risk in ((False, 0.2), (False, 0.3), (True, 0.25)):
        rows = []
        for seed in range(number):
            rng = seeded(seed)
            half = rng.permutation(queries)[: queries // 2]
            drawn = rng.integers(queries, size=queries // 2)
            others = ~np.isin(world.query, half)
            row = []
            for chosen, measured in ((half, others), (drawn, np.ones(len(given), dtype=bool))):
                places = np.concatenate([own[query] for query in chosen])
                judge = AbstainingJudge.calibrate(
                    given[places],
                    world.positive[places],
                    risk=risk,
                    clusters=np.repeat(
                        np.arange(len(chosen)), [len(own[query]) for query in chosen]
                    ).tolist(),
                    balanced=balanced,
                    confidence=0.95,
                )
                said = judge.decide(given[measured])
                row += [judge.coverage, error_of(said, world.positive[measured], balanced) > risk]
            rows.append(row)
        coverage, other, _, truth = np.array(rows, dtype=float).mean(axis=0)
        print(
            f"  {'balanced error' if balanced else 'error':14} <= {risk}: decided "
            f"{100 * coverage:.0f} %; exceeded on the other half in {100 * other:.1f} %, on the "
            f"population in {100 * truth:.1f} % of {number}",
            flush=True,
        )
        names = "risk in halves", variant, f"{'balanced ' if balanced else ''}error <= {risk}"
        add_figure(coverage, *names, "decided")
        add_figure(other, *names, "exceeded on the other half")
        add_figure(truth, *names, "exceeded on the population")


def error_of(said: np.ndarray, positive: np.ndarray, balanced: bool) -> float:
    """Return the error rate of the decisions; 0 if nothing was decided."""
    decided = ~np.isnan(said)
    kinds = [positive, ~positive] if balanced else [decided]
    parts = [decided & kind for kind in kinds]
    return float(np.mean([np.mean(said[p] != positive[p]) for p in parts if p.any()] or [0.0]))


# Drawn data ----------------------------------------------------------------------------------


def drawn_data(replications: int) -> None:
    """Print how often the risk is exceeded on simulated data with a known truth."""
    print(f"\nrisk 0.2, {replications} calibrations: exceeded in % / decided in % / refused in %")
    print(
        "scores       clusters of  alike  error         50 labels      100 labels      250 labels"
    )
    for informed in (False, True):
        for largest, alike in ((1, 0.0), (3, 0.3), (3, 0.8), (5, 0.3), (5, 0.8)):
            for balanced in (False, True):
                cells = []
                for labels in (50, 100, 250):
                    rng = seeded(labels)
                    rows = np.array(
                        [
                            one(rng, labels, largest, alike, balanced, informed)
                            for _ in range(replications)
                        ]
                    )
                    kept = rows[~np.isnan(rows[:, 0])]
                    exceeded, decided = kept.mean(axis=0) if len(kept) else (np.nan, np.nan)
                    refused = 1 - len(kept) / replications
                    cells.append(
                        f"{100 * exceeded:4.1f} /{100 * decided:3.0f} /{100 * refused:3.0f}"
                    )
                    names = (
                        *("drawn data", "informed" if informed else "say nothing"),
                        *(f"clusters of 1 to {largest}, alike {alike}",),
                        *("balanced" if balanced else "share", f"{labels} labels"),
                    )
                    add_figure(exceeded, *names, "exceeded")
                    add_figure(decided, *names, "decided")
                    add_figure(refused, *names, "refused")
                name, kind = (
                    "informed" if informed else "say nothing",
                    "balanced" if balanced else "share",
                )
                print(
                    f"{name:12} 1 to {largest:<6} {alike:5}  {kind:9}", *cells, sep="  ", flush=True
                )


def one(
    rng: np.random.Generator,
    labels: int,
    largest: int,
    alike: float,
    balanced: bool,
    informed: bool,
    risk: float = 0.2,
) -> tuple[float, float]:
    """Return whether the true error exceeds the risk, and the share decided; NaN if refused."""
    sizes = rng.integers(1, largest + 1, size=labels)
    codes = np.repeat(np.arange(labels), sizes)[:labels]

    def latent() -> np.ndarray:
        common = rng.standard_normal(labels)[codes]
        return math.sqrt(alike) * common + math.sqrt(1 - alike) * rng.standard_normal(labels)

    positive = latent() < norm.ppf(0.65)
    if informed:  # normal scores 1.6 apart
        scores = np.where(positive, 0.8, -0.8) + latent()
    else:
        right = latent() > norm.ppf(risk)
        scores = np.where(right == positive, 1, -1) * np.abs(latent())
    try:
        judge = AbstainingJudge.calibrate(
            scores,
            positive,
            risk=risk,
            confidence=0.95,
            clusters=codes.tolist(),
            threshold=0.0,
            balanced=balanced,
        )
    except JudgmentError:
        return np.nan, np.nan
    true = risk + 1e-9
    if informed and judge.coverage:  # the same for both labels
        wrong, right_ = norm.cdf(-judge.margin - 0.8), norm.sf(judge.margin - 0.8)
        true = wrong / (wrong + right_)
    return float(judge.coverage > 0 and true > risk), judge.coverage


# As the command does it -------------------------------------------------------------------------


def fitted(replications: int, sizes: Sequence[int]) -> None:
    """Print how often the risk is exceeded if the score is fitted to the calibration labels."""
    print(
        f"\na score fitted to the labels, risk 0.2, {replications} calibrations: exceeded "
        "in % / decided in % / refused in %\nscores       clusters of  alike        50 labels      "
        "100 labels      250 labels"
    )
    for informed in (False, True):
        for largest, alike in ((1, 0.0), (3, 0.8)):
            cells = []
            for labels in sizes:
                rng = seeded(labels)
                rows = np.array(
                    [one_fitted(rng, labels, largest, alike, informed) for _ in range(replications)]
                )
                kept = rows[~np.isnan(rows[:, 0])]
                exceeded, decided = kept.mean(axis=0) if len(kept) else (np.nan, np.nan)
                refused = 1 - len(kept) / replications
                cells.append(f"{100 * exceeded:4.1f} /{100 * decided:3.0f} /{100 * refused:3.0f}")
                names = (
                    *("fitted score", "informed" if informed else "say nothing"),
                    *(f"clusters of 1 to {largest}, alike {alike}", f"{labels} labels"),
                )
                add_figure(exceeded, *names, "exceeded")
                add_figure(decided, *names, "decided")
                add_figure(refused, *names, "refused")
            name = "informed" if informed else "say nothing"
            print(f"{name:12} 1 to {largest:<6} {alike:5}  ", *cells, sep="  ", flush=True)


def one_fitted(
    rng: np.random.Generator, labels: int, largest: int, alike: float, informed: bool
) -> tuple[float, float]:
    """Do the same as `one`, with the true error measured on 20,000 other draws."""
    sizes = rng.integers(1, largest + 1, size=labels)
    codes = np.repeat(np.arange(labels), sizes)[:labels]

    def drawn(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def latent() -> np.ndarray:
            common = rng.standard_normal(codes.max() + 1)[codes]
            own = rng.standard_normal(len(codes))
            return math.sqrt(alike) * common + math.sqrt(1 - alike) * own

        positive = latent() < norm.ppf(0.65)
        if informed:
            return positive, np.where(positive, 0.8, -0.8) + latent()
        return positive, np.where((latent() > norm.ppf(0.2)) == positive, 1, -1) * np.abs(latent())

    positive, values = drawn(codes)
    sentences = numbered(codes)
    known = {one.text: value for one, value in zip(sentences, values.tolist(), strict=True)}
    labelled = LabelledSentences(
        sentences,
        tuple(("Supported" if one else "Not Supported",) for one in positive),
        ((),) * labels,
    )
    noise = seeded(labels).standard_normal((2, 20_000)).tolist()
    parts = [
        score(lambda s: known[s.text], name="drawn"),
        *(score(lambda s, n=n: noise[n][int(s.text)], name=f"noise {n}") for n in range(2)),
    ]
    try:
        judge = cascade(parts, None, labelled, confidence=0.95)
    except JudgmentError:
        return np.nan, np.nan
    coverage = judge.abstaining.coverage
    if not coverage:
        return 0.0, coverage
    truth, values = drawn(np.arange(20_000))
    others = numbered(np.zeros(20_000, dtype=int))
    known.update((one.text, value) for one, value in zip(others, values.tolist(), strict=True))
    kinds = {"Supported": 1.0, "Not Supported": 0.0}
    said = np.array([kinds.get(one.label or "", np.nan) for one in judge.scored(others)])
    # Where scores say nothing the error of the best rule is the risk, and no other one has less.
    return float(not informed or error_of(said, truth, False) > 0.2), coverage


def numbered(codes: np.ndarray) -> tuple[AnswerSentence, ...]:
    """Return sentences that differ in a number, grouped into these answers."""
    queries = [
        Query(id=f"q{code}", language="en", text=f"{code}?") for code in range(codes.max() + 1)
    ]
    return tuple(AnswerSentence(queries[code], str(n)) for n, code in enumerate(codes.tolist()))


def decided_languages(number: int) -> None:
    """Print the results of `mirage decide` by language, with half of the queries labelled."""
    for variant in ("memerag_ext_w_majority_vote", "memerag"):
        for code in LANGUAGES:
            labelled, _ = LabelledSentences.memerag(DATA / "memerag" / variant, [code]).decided()
            values = ask("support_lexical", labelled.sentences).scores
            known = {id(s): v for s, v in zip(labelled.sentences, values.tolist(), strict=True)}
            cheap = Score("support_lexical", lambda some, known=known: [known[id(s)] for s in some])
            queries = np.unique([s.query.id for s in labelled], return_inverse=True)[1]
            rows = []
            for seed in range(number):
                rng = seeded(seed)
                half = np.isin(queries, rng.permutation(queries.max() + 1)[: queries.max() // 2])
                judge = cascade([cheap], None, part(labelled, half), confidence=0.95, seed=seed)
                others = part(labelled, ~half)
                said = [one.label for one in judge.scored(others.sentences)]
                wrong = [a != b for a, (b,) in zip(said, others.labels, strict=True) if a]
                rows.append((len(wrong) / len(said), bool(wrong) and np.mean(wrong) > 0.2))
            share, over = np.mean(rows, axis=0)
            print(
                f"mirage decide, {variant}, {code}: {half.sum()} labels, risk 0.2: decides "
                f"{100 * share:.0f} %; exceeded on the other half in {100 * over:.1f} % of "
                f"{number}",
                flush=True,
            )
            add_figure(share, "mirage decide", variant, code, "decided")
            add_figure(over, "mirage decide", variant, code, "exceeded on the other half")


def part(labelled: LabelledSentences, rows: np.ndarray) -> LabelledSentences:
    """Return some of the sentences."""
    own = np.flatnonzero(rows).tolist()
    return LabelledSentences(
        tuple(labelled.sentences[row] for row in own),
        tuple(labelled.labels[row] for row in own),
        ((),) * len(own),
    )


def main() -> None:
    """Print everything."""
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("--decide", action="store_true", help="4 alone")
    parser.add_argument("--decide-memerag", action="store_true", help="4 on MEMERAG, too")
    options = parser.parse_args()
    quick = options.quick
    variants: tuple[str, ...] = ()
    if (DATA / "memerag").is_dir() and not options.decide:
        variants = ("memerag",) if quick else ("memerag_ext_w_majority_vote", "memerag")
    for variant in variants:
        world, given = against_coverage(variant, quick)
        splits(world, given, 2 if quick else 1000, variant)
    if not options.decide:
        drawn_data(2 if quick else 200)
    fitted(1 if quick else 200, (50,) if quick else (50, 100, 250))
    if options.decide_memerag:
        decided_languages(20 if quick else 200)
    save(parser, options)


if __name__ == "__main__":
    main()
