"""The benchmark's own arena, from the hub, and the surrogate that is trained on it.

Its models are those that the judge compared (19 LLMs, by GPT-4o), and what is learnt are their
logits in 200 tournaments of 100 queries (MIRAGE-Bench, arXiv 2410.13716).
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
from mirage.features import (
    DEFINITIONS,
    Feature,
    FeatureSuite,
    FeatureTable,
    canonical_name,
    feature,
)
from mirage.languages import Language
from mirage.leaderboard._suite import offline_suite
from mirage.llm.cache import default_cache_path
from mirage.models import Judgment, Run
from mirage.sources import hub
from mirage.surrogate.artifacts import read_arrays
from mirage.surrogate.ranker import SurrogateRanker

__all__ = ["Benchmark", "Surrogate", "load", "published_tables", "surrogate"]

TOURNAMENTS, QUERIES_DRAWN = 200, 100
HELD_OUT, SPLITS = 2, 20
"""The validation that goes into the provenance: models held out at a time, and how often."""

PAPER = "forest"
"""The paper's estimator, which every other one is shown beside."""

ARTIFACT, PROVENANCE = "surrogate.npz", "provenance.json"

_LOG = logger("mirage.hub")


class Benchmark(NamedTuple):
    """One language of MIRAGE-Bench.

    Attributes:
        dataset: its queries, with GPT-4's outputs as references.
        runs: the recorded outputs by model; two models more than were judged.
        tables: the published feature values by model, under this library's names; NaN where the
            data has none.
        counted: the same, with 0 where the data has none of a response, as the paper counts.
        judgments: the verdicts of one judge.
        revisions: what was read, by dataset: a commit hash, or the SHA-256 of files on disk.
    """

    dataset: MirageDataset
    runs: dict[str, Run]
    tables: dict[str, FeatureTable]
    counted: dict[str, FeatureTable]
    judgments: list[Judgment]
    revisions: dict[str, str]


class Surrogate(NamedTuple):
    """What a leaderboard of the benchmark consists of; ``provenance`` says where it comes from."""

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
    """Read one language of the benchmark from the hub, or from copies of it.

    Args:
        language: one of the 18.
        path: a folder with copies of the datasets, to read in place of the hub.
        revisions: commit hashes by name of the dataset; by default what the first download found.
        judge: whose judgments; by default GPT-4o's.
        as_in_paper: without ties, and with the last of several verdicts on a pair alone; see
            :func:`mirage.sources.hub.read_judgments`.

    Raises:
        DatasetError: the hub cannot be reached (says what to run where it can), or a file is not
            as it should be (names the row).
        UnknownNameError: no such language, dataset or judge.
        MissingPackageError: the extra ``hub`` is not installed.
    """
    splits = _splits(language, path, revisions)
    return _read(splits, Language.of(language).code, judge, as_in_paper)


def published_tables(
    outputs: hub.Outputs, language: str, *, absent_is_0: bool = False
) -> dict[str, FeatureTable]:
    """The feature values of the published data by model.

    Columns that are no feature of this library are left out, such as the probability that a passage
    contradicts.

    Args:
        outputs: what was read.
        language: ISO 639-1 code.
        absent_is_0: count a value that the data lacks of a response as 0, as the benchmark's own
            code does, for instance where a model cited nothing. Otherwise it is NaN.

    Raises:
        FeatureError: two columns are one feature.
    """
    places = [j for j, name in enumerate(outputs.features) if _is_known(name)]
    names = tuple(canonical_name(outputs.features[j]) for j in places)
    tables = {}
    for model, every in zip(outputs.runs, outputs.values, strict=True):
        values = every[:, places]
        if absent_is_0:
            answered = [outputs.runs[model].get(id_) is not None for id_ in outputs.query_ids]
            values = np.where(np.isnan(values) & np.array(answered)[:, None], 0.0, values)
        missing = np.argwhere(np.isnan(values)).tolist()
        why = "the published data has no value"
        reasons = {(outputs.query_ids[i], names[j]): why for i, j in missing}
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
    """The surrogate trained on the benchmark; see :meth:`mirage.Leaderboard.from_hub`.

    It is kept in the folder ``hub`` of the library's cache, beside a ``provenance.json``, and read
    from there as long as it would be made from the same: revisions, judge, features, estimator,
    seed and version of this library. Features that are not the library's own by name (a function,
    or one with a model behind it) are computed in every call, to see whether they still say the
    same. The paper's forest is made of the same and kept likewise, so that the provenance says how
    well both predict models that were held out.
    """
    code = Language.of(language).code
    published = tuple(map(canonical_name, published))
    splits = _splits(code, path, revisions)
    if suite is None:
        suite = offline_suite(_dataset(splits, code))
    for name in published:
        if name not in suite.names:
            raise UnknownNameError("feature of the suite", name, suite.names)
    bench, tables = None, None
    if not all(_is_ours(item) for item in suite if item.name not in published):
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
    kept = _kept(folder)
    if kept is None:
        bench = bench or _read(splits, code, judge)
        tables = tables or _tables(bench, suite, published, n_jobs, progress)
        beside = {}
        if estimator != PAPER:
            for_paper = inputs | {"estimator": PAPER}
            other = _folder(code, for_paper)
            _, of_paper = _kept(other) or _made(other, for_paper, bench.judgments, tables, n_jobs)
            beside = {PAPER: of_paper["validation"]}
        kept = _made(folder, inputs, bench.judgments, tables, n_jobs, beside)
    ranker, provenance = kept
    dataset = bench.dataset if bench else _dataset(splits, code)
    return Surrogate(_only(dataset, ranker.data[code].query_ids), suite, ranker, provenance)


