"""The judged models of MIRAGE-Bench, read from the hub, and the surrogate trained on them.

If the judge is GPT-4o, it compared 19 LLMs. The surrogate is trained on their logits in 200
tournaments, which are bootstrap samples of 100 queries (MIRAGE-Bench, arXiv 2410.13716).
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from mirage._base.files import write_text
from mirage._base.logs import logger
from mirage.arena import BradleyTerry, Judgments
from mirage.dataset import MirageDataset
from mirage.errors import ArtifactError, MirageError, UnknownNameError
from mirage.features import Feature, FeatureSuite, FeatureTable, feature
from mirage.features.registry import DEFINITIONS, canonical_name
from mirage.languages import Language
from mirage.leaderboard._suite import offline_suite
from mirage.llm.cache import default_cache_path
from mirage.models import Judgment, Run
from mirage.sources import hub
from mirage.surrogate.artifacts import read_arrays
from mirage.surrogate.ranker import SurrogateRanker

TOURNAMENTS, QUERIES_DRAWN = 200, 100
HELD_OUT, SPLITS = 2, 20
"""Number of models that the validation holds out in each split, and number of splits."""

PAPER = "forest"
"""The paper's estimator, with which every other estimator is compared."""

ARTIFACT, PROVENANCE = "surrogate.npz", "provenance.json"

_LOG = logger("mirage.hub")


class Benchmark(NamedTuple):
    """The data of MIRAGE-Bench in one language.

    Attributes:
        dataset: The queries, with GPT-4's outputs as references.
        runs: Recorded outputs by model; two of these models were not judged.
        tables: Published feature values by model, under this library's feature names; NaN if
            missing.
        counted: The same tables with missing values replaced with 0, as in the paper.
        judgments: Verdicts of one judge.
        revisions: Revision of each dataset: a commit hash, or the SHA-256 of files on disk.
    """

    dataset: MirageDataset
    runs: dict[str, Run]
    tables: dict[str, FeatureTable]
    counted: dict[str, FeatureTable]
    judgments: list[Judgment]
    revisions: dict[str, str]


class Surrogate(NamedTuple):
    """The surrogate for the benchmark, with the other parts that a leaderboard needs.

    Attributes:
        dataset: The judged queries.
        suite: Features of the responses.
        ranker: The surrogate.
        provenance: Inputs from which the surrogate was trained, and its accuracy on held-out
            models.
    """

    dataset: MirageDataset
    suite: FeatureSuite
    ranker: SurrogateRanker
    provenance: dict[str, Any]


def load(
    language: str,
    *,
    path: str | Path | None = None,
    revisions: Mapping[str, str] | None = None,
    judge: str | None = None,
    as_in_paper: bool = False,
) -> Benchmark:
    """Read MIRAGE-Bench in one language from the Hugging Face hub, or from local copies.

    Args:
        language: ISO 639-1 code of one of the 18 languages.
        path: Folder with copies of the datasets, to read instead of downloading them from the hub.
        revisions: Commit hash of the revision to read, by name of the dataset. By default the
            commits that this machine downloaded first.
        judge: Name of the judge whose judgments are read. By default the only one or, if there are
            several, GPT-4o.
        as_in_paper: Whether to drop ties, and to keep only the last of several verdicts on a pair;
            see :func:`mirage.sources.hub.read_judgments`.

    Raises:
        DatasetError: If the hub cannot be reached (the message has a command for a machine with
            access), or if a file is invalid (the message names the row).
        UnknownNameError: If there is no such language, dataset or judge.
        MissingPackageError: If the extra ``hub`` is not installed.
    """
    splits = _splits(language, path, revisions)
    return _read(splits, Language.of(language).code, judge, as_in_paper)


