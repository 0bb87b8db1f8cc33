"""Thirty things that newcomers type first, from the habits of other libraries."""

from __future__ import annotations

import asyncio
import inspect
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from cases import each_case
from llm_server import ChatServer

import mirage
from mirage import (
    LLM,
    BradleyTerry,
    FeatureSuite,
    Judgment,
    Judgments,
    Leaderboard,
    MirageDataset,
    MultilingualLeaderboard,
    PairwiseJudge,
    Passage,
    Pipeline,
    Query,
    Ranking,
    Response,
    Run,
    SurrogateRanker,
    respond,
)
from mirage.errors import DatasetError, SettingError
from mirage.features.findings import Finding
from mirage.ranking.accuracy import Accuracy
from mirage.ranking.comparison import QueryDifference, SystemComparison
from mirage.ranking.entries import Entry

WORKS = "works"
MISSES = "neither exists nor is suggested"

# Each guess with its outcome: it works, or a part of the message that suggests what to type, or
# it misses. The guesses were written down before the API was looked at.
GUESSES = {
    "Leaderboard.load(path)": "did you mean 'bundled'?",
    "board.save(path)": MISSES,
    "board.to_pandas()": "did you mean 'ranking'?",
    "board.models": WORKS,
    "board.evaluate(f)": "did you mean 'rank'?",
    "multi['en']": WORKS,
    "ranking[0]": WORKS,
    "ranking.best": WORKS,
    "ranking.plot()": WORKS,
    "ranking.to_csv(path)": "did you mean 'to_pandas'?",
    "ranking.to_dict()": WORKS,
    "ranking.scores": "did you mean 'to_pandas'?",
    "MirageDataset.load(queries)": WORKS,
    "MirageDataset.from_pandas(dataset.to_pandas())": "did you mean 'load'?",
    "dataset.filter(lambda query: query.answerable)": WORKS,
    "dataset.head()": "did you mean 'sample'?",
    "dataset[0]": WORKS,
    "FeatureSuite('bleu')": WORKS,
    "FeatureSuite.available()": WORKS,
    "suite.score(run)": MISSES,  # it needs the dataset too
    "list(table.columns)": MISSES,  # a method that selects columns
    "table.mean()": WORKS,
    "Run.from_pandas(run.to_pandas())": "did you mean 'load'?",
    "run.to_pandas()": WORKS,
    "llm.complete('hi')": WORKS,
    "llm.chat([{'role': 'user', 'content': 'hi'}])": "did you mean 'complete'?",
    "judge.compare(run, run)": "is not a dataset; pass a MirageDataset",
    "surrogate.feature_importances_": "did you mean 'importances'?",
    "pipeline.run('Who wrote Emma?')": MISSES,  # a pipeline answers datasets
    "judgments.to_csv(path)": "did you mean 'to_pandas'?",
}


def nile(query: Query) -> str:
    del query
    return "Nile"


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return Leaderboard.bundled("en")


@pytest.fixture
def names(board: Leaderboard, server: ChatServer, tmp_path: Path) -> dict[str, Any]:
    """Return the objects in the guesses."""
    dataset = MirageDataset.bundled("en")[:3]
    dataset.save(tmp_path / "queries.jsonl")
    run = respond(nile, dataset, "mine", progress=False)
    suite = FeatureSuite("bleu")
    return {
        **{cls.__name__: cls for cls in (FeatureSuite, Leaderboard, MirageDataset, Run)},
        "board": board,
        "multi": MultilingualLeaderboard({"en": board}),
        "ranking": Leaderboard.published("en"),
        "dataset": dataset,
        "queries": tmp_path / "queries.jsonl",
        "path": tmp_path / "new",
        "f": nile,
        "run": run,
        "suite": suite,
        "table": suite.score(dataset, run, progress=False),
        "llm": LLM("m", base_url=server.url, cache=False),
        "judge": PairwiseJudge("gpt-4o"),
        "surrogate": SurrogateRanker(),
        "pipeline": Pipeline(None, generator=nile),
        "judgments": Judgments.from_records(
            [Judgment(query_id="q", model_a="a", model_b="b", verdict="a")]
        ),
    }


@pytest.mark.parametrize("guess", GUESSES)
def test_the_outcome_of_a_guess(guess: str, names: dict[str, Any]) -> None:
    outcome = GUESSES[guess]
    if "plot" in guess:
        pytest.importorskip("matplotlib", reason="the extra report is not installed: matplotlib")
    if outcome == WORKS:
        eval(guess, names)
        return
    with pytest.raises((AttributeError, TypeError, ValueError)) as error:
        eval(guess, names)
    assert ("did you mean" in str(error.value)) == outcome.startswith("did you mean")
    assert outcome == MISSES or outcome in str(error.value)


def test_most_guesses_exist_or_are_suggested() -> None:
    assert len(GUESSES) == 30
    assert sum(outcome != MISSES for outcome in GUESSES.values()) >= 24


