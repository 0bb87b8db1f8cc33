"""The user's own retrievers, rerankers, prompts and generators in a grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_server import ChatServer, last_user_text

from mirage.corpus import Corpus
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError
from mirage.generation import Prompt
from mirage.generation.callables import CallableGenerator
from mirage.grids import Grid
from mirage.models import Passage, Query
from mirage.retrieval import RetrievalRun

FILE = """\
name: small
datasets:
  sw: {form: bundled, language: sw}
corpora:
  sw: {dataset: sw, language: sw}
retrievers:
  bm25: {kind: bm25, rewriter: louder}
  mine: {kind: own, version: 1}
rerankers:
  reversed: {kind: own, version: 1}
rewriters:
  louder: {kind: own, version: 1}
processors:
  short: {kind: own, version: 1}
generators:
  echo: {kind: own, version: 1}
prompts:
  ask: {kind: own, version: 1}
  plain: {kind: template, user: "{passages} {question}"}
grid:
  dataset: [sw]
  corpus: [sw]
  retriever: [bm25, mine]
  reranker: [none, reversed]
  processor: [none, short]
  generator: [echo]
  prompt: [ask, plain]
  show_k: [2]
metrics: [qa_match, "R@5"]
"""


class Longest:
    """Retrieve the longest passages for every question."""

    calls: list[Query]

    def __init__(self, corpus: Corpus) -> None:
        self.ids = sorted(corpus, key=lambda passage: -len(passage.text))
        self.corpus = corpus

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        scores = {passage.id: float(len(passage.text)) for passage in self.ids}
        hits = {}
        for query in queries:
            CALLS.append(query)
            hits[query.id] = scores
        return RetrievalRun.of(hits).top(k)


class Reversed:
    def rerank(
        self, run: RetrievalRun, _: Corpus, queries: Iterable[Query], depth: int
    ) -> RetrievalRun:
        CALLS.extend(queries)
        orders = {id_: run[id_].passage_ids[:depth] for id_ in run}
        return RetrievalRun.of(
            {id_: {passage: n for n, passage in enumerate(ids)} for id_, ids in orders.items()}
        )


class Louder:
    def rewrite(self, queries: Sequence[Query]) -> list[Query]:
        CALLS.extend(queries)
        return [query.model_copy(update={"text": query.text.upper()}) for query in queries]


def shorten(query: Query, passages: Sequence[Passage]) -> list[Passage]:
    CALLS.append(query)
    return [passage.model_copy(update={"text": passage.text[:40]}) for passage in passages]


def ask(query: Query) -> str:
    CALLS.append(query)
    return "\n".join(["ask", *(passage.text for passage in query.passages), query.text])


def echo(query: Query, prompt: Prompt) -> str:
    CALLS.append(query)
    return str(prompt.messages[-1]["content"])


CALLS: list[Query] = []
PARTS: Mapping[str, Any] = {
    "mine": Longest, "reversed": Reversed(), "louder": Louder(), "short": shorten,
    "echo": echo, "ask": ask,
}  # fmt: skip


def write(folder: Path, **changes: str) -> Path:
    text = FILE
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "small.yaml"
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def test_own_parts_run_once_and_see_no_gold(tmp_path: Path) -> None:
    grid = Grid.read(write(tmp_path), parts=PARTS)
    table = grid.run(limit=4, progress=False)
    assert [cell.failure for cell in table] == [""] * 16
    assert CALLS
    assert not any(query.answers or query.relevant or query.reference for query in CALLS)
    calls = len(CALLS)
    again = Grid.read(tmp_path / "small.yaml", parts=PARTS).run(limit=4, progress=False)
    assert len(CALLS) == calls
    assert again.to_json() == table.to_json()
    runs = dict(zip(range(16), grid.runs(limit=4), strict=True))
    plain, asked = (
        next(
            runs[i]
            for i, cell in enumerate(grid.cells)
            if (cell["retriever"], cell["reranker"], cell["processor"], cell["prompt"])
            == ("mine", "reversed", "short", prompt)
        )
        for prompt in ("plain", "ask")
    )
    assert plain is not None
    assert asked is not None
    longest = sorted(
        Corpus.build({p.id: p for q in MirageDataset.bundled("sw") for p in q.passages}.values()),
        key=lambda passage: -len(passage.text),
    )
    # Fifty are retrieved, and the reversed order shows the last two of them.
    shown = [longest[49].id, longest[48].id]
    assert [passage.id for passage in asked["q01"].passages] == shown
    assert str(asked["q01"].text).startswith(f"ask\n{longest[49].text[:40]}\n")
    assert str(plain["q01"].text).endswith(MirageDataset.bundled("sw")["q01"].text)


def test_an_own_part_equals_a_part_of_the_library(tmp_path: Path, server: ChatServer) -> None:
    server.answer = lambda request: last_user_text(request)[-200:]
    text = (
        write(tmp_path)
        .read_text()
        .replace(
            "  echo: {kind: own, version: 1}",
            f'  echo: {{kind: openai, model: m, base_url: "{server.url}"}}',
        )
    )
    (tmp_path / "small.yaml").write_text(text)
    parts = {name: part for name, part in PARTS.items() if name != "echo"}
    table = Grid.read(tmp_path / "small.yaml", parts=parts).run(limit=3, progress=False)
    assert [cell.failure for cell in table] == [""] * 16
    sent = [last_user_text(request) for request in server.requests]
    assert sum(text.startswith("ask\n") for text in sent) == len(sent) / 2
    template = next(text for text in sent if not text.startswith("ask\n"))
    assert template.endswith("?")


def test_the_version_identifies_results(tmp_path: Path) -> None:
    table = Grid.read(write(tmp_path), parts=PARTS).run(limit=2, progress=False)
    # A table needs no part, because each entry has a version.
    stored = Grid.read(tmp_path / "small.yaml").table(limit=2)
    assert stored.to_json() == table.to_json()
    calls = len(CALLS)
    changed = write(tmp_path, **{"echo: {kind: own, version: 1}": "echo: {kind: own, version: 2}"})
    assert {cell.failure.partition(": ")[2] for cell in Grid.read(changed).table(limit=2)} == {
        "not run yet"
    }
    Grid.read(changed, parts=PARTS).run(limit=2, progress=False)
    assert len(CALLS) > calls


def test_a_fingerprint_takes_the_place_of_a_version(tmp_path: Path) -> None:
    path = write(tmp_path, **{"echo: {kind: own, version: 1}": "echo: {kind: own}"})

    class Echo(CallableGenerator):
        fingerprint = "a"

    generator = Echo(lambda query: query.text, "echo")
    Grid.read(path, parts={**PARTS, "echo": generator}).run(limit=2, progress=False)
    steps = set(tmp_path.glob("small.store/generate/*"))
    Echo.fingerprint = "b"
    Grid.read(path, parts={**PARTS, "echo": generator}).run(limit=2, progress=False)
    assert len(set(tmp_path.glob("small.store/generate/*"))) == 2 * len(steps)
    with pytest.raises(DatasetError, match=r"line 16: generators\.echo: .*set 'version: 1'"):
        Grid.read(path, parts=PARTS)
    with pytest.raises(DatasetError, match=r"generators\.echo: .*set 'version: 1'"):
        Grid.read(path)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"ehco": echo}, "unknown entry 'ehco' of kind own; did you mean 'echo'"),
        ({"mine": 5}, "expected a function, or an object with a method 'retrieve', got int"),
        ({"reversed": shorten}, "expected an object with a method 'rerank', got shorten"),
        ({"reversed": Reversed}, "expected an object with a method 'rerank', got Reversed"),
    ],
)
def test_a_wrong_part_is_an_error_of_the_file(
    tmp_path: Path, parts: dict[str, Any], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        Grid.read(write(tmp_path), parts=parts)


def test_parts_have_different_names(tmp_path: Path) -> None:
    path = write(tmp_path, **{"  ask: {": "  echo: {", "[ask, plain]": "[echo, plain]"})
    with pytest.raises(DatasetError, match="passed by the names"):
        Grid.read(path, parts=PARTS)


def test_a_run_without_a_part_fails_before_any_step(tmp_path: Path) -> None:
    grid = Grid.read(write(tmp_path), parts={"mine": Longest})
    assert grid.plan(limit=2)["generate"].items == 32
    with pytest.raises(SettingError, match=r"parts=\{'reversed': \.\.\.\}"):
        grid.run(progress=False)
    assert not (tmp_path / "small.store").exists()


def test_results_of_the_wrong_type_fail_only_their_cells(tmp_path: Path) -> None:
    class Broken(Longest):
        def retrieve(self, queries: Iterable[Query], _: int) -> Any:
            return {query.id: ["a"] for query in queries}

    grid = Grid.read(write(tmp_path), parts={**PARTS, "mine": Broken, "ask": lambda _: 7})
    table = grid.run(limit=2, progress=False)
    for cell in table.where(retriever="mine"):
        assert "retrievers.mine must return a RetrievalRun" in cell.failure
    for cell in table.where(retriever="bm25", prompt="ask"):
        assert cell.failure.endswith("must return a text, a list of messages or a Prompt, got int")
    for cell in table.where(retriever="bm25", prompt="plain"):
        assert not cell.failure
        assert np.isfinite(cell.scores["R@5"].mean)


def test_a_generator_with_a_prompt_needs_one(tmp_path: Path) -> None:
    path = write(tmp_path, **{"prompt: [ask, plain]": "prompt: [none]"})
    table = Grid.read(path, parts=PARTS).run(limit=1, progress=False)
    assert all("list a prompt in grid.prompt" in cell.failure for cell in table)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('user: "{passages} {question.text}"', "not the plain name of a slot"),
        ('user: "{passages} {quesion}"', "did you mean 'question'"),
        ('user: "{passages}"', "no {question}"),
        ('user: "{question}"', "needs the slot {passages}"),
        ('user: "{passages} {question}", examples: [{question: a}]', "'answer' is missing"),
        ('user: "{passages} {question}", context_tokens: 10', "do not fit"),
    ],
)
def test_templates_are_checked_when_the_file_is_read(
    tmp_path: Path, entry: str, message: str
) -> None:
    path = write(tmp_path, **{'user: "{passages} {question}"': entry})
    with pytest.raises(DatasetError) as error:
        Grid.read(path, parts=PARTS)
    assert message in str(error.value)
    assert ", line 19: prompts.plain" in str(error.value)


def test_closed_book_cells_need_a_closed_book_template(tmp_path: Path) -> None:
    retriever = {"retriever: [bm25, mine]": "retriever: [none]"}
    with pytest.raises(DatasetError, match=r"prompts\.plain: .* set 'closed_book_user'"):
        Grid.read(write(tmp_path, **retriever), parts=PARTS)
    entry = {'{question}"': '{question}", closed_book_user: "Closed: {question}"'}
    table = Grid.read(write(tmp_path, **retriever, **entry), parts=PARTS)
    run = table.run(limit=1, progress=False) and table.runs(limit=1)[1]
    assert run is not None
    assert str(run["q01"].text).startswith("Closed: ")
