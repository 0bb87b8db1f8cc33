"""How often the better of two systems that differ on three queries is found.

Systems consist of the texts of ``tests/data/truth`` (``truth_hard`` for the hard level), on which
no surrogate was trained: a true answer or an abstention for each query, in the manners (styles of
writing) of ``tests/mannered_texts.py`` and of ``tests/data/phrases``. A kind of fault is then
applied to three queries. Two comparisons are made by :meth:`mirage.Ranking.compare`:

1. A system with the faults and the same system without them, in two manners of writing. The script
   prints how often P is at least 0.9 for the better system, and how often for the worse one.
2. Two manners of the same texts without faults. The script prints how often they are called
   different: P is at least 0.975 or at most 0.025, or the 95 % interval excludes 0.

    python validation/coverage/compared_systems.py        # about ten minutes on two cores
    python validation/coverage/compared_systems.py sw en  # some languages
    python validation/coverage/compared_systems.py --level hard  # on the hard set
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded
from _shared import TESTS
from mannered_texts import MANNERS, Page, phrases_of

from mirage import FeatureSuite, FeatureTable, MirageDataset, Response, Run, SurrogateRanker
from mirage.dataset import clusters_of
from mirage.features.findings import findings_of
from mirage.languages import LANGUAGES, Language
from mirage.models import Query
from mirage.ranking.comparison import advantages, p_positive, without_templates
from mirage.statistics.clusters import cluster_codes
from mirage.statistics.paired import paired_means
from mirage.surrogate.drafts import (
    Draft,
    Phrases,
    Scene,
    Texts,
    faultless,
    filled,
    framed,
    read_phrases,
)
from mirage.surrogate.faults import ARENA_FAULTS, Fault
from mirage.surrogate.reading_faults import HARD_FAULTS

CHANGED = 3
"""Queries on which two systems differ."""

SURE, DIFFERENT = 0.9, 0.975
FAULTY_MANNERS = ("plain", "everything")
FAULTS: Mapping[str, Mapping[str, Fault]] = {"quick": ARENA_FAULTS, "hard": HARD_FAULTS}
HELD_OUT = {"quick": "truth", "hard": "truth_hard"}
FORM = ("over-cited", "verbose", "padded", "truncated", "format-broken")
"""Faults of amount and form, which cost the least in the utilities of the simulated judge."""


class HeldOutScene(Scene):
    """A scene whose texts and phrases are those of the test set."""

    __slots__ = ()

    @property
    def texts(self) -> Texts:
        """The texts of the test set."""
        row = written(self.query.language, self.level)[self.query.id]
        right = row["true" if self.query.answerable else "abstention"]
        false = row["false" if self.query.answerable else "invention"]
        return Texts((right, right), right, false, false)

    @property
    def phrases(self) -> Phrases:
        """The phrases of the test set."""
        return phrases(self.query.language)


class Pair(NamedTuple):
    """The comparison of two systems.

    Attributes:
        kind: Kind of fault; empty if there is none.
        manners: Manners of the two systems.
        p: Probability that the first one is better.
        excludes: Whether the interval excludes 0.
    """

    code: str
    kind: str
    manners: tuple[str, str]
    p: float
    excludes: bool

    @property
    def differs(self) -> bool:
        """Whether the two are called different."""
        return self.excludes or not 1 - DIFFERENT < self.p < DIFFERENT


# Processes of joblib cannot unpickle a cached function of a script, but they can a dictionary.
_TEXTS: dict[tuple[str, str], Mapping[str, Mapping[str, str]]] = {}
_PHRASES: dict[str, Phrases] = {}


def written(code: str, level: str) -> Mapping[str, Mapping[str, str]]:
    """Return the texts of the test set, by query id."""
    if (code, level) not in _TEXTS:
        path = TESTS / "data" / HELD_OUT[level] / f"{code}.jsonl"
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        _TEXTS[code, level] = {row["query_id"]: row for row in rows}
    return _TEXTS[code, level]


def phrases(code: str) -> Phrases:
    """Return the phrases of the test set."""
    if code not in _PHRASES:
        path = TESTS / "data" / "phrases" / f"{code}.json"
        _PHRASES[code] = read_phrases(path.read_text(encoding="utf-8"))
    return _PHRASES[code]


class Author:
    """The writer of a language's responses, in any manner, with any kind of fault."""

    def __init__(self, code: str, level: str) -> None:
        self.code, self.language, self.level = code, Language.of(code), level
        corpora = {other: MirageDataset.bundled(other, level=level) for other in LANGUAGES}
        self.queries = corpora[code]
        self.scenes = [HeldOutScene(query, corpora, "casual", level) for query in self.queries]
        self.drafts = [faultless(scene) for scene in self.scenes]

    def run(self, manner: str, drafts: Sequence[Draft]) -> Run:
        """Return the responses with these drafts in a manner."""
        texts = (
            self.text(manner, draft, query, turn)
            for turn, (draft, query) in enumerate(zip(drafts, self.queries, strict=True))
        )
        responses = (
            Response(query_id=query.id, text=text)
            for query, text in zip(self.queries, texts, strict=True)
        )
        return Run(model=manner, language=self.code, responses=tuple(responses))

    def text(self, manner: str, draft: Draft, query: Query, turn: int) -> str:
        """Return a draft as text in a manner."""
        text = draft.written(self.language)
        if manner in PHRASED:
            templates = phrases(self.code).truths[manner]
            template = templates[turn % len(templates)]
            changed = filled(template, query, true=draft.answer(self.language), wrong=turn)
            return changed if query.answerable and changed else text
        if manner == "chatty":
            rng = np.random.default_rng([*query.id.encode()])
            return framed(draft, phrases(self.code), rng).written(self.language)
        if manner == "plain":
            return text
        wrapping = phrases_of(self.code)
        assert wrapping is not None
        return MANNERS[manner](Page(text, query, wrapping, turn))

    def faulty(self, kind: str, query: int) -> Draft | None:
        """Return a draft with a fault, or ``None`` if the query cannot have it."""
        rng = seeded([*self.code.encode(), query, *kind.encode()])
        return FAULTS[self.level][kind].done_to(self.drafts[query], self.scenes[query], rng)


