"""The baseline: a small file with one run's features, to commit and to compare later runs with."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from mirage._base.files import validated, write_text
from mirage._base.inputs import read_text
from mirage.benchmarking import Cell
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, FeatureError, UnknownNameError
from mirage.features import FeatureSuite, FeatureTable
from mirage.features.registry import OFFLINE, facts
from mirage.generation import ModelLike
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

# What decides the numbers of the offline features, besides the responses.
_PACKAGES = ("mirage-rag", "lingua-language-detector", "sacrebleu", "sentencex")

_DIGEST = 16  # hexadecimal digits, enough to tell one text from another


@dataclass(frozen=True, eq=False, repr=False)
class Baseline:
    """One model's features on one dataset, as a file holds them.

    Attributes:
        table: the features, a row a query; NaN where there is none.
        dataset: the dataset's name.
        fingerprint: SHA-256 of its queries without their metadata, in any order.
        lower_is_better: the features of which a smaller value is the better one.
        failed: why the model failed, by query id.
        versions: of the packages that computed the features.
        digests: of the responses to each query, one per repeat, by query id; empty if not known.
    """

    table: FeatureTable
    dataset: str
    fingerprint: str
    lower_is_better: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Baseline({self.table.model!r}, dataset={self.dataset!r}, queries={len(self.table)}, "
            f"features={list(self.table.features)!r}, failed={len(self.failed)})"
        )

    def check(self, dataset: MirageDataset) -> None:
        """Refuse to be compared with a run on other queries.

        Raises:
            DatasetError: says how the queries differ.
        """
        ours, theirs = dict.fromkeys(self.table.query_ids), dict.fromkeys(dataset.query_ids)
        gone = [id_ for id_ in ours if id_ not in theirs]
        new = [id_ for id_ in theirs if id_ not in ours]
        if gone or new:
            parts = [_listed(ids, kind) for ids, kind in ((gone, "gone"), (new, "new")) if ids]
            difference = " and ".join(parts)
        elif self.fingerprint != fingerprint(dataset):
            difference = "the ids are the same, but not the questions, passages or references"
        else:
            return
        raise DatasetError(
            f"the baseline was saved on {self.dataset} ({len(self.table)} queries), and this is "
            f"{dataset.name} ({len(dataset)} queries): {difference}; compare on the queries that "
            "the baseline was saved on, or save it anew"
        )


def save_baseline(
    system: ModelLike,
    path: str | Path,
    *,
    on: Place = None,
    suite: FeatureSuite | None = None,
    model: str | None = None,
    lower_is_better: Collection[str] = (),
) -> Baseline:
    """Write a baseline of a model: a JSON file to commit, with a line a query.

    It holds the features of the responses to six decimals, each repeat's if there are several, and
    a digest of each response instead of its text. Queries that the model failed on are in it as
    failed, and are compared with nothing.

    Args:
        system: what :func:`mirage.respond` takes.
        path: the file; one that is there is replaced.
        on: the queries, as :func:`assert_feature` takes them.
        suite: the features; by default those that :func:`assert_no_regression` compares, and the
            leaderboard's, or else the offline ones, so that they can be compared on request. A
            feature is left out then if the dataset lacks what it needs. One that could not be
            measured for another reason is in the file, without values and with the reason.
        model: its name in the file; by default a generator's or a run's own, or ``"my-model"``.
        lower_is_better: the features of which a smaller value is the better one, besides those
            whose facts say so (:class:`mirage.features.Facts`). Of any other, more is better.

    Returns:
        What :func:`read_baseline` reads back.

    Raises:
        DatasetError: the file cannot be written; also as :func:`mirage.respond` raises.
        UnknownNameError: a feature named in ``lower_is_better`` is not in the suite.
        GenerationError: the model failed on every query.
        FeatureError: a feature fails.
    """
    baseline = baseline_of(system, on=on, suite=suite, model=model, lower_is_better=lower_is_better)
    write_text(Path(path), to_text(baseline))
    return read_baseline(path)


def baseline_of(
    system: ModelLike,
    *,
    on: Place = None,
    suite: FeatureSuite | None = None,
    model: str | None = None,
    lower_is_better: Collection[str] = (),
) -> Baseline:
    """What :func:`save_baseline` writes, with the same arguments and errors, and no file."""
    dataset = dataset_of(on, system)
    features = suite or _default_suite(dataset, on)
    lower = _lower(features, dataset.language, lower_is_better)
    run = run_of(system, dataset, model)
    table = features.score(dataset, run, progress=False)
    if suite is None:
        missing = table.unmeasured.keys() & features.unmet(dataset).keys()
        table = table.columns([name for name in table.features if name not in missing])
        lower = tuple(name for name in lower if name in table.features)
    failed = {response.query_id: response.error or "" for response in run.failed}
    return Baseline(
        table, dataset.name, fingerprint(dataset), lower, failed, versions(), digests_of(run)
    )


def digests_of(run: Run) -> dict[str, tuple[str, ...]]:
    """Return digests of a run's responses by query id, in any order of the repeats.

    A digest is of everything that the features see: the text, and the passages that were shown.
    """
    digests: dict[str, list[str]] = {}
    for response in run.responses:
        content = response.model_dump_json(exclude={"query_id", "error", "repeat"})
        digest = hashlib.sha256(content.encode()).hexdigest()[:_DIGEST]
        digests.setdefault(response.query_id, []).append(digest)
    return {id_: tuple(sorted(each)) for id_, each in digests.items()}


def identical_answers(baseline: Baseline, run: Run) -> NDArray[np.bool_] | None:
    """Return whether each answer is identical to the baseline's, in the order of its queries.

    With repeats, all answers to a query have to be the same ones, as often; or all have to be one
    and the same.

    Returns:
        ``None`` if the baseline has no digests of its responses.
    """
    if not baseline.digests:
        return None
    now = digests_of(run)
    pairs = ((baseline.digests.get(id_, ()), now.get(id_, ())) for id_ in baseline.table.query_ids)
    return np.array(
        [old == new or (bool(new) and len({*old, *new}) == 1 <= len(old)) for old, new in pairs]
    )


def baseline_of_cell(cell: Cell, dataset: MirageDataset) -> Baseline:
    """The metrics of a grid's cell, query by query; the model is what the cell is called.

    Args:
        cell: one that was measured.
        dataset: all its queries, or more.
    """
    asked = MirageDataset([dataset[id_] for id_ in cell.query_ids], name=dataset.name)
    values = np.stack([*cell.values.values()], axis=1)
    table = FeatureTable(
        cell.name,
        dataset.language,
        cell.query_ids,
        tuple(cell.values),
        values,
        clusters=cell.clusters,
    )
    lower = tuple(
        name for name in cell.values if facts(name).direction_in(dataset.language) == "lower"
    )
    return Baseline(table, dataset.name, fingerprint(asked), lower, {}, versions())


def read_baseline(path: str | Path) -> Baseline:
    """Read what :func:`save_baseline` wrote.

    Raises:
        DatasetError: there is no such file, or it is no baseline; names the field that is wrong.
    """
    if not Path(path).exists():
        raise DatasetError(f"{path}: cannot be read (no such file); save_baseline writes it")
    return from_text(read_text(Path(path)), str(path))


def versions() -> dict[str, str]:
    """The versions of the packages that the offline features' numbers depend on."""
    numbers = {}
    for package in _PACKAGES:
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:  # the library is run from its source
            continue
    return numbers


