"""Files of surrogates: reading, refusals, and the bundled files."""

from __future__ import annotations

import json
import lzma
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import examples
from subsets import slow_except

from mirage.dataset import LEVELS
from mirage.errors import ArtifactError, NotFittedError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.languages import LANGUAGES
from mirage.surrogate import SurrogateRanker
from mirage.surrogate._bundled_files import read_bundled
from mirage.surrogate._verdicts import fit_shares
from mirage.surrogate.artifacts import file_name, verify, write_joblib, write_manifest
from mirage.surrogate.pretraining import simulated_arena, write_pretrained
from mirage.surrogate.simulation import ANCHORS, FAULTS, SYSTEMS
from mirage.surrogate.training import training_data

SOME = ("reference", "uncited", "wrong-entity", "garbled")

PRETRAINED = Path(str(resources.files("mirage.surrogate") / "pretrained"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(PRETRAINED / "sw.joblib", tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def small_artifact(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file of a surrogate with four models and eight tournaments."""
    data = SurrogateRanker.pretrained("sw").data["sw"].of(SOME)
    few = replace(data, y=data.y[:8], counts=data.counts[:8])
    path = tmp_path_factory.mktemp("small") / "own.npz"
    SurrogateRanker("linear").fit_data({"sw": few}).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("code", slow_except(["te"], ["sw", "te"]))
def test_a_saved_surrogate_predicts_the_same(code: str, tmp_path: Path) -> None:
    ranker = SurrogateRanker.pretrained(code)
    ranker.save(tmp_path / "again.npz")
    write_joblib(tmp_path / "again.joblib", ranker.artifact)
    table = ranker.data[code].table(3)
    for name in ("again.npz", "again.joblib"):
        again = SurrogateRanker.load(tmp_path / name, trust=True)
        assert again.recipe == ranker.recipe
        assert np.array_equal(again.predict(table).draws, ranker.predict(table).draws)
    assert (tmp_path / "again.joblib").read_bytes() == (PRETRAINED / f"{code}.joblib").read_bytes()


def test_a_saved_file_cannot_run_code(tmp_path: Path) -> None:
    """Check that numpy reads the file without pickle, whatever its name."""
    SurrogateRanker.pretrained("sw").save(tmp_path / "own.joblib")
    with np.load(tmp_path / "own.joblib", allow_pickle=False) as arrays:
        assert {arrays[name].dtype.kind for name in arrays.files} <= set("bfiuU")


def test_without_trust_only_bundled_files_are_read(folder: Path) -> None:
    assert SurrogateRanker.load(folder / "sw.joblib").features == FeatureSuite.default("sw").names
    SurrogateRanker.pretrained("sw").save(folder / "own.npz")
    with pytest.raises(ArtifactError, match=r"does not ship.* cannot run code"):
        SurrogateRanker.load(folder / "own.npz")
    content = bytearray((folder / "sw.joblib").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "sw.joblib").write_bytes(content)
    write_manifest(folder)  # a manifest that an attacker could write
    with pytest.raises(ArtifactError, match=r"does not ship with mirage.* code"):
        SurrogateRanker.load(folder / "sw.joblib")
    assert "is not the surrogate sw.joblib that ships" in verify(folder)["sw.joblib"]


class _Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("import sys; sys.mirage_was_here = True",)


def test_code_in_a_file_does_not_run_before_the_file_is_trusted(tmp_path: Path) -> None:
    """Check it even with a manifest beside the file."""
    path = tmp_path / "evil.joblib"
    joblib.dump(_Trap(), path)
    write_manifest(tmp_path)
    with pytest.raises(ArtifactError):
        SurrogateRanker.load(path)
    assert verify(tmp_path)["evil.joblib"]
    trapped = np.array([_Trap()], dtype=object)
    with (tmp_path / "evil.npz").open("wb") as file:
        np.savez(file, allow_pickle=True, about=trapped, format=1)
    with pytest.raises(ArtifactError, match="allow_pickle=False"):
        SurrogateRanker.load(tmp_path / "evil.npz", trust=True)
    assert not hasattr(sys, "mirage_was_here")


@pytest.mark.parametrize("manifest", [b"{", b"[1]", b"null", b"\xff\xfe", b'{"sw.joblib": 3}', b""])
def test_a_manifest_beside_a_file_is_not_even_read(folder: Path, manifest: bytes) -> None:
    (folder / "manifest.json").write_bytes(manifest)
    assert SurrogateRanker.load(folder / "sw.joblib").recipe
    assert verify(folder) == {"sw.joblib": ""}


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_damage_raises_no_other_error_than_artifact_error(
    places: list[tuple[float, int]], small_artifact: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    content = bytearray(small_artifact)
    for position, bits in places:
        content[int(position * (len(content) - 1))] ^= bits
    path.write_bytes(content)
    with suppress(ArtifactError):
        SurrogateRanker.load(path, trust=True)


@pytest.mark.parametrize(
    "change",
    [
        {"about": "[]"},
        {"about": "{"},
        {"about": 3},
        {"format": 2},
        {"sw/y": np.zeros((3, 1))},
        {"sw/y": np.full((8, 4), np.nan)},
        {"sw/values": np.zeros(0)},
        {"sw/of_all": np.zeros((2, 2))},
        {"sw/counts": np.zeros((1, 1), np.uint16)},
    ],
)
def test_numbers_that_do_not_fit_are_refused(
    change: dict[str, object], small_artifact: bytes, tmp_path: Path
) -> None:
    with np.load(BytesIO(small_artifact)) as arrays:
        payload = {name: arrays[name] for name in arrays.files}
    with (tmp_path / "own.npz").open("wb") as file:
        np.savez(file, **(payload | change))  # type: ignore[arg-type]
    with pytest.raises(ArtifactError):
        SurrogateRanker.load(tmp_path / "own.npz", trust=True)


def test_languages_have_the_same_features(small_artifact: bytes, tmp_path: Path) -> None:
    with np.load(BytesIO(small_artifact)) as arrays:
        payload = {name: arrays[name] for name in arrays.files}
    payload |= {name.replace("sw/", "hi/"): array for name, array in payload.items()}
    about = json.loads(payload["about"].item())
    path = tmp_path / "own.npz"

    def load(languages: dict[str, object]) -> SurrogateRanker:
        changed = {"about": json.dumps(about | {"languages": languages})}
        with path.open("wb") as file:
            np.savez(file, **(payload | changed))  # type: ignore[arg-type]
        return SurrogateRanker.load(path, trust=True)

    entry = about["languages"]["sw"]
    assert list(load({"sw": entry, "hi": entry}).data) == ["sw", "hi"]
    renamed = entry | {"features": [f"{name}'" for name in entry["features"]]}
    for languages in ({"sw": entry, "hi": renamed}, {}):
        with pytest.raises(ArtifactError, match="no languages, or the features differ"):
            load(languages)


def test_a_file_that_would_fill_the_memory_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_artifact: bytes
) -> None:
    monkeypatch.setattr("mirage.surrogate.artifacts.MOST_BYTES", 1000)
    (tmp_path / "own.npz").write_bytes(small_artifact)
    with pytest.raises(ArtifactError, match="bytes when unpacked"):
        SurrogateRanker.load(tmp_path / "own.npz", trust=True)


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be written"):
        SurrogateRanker.pretrained("sw").save(tmp_path / "none" / "own.npz")


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such file"):
        SurrogateRanker.load(tmp_path / "missing.joblib")
    joblib.dump({"format": 99}, tmp_path / "future.joblib")
    with pytest.raises(
        ArtifactError, match="has format 99, but this version of mirage reads format 1"
    ):
        SurrogateRanker.load(tmp_path / "future.joblib", trust=True)
    (tmp_path / "text.joblib").write_text("hello")
    with pytest.raises(ArtifactError, match="not a surrogate that this version of mirage can read"):
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


@pytest.mark.parametrize("name", ["sw.joblib", "ja-hard.joblib", "yo.joblib"])
def test_bundled_files_are_read_as_joblib_reads_them(name: str) -> None:
    path = PRETRAINED / name
    expected, payload = joblib.load(path), read_bundled(path.read_bytes())
    assert list(payload) == list(expected)
    for key, value in expected.items():
        assert type(payload[key]) is type(value)
        if isinstance(value, np.ndarray):
            assert payload[key].dtype == value.dtype
        np.testing.assert_array_equal(payload[key], value)


@pytest.mark.parametrize("value", [_Trap(), {"a": np.array([_Trap()])}, {"a": len}, [1]])
def test_the_reader_of_bundled_files_runs_no_code(tmp_path: Path, value: object) -> None:
    joblib.dump(value, tmp_path / "evil.joblib", compress=("lzma", 1))
    with pytest.raises(ArtifactError):
        read_bundled((tmp_path / "evil.joblib").read_bytes())
    with pytest.raises(lzma.LZMAError):
        read_bundled(b"hello")


# What ships ---------------------------------------------------------------------------------------


def test_small_surrogates_of_every_language_and_level_are_bundled() -> None:
    manifest = json.loads((PRETRAINED / "manifest.json").read_text())
    names = {file_name(code, level) for code in LANGUAGES for level in LEVELS}
    assert set(manifest) == names
    assert sum(path.stat().st_size for path in PRETRAINED.glob("*.joblib")) < 8e6


@pytest.mark.parametrize("code", slow_except(["en", "ja"], LANGUAGES))
def test_simulated_systems_are_ranked_by_their_faults(code: str) -> None:
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


@pytest.mark.slow
def test_an_unseen_kind_of_fault_still_costs() -> None:
    code = "zh"
    arena = simulated_arena(code, number=20)
    data = training_data(*arena[:2], judgments=arena.judgments)[code]
    clean = data.table(data.models.index("reference"))
    for kind in ("uncited", "refusal", "wrong-language", "garbled", "off-topic"):
        assert kind in FAULTS
        training_systems = [system.name for system in SYSTEMS if kind not in system.faults]
        part = data.of(training_systems)
        shares = fit_shares({code: part}, part.monotone, seed=0)
        faulty = data.table(data.models.index(kind))
        assert shares.wins(code, faulty.values).mean() < shares.wins(code, clean.values).mean()


@pytest.mark.slow
def test_a_rebuild_gives_the_shipped_data_and_the_same_bytes_in_any_process(
    tmp_path: Path,
) -> None:
    write_pretrained(tmp_path / "here", ["hi"], levels=["quick"], n_jobs=1)
    write_pretrained(tmp_path / "there", ["hi"], levels=["quick"], n_jobs=2)
    here, there = (tmp_path / name / "hi.joblib" for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()
    rebuilt = SurrogateRanker.load(here, trust=True).data["hi"]
    shipped = SurrogateRanker.pretrained("hi").data["hi"]
    # Features and verdicts are equal on every machine; fits only with equal library versions.
    assert np.array_equal(rebuilt.values, shipped.values, equal_nan=True)
    assert np.array_equal(rebuilt.counts, shipped.counts)
    assert np.allclose(rebuilt.y, shipped.y, atol=1e-6)
