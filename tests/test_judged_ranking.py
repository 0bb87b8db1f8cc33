"""Rankings from judgments: by hand, compared with choix, and their warnings."""

from __future__ import annotations

import json
import math
import re
from itertools import combinations
from typing import Any

import choix
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from scipy.stats import t as student

from mirage import BradleyTerry, Judgment, Judgments, Ranking, Response, Run, Vote
from mirage.arena import Judged
from mirage.arena.verdicts import judgments_of
from mirage.errors import JudgmentError, MirageError, SettingError
from mirage.ranking import MultilingualRanking
from mirage.report._page import render
from mirage.statistics.ranks import confidences_by_t

properties = settings(max_examples=examples(80), deadline=None)
OPPOSITE = {"a": "b", "b": "a", "tie": "tie"}


def judgment(query: object, a: str, b: str, verdict: Any) -> Judgment:
    return Judgment(query_id=f"q{query}", model_a=a, model_b=b, verdict=verdict)


def arena(models: int, queries: int, seed: int = 0, ties: float = 0.2) -> list[Judgment]:
    """Return judgments of every pair on every query; earlier letters are better models."""
    rng = np.random.default_rng(seed)
    logits = np.linspace(1, -1, models)
    rows = []
    for query in range(queries):
        for i, j in combinations(range(models), 2):
            won = rng.random() < 1 / (1 + np.exp(logits[j] - logits[i]))
            verdict = "tie" if rng.random() < ties else "a" if won else "b"
            rows.append(judgment(query, "abcdefghij"[i], "abcdefghij"[j], verdict))
    return rows


def numbers(ranking: Ranking) -> list[tuple[Any, ...]]:
    return [
        (e.model, e.rank, round(e.logit, 8), np.round(e.interval, 7).tolist(), e.rank_interval)
        for e in sorted(ranking, key=lambda entry: entry.model)
    ]


# By hand, and against others ----------------------------------------------------------------------


def test_two_models_by_hand() -> None:
    # x won 6 of 8 queries against y: the difference of logits is log(6 / 2), and its variance by
    # the sandwich is (1 / (8 p (1 - p)))^2 times the sum of squared residuals, times 8 / 7.
    rows = [judgment(n, "x", "y", "a" if n < 6 else "b") for n in range(8)]
    ranking = Ranking.from_judgments(rows, bradley_terry=BradleyTerry(ridge=0))
    assert ranking.models == ("x", "y")
    difference = math.log(3)
    assert ranking["x"].logit == pytest.approx(difference / 2)
    error = math.sqrt((6 * 0.25**2 + 2 * 0.75**2) * 8 / 7) / (8 * 0.75 * 0.25)
    reach = student.ppf(0.975, df=7) * error / 2  # a logit is half of the difference
    assert ranking["x"].interval == pytest.approx((difference / 2 - reach, difference / 2 + reach))
    assert ranking.p_better("x", "y") == pytest.approx(student.cdf(difference / error, df=7))
    assert ranking.p_better("y", "x") == pytest.approx(1 - ranking.p_better("x", "y"))
    assert ranking.p_better("x", "y") < 0.975
    assert [entry.rank_interval for entry in ranking] == [(1, 2), (1, 2)]
    # At a level to which the order is sure, each has its rank for certain.
    level = 2 * ranking.p_better("x", "y") - 1 - 1e-6
    surer = Ranking.from_judgments(rows, bradley_terry=BradleyTerry(ridge=0), level=level)
    assert [entry.rank_interval for entry in surer] == [(1, 1), (2, 2)]


def test_the_same_questions_in_another_language_do_not_narrow_intervals() -> None:
    rows, codes = arena(4, 14), ("ar", "bn", "fi", "sw", "yo")
    alone = MultilingualRanking({"ar": Ranking.from_judgments(rows)})
    parallel = MultilingualRanking({code: Ranking.from_judgments(rows) for code in codes})
    apart = MultilingualRanking(
        {
            code: Ranking.from_judgments(
                row.model_copy(update={"query_id": f"{code}-{row.query_id}"}) for row in rows
            )
            for code in codes
        }
    )
    b, c = alone["ar"].models[1:3]
    assert 0.6 < alone.p_better(b, c) < 0.9
    assert parallel.p_better(b, c) == pytest.approx(alone.p_better(b, c), abs=0.005)
    assert apart.p_better(b, c) > alone.p_better(b, c) + 0.05


