"""The features ``bergen_*`` compared with BERGEN's own code on recorded responses, and their time.

    MIRAGE_DATA=../shared/data python validation/papers/short_answers.py

Needs the extra ``bergen``. Prints for each measure the largest difference from the value of
BERGEN's own module, the seconds per thousand responses, and the same for the ``qa_*`` feature with
this name.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage.features import Answered, answered, feature
from mirage.models import Query, Response

MEASURES = {
    "M": "match",
    "EM": "exact",
    "F1": "f1",
    "Precision": "precision",
    "Recall": "recall",
    "Recall_char3gram": "char3_recall",
    "Rouge-1": "rouge1",
    "Rouge-2": "rouge2",
    "Rouge-L": "rougeL",
}


def main(most: int | None) -> None:
    """Print a line for each measure, with at most this number of responses."""
    path = DATA / "bergen" / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:most]]
    items = [
        answered(
            Query(id="q", language=row["language"], text="?", answers=[row["labels"]]),
            Response(query_id="q", text=row["response"]),
        )
        for row in rows
    ]
    add_figure(len(rows), "responses")
    print(f"{len(rows)} responses in {len({row['language'] for row in rows})} languages")
    print(f"{'':18}{'greatest difference':>20}{'s / 1000':>10}{'mean qa_*':>12}{'s / 1000':>10}")
    for measure, name in MEASURES.items():
        values, seconds = timed(f"bergen_{name}", items)
        pairs = zip(values, rows, strict=True)
        worst = max(abs(float(v) - row["metrics"][measure]) for v, row in pairs)
        qa, qa_seconds = timed(f"qa_{name}", items)
        numbers = [value for value in qa if isinstance(value, float)]
        mean = sum(numbers) / len(numbers)
        add_figure(worst, measure, "largest difference")
        add_figure(seconds, measure, "s per thousand responses")
        add_figure(mean, f"qa_{name}", "mean")
        print(f"{name:18}{worst:20.1e}{seconds:10.2f}{mean:12.3f}{qa_seconds:10.2f}")


def timed(name: str, items: list[Answered]) -> tuple[list[Any], float]:
    """Return the values of a feature, and the seconds per thousand responses."""
    start = time.perf_counter()
    values = list(feature(name).compute(items))
    return values, (time.perf_counter() - start) / len(items) * 1000


if __name__ == "__main__":
    parser = script_parser(__doc__)
    options = parser.parse_args()
    require_data("bergen")
    main(100 if options.quick else None)
    save(parser, options)
