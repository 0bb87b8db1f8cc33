"""Fit 1,000 models from 10 million judgments held as columns; print seconds and peak memory.

Run by ``bradley_terry.py`` in a process of its own, so that the peak is this fit's alone. It
includes the input columns: query numbers (int32), model names (Python strings) and scores.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

import numpy as np

from mirage.arena import BradleyTerry, Judgments

MODELS, QUERIES = 1_000, 20_000


def main(judgments_count: int) -> None:
    """Print one JSON object."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=MODELS)
    logits -= logits.mean()
    names = np.array([f"model-{i:04d}" for i in range(MODELS)], dtype=object)
    query = rng.integers(QUERIES, size=judgments_count, dtype=np.int32)
    a = rng.integers(MODELS, size=judgments_count, dtype=np.int32)
    b = (a + rng.integers(1, MODELS, size=judgments_count, dtype=np.int32)) % MODELS
    score = np.empty(judgments_count, dtype=np.float32)
    for low in range(0, judgments_count, 1 << 20):
        rows = slice(low, low + (1 << 20))
        odds = np.exp(logits[a[rows]] - logits[b[rows]])
        score[rows] = rng.random(len(odds)) < odds / (1 + odds)
    model_a, model_b = names[a], names[b]
    del a, b

    start = time.process_time()
    judgments = Judgments.from_arrays(query=query, model_a=model_a, model_b=model_b, score=score)
    columns = time.process_time()
    fit = BradleyTerry().fit(judgments)
    lower, upper = fit.interval().T
    end = time.process_time()

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    result = {
        "columns_s": columns - start,
        "fit_s": end - columns,
        "peak_gib": peak / 2**30,
        "coverage": float(np.mean((lower <= logits) & (logits <= upper))),
        "largest_error": float(np.abs(fit.logits - logits).max()),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--judgments", type=int, default=10_000_000)
    main(parser.parse_args().judgments)
