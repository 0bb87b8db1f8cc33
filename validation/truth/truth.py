"""How often right answers rank above wrong ones, on held-out texts in 18 languages.

The texts are those of ``tests/data/truth``: for every query a true paraphrase and a lie, or an
abstention and an invention, written by hand. Systems such as "true" and "true, in English" are made
from them. The phrases of ``tests/data/phrases`` make more systems, such as "mention-lie" and "true
chatty". Each expected ordering has to hold with P >= 0.9.

1. On the bundled leaderboards.
2. With a manner of writing, or a kind of fault, held out of the training, one at a time; with the
   coverage of 95 % intervals of the logits of held-out systems.
3. Without short answers: surrogates trained and systems scored on the corpus without them.

    python validation/truth/truth.py                       # about fifteen minutes on two cores
    python validation/truth/truth.py sw en --part bundled  # some languages, one table: a minute
    python validation/truth/truth.py sw --surrogates DIR   # surrogates that do not ship
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _judgments import simulated_judgments
from _results import add_figure, save, script_parser
from _shared import TESTS

from mirage import FeatureSuite, FeatureTable, MirageDataset, Response, Run, SurrogateRanker
from mirage.languages import LANGUAGES, Language
from mirage.models import Query
from mirage.statistics.ranks import p_better_by_draws
from mirage.surrogate.artifacts import Artifact
from mirage.surrogate.drafts import (
    MANNERS,
    Draft,
    Phrases,
    Scene,
    abstention_of,
    faultless,
    filled,
    framed,
    read_phrases,
)
from mirage.surrogate.estimators import VERDICT_TREES
from mirage.surrogate.faults import ARENA_FAULTS, FAULTS
from mirage.surrogate.pretraining import simulated_arena
from mirage.surrogate.simulation import GROUPS, SYSTEMS
from mirage.surrogate.training import TrainingData, placed_judgments

TEXTS = TESTS / "data"

LIES = ("lie in the reference's words", "lie in its own words")
TRUE = ("true contrasting", "true corrected", "true chatty")
FALSE_CLAIMS = ("denial", "mention-lie", "guess", "abstain then lie")
NO_CHOICE = ("candidate list", "undecided")
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
    *((true, untrue) for true in ("true", *TRUE) for untrue in (*FALSE_CLAIMS, *NO_CHOICE)),
    *((true, lie) for true in TRUE for lie in LIES),
    *(
        (refusal, lie)
        for refusal in ("refusal", "refusal in general words")
        for lie in (*LIES, "lie, wrongly cited", *FALSE_CLAIMS)
    ),
    *(("true, uncited", lie) for lie in (*LIES, *FALSE_CLAIMS)),
    ("true", "half right"),
    *(("half right", lie) for lie in LIES),
)
"""The better system, the worse one."""

UNTRUE = (*LIES, "lie, wrongly cited", "anchor/wrong-entity", *FALSE_CLAIMS)
TRUTH_ABOVE_LIES = tuple(pair for pair in ORDERINGS if pair[1] in UNTRUE)

Draws = Mapping[str, np.ndarray]


# Systems ------------------------------------------------------------------------------------------


def written(code: str) -> dict[str, dict[str, str]]:
    """Return the test set of a language, by query id."""
    lines = (TEXTS / "truth" / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    return {row.pop("query_id"): row for row in map(json.loads, lines)}


def cited_in(draft: Draft) -> tuple[str, ...]:
    """Return the ids that a draft cites."""
    return tuple(dict.fromkeys(id_ for s in draft.sentences for id_ in s.citations))


class Page(NamedTuple):
    """One query with the texts and phrases of the test set, in its language and in another."""

    scene: Scene
    here: Mapping[str, str]
    abroad: Mapping[str, str]
    refusal: str
    phrases: Phrases

    @property
    def query(self) -> Query:
        """Return the query."""
        return self.scene.query

    def right(self) -> Draft:
        """Return the true answer, or the abstention."""
        return self.scene.parsed(self.here["true" if self.query.answerable else "abstention"])

    def wrong(self) -> Draft:
        """Return the lie in its own words; if no passage answers, the abstention."""
        return self.scene.parsed(self.here["false"]) if self.query.answerable else self.right()

    def lie_in_the_words_of_the_reference(self) -> Draft:
        """Return the reference, with the last wrong answer for the right one."""
        if not self.query.answerable:
            return self.right()
        other = self.query.model_copy(update={"wrong_answers": self.query.wrong_answers[-1:]})
        reference, rng = faultless(self.scene), np.random.default_rng(0)
        return FAULTS["wrong-entity"].done_to(reference, self.scene.at(other), rng) or reference

    def terse(self) -> Draft:
        """Return the first form of each answer and its passage; the shorter of two abstentions."""
        if not self.query.answerable:
            return self.right()
        answers = ", ".join(forms[0] for forms in self.query.answers)
        return self.scene.parsed(f"{answers} [{self.query.relevant[0]}]")

    def claim(self, templates: Sequence[str]) -> Draft:
        """Return a filled template; if no passage answers, the abstention."""
        right = self.right()
        if not self.query.answerable:
            return right
        language, number = Language.of(self.query.language), int(self.query.id[1:])
        for i in range(len(templates)):
            text = filled(
                templates[(number + i) % len(templates)],
                self.query,
                true=right.answer(language),
                false=self.here["false"],
                wrong=number,
            )
            if text is not None:
                draft = self.scene.parsed(text)
                return draft if cited_in(draft) else draft.citing(lambda _: cited_in(right))
        return right  # no template fits a query without wrong answers

    def general_refusal(self) -> Draft:
        """Return an abstention that names nothing from the question."""
        templates = self.phrases.faults["abstain_then_lie"]
        template = templates[int(self.query.id[1:]) % len(templates)]
        return self.scene.parsed(abstention_of(template, self.scene))

    def chatty(self) -> Draft:
        """Return the true answer with Markdown and courtesies around it."""
        return framed(self.right(), self.phrases, np.random.default_rng([*self.query.id.encode()]))

    def half_right(self) -> Draft:
        """Return the true answer, and a sentence of a passage with other numbers."""
        if not self.query.answerable:
            return self.right()
        rng = np.random.default_rng(1)
        return ARENA_FAULTS["half-right"].done_to(self.right(), self.scene, rng) or self.right()

    def cited_wrongly(self, draft: Draft) -> Draft:
        """Return the draft with every citation of a passage that does not answer."""
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
    "refusal in general words": Page.general_refusal,
    LIES[0]: Page.lie_in_the_words_of_the_reference,
    LIES[1]: Page.wrong,
    "lie, wrongly cited": lambda page: page.cited_wrongly(page.wrong()),
    "denial": lambda page: page.claim(page.phrases.faults["denial"]),
    "mention-lie": lambda page: page.claim(page.phrases.faults["mention_lie"]),
    "guess": lambda page: page.claim(page.phrases.faults["unstated_guess"]),
    "abstain then lie": lambda page: page.claim(page.phrases.faults["abstain_then_lie"]),
    "candidate list": lambda page: page.claim(page.phrases.faults["candidate_list"]),
    "undecided": lambda page: page.claim(page.phrases.faults["undecided"]),
    "true contrasting": lambda page: page.claim(page.phrases.truths["contrast"]),
    "true corrected": lambda page: page.claim(page.phrases.truths["corrected"]),
    "true chatty": Page.chatty,
    "half right": Page.half_right,
}
"""What each system answers. "In English" is in Spanish for English queries."""


def runs(code: str) -> list[Run]:
    """Return the systems' responses to the bundled queries of a language."""
    corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
    here, abroad = written(code), written("es" if code == "en" else "en")
    refusals = [here[q.id]["abstention"] for q in corpora[code] if q.answerable is False]
    phrases = read_phrases((TEXTS / "phrases" / f"{code}.json").read_text(encoding="utf-8"))
    pages = [
        Page(
            Scene(query, corpora),
            here[query.id],
            abroad[query.id],
            refusals[i % len(refusals)],
            phrases,
        )
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
    """An ordering in a language under some training, and whether it held."""

    code: str
    better: str
    worse: str
    p: float

    @property
    def holds(self) -> bool:
        """Return whether the probability is at least the required one."""
        return self.p >= 0.9


def orderings(ranker: SurrogateRanker, code: str, tables: Iterable[FeatureTable]) -> list[Held]:
    """Return the probability of each ordering."""
    draws: dict[str, np.ndarray] = {t.model: ranker.predict(t).draws for t in tables}
    part = ranker.data[code]
    for anchor in ("hallucinated", "wrong-entity"):
        if anchor in part.models:
            # A prediction has several draws of its error for each draw of the queries.
            logits = part.y[:, part.models.index(anchor)]
            draws[f"anchor/{anchor}"] = np.tile(logits, len(draws["true"]) // len(logits))
    return [
        Held(code, a, b, p_better_by_draws(draws[a], draws[b])) for a, b in ORDERINGS if b in draws
    ]


def without(whole: Artifact, part: TrainingData, hidden: Callable[[str], bool]) -> SurrogateRanker:
    """Return the surrogate of the systems that are not held out.

    Its trees are fitted without the held-out systems. Its intervals use the errors of the whole
    surrogate's cross-validation on the others, because repeating it would take an hour a language.
    """
    code = part.language
    rows = [row for row, model in enumerate(part.models) if not hidden(model)]
    candidate = whole.candidate
    errors = {"of_shared": {code: candidate.of_shared[code][rows]}}
    errors["of_all"] = {code: candidate.of_all[code][rows]}
    data = {code: part.without(filter(hidden, part.models))}
    artifact = Artifact(whole.estimator, whole.seed, replace(candidate, **errors), data)
    return SurrogateRanker.restored(artifact)


def held_out(
    whole: Artifact,
    part: TrainingData,
    tables: list[FeatureTable],
    hide: Mapping[str, Callable[[str], bool]],
) -> tuple[list[Held], list[bool]]:
    """Return orderings with each manner or fault held out, and the coverage of intervals."""
    held, covered = [], []
    for hidden in hide.values():
        ranker = without(whole, part, hidden)
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
BY_KIND = {kind: (lambda model, kind=kind: kind in BY_NAME[model].faults) for kind in ARENA_FAULTS}


PARTS = ("bundled", "manner", "kind", "bare")


def one_language(
    code: str, parts: Collection[str] = PARTS, surrogates: Path | None = None
) -> dict[str, tuple[list[Held], list[bool]]]:
    """Return some tables of a language; ``surrogates`` is a folder of other surrogates."""
    corpus = MirageDataset.bundled(code)
    if surrogates is None:
        ranker = SurrogateRanker.pretrained(code)
    else:
        ranker = SurrogateRanker.load(surrogates / f"{code}.joblib", trust=True)
    part, suite = ranker.data[code], FeatureSuite.default(code)
    systems = runs(code)
    tables = [suite.score(corpus, run, progress=False) for run in systems]
    results: dict[str, tuple[list[Held], list[bool]]] = {}
    if "bundled" in parts:
        results["bundled"] = (orderings(ranker, code, tables), [])
    if {"manner", "kind"} & set(parts):
        part = replace(part, judgments=placed_judgments(simulated_judgments(code), part))
    if "manner" in parts:
        results["a manner held out"] = held_out(ranker.artifact, part, tables, BY_MANNER)
    if "kind" in parts:
        results["a kind of fault held out"] = held_out(ranker.artifact, part, tables, BY_KIND)
    if "bare" in parts:
        results["without short answers"] = (without_short_answers(code, systems), [])
    return results


def without_short_answers(code: str, systems: Iterable[Run]) -> list[Held]:
    """Return the probability of each ordering if the corpus has no short answers."""
    corpus, suite = MirageDataset.bundled(code), FeatureSuite.default(code)
    bare = MirageDataset(
        (query.model_copy(update={"answers": (), "wrong_answers": ()}) for query in corpus),
        name=corpus.name,
    )
    plain = suite.applicable(bare)
    arena = simulated_arena(code, plain, scored_on=bare)
    plainly = SurrogateRanker(VERDICT_TREES).fit(
        arena.tables, arena.tournaments, judgments=arena.judgments, groups=GROUPS
    )
    plain_tables = [plain.score(bare, run, progress=False) for run in systems]
    return orderings(plainly, code, plain_tables)


def show(title: str, held: list[Held], covered: list[bool]) -> None:
    """Print one table."""
    above = [one.holds for one in held if (one.better, one.worse) in TRUTH_ABOVE_LIES]
    print(
        f"\n{title}: {mean(one.holds for one in held):.1%} of {len(held)} orderings, "
        f"truth above lies {mean(above):.1%} of {len(above)}"
        + (f"; 95 % intervals hold {mean(covered):.3f}" if covered else "")
    )
    add_figure(mean(one.holds for one in held), title, "orderings that hold")
    add_figure(len(held), title, "orderings")
    add_figure(mean(above), title, "truth above lies that holds")
    add_figure(len(above), title, "truth above lies")
    if covered:
        add_figure(mean(covered), title, "coverage")
    for pair in ORDERINGS:
        row = [one for one in held if (one.better, one.worse) == pair]
        missed = sorted({one.code for one in row if not one.holds})
        name = f"{pair[0]} > {pair[1]}"
        print(
            f"  {name:48} {mean(one.holds for one in row):6.1%}"
            f"   least P {min(one.p for one in row):.2f}   {' '.join(missed)}"
        )
        add_figure(sum(one.holds for one in row), title, "by ordering", name, "holds")
        add_figure(len(row), title, "by ordering", name, "of")
        add_figure(min(one.p for one in row), title, "by ordering", name, "least P")


def main(codes: Sequence[str], parts: Collection[str], surrogates: Path | None) -> None:
    """Print the tables."""
    run = Parallel(n_jobs=-1 if len(codes) > 1 else 1)
    results = run(delayed(one_language)(code, parts, surrogates) for code in codes)
    for title in results[0]:
        held = [one for result in results for one in result[title][0]]
        covered = [one for result in results for one in result[title][1]]
        show(title, held, covered)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    parser.add_argument("--part", action="append", choices=PARTS, help="all tables by default")
    parser.add_argument(
        "--surrogates", type=Path, metavar="DIR", help="as `mirage surrogate rebuild DIR` writes"
    )
    options = parser.parse_args()
    if options.quick:
        main(["en"], ["bundled"], options.surrogates)
    else:
        main(options.languages or list(LANGUAGES), options.part or PARTS, options.surrogates)
    save(parser, options)
