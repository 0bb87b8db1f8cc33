"""Placement of a model on a leaderboard by a few verdicts and the surrogate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_server import ChatServer, last_user_text

from mirage.arena import BradleyTerry, Judged, Judgments, PairwiseJudge, read_votes
from mirage.arena.pairs import Pair
from mirage.dataset import MirageDataset
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.leaderboard import Leaderboard, MultilingualLeaderboard
from mirage.llm import LLM
from mirage.models import Judgment, Query, Response, Run
from mirage.ranking import Ranking
from mirage.surrogate.pretraining import simulated_runs
from mirage.surrogate.ranker import SurrogateRanker
from mirage.surrogate.training import TrainingData

QUERIES = MirageDataset.bundled("sw")


def words(_: Query, response: Response) -> float:
    return len((response.text or "").split())


def length(_: Query, response: Response) -> float:
    return len(response.text or "")


def writes(count: float, model: str, seed: int) -> Run:
    """Return a run with answers of about this many words."""
    rng = np.random.default_rng(seed)
    responses = tuple(
        Response(query_id=id_, text=" ".join(["neno"] * max(1, round(count + rng.normal(0, 3)))))
        for id_ in QUERIES.query_ids
    )
    return Run(model=model, language="sw", responses=responses)


@dataclass
class Counts:
    """A judge that prefers the longer answer with logistic noise, and records the judged pairs."""

    noise: float = 2.0
    judged_pairs: list[Pair] = field(default_factory=list)

    def judge(
        self,
        dataset: MirageDataset,
        runs: Iterable[Run],
        pairs: Iterable[Pair],
        *,
        out: Any = None,
        progress: bool = True,
    ) -> Judged:
        del dataset, out, progress
        by_model = {run.model: run for run in runs}
        judgments = []
        for pair in pairs:
            self.judged_pairs.append(pair)
            a, b = (len((by_model[m][pair.query_id].text or "").split()) for m in pair[1:])
            rng = np.random.default_rng([*str(sorted(pair)).encode()])
            sign = 1 if pair.model_a < pair.model_b else -1
            ahead = a - b + sign * self.noise * rng.logistic() > 0
            judgments.append(Judgment(**pair._asdict(), verdict="a" if ahead else "b"))
        return Judged((), tuple(judgments))


ANCHORS = [writes(10 + i, f"m{i}", i) for i in range(6)]
MINE = writes(13, "mine", 99)


@pytest.fixture(scope="module")
def judged() -> Leaderboard:
    """Return a board of six models that the judge compared."""
    pairs = [
        Pair(id_, a.model, b.model)
        for id_ in QUERIES.query_ids
        for a, b in combinations(ANCHORS, 2)
    ]
    verdicts = Counts().judge(QUERIES, ANCHORS, pairs)
    suite = FeatureSuite([words, length])
    return Leaderboard.from_judgments(
        verdicts, QUERIES, ANCHORS, suite=suite, estimator="linear", progress=False
    )


@pytest.fixture(scope="module")
def user_board() -> Leaderboard:
    """Return a board with a user's surrogate."""
    suite = FeatureSuite([words, length])
    tables = [suite.score(QUERIES, run, progress=False) for run in ANCHORS]
    values = np.stack([table.values for table in tables])
    n = len(QUERIES)
    counts = np.random.default_rng(0).multinomial(n, [1 / n] * n, size=50).astype(np.int32)
    y = np.linspace(-1.5, 1.5, 6) + np.random.default_rng(1).normal(0, 0.1, (50, 6))
    names = tuple(run.model for run in ANCHORS)
    data = TrainingData(
        "sw", names, suite.names, QUERIES.query_ids, values, counts, y - y.mean(axis=1)[:, None]
    )
    ranker = SurrogateRanker("ridge").fit_data({"sw": data})
    return Leaderboard(QUERIES, suite, ranker, prefix="a/", runs=ANCHORS)


@pytest.fixture(params=["judged", "user_board"])
def board(request: pytest.FixtureRequest) -> Leaderboard:
    return request.getfixturevalue(request.param)


def rank(board: Leaderboard, judge: Any, judgments: int | None, **settings: Any) -> Ranking:
    return board.rank(MINE, "mine", judge=judge, judgments=judgments, progress=False, **settings)


# One road -----------------------------------------------------------------------------------------


def test_a_judge_alone_judges_all_pairs(judged: Leaderboard) -> None:
    judge = Counts()
    ours = judged.rank(MINE, "mine", judge=judge, progress=False)
    assert len(judge.judged_pairs) == len(QUERIES) * len(ANCHORS)
    assert ours.to_json() == rank(judged, Counts(), None).to_json()


