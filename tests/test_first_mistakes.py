"""The mistakes of a first hour: each is one clear sentence that says what to do instead."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import each_case

from mirage import (
    LLM,
    FeatureSuite,
    Leaderboard,
    MirageDataset,
    MirageError,
    OpenAIGenerator,
    PairwiseJudge,
    Query,
    Ranking,
    Run,
    respond,
)
from mirage.generation.callables import ReplayGenerator
from mirage.languages import LANGUAGES

LANGUAGE = "sw"
CHOICES = (
    "pass a function of a query, a Generator, a Run, a mapping from query id to text, or the "
    "path of a JSON Lines file of responses"
)


@pytest.fixture(scope="module")
def leaderboard() -> Leaderboard:
    return Leaderboard.bundled(LANGUAGE)


def sentence(mistake: Callable[[], Any]) -> str:
    """The message of a mistake: one line, and no error of anything below the library."""
    with pytest.raises(MirageError) as caught:
        mistake()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


# What is ranked -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [5, None, ["yes", "no"], object(), {"q01"}])
def test_something_that_cannot_answer(leaderboard: Leaderboard, model: Any) -> None:
    message = sentence(lambda: leaderboard.rank(model))
    assert message.endswith(f" cannot answer queries; {CHOICES}")


def test_a_long_list_of_texts_is_not_all_in_the_message(leaderboard: Leaderboard) -> None:
    answers: Any = ["an answer that is long " * 50] * 40
    assert CHOICES in sentence(lambda: leaderboard.rank(answers))


def test_a_text_is_taken_for_a_path(leaderboard: Leaderboard) -> None:
    assert sentence(lambda: leaderboard.rank("The Nile is the longest river.")) == (
        "The Nile is the longest river.: no such file; pass the path of a JSON Lines file "
        "of responses, or a mapping from query id to text"
    )


class Rag:
    """Somebody's system."""

    name = "rag"

    def __call__(self, query: Query) -> str:
        return query.passages[0].text


@pytest.mark.parametrize("model", [Rag, OpenAIGenerator, ReplayGenerator])
def test_parentheses_that_were_forgotten(leaderboard: Leaderboard, model: Any) -> None:
    name = model.__name__
    assert sentence(lambda: leaderboard.rank(model)) == (
        f"{name} is a class, which cannot answer queries; create an object of it: {name}(...)"
    )


def test_with_the_parentheses_it_works(leaderboard: Leaderboard) -> None:
    assert "my-model" in leaderboard.rank(Rag())


def test_a_generator_that_returns_texts_and_no_run(leaderboard: Leaderboard) -> None:
    class Mine:
        name = "mine"

        def run(self, dataset: MirageDataset, **_: Any) -> Any:
            return [query.text for query in dataset]

    assert sentence(lambda: leaderboard.rank(Mine())) == (
        "run() of the generator 'mine' must return a Run, but it returned list"
    )


# What a function returns --------------------------------------------------------------------------


def test_an_async_function_works(leaderboard: Leaderboard) -> None:
    async def answer(query: Query) -> str:
        return query.passages[0].text

    ranking = leaderboard.rank(answer, model="async")
    assert isinstance(ranking, Ranking)
    assert ranking["async"].failed == 0


def returns(value: Any) -> Callable[[Query], Any]:
    return lambda _: value


async def returns_none_late(query: Query) -> None:
    """Forgets to return."""


async def yields_late(query: Query) -> AsyncIterator[str]:
    yield query.text


def yields(query: Query) -> Iterator[str]:
    yield query.text


@pytest.mark.parametrize(
    ("function", "kind", "instead"),
    [
        (returns(None), "NoneType", "return the answer (is a return statement missing?)"),
        (returns_none_late, "NoneType", "return the answer (is a return statement missing?)"),
        (returns(42), "int", "return the answer as text"),
        (returns(b"x"), "bytes", "return the answer as text"),
        (returns({"answer": "x"}), "dict", "return only the text in it, or"),
        (returns(("x",)), "tuple", "return only the text in it, or"),
        (returns(["x"]), "list", "return only the text in it, or"),
        (yields, "generator", "return the whole text at once instead of yielding its parts"),
        (yields_late, "async_generator", "return the whole text at once instead of yielding"),
    ],
)
def test_a_function_that_returns_no_text(
    leaderboard: Leaderboard, function: Any, kind: str, instead: str
) -> None:
    message = sentence(lambda: leaderboard.rank(function, model="mine"))
    start = "model 'mine' failed on all 40 queries of bundled-sw; the first failure, on 'q01': "
    reply = f"the response to query 'q01' is of type {kind}, expected a text, "
    assert message.startswith(f"{start}{reply}")
    assert instead in message