def in_languages(rows: list[Judgment], *prefixes: str) -> MultilingualRanking:
    """Rank the same verdicts in several languages, with a prefix of the query ids in each."""
    return MultilingualRanking(
        {
            code: Ranking.from_judgments(
                row.model_copy(update={"query_id": f"{prefix}{row.query_id}"}) for row in rows
            )
            for code, prefix in zip(("ar", "bn", "fi", "sw", "yo"), prefixes, strict=False)
        }
    )


def test_only_other_queries_narrow_the_interval_of_a_mean_logit() -> None:
    rows = arena(4, 14)
    prefixes = {"alone": [""], "parallel": 5 * [""], "apart": "vwxyz", "two pairs": "vvww"}
    rankings = {name: in_languages(rows, *codes) for name, codes in prefixes.items()}
    alone = rankings["alone"]
    width = {name: np.ptp([*r.intervals.values()], axis=1) for name, r in rankings.items()}
    # The interval of one language is that of its ranking, by Student's t with 13 degrees.
    ends = [alone["ar"][model].interval for model in alone.models]
    assert width["alone"] == pytest.approx(np.ptp(ends, axis=1), rel=0.05)
    assert width["parallel"] == pytest.approx(width["alone"], rel=0.01)
    # Five independent languages have 5 * 13 degrees, two independent pairs 2 * 13.
    reach = {degrees: student.ppf(0.975, degrees) for degrees in (13, 26, 65)}
    assert width["apart"] == pytest.approx(
        width["alone"] / math.sqrt(5) * reach[65] / reach[13], rel=0.05
    )
    assert width["two pairs"] == pytest.approx(
        width["alone"] / math.sqrt(2) * reach[26] / reach[13], rel=0.05
    )


def test_mean_logits_of_fits_and_of_draws_agree() -> None:
    # Rankings without a fit have only draws, which are paired by query.
    by_fit = in_languages(arena(4, 40), "", "", "x")
    rankings = {
        code: Ranking(part.entries, language=code, draws=part.drawn())
        for code, part in by_fit.items()
    }
    by_draws = MultilingualRanking(rankings)
    assert by_draws.mean_logits == by_fit.mean_logits
    for model in by_fit.models:
        assert by_draws.intervals[model] == pytest.approx(by_fit.intervals[model], abs=0.08)
    assert by_draws.p_better("a", "b") == pytest.approx(by_fit.p_better("a", "b"), abs=0.03)


def test_the_winner_of_judged_models_has_a_wider_interval() -> None:
    ranking = Ranking.from_judgments(arena(8, 40, seed=3))
    low, high = ranking.winner_interval
    assert low < ranking.best.interval[0] < ranking.best.interval[1] < high
    assert ranking.winner_notes[0].endswith(f"is [{low:.2f}, {high:.2f}].")
    ties = [row.model_copy(update={"verdict": "tie"}) for row in arena(3, 8)]
    assert math.isnan(Ranking.from_judgments(ties).winner_interval[0])
    separated = [judgment(n, "x", y, "a") for n in range(9) for y in "yz"]
    mixed = [judgment(n, "y", "z", "ab"[n % 2]) for n in range(9)]
    assert math.isnan(Ranking.from_judgments([*separated, *mixed]).winner_interval[0])


