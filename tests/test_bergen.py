"""BERGEN's figures from its published numbers, and from a grid that was measured."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from mirage.errors import SettingError, UnknownNameError
from mirage.grids import Cell, ResultTable
from mirage.papers import bergen
from mirage.statistics.item_tau import mean_tau

SOURCE = Path(os.environ.get("MIRAGE_DATA", "../shared/data")) / "published" / "bergen.json"
# What the means over six generators of Table 4 come to, SPLADE-v3 and DeBERTa-v3 less closed book.
GAINS = {
    "POPQA": 0.264,
    "ASQA": 0.184,
    "KILT HotpotQA": 0.173,
    "KILT NQ": 0.143,
    "KILT TriviaQA": 0.113,
    "WIKIQA": 0.038,
    "SCIQ": -0.012,
    "TruthfulQA": -0.084,
    "KILT ELI5": -0.092,
    "KILT Wow": -0.123,
}


# The published numbers ----------------------------------------------------------------------------


def test_what_retrieval_brings_by_dataset() -> None:
    rows = bergen.retrieval_gain(bergen.published(), retriever="SPLADE-v3", reranker="DeBERTa-v3")
    assert {row.dataset: row.gain for row in rows} == pytest.approx(GAINS, abs=1e-3)
    assert [row.dataset for row in rows] == list(GAINS)
    assert {row.generators for row in rows} == {6}
    assert all(math.isnan(row.lower) for row in rows)
    assert len(bergen.retrieval_gain(bergen.published())) == 60


def test_better_retrieval_goes_with_better_answers() -> None:
    rows = bergen.retrieval_correlation(bergen.published(7))
    rho = {row.reranked: row.rho for row in rows}
    assert rho["no"] == pytest.approx(0.957, abs=5e-4)
    assert rho["yes"] == pytest.approx(0.836, abs=5e-4)
    points = [(r.retrieval, r.answers) for r in bergen.retrieval_vs_generation(bergen.published(7))]
    assert rho["any"] == pytest.approx(spearmanr(*zip(*points, strict=True)).statistic, abs=1e-12)


def test_answers_and_retrieval_of_the_main_results_are_joined() -> None:
    rows = bergen.retrieval_vs_generation(bergen.published().where(dataset="KILT NQ"))
    by_place = {(r.generator, r.retriever, r.reranker): (r.retrieval, r.answers) for r in rows}
    assert by_place["SOLAR-10.7B", "BM25", "none"] == (0.531, 0.574)
    assert math.isnan(by_place["SOLAR-10.7B", "none", "none"][0])
    assert len(by_place) == 48


def test_match_and_the_judge_order_systems_alike() -> None:
    (row,) = bergen.metric_agreement(bergen.published().where(dataset="KILT NQ"), metrics=["Match"])
    assert row.tau_of_means == pytest.approx(0.848, abs=5e-4)
    assert row.cells == 48
    assert math.isnan(row.tau)


def test_fine_tuning_brings_what_the_paper_prints() -> None:
    printed = {
        ("TinyLlama-1.1B", "Match"): 0.13,
        ("TinyLlama-1.1B", "LLMeval"): 0.41,
        ("Llama2-7B", "Match"): 0.03,
        ("Llama3-8B", "LLMeval"): 0.04,
        ("SOLAR-10.7B", "Match"): -0.03,
        ("Llama2-70B", "LLMeval"): 0.06,
    }
    rows = {(r.generator, r.metric): r.gain for r in bergen.finetuning_gain(bergen.published(2))}
    assert len(rows) == 12
    assert {place: rows[place] for place in printed} == pytest.approx(printed, abs=0.0151)


def test_oracle_passages_help_most_where_few_answers_are_known() -> None:
    rows = {(r.dataset, r.generator): r for r in bergen.oracle_gain(bergen.published())}
    assert len(rows) == 30
    solar = rows["KILT NQ", "SOLAR-10.7B"]
    assert (solar.closed_book, solar.oracle) == (0.659, 0.864)
    assert solar.gain == pytest.approx(0.205)
    assert rows["KILT ELI5", "SOLAR-10.7B"].gain < 0


def test_the_tables_look_as_in_the_paper() -> None:
    recall = bergen.retrieval_table(bergen.published())
    assert recall[("SPLADE-v3", "DeBERTa-v3"), ("KILT NQ", "R@5")].mean == 0.833
    assert len(recall.columns) == 5
    assert len(recall) == 6
    main = bergen.main_table(bergen.published(), ["LLMeval"])
    assert main[("POPQA", "TinyLlama-1.1B"), ("SPLADE-v3", "DeBERTa-v3", "LLMeval")].mean == 0.422
    assert len(main) == 60
    prompts = bergen.prompt_table(bergen.published(9), ["CLR"])
    assert prompts[("No retrieval", "basic"), ("SOLAR-10.7B", "ko", "CLR")].mean == 0.05
    for number in (3, 10, 11, 12):
        shown = str(bergen.multilingual_table(bergen.published(number)))
        assert max(map(len, shown.splitlines())) <= 80
    assert r"\toprule" in main.to_latex()
    assert len(recall.to_pandas()) == 6


@pytest.mark.skipif(not SOURCE.exists(), reason="the transcription is not in MIRAGE_DATA")
def test_the_figures_that_ship_are_those_that_were_transcribed() -> None:
    tables = json.loads(SOURCE.read_text(encoding="utf-8"))["tables"]
    for number in (3, 4, 5, 7, 9, 10, 11, 12, 14):
        cells = bergen.published(number).cells
        wanted = tables[str(number)]["rows"]
        assert len(cells) == len(wanted)
        for cell, row in zip(cells, wanted, strict=True):
            means = {name: cell.scores[name].mean for name in row["metrics"]}
            assert means == row["metrics"]
            for axis in ("dataset", "generator", "language", "prompt"):
                if axis in cell.settings:
                    assert cell.settings[axis] == row[axis]


def test_a_table_without_numbers_is_said() -> None:
    with pytest.raises(
        SettingError,
        match="choose one of the tables 2, 3, 4, 5, 7, 9",
    ):
        bergen.published(6)
    with pytest.raises(UnknownNameError, match="did you mean 'LLMeval'"):
        bergen.retrieval_gain(bergen.published(), "LLMEval")
    with pytest.raises(SettingError, match="has no cells without retrieval"):
        bergen.retrieval_gain(bergen.published(7))


# A grid -------------------------------------------------------------------------------------------

IDS = tuple(f"q{i}" for i in range(40))


def cell(rng: np.random.Generator, shift: float, **settings: str) -> Cell:
    truth = np.clip(np.linspace(0, 1, 40) + shift, 0, 1)
    judged = (truth > rng.random(40)).astype(float)
    match = np.where(rng.random(40) < 0.8, judged, 1 - judged)
    bounds = {"llm_eval": (0.0, 1.0), "qa_match": (0.0, 1.0)}
    columns = {"llm_eval": judged, "qa_match": match}
    if settings["retriever"] not in ("none", "oracle"):
        columns["R@5"] = np.full(40, 0.5 + shift)
    named = {"dataset": "nq", "corpus": "wiki", **settings}
    return Cell.measured(named, IDS, columns, bounds=bounds)


@pytest.fixture(scope="module")
def grid() -> ResultTable:
    rng = np.random.default_rng(0)
    shifts = {"none": -0.3, "bm25": 0.0, "e5": 0.1, "oracle": 0.4}
    cells = [
        cell(rng, shift, retriever=name, generator=generator, show_k=k)
        for generator in ("solar", "solar-lora")
        for name, shift in shifts.items()
        for k in (("5", "10") if name != "none" else ("5",))
    ]
    return ResultTable("grid", tuple(cells), ("llm_eval", "qa_match", "R@5"))


def test_gains_of_a_grid_are_paired_and_have_intervals(grid: ResultTable) -> None:
    rows = list(bergen.retrieval_gain(grid, "llm_eval"))
    assert [row.retriever for row in rows] == ["e5", "bm25"]
    pairs = [
        (grid.cell(retriever="e5", generator=g, show_k=k), grid.cell(retriever="none", generator=g))
        for g in ("solar", "solar-lora")
        for k in (5, 10)
    ]
    gaps = [a.values["llm_eval"] - b.values["llm_eval"] for a, b in pairs]
    assert rows[0].gain == pytest.approx(np.mean(gaps))
    assert rows[0].lower < rows[0].gain < rows[0].upper
    assert rows[0].generators == 2
    oracle = bergen.oracle_gain(grid, "llm_eval")
    assert all(row.lower > 0 for row in oracle)
    assert [row.generator for row in oracle] == ["solar", "solar-lora"]
    bare = grid.where(generator="solar", retriever="none")
    cells = grid.where(generator="solar", retriever="oracle")
    assert oracle.rows[0].oracle == pytest.approx(
        np.mean([cell.scores["llm_eval"].mean for cell in cells])
    )
    assert oracle.rows[0].closed_book == pytest.approx(bare[0].scores["llm_eval"].mean)
    assert oracle.notes[0].startswith("each row is a mean over the cells that differ in show_k;")
    assert not bergen.oracle_gain(bergen.published()).notes


def test_the_judge_and_a_metric_agree_on_answers(grid: ResultTable) -> None:
    (row,) = bergen.metric_agreement(grid, "llm_eval", ["qa_match"])
    taus = [kendalltau(c.values["llm_eval"], c.values["qa_match"]).statistic for c in grid]
    assert row.tau == pytest.approx(np.nanmean(taus), abs=1e-12)
    assert row.lower < row.tau < row.upper
    assert (row.queries, row.cells) == (40, 14)


def test_context_and_fine_tuning_of_a_grid(grid: ResultTable) -> None:
    sizes = bergen.context_size(grid.where(retriever="e5"), "llm_eval")
    assert [row.show_k for row in sizes] == [5, 10, 5, 10]
    assert all(row.lower < row.mean < row.upper for row in sizes)
    tuned = bergen.finetuning_gain(grid, {"solar-lora": "solar"})
    assert len(tuned) == 7 * 2 + 4
    rho = bergen.retrieval_correlation(grid, "llm_eval")
    assert {row.systems for row in rho} == {4}


# Tau between queries ------------------------------------------------------------------------------


def test_tau_is_that_of_scipy_and_its_interval_that_of_the_jackknife() -> None:
    rng = np.random.default_rng(2)
    first = np.round(rng.random(60), 1)
    second = (first + rng.normal(size=60) / 2 > 0.5).astype(float)
    second[3] = math.nan
    known = np.arange(60) != 3
    found = mean_tau([(first, second)], np.arange(60) // 2)
    assert found.tau == pytest.approx(kendalltau(first[known], second[known]).statistic, abs=1e-12)
    assert (found.n, found.columns) == (59, 1)
    left_out = [
        kendalltau(first[rest], second[rest]).statistic
        for cluster in range(30)
        if (rest := known & (np.arange(60) // 2 != cluster)).any()
    ]
    scaled = np.arctanh(left_out)
    variance = 29 / 30 * np.square(scaled - scaled.mean()).sum()
    width = np.ptp(np.arctanh(found.interval)) / 2
    assert width == pytest.approx(2.045 * np.sqrt(variance), rel=1e-3)  # t, 29 degrees of freedom
    assert np.isnan(mean_tau([(first, second)], np.arange(60) // 3).interval).all()
    assert math.isnan(mean_tau([(first, np.ones(60))], np.arange(60)).tau)
