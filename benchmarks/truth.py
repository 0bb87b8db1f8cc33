"""Does truth rank above lies? Systems made of texts that nothing was trained on, in 18 languages.

The texts are those of ``tests/data/truth``: for every query a true paraphrase and a lie, or an
abstention and an invention, written by hand. From them come systems such as "true" and "true, in
English"; each ordering that anybody would expect of them has to hold with P >= 0.9.

1. On the bundled leaderboards.
2. With a manner of writing, or a kind of fault, held out of the training, one at a time; and how
   often the 95 % intervals of the systems that were held out hold their logits.
3. Without short answers: surrogates trained and systems scored on the corpus without them.

    python benchmarks/truth.py            # about fifteen minutes on two cores
    python benchmarks/truth.py sw en      # some languages
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from mirage import FeatureSuite, FeatureTable, MirageDataset, Response, Run, SurrogateRanker
from mirage.languages import LANGUAGES, Language
from mirage.models import Query
from mirage.statistics.ranks import p_better_by_draws
from mirage.surrogate.drafts import MANNERS, Draft, Scene, faultless
from mirage.surrogate.estimators import LINEAR
from mirage.surrogate.faults import FAULTS
from mirage.surrogate.pretraining import simulated_arena
from mirage.surrogate.simulation import GROUPS, SYSTEMS
from mirage.surrogate.training import TrainingData

TRUTH = Path(__file__).parents[1] / "tests" / "data" / "truth"

LIES = ("lie in the reference's words", "lie in its own words")
ORDERINGS = (
    *(("true", lie) for lie in (*LIES, "anchor/hallucinated", "anchor/wrong-entity")),
    ("true", "true, in English"),
    ("true", "true, wrongly cited"),
    ("true", "true, uncited"),
    ("true", "true, never abstains"),
    ("true", "all passages"),
    ("terse", "refusal"),
    *(("terse", lie) for lie in LIES),
    ("true, uncited", "lie, wrongly cited"),
    ("true, uncited", "refusal"),
    ("quoting", "all passages"),
    *(("quoting", lie) for lie in LIES),
)
"""The better system, the worse one."""

UNTRUE = (*LIES, "lie, wrongly cited", "anchor/wrong-entity")
TRUTH_ABOVE_LIES = tuple(pair for pair in ORDERINGS if pair[1] in UNTRUE)

Draws = Mapping[str, np.ndarray]


# Systems ------------------------------------------------------------------------------------------


def written(code: str) -> dict[str, dict[str, str]]:
    """The test set of a language, by query id."""
    lines = (TRUTH / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    return {row.pop("query_id"): row for row in map(json.loads, lines)}


class Page(NamedTuple):
    """One query, with what was written for it in the test set, here and abroad."""

    scene: Scene
    here: Mapping[str, str]
    abroad: Mapping[str, str]
    refusal: str

    @property
    def query(self) -> Query:
        """The query."""
        return self.scene.query

    def right(self) -> Draft:
        """The true answer, or the abstention."""
        return self.scene.parsed(self.here["true" if self.query.answerable else "abstention"])

    def wrong(self) -> Draft:
        """The lie in its own words; where nothing is known, the abstention."""
        return self.scene.parsed(self.here["false"]) if self.query.answerable else self.right()

    def lie_in_the_words_of_the_reference(self) -> Draft:
        """The reference, with the last wrong answer for the right one."""
        if not self.query.answerable:
            return self.right()
        other = self.query.model_copy(update={"wrong_answers": self.query.wrong_answers[-1:]})
        reference, rng = faultless(self.scene), np.random.default_rng(0)
        return FAULTS["wrong-entity"].done_to(reference, self.scene.at(other), rng) or reference

    def terse(self) -> Draft:
        """The first form of each answer and its passage; the shorter of two abstentions."""
        if not self.query.answerable:
            return self.right()
        answers = ", ".join(forms[0] for forms in self.query.answers)
        return self.scene.parsed(f"{answers} [{self.query.relevant[0]}]")

    def cited_wrongly(self, draft: Draft) -> Draft:
        """The draft with every citation of a passage that does not answer."""
        return FAULTS["wrongly-cited"].done_to(draft, self.scene, np.random.default_rng(0)) or draft


SYSTEMS_BY_NAME: Mapping[str, Callable[[Page], Draft]] = {
    "true": Page.right,
    "true, in English": lambda page: page.scene.abroad(0).parsed(
        page.abroad["true" if page.query.answerable else "abstention"]
    ),
    "true, wrongly cited": lambda page: page.cited_wrongly(page.right()),
    "true, uncited": lambda page: page.right().citing(lambda _: ()),
    "true, never abstains": lambda page: (
        page.right() if page.query.answerable else page.scene.parsed(page.here["invention"])
    ),
    "all passages": lambda page: page.right().saying(page.scene.sentences_of(*page.query.passages)),
    "terse": Page.terse,
    "quoting": lambda page: faultless(replace(page.scene, manner="quoting")),
    "refusal": lambda page: page.scene.parsed(page.refusal),
    LIES[0]: Page.lie_in_the_words_of_the_reference,
    LIES[1]: Page.wrong,
    "lie, wrongly cited": lambda page: page.cited_wrongly(page.wrong()),
}
"""What each system answers. "In English" is in Spanish for English queries."""


def runs(code: str) -> list[Run]:
    """The systems' responses to the bundled queries of a language."""
    corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
    here, abroad = written(code), written("es" if code == "en" else "en")
    refusals = [here[q.id]["abstention"] for q in corpora[code] if q.answerable is False]
    pages = [
        Page(Scene(query, corpora), here[query.id], abroad[query.id], refusals[i % len(refusals)])
        for i, query in enumerate(corpora[code])
    ]
    return [
        Run(
            model=name,
            language=code,
            responses=tuple(
                Response(query_id=page.query.id, text=answer(page).written(Language.of(code)))
                for page in pages
            ),
        )
        for name, answer in SYSTEMS_BY_NAME.items()
    ]