def test_draws_on_the_same_queries_go_together() -> None:
    # Two languages whose verdicts agree on each query: their errors are one error.
    rows = arena(3, 20)
    noisy = [*rows, *arena(3, 20, seed=1)]
    first, second = (BradleyTerry().fit(some).draws(4000) for some in (rows, noisy))
    shared = np.corrcoef(first[:, 0], second[:, 0])[0, 1]
    assert 0.4 < shared < 0.95
    other_queries = [row.model_copy(update={"query_id": f"x{row.query_id}"}) for row in noisy]
    apart = BradleyTerry().fit(other_queries).draws(4000)
    assert abs(np.corrcoef(first[:, 0], apart[:, 0])[0, 1]) < 0.3


def test_logits_are_those_of_choix() -> None:
    rows = arena(5, 30, ties=0)
    ranking = Ranking.from_judgments(rows, bradley_terry=BradleyTerry(ridge=0))
    names = "abcde"
    data = [
        (names.index(j.model_a), names.index(j.model_b))
        if j.verdict == "a"
        else (names.index(j.model_b), names.index(j.model_a))
        for j in rows
    ]
    peer = choix.ilsr_pairwise(5, data)
    for name, logit in zip(names, peer - peer.mean(), strict=True):
        assert ranking[name].logit == pytest.approx(logit, abs=1e-6)


def test_logits_are_those_of_the_fit() -> None:
    rows = arena(4, 40)
    ranking, fit = Ranking.from_judgments(rows), BradleyTerry().fit(rows)
    for i, model in enumerate(fit.models):
        assert ranking[model].logit == fit.logits[i]
        assert ranking[model].interval == pytest.approx(tuple(fit.interval()[i]))
        assert ranking[model].rank == fit.ranks[i]
        for other in fit.models:
            assert ranking.p_better(model, other) == pytest.approx(fit.p_better(model, other))
    assert ranking.notes == ()
    assert ranking.kendall_tau(dict(zip(fit.models, fit.logits, strict=True))) == 1


def test_confidences_are_of_differences() -> None:
    logits, covariance = np.array([0.3, -0.3]), np.array([[0.05, -0.04], [-0.04, 0.05]])
    p = confidences_by_t(logits, covariance, 6)
    assert p[0, 1] == pytest.approx(student.cdf(0.6 / math.sqrt(0.18), df=6))
    assert p.diagonal().tolist() == [0.5, 0.5]
    assert p + p.T == pytest.approx(np.ones((2, 2)))


def test_tournaments_give_the_same_intervals_as_the_library_has_for_them() -> None:
    for queries in (5, 24):
        rows = arena(3, queries)
        ranking = Ranking.from_judgments(rows, tournaments=300, seed=1, progress=False)
        drawn = BradleyTerry().bootstrap(rows, tournaments=300, queries=None, seed=1)
        for i, model in enumerate(drawn.models):
            entry = ranking[model]
            assert (entry.logit, entry.interval) == (drawn.mean[i], (*drawn.interval()[i],))
            assert entry.rank_interval == (*drawn.rank_interval()[i],)
        assert ranking.p_better("a", "b") == drawn.p_better("a", "b")
        # They are near to those of the sandwich, which needs no draws.
        ends = BradleyTerry().fit(rows).interval()
        assert np.ptp(drawn.interval(), axis=1) == pytest.approx(np.ptp(ends, axis=1), rel=0.3)


# What changes nothing -----------------------------------------------------------------------------


@properties
@given(st.integers(0, 999), st.randoms(use_true_random=False))
def test_order_and_sides_change_nothing(seed: int, random: Any) -> None:
    rows = arena(4, 7, seed)
    expected = numbers(Ranking.from_judgments(rows))
    shuffled = random.sample(rows, len(rows))
    assert numbers(Ranking.from_judgments(shuffled)) == expected
    swapped = [
        judgment(row.query_id[1:], row.model_b, row.model_a, OPPOSITE[row.verdict]) for row in rows
    ]
    assert numbers(Ranking.from_judgments(swapped)) == expected