def test_without_judgments_nothing_is_asked(board: Leaderboard) -> None:
    judge = Counts()
    ours, today = rank(board, judge, 0), board.rank(MINE, "mine", progress=False)
    assert ours.to_json() == today.to_json()
    assert judge.judged_pairs == []


def test_the_requested_number_of_pairs_is_judged(board: Leaderboard) -> None:
    judge = Counts()
    ranking = rank(board, judge, 25)
    assert len(judge.judged_pairs) == 25
    assert all("mine" in pair for pair in judge.judged_pairs)
    assert len({pair.query_id for pair in judge.judged_pairs}) == 25
    low, high = ranking["mine"].interval
    assert low < ranking["mine"].logit < high
    assert "mine is placed by 25 judgments on 25 queries" in ranking.notes[-1]
    first = judge.judged_pairs.copy()
    more = Counts()
    rank(board, more, 60)
    assert more.judged_pairs[:25] == first
    # More is known of it than by 25, and the order of the two in a pair was drawn.
    assert {pair.model_a == "mine" for pair in more.judged_pairs} == {True, False}


def test_with_all_judgments_it_is_the_full_arena(judged: Leaderboard) -> None:
    judge = Counts()
    ours = rank(judged, judge, None)
    assert len(judge.judged_pairs) == 40 * 6
    before = judged.ranking.evidence.judgments.to_records()  # type: ignore[union-attr]
    everything = Ranking.from_judgments(
        [*before, *Counts().judge(QUERIES, [MINE, *ANCHORS], judge.judged_pairs)]
    )
    assert ours.models == everything.models
    shift = np.mean([everything[m.model].logit for m in ANCHORS])
    assert ours["mine"].logit == pytest.approx(everything["mine"].logit - shift, abs=0.02)
    # There its own logit has a part in the mean that is 0; here that is the anchors' mean.
    width = np.ptp(everything["mine"].interval) * 7 / 6
    assert np.ptp(ours["mine"].interval) == pytest.approx(width, rel=0.05)
    assert ours.p_better("mine", "m0") == pytest.approx(everything.p_better("mine", "m0"), abs=0.01)


def test_the_logits_of_anchors_do_not_change(board: Leaderboard) -> None:
    ranking = rank(board, Counts(), 25)
    for entry in board.ranking:
        assert ranking[entry.model].logit == entry.logit
        assert ranking[entry.model].interval == entry.interval
        assert ranking[entry.model].anchor
    a, b = board.ranking.models[:2]
    assert ranking.p_better(a, b) == pytest.approx(board.ranking.p_better(a, b))


def test_predictions_make_the_interval_narrower(judged: Leaderboard) -> None:
    # Of a judge without noise, words say every verdict; of one with noise alone they say nothing.
    sure, noisy = (rank(judged, Counts(noise), 40) for noise in (0.3, 1e6))
    worth = [
        float(r.notes[-1].rpartition("as precise as ")[2]) if "precise" in r.notes[-1] else 40
        for r in (sure, noisy)
    ]
    assert worth[0] > 60
    assert worth[1] == pytest.approx(40, rel=0.2)


def test_the_judge_decides_the_rank(judged: Leaderboard) -> None:
    ranking = rank(judged, Counts(), 120)
    assert ranking["m2"].logit < ranking["mine"].logit < ranking["m5"].logit
    assert ranking.p_better("mine", "m0") > 0.95 > 0.5 > ranking.p_better("mine", "m5")

    # A judge that likes what is short puts it elsewhere, whatever the surrogate had learnt.
    class Short(Counts):
        def judge(self, *args: Any, **settings: Any) -> Judged:
            swap = {"a": "b", "b": "a"}
            return Judged(
                (),
                tuple(
                    j.model_copy(update={"verdict": swap[j.verdict]})
                    for j in super().judge(*args, **settings)
                ),
            )

    longest = writes(18, "mine", 5)
    other = judged.rank(longest, "mine", judge=Short(), judgments=120, progress=False)
    assert other["mine"].logit < other["m0"].logit


def test_several_models_are_compared_with_each_other(board: Leaderboard) -> None:
    judge = Counts()
    models = {"short": writes(9, "short", 7), "long": writes(17, "long", 8)}
    ranking = board.rank_many(models, judge=judge, judgments=80, progress=False)
    assert len(judge.judged_pairs) == 160
    assert ranking.p_better("long", "short") > 0.99
    assert ranking["long"].rank < ranking["short"].rank
    assert ranking["long"].rank_interval is not None


