"""The baseline: a small file with the features of one run, for comparison with later runs.

It is meant to be committed to the user's repository.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from mirage._base.files import validated, write_text
from mirage._base.inputs import read_text
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, FeatureError, SettingError
from mirage.features import Facts, FeatureSuite, FeatureTable
from mirage.features.registry import OFFLINE, facts
from mirage.generation.responses import ModelLike
from mirage.grids import Cell
from mirage.leaderboard import Leaderboard
from mirage.models import LanguageCode, Run
from mirage.testing._inputs import Place, dataset_of, fingerprint, run_of
from mirage.testing.comparison import DECIMALS
from mirage.testing.gate import gated, mean_of_pairs

__all__ = [
    "Baseline",
    "baseline_of",
    "baseline_of_cell",
    "digests_of",
    "fingerprint",
    "from_text",
    "identical_answers",
    "read_baseline",
    "save_baseline",
    "to_text",
    "versions",
]

# The values of the offline features depend on the responses and on these packages.
_PACKAGES = ("mirage-rag", "sacrebleu", "sentencex")

_DIGEST = 16  # hexadecimal digits; enough to distinguish texts


@dataclass(frozen=True, eq=False, repr=False)
class Baseline:
    """The features of one model on one dataset, as stored in a baseline file.

    Attributes:
        table: The features, with one row per query; missing values are NaN.
        dataset: Name of the dataset.
        fingerprint: SHA-256 digest of the queries, without their order, clusters and metadata.
        lower_is_better: Features for which smaller is better.
        failed: Why the model failed, by query id.
        versions: Versions of the packages that computed the features.
        digests: Digests of the responses to each query, one per repeat, by query id; empty if not
            known.
        runs: Number of runs, made at different times, whose repeats the table contains.
    """

    table: FeatureTable
    dataset: str
    fingerprint: str
    lower_is_better: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    runs: int = 1

    def __repr__(self) -> str:
        return (
            f"Baseline({self.table.model!r}, dataset={self.dataset!r}, queries={len(self.table)}, "
            f"features={list(self.table.features)!r}, failed={len(self.failed)})"
        )

    @property
    def answered(self) -> tuple[str, ...]:
        """Ids of the queries that the model answered at least once."""
        rows = zip(self.table.query_ids, self.table.values, strict=True)
        return tuple(id_ for id_, row in rows if id_ not in self.failed or not np.isnan(row).all())

    def check(self, dataset: MirageDataset) -> None:
        """Raise an error if the dataset has other queries than the baseline.

        Args:
            dataset: The queries of the run to compare with the baseline.

        Raises:
            DatasetError: The queries differ; the message describes the difference.
        """
        ours, theirs = dict.fromkeys(self.table.query_ids), dict.fromkeys(dataset.query_ids)
        missing = [id_ for id_ in ours if id_ not in theirs]
        new = [id_ for id_ in theirs if id_ not in ours]
        if missing or new:
            parts = [
                _count_and_list(ids, kind)
                for ids, kind in ((missing, "missing"), (new, "new"))
                if ids
            ]
            difference = " and ".join(parts)
        elif self.fingerprint != fingerprint(dataset):
            difference = "the ids are the same, but not the questions, passages or references"
        else:
            return
        raise DatasetError(
            f"the baseline was saved on {self.dataset} ({len(self.table)} queries), but this is "
            f"{dataset.name} ({len(dataset)} queries): {difference}; give the queries of the "
            "baseline with on=dataset (--dataset FILE in the shell), or save the baseline again"
        )


def save_baseline(
    system: ModelLike | Sequence[ModelLike],
    path: str | Path,
    *,
    on: Place = None,
    suite: FeatureSuite | None = None,
    model: str | None = None,
) -> Baseline:
    """Write a baseline of a model: a JSON file with one line per query.

    The file contains the features of the responses, rounded to six decimals, for each repeat. It
    contains a digest of each response instead of its text. Queries that the model failed on are
    marked as failed; :func:`assert_no_regression` does not compare them.

    Args:
        system: The system, as for :func:`mirage.respond`, or a list of its runs. Make these runs at
            different times, such as on different days. If there are at least three runs,
            :func:`assert_no_regression` estimates the noise between runs and includes it in its
            verdicts.
        path: The file to write; an existing file is replaced.
        on: The queries: a language code (for the bundled queries), a dataset or a leaderboard. The
            default is the same as for :func:`assert_feature`.
        suite: The features to store. By default, these are the default features of
            :func:`assert_no_regression`, and the features of ``on`` if it is a leaderboard, or else
            all features that need no model. A later comparison can select any of them. Default
            features for which the dataset lacks the data are left out. If a feature has no value
            for another reason, the reason is stored.
        model: Name of the model in the file; by default that of the generator or run, or
            ``"my-model"``.

    Returns:
        The baseline with the rounded values of the file.

    Raises:
        DatasetError: The file cannot be written, or :func:`mirage.respond` raises this error.
        GenerationError: The model failed on every query.
        FeatureError: A feature fails.
        SettingError: The runs of a list differ in language or in their number of repeats.
    """
    baseline = baseline_of(system, on=on, suite=suite, model=model)
    write_text(Path(path), to_text(baseline))
    return read_baseline(path)


def baseline_of(
    system: ModelLike | Sequence[ModelLike],
    *,
    on: Place = None,
    suite: FeatureSuite | None = None,
    model: str | None = None,
) -> Baseline:
    """Return the baseline that :func:`save_baseline` writes, without writing a file.

    Args:
        system: The system, or a list of its runs.
        on: The queries: a language code (for the bundled queries), a dataset or a leaderboard.
        suite: The features; the default is described in :func:`save_baseline`.
        model: Name of the model; by default that of the generator or run, or ``"my-model"``.

    Raises:
        DatasetError: There is no default for ``on``, or the system cannot answer the queries.
        GenerationError: The model failed on every query.
        FeatureError: A feature fails.
        SettingError: The runs of a list differ in language or in their number of repeats.
    """
    systems = [*system] if isinstance(system, list | tuple) else [cast(ModelLike, system)]
    if not systems:
        raise SettingError("a baseline needs at least one run, got an empty list")
    dataset = dataset_of(on, systems[0])
    features = suite or _default_suite(dataset, on)
    runs = [run_of(each, dataset, model) for each in systems]
    run = runs[0] if len(runs) == 1 else _join_runs(runs)
    table = features.score(dataset, run, progress=False)
    if suite is None:
        missing = table.unmeasured.keys() & features.unmet(dataset).keys()
        table = table.columns([name for name in table.features if name not in missing])
    lower = _lower_names(table.features, dataset.language, features.facts)
    failed = {response.query_id: response.error or "" for response in run.failed}
    return Baseline(
        table,
        dataset.name,
        fingerprint(dataset),
        lower,
        failed,
        versions(),
        digests_of(run),
        len(runs),
    )


def _join_runs(runs: Sequence[Run]) -> Run:
    """Return one run with the repeats of all runs, under the name of the first."""
    numbers = {len(run.repeats) for run in runs}
    if len(numbers) > 1:
        raise SettingError(
            f"the runs of a baseline must have the same number of repeats, got {sorted(numbers)}"
        )
    repeats = [repeat for run in runs for repeat in run.repeats]
    return Run.of_repeats([run.model_copy(update={"model": runs[0].model}) for run in repeats])


def digests_of(run: Run) -> dict[str, tuple[str, ...]]:
    """Return digests of a run's responses, by query id.

    A digest covers everything in a response that features depend on: the text and the shown
    passages. The digests of a query's repeats are sorted, so their order has no meaning.
    """
    digests: dict[str, list[str]] = {}
    for response in run.responses:
        content = response.model_dump_json(exclude={"query_id", "error", "repeat"})
        digest = hashlib.sha256(content.encode()).hexdigest()[:_DIGEST]
        digests.setdefault(response.query_id, []).append(digest)
    return {id_: tuple(sorted(each)) for id_, each in digests.items()}


def identical_answers(baseline: Baseline, run: Run) -> NDArray[np.bool_] | None:
    """Return whether each answer of a run is identical to the baseline's answer.

    With repeats, the answers to a query are identical in two cases: both runs have the same answers
    with the same frequencies, or all answers of both runs are equal.

    Returns:
        One truth value per answered query, in the baseline's order of queries; ``None`` if the
        baseline has no digests of its responses.
    """
    if not baseline.digests:
        return None
    new_digests = digests_of(run)
    pairs = ((baseline.digests.get(id_, ()), new_digests.get(id_, ())) for id_ in baseline.answered)
    return np.array(
        [old == new or (bool(new) and len({*old, *new}) == 1 <= len(old)) for old, new in pairs]
    )


def baseline_of_cell(cell: Cell, dataset: MirageDataset) -> Baseline:
    """Return the metrics of a grid cell as a baseline.

    A cell is one of the systems that the grid compares. Its name becomes the name of the model.
    """
    cell_queries = MirageDataset([dataset[id_] for id_ in cell.query_ids], name=dataset.name)
    values = np.stack([*cell.values.values()], axis=1)
    table = FeatureTable(
        cell.name,
        dataset.language,
        cell.query_ids,
        tuple(cell.values),
        values,
        clusters=cell.clusters,
    )
    lower = _lower_names(cell.values, dataset.language)
    return Baseline(table, dataset.name, fingerprint(cell_queries), lower, {}, versions())


def read_baseline(path: str | Path) -> Baseline:
    """Read a baseline file.

    Args:
        path: A file that :func:`save_baseline` has written.

    Raises:
        DatasetError: The file does not exist or is not a baseline. In the second case, the message
            names the field with the error.
    """
    if not Path(path).exists():
        raise DatasetError(f"{path}: cannot be read (no such file); write it with save_baseline")
    return from_text(read_text(Path(path)), str(path))


def versions() -> dict[str, str]:
    """Return the versions of packages that can change the values of features that need no model."""
    numbers = {}
    for package in _PACKAGES:
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:  # mirage runs from its source code, without installation
            continue
    return numbers


def _default_suite(dataset: MirageDataset, on: Place) -> FeatureSuite:
    """Return the features that :func:`save_baseline` stores by default.

    These are the features that :func:`assert_no_regression` compares by default, and in addition
    the features of ``on`` if it is a leaderboard, else all features that need no model.
    """
    additional = on.suite if isinstance(on, Leaderboard) else FeatureSuite(OFFLINE)
    by_name = {item.name: item for item in additional}
    return FeatureSuite(
        {name: by_name.get(name, name) for name in (*gated(dataset), *by_name)}.values()
    )


def _lower_names(
    names: Iterable[str], language: str, declared: Mapping[str, Facts] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the features for which smaller is better.

    ``declared`` maps names of features to facts that override the library's definitions.
    ``language`` is the language of the answers, which can decide whether smaller is better.
    """
    return tuple(name for name in names if facts(name, declared).direction_in(language) == "lower")