PHRASED = ("contrast", "corrected")
ALL_MANNERS = ("plain", *MANNERS, "chatty", *PHRASED)


class Comparer:
    """Compares tables of features as :meth:`mirage.Ranking.compare` does."""

    def __init__(self, author: Author) -> None:
        self.author = author
        self.ranker = SurrogateRanker.pretrained(author.code, level=author.level)
        self.suite = FeatureSuite.default(author.code)
        clusters = clusters_of(author.queries)
        self.codes = cluster_codes(author.queries.query_ids, clusters)

    def tables(self, runs: Sequence[Run]) -> list[FeatureTable]:
        """Return the features of some runs."""
        tables = self.suite.score_all(self.author.queries, runs, progress=False)
        return [
            without_templates(table, findings_of(self.author.queries, run, table))
            for run, table in zip(runs, tables, strict=True)
        ]

    def pair(
        self, kind: str, first: FeatureTable, second: FeatureTable, differing: float = 1.0
    ) -> Pair:
        """Compare two systems that give different texts to a share of the queries."""
        gains = advantages(self.ranker, first, second, differing)
        low, high = paired_means(gains[:, None], self.codes, permutations=1000)[0].interval
        manners = first.model, second.model
        p = p_positive(gains, self.codes)
        return Pair(self.author.code, kind, manners, p, low > 0 or high < 0)


def differing_share(first: Run, second: Run, query_ids: Sequence[str]) -> float:
    """Return the share of queries on which the responses of two systems have different texts."""
    texts = [[(run[id_].text or "").strip() for id_ in query_ids] for run in (first, second)]
    return sum(a != b for a, b in zip(*texts, strict=True)) / len(query_ids)


def one_language(code: str, level: str, quick: bool) -> list[Pair]:
    """Return all comparisons in a language."""
    author = Author(code, level)
    comparer = Comparer(author)
    manners = ALL_MANNERS[:4] if quick else ALL_MANNERS
    manners = tuple(dict.fromkeys((*manners, *FAULTY_MANNERS)))
    runs = {manner: author.run(manner, author.drafts) for manner in manners}
    tables = comparer.tables(list(runs.values()))
    by_manner = dict(zip(manners, tables, strict=True))
    ids = author.queries.query_ids
    pairs = [
        comparer.pair("", a, b, differing_share(runs[a.model], runs[b.model], ids))
        for a, b in combinations(tables, 2)
    ]
    for manner in FAULTY_MANNERS[:1] if quick else FAULTY_MANNERS:
        for kind, rows in faulty_rows(
            comparer, manner, list(FAULTS[level])[: 4 if quick else None]
        ):
            right = by_manner[manner]
            for other in FAULTY_MANNERS:
                spoilt = changed(right, rows)
                differing = CHANGED / len(ids) if other == manner else 1.0
                pairs.append(comparer.pair(kind, by_manner[other], spoilt, differing))
    return pairs


