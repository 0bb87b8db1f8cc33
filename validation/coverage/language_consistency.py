"""Coverage of the intervals of a judge's consistency across languages.

In each language, the verdict of a simulated judge on an item is a common verdict with a known
probability, and random otherwise. Items on one query are correlated. The true alpha is known: it is
``s ** 2`` if ``s`` is the share of common verdicts. The table has the coverage of the 95 %
intervals of alpha over all languages, of one pair of languages, and of one language with the
others, and the share of simulations with an interval. There is no interval with fewer than 14
queries, or with fewer than 5 queries that have different verdicts.

    python validation/coverage/language_consistency.py    # minutes
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser, seeded

from mirage.metaeval import language_consistency


def held(queries: int, items: int, languages: int, common: float, drawn: int) -> np.ndarray:
    """Return the coverage of the existing intervals, and the share with an interval."""
    truth, rows = common**2, []
    for seed in range(drawn):
        rng = seeded(seed)
        query = np.repeat(np.arange(queries), items)
        # A third of the items of a query have the query's own verdict.
        own = rng.random(queries * items) < 0.4
        of_query = (rng.random(queries) < 0.4)[query]
        shared = np.where(rng.random(len(query)) < 1 / 3, of_query, own)
        said = np.where(
            rng.random((languages, len(query))) < common,
            shared,
            rng.random((languages, len(query))) < 0.4,
        )
        verdicts = {
            str(code): {
                (str(q), str(n)): int(v) for n, (q, v) in enumerate(zip(query, row, strict=True))
            }
            for code, row in enumerate(said)
        }
        found = language_consistency(verdicts, draws=500, seed=seed)
        ends = (found.alpha_interval, found.rows[0].interval, found.kappas_intervals["0"])
        rows.append([np.nan if np.isnan(low) else low <= truth <= high for low, high in ends])
    table = np.array(rows, dtype=float)
    shown = np.mean(~np.isnan(table[:, 0]))
    return np.append(np.nanmean(table, axis=0) if shown else [np.nan] * 3, shown)


def main() -> None:
    """Print everything."""
    parser = script_parser(__doc__, seed=True)
    options = parser.parse_args()
    drawn = 4 if options.quick else 400
    print("queries  items each  languages  true alpha   alpha   pair   one with others   shown")
    for languages in (3, 18):
        for common in (0.55, 0.8, 0.95):
            for queries, items in ((5, 3), (20, 1), (20, 3), (40, 3), (100, 1)):
                if languages == 18 and (queries == 100 or queries == 5):
                    continue
                row = held(
                    queries, items, languages, common, drawn if languages < 18 else drawn // 4
                )
                print(
                    f"{queries:7}  {items:10}  {languages:9}  {common**2:10.2f}   "
                    + "   ".join(f"{value:.3f}" for value in row),
                    flush=True,
                )
                names = (
                    f"{languages} languages, alpha {common**2:.2f}",
                    f"{queries} x {items} items",
                )
                columns = "alpha", "pair", "one with others", "shown"
                for column, value in zip(columns, row, strict=True):
                    add_figure(value, *names, column)
    save(parser, options)


if __name__ == "__main__":
    main()
