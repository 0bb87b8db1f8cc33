"""Surrogates on disk: what was learnt from, never a pickled regressor.

A pickled scikit-learn regressor is tied to the version that wrote it. The numbers it was fitted to
are not, and fitting takes less than a second, so an artifact holds the numbers and loading refits.
Only trees that learnt from verdicts take longer; they are stored as arrays.

What users save is arrays and JSON (``.npz``), in which nothing can run. What ships is in joblib,
which can run code as it is read: it is opened where its SHA-256 stands in the manifest that ships
inside the package, and any other file in joblib only where it is trusted.
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
from mirage.errors import ArtifactError, DatasetError, MissingPackageError, install_command
from mirage.features import Facts
from mirage.languages import LANGUAGES, Language
from mirage.surrogate import _tree_arrays
from mirage.surrogate._tree_arrays import TreeArrays
from mirage.surrogate.model import Candidate, Recipe
from mirage.surrogate.training import TrainingData

__all__ = [
    "MANIFEST",
    "Artifact",
    "read",
    "read_arrays",
    "read_pretrained",
    "ships",
    "verify",
    "write",
    "write_joblib",
    "write_manifest",
]

FORMAT = 1
MANIFEST = "manifest.json"
PRETRAINED = resources.files("mirage.surrogate") / "pretrained"

NAMES = ("models", "features", "query_ids")
# The arrays of a language's data: their type in a file, and in memory.
ARRAYS = {
    "values": (np.float32, np.float64),
    "counts": (np.uint16, np.int32),
    "y": (np.float32, np.float64),
}
RESIDUALS = ("of_shared", "of_all")
# The columns of judgments, where there are any, and their types.
COLUMNS = {"query": np.int32, "a": np.int32, "b": np.int32, "score": np.float32}

MOST_BYTES = 2**30
"""What the arrays of a file may have together once they are unpacked."""

_ZIP = b"PK\x03\x04"  # with which an .npz begins


@dataclass(frozen=True)
class Artifact:
    """What a stored surrogate consists of."""

    estimator: str
    seed: int
    candidate: Candidate
    data: Mapping[str, TrainingData]
    trees: TreeArrays | None = None

    def without_verdicts(self) -> Artifact:
        """Return this artifact without its verdicts, which trees do not need to predict."""
        data = {code: replace(part, judgments=None) for code, part in self.data.items()}
        return replace(self, data=data)


# Writing ------------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Write an artifact as arrays and JSON, in which nothing can run.

    Raises:
        ArtifactError: the file cannot be written.
    """
    payload = _packed(artifact)
    try:
        with replace_file(Path(path)) as file:
            np.savez_compressed(file, allow_pickle=False, **payload)
    except DatasetError as error:
        raise ArtifactError(str(error)) from error


