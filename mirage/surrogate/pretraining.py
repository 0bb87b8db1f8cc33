"""How the surrogates that ship were made, from the bundled corpora alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage.arena import BradleyTerry, Judgments, Tournaments
from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite, FeatureTable
from mirage.languages import LANGUAGES
from mirage.models import Response, Run
from mirage.surrogate.artifacts import write_joblib, write_manifest
from mirage.surrogate.estimators import VERDICT_TREES, VERDICTS, one_thread
from mirage.surrogate.fault_costs import fault_costs, order_violations
from mirage.surrogate.ranker import SurrogateRanker
from mirage.surrogate.simulation import GROUPS, SYSTEMS, System, judge, simulate
from mirage.surrogate.utilities import UTILITIES, Utilities

__all__ = [
    "Arena",
    "simulated_arena",
    "simulated_judgments",
    "simulated_runs",
    "train_on_arena",
    "write_pretrained",
]

TOURNAMENTS = 200


class Arena(NamedTuple):
    """What a surrogate learns from.

    Attributes:
        tables: Features of each system.
        tournaments: Logits of the systems in tournaments.
        judgments: The verdicts behind the tournaments: every pair of systems on every query.
    """

    tables: list[FeatureTable]
    tournaments: Tournaments
    judgments: Judgments


def simulated_arena(
    code: str,
    suite: FeatureSuite | None = None,
    *,
    systems: Sequence[System] = SYSTEMS,
    scored_on: MirageDataset | None = None,
    utilities: Utilities = UTILITIES,
    number: int = TOURNAMENTS,
    seed: int = 0,
) -> Arena:
    """Return features and verdicts of simulated systems on the bundled corpus of a language.

    A tournament draws as many queries as the corpus has: more would pretend to more evidence
    than there is. The features are those of :meth:`FeatureSuite.offline
    <mirage.FeatureSuite.offline>` by default. They are computed on ``scored_on``, the bundled
    corpus by default, or that corpus without some of what is known of its queries.
    """
    corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
    corpus = corpora[code]
    runs, worth = simulate(corpora, code, systems, utilities=utilities, seed=seed)
    judgments = judge(worth, [run.model for run in runs], corpus.query_ids, seed=seed)
    tournaments = BradleyTerry().bootstrap(
        judgments, tournaments=number, queries=len(corpus), seed=seed
    )
    known = scored_on or corpus
    tables = list(_scored(suite or FeatureSuite.offline(code), known, runs))
    return Arena(tables, tournaments, judgments)


def simulated_judgments(code: str, *, seed: int = 0) -> Judgments:
    """The verdicts behind :func:`simulated_arena`: every pair of systems on every query."""
    corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
    runs, worth = simulate(corpora, code, SYSTEMS, seed=seed)
    return judge(worth, [run.model for run in runs], corpora[code].query_ids, seed=seed)


def simulated_runs(code: str, names: Collection[str], *, seed: int = 0) -> dict[str, Run]:
    """The responses of some of the simulated systems, by name, as surrogates learnt from them."""
    corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
    systems = [system for system in SYSTEMS if system.name in names]
    return {run.model: run for run in simulate(corpora, code, systems, seed=seed)[0]}


def _scored(
    suite: FeatureSuite, corpus: MirageDataset, runs: Iterable[Run]
) -> Iterator[FeatureTable]:
    """A table a run; a text that several systems give is scored once."""
    known: dict[Response, Floats] = {}
    for run in runs:
        new = tuple(response for response in run if response not in known)
        if new:
            table = suite.score(corpus, run.model_copy(update={"responses": new}), progress=False)
            known |= {one: table.select([one.query_id]).values[0] for one in new}
        values = np.stack([known[run[id_]] for id_ in corpus.query_ids])
        yield FeatureTable(run.model, run.language, corpus.query_ids, suite.names, values)


def train_on_arena(
    code: str,
    *,
    utilities: Utilities = UTILITIES,
    estimator: str = VERDICT_TREES,
    tournaments: int = TOURNAMENTS,
    seed: int = 0,
) -> SurrogateRanker:
    """Train a surrogate on the simulated arena of a language, in some minutes.

    Args:
        code: The language.
        utilities: How much each fault costs; see :mod:`mirage.surrogate.utilities`.
        estimator: As :class:`SurrogateRanker` takes it.
        tournaments: How many tournaments are drawn.
        seed: Random seed.
    """
    arena = simulated_arena(code, utilities=utilities, number=tournaments, seed=seed)
    learns_from_verdicts = estimator in (VERDICTS, VERDICT_TREES)
    judgments = arena.judgments if learns_from_verdicts else None
    ranker = SurrogateRanker(estimator, seed=seed)
    return ranker.fit(arena.tables, arena.tournaments, judgments=judgments, groups=GROUPS)


def write_pretrained(
    folder: Path, languages: Iterable[str] = tuple(LANGUAGES), *, n_jobs: int = 1
) -> list[str]:
    """Train the surrogates of languages and write them, and the manifest, into a folder.

    The same versions of the libraries on the same platform give the same bytes. The files leave
    out the verdicts, which would make them three times as large.

    Returns:
        In words, which faults cost less than they are to; see
        :func:`~mirage.surrogate.fault_costs.order_violations`.
    """
    from joblib import Parallel, delayed

    folder.mkdir(parents=True, exist_ok=True)
    violations = Parallel(n_jobs=n_jobs)(delayed(_write_one)(folder, code) for code in languages)
    write_manifest(folder)
    return [violation for of_language in violations for violation in of_language]


def _write_one(folder: Path, code: str) -> list[str]:
    with one_thread():  # sums over several threads differ in their last bits
        ranker = train_on_arena(code)
        write_joblib(folder / f"{code}.joblib", ranker.artifact.without_verdicts())
    return [f"{code}: {text}" for text in order_violations(fault_costs(ranker, code))]