def faulty_rows(
    comparer: Comparer, manner: str, kinds: Sequence[str]
) -> Iterator[tuple[str, Mapping[int, np.ndarray]]]:
    """Yield for each kind of fault the features of three responses with it, by row.

    The faults of different queries are mixed in a run, so that no text of theirs recurs in it.
    """
    author = comparer.author
    drafts = {
        kind: {
            row: draft for row in range(len(author.queries)) if (draft := author.faulty(kind, row))
        }
        for kind in kinds
    }
    chosen = {
        kind: sorted(
            seeded([7, *author.code.encode(), *kind.encode()])
            .permutation(sorted(rows))[:CHANGED]
            .tolist()
        )
        for kind, rows in drafts.items()
        if len(rows) >= CHANGED
    }
    jobs = [(kind, row) for kind, rows in chosen.items() for row in rows]
    mixtures: list[dict[int, str]] = []
    for kind, row in jobs:
        free = next((each for each in mixtures if row not in each), None)
        if free is None:
            mixtures.append(free := {})
        free[row] = kind
    runs = [
        author.run(
            manner,
            [drafts[mix[row]][row] if row in mix else d for row, d in enumerate(author.drafts)],
        )
        for mix in mixtures
    ]
    tables = comparer.suite.score_all(author.queries, runs, progress=False)
    values = {
        (kind, row): table.values[row]
        for mix, table in zip(mixtures, tables, strict=True)
        for row, kind in mix.items()
    }
    for kind, rows in chosen.items():
        yield kind, {row: values[kind, row] for row in rows}


def changed(table: FeatureTable, rows: Mapping[int, np.ndarray]) -> FeatureTable:
    """Return the table with the features of other responses in some rows."""
    values = table.values.copy()
    for row, features in rows.items():
        values[row] = features
    return replace(table, values=values)


# Tables -------------------------------------------------------------------------------------------


def show_power(pairs: Sequence[Pair]) -> None:
    """Print how often the better of two systems is recognised, by kind of fault."""
    print(
        f"\n{'faults on 3 queries':28}{'same manner':>13}{'the worse':>11}{'other':>9}{'worse':>8}"
    )
    kinds = list(dict.fromkeys(pair.kind for pair in pairs))
    groups = {"all kinds": kinds, "but amount and form": [k for k in kinds if k not in FORM]}
    for name, group in (*groups.items(), *((kind, [kind]) for kind in kinds)):
        cells = []
        for title, same in (("the same manner", True), ("another manner", False)):
            p = [
                pair.p
                for pair in pairs
                if pair.kind in group and (pair.manners[0] == pair.manners[1]) is same
            ]
            better = float(np.mean(np.array(p) >= SURE))
            worse = float(np.mean(np.array(p) <= 1 - SURE))
            cells += [better, worse]
            add_figure(better, "three faults", name, title, "the better one")
            add_figure(worse, "three faults", name, title, "the worse one")
        print(f"{name:28}{cells[0]:13.1%}{cells[1]:11.1%}{cells[2]:9.1%}{cells[3]:8.1%}")


def show_manners(pairs: Sequence[Pair]) -> None:
    """Print how often two manners of the same texts are called different."""
    print(f"\n{'two manners':28}{'different':>13}{'by P':>11}{'by interval':>13}")
    manners = list(dict.fromkeys(manner for pair in pairs for manner in pair.manners))
    codes = list(dict.fromkeys(pair.code for pair in pairs))
    groups = {"all pairs": list(pairs)}
    groups |= {manner: [p for p in pairs if manner in p.manners] for manner in manners}
    groups |= {code: [p for p in pairs if p.code == code] for code in codes}
    for name, group in groups.items():
        different = float(np.mean([pair.differs for pair in group]))
        by_p = float(np.mean([not 1 - DIFFERENT < pair.p < DIFFERENT for pair in group]))
        by_interval = float(np.mean([pair.excludes for pair in group]))
        add_figure(different, "two manners", name, "different")
        add_figure(by_p, "two manners", name, "by P")
        add_figure(by_interval, "two manners", name, "by interval")
        print(f"{name:28}{different:13.1%}{by_p:11.1%}{by_interval:13.1%}")


def main(codes: Iterable[str], level: str, quick: bool) -> None:
    """Print the tables."""
    parts = Parallel(n_jobs=1 if quick else -1)(
        delayed(one_language)(code, level, quick) for code in codes
    )
    pairs = [pair for part in parts for pair in part]
    show_power([pair for pair in pairs if pair.kind])
    show_manners([pair for pair in pairs if not pair.kind])


if __name__ == "__main__":
    parser = script_parser(__doc__, seed=True)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    parser.add_argument("--level", choices=tuple(FAULTS), default="quick", help="of the queries")
    options = parser.parse_args()
    languages = ["en"] if options.quick else options.languages or list(LANGUAGES)
    main(languages, options.level, options.quick)
    save(parser, options)