def published_tables(
    outputs: hub.Outputs, language: str, *, absent_is_0: bool = False
) -> dict[str, FeatureTable]:
    """Return the feature values that the benchmark published, one table per model, by model name.

    Columns that are not features of this library are left out, such as the probability that a
    passage contradicts the answer.

    Args:
        outputs: Outputs read from the hub.
        language: ISO 639-1 code.
        absent_is_0: Whether missing values are replaced with 0, as in the code of the benchmark,
            instead of NaN. For example, a value is missing if a model cited nothing.

    Raises:
        FeatureError: If two columns contain the same feature.
    """
    columns = [column for column, name in enumerate(outputs.features) if _is_library_name(name)]
    names = tuple(canonical_name(outputs.features[column]) for column in columns)
    tables = {}
    for model, published_values in zip(outputs.runs, outputs.values, strict=True):
        values = published_values[:, columns]
        if absent_is_0:
            answered = [outputs.runs[model].get(id_) is not None for id_ in outputs.query_ids]
            values = np.where(np.isnan(values) & np.array(answered)[:, None], 0.0, values)
        missing = np.argwhere(np.isnan(values)).tolist()
        reason = "the published data has no value"
        reasons = {(outputs.query_ids[i], names[column]): reason for i, column in missing}
        tables[model] = FeatureTable(model, language, outputs.query_ids, names, values, reasons)
    return tables


def surrogate(
    suite: FeatureSuite | None,
    language: str,
    *,
    path: str | Path | None = None,
    revisions: Mapping[str, str] | None = None,
    judge: str | None = None,
    published: Collection[str] = (),
    estimator: str = "auto",
    seed: int = 0,
    n_jobs: int = 1,
    progress: bool = False,
) -> Surrogate:
    """Return the surrogate trained on the benchmark; see :meth:`mirage.Leaderboard.from_hub`.

    The surrogate is stored in the folder ``hub`` of the library's cache, with a
    ``provenance.json``. Later calls read it if the inputs are the same: revisions, judge, features,
    estimator, seed and version of this library. The name of a user-defined function, or of a
    feature with its own model, does not show whether its values have changed. With such a feature,
    every call computes all values, and their digest is one of the inputs. The random forest of
    MIRAGE-Bench is trained on the same inputs and stored too. The provenance contains the accuracy
    of both surrogates on held-out models.

    Args:
        suite: Features of the responses. By default those of
            :func:`mirage.leaderboard._suite.offline_suite`.
        language: ISO 639-1 code of one of the 18 languages.
        path: Folder with copies of the datasets, to read instead of downloading them from the hub.
        revisions: Commit hash of the revision to read, by name of the dataset. By default the
            commits that this machine downloaded first.
        judge: Name of the judge whose judgments are used. By default the only one or, if there are
            several, GPT-4o.
        published: Names of features whose values for the 19 LLMs are read from the published data
            instead of being computed.
        estimator: Estimator of the surrogate, as for :class:`~mirage.SurrogateRanker`.
        seed: Random seed of tournaments and surrogate.
        n_jobs: Number of processes, as in joblib.
        progress: Whether to show progress bars on stderr, if stderr is a terminal.

    Raises:
        MirageError: In the same cases as :meth:`mirage.Leaderboard.from_hub`.
    """
    code = Language.of(language).code
    published = tuple(map(canonical_name, published))
    splits = _splits(code, path, revisions)
    if suite is None:
        suite = offline_suite(_dataset(splits, code))
    for name in published:
        if name not in suite.names:
            raise UnknownNameError("feature", name, suite.names, "in the suite")
    bench, tables = None, None
    if not all(_is_library_feature(item) for item in suite if item.name not in published):
        bench = _read(splits, code, judge)
        tables = _tables(bench, suite, published, n_jobs, progress)
    inputs = {
        "language": code,
        "datasets": {name: split.revision for name, split in splits.items()},
        "judge": judge,
        "features": suite.names,
        "published": sorted(published),
        "values": None if tables is None else _digest(tables),
        "tournaments": TOURNAMENTS,
        "queries_drawn": QUERIES_DRAWN,
        "estimator": estimator,
        "seed": seed,
        "mirage": version("mirage-rag"),
    }
    folder = _folder(code, inputs)
    cached = _read_cached(folder)
    if cached is None:
        bench = bench or _read(splits, code, judge)
        tables = tables or _tables(bench, suite, published, n_jobs, progress)
        other_validations = {}
        if estimator != PAPER:
            paper_inputs = inputs | {"estimator": PAPER}
            paper_folder = _folder(code, paper_inputs)
            _, paper_provenance = _read_cached(paper_folder) or _fit_and_store(
                paper_folder, paper_inputs, bench.judgments, tables, n_jobs
            )
            other_validations = {PAPER: paper_provenance["validation"]}
        cached = _fit_and_store(folder, inputs, bench.judgments, tables, n_jobs, other_validations)
    ranker, provenance = cached
    dataset = bench.dataset if bench else _dataset(splits, code)
    return Surrogate(
        _select_queries(dataset, ranker.data[code].query_ids), suite, ranker, provenance
    )


