"""Files of surrogates (artifacts), which store the training data instead of a pickled regressor.

A pickled scikit-learn regressor can be read only by the version that wrote it. Training data do not
have this limit, and fitting takes less than a second. An artifact therefore stores the training
data, and loading it fits the regressor again. Only trees that are trained on verdicts take longer
to fit; they are stored as arrays.

:func:`write` saves arrays and JSON (``.npz``), which cannot run code. Bundled surrogates are joblib
files. Reading such a file can run code, so it is read only if its SHA-256 is in the manifest inside
the package, or if the caller trusts it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage._base.files import replace_file, write_text
from mirage._base.inputs import limit_of, too_large
from mirage.arena import Judgments
from mirage.dataset import LEVELS
from mirage.errors import (
    ArtifactError,
    DatasetError,
    MissingPackageError,
    UnknownNameError,
    install_command,
)
from mirage.features import Facts
from mirage.languages import LANGUAGES, Language
from mirage.surrogate import _tree_arrays
from mirage.surrogate._bundled_files import read_bundled
from mirage.surrogate._tree_arrays import TreeArrays
from mirage.surrogate.model import Candidate, Recipe
from mirage.surrogate.training import TrainingData

FORMAT = 1
MANIFEST = "manifest.json"
PRETRAINED = resources.files("mirage.surrogate") / "pretrained"

NAMES = ("models", "features", "query_ids")
# Arrays of a language's training data: their type in a file, and their type in memory.
ARRAYS = {
    "values": (np.float32, np.float64),
    "counts": (np.uint16, np.int32),
    "y": (np.float32, np.float64),
}
# Arrays of a language that belong to the candidate; see :class:`Candidate`.
RESIDUALS = ("of_shared", "of_all")
# Columns of a language's judgments, if it has any, and their types.
COLUMNS = {"query": np.int32, "a": np.int32, "b": np.int32, "score": np.float32}

MOST_BYTES = 2**30
"""Largest total size of the unpacked arrays of a file, in bytes."""

_ZIP = b"PK\x03\x04"  # first bytes of an .npz file


@dataclass(frozen=True)
class Artifact:
    """The contents of a surrogate file.

    Attributes:
        estimator: Name of the estimator.
        seed: Random seed of the fit.
        candidate: The selected recipe (configuration of the regression), with its residuals on
            held-out models.
        data: Training data by language.
        trees: Trees that were trained on verdicts; ``None`` if the recipe has no trees.
    """

    estimator: str
    seed: int
    candidate: Candidate
    data: Mapping[str, TrainingData]
    trees: TreeArrays | None = None

    def of(self, code: str) -> Artifact:
        """Return an artifact with only the data of the language ``code``; the trees are unchanged.

        Logits are rounded to multiples of 1/256. This halves the size of the file, and the rounding
        is smaller than the errors of the logits.
        """
        part = replace(self.data[code], y=np.round(self.data[code].y * 256) / 256)
        candidate = replace(
            self.candidate,
            of_shared={code: self.candidate.of_shared[code]},
            of_all={code: self.candidate.of_all[code]},
        )
        return replace(self, candidate=candidate, data={code: part})

    def without_verdicts(self) -> Artifact:
        """Return a copy without the verdicts. Stored trees can predict without them."""
        data = {code: replace(part, judgments=None) for code, part in self.data.items()}
        return replace(self, data=data)


# Writing ------------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Write an artifact as arrays and JSON, which cannot run code."""
    payload = _pack(artifact)
    try:
        with replace_file(Path(path)) as file:
            np.savez_compressed(file, allow_pickle=False, **payload)
    except DatasetError as error:
        raise ArtifactError(str(error)) from error


