"""Runs from sync and async functions, runs, mappings and files."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError, SettingError, UnknownNameError
from mirage.generation import (
    Generator,
    HTTPGenerator,
    OpenAIGenerator,
    Prompt,
    RagPrompt,
    ReplayGenerator,
    respond,
)
from mirage.generation.base import answered, run_in_batches
from mirage.generation.callables import CallableGenerator
from mirage.models import Passage, Query, Response, Run

QUERIES = MirageDataset(
    [Query(id=f"q{i:02d}", language="sw", text=f"Swali {i}?") for i in range(1, 15)], name="maswali"
)


def echo(query: Query) -> str:
    return f"jibu la {query.text}"


async def echo_later(query: Query) -> str:
    # Later queries come back first: the run has to be in the dataset's order all the same.
    await asyncio.sleep(0.01 / int(query.id[1:]))
    return echo(query)


class Client:
    """A callable that counts how many of its calls are under way."""

    def __init__(self) -> None:
        self.active = self.most = 0

    async def __call__(self, query: Query) -> str:
        self.active += 1
        self.most = max(self.most, self.active)
        await asyncio.sleep(0.002)
        self.active -= 1
        return echo(query)


def texts(run: Run) -> list[str | None]:
    return [response.text for response in run]


def reason(run: Run, query_id: str) -> str:
    error = run[query_id].error
    assert error is not None
    return error


EXPECTED = [f"jibu la Swali {i}?" for i in range(1, 15)]

# Functions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        echo,
        echo_later,
        lambda query: echo_later(query),
        functools.partial(echo_later),
        Client(),
    ],
    ids=["sync", "async", "lambda", "partial", "object"],
)
def test_functions_answer_every_query_in_order(
    model: Callable[[Query], str] | Callable[[Query], Awaitable[str]],
) -> None:
    run = respond(model, QUERIES, "m", progress=False)
    assert (run.model, run.language) == ("m", "sw")
    assert [response.query_id for response in run] == list(QUERIES.query_ids)
    assert texts(run) == EXPECTED

    async def notebook() -> Run:
        return respond(model, QUERIES, "m", progress=False)

    assert asyncio.run(notebook()) == run


@pytest.mark.parametrize("concurrency", [1, 3, 100])
def test_async_calls_overlap_up_to_the_bound(concurrency: int) -> None:
    client = Client()
    assert texts(respond(client, QUERIES, concurrency=concurrency, progress=False)) == EXPECTED
    assert client.most == min(concurrency, len(QUERIES))
    assert client.active == 0


def test_sync_function_is_called_in_this_thread_one_query_at_a_time() -> None:
    threads = []

    def model(query: Query) -> str:
        threads.append(threading.current_thread())
        return asyncio.run(echo_later(query))  # only possible outside a running loop

    assert texts(respond(model, QUERIES, progress=False)) == EXPECTED
    assert threads == [threading.current_thread()] * 14


def test_concurrency_below_one_is_refused() -> None:
    with pytest.raises(SettingError, match="at least 1, got 0"):
        respond(echo, QUERIES, concurrency=0)


# Failures -----------------------------------------------------------------------------------------


def fail(query: Query) -> str:
    """Fail in a different way on each of four queries."""
    match query.id:
        case "q02":
            raise TimeoutError
        case "q03":
            raise KeyError("haipo")
        case "q05":
            return None  # type: ignore[return-value]
        case "q07":
            return "\ud83d"  # half an emoji, as a cut JSON string gives it
    return "" if query.id == "q08" else echo(query)


async def fail_later(query: Query) -> str:
    await asyncio.sleep(0)
    return fail(query)


def fail_or_later(query: Query) -> Any:
    """Return an awaitable on the third query only, after two sync results or failures."""
    return fail(query) if query.id < "q03" else fail_later(query)


@pytest.mark.parametrize("model", [fail, fail_later, fail_or_later])
def test_failures_have_a_reason_and_do_not_stop_the_run(model: Callable[[Query], Any]) -> None:
    run = respond(model, QUERIES, progress=False)
    assert len(run) == 14
    assert {response.query_id for response in run.failed} == {"q02", "q03", "q05", "q07"}
    assert reason(run, "q02") == "TimeoutError"
    assert reason(run, "q03") == "KeyError: 'haipo'"
    assert "is of type NoneType, expected a text, " in reason(run, "q05")
    assert reason(run, "q07").startswith("UnicodeEncodeError: ")
    assert run["q08"].text == ""  # an empty response is one
    assert run["q14"].text == EXPECTED[-1]


def test_error_text_with_half_a_character_is_kept_readable() -> None:
    def model(query: Query) -> str:
        if query.id == "q01":
            raise ValueError("bad \ud83d text")
        return "x"

    assert reason(respond(model, QUERIES, progress=False), "q01") == "ValueError: bad ? text"


def test_function_that_cancels_itself_has_failed() -> None:
    async def model(query: Query) -> str:
        if query.id == "q04":
            raise asyncio.CancelledError
        return await echo_later(query)

    run = respond(model, QUERIES, progress=False)
    assert [response.query_id for response in run.failed] == ["q04"]
    assert "cancelled" in reason(run, "q04")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("in_loop", [False, True])
def test_failing_on_every_query_is_an_error_that_shows_the_first(
    is_async: bool, in_loop: bool
) -> None:
    calls = []

    def model(query: Query) -> str:
        calls.append(query.id)
        raise ConnectionError(f"no route for {query.id}")

    async def model_later(query: Query) -> str:
        return model(query)

    def ask() -> Run:
        return respond(model_later if is_async else model, QUERIES, "m", progress=False)

    async def notebook() -> Run:
        return ask()

    with pytest.raises(GenerationError) as caught:
        asyncio.run(notebook()) if in_loop else ask()
    message = str(caught.value)
    assert "'m' failed on all 14 queries of maswali" in message
    assert "'q01': ConnectionError: no route for q01" in message
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert sorted(calls) == list(QUERIES.query_ids)


@pytest.mark.parametrize("reply", [None, {"text": "Ndiyo"}])
def test_an_invalid_reply_is_an_error_without_a_traceback_of_the_library(reply: Any) -> None:
    with pytest.raises(GenerationError, match=r"of type .*expected a text") as caught:
        respond(lambda _: reply, QUERIES, progress=False)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_interrupts_pass_through(
    in_loop: bool, interrupt: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def model(query: Query) -> str:
        if query.id == "q02":
            raise interrupt
        return "x"

    async def model_later(query: Query) -> str:
        return model(query)

    gc.freeze()  # so that the collections below search only what this test leaves
    for either in (model, model_later):

        async def notebook(system: Any = either) -> Run:
            return respond(system, QUERIES, progress=False)

        with pytest.raises(interrupt):
            asyncio.run(notebook()) if in_loop else respond(either, QUERIES, progress=False)
        # In a notebook it leaves through the notebook's own task, which is not ours to collect.
        gc.collect()
        assert in_loop or not caplog.records


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_interrupting_a_notebook_cancels_the_calls_under_way() -> None:
    cancelled = []

    async def model(query: Query) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(query.id)
            raise
        return "x"

    async def notebook() -> Run:
        return respond(model, QUERIES, concurrency=3, progress=False)

    # Not asyncio.run, which handles the signal itself; a notebook's kernel does not.
    loop = asyncio.new_event_loop()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    started = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(notebook())
    finally:
        timer.join()
        loop.close()
    assert time.monotonic() - started < 10
    assert sorted(cancelled) == ["q01", "q02", "q03"]


@settings(max_examples=25, deadline=None)
@given(st.sets(st.sampled_from(QUERIES.query_ids), max_size=13), st.booleans(), st.integers(1, 5))
def test_whatever_fails_every_query_has_its_own_response(
    failing: set[str], is_async: bool, concurrency: int
) -> None:
    def model(query: Query) -> str:
        if query.id in failing:
            raise RuntimeError(query.id)
        return echo(query)

    async def model_later(query: Query) -> str:
        await asyncio.sleep(0)
        return model(query)

    answer = model_later if is_async else model
    run = respond(answer, QUERIES, progress=False, concurrency=concurrency)
    assert [response.query_id for response in run] == list(QUERIES.query_ids)
    for query, response in zip(QUERIES, run, strict=True):
        if query.id in failing:
            assert (response.text, response.error) == (None, f"RuntimeError: {query.id}")
        else:
            assert (response.text, response.error) == (echo(query), None)


# Runs, mappings, files ----------------------------------------------------------------------------


def partial_run(**changes: Any) -> Run:
    responses = (
        Response(query_id="q03", text="tatu", shown=("p2", "p1")),
        Response(query_id="q01", text="moja"),
        Response(query_id="q02", text=None, error="ReadTimeout"),
    )
    return Run(**({"model": "other", "language": "sw", "responses": responses} | changes))


def test_run_is_put_in_order_and_filled_with_failures(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    partial_run().save(path)
    for given_as in (partial_run(), path, str(path)):
        run = respond(given_as, QUERIES, "mine")
        assert (run.model, run.language) == ("mine", "sw")
        assert [response.query_id for response in run] == list(QUERIES.query_ids)
        assert texts(run)[:3] == ["moja", None, "tatu"]
        assert run["q03"].shown == ("p2", "p1")
        assert reason(run, "q02") == "ReadTimeout"
        assert reason(run, "q09") == "no response to this query"
        assert len(run.failed) == 12


def test_a_run_keeps_its_name() -> None:
    run = respond(lambda query: query.id, QUERIES, "my-rag")
    assert respond(run, QUERIES) == run
    assert respond(run, QUERIES, "other").model == "other"


def test_mapping_gives_texts_by_query_id() -> None:
    mapping: Any = {"q02": "mbili", "q01": "", "q03": None, "q04": 4}
    run = respond(mapping, QUERIES)
    assert run.model == "my-model"
    assert texts(run)[:4] == ["", "mbili", None, None]
    assert reason(run, "q03") == reason(run, "q05") == "no response to this query"
    assert reason(run, "q04") == (
        "the response to query 'q04' is of type int, expected a text, a (text, passages) tuple or "
        "a Response; return the answer as text"
    )


def test_mapping_may_have_numbers_for_ids_as_files_may() -> None:
    queries = MirageDataset([Query(id=str(i), language="sw", text="?") for i in (7, 8)])
    mapping: Any = {8: "nane", 7: "saba"}
    assert texts(respond(mapping, queries)) == ["saba", "nane"]


def test_unknown_query_ids_are_errors_with_the_nearest(tmp_path: Path) -> None:
    stray = (Response(query_id="q1", text="moja"),)
    path = tmp_path / "run.jsonl"
    partial_run(responses=stray).save(path)
    for given_as in ({"q1": "moja"}, partial_run(responses=stray), path):
        with pytest.raises(
            UnknownNameError, match=r"query 'q1' in maswali.*'m'; did you mean 'q\d\d'"
        ):
            respond(given_as, QUERIES, "m")


def test_run_in_another_language_is_an_error() -> None:
    with pytest.raises(DatasetError, match="is in 'de', but maswali is in 'sw'"):
        respond(partial_run(language="de"), QUERIES)


@pytest.mark.parametrize("nothing", [{}, {"q01": None}, {"q01": 1}])
def test_a_recording_without_any_answer_is_an_error(nothing: Any) -> None:
    with pytest.raises(GenerationError, match="failed on all 14 queries"):
        respond(nothing, QUERIES)


def test_a_system_that_cannot_answer_is_an_error(tmp_path: Path) -> None:
    nothing: Any = 34
    with pytest.raises(DatasetError, match="34 cannot answer queries; pass a function"):
        respond(nothing, QUERIES)
    with pytest.raises(DatasetError, match=r"absent\.jsonl"):
        respond(tmp_path / "absent.jsonl", QUERIES)


# Generators ---------------------------------------------------------------------------------------


class Third:
    """A generator that is not the library's, and answers a third of the queries."""

    name = "third"

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        assert not progress
        responses = tuple(
            Response(query_id=query.id, text=echo(query), shown=("p",)) for query in dataset[::-3]
        )
        run = Run(model=self.name, language=dataset.language, responses=responses)
        if out is not None:
            run.save(out)
        return run