# The benchmark ------------------------------------------------------------------------------------


def _is_library_name(name: str) -> bool:
    """Return whether this library has a feature with the name of a published column."""
    return canonical_name(name).partition("@")[0] in DEFINITIONS


def _splits(
    language: str, path: str | Path | None, revisions: Mapping[str, str] | None
) -> dict[str, hub.Split]:
    """Return the files of the benchmark in one language, by name of the dataset."""
    return {name: hub.find(name, language, path=path, revisions=revisions) for name in hub.DATASETS}


def _read(
    splits: Mapping[str, hub.Split], code: str, judge: str | None, as_in_paper: bool = False
) -> Benchmark:
    """Read the benchmark from its files."""
    outputs = hub.read_outputs(splits[hub.OUTPUTS], code)
    return Benchmark(
        _dataset(splits, code, outputs.runs),
        outputs.runs,
        published_tables(outputs, code),
        published_tables(outputs, code, absent_is_0=True),
        hub.read_judgments(splits[hub.JUDGMENTS], judge, as_in_paper=as_in_paper),
        {name: split.revision for name, split in splits.items()},
    )


def _dataset(
    splits: Mapping[str, hub.Split], code: str, runs: Mapping[str, Run] | None = None
) -> MirageDataset:
    """Read the queries of the benchmark.

    ``runs`` are the benchmark's recorded outputs, by model. By default they are read too.
    """
    runs = runs or hub.read_outputs(splits[hub.OUTPUTS], code).runs
    queries = hub.read_queries(splits[hub.QUERIES], code, runs)
    return MirageDataset(queries, name=f"mirage-bench-{code}")


def _select_queries(dataset: MirageDataset, query_ids: Collection[str]) -> MirageDataset:
    """Return the dataset with only the queries that have one of these ids."""
    for query_id in query_ids:
        dataset[query_id]  # raises an error if there is no such query
    wanted = set(query_ids)
    return MirageDataset((query for query in dataset if query.id in wanted), name=dataset.name)


# Features -----------------------------------------------------------------------------------------


def _is_library_feature(item: Feature) -> bool:
    """Return whether the feature is the one that this library defines under its name.

    The values of such a feature depend only on the version of this library.
    """
    try:
        return feature(item.name) is item
    except MirageError:
        return False


def _tables(
    bench: Benchmark, suite: FeatureSuite, published: Collection[str], n_jobs: int, progress: bool
) -> list[FeatureTable]:
    """Return one feature table per judged model, on the judged queries.

    The values of the features in ``published`` are read, and the others are computed.
    """
    judgments = Judgments.from_records(bench.judgments)
    dataset = _select_queries(bench.dataset, judgments.query_ids)
    computed = [item for item in suite if item.name not in published]
    tables = []
    for model in judgments.models:
        if model not in bench.runs:
            raise UnknownNameError("model", model, bench.runs, f"in {hub.OUTPUTS}")
        parts = []
        if computed:
            responses = (r for r in bench.runs[model] if r.query_id in dataset.query_ids)
            run = Run(model=model, language=dataset.language, responses=tuple(responses))
            sub_suite = FeatureSuite(computed, suite.language)
            parts.append(sub_suite.score(dataset, run, n_jobs=n_jobs, progress=progress))
        if published:
            parts.append(bench.counted[model].select(dataset.query_ids).columns(tuple(published)))
        tables.append(_join_columns(parts).columns(suite.names))
    return tables


