"""The published ranking, compared with the paper's numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from cases import each_case

from mirage.errors import MirageError, UnknownNameError
from mirage.languages import LANGUAGES
from mirage.leaderboard import Leaderboard

WITH_LOGITS = [code for code in LANGUAGES if code != "yo"]


@pytest.fixture(scope="module")
def paper(data_dir: Path) -> Any:
    return json.loads((data_dir / "published" / "mirage_bench.json").read_text(encoding="utf-8"))


@each_case(
    ("code", "model", "logit", "low", "high", "rank"),
    [  # Tables 7 and 8: logit, and the distances of the interval's ends from it
        ("ar", "gpt-4-azure", 2.838, -0.22, 0.28, 1),
        ("bn", "gpt-4o-azure", 3.104, -0.31, 0.33, 1),
        ("de", "mistralai/Mixtral-8x22B-Instruct-v0.1", 1.002, -0.21, 0.23, 3),
        ("en", "gpt-3.5-turbo-azure", -0.314, -0.25, 0.25, 13),
        ("sw", "gpt-4o-azure", 2.966, -0.25, 0.28, 1),
        ("sw", "google/gemma-1.1-2b-it", -1.448, -0.27, 0.23, 17),
        ("sw", "microsoft/Phi-3-mini-128k-instruct", -2.019, -0.3, 0.29, 19),
        ("th", "meta-llama/Meta-Llama-3-8B-Instruct", 0.421, -0.28, 0.24, 7),
        ("zh", "meta-llama/Meta-Llama-3-70B-Instruct", 0.95, -0.2, 0.2, 4),
    ],
)
def test_figures_of_the_paper(
    code: str, model: str, logit: float, low: float, high: float, rank: int
) -> None:
    entry = Leaderboard.published(code)[model]
    assert (entry.rank, entry.logit) == (rank, logit)
    assert entry.interval == pytest.approx((logit + low, logit + high), abs=1e-9)
    assert entry.anchor
    assert entry.answered is None
    assert entry.rank_interval is None


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_figure_is_the_papers(code: str, paper: Any) -> None:
    ranking = Leaderboard.published(code)
    figures = paper["arena"][code]
    assert len(ranking) == 19
    assert set(ranking.models) == set(figures)
    for model, figure in figures.items():
        entry = ranking[model]
        if figure["logit"] is None:
            assert math.isnan(entry.logit)
            assert all(map(math.isnan, entry.interval))
        else:
            ends = [figure["logit"] + offset for offset in figure["ci95"]]
            assert entry.logit == figure["logit"]
            assert entry.interval == pytest.approx(ends, abs=1e-9)


@pytest.mark.parametrize("code", LANGUAGES)
def test_ranks_are_those_of_figure_4_but_for_its_errata(code: str, paper: Any) -> None:
    ranking = Leaderboard.published(code)
    assert [entry.rank for entry in ranking] == list(range(1, 20))
    other = [m for m, f in paper["arena"][code].items() if f["judge_rank"] != ranking[m].rank]
    assert len(other) == (2 if code in ("de", "es", "fa", "fr") else 0)
    assert any("Figure 4 of the paper" in note for note in ranking.notes) == bool(other)


@each_case("code", WITH_LOGITS)
def test_logits_are_centred_and_ordered(code: str) -> None:
    logits = [entry.logit for entry in Leaderboard.published(code)]
    assert logits == sorted(logits, reverse=True)
    assert sum(logits) == pytest.approx(0, abs=0.01)  # each is rounded to three decimals


def test_yoruba_has_ranks_only() -> None:
    ranking = Leaderboard.published("yo")
    assert ranking.models[:3] == (
        "gpt-4-azure",
        "gpt-4o-azure",
        "meta-llama/Meta-Llama-3-70B-Instruct",
    )
    assert ranking["google/gemma-1.1-2b-it"].rank == 19
    assert "logit" not in str(ranking).splitlines()[1]
    assert "Ranks only" in str(ranking)
    assert json.loads(ranking.to_json())["entries"][0]["logit"] is None
    with pytest.raises(MirageError, match="only ranks"):
        ranking.p_better("gpt-4-azure", "gpt-4o-azure")


def test_kendall_tau_by_hand() -> None:
    # The paper's surrogate ranks Swahili's models as its judge does, but for three neighbours
    # (12, 13, 14 become 14, 12, 13): two of 171 pairs are the other way round.
    judge = Leaderboard.published("sw")
    surrogate = {entry.model: -float(entry.rank) for entry in judge}
    surrogate["microsoft/Phi-3-medium-128k-instruct"] = -14
    surrogate["mistralai/Mistral-7B-Instruct-v0.3"] = -12
    surrogate["cohereforai-c4ai-command-r"] = -13
    assert judge.kendall_tau(surrogate) == pytest.approx((171 - 2 * 2) / 171)


def test_kendall_tau_with_yoruba_goes_by_ranks(paper: Any) -> None:
    from scipy.stats import kendalltau

    yoruba, swahili = paper["arena"]["yo"], paper["arena"]["sw"]
    expected = kendalltau(
        [-yoruba[model]["judge_rank"] for model in yoruba],
        [swahili[model]["logit"] for model in yoruba],
    ).statistic
    assert Leaderboard.published("yo").kendall_tau(Leaderboard.published("sw")) == pytest.approx(
        expected
    )


def test_p_better_is_the_normal_approximation() -> None:
    # Logits 2.31 and 2.235, intervals 0.43 and 0.57 long.
    ranking = Leaderboard.published("en")
    first, second = ranking["gpt-4o-azure"], ranking["gpt-4-azure"]
    assert (first.logit, second.logit) == (2.311, 2.235)
    spread = math.hypot(0.43, 0.57) / (2 * 1.96)
    expected = NormalDist(0, spread).cdf(2.311 - 2.235)
    assert ranking.p_better("gpt-4o-azure", "gpt-4-azure") == pytest.approx(expected, abs=1e-4)
    assert ranking.p_better("gpt-4-azure", "gpt-4o-azure") == pytest.approx(1 - expected, abs=1e-4)


def test_unknown_language_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'sw'"):
        Leaderboard.published("Kiswahili")