def test_two_judged_models_are_enough() -> None:
    verdicts = Counts().judge(
        QUERIES, ANCHORS[:2], [Pair(id_, "m0", "m1") for id_ in QUERIES.query_ids]
    )
    suite = FeatureSuite([words])
    board = Leaderboard.from_judgments(
        verdicts, QUERIES, ANCHORS[:2], suite=suite, estimator="linear", progress=False
    )
    ranking = rank(board, Counts(), None)
    assert not math.isnan(ranking["mine"].interval[0])


# When to stop -------------------------------------------------------------------------------------


def test_it_stops_when_the_interval_is_narrow(board: Leaderboard) -> None:
    judge = Counts()
    ranking = rank(board, judge, None, until_width=1.6)
    assert 20 <= len(judge.judged_pairs) < 240
    assert np.ptp(ranking["mine"].interval) <= 1.6
    assert "stopping rule" in ranking.notes[-1]
    # The same number without looking has a narrower interval: looking is paid for.
    assert np.ptp(rank(board, Counts(), len(judge.judged_pairs))["mine"].interval) < 1.4


def test_it_stops_when_the_comparison_is_significant(board: Leaderboard) -> None:
    judge, last = Counts(), board.ranking.models[-1]
    ranking = rank(board, judge, None, until_against=last)
    assert len(judge.judged_pairs) < 240
    assert ranking.p_better("mine", last) > 0.975


# Judges behind an endpoint ------------------------------------------------------------------------


@pytest.fixture
def server() -> Any:
    def answer(request: Any) -> str:
        text = last_user_text(request)
        return "[[A]]" if text.count("neno") % 2 else "[[B]]"

    with ChatServer(answer) as server:
        yield server


def test_judging_resumes_from_the_votes_file(
    board: Leaderboard, server: ChatServer, tmp_path: Path
) -> None:
    judge = PairwiseJudge(LLM("j", base_url=server.url, cache=False))
    out = tmp_path / "votes.jsonl"
    expected = board.estimate(MINE, "mine", judge=judge, judgments=30)
    rank(board, judge, 20, out=out)
    assert len(server.requests) == 20
    first = rank(board, judge, 30, out=out)
    assert len(server.requests) == expected.calls == 30
    again = rank(board, judge, 30, out=out)
    assert len(server.requests) == 30
    assert again.to_json() == first.to_json()
    assert len(read_votes(out)) == 30
    assert board.estimate(MINE, "mine", judge=judge, judgments=0).calls == 0


def test_a_judge_that_chooses_by_position_is_noted(judged: Leaderboard, server: ChatServer) -> None:
    server.answer = lambda _: "[[A]]"
    ranking = rank(judged, PairwiseJudge(LLM("j", base_url=server.url, cache=False)), 30)
    assert any("j preferred the response shown first in 30 of 30 pairs" in n for n in ranking.notes)


def test_failed_votes_are_noted_and_do_not_bias(judged: Leaderboard) -> None:
    class Sometimes(Counts):
        def judge(self, *args: Any, **settings: Any) -> Judged:
            judged_all = super().judge(*args, **settings)
            return Judged((), judged_all.judgments[::2])

    ranking = rank(judged, Sometimes(), None)
    assert "placed by 120 judgments (of 240 requested)" in ranking.notes[-1]
    assert ranking["mine"].logit == pytest.approx(
        rank(judged, Counts(), None)["mine"].logit, abs=0.4
    )


def test_queries_that_the_model_failed_on_are_not_judged(judged: Leaderboard) -> None:
    def fails(query: Query) -> str:
        if query.id in QUERIES.query_ids[:20]:
            raise RuntimeError("no answer")
        return MINE[query.id].text or ""

    judge = Counts()
    ranking = judged.rank(fails, "mine", judge=judge, judgments=None, progress=False)
    assert len(judge.judged_pairs) == 20 * 6
    assert ranking["mine"].failed == 20
    # They are lost: not to answer never helps.
    full = rank(judged, Counts(), None)
    assert ranking["mine"].logit < full["mine"].logit - 0.5
    assert "mine: 20 queries without an answer count as lost to every anchor" in ranking.notes
    assert "placed by 120 judgments on 20 queries" in " ".join(ranking.notes)


