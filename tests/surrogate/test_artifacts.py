"""Surrogates on disk: what is read, what is refused, and what ships."""

from __future__ import annotations

import json
import shutil
import sys
from importlib import resources
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pytest

from mirage.errors import ArtifactError, NotFittedError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.languages import LANGUAGES
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.artifacts import write_manifest
from mirage.surrogate.pretraining import write_pretrained
from mirage.surrogate.simulation import ANCHORS, FAULTS, SYSTEMS

PRETRAINED = Path(str(resources.files("mirage.surrogate") / "pretrained"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(PRETRAINED / "sw.joblib", tmp_path)
    return tmp_path


@pytest.mark.parametrize("code", ["sw", "te"])
def test_what_is_saved_comes_back(code: str, tmp_path: Path) -> None:
    ranker = SurrogateRanker.pretrained(code)
    ranker.save(tmp_path / "again.joblib")
    again = SurrogateRanker.load(tmp_path / "again.joblib", trust=True)
    table = ranker.data[code].table(3)
    assert again.recipe == ranker.recipe
    assert np.array_equal(again.predict(table).draws, ranker.predict(table).draws)
    assert (tmp_path / "again.joblib").read_bytes() == (PRETRAINED / f"{code}.joblib").read_bytes()


def test_a_file_that_no_manifest_names_is_not_read(folder: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no manifest\.json beside it .* trust=True"):
        SurrogateRanker.load(folder / "sw.joblib")
    write_manifest(folder)
    assert SurrogateRanker.load(folder / "sw.joblib").features == FeatureSuite.offline("sw").names


def test_a_changed_file_is_not_read(folder: Path) -> None:
    write_manifest(folder)
    content = bytearray((folder / "sw.joblib").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "sw.joblib").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"SHA-256 is not the one in manifest\.json"):
        SurrogateRanker.load(folder / "sw.joblib")


class _Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("import sys; sys.mirage_was_here = True",)


def test_code_in_a_file_does_not_run_before_the_file_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "evil.joblib"
    joblib.dump(_Trap(), path)
    with pytest.raises(ArtifactError):
        SurrogateRanker.load(path)
    assert not hasattr(sys, "mirage_was_here")


def test_what_is_no_surrogate_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such file"):
        SurrogateRanker.load(tmp_path / "missing.joblib")
    joblib.dump({"format": 99}, tmp_path / "future.joblib")
    with pytest.raises(ArtifactError, match="format 99, this version reads 1"):
        SurrogateRanker.load(tmp_path / "future.joblib", trust=True)
    (tmp_path / "text.joblib").write_text("hello")
    with pytest.raises(ArtifactError, match="no surrogate that this version reads"):
        SurrogateRanker.load(tmp_path / "text.joblib", trust=True)
    with pytest.raises(NotFittedError):
        SurrogateRanker().save(tmp_path / "nothing.joblib")
    with pytest.raises(UnknownNameError, match="did you mean 'sw'"):
        SurrogateRanker.pretrained("Kiswahili")


def test_an_artifact_holds_numbers_and_no_scikit_learn(folder: Path) -> None:
    payload = joblib.load(folder / "sw.joblib")
    kinds = {type(value) for value in _leaves(payload)}
    assert kinds <= {np.ndarray, np.float64, str, int, float, type(None)}


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


# What ships ---------------------------------------------------------------------------------------


def test_eighteen_ship_and_are_small() -> None:
    manifest = json.loads((PRETRAINED / "manifest.json").read_text())
    assert set(manifest) == {f"{code}.joblib" for code in LANGUAGES}
    assert sum(path.stat().st_size for path in PRETRAINED.glob("*.joblib")) < 6e6


@pytest.mark.parametrize("code", LANGUAGES)
def test_known_answers_come_in_their_order(code: str) -> None:
    ranker = SurrogateRanker.pretrained(code)
    data = ranker.data[code]
    for order in (
        ("reference", "uncited", "wrong-entity", "garbled"),
        ("terse", "answered-anyway", "lying", "garbled"),
        ("casual", "uncited-casual", "wrong-entity-casual"),
        ("quoting", "dumping", "garbled"),
        ("long", "wrong-language", "garbled"),
    ):
        logits = [ranker.predict(data.table(data.models.index(name))).logit for name in order]
        assert all(a > b for a, b in pairwise(logits)), dict(zip(order, logits, strict=True))
    assert set(ANCHORS) <= set(data.models)


@pytest.mark.parametrize("code", ["sw", "zh"])
def test_a_kind_of_fault_never_seen_still_costs(code: str) -> None:
    pretrained = SurrogateRanker.pretrained(code)
    data = pretrained.data[code]
    clean = data.table(data.models.index("reference"))
    for kind in ("uncited", "refusal", "wrong-language", "garbled", "off-topic"):
        assert kind in FAULTS
        seen = [system.name for system in SYSTEMS if kind not in system.faults]
        ranker = SurrogateRanker(pretrained.estimator).fit_data({code: data.of(seen)})
        faulty = data.table(data.models.index(kind))
        assert ranker.predict(faulty).logit < ranker.predict(clean).logit


@pytest.mark.slow
def test_the_shipped_surrogate_was_trained_on_what_the_code_simulates(tmp_path: Path) -> None:
    write_pretrained(tmp_path, ["hi"])
    rebuilt = SurrogateRanker.load(tmp_path / "hi.joblib").data["hi"]
    shipped = SurrogateRanker.pretrained("hi").data["hi"]
    # Features and verdicts are the same everywhere; what was fitted, with the same versions.
    assert np.array_equal(rebuilt.values, shipped.values, equal_nan=True)
    assert np.array_equal(rebuilt.counts, shipped.counts)
    assert np.allclose(rebuilt.y, shipped.y, atol=1e-6)


@pytest.mark.slow
def test_a_rebuild_gives_the_same_bytes_in_this_process_and_in_another(tmp_path: Path) -> None:
    write_pretrained(tmp_path / "here", ["hi"], n_jobs=1)
    write_pretrained(tmp_path / "there", ["hi", "sw"], n_jobs=2)
    here, there = ((tmp_path / name / "hi.joblib").read_bytes() for name in ("here", "there"))
    assert here == there
