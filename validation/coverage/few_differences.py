"""Lowest coverage of bootstrap intervals if few verdicts differ; computed exactly where possible.

Each query has one pair of responses.

* ``share``: a judge prefers the answer shown first on a share of the queries, from 2 to 50 %. The
  coverage is exact: the intervals for all numbers of such queries, weighted by the binomial
  distribution.
* ``kappa``: two judges whose verdicts differ on 8, 16 or 30 % of the queries; one verdict is given
  in half or in four fifths of the cases. 400 simulations per row.

Samples without an interval do not count.

    python validation/coverage/few_differences.py  # a quarter of a minute
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.statistics.agreement import fleiss_of, terms
from mirage.statistics.bootstrap import bootstrap, ratio

QUERIES = (14, 20, 40, 60, 100)
SHARES = np.linspace(0.02, 0.5, 49)


def share_interval(events: int, queries: int) -> tuple[float, float]:
    """Return the interval of a share that is 1 on some queries and 0 on the others."""
    table = np.ones((queries, 2))
    table[events:, 0] = 0
    return bootstrap(np.arange(queries), table, lambda sums: ratio(sums[..., 0], sums[..., 1]))[1]


def share_coverage(queries: int) -> tuple[float, float]:
    """Return the lowest exact coverage over true shares, and the share at which it occurs."""
    counts = np.arange(queries + 1)
    lower, upper = np.array([share_interval(int(k), queries) for k in counts]).T
    coverages = []
    for share in SHARES:
        chance = binom.pmf(counts, queries, share) * ~np.isnan(lower)
        holds = (lower <= share) & (share <= upper)
        coverages.append(float(chance @ holds / chance.sum()))
    lowest = int(np.argmin(coverages))
    return coverages[lowest], float(SHARES[lowest])


def kappa_coverage(
    queries: int, differ: float, frequent: float, replications: int
) -> tuple[float, float]:
    """Return the coverage of kappa's interval, and the share of samples that have an interval.

    Args:
        queries: Number of queries.
        differ: Share of the queries on which the two verdicts differ.
        frequent: Share of the more frequent verdict.
        replications: Number of samples.
    """
    kinds = terms(np.array([[2, 0], [1, 1], [0, 2]]))  # both frequent, different, both rare
    chances = np.array([frequent - differ / 2, differ, 1 - frequent - differ / 2])
    true = float(fleiss_of(chances @ kinds))
    rng, held = seeded([queries, round(100 * differ), round(100 * frequent)]), []
    for counts in rng.multinomial(queries, chances, size=replications):
        table = np.repeat(kinds, counts, axis=0)
        lower, upper = bootstrap(np.arange(queries), table, fleiss_of, draws=300)[1]
        if not np.isnan(lower):
            held.append(lower <= true <= upper)
    return float(np.mean(held)) if held else float("nan"), len(held) / replications


def main() -> None:
    """Print the lowest coverage for each number of queries."""
    parser = script_parser(__doc__, seed=True)
    options = parser.parse_args()
    sizes, replications = (QUERIES[:2], 10) if options.quick else (QUERIES, 400)
    for queries in sizes:
        coverage, share = share_coverage(queries)
        print(f"share, {queries:3} queries: lowest coverage {coverage:.3f}, at {share:.2f}")
        add_figure(coverage, "share", f"{queries} queries", "lowest coverage")
    for frequent in (0.5, 0.8):
        for differ in (0.08, 0.16, 0.3):
            for queries in sizes:
                coverage, share = kappa_coverage(queries, differ, frequent, replications)
                row = f"kappa, verdicts differ on {differ:.0%}, frequent one {frequent:.0%}"
                print(f"{row}, {queries:3} queries: {coverage:.3f}; interval in {share:.0%}")
                add_figure(coverage, row, f"{queries} queries", "coverage")
    save(parser, options)


if __name__ == "__main__":
    main()