# The parts of a ranking that users hold: each guess with the name that is suggested.
PARTS = {
    "entry.ci": "interval",
    "entry.score": "logit",
    "entry.wrong": "accuracy",
    "entry.lgoit": "logit",
    "comparison.winner": "p_better",
    "comparison.p_value": "p_better",
    "comparison.to_pandas": "queries",
    "comparison.intervall": "interval",
    "difference.query": "query_id",
    "finding.queries": "query_ids",
    "finding.description": "words",
    "finding.qoutes": "quotes",
    "accuracy.share": "right",
    "accuracy.rigth": "right",
    "ranking.explain": "findings",
    "ranking.table": "to_text",
    "board.compare": "rank_many",
    "mirage.evaluate": "Leaderboard",
}


@pytest.mark.parametrize("guess", PARTS)
def test_a_wrong_name_of_a_part_is_corrected(guess: str, board: Leaderboard) -> None:
    interval = (0.1, 0.3)
    parts = {
        "mirage": mirage,
        "board": board,
        "ranking": board.ranking,
        "entry": Entry(1, "mine", 0.5, interval),
        "difference": (difference := QueryDifference("q1", 0.2, ("right", "wrong"))),
        "comparison": SystemComparison(("a", "b"), 0.9, 0.2, interval, (difference,), 3),
        "finding": Finding("wrong answer", "states a wrong fact", ("q1",), 3),
        "accuracy": Accuracy({"q1": "right", "q2": "wrong"}),
    }
    owner, name = guess.split(".")
    with pytest.raises(AttributeError) as error:
        getattr(parts[owner], name)
    assert str(error.value).endswith(f"; did you mean {PARTS[guess]!r}?")


def test_every_printed_count_of_an_accuracy_is_an_attribute() -> None:
    outcomes = ("right", "wrong", "wrong", *["declined"] * 3, *["undecided"] * 4, *["failed"] * 5)
    accuracy = Accuracy({str(i): outcome for i, outcome in enumerate(outcomes)})
    printed = re.findall(r"(right|wrong|declined|undecided|failed)(?: on)? (\d+)", str(accuracy))
    assert [getattr(accuracy, name) for name, _ in printed] == [1, 2, 3, 4, 5]
    assert [int(count) for _, count in printed] == [1, 2, 3, 4, 5]


# What the guesses return --------------------------------------------------------------------------


def test_a_ranking_is_indexed_by_place_and_by_name() -> None:
    ranking = Leaderboard.published("en")
    assert [ranking[place] for place in range(len(ranking))] == list(ranking)
    assert ranking[0] == ranking.best == ranking[ranking.models[0]]
    assert ranking[-1].rank == len(ranking)


def test_a_ranking_writes_its_page(tmp_path: Path) -> None:
    Leaderboard.published("en").write(tmp_path / "page.html")
    assert "gpt-4o-azure" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_llm_completes_a_prompt_or_a_chat(server: ChatServer) -> None:
    llm = LLM("m", base_url=server.url, cache=False)
    answer = llm.complete("hi")
    assert (str(answer), answer.text) == ("ok", "ok")
    llm.complete([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])
    chats = [request["messages"] for request in server.requests]
    assert chats[0] == [{"role": "user", "content": "hi"}]
    assert [message["role"] for message in chats[1]] == ["system", "user"]
    for wrong in ([], ["hi"], [{"role": "user"}]):
        with pytest.raises(SettingError, match="complete needs a prompt, or messages"):
            llm.complete(wrong)  # type: ignore[arg-type]


def test_an_llm_completes_while_a_loop_is_running(server: ChatServer) -> None:
    llm = LLM("m", base_url=server.url, cache=False)

    async def notebook() -> str:
        return llm.complete("hi").text

    assert asyncio.run(notebook()) == "ok"


def test_a_dataset_is_filtered_and_becomes_a_frame() -> None:
    dataset = MirageDataset.bundled("en")
    unanswerable = dataset.filter(lambda query: query.answerable is False)
    assert list(unanswerable) == [query for query in dataset if query.answerable is False]
    frame = dataset.to_pandas()
    assert tuple(frame["id"]) == dataset.query_ids
    with pytest.raises(DatasetError, match="has no queries"):
        dataset.filter(lambda query: query.text == "")


def test_the_default_suite_has_available_features() -> None:
    assert set(FeatureSuite.default().names) <= set(FeatureSuite.available())


def test_both_readers_of_judgments_have_the_same_arguments_in_the_same_order() -> None:
    first, second = (
        list(inspect.signature(cls.from_judgments).parameters) for cls in (Ranking, Leaderboard)
    )
    assert first[:8] == second[:8]
    assert first[:3] == ["judgments", "dataset", "runs"]


