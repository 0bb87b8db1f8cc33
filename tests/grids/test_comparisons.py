"""Tests of comparisons of cells on the same queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import SettingError, UnknownNameError
from mirage.grids import Cell, ResultTable
from mirage.grids.cells import Score
from mirage.grids.comparisons import CellComparisons, best_cells
from mirage.statistics.permutation import holm, permutation_p_values

IDS = tuple(f"q{i}" for i in range(30))


def cell(hits: int, dataset: str = "nq", **settings: str) -> Cell:
    values = (np.arange(30) < hits).astype(float)
    return Cell.measured({"dataset": dataset, **settings}, IDS, {"m": values})


CELLS = (
    cell(5, retriever="none", generator="solar"),
    cell(25, retriever="bm25", generator="solar"),
    cell(8, retriever="none", generator="llama"),
    cell(9, retriever="bm25", generator="llama"),
    cell(20, retriever="bm25", generator="solar", dataset="asqa"),
    Cell({"dataset": "nq", "retriever": "e5", "generator": "solar"}, failure="no memory"),
)
TABLE = ResultTable("small", CELLS, ("m",))


def test_each_cell_is_compared_with_the_one_that_differs_in_the_baseline_alone() -> None:
    rows = list(TABLE.compare("m", baseline={"retriever": "none"}))
    assert [(row.cell, row.baseline) for row in rows] == [
        (CELLS[1], CELLS[0]),
        (CELLS[3], CELLS[2]),
    ]
    assert [row.difference for row in rows] == pytest.approx([20 / 30, 1 / 30])
    gaps = np.repeat([1.0, 0.0], [20, 10])[:, None]
    p = [permutation_p_values(gaps)[0], 1.0]
    assert [row.p for row in rows] == p
    assert [row.corrected for row in rows] == holm(p).tolist()
    assert rows[0].mark == "***"
    low, high = rows[0].interval
    assert 0.4 < low < 20 / 30 < high < 0.9
    low, high = rows[1].interval  # one query differs
    assert low < -0.05 < 0.1 < high < 0.2


def test_by_default_all_pairs_of_one_dataset_are_compared() -> None:
    comparisons = TABLE.compare()
    assert len(comparisons) == 6
    assert all(row.cell.settings["dataset"] == "nq" for row in comparisons)
    text = str(comparisons)
    assert "corrected for 6 comparisons" in " ".join(text.split())
    assert "1 cells failed and are not compared." in text
    assert max(map(len, text.splitlines())) <= 80
    assert r"\toprule" in comparisons.to_latex()
    assert list(comparisons.to_pandas()["n"]) == [30] * 6
    assert comparisons.to_markdown().count("\n| ") == 8


def test_a_significant_difference_never_has_an_interval_with_0() -> None:
    """Small gains on most queries and 1 on one more: the permutation test and t disagree."""
    rng = np.random.default_rng(4)
    stars = significant = 0
    for _ in range(30):
        cells = []
        base = rng.random(40) * 0.6
        for name, gain in (("a", 0.0), ("b", 0.02), ("c", 0.06), ("d", 0.1)):
            values = base + gain * rng.random(40) * 2
            if name != "a":
                values[rng.integers(40)] += 1.0
            ids = [f"q{i}" for i in range(40)]
            cells.append(Cell.measured({"generator": name}, ids, {"m": values}))
        table = ResultTable("gains", tuple(cells), ("m",))
        for row in table.compare(permutations=999):
            low, high = row.interval
            assert (low <= 0 <= high) == (row.p > 0.05)
            assert not (row.mark and low <= 0 <= high)
            stars += bool(row.mark)
            significant += row.p <= 0.05
    assert 0 < stars <= significant


def test_notes_mention_intervals_only_if_some_are_printed() -> None:
    few = [
        Cell.measured({"generator": name}, IDS[:6], {"m": np.arange(6) % 2 * value})
        for name, value in (("a", 0.0), ("b", 1.0))
    ]
    text = str(ResultTable("few", tuple(few), ("m",)).compare())
    assert "In brackets" not in text
    assert "No interval: fewer than 10 clusters" in text
    text = str(TABLE.compare("m", baseline={"retriever": "none"}))
    assert "In brackets: the 95 % interval" in text
    assert text.count("[+") + text.count("[-") == 2


def test_queries_are_matched_by_id_and_a_cluster_counts_as_one_observation() -> None:
    first = Cell.measured({"generator": "a"}, IDS, {"m": np.ones(30)})
    order = np.r_[29:-1:-1]
    values = np.zeros(30)
    values[:3] = np.nan
    second = Cell.measured({"generator": "b"}, [IDS[i] for i in order], {"m": values})
    (row,) = ResultTable("two", (first, second), ("m",)).compare()
    assert (row.n, row.difference) == (27, 1.0)
    clusters = {id_: f"c{i // 10}" for i, id_ in enumerate(IDS)}
    both = [
        Cell.measured(dict(c.settings), c.query_ids, dict(c.values), clusters=clusters)
        for c in (first, second)
    ]
    (row,) = ResultTable("two", tuple(both), ("m",)).compare()
    assert row.p == 2 / 2**3
    assert np.isnan(row.interval).all()


def test_invalid_comparisons_raise_errors() -> None:
    with pytest.raises(UnknownNameError, match="unknown metric 'n'"):
        TABLE.compare("n")
    with pytest.raises(UnknownNameError, match="did you mean 'retriever'"):
        TABLE.compare(baseline={"retreiver": "bm25"})
    with pytest.raises(SettingError, match="no two cells of small can be compared with the base"):
        TABLE.compare(baseline={"retriever": "splade"})
    published = (Cell({"retriever": "a"}, {"m": Score(0.5)}), Cell({"retriever": "b"}))
    with pytest.raises(SettingError, match="no cell has values per query"):
        ResultTable("published", published, ("m",)).compare()


def test_the_false_positive_rate_over_all_pairs_is_about_5_percent() -> None:
    """Five equal cells make ten pairs; in 5 % of tables one of them is significant."""
    rng = np.random.default_rng(1)
    alarms = []
    for _ in range(60):
        difficulty = rng.random(20)
        cells = tuple(
            Cell.measured({"generator": name}, IDS[:20], {"m": (rng.random(20) < difficulty) * 1.0})
            for name in "abcde"
        )
        comparisons: CellComparisons = ResultTable("alike", cells, ("m",)).compare(permutations=400)
        alarms.append(any(row.corrected <= 0.05 for row in comparisons))
    assert np.mean(alarms) <= 0.12


def test_rare_failures_that_the_queries_lack_are_no_difference() -> None:
    """A prompt gains a little on each query and fails on 3 %, so both means are equal."""
    rng = np.random.default_rng(0)
    ids = [f"q{i}" for i in range(40)]
    alarms = []
    for _ in range(60):
        old = rng.beta(12, 4, 40)
        gain = 0.03 * 0.75 / 0.97 * (0.5 + rng.random(40))
        new = np.where(rng.random(40) < 0.03, 0.0, (old + gain).clip(0, 1))
        cells = tuple(
            Cell.measured({"prompt": name}, ids, {"recall": values}, bounds={"recall": (0, 1)})
            for name, values in (("old", old), ("new", new))
        )
        (row,) = ResultTable("t", cells, ("recall",)).compare(permutations=999)
        alarms.append(row.p <= 0.05)
        assert (row.interval[0] <= 0 <= row.interval[1]) == (row.p > 0.05)
    assert np.mean(alarms) <= 0.05


def test_a_note_names_the_metrics_without_a_range() -> None:
    values = np.linspace(0, 1, 30)
    cells = tuple(
        Cell.measured(
            {"prompt": name},
            IDS,
            {"m": values * gain, "n": values * gain, "o": 3 * values * gain},
            bounds={"m": (0.0, 1.0)},
        )
        for name, gain in (("a", 1.0), ("b", 0.8))
    )
    table = ResultTable("t", cells, ("m", "n", "o"))
    text = " ".join(str(table.compare()).split())
    assert "Assumed range of 0 to 1: n." in text
    assert "No range is known for o: p and intervals assume" in text
    assert "ange is known" not in str(table.compare("m"))
    assert "Assumed" not in str(table.compare("m"))
    again = ResultTable.from_json(table.to_json())
    assert str(again.compare()) == str(table.compare())
    declared, assumed, unknown = table.compare()
    assert declared.p == assumed.p > unknown.p


def test_clear_differences_are_significant_among_many_comparisons() -> None:
    """With 780 pairs and 10,000 permutations none could be significant, so more are drawn."""
    cells = tuple(
        cell(30 if name == "best" else 0, generator=name) for name in [*"abcdefgh", "best"]
    )
    table = ResultTable("many", (*cells, *(cell(0, generator=str(i)) for i in range(31))), ("m",))
    significant = [row for row in table.compare() if row.corrected <= 0.05]
    assert len(significant) == 39
    similar = ResultTable("unsure", tuple(cell(i % 2, generator=str(i)) for i in range(40)), ("m",))
    assert {row.corrected for row in similar.compare()} == {1.0}
    assert all("best" in (row.cell.name + row.baseline.name) for row in significant)


def test_benjamini_and_hochberg_by_hand() -> None:
    by_holm, by_bh = (list(TABLE.compare(correction=name)) for name in ("holm", "bh"))
    p_values = np.array([row.p for row in by_bh])
    assert p_values.tolist() == [row.p for row in by_holm]
    order = np.argsort(p_values)
    stepped = p_values[order] * len(p_values) / np.arange(1, len(p_values) + 1)
    expected = np.empty(len(p_values))
    expected[order] = np.minimum.accumulate(stepped[::-1])[::-1].clip(max=1)
    np.testing.assert_allclose([row.corrected for row in by_bh], expected)
    assert all(b.corrected <= h.corrected for b, h in zip(by_bh, by_holm, strict=True))
    assert any(b.corrected < h.corrected for b, h in zip(by_bh, by_holm, strict=True))
    text = str(TABLE.compare(correction="bh"))
    assert "by Benjamini and Hochberg" in " ".join(text.split())
    assert "Holm" not in text
    with pytest.raises(SettingError, match="correction must be 'holm' or 'bh', got 'fdr'"):
        TABLE.compare(correction="fdr")  # type: ignore[arg-type]


# Retrieval metrics --------------------------------------------------------------------------------


def pipelines(*, seed: int = 0, generators: str = "ab") -> list[Cell]:
    """Return cells of a grid, in which generators and prompts share the ranking of a retriever."""
    rng = np.random.default_rng(seed)
    cells = []
    for retriever, reranker in (("bm25", "none"), ("e5", "none"), ("bm25", "llm")):
        ranking = rng.random(30)
        for generator in generators:
            for prompt in ("short", "long"):
                settings = {"retriever": retriever, "reranker": reranker}
                settings |= {"generator": generator, "prompt": prompt}
                values = {"R@5": ranking, "qa_match": rng.random(30)}
                cells.append(Cell.measured({"dataset": "nq", **settings}, IDS, values))
    return cells


def test_each_ranking_is_compared_once() -> None:
    table = ResultTable("grid", tuple(pipelines()), ("R@5", "qa_match"))
    rows = [row for row in table.compare("R@5") if row.metric == "R@5"]
    names = [
        tuple(f"{c.settings['retriever']} {c.settings['reranker']}" for c in pair)
        for pair in ((row.cell, row.baseline) for row in rows)
    ]
    bm25, e5, reranked = "bm25 none", "e5 none", "bm25 llm"
    assert names == [(bm25, e5), (bm25, reranked), (e5, reranked)]
    assert [row.corrected for row in rows] == holm([row.p for row in rows]).tolist()
    both = table.compare()
    assert len(both) == 3 + 12 * 11 // 2
    text = " ".join(str(both).split())
    assert "corrected for 69 comparisons" in text
    assert (
        "63 pairs on retrieval metrics repeat another pair or have the same retrieval results in "
        "both cells, and are left out: these metrics do not depend on processor, generator, prompt "
        "and show_k."
    ) in text
    assert "left out" not in str(table.compare("qa_match"))


def test_each_ranking_is_compared_once_with_a_baseline() -> None:
    table = ResultTable("grid", tuple(pipelines()), ("R@5",))
    (row,) = table.compare("R@5", baseline={"retriever": "e5"})
    assert row.cell.settings["retriever"] == "bm25"
    assert len(table.compare("R@5", baseline={"reranker": "none"})) == 1
    none = table.compare("R@5", baseline={"generator": "a"})
    assert len(none) == 0
    assert "6 pairs on retrieval metrics" in str(none)


def test_a_ranking_that_differs_is_not_left_out() -> None:
    first, second = pipelines(generators="a")[:2]
    changed = dict(second.values) | {"R@5": second.values["R@5"][::-1].copy()}
    second = Cell.measured(dict(second.settings), IDS, changed)
    assert len(ResultTable("two", (first, second), ("R@5",)).compare()) == 1


def test_more_generators_do_not_change_the_best_rankings() -> None:
    def stars(generators: str) -> list[tuple[str, str]]:
        rng = np.random.default_rng(3)
        cells = []
        for i in range(6):
            ranking = np.minimum(0.5 + 0.06 * i + rng.random(30) * 0.4, 1)
            for name in generators:
                settings = {"dataset": "nq", "retriever": f"r{i}", "generator": name}
                cells.append(Cell.measured(settings, IDS, {"R@5": ranking}))
        best = best_cells(cells, "R@5")
        return [(cells[i].settings["retriever"], cells[i].settings["generator"]) for i in best]

    one, many = stars("a"), stars("abcdefgh")
    assert 1 < len(one) < 6
    assert sorted(many) == sorted((name, g) for name, _ in one for g in "abcdefgh")


def test_a_closed_book_baseline_fits_every_reranker_and_number_of_passages() -> None:
    used = {"generator": "solar", "prompt": "short"}
    bare = cell(5, retriever="none", reranker="none", processor="none", show_k="", **used)
    others = [
        cell(9 + int(k), retriever=name, reranker=reranker, processor=part, show_k=k, **used)
        for name in ("bm25", "e5")
        for reranker in ("none", "rr")
        for part in ("none", "prune")
        for k in ("1", "3")
    ]
    table = ResultTable("small", (bare, *others), ("m",))
    rows = table.compare("m", baseline={"retriever": "none"})
    assert [row.cell for row in rows] == others
    assert all(row.baseline is bare for row in rows)
    # A setting that the baseline does use must be the same.
    reranked = table.compare("m", baseline={"retriever": "bm25", "reranker": "none"})
    assert {row.cell.settings["processor"] for row in reranked} == {"none", "prune"}
    assert all(
        row.cell.settings[axis] == row.baseline.settings[axis]
        for row in reranked
        for axis in ("processor", "show_k")
    )


def test_means_without_values_per_query_cannot_be_tested() -> None:
    cells = tuple(replace(each, scores={**each.scores, "cost": Score(0.1)}) for each in CELLS[:2])
    table = ResultTable("small", cells, ("m", "cost"))
    with pytest.raises(SettingError, match=r"cost cannot be tested, .* per query; compare m"):
        table.compare("cost")
    assert len(table.compare()) == 1


def test_a_cell_that_has_not_run_did_not_fail() -> None:
    new = Cell(
        {"dataset": "nq", "retriever": "e5", "generator": "phi"}, failure="score x: not run yet"
    )
    table = ResultTable("small", (*CELLS, new), ("m",))
    text = str(table)
    assert "not run (b)" in text
    assert "(b) not run yet" in text
    assert "failed (a)" in text
    assert "1 of them failed, 1 not run yet" in repr(table)
    notes = " ".join(str(table.compare("m")).split())
    assert "1 cells failed and are not compared. 1 cells have not run yet" in notes