def test_a_function_that_wants_other_arguments(leaderboard: Leaderboard) -> None:
    def answer(question: str, passages: list[str]) -> str:
        return f"{question} {passages}"

    wrong: Any = answer
    assert "missing 1 required positional argument: 'passages'" in sentence(
        lambda: leaderboard.rank(wrong)
    )


# Queries ------------------------------------------------------------------------------------------


def test_a_dataset_without_a_query() -> None:
    assert sentence(lambda: MirageDataset([], name="mine")) == (
        "mine has no queries, but a dataset needs at least one"
    )


@pytest.mark.parametrize(
    ("queries", "kind", "hint"),
    [
        ("queries.jsonl", "str", "to read a file, use MirageDataset.load"),
        (["queries.jsonl"], "str", "to read a file, use MirageDataset.load"),
        (
            [{"id": "q1"}],
            "dict",
            "Query(**row) converts a dict with the fields id, language and text",
        ),
    ],
)
def test_a_dataset_of_something_else(queries: Any, kind: str, hint: str) -> None:
    assert sentence(lambda: MirageDataset(queries, name="mine")) == (
        f"mine must be created from Query objects, got {kind}; {hint}"
    )


def test_a_csv_file_is_no_file_of_queries() -> None:
    path = Path("fragen.csv")
    assert sentence(lambda: MirageDataset.load(path)) == (
        "fragen.csv: expected JSON Lines or Parquet; MirageDataset.from_qa reads CSV and TSV"
    )


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text("")
    assert sentence(lambda: MirageDataset.load(path)) == f"{path}: the file has no queries"


BARE = MirageDataset(
    [Query(id=f"q0{number}", language=LANGUAGE, text="Jina?") for number in range(1, 6)],
    name="mine",
)


def test_passages_that_are_missing_when_they_are_needed() -> None:
    message = sentence(lambda: respond(Rag(), BARE))
    assert message.endswith("IndexError: tuple index out of range (the query has no passages)")


def test_passages_that_are_missing_when_citations_are_measured(leaderboard: Leaderboard) -> None:
    bare = Leaderboard(BARE, leaderboard.suite, leaderboard.ranker)
    assert sentence(lambda: bare.rank(lambda _: "Jibu [1].")) == (
        "model 'my-model' (sw) has no value of 'citation_recall@10' on any query (the query has no "
        "relevant passage); remove this feature from the suite, or provide the data that it needs"
    )


@each_case("name", ["Swahili", "kiswahili", "swa", "sw-KE", "SW"])
@each_case("load", [Leaderboard.bundled, MirageDataset.bundled])
def test_a_language_by_another_name(load: Any, name: str) -> None:
    assert sentence(lambda: load(name)) == f"unknown language {name!r}; did you mean 'sw'?"


def test_a_language_that_is_not_there() -> None:
    message = sentence(lambda: Leaderboard.bundled("nl"))
    assert message.startswith("unknown language 'nl'; known: ar, bn, de, en, es, fa, fi, fr, hi, ")


def test_a_language_without_a_board() -> None:
    message = sentence(lambda: Leaderboard.bundled("it"))
    assert message.startswith("Italian (it) has no bundled board")
    assert message.endswith("Languages with a board: " + ", ".join(LANGUAGES))


# Files --------------------------------------------------------------------------------------------


def file_of(path: Path, row: Any) -> Path:
    path.write_text(json.dumps(row))
    return path


@pytest.mark.parametrize(
    ("row", "rest"),
    [
        (
            {"id": "q01", "answer": "x"},
            "field 'query_id': Field required (and 3 more); the fields are query_id, text, error, "
            "repeat, shown, passages, reasoning, cut_off; unknown: 'id', 'answer'",
        ),
        (
            {"query_id": "q01", "txt": "x"},
            "field 'text': Field required (and 1 more); the fields are query_id, text, error, "
            "repeat, shown, passages, reasoning, cut_off; unknown: 'txt'; did you mean 'text' "
            "instead of 'txt'?",
        ),
        (
            {"query_id": "q01", "text": "x", "score": 1},
            "field 'score': Extra inputs are not permitted; the fields are query_id, text, error, "
            "repeat, shown, passages, reasoning, cut_off; unknown: 'score'",
        ),
        ({"query_id": "q01", "text": 5}, "field 'text': Input should be a valid string"),
    ],
)
def test_a_column_by_another_name(
    leaderboard: Leaderboard, tmp_path: Path, row: dict[str, Any], rest: str
) -> None:
    path = file_of(tmp_path / "run.jsonl", row)
    assert sentence(lambda: leaderboard.rank(path)) == f"{path}, line 1, {rest}"


