"""How often a verdict on a bound is wrong, by simulation.

``assert_feature`` compares one-sided confidence bounds with a number. In this script the number is
the true mean itself, the hardest case. Then "holds" and "broken" are both wrong, and each should
occur in at most ``alpha`` (0.05) of the cases. The first table has both shares for 5, 20 and 100
queries, alone or in clusters of five with a correlation of 0.5. The values are rates near and far
from 0 and 1, shares between 0 and 1 of three shapes, and skewed numbers without a range.

The second table shows how often a bound of 0.8 holds, is broken or is inconclusive, by the true
rate.

    python validation/coverage/feature_bounds.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import beta

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.statistics.bounds import mean_bounds
from mirage.statistics.worlds import correlated_deviates
from mirage.testing.feature_bounds import ALPHA

RATES = (0.02, 0.1, 0.5, 0.8, 0.98)
SHAPES = {"share": (2, 2), "share near 1": (9, 1), "share at the ends": (0.2, 0.1)}
CORRELATION = 0.5


def values_of(deviates: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return values of each kind from normal deviates, and the true mean of each."""
    uniform = ndtr(deviates)
    values = {f"rate {rate}": (deviates < ndtri(rate)).astype(float) for rate in RATES}
    means = {f"rate {rate}": rate for rate in RATES}
    for name, (a, b) in SHAPES.items():
        values[name], means[name] = beta.ppf(uniform, a, b), a / (a + b)
    values["skewed number"], means["skewed number"] = np.exp(deviates), np.exp(0.5)
    return values, means


def wrong_verdicts(repeats: int) -> None:
    """Print how often verdicts are wrong if the bound is the true mean."""
    print("queries  clusters of  values              called broken  called to hold  no bound")
    for queries in (5, 20, 100):
        for size in (1, 5):
            if queries // size < 2:
                continue
            rng = seeded([queries, size])
            codes, correlation = np.arange(queries) // size, CORRELATION * (size > 1)
            values, means = values_of(correlated_deviates(codes, correlation, repeats, rng))
            for name, columns in values.items():
                top = np.inf if "number" in name else 1.0
                low, high = np.full(repeats, -top if top > 1 else 0.0), np.full(repeats, top)
                bounds = mean_bounds(columns, codes, low, high, level=1 - ALPHA)
                broken, held = bounds[:, 1] < means[name], bounds[:, 0] > means[name]
                none = np.isnan(bounds).any(axis=1)
                print(
                    f"{queries:7}  {size:11}  {name:18}  {broken.mean():13.3f}  "
                    f"{held.mean():14.3f}  {none.mean():8.3f}",
                    flush=True,
                )
                names = "at the bound", f"{queries} queries, clusters of {size}", name
                add_figure(broken.mean(), *names, "called broken")
                add_figure(held.mean(), *names, "called to hold")
                add_figure(none.mean(), *names, "no bound")


def outcomes(repeats: int, least: float = 0.8) -> None:
    """Print how often a bound holds, is broken, or is inconclusive."""
    print(f"\nge={least}: holds, broken, inconclusive")
    print("queries  " + "  ".join(f"  true rate {rate:<4}" for rate in (0.4, 0.7, 0.8, 0.9, 1.0)))
    for queries in (5, 20, 100):
        rng = seeded(queries)
        cells = []
        for rate in (0.4, 0.7, 0.8, 0.9, 1.0):
            values = (rng.random((queries, repeats)) < rate).astype(float)
            ends = np.zeros(repeats), np.ones(repeats)
            low, high = mean_bounds(values, np.arange(queries), *ends, level=1 - ALPHA).T
            holds, broken = np.mean(low >= least), np.mean(high < least)
            cells.append(f"{holds:.2f} {broken:.2f} {1 - holds - broken:.2f}")
            names = f"bound of {least}", f"{queries} queries", f"true rate {rate}"
            add_figure(holds, *names, "holds")
            add_figure(broken, *names, "broken")
        print(f"{queries:7}    " + "    ".join(cells), flush=True)


if __name__ == "__main__":
    parser = script_parser(__doc__, seed=True)
    options = parser.parse_args()
    wrong_verdicts(20 if options.quick else 2000)
    outcomes(20 if options.quick else 2000)
    save(parser, options)
