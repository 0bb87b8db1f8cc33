"""What can be said of production logs: is a drift noise, and has a log a place on a board?

Nothing of the real data that is read here trains anything that ships.

``--part intervals``: differences between two independent sets of clusters, simulated. Clusters have
skewed sizes (1 to 60 queries; one in twenty of a set is large), what is in one hangs together with
a correlation of 0.5. Printed are, for 5, 20 and 100 clusters (and unequal numbers), the share of 95
% intervals of the difference that hold it, for rates of 0.02, 0.1, 0.5 and 0.98, for shares between
0 and 1 and for numbers without an end; and how often any of the eight columns is called changed,
which none is (alpha 0.05), where the two sets are alike, and where the later one has larger
clusters. A dash: no interval is shown.

    python benchmarks/logs.py --quick
    python benchmarks/logs.py --part intervals
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtr, ndtri

from mirage.statistics.two_sample import MeanDifference, mean_differences

CLUSTERS = ((5, 5), (5, 20), (20, 20), (20, 100), (100, 100))
RATES = (0.02, 0.1, 0.5, 0.98)
CORRELATION = 0.5
LOW = np.array([0.0] * 6 + [-np.inf] * 2)
HIGH = np.array([1.0] * 6 + [np.inf] * 2)
NAMES = (*(f"rate {rate}" for rate in RATES), "share", "share, skewed", "number", "skewed number")
MEANS = np.array([*RATES, 0.5, 1 - ndtr(1 / np.sqrt(2)), 0.0, np.exp(0.5)])


def drawn(clusters: int, larger: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Values ``(queries, columns)`` and clusters of one set."""
    sizes = rng.choice([1, 1, 1, 2, 3, 5, 8], clusters)
    sizes[rng.random(clusters) < 0.05] = 60
    sizes = np.ceil(sizes * larger).astype(int)
    codes = np.repeat(np.arange(clusters), sizes)
    shared = rng.normal(size=(clusters, len(MEANS)))[codes]
    seen = np.sqrt(CORRELATION) * shared
    seen += np.sqrt(1 - CORRELATION) * rng.normal(size=shared.shape)
    rates = [seen[:, i] < ndtri(rate) for i, rate in enumerate(RATES)]
    columns = [*rates, ndtr(seen[:, 4]), ndtr(seen[:, 5] - 1), seen[:, 6], np.exp(seen[:, 7])]
    return np.stack(columns, axis=1).astype(float), codes


def changed(row: MeanDifference) -> bool:
    """Whether a difference is called one: as `mirage.testing.drift` does it."""
    return (
        row.p <= 0.05
        and not row.interval[0] <= 0 <= row.interval[1]
        and row.interval[0] == row.interval[0]
    )


def intervals(repeats: int, permutations: int) -> None:
    """How often intervals hold, and how often alarms are false."""
    print("clusters  larger  " + "  ".join(f"{name:>13}" for name in NAMES) + "  false alarms")
    for before, after in CLUSTERS:
        for larger in (1.0, 3.0):
            rng = np.random.default_rng([before, after, int(larger)])
            held, shown, alarms = np.zeros(len(MEANS)), np.zeros(len(MEANS)), 0
            for _ in range(repeats):
                sets = (*drawn(before, 1.0, rng), *drawn(after, larger, rng))
                rows = mean_differences(*sets, LOW, HIGH, permutations=permutations)
                ends = np.array([row.interval for row in rows])
                shown += ~np.isnan(ends[:, 0])
                held += (ends[:, 0] <= 0) & (ends[:, 1] >= 0)
                alarms += any(map(changed, rows))
            share = [
                f"{h / s:13.3f}" if s else f"{'-':>13}" for h, s in zip(held, shown, strict=True)
            ]
            print(
                f"{before:3} {after:4}  {larger:6}  "
                + "  ".join(share)
                + f"  {alarms / repeats:.3f}",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("intervals",), default="intervals")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    intervals(300 if options.quick else 1000, 499 if options.quick else 999)


if __name__ == "__main__":
    main()