def write_joblib(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Write an artifact that ships, compressed; the same artifact gives the same bytes."""
    import joblib

    with replace_file(Path(path)) as file:
        joblib.dump(_packed(artifact), file, compress=("zlib", 9))


def write_manifest(folder: Path) -> None:
    """Write the SHA-256 of every artifact that is to ship from a folder beside them."""
    digests = {path.name: _digest(path.read_bytes()) for path in sorted(folder.glob("*.joblib"))}
    write_text(folder / MANIFEST, json.dumps(digests, indent=1) + "\n")


def _packed(artifact: Artifact) -> dict[str, Any]:
    candidate = artifact.candidate
    # All that is no array is one JSON text: pickling would write equal strings once or twice,
    # depending on whether they are one object.
    about = {
        "estimator": artifact.estimator,
        "seed": artifact.seed,
        "recipe": _recipe(candidate),
        "languages": {code: _about(part) for code, part in artifact.data.items()},
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
    """Return an array whose pickle does not depend on whether it was computed or read.

    numpy's own types are single objects, which a pickle names once. Those of an array that was
    read from a pickle are copies.
    """
    if not isinstance(value, np.ndarray):
        return value
    return value.astype(np.dtype(value.dtype.str), order="C")


def _recipe(candidate: Candidate) -> dict[str, Any]:
    recipe = asdict(candidate.recipe)
    if not recipe["trees"]:
        del recipe["trees"]
    if not recipe.pop("verdicts"):
        return recipe
    return recipe | {"verdicts": True, "weights": candidate.weights}


def _about(part: TrainingData) -> dict[str, Any]:
    own = {name: asdict(entry) for name, entry in part.facts.items()}
    about = {name: getattr(part, name) for name in NAMES}
    more = {"facts": own, "groups": part.groups}
    more |= {"clusters": part.clusters, "unbound": part.unbound}
    return about | {name: entry for name, entry in more.items() if entry}


# Reading ------------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str], *, trust: bool = False) -> Artifact:
    """Read an artifact; without ``trust`` only one that ships, which its SHA-256 shows.

    The bytes are checked before anything opens them. What is raised is as for
    :meth:`mirage.SurrogateRanker.load`.
    """
    content = _content(Path(path))
    if not trust and _digest(content) not in _shipped().values():
        raise ArtifactError(
            f"{os.fspath(path)}: is none of the surrogates that ship. Pass trust=True if you made "
            "it or trust who did: it decides which model stands above which, and "
            + (
                "nothing in it can run"
                if content.startswith(_ZIP)
                else "to read a joblib file is to run the code that it brings along"
            )
        )
    reader = _arrays if content.startswith(_ZIP) else _pickled
    return _opened(os.fspath(path), content, reader)


def read_arrays(path: Path) -> Artifact:
    """Read an artifact of arrays and JSON, and nothing else, wherever it comes from.

    Raises:
        ArtifactError: no such file, or it is no such artifact.
    """
    return _opened(str(path), _content(path), _arrays)


def read_pretrained(code: str) -> Artifact:
    """The artifact that ships for a language.

    Raises:
        UnknownNameError: no such language.
        ArtifactError: the installation lacks it, or it was changed.
    """
    name = f"{Language.of(code).code}.joblib"
    content, fault = _checked(name)
    if fault:
        raise ArtifactError(f"{fault}; install the package again with: {install_command()}")
    return _opened(name, content, _pickled)


def ships(path: Path) -> bool:
    """Whether a file is, byte for byte, one of those that ship; it is not opened.

    Raises:
        ArtifactError: no such file, or the installation lacks its manifest.
    """
    return _digest(_content(path)) in _shipped().values()


def verify(folder: Path | None = None) -> dict[str, str]:
    """What is wrong with each surrogate of a folder, or of the package; empty where nothing is.

    Nothing is opened: a file is sound if its SHA-256 is that of the surrogate of its name that
    ships. A manifest that lies beside the files proves nothing, and is not read.

    Raises:
        ArtifactError: the folder has no joblib file, or the installation lacks its manifest.
    """
    if folder is None:
        return {code: _checked(f"{code}.joblib")[1] for code in LANGUAGES}
    files = sorted(folder.glob("*.joblib"))
    if not files:
        raise ArtifactError(f"{folder}: there is no surrogate (NAME.joblib) in it")
    digests = _shipped()
    return {
        file.name: ""
        if _digest(_content(file)) == digests.get(file.name)
        else f"{file}: is not the surrogate {file.name} that ships with this version"
        if file.name in digests
        else f"{file}: no surrogate of this name ships"
        for file in files
    }


def _checked(name: str) -> tuple[bytes, str]:
    """What a shipped artifact has in it, and what is wrong with it."""
    source = PRETRAINED / name
    if not source.is_file():
        return b"", f"the surrogate {name} is missing"
    content = source.read_bytes()
    wrong = _shipped().get(name) != _digest(content)
    why = f"{name}: its SHA-256 is not the one in {MANIFEST}, so it was changed or cut short"
    return content, why if wrong else ""


def _shipped() -> dict[str, str]:
    """The SHA-256 of what ships, by name of the file."""
    try:
        digests = json.loads((PRETRAINED / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"{MANIFEST} of the surrogates that ship cannot be read ({error}); install "
            f"the package again with: {install_command()}"
        ) from None
    return {str(name): str(digest) for name, digest in digests.items()}


def _content(path: Path) -> bytes:
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


def _opened(name: str, content: bytes, payload: Callable[[bytes], Mapping[str, Any]]) -> Artifact:
    try:
        return _unpacked(payload(content))
    except MissingPackageError:
        raise
    except Exception as error:  # foreign bytes raise anything
        raise ArtifactError(f"{name}: no surrogate that this version reads ({error})") from error


def _pickled(content: bytes) -> Mapping[str, Any]:
    import joblib

    payload: Mapping[str, Any] = joblib.load(io.BytesIO(content))
    return payload


def _arrays(content: bytes) -> Mapping[str, Any]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > MOST_BYTES:
        raise ValueError(f"it would unpack to {size} bytes")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        payload = {name: arrays[name] for name in arrays.files}
    return payload | {name: payload[name].item() for name in ("format", "about")}


def _unpacked(payload: Mapping[str, Any]) -> Artifact:
    if payload["format"] != FORMAT:
        raise ValueError(f"format {payload['format']}, this version reads {FORMAT}")
    about = json.loads(payload["about"])
    data = {}
    for code, entry in about["languages"].items():
        fields: dict[str, Any] = {name: tuple(entry[name]) for name in NAMES}
        for name, (_, wide) in ARRAYS.items():
            fields[name] = payload[f"{code}/{name}"].astype(wide)
        own = {name: _facts(facts) for name, facts in entry.get("facts", {}).items()}
        if f"{code}/score" in payload:
            columns = {
                name: payload[f"{code}/{name}"].astype(kind) for name, kind in COLUMNS.items()
            }
            fields["judgments"] = Judgments(fields["query_ids"], fields["models"], **columns)
        for name in ("groups", "clusters", "unbound"):
            fields[name] = tuple(entry.get(name, ()))
        data[code] = TrainingData(code, **fields, facts=own)
    of_shared, of_all = ({code: payload[f"{code}/{of}"] for code in data} for of in RESIDUALS)
    recipe = dict(about["recipe"])
    of_verdicts, of_means = recipe.pop("weights", (0.0, 1.0))
    weights = float(of_verdicts), float(of_means)
    candidate = Candidate(Recipe(**recipe), of_shared, of_all, weights)
    trees = None
    if "trees/start" in payload:
        arrays = _tree_arrays.ARRAYS.items()
        columns = {name: payload[f"trees/{name}"].astype(kind) for name, kind in arrays}
        trees = TreeArrays(float(payload["trees/start"]), **columns)
    artifact = Artifact(about["estimator"], about["seed"], candidate, data, trees)
    _check(artifact)
    return artifact


def _facts(entry: Mapping[str, Any]) -> Facts:
    return Facts(**{**entry, "needs": tuple(entry["needs"])})  # JSON has lists only


def _check(artifact: Artifact) -> None:
    """Refuse numbers and names that do not fit together.

    Raises:
        ValueError: says which.
    """
    if not artifact.data or len({part.features for part in artifact.data.values()}) != 1:
        raise ValueError("it has no languages, or they do not have the same features")
    recipe, trees = artifact.candidate.recipe, artifact.trees
    needed = recipe.verdicts and trees is None
    (features,) = {len(part.features) for part in artifact.data.values()}
    if trees is not None and not (recipe.trees and trees.is_sound(features)):
        raise ValueError("its trees do not fit its features")
    for code, part in artifact.data.items():
        Language.of(code)
        models, tournaments = len(part.models), len(part.y)
        shapes = {
            "values": (models, len(part.query_ids), len(part.features)),
            "counts": (tournaments, len(part.query_ids)),
            "y": (tournaments, models),
        }
        sizes = {name: getattr(part, name).shape for name in shapes}
        of = artifact.candidate
        residuals = of.of_shared[code], of.of_all[code]
        texts = (*part.models, *part.features, *part.query_ids, *part.groups, *part.clusters)
        known = set(part.models)
        sound = (
            sizes == shapes
            and min(models, tournaments, len(part.features)) > 0
            and len(part.groups) in (0, models)
            and len(part.clusters) in (0, len(part.query_ids))
            and all(isinstance(text, str) for text in texts)
            and all(model in known for model in part.unbound)
            and all(array.shape == (models,) for array in residuals)
            and all(np.isfinite(array).all() for array in (part.y, *residuals))
            and not np.isinf(part.values).any()
            and _sound(part.judgments, part, needed=needed)
        )
        if not sound:
            raise ValueError(f"the names and numbers of {code!r} do not fit together")


def _sound(judgments: Judgments | None, part: TrainingData, *, needed: bool) -> bool:
    if judgments is None:
        return not needed
    models, rows = len(part.models), judgments.score.shape
    return (
        len(rows) == 1
        and all(column.shape == rows for column in (judgments.query, judgments.a, judgments.b))
        and _places(judgments.query, len(part.query_ids))
        and _places(judgments.a, models)
        and _places(judgments.b, models)
        and bool(np.all(np.isin(judgments.score, (0.0, 0.5, 1.0))))
    )


def _places(column: NDArray[np.int32], number: int) -> bool:
    return bool(np.all((column >= 0) & (column < number)))
