"""Files of answers that a run resumes: answers of other models, prompts and questions."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer

from mirage import LLM, MirageDataset, Passage, Query, respond
from mirage.errors import DatasetError
from mirage.generation import HTTPGenerator, OpenAIGenerator, RagPrompt
from mirage.pipeline import Pipeline
from mirage.retrieval import BM25

ENGLISH = MirageDataset.bundled("en").sample(3)
PASSAGES = [Passage(id=f"p{i}", text=f"Tower number {i} was built.") for i in range(3)]


def generator(server: ChatServer, model: str = "alpha", **settings: Any) -> OpenAIGenerator:
    prompt = settings.pop("prompt", None)
    settings = {"base_url": server.url, "cache": False} | settings
    return OpenAIGenerator(LLM(model, **settings), prompt=prompt)


def reworded(dataset: MirageDataset) -> MirageDataset:
    first, *rest = dataset
    return MirageDataset(
        [first.model_copy(update={"text": f"Now: {first.text}"}), *rest], name=dataset.name
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"model": "beta"}, "model (was 'alpha', is now 'beta')"),
        ({"temperature": 0.7}, "temperature (was 0.0, is now 0.7)"),
        ({"max_tokens": 9}, "max_tokens (was 1024, is now 9)"),
        ({"prompt": RagPrompt(order="rank", passage_tokens=20)}, "these differ: the prompt."),
        ({"base_url": "http://localhost:9/v1"}, "is now 'http://localhost:9/v1')"),
    ],
)
def test_answers_made_with_other_settings_are_not_reused(
    server: ChatServer, tmp_path: Path, settings: dict[str, Any], expected: str
) -> None:
    out = tmp_path / "g.jsonl"
    respond(generator(server), ENGLISH, out=out, progress=False)
    before, calls = out.read_bytes(), len(server.requests)
    with pytest.raises(DatasetError) as error:
        respond(generator(server, **settings), ENGLISH, out=out, progress=False)
    assert expected in str(error.value)
    assert "Choose another file" in str(error.value)
    assert (out.read_bytes(), len(server.requests)) == (before, calls)
    respond(generator(server), ENGLISH, out=out, progress=False)
    assert len(server.requests) == calls


def test_answers_to_other_questions_are_not_reused(server: ChatServer, tmp_path: Path) -> None:
    out = tmp_path / "g.jsonl"
    respond(generator(server), ENGLISH, out=out, progress=False)
    with pytest.raises(DatasetError, match="1 of 3 answered questions or their passages"):
        respond(generator(server), reworded(ENGLISH), out=out, progress=False)
    # As the error says, a question is asked again if its line is deleted.
    out.write_text("".join(out.read_text().splitlines(keepends=True)[1:]))
    respond(generator(server), reworded(ENGLISH), out=out, progress=False)
    assert len(server.requests) == 4


def test_new_questions_are_added_to_a_file(server: ChatServer, tmp_path: Path) -> None:
    out = tmp_path / "g.jsonl"
    respond(generator(server), ENGLISH[:2], out=out, progress=False)
    assert len(respond(generator(server), ENGLISH, out=out, progress=False)) == 3
    assert len(server.requests) == 3


def test_a_pipeline_does_not_reuse_answers_of_another_model(
    server: ChatServer, tmp_path: Path
) -> None:
    out, bm25 = tmp_path / "p.jsonl", BM25.build(PASSAGES, language="en")
    queries = [Query(id="q", language="en", text="Which tower?")]
    dataset = MirageDataset(queries, name="towers")
    Pipeline(bm25, generator=generator(server)).run(dataset, out=out, progress=False)
    # If the retrieved passages change, the query is asked again.
    Pipeline(bm25, generator=generator(server), show_k=1).run(dataset, out=out, progress=False)
    for data, temperature in ((dataset, 1.0), (reworded(dataset), 0.0)):
        llm = generator(server, temperature=temperature)
        pipeline = Pipeline(bm25, generator=llm, show_k=1)
        with pytest.raises(DatasetError, match="the answers in the file belong to another run"):
            pipeline.run(data, out=out, progress=False)


def test_repeats_share_a_record(server: ChatServer, tmp_path: Path) -> None:
    out = tmp_path / "g.jsonl"
    respond(generator(server), ENGLISH, repeats=2, out=out, progress=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.jsonl", "g.jsonl.settings"]
    respond(generator(server), ENGLISH, repeats=3, out=out, progress=False)
    assert len(server.requests) == 9
    with pytest.raises(DatasetError, match="model"):
        respond(generator(server, "beta"), ENGLISH, repeats=3, out=out, progress=False)


def test_a_file_without_a_record_is_used_with_a_note(
    server: ChatServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "g.jsonl"
    respond(generator(server), ENGLISH, out=out, progress=False)
    assert caplog.text == ""
    (tmp_path / "g.jsonl.settings").unlink()
    with caplog.at_level(logging.WARNING):
        respond(generator(server, "beta"), ENGLISH, out=out, progress=False)
    assert "nothing records which model" in caplog.text
    assert "g.jsonl.settings is missing or damaged" in caplog.text
    assert len(server.requests) == 3


def test_functions_and_services_are_identified_too(tmp_path: Path) -> None:
    out = tmp_path / "f.jsonl"
    respond(repr, ENGLISH, "one", out=out, progress=False)
    with pytest.raises(DatasetError, match="name \\(was 'one', is now 'two'\\)"):
        respond(ascii, ENGLISH, "two", out=out, progress=False)
    service = HTTPGenerator("http://localhost:9/ask")
    with pytest.raises(DatasetError, match="service \\(was not set"):
        respond(service, ENGLISH, out=out, progress=False)


def test_a_prompt_that_changes_in_each_call_does_not_stop_a_run(
    server: ChatServer, tmp_path: Path
) -> None:
    prompt, calls = RagPrompt(), iter(range(1000))

    def dated(query: Query) -> Any:
        number = next(calls)
        return prompt(query.model_copy(update={"text": f"{query.text} (at {number})"}))

    for _ in range(2):
        llm = generator(server, prompt=dated)
        respond(llm, ENGLISH, out=tmp_path / "g.jsonl", progress=False)
    assert len(server.requests) == 3


def test_a_result_store_needs_no_record(server: ChatServer, tmp_path: Path) -> None:
    """The key of a step in a grid's store identifies all settings already."""
    out = tmp_path / ".step.0123456789abcdef.part" / "responses.jsonl"
    respond(generator(server), ENGLISH, out=out, progress=False)
    assert [path.name for path in out.parent.iterdir()] == ["responses.jsonl"]
