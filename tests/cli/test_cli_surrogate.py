"""surrogate train, show and rebuild."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import IN_SWAHILI, LANGUAGE, mirage, refusal

from mirage.dataset import MirageDataset
from mirage.languages import LANGUAGES
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.artifacts import MANIFEST, PRETRAINED, write_manifest
from mirage.surrogate.simulation import SYSTEMS, judge, simulate

FEW = ("reference", "quoting", "uncited", "refusal", "off-topic", "garbled")


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """Write responses of simulated systems, and judgments on them."""
    folder = tmp_path_factory.mktemp("arena")
    corpora = {code: MirageDataset.bundled(code) for code in LANGUAGES}
    systems = [system for system in SYSTEMS if system.name in FEW]
    runs, utilities = simulate(corpora, LANGUAGE, systems, seed=0)
    paths = []
    for run in runs:
        paths.append(folder / f"{run.model}.jsonl")
        run.save(paths[-1])
    judgments = folder / "judgments.jsonl"
    rows = judge(
        utilities, [run.model for run in runs], corpora[LANGUAGE].query_ids, seed=0
    ).to_records()
    judgments.write_text("".join(row.model_dump_json() + "\n" for row in rows))
    return paths, judgments


@pytest.mark.slow
def test_a_trained_surrogate_ranks(arena: tuple[list[Path], Path], tmp_path: Path) -> None:
    paths, judgments = arena
    own = tmp_path / "own.joblib"
    done = mirage(
        *(
            "surrogate",
            "train",
            "--language",
            LANGUAGE,
            *paths,
            "--judgments",
            judgments,
            "--out",
            own,
        ),
        *("--estimator", "ridge", "--validate", "--json"),
    )
    assert done.exit_code == 0
    plain = json.loads(done.stdout)
    assert set(plain["languages"][LANGUAGE]["logits"]) == set(FEW)
    assert plain["languages"][LANGUAGE]["tournaments"] == 200
    assert set(plain["validation"]) == {"splits", "tau"}
    assert plain["validation"]["tau"] == {}  # too few models for an interval
    ranker = SurrogateRanker.load(own, trust=True)
    assert ranker.estimator == "ridge"
    assert "--trust" in refusal("surrogate", "show", own)
    shown = mirage("surrogate", "show", own, "--trust").stdout
    assert "sw: 40 queries, 200 tournaments" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_model_without_a_judgment_is_left_out_aloud(
    arena: tuple[list[Path], Path], tmp_path: Path
) -> None:
    paths, judgments = arena
    idle = tmp_path / "idle.jsonl"
    shutil.copy(paths[0], idle)
    done = mirage(
        *("surrogate", "train", *IN_SWAHILI, *paths, idle, "--judgments", judgments),
        *("--out", tmp_path / "x.joblib", "--estimator", "ridge"),
    )
    assert done.exit_code == 0
    assert "left out, because there is no judgment of them: idle" in done.stderr


def test_what_train_refuses(arena: tuple[list[Path], Path], tmp_path: Path) -> None:
    paths, judgments = arena
    out = tmp_path / "x.joblib"
    options = ("--judgments", judgments, "--out", out)
    message = refusal("surrogate", "train", *IN_SWAHILI, *paths, *options, "--estimator", "forrest")
    assert "did you mean 'forest'?" in message
    assert (
        "has no features" in refusal("surrogate", "train", *IN_SWAHILI, *paths[:3], *options)
        or not out.exists()
    )
    assert not out.exists()


@pytest.mark.slow
def test_a_surrogate_of_the_arena_learns_from_given_utilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mirage.surrogate import pretraining, simulation
    from mirage.surrogate.utilities import Utilities

    given: list[Utilities] = []
    few = [system for system in SYSTEMS if system.name in FEW]

    def arena(code: str, *, utilities: Utilities, **settings: Any) -> Any:
        given.append(utilities)
        return whole(code, utilities=utilities, systems=few, **settings)

    whole = pretraining.simulated_arena
    monkeypatch.setattr(pretraining, "simulated_arena", arena)
    monkeypatch.setattr(simulation, "SYSTEMS", few)
    mine, out = tmp_path / "mine.yaml", tmp_path / "own.npz"
    mine.write_text("weights: {grounded: 3}\nfaults:\n  uncited: {grounded: 0}\n")
    done = mirage(
        *("surrogate", "train", *IN_SWAHILI, "--utilities", mine, "--out", out),
        "--json",
    )
    assert done.exit_code == 0
    assert set(json.loads(done.stdout)["languages"][LANGUAGE]["logits"]) == set(FEW)
    assert given[0].cost("uncited") == 3.0
    assert SurrogateRanker.load(out, trust=True).estimator == "verdict_trees"


def test_what_training_with_utilities_refuses(
    arena: tuple[list[Path], Path], tmp_path: Path
) -> None:
    paths, judgments = arena
    mine, out = tmp_path / "mine.json", tmp_path / "x.npz"
    mine.write_text('{"faults": {"uncitd": {"grounded": 0}}}')
    options = ("--utilities", mine, "--out", out)
    assert "did you mean 'uncited'?" in refusal("surrogate", "train", *IN_SWAHILI, *options)
    message = refusal("surrogate", "train", *IN_SWAHILI, *paths, *options, "--judgments", judgments)
    assert "leave out RESPONSES" in message
    assert "--utilities" in refusal("surrogate", "train", *IN_SWAHILI, "--out", out)
    assert not out.exists()


@pytest.mark.slow
def test_one_that_ships_is_shown(tmp_path: Path) -> None:
    shown = mirage("surrogate", "show", LANGUAGE)
    assert "reference" in shown.stdout
    assert "what a fault costs" in shown.stdout
    plain = json.loads(mirage("surrogate", "show", LANGUAGE, "--json").stdout)
    ranker = SurrogateRanker.pretrained(LANGUAGE)
    assert plain["features"] == list(ranker.features)
    assert plain["recipe"] == str(ranker.recipe)
    by_file = mirage("surrogate", "show", PRETRAINED / f"{LANGUAGE}.joblib")  # needs no --trust
    assert by_file.stdout == shown.stdout
    assert "did you mean 'sw'?" in refusal("surrogate", "show", "Swahili")
    assert "no such file" in refusal("surrogate", "show", tmp_path / "x.joblib")


def test_rebuild_compares_the_files_with_those_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training takes minutes, so tests/surrogate trains one surrogate again."""
    from mirage.surrogate import pretraining

    def copy_one(folder: Path, *, levels: list[str], n_jobs: int) -> list[str]:
        assert (levels, n_jobs) == (["quick"], 1)
        folder.mkdir()
        shutil.copy(str(PRETRAINED / f"{LANGUAGE}.joblib"), folder)
        write_manifest(folder)
        return []

    monkeypatch.setattr(pretraining, "write_pretrained", copy_one)
    done = mirage(
        *("surrogate", "rebuild", tmp_path / "new", "--level", "quick", "--jobs", 1, "--json")
    )
    plain = json.loads(done.stdout)
    assert plain["surrogates"] == plain["equal"] == ["sw.joblib"]
    assert (tmp_path / "new" / MANIFEST).is_file()
    unknown = refusal("surrogate", "rebuild", tmp_path / "x", "--level", "easy")
    assert "'easy'" in unknown
