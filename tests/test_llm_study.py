"""The study of LLMs at an endpoint: estimate, answers, resuming and page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("openai", reason="the extra llm is not installed")


@pytest.fixture
def llms(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    for folder in ("papers", "_common"):
        monkeypatch.syspath_prepend(str(ROOT / "validation" / folder))
    import llms

    yield llms
    for name in ("llms", "_results", "_shared", "_pages"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_two_models_at_a_server(
    llms: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from llm_server import ChatServer

    from mirage import MirageDataset

    dataset = MirageDataset.bundled("sw")
    with ChatServer(lambda request: llms.made_up_answer(dataset, request)) as server:
        arguments = ["--model", "careful", "--model", "hasty", "--base-url", server.url]
        arguments += ["--language", "sw", "--level", "quick", "--folder", str(tmp_path)]
        arguments += ["--price", "1,2", "--closed-book"]
        llms.main([*arguments, "--dry-run"])
        estimated = capsys.readouterr().out
        assert "160 calls" in estimated
        assert "at most" in estimated
        assert not server.requests

        llms.main(arguments)
        printed = " ".join(capsys.readouterr().out.split())
        assert len(server.requests) == 160
        assert "careful: right on 40 of 40 queries" in printed
        assert "careful against hasty, query by query: better on" in printed
        page = (tmp_path / "sw-quick.html").read_text(encoding="utf-8")
        assert "Right without passages" in page

        # A killed run has a part of its answers; the rest comes from the cache or the server.
        path = tmp_path / "hasty-sw-quick.jsonl"
        path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:10]), "utf-8")
        sys.modules["_results"]._FIGURES.clear()
        llms.main(arguments)
        again = " ".join(capsys.readouterr().out.split())
        assert again.startswith("0 calls (and 160 answers from the cache)")
        assert len(server.requests) == 160
        assert len(path.read_text(encoding="utf-8").splitlines()) == 40