# The benchmark ------------------------------------------------------------------------------------


def _is_known(name: str) -> bool:
    return canonical_name(name).partition("@")[0] in DEFINITIONS


def _splits(
    language: str, path: str | Path | None, revisions: Mapping[str, str] | None
) -> dict[str, hub.Split]:
    return {name: hub.find(name, language, path=path, revisions=revisions) for name in hub.DATASETS}


def _read(
    splits: Mapping[str, hub.Split], code: str, judge: str | None, as_in_paper: bool = False
) -> Benchmark:
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
    runs = runs or hub.read_outputs(splits[hub.OUTPUTS], code).runs
    queries = hub.read_queries(splits[hub.QUERIES], code, runs)
    return MirageDataset(queries, name=f"mirage-bench-{code}")


def _only(dataset: MirageDataset, query_ids: Collection[str]) -> MirageDataset:
    for query_id in query_ids:
        dataset[query_id]  # raises, if there is none
    kept = set(query_ids)
    return MirageDataset((query for query in dataset if query.id in kept), name=dataset.name)


# Features -----------------------------------------------------------------------------------------


def _is_ours(item: Feature) -> bool:
    """Whether the version of this library tells what a feature computes."""
    try:
        return feature(item.name) is item
    except MirageError:
        return False


def _tables(
    bench: Benchmark, suite: FeatureSuite, published: Collection[str], n_jobs: int, progress: bool
) -> list[FeatureTable]:
    """The features of each judged model on the judged queries."""
    judgments = Judgments.from_records(bench.judgments)
    dataset = _only(bench.dataset, judgments.query_ids)
    computed = [item for item in suite if item.name not in published]
    tables = []
    for model in judgments.models:
        if model not in bench.runs:
            raise UnknownNameError(f"model in {hub.OUTPUTS}", model, bench.runs)
        parts = []
        if computed:
            responses = (r for r in bench.runs[model] if r.query_id in dataset.query_ids)
            run = Run(model=model, language=dataset.language, responses=tuple(responses))
            some = FeatureSuite(computed, suite.language)
            parts.append(some.score(dataset, run, n_jobs=n_jobs, progress=progress))
        if published:
            parts.append(bench.counted[model].select(dataset.query_ids).columns(tuple(published)))
        tables.append(_beside(parts).columns(suite.names))
    return tables


def _beside(tables: Sequence[FeatureTable]) -> FeatureTable:
    """One table with the columns of several of the same model and queries."""
    first = tables[0]
    return FeatureTable(
        first.model,
        first.language,
        first.query_ids,
        tuple(name for table in tables for name in table.features),
        np.hstack([table.values for table in tables]),
        {key: why for table in tables for key, why in table.reasons.items()},
    )


def _digest(tables: Sequence[FeatureTable]) -> str:
    digest = hashlib.sha256()
    for table in tables:
        digest.update(np.ascontiguousarray(table.values).tobytes())
    return digest.hexdigest()


# The cache ----------------------------------------------------------------------------------------


def _folder(code: str, inputs: Mapping[str, Any]) -> Path:
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    return default_cache_path().parent / "hub" / f"{code}-{key[:16]}"


def _kept(folder: Path) -> tuple[SurrogateRanker, dict[str, Any]] | None:
    if not folder.is_dir():
        return None
    try:
        provenance: dict[str, Any] = json.loads((folder / PROVENANCE).read_text("utf-8"))
        return SurrogateRanker.restored(read_arrays(folder / ARTIFACT)), provenance
    except (ArtifactError, OSError, ValueError) as error:
        _LOG.warning("%s: cannot be used, and is made again (%s)", folder, error)
        return None


def _made(
    folder: Path,
    inputs: Mapping[str, Any],
    records: Sequence[Judgment],
    tables: Sequence[FeatureTable],
    n_jobs: int,
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[SurrogateRanker, dict[str, Any]]:
    judgments = Judgments.from_records(records)
    tournaments = BradleyTerry().bootstrap(
        judgments, tournaments=TOURNAMENTS, queries=QUERIES_DRAWN, seed=inputs["seed"]
    )
    ranker = SurrogateRanker(inputs["estimator"], seed=inputs["seed"])
    ranker.fit(tables, tournaments, judgments=judgments)
    code = inputs["language"]
    validation = ranker.cross_validate(HELD_OUT, SPLITS, n_jobs=n_jobs)
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
            "r2": validation.r2[code],
            "r2_in_paper": validation.r2_in_paper[code],
            "tau": validation.tau[code],
            "coverage": validation.coverage[code],
            **beside,
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "datasets")},
        },
    }
    try:
        _store(folder, ranker, provenance)
    except (OSError, MirageError) as error:
        _LOG.warning("%s: the surrogate cannot be kept (%s)", folder, error)
    # From the artifact, which has fewer digits: so later calls will say the same.
    return _kept(folder) or (ranker, provenance)


def _store(folder: Path, ranker: SurrogateRanker, provenance: Mapping[str, Any]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".new-", dir=folder.parent) as temporary:
        new = Path(temporary) / folder.name
        new.mkdir()
        ranker.save(new / ARTIFACT)
        text = json.dumps(provenance, indent=1, ensure_ascii=False)
        write_text(new / PROVENANCE, text + "\n")
        shutil.rmtree(folder, ignore_errors=True)  # one that could not be read
        new.rename(folder)