def write_joblib(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Write a bundled artifact to a compressed file; equal artifacts give identical files."""
    import joblib

    with replace_file(Path(path)) as file:
        # LZMA also compresses repetitions that are far apart, such as the responses that many
        # systems share.
        joblib.dump(_pack(artifact), file, compress=("lzma", 9))


def write_manifest(folder: Path) -> None:
    """Write the SHA-256 of every bundled artifact in a folder to a manifest in that folder."""
    digests = {path.name: _digest(path.read_bytes()) for path in sorted(folder.glob("*.joblib"))}
    write_text(folder / MANIFEST, json.dumps(digests, indent=1) + "\n")


def _pack(artifact: Artifact) -> dict[str, Any]:
    candidate = artifact.candidate
    # Everything but arrays is one JSON text. A pickle stores equal strings once or twice, depending
    # on whether they are the same object, so files with equal content could differ.
    about = {
        "estimator": artifact.estimator,
        "seed": artifact.seed,
        "recipe": _pack_recipe(candidate),
        "languages": {code: _describe_data(part) for code, part in artifact.data.items()},
    }
    payload: dict[str, Any] = {"format": FORMAT, "about": json.dumps(about)}
    for code, part in artifact.data.items():
        arrays = {name: getattr(part, name).astype(small) for name, (small, _) in ARRAYS.items()}
        arrays |= {"of_shared": candidate.of_shared[code], "of_all": candidate.of_all[code]}
        if part.judgments is not None:
            arrays |= {name: getattr(part.judgments, name) for name in COLUMNS}
        payload |= {f"{code}/{name}": array for name, array in arrays.items()}
    if artifact.trees is not None:
        names = ("start", *_tree_arrays.ARRAYS)
        payload |= {f"trees/{name}": np.asarray(getattr(artifact.trees, name)) for name in names}
    return {name: _with_plain_type(value) for name, value in payload.items()}


def _with_plain_type(value: object) -> object:
    """Return a copy of an array, so that equal arrays are pickled to the same bytes.

    An array that was itself read from a pickle has a copy of numpy's type object, and would be
    pickled to other bytes. Values that are not arrays are returned unchanged.
    """
    if not isinstance(value, np.ndarray):
        return value
    return value.astype(np.dtype(value.dtype.str), order="C")


def _pack_recipe(candidate: Candidate) -> dict[str, Any]:
    recipe = asdict(candidate.recipe)
    if not recipe["trees"]:
        del recipe["trees"]
    if not recipe.pop("verdicts"):
        return recipe
    return recipe | {"verdicts": True, "weights": candidate.weights}


def _describe_data(part: TrainingData) -> dict[str, Any]:
    user_facts = {name: asdict(entry) for name, entry in part.facts.items()}
    about = {name: getattr(part, name) for name in NAMES}
    optional = {"facts": user_facts, "groups": part.groups}
    optional |= {"clusters": part.clusters, "unbound": part.unbound}
    return about | {name: entry for name, entry in optional.items() if entry}


# Reading ------------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str], *, trust: bool = False) -> Artifact:
    """Read an artifact from an ``.npz`` or joblib file.

    Args:
        path: Path of the file.
        trust: Whether to read files other than bundled artifacts. Bundled artifacts are identified
            by their SHA-256, which is checked before the content is parsed.

    Raises:
        ArtifactError: If the file does not exist, is not an artifact, or is neither bundled nor
            trusted.
    """
    # Hash the same bytes that are parsed later: the file could change between two reads.
    content = _read_bytes(Path(path))
    if not trust and _digest(content) not in _shipped_digests().values():
        raise ArtifactError(
            f"{os.fspath(path)}: this surrogate does not ship with mirage. Pass trust=True if you "
            "trained it or trust its author: it decides how models are ranked, and "
            + (
                "this format cannot run code"
                if content.startswith(_ZIP)
                else "reading a joblib file can run code"
            )
        )
    reader = _load_arrays if content.startswith(_ZIP) else _load_joblib
    return _open(os.fspath(path), content, reader)


def read_arrays(path: Path) -> Artifact:
    """Read an artifact of arrays and JSON (``.npz``); raise an error for any other format."""
    return _open(str(path), _read_bytes(path), _load_arrays)


def file_name(code: str, level: str) -> str:
    """Return the file name of a bundled surrogate, such as ``sw.joblib`` or ``sw-hard.joblib``.

    Only files of the level ``quick`` lack the name of the level.
    """
    return f"{code}.joblib" if level == "quick" else f"{code}-{level}.joblib"


def read_pretrained(code: str, level: str = "quick") -> Artifact:
    """Read the bundled artifact of a language at a level, ``quick`` or ``hard``."""
    if level not in LEVELS:
        raise UnknownNameError("level", level, LEVELS)
    name = file_name(Language.with_board(code).code, level)
    content, fault = _check_shipped(name)
    if fault:
        raise ArtifactError(f"{fault}; install the package again with: {install_command()}")
    return _open(name, content, read_bundled)


def ships(path: Path) -> bool:
    """Return whether a file is identical to a bundled surrogate; the file is not parsed."""
    return _digest(_read_bytes(path)) in _shipped_digests().values()


def verify(folder: Path | None = None) -> dict[str, str]:
    """Check whether the surrogates in a folder are those that ship with mirage.

    A file is valid if its SHA-256 is that of the bundled surrogate with the same name. Files are
    not parsed. The SHA-256 values come from the manifest of the package. A manifest in the folder
    is not read, because it could have been changed together with the files.

    Args:
        folder: Folder of the files; ``None`` to check the files in the package.

    Returns:
        For each file name, a description of the problem; empty if the file is valid. If ``folder``
        is ``None``, the names lack the suffix ``.joblib``.

    Raises:
        ArtifactError: If the folder contains no file with the suffix ``.joblib``.
    """
    if folder is None:
        return {
            name.removesuffix(".joblib"): _check_shipped(name)[1]
            for name in (file_name(code, level) for level in LEVELS for code in LANGUAGES)
        }
    files = sorted(folder.glob("*.joblib"))
    if not files:
        raise ArtifactError(
            f"{folder}: the folder contains no surrogates, that is, no files NAME.joblib"
        )
    digests = _shipped_digests()
    return {
        file.name: ""
        if _digest(_read_bytes(file)) == digests.get(file.name)
        else f"{file}: is not the surrogate {file.name} that ships with this version"
        if file.name in digests
        else f"{file}: no surrogate with this name ships with this version"
        for file in files
    }


def shipped_digest(code: str) -> str:
    """Return the SHA-256 of the bundled surrogate for the quick level of a language."""
    return _shipped_digests()[f"{Language.with_board(code).code}.joblib"]


def _check_shipped(name: str) -> tuple[bytes, str]:
    """Return the content of a bundled artifact, and a description of the problem if it is invalid.

    The description is empty if the artifact is valid.
    """
    source = PRETRAINED / name
    if not source.is_file():
        return b"", f"the surrogate {name} is missing"
    content = source.read_bytes()
    wrong = _shipped_digests().get(name) != _digest(content)
    problem = f"{name}: its SHA-256 is not the one in {MANIFEST}, so it was changed or truncated"
    return content, problem if wrong else ""


def _shipped_digests() -> dict[str, str]:
    """Return the SHA-256 of each bundled artifact by file name, from the package's manifest."""
    try:
        digests = json.loads((PRETRAINED / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"{MANIFEST} of the bundled surrogates cannot be read ({error}); install "
            f"the package again with: {install_command()}"
        ) from None
    return {str(name): str(digest) for name, digest in digests.items()}


def _read_bytes(path: Path) -> bytes:
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file")
    if path.stat().st_size > limit_of("file"):
        raise ArtifactError(str(too_large(path)))
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read ({error.strerror})") from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _open(name: str, content: bytes, payload: Callable[[bytes], Mapping[str, Any]]) -> Artifact:
    try:
        return _unpack(payload(content))
    except MissingPackageError:
        raise
    except Exception as error:  # damaged or foreign files can raise any error
        raise ArtifactError(
            f"{name}: this is not a surrogate that this version of mirage can read ({error})"
        ) from error


def _load_joblib(content: bytes) -> Mapping[str, Any]:
    import joblib

    payload: Mapping[str, Any] = joblib.load(io.BytesIO(content))
    return payload


def _load_arrays(content: bytes) -> Mapping[str, Any]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    # A small archive can unpack to more than the memory.
    if size > MOST_BYTES:
        raise ValueError(
            f"the file has {size} bytes when unpacked, but at most {MOST_BYTES} are allowed"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        payload = {name: arrays[name] for name in arrays.files}
    return payload | {name: payload[name].item() for name in ("format", "about")}


def _unpack(payload: Mapping[str, Any]) -> Artifact:
    if payload["format"] != FORMAT:
        raise ValueError(
            f"the file has format {payload['format']}, but this version of mirage reads format "
            f"{FORMAT}; train the surrogate again"
        )
    about = json.loads(payload["about"])
    data = {}
    for code, entry in about["languages"].items():
        fields: dict[str, Any] = {name: tuple(entry[name]) for name in NAMES}
        for name, (_, memory_type) in ARRAYS.items():
            fields[name] = payload[f"{code}/{name}"].astype(memory_type)
        user_facts = {name: _unpack_facts(facts) for name, facts in entry.get("facts", {}).items()}
        if f"{code}/score" in payload:
            columns = {
                name: payload[f"{code}/{name}"].astype(kind) for name, kind in COLUMNS.items()
            }
            fields["judgments"] = Judgments(fields["query_ids"], fields["models"], **columns)
        for name in ("groups", "clusters", "unbound"):
            fields[name] = tuple(entry.get(name, ()))
        data[code] = TrainingData(code, **fields, facts=user_facts)
    of_shared, of_all = ({code: payload[f"{code}/{name}"] for code in data} for name in RESIDUALS)
    recipe = dict(about["recipe"])
    verdict_weight, mean_weight = recipe.pop("weights", (0.0, 1.0))
    weights = float(verdict_weight), float(mean_weight)
    candidate = Candidate(Recipe(**recipe), of_shared, of_all, weights)
    trees = None
    if "trees/start" in payload:
        arrays = _tree_arrays.ARRAYS.items()
        columns = {name: payload[f"trees/{name}"].astype(kind) for name, kind in arrays}
        trees = TreeArrays(float(payload["trees/start"]), **columns)
    artifact = Artifact(about["estimator"], about["seed"], candidate, data, trees)
    _check(artifact)
    return artifact


def _unpack_facts(entry: Mapping[str, Any]) -> Facts:
    return Facts(**{**entry, "needs": tuple(entry["needs"])})  # JSON has lists only


def _check(artifact: Artifact) -> None:
    """Raise an error if the arrays and names in an artifact are inconsistent."""
    if not artifact.data or len({part.features for part in artifact.data.values()}) != 1:
        raise ValueError(
            "the file is damaged: it has no languages, or the features differ between languages"
        )
    recipe, trees = artifact.candidate.recipe, artifact.trees
    needed = recipe.verdicts and trees is None
    (features,) = {len(part.features) for part in artifact.data.values()}
    if trees is not None and not (recipe.trees and trees.is_sound(features)):
        raise ValueError(
            "the file is damaged: the regression trees use features that the file does not list"
        )
    for code, part in artifact.data.items():
        Language.of(code)
        models, tournaments = len(part.models), len(part.y)
        shapes = {
            "values": (models, len(part.query_ids), len(part.features)),
            "counts": (tournaments, len(part.query_ids)),
            "y": (tournaments, models),
        }
        sizes = {name: getattr(part, name).shape for name in shapes}
        candidate = artifact.candidate
        residuals = candidate.of_shared[code], candidate.of_all[code]
        texts = (*part.models, *part.features, *part.query_ids, *part.groups, *part.clusters)
        model_names = set(part.models)
        sound = (
            sizes == shapes
            and min(models, tournaments, len(part.features)) > 0
            and len(part.groups) in (0, models)
            and len(part.clusters) in (0, len(part.query_ids))
            and all(isinstance(text, str) for text in texts)
            and all(model in model_names for model in part.unbound)
            and all(array.shape == (models,) for array in residuals)
            and all(np.isfinite(array).all() for array in (part.y, *residuals))
            and not np.isinf(part.values).any()
            and _judgments_fit(part.judgments, part, needed=needed)
        )
        if not sound:
            raise ValueError(f"the file is damaged: the data of language {code!r} is inconsistent")


def _judgments_fit(judgments: Judgments | None, part: TrainingData, *, needed: bool) -> bool:
    if judgments is None:
        return not needed
    models, rows = len(part.models), judgments.score.shape
    return (
        len(rows) == 1
        and all(column.shape == rows for column in (judgments.query, judgments.a, judgments.b))
        and _indices_below(judgments.query, len(part.query_ids))
        and _indices_below(judgments.a, models)
        and _indices_below(judgments.b, models)
        and bool(np.all(np.isin(judgments.score, (0.0, 0.5, 1.0))))
    )


def _indices_below(column: NDArray[np.int32], number: int) -> bool:
    return bool(np.all((column >= 0) & (column < number)))
