"""Training of the bundled surrogates, which needs only the bundled corpora."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats
from mirage.arena import BradleyTerry, Judgments, Tournaments
from mirage.dataset import LEVELS, MirageDataset, clusters_of
from mirage.features import FeatureSuite, FeatureTable
from mirage.languages import LANGUAGES
from mirage.models import Response, Run
from mirage.surrogate.artifacts import file_name, write_joblib, write_manifest
from mirage.surrogate.estimators import VERDICT_TREES, VERDICTS, one_thread
from mirage.surrogate.fault_costs import fault_costs, order_violations
from mirage.surrogate.levels import SIMULATED
from mirage.surrogate.ranker import SurrogateRanker
from mirage.surrogate.simulation import System, judge, simulate
from mirage.surrogate.training import TrainingData, training_data
from mirage.surrogate.utilities import UTILITIES, Utilities

# Number of tournaments on which the surrogates of the quick and of the hard level are trained.
TOURNAMENTS, HARD_TOURNAMENTS = 200, 200


class Arena(NamedTuple):
    """The features, logits and verdicts of simulated systems in one language.

    Attributes:
        tables: Features of the responses, one table per system.
        tournaments: Logits of the systems in tournaments, which are bootstrap samples of the
            queries.
        judgments: Verdicts to which the logits are fitted: one for each query and pair of systems.
    """

    tables: list[FeatureTable]
    tournaments: Tournaments
    judgments: Judgments


def simulated_arena(
    code: str,
    suite: FeatureSuite | None = None,
    *,
    systems: Sequence[System] | None = None,
    scored_on: MirageDataset | None = None,
    utilities: Utilities = UTILITIES,
    level: str = "quick",
    number: int = TOURNAMENTS,
    seed: int = 0,
) -> Arena:
    """Compute features, logits and verdicts of simulated systems on a language's bundled corpus.

    The logits of the systems are fitted in tournaments, which are bootstrap samples of the queries.
    Each sample has as many queries as the corpus; larger samples would overstate the evidence. At
    the hard level, samples draw whole dossiers. A dossier is a set of passages that several
    questions share, so a system that misreads one passage may fail on several questions.

    Args:
        code: ISO 639-1 code.
        suite: Features to compute. By default those of :meth:`mirage.FeatureSuite.default`.
        systems: Systems to simulate. By default those of the level in this language.
        scored_on: Queries, with ids from the bundled corpus, from which features are computed; by
            default those of the corpus.
        utilities: Numbers from which the simulated judge computes the utility of a response.
        level: Level of the bundled corpus.
        number: Number of tournaments.
        seed: Random seed.
    """
    corpora = _corpora(level)
    corpus = corpora[code]
    runs, system_utilities = simulate(
        corpora,
        code,
        SIMULATED[level].systems_in(code) if systems is None else systems,
        utilities=utilities,
        level=level,
        seed=seed,
    )
    judgments = judge(system_utilities, [run.model for run in runs], corpus.query_ids, seed=seed)
    tournaments = BradleyTerry().bootstrap(
        judgments,
        tournaments=number,
        queries=len(corpus),
        clusters=clusters_of(corpus),
        seed=seed,
    )
    scored_corpus = scored_on or corpus
    tables = list(_score_runs(suite or FeatureSuite.default(code), scored_corpus, runs))
    return Arena(tables, tournaments, judgments)


def simulated_runs(
    code: str, names: Collection[str], *, level: str = "quick", seed: int = 0
) -> dict[str, Run]:
    """Return the responses of some simulated systems, by system name.

    The bundled surrogates were trained on the same responses.

    Args:
        code: ISO 639-1 code.
        names: Names of the systems.
        level: Level of the bundled corpus.
        seed: Random seed.
    """
    systems = [system for system in SIMULATED[level].systems if system.name in names]
    runs, _ = simulate(_corpora(level), code, systems, level=level, seed=seed)
    return {run.model: run for run in runs}


def _corpora(level: str) -> dict[str, MirageDataset]:
    return {code: MirageDataset.bundled(code, level=level) for code in LANGUAGES}


def _score_runs(
    suite: FeatureSuite, corpus: MirageDataset, runs: Iterable[Run]
) -> Iterator[FeatureTable]:
    """Yield one feature table per run.

    If several systems give the same response, its features are computed only once.
    """
    values_by_response: dict[Response, Floats] = {}
    for run in runs:
        new = tuple(response for response in run if response not in values_by_response)
        if new:
            table = suite.score(corpus, run.model_copy(update={"responses": new}), progress=False)
            values_by_response |= {
                response: table.select([response.query_id]).values[0] for response in new
            }
        values = np.stack([values_by_response[run[id_]] for id_ in corpus.query_ids])
        yield FeatureTable(run.model, run.language, corpus.query_ids, suite.names, values)


def train_on_arena(
    code: str,
    *,
    utilities: Utilities = UTILITIES,
    level: str = "quick",
    estimator: str = VERDICT_TREES,
    tournaments: int = TOURNAMENTS,
    seed: int = 0,
) -> SurrogateRanker:
    """Train a surrogate on the simulated arena of a language.

    The arena consists of simulated systems with known faults and of the verdicts of a simulated
    judge. Training takes some minutes.

    Args:
        code: ISO 639-1 code.
        utilities: Numbers from which the simulated judge computes the utility of a response.
        level: Level of the bundled corpus.
        estimator: Name of an estimator of :class:`~mirage.SurrogateRanker`.
        tournaments: Number of tournaments (bootstrap samples of the queries).
        seed: Random seed.
    """
    arena = simulated_arena(code, utilities=utilities, level=level, number=tournaments, seed=seed)
    learns_from_verdicts = estimator in (VERDICTS, VERDICT_TREES)
    judgments = arena.judgments if learns_from_verdicts else None
    ranker = SurrogateRanker(estimator, seed=seed)
    groups = SIMULATED[level].groups
    return ranker.fit(arena.tables, arena.tournaments, judgments=judgments, groups=groups)


def hard_data(code: str) -> dict[str, TrainingData]:
    """Return the training data of one language at the hard level, as a mapping from its code."""
    with one_thread():
        arena = simulated_arena(code, level="hard", number=HARD_TOURNAMENTS)
    groups = SIMULATED["hard"].groups
    return training_data(arena.tables, arena.tournaments, groups, arena.judgments)


def train_hard(data: Mapping[str, TrainingData], *, seed: int = 0) -> SurrogateRanker:
    """Train the surrogate of the hard level on several languages together.

    Args:
        data: Training data by language, merged from the results of :func:`hard_data`.
        seed: Random seed.
    """
    with one_thread():
        return SurrogateRanker(VERDICT_TREES, seed=seed).fit_data(data)


SEED_OF_HARD = 0
"""Random seed of the bundled surrogates of the hard level.

