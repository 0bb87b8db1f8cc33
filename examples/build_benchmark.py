"""Build MIRAGE-Bench's evaluation sets from MIRACL's judgments, or one from files of your own.

    MIRAGE_DATA=../shared/data python examples/build_benchmark.py
    python examples/build_benchmark.py sw topics.tsv qrels.tsv passages.jsonl

With files of your own, every query that has relevant and non-relevant passages is kept.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import get_args

from mirage.testsets import MIRACL_RECIPE, build_benchmark
from mirage.testsets.evaluation_sets import Benchmark, DropReason

REASONS = get_args(DropReason)


def miracl(folder: Path, language: str) -> Benchmark:
    """Return the part of MIRACL's development topics that MIRAGE-Bench uses."""
    topics, qrels = (folder / kind / f"{language}-dev.tsv" for kind in ("topics", "qrels"))
    return build_benchmark(topics, qrels, language=language, recipe=MIRACL_RECIPE[language])


def row(language: str, benchmark: Benchmark, paper: object) -> str:
    """Return a line of the table."""
    dropped = Counter(benchmark.dropped.values())
    kept = len(benchmark.dataset)
    topics = kept + dropped.total() - dropped["no topic"]
    counts = "".join(f"{dropped[reason]:{len(reason) + 2}}" for reason in REASONS)
    return f"{language:8}{topics:8}{counts}{kept:8}{paper:>8}"


def main(*arguments: str) -> None:
    """Print how many queries there are, are dropped by reason, and are kept, and the paper's."""
    heads = "".join(f"  {reason}" for reason in REASONS)
    print(f"language  topics{heads}    kept   paper")
    if arguments:
        language, *files = arguments
        print(row(language, build_benchmark(*files, language=language), "-"))
        return
    data = Path(os.environ.get("MIRAGE_DATA", "../shared/data"))
    published = json.loads((data / "published" / "mirage_bench.json").read_text(encoding="utf-8"))
    for language, count in published["evaluation_queries"].items():
        print(row(language, miracl(data / "miracl", language), count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", nargs="?")
    parser.add_argument("files", nargs="*", metavar="FILE", help="topics, qrels and passages")
    options = parser.parse_args()
    main(*filter(None, (options.language, *options.files)))