def _default_suite(dataset: MirageDataset, on: Place) -> FeatureSuite:
    """The features of the gate, and others that may be compared on request."""
    others = on.suite if isinstance(on, Leaderboard) else FeatureSuite(OFFLINE)
    by_name = {item.name: item for item in others}
    return FeatureSuite(
        {name: by_name.get(name, name) for name in (*gated(dataset), *by_name)}.values()
    )


def _lower(suite: FeatureSuite, language: str, more: Collection[str]) -> tuple[str, ...]:
    for name in more:
        if name not in suite.names:
            raise UnknownNameError("feature of the suite", name, suite.names)
    facts = suite.facts
    return tuple(
        name
        for name in suite.names
        if name in more or facts[name].direction_in(language) == "lower"
    )


def _listed(ids: Sequence[str], kind: str) -> str:
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
    not_measured: dict[str, str] = Field(default_factory=dict)
    values: dict[str, tuple[Number | None, ...]]  # of one repeat after the other
    digests: dict[str, tuple[str, ...]] = Field(default_factory=dict)


def from_text(text: str, where: str) -> Baseline:
    """The baseline that :func:`to_text` wrote; errors name the place it is from.

    Raises:
        DatasetError: it is no baseline.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: not JSON ({error})") from None
    if not isinstance(content, dict):
        raise DatasetError(f"{where}: no baseline, but a JSON {type(content).__name__}")
    return _from_file(validated(_File, content, where), where)


def to_text(baseline: Baseline) -> str:
    """JSON with a line a query, so that a change of the file shows which ones changed."""
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
    if table.unmeasured:
        head["not_measured"] = table.unmeasured
    entries = [f"{_json(key)}: {_json(value)}" for key, value in head.items()]
    each = table.values if table.repeats is None else np.concatenate([*table.repeats], axis=1)
    rows = [
        f"{_json(id_)}: {_json([None if math.isnan(v) else round(v, DECIMALS) for v in row])}"
        for id_, row in zip(table.query_ids, each.tolist(), strict=True)
    ]
    entries.append('"values": {\n  ' + ",\n  ".join(rows) + "\n }")
    if baseline.digests:
        lines = [f"{_json(id_)}: {_json(each)}" for id_, each in baseline.digests.items()]
        entries.append('"digests": {\n   ' + ",\n   ".join(lines) + "\n }")
    return "{\n " + ",\n ".join(entries) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _from_file(content: _File, path: str | Path) -> Baseline:
    names, times = content.features, content.repeats
    for query_id, row in content.values.items():
        if len(row) != times * len(names):
            again = f" in {times} repeats" if times > 1 else ""
            raise DatasetError(
                f"{path}, query {query_id!r}: {len(row)} values for {len(names)} features{again}; "
                "save the baseline anew"
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
    same = {field.name for field in fields(Baseline)} - {"table"}
    return Baseline(table, **content.model_dump(include=same))
