"""A grid of pipelines: planned, run, compared, and every response on one page.

    python examples/grid.py [PAGE.html]

Retrieval uses BM25, and the answers are the short answers themselves, so the grid runs offline in
seconds. In your own file, use generators of kind `openai`, `http` or `transformers`. Run the script
twice: the second run has nothing left to do.
"""

import argparse
from pathlib import Path

from mirage.grids import Grid, component_effects
from mirage.report import write_grid

FILE = """\
name: words
datasets:
  sw: {form: bundled, language: sw}
corpora:
  sw: {dataset: sw, language: sw}
retrievers:
  bm25: {kind: bm25}
  flat: {kind: bm25, b: 0.1, k1: 1.5}
  both: {kind: rrf, of: [bm25, flat]}
generators:
  gold: {kind: oracle-answer}
grid:
  dataset: [sw]
  corpus: [sw]
  retriever: [bm25, flat, both]
  generator: [gold]
  show_k: [2, 5]
metrics: [qa_match, "R@5", "nDCG@10"]
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", nargs="?", help="HTML page to write")
    options = parser.parse_args()
    path = Path("words.yaml")
    path.write_text(FILE)
    grid = Grid.read(path)
    print(grid.plan(), "\n")

    table = grid.run(progress=False)
    print(table, "\n")
    print(table.compare("nDCG@10", baseline={"retriever": "bm25"}), "\n")
    print(component_effects(table, "nDCG@10"))
    if options.report:
        write_grid(table, options.report, runs=grid.runs(), datasets=grid.datasets)
        print(f"{options.report} shows every response")
