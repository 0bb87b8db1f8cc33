"""``bergen_*`` against BERGEN's own figures, on every recorded row; time a thousand responses.

    MIRAGE_DATA=../shared/data python benchmarks/short_answers.py

Needs the extra ``bergen``. Prints for each measure the greatest difference from what BERGEN's own
module gave, the seconds that a thousand responses take, and the same for ``qa_*`` of that name.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from mirage.features import Answered, answered, feature
from mirage.models import Query, Response

MEASURES = {
    "M": "match",
    "Recall": "recall",
    "Recall_char3gram": "char3_recall",
    "Rouge-1": "rouge1",
    "Rouge-L": "rougeL",
}


def main() -> None:
    """Print a line a measure."""
    path = Path(os.environ.get("MIRAGE_DATA", "../shared/data")) / "bergen" / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    items = [
        answered(
            Query(id="q", language=row["language"], text="?", answers=[row["labels"]]),
            Response(query_id="q", text=row["response"]),
        )
        for row in rows
    ]
    print(f"{len(rows)} responses in {len({row['language'] for row in rows})} languages")
    print(f"{'':18}{'greatest difference':>20}{'s / 1000':>10}{'mean qa_*':>12}{'s / 1000':>10}")
    for measure, name in MEASURES.items():
        values, seconds = timed(f"bergen_{name}", items)
        pairs = zip(values, rows, strict=True)
        worst = max(abs(float(v) - row["metrics"][measure]) for v, row in pairs)
        line = f"{name:18}{worst:20.1e}{seconds:10.2f}"
        if "rouge" not in name:
            qa, qa_seconds = timed(f"qa_{name}", items)
            numbers = [value for value in qa if isinstance(value, float)]
            line += f"{sum(numbers) / len(numbers):12.3f}{qa_seconds:10.2f}"
        print(line)


def timed(name: str, items: list[Answered]) -> tuple[list[Any], float]:
    """The values of a feature, and the seconds that a thousand responses take."""
    start = time.perf_counter()
    values = list(feature(name).compute(items))
    return values, (time.perf_counter() - start) / len(items) * 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    main()