def _join_columns(tables: Sequence[FeatureTable]) -> FeatureTable:
    """Return one table with the columns of several tables of the same model and queries."""
    first = tables[0]
    return FeatureTable(
        first.model,
        first.language,
        first.query_ids,
        tuple(name for table in tables for name in table.features),
        np.hstack([table.values for table in tables]),
        {key: reason for table in tables for key, reason in table.reasons.items()},
    )


def _digest(tables: Sequence[FeatureTable]) -> str:
    """Return the SHA-256 of the values in feature tables."""
    digest = hashlib.sha256()
    for table in tables:
        digest.update(np.ascontiguousarray(table.values).tobytes())
    return digest.hexdigest()


# The cache ----------------------------------------------------------------------------------------


def _folder(code: str, inputs: Mapping[str, Any]) -> Path:
    """Return the cache folder of the surrogate that is trained on these inputs."""
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return default_cache_path().parent / "hub" / f"{code}-{key[:16]}"


def _read_cached(folder: Path) -> tuple[SurrogateRanker, dict[str, Any]] | None:
    """Return the cached surrogate and its provenance; ``None`` if they are missing or damaged."""
    if not folder.is_dir():
        return None
    try:
        provenance: dict[str, Any] = json.loads((folder / PROVENANCE).read_text("utf-8"))
        return SurrogateRanker.restored(read_arrays(folder / ARTIFACT)), provenance
    except (ArtifactError, OSError, ValueError) as error:
        _LOG.warning(
            "%s: the cached surrogate cannot be read (%s); it is trained again", folder, error
        )
        return None


def _fit_and_store(
    folder: Path,
    inputs: Mapping[str, Any],
    records: Sequence[Judgment],
    tables: Sequence[FeatureTable],
    n_jobs: int,
    other_validations: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[SurrogateRanker, dict[str, Any]]:
    """Train and validate a surrogate, store it with its provenance, and return both.

    ``other_validations`` are the validations of other estimators, for the provenance.
    """
    judgments = Judgments.from_records(records)
    tournaments = BradleyTerry().bootstrap(
        judgments, tournaments=TOURNAMENTS, queries=QUERIES_DRAWN, seed=inputs["seed"]
    )
    ranker = SurrogateRanker(inputs["estimator"], seed=inputs["seed"])
    ranker.fit(tables, tournaments, judgments=judgments)
    code = inputs["language"]
    validation = ranker.cross_validate(HELD_OUT, SPLITS, n_jobs=n_jobs)
    interval = validation.tau_interval()[code]
    # With too few models for an interval, tau is not informative, so it is left out.
    tau = {"tau": validation.tau[code], "tau_interval": list(interval)}
    provenance = {
        **inputs,
        "judge": records[0].judge,
        "models": judgments.models,
        "queries": len(judgments.query_ids),
        "judgments": len(judgments),
        "recipe": str(ranker.recipe),
        "validation": {
            "held_out": HELD_OUT,
            "splits": len(validation.held_out),
            **({} if np.isnan(interval[0]) else tau),
            **other_validations,
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "datasets")},
        },
    }
    try:
        _store(folder, ranker, provenance)
    except (OSError, MirageError) as error:
        _LOG.warning(
            "%s: the surrogate cannot be stored in the cache (%s), so it will be trained again "
            "next time",
            folder,
            error,
        )
    # The stored file has fewer digits, so read it back for the same results as in later calls.
    return _read_cached(folder) or (ranker, provenance)


def _store(folder: Path, ranker: SurrogateRanker, provenance: Mapping[str, Any]) -> None:
    """Write the surrogate and its provenance to ``folder``, and replace the folder if it exists."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".new-", dir=folder.parent) as temporary:
        new_folder = Path(temporary) / folder.name
        new_folder.mkdir()
        ranker.save(new_folder / ARTIFACT)
        text = json.dumps(provenance, indent=1, ensure_ascii=False)
        write_text(new_folder / PROVENANCE, text + "\n")
        shutil.rmtree(folder, ignore_errors=True)  # remove a folder that could not be read
        new_folder.rename(folder)