@properties
@given(st.integers(0, 999), st.permutations("abcd"))
def test_names_change_nothing(seed: int, names: list[str]) -> None:
    rows = arena(4, 7, seed)
    name = dict(zip("abcd", names, strict=True))
    renamed = [
        judgment(row.query_id[1:], name[row.model_a], name[row.model_b], row.verdict)
        for row in rows
    ]
    ranking, other = Ranking.from_judgments(rows), Ranking.from_judgments(renamed)
    for entry in ranking:
        twin = other[name[entry.model]]
        assert (twin.rank, twin.rank_interval) == (entry.rank, entry.rank_interval)
        assert twin.logit == pytest.approx(entry.logit, abs=1e-8)
        assert twin.interval == pytest.approx(entry.interval, abs=1e-7, nan_ok=True)


def test_records_columns_frames_and_judged_are_alike() -> None:
    rows = arena(3, 25)
    expected = numbers(Ranking.from_judgments(rows))
    columns = Judgments.from_records(rows)
    for given_as in (columns, columns.to_pandas(), Judged((), tuple(rows)), iter(rows)):
        assert numbers(Ranking.from_judgments(given_as)) == expected


# Where it says little -----------------------------------------------------------------------------


def note(ranking: Ranking, words: str) -> str:
    (line,) = [line for line in ranking.notes if words in line]
    return line


def test_a_model_that_won_everything_has_no_interval_and_no_certain_rank() -> None:
    rows = [row for row in arena(4, 3, seed=1, ties=0.3) if "a" not in row.model_a]
    rows += [judgment(0, "a", "b", "a"), judgment(1, "a", "c", "a")]
    ranking = Ranking.from_judgments(rows)
    assert ranking["a"].rank == 1
    assert all(map(math.isnan, ranking["a"].interval))
    assert ranking["a"].rank_interval == (1, 4)
    assert note(ranking, "won every judgment").startswith("a won every judgment: its distance")
    assert not math.isnan(ranking["b"].interval[0])
    # What is not known of a is more than its sandwich tells, whose residuals are all but 0.
    fit = BradleyTerry().fit(rows)
    assert fit.uncertainty[0, 0] > fit.covariance[0, 0]
    assert ranking.p_better("a", "b") == fit.p_better("a", "b") < 0.9
    information = np.linalg.inv(fit.uncertainty + 1) - 1 / 16
    assert np.isfinite(information).all()
    assert "won every judgment" in str(ranking)


def test_the_uncertainty_of_a_separated_pair_by_hand() -> None:
    # x won 3 of 3: what is known of the difference d is 3 p (1 - p), and the ridge's eighth.
    fit = BradleyTerry(ridge=0.1).fit([judgment(n, "x", "y", "a") for n in range(3)])
    d = fit.logits[0] - fit.logits[1]
    p = 1 / (1 + math.exp(-d))
    more = fit.uncertainty - fit.covariance
    assert more[0, 0] + more[1, 1] - 2 * more[0, 1] == pytest.approx(1 / (3 * p * (1 - p) + 0.0125))
    assert fit.unbound == fit.separated == ("x", "y")


def test_a_group_that_always_won_has_no_intervals() -> None:
    # x and y beat each other, u and v do, and x and y always beat u and v: nobody is separated.
    pairs = [("x", "y"), ("y", "x"), ("u", "v"), ("v", "u"), *(2 * [("x", "u"), ("y", "v")])]
    rows = [judgment(n, a, b, "a") for n, (a, b) in enumerate(pairs)]
    ranking = Ranking.from_judgments(rows)
    assert all(math.isnan(entry.interval[0]) for entry in ranking)
    assert "u, v, x, y" in note(ranking, "the same way")
    # With a third model in one of the groups, that is the larger: its logits are told apart.
    pairs += 3 * [("x", "z"), ("z", "y"), ("x", "y"), ("y", "x")]
    larger = Ranking.from_judgments([judgment(n, a, b, "a") for n, (a, b) in enumerate(pairs)])
    with_interval = {entry.model for entry in larger if not math.isnan(entry.interval[0])}
    assert with_interval == {"x", "y", "z"}


