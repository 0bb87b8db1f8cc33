"""Leaderboards: from a model to its ranking among anchors, in one language and in several."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_server import ChatServer, Reply

from mirage.arena import BradleyTerry
from mirage.dataset import MirageDataset
from mirage.errors import (
    DatasetError,
    FeatureError,
    GenerationError,
    JudgmentError,
    NeuralError,
    UnknownNameError,
)
from mirage.features import Facts, FeatureSuite
from mirage.features.base import FunctionFeature
from mirage.generation import OpenAIGenerator, respond
from mirage.generation.callables import CallableGenerator
from mirage.languages import LANGUAGES
from mirage.leaderboard import Leaderboard, MultilingualLeaderboard
from mirage.models import Judgment, Query, Response, Run
from mirage.ranking import MultilingualRanking, Ranking
from mirage.report._page import render
from mirage.surrogate.ranker import SurrogateRanker
from mirage.surrogate.simulation import ANCHORS
from mirage.surrogate.training import TrainingData
from mirage.testing import FellShortError, assert_ranks

TRAINED = tuple(f"trained-{i}" for i in range(8))


def words(_: Query, response: Response) -> float:
    return len((response.text or "").split())


def brackets(_: Query, response: Response) -> float:
    return (response.text or "").count("[")


def length(_: Query, response: Response) -> float:
    return len(response.text or "")


def training(code: str, tournaments: int = 40) -> TrainingData:
    """Eight models that are the better the more words they write: 5, 10, ... 40.

    Every other one writes brackets, which say nothing; so to write none, as ``write`` does, is
    nothing new to the ranker.
    """
    rng = np.random.default_rng(0)
    query_ids = MirageDataset.bundled(code).query_ids
    n = len(query_ids)
    values = np.stack(
        [[[5.0 * i, i % 2 * rng.integers(3)] for _ in query_ids] for i in range(1, 9)]
    )
    counts = rng.multinomial(n, [1 / n] * n, size=tournaments).astype(np.int32)
    y = np.linspace(-3, 3, 8) + rng.normal(0, 0.2, (tournaments, 8))
    names = ("words", "brackets")
    return TrainingData(code, TRAINED, names, query_ids, values, counts, y - y.mean(1)[:, None])


@pytest.fixture(scope="module")
def ranker() -> SurrogateRanker:
    return SurrogateRanker("ridge").fit_data({code: training(code) for code in ("sw", "en")})


@pytest.fixture(scope="module")
def board(ranker: SurrogateRanker) -> Leaderboard:
    return Leaderboard(MirageDataset.bundled("sw"), FeatureSuite([brackets, length, words]), ranker)


def write(count: int) -> Callable[[Query], str]:
    return lambda _: " ".join(["neno"] * count)


# Ranking ------------------------------------------------------------------------------------------


def test_a_model_is_ranked_among_the_anchors(board: Leaderboard) -> None:
    ranking = board.rank(write(28), "mine", progress=False)
    assert len(ranking) == 9
    assert ranking.language == "sw"
    # 28 words are between trained-4 (25) and trained-5 (30).
    assert ranking["trained-4"].logit < ranking["mine"].logit < ranking["trained-5"].logit
    assert ranking["mine"].rank == 4
    mine = ranking["mine"]
    assert mine.interval[0] < mine.logit < mine.interval[1]
    assert mine.rank_interval is not None
    assert mine.rank_interval[0] <= 4 <= mine.rank_interval[1]
    assert mine.features == {"brackets": 0, "length": 28 * 5 - 1, "words": 28}
    assert (mine.anchor, mine.answered, mine.failed) == (False, 40, 0)
    assert ranking.p_better("trained-7", "mine") > 0.8 > 0.2 > ranking.p_better("trained-0", "mine")


def test_anchors_are_what_was_trained_on(board: Leaderboard, ranker: SurrogateRanker) -> None:
    data = ranker.data["sw"]
    ranking = board.rank(write(28), progress=False)
    for i, name in enumerate(TRAINED):
        entry = ranking[name]
        assert entry.logit == pytest.approx(data.y[:, i].mean())
        # 40 queries: Student's t is 2.0227 with 39 degrees, where normal percentiles have 1.96.
        wider = 2.022691 / 1.959964 * np.sqrt(40 / 39)
        ends = np.percentile(data.y[:, i], [2.5, 97.5]) - data.y[:, i].mean()
        assert entry.interval == pytest.approx(tuple(entry.logit + wider * ends))
        assert entry.features["words"] == 5 * (i + 1)
        assert (entry.anchor, entry.answered, entry.failed) == (True, None, 0)
    ahead = (data.y[:, 5] > data.y[:, 4]).mean()
    assert ranking.p_better("trained-5", "trained-4") == pytest.approx(ahead)


def test_more_words_never_rank_lower(board: Leaderboard) -> None:
    ranking = board.rank_many({f"w{n}": write(n) for n in (30, 3, 12, 22)}, progress=False)
    new_models = [entry.model for entry in ranking if not entry.anchor]
    assert new_models == ["w30", "w22", "w12", "w3"]
    assert len(ranking) == 12
    assert ranking.p_better("w30", "w3") > 0.9


def test_all_kinds_of_systems_give_the_same_ranking(board: Leaderboard, tmp_path: Path) -> None:
    async def later(query: Query) -> str:
        await asyncio.sleep(0)
        return write(12)(query)

    answers = {query.id: write(12)(query) for query in board.dataset}
    run = Run(
        model="other",
        language="sw",
        responses=tuple(Response(query_id=id_, text=text) for id_, text in answers.items()),
    )
    run.save(tmp_path / "run.jsonl")
    expected = board.rank(write(12), "m", progress=False).to_json()
    for model in (later, answers, run, tmp_path / "run.jsonl", str(tmp_path / "run.jsonl")):
        assert board.rank(model, "m", progress=False).to_json() == expected

    async def notebook() -> str:
        return board.rank(later, "m", progress=False).to_json()

    assert asyncio.run(notebook()) == expected


@pytest.mark.slow
def test_a_generator_is_ranked_as_what_it_answers(
    board: Leaderboard, boards: MultilingualLeaderboard, server: ChatServer
) -> None:
    server.answer = lambda _: write(12)(board.dataset[0])
    generator = OpenAIGenerator("gpt", base_url=server.url)
    expected = board.rank(write(12), "m", progress=False).to_json()
    assert board.rank(generator, "m", progress=False).to_json() == expected
    assert len(server.requests) == 40
    everywhere = boards.rank(write(12), "m", progress=False).to_json()
    assert boards.rank(generator, "m", progress=False).to_json() == everywhere
    assert len(server.requests) == 80  # Swahili's come from the cache
    server.answer = lambda _: Reply(status=401)
    with pytest.raises(GenerationError, match="failed on all 40"):
        board.rank(OpenAIGenerator("gpt", base_url=server.url, cache=False), progress=False)


def test_a_run_keeps_its_name(board: Leaderboard, boards: MultilingualLeaderboard) -> None:
    run = respond(write(28), board.dataset, "my-rag", progress=False)
    assert "my-rag" in board.rank(run, progress=False)
    assert "other" in board.rank(run, "other", progress=False)
    runs = {
        code: respond(write(28), leaderboard.dataset, "my-rag")
        for code, leaderboard in boards.items()
    }
    assert "my-rag" in boards.rank(runs, progress=False)["sw"]
    runs["en"] = runs["en"].model_copy(update={"model": "another"})
    assert "my-model" in boards.rank(runs, progress=False)["sw"]


def test_failures_are_listed_and_excluded_from_means(board: Leaderboard) -> None:
    def sometimes(query: Query) -> str:
        if query.id in ("q03", "q07"):
            raise TimeoutError("too slow")
        return write(28)(query)

    ranking = board.rank(sometimes, "mine", progress=False)
    mine = ranking["mine"]
    assert (mine.answered, mine.failed) == (38, 2)
    assert mine.failures == {"q03": "TimeoutError: too slow", "q07": "TimeoutError: too slow"}
    assert mine.features["words"] == 28  # not 24, as if failures were empty responses
    assert mine.logit == pytest.approx(board.rank(write(28), progress=False)["my-model"].logit)
    assert "mine: 2 of 40 queries failed: q03 (TimeoutError: too slow)" in str(ranking)


def test_failing_on_every_query_is_an_error(board: Leaderboard) -> None:
    def broken(_: Query) -> str:
        raise ConnectionError("no route")

    with pytest.raises(GenerationError, match=r"'b' failed on all 40 .*ConnectionError: no route"):
        board.rank_many({"a": write(3), "b": broken}, progress=False)


def test_unknown_query_is_an_error(board: Leaderboard) -> None:
    with pytest.raises(
        UnknownNameError,
        match="unknown query 'q3' in bundled-sw, answered by model 'my-model'; did you mean 'q",
    ):
        board.rank({"q3": "tatu"})


@pytest.mark.parametrize(("name", "why"), [("", "is empty"), ("trained-3", "name of an anchor")])
def test_names_that_cannot_be_used(board: Leaderboard, name: str, why: str) -> None:
    with pytest.raises(DatasetError, match=why):
        board.rank(write(3), name)


# Parts --------------------------------------------------------------------------------------------


def test_chosen_anchors_and_their_prefix(ranker: SurrogateRanker) -> None:
    dataset, suite = MirageDataset.bundled("sw"), FeatureSuite([words, brackets])
    board = Leaderboard(dataset, suite, ranker, ["trained-7", "trained-0"], prefix="anchor/")
    ranking = board.rank(write(20), "trained-0", progress=False)
    assert ranking.models == ("anchor/trained-7", "trained-0", "anchor/trained-0")
    with pytest.raises(DatasetError, match="name of an anchor"):
        board.rank(write(20), "anchor/trained-0")
    with pytest.raises(UnknownNameError, match="did you mean 'trained-1'"):
        Leaderboard(dataset, suite, ranker, ["trained-11"])
    alone = Leaderboard(dataset, suite, ranker, [])
    assert alone.rank(write(20), progress=False)["my-model"].rank == 1
    with pytest.raises(DatasetError, match="no model to rank"):
        alone.rank_many({})


def test_parts_that_do_not_match_are_an_error(ranker: SurrogateRanker) -> None:
    swahili, suite = MirageDataset.bundled("sw"), FeatureSuite([words, brackets])
    with pytest.raises(FeatureError, match="lacks 'brackets', on which the ranker was trained"):
        Leaderboard(swahili, FeatureSuite([words]), ranker)
    with pytest.raises(FeatureError, match="suite is for 'de', but bundled-sw is in 'sw'"):
        Leaderboard(swahili, FeatureSuite([words, brackets], "de"), ranker)
    with pytest.raises(FeatureError, match="trained on sw, en, but bundled-de is in 'de'"):
        Leaderboard(MirageDataset.bundled("de"), suite, ranker)


# Several languages --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def boards(ranker: SurrogateRanker) -> MultilingualLeaderboard:
    suite = FeatureSuite([words, brackets])
    return MultilingualLeaderboard(
        {code: Leaderboard(MirageDataset.bundled(code), suite, ranker) for code in ("en", "sw")}
    )


def test_mean_rank_over_languages(boards: MultilingualLeaderboard) -> None:
    def model(query: Query) -> str:
        return write({"en": 28, "sw": 12}[query.language])(query)

    ranking = boards.rank(model, "mine", progress=False)
    assert isinstance(ranking, MultilingualRanking)
    assert (ranking["en"]["mine"].rank, ranking["sw"]["mine"].rank) == (4, 7)
    assert ranking.mean_ranks["mine"] == 5.5
    assert ranking.mean_ranks["trained-7"] == 1
    by_language = {"en": {q.id: write(28)(q) for q in boards["en"].dataset}, "sw": write(12)}
    assert boards.rank(by_language, "mine", progress=False).to_json() == ranking.to_json()


def test_a_language_whose_embedder_fails_is_left_out(
    boards: MultilingualLeaderboard,
) -> None:
    class Broken(CallableGenerator):
        def run(self, dataset: MirageDataset, **settings: Any) -> Run:
            if dataset.language == "en":
                raise NeuralError("no GPU")
            return super().run(dataset, **settings)

    ranking = boards.rank(Broken(write(12), "mine"), progress=False)
    assert dict(ranking.left_out) == {"en": "no GPU"}


def test_a_failing_language_is_left_out(boards: MultilingualLeaderboard) -> None:
    def swahili_alone(query: Query) -> str:
        if query.language == "en":
            raise ConnectionError("no route")
        return write(12)(query)

    ranking = boards.rank(swahili_alone, "mine", progress=False)
    assert list(ranking) == ["sw"]
    assert ranking.mean_ranks["mine"] == ranking["sw"]["mine"].rank == 7
    (code, why), *more = ranking.left_out.items()
    assert (code, more) == ("en", [])
    assert "ConnectionError: no route" in why
    for text in (str(ranking), ranking.to_markdown()):
        assert "en is left out:" in " ".join(text.split())
    assert json.loads(ranking.to_json())["left_out"] == dict(ranking.left_out)

    def never(_: Query) -> str:
        raise ConnectionError("no route")

    with pytest.raises(GenerationError, match="no route"):
        boards.rank(never, progress=False)


def test_a_system_for_some_languages_only_is_an_error(boards: MultilingualLeaderboard) -> None:
    with pytest.raises(DatasetError, match="'m' has no system for the languages sw"):
        boards.rank({"en": write(3)}, "m")
    with pytest.raises(UnknownNameError, match="language 'q01' on this leaderboard"):
        boards.rank({"q01": "moja"})
    run = Run(model="m", language="en", responses=(Response(query_id="q01", text="one"),))
    for one_language in (run, "run.jsonl"):
        unusable: Any = one_language
        with pytest.raises(DatasetError, match="mapping from language code"):
            boards.rank(unusable)


def test_a_leaderboard_under_another_language_is_an_error(boards: MultilingualLeaderboard) -> None:
    assert list(boards) == ["en", "sw"]
    with pytest.raises(UnknownNameError):
        boards["de"]
    with pytest.raises(DatasetError, match="the leaderboard with the key 'de' is in 'sw'"):
        MultilingualLeaderboard({"de": boards["sw"]})
    with pytest.raises(DatasetError, match="at least one language"):
        MultilingualLeaderboard({})


# What ships ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundled() -> Leaderboard:
    return Leaderboard.bundled("sw")


def test_bundled_ranks_offline(bundled: Leaderboard) -> None:
    reference = {query.id: query.reference or "" for query in bundled.dataset}
    garbage = {query.id: "zzz qqq xxx" for query in bundled.dataset}
    ranking = bundled.rank_many({"good": reference, "garbage": garbage}, progress=False)
    anchors = [entry for entry in ranking if entry.anchor]
    assert len(anchors) == len(ANCHORS)
    assert all(entry.model.startswith("anchor/") for entry in anchors)
    assert "anchor/uncited" in ranking
    assert ranking["good"].logit > ranking["anchor/uncited"].logit > ranking["garbage"].logit
    assert ranking.p_better("good", "garbage") > 0.9
    lines = str(ranking).splitlines()
    assert lines[0] == "bundled-sw: Swahili, 40 queries"
    assert max(map(len, lines)) <= 80
    assert len(json.loads(ranking.to_json())["entries"]) == len(ranking)


def test_an_unknown_language_of_bundled_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'en'"):
        Leaderboard.bundled("english")


@pytest.mark.slow
def test_bundled_without_a_language_is_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # What ships takes a second a language to load; stand-ins of the same make do here.
    features = FeatureSuite.default().names

    def pretrained(code: str, *, level: str) -> SurrogateRanker:
        assert level == "quick"
        small = training(code, tournaments=5)
        values = np.random.default_rng(0).random((len(ANCHORS), 40, len(features)))
        y = np.tile(np.linspace(3, -3, len(ANCHORS)), (5, 1))
        data = replace(small, models=ANCHORS, features=features, values=values, y=y)
        return SurrogateRanker("ridge").fit_data({code: data})

    monkeypatch.setattr(SurrogateRanker, "pretrained", pretrained)
    boards = MultilingualLeaderboard.bundled()
    assert isinstance(boards, MultilingualLeaderboard)
    assert list(boards) == list(LANGUAGES)
    some = ("q01", "q02", "q03", "q04", "q13")  # a passage answers all but the last
    answers = {
        code: {id_: board.dataset[id_].reference or "" for id_ in some}
        for code, board in boards.items()
    }
    ranking = boards.rank(answers, "mine", progress=False)
    assert len(ranking.mean_ranks) == len(ANCHORS) + 1
    assert f"anchor/{ANCHORS[0]}" in ranking.mean_ranks
    assert ranking["yo"]["mine"].failed == 35
    assert "| ar | bn | de | en |" in ranking.to_markdown()
    assert max(map(len, str(ranking).splitlines())) <= 80


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, mirage.leaderboard; "
        "print(*({'sklearn', 'scipy', 'pandas', 'joblib', 'torch'} & set(sys.modules)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == ""


# Judged models ------------------------------------------------------------------------------------


def judged_arena(models: int = 6) -> tuple[list[Run], list[Judgment]]:
    """Return runs of 5, 10, ... words and judgments; the longer wins on four of five queries."""
    dataset = MirageDataset.bundled("sw")
    runs = [respond(write(5 * n), dataset, f"m{n}", progress=False) for n in range(1, models + 1)]
    judgments = [
        Judgment(query_id=id_, model_a=a.model, model_b=b.model, verdict="a" if n % 5 == 4 else "b")
        for n, id_ in enumerate(dataset.query_ids)
        for a, b in combinations(runs, 2)
    ]
    return runs, judgments


def test_judged_models_are_a_leaderboard() -> None:
    runs, judgments = judged_arena()
    dataset, suite = MirageDataset.bundled("sw"), FeatureSuite([brackets, length, words])
    board = Leaderboard.from_judgments(
        judgments, dataset, runs, suite=suite, estimator="ridge", progress=False
    )
    expected = Ranking.from_judgments(judgments, dataset=dataset, runs=runs)
    assert board.ranking.to_json() == expected.to_json()
    assert board.ranking.models == ("m6", "m5", "m4", "m3", "m2", "m1")
    assert_ranks(board.ranking, "m1", model="m6")
    with pytest.raises(FellShortError):
        assert_ranks(board.ranking, "m6", model="m1")
    assert "Judgments by pair" in render(board.ranking)
    # The next step of the same road: one that nobody judged.
    ranking = board.rank(write(28), "new", progress=False)
    assert len(ranking) == 7
    assert ranking["m4"].logit < ranking["new"].logit
    assert ranking["m6"].anchor
    assert not ranking["new"].anchor
    with pytest.raises(DatasetError, match="is the name of an anchor"):
        board.rank(write(28), "m6")


def test_a_new_model_does_not_change_the_figures_of_judged_models() -> None:
    runs, judgments = judged_arena()
    dataset, suite = MirageDataset.bundled("sw"), FeatureSuite([brackets, length, words])
    board = Leaderboard.from_judgments(
        judgments, dataset, runs, suite=suite, estimator="ridge", progress=False
    )
    after = board.rank(write(28), "new", progress=False)
    pairs = [(a, b) for a in board.models for b in board.models]
    probabilities = [board.ranking.p_better(a, b) for a, b in pairs]
    assert [after.p_better(a, b) for a, b in pairs] == probabilities
    assert after.p_better_matrix(board.models, board.models).ravel().tolist() == probabilities
    assert 0.5 < after.p_better("new", "m1") <= 1
    before, later = (MultilingualRanking({"sw": ranking}) for ranking in (board.ranking, after))
    for model in board.models:
        assert later.intervals[model] == pytest.approx(before.intervals[model])
    assert [later.p_better(a, b) for a, b in pairs] == [before.p_better(a, b) for a, b in pairs]


def test_a_model_that_won_everything_has_no_interval_beside_a_new_model() -> None:
    runs, judgments = judged_arena()
    judgments = [
        j.model_copy(update={"verdict": "b"}) if j.model_b == "m6" else j for j in judgments
    ]
    dataset, suite = MirageDataset.bundled("sw"), FeatureSuite([brackets, length, words])
    board = Leaderboard.from_judgments(judgments, dataset, runs, suite=suite, progress=False)
    ranking = board.rank(write(28), "new", progress=False)
    # It won in every tournament alike: they do not say how far it is ahead.
    assert math.isnan(ranking["m6"].interval[0])
    assert ranking["m4"].interval == board.ranking["m4"].interval
    assert any("m6 won every judgment" in note for note in ranking.notes)
    assert ranking.notes[:-2] == board.ranking.notes
    assert "with 6 training systems" in ranking.notes[-2]
    assert "the interval of new contains the logits of all 6 systems" in ranking.notes[-1]


def board_of(judgments: list[Judgment], runs: list[Run]) -> Leaderboard:
    """Return a board with only a surrogate, trained on tournaments of these judgments."""
    dataset, suite = MirageDataset.bundled("sw"), FeatureSuite([brackets, length, words])
    tables = [suite.score(dataset, run, progress=False) for run in runs]
    drawn = BradleyTerry().bootstrap(judgments, tournaments=50, progress=False)
    return Leaderboard(dataset, suite, SurrogateRanker("ridge").fit(tables, drawn), prefix="a/")


def test_a_surrogate_shows_no_interval_for_a_model_that_won_everything(tmp_path: Path) -> None:
    runs, judgments = judged_arena()
    judgments = [
        j.model_copy(update={"verdict": "b"}) if j.model_b == "m6" else j for j in judgments
    ]
    board = board_of(judgments, runs)
    board.ranker.save(tmp_path / "kept.npz")
    loaded = SurrogateRanker.load(tmp_path / "kept.npz", trust=True)
    again = Leaderboard(board.dataset, board.suite, loaded, prefix="a/")
    new = board.rank(write(28), "new", progress=False)
    for ranking in (board.ranking, again.ranking, new):
        assert math.isnan(ranking["a/m6"].interval[0])
        assert ranking["a/m6"].rank_interval is None
        assert not any(math.isnan(ranking[f"a/m{i}"].interval[0]) for i in range(1, 6))
        assert ranking.notes[0].startswith("a/m6 won or lost every judgment")
        assert "a/m6 won or lost every judgment" in render(ranking)


def test_a_surrogate_trained_on_ties_alone_notes_it() -> None:
    runs, judgments = judged_arena()
    board = board_of([j.model_copy(update={"verdict": "tie"}) for j in judgments], runs)
    ranking = board.rank(write(28), "new", progress=False)
    assert "nothing shows which is better" in board.ranking.notes[0]
    assert "nothing shows which is better" in ranking.notes[0]
    for entry in ranking:
        assert math.isnan(entry.interval[0])
        assert entry.rank_interval == (1, 7)


def test_a_board_of_few_systems_notes_the_detectable_difference(board: Leaderboard) -> None:
    ranking = board.rank(write(28), "mine", progress=False)
    (note,) = (note for note in ranking.notes if "with 8 training systems" in note)
    match = re.search(r"about ([\d.]+) or more; (\d+) of the 28 pairs", note)
    assert match
    least, pairs = float(match[1]), int(match[2])
    # Eight logits, 6/7 apart from each other: 7 pairs are 1 step apart, 6 are 2 steps, ...
    assert pairs == sum(8 - steps for steps in range(1, 8) if steps * 6 / 7 > least)
    # Of models that far away rank intervals say that they are better or worse, and of no nearer.
    assert ranking["mine"].rank_interval is not None
    surely = [abs(ranking["mine"].logit - ranking[name].logit) > least for name in TRAINED]
    best, worst = ranking["mine"].rank_interval
    assert abs((worst - best) - (8 - sum(surely))) <= 1


def test_the_worst_values_of_a_user_feature_are_shown() -> None:
    runs, judgments = judged_arena()

    def clutter(_: Query, response: Response) -> float:
        return len((response.text or "").split())

    dataset, user_feature = (
        MirageDataset.bundled("sw"),
        FunctionFeature(clutter, facts=Facts("lower")),
    )
    board = Leaderboard.from_judgments(
        judgments,
        dataset,
        runs,
        suite=FeatureSuite([user_feature]),
        estimator="ridge",
        progress=False,
    )
    texts = {query.id: "neno " * (90 if query.id == "q03" else 1) for query in dataset}
    with pytest.raises(FellShortError) as error:
        assert_ranks(texts, "m6", on=board)
    query_ids = re.findall(r"^- (q\d\d) ", str(error.value), re.MULTILINE)
    assert query_ids == ["q03"]  # of 90 words, where m6 has 30; the others have fewer


def test_a_judged_model_needs_a_run_and_a_suite_its_language() -> None:
    runs, judgments = judged_arena(3)
    dataset = MirageDataset.bundled("sw")
    with pytest.raises(UnknownNameError, match="judged model 'm3' among the runs"):
        Leaderboard.from_judgments(judgments, dataset, runs[:2])
    renamed_runs = [run.model_copy(update={"model": f"other-{run.model}"}) for run in runs]
    message = (
        "the judgments are of 'm1', 'm2', 'm3', but the runs are of 'other-m1', 'other-m2', "
        "'other-m3'"
    )
    with pytest.raises(JudgmentError, match=message):
        Leaderboard.from_judgments(judgments, dataset, renamed_runs)
    with pytest.raises(UnknownNameError, match="estimator"):
        Leaderboard.from_judgments(judgments, dataset, runs, estimator="forrest")
    with pytest.raises(FeatureError, match="the suite is for 'en'"):
        Leaderboard.from_judgments(judgments, dataset, runs, suite=FeatureSuite.default("en"))


def test_every_board_has_the_ranking_of_its_anchors(board: Leaderboard) -> None:
    assert set(board.ranking.models) == set(board.anchors)
    among = board.rank(write(28), "mine", progress=False)
    for entry in board.ranking:
        assert (entry.logit, entry.interval) == (
            among[entry.model].logit,
            among[entry.model].interval,
        )


def test_a_ranking_can_be_pickled_and_copied() -> None:
    ranking = Leaderboard.bundled("en").rank(lambda _: "The Nile [1].", "m")
    for copied in (pickle.loads(pickle.dumps(ranking)), deepcopy(ranking)):
        assert str(copied) == str(ranking)