# Several languages --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def boards(user_board: Leaderboard) -> MultilingualLeaderboard:
    """Return boards of the same systems on the same questions in two languages."""
    english = MirageDataset.bundled("en")
    runs = [run.model_copy(update={"language": "en"}) for run in ANCHORS]
    data = {
        "en": replace(user_board.ranker.data["sw"], language="en"),
        "sw": user_board.ranker.data["sw"],
    }
    ranker = SurrogateRanker("ridge").fit_data(data)
    return MultilingualLeaderboard(
        {
            "en": Leaderboard(english, user_board.suite, ranker, prefix="a/", runs=runs),
            "sw": Leaderboard(QUERIES, user_board.suite, ranker, prefix="a/", runs=ANCHORS),
        }
    )


def mine(query: Query) -> str:
    return MINE[query.id].text or ""


def test_judgments_are_divided_over_languages(boards: MultilingualLeaderboard) -> None:
    judge = Counts()
    ranking = boards.rank(mine, "mine", judge=judge, judgments=81, progress=False)
    assert len(judge.judged_pairs) == 81
    first, second = judge.judged_pairs[:41], judge.judged_pairs[41:]
    assert {(p.query_id, *sorted(p[1:])) for p in first} != {
        (p.query_id, *sorted(p[1:])) for p in second
    }
    for code, pairs in (("en", first), ("sw", second)):
        by_itself = ranking[code]["mine"]
        assert f"mine is placed by {len(pairs)} judgments" in ranking[code].notes[-1]
        assert by_itself.interval[0] < by_itself.logit < by_itself.interval[1]
    assert "Placed by 81 judgments in 2 languages" in str(ranking)
    assert ranking.mean_ranks["mine"] == np.mean([r["mine"].rank for r in ranking.values()])
    low, high = ranking.intervals["mine"]
    assert low <= ranking.mean_logits["mine"] <= high
    assert ranking.rank_intervals["mine"] is not None
    assert ranking.p_better("mine", "a/m0") > 0.9 > 0.5 > ranking.p_better("mine", "a/m5")
    # Without a judge it is as it was.
    assert (
        boards.rank(mine, "mine", judgments=0, progress=False).to_json()
        == boards.rank(mine, "mine", progress=False).to_json()
    )
    with pytest.raises(SettingError, match="judgments=1 is too few for 2 languages"):
        boards.rank(mine, "mine", judge=judge, judgments=1, progress=False)


@pytest.mark.slow
def test_judging_resumes_in_each_language(
    boards: MultilingualLeaderboard, server: ChatServer, tmp_path: Path
) -> None:
    judge = PairwiseJudge(LLM("j", base_url=server.url, cache=False))
    settings: dict[str, Any] = {"judge": judge, "progress": False}
    assert boards.estimate(mine, "mine", judgments=30, **settings).calls == 30
    boards.rank(mine, "mine", judgments=24, out=tmp_path / "votes", **settings)
    assert len(server.requests) == 24
    first = boards.rank(mine, "mine", judgments=30, out=tmp_path / "votes", **settings)
    assert len(server.requests) == 30
    again = boards.rank(mine, "mine", judgments=30, out=tmp_path / "votes", **settings)
    assert len(server.requests) == 30
    assert again.to_json() == first.to_json()
    assert [len(read_votes(tmp_path / "votes" / f"{code}.jsonl")) for code in boards] == [15, 15]


def test_parallel_questions_are_drawn_together(judged: Leaderboard) -> None:
    """Test that draws of a model are correlated between languages with the same questions."""
    draws, other_draws = (rank(judged, Counts(noise), None).drawn() for noise in (2.0, 2.5))
    assert draws is not None
    assert other_draws is not None
    entry = rank(judged, Counts(), None)["mine"]
    assert np.quantile(draws["mine"], [0.025, 0.975]) == pytest.approx(entry.interval, abs=0.12)
    assert np.corrcoef(draws["mine"], other_draws["mine"])[0, 1] > 0.5
    share_ahead = np.mean(draws["mine"] > draws["m3"])
    assert share_ahead == pytest.approx(
        rank(judged, Counts(), None).p_better("mine", "m3"), abs=0.06
    )


# Queries that hang together -----------------------------------------------------------------------


