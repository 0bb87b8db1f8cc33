"""How many responses are right, wrong, or decline to answer; with passages and without."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cases import each_case

from mirage import (
    FeatureSuite,
    Leaderboard,
    MirageDataset,
    MultilingualLeaderboard,
    Query,
    Ranking,
    respond,
)
from mirage.errors import SettingError
from mirage.features import FeatureTable
from mirage.ranking.accuracy import Outcome, accuracy_of, outcome

NAN = float("nan")


@each_case(
    ("answerable", "match", "wrong", "abstention", "expected"),
    [
        (True, 1, 0, 1, "right"),
        (True, 1, NAN, 1, "right"),
        (True, 0, 1, 1, "wrong"),
        (True, 0, 0, 0, "declined"),
        (True, 0, 0, 1, "undecided"),
        (True, 0.5, 0, 1, "undecided"),
        (True, NAN, NAN, 1, "undecided"),
        (False, NAN, NAN, 1, "right"),
        (False, NAN, NAN, 0, "wrong"),
        (None, 1, 0, NAN, "right"),
        (True, NAN, NAN, NAN, "failed"),
    ],
)
def test_the_outcome_of_a_response(
    answerable: bool | None, match: float, wrong: float, abstention: float, expected: Outcome
) -> None:
    query = Query(id="q", language="en", text="Who?", answerable=answerable)
    values = {"answer_match": match, "wrong_answer": wrong, "abstention": abstention}
    assert outcome(query, values) == expected


def dataset_of(kinds: str) -> MirageDataset:
    return MirageDataset(
        Query(id=f"q{i}", language="en", text="Who?", answerable=True, metadata={"kind": kind})
        for i, kind in enumerate(kinds)
    )


def table_of(matches: list[float], repeats: np.ndarray | None = None) -> FeatureTable:
    ids = tuple(f"q{i}" for i in range(len(matches)))
    values = np.array(matches)[:, None]
    return FeatureTable("m", "en", ids, ("answer_match",), values, repeats=repeats)


def test_kinds_and_interval() -> None:
    accuracy = accuracy_of(dataset_of("aaabbb"), table_of([1, 1, 1, 1, 0, 0]))
    assert (accuracy.right, accuracy.n) == (4, 6)
    assert accuracy.interval == pytest.approx((0.223, 0.957), abs=0.001)  # Clopper and Pearson
    assert {kind: (part.right, part.n) for kind, part in accuracy.kinds.items()} == {
        "a": (3, 3),
        "b": (1, 3),
    }
    assert str(accuracy).startswith("right on 4 of 6 queries (95 % interval 22 to 96 %)")
    assert str(accuracy).endswith("2 of 3 of kind b missed")


def test_repeats_count_by_their_majority() -> None:
    repeats = np.array([[[1.0], [1.0]], [[1.0], [0.0]], [[0.0], [0.0]]])
    accuracy = accuracy_of(dataset_of("aa"), table_of([2 / 3, 1 / 3], repeats))
    assert accuracy.outcomes == {"q0": "right", "q1": "undecided"}


# Rankings -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return Leaderboard.bundled("en")


@pytest.fixture(scope="module")
def right(board: Leaderboard) -> dict[str, str]:
    return {query.id: query.reference or "" for query in board.dataset}


@pytest.fixture(scope="module")
def ranking(board: Leaderboard, right: dict[str, str]) -> Ranking:
    wrong = {
        query.id: f"It is {query.wrong_answers[0][0]}."
        for query in board.dataset
        if query.id in ("q01", "q03", "q05", "q07")
    }
    return board.rank(right | wrong, "my-rag", progress=False)


def test_text_json_and_entry_have_the_accuracy(ranking: Ranking) -> None:
    accuracy = ranking["my-rag"].accuracy
    assert accuracy is not None
    assert (accuracy.right, accuracy.count("wrong"), accuracy.n) == (36, 4, 40)
    text = " ".join(str(ranking).split())
    assert "my-rag: right on 36 of 40 queries (95 % interval 76 to 97 %), wrong on 4" in text
    entry = next(e for e in json.loads(ranking.to_json())["entries"] if e["model"] == "my-rag")
    assert (entry["accuracy"]["right"], entry["accuracy"]["wrong"]) == (36, 4)
    assert entry["accuracy"]["kinds"]["single"]["n"] == 12
    assert ranking.to_pandas().loc["my-rag", "right"] == 36


def test_a_sentence_names_the_neighbours_and_the_faults_that_better_systems_lack(
    ranking: Ranking,
) -> None:
    (note,) = ranking.standing_notes
    position = ranking.models.index("my-rag")
    above, below = ranking.models[position - 1], ranking.models[position + 1]
    assert note.startswith(f"my-rag is between {above} and {below}. More often than")
    assert "it states a wrong fact on 4 of 30 queries" in note


def test_the_best_system_has_no_fault_that_better_ones_lack() -> None:
    board = Leaderboard.bundled("ar")
    references = {query.id: query.reference or "" for query in board.dataset}
    ranking = board.rank(references, "mine", progress=False)
    assert ranking.best.model == "mine"
    assert ranking.standing_notes == (f"mine has the best logit, just above {ranking[1].model}.",)


def test_anchors_and_published_models_have_no_accuracy(ranking: Ranking) -> None:
    assert ranking["anchor/plain"].accuracy is None
    assert all(entry.accuracy is None for entry in Leaderboard.published("en"))
    assert Leaderboard.published("en").accuracy_notes == ()


# Closed book --------------------------------------------------------------------------------------


def test_a_system_is_asked_without_passages(board: Leaderboard, right: dict[str, str]) -> None:
    asked: list[tuple[str, int]] = []

    def answer(query: Query) -> str:
        asked.append((query.id, len(query.passages)))
        known = query.passages or query.id in ("q01", "q03")
        return right[query.id] if known else "I do not know."

    ranking = board.rank(answer, "mine", closed_book=True, progress=False)
    without = ranking["mine"].closed_book
    assert without is not None
    assert (without.right, without.count("declined"), without.n) == (2, 28, 30)
    assert len(asked) == 80
    assert sum(not passages for _, passages in asked) == 40
    text = " ".join(str(ranking).split())
    assert "mine without passages: right on 2 of 30 queries" in text
    assert "with passages, it is right on 30 of the same 30." in text
    assert ranking["mine"].logit == board.rank(right, "mine", progress=False)["mine"].logit


def test_recorded_responses_without_passages(board: Leaderboard, right: dict[str, str]) -> None:
    ignorant = dict.fromkeys(right, "I do not know.")
    ranking = board.rank(right, "mine", closed_book=ignorant, progress=False)
    (mine,) = (e for e in ranking.to_dict()["entries"] if e["model"] == "mine")
    assert mine["closed_book"]["right"] == 0
    several = board.rank_many({"a": right, "b": right}, closed_book={"b": ignorant}, progress=False)
    assert several["a"].closed_book is None
    assert several["b"].closed_book is not None


def test_closed_book_settings_are_checked(board: Leaderboard, right: dict[str, str]) -> None:
    with pytest.raises(SettingError, match="recorded responses"):
        board.rank(right, "mine", closed_book=True, progress=False)
    with pytest.raises(SettingError, match="'other', which is not a ranked system"):
        board.rank_many({"mine": right}, closed_book={"other": right}, progress=False)
    with pytest.raises(SettingError, match="closed_book must be True"):
        board.rank_many({"mine": right}, closed_book=right.get, progress=False)


def test_closed_book_in_several_languages() -> None:
    boards = {code: Leaderboard.bundled(code) for code in ("en", "sw")}
    texts = {
        code: {query.id: query.reference or "" for query in board.dataset}
        for code, board in boards.items()
    }
    result = MultilingualLeaderboard(boards).rank(
        lambda query: texts[query.language][query.id],
        "mine",
        closed_book=lambda _: "?",
        progress=False,
    )
    assert all(ranking["mine"].closed_book.right == 0 for ranking in result.values())


def test_an_empty_answer_to_an_unanswerable_query_is_declined() -> None:
    dataset = MirageDataset(
        [
            Query(id=id_, language="de", text="Wer?", answerable=False)
            for id_ in ("empty", "invented")
        ]
    )
    run = respond({"empty": "", "invented": "Anna Berg."}, dataset, progress=False)
    table = FeatureSuite(["abstention", "incorrect_attempt"]).score(dataset, run, progress=False)
    assert accuracy_of(dataset, table).outcomes == {"empty": "declined", "invented": "wrong"}