def test_an_arena_of_ties_has_no_intervals() -> None:
    rows = [judgment(n, a, b, "tie") for n in range(30) for a, b in combinations("abcd", 2)]
    ranking = Ranking.from_judgments(rows)
    for entry in ranking:
        assert (entry.rank, entry.rank_interval) == (1, (1, 4))
        assert math.isnan(entry.interval[0])
    assert ranking.p_better("a", "b") == 0.5
    assert (
        note(ranking, "a tie") == "Every judgment is a tie, so nothing shows which model is better."
    )


def both_orders(verdict: str, queries: int = 20) -> list[Judgment]:
    pairs = [(a, b) for a in "xyz" for b in "xyz" if a != b]
    return [judgment(query, a, b, verdict) for query in range(queries) for a, b in pairs]


def test_verdicts_that_cancel_give_no_intervals() -> None:
    ranking = Ranking.from_judgments(both_orders("b"))
    assert all(entry.interval is None or math.isnan(entry.interval[0]) for entry in ranking)
    assert math.isnan(ranking.winner_interval[0])
    assert any("as if a judge chose by position" in note for note in ranking.notes)


def test_a_judge_that_chooses_by_position_gives_a_warning() -> None:
    rng = np.random.default_rng(0)

    def notes(first: float, orders: int) -> str:
        votes = []
        for query in range(15):
            for a, b in combinations("xyz", 2):
                shown = [(a, b), (b, a)] if rng.random() < 0.5 else [(b, a), (a, b)]
                for one, other in shown[:orders]:
                    verdict = (
                        ("a" if rng.random() < first else "b")
                        if first
                        else ("a" if one < other else "b")
                    )
                    votes.append(
                        Vote(
                            query_id=f"q{query}",
                            model_a=one,
                            model_b=other,
                            judge="j",
                            verdict=verdict,
                        )
                    )
        return " ".join(Ranking.from_judgments(Judged(tuple(votes), judgments_of(votes))).notes)

    expected = "j preferred the response shown first in 45 of 45 pairs (p < 0.0001 if the order"
    assert expected in notes(1.0, 1)
    assert expected in notes(1.0, 2)
    assert "preferred the response shown" not in notes(0.7, 1)
    assert "preferred the response shown" not in notes(0.0, 1)
    assert "preferred the response shown" not in notes(0.0, 2)


def test_a_majority_of_judges_is_noted() -> None:
    votes = [
        Vote(query_id=f"q{query}", model_a="x", model_b="y", judge=judge, verdict="ab"[query % 2])
        for query in range(8)
        for judge in ("eins", "zwei")
    ]
    ranking = Ranking.from_judgments(Judged(tuple(votes), judgments_of(votes)))
    assert any("majority of 2 judges, or else a tie: eins, zwei." in note for note in ranking.notes)


def test_few_queries_give_a_warning() -> None:
    assert "19 queries are few" in note(Ranking.from_judgments(arena(3, 19)), "few")
    assert Ranking.from_judgments(arena(3, 20)).notes == ()
    single_query = Ranking.from_judgments(arena(3, 1, seed=3))
    assert "one query" in note(single_query, "one query")
    assert all(math.isnan(entry.interval[0]) for entry in single_query)
    assert {entry.rank_interval for entry in single_query} == {(1, 3)}
    with pytest.raises(MirageError, match="too few queries"):
        single_query.p_better("a", "b")


def test_models_judged_on_fewer_queries_give_a_warning() -> None:
    rows = arena(4, 20)
    fewer = [row for row in rows if "d" not in (row.model_a, row.model_b) or row.query_id < "q11"]
    line = note(Ranking.from_judgments(fewer), "different numbers")
    assert "queries: d on 3, the others on up to 20. A query without" in line
    ranking = Ranking.from_judgments(fewer)
    assert "d was judged on 3 queries, which is too few" in note(ranking, "too few")
    assert math.isnan(ranking["d"].interval[0])
    assert ranking["d"].rank_interval == (1, 4)
    with pytest.raises(MirageError, match="too few queries"):
        ranking.p_better("d", "a")
    assert "different numbers" in " ".join(json.loads(ranking.to_json())["notes"])
    # A single lost vote is no reason for a warning.
    assert Ranking.from_judgments(rows[:-1]).notes == ()