def test_the_methods_of_leaderboards_share_their_options() -> None:
    methods = [
        getattr(cls, name)
        for cls in (Leaderboard, MultilingualLeaderboard)
        for name in ("rank", "rank_many", "estimate")
    ]
    options = [
        {
            name: parameter.default
            for name, parameter in inspect.signature(method).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        for method in methods
    ]
    assert all(entry == options[0] for entry in options)
    assert {"judge": None, "judgments": None, "seed": 0}.items() <= options[0].items()


def test_a_comparison_warns_that_it_leaves_queries_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queries = [Query(id=f"q{n}", language="en", text="?") for n in range(101)]
    dataset = MirageDataset(queries, name="many")
    runs = [respond(nile, dataset, model, progress=False) for model in "ab"]
    judge = PairwiseJudge("gpt-4o")
    judge.estimate(dataset, runs, queries=100)
    assert caplog.messages == []
    assert judge.estimate(dataset, runs).calls == 100
    assert caplog.messages == [
        "only 100 of the 101 queries of many are judged; pass queries=101 to judge all of them"
    ]


# A partly answered board --------------------------------------------------------------------------


def answerable(dataset: MirageDataset) -> list[str]:
    return [query.id for query in dataset if query.answerable][:20]


def test_a_partly_answered_model_is_ranked_with_a_note(board: Leaderboard) -> None:
    # Without unanswerable queries, there is no value of the feature invention.
    texts = {id_: board.dataset[id_].passages[0].text for id_ in answerable(board.dataset)}
    ranking = board.rank(texts, "part", progress=False)
    assert ranking["part"].answered == 20
    assert any("part has no value of invention on any query" in note for note in ranking.notes)


def test_a_board_of_partly_answered_models_ranks_with_a_note(board: Leaderboard) -> None:
    ids = answerable(board.dataset)
    runs = [
        Run(
            model=model,
            language="en",
            responses=tuple(
                Response(query_id=id_, text=board.dataset[id_].passages[0].text[:length])
                for id_ in ids
            ),
        )
        for model, length in (("short", 40), ("middle", 90), ("long", 200), ("longest", 400))
    ]
    names = [run.model for run in runs]
    judgments = [
        Judgment(query_id=id_, model_a=a, model_b=b, verdict="a" if (n + i) % 3 else "b")
        for i, id_ in enumerate(ids)
        for n, (a, b) in enumerate(combinations(names, 2))
    ]
    part = Leaderboard.from_judgments(
        judgments, board.dataset, runs, estimator="ridge", tournaments=20, progress=False
    )
    ranking = part.rank(nile, "mine", progress=False)
    assert "mine" in ranking
    (note,) = (note for note in ranking.notes if note.startswith("invention is not used"))
    assert note.endswith("has no value of it on any query")
    assert "invention" not in part.ranker.features


# Suggestions --------------------------------------------------------------------------------------


def test_the_ten_main_classes_suggest_the_near_name(names: dict[str, Any]) -> None:
    misspelt = {
        "board": ("rnak", "rank"),
        "multi": ("rank_mny", "rank_many"),
        "ranking": ("plott", "plot"),
        "dataset": ("filtr", "filter"),
        "suite": ("applicabel", "applicable"),
        "table": ("means", "mean"),
        "run": ("failled", "failed"),
        "llm": ("complet", "complete"),
        "judge": ("compar", "compare"),
        "surrogate": ("predikt", "predict"),
        "pipeline": ("retrive", "retrieve"),
        "judgments": ("from_record", "from_records"),
    }
    for name, (wrong, right) in misspelt.items():
        for owner in (names[name], type(names[name])):
            with pytest.raises(AttributeError, match=f"{wrong!r}; did you mean {right!r}\\?"):
                getattr(owner, wrong)


@each_case(
    ("owner", "guess", "name"),
    [
        (BradleyTerry, "fit_transform", "fit"),
        (BradleyTerry, "botstrap", "bootstrap"),
        (FeatureSuite, "compute", "score"),
        (Leaderboard, "score", "rank"),
        (MirageDataset, "shuffle", "sample"),
        (MirageDataset, "to_dataframe", "to_pandas"),
        (Passage(id="a", text="x"), "content", "text"),
        (Pipeline, "ask", "run"),
        (Query(id="q", language="en", text="x"), "question", "text"),
        (Query(id="q", language="en", text="x"), "contexts", "passages"),
        (Ranking, "save", "write"),
        (Response(query_id="q", text="x"), "answer", "text"),
        (SurrogateRanker, "train", "fit"),
    ],
)
def test_a_name_of_another_library_suggests_ours(owner: object, guess: str, name: str) -> None:
    with pytest.raises(AttributeError, match=f"{guess!r}; did you mean {name!r}\\?"):
        getattr(owner, guess)


def test_an_error_within_a_property_is_not_hidden() -> None:
    class Broken(Ranking):
        @property
        def best(self) -> Any:
            return self.language.nothing  # type: ignore[attr-defined]

    ranking = Broken(Leaderboard.published("en").entries, language="en")
    with pytest.raises(AttributeError, match="'str' object has no attribute 'nothing'"):
        _ = ranking.best


def test_a_run_is_copied_and_pickled_in_spite_of_its_metaclass() -> None:
    import copy
    import pickle

    run = Run(model="m", language="en", responses=(Response(query_id="q", text="x"),))
    assert pickle.loads(pickle.dumps(run)) == copy.deepcopy(run) == run
