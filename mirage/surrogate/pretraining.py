"""How the surrogates that ship were made, from the bundled corpora alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mirage.arena import BradleyTerry, Tournaments
from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite, FeatureTable
from mirage.languages import LANGUAGES
from mirage.surrogate.artifacts import write_manifest
from mirage.surrogate.estimators import one_thread
from mirage.surrogate.ranker import SurrogateRanker
from mirage.surrogate.simulation import SYSTEMS, judge, simulate

__all__ = ["simulated_arena", "write_pretrained"]

TOURNAMENTS = 200


def simulated_arena(code: str, *, seed: int = 0) -> tuple[list[FeatureTable], Tournaments]:
    """Features and tournaments of the simulated systems on the bundled corpus of a language.

    A tournament draws as many queries as the corpus has: more would pretend to more evidence
    than there is.
    """
    corpora = {other: MirageDataset.bundled(other) for other in LANGUAGES}
    corpus = corpora[code]
    runs, utilities = simulate(corpora, code, SYSTEMS, seed=seed)
    judgments = judge(utilities, [run.model for run in runs], corpus.query_ids, seed=seed)
    tournaments = BradleyTerry().bootstrap(
        judgments, tournaments=TOURNAMENTS, queries=len(corpus), seed=seed
    )
    suite = FeatureSuite.offline(code)
    return [suite.score(corpus, run, progress=False) for run in runs], tournaments


def write_pretrained(
    folder: Path, languages: Iterable[str] = tuple(LANGUAGES), *, n_jobs: int = 1
) -> None:
    """Train the surrogates of languages and write them, and the manifest, into a folder.

    The same versions of the libraries on the same platform give the same bytes.
    """
    from joblib import Parallel, delayed

    folder.mkdir(parents=True, exist_ok=True)
    Parallel(n_jobs=n_jobs)(delayed(_write_one)(folder, code) for code in languages)
    write_manifest(folder)


def _write_one(folder: Path, code: str) -> None:
    with one_thread():  # sums over several threads differ in their last bits
        SurrogateRanker().fit(*simulated_arena(code)).save(folder / f"{code}.joblib")