def _count_and_list(ids: Sequence[str], kind: str) -> str:
    count = "1 query is" if len(ids) == 1 else f"{len(ids)} queries are"
    return f"{count} {kind} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})"


# The file -----------------------------------------------------------------------------------------

Number = Annotated[float, Field(allow_inf_nan=False)]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mirage_baseline: Literal[1]
    model: str
    dataset: str
    language: LanguageCode
    fingerprint: str
    versions: dict[str, str]
    features: tuple[str, ...]
    lower_is_better: tuple[str, ...]
    failed: dict[str, str]
    repeats: Annotated[int, Field(ge=1)] = 1
    runs: Annotated[int, Field(ge=1)] = 1
    not_measured: dict[str, str] = Field(default_factory=dict)
    values: dict[str, tuple[Number | None, ...]]  # all features of one repeat, then of the next
    digests: dict[str, tuple[str, ...]] = Field(default_factory=dict)


def from_text(text: str, where: str) -> Baseline:
    """Parse the text of a baseline file.

    Args:
        text: Text that :func:`to_text` returned.
        where: Name of the source, such as the path of the file, for error messages.

    Raises:
        DatasetError: The text is not a baseline.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: not JSON ({error})") from None
    if not isinstance(content, dict):
        raise DatasetError(
            f"{where}: expected a baseline, which is a JSON object, got {type(content).__name__}"
        )
    return _from_file(validated(_File, content, where), where)


def to_text(baseline: Baseline) -> str:
    """Return a baseline as JSON with one line per query.

    With one line per query, a diff of the file shows the queries that changed.
    """
    table = baseline.table
    head = {
        "mirage_baseline": 1,
        "model": table.model,
        "dataset": baseline.dataset,
        "language": table.language,
        "fingerprint": baseline.fingerprint,
        "versions": dict(baseline.versions),
        "features": table.features,
        "lower_is_better": baseline.lower_is_better,
        "failed": dict(baseline.failed),
    }
    if table.repeats is not None:
        head["repeats"] = len(table.repeats)
    if baseline.runs > 1:
        head["runs"] = baseline.runs
    if table.unmeasured:
        head["not_measured"] = table.unmeasured
    entries = [f"{_to_json(key)}: {_to_json(value)}" for key, value in head.items()]
    columns = table.values if table.repeats is None else np.concatenate([*table.repeats], axis=1)
    rows = [
        f"{_to_json(id_)}: {_to_json([None if math.isnan(v) else round(v, DECIMALS) for v in row])}"
        for id_, row in zip(table.query_ids, columns.tolist(), strict=True)
    ]
    entries.append('"values": {\n  ' + ",\n  ".join(rows) + "\n }")
    if baseline.digests:
        lines = [f"{_to_json(id_)}: {_to_json(each)}" for id_, each in baseline.digests.items()]
        entries.append('"digests": {\n   ' + ",\n   ".join(lines) + "\n }")
    return "{\n " + ",\n ".join(entries) + "\n}\n"


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _from_file(content: _File, path: str | Path) -> Baseline:
    names, times = content.features, content.repeats
    if times % content.runs:
        raise DatasetError(
            f"{path}: {times} repeats cannot be divided evenly among {content.runs} runs; save "
            "the baseline again"
        )
    for query_id, row in content.values.items():
        if len(row) != times * len(names):
            again = f" in {times} repeats" if times > 1 else ""
            raise DatasetError(
                f"{path}, query {query_id!r}: {len(row)} values for {len(names)} features{again}; "
                "save the baseline again"
            )
    ids = tuple(content.values)
    each = np.array([*content.values.values()], dtype=np.float64)  # None becomes NaN
    repeats = each.reshape(len(ids), times, len(names)).swapaxes(0, 1)
    try:
        reasons = {(id_, name): why for name, why in content.not_measured.items() for id_ in ids}
        values = mean_of_pairs(repeats)
        table = FeatureTable(content.model, content.language, ids, names, values, reasons)
    except FeatureError as error:
        raise DatasetError(f"{path}: {error}") from None
    if times > 1:
        table = replace(table, repeats=repeats)
    shared = {field.name for field in fields(Baseline)} - {"table"}
    return Baseline(table, **content.model_dump(include=shared))