def test_a_model_judged_on_few_queries_has_no_interval_over_languages() -> None:
    few = [row for row in arena(4, 20, seed=1) if "d" not in (row.model_a, row.model_b)]
    few += [judgment(0, "d", "abc"[n], "ab"[n % 2]) for n in range(3)]
    parts = {"sw": Ranking.from_judgments(arena(4, 20)), "de": Ranking.from_judgments(few)}
    ranking = MultilingualRanking(parts)
    assert math.isnan(ranking.intervals["d"][0])
    assert ranking.rank_intervals["d"] == (1, 4)
    assert not any(math.isnan(ranking.intervals[model][0]) for model in "abc")
    assert 0.5 < ranking.p_better("a", "c") <= 1
    with pytest.raises(MirageError, match="too few queries"):
        ranking.p_better("a", "d")


def test_disconnected_models_are_an_error_that_lists_them() -> None:
    rows = [judgment(1, "a", "b", "a"), judgment(1, "c", "d", "a")]
    with pytest.raises(JudgmentError, match=r"2 groups .*\{'a', 'b'\}; \{'c', 'd'\}"):
        Ranking.from_judgments(rows)


def vote(query: int, a: str, b: str, verdict: Any) -> Vote:
    error = "why" if verdict in ("invalid", "failed") else None
    names = {
        "query_id": f"q{query}",
        "model_a": a,
        "model_b": b,
        "judge": "j",
        "prompt_digest": "x",
    }
    return Vote(**names, verdict=verdict, error=error)


def test_failed_votes_and_a_single_order_give_warnings() -> None:
    rows = arena(3, 25)
    cast = [vote(int(r.query_id[1:]), r.model_a, r.model_b, r.verdict) for r in rows]
    cast += [vote(90, "a", "b", "invalid"), vote(91, "a", "b", "failed")]
    ranking = Ranking.from_judgments(Judged(tuple(cast), tuple(rows)))
    assert "1 of 77 votes have no verdict" in note(ranking, "no verdict")
    assert "1 of 77 votes failed" in note(ranking, "failed")
    assert "judge each pair in both orders" in note(ranking, "one order only")
    both = [*cast, *(vote(int(v.query_id[1:]), v.model_b, v.model_a, "tie") for v in cast)]
    again = Ranking.from_judgments(Judged(tuple(both), tuple(rows)))
    assert not any("one order" in line for line in again.notes)


# What is wrong with the input ---------------------------------------------------------------------


def test_wrong_input_is_an_error() -> None:
    with pytest.raises(JudgmentError, match="judgment 0 is of type dict; pass Judgment records"):
        BradleyTerry().fit([{"query_id": "q"}])  # type: ignore[list-item]
    frame = Judgments.from_records(arena(3, 4)).to_pandas()
    with pytest.raises(JudgmentError, match=r"lacks .*'verdict'"):
        BradleyTerry().fit(frame.drop(columns="verdict"))
    with pytest.raises(SettingError, match="level must be between 0 and 1"):
        Ranking.from_judgments(arena(3, 4), level=95)


# How it reads -------------------------------------------------------------------------------------


def test_fits_and_tournaments_print_as_small_tables() -> None:
    rows = arena(3, 25)
    fit, drawn = BradleyTerry().fit(rows), BradleyTerry().bootstrap(rows, tournaments=20)
    assert repr(fit) == "BradleyTerryFit(models=3, queries=25)"
    assert repr(drawn) == "Tournaments(20, models=3, queries=25)"
    for text, first in ((str(fit), "Bradley-Terry"), (str(drawn), "20 tournaments")):
        lines = text.splitlines()
        assert lines[0].startswith(first)
        assert [line.split()[:2] for line in lines[2:]] == [["1", "a"], ["2", "b"], ["3", "c"]]
    ranking = Ranking.from_judgments(rows)
    assert [line.split() for line in str(fit).splitlines()[2:]] == [
        line.split()[:-1] for line in str(ranking).splitlines()[2:5]
    ]


