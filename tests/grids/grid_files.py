"""Grid files for tests: the bundled queries, BM25, and an LLM on loopback."""

from __future__ import annotations

from pathlib import Path

__all__ = ["GRID", "grid_file"]

GRID = """\
name: small
datasets:
  sw: {{form: bundled, language: sw}}
corpora:
  sw: {{dataset: sw, language: sw}}
retrievers:
  bm25: {{kind: bm25}}
  flat: {{kind: bm25, b: 0.1, k1: 1.5}}
  both: {{kind: rrf, of: [bm25, flat], depth: 20}}
generators:
  chat: {{kind: openai, model: chat, base_url: "{url}"}}
prompts:
  short: {{kind: short-answer}}
grid:
  dataset: [sw]
  corpus: [sw]
  retriever: [none, oracle, bm25, flat, both]
  generator: [chat]
  prompt: [short]
  show_k: [2, 5]
metrics: [qa_match, "R@5"]
"""


def grid_file(folder: Path, url: str = "http://127.0.0.1:9/v1", **changes: str) -> Path:
    """Write a small grid file; ``changes`` replace the lines that begin with their keys."""
    lines = []
    for line in GRID.format(url=url).splitlines():
        key = line.strip().partition(":")[0]
        lines.append(changes.pop(key, line) if key in changes else line)
    assert not changes, f"no lines {list(changes)}"
    path = folder / "grid.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