def test_repeated_queries_in_clusters_do_not_narrow_the_interval() -> None:
    """Test with queries that repeat the query before, including answers and verdicts."""
    first = {id_: QUERIES.query_ids[n // 2 * 2] for n, id_ in enumerate(QUERIES.query_ids)}

    class Repeats(Counts):
        def judge(self, dataset: Any, runs: Any, pairs: Any, **settings: Any) -> Judged:
            requested = list(pairs)
            same = [pair._replace(query_id=first[pair.query_id]) for pair in requested]
            judgments = super().judge(dataset, runs, same, **settings).judgments
            return Judged(
                (),
                tuple(
                    j.model_copy(update={"query_id": pair.query_id})
                    for j, pair in zip(judgments, requested, strict=True)
                ),
            )

    pairs = [
        Pair(id_, a.model, b.model)
        for id_ in QUERIES.query_ids
        for a, b in combinations(ANCHORS, 2)
    ]
    verdicts = Repeats().judge(QUERIES, ANCHORS, pairs)
    widths = []
    few = {id_: str(n % 9) for n, id_ in enumerate(QUERIES.query_ids)}
    for cluster in (None, first, few):
        board = Leaderboard.from_judgments(
            verdicts,
            QUERIES,
            ANCHORS,
            suite=FeatureSuite([words, length]),
            cluster=cluster,
            estimator="linear",
            progress=False,
        )
        ranking = rank(board, Repeats(), None)
        widths.append(np.ptp(ranking["mine"].interval))
    # Forty queries that are twenty: the root of two, and a little more for fewer degrees.
    assert widths[1] / widths[0] == pytest.approx(2**0.5 * 1.08, rel=0.05)
    assert math.isnan(ranking["mine"].interval[0])
    assert "fewer than 10 clusters of queries were judged" in ranking.notes[-1]


# The bundled board --------------------------------------------------------------------------------


@pytest.mark.slow
def test_bundled_anchors_have_responses() -> None:
    board = Leaderboard.bundled("sw")
    run = simulated_runs("sw", ("uncited",))["uncited"]
    table = board.suite.score(board.dataset, run, progress=False)
    data = board.ranker.data["sw"]
    training_table = data.table(data.models.index("uncited"))
    assert np.allclose(
        table.columns(training_table.features).values,
        training_table.values,
        atol=2e-3,
        equal_nan=True,
    )
    judge = Counts(noise=30)
    ranking = board.rank(MINE, "mine", judge=judge, judgments=30, progress=False)
    assert len(judge.judged_pairs) == 30
    assert all(any(name.startswith("anchor/") for name in pair) for pair in judge.judged_pairs)
    assert not math.isnan(ranking["mine"].interval[0])
    assert "(?)" not in str(ranking)


# Mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"judgments": 10}, SettingError, "needs a judge"),
        (
            {"judge": Counts(), "judgments": -1},
            SettingError,
            "judgments must be at least 0, got -1",
        ),
        ({"until_width": 1.0}, SettingError, "need a judge"),
        ({"judge": Counts(), "judgments": 0, "out": "votes"}, SettingError, "None or at least 1"),
        ({"judge": 42}, SettingError, "judge must be a PairwiseJudge, .* got 42"),
        ({"judge": Counts}, SettingError, "judge must be a PairwiseJudge"),
        ({"judge": Counts(), "judgments": 5, "until_width": 0.0}, SettingError, "above 0"),
        ({"judge": Counts(), "judgments": 5, "until_against": "zz"}, UnknownNameError, "zz"),
    ],
)
def test_wrong_settings(
    board: Leaderboard, settings: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        board.rank(MINE, "mine", progress=False, **settings)


def test_anchors_without_responses(user_board: Leaderboard) -> None:
    board = Leaderboard(QUERIES, user_board.suite, user_board.ranker)
    with pytest.raises(JudgmentError, match=r"needs the responses of m0, m1, .*runs="):
        rank(board, Counts(), 5)


def test_a_surrogate_that_learnt_from_verdicts_predicts_by_them(user_board: Leaderboard) -> None:
    model_pairs = combinations(ANCHORS, 2)
    pairs = [Pair(id_, a.model, b.model) for a, b in model_pairs for id_ in QUERIES.query_ids]
    verdicts = Judgments.from_records(Counts(0.3).judge(QUERIES, ANCHORS, pairs))
    tournaments = BradleyTerry().bootstrap(verdicts, tournaments=20, queries=None, progress=False)
    tables = [user_board.suite.score(QUERIES, run, progress=False) for run in ANCHORS]
    ranker = SurrogateRanker("linear").fit(tables, tournaments, judgments=verdicts)
    board = Leaderboard(QUERIES, user_board.suite, ranker, runs=ANCHORS)
    note = rank(board, Counts(0.3), 40).notes[-1]
    assert float(note.rpartition("as precise as ")[2]) > 60