With seed 2, the costs of two faults were in the wrong order in English.
"""


def write_pretrained(
    folder: Path,
    languages: Iterable[str] = tuple(LANGUAGES),
    *,
    levels: Collection[str] = tuple(LEVELS),
    n_jobs: int = 1,
) -> list[str]:
    """Train the bundled surrogates, and write them with a manifest into a folder.

    With the same versions of the libraries on the same platform, the files are identical byte for
    byte. To keep them small, they do not include the verdicts of the simulated judge. At the quick
    level, the surrogate of a language is trained on this language only. At the hard level, the
    surrogates share trees that are trained on all of the languages, because the questions are the
    same in every language.

    Args:
        folder: Folder for the files.
        languages: ISO 639-1 codes.
        levels: Levels of the bundled corpora.
        n_jobs: Number of processes.

    Returns:
        One message for each pair of faults in which a surrogate penalises the milder fault at
        least as much as the more serious one; see
        :func:`~mirage.surrogate.fault_costs.order_violations`.
    """
    from joblib import Parallel, delayed

    folder.mkdir(parents=True, exist_ok=True)
    languages = tuple(languages)
    violations: list[list[str]] = []
    if "quick" in levels:
        violations += Parallel(n_jobs=n_jobs)(
            delayed(_write_language)(folder, code) for code in languages
        )
    if "hard" in levels:
        parts = Parallel(n_jobs=n_jobs)(delayed(hard_data)(code) for code in languages)
        violations.append(
            _write_hard(folder, {code: part[code] for part in parts for code in part})
        )
    write_manifest(folder)
    return [violation for messages in violations for violation in messages]


def _write_language(folder: Path, code: str) -> list[str]:
    with one_thread():  # sums over several threads differ in their last bits
        ranker = train_on_arena(code)
        write_joblib(folder / f"{code}.joblib", ranker.artifact.without_verdicts())
    return [f"{code}: {text}" for text in order_violations(fault_costs(ranker, code))]


def _write_hard(folder: Path, data: Mapping[str, TrainingData]) -> list[str]:
    ranker = train_hard(data, seed=SEED_OF_HARD)
    artifact = ranker.artifact.without_verdicts()
    for code in data:
        write_joblib(folder / file_name(code, "hard"), artifact.of(code))
    return [
        f"{code}, level hard: {text}"
        for code in data
        for text in order_violations(fault_costs(ranker, code))
    ]
