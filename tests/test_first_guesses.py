"""Thirty things that newcomers type first, from the habits of other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer

from mirage import (
    LLM,
    FeatureSuite,
    Judgment,
    Judgments,
    Leaderboard,
    MirageDataset,
    MultilingualLeaderboard,
    PairwiseJudge,
    Pipeline,
    Query,
    Ranking,
    Response,
    Run,
    SurrogateRanker,
    respond,
)

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
