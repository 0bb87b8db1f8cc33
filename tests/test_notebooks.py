"""What a notebook shows: bars of progress where stderr is no terminal, and records as tables."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from mirage._base.progress import progress_bar
from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite
from mirage.generation import respond
from mirage.leaderboard import Leaderboard


def shown(monkeypatch: pytest.MonkeyPatch, progress: bool = True) -> str:
    """What a bar writes to a stderr that is no terminal."""
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "stdout", stderr)  # where tqdm puts bars of a notebook
    with progress_bar(3, "votes", progress) as bar:
        bar.update(3)
    return stderr.getvalue()


def test_a_kernel_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch) == ""
    for config, bar in (({"IPKernelApp": {}}, True), ({"TerminalIPythonApp": {}}, False)):
        shell = SimpleNamespace(config=config)
        ipython = SimpleNamespace(get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        assert ("votes: 100%" in shown(monkeypatch)) == bar
        assert shown(monkeypatch, progress=False) == ""


def test_records_are_tables() -> None:
    dataset = MirageDataset.bundled("sw")
    run = respond(lambda query: f"<b>{query.id}</b> [1]", dataset, "<i>me</i>", progress=False)
    page = FeatureSuite(["citation_recall@10", "answer_bleu"]).score(dataset, run)._repr_html_()
    assert "<table>" in page
    assert "<td><bdi>30</bdi></td>" in page  # queries that have a citation_recall@10
    assert "&lt;i&gt;me" in page
    page = dataset._repr_html_()
    assert page.count("<tr>") == 11
    assert "and 30 more" in page
    assert "anchor/" in Leaderboard.bundled("sw")._repr_html_()