def test_the_level_is_shown() -> None:
    ranking = Ranking.from_judgments(arena(3, 25), level=0.9)
    assert "90 % interval" in str(ranking)
    assert "90 % interval" in render(ranking)
    low, high = ranking["a"].interval
    wide_low, wide_high = Ranking.from_judgments(arena(3, 25))["a"].interval
    assert wide_low < low < high < wide_high


def test_the_report_has_a_grid_of_judgments() -> None:
    rows = [judgment(n, "a", "b", v) for n, v in enumerate(["a", "a", "a", "b", "tie"])]
    rows += [judgment(n, "c", "b", v) for n, v in enumerate(["b", "tie", "a"])]
    ranking = Ranking.from_judgments(rows)
    page = render(ranking)
    grid = page[page.index('id="und-verdicts"') :]
    cells = re.findall(r"<td[^>]*>(\d+ / \d+ / \d+|—|)</td>", grid[: grid.index("</table>")])
    assert len(cells) == 9
    by_pair = dict(
        zip([(a, b) for a in ranking.models for b in ranking.models], cells, strict=True)
    )
    assert by_pair["a", "b"] == "3 / 1 / 1"
    assert by_pair["b", "a"] == "1 / 1 / 3"
    assert by_pair["c", "b"] == "1 / 1 / 1"
    assert by_pair["a", "c"] == "—"  # never compared
    assert by_pair["a", "a"] == ""
    assert "8 in total, 2 of them ties" in grid
    assert "queries are few" in page


def test_json_and_pandas_have_the_form_of_other_rankings() -> None:
    ranking = Ranking.from_judgments(arena(3, 25))
    plain = json.loads(ranking.to_json())
    assert [entry["model"] for entry in plain["entries"]] == list(ranking.models)
    assert ranking.to_pandas().loc["a", "rank_worst"] == ranking["a"].rank_interval[1]  # type: ignore[index]


def test_answered_and_failed_queries_are_counted() -> None:
    texts = ["so", "thus", None]
    responses = tuple(
        Response(query_id=f"q{n}", text=text, error=None if text else "too slow")
        for n, text in enumerate(texts)
    )
    runs = [Run(model="a", language="en", responses=responses)]
    ranking = Ranking.from_judgments(arena(3, 2), runs=runs)
    assert (ranking["a"].answered, ranking["a"].failed) == (2, 1)
    assert "a: 1 of 3 queries failed: q2 (too slow)" in str(ranking)
    assert (ranking["b"].answered, ranking["b"].failed) == (None, 0)


def test_results_by_pair() -> None:
    rows = [judgment(n, a, b, v) for n, (a, b, v) in enumerate([("x", "y", "a"), ("y", "x", "a")])]
    wins, ties = Judgments.from_records([*rows, judgment(3, "y", "x", "tie")]).results()
    assert wins.tolist() == [[0, 1], [1, 0]]
    assert ties.tolist() == [[0, 1], [1, 0]]


def test_tournaments_with_a_separated_model_have_the_intervals_of_the_fit() -> None:
    # The winner's distance is not known, and all logits are centred on a mean that contains it.
    # Tournaments bound it by the ridge alone, so their intervals are far too narrow for everyone.
    rows = [*arena(4, 20), *(judgment(q, "z", x, "a") for q in range(20) for x in "abcd")]
    fit = BradleyTerry().fit(rows)
    assert fit.unbound == ("z",)
    ranking = Ranking.from_judgments(rows, tournaments=100, progress=False)
    for model, (low, high) in zip("abcd", fit.interval()[:4].tolist(), strict=True):
        entry = ranking[model]
        assert entry.interval[0] < entry.logit < entry.interval[1]
        assert entry.interval[1] - entry.interval[0] == pytest.approx(high - low)
    assert math.isnan(ranking["z"].interval[0])
