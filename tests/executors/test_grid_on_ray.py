"""A grid whose slow steps run on the workers of a Ray cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from llm_server import ChatServer, Reply
from tiny_models import sentence_transformer

from mirage.executors.ray import RayExecutor
from mirage.grids import Grid

pytestmark = pytest.mark.slow

GRID = """\
name: small
datasets:
  sw: {{form: bundled, language: sw}}
corpora:
  sw: {{dataset: sw, language: sw}}
retrievers:
  bm25: {{kind: bm25}}
  dense: {{kind: dense, model: "{model}"}}
generators:
  chat: {{kind: openai, model: chat, base_url: "{url}"}}
grid:
  dataset: sw
  corpus: sw
  retriever: [bm25, dense]
  generator: chat
  show_k: [2]
metrics: [qa_match, llm_eval, support_lexical, "R@5"]
llm_eval: {{judge: chat}}
"""


def answer(request: Mapping[str, Any]) -> Reply:
    text = str(request["messages"][-1]["content"])
    if "Judge the text" in text:
        return Reply(text="[[yes]]" if len(text) % 2 else "[[no]]")
    return Reply(text=text[-300:-200], delay=0.02)


def busy_workers() -> Iterator[int]:
    """Return the Ray processes that are at work; Ray puts the task into their titles."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes()
            if words.startswith(b"ray::") and not any(
                idle in words for idle in (b"IDLE", b"Agent")
            ):
                yield int(path.parent.name)


def test_a_grid_on_a_cluster_is_the_grid_also_where_a_worker_is_killed(
    tmp_path: Path, server: ChatServer, ray_of_two: RayExecutor
) -> None:
    server.answer = answer
    model = sentence_transformer(tmp_path)
    path = tmp_path / "grid.yaml"
    path.write_text(GRID.format(model=model, url=server.url))
    grid = Grid.read(path)
    killed: list[int] = []

    def kill_a_worker() -> None:
        while len(server.requests) < 20 or not (pids := list(busy_workers())):
            time.sleep(0.01)
        os.kill(pids[0], signal.SIGKILL)
        killed.append(pids[0])

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    there = grid.run(tmp_path / "there", executor=ray_of_two, progress=False)
    killer.join()
    here = grid.run(tmp_path / "here", progress=False)
    assert len(killed) == 1
    assert {cell.failure for cell in there} == {""}
    assert there.to_json() == here.to_json()