def test_any_generator_is_a_model(tmp_path: Path) -> None:
    assert isinstance(Third(), Generator)
    run = respond(Third(), QUERIES, "mine", progress=False, out=tmp_path / "run.jsonl")
    assert run.model == "mine"
    assert [response.query_id for response in run] == list(QUERIES.query_ids)
    assert [response.query_id for response in run if response.text] == ["q02", *run_ids(5, 15, 3)]
    assert run["q02"] == Response(query_id="q02", text="jibu la Swali 2?", shown=("p",))
    assert reason(run, "q01") == "no response to this query"
    assert len(Run.load(tmp_path / "run.jsonl", language="sw")) == 5
    with pytest.raises(UnknownNameError, match=r"query 'q14' in .*, answered by model 'm'"):
        respond(_Elsewhere(), QUERIES[:3], "m", progress=False)


def run_ids(*numbers: int) -> list[str]:
    return [f"q{i:02d}" for i in range(*numbers)]


class _Elsewhere(Third):
    """A generator that answers other queries than those of the dataset."""

    def run(self, *_: Any, **settings: Any) -> Run:
        return super().run(QUERIES, **settings)


@pytest.mark.parametrize("model", [echo, echo_later, Client()])
def test_a_function_is_a_generator(model: Any) -> None:
    callable_generator = CallableGenerator(model, "m")
    assert isinstance(callable_generator, Generator)
    assert callable_generator.run(QUERIES, progress=False) == respond(
        model, QUERIES, "m", progress=False
    )
    assert repr(callable_generator) == "CallableGenerator('m')"