def test_a_column_of_queries_by_another_name(tmp_path: Path) -> None:
    row = {"id": "q01", "langauge": LANGUAGE, "text": "Jina?"}
    path = file_of(tmp_path / "queries.jsonl", row)
    message = sentence(lambda: MirageDataset.load(path))
    assert message.endswith("did you mean 'language' instead of 'langauge'?")


def test_a_json_array_in_place_of_json_lines(tmp_path: Path) -> None:
    path = file_of(tmp_path / "run.jsonl", [{"query_id": "q01", "text": "x"}])
    assert sentence(lambda: Run.load(path, language=LANGUAGE)) == (
        f"{path}, line 1: expected a JSON object, found list; JSON Lines has one object per line"
    )
    path.write_text(json.dumps([{"query_id": "q01", "text": "x"}], indent=2))
    message = sentence(lambda: Run.load(path, language=LANGUAGE))
    assert message.endswith("JSON Lines has one object per line, not an array")


def test_a_response_to_a_query_that_is_not_there(leaderboard: Leaderboard) -> None:
    assert sentence(lambda: leaderboard.rank({"q1": "x"}, model="mine")) == (
        "unknown query 'q1' in bundled-sw, answered by model 'mine'; did you mean 'q01'?"
    )


# Keys and packages --------------------------------------------------------------------------------


def test_a_key_that_is_missing(leaderboard: Leaderboard) -> None:
    message = (
        "no API key for https://api.openai.com/v1: set OPENAI_API_KEY, or pass api_key=, in "
        "commands --llm key_from=VARIABLE"
    )
    assert sentence(lambda: leaderboard.rank(OpenAIGenerator("gpt-4o-mini"))) == message


def test_names_of_llms_features_and_datasets_are_enough() -> None:
    jury = PairwiseJudge(["gpt-4o", LLM("gpt-4.1")])
    assert [llm.model for llm in jury.judges] == ["gpt-4o", "gpt-4.1"]
    assert [llm.model for llm in PairwiseJudge("gpt-4o").judges] == ["gpt-4o"]
    assert FeatureSuite("bleu").names == FeatureSuite(["answer_bleu"]).names
    run = respond(lambda query: query.text, LANGUAGE, progress=False)
    assert run.language == LANGUAGE
    table = FeatureSuite("bleu").score(LANGUAGE, run, progress=False)
    assert table.query_ids == MirageDataset.bundled(LANGUAGE).query_ids


def test_something_that_is_no_llm_dataset_or_judge(leaderboard: Leaderboard) -> None:
    wrong: Any = 42
    message = "expected an LLM or the name of one, such as 'gpt-4o'; got 42"
    assert sentence(lambda: PairwiseJudge(wrong)) == message
    assert sentence(lambda: PairwiseJudge([])) == "there is no judge; pass an LLM such as 'gpt-4o'"
    assert "42 is not a dataset; pass a MirageDataset" in sentence(lambda: respond(Rag(), wrong))
    assert "got 42" in sentence(lambda: leaderboard.rank(Rag(), judge=wrong))


def test_the_system_passed_as_the_model_name(leaderboard: Leaderboard) -> None:
    rank: Any = leaderboard.rank
    message = sentence(lambda: rank(model=Rag()))
    assert message.startswith("rank: missing a required argument: 'system'; its arguments are ")
    assert message.endswith("pass the system to rank as system, and its name as model=")
    message = sentence(lambda: rank(Rag(), model=Rag()))
    assert message.endswith("pass the system itself as the first argument")
    message = sentence(lambda: rank(Rag(), jugde="gpt-4o"))
    assert message.startswith("rank: got an unexpected keyword argument 'jugde'")
    message = sentence(lambda: leaderboard.rank_many([Rag(), Rag()]))  # type: ignore[arg-type]
    assert message.startswith("rank_many needs a mapping from name to system")


def test_pandas_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    ranking = Leaderboard.published(LANGUAGE)
    assert "pip install" in sentence(ranking.to_pandas)
    assert "pandas" in sentence(ranking.to_pandas)


def test_a_run_in_another_language(leaderboard: Leaderboard) -> None:
    english = respond(Rag(), MirageDataset.bundled("en"), "mine")
    assert isinstance(english, Run)
    assert sentence(lambda: leaderboard.rank(english, model="mine")) == (
        "the run of model 'mine' is in 'en', but bundled-sw is in 'sw'; use a dataset in the "
        "language of the run"
    )
