"""Surrogates on disk: what was learnt from, never the fitted regressor.

A pickled scikit-learn regressor is tied to the version that wrote it. The numbers it was fitted to
are not, and fitting takes less than a second, so an artifact holds the numbers and loading refits.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from mirage.errors import ArtifactError
from mirage.features import Facts
from mirage.languages import LANGUAGES, Language
from mirage.surrogate.model import Candidate, Recipe
from mirage.surrogate.training import TrainingData

__all__ = ["MANIFEST", "Artifact", "read", "read_pretrained", "verify", "write", "write_manifest"]

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


@dataclass(frozen=True)
class Artifact:
    """What a stored surrogate consists of."""

    estimator: str
    seed: int
    candidate: Candidate
    data: Mapping[str, TrainingData]


def write(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Write an artifact with joblib, compressed; the same artifact gives the same bytes."""
    import joblib

    candidate = artifact.candidate
    # All that is no array is one JSON text: pickling would write equal strings once or twice,
    # depending on whether they are one object.
    about = {
        "estimator": artifact.estimator,
        "seed": artifact.seed,
        "recipe": asdict(candidate.recipe),
        "languages": {code: _about(part) for code, part in artifact.data.items()},
    }
    payload: dict[str, Any] = {"format": FORMAT, "about": json.dumps(about)}
    for code, part in artifact.data.items():
        arrays = {name: getattr(part, name).astype(small) for name, (small, _) in ARRAYS.items()}
        arrays |= {"of_shared": candidate.of_shared[code], "of_all": candidate.of_all[code]}
        for name, array in arrays.items():
            payload[f"{code}/{name}"] = np.ascontiguousarray(array)
    joblib.dump(payload, Path(path), compress=("zlib", 9))


def _about(part: TrainingData) -> dict[str, Any]:
    own = {name: asdict(entry) for name, entry in part.facts.items()}
    about = {name: getattr(part, name) for name in NAMES}
    more = {"facts": own, "groups": part.groups}
    return about | {name: entry for name, entry in more.items() if entry}


def read(path: str | os.PathLike[str], *, trust: bool = False) -> Artifact:
    """Read an artifact; without ``trust`` only if the manifest beside it has its SHA-256.

    The bytes are checked before joblib sees them. What is raised is as for
    :meth:`mirage.SurrogateRanker.load`.
    """
    path = Path(path)
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file")
    return _read(str(path), path, path.parent / MANIFEST, trust)


def read_pretrained(code: str) -> Artifact:
    """The artifact that ships for a language.

    Raises:
        UnknownNameError: no such language.
        ArtifactError: the installation lacks it, or it was changed.
    """
    name = f"{Language.of(code).code}.joblib"
    source = PRETRAINED / name
    if not source.is_file():
        raise ArtifactError(f"the surrogate {name} is missing: install mirage-rag again")
    return _read(name, source, PRETRAINED / MANIFEST, trust=False)


def write_manifest(folder: Path) -> None:
    """Write the SHA-256 of every artifact of a folder beside them."""
    digests = {path.name: _digest(path.read_bytes()) for path in sorted(folder.glob("*.joblib"))}
    (folder / MANIFEST).write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


def verify(folder: Path | None = None) -> dict[str, str]:
    """What is wrong with each artifact of a folder, or of those that ship; empty where nothing is.

    In a folder these are the files that its manifest names, and those that it does not name.

    Raises:
        ArtifactError: the folder has no manifest, or something else in its place.
    """
    if folder is None:
        return {code: _fault(partial(read_pretrained, code)) for code in LANGUAGES}
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise ArtifactError(
            f"{folder}: there is no {MANIFEST}; `mirage surrogate rebuild` writes one"
        )
    try:
        names = set(json.loads(manifest.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise ArtifactError(f"{manifest}: is no manifest ({error})") from None
    names |= {path.name for path in folder.glob("*.joblib")}
    return {name: _fault(partial(read, folder / name)) for name in sorted(names)}


def _fault(reader: Callable[[], Artifact]) -> str:
    try:
        reader()
    except ArtifactError as error:
        return str(error)
    return ""


def _read(name: str, source: Traversable, manifest: Traversable, trust: bool) -> Artifact:
    import joblib

    content = source.read_bytes()
    if not trust:
        _check(name, content, manifest)
    try:
        return _unpacked(joblib.load(io.BytesIO(content)))
    except Exception as error:  # unpickling foreign bytes raises anything
        raise ArtifactError(f"{name}: no surrogate that this version reads ({error})") from error


def _check(name: str, content: bytes, manifest: Traversable) -> None:
    digests = json.loads(manifest.read_text("utf-8")) if manifest.is_file() else {}
    digest = digests.get(Path(name).name)
    if digest is None:
        raise ArtifactError(
            f"{name}: there is no {MANIFEST} beside it that names it; reading a joblib file runs "
            "code that it brings along, so pass trust=True only if you made it or trust who did"
        )
    if digest != _digest(content):
        raise ArtifactError(
            f"{name}: its SHA-256 is not the one in {MANIFEST}, so it was changed or cut short"
        )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
        data[code] = TrainingData(code, **fields, facts=own, groups=tuple(entry.get("groups", ())))
    residuals = ({code: payload[f"{code}/{of}"] for code in data} for of in ("of_shared", "of_all"))
    candidate = Candidate(Recipe(**about["recipe"]), *residuals)
    return Artifact(about["estimator"], about["seed"], candidate, data)


def _facts(entry: Mapping[str, Any]) -> Facts:
    return Facts(**{**entry, "needs": tuple(entry["needs"])})  # JSON has lists only
