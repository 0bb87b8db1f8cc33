"""A grid with a retriever, a prompt and a generator of your own.

    python examples/own_parts.py

Your parts get what those of the library have: caching, resuming, tables and tests. Run it twice:
the second time nothing is left to do. `version` identifies the results of a part in the store, so
raise it when you change the part.
"""

import argparse
from pathlib import Path

from mirage.grids import Grid
from mirage.retrieval import RetrievalRun

FILE = """\
name: own
datasets: {sw: {form: bundled, language: sw}}
corpora: {sw: {dataset: sw}}
retrievers: {bm25: {kind: bm25}, titles: {kind: own, version: 1}}
prompts:
  mine: {kind: own, version: 1}
  plain: {kind: template, user: "{passages}\\n\\nAnswer in {language}: {question}"}
generators: {echo: {kind: own, version: 1}}
grid: {dataset: sw, corpus: sw, retriever: [bm25, titles], prompt: [mine, plain], generator: echo}
metrics: [qa_char3_recall, "R@5"]
"""


class Titles:
    """A retriever that counts the words that question and title have in common."""

    def __init__(self, corpus):
        self.passages = list(corpus)

    def retrieve(self, queries, k):
        """Return the best passages of each query."""
        return RetrievalRun.of({query.id: self._scores(query) for query in queries}).top(k)

    def _scores(self, query):
        words = set(query.text.lower().strip("?").split())
        shared = {p.id: len(words & set(p.title.lower().split())) for p in self.passages}
        return {id_: score for id_, score in shared.items() if score}


def prompt(query):
    """Show the question and the first passage."""
    return f"{query.text}\n" + "\n".join(passage.text for passage in query.passages[:1])


def echo(_, prompt):
    """Answer a query with the last line of its prompt; put your own LLM here."""
    return prompt.messages[-1]["content"].splitlines()[-1]


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    path = Path("own.yaml")
    path.write_text(FILE)
    grid = Grid.read(path, parts={"titles": Titles, "mine": prompt, "echo": echo})
    print(grid.plan(), "\n")
    print(grid.run(progress=False))