# Tables -------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """Whether an ordering held in a language, under some training."""

    code: str
    better: str
    worse: str
    p: float

    @property
    def holds(self) -> bool:
        """Whether it is as sure as was asked."""
        return self.p >= 0.9


def orderings(ranker: SurrogateRanker, code: str, tables: Iterable[FeatureTable]) -> list[Held]:
    """How sure each ordering is."""
    draws: dict[str, np.ndarray] = {t.model: ranker.predict(t).draws for t in tables}
    part = ranker.data[code]
    for anchor in ("hallucinated", "wrong-entity"):
        if anchor in part.models:
            draws[f"anchor/{anchor}"] = part.y[:, part.models.index(anchor)]
    return [
        Held(code, a, b, p_better_by_draws(draws[a], draws[b])) for a, b in ORDERINGS if b in draws
    ]


def without(part: TrainingData, hidden: Callable[[str], bool]) -> SurrogateRanker:
    """The surrogate of the systems that are not hidden."""
    return SurrogateRanker(LINEAR).fit_data(
        {part.language: part.without(filter(hidden, part.models))}
    )


def held_out(
    part: TrainingData, tables: list[FeatureTable], hide: Mapping[str, Callable[[str], bool]]
) -> tuple[list[Held], list[bool]]:
    """Orderings with each thing hidden in turn, and whether intervals of the hidden hold."""
    held, covered = [], []
    for hidden in hide.values():
        ranker = without(part, hidden)
        held += orderings(ranker, part.language, tables)
        for row, model in enumerate(part.models):
            if hidden(model):
                low, high = ranker.predict(part.table(row)).interval()
                covered.append(bool(low <= part.mean_y[row] <= high))
    return held, covered


BY_NAME = {system.name: system for system in SYSTEMS}
BY_MANNER = {
    manner: (lambda model, manner=manner: BY_NAME[model].manner == manner) for manner in MANNERS
}
BY_KIND = {kind: (lambda model, kind=kind: kind in BY_NAME[model].faults) for kind in FAULTS}


def one_language(code: str) -> dict[str, tuple[list[Held], list[bool]]]:
    """All tables of a language."""
    corpus = MirageDataset.bundled(code)
    ranker = SurrogateRanker.pretrained(code)
    part, suite = ranker.data[code], FeatureSuite.offline(code)
    systems = runs(code)
    tables = [suite.score(corpus, run, progress=False) for run in systems]
    bare = MirageDataset(
        (query.model_copy(update={"answers": (), "wrong_answers": ()}) for query in corpus),
        name=corpus.name,
    )
    plain = suite.applicable(bare)
    arena = simulated_arena(code, plain, scored_on=bare)
    plainly = SurrogateRanker(LINEAR).fit(*arena, groups=GROUPS)
    plain_tables = [plain.score(bare, run, progress=False) for run in systems]
    return {
        "bundled": (orderings(ranker, code, tables), []),
        "a manner held out": held_out(part, tables, BY_MANNER),
        "a kind of fault held out": held_out(part, tables, BY_KIND),
        "without short answers": (orderings(plainly, code, plain_tables), []),
    }


def show(title: str, held: list[Held], covered: list[bool]) -> None:
    """One table."""
    above = [one.holds for one in held if (one.better, one.worse) in TRUTH_ABOVE_LIES]
    print(
        f"\n{title}: {mean(one.holds for one in held):.1%} of {len(held)} orderings, "
        f"truth above lies {mean(above):.1%} of {len(above)}"
        + (f"; 95 % intervals hold {mean(covered):.3f}" if covered else "")
    )
    for pair in ORDERINGS:
        row = [one for one in held if (one.better, one.worse) == pair]
        missed = sorted({one.code for one in row if not one.holds})
        name = f"{pair[0]} > {pair[1]}"
        print(
            f"  {name:48} {mean(one.holds for one in row):6.1%}"
            f"   least P {min(one.p for one in row):.2f}   {' '.join(missed)}"
        )


def main(codes: list[str]) -> None:
    """Print the tables."""
    results = Parallel(n_jobs=-1)(delayed(one_language)(code) for code in codes)
    for title in results[0]:
        held = [one for result in results for one in result[title][0]]
        covered = [one for result in results for one in result[title][1]]
        show(title, held, covered)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    options = parser.parse_args()
    main(options.languages or list(LANGUAGES))