def test_a_recorded_run_is_a_generator(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    partial_run().save(path)
    for source in (partial_run(), path, str(path)):
        replay_generator = ReplayGenerator(source, "m")
        assert isinstance(replay_generator, Generator)
        assert replay_generator.run(QUERIES, progress=False) == respond(source, QUERIES, "m")
        assert repr(replay_generator) == "ReplayGenerator('m')"
    assert ReplayGenerator({"q02": "mbili"}).run(QUERIES)["q02"].text == "mbili"


def test_a_run_prints_in_one_line() -> None:
    run = respond(fail, QUERIES, "m", progress=False)
    assert repr(run) == str(run) == "Run('m', language='sw', responses=14, failed=4)"


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_an_interrupted_run_resumes(is_async: bool, tmp_path: Path) -> None:
    query_ids: list[str] = []
    stop_at = "q06"

    def model(query: Query) -> str:
        query_ids.append(query.id)
        if query.id == stop_at:
            raise KeyboardInterrupt
        return fail(query)

    async def model_later(query: Query) -> str:
        return model(query)

    callable_generator = CallableGenerator(model_later if is_async else model, "m", concurrency=1)
    out = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        callable_generator.run(QUERIES, out=out, progress=False)
    assert texts(Run.load(out, language="sw")) == [EXPECTED[0], None, None, EXPECTED[3], None]
    query_ids.clear()
    stop_at = ""
    run = callable_generator.run(QUERIES, out=out, progress=False)
    assert query_ids == ["q02", "q03", "q05", *run_ids(6, 15)]
    assert run == respond(fail, QUERIES, "m", progress=False)
    assert Run.load(out, language="sw", model="m") == run


def test_recorded_responses_fill_the_gaps_of_the_file(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    respond({"q01": "kwanza", "q04": "nne"}, QUERIES, out=out)
    run = respond(partial_run(), QUERIES, out=out)
    assert texts(run)[:5] == ["kwanza", None, "tatu", "nne", None]
    assert reason(run, "q02") == "ReadTimeout"
    assert Run.load(out, language="sw", model="other") == run


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            '{"query_id":"q01","text":"a"}\n{"query_id":"q01","text":"b"}\n',
            "two responses to query 'q01'",
        ),
        ('{"query_id":"q01","text":"a"}\n{"query_id":"q02"}\n', r"line 2, field 'text'"),
        ('{"query_id":"q01","text":"a"}\nnothing\n', "line 2: not JSON"),
    ],
)
def test_a_file_that_is_no_run_is_an_error_and_stays(lines: str, why: str, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    out.write_text(lines)
    with pytest.raises(DatasetError, match=rf"run\.jsonl.*{why}"):
        respond(echo, QUERIES, out=out, progress=False)
    assert out.read_text() == lines


def test_a_file_that_lost_the_end_of_its_last_line(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    whole = respond(echo, QUERIES, out=out, progress=False)
    out.write_bytes(out.read_bytes()[:-9])
    query_ids: list[str] = []

    def again(query: Query) -> str:
        query_ids.append(query.id)
        return echo(query)

    assert respond(again, QUERIES, out=out, progress=False) == whole
    assert query_ids == ["q14"]


def test_systems_get_no_gold() -> None:
    gold = MirageDataset(
        [
            Query(
                id="a",
                language="sw",
                text="?",
                passages=(Passage(id="p", text="x"),),
                relevant=("p",),
                reference="##Answer: x [p]",
                answerable=True,
                answers=["x"],
                wrong_answers=["y"],
                metadata={"kind": "near_miss"},
            )
        ]
    )
    queries: list[Query] = []

    def system(query: Query) -> str:
        queries.append(query)
        return "x"

    async def later(query: Query) -> str:
        return system(query)

    class Own:
        name = "own"

        def run(
            self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
        ) -> Run:
            texts = {query.id: system(query) for query in dataset}
            return respond(texts, dataset, out=out, progress=progress)

    for each in (system, later, Own()):
        assert respond(each, gold, progress=False)["a"].text == "x"
    CallableGenerator(system).run(gold, progress=False)
    run_in_batches(
        "m", gold, lambda batch: [answered(q, system(q)) for q in batch], 2, None, progress=False
    )
    assert len(queries) == 5

    def asked_for(query: Query) -> Prompt:
        system(query)
        return RagPrompt()(query)

    nobody = "http://127.0.0.1:9"  # the discard port: no service is there
    for generator in (
        HTTPGenerator(nobody, request=lambda query: {"query": system(query)}, retries=0),
        OpenAIGenerator(
            "m", prompt=asked_for, base_url=nobody, api_key="k", retries=0, cache=False
        ),
    ):
        with pytest.raises(GenerationError):
            generator.run(gold, progress=False)
    assert len(queries) == 7
    for query in queries:
        assert query == gold["a"].without_gold()
        assert (query.relevant, query.reference, query.answerable) == ((), None, None)
        assert (query.answers, query.wrong_answers, query.metadata) == ((), (), {})
        assert query.passages == gold["a"].passages


# Functions that hang, names that are none --------------------------------------------------------


def test_a_function_that_hangs_fails_its_query_alone() -> None:
    free = threading.Event()

    def answer(query: Query) -> str:
        if query.id == "q03":
            free.wait(60)
        return echo(query)

    started = time.monotonic()
    run = respond(answer, QUERIES, timeout=0.3, progress=False)
    free.set()
    assert time.monotonic() - started < 30
    assert [(r.query_id, r.error) for r in run.failed] == [
        ("q03", "no answer arrived within 0.3 s")
    ]
    assert run["q04"].text == echo(QUERIES["q04"])


def test_an_async_function_that_hangs_is_cancelled() -> None:
    cancelled = []

    async def answer(query: Query) -> str:
        try:
            await asyncio.sleep(60 if query.id == "q03" else 0)
        except asyncio.CancelledError:
            cancelled.append(query.id)
            raise
        if query.id == "q05":
            raise TimeoutError("of its own")
        return echo(query)

    run = respond(answer, QUERIES, timeout=0.3, progress=False)
    assert [r.error for r in run.failed] == [
        "no answer arrived within 0.3 s",
        "TimeoutError: of its own",
    ]
    assert cancelled == ["q03"]


def test_an_error_before_the_timeout_is_the_functions_own() -> None:
    def answer(query: Query) -> str:
        if query.id == "q03":
            raise ValueError("no")
        return echo(query)

    (failure,) = respond(answer, QUERIES, timeout=60, progress=False).failed
    assert failure.error == "ValueError: no"
    with pytest.raises(SettingError, match="timeout must be above 0 seconds"):
        respond(answer, QUERIES, timeout=0, progress=False)


@pytest.mark.parametrize("name", ["", "a\ud800b"])
def test_an_invalid_model_name_is_refused_before_any_call(name: str) -> None:
    query_ids: list[str] = []

    def answer(query: Query) -> str:
        query_ids.append(query.id)
        return echo(query)

    with pytest.raises(DatasetError, match="model must be the name of the system"):
        respond(answer, QUERIES, name, progress=False)
    with pytest.raises(DatasetError, match="model must be the name of the system"):
        CallableGenerator(answer, name).run(QUERIES, progress=False)
    assert query_ids == []


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
def test_an_invalid_path_is_refused(bad: str, tmp_path: Path) -> None:
    for work in (
        lambda: respond(echo, QUERIES, out=tmp_path / bad, progress=False),
        lambda: respond(echo, QUERIES, progress=False).save(tmp_path / bad),
        lambda: Run.load(tmp_path / bad, language="sw"),
        lambda: MirageDataset.load(tmp_path / bad),
    ):
        with pytest.raises(DatasetError, match="is not a valid path: it contains NUL or"):
            work()
